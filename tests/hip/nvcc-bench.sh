#!/bin/sh
# Builds the kernels of products and attention with nvcc and measures them on an NVIDIA GPU, beside
# cuBLAS and the GPU's memory:
#
#   sh tests/hip/nvcc-bench.sh [ARCH] [DIRECTORY]       sm_90 and a new directory if not given
#
# Needs CUDA 12 or newer with its driver, and a C compiler. A minute.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
arch=${1:-sm_90}
out=${2:-$(mktemp -d)}
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
cuda=$(dirname "$(dirname "$nvcc")")
kernels=$root/src/hip/kernels

for f in "$kernels/matmul.hip" "$kernels"/matvec_*.hip "$kernels/columns_q8.hip" \
    "$kernels"/attention*.hip "$root/tests/hip/nvcc-bench.hip"; do
    echo "$f"
done | xargs -P "$(nproc)" -I{} sh -c \
    '"$1" -x cu -arch="$2" -O3 -std=c++17 -diag-suppress 186,550 -cubin \
        -o "$3/$(basename "$4" .hip).cubin" "$4"' - "$nvcc" "$arch" "$out" {}
${CC:-cc} -std=c11 -D_GNU_SOURCE -O2 -I"$root/src" -I"$cuda/include" -o "$out/nvcc-bench" \
    "$root/tests/hip/nvcc-bench.c" -L"$cuda/lib64" -L"$cuda/lib64/stubs" -lcuda -lm -ldl
[ -n "${BUILD_ONLY:-}" ] || "$out/nvcc-bench" "$out"/*.cubin
