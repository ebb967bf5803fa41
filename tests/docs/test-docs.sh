#!/bin/sh
# test-docs.sh <docs.sh>: the test of the test of pages. Small pages that are right pass; the same pages with one
# figure changed, a command that is dead, a table, a picture or a mark that is wrong do not. What is skipped is counted.
set -eu
docs=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/source/cmake" "$work/build/bin" "$work/pages"
cp "$docs" "$work/source/cmake/docs.sh"
printf 'demo: ## a target\n' >"$work/source/Makefile"
cat >"$work/build/bin/tool" <<'END'
#!/bin/sh
case $1 in
cycles) echo "array 1234 cycles"; echo "emulated in 0.$$ s" ;;
fails) echo "tool: it is not there" >&2; exit 1 ;;
draw) echo "<svg/>" ;;
table) printf '| op | cycles |\n| --- | --- |\n| ADD | 7 |\n' ;;
told) echo "$TOLD" ;;
esac
END
chmod +x "$work/build/bin/tool"
echo '<svg/>' >"$work/pages/picture.svg"

page() { # the page that is right
    cat <<'END'
# A page

<!-- skip: root -->
```sh
sudo make demo
```

```sh
tool cycles
export TOLD=before
```
<!-- output: host "emulated" -->
```
array 1234 cycles
emulated in # s
```

```sh
tool told
```
<!-- output -->
```
before
```

<!-- run: status 1 -->
```sh
tool fails
```
<!-- output: stderr -->
```
tool: it is not there
```

<!-- run: long -->
```sh
tool cycles | head -n 1
```
<!-- output -->
```
array 1234 cycles
```

<!-- run: needs nowhere -->
```sh
tool nothing
```

```sh
tool draw > picture.svg
```
<!-- writes picture.svg -->

<!-- table: tool table -->
| op | cycles |
| --- | --- |
| ADD | 7 |
<!-- end -->

```
a drawing
```
END
}

failed=0
expect() { # name status words: what the last run ended with and said
    if [ "$status" != "$2" ] || ! grep -q -e "$3" "$work/said"; then
        echo "FAILED: $1: ended with $status instead of $2, or did not say '$3':"
        sed 's/^/    /' "$work/said"
        failed=1
    fi
}
run() { # arguments of docs.sh
    status=0
    sh "$work/source/cmake/docs.sh" "$@" "$work/build" "$work/pages/page.md" >"$work/said" 2>&1 || status=$?
}
planted() { # name sed-script words
    page | sed "$2" >"$work/pages/page.md"
    if page | cmp -s - "$work/pages/page.md"; then
        echo "FAILED: $1: nothing was planted"
        failed=1
    fi
    run check
    expect "$1" 1 "$3"
}

page >"$work/pages/page.md"
run check
expect "a right page" 0 "8 command blocks on 1 pages: 6 run, 5 outputs compared, 2 skipped"
expect "what was skipped" 0 "^skipped: blocks of pages, root: .*page.md:"
expect "what was missing" 0 "^skipped: blocks of pages, nowhere is missing: .*page.md:"
run check short
expect "the short form" 0 "5 run, 4 outputs compared, 3 skipped"
expect "the short form's list" 0 "over a minute"

planted "a changed figure" 's/^array 1234 cycles/array 1235 cycles/' '^-array 1235 cycles'
planted "a changed figure of a table" 's/ADD | 7/ADD | 8/' '^+| ADD | 7 |'
planted "a dead command" 's/^tool told/tol told/' 'this ends with 127'
planted "a command that fails" 's/^tool told/tool fails/' 'this ends with 1, not 0'
planted "a dead target of make" 's/make demo/make dmeo/' 'no `make dmeo`'
planted "a reason that is none" 's/skip: root/skip: tired/' "'tired' is no reason"
planted "commands in a plain block" 's/^a drawing/make demo/' 'commands in a block that is not'
planted "an unknown mark" 's/run: long/run: lnog/' "'lnog' is not known"
planted "a picture that is not written" 's/> picture.svg/> pictrue.svg/' 'does not write picture.svg'
planted "a block without an end" '$d' 'something has no end'

page >"$work/pages/page.md"
echo '<svg old/>' >"$work/pages/picture.svg"
run check
expect "an old picture" 1 'picture.svg is not what the commands write'

# What is old is written anew, and is right then.
page | sed 's/1234/99/; s/ADD | 7/ADD | 8/' >"$work/pages/page.md"
run
expect "writing" 0 "outputs written"
page | cmp - "$work/pages/page.md" && grep -q '^<svg/>' "$work/pages/picture.svg" || failed=1
[ $failed = 0 ] && echo "passed"
exit $failed
