#!/bin/sh
# target-lint.sh <source directory>: what belongs to one chip stands in that chip's own files. An opcode (AIE2_*,
# AIE2P_*), the address of a core's window or the number of its first lock anywhere else in src, tools or bench is
# shown, and the script fails. A target's own files are its tables and its data, its verbs, the inner loops of products
# and its core in the emulator.
set -eu
cd "$1"
own='^src/aie/isa/aie2p?[./]|^src/aie/target/aie2p?[-.]|^src/aie/ops/[a-z-]+/aie2p?-|^src/emu/aie/[a-z-]*aie2p?[-.]'

# Comments may name them: they are taken off a line, as far as one line shows them.
find_in() { # what to look for; the lines of all sources that are no target's own, with their place
    find src tools bench -name '*.[ch]' | LC_ALL=C sort | grep -Ev "$own" | xargs grep -HnE "$1" /dev/null |
        sed 's,//.*,,' | grep -E "^[^:]*:[0-9]+:.*($1)" || true
}

found=
show() {
    lines=$(find_in "$2")
    if [ -n "$lines" ]; then
        found=1
        printf '%s\n%s\n' "target-lint: $1:" "$lines" >&2
    fi
}

show "an opcode outside its target's files; say it in verbs (src/aie/target/verbs.h)" '\bAIE2P?_[A-Za-z]'
show "the tables of one target; take what is needed from aie_target(arch)" '#include "aie/isa/aie2p?[.]h"'
show "a core's window; it is aie_target(arch)->own_window" '0x[57]0000([^0-9a-fA-F]|$)'
show "a number of the core's locks; they begin at aie_target(arch)->own_locks" \
    '[Ll][Oo][Cc][Kk][A-Za-z_]* *[=+] *48([^0-9]|$)|\b48 *\+ *[A-Za-z_]*[Ll][Oo][Cc][Kk]'
[ -z "$found" ]
