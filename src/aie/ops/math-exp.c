// math-exp: e^x and what is made of it. e^x = 2^n e^r with |r| <= ln(2)/2; 2^n is added to a result's
// exponent at the very end, so that nothing on the way is too large or too small.
#include "math-lanes.h"

// e^r = 1 + r (1 + r (0.5 + r c(r))): c for |r| < 0.35, by how many bits the datatype wants.
static const float exp_full[] = {0.166665152f, 0.0416663773f, 0.0083693238f, 0.00139428687f}; // 2^-28
static const float exp_f16[] = {0.166664898f, 0.0418186598f, 0.00837210007f};                 // 2^-21
static const float exp_bf16[] = {0.167548075f, 0.0418366902f};                                // 2^-17

static const double log2_e = 1.4426950408889634, ln_2 = 0.6931471805599453;

struct power {
    struct val r;
    struct val scale; // n << 23
};

// |x| <= 177; small_too: r has all bits of x also where |x| < ln(2).
static struct power reduce(struct lanes * l, struct val x, bool small_too) {
    // In a float between 2^16 and 2^17 the fraction's last 7 bits come after the binary point, and
    // n stands where 16 bits further up is the exponent.
    const float base = 0x1.8p16f;
    struct pieces px = p_split(l, x, 2), factor = p_constant(log2_e, 2), ln2 = p_constant(ln_2, 4);
    struct asm_reg x12 = p_pair(l, &px, 0, 1);
    struct val t = p_mac(l, k_float(l, base + 0.5f), x12, p_pair(l, &factor, 1, 1));
    t = p_mac(l, t, x12, p_pair(l, &factor, 0, 0));
    lanes_x(l, &t);
    struct val n = f_sub(l, b_and(l, t, k_bits(l, 0xffffff80)), k_float(l, base));
    struct pieces pn = p_split(l, n, 1);
    struct asm_reg nn = p_pair(l, &pn, 0, 0);
    // n has 8 bits, so that these products are exact, and so are the differences while no term is
    // larger than x: ln(2) in one piece is, where x is less than ln(2).
    struct val r;
    if (small_too) {
        float half = ln2.constant[0] / 2;
        r = p_msc(l, x, nn, p_constants(l, half, half));
        r = p_msc(l, p_msc(l, r, nn, p_pair(l, &ln2, 1, 2)), nn, p_pair(l, &ln2, 3, NO_PIECE_AT));
    } else {
        r = p_msc(l, p_msc(l, x, nn, p_pair(l, &ln2, 0, 1)), nn, p_pair(l, &ln2, 2, 3));
    }
    return (struct power) {r, m_up16(l, b_and(l, t, k_bits(l, 0xff80)))};
}

// e^r - 1, to the last bit of r; n pieces for its accuracy.
static struct val expm1_small(struct lanes * l, struct val r, int n) {
    static const struct { const float * c; int last; } by_pieces[] = {
        [2] = {exp_bf16, 1}, [3] = {exp_f16, 2}, [PRODUCT_EXACT] = {exp_full, 3}};
    const float * c = by_pieces[n].c;
    int last = by_pieces[n].last;
    struct pieces pr = p_split(l, r, n), top = p_constant((double) c[last], 1);
    struct val h = p_mac(l, k_float(l, c[last - 1]), p_pair(l, &pr, 0, 1), p_pair(l, &top, 0, 0));
    for (int i = last - 2; i >= 0; i--) {
        h = p_step(l, c[i], h, &pr, i > 0 ? 2 : math_pieces_small(n));
    }
    h = p_step(l, 0.5f, h, &pr, math_pieces_small(n));
    struct pieces ph = p_split(l, h, n);
    h = f_add(l, p_mul_n(l, &ph, &pr, math_pieces_small(n)), k_float(l, 1)); // rounds once
    ph = p_split(l, h, n);
    return p_mul_n(l, &ph, &pr, n);
}

// e^r. The adder rounds at the largest term, so the sum is made of two halves that are smaller than
// it.
static struct val exp_small(struct lanes * l, struct val r) {
    return p_mac(l, expm1_small(l, r, math_pieces(l)), p_constants(l, 0.5f, 0.5f), p_constants(l, 1, 1));
}

static struct val flush(struct lanes * l, struct val positive) { // what is less than normal is 0
    return v_select(l, m_less(l, positive, k_bits(l, F32_NORMAL)), positive, k_bits(l, 0));
}

struct val f_exp(struct lanes * l, struct val x) {
    lanes_x(l, &x);
    struct val magnitude = f_abs(l, x), sign = b_and(l, x, k_bits(l, F32_SIGN));
    struct power p = reduce(l, b_or(l, i_min(l, magnitude, k_float(l, 89)), sign), false);
    struct val e = exp_small(l, p.r);
    e = flush(l, i_min(l, i_add(l, e, p.scale), k_bits(l, F32_INF)));
    return v_select(l, m_less(l, k_bits(l, F32_INF), magnitude), e, x);
}

// (e^x - 1) / 2, |x| at least a tiny number.
static struct val half_expm1(struct lanes * l, struct val x, int n) {
    struct power p = reduce(l, x, l->dtype == DTYPE_F32);
    struct val q = expm1_small(l, p.r, n), scale = i_sub(l, p.scale, k_bits(l, F32_NORMAL));
    // 2^(n-1) q + (2^(n-1) - 1/2), the latter in halves: the adder rounds at the largest term, and
    // they are smaller than the sum.
    struct val h = f_sub(l, i_add(l, scale, k_bits(l, F32_ONE - F32_NORMAL)), k_float(l, 0.25f));
    return f_add(l, f_add(l, i_add(l, q, scale), h), h);
}

struct val f_expm1(struct lanes * l, struct val x) {
    lanes_x(l, &x);
    struct val magnitude = f_abs(l, x), sign = b_and(l, x, k_bits(l, F32_SIGN));
    struct val most = v_select(l, m_negative(l, x), k_float(l, 89), k_float(l, 40));
    struct val h = half_expm1(l, b_or(l, i_min(l, magnitude, most), sign), math_pieces(l));
    struct val e = f_add(l, h, h);
    e = v_select(l, m_less(l, magnitude, k_float(l, 0x1p-40f)), e, x);
    return v_select(l, m_less(l, k_bits(l, F32_INF), magnitude), e, x);
}

// ---- 1 / (1 + e^-v) ----

// For v < 0 it is e^v / (1 + e^v): a quotient to which a power of two is still to be applied.
static struct power sigmoid(struct lanes * l, struct val magnitude, struct asm_reg negative) {
    struct power p = reduce(l, f_neg(l, magnitude), false);
    struct val e = exp_small(l, p.r), one = k_float(l, 1);
    lanes_x(l, &e);
    struct val tail = i_max(l, i_add(l, e, p.scale), k_bits(l, 0));
    struct val num = v_select(l, negative, one, e);
    struct val q = m_divide_by_unit(l, num, f_add(l, one, tail));
    return (struct power) {q, v_select(l, negative, k_bits(l, 0), p.scale)};
}

struct val f_sigmoid(struct lanes * l, struct val x) {
    lanes_x(l, &x);
    struct val magnitude = f_abs(l, x);
    struct power p = sigmoid(l, i_min(l, magnitude, k_float(l, 100)), m_negative(l, x));
    struct val y = flush(l, i_add(l, p.r, p.scale));
    return v_select(l, m_less(l, k_bits(l, F32_INF), magnitude), y, x);
}

static struct val times_sigmoid(struct lanes * l, struct val x, struct power p) {
    int n = math_pieces(l);
    struct val magnitude = f_abs(l, x);
    struct pieces px = p_split(l, magnitude, n), pq = p_split(l, p.r, n);
    struct val y = flush(l, i_add(l, p_mul_n(l, &px, &pq, n), p.scale));
    y = b_or(l, y, b_and(l, x, k_bits(l, F32_SIGN)));
    // inf for inf, NaN for -inf (which is inf times 0) and NaN
    struct asm_reg special = m_greater_equal(l, magnitude, k_bits(l, F32_INF));
    return v_select(l, special, y, f_add(l, x, magnitude));
}

struct val f_times_sigmoid(struct lanes * l, struct val x, struct val v) {
    lanes_x(l, &x);
    return times_sigmoid(l, x, sigmoid(l, f_abs(l, v), m_negative(l, x)));
}

struct val f_times_sigmoid_of_any(struct lanes * l, struct val x, struct val v) {
    lanes_x(l, &x);
    lanes_x(l, &v);
    struct val magnitude = i_min(l, f_abs(l, v), k_float(l, 177));
    return times_sigmoid(l, x, sigmoid(l, magnitude, m_negative(l, v)));
}

// ---- others ----

// t / (2 - t), t = 1 - e^(-2 |x|)
struct val f_tanh(struct lanes * l, struct val x) {
    lanes_x(l, &x);
    struct val magnitude = f_abs(l, x), sign = b_and(l, x, k_bits(l, F32_SIGN));
    struct val m = i_min(l, magnitude, k_float(l, 10));
    m = i_max(l, m, k_float(l, 0x1p-20f)); // below, tanh(x) is x anyway
    lanes_bm(l, &m);
    struct val h = half_expm1(l, f_neg(l, f_add(l, m, m)), math_pieces(l)); // -t / 2
    h = f_add(l, h, h);
    struct asm_reg ones = p_constants(l, 1, 1);
    struct val y = m_divide_by_unit(l, f_neg(l, h), p_mac(l, h, ones, ones));
    y = v_select(l, m_less(l, magnitude, k_float(l, 0x1p-13f)), b_or(l, y, sign), x);
    return v_select(l, m_less(l, k_bits(l, F32_INF), magnitude), y, x);
}

// erf(a / sqrt(2)) = 1 - e^(-a s(a)) for a in [0, 5.5], s a smooth function.
static const float erf_table[] = {1.12837994f,     0.636601508f,  0.102903545f,     -0.0195510667f,
                                  0.000501137169f, 0.0010535036f, -0.000315129873f, 3.21928273e-05f};
enum { ERF_LAST = sizeof erf_table / sizeof erf_table[0] - 1 };

// The coefficient of a^i: the table is for a / sqrt(2).
static float erf_coefficient(int i) {
    double c = (double) erf_table[i] * (i % 2 ? 1 : 0.70710678118654752);
    for (int k = 0; k < (i + 1) / 2; k++) {
        c /= 2;
    }
    return (float) c;
}

struct val f_times_normal(struct lanes * l, struct val x) {
    // A difference of nearly equal numbers: 16 bits would leave none.
    int n = l->dtype == DTYPE_F32 ? PRODUCT_EXACT : 3;
    lanes_x(l, &x);
    struct val magnitude = f_abs(l, x), sign = b_and(l, x, k_bits(l, F32_SIGN));
    struct val a = i_max(l, i_min(l, magnitude, k_float(l, 5.5f)), k_float(l, 0x1p-30f));
    struct pieces pa = p_split(l, a, n);
    struct pieces top = p_constant((double) erf_coefficient(ERF_LAST), 1);
    struct val s = p_mac(l, k_float(l, erf_coefficient(ERF_LAST - 1)), p_pair(l, &pa, 0, 1),
                         p_pair(l, &top, 0, 0));
    for (int i = ERF_LAST - 2; i >= 0; i--) {
        s = p_step(l, erf_coefficient(i), s, &pa, i > 1 ? 2 : n);
    }
    struct pieces ps = p_split(l, s, n);
    struct val h = half_expm1(l, f_neg(l, p_mul_n(l, &ps, &pa, n)), n); // -erf / 2
    // x (1/2 + erf / 2)
    struct val cdf = f_sub(l, k_float(l, 0.5f), i_add(l, h, sign));
    struct pieces px = p_split(l, x, n), pc = p_split(l, cdf, n);
    struct val y = p_mul_n(l, &px, &pc, n);
    struct asm_reg special = m_greater_equal(l, magnitude, k_bits(l, F32_INF));
    return v_select(l, special, y, f_add(l, x, magnitude));
}
