#!/bin/sh
# test-other-machine.sh <other-machine.sh> <source>: a pack holds what it should, says when it is too large, and
# is refused where it is damaged or for another kind of machine. That it builds and passes elsewhere is shown by
# carrying one there.
set -u
script=$1
source=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0

complain() {
    echo "test-other-machine: $*"
    failed=1
}

refused() { # refused <words> <command...>
    words=$1
    shift
    out=$("$@" 2>&1) && complain "not refused: $*"
    case $out in *"$words"*) ;; *) complain "'$words' is not in: $out" ;; esac
}

if ! git -C "$source" rev-parse -q --verify HEAD >/dev/null 2>&1; then
    echo "skipped: $source is no git checkout to pack"
    exit 77
fi
if [ ! -f "$source/.deps/llama.cpp/ggml/include/ggml.h" ]; then
    echo "skipped: no source of ggml in .deps"
    exit 77
fi
export DEBS=0 LEVEL=1 WORK="$dir/work"

case $(uname -m) in x86_64) here=amd64 other=arm64 ;; *) here=arm64 other=amd64 ;; esac
sh "$script" pack "$dir/pack" $here >"$dir/log" 2>&1 || complain "pack failed: $(cat "$dir/log")"
for want in "source.tgz CMakeLists.txt" "source.tgz tests/CMakeLists.txt" "ggml.tgz llama.cpp/ggml/include/ggml.h" \
    "ggml.tgz llama.cpp/ggml/src/ggml-cpu/CMakeLists.txt" "ggml.tgz llama.cpp/tests/test-backend-ops.cpp"; do
    # shellcheck disable=SC2086
    set -- $want
    tar tzf "$dir/pack/$1" | grep -qx "$2" || complain "$1 has no $2"
done
grep -qx "commit $(git -C "$source" rev-parse HEAD)" "$dir/pack/manifest" || complain "the commit is not told"

sh "$script" pack "$dir/pack" $other >"$dir/log" 2>&1 || complain "a pack is not made anew: $(cat "$dir/log")"
refused "for $other, this machine is $here" sh "$dir/pack/other-machine.sh" test
sh "$script" pack "$dir/pack" $here >"$dir/log" 2>&1
sh "$dir/pack/other-machine.sh" check >"$dir/log" 2>&1 || complain "a whole pack is refused: $(cat "$dir/log")"
echo >>"$dir/pack/source.tgz"
refused "not whole" sh "$dir/pack/other-machine.sh" test
[ ! -e "$WORK" ] || complain "what was refused was unpacked"
refused "more than LIMIT_MB=1" env LIMIT_MB=1 sh "$script" pack "$dir/large" $here
mkdir "$dir/home"
: >"$dir/home/precious"
refused "neither empty nor an older pack" sh "$script" pack "$dir/home" $here
[ -f "$dir/home/precious" ] || complain "a directory of another kind was emptied"
refused "usage: " sh "$script"
exit "$failed"
