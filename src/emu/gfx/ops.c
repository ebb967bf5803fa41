// ops: what there is to know of each operation without executing it, and how a decoded instruction
// becomes one that runs.
#include "emu/gfx/impl.h"

#include <stdio.h>

#define T(t)    GFX_T_##t
#define GFX_O_0 0

// What a constant in the place of a matrix C is; that of bf16 is made from the float's (matrix.c).
enum {
    GFX_MATRIX_F16 = GFX_T_F16,
    GFX_MATRIX_BF16 = GFX_T_F32,
    GFX_MATRIX_F32 = GFX_T_F32,
    GFX_MATRIX_F64 = GFX_T_F64,
    GFX_MATRIX_I32 = GFX_T_B32,
};

const struct gfx_op_info gfx_op_info[GFX_OP_COUNT] = {
    [GFX_OP_INVALID] = {.name = "?"},
#define SALU(n, d, a, b)                                                                           \
    [GFX_##n] = {.name = #n, .class = GFX_C_SALU, .dst = T(d), .src = {T(a), T(b)}},
#define SCTL(n, d, a) [GFX_##n] = {.name = #n, .class = GFX_C_SCTL, .dst = T(d), .src = {T(a)}},
#define SMEM(n, k, b) [GFX_##n] = {.name = #n, .class = GFX_C_SMEM, .kind = GFX_M_##k, .bytes = b},
#define VALU(n, d, a, b, c, f)                                                                     \
    [GFX_##n] = {.name = #n,                                                                       \
                 .class = GFX_C_VALU,                                                              \
                 .dst = T(d),                                                                      \
                 .src = {T(a), T(b), T(c)},                                                        \
                 .flags = GFX_O_##f},
#define VCMP(n, a, b)                                                                              \
    [GFX_##n] = {.name = #n, .class = GFX_C_VCMP, .dst = GFX_T_M, .src = {T(a), T(b)}},
#define VLANE(n, d, a, b, c)                                                                       \
    [GFX_##n] = {.name = #n, .class = GFX_C_VLANE, .dst = T(d), .src = {T(a), T(b), T(c)}},
#define MEM(n, k, b, f)                                                                            \
    [GFX_##n] = {.name = #n, .class = GFX_C_MEM, .kind = GFX_M_##k, .form = GFX_X_##f, .bytes = b},
#define DS(n, b) [GFX_##n] = {.name = #n, .class = GFX_C_DS, .bytes = b},
#include "emu/gfx/ops.def"
#define MATRIX(n, d)                                                                               \
    [GFX_##n] = {.name = #n,                                                                       \
                 .class = GFX_C_MATRIX,                                                            \
                 .dst = GFX_MATRIX_##d,                                                            \
                 .src = {GFX_T_B32, GFX_T_B32, GFX_MATRIX_##d}},
#define MFMA(name, gfx90a, gfx942, ab, d, m, n, k, blocks) MATRIX(name, d)
#define WMMA(name, gfx11, ab, d, m, n, k, blocks)          MATRIX(name, d)
#include "emu/gfx/matrix.def"
};

static const gfx_lanes_fn lanes_of[GFX_OP_COUNT] = {
#define VALU(n, d, a, b, c, f) [GFX_##n] = gfx_do_##n,
#define VCMP(n, a, b)          [GFX_##n] = gfx_do_##n,
#include "emu/gfx/ops.def"
};

static const gfx_step_fn step_of[GFX_OP_COUNT] = {
#define SCTL(n, d, a) [GFX_##n] = gfx_do_##n,
#include "emu/gfx/ops.def"
};

static const gfx_step_fn step_of_class[] = {
    [GFX_C_SALU] = gfx_step_salu, [GFX_C_SCTL] = NULL,          [GFX_C_SMEM] = gfx_step_smem,
    [GFX_C_VALU] = gfx_step_valu, [GFX_C_VCMP] = gfx_step_vcmp, [GFX_C_VLANE] = gfx_step_lane,
    [GFX_C_MEM] = gfx_step_mem,   [GFX_C_DS] = gfx_step_ds,     [GFX_C_MATRIX] = gfx_step_matrix,
};

// ---- constants ----

static const struct {
    uint16_t h;
    uint32_t s;
    uint64_t d;
} inline_floats[9] = {
    {0x3800, 0x3f000000, 0x3fe0000000000000}, // 0.5
    {0xb800, 0xbf000000, 0xbfe0000000000000},
    {0x3c00, 0x3f800000, 0x3ff0000000000000}, // 1
    {0xbc00, 0xbf800000, 0xbff0000000000000},
    {0x4000, 0x40000000, 0x4000000000000000}, // 2
    {0xc000, 0xc0000000, 0xc000000000000000},
    {0x4400, 0x40800000, 0x4010000000000000}, // 4
    {0xc400, 0xc0800000, 0xc010000000000000},
    {0x3118, 0x3e22f983, 0x3fc45f306dc9c882}, // 1 / (2 pi)
};

bool gfx_inline_constant(unsigned encoding, enum gfx_type type, uint64_t * value) {
    bool wide = type == GFX_T_B64 || type == GFX_T_I64 || type == GFX_T_F64 || type == GFX_T_M;
    if (encoding >= 128 && encoding <= 208) {
        int v = encoding <= 192 ? (int) encoding - 128 : 192 - (int) encoding;
        *value = wide ? (uint64_t) (int64_t) v : (uint32_t) v;
        return true;
    }
    if (encoding < 240 || encoding > 248) {
        return false;
    }
    unsigned k = encoding - 240;
    switch (type) {
    case GFX_T_B16:
    case GFX_T_F16:
    case GFX_T_P16:
        *value = inline_floats[k].h;
        break;
    case GFX_T_B64:
    case GFX_T_I64:
    case GFX_T_F64:
    case GFX_T_M:
        *value = inline_floats[k].d;
        break;
    default:
        *value = inline_floats[k].s;
    }
    return true;
}

uint64_t gfx_literal(uint32_t literal, enum gfx_type type) {
    switch (type) {
    case GFX_T_F64:
        return (uint64_t) literal << 32;
    case GFX_T_I64:
        return (uint64_t) (int64_t) (int32_t) literal;
    default:
        return literal;
    }
}

// ---- preparing ----

static bool vgpr_dst_fits(const struct gfx_inst * in, int words) {
    return in->dst.kind != GFX_K_VGPR || in->dst.reg + words <= GFX_VGPR_COUNT + VGPR_PAD;
}

// ---- kinds ----

const char * gfx_kind_name(enum gfx_kind kind) {
    static const char * const names[GFX_KINDS] = {"scalar", "wait", "constants", "vector",
                                                  "dual",   "dot",  "matrix",    "load",
                                                  "store",  "LDS",  "scratch"};
    return names[kind];
}

static enum gfx_kind kind_of(const struct gfx_inst * in) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    switch (info->class) {
    case GFX_C_SCTL:
        return !strncmp(info->name, "s_wait", 6) || in->op == GFX_s_nop ||
                       in->op == GFX_s_barrier || in->op == GFX_s_sleep
                   ? GFX_KIND_WAIT
                   : GFX_KIND_SCALAR;
    case GFX_C_SALU:
        return GFX_KIND_SCALAR;
    case GFX_C_SMEM:
        return info->kind == GFX_M_LOAD ? GFX_KIND_CONST : GFX_KIND_WAIT;
    case GFX_C_MATRIX:
        return GFX_KIND_MATRIX;
    case GFX_C_DS:
        return GFX_KIND_LDS;
    case GFX_C_MEM:
        return in->segment == GFX_LDS       ? GFX_KIND_LDS
               : info->kind == GFX_M_FENCE  ? GFX_KIND_WAIT
               : in->segment == GFX_SCRATCH ? GFX_KIND_SCRATCH
               : info->kind == GFX_M_LOAD   ? GFX_KIND_LOAD
                                            : GFX_KIND_STORE;
    default:
        return !strncmp(info->name, "v_dot", 5) ? GFX_KIND_DOT : GFX_KIND_VECTOR;
    }
}

bool gfx_prepare(struct gfx_inst * in) {
    const struct gfx_op_info * info = &gfx_op_info[in->op];
    in->lanes = lanes_of[in->op];
    in->step = info->class == GFX_C_SCTL ? step_of[in->op] : step_of_class[info->class];
    if (info->class == GFX_C_MEM && in->segment == GFX_LDS) {
        in->step = gfx_step_lds;
    }
    if (info->flags & GFX_O_TIED) {
        in->src[2] = in->dst;
        in->src[2].neg = in->src[2].abs = 0;
    }
    bool mods = in->flags & (GFX_F_SDWA | GFX_F_DPP | GFX_F_DPP8 | GFX_F_KEEP | GFX_F_HIGH);
    for (int i = 0; i < 3; i++) {
        mods |= in->src[i].neg || in->src[i].abs;
    }
    bool packed = info->src[0] == GFX_T_P16 || info->src[0] == GFX_T_P32;
    mods |= in->op_sel || in->neg_hi || (packed && in->op_sel_hi != 7);
    bool is_float = info->dst == GFX_T_F16 || info->dst == GFX_T_F32 || info->dst == GFX_T_F64 ||
                    info->dst == GFX_T_P16 || info->dst == GFX_T_P32;
    mods |= in->omod || ((in->flags & GFX_F_CLAMP) && is_float) || (info->flags & GFX_O_ALIAS);
    in->plain = !mods;
    in->kind = (uint8_t) kind_of(in);
    bool memory = info->class == GFX_C_MEM || info->class == GFX_C_DS || info->class == GFX_C_SMEM;
    in->bytes = memory ? info->bytes : 0;
    return in->step && in->op != GFX_OP_INVALID && !(in->flags & GFX_F_LDS_DMA) &&
           vgpr_dst_fits(in, 16);
}

// ---- names ----

const char * gfx_inst_name(const struct gfx_inst * in, char * text, size_t size) {
    static const char * const segments[] = {
        [GFX_GLOBAL] = "global_", [GFX_FLAT] = "flat_", [GFX_SCRATCH] = "scratch_",
        [GFX_BUFFER] = "buffer_", [GFX_LDS] = "ds_",
    };
    const struct gfx_op_info * info = &gfx_op_info[in->op < GFX_OP_COUNT ? in->op : 0];
    const char * name = info->name;
    if (info->class == GFX_C_MEM && info->kind != GFX_M_FENCE) {
        if (in->segment == GFX_LDS && !strncmp(name, "atomic_", 7)) {
            name += 7;
        }
        snprintf(text, size, "%s%s", segments[in->segment], name);
    } else if (in->flags & GFX_F_CMPX) {
        snprintf(text, size, "v_cmpx_%s", name + 6);
    } else {
        snprintf(text, size, "%s", name);
    }
    return text;
}
