// node: what kernels share that take a node of a ggml graph as it is: where an element lies, and
// what a parameter is.
#ifndef ROCM_KERNELS_NODE_H
#define ROCM_KERNELS_NODE_H

#include "rows.h"

struct place4 {
    u32 i[4];
};

DEVICE place4 split(const rk_tensor & t, u32 i) {
    place4 p;
    for (int d = 0; d < 3; d++) {
        u32 rest = i / t.ne[d];
        p.i[d] = i - rest * t.ne[d];
        i = rest;
    }
    p.i[3] = i;
    return p;
}

DEVICE u32 offset(const rk_tensor & t, u32 i0, u32 i1, u32 i2, u32 i3) {
    return i0 * t.stride[0] + i1 * t.stride[1] + i2 * t.stride[2] + i3 * t.stride[3];
}

template <class T> DEVICE T & element(const rk_tensor & t, u32 i0, u32 i1, u32 i2, u32 i3) {
    return ((T *) t.data)[offset(t, i0, i1, i2, i3)];
}

template <class T> DEVICE T & element(const rk_tensor & t, const place4 & p) {
    return element<T>(t, p.i[0], p.i[1], p.i[2], p.i[3]);
}

// Row r of a tensor, counted over its three outer dimensions.
struct line {
    u32 i1, i2, i3;
};
DEVICE line find_line(const rk_tensor & t, u32 r) {
    line l;
    u32 rest = r / t.ne[1];
    l.i1 = r - rest * t.ne[1];
    l.i3 = rest / t.ne[2];
    l.i2 = rest - l.i3 * t.ne[2];
    return l;
}
template <class T> DEVICE T * row_of(const rk_tensor & t, const line & l) {
    return (T *) t.data + offset(t, 0, l.i1, l.i2, l.i3);
}

DEVICE u32 count(const rk_tensor & t) {
    return t.ne[0] * t.ne[1] * t.ne[2] * t.ne[3];
}

DEVICE f32 float_param(const rk_node & args, int i) {
    return __builtin_bit_cast(f32, args.param[i]);
}

// A kernel with one work-item for each element of y: `i` is its number, `p` its place.
#define EACH_ELEMENT(name, T, ...)                                                                 \
    KERNEL(name, rk_node) {                                                                        \
        u32 i = global_index();                                                                    \
        if (i < args.n) {                                                                          \
            place4 p = split(args.y, i);                                                           \
            element<T>(args.y, p) = __VA_ARGS__(args, p);                                          \
        }                                                                                          \
    }

#endif
