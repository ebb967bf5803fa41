#!/bin/sh
# format.sh [check]: clang-format over all C sources that git knows or could know. `check` changes nothing, shows
# what would change, and fails then. The version is pinned: each one lays out some lines in its own way.
set -eu
version=14

tool=
for name in clang-format-$version clang-format; do
    if command -v $name >/dev/null && $name --version | grep -q "version $version\."; then
        tool=$name
        break
    fi
done
if [ -z "$tool" ]; then
    echo "format.sh: no clang-format $version; on Debian 12 it is the package clang-format-$version" >&2
    exit 1
fi

list=$(mktemp)
trap 'rm -f "$list"' EXIT
git ls-files -co --exclude-standard '*.c' '*.h' >"$list" # not in a pipe: its failure counts
[ -s "$list" ] || { echo "format.sh: git names no sources here" >&2; exit 1; }

if [ "${1:-}" != check ]; then
    xargs $tool -i <"$list"
elif ! xargs $tool --dry-run -Werror --ferror-limit=3 <"$list"; then
    echo "format.sh: these lines are laid out differently; \`make format\` puts them right, and tables that are meant" >&2
    echo "so stand between // clang-format off and // clang-format on" >&2
    exit 1
fi
