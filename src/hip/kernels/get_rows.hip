// get_rows: rows of x by their numbers, as f32. A number comes from data, so it is compared with
// the number of rows before it is used.
#include "compat.h"

#define GET_ROWS(t)                                                                                \
    KERNEL(get_rows_##t, rk_get_rows) {                                                            \
        u32 i = global_index();                                                                    \
        if (i < args.shape.n) {                                                                    \
            const uint32_t * const strides[3] = {args.x_stride, args.ids_stride, args.y_stride};   \
            places<3> at = locate<3>(args.shape, i, strides);                                      \
            u32 id = ((const u32 *) args.ids)[at.at[1]]; /* below 0 is very large */               \
            f32 value = 0;                                                                         \
            if (id < args.n_rows) {                                                                \
                value = widen(((const t *) args.x)[at.at[0] + id * args.row_stride]);              \
            }                                                                                      \
            ((f32 *) args.y)[at.at[2]] = value;                                                    \
        }                                                                                          \
    }

GET_ROWS(f32)
GET_ROWS(f16)
GET_ROWS(bf16)
