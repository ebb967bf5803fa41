// math-lanes: what the files of math share: patterns of f32 and a few lane operations that only they
// need.
#pragma once

#include "math.h"
#include "pieces.h"

enum {
    F32_INF = 0x7f800000,
    F32_NAN = 0x7fc00000,
    F32_MAGNITUDE = 0x7fffffff,
    F32_EXPONENT = 0x7f800000,
    F32_FRACTION = 0x007fffff,
    F32_NORMAL = 0x00800000, // the smallest normal; also 1 in the exponent
    F32_ONE = 0x3f800000,
};
#define F32_SIGN 0x80000000u

// bf16 results have 8 bits, and 15 on the way are enough.
static inline bool math_full(const struct lanes * l) {
    return l->dtype != DTYPE_BF16;
}

// How many bf16 pieces a product takes where its relative error counts, and where it is an eighth of
// a sum or less.
static inline int math_pieces(const struct lanes * l) {
    return l->dtype == DTYPE_F32 ? PRODUCT_EXACT : l->dtype == DTYPE_F16 ? 3 : 2;
}
static inline int math_pieces_small(int n) {
    return n > 2 ? n - 1 : n;
}

// Every 32-bit lane moved by 16 bits. Up: only the low half of a lane may hold bits; down: only the
// high half.
struct val m_up16(struct lanes * l, struct val a);
struct val m_down16(struct lanes * l, struct val a);

// num / d, d in [1, 2], num of a moderate size (its 2^-30th part must be a normal number).
struct val m_divide_by_unit(struct lanes * l, struct val num, struct val d);
