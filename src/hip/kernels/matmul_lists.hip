// matmul_lists: for matmul_id, the columns of each expert in their order.
#include "experts.h"

// A group for each expert, and one more that clears what no expert computes.
KERNEL(matmul_id_lists, rk_matmul_id) {
    __shared__ u32 sums[2][RK_BLOCK];
    u32 expert = group_index(), t = thread_index(), before = 0, n = args.m.n_columns;
    if (expert == args.n_experts) {
        for (u32 pair = 0; pair < n; pair++) {
            if (expert_of(args, pair) >= args.n_experts) {
                f32 * y = (f32 *) args.m.y + find_pair(args, pair).y;
                for (u32 r = t; r < args.m.n_rows; r += group_size()) {
                    y[r * args.m.y_stride[0]] = 0;
                }
            }
        }
        return;
    }
    u32 * list = args.lists + args.n_experts + expert * n;
    for (u32 first = 0; first < n; first += RK_BLOCK) {
        bool mine = first + t < n && expert_of(args, first + t) == expert;
        u32 side = 0;
        sums[0][t] = mine;
        for (u32 by = 1; by < RK_BLOCK; by *= 2, side ^= 1) {
            barrier();
            sums[side ^ 1][t] = sums[side][t] + (t >= by ? sums[side][t - by] : 0);
        }
        barrier();
        if (mine) {
            list[before + sums[side][t] - 1] = first + t;
        }
        before += sums[side][RK_BLOCK - 1];
        barrier();
    }
    if (t == 0) {
        args.lists[expert] = before;
    }
}

