#!/bin/sh
# mnist-eval.sh <mnist-eval> <data>: a few hundred digits on the NPU and on the CPU. Every node must run
# on the NPU, and the answers must be the CPU's.
set -eu
eval=$1
data=$2
if [ ! -f "$data/t10k-images-idx3-ubyte" ]; then
    echo "skipped: no digits in $data; sh cmake/mnist.sh .deps gets them"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    cat "$work/out" >&2
    echo "mnist-eval.sh: $*" >&2
    exit 1
}

# 250 digits in batches of 100: the last batch is half full.
"$eval" --data "$data" --limit 250 --batch 100 --html "$work/report.html" >"$work/out" 2>&1 || fail "exit status $?"
grep -q '^  HSA0 .* 7 of 7 ' "$work/out" || fail "not every node ran on HSA0"
grep -q '^250 of 250 digits, ' "$work/out" || fail "the answers are not the CPU's"
grep -Eq '^  CPU +(9[7-9]|100)\.' "$work/out" || fail "the network is worse than it was"
# The causes of the modelled time are all of it.
sed -n 's/^where it went: //p' "$work/out" | tr ',' '\n' |
    awk '{ sum += $(NF - 1); n++ } END { exit !(n == 10 && sum > 99 && sum < 101) }' ||
    fail "the causes of the modelled time do not add up"
# A pipe gets no control characters and nothing but ASCII.
if LC_ALL=C grep -q '[^ -~]' "$work/out"; then
    fail "control or non-ASCII characters in a pipe"
fi
# The report has one picture for each wrong digit.
wrong=$(sed -n 's/^  HSA0 .* % *\([0-9]*\) .* s .*/\1/p' "$work/out")
[ "$(grep -c '<figure' "$work/report.html" || true)" = "$wrong" ] || fail "not $wrong pictures in the report"
cat "$work/out"
