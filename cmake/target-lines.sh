#!/bin/sh
# target-lines.sh <source directory>: lines of the NPU compiler and of the emulated array that all targets share, and
# those of each target alone. Which files are a target's own is what target-lint.sh holds them to.
set -eu
cd "$1"
list=$(mktemp)
trap 'rm -f "$list"' EXIT
find src/aie src/emu/aie -name '*.[ch]' -o -name '*.def' | LC_ALL=C sort | xargs wc -l | grep -v ' total$' >"$list"
awk '
function part(f) {
    return f ~ /^src\/emu/ ? "emulator" : f ~ /^src\/aie\/isa/ ? "tables" : "compiler"
}
function owner(f) {
    if (f ~ /\/aie2p(\/|[-.])/ || f ~ /-aie2p[-.]/) return "aie2p"
    if (f ~ /\/aie2(\/|[-.])/ || f ~ /-aie2[-.]/) return "aie2"
    return "shared"
}
{ n[part($2), owner($2)] += $1; all[owner($2)] += $1 }
END {
    split("compiler tables emulator", parts, " ")
    printf "%-10s %8s %8s %8s\n", "lines", "shared", "aie2", "aie2p"
    for (i = 1; i <= 3; i++) {
        p = parts[i]
        printf "%-10s %8d %8d %8d\n", p, n[p, "shared"], n[p, "aie2"], n[p, "aie2p"]
    }
    printf "%-10s %8d %8d %8d\n", "all", all["shared"], all["aie2"], all["aie2p"]
}' "$list"
