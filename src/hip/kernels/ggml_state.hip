// ggml_state: layers that carry a matrix from token to token. A group holds RK_STATE_ROWS rows of
// one head's state of one sequence in registers, 16 lanes to a row, from the first token to the
// last: of memory the state is read once and written once. A row is what one element of the result
// is the sum over.
#include "math.h"
#include "node.h"

enum { LANES = RK_BLOCK / RK_STATE_ROWS, MOST = RK_STATE_COLUMNS / LANES };

struct state_place {
    u32 head, sequence, row, lane;
    bool in; // is there such a row?
};
DEVICE state_place find_state(u32 rows, u32 heads) {
    u32 parts = (rows + RK_STATE_ROWS - 1) / RK_STATE_ROWS, g = group_index();
    state_place p;
    u32 rest = g / parts;
    p.row = (g - rest * parts) * RK_STATE_ROWS + thread_index() / LANES;
    p.sequence = rest / heads;
    p.head = rest - p.sequence * heads;
    p.lane = thread_index() % LANES;
    p.in = p.row < rows;
    p.row = p.in ? p.row : 0; // reads something, and writes nothing
    return p;
}

// Column c of a row is held by lane c % LANES.
struct state_row {
    f32 v[MOST];
    __device__ void load(const f32 * from, u32 n, u32 step, u32 lane) {
#pragma unroll
        for (u32 k = 0; k < MOST; k++) {
            u32 c = k * LANES + lane;
            v[k] = c < n ? from[c * step] : 0;
        }
    }
    __device__ void store(f32 * to, u32 n, u32 step, u32 lane) const {
#pragma unroll
        for (u32 k = 0; k < MOST; k++) {
            u32 c = k * LANES + lane;
            if (c < n) {
                to[c * step] = v[k];
            }
        }
    }
};
#define STATE_COLUMNS(k, c, n)                                                                     \
    _Pragma("unroll") for (u32 k = 0, c = p.lane; k < MOST; k++, c += LANES) if (c < (n))

// ---- Mamba ----

DEVICE f32 ssm_conv(const rk_node & args, const place4 & p) {
    f32 sum = 0;
    for (u32 k = 0; k < args.x[1].ne[0]; k++) {
        sum += element<f32>(args.x[0], p.i[1] + k, p.i[0], p.i[2], 0) *
               element<f32>(args.x[1], k, p.i[0], 0, 0);
    }
    return sum;
}
EACH_ELEMENT(ggml_ssm_conv, f32, ssm_conv)

// Behind the results of all tokens there are the states: the last, and param[0] - 1 before it.
KERNEL(ggml_ssm_scan, rk_node) {
    const rk_tensor &s = args.x[0], &x = args.x[1], &a = args.x[3], &b = args.x[4], &c = args.x[5];
    u32 n = s.ne[0], rows = x.ne[0], heads = x.ne[1], tokens = x.ne[2], sequences = x.ne[3];
    state_place p = find_state(rows, heads);
    u32 part = p.head / (heads / b.ne[1]), which = element<u32>(args.x[6], p.sequence, 0, 0, 0);
    which = which < s.ne[3] ? which : 0;
    f32 *y = (f32 *) args.y.data, *states = y + count(x);
    state_row state;
    state.load(&element<f32>(s, 0, p.row, p.head, which), n, s.stride[0], p.lane);
    for (u32 t = 0; t < tokens; t++) {
        f32 dt = element<f32>(args.x[2], p.head, t, p.sequence, 0);
        dt = dt > 20 ? dt : m_log(1 + m_exp(dt));
        f32 v = element<f32>(x, p.row, p.head, t, p.sequence) * dt, sum = 0;
        f32 same = m_exp(dt * element<f32>(a, 0, p.head, 0, 0)); // Mamba 2: one for all columns
        const f32 * bs = &element<f32>(b, 0, part, t, p.sequence);
        const f32 * cs = &element<f32>(c, 0, part, t, p.sequence);
        STATE_COLUMNS(k, i, n) {
            f32 decay = a.ne[0] == 1 ? same : m_exp(dt * element<f32>(a, i, p.head, 0, 0));
            state.v[k] = state.v[k] * decay + bs[i * b.stride[0]] * v;
            sum += state.v[k] * cs[i * c.stride[0]];
        }
        sum = sum_lanes<LANES>(sum);
        if (p.in && p.lane == 0) {
            y[((p.sequence * tokens + t) * heads + p.head) * rows + p.row] = sum;
        }
        u32 slot = tokens - 1 - t;
        if (p.in && slot < (u32) args.param[0]) {
            u32 at = ((slot * sequences + p.sequence) * heads + p.head) * rows + p.row;
            state.store(states + at * n, n, 1, p.lane);
        }
    }
}

// ---- RWKV and gated linear attention: packed tensors of [size, heads, tokens] ----

struct packed {
    u32 size, heads, tokens, first, last; // tokens of the sequence
    const f32 * state;                    // of the head
    f32 *y, *new_state;
};
DEVICE packed find_packed(const rk_node & args, const rk_tensor & x, const rk_tensor & state,
                          const state_place & p) {
    packed k;
    k.size = x.ne[0];
    k.heads = x.ne[1];
    k.tokens = x.ne[2];
    u32 each = k.tokens / state.ne[1], at = (p.sequence * k.heads + p.head) * k.size * k.size;
    k.first = p.sequence * each;
    k.last = k.first + each;
    k.state = (const f32 *) state.data + at;
    k.y = (f32 *) args.y.data;
    k.new_state = k.y + k.size * k.heads * k.tokens + at;
    return k;
}
#define AT(i, place) (((const f32 *) args.x[i].data)[place])

// y[j] = sum of r[i] (u[i] k[i] v[j] + s[i][j]), and s[i][j] becomes s[i][j] w[i] + k[i] v[j].
KERNEL(ggml_rwkv_wkv6, rk_node) {
    state_place p = find_state(args.x[0].ne[0], args.x[0].ne[1]);
    packed m = find_packed(args, args.x[0], args.x[5], p);
    state_row state;
    state.load(m.state + p.row, m.size, m.size, p.lane);
    for (u32 t = m.first; t < m.last; t++) {
        u32 at = (t * m.heads + p.head) * m.size;
        f32 v = AT(1, at + p.row), sum = 0;
        STATE_COLUMNS(k, i, m.size) {
            f32 kv = AT(0, at + i) * v;
            sum += AT(2, at + i) * (AT(3, p.head * m.size + i) * kv + state.v[k]);
            state.v[k] = state.v[k] * AT(4, at + i) + kv;
        }
        sum = sum_lanes<LANES>(sum);
        if (p.in && p.lane == 0) {
            m.y[at + p.row] = sum;
        }
    }
    if (p.in) {
        state.store(m.new_state + p.row, m.size, m.size, p.lane);
    }
}

// s[i][j] becomes s[i][j] g[i] + k[i] v[j], and y[j] is the sum of q[i] s[i][j].
KERNEL(ggml_gated_linear_attn, rk_node) {
    state_place p = find_state(args.x[0].ne[0], args.x[0].ne[1]);
    packed m = find_packed(args, args.x[0], args.x[4], p);
    state_row state;
    state.load(m.state + p.row, m.size, m.size, p.lane);
    for (u32 t = m.first; t < m.last; t++) {
        u32 at = (t * m.heads + p.head) * m.size;
        f32 v = AT(1, at + p.row), sum = 0;
        STATE_COLUMNS(k, i, m.size) {
            state.v[k] = state.v[k] * AT(3, at + i) + AT(0, at + i) * v;
            sum += state.v[k] * (AT(2, at + i) * float_param(args, 0));
        }
        sum = sum_lanes<LANES>(sum);
        if (p.in && p.lane == 0) {
            m.y[at + p.row] = sum;
        }
    }
    if (p.in) {
        state.store(m.new_state + p.row, m.size, m.size, p.lane);
    }
}

// s[i][j] becomes s[i][j] w[j] + v[i] k[j] + b[j] (sum of a[j] s[i][j]); y[i] = sum of r[j] s[i][j].
KERNEL(ggml_rwkv_wkv7, rk_node) {
    state_place p = find_state(args.x[0].ne[0], args.x[0].ne[1]);
    packed m = find_packed(args, args.x[0], args.x[6], p);
    state_row state;
    state.load(m.state + p.row * m.size, m.size, 1, p.lane);
    for (u32 t = m.first; t < m.last; t++) {
        u32 at = (t * m.heads + p.head) * m.size;
        f32 v = AT(3, at + p.row), along = 0, sum = 0;
        STATE_COLUMNS(k, j, m.size) {
            along += AT(4, at + j) * state.v[k];
        }
        along = sum_lanes<LANES>(along);
        STATE_COLUMNS(k, j, m.size) {
            state.v[k] = state.v[k] * AT(1, at + j) + v * AT(2, at + j) + along * AT(5, at + j);
            sum += state.v[k] * AT(0, at + j);
        }
        sum = sum_lanes<LANES>(sum);
        if (p.in && p.lane == 0) {
            m.y[at + p.row] = sum;
        }
    }
    if (p.in) {
        state.store(m.new_state + p.row * m.size, m.size, 1, p.lane);
    }
}

// Row j of the state first fades by exp(g); then it gets k times what v[j] is more than it says.
KERNEL(ggml_gated_delta_net, rk_node) {
    const rk_tensor &q = args.x[0], &k = args.x[1], &v = args.x[2], &g = args.x[3];
    u32 size = v.ne[0], heads = v.ne[1], tokens = v.ne[2], sequences = v.ne[3];
    state_place p = find_state(size, heads);
    u32 q1 = p.head % q.ne[1], q3 = p.sequence / (sequences / q.ne[3]);
    u32 k1 = p.head % k.ne[1], k3 = p.sequence / (sequences / k.ne[3]);
    f32 *y = (f32 *) args.y.data, *states = y + count(v), scale = 1 / m_sqrt((f32) size);
    u32 mine = ((p.sequence * heads + p.head) * size + p.row) * size;
    state_row state;
    state.load((const f32 *) args.x[5].data + mine, size, 1, p.lane);
    for (u32 t = 0; t < tokens; t++) {
        const f32 *qs = &element<f32>(q, 0, q1, t, q3), *ks = &element<f32>(k, 0, k1, t, k3);
        const f32 * gs = &element<f32>(g, 0, p.head, t, p.sequence);
        f32 fade = m_exp(gs[0]), says = 0, sum = 0;
        STATE_COLUMNS(c, i, size) {
            state.v[c] *= g.ne[0] == 1 ? fade : m_exp(gs[i * g.stride[0]]);
            says += state.v[c] * ks[i * k.stride[0]];
        }
        says = sum_lanes<LANES>(says);
        f32 more = (element<f32>(v, p.row, p.head, t, p.sequence) - says) *
                   element<f32>(args.x[4], 0, p.head, t, p.sequence);
        STATE_COLUMNS(c, i, size) {
            state.v[c] += ks[i * k.stride[0]] * more;
            sum += state.v[c] * qs[i * q.stride[0]];
        }
        sum = sum_lanes<LANES>(sum);
        if (p.in && p.lane == 0) {
            y[((p.sequence * tokens + t) * heads + p.head) * size + p.row] = sum * scale;
        }
        u32 slot = tokens - 1 - t;
        if (p.in && slot < (u32) args.param[0]) {
            state.store(states + slot * sequences * heads * size * size + mine, size, 1, p.lane);
        }
    }
}

// ---- a lower triangle x[0] times y is x[1]: a work-item for each column ----

KERNEL(ggml_solve_tri, rk_node) {
    u32 i = global_index();
    if (i >= args.n) {
        return;
    }
    u32 rest = i / args.y.ne[0], i0 = i - rest * args.y.ne[0], i3 = rest / args.y.ne[2],
        i2 = rest - i3 * args.y.ne[2];
    for (u32 r = 0; r < args.y.ne[1]; r++) {
        f32 sum = 0;
        for (u32 c = 0; c < r; c++) {
            sum += element<f32>(args.x[0], c, r, i2, i3) * element<f32>(args.y, i0, c, i2, i3);
        }
        element<f32>(args.y, i0, r, i2, i3) =
            (element<f32>(args.x[1], i0, r, i2, i3) - sum) / element<f32>(args.x[0], r, r, i2, i3);
    }
}
