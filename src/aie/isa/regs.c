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

static const char * const crp_names[AIE_CRP_COUNT] = {
    [AIE_CRP_F2B_MASK] = "crf2bmask",          [AIE_CRP_SRS_MODE] = "crsrsmode",
    [AIE_CRP_UPS_MODE] = "crupsmode",          [AIE_CRP_UNPACK_SIZE] = "crunpacksize",
    [AIE_CRP_PACK_SIZE] = "crpacksize",        [AIE_CRP_FP_NLF_MASK] = "crfpnlfmask",
    [AIE_CRP_FX2FL_MASK] = "crfpcnvfx2flmask", [AIE_CRP_FL2FX_MASK] = "crfpcnvfl2fxmask",
    [AIE_CRP_VADD_SIGN0] = "vaddsign0",        [AIE_CRP_VADD_SIGN1] = "vaddsign1",
    [AIE_CRP_UNPACK_SIGN0] = "unpacksign0",    [AIE_CRP_UNPACK_SIGN1] = "unpacksign1",
    [AIE_CRP_PACK_SIGN0] = "packsign0",        [AIE_CRP_PACK_SIGN1] = "packsign1",
    [AIE_CRP_UPS_SIGN0] = "upssign0",          [AIE_CRP_UPS_SIGN1] = "upssign1",
    [AIE_CRP_SRS_SIGN0] = "srssign0",          [AIE_CRP_SRS_SIGN1] = "srssign1",
};

static const char * const sr_names[AIE_SR_COUNT] = {
    [AIE_SR_CARRY] = "srcarry",         [AIE_SR_COMPR_UF] = "srcompr_uf",
    [AIE_SR_F2F_FLAGS] = "srf2fflags",  [AIE_SR_F2I_FLAGS] = "srf2iflags",
    [AIE_SR_FP_FLAGS] = "srfpflags",    [AIE_SR_MS0] = "srms0",
    [AIE_SR_SRS_OF] = "srsrs_of",       [AIE_SR_SS0] = "srss0",
    [AIE_SR_SPARSE_OF] = "srsparse_of", [AIE_SR_UPS_OF] = "srups_of",
    [AIE_SR_FIFO_OF] = "srfifo_of",     [AIE_SR_FIFO_UF] = "srfifo_uf",
    [AIE_SR_F2B_FLAGS] = "srf2bflags",  [AIE_SR_FP_NLF] = "srfpnlf",
    [AIE_SR_FX2FL] = "srfpcnvfx2fl",    [AIE_SR_FL2FX] = "srfpcnvfl2fx",
};

static const char * const spc_names[AIE_SPC_COUNT] = {
    [AIE_SPC_LS] = "ls", [AIE_SPC_LE] = "le", [AIE_SPC_LC] = "lc",          [AIE_SPC_LR] = "lr",
    [AIE_SPC_SP] = "sp", [AIE_SPC_DP] = "dp", [AIE_SPC_COREID] = "core_id",
};

static const char * const fifo_names[] = {"lfl0", "lfh0", "lfl1", "lfh1", "sfl", "sfh", "lfe"};
static const char * const lf_names[] = {"lf0", "lf1", "sf"};

// clang-format off

// A kind is named by a table, or by a prefix and n / div, where n % div picks the prefix. It covers
// per units from unit + n * per on; or it is made of the registers that composites[] names.
static const struct {
    const char * const * names;
    const char * prefix[4];
    uint8_t div, count, unit, per;
} kinds[AIE_REG_KIND_COUNT] = {
    [AIE_R]    = {NULL, {"r"}, 1, 32, AIE_UNIT_R, 1},
    [AIE_P]    = {NULL, {"p"}, 1, 8, AIE_UNIT_P, 1},
    [AIE_M]    = {NULL, {"m"}, 1, 8, AIE_UNIT_M, 1},
    [AIE_DN]   = {NULL, {"dn"}, 1, 8, AIE_UNIT_DN, 1},
    [AIE_DJ]   = {NULL, {"dj"}, 1, 8, AIE_UNIT_DJ, 1},
    [AIE_DC]   = {NULL, {"dc"}, 1, 8, AIE_UNIT_DC, 1},
    [AIE_S]    = {NULL, {"s"}, 1, 4, AIE_UNIT_S, 1},
    [AIE_CR]   = {cr_names, {NULL}, 1, AIE_CR_COUNT, AIE_UNIT_CR, 1},
    [AIE_SR]   = {sr_names, {NULL}, 1, AIE_SR_COUNT, AIE_UNIT_SR, 1},
    [AIE_SPC]  = {spc_names, {NULL}, 1, AIE_SPC_COUNT, AIE_UNIT_SPC, 1},
    [AIE_L]    = {NULL, {"l"}, 1, 16, 0, 0},
    [AIE_D]    = {NULL, {"d"}, 1, 8, 0, 0},
    [AIE_D3]   = {NULL, {"d"}, 1, 4, 0, 0},
    [AIE_W]    = {NULL, {"wl", "wh"}, 2, 24, AIE_UNIT_W, 1},
    [AIE_X]    = {NULL, {"x"}, 1, 12, AIE_UNIT_W, 2},
    [AIE_Y]    = {NULL, {"y"}, 1, 6, AIE_UNIT_W, 4},
    [AIE_Q]    = {NULL, {"q"}, 1, 4, AIE_UNIT_Q, 1},
    [AIE_QX]   = {NULL, {"qx"}, 1, 4, 0, 0},
    [AIE_QW]   = {NULL, {"qwl", "qwh"}, 2, 8, 0, 0},
    [AIE_AM]   = {NULL, {"amll", "amlh", "amhl", "amhh"}, 4, 36, AIE_UNIT_AM, 1},
    [AIE_BM]   = {NULL, {"bml", "bmh"}, 2, 18, AIE_UNIT_AM, 2},
    [AIE_CM]   = {NULL, {"cm"}, 1, 9, AIE_UNIT_AM, 4},
    [AIE_CRP]  = {crp_names, {NULL}, 1, AIE_CRP_COUNT, AIE_UNIT_CRP, 1},
    [AIE_E]    = {NULL, {"el", "eh"}, 2, 24, 0, 0},
    [AIE_EX]   = {NULL, {"ex"}, 1, 12, 0, 0},
    [AIE_EY]   = {NULL, {"ey"}, 1, 6, 0, 0},
    [AIE_QEX]  = {NULL, {"qex"}, 1, 4, 0, 0},
    [AIE_QY]   = {NULL, {"qy"}, 1, 2, 0, 0},
    [AIE_QEY]  = {NULL, {"qey"}, 1, 2, 0, 0},
    [AIE_FIFO] = {fifo_names, {NULL}, 1, 7, AIE_UNIT_FIFO, 1},
    [AIE_LF]   = {lf_names, {NULL}, 1, 3, AIE_UNIT_FIFO, 2},
    [AIE_BM4]  = {NULL, {"bmll", "bmlh", "bmhl", "bmhh"}, 4, 20, AIE_UNIT_BM4, 1},
    [AIE_CM2]  = {NULL, {"cml", "cmh"}, 2, 10, AIE_UNIT_BM4, 2},
    [AIE_DM]   = {NULL, {"dm"}, 1, 5, AIE_UNIT_BM4, 4},
};

// A part is count registers of that kind (AIE_NONE: units), the first being n * mul / div + add.
static const struct {
    struct {
        uint8_t kind, mul, div, add, count;
    } parts[4];
} composites[AIE_REG_KIND_COUNT] = {
    [AIE_D]   = {{{AIE_M, 1, 1, 0, 1}, {AIE_DN, 1, 1, 0, 1}, {AIE_DJ, 1, 1, 0, 1},
                  {AIE_DC, 1, 1, 0, 1}}},
    [AIE_D3]  = {{{AIE_D, 1, 1, 0, 1}, {AIE_D, 1, 1, 4, 1}}},
    [AIE_QX]  = {{{AIE_X, 1, 1, 0, 1}, {AIE_Q, 1, 1, 0, 1}}},
    [AIE_QW]  = {{{AIE_W, 1, 1, 0, 1}, {AIE_Q, 1, 2, 0, 1}}},
    [AIE_E]   = {{{AIE_NONE, 1, 2, AIE_UNIT_E, 1}}},
    [AIE_EX]  = {{{AIE_X, 1, 1, 0, 1}, {AIE_E, 2, 1, 0, 1}}}, // el and eh share a unit
    [AIE_EY]  = {{{AIE_EX, 2, 1, 0, 2}}},
    [AIE_QEX] = {{{AIE_EX, 1, 1, 0, 1}, {AIE_Q, 1, 1, 0, 1}}},
    [AIE_QY]  = {{{AIE_QX, 2, 1, 0, 2}}},
    [AIE_QEY] = {{{AIE_QEX, 2, 1, 0, 2}}},
};

// clang-format on

// First scalar register of an l: l0 is r17:r16, l8 is r1:r0.
static int pair_base(int n) {
    return (2 * n + 16) % 32;
}

int aie_reg_units(aie_reg reg, uint8_t units[8]) {
    enum aie_reg_kind kind = AIE_REG_KIND(reg);
    int n = AIE_REG_NUM(reg), total = 0;
    if (kind >= AIE_REG_KIND_COUNT || n >= kinds[kind].count) {
        return 0;
    }
    if (kind == AIE_L) {
        units[0] = (uint8_t) (AIE_UNIT_R + pair_base(n));
        units[1] = (uint8_t) (units[0] + 1);
        return 2;
    }
    for (int i = 0; i < kinds[kind].per; i++) {
        units[total++] = (uint8_t) (kinds[kind].unit + n * kinds[kind].per + i);
    }
    for (int p = 0; p < 4 && composites[kind].parts[p].count; p++) {
        int first = n * composites[kind].parts[p].mul / composites[kind].parts[p].div +
                    composites[kind].parts[p].add;
        for (int i = 0; i < composites[kind].parts[p].count; i++) {
            if (composites[kind].parts[p].kind == AIE_NONE) {
                units[total++] = (uint8_t) (first + i);
            } else {
                total += aie_reg_units(AIE_REG(composites[kind].parts[p].kind, first + i),
                                       units + total);
            }
        }
    }
    return total;
}

const char * aie_reg_name(aie_reg reg, char * text) {
    enum aie_reg_kind kind = AIE_REG_KIND(reg);
    int n = AIE_REG_NUM(reg);
    if (kind >= AIE_REG_KIND_COUNT || n >= kinds[kind].count) {
        snprintf(text, AIE_REG_NAME_SIZE, "?%04x", reg);
    } else if (kinds[kind].names) {
        const char * name = kinds[kind].names[n];
        snprintf(text, AIE_REG_NAME_SIZE, "%s", name ? name : "?");
    } else if (kind == AIE_L) {
        snprintf(text, AIE_REG_NAME_SIZE, "r%d:r%d", pair_base(n) + 1, pair_base(n));
    } else {
        snprintf(text, AIE_REG_NAME_SIZE, "%s%d", kinds[kind].prefix[n % kinds[kind].div],
                 n / kinds[kind].div);
    }
    return text;
}

// Implicit registers only: tables first, then r, p, s and pairs by their number.
aie_reg isa_reg_by_name(const char * name, size_t length) {
    static const enum aie_reg_kind named[] = {AIE_CR, AIE_SR, AIE_SPC, AIE_CRP, AIE_LF, AIE_FIFO};
    for (size_t k = 0; k < sizeof(named) / sizeof(named[0]); k++) {
        for (int n = 0; n < kinds[named[k]].count; n++) {
            const char * candidate = kinds[named[k]].names[n];
            if (candidate && *candidate == *name && !strncmp(candidate, name, length) &&
                !candidate[length]) {
                return AIE_REG(named[k], n);
            }
        }
    }
    static const enum aie_reg_kind numbered[] = {AIE_R, AIE_P, AIE_S};
    int n = length > 1 ? atoi(name + 1) : -1;
    if (length > 3 && memchr(name, ':', length)) { // r17:r16
        return n > 0 && n < 32 ? AIE_REG(AIE_L, (n / 2 + 8) % 16) : 0;
    }
    for (size_t k = 0; k < sizeof(numbered) / sizeof(numbered[0]); k++) {
        if (kinds[numbered[k]].prefix[0][0] == name[0] && n >= 0 && n < kinds[numbered[k]].count) {
            return AIE_REG(numbered[k], n);
        }
    }
    return 0;
}

enum aie_bypass aie_bypass_of(uint8_t bypass, aie_reg reg) {
    if (bypass != AIE_BYPASS_MOV_LOW) {
        return (enum aie_bypass) bypass;
    }
    enum aie_reg_kind kind = AIE_REG_KIND(reg);
    bool low = kind == AIE_X || (kind == AIE_W && AIE_REG_NUM(reg) % 2 == 0);
    return low ? AIE_BYPASS_MOV : AIE_BYPASS_NONE;
}
