#!/bin/sh
# get.sh <deps>: builds two programs of stock llama.cpp, llama-completion and llama-quantize, into
# <deps>/llama/bin, once; a second call returns at once. Source and ggml are those that
# ../ggml/get.sh left in <deps>: the same release, and the very libraries that the plugin is built
# against, so that what runs here is what a user of that release runs.
set -eu

deps=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
source=$deps/llama.cpp
prefix=$deps/prefix
out=$deps/llama
stamp=$out/.stamp
programs="llama-completion llama-quantize"

if [ ! -f "$prefix/.stamp" ] || [ ! -f "$source/tools/completion/completion.cpp" ]; then
    echo "llama/get.sh: no llama.cpp source in '$source' or no ggml in '$prefix';" \
        "remove '$prefix' and call \`make setup\`" >&2
    exit 1
fi

# shellcheck disable=SC2016
set -- -DCMAKE_BUILD_TYPE=Release -DLLAMA_USE_SYSTEM_GGML=ON -DCMAKE_PREFIX_PATH="$prefix" \
    -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF \
    -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
    -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON '-DCMAKE_INSTALL_RPATH=$ORIGIN;$ORIGIN/../../prefix/lib'

# The libraries count, too: ggml's own stamp reads the same after another compiler built them.
wanted="$programs $* $(cat "$prefix/.stamp" "$prefix"/lib/libggml*.so | sha256sum | cut -c1-64)"
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
    exit 0
fi

step() {
    label=$1
    shift
    sh "$here/../step.sh" "$deps/llama.log.$label" "llama.cpp: $label" "$@"
}

rm -rf "$out"
generator=
command -v ninja >/dev/null && generator="-G Ninja"
# shellcheck disable=SC2086
step configure cmake -S "$source" -B "$out/build" $generator "$@"
# shellcheck disable=SC2086
step build cmake --build "$out/build" --parallel "${JOBS:-$(nproc)}" --target $programs
mv "$out/build/bin" "$out/bin"
rm -rf "$out/build"
# ggml looks for its backends beside the program.
ln -s ../../prefix/bin/libggml-cpu.so "$out/bin/libggml-cpu.so"
for program in $programs; do
    # The status says nothing, llama-quantize's help ends with 1.
    "$out/bin/$program" --help >"$deps/llama.log.$program" 2>&1 || true
    if ! grep -q usage "$deps/llama.log.$program"; then
        cat "$deps/llama.log.$program" >&2
        echo "llama/get.sh: $out/bin/$program does not start" >&2
        exit 1
    fi
done
echo "$wanted" >"$stamp"
echo "-- llama.cpp: ready in $out/bin"
