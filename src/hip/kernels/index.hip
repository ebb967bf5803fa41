// index: index_select, gather and scatter_add. An index comes from data, so it is compared with the
// size of its dimension before it is used. scatter_add needs no atomics: one work-item walks all
// indices of its column, so the order of the additions is that of the data.
#include "compat.h"

template <class I> DEVICE bool in_range(I index, u32 dim) {
    return index >= 0 && (uint64_t) index < dim;
}

// Element e of the output is (l, i, r).
struct index_place {
    u32 l, i, r;
};

DEVICE index_place find_index(const rk_index & args, u32 e) {
    index_place p;
    u32 rest = e / args.n_right;
    p.r = e - rest * args.n_right;
    p.l = rest / args.n_ids;
    p.i = rest - p.l * args.n_ids;
    return p;
}

template <class T, class I> DEVICE void take(const rk_index & args, bool each) {
    u32 e = global_index();
    if (e >= args.n_left * args.n_ids * args.n_right) {
        return;
    }
    index_place p = find_index(args, e);
    I index = ((const I *) args.ids)[each ? e : p.i];
    T value = narrow<T>(0);
    if (in_range(index, args.dim)) {
        value = ((const T *) args.x)[(p.l * args.dim + (u32) index) * args.n_right + p.r];
    }
    ((T *) args.y)[e] = value;
}

template <class T, class I> DEVICE void scatter_add(const rk_index & args) {
    u32 e = global_index();
    if (e >= args.n_left * args.n_right) {
        return;
    }
    u32 l = e / args.n_right, r = e - l * args.n_right;
    T * y = (T *) args.y + l * args.dim * args.n_right + r;
    for (u32 i = 0; i < args.n_ids; i++) {
        u32 from = (l * args.n_ids + i) * args.n_right + r;
        I index = ((const I *) args.ids)[from];
        if (in_range(index, args.dim)) {
            T * to = &y[(u32) index * args.n_right];
            *to = narrow<T>(widen(*to) + widen(((const T *) args.x)[from]));
        }
    }
}

#define INDEX(t, index)                                                                            \
    KERNEL(index_select_##index##_##t, rk_index) {                                                 \
        take<t, index>(args, false);                                                               \
    }                                                                                              \
    KERNEL(gather_##index##_##t, rk_index) {                                                       \
        take<t, index>(args, true);                                                                \
    }                                                                                              \
    KERNEL(scatter_add_##index##_##t, rk_index) {                                                  \
        scatter_add<t, index>(args);                                                               \
    }

#ifndef RK_TYPES
#    define RK_TYPES FOR_ALL
#endif
RK_TYPES(INDEX, u8)
RK_TYPES(INDEX, u32)
RK_TYPES(INDEX, i64)
