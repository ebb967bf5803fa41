#!/bin/sh
# test-needed.sh <file>...: our libraries want of a system its C library and of ggml libggml-base,
# and nothing else: what else they use they open when they need it. A minimal system has no more.
set -eu
if ! command -v readelf >/dev/null; then
    echo "skipped: no readelf"
    exit 77
fi
status=0
for file in "$@"; do
    needed=$(LC_ALL=C readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    [ -n "$needed" ] || { echo "$file: readelf tells nothing"; status=1; }
    for name in $needed; do
        case $name in
        libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | ld-linux* | libggml-base.so.*) ;;
        *)
            echo "$file needs $name"
            status=1
            ;;
        esac
    done
done
exit $status
