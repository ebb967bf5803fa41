// matmul_blocks: how products read a quantized matrix.
#ifndef ROCM_KERNELS_MATMUL_BLOCKS_H
#define ROCM_KERNELS_MATMUL_BLOCKS_H

#include "blocks.h"
#include "matmul.h"

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

#define QUANTIZED(name)                                                                            \
    template <> struct matrix<name> : quantized<name> {};
FOR_BLOCKS(QUANTIZED)

#endif
