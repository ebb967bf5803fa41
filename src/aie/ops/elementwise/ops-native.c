// ops-native: ops on native lanes, the datatype's own bits in full vectors of 8, 16 or 32 bits.
//
// Integers wrap, division truncates, a division by zero gives 0. Floats are handled by their bit
// patterns, denormals and all, with the results that ggml's CPU has: RELU, STEP and SGN of a NaN
// are 0, ABS clears and NEG flips the sign of anything.
//
// Kept true: no control register is relied on that native_prepare does not set.
#include "elementwise-ops.h"

#include "aie/verbs/verbs.h"

static enum lane_width width_of(const struct lanes * l) {
    return (enum lane_width)(dtype_size(l->dtype) / 2);
}

// ---- lanes by width ----

static struct asm_reg mask_new(struct lanes * l) {
    return emit_new_mask(l->p, width_of(l));
}

// A constant whose lanes all hold the low bits of v.
struct val n_bits(struct lanes * l, uint32_t v) {
    static const uint32_t spread[3] = {0x01010101, 0x00010001, 1};
    int bits = 8 * dtype_size(l->dtype);
    return k_bits(l, bits == 32 ? v : (v & ((1u << bits) - 1)) * spread[width_of(l)]);
}

struct val n_two(struct lanes * l, enum lane_op op, struct val a, struct val b) {
    struct asm_reg xa = lanes_x(l, &a), xb = lanes_x(l, &b), d = asm_local(l->p, ASM_X);
    emit_lanes(l->p, op, width_of(l), d, xa, xb);
    return val_x(d);
}

// Minimum and maximum; *mask tells how each lane was decided.
struct val n_choose(struct lanes * l, enum lane_choice op, struct val a, struct val b,
                    struct asm_reg * mask) {
    struct asm_reg xa = lanes_x(l, &a), xb = lanes_x(l, &b), d = asm_local(l->p, ASM_X);
    *mask = mask_new(l);
    emit_choose(l->p, op, width_of(l), d, *mask, xa, xb);
    return val_x(d);
}

static struct val magnitude(struct lanes * l, struct val a, struct asm_reg * positive) {
    struct asm_reg xa = lanes_x(l, &a), d = asm_local(l->p, ASM_X);
    *positive = mask_new(l);
    emit_magnitude(l->p, width_of(l), d, *positive, xa);
    return val_x(d);
}

struct asm_reg n_compare(struct lanes * l, enum lane_compare op, struct val a, struct val b) {
    struct asm_reg xa = lanes_x(l, &a), xb = lanes_x(l, &b), mask = mask_new(l);
    emit_compare(l->p, op, width_of(l), mask, xa, xb);
    return mask;
}

static struct asm_reg is_zero(struct lanes * l, struct val a) {
    struct asm_reg xa = lanes_x(l, &a), mask = mask_new(l);
    emit_is_zero(l->p, width_of(l), mask, xa);
    return mask;
}

struct val n_select(struct lanes * l, struct asm_reg mask, struct val clear, struct val set) {
    struct asm_reg a = lanes_x(l, &clear), b = lanes_x(l, &set), d = asm_local(l->p, ASM_X);
    emit_select(l->p, width_of(l), d, a, b, mask);
    return val_x(d);
}

static struct val add_or_sub(struct lanes * l, struct asm_reg mask, struct val a, struct val b) {
    struct asm_reg xa = lanes_x(l, &a), xb = lanes_x(l, &b), d = asm_local(l->p, ASM_X);
    emit_add_or_sub(l->p, width_of(l), d, xa, xb, mask);
    return val_x(d);
}

static struct asm_reg mask_xor(struct lanes * l, struct asm_reg a, struct asm_reg b) {
    struct asm_reg d = mask_new(l);
    if (width_of(l) == LANE_8) { // 64 lanes, two scalars
        for (int i = 0; i < 2; i++) {
            emit_alu(l->p, AIE_BASIC_XOR, asm_half(d, i), asm_half(a, i), asm_half(b, i));
        }
    } else {
        emit_alu(l->p, AIE_BASIC_XOR, d, a, b);
    }
    return d;
}

// ---- unary, integers ----

struct val int_neg(struct lanes * l, struct val a, struct val b) {
    (void) b;
    return n_two(l, LANE_SUB, n_bits(l, 0), a);
}

struct val int_abs(struct lanes * l, struct val a, struct val b) {
    (void) b;
    struct asm_reg unused;
    return magnitude(l, a, &unused);
}

static struct val int_clamp(struct lanes * l, struct val a, uint32_t low, const uint32_t * high) {
    struct asm_reg unused;
    a = n_choose(l, LANE_MAX, a, n_bits(l, low), &unused);
    return high ? n_choose(l, LANE_MIN, a, n_bits(l, *high), &unused) : a;
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
    return n_two(l, LANE_ADD, a, n_bits(l, patterns[l->dtype].sign)); // flips the top bit
}

struct val bits_abs(struct lanes * l, struct val a, struct val b) {
    (void) b;
    return b_and(l, a, n_bits(l, patterns[l->dtype].sign - 1));
}

// a where it is a number, 0 where it is a NaN whose sign is clear.
static struct val drop_nan(struct lanes * l, struct val a, struct val result) {
    struct asm_reg nan = n_compare(l, LANE_LESS, n_bits(l, patterns[l->dtype].infinity), a);
    return n_select(l, nan, result, n_bits(l, 0));
}

// As integers, floats with the sign bit are below zero and the others in order.
struct val bits_relu(struct lanes * l, struct val a, struct val b) {
    (void) b;
    return drop_nan(l, a, int_clamp(l, a, 0, NULL));
}

struct val bits_step(struct lanes * l, struct val a, struct val b) {
    (void) b;
    struct val zero = n_bits(l, 0);
    struct asm_reg positive = n_compare(l, LANE_LESS, zero, a);
    return drop_nan(l, a, n_select(l, positive, zero, n_bits(l, patterns[l->dtype].one)));
}

struct val bits_sgn(struct lanes * l, struct val a, struct val b) {
    struct val m = bits_abs(l, a, b), one = n_bits(l, patterns[l->dtype].one);
    struct val sgn = b_or(l, b_and(l, a, n_bits(l, patterns[l->dtype].sign)), one);
    struct val zero = n_bits(l, 0);
    return drop_nan(l, m, n_select(l, is_zero(l, m), sgn, zero));
}

// Sign and magnitude as integers of the numbers' order, with all NaNs above: those with the sign
// come last below zero, and less what patterns of NaNs are many they wrap around. Both zeros are
// one.
static uint32_t above_infinity(enum dtype t) {
    return patterns[t].sign - patterns[t].infinity;
}

uint32_t bits_order(uint32_t pattern, enum dtype t) {
    uint32_t magnitude = pattern & (patterns[t].sign - 1), gap = above_infinity(t);
    return pattern & patterns[t].sign ? 0 - gap - magnitude : magnitude - gap;
}

// ew_args() has the limits, and behind them the limits' order. A NaN becomes the upper one, as with
// MIN and MAX.
struct val bits_clamp(struct lanes * l, struct val a, struct val b) {
    struct asm_reg negative = n_compare(l, LANE_LESS, a, n_bits(l, 0));
    struct val m = bits_abs(l, a, b);
    struct val order = add_or_sub(l, negative, n_bits(l, 0 - above_infinity(l->dtype)), m);
    struct asm_reg above = n_compare(l, LANE_LESS, k_param(l, EW_CLAMP_ORDERED + 1), order);
    struct asm_reg below = n_compare(l, LANE_LESS, order, k_param(l, EW_CLAMP_ORDERED));
    return n_select(l, below, n_select(l, above, a, k_param(l, 1)), k_param(l, 0));
}

// ---- sums and products ----

struct val int_add(struct lanes * l, struct val a, struct val b) {
    return n_two(l, LANE_ADD, a, b);
}

struct val int_sub(struct lanes * l, struct val a, struct val b) {
    return n_two(l, LANE_SUB, a, b);
}

struct val int_mul(struct lanes * l, struct val a, struct val b) {
    struct asm_reg xa = lanes_x(l, &a), xb = lanes_x(l, &b), d = asm_local(l->p, ASM_X);
    struct emit_place zeros = {MEM_POOL, l->pool, lanes_slot_offset(n_bits(l, 0).slot)};
    emit_multiply(l->p, width_of(l), d, xa, xb, zeros);
    return val_x(d);
}

// ---- quotients ----

// Loads and shifts depend on nothing and would all be scheduled first, each into a register of its
// own; as many as hide their latency take turns.
enum { TURNS = 2 };

// A constant of the pool in a register that is at hand.
static struct val k_into(struct lanes * l, uint32_t lane, struct asm_reg x) {
    emit_load_same(l->p, MEM_POOL, x, l->pool, lanes_slot_offset(n_bits(l, lane).slot));
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
    struct emit_raised raised;
    emit_raise(l->p, width_of(l), &raised, divisor.x[0]);
    struct val quotient = n_bits(l, (1u << (bits - 1)) - 1);
    struct asm_reg shifted[TURNS], powers[TURNS];
    for (int i = 0; i < TURNS; i++) {
        shifted[i] = asm_local(l->p, ASM_X);
        powers[i] = asm_local(l->p, ASM_X);
    }
    for (int i = bits - 1; i > 0; i--) {
        struct asm_reg stays;
        emit_lower(l->p, width_of(l), shifted[i % TURNS], &raised, bits - 1 - i);
        struct val less = n_two(l, LANE_SUB, rest, val_x(shifted[i % TURNS]));
        rest = n_choose(l, LANE_MIN_UNSIGNED, less, rest, &stays);
        struct val power = k_into(l, 1u << (i - 1), powers[i % TURNS]);
        quotient = add_or_sub(l, stays, quotient, power);
    }
    struct asm_reg last = n_compare(l, LANE_NOT_LESS_UNSIGNED, rest, divisor);
    quotient = n_select(l, last, quotient, n_two(l, LANE_ADD, quotient, n_bits(l, 1)));
    struct val zero = n_bits(l, 0);
    lanes_x(l, &zero);
    return n_select(l, by_zero, add_or_sub(l, differ, zero, quotient), zero);
}

// ---- modes ----

static void set_control(struct lanes * l, enum aie_control which, int32_t value) {
    struct asm_reg r = asm_local(l->p, ASM_R);
    emit_set_small(l->p, r, value);
    emit_control(l->p, which, r);
}

void native_prepare(struct lanes * l, enum kernel_op op) {
    if (op == KERNEL_OP_MUL || op == KERNEL_OP_DIV) { // products are cut off, shifted divisors stop
        set_control(l, AIE_CONTROL_SATURATE, op == KERNEL_OP_DIV);
        set_control(l, AIE_CONTROL_ADD_SIGN, 0); // unsigned, as are the next two
        set_control(l, AIE_CONTROL_UPS_SIGN, 0);
        set_control(l, AIE_CONTROL_SRS_SIGN, 0);
    }
}
