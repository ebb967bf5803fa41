// math: functions of one or two numbers, f32 and f64. With a device library they are the library's;
// without one they are made here from what the compiler lowers by itself: f32 exp and log, square
// roots, fma, ldexp. Errors: f32 at most 4 units of the last place; f64 3 of them, erf 20, and pow
// some 1000 where its result is near the ends of the range.
#ifndef ROCM_KERNELS_MATH_H
#define ROCM_KERNELS_MATH_H

#include "compat.h"

#define INFINITY_F64 __builtin_inf()
#define NAN_F64      __builtin_nan("")

#ifdef ROCM_KERNELS_FREESTANDING
#    define FMA_F32  __builtin_fmaf
#    define FMA_F64  __builtin_fma
#    define RINT_F64 __builtin_rint
#else
#    define FMA_F32  fmaf
#    define FMA_F64  fma
#    define RINT_F64 rint
#endif

// ---- for all compilers ----

// x less the nearest multiple of pi / 2, and in *quadrant which one. Three parts of pi / 2 keep it
// exact to 1e-16 up to |x| = 1e6, and good to the last digits of x itself far beyond.
DEVICE f64 reduce_quadrant(f64 x, int * quadrant) {
    f64 n = RINT_F64(x * 0x1.45f306dc9c883p-1);
    f64 r = FMA_F64(-n, 0x1.921fb54442d18p0, x);
    r = FMA_F64(-n, 0x1.1a62633145c07p-54, r);
    r = FMA_F64(-n, -0x1.f1976b7ed8fbcp-110, r);
    // Of an infinity nothing is asked.
    *quadrant = n < 0x1p62 && n > -0x1p62 ? (int) (int64_t) n : 0;
    return r;
}

// Both of an angle in f64, as f32: where an angle is a product, f32 does not hold it well enough,
// and a library's f64 sine is much more than is asked. Of an infinity and of NaN: NaN.
DEVICE void m_sin_cos(f64 x, f32 * sin_out, f32 * cos_out) {
    int quadrant;
    f32 r = (f32) reduce_quadrant(x, &quadrant), z = r * r;
    f32 s = FMA_F32(z, 0x1.71de3ap-19f, -0x1.a01a02p-13f);
    s = FMA_F32(z, s, 0x1.111112p-7f);
    s = FMA_F32(z, s, -0x1.555556p-3f);
    s = FMA_F32(z * r, s, r);
    f32 c = FMA_F32(z, -0x1.27e4fcp-22f, 0x1.a01a02p-16f);
    c = FMA_F32(z, c, -0x1.6c16c2p-10f);
    c = FMA_F32(z, c, 0x1.555556p-5f);
    c = FMA_F32(z, c, -0.5f);
    c = FMA_F32(z, c, 1.0f);
    f32 odd = quadrant & 1 ? c : s, even = quadrant & 1 ? s : c;
    *sin_out = quadrant & 2 ? -odd : odd;
    *cos_out = (quadrant + 1) & 2 ? -even : even;
}

#ifdef ROCM_KERNELS_FREESTANDING

// ---- f64 ----

DEVICE f64 m_abs(f64 x) {
    return __builtin_fabs(x);
}
DEVICE f64 m_floor(f64 x) {
    return __builtin_floor(x);
}
DEVICE f64 m_ceil(f64 x) {
    return __builtin_ceil(x);
}
DEVICE f64 m_sqrt(f64 x) {
    return __builtin_sqrt(x);
}
DEVICE f64 m_round(f64 x) {
    return __builtin_round(x);
}
DEVICE f64 m_trunc(f64 x) {
    return __builtin_trunc(x);
}

// exp(r) - 1 for |r| <= 1, by its series: r / n! gets below 2^-53 of the first at n = 19.
template <int TERMS, class T> DEVICE T expm1_near_zero(T r) {
    T sum = 0;
#    pragma unroll 1
    for (int n = TERMS; n > 0; n--) {
        sum = (sum + 1) * r / (T) n;
    }
    return sum;
}

DEVICE f64 m_exp(f64 x) {
    // ln 2 in two parts, the first with zeros at its end, so that n times it is exact.
    const f64 ln2_hi = 0x1.62e42feep-1, ln2_lo = 0x1.a39ef35793c76p-33;
    f64 limited = x > 710 ? 710 : x < -746 ? -746 : x != x ? 0 : x;
    f64 n = __builtin_rint(limited * 0x1.71547652b82fep0);
    f64 r = __builtin_fma(-n, ln2_lo, __builtin_fma(-n, ln2_hi, limited));
    f64 p = 0x1.6124613a86d09p-33; // 1 / 13!, and so on down
    p = __builtin_fma(p, r, 0x1.1eed8eff8d898p-29);
    p = __builtin_fma(p, r, 0x1.ae64567f544e4p-26);
    p = __builtin_fma(p, r, 0x1.27e4fb7789f5cp-22);
    p = __builtin_fma(p, r, 0x1.71de3a556c734p-19);
    p = __builtin_fma(p, r, 0x1.a01a01a01a01ap-16);
    p = __builtin_fma(p, r, 0x1.a01a01a01a01ap-13);
    p = __builtin_fma(p, r, 0x1.6c16c16c16c17p-10);
    p = __builtin_fma(p, r, 0x1.1111111111111p-7);
    p = __builtin_fma(p, r, 0x1.5555555555555p-5);
    p = __builtin_fma(p, r, 0x1.5555555555555p-3);
    p = __builtin_fma(p, r, 0.5);
    p = __builtin_fma(p, r, 1.0);
    p = __builtin_fma(p, r, 1.0);
    f64 y = __builtin_ldexp(p, (int) n);
    return x != x ? x : x > 710 ? INFINITY_F64 : y;
}

// log(m 2^e) for m in [sqrt 1/2, sqrt 2]: e ln 2 + 2 atanh(s), s = (m - 1) / (m + 1). The sum of
// the series without its first term is small against it, so its own rounding hardly counts.
DEVICE f64 m_log(f64 x) {
    const f64 ln2_hi = 0x1.62e42feep-1, ln2_lo = 0x1.a39ef35793c76p-33;
    bool tiny = x < 0x1p-1022;
    f64 scaled = tiny ? x * 0x1p54 : x;
    uint64_t bits = __builtin_bit_cast(uint64_t, scaled);
    int e = (int) (bits >> 52) - 1022 - (tiny ? 54 : 0);
    f64 m = __builtin_bit_cast(f64, (bits & 0xfffffffffffffull) | 0x3fe0000000000000ull);
    if (m < 0x1.6a09e667f3bcdp-1) {
        m += m;
        e--;
    }
    f64 f = m - 1, s = f / (2 + f), z = s * s, p = 0;
#    pragma unroll 1
    for (int k = 23; k >= 3; k -= 2) {
        p = z * (p + 2.0 / k);
    }
    // 2 s = f - s f, so log(1 + f) = f - s (f - p): what is taken away is of the order of f^2.
    f64 y = e * ln2_hi + (f - (s * (f - p) - e * ln2_lo));
    return x == 0 ? -INFINITY_F64 : x < 0 ? NAN_F64 : x == INFINITY_F64 || x != x ? x : y;
}

// cos where `odd`, sin otherwise, of |r| <= pi / 4.
DEVICE f64 sine_near_zero(f64 r, bool odd) {
    f64 z = r * r, p = 0;
    int first = odd ? 0 : 1;
#    pragma unroll 1
    for (int n = first + 18; n > first; n -= 2) {
        p = -z * (p + 1) / (f64) (n * (n - 1));
    }
    return (odd ? 1 : r) * (1 + p);
}

DEVICE f64 sine(f64 x, int turn) {
    int quadrant;
    f64 r = reduce_quadrant(x, &quadrant);
    quadrant += turn;
    f64 y = sine_near_zero(r, quadrant & 1);
    return m_abs(x) == INFINITY_F64 ? NAN_F64 : quadrant & 2 ? -y : y;
}
DEVICE f64 m_sin(f64 x) {
    return x == 0 ? x : sine(x, 0);
}
DEVICE f64 m_cos(f64 x) {
    return sine(x, 1);
}

DEVICE f64 m_expm1(f64 x) {
    return m_abs(x) <= 0.5 ? expm1_near_zero<18>(x) : m_exp(x) - 1;
}
DEVICE f64 m_tanh(f64 x) {
    f64 a = m_abs(x);
    f64 e = m_expm1(2 * (a < 20 ? a : 20)), y = e / (e + 2);
    return x != x ? x : x < 0 ? -y : x == 0 ? x : y;
}

// erf x = 2 / sqrt pi * exp(-x^2) * sum of 2^n x^(2n+1) / (1 3 ... (2n+1)): all terms have one
// sign, so nothing cancels. From 5.93 on it is 1.
DEVICE f64 m_erf(f64 x) {
    f64 a = m_abs(x) < 6 ? m_abs(x) : 6, z = 2 * a * a, term = a, sum = a;
#    pragma unroll 1
    for (int n = 3; n < 300; n += 2) {
        term = term * z / n;
        if (!(term > sum * 0x1p-55)) {
            break;
        }
        sum += term;
    }
    f64 y = 0x1.20dd750429b6dp0 * sum * m_exp(-a * a);
    y = a >= 5.93 ? 1 : y;
    return x != x ? x : x < 0 ? -y : x == 0 ? x : y;
}

DEVICE f64 m_pow(f64 x, f64 y) {
    bool whole = m_floor(y) == y;
    // Numbers from 2^53 on are even.
    bool odd = whole && m_abs(y) < 0x1p53 && (int64_t) y & 1;
    f64 size = m_exp(y * m_log(m_abs(x)));
    if (x == 1 || y == 0) {
        return 1;
    }
    if (x != x || y != y) {
        return x + y;
    }
    if (m_abs(y) == INFINITY_F64 && m_abs(x) == 1) {
        return 1;
    }
    if (x < 0 && !whole && x != -INFINITY_F64) {
        return NAN_F64;
    }
    // -0 and -inf follow the same rule: an odd power keeps the sign.
    return odd && __builtin_bit_cast(uint64_t, x) >> 63 ? -size : size;
}

// ---- f32 ----

DEVICE f32 m_abs(f32 x) {
    return __builtin_fabsf(x);
}
DEVICE f32 m_floor(f32 x) {
    return __builtin_floorf(x);
}
DEVICE f32 m_ceil(f32 x) {
    return __builtin_ceilf(x);
}
DEVICE f32 m_sqrt(f32 x) {
    return __builtin_sqrtf(x);
}
DEVICE f32 m_round(f32 x) {
    return __builtin_roundf(x);
}
DEVICE f32 m_trunc(f32 x) {
    return __builtin_truncf(x);
}
DEVICE f32 m_rint(f32 x) {
    return __builtin_rintf(x);
}
DEVICE f32 m_exp(f32 x) {
    return __builtin_expf(x);
}
DEVICE f32 m_log(f32 x) {
    return __builtin_logf(x);
}

// The machine's own sine is good near zero only: the angle is reduced in f64 first.
DEVICE f32 m_sin(f32 x) {
    f32 s, c;
    m_sin_cos(x, &s, &c);
    return x == 0 ? x : s;
}
DEVICE f32 m_cos(f32 x) {
    f32 s, c;
    m_sin_cos(x, &s, &c);
    return c;
}

DEVICE f32 m_expm1(f32 x) {
    f32 p = 0x1.a01a02p-13f; // 1 / 7!, and so on down
    p = __builtin_fmaf(p, x, 0x1.6c16c2p-10f);
    p = __builtin_fmaf(p, x, 0x1.111112p-7f);
    p = __builtin_fmaf(p, x, 0x1.555556p-5f);
    p = __builtin_fmaf(p, x, 0x1.555556p-3f);
    p = __builtin_fmaf(p, x, 0.5f);
    p = __builtin_fmaf(p * x, x, x);
    return m_abs(x) <= 0.5f ? p : m_exp(x) - 1;
}
DEVICE f32 m_tanh(f32 x) {
    f32 a = m_abs(x);
    f32 e = m_expm1(2 * (a < 10 ? a : 10)), y = e / (e + 2);
    return x != x ? x : x < 0 ? -y : x == 0 ? x : y;
}

// Below 1 an odd polynomial; above, 1 - exp(-q(x)) with q fitted to -log(erfc(x)) on [1, 4], where
// an error of q hardly counts any more. Both fits are minimax, 1.2e-9 and 8e-9 off.
DEVICE f32 m_erf(f32 x) {
    f32 a = m_abs(x) < 4 ? m_abs(x) : 4, z = a * a;
    f32 p = __builtin_fmaf(z, 7.875875063e-5f, -0.0008016864287f);
    p = __builtin_fmaf(z, p, 0.005189087423f);
    p = __builtin_fmaf(z, p, -0.02685421201f);
    p = __builtin_fmaf(z, p, 0.1128359472f);
    p = __builtin_fmaf(z, p, -0.3761262667f);
    p = a * __builtin_fmaf(z, p, 1.128379166f);
    f32 q = __builtin_fmaf(a, 7.58268197e-8f, -3.321684591e-6f);
    q = __builtin_fmaf(a, q, 6.229835325e-5f);
    q = __builtin_fmaf(a, q, -0.000685836683f);
    q = __builtin_fmaf(a, q, 0.00506494692f);
    q = __builtin_fmaf(a, q, -0.02709952329f);
    q = __builtin_fmaf(a, q, 0.1110550174f);
    q = __builtin_fmaf(a, q, 0.6309530298f);
    q = __builtin_fmaf(a, q, 1.130675144f);
    q = __builtin_fmaf(a, q, -0.0004163292177f);
    f32 y = a < 1 ? p : 1 - m_exp(-q);
    return x != x ? x : x < 0 ? -y : x == 0 ? x : y;
}

// An error of the logarithm grows with the exponent; f64 has digits to spare for it.
DEVICE f32 m_pow(f32 x, f32 y) {
    return (f32) m_pow((f64) x, (f64) y);
}

#else // ---- the library's ----

#    define LIBRARY(name, of32, of64)                                                              \
        DEVICE f32 name(f32 x) {                                                                   \
            return of32(x);                                                                        \
        }                                                                                          \
        DEVICE f64 name(f64 x) {                                                                   \
            return of64(x);                                                                        \
        }
LIBRARY(m_abs, fabsf, fabs)
LIBRARY(m_floor, floorf, floor)
LIBRARY(m_ceil, ceilf, ceil)
LIBRARY(m_round, roundf, round)
LIBRARY(m_trunc, truncf, trunc)
LIBRARY(m_sqrt, sqrtf, sqrt)
LIBRARY(m_exp, expf, exp)
LIBRARY(m_expm1, expm1f, expm1)
LIBRARY(m_log, logf, log)
LIBRARY(m_sin, sinf, sin)
LIBRARY(m_cos, cosf, cos)
LIBRARY(m_tanh, tanhf, tanh)
LIBRARY(m_erf, erff, erf)
DEVICE f32 m_rint(f32 x) {
    return rintf(x);
}
DEVICE f32 m_pow(f32 x, f32 y) {
    return powf(x, y);
}
DEVICE f64 m_pow(f64 x, f64 y) {
    return pow(x, y);
}
#endif

#endif
