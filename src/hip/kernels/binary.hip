// binary: y = f(a, b), with broadcasting by strides of 0.
#include "compat.h"

// Whole numbers wrap around, which unsigned ones may do and signed ones must not be asked to.
template <class C> struct arithmetic {
    static __device__ C add(C a, C b) {
        return a + b;
    }
    static __device__ C sub(C a, C b) {
        return a - b;
    }
    static __device__ C mul(C a, C b) {
        return a * b;
    }
    static __device__ C div(C a, C b) {
        return a / b;
    }
};

template <class C, class U> struct whole {
    static __device__ C add(C a, C b) {
        return (C) ((U) a + (U) b);
    }
    static __device__ C sub(C a, C b) {
        return (C) ((U) a - (U) b);
    }
    static __device__ C mul(C a, C b) {
        return (C) ((U) a * (U) b);
    }
    static __device__ C div(C a, C b) {
        bool negates = (C) -1 < 0 && b == (C) -1; // the one quotient that may not fit
        return b == 0 ? 0 : negates ? (C) (0 - (U) a) : a / b;
    }
};
template <> struct arithmetic<i32> : whole<i32, u32> {};
template <> struct arithmetic<i64> : whole<i64, uint64_t> {};
template <> struct arithmetic<u8> : whole<u8, u32> {};
template <> struct arithmetic<u32> : whole<u32, u32> {};

#define OPS(X, t)                                                                                  \
    X(add, t, arithmetic<C>::add(a, b))                                                            \
    X(sub, t, arithmetic<C>::sub(a, b))                                                            \
    X(mul, t, arithmetic<C>::mul(a, b))                                                            \
    X(div, t, arithmetic<C>::div(a, b))                                                            \
    X(minimum, t, a < b || a != a ? a : b)                                                         \
    X(maximum, t, a > b || a != a ? a : b)

#define BINARY(name, t, value)                                                                     \
    KERNEL(binary_##name##_##t, rk_binary) {                                                       \
        typedef calc<t>::type C;                                                                   \
        u32 i = global_index();                                                                    \
        if (i < args.shape.n) {                                                                    \
            const uint32_t * const strides[3] = {args.a_stride, args.b_stride, args.y_stride};     \
            places<3> at = locate<3>(args.shape, i, strides);                                      \
            C a = widen(((const t *) args.a)[at.at[0]]);                                           \
            C b = widen(((const t *) args.b)[at.at[1]]);                                           \
            ((t *) args.y)[at.at[2]] = narrow<t>(value);                                           \
        }                                                                                          \
    }

#ifndef RK_TYPES
#    define RK_TYPES FOR_ALL
#endif
#define ALL_OPS(t) OPS(BINARY, t)
RK_TYPES(ALL_OPS)
