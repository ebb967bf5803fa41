#!/bin/sh
# The identity of the compiler follows the tokens of what shapes its code, and nothing else: neither where they lie nor
# what comments say.
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
for file in aie/isa/aie2/alu.def aie/asm/sched.c kernel/ops.def tensor/tensor.c; do
    cp "$dir/one/src/$file" "$dir/saved"
    echo ";" >> "$dir/one/src/$file"
    row "$file" other "$(identity "$dir/one")"
    cp "$dir/saved" "$dir/one/src/$file"
done
row "    and back" same "$(identity "$dir/one")"
mv "$dir/one/src/aie/plan/plan.c" "$dir/one/src/aie/plan/plan-renamed.c"
row "the name of a file" other "$(identity "$dir/one")"
mv "$dir/one/src/aie/plan/plan-renamed.c" "$dir/one/src/aie/plan/plan.c"
echo > "$dir/one/src/aie/ops/new.c"
row "one file more" other "$(identity "$dir/one")"
# What a source says, and how it is written.
mkdir -p "$dir/three/src/aie"
cp -r "$source/cmake" "$dir/three/cmake"
probe=$dir/three/src/aie/probe.c
written() {
    printf "$2" > "$probe"
    row "$1" "$3" "$(identity "$dir/three")"
}
printf 'int a = 1;\n#define B 2\nint c[] = {B, "a // b", 1 / 2};\n' > "$probe"
base=$(identity "$dir/three")
written "a comment" 'int a = 1; // one\n#define B 2\nint c[] = {B, "a // b", 1 / 2};\n' same
written "a longer one" '/* "all" of\n * it */int a /**/ = 1;\n#define B 2 // two\nint c[] = {B, "a // b", 1 / 2};\n' same
written "blank space" 'int  a = 1;\n\n  #define B   2\n\tint c[] = {B,\n"a // b", 1 / 2};' same
written "a number" 'int a = 2;\n#define B 2\nint c[] = {B, "a // b", 1 / 2};\n' other
written "what a literal says" 'int a = 1;\n#define B 2\nint c[] = {B, "a // c", 1 / 2};\n' other
written "blank space in a literal" 'int a = 1;\n#define B 2\nint c[] = {B, "a  // b", 1 / 2};\n' other
written "the end of a directive" 'int a = 1;\n#define B 2 int c[] = {B,\n"a // b", 1 / 2};\n' other
written "a quote that is a number" 'int a = 1;\n#define B 2\nint c[] = {B, "a // b", 1 / 2}; // \\"\n' same
exit $failed
