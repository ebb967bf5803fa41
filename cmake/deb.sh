#!/bin/sh
# deb.sh <directory> <deps>: Debian packages of this tree into the directory, from the tarball that dist.sh makes.
# They are for releases that have libggml0, and are made on any Debian or Ubuntu: without its libggml-dev, the ggml
# of ggml/get.sh in <deps> gives the headers. The version is the one in CMakeLists.txt.
set -eu
mkdir -p "$1" "$2"
out=$(cd "$1" && pwd)
deps=$(cd "$2" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
for tool in dpkg-buildpackage dh; do
    command -v $tool >/dev/null || { echo "deb.sh: no $tool here; install dpkg-dev and debhelper" >&2; exit 1; }
done

# Debian's tools want a path without spaces.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$out"/ggml-hsa* "$out"/lib*
sh "$here/dist.sh" "$out" >/dev/null
tar xzf "$out"/ggml-hsa-*.tar.gz -C "$work"
tree=$(echo "$work"/ggml-hsa-*/)
tree=${tree%/}
version=${tree##*/ggml-hsa-}
# From the tarball's own date, so that equal sources make equal packages.
date=$(LC_ALL=C date -uRd "@${SOURCE_DATE_EPOCH:-$(stat -c %Y "$tree/CMakeLists.txt")}")
cat >"$tree/debian/changelog" <<END
ggml-hsa ($version) unstable; urgency=medium

  * Release $version; the changes are in changelog.gz.

 -- $(sed -n 's/^Maintainer: //p' "$tree/debian/control")  $date
END

options=
if ! dpkg-query -W -f '${Status}' libggml-dev 2>/dev/null | grep -q 'install ok installed'; then
    options=-d
    sh "$here/ggml/get.sh" --libs "$deps"
    export GGML_HSA_DEPS="$deps"
fi
export DEB_BUILD_OPTIONS="noautodbgsym ${DEB_BUILD_OPTIONS:-}"
cd "$tree"
sh "$here/step.sh" "$out/build.log" "deb: ggml-hsa $version" dpkg-buildpackage -b -us -uc $options
mv "$work"/*.deb "$work"/*.changes "$work"/*.buildinfo "$out"
cd "$out"
if [ "${LINTIAN:-1}" = 0 ]; then
    echo "-- deb: LINTIAN=0, the packages were not checked"
elif command -v lintian >/dev/null; then
    lintian --fail-on error,warning --suppress-tags bad-distribution-in-changes-file ./*.changes
    echo "-- deb: lintian has nothing to say"
fi
ls ./*.deb
