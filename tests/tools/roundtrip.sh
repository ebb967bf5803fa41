#!/bin/sh
# roundtrip.sh <gen-kernels> <test-backend-ops> <plugin> <plugin without compilers> <directory>: records what
# ggml's ADD tests need, makes those kernels ahead of time, and runs the tests again in a plugin that
# cannot compile. The second run must compare as many cases and need the very same kernels, all of
# which can only come from the pack; without the pack it must compare none, or this shows nothing.
set -eu
gen=$1
program=$2
plugin=$3
packs_only=$4
dir=$5

rm -rf "$dir"
mkdir -p "$dir"
export GGML_HSA_EMULATE=aie2 GGML_HSA_KERNEL_CACHE_MAX_SIZE=0
unset GGML_HSA_KERNEL_DIR GGML_HSA_RECORD GGML_HSA_JIT_COMMAND

# All but the cases of millions of elements, which need no other kernels.
large='1,1,1[29][28]0,1.,nr=.32|64,262144|1,1,65536|5120,1,1,1.,nr=.1,256|643251|20000|102[34],102[34]'
cases="^(?!.*ne(_a)?=.($large))"

fail() {
    echo "roundtrip: $*"
    exit 1
}

# How many cases a log says were compared on HSA0 and found good.
compared() {
    sed -n 's/^ *\([0-9]*\)\/[0-9]* tests passed.*/\1/p' "$1" | tail -n 1
}

entries() {
    sed -n 's/^\({.*}\),*$/\1/p' "$1" | sort
}

GGML_BACKEND_PATH=$plugin "$gen" --record "$dir/first.json" -- "$program" test -b HSA0 -o ADD -p "$cases" \
    >"$dir/first.log" 2>&1 || { tail -n 20 "$dir/first.log"; fail "the recorded run failed"; }
"$gen" --config "$dir/first.json" --output-dir "$dir/pack"

export GGML_BACKEND_PATH="$packs_only"
GGML_HSA_KERNEL_DIR=$dir/pack GGML_HSA_RECORD=$dir/second.json "$program" test -b HSA0 -o ADD -p "$cases" \
    >"$dir/second.log" 2>&1 || { tail -n 20 "$dir/second.log"; fail "the run from the pack failed"; }
"$program" test -b HSA0 -o ADD -p "$cases" >"$dir/none.log" 2>&1 || fail "the run without a pack failed"

first=$(compared "$dir/first.log")
second=$(compared "$dir/second.log")
none=$(compared "$dir/none.log")
entries "$dir/first.json" >"$dir/first.txt"
entries "$dir/second.json" >"$dir/second.txt"
kernels=$(wc -l <"$dir/first.txt")
[ "${first:-0}" -ge 91 ] || fail "only ${first:-0} cases were recorded"
[ "$kernels" -ge 50 ] || fail "only $kernels kernels were recorded"
[ "${second:-0}" = "$first" ] || fail "$first cases with the compiler, ${second:-0} from the pack"
[ "${none:-0}" = 0 ] || fail "$none cases were compared without a compiler and without a pack"
cmp "$dir/first.txt" "$dir/second.txt" || fail "the second run needed other kernels"
echo "roundtrip: $second cases, $kernels kernels, all from the pack, 0 compiles"
