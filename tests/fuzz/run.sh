#!/bin/sh
# run.sh <build> [<name>...]: runs the fuzzers of a build (all, or those named) and prints what each did. `make fuzz`
# calls it.
#
#   FUZZ_SECONDS   for each; 30. 0: only what it has already, its seeds and its corpus
#   FUZZ_ARGS      more options of libFuzzer
#   JOBS           how many run at a time
#
# <build>/fuzz/<name>/ has seeds (which the target's own code writes anew each time), corpus (which grows), found
# (inputs that were too much for it) and log.txt. Inputs that crash, hang or take more memory than FUZZ_MB end the
# target's run and this script with an error; the command that feeds one again is printed.
set -eu

seconds=${FUZZ_SECONDS:-30}
megabytes=${FUZZ_MB:-1024}

run_one() { # run_one <build> <name>
    dir=$1/fuzz/$2
    rm -rf "$dir/seeds"
    mkdir -p "$dir/seeds" "$dir/corpus" "$dir/found"
    if ! longest=$("$1/bin/smoke-$2" --seeds "$dir/seeds"); then
        echo "smoke-$2 could not write its seeds" >"$dir/log.txt"
        return 1
    fi
    bound=-max_total_time=$seconds
    [ "$seconds" != 0 ] || bound=-runs=0
    # To note where each piece of memory was asked for, and to keep much of what was freed, costs half of the time of
    # some targets. The command that feeds an input again does both.
    # shellcheck disable=SC2086
    UBSAN_OPTIONS=print_stacktrace=1:${UBSAN_OPTIONS:-} \
        ASAN_OPTIONS=malloc_context_size=0:quarantine_size_mb=8:${ASAN_OPTIONS:-} \
        "$1/bin/fuzz-$2" $bound -max_len="$longest" -rss_limit_mb="$megabytes" -timeout=20 -report_slow_units=2 \
        -print_final_stats=1 -artifact_prefix="$dir/found/" ${FUZZ_ARGS:-} \
        "$dir/corpus" "$dir/seeds" >"$dir/log.txt" 2>&1
}

# A line of the table, from the log.
say_one() { # say_one <build> <name>
    awk -v name="$2" '
        / inline 8-bit counters/ { match($0, /\([0-9]+ inline/); edges = substr($0, RSTART + 1, RLENGTH - 8) }
        /^#[0-9]+.*cov: / { for (i = 1; i < NF; i++) {
            if ($i == "cov:") cov = $(i + 1); if ($i == "ft:") ft = $(i + 1); if ($i == "corp:") corp = $(i + 1) } }
        /^stat::number_of_executed_units/ { runs = $2 }
        /^stat::average_exec_per_sec/ { speed = $2 }
        /^stat::peak_rss_mb/ { peak = $2 }
        END { sub("/.*", "", corp)
              printf "%-15s %11d %9d %7d %5.1f%% %8d %7d %8d\n",
                     name, runs, speed, cov, edges ? 100 * cov / edges : 0, ft, corp, peak }' "$1/fuzz/$2/log.txt"
}

if [ "${1:-}" = --one ]; then
    if run_one "$2" "$3"; then say_one "$2" "$3"; else echo "$3" >>"$2/fuzz/failed"; fi
    exit 0
fi

build=${1:?run.sh <build> [<name>...]}
shift
if [ $# = 0 ]; then
    for f in "$build"/bin/fuzz-*; do
        [ -x "$f" ] || { echo "no fuzzers in $build/bin" >&2; exit 1; }
        set -- "$@" "${f##*/fuzz-}"
    done
fi
mkdir -p "$build/fuzz"
rm -f "$build/fuzz/failed"
printf '%-15s %11s %9s %7s %6s %8s %7s %8s\n' target executions "exec/s" edges "of all" features corpus "peak MB"
printf '%s\n' "$@" | xargs -P "${JOBS:-1}" -I '{}' sh "$0" --one "$build" '{}'

status=0
if [ -e "$build/fuzz/failed" ]; then
    status=1
    while read -r name; do
        echo "-- $name: FOUND, see $build/fuzz/$name/log.txt"
        grep -m 3 -E '^(==[0-9]+==)?.*(ERROR: |SUMMARY: |runtime error: )' "$build/fuzz/$name/log.txt" | cut -c 1-160 || true
        for input in "$build/fuzz/$name/found"/*; do
            [ ! -e "$input" ] || echo "   again: $build/bin/fuzz-$name $input"
        done
    done <"$build/fuzz/failed"
fi
exit $status
