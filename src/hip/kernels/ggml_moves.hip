// ggml_moves: ggml's ops that put numbers elsewhere, or leave some out: one work-item for each
// element of the result, which looks where its number comes from.
#include "math.h"
#include "node.h"

// x[0] + the row of x[1] that x[2] names. A number that is no row's adds nothing.
DEVICE f32 add_id(const rk_node & args, const place4 & p) {
    u32 id = element<u32>(args.x[2], p.i[1], p.i[2], 0, 0);
    f32 v = element<f32>(args.x[0], p);
    return id < args.x[1].ne[1] ? v + element<f32>(args.x[1], p.i[0], id, 0, 0) : v;
}

DEVICE u32 wrap(i32 i, u32 n) { // i may be far off
    i32 r = i % (i32) n;
    return (u32) (r < 0 ? r + (i32) n : r);
}

// Zeros, or with params[8] the other end, on both sides of x.
DEVICE f32 pad(const rk_node & args, const place4 & p) {
    const rk_tensor & x = args.x[0];
    u32 from[4];
    bool inside = true;
    for (int d = 0; d < 4; d++) {
        i32 at = (i32) p.i[d] - args.param[2 * d];
        inside = inside && at >= 0 && at < (i32) x.ne[d];
        from[d] = args.param[8] ? wrap(at, x.ne[d]) : (u32) at;
    }
    return inside || args.param[8] ? element<f32>(x, from[0], from[1], from[2], from[3]) : 0;
}

DEVICE f32 pad_reflect_1d(const rk_node & args, const place4 & p) {
    const rk_tensor & x = args.x[0];
    i32 at = (i32) p.i[0] - args.param[0], last = (i32) x.ne[0] - 1;
    at = at < 0 ? -at : at > last ? 2 * last - at : at;
    return element<f32>(x, (u32) at, p.i[1], p.i[2], p.i[3]);
}

DEVICE f32 roll(const rk_node & args, const place4 & p) {
    const rk_tensor & x = args.x[0];
    u32 from[4];
    for (int d = 0; d < 4; d++) {
        from[d] = wrap((i32) p.i[d] - args.param[d] % (i32) x.ne[d], x.ne[d]);
    }
    return element<f32>(x, from[0], from[1], from[2], from[3]);
}

DEVICE f32 diag(const rk_node & args, const place4 & p) {
    return p.i[0] == p.i[1] ? element<f32>(args.x[0], p.i[0], 0, p.i[2], p.i[3]) : 0;
}

template <class Less> DEVICE f32 diag_mask(const rk_node & args, const place4 & p) {
    bool out = (i32) p.i[0] > args.param[0] + (i32) p.i[1];
    return out ? Less::value() : element<f32>(args.x[0], p);
}
struct less_inf {
    static __device__ f32 value() {
        return -__builtin_inff();
    }
};
struct less_zero {
    static __device__ f32 value() {
        return 0;
    }
};

// ggml's enum: upper with the diagonal, upper, lower with it, lower.
DEVICE f32 tri(const rk_node & args, const place4 & p) {
    u32 c = p.i[0], r = p.i[1];
    bool keep = args.param[0] == 0   ? c >= r
                : args.param[0] == 1 ? c > r
                : args.param[0] == 2 ? c <= r
                                     : c < r;
    return keep ? element<f32>(args.x[0], p) : 0;
}

DEVICE f32 fill_f32(const rk_node & args, const place4 &) {
    return float_param(args, 0);
}
DEVICE f16 fill_f16(const rk_node & args, const place4 &) {
    return narrow<f16>(float_param(args, 0));
}

DEVICE f32 arange(const rk_node & args, const place4 & p) {
    return float_param(args, 0) + float_param(args, 2) * (f32) p.i[0];
}

// Cosines, then sines, of a time multiplied by powers that fall to 1 / params[1].
DEVICE f32 timestep_embedding(const rk_node & args, const place4 & p) {
    u32 half = (u32) args.param[0] / 2, j = p.i[0];
    if (j >= 2 * half) {
        return 0;
    }
    f32 time = element<f32>(args.x[0], p.i[1], 0, 0, 0);
    u32 k = j < half ? j : j - half;
    f32 angle = time * m_exp(-m_log((f32) args.param[1]) * (f32) k / (f32) half);
    return j < half ? m_cos(angle) : m_sin(angle);
}

// Of the rows of x that of the distance of two places, which is -(n - 1) in the first one.
DEVICE f16 get_rel_pos(const rk_node & args, const place4 & p) {
    return element<f16>(args.x[0], p.i[0], args.y.ne[1] - 1 - p.i[1] + p.i[2], 0, 0);
}

// The sum of all elements of x that lie on the same one of y.
DEVICE f32 repeat_back(const rk_node & args, const place4 & p) {
    const rk_tensor &x = args.x[0], &y = args.y;
    f32 sum = 0;
    for (u32 i3 = p.i[3]; i3 < x.ne[3]; i3 += y.ne[3]) {
        for (u32 i2 = p.i[2]; i2 < x.ne[2]; i2 += y.ne[2]) {
            for (u32 i1 = p.i[1]; i1 < x.ne[1]; i1 += y.ne[1]) {
                for (u32 i0 = p.i[0]; i0 < x.ne[0]; i0 += y.ne[0]) {
                    sum += element<f32>(x, i0, i1, i2, i3);
                }
            }
        }
    }
    return sum;
}

// The sum of the rows of x whose number in x[1] is this row's.
template <class T> DEVICE f32 get_rows_back(const rk_node & args, const place4 & p) {
    f32 sum = 0;
    for (u32 r = 0; r < args.x[1].ne[0]; r++) {
        if (element<u32>(args.x[1], r, 0, 0, 0) == p.i[1]) {
            sum += widen(element<T>(args.x[0], p.i[0], r, 0, 0));
        }
    }
    return sum;
}

EACH_ELEMENT(ggml_add_id, f32, add_id)
EACH_ELEMENT(ggml_pad, f32, pad)
EACH_ELEMENT(ggml_pad_reflect_1d, f32, pad_reflect_1d)
EACH_ELEMENT(ggml_roll, f32, roll)
EACH_ELEMENT(ggml_diag, f32, diag)
EACH_ELEMENT(ggml_diag_mask_inf, f32, diag_mask<less_inf>)
EACH_ELEMENT(ggml_diag_mask_zero, f32, diag_mask<less_zero>)
EACH_ELEMENT(ggml_tri, f32, tri)
EACH_ELEMENT(ggml_fill_f32, f32, fill_f32)
EACH_ELEMENT(ggml_fill_f16, f16, fill_f16)
EACH_ELEMENT(ggml_arange, f32, arange)
EACH_ELEMENT(ggml_timestep_embedding, f32, timestep_embedding)
EACH_ELEMENT(ggml_get_rel_pos_f16, f16, get_rel_pos)
EACH_ELEMENT(ggml_repeat_back, f32, repeat_back)
EACH_ELEMENT(ggml_get_rows_back_f32, f32, get_rows_back<f32>)
EACH_ELEMENT(ggml_get_rows_back_f16, f32, get_rows_back<f16>)
