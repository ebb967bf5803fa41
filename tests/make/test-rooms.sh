#!/bin/sh
# test-rooms.sh <source directory> <build> <C compiler>: every folder of src with sources is in a room of
# cmake/Rooms.cmake, no source goes round its include path by a name relative to its own folder, and a source that
# includes a room which it may not know does not compile with the path that it has.
set -u
tree=$1
build=$2
cc=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=
fail() { echo "test-rooms: $*"; failed=1; }

rooms=$(sed -n 's/^ *"\([a-z/]*\):.*/\1/p' "$tree/cmake/Rooms.cmake")
is_room() { printf '%s\n' "$rooms" | grep -qx "$1"; }
cd "$tree/src" || exit 1
for folder in $(find . -name '*.c' -exec dirname {} + | sort -u | sed 's,^\./,,'); do
    at=$folder
    until is_room "$at" || [ "$at" = . ]; do at=$(dirname "$at"); done
    [ "$at" != . ] || fail "src/$folder is in no row of cmake/Rooms.cmake"
done

# <file>:"<name>": with a folder in the name that is a room of this room's own.
relative() {
    find . -name '*.[ch]' -exec grep -Ho '#include "[^"]*/[^"]*"' {} + | sed 's,^\./,,; s,#include ,,' |
        while IFS=: read -r file name; do
            name=${name#\"}
            folder=$(dirname "$file")/$(dirname "${name%\"}")
            case $name in ../*) echo "$file: $name" ;; esac
            ! is_room "$folder" || echo "$file: $name"
        done
}
found=$(relative)
[ -z "$found" ] || fail "included by a name relative to the file; say all of it from src on: $found"

# planted: <room that includes> <header> <what must come of it>
plant() {
    echo "#include \"$2\"" >"$dir/plant.c"
    path=$(sed -n "s,^room $1: ,,p" "$build/rooms/paths")
    [ -n "$path" ] || fail "$1 has no include path"
    # shellcheck disable=SC2086 # a list of options
    if "$cc" -std=c11 -D_GNU_SOURCE $path -fsyntax-only "$dir/plant.c" >"$dir/said" 2>&1; then came=fits; else came=refused; fi
    [ "$came" = "$3" ] || { cat "$dir/said"; fail "$1 includes $2: $came, not $3"; }
}
plant kernel base/base.h fits
plant kernel aie/asm/asm.h refused
plant aie/asm aie/target/target.h fits
plant aie/target aie/asm/asm.h refused
plant aie/verify aie/plan/plan.h refused
plant emu/aie aie/isa/isa.h fits
plant emu/aie aie/target/target.h refused
plant hsa tensor/tensor.h refused
plant store hsa/hsac.h refused
[ -z "$failed" ]
