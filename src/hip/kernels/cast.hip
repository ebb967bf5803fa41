// cast: from every type to every type. A float that becomes a whole number is cut towards zero and
// stops at the limits of the type; NaN becomes 0. Between whole numbers the low bits stay.
#include "compat.h"

template <class I> struct limits;
template <> struct limits<i32> {
    static constexpr i32 least = -0x7fffffff - 1, most = 0x7fffffff;
};
template <> struct limits<i64> {
    static constexpr i64 least = -0x7fffffffffffffffll - 1, most = 0x7fffffffffffffffll;
};
template <> struct limits<u8> {
    static constexpr u8 least = 0, most = 0xff;
};
template <> struct limits<u32> {
    static constexpr u32 least = 0, most = 0xffffffffu;
};

// `most` may round up to a power of two, which is the first value that does not fit: >= is right
// for both.
template <class I, class F> DEVICE I saturate(F v) {
    if (!(v > (F) limits<I>::least)) {
        return v != v ? 0 : limits<I>::least;
    }
    return v >= (F) limits<I>::most ? limits<I>::most : (I) v;
}

template <class To, class From> struct convert { // between whole numbers
    static __device__ To from(From v) {
        return (To) v;
    }
};
#define FROM_FLOAT(I, F)                                                                           \
    template <> struct convert<I, F> {                                                             \
        static __device__ I from(F v) {                                                            \
            return saturate<I>(v);                                                                 \
        }                                                                                          \
    };
FOR_INTEGERS(FROM_FLOAT, f32)
FOR_INTEGERS(FROM_FLOAT, f64)
#define TO_SMALL(C, t)                                                                             \
    template <> struct convert<t, C> {                                                             \
        static __device__ t from(C v) {                                                            \
            return narrow<t>((f32) v);                                                             \
        }                                                                                          \
    };
TO_SMALL(f32, f16) TO_SMALL(f64, f16) FOR_INTEGERS(TO_SMALL, f16)
TO_SMALL(f32, bf16) TO_SMALL(f64, bf16) FOR_INTEGERS(TO_SMALL, bf16)

#define CAST(to, t)                                                                                \
    KERNEL(cast_##t##_##to, rk_cast) {                                                             \
        typedef calc<t>::type C;                                                                   \
        u32 i = global_index();                                                                    \
        if (i < args.shape.n) {                                                                    \
            const uint32_t * const strides[2] = {args.x_stride, args.y_stride};                    \
            places<2> at = locate<2>(args.shape, i, strides);                                      \
            C x = widen(((const t *) args.x)[at.at[0]]);                                           \
            ((to *) args.y)[at.at[1]] = convert<to, C>::from(x);                                   \
        }                                                                                          \
    }

#ifndef RK_TYPES
#    define RK_TYPES FOR_ALL
#endif
// Not FOR_ALL, which may be the one that is being expanded here.
#define TO_ALL(t)                                                                                  \
    CAST(f32, t) CAST(f16, t) CAST(bf16, t) CAST(f64, t)                                           \
    CAST(i32, t) CAST(i64, t) CAST(u8, t) CAST(u32, t)
RK_TYPES(TO_ALL)
