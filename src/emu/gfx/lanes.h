// lanes: how a lane function is written. V1_U(name, expr), V2_F(name, expr), ... define gfx_do_name
// as a loop over columns; a, b, c are the lane's sources and the expression is its result.
// Suffixes: U, I words as uint32_t or int32_t; F, D, H float, double, half (as float); Q, L 64-bit
// unsigned, signed; W, S 16-bit unsigned, signed. The loops have no branches in them, so that they
// become vector code.
#pragma once

#include "emu/gfx/impl.h"

#include <math.h>

static GFX_INLINE float f32(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static GFX_INLINE uint32_t u32(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static GFX_INLINE double f64(uint64_t u) {
    double f;
    memcpy(&f, &u, 8);
    return f;
}

static GFX_INLINE uint64_t u64(double f) {
    uint64_t u;
    memcpy(&u, &f, 8);
    return u;
}

static GFX_INLINE uint64_t join(uint32_t low, uint32_t high) {
    return low | (uint64_t) high << 32;
}

// ---- halves ----

// Exact. The multiplication brings denormals up; infinities and NaNs get their exponent afterwards.
static GFX_INLINE float f16(uint32_t h) {
    uint32_t magnitude = (h & 0x7fff) << 13;
    float scaled = f32(magnitude) * 0x1p112f;
    uint32_t u = u32(scaled);
    u = (h & 0x7c00) == 0x7c00 ? magnitude | 0x7f800000 : u;
    return f32(u | (h & 0x8000) << 16);
}

// Rounds to nearest even. Denormal results come out of an addition that aligns their last bit.
static GFX_INLINE uint32_t u16(float f) {
    uint32_t u = u32(f), sign = u >> 16 & 0x8000, m = u & 0x7fffffff;
    uint32_t normal = (m + 0xfff + (m >> 13 & 1) - (112u << 23)) >> 13;
    uint32_t small = u32(f32(m) + 0.5f) - 0x3f000000;
    uint32_t r = m < 0x38800000 ? small : normal;
    r = m >= 0x47800000 ? 0x7c00 : r; // 65536 and up; what rounds up to it is 0x7c00 already
    r = m > 0x7f800000 ? 0x7e00 | (m >> 13 & 0x1ff) : r;
    return sign | r;
}

// Towards zero.
static GFX_INLINE uint32_t u16_rtz(float f) {
    uint32_t u = u32(f), sign = u >> 16 & 0x8000, m = u & 0x7fffffff;
    uint32_t normal = (m - (112u << 23)) >> 13;
    uint32_t small = (uint32_t) (int32_t) (f32(m < 0x38800000 ? m : 0) * 0x1p24f);
    uint32_t r = m < 0x38800000 ? small : normal;
    r = m >= 0x47800000 ? 0x7bff : r;
    r = m == 0x7f800000 ? 0x7c00 : r;
    r = m > 0x7f800000 ? 0x7e00 | (m >> 13 & 0x1ff) : r;
    return sign | r;
}

// Through a float that was rounded to odd, so that the second rounding decides alone.
static GFX_INLINE uint32_t u16_of_double(double d) {
    float f = (float) d;
    double back = (double) f;
    uint32_t u = u32(f);
    uint32_t even = ~u & 1;
    uint32_t out = fabs(d) > fabs(back); // the double lies further from zero
    uint32_t in = fabs(d) < fabs(back);
    uint32_t odd = u + (even & out) - (even & in);
    odd = (u & 0x7f800000) == 0x7f800000 ? u : odd;
    return u16(f32(odd));
}

static GFX_INLINE uint32_t fma_h(float a, float b, float c) {
    return u16_of_double((double) a * (double) b + (double) c);
}

// ---- to integers: towards zero, what does not fit becomes the nearest that does, NaN 0 ----

static GFX_INLINE int32_t to_i32(float a) {
    const float c = a >= -0x1p31f && a < 0x1p31f ? a : 0;
    int32_t r = (int32_t) c;
    r = a >= 0x1p31f ? INT32_MAX : r;
    return a < -0x1p31f ? INT32_MIN : r;
}

static GFX_INLINE uint32_t to_u32(float a) {
    const float c = a > 0 && a < 0x1p32f ? a : 0;
    const bool high = c >= 0x1p31f; // in two halves: signed conversions are what hosts have
    const uint32_t r = (uint32_t) (int32_t) (high ? c - 0x1p31f : c) + (high ? 0x80000000u : 0);
    return a >= 0x1p32f ? UINT32_MAX : r;
}

// ---- minimum and maximum, as IEEE mode has them: a quiet NaN loses against a number, a signalling
// one wins and becomes quiet; -0 < +0 ----

static GFX_INLINE bool signals_f(float a) {
    return (u32(a) & 0x7fffffff) > 0x7f800000 && !(u32(a) & 0x00400000);
}

static GFX_INLINE bool signals_d(double a) {
    return (u64(a) << 1) > UINT64_C(0x7ff) << 53 && !(u64(a) & UINT64_C(1) << 51);
}

#define EXTREME(T, a, b, r, U, FROM, SIGNALS, quiet)                                               \
    r = b != b ? a : a != a ? b : r;                                                               \
    r = SIGNALS(b) ? b : r;                                                                        \
    r = SIGNALS(a) ? a : r;                                                                        \
    return r != r ? FROM(U(r) | (quiet)) : r

static GFX_INLINE float min_f(float a, float b) {
    float r = a < b ? a : b;
    r = a == b ? f32(u32(a) | u32(b)) : r;
    EXTREME(float, a, b, r, u32, f32, signals_f, 0x00400000);
}

static GFX_INLINE float max_f(float a, float b) {
    float r = a > b ? a : b;
    r = a == b ? f32(u32(a) & u32(b)) : r;
    EXTREME(float, a, b, r, u32, f32, signals_f, 0x00400000);
}

static GFX_INLINE double min_d(double a, double b) {
    double r = a < b ? a : b;
    r = a == b ? f64(u64(a) | u64(b)) : r;
    EXTREME(double, a, b, r, u64, f64, signals_d, UINT64_C(1) << 51);
}

static GFX_INLINE double max_d(double a, double b) {
    double r = a > b ? a : b;
    r = a == b ? f64(u64(a) & u64(b)) : r;
    EXTREME(double, a, b, r, u64, f64, signals_d, UINT64_C(1) << 51);
}

static GFX_INLINE float med_f(float a, float b, float c) {
    float r = max_f(min_f(a, b), min_f(max_f(a, b), c));
    return a != a || b != b || c != c ? min_f(min_f(a, b), c) : r;
}

// ---- shapes ----

#define LANE_FN(name) GFX_CLONES void gfx_do_##name(struct gfx_lanes * x)

#define ROW_D          uint32_t * const d = x->d[0]
#define ROW_D2         uint32_t *const d0 = x->d[0], *const d1 = x->d[1]
#define ROW_1(k, p)    const uint32_t * const p = x->s[k][0]
#define ROW_2(k, p, q) const uint32_t *const p = x->s[k][0], *const q = x->s[k][1]

// One, two or three sources of one word, result of one word. FROM: word to value, TO: value to
// word.
#define SHAPE1(name, T, FROM, TO, ...)                                                             \
    LANE_FN(name) {                                                                                \
        ROW_D;                                                                                     \
        ROW_1(0, pa);                                                                              \
        EACH_LANE(x->n) {                                                                          \
            const T a = FROM(pa[i]);                                                               \
            d[i] = TO(__VA_ARGS__);                                                                \
        }                                                                                          \
    }
#define SHAPE2(name, T, FROM, TO, ...)                                                             \
    LANE_FN(name) {                                                                                \
        ROW_D;                                                                                     \
        ROW_1(0, pa);                                                                              \
        ROW_1(1, pb);                                                                              \
        EACH_LANE(x->n) {                                                                          \
            const T a = FROM(pa[i]), b = FROM(pb[i]);                                              \
            d[i] = TO(__VA_ARGS__);                                                                \
        }                                                                                          \
    }
#define SHAPE3(name, T, FROM, TO, ...)                                                             \
    LANE_FN(name) {                                                                                \
        ROW_D;                                                                                     \
        ROW_1(0, pa);                                                                              \
        ROW_1(1, pb);                                                                              \
        ROW_1(2, pc);                                                                              \
        EACH_LANE(x->n) {                                                                          \
            const T a = FROM(pa[i]), b = FROM(pb[i]), c = FROM(pc[i]);                             \
            d[i] = TO(__VA_ARGS__);                                                                \
        }                                                                                          \
    }

// The same with two words each.
#define SHAPE1_2(name, T, FROM, TO, ...)                                                           \
    LANE_FN(name) {                                                                                \
        ROW_D2;                                                                                    \
        ROW_2(0, pa, qa);                                                                          \
        EACH_LANE(x->n) {                                                                          \
            const T a = FROM(join(pa[i], qa[i]));                                                  \
            const uint64_t r = TO(__VA_ARGS__);                                                    \
            d0[i] = (uint32_t) r;                                                                  \
            d1[i] = (uint32_t) (r >> 32);                                                          \
        }                                                                                          \
    }
#define SHAPE2_2(name, T, FROM, TO, ...)                                                           \
    LANE_FN(name) {                                                                                \
        ROW_D2;                                                                                    \
        ROW_2(0, pa, qa);                                                                          \
        ROW_2(1, pb, qb);                                                                          \
        EACH_LANE(x->n) {                                                                          \
            const T a = FROM(join(pa[i], qa[i])), b = FROM(join(pb[i], qb[i]));                    \
            const uint64_t r = TO(__VA_ARGS__);                                                    \
            d0[i] = (uint32_t) r;                                                                  \
            d1[i] = (uint32_t) (r >> 32);                                                          \
        }                                                                                          \
    }
#define SHAPE3_2(name, T, FROM, TO, ...)                                                           \
    LANE_FN(name) {                                                                                \
        ROW_D2;                                                                                    \
        ROW_2(0, pa, qa);                                                                          \
        ROW_2(1, pb, qb);                                                                          \
        ROW_2(2, pc, qc);                                                                          \
        EACH_LANE(x->n) {                                                                          \
            const T a = FROM(join(pa[i], qa[i])), b = FROM(join(pb[i], qb[i])),                    \
                    c = FROM(join(pc[i], qc[i]));                                                  \
            const uint64_t r = TO(__VA_ARGS__);                                                    \
            d0[i] = (uint32_t) r;                                                                  \
            d1[i] = (uint32_t) (r >> 32);                                                          \
        }                                                                                          \
    }

#define TO_U(v)         (uint32_t)(v)
#define TO_Q(v)         (uint64_t)(v)
#define TO_W(v)         ((uint32_t) (v) &0xffff)
#define AS_I(u)         (int32_t)(u)
#define AS_S(u)         (int16_t)(u)
#define AS_W(u)         (uint16_t)(u)
#define AS_L(u)         (int64_t)(u)
#define V1_U(name, ...) SHAPE1(name, uint32_t, , TO_U, __VA_ARGS__)
#define V2_U(name, ...) SHAPE2(name, uint32_t, , TO_U, __VA_ARGS__)
#define V3_U(name, ...) SHAPE3(name, uint32_t, , TO_U, __VA_ARGS__)
#define V1_I(name, ...) SHAPE1(name, int32_t, AS_I, TO_U, __VA_ARGS__)
#define V2_I(name, ...) SHAPE2(name, int32_t, AS_I, TO_U, __VA_ARGS__)
#define V3_I(name, ...) SHAPE3(name, int32_t, AS_I, TO_U, __VA_ARGS__)
#define V1_W(name, ...) SHAPE1(name, uint16_t, AS_W, TO_W, __VA_ARGS__)
#define V2_W(name, ...) SHAPE2(name, uint16_t, AS_W, TO_W, __VA_ARGS__)
#define V3_W(name, ...) SHAPE3(name, uint16_t, AS_W, TO_W, __VA_ARGS__)
#define V2_S(name, ...) SHAPE2(name, int16_t, AS_S, TO_W, __VA_ARGS__)
#define V3_S(name, ...) SHAPE3(name, int16_t, AS_S, TO_W, __VA_ARGS__)
#define V1_F(name, ...) SHAPE1(name, float, f32, u32, __VA_ARGS__)
#define V2_F(name, ...) SHAPE2(name, float, f32, u32, __VA_ARGS__)
#define V3_F(name, ...) SHAPE3(name, float, f32, u32, __VA_ARGS__)
#define V1_H(name, ...) SHAPE1(name, float, f16, u16, __VA_ARGS__)
#define V2_H(name, ...) SHAPE2(name, float, f16, u16, __VA_ARGS__)
#define V3_H(name, ...) SHAPE3(name, float, f16, u16, __VA_ARGS__)
#define V1_D(name, ...) SHAPE1_2(name, double, f64, u64, __VA_ARGS__)
#define V2_D(name, ...) SHAPE2_2(name, double, f64, u64, __VA_ARGS__)
#define V3_D(name, ...) SHAPE3_2(name, double, f64, u64, __VA_ARGS__)

// Bits of a mask that follow from flags of 0 and 1.
static inline uint64_t mask_of_flags(const uint8_t * flag, int n) {
    uint64_t mask = 0;
    for (int i = 0; i < n; i += 8) {
        mask |= (load_u64(flag + i) * 0x0102040810204080 >> 56) << i;
    }
    return mask;
}

// Flags of 0 and ~0 that follow from the bits of a mask.
static inline void row_of_mask(uint32_t * row, uint64_t mask, int n) {
    for (int block = 0; block < n; block += BLOCK) {
        uint32_t m = (uint32_t) (mask >> block);
        for (int i = 0; i < BLOCK; i++) {
            row[block + i] = m & 1u << i ? ~0u : 0;
        }
    }
}
