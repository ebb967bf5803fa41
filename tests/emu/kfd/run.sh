#!/bin/sh
# run.sh <build> <rocr> <gpu> [-C <directory>] <program> <arguments...>: runs a program on AMD's own ROCr 7
# with an emulated GPU in the place of the hardware. <build> is a build of this project, <rocr> a directory
# with ld.so and lib/libhsa-runtime64.so.1 of ROCr and of the libc that it wants, <gpu> gfx1100 or gfx942.
#
#   -C <directory>   where to run it: ggml looks for its backends beside the program or there, and a program
#                    that a loader started does not know where it lies
#
# Ends as the program ends, or with 77 where ROCr is missing.
set -eu

build=$(cd "$1" && pwd)
rocr=$2
gpu=$3
shift 3
if [ ! -e "$rocr/ld.so" ] || [ ! -e "$rocr/lib/libhsa-runtime64.so.1" ]; then
    echo "skipped: there is no ROCr in '$rocr'"
    exit 77
fi
rocr=$(cd "$rocr" && pwd)
program=
if [ "$1" = -C ]; then
    program=$(cd "$(dirname "$3")" && pwd)/${3##*/}
    cd "$2"
    shift 2
fi
: "${program:=$1}"
shift

topology=$build/kfd-topology/$gpu
if [ ! -e "$topology" ]; then
    mkdir -p "$build/kfd-topology"
    part=$(mktemp -d "$build/kfd-topology/part.XXXXXX")
    "$build/bin/kfd-topology" "$part" "$gpu"
    mv -T "$part" "$topology" 2>/dev/null || rm -rf "$part" # another was faster
fi
export HSA_MODEL_TOPOLOGY="$topology" HSA_MODEL_LIB="$build/bin/libkfd-emu.so"
export GGML_HSA_RUNTIME="$rocr/lib/libhsa-runtime64.so.1" GGML_HSA_SKIP_DRIVER_CHECK=1
unset GGML_HSA_EMULATE
exec "$rocr/ld.so" --library-path "$rocr/lib" --preload "$build/bin/libkfd-emu.so" "$program" "$@"
