// lanes: datatype edges and lane arithmetic for aie2. bf16 converts in the load and store units; f16
// has no hardware at all and is taken apart with integer lanes, exactly, denormals included.
#include "lanes.h"

#include "aie/isa/aie2.h"

enum { ROUND_NEAREST_EVEN = 12 };

// The float adder's configuration word as compilers for this core give it: f32 lanes, nothing negated.
enum { FLOAT_ADD_CONFIG = 28 };

static const struct lane_edge edges[DTYPE_COUNT] = {
    [DTYPE_F32] = {true, 64, 4}, [DTYPE_F16] = {true, 32, 2}, [DTYPE_BF16] = {true, 32, 4},
    [DTYPE_I8] = {false, 64, 4}, [DTYPE_I16] = {false, 64, 4}, [DTYPE_I32] = {false, 64, 4},
};

const struct lane_edge * lanes_edge(enum dtype t) {
    return &edges[t];
}

// ---- small emitters ----

static struct asm_reg vec2(struct lanes * l, int op, struct asm_reg a, struct asm_reg b) {
    struct asm_reg d = asm_local(l->p, ASM_X);
    ASM(l->p, op, A_REG(d), A_REG(a), A_REG(b));
    return d;
}

static struct asm_reg compare(struct lanes * l, int op, struct asm_reg a, struct asm_reg b) {
    struct asm_reg mask = asm_local(l->p, ASM_MASK);
    ASM(l->p, op, A_REG(mask), A_REG(a), A_REG(b));
    return mask;
}

// Lane by lane: if_set where the mask has a one.
static struct asm_reg choose(struct lanes * l, int op, struct asm_reg if_clear, struct asm_reg if_set,
                             struct asm_reg mask) {
    struct asm_reg d = asm_local(l->p, ASM_X);
    ASM(l->p, op, A_REG(d), A_REG(if_clear), A_REG(if_set), A_REG(mask));
    return d;
}

static struct asm_reg to_vector(struct lanes * l, struct asm_reg bm) {
    struct asm_reg x = asm_local(l->p, ASM_X);
    ASM(l->p, AIE2_VMOV_mv_x, A_REG(x), A_REG(bm));
    return x;
}

static struct asm_reg to_float(struct lanes * l, struct asm_reg x) {
    struct asm_reg bm = asm_local(l->p, ASM_BM);
    ASM(l->p, AIE2_VMOV_mv_x, A_REG(bm), A_REG(x));
    return bm;
}

static struct asm_reg float2(struct lanes * l, int op, struct asm_reg a, struct asm_reg b) {
    struct asm_reg d = asm_local(l->p, ASM_BM);
    ASM(l->p, op, A_REG(d), A_REG(a), A_REG(b), A_REG(l->float_config));
    return d;
}

// The low 16 bits of (32-bit lane >> shift), rounded, in the low half of a vector.
static struct asm_reg narrow(struct lanes * l, struct asm_reg x, struct asm_reg shift) {
    struct asm_reg d = asm_local(l->p, ASM_X);
    ASM(l->p, AIE2_VSRS_S16_S32_mv_w_srs, A_LO(d), A_REG(to_float(l, x)), A_REG(shift));
    return d;
}

// ---- constants ----

// f16 <-> f32 in 32-bit lanes. "Raised" is an f16 magnitude shifted to f32's mantissa: exponent e and
// mantissa m of f16 stand at bits 27..23 and 22..13.
enum {
    RAISED = 0x0fffe000,         // the bits of a raised magnitude
    REBIAS = 0x38000000,         // 112 << 23: from f16's exponent bias to f32's
    RAISED_INF = 0x0f800000,     // raised exponent 31
    RAISED_NAN = 0x0fc00000,     // a quiet NaN, raised
    RAISED_NORMAL = 0x00800000,  // smallest raised normal
    SMALLEST = 0x38800000,       // f32 2^-14, f16's smallest normal
    HALF = 0x3f000000,           // f32 0.5: its last bit weighs 2^-24, like f16's denormals
    F32_INF = 0x7f800000,
    MAGNITUDE = 0x7fffffff,
};
#define SIGN 0x80000000u

static struct asm_reg konst(struct lanes * l, uint32_t value) {
    for (int i = 0; i < l->n_consts; i++) {
        if (l->consts[i].value == value) {
            if (l->consts[i].pinned) {
                return l->consts[i].vector;
            }
            struct asm_reg x = asm_local(l->p, ASM_X);
            ASM(l->p, AIE2_VBCST_32, A_REG(x), A_REG(l->consts[i].scalar));
            return x;
        }
    }
    return asm_local(l->p, ASM_X); // never written: the scheduler reports it
}

static void add_konst(struct lanes * l, uint32_t value, bool pinned) {
    int i = l->n_consts++;
    l->consts[i].value = value;
    l->consts[i].pinned = pinned;
    l->consts[i].scalar = pinned ? asm_local(l->p, ASM_R) : asm_global(l->p, ASM_R);
    ASM(l->p, AIE2_MOVXM_lng_cg, A_REG(l->consts[i].scalar), A_IMM((int32_t) value));
    if (pinned) {
        l->consts[i].vector = asm_global(l->p, ASM_X);
        ASM(l->p, AIE2_VBCST_32, A_REG(l->consts[i].vector), A_REG(l->consts[i].scalar));
    }
}

static struct asm_reg scalar(struct lanes * l, int32_t value) {
    struct asm_reg r = asm_global(l->p, ASM_R);
    ASM(l->p, AIE2_MOVX_alu_cg, A_REG(r), A_IMM(value));
    return r;
}

static struct asm_reg shift_by(struct lanes * l, int amount) {
    struct asm_reg r = asm_local(l->p, ASM_R);
    struct asm_reg s = asm_global(l->p, ASM_S);
    ASM(l->p, AIE2_MOVX_alu_cg, A_REG(r), A_IMM(amount));
    ASM(l->p, AIE2_MOV_mv_scl, A_REG(s), A_REG(r));
    return s;
}

static void begin_f16(struct lanes * l) {
    // Those used more than once per vector stay in registers; the others are made where needed.
    add_konst(l, RAISED, true);
    add_konst(l, REBIAS, true);
    add_konst(l, RAISED_INF, true);
    add_konst(l, SMALLEST, true);
    add_konst(l, RAISED_NORMAL, true);
    add_konst(l, SIGN, true);
    add_konst(l, MAGNITUDE, false);
    add_konst(l, F32_INF, false);
    add_konst(l, RAISED_NAN, false);
    add_konst(l, HALF, false);
    l->smallest_f16 = asm_global(l->p, ASM_BM);
    l->half = asm_global(l->p, ASM_BM);
    ASM(l->p, AIE2_VMOV_mv_x, A_REG(l->smallest_f16), A_REG(konst(l, SMALLEST)));
    ASM(l->p, AIE2_VMOV_mv_x, A_REG(l->half), A_REG(konst(l, HALF)));
    l->shift0 = shift_by(l, 0);
    l->shift13 = shift_by(l, 13);
    l->shift16 = shift_by(l, 16);
}

void lanes_begin(struct lanes * l, struct asm_program * p, enum dtype t) {
    *l = (struct lanes) {.p = p, .dtype = t};
    l->minus_one = scalar(l, -1);
    l->one = scalar(l, 1);
    if (!edges[t].is_float) {
        return;
    }
    struct asm_reg mode = asm_local(p, ASM_R);
    ASM(p, AIE2_MOVX_alu_cg, A_REG(mode), A_IMM(ROUND_NEAREST_EVEN));
    ASM(p, AIE2_MOVX_mvx_scl, A_FIXED(AIE_REG(AIE_CR, AIE_CR_RND)), A_REG(mode));
    l->float_config = scalar(l, FLOAT_ADD_CONFIG);
    if (t == DTYPE_F16) {
        begin_f16(l);
    }
}

// ---- f16 ----

static struct asm_reg f16_to_float(struct lanes * l, struct asm_reg raw /* low half */) {
    struct asm_reg up = asm_local(l->p, ASM_BM);
    ASM(l->p, AIE2_VUPS_S32_S16_mv_ups_w2b, A_REG(up), A_LO(raw), A_REG(l->shift13));
    struct asm_reg x = to_vector(l, up); // sign at the top, magnitude raised, copies of the sign between
    struct asm_reg sign = vec2(l, AIE2_VBAND, x, konst(l, SIGN));
    struct asm_reg m = vec2(l, AIE2_VBAND, x, konst(l, RAISED));
    struct asm_reg normal = vec2(l, AIE2_VADD_32, m, konst(l, REBIAS));
    struct asm_reg special = vec2(l, AIE2_VADD_32, normal, konst(l, REBIAS)); // inf, nan: exponent 255
    struct asm_reg is_special = compare(l, AIE2_VGE_S32, m, konst(l, RAISED_INF));
    struct asm_reg big = choose(l, AIE2_VSEL_32, normal, special, is_special);
    // A denormal m * 2^-24 is (2^-14 + m * 2^-24) - 2^-14, and both are easy to write down.
    struct asm_reg lifted = to_float(l, vec2(l, AIE2_VADD_32, m, konst(l, SMALLEST)));
    struct asm_reg small = to_vector(l, float2(l, AIE2_VSUB_F, lifted, l->smallest_f16));
    struct asm_reg is_small = compare(l, AIE2_VLT_S32, m, konst(l, RAISED_NORMAL));
    struct asm_reg magnitude = choose(l, AIE2_VSEL_32, big, small, is_small);
    return to_float(l, vec2(l, AIE2_VBOR, magnitude, sign));
}

static struct asm_reg float_to_f16(struct lanes * l, struct asm_reg bm) { // result in the low half
    struct asm_reg x = to_vector(l, bm);
    struct asm_reg sign = vec2(l, AIE2_VBAND, x, konst(l, SIGN));
    struct asm_reg m = vec2(l, AIE2_VBAND, x, konst(l, MAGNITUDE));
    struct asm_reg is_nan = compare(l, AIE2_VLT_S32, konst(l, F32_INF), m);
    struct asm_reg is_small = compare(l, AIE2_VLT_S32, m, konst(l, SMALLEST));
    struct asm_reg rebiased = vec2(l, AIE2_VSUB_32, m, konst(l, REBIAS));
    struct asm_reg clamped = asm_local(l->p, ASM_X), unused = asm_local(l->p, ASM_MASK);
    ASM(l->p, AIE2_VMIN_GE_S32, A_REG(clamped), A_REG(unused), A_REG(rebiased),
        A_REG(konst(l, RAISED_INF)));
    struct asm_reg raised = choose(l, AIE2_VSEL_32, clamped, konst(l, RAISED_NAN), is_nan);
    struct asm_reg normal = narrow(l, raised, l->shift13); // rounds, a carry runs into the exponent
    // |x| + 0.5 rounds at 2^-24, f16's last place for denormals; what was added stands in the bits.
    struct asm_reg sum = to_vector(l, float2(l, AIE2_VADD_F, to_float(l, m), l->half));
    struct asm_reg small = narrow(l, vec2(l, AIE2_VSUB_32, sum, konst(l, HALF)), l->shift0);
    struct asm_reg magnitude = choose(l, AIE2_VSEL_16, normal, small, is_small);
    return vec2(l, AIE2_VBOR, magnitude, narrow(l, sign, l->shift16));
}

// ---- edges ----

// 64 bytes through the address pointer, which moves on.
static struct asm_reg load_vector(struct lanes * l, struct asm_reg pointer, int memory) {
    struct asm_reg x = asm_local(l->p, ASM_X);
    ASM_MEM(l->p, AIE2_VLDA_dmw_lda_w_ag_pstm_nrm_imm, memory, A_LO(x), A_REG(pointer), A_IMM(32));
    ASM_MEM(l->p, AIE2_VLDA_dmw_lda_w_ag_pstm_nrm_imm, memory, A_HI(x), A_REG(pointer), A_IMM(32));
    return x;
}

struct lane lanes_load(struct lanes * l, struct asm_reg pointer, int memory) {
    struct asm_reg bm;
    switch (l->dtype) {
    case DTYPE_F32:
        bm = asm_local(l->p, ASM_BM);
        ASM_MEM(l->p, AIE2_VLDA_dmw_lda_am_ag_pstm_nrm_imm, memory, A_LO(bm), A_REG(pointer), A_IMM(32));
        ASM_MEM(l->p, AIE2_VLDA_dmw_lda_am_ag_pstm_nrm_imm, memory, A_HI(bm), A_REG(pointer), A_IMM(32));
        return (struct lane) {bm};
    case DTYPE_BF16:
        bm = asm_local(l->p, ASM_BM);
        ASM_MEM(l->p, AIE2_VLDA_CONV_FP32_BF16_pstm_nrm_imm, memory, A_REG(bm), A_REG(pointer), A_IMM(32));
        return (struct lane) {bm};
    case DTYPE_F16: {
        struct asm_reg raw = asm_local(l->p, ASM_X);
        ASM_MEM(l->p, AIE2_VLDA_dmw_lda_w_ag_pstm_nrm_imm, memory, A_LO(raw), A_REG(pointer), A_IMM(32));
        return (struct lane) {f16_to_float(l, raw)};
    }
    default:
        return (struct lane) {load_vector(l, pointer, memory)};
    }
}

void lanes_store(struct lanes * l, struct lane v, struct asm_reg pointer, int memory) {
    switch (l->dtype) {
    case DTYPE_F32:
        ASM_MEM(l->p, AIE2_VST_dmw_sts_am_ag_pstm_nrm_imm, memory, A_REG(pointer), A_LO(v.reg), A_IMM(32));
        ASM_MEM(l->p, AIE2_VST_dmw_sts_am_ag_pstm_nrm_imm, memory, A_REG(pointer), A_HI(v.reg), A_IMM(32));
        break;
    case DTYPE_BF16:
        ASM_MEM(l->p, AIE2_VST_CONV_BF16_FP32_ag_pstm_nrm_imm, memory, A_REG(pointer), A_IMM(32),
                A_REG(v.reg));
        break;
    case DTYPE_F16:
        ASM_MEM(l->p, AIE2_VST_dmw_sts_w_ag_pstm_nrm_imm, memory, A_REG(pointer),
                A_LO(float_to_f16(l, v.reg)), A_IMM(32));
        break;
    default:
        ASM_MEM(l->p, AIE2_VST_dmw_sts_w_ag_pstm_nrm_imm, memory, A_REG(pointer), A_LO(v.reg), A_IMM(32));
        ASM_MEM(l->p, AIE2_VST_dmw_sts_w_ag_pstm_nrm_imm, memory, A_REG(pointer), A_HI(v.reg), A_IMM(32));
        break;
    }
}

void lanes_splat(struct lanes * l, struct asm_reg r, struct asm_reg to) {
    static const int broadcast[DTYPE_COUNT] = {
        [DTYPE_F32] = AIE2_VBCST_32, [DTYPE_F16] = AIE2_VBCST_16, [DTYPE_BF16] = AIE2_VBCST_16,
        [DTYPE_I8] = AIE2_VBCST_8,   [DTYPE_I16] = AIE2_VBCST_16, [DTYPE_I32] = AIE2_VBCST_32,
    };
    struct asm_reg x = edges[l->dtype].is_float ? asm_local(l->p, ASM_X) : to;
    ASM(l->p, broadcast[l->dtype], A_REG(x), A_REG(r));
    switch (l->dtype) {
    case DTYPE_F32:
        ASM(l->p, AIE2_VMOV_mv_x, A_REG(to), A_REG(x));
        break;
    case DTYPE_BF16:
        ASM(l->p, AIE2_VCONV_FP32_BF16, A_REG(to), A_LO(x));
        break;
    case DTYPE_F16:
        ASM(l->p, AIE2_VMOV_mv_x, A_REG(to), A_REG(f16_to_float(l, x)));
        break;
    default:
        break;
    }
}

// ---- arithmetic ----

struct lane lane_add(struct lanes * l, struct lane a, struct lane b) {
    static const int integer[DTYPE_COUNT] = {
        [DTYPE_I8] = AIE2_VADD_8, [DTYPE_I16] = AIE2_VADD_16, [DTYPE_I32] = AIE2_VADD_32};
    if (edges[l->dtype].is_float) {
        return (struct lane) {float2(l, AIE2_VADD_F, a.reg, b.reg)};
    }
    return (struct lane) {vec2(l, integer[l->dtype], a.reg, b.reg)};
}
