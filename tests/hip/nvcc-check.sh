#!/bin/sh
# Builds the kernels with nvcc and checks all of them on an NVIDIA GPU:
#
#   sh tests/hip/nvcc-check.sh [ARCH] [DIRECTORY]       sm_90 and a new directory if not given
#
# Needs CUDA 12 or newer with its driver, cmake and a C compiler. Two minutes, most of them nvcc.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
arch=${1:-sm_90}
out=${2:-$(mktemp -d)}
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
cuda=$(dirname "$(dirname "$nvcc")")

cmake -D DIR="$root/src/hip/kernels" -D OUT="$out/sources.c" -P "$root/src/hip/embed.cmake"
for f in "$root"/src/hip/kernels/*.hip; do
    echo "$f"
done | xargs -P "$(nproc)" -I{} sh -c \
    '"$1" -x cu -arch="$2" -O3 -std=c++17 -diag-suppress 186,550 -cubin \
        -o "$3/$(basename "$4" .hip).cubin" "$4"' - "$nvcc" "$arch" "$out" {}
${CC:-cc} -std=c11 -D_GNU_SOURCE -O2 -I"$root/src" -I"$root/include" -I"$root/src/hip" \
    -I"$cuda/include" -o "$out/nvcc-check" "$root/tests/hip/nvcc-check.c" "$out/sources.c" \
    "$root/src/hip/modules.c" "$root"/tools/hip-check/check*.c "$root/src/base/base.c" "$root/src/base/plain.c" \
    -L"$cuda/lib64" -L"$cuda/lib64/stubs" -lcuda -lm -lpthread
[ -n "${BUILD_ONLY:-}" ] || "$out/nvcc-check" "$out"/*.cubin
