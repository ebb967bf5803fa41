#!/bin/sh
# test-packages.sh <packages.sh>: what it says on systems that are played: a directory with os-release and headers,
# and a PATH with the programs that there are. Nothing is installed: apt-get only notes that it was called.
set -u
script=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0
complain() {
    echo "test-packages: $*"
    failed=1
}

# system <os-release lines> <programs...>: a bare system with these programs beside the shell's own.
system() {
    rm -rf "$dir/root" "$dir/bin"
    mkdir -p "$dir/root/etc/ssl/certs" "$dir/root/usr/include/hsa" "$dir/bin"
    printf '%b' "$1" >"$dir/root/etc/os-release"
    shift
    for p in sh cat tr awk grep env uname; do
        ln -s "$(command -v $p)" "$dir/bin/$p"
    done
    for p in "$@"; do
        printf '#!/bin/sh\nexit 0\n' >"$dir/bin/$p"
        chmod +x "$dir/bin/$p"
    done
    printf '#!/bin/sh\necho "${PLAYED_UID:-1000}"\n' >"$dir/bin/id"
    printf '#!/bin/sh\nexit 1\n' >"$dir/bin/dpkg-query"
    printf '#!/bin/sh\necho "$@" >>"%s"\n' "$dir/apt" >"$dir/bin/apt-get"
    chmod +x "$dir"/bin/*
    : >"$dir/apt"
}
headers() {
    for h in hsa/hsa.h cmocka.h jansson.h; do
        : >"$dir/root/usr/include/$h"
    done
    : >"$dir/root/etc/ssl/certs/ca-certificates.crt"
}
# run <set>: its status in $code, what it says in $out.
run() {
    code=0
    out=$(env -i PATH="$dir/bin" PACKAGES_ROOT="$dir/root" ${uid:+PLAYED_UID=$uid} "$dir/bin/sh" "$script" "$@" 2>&1 </dev/null) || code=$?
}
# says <wanted status> <words>: one line, and these words in it.
says() {
    [ "$code" = "$1" ] || complain "$case: ends with $code: $out"
    case $out in *"$2"*) ;; *) complain "$case: does not say '$2': $out" ;; esac
    [ "$(echo "$out" | wc -l)" = 1 ] || complain "$case: more than a line: $out"
}
tools="make cmake pkg-config git curl ninja"
uid=

case="all there, no root, no package manager's help"
# shellcheck disable=SC2086
system 'ID=debian\nVERSION_ID=12\n' cc c++ $tools && headers
run
says 0 ""
[ ! -s "$dir/apt" ] || complain "$case: apt-get $(cat "$dir/apt")"

case="clang alone"
# shellcheck disable=SC2086
system 'ID=debian\n' clang clang++ $tools && headers
run
says 0 ""

case="no ninja and no root"
system 'ID=debian\n' cc c++ make cmake pkg-config git curl && headers
run
says 0 ""

case="nothing there and no root"
system 'ID=debian\n'
run
says 1 "apt-get install build-essential cmake pkg-config git curl ca-certificates libhsa-runtime-dev libcmocka-dev libjansson-dev"

case="Ubuntu without root, headers missing"
# shellcheck disable=SC2086
system 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n' cc c++ $tools
run
says 1 "apt-get install ca-certificates libhsa-runtime-dev libcmocka-dev libjansson-dev"

case="Fedora"
# shellcheck disable=SC2086
system 'ID=fedora\n' gcc $tools
run
says 1 "sudo dnf install gcc-c++ ca-certificates rocm-runtime-devel libcmocka-devel jansson-devel"

case="Arch"
system 'ID=arch\n' gcc g++ make git
run
says 1 "sudo pacman -S cmake pkgconf curl ca-certificates hsa-rocr cmocka jansson"

case="a system that nobody knows, with everything"
# shellcheck disable=SC2086
system 'ID=plan9\n' cc c++ $tools && headers
run
says 0 ""

case="root on Debian"
uid=0
# shellcheck disable=SC2086
system 'ID=debian\n' cc c++ $tools
run
grep -q 'install -y --no-install-recommends ca-certificates libhsa-runtime-dev libcmocka-dev libjansson-dev' "$dir/apt" ||
    complain "$case: apt-get was asked for: $(cat "$dir/apt")"
! grep -qw npm "$dir/apt" || complain "$case: npm is installed"

case="packages with and without lintian"
sh "$script" --list debian deb | grep -qw lintian || complain "$case: it is not asked for"
! LINTIAN=0 sh "$script" --list debian deb | grep -qw lintian || complain "$case: LINTIAN=0 asks for it"
LINTIAN=0 sh "$script" --list debian deb | grep -qw debhelper || complain "$case: LINTIAN=0 drops the rest"

# A tree that cannot be written, and one that can.
writable=$(dirname "$script")/writable.sh
: >"$dir/file"
out=$(sh "$writable" "$dir/b" "$dir/file/deps" 2>&1) && complain "a place that cannot be written passes"
case $out in *"'$dir/file/deps' cannot be written"*"BUILD="*) ;; *) complain "writable.sh: $out" ;; esac
sh "$writable" "$dir/a build" "$dir/deps" || complain "a place that can be written does not pass"
exit "$failed"
