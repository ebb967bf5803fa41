#!/bin/sh
# step.sh <log> <label> <command...>: one step of a build. On a terminal the command shows its own
# progress; in a pipe it goes to the log, whose end is shown when the command fails.
set -u
log=$1
label=$2
shift 2
echo "-- $label"
if [ -t 1 ]; then
    exec "$@"
fi
mkdir -p "$(dirname "$log")"
if "$@" >"$log" 2>&1; then
    exit 0
fi
code=$?
tail -n 60 "$log" >&2
echo "-- $label: failed, all of it is in $log" >&2
exit $code
