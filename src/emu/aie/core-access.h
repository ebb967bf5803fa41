// core-access: the address of a memory access and the host memory behind it. Inlined where memory
// is touched (core-memory.c, and core-turns.c for the loads of hot loops) and where registers of
// the tile are (core-outside.c); shared by those only.
#pragma once

#include "emu/aie/core-impl.h"

#define UNIT_SP (AIE_UNIT_SPC + AIE_SPC_SP)

// One walk step in 2 or 3 dimensions: counts run from 0 to dn; at dn they start over and the walk
// moves on in the next dimension, at last by m.
static inline uint32_t walk(struct core * c, const struct core_op * op) {
    int dims = op->addressing == ADDR_3D ? 2 : 1;
    for (int i = 0; i < dims; i++) {
        int d = op->mod + 4 * i;
        uint32_t count = reg_u32(c, AIE_UNIT_DC + d);
        if (count != reg_u32(c, AIE_UNIT_DN + d)) {
            core_write_next(c, op, AIE_UNIT_DC + d, count + 1);
            return reg_u32(c, AIE_UNIT_DJ + d);
        }
        core_write_next(c, op, AIE_UNIT_DC + d, 0);
    }
    return reg_u32(c, AIE_UNIT_M + op->mod);
}

// The address of this access, while no pointer moves.
static inline uint32_t address_ahead(const struct core * c, const struct core_op * op) {
    uint32_t p = reg_u32(c, op->ptr);
    uint32_t by = op->addressing == ADDR_IMM   ? (uint32_t) op->imm
                  : op->addressing == ADDR_REG ? reg_u32(c, op->mod)
                                               : 0;
    return (p + by) & 0xfffff;
}

// The address of this access; a post-modified pointer moves on.
static inline uint32_t address(struct core * c, const struct core_op * op) {
    uint32_t p = reg_u32(c, op->ptr);
    switch (op->addressing) {
    case ADDR_POST_IMM:
        core_write_next(c, op, op->ptr, p + (uint32_t) op->imm);
        return p;
    case ADDR_IMM:
        return (p + (uint32_t) op->imm) & 0xfffff;
    case ADDR_REG:
        return (p + reg_u32(c, op->mod)) & 0xfffff;
    case ADDR_POST_REG:
        core_write_next(c, op, op->ptr, p + reg_u32(c, op->mod));
        return p;
    default:
        core_write_next(c, op, op->ptr, p + walk(c, op));
        return p;
    }
}

// Not aligned, or in a window that is not mapped yet; see core-memory.c.
CORE_COLD uint8_t * core_locate_slowly(struct core * c, const struct core_op * op, uint32_t addr,
                                       uint32_t bytes);

// The access asks for its banks `delay` cycles after its bundle's other accesses.
static inline void ask_banks(struct core * c, uint32_t addr, uint32_t bytes, int delay) {
    if (c->env.bank_bit == 0) {
        return;
    }
    uint32_t mask = bank_mask(c->env.bank_bit, addr, bytes);
    bank_add(&c->banks[(c->cycle + (uint64_t) delay) % RING], mask);
    c->bank_hits[addr >> 14 & 15] += mask & (mask - 1) ? 2 : 1;
}

// Host memory of the access, or NULL after a fault. bytes is op->bytes, a constant where that is
// known.
static inline uint8_t * locate_unasked(struct core * c, const struct core_op * op, uint32_t addr,
                                       uint32_t bytes) {
    uint8_t * base = c->window[addr >> 16];
    if (base && !(addr & (bytes - 1))) {
        return base + (addr & 0xffff);
    }
    return core_locate_slowly(c, op, addr, bytes);
}

static inline uint8_t * locate_at(struct core * c, const struct core_op * op, uint32_t addr,
                                  uint32_t bytes, int delay) {
    ask_banks(c, addr, bytes, delay);
    return locate_unasked(c, op, addr, bytes);
}
