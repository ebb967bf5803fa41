// rms_norm: rows divided by the root of their mean square; times weights, plus a row or a tensor.
#include "math.h"
#include "rows.h"

template <class T> DEVICE void rms_norm(const rk_norm & args) {
    typedef typename calc<T>::type C;
    const T * x = (const T *) args.x + find_row(args.rows, group_index()).at;
    const T *weight = (const T *) args.weight, *bias = (const T *) args.bias;
    bias += bias ? group_index() * args.bias_stride : 0;
    u32 n = args.rows.n_columns, step = args.rows.step, first = thread_index(), by = group_size();
    C sum = 0;
    for (u32 c = first; c < n; c += by) {
        C v = widen(x[c * step]);
        sum += v * v;
    }
    C scale = 1 / m_sqrt(over_group<pick_sum>(sum) / (C) n + (C) args.eps);
    T * y = (T *) args.y + group_index() * n;
    for (u32 c = first; c < n; c += by) {
        C v = widen(x[c * step]) * scale;
        v = weight ? v * widen(weight[c]) : v;
        y[c] = narrow<T>(bias ? v + widen(bias[c]) : v);
    }
}

#define RMS_NORM(t)                                                                                \
    KERNEL(rms_norm_##t, rk_norm) {                                                                \
        rms_norm<t>(args);                                                                         \
    }
FOR_FLOATS(RMS_NORM)
