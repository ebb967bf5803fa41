// core-regs: where each register lies in the flat register file, and access to it from outside.
// Composite registers (x, y, bm, cm, dm, l) are plain ranges because their parts are neighbours;
// the others are lists of such ranges, made here from what isa.h says they consist of.
#include "emu/aie/core-impl.h"

bool core_reg_span(const struct core_target * target, aie_reg reg, struct core_span * span) {
    enum aie_reg_kind kind = AIE_REG_KIND(reg);
    int n = AIE_REG_NUM(reg);
    if (kind <= AIE_NONE || kind >= AIE_REG_KIND_COUNT || n >= target->files[kind].count) {
        return false;
    }
    const struct core_file * f = &target->files[kind];
    int place = kind == AIE_L && n >= 8 ? n - 16 : n; // l8 is r0:r1, eight places before l0
    *span = (struct core_span){.offset = (uint16_t) (f->offset + place * f->step),
                               .size = f->size,
                               .unit = (uint8_t) (f->unit + place * f->n_units),
                               .n_units = f->n_units};
    return true;
}

// Registers that lie in no single piece, and their parts: register n consists of those of `kind`
// with the numbers mul * n + add. `pair`: two neighbouring words, el and eh, count as one piece.
static const struct {
    uint8_t kind;
    struct {
        uint8_t kind, mul, add, pair;
    } part[CORE_MAX_PIECES];
} composites[] = {
    {AIE_D, {{AIE_M, 1, 0, 0}, {AIE_DN, 1, 0, 0}, {AIE_DJ, 1, 0, 0}, {AIE_DC, 1, 0, 0}}},
    {AIE_D3,
     {{AIE_M, 1, 0, 0},
      {AIE_DN, 1, 0, 0},
      {AIE_DJ, 1, 0, 0},
      {AIE_DC, 1, 0, 0},
      {AIE_M, 1, 4, 0},
      {AIE_DN, 1, 4, 0},
      {AIE_DJ, 1, 4, 0},
      {AIE_DC, 1, 4, 0}}},
    {AIE_QX, {{AIE_X, 1, 0, 0}, {AIE_Q, 1, 0, 0}}},
    {AIE_QY, {{AIE_X, 2, 0, 0}, {AIE_Q, 2, 0, 0}, {AIE_X, 2, 1, 0}, {AIE_Q, 2, 1, 0}}},
    {AIE_EX, {{AIE_X, 1, 0, 0}, {AIE_E, 2, 0, 1}}},
    {AIE_EY, {{AIE_X, 2, 0, 0}, {AIE_E, 4, 0, 1}, {AIE_X, 2, 1, 0}, {AIE_E, 4, 2, 1}}},
    {AIE_QEX, {{AIE_X, 1, 0, 0}, {AIE_E, 2, 0, 1}, {AIE_Q, 1, 0, 0}}},
    {AIE_QEY,
     {{AIE_X, 2, 0, 0},
      {AIE_E, 4, 0, 1},
      {AIE_Q, 2, 0, 0},
      {AIE_X, 2, 1, 0},
      {AIE_E, 4, 2, 1},
      {AIE_Q, 2, 1, 0}}},
};

int core_reg_pieces(const struct core_target * target, aie_reg reg,
                    struct core_span pieces[CORE_MAX_PIECES]) {
    if (core_reg_span(target, reg, &pieces[0])) {
        return 1;
    }
    for (size_t i = 0; i < sizeof composites / sizeof composites[0]; i++) {
        if (composites[i].kind != AIE_REG_KIND(reg)) {
            continue;
        }
        int n = 0;
        for (; n < CORE_MAX_PIECES && composites[i].part[n].kind; n++) {
            int number = composites[i].part[n].mul * AIE_REG_NUM(reg) + composites[i].part[n].add;
            if (!core_reg_span(target, AIE_REG(composites[i].part[n].kind, number), &pieces[n])) {
                return 0;
            }
            if (composites[i].part[n].pair) {
                pieces[n].size = 8;
                pieces[n].n_units = 2;
            }
        }
        return n;
    }
    return 0;
}

int core_reg_get(const struct core * c, aie_reg reg, uint8_t * bytes) {
    struct core_span pieces[CORE_MAX_PIECES];
    int n = core_reg_pieces(c->traits, reg, pieces), at = 0;
    for (int i = 0; i < n; i++) {
        memcpy(bytes + at, c->regs + pieces[i].offset, pieces[i].size);
        at += pieces[i].size;
    }
    return at;
}

int core_reg_set(struct core * c, aie_reg reg, const uint8_t * bytes) {
    struct core_span pieces[CORE_MAX_PIECES];
    int n = core_reg_pieces(c->traits, reg, pieces), at = 0;
    for (int i = 0; i < n; i++) {
        if (pieces[i].size == 4) {
            reg_put_u32(c, (int) pieces[i].unit, load_u32(bytes + at));
        } else {
            memcpy(c->regs + pieces[i].offset, bytes + at, pieces[i].size);
        }
        at += pieces[i].size;
    }
    return at;
}
