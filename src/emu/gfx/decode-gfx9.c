// decode-gfx9: instructions of gfx90a and gfx942 from their bytes. The opcode tables are in
// gfx9-ops.h; here is how the encodings lay out their fields.
//
// Kept true: every register number that leaves this file is inside the register files; an encoding
// with reserved values in operand fields is no instruction.
#include "emu/gfx/gfx9-ops.h"

#include <string.h>

struct reader {
    enum gfx_arch arch;
    const uint32_t * words;
    int count;
    int used;
    bool short_of; // a literal lies beyond the words that are there
};

static uint16_t pick(const struct reader * r, uint16_t row) {
    if ((row & GFX9_ONLY_90A && r->arch != GFX_90A) ||
        (row & GFX9_ONLY_942 && r->arch != GFX_942)) {
        return GFX_OP_INVALID;
    }
    return row & GFX9_OP;
}

// ---- operands ----

static const struct {
    uint8_t encoding, special;
} specials[] = {
    {235, GFX_S_SHARED_BASE},   {236, GFX_S_SHARED_LIMIT}, {237, GFX_S_PRIVATE_BASE},
    {238, GFX_S_PRIVATE_LIMIT}, {251, GFX_S_VCCZ},         {252, GFX_S_EXECZ},
    {253, GFX_S_SCC},
};

static bool scalar_register(unsigned encoding) {
    return encoding <= 124 || encoding == 126 || encoding == 127;
}

static bool source(struct reader * r, unsigned encoding, enum gfx_type type,
                   struct gfx_operand * o) {
    o->neg = o->abs = 0;
    if (encoding >= 256) {
        o->kind = GFX_K_VGPR;
        o->reg = (uint16_t) (encoding - 256);
        return true;
    }
    if (scalar_register(encoding)) {
        o->kind = GFX_K_SGPR;
        o->reg = (uint16_t) encoding;
        return true;
    }
    if (gfx_inline_constant(encoding, type, &o->value)) {
        o->kind = GFX_K_CONST;
        return true;
    }
    if (encoding == 255) {
        if (r->used >= r->count) {
            r->short_of = true;
            return false;
        }
        o->kind = GFX_K_CONST;
        o->value = gfx_literal(r->words[r->used], type);
        return true; // the caller counts the word: both sources share it
    }
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        if (specials[i].encoding == encoding) {
            o->kind = GFX_K_SPECIAL;
            o->reg = specials[i].special;
            return true;
        }
    }
    return false;
}

static void vgpr(struct gfx_operand * o, unsigned reg) {
    o->kind = GFX_K_VGPR;
    o->reg = (uint16_t) reg;
}

static bool sgpr(struct gfx_operand * o, unsigned reg) {
    o->kind = GFX_K_SGPR;
    o->reg = (uint16_t) reg;
    return scalar_register(reg);
}

static void constant(struct gfx_operand * o, uint64_t v) {
    o->kind = GFX_K_CONST;
    o->value = v;
}

static int end(const struct reader * r, bool good) {
    return good ? r->used : r->short_of ? -1 : 0;
}

// ---- scalar ----

static int sop2(struct reader * r, struct gfx_inst * in) {
    uint32_t w = r->words[0];
    in->op = pick(r, gfx9_sop2[bits(w, 29, 23)]);
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    unsigned a = bits(w, 7, 0), b = bits(w, 15, 8);
    bool good = in->op && source(r, a, info->src[0], &in->src[0]) &&
                source(r, b, info->src[1], &in->src[1]) && sgpr(&in->dst, bits(w, 22, 16));
    r->used += good && (a == 255 || b == 255);
    return end(r, good);
}

static int sop1(struct reader * r, struct gfx_inst * in) {
    uint32_t w = r->words[0];
    in->op = pick(r, gfx9_sop1[bits(w, 15, 8)]);
    unsigned a = bits(w, 7, 0);
    enum gfx_type type = gfx_op_info[in->op].src[0];
    bool good = in->op && sgpr(&in->dst, bits(w, 22, 16));
    if (good && type != GFX_T_N) {
        good = source(r, a, type, &in->src[0]);
        r->used += good && a == 255;
    }
    return end(r, good);
}

static int sopc(struct reader * r, struct gfx_inst * in) {
    uint32_t w = r->words[0];
    in->op = pick(r, gfx9_sopc[bits(w, 22, 16)]);
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    unsigned a = bits(w, 7, 0), b = bits(w, 15, 8);
    bool good = in->op && source(r, a, info->src[0], &in->src[0]);
    if (in->op == GFX_s_set_gpr_idx_on) {
        in->imm = (int32_t) b;
        return end(r, good);
    }
    good = good && source(r, b, info->src[1], &in->src[1]);
    r->used += good && (a == 255 || b == 255);
    return end(r, good);
}

static int sopk(struct reader * r, struct gfx_inst * in) {
    uint32_t w = r->words[0];
    in->op = pick(r, gfx9_sopk[bits(w, 27, 23)]);
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    in->imm = (int16_t) w;
    bool good = in->op && sgpr(&in->dst, bits(w, 22, 16));
    if (in->op == GFX_s_setreg_imm32_b32) {
        good = good && source(r, 255, GFX_T_B32, &in->src[0]);
        r->used += good;
    } else if (info->class == GFX_C_SALU) {
        in->src[0] = in->dst;
        bool is_unsigned = in->op >= GFX_s_cmpk_eq_u32 && in->op <= GFX_s_cmpk_le_u32;
        constant(&in->src[1], is_unsigned ? (uint16_t) w : (uint32_t) in->imm);
    } else {
        in->src[0] = in->dst; // s_setreg_b32
    }
    return end(r, good);
}

static int sopp(struct reader * r, struct gfx_inst * in) {
    uint32_t w = r->words[0];
    in->op = pick(r, gfx9_sopp[bits(w, 22, 16)]);
    in->imm = (int16_t) w;
    return end(r, in->op);
}

static int smem(struct reader * r, struct gfx_inst * in) {
    uint32_t w = r->words[0], x = r->words[1];
    in->op = pick(r, gfx9_smem[bits(w, 25, 18)]);
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    bool good = in->op;
    if (info->kind == GFX_M_FENCE) {
        return end(r, good);
    }
    good = good && sgpr(&in->dst, bits(w, 12, 6)) && sgpr(&in->src[0], bits(w, 5, 0) * 2);
    bool imm = w >> 17 & 1, soffset = w >> 14 & 1;
    if (imm) {
        in->imm = (int32_t) (x << 11) >> 11;
    }
    if (soffset) {
        good = good && sgpr(&in->src[1], bits(x, 31, 25));
    } else if (!imm) {
        good = good && sgpr(&in->src[1], bits(x, 6, 0));
    }
    return end(r, good);
}

// ---- lanes ----

// What every lane instruction needs to know of its operation: VCC where the encoding implies it.
static void implied(struct gfx_inst * in) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    in->sdst = GFX_SGPR_NULL;
    in->op_sel_hi = 7;
    if (info->flags & GFX_O_CARRY || info->class == GFX_C_VCMP) {
        in->sdst = GFX_SGPR_VCC;
    }
    if (info->src[2] == GFX_T_M) {
        in->src[2].kind = GFX_K_SGPR;
        in->src[2].reg = GFX_SGPR_VCC;
    }
}

// The second word of SDWA and DPP forms; the first source's register is in it.
static bool sdwa(struct reader * r, struct gfx_inst * in, bool compare) {
    uint32_t x = r->words[1];
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    in->flags |= GFX_F_SDWA;
    if (!source(r, bits(x, 7, 0) + (x >> 23 & 1 ? 0 : 256), info->src[0], &in->src[0])) {
        return false;
    }
    if (x >> 31 & 1) { // the second one is scalar
        if (!source(r, in->src[1].reg, info->src[1], &in->src[1])) {
            return false;
        }
    }
    if (compare) {
        if (x >> 15 & 1) {
            in->sdst = (uint16_t) bits(x, 14, 8);
        }
        in->sdwa.dst_sel = GFX_SEL_DWORD;
    } else {
        in->sdwa.dst_sel = (uint8_t) bits(x, 10, 8);
        in->sdwa.dst_unused = (uint8_t) bits(x, 12, 11);
        in->flags |= x >> 13 & 1 ? GFX_F_CLAMP : 0;
        in->omod = (uint8_t) bits(x, 15, 14);
    }
    in->sdwa.src_sel[0] = (uint8_t) bits(x, 18, 16);
    in->sdwa.sext[0] = x >> 19 & 1;
    in->src[0].neg = x >> 20 & 1;
    in->src[0].abs = x >> 21 & 1;
    in->sdwa.src_sel[1] = (uint8_t) bits(x, 26, 24);
    in->sdwa.sext[1] = x >> 27 & 1;
    in->src[1].neg = x >> 28 & 1;
    in->src[1].abs = x >> 29 & 1;
    return in->sdwa.src_sel[0] < 7 && in->sdwa.src_sel[1] < 7 && in->sdwa.dst_sel < 7 &&
           in->sdwa.dst_unused < 3 && scalar_register(in->sdst == GFX_SGPR_NULL ? 0 : in->sdst);
}

static bool dpp(struct reader * r, struct gfx_inst * in) {
    uint32_t x = r->words[1];
    in->flags |= GFX_F_DPP;
    vgpr(&in->src[0], bits(x, 7, 0));
    in->dpp.control = (uint16_t) bits(x, 16, 8);
    in->dpp.bound_ctrl = x >> 19 & 1;
    in->src[0].neg = x >> 20 & 1;
    in->src[0].abs = x >> 21 & 1;
    in->src[1].neg = x >> 22 & 1;
    in->src[1].abs = x >> 23 & 1;
    in->dpp.bank_mask = (uint8_t) bits(x, 27, 24);
    in->dpp.row_mask = (uint8_t) bits(x, 31, 28);
    return true;
}

// The first source of VOP1, VOP2 and VOPC, which may announce one of the forms above.
static bool first_source(struct reader * r, struct gfx_inst * in, unsigned encoding, bool compare) {
    if (encoding == 249 || encoding == 250) {
        if (r->count < 2) {
            r->short_of = true;
            return false;
        }
        r->used = 2;
        return encoding == 249 ? sdwa(r, in, compare) : dpp(r, in);
    }
    bool good = source(r, encoding, gfx_op_info[in->op].src[0], &in->src[0]);
    r->used += good && encoding == 255;
    return good;
}

static bool literal_operand(struct reader * r, struct gfx_operand * o, enum gfx_type type) {
    bool good = source(r, 255, type, o);
    r->used += good;
    return good;
}

static int vop2(struct reader * r, struct gfx_inst * in) {
    uint32_t w = r->words[0];
    unsigned op = bits(w, 30, 25);
    in->op = pick(r, gfx9_vop2[op]);
    if (r->arch == GFX_942 && gfx942_vop2[op]) {
        in->op = gfx942_vop2[op];
    }
    implied(in);
    vgpr(&in->dst, bits(w, 24, 17));
    vgpr(&in->src[1], bits(w, 16, 9));
    bool good = in->op && first_source(r, in, bits(w, 8, 0), false);
    enum gfx_type type = gfx_op_info[in->op].src[2];
    if (op == 23 || op == 36) { // a * K + b
        in->src[2] = in->src[1];
        good = good && literal_operand(r, &in->src[1], type);
    } else if (op == 24 || op == 37) { // a * b + K
        good = good && literal_operand(r, &in->src[2], type);
    }
    return end(r, good);
}

static void vop1_registers(struct gfx_inst * in, bool acc) {
    if (in->op == GFX_v_readfirstlane_b32) {
        in->dst.kind = GFX_K_SGPR;
    }
    if (acc) { // v_accvgpr_mov_b32
        in->dst.reg += GFX_VGPR_ACC;
        in->src[0].reg += in->src[0].kind == GFX_K_VGPR ? GFX_VGPR_ACC : 0;
    }
}

static int vop1(struct reader * r, struct gfx_inst * in) {
    uint32_t w = r->words[0];
    unsigned op = bits(w, 16, 9);
    in->op = pick(r, gfx9_vop1[op]);
    implied(in);
    vgpr(&in->dst, bits(w, 24, 17));
    bool good = in->op;
    if (good && in->op != GFX_v_nop) {
        good = first_source(r, in, bits(w, 8, 0), false);
    }
    vop1_registers(in, op == 82);
    if (in->op == GFX_v_readfirstlane_b32) {
        good = good && scalar_register(in->dst.reg);
    }
    return end(r, good);
}

// Compares lie in blocks: six of classes, then 16 for each float type and 8 for each integer one.
static uint16_t compare_op(unsigned op, uint32_t * flags) {
    static const uint16_t classes[] = {GFX_v_cmp_class_f32, GFX_v_cmp_class_f64,
                                       GFX_v_cmp_class_f16};
    if (op >= 16 && op <= 21) {
        *flags |= op & 1 ? GFX_F_CMPX : 0;
        return classes[(op - 16) / 2];
    }
    *flags |= op & 16 ? GFX_F_CMPX : 0;
    if (op >= 32 && op <= 127) {
        return (uint16_t) (GFX_v_cmp_f_f16 + (op - 32) / 32 * 16 + (op & 15));
    }
    if (op >= 160) {
        return (uint16_t) (GFX_v_cmp_f_i16 + (op - 160) / 32 * 16 + (op & 15));
    }
    return GFX_OP_INVALID;
}

static int vopc(struct reader * r, struct gfx_inst * in) {
    uint32_t w = r->words[0];
    in->op = compare_op(bits(w, 24, 17), &in->flags);
    implied(in);
    vgpr(&in->src[1], bits(w, 16, 9));
    return end(r, in->op && first_source(r, in, bits(w, 8, 0), true));
}

static bool three_sources(struct reader * r, struct gfx_inst * in, uint32_t x) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    for (int k = 0; k < 3; k++) {
        unsigned encoding = bits(x, 9 * (unsigned) k + 8, 9 * (unsigned) k);
        bool tied = k == 2 && info->flags & GFX_O_TIED;
        if (info->src[k] == GFX_T_N || tied) {
            continue;
        }
        if (encoding == 255 || !source(r, encoding, info->src[k], &in->src[k])) {
            return false;
        }
        in->src[k].neg = x >> (29 + k) & 1;
    }
    return true;
}

// VOP3 holds everything: compares, then VOP2 and VOP1 by their own opcodes, then its own.
enum { VOP3_VOP2 = 256, VOP3_VOP1 = 320, VOP3_OWN = 448, VOP3_OWN_HALVES = 496 };

static uint16_t vop3_op(const struct reader * r, unsigned op, uint32_t * flags) {
    if (op < VOP3_VOP2) {
        return compare_op(op, flags);
    }
    if (op < VOP3_VOP1) { // the forms with a constant in the code have no place here
        bool with_literal = op == 256 + 23 || op == 256 + 24 || op == 256 + 36 || op == 256 + 37;
        return with_literal ? GFX_OP_INVALID : pick(r, gfx9_vop2[op - VOP3_VOP2]);
    }
    return pick(r, op < VOP3_OWN ? gfx9_vop1[op - VOP3_VOP1] : gfx9_vop3[op]);
}

static int vop3(struct reader * r, struct gfx_inst * in) {
    uint32_t w = r->words[0], x = r->words[1];
    unsigned op = bits(w, 25, 16);
    in->op = vop3_op(r, op, &in->flags);
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    implied(in);
    vgpr(&in->dst, bits(w, 7, 0));
    bool good = in->op && three_sources(r, in, x);
    in->flags |= w >> 15 & 1 ? GFX_F_CLAMP : 0;
    in->omod = (uint8_t) bits(x, 28, 27);
    bool half_result = info->dst == GFX_T_F16 || info->dst == GFX_T_B16;
    if (info->class == GFX_C_VCMP) {
        in->sdst = (uint16_t) bits(w, 7, 0);
        good = good && scalar_register(in->sdst);
    }
    if (info->flags & GFX_O_CARRY) {
        in->sdst = (uint16_t) bits(w, 14, 8);
        good = good && scalar_register(in->sdst);
    } else {
        for (int k = 0; k < 3; k++) {
            in->src[k].abs = w >> (8 + k) & 1;
        }
        in->op_sel = (uint8_t) bits(w, 13, 11);
        in->flags |= w >> 14 & 1 ? GFX_F_HIGH : 0;
        in->flags |= half_result && op >= VOP3_OWN_HALVES ? GFX_F_KEEP : 0;
    }
    if (in->op == GFX_v_readlane_b32 || in->op == GFX_v_readfirstlane_b32) {
        in->dst.kind = GFX_K_SGPR;
        good = good && scalar_register(in->dst.reg);
    }
    return end(r, good);
}

static const struct {
    uint16_t op;
    uint8_t opcode[2]; // gfx90a, gfx942; 0: not there
} mfmas[] = {
#define MFMA(name, gfx90a, gfx942, ab, d, m, n, k, blocks) {GFX_##name, {gfx90a, gfx942}},
#include "emu/gfx/matrix.def"
};

static uint16_t mfma_op(const struct reader * r, unsigned opcode) {
    for (size_t i = 0; opcode && i < sizeof mfmas / sizeof *mfmas; i++) {
        if (mfmas[i].opcode[r->arch == GFX_942] == opcode) {
            return mfmas[i].op;
        }
    }
    return GFX_OP_INVALID;
}

static bool vector_fits(const struct gfx_operand * o, int words) {
    return (o->reg & (GFX_VGPR_ACC - 1)) + words <= GFX_VGPR_ACC;
}

// MFMA: A and B are vectors, C is one or a constant; each may lie in accumulation registers.
static int mfma(struct reader * r, struct gfx_inst * in) {
    uint32_t w = r->words[0], x = r->words[1];
    enum gfx_op op = (enum gfx_op) in->op;
    int ab = gfx_matrix_words_ab(op), cd = gfx_matrix_words_cd(op, 64);
    unsigned acc_cd = w >> 15 & 1 ? GFX_VGPR_ACC : 0, c = bits(x, 26, 18);
    vgpr(&in->dst, bits(w, 7, 0) + acc_cd);
    vgpr(&in->src[0], bits(x, 7, 0) + (x >> 27 & 1 ? GFX_VGPR_ACC : 0));
    vgpr(&in->src[1], bits(x, 16, 9) + (x >> 28 & 1 ? GFX_VGPR_ACC : 0));
    bool good = x >> 8 & 1 && x >> 17 & 1 && vector_fits(&in->dst, cd) &&
                vector_fits(&in->src[0], ab) && vector_fits(&in->src[1], ab);
    if (c >= 256) {
        vgpr(&in->src[2], c - 256 + acc_cd);
        good = good && vector_fits(&in->src[2], cd);
    } else {
        in->src[2].kind = GFX_K_CONST;
        good = good && gfx_inline_constant(c, gfx_op_info[op].src[2], &in->src[2].value);
    }
    in->imm = (int32_t) (bits(w, 10, 8) | bits(w, 14, 11) << 4);
    in->imm2 = (int32_t) bits(x, 31, 29);
    return end(r, good);
}

static int vop3p(struct reader * r, struct gfx_inst * in) {
    uint32_t w = r->words[0], x = r->words[1];
    in->op = pick(r, gfx9_vop3p[bits(w, 22, 16)]);
    if (!in->op) {
        in->op = mfma_op(r, bits(w, 22, 16));
        return in->op ? mfma(r, in) : 0;
    }
    implied(in);
    vgpr(&in->dst, bits(w, 7, 0));
    bool good = in->op && three_sources(r, in, x);
    if (in->op == GFX_v_accvgpr_read_b32) {
        in->src[0].reg += in->src[0].kind == GFX_K_VGPR ? GFX_VGPR_ACC : 0;
        in->src[0].neg = 0;
        return end(r, good);
    }
    if (in->op == GFX_v_accvgpr_write_b32) {
        in->dst.reg += GFX_VGPR_ACC;
        in->src[0].neg = 0;
        return end(r, good);
    }
    in->flags |= w >> 15 & 1 ? GFX_F_CLAMP : 0;
    in->neg_hi = (uint8_t) bits(w, 10, 8);
    in->op_sel = (uint8_t) bits(w, 13, 11);
    in->op_sel_hi = (uint8_t) (bits(x, 28, 27) | bits(w, 14, 14) << 2);
    return end(r, good);
}

// ---- memory ----

static int ds(struct reader * r, struct gfx_inst * in) {
    uint32_t w = r->words[0], x = r->words[1];
    unsigned op = bits(w, 24, 17), acc = w >> 25 & 1 ? GFX_VGPR_ACC : 0;
    in->op = pick(r, gfx9_ds[op]);
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    in->segment = GFX_LDS;
    vgpr(&in->src[0], bits(x, 7, 0));
    vgpr(&in->src[1], bits(x, 15, 8) + acc);
    vgpr(&in->src[2], bits(x, 23, 16) + acc);
    vgpr(&in->dst, bits(x, 31, 24) + acc);
    in->imm = (int32_t) bits(w, 15, 0);
    bool swaps = in->op == GFX_atomic_cmpswap_b32 || in->op == GFX_atomic_cmpswap_b64 ||
                 in->op == GFX_atomic_cmpswap_f32 || in->op == GFX_atomic_cmpswap_f64;
    if (swaps) { // here the compared value comes first
        struct gfx_operand first = in->src[1];
        in->src[1] = in->src[2];
        in->src[2] = first;
    }
    bool two = in->op >= GFX_ds_load_2addr_b32 && in->op <= GFX_ds_storexchg_2addr_rtn_b64;
    if (two) {
        bool far = op == 15 || op == 47 || op == 56 || op == 79 || op == 111 || op == 120;
        int32_t unit = info->bytes * (far ? 64 : 1);
        in->imm = (int32_t) bits(w, 7, 0) * unit;
        in->imm2 = (int32_t) bits(w, 15, 8) * unit;
    }
    bool returns = (op >= 32 && op < 64) || (op >= 96 && op < 128) || op >= 160;
    in->flags |= returns && info->kind == GFX_M_ATOMIC ? GFX_F_RETURN : 0;
    return end(r, in->op && !(w >> 16 & 1)); // no GDS
}

static int flat(struct reader * r, struct gfx_inst * in) {
    static const uint8_t segments[] = {GFX_FLAT, GFX_SCRATCH, GFX_GLOBAL, 255};
    uint32_t w = r->words[0], x = r->words[1];
    unsigned acc = x >> 23 & 1 ? GFX_VGPR_ACC : 0, saddr = bits(x, 22, 16);
    in->op = pick(r, gfx9_flat[bits(w, 24, 18)]);
    in->segment = segments[bits(w, 15, 14)];
    bool lds = w >> 13 & 1, good = in->op && in->segment != 255;
    in->imm = in->segment == GFX_FLAT ? (int32_t) bits(w, 11, 0) : (int32_t) (w << 19) >> 19;
    vgpr(&in->src[0], bits(x, 7, 0));
    vgpr(&in->src[1], bits(x, 15, 8) + acc);
    vgpr(&in->dst, bits(x, 31, 24) + acc);
    if (in->segment != GFX_FLAT && saddr != 127) {
        good = good && sgpr(&in->src[2], saddr);
    }
    if (in->segment == GFX_SCRATCH) {
        // gfx942 says with a bit of its own whether there is a vector address
        bool vector = r->arch == GFX_942 ? lds : saddr == 127;
        if (!vector) {
            in->src[0].kind = GFX_K_NONE;
        }
        good = good && gfx_op_info[in->op].kind != GFX_M_ATOMIC;
    } else if (lds) {
        in->flags |= GFX_F_LDS_DMA;
    }
    bool atomic = gfx_op_info[in->op].kind == GFX_M_ATOMIC;
    in->flags |= atomic && w >> 16 & 1 ? GFX_F_RETURN : 0;
    return end(r, good);
}

static int mubuf(struct reader * r, struct gfx_inst * in) {
    uint32_t w = r->words[0], x = r->words[1];
    unsigned acc = x >> 23 & 1 ? GFX_VGPR_ACC : 0;
    in->op = pick(r, gfx9_mubuf[bits(w, 24, 18)]);
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    in->segment = GFX_BUFFER;
    in->imm = (int32_t) bits(w, 11, 0);
    in->flags |= w >> 12 & 1 ? GFX_F_OFFEN : 0;
    in->flags |= w >> 13 & 1 ? GFX_F_IDXEN : 0;
    in->flags |= w >> 16 & 1 ? GFX_F_LDS_DMA : 0;
    in->flags |= w >> 14 & 1 && info->kind == GFX_M_ATOMIC ? GFX_F_RETURN : 0;
    if (in->op && info->kind == GFX_M_FENCE) {
        in->flags = 0;
        return end(r, true);
    }
    vgpr(&in->src[0], bits(x, 7, 0));
    vgpr(&in->src[1], bits(x, 15, 8) + acc);
    vgpr(&in->dst, bits(x, 15, 8) + acc);
    bool good = in->op && sgpr(&in->src[2], bits(x, 20, 16) * 4) && in->src[2].reg <= 120 &&
                bits(x, 31, 24) != 255 && source(r, bits(x, 31, 24), GFX_T_B32, &in->src[3]);
    return end(r, good);
}

// ---- encodings ----

static const struct encoding {
    uint32_t mask, match;
    int words;
    int (*decode)(struct reader * r, struct gfx_inst * in);
} encodings[] = {
    // the first that matches
    {0xff800000, 0xbf800000, 1, sopp},  {0xff800000, 0xbf000000, 1, sopc},
    {0xff800000, 0xbe800000, 1, sop1},  {0xf0000000, 0xb0000000, 1, sopk},
    {0xc0000000, 0x80000000, 1, sop2},  {0xfe000000, 0x7e000000, 1, vop1},
    {0xfe000000, 0x7c000000, 1, vopc},  {0x80000000, 0x00000000, 1, vop2},
    {0xff800000, 0xd3800000, 2, vop3p}, {0xfc000000, 0xd0000000, 2, vop3},
    {0xfc000000, 0xc0000000, 2, smem},  {0xfc000000, 0xd8000000, 2, ds},
    {0xfc000000, 0xdc000000, 2, flat},  {0xfc000000, 0xe0000000, 2, mubuf},
};

int gfx9_decode(enum gfx_arch arch, const uint32_t * words, int count, struct gfx_inst out[2]) {
    struct gfx_inst * in = &out[0];
    memset(in, 0, sizeof *in);
    in->sdst = GFX_SGPR_NULL;
    in->op_sel_hi = 7;
    for (size_t i = 0; count > 0 && i < sizeof encodings / sizeof *encodings; i++) {
        const struct encoding * e = &encodings[i];
        if ((words[0] & e->mask) == e->match) {
            if (count < e->words) {
                return -1;
            }
            struct reader r = {arch, words, count, e->words, false};
            return e->decode(&r, in);
        }
    }
    return count > 0 ? 0 : -1;
}
