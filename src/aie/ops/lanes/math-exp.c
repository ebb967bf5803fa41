// math-exp: e^x and what is made of it. e^x = 2^n e^r with |r| <= ln(2)/2; 2^n is added to a
// result's exponent at the very end, so that nothing on the way is too large or too small.
// It is the program for results to the last bit; math-lanes.h says why there are two others.
#include "math-lanes.h"

const float math_exp_terms[] = {0.166665152f, 0.0416663773f, 0.0083693238f, 0.00139428687f};
// Shorter series, for datatypes that need fewer bits.
static const float exp_f16[] = {0.166664898f, 0.0418186598f, 0.00837210007f}; // 2^-21
static const float exp_bf16[] = {0.167548075f, 0.0418366902f};                // 2^-17

// x = n ln(2) + r; small_too: r has all bits of x also where |x| < ln(2).
static struct power reduce(struct lanes * l, struct val x, bool small_too) {
    // In a float between 2^16 and 2^17 the fraction's last 7 bits come after the binary point, and
    // n stands where 16 bits further up is the exponent.
    const float base = 0x1.8p16f;
    struct pieces px = p_split(l, x, 2), factor = p_constant(MATH_LOG2_E, 2),
                  ln2 = p_constant(MATH_LN_2, 4);
    struct pair x12 = p_pair(l, &px, 0, 1), factor_low = p_pair(l, &factor, 1, 1);
    struct val t = p_mac(l, k_float(l, base + 0.5f), x12, factor_low);
    t = p_mac(l, t, x12, p_pair(l, &factor, 0, 0));
    lanes_x(l, &t);
    struct val origin = k_float(l, base);
    struct val n = f_sub(l, b_and(l, t, k_bits(l, 0xffffff80)), origin);
    struct pieces pn = p_split(l, n, 1);
    struct pair nn = p_pair(l, &pn, 0, 0);
    // n has 8 bits, so that these products are exact, and so are the differences while no term is
    // larger than x: ln(2) in one piece is, where x is less than ln(2).
    struct val r;
    if (small_too) {
        float half = ln2.constant[0] / 2;
        r = p_msc(l, x, nn, p_constants(l, half, half));
        struct pair ln2_low = p_pair(l, &ln2, 3, NO_PIECE_AT);
        r = p_msc(l, p_msc(l, r, nn, p_pair(l, &ln2, 1, 2)), nn, ln2_low);
    } else {
        struct pair ln2_low = p_pair(l, &ln2, 2, 3);
        r = p_msc(l, p_msc(l, x, nn, p_pair(l, &ln2, 0, 1)), nn, ln2_low);
    }
    return (struct power){r, m_up16(l, b_and(l, t, k_bits(l, 0xff80)))};
}

// e^r - 1, to the last bit of r; n pieces for its accuracy.
static struct val expm1_small(struct lanes * l, struct val r, int n) {
    static const struct {
        const float * c;
        int last;
    } by_pieces[] = {
        [2] = {exp_bf16, 1}, [3] = {exp_f16, 2}, [PRODUCT_EXACT] = {math_exp_terms, 3}};
    const float * c = by_pieces[n].c;
    int last = by_pieces[n].last;
    struct pieces pr = p_split(l, r, n), top = p_constant((double) c[last], 1);
    struct pair tops = p_pair(l, &top, 0, 0), r12 = p_pair(l, &pr, 0, 1);
    struct val h = p_mac(l, k_float(l, c[last - 1]), r12, tops);
    for (int i = last - 2; i >= 0; i--) {
        h = p_step(l, c[i], h, &pr, i > 0 ? 2 : math_pieces_small(n));
    }
    h = p_step(l, 0.5f, h, &pr, math_pieces_small(n));
    struct pieces ph = p_split(l, h, n);
    struct val one = k_float(l, 1);
    h = f_add(l, p_mul_n(l, &ph, &pr, math_pieces_small(n)), one); // rounds once
    ph = p_split(l, h, n);
    return p_mul_n(l, &ph, &pr, n);
}

struct power m_exp(struct lanes * l, struct val x, int n) {
    struct power p = reduce(l, x, n == PRODUCT_EXACT);
    p.r = expm1_small(l, p.r, n);
    return p;
}

struct val m_plus_one(struct lanes * l, struct val a) {
    struct pair ones = p_constants(l, 1, 1);
    return p_mac(l, a, p_constants(l, 0.5f, 0.5f), ones);
}

struct val m_half_expm1(struct lanes * l, struct power p) {
    struct val scale = i_sub(l, p.scale, k_bits(l, F32_NORMAL));
    // 2^(n-1) q + (2^(n-1) - 1/2), the latter in halves: the adder rounds at the largest term, and
    // they are smaller than the sum.
    struct val quarter = k_float(l, 0.25f);
    struct val h = f_sub(l, i_add(l, scale, k_bits(l, F32_ONE - F32_NORMAL)), quarter);
    return f_add(l, f_add(l, i_add(l, p.r, scale), h), h);
}

struct val m_exp_argument(struct lanes * l, struct val x) {
    struct val sign = b_and(l, x, k_bits(l, F32_SIGN)), most = k_float(l, 89);
    return b_or(l, i_min(l, f_abs(l, x), most), sign);
}

struct val m_exp_result(struct lanes * l, struct power p, struct val x) {
    struct val inf = k_bits(l, F32_INF);
    struct val e = m_flush(l, i_min(l, i_add(l, m_plus_one(l, p.r), p.scale), inf));
    return v_select(l, m_nan(l, x), e, x);
}

// erf(a / sqrt(2)) = 1 - e^(-a s(a)) for a in [0, 5.5], s a smooth function.
static const float erf_table[] = {1.12837994f,      0.636601508f,    0.102903545f,
                                  -0.0195510667f,   0.000501137169f, 0.0010535036f,
                                  -0.000315129873f, 3.21928273e-05f};
enum { ERF_LAST = sizeof erf_table / sizeof erf_table[0] - 1 };

// The coefficient of a^i: the table is for a / sqrt(2).
static float erf_coefficient(int i) {
    double c = (double) erf_table[i] * (i % 2 ? 1 : 0.70710678118654752);
    for (int k = 0; k < (i + 1) / 2; k++) {
        c /= 2;
    }
    return (float) c;
}

struct val m_log_erfc(struct lanes * l, struct val a, int n) {
    struct pieces pa = p_split(l, a, n), top = p_constant((double) erf_coefficient(ERF_LAST), 1);
    struct pair tops = p_pair(l, &top, 0, 0), a12 = p_pair(l, &pa, 0, 1);
    struct val s = p_mac(l, k_float(l, erf_coefficient(ERF_LAST - 1)), a12, tops);
    for (int i = ERF_LAST - 2; i >= 0; i--) {
        s = p_step(l, erf_coefficient(i), s, &pa, i > 1 ? 2 : n);
    }
    struct pieces ps = p_split(l, s, n);
    return f_neg(l, p_mul_n(l, &ps, &pa, n));
}
