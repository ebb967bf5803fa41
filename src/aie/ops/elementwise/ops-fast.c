// ops-fast: float functions in one loop each, with the accuracy of 16 bits; see math-fast.h. What a
// function is where its argument is very large, an infinity or a NaN is chosen at the end, lane by
// lane, and not on the way.
#include "elementwise-ops.h"
#include "aie/ops/lanes/math-fast.h"

#include <string.h>

#define UNUSED_B (void) b

static uint32_t bits_of(float v) {
    uint32_t pattern;
    memcpy(&pattern, &v, 4);
    return pattern;
}

// The number as a factor: a bf16 number is its own first piece.
static struct pair factor(struct lanes * l, struct val x) {
    return l->dtype == DTYPE_BF16 ? p_and_none(l, x) : p_halves(l, x);
}

// The same of any number: the first piece is cut, so that the largest do not become infinite.
static struct pair cut_factor(struct lanes * l, struct val x) {
    lanes_x(l, &x);
    lanes_bm(l, &x);
    struct pair x1 = p_uppers(l, x, k_bits(l, 0));
    return p_upper_and(l, x, p_msc(l, x, x1, p_constants(l, 1, 0)));
}

// k + a.low * b.low + a.high * b.high; k takes its place in the pool behind those of a and b.
static struct val k_mac(struct lanes * l, float k, struct pair a, struct pair b) {
    return p_mac(l, k_float(l, k), a, b);
}

// What stands for y where x is from `from` on, infinity included; and where it is at most `to`,
// with minus infinity or without.
static struct val above(struct lanes * l, struct val y, struct val x, float from, struct val is) {
    return v_select(l, m_between(l, x, bits_of(from), F32_INF), y, is);
}

static struct val below(struct lanes * l, struct val y, struct val x, float to, bool infinity,
                        struct val is) {
    uint32_t end = F32_SIGN | (F32_INF - !infinity);
    return v_select(l, m_between(l, x, bits_of(to), end), y, is);
}

// a b, of any numbers. The first pieces are cut, so that no finite one becomes infinite.
static struct val times(struct lanes * l, struct val a, struct val b) {
    lanes_x(l, &a);
    lanes_x(l, &b);
    lanes_bm(l, &a);
    lanes_bm(l, &b);
    struct pair both = p_uppers(l, a, b), b1 = p_uppers(l, b, k_bits(l, 0));
    struct val a2 = p_msc(l, a, both, p_constants(l, 1, 0));
    struct val b2 = p_msc(l, b, b1, p_constants(l, 1, 0));
    struct pair rests = p_two(l, b2, a2);
    struct val full = p_mac(l, p_mul(l, both, b1), both, rests);
    // An infinity less itself is a NaN; the product of the first pieces alone knows better.
    struct pair first_b = p_and_none(l, b);
    struct val rough = p_mul(l, p_and_none(l, a), first_b);
    lanes_x(l, &full);
    return v_select(l, m_nan(l, full), full, rough);
}

// ---- s(v) = 1 / (1 + e^-v), and x s(v) ----

static struct fast_inverse inverse_of_sigmoid(struct lanes * l, struct val v) {
    struct fast_power e = m_fast_exp(l, v, true, false);
    return m_fast_invert(l, m_fast_power_add(l, k_float(l, 1), e));
}

struct val fast_sigmoid(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    struct val y = m_fast_inverse(l, inverse_of_sigmoid(l, a));
    lanes_x(l, &y);
    lanes_x(l, &a);
    y = above(l, y, a, 17.25f, k_float(l, 1));
    return below(l, y, a, -85, true, k_bits(l, 0));
}

// x s(v), where v is near x where x is large: x itself from `top` on, also where it is a NaN; 0 up
// to -`bottom`; minus infinity is a NaN, as infinity times 0 is.
static struct val gate(struct lanes * l, struct val x, struct val v, float top, float bottom) {
    struct fast_inverse inverse = inverse_of_sigmoid(l, v);
    if (l->vectors > 1) {
        x = lanes_wait(l, x);
        lanes_bm(l, &x);
    }
    struct val y = m_fast_over(l, factor(l, x), inverse);
    lanes_x(l, &y);
    lanes_x(l, &x);
    y = v_select(l, m_greater_equal(l, x, k_float(l, top)), y, x);
    return below(l, y, x, -bottom, false, k_bits(l, 0));
}

struct val fast_silu(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    return gate(l, a, a, 17.25f, 85);
}

struct val fast_swiglu(struct lanes * l, struct val a, struct val b) {
    return times(l, fast_silu(l, a, b), b);
}

// As in ops-stages.c: s and 1 - s from s(-|x|).
struct val fast_silu_back(struct lanes * l, struct val a, struct val b) {
    lanes_x(l, &b);
    struct val one = k_float(l, 1), t = fast_sigmoid(l, b_or(l, b, k_bits(l, F32_SIGN)), b);
    struct val rest = f_sub(l, one, t);
    struct mask is_negative = m_negative(l, b);
    struct val s = v_select(l, is_negative, rest, t), other = v_select(l, is_negative, t, rest);
    struct val slope = times(l, s, f_add(l, one, times(l, b, other)));
    lanes_x(l, &slope);
    return times(l, a, below(l, slope, b, -100, false, k_bits(l, 0)));
}

// A number's first piece in both halves of a vector, and what is left of it.
struct split {
    struct pair p11;
    struct val rest;
};

static struct split split(struct lanes * l, struct val v) {
    struct pair p11 = p_twice(l, v);
    return (struct split){p11, p_msc(l, v, p11, p_constants(l, 0.5f, 0.5f))};
}

// x^2, and x as it was multiplied: its first piece in both halves of a vector; its second one below
// and both of them, which bf16 has not.
struct squared {
    struct val square;
    struct pair x11, x20, x12;
};

static struct squared square_of(struct lanes * l, struct val x) {
    lanes_bm(l, &x);
    if (l->dtype == DTYPE_BF16) {
        struct pair x11 = p_twice(l, x);
        return (struct squared){.square = p_mul(l, x11, p_and_none(l, x)), .x11 = x11};
    }
    struct split s = split(l, x);
    struct pair x20 = p_and_none(l, s.rest), x12 = p_two(l, x, s.rest);
    struct val square = p_mac(l, p_mul(l, x12, s.p11), s.p11, x20);
    return (struct squared){square, s.p11, x20, x12};
}

// w x, x as above.
static struct val times_first(struct lanes * l, struct val w, const struct squared * x) {
    struct pair w12 = p_halves(l, w);
    struct val v = p_mul(l, w12, x->x11);
    return l->dtype == DTYPE_BF16 ? v : p_mac(l, v, w12, x->x20);
}

// 0.5 x (1 + tanh(u)) is x s(2 u), u = sqrt(2/pi) x (1 + 0.044715 x^2).
struct val fast_gelu(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    const double k0 = 2 * 0.79788456080286535588, k1 = k0 * (double) 0.044715f;
    struct pieces k = p_constant(k1, 2);
    struct squared x = square_of(l, a);
    struct pair s12 = p_halves(l, x.square);
    struct val w = k_mac(l, (float) k0, s12, p_pair(l, &k, 1, 1));
    w = p_mac(l, w, s12, p_pair(l, &k, 0, 0));
    return gate(l, a, times_first(l, w, &x), 5.5f, 9.8f);
}

struct val fast_geglu(struct lanes * l, struct val a, struct val b) {
    return times(l, fast_gelu(l, a, b), b);
}

// w x, w = k0 + s u. u and w come late, and so they are split: of s and x one vector each waits for
// them, and the larger part is multiplied while the smaller one is made.
static struct val late_products(struct lanes * l, float k0, struct pair s12, struct val u,
                                const struct squared * x) {
    struct split late = split(l, u);
    struct val w = k_mac(l, k0, s12, late.p11);
    w = p_mac(l, w, s12, p_and_none(l, late.rest));
    if (l->dtype == DTYPE_BF16) {
        return times_first(l, w, x);
    }
    late = split(l, w);
    struct val v = p_mul(l, late.p11, x->x12);
    return p_mac(l, v, p_and_none(l, late.rest), x->x12);
}

// The same with the fewest loads: in the long trips of f16 vectors wait in accumulators.
static struct val few_loads(struct lanes * l, float k0, struct pair s12, struct val u,
                            const struct squared * x) {
    struct pair u12 = p_halves(l, u);
    struct val w = k_mac(l, k0, s12, p_swapped(l, u12));
    return times_first(l, p_mac(l, w, s12, u12), x);
}

// x s(v) is x times the normal distribution's function where v is its logit, x (k[0] + k[1] x^2 +
// ...): for |x| < 5.5, with an error of 2e-6 in the result and of 2e-3 of it.
struct val fast_gelu_erf(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    static const float k[] = {1.5956951f,     0.072832054f,    -0.00016901653f, -8.503164e-05f,
                              5.1641141e-06f, -1.3395758e-07f, 1.3192507e-09f};
    struct squared x = square_of(l, a);
    struct pair s12 = p_halves(l, x.square), s11 = p_twice(l, x.square);
    struct pair fourth = p_twice(l, p_mul(l, s11, s11)); // 2 x^4; both halves make it 4
    struct val low = k_mac(l, k[2], s11, p_constants(l, k[3] / 2, k[3] / 2));
    struct val high = k_mac(l, k[5] / 8, s11, p_constants(l, k[6] / 16, k[6] / 16));
    high = k_mac(l, k[4] / 4, s11, p_twice(l, high));
    struct val g = p_mac(l, low, fourth, p_twice(l, high));
    struct val u = k_mac(l, k[1], s12, p_twice(l, g));
    struct val v =
        l->dtype == DTYPE_F16 ? few_loads(l, k[0], s12, u, &x) : late_products(l, k[0], s12, u, &x);
    return gate(l, a, v, 5.5f, 5.5f);
}

struct val fast_geglu_erf(struct lanes * l, struct val a, struct val b) {
    return times(l, fast_gelu_erf(l, a, b), b);
}

struct val fast_gelu_quick(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    struct pieces k = p_constant((double) 1.702f, 2);
    struct pair x = l->dtype == DTYPE_BF16 ? p_twice(l, a) : p_halves(l, a);
    struct val v;
    lanes_bm(l, &a);
    if (l->dtype == DTYPE_BF16) {
        v = p_mul(l, x, p_pair(l, &k, 0, 1));
    } else {
        struct pair first = p_pair(l, &k, 0, 0);
        v = p_mac(l, p_mul(l, x, p_pair(l, &k, 1, 1)), x, first);
    }
    return gate(l, a, v, 10.2f, 49.9f);
}

struct val fast_geglu_quick(struct lanes * l, struct val a, struct val b) {
    return times(l, fast_gelu_quick(l, a, b), b);
}

// ---- gates with a limit: x = min(a, limit), b between -limit and limit ----

enum { ALPHA, LIMIT }; // parameters; the one without alpha has the limit in the same place

static struct val limited_above(struct lanes * l, struct val a) {
    lanes_x(l, &a);
    return v_select(l, m_float_less(l, k_param(l, LIMIT), a), a, k_param(l, LIMIT));
}

static struct val limited(struct lanes * l, struct val b) {
    lanes_x(l, &b);
    struct val sign = b_and(l, b, k_bits(l, F32_SIGN));
    struct val y = b_or(l, i_min(l, f_abs(l, b), k_param(l, LIMIT)), sign);
    return v_select(l, m_nan(l, b), y, b);
}

struct val fast_swiglu_clamp(struct lanes * l, struct val a, struct val b) {
    struct val limited_b = limited(l, b);
    return times(l, fast_silu(l, limited_above(l, a), b), limited_b);
}

// x s(alpha x) (b + 1)
struct val fast_swiglu_oai(struct lanes * l, struct val a, struct val b) {
    struct val x = limited_above(l, a), v = times(l, x, k_param(l, ALPHA));
    lanes_x(l, &v);
    struct val magnitude = f_abs(l, x), end = k_float(l, 85), most = i_min(l, f_abs(l, v), end);
    struct val near = b_or(l, most, b_and(l, v, k_bits(l, F32_SIGN)));
    struct fast_inverse inverse = inverse_of_sigmoid(l, near);
    struct val y = m_fast_over(l, cut_factor(l, x), inverse);
    lanes_x(l, &y);
    y = below(l, y, v, -85, true, k_bits(l, 0));
    struct val special = f_add(l, x, magnitude);
    y = v_select(l, m_greater_equal(l, magnitude, k_bits(l, F32_INF)), y, special);
    struct val one = k_float(l, 1);
    return times(l, y, f_add(l, limited(l, b), one));
}

// ---- e^x, e^x - 1 and what is made of it ----

struct val fast_exp(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    struct val y = m_fast_power(l, m_fast_exp(l, a, false, true));
    lanes_x(l, &y);
    lanes_x(l, &a);
    y = above(l, y, a, 88.722839f, k_bits(l, F32_INF));
    return below(l, y, a, -86.9f, true, k_bits(l, 0));
}

struct val fast_expm1(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    struct val y = m_fast_less_one(l, a, true);
    lanes_x(l, &y);
    lanes_x(l, &a);
    y = above(l, y, a, 88.722839f, k_bits(l, F32_INF));
    return below(l, y, a, -86, true, k_float(l, -1));
}

struct val fast_elu(struct lanes * l, struct val a, struct val b) {
    struct val y = fast_expm1(l, a, b);
    lanes_x(l, &a);
    return v_select(l, m_less(l, k_bits(l, 0), a), y, a);
}

// tanh |x| = u / (2 + u), u = e^(2 |x|) - 1
struct val fast_tanh(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    lanes_x(l, &a);
    struct val m = f_abs(l, a), sign = b_and(l, a, k_bits(l, F32_SIGN));
    lanes_bm(l, &m);
    struct val u = m_fast_less_one(l, f_add(l, m, m), false);
    struct pair u12 = p_halves(l, u);
    struct val y = m_fast_over(l, u12, m_fast_invert(l, f_add(l, u, k_float(l, 2))));
    lanes_x(l, &y);
    y = above(l, y, m, 9.1f, k_float(l, 1));
    return b_or(l, y, sign);
}

// ---- quotients, logarithms, roots, waves ----

struct val fast_div(struct lanes * l, struct val a, struct val b) {
    if (l->dtype == DTYPE_F16) { // one in thirty rounded otherwise shows where there are but few
        l->full = true;
        struct val q = f_div(l, a, b);
        l->full = false;
        return q;
    }
    lanes_x(l, &a);
    lanes_x(l, &b);
    struct fast_inverse d = m_fast_invert(l, m_fraction(l, b));
    struct val q = m_fast_over(l, p_halves(l, m_fraction(l, a)), d);
    return m_quotient(l, q, a, b);
}

struct val fast_log(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    return f_log(l, a);
}

// max(x, 0) + log1p(u), u = e^-|x|; log1p(u) = 2 artanh(t) = t (2 + t^2 c(t^2)), t = u / (2 + u).
struct val fast_softplus(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    static const float c[] = {0.6666668f, 0.3994f, 0.30664062f};
    lanes_x(l, &a);
    struct val u = m_fast_exp_minus(l, f_abs(l, a));
    lanes_bm(l, &u);
    struct pair u12 = p_halves(l, u);
    struct val t = m_fast_over(l, u12, m_fast_invert(l, f_add(l, u, k_float(l, 2))));
    // t is a bf16 number and a rest; the first one's square is exact in two pieces.
    struct pair t11 = p_twice(l, t), t12 = p_halves(l, t);
    struct val rest = p_msc(l, t, t11, p_constants(l, 0.5f, 0.5f));
    struct val square = p_mul(l, t11, p_and_none(l, t));
    struct pair s11 = p_twice(l, square), s12 = p_halves(l, square);
    struct val g = k_mac(l, c[1], s11, p_constants(l, c[2] / 2, c[2] / 2));
    struct pair g11 = p_twice(l, g);
    g = k_mac(l, c[0], p_and_none(l, square), g11);
    struct pair v12 = p_halves(l, p_mul(l, p_halves(l, g), t11));
    struct pair slope = p_twice(l, p_mul(l, s11, p_constants(l, 1.0625f, 1.0625f)));
    struct val y = p_mul(l, s12, p_swapped(l, v12));
    struct pair rest1 = p_and_none(l, rest);
    y = p_mac(l, p_mac(l, y, s12, v12), slope, rest1);
    y = p_mac(l, y, t12, p_constants(l, 2, 2));
    y = f_add(l, y, i_max(l, a, k_bits(l, 0)));
    lanes_x(l, &y);
    return v_select(l, m_less(l, k_float(l, 20), a), y, a);
}

// The turns by quarters are counted in n; the cosine is the sine of one more.
static struct val wave(struct lanes * l, struct val a, uint32_t quarters) {
    lanes_x(l, &a);
    struct turned t = m_turn(l, a);
    if (quarters) {
        t.n = i_add(l, t.n, k_bits(l, quarters));
    }
    struct val y = m_wave(l, t);
    struct val nan = k_bits(l, F32_NAN), end = k_float(l, 0x1p22f);
    return v_select(l, m_less(l, f_abs(l, a), end), nan, y);
}

struct val fast_sin(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    return wave(l, a, 0);
}

struct val fast_cos(struct lanes * l, struct val a, struct val b) {
    UNUSED_B;
    return wave(l, a, 1);
}

// x > 0: x (alpha_p x) + beta x; else (expm1(min(x, eps)) - x) alpha_n + beta x.
struct val fast_xielu(struct lanes * l, struct val a, struct val b) {
    enum { ALPHA_N, ALPHA_P, BETA, EPS };
    lanes_x(l, &a);
    struct mask less = m_float_less(l, k_param(l, EPS), a), positive = m_less(l, k_bits(l, 0), a);
    struct val e = fast_expm1(l, v_select(l, less, a, k_param(l, EPS)), b);
    struct val left = v_select(l, positive, f_sub(l, e, a), a);
    struct val right = v_select(l, positive, k_param(l, ALPHA_N), times(l, a, k_param(l, ALPHA_P)));
    struct val linear = times(l, a, k_param(l, BETA));
    return f_add(l, times(l, left, right), linear);
}
