#!/bin/sh
# Builds the kernels of products and attention with nvcc and measures them on an NVIDIA GPU, beside
# cuBLAS and the GPU's memory:
#
#   sh tests/hip/nvcc-bench.sh [ARCH] [DIRECTORY]       sm_90 and a new directory if not given
#
# Needs CUDA 12 or newer with its driver, and a C compiler. Three minutes on 16 cores.
#
#   GRIDS=FILE       ggml's tables of iq1, iq2 and iq3, which a build writes: build/src/hip/grids.h if not given;
#                    without any these types are left out
#   SECTIONS="..."   some of: memory columns attention products
#   BUILD_ONLY=1     nothing is run
#
# The modules are those of src/hip/modules.def. One that nvcc refuses is named, and left out.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
arch=${1:-sm_90}
out=${2:-$(mktemp -d)}
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
cuda=$(dirname "$(dirname "$nvcc")")
grids=${GRIDS:-$root/build/src/hip/grids.h}
export root arch out nvcc grids
mkdir -p "$out"
rm -f "$out"/*.cubin

modules() { # MODULE or WITH_GRIDS: a line for each: its name, its source, and its types behind a dash
    sed -n "s/^$1(\([a-zA-Z0-9_]*\), \(matmul[a-z_]*\|matvec_quant\|columns_q8\|attention[a-z_]*\), \"\([^\"]*\)\".*/\1 \2 -\3/p" \
        "$root/src/hip/modules.def"
}
{
    modules MODULE
    if [ -f "$grids" ]; then
        modules WITH_GRIDS
    else
        modules WITH_GRIDS | sed 's/ .*/ is left out: there are no tables of ggml, see GRIDS/' >&2
    fi
    echo nvcc-bench nvcc-bench -
} >"$out/modules"

cat >"$out/compile.sh" <<'END'
name=$1 source=$root/src/hip/kernels/$2.hip types=${3#-}
[ "$2" != nvcc-bench ] || source=$root/tests/hip/nvcc-bench.hip
set -- -x cu -arch="$arch" -O3 -std=c++17 -diag-suppress 186,550
[ -z "$types" ] || set -- "$@" "-DRK_TYPES(X)=$(echo "$types" | sed 's/\([^,]*\),*/X(\1) /g')"
[ ! -f "$grids" ] || set -- "$@" -include "$grids"
if ! "$nvcc" "$@" -cubin -o "$out/$name.cubin" "$source" >"$out/$name.log" 2>&1; then
    rm -f "$out/$name.cubin"
    echo "$name is left out: nvcc refuses it: $(grep -m 1 -i error "$out/$name.log")"
fi
END
xargs -P "$(nproc)" -L 1 sh "$out/compile.sh" <"$out/modules"

set --
[ ! -f "$grids" ] || set -- "-DGRIDS=\"$grids\""
${CC:-cc} -std=c11 -D_GNU_SOURCE -O2 "$@" -I"$root/src" -I"$root/src/hip" -I"$root/include" -I"$cuda/include" \
    -o "$out/nvcc-bench" "$root"/tests/hip/nvcc-bench.c "$root"/tests/hip/nvcc-rig.c \
    "$root"/tests/hip/nvcc-products.c "$root"/tests/hip/nvcc-columns.c "$root"/tests/hip/nvcc-attention.c \
    "$root"/tools/hip-check/check*.c "$root/src/base/base.c" "$root/src/base/plain.c" \
    -L"$cuda/lib64" -L"$cuda/lib64/stubs" -lcuda -lm -ldl -lpthread
echo "$(find "$out" -name '*.cubin' | wc -l) of $(wc -l <"$out/modules") modules"
[ -z "${BUILD_ONLY:-}" ] || exit 0
status=0
for section in ${SECTIONS:-memory columns attention products}; do # one that fails does not stop the others
    "$out/nvcc-bench" "$section" "$out"/*.cubin || status=1
done
exit $status
