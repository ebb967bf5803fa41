// experts: which matrix multiplies which column, for the kernels of MUL_MAT_ID.
#ifndef ROCM_KERNELS_EXPERTS_H
#define ROCM_KERNELS_EXPERTS_H

#include "compat.h"

// A column is a pair of slot and token; pairs are counted slot by slot.
struct pair_place {
    u32 b, y;
};
DEVICE pair_place find_pair(const rk_matmul_id & args, u32 pair) {
    u32 token = pair / args.n_slots, slot = pair - token * args.n_slots;
    u32 b_slot = slot - slot / args.b_slots * args.b_slots; // b's repeat
    pair_place p;
    p.b = token * args.m.b_batch[0] + b_slot * args.m.b_stride[1];
    p.y = token * args.m.y_batch[0] + slot * args.m.y_stride[1];
    return p;
}
DEVICE u32 expert_of(const rk_matmul_id & args, u32 pair) {
    u32 token = pair / args.n_slots, slot = pair - token * args.n_slots;
    return (u32) args.ids[token * args.ids_stride[1] + slot * args.ids_stride[0]];
}

#endif
