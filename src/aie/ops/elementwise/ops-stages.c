// ops-stages: float ops that are too long for one loop. Each is a row of stages, and a stage is a
// loop over the chunk that takes f32 lanes from the inputs or from temporaries and leaves others
// there; ops of one program share the stages that they have in common. T0 carries the value on its
// way, T1 what will be added to its exponent, T2 a second operand, T3 the argument. What may be a
// result or go on to a further stage is written to both places.
#include "elementwise-ops.h"
#include "aie/ops/lanes/math-lanes.h"

#define STAGE(name, in, out)                                                                       \
    static void name##_fn(struct lanes * l, struct ew_vals * v);                                   \
    static const struct ew_stage name = {in, out, name##_fn};                                      \
    static void name##_fn(struct lanes * l, struct ew_vals * v)
#define OP(name, ...) const struct ew_stage * const name[] = {__VA_ARGS__, NULL}

static struct val sign_of(struct lanes * l, struct val a) {
    return b_and(l, a, k_bits(l, F32_SIGN));
}

static struct val negative(struct lanes * l, struct val a) {
    return b_or(l, a, k_bits(l, F32_SIGN));
}

static struct val at_most(struct lanes * l, struct val magnitude, float most) {
    return i_min(l, magnitude, k_float(l, most));
}

// ---- e^x ----

STAGE(exponential, EW_T0, EW_T0 | EW_T1) {
    struct power p = m_exp(l, v->t[0], math_pieces(l));
    v->t[0] = p.r;
    v->t[1] = p.scale;
}

// For differences of nearly equal numbers, of which bf16's few bits would leave none.
STAGE(exponential_fine, EW_T0, EW_T0 | EW_T1) {
    struct power p = m_exp(l, v->t[0], l->dtype == DTYPE_F32 ? PRODUCT_EXACT : 3);
    v->t[0] = p.r;
    v->t[1] = p.scale;
}

STAGE(exp_begin, EW_A, EW_T0 | EW_T3) {
    v->t[3] = v->a;
    lanes_x(l, &v->t[3]);
    v->t[0] = m_exp_argument(l, v->t[3]);
}

STAGE(exp_end, EW_T0 | EW_T1 | EW_T3, EW_OUT) {
    v->out = m_exp_result(l, (struct power){v->t[0], v->t[1]}, v->t[3]);
}

OP(ew_exp, &exp_begin, &exponential, &exp_end);

// ---- e^x - 1 ----

static struct val expm1_argument(struct lanes * l, struct val x) {
    struct val if_negative = k_float(l, 40), if_positive = k_float(l, 89);
    struct val most = v_select(l, m_negative(l, x), if_positive, if_negative);
    struct val sign = sign_of(l, x);
    return b_or(l, i_min(l, f_abs(l, x), most), sign);
}

static struct val expm1_result(struct lanes * l, struct power p, struct val x) {
    struct val h = m_half_expm1(l, p), magnitude = f_abs(l, x), whole = f_add(l, h, h);
    struct val e = v_select(l, m_less(l, magnitude, k_float(l, 0x1p-40f)), whole, x);
    return v_select(l, m_less(l, k_bits(l, F32_INF), magnitude), e, x);
}

STAGE(expm1_begin, EW_A, EW_T0 | EW_T3) {
    v->t[3] = v->a;
    lanes_x(l, &v->t[3]);
    v->t[0] = expm1_argument(l, v->t[3]);
}

STAGE(expm1_end, EW_T0 | EW_T1 | EW_T3, EW_OUT) {
    v->out = expm1_result(l, (struct power){v->t[0], v->t[1]}, v->t[3]);
}

STAGE(elu_end, EW_T0 | EW_T1 | EW_T3, EW_OUT) {
    struct val e = expm1_result(l, (struct power){v->t[0], v->t[1]}, v->t[3]);
    v->out = v_select(l, m_negative(l, v->t[3]), v->t[3], e);
}

OP(ew_expm1, &expm1_begin, &exponential, &expm1_end);
OP(ew_elu, &expm1_begin, &exponential, &elu_end);

// x > 0: x (alpha_p x) + beta x; else (expm1(min(x, eps)) - x) alpha_n + beta x.
enum { ALPHA_N, ALPHA_P, BETA, EPS };

STAGE(xielu_begin, EW_A, EW_T0 | EW_T2 | EW_T3) {
    v->t[3] = v->a;
    lanes_x(l, &v->t[3]);
    struct mask less = m_float_less(l, k_param(l, EPS), v->t[3]);
    v->t[2] = v_select(l, less, v->t[3], k_param(l, EPS));
    v->t[0] = expm1_argument(l, v->t[2]);
}

STAGE(xielu_factors, EW_T0 | EW_T1 | EW_T2 | EW_T3, EW_T0 | EW_T1) {
    lanes_x(l, &v->t[2]);
    struct val x = v->t[3], e = expm1_result(l, (struct power){v->t[0], v->t[1]}, v->t[2]);
    struct mask positive = m_less(l, k_bits(l, 0), x);
    v->t[0] = v_select(l, positive, f_sub(l, e, x), x);
    v->t[1] = v_select(l, positive, k_param(l, ALPHA_N), f_times(l, x, k_param(l, ALPHA_P)));
}

STAGE(xielu_end, EW_T0 | EW_T1 | EW_T3, EW_OUT) {
    struct val linear = f_times(l, v->t[3], k_param(l, BETA));
    v->out = f_add(l, f_times(l, v->t[0], v->t[1]), linear);
}

OP(ew_xielu, &xielu_begin, &exponential_fine, &xielu_factors, &xielu_end);

// ---- quotients ----

STAGE(divide, EW_T0 | EW_T2, EW_T0) {
    v->t[0] = m_divide_by_unit(l, v->t[0], v->t[2]);
}

STAGE(div_begin, EW_A | EW_B, EW_T0 | EW_T1 | EW_T2 | EW_T3) {
    v->t[1] = v->a;
    v->t[3] = v->b;
    lanes_x(l, &v->t[1]);
    lanes_x(l, &v->t[3]);
    v->t[0] = m_fraction(l, v->t[1]);
    v->t[2] = m_fraction(l, v->t[3]);
}

STAGE(div_end, EW_T0 | EW_T1 | EW_T3, EW_OUT) {
    v->out = m_quotient(l, v->t[0], v->t[1], v->t[3]);
}

OP(ew_div, &div_begin, &divide, &div_end);

// tanh |x| = t / (2 - t), t = 1 - e^(-2 |x|)
STAGE(tanh_begin, EW_A, EW_T0 | EW_T3) {
    v->t[3] = v->a;
    lanes_x(l, &v->t[3]);
    struct val least = k_float(l, 0x1p-20f);
    struct val m = i_max(l, at_most(l, f_abs(l, v->t[3]), 10), least);
    m = negative(l, m);
    lanes_bm(l, &m);
    v->t[0] = f_add(l, m, m);
}

STAGE(tanh_middle, EW_T0 | EW_T1, EW_T0 | EW_T2) {
    struct val h = m_half_expm1(l, (struct power){v->t[0], v->t[1]});
    struct pair ones = p_constants(l, 1, 1);
    h = f_add(l, h, h);
    v->t[0] = f_neg(l, h);
    v->t[2] = p_mac(l, h, ones, ones);
}

STAGE(tanh_end, EW_T0 | EW_T3, EW_OUT) {
    struct val x = v->t[3], magnitude = f_abs(l, x), y = b_or(l, v->t[0], sign_of(l, x));
    y = v_select(l, m_less(l, magnitude, k_float(l, 0x1p-13f)), y, x); // there it is x
    v->out = v_select(l, m_less(l, k_bits(l, F32_INF), magnitude), y, x);
}

OP(ew_tanh, &tanh_begin, &exponential, &tanh_middle, &divide, &tanh_end);

// ---- s(v) = 1 / (1 + e^-v), and x s(v) ----
// T0 begins as -|v|, T2 as v or anything of its sign, T3 as x. For v < 0, s(v) = e^v / (1 + e^v) is
// a quotient to which 2^n is still to be applied. |v| = 177 is enough to make any x vanish.

static void sigmoid_argument(struct lanes * l, struct ew_vals * v, struct val magnitude) {
    v->t[0] = negative(l, magnitude);
    v->t[2] = v->t[3];
}

STAGE(sigmoid_begin, EW_A, EW_T0 | EW_T2 | EW_T3) {
    v->t[3] = v->a;
    lanes_x(l, &v->t[3]);
    sigmoid_argument(l, v, at_most(l, f_abs(l, v->t[3]), 177));
}

STAGE(gelu_quick_begin, EW_A, EW_T0 | EW_T2 | EW_T3) {
    int n = math_pieces(l);
    v->t[3] = v->a;
    lanes_x(l, &v->t[3]);
    struct pieces p = p_split(l, at_most(l, f_abs(l, v->t[3]), 103.9f), n);
    struct pieces k = p_constant((double) 1.702f, n);
    sigmoid_argument(l, v, p_mul_n(l, &p, &k, n));
}

// 0.5 x (1 + tanh(u)) is x s(2 u), u = sqrt(2/pi) x (1 + 0.044715 x^2).
STAGE(gelu_begin, EW_A, EW_T0 | EW_T2 | EW_T3) {
    const double k0 = 2 * 0.79788456080286535588, k1 = k0 * (double) 0.044715f;
    int n = math_pieces(l);
    v->t[3] = v->a;
    lanes_x(l, &v->t[3]);
    struct pieces p = p_split(l, at_most(l, f_abs(l, v->t[3]), 12.98f), n);
    struct val square = p_mul_n(l, &p, &p, n);
    struct pieces ps = p_split(l, square, n), k = p_constant(k1, n);
    struct val w = p_mac_n(l, k_float(l, (float) k0), &k, &ps, n);
    struct pieces pw = p_split(l, w, n);
    sigmoid_argument(l, v, p_mul_n(l, &pw, &p, n));
}

STAGE(sigmoid_middle, EW_T0 | EW_T1 | EW_T2, EW_T0 | EW_T1 | EW_T2) {
    struct mask is_negative = m_negative(l, v->t[2]);
    struct val e = m_plus_one(l, v->t[0]), one = k_float(l, 1), none = k_bits(l, 0);
    lanes_x(l, &e);
    v->t[2] = f_add(l, one, i_max(l, i_add(l, e, v->t[1]), none));
    v->t[0] = v_select(l, is_negative, one, e);
    v->t[1] = v_select(l, is_negative, none, v->t[1]);
}

STAGE(sigmoid_end, EW_T0 | EW_T1 | EW_T3, EW_OUT) {
    struct val y = m_flush(l, i_add(l, v->t[0], v->t[1]));
    v->out = v_select(l, m_nan(l, v->t[3]), y, v->t[3]);
}

// inf for inf, NaN for -inf (which is inf times 0) and NaN
static struct val or_special(struct lanes * l, struct val y, struct val x) {
    struct val magnitude = f_abs(l, x);
    struct mask special = m_greater_equal(l, magnitude, k_bits(l, F32_INF));
    return v_select(l, special, y, f_add(l, x, magnitude));
}

STAGE(gate, EW_T0 | EW_T1 | EW_T3, EW_T0 | EW_OUT) {
    int n = math_pieces(l);
    struct val x = v->t[3];
    struct pieces px = p_split(l, f_abs(l, x), n), pq = p_split(l, v->t[0], n);
    struct val y = m_flush(l, i_add(l, p_mul_n(l, &px, &pq, n), v->t[1]));
    v->out = v->t[0] = or_special(l, b_or(l, y, sign_of(l, x)), x);
}

STAGE(glu_end, EW_T0 | EW_B, EW_OUT) {
    v->out = f_times(l, v->t[0], v->b);
}

#define SIGMOID &exponential, &sigmoid_middle, &divide
OP(ew_sigmoid, &sigmoid_begin, SIGMOID, &sigmoid_end);
OP(ew_silu, &sigmoid_begin, SIGMOID, &gate);
OP(ew_gelu_quick, &gelu_quick_begin, SIGMOID, &gate);
OP(ew_gelu, &gelu_begin, SIGMOID, &gate);
OP(ew_swiglu, &sigmoid_begin, SIGMOID, &gate, &glu_end);
OP(ew_geglu_quick, &gelu_quick_begin, SIGMOID, &gate, &glu_end);
OP(ew_geglu, &gelu_begin, SIGMOID, &gate, &glu_end);

// a s (1 + x (1 - s)), s = s(x). With t = s(-|x|), which is never near 1, s and 1 - s are t and
// 1 - t or the other way round, so that neither loses its bits.
STAGE(silu_back_begin, EW_B, EW_T0 | EW_T2 | EW_T3) {
    v->t[3] = v->b;
    lanes_x(l, &v->t[3]);
    v->t[2] = v->t[0] = negative(l, at_most(l, f_abs(l, v->t[3]), 177));
}

STAGE(silu_back_end, EW_A | EW_T0 | EW_T1 | EW_T3, EW_OUT) {
    struct val x = v->t[3], one = k_float(l, 1), t = m_flush(l, i_add(l, v->t[0], v->t[1]));
    struct val rest = f_sub(l, one, t);
    struct mask is_negative = m_negative(l, x);
    struct val s = v_select(l, is_negative, rest, t), other = v_select(l, is_negative, t, rest);
    struct val slope = f_times(l, s, f_add(l, one, f_times(l, x, other)));
    v->out = f_times(l, v->a, slope);
}

OP(ew_silu_back, &silu_back_begin, SIGMOID, &silu_back_end);

// ---- gates with a limit: x = min(a, limit), b between -limit and limit ----

enum { ALPHA, LIMIT }; // parameters; the one without alpha has the limit in the same place

static void limited_begin(struct lanes * l, struct ew_vals * v) {
    struct val a = v->a;
    lanes_x(l, &a);
    v->t[3] = v_select(l, m_float_less(l, k_param(l, LIMIT), a), a, k_param(l, LIMIT));
}

static struct val limited(struct lanes * l, struct val b) {
    lanes_x(l, &b);
    struct val sign = sign_of(l, b);
    struct val y = b_or(l, i_min(l, f_abs(l, b), k_param(l, LIMIT)), sign);
    return v_select(l, m_nan(l, b), y, b);
}

STAGE(swiglu_clamp_begin, EW_A, EW_T0 | EW_T2 | EW_T3) {
    limited_begin(l, v);
    sigmoid_argument(l, v, at_most(l, f_abs(l, v->t[3]), 177));
}

STAGE(swiglu_oai_begin, EW_A, EW_T0 | EW_T2 | EW_T3) {
    limited_begin(l, v);
    struct val product = f_times(l, v->t[3], k_param(l, ALPHA));
    sigmoid_argument(l, v, at_most(l, f_abs(l, product), 177));
    v->t[2] = product;
}

STAGE(swiglu_clamp_end, EW_T0 | EW_B, EW_OUT) {
    v->out = f_times(l, v->t[0], limited(l, v->b));
}

STAGE(swiglu_oai_end, EW_T0 | EW_B, EW_OUT) {
    struct val one = k_float(l, 1);
    v->out = f_times(l, v->t[0], f_add(l, limited(l, v->b), one));
}

OP(ew_swiglu_clamp, &swiglu_clamp_begin, SIGMOID, &gate, &swiglu_clamp_end);
OP(ew_swiglu_oai, &swiglu_oai_begin, SIGMOID, &gate, &swiglu_oai_end);

// ---- x / 2 (1 + erf(x / sqrt(2))) ----

STAGE(erf_begin, EW_A, EW_T0 | EW_T3) {
    v->t[3] = v->a;
    lanes_x(l, &v->t[3]);
    struct val least = k_float(l, 0x1p-30f);
    struct val a = i_max(l, at_most(l, f_abs(l, v->t[3]), 5.5f), least);
    v->t[0] = m_log_erfc(l, a, l->dtype == DTYPE_F32 ? PRODUCT_EXACT : 3);
}

STAGE(erf_gate, EW_T0 | EW_T1 | EW_T3, EW_T0 | EW_OUT) {
    int n = l->dtype == DTYPE_F32 ? PRODUCT_EXACT : 3;
    struct val x = v->t[3], h = m_half_expm1(l, (struct power){v->t[0], v->t[1]}); // -erf / 2
    struct val with_sign = i_add(l, h, sign_of(l, x));
    struct val cdf = f_sub(l, k_float(l, 0.5f), with_sign);
    struct pieces px = p_split(l, x, n), pc = p_split(l, cdf, n);
    v->out = v->t[0] = or_special(l, p_mul_n(l, &px, &pc, n), x);
}

OP(ew_gelu_erf, &erf_begin, &exponential_fine, &erf_gate);
OP(ew_geglu_erf, &erf_begin, &exponential_fine, &erf_gate, &glu_end);

// ---- logarithms: T0 is f, T1 the whole, T2 the low part ----

STAGE(log_begin, EW_A, EW_T0 | EW_T1 | EW_T2 | EW_T3) {
    v->t[3] = v->a;
    lanes_x(l, &v->t[3]);
    struct logarithm g = m_log_argument(l, v->t[3]);
    v->t[0] = g.f;
    v->t[1] = g.whole;
    v->t[2] = g.low;
}

STAGE(log_middle, EW_T0, EW_T0) {
    v->t[0] = m_log1p_rest(l, v->t[0]);
}

STAGE(log_end, EW_T0 | EW_T1 | EW_T2 | EW_T3, EW_OUT) {
    v->out = m_log_result(l, (struct logarithm){v->t[0], v->t[1], v->t[2]}, v->t[3]);
}

OP(ew_log, &log_begin, &log_middle, &log_end);

// max(x, 0) + log1p(e^-|x|), and x itself from 20 on.
STAGE(softplus_middle, EW_T0 | EW_T1, EW_T0 | EW_T1 | EW_T2) {
    struct val none = k_bits(l, 0);
    struct val u = i_max(l, i_add(l, m_plus_one(l, v->t[0]), v->t[1]), none);
    struct logarithm g = m_log1p_argument(l, u);
    v->t[0] = g.f;
    v->t[1] = g.whole;
    v->t[2] = g.low;
}

STAGE(softplus_end, EW_T0 | EW_T1 | EW_T2 | EW_T3, EW_OUT) {
    struct val x = v->t[3], y = f_add(l, f_add(l, v->t[0], v->t[2]), v->t[1]);
    y = f_add(l, y, i_max(l, x, k_bits(l, 0)));
    y = v_select(l, m_less(l, k_float(l, 20), x), y, x);
    v->out = v_select(l, m_nan(l, x), y, x);
}

OP(ew_softplus, &sigmoid_begin, &exponential, &softplus_middle, &log_middle, &softplus_end);

// ---- sine and cosine ----

STAGE(turn, EW_A, EW_T0 | EW_T1 | EW_T3) {
    v->t[3] = v->a;
    lanes_x(l, &v->t[3]);
    struct turned t = m_turn(l, v->t[3]);
    v->t[0] = t.r;
    v->t[1] = t.n;
}

STAGE(quarter, EW_T1, EW_T1) {
    v->t[1] = i_add(l, v->t[1], k_bits(l, 1));
}

STAGE(wave, EW_T0 | EW_T1 | EW_T3, EW_OUT) {
    struct val y = m_wave(l, (struct turned){v->t[0], v->t[1]});
    struct val end = k_float(l, 0x1p22f);
    struct mask in_range = m_less(l, f_abs(l, v->t[3]), end);
    v->out = v_select(l, in_range, k_bits(l, F32_NAN), y);
}

OP(ew_sin, &turn, &wave);
OP(ew_cos, &turn, &quarter, &wave);
