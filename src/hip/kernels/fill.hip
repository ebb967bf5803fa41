// fill: y = value.
#include "compat.h"

// By size alone: a value is its bits.
#define FILL(t)                                                                                    \
    KERNEL(fill_##t, rk_fill) {                                                                    \
        u32 i = global_index();                                                                    \
        if (i < args.shape.n) {                                                                    \
            const uint32_t * const strides[1] = {args.y_stride};                                   \
            places<1> at = locate<1>(args.shape, i, strides);                                      \
            if (sizeof(t) == 1) {                                                                  \
                ((u8 *) args.y)[at.at[0]] = (u8) args.value;                                       \
            } else if (sizeof(t) == 2) {                                                           \
                ((uint16_t *) args.y)[at.at[0]] = (uint16_t) args.value;                           \
            } else if (sizeof(t) == 4) {                                                           \
                ((u32 *) args.y)[at.at[0]] = (u32) args.value;                                     \
            } else {                                                                               \
                ((uint64_t *) args.y)[at.at[0]] = args.value;                                      \
            }                                                                                      \
        }                                                                                          \
    }

FOR_ALL(FILL)
