// lanes-trans: reciprocals, roots, exponentials, logarithms, sines. Hardware approximates these to
// about one unit in the last place; here they are rounded as well as plain code allows (reciprocals
// and roots correctly, the rest well within a unit), without calls, so that they become vector
// code.
#include "emu/gfx/lanes.h"

// ---- reciprocals and roots ----

V1_F(v_rcp_f32, 1.0f / a)
V1_F(v_rcp_iflag_f32, 1.0f / a)
V1_F(v_sqrt_f32, sqrtf(a))
V1_F(v_rsq_f32, (float) (1.0 / sqrt((double) a)))
V1_D(v_rcp_f64, 1.0 / a)
V1_D(v_sqrt_f64, sqrt(a))
V1_D(v_rsq_f64, 1.0 / sqrt(a))
V1_H(v_rcp_f16, 1.0f / a)
V1_H(v_sqrt_f16, sqrtf(a))
V1_H(v_rsq_f16, 1.0f / sqrtf(a))

// ---- powers of two ----

// 2^r for |r| <= 0.5: the series of e^(r ln 2), whose tenth term is below 2^-36.
static GFX_INLINE double exp2_part(double r) {
    double p = 1.3215486790144309e-06;
    p = p * r + 1.5252733804059841e-05;
    p = p * r + 1.5403530393381609e-04;
    p = p * r + 1.3333558146428443e-03;
    p = p * r + 9.6181291076284772e-03;
    p = p * r + 5.5504108664821580e-02;
    p = p * r + 2.4022650695910072e-01;
    p = p * r + 6.9314718055994531e-01;
    return p * r + 1.0;
}

static GFX_INLINE float exp2_of(float a) {
    const float c = a > 200 ? 200 : a < -200 ? -200 : a == a ? a : 0; // beyond is infinity or 0
    const float n = rintf(c);
    const double s = f64((uint64_t) (int64_t) ((int32_t) n + 1023) << 52);
    const float r = (float) (exp2_part((double) (c - n)) * s);
    return a == a ? r : a;
}

V1_F(v_exp_f32, exp2_of(a))
V1_F(v_exp_legacy_f32, exp2_of(a))
V1_H(v_exp_f16, exp2_of(a))

// ---- logarithms to base two ----

// The mantissa goes to [sqrt(1/2), sqrt(2)); log2 m = 2 / ln 2 * atanh((m - 1) / (m + 1)).
static GFX_INLINE float log2_of(float a) {
    const float up = a * 0x1p32f;
    const bool tiny = a < 0x1p-126f;
    const uint32_t u = u32(tiny ? up : a);
    const uint32_t shifted = u - 0x3f3504f3; // bits of sqrt(1/2)
    const int32_t e = (int32_t) shifted >> 23;
    const double m = (double) f32((shifted & 0x007fffff) + 0x3f3504f3);
    const double s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = 2.0 / 13;
    p = p * z + 2.0 / 11;
    p = p * z + 2.0 / 9;
    p = p * z + 2.0 / 7;
    p = p * z + 2.0 / 5;
    p = p * z + 2.0 / 3;
    p = p * z + 2.0;
    const double r = (double) (e - (tiny ? 32 : 0)) + p * s * 1.4426950408889634;
    float f = (float) r;
    f = a == 0 ? -INFINITY : f;
    f = a < 0 ? NAN : f;
    f = a > 0x1.fffffep127f ? INFINITY : f;
    return a == a ? f : a;
}

V1_F(v_log_f32, log2_of(a))
V1_F(v_log_legacy_f32, log2_of(a))
V1_H(v_log_f16, log2_of(a))

// ---- sines of turns ----

// sin(2 pi r) for |r| <= 0.25, by its series.
static GFX_INLINE double sine_part(double r) {
    const double t = r * 6.2831853071795865, z = t * t;
    double p = 1.6059043836821613e-10;
    p = p * z - 2.5052108385441720e-08;
    p = p * z + 2.7557319223985893e-06;
    p = p * z - 1.9841269841269841e-04;
    p = p * z + 8.3333333333333332e-03;
    p = p * z - 1.6666666666666666e-01;
    return t + t * z * p;
}

// The turn is reduced to [-0.5, 0.5], then folded to a quarter; `quarter` makes a cosine of it.
static GFX_INLINE float sine_of(float a, double quarter) {
    const float whole = fabsf(a) < 0x1p24f ? rintf(a) : a; // beyond, every float is a whole turn
    double r = (double) (a - whole) + quarter;
    r = r > 0.5 ? r - 1.0 : r;
    r = r > 0.25 ? 0.5 - r : r;
    r = r < -0.25 ? -0.5 - r : r;
    return (float) sine_part(r) + (a - a);
}

V1_F(v_sin_f32, sine_of(a, 0))
V1_F(v_cos_f32, sine_of(a, 0.25))
V1_H(v_sin_f16, sine_of(a, 0))
V1_H(v_cos_f16, sine_of(a, 0.25))

// 53 bits of 2 / pi from bit 53 * n on, for the reduction of large arguments.
LANE_FN(v_trig_preop_f64) {
    static const uint32_t two_over_pi[] = {
        0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab,
        0xdebbc561, 0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e,
        0xe88235f5, 0x2ebb4484, 0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b,
        0xbdf9283b, 0x1ff897ff, 0xde05980f, 0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7,
        0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b, 0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1,
        0x1f8d5d08, 0x56033046, 0xfc7b6bab,
    };
    enum { BITS = (int) sizeof two_over_pi * 8 };
    for (int i = 0; i < x->n; i++) {
        const uint64_t a = join(x->s[0][0][i], x->s[0][1][i]);
        const int exponent = (int) (a >> 52 & 2047);
        int shift = (int) (x->s[1][0][i] & 31) * 53 + (exponent > 1077 ? exponent - 1077 : 0);
        uint64_t v = 0;
        for (int k = 0; k < 53; k++) {
            const int bit = shift + k;
            v = v << 1 | (bit < BITS ? two_over_pi[bit / 32] >> (31 - bit % 32) & 1 : 0);
        }
        int scale = -53 - shift + (exponent >= 1968 ? 128 : 0);
        const uint64_t r = u64(ldexp((double) v, scale));
        x->d[0][i] = (uint32_t) r;
        x->d[1][i] = (uint32_t) (r >> 32);
    }
}
