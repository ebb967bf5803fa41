#!/bin/sh
# slots.sh <llama bin> <llama.cpp's source> <ggml's prefix> <plugin> <model>: what a token costs when llama.cpp decodes
# for one client and for four at once, with flash attention and without (slots.c). Kernels and nodes of a token of
# each client together, the modelled time, and of that what is control, locks and the host. Fails where a node is left
# to the CPU, or where a token loads a PDI.
#
# The emulated NPU is used unless GGML_HSA_EMULATE is set. Status 77: there is no llama.cpp, or no compiler for the
# program that calls it.
set -eu
export LC_ALL=C
if [ $# != 5 ]; then
    echo "usage: slots.sh <directory of libllama.so> <llama.cpp's source> <ggml's prefix> <libggml-hsa.so> <model>" >&2
    exit 2
fi
bin=$(cd "$1" 2>/dev/null && pwd) || bin=$1
source=$2
prefix=$(cd "$3" && pwd)
plugin=$4
model=$5
here=$(cd "$(dirname "$0")" && pwd)
if [ ! -r "$bin/libllama.so" ] || [ ! -r "$source/include/llama.h" ]; then
    echo "skipped: no llama.cpp in $bin and $source; \`make llama\` builds it"
    exit 77
fi
if ! command -v cc >/dev/null; then
    echo "skipped: no C compiler"
    exit 77
fi
export GGML_HSA_EMULATE="${GGML_HSA_EMULATE-aie2}" GGML_BACKEND_PATH="$plugin"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

cc -o "$work/slots" -I"$here/../../include" -I"$source/include" -I"$prefix/include" "$here/slots.c" -L"$bin" \
    -L"$prefix/lib" -lllama -lggml -lggml-base -Wl,-rpath,"$bin" -Wl,-rpath,"$prefix/lib"
echo "flash slots kernels dispatches  PDIs waits  by host  CPU       ms  control     lock     host"
for flash in on off; do
    for slots in 1 4; do
        "$work/slots" "$bin" "$model" $flash $slots
    done
done | tee "$work/lines"
awk '$5 > 0 || $8 > 0 { bad = 1 } END { exit bad || NR != 4 }' "$work/lines" || {
    echo "slots.sh: a token loads a PDI, or leaves nodes to the CPU" >&2
    exit 1
}
