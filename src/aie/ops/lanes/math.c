// math: products, quotients, roots and roundings. A quotient or a root starts from a guess, grows
// it to 12 bits in bf16 steps and ends with one correction from the exact remainder, which costs
// little on this core: partial products taken off largest first cancel without a rounding error.
#include "math-lanes.h"

#include "aie/verbs/verbs.h"

// ---- lane operations ----

static struct val shift_bytes(struct lanes * l, struct val a, int bytes) {
    lanes_x(l, &a);
    struct val d = lanes_new_x(l);
    struct asm_reg amount = asm_local(l->p, ASM_R);
    emit_set_small(l->p, amount, bytes);
    for (int i = 0; i < l->vectors; i++) {
        emit_shift_bytes(l->p, d.x[i], a.x[i], a.x[i], amount);
    }
    return d;
}

struct val m_up16(struct lanes * l, struct val a) {
    return shift_bytes(l, a, 62);
}

struct val m_down16(struct lanes * l, struct val a) {
    return shift_bytes(l, a, 2);
}

struct val m_flush(struct lanes * l, struct val positive) {
    struct val none = k_bits(l, 0);
    return v_select(l, m_less(l, positive, k_bits(l, F32_NORMAL)), positive, none);
}

// ---- products and quotients ----

struct val f_times(struct lanes * l, struct val a, struct val b) {
    int n = math_pieces(l);
    struct pieces pa = p_split(l, a, n), pb = p_split(l, b, n);
    struct val full = p_mul_n(l, &pa, &pb, n);
    // An infinity taken apart is a NaN; the product of the first pieces alone knows better.
    struct val rough = p_mul_of(l, pair_of(&pa, 0, NO_PIECE_AT), pair_of(&pb, 0, NO_PIECE_AT));
    lanes_x(l, &full);
    return v_select(l, m_nan(l, full), full, rough);
}

// Within 1/99 of 1/d over [1, 2].
static const float guess[] = {2.12121201f, -1.4545455f, 0.323232323f};

struct val m_divide_by_unit(struct lanes * l, struct val num, struct val d) {
    struct pieces pd = p_split(l, d, math_full(l) ? 3 : 2), k2 = p_constant((double) guess[2], 1);
    struct pair d12 = p_pair(l, &pd, 0, 1), k22 = p_pair(l, &k2, 0, 0);
    struct val h = p_mac(l, k_float(l, guess[1]), d12, k22);
    struct pieces ph = p_split(l, h, 1);
    struct pair hh = p_pair(l, &ph, 0, 0);
    struct val r0 = p_mac(l, k_float(l, guess[0]), d12, hh);
    struct pieces pr0 = p_split(l, r0, 1);
    struct pair r00 = p_pair(l, &pr0, 0, 0); // the guess, now exactly these 8 bits
    // 1/d = r0 / (1 - e) = r0 (1 + e + e^2 + ...), e = 1 - d r0
    struct val e = p_msc(l, k_float(l, 1), d12, r00);
    struct pieces pe = p_split(l, e, 1);
    struct val t = p_mac_of(l, e, pair_of(&pe, 0, NO_PIECE_AT), pair_of(&pe, 0, NO_PIECE_AT));
    struct val r = p_mul(l, r00, p_constant_and(l, 1, t)); // 14 bits
    struct pieces pr = p_split(l, r, 2), pn = p_split(l, num, 2);
    struct val q = p_mul_n(l, &pn, &pr, 2);
    struct pieces pq = p_split(l, q, 2); // the quotient is these 16 bits and a correction
    struct val rem = p_msc_of(l, num, pair_of(&pq, 0, NO_PIECE_AT), pair_of(&pd, 0, 1));
    rem = p_msc_of(l, rem, pair_of(&pq, 0, 1), pair_of(&pd, 1, 0));
    if (math_full(l)) {
        rem = p_msc_of(l, rem, pair_of(&pq, 1, 0), pair_of(&pd, 1, 2));
        rem = p_msc_of(l, rem, pair_of(&pq, 1, NO_PIECE_AT), pair_of(&pd, 2, NO_PIECE_AT));
    }
    int n = math_full(l) ? 2 : 1;
    struct pieces pm = p_split(l, rem, n);
    struct pair ones = p_constants(l, 1, 1), q12 = p_pair(l, &pq, 0, 1);
    return p_mac(l, p_mul_n(l, &pm, &pr, n), q12, ones);
}

struct val m_fraction(struct lanes * l, struct val a) {
    struct val one = k_bits(l, F32_ONE);
    return b_or(l, b_and(l, a, k_bits(l, F32_FRACTION)), one);
}

struct val m_quotient(struct lanes * l, struct val q, struct val a, struct val b) {
    enum { HALF = 0x3f000000, OVER = 129 << 23 }; // 0.5; an exponent of 255 less that of 0.5
    lanes_x(l, &a);
    lanes_x(l, &b);
    struct val exponent = k_bits(l, F32_EXPONENT), sign = k_bits(l, F32_SIGN),
               half = k_bits(l, HALF);
    struct val ea = b_and(l, a, exponent), eb = b_and(l, b, exponent);
    struct val scale = i_sub(l, ea, eb);
    struct val s = i_add(l, i_sub(l, q, half), scale);
    s = m_flush(l, i_add(l, i_min(l, s, k_bits(l, OVER)), half));
    struct val sa = b_and(l, a, sign), sb = b_and(l, b, sign);
    s = b_or(l, s, i_add(l, sa, sb));
    // Exponents 0 and 255 of either side: a times something that stands for 1/b. Added to 255, an
    // exponent is negative when it is neither.
    struct val end_b = i_add(l, eb, exponent);
    struct val ends = i_max(l, i_add(l, ea, exponent), end_b);
    struct mask special = m_greater_equal(l, ends, k_bits(l, 0xff000000));
    struct val rounds = a;
    if (!math_full(l)) { // a finite number stays one where bf16 rounds
        struct mask finite = m_less(l, ea, exponent);
        rounds = v_select(l, finite, a, b_and(l, a, k_bits(l, 0xffff0000)));
    }
    struct pieces pa = p_split(l, v_select(l, m_zero(l, ea), rounds, sa), 1);
    struct pieces inverse = p_split(l, i_add(l, i_sub(l, exponent, eb), sb), 1);
    struct val rough = p_mul_of(l, pair_of(&pa, 0, NO_PIECE_AT), pair_of(&inverse, 0, NO_PIECE_AT));
    struct val result = v_select(l, special, s, rough);
    return v_select(l, m_nan(l, b), result, b);
}

struct val f_div(struct lanes * l, struct val a, struct val b) {
    lanes_x(l, &a);
    lanes_x(l, &b);
    struct val divisor = m_fraction(l, b);
    return m_quotient(l, m_divide_by_unit(l, m_fraction(l, a), divisor), a, b);
}

// ---- roots ----

struct val f_sqrt(struct lanes * l, struct val x) {
    lanes_x(l, &x);
    // x = m 4^k, m in [0.5, 2). The upper half of x's bits becomes an integer in a float's fraction
    // and is halved by adding 2^24: now it is (k + 63) in the exponent's place and a fraction from
    // which a guess of 1 / sqrt(m) is one subtraction away, as is well known.
    struct val h = m_down16(l, b_and(l, x, k_bits(l, 0xfffe0000)));
    struct val two_24 = k_float(l, 0x1p24f);
    struct val halved = f_add(l, b_or(l, h, k_float(l, 0x1p23f)), two_24);
    halved = m_up16(l, b_and(l, halved, k_bits(l, 0xffff)));
    struct val bias = k_bits(l, 63 << 23);
    struct val k = i_sub(l, b_and(l, halved, k_bits(l, F32_EXPONENT)), bias);
    struct val fraction = b_and(l, halved, k_bits(l, F32_FRACTION));
    struct val guess = i_sub(l, k_bits(l, 0x3fb759df), fraction);
    struct val half = k_bits(l, 126 << 23);
    struct val m = b_or(l, b_and(l, x, k_bits(l, 0x00ffffff)), half);
    lanes_bm(l, &m);
    struct pieces pm = p_split(l, m, 2), pg = p_split(l, guess, 1);
    struct pair g = p_pair(l, &pg, 0, 0);
    struct val s = p_mul(l, p_pair(l, &pm, 0, 1), g); // near sqrt(m)
    struct pieces ps = p_split(l, s, 2);
    struct pair s12 = p_pair(l, &ps, 0, 1);
    struct val e = p_msc(l, k_float(l, 1), s12, g);
    // sqrt(m) = s / sqrt(1 - e) = s (1 + t), t = e/2 + 3/8 e^2 + 5/16 e^3: 14 bits
    struct pieces pe = p_split(l, e, 2);
    struct pair e0 = p_pair(l, &pe, 0, NO_PIECE_AT), last = p_constants(l, 0.3125f, 0);
    struct val t = p_mac(l, k_float(l, 0.375f), e0, last);
    struct pieces pt = p_split(l, t, 1);
    struct pair t0 = p_pair(l, &pt, 0, NO_PIECE_AT);
    t = p_mac(l, k_float(l, 0.5f), e0, t0);
    pt = p_split(l, t, 2);
    t = p_mul_n(l, &pe, &pt, 2);
    pt = p_split(l, t, 2);
    struct val y = p_mac_n(l, s, &ps, &pt, 2);
    struct val root = y;
    if (math_full(l)) {
        // y + (m - y^2) / (2 y), with y's first 16 bits and 1 / (2 y) from the guess
        struct pieces half_guess = p_split(l, i_sub(l, guess, k_bits(l, F32_NORMAL)), 1);
        struct pair hg = p_pair(l, &half_guess, 0, 0);
        struct val r = p_mul(l, hg, p_constant_and(l, 1, t));
        r = p_mac(l, r, hg, p_pair(l, &pt, 1, NO_PIECE_AT));
        struct pieces py = p_split(l, y, 2), pr = p_split(l, r, 2);
        struct pair y0 = p_pair(l, &py, 0, NO_PIECE_AT), y12 = p_pair(l, &py, 0, 1);
        struct val rem = p_msc(l, m, y0, y0);
        rem = p_msc(l, rem, y12, p_pair(l, &py, 1, 0));
        struct pair y2 = p_pair(l, &py, 1, NO_PIECE_AT);
        rem = p_msc(l, rem, y2, y2);
        struct pieces p_rem = p_split(l, rem, 2);
        struct pair ones = p_constants(l, 1, 1);
        root = p_mac(l, p_mul_n(l, &p_rem, &pr, 2), y12, ones);
    }
    root = i_add(l, root, k);
    // Zeros (and denormals) keep their sign, other negatives are NaN, infinity and NaN stay.
    struct val normal = k_bits(l, F32_NORMAL), magnitude = f_abs(l, x);
    struct val zero = b_and(l, x, k_bits(l, F32_SIGN)), nan = k_bits(l, F32_NAN);
    struct val low = v_select(l, m_less(l, magnitude, normal), nan, zero);
    root = v_select(l, m_less(l, x, normal), root, low);
    struct val high = v_select(l, m_negative(l, x), x, nan);
    return v_select(l, m_greater_equal(l, magnitude, k_bits(l, F32_INF)), root, high);
}

// ---- roundings ----

// One of two masks, by a third.
static struct mask choose(struct lanes * l, struct mask by, struct mask if_clear,
                          struct mask if_set) {
    struct mask mask = by;
    for (int i = 0; i < l->vectors; i++) {
        struct asm_reg differ = asm_local(l->p, ASM_R), change = asm_local(l->p, ASM_R);
        mask.of[i] = emit_new_mask(l->p, LANE_32);
        emit_alu(l->p, AIE_BASIC_XOR, differ, if_clear.of[i], if_set.of[i]);
        emit_alu(l->p, AIE_BASIC_AND, change, differ, by.of[i]);
        emit_alu(l->p, AIE_BASIC_XOR, mask.of[i], if_clear.of[i], change);
    }
    return mask;
}

struct val f_round(struct lanes * l, struct val x, enum rounding how) {
    enum { TWO_23 = 0x4b000000, HALF = 0x3f000000 }; // from 2^23 on there are only integers
    lanes_x(l, &x);
    struct val m = f_abs(l, x), sign = b_and(l, x, k_bits(l, F32_SIGN)), big = k_bits(l, TWO_23);
    struct val one = k_float(l, 1);
    lanes_bm(l, &m);
    lanes_bm(l, &big);
    struct val near = f_sub(l, f_add(l, m, big), big); // to nearest, ties to even
    lanes_x(l, &near);
    struct val next;
    struct mask wrong;
    // Compared as integers: the adder does not see a difference of half a unit.
    if (how == ROUND_HALF_OUTWARD) {
        struct val half = k_bits(l, HALF);
        wrong = m_greater_equal(l, f_sub(l, m, near), half);
        next = f_add(l, near, one);
    } else if (how == ROUND_INWARD) {
        wrong = m_less(l, m, near);
        next = f_sub(l, near, one);
    } else {
        struct mask above = m_less(l, m, near), below = m_less(l, near, m),
                    negative = m_negative(l, x);
        struct val step = b_or(l, one, sign); // away from zero
        wrong = how == ROUND_DOWN ? choose(l, negative, above, below)
                                  : choose(l, negative, below, above);
        next = how == ROUND_DOWN ? f_sub(l, near, step) : f_add(l, near, step);
    }
    struct val r = b_or(l, v_select(l, wrong, near, next), sign);
    return v_select(l, m_less(l, m, k_bits(l, TWO_23)), x, r);
}
