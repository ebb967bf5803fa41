// rows: ops that look at a row as a whole, one group of work-items for each. Kernels write their
// rows one behind the other.
#include "gpu.h"

#include "hip/kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static enum status unsupported(const struct ggml_tensor * node, const char * why,
                               struct error * err) {
    return error_set(err, ST_UNSUPPORTED, "%s on a GPU: %s", op_label(node), why);
}

// Groups of a wave at least; more work-items than columns would do nothing.
static bool grid_of(const struct view * x, struct gpu_grid * out) {
    int64_t rows = x->ne[1] * x->ne[2] * x->ne[3];
    uint32_t group = 64;
    while (group < RK_BLOCK && group < x->ne[0]) {
        group *= 2;
    }
    *out = (struct gpu_grid){.items = {(uint32_t) (rows * group), 1, 1}, .group = group};
    // The results of all rows have 32-bit indices too.
    return rows <= UINT32_MAX / group && x->ne[0] > 0 && x->ne[0] <= UINT32_MAX &&
           rows <= UINT32_MAX / x->ne[0];
}

static bool rows_of(const struct view * x, struct rk_rows * out) {
    uint32_t strides[GGML_MAX_DIMS];
    if (!gpu_strides(x, strides)) {
        return false;
    }
    *out = (struct rk_rows){
        .n_columns = (uint32_t) x->ne[0],
        .dims = {(uint32_t) x->ne[1], (uint32_t) x->ne[2]},
        .stride = {strides[1], strides[2], strides[3]},
        .step = strides[0],
    };
    return true;
}

// ---- SOFT_MAX ----

static bool set_mask(struct rk_softmax * args, const struct view * x, const struct view * mask) {
    uint32_t strides[GGML_MAX_DIMS];
    if (!gpu_strides(mask, strides) || (mask->ne[0] > 1 && strides[0] != 1) ||
        mask->ne[0] != x->ne[0] || mask->ne[1] < x->ne[1] || mask->ne[2] < 1 || mask->ne[3] < 1) {
        return false;
    }
    args->mask_dims[0] = (uint32_t) mask->ne[2];
    args->mask_dims[1] = (uint32_t) mask->ne[3];
    memcpy(args->mask_stride, strides + 1, sizeof args->mask_stride);
    args->mask = mask->data;
    return true;
}

static void set_slopes(struct rk_softmax * args, uint32_t n_heads, float max_bias) {
    uint32_t n = 1;
    while (n <= n_heads / 2) {
        n *= 2;
    }
    args->n_heads_log2 = n;
    args->m0 = powf(2.0f, -max_bias / (float) n);
    args->m1 = powf(2.0f, -max_bias / 2.0f / (float) n);
}

enum status gpu_soft_max(const struct gpu_call * c, const struct ggml_tensor * node,
                         struct error * err) {
    const struct ggml_tensor *mask = node->src[1], *sinks = node->src[2];
    struct view x = view_of(node->src[0]);
    struct rk_softmax args = {.scale = gpu_param(node, 0), .mask_dims = {1, 1}};
    float max_bias = gpu_param(node, 1);
    struct gpu_result result;
    struct gpu_grid grid;
    if (x.type != GGML_TYPE_F32 || node->type != GGML_TYPE_F32 ||
        (mask && mask->type != GGML_TYPE_F32 && mask->type != GGML_TYPE_F16) ||
        (sinks &&
         (sinks->type != GGML_TYPE_F32 || !ggml_is_contiguous(sinks) || sinks->ne[0] < x.ne[2]))) {
        return unsupported(node, "a datatype", err);
    }
    struct view mask_view = mask ? view_of(mask) : (struct view){0};
    if (!ggml_are_same_shape(node, node->src[0]) || !rows_of(&x, &args.rows) ||
        !grid_of(&x, &grid) || (mask && !set_mask(&args, &x, &mask_view))) {
        return unsupported(node, "strides, or too many elements", err);
    }
    if (max_bias > 0.0f) {
        set_slopes(&args, (uint32_t) x.ne[2], max_bias);
    }
    args.sinks = sinks ? sinks->data : NULL;
    enum status st = gpu_result_begin(c, node, true, 1, &result, err);
    if (st != ST_OK) {
        return st;
    }
    args.x = x.data;
    args.y = result.view.data;
    bool half = mask && mask->type == GGML_TYPE_F16;
    st = gpu_launch(c, half ? "softmax_mask16_f32" : "softmax_f32", &args, sizeof args, grid, err);
    return st == ST_OK ? gpu_result_end(c, &result, err) : st;
}

// ---- NORM, RMS_NORM ----

// Weights of all rows and what is added to a row or to each, of nodes that are several (fuse.c).
static bool set_weights(struct rk_norm * args, const struct ggml_tensor * node) {
    const struct ggml_tensor *x = node->src[0], *weights = node->src[1], *added = node->src[2];
    for (int i = 1; i <= 2; i++) {
        const struct ggml_tensor * t = node->src[i];
        if (t && (t->type != x->type || t->ne[0] != x->ne[0] || !ggml_is_contiguous(t))) {
            return false;
        }
    }
    if ((weights && ggml_nrows(weights) != 1) ||
        (added && ggml_nrows(added) != 1 && !ggml_are_same_shape(added, x))) {
        return false;
    }
    args->weight = weights ? weights->data : NULL;
    args->bias = added ? added->data : NULL;
    args->bias_stride = added && ggml_nrows(added) > 1 ? (uint32_t) x->ne[0] : 0;
    return true;
}

enum status gpu_norm(const struct gpu_call * c, const struct ggml_tensor * node,
                     struct error * err) {
    struct view x = view_of(node->src[0]);
    struct rk_norm args = {.eps = gpu_param(node, 0)};
    const char * type = gpu_type_name(x.type);
    struct gpu_result result;
    struct gpu_grid grid;
    char kernel[64];
    if (!type || x.type != node->type || !ggml_are_same_shape(node, node->src[0]) ||
        !set_weights(&args, node)) {
        return unsupported(node, "datatypes or shapes", err);
    }
    if (!rows_of(&x, &args.rows) || !grid_of(&x, &grid)) {
        return unsupported(node, "strides, or too many elements", err);
    }
    enum status st = gpu_result_begin(c, node, true, 1, &result, err);
    if (st != ST_OK) {
        return st;
    }
    args.x = x.data;
    args.y = result.view.data;
    snprintf(kernel, sizeof kernel, "%s_%s", node->op == GGML_OP_NORM ? "layer_norm" : "rms_norm",
             type);
    st = gpu_launch(c, kernel, &args, sizeof args, grid, err);
    return st == ST_OK ? gpu_result_end(c, &result, err) : st;
}

// ---- SUM_ROWS, ARGMAX ----

enum status gpu_reduce(const struct gpu_call * c, const struct ggml_tensor * node,
                       struct error * err) {
    struct view x = view_of(node->src[0]);
    enum ggml_type wanted = node->op == GGML_OP_ARGMAX ? GGML_TYPE_I32 : GGML_TYPE_F32;
    struct rk_reduce args = {0};
    struct gpu_result result;
    struct gpu_grid grid;
    if (x.type != GGML_TYPE_F32 || node->type != wanted ||
        ggml_nelements(node) != ggml_nrows(node->src[0])) {
        return unsupported(node, "datatypes or shapes", err);
    }
    if (!rows_of(&x, &args.rows) || !grid_of(&x, &grid)) {
        return unsupported(node, "strides, or too many elements", err);
    }
    enum status st = gpu_result_begin(c, node, true, 0, &result, err);
    if (st != ST_OK) {
        return st;
    }
    args.x = x.data;
    args.y = result.view.data;
    st = gpu_launch(c, node->op == GGML_OP_ARGMAX ? "reduce_argmax_f32" : "reduce_sum_f32", &args,
                    sizeof args, grid, err);
    return st == ST_OK ? gpu_result_end(c, &result, err) : st;
}

// ---- ARGSORT, TOP_K ----

// A row of more than RK_RUN columns is merged from one half of scratch to the other, run by run,
// until one run is left.
enum status gpu_sort(const struct gpu_call * c, const struct ggml_tensor * node,
                     struct error * err) {
    struct view x = view_of(node->src[0]), y = view_of(node);
    bool all = node->op == GGML_OP_ARGSORT;
    int64_t columns = x.ne[0], rows = x.ne[1] * x.ne[2] * x.ne[3], words = columns * rows;
    struct rk_sort args = {.descending = !all || node->op_params[0] == GGML_SORT_ORDER_DESC};
    bool fits = y.ne[0] <= columns && (!all || y.ne[0] == columns) && y.ne[1] == x.ne[1] &&
                y.ne[2] == x.ne[2] && y.ne[3] == x.ne[3] && columns > 0 && y.ne[0] > 0;
    if (x.type != GGML_TYPE_F32 || node->type != GGML_TYPE_I32 || !fits || !view_is_packed(&y) ||
        (y.data && y.data == x.data) || view_clobbers(&y, 1, &x)) {
        return unsupported(node, "datatypes or shapes", err);
    }
    if (!rows_of(&x, &args.rows) || words > INT32_MAX || rows > INT32_MAX) {
        return unsupported(node, "strides, or too many elements", err);
    }
    uint64_t * halves[2] = {NULL, NULL};
    enum status st = ST_OK;
    if (columns > RK_RUN && c->stream) {
        size_t half = GGML_PAD((size_t) words * sizeof(uint64_t), BUFFER_ALIGNMENT);
        char * room = NULL;
        st = stream_scratch(c->stream, 2 * half, &room, err);
        halves[0] = (uint64_t *) (void *) room;
        halves[1] = room ? (uint64_t *) (void *) (room + half) : NULL;
    }
    args.n_wanted = (uint32_t) y.ne[0];
    args.x = x.data;
    args.y = (int32_t *) (void *) y.data;
    args.to = halves[0];
    struct gpu_grid grid = {
        .items = {(uint32_t) ((columns + RK_RUN - 1) / RK_RUN) * RK_BLOCK, (uint32_t) rows, 1},
        .group = RK_BLOCK};
    st = st == ST_OK ? gpu_launch(c, "sort_runs", &args, sizeof args, grid, err) : st;
    grid.items[0] = (uint32_t) GGML_PAD(columns, RK_BLOCK);
    int side = 0;
    for (int64_t run = RK_RUN; run < columns && st == ST_OK; run *= 2, side ^= 1) {
        args.run = (uint32_t) run;
        args.from = halves[side];
        args.to = 2 * run < columns ? halves[side ^ 1] : NULL;
        st = gpu_launch(c, "sort_merge", &args, sizeof args, grid, err);
    }
    return st;
}
