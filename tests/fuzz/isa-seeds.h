// isa-seeds: every instruction of an instruction set, some of them to a seed, each in a bundle of
// its own and with operands that were drawn; the same ones each time.
#pragma once

#include "fuzz.h"

#include "aie/isa/isa.h"

enum { ISA_SEED_OPS = 12 };

static inline uint64_t isa_random(uint64_t * state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

// Bits that no operand has may be fixed by others; some drawing decodes to this very instruction.
static inline bool isa_draw(const struct aie_isa * isa, int op, uint64_t * state,
                            struct aie_inst * out) {
    const struct aie_instr * in = aie_isa_instr(isa, op);
    int bits = aie_slot_bits(isa, in->slot);
    uint64_t all = bits < 64 ? (UINT64_C(1) << bits) - 1 : ~UINT64_C(0);
    for (int round = 0; round < 200; round++) {
        uint64_t word = (isa_random(state) & ~in->mask & all) | in->value;
        if (aie_slot_decode(isa, in->slot, word, out, NULL) == ST_OK && out->op == op) {
            return true;
        }
    }
    return false;
}

static inline bool isa_seed(enum aie_arch arch, int i, uint8_t ** data, size_t * size) {
    const struct aie_isa * isa = aie_isa_get(arch);
    uint64_t state = UINT64_C(0x2545f4914f6cdd1d) + (uint64_t) i;
    int n = aie_isa_count(isa), first = i * ISA_SEED_OPS;
    struct buf b = {0};
    if (first >= n) {
        return false;
    }
    for (int op = first; op < first + ISA_SEED_OPS && op < n; op++) {
        enum aie_slot slot = aie_isa_instr(isa, op)->slot;
        struct aie_bundle bundle = {.present = (uint8_t) (1u << slot)};
        uint8_t bytes[AIE_MAX_BUNDLE_BYTES];
        int length;
        if (isa_draw(isa, op, &state, &bundle.slot[slot]) &&
            aie_bundle_encode(isa, &bundle, bytes, &length, NULL) == ST_OK) {
            buf_append(&b, bytes, (size_t) length);
        }
    }
    *data = b.data ? b.data : calloc(1, 1);
    *size = b.size;
    return true;
}
