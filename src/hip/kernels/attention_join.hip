// attention_join: one result of the parts that attention left, a group for each row. There are few
// rows, and so nothing here waits twice for memory: a work-item has four columns of some of the
// parts on their way before it asks what each part counts.
#include "math.h"
#include "matmul.h"

enum { HELD = 8, LANES = 32 };

KERNEL(attention_join, rk_attention) {
    __shared__ f32 weights[RK_SPLITS], whole;
    __shared__ quad<f32> sums[RK_BLOCK];
    u32 rows = args.n_queries * args.share, row = group_index(), r = row % rows;
    u32 head = row / rows, batch = head / args.n_kv_heads, query = r / args.share;
    head = (head - batch * args.n_kv_heads) * args.share + r - query * args.share;
    u32 t = thread_index(), n = args.n_splits, step = RK_PART(args.v_size);
    u32 fours = args.v_size / 4, turns = RK_BLOCK / fours, turn = t / fours;
    const f32 * parts = args.parts + row * n * step;
    const f32 * mine = parts + (t - turn * fours) * 4;
    quad<f32> held[HELD];
#pragma unroll
    for (u32 i = 0; i < HELD; i++) {
        u32 s = turn + i * turns;
        held[i] = *(const quad<f32> *) (const void *) (mine + (s < n ? s : 0) * step);
    }
    if (t < LANES) {
        f32 none = -__builtin_inff(), most = none, total = 0, m[RK_SPLITS / LANES];
#pragma unroll
        for (u32 i = 0; i < RK_SPLITS / LANES; i++) {
            u32 s = t + i * LANES;
            m[i] = s < n ? parts[s * step + args.v_size] : none;
            most = m[i] > most ? m[i] : most;
        }
        most = max_lanes<LANES>(most);
        f32 sink = args.sinks ? args.sinks[head] : none;
        most = sink > most ? sink : most;
        f32 base = most == none ? 0 : most;
#pragma unroll
        for (u32 i = 0; i < RK_SPLITS / LANES; i++) {
            u32 s = t + i * LANES;
            f32 weight = m_exp(m[i] - base);
            weights[s] = weight;
            total += s < n ? parts[s * step + args.v_size + 1] * weight : 0;
        }
        total = sum_lanes<LANES>(total) + m_exp(sink - base);
        if (t == 0) {
            whole = total;
        }
    }
    barrier();
    quad<f32> sum = {};
#pragma unroll
    for (u32 i = 0; i < HELD; i++) {
        u32 s = turn + i * turns;
        f32 weight = s < n ? weights[s] : 0;
        for (u32 j = 0; j < 4; j++) {
            sum.v[j] += held[i].v[j] * weight;
        }
    }
    for (u32 s = turn + HELD * turns; s < n; s += turns) {
        quad<f32> more = *(const quad<f32> *) (const void *) (mine + s * step);
        for (u32 j = 0; j < 4; j++) {
            sum.v[j] += more.v[j] * weights[s];
        }
    }
    sums[t] = sum;
    barrier();
    f32 * y = (f32 *) args.y + head * args.y_stride[0] + query * args.y_stride[1] +
              batch * args.y_stride[2];
    for (u32 c = t; c < args.v_size; c += RK_BLOCK) {
        f32 all = 0;
        for (u32 i = 0; i < turns; i++) {
            all += sums[i * fours + c / 4].v[c % 4];
        }
        y[c] = whole > 0 ? all / whole : 0;
    }
}
