#!/bin/sh
# amd-tests.sh <directory of the emulated runtime> <sets> [<library>...]: AMD's own test programs, as Debian packages
# them, on the emulated GPUs: each checks what AMD's library computes there. Every program of a package is tried.
#
# Of programs with GoogleTest each case of each suite is run once: for the first of the types, and with the first of
# the parameters, for which the program lists it. Thrust's programs have a size instead: all of their cases are run,
# with the smallest one. rocBLAS has one program with over a million cases; of its quick ones a case of each function and
# type is run, from about the middle of those that it lists. amd-tests.txt names the libraries, and what an emulated GPU
# takes too long for; where that is a type, the next one comes first. A line for each program says what came of it, a
# line for each library and GPU how many programs were tried and how they ended:
#
#   passed    each case that was run ended well, or the program itself skips it or calls it a known failure
#   refused   the program or the runtime says that it cannot be run on this GPU; the reason is a row of the table
#   wrong     a case failed: what was computed is not what AMD's test wants
#   stopped   the program ended in another way, or did not end
#   left      not tried: the table leaves out all of its cases
#
# Wrong and stopped programs are failures.
#
#   GPUS="gfx90a gfx1100"   which; those of the table without it
#   PROGRAMS='test_warp_*'  which programs, as a pattern of the shell; all of them without it
#   CASES=all               every case, also those that take minutes
#   LIMIT=600               seconds after which a program is ended
set -eu
export LC_ALL=C
runtime=$(realpath -m "$1")
sets=$(realpath -m "$2")
shift 2
table=$(dirname "$0")/amd-tests.txt
unset GGML_HSA_RUNTIME GGML_HSA_AIE_ABI GGML_HSA_EMU_ROCR_BUGS || true
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
failed=0
ran=0

# rows <verb> <GPU> <program>: the last word of the table's rows that speak of it.
rows() {
    awk -v verb="$1" -v gpu="$2" -v program="$3" '
        function pattern(text) {
            gsub(/[.]/, "[.]", text)
            gsub(/[*]/, ".*", text)
            return "^" text "$"
        }
        $1 == verb && ($2 == gpu || $2 == "all") && program ~ pattern($3) {
            print verb == "leave" ? pattern($4) : verb == "each" ? pattern($4) " " $5 : $4
        }' "$table"
}

# first <file with what is left out>: of the list that a program prints, each case of a suite once, as it is first
# listed, or always where the table says that the program is to be run whole, or one of each kind that the table tells
# apart; a line each. A list without suites is a list of cases.
first() {
    awk -v file="$1" -v kind="$kind" -v every="$(rows whole "$gpu" "$name")" -v each="$(rows each "$gpu" "$name")" '
        BEGIN {
            while ((getline line <file) > 0) left[line] = 1
            split(each, of, " ")
        }
        # Of each kind the one whose number is the greatest power of two, which is never far from the middle.
        function choose(name, key, n) {
            if (name !~ of[1]) return
            key = base (match(name, of[2]) ? substr(name, RSTART, RLENGTH) : "")
            n = ++met[key]
            while (n % 2 == 0) n /= 2
            if (n == 1) chosen[key] = name
        }
        END {
            for (key in chosen) print chosen[key]
        }
        kind == "gtest" && /^[^ ].*\.( |$)/ {
            suite = $1
            base = suite
            sub(/\/[0-9]+\.$/, ".", base)
            sub(/.*\//, "", base)
        }
        kind == "gtest" ? /^  / && suite != "" : /^[^ ]+$/ {
            name = $1
            sub(/\/.*/, "", name)
            if (name ~ /^DISABLED_/) next
            for (pattern in left) if (suite $1 ~ pattern) next
            if (each != "") choose(suite $1)
            else if (every != "" || !met[base name]++) print suite $1
        }'
}

# launch <arguments of the program>: its output to $work/out, its status to $code.
launch() {
    code=0
    {
        env -C "$work" HOME="$work" XDG_CACHE_HOME="$work" GGML_HSA_EMULATE="$gpu" \
            timeout "${LIMIT:-600}" "$set/run" -l "$runtime" "$program" "$@" >"$work/out" 2>&1 </dev/null || code=$?
    } 2>/dev/null # where the shell would say that the program was ended by a signal
}

# number <pattern with a group>: of the line of the output that it fits, or 0.
number() {
    sed -n "s/^$1.*/\\1/p" "$work/out" | awk '{ n = $1 } END { print n + 0 }'
}

# try: one program, $program on $gpu; says what came of it in $outcome, $cases and $total.
try() {
    outcome=stopped
    cases=0
    total=0
    reason=$(rows refused "$gpu" "$name")
    case $kind in
    gtest) launch --gtest_list_tests ;;
    thrust) launch --list ;;
    esac
    [ "$code" = 0 ] || return 0
    total=$(grep -E '^(  [^ ]|[^ ]*[^ .]$)' "$work/out" | grep -vc '^  DISABLED_') || true
    if [ "${CASES:-first}" = all ]; then
        chosen=$total
        launch
    else
        rows leave "$gpu" "$name" >"$work/left"
        first "$work/left" <"$work/out" >"$work/cases"
        chosen=$(wc -l <"$work/cases")
        [ "$chosen" != 0 ] || [ "$total" = 0 ] || {
            outcome=left
            return 0
        }
        case $kind in
        gtest) launch "--gtest_filter=$(tr '\n' ':' <"$work/cases")" ;;
        thrust)
            # shellcheck disable=SC2046
            launch --sizes=tiny --verbose $(cat "$work/cases")
            ;;
        esac
    fi
    skipped=0
    case $kind in
    gtest)
        cases=$(number '\[  PASSED  \] \([0-9]*\) tests*\.')
        skipped=$(number '\[  SKIPPED \] \([0-9]*\) tests*, ')
        failures=$(grep -ac '^\[  FAILED  \]' "$work/out") || true
        ;;
    thrust)
        cases=$(number 'Totals: .* \([0-9]*\) passes')
        skipped=$(number 'Totals: .* \([0-9]*\) known failures')
        failures=$(grep -Eac '\[(FAILURE|ERROR|UNKNOWN)|^Totals: ([1-9]|.*known failures, [1-9])' "$work/out") || true
        ;;
    esac
    if [ "$failures" != 0 ]; then
        outcome=wrong
    elif [ -n "$reason" ] && grep -q -- "$reason" "$work/out"; then
        outcome=refused
    elif [ "$code" = 0 ] && [ $((cases + skipped)) = "$chosen" ]; then
        outcome=passed
    fi
}

# of <library> <set> <package> <kind> <GPUs, divided by commas>
of() {
    library=$1
    set=$sets/$2
    kind=$4
    [ -x "$set/run" ] || {
        echo "skipped: no tests of $library in $set; \`make test-hosts\` gets them"
        return 0
    }
    version=$(sed -n "s/^$3 //p" "$set/packages")
    # A program that looks for its data beside itself looks beside the dynamic linker, which runs it.
    linker=$(realpath "$set/ld.so")
    for data in "$set"/usr/share/*/*/test/*.data; do
        [ ! -e "$data" ] || ln -sf "$data" "${linker%/*}"
    done
    find "$set/usr/libexec/rocm" -path "*$3/*" -type f -perm -100 -name "${PROGRAMS:-*}" |
        grep -E '/(test_[^/]*|[^/]*-test)$' | sort >"$work/list"
    count=$(wc -l <"$work/list")
    [ "$count" != 0 ] || [ -n "${PROGRAMS:-}" ] || {
        echo "amd-tests.sh: $library: no programs in $set" >&2
        failed=1
    }
    for gpu in ${GPUS:-$(echo "$5" | tr , ' ')}; do
        passed=0 refused=0 wrong=0 stopped=0 left=0 tests=0 n=0
        while read -r program; do
            name=${program##*/}
            n=$((n + 1))
            began=$(date +%s)
            try
            took=$(($(date +%s) - began))
            eval "$outcome=\$(($outcome + 1))"
            tests=$((tests + cases))
            echo "$library, $gpu, $n of $count: $name: $outcome, $cases of $total cases, $took s"
            sed -n 's/^\[       OK \] \(.*\) (\([0-9]\{2,\}\)[0-9]\{3\} ms)$/    slow: \1, \2 s/p' "$work/out"
            case $outcome in
            wrong | stopped)
                grep -a -B 12 '^\[  FAILED  \]\|FAILURE\|ERROR' "$work/out" | head -n 40 >&2 || true
                tail -n 5 "$work/out" >&2
                echo "amd-tests.sh: $library, $gpu: $name: $outcome, status $code" >&2
                failed=1
                ;;
            esac
        done <"$work/list"
        ran=$((ran + n))
        echo "$library $version, $gpu: $((n - left)) of $n programs tried, $passed passed, $refused refused," \
            "$wrong wrong, $stopped stopped; $tests cases passed"
    done
}

awk '$1 == "library" { print $2, $3, $4, $5, $6 }' "$table" >"$work/libraries"
while read -r library set package kind gpus; do
    case " ${*:-$library} " in
    *" $library "*) of "$library" "$set" "$package" "$kind" "$gpus" ;;
    esac
done <"$work/libraries"
[ $ran != 0 ] || [ $failed != 0 ] || exit 77
exit $failed
