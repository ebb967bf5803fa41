// rope: pairs of elements turned by an angle of their position, whose cos and sin are tables.
#include "compat.h"

template <class T> DEVICE void rope(const rk_rope & args, bool interleaved) {
    typedef typename calc<T>::type C;
    u32 i = global_index(), half = args.n_columns / 2;
    if (i >= args.n_pairs) {
        return;
    }
    u32 row = i / half, d = i - row * half;
    u32 sequence = row / args.n_positions, position = row - sequence * args.n_positions;
    u32 table = position * half + d;
    if (args.batch_stride) {
        table += sequence / args.n_heads * args.batch_stride;
    }
    u32 at = row * args.n_columns + (interleaved ? 2 * d : d);
    u32 other = at + (interleaved ? 1 : half);
    const T * x = (const T *) args.x;
    T * y = (T *) args.y;
    C cos = widen(((const T *) args.cos)[table]), sin = widen(((const T *) args.sin)[table]);
    C a = widen(x[at]), b = widen(x[other]);
    y[at] = narrow<T>(a * cos - b * sin);
    y[other] = narrow<T>(a * sin + b * cos);
}

#define ROPE(t)                                                                                    \
    KERNEL(rope_##t, rk_rope) {                                                                    \
        rope<t>(args, false);                                                                      \
    }                                                                                              \
    KERNEL(rope_i_##t, rk_rope) {                                                                  \
        rope<t>(args, true);                                                                       \
    }
FOR_FLOATS(ROPE)
