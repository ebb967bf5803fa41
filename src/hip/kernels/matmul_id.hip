// matmul_id: products with one of several matrices, an expert, for each column. Few columns go
// one by one to the expert that their id names. Of many, first a list of each expert's columns is
// made, and then squares of an expert's matrix by columns of its list, so that weights are read
// once for 64 columns.
#include "experts.h"
#include "matmul_blocks.h"

// An id that is no expert's gives 0.
template <class A> DEVICE void matvec_id(const rk_matmul_id & args) {
    u32 row = group_index(), pair = group_index_y(), expert = expert_of(args, pair);
    pair_place p = find_pair(args, pair);
    f32 sum = 0;
    if (expert < args.n_experts) {
        const A * a =
            (const A *) args.m.a + expert * args.m.a_batch[0] + row * args.m.a_stride[0];
        const f32 * b = (const f32 *) args.m.b + p.b;
        for (u32 k = thread_index() * matrix<A>::STEP; k < args.m.n_inner;
             k += group_size() * matrix<A>::STEP) {
            sum += matrix<A>::template dot<f32>(a, args.m.a_stride[1], b, args.m.b_stride[0], k);
        }
    }
    sum = over_group<pick_sum>(sum);
    if (thread_index() == 0) {
        ((f32 *) args.m.y)[p.y + row * args.m.y_stride[0]] = sum;
    }
}

template <class A> DEVICE void matmul_id(const rk_matmul_id & args) {
    __shared__ f32 a_strip[DEPTH][LINE];
    __shared__ f32 b_strip[DEPTH][LINE];
    __shared__ pair_place places[RK_TILE];
    u32 expert = group_index_z(), t = thread_index(), inner = args.m.n_inner;
    u32 row = group_index_y() * RK_TILE, column = group_index() * RK_TILE;
    const u32 * list = args.lists + args.n_experts + expert * args.m.n_columns;
    u32 n_columns = args.lists[expert];
    if (column >= n_columns) {
        return;
    }
    if (t < RK_TILE && column + t < n_columns) {
        places[t] = find_pair(args, list[column + t]);
    }
    const A * a = (const A *) args.m.a + expert * args.m.a_batch[0];
    const f32 * b = (const f32 *) args.m.b;
    u32 my_row = t / 16 * EACH, my_column = t % 16 * EACH;
    f32 sum[EACH][EACH] = {};
    for (u32 k = 0; k < inner; k += DEPTH) {
        barrier(); // nobody reads the strips any more, and places are known
        fetch_strip(a_strip, a, row, args.m.n_rows, args.m.a_stride[0], k, inner,
                    args.m.a_stride[1]);
        for (u32 e = 0; e < DEPTH * RK_TILE / RK_BLOCK; e++) {
            u32 i = t + e * RK_BLOCK, d = i % DEPTH, l = i / DEPTH;
            bool in = column + l < n_columns && k + d < inner;
            b_strip[d][l] = in ? b[places[l].b + (k + d) * args.m.b_stride[0]] : 0;
        }
        barrier();
#pragma unroll 4
        for (u32 d = 0; d < DEPTH; d++) {
            for (int i = 0; i < EACH; i++) {
                for (int j = 0; j < EACH; j++) {
                    sum[i][j] += a_strip[d][my_row + i] * b_strip[d][my_column + j];
                }
            }
        }
    }
    f32 * y = (f32 *) args.m.y;
    for (u32 i = 0; i < EACH; i++) {
        for (u32 j = 0; j < EACH; j++) {
            u32 r = row + my_row + i;
            if (r < args.m.n_rows && column + my_column + j < n_columns) {
                y[places[my_column + j].y + r * args.m.y_stride[0]] = sum[i][j];
            }
        }
    }
}

#define EXPERTS(name)                                                                              \
    KERNEL(matmul_id_##name##_f32, rk_matmul_id) {                                                 \
        matmul_id<name>(args);                                                                     \
    }                                                                                              \
    KERNEL(matvec_id_##name##_f32, rk_matmul_id) {                                                 \
        matvec_id<name>(args);                                                                     \
    }

#ifndef RK_TYPES
#    define RK_TYPES(X) X(f32) X(f16) X(bf16) FOR_BLOCKS(X)
#endif
RK_TYPES(EXPERTS)
