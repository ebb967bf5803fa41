#!/bin/sh
# tool.sh <llama bin> <llama.cpp's source> <ggml's prefix> <ggml-hsa> <tiny-model>: `ggml-hsa model` with llama.cpp's own
# graphs. Tiny models of ten architectures, two of which the tool knows by itself: each gets a time, and what stays on
# the CPU is named with a reason. The time of a token of three of them, one dense, one with experts and a state, one with
# a state alone, is that of llama.cpp's own run on the same emulated NPU, to 3 %: it may differ by which experts are
# chosen and where recurrent states lie. Then what is refused: files that are not whole, and libraries that are not
# llama.cpp's, each with the name, the reason and the mend.
#
#   ARCHITECTURES="..."  which
#   COMPARED="..."       which of them with llama.cpp's own run
#
# Status 77: there is no llama.cpp.
set -eu
export LC_ALL=C
if [ $# != 5 ]; then
    echo "usage: tool.sh <directory of libllama.so> <llama.cpp's source> <ggml's prefix> <ggml-hsa> <tiny-model>" >&2
    exit 2
fi
llama=$(cd "$1" 2>/dev/null && pwd) || llama=$1
source=$2
prefix=$(cd "$3" && pwd)
tool=$4
tiny=$5
here=$(dirname "$0")
if [ ! -r "$llama/libllama.so" ]; then
    echo "skipped: no llama.cpp in $llama; \`make llama\` builds it"
    exit 77
fi
unset GGML_BACKEND_PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
# Kernels are compiled once for all runs.
export GGML_HSA_KERNEL_CACHE_DIR="$work/cache" GGML_HSA_KERNEL_CACHE_MAX_SIZE=100M
failed=0

fail() {
    echo "tool.sh: $*" >&2
    failed=1
}

# value KEY: of the report in JSON.
value() {
    sed -n "s/^  \"$1\": \"\{0,1\}\([^\",]*\).*/\1/p" "$work/out"
}

if [ -r "$source/include/llama.h" ] && command -v cc >/dev/null; then
    cc -o "$work/token" -I"$here/../../include" -I"$source/include" -I"$prefix/include" "$here/token.c" -L"$llama" \
        -L"$prefix/lib" -lllama -lggml -lggml-base -Wl,-rpath,"$llama" -Wl,-rpath,"$prefix/lib"
else
    echo "skipped: times are not compared: no C compiler, or no llama.h in $source"
fi

printf '%-14s %6s %6s %-30s %s\n' model nodes NPU "on the CPU" "ms a token"
for arch in ${ARCHITECTURES:-llama gemma3 qwen3next mamba2 granitehybrid falcon-h1 jamba lfm2 rwkv7 bert}; do
    "$tiny" "$work/model.gguf" "$arch"
    context=256
    [ "$arch" != bert ] || context=32 # all of it at once
    if ! "$tool" model "$work/model.gguf" --llama "$llama" --context $context --json >"$work/out" 2>"$work/err"; then
        fail "$arch: $(cat "$work/err")"
        continue
    fi
    names=$(sed -n 's/^ *"op": "\([A-Z_]*\)",/\1/p' "$work/out" | sort -u | tr '\n' ' ')
    reasons=$(grep -c '^ *"why": "..*"' "$work/out" || true)
    ns=$(value ns)
    printf '%-14s %6d %6d %-30s %s\n' "$arch" "$(value nodes)" "$(value nodes_on_npu)" "$names" \
        "$(awk -v ns="${ns:-0}" 'BEGIN { printf "%.3f", ns * 1e-6 }')"
    [ -s "$work/err" ] && fail "$arch: in a pipe it says $(cat "$work/err")"
    [ "$(value architecture)" = "$arch" ] && [ -n "$(value llama_cpp)" ] || fail "$arch: not llama.cpp's graph"
    [ "${ns:-0}" -gt 0 ] && [ "$(value kernels)" -gt 0 ] || fail "$arch: no time"
    # llama.cpp keeps the table of embeddings on the CPU: at least that is told, and all reasons are.
    case " $names" in
    *" GET_ROWS "*) ;;
    *) fail "$arch: who looks the embedding up is not told" ;;
    esac
    [ "$reasons" -gt 0 ] && [ "$(value nodes)" -gt "$(value nodes_on_npu)" ] || fail "$arch: no reason"
    case " ${COMPARED:-gemma3 qwen3next mamba2} " in
    *" $arch "*) compared=1 ;;
    *) compared=0 ;;
    esac
    if [ -x "$work/token" ] && [ $compared = 1 ]; then
        GGML_HSA_EMULATE=aie2 GGML_BACKEND_PATH=$(dirname "$tool")/libggml-hsa.so \
            "$work/token" "$llama" "$work/model.gguf" HSA0 256 >"$work/own" 2>"$work/err" ||
            fail "$arch: llama.cpp itself: $(cat "$work/err")"
        read -r kernels dispatches loads own <"$work/own"
        awk -v told="$ns" -v own="$own" 'BEGIN { d = told / own - 1; exit !(d < 0.03 && d > -0.03) }' ||
            fail "$arch: $ns ns, and $own of llama.cpp itself ($kernels kernels, $dispatches dispatches, $loads PDIs)"
    fi
done

# A layer of each kind, multiplied, is the same work.
"$tiny" "$work/model.gguf" gemma3
for way in whole layers; do
    "$tool" model "$work/model.gguf" --llama "$llama" --context 256 --json --$way >"$work/out"
    echo "$(value nodes) $(value splits) $(value kernels)" >"$work/$way"
done
cmp -s "$work/whole" "$work/layers" || fail "by parts: $(cat "$work/layers"), whole: $(cat "$work/whole")"

# A file's beginning is enough: no weight is read.
"$tiny" "$work/model.gguf" mamba2
head -c 60000 "$work/model.gguf" >"$work/half.gguf"
for file in model half; do
    "$tool" model "$work/$file.gguf" --llama "$llama" --context 256 >"$work/$file" || fail "$file.gguf is refused"
done
cmp -s "$work/model" "$work/half" || fail "half a file: $(cat "$work/half")"

# An op that the device refuses is on the CPU with the device's own reason.
"$tiny" "$work/model.gguf" llama
GGML_HSA_MUL_MAT=precise "$tool" model "$work/model.gguf" --llama "$llama" --context 1048576 --count >"$work/out"
grep -q 'on the CPU *2 of SOFT_MAX: .*rows of 1048576 elements are too long' "$work/out" ||
    fail "no reason for SOFT_MAX: $(cat "$work/out")"

# refused FILE LIBRARY TEXT...: status 1, one line that has the file's name and each text.
refused() {
    status=0
    "$tool" model "$1" --llama "$2" >"$work/out" 2>&1 || status=$?
    [ $status = 1 ] && [ "$(wc -l <"$work/out")" = 1 ] || fail "$1: status $status: $(cat "$work/out")"
    for text in "$@"; do
        [ "$text" = "$2" ] || grep -qF -- "$text" "$work/out" || fail "not '$text': $(cat "$work/out")"
    done
}
"$tiny" "$work/mamba2.gguf" mamba2
head -c 3000 "$work/mamba2.gguf" >"$work/short.gguf"
sed 's/mamba2/mamba9/g' "$work/mamba2.gguf" >"$work/other.gguf"
sed 's/blk.1.ssm_in/blk.1.ssm_xx/' "$work/mamba2.gguf" >"$work/torn.gguf"
refused "$work/short.gguf" "$llama" "failed to read key-value pairs" "get it anew"
refused "$work/other.gguf" "$llama" "unknown model architecture: 'mamba9'" "no older than it"
refused "$work/torn.gguf" "$llama" "blk.1.ssm_in.weight" "is the file whole"
refused "$work/mamba2.gguf" none "the architecture 'mamba2' is not known"
refused "$work/mamba2.gguf" /nowhere "its library was not found, /nowhere" "--llama DIR"
refused "$work/mamba2.gguf" "$llama/libggml-cpu.so" "has no llama_log_set" "--llama DIR"
exit $failed
