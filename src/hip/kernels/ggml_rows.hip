// ggml_rows: ggml's ops that need a whole row, or all of a tensor: a group for each row of x[0] if
// nothing else is said.
#include "math.h"
#include "node.h"

#define EACH_ROW(name, function)                                                                   \
    KERNEL(name, rk_node) {                                                                        \
        function(args, find_line(args.x[0], group_index()));                                       \
    }
#define COLUMNS(c, n) for (u32 c = thread_index(); c < (n); c += group_size())

template <class T> DEVICE f32 sum_of_row(const rk_tensor & x, const line & l) {
    const T * row = row_of<T>(x, l);
    f32 sum = 0;
    COLUMNS(c, x.ne[0]) {
        sum += widen(row[c * x.stride[0]]);
    }
    return over_group<pick_sum>(sum);
}

DEVICE void mean(const rk_node & args, const line & l) {
    f32 sum = sum_of_row<f32>(args.x[0], l);
    if (thread_index() == 0) {
        *row_of<f32>(args.y, l) = sum / (f32) args.x[0].ne[0];
    }
}

// One group: all of x[0].
template <class T> DEVICE void sum_all(const rk_node & args) {
    const rk_tensor & x = args.x[0];
    f32 sum = 0;
    COLUMNS(i, count(x)) {
        sum += widen(element<T>(x, split(x, i)));
    }
    sum = over_group<pick_sum>(sum);
    if (thread_index() == 0) {
        *(T *) args.y.data = narrow<T>(sum);
    }
}

// One group.
KERNEL(ggml_count_equal, rk_node) {
    const rk_tensor & x = args.x[0];
    u32 n = 0;
    COLUMNS(i, count(x)) {
        place4 p = split(x, i);
        n += element<i32>(x, p) == element<i32>(args.x[1], p);
    }
    n = over_group<pick_sum>(n);
    if (thread_index() == 0) {
        *(i64 *) args.y.data = n;
    }
}

DEVICE void l2_norm(const rk_node & args, const line & l) {
    const f32 * x = row_of<f32>(args.x[0], l);
    f32 *y = row_of<f32>(args.y, l), sum = 0, eps = float_param(args, 0);
    u32 step = args.x[0].stride[0];
    COLUMNS(c, args.x[0].ne[0]) {
        sum += x[c * step] * x[c * step];
    }
    f32 length = m_sqrt(over_group<pick_sum>(sum)), scale = 1 / (length > eps ? length : eps);
    COLUMNS(c, args.x[0].ne[0]) {
        y[c * args.y.stride[0]] = x[c * step] * scale;
    }
}

// A group for each set of channels (dimension 2) and each i3.
KERNEL(ggml_group_norm, rk_node) {
    const rk_tensor & x = args.x[0];
    u32 sets = (u32) args.param[0], each = (x.ne[2] + sets - 1) / sets;
    u32 i3 = group_index() / sets, set = group_index() - i3 * sets, first = set * each;
    u32 last = first + each < x.ne[2] ? first + each : x.ne[2];
    u32 plane = x.ne[0] * x.ne[1], n = last > first ? (last - first) * plane : 0;
    f32 sum = 0, squares = 0;
    COLUMNS(i, n) {
        sum += element<f32>(x, i % x.ne[0], i / x.ne[0] % x.ne[1], first + i / plane, i3);
    }
    f32 mean = over_group<pick_sum>(sum) / (f32) n;
    COLUMNS(i, n) {
        f32 v =
            element<f32>(x, i % x.ne[0], i / x.ne[0] % x.ne[1], first + i / plane, i3) - mean;
        squares += v * v;
    }
    f32 scale = 1 / m_sqrt(over_group<pick_sum>(squares) / (f32) n + float_param(args, 1));
    COLUMNS(i, n) {
        u32 i0 = i % x.ne[0], i1 = i / x.ne[0] % x.ne[1], i2 = first + i / plane;
        element<f32>(args.y, i0, i1, i2, i3) = (element<f32>(x, i0, i1, i2, i3) - mean) * scale;
    }
}

// As many elements at a time as the group has work-items, and what came before on top.
DEVICE void cumsum(const rk_node & args, const line & l) {
    __shared__ f32 sums[2][RK_BLOCK];
    const f32 * x = row_of<f32>(args.x[0], l);
    f32 *y = row_of<f32>(args.y, l), before = 0;
    u32 t = thread_index(), n = args.x[0].ne[0];
    for (u32 c = 0; c < n; c += group_size()) {
        u32 side = 0;
        sums[0][t] = c + t < n ? x[(c + t) * args.x[0].stride[0]] : 0;
        for (u32 by = 1; by < group_size(); by *= 2, side ^= 1) {
            barrier();
            sums[side ^ 1][t] = sums[side][t] + (t >= by ? sums[side][t - by] : 0);
        }
        barrier();
        if (c + t < n) {
            y[(c + t) * args.y.stride[0]] = before + sums[side][t];
        }
        before += sums[side][group_size() - 1];
        barrier();
    }
}

// ---- losses and gradients ----

struct exponents { // of a row: its greatest, and log of the sum of exp(x - greatest)
    f32 greatest, log_sum;
};
DEVICE exponents row_exponents(const rk_tensor & x, const f32 * row) {
    exponents e;
    f32 greatest = -__builtin_inff(), sum = 0;
    COLUMNS(c, x.ne[0]) {
        greatest = pick_max::of(row[c * x.stride[0]], greatest);
    }
    e.greatest = over_group<pick_max>(greatest);
    COLUMNS(c, x.ne[0]) {
        sum += m_exp(row[c * x.stride[0]] - e.greatest);
    }
    e.log_sum = m_log(over_group<pick_sum>(sum));
    return e;
}

// One group: logits x[0], labels x[1].
KERNEL(ggml_cross_entropy_loss, rk_node) {
    const rk_tensor & x = args.x[0];
    u32 rows = x.ne[1] * x.ne[2] * x.ne[3];
    f32 sum = 0;
    for (u32 r = 0; r < rows; r++) {
        line l = find_line(x, r);
        const f32 *row = row_of<f32>(x, l), *labels = row_of<f32>(args.x[1], l);
        exponents e = row_exponents(x, row);
        COLUMNS(c, x.ne[0]) {
            sum += labels[c * args.x[1].stride[0]] *
                   (row[c * x.stride[0]] - e.greatest - e.log_sum);
        }
    }
    sum = over_group<pick_sum>(sum);
    if (thread_index() == 0) {
        *(f32 *) args.y.data = -sum / (f32) rows;
    }
}

// A group for each row of logits x[1]; labels x[2]; the loss's gradient x[0].
KERNEL(ggml_cross_entropy_loss_back, rk_node) {
    const rk_tensor & x = args.x[1];
    line l = find_line(x, group_index());
    const f32 *row = row_of<f32>(x, l), *labels = row_of<f32>(args.x[2], l);
    f32 *y = row_of<f32>(args.y, l), share = *(const f32 *) args.x[0].data;
    share /= (f32) (x.ne[1] * x.ne[2] * x.ne[3]);
    exponents e = row_exponents(x, row);
    COLUMNS(c, x.ne[0]) {
        f32 soft = m_exp(row[c * x.stride[0]] - e.greatest - e.log_sum);
        y[c * args.y.stride[0]] = (soft - labels[c * args.x[2].stride[0]]) * share;
    }
}

DEVICE f32 row_product(const rk_node & args, const f32 * a, const f32 * b) {
    f32 sum = 0;
    COLUMNS(c, args.x[0].ne[0]) {
        sum += a[c * args.x[0].stride[0]] * b[c * args.x[1].stride[0]];
    }
    return over_group<pick_sum>(sum);
}

// The gradient x[0] of a softmax whose result is x[1].
DEVICE void soft_max_back(const rk_node & args, const line & l) {
    const f32 *dy = row_of<f32>(args.x[0], l), *s = row_of<f32>(args.x[1], l);
    f32 *y = row_of<f32>(args.y, l), dot = row_product(args, dy, s);
    COLUMNS(c, args.x[0].ne[0]) {
        y[c * args.y.stride[0]] = float_param(args, 0) * s[c * args.x[1].stride[0]] *
                                  (dy[c * args.x[0].stride[0]] - dot);
    }
}

// The gradient x[0] of a norm of x[1].
DEVICE void rms_norm_back(const rk_node & args, const line & l) {
    const f32 *dz = row_of<f32>(args.x[0], l), *x = row_of<f32>(args.x[1], l);
    f32 *y = row_of<f32>(args.y, l), dot = row_product(args, dz, x), squares = 0;
    u32 n = args.x[0].ne[0];
    COLUMNS(c, n) {
        f32 v = x[c * args.x[1].stride[0]];
        squares += v * v;
    }
    f32 sum = over_group<pick_sum>(squares) + float_param(args, 0) * (f32) n;
    f32 scale = 1 / m_sqrt(sum / (f32) n);
    COLUMNS(c, n) {
        y[c * args.y.stride[0]] =
            (dz[c * args.x[0].stride[0]] - x[c * args.x[1].stride[0]] * (dot / sum)) * scale;
    }
}

// ---- steps of optimizers: one work-item for each element; x[0] is changed in place ----

// Gradient x[1], momenta x[2] and x[3]; x[4]: alpha, beta1, beta2, eps, decay, and what corrects
// the momenta of the first steps.
KERNEL(ggml_opt_step_adamw, rk_node) {
    u32 i = global_index();
    if (i < args.n) {
        place4 p = split(args.x[0], i);
        const f32 * a = (const f32 *) args.x[4].data;
        f32 g = element<f32>(args.x[1], p);
        f32 &m = element<f32>(args.x[2], p), &v = element<f32>(args.x[3], p);
        f32 & w = element<f32>(args.x[0], p);
        m = m * a[1] + g * (1 - a[1]);
        v = v * a[2] + g * g * (1 - a[2]);
        w = w * (1 - a[0] * a[4]) - a[0] * (m * a[5]) / (m_sqrt(v * a[6]) + a[3]);
    }
}

KERNEL(ggml_opt_step_sgd, rk_node) {
    u32 i = global_index();
    if (i < args.n) {
        place4 p = split(args.x[0], i);
        const f32 * a = (const f32 *) args.x[2].data;
        f32 & w = element<f32>(args.x[0], p);
        w = w * (1 - a[0] * a[1]) - a[0] * element<f32>(args.x[1], p);
    }
}

EACH_ROW(ggml_mean, mean)
EACH_ROW(ggml_l2_norm, l2_norm)
EACH_ROW(ggml_cumsum, cumsum)
EACH_ROW(ggml_soft_max_back, soft_max_back)
EACH_ROW(ggml_rms_norm_back, rms_norm_back)
KERNEL(ggml_sum_f32, rk_node) {
    sum_all<f32>(args);
}
KERNEL(ggml_sum_f16, rk_node) {
    sum_all<f16>(args);
}
KERNEL(ggml_sum_bf16, rk_node) {
    sum_all<bf16>(args);
}
