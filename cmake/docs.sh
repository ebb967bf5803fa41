#!/bin/sh
# docs.sh [check] [short] <build> <page...>: runs every command block of the pages. What a page prints of their
# output is written anew, or with `check` compared. `short` leaves out what takes more than a minute.
#
# A command block is a ```sh block. A page's blocks run in order, in one scratch directory with links to the sources, with the
# tools of <build> first in PATH, and what one exports the next one has, as in a reader's shell. A command that
# fails is an error. Lines of their own, which no reader sees, say more. In front of a block:
#
#   <!-- run: long -->             it takes more than a minute
#   <!-- run: status 1 -->         it is meant to end so
#   <!-- run: needs PATH -->       it is skipped where PATH, from the root of the sources, or such a program is missing
#   <!-- skip: REASON -->          it is not run: see `reasons` below. Its `make` targets must exist all the same
#
# several divided by commas. Behind a block:
#
#   <!-- output -->                the next block is what it prints
#   <!-- output: stderr -->        ... to standard error
#   <!-- output: host "WORDS" -->  ... where numbers of lines with WORDS are times of the host: they are written as #
#   <!-- writes FILE -->           it writes FILE, which is also beside the page
#
# And a table, or whatever else a command can write, stands between two lines:
#
#   <!-- table: COMMAND -->        or <!-- long table: COMMAND -->
#   <!-- end -->
#
# What was skipped is counted and printed at the end, by reason.
set -eu
export LC_ALL=C
reasons=' root network hardware placeholder build '

check='' short=''
[ "$1" != check ] || { check=1; shift; }
[ "$1" != short ] || { short=1; shift; }
build=$(cd "$1" && pwd)
shift
here=$(pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
group=
stop() { # what the blocks of a page left running: each block is a process group
    for g in $group; do
        kill -- "-$g" 2>/dev/null || :
    done
    group=
}
trap 'stop; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
: >"$work/skips"
: >"$work/errors"
blocks=0 ran=0 outputs=0

# The root of the sources as a reader has it, by links, so that what commands leave there is not in the sources.
tree() {
    [ -d "$work/tree" ] && return
    mkdir "$work/tree" "$work/home"
    for entry in "$root"/*; do
        case ${entry##*/} in build*) ;; *) ln -s "$entry" "$work/tree" ;; esac
    done
    ln -s "$build" "$work/tree/build"
    [ ! -e "${DOCS_DEPS:-$root/.deps}" ] || ln -s "$(cd "${DOCS_DEPS:-$root/.deps}" && pwd)" "$work/tree/.deps"
    model=${DOCS_MODEL:-$root/../shared/models/stories260K.gguf}
    [ ! -r "$model" ] || ln -s "$model" "$work/tree/stories260K.gguf"
    : >"$work/env"
}

fail() { # page line text
    echo "$1:$2: $3" | tee -a "$work/errors" >&2
}

skip() { # page line reason
    echo "$3	$1:$2" >>"$work/skips"
}

# A page as pieces, in order: lines "KIND FIRST-LINE FILE OPTIONS".
pieces() {
    awk -v dir="$work/pieces" '
    function open(kind, options) {
        file = sprintf("%s/%04d", dir, ++n)
        printf "" > file
        print kind, NR, file, options > (dir "/list")
    }
    function words(line) { sub(/^<!-- (long table|table|run|skip|output|writes):? */, "", line); sub(/ *-->$/, "", line); return line }
    function bad(text) { print "bad", NR, "-", text > (dir "/list"); failed = 1; exit }
    BEGIN { open("text") }
    table && $0 == "<!-- end -->" { table = 0; open("text"); print > file; next }
    table { print > file; next }
    inside == "sh" && $0 == "```" { inside = ""; open("text"); print > file; next }
    inside == "output" && $0 == "```" { inside = ""; open("text"); print > file; next }
    inside == "other" && $0 == "```" { inside = ""; print > file; next }
    inside != "" {
        if (inside == "other" && first && /^(\$ )?([A-Z_]+=[^ ]+ )*(make|ctest|cmake|sh|bash|sudo|apt|apt-get|git|ggml-hsa|ggml-hsa-gen-kernels|rocm-kernels|asm-text|(bench|mnist|llama)-[a-z-]+|(build\/bin|\.deps)\/[^ ]*)( |$)/)
            bad("commands in a block that is not ```sh")
        first = 0
        print > file
        next
    }
    /^<!-- (run|skip):/ {
        marks = marks (marks == "" ? "" : ",") ($2 == "skip:" ? "skip " : "") words($0)
        print > file
        next
    }
    /^<!-- output/ { print > file; expect = words($0); next_is_output = 1; next }
    /^<!-- writes / { open("writes", words($0)); print > file; open("text"); next }
    /^<!-- (long )?table: / {
        print > file
        open("table", ($2 == "long" ? "long " : "short ") words($0))
        table = 1
        next
    }
    next_is_output {
        if ($0 != "```" && $0 != "```text") bad("<!-- output --> is followed by no block")
        next_is_output = 0
        print > file
        open("output", expect)
        inside = "output"
        next
    }
    /^```/ {
        print > file
        if ($0 == "```sh") { open("run", marks); inside = "sh" } else { inside = "other"; first = $0 == "```" }
        if (inside == "other" && marks != "") bad("a mark of a command block is followed by another one")
        marks = ""
        next
    }
    marks != "" { bad("a mark of a command block stands before no block") }
    { print > file }
    END {
        if (!failed && (inside != "" || table || next_is_output || marks != "")) bad("something has no end")
    }' "$1"
}

# The tree's build is the real one: what would build there, or write sources, is not run.
builds() { # file
    grep -Eq '(^|[;&|(] *)(make|cmake|ninja) |--write ' "$1"
}

execute() { # page line file long|short: runs the commands
    if builds "$3"; then
        status=1
        echo "it builds, or writes sources: mark it <!-- skip: build -->" >"$work/stderr"
        : >"$work/stdout"
        return
    fi
    tree
    limit=100
    [ "$4" = short ] || limit=1800
    {
        printf '. "%s/env"\n' "$work"
        cat "$3"
        printf '\nexport -p >"%s/env"\n' "$work"
    } >"$work/commands"
    status=0
    # shellcheck disable=SC2046 # variables of the caller must not change what pages print
    (
        unset $(env | sed -n 's/^\(\(GGML\|ROCM\|CANDLE\|HSA\|MAKE\|MFLAGS\)[A-Z_]*\)=.*/\1/p')
        cd "$work/tree"
        HOME=$work/home XDG_CACHE_HOME=$work/home/.cache PATH=$build/bin:$PATH COLUMNS=80 \
            exec setsid timeout --foreground "$limit" sh -eu "$work/commands"
    ) >"$work/stdout" 2>"$work/stderr" </dev/null &
    wait $! || status=$?
    group="$group $!"
}

page() { # page
    rm -rf "$work/pieces"
    mkdir "$work/pieces"
    pieces "$1"
    done_=
    while read -r kind line file options <&3; do
        case $kind in
        bad)
            fail "$1" "$line" "$options"
            return
            ;;
        text) cat "$file" ;;
        run)
            cat "$file"
            blocks=$((blocks + 1))
            done_='' expected=0 reason='' length=short needs=''
            IFS=,
            for option in $options; do
                option=${option# }
                case $option in
                long) length=long ;;
                status\ *) expected=${option#status } ;;
                needs\ */*) tree; [ -e "$work/tree/${option#needs }" ] || needs="${option#needs } is missing" ;;
                needs\ *) tree; [ -e "$work/tree/${option#needs }" ] || command -v "${option#needs }" >/dev/null || needs="${option#needs } is missing" ;;
                skip\ *)
                    reason=${option#skip }
                    case $reasons in
                    *" ${reason%% *} "*) ;;
                    *) fail "$1" "$line" "'$reason' is no reason to skip a block: it is one of$reasons" ;;
                    esac
                    ;;
                *) fail "$1" "$line" "'$option' is not known of a block" ;;
                esac
            done
            unset IFS
            if [ -n "$reason" ]; then
                skip "$1" "$line" "${reason%% *}"
                sed -n 's/^\(sudo \)\{0,1\}make \([^#&|]*\).*/\2/p' "$file" | sed 's/[A-Z_]*=[^ ]*//g' | while read -r targets; do
                    # shellcheck disable=SC2086
                    for target in $targets; do
                        grep -q "^$target:" "$root/Makefile" || fail "$1" "$line" "there is no \`make $target\`"
                    done
                done
            elif [ -n "$needs" ]; then
                skip "$1" "$line" "$needs"
            elif [ "$length" = long ] && [ -n "$short" ]; then
                skip "$1" "$line" "over a minute"
            else
                execute "$1" "$line" "$file" "$length"
                ran=$((ran + 1))
                if [ "$status" != "$expected" ]; then
                    fail "$1" "$line" "this ends with $status, not $expected:"
                    { cat "$file"; tail -n 12 "$work/stderr"; } | sed 's/^/    /' >&2
                else
                    done_=1
                fi
            fi
            ;;
        output)
            if [ -n "$done_" ]; then
                outputs=$((outputs + 1))
                from=stdout
                case $options in *stderr*) from=stderr ;; esac
                sed "s|$work/tree/||g; s|$work/tree|.|g" "$work/$from" >"$work/printed"
                case $options in
                *host\ \"*)
                    words=${options#*host \"}
                    sed -i "/${words%%\"*}/s/[0-9][0-9.,]*[0-9]\|[0-9]/#/g" "$work/printed"
                    ;;
                esac
                [ -s "$work/printed" ] || fail "$1" "$line" "the block before prints nothing"
                cat "$work/printed"
            else
                cat "$file"
            fi
            ;;
        writes)
            if [ -n "$done_" ]; then
                beside=$(dirname "$1")/$options
                if [ ! -f "$work/tree/$options" ]; then
                    fail "$1" "$line" "the block before does not write $options"
                elif [ -z "$check" ]; then
                    cmp -s "$work/tree/$options" "$beside" || cp "$work/tree/$options" "$beside"
                elif ! cmp -s "$work/tree/$options" "$beside"; then
                    fail "$1" "$line" "$options is not what the commands write; \`make docs\` writes it anew"
                fi
            fi
            cat "$file"
            ;;
        table)
            length=${options%% *}
            blocks=$((blocks + 1))
            if [ "$length" = long ] && [ -n "$short" ]; then
                skip "$1" "$line" "over a minute"
                cat "$file"
            else
                printf '%s\n' "${options#* }" >"$work/table"
                execute "$1" "$line" "$work/table" "$length"
                ran=$((ran + 1)) outputs=$((outputs + 1))
                if [ "$status" = 77 ]; then
                    ran=$((ran - 1)) outputs=$((outputs - 1))
                    skip "$1" "$line" "$(tail -n 1 "$work/stderr")"
                    cat "$file"
                elif [ "$status" != 0 ] || [ ! -s "$work/stdout" ]; then
                    fail "$1" "$line" "'${options#* }' ends with $status, or prints nothing"
                    tail -n 12 "$work/stderr" >&2
                    cat "$file"
                else
                    cat "$work/stdout"
                fi
            fi
            ;;
        esac
    done 3<"$work/pieces/list"
}

for page in "$@"; do
    case $page in /*) path=$page ;; *) path=$here/$page ;; esac
    rm -rf "${work:?}/tree" "${work:?}/home"
    before=$(wc -l <"$work/errors")
    page "$path" >"$work/page"
    stop
    [ "$(wc -l <"$work/errors")" = "$before" ] || continue
    if [ -z "$check" ]; then
        cmp -s "$work/page" "$path" || cat "$work/page" >"$path"
    elif ! diff -u "$path" "$work/page" >"$work/diff"; then
        cat "$work/diff"
        fail "$page" 1 "not what the tools print (- is on the page, + is printed); \`make docs\` writes it anew"
    fi
done

skipped=$(wc -l <"$work/skips")
echo "-- $blocks command blocks on $# pages: $ran run, $outputs outputs $([ -n "$check" ] && echo compared || echo written), $skipped skipped:"
sort "$work/skips" | awk -F '\t' -v root="$root/" '
    { sub(root, "", $2); if ($1 != last) { if (last != "") print ""; n = 0 } }
    { printf "%s%s", $1 != last ? "skipped: blocks of pages, " $1 ": " : ", ", $2; last = $1 }
    END { if (last != "") print "" }'
[ ! -s "$work/errors" ]
