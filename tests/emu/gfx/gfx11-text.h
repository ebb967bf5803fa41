// gfx11-text: whether a decoded instruction is what a disassembler says of the same bytes. The text
// is LLVM's ("v_add_f32_e32 v2, v1, v3"); it is taken apart word by word and every operand and
// modifier is looked up in struct gfx_inst, in the order in which the syntax has them.
#pragma once

#include "emu/gfx/isa.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
    char name[64]; // without _e32 and the like
    char operand[8][64];
    int n, at;           // operands, and the next one to look at
    char modifiers[200]; // " offset:16 glc " with a blank at both ends
    int lanes;           // 32 or 64: whether masks are pairs
    char why[160];       // the first thing that is not as it should be
};

static void wrong(struct text * t, const char * what, const char * got) {
    if (!t->why[0]) {
        snprintf(t->why, sizeof t->why, "%s: '%s'", what, got);
    }
}

// ---- taking the text apart ----

static void strip_suffix(char * name) {
    static const char * const suffixes[] = {"_dpp8", "_dpp", "_e32", "_e64"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        size_t n = strlen(name), k = strlen(suffixes[i]);
        if (n > k && !strcmp(name + n - k, suffixes[i])) {
            name[n - k] = 0;
        }
    }
}

// Operands are separated by ", "; behind the last one modifiers follow after blanks.
static void text_parse(struct text * t, const char * line, int lanes) {
    memset(t, 0, sizeof *t);
    t->lanes = lanes;
    while (*line == ' ' || *line == '\t') {
        line++;
    }
    size_t n = strcspn(line, " \t");
    snprintf(t->name, sizeof t->name, "%.*s", (int) n, line);
    strip_suffix(t->name);
    line += n;
    int depth = 0, used = 0;
    bool modifiers = false;
    for (; *line; line++) {
        depth += (*line == '[' || *line == '(') - (*line == ']' || *line == ')');
        if (modifiers) {
            break;
        }
        if (*line == ' ' && used == 0) {
            continue;
        }
        if (depth == 0 && *line == ',') {
            t->n += t->n < 7;
            used = 0;
        } else if (depth == 0 && *line == ' ') {
            modifiers = true;
        } else if (used < 63) {
            t->operand[t->n][used++] = *line;
        }
    }
    t->n += used > 0;
    // a modifier may stand where there are no operands
    snprintf(t->modifiers, sizeof t->modifiers, " %s ", line);
}

// The number behind " key" in the modifiers, or fallback.
static long modifier(const struct text * t, const char * key, long fallback) {
    char pattern[32];
    snprintf(pattern, sizeof pattern, " %s", key);
    const char * p = strstr(t->modifiers, pattern);
    return p ? strtol(p + strlen(pattern), NULL, 0) : fallback;
}

static bool flag(const struct text * t, const char * key) {
    char pattern[32];
    snprintf(pattern, sizeof pattern, " %s ", key);
    return strstr(t->modifiers, pattern) != NULL;
}

// " key:[1,0,1]" as bits; what is not listed is as in fallback.
static unsigned bit_list(const struct text * t, const char * key, unsigned fallback) {
    char pattern[32];
    snprintf(pattern, sizeof pattern, " %s:[", key);
    const char * p = strstr(t->modifiers, pattern);
    if (!p) {
        return fallback;
    }
    p += strlen(pattern);
    for (unsigned k = 0; *p == '0' || *p == '1'; k++) {
        fallback = (fallback & ~(1u << k)) | (unsigned) (*p - '0') << k;
        p += p[1] == ',' ? 2 : 1;
    }
    return fallback;
}

// ---- operands ----

static const char * register_name(const struct gfx_operand * o, int words, char * out) {
    static const char * const specials[] = {
        [GFX_S_SHARED_BASE] = "src_shared_base",
        [GFX_S_SHARED_LIMIT] = "src_shared_limit",
        [GFX_S_PRIVATE_BASE] = "src_private_base",
        [GFX_S_PRIVATE_LIMIT] = "src_private_limit",
        [GFX_S_VCCZ] = "src_vccz",
        [GFX_S_EXECZ] = "src_execz",
        [GFX_S_SCC] = "src_scc",
    };
    unsigned r = o->reg;
    const char * file = o->kind == GFX_K_VGPR ? "v" : "s";
    if (o->kind == GFX_K_SPECIAL) {
        return specials[r];
    }
    if (o->kind == GFX_K_NONE) {
        return "nothing";
    }
    if (o->kind == GFX_K_SGPR) {
        if (r == GFX_SGPR_NULL || r == GFX_SGPR_M0) {
            return r == GFX_SGPR_NULL ? "null" : "m0";
        }
        if (r == 106 || r == 107 || r == 126 || r == 127) {
            sprintf(out, "%s%s", r < 110 ? "vcc" : "exec", words > 1 ? "" : r & 1 ? "_hi" : "_lo");
            return out;
        }
        if (r >= GFX_SGPR_TTMP) {
            file = "ttmp";
            r -= GFX_SGPR_TTMP;
        }
    }
    if (words == 1) {
        sprintf(out, "%s%u", file, r);
    } else {
        sprintf(out, "%s[%u:%u]", file, r, r + (unsigned) words - 1);
    }
    return out;
}

static uint64_t float_constant(double v, enum gfx_type type) {
    static const struct {
        double v;
        uint16_t h;
    } halves[] = {{0.5, 0x3800}, {1, 0x3c00}, {2, 0x4000}, {4, 0x4400}};
    uint64_t u;
    if (type == GFX_T_F64 || type == GFX_T_B64 || type == GFX_T_I64 || type == GFX_T_M) {
        memcpy(&u, &v, 8);
        return u;
    }
    if (type == GFX_T_F16 || type == GFX_T_B16 || type == GFX_T_P16) {
        for (size_t i = 0; i < 4; i++) {
            if (v == halves[i].v || v == -halves[i].v) {
                return halves[i].h | (v < 0 ? 0x8000 : 0);
            }
        }
        return 0x3118;
    }
    float f = (float) v;
    uint32_t w;
    memcpy(&w, &f, 4);
    return w;
}

static uint64_t constant(const char * token, enum gfx_type type) {
    bool wide = type == GFX_T_F64 || type == GFX_T_B64 || type == GFX_T_I64 || type == GFX_T_M;
    if (strchr(token, '.')) {
        return float_constant(strtod(token, NULL), type);
    }
    if (strncmp(token, "0x", 2) != 0) {
        int64_t v = strtoll(token, NULL, 10);
        return wide ? (uint64_t) v : (uint32_t) v;
    }
    uint64_t v = strtoull(token, NULL, 16);
    return type == GFX_T_F64 ? v << 32 : type == GFX_T_I64 ? (uint64_t) (int64_t) (int32_t) v : v;
}

static bool narrow(enum gfx_type type) {
    return type == GFX_T_F16 || type == GFX_T_B16;
}

// The next operand of the text is o, a value of that type in so many words.
static void expect(struct text * t, const struct gfx_operand * o, enum gfx_type type, int words) {
    char name[32], copy[64];
    char * token = copy;
    if (t->at >= t->n) {
        wrong(t, "operand more than the text has", register_name(o, words, name));
        return;
    }
    snprintf(copy, sizeof copy, "%s", t->operand[t->at++]);
    bool negative = false, absolute = false;
    size_t n = strlen(token);
    if (token[0] == '-' && (isalpha((unsigned char) token[1]) || token[1] == '|')) {
        negative = true;
        token++, n--;
    } else if (!strncmp(token, "neg(", 4)) {
        negative = true;
        token += 4, n -= 5;
        token[n] = 0;
    }
    if (token[0] == '|') {
        absolute = true;
        token++, n -= 2;
        token[n] = 0;
    }
    if (negative != o->neg || absolute != o->abs) {
        wrong(t, "sign", t->operand[t->at - 1]);
    }
    if (o->kind == GFX_K_CONST) {
        uint64_t v = !strcmp(token, "null") ? 0 : constant(token, type);
        uint64_t mask = narrow(type) ? 0xffff : ~UINT64_C(0);
        if ((v & mask) != (o->value & mask)) {
            wrong(t, "constant", token);
        }
    } else if (strcmp(token, register_name(o, words, name))) {
        wrong(t, name, token);
    }
}

static int words_of(const struct text * t, enum gfx_type type) {
    return type == GFX_T_M ? t->lanes / 32 : gfx_type_words(type);
}

static void expect_type(struct text * t, const struct gfx_operand * o, enum gfx_type type) {
    expect(t, o, type, words_of(t, type));
}

static void expect_word(struct text * t, const char * word) {
    const char * got = t->at < t->n ? t->operand[t->at++] : "nothing";
    if (strcmp(got, word)) {
        wrong(t, word, got);
    }
}

static void expect_number(struct text * t, const char * what, long want, long got) {
    if (want != got) {
        char both[64];
        snprintf(both, sizeof both, "%ld, decoded %ld", want, got);
        wrong(t, what, both);
    }
}

// ---- instructions by class ----

static void check_scalar(struct text * t, const struct gfx_inst * in) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    static const char * const untold[] = {"s_nop",        "s_waitcnt",     "s_waitcnt_vscnt",
                                          "s_sendmsg",    "s_endpgm",      "s_sleep",
                                          "s_round_mode", "s_denorm_mode", "s_singleuse_vdst"};
    for (size_t i = 0; i < sizeof untold / sizeof *untold; i++) {
        if (!strcmp(info->name, untold[i])) { // operands of no consequence
            t->at = t->n;
            return;
        }
    }
    bool setreg = in->op == GFX_s_setreg_b32 || in->op == GFX_s_setreg_imm32_b32;
    t->at += setreg;
    bool k = in->op >= GFX_s_addk_i32 && in->op <= GFX_s_cmpk_le_u32;
    bool in_place = in->op == GFX_s_addk_i32 || in->op == GFX_s_mulk_i32 ||
                    in->op == GFX_s_cmovk_i32 || in->op == GFX_s_movk_i32;
    if (info->dst != GFX_T_N) {
        expect_type(t, &in->dst, info->dst);
    }
    if (info->src[0] != GFX_T_N && !in_place) {
        expect_type(t, &in->src[0], info->src[0]);
    }
    if (info->src[1] != GFX_T_N) {
        if (k && t->at < t->n) {
            long v = strtol(t->operand[t->at++], NULL, 0);
            bool is_unsigned = strstr(info->name, "_u32") != NULL;
            expect_number(t, "constant", is_unsigned ? v : (int16_t) v, (int32_t) in->src[1].value);
        } else {
            expect_type(t, &in->src[1], info->src[1]);
        }
    }
    if (info->class == GFX_C_SALU && in->src[2].kind != GFX_K_NONE) { // s_fmaak, s_fmamk
        expect_type(t, &in->src[2], GFX_T_F32);
    }
    if (info->class == GFX_C_SCTL && t->at < t->n && strchr("-0123456789", t->operand[t->at][0])) {
        expect_number(t, "constant", (int16_t) strtol(t->operand[t->at++], NULL, 0), in->imm);
    } else if (in->op == GFX_s_getreg_b32 || in->op == GFX_s_sendmsg_rtn_b32 ||
               in->op == GFX_s_sendmsg_rtn_b64) {
        t->at++;
    }
}

static void check_smem(struct text * t, const struct gfx_inst * in) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    if (info->kind == GFX_M_FENCE) {
        return;
    }
    bool buffer = !strncmp(info->name, "s_buffer", 8);
    expect(t, &in->dst, GFX_T_B32, info->bytes / 4);
    expect(t, &in->src[0], GFX_T_B32, buffer ? 4 : 2);
    if (in->src[1].kind != GFX_K_NONE) {
        expect(t, &in->src[1], GFX_T_B32, 1);
        expect_number(t, "offset", modifier(t, "offset:", 0), in->imm);
    } else if (t->at < t->n) {
        const char * offset = t->operand[t->at++];
        expect_number(t, "offset", strcmp(offset, "null") ? strtol(offset, NULL, 0) : 0, in->imm);
    }
}

static unsigned dpp_control(const struct text * t) {
    static const struct {
        const char * key;
        unsigned base;
    } keys[] = {
        {"row_shl:", 0x100},   {"row_shr:", 0x110},   {"row_ror:", 0x120},
        {"row_share:", 0x150}, {"row_xmask:", 0x160},
    };
    const char * p = strstr(t->modifiers, "quad_perm:[");
    if (p) {
        p += strlen("quad_perm:[");
        unsigned control = 0;
        for (int i = 0; i < 4; i++) {
            control |= (unsigned) (p[2 * i] - '0') << 2 * i;
        }
        return control;
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        long n = modifier(t, keys[i].key, -1);
        if (n >= 0) {
            return keys[i].base + (unsigned) n;
        }
    }
    return flag(t, "row_mirror") ? 0x140 : 0x141;
}

static void check_dpp(struct text * t, const struct gfx_inst * in) {
    const char * p = strstr(t->modifiers, "dpp8:[");
    expect_number(t, "fi", modifier(t, "fi:", 0), in->dpp.fetch_inactive);
    if (in->flags & GFX_F_DPP8) {
        for (int i = 0; p && i < 8; i++) {
            expect_number(t, "dpp8", p[6 + 2 * i] - '0', in->dpp.lanes >> 3 * i & 7);
        }
        expect_number(t, "dpp8", 1, p != NULL);
        return;
    }
    expect_number(t, "dpp", dpp_control(t), in->dpp.control);
    expect_number(t, "row_mask", modifier(t, "row_mask:", 15), in->dpp.row_mask);
    expect_number(t, "bank_mask", modifier(t, "bank_mask:", 15), in->dpp.bank_mask);
    expect_number(t, "bound_ctrl", modifier(t, "bound_ctrl:", 0), in->dpp.bound_ctrl);
}

static bool packed(const struct gfx_inst * in) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    return (info->src[0] == GFX_T_P16 || info->flags & GFX_O_HALVES) && !(info->flags & GFX_O_TIED);
}

static void check_modifiers(struct text * t, const struct gfx_inst * in) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    bool mix = in->op >= GFX_v_fma_mix_f32 && in->op <= GFX_v_fma_mixhi_f16;
    unsigned sources =
        (info->src[0] != GFX_T_N) | (info->src[1] != GFX_T_N) << 1 | (info->src[2] != GFX_T_N) << 2;
    expect_number(t, "clamp", flag(t, "clamp"), !!(in->flags & GFX_F_CLAMP));
    long omod = modifier(t, "mul:", 1) / 2;
    expect_number(t, "omod", strstr(t->modifiers, " div:2") ? 3 : omod, in->omod);
    unsigned op_sel = bit_list(t, "op_sel", 0);
    if (packed(in)) {
        bool dot = info->flags & GFX_O_HALVES && !mix;
        unsigned high = bit_list(t, "op_sel_hi", mix ? 0 : 7), low_neg = 0;
        for (int k = 0; k < 3; k++) {
            low_neg |= (unsigned) (in->src[k].neg << k);
        }
        expect_number(t, "neg_lo", bit_list(t, "neg_lo", 0) & sources, mix ? 0 : low_neg);
        if (!dot && !mix && info->src[2] != GFX_T_P16) {
            sources &= 3; // a word that is added has no halves
        }
        expect_number(t, "op_sel", op_sel & sources, in->op_sel & sources);
        expect_number(t, "neg_hi", bit_list(t, "neg_hi", 0) & sources, mix ? 0 : in->neg_hi);
        if (!dot) {
            expect_number(t, "op_sel_hi", high & sources, in->op_sel_hi & sources);
        }
        return;
    }
    int last = info->src[2] != GFX_T_N && !(info->flags & GFX_O_TIED) ? 3
               : info->src[1] != GFX_T_N                              ? 2
                                                                      : 1;
    unsigned tied = info->flags & GFX_O_TIED ? 4 : 0;
    unsigned halves = 0; // others have the bits, but nothing looks at them
    for (int k = 0; k < last; k++) {
        halves |= (unsigned) (narrow(info->src[k]) || (info->class == GFX_C_VLANE && k < 2)) << k;
    }
    expect_number(t, "op_sel", op_sel & halves, in->op_sel & ~tied);
    expect_number(t, "op_sel of the result", narrow(info->dst) && op_sel >> last & 1,
                  !!(in->flags & GFX_F_HIGH));
}

static void check_matrix(struct text * t, const struct gfx_inst * in) {
    enum gfx_op op = (enum gfx_op) in->op;
    int ab = gfx_matrix_words_ab(op), cd = gfx_matrix_words_cd(op, t->lanes);
    unsigned neg = 0;
    expect(t, &in->dst, GFX_T_B32, cd);
    for (int k = 0; k < 3; k++) {
        struct gfx_operand o = in->src[k];
        neg |= (unsigned) o.neg << k;
        o.neg = 0; // told as neg_lo
        expect(t, &o, k < 2 ? GFX_T_B32 : gfx_op_info[op].src[2], k < 2 ? ab : cd);
    }
    expect_number(t, "neg_lo", bit_list(t, "neg_lo", 0), neg);
    expect_number(t, "neg_hi", bit_list(t, "neg_hi", 0), in->neg_hi);
    expect_number(t, "op_sel", bit_list(t, "op_sel", 0), in->op_sel);
    expect_number(t, "clamp", flag(t, "clamp"), !!(in->flags & GFX_F_CLAMP));
}

static void check_vector(struct text * t, const struct gfx_inst * in, bool half_of_pair) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    bool compare = info->class == GFX_C_VCMP;
    bool to_scalar = in->op == GFX_v_readfirstlane_b32 || in->op == GFX_v_readlane_b32;
    if (info->dst != GFX_T_N && !(in->flags & GFX_F_CMPX)) {
        expect_type(t, &in->dst, info->dst);
        bool is_scalar = in->dst.kind == GFX_K_SGPR;
        expect_number(t, "scalar result", compare || to_scalar, is_scalar);
    }
    if (compare) {
        expect_number(t, "mask", in->flags & GFX_F_CMPX ? GFX_SGPR_NULL : in->dst.reg, in->sdst);
    }
    if (info->flags & GFX_O_CARRY) {
        struct gfx_operand mask = {.kind = GFX_K_SGPR, .reg = in->sdst};
        expect_type(t, &mask, GFX_T_M);
    }
    bool packed_signs =
        packed(in) && !(in->op >= GFX_v_fma_mix_f32 && in->op <= GFX_v_fma_mixhi_f16);
    bool mix = packed(in) && !packed_signs;
    for (int k = 0; k < 3; k++) {
        bool tied = k == 2 && info->flags & GFX_O_TIED;
        bool implied = half_of_pair && info->src[k] == GFX_T_M;
        if (info->src[k] == GFX_T_N || tied) {
            continue;
        }
        if (implied) {
            expect_number(t, "VCC", GFX_SGPR_VCC, in->src[k].reg);
            continue;
        }
        struct gfx_operand o = in->src[k];
        enum gfx_type type = info->src[k];
        if (packed_signs) {
            o.neg = o.abs = 0; // told as neg_lo
        } else if (mix) {
            o.abs = in->neg_hi >> k & 1;
            type = in->op_sel_hi >> k & 1 ? GFX_T_F16 : GFX_T_F32;
        }
        bool integer = type == GFX_T_P16 && info->dst == GFX_T_B32;
        expect(t, &o, integer ? GFX_T_B32 : type, words_of(t, info->src[k]));
    }
    check_modifiers(t, in);
    if (in->flags & (GFX_F_DPP | GFX_F_DPP8)) {
        check_dpp(t, in);
    } else {
        expect_number(t, "dpp", 0,
                      strstr(t->modifiers, "bank_mask") || strstr(t->modifiers, "dpp8"));
    }
}

static void check_lds(struct text * t, const struct gfx_inst * in) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    if (in->op == GFX_ds_nop) {
        return;
    }
    int words = info->bytes > 4 ? info->bytes / 4 : 1;
    bool pair = strstr(t->name, "2addr") != NULL;
    bool gives = in->dst.kind == GFX_K_VGPR && !(pair && strstr(t->name, "ds_store_"));
    if (gives) {
        expect(t, &in->dst, GFX_T_B32, words * (pair ? 2 : 1));
    }
    expect(t, &in->src[0], GFX_T_B32, 1);
    for (int k = 1; k < 3 && t->at < t->n; k++) {
        expect(t, &in->src[k], GFX_T_B32, words);
    }
    if (pair) {
        int unit = info->bytes * (strstr(t->name, "stride64") ? 64 : 1);
        expect_number(t, "offset0", modifier(t, "offset0:", 0) * unit, in->imm);
        expect_number(t, "offset1", modifier(t, "offset1:", 0) * unit, in->imm2);
    } else if (in->op != GFX_ds_swizzle_b32) {
        expect_number(t, "offset", modifier(t, "offset:", 0), in->imm);
    }
}

static void check_memory(struct text * t, const struct gfx_inst * in) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    if (info->kind == GFX_M_FENCE) {
        return;
    }
    int words = info->bytes > 4 ? info->bytes / 4 : 1;
    bool swap = strstr(info->name, "cmpswap") != NULL, buffer = in->segment == GFX_BUFFER;
    bool has_base = in->src[2].kind != GFX_K_NONE, load = info->kind == GFX_M_LOAD;
    if (buffer) {
        expect(t, load ? &in->dst : &in->src[1], GFX_T_B32, words * (swap ? 2 : 1));
        int n = !!(in->flags & GFX_F_OFFEN) + !!(in->flags & GFX_F_IDXEN);
        if (n) {
            expect(t, &in->src[0], GFX_T_B32, n);
        } else {
            expect_word(t, "off");
        }
        expect(t, &in->src[2], GFX_T_B32, 4);
        expect(t, &in->src[3], GFX_T_B32, 1);
        expect_number(t, "offen", flag(t, "offen"), !!(in->flags & GFX_F_OFFEN));
        expect_number(t, "idxen", flag(t, "idxen"), !!(in->flags & GFX_F_IDXEN));
    } else {
        if (in->dst.kind != GFX_K_NONE) {
            expect(t, &in->dst, GFX_T_B32, words);
        }
        if (in->src[0].kind == GFX_K_NONE) {
            expect_word(t, "off");
        } else {
            bool narrow_address = in->segment == GFX_SCRATCH || has_base;
            expect(t, &in->src[0], GFX_T_B32, narrow_address ? 1 : 2);
        }
        if (!load) {
            expect(t, &in->src[1], GFX_T_B32, words * (swap ? 2 : 1));
        }
        if (in->segment != GFX_FLAT && has_base) {
            expect(t, &in->src[2], GFX_T_B32, in->segment == GFX_GLOBAL ? 2 : 1);
        } else if (in->segment != GFX_FLAT) {
            expect_word(t, "off");
        }
    }
    bool returns = info->kind == GFX_M_ATOMIC && flag(t, "glc");
    expect_number(t, "returns", returns, !!(in->flags & GFX_F_RETURN));
    expect_number(t, "offset", modifier(t, "offset:", 0), in->imm);
}

// ---- names ----

static const char * const other_names[][2] = {
    // what has no effect here
    {"s_clause", "s_nop"},
    {"s_delay_alu", "s_nop"},
    {"s_waitcnt_depctr", "s_nop"},
    {"s_set_inst_prefetch_distance", "s_nop"},
    {"s_setprio", "s_nop"},
    {"s_sethalt", "s_nop"},
    {"s_wait_event", "s_nop"},
    {"s_wakeup", "s_nop"},
    {"s_icache_inv", "s_nop"},
    {"s_version", "s_nop"},
    {"s_incperflevel", "s_nop"},
    {"s_decperflevel", "s_nop"},
    {"s_ttracedata", "s_nop"},
    {"s_ttracedata_imm", "s_nop"},
    {"s_cbranch_cdbgsys", "s_nop"},
    {"s_cbranch_cdbguser", "s_nop"},
    {"s_cbranch_cdbgsys_or_user", "s_nop"},
    {"s_cbranch_cdbgsys_and_user", "s_nop"},
    {"s_wait_idle", "s_waitcnt"},
    {"s_waitcnt_vmcnt", "s_waitcnt"},
    {"s_waitcnt_expcnt", "s_waitcnt"},
    {"s_waitcnt_lgkmcnt", "s_waitcnt"},
    {"s_endpgm_saved", "s_endpgm"},
    {"s_gl1_inv", "s_dcache_inv"},
    {"buffer_gl0_inv", "cache_control"},
    {"buffer_gl1_inv", "cache_control"},
    {"v_pipeflush", "v_nop"},
    {"v_dot2acc_f32_f16", "v_dot2c_f32_f16"},
    // LDS
    {"ds_store_b8_d16_hi", "ds_store_d16_hi_b8"},
    {"ds_store_b16_d16_hi", "ds_store_d16_hi_b16"},
    {"ds_load_u8_d16", "ds_load_d16_u8"},
    {"ds_load_u8_d16_hi", "ds_load_d16_hi_u8"},
    {"ds_load_i8_d16", "ds_load_d16_i8"},
    {"ds_load_i8_d16_hi", "ds_load_d16_hi_i8"},
    {"ds_load_u16_d16", "ds_load_d16_b16"},
    {"ds_load_u16_d16_hi", "ds_load_d16_hi_b16"},
};

// The name that the machine has for an instruction; *returns: it said so with "_rtn".
static void canonical_name(const char * name, char * out, size_t size, bool * returns) {
    *returns = false;
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++) {
        if (!strcmp(name, other_names[i][0])) {
            snprintf(out, size, "%s", other_names[i][1]);
            return;
        }
    }
    static const char * const parts[][2] = {
        {"v_dual_", "v_"},       {"_stride64", ""},     {"_rtn_", "_"},
        {"cmpstore", "cmpswap"}, {"storexchg", "swap"},
    };
    snprintf(out, size, "%s", name);
    bool pair = strstr(name, "2addr") != NULL;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char * p = strstr(out, parts[i][0]);
        if (!p || (i > 0 && strncmp(name, "ds_", 3)) || (i > 1 && pair)) {
            continue;
        }
        char rest[64];
        snprintf(rest, sizeof rest, "%s", p + strlen(parts[i][0]));
        snprintf(p, size - (size_t) (p - out), "%s%s", parts[i][1], rest);
        *returns |= i == 2;
    }
    if (!strcmp(out, "v_dot2acc_f32_f16")) {
        snprintf(out, size, "v_dot2c_f32_f16");
    }
}

// "" when in is what the text says, else what is not.
static const char * text_differs(struct text * t, const struct gfx_inst * in, bool half_of_pair) {
    char want[64], got[64];
    bool returns;
    canonical_name(t->name, want, sizeof want, &returns);
    gfx_inst_name(in, got, sizeof got);
    if (strcmp(want, got)) {
        wrong(t, want, got);
        return t->why;
    }
    switch (gfx_op_info[in->op].class) {
    case GFX_C_SALU:
    case GFX_C_SCTL:
        check_scalar(t, in);
        break;
    case GFX_C_SMEM:
        check_smem(t, in);
        break;
    case GFX_C_MEM:
        if (in->segment == GFX_LDS) {
            check_lds(t, in);
            expect_number(t, "returns", returns, !!(in->flags & GFX_F_RETURN));
        } else {
            check_memory(t, in);
        }
        break;
    case GFX_C_DS:
        check_lds(t, in);
        break;
    case GFX_C_MATRIX:
        check_matrix(t, in);
        break;
    default:
        check_vector(t, in, half_of_pair);
    }
    if (t->at != t->n) {
        wrong(t, "operand that was not decoded", t->operand[t->at < 8 ? t->at : 7]);
    }
    return t->why;
}
