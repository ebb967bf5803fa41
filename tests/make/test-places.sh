#!/bin/sh
# test-places.sh <cmake> <source>: the source in a directory with a space in its name and that nobody may write, as
# the tarball of dist.sh unpacks it; without git and ninja, and with clang alone where there is one. It
# configures and compiles what scripts have a hand in, and leaves the source as it was.
set -eu
cmake=$1
source=$2
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER CMAKE_GENERATOR MAKEFLAGS MAKELEVEL CC CXX CFLAGS || true
fail() {
    echo "test-places: $*"
    exit 1
}

# ---- the tarball ----

sh "$source/cmake/dist.sh" "$dir/dist" >"$dir/log" 2>&1 || fail "dist.sh: $(cat "$dir/log")"
version=$(sed -n 's/^project(ggml-hsa VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
mkdir "$dir/a tree"
tar xzf "$dir/dist/ggml-hsa-$version.tar.gz" -C "$dir/a tree" || fail "no ggml-hsa-$version.tar.gz"
tree="$dir/a tree/ggml-hsa-$version"
grep -q "^## $version\b" "$tree/CHANGELOG.md" || fail "CHANGELOG.md has nothing of $version"
# A tarball of a tarball has the same files.
sh "$tree/cmake/dist.sh" "$dir/again" >"$dir/log" 2>&1 || fail "dist.sh without git: $(cat "$dir/log")"
tar tzf "$dir/dist/ggml-hsa-$version.tar.gz" | sed 's,/$,,' | sort >"$dir/list"
tar tzf "$dir/again/ggml-hsa-$version.tar.gz" | sed 's,/$,,' | sort | cmp -s "$dir/list" - || fail "another list of files without git"

# ---- a PATH without git, ninja and gcc ----

mkdir "$dir/bin"
for p in sh make cat sed uname ar ranlib ld nm objdump strip readelf dirname grep tail mkdir env pkg-config as; do
    real=$(command -v $p) && ln -s "$real" "$dir/bin/$p"
done
for p in clang clang++; do
    real=$(command -v $p) && ln -s "$real" "$dir/bin/$p"
done
if [ ! -e "$dir/bin/clang" ]; then
    echo "skipped: no clang to be alone with"
    ln -s "$(command -v cc)" "$dir/bin/cc"
fi
chmod -R a-w "$tree"
: >"$dir/now"
PATH=$dir/bin "$cmake" -S "$tree" -B "$dir/a build" -DGGML_HSA=OFF -DGGML_HSA_TESTS=OFF >"$dir/log" 2>&1 ||
    fail "it does not configure: $(tail -n 20 "$dir/log")"
PATH=$dir/bin "$cmake" --build "$dir/a build" --target compiler-identity --target hip >"$dir/log" 2>&1 ||
    fail "it does not compile: $(tail -n 20 "$dir/log")"
changed=$(find "$tree" -newer "$dir/now")
[ -z "$changed" ] || fail "written into the source: $changed"
# The plain way says what to do instead.
if [ "$(id -u)" != 0 ]; then
    out=$(cd "$tree" && make demo 2>&1) && fail "a demo in a tree that cannot be written"
    case $out in *"make BUILD="*) ;; *) fail "make demo: $out" ;; esac
fi
