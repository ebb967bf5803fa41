// gfx11-vector: arithmetic of lanes. VOP1, VOP2 and VOPC are one word, VOP3 and VOP3P two, and VOPD
// is two instructions in two words; a literal or a word of DPP may follow.
//
// Kept true:
// - 16-bit operands: a register above 127 in one of the short encodings is the high half of the one
//   128 below; results leave the other half of their register as it is.
// - Sources that an operation does not have stay GFX_K_NONE, whatever their bits say.
#include "emu/gfx/gfx11.h"

enum { FORM_0, FORM_SHORT, FORM_LITERAL1, FORM_LITERAL2 };

static const struct gfx11_row vop2[64] = {
#define VOP2(opcode, op, form) [opcode] = {GFX_##op, FORM_##form},
#include "emu/gfx/gfx11-vector.def"
};
static const struct gfx11_row vop1[256] = {
#define VOP1(opcode, op, form) [opcode] = {GFX_##op, FORM_##form},
#include "emu/gfx/gfx11-vector.def"
};
static const uint16_t vopc[128] = {
#define VOPC(opcode, op) [opcode] = GFX_##op,
#include "emu/gfx/gfx11-vector.def"
};
static const uint16_t vop3[1024] = {
#define VOP3(opcode, op) [opcode] = GFX_##op,
#include "emu/gfx/gfx11-vector.def"
};
static const uint16_t vop3p[128] = {
#define VOP3P(opcode, op) [opcode] = GFX_##op,
#include "emu/gfx/gfx11-vector.def"
#define WMMA(name, gfx11, ab, d, m, n, k, blocks) [gfx11] = GFX_##name,
#include "emu/gfx/matrix.def"
};
static const uint16_t vopd[32] = {
#define VOPD(opcode, op) [opcode] = GFX_##op,
#include "emu/gfx/gfx11-vector.def"
};

// ---- operands ----

enum { ENC_DPP8 = 233, ENC_DPP8_FI = 234, ENC_DPP = 250 };

static bool is_dpp(unsigned encoding) {
    return encoding == ENC_DPP8 || encoding == ENC_DPP8_FI || encoding == ENC_DPP;
}

static bool is_half(enum gfx_type type) {
    return type == GFX_T_B16 || type == GFX_T_F16;
}

static bool is_float(enum gfx_type type) {
    return type == GFX_T_F16 || type == GFX_T_F32 || type == GFX_T_F64;
}

// Integers have no modifiers; some dot products use the bits of their own.
static bool takes_sign(const struct gfx_op_info * info, int k) {
    enum gfx_type type = info->src[k];
    return is_float(type) || type == GFX_T_P16 || (info->flags & GFX_O_HALVES && type != GFX_T_N);
}

static struct gfx_operand vcc(void) {
    return (struct gfx_operand){.kind = GFX_K_SGPR, .reg = GFX_SGPR_VCC};
}

// Lanes move by single words, so no 64-bit operand can take part.
static bool dpp_possible(const struct gfx_op_info * info) {
    bool wide = gfx_type_words(info->dst) > 1;
    for (int k = 0; k < 3; k++) {
        wide |= gfx_type_words(info->src[k]) > 1;
    }
    return !wide && info->src[0] != GFX_T_N && !(info->flags & GFX_O_ALIAS) &&
           (info->class == GFX_C_VALU || info->class == GFX_C_VCMP);
}

// The word of DPP that follows; modifiers: the encoding itself has no bits for signs.
static void read_dpp(struct gfx11_code * c, unsigned encoding, bool modifiers,
                     struct gfx_inst * in) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    uint32_t word = gfx11_next(c);
    c->bad |= !dpp_possible(info);
    in->src[0] = gfx11_vgpr(bits(word, 7, 0));
    if (encoding != ENC_DPP) {
        in->flags |= GFX_F_DPP8;
        in->dpp.lanes = bits(word, 31, 8);
        in->dpp.fetch_inactive = encoding == ENC_DPP8_FI;
        return;
    }
    in->flags |= GFX_F_DPP;
    in->dpp.control = (uint16_t) bits(word, 16, 8);
    in->dpp.fetch_inactive = (uint8_t) bits(word, 18, 18);
    in->dpp.bound_ctrl = (uint8_t) bits(word, 19, 19);
    in->dpp.bank_mask = (uint8_t) bits(word, 27, 24);
    in->dpp.row_mask = (uint8_t) bits(word, 31, 28);
    if (modifiers) {
        for (int k = 0; k < 2; k++) {
            in->src[k].neg = takes_sign(info, k) && word >> (20 + 2 * k) & 1;
            in->src[k].abs = takes_sign(info, k) && word >> (21 + 2 * k) & 1;
        }
    }
}

// Short encodings: registers above 127 are high halves.
static void split_halves(struct gfx_inst * in) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    for (int k = 0; k < 3; k++) {
        struct gfx_operand * o = &in->src[k];
        if (is_half(info->src[k]) && o->kind == GFX_K_VGPR && o->reg >= 128) {
            o->reg -= 128;
            in->op_sel |= (uint8_t) (1 << k);
        }
    }
    if (is_half(info->dst) && in->dst.reg >= 128) {
        in->dst.reg -= 128;
        in->flags |= GFX_F_HIGH;
    }
}

// What follows from the operation, however it was encoded.
static void imply(struct gfx_inst * in) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    if (is_half(info->dst)) {
        in->flags |= GFX_F_KEEP;
        if (info->flags & GFX_O_TIED && in->flags & GFX_F_HIGH) {
            in->op_sel |= 4;
        }
    }
}

// Instructions between lanes take vectors where lanes are read, and scalars elsewhere.
static void check_lanes(struct gfx11_code * c, const struct gfx_inst * in) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    if (info->class == GFX_C_VLANE) {
        bool vector = in->op != GFX_v_writelane_b32 && in->op != GFX_v_movreld_b32;
        c->bad |= (vector && in->src[0].kind != GFX_K_VGPR) ||
                  (in->op == GFX_v_writelane_b32 && in->src[0].kind == GFX_K_VGPR) ||
                  in->src[1].kind == GFX_K_VGPR || in->src[2].kind == GFX_K_VGPR;
    } else if (info->flags & GFX_O_ALIAS) {
        c->bad |= in->src[0].kind != GFX_K_VGPR;
    }
}

static bool to_scalar(unsigned op) {
    return op == GFX_v_readfirstlane_b32 || op == GFX_v_readlane_b32;
}

static void vector_dst(struct gfx_inst * in, unsigned reg) {
    if (to_scalar(in->op)) {
        in->dst = gfx11_scalar_dst(reg);
    } else if (gfx_op_info[in->op].dst != GFX_T_N) {
        in->dst = gfx11_vgpr(reg);
    }
}

static void compare_dst(struct gfx_inst * in, bool to_exec, unsigned encoding) {
    if (to_exec) {
        in->flags |= GFX_F_CMPX | GFX_F_CMPX_ONLY;
        encoding = GFX_SGPR_EXEC;
    }
    in->dst = gfx11_scalar_dst(encoding);
    in->sdst = to_exec ? GFX_SGPR_NULL : in->dst.reg;
}

// ---- one word ----

static void short_sources(struct gfx11_code * c, uint32_t word, enum gfx_type type, unsigned form,
                          struct gfx_inst * in) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    unsigned encoding = bits(word, 8, 0);
    struct gfx_operand second = gfx11_vgpr(bits(word, 16, 9));
    struct gfx_operand literal = {.kind = GFX_K_CONST};
    if (form >= FORM_LITERAL1) {
        literal.value = gfx_literal(gfx11_literal(c), type);
        in->src[1] = form == FORM_LITERAL1 ? literal : second;
        in->src[2] = form == FORM_LITERAL1 ? second : literal;
        c->bad |= is_dpp(encoding);
    } else if (info->src[1] != GFX_T_N) {
        in->src[1] = second;
    }
    if (info->src[2] == GFX_T_M) {
        in->src[2] = vcc();
    }
    if (is_dpp(encoding)) {
        read_dpp(c, encoding, true, in);
    } else if (info->src[0] != GFX_T_N) {
        in->src[0] = gfx11_source(c, encoding, type);
    }
}

static void decode_short(struct gfx11_code * c, uint32_t word, const struct gfx11_row * row,
                         struct gfx_inst * in) {
    in->op = row->op;
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    if (in->op == GFX_OP_INVALID) {
        return;
    }
    vector_dst(in, bits(word, 24, 17));
    c->bad |= to_scalar(in->op) && bits(word, 24, 24);
    if (info->flags & GFX_O_CARRY) {
        in->sdst = GFX_SGPR_VCC;
    }
    short_sources(c, word, info->src[0], row->form, in);
    split_halves(in);
}

static void decode_vopc(struct gfx11_code * c, uint32_t word, struct gfx_inst * in) {
    in->op = vopc[bits(word, 23, 17)];
    if (in->op != GFX_OP_INVALID) {
        compare_dst(in, bits(word, 24, 24), GFX_SGPR_VCC);
        short_sources(c, word, gfx_op_info[in->op].src[0], FORM_0, in);
        split_halves(in);
    }
}

// ---- two words ----

// What the first word of a VOP3 names; compares have bit 7 for their way into EXEC.
static unsigned long_op(unsigned opcode) {
    const struct gfx11_row * row = NULL;
    if (opcode < 256) {
        return vopc[opcode & 127];
    }
    if (opcode >= 256 && opcode < 256 + 64) {
        row = &vop2[opcode - 256];
    } else if (opcode >= 384 && opcode < 384 + 128) {
        row = &vop1[opcode - 384];
    }
    return row ? row->form == FORM_0 ? row->op : GFX_OP_INVALID : vop3[opcode];
}

static void long_sources(struct gfx11_code * c, uint32_t high, const uint8_t types[3],
                         struct gfx_inst * in) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    for (int k = 0; k < 3; k++) {
        unsigned encoding = high >> 9 * k & 511;
        if (info->src[k] == GFX_T_N || (k == 2 && info->flags & GFX_O_TIED)) {
            continue;
        }
        if (k == 0 && is_dpp(encoding)) {
            read_dpp(c, encoding, false, in);
        } else {
            in->src[k] = gfx11_source(c, encoding, types[k]);
        }
        in->src[k].neg = takes_sign(info, k) && high >> (29 + k) & 1;
    }
    // one word follows at the most
    c->bad |= c->has_literal && in->flags & (GFX_F_DPP | GFX_F_DPP8);
}

static void decode_vop3(struct gfx11_code * c, uint32_t word, struct gfx_inst * in) {
    unsigned opcode = bits(word, 25, 16);
    in->op = (uint16_t) long_op(opcode);
    if (in->op == GFX_OP_INVALID) {
        return;
    }
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    uint32_t high = gfx11_next(c);
    bool carry = info->flags & GFX_O_CARRY;
    long_sources(c, high, info->src, in);
    if (info->class == GFX_C_VCMP) {
        compare_dst(in, opcode & 128, bits(word, 7, 0));
        c->bad |= !(opcode & 128) && bits(word, 7, 7);
    } else {
        vector_dst(in, bits(word, 7, 0));
        c->bad |= to_scalar(in->op) && bits(word, 7, 7);
    }
    if (bits(word, 15, 15)) {
        in->flags |= GFX_F_CLAMP;
    }
    in->omod = is_float(info->dst) ? (uint8_t) bits(high, 28, 27) : 0;
    if (carry) { // the mask stands where others have abs and op_sel
        in->sdst = gfx11_sgpr(bits(word, 14, 8));
        return;
    }
    for (int k = 0; k < 3; k++) {
        bool absolute = word >> (8 + k) & 1, upper = word >> (11 + k) & 1;
        in->src[k].abs = takes_sign(info, k) && absolute;
        if (upper && (is_half(info->src[k]) || (info->class == GFX_C_VLANE && k < 2))) {
            in->op_sel |= (uint8_t) (1 << k);
        }
    }
    if (is_half(info->dst) && bits(word, 14, 14)) {
        in->flags |= GFX_F_HIGH;
    }
}

// Inline constants of packed integers are whole words, those of floats a low half.
static enum gfx_type packed_type(const struct gfx_inst * in, unsigned op_sel_hi, int k) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    enum gfx_type type = info->src[k];
    if (type == GFX_T_P16 && info->dst == GFX_T_B32) {
        return GFX_T_B32;
    }
    if (in->op >= GFX_v_fma_mix_f32 && in->op <= GFX_v_fma_mixhi_f16) {
        return op_sel_hi >> k & 1 ? GFX_T_F16 : GFX_T_F32;
    }
    return type;
}

// WMMA: A and B are vectors, C is one or a constant. Of the registers of C and D those are asked
// for here that a wave of 64 needs; the step sees to the others of a wave of 32.
static void decode_wmma(struct gfx11_code * c, uint32_t word, struct gfx_inst * in) {
    enum gfx_op op = (enum gfx_op) in->op;
    uint32_t high = gfx11_next(c);
    unsigned third = bits(high, 26, 18);
    int words[3] = {gfx_matrix_words_ab(op), gfx_matrix_words_ab(op), gfx_matrix_words_cd(op, 64)};
    in->dst = gfx11_vgpr(bits(word, 7, 0));
    in->src[0] = gfx11_vgpr(bits(high, 7, 0));
    in->src[1] = gfx11_vgpr(bits(high, 16, 9));
    c->bad |= !bits(high, 8, 8) || !bits(high, 17, 17);
    if (third >= 256) {
        in->src[2] = gfx11_vgpr(third - 256);
    } else {
        in->src[2].kind = GFX_K_CONST;
        c->bad |= !gfx_inline_constant(third, gfx_op_info[op].src[2], &in->src[2].value);
    }
    for (int k = 0; k < 3; k++) {
        c->bad |= in->src[k].reg + words[k] > GFX_VGPR_ACC;
        in->src[k].neg = high >> (29 + k) & 1;
    }
    c->bad |= in->dst.reg + words[2] > GFX_VGPR_ACC;
    in->op_sel = (uint8_t) bits(word, 13, 11);
    in->neg_hi = (uint8_t) bits(word, 10, 8);
    in->flags |= bits(word, 15, 15) ? GFX_F_CLAMP : 0;
}

static void decode_vop3p(struct gfx11_code * c, uint32_t word, struct gfx_inst * in) {
    in->op = bits(word, 23, 23) ? GFX_OP_INVALID : vop3p[bits(word, 22, 16)];
    if (in->op == GFX_OP_INVALID) {
        return;
    }
    if (gfx_op_info[in->op].class == GFX_C_MATRIX) {
        decode_wmma(c, word, in);
        return;
    }
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    uint32_t high = gfx11_next(c);
    unsigned op_sel = bits(word, 13, 11), neg_hi = bits(word, 10, 8);
    unsigned op_sel_hi = bits(high, 28, 27) | bits(word, 14, 14) << 2;
    uint8_t types[3];
    unsigned halves = 0;
    for (int k = 0; k < 3; k++) {
        types[k] = (uint8_t) packed_type(in, op_sel_hi, k);
        bool looks =
            info->src[k] == GFX_T_P16 || (info->flags & GFX_O_HALVES && info->src[k] != GFX_T_N);
        halves |= (unsigned) looks << k;
    }
    long_sources(c, high, types, in);
    in->dst = gfx11_vgpr(bits(word, 7, 0));
    in->op_sel = (uint8_t) (op_sel & halves);
    in->op_sel_hi = (uint8_t) (op_sel_hi | (~halves & 7));
    in->neg_hi = (uint8_t) (neg_hi & halves);
    if (bits(word, 15, 15)) {
        in->flags |= GFX_F_CLAMP;
    }
}

// ---- two instructions in one ----

static void decode_half(struct gfx11_code * c, uint32_t sources, unsigned dst, unsigned op,
                        struct gfx_inst * in) {
    in->op = (uint16_t) op;
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    unsigned form = op == GFX_v_fmamk_f32   ? FORM_LITERAL1
                    : op == GFX_v_fmaak_f32 ? FORM_LITERAL2
                                            : FORM_SHORT;
    in->dst = gfx11_vgpr(dst);
    c->bad |= is_dpp(bits(sources, 8, 0));
    short_sources(c, sources, info->src[0], form, in);
}

static bool decode_vopd(struct gfx11_code * c, uint32_t word, struct gfx_inst out[2]) {
    unsigned first = bits(word, 25, 22) < 16 ? vopd[bits(word, 25, 22)] : GFX_OP_INVALID;
    unsigned second = vopd[bits(word, 21, 17)];
    if (first == GFX_OP_INVALID || second == GFX_OP_INVALID) {
        return false;
    }
    uint32_t high = gfx11_next(c);
    unsigned dst = bits(high, 31, 24);
    decode_half(c, word, dst, first, &out[0]);
    // the second result goes to a register of the other parity, so one bit is not written down
    decode_half(c, high, bits(high, 23, 17) << 1 | (~dst & 1), second, &out[1]);
    out[0].flags |= GFX_F_PAIR;
    return true;
}

bool gfx11_vector(struct gfx11_code * c, uint32_t word, struct gfx_inst out[2]) {
    if (!bits(word, 31, 31)) {
        if (bits(word, 30, 25) == 0x3f) {
            decode_short(c, word, &vop1[bits(word, 16, 9)], out);
        } else if (bits(word, 30, 25) == 0x3e) {
            decode_vopc(c, word, out);
        } else {
            decode_short(c, word, &vop2[bits(word, 30, 25)], out);
        }
    } else if (bits(word, 31, 26) == 0x35) {
        decode_vop3(c, word, out);
    } else if (bits(word, 31, 24) == 0xcc) {
        decode_vop3p(c, word, out);
    } else if (bits(word, 31, 26) != 0x32 || !decode_vopd(c, word, out)) {
        return false;
    }
    if (out[0].op != GFX_OP_INVALID) {
        imply(out);
        check_lanes(c, out);
    }
    return true;
}
