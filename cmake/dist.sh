#!/bin/sh
# dist.sh <directory>: the source as ggml-hsa-<version>.tar.gz, which builds without git. Equal commits give equal
# files. In a tree that is no git checkout, such as an unpacked tarball, it takes the files that are there.
set -eu
out=$1
cd "$(dirname "$0")/.."
version=$(sed -n 's/^project(ggml-hsa VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
name=ggml-hsa-$version
mkdir -p "$out"
if [ -e .git ] && git rev-parse -q --verify HEAD >/dev/null 2>&1; then
    [ -z "$(git status --porcelain)" ] || echo "-- dist: what is not committed is left out" >&2
    git archive --format=tar --prefix="$name/" HEAD | gzip -9n >"$out/$name.tar.gz.part"
else
    tar c --sort=name --owner=0 --group=0 --numeric-owner --mtime=@"${SOURCE_DATE_EPOCH:-$(stat -c %Y CMakeLists.txt)}" \
        --exclude=./.deps --exclude='./build*' --exclude='*.o' --transform "s,^\\.,$name," . |
        gzip -9n >"$out/$name.tar.gz.part"
fi
mv "$out/$name.tar.gz.part" "$out/$name.tar.gz"
echo "-- $out/$name.tar.gz"
