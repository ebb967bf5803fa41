#!/bin/sh
# step.sh <log> <label> <command...>: one step of a build. On a terminal the command shows its own
# progress; in a pipe it goes to the log, whose end is shown when the command fails. The exit status
# is the command's own in both cases: what comes after a failed step would run on stale files.
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
"$@" >"$log" 2>&1 || code=$?
if [ "$code" != 0 ]; then
    tail -n 60 "$log" >&2
    echo "-- $label: failed with status $code, all of it is in $log" >&2
fi
exit "$code"
