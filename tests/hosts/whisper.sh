#!/bin/sh
# whisper.sh <plugin> <set> <whisper-model>: Debian's own whisper.cpp with the plugin as it was built here, on
# emulated NPUs. A tiny model of speech, which whisper-model makes, writes down what it hears on the CPU alone and with
# the plugin: as f16 with flash attention and without, and quantized by whisper.cpp's own tool. The words must be the
# same, their probabilities within MOST, and whisper.cpp must have left nothing to the CPU.
set -eu
. "$(dirname "$0")/prologue.sh"
plugin=$(realpath "$1")
maker=$(realpath "$3")
most=${MOST:-0.05}
begin "$2" whisper.cpp
version=$(sed -n 's/^whisper.cpp-tools //p' "$set/packages")
cd "$backends"

# hear <name> <model> <arguments>: the words and their probabilities go to <name>, one a line. Whisper hears 128 of its
# 1,500 steps, 2.5 seconds, takes the likeliest word, and is given no second try.
hear() {
    name=$1
    model=$2
    shift 2
    rm -f "$work/$name.json"
    timeout 200 "$set/run" whisper-cli -m "$work/$model" -f "$work/sound.wav" -t 1 -ac 128 -nt -nf -bs 1 -bo 1 -ojf \
        -of "$work/$name" "$@" >"$work/log" 2>&1 || fail "$name: whisper-cli fails"
    sed -n 's/^ *\t*"id": \([0-9]*\),$/\1/p; s/^ *\t*"p": \([0-9.e-]*\),$/\1/p' "$work/$name.json" |
        paste - - >"$work/$name"
    [ "$(wc -l <"$work/$name")" -ge 10 ] || fail "$name: fewer than ten words"
}

"$maker" "$work/f16" "$work/sound.wav"
"$set/run" whisper-quantize "$work/f16" "$work/q5_1" q5_1 >"$work/log" 2>&1 || fail "whisper-quantize fails"

while read -r npu weights arguments; do
    # shellcheck disable=SC2086
    hear cpu "$weights" -ng $arguments
    export GGML_BACKEND_PATH="$plugin" GGML_HSA_EMULATE="$npu" GGML_HSA_EXPLAIN=1
    # shellcheck disable=SC2086
    hear npu "$weights" $arguments
    unset GGML_BACKEND_PATH GGML_HSA_EMULATE GGML_HSA_EXPLAIN
    what="$npu, $weights${arguments:+ $arguments}"
    refused "$work/log" "a ggml in whisper.cpp $version"
    grep -q 'using HSA0 backend' "$work/log" || fail "$what: whisper.cpp does not take the device HSA0"
    ! grep 'ggml-hsa: HSA0: ' "$work/log" >&2 || fail "$what: not all of it is on the device"
    off=$(paste "$work/cpu" "$work/npu" | awk -v most="$most" '
        { off = $2 > $4 ? $2 - $4 : $4 - $2; max = off > max ? off : max }
        $1 != $3 || off > most { bad = 1 }
        END { printf "%.3f", max; exit bad }') || {
        paste "$work/cpu" "$work/npu" >&2
        fail "$what: words on the CPU and on the device, with their probabilities, differ"
    }
    echo "whisper.cpp $version, $what: $(wc -l <"$work/cpu") words as on the CPU, probabilities off by $off"
done <<END
aie2 f16
aie2 f16 -nfa
aie2 q5_1
aie2p f16
END
