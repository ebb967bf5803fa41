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
    env_setup.sh requirements.txt ggml-hsa.pc.in rocm-kernels.pc.in man completions; do
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
tests/tensor/test-tensor.c
tests/emu/aie/test-silicon.c
tests/emu/gfx/test-gfx-decode.c
tests/fuzz/fuzz-pdi.c
tests/make/CMakeLists.txt
tests/aie/isa/CMakeLists.txt
tests/examples/CMakeLists.txt
src/keep/CMakeLists.txt
src/backend/CMakeLists.txt
src/emu/gfx/CMakeLists.txt
tools/CMakeLists.txt
bench/CMakeLists.txt
examples/CMakeLists.txt
END

# What a stranger's tree or command line lacks is named, with the one command that brings it.
# refuses <text of the error> <options>
refuses() {
    wanted=$1
    shift
    rm -rf "$dir/other"
    if env -u PKG_CONFIG_PATH "$cmake" -S "$dir/tree" -B "$dir/other" -G "$generator" -DCMAKE_C_COMPILER="$cc" "$@" \
        >"$dir/log" 2>&1; then
        echo "configured with $*"
        failed=1
    elif ! tr -s ' \n' '  ' <"$dir/log" | grep -q "$wanted"; then
        echo "$*: no word of '$wanted': $(cat "$dir/log")"
        failed=1
    else
        echo "$*: refused"
    fi
}
refuses 'hsa-runtime64_DIR=/nowhere/lib/cmake/hsa-runtime64: there is no such directory' -DGGML_HSA=OFF \
    -Dhsa-runtime64_DIR=/nowhere/lib/cmake/hsa-runtime64
mkdir -p "$dir/empty/lib/cmake/hsa-runtime64"
refuses "no hsa/hsa.h in $dir/empty/include" -DGGML_HSA=OFF -Dhsa-runtime64_DIR="$dir/empty/lib/cmake/hsa-runtime64"
refuses 'ggml was not found. Run `make setup` once' -DGGML_HSA=ON -DCMAKE_FIND_ROOT_PATH="$dir/empty" \
    -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY
refuses 'jansson 2.11 or newer was not found. Run `make setup` once' -DGGML_HSA=OFF -DPKG_CONFIG_EXECUTABLE=/bin/false
refuses 'GPU_TARGETS: .gtx90. is no AMD GPU' -DGGML_HSA=OFF -DGPU_TARGETS='gfx90a;gtx90'

# Each option of the build goes with the tests.
for option in GGML_HSA_JIT_COMPILE GGML_HSA_JIT_STDOUT_REDIRECT; do
    "$cmake" -S "$dir/tree" -B "$dir/build" -D$option=OFF >"$dir/log" 2>&1 || { tail -n 20 "$dir/log"; failed=1; }
    "$cmake" -S "$dir/tree" -B "$dir/build" -D$option=ON >"$dir/log" 2>&1 || failed=1
done

# One that is there is taken, also where another was found before.
mkdir -p "$dir/rocm/lib/cmake/hsa-runtime64" "$dir/rocm/include/hsa"
touch "$dir/rocm/include/hsa/hsa.h"
"$cmake" -S "$dir/tree" -B "$dir/build" -Dhsa-runtime64_DIR="$dir/rocm/lib/cmake/hsa-runtime64" -DGPU_TARGETS='gfx90a;gfx1100' \
    >"$dir/log" 2>&1 || { tail -n 20 "$dir/log"; failed=1; }
for text in "HSA headers: $dir/rocm/include" 'GPU kernels for gfx90a,gfx1100'; do
    grep -q "$text" "$dir/log" || { echo "no word of '$text'"; failed=1; }
done
exit "$failed"
