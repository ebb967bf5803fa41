#!/bin/sh
# every-pass.sh <asm-text> <compiler.md> <file.s...>: each pass of the assembler is printed by one of the programs,
# and stands in the page's table of passes.
set -u
tool=$1
page=$2
shift 2
failed=0
passes=$("$tool" --passes) || exit 1
[ -n "$passes" ] || { echo "every-pass.sh: $tool names no pass"; exit 1; }
for pass in $passes; do
    if ! grep -q "^// passes:.* $pass\( \|\$\)" "$@"; then
        echo "every-pass.sh: no program shows what '$pass' makes of it; write one whose first line is '// passes: $pass'"
        failed=1
    fi
    if ! grep -q "^| \`$pass\` |" "$page"; then
        echo "every-pass.sh: $page has no row for the pass '$pass'"
        failed=1
    fi
done
exit $failed
