// rows: what kernels share that give each row of a tensor to one group: where the row is, and sums
// over the group.
#ifndef ROCM_KERNELS_ROWS_H
#define ROCM_KERNELS_ROWS_H

#include "compat.h"

struct row_place {
    u32 i1, i2, i3;
    u32 at; // of its first element
};

DEVICE row_place find_row(const rk_rows & rows, u32 r) {
    row_place p;
    u32 rest = r / rows.dims[0];
    p.i1 = r - rest * rows.dims[0];
    p.i3 = rest / rows.dims[1];
    p.i2 = rest - p.i3 * rows.dims[1];
    p.at = p.i1 * rows.stride[0] + p.i2 * rows.stride[1] + p.i3 * rows.stride[2];
    return p;
}

struct pick_sum {
    template <class C> static __device__ C of(C a, C b) {
        return a + b;
    }
};
struct pick_max {
    template <class C> static __device__ C of(C a, C b) {
        return a > b || a != a ? a : b;
    }
};

// The values of all work-items become one, which all get. The tree is the same for every run, and
// so is the result.
template <class Pick, class C> DEVICE C over_group(C value) {
    __shared__ C lds[RK_BLOCK];
    u32 t = thread_index();
    barrier(); // the last use of lds is over
    lds[t] = value;
    for (u32 half = group_size() / 2; half > 0; half /= 2) {
        barrier();
        if (t < half) {
            lds[t] = Pick::of(lds[t], lds[t + half]);
        }
    }
    barrier();
    return lds[0];
}

#endif
