// math-lanes: what the files of math share: patterns of f32 and a few lane operations that only
// they need.
#pragma once

#include "math.h"
#include "pieces.h"

enum {
    F32_INF = 0x7f800000,
    F32_NAN = 0x7fc00000,
    F32_EXPONENT = 0x7f800000,
    F32_FRACTION = 0x007fffff,
    F32_NORMAL = 0x00800000, // the smallest normal; also 1 in the exponent
    F32_ONE = 0x3f800000,
};
#define F32_SIGN    0x80000000u
#define MATH_LOG2_E 1.4426950408889634
#define MATH_LN_2   0.6931471805599453

// e^r = 1 + r (1 + r (0.5 + r c(r))): c for |r| < 0.35, to 2^-28. Three programs compute e^x. They
// share these numbers and no more, because each in the place of another costs time or bits:
//     math-exp.c   any x, to the last bit
//     math-fast.c  any x, to a NMSE of 1e-9. EXP of 65536 f32 takes 167,488 bundles on aie2 and
//                  69,552 on aie2p; with math-exp.c it takes 1,040,608 and 1,453,664
//     rows-math.c  x <= 0, to a few units of the last place, two vectors side by side. An exact
//                  SOFT_MAX of 64 rows of 1024 takes 92,144 cycles of the array on aie2 and 158,249
//                  on aie2p; with math-exp.c, untuned, it takes 135,902 and 243,829
extern const float math_exp_terms[4];

// 16-bit results, and fast ones, have enough with 16 bits on the way.
static inline bool math_full(const struct lanes * l) {
    return l->full || (l->dtype == DTYPE_F32 && !l->fast);
}

// How many bf16 pieces a product takes where its relative error counts, and where it is an eighth
// of a sum or less.
static inline int math_pieces(const struct lanes * l) {
    return math_full(l) ? PRODUCT_EXACT : 2;
}
static inline int math_pieces_small(int n) {
    return n > 2 ? n - 1 : n;
}

// Every 32-bit lane moved by 16 bits. Up: only the low half of a lane may hold bits; down: only the
// high half.
struct val m_up16(struct lanes * l, struct val a);
struct val m_down16(struct lanes * l, struct val a);
// A positive number less than the smallest normal one becomes 0.
struct val m_flush(struct lanes * l, struct val positive);
// a + 1, rounded once where a is less than 0, too.
struct val m_plus_one(struct lanes * l, struct val a);

// The functions in parts, each of which ops can run over a whole chunk.

// num / d, d in [1, 2], num of a moderate size (its 2^-30th part must be a normal number).
struct val m_divide_by_unit(struct lanes * l, struct val num, struct val d);

// a / b is (a's fraction / b's fraction) and then the rest.
struct val m_fraction(struct lanes * l, struct val a); // in [1, 2)
struct val m_quotient(struct lanes * l, struct val q, struct val a, struct val b);

// e^x = 2^n (1 + r), |x| <= 177, scale is n << 23; n_pieces for the accuracy of r, also where x is
// near 0. m_half_expm1 is (e^x - 1) / 2 made of it, for x > -80 that is not 0.
struct power {
    struct val r, scale;
};
struct power m_exp(struct lanes * l, struct val x, int n_pieces);
struct val m_half_expm1(struct lanes * l, struct power p);
struct val m_exp_argument(struct lanes * l, struct val x);
struct val m_exp_result(struct lanes * l, struct power p, struct val x);

// log(erfc(a / sqrt(2))) for a in [0, 5.5].
struct val m_log_erfc(struct lanes * l, struct val a, int n_pieces);

// log(x) = whole + (low + log1p_rest(f)); of x, and of 1 + u, u in [0, 1]. The result has the rest
// in f.
struct logarithm {
    struct val f, whole, low;
};
struct logarithm m_log_argument(struct lanes * l, struct val x);
struct logarithm m_log1p_argument(struct lanes * l, struct val u);
struct val m_log1p_rest(struct lanes * l, struct val f); // log1p(f) - f
struct val m_log_result(struct lanes * l, struct logarithm g, struct val x);

// x = n pi/2 + r, accurate for |x| up to 2^17 and with an error of 2^-20 up to 2^22; n counts
// modulo 4, in a vector register. The wave is sin(n pi/2 + r).
struct turned {
    struct val r, n;
};
struct turned m_turn(struct lanes * l, struct val x);
struct val m_wave(struct lanes * l, struct turned t);
