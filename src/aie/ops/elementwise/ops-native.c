// ops-native: ops on native lanes, the datatype's own bits in full 512-bit vectors. What depends on
// the lane width is data: every helper names an instruction three times, for 8, 16 and 32 bits.
//
// Integers wrap, division truncates, a division by zero gives 0. Floats are handled by their bit
// patterns, denormals and all, with the results that ggml's CPU has: RELU, STEP and SGN of a NaN
// are 0, ABS clears and NEG flips the sign of anything.
//
// Kept true: the multiplier is only used in modes whose products were seen on silicon, and no
// control register is relied on that native_prepare does not set.
#include "elementwise-ops.h"

#include "aie/isa/aie2.h"

// Multiplier configurations, unsigned (the low bits of a product do not care): 16-bit lanes, two
// products each, 64-bit sums; the same with the accumulator 16 bits up first; 8-bit lanes, 32-bit
// sums.
enum { MUL_16 = 0x5a, MUL_16_RAISED = 0x45a, MUL_8 = 0x28 };

// Shuffles of 16-bit elements: even ones of a vector then its odd ones, neighbours swapped, the
// even ones of two vectors.
enum { SHUFFLE_SPLIT = 44, SHUFFLE_SWAP = 38, SHUFFLE_EVEN = 2 };

static int width_of(const struct lanes * l) { // 0, 1, 2 for 8, 16, 32 bits
    return dtype_size(l->dtype) / 2;
}

// ---- lane instructions by width ----

static const int lane_add[3] = {AIE2_VADD_8, AIE2_VADD_16, AIE2_VADD_32};
static const int lane_sub[3] = {AIE2_VSUB_8, AIE2_VSUB_16, AIE2_VSUB_32};
static const int lane_max[3] = {AIE2_VMAX_LT_S8, AIE2_VMAX_LT_S16, AIE2_VMAX_LT_S32};
static const int lane_min[3] = {AIE2_VMIN_GE_S8, AIE2_VMIN_GE_S16, AIE2_VMIN_GE_S32};
static const int lane_min_unsigned[3] = {AIE2_VMIN_GE_D8, AIE2_VMIN_GE_D16, AIE2_VMIN_GE_D32};
static const int lane_abs[3] = {AIE2_VABS_GTZ_S8, AIE2_VABS_GTZ_S16, AIE2_VABS_GTZ_S32};
static const int lane_less[3] = {AIE2_VLT_S8, AIE2_VLT_S16, AIE2_VLT_S32};
static const int lane_ge_unsigned[3] = {AIE2_VGE_D8, AIE2_VGE_D16, AIE2_VGE_D32};
static const int lane_zero[3] = {AIE2_VEQZ_8, AIE2_VEQZ_16, AIE2_VEQZ_32};
static const int lane_select[3] = {AIE2_VSEL_8, AIE2_VSEL_16, AIE2_VSEL_32};
static const int lane_add_or_sub[3] = {AIE2_VADDSUB_8, AIE2_VADDSUB_16, AIE2_VADDSUB_32};

static struct asm_reg mask_new(struct lanes * l) {
    return asm_local(l->p, width_of(l) == 0 ? ASM_L : ASM_MASK);
}

// A constant whose lanes all hold the low bits of v.
static struct val k_lane(struct lanes * l, uint32_t v) {
    static const uint32_t spread[3] = {0x01010101, 0x00010001, 1};
    int bits = 8 * dtype_size(l->dtype);
    return k_bits(l, bits == 32 ? v : (v & ((1u << bits) - 1)) * spread[width_of(l)]);
}

static struct val two(struct lanes * l, const int ops[3], struct val a, struct val b) {
    struct asm_reg xa = lanes_x(l, &a), xb = lanes_x(l, &b), d = asm_local(l->p, ASM_X);
    ASM(l->p, ops[width_of(l)], A_REG(d), A_REG(xa), A_REG(xb));
    return val_x(d);
}

// Minimum and maximum; *mask tells how each lane was decided.
static struct val two_and_mask(struct lanes * l, const int ops[3], struct val a, struct val b,
                               struct asm_reg * mask) {
    struct asm_reg xa = lanes_x(l, &a), xb = lanes_x(l, &b), d = asm_local(l->p, ASM_X);
    *mask = mask_new(l);
    ASM(l->p, ops[width_of(l)], A_REG(d), A_REG(*mask), A_REG(xa), A_REG(xb));
    return val_x(d);
}

static struct val magnitude(struct lanes * l, struct val a, struct asm_reg * positive) {
    struct asm_reg xa = lanes_x(l, &a), d = asm_local(l->p, ASM_X);
    *positive = mask_new(l);
    ASM(l->p, lane_abs[width_of(l)], A_REG(d), A_REG(*positive), A_REG(xa));
    return val_x(d);
}

static struct asm_reg compare(struct lanes * l, const int ops[3], struct val a, struct val b) {
    struct asm_reg xa = lanes_x(l, &a), xb = lanes_x(l, &b), mask = mask_new(l);
    ASM(l->p, ops[width_of(l)], A_REG(mask), A_REG(xa), A_REG(xb));
    return mask;
}

static struct asm_reg is_zero(struct lanes * l, struct val a) {
    struct asm_reg xa = lanes_x(l, &a), mask = mask_new(l);
    ASM(l->p, lane_zero[width_of(l)], A_REG(mask), A_REG(xa));
    return mask;
}

static struct val masked(struct lanes * l, const int ops[3], struct asm_reg mask, struct val a,
                         struct val b) {
    struct asm_reg xa = lanes_x(l, &a), xb = lanes_x(l, &b), d = asm_local(l->p, ASM_X);
    ASM(l->p, ops[width_of(l)], A_REG(d), A_REG(xa), A_REG(xb), A_REG(mask));
    return val_x(d);
}

static struct val select_lane(struct lanes * l, struct asm_reg mask, struct val clear,
                              struct val set) {
    return masked(l, lane_select, mask, clear, set);
}

static struct asm_reg mask_xor(struct lanes * l, struct asm_reg a, struct asm_reg b) {
    struct asm_reg d = mask_new(l);
    if (width_of(l) == 0) { // 64 lanes, two scalars
        ASM(l->p, AIE2_XOR, A_LO(d), A_LO(a), A_LO(b));
        ASM(l->p, AIE2_XOR, A_HI(d), A_HI(a), A_HI(b));
    } else {
        ASM(l->p, AIE2_XOR, A_REG(d), A_REG(a), A_REG(b));
    }
    return d;
}

// ---- unary, integers ----

struct val int_neg(struct lanes * l, struct val a, struct val b) {
    (void) b;
    return two(l, lane_sub, k_lane(l, 0), a);
}

struct val int_abs(struct lanes * l, struct val a, struct val b) {
    (void) b;
    struct asm_reg unused;
    return magnitude(l, a, &unused);
}

static struct val int_clamp(struct lanes * l, struct val a, uint32_t low, const uint32_t * high) {
    struct asm_reg unused;
    a = two_and_mask(l, lane_max, a, k_lane(l, low), &unused);
    return high ? two_and_mask(l, lane_min, a, k_lane(l, *high), &unused) : a;
}

struct val int_relu(struct lanes * l, struct val a, struct val b) {
    (void) b;
    return int_clamp(l, a, 0, NULL);
}

struct val int_step(struct lanes * l, struct val a, struct val b) {
    (void) b;
    return int_clamp(l, a, 0, &(uint32_t){1});
}

struct val int_sgn(struct lanes * l, struct val a, struct val b) {
    (void) b;
    return int_clamp(l, a, UINT32_MAX, &(uint32_t){1});
}

// ---- unary, floats by their bits ----

static const struct {
    uint32_t sign, infinity, one;
} patterns[DTYPE_COUNT] = {
    [DTYPE_F32] = {0x80000000, 0x7f800000, 0x3f800000},
    [DTYPE_F16] = {0x8000, 0x7c00, 0x3c00},
    [DTYPE_BF16] = {0x8000, 0x7f80, 0x3f80},
};

struct val bits_neg(struct lanes * l, struct val a, struct val b) {
    (void) b;
    return two(l, lane_add, a, k_lane(l, patterns[l->dtype].sign)); // flips the top bit
}

struct val bits_abs(struct lanes * l, struct val a, struct val b) {
    (void) b;
    return b_and(l, a, k_lane(l, patterns[l->dtype].sign - 1));
}

// a where it is a number, 0 where it is a NaN whose sign is clear.
static struct val drop_nan(struct lanes * l, struct val a, struct val result) {
    struct asm_reg nan = compare(l, lane_less, k_lane(l, patterns[l->dtype].infinity), a);
    return select_lane(l, nan, result, k_lane(l, 0));
}

// As integers, floats with the sign bit are below zero and the others in order.
struct val bits_relu(struct lanes * l, struct val a, struct val b) {
    (void) b;
    return drop_nan(l, a, int_clamp(l, a, 0, NULL));
}

struct val bits_step(struct lanes * l, struct val a, struct val b) {
    (void) b;
    struct val zero = k_lane(l, 0);
    struct asm_reg positive = compare(l, lane_less, zero, a);
    return drop_nan(l, a, select_lane(l, positive, zero, k_lane(l, patterns[l->dtype].one)));
}

struct val bits_sgn(struct lanes * l, struct val a, struct val b) {
    struct val m = bits_abs(l, a, b);
    struct val one =
        b_or(l, b_and(l, a, k_lane(l, patterns[l->dtype].sign)), k_lane(l, patterns[l->dtype].one));
    return drop_nan(l, m, select_lane(l, is_zero(l, m), one, k_lane(l, 0)));
}

// ---- sums and products ----

struct val int_add(struct lanes * l, struct val a, struct val b) {
    return two(l, lane_add, a, b);
}

struct val int_sub(struct lanes * l, struct val a, struct val b) {
    return two(l, lane_sub, a, b);
}

static struct asm_reg scalar(struct lanes * l, int32_t value) {
    struct asm_reg r = asm_local(l->p, ASM_R);
    bool narrow = value >= -1024 && value < 1024;
    ASM(l->p, narrow ? AIE2_MOVX_alu_cg : AIE2_MOVXM_lng_cg, A_REG(r), A_IMM(value));
    return r;
}

// The lanes of a vector's low half; 8 and 16 bits.
static struct asm_reg low_half(struct lanes * l) {
    struct asm_reg mask = mask_new(l);
    if (width_of(l) == 0) {
        ASM(l->p, AIE2_MOVX_alu_cg, A_LO(mask), A_IMM(-1));
        ASM(l->p, AIE2_MOVX_alu_cg, A_HI(mask), A_IMM(0));
    } else {
        ASM(l->p, AIE2_MOVXM_lng_cg, A_REG(mask), A_IMM(0xffff));
    }
    return mask;
}

static struct asm_reg shift_amount(struct lanes * l, int amount) {
    struct asm_reg s = asm_local(l->p, ASM_S);
    ASM(l->p, AIE2_MOV_mv_cg, A_REG(s), A_IMM(amount));
    return s;
}

static struct asm_reg multiply(struct lanes * l, struct asm_reg a, struct asm_reg b, int config) {
    struct asm_reg d = asm_local(l->p, ASM_CM);
    ASM(l->p, AIE2_VMUL_vmac_cm_core_dense, A_REG(d), A_REG(a), A_REG(b), A_REG(scalar(l, config)));
    return d;
}

static struct val shuffle(struct lanes * l, struct val a, struct val b, int mode) {
    struct asm_reg xa = lanes_x(l, &a), xb = lanes_x(l, &b), d = asm_local(l->p, ASM_X);
    ASM(l->p, AIE2_VSHUFFLE, A_REG(d), A_REG(xa), A_REG(xb), A_REG(scalar(l, mode)));
    return val_x(d);
}

// 8 and 16 bits: a lane of the accumulator is the sum of two products, one from each half of the
// vectors; so one half of a factor at a time, with zeros for the other.
static struct val mul_halves(struct lanes * l, struct val a, struct val b, int config, int narrow) {
    struct val low = select_lane(l, low_half(l), k_lane(l, 0), a);
    const struct val part[2] = {low, two(l, lane_sub, a, low)};
    struct asm_reg none = shift_amount(l, 0), d = asm_local(l->p, ASM_X), xb = lanes_x(l, &b);
    for (int half = 0; half < 2; half++) {
        struct asm_reg product = multiply(l, part[half].x, xb, config);
        ASM(l->p, narrow, A_REG(asm_half(d, half)), A_REG(product), A_REG(none));
    }
    return val_x(d);
}

// 32 bits: with 16-bit halves, (al bh + ah bl) << 16 + al bl.
static struct val mul_32(struct lanes * l, struct val a, struct val b) {
    struct val zero = k_lane(l, 0);
    struct val split = shuffle(l, a, a, SHUFFLE_SPLIT); // al, ah
    struct val swapped = shuffle(l, b, b, SHUFFLE_SWAP);
    struct val crossed = shuffle(l, swapped, swapped, SHUFFLE_SPLIT); // bh, bl
    struct val lows = shuffle(l, b, zero, SHUFFLE_EVEN);              // bl, 0
    struct asm_reg cross = multiply(l, split.x, crossed.x, MUL_16);
    struct asm_reg sum = asm_local(l->p, ASM_CM), d = asm_local(l->p, ASM_X);
    ASM(l->p, AIE2_VMAC_vmac_cm_core_dense, A_REG(sum), A_REG(cross), A_REG(split.x), A_REG(lows.x),
        A_REG(scalar(l, MUL_16_RAISED)));
    ASM(l->p, AIE2_VSRS_S32_S64_mv_x_srs, A_REG(d), A_REG(sum), A_REG(shift_amount(l, 0)));
    return val_x(d);
}

struct val int_mul(struct lanes * l, struct val a, struct val b) {
    lanes_x(l, &a);
    lanes_x(l, &b);
    switch (width_of(l)) {
    case 0:
        return mul_halves(l, a, b, MUL_8, AIE2_VSRS_S8_S32_mv_w_srs);
    case 1:
        return mul_halves(l, a, b, MUL_16, AIE2_VSRS_S16_S64_mv_w_srs);
    default:
        return mul_32(l, a, b);
    }
}

// ---- quotients ----

// |b| << (n - 1) in accumulators that are wide enough for it.
struct raised {
    struct asm_reg cm[2];
};

static struct raised raise(struct lanes * l, struct asm_reg x) {
    static const int up[3] = {AIE2_VUPS_S32_D8_mv_ups_w2c, AIE2_VUPS_S32_D16_mv_ups_x2c,
                              AIE2_VUPS_S64_D32_mv_ups_x2c};
    struct asm_reg s = shift_amount(l, 8 * dtype_size(l->dtype) - 1);
    int w = width_of(l);
    struct raised r;
    for (int i = 0; i < (w ? 1 : 2); i++) {
        r.cm[i] = asm_local(l->p, ASM_CM);
        ASM(l->p, up[w], A_REG(r.cm[i]), A_REG(w ? x : asm_half(x, i)), A_REG(s));
    }
    return r;
}

// The raised number shifted down by `shift`, at the largest unsigned number where it does not fit.
static struct val lower(struct lanes * l, const struct raised * r, int shift, struct asm_reg d) {
    static const int down[3] = {AIE2_VSRS_D8_S32_mv_w_srs, AIE2_VSRS_D16_S32_mv_x_srs,
                                AIE2_VSRS_D32_S64_mv_x_srs};
    struct asm_reg s = shift_amount(l, shift);
    int w = width_of(l);
    for (int i = 0; i < (w ? 1 : 2); i++) {
        ASM(l->p, down[w], A_REG(w ? d : asm_half(d, i)), A_REG(r->cm[i]), A_REG(s));
    }
    return val_x(d);
}

// Loads and shifts depend on nothing and would all be scheduled first, each into a register of its
// own; as many as hide their latency take turns.
enum { TURNS = 2 };

// A constant of the pool in a register that is at hand.
static struct val k_into(struct lanes * l, uint32_t lane, struct asm_reg x) {
    int32_t offset = (k_lane(l, lane).slot - LANES_POOL_SLOTS / 2) * LANES_POOL_SLOT_BYTES;
    for (int half = 0; half < 2; half++) {
        ASM_MEM(l->p, AIE2_VLDA_dmw_lda_w_ag_idx_imm, MEM_POOL, A_REG(asm_half(x, half)),
                A_REG(l->pool), A_IMM(offset));
    }
    return val_x(x);
}

// Long division of the magnitudes, a bit of the quotient at a time from the top: where |b| << i
// goes into the rest it is taken off, and where it does not the difference wraps and is the larger
// one, so that the unsigned minimum is the new rest. Each bit i >= 1 adds or subtracts 2^(i-1);
// begun at the sum of all of them, that ends in the quotient without its last bit.
struct val int_div(struct lanes * l, struct val a, struct val b) {
    int bits = 8 * dtype_size(l->dtype);
    lanes_x(l, &b);
    struct asm_reg by_zero = is_zero(l, b), a_positive, b_positive;
    struct val rest = magnitude(l, a, &a_positive), divisor = magnitude(l, b, &b_positive);
    struct asm_reg differ = mask_xor(l, a_positive, b_positive); // of no matter when a is 0
    struct raised raised = raise(l, divisor.x);
    struct val quotient = k_lane(l, (1u << (bits - 1)) - 1);
    struct asm_reg shifted[TURNS], powers[TURNS];
    for (int i = 0; i < TURNS; i++) {
        shifted[i] = asm_local(l->p, ASM_X);
        powers[i] = asm_local(l->p, ASM_X);
    }
    for (int i = bits - 1; i > 0; i--) {
        struct asm_reg stays;
        struct val step = lower(l, &raised, bits - 1 - i, shifted[i % TURNS]);
        struct val less = two(l, lane_sub, rest, step);
        rest = two_and_mask(l, lane_min_unsigned, less, rest, &stays);
        struct val power = k_into(l, 1u << (i - 1), powers[i % TURNS]);
        quotient = masked(l, lane_add_or_sub, stays, quotient, power);
    }
    struct asm_reg last = compare(l, lane_ge_unsigned, rest, divisor);
    quotient = select_lane(l, last, quotient, two(l, lane_add, quotient, k_lane(l, 1)));
    struct val zero = k_lane(l, 0);
    lanes_x(l, &zero);
    return select_lane(l, by_zero, masked(l, lane_add_or_sub, differ, zero, quotient), zero);
}

// ---- modes ----

static void set_control(struct lanes * l, int which, int32_t value) {
    ASM(l->p, AIE2_MOVX_mvx_scl, A_FIXED(AIE_REG(AIE_CR, which)), A_REG(scalar(l, value)));
}

void native_prepare(struct lanes * l, enum kernel_op op) {
    if (op == KERNEL_OP_MUL || op == KERNEL_OP_DIV) { // products are cut off, shifted divisors stop
        set_control(l, AIE_CR_SAT, op == KERNEL_OP_DIV);
        set_control(l, AIE_CR_VADD_SIGN, 0); // unsigned, as are the next two
        set_control(l, AIE_CR_UPS_SIGN, 0);
        set_control(l, AIE_CR_SRS_SIGN, 0);
    }
}
