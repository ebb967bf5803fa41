#!/bin/sh
# test-prose.sh <source>: no line of prose of the pages is longer than 120 columns, so that a difference can be read;
# tables, blocks and links to pictures are as long as they are. Nor are there words that readers stumble over: `fix`
# is plainer than "mend", `request` than "wish". A page with one of each is found, so that the search is known to work.
set -eu
words='mend|mends|mended|wish|wishes'

# search <page>: what is wrong with it
search() {
    LC_ALL=C.UTF-8 awk -v page="$1" -v words="$words" '
        /^ *```/ { inside = !inside }
        inside || /^<!--/ { next }
        !/^\|/ && !/^!\[/ && length > 120 { print page ":" FNR ": a line of " length " columns, more than 120" }
        tolower($0) ~ "(^|[^a-z`-])(" words ")([^a-z`-]|$)" { print page ":" FNR ": a word of " words }' "$1"
}

planted=$(mktemp)
trap 'rm -f "$planted"' EXIT
{ printf '%0121d\n' 0 && echo 'How to mend it.' && echo '```' && printf '%0130d\n' 0 && echo '```'; } >"$planted"
[ "$(search "$planted" | wc -l)" = 2 ] || { echo "a planted page is not found" && search "$planted" && exit 1; }

cd "$1"
failed=0
for page in README.md CONTRIBUTING.md docs/*.md; do
    wrong=$(search "$page")
    [ -z "$wrong" ] || { echo "$wrong"; failed=1; }
done
exit $failed
