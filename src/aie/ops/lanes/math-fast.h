// math-fast: elementary functions with the accuracy that ggml asks for, 15 bits and more, in a few
// tens of instructions each: the precision `fast`, and 16-bit datatypes in either. Conversions to
// bf16 must round to nearest. Arguments that are too large are the caller's: m_where() and its like
// choose what stands there instead.
#pragma once

#include "math-lanes.h"

// e^x, or e^-x where `negate`, is p times the bf16 numbers s, which stand in both places of a
// pair; |x| < 87. `wide`: as accurate for any x, else for |x| < 16 and less and less further out,
// where only the size of the result counts.
struct fast_power {
    struct val p;
    struct pair s;
};
struct fast_power m_fast_exp(struct lanes * l, struct val x, bool negate, bool wide);
// p s, and c + p s.
struct val m_fast_power(struct lanes * l, struct fast_power e);
struct val m_fast_power_add(struct lanes * l, struct val c, struct fast_power e);

// e^-m of any m that is not below 0, or a NaN.
struct val m_fast_exp_minus(struct lanes * l, struct val m);
// e^x - 1, also where that is near 0.
struct val m_fast_less_one(struct lanes * l, struct val x, bool wide);

// 1 / d and its first piece, for d in [2^-100, 2^125]: 1/d = y (1 + e), y in both places.
struct fast_inverse {
    struct pair y;
    struct val e;
};
struct fast_inverse m_fast_invert(struct lanes * l, struct val d);
struct val m_fast_inverse(struct lanes * l, struct fast_inverse r);
// x / d, x as p_halves() has it.
struct val m_fast_over(struct lanes * l, struct pair x, struct fast_inverse r);

// Lanes whose bits are from..to (as unsigned integers, at most 2^31 apart).
struct mask m_between(struct lanes * l, struct val x, uint32_t from, uint32_t to);
