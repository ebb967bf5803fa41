#!/bin/sh
# Installs the Debian packages that the build needs and that are missing, without questions.
# On another system it only says what to install; a machine that has everything needs neither root
# nor apt.
set -eu

need="build-essential cmake ninja-build pkg-config git ca-certificates
      libhsa-runtime-dev libcmocka-dev libjansson-dev"
# Useful, but the build goes on without: a second way to ggml's source, other compilers, rocminfo.
want="npm clang rocminfo"
# packages.sh gpu: compilers for AMD GPUs as well, 700 MB. Tests that want them skip without.
[ "${1:-}" != gpu ] || want="$want clang-19 lld-19 llvm-19 hipcc libamdhip64-dev rocm-device-libs
      librocrand-dev librocprim-dev"
# packages.sh hosts: what the tests with programs of newer releases want from this one.
[ "${1:-}" != hosts ] || want="$want clang-19 lld-19 libamdhip64-5 curl"
# packages.sh format: the version that cmake/format.sh asks for.
[ "${1:-}" != format ] || want="clang-format-14"
# packages.sh cross: what `make test-cross` builds and runs programs of the other architecture with.
if [ "${1:-}" = cross ]; then
    case $(uname -m) in
    x86_64) want="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static" ;;
    aarch64) want="gcc-x86-64-linux-gnu libc6-dev-amd64-cross qemu-user-static" ;;
    esac
fi

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    if command -v cmake >/dev/null && command -v cc >/dev/null && command -v git >/dev/null; then
        exit 0
    fi
    echo "packages.sh: no apt here; please install the equivalents of:" $need >&2
    exit 1
fi

missing() {
    for p in "$@"; do
        dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || echo "$p"
    done
}

need=$(missing $need)
want=$(missing $want)
# A program that came by another way than dpkg counts as well.
for p in $want; do
    command -v "$p" >/dev/null && want=$(echo "$want" | grep -vx "$p" || true)
done
[ -n "$need$want" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        [ -z "$need" ] && exit 0
        echo "packages.sh: neither root nor sudo; please install:" $need >&2
        exit 1
    fi
    as_root="sudo"
fi

quiet=-qq
[ -t 1 ] && quiet=
echo "-- packages:" $need $want
apt() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get $quiet -o Dpkg::Use-Pty=0 "$@"; }
log() { if [ -t 1 ]; then "$@"; else "$@" >/dev/null; fi; }
log apt update || true # a stale list may still serve
if [ -n "$need" ]; then
    log apt install -y --no-install-recommends $need
fi
for p in $want; do
    log apt install -y --no-install-recommends "$p" || echo "-- packages: going on without $p" >&2
done
