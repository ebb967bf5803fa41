#!/bin/sh
# left.sh <build> <rocr> <program> <arguments...>: a run after which nothing of ours is left in the driver.
# ROCr 7.2 itself never closes its file, and with it the heap: one buffer, one file.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
code=0
sh "$here/run.sh" "$@" || code=$?
[ "$code" = 0 ] || exit "$code"
report=$(tail -n 1 "$ACCEL_EMU_REPORT")
echo "$report"
for want in left_buffers=1 left_contexts=0 left_files=1 failed=0 timeouts=0 refused=0; do
    case " $report " in
    *" $want "*) ;;
    *)
        echo "left.sh: the driver's report has no $want" >&2
        exit 1
        ;;
    esac
done
