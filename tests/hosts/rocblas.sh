#!/bin/sh
# rocblas.sh <program of rocblas.c> <directory of the emulated runtime> <set> <libamdhip64> <librocblas> <GPU>...: AMD's
# rocBLAS, as Debian has it, with its own kernels on emulated GPUs: products in single and half precision, bf16, bytes
# and doubles, by MFMA on gfx90a and gfx942, and by WMMA on gfx1100.
set -eu
export LC_ALL=C
program=$1
runtime=$2
set=$3
hip=$4
blas=$5
shift 5
unset GGML_HSA_RUNTIME GGML_HSA_AIE_ABI GGML_HSA_EMU_ROCR_BUGS || true

[ -x "$set/run" ] || {
    echo "skipped: no rocBLAS in $set; \`make test-hosts\` gets it"
    exit 77
}
kernels=$(find "$set/usr" -name "TensileLibrary*$1*" | head -n 1)
[ -n "$kernels" ] || {
    echo "rocblas.sh: no kernels for $1 in $set" >&2
    exit 1
}
ROCBLAS_TENSILE_LIBPATH=$(dirname "$kernels")
export ROCBLAS_TENSILE_LIBPATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for gpu in "$@"; do
    code=0
    GGML_HSA_EMULATE=$gpu timeout 800 "$set/run" -l "$runtime" "$program" "$hip" "$blas" \
        >"$work/out" 2>&1 || code=$?
    if [ $code != 0 ] || ! grep -q '^0 failures$' "$work/out"; then
        cat "$work/out" >&2
        echo "rocblas.sh: $gpu: $code" >&2
        exit 1
    fi
    echo "$gpu: $(grep -c '^ok ' "$work/out") products"
done
