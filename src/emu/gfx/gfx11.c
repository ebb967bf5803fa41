// gfx11: words of RDNA3 and RDNA 3.5 become instructions. This file reads scalar instructions and
// memory, and finds out which encoding a word belongs to; gfx11-vector.c reads the rest.
//
// Kept true: opcodes are rows of gfx11.def, and what an operation's operands are follows from its
// row in ops.def, so that no instruction is mentioned by name here but for those that break the
// rule.
#include "emu/gfx/gfx11.h"

#include <string.h>

enum { DS_0, DS_RETURN, DS_STRIDE64 };

static const uint16_t sop2[128] = {
#define SOP2(opcode, op) [opcode] = GFX_##op,
#include "emu/gfx/gfx11.def"
};
static const uint16_t sop1[256] = {
#define SOP1(opcode, op) [opcode] = GFX_##op,
#include "emu/gfx/gfx11.def"
};
static const uint16_t sopc[128] = {
#define SOPC(opcode, op) [opcode] = GFX_##op,
#include "emu/gfx/gfx11.def"
};
static const uint16_t sopk[32] = {
#define SOPK(opcode, op) [opcode] = GFX_##op,
#include "emu/gfx/gfx11.def"
};
static const uint16_t sopp[128] = {
#define SOPP(opcode, op) [opcode] = GFX_##op,
#include "emu/gfx/gfx11.def"
};
static const uint16_t smem[256] = {
#define SMEM(opcode, op) [opcode] = GFX_##op,
#include "emu/gfx/gfx11.def"
};
static const struct gfx11_row ds[256] = {
#define DS(opcode, op, form) [opcode] = {GFX_##op, DS_##form},
#include "emu/gfx/gfx11.def"
};
static const uint16_t vmem[256] = {
#define VMEM(opcode, op) [opcode] = GFX_##op,
#include "emu/gfx/gfx11.def"
};

// ---- words and operands ----

uint32_t gfx11_next(struct gfx11_code * c) {
    if (c->used < c->count) {
        return c->words[c->used++];
    }
    c->missing = true;
    return 0;
}

uint32_t gfx11_literal(struct gfx11_code * c) {
    if (!c->has_literal) {
        c->literal = gfx11_next(c);
        c->has_literal = true;
    }
    return c->literal;
}

enum { ENC_NULL = 124, ENC_M0 = 125, ENC_SHARED_BASE = 235, ENC_VCCZ = 251, ENC_LITERAL = 255 };

uint16_t gfx11_sgpr(unsigned encoding) {
    return encoding == ENC_NULL ? GFX_SGPR_NULL
           : encoding == ENC_M0 ? GFX_SGPR_M0
                                : (uint16_t) encoding;
}

struct gfx_operand gfx11_scalar_dst(unsigned encoding) {
    return (struct gfx_operand){.kind = GFX_K_SGPR, .reg = gfx11_sgpr(encoding & 127)};
}

struct gfx_operand gfx11_source(struct gfx11_code * c, unsigned encoding, enum gfx_type type) {
    struct gfx_operand o = {.kind = GFX_K_CONST};
    if (encoding >= 256) {
        c->bad |= type == GFX_T_M;
        return gfx11_vgpr(encoding & 255);
    }
    if (encoding == ENC_NULL) { // as a pair it would reach into EXEC
        return o;
    }
    if (encoding < 128) {
        return gfx11_scalar_dst(encoding);
    }
    if (encoding == ENC_LITERAL) {
        o.value = gfx_literal(gfx11_literal(c), type);
        return o;
    }
    if (gfx_inline_constant(encoding, type, &o.value)) {
        return o;
    }
    o.kind = GFX_K_SPECIAL;
    if (encoding >= ENC_SHARED_BASE && encoding < ENC_SHARED_BASE + 4) {
        o.reg = (uint16_t) (GFX_S_SHARED_BASE + encoding - ENC_SHARED_BASE);
    } else if (encoding >= ENC_VCCZ && encoding < ENC_VCCZ + 3) {
        o.reg = (uint16_t) (GFX_S_VCCZ + encoding - ENC_VCCZ);
    } else {
        c->bad = true;
    }
    return o;
}

static int32_t signed_bits(uint32_t v, unsigned width) {
    return (int32_t) (v << (32 - width)) >> (32 - width);
}

// ---- scalar arithmetic and control ----

// Source 0 stands in bits 7:0, source 1 in 15:8.
static void scalar_sources(struct gfx11_code * c, uint32_t word, struct gfx_inst * in) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    for (unsigned k = 0; k < 2; k++) {
        if (info->src[k] != GFX_T_N) {
            in->src[k] = gfx11_source(c, word >> 8 * k & 255, info->src[k]);
        }
    }
}

static void decode_sop1(struct gfx11_code * c, uint32_t word, struct gfx_inst * in) {
    in->op = sop1[bits(word, 15, 8)];
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    if (info->dst != GFX_T_N) {
        in->dst = gfx11_scalar_dst(bits(word, 22, 16));
    }
    if (info->src[0] != GFX_T_N) {
        in->src[0] = gfx11_source(c, bits(word, 7, 0), info->src[0]);
    } else {
        in->imm = (int32_t) bits(word, 7, 0); // messages
    }
    if ((in->op == GFX_s_movrels_b32 || in->op == GFX_s_movrels_b64) &&
        in->src[0].kind != GFX_K_SGPR) {
        c->bad = true;
    }
}

static void decode_sopk(struct gfx11_code * c, uint32_t word, struct gfx_inst * in) {
    unsigned opcode = bits(word, 27, 23), reg = bits(word, 22, 16);
    in->op = sopk[opcode];
    in->imm = (int16_t) word;
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    if (info->dst != GFX_T_N) {
        in->dst = gfx11_scalar_dst(reg);
    }
    if (in->op == GFX_s_setreg_imm32_b32) {
        in->src[0] = (struct gfx_operand){.kind = GFX_K_CONST, .value = gfx11_literal(c)};
    } else if (info->src[0] != GFX_T_N) {
        in->src[0] = gfx11_source(c, reg, info->src[0]);
    }
    if (info->class == GFX_C_SALU) {
        bool is_unsigned = in->op >= GFX_s_cmpk_eq_u32 && in->op <= GFX_s_cmpk_le_u32;
        uint32_t value = is_unsigned ? word & 0xffff : (uint32_t) (int32_t) (int16_t) word;
        in->src[1] = (struct gfx_operand){.kind = GFX_K_CONST, .value = value};
    }
}

// Scalars have floats since RDNA 3.5.
static bool is_of_gfx115(unsigned op) {
    return (op >= GFX_s_add_f32 && op <= GFX_s_cmp_nlt_f16) || op == GFX_s_singleuse_vdst;
}

static void decode_scalar(struct gfx11_code * c, uint32_t word, struct gfx_inst * in) {
    switch (bits(word, 29, 23)) {
    case 0x7d:
        decode_sop1(c, word, in);
        break;
    case 0x7e:
        in->op = sopc[bits(word, 22, 16)];
        scalar_sources(c, word, in);
        break;
    case 0x7f:
        in->op = sopp[bits(word, 22, 16)];
        in->imm = (int16_t) word;
        break;
    default:
        if (bits(word, 31, 28) == 0xb) {
            decode_sopk(c, word, in);
            return;
        }
        in->op = sop2[bits(word, 29, 23)];
        in->dst = gfx11_scalar_dst(bits(word, 22, 16));
        scalar_sources(c, word, in);
        if (in->op == GFX_s_fmaak_f32 || in->op == GFX_s_fmamk_f32) {
            unsigned literal = in->op == GFX_s_fmaak_f32 ? 2 : 1;
            in->src[2] = in->src[1];
            in->src[literal] = (struct gfx_operand){.kind = GFX_K_CONST, .value = gfx11_literal(c)};
        }
    }
}

// ---- memory ----

static void decode_smem(struct gfx11_code * c, uint32_t word, struct gfx_inst * in) {
    in->op = smem[bits(word, 25, 18)];
    if (in->op == GFX_OP_INVALID) {
        return;
    }
    uint32_t high = gfx11_next(c);
    if (gfx_op_info[in->op].kind == GFX_M_FENCE) {
        return;
    }
    in->dst = gfx11_scalar_dst(bits(word, 12, 6));
    in->src[0] = gfx11_scalar_dst(bits(word, 5, 0) << 1);
    in->imm = signed_bits(high, 21);
    unsigned offset = bits(high, 31, 25);
    if (offset != ENC_NULL) {
        in->src[1] = gfx11_scalar_dst(offset);
    }
    c->bad |= in->src[0].reg >= GFX_SGPR_M0;
    if (in->dst.reg == GFX_SGPR_NULL) { // only warms a cache
        in->op = GFX_s_nop;
    }
}

// Data that an operation takes goes to src[1], what it gives to dst.
static void memory_data(struct gfx_inst * in, bool returns, unsigned data, unsigned dst) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    if (info->kind != GFX_M_LOAD) {
        in->src[1] = gfx11_vgpr(data);
    }
    if (info->kind == GFX_M_ATOMIC && returns) {
        in->flags |= GFX_F_RETURN;
    }
    if (info->kind == GFX_M_LOAD || in->flags & GFX_F_RETURN) {
        in->dst = gfx11_vgpr(dst);
    }
}

static void decode_flat(struct gfx11_code * c, uint32_t word, struct gfx_inst * in) {
    static const uint8_t segments[] = {GFX_FLAT, GFX_SCRATCH, GFX_GLOBAL};
    unsigned segment = bits(word, 17, 16);
    in->op = segment < 3 ? vmem[bits(word, 24, 18)] : GFX_OP_INVALID;
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    if (info->kind == GFX_M_FENCE || (info->kind == GFX_M_ATOMIC && segment == 1)) {
        in->op = GFX_OP_INVALID;
    }
    if (in->op == GFX_OP_INVALID) {
        return;
    }
    uint32_t high = gfx11_next(c);
    in->segment = segments[segment];
    // flat offsets have no sign: the segment of an address is chosen before it is added
    in->imm = in->segment == GFX_FLAT ? (int32_t) bits(word, 11, 0) : signed_bits(word, 13);
    unsigned base = bits(high, 22, 16);
    bool has_vector = in->segment != GFX_SCRATCH || bits(high, 23, 23);
    if (has_vector) {
        in->src[0] = gfx11_vgpr(bits(high, 7, 0));
    }
    if (in->segment != GFX_FLAT && base != ENC_NULL) {
        in->src[2] = gfx11_scalar_dst(base);
    }
    memory_data(in, bits(word, 14, 14), bits(high, 15, 8), bits(high, 31, 24));
}

static void decode_buffer(struct gfx11_code * c, uint32_t word, struct gfx_inst * in) {
    in->op = vmem[bits(word, 25, 18)];
    in->segment = GFX_BUFFER;
    if (in->op == GFX_OP_INVALID) {
        return;
    }
    uint32_t high = gfx11_next(c);
    if (gfx_op_info[in->op].kind == GFX_M_FENCE) {
        return;
    }
    in->imm = (int32_t) bits(word, 11, 0);
    in->flags = (bits(high, 22, 22) ? GFX_F_OFFEN : 0) | (bits(high, 23, 23) ? GFX_F_IDXEN : 0);
    if (in->flags) {
        in->src[0] = gfx11_vgpr(bits(high, 7, 0));
    }
    in->src[2] = gfx11_scalar_dst(bits(high, 20, 16) << 2);
    in->src[3] = gfx11_source(c, bits(high, 31, 24), GFX_T_B32);
    // no registers for a descriptor there; a literal cannot stand behind; tfe writes one word more
    c->bad |= in->src[2].reg >= GFX_SGPR_M0 || c->has_literal || bits(high, 21, 21);
    memory_data(in, bits(word, 14, 14), bits(high, 15, 8), bits(high, 15, 8));
}

static void decode_ds(struct gfx11_code * c, uint32_t word, struct gfx_inst * in) {
    const struct gfx11_row * row = &ds[bits(word, 25, 18)];
    const struct gfx_op_info * info = &gfx_op_info[row->op];
    in->op = bits(word, 17, 17) ? GFX_OP_INVALID : row->op; // there is no GDS
    in->segment = GFX_LDS;
    if (in->op == GFX_OP_INVALID) {
        return;
    }
    uint32_t high = gfx11_next(c);
    in->imm = (int32_t) bits(word, 15, 0);
    in->src[0] = gfx11_vgpr(bits(high, 7, 0));
    if (info->class == GFX_C_MEM) {
        memory_data(in, row->form == DS_RETURN, bits(high, 15, 8), bits(high, 31, 24));
        if (info->kind == GFX_M_ATOMIC) {
            in->src[2] = gfx11_vgpr(bits(high, 23, 16));
        }
        return;
    }
    in->src[1] = gfx11_vgpr(bits(high, 15, 8));
    in->src[2] = gfx11_vgpr(bits(high, 23, 16));
    in->dst = gfx11_vgpr(bits(high, 31, 24));
    if (in->op <= GFX_ds_storexchg_2addr_rtn_b64) {
        int32_t unit = info->bytes * (row->form == DS_STRIDE64 ? 64 : 1);
        in->imm = (int32_t) bits(word, 7, 0) * unit;
        in->imm2 = (int32_t) bits(word, 15, 8) * unit;
    }
}

// ---- which encoding ----

int gfx11_decode(enum gfx_arch arch, const uint32_t * words, int count, struct gfx_inst out[2]) {
    struct gfx11_code c = {.words = words, .count = count};
    memset(out, 0, 2 * sizeof *out);
    out[0].sdst = out[1].sdst = GFX_SGPR_NULL;
    out[0].op_sel_hi = out[1].op_sel_hi = 7;
    uint32_t word = gfx11_next(&c);
    if (c.missing) {
        return -1;
    }
    if (bits(word, 31, 30) == 2) {
        decode_scalar(&c, word, out);
        if (arch != GFX_1151 && is_of_gfx115(out[0].op)) {
            out[0].op = GFX_OP_INVALID;
        }
    } else {
        switch (bits(word, 31, 26)) {
        case 0x36:
            decode_ds(&c, word, out);
            break;
        case 0x37:
            decode_flat(&c, word, out);
            break;
        case 0x38:
            decode_buffer(&c, word, out);
            break;
        case 0x3d:
            decode_smem(&c, word, out);
            break;
        default:
            if (!gfx11_vector(&c, word, out)) {
                out[0].op = GFX_OP_INVALID;
            }
        }
    }
    if (out[0].op == GFX_OP_INVALID || (c.bad && !c.missing)) {
        return 0;
    }
    if (c.missing) {
        return -1;
    }
    out[0].size = out[1].size = (uint8_t) (4 * c.used);
    return c.used;
}
