// ops-wide: elementwise products by two values at once (lanes/wide.h). bf16 lanes are their own
// piece, as they come from memory.
//
// Kept true: pieces, the order of the products and what is done about infinities are those of the
// functions that these stand for (lanes-float.c, math.c), and so are the results of f32.
#include "elementwise-ops.h"

#include "aie/ops/lanes/pieces.h"
#include "aie/ops/lanes/wide.h"

enum { PIECES = WIDE_PIECES };

// What a trip has of an input: the accumulator, or with bf16 the vector.
struct wide {
    struct asm_reg acc, x;
};

// Of a result: a value for each half.
struct wide_out {
    struct val half[WIDE_VALUES];
};

static struct wide_out out_of(struct asm_reg acc) {
    return (struct wide_out){{wide_half(acc, 0), wide_half(acc, 1)}};
}

static struct wide_out known(struct lanes * l, struct asm_reg full, struct asm_reg rough) {
    struct wide_out out;
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
        pieces[i] = p_params(l, first + i, first + i);
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

// Two pieces of the slope are more than the result keeps.
static struct wide_out leaky_relu_bf16(struct lanes * l, struct wide a, struct wide b) {
    (void) b;
    struct asm_reg right[PIECES], one = p_constants(l, 1, 1);
    factor_pieces(l, SLOPE_PIECE, right);
    struct asm_reg small = wide_each(l, LANE_PRODUCT, NULL, a.x, right[1]);
    struct asm_reg y = wide_each(l, LANE_PLUS_PRODUCT, &small, a.x, right[0]);
    return where_negative(l, wide_each(l, LANE_PRODUCT, NULL, a.x, one), out_of(y));
}

// ---- which there are ----

static const struct wide_row {
    enum kernel_op op;
    enum dtype type;
    struct wide_out (*fn)(struct lanes * l, struct wide a, struct wide b);
} rows[] = {
    {KERNEL_OP_MUL, DTYPE_F32, mul_f32},
    {KERNEL_OP_MUL, DTYPE_BF16, mul_bf16},
    {KERNEL_OP_SQR, DTYPE_F32, sqr_f32},
    {KERNEL_OP_SQR, DTYPE_BF16, sqr_bf16},
    {KERNEL_OP_SCALE, DTYPE_F32, scale_f32},
    {KERNEL_OP_SCALE, DTYPE_BF16, scale_bf16},
    {KERNEL_OP_LEAKY_RELU, DTYPE_F32, leaky_relu_f32},
    {KERNEL_OP_LEAKY_RELU, DTYPE_BF16, leaky_relu_bf16},
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

static struct wide load(struct lanes * l, struct asm_reg pointer, int memory) {
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
    struct wide a = load(l, pa, MEM_A), b = {.x = {0}};
    if (kernel_op_info(e->op)->n_inputs > 1) {
        b = load(l, pb, MEM_B);
    }
    struct wide_out out = row->fn(l, a, b);
    for (int i = 0; i < WIDE_VALUES; i++) {
        lanes_store(l, out.half[i], pout, MEM_OUT, false);
    }
}
