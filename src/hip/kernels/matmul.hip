// matmul: products of matrices of floats.
#include "matmul.h"

#define MATMUL_f32                 MATMUL(f32, f32, f32, f32)
#define MATMUL_f16                 MATMUL(f16, f16, f16, f16)
#define MATMUL_bf16                MATMUL(bf16, bf16, bf16, bf16)
#define MATMUL_f64                 MATMUL(f64, f64, f64, f64)
#define MATMUL_f16_f32             MATMUL(f16_f32, f16, f32, f32)
#define MATMUL_bf16_f32            MATMUL(bf16_f32, bf16, f32, f32)
#define MATMUL_f16_f16_f32         MATMUL(f16_f16_f32, f16, f16, f32)
#define MATMUL_bf16_bf16_f32       MATMUL(bf16_bf16_f32, bf16, bf16, f32)
#define MATMUL_f32_f16_f32         MATMUL(f32_f16_f32, f32, f16, f32)
#define MATMUL_wide_f32            MATMUL_WIDE(f32, f32, f32, f32)
#define MATMUL_wide_f16            MATMUL_WIDE(f16, f16, f16, f16)
#define MATMUL_wide_bf16           MATMUL_WIDE(bf16, bf16, bf16, bf16)
#define MATMUL_wide_f16_f32        MATMUL_WIDE(f16_f32, f16, f32, f32)
#define MATMUL_wide_bf16_f32       MATMUL_WIDE(bf16_f32, bf16, f32, f32)
#define MATMUL_wide_f16_f16_f32    MATMUL_WIDE(f16_f16_f32, f16, f16, f32)
#define MATMUL_wide_bf16_bf16_f32  MATMUL_WIDE(bf16_bf16_f32, bf16, bf16, f32)
#define MATMUL_wide_f32_f16_f32    MATMUL_WIDE(f32_f16_f32, f32, f16, f32)

#ifndef RK_TYPES
#    define RK_TYPES(X)                                                                            \
        X(f32) X(f16) X(bf16) X(f64) X(f16_f32) X(bf16_f32) X(f16_f16_f32) X(bf16_bf16_f32)        \
        X(f32_f16_f32) X(wide_f32) X(wide_f16) X(wide_bf16) X(wide_f16_f32) X(wide_bf16_f32)       \
        X(wide_f16_f16_f32) X(wide_bf16_bf16_f32) X(wide_f32_f16_f32)
#endif
#define BY_NAME(t) MATMUL_##t
RK_TYPES(BY_NAME)
