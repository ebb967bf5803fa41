// rms_norm: rows divided by the root of their mean square.
#include "math.h"
#include "rows.h"

template <class T> DEVICE void rms_norm(const rk_norm & args) {
    typedef typename calc<T>::type C;
    const T * x = (const T *) args.x + find_row(args.rows, group_index()).at;
    const T * weight = (const T *) args.weight;
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
        y[c] = narrow<T>(weight ? v * widen(weight[c]) : v);
    }
}

#define RMS_NORM(t)                                                                                \
    KERNEL(rms_norm_##t, rk_norm) {                                                                \
        rms_norm<t>(args);                                                                         \
    }
FOR_FLOATS(RMS_NORM)
