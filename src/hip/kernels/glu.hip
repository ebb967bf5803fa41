// glu: gated linear units, y = act(a) * b, as ggml's CPU computes them. Comparisons are written so
// that a NaN goes the way that it goes there.
#include "math.h"

DEVICE f32 reglu(f32 a, f32 b) {
    return a > 0 ? a * b : 0;
}

// Far from 0 there is nothing to compute: so an infinity of the gate makes no NaN, and a closed
// gate lets none through.
DEVICE f32 geglu(f32 a, f32 b) {
    f32 gate = 0.5f * a * (1 + m_tanh(0.79788456080286535588f * a * (1 + 0.044715f * a * a)));
    return a <= -10 ? 0 : a >= 10 ? a * b : gate * b;
}

DEVICE f32 self_gated(f32 a, f32 alpha) {
    return a / (1 + m_exp(-alpha * a));
}

DEVICE f32 at_most(f32 v, f32 limit) {
    return limit < v ? limit : v;
}

DEVICE f32 within(f32 v, f32 limit) {
    return v < -limit ? -limit : at_most(v, limit);
}

DEVICE f32 silu_back(f32 dy, f32 x) {
    f32 s = 1 / (1 + m_exp(-x));
    return dy * s * (1 + x * (1 - s));
}

// name, value; a and b are the elements, p are the parameters
#define OPS(X, t)                                                                                  \
    X(reglu, t, reglu(a, b))                                                                       \
    X(geglu, t, geglu(a, b))                                                                       \
    X(swiglu, t, self_gated(a, 1) * b)                                                             \
    X(swiglu_oai, t, self_gated(at_most(a, p[1]), p[0]) * (within(b, p[1]) + 1))                   \
    X(geglu_erf, t, 0.5f * a * (1 + m_erf(a * 0.70710678118654752440f)) * b)                       \
    X(geglu_quick, t, a *(1 / (1 + m_exp(-1.702f * a))) * b)                                       \
    X(swiglu_clamp, t, self_gated(at_most(a, p[1]), 1) * within(b, p[1]))                          \
    X(silu_back, t, silu_back(a, b))

#define GLU(name, t, value)                                                                        \
    KERNEL(glu_##name##_##t, rk_glu) {                                                             \
        u32 i = global_index();                                                                    \
        if (i < args.shape.n) {                                                                    \
            const uint32_t * const strides[3] = {args.a_stride, args.b_stride, args.y_stride};     \
            places<3> at = locate<3>(args.shape, i, strides);                                      \
            const f32 * p = args.param;                                                            \
            f32 a = widen(((const t *) args.a)[at.at[0]]);                                         \
            f32 b = widen(((const t *) args.b)[at.at[1]]);                                         \
            (void) p;                                                                              \
            ((t *) args.y)[at.at[2]] = narrow<t>(value);                                           \
        }                                                                                          \
    }

#ifndef RK_TYPES
#    define RK_TYPES(X) X(f32) X(f16) X(bf16)
#endif
#define ALL_OPS(t) OPS(GLU, t)
RK_TYPES(ALL_OPS)
