#!/bin/sh
# graphs.sh <llama bin> <plugin> <tiny-model>: stock llama.cpp with tiny models of random weights in the
# architectures that tiny-model knows, on the CPU alone and with the plugin. What counts is their graphs:
# a line each with the graph's splits and nodes, and a failure when a node that does something was given
# to another backend than the device (looking up the embedding apart, which llama.cpp keeps on the CPU), or
# when the text is not the CPU's.
#
#   TOKENS=24            how many are generated
#   ARCHITECTURES="..."  which; what has a slash is a file, a model of one's own
#   TYPES="Q8_0 F16"     each model is quantized so before; the text is to be the CPU's with the same file
#   PROMPT=bade
#   FLASH=auto           on or off: flash attention
#   CACHE=f16            the type of keys and values in the cache, such as q8_0
#
# The emulated NPU is used unless GGML_HSA_EMULATE is set. Status 77: there is no llama.cpp.
set -eu
export LC_ALL=C
if [ $# != 3 ]; then
    echo "usage: graphs.sh <directory of llama-completion> <libggml-hsa.so> <tiny-model>" >&2
    exit 2
fi
bin=$1
plugin=$2
tiny=$3
if [ ! -x "$bin/llama-completion" ]; then
    echo "skipped: no llama.cpp in $bin; \`make llama\` builds it"
    exit 77
fi
for each in ${ARCHITECTURES:-}; do
    case $each in
    */*)
        if [ ! -r "$each" ]; then
            echo "skipped: there is no model '$each'"
            exit 77
        fi
        ;;
    esac
done
export GGML_HSA_EMULATE="${GGML_HSA_EMULATE-aie2}" GGML_HSA_HOST_FALLBACK=0
case $GGML_HSA_EMULATE in
gfx*)
    if [ ! -x "$(clang++-19 --print-prog-name=lld 2>/dev/null)" ]; then
        echo "skipped: no clang++-19 with its lld to compile GPU kernels with"
        exit 77
    fi
    ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
failed=0

# run <out> <model> <arguments...>: the text goes to <out>.txt, the log to <out>.log.
# llama.cpp does not wait for its log, which is the text as well, and on a busy machine often ends first:
# a run without its last line is made again.
run() {
    out=$work/$1
    file=$2
    shift 2
    attempt=0
    while [ $((attempt += 1)) -le 60 ]; do # the CPU's take a tenth of a second
        "$bin/llama-completion" -m "$file" -p "${PROMPT:-bade}" -n "${TOKENS:-24}" --temp 0 -no-cnv -fa "${FLASH:-auto}" -t 1 \
            -ctk "${CACHE:-f16}" -ctv "${CACHE:-f16}" "$@" \
            </dev/null >"$out.txt" 2>"$out.log" || return 1
        ! grep -a -q 'graphs reused' "$out.log" || return 0
    done
    echo "graphs.sh: llama-completion lost the end of its log 60 times" >&2
    return 1
}

# model <architecture or file> <type>: $model is a file with it, $label its name in the table.
model() {
    label=$1
    model=$work/$1.gguf
    case $1 in
    */*)
        label=${1##*/}
        label=${label%.gguf}
        model=$1
        ;;
    *) "$tiny" "$model" "$1" ;;
    esac
    [ "$2" != as-it-is ] || return 0
    label="$label $2"
    if ! "$bin/llama-quantize" --allow-requantize "$model" "$work/quantized.gguf" "$2" >"$work/quantize.log" 2>&1; then
        tail -n 5 "$work/quantize.log" >&2
        return 1
    fi
    model=$work/quantized.gguf
}

# A line of the table: <architecture or file> <type>.
one() {
    if ! model "$1" "$2"; then
        echo "graphs.sh: llama-quantize cannot make $2 of $1" >&2
        failed=1
        return 0
    fi
    if ! (unset GGML_BACKEND_PATH && run cpu "$model" -ngl 0 --device none) ||
        ! (export GGML_BACKEND_PATH="$plugin" && run hsa "$model" -ngl 99 --device HSA0 &&
            export GGML_SCHED_DEBUG=2 TOKENS=2 && run nodes "$model" -ngl 99 --device HSA0 -v); then
        tail -n 5 "$work"/*.log >&2
        echo "graphs.sh: llama-completion failed with $label" >&2
        failed=1
        return 0
    fi
    # The last graph that was divided; views and such are no work.
    grep -a -E ' D node #[ 0-9]+\(|SPLIT #[0-9]' "$work/nodes.log" | awk '
        /SPLIT #0/ { n = away = 0; names = ""; splits = 0 }
        /SPLIT #/ { splits++; next }
        {
            op = $0; sub(/.*node #[ 0-9]+\( */, "", op); sub(/\).*/, "", op)
            node = $0; sub(/.*\): */, "", node); sub(/ .*/, "", node)
            to = $0; sub(/^[^[]*\[ */, "", to); sub(/[] ].*/, "", to)
            n++
            if (to != "HSA0" && op !~ /^(VIEW|RESHAPE|PERMUTE|TRANSPOSE)$/) {
                away++
                names = names (names == "" ? "" : ", ") op " " node
            }
        }
        END { printf "%d\n%d\n%d\n%s\n", splits, n, away, names }' >"$work/seen"
    { read -r splits && read -r nodes && read -r away && read -r names; } <"$work/seen" || names=
    text=same
    cmp -s "$work/cpu.txt" "$work/hsa.txt" || text="DIFFERENT from the CPU's"
    printf "%-${width}s %8d %8d %8d %-24s %s\n" "$label" "$splits" "$nodes" "$away" "$names" "$text"
    if [ "$nodes" = 0 ] || [ "$splits" != $((1 + away)) ] || [ "$text" != same ] || { [ "$away" != 0 ] && [ "$names" != "GET_ROWS embd" ]; }; then
        failed=1
    fi
}

width=10
[ -z "${TYPES:-}" ] || width=18
printf "%-${width}s %8s %8s %8s %-24s %s\n" model splits nodes "of them" "not on the device" text
for each in ${ARCHITECTURES:-llama qwen2 qwen3 qwen3moe gemma2 gemma3}; do
    for type in ${TYPES:-as-it-is}; do
        one "$each" "$type"
    done
done
exit $failed
