// steps-scatter: what an image gives to each place of a window that goes over the result: products
// of all elements with the kernel, and these added where they belong. COL2IM_1D, CONV_TRANSPOSE_1D,
// CONV_TRANSPOSE_2D; and GET_ROWS_BACK, rows that are added where an index says.
#include "steps.h"

// columns is [taps * channels, tokens]; tap by tap of the window, or token by token, whichever are
// fewer. sum is [(tokens - 1) * stride + taps, channels].
static void add_1d(struct steps * s, struct view columns, int64_t taps, int64_t stride,
                   struct view sum) {
    int64_t channels = sum.ne[1], tokens = columns.ne[1];
    bool by_tap = taps < tokens;
    steps_fill(s, sum, 0);
    for (int64_t i = 0; i < (by_tap ? taps : tokens) && s->status == ST_OK; i++) {
        struct view v = {
            .type = GGML_TYPE_F32,
            .data = columns.data + (size_t) i * columns.nb[by_tap ? 0 : 1],
            .ne = {by_tap ? tokens : taps, channels, 1, 1},
        };
        struct view to = steps_row(sum, 0, by_tap ? i : i * stride, v.ne[0]);
        v.nb[0] = columns.nb[by_tap ? 1 : 0];
        v.nb[1] = (size_t) taps * columns.nb[0];
        v.nb[2] = v.nb[3] = columns.nb[1];
        to.nb[0] *= by_tap ? (size_t) stride : 1;
        steps_binary(s, KERNEL_OP_ADD, to, v, to);
    }
}

void steps_col2im(struct steps * s, const struct ggml_tensor * node) {
    int64_t stride = node->op_params[0], channels = node->op_params[1], pad = node->op_params[2];
    struct view from = steps_src(s, 0), to = steps_dst(s);
    int64_t taps = channels > 0 ? from.ne[0] / channels : 0, all = (from.ne[1] - 1) * stride + taps;
    steps_need(s,
               stride > 0 && pad >= 0 && taps > 0 && taps * channels == from.ne[0] &&
                   to.ne[0] == all - 2 * pad && to.ne[1] == channels &&
                   ggml_nelements(node) == to.ne[0] * channels &&
                   ggml_nrows(node->src[0]) == from.ne[1] && from.type == to.type &&
                   view_is_packed(&from) && view_is_packed(&to),
               "datatypes, parameters or shapes");
    struct view columns = steps_widen(s, from);
    if (s->status != ST_OK) {
        return;
    }
    struct view sum = steps_temp(s, GGML_TYPE_F32, all, channels, 1, 1);
    add_1d(s, columns, taps, stride, sum);
    struct view inner = steps_row(sum, 0, pad, to.ne[0]);
    steps_narrow(s, to.type == GGML_TYPE_F32 ? inner : steps_packed(s, inner), to);
}

// Both turned so that what is summed over is a row of each.
void steps_conv_transpose_1d(struct steps * s, const struct ggml_tensor * node) {
    struct view kernel = steps_widen(s, steps_src(s, 0)), image = steps_widen(s, steps_src(s, 1)),
                to = steps_dst(s);
    int64_t stride = node->op_params[0], taps = kernel.ne[0], filters = kernel.ne[1],
            channels = kernel.ne[2], tokens = image.ne[0];
    steps_need(s,
               stride > 0 && node->op_params[1] == 0 && node->op_params[2] == 1 &&
                   to.type == GGML_TYPE_F32 && image.ne[1] == channels && kernel.ne[3] == 1 &&
                   ggml_nelements(node->src[1]) == tokens * channels && to.ne[1] == filters &&
                   to.ne[0] == (tokens - 1) * stride + taps &&
                   ggml_nelements(node) == to.ne[0] * filters,
               "datatypes, parameters or shapes");
    if (s->status != ST_OK) {
        return;
    }
    struct view k = steps_temp(s, GGML_TYPE_F32, channels, taps, filters, 1),
                x = steps_temp(s, GGML_TYPE_F32, channels, tokens, 1, 1),
                columns = steps_temp(s, GGML_TYPE_F32, taps * filters, tokens, 1, 1);
    struct view turned = {.type = GGML_TYPE_F32,
                          .data = kernel.data,
                          .ne = {channels, taps, filters, 1},
                          .nb = {kernel.nb[2], kernel.nb[0], kernel.nb[1], kernel.nb[3]}};
    steps_move(s, turned, k);
    turned = (struct view){.type = GGML_TYPE_F32,
                           .data = image.data,
                           .ne = {channels, tokens, 1, 1},
                           .nb = {image.nb[1], image.nb[0], image.nb[2], image.nb[3]}};
    steps_move(s, turned, x);
    steps_product(s, steps_as(&k, channels, taps * filters, 1, 1), x, columns,
                  node->src[0]->type == GGML_TYPE_F32);
    add_1d(s, columns, taps, stride, to);
}

void steps_conv_transpose_2d(struct steps * s, const struct ggml_tensor * node) {
    struct view kernel = steps_widen(s, steps_src(s, 0)), image = steps_widen(s, steps_src(s, 1)),
                to = steps_dst(s);
    int64_t stride = node->op_params[0], w = image.ne[0], h = image.ne[1], kw = kernel.ne[0],
            kh = kernel.ne[1], filters = kernel.ne[2], channels = kernel.ne[3];
    steps_need(s,
               stride > 0 && to.type == GGML_TYPE_F32 && image.ne[2] == channels &&
                   to.ne[0] == (w - 1) * stride + kw && to.ne[1] == (h - 1) * stride + kh &&
                   to.ne[2] == filters && to.ne[3] == image.ne[3],
               "datatypes, parameters or shapes");
    if (s->status != ST_OK) {
        return;
    }
    struct view k = steps_temp(s, GGML_TYPE_F32, channels, kw, kh, filters),
                x = steps_temp(s, GGML_TYPE_F32, channels, w, h, 1),
                columns = steps_temp(s, GGML_TYPE_F32, w * h, kw * kh * filters, 1, 1);
    struct view turned = kernel;
    for (int d = 0; d < GGML_MAX_DIMS; d++) {
        turned.ne[d] = kernel.ne[(d + 3) % 4];
        turned.nb[d] = kernel.nb[(d + 3) % 4];
    }
    steps_move(s, turned, k);
    steps_fill(s, to, 0);
    for (int64_t i = 0; i < image.ne[3] && s->status == ST_OK; i++) {
        turned = (struct view){.type = GGML_TYPE_F32,
                               .data = image.data + (size_t) i * image.nb[3],
                               .ne = {channels, w, h, 1},
                               .nb = {image.nb[2], image.nb[0], image.nb[1], image.nb[3]}};
        steps_move(s, turned, x);
        steps_product(s, steps_as(&x, channels, w * h, 1, 1),
                      steps_as(&k, channels, kw * kh * filters, 1, 1), columns,
                      node->src[0]->type == GGML_TYPE_F32);
        for (int64_t tap = 0; tap < kw * kh && s->status == ST_OK; tap++) {
            struct view v = {.type = GGML_TYPE_F32,
                             .data = columns.data + (size_t) tap * columns.nb[1],
                             .ne = {w, h, filters, 1},
                             .nb = {sizeof(float), (size_t) w * sizeof(float),
                                    (size_t) (kw * kh) * columns.nb[1], columns.nb[2]}};
            struct view at = steps_row(to, 3, i, 1);
            at = steps_row(at, 0, tap % kw, (w - 1) * stride + 1);
            at = steps_row(at, 1, tap / kw, (h - 1) * stride + 1);
            at = steps_every(steps_every(at, 0, stride), 1, stride);
            steps_binary(s, KERNEL_OP_ADD, at, v, at);
        }
    }
}

// As many rows as the index has; those whose numbers follow each other are added at once.
void steps_get_rows_back(struct steps * s, const struct ggml_tensor * node) {
    enum { MOST_ROWS = 4096 }; // a kernel each, at worst
    struct view a = steps_src(s, 0), to = steps_dst(s);
    const struct ggml_tensor * index = node->src[1];
    int64_t n = index->ne[0];
    steps_need(s,
               to.type == GGML_TYPE_F32 && index->type == GGML_TYPE_I32 && a.ne[0] == to.ne[0] &&
                   ggml_is_vector(index) && n <= a.ne[1] && ggml_nrows(node->src[0]) == a.ne[1] &&
                   ggml_nrows(node) == to.ne[1] && view_is_packed(&to),
               "datatypes or shapes");
    steps_need(s, n <= MOST_ROWS, "more than 4096 rows by an index, each of which is a kernel");
    struct view rows = steps_packed(s, steps_row(a, 1, 0, n));
    if (s->status != ST_OK) {
        return;
    }
    steps_fill(s, to, 0);
    int64_t first = steps_number(s, 1, 0, to.ne[1]);
    for (int64_t i = 0; i < n && s->status == ST_OK;) {
        int64_t many = 1, next = 0;
        while (i + many < n && (next = steps_number(s, 1, i + many, to.ne[1])) == first + many) {
            many++;
        }
        struct view sum = steps_row(to, 1, first, many);
        steps_binary(s, KERNEL_OP_ADD, sum, steps_row(rows, 1, i, many), sum);
        i = s->stream ? i + many : n; // one is asked for
        first = next;
    }
}
