#!/bin/sh
# test-man.sh <source> <directory of the tools>: the manual pages are what `make man` would write now, name every
# subcommand and option that the tools know, and are good roff where there is groff to ask.
set -eu
source=$1
bin=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0

sh "$source/cmake/man.sh" "$bin" "$dir"
for tool in ggml-hsa ggml-hsa-gen-kernels rocm-kernels; do
    if ! diff -u "$source/man/$tool.1" "$dir/$tool.1"; then
        echo "man/$tool.1 is not what $tool --help says; run \`make man\`"
        failed=1
    fi
    "$bin/$tool" --version | grep -qx "$tool [0-9][0-9.]*" || { echo "$tool --version: $("$bin/$tool" --version)"; failed=1; }
    for section in NAME SYNOPSIS DESCRIPTION ENVIRONMENT "SEE ALSO"; do
        grep -qx ".SH $section" "$dir/$tool.1" || { echo "$tool.1 has no $section"; failed=1; }
    done
    if command -v groff >/dev/null; then
        groff -man -Tascii -ww "$dir/$tool.1" >"$dir/page" 2>"$dir/warnings"
        if [ -s "$dir/warnings" ]; then
            cat "$dir/warnings"
            failed=1
        fi
        [ "$(wc -l <"$dir/page")" -ge 20 ] || { echo "$tool.1 is nearly empty"; failed=1; }
    else
        echo "not looked at: roff (no groff)"
    fi
done
"$bin/ggml-hsa" help environment | sed -n 's/^\([A-Z][A-Z_]*\)=.*/\1/p' | while read -r name; do
    grep -q "^$name" "$dir/ggml-hsa.1" "$dir/rocm-kernels.1" || { echo "no manual page has $name"; exit 1; }
done || failed=1
for word in info doctor validate cache inspect bench model; do
    grep -qx ".SS $word" "$dir/ggml-hsa.1" || { echo "ggml-hsa.1 has no $word"; failed=1; }
done
for word in info list compile run cache; do
    grep -qx ".SS $word" "$dir/rocm-kernels.1" || { echo "rocm-kernels.1 has no $word"; failed=1; }
done
exit $failed
