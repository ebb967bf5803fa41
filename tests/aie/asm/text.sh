#!/bin/sh
# text.sh <asm-text> <file.s...>: what asm-text prints for each file is what lies beside it as file.out; where
# it is not, the difference is shown. WRITE=1 writes those files anew: look at them before they are committed.
set -u
tool=$1
shift
failed=0
for file in "$@"; do
    expected=${file%.s}.out
    if [ -n "${WRITE:-}" ]; then
        "$tool" "$file" >"$expected" || failed=1
    elif ! "$tool" "$file" | diff -u "$expected" -; then
        echo "text.sh: $file: not what ${expected##*/} says (- is expected, + is now); WRITE=1 sh $0 $tool $file writes it anew"
        failed=1
    fi
done
exit $failed
