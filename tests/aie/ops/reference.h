// Reference arithmetic in double precision: each datatype is widened exactly, the result is rounded
// once, to nearest even. Written without any of the project's own conversions.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "tensor/tensor.h"

// A value with `mantissa` stored bits and smallest normal exponent `emin`, rounded to nearest even.
static inline double ref_round(double x, int mantissa, int emin, int emax) {
    if (x == 0 || !isfinite(x)) {
        return x;
    }
    int e;
    // x = f * 2^e, f in [0.5, 1); place is the weight of the last bit
    frexp(x, &e);
    int place = (e - 1 < emin ? emin : e - 1) - mantissa;
    double r = ldexp(nearbyint(ldexp(x, -place)), place);
    return fabs(r) >= ldexp(2.0 - ldexp(1.0, -mantissa - 1), emax) ? copysign(INFINITY, x) : r;
}

static inline double ref_widen(uint32_t bits_, int mantissa, int exponent_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1;
    uint32_t m = bits_ & ((1u << mantissa) - 1);
    uint32_t e = bits_ >> mantissa & ((1u << exponent_bits) - 1);
    double sign = bits_ >> (mantissa + exponent_bits) & 1 ? -1.0 : 1.0;
    if (e == (1u << exponent_bits) - 1) {
        return m ? NAN : sign * INFINITY;
    }
    return sign * (e ? ldexp((double) (m | 1u << mantissa), (int) e - bias - mantissa)
                     : ldexp((double) m, 1 - bias - mantissa));
}

static inline uint32_t ref_pack(double x, int mantissa, int exponent_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1;
    uint32_t top = (1u << exponent_bits) - 1;
    uint32_t sign = (uint32_t) (signbit(x) != 0) << (mantissa + exponent_bits);
    if (isnan(x)) {
        return sign | top << mantissa | 1u << (mantissa - 1);
    }
    x = ref_round(fabs(x), mantissa, 1 - bias, bias);
    if (isinf(x)) {
        return sign | top << mantissa;
    }
    int e;
    frexp(x, &e);
    if (x == 0 || e - 1 < 1 - bias) {
        return sign | (uint32_t) ldexp(x, bias - 1 + mantissa);
    }
    return sign | (uint32_t) (e - 1 + bias) << mantissa |
           ((uint32_t) ldexp(x, mantissa - e + 1) & ((1u << mantissa) - 1));
}

static const struct {
    int mantissa, exponent;
} ref_float[DTYPE_COUNT] = {[DTYPE_F32] = {23, 8}, [DTYPE_F16] = {10, 5}, [DTYPE_BF16] = {7, 8}};

static inline bool ref_is_float(enum dtype t) {
    return ref_float[t].mantissa != 0;
}

static inline uint32_t ref_get(enum dtype t, const void * p, int64_t i) {
    uint32_t v = 0;
    memcpy(&v, (const uint8_t *) p + i * dtype_size(t), (size_t) dtype_size(t));
    return v;
}

static inline bool ref_is_nan(enum dtype t, uint32_t v) {
    return ref_is_float(t) && isnan(ref_widen(v, ref_float[t].mantissa, ref_float[t].exponent));
}

// a + b as the datatype has it. A sum of two f32 is exact in double only up to one rounding, which
// fma-free double addition makes twice; 2^-53 against 2^-24 leaves halfway cases right except where
// the exact sum needs more than 53 bits and sits within 2^-53 of a halfway point: long double
// helps.
static inline uint32_t ref_add(enum dtype t, uint32_t a, uint32_t b) {
    if (!ref_is_float(t)) {
        uint32_t mask = dtype_size(t) == 4 ? 0xffffffffu : (1u << 8 * dtype_size(t)) - 1;
        return (a + b) & mask;
    }
    int m = ref_float[t].mantissa, e = ref_float[t].exponent;
    double x = ref_widen(a, m, e), y = ref_widen(b, m, e), sum = x + y;
    if (isfinite(sum)) { // round to odd: keep the fact that something was cut off
        double big = fabs(x) > fabs(y) ? x : y, small = fabs(x) > fabs(y) ? y : x;
        double rest = small - (sum - big);
        uint64_t u;
        memcpy(&u, &sum, 8);
        if (rest != 0 && !(u & 1)) {
            sum = nextafter(sum, rest > 0 ? INFINITY : -INFINITY);
        }
    }
    return ref_pack(sum, m, e);
}
