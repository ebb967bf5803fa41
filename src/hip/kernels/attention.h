// attention: what the kernels of FLASH_ATTN_EXT share: which query and head a row is, and where its
// result goes.
#ifndef ROCM_KERNELS_ATTENTION_H
#define ROCM_KERNELS_ATTENTION_H

#include "math.h"

DEVICE f32 slope_of(const rk_attention & args, u32 head) {
    u32 n = args.n_heads_log2;
    f32 slope = 1, base = head < n ? args.m0 : args.m1;
    u32 power = n == 0 ? 0 : head < n ? head + 1 : 2 * (head - n) + 1;
#pragma unroll 1
    for (; power; power >>= 1) {
        slope *= power & 1 ? base : 1;
        base *= base;
    }
    return slope;
}

struct row_at { // of the group's
    u32 query, head;
    bool in;
};
DEVICE row_at find_row(const rk_attention & args, u32 r, u32 kv_head) {
    row_at p;
    p.in = r < args.n_queries * args.share;
    r = p.in ? r : 0;
    p.query = r / args.share;
    p.head = kv_head * args.share + r - p.query * args.share;
    return p;
}

// Where a row's sums go, times what. Of one split that is y, with the share and the sink divided
// out; of several it is memory for attention_join, with the maximum and the share behind the sums,
// which the row's first work-item writes.
struct row_result {
    f32 * y;
    f32 keep;
};
DEVICE row_result finish_row(const rk_attention & args, const row_at & p, u32 row, u32 batch,
                             f32 most, f32 total, bool first) {
    row_result out;
    out.keep = 1;
    if (args.n_splits > 1) {
        row += group_index_y() * args.n_queries * args.share;
        out.y = args.parts + (row * args.n_splits + group_index_z()) * RK_PART(args.v_size);
        if (first) {
            out.y[args.v_size] = most;
            out.y[args.v_size + 1] = total;
        }
        return out;
    }
    out.y = (f32 *) args.y + p.head * args.y_stride[0] + p.query * args.y_stride[1] +
            batch * args.y_stride[2];
    if (args.sinks && args.sinks[p.head] > most) {
        out.keep = m_exp(most - args.sinks[p.head]);
        total = total * out.keep + 1;
    } else if (args.sinks) {
        total += m_exp(args.sinks[p.head] - most);
    }
    out.keep = total > 0 ? out.keep / total : 0;
    return out;
}

#endif
