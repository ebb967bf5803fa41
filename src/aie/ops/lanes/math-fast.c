// math-fast: see the header. Every product is a few products of bf16 numbers, and which ones is
// chosen term by term: what is an eighth of a sum has eight bits, what is all of it has sixteen.
// math-lanes.h says why there are other programs for e^x.
#include "math-fast.h"

struct mask m_between(struct lanes * l, struct val x, uint32_t from, uint32_t to) {
    uint32_t by = 0x7fffffffu - to; // now the upper end is the largest integer
    struct val start = k_bits(l, from + by);
    return m_greater_equal(l, i_add(l, x, k_bits(l, by)), start);
}

// ---- e^x ----

// 2 e^r, or that less 2, of r = r1 + r2, the first a bf16 number: 2 e^r1 + r2 (2 e^r1), where
// 2 e^r1 = 2 + 2 r1 + s / 2 + s (c3 r1 + c4 s), s = 2 r1^2. The factor of the small s has eight
// bits, and c3 and c4 make the best of it for |r| < 0.35. sign: of r.
static struct val twice_exp_small(struct lanes * l, struct val r, float sign, bool less_one) {
    const float c3 = 0.16796875f, c4 = 0.02099609375f;
    struct pair r11 = p_twice(l, r), ones = p_constants(l, sign, sign);
    struct pair halves = p_constants(l, 0.5f, 0.5f);
    struct val rest = p_msc(l, r, r11, halves), square = p_mul(l, r11, r11), two = k_float(l, 2);
    struct pair s12 = p_halves(l, square);
    struct pair factors = p_constants(l, sign * c3, c4);
    struct val g = p_mul(l, p_two(l, r, square), factors);
    struct val p = less_one ? p_mul(l, r11, ones) : p_mac(l, two, r11, ones);
    p = p_mac(l, p, s12, halves);
    struct pair slope = p_twice(l, less_one ? f_add(l, p, two) : p);
    p = p_mac(l, p, s12, p_twice(l, g));
    return sign < 0 ? p_msc(l, p, slope, p_and_none(l, rest))
                    : p_mac(l, p, slope, p_and_none(l, rest));
}

// The same with the products one by one (pieces.h): q = r1^2 is half of s, and is added as it is.
static struct val twice_exp_apart(struct lanes * l, struct val r, float sign, bool less_one) {
    const float c3 = 2 * 0.16796875f, c4 = 4 * 0.02099609375f;
    struct pair r1 = p_alone(p_twice(l, r)), one = p_constants(l, 1, 0);
    struct val rest = p_msc(l, r, r1, one), q = p_mul(l, r1, r1), two = k_float(l, 2);
    struct pair q12 = p_halves(l, q);
    struct val g = p_mul(l, p_both(r1, q12), p_constants(l, sign * c3, c4));
    struct pair slope_2 = p_constants(l, 2 * sign, 0);
    struct val p = less_one ? p_mul(l, r1, slope_2) : p_mac(l, two, r1, slope_2);
    p = f_add(l, p, q);
    struct pair slope = p_twice(l, less_one ? f_add(l, p, k_float(l, 2)) : p);
    p = p_mac(l, p, q12, p_twice(l, g));
    struct pair small = p_and_none(l, rest);
    return sign < 0 ? p_msc(l, p, slope, small) : p_mac(l, p, slope, small);
}

static struct fast_power power_of(struct lanes * l, struct val x, bool negate, bool wide,
                                  bool less_one) {
    const float base = 0x1.8p23f; // where a float's last bit is 1
    struct pieces log2e = p_constant(negate ? -MATH_LOG2_E : MATH_LOG2_E, 2);
    struct pieces ln2 = p_constant(negate ? -MATH_LN_2 : MATH_LN_2, 4);
    bool apart = l->vectors > 1;
    lanes_bm(l, &x);
    struct val later = lanes_wait(l, x), t;
    if (wide) {
        struct pair x12 = p_halves(l, x);
        t = p_mul(l, x12, p_pair(l, &log2e, 1, 1));
        struct val origin = k_float(l, base);
        t = f_add(l, p_mac(l, t, x12, p_pair(l, &log2e, 0, 0)), origin);
    } else {
        struct pair factor = p_pair(l, &log2e, 0, 1), x11 = p_twice(l, x);
        t = p_mac(l, k_float(l, base), x11, factor);
    }
    struct pair n = p_twice(l, f_sub(l, t, k_float(l, base)));
    struct val r = p_msc(l, later, n, p_pair(l, &ln2, 0, 1));
    r = p_msc(l, r, n, p_pair(l, &ln2, 2, apart ? NO_PIECE_AT : 3)); // three pieces are enough
    // 2^(n-1) is a bf16 number whose bits are 128 (n + 126).
    struct pair unit = p_constants(l, 64, 64);
    struct val bits_ = p_mac(l, k_float(l, base + 128 * 126), n, unit);
    lanes_x(l, &bits_);
    struct val p = (apart ? twice_exp_apart : twice_exp_small)(l, r, negate ? -1 : 1, less_one);
    return (struct fast_power){p, p_lowers(l, bits_)};
}

struct fast_power m_fast_exp(struct lanes * l, struct val x, bool negate, bool wide) {
    return power_of(l, x, negate, wide, false);
}

struct val m_fast_power(struct lanes * l, struct fast_power e) {
    return p_mul(l, p_halves(l, e.p), e.s);
}

struct val m_fast_power_add(struct lanes * l, struct val c, struct fast_power e) {
    return p_mac(l, c, p_halves(l, e.p), e.s);
}

struct val m_fast_exp_minus(struct lanes * l, struct val m) {
    enum { FAR_OFF = 0x42adccccu }; // 86.9
    struct val e = m_fast_power(l, m_fast_exp(l, m, true, false));
    lanes_x(l, &e);
    lanes_x(l, &m);
    struct val none = k_bits(l, 0);
    return v_select(l, m_between(l, m, FAR_OFF, F32_INF), e, none);
}

struct val m_fast_less_one(struct lanes * l, struct val x, bool wide) {
    // 2^n q + (2^n - 1), the latter in halves: 2^n may be too large.
    struct fast_power e = power_of(l, x, false, wide, true);
    struct pair once = p_constants(l, 1, 0);
    struct val half = p_mac(l, k_float(l, -0.5f), e.s, once);
    return f_add(l, m_fast_power_add(l, half, e), half);
}

// ---- quotients ----

// As below with the products one by one. The guess has all of its bits, and 1 occupies an
// accumulator only briefly.
static struct fast_inverse invert_apart(struct lanes * l, struct val d) {
    enum { MAGIC = 0x7ef311c3 + 0x8000 };
    struct val one = k_float(l, 1), bits_ = d;
    lanes_bm(l, &d);
    lanes_x(l, &bits_);
    bits_ = i_sub(l, k_bits(l, MAGIC), bits_);
    struct pair guess = p_alone(p_uppers(l, bits_, bits_)), d12 = p_halves(l, d);
    struct val e = p_msc(l, one, d12, guess);
    struct pair e1 = p_twice(l, e);
    struct val w = p_mac(l, one, e1, p_both(p_constants(l, 1, 0), e1));
    struct pair y = p_twice(l, p_mul(l, guess, p_twice(l, w)));
    return (struct fast_inverse){y, p_msc(l, one, d12, y)};
}

struct fast_inverse m_fast_invert(struct lanes * l, struct val d) {
    if (l->vectors > 1) {
        return invert_apart(l, d);
    }
    enum { MAGIC = 0x7ef311c3 - F32_NORMAL + 0x8000 }; // half the guess, which is cut below
    struct val one = k_float(l, 1), bits_ = d;
    lanes_bm(l, &d);
    lanes_x(l, &bits_);
    bits_ = i_sub(l, k_bits(l, MAGIC), bits_);
    struct pair guess = p_uppers(l, bits_, bits_); // half of it, twice
    struct pair d11 = p_twice(l, d);
    struct val rest = p_msc(l, d, d11, p_constants(l, 0.5f, 0.5f));
    // 1/d = guess / (1 - e) = guess (1 + e + e^2), |e| < 0.06
    lanes_bm(l, &one);
    struct val e = p_msc(l, one, d11, guess);
    struct pair one_and_e = p_constant_and(l, 1, e);
    struct val w = p_mac(l, one, p_twice(l, e), one_and_e);
    struct pair y = p_twice(l, p_mul(l, guess, p_twice(l, w)));
    return (struct fast_inverse){y, p_msc(l, one, p_two(l, d, rest), y)};
}

struct val m_fast_inverse(struct lanes * l, struct fast_inverse r) {
    return p_mul(l, r.y, p_constant_and(l, 1, r.e));
}

struct val m_fast_over(struct lanes * l, struct pair x, struct fast_inverse r) {
    struct val z = p_mul(l, x, r.y);
    struct pair e = p_and_none(l, r.e);
    return p_mac(l, z, p_twice(l, z), e);
}
