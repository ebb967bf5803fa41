#!/bin/sh
# both.sh <build> <rocr> <program> <arguments...>: the NPU by our own runtime on the played driver, and beside it in
# one process AMD's ROCr with an emulated GPU. Ends as the program ends, or with 77 where ROCr is missing.
set -eu

build=$(cd "$1" && pwd)
rocr=$2
gpu=gfx1100
shift 2
if [ ! -e "$rocr/ld.so" ]; then
    echo "skipped: there is no ROCr in '$rocr'; \`sh cmake/debian/get.sh .deps rocr\` brings it"
    exit 77
fi
rocr=$(cd "$rocr" && pwd)
topology=$build/kfd-topology/$gpu
if [ ! -e "$topology" ]; then
    mkdir -p "$build/kfd-topology"
    part=$(mktemp -d "$build/kfd-topology/part.XXXXXX")
    "$build/bin/kfd-topology" "$part" "$gpu"
    mv -T "$part" "$topology" 2>/dev/null || rm -rf "$part" # another was faster
fi
export HSA_MODEL_TOPOLOGY="$topology" HSA_MODEL_LIB="$build/bin/libkfd-emu.so"
unset GGML_HSA_EMULATE GGML_HSA_RUNTIME
exec "$rocr/ld.so" --library-path "$rocr/lib" --preload "$build/bin/libkfd-emu.so $build/bin/libaccel-emu.so" "$@"
