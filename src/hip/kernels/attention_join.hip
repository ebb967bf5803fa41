// attention_join: one result of the parts that attention left, a group for each row.
#include "math.h"

KERNEL(attention_join, rk_attention) {
    u32 rows = args.n_queries * args.share, row = group_index(), r = row % rows;
    u32 head = row / rows, batch = head / args.n_kv_heads, query = r / args.share;
    head = (head - batch * args.n_kv_heads) * args.share + r - query * args.share;
    u32 step = args.v_size + 2;
    const f32 * parts = args.parts + row * args.n_splits * step;
    f32 most = args.sinks ? args.sinks[head] : -__builtin_inff(), total = 0;
    for (u32 s = 0; s < args.n_splits; s++) {
        f32 m = parts[s * step + args.v_size];
        most = m > most ? m : most;
    }
    f32 base = most == -__builtin_inff() ? 0 : most;
    total = args.sinks ? m_exp(args.sinks[head] - base) : 0;
    for (u32 s = 0; s < args.n_splits; s++) {
        const f32 * end = parts + s * step + args.v_size;
        total += end[1] * m_exp(end[0] - base);
    }
    f32 * y = (f32 *) args.y + head * args.y_stride[0] + query * args.y_stride[1] +
              batch * args.y_stride[2];
    for (u32 i = thread_index(); i < args.v_size; i += group_size()) {
        f32 sum = 0;
        for (u32 s = 0; s < args.n_splits; s++) {
            sum += parts[s * step + i] * m_exp(parts[s * step + args.v_size] - base);
        }
        y[i] = total > 0 ? sum / total : 0;
    }
}
