#!/bin/sh
# hip.sh <hip-module> <rocm-kernels> <directory of the emulated runtime> <version> [<set>]: hip-module.c with
# HIP's library of a version, unmodified, on each emulated GPU: the library of this machine, or that of a set
# of cmake/debian/get.sh. Strict GPUs are the more interesting ones, and several of them at once.
set -eu
export LC_ALL=C
program=$1
kernels=$2
runtime=$3
version=$4
set=${5:-}
library=libamdhip64.so.${version%%.*}
unset GGML_HSA_RUNTIME GGML_HSA_AIE_ABI GGML_HSA_EMU_ROCR_BUGS || true

skip() {
    echo "skipped: $*"
    exit 77
}

if [ -n "$set" ]; then
    [ -x "$set/run" ] || skip "no HIP $version in $set; \`make test-hosts\` gets it"
else
    ldconfig -p 2>/dev/null | grep -q "$library" || PATH=$PATH:/sbin:/usr/sbin ldconfig -p | grep -q "$library" ||
        skip "$library is not installed"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

on_gpus() { # on_gpus <agents> <strict> <code object> <arch>
    export GGML_HSA_EMULATE="$1" GGML_HSA_EMU_STRICT="$2"
    if [ -n "$set" ]; then
        timeout 120 "$set/run" -l "$runtime" "$program" "$library" "$3" "$4"
    else
        LD_LIBRARY_PATH=$runtime timeout 120 "$program" "$library" "$3" "$4"
    fi
}

# gfx942 and gfx1100 are newer than HIP 5.2.
agents="gfx90a aie2,gfx90a,gfx1100,gfx90a"
[ "$version" = 5.2 ] || agents="$agents gfx942 gfx1100"
for list in $agents; do
    arch=$(echo "$list" | sed 's/aie2,//;s/,.*//')
    CANDLE_ROCM_CACHE_DIR=$work/cache "$kernels" compile unary_f32 --arch "$arch" >"$work/out" 2>&1 || {
        cat "$work/out"
        skip "no compiler for $arch: clang-19 and lld-19, or hipcc, make our kernels"
    }
    for strict in 0 1; do
        code=0
        # shellcheck disable=SC2086
        on_gpus "$list" $strict "$(echo $work/cache/$arch-*/unary_f32_*.cso)" "$arch" >"$work/out" 2>&1 || code=$?
        grep -q "^HIP $version, " "$work/out" || code="not HIP $version"
        case $version in # these can do more, and must
        5.*) ;;
        *)
            grep -q '^ok   hipMallocAsync$' "$work/out" && grep -q '^ok   mapped memory$' "$work/out" ||
                code="steps are missing"
            ;;
        esac
        if [ "$code" != 0 ] || ! grep -q '^0 failures$' "$work/out"; then
            cat "$work/out" >&2
            echo "hip.sh: $list, strict $strict: $code" >&2
            exit 1
        fi
        echo "$(head -n 1 "$work/out"), strict $strict: $(grep -c '^ok ' "$work/out") steps"
    done
done
