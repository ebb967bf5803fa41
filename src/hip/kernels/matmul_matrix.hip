// matmul_matrix: products by matrix instructions where the GPU has them, of f16 and bf16 as they
// are, and of quantized rows as f16; a b of f32 is rounded to the same. Other GPUs compute the same
// squares in f32.
#include "matmul_blocks.h"
#include "matrix_cores.h"

#ifdef RK_MATRIX_CORES
template <class A, class B, class E, int SIZE> DEVICE void matmul_matrix(const rk_matmul & args) {
    typedef matrix_square<A, B, E, SIZE> S;
    __shared__ typename S::strips strips;
    S s;
    batch_place place = find_batch(args, group_index_z());
    u32 row = group_index_y() * SIZE, column = group_index() * SIZE;
    const A * a[S::FETCHED];
    const B * b[S::FETCHED];
#pragma unroll
    for (u32 i = 0; i < S::FETCHED; i++) {
        u32 r = row + S::my_line(i), c = column + S::my_line(i);
        a[i] = (const A *) args.a + place.a + r * args.a_stride[0];
        b[i] = (const B *) args.b + place.b + c * args.b_stride[1];
        a[i] = r < args.n_rows ? a[i] : 0;
        b[i] = c < args.n_columns ? b[i] : 0;
    }
    s.run(strips, a, args.a_stride[1], b, args.b_stride[0], args.n_inner);
    f32 * y = (f32 *) args.y + place.y;
    bool aligned = args.y_stride[0] == 1 && ((uint64_t) y | args.y_stride[1] * sizeof *y) % 16 == 0;
#pragma unroll
    for (u32 j = 0; j < S::ACROSS; j++) {
        u32 c = column + S::my_column(j) + core::column();
        if (c < args.n_columns) {
            s.put_column(y + c * args.y_stride[1], args.y_stride[0], j, row, args.n_rows, aligned);
        }
    }
}
#else
template <class A, class B, class E, int SIZE> DEVICE void matmul_matrix(const rk_matmul & args) {
    matmul<A, B, f32, SIZE / 16>(args);
}
#endif

#define MATRIX(name, a, b, as)                                                                     \
    KERNEL(matmul_matrix_##name, rk_matmul) {                                                      \
        matmul_matrix<a, b, as, RK_TILE>(args);                                                    \
    }
#define MATRIX_WIDE(name, a, b, as)                                                                \
    KERNEL_FOR(2, matmul_matrix_wide_##name, rk_matmul) {                                          \
        matmul_matrix<a, b, as, RK_TILE_WIDE>(args);                                               \
    }
#define QUANT(q)      MATRIX(q##_f32, q, f32, f16)
#define QUANT_WIDE(q) MATRIX_WIDE(q##_f32, q, f32, f16)

// clang-format off
#define MATRIX_f16_f32              MATRIX(f16_f32, f16, f32, f16)
#define MATRIX_wide_f16_f32         MATRIX_WIDE(f16_f32, f16, f32, f16)
#define MATRIX_bf16_f32             MATRIX(bf16_f32, bf16, f32, bf16)
#define MATRIX_wide_bf16_f32        MATRIX_WIDE(bf16_f32, bf16, f32, bf16)
#define MATRIX_f16_f16_f32          MATRIX(f16_f16_f32, f16, f16, f16)
#define MATRIX_wide_f16_f16_f32     MATRIX_WIDE(f16_f16_f32, f16, f16, f16)
#define MATRIX_bf16_bf16_f32        MATRIX(bf16_bf16_f32, bf16, bf16, bf16)
#define MATRIX_wide_bf16_bf16_f32   MATRIX_WIDE(bf16_bf16_f32, bf16, bf16, bf16)
#define MATRIX_q4_0                 QUANT(q4_0)
#define MATRIX_wide_q4_0            QUANT_WIDE(q4_0)
#define MATRIX_q4_1                 QUANT(q4_1)
#define MATRIX_wide_q4_1            QUANT_WIDE(q4_1)
#define MATRIX_q5_0                 QUANT(q5_0)
#define MATRIX_wide_q5_0            QUANT_WIDE(q5_0)
#define MATRIX_q5_1                 QUANT(q5_1)
#define MATRIX_wide_q5_1            QUANT_WIDE(q5_1)
#define MATRIX_q8_0                 QUANT(q8_0)
#define MATRIX_wide_q8_0            QUANT_WIDE(q8_0)
#define MATRIX_iq4_nl               QUANT(iq4_nl)
#define MATRIX_wide_iq4_nl          QUANT_WIDE(iq4_nl)
#define MATRIX_q2_K                 QUANT(q2_K)
#define MATRIX_wide_q2_K            QUANT_WIDE(q2_K)
#define MATRIX_q3_K                 QUANT(q3_K)
#define MATRIX_wide_q3_K            QUANT_WIDE(q3_K)
#define MATRIX_q4_K                 QUANT(q4_K)
#define MATRIX_wide_q4_K            QUANT_WIDE(q4_K)
#define MATRIX_q5_K                 QUANT(q5_K)
#define MATRIX_wide_q5_K            QUANT_WIDE(q5_K)
#define MATRIX_q6_K                 QUANT(q6_K)
#define MATRIX_wide_q6_K            QUANT_WIDE(q6_K)
#define MATRIX_iq4_xs               QUANT(iq4_xs)
#define MATRIX_wide_iq4_xs          QUANT_WIDE(iq4_xs)

#ifndef RK_TYPES
#    define RK_TYPES(X)                                                                            \
        X(f16_f32) X(bf16_f32) X(f16_f16_f32) X(bf16_bf16_f32) X(q4_0) X(q4_1) X(q5_0) X(q5_1)     \
        X(q8_0) X(iq4_nl) X(q2_K) X(q3_K) X(q4_K) X(q5_K) X(q6_K) X(iq4_xs)                        \
        X(wide_f16_f32) X(wide_bf16_f32) X(wide_f16_f16_f32) X(wide_bf16_bf16_f32)                 \
        X(wide_q4_0) X(wide_q4_1) X(wide_q5_0) X(wide_q5_1) X(wide_q8_0) X(wide_iq4_nl)            \
        X(wide_q2_K) X(wide_q3_K) X(wide_q4_K) X(wide_q5_K) X(wide_q6_K) X(wide_iq4_xs)
#endif
// clang-format on
#define BY_NAME(t) MATRIX_##t
RK_TYPES(BY_NAME)
