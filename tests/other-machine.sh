#!/bin/sh
# other-machine.sh: build and test on a machine that reaches no network, from one directory that is carried
# there, whatever way there is.
#
#   sh tests/other-machine.sh pack <directory> [<arch>]   here: fills the directory, for amd64 unless told
#   sh <directory>/other-machine.sh test [<ctest words>]  there: unpacks, builds with all cores, runs the tests
#   sh <directory>/other-machine.sh check                 there: only whether it arrived whole
#
# The pack holds the committed source, ggml's source, the digits and the golden data where they are, and the
# Debian packages of libraries and headers that a build needs: about 20 MB, at most LIMIT_MB. The machine has
# to bring a C and a C++ compiler, CMake, make and Ninja or make alone. Nothing is installed there and nobody
# needs to be root: packages are unpacked beside the sources. A second `test` goes on where the first one was
# stopped, and with a newer pack ggml is kept.
#
# pack:  LIMIT_MB=60  what a pack may have    DEBS=0  no packages: the machine has the libraries
#        LEVEL=1      a larger pack, sooner
# test:  WORK=/tmp/ggml-hsa-other  where      WHOLE=1  every case of every op, too      ASAN=1  sanitizers, too
#        STEP=build  no tests                 JOBS=<n>  not all cores
set -eu
level=${LEVEL:-9}
self=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")

die() {
    echo "other-machine.sh: $*" >&2
    exit 1
}

say() { echo "-- other-machine: $*"; }

# ---- here ----

# Libraries and headers of src/ and tests/; rocminfo is a test's guest; pkgconf for a machine without.
debs="libjansson4 libjansson-dev libcmocka0 libcmocka-dev libssl3 libssl-dev libhsa-runtime-dev rocminfo
      pkgconf-bin libpkgconf3"

pack_ggml() { # pack_ggml <llama.cpp> <out>: what cmake/ggml/CMakeLists.txt builds, and no backend but the CPU's
    leave=
    for backend in "$1"/ggml/src/ggml-*/; do
        case $(basename "$backend") in
        ggml-cpu | ggml-rpc) ;;
        *) leave="$leave --exclude=llama.cpp/ggml/src/$(basename "$backend")" ;;
        esac
    done
    # shellcheck disable=SC2086
    tar c -C "$1/.." $leave llama.cpp/LICENSE llama.cpp/ggml llama.cpp/tests/test-backend-ops.cpp \
        llama.cpp/tools/rpc >"$2.tar"
    gzip "-$level" <"$2.tar" >"$2"
    rm "$2.tar"
}

pack() {
    [ $# -ge 1 ] && [ $# -le 2 ] || die "usage: other-machine.sh pack <directory> [<arch>]"
    arch=${2:-amd64}
    tree=$(cd "$(dirname "$self")/.." && pwd)
    git -C "$tree" rev-parse -q --verify HEAD >/dev/null || die "$tree is no git checkout with a commit"
    [ -f "$tree/.deps/llama.cpp/ggml/include/ggml.h" ] || die "no source of ggml in $tree/.deps; call \`make setup\`"
    mkdir -p "$1"
    dest=$(cd "$1" && pwd)
    [ -z "$(ls -A "$dest")" ] || [ -f "$dest/manifest" ] || die "$dest is neither empty nor an older pack"
    rm -rf "${dest:?}"/*
    if [ -n "$(git -C "$tree" status --porcelain)" ]; then
        say "uncommitted changes stay behind"
    fi

    git -C "$tree" archive --format=tar HEAD >"$dest/source.tar"
    gzip "-$level" "$dest/source.tar"
    mv "$dest/source.tar.gz" "$dest/source.tgz"
    pack_ggml "$tree/.deps/llama.cpp" "$dest/ggml.tgz"
    if [ -f "$tree/.deps/mnist/t10k-images-idx3-ubyte" ]; then
        (cd "$tree/.deps" && tar c mnist/*-ubyte) >"$dest/digits.tar"
        gzip "-$level" "$dest/digits.tar"
        mv "$dest/digits.tar.gz" "$dest/digits.tgz"
    else
        say "no digits in .deps/mnist (\`make demo\` gets them): tests that read them will be skipped"
    fi
    golden=${GGML_HSA_GOLDEN_DIR:-$tree/../shared/golden}
    if [ -d "$golden" ]; then
        tar c -C "$golden" . >"$dest/golden.tar"
        gzip "-$level" "$dest/golden.tar"
        mv "$dest/golden.tar.gz" "$dest/golden.tgz"
    else
        say "no golden data in $golden: tests that read it will be skipped"
    fi
    if [ "${DEBS:-1}" != 0 ]; then
        # shellcheck disable=SC2086
        sh "$tree/cmake/debs.sh" "$arch" "$dest/debs" $debs
    fi
    cp "$self" "$dest/other-machine.sh"
    {
        echo "arch $arch"
        echo "commit $(git -C "$tree" rev-parse HEAD)"
        (cd "$dest" && find . -type f ! -name 'manifest*' | LC_ALL=C sort | xargs sha256sum | sed 's/^/file /')
    } >"$dest/manifest.part"
    mv "$dest/manifest.part" "$dest/manifest"

    kib=$(du -sk "$dest" | cut -f1)
    say "$((kib / 1024)) MB for $arch in $dest, commit $(git -C "$tree" log -1 --format='%h %s')"
    [ "$kib" -le $((${LIMIT_MB:-60} * 1024)) ] || die "that is more than LIMIT_MB=${LIMIT_MB:-60}"
    say "carry it there, then: sh $(basename "$dest")/other-machine.sh test"
}

# ---- there ----

arch_here() {
    case $(uname -m) in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) uname -m ;;
    esac
}

check_pack() { # check_pack <directory>: whole, and for this machine
    [ -f "$1/manifest" ] || die "no manifest beside $self; \`other-machine.sh pack\` makes a pack"
    arch=$(sed -n 's/^arch //p' "$1/manifest")
    [ "$arch" = "$(arch_here)" ] || die "the pack is for $arch, this machine is $(arch_here)"
    (cd "$1" && sed -n 's/^file //p' manifest | sha256sum -c --quiet - >&2) || die "the pack is not whole"
}

check_tools() {
    missing=
    for tool in cc c++ cmake make tar gzip; do
        command -v $tool >/dev/null || missing="$missing $tool"
    done
    [ -z "$missing" ] || die "this machine has no$missing"
}

# A .deb is an ar archive of tar files; a machine without dpkg can open it all the same.
unpack_deb() { # unpack_deb <file> <root>
    if command -v dpkg-deb >/dev/null; then
        dpkg-deb -x "$1" "$2"
    else
        part=$2/part.$$
        mkdir -p "$part"
        (cd "$part" && ar x "$1" && tar xf data.tar.* -C "$2")
        rm -rf "$part"
    fi
}

# The libraries: unpacked, not installed. OpenSSL's is the machine's own where it has one, whose programs must
# not meet another.
unpack_libraries() { # unpack_libraries <pack> <root>
    rm -rf "$2"
    mkdir -p "$2"
    for deb in "$1"/debs/*.deb; do
        unpack_deb "$deb" "$2"
    done
    libs=$2/usr/lib/$(uname -m)-linux-gnu
    own=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | sed -n 's/.*libcrypto\.so\.3 .*=> *//p' | head -n 1)
    if [ -n "$own" ]; then
        rm -f "$libs"/libssl.so* "$libs"/libcrypto.so*
        ln -s "$own" "$libs/libcrypto.so"
    fi
    [ -e "$2/usr/bin/pkg-config" ] || ln -s pkgconf "$2/usr/bin/pkg-config"
    # They say where they would be if they were installed.
    sed -i "s|/usr|$2/usr|g" "$libs"/pkgconfig/*.pc
}

use_libraries() { # use_libraries <root>: for this build and for those that tests start
    libs=$1/usr/lib/$(uname -m)-linux-gnu
    export PATH="$PATH:$1/usr/bin"
    export CMAKE_PREFIX_PATH="$1/usr"
    export PKG_CONFIG_LIBDIR="$libs/pkgconfig"
    export C_INCLUDE_PATH="$1/usr/include:$1/usr/include/$(uname -m)-linux-gnu"
    export LIBRARY_PATH="$libs"
    export LD_LIBRARY_PATH="$libs"
}

unpack() { # unpack <pack> <work>
    if [ -f "$2/manifest" ] && cmp -s "$1/manifest" "$2/manifest"; then
        return
    fi
    say "unpacking into $2"
    mkdir -p "$2"
    rm -f "$2/manifest"
    # What was built is thrown away: files of a commit have its time, by which nothing would be built anew.
    [ ! -d "$2/tree/.deps" ] || { rm -rf "$2/deps"; mv "$2/tree/.deps" "$2/deps"; }
    rm -rf "$2/tree" "$2/shared"
    mkdir -p "$2/tree" "$2/shared"
    [ ! -d "$2/deps" ] || mv "$2/deps" "$2/tree/.deps"
    mkdir -p "$2/tree/.deps"
    tar xzf "$1/source.tgz" -C "$2/tree"
    rm -rf "$2/tree/.deps/llama.cpp"
    tar xzf "$1/ggml.tgz" -C "$2/tree/.deps"
    [ ! -f "$1/digits.tgz" ] || tar xzf "$1/digits.tgz" -C "$2/tree/.deps"
    if [ -f "$1/golden.tgz" ]; then
        mkdir "$2/shared/golden"
        tar xzf "$1/golden.tgz" -C "$2/shared/golden"
    fi
    [ ! -d "$1/debs" ] || unpack_libraries "$1" "$2/libraries"
    cp "$1/manifest" "$2/manifest"
}

build() { # build <directory> <options...>
    dir=$1
    shift
    generator="Unix Makefiles"
    ! command -v ninja >/dev/null || generator=Ninja
    sh cmake/step.sh "$dir/log/configure.txt" "$dir: configure" cmake -S . -B "$dir" -G "$generator" "$@"
    sh cmake/step.sh "$dir/log/compile.txt" "$dir: compile" cmake --build "$dir" --parallel "$jobs"
    # A compiler that nobody has tried yet: its warnings are news, not failures.
    grep -E 'warning:' "$dir/log/compile.txt" | sort -u | head -n 20 || true
}

run_tests() { # run_tests <directory> <ctest words...>: their status in $failed
    dir=$1
    shift
    ctest --test-dir "$dir" --output-on-failure --timeout 900 -j "$jobs" "$@" || failed=1
    sh tests/make/skips.sh "$dir"
}

test_here() {
    from=$(dirname "$self")
    check_pack "$from"
    check_tools
    work=${WORK:-/tmp/ggml-hsa-other}
    jobs=${JOBS:-$(nproc)}
    unpack "$from" "$work"
    [ ! -d "$work/libraries" ] || use_libraries "$work/libraries"
    [ ! -d "$work/shared/golden" ] || export GGML_HSA_GOLDEN_REQUIRED=1
    cd "$work/tree"
    say "commit $(sed -n 's/^commit //p' ../manifest), $(uname -sm), $jobs jobs, $(cc --version | head -n 1)"
    sh cmake/ggml/get.sh .deps
    build build
    [ -z "${ASAN:-}" ] || build build-asan -DGGML_HSA_SANITIZE=ON
    [ "${STEP:-}" != build ] || return 0
    failed=0
    [ -z "${ASAN:-}" ] || run_tests build-asan -LE 'ops|whole' "$@"
    run_tests build -LE whole "$@"
    [ -z "${WHOLE:-}" ] || run_tests build -L whole "$@"
    [ "$failed" = 0 ] && say "passed" || say "failed"
    return "$failed"
}

command=${1:-}
[ $# = 0 ] || shift
case $command in
pack) pack "$@" ;;
test) test_here "$@" ;;
check) check_pack "$(dirname "$self")" && say "whole, for $arch" ;;
*) die "usage: other-machine.sh pack <directory> [<arch>], or in a pack: other-machine.sh test | check" ;;
esac
