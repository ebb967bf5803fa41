// blocks_rows: rows of quantized tensors: to f32, by their numbers or all of them, and from f32.
// Of four numbers that are read, and of each block that is written, one work-item has all.
#include "blocks_grids.h"
#include "pack_k.h"

// ---- to f32 ----

template <class Q> DEVICE void unpack(const Q * row, u32 i, f32 * y) {
    four f = row_reader<Q>::at(row, i);
    __builtin_memcpy(y, f.v, sizeof f.v); // one store
}

template <class Q> DEVICE void get_rows(const rk_get_rows & args) {
    u32 i = global_index();
    if (i >= args.shape.n) {
        return;
    }
    const uint32_t * const strides[3] = {args.x_stride, args.ids_stride, args.y_stride};
    places<3> at = locate<3>(args.shape, i, strides);
    u32 id = ((const u32 *) args.ids)[at.at[1]]; // below 0 is very large
    f32 * y = (f32 *) args.y + at.at[2];
    if (id < args.n_rows) {
        unpack((const Q *) args.x + at.at[0] + id * args.row_stride, i % args.shape.dims[0] * 4, y);
    } else {
        y[0] = y[1] = y[2] = y[3] = 0;
    }
}

template <class Q> DEVICE void unpack_all(const rk_cast & args) {
    u32 i = global_index();
    if (i < args.shape.n) {
        const uint32_t * const strides[2] = {args.x_stride, args.y_stride};
        places<2> at = locate<2>(args.shape, i, strides);
        unpack((const Q *) args.x + at.at[0], i % args.shape.dims[0] * 4,
               (f32 *) args.y + at.at[1]);
    }
}

// ---- from f32 ----

template <class Q> DEVICE void pack_all(const rk_cast & args) {
    u32 i = global_index();
    if (i < args.shape.n) {
        const uint32_t * const strides[2] = {args.x_stride, args.y_stride};
        places<2> at = locate<2>(args.shape, i, strides);
        pack((const f32 *) args.x + at.at[0], (Q *) args.y + at.at[1]);
    }
}

template <class I, class Q> DEVICE void set_rows(const rk_set_rows & args) {
    u32 i = global_index();
    if (i >= args.shape.n) {
        return;
    }
    const uint32_t * const strides[3] = {args.x_stride, args.ids_stride, args.y_stride};
    places<3> at = locate<3>(args.shape, i, strides);
    I id = ((const I *) args.ids)[at.at[1]]; // unsigned: below 0 is very large
    if (id < args.n_rows) {
        pack((const f32 *) args.x + at.at[0],
             (Q *) args.y + at.at[2] + (u32) id * args.row_stride);
    }
}

#define READ(q)                                                                                    \
    KERNEL(get_rows_##q, rk_get_rows) {                                                            \
        get_rows<q>(args);                                                                         \
    }                                                                                              \
    KERNEL(unpack_##q, rk_cast) {                                                                  \
        unpack_all<q>(args);                                                                       \
    }
#define WRITE(q)                                                                                   \
    KERNEL(pack_##q, rk_cast) {                                                                    \
        pack_all<q>(args);                                                                         \
    }                                                                                              \
    KERNEL(set_rows_i32_##q, rk_set_rows) {                                                        \
        set_rows<u32, q>(args);                                                                    \
    }                                                                                              \
    KERNEL(set_rows_i64_##q, rk_set_rows) {                                                        \
        set_rows<uint64_t, q>(args);                                                               \
    }

#define PART_read   FOR_BLOCKS(READ)
#define PART_grids  FOR_GRIDS(READ)
#define PART_write  WRITE(q4_0) WRITE(q4_1) WRITE(q5_0) WRITE(q5_1) WRITE(q8_0)
#define PART_other  WRITE(iq4_nl) WRITE(mxfp4) WRITE(nvfp4) WRITE(q1_0) WRITE(q2_0) WRITE(tq1_0) WRITE(tq2_0)
#define PART_q2_K   WRITE(q2_K)
#define PART_q3_K   WRITE(q3_K)
#define PART_q4_K   WRITE(q4_K)
#define PART_q5_K   WRITE(q5_K)
#define PART_q6_K   WRITE(q6_K)
#define PART_iq4_xs WRITE(iq4_xs)
#ifndef RK_TYPES
#    define RK_TYPES(X) X(read) X(grids) X(write) X(other) X(q2_K) X(q3_K) X(q4_K) X(q5_K) X(q6_K) X(iq4_xs)
#endif
#define BY_NAME(part) PART_##part
RK_TYPES(BY_NAME)
