// matmul_quant: products of a quantized matrix, as ggml keeps it, with one of f32. A row of a is a
// row of blocks. Numbers are made where they are used, so that a's bytes are all that is read of
// it.
//
// Eight numbers that begin at a multiple of eight share a scale in every format. A block says what
// it is, and what number i + j was before it: i is that multiple, j less than eight.
#include "matmul.h"

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

// ---- 32 numbers to a block ----

struct q4_0 {
    enum { LENGTH = 32 };
    u8 d[2], q[16];
    __device__ scale scale_at(u32) const {
        return scale_of(half_at(d), -8 * half_at(d));
    }
    __device__ f32 value(u32 i, u32 j) const {
        return (f32) nibble(q, 16, i, j);
    }
};

struct q4_1 {
    enum { LENGTH = 32 };
    u8 d[2], m[2], q[16];
    __device__ scale scale_at(u32) const {
        return scale_of(half_at(d), half_at(m));
    }
    __device__ f32 value(u32 i, u32 j) const {
        return (f32) nibble(q, 16, i, j);
    }
};

struct q5_0 {
    enum { LENGTH = 32 };
    u8 d[2], high[4], q[16];
    __device__ scale scale_at(u32) const {
        return scale_of(half_at(d), -16 * half_at(d));
    }
    __device__ f32 value(u32 i, u32 j) const {
        return (f32) (nibble(q, 16, i, j) | bit(high[i / 8], j) << 4);
    }
};

struct q5_1 {
    enum { LENGTH = 32 };
    u8 d[2], m[2], high[4], q[16];
    __device__ scale scale_at(u32) const {
        return scale_of(half_at(d), half_at(m));
    }
    __device__ f32 value(u32 i, u32 j) const {
        return (f32) (nibble(q, 16, i, j) | bit(high[i / 8], j) << 4);
    }
};

struct q8_0 {
    enum { LENGTH = 32 };
    u8 d[2], q[32];
    __device__ scale scale_at(u32) const {
        return scale_of(half_at(d), 0);
    }
    __device__ f32 value(u32 i, u32 j) const {
        return (f32) (int8_t) q[i + j];
    }
};

// Numbers that are not evenly spread. A table in registers: one in memory would be a load for each.
DEVICE f32 uneven(u32 i) {
    u32 fours = i / 4 == 0   ? 0xbfad9881
                : i / 4 == 1 ? 0xf6eaddcf
                : i / 4 == 2 ? 0x26190d01
                             : 0x71594535;
    return (f32) (int8_t) (fours >> i % 4 * 8);
}

struct iq4_nl {
    enum { LENGTH = 32 };
    u8 d[2], q[16];
    __device__ scale scale_at(u32) const {
        return scale_of(half_at(d), 0);
    }
    __device__ f32 value(u32 i, u32 j) const {
        return uneven(nibble(q, 16, i, j));
    }
};

// Floats of four bits (sign, 2 of exponent, 1 of fraction) with a common power of two, 2^(e - 127).
// Twice their value is whole.
struct mxfp4 {
    enum { LENGTH = 32 };
    u8 e, q[16];
    __device__ scale scale_at(u32) const {
        u32 half = e < 2 ? 0x00200000u << e : (u32) (e - 1) << 23; // 2^(e - 128)
        return scale_of(__builtin_bit_cast(f32, half), 0);
    }
    __device__ f32 value(u32 i, u32 j) const {
        u32 v = nibble(q, 16, i, j), power = v >> 1 & 3, odd = v & 1;
        i32 twice = power ? (i32) (2 + odd) << (power - 1) : (i32) odd;
        return (f32) (v & 8 ? -twice : twice);
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
    __device__ f32 value(u32 i, u32 j) const {
        return (f32) bits2(q[i / 128 * 32 + i % 32 + j], i / 32 % 4);
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
    __device__ f32 value(u32 i, u32 j) const {
        u32 low = bits2(q[i / 128 * 32 + i % 32 + j], i / 32 % 4);
        return (f32) (low | bit(high[i % 32 + j], i / 32) << 2);
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
    __device__ f32 value(u32 i, u32 j) const {
        return (f32) nibble(q + i / 64 * 32, 32, i % 64, j);
    }
};

struct q5_K {
    enum { LENGTH = 256 };
    u8 d[2], min[2], scales[12], high[32], q[128];
    __device__ scale scale_at(u32 i) const {
        return unpack(d, min, scales, i / 32);
    }
    __device__ f32 value(u32 i, u32 j) const {
        return (f32) (nibble(q + i / 64 * 32, 32, i % 64, j) | bit(high[i % 32 + j], i / 32) << 4);
    }
};

struct q6_K {
    enum { LENGTH = 256 };
    u8 low[128], high[64], scales[16], d[2];
    __device__ scale scale_at(u32 i) const {
        f32 mul = half_at(d) * (f32) (int8_t) scales[i / 16];
        return scale_of(mul, -32 * mul);
    }
    __device__ f32 value(u32 i, u32 j) const {
        u32 top = bits2(high[i / 128 * 32 + i % 32 + j], i / 32 % 4);
        return (f32) (nibble(low + i / 128 * 64, 64, i % 128, j) | top << 4);
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
    __device__ f32 value(u32 i, u32 j) const {
        return uneven(nibble(q + i / 32 * 16, 16, i % 32, j));
    }
};

template <class Q> struct quantized {
    enum { STEP = 8 };
    static __device__ f32 at(const Q * from, u32 line, u32 line_stride, u32 k, u32) {
        const Q & block = from[line * line_stride + k / Q::LENGTH];
        u32 i = k % Q::LENGTH / STEP * STEP;
        scale s = block.scale_at(i);
        return block.value(i, k % STEP) * s.mul + s.add;
    }
    template <class C> static __device__ C dot(const Q * row, u32, const f32 * column, u32, u32 k) {
        const Q & block = row[k / Q::LENGTH];
        u32 i = k % Q::LENGTH;
        f32 sum = 0, plain = 0;
#pragma unroll
        for (u32 j = 0; j < STEP; j++) { // in one load or two: they lie one behind the other
            f32 v = column[k + j];
            sum += block.value(i, j) * v;
            plain += v;
        }
        scale s = block.scale_at(i);
        return sum * s.mul + plain * s.add;
    }
};

#define QUANT(name)                                                                                \
    template <> struct matrix<name> : quantized<name> {};                                          \
    MATMUL(name##_f32, name, f32, f32)

#ifndef RK_TYPES
#    define RK_TYPES(X)                                                                            \
        X(q4_0)                                                                                    \
        X(q4_1)                                                                                    \
        X(q5_0) X(q5_1) X(q8_0) X(iq4_nl) X(mxfp4) X(q2_K) X(q3_K) X(q4_K) X(q5_K) X(q6_K) X(iq4_xs)
#endif
RK_TYPES(QUANT)
