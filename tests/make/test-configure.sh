#!/bin/sh
# test-configure.sh <cmake> <source> <generator> <C compiler>: a file or directory of the project that is not
# there fails the configuration, and is named; it must never be a test that is quietly not run.
set -eu
cmake=$1
source=$2
generator=$3
cc=$4
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/tree"
for part in CMakeLists.txt cmake src include tools bench examples tests docs README.md CHANGELOG.md LICENSE \
    env_setup.sh requirements.txt ggml-hsa.pc.in; do
    cp -r "$source/$part" "$dir/tree/$part"
done
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER || true

# The build directory is one for all: only the first time has to look at the compiler.
configure() {
    "$cmake" -S "$dir/tree" -B "$dir/build" -G "$generator" -DCMAKE_C_COMPILER="$cc" -DGGML_HSA=OFF \
        >"$dir/log" 2>&1
}

configure || { tail -n 20 "$dir/log"; echo "test-configure: the whole tree does not configure"; exit 1; }
failed=0
while read -r file; do
    mv "$dir/tree/$file" "$dir/away"
    if configure; then
        echo "$file: configured without it"
        failed=1
    elif ! grep -q "$(basename "$(dirname "$file")")" "$dir/log"; then
        echo "$file: the error does not say where: $(cat "$dir/log")"
        failed=1
    else
        echo "$file: missed"
    fi
    mv "$dir/away" "$dir/tree/$file"
done <<END
tests/base/test-tensor.c
tests/emu/test-silicon.c
tests/gfx/test-gfx-decode.c
tests/fuzz/fuzz-pdi.c
tests/make/CMakeLists.txt
tests/isa/CMakeLists.txt
tests/examples/CMakeLists.txt
src/keep/CMakeLists.txt
src/backend/CMakeLists.txt
src/emu/gfx/CMakeLists.txt
tools/CMakeLists.txt
bench/CMakeLists.txt
examples/CMakeLists.txt
END
exit "$failed"
