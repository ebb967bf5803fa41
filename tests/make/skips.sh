#!/bin/sh
# skips.sh <build...>: what the last ctest in each build directory skipped and why, by reason. It reads
# ctest's log, in which a test says "skipped: <reason>" for all of it or for a part (see tests/skip.h), and
# its list of those that were skipped as a whole.
# Without anything skipped it says so: silence would not tell a whole run from one that was not looked at.
set -eu
export LC_ALL=C

for build in "$@"; do
    log=$build/Testing/Temporary/LastTest.log
    if [ ! -f "$log" ]; then
        echo "skips.sh: there is no $log; run ctest in $build first" >&2
        exit 1
    fi
    # Left lying by a run that skips nothing. Every run writes its times, and this list behind them; the log is
    # closed before it by some versions of ctest, after it by others.
    whole=$build/Testing/Temporary/LastTestsDisabled.log
    if [ ! -f "$whole" ] || [ -n "$(find "$build/Testing/Temporary/CTestCostData.txt" -newer "$whole")" ]; then
        whole=/dev/null
    fi
    awk -v build="$build" -v whole="$whole" '
    function because(reason) {
        if (!(reason in tests)) {
            order[++n] = reason
        }
        if (!((reason, name) in seen)) {
            seen[reason, name] = 1
            tests[reason] = tests[reason] " " name
        }
    }
    # A test in the log: its name, its output, and how it ended.
    /^[0-9]+\/[0-9]+ Test: / { name = substr($0, index($0, " Test: ") + 7); n_tests++; inside = 0; next }
    /^Output:$/ && name != "" { inside = 1; next }
    /^<end of output>$/ { inside = 0; next }
    inside && /^skipped: / {
        because(substr($0, 10))
        partly[name] = 1
        next
    }
    END {
        while ((getline name < whole) > 0) {
            sub(/^[0-9]+:/, "", name)
            wholly[name] = 1
            n_whole++
            if (!(name in partly)) {
                because("no reason was given")
            }
        }
        for (test in partly) {
            n_part += !(test in wholly)
        }
        if (!n) {
            printf "-- %s: %d tests, nothing skipped\n", build, n_tests
            exit
        }
        printf "-- %s: of %d tests %d skipped, %d more in part (*):\n", build, n_tests, n_whole, n_part
        for (i = 1; i <= n; i++) {
            count = split(tests[order[i]], name_of, " ")
            line = ""
            for (k = 1; k <= count; k++) {
                line = line (k > 1 ? ", " : "") name_of[k] (name_of[k] in wholly ? "" : "*")
            }
            printf "--   %s: %s\n", order[i], line
        }
    }' "$log"
done
