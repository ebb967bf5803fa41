// aie2p-verbs: the machine verbs of XDNA 2. A value is 16 lanes of f32, as on XDNA: one 512-bit
// vector, or the lowest quarter of a 2048-bit accumulator, or the two halves of a vector as bf16
// pieces. What stands in the other quarters is carried along and never looked at: the adder and the
// multiplier work on whole accumulators only. Functions work on two vectors at a time
// (lanes_set_vectors), in the two lowest quarters, with pieces that fill a vector. Of an
// accumulator for two values as on XDNA, each has the lower quarter of its half.
//
// The multiplier makes one bf16 product a lane, so a pair in halves takes two of its instructions
// and two moves; the upper pieces first, which are the smaller ones. Offsets of loads and stores
// reach 7 units of what is moved; what is further goes through an offset register.
//
// Kept true: nothing is emitted that rests on no evidence (asm refuses it); of the two sign
// registers of each unit number 1 says signed for ever, number 0 is the program's to set.
#include "verbs.h"

#include "aie/isa/aie2p.h"

extern const struct aie_verbs verbs_aie2p;

static struct asm_reg scalar(struct asm_program * p, int32_t value) {
    struct asm_reg r = asm_local(p, ASM_R);
    bool narrow = value >= -1024 && value < 1024;
    (narrow ? emit_set_small : emit_set)(p, r, value);
    return r;
}

static void control(struct asm_program * p, enum aie_crp which, int value) {
    ASM(p, AIE2P_MOVX_mvx_cr_imm, A_FIXED(AIE_REG(AIE_CRP, which)), A_IMM(value));
}

static void begin(struct asm_program * p) {
    control(p, AIE_CRP_VADD_SIGN1, 1);
    control(p, AIE_CRP_UPS_SIGN1, 1);
    control(p, AIE_CRP_SRS_SIGN1, 1);
    control(p, AIE_CRP_UPS_MODE, 0);
    control(p, AIE_CRP_SRS_MODE, 0);
}

// ---- memory ----

static bool is_acc(const struct asm_program * p, struct asm_reg r) {
    enum asm_class cls = asm_class_of(p, r);
    return cls == ASM_BM || cls == ASM_CM;
}

// The quarter of an accumulator in which a value stands.
static struct asm_reg lanes_in(const struct asm_program * p, struct asm_reg r) {
    return !is_acc(p, r) || r.part >= 2 ? r : asm_quarter(r, r.part < 0 ? 0 : 2 * r.part);
}

enum moved { MOVED_ACC, MOVED_VECTOR, MOVED_HALF, MOVED_KINDS };

static enum moved kind_of(const struct asm_program * p, struct asm_reg r) {
    return is_acc(p, r) ? MOVED_ACC : r.part < 0 ? MOVED_VECTOR : MOVED_HALF;
}

static const int32_t moved_bytes[MOVED_KINDS] = {64, 64, 32};

// The values of a register that a load or store moves; returns how many.
static int values_of(const struct asm_program * p, struct asm_reg r, struct asm_reg values[2]) {
    if (asm_class_of(p, r) == ASM_CM && r.part < 0) {
        values[0] = asm_quarter(r, 0);
        values[1] = asm_quarter(r, 2);
        return 2;
    }
    values[0] = lanes_in(p, r);
    return 1;
}

static bool is_near(int32_t offset, int32_t unit) {
    return offset % unit == 0 && offset >= -8 * unit && offset < 8 * unit;
}

static struct asm_reg offset_register(struct asm_program * p, int32_t offset) {
    struct asm_reg by = asm_local(p, ASM_J);
    if (offset >= -1024 && offset < 1024) {
        ASM(p, AIE2P_MOVA, A_REG(by), A_IMM(offset));
    } else {
        emit_set(p, by, offset);
    }
    return by;
}

// One transfer at an offset: ops are the forms with an immediate, of which it has to be a multiple,
// and with an offset register.
static void at_offset(struct asm_program * p, const int ops[2], int memory, int32_t unit,
                      struct asm_arg moved, struct asm_reg pointer, int32_t offset) {
    bool near = is_near(offset, unit);
    ASM_MEM(p, ops[!near], memory, moved, A_REG(pointer),
            near ? A_IMM(offset) : A_REG(offset_register(p, offset)));
}

static void load(struct asm_program * p, int memory, struct asm_reg d, struct asm_reg pointer,
                 int32_t offset) {
    static const int ops[MOVED_KINDS][2] = {
        {AIE2P_VLDA_dmx_lda_bm_idx_imm, AIE2P_VLDA_dmx_lda_bm_idx},
        {AIE2P_VLDA_dmx_lda_x_idx_imm, AIE2P_VLDA_dmx_lda_x_idx},
        {AIE2P_VLDA_dmw_lda_w_idx_imm, AIE2P_VLDA_dmw_lda_w_idx},
    };
    enum moved kind = kind_of(p, d);
    struct asm_reg values[2];
    int n = values_of(p, d, values);
    for (int i = 0; i < n; i++) {
        at_offset(p, ops[kind], memory, moved_bytes[kind], A_REG(values[i]), pointer,
                  offset + i * moved_bytes[kind]);
    }
}

static void load_next(struct asm_program * p, int memory, struct asm_reg d,
                      struct asm_reg pointer) {
    static const int ops[MOVED_KINDS] = {AIE2P_VLDA_dmx_lda_bm_pstm_nrm_imm,
                                         AIE2P_VLDA_dmx_lda_x_pstm_nrm_imm,
                                         AIE2P_VLDA_dmw_lda_w_pstm_nrm_imm};
    enum moved kind = kind_of(p, d);
    struct asm_reg values[2];
    int n = values_of(p, d, values);
    for (int i = 0; i < n; i++) {
        ASM_MEM(p, ops[kind], memory, A_REG(values[i]), A_REG(pointer), A_IMM(moved_bytes[kind]));
    }
}

static void load_by(struct asm_program * p, int memory, struct asm_reg half, struct asm_reg pointer,
                    struct asm_arg step) {
    ASM_MEM(p, AIE2P_VLDA_dmw_lda_w_pstm_nrm, memory, A_REG(half), A_REG(pointer), step);
}

static void store(struct asm_program * p, int memory, struct asm_reg a, struct asm_reg pointer,
                  int32_t offset) {
    static const int ops[MOVED_KINDS][2] = {
        {AIE2P_VST_dmx_sts_bm_idx_imm, AIE2P_VST_dmx_sts_bm_idx},
        {AIE2P_VST_dmx_sts_x_idx_imm, AIE2P_VST_dmx_sts_x_idx},
        {AIE2P_VST_dmw_sts_w_idx_imm, AIE2P_VST_dmw_sts_w_idx},
    };
    enum moved kind = kind_of(p, a);
    struct asm_reg values[2];
    int n = values_of(p, a, values);
    for (int i = 0; i < n; i++) {
        at_offset(p, ops[kind], memory, moved_bytes[kind], A_REG(values[i]), pointer,
                  offset + i * moved_bytes[kind]);
    }
}

static void store_next(struct asm_program * p, int memory, struct asm_reg a,
                       struct asm_reg pointer) {
    static const int ops[MOVED_KINDS] = {AIE2P_VST_dmx_sts_bm_pstm_nrm_imm,
                                         AIE2P_VST_dmx_sts_x_pstm_nrm_imm,
                                         AIE2P_VST_dmw_sts_w_pstm_nrm_imm};
    enum moved kind = kind_of(p, a);
    struct asm_reg values[2];
    int n = values_of(p, a, values);
    for (int i = 0; i < n; i++) {
        ASM_MEM(p, ops[kind], memory, A_REG(pointer), A_REG(values[i]), A_IMM(moved_bytes[kind]));
    }
}

static void move(struct asm_program * p, struct asm_reg d, struct asm_reg a) {
    ASM(p, AIE2P_VMOV_alu_mv_mv_x, A_REG(lanes_in(p, d)), A_REG(lanes_in(p, a)));
}

// Accumulators have no halves of 32 bytes to load into: by way of a vector.
static void load_same(struct asm_program * p, int memory, struct asm_reg d, struct asm_reg pointer,
                      int32_t offset) {
    if (kind_of(p, d) == MOVED_HALF) {
        load(p, memory, d, pointer, offset);
        return;
    }
    struct asm_reg x = is_acc(p, d) ? asm_local(p, ASM_X) : d, values[2];
    bool near = is_near(offset, moved_bytes[MOVED_HALF]);
    struct asm_arg by = near ? A_IMM(offset) : A_REG(offset_register(p, offset)); // of both halves
    for (int half = 0; half < 2; half++) {
        ASM_MEM(p, near ? AIE2P_VLDA_dmw_lda_w_idx_imm : AIE2P_VLDA_dmw_lda_w_idx, memory,
                A_REG(asm_half(x, half)), A_REG(pointer), by);
    }
    int n = is_acc(p, d) ? values_of(p, d, values) : 0;
    for (int i = 0; i < n; i++) {
        move(p, values[i], x);
    }
}

// bf16 in memory: of one value, in a half of a vector's bytes; of the two in the lower half of an
// accumulator, in those of a whole one.
static bool is_two(const struct asm_program * p, struct asm_reg r) {
    return asm_class_of(p, r) == ASM_BM && r.part >= 0 && r.part < 2;
}

static struct asm_reg bf16_in(const struct asm_program * p, struct asm_reg acc) {
    return is_two(p, acc) ? acc : lanes_in(p, acc);
}

static const int32_t bf16_bytes[2] = {32, 64}; // by is_two

static void load_bf16(struct asm_program * p, int memory, struct asm_reg acc,
                      struct asm_reg pointer, int32_t offset) {
    static const int ops[2][2] = {
        {AIE2P_VLDA_CONV_fp32_bf16_dmw_lda_ups_bf_idx_imm,
         AIE2P_VLDA_CONV_fp32_bf16_dmw_lda_ups_bf_idx},
        {AIE2P_VLDA_CONV_fp32_bf16_dmx_lda_ups_bf_idx_imm,
         AIE2P_VLDA_CONV_fp32_bf16_dmx_lda_ups_bf_idx},
    };
    bool two = is_two(p, acc);
    at_offset(p, ops[two], memory, bf16_bytes[two], A_REG(bf16_in(p, acc)), pointer, offset);
}

static void load_bf16_next(struct asm_program * p, int memory, struct asm_reg acc,
                           struct asm_reg pointer) {
    static const int ops[2] = {AIE2P_VLDA_CONV_fp32_bf16_dmw_lda_ups_bf_pstm_nrm_imm,
                               AIE2P_VLDA_CONV_fp32_bf16_dmx_lda_ups_bf_pstm_nrm_imm};
    bool two = is_two(p, acc);
    ASM_MEM(p, ops[two], memory, A_REG(bf16_in(p, acc)), A_REG(pointer), A_IMM(bf16_bytes[two]));
}

static void store_bf16(struct asm_program * p, int memory, struct asm_reg acc,
                       struct asm_reg pointer, int32_t offset) {
    static const int ops[2][2] = {
        {AIE2P_VST_CONV_bf16_fp32_dmw_sts_srs_bf_idx_imm,
         AIE2P_VST_CONV_bf16_fp32_dmw_sts_srs_bf_idx},
        {AIE2P_VST_CONV_bf16_fp32_dmx_sts_srs_bf_idx_imm,
         AIE2P_VST_CONV_bf16_fp32_dmx_sts_srs_bf_idx},
    };
    bool two = is_two(p, acc);
    at_offset(p, ops[two], memory, bf16_bytes[two], A_REG(bf16_in(p, acc)), pointer, offset);
}

static void store_bf16_next(struct asm_program * p, int memory, struct asm_reg acc,
                            struct asm_reg pointer) {
    static const int ops[2] = {AIE2P_VST_CONV_bf16_fp32_dmw_sts_srs_bf_pstm_nrm_imm,
                               AIE2P_VST_CONV_bf16_fp32_dmx_sts_srs_bf_pstm_nrm_imm};
    bool two = is_two(p, acc);
    ASM_MEM(p, ops[two], memory, A_REG(pointer), A_REG(bf16_in(p, acc)), A_IMM(bf16_bytes[two]));
}

static void store_bf16_by(struct asm_program * p, int memory, struct asm_reg acc,
                          struct asm_reg pointer, struct asm_arg step) {
    ASM_MEM(p, AIE2P_VST_CONV_bf16_fp32_dmw_sts_srs_bf_pstm_nrm, memory, A_REG(pointer),
            A_REG(lanes_in(p, acc)), step);
}

static void load_scalar(struct asm_program * p, int memory, int width, struct asm_arg d,
                        struct asm_reg pointer, int32_t offset) {
    static const int ops[LANE_WIDTHS][2] = {
        {AIE2P_LDA_u8_idx_imm, AIE2P_LDA_u8_idx},
        {AIE2P_LDA_u16_idx_imm, AIE2P_LDA_u16_idx},
        {AIE2P_LDA_dms_lda_idx_imm, AIE2P_LDA_dms_lda_idx},
    };
    at_offset(p, ops[width], memory, 1 << width, d, pointer, offset);
}

static void load_word_next(struct asm_program * p, int memory, struct asm_reg d,
                           struct asm_reg pointer) {
    ASM_MEM(p, AIE2P_LDA_dms_lda_pstm_nrm_imm, memory, A_REG(d), A_REG(pointer), A_IMM(4));
}

static void store_word(struct asm_program * p, int memory, struct asm_reg a, struct asm_reg pointer,
                       int32_t offset) {
    static const int ops[2] = {AIE2P_ST_dms_sts_idx_imm, AIE2P_ST_dms_sts_idx};
    at_offset(p, ops, memory, 4, A_REG(a), pointer, offset);
}

enum { ADVANCE = 64, FORTH = 7, BACK = -8 }; // pointers move by so many units at most

static void advance(struct asm_program * p, struct asm_reg pointer, int32_t bytes) {
    if (bytes % ADVANCE) { // which its own instruction cannot say
        struct asm_reg at = asm_local(p, ASM_R), next = asm_local(p, ASM_R);
        emit_copy(p, at, pointer);
        emit_alu(p, AIE_BASIC_ADD, next, at, scalar(p, bytes));
        emit_copy(p, pointer, next);
        return;
    }
    for (int32_t units = bytes / ADVANCE; units;) {
        int32_t step = units > FORTH ? FORTH : units < BACK ? BACK : units;
        ASM(p, AIE2P_PADDA_pstm_nrm_imm, A_REG(pointer), A_IMM(step * ADVANCE));
        units -= step;
    }
}

static void walk(struct asm_program * p, struct asm_reg pointer, int walk) {
    ASM(p, AIE2P_PADDA_2D, A_REG(pointer), A_FIXED(AIE_REG(AIE_D, walk)));
}

// ---- registers ----

static void splat(struct asm_program * p, int width, struct asm_reg d, struct asm_reg r) {
    static const int ops[LANE_WIDTHS] = {AIE2P_VBCST_8, AIE2P_VBCST_16, AIE2P_VBCST_32};
    ASM(p, ops[width], A_REG(d), A_REG(r));
}

static void to_bf16(struct asm_program * p, struct asm_reg half, struct asm_reg acc) {
    if (half.part < 0) { // both values of half an accumulator
        ASM(p, AIE2P_VCONV_bf16_fp32_mv_x_srs_bf, A_REG(half), A_REG(acc));
        return;
    }
    ASM(p, AIE2P_VCONV_bf16_fp32_mv_w_srs_bf, A_REG(half), A_REG(lanes_in(p, acc)));
}

static void from_bf16(struct asm_program * p, struct asm_reg acc, struct asm_reg half) {
    ASM(p, AIE2P_VCONV_fp32_bf16_mv_ups_wbf, A_REG(lanes_in(p, acc)), A_REG(half));
}

// ---- lanes ----

static void lanes(struct asm_program * p, enum lane_op op, int width, struct asm_reg d,
                  struct asm_reg a, struct asm_reg b) {
    static const int ops[LANE_OPS][LANE_WIDTHS] = {
        [LANE_AND] = {AIE2P_VBAND, AIE2P_VBAND, AIE2P_VBAND},
        [LANE_OR] = {AIE2P_VBOR, AIE2P_VBOR, AIE2P_VBOR},
        [LANE_ADD] = {AIE2P_VADD_8, AIE2P_VADD_16, AIE2P_VADD_32},
        [LANE_SUB] = {AIE2P_VSUB_8, AIE2P_VSUB_16, AIE2P_VSUB_32},
    };
    ASM(p, ops[op][width], A_REG(d), A_REG(a), A_REG(b));
}

// What chooses and magnitudes decided stands in r16, of 64 lanes in r17 too; the allocator gives
// these to nobody.
static void fetch_mask(struct asm_program * p, int width, struct asm_reg mask) {
    for (int i = 0; i < (width == LANE_8 ? 2 : 1); i++) {
        ASM(p, AIE2P_ADD_add_r_ri, A_REG(width == LANE_8 ? asm_half(mask, i) : mask),
            A_FIXED(AIE_REG(AIE_R, 16 + i)), A_IMM(0));
    }
}

static void choose(struct asm_program * p, enum lane_choice op, int width, struct asm_reg d,
                   struct asm_reg mask, struct asm_reg a, struct asm_reg b) {
    static const int ops[LANE_CHOICES][LANE_WIDTHS] = {
        [LANE_MAX] = {AIE2P_VMAX_LT_8_vaddSign1, AIE2P_VMAX_LT_16_vaddSign1,
                      AIE2P_VMAX_LT_32_vaddSign1},
        [LANE_MIN] = {AIE2P_VMIN_GE_8_vaddSign1, AIE2P_VMIN_GE_16_vaddSign1,
                      AIE2P_VMIN_GE_32_vaddSign1},
        [LANE_MIN_UNSIGNED] = {AIE2P_VMIN_GE_8_vaddSign0, AIE2P_VMIN_GE_16_vaddSign0,
                               AIE2P_VMIN_GE_32_vaddSign0},
    };
    ASM(p, ops[op][width], A_REG(d), A_REG(a), A_REG(b));
    fetch_mask(p, width, mask);
}

static void magnitude(struct asm_program * p, int width, struct asm_reg d, struct asm_reg mask,
                      struct asm_reg a) {
    static const int ops[LANE_WIDTHS] = {AIE2P_VABS_GTZ_8_vaddSign1, AIE2P_VABS_GTZ_16_vaddSign1,
                                         AIE2P_VABS_GTZ_32_vaddSign1};
    ASM(p, ops[width], A_REG(d), A_REG(a));
    fetch_mask(p, width, mask);
}

static void compare(struct asm_program * p, enum lane_compare op, int width, struct asm_reg mask,
                    struct asm_reg a, struct asm_reg b) {
    static const int ops[LANE_COMPARES][LANE_WIDTHS] = {
        [LANE_LESS] = {AIE2P_VLT_8_vaddSign1, AIE2P_VLT_16_vaddSign1, AIE2P_VLT_32_vaddSign1},
        [LANE_NOT_LESS] = {AIE2P_VGE_8_vaddSign1, AIE2P_VGE_16_vaddSign1, AIE2P_VGE_32_vaddSign1},
        [LANE_NOT_LESS_UNSIGNED] = {AIE2P_VGE_8_vaddSign0, AIE2P_VGE_16_vaddSign0,
                                    AIE2P_VGE_32_vaddSign0},
    };
    ASM(p, ops[op][width], A_REG(mask), A_REG(a), A_REG(b));
}

static void is_zero(struct asm_program * p, int width, struct asm_reg mask, struct asm_reg a) {
    static const int ops[LANE_WIDTHS] = {AIE2P_VEQZ_8, AIE2P_VEQZ_16, AIE2P_VEQZ_32};
    ASM(p, ops[width], A_REG(mask), A_REG(a));
}

static void select(struct asm_program * p, int width, struct asm_reg d, struct asm_reg a,
                   struct asm_reg b, struct asm_reg mask) {
    static const int ops[LANE_WIDTHS] = {AIE2P_VSEL_8, AIE2P_VSEL_16, AIE2P_VSEL_32};
    ASM(p, ops[width], A_REG(d), A_REG(a), A_REG(b), A_REG(mask));
}

static void add_or_sub(struct asm_program * p, int width, struct asm_reg d, struct asm_reg a,
                       struct asm_reg b, struct asm_reg mask) {
    static const int ops[LANE_WIDTHS] = {AIE2P_VADDSUB_8, AIE2P_VADDSUB_16, AIE2P_VADDSUB_32};
    ASM(p, ops[width], A_REG(d), A_REG(a), A_REG(b), A_REG(mask));
}

static void excess(struct asm_program * p, int width, struct asm_reg d, struct asm_reg a,
                   struct asm_reg b) {
    static const int ops[LANE_WIDTHS] = {AIE2P_VMAXDIFF_LT_8_vaddSign1,
                                         AIE2P_VMAXDIFF_LT_16_vaddSign1,
                                         AIE2P_VMAXDIFF_LT_32_vaddSign1};
    ASM(p, ops[width], A_REG(d), A_REG(a), A_REG(b));
}

// The mask stands where choices leave theirs: programs that hold masks of 32 lanes have no register
// for one of 64.
static void sub_from(struct asm_program * p, int width, struct asm_reg d, struct asm_reg a,
                     struct asm_reg b, struct asm_reg x, struct asm_reg least) {
    static const int less[LANE_WIDTHS] = {AIE2P_VGE_8_vaddSign1, AIE2P_VGE_16_vaddSign1,
                                          AIE2P_VGE_32_vaddSign1};
    static const int sums[LANE_WIDTHS] = {AIE2P_VADDSUB_8, AIE2P_VADDSUB_16, AIE2P_VADDSUB_32};
    aie_reg mask = width == LANE_8 ? AIE_REG(AIE_L, 0) : AIE_REG(AIE_R, 16);
    ASM(p, less[width], A_FIXED(mask), A_REG(x), A_REG(least));
    ASM(p, sums[width], A_REG(d), A_REG(a), A_REG(b), A_FIXED(mask));
}

static void shift_bytes(struct asm_program * p, struct asm_reg d, struct asm_reg a,
                        struct asm_reg b, struct asm_reg bytes) {
    ASM(p, AIE2P_VSHIFT, A_REG(d), A_REG(a), A_REG(b), A_REG(bytes));
}

static void shuffle(struct asm_program * p, struct asm_reg d, struct asm_reg a, struct asm_reg b,
                    struct asm_reg pattern) {
    ASM(p, AIE2P_VSHUFFLE_vec_shuffle_x, A_REG(d), A_REG(a), A_REG(b), A_REG(pattern));
}

// Of an accumulator for two values, each from its half of the vector; of two side by side, both.
static void widen_16(struct asm_program * p, struct asm_reg acc, struct asm_reg a,
                     struct asm_reg shift) {
    struct asm_reg values[2];
    if (is_two(p, acc)) {
        ASM(p, AIE2P_VUPS_2x_mv_ups_x2c_upsSign1, A_REG(acc), A_REG(a), A_REG(shift));
        return;
    }
    int n = values_of(p, acc, values);
    for (int i = 0; i < n; i++) {
        ASM(p, AIE2P_VUPS_2x_mv_ups_w2b_upsSign1, A_REG(values[i]),
            A_REG(n > 1 ? asm_half(a, i) : a), A_REG(shift));
    }
}

static void narrow_16(struct asm_program * p, struct asm_reg d, struct asm_reg acc,
                      struct asm_reg shift) {
    if (is_two(p, acc)) {
        ASM(p, AIE2P_VSRS_2x_mv_x_srs_cm_srsSign1, A_REG(d), A_REG(acc), A_REG(shift));
        return;
    }
    ASM(p, AIE2P_VSRS_2x_mv_w_srs_bm_srsSign1, A_REG(d), A_REG(lanes_in(p, acc)), A_REG(shift));
}

// ---- products and quotients of integer lanes ----

// Multiplier configurations, unsigned (the low bits of a product do not care): 32 lanes of 16 bits,
// 64-bit sums; the same with the accumulator 16 bits up first; 64 lanes of 8 bits, 32-bit sums.
enum { MUL_16 = 0x5a, MUL_16_RAISED = 0x45a, MUL_8 = 0x28 };

// Shuffles: even ones of a vector's 16-bit elements, then its odd ones; the even elements of two
// vectors, of 16 and of 32 bits.
enum { SHUFFLE_SPLIT = 44, SHUFFLE_EVEN_16 = 2, SHUFFLE_EVEN_32 = 4 };

static struct asm_reg shift_amount(struct asm_program * p, int amount) {
    struct asm_reg s = asm_local(p, ASM_S);
    emit_set_shift(p, s, amount);
    return s;
}

static void shuffled_into(struct asm_program * p, struct asm_reg d, struct asm_reg a,
                          struct asm_reg b, int pattern) {
    shuffle(p, d, a, b, scalar(p, pattern));
}

// The upper half of a vector where the lower one stands.
static struct asm_reg upper(struct asm_program * p, struct asm_reg a) {
    struct asm_reg d = asm_local(p, ASM_X);
    ASM(p, AIE2P_VMOV_alu_mv_mv_w, A_LO(d), A_HI(a));
    return d;
}

// The lower words of the 64-bit lanes of half an accumulator.
static void low_words(struct asm_program * p, struct asm_reg d, struct asm_reg acc, int half) {
    struct asm_reg x[2];
    for (int i = 0; i < 2; i++) {
        x[i] = asm_local(p, ASM_X);
        move(p, x[i], asm_quarter(acc, 2 * half + i));
    }
    shuffled_into(p, d, x[0], x[1], SHUFFLE_EVEN_32);
}

static void multiply_16(struct asm_program * p, struct asm_reg d, struct asm_reg a,
                        struct asm_reg b) {
    struct asm_reg acc = asm_local(p, ASM_CM), low[2];
    ASM(p, AIE2P_VMUL_vmul_cm_core_X_X, A_REG(acc), A_REG(a), A_REG(b), A_REG(scalar(p, MUL_16)));
    for (int half = 0; half < 2; half++) {
        low[half] = asm_local(p, ASM_X);
        low_words(p, low[half], acc, half);
    }
    shuffled_into(p, d, low[0], low[1], SHUFFLE_EVEN_16);
}

// With 16-bit halves, (al bh + ah bl) << 16 + al bl, in the lower lanes.
static void multiply_32(struct asm_program * p, struct asm_reg d, struct asm_reg a,
                        struct asm_reg b) {
    struct asm_reg al = asm_local(p, ASM_X), bl = asm_local(p, ASM_X), plain = scalar(p, MUL_16);
    shuffled_into(p, al, a, a, SHUFFLE_SPLIT); // al, ah
    shuffled_into(p, bl, b, b, SHUFFLE_SPLIT);
    struct asm_reg ah = upper(p, al), bh = upper(p, bl), sum[3];
    for (int i = 0; i < 3; i++) {
        sum[i] = asm_local(p, ASM_CM);
    }
    ASM(p, AIE2P_VMUL_vmul_cm_core_X_X, A_REG(sum[0]), A_REG(al), A_REG(bh), A_REG(plain));
    ASM(p, AIE2P_VMAC_vmul_cm_core_X_X, A_REG(sum[1]), A_REG(sum[0]), A_REG(ah), A_REG(bl),
        A_REG(plain));
    ASM(p, AIE2P_VMAC_vmul_cm_core_X_X, A_REG(sum[2]), A_REG(sum[1]), A_REG(al), A_REG(bl),
        A_REG(scalar(p, MUL_16_RAISED)));
    low_words(p, d, sum[2], 0);
}

static void multiply_8(struct asm_program * p, struct asm_reg d, struct asm_reg a,
                       struct asm_reg b) {
    struct asm_reg acc = asm_local(p, ASM_CM);
    ASM(p, AIE2P_VMUL_vmul_cm_core_X_X, A_REG(acc), A_REG(a), A_REG(b), A_REG(scalar(p, MUL_8)));
    ASM(p, AIE2P_VSRS_4x_mv_x_srs_dm_srsSign0, A_REG(d), A_REG(acc), A_REG(shift_amount(p, 0)));
}

static void multiply(struct asm_program * p, int width, struct asm_reg d, struct asm_reg a,
                     struct asm_reg b, struct emit_place zeros) {
    (void) zeros;
    static void (*const by_width[LANE_WIDTHS])(struct asm_program *, struct asm_reg, struct asm_reg,
                                               struct asm_reg) = {multiply_8, multiply_16,
                                                                  multiply_32};
    by_width[width](p, d, a, b);
}

// Lanes of 8 and 16 bits go to 32, those of 32 to 64, which is a mode: a program of 32-bit lanes
// widens and narrows nothing else.
static void raise(struct asm_program * p, int width, struct emit_raised * d, struct asm_reg a) {
    struct asm_reg s = shift_amount(p, (8 << width) - 1);
    d->acc[0] = asm_local(p, ASM_CM);
    if (width == LANE_8) {
        ASM(p, AIE2P_VUPS_4x_mv_ups_x2d_upsSign0, A_REG(d->acc[0]), A_REG(a), A_REG(s));
        return;
    }
    if (width == LANE_32) {
        control(p, AIE_CRP_UPS_MODE, 1);
        control(p, AIE_CRP_SRS_MODE, 1);
    }
    ASM(p, AIE2P_VUPS_2x_mv_ups_x2c_upsSign0, A_REG(asm_half(d->acc[0], 0)), A_REG(a), A_REG(s));
}

static void lower(struct asm_program * p, int width, struct asm_reg d, const struct emit_raised * a,
                  int shift) {
    struct asm_reg s = shift_amount(p, shift);
    if (width == LANE_8) {
        ASM(p, AIE2P_VSRS_4x_mv_x_srs_dm_srsSign0, A_REG(d), A_REG(a->acc[0]), A_REG(s));
    } else {
        ASM(p, AIE2P_VSRS_2x_mv_x_srs_cm_srsSign0, A_REG(d), A_REG(asm_half(a->acc[0], 0)),
            A_REG(s));
    }
}

// ---- f32 lanes ----

// Whole accumulators: all the values that they hold at once.
static void whole(struct asm_program * p, int op, struct asm_reg d, struct asm_reg a,
                  struct asm_reg b, struct asm_reg config) {
    if (d.part >= 0 || a.part >= 0 || b.part >= 0) {
        asm_misuse(p, "asm: a sum of parts of accumulators is not yet there on aie2p");
        return;
    }
    ASM(p, op, A_REG(d), A_REG(a), A_REG(b), A_REG(config));
}

static void f_add(struct asm_program * p, struct asm_reg d, struct asm_reg a, struct asm_reg b,
                  struct asm_reg config) {
    whole(p, AIE2P_VADD_f_vmac_cm2_add_reg, d, a, b, config);
}

static void f_sub(struct asm_program * p, struct asm_reg d, struct asm_reg a, struct asm_reg b,
                  struct asm_reg config) {
    whole(p, AIE2P_VSUB_f_vmac_cm2_add_reg, d, a, b, config);
}

static void acc_add(struct asm_program * p, struct asm_reg d, struct asm_reg a, struct asm_reg b,
                    struct asm_reg config) {
    whole(p, AIE2P_VADD_vmac_cm2_add_reg, d, a, b, config);
}

static void mul(struct asm_program * p, struct asm_reg d, struct asm_reg a, struct asm_reg b,
                struct asm_reg config) {
    struct asm_reg a2 = upper(p, a), b2 = upper(p, b), first = asm_local(p, ASM_BM);
    ASM(p, AIE2P_VMUL_f_vmul_bf_vmul_bf_core_X_X, A_REG(first), A_REG(a2), A_REG(b2),
        A_REG(config));
    ASM(p, AIE2P_VMAC_f_vmac_bf_vmul_bf_core_X_X, A_REG(d), A_REG(first), A_REG(a), A_REG(b),
        A_REG(config));
}

static void twice(struct asm_program * p, int op, struct asm_reg d, struct asm_reg c,
                  struct asm_reg a, struct asm_reg b, struct asm_reg config) {
    struct asm_reg a2 = upper(p, a), b2 = upper(p, b), first = asm_local(p, ASM_BM);
    ASM(p, op, A_REG(first), A_REG(c), A_REG(a2), A_REG(b2), A_REG(config));
    ASM(p, op, A_REG(d), A_REG(first), A_REG(a), A_REG(b), A_REG(config));
}

static void mac(struct asm_program * p, struct asm_reg d, struct asm_reg c, struct asm_reg a,
                struct asm_reg b, struct asm_reg config) {
    twice(p, AIE2P_VMAC_f_vmac_bf_vmul_bf_core_X_X, d, c, a, b, config);
}

static void msc(struct asm_program * p, struct asm_reg d, struct asm_reg c, struct asm_reg a,
                struct asm_reg b, struct asm_reg config) {
    twice(p, AIE2P_VMSC_f_vmac_bf_vmul_bf_core_X_X, d, c, a, b, config);
}

static void each(struct asm_program * p, enum lane_product op, struct asm_reg d, struct asm_reg c,
                 struct asm_reg a, struct asm_reg b, struct asm_reg config) {
    if (op == LANE_PRODUCT) {
        ASM(p, AIE2P_VMUL_f_vmul_bf_vmul_bf_core_X_X, A_REG(d), A_REG(a), A_REG(b), A_REG(config));
        return;
    }
    ASM(p,
        op == LANE_PLUS_PRODUCT ? AIE2P_VMAC_f_vmac_bf_vmul_bf_core_X_X
                                : AIE2P_VMSC_f_vmac_bf_vmul_bf_core_X_X,
        A_REG(d), A_REG(c), A_REG(a), A_REG(b), A_REG(config));
}

// ---- quantized numbers ----

static void nibbles_begin(struct asm_program * p) {
    control(p, AIE_CRP_UNPACK_SIZE, 0);
    control(p, AIE_CRP_UNPACK_SIGN0, 0);
}

static void nibbles(struct asm_program * p, struct asm_reg d, struct asm_reg half) {
    ASM(p, AIE2P_VUNPACK_mv_unpack_w_unpackSign0, A_REG(d), A_REG(half));
}

static void load_nibbles_by(struct asm_program * p, int memory, struct asm_reg d,
                            struct asm_reg pointer, struct asm_arg step) {
    struct asm_reg x = asm_local(p, ASM_X);
    load_by(p, memory, asm_half(x, 0), pointer, step);
    nibbles(p, d, asm_half(x, 0));
}

// 32 lanes at once, in the two lower quarters of an accumulator.
static void scale_factors(struct asm_program * p, struct emit_scale * d, struct asm_reg s,
                          struct asm_reg zero, struct asm_reg low) {
    (void) p;
    (void) zero;
    (void) low;
    d->by[0] = s;
    d->alone = true;
}

static void scale(struct asm_program * p, struct emit_scale * d, struct asm_reg s,
                  struct asm_reg offset, struct asm_reg zero, struct asm_reg low,
                  struct asm_reg config) {
    scale_factors(p, d, s, zero, low);
    d->alone = false;
    d->rest[0] = d->given ? d->rest[0] : asm_local(p, ASM_BM);
    ASM(p, AIE2P_VMUL_f_vmul_bf_vmul_bf_core_X_X, A_REG(d->rest[0]), A_REG(offset), A_REG(s),
        A_REG(config));
}

static void scale_less(struct asm_program * p, struct emit_scale * d, struct asm_reg m,
                       struct asm_reg one, struct asm_reg zero, struct asm_reg low,
                       struct asm_reg config) {
    (void) zero;
    (void) low;
    struct asm_reg rest = asm_local(p, ASM_BM);
    ASM(p, AIE2P_VMSC_f_vmac_bf_vmul_bf_core_X_X, A_REG(rest), A_REG(d->rest[0]), A_REG(one),
        A_REG(m), A_REG(config));
    d->rest[0] = rest;
}

static void scaled(struct asm_program * p, int memory, const struct emit_scale * s,
                   const struct asm_reg * a, int n, struct asm_reg pointer, int32_t offset,
                   struct asm_reg config) {
    static const int ops[2] = {AIE2P_VST_CONV_bf16_fp32_dmw_sts_srs_bf_idx_imm,
                               AIE2P_VST_CONV_bf16_fp32_dmw_sts_srs_bf_idx};
    struct asm_reg sum = s->rest[0];
    for (int i = 0; i < n; i++) {
        struct asm_reg next = asm_local(p, ASM_BM);
        if (i == 0 && s->alone) {
            ASM(p, AIE2P_VMUL_f_vmul_bf_vmul_bf_core_X_X, A_REG(next), A_REG(a[i]), A_REG(s->by[0]),
                A_REG(config));
        } else {
            ASM(p, AIE2P_VMAC_f_vmac_bf_vmul_bf_core_X_X, A_REG(next), A_REG(sum), A_REG(a[i]),
                A_REG(s->by[0]), A_REG(config));
        }
        sum = next;
    }
    for (int half = 0; half < 2; half++) {
        at_offset(p, ops, memory, 32, A_REG(asm_quarter(sum, half)), pointer, offset + 32 * half);
    }
}

const struct aie_verbs verbs_aie2p = {
#define V(name, parameters, arguments) .name = name,
#include "verbs.def"
#undef V
};
