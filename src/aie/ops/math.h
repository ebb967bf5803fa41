// math: elementary functions on f32 lanes, for ops of every family. Each takes any number, NaNs,
// infinities and zeros included, and gives what IEEE 754 or C's math.h gives, with denormals read and
// written as zero. Results are within a few units of f32's last place in an f32 program; programs of
// 16-bit datatypes spend fewer products and keep 16 bits, twice what their results can hold.
#pragma once

#include "lanes.h"

// a * b and a / b with infinities and NaNs as IEEE 754 has them.
struct val f_times(struct lanes * l, struct val a, struct val b);
struct val f_div(struct lanes * l, struct val a, struct val b);
struct val f_recip(struct lanes * l, struct val a);

struct val f_exp(struct lanes * l, struct val x);
struct val f_expm1(struct lanes * l, struct val x);
struct val f_log(struct lanes * l, struct val x);
// log(1 + u) for u in [0, 1].
struct val f_log1p_unit(struct lanes * l, struct val u);
struct val f_sqrt(struct lanes * l, struct val x);
struct val f_rsqrt(struct lanes * l, struct val x);
struct val f_tanh(struct lanes * l, struct val x);
struct val f_sigmoid(struct lanes * l, struct val x);
// x / (1 + e^-v), where v has |v| <= 177 and the sign of x; and where it is any number.
struct val f_times_sigmoid(struct lanes * l, struct val x, struct val v);
struct val f_times_sigmoid_of_any(struct lanes * l, struct val x, struct val v);
// x / 2 * (1 + erf(x / sqrt(2)))
struct val f_times_normal(struct lanes * l, struct val x);

// Accurate for |x| up to 2^17, a few units of 2^-20 off up to 2^22, NaN beyond.
struct val f_sin(struct lanes * l, struct val x);
struct val f_cos(struct lanes * l, struct val x);

enum rounding { ROUND_DOWN, ROUND_UP, ROUND_INWARD, ROUND_HALF_OUTWARD };
struct val f_round(struct lanes * l, struct val x, enum rounding how);
