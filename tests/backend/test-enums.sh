#!/bin/sh
# test-enums.sh SOURCES: every op and datatype of ggml that the backend names is one that
# enums.c asks for when the plugin is loaded.
set -eu
cd "$1"
missing=0
count=0
for kind in OP UNARY_OP GLU_OP TYPE; do
    list=$kind
    [ "$kind" = OP ] && list=OPS
    [ "$kind" = TYPE ] && list=TYPES
    [ "$kind" = UNARY_OP ] && list=UNARY_OPS
    [ "$kind" = GLU_OP ] && list=GLU_OPS
    have=$(sed -n "/^#define $list(X)/,/[^\\\\]\$/p" enums.c)
    # A name in quotes is an environment variable's.
    for name in $(grep -rhoE "(^|[^\"A-Za-z0-9_])GGML_${kind}_[A-Z0-9_]*" . | sed 's/^[^G]//' | sort -u); do
        name=${name#GGML_${kind}_}
        [ "$name" != COUNT ] && [ -n "$name" ] || continue
        count=$((count + 1))
        case "$have" in
        *"X($name)"*) ;;
        *) echo "GGML_${kind}_$name is not in $list of src/backend/enums.c"; missing=$((missing + 1)) ;;
        esac
    done
done
echo "$count names, $missing missing"
[ "$missing" = 0 ] && [ "$count" -gt 50 ]
