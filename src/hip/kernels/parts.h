// parts: 32 numbers of a quantized row as bytes that dot4 takes, four to a word, with the scales of
// the first 16 and of the others. A row's bytes lie in LDS, from any even one on.
// The formats that models use most are here; others are multiplied as blocks.h reads them.
#ifndef ROCM_KERNELS_PARTS_H
#define ROCM_KERNELS_PARTS_H

#include "blocks.h"

struct staged {
    const u32 * words;
    u32 at; // of a block's first byte
    __device__ u32 byte(u32 i) const {
        return ((const u8 *) words)[at + i];
    }
    __device__ f32 half(u32 i) const {
        return widen(((const f16 *) words)[(at + i) / 2]);
    }
    template <u32 N> __device__ void copy(u32 i, u32 * out) const {
        u32 first = (at + i) / 4, byte = (at + i) % 4, low = words[first];
#pragma unroll
        for (u32 n = 0; n < N; n++) {
            u32 high = words[first + n + 1];
            out[n] = word_from(low, high, byte);
            low = high;
        }
    }
};

// With a scale for all 32, or for each 16.
template <u32 N> struct part_of {
    enum { SCALES = N };
    u32 word[8];
    scale s[N];
};

// Which 32 of a block: p.
template <class Q> struct part_reader;

// Four words of nibbles: the low ones are the first 16 numbers.
DEVICE void spread_nibbles(const u32 * q, part_of<1> & out) {
#pragma unroll
    for (u32 n = 0; n < 4; n++) {
        out.word[n] = q[n] & 0x0f0f0f0f;
        out.word[n + 4] = q[n] >> 4 & 0x0f0f0f0f;
    }
}
// Bits that four numbers have in common to bit 4 of their bytes: bit j of four goes to byte j.
DEVICE u32 spread_bits(u32 four) {
    return (four & 1) << 4 | (four & 2) << 11 | (four & 4) << 18 | (four & 8) << 25;
}

template <> struct part_reader<q4_0> {
    typedef part_of<1> part;
    static __device__ part read(const staged & from, u32) {
        part out;
        u32 q[5], byte = from.at % 4; // 0 or 2: 18 bytes lie in five words
#pragma unroll
        for (u32 n = 0; n < 5; n++) {
            q[n] = from.words[from.at / 4 + n];
        }
        f32 d = widen(__builtin_bit_cast(f16, (uint16_t) (q[0] >> 8 * byte)));
#pragma unroll
        for (u32 n = 0; n < 4; n++) {
            q[n] = word_from(q[n], q[n + 1], 2 + byte);
        }
        spread_nibbles(q, out);
        out.s[0] = scale_of(d, -8 * d);
        return out;
    }
};
template <> struct part_reader<q4_1> {
    typedef part_of<1> part;
    static __device__ part read(const staged & from, u32) {
        part out;
        u32 q[4];
        from.copy<4>(4, q);
        spread_nibbles(q, out);
        out.s[0] = scale_of(from.half(0), from.half(2));
        return out;
    }
};
template <u32 HEAD> DEVICE part_of<1> read_five_bits(const staged & from) {
    part_of<1> out;
    u32 q[5]; // the fifth bits first
    from.copy<5>(HEAD, q);
    spread_nibbles(q + 1, out);
#pragma unroll
    for (u32 n = 0; n < 8; n++) {
        out.word[n] |= spread_bits(q[0] >> 4 * n);
    }
    return out;
}
template <> struct part_reader<q5_0> {
    typedef part_of<1> part;
    static __device__ part read(const staged & from, u32) {
        part out = read_five_bits<2>(from);
        f32 d = from.half(0);
        out.s[0] = scale_of(d, -16 * d);
        return out;
    }
};
template <> struct part_reader<q5_1> {
    typedef part_of<1> part;
    static __device__ part read(const staged & from, u32) {
        part out = read_five_bits<4>(from);
        out.s[0] = scale_of(from.half(0), from.half(2));
        return out;
    }
};
template <> struct part_reader<q8_0> {
    typedef part_of<1> part;
    static __device__ part read(const staged & from, u32) {
        part out;
        from.copy<8>(2, out.word);
        out.s[0] = scale_of(from.half(0), 0);
        return out;
    }
};

// The block begins with d, min and 12 bytes of scales: four words.
DEVICE scale unpack_words(const u32 * head, u32 p) {
    u32 shift = p % 4 * 8, low = head[1] >> shift, mid = head[2] >> shift, high = head[3] >> shift;
    u32 mul = low & 63, add = mid & 63;
    if (p >= 4) {
        mul = (high & 15) | (low >> 6 & 3) << 4;
        add = (high >> 4 & 15) | (mid >> 6 & 3) << 4;
    }
    f32 d = widen(__builtin_bit_cast(f16, (uint16_t) head[0]));
    f32 min = widen(__builtin_bit_cast(f16, (uint16_t) (head[0] >> 16)));
    return scale_of(d * (f32) mul, -min * (f32) add);
}
template <> struct part_reader<q4_K> {
    typedef part_of<1> part;
    static __device__ part read(const staged & from, u32 p) {
        part out;
        u32 head[4];
        from.copy<4>(0, head);
        from.copy<8>(16 + p / 2 * 32, out.word);
#pragma unroll
        for (u32 n = 0; n < 8; n++) {
            out.word[n] = out.word[n] >> p % 2 * 4 & 0x0f0f0f0f;
        }
        out.s[0] = unpack_words(head, p);
        return out;
    }
};
template <> struct part_reader<q5_K> {
    typedef part_of<1> part;
    static __device__ part read(const staged & from, u32 p) {
        part out;
        u32 head[4], fifth[8];
        from.copy<4>(0, head);
        from.copy<8>(16, fifth);
        from.copy<8>(48 + p / 2 * 32, out.word);
#pragma unroll
        for (u32 n = 0; n < 8; n++) {
            out.word[n] = (out.word[n] >> p % 2 * 4 & 0x0f0f0f0f) | (fifth[n] >> p & 0x01010101)
                                                                        << 4;
        }
        out.s[0] = unpack_words(head, p);
        return out;
    }
};
template <> struct part_reader<q6_K> {
    typedef part_of<2> part;
    static __device__ part read(const staged & from, u32 p) {
        part out;
        u32 high[8];
        from.copy<8>(p / 4 * 64 + p % 2 * 32, out.word);
        from.copy<8>(128 + p / 4 * 32, high);
#pragma unroll
        for (u32 n = 0; n < 8; n++) {
            out.word[n] = (out.word[n] >> p / 2 % 2 * 4 & 0x0f0f0f0f) |
                          (high[n] >> p % 4 * 2 & 0x03030303) << 4;
        }
        f32 d = from.half(208);
#pragma unroll
        for (u32 h = 0; h < 2; h++) {
            f32 mul = d * (f32) (int8_t) from.byte(192 + p * 2 + h);
            out.s[h] = scale_of(mul, -32 * mul);
        }
        return out;
    }
};

#define FOR_PARTS(X) X(q4_0) X(q4_1) X(q5_0) X(q5_1) X(q8_0) X(q4_K) X(q5_K) X(q6_K)

#endif
