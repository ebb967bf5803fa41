// matmul_quant: products of a quantized matrix, as ggml keeps it, with one of f32. A row of a is a
// row of blocks.
#include "matmul_blocks.h"

#define QUANT(name) MATMUL(name##_f32, name, f32, f32)

#ifndef RK_TYPES
#    define RK_TYPES(X) FOR_BLOCKS(X) FOR_GRIDS(X)
#endif
RK_TYPES(QUANT)
