#!/bin/sh
# test-install.sh <build> <ggml lib directory> <backend directory> <C compiler>: installs a build to a temporary
# prefix, moves it, and uses it from there: the tools, the plugin in a stock ggml program, and programs that
# link it by CMake and by pkg-config.
set -eu
build=$1
ggml_lib=$2
backends=$3
cc=$4
here=$(cd "$(dirname "$0")" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
unset GGML_HSA_RUNTIME GGML_BACKEND_PATH GGML_HSA_KERNEL_DIR || true
export GGML_HSA_EMULATE=aie2 GGML_HSA_KERNEL_CACHE_MAX_SIZE=0

fail() {
    echo "test-install: $*" >&2
    exit 1
}

cmake --install "$build" --prefix "$root/first" >"$root/log" || fail "cmake --install: $(tail -n 5 "$root/log")"
mv "$root/first" "$root/prefix" # nothing may depend on where it was first
prefix=$root/prefix
lib=$(dirname "$(find "$prefix" -name libggml-hsa.so)")

for f in "$lib/ggml-hsa/libhsa-emu.so" "$prefix/bin/ggml-hsa" "$prefix/include/ggml-hsa.h" \
    "$prefix/include/hsa-emu.h" "$prefix/share/ggml-hsa/examples/add.c" "$prefix/share/ggml-hsa/env_setup.sh" \
    "$prefix/share/man/man1/rocm-kernels.1" "$prefix/share/bash-completion/completions/ggml-hsa-gen-kernels" \
    "$prefix/share/zsh/site-functions/_ggml-hsa" "$prefix/share/ggml-hsa/requirements.txt" "$prefix/share/doc/ggml-hsa/README.md" \
    "$lib/cmake/ggml-hsa/ggml-hsa-config.cmake" "$lib/pkgconfig/ggml-hsa.pc"; do
    [ -f "$f" ] || fail "$f is missing"
done
[ ! -e "$lib/libhsa-emu.so" ] || fail "the emulated runtime is where a loader could find it"

"$prefix/bin/ggml-hsa" doctor >"$root/doctor" || fail "doctor: $(cat "$root/doctor")"
grep -q "HSA runtime: $lib/ggml-hsa/libhsa-emu.so" "$root/doctor" || fail "another runtime: $(cat "$root/doctor")"
grep -q "plugin: $lib/libggml-hsa.so loads" "$root/doctor" || fail "another plugin: $(cat "$root/doctor")"

if [ -x "$backends/test-backend-ops" ]; then
    out=$(GGML_BACKEND_PATH=$lib/libggml-hsa.so "$backends/test-backend-ops" test -b HSA0 -o ADD \
        -p 'type=f32,ne=.1,1,8,1.' 2>&1) || fail "$out"
    echo "$out" | grep -q '[1-9][0-9]*/[0-9]* tests passed' || fail "nothing was compared: $out"
else
    echo "skipped: no test-backend-ops in $backends"
fi

cmake -S "$here" -B "$root/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" >"$root/log" 2>&1 ||
    fail "find_package: $(cat "$root/log")"
cmake --build "$root/cmake" >"$root/log" 2>&1 || fail "$(cat "$root/log")"
[ "$(cat "$root/cmake/plugin.txt")" = "$lib/libggml-hsa.so" ] || fail "GGML_HSA_PLUGIN: $(cat "$root/cmake/plugin.txt")"
"$root/cmake/consumer"

PKG_CONFIG_PATH=$lib/pkgconfig
export PKG_CONFIG_PATH
# shellcheck disable=SC2046
"$cc" "$here/consumer.c" -o "$root/consumer" $(pkg-config --cflags --libs ggml-hsa) || fail "pkg-config"
LD_LIBRARY_PATH=$lib:$ggml_lib "$root/consumer"
echo "test-install: ok"
