#!/bin/sh
# get.sh <deps>: brings AMD's ROCr 7, as Debian packages it, into <deps>/rocr, once; a second call
# returns at once. Debian 12 has an older one, so the packages come from newer suites, with the libc
# and the libraries that they want; nothing is installed, no root is needed. They are run through their
# own loader, <deps>/rocr/ld.so, see tests/rocr/run.sh.
#
# The packages come from where this machine's own Debian packages come from. Ends with 77 when they
# cannot be had, which tests take for "skipped".
set -eu
export LC_ALL=C

deps=$1
out=$deps/rocr
suites="experimental sid" # the first that has ROCr 7 is taken; the libraries are sid's
libraries="libc6 libdrm-amdgpu1 libdrm2 libelf1t64 libgcc-s1 libnuma1 libstdc++6 libzstd1 zlib1g"

if [ -f "$out/.stamp" ] && [ "$(cat "$out/.stamp")" = "$libraries" ]; then
    exit 0
fi

skip() {
    echo "rocr/get.sh: $*; tests on AMD's ROCr are skipped" >&2
    exit 77
}

for tool in apt-get apt-cache dpkg dpkg-deb; do
    command -v $tool >/dev/null || skip "there is no $tool here, and the packages are Debian's"
done
arch=$(dpkg --print-architecture)
case $arch in
amd64 | arm64) ;;
*) skip "no packages for $arch" ;;
esac

# The archive that this release came from: where, and signed with what.
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
from=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(SIGNED_BY)' |
    awk -v name="$codename" '$2 == name && $3 == "main" { print $1, $4; exit }')
archive=${from%% *}
key=${from#* }
[ -n "$archive" ] || skip "apt has no source of $codename's own packages to take the address from"
[ -f "$key" ] || key=/usr/share/keyrings/debian-archive-keyring.gpg

rm -rf "$out"
mkdir -p "$out/apt/lists/partial" "$out/apt/cache/archives/partial" "$out/debs"
out=$(cd "$out" && pwd)
: >"$out/apt/status"
for suite in $suites; do
    echo "deb [signed-by=$key] $archive $suite main"
done >"$out/apt/sources.list"
log=$out/apt/log
: >"$log"

apt() { # apt <program> <arguments...>, which know nothing of the machine's own packages
    program=$1
    shift
    "$program" -q -o Dir::State="$out/apt" -o Dir::State::lists="$out/apt/lists" \
        -o Dir::State::status="$out/apt/status" -o Dir::Cache="$out/apt/cache" \
        -o Dir::Etc::sourcelist="$out/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
        -o APT::Sandbox::User="$(id -un)" "$@"
}

echo "-- rocr: getting AMD's ROCr 7 from Debian's newer suites"
if ! apt apt-get -o APT::Update::Error-Mode=any update >>"$log" 2>&1; then
    tail -n 3 "$log" >&2
    skip "the package registry cannot be reached, or has not $suites"
fi
cd "$out/debs"
for suite in $suites; do
    rm -f libhsa-runtime64-1_*.deb
    apt apt-get download "libhsa-runtime64-1/$suite" >>"$log" 2>&1 || continue
    case $(dpkg-deb -f libhsa-runtime64-1_*.deb Version) in
    7.*) break ;;
    esac
done
version=$(dpkg-deb -f libhsa-runtime64-1_*.deb Version 2>/dev/null || true)
case $version in
7.*) ;;
*) skip "Debian's ROCr is ${version:-not there}, and 7 is wanted" ;;
esac
for library in $libraries; do
    if ! apt apt-get download "$library/sid" >>"$log" 2>&1; then
        tail -n 3 "$log" >&2
        skip "$library cannot be had"
    fi
done
for deb in ./*.deb; do
    dpkg-deb -x "$deb" "$out/root"
done
cd "$out"

ln -s "$(dirname root/usr/lib/*/libhsa-runtime64.so.1)" lib
ln -s "$(echo lib/ld-linux-*.so.*)" ld.so
if ./ld.so --library-path "$out/lib" --list lib/libhsa-runtime64.so.1 2>&1 |
    grep -v " => $out/" | grep -e '=>' -e 'not found' >&2; then
    echo "rocr/get.sh: these libraries of ROCr $version are missing from the list in the script" >&2
    exit 1
fi
rm -rf apt debs
echo "$version" >version
echo "$libraries" >.stamp
echo "-- rocr: ROCr $version is ready in $out"
