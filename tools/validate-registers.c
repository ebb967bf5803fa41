// validate-registers: how any register of a core is set from its memory, and stored there. The ways
// are found in the instruction tables: a plain load or store that takes the register, or a move to
// or from one that has such a load. Registers are set and stored by their units, the smallest parts
// that instructions share.
#include "validate-instr.h"

#include <string.h>

static const struct {
    uint8_t first, count, kind, bytes;
} files[] = {
    {AIE_UNIT_R, 32, AIE_R, 4},      {AIE_UNIT_P, 8, AIE_P, 4},
    {AIE_UNIT_M, 8, AIE_M, 4},       {AIE_UNIT_DN, 8, AIE_DN, 4},
    {AIE_UNIT_DJ, 8, AIE_DJ, 4},     {AIE_UNIT_DC, 8, AIE_DC, 4},
    {AIE_UNIT_S, 4, AIE_S, 4},       {AIE_UNIT_CR, 16, AIE_CR, 4},
    {AIE_UNIT_SR, 16, AIE_SR, 4},    {AIE_UNIT_SPC, 8, AIE_SPC, 4},
    {AIE_UNIT_W, 24, AIE_W, 32},     {AIE_UNIT_Q, 4, AIE_Q, 16},
    {AIE_UNIT_AM, 36, AIE_AM, 32},   {AIE_UNIT_CRP, AIE_CRP_COUNT, AIE_CRP, 4},
    {AIE_UNIT_BM4, 20, AIE_BM4, 64},
};
enum { FILES = sizeof files / sizeof files[0] };

aie_reg register_of_unit(int unit, int * bytes) {
    for (int i = 0; i < FILES; i++) {
        if (unit >= files[i].first && unit < files[i].first + files[i].count) {
            *bytes = files[i].bytes;
            return AIE_REG(files[i].kind, unit - files[i].first);
        }
    }
    *bytes = 0; // exponents and fifos, which kernels fill by instructions of their own
    return 0;
}

// "vlda", not "vlda.ups.s32.s16": what is loaded is what is there.
static bool is_plain(const struct aie_instr * in, const char * first, const char * second) {
    size_t n = strcspn(in->text, " ");
    return (strlen(first) == n && !strncmp(in->text, first, n)) ||
           (strlen(second) == n && !strncmp(in->text, second, n));
}

// A load or store [p7, #0] of the register: its operands are written to `values`.
static int find_access(const struct aie_isa * isa, aie_reg reg, bool store, int32_t values[3]) {
    for (int op = 0; op < aie_isa_count(isa); op++) {
        const struct aie_instr * in = aie_isa_instr(isa, op);
        int data = -1, pointer = -1, offset = -1;
        if (in->n_explicit != 3 || in->has_fixed || (store ? !in->stores : !in->loads) ||
            !(store ? is_plain(in, "st", "vst") : is_plain(in, "lda", "vlda"))) {
            continue;
        }
        for (int k = 0; k < 3; k++) {
            const struct aie_operand * o = &in->operands[k];
            bool points = !o->is_imm && o->role == AIE_USE &&
                          aie_operand_fits(isa, op, k, REG_POINTER) &&
                          !aie_operand_fits(isa, op, k, REG_CARRY);
            *(o->is_imm ? &offset : points ? &pointer : &data) = k;
        }
        if (data < 0 || pointer < 0 || offset < 0 || !aie_operand_fits(isa, op, data, reg) ||
            !(in->operands[data].role & (store ? AIE_USE : AIE_DEF)) ||
            !aie_operand_fits(isa, op, offset, 0)) {
            continue;
        }
        values[data] = reg;
        values[pointer] = REG_POINTER;
        values[offset] = 0;
        return op;
    }
    return -1;
}

// A move between the register and one of our own.
static int find_move(const struct aie_isa * isa, aie_reg to, aie_reg from) {
    for (int op = 0; op < aie_isa_count(isa); op++) {
        const struct aie_instr * in = aie_isa_instr(isa, op);
        if (in->n_explicit == 2 && !in->loads && !in->stores && !in->branches && !in->has_fixed &&
            is_plain(in, "mov", "movx") && !in->operands[0].is_imm && !in->operands[1].is_imm &&
            in->operands[0].role == AIE_DEF && in->operands[1].role == AIE_USE &&
            aie_operand_fits(isa, op, 0, to) && aie_operand_fits(isa, op, 1, from)) {
            return op;
        }
    }
    return -1;
}

enum { LANDS = 9 };

static void access(struct code * c, int op, const int32_t values[3], uint32_t address) {
    code_set(c, REG_POINTER, (int32_t) (c->l->target->own_window + address));
    code_nops(c, 3);
    code_put(c, op, values, 3);
    code_end(c);
    code_nops(c, LANDS);
}

static void move(struct code * c, int op, aie_reg to, aie_reg from) {
    code_put(c, op, (const int32_t[]){to, from}, 2);
    code_end(c);
    code_nops(c, LANDS);
}

bool register_set(struct code * c, aie_reg reg, uint32_t address) {
    const struct aie_isa * isa = aie_isa_get(c->l->arch);
    int32_t values[3];
    int op = find_access(isa, reg, false, values);
    if (op >= 0) {
        access(c, op, values, address);
        return true;
    }
    int by = find_move(isa, reg, REG_CARRY);
    op = by < 0 ? -1 : find_access(isa, REG_CARRY, false, values);
    if (op >= 0) {
        access(c, op, values, address);
        move(c, by, reg, REG_CARRY);
    }
    return op >= 0;
}

bool register_store(struct code * c, aie_reg reg, uint32_t address) {
    const struct aie_isa * isa = aie_isa_get(c->l->arch);
    int32_t values[3];
    int op = find_access(isa, reg, true, values);
    if (op >= 0) {
        access(c, op, values, address);
        return true;
    }
    int by = find_move(isa, REG_CARRY, reg);
    op = by < 0 ? -1 : find_access(isa, REG_CARRY, true, values);
    if (op >= 0) {
        move(c, by, REG_CARRY, reg);
        access(c, op, values, address);
    }
    return op >= 0;
}
