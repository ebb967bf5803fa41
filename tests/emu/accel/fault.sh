#!/bin/sh
# fault.sh <build> <rocr> <program> <arguments...>: a run in which the driver refuses a call that ROCr
# makes while packets are on their way, or frees memory of a device that is lost. ROCr 7.2 ends the
# process then, in an assertion of its own, which no client can prevent; a newer one may report it, and then the program says whether all was
# well. Anything else is a failure: another signal, wrong values, a fault that was not played.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
err=$(mktemp)
trap 'rm -f "$err"' EXIT
trap 'exit 1' HUP INT TERM
code=0
sh "$here/run.sh" "$@" 2>"$err" || code=$?
cat "$err" >&2
if [ "$code" = 134 ] && grep -q -e 'SubmitPackets.*Could not submit packets' -e 'FreeMemory.*GPU memory error' "$err"; then
    echo "ROCr ended the process: docs/rocr.md says when"
    exit 0
fi
exit "$code"
