// bits: elements moved as they are, by their size in bits.
#include "compat.h"

#define BITS(size, type)                                                                           \
    KERNEL(bits_##size, rk_cast) {                                                                 \
        u32 i = global_index();                                                                    \
        if (i < args.shape.n) {                                                                    \
            const uint32_t * const strides[2] = {args.x_stride, args.y_stride};                    \
            places<2> at = locate<2>(args.shape, i, strides);                                      \
            ((type *) args.y)[at.at[1]] = ((const type *) args.x)[at.at[0]];                       \
        }                                                                                          \
    }
BITS(8, uint8_t)
BITS(16, uint16_t)
BITS(32, uint32_t)
BITS(64, uint64_t)
