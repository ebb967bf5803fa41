// blocks: ggml's quantized formats. Numbers are made where they are used, so that a tensor's bytes
// are all that is read of it.
//
// Eight numbers that begin at a multiple of eight share a scale in every format. A block says what
// it is, and what number i + j was before it: i is that multiple, j less than eight.
#ifndef ROCM_KERNELS_BLOCKS_H
#define ROCM_KERNELS_BLOCKS_H

#include "compat.h"

struct scale {
    f32 mul, add; // a number is value * mul + add
};

DEVICE scale scale_of(f32 mul, f32 add) {
    scale s;
    s.mul = mul;
    s.add = add;
    return s;
}

DEVICE f32 half_at(const u8 * p) {
    return widen(__builtin_bit_cast(f16, (uint16_t) (p[0] | p[1] << 8)));
}

// The low halves of the bytes hold the first numbers, the high ones as many that follow.
DEVICE u32 nibble(const u8 * q, u32 n, u32 i, u32 j) {
    return q[i % n + j] >> i / n * 4 & 15u;
}

DEVICE u32 bit(u32 byte, u32 i) {
    return byte >> i & 1;
}

DEVICE u32 bits2(u32 byte, u32 pair) {
    return byte >> 2 * pair & 3;
}

// ---- 32 numbers to a block, or 64 or 128 of few bits ----

struct q1_0 { // bits
    enum { LENGTH = 128 };
    u8 d[2], q[16];
    __device__ scale scale_at(u32) const {
        return scale_of(2 * half_at(d), -half_at(d));
    }
    __device__ i32 value(u32 i, u32 j) const {
        return (i32) bit(q[i / 8], j);
    }
};

struct q2_0 {
    enum { LENGTH = 64 };
    u8 d[2], q[16];
    __device__ scale scale_at(u32) const {
        return scale_of(half_at(d), -half_at(d));
    }
    __device__ i32 value(u32 i, u32 j) const {
        return (i32) bits2(q[i / 4 + j / 4], j % 4);
    }
};

struct q4_0 {
    enum { LENGTH = 32 };
    u8 d[2], q[16];
    __device__ scale scale_at(u32) const {
        return scale_of(half_at(d), -8 * half_at(d));
    }
    __device__ i32 value(u32 i, u32 j) const {
        return (i32) nibble(q, 16, i, j);
    }
};

struct q4_1 {
    enum { LENGTH = 32 };
    u8 d[2], m[2], q[16];
    __device__ scale scale_at(u32) const {
        return scale_of(half_at(d), half_at(m));
    }
    __device__ i32 value(u32 i, u32 j) const {
        return (i32) nibble(q, 16, i, j);
    }
};

struct q5_0 {
    enum { LENGTH = 32 };
    u8 d[2], high[4], q[16];
    __device__ scale scale_at(u32) const {
        return scale_of(half_at(d), -16 * half_at(d));
    }
    __device__ i32 value(u32 i, u32 j) const {
        return (i32) (nibble(q, 16, i, j) | bit(high[i / 8], j) << 4);
    }
};

struct q5_1 {
    enum { LENGTH = 32 };
    u8 d[2], m[2], high[4], q[16];
    __device__ scale scale_at(u32) const {
        return scale_of(half_at(d), half_at(m));
    }
    __device__ i32 value(u32 i, u32 j) const {
        return (i32) (nibble(q, 16, i, j) | bit(high[i / 8], j) << 4);
    }
};

struct q8_0 {
    enum { LENGTH = 32 };
    u8 d[2], q[32];
    __device__ scale scale_at(u32) const {
        return scale_of(half_at(d), 0);
    }
    __device__ i32 value(u32 i, u32 j) const {
        return (i32) (int8_t) q[i + j];
    }
};

// Numbers that are not evenly spread. A table in registers: one in memory would be a load for each.
DEVICE i32 uneven(u32 i) {
    u32 fours = i / 4 == 0   ? 0xbfad9881
                : i / 4 == 1 ? 0xf6eaddcf
                : i / 4 == 2 ? 0x26190d01
                             : 0x71594535;
    return (int8_t) (fours >> i % 4 * 8);
}

struct iq4_nl {
    enum { LENGTH = 32 };
    u8 d[2], q[16];
    __device__ scale scale_at(u32) const {
        return scale_of(half_at(d), 0);
    }
    __device__ i32 value(u32 i, u32 j) const {
        return uneven(nibble(q, 16, i, j));
    }
};

// Twice a float of four bits: sign, 2 of exponent, 1 of fraction.
DEVICE i32 twice_f4(u32 v) {
    u32 power = v >> 1 & 3, odd = v & 1;
    i32 twice = power ? (i32) (2 + odd) << (power - 1) : (i32) odd;
    return v & 8 ? -twice : twice;
}

// With a common power of two, 2^(e - 127).
struct mxfp4 {
    enum { LENGTH = 32 };
    u8 e, q[16];
    __device__ scale scale_at(u32) const {
        u32 half = e < 2 ? 0x00200000u << e : (u32) (e - 1) << 23; // 2^(e - 128)
        return scale_of(__builtin_bit_cast(f32, half), 0);
    }
    __device__ i32 value(u32 i, u32 j) const {
        return twice_f4(nibble(q, 16, i, j));
    }
};

// With a scale of 8 bits, 4 of exponent and 3 of fraction, for each 16 of them.
struct nvfp4 {
    enum { LENGTH = 64 };
    u8 d[4], q[32];
    __device__ scale scale_at(u32 i) const {
        u32 e = d[i / 16] >> 3 & 15, m = d[i / 16] & 7;
        bool none = (d[i / 16] & 127) == 127; // NaN counts as 0
        f32 power = __builtin_bit_cast(f32, (e ? 127 + e - 11 : 127 - 10) << 23);
        return scale_of(none ? 0 : (f32) (e ? 8 + m : m) * power, 0);
    }
    __device__ i32 value(u32 i, u32 j) const {
        return twice_f4(nibble(q + i / 16 * 8, 8, i % 16, j));
    }
};

// ---- 256 numbers to a block, with a scale for each 16 or 32 of them ----

struct q2_K {
    enum { LENGTH = 256 };
    u8 scales[16], q[64], d[2], min[2];
    __device__ scale scale_at(u32 i) const {
        u32 s = scales[i / 16];
        return scale_of(half_at(d) * (f32) (s & 15), -half_at(min) * (f32) (s >> 4));
    }
    __device__ i32 value(u32 i, u32 j) const {
        return (i32) bits2(q[i / 128 * 32 + i % 32 + j], i / 32 % 4);
    }
};

struct q3_K {
    enum { LENGTH = 256 };
    u8 high[32], q[64], scales[12], d[2];
    __device__ scale scale_at(u32 i) const {
        u32 s = i / 16, bits = (scales[s % 8] >> s / 8 * 4 & 15u) | bits2(scales[8 + s % 4], s / 4)
                                                                        << 4;
        f32 mul = half_at(d) * (f32) ((i32) bits - 32);
        return scale_of(mul, -4 * mul);
    }
    __device__ i32 value(u32 i, u32 j) const {
        u32 low = bits2(q[i / 128 * 32 + i % 32 + j], i / 32 % 4);
        return (i32) (low | bit(high[i % 32 + j], i / 32) << 2);
    }
};

// Eight scales and eight minima of 6 bits in 12 bytes.
DEVICE scale unpack(const u8 * d, const u8 * min, const u8 * s, u32 i) {
    u32 mul = s[i] & 63, add = s[i + 4] & 63;
    if (i >= 4) {
        mul = (s[i + 4] & 15u) | (s[i - 4] >> 6) << 4;
        add = (u32) (s[i + 4] >> 4) | (s[i] >> 6) << 4;
    }
    return scale_of(half_at(d) * (f32) mul, -half_at(min) * (f32) add);
}

struct q4_K {
    enum { LENGTH = 256 };
    u8 d[2], min[2], scales[12], q[128];
    __device__ scale scale_at(u32 i) const {
        return unpack(d, min, scales, i / 32);
    }
    __device__ i32 value(u32 i, u32 j) const {
        return (i32) nibble(q + i / 64 * 32, 32, i % 64, j);
    }
};

struct q5_K {
    enum { LENGTH = 256 };
    u8 d[2], min[2], scales[12], high[32], q[128];
    __device__ scale scale_at(u32 i) const {
        return unpack(d, min, scales, i / 32);
    }
    __device__ i32 value(u32 i, u32 j) const {
        return (i32) (nibble(q + i / 64 * 32, 32, i % 64, j) | bit(high[i % 32 + j], i / 32) << 4);
    }
};

struct q6_K {
    enum { LENGTH = 256 };
    u8 low[128], high[64], scales[16], d[2];
    __device__ scale scale_at(u32 i) const {
        f32 mul = half_at(d) * (f32) (int8_t) scales[i / 16];
        return scale_of(mul, -32 * mul);
    }
    __device__ i32 value(u32 i, u32 j) const {
        u32 top = bits2(high[i / 128 * 32 + i % 32 + j], i / 32 % 4);
        return (i32) (nibble(low + i / 128 * 64, 64, i % 128, j) | top << 4);
    }
};

struct iq4_xs {
    enum { LENGTH = 256 };
    u8 d[2], high[2], low[4], q[128];
    __device__ scale scale_at(u32 i) const {
        u32 part = i / 32;
        u32 bits = (low[part / 2] >> part % 2 * 4 & 15u) | bits2(high[part / 4], part % 4) << 4;
        return scale_of(half_at(d) * (f32) ((i32) bits - 32), 0);
    }
    __device__ i32 value(u32 i, u32 j) const {
        return uneven(nibble(q + i / 32 * 16, 16, i % 32, j));
    }
};

// ---- three values: -1, 0 and 1 ----

// Five to a byte, as the digits of a fraction between 0 and 1 to the base of 3: the first digit of
// 3^n times it is digit n. Bytes of 32 numbers, then of 16, then four bytes with four digits each.
struct tq1_0 {
    enum { LENGTH = 256 };
    u8 q[48], high[4], d[2];
    __device__ scale scale_at(u32) const {
        return scale_of(half_at(d), -half_at(d));
    }
    __device__ i32 value(u32 i, u32 j) const {
        u32 k = i + j, byte, digit;
        if (k < 160) {
            byte = q[k % 32];
            digit = k / 32;
        } else if (k < 240) {
            byte = q[32 + k % 16];
            digit = (k - 160) / 16;
        } else {
            byte = high[k % 4];
            digit = (k - 240) / 4;
        }
        u32 power = digit == 0 ? 1 : digit == 1 ? 3 : digit == 2 ? 9 : digit == 3 ? 27 : 81;
        return (i32) ((byte * power & 255) * 3 >> 8);
    }
};

struct tq2_0 {
    enum { LENGTH = 256 };
    u8 q[64], d[2];
    __device__ scale scale_at(u32) const {
        return scale_of(half_at(d), -half_at(d));
    }
    __device__ i32 value(u32 i, u32 j) const {
        return (i32) bits2(q[i / 128 * 32 + i % 32 + j], i / 32 % 4);
    }
};

// ---- four numbers of a row, from a multiple of four on ----

struct four {
    f32 v[4];
};
template <class T> struct row_reader { // of floats
    static __device__ four at(const T * row, u32 i) {
        T raw[4];
        __builtin_memcpy(raw, row + i, sizeof raw); // one load
        four f;
        for (int k = 0; k < 4; k++) {
            f.v[k] = (f32) widen(raw[k]);
        }
        return f;
    }
};
template <class Q> struct block_reader {
    static __device__ four at(const Q * row, u32 i) {
        const Q & block = row[i / Q::LENGTH];
        u32 within = i % Q::LENGTH, eight = within / 8 * 8;
        scale s = block.scale_at(eight);
        four f;
        for (u32 k = 0; k < 4; k++) {
            f.v[k] = block.value(eight, within % 8 + k) * s.mul + s.add;
        }
        return f;
    }
};
#define BLOCK_READER(q)                                                                            \
    template <> struct row_reader<q> : block_reader<q> {};
// clang-format off
#define FOR_BLOCKS(X)                                                                              \
    X(q4_0) X(q4_1) X(q5_0) X(q5_1) X(q8_0) X(iq4_nl) X(mxfp4) X(nvfp4) X(q1_0) X(q2_0)            \
    X(q2_K) X(q3_K) X(q4_K) X(q5_K) X(q6_K) X(iq4_xs) X(tq1_0) X(tq2_0)
// clang-format on
FOR_BLOCKS(BLOCK_READER)

#endif
