#!/bin/sh
# The identity of the compiler follows the content of what shapes its code, and nothing else.
# usage: test-identity.sh CMAKE SOURCE_DIR
set -eu
cmake=$1 source=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/one/src" "$dir/two/elsewhere/src"
for at in "$dir/one" "$dir/two/elsewhere"; do
    cp -r "$source/cmake" "$at/cmake"
    for room in aie kernel tensor emu base; do
        cp -r "$source/src/$room" "$at/src/$room"
    done
    rm -r "$at"/src/aie/ops/* "$at"/src/aie/asm/*.def # most of it, which is no other than the rest
done

identity() {
    "$cmake" -D OUT="$dir/out.h" -P "$1/cmake/Identity.cmake"
    cat "$dir/out.h"
}
# row WHAT same|other IDENTITY
base=$(identity "$dir/one")
case $base in '#define AIE_COMPILER_IDENTITY "aie '????????????????????????????????????????????????????????????????'"') ;;
*) echo "not a header: $base"; exit 1 ;; esac
failed=0
row() {
    if [ "$3" = "$base" ]; then is=same; else is=other; fi
    printf '  %-44s %s identity\n' "$1" "$is"
    [ "$is" = "$2" ] || { echo "    must be: $2"; failed=1; }
}

echo "a change of ...                                gives"
row "nothing" same "$(identity "$dir/one")"
row "the directory" same "$(identity "$dir/two/elsewhere")"
touch -d 2001-01-01 "$dir"/one/src/aie/plan/*.c
row "times of files" same "$(identity "$dir/one")"
stamp=$(stat -c %Y "$dir/out.h"); sleep 1.1
identity "$dir/one" >/dev/null
[ "$(stat -c %Y "$dir/out.h")" = "$stamp" ] || { echo "an unchanged header was written again"; failed=1; }
echo "//" >> "$dir/one/src/emu/aie/core.c"
row "the emulator" same "$(identity "$dir/one")"
echo "//" >> "$dir/one/src/base/base.c"
row "how errors are printed" same "$(identity "$dir/one")"
for file in aie/plan/plan.c aie/plan/programs.def aie/isa/aie2/alu.def aie/asm/sched.c aie/image/pdi.c kernel/ops.def tensor/tensor.c; do
    cp "$dir/one/src/$file" "$dir/saved"
    echo "//" >> "$dir/one/src/$file"
    row "$file" other "$(identity "$dir/one")"
    cp "$dir/saved" "$dir/one/src/$file"
done
row "    and back" same "$(identity "$dir/one")"
mv "$dir/one/src/aie/plan/plan.c" "$dir/one/src/aie/plan/plan-renamed.c"
row "the name of a file" other "$(identity "$dir/one")"
mv "$dir/one/src/aie/plan/plan-renamed.c" "$dir/one/src/aie/plan/plan.c"
echo > "$dir/one/src/aie/ops/new.c"
row "one file more" other "$(identity "$dir/one")"
exit $failed
