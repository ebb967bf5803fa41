// set_rows: rows of f32 put at places of y by their numbers. A number comes from data, so it is
// compared with the number of rows before it is used.
#include "compat.h"

template <class I, class T> DEVICE void set_rows(const rk_set_rows & args) {
    u32 i = global_index();
    if (i >= args.shape.n) {
        return;
    }
    const uint32_t * const strides[3] = {args.x_stride, args.ids_stride, args.y_stride};
    places<3> at = locate<3>(args.shape, i, strides);
    I id = ((const I *) args.ids)[at.at[1]]; // unsigned: below 0 is very large
    if (id < args.n_rows) {
        ((T *) args.y)[at.at[2] + (u32) id * args.row_stride] =
            narrow<T>(((const f32 *) args.x)[at.at[0]]);
    }
}

#define SET_ROWS(t)                                                                                \
    KERNEL(set_rows_i32_##t, rk_set_rows) {                                                        \
        set_rows<u32, t>(args);                                                                    \
    }                                                                                              \
    KERNEL(set_rows_i64_##t, rk_set_rows) {                                                        \
        set_rows<uint64_t, t>(args);                                                               \
    }

SET_ROWS(f32)
SET_ROWS(f16)
SET_ROWS(bf16)
