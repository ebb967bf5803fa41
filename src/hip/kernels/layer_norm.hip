// layer_norm: rows less their mean, divided by their deviation. The variance is summed over the
// differences from the mean: a difference of two sums would lose it where the mean is large.
#include "math.h"
#include "rows.h"

template <class T> DEVICE void layer_norm(const rk_norm & args) {
    typedef typename calc<T>::type C;
    const T * x = (const T *) args.x + find_row(args.rows, group_index()).at;
    const T *weight = (const T *) args.weight, *bias = (const T *) args.bias;
    bias += bias ? group_index() * args.bias_stride : 0;
    u32 n = args.rows.n_columns, step = args.rows.step, first = thread_index(), by = group_size();
    C sum = 0;
    for (u32 c = first; c < n; c += by) {
        sum += widen(x[c * step]);
    }
    C mean = over_group<pick_sum>(sum) / (C) n, squares = 0;
    for (u32 c = first; c < n; c += by) {
        C v = widen(x[c * step]) - mean;
        squares += v * v;
    }
    C scale = 1 / m_sqrt(over_group<pick_sum>(squares) / (C) n + (C) args.eps);
    T * y = (T *) args.y + group_index() * n;
    for (u32 c = first; c < n; c += by) {
        C v = (widen(x[c * step]) - mean) * scale;
        v = weight ? v * widen(weight[c]) : v;
        y[c] = narrow<T>(bias ? v + widen(bias[c]) : v);
    }
}

#define LAYER_NORM(t)                                                                              \
    KERNEL(layer_norm_##t, rk_norm) {                                                              \
        layer_norm<t>(args);                                                                       \
    }
FOR_FLOATS(LAYER_NORM)
