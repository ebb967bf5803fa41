// ggml_conv: ggml's convolutions, columns of them, and pools: one work-item for each element of the
// result. Sums are of f32 whatever the weights are.
#include "node.h"

// Where step `k` of a window falls: false: beside the tensor.
DEVICE bool falls(u32 out, i32 stride, u32 k, i32 dilation, i32 padding, u32 n, u32 * at) {
    i32 i = (i32) out * stride + (i32) k * dilation - padding;
    *at = (u32) i;
    return i >= 0 && i < (i32) n;
}

// ---- columns ----

template <class Y, class X> DEVICE Y im2col(const rk_node & args, const place4 & p) {
    const rk_tensor &w = args.x[0], &x = args.x[1];
    const i32 * a = args.param;
    bool flat = a[6] == 1;
    u32 kw = w.ne[0], kh = flat ? w.ne[1] : 1, rest = p.i[0] / kw, ikw = p.i[0] - rest * kw;
    u32 ic = rest / kh, ikh = rest - ic * kh, ix, iy = 0;
    bool in = falls(p.i[1], a[0], ikw, a[4], a[2], x.ne[0], &ix);
    if (!flat) {
        return in ? narrow<Y>((f32) widen(element<X>(x, ix, ic, p.i[2], 0))) : narrow<Y>(0);
    }
    in = falls(p.i[2], a[1], ikh, a[5], a[3], x.ne[1], &iy) && in;
    return in ? narrow<Y>((f32) widen(element<X>(x, ix, iy, ic, p.i[3]))) : narrow<Y>(0);
}

template <class Y, class X> DEVICE Y im2col_3d(const rk_node & args, const place4 & p) {
    const rk_tensor &w = args.x[0], &x = args.x[1];
    const i32 * a = args.param;
    u32 kw = w.ne[0], kh = w.ne[1], kd = w.ne[2], n_in = (u32) a[9];
    u32 rest = p.i[0] / kw, ikw = p.i[0] - rest * kw;
    u32 rest2 = rest / kh, ikh = rest - rest2 * kh;
    u32 ic = rest2 / kd, ikd = rest2 - ic * kd;
    u32 batches = x.ne[3] / n_in, depth = args.y.ne[3] / batches;
    u32 batch = p.i[3] / depth, od = p.i[3] - batch * depth, ix, iy, iz;
    bool in = falls(p.i[1], a[0], ikw, a[6], a[3], x.ne[0], &ix);
    in = falls(p.i[2], a[1], ikh, a[7], a[4], x.ne[1], &iy) && in;
    in = falls(od, a[2], ikd, a[8], a[5], x.ne[2], &iz) && in;
    return in ? narrow<Y>((f32) widen(element<X>(x, ix, iy, iz, batch * n_in + ic))) : narrow<Y>(0);
}

template <class T> DEVICE T col2im_1d(const rk_node & args, const place4 & p) {
    const rk_tensor & x = args.x[0];
    u32 step = (u32) args.param[0], n = x.ne[0] / (u32) args.param[1];
    u32 t = p.i[0] + (u32) args.param[2];
    u32 first = t < n ? 0 : (t - n) / step + 1, last = t / step;
    f32 sum = 0;
    for (u32 i = first; i <= last && i < x.ne[1]; i++) {
        sum += widen(element<T>(x, p.i[1] * n + t - i * step, i, 0, 0));
    }
    return narrow<T>(sum);
}

// ---- convolutions ----

template <class W> DEVICE f32 conv_2d(const rk_node & args, const place4 & p) {
    const rk_tensor &w = args.x[0], &x = args.x[1];
    const i32 * a = args.param;
    f32 sum = 0;
    for (u32 ky = 0; ky < w.ne[1]; ky++) {
        u32 ix, iy;
        if (!falls(p.i[1], a[1], ky, a[5], a[3], x.ne[1], &iy)) {
            continue;
        }
        for (u32 kx = 0; kx < w.ne[0]; kx++) {
            if (!falls(p.i[0], a[0], kx, a[4], a[2], x.ne[0], &ix)) {
                continue;
            }
            for (u32 ic = 0; ic < x.ne[2]; ic++) {
                sum += (f32) widen(element<W>(w, kx, ky, ic, p.i[2])) *
                       element<f32>(x, ix, iy, ic, p.i[3]);
            }
        }
    }
    return sum;
}

template <class W> DEVICE f32 conv_2d_dw(const rk_node & args, const place4 & p) {
    const rk_tensor &w = args.x[0], &x = args.x[1];
    const i32 * a = args.param;
    f32 sum = 0;
    for (u32 ky = 0; ky < w.ne[1]; ky++) {
        for (u32 kx = 0; kx < w.ne[0]; kx++) {
            u32 ix, iy;
            if (falls(p.i[1], a[1], ky, a[5], a[3], x.ne[1], &iy) &&
                falls(p.i[0], a[0], kx, a[4], a[2], x.ne[0], &ix)) {
                sum += (f32) widen(element<W>(w, kx, ky, 0, p.i[2])) *
                       element<f32>(x, ix, iy, p.i[2], p.i[3]);
            }
        }
    }
    return sum;
}

template <class W> DEVICE f32 conv_3d(const rk_node & args, const place4 & p) {
    const rk_tensor &w = args.x[0], &x = args.x[1];
    const i32 * a = args.param;
    u32 n_in = (u32) a[9], n_out = (u32) a[11];
    u32 batch = p.i[3] / n_out, oc = p.i[3] - batch * n_out;
    f32 sum = 0;
    for (u32 ic = 0; ic < n_in; ic++) {
        for (u32 kz = 0; kz < w.ne[2]; kz++) {
            for (u32 ky = 0; ky < w.ne[1]; ky++) {
                for (u32 kx = 0; kx < w.ne[0]; kx++) {
                    u32 ix, iy, iz;
                    if (falls(p.i[2], a[2], kz, a[8], a[5], x.ne[2], &iz) &&
                        falls(p.i[1], a[1], ky, a[7], a[4], x.ne[1], &iy) &&
                        falls(p.i[0], a[0], kx, a[6], a[3], x.ne[0], &ix)) {
                        sum += (f32) widen(element<W>(w, kx, ky, kz, oc * n_in + ic)) *
                               element<f32>(x, ix, iy, iz, batch * n_in + ic);
                    }
                }
            }
        }
    }
    return sum;
}

// What every element of x spreads over a window of y, seen from y: those whose window reaches it.
template <class W> DEVICE f32 conv_transpose_1d(const rk_node & args, const place4 & p) {
    const rk_tensor &w = args.x[0], &x = args.x[1];
    u32 step = (u32) args.param[0], t = p.i[0], n = w.ne[0];
    u32 first = t < n ? 0 : (t - n) / step + 1, last = t / step;
    f32 sum = 0;
    for (u32 i = first; i <= last && i < x.ne[0]; i++) {
        for (u32 ic = 0; ic < x.ne[1]; ic++) {
            sum += (f32) widen(element<W>(w, t - i * step, p.i[1], ic, 0)) *
                   element<f32>(x, i, ic, 0, 0);
        }
    }
    return sum;
}

template <class W> DEVICE f32 conv_transpose_2d(const rk_node & args, const place4 & p) {
    const rk_tensor &w = args.x[0], &x = args.x[1];
    u32 step = (u32) args.param[0], tx = p.i[0], ty = p.i[1];
    u32 x0 = tx < w.ne[0] ? 0 : (tx - w.ne[0]) / step + 1;
    u32 y0 = ty < w.ne[1] ? 0 : (ty - w.ne[1]) / step + 1;
    f32 sum = 0;
    for (u32 iy = y0; iy <= ty / step && iy < x.ne[1]; iy++) {
        for (u32 ix = x0; ix <= tx / step && ix < x.ne[0]; ix++) {
            for (u32 ic = 0; ic < x.ne[2]; ic++) {
                sum += (f32) widen(element<W>(w, tx - ix * step, ty - iy * step, p.i[2], ic)) *
                       element<f32>(x, ix, iy, ic, p.i[3]);
            }
        }
    }
    return sum;
}

// ---- pools: params[0] is 0 for the greatest, 1 for the mean ----

struct pool {
    f32 value;
    u32 n;
    bool greatest;
    __device__ pool(bool g) : value(g ? -0x1.fffffep127f : 0), n(0), greatest(g) {
    }
    __device__ void add(f32 v) {
        value = greatest ? (v > value ? v : value) : value + v;
        n++;
    }
};

// The mean is of those that fall into the row.
template <class T> DEVICE f32 pool_1d(const rk_node & args, const place4 & p) {
    const i32 * a = args.param;
    pool result(a[0] == 0);
    for (u32 k = 0; k < (u32) a[1]; k++) {
        u32 i;
        if (falls(p.i[0], a[2], k, 1, a[3], args.x[0].ne[0], &i)) {
            result.add((f32) widen(element<T>(args.x[0], i, p.i[1], p.i[2], p.i[3])));
        }
    }
    return a[0] == 0 ? result.value : result.n ? result.value / (f32) result.n : 0;
}

// Here it is of the whole window, with zeros around.
template <class T> DEVICE f32 pool_2d(const rk_node & args, const place4 & p) {
    const i32 * a = args.param;
    pool result(a[0] == 0);
    for (u32 ky = 0; ky < (u32) a[2]; ky++) {
        for (u32 kx = 0; kx < (u32) a[1]; kx++) {
            u32 ix, iy;
            if (falls(p.i[1], a[4], ky, 1, a[6], args.x[0].ne[1], &iy) &&
                falls(p.i[0], a[3], kx, 1, a[5], args.x[0].ne[0], &ix)) {
                result.add((f32) widen(element<T>(args.x[0], ix, iy, p.i[2], p.i[3])));
            }
        }
    }
    return a[0] == 0 ? result.value : result.value / (f32) (a[1] * a[2]);
}

#define COLUMNS(y, x)                                                                              \
    EACH_ELEMENT(ggml_im2col_##y##_##x, y, im2col<y, x>)                                           \
    EACH_ELEMENT(ggml_im2col_3d_##y##_##x, y, im2col_3d<y, x>)
#define CONVOLUTIONS(w)                                                                            \
    EACH_ELEMENT(ggml_conv_2d_##w, f32, conv_2d<w>)                                                \
    EACH_ELEMENT(ggml_conv_2d_dw_##w, f32, conv_2d_dw<w>)                                          \
    EACH_ELEMENT(ggml_conv_3d_##w, f32, conv_3d<w>)                                                \
    EACH_ELEMENT(ggml_conv_transpose_1d_##w, f32, conv_transpose_1d<w>)                            \
    EACH_ELEMENT(ggml_conv_transpose_2d_##w, f32, conv_transpose_2d<w>)                            \
    EACH_ELEMENT(ggml_pool_1d_##w, f32, pool_1d<w>)                                                \
    EACH_ELEMENT(ggml_pool_2d_##w, f32, pool_2d<w>)
#define PART_columns                                                                               \
    COLUMNS(f32, f32)                                                                              \
    COLUMNS(f16, f32)                                                                              \
    COLUMNS(f16, f16)                                                                              \
    EACH_ELEMENT(ggml_col2im_1d_f32, f32, col2im_1d<f32>)                                          \
    EACH_ELEMENT(ggml_col2im_1d_f16, f16, col2im_1d<f16>)                                          \
    EACH_ELEMENT(ggml_col2im_1d_bf16, bf16, col2im_1d<bf16>)
#define PART_f32 CONVOLUTIONS(f32)
#define PART_f16 CONVOLUTIONS(f16)

#ifndef RK_TYPES
#    define RK_TYPES(X) X(columns) X(f32) X(f16)
#endif
#define BY_NAME(t) PART_##t
RK_TYPES(BY_NAME)
