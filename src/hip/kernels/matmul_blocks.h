// matmul_blocks: how products read a quantized matrix.
#ifndef ROCM_KERNELS_MATMUL_BLOCKS_H
#define ROCM_KERNELS_MATMUL_BLOCKS_H

#include "blocks.h"
#include "matmul.h"

template <class Q> struct quantized {
    enum { STEP = 8 };
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

#define QUANTIZED(name)                                                                            \
    template <> struct matrix<name> : quantized<name> {};                                          \
    template <> struct piece<name, 8> : quantized_piece<name> {};
FOR_BLOCKS(QUANTIZED)

#endif
