#!/bin/sh
# test-install.sh <build> <source> <deps> <backend directory> <C compiler>: installs a build to a temporary
# prefix, moves it, and uses it from there: the tools, the plugin in a stock ggml program, programs that link it
# by CMake and by pkg-config, the documents' links. Nothing installed may name the places where it was made.
# In the end it is uninstalled, and nothing is left.
set -eu
build=$1
source=$2
deps=$3
backends=$4
cc=$5
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

for f in "$lib/ggml-hsa/libhsa-npu.so" "$prefix/bin/ggml-hsa" "$prefix/include/ggml-hsa.h" \
    "$prefix/include/hsa-emu.h" "$prefix/share/ggml-hsa/examples/add.c" "$prefix/share/ggml-hsa/env_setup.sh" \
    "$prefix/share/man/man1/rocm-kernels.1" "$prefix/share/bash-completion/completions/ggml-hsa-gen-kernels" \
    "$prefix/share/zsh/site-functions/_ggml-hsa" "$prefix/share/ggml-hsa/requirements.txt" "$prefix/share/doc/ggml-hsa/README.md" \
    "$lib/cmake/ggml-hsa/ggml-hsa-config.cmake" "$lib/pkgconfig/ggml-hsa.pc"; do
    [ -f "$f" ] || fail "$f is missing"
done
[ ! -e "$lib/libhsa-npu.so" ] || fail "the emulated runtime is where a loader could find it"

"$prefix/bin/ggml-hsa" doctor >"$root/doctor" || fail "doctor: $(cat "$root/doctor")"
grep -q "HSA runtime: $lib/ggml-hsa/libhsa-npu.so" "$root/doctor" || fail "another runtime: $(cat "$root/doctor")"
grep -q "plugin: $lib/libggml-hsa.so loads" "$root/doctor" || fail "another plugin: $(cat "$root/doctor")"

# ---- it stands alone ----

readelf -d "$lib/libggml-hsa.so" "$prefix"/bin/* | grep -E 'R(UN)?PATH' | grep -v '\[\$ORIGIN' &&
    fail "a path into another place"
find "$prefix" -type f -not -path '*/ggml/*/libggml*' | while read -r f; do # ggml's asserts name its files
    copy=$root/copy
    cp "$f" "$copy"
    case $f in *.so* | */bin/*) strip -g "$copy" ;; esac # what it was made from is for debuggers
    for place in "$build" "$source" "$deps" "$(realpath "$deps")"; do
        ! grep -qF "$place/" "$copy" || fail "$f names $place"
    done
done
find "$prefix" -type l | while read -r f; do
    [ -e "$f" ] || fail "$f leads nowhere"
done
find "$prefix/share/doc" -follow -name '*.md' | while read -r page; do
    grep -o '](\([^)]*\))' "$page" | sed 's/^](//;s/)$//;s/#.*//' | while read -r link; do
        case $link in '' | http*) continue ;; esac
        [ -e "$(dirname "$page")/$link" ] || fail "$page: $link is not there"
    done
done

# ---- it works ----

if [ -x "$backends/test-backend-ops" ]; then
    out=$(GGML_BACKEND_PATH=$lib/libggml-hsa.so "$backends/test-backend-ops" test -b HSA0 -o ADD \
        -p 'type=f32,ne=.1,1,8,1.' 2>&1) || fail "$out"
    echo "$out" | grep -q '[1-9][0-9]*/[0-9]* tests passed' || fail "nothing was compared: $out"
else
    echo "skipped: no test-backend-ops in $backends"
fi

cmake -S "$here" -B "$root/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
    -DGGML_HSA_EXAMPLES="$prefix/share/ggml-hsa/examples" >"$root/log" 2>&1 ||
    fail "find_package: $(cat "$root/log")"
cmake --build "$root/cmake" >"$root/log" 2>&1 || fail "$(cat "$root/log")"
[ "$(cat "$root/cmake/plugin.txt")" = "$lib/libggml-hsa.so" ] || fail "GGML_HSA_PLUGIN: $(cat "$root/cmake/plugin.txt")"
"$root/cmake/consumer"
"$root/cmake/kernels" || fail "rocm-kernels by find_package"

PKG_CONFIG_PATH=$lib/pkgconfig
export PKG_CONFIG_PATH
# shellcheck disable=SC2046
"$cc" "$here/kernels.c" -o "$root/kernels" $(pkg-config --cflags --libs rocm-kernels) && "$root/kernels" ||
    fail "rocm-kernels by pkg-config"
# shellcheck disable=SC2046
"$cc" "$here/consumer.c" -o "$root/consumer" $(pkg-config --cflags --libs ggml-hsa) || fail "pkg-config"
"$root/consumer"

# The example, by the two commands that it names itself.
sed -n 's,^//   ,,p' "$prefix/share/ggml-hsa/examples/add.c" >"$root/commands"
[ "$(wc -l <"$root/commands")" = 2 ] || fail "add.c does not say how it is made"
cp "$prefix/share/ggml-hsa/examples/add.c" "$root"
(cd "$root" && sh -e ./commands) >"$root/log" 2>&1 || fail "examples/add.c: $(cat "$root/log")"
tail -n 1 "$root/log"

# ---- and goes ----

cmake --install "$build" --prefix "$root/last" >"$root/log" || fail "cmake --install: $(tail -n 5 "$root/log")"
sh "$source/cmake/uninstall.sh" "$build" >"$root/log" || fail "uninstall.sh: $(cat "$root/log")"
left=$(find "$root/last" -not -type d -o -name '*ggml-hsa*')
[ -z "$left" ] || fail "uninstalled, and still there: $left"
echo "test-install: ok"
