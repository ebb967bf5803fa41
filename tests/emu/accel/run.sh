#!/bin/sh
# run.sh <build> <rocr> [-C <directory>] <program> <arguments...>: runs a program on AMD's ROCr, which
# cmake/debian/get.sh brought to <rocr>, with the played NPU driver of <build> below it. The program is any:
# one of ours, or one of .deps/llama/bin with GGML_BACKEND_PATH=<build>/bin/libggml-hsa.so.
#
#   -C <directory>        where to run it; ggml looks for its backends beside the program or there, and the
#                         program does not know where it lies, for its loader is the process
#   ACCEL_EMU_*           what the driver plays, see docs/rocr.md; the kernel is `legacy` unless it is set, for
#                         ROCr 7.0 to 7.2 works with no other
#   HSA_MODEL_LIB         another GPU than the one that does nothing, with HSA_MODEL_TOPOLOGY
#
# Ends as the program ends, or with 77 where ROCr is missing.
set -eu

build=$(cd "$1" && pwd)
rocr=$2
here=$(cd "$(dirname "$0")" && pwd)
shift 2
if [ ! -e "$rocr/ld.so" ]; then
    echo "run.sh: no ROCr in '$rocr'; \`sh cmake/debian/get.sh .deps rocr\` brings it" >&2
    exit 77
fi
rocr=$(cd "$rocr" && pwd)
program=
if [ "$1" = -C ]; then
    dir=$2
    shift 2
    program=$(cd "$(dirname "$1")" && pwd)/${1##*/}
    cd "$dir"
fi
: "${program:=$1}"
shift

topology=$build/rocr-topology
if [ ! -d "$topology" ]; then
    part=$(mktemp -d "$topology.XXXXXX")
    sh "$here/topology.sh" "$part"
    mv -T "$part" "$topology" 2>/dev/null || rm -rf "$part" # another was faster
fi
export ACCEL_EMU_KERNEL="${ACCEL_EMU_KERNEL:-legacy}"
export HSA_MODEL_TOPOLOGY="${HSA_MODEL_TOPOLOGY:-$topology}"
if [ -z "${HSA_MODEL_LIB:-}" ]; then
    export HSA_MODEL_LIB="$build/bin/libidle-gpu.so"
    export ROCR_VISIBLE_DEVICES=-1 # or programs would send work to it and wait for ever
fi
export GGML_HSA_RUNTIME="$rocr/lib/libhsa-runtime64.so.1"
unset GGML_HSA_EMULATE
exec "$rocr/ld.so" --library-path "$rocr/lib" --preload "$build/bin/libaccel-emu.so" "$program" "$@"
