// activation: y = f(x) with up to four parameters, as ggml's CPU computes it. Comparisons are
// written so that a NaN goes the way that it goes there.
#include "math.h"

DEVICE f32 hard_sigmoid(f32 x) {
    f32 v = (x + 3) / 6;
    return v > 0 ? (v < 1 ? v : 1) : 0;
}

DEVICE f32 leaky_relu(f32 x, f32 slope) {
    return (x > 0 ? x : 0) + slope * (x < 0 ? x : 0);
}

DEVICE f32 clamp(f32 x, f32 least, f32 most) {
    f32 v = x < most ? x : most;
    return v > least ? v : least;
}

DEVICE f32 xielu(f32 x, f32 alpha_n, f32 alpha_p, f32 beta, f32 eps) {
    f32 curve = x > 0 ? alpha_p * x * x : (m_expm1(x < eps ? x : eps) - x) * alpha_n;
    return curve + beta * x;
}

// name, value; x is the element, p are the parameters
#define OPS(X, t)                                                                                  \
    X(step, t, x > 0 ? 1.0f : 0.0f)                                                                \
    X(gelu_quick, t, x *(1 / (1 + m_exp(-1.702f * x))))                                            \
    X(hardswish, t, x * hard_sigmoid(x))                                                           \
    X(hardsigmoid, t, hard_sigmoid(x))                                                             \
    X(expm1, t, m_expm1(x))                                                                        \
    X(softplus, t, x > 20 ? x : m_log(1 + m_exp(x)))                                               \
    X(trunc, t, m_trunc(x))                                                                        \
    X(leaky_relu, t, leaky_relu(x, p[0]))                                                          \
    X(clamp, t, clamp(x, p[0], p[1]))                                                              \
    X(xielu, t, xielu(x, p[0], p[1], p[2], p[3]))

#define ACTIVATION(name, t, value)                                                                 \
    KERNEL(activation_##name##_##t, rk_activation) {                                               \
        u32 i = global_index();                                                                    \
        if (i < args.shape.n) {                                                                    \
            const uint32_t * const strides[2] = {args.x_stride, args.y_stride};                    \
            places<2> at = locate<2>(args.shape, i, strides);                                      \
            const f32 * p = args.param;                                                            \
            f32 x = widen(((const t *) args.x)[at.at[0]]);                                         \
            (void) p;                                                                              \
            ((t *) args.y)[at.at[1]] = narrow<t>(value);                                           \
        }                                                                                          \
    }

#ifndef RK_TYPES
#    define RK_TYPES(X) X(f32) X(f16) X(bf16)
#endif
#define ALL_OPS(t) OPS(ACTIVATION, t)
RK_TYPES(ALL_OPS)
