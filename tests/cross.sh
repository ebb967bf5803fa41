#!/bin/sh
# cross.sh <deps> <build> [<cmake options>]: the unit tests that are labelled `cross`, built as programs of the
# other one of amd64 and arm64 and run under qemu-user. Debian's cross compiler and qemu are installed where
# they are missing and may be; the libraries of the other architecture are unpacked into <deps>/cross-<arch>.
# Ends with 77 and a reason where that cannot be had.
set -eu
deps=$1
build=$2
shift 2
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}

skip() {
    echo "-- cross: skipped: $*"
    exit 77
}

case $(uname -m) in
x86_64) arch=arm64 machine=aarch64 compiler=gcc-aarch64-linux-gnu ;;
aarch64) arch=amd64 machine=x86_64 compiler=gcc-x86-64-linux-gnu ;;
*) skip "nothing to cross to from $(uname -m)" ;;
esac
packages="libcmocka0 libcmocka-dev libjansson4 libjansson-dev libssl3 libssl-dev libhsa-runtime-dev"

sh cmake/packages.sh cross || true # what came is looked at below
command -v $machine-linux-gnu-gcc >/dev/null || skip "no $machine-linux-gnu-gcc, of the package $compiler"
command -v qemu-$machine-static >/dev/null || skip "no qemu-$machine-static, of the package qemu-user-static"
[ -d /usr/$machine-linux-gnu/lib ] || skip "no C library in /usr/$machine-linux-gnu, of the package libc6-dev-$arch-cross"

root=$deps/cross-$arch
if [ ! -f "$root/.stamp" ] || [ "$(cat "$root/.stamp")" != "$packages" ]; then
    echo "-- cross: libraries of $arch"
    rm -rf "$root"
    # shellcheck disable=SC2086
    sh cmake/debs.sh $arch "$root/debs" $packages || skip "no Debian packages of $arch"
    for deb in "$root"/debs/*.deb; do
        dpkg-deb -x "$deb" "$root"
    done
    echo "$packages" >"$root/.stamp"
fi
root=$(cd "$root" && pwd)

dir=$build-$arch
sh cmake/step.sh "$dir/log/configure.txt" "$dir: configure" cmake -S . -B "$dir" -G Ninja \
    -DCMAKE_TOOLCHAIN_FILE=cmake/cross.cmake -DCROSS_ARCH=$arch -DCROSS_ROOT="$root" -DGGML_HSA=OFF "$@"
sh cmake/step.sh "$dir/log/compile.txt" "$dir: compile" cmake --build "$dir" --parallel "$jobs" --target cross-tests
code=0
ctest --test-dir "$dir" --output-on-failure --timeout 900 -j "$jobs" -L cross || code=$?
sh tests/make/skips.sh "$dir"
exit $code
