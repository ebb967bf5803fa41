// pack: f32 to quantized blocks, by ggml's own rules, so that a cache holds the same bits as the
// CPU's.
#ifndef ROCM_KERNELS_PACK_H
#define ROCM_KERNELS_PACK_H

#include "blocks.h"
#include "math.h"

DEVICE void put_half(u8 * p, f32 v) {
    uint16_t bits = __builtin_bit_cast(uint16_t, narrow<f16>(v));
    p[0] = (u8) bits;
    p[1] = (u8) (bits >> 8);
}

struct range { // of a block: least, greatest, and the one that is farthest from 0
    f32 least, most, far;
};
DEVICE range range_of(const f32 * x) {
    range r = {x[0], x[0], 0};
    f32 size = 0; // of far; clang 19 takes fabs(far) for far, which begins with x ? x : 0
    for (u32 j = 0; j < 32; j++) {
        f32 v = x[j];
        r.least = v < r.least ? v : r.least;
        r.most = v > r.most ? v : r.most;
        r.far = m_abs(v) > size ? v : r.far;
        size = m_abs(v) > size ? m_abs(v) : size;
    }
    return r;
}
DEVICE f32 inverse(f32 d) {
    return d != 0 ? 1 / d : 0;
}
// In two roundings: a number that lies half way between two must go where the CPU's goes.
DEVICE f32 mul_add(f32 v, f32 mul, f32 add) {
#ifdef __clang__
#    pragma clang fp contract(off)
#endif
    f32 product = v * mul;
    return product + add;
}
DEVICE u32 up_to(f32 v, u32 most) { // v is 0 or more
    u32 n = (u32) (i32) v;
    return n < most ? n : most;
}

// The low four bits of two numbers to a byte; the fifth is kept apart.
DEVICE void pack_bits(const f32 * x, f32 least, f32 mul, f32 add, u32 most, u8 * q, u8 * high) {
    u32 fifth = 0;
    for (u32 j = 0; j < 16; j++) {
        u32 a = up_to(mul_add(x[j] - least, mul, add), most);
        u32 b = up_to(mul_add(x[j + 16] - least, mul, add), most);
        q[j] = (u8) ((a & 15) | (b & 15) << 4);
        fifth |= a >> 4 << j | b >> 4 << (j + 16);
    }
    for (u32 k = 0; k < 4 && high; k++) {
        high[k] = (u8) (fifth >> 8 * k);
    }
}

DEVICE void pack(const f32 * x, q4_0 * y) {
    f32 d = range_of(x).far / -8;
    put_half(y->d, d);
    pack_bits(x, 0, inverse(d), 8.5f, 15, y->q, nullptr);
}
DEVICE void pack(const f32 * x, q5_0 * y) {
    f32 d = range_of(x).far / -16;
    put_half(y->d, d);
    pack_bits(x, 0, inverse(d), 16.5f, 31, y->q, y->high);
}
DEVICE void pack(const f32 * x, q4_1 * y) {
    range r = range_of(x);
    f32 d = (r.most - r.least) / 15;
    put_half(y->d, d);
    put_half(y->m, r.least);
    pack_bits(x, r.least, inverse(d), 0.5f, 15, y->q, nullptr);
}
DEVICE void pack(const f32 * x, q5_1 * y) {
    range r = range_of(x);
    f32 d = (r.most - r.least) / 31;
    put_half(y->d, d);
    put_half(y->m, r.least);
    pack_bits(x, r.least, inverse(d), 0.5f, 31, y->q, y->high);
}
DEVICE void pack(const f32 * x, q8_0 * y) {
    f32 most = m_abs(range_of(x).far), id = most != 0 ? 127 / most : 0;
    put_half(y->d, most / 127);
    for (u32 j = 0; j < 32; j++) {
        y->q[j] = (u8) (int8_t) m_rint(x[j] * id);
    }
}

// The nearest of the uneven numbers, the upper one of two that are as near.
DEVICE u32 nearest_uneven(f32 v) {
    u32 best = 0;
    for (u32 i = 1; i < 16; i++) {
        best = v >= (f32) (uneven(i - 1) + uneven(i)) / 2 ? i : best;
    }
    return best;
}
// The scale is made anew for the numbers that were found, with squares for weights.
DEVICE void pack(const f32 * x, iq4_nl * y) {
    f32 id = inverse(range_of(x).far / uneven(0)), products = 0, squares = 0;
    for (u32 j = 0; j < 16; j++) {
        u32 l[2];
        for (u32 h = 0; h < 2; h++) {
            f32 v = x[j + 16 * h];
            l[h] = nearest_uneven(v * id);
            f32 q = uneven(l[h]);
            products += v * v * q * v;
            squares += v * v * q * q;
        }
        y->q[j] = (u8) (l[0] | l[1] << 4);
    }
    put_half(y->d, squares > 0 ? products / squares : 0);
}

// The nearest float of four bits, the first of two that are as near.
DEVICE u32 nearest_f4(f32 v, f32 d) {
    f32 least = m_abs(v);
    u32 best = 0;
    for (u32 k = 1; k < 16; k++) {
        f32 off = m_abs(mul_add(twice_f4(k), d, -v));
        best = off < least ? k : best;
        least = off < least ? off : least;
    }
    return best;
}
DEVICE void pack(const f32 * x, mxfp4 * y) {
    u32 bits = __builtin_bit_cast(u32, m_abs(range_of(x).far)), e = bits >> 23;
    y->e = (u8) (e >= 2 ? e - 2 : 0);
    f32 d = y->scale_at(0).mul;
    for (u32 j = 0; j < 16; j++) {
        y->q[j] = (u8) (nearest_f4(x[j], d) | nearest_f4(x[j + 16], d) << 4);
    }
}

DEVICE f32 size_of(const f32 * x, u32 n) { // the greatest, without signs
    f32 most = 0;
    for (u32 j = 0; j < n; j++) {
        most = m_abs(x[j]) > most ? m_abs(x[j]) : most;
    }
    return most;
}

// The nearest float of 8 bits, 4 of exponent and 3 of fraction; a half goes up.
DEVICE u32 to_e4m3(f32 v) {
    u32 bits = __builtin_bit_cast(u32, v < 448 ? v : 448);
    i32 e = (i32) (bits >> 23) - 120;
    if (e <= 0) {
        return up_to(mul_add(v, 512, 0.5f), 7);
    }
    u32 m = (bits >> 20 & 7) + (bits >> 19 & 1);
    e += m > 7;
    return e >= 15 ? 0x7e : (u32) e << 3 | (m & 7);
}
DEVICE void pack(const f32 * x, nvfp4 * y) {
    for (u32 part = 0; part < 4; part++, x += 16) {
        y->d[part] = (u8) to_e4m3(size_of(x, 16) / 6);
        f32 d = y->scale_at(part * 16).mul;
        for (u32 j = 0; j < 8; j++) {
            y->q[part * 8 + j] = (u8) (nearest_f4(x[j], d) | nearest_f4(x[j + 8], d) << 4);
        }
    }
}

DEVICE void pack(const f32 * x, q1_0 * y) {
    f32 sum = 0;
    for (u32 j = 0; j < 128; j++) {
        sum += m_abs(x[j]);
    }
    put_half(y->d, sum / 128);
    for (u32 i = 0; i < 16; i++) {
        u32 bits = 0;
        for (u32 j = 0; j < 8; j++) {
            bits |= (u32) (x[i * 8 + j] >= 0) << j;
        }
        y->q[i] = (u8) bits;
    }
}

DEVICE u32 third(f32 v, f32 id) { // -1, 0, 1 as 0, 1, 2
    return (u32) ((i32) m_round(v * id) + 1);
}
DEVICE void pack(const f32 * x, q2_0 * y) {
    f32 d = size_of(x, 64), id = inverse(d);
    put_half(y->d, d);
    for (u32 i = 0; i < 16; i++) {
        y->q[i] = (u8) (third(x[4 * i], id) | third(x[4 * i + 1], id) << 2 |
                        third(x[4 * i + 2], id) << 4 | third(x[4 * i + 3], id) << 6);
    }
}
DEVICE void pack(const f32 * x, tq2_0 * y) {
    f32 d = size_of(x, 256), id = inverse(d);
    put_half(y->d, d);
    for (u32 i = 0; i < 64; i++) {
        const f32 * at = x + i / 32 * 128 + i % 32;
        y->q[i] = (u8) (third(at[0], id) | third(at[32], id) << 2 | third(at[64], id) << 4 |
                        third(at[96], id) << 6);
    }
}
// Digits to the base of 3, the first above, as a fraction of 256 that is rounded up.
DEVICE u8 digits(const f32 * x, u32 step, u32 n, f32 id) {
    u32 q = 0;
    for (u32 i = 0; i < 5; i++) {
        q = q * 3 + (i < n ? third(x[i * step], id) : 0);
    }
    return (u8) ((q * 256 + 242) / 243);
}
DEVICE void pack(const f32 * x, tq1_0 * y) {
    f32 d = size_of(x, 256), id = inverse(d);
    put_half(y->d, d);
    for (u32 i = 0; i < 48; i++) {
        y->q[i] = i < 32 ? digits(x + i, 32, 5, id) : digits(x + 160 + i - 32, 16, 5, id);
    }
    for (u32 i = 0; i < 4; i++) {
        y->high[i] = digits(x + 240 + i, 4, 4, id);
    }
}

#endif
