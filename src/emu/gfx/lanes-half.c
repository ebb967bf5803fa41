// lanes-half: halves, packed halves and words, and products of several narrow numbers.
//
// Kept true: sums and products of halves are computed as floats, which hold them exactly enough
// that rounding twice is rounding once; fused ones as doubles, rounded to a half directly. The
// fetch has already put the halves that op_sel chose into place, so that a row's low half is the
// low operand.
#include "emu/gfx/lanes.h"

V2_H(v_add_f16, a + b)
V2_H(v_sub_f16, a - b)
V2_H(v_subrev_f16, b - a)
V2_H(v_mul_f16, a * b)
V2_H(v_min_f16, min_f(a, b))
V2_H(v_max_f16, max_f(a, b))
V3_H(v_min3_f16, min_f(min_f(a, b), c))
V3_H(v_max3_f16, max_f(max_f(a, b), c))
V3_H(v_med3_f16, med_f(a, b, c))
V3_H(v_minmax_f16, max_f(min_f(a, b), c))
V3_H(v_maxmin_f16, min_f(max_f(a, b), c))
V3_H(v_mad_f16, f16(u16(a * b)) + c)
V3_H(v_mac_f16, f16(u16(a * b)) + c)
V1_H(v_trunc_f16, truncf(a))
V1_H(v_ceil_f16, ceilf(a))
V1_H(v_floor_f16, floorf(a))
V1_H(v_rndne_f16, rintf(a))
V1_H(v_fract_f16, min_f(a - floorf(a), 0x1.ffcp-1f) + (a - a))

#define FMA_H(name) SHAPE3(name, float, f16, TO_U, fma_h(a, b, c))
FMA_H(v_fma_f16)
FMA_H(v_fmac_f16)
FMA_H(v_fmamk_f16)
FMA_H(v_fmaak_f16)

LANE_FN(v_ldexp_f16) {
    ROW_D;
    ROW_1(0, pa);
    ROW_1(1, pb);
    EACH_LANE(x->n) {
        int32_t n = (int16_t) pb[i];
        n = n < -80 ? -80 : n > 80 ? 80 : n;
        d[i] = u16(f16(pa[i]) * f32((uint32_t) (n + 127) << 23));
    }
}

static GFX_INLINE uint32_t exponent_h(float a) { // exact as a float, which has no denormals here
    const uint32_t e = u32(a) >> 23 & 255;
    return a == 0 || e == 255 ? 0 : (e - 126) & 0xffff;
}

static GFX_INLINE float mantissa_h(float a) {
    const uint32_t e = u32(a) >> 23 & 255;
    return a == 0 || e == 255 ? a : f32((u32(a) & 0x807fffff) | 0x3f000000);
}

SHAPE1(v_frexp_exp_i16_f16, float, f16, TO_U, exponent_h(a))
V1_H(v_frexp_mant_f16, mantissa_h(a))

static GFX_INLINE uint32_t fixup_h(uint32_t q, uint32_t b, uint32_t c) {
    const uint32_t sign = (b ^ c) & 0x8000, mb = b & 0x7fff, mc = c & 0x7fff;
    uint32_t r = sign | (q & 0x7fff);
    r = mb == 0x7c00 || mc == 0 ? sign : r;
    r = mb == 0 || mc == 0x7c00 ? sign | 0x7c00 : r;
    r = (mb == 0 && mc == 0) || (mb == 0x7c00 && mc == 0x7c00) ? 0xfe00 : r;
    r = mb > 0x7c00 ? (b & 0xffff) | 0x0200 : r;
    return mc > 0x7c00 ? (c & 0xffff) | 0x0200 : r;
}

V3_U(v_div_fixup_f16, fixup_h(a, b, c))

// ---- packed halves: each half by itself ----

#define PACK2(name, T, FROM, TO, ...)                                                              \
    LANE_FN(name) {                                                                                \
        ROW_D;                                                                                     \
        ROW_1(0, pa);                                                                              \
        ROW_1(1, pb);                                                                              \
        const bool clamp = x->clamp;                                                               \
        (void) clamp;                                                                              \
        EACH_LANE(x->n) {                                                                          \
            uint32_t low, high;                                                                    \
            {                                                                                      \
                const T a = FROM(pa[i]), b = FROM(pb[i]);                                          \
                low = TO(__VA_ARGS__);                                                             \
            }                                                                                      \
            {                                                                                      \
                const T a = FROM(pa[i] >> 16), b = FROM(pb[i] >> 16);                              \
                high = TO(__VA_ARGS__);                                                            \
            }                                                                                      \
            d[i] = low | high << 16;                                                               \
        }                                                                                          \
    }
#define PACK3(name, T, FROM, TO, ...)                                                              \
    LANE_FN(name) {                                                                                \
        ROW_D;                                                                                     \
        ROW_1(0, pa);                                                                              \
        ROW_1(1, pb);                                                                              \
        ROW_1(2, pc);                                                                              \
        const bool clamp = x->clamp;                                                               \
        (void) clamp;                                                                              \
        EACH_LANE(x->n) {                                                                          \
            uint32_t low, high;                                                                    \
            {                                                                                      \
                const T a = FROM(pa[i]), b = FROM(pb[i]), c = FROM(pc[i]);                         \
                low = TO(__VA_ARGS__);                                                             \
            }                                                                                      \
            {                                                                                      \
                const T a = FROM(pa[i] >> 16), b = FROM(pb[i] >> 16), c = FROM(pc[i] >> 16);       \
                high = TO(__VA_ARGS__);                                                            \
            }                                                                                      \
            d[i] = low | high << 16;                                                               \
        }                                                                                          \
    }

// Saturated where the instruction asks for it.
static GFX_INLINE int32_t fit(int32_t v, int32_t low, int32_t high, bool clamp) {
    const int32_t c = v < low ? low : v > high ? high : v;
    return clamp ? c : v;
}

#define FIT_I(v) fit((v), INT16_MIN, INT16_MAX, clamp)
#define FIT_U(v) fit((v), 0, UINT16_MAX, clamp)
#define FIT_P(v) clamp && (v) > UINT16_MAX ? UINT16_MAX : (v)
PACK2(v_pk_mul_lo_u16, uint32_t, AS_W, TO_W, a * b)
PACK2(v_pk_add_i16, int32_t, AS_S, TO_W, FIT_I(a + b))
PACK2(v_pk_sub_i16, int32_t, AS_S, TO_W, FIT_I(a - b))
PACK2(v_pk_add_u16, int32_t, AS_W, TO_W, FIT_U(a + b))
PACK2(v_pk_sub_u16, int32_t, AS_W, TO_W, FIT_U(a - b))
PACK2(v_pk_lshlrev_b16, uint32_t, AS_W, TO_W, b << (a & 15))
PACK2(v_pk_lshrrev_b16, uint32_t, AS_W, TO_W, b >> (a & 15))
PACK2(v_pk_ashrrev_i16, int32_t, AS_S, TO_W, b >> (a & 15))
PACK2(v_pk_max_i16, int32_t, AS_S, TO_W, a > b ? a : b)
PACK2(v_pk_min_i16, int32_t, AS_S, TO_W, a < b ? a : b)
PACK2(v_pk_max_u16, uint32_t, AS_W, TO_W, a > b ? a : b)
PACK2(v_pk_min_u16, uint32_t, AS_W, TO_W, a < b ? a : b)
PACK3(v_pk_mad_i16, int32_t, AS_S, TO_W, FIT_I(a * b + c))
PACK3(v_pk_mad_u16, uint32_t, AS_W, TO_W, FIT_P((uint64_t) a * b + c))
PACK2(v_pk_add_f16, float, f16, u16, a + b)
PACK2(v_pk_mul_f16, float, f16, u16, a * b)
PACK2(v_pk_min_f16, float, f16, u16, min_f(a, b))
PACK2(v_pk_max_f16, float, f16, u16, max_f(a, b))
PACK3(v_pk_fma_f16, float, f16, TO_U, fma_h(a, b, c))
PACK3(v_pk_fmac_f16, float, f16, TO_U, fma_h(a, b, c))

// ---- packed words ----

#define PACK_WORDS(name, ...)                                                                      \
    LANE_FN(name) {                                                                                \
        ROW_D2;                                                                                    \
        ROW_2(0, pa, qa);                                                                          \
        ROW_2(1, pb, qb);                                                                          \
        EACH_LANE(x->n) {                                                                          \
            uint32_t low, high;                                                                    \
            {                                                                                      \
                const float a = f32(pa[i]), b = f32(pb[i]);                                        \
                low = u32(__VA_ARGS__);                                                            \
            }                                                                                      \
            {                                                                                      \
                const float a = f32(qa[i]), b = f32(qb[i]);                                        \
                high = u32(__VA_ARGS__);                                                           \
            }                                                                                      \
            d0[i] = low;                                                                           \
            d1[i] = high;                                                                          \
        }                                                                                          \
    }
PACK_WORDS(v_pk_mul_f32, a * b)
PACK_WORDS(v_pk_add_f32, a + b)

LANE_FN(v_pk_fma_f32) {
    ROW_D2;
    ROW_2(0, pa, qa);
    ROW_2(1, pb, qb);
    ROW_2(2, pc, qc);
    EACH_LANE(x->n) {
        const uint32_t low = u32(fmaf(f32(pa[i]), f32(pb[i]), f32(pc[i])));
        const uint32_t high = u32(fmaf(f32(qa[i]), f32(qb[i]), f32(qc[i])));
        d0[i] = low;
        d1[i] = high;
    }
}

LANE_FN(v_pk_mov_b32) { // what op_sel chose of the first, and of the second
    ROW_D2;
    ROW_1(0, pa);
    ROW_1(1, pb);
    EACH_LANE(x->n) {
        const uint32_t low = pa[i], high = pb[i];
        d0[i] = low;
        d1[i] = high;
    }
}

// ---- mixed precision: op_sel_hi says which sources are halves, op_sel which half ----

static GFX_INLINE float mixed(const struct gfx_inst * in, int k, uint32_t u) {
    const bool half = in->op_sel_hi >> k & 1, high = in->op_sel >> k & 1;
    float v = half ? f16(high ? u >> 16 : u & 0xffff) : f32(u);
    v = in->neg_hi >> k & 1 ? fabsf(v) : v; // where other packed forms have neg_hi
    return in->src[k].neg ? -v : v;
}

static GFX_INLINE float fma_mixed(const struct gfx_lanes * x, int i) {
    return fmaf(mixed(x->in, 0, x->s[0][0][i]), mixed(x->in, 1, x->s[1][0][i]),
                mixed(x->in, 2, x->s[2][0][i]));
}

static GFX_INLINE float unit(float v, bool clamp) {
    return clamp ? (v >= 0 ? (v > 1 ? 1 : v) : 0) : v;
}

// As a half directly from the exact sum, as the hardware rounds once.
static GFX_INLINE uint32_t half_mixed(const struct gfx_lanes * x, int i, bool clamp) {
    const double a = mixed(x->in, 0, x->s[0][0][i]), b = mixed(x->in, 1, x->s[1][0][i]);
    const double r = a * b + (double) mixed(x->in, 2, x->s[2][0][i]);
    return u16_of_double(clamp ? (r >= 0 ? (r > 1 ? 1 : r) : 0) : r);
}

LANE_FN(v_fma_mix_f32) {
    const bool clamp = x->in->flags & GFX_F_CLAMP;
    for (int i = 0; i < x->n; i++) {
        x->d[0][i] = u32(unit(fma_mixed(x, i), clamp));
    }
}

LANE_FN(v_fma_mixlo_f16) { // d[1] is the old value of the destination
    const bool clamp = x->in->flags & GFX_F_CLAMP;
    for (int i = 0; i < x->n; i++) {
        x->d[0][i] = (x->d[1][i] & 0xffff0000) | half_mixed(x, i, clamp);
    }
}

LANE_FN(v_fma_mixhi_f16) {
    const bool clamp = x->in->flags & GFX_F_CLAMP;
    for (int i = 0; i < x->n; i++) {
        x->d[0][i] = (x->d[1][i] & 0xffff) | half_mixed(x, i, clamp) << 16;
    }
}

// ---- dot products ----

static GFX_INLINE float bf16(uint32_t h) {
    return f32(h << 16);
}

static GFX_INLINE int32_t nibble(uint32_t v, int k, bool is_signed) {
    const uint32_t n = v >> 4 * k & 15;
    return is_signed ? (int32_t) (n ^ 8) - 8 : (int32_t) n;
}

static GFX_INLINE int32_t octet(uint32_t v, int k, bool is_signed) {
    const uint32_t n = v >> 8 * k & 255;
    return is_signed ? (int32_t) (n ^ 128) - 128 : (int32_t) n;
}

static GFX_INLINE int64_t dot4(uint32_t a, uint32_t b, bool sa, bool sb) {
    int64_t r = 0;
    for (int k = 0; k < 4; k++) {
        r += (int64_t) octet(a, k, sa) * octet(b, k, sb);
    }
    return r;
}

static GFX_INLINE int64_t dot8(uint32_t a, uint32_t b, bool sa, bool sb) {
    int64_t r = 0;
    for (int k = 0; k < 8; k++) {
        r += (int64_t) nibble(a, k, sa) * nibble(b, k, sb);
    }
    return r;
}

static GFX_INLINE int64_t dot2_i(uint32_t a, uint32_t b) {
    return (int64_t) (int16_t) a * (int16_t) b +
           (int64_t) (int16_t) (a >> 16) * (int16_t) (b >> 16);
}

static GFX_INLINE uint64_t dot2_u(uint32_t a, uint32_t b) {
    return (uint64_t) (a & 0xffff) * (b & 0xffff) + (uint64_t) (a >> 16) * (b >> 16);
}

static GFX_INLINE uint32_t sum_i(int64_t dot, uint32_t c, bool clamp) {
    const int64_t r = dot + (int32_t) c;
    const int64_t s = r < INT32_MIN ? INT32_MIN : r > INT32_MAX ? INT32_MAX : r;
    return (uint32_t) (clamp ? s : r);
}

static GFX_INLINE uint32_t sum_u(uint64_t dot, uint32_t c, bool clamp) {
    const uint64_t r = dot + c;
    return (uint32_t) (clamp && r > UINT32_MAX ? UINT32_MAX : r);
}

#define DOT(name, ...)                                                                             \
    LANE_FN(name) {                                                                                \
        ROW_D;                                                                                     \
        ROW_1(0, pa);                                                                              \
        ROW_1(1, pb);                                                                              \
        ROW_1(2, pc);                                                                              \
        const bool clamp = x->clamp;                                                               \
        const bool sa = x->in->src[0].neg, sb = x->in->src[1].neg;                                 \
        (void) clamp, (void) sa, (void) sb;                                                        \
        EACH_LANE(x->n) {                                                                          \
            const uint32_t a = pa[i], b = pb[i], c = pc[i];                                        \
            d[i] = (__VA_ARGS__);                                                                  \
        }                                                                                          \
    }
DOT(v_dot2_i32_i16, sum_i(dot2_i(a, b), c, clamp))
DOT(v_dot2c_i32_i16, sum_i(dot2_i(a, b), c, clamp))
DOT(v_dot2_u32_u16, sum_u(dot2_u(a, b), c, clamp))
DOT(v_dot4_i32_i8, sum_i(dot4(a, b, true, true), c, clamp))
DOT(v_dot4c_i32_i8, sum_i(dot4(a, b, true, true), c, clamp))
DOT(v_dot4_u32_u8, sum_u((uint64_t) dot4(a, b, false, false), c, clamp))
DOT(v_dot8_i32_i4, sum_i(dot8(a, b, true, true), c, clamp))
DOT(v_dot8c_i32_i4, sum_i(dot8(a, b, true, true), c, clamp))
DOT(v_dot8_u32_u4, sum_u((uint64_t) dot8(a, b, false, false), c, clamp))
DOT(v_dot4_i32_iu8, sum_i(dot4(a, b, sa, sb), c, clamp)) // neg: that source is signed
DOT(v_dot8_i32_iu4, sum_i(dot8(a, b, sa, sb), c, clamp))

static GFX_INLINE float dot2_f(uint32_t a, uint32_t b, float c) {
    return fmaf(f16(a & 0xffff), f16(b & 0xffff), fmaf(f16(a >> 16), f16(b >> 16), c));
}

static GFX_INLINE float dot2_bf(uint32_t a, uint32_t b, float c) {
    return fmaf(bf16(a & 0xffff), bf16(b & 0xffff), fmaf(bf16(a >> 16), bf16(b >> 16), c));
}

DOT(v_dot2_f32_f16, u32(dot2_f(a, b, f32(c))))
DOT(v_dot2c_f32_f16, u32(dot2_f(a, b, f32(c))))
DOT(v_dot2_f32_bf16, u32(dot2_bf(a, b, f32(c))))
