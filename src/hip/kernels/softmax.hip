// softmax: along rows, with ggml's scale, mask, slopes and sinks. Three passes over the row: its
// greatest value, the sum, the quotients. exp is computed twice, which costs less than a trip to
// memory. A work-item sees the same columns in each pass, so y may be x.
#include "math.h"
#include "rows.h"

template <class T, class M> struct scaled_row {
    typedef typename calc<T>::type C;
    const T * x;
    const M * mask;
    u32 step;
    C scale, slope;

    __device__ C at(u32 c) const {
        C v = widen(x[c * step]) * scale;
        return mask ? v + slope * (C) widen(mask[c]) : v;
    }
};

// A slope is a power with a small whole exponent: multiplied out it needs no pow.
DEVICE f32 alibi_slope(const rk_softmax & args, u32 head) {
    u32 n = args.n_heads_log2;
    f32 slope = 1, base = head < n ? args.m0 : args.m1;
    u32 power = n == 0 ? 0 : head < n ? head + 1 : 2 * (head - n) + 1;
#pragma unroll 1
    for (; power; power >>= 1) {
        slope *= power & 1 ? base : 1;
        base *= base;
    }
    return slope;
}

template <class T, class M> DEVICE void softmax(const rk_softmax & args) {
    typedef typename calc<T>::type C;
    row_place place = find_row(args.rows, group_index());
    scaled_row<T, M> row;
    row.x = (const T *) args.x + place.at;
    row.step = args.rows.step;
    row.scale = (C) args.scale;
    row.slope = (C) alibi_slope(args, place.i2);
    row.mask = (const M *) args.mask;
    if (row.mask) {
        row.mask += place.i1 * args.mask_stride[0] +
                    place.i2 % args.mask_dims[0] * args.mask_stride[1] +
                    place.i3 % args.mask_dims[1] * args.mask_stride[2];
    }
    u32 n = args.rows.n_columns, first = thread_index(), by = group_size();
    C greatest = (C) -__builtin_inff();
    for (u32 c = first; c < n; c += by) {
        greatest = pick_max::of(row.at(c), greatest);
    }
    greatest = over_group<pick_max>(greatest);
    C sink = args.sinks ? (C) args.sinks[place.i2] : (C) -__builtin_inff();
    greatest = args.sinks ? pick_max::of(sink, greatest) : greatest;
    C sum = 0;
    for (u32 c = first; c < n; c += by) {
        sum += m_exp(row.at(c) - greatest);
    }
    sum = over_group<pick_sum>(sum);
    C share = 1 / (args.sinks ? sum + m_exp(sink - greatest) : sum);
    T * y = (T *) args.y + group_index() * n;
    for (u32 c = first; c < n; c += by) {
        y[c] = narrow<T>(m_exp(row.at(c) - greatest) * share);
    }
}

#define SOFTMAX(t)                                                                                 \
    KERNEL(softmax_##t, rk_softmax) {                                                              \
        softmax<t, t>(args);                                                                       \
    }
FOR_FLOATS(SOFTMAX)

KERNEL(softmax_mask16_f32, rk_softmax) {
    softmax<f32, f16>(args);
}
