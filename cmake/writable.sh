#!/bin/sh
# writable.sh <build> <deps>: can the build be made there? A source tree may be one that cannot be written.
for dir in "$@"; do
    if ! mkdir -p "$dir" 2>/dev/null || [ ! -w "$dir" ]; then
        echo "make: '$dir' cannot be written; name places that can: make BUILD=<directory> DEPS=<directory> ..." >&2
        exit 1
    fi
done
