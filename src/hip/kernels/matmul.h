// matmul: products of matrices. A group makes a square of RK_TILE x RK_TILE of the output; each of
// its 256 work-items holds 4 x 4 of it in registers. The strips of a and b that the square needs go
// through LDS, RK_DEPTH deep, so that each element is fetched from memory once for 64 uses.
#ifndef ROCM_KERNELS_MATMUL_H
#define ROCM_KERNELS_MATMUL_H

#include "rows.h"

// How a matrix of T is read; quantized ones have a way of their own. STEP elements along k are
// multiplied with those of a column at a time.
template <class T> struct matrix {
    enum { STEP = 1 };
    static __device__ typename calc<T>::type at(const T * from, u32 line, u32 line_stride, u32 k,
                                                u32 k_stride) {
        return widen(from[line * line_stride + k * k_stride]);
    }
    template <class C, class B>
    static __device__ C dot(const T * row, u32 stride, const B * column, u32 column_stride, u32 k) {
        return (C) widen(row[k * stride]) * (C) widen(column[k * column_stride]);
    }
};

enum { DEPTH = 16, EACH = 4, LINE = RK_TILE + 4 }; // the 4 keep columns of a strip off one LDS bank

struct batch_place {
    u32 a, b, y;
};

DEVICE batch_place find_batch(const rk_matmul & args, u32 z) {
    u32 second = z / args.dim, first = z - second * args.dim;
    batch_place p;
    p.a = first / args.a_share[0] * args.a_batch[0] + second / args.a_share[1] * args.a_batch[1];
    p.b = first * args.b_batch[0] + second * args.b_batch[1];
    p.y = first * args.y_batch[0] + second * args.y_batch[1];
    return p;
}

// A strip of a matrix to LDS, from k on: DEPTH of the inner dimension by RK_TILE lines, which are
// rows of a or columns of b. Neighbours fetch along k where it lies in memory one behind the other,
// and along lines otherwise.
template <class T, class C>
DEVICE void fetch_strip(C (&strip)[DEPTH][LINE], const T * from, u32 line, u32 n_lines,
                        u32 line_stride, u32 k, u32 n_inner, u32 k_stride) {
    bool along_k = k_stride == 1;
    for (u32 e = 0; e < DEPTH * RK_TILE / RK_BLOCK; e++) {
        u32 i = thread_index() + e * RK_BLOCK;
        u32 d = along_k ? i % DEPTH : i / RK_TILE, l = along_k ? i / DEPTH : i % RK_TILE;
        bool in = line + l < n_lines && k + d < n_inner;
        strip[d][l] = in ? (C) matrix<T>::at(from, line + l, line_stride, k + d, k_stride) : (C) 0;
    }
}

template <class A, class B, class Y> DEVICE void matmul(const rk_matmul & args) {
    typedef typename calc<Y>::type C;
    __shared__ C a_strip[DEPTH][LINE];
    __shared__ C b_strip[DEPTH][LINE];
    batch_place place = find_batch(args, group_index_z());
    const A * a = (const A *) args.a + place.a;
    const B * b = (const B *) args.b + place.b;
    u32 t = thread_index(), row = group_index_y() * RK_TILE, column = group_index() * RK_TILE;
    u32 my_row = t / 16 * EACH, my_column = t % 16 * EACH;
    C sum[EACH][EACH] = {};
    for (u32 k = 0; k < args.n_inner; k += DEPTH) {
        barrier(); // nobody reads the strips any more
        fetch_strip(a_strip, a, row, args.n_rows, args.a_stride[0], k, args.n_inner,
                    args.a_stride[1]);
        fetch_strip(b_strip, b, column, args.n_columns, args.b_stride[1], k, args.n_inner,
                    args.b_stride[0]);
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
    Y * y = (Y *) args.y + place.y;
    for (u32 i = 0; i < EACH; i++) {
        for (u32 j = 0; j < EACH; j++) {
            u32 r = row + my_row + i, c = column + my_column + j;
            if (r < args.n_rows && c < args.n_columns) {
                y[r * args.y_stride[0] + c * args.y_stride[1]] = narrow<Y>(sum[i][j]);
            }
        }
    }
}

// A group for each element: for one or a few columns, where squares would be mostly empty.
template <class A, class B, class Y> DEVICE void matvec(const rk_matmul & args) {
    typedef typename calc<Y>::type C;
    batch_place place = find_batch(args, group_index_z());
    u32 row = group_index(), column = group_index_y();
    const A * a = (const A *) args.a + place.a + row * args.a_stride[0];
    const B * b = (const B *) args.b + place.b + column * args.b_stride[1];
    C sum = 0;
    for (u32 k = thread_index() * matrix<A>::STEP; k < args.n_inner;
         k += group_size() * matrix<A>::STEP) {
        sum += matrix<A>::template dot<C>(a, args.a_stride[1], b, args.b_stride[0], k);
    }
    sum = over_group<pick_sum>(sum);
    if (thread_index() == 0) {
        ((Y *) args.y)[place.y + row * args.y_stride[0] + column * args.y_stride[1]] =
            narrow<Y>(sum);
    }
}

#define MATMUL(name, a, b, y)                                                                      \
    KERNEL(matmul_##name, rk_matmul) {                                                             \
        matmul<a, b, y>(args);                                                                     \
    }                                                                                              \
    KERNEL(matvec_##name, rk_matmul) {                                                             \
        matvec<a, b, y>(args);                                                                     \
    }

#endif
