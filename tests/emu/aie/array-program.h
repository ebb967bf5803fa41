// array-program: programs for the cores of the array tests, written instruction by instruction, and
// the commands that load them.
#pragma once

#include "aie/isa/isa.h"
#include "array-design.h"
#include "base/cmocka-all.h"

#define R(n) AIE_REG(AIE_R, n)
#define P(n) AIE_REG(AIE_P, n)
#define X(n) AIE_REG(AIE_X, n)
#define W(n) AIE_REG(AIE_W, n)

static enum aie_arch program_arch = AIE_ARCH_AIE2; // of the instructions that follow

// A program: full bundles of one instruction each, so that every address is a multiple of 16.
struct program {
    uint32_t words[1024];
    uint32_t n;
};

// One instruction by record name, its operands by letter: ins(p, "ADD_add_r_ri", "dai", R(0), R(0),
// 1).
static inline void ins(struct program * p, const char * name, const char * letters, ...) {
    const struct aie_isa * isa = aie_isa_get(program_arch);
    struct aie_bundle b = {.size = 16};
    if (name) {
        int op = aie_isa_find(isa, name);
        assert_true(op >= 0);
        const struct aie_instr * instr = aie_isa_instr(isa, op);
        b.present = (uint8_t) (1u << instr->slot);
        b.slot[instr->slot].op = (uint16_t) op;
        va_list args;
        va_start(args, letters);
        for (const char * l = letters; *l; l++) {
            b.slot[instr->slot].values[aie_instr_operand(instr, *l)] = va_arg(args, int);
        }
        va_end(args);
    }
    uint8_t bytes[AIE_MAX_BUNDLE_BYTES];
    int size = 0;
    struct error err;
    if (aie_bundle_encode(isa, &b, bytes, &size, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(size, 16);
    for (int i = 0; i < 4; i++) {
        p->words[p->n++] = load_u32(bytes + 4 * i);
    }
}

static inline void nops(struct program * p, int n) {
    while (n-- > 0) {
        ins(p, NULL, "");
    }
}

static inline uint32_t here(const struct program * p) {
    return p->n * 4;
}

static inline void jump(struct program * p, uint32_t to) {
    ins(p, "J_jump_imm", "i", (int) to);
    nops(p, 5); // delay slots
}

static inline void load_core(struct words * cdo, int col, int row, const struct program * p) {
    cdo_mask_write(cdo, REG(col, row, 0x32000), 1, 0);
    cdo_block(cdo, REG(col, row, 0x20000), p->words, p->n);
    cdo_mask_write(cdo, REG(col, row, 0x32000), 2, 2);
    cdo_mask_write(cdo, REG(col, row, 0x32000), 2, 0);
}

static inline void enable_core(struct words * cdo, int col, int row) {
    cdo_mask_write(cdo, REG(col, row, 0x32000), 1, 1);
}
