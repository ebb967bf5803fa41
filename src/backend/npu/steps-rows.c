// steps-rows: sums over rows and what is made of them, and the steps of an optimizer: GROUP_NORM,
// RMS_NORM_BACK, SOFT_MAX_BACK, CROSS_ENTROPY_LOSS_BACK, OPT_STEP_SGD, OPT_STEP_ADAMW.
#include "steps.h"

static bool all_f32(const struct ggml_tensor * node) {
    bool ok = node->type == GGML_TYPE_F32;
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        ok = ok && (!node->src[i] || node->src[i]->type == GGML_TYPE_F32);
    }
    return ok;
}

static struct view a_number_a_row(struct steps * s, const struct view * v) {
    return steps_temp(s, GGML_TYPE_F32, 1, v->ne[1], v->ne[2], v->ne[3]);
}

// The sum of products of two rows each.
static struct view dot(struct steps * s, struct view a, struct view b) {
    struct view product = steps_like(s, &a), sum = a_number_a_row(s, &a);
    steps_binary(s, KERNEL_OP_MUL, a, b, product);
    steps_rows(s, KERNEL_OP_SUM_ROWS, product, sum, 0, 0);
    return sum;
}

// A row that is too long for one core is normed by hand: its mean is that of its pieces.
static void norm_long(struct steps * s, struct view a, struct view to, int64_t pieces, float eps) {
    int64_t n = a.ne[0], rows = a.ne[1];
    struct view part = steps_temp(s, GGML_TYPE_F32, 1, pieces, rows, 1),
                one = steps_temp(s, GGML_TYPE_F32, 1, rows, 1, 1), square = steps_like(s, &a);
    steps_rows(s, KERNEL_OP_MEAN, steps_as(&a, n / pieces, pieces, rows, 1), part, 0, 0);
    steps_rows(s, KERNEL_OP_MEAN, steps_as(&part, pieces, rows, 1, 1), one, 0, 0);
    steps_binary(s, KERNEL_OP_SUB, a, one, to);
    steps_unary(s, KERNEL_OP_SQR, to, square);
    steps_rows(s, KERNEL_OP_MEAN, steps_as(&square, n / pieces, pieces, rows, 1), part, 0, 0);
    steps_rows(s, KERNEL_OP_MEAN, steps_as(&part, pieces, rows, 1, 1), one, 0, 0);
    steps_params(s, KERNEL_OP_SCALE, one, one, 1, eps);
    steps_unary(s, KERNEL_OP_SQRT, one, one);
    steps_binary(s, KERNEL_OP_DIV, to, one, to);
}

static void norm(struct steps * s, struct view a, struct view to, float eps) {
    enum { LONG = 8192 };
    int64_t pieces = 1;
    while (a.ne[0] / pieces > LONG) {
        pieces++;
        while (a.ne[0] % pieces && pieces < a.ne[0]) {
            pieces++;
        }
    }
    if (pieces == 1) {
        steps_rows(s, KERNEL_OP_NORM, a, to, eps, 0);
    } else {
        norm_long(s, a, to, pieces, eps);
    }
}

// Channels of a group lie behind each other: they are a row.
void steps_group_norm(struct steps * s, const struct ggml_tensor * node) {
    struct view a = steps_src(s, 0), to = steps_dst(s);
    int64_t groups = node->op_params[0], plane = a.ne[0] * a.ne[1];
    steps_need(s,
               all_f32(node) && groups > 0 && groups <= a.ne[2] && view_is_packed(&a) &&
                   view_is_packed(&to) && ggml_are_same_shape(node, node->src[0]),
               "datatypes, shapes or strides");
    if (s->status != ST_OK) {
        return;
    }
    int64_t each = (a.ne[2] + groups - 1) / groups, whole = a.ne[2] / each, rest = a.ne[2] % each;
    float eps = steps_float(node, 1);
    if (!rest) {
        norm(s, steps_as(&a, plane * each, whole * a.ne[3], 1, 1),
             steps_as(&to, plane * each, whole * a.ne[3], 1, 1), eps);
        return;
    }
    for (int64_t i3 = 0; i3 < a.ne[3] && s->status == ST_OK; i3++) {
        struct view x = steps_row(a, 3, i3, 1), y = steps_row(to, 3, i3, 1);
        norm(s, steps_as(&x, plane * each, whole, 1, 1), steps_as(&y, plane * each, whole, 1, 1),
             eps);
        x = steps_row(x, 2, whole * each, rest), y = steps_row(y, 2, whole * each, rest);
        norm(s, steps_as(&x, plane * rest, 1, 1, 1), steps_as(&y, plane * rest, 1, 1, 1), eps);
    }
}

// dx = (dz - x (x dz) / (x x + n eps)) / sqrt((x x) / n + eps)
void steps_rms_norm_back(struct steps * s, const struct ggml_tensor * node) {
    struct view dz = steps_src(s, 0), x = steps_src(s, 1), to = steps_dst(s);
    float eps = steps_float(node, 0), n = (float) x.ne[0];
    steps_need(s,
               all_f32(node) && ggml_are_same_shape(node, node->src[0]) &&
                   ggml_are_same_shape(node, node->src[1]),
               "datatypes or shapes");
    if (s->status != ST_OK) {
        return;
    }
    struct view xx = dot(s, x, x), xdz = dot(s, x, dz), t = steps_like(s, &to),
                sum = a_number_a_row(s, &to);
    steps_params(s, KERNEL_OP_SCALE, xx, sum, 1, eps * n);
    steps_binary(s, KERNEL_OP_DIV, xdz, sum, xdz);
    steps_params(s, KERNEL_OP_SCALE, xx, xx, 1 / n, eps);
    steps_unary(s, KERNEL_OP_SQRT, xx, xx);
    steps_binary(s, KERNEL_OP_MUL, x, xdz, t);
    steps_binary(s, KERNEL_OP_SUB, dz, t, t);
    steps_binary(s, KERNEL_OP_DIV, t, xx, to);
}

// dx = scale (dy - y dy) y
void steps_soft_max_back(struct steps * s, const struct ggml_tensor * node) {
    struct view dy = steps_src(s, 0), y = steps_src(s, 1), to = steps_dst(s);
    steps_need(s,
               all_f32(node) && ggml_are_same_shape(node, node->src[0]) &&
                   ggml_are_same_shape(node, node->src[1]),
               "datatypes or shapes");
    steps_need(s, steps_float(node, 1) == 0, "slopes (max_bias)");
    if (s->status != ST_OK) {
        return;
    }
    struct view sum = dot(s, y, dy), t = steps_like(s, &to);
    steps_binary(s, KERNEL_OP_SUB, dy, sum, t);
    steps_params(s, KERNEL_OP_SCALE, t, t, steps_float(node, 0), 0);
    steps_binary(s, KERNEL_OP_MUL, t, y, to);
}

// (softmax(x) - labels) times the gradient of the loss by the number of rows.
void steps_cross_entropy_back(struct steps * s, const struct ggml_tensor * node) {
    struct view d = steps_src(s, 0), x = steps_src(s, 1), labels = steps_src(s, 2),
                to = steps_dst(s);
    steps_need(s,
               all_f32(node) && ggml_nelements(node->src[0]) == 1 &&
                   ggml_are_same_shape(node, node->src[1]) &&
                   ggml_are_same_shape(node, node->src[2]),
               "datatypes or shapes");
    if (s->status != ST_OK) {
        return;
    }
    struct view t = steps_like(s, &to), by = steps_temp(s, GGML_TYPE_F32, 1, 1, 1, 1);
    steps_rows(s, KERNEL_OP_SOFT_MAX, x, t, 1, 0);
    steps_binary(s, KERNEL_OP_SUB, t, labels, t);
    steps_params(s, KERNEL_OP_SCALE, d, by, 1 / (float) ggml_nrows(node), 0);
    steps_binary(s, KERNEL_OP_MUL, t, by, to);
}

// ---- optimizers ----

// A parameter that stands in a tensor, as one number that repeats.
static struct view number(struct view v, int i) {
    return steps_as(&(struct view){.type = v.type, .data = v.data + (size_t) i * v.nb[0]}, 1, 1, 1,
                    1);
}

static bool is_step(const struct ggml_tensor * node, int alike, int params) {
    bool ok = all_f32(node) && ggml_nelements(node->src[alike]) == params &&
              ggml_is_contiguous(node->src[alike]);
    for (int i = 0; i < alike; i++) {
        ok = ok && ggml_are_same_shape(node, node->src[i]);
    }
    return ok;
}

// 1 - a b
static struct view keep(struct steps * s, struct view a, struct view b) {
    struct view out = steps_temp(s, GGML_TYPE_F32, 1, 1, 1, 1);
    steps_binary(s, KERNEL_OP_MUL, a, b, out);
    steps_params(s, KERNEL_OP_SCALE, out, out, -1, 1);
    return out;
}

// w = w (1 - alpha wd) - alpha g
void steps_sgd(struct steps * s, const struct ggml_tensor * node) {
    steps_need(s, is_step(node, 2, 2), "datatypes or shapes");
    if (s->status != ST_OK) {
        return;
    }
    struct view w = steps_src(s, 0), g = steps_src(s, 1), p = steps_src(s, 2), to = steps_dst(s);
    struct view less = steps_like(s, &w);
    steps_binary(s, KERNEL_OP_MUL, g, number(p, 0), less);
    steps_binary(s, KERNEL_OP_MUL, w, keep(s, number(p, 0), number(p, 1)), to);
    steps_binary(s, KERNEL_OP_SUB, to, less, to);
}

// m = beta m + (1 - beta) x, in place
static void decay(struct steps * s, struct view m, struct view x, struct view beta) {
    struct view one = steps_temp(s, GGML_TYPE_F32, 1, 1, 1, 1), more = steps_like(s, &m);
    steps_params(s, KERNEL_OP_SCALE, beta, one, -1, 1);
    steps_binary(s, KERNEL_OP_MUL, x, one, more);
    steps_binary(s, KERNEL_OP_MUL, m, beta, m);
    steps_binary(s, KERNEL_OP_ADD, m, more, m);
}

void steps_adamw(struct steps * s, const struct ggml_tensor * node) {
    enum { ALPHA, BETA1, BETA2, EPS, WD, BETA1H, BETA2H, N };
    steps_need(s, is_step(node, 4, N), "datatypes or shapes");
    if (s->status != ST_OK) {
        return;
    }
    struct view w = steps_src(s, 0), g = steps_src(s, 1), m = steps_src(s, 2), v = steps_src(s, 3),
                p = steps_src(s, 4), to = steps_dst(s);
    struct view t = steps_like(s, &w), root = steps_like(s, &w);
    decay(s, m, g, number(p, BETA1));
    steps_unary(s, KERNEL_OP_SQR, g, t);
    decay(s, v, t, number(p, BETA2));
    steps_binary(s, KERNEL_OP_MUL, v, number(p, BETA2H), root);
    steps_unary(s, KERNEL_OP_SQRT, root, root);
    steps_binary(s, KERNEL_OP_ADD, root, number(p, EPS), root);
    steps_binary(s, KERNEL_OP_MUL, m, number(p, BETA1H), t);
    steps_binary(s, KERNEL_OP_MUL, t, number(p, ALPHA), t);
    steps_binary(s, KERNEL_OP_DIV, t, root, t);
    steps_binary(s, KERNEL_OP_MUL, w, keep(s, number(p, ALPHA), number(p, WD)), to);
    steps_binary(s, KERNEL_OP_SUB, to, t, to);
}
