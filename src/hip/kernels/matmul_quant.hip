// matmul_quant: products of a quantized matrix, as ggml keeps it, with one of f32. A row of a is a
// row of blocks; each knows the number at any place in it. Numbers are made where they are used, so
// that a's bytes are all that is read of it: neighbours read neighbouring ones.
#include "matmul.h"

DEVICE f32 half_at(const u8 * p) {
    return widen(__builtin_bit_cast(f16, (uint16_t) (p[0] | p[1] << 8)));
}

// The low half of the bytes holds the first half of the numbers.
DEVICE u32 nibble(const u8 * q, u32 i, u32 half) {
    return i < half ? q[i] & 15u : q[i - half] >> 4;
}

DEVICE u32 bits2(u32 byte, u32 pair) {
    return byte >> (2 * pair) & 3;
}

// ---- 32 numbers to a block ----

struct q4_0 {
    enum { LENGTH = 32 };
    u8 d[2], q[16];
    __device__ f32 at(u32 i) const {
        return half_at(d) * (f32) ((i32) nibble(q, i, 16) - 8);
    }
};

struct q4_1 {
    enum { LENGTH = 32 };
    u8 d[2], m[2], q[16];
    __device__ f32 at(u32 i) const {
        return half_at(d) * (f32) nibble(q, i, 16) + half_at(m);
    }
};

DEVICE u32 bits5(const u8 * high, const u8 * q, u32 i) {
    return nibble(q, i, 16) | (high[i / 8] >> i % 8 & 1u) << 4;
}

struct q5_0 {
    enum { LENGTH = 32 };
    u8 d[2], high[4], q[16];
    __device__ f32 at(u32 i) const {
        return half_at(d) * (f32) ((i32) bits5(high, q, i) - 16);
    }
};

struct q5_1 {
    enum { LENGTH = 32 };
    u8 d[2], m[2], high[4], q[16];
    __device__ f32 at(u32 i) const {
        return half_at(d) * (f32) bits5(high, q, i) + half_at(m);
    }
};

struct q8_0 {
    enum { LENGTH = 32 };
    u8 d[2], q[32];
    __device__ f32 at(u32 i) const {
        return half_at(d) * (f32) (int8_t) q[i];
    }
};

// Numbers that are not evenly spread.
DEVICE f32 uneven(u32 i) {
    const int8_t values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};
    return (f32) values[i];
}

struct iq4_nl {
    enum { LENGTH = 32 };
    u8 d[2], q[16];
    __device__ f32 at(u32 i) const {
        return half_at(d) * uneven(nibble(q, i, 16));
    }
};

// Floats of four bits (sign, 2 of exponent, 1 of fraction) with a common power of two, 2^(e - 127);
// twice their value is whole.
struct mxfp4 {
    enum { LENGTH = 32 };
    u8 e, q[16];
    __device__ f32 at(u32 i) const {
        u32 v = nibble(q, i, 16), power = v >> 1 & 3, odd = v & 1;
        i32 twice = power ? (i32) (2 + odd) << (power - 1) : (i32) odd;
        u32 half = e < 2 ? 0x00200000u << e : (u32) (e - 1) << 23; // 2^(e - 128)
        return (f32) (v & 8 ? -twice : twice) * __builtin_bit_cast(f32, half);
    }
};

// ---- 256 numbers to a block, with a scale for each 16 or 32 of them ----

struct q2_K {
    enum { LENGTH = 256 };
    u8 scales[16], q[64], d[2], min[2];
    __device__ f32 at(u32 i) const {
        u32 value = bits2(q[i / 128 * 32 + i % 32], i / 32 % 4), s = scales[i / 16];
        return half_at(d) * (f32) (s & 15) * (f32) value - half_at(min) * (f32) (s >> 4);
    }
};

struct q3_K {
    enum { LENGTH = 256 };
    u8 high[32], q[64], scales[12], d[2];
    __device__ f32 at(u32 i) const {
        i32 value = (i32) bits2(q[i / 128 * 32 + i % 32], i / 32 % 4);
        value -= high[i % 32] >> i / 32 & 1 ? 0 : 4;
        u32 s = i / 16;
        i32 scale = (i32) (nibble(scales, s, 8) | bits2(scales[8 + s % 4], s / 4) << 4) - 32;
        return half_at(d) * (f32) scale * (f32) value;
    }
};

// Eight scales and eight minima of 6 bits in 12 bytes.
struct scale_min {
    u32 scale, min;
};

DEVICE scale_min unpack(const u8 * s, u32 i) {
    scale_min out;
    if (i < 4) {
        out.scale = s[i] & 63;
        out.min = s[i + 4] & 63;
    } else {
        out.scale = (s[i + 4] & 15u) | (s[i - 4] >> 6) << 4;
        out.min = (u32) (s[i + 4] >> 4) | (s[i] >> 6) << 4;
    }
    return out;
}

struct q4_K {
    enum { LENGTH = 256 };
    u8 d[2], min[2], scales[12], q[128];
    __device__ f32 at(u32 i) const {
        u32 value = nibble(q + i / 64 * 32, i % 64, 32);
        scale_min s = unpack(scales, i / 32);
        return half_at(d) * (f32) s.scale * (f32) value - half_at(min) * (f32) s.min;
    }
};

struct q5_K {
    enum { LENGTH = 256 };
    u8 d[2], min[2], scales[12], high[32], q[128];
    __device__ f32 at(u32 i) const {
        u32 value = nibble(q + i / 64 * 32, i % 64, 32) | (high[i % 32] >> i / 32 & 1u) << 4;
        scale_min s = unpack(scales, i / 32);
        return half_at(d) * (f32) s.scale * (f32) value - half_at(min) * (f32) s.min;
    }
};

struct q6_K {
    enum { LENGTH = 256 };
    u8 low[128], high[64], scales[16], d[2];
    __device__ f32 at(u32 i) const {
        u32 value = nibble(low + i / 128 * 64, i % 128, 64) |
                    bits2(high[i / 128 * 32 + i % 32], i / 32 % 4) << 4;
        return half_at(d) * (f32) (int8_t) scales[i / 16] * (f32) ((i32) value - 32);
    }
};

struct iq4_xs {
    enum { LENGTH = 256 };
    u8 d[2], high[2], low[4], q[128];
    __device__ f32 at(u32 i) const {
        u32 part = i / 32;
        u32 scale = (low[part / 2] >> part % 2 * 4 & 15u) | bits2(high[part / 4], part % 4) << 4;
        return half_at(d) * (f32) ((i32) scale - 32) * uneven(nibble(q + part * 16, i % 32, 16));
    }
};

#define QUANT(name)                                                                                \
    template <> struct matrix<name> {                                                              \
        static __device__ f32 at(const name * from, u32 line, u32 line_stride, u32 k, u32) {       \
            return from[line * line_stride + k / name::LENGTH].at(k % name::LENGTH);               \
        }                                                                                          \
    };                                                                                             \
    MATMUL(name##_f32, name, f32, f32)

#ifndef RK_TYPES
#    define RK_TYPES(X)                                                                            \
        X(q4_0)                                                                                    \
        X(q4_1) X(q5_0) X(q5_1) X(q8_0) X(iq4_nl) X(mxfp4) X(q2_K) X(q3_K) X(q4_K) X(q5_K) X(q6_K) \
            X(iq4_xs)
#endif
RK_TYPES(QUANT)
