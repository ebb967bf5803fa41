// lanes-cmp: comparisons. A row for each condition; the result is a bit for each lane, also for
// those that EXEC has off (the step clears them).
#include "emu/gfx/lanes.h"

#define COMPARE1(name, T, FROM, ...)                                                               \
    LANE_FN(name) {                                                                                \
        ROW_1(0, pa);                                                                              \
        ROW_1(1, pb);                                                                              \
        uint8_t flag[LANES];                                                                       \
        EACH_LANE(x->n) {                                                                          \
            const T a = FROM(pa[i]), b = FROM(pb[i]);                                              \
            (void) a, (void) b;                                                                    \
            flag[i] = (__VA_ARGS__);                                                               \
        }                                                                                          \
        x->mask = mask_of_flags(flag, x->n);                                                       \
    }
#define COMPARE2(name, T, FROM, ...)                                                               \
    LANE_FN(name) {                                                                                \
        ROW_2(0, pa, qa);                                                                          \
        ROW_2(1, pb, qb);                                                                          \
        uint8_t flag[LANES];                                                                       \
        EACH_LANE(x->n) {                                                                          \
            const T a = FROM(join(pa[i], qa[i])), b = FROM(join(pb[i], qb[i]));                    \
            (void) a, (void) b;                                                                    \
            flag[i] = (__VA_ARGS__);                                                               \
        }                                                                                          \
        x->mask = mask_of_flags(flag, x->n);                                                       \
    }

// n..: not .., true for NaNs.
#define FLOATS(SHAPE, t, T, FROM)                                                                  \
    SHAPE(v_cmp_f_##t, T, FROM, 0)                                                                 \
    SHAPE(v_cmp_lt_##t, T, FROM, a < b)                                                            \
    SHAPE(v_cmp_eq_##t, T, FROM, a == b)                                                           \
    SHAPE(v_cmp_le_##t, T, FROM, a <= b)                                                           \
    SHAPE(v_cmp_gt_##t, T, FROM, a > b)                                                            \
    SHAPE(v_cmp_lg_##t, T, FROM, (a < b) | (a > b))                                                \
    SHAPE(v_cmp_ge_##t, T, FROM, a >= b)                                                           \
    SHAPE(v_cmp_o_##t, T, FROM, (a == a) & (b == b))                                               \
    SHAPE(v_cmp_u_##t, T, FROM, (a != a) | (b != b))                                               \
    SHAPE(v_cmp_nge_##t, T, FROM, !(a >= b))                                                       \
    SHAPE(v_cmp_nlg_##t, T, FROM, !((a < b) | (a > b)))                                            \
    SHAPE(v_cmp_ngt_##t, T, FROM, !(a > b))                                                        \
    SHAPE(v_cmp_nle_##t, T, FROM, !(a <= b))                                                       \
    SHAPE(v_cmp_neq_##t, T, FROM, a != b)                                                          \
    SHAPE(v_cmp_nlt_##t, T, FROM, !(a < b))                                                        \
    SHAPE(v_cmp_t_##t, T, FROM, 1)

FLOATS(COMPARE1, f16, float, f16)
FLOATS(COMPARE1, f32, float, f32)
FLOATS(COMPARE2, f64, double, f64)

#define INTEGERS(SHAPE, t, T, FROM)                                                                \
    SHAPE(v_cmp_f_##t, T, FROM, 0)                                                                 \
    SHAPE(v_cmp_lt_##t, T, FROM, a < b)                                                            \
    SHAPE(v_cmp_eq_##t, T, FROM, a == b)                                                           \
    SHAPE(v_cmp_le_##t, T, FROM, a <= b)                                                           \
    SHAPE(v_cmp_gt_##t, T, FROM, a > b)                                                            \
    SHAPE(v_cmp_ne_##t, T, FROM, a != b)                                                           \
    SHAPE(v_cmp_ge_##t, T, FROM, a >= b)                                                           \
    SHAPE(v_cmp_t_##t, T, FROM, 1)

INTEGERS(COMPARE1, i16, int16_t, AS_S)
INTEGERS(COMPARE1, u16, uint16_t, AS_W)
INTEGERS(COMPARE1, i32, int32_t, AS_I)
INTEGERS(COMPARE1, u32, uint32_t, )
INTEGERS(COMPARE2, i64, int64_t, AS_L)
INTEGERS(COMPARE2, u64, uint64_t, )

// ---- classes: b has a bit for each that counts ----

enum {
    CLASS_SNAN = 1,
    CLASS_QNAN = 2,
    CLASS_INF = 4, // the negative ones; positive numbers mirror them
    CLASS_NORMAL = 8,
    CLASS_DENORMAL = 16,
    CLASS_ZERO = 32,
};

// Exponent and mantissa of any width.
static GFX_INLINE uint32_t class_of(bool negative, bool top, bool bottom, bool zero, bool quiet) {
    const uint32_t negated = top      ? CLASS_INF
                             : bottom ? (zero ? CLASS_ZERO : CLASS_DENORMAL)
                                      : CLASS_NORMAL;
    const uint32_t mirrored = negated == CLASS_INF      ? 512
                              : negated == CLASS_NORMAL ? 256
                              : negated == CLASS_ZERO   ? 64
                                                        : 128;
    const uint32_t nan = quiet ? CLASS_QNAN : CLASS_SNAN;
    return top && !zero ? nan : negative ? negated : mirrored;
}

LANE_FN(v_cmp_class_f32) {
    uint8_t flag[LANES];
    for (int i = 0; i < x->n; i++) {
        const uint32_t u = x->s[0][0][i], e = u >> 23 & 255, m = u & 0x7fffff;
        flag[i] = (x->s[1][0][i] & class_of(u >> 31, e == 255, e == 0, m == 0, m >> 22)) != 0;
    }
    x->mask = mask_of_flags(flag, x->n);
}

LANE_FN(v_cmp_class_f16) {
    uint8_t flag[LANES];
    for (int i = 0; i < x->n; i++) {
        const uint32_t u = x->s[0][0][i] & 0xffff, e = u >> 10 & 31, m = u & 0x3ff;
        flag[i] = (x->s[1][0][i] & class_of(u >> 15, e == 31, e == 0, m == 0, m >> 9)) != 0;
    }
    x->mask = mask_of_flags(flag, x->n);
}

LANE_FN(v_cmp_class_f64) {
    uint8_t flag[LANES];
    for (int i = 0; i < x->n; i++) {
        const uint64_t u = join(x->s[0][0][i], x->s[0][1][i]);
        const uint64_t e = u >> 52 & 2047, m = u & 0xfffffffffffff;
        flag[i] = (x->s[1][0][i] & class_of(u >> 63, e == 2047, e == 0, m == 0, m >> 51)) != 0;
    }
    x->mask = mask_of_flags(flag, x->n);
}
