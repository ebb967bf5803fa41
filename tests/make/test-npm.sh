#!/bin/sh
# test-npm.sh <npm.sh>: a tarball comes from the registry that npm would ask, without npm: the one in the
# environment before the one in an npmrc. Where there is none, or no such package, a line says so.
set -u
script=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0
complain() {
    echo "test-npm: $*"
    failed=1
}
command -v curl >/dev/null || { echo "skipped: no curl to read a registry of files with"; exit 77; }
mkdir "$dir/bin" "$dir/home" "$dir/out"
for p in sh curl sed tail mktemp dirname rm mv mkdir cat; do
    ln -s "$(command -v $p)" "$dir/bin/$p"
done
for registry in one two; do
    mkdir -p "$dir/$registry/pack/-" "$dir/$registry/@scope/pack/-"
    echo "$registry" >"$dir/$registry/pack/-/pack-1.2.3.tgz"
    echo "scoped" >"$dir/$registry/@scope/pack/-/pack-0.1.0-rc.1.tgz"
done
npm() { env -i PATH="$dir/bin" HOME="$dir/home" TMPDIR="$dir" ${from:+npm_config_registry=$from} sh "$script" "$@"; }
got() { # got <what> <package> <content>
    rm -f "$dir/out/a file"
    npm "$2" "$dir/out/a file" 2>"$dir/err" || complain "$1: $(cat "$dir/err")"
    [ "$(cat "$dir/out/a file" 2>/dev/null)" = "$3" ] || complain "$1: another file"
}

from=
if npm pack@1.2.3 "$dir/out/none" 2>"$dir/err"; then
    [ -r /etc/npmrc ] || complain "a file from no registry"
elif ! grep -q 'npm_config_registry=' "$dir/err" && ! grep -q 'does not give it' "$dir/err"; then
    complain "no registry: $(cat "$dir/err")"
fi
printf 'audit=false\nregistry = file://%s/one/\n' "$dir" >"$dir/home/.npmrc"
got "an npmrc" pack@1.2.3 one
from=file://$dir/two
got "the environment before it" pack@1.2.3 two
got "a scope" @scope/pack@0.1.0-rc.1 scoped
npm pack@9.9.9 "$dir/out/none" 2>"$dir/err" && complain "a package that is not there"
grep -q 'pack@9.9.9' "$dir/err" || complain "it is not named: $(cat "$dir/err")"
[ ! -e "$dir/out/none" ] || complain "half a file is left"
exit "$failed"
