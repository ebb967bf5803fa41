#!/bin/sh
# run.sh <build> [-C <directory>] <program> <arguments...>: runs a program on our own runtime and the played
# kernel driver of <build>, without ROCr. What the driver plays is in ACCEL_EMU_*, see docs/rocr.md; here the
# CPU's caches and the array's state are as real as a device's unless they are set otherwise.
set -eu

build=$(cd "$1" && pwd)
shift
if [ "$1" = -C ]; then
    cd "$2"
    shift 2
fi
export GGML_HSA_RUNTIME="${GGML_HSA_RUNTIME:-native}"
export ACCEL_EMU_CACHES="${ACCEL_EMU_CACHES:-1}"
export ACCEL_EMU_IDLE_MS="${ACCEL_EMU_IDLE_MS:-0}"
unset GGML_HSA_EMULATE
# What was to be preloaded before stays so.
LD_PRELOAD="$build/bin/libaccel-emu.so${LD_PRELOAD:+:$LD_PRELOAD}" exec "$@"
