// ops-unary: float ops that fit one loop, on f32 lanes. Where C's formula has a meaning for NaN
// that is not NaN (a comparison that fails, fmax), the op has it too.
#include "elementwise-ops.h"
#include "aie/ops/lanes/math.h"
#include "aie/ops/lanes/pieces.h"

#define UNUSED_B (void) b

static struct val zero(struct lanes * l) {
    return k_bits(l, 0);
}

static int pieces_of(const struct lanes * l) {
    return l->dtype == DTYPE_F32 ? PRODUCT_EXACT : 2;
}

// ---- arithmetic ----

struct val ew_add(struct lanes * l, struct val a, struct val b) {
    return f_add(l, a, b);
}

struct val ew_sub(struct lanes * l, struct val a, struct val b) {
    return f_sub(l, a, b);
}

struct val ew_mul(struct lanes * l, struct val a, struct val b) {
    if (l->dtype != DTYPE_BF16) {
        return l->vectors > 1 ? f_times(l, a, b) : f_mul(l, a, b);
    }
    // bf16 factors are their own first piece, and their product fits f32
    struct factor left = f_factor(l, a, 1, FACTOR_LEFT), right = f_factor(l, b, 1, FACTOR_RIGHT);
    return f_product(l, &left, &right);
}

struct val ew_scale(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    if (l->dtype == DTYPE_BF16) { // one piece times those that ew_args() makes of the factor
        struct pieces p = p_split(l, a, 1);
        struct pair twice = p_pair(l, &p, 0, 0);
        struct val small = p_mac(l, k_param(l, 1), twice, p_params(l, 3, 4));
        return p_mac(l, small, twice, p_params(l, 2, 5));
    }
    return f_add(l, f_times(l, a, k_param(l, 0)), k_param(l, 1));
}

struct val ew_sqr(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    int n = l->dtype == DTYPE_BF16 ? 1 : pieces_of(l);
    struct pieces p = p_split(l, a, n);
    struct val full = p_mul_n(l, &p, &p, n);
    if (n == 1) {
        return full;
    }
    struct pair first = p_pair(l, &p, 0, NO_PIECE_AT);
    struct val rough = p_mul(l, first, first);
    lanes_x(l, &full);
    return v_select(l, m_nan(l, full), full, rough);
}

struct val ew_leaky_relu(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    lanes_x(l, &a);
    struct val scaled = f_times(l, a, k_param(l, 0));
    struct val y = v_select(l, m_negative(l, a), a, scaled);
    struct val none = zero(l);
    return v_select(l, m_nan(l, a), y, none);
}

// ---- rounding and roots ----

struct val ew_floor(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    return f_round(l, a, ROUND_DOWN);
}

struct val ew_ceil(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    return f_round(l, a, ROUND_UP);
}

struct val ew_round(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    return f_round(l, a, ROUND_HALF_OUTWARD);
}

struct val ew_trunc(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    return f_round(l, a, ROUND_INWARD);
}

struct val ew_sqrt(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    return f_sqrt(l, a);
}

// ---- activations ----

struct val ew_hardsigmoid(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    struct val six = k_float(l, 6), none = zero(l);
    struct val t = i_min(l, i_max(l, f_add(l, a, k_float(l, 3)), none), six);
    int n = pieces_of(l);
    struct pieces pt = p_split(l, t, n), sixth = p_constant((double) (1.0f / 6), n);
    struct val y = p_mul_n(l, &pt, &sixth, n); // 6 gives exactly 1: the constant is rounded up
    return v_select(l, m_nan(l, a), y, none);
}

struct val ew_hardswish(struct lanes * l, struct val a, struct val b) {
    return f_times(l, a, ew_hardsigmoid(l, a, b));
}

struct val ew_reglu(struct lanes * l, struct val a, struct val b) {
    lanes_x(l, &a);
    struct val none = k_bits(l, 0), normal = k_bits(l, 0x00800000);
    struct val product = f_times(l, a, b);
    struct val y = v_select(l, m_less(l, a, normal), product, none);
    return v_select(l, m_nan(l, a), y, none);
}
