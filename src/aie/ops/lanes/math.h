// math: elementary functions on f32 lanes, for ops of every family. Each takes any number, NaNs,
// infinities and zeros included, and gives what IEEE 754 or C's math.h gives, with denormals read
// and written as zero. Results are within a few units of f32's last place in an f32 program;
// programs of 16-bit datatypes spend fewer products and keep 16 bits, twice what their results can
// hold.
#pragma once

#include "lanes.h"

// a * b and a / b with infinities and NaNs as IEEE 754 has them.
struct val f_times(struct lanes * l, struct val a, struct val b);
struct val f_div(struct lanes * l, struct val a, struct val b);

struct val f_log(struct lanes * l, struct val x);
struct val f_sqrt(struct lanes * l, struct val x);

enum rounding { ROUND_DOWN, ROUND_UP, ROUND_INWARD, ROUND_HALF_OUTWARD };
struct val f_round(struct lanes * l, struct val x, enum rounding how);
