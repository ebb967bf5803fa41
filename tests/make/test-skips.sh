#!/bin/sh
# test-skips.sh <skips.sh> <sources of the tests> <cmake> <ctest> <unit test...>: what is skipped is seen as
# skipped. Unit tests that read golden data are run with none: one of which nothing is left ends with 77, the
# others pass in part, each says why, with GGML_HSA_GOLDEN_REQUIRED=1 each fails, and skips.sh lists it all
# from a log that ctest wrote.
set -u
skips=$1
sources=$2
cmake=$3
ctest=$4
shift 4
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0

complain() {
    echo "test-skips: $*"
    failed=1
}

# ---- unit tests without golden data: they were built for a directory that is not there ----

for program in "$@"; do
    name=$(basename "$program")
    case $name in *-all) want=77 ;; *) want=0 ;; esac
    GGML_HSA_GOLDEN_REQUIRED=0 "$program" >"$dir/out" 2>&1
    code=$?
    echo "$name: status $code, $(grep -c '^skipped: ' "$dir/out") skipped"
    [ "$code" = "$want" ] || complain "$name ends with $code, not $want: $(cat "$dir/out")"
    grep -q '^skipped: no golden data in ' "$dir/out" || complain "$name does not say that data is missing"
    GGML_HSA_GOLDEN_REQUIRED=1 "$program" >"$dir/out" 2>&1
    code=$?
    [ "$code" = 1 ] || complain "$name ends with $code where golden data is required"
    grep -q 'no golden data at .*GGML_HSA_GOLDEN_REQUIRED' "$dir/out" || complain "$name does not say why it failed"
done

# ---- the list behind `make test` ----

cat >"$dir/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.18)
project(skips NONE)
enable_testing()
add_test(NAME whole COMMAND sh -c "echo 'skipped: no compiler'; exit 77")
add_test(NAME silent COMMAND sh -c "exit 77")
add_test(NAME part COMMAND sh -c "seq 5000; echo 'skipped: no data'; echo 'skipped: no data'; echo 'skipped: no compiler'")
add_test(NAME good COMMAND sh -c "echo 'it says skipped: in a line'")
set_tests_properties(whole silent part good PROPERTIES SKIP_RETURN_CODE 77)
END
{ "$cmake" -S "$dir" -B "$dir/build" && "$ctest" --test-dir "$dir/build" -j 2; } >"$dir/log" 2>&1 ||
    complain "ctest failed: $(cat "$dir/log")"
grep -Eq 'whole .*Skipped' "$dir/log" || complain "ctest shows no skip: $(cat "$dir/log")"
sh "$skips" "$dir/build" | sort >"$dir/out"
sort >"$dir/want" <<END
-- $dir/build: of 4 tests 2 skipped, 1 more in part (*):
--   no compiler: whole, part*
--   no data: part*
--   no reason was given: silent
END
sed -i 's/: part\*, whole/: whole, part*/' "$dir/out" # in the order in which they ended
cmp -s "$dir/want" "$dir/out" || complain "the list is
$(cat "$dir/out") and not
$(cat "$dir/want")"
"$ctest" --test-dir "$dir/build" -R good >/dev/null
case $(sh "$skips" "$dir/build") in *"1 tests, nothing skipped") ;; *) complain "nothing skipped is not said" ;; esac
sh "$skips" "$dir/nowhere" 2>/dev/null && complain "a build without a log passes for one without skips"

# ---- one mechanism ----

if grep -rnE '(^|[^_a-z])skip\(\)|print_message\("skipped|(printf|puts)\("[^"]*skipped' "$sources" \
    --include='*.c' --include='*.h' | grep -v '/skip\.h:'; then
    complain "these skip in a way of their own, see skip.h"
fi
exit "$failed"
