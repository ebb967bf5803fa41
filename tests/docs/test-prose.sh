#!/bin/sh
# test-prose.sh <source>: no line of prose of the pages is longer than 120 columns, so that a difference can be read.
# Tables, blocks and links to pictures are as long as they are. `later`: pages that are not there yet, which may
# only become fewer.
set -eu
cd "$1"
later=' docs/architecture.md docs/compiler.md docs/emulator.md docs/fidelity.md docs/gpu.md docs/hardware.md docs/mul-mat.md
docs/native.md docs/new-op.md docs/rocm-kernels.md docs/rocr.md '
later=" $(echo $later) "
failed=0
for page in README.md CONTRIBUTING.md docs/*.md; do
    long=$(LC_ALL=C.UTF-8 awk '/^ *```/ { inside = !inside } !inside && !/^\|/ && !/^!\[/ && !/^<!--/ && length > 120 { print FNR }' "$page" | tr '\n' ' ')
    case "$later" in
    *" $page "*) [ -n "$long" ] || echo "$page is there: take it from the list" ;;
    *) [ -z "$long" ] || { echo "$page: lines of more than 120 columns: $long"; failed=1; } ;;
    esac
done
exit $failed
