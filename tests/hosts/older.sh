#!/bin/sh
# older.sh <plugin> <prefix>: the plugin, built against the ggml of this tree, in an older ggml that
# cmake/ggml/get.sh built into the prefix: it loads, and computes what the CPU computes.
set -eu
export LC_ALL=C
plugin=$1
prefix=$2
if [ ! -x "$prefix/bin/test-backend-ops" ]; then
    echo "skipped: no older ggml in $prefix; \`make test-hosts\` builds it"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset GGML_HSA_RUNTIME GGML_HSA_KERNEL_DIR GGML_HSA_HOST_FALLBACK || true
export GGML_NO_BACKTRACE=1 GGML_HSA_KERNEL_CACHE_MAX_SIZE=0 GGML_BACKEND_PATH="$plugin" GGML_HSA_EMULATE=aie2
version=$(basename "$(realpath "$prefix/lib/libggml-base.so")" | sed 's/libggml-base.so.//')
for op in ADD SOFT_MAX RMS_NORM GET_ROWS; do
    if ! "$prefix/bin/test-backend-ops" test -b HSA0 -o $op >"$work/log" 2>&1 ||
        ! grep -q 'Backend HSA0: .*OK' "$work/log"; then
        tail -n 20 "$work/log" >&2
        echo "older.sh: $op with ggml $version" >&2
        exit 1
    fi
    echo "ggml $version, $op:$(grep ' tests passed' "$work/log" | head -n 1)"
done
