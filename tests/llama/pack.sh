#!/bin/sh
# pack.sh <gen-kernels> <llama bin> <plugin> <plugin without compilers> <model> <directory> <tiny-model>: with the
# model, or where it is missing one that tiny-model makes, a short run of stock
# llama.cpp is recorded and made into a pack. A plugin without compilers then runs from the pack: the recorded
# run, and one with a longer prompt, more tokens and another context. Both must write what the CPU writes, with
# every MUL_MAT on the device and nothing compiled. Without a pack, and with one of another version, it must
# write the same, on the CPU, and say so.
set -eu
export LC_ALL=C
gen=$1
bin=$2
plugin=$3
packs_only=$4
model=$5
dir=$6
tiny=$7
here=$(dirname "$0")

length=830 # characters of the longer prompt: some 270 tokens
if [ ! -r "$bin/llama-completion" ]; then
    echo "skipped: there is no $bin/llama-completion (make llama)"
    exit 77
fi
rm -rf "$dir"
mkdir -p "$dir"
if [ ! -r "$model" ]; then
    "$tiny" "$dir/tiny.gguf"
    model=$dir/tiny.gguf
    length=220 # each byte is one
fi
unset GGML_BACKEND_PATH GGML_HSA_KERNEL_DIR GGML_HSA_RECORD GGML_HSA_JIT_COMMAND GGML_HSA_MUL_MAT GGML_HSA_HOST_FALLBACK
export GGML_HSA_KERNEL_CACHE_MAX_SIZE=0

fail() {
    echo "pack.sh: $*"
    exit 1
}

text="Once upon a time, there was a little girl named Lily. She loved to play outside in the park."
for _ in 1 2 3 4; do
    text="$text $text"
done
text=$(echo "$text" | cut -c 1-$length)

# llama <case> <arguments>: the recorded run is "short".
llama() {
    kind=$1
    shift
    case $kind in
    short) set -- "$@" -p "Once upon a time" -n 8 ;;
    long) set -- "$@" -p "$text" -n 12 -c 512 ;; # beyond the 256 tokens that attention first looks at
    esac
    "$@" -m "$model" --temp 0 -t 1 -no-cnv -fa off </dev/null
}

# run <name> <case> <arguments>: text in <name>.txt, log in <name>.log. llama.cpp does not wait for its log on a
# busy machine: a run that lost its end is made again.
run() {
    name=$dir/$1
    kind=$2
    shift 2
    attempt=0
    while [ $((attempt += 1)) -le 60 ]; do # the CPU's take a tenth of a second
        rm -f "$name.log"
        if ! GGML_SCHED_DEBUG=2 GGML_HSA_ENABLE_LOG=1 llama "$kind" "$bin/llama-completion" "$@" -v --log-prefix \
            --log-timestamps --log-file "$name.log" >"$name.txt" 2>"$name.err"; then
            tail -n 20 "$name.err" "$name.log"
            fail "llama-completion failed: $name"
        fi
        awk -v device=HSA0 -f "$here/log.awk" "$name.log" >"$name.seen"
        if grep -q '^speed ' "$name.seen" && { [ $# -lt 2 ] || [ "$1 $2" = "-ngl 0" ] ||
            grep -q 'ggml-hsa: HSA0: [1-9][0-9]* kernels sent\|is left to the CPU' "$name.log"; }; then
            return
        fi
    done
    fail "llama-completion lost the end of its log: $name"
}

same_text() { cmp "$dir/$1.txt" "$dir/$2.txt" || fail "$1 and $2 are not the same text"; }

# counters <name>: compiled, from packs, on a pack's program, nodes on the CPU; the last line counts.
counters() {
    sed -n "s/.*HSA0: [0-9]* kernels sent, \([0-9]*\) compiled, \([0-9]*\) from packs, \([0-9]*\) on a pack's program, \([0-9]*\) nodes.*/\1 \2 \3 \4/p" \
        "$dir/$1.log" | tail -n 1
}

all_on_device() { # all_on_device <name>
    set -- "$1" $(awk '$1 == "matmul" { print $2, $3 }' "$dir/$1.seen")
    if [ "$3" = 0 ] || [ "$2" != "$3" ]; then
        fail "$1: $2 of $3 MUL_MAT on the device"
    fi
    matmuls=$3
}

# ---- without a device, and recorded ----

run cpu-short short -ngl 0
run cpu-long long -ngl 0
export GGML_HSA_EMULATE=aie2
GGML_BACKEND_PATH=$plugin llama short "$gen" --record "$dir/run.json" --output-dir "$dir/pack" -- \
    "$bin/llama-completion" -ngl 99 >"$dir/record.txt" 2>"$dir/record.err" ||
    { cat "$dir/record.txt" "$dir/record.err"; fail "the recorded run failed, or its pack"; }
grep -q '^\([0-9]*\) of \1 kernels made' "$dir/record.txt" || fail "not every recorded kernel was made"

# ---- from the pack ----

export GGML_BACKEND_PATH="$packs_only"
for kind in short long; do
    GGML_HSA_KERNEL_DIR=$dir/pack run "$kind" $kind -ngl 99
    same_text cpu-$kind $kind
    all_on_device $kind
    set -- $(counters $kind)
    [ "$1" = 0 ] || fail "$kind: $1 kernels compiled"
    [ "$4" = 0 ] || fail "$kind: $4 nodes on the CPU inside the plugin"
    [ "$2" -ge 1 ] || fail "$kind: no kernel from the pack"
    case $kind in
    short) [ "$3" = 0 ] || fail "$3 kernels of the recorded run are not in the pack" ;;
    long) [ "$3" -ge 10 ] || fail "only $3 kernels of shapes that were not recorded: this shows nothing" ;;
    esac
    ! grep -q 'left to the CPU' "$dir/$kind.log" || fail "$kind: an op was left to the CPU"
    echo "pack.sh: $kind: $matmuls MUL_MAT all on the device; $1 compiled, $2 from the pack, $3 on its programs"
done

# ---- without what it needs ----

run none short -ngl 99
same_text cpu-short none
grep -q 'GGML_HSA_KERNEL_DIR names no kernel pack: every op' "$dir/none.err" "$dir/none.log" "$dir/none.txt" ||
    fail "no word of a missing pack"
sed -i 's/"compiler": "aie [^"]*"/"compiler": "aie another"/' "$dir/pack/aie2/manifest.json"
GGML_HSA_KERNEL_DIR=$dir/pack run other long -ngl 99
same_text cpu-long other
grep -q 'MUL_MAT is left to the CPU.*another version' "$dir/other.log" || fail "no word of a pack of another version"
echo "pack.sh: without a pack, and with one of another version, the same text on the CPU, with a warning"
