// ops-unary: float ops of one input, on f32 lanes. Where C's formula has a meaning for NaN that is not
// NaN (a comparison that fails, fmax), the op has it too.
#include "elementwise-ops.h"
#include "math.h"
#include "pieces.h"

#define UNUSED_B (void) b

enum { INF = 0x7f800000 };
#define SIGN 0x80000000u

static struct val zero(struct lanes * l) {
    return k_bits(l, 0);
}

static int pieces_of(const struct lanes * l) {
    return l->dtype == DTYPE_F32 ? PRODUCT_EXACT : l->dtype == DTYPE_F16 ? 3 : 2;
}

// ---- arithmetic ----

struct val ew_div(struct lanes * l, struct val a, struct val b) {
    return f_div(l, a, b);
}

struct val ew_scale(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
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
    struct val rough = p_mul(l, p_pair(l, &p, 0, NO_PIECE_AT), p_pair(l, &p, 0, NO_PIECE_AT));
    lanes_x(l, &full);
    return v_select(l, m_nan(l, full), full, rough);
}

// Floats as integers of the same order, and back.
static struct val in_order(struct lanes * l, struct val a) {
    lanes_x(l, &a);
    return v_select(l, m_negative(l, a), a, i_sub(l, k_bits(l, SIGN), a));
}

struct val ew_clamp(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    lanes_x(l, &a);
    struct val low = in_order(l, k_param(l, 0)), high = in_order(l, k_param(l, 1));
    struct val v = i_max(l, i_min(l, in_order(l, a), high), low);
    return v_select(l, m_nan(l, a), in_order(l, v), k_param(l, 1));
}

struct val ew_leaky_relu(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    lanes_x(l, &a);
    struct val y = v_select(l, m_negative(l, a), a, f_times(l, a, k_param(l, 0)));
    return v_select(l, m_nan(l, a), y, zero(l));
}

// ---- rounding ----

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

// ---- elementary functions ----

struct val ew_exp(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    return f_exp(l, a);
}

struct val ew_expm1(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    return f_expm1(l, a);
}

struct val ew_log(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    return f_log(l, a);
}

struct val ew_sqrt(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    return f_sqrt(l, a);
}

struct val ew_sin(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    return f_sin(l, a);
}

struct val ew_cos(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    return f_cos(l, a);
}

struct val ew_tanh(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    return f_tanh(l, a);
}

struct val ew_sigmoid(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    return f_sigmoid(l, a);
}

// ---- activations ----

struct val ew_hardsigmoid(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    struct val t = i_min(l, i_max(l, f_add(l, a, k_float(l, 3)), zero(l)), k_float(l, 6));
    int n = pieces_of(l);
    struct pieces pt = p_split(l, t, n), sixth = p_constant((double) (1.0f / 6), n);
    struct val y = p_mul_n(l, &pt, &sixth, n); // 6 gives exactly 1: the constant is rounded up
    return v_select(l, m_nan(l, a), y, zero(l));
}

struct val ew_hardswish(struct lanes * l, struct val a, struct val b) {
    return f_times(l, a, ew_hardsigmoid(l, a, b));
}

struct val ew_elu(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    lanes_x(l, &a);
    return v_select(l, m_negative(l, a), a, f_expm1(l, a));
}

struct val ew_silu(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    lanes_x(l, &a);
    return f_times_sigmoid(l, a, i_min(l, f_abs(l, a), k_float(l, 177)));
}

struct val ew_gelu_quick(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    lanes_x(l, &a);
    int n = pieces_of(l);
    struct pieces p = p_split(l, i_min(l, f_abs(l, a), k_float(l, 103.9f)), n);
    struct pieces k = p_constant((double) 1.702f, n);
    return f_times_sigmoid(l, a, p_mul_n(l, &p, &k, n));
}

// 0.5 x (1 + tanh(u)) is x / (1 + e^(-2u)), u = sqrt(2/pi) x (1 + 0.044715 x^2).
struct val ew_gelu(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    const double k0 = 2 * 0.79788456080286535588, k1 = k0 * (double) 0.044715f;
    lanes_x(l, &a);
    int n = pieces_of(l);
    struct pieces p = p_split(l, i_min(l, f_abs(l, a), k_float(l, 12.98f)), n);
    struct val square = p_mul_n(l, &p, &p, n);
    struct pieces ps = p_split(l, square, n), k = p_constant(k1, n);
    struct val w = p_mac_n(l, k_float(l, (float) k0), &k, &ps, n);
    struct pieces pw = p_split(l, w, n);
    return f_times_sigmoid(l, a, p_mul_n(l, &pw, &p, n));
}

struct val ew_gelu_erf(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    return f_times_normal(l, a);
}

// max(x, 0) + log1p(e^-|x|), and x itself from 20 on.
struct val ew_softplus(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    lanes_x(l, &a);
    struct val y = f_log1p_unit(l, f_exp(l, b_or(l, a, k_bits(l, SIGN))));
    y = f_add(l, y, i_max(l, a, zero(l)));
    y = v_select(l, m_less(l, k_float(l, 20), a), y, a);
    return v_select(l, m_nan(l, a), y, a);
}

// x > 0: x (alpha_p x) + beta x; else (expm1(min(x, eps)) - x) alpha_n + beta x.
struct val ew_xielu(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    enum { ALPHA_N, ALPHA_P, BETA, EPS };
    lanes_x(l, &a);
    struct asm_reg less = m_float_less(l, k_param(l, EPS), a);
    struct val e = f_expm1(l, v_select(l, less, a, k_param(l, EPS)));
    struct asm_reg positive = m_less(l, zero(l), a);
    struct val left = v_select(l, positive, f_sub(l, e, a), a);
    struct val right = v_select(l, positive, k_param(l, ALPHA_N), f_times(l, a, k_param(l, ALPHA_P)));
    return f_add(l, f_times(l, left, right), f_times(l, a, k_param(l, BETA)));
}
