// math-trig: sine and cosine. x = n pi/2 + r, |r| <= pi/4; n is kept in three bf16 pieces and pi/2 in
// six, whose exact products are taken off x largest first, so that r has full accuracy even where x
// is near a multiple of pi/2.
#include "math-lanes.h"

// sin r = r + r z s(z), cos r = 1 - z / 2 + z^2 c(z), z = r^2.
static const float sin_full[] = {-0.166666538f, 0.00833211746f, -0.000195089786f}; // 2^-28
static const float cos_full[] = {0.0416666456f, -0.00138872885f, 2.44291186e-05f}; // 2^-33
static const float sin_short[] = {-0.166632921f, 0.00816028472f};                  // 2^-19
static const float cos_short[] = {0.041660998f, -0.00136463821f};                  // 2^-24

static const double half_pi = 1.5707963267948966, half_pi_low = 6.123233995736766e-17;

struct turned {
    struct val r;
    struct val n; // its last bits, in X
};

static struct turned reduce(struct lanes * l, struct val x) {
    const float base = 0x1.8p23f;
    struct pieces px = p_split(l, x, 3), inverse = p_constant(1 / half_pi, 3);
    struct val t = f_add(l, p_mul_n(l, &px, &inverse, 3), k_float(l, base)); // rounds to an integer, once
    struct val n = f_sub(l, t, k_float(l, base));
    struct pieces pn = p_split(l, n, 3), c = p_constant(half_pi, 4);
    double rest = half_pi;
    for (int i = 0; i < 4; i++) {
        rest -= (double) c.constant[i];
    }
    struct pieces low = p_constant(rest + half_pi_low, 2);
    struct val r = p_msc(l, x, p_pair(l, &pn, 0, NO_PIECE_AT), p_pair(l, &c, 0, 1));
    r = p_msc(l, r, p_pair(l, &pn, 0, 1), p_pair(l, &c, 1, 0));
    r = p_msc(l, r, p_pair(l, &pn, 2, 1), p_pair(l, &c, 0, 1)); // from here on no larger than 1
    r = p_msc(l, r, p_pair(l, &pn, 2, 0), p_pair(l, &c, 1, 2));
    r = p_msc(l, r, p_pair(l, &pn, 0, 1), p_pair(l, &c, 3, 2));
    r = p_msc(l, r, p_pair(l, &pn, 2, 1), p_pair(l, &c, 2, 3));
    r = p_msc(l, r, p_pair(l, &pn, 0, 1), p_pair(l, &low, 0, 0));
    r = p_msc(l, r, p_pair(l, &pn, 0, 2), p_constants(l, low.constant[1], c.constant[3]));
    lanes_x(l, &t);
    return (struct turned) {r, t};
}

static struct val wave(struct lanes * l, struct val x, int quarter) {
    int n = math_pieces(l), last = math_full(l) ? 2 : 1;
    const float * s = math_full(l) ? sin_full : sin_short, * c = math_full(l) ? cos_full : cos_short;
    lanes_x(l, &x);
    struct turned t = reduce(l, x);
    struct pieces pr = p_split(l, t.r, n);
    struct val z = p_mul_n(l, &pr, &pr, n);
    struct pieces pz = p_split(l, z, n);
    struct asm_reg z12 = p_pair(l, &pz, 0, 1);
    struct pieces s_top = p_constant((double) s[last], 1), c_top = p_constant((double) c[last], 1);
    struct val hs = p_mac(l, k_float(l, s[last - 1]), z12, p_pair(l, &s_top, 0, 0));
    struct val hc = p_mac(l, k_float(l, c[last - 1]), z12, p_pair(l, &c_top, 0, 0));
    if (last > 1) {
        hs = p_step(l, s[0], hs, &pz, 2);
        hc = p_step(l, c[0], hc, &pz, 2);
    }
    // sine: r + r (z s)
    struct pieces phs = p_split(l, hs, n);
    struct val zs = p_mul_n(l, &phs, &pz, math_pieces_small(n));
    struct pieces pzs = p_split(l, zs, n);
    struct val sine = f_add(l, p_mul_n(l, &pzs, &pr, n), t.r);
    // cosine: 1 + z (-1/2 + z c)
    hc = p_step(l, -0.5f, hc, &pz, math_pieces_small(n));
    struct pieces phc = p_split(l, hc, n);
    struct val cosine = p_mac(l, p_mul_n(l, &phc, &pz, n), p_constants(l, 0.5f, 0.5f), p_constants(l, 1, 1));
    // By quarter turns: sin, cos, -sin, -cos.
    struct val turn = quarter ? i_add(l, t.n, k_bits(l, (uint32_t) quarter)) : t.n;
    lanes_x(l, &turn);
    struct val y = v_select(l, m_zero(l, b_and(l, turn, k_bits(l, 1))), cosine, sine);
    y = v_select(l, m_zero(l, b_and(l, turn, k_bits(l, 2))), f_neg(l, y), y);
    struct val magnitude = f_abs(l, x);
    if (!quarter) { // the sign of zero, and denormals
        y = v_select(l, m_less(l, magnitude, k_float(l, 0x1p-20f)), y, x);
    }
    return v_select(l, m_less(l, magnitude, k_float(l, 0x1p22f)), k_bits(l, F32_NAN), y);
}

struct val f_sin(struct lanes * l, struct val x) {
    return wave(l, x, 0);
}

struct val f_cos(struct lanes * l, struct val x) {
    return wave(l, x, 1);
}
