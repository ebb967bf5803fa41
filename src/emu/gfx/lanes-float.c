// lanes-float: arithmetic on floats and doubles of lanes.
//
// Kept true: everything rounds to nearest even and keeps denormals, whatever MODE says; fused
// operations round once (the build turns contraction off, so that the others round twice). The
// legacy forms take 0 times anything as 0.
#include "emu/gfx/lanes.h"

V2_F(v_add_f32, a + b)
V2_F(v_sub_f32, a - b)
V2_F(v_subrev_f32, b - a)
V2_F(v_mul_f32, a * b)
V2_F(v_min_f32, min_f(a, b))
V2_F(v_max_f32, max_f(a, b))
V2_F(v_mul_dx9_zero_f32, (a == 0 || b == 0) ? 0 : a * b)

V3_F(v_fma_f32, fmaf(a, b, c))
V3_F(v_fmac_f32, fmaf(a, b, c))
V3_F(v_fmamk_f32, fmaf(a, b, c))
V3_F(v_fmaak_f32, fmaf(a, b, c))
V3_F(v_mad_f32, a * b + c)
V3_F(v_mac_f32, a * b + c)
V3_F(v_madmk_f32, a * b + c)
V3_F(v_madak_f32, a * b + c)
V3_F(v_mad_legacy_f32, ((a == 0 || b == 0) ? 0 : a * b) + c)
V3_F(v_fma_dx9_zero_f32, (a == 0 || b == 0) ? c : fmaf(a, b, c))
V3_F(v_fmac_dx9_zero_f32, (a == 0 || b == 0) ? c : fmaf(a, b, c))
V3_F(v_min3_f32, min_f(min_f(a, b), c))
V3_F(v_max3_f32, max_f(max_f(a, b), c))
V3_F(v_med3_f32, med_f(a, b, c))
V3_F(v_minmax_f32, max_f(min_f(a, b), c))
V3_F(v_maxmin_f32, min_f(max_f(a, b), c))

V2_D(v_add_f64, a + b)
V2_D(v_mul_f64, a * b)
V2_D(v_min_f64, min_d(a, b))
V2_D(v_max_f64, max_d(a, b))
V3_D(v_fma_f64, fma(a, b, c))
V3_D(v_fmac_f64, fma(a, b, c))

// ---- a choice by lane ----

LANE_FN(v_cndmask_b32) {
    ROW_D;
    ROW_1(0, pa);
    ROW_1(1, pb);
    uint32_t pick[LANES];
    row_of_mask(pick, x->mask, x->n);
    EACH_LANE(x->n) {
        d[i] = (pa[i] & ~pick[i]) | (pb[i] & pick[i]);
    }
}

LANE_FN(v_cndmask_b16) {
    ROW_D;
    ROW_1(0, pa);
    ROW_1(1, pb);
    uint32_t pick[LANES];
    row_of_mask(pick, x->mask, x->n);
    EACH_LANE(x->n) {
        d[i] = ((pa[i] & ~pick[i]) | (pb[i] & pick[i])) & 0xffff;
    }
}

// ---- rounding ----

V1_F(v_trunc_f32, truncf(a))
V1_F(v_ceil_f32, ceilf(a))
V1_F(v_floor_f32, floorf(a))
V1_F(v_rndne_f32, rintf(a))
V1_D(v_trunc_f64, trunc(a))
V1_D(v_ceil_f64, ceil(a))
V1_D(v_floor_f64, floor(a))
V1_D(v_rndne_f64, rint(a))
// Below 1 also where the difference would round up to it.
V1_F(v_fract_f32, min_f(a - floorf(a), 0x1.fffffep-1f) + (a - a))
V1_D(v_fract_f64, min_d(a - floor(a), 0x1.fffffffffffffp-1) + (a - a))

// ---- exponents ----

// a * 2^n in one rounding: two exact steps bring the exponent near, the third one rounds.
static GFX_INLINE float scale_f(float a, int32_t n) {
    n = n < -400 ? -400 : n > 400 ? 400 : n;
    const int32_t step = n / 3;
    const int32_t rest = n - 2 * step;
    const float s = f32((uint32_t) (step < -126 ? 1 : step + 127) << 23);
    const float t = f32((uint32_t) (rest < -126 ? 1 : rest > 127 ? 254 : rest + 127) << 23);
    return a * s * s * t;
}

static GFX_INLINE double scale_d(double a, int32_t n) {
    n = n < -3000 ? -3000 : n > 3000 ? 3000 : n;
    const int32_t step = n / 3;
    const int32_t rest = n - 2 * step;
    const double s = f64((uint64_t) (step + 1023) << 52);
    const double t = f64((uint64_t) (rest + 1023) << 52);
    return a * s * s * t;
}

// The steps of scale_f round more than once when the result is a denormal: there the double does
// it.
static GFX_INLINE float ldexp_f(float a, int32_t n) {
    n = n < -600 ? -600 : n > 600 ? 600 : n;
    return (float) ((double) a * f64((uint64_t) (n + 1023) << 52));
}

LANE_FN(v_ldexp_f32) {
    ROW_D;
    ROW_1(0, pa);
    ROW_1(1, pb);
    EACH_LANE(x->n) {
        d[i] = u32(ldexp_f(f32(pa[i]), (int32_t) pb[i]));
    }
}

LANE_FN(v_ldexp_f64) {
    ROW_D2;
    ROW_2(0, pa, qa);
    ROW_1(1, pb);
    for (int i = 0; i < x->n; i++) {
        const int32_t n = (int32_t) pb[i];
        const uint64_t r = u64(ldexp(f64(join(pa[i], qa[i])), n < -4000  ? -4000
                                                              : n > 4000 ? 4000
                                                                         : n));
        d0[i] = (uint32_t) r;
        d1[i] = (uint32_t) (r >> 32);
    }
}

static GFX_INLINE int32_t exponent_f(float a) { // a = mantissa in [0.5, 1) times 2^this
    const float up = a * 0x1p64f;
    const int32_t e = (int32_t) (u32(a) >> 23 & 255), e_up = (int32_t) (u32(up) >> 23 & 255) - 64;
    const int32_t r = (e ? e : e_up) - 126;
    return a == 0 || e == 255 ? 0 : r;
}

static GFX_INLINE float mantissa_f(float a) {
    const uint32_t e = u32(a) >> 23 & 255;
    const float up = e ? a : a * 0x1p64f;
    const float r = f32((u32(up) & 0x807fffff) | 0x3f000000);
    return a == 0 || e == 255 ? a : r;
}

static GFX_INLINE int32_t exponent_d(double a) {
    const double up = a * 0x1p128;
    const int32_t e = (int32_t) (u64(a) >> 52 & 2047),
                  e_up = (int32_t) (u64(up) >> 52 & 2047) - 128;
    const int32_t r = (e ? e : e_up) - 1022;
    return a == 0 || e == 2047 ? 0 : r;
}

static GFX_INLINE double mantissa_d(double a) {
    const uint64_t e = u64(a) >> 52 & 2047;
    const double up = e ? a : a * 0x1p128;
    const double r = f64((u64(up) & 0x800fffffffffffff) | 0x3fe0000000000000);
    return a == 0 || e == 2047 ? a : r;
}

SHAPE1(v_frexp_exp_i32_f32, float, f32, TO_U, exponent_f(a))
V1_F(v_frexp_mant_f32, mantissa_f(a))
V1_D(v_frexp_mant_f64, mantissa_d(a))

LANE_FN(v_frexp_exp_i32_f64) {
    ROW_D;
    ROW_2(0, pa, qa);
    EACH_LANE(x->n) {
        d[i] = (uint32_t) exponent_d(f64(join(pa[i], qa[i])));
    }
}

// ---- division in steps: v_div_scale brings numerator and denominator into a range where the
// Newton steps between do not lose bits, v_div_fmas undoes it, v_div_fixup knows the special cases
// ----

static GFX_INLINE bool denormal_f(float a) {
    return (u32(a) & 0x7f800000) == 0 && (u32(a) & 0x7fffffff);
}

static GFX_INLINE bool denormal_d(double a) {
    return (u64(a) >> 52 & 2047) == 0 && u64(a) << 1;
}

// a is the denominator b or the numerator c, scaled; *vcc: the quotient must be scaled back.
#define DIV_SCALE(T, EXP, DENORMAL, SCALE, FAR, UP, TINY, NAN_BITS)                                \
    const int ec = EXP(c), eb = EXP(b);                                                            \
    const bool inverse = DENORMAL((T) 1 / b), quotient = DENORMAL(c / b);                          \
    *vcc = 0;                                                                                      \
    if (b == 0 || c == 0) {                                                                        \
        return NAN_BITS;                                                                           \
    }                                                                                              \
    if (ec - eb >= FAR) {                                                                          \
        *vcc = 1;                                                                                  \
        return a == b ? SCALE(a, UP) : a;                                                          \
    }                                                                                              \
    if (DENORMAL(b)) {                                                                             \
        return SCALE(a, UP);                                                                       \
    }                                                                                              \
    if (inverse && quotient) {                                                                     \
        *vcc = 1;                                                                                  \
        return a == b ? SCALE(a, -UP) : a;                                                         \
    }                                                                                              \
    if (inverse) {                                                                                 \
        return SCALE(a, -UP);                                                                      \
    }                                                                                              \
    if (quotient) {                                                                                \
        *vcc = 1;                                                                                  \
        return a == c ? SCALE(a, UP) : a;                                                          \
    }                                                                                              \
    return ec <= TINY ? SCALE(a, UP) : a

static inline int biased_f(float a) {
    return (int) (u32(a) >> 23 & 255);
}

static inline int biased_d(double a) {
    return (int) (u64(a) >> 52 & 2047);
}

static float div_scale_f(float a, float b, float c, uint8_t * vcc) {
    DIV_SCALE(float, biased_f, denormal_f, scale_f, 96, 64, 23, f32(0x7fc00000));
}

static double div_scale_d(double a, double b, double c, uint8_t * vcc) {
    DIV_SCALE(double, biased_d, denormal_d, scale_d, 768, 128, 53, f64(0x7ff8000000000000));
}

// Numbers of everyday size need no scaling, and a loop that finds only those is vector code.
LANE_FN(v_div_scale_f32) {
    ROW_D;
    ROW_1(0, pa);
    ROW_1(1, pb);
    ROW_1(2, pc);
    uint32_t odd = 0;
    for (int i = 0; i < x->n; i++) {
        const uint32_t eb = pb[i] >> 23 & 255, ec = pc[i] >> 23 & 255;
        odd |= (eb - 87 > 80) | (ec - 87 > 80);
    }
    if (!odd) {
        EACH_LANE(x->n) {
            d[i] = pa[i];
        }
        x->mask = 0;
        return;
    }
    uint8_t flag[LANES];
    for (int i = 0; i < x->n; i++) {
        d[i] = u32(div_scale_f(f32(pa[i]), f32(pb[i]), f32(pc[i]), &flag[i]));
    }
    x->mask = mask_of_flags(flag, x->n);
}

LANE_FN(v_div_scale_f64) {
    ROW_D2;
    ROW_2(0, pa, qa);
    ROW_2(1, pb, qb);
    ROW_2(2, pc, qc);
    uint8_t flag[LANES];
    for (int i = 0; i < x->n; i++) {
        const uint64_t r = u64(div_scale_d(f64(join(pa[i], qa[i])), f64(join(pb[i], qb[i])),
                                           f64(join(pc[i], qc[i])), &flag[i]));
        d0[i] = (uint32_t) r;
        d1[i] = (uint32_t) (r >> 32);
    }
    x->mask = mask_of_flags(flag, x->n);
}

// The sum c + p and what it lost.
static double two_sum(double c, double p, double * lost) {
    const double s = c + p, back = s - c;
    *lost = (c - (s - back)) + (p - back);
    return s;
}

// a * b + c, scaled back by the power of two that v_div_scale moved, rounded once: where the result
// is a denormal, the sum is brought to the last bit of that denormal first, and ties see what was
// lost.
static float scaled_fma_f(float a, float b, float c) {
    double lost, s = two_sum((double) c, (double) a * (double) b, &lost);
    if (lost != 0 && !(u64(s) & 1)) { // to odd: the conversion below then rounds as if exact
        s = f64(u64(s) + ((lost > 0) == (s > 0) ? 1 : UINT64_MAX));
    }
    return (float) (biased_f(c) > 127 ? s * 0x1p64 : s * 0x1p-64);
}

static double scaled_fma_d(double a, double b, double c) {
    const double near = fma(a, b, c), unit = 0x1p-946; // 2^-1074 times 2^128
    if (biased_d(c) > 1023) {
        return near * 0x1p128;
    }
    if (!(fabs(near) < 0x1p-894)) {
        return near * 0x1p-128;
    }
    const double p = a * b, p_lost = fma(a, b, -p);
    double lost, s = two_sum(c, p, &lost);
    lost += p_lost;
    const double magic = copysign(0x1.8p-894, s);
    double r = (s + magic) - magic;
    if (fabs(s - r) == unit / 2 && lost != 0) {
        r = lost > 0 ? s + unit / 2 : s - unit / 2;
    }
    return r * 0x1p-128;
}

LANE_FN(v_div_fmas_f32) {
    ROW_D;
    ROW_1(0, pa);
    ROW_1(1, pb);
    ROW_1(2, pc);
    if (!x->mask) {
        EACH_LANE(x->n) {
            d[i] = u32(fmaf(f32(pa[i]), f32(pb[i]), f32(pc[i])));
        }
        return;
    }
    for (int i = 0; i < x->n; i++) {
        const float a = f32(pa[i]), b = f32(pb[i]), c = f32(pc[i]);
        d[i] = u32(x->mask >> i & 1 ? scaled_fma_f(a, b, c) : fmaf(a, b, c));
    }
}

LANE_FN(v_div_fmas_f64) {
    ROW_D2;
    ROW_2(0, pa, qa);
    ROW_2(1, pb, qb);
    ROW_2(2, pc, qc);
    for (int i = 0; i < x->n; i++) {
        const double a = f64(join(pa[i], qa[i])), b = f64(join(pb[i], qb[i])),
                     c = f64(join(pc[i], qc[i]));
        const uint64_t u = u64(x->mask >> i & 1 ? scaled_fma_d(a, b, c) : fma(a, b, c));
        d0[i] = (uint32_t) u;
        d1[i] = (uint32_t) (u >> 32);
    }
}

// Selects instead of branches: the last condition that holds decides. q: quotient, b: denominator,
// c: numerator.
static GFX_INLINE uint32_t fixup_f(uint32_t q, uint32_t b, uint32_t c) {
    const uint32_t sign = (b ^ c) & 0x80000000, mb = b & 0x7fffffff, mc = c & 0x7fffffff;
    const int32_t far = (int32_t) (mc >> 23) - (int32_t) (mb >> 23);
    uint32_t r = sign | (q & 0x7fffffff);
    r = (q & 0x7fffffff) > 0x7f800000 ? sign | 0x7f800000 : r; // the steps overflowed
    r = far < -150 ? sign : r;
    r = mb == 0x7f800000 || mc == 0 ? sign : r;
    r = mb == 0 || mc == 0x7f800000 ? sign | 0x7f800000 : r;
    r = (mb == 0 && mc == 0) || (mb == 0x7f800000 && mc == 0x7f800000) ? 0xffc00000 : r;
    r = mb > 0x7f800000 ? b | 0x00400000 : r;
    return mc > 0x7f800000 ? c | 0x00400000 : r;
}

static GFX_INLINE uint64_t fixup_d(uint64_t q, uint64_t b, uint64_t c) {
    const uint64_t top = UINT64_C(1) << 63, inf = UINT64_C(0x7ff) << 52, quiet = UINT64_C(1) << 51;
    const uint64_t sign = (b ^ c) & top, mb = b & ~top, mc = c & ~top;
    const int64_t far = (int64_t) (mc >> 52) - (int64_t) (mb >> 52);
    uint64_t r = sign | (q & ~top);
    r = (q & ~top) > inf ? sign | inf : r; // the steps overflowed
    r = far < -1075 ? sign : r;
    r = mb == inf || mc == 0 ? sign : r;
    r = mb == 0 || mc == inf ? sign | inf : r;
    r = (mb == 0 && mc == 0) || (mb == inf && mc == inf) ? top | inf | quiet : r;
    r = mb > inf ? b | quiet : r;
    return mc > inf ? c | quiet : r;
}

V3_U(v_div_fixup_f32, fixup_f(a, b, c))
SHAPE3_2(v_div_fixup_f64, uint64_t, , TO_Q, fixup_d(a, b, c))

// ---- faces of a cube ----

static GFX_INLINE int cube_axis(float a, float b, float c) {
    const float x = fabsf(a), y = fabsf(b), z = fabsf(c);
    return z >= x && z >= y ? 2 : y >= x ? 1 : 0;
}

static GFX_INLINE float cube_sc(float a, float b, float c) {
    const int k = cube_axis(a, b, c);
    return k == 2 ? (c < 0 ? -a : a) : k == 1 ? a : (a < 0 ? c : -c);
}

static GFX_INLINE float cube_tc(float a, float b, float c) {
    const int k = cube_axis(a, b, c);
    return k == 1 ? (b < 0 ? -c : c) : -b;
}

static GFX_INLINE float cube_ma(float a, float b, float c) {
    const int k = cube_axis(a, b, c);
    return 2 * (k == 2 ? c : k == 1 ? b : a);
}

static GFX_INLINE float cube_id(float a, float b, float c) {
    const int k = cube_axis(a, b, c);
    const float m = k == 2 ? c : k == 1 ? b : a;
    return (float) (2 * k + (m < 0));
}

V3_F(v_cubeid_f32, cube_id(a, b, c))
V3_F(v_cubesc_f32, cube_sc(a, b, c))
V3_F(v_cubetc_f32, cube_tc(a, b, c))
V3_F(v_cubema_f32, cube_ma(a, b, c))
