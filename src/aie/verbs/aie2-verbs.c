// aie2-verbs: the machine verbs of XDNA. A value is 16 lanes of f32: one 512-bit vector, one
// 512-bit accumulator, or the two halves of a vector as bf16 pieces. Loads and stores move 32
// bytes, so a vector takes two; the multiplier makes two bf16 products a lane at once.
//
// Kept true: integers are only multiplied in modes whose products were seen on silicon.
#include "verbs.h"

#include "aie/isa/aie2.h"

extern const struct aie_verbs verbs_aie2;

enum { MOVE = 32 }; // bytes of a load or store

static void begin(struct asm_program * p) {
    (void) p; // an op sets the modes that it relies on
}

// ---- memory ----

static bool is_acc(const struct asm_program * p, struct asm_reg r) {
    enum asm_class cls = asm_class_of(p, r);
    return cls == ASM_BM || cls == ASM_CM;
}

// The parts of a register that a load or store moves; returns how many.
static int moved(const struct asm_program * p, struct asm_reg r, struct asm_reg parts[4]) {
    bool wide = asm_class_of(p, r) == ASM_CM;
    if (wide && r.part < 2) {
        int first = r.part < 0 ? 0 : 2 * r.part, n = r.part < 0 ? 4 : 2;
        for (int i = 0; i < n; i++) {
            parts[i] = asm_quarter(r, first + i);
        }
        return n;
    }
    if (wide || r.part >= 0) {
        parts[0] = r;
        return 1;
    }
    parts[0] = asm_half(r, 0);
    parts[1] = asm_half(r, 1);
    return 2;
}

static void load(struct asm_program * p, int memory, struct asm_reg d, struct asm_reg pointer,
                 int32_t offset) {
    static const int ops[2] = {AIE2_VLDA_dmw_lda_w_ag_idx_imm, AIE2_VLDA_dmw_lda_am_ag_idx_imm};
    struct asm_reg parts[4];
    int n = moved(p, d, parts);
    for (int i = 0; i < n; i++) {
        ASM_MEM(p, ops[is_acc(p, d)], memory, A_REG(parts[i]), A_REG(pointer),
                A_IMM(offset + MOVE * i));
    }
}

static void load_next(struct asm_program * p, int memory, struct asm_reg d,
                      struct asm_reg pointer) {
    static const int ops[2] = {AIE2_VLDA_dmw_lda_w_ag_pstm_nrm_imm,
                               AIE2_VLDA_dmw_lda_am_ag_pstm_nrm_imm};
    struct asm_reg parts[4];
    int n = moved(p, d, parts);
    for (int i = 0; i < n; i++) {
        ASM_MEM(p, ops[is_acc(p, d)], memory, A_REG(parts[i]), A_REG(pointer), A_IMM(MOVE));
    }
}

static void store(struct asm_program * p, int memory, struct asm_reg a, struct asm_reg pointer,
                  int32_t offset) {
    static const int ops[2] = {AIE2_VST_dmw_sts_w_ag_idx_imm, AIE2_VST_dmw_sts_am_ag_idx_imm};
    struct asm_reg parts[4];
    int n = moved(p, a, parts);
    for (int i = 0; i < n; i++) {
        ASM_MEM(p, ops[is_acc(p, a)], memory, A_REG(parts[i]), A_REG(pointer),
                A_IMM(offset + MOVE * i));
    }
}

static void store_next(struct asm_program * p, int memory, struct asm_reg a,
                       struct asm_reg pointer) {
    static const int ops[2] = {AIE2_VST_dmw_sts_w_ag_pstm_nrm_imm,
                               AIE2_VST_dmw_sts_am_ag_pstm_nrm_imm};
    struct asm_reg parts[4];
    int n = moved(p, a, parts);
    for (int i = 0; i < n; i++) {
        ASM_MEM(p, ops[is_acc(p, a)], memory, A_REG(pointer), A_REG(parts[i]), A_IMM(MOVE));
    }
}

static void load_by(struct asm_program * p, int memory, struct asm_reg half, struct asm_reg pointer,
                    struct asm_arg step) {
    ASM_MEM(p, AIE2_VLDA_dmw_lda_w_ag_pstm_nrm, memory, A_REG(half), A_REG(pointer), step);
}

static void load_nibbles_by(struct asm_program * p, int memory, struct asm_reg d,
                            struct asm_reg pointer, struct asm_arg step) {
    ASM_MEM(p, AIE2_VLDB_UNPACK_D8_D4_pstm_nrm, memory, A_REG(d), A_REG(pointer), step);
}

static void load_same(struct asm_program * p, int memory, struct asm_reg d, struct asm_reg pointer,
                      int32_t offset) {
    struct asm_reg parts[4];
    int n = moved(p, d, parts);
    for (int i = 0; i < n; i++) {
        load(p, memory, parts[i], pointer, offset);
    }
}

static void load_bf16(struct asm_program * p, int memory, struct asm_reg acc,
                      struct asm_reg pointer, int32_t offset) {
    ASM_MEM(p, AIE2_VLDA_CONV_FP32_BF16_ag_idx_imm, memory, A_REG(acc), A_REG(pointer),
            A_IMM(offset));
}

static void load_bf16_next(struct asm_program * p, int memory, struct asm_reg acc,
                           struct asm_reg pointer) {
    ASM_MEM(p, AIE2_VLDA_CONV_FP32_BF16_pstm_nrm_imm, memory, A_REG(acc), A_REG(pointer),
            A_IMM(MOVE));
}

static void store_bf16(struct asm_program * p, int memory, struct asm_reg acc,
                       struct asm_reg pointer, int32_t offset) {
    ASM_MEM(p, AIE2_VST_CONV_BF16_FP32_ag_idx_imm, memory, A_REG(pointer), A_IMM(offset),
            A_REG(acc));
}

static void store_bf16_next(struct asm_program * p, int memory, struct asm_reg acc,
                            struct asm_reg pointer) {
    ASM_MEM(p, AIE2_VST_CONV_BF16_FP32_ag_pstm_nrm_imm, memory, A_REG(pointer), A_IMM(MOVE),
            A_REG(acc));
}

static void store_bf16_by(struct asm_program * p, int memory, struct asm_reg acc,
                          struct asm_reg pointer, struct asm_arg step) {
    ASM_MEM(p, AIE2_VST_CONV_BF16_FP32_ag_pstm_nrm, memory, A_REG(pointer), step, A_REG(acc));
}

static void load_scalar(struct asm_program * p, int memory, int width, struct asm_arg d,
                        struct asm_reg pointer, int32_t offset) {
    static const int ops[LANE_WIDTHS] = {AIE2_LDA_U8_ag_idx_imm, AIE2_LDA_U16_ag_idx_imm,
                                         AIE2_LDA_dms_lda_idx_imm};
    ASM_MEM(p, ops[width], memory, d, A_REG(pointer), A_IMM(offset));
}

static void load_word_next(struct asm_program * p, int memory, struct asm_reg d,
                           struct asm_reg pointer) {
    ASM_MEM(p, AIE2_LDA_dms_lda_pstm_nrm_imm, memory, A_REG(d), A_REG(pointer), A_IMM(4));
}

static void store_word(struct asm_program * p, int memory, struct asm_reg a, struct asm_reg pointer,
                       int32_t offset) {
    ASM_MEM(p, AIE2_ST_dms_sts_idx_imm, memory, A_REG(a), A_REG(pointer), A_IMM(offset));
}

static void advance(struct asm_program * p, struct asm_reg pointer, int32_t bytes) {
    ASM(p, AIE2_PADDA_lda_ptr_inc_idx_imm, A_REG(pointer), A_IMM(bytes));
}

static void walk(struct asm_program * p, struct asm_reg pointer, int walk) {
    ASM(p, AIE2_PADDA_2D, A_REG(pointer), A_FIXED(AIE_REG(AIE_D, walk)));
}

// ---- registers ----

static void splat(struct asm_program * p, int width, struct asm_reg d, struct asm_reg r) {
    static const int ops[LANE_WIDTHS] = {AIE2_VBCST_8, AIE2_VBCST_16, AIE2_VBCST_32};
    ASM(p, ops[width], A_REG(d), A_REG(r));
}

static void move(struct asm_program * p, struct asm_reg d, struct asm_reg a) {
    ASM(p, AIE2_VMOV_mv_x, A_REG(d), A_REG(a));
}

static void to_bf16(struct asm_program * p, struct asm_reg half, struct asm_reg acc) {
    ASM(p, AIE2_VCONV_BF16_FP32, A_REG(half), A_REG(acc));
}

static void from_bf16(struct asm_program * p, struct asm_reg acc, struct asm_reg half) {
    ASM(p, AIE2_VCONV_FP32_BF16, A_REG(acc), A_REG(half));
}

// ---- lanes ----

static void lanes(struct asm_program * p, enum lane_op op, int width, struct asm_reg d,
                  struct asm_reg a, struct asm_reg b) {
    static const int ops[LANE_OPS][LANE_WIDTHS] = {
        [LANE_AND] = {AIE2_VBAND, AIE2_VBAND, AIE2_VBAND},
        [LANE_OR] = {AIE2_VBOR, AIE2_VBOR, AIE2_VBOR},
        [LANE_ADD] = {AIE2_VADD_8, AIE2_VADD_16, AIE2_VADD_32},
        [LANE_SUB] = {AIE2_VSUB_8, AIE2_VSUB_16, AIE2_VSUB_32},
    };
    ASM(p, ops[op][width], A_REG(d), A_REG(a), A_REG(b));
}

static void choose(struct asm_program * p, enum lane_choice op, int width, struct asm_reg d,
                   struct asm_reg mask, struct asm_reg a, struct asm_reg b) {
    static const int ops[LANE_CHOICES][LANE_WIDTHS] = {
        [LANE_MAX] = {AIE2_VMAX_LT_S8, AIE2_VMAX_LT_S16, AIE2_VMAX_LT_S32},
        [LANE_MIN] = {AIE2_VMIN_GE_S8, AIE2_VMIN_GE_S16, AIE2_VMIN_GE_S32},
        [LANE_MIN_UNSIGNED] = {AIE2_VMIN_GE_D8, AIE2_VMIN_GE_D16, AIE2_VMIN_GE_D32},
    };
    ASM(p, ops[op][width], A_REG(d), A_REG(mask), A_REG(a), A_REG(b));
}

static void magnitude(struct asm_program * p, int width, struct asm_reg d, struct asm_reg mask,
                      struct asm_reg a) {
    static const int ops[LANE_WIDTHS] = {AIE2_VABS_GTZ_S8, AIE2_VABS_GTZ_S16, AIE2_VABS_GTZ_S32};
    ASM(p, ops[width], A_REG(d), A_REG(mask), A_REG(a));
}

static void compare(struct asm_program * p, enum lane_compare op, int width, struct asm_reg mask,
                    struct asm_reg a, struct asm_reg b) {
    static const int ops[LANE_COMPARES][LANE_WIDTHS] = {
        [LANE_LESS] = {AIE2_VLT_S8, AIE2_VLT_S16, AIE2_VLT_S32},
        [LANE_NOT_LESS] = {AIE2_VGE_S8, AIE2_VGE_S16, AIE2_VGE_S32},
        [LANE_NOT_LESS_UNSIGNED] = {AIE2_VGE_D8, AIE2_VGE_D16, AIE2_VGE_D32},
    };
    ASM(p, ops[op][width], A_REG(mask), A_REG(a), A_REG(b));
}

static void is_zero(struct asm_program * p, int width, struct asm_reg mask, struct asm_reg a) {
    static const int ops[LANE_WIDTHS] = {AIE2_VEQZ_8, AIE2_VEQZ_16, AIE2_VEQZ_32};
    ASM(p, ops[width], A_REG(mask), A_REG(a));
}

static void select(struct asm_program * p, int width, struct asm_reg d, struct asm_reg a,
                   struct asm_reg b, struct asm_reg mask) {
    static const int ops[LANE_WIDTHS] = {AIE2_VSEL_8, AIE2_VSEL_16, AIE2_VSEL_32};
    ASM(p, ops[width], A_REG(d), A_REG(a), A_REG(b), A_REG(mask));
}

static void add_or_sub(struct asm_program * p, int width, struct asm_reg d, struct asm_reg a,
                       struct asm_reg b, struct asm_reg mask) {
    static const int ops[LANE_WIDTHS] = {AIE2_VADDSUB_8, AIE2_VADDSUB_16, AIE2_VADDSUB_32};
    ASM(p, ops[width], A_REG(d), A_REG(a), A_REG(b), A_REG(mask));
}

static void excess(struct asm_program * p, int width, struct asm_reg d, struct asm_reg a,
                   struct asm_reg b) {
    static const int ops[LANE_WIDTHS] = {AIE2_VMAXDIFF_LT_S8, AIE2_VMAXDIFF_LT_S16,
                                         AIE2_VMAXDIFF_LT_S32};
    ASM(p, ops[width], A_REG(d), A_REG(emit_new_mask(p, width)), A_REG(a), A_REG(b));
}

static void sub_from(struct asm_program * p, int width, struct asm_reg d, struct asm_reg a,
                     struct asm_reg b, struct asm_reg x, struct asm_reg least) {
    struct asm_reg mask = emit_new_mask(p, width);
    compare(p, LANE_NOT_LESS, width, mask, x, least);
    add_or_sub(p, width, d, a, b, mask);
}

static void shift_bytes(struct asm_program * p, struct asm_reg d, struct asm_reg a,
                        struct asm_reg b, struct asm_reg bytes) {
    ASM(p, AIE2_VSHIFT, A_REG(d), A_REG(a), A_REG(b), A_REG(bytes));
}

static void shuffle(struct asm_program * p, struct asm_reg d, struct asm_reg a, struct asm_reg b,
                    struct asm_reg pattern) {
    ASM(p, AIE2_VSHUFFLE, A_REG(d), A_REG(a), A_REG(b), A_REG(pattern));
}

static void widen_16(struct asm_program * p, struct asm_reg acc, struct asm_reg a,
                     struct asm_reg shift) {
    bool two = asm_class_of(p, acc) == ASM_CM;
    ASM(p, two ? AIE2_VUPS_S32_S16_mv_ups_x2c : AIE2_VUPS_S32_S16_mv_ups_w2b, A_REG(acc), A_REG(a),
        A_REG(shift));
}

static void narrow_16(struct asm_program * p, struct asm_reg d, struct asm_reg acc,
                      struct asm_reg shift) {
    bool two = asm_class_of(p, acc) == ASM_CM && acc.part < 0;
    ASM(p, two ? AIE2_VSRS_S16_S32_mv_x_srs : AIE2_VSRS_S16_S32_mv_w_srs, A_REG(d), A_REG(acc),
        A_REG(shift));
}

// ---- products and quotients of integer lanes ----

// Multiplier configurations, unsigned (the low bits of a product do not care): 16-bit lanes, two
// products each, 64-bit sums; the same with the accumulator 16 bits up first; 8-bit lanes, 32-bit
// sums.
enum { MUL_16 = 0x5a, MUL_16_RAISED = 0x45a, MUL_8 = 0x28 };

// Shuffles of 16-bit elements: even ones of a vector then its odd ones, neighbours swapped, the
// even ones of two vectors.
enum { SHUFFLE_SPLIT = 44, SHUFFLE_SWAP = 38, SHUFFLE_EVEN = 2 };

static struct asm_reg scalar(struct asm_program * p, int32_t value) {
    struct asm_reg r = asm_local(p, ASM_R);
    bool narrow = value >= -1024 && value < 1024;
    (narrow ? emit_set_small : emit_set)(p, r, value);
    return r;
}

static struct asm_reg shift_amount(struct asm_program * p, int amount) {
    struct asm_reg s = asm_local(p, ASM_S);
    emit_set_shift(p, s, amount);
    return s;
}

static struct asm_reg zero_vector(struct asm_program * p, struct emit_place zeros) {
    struct asm_reg x = asm_local(p, ASM_X);
    load_same(p, zeros.memory, x, zeros.pointer, zeros.offset);
    return x;
}

// The lanes of a vector's low half; 8 and 16 bits.
static struct asm_reg low_half(struct asm_program * p, int width) {
    struct asm_reg mask = emit_new_mask(p, width);
    if (width == LANE_8) {
        emit_set_small(p, asm_half(mask, 0), -1);
        emit_set_small(p, asm_half(mask, 1), 0);
    } else {
        emit_set(p, mask, 0xffff);
    }
    return mask;
}

static struct asm_reg product(struct asm_program * p, struct asm_reg a, struct asm_reg b,
                              int config) {
    struct asm_reg d = asm_local(p, ASM_CM), by = scalar(p, config);
    ASM(p, AIE2_VMUL_vmac_cm_core_dense, A_REG(d), A_REG(a), A_REG(b), A_REG(by));
    return d;
}

// 8 and 16 bits: a lane of the accumulator is the sum of two products, one from each half of the
// vectors; so one half of a factor at a time, with zeros for the other.
static void multiply_halves(struct asm_program * p, int width, struct asm_reg d, struct asm_reg a,
                            struct asm_reg b, struct emit_place zeros) {
    static const int narrow[2] = {AIE2_VSRS_S8_S32_mv_w_srs, AIE2_VSRS_S16_S64_mv_w_srs};
    struct asm_reg low = low_half(p, width), zero = zero_vector(p, zeros), part[2];
    part[0] = asm_local(p, ASM_X);
    select(p, width, part[0], zero, a, low);
    part[1] = asm_local(p, ASM_X);
    lanes(p, LANE_SUB, width, part[1], a, part[0]);
    struct asm_reg none = shift_amount(p, 0);
    for (int half = 0; half < 2; half++) {
        struct asm_reg acc = product(p, part[half], b, width == LANE_8 ? MUL_8 : MUL_16);
        ASM(p, narrow[width], A_REG(asm_half(d, half)), A_REG(acc), A_REG(none));
    }
}

static struct asm_reg shuffled(struct asm_program * p, struct asm_reg a, struct asm_reg b,
                               int mode) {
    struct asm_reg d = asm_local(p, ASM_X);
    shuffle(p, d, a, b, scalar(p, mode));
    return d;
}

// 32 bits: with 16-bit halves, (al bh + ah bl) << 16 + al bl.
static void multiply_32(struct asm_program * p, struct asm_reg d, struct asm_reg a,
                        struct asm_reg b, struct emit_place zeros) {
    struct asm_reg split = shuffled(p, a, a, SHUFFLE_SPLIT); // al, ah
    struct asm_reg swapped = shuffled(p, b, b, SHUFFLE_SWAP);
    struct asm_reg crossed = shuffled(p, swapped, swapped, SHUFFLE_SPLIT);     // bh, bl
    struct asm_reg lows = shuffled(p, b, zero_vector(p, zeros), SHUFFLE_EVEN); // bl, 0
    struct asm_reg cross = product(p, split, crossed, MUL_16);
    struct asm_reg sum = asm_local(p, ASM_CM), raised = scalar(p, MUL_16_RAISED);
    ASM(p, AIE2_VMAC_vmac_cm_core_dense, A_REG(sum), A_REG(cross), A_REG(split), A_REG(lows),
        A_REG(raised));
    ASM(p, AIE2_VSRS_S32_S64_mv_x_srs, A_REG(d), A_REG(sum), A_REG(shift_amount(p, 0)));
}

static void multiply(struct asm_program * p, int width, struct asm_reg d, struct asm_reg a,
                     struct asm_reg b, struct emit_place zeros) {
    if (width == LANE_32) {
        multiply_32(p, d, a, b, zeros);
    } else {
        multiply_halves(p, width, d, a, b, zeros);
    }
}

static void raise(struct asm_program * p, int width, struct emit_raised * d, struct asm_reg a) {
    static const int ops[LANE_WIDTHS] = {AIE2_VUPS_S32_D8_mv_ups_w2c, AIE2_VUPS_S32_D16_mv_ups_x2c,
                                         AIE2_VUPS_S64_D32_mv_ups_x2c};
    struct asm_reg s = shift_amount(p, (8 << width) - 1);
    for (int i = 0; i < (width == LANE_8 ? 2 : 1); i++) {
        d->acc[i] = asm_local(p, ASM_CM);
        ASM(p, ops[width], A_REG(d->acc[i]), A_REG(width == LANE_8 ? asm_half(a, i) : a), A_REG(s));
    }
}

static void lower(struct asm_program * p, int width, struct asm_reg d, const struct emit_raised * a,
                  int shift) {
    static const int ops[LANE_WIDTHS] = {AIE2_VSRS_D8_S32_mv_w_srs, AIE2_VSRS_D16_S32_mv_x_srs,
                                         AIE2_VSRS_D32_S64_mv_x_srs};
    struct asm_reg s = shift_amount(p, shift);
    for (int i = 0; i < (width == LANE_8 ? 2 : 1); i++) {
        ASM(p, ops[width], A_REG(width == LANE_8 ? asm_half(d, i) : d), A_REG(a->acc[i]), A_REG(s));
    }
}

// ---- f32 lanes ----

// Of a CM, one half after the other.
static void float_sum(struct asm_program * p, int op, struct asm_reg d, struct asm_reg a,
                      struct asm_reg b, struct asm_reg config) {
    if (asm_class_of(p, d) == ASM_CM && d.part < 0) {
        for (int half = 0; half < 2; half++) {
            ASM(p, op, A_REG(asm_half(d, half)), A_REG(asm_half(a, half)), A_REG(asm_half(b, half)),
                A_REG(config));
        }
    } else {
        ASM(p, op, A_REG(d), A_REG(a), A_REG(b), A_REG(config));
    }
}

static void f_add(struct asm_program * p, struct asm_reg d, struct asm_reg a, struct asm_reg b,
                  struct asm_reg config) {
    float_sum(p, AIE2_VADD_F, d, a, b, config);
}

static void f_sub(struct asm_program * p, struct asm_reg d, struct asm_reg a, struct asm_reg b,
                  struct asm_reg config) {
    float_sum(p, AIE2_VSUB_F, d, a, b, config);
}

static void acc_add(struct asm_program * p, struct asm_reg d, struct asm_reg a, struct asm_reg b,
                    struct asm_reg config) {
    ASM(p, AIE2_VADD, A_REG(d), A_REG(a), A_REG(b), A_REG(config));
}

static void mul(struct asm_program * p, struct asm_reg d, struct asm_reg a, struct asm_reg b,
                struct asm_reg config) {
    ASM(p, AIE2_VMUL_F_vmac_bm_core_dense, A_REG(d), A_REG(a), A_REG(b), A_REG(config));
}

static void mac(struct asm_program * p, struct asm_reg d, struct asm_reg c, struct asm_reg a,
                struct asm_reg b, struct asm_reg config) {
    ASM(p, AIE2_VMAC_F_vmac_bm_core_dense, A_REG(d), A_REG(c), A_REG(a), A_REG(b), A_REG(config));
}

static void msc(struct asm_program * p, struct asm_reg d, struct asm_reg c, struct asm_reg a,
                struct asm_reg b, struct asm_reg config) {
    ASM(p, AIE2_VMSC_F_vmac_bm_core_dense, A_REG(d), A_REG(c), A_REG(a), A_REG(b), A_REG(config));
}

static void each(struct asm_program * p, enum lane_product op, struct asm_reg d, struct asm_reg c,
                 struct asm_reg a, struct asm_reg b, struct asm_reg config) {
    (void) op, (void) d, (void) c, (void) a, (void) b, (void) config;
    asm_misuse(p, "asm: aie2 makes two products a lane");
}

// ---- quantized numbers ----

static void nibbles_begin(struct asm_program * p) {
    struct asm_reg none = scalar(p, 0);
    ASM(p, AIE2_MOVX_mvx_scl, A_FIXED(AIE_REG(AIE_CR, AIE_CR_UNPACK_SIGN)), A_REG(none));
}

static void nibbles(struct asm_program * p, struct asm_reg d, struct asm_reg half) {
    ASM(p, AIE2_VUNPACK_D8_D4, A_REG(d), A_REG(half));
}

// The multiplier adds up two products of a lane, one from each half: a factor for each half alone.
static void scale_factors(struct asm_program * p, struct emit_scale * d, struct asm_reg s,
                          struct asm_reg zero, struct asm_reg low) {
    d->alone = true;
    for (int half = 0; half < 2; half++) {
        d->by[half] = d->given ? d->by[half] : asm_local(p, ASM_X);
        select(p, LANE_16, d->by[half], half ? s : zero, half ? zero : s, low);
    }
}

static void scale(struct asm_program * p, struct emit_scale * d, struct asm_reg s,
                  struct asm_reg offset, struct asm_reg zero, struct asm_reg low,
                  struct asm_reg config) {
    scale_factors(p, d, s, zero, low);
    d->alone = false;
    for (int half = 0; half < 2; half++) {
        d->rest[half] = d->given ? d->rest[half] : asm_local(p, ASM_BM);
        mul(p, d->rest[half], offset, d->by[half], config);
    }
}

static void scale_less(struct asm_program * p, struct emit_scale * d, struct asm_reg m,
                       struct asm_reg one, struct asm_reg zero, struct asm_reg low,
                       struct asm_reg config) {
    for (int half = 0; half < 2; half++) {
        struct asm_reg lanes = asm_local(p, ASM_X), rest = asm_local(p, ASM_BM);
        select(p, LANE_16, lanes, half ? m : zero, half ? zero : m, low);
        msc(p, rest, d->rest[half], one, lanes, config);
        d->rest[half] = rest;
    }
}

static void scaled(struct asm_program * p, int memory, const struct emit_scale * s,
                   const struct asm_reg * a, int n, struct asm_reg pointer, int32_t offset,
                   struct asm_reg config) {
    for (int half = 0; half < 2; half++) {
        struct asm_reg sum = s->rest[half];
        for (int i = 0; i < n; i++) {
            struct asm_reg next = asm_local(p, ASM_BM);
            if (i == 0 && s->alone) {
                mul(p, next, a[i], s->by[half], config);
            } else {
                mac(p, next, sum, a[i], s->by[half], config);
            }
            sum = next;
        }
        store_bf16(p, memory, sum, pointer, offset + MOVE * half);
    }
}

const struct aie_verbs verbs_aie2 = {
#define V(name, parameters, arguments) .name = name,
#include "verbs.def"
#undef V
};
