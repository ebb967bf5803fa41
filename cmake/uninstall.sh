#!/bin/sh
# uninstall.sh <build>: removes what the last `cmake --install` of that build put into place, below DESTDIR, and
# the directories of ours that are empty then.
set -eu
manifest=$1/install_manifest.txt
if [ ! -f "$manifest" ]; then
    echo "uninstall.sh: no $manifest; \`make install\` with the same PREFIX writes it" >&2
    exit 1
fi
# The last line has no end.
{ cat "$manifest"; echo; } | while read -r file; do
    [ -n "$file" ] || continue
    rm -f "${DESTDIR:-}$file"
    dir=$(dirname "$file")
    while case $dir in */ggml-hsa | */ggml-hsa/*) true ;; *) false ;; esac; do
        rmdir "${DESTDIR:-}$dir" 2>/dev/null || break
        dir=$(dirname "$dir")
    done
done
echo "-- removed what $manifest names"
