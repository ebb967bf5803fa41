// aie2p-ops-wide: elementwise products by two values at once (lanes/aie2p-wide.h). bf16 lanes are
// their own piece, as they come from memory; what is asked and chosen is done on their 16 bits, in
// whole vectors.
//
// Kept true: pieces, the order of the products and what is done about infinities are those of the
// functions that these stand for (lanes-float.c, math.c), and so are the results of f32. Those of
// the roundings are exact.
#include "elementwise-ops.h"

#include "aie/ops/lanes/pieces.h"
#include "aie/ops/lanes/aie2p-wide.h"

enum { PIECES = WIDE_PIECES };

// What a trip has of an input: the accumulator, or with bf16 the vector.
struct wide {
    struct asm_reg acc, x;
};

// A result: a value for each half, or with bf16 a vector that is stored as it is.
struct wide_out {
    struct val half[WIDE_VALUES];
    bool whole;
    struct asm_reg x;
};

static struct wide_out out_of(struct asm_reg acc) {
    return (struct wide_out){.half = {wide_half(acc, 0), wide_half(acc, 1)}};
}

static struct wide_out known(struct lanes * l, struct asm_reg full, struct asm_reg rough) {
    struct wide_out out = {.whole = false};
    for (int i = 0; i < WIDE_VALUES; i++) {
        out.half[i] = wide_known(l, full, rough, i);
    }
    return out;
}

// ---- f32: three pieces of each factor ----

static struct wide_out times(struct lanes * l, const struct asm_reg a[PIECES],
                             const struct asm_reg b[PIECES]) {
    struct asm_reg rough = wide_each(l, LANE_PRODUCT, NULL, a[0], b[0]);
    return known(l, wide_product(l, NULL, a, b, true), rough);
}

static struct wide_out mul_f32(struct lanes * l, struct wide a, struct wide b) {
    struct asm_reg left[PIECES], right[PIECES];
    wide_split(l, a.acc, left, PIECES);
    wide_split(l, b.acc, right, PIECES);
    return times(l, left, right);
}

static struct wide_out sqr_f32(struct lanes * l, struct wide a, struct wide b) {
    (void) b;
    struct asm_reg pieces[PIECES];
    wide_split(l, a.acc, pieces, PIECES);
    return times(l, pieces, pieces);
}

// ew_args() has a factor's pieces behind the parameters.
enum { SCALE_OFFSET = 1, SCALE_PIECE = 2, SLOPE_PIECE = 1 };

static void factor_pieces(struct lanes * l, int first, struct asm_reg pieces[PIECES]) {
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = p_params(l, first + i, first + i).x[0];
    }
}

static struct wide_out scale_f32(struct lanes * l, struct wide a, struct wide b) {
    (void) b;
    struct asm_reg left[PIECES], right[PIECES];
    wide_split(l, a.acc, left, PIECES);
    factor_pieces(l, SCALE_PIECE, right);
    struct asm_reg offset = wide_same(l, k_param(l, SCALE_OFFSET)), products[2], sums[2];
    products[0] = wide_product(l, NULL, left, right, true);
    products[1] = wide_each(l, LANE_PRODUCT, NULL, left[0], right[0]);
    for (int i = 0; i < 2; i++) {
        sums[i] = wide_new(l);
        emit_f_add(l->p, sums[i], products[i], offset, l->float_config);
    }
    return known(l, sums[0], sums[1]);
}

// y where a is below zero, a where it is not, 0 where it is no number.
static struct wide_out where_negative(struct lanes * l, struct asm_reg acc, struct wide_out y) {
    struct wide_out in = out_of(acc);
    for (int i = 0; i < 2; i++) {
        lanes_x(l, &in.half[i]);
        struct val v = v_select(l, m_negative(l, in.half[i]), in.half[i], y.half[i]);
        struct val none = k_bits(l, 0);
        y.half[i] = v_select(l, m_nan(l, in.half[i]), v, none);
    }
    return y;
}

static struct wide_out leaky_relu_f32(struct lanes * l, struct wide a, struct wide b) {
    (void) b;
    struct asm_reg left[PIECES], right[PIECES];
    wide_split(l, a.acc, left, PIECES);
    factor_pieces(l, SLOPE_PIECE, right);
    return where_negative(l, a.acc, times(l, left, right));
}

// ---- bf16: vectors as they are ----

static struct wide_out mul_bf16(struct lanes * l, struct wide a, struct wide b) {
    return out_of(wide_each(l, LANE_PRODUCT, NULL, a.x, b.x));
}

static struct wide_out sqr_bf16(struct lanes * l, struct wide a, struct wide b) {
    (void) b;
    return mul_bf16(l, a, a);
}

static struct wide_out scale_bf16(struct lanes * l, struct wide a, struct wide b) {
    (void) b;
    struct asm_reg sum = wide_same(l, k_param(l, SCALE_OFFSET)), right[PIECES];
    factor_pieces(l, SCALE_PIECE, right);
    for (int i = PIECES - 1; i >= 0; i--) {
        sum = wide_each(l, LANE_PLUS_PRODUCT, &sum, a.x, right[i]);
    }
    return out_of(sum);
}

// ---- bf16: bits of vectors ----

static struct asm_reg to_bf16(struct lanes * l, struct asm_reg acc) {
    struct asm_reg x;
    wide_split(l, acc, &x, 1);
    return x;
}

static struct wide_out whole(struct val v) {
    return (struct wide_out){.whole = true, .x = v.x[0]};
}

enum { BF16_SIGN = 0x8000, BF16_MAGNITUDE = 0x7fff, BF16_INF = 0x7f80 };

// Two pieces of the slope are more than the result keeps. What is no number is 0.
static struct wide_out leaky_relu_bf16(struct lanes * l, struct wide a, struct wide b) {
    (void) b;
    struct asm_reg right[PIECES];
    factor_pieces(l, SLOPE_PIECE, right);
    struct asm_reg small = wide_each(l, LANE_PRODUCT, NULL, a.x, right[1]);
    struct asm_reg scaled = to_bf16(l, wide_each(l, LANE_PLUS_PRODUCT, &small, a.x, right[0]));
    struct val x = val_x(a.x), none = n_bits(l, 0);
    struct val y = n_select(l, n_compare(l, LANE_NOT_LESS, x, none), val_x(scaled), x);
    struct val magnitude = n_two(l, LANE_AND, x, n_bits(l, BF16_MAGNITUDE));
    struct asm_reg is_nan = n_compare(l, LANE_NOT_LESS, magnitude, n_bits(l, BF16_INF + 1));
    return whole(n_select(l, is_nan, y, none));
}

// ---- bf16: roundings ----

// From 2^7 on there are only integers, and below it the last bit of 1 and more is worth 2^-7 or
// more, that of less than 1 at most 2^-8. So nothing but an integer is nearer to the next one than
// 2^-8, and less than half of that beside the half decides every case when it is moved by and
// rounded to nearest:
//
//     inward     |x| - NEAR_HALF
//     down, up   x - NEAR_HALF, x + NEAR_HALF; what is next to zero on the wrong side is -+2^-7
//     nearest    x + 2^-9 x: a half goes outward, and what is below a half stays there
//
// The sum with 3 * 2^22 rounds. Zeros, integers, infinities and NaNs stay as they are, and the sign
// is always that of x. By then several trips have begun: x is loaded once more, as b.
enum { ONLY_INTEGERS = 0x4300, SMALL = 0x3c00 }; // 2^7, 2^-7
#define NEAR_HALF (0.5f - 0x1p-9f)

static struct asm_reg moved(struct lanes * l, struct asm_reg acc, enum lane_product op, float by) {
    struct asm_reg x = wide_constant(l, by), one = wide_constant(l, 1);
    return wide_each(l, op, &acc, x, one);
}

static struct asm_reg itself(struct lanes * l, struct asm_reg x) {
    return wide_each(l, LANE_PRODUCT, NULL, x, wide_constant(l, 1));
}

// The integer next to what stands in an accumulator, as x wants it.
static struct wide_out rounded(struct lanes * l, struct wide in, struct asm_reg acc) {
    const float big = 0x1.8p23f;
    struct asm_reg sum = moved(l, acc, LANE_PLUS_PRODUCT, big);
    struct val x = val_x(in.x), y = val_x(to_bf16(l, moved(l, sum, LANE_LESS_PRODUCT, big)));
    y = n_two(l, LANE_OR, y, n_two(l, LANE_AND, x, n_bits(l, BF16_SIGN)));
    struct val magnitude = n_two(l, LANE_AND, x, n_bits(l, BF16_MAGNITUDE));
    struct val less_one = n_two(l, LANE_SUB, magnitude, n_bits(l, 1)); // zeros come last
    struct val most = n_bits(l, ONLY_INTEGERS - 1);
    return whole(n_select(l, n_compare(l, LANE_NOT_LESS_UNSIGNED, less_one, most), y, x));
}

static struct wide_out trunc_bf16(struct lanes * l, struct wide a, struct wide b) {
    struct val magnitude = n_two(l, LANE_AND, val_x(a.x), n_bits(l, BF16_MAGNITUDE));
    struct asm_reg x = itself(l, magnitude.x[0]);
    return rounded(l, b, moved(l, x, LANE_LESS_PRODUCT, NEAR_HALF));
}

// As integers, numbers with the sign are below zero, those next to zero last.
static struct asm_reg off_zero(struct lanes * l, struct val x) {
    struct asm_reg unused;
    return n_choose(l, LANE_MAX, x, n_bits(l, BF16_SIGN | SMALL), &unused).x[0];
}

static struct wide_out floor_bf16(struct lanes * l, struct wide a, struct wide b) {
    struct asm_reg x = itself(l, off_zero(l, val_x(a.x)));
    return rounded(l, b, moved(l, x, LANE_LESS_PRODUCT, NEAR_HALF));
}

static struct wide_out ceil_bf16(struct lanes * l, struct wide a, struct wide b) {
    struct asm_reg minus = off_zero(l, n_two(l, LANE_ADD, val_x(a.x), n_bits(l, BF16_SIGN)));
    struct asm_reg half = itself(l, wide_constant(l, NEAR_HALF));
    struct asm_reg one = wide_constant(l, 1);
    return rounded(l, b, wide_each(l, LANE_LESS_PRODUCT, &half, minus, one));
}

static struct wide_out round_bf16(struct lanes * l, struct wide a, struct wide b) {
    struct asm_reg x = itself(l, a.x), part = wide_constant(l, 0x1p-9f);
    return rounded(l, b, wide_each(l, LANE_PLUS_PRODUCT, &x, a.x, part));
}

// ---- bf16: hard gates ----

enum { BF16_THREE = 0x4040, BF16_ONE = 0x3f80 };

// 0.5 + x / 6, to the last bits of f32 also where little is left of it.
static struct asm_reg slope_of(struct lanes * l, struct asm_reg x) {
    struct pieces sixth = p_constant(1.0 / 6, PIECES);
    struct asm_reg half = wide_constant(l, 0.5f), one = wide_constant(l, 1);
    struct asm_reg sum = wide_each(l, LANE_PRODUCT, NULL, half, one);
    for (int i = PIECES - 1; i >= 0; i--) {
        struct asm_reg piece = wide_constant(l, sixth.constant[i]);
        sum = wide_each(l, LANE_PLUS_PRODUCT, &sum, x, piece);
    }
    return sum;
}

// Between 0 and 1, as integers too. What is no number is 0.
static struct wide_out hardsigmoid_bf16(struct lanes * l, struct wide a, struct wide b) {
    struct asm_reg unused;
    struct val y = val_x(to_bf16(l, slope_of(l, a.x))), x = val_x(b.x), none = n_bits(l, 0);
    y = n_choose(l, LANE_MAX, y, none, &unused);
    y = n_choose(l, LANE_MIN, y, n_bits(l, BF16_ONE), &unused);
    struct val magnitude = n_two(l, LANE_AND, x, n_bits(l, BF16_MAGNITUDE));
    struct asm_reg is_nan = n_compare(l, LANE_NOT_LESS, magnitude, n_bits(l, BF16_INF + 1));
    return whole(n_select(l, is_nan, y, none));
}

// x itself from 3 on, and where it is a NaN; x times 0 up to -3.
static struct wide_out hardswish_bf16(struct lanes * l, struct wide a, struct wide b) {
    struct asm_reg factor[2], zero = wide_constant(l, 0);
    wide_split(l, slope_of(l, a.x), factor, 2);
    struct asm_reg small = wide_each(l, LANE_PRODUCT, NULL, a.x, factor[1]);
    struct asm_reg product = wide_each(l, LANE_PLUS_PRODUCT, &small, a.x, factor[0]);
    struct val y = val_x(to_bf16(l, product)), x = val_x(b.x);
    y = n_select(l, n_compare(l, LANE_NOT_LESS, x, n_bits(l, BF16_THREE)), y, x);
    struct val none = val_x(to_bf16(l, wide_each(l, LANE_PRODUCT, NULL, b.x, zero)));
    struct val end = n_bits(l, BF16_SIGN | BF16_THREE);
    return whole(n_select(l, n_compare(l, LANE_NOT_LESS_UNSIGNED, x, end), y, none));
}

// ---- which there are ----

static const struct wide_row {
    enum kernel_op op;
    enum dtype type;
    struct wide_out (*fn)(struct lanes * l, struct wide a, struct wide b);
    bool twice;    // b is a, loaded again
    uint8_t spare; // vectors that constants leave to it, more than to others
} rows[] = {
    {KERNEL_OP_MUL, DTYPE_F32, mul_f32, false, 0},
    {KERNEL_OP_MUL, DTYPE_BF16, mul_bf16, false, 0},
    {KERNEL_OP_SQR, DTYPE_F32, sqr_f32, false, 0},
    {KERNEL_OP_SQR, DTYPE_BF16, sqr_bf16, false, 0},
    {KERNEL_OP_SCALE, DTYPE_F32, scale_f32, false, 0},
    {KERNEL_OP_SCALE, DTYPE_BF16, scale_bf16, false, 0},
    {KERNEL_OP_LEAKY_RELU, DTYPE_F32, leaky_relu_f32, false, 0},
    {KERNEL_OP_LEAKY_RELU, DTYPE_BF16, leaky_relu_bf16, false, 0},
    {KERNEL_OP_FLOOR, DTYPE_BF16, floor_bf16, true, 0},
    {KERNEL_OP_CEIL, DTYPE_BF16, ceil_bf16, true, 0},
    {KERNEL_OP_ROUND, DTYPE_BF16, round_bf16, true, 0},
    {KERNEL_OP_TRUNC, DTYPE_BF16, trunc_bf16, true, 0},
    {KERNEL_OP_HARDSIGMOID, DTYPE_BF16, hardsigmoid_bf16, true, 0},
    {KERNEL_OP_HARDSWISH, DTYPE_BF16, hardswish_bf16, true, 2},
};

static const struct wide_row * row_of(const struct ew_op * e, enum aie_arch arch, enum dtype t) {
    bool fits = wide_is_there(aie_target(arch));
    for (size_t i = 0; fits && i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].op == e->op && rows[i].type == t && e->types == EW_FLOATS) {
            return &rows[i];
        }
    }
    return NULL;
}

bool ew_is_wide(const struct ew_op * e, enum aie_arch arch, enum dtype t) {
    return row_of(e, arch, t) != NULL;
}

bool ew_loads_twice(const struct ew_op * e, enum aie_arch arch, enum dtype t) {
    const struct wide_row * row = row_of(e, arch, t);
    return row && row->twice;
}

int ew_wide_kept(const struct ew_op * e, enum aie_arch arch, enum dtype t) {
    return LANES_MOST_KEPT - row_of(e, arch, t)->spare;
}

static struct wide load_operand(struct lanes * l, struct asm_reg pointer, int memory) {
    struct wide w = {.x = {0}};
    if (l->dtype == DTYPE_BF16) {
        w.x = asm_local(l->p, ASM_X);
        emit_load_next(l->p, memory, w.x, pointer);
    } else {
        w.acc = wide_load(l, pointer, memory);
    }
    return w;
}

void ew_wide_trip(struct lanes * l, const struct ew_op * e, struct asm_reg pa, struct asm_reg pb,
                  struct asm_reg pout) {
    const struct wide_row * row = row_of(e, asm_target(l->p)->arch, l->dtype);
    struct wide a = load_operand(l, pa, MEM_A), b = {.x = {0}};
    if (kernel_op_info(e->op)->n_inputs > 1) {
        b = load_operand(l, pb, MEM_B);
    } else if (row->twice) {
        b = load_operand(l, pb, MEM_A);
    }
    struct wide_out out = row->fn(l, a, b);
    if (out.whole) {
        emit_store_next(l->p, MEM_OUT, out.x, pout);
        return;
    }
    for (int i = 0; i < WIDE_VALUES; i++) {
        lanes_store(l, out.half[i], pout, MEM_OUT, false);
    }
}
