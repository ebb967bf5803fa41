#!/bin/sh
# debs.sh <arch> <directory> <package...>: downloads Debian packages of an architecture (amd64, arm64, ...)
# into the directory, from the sources of this system's apt and beside its state: nothing is installed, and
# neither root nor a foreign architecture is needed. Packages that are there already are not fetched again.
set -eu
arch=$1
dir=$2
shift 2

if ! command -v apt-get >/dev/null; then
    echo "debs.sh: no apt here to download packages of $arch with" >&2
    exit 1
fi
mkdir -p "$dir"
missing=
for p in "$@"; do
    ls "$dir/${p}"_*_"$arch".deb "$dir/${p}"_*_all.deb >/dev/null 2>&1 || missing="$missing $p"
done
[ -n "$missing" ] || exit 0

state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
mkdir -p "$state/lists/partial" "$state/archives/partial"
: >"$state/status"
apt() {
    apt-get -qq -o APT::Architecture="$arch" -o APT::Architectures="$arch" -o Dir::State="$state" \
        -o Dir::State::status="$state/status" -o Dir::Cache="$state" -o APT::Sandbox::User=root "$@"
}
# A source without this architecture makes the update fail; what counts is whether the packages come.
apt update >"$state/log" 2>&1 || true
# shellcheck disable=SC2086
if ! (cd "$dir" && apt download $missing) >>"$state/log" 2>&1; then
    tail -n 10 "$state/log" >&2
    echo "debs.sh: no$missing for $arch from this system's package sources" >&2
    exit 1
fi
