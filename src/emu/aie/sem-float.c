// sem-float: the floating point adder of the accumulator, and everything that goes through it: vadd.f
// and family, vmul.f / vmac.f and family.
//
// The adder is not IEEE 754. All terms of a lane (up to two fp32 accumulators and all bf16 products)
// are aligned to the largest exponent among the non-zero ones, each rounded to nearest even at 23
// fraction bits of that exponent, added as integers, and the sum is normalised and rounded to nearest
// even once more. Denormal inputs count; a denormal result becomes zero with the sign of the sum.
// Exponent 255 runs through the same adder: a NaN term only forces exponent 255 and mantissa bit 0 of
// the result, so that its payload is what the adder made of it. (Silicon also knows a state in which
// the payload of vadd.f is always 1; what selects it is unknown.)
//
// Kept true: sem_fp32_add and sem_bf16_mac spell the rule out, one lane at a time; the lane loops of
// the instructions give the same bits, fast.
#include "emu/aie/sem.h"

#include <string.h>

enum { LANES = 16, NO_EXP = -20000 }; // NO_EXP: a zero term; never the largest exponent

// ---- the rule, one lane at a time ----

struct term {
    int64_t mantissa; // signed, 23 fraction bits
    int exponent;     // biased as in fp32
};

struct specials {
    bool nan, pos_inf, neg_inf;
};

static struct term fp32_term(uint32_t v, struct specials * sp) {
    int e = (int) (v >> 23 & 255);
    int64_t m = (int64_t) (v & 0x7fffff) | (e ? 0x800000 : 0);
    if (e == 255) {
        sp->nan |= (v & 0x7fffff) != 0;
        sp->pos_inf |= (v << 1) == 0xff000000u && !(v >> 31);
        sp->neg_inf |= (v << 1) == 0xff000000u && v >> 31;
    }
    return (struct term) { v >> 31 ? -m : m, m == 0 ? NO_EXP : e ? e : 1 };
}

static struct term bf16_product(uint16_t x, uint16_t y, struct specials * sp) {
    int ex = x >> 7 & 255, ey = y >> 7 & 255;
    int mx = (x & 127) | (ex ? 128 : 0), my = (y & 127) | (ey ? 128 : 0);
    bool negative = (x ^ y) >> 15;
    bool x_inf = ex == 255 && mx == 128, y_inf = ey == 255 && my == 128;
    sp->nan |= (ex == 255 && !x_inf) || (ey == 255 && !y_inf);
    if (x_inf || y_inf) { // not seen on silicon
        sp->nan |= mx == 0 || my == 0;
        sp->pos_inf |= !negative;
        sp->neg_inf |= negative;
    }
    int64_t m = (int64_t) (mx * my) << 9;
    return (struct term) { negative ? -m : m, m == 0 ? NO_EXP : (ex ? ex : 1) + (ey ? ey : 1) - 127 };
}

// v * 2^-d, to nearest even.
static int64_t shift_even(int64_t v, int d) {
    if (d > 40) {
        return 0;
    }
    return (2 * v + ((int64_t) 1 << d) - 1 + ((v >> d) & 1)) >> (d + 1);
}

static uint32_t apply_specials(uint32_t r, struct specials sp) {
    if (sp.nan || (sp.pos_inf && sp.neg_inf)) {
        // Without a NaN input the mantissa of the sum does not show.
        return (sp.nan && !(sp.pos_inf && sp.neg_inf) ? r : r & 0x80000000) | 0x7f800001;
    }
    if (sp.pos_inf || sp.neg_inf) {
        return sp.neg_inf ? 0xff800000 : 0x7f800000;
    }
    return r;
}

static uint32_t sum_terms(const struct term * t, int n, struct specials sp) {
    int top = NO_EXP;
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        top = t[i].exponent > top ? t[i].exponent : top;
    }
    for (int i = 0; i < n; i++) {
        sum += t[i].mantissa ? shift_even(t[i].mantissa, top - t[i].exponent) : 0;
    }
    uint32_t sign = sum < 0 ? 0x80000000 : 0;
    uint64_t m = (uint64_t) (sum < 0 ? -sum : sum);
    uint32_t r = 0;
    if (m) {
        int up = 0;
        while (m >> up >= 0x1000000) {
            up++;
        }
        m = (uint64_t) shift_even((int64_t) m, up);
        top += up;
        if (m == 0x1000000) {
            m >>= 1;
            top++;
        }
        while (m < 0x800000) {
            m <<= 1;
            top--;
        }
        r = sign | (top >= 255 ? 0x7f800000 : top <= 0 ? 0 : (uint32_t) top << 23 | (m & 0x7fffff));
    }
    return apply_specials(r, sp);
}

uint32_t sem_fp32_add(uint32_t a, uint32_t b) {
    struct specials sp = { 0 };
    struct term t[2] = { fp32_term(a, &sp), fp32_term(b, &sp) };
    return sum_terms(t, 2, sp);
}

uint32_t sem_bf16_mac(const uint16_t * x, const uint16_t * y, int n, uint32_t acc1, uint32_t acc2) {
    struct specials sp = { 0 };
    struct term t[18];
    t[0] = fp32_term(acc1, &sp);
    t[1] = fp32_term(acc2, &sp);
    for (int i = 0; i < n; i++) {
        t[2 + i] = bf16_product(x[i], y[i], &sp);
    }
    return sum_terms(t, 2 + n, sp);
}
