# prologue.sh: what the tests begin with that call llama.cpp's library with a program of their own; they source it, with
# five arguments: <llama bin> <llama.cpp's source> <ggml's prefix> <plugin> and a fifth, which $fifth names. Without
# llama.cpp or a compiler the test is skipped. Then there are $bin, $plugin, $here and a directory $work that goes with
# the test.
export LC_ALL=C
if [ $# != 5 ]; then
    echo "usage: ${0##*/} <directory of libllama.so> <llama.cpp's source> <ggml's prefix> <libggml-hsa.so> <$fifth>" >&2
    exit 2
fi
bin=$(cd "$1" 2>/dev/null && pwd) || bin=$1
source=$2
prefix=$(cd "$3" && pwd)
plugin=$4
here=$(cd "$(dirname "$0")" && pwd)
if [ ! -r "$bin/libllama.so" ] || [ ! -r "$source/include/llama.h" ]; then
    echo "skipped: no llama.cpp in $bin and $source; \`make llama\` builds it"
    exit 77
fi
if ! command -v cc >/dev/null; then
    echo "skipped: no C compiler"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# program <name>: <name>.c becomes $work/<name>.
program() {
    cc -o "$work/$1" -I"$here/../../include" -I"$source/include" -I"$prefix/include" "$here/$1.c" -L"$bin" \
        -L"$prefix/lib" -lllama -lggml -lggml-base -Wl,-rpath,"$bin" -Wl,-rpath,"$prefix/lib"
}

fail() {
    echo "${0##*/}: $*" >&2
    exit 1
}
