#!/bin/sh
# test-format.sh <format.sh> <.clang-format>: the check refuses a source that is laid out differently and names it,
# takes it when it was formatted, and leaves marked tables alone.
set -u
script=$1
style=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
if ! command -v clang-format-14 >/dev/null; then
    echo "skipped: no clang-format-14"
    exit 77
fi
cp "$style" .clang-format
git init -q .
sh "$script" check >/dev/null 2>&1 && { echo "test-format: no sources at all pass"; exit 1; }
cat >good.c <<'END'
static const int table[] = {
    // clang-format off
    1,   2,
    100, 3,
    // clang-format on
};
END
sh "$script" check || { echo "test-format: a marked table is refused"; exit 1; }
printf 'int f(char *p){return *p;}\n' >bad.c
out=$(sh "$script" check 2>&1) && { echo "test-format: bad.c passes"; exit 1; }
case $out in *bad.c*) ;; *) echo "test-format: bad.c is not named: $out"; exit 1 ;; esac
[ "$(wc -l <bad.c)" = 1 ] || { echo "test-format: the check changed a file"; exit 1; }
cp good.c before.txt
sh "$script" && sh "$script" check || { echo "test-format: what was formatted is refused"; exit 1; }
grep -qx 'int f(char \* p) {' bad.c || { echo "test-format: bad.c became: $(cat bad.c)"; exit 1; }
cmp before.txt good.c || { echo "test-format: a marked table was changed"; exit 1; }
