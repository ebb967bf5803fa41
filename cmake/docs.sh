#!/bin/sh
# docs.sh [check] <directory of the tools> <page...>: what the pages print is what the tools print. Behind a
# block of commands (```sh) a line <!-- output --> says that the next block is what they print; it is written
# anew, by running them in the root of the sources, or with `check` compared with what stands there.
set -eu
export LC_ALL=C
check=
[ "$1" != check ] || { check=1; shift; }
bin=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What a page should be: its text with each block of output as it is now.
render() {
    inside= commands=
    while IFS= read -r line || [ -n "$line" ]; do
        case $inside in
        skip) # the block that was there
            if [ "$line" = '```' ]; then
                inside=
                echo "$line"
            fi
            continue
            ;;
        output)
            [ "$line" = '```' ] || { echo "docs.sh: $1: <!-- output --> is followed by a block" >&2; return 1; }
            echo "$line"
            printf '%s' "$commands" >"$work/commands"
            if ! PATH=$bin:$PATH sh -eu "$work/commands" >"$work/output" 2>"$work/errors" </dev/null || [ ! -s "$work/output" ]; then
                echo "docs.sh: $1: this fails, or prints nothing:" >&2
                cat "$work/commands" "$work/errors" >&2
                return 1
            fi
            cat "$work/output"
            inside=skip
            continue
            ;;
        sh)
            [ "$line" = '```' ] && inside= || commands="$commands$line
"
            ;;
        *)
            case $line in
            '```sh') inside=sh commands= ;;
            '<!-- output -->') inside=output ;;
            esac
            ;;
        esac
        printf '%s\n' "$line"
    done <"$1"
    [ -z "$inside" ] || { echo "docs.sh: $1: a block has no end" >&2; return 1; }
}

failed=0
for page in "$@"; do
    render "$page" >"$work/page" || exit 1
    if [ -z "$check" ]; then
        cat "$work/page" >"$page"
    elif ! diff -u "$page" "$work/page"; then
        echo "docs.sh: $page is not what the tools print (- stands there, + is printed); \`make docs\` writes it anew"
        failed=1
    fi
done
exit $failed
