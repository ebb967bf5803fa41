#!/bin/sh
# exports.sh <emulated runtime> <sets>: every function that AMD's runtimes of the sets of cmake/debian/get.sh
# export must be in the emulated one, with the same version, so that what was linked against theirs starts.
set -eu
export LC_ALL=C
emulated=$1
sets=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

functions() { nm -D --defined-only "$1" | awk '$3 ~ /^hsa_/ { print $3 }' | sed 's/@@/@/' | sort -u; }

functions "$emulated" >"$work/ours"
found=0
for set in hip5 hip6 hip7 rocr; do
    theirs=$sets/$set/lib/libhsa-runtime64.so.1
    [ -e "$theirs" ] || continue
    found=1
    functions "$theirs" >"$work/theirs"
    comm -13 "$work/ours" "$work/theirs" >"$work/missing"
    echo "$(sed -n 's/^libhsa-runtime64-1 //p' "$sets/$set/packages"): $(wc -l <"$work/theirs") functions," \
        "$(wc -l <"$work/missing") of them missing here"
    if [ -s "$work/missing" ]; then
        cat "$work/missing" >&2
        exit 1
    fi
done
if [ $found = 0 ]; then
    echo "skipped: no runtime of AMD's in $sets; \`make test-hosts\` gets them"
    exit 77
fi
