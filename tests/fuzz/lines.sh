#!/bin/sh
# lines.sh <build> <fuzz build> [<name>...]: which lines of our sources the corpora of the fuzzers reach. <build> was
# made with gcc's --coverage, <fuzz build>/fuzz has the corpora; `make fuzz-lines` does both. For each target: lines
# reached, of the lines in source files that it enters at all, and the three files with most lines of these.
set -eu
build=${1:?lines.sh <build> <fuzz build> [<name>...]}
corpora=$2
shift 2
if [ $# = 0 ]; then
    for f in "$build"/bin/smoke-*; do
        set -- "$@" "${f##*/smoke-}"
    done
fi

printf '%-15s %6s %6s %5s  %s\n' target lines of "" "the largest of its files"
for name in "$@"; do
    find "$build" -name '*.gcda' -delete
    find "$corpora/fuzz/$name/corpus" "$corpora/fuzz/$name/seeds" -type f |
        xargs -n 2000 "$build/bin/smoke-$name" >/dev/null || echo "smoke-$name failed"
    find "$build/src" "$build/examples" -name '*.gcda' -exec gcov -n {} + 2>/dev/null |
        awk -v name="$name" '
            /^File / { file = $2; gsub(/\x27/, "", file); sub(/.*\/(\.\.\/)*src\//, "", file); sub(/.*\/examples\//, "", file) }
            /^Lines executed:/ && file ~ /\.c$/ {
                split($0, part, /[:% ]+/); n = part[5]; hit = int(part[3] * n / 100 + 0.5)
                if (hit) { lines += hit; all += n; size[file] = n; share[file] = part[3] }
                file = ""
            }
            END {
                for (k = 0; k < 3; k++) {
                    best = ""
                    for (f in size) if (best == "" || size[f] > size[best]) best = f
                    if (best != "") { text = text sprintf("%s%s %d%%", k ? ", " : "", best, share[best]); delete size[best] }
                }
                printf "%-15s %6d %6d %4d%%  %s\n", name, lines, all, all ? 100 * lines / all : 0, text
            }'
done
