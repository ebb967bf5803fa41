// affine: y = x * mul + add.
#include "compat.h"

template <class C> struct line {
    static __device__ C at(C x, f64 mul, f64 add) {
        return x * (C) mul + (C) add;
    }
};
#define IN_F64(t)                                                                                  \
    template <> struct line<t> {                                                                   \
        static __device__ t at(t x, f64 mul, f64 add) {                                            \
            f64 v = (f64) x * mul + add;                                                           \
            return (t) (int64_t) v;                                                                \
        }                                                                                          \
    };
FOR_INTEGERS(IN_F64)

#define AFFINE(t)                                                                                  \
    KERNEL(affine_##t, rk_affine) {                                                                \
        typedef calc<t>::type C;                                                                   \
        u32 i = global_index();                                                                    \
        if (i < args.shape.n) {                                                                    \
            const uint32_t * const strides[2] = {args.x_stride, args.y_stride};                    \
            places<2> at = locate<2>(args.shape, i, strides);                                      \
            C x = widen(((const t *) args.x)[at.at[0]]);                                           \
            ((t *) args.y)[at.at[1]] = narrow<t>(line<C>::at(x, args.mul, args.add));              \
        }                                                                                          \
    }

FOR_ALL(AFFINE)
