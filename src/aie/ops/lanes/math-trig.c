// math-trig: sine and cosine. x = n pi/2 + r, |r| <= pi/4; n is kept in three bf16 pieces and pi/2
// in six, whose exact products are taken off x largest first, so that r has full accuracy even
// where x is near a multiple of pi/2.
#include "math-lanes.h"

// sin r = r + r z s(z), cos r = 1 - z / 2 + z^2 c(z), z = r^2.
static const float sin_full[] = {-0.166666538f, 0.00833211746f, -0.000195089786f}; // 2^-28
static const float cos_full[] = {0.0416666456f, -0.00138872885f, 2.44291186e-05f}; // 2^-33
static const float sin_short[] = {-0.166632921f, 0.00816028472f};                  // 2^-19
static const float cos_short[] = {0.041660998f, -0.00136463821f};                  // 2^-24

static const double half_pi = 1.5707963267948966, half_pi_low = 6.123233995736766e-17;

struct turned m_turn(struct lanes * l, struct val x) {
    const float base = 0x1.8p23f;
    struct pieces px = p_split(l, x, 3), inverse = p_constant(1 / half_pi, 3);
    struct val origin = k_float(l, base);
    struct val t = f_add(l, p_mul_n(l, &px, &inverse, 3), origin); // rounds to an integer, once
    struct val later = lanes_wait(l, t);
    x = lanes_wait(l, x);
    struct val n = f_sub(l, t, origin);
    struct pieces pn = p_split(l, n, 3), c = p_constant(half_pi, 4);
    double rest = half_pi;
    for (int i = 0; i < 4; i++) {
        rest -= (double) c.constant[i];
    }
    struct pieces low = p_constant(rest + half_pi_low, 2);
    struct val r = p_msc_of(l, x, pair_of(&pn, 0, NO_PIECE_AT), pair_of(&c, 0, 1));
    r = p_msc_of(l, r, pair_of(&pn, 0, 1), pair_of(&c, 1, 0));
    r = p_msc_of(l, r, pair_of(&pn, 2, 1), pair_of(&c, 0, 1)); // from here on no larger than 1
    r = p_msc_of(l, r, pair_of(&pn, 2, 0), pair_of(&c, 1, 2));
    r = p_msc_of(l, r, pair_of(&pn, 0, 1), pair_of(&c, 3, 2));
    r = p_msc_of(l, r, pair_of(&pn, 2, 1), pair_of(&c, 2, 3));
    r = p_msc_of(l, r, pair_of(&pn, 0, 1), pair_of(&low, 0, 0));
    struct pair lowest = p_constants(l, low.constant[1], c.constant[3]);
    r = p_msc(l, r, p_pair(l, &pn, 0, 2), lowest);
    lanes_x(l, &later);
    return (struct turned){r, later};
}

struct val m_wave(struct lanes * l, struct turned t) {
    int n = math_pieces(l), last = math_full(l) ? 2 : 1;
    const float *s = math_full(l) ? sin_full : sin_short, *c = math_full(l) ? cos_full : cos_short;
    struct pieces pr = p_split(l, t.r, n);
    t.r = lanes_wait(l, t.r);
    struct val z = p_mul_n(l, &pr, &pr, n);
    struct pieces pz = p_split(l, z, n);
    struct pair z12 = p_pair(l, &pz, 0, 1);
    struct pieces s_top = p_constant((double) s[last], 1), c_top = p_constant((double) c[last], 1);
    struct pair s_tops = p_pair(l, &s_top, 0, 0);
    struct val hs = p_mac(l, k_float(l, s[last - 1]), z12, s_tops);
    struct pair c_tops = p_pair(l, &c_top, 0, 0);
    struct val hc = lanes_wait(l, p_mac(l, k_float(l, c[last - 1]), z12, c_tops));
    if (last > 1) {
        hs = p_step(l, s[0], hs, &pz, 2);
        hc = p_step(l, c[0], hc, &pz, 2);
    }
    // sine: r + r (z s)
    struct pieces phs = p_split(l, hs, n);
    struct val zs = p_mul_n(l, &phs, &pz, math_pieces_small(n));
    struct pieces pzs = p_split(l, zs, n);
    struct val sine = lanes_wait(l, f_add(l, p_mul_n(l, &pzs, &pr, n), t.r));
    // cosine: 1 + z (-1/2 + z c)
    hc = p_step(l, -0.5f, hc, &pz, math_pieces_small(n));
    struct pieces phc = p_split(l, hc, n);
    struct val cosine = m_plus_one(l, p_mul_n(l, &phc, &pz, n));
    // By quarter turns: sin, cos, -sin, -cos.
    lanes_x(l, &t.n);
    struct val y = v_select(l, m_zero(l, b_and(l, t.n, k_bits(l, 1))), cosine, sine);
    struct val negated = f_neg(l, y);
    return v_select(l, m_zero(l, b_and(l, t.n, k_bits(l, 2))), negated, y);
}
