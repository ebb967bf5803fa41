#!/bin/sh
# amd-tests.sh <directory of the emulated runtime> <sets>: AMD's own test programs, as Debian packages them, on the
# emulated GPUs: each checks what AMD's library computes there. A line for each library and GPU says how many programs
# ran and how many of their tests passed. A program that fails, or that does not end, is a failure and is named.
#
#   GPUS="gfx90a gfx1100"   which
#   PROGRAMS=quick          whole: those too that take minutes on an emulated GPU
set -eu
export LC_ALL=C
runtime=$1
sets=$2
unset GGML_HSA_RUNTIME GGML_HSA_AIE_ABI GGML_HSA_EMU_ROCR_BUGS || true
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
failed=0
ran=0

# programs <set>: name and how long, one a line. Debian installs them below usr/libexec/rocm/<package>.
programs() {
    case $1 in
    rand5)
        for name in test_rocrand_linkage test_rocrand_generator_type test_uniform_distribution \
            test_normal_distribution test_log_normal_distribution test_rocrand_kernel_philox4x32_10 \
            test_rocrand_kernel_mtgp32 test_rocrand_kernel_sobol32 test_rocrand_kernel_sobol64; do
            echo "$name quick"
        done
        find "$sets/rand5/usr/libexec/rocm" -name 'test_*' -type f | sed 's|.*/||; s|$| whole|' | sort
        ;;
    esac
}

# of <library> <set> <limit in seconds>
of() {
    library=$1
    set=$sets/$2
    [ -x "$set/run" ] || {
        echo "skipped: no tests of $library in $set; \`make test-hosts\` gets them"
        return 0
    }
    version=$(sed -n "s/^lib$(echo "$library" | tr '[:upper:]' '[:lower:]')[0-9]*-tests //p" "$set/packages")
    for gpu in ${GPUS:-gfx90a gfx1100}; do
        n=0
        tests=0
        programs "$2" | awk -v all="${PROGRAMS:-quick}" '($2 == "quick" || all == "whole") && !seen[$1]++ { print $1 }' \
            >"$work/list"
        while read -r name; do
            program=$(find "$set/usr/libexec/rocm" -name "$name" -type f | head -n 1)
            code=0
            GGML_HSA_EMULATE=$gpu timeout "$3" "$set/run" -l "$runtime" "${program:-$name}" >"$work/out" 2>&1 </dev/null ||
                code=$?
            passed=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) tests*\..*/\1/p' "$work/out")
            if [ $code != 0 ] || [ -z "$passed" ] || grep -q '^\[  FAILED  \]' "$work/out"; then
                tail -n 5 "$work/out" >&2
                echo "amd-tests.sh: $library, $gpu: $name: status $code" >&2
                failed=1
            else
                n=$((n + 1))
                tests=$((tests + passed))
            fi
        done <"$work/list"
        ran=$((ran + n))
        echo "$library $version, $gpu: $n of $(wc -l <"$work/list") programs, $tests tests passed"
    done
}

of rocRAND rand5 "${LIMIT:-300}"
[ $ran != 0 ] || [ $failed != 0 ] || exit 77
exit $failed
