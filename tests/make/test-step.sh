#!/bin/sh
# test-step.sh <step.sh>: a step of the build has the status of its command, also in a pipe, where a build
# that failed would else pass for a good one with the programs of yesterday. Its log is whole, and the end
# of it is shown when the step failed.
set -u
step=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0

complain() {
    echo "test-step: $*"
    failed=1
}

# in_pipe <log> <command...>: its status in $code, standard output in $dir/out, errors in $dir/err.
in_pipe() {
    log=$1
    shift
    { sh "$step" "$log" "a label" "$@" 2>"$dir/err"; echo $? >"$dir/code"; } | cat >"$dir/out"
    code=$(cat "$dir/code")
}

cat >"$dir/command" <<'END'
#!/bin/sh
# command <status> <lines>: that many numbered lines, on both outputs by turns
n=1
while [ "$n" -le "$2" ]; do
    if [ $((n % 2)) = 0 ]; then echo "line $n"; else echo "line $n" >&2; fi
    n=$((n + 1))
done
exit "$1"
END

echo "status of the command   of the step   lines shown"
for status in 0 1 2 3 42 77 126 127 130 255; do
    in_pipe "$dir/deep/log/$status.txt" sh "$dir/command" "$status" 200
    shown=$(grep -c '^line ' "$dir/err")
    printf '%21s %13s %13s\n' "$status" "$code" "$shown"
    [ "$code" = "$status" ] || complain "a command that ends with $status makes a step that ends with $code"
    [ "$(cat "$dir/out")" = "-- a label" ] || complain "standard output: $(cat "$dir/out")"
    [ "$(grep -c '^line ' "$log")" = 200 ] || complain "$log is not whole"
    if [ "$status" = 0 ]; then
        [ ! -s "$dir/err" ] || complain "a good step is not silent: $(cat "$dir/err")"
    else
        [ "$shown" = 60 ] || complain "$shown lines of the log are shown, not 60"
        [ "$(grep -cx "line 141\|line 200" "$dir/err")" = 2 ] || complain "not the end of the log"
        grep -q -- "-- a label: failed.*$log" "$dir/err" || complain "the log is not named"
    fi
done

# A step that takes long says how far it is, and nobody waits for the next word of it.
export STEP_SECONDS=1
in_pipe "$dir/log/long.txt" sh -c 'echo "[7/9] made"; sleep 2; exit 4'
unset STEP_SECONDS
[ "$code" = 4 ] || complain "a long step ends with $code"
grep -qx -- "-- a label: \[7/9\] made" "$dir/out" || complain "a long step is silent: $(cat "$dir/out")"
begin=$(date +%s)
in_pipe "$dir/log/short.txt" true
[ $(($(date +%s) - begin)) -lt 15 ] || complain "a short step is waited for"

in_pipe "$dir/log/killed.txt" sh -c 'kill -9 $$'
[ "$code" = 137 ] || complain "a killed command makes a step that ends with $code"
in_pipe "$dir/log/missing.txt" "$dir/there is no such program"
[ "$code" = 127 ] || complain "a missing program makes a step that ends with $code"
in_pipe "$dir/log/words.txt" sh -c '[ "$#$1" = "1two words" ]' sh "two words"
[ "$code" = 0 ] || complain "words with spaces do not arrive"
: >"$dir/file"
in_pipe "$dir/file/log.txt" true
[ "$code" != 0 ] || complain "a log that cannot be written goes unseen"

# As make runs it: the recipe fails, and what stands behind the step is not done.
printf 'all:\n\t@sh %s %s/log/make.txt step false\n\t@echo went on\n' "$step" "$dir" >"$dir/Makefile"
out=$(env -u MAKEFLAGS -u MAKELEVEL make -C "$dir" 2>&1) && complain "make passes over a failed step"
case $out in *"went on"*) complain "make goes on behind a failed step" ;; esac

# A terminal, where there is a way to play one: the command speaks for itself and writes no log.
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then
    out=$(script -qec "sh '$step' '$dir/log/tty.txt' label sh '$dir/command' 3 2" /dev/null </dev/null)
    [ $? = 3 ] || complain "on a terminal the status is not the command's"
    case $out in *"line 2"*) ;; *) complain "on a terminal the command is not seen: $out" ;; esac
    [ ! -e "$dir/log/tty.txt" ] || complain "on a terminal there is a log"
else
    echo "skipped: no terminal to be had from script(1)"
fi
exit "$failed"
