#!/bin/sh
# backend-ops.sh <test-backend-ops> <steady> <cases> [partial] <arguments...>: runs ggml's comparison with the CPU on
# HSA0. test-backend-ops counts an unsupported case as neither good nor bad, and a backend that supports
# nothing passes; nor does it look at the status of a graph. So this also wants at least <cases> cases
# compared, no word of the device about a failure, and none left out that the CPU has, unless the ops are
# supported in part. Status 77: there is no compiler for an emulated GPU.
# OPS_SEED: what random numbers start from, the same each time; empty for others in each run.
# OPS_RUN: a command, as words, in front of the program's name.
program=$1
steady=$2 # a library to preload, see steady.c
cases=$3
shift 3
partial=
if [ "$1" = partial ]; then
    partial=1
    shift
fi
# Every case is held against every name behind -o, with a regular expression that is made anew each time:
# one expression for all names is ten times as fast.
n=$#
last=
while [ "$n" -gt 0 ]; do
    word=$1
    shift
    case $last/$word in
    -o/*[!A-Z0-9_,]*) ;;
    -o/*) word="^$(printf '%s' "$word" | sed 's/,/$|^/g')\$" ;;
    esac
    last=$word
    set -- "$@" "$word"
    n=$((n - 1))
done
case ${OPS_RUN:-}/${GGML_HSA_EMULATE:-} in
*gfx*)
    found=
    for clang in clang++-19 clang++-20; do
        [ ! -x "$($clang --print-prog-name=lld 2>/dev/null)" ] || found=1
    done
    if [ -z "$found" ]; then
        echo "skipped: no clang++-19 or later with its lld to compile GPU kernels with"
        exit 77
    fi
    ;;
esac
# As many tests run at a time as there are processors, so that an array has one thread; test-threads and the unit tests
# have them all, and what is set already, to nothing even, stays so.
export GGML_HSA_EMU_THREADS="${GGML_HSA_EMU_THREADS-1}"
export OPS_SEED="${OPS_SEED-1}"
if [ -n "${OPS_RUN:-}" ]; then # with libraries of its own to preload
    # shellcheck disable=SC2086
    out=$($OPS_RUN "$program" test -b HSA0 "$@" 2>&1)
else
    out=$(LD_PRELOAD="$steady" "$program" test -b HSA0 "$@" 2>&1)
fi
code=$?
passed=$(printf '%s\n' "$out" | sed -n 's/^ *\([0-9]*\)\/[0-9]* tests passed.*/\1/p' | tail -n 1)
missing=$(printf '%s\n' "$out" | grep -a 'not supported \[.*HSA0' | grep -a -v CPU)
printf '%s\n' "$out" | grep -a -E 'FAIL|error|ggml-hsa:' | head -n 40
printf '%s\n' "$out" | tail -n 5
if [ "$code" != 0 ]; then
    printf '%s\n' "$out" | grep -a -A 64 '^steady: '
    exit "$code"
fi
if printf '%s\n' "$out" | grep -a -q 'ggml-hsa: HSA0: '; then
    echo "the device had to say something"
    exit 1
fi
if [ -n "$missing" ] && [ -z "$partial" ]; then
    printf '%s\n' "$missing" | head -n 20
    echo "$(printf '%s\n' "$missing" | wc -l) cases of the CPU are not supported"
    exit 1
fi
if [ "${passed:-0}" -lt "$cases" ]; then
    echo "only ${passed:-0} cases were compared, $cases are wanted"
    exit 1
fi
