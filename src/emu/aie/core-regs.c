// core-regs: where each register lies in the flat register file, and access to it from outside.
// Composite registers (x, y, bm, cm, l) are plain ranges because their parts are neighbours.
#include "emu/aie/core-impl.h"

#include "emu/aie/core.h"

#define P20 0xfffffu

// Control registers keep as many bits as their field has; the two that silicon was seen to cut are
// crSat (2 bits) and crRnd (4). The others are written with legal values by compilers: kept whole.
#define W4(m)  m, m, m, m
#define W8(m)  W4(m), W4(m)
#define W32(m) W8(m), W8(m), W8(m), W8(m)
#define ALL    0xffffffffu
const uint32_t core_unit_mask[AIE_UNIT_W] = {
    W32(ALL),                                                    // r
    W8(P20),  W8(P20), W8(P20), W8(P20), W8(P20),                // p, m, dn, dj, dc
    W4(ALL),                                                     // s
    ALL,      ALL,     ALL,     ALL,     ALL,     ALL, 0xf, ALL, // cr 0-7
    ALL,      0x3,     ALL,     ALL,     ALL,     ALL, ALL, ALL, // cr 8-15
    W8(ALL),  W8(ALL),                                           // sr
    P20,      P20,     ALL,     P20,     P20,     ALL, ALL, ALL, // ls, le, lc, lr, sp, dp, coreid
};

static struct core_span span_of(int offset, int size, int unit, int n_units) {
    return (struct core_span){.offset = (uint16_t) offset,
                              .size = (uint16_t) size,
                              .unit = (uint8_t) unit,
                              .n_units = (uint8_t) n_units};
}

static struct core_span words(int unit, int n) {
    return span_of(4 * unit, 4 * n, unit, n);
}

static struct core_span w_parts(int first, int n) {
    return span_of(REG_W + 32 * first, 32 * n, AIE_UNIT_W + first, n);
}

static struct core_span am_parts(int first, int n) {
    return span_of(REG_AM + 32 * first, 32 * n, AIE_UNIT_AM + first, n);
}

bool core_reg_span(aie_reg reg, struct core_span * span) {
    static const struct {
        uint8_t first, count; // units of the kinds that are one scalar word
    } scalar[AIE_REG_KIND_COUNT] = {
        [AIE_R] = {AIE_UNIT_R, 32},    [AIE_P] = {AIE_UNIT_P, 8},    [AIE_M] = {AIE_UNIT_M, 8},
        [AIE_DN] = {AIE_UNIT_DN, 8},   [AIE_DJ] = {AIE_UNIT_DJ, 8},  [AIE_DC] = {AIE_UNIT_DC, 8},
        [AIE_S] = {AIE_UNIT_S, 4},     [AIE_CR] = {AIE_UNIT_CR, 16}, [AIE_SR] = {AIE_UNIT_SR, 16},
        [AIE_SPC] = {AIE_UNIT_SPC, 8},
    };
    int n = AIE_REG_NUM(reg);
    enum aie_reg_kind kind = AIE_REG_KIND(reg);
    if (kind <= AIE_NONE || kind >= AIE_REG_KIND_COUNT) {
        return false;
    }
    if (scalar[kind].count) {
        if (n >= scalar[kind].count) {
            return false;
        }
        *span = words(scalar[kind].first + n, 1);
        return true;
    }
    switch (kind) {
    case AIE_L:
        *span = words(AIE_UNIT_R + 16 + 2 * n, 2);
        return n < 8;
    case AIE_W:
        *span = w_parts(n, 1);
        return n < 24;
    case AIE_X:
        *span = w_parts(2 * n, 2);
        return n < 12;
    case AIE_Y:
        *span = w_parts(4 * n, 4);
        return n < 6;
    case AIE_Q:
        *span = span_of(REG_Q + 16 * n, 16, AIE_UNIT_Q + n, 1);
        return n < 4;
    case AIE_AM:
        *span = am_parts(n, 1);
        return n < 36;
    case AIE_BM:
        *span = am_parts(2 * n, 2);
        return n < 18;
    case AIE_CM:
        *span = am_parts(4 * n, 4);
        return n < 9;
    default:
        return false;
    }
}

int core_reg_get(const struct core * c, aie_reg reg, uint8_t bytes[128]) {
    if (AIE_REG_KIND(reg) > AIE_CM) {
        return 0; // of another architecture
    }
    struct core_span s;
    if (core_reg_span(reg, &s)) {
        memcpy(bytes, c->regs + s.offset, s.size);
        return s.size;
    }
    uint8_t units[8];
    int n = aie_reg_units(reg, units), at = 0;
    for (int i = 0; i < n; i++) {
        bool is_q = units[i] >= AIE_UNIT_Q && units[i] < AIE_UNIT_AM;
        int size = units[i] < AIE_UNIT_W ? 4 : is_q ? 16 : 32;
        int from = units[i] < AIE_UNIT_W    ? 4 * units[i]
                   : units[i] < AIE_UNIT_Q  ? REG_W + 32 * (units[i] - AIE_UNIT_W)
                   : units[i] < AIE_UNIT_AM ? REG_Q + 16 * (units[i] - AIE_UNIT_Q)
                                            : REG_AM + 32 * (units[i] - AIE_UNIT_AM);
        memcpy(bytes + at, c->regs + from, (size_t) size);
        at += size;
    }
    return at;
}

int core_reg_set(struct core * c, aie_reg reg, const uint8_t bytes[128]) {
    struct core_span s;
    if (!core_reg_span(reg, &s)) {
        // qx and the d walks: set their parts instead
        return 0;
    }
    if (s.size == 4) {
        reg_put_u32(c, s.unit, load_u32(bytes));
    } else {
        memcpy(c->regs + s.offset, bytes, s.size);
    }
    return s.size;
}
