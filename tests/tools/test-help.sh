#!/bin/sh
# test-help.sh <directory of the programs>: a program that is asked for help gives it at once and does nothing else,
# and what cannot be written to standard output is an error.
set -eu
bin=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
failed=0
for program in bench-client bench-core bench-gen bench-gfx bench-graph bench-hip bench-npu bench-ops bench-store \
    bench-mul-mat; do
    [ -x "$bin/$program" ] || continue
    timeout 10 "$bin/$program" --help >help 2>&1 || { echo "$program --help ends with $?"; failed=1; }
    grep -q "^usage: $program" help || { echo "$program --help: $(head -n 1 help)"; failed=1; }
    status=0
    timeout 10 "$bin/$program" --no-such-option >/dev/null 2>&1 || status=$?
    [ $status = 2 ] || { echo "$program --no-such-option ends with $status, not 2"; failed=1; }
done
rm -f help
if [ -x "$bin/tiny-model" ]; then
    help=$("$bin/tiny-model" --help 2>/dev/null) || { echo "tiny-model --help ends with $?"; failed=1; }
    case $help in "usage: tiny-model"*) ;; *) echo "tiny-model --help: $help"; failed=1 ;; esac
    [ -z "$(ls)" ] || { echo "--help made a file: $(ls)"; failed=1; }
    if [ -x "$bin/ggml-hsa-model" ] && [ -w /dev/full ]; then
        "$bin/tiny-model" tiny.gguf >/dev/null
        status=0
        "$bin/ggml-hsa" model tiny.gguf --count >/dev/full 2>said || status=$?
        [ $status = 1 ] && grep -q 'standard output' said || { echo "model >/dev/full ends with $status"; failed=1; }
        # On a terminal it says that it computes, elsewhere not.
        "$bin/ggml-hsa" model tiny.gguf >/dev/null 2>said && [ ! -s said ] || { echo "model: $(cat said)"; failed=1; }
        if TERM=xterm script -qec "'$bin/ggml-hsa' model tiny.gguf >/dev/null" /dev/null </dev/null >said 2>&1; then
            grep -q 'computing, 0 s' said || { echo "model shows no progress: $(cat said)"; failed=1; }
        else
            echo "skipped: no terminal to be had from script(1)"
        fi
    fi
fi
exit $failed
