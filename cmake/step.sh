#!/bin/sh
# step.sh <log> <label> <command...>: one step of a build. On a terminal the command shows its own
# progress; in a pipe it goes to the log, whose last line is shown each half minute (STEP_SECONDS),
# and whose end when the command fails. The exit status is the command's own in all cases: what
# comes after a failed step would run on stale files.
set -u
log=$1
label=$2
shift 2
echo "-- $label"
if [ -t 1 ]; then
    exec "$@"
fi
mkdir -p "$(dirname "$log")" && : >"$log" || exit 1
code=0
"$@" >"$log" 2>&1 &
command=$!
# The sleep has none of our outputs: whoever reads the pipe does not wait for it.
while sleep "${STEP_SECONDS:-30}" >/dev/null 2>&1; do
    echo "-- $label: $(tail -n 1 "$log" | tr -d '\r' | cut -c 1-100)"
done &
ticker=$!
trap 'kill "$command" "$ticker" 2>/dev/null; exit 130' HUP INT TERM
wait "$command" || code=$?
kill "$ticker" 2>/dev/null
wait "$ticker" 2>/dev/null
if [ "$code" != 0 ]; then
    tail -n 60 "$log" >&2
    echo "-- $label: failed with status $code, all of it is in $log" >&2
fi
exit "$code"
