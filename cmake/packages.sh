#!/bin/sh
# packages.sh [test|fuzz|gpu|hosts|format|cross|deb]: installs the packages that the build needs and that are missing,
# without questions, on Debian and Ubuntu. On another system it says in one line what to install; a machine that
# has everything needs neither root nor a package manager. A set that is named is wanted besides, and its absence
# stops nothing.
#
#   packages.sh --list debian|ubuntu|fedora|arch [<set>]    what a bare system would be given
#
# Debian's names are those of 12, 13 and sid, Ubuntu's those of 24.04; Fedora's and Arch's are untested.
set -eu
root=${PACKAGES_ROOT:-} # a system elsewhere, for the test

# What is needed: how one sees that it is there, and what has it on Debian and Ubuntu, Fedora, and Arch. A
# program is one of several; a header is one below the include directories.
needed() {
    cat <<END
program ${CC:-cc|gcc|clang} build-essential gcc gcc
program ${CXX:-c++|g++|clang++} build-essential gcc-c++ gcc
program make build-essential make make
program cmake cmake cmake cmake
program pkg-config|pkgconf pkg-config pkgconf-pkg-config pkgconf
program git git git git
program curl|wget|npm curl curl curl
file /etc/ssl/certs/ca-certificates.crt ca-certificates ca-certificates ca-certificates
header hsa/hsa.h libhsa-runtime-dev rocm-runtime-devel hsa-rocr
header cmocka.h libcmocka-dev libcmocka-devel cmocka
header jansson.h libjansson-dev jansson-devel jansson
END
}

# What is wanted besides: for every build, and for each set.
wanted() { # wanted <set>
    echo ninja-build
    case ${1:-} in
    test) echo clang rocminfo ;; # a second compiler
    # libFuzzer and the sanitizers are in libclang-rt-dev; llvm has the program that gives names to the addresses in
    # their reports.
    fuzz) echo clang libclang-rt-dev llvm ;;
    # Compilers for AMD GPUs, 700 MB. Tests that want them skip without.
    # hipcc brings the device libraries, which have another name in each release.
    gpu) echo clang rocminfo clang-19 lld-19 llvm-19 hipcc libamdhip64-dev librocrand-dev librocprim-dev ;;
    hosts) echo clang-19 lld-19 libamdhip64-5 curl ;; # from this release, for programs of newer ones
    format) echo clang-format-14 ;; # the version that cmake/format.sh asks for
    deb)
        echo debhelper dpkg-dev
        [ "${LINTIAN:-1}" = 0 ] || echo lintian # LINTIAN=0: it brings over a hundred packages
        ! apt-cache show libggml-dev >/dev/null 2>&1 || echo libggml-dev # Debian 12 has none
        ;;
    cross) # a compiler for the other architecture, and what runs its programs
        case $(uname -m) in
        x86_64) echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static ;;
        aarch64) echo gcc-x86-64-linux-gnu libc6-dev-amd64-cross qemu-user-static ;;
        esac
        ;;
    esac
}

is_there() { # is_there <kind> <what>
    case $1 in
    program)
        for name in $(echo "$2" | tr '|' ' '); do
            if command -v "$name" >/dev/null; then
                return 0
            fi
        done
        return 1
        ;;
    file) [ -e "$root$2" ] ;;
    header)
        for dir in /usr/include /usr/local/include /opt/rocm/include; do
            if [ -e "$root$dir/$2" ]; then
                return 0
            fi
        done
        return 1
        ;;
    esac
}

# missing <column>: the packages of what is not there, each once.
missing() {
    needed | while read -r kind what debian fedora arch; do
        [ "$listing" = 0 ] && is_there "$kind" "$what" && continue
        case $1 in
        fedora) echo "$fedora" ;;
        arch) echo "$arch" ;;
        *) echo "$debian" ;;
        esac
    done | awk '!seen[$0]++'
}

family() {
    # shellcheck disable=SC1091
    case " $(. "$root/etc/os-release" 2>/dev/null && echo "${ID:-} ${ID_LIKE:-}") " in
    *" ubuntu "*) echo ubuntu ;;
    *" debian "*) echo debian ;;
    *" fedora "*) echo fedora ;;
    *" arch "*) echo arch ;;
    *) echo unknown ;;
    esac
}

# one_line <words>: they come on many.
one_line() { echo $*; }

listing=0
if [ "${1:-}" = --list ]; then
    listing=1
    family=$2
    case $family in
    debian | ubuntu) one_line $(missing "$family") $(wanted "${3:-}") ;;
    *) one_line $(missing "$family") ;;
    esac
    exit 0
fi

family=$(family)
need=$(one_line $(missing "$family"))
case $family in
debian | ubuntu) ;;
*)
    [ -n "$need" ] || exit 0
    case $family in
    fedora) how="sudo dnf install" ;;
    arch) how="sudo pacman -S" ;;
    *) how="install what this system calls" ;;
    esac
    echo "packages.sh: please $how $need" >&2
    exit 1
    ;;
esac

want=
for p in $(wanted "${1:-}"); do
    # A program that came by another way than dpkg counts as well.
    if ! command -v "${p%-build}" >/dev/null &&
        ! dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'install ok installed'; then
        want="$want $p"
    fi
done
[ -n "$need$want" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
    # Where sudo would ask for a password and nobody can answer, it counts as missing.
    if ! command -v sudo >/dev/null || { [ ! -t 0 ] && ! sudo -n true 2>/dev/null; }; then
        [ -n "$need" ] || exit 0
        echo "packages.sh: neither root nor sudo; please have somebody call: apt-get install $need" >&2
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
# All at once where it can be: dpkg's triggers cost more than the packages.
if log apt install -y --no-install-recommends $need $want 2>/dev/null; then
    exit 0
fi
[ -z "$need" ] || log apt install -y --no-install-recommends $need
for p in $want; do
    log apt install -y --no-install-recommends "$p" || echo "-- packages: going on without $p" >&2
done
