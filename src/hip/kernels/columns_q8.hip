// columns_q8: columns of f32 to bytes, for products with a quantized matrix. Eight work-items make
// 32 numbers that share a scale.
#include "math.h"
#include "matmul.h"

KERNEL(columns_q8, rk_matmul) {
    batch_place place = find_batch(args, group_index_z());
    u32 k = global_index() * 4, column = group_index_y();
    bool in = k < args.n_inner; // for all of the eight, or none
    const f32 * b = (const f32 *) args.b + place.b + column * args.b_stride[1];
    f32 v[4] = {}, most = 0;
    for (u32 i = 0; i < 4; i++) {
        v[i] = in ? b[(k + i) * args.b_stride[0]] : 0;
        f32 size = v[i] < 0 ? -v[i] : v[i];
        most = size > most || size != size ? size : most; // a NaN stays
    }
    for (u32 by = 1; by < 8; by *= 2) {
        f32 other = shuffle_xor(most, by);
        most = other > most || other != other ? other : most;
    }
    f32 d = most / 127, each = most > 0 ? 127 / most : 0;
    u32 word = 0;
    f32 sum = 0; // of whole numbers: exact
    for (u32 i = 0; i < 4; i++) {
        f32 q = m_round(v[i] * each);
        sum += q;
        word |= ((u32) (i32) q & 255) << 8 * i;
    }
    sum += shuffle_xor(sum, 1);
    sum += shuffle_xor(sum, 2);
    f32 other = shuffle_xor(sum, 4);
    if (!in) {
        return;
    }
    u8 * bytes = (u8 *) args.y;
    bytes += (uint64_t) (group_index_z() * args.n_columns + column) * RK_Q8_BYTES(args.n_inner);
    *(u32 *) (bytes + k % 32 / 16 * (args.n_inner / 2) + k / 32 * 16 + k % 16) = word;
    if (k % 32 == 0) {
        rk_scale s = {d, {(int16_t) sum, (int16_t) other}};
        ((rk_scale *) (bytes + args.n_inner))[k / 32] = s;
    }
}
