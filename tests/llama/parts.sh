#!/bin/sh
# parts.sh <ggml-hsa> <vision-model> <whisper-model>: `ggml-hsa model` with what sees and what hears. Nodes of a picture
# are as many as llama-mtmd-cli itself had for the same file (gemma3, mlp and janus_pro; kernels of the first two as
# well), of sound and of a token as many as whisper-cli had; all of them are on the device. Then what is refused: other projectors, files that are not whole or that say what cannot be, each with the name, the reason and
# the mend.
set -eu
export LC_ALL=C
if [ $# != 3 ]; then
    echo "usage: parts.sh <ggml-hsa> <vision-model> <whisper-model>" >&2
    exit 2
fi
tool=$1
vision=$2
whisper=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
export GGML_HSA_KERNEL_CACHE_DIR="$work/cache" GGML_HSA_KERNEL_CACHE_MAX_SIZE=100M
failed=0

fail() {
    echo "parts.sh: $*" >&2
    failed=1
}

# values KEY...: of the report in JSON, of two reports both.
values() {
    for key in "$@"; do
        sed -n "s/^ *\"$key\": \"\{0,1\}\([^\",]*\).*/\1/p" "$work/out"
    done | tr '\n' ' '
}

# expect FILE WORDS VALUES KEY...
expect() {
    file=$1
    words=$2
    wanted=$3
    shift 3
    # shellcheck disable=SC2086
    "$tool" model "$work/$file" --json $words >"$work/out" 2>"$work/err" || fail "$file: $(cat "$work/err")"
    [ "$(values "$@")" = "$wanted " ] || fail "$file $words: $* $(values "$@"), not $wanted"
    [ ! -s "$work/err" ] || fail "$file: it says $(cat "$work/err")"
}

while read -r projector nodes kernels tokens; do
    "$vision" "$work/$projector" "$work/picture" "$projector"
    expect "$projector" --count "$projector 64 $tokens $nodes $nodes 1" \
        projector patches tokens nodes nodes_on_npu splits
    [ "$kernels" = - ] || expect "$projector" --whole "$kernels" kernels
done <<END
gemma3 64 - 16
mlp 44 117 64
idefics3 60 - 16
internvl 68 - 16
lfm2 67 - 16
janus_pro 62 - 64
phi4 62 - 64
END
"$tool" model "$work/gemma3" >"$work/out"
# A layer twice: llama-mtmd-cli sends 142 as well.
for line in 'by the projector gemma3$' '^  kernels  *142 a picture' '^  expected .* pictures/s$' '^  reconfig .*#$'; do
    grep -q "$line" "$work/out" || fail "a picture has no '$line': $(cat "$work/out")"
done

"$whisper" "$work/whisper.bin" "$work/sound" 64
expect whisper.bin --count "71 76 71 76 64 64 51864" nodes nodes_on_npu steps vocabulary
expect whisper.bin --layers "whisper whisper 92 76" architecture kernels
awk '/"causes_ns"/ { n++ } /"(sound_s|tokens)_per_s": [0-9.]*[1-9]/ { n++ } END { exit n != 4 }' "$work/out" ||
    fail "no time: $(cat "$work/out")"

# refused FILE TEXT...: status 1, one line that has the file's name and each text.
refused() {
    status=0
    "$tool" model "$work/$1" >"$work/out" 2>&1 || status=$?
    [ $status = 1 ] && [ "$(wc -l <"$work/out")" = 1 ] || fail "$1: status $status: $(cat "$work/out")"
    for text in "$@"; do
        grep -qF -- "$text" "$work/out" || fail "not '$text': $(cat "$work/out")"
    done
}
sed 's/gemma3/qwen9a/' "$work/gemma3" >"$work/other"
sed 's/v.blk.1.ln2.bias/v.blk.1.xx2.bias/; s/v.blk.1.ffn_up.weight/v.blk.1.ffn_xx.weight/' "$work/gemma3" >"$work/torn"
sed 's/has_vision_encoder/has_vision_encodex/' "$work/gemma3" >"$work/deaf"
sed 's/vision.patch_size/vision.patch_sizf/' "$work/gemma3" >"$work/unsized"
refused other "the projector 'qwen9a' is not known" gemma3 GGML_HSA_EXPLAIN=1
refused deaf "what hears, with the projector 'gemma3' is not known" GGML_HSA_EXPLAIN=1
refused torn "has no tensor 'v.blk.1.ffn_up.weight'" "is it whole"
refused unsized "does not say clip.vision.patch_size" "is it whole"

# Of whisper.cpp's format every word before the tensors, and what stands before one: `at BYTE OCTALS` writes there.
at() {
    cp "$work/whisper.bin" "$work/bad"
    # shellcheck disable=SC2059
    printf "$2" | dd of="$work/bad" bs=1 seek="$1" conv=notrunc 2>/dev/null
}
first=$(grep -abo 'encoder.positional_embedding' "$work/whisper.bin" | head -n 1 | cut -d: -f1)
while read -r byte octals text; do
    at "$byte" "$octals"
    refused bad "$text" "get it anew"
done <<END
8 \\0\\0\\0\\0 steps of sound: 0
12 \\0\\0\\0\\177 numbers of a step: 2130706432
16 \\003\\0\\0\\0 3 heads of the encoder do not divide 64
32 \\003\\0\\0\\0 3 heads of the decoder do not divide 64
48 \\377\\377\\377\\377 filters of -1 x 201
$((first - 20)) \\011\\0\\0\\0 tensor 0 has dimensions: 9
$((first - 16)) \\377\\0\\0\\0 tensor 0 has a name of the length 255
$((first - 12)) \\310\\0\\0\\0 tensor 0 has the unknown datatype 200
$((first - 8)) \\0\\0\\0\\200 tensor 0 has the dimension -2147483648
$((first - 4)) \\0\\0\\0\\001 ends within encoder.positional_embedding
END
for bytes in 6 40 60 20000 700000; do
    head -c $bytes "$work/whisper.bin" >"$work/short"
    refused short "ends within" "get it anew"
done
sed 's/decoder.blocks.1.mlp.2.bias/decoder.blocks.1.mlp.2.xxxx/; s/encoder.ln_post.weight/encoder.ln_post.xeight/' \
    "$work/whisper.bin" >"$work/torn"
refused torn "has no tensor 'encoder.ln_post.weight'" "is it whole"
exit $failed
