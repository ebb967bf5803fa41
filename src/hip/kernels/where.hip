// where: y = condition ? a : b, bit for bit.
#include "compat.h"

#define WHERE(t, c)                                                                                \
    KERNEL(where_##c##_##t, rk_where) {                                                            \
        u32 i = global_index();                                                                    \
        if (i < args.shape.n) {                                                                    \
            const uint32_t * const strides[4] = {args.condition_stride, args.a_stride,             \
                                                 args.b_stride, args.y_stride};                    \
            places<4> at = locate<4>(args.shape, i, strides);                                      \
            bool take_a = ((const c *) args.condition)[at.at[0]] != 0;                             \
            ((t *) args.y)[at.at[3]] =                                                             \
                take_a ? ((const t *) args.a)[at.at[1]] : ((const t *) args.b)[at.at[2]];          \
        }                                                                                          \
    }

#ifndef RK_TYPES
#    define RK_TYPES FOR_ALL
#endif
RK_TYPES(WHERE, u8)
RK_TYPES(WHERE, u32)
RK_TYPES(WHERE, i64)
