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
    typedef square<A, f32, f32, RK_TILE / 16> S;
    __shared__ typename S::strips strips;
    __shared__ pair_place places[RK_TILE];
    S s;
    u32 expert = group_index_z(), t = thread_index();
    u32 row = group_index_y() * RK_TILE, column = group_index() * RK_TILE;
    const u32 * list = args.lists + args.n_experts + expert * args.m.n_columns;
    u32 n_columns = args.lists[expert];
    if (column >= n_columns) {
        return;
    }
    if (t < RK_TILE && column + t < n_columns) {
        places[t] = find_pair(args, list[column + t]);
    }
    barrier();
    u32 r = row + S::my_line(args.m.a_stride[1]), c = S::my_line(args.m.b_stride[0]);
    const A * a = (const A *) args.m.a + expert * args.m.a_batch[0] + r * args.m.a_stride[0];
    const f32 * b = column + c < n_columns ? (const f32 *) args.m.b + places[c].b : 0;
    s.run(strips, r < args.m.n_rows ? a : 0, args.m.a_stride[1], b, args.m.b_stride[0],
          args.m.n_inner);
    f32 * y = (f32 *) args.m.y;
#pragma unroll
    for (u32 j = 0; j < RK_TILE / 16; j++) {
        c = S::my_column(j);
#pragma unroll
        for (u32 i = 0; i < RK_TILE / 16; i++) {
            r = row + S::my_row(i);
            if (r < args.m.n_rows && column + c < n_columns) {
                y[places[c].y + r * args.m.y_stride[0]] = s.sum[i][j];
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
#    define RK_TYPES(X) X(f32) X(f16) X(bf16) FOR_BLOCKS(X) FOR_GRIDS(X)
#endif
RK_TYPES(EXPERTS)
