// matmul_blocks: how products read a quantized matrix.
#ifndef ROCM_KERNELS_MATMUL_BLOCKS_H
#define ROCM_KERNELS_MATMUL_BLOCKS_H

#include "blocks_grids.h"
#include "matmul.h"
#include "parts.h"

template <class Q> struct quantized {
    enum { STEP = 8 };
    template <class C> static __device__ C dot(const Q * row, u32, const f32 * column, u32, u32 k) {
        const Q & block = row[k / Q::LENGTH];
        u32 i = k % Q::LENGTH;
        f32 sum = 0, plain = 0;
        piece<f32, STEP> v; // they lie one behind the other
        v.fetch(column, k, 1, k + STEP, v.is_whole(column, 1));
#pragma unroll
        for (u32 j = 0; j < STEP; j++) {
            sum += block.value(i, j) * v.raw[j];
            plain += v.raw[j];
        }
        scale s = block.scale_at(i);
        return sum * s.mul + plain * s.add;
    }
};

// A piece is numbers that share a scale.
template <class Q> struct quantized_piece {
    f32 made[8];
    __device__ void fetch(const Q * line, u32 k, u32, u32 n_inner, bool whole) {
        bool in = whole && k < n_inner;
        const Q & block = line[in ? k / Q::LENGTH : 0];
        scale s = scale_of(0, 0);
        if (in) {
            s = block.scale_at(k % Q::LENGTH);
        }
#pragma unroll
        for (u32 j = 0; j < 8; j++) {
            made[j] = 0;
            if (in) {
                made[j] = block.value(k % Q::LENGTH, j) * s.mul + s.add;
            }
        }
    }
    __device__ f32 at(u32 i) const {
        return made[i];
    }
    static __device__ bool is_whole(const Q * line, u32) {
        return line != 0;
    }
    static __device__ bool all_whole(const Q *, u32) {
        return true;
    }
};

// The formats that models use most stay as they are until they are used, so that nobody waits for
// memory before that. Bytes are fetched as words wherever they begin: GPUs of AMD do so.
template <u32 N> DEVICE void fetch_words(u32 (&out)[N], const u8 * from) {
    __builtin_memcpy(out, from, sizeof out);
}
struct raw_piece {
    u32 word[2]; // eight bytes
    u32 shift;   // of a number in its byte
    __device__ i32 number(u32 i, u32 mask) const {
        return (i32) (word[i / 4] >> shift >> i % 4 * 8 & mask);
    }
    template <class Q> static __device__ bool is_whole(const Q * line, u32) {
        return line != 0;
    }
    template <class Q> static __device__ bool all_whole(const Q *, u32) {
        return true;
    }
};
// Blocks of 32 numbers under one scale.
template <class Q> struct scaled_piece : raw_piece {
    f16 d;
    __device__ void fetch_from(const Q * line, u32 k, u32 byte, u32 n_inner, bool whole) {
        d = f16();
        word[0] = word[1] = 0;
        if (whole && k < n_inner) {
            const Q & block = line[k / 32];
            fetch_words(word, block.q + byte);
            __builtin_memcpy(&d, block.d, sizeof d);
        }
    }
};
template <> struct quantized_piece<q4_0> : scaled_piece<q4_0> {
    __device__ void fetch(const q4_0 * line, u32 k, u32, u32 n_inner, bool whole) {
        shift = k % 32 / 16 * 4;
        fetch_from(line, k, k % 16, n_inner, whole);
    }
    __device__ f32 at(u32 i) const {
        return (f32) (number(i, 15) - 8) * widen(d);
    }
};
template <> struct quantized_piece<q8_0> : scaled_piece<q8_0> {
    __device__ void fetch(const q8_0 * line, u32 k, u32, u32 n_inner, bool whole) {
        shift = 0;
        fetch_from(line, k, k % 32, n_inner, whole);
    }
    __device__ f32 at(u32 i) const {
        return (f32) (int8_t) number(i, 255) * widen(d);
    }
};
template <> struct quantized_piece<q4_K> : raw_piece {
    u32 head[4], part;
    __device__ void fetch(const q4_K * line, u32 k, u32, u32 n_inner, bool whole) {
        u32 i = k % 256;
        part = i / 32;
        shift = part % 2 * 4;
        word[0] = word[1] = 0;
        head[0] = head[1] = head[2] = head[3] = 0;
        if (whole && k < n_inner) {
            const q4_K & block = line[k / 256];
            fetch_words(word, block.q + i / 64 * 32 + i % 32);
            fetch_words(head, block.d);
        }
    }
    __device__ f32 at(u32 i) const {
        scale s = unpack_words(head, part);
        return (f32) number(i, 15) * s.mul + s.add;
    }
};

#define QUANTIZED(name)                                                                            \
    template <> struct matrix<name> : quantized<name> {};                                          \
    template <> struct piece<name, 8> : quantized_piece<name> {};
FOR_BLOCKS(QUANTIZED)
FOR_GRIDS(QUANTIZED)

#endif
