// unary: y = f(x). One row in OPS is one op for all float types.
#include "math.h"

// From -10 down it is 0 in every type, and so it is at -inf.
template <class T> DEVICE T gelu(T x) {
    T y = (T) 0.5 * x * (1 + m_tanh((T) 0.79788456080286535588 * x * (1 + (T) 0.044715 * x * x)));
    return x <= -10 ? 0 : y;
}

template <class T> DEVICE T sigmoid(T x) {
    return 1 / (1 + m_exp(-x));
}

// name, value; x is the element and p the parameter, both in the type that is computed in
#define OPS(X, t)                                                                                  \
    X(copy, t, x)                                                                                  \
    X(neg, t, -x)                                                                                  \
    X(recip, t, 1 / x)                                                                             \
    X(exp, t, m_exp(x))                                                                            \
    X(log, t, m_log(x))                                                                            \
    X(sin, t, m_sin(x))                                                                            \
    X(cos, t, m_cos(x))                                                                            \
    X(tanh, t, m_tanh(x))                                                                          \
    X(erf, t, m_erf(x))                                                                            \
    X(ceil, t, m_ceil(x))                                                                          \
    X(floor, t, m_floor(x))                                                                        \
    X(round, t, m_round(x))                                                                        \
    X(abs, t, m_abs(x))                                                                            \
    X(sqr, t, x * x)                                                                               \
    X(sqrt, t, m_sqrt(x))                                                                          \
    X(gelu, t, gelu(x))                                                                            \
    X(gelu_erf, t, (C) 0.5 * x * (1 + m_erf(x * (C) 0.70710678118654752440)))                      \
    X(relu, t, x > 0 ? x : (C) 0)                                                                  \
    X(silu, t, x * sigmoid(x))                                                                     \
    X(sigmoid, t, sigmoid(x))                                                                      \
    X(sign, t, (C) ((x > 0) - (x < 0)))                                                            \
    X(elu, t, x > 0 ? x : p * m_expm1(x))                                                          \
    X(powf, t, m_pow(x, p))

#define UNARY(name, t, value)                                                                      \
    KERNEL(unary_##name##_##t, rk_unary) {                                                         \
        typedef calc<t>::type C;                                                                   \
        u32 i = global_index();                                                                    \
        if (i < args.shape.n) {                                                                    \
            const uint32_t * const strides[2] = {args.x_stride, args.y_stride};                    \
            places<2> at = locate<2>(args.shape, i, strides);                                      \
            C x = widen(((const t *) args.x)[at.at[0]]), p = (C) args.param;                       \
            (void) p;                                                                              \
            ((t *) args.y)[at.at[1]] = narrow<t>(value);                                           \
        }                                                                                          \
    }

#ifndef RK_TYPES
#    define RK_TYPES FOR_FLOATS
#endif
#define ALL_OPS(t) OPS(UNARY, t)
RK_TYPES(ALL_OPS)
