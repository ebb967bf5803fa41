// compare: y = a < b and its like; 1 or 0 in a byte.
#include "compat.h"

#define OPS(X, t)                                                                                  \
    X(eq, t, ==)                                                                                   \
    X(ne, t, !=)                                                                                   \
    X(lt, t, <)                                                                                    \
    X(le, t, <=)                                                                                   \
    X(gt, t, >)                                                                                    \
    X(ge, t, >=)

#define COMPARE(name, t, op)                                                                       \
    KERNEL(compare_##name##_##t, rk_binary) {                                                      \
        u32 i = global_index();                                                                    \
        if (i < args.shape.n) {                                                                    \
            const uint32_t * const strides[3] = {args.a_stride, args.b_stride, args.y_stride};     \
            places<3> at = locate<3>(args.shape, i, strides);                                      \
            ((u8 *) args.y)[at.at[2]] = widen(((const t *) args.a)[at.at[0]])                      \
                op widen(((const t *) args.b)[at.at[1]]);                                          \
        }                                                                                          \
    }

#ifndef RK_TYPES
#    define RK_TYPES FOR_ALL
#endif
#define ALL_OPS(t) OPS(COMPARE, t)
RK_TYPES(ALL_OPS)
