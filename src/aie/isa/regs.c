// regs: how registers are named and which units they cover. Both targets share the scalar registers
// and w, x, y, q; every composite register is a handful of units, so that overlap is a question of
// common units and of nothing else.
#include "aie/isa/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char * const cr_names[AIE_CR_COUNT] = {
    [AIE_CR_VADD_SIGN] = "crvaddsign",
    [AIE_CR_F2F_MASK] = "crf2fmask",
    [AIE_CR_F2I_MASK] = "crf2imask",
    [AIE_CR_FP_MASK] = "crfpmask",
    [AIE_CR_MCD_EN] = "crmcden",
    [AIE_CR_PACK_SIGN] = "crpacksign",
    [AIE_CR_RND] = "crrnd",
    [AIE_CR_SCD_EN] = "crscden",
    [AIE_CR_SRS_SIGN] = "crsrssign",
    [AIE_CR_SAT] = "crsat",
    [AIE_CR_UPS_SIGN] = "crupssign",
    [AIE_CR_UNPACK_SIGN] = "crunpacksign",
};

static const char * const sr_names[AIE_SR_COUNT] = {
    [AIE_SR_CARRY] = "srcarry",         [AIE_SR_COMPR_UF] = "srcompr_uf",
    [AIE_SR_F2F_FLAGS] = "srf2fflags",  [AIE_SR_F2I_FLAGS] = "srf2iflags",
    [AIE_SR_FP_FLAGS] = "srfpflags",    [AIE_SR_MS0] = "srms0",
    [AIE_SR_SRS_OF] = "srsrs_of",       [AIE_SR_SS0] = "srss0",
    [AIE_SR_SPARSE_OF] = "srsparse_of", [AIE_SR_UPS_OF] = "srups_of",
};

static const char * const spc_names[AIE_SPC_COUNT] = {
    [AIE_SPC_LS] = "ls", [AIE_SPC_LE] = "le", [AIE_SPC_LC] = "lc",          [AIE_SPC_LR] = "lr",
    [AIE_SPC_SP] = "sp", [AIE_SPC_DP] = "dp", [AIE_SPC_COREID] = "core_id",
};

// A kind is named by a table, or by a prefix and n / div, where n % div picks the prefix; it covers
// per units from unit + n * per on, or, where per is 0, what aie_reg_units says.
static const struct {
    const char * const * names;
    const char * prefix[4];
    uint8_t div, count, unit, per;
} kinds[AIE_REG_KIND_COUNT] = {
    [AIE_R] = {NULL, {"r"}, 1, 32, AIE_UNIT_R, 1},
    [AIE_P] = {NULL, {"p"}, 1, 8, AIE_UNIT_P, 1},
    [AIE_M] = {NULL, {"m"}, 1, 8, AIE_UNIT_M, 1},
    [AIE_DN] = {NULL, {"dn"}, 1, 8, AIE_UNIT_DN, 1},
    [AIE_DJ] = {NULL, {"dj"}, 1, 8, AIE_UNIT_DJ, 1},
    [AIE_DC] = {NULL, {"dc"}, 1, 8, AIE_UNIT_DC, 1},
    [AIE_S] = {NULL, {"s"}, 1, 4, AIE_UNIT_S, 1},
    [AIE_CR] = {cr_names, {NULL}, 1, AIE_CR_COUNT, AIE_UNIT_CR, 1},
    [AIE_SR] = {sr_names, {NULL}, 1, AIE_SR_COUNT, AIE_UNIT_SR, 1},
    [AIE_SPC] = {spc_names, {NULL}, 1, AIE_SPC_COUNT, AIE_UNIT_SPC, 1},
    [AIE_L] = {NULL, {"l"}, 1, 8, AIE_UNIT_R + 16, 2},
    [AIE_D] = {NULL, {"d"}, 1, 8, 0, 0},
    [AIE_D3] = {NULL, {"d"}, 1, 4, 0, 0},
    [AIE_W] = {NULL, {"wl", "wh"}, 2, 24, AIE_UNIT_W, 1},
    [AIE_X] = {NULL, {"x"}, 1, 12, AIE_UNIT_W, 2},
    [AIE_Y] = {NULL, {"y"}, 1, 6, AIE_UNIT_W, 4},
    [AIE_Q] = {NULL, {"q"}, 1, 4, AIE_UNIT_Q, 1},
    [AIE_QX] = {NULL, {"qx"}, 1, 4, 0, 0},
    [AIE_QW] = {NULL, {"qwl", "qwh"}, 2, 8, 0, 0},
    [AIE_AM] = {NULL, {"amll", "amlh", "amhl", "amhh"}, 4, 36, AIE_UNIT_AM, 1},
    [AIE_BM] = {NULL, {"bml", "bmh"}, 2, 18, AIE_UNIT_AM, 2},
    [AIE_CM] = {NULL, {"cm"}, 1, 9, AIE_UNIT_AM, 4},
};

static int walk_units(int n, uint8_t * units) {
    static const uint8_t base[4] = {AIE_UNIT_M, AIE_UNIT_DN, AIE_UNIT_DJ, AIE_UNIT_DC};
    for (int i = 0; i < 4; i++) {
        units[i] = (uint8_t) (base[i] + n);
    }
    return 4;
}

int aie_reg_units(aie_reg reg, uint8_t units[8]) {
    enum aie_reg_kind kind = AIE_REG_KIND(reg);
    int n = AIE_REG_NUM(reg);
    if (kind >= AIE_REG_KIND_COUNT || n >= kinds[kind].count) {
        return 0;
    }
    switch (kind) {
    case AIE_D:
        return walk_units(n, units);
    case AIE_D3:
        return walk_units(n, units) + walk_units(n + 4, units + 4);
    case AIE_QX:
        units[0] = (uint8_t) (AIE_UNIT_W + 2 * n);
        units[1] = (uint8_t) (AIE_UNIT_W + 2 * n + 1);
        units[2] = (uint8_t) (AIE_UNIT_Q + n);
        return 3;
    case AIE_QW:
        units[0] = (uint8_t) (AIE_UNIT_W + n);
        units[1] = (uint8_t) (AIE_UNIT_Q + n / 2);
        return 2;
    default:
        for (int i = 0; i < kinds[kind].per; i++) {
            units[i] = (uint8_t) (kinds[kind].unit + n * kinds[kind].per + i);
        }
        return kinds[kind].per;
    }
}

const char * aie_reg_name(aie_reg reg, char text[16]) {
    enum aie_reg_kind kind = AIE_REG_KIND(reg);
    int n = AIE_REG_NUM(reg);
    if (kind >= AIE_REG_KIND_COUNT || n >= kinds[kind].count) {
        snprintf(text, 16, "?%04x", reg);
    } else if (kinds[kind].names) {
        const char * name = kinds[kind].names[n];
        snprintf(text, 16, "%s", name ? name : "?");
    } else if (kind == AIE_L) {
        snprintf(text, 16, "r%d:r%d", 2 * n + 17, 2 * n + 16);
    } else {
        snprintf(text, 16, "%s%d", kinds[kind].prefix[n % kinds[kind].div], n / kinds[kind].div);
    }
    return text;
}

aie_reg isa_reg_by_name(const char * name, size_t length) {
    static const enum aie_reg_kind named[] = {AIE_CR, AIE_SR, AIE_SPC};
    for (size_t k = 0; k < sizeof(named) / sizeof(named[0]); k++) {
        for (int n = 0; n < kinds[named[k]].count; n++) {
            const char * candidate = kinds[named[k]].names[n];
            if (candidate && !strncmp(candidate, name, length) && !candidate[length]) {
                return AIE_REG(named[k], n);
            }
        }
    }
    int n = length > 1 ? atoi(name + 1) : -1;
    return name[0] == 'r' && n >= 0 && n < 32 ? AIE_REG(AIE_R, n) : 0;
}

enum aie_bypass aie_bypass_of(uint8_t bypass, aie_reg reg) {
    if (bypass != AIE_BYPASS_MOV_LOW) {
        return (enum aie_bypass) bypass;
    }
    enum aie_reg_kind kind = AIE_REG_KIND(reg);
    bool low = kind == AIE_X || (kind == AIE_W && AIE_REG_NUM(reg) % 2 == 0);
    return low ? AIE_BYPASS_MOV : AIE_BYPASS_NONE;
}
