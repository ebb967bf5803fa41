#!/bin/sh
# slots.sh <llama bin> <llama.cpp's source> <ggml's prefix> <plugin> <model>: what a token costs when llama.cpp decodes
# for one client and for four at once, with flash attention and without (slots.c). Kernels and nodes of a token of
# each client together, the modelled time, and of that what is control, locks and the host. Fails where a node is left
# to the CPU, or where a token loads a PDI.
#
# The emulated NPU is used unless GGML_HSA_EMULATE is set. Status 77: there is no llama.cpp, or no compiler for the
# program that calls it.
set -eu
fifth=model
. "$(dirname "$0")/prologue.sh"
model=$5
export GGML_HSA_EMULATE="${GGML_HSA_EMULATE-aie2}" GGML_BACKEND_PATH="$plugin"
program slots
echo "flash slots kernels dispatches  PDIs waits  by host  CPU       ms  control     lock     host"
for flash in on off; do
    for slots in 1 4; do
        "$work/slots" "$bin" "$model" $flash $slots
    done
done | tee "$work/lines"
awk '$5 > 0 || $8 > 0 { bad = 1 } END { exit bad || NR != 4 }' "$work/lines" ||
    fail "a token loads a PDI, or leaves nodes to the CPU"
