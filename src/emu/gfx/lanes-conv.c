// lanes-conv: numbers of one kind become numbers of another.
//
// Kept true: what does not fit an integer saturates, a NaN becomes 0; floats become integers by
// dropping the fraction, floats become narrower floats by rounding to nearest even.
#include "emu/gfx/lanes.h"

// ---- to integers; the clamped value always converts, so that no lane does what C leaves open ----

static GFX_INLINE int32_t double_to_i32(double a) {
    const double c = a > -2147483649.0 && a < 2147483648.0 ? a : 0;
    int32_t r = (int32_t) c;
    r = a >= 2147483648.0 ? INT32_MAX : r;
    return a <= -2147483649.0 ? INT32_MIN : r;
}

static GFX_INLINE uint32_t double_to_u32(double a) {
    const double c = a > 0 && a < 4294967296.0 ? a : 0;
    const uint32_t r = (uint32_t) (int64_t) c;
    return a >= 4294967296.0 ? UINT32_MAX : r;
}

static GFX_INLINE int32_t within(int32_t v, int32_t low, int32_t high) {
    v = v < low ? low : v;
    return v > high ? high : v;
}

static GFX_INLINE float within_unit(float v, float low) {
    v = v > low ? v : low;
    v = v > 1 ? 1 : v;
    return v;
}

SHAPE1(v_cvt_i32_f32, float, f32, TO_U, to_i32(a))
SHAPE1(v_cvt_u32_f32, float, f32, TO_U, to_u32(a))
SHAPE1(v_cvt_nearest_i32_f32, float, f32, TO_U, to_i32(floorf(a + 0.5f)))
SHAPE1(v_cvt_floor_i32_f32, float, f32, TO_U, to_i32(floorf(a)))
SHAPE1(v_cvt_u16_f16, float, f16, TO_W, within(to_i32(a), 0, UINT16_MAX))
SHAPE1(v_cvt_i16_f16, float, f16, TO_W, within(to_i32(a), INT16_MIN, INT16_MAX))
SHAPE1(v_cvt_norm_i16_f16, float, f16, TO_W, to_i32(rintf(within_unit(a, -1) * 32767)))
SHAPE1(v_cvt_norm_u16_f16, float, f16, TO_W, to_i32(rintf(within_unit(a, 0) * 65535)))

#define FROM_DOUBLE(name, TO, ...)                                                                 \
    LANE_FN(name) {                                                                                \
        ROW_D;                                                                                     \
        ROW_2(0, pa, qa);                                                                          \
        EACH_LANE(x->n) {                                                                          \
            const double a = f64(join(pa[i], qa[i]));                                              \
            d[i] = TO(__VA_ARGS__);                                                                \
        }                                                                                          \
    }
FROM_DOUBLE(v_cvt_i32_f64, TO_U, double_to_i32(a))
FROM_DOUBLE(v_cvt_u32_f64, TO_U, double_to_u32(a))
FROM_DOUBLE(v_cvt_f32_f64, u32, (float) a)

// ---- from integers ----

SHAPE1(v_cvt_f32_i32, int32_t, AS_I, u32, (float) a)
SHAPE1(v_cvt_f32_u32, uint32_t, , u32, (float) a)
SHAPE1(v_cvt_f32_ubyte0, uint32_t, , u32, (float) (int32_t) (a & 255))
SHAPE1(v_cvt_f32_ubyte1, uint32_t, , u32, (float) (int32_t) (a >> 8 & 255))
SHAPE1(v_cvt_f32_ubyte2, uint32_t, , u32, (float) (int32_t) (a >> 16 & 255))
SHAPE1(v_cvt_f32_ubyte3, uint32_t, , u32, (float) (int32_t) (a >> 24))
SHAPE1(v_cvt_off_f32_i4, uint32_t, , u32, (float) ((int32_t) (a << 28) >> 28) * 0.0625f)
SHAPE1(v_cvt_f16_u16, uint16_t, AS_W, u16, (float) a)
SHAPE1(v_cvt_f16_i16, int16_t, AS_S, u16, (float) a)
SHAPE1(v_cvt_i32_i16, int16_t, AS_S, TO_U, (int32_t) a)
SHAPE1(v_cvt_u32_u16, uint16_t, AS_W, TO_U, a)

#define TO_DOUBLE(name, T, FROM, ...)                                                              \
    LANE_FN(name) {                                                                                \
        ROW_D2;                                                                                    \
        ROW_1(0, pa);                                                                              \
        EACH_LANE(x->n) {                                                                          \
            const T a = FROM(pa[i]);                                                               \
            const uint64_t r = u64((double) (__VA_ARGS__));                                        \
            d0[i] = (uint32_t) r;                                                                  \
            d1[i] = (uint32_t) (r >> 32);                                                          \
        }                                                                                          \
    }
TO_DOUBLE(v_cvt_f64_i32, int32_t, AS_I, a)
TO_DOUBLE(v_cvt_f64_u32, uint32_t, , a)
TO_DOUBLE(v_cvt_f64_f32, float, f32, a)

// ---- halves ----

SHAPE1(v_cvt_f16_f32, float, f32, u16, a)
SHAPE1(v_cvt_f32_f16, float, f16, u32, a)
SHAPE2(v_cvt_pk_rtz_f16_f32, float, f32, TO_U, u16_rtz(a) | u16_rtz(b) << 16)
V2_U(v_pack_b32_f16, (a & 0xffff) | b << 16)

// ---- pairs of 16 bits ----

#define PAIR(low, high) (((uint32_t) (low) &0xffff) | (uint32_t) (high) << 16)
#define NORM_I(v)       to_i32(rintf(within_unit(v, -1) * 32767))
#define NORM_U(v)       to_i32(rintf(within_unit(v, 0) * 65535))
SHAPE2(v_cvt_pk_norm_i16_f32, float, f32, TO_U, PAIR(NORM_I(a), NORM_I(b)))
SHAPE2(v_cvt_pk_norm_u16_f32, float, f32, TO_U, PAIR(NORM_U(a), NORM_U(b)))
SHAPE2(v_cvt_pk_norm_i16_f16, float, f16, TO_U, PAIR(NORM_I(a), NORM_I(b)))
SHAPE2(v_cvt_pk_norm_u16_f16, float, f16, TO_U, PAIR(NORM_U(a), NORM_U(b)))
SHAPE2(v_cvt_pk_i16_f32, float, f32, TO_U,
       PAIR(within(to_i32(a), INT16_MIN, INT16_MAX), within(to_i32(b), INT16_MIN, INT16_MAX)))
SHAPE2(v_cvt_pk_u16_f32, float, f32, TO_U,
       PAIR(within(to_i32(a), 0, UINT16_MAX), within(to_i32(b), 0, UINT16_MAX)))
V2_U(v_cvt_pk_u16_u32, PAIR(a > UINT16_MAX ? UINT16_MAX : a, b > UINT16_MAX ? UINT16_MAX : b))
V2_I(v_cvt_pk_i16_i32, PAIR(within(a, INT16_MIN, INT16_MAX), within(b, INT16_MIN, INT16_MAX)))
V1_U(v_sat_pk_u8_i16,
     (uint32_t) within((int16_t) a, 0, 255) | (uint32_t) within((int16_t) (a >> 16), 0, 255) << 8)

LANE_FN(v_cvt_pk_u8_f32) { // into one byte of c
    ROW_D;
    ROW_1(0, pa);
    ROW_1(1, pb);
    ROW_1(2, pc);
    EACH_LANE(x->n) {
        const uint32_t at = 8 * (pb[i] & 3);
        const uint32_t v = (uint32_t) within(to_i32(rintf(f32(pa[i]))), 0, 255);
        d[i] = (pc[i] & ~(255u << at)) | v << at;
    }
}

// ---- eight-bit floats (gfx942: exponents biased by 8 and 16, no infinities, -0 is NaN) ----

static GFX_INLINE float small_float(uint32_t v, int mantissa_bits, int bias) {
    const uint32_t m = v & ((1u << mantissa_bits) - 1), e = (v & 127) >> mantissa_bits;
    const float unit = f32((uint32_t) (127 - bias + 1 - mantissa_bits) << 23); // of denormals
    const float normal = f32((e + 127 - (uint32_t) bias) << 23 | m << (23 - mantissa_bits));
    const float r = e ? normal : (float) (int32_t) m * unit;
    return v == 128 ? f32(0x7fc00000) : (v & 128 ? -r : r);
}

#define FP8(v) small_float((v) &255, 3, 8)
#define BF8(v) small_float((v) &255, 2, 16)
V1_F(v_cvt_f32_fp8, FP8(u32(a)))
V1_F(v_cvt_f32_bf8, BF8(u32(a)))

#define SMALL_PAIR(name, SMALL)                                                                    \
    LANE_FN(name) {                                                                                \
        ROW_D2;                                                                                    \
        ROW_1(0, pa);                                                                              \
        const int from = x->in->op_sel & 1 ? 16 : 0;                                               \
        EACH_LANE(x->n) {                                                                          \
            const uint32_t v = pa[i] >> from;                                                      \
            d0[i] = u32(SMALL(v));                                                                 \
            d1[i] = u32(SMALL(v >> 8));                                                            \
        }                                                                                          \
    }
SMALL_PAIR(v_cvt_pk_f32_fp8, FP8)
SMALL_PAIR(v_cvt_pk_f32_bf8, BF8)
