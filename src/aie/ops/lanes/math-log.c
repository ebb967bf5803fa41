// math-log: logarithms. x = 2^k m with m between sqrt(1/2) and sqrt(2), log(x) = k ln(2) + log1p(m
// - 1).
#include "math-lanes.h"

// log1p(f) = f + f (f (-0.5 + f c(f))): c for f in [-0.293, 0.4143].
static const float log_full[] = {0.333333164f, -0.250008106f, 0.200022966f, -0.166245028f,
                                 0.141809076f, -0.131290093f, 0.128838211f, -0.078616254f}; // 2^-27
static const float log_f16[] = {0.333346665f,  -0.249842152f, 0.199084476f,
                                -0.171025068f, 0.161561131f,  -0.104897782f};               // 2^-22
static const float log_bf16[] = {0.332756877f, -0.252155572f, 0.219170585f, -0.149783984f}; // 2^-16

struct val m_log1p_rest(struct lanes * l, struct val f) {
    static const struct {
        const float * c;
        int last;
    } by_pieces[] = {[2] = {log_bf16, 3}, [3] = {log_f16, 5}, [PRODUCT_EXACT] = {log_full, 7}};
    int n = math_pieces(l), last = by_pieces[n].last;
    const float * c = by_pieces[n].c;
    struct pieces pf = p_split(l, f, n), top = p_constant((double) c[last], 1);
    struct pair tops = p_pair(l, &top, 0, 0), f12 = p_pair(l, &pf, 0, 1);
    struct val h = p_mac(l, k_float(l, c[last - 1]), f12, tops);
    for (int i = last - 2; i >= 0; i--) {
        h = p_step(l, c[i], h, &pf, i > 1 ? 2 : math_pieces_small(n));
    }
    h = p_step(l, -0.5f, h, &pf, math_pieces_small(n));
    struct pieces ph = p_split(l, h, n);
    struct val u = p_mul_n(l, &ph, &pf, n);
    struct pieces pu = p_split(l, u, n);
    return p_mul_n(l, &pu, &pf, n);
}

// m - 1, exactly: the adder rounds at the largest term, so none may be larger than m.
static struct val less_one(struct lanes * l, struct val m) {
    struct pair ones = p_constants(l, 1, 1);
    return p_msc(l, m, p_constants(l, 0.5f, 0.5f), ones);
}

struct logarithm m_log_argument(struct lanes * l, struct val x) {
    enum { SQRT_HALF = 0x3f3504f3, BIASED = 0x40000000 /* 128 in the exponent */ };
    struct val above_fraction = k_bits(l, 0xff800000);
    struct val k = b_and(l, i_sub(l, x, k_bits(l, SQRT_HALF)), above_fraction);
    struct val f = less_one(l, i_sub(l, x, k));
    // k + 128 as the integer 128 (k + 128) in the fraction of a float, then as a number
    struct val two_23 = k_float(l, 0x1p23f);
    struct val k128 = b_or(l, m_down16(l, i_add(l, k, k_bits(l, BIASED))), two_23);
    k128 = f_sub(l, k128, k_float(l, 0x1p23f + 128 * 128));
    struct pieces pk = p_split(l, k128, 1), ln2 = p_constant(MATH_LN_2 / 128, 3);
    struct pair kk = p_pair(l, &pk, 0, 0);
    // f + k ln(2)'s first piece is exact, and no larger than the result.
    struct val whole = p_mac(l, f, kk, p_pair(l, &ln2, 0, NO_PIECE_AT));
    struct val low = p_mul(l, kk, p_pair(l, &ln2, 1, 2));
    return (struct logarithm){f, whole, low};
}

struct val m_log_result(struct lanes * l, struct logarithm g, struct val x) {
    struct val y = f_add(l, f_add(l, g.f, g.low), g.whole);
    // Zeros (and denormals) give -inf, other negatives NaN, infinity and NaN themselves.
    struct val normal = k_bits(l, F32_NORMAL);
    struct val minus_inf = k_bits(l, 0xff800000), nan = k_bits(l, F32_NAN);
    struct val low = v_select(l, m_less(l, f_abs(l, x), normal), nan, minus_inf);
    y = v_select(l, m_less(l, x, normal), y, low);
    return v_select(l, m_greater_equal(l, x, k_bits(l, F32_INF)), y, x);
}

struct val f_log(struct lanes * l, struct val x) {
    lanes_x(l, &x);
    struct logarithm g = m_log_argument(l, x);
    g.whole = lanes_wait(l, g.whole);
    g.low = lanes_wait(l, g.low);
    g.f = m_log1p_rest(l, g.f);
    return m_log_result(l, g, x);
}

struct logarithm m_log1p_argument(struct lanes * l, struct val u) {
    enum { SQRT_2_LESS_1 = 0x3ed413cd };
    lanes_x(l, &u);
    struct val sum = f_add(l, u, k_float(l, 1)), none = k_bits(l, 0);
    struct val f = less_one(l, i_sub(l, sum, k_bits(l, F32_NORMAL))); // (1 + u) / 2 - 1
    struct mask small = m_less(l, u, k_bits(l, SQRT_2_LESS_1));
    f = v_select(l, small, f, u);
    lanes_bm(l, &f);
    struct pieces ln2 = p_constant(MATH_LN_2, 1);
    float rest = (float) (MATH_LN_2 - (double) ln2.constant[0]);
    struct val whole = f_add(l, f, v_select(l, small, k_float(l, ln2.constant[0]), none));
    return (struct logarithm){f, whole, v_select(l, small, k_float(l, rest), none)};
}
