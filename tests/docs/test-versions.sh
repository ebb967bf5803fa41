#!/bin/sh
# test-versions.sh <source>: the releases of ggml that the plugin loads into are named in several places: its own list,
# what it says to another one, the doctor, the Debian packages, and pages. All say the same.
set -eu
cd "$1"
failed=0
list=$(sed -n 's/^ *\({0, [0-9].*\)$/\1/p' src/backend/plugin/registry.c | grep -o '{0, [0-9]*' | grep -o '[0-9]*$')
first=$(echo "$list" | head -n 1)
last=$(echo "$list" | tail -n 1)
[ "$first" -lt "$last" ] || { echo "no list of releases in registry.c: $list"; exit 1; }

# says <file> <words>
says() {
    tr '\n' ' ' <"$1" | tr -s ' ' | grep -qF -- "$2" || { echo "$1 does not say \"$2\""; failed=1; }
}
says tools/doctor.c "ggml 0.$first to 0.$last"
says debian/control "libggml0 (<< 0.$((last + 1))~)"
says debian/control "libggml0 (>= 0.$first)"
says debian/control "libggml-dev (>= 0.$first)"
says docs/build.md "ggml 0.$first to 0.$last"
for minor in $list; do
    says docs/hosts.md "| 0.$minor |"
done
# The one that is built and tested with, and the systems whose packages are known.
version=$(sed -n 's/^version=.*:-\([0-9.]*\)}.*/\1/p' cmake/ggml/get.sh | head -n 1)
[ -n "$version" ] || { echo "cmake/ggml/get.sh names no version"; exit 1; }
says README.md "$version"
says docs/build.md "$version"
says README.md "Debian 12, 13, sid and Ubuntu 24.04"
says docs/build.md "Debian 12, 13 and sid, Ubuntu 24.04"
exit $failed
