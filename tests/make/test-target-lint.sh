#!/bin/sh
# test-target-lint.sh <target-lint.sh> <source directory>: no file outside a target's own names its opcodes, its window
# or its locks; and the script that says so sees each of them when it is planted, in every part of the tree, and
# nothing where they belong.
set -u
lint=$1
tree=$2
out=$(sh "$lint" "$tree" 2>&1) || { printf '%s\n' "$out"; exit 1; }

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/src/aie/ops/rows" "$dir/src/aie/target" "$dir/src/aie/verbs" "$dir/src/aie/isa" "$dir/src/emu/aie" "$dir/tools" "$dir/bench"
plain() { # a tree in which all is well
    for own in src/aie/ops/rows/rows.c src/emu/aie/core.c tools/doctor.c bench/bench.c; do
        echo 'enum { AIE2_LANES = 16 }; // not AIE2_ADD, nor 0x70000' >"$dir/$own"
    done
    for own in src/aie/target/aie2.c src/aie/verbs/aie2p-verbs.c src/aie/isa/aie2.h src/aie/ops/rows/aie2-loop.c \
        src/emu/aie/target-aie2p.c; do
        printf 'int op = AIE2_ADD + AIE2P_ADD;\nint window = 0x70000, own_locks = 48;\n' >"$dir/$own"
    done
}
for arch in aie2 aie2p; do
    mkdir "$dir/src/aie/isa/$arch"
    printf 'I(ADD, ALU, "0")\nI(VADD_32, MV, "0")\n' >"$dir/src/aie/isa/$arch/alu.def"
done
plain
sh "$lint" "$dir" || { echo "test-target-lint: a target's own files are found fault with"; exit 1; }

n=0
while IFS= read -r line; do
    for f in src/aie/ops/rows/rows.c src/emu/aie/core.c tools/doctor.c bench/bench.c; do
        plain
        printf '%s\n' "$line" >>"$dir/$f"
        if said=$(sh "$lint" "$dir" 2>&1); then
            echo "test-target-lint: not seen in $f: $line"
            exit 1
        fi
        case $said in *"$f:2:"*) ;; *) echo "test-target-lint: $f:2 is not named: $said"; exit 1 ;; esac
        n=$((n + 1))
    done
done <<'END'
    ASM(p, AIE2_VADD_32, A_REG(d), A_REG(a), A_REG(b));
    int op = wide ? AIE2P_VADD_32 : 0; // AIE2P on its own would be a name
AIE2_ADD,
#include "aie/isa/aie2.h"
#include "aie/isa/aie2p.h"
enum { CORE_MEMORY = 0x70000 };
    set(w, r, 0x50000 + at);
enum { OWN_LOCKS = 48 };
    asm_lock_acquire(p, 48 + RW_LOCK_GO, one);
END
echo "test-target-lint: $n planted lines seen"
