#!/bin/sh
# target-lint.sh <source directory>: what belongs to one chip stands in that chip's own files. An opcode (AIE2_*,
# AIE2P_*), the address of a core's window or the number of its first lock anywhere else in src, tools or bench is
# shown, and the script fails. A target's own files are its tables and its data, its verbs, the inner loops of products
# and its core in the emulator.
set -eu
cd "$1"
own='^src/aie/isa/aie2p?[./]|^src/aie/(target|verbs)/aie2p?[-.]|^src/aie/ops/[a-z-]+/aie2p?-|^src/emu/aie/[a-z-]*aie2p?[-.]'
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# All lines of sources that are no target's own, with their place and without comments, as far as one line shows them.
find src tools bench -name '*.[ch]' | LC_ALL=C sort | grep -Ev "$own" | xargs grep -Hn '' /dev/null |
    sed 's,//.*,,' >"$dir/lines"
for arch in aie2 aie2p; do
    prefix=$(echo $arch | tr '[:lower:]' '[:upper:]')
    cat src/aie/isa/$arch/*.def | sed -n "s/^I(\([A-Za-z0-9_]*\),.*/${prefix}_\1/p"
done >"$dir/opcodes"
[ -s "$dir/opcodes" ] || { echo "target-lint: no opcodes in src/aie/isa" >&2; exit 1; }

found=
show() { # what it is and the mend; how to find it
    what=$1
    shift
    if grep "$@" "$dir/lines" >"$dir/found"; then
        found=1
        echo "target-lint: $what:" >&2
        cat "$dir/found" >&2
    fi
}

show "an opcode outside its target's files; say it in verbs (src/aie/verbs/verbs.h)" -wFf "$dir/opcodes"
show "the tables of one target; take what is needed from aie_target(arch)" -E '#include "aie/isa/aie2p?[.]h"'
show "a core's window; it is aie_target(arch)->own_window" -E ':[0-9]+:.*0x[57]0000\b'
show "a number of the core's locks; they begin at aie_target(arch)->own_locks" \
    -E '[Ll][Oo][Cc][Kk][A-Za-z_]* *[=+] *48\b|\b48 *\+ *[A-Za-z_]*[Ll][Oo][Cc][Kk]'
[ -z "$found" ]
