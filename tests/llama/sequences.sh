#!/bin/sh
# sequences.sh <llama bin> <llama.cpp's source> <ggml's prefix> <plugin> <tiny-model>: stock llama.cpp's library as servers
# use it, eight sequences at once and drafted tokens (sequences.c). The tokens must be the CPU's: of a tiny model whose
# layers are all on the emulated NPU, and of one whose layers are divided, one on the CPU, one on the NPU and the head
# on an emulated GPU, each of which must have had nodes. Random weights are often undecided between two words, so that
# products are as precise as the CPU's. Status 77: there is no llama.cpp, or no compiler.
set -eu
fifth="tiny-model"
. "$(dirname "$0")/prologue.sh"
tiny=$5
npu=${GGML_HSA_EMULATE-aie2}
unset GGML_BACKEND_PATH GGML_HSA_EMULATE
program sequences
"$tiny" "$work/model.gguf" llama
"$work/sequences" "$bin" "$work/model.gguf" none 0 >"$work/cpu" 2>"$work/log" ||
    { tail -n 5 "$work/log" >&2; fail "llama.cpp fails on the CPU"; }
[ "$(wc -l <"$work/cpu")" = 9 ] || fail "the CPU wrote $(wc -l <"$work/cpu") lines, not 9"

# on <name> <emulated> <devices> <layers> <device that must have nodes...>
on() {
    name=$1
    emulated=$2
    devices=$3
    layers=$4
    shift 4
    GGML_BACKEND_PATH=$plugin GGML_HSA_EMULATE=$emulated GGML_HSA_HOST_FALLBACK=0 GGML_HSA_MUL_MAT=precise \
        GGML_SCHED_DEBUG=2 \
        "$work/sequences" "$bin" "$work/model.gguf" "$devices" "$layers" >"$work/text" 2>"$work/log" ||
        { tail -n 5 "$work/log" >&2; fail "$name: llama.cpp fails"; }
    cmp -s "$work/cpu" "$work/text" ||
        { diff "$work/cpu" "$work/text" >&2 || true; fail "$name: the tokens are not the CPU's"; }
    for device in "$@"; do
        grep -a -q "SPLIT #[0-9]*: $device " "$work/log" || fail "$name: nothing is on $device"
    done
    echo "$name: the tokens of eight sequences and of drafts are the CPU's; nodes on $*"
}

on "$npu" "$npu" HSA0 99 HSA0
gpu=
for clang in clang++-19 clang++-20; do
    [ ! -x "$($clang --print-prog-name=lld 2>/dev/null)" ] || gpu=1
done
if [ -n "$gpu" ]; then
    on "$npu, gfx1100 and the CPU" "$npu,gfx1100" HSA0,HSA1 2 CPU HSA0 HSA1
else
    echo "skipped: no GPU beside the NPU: no clang++-19 or later with its lld"
fi
