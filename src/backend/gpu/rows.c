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

enum status gpu_norm(const struct gpu_call * c, const struct ggml_tensor * node,
                     struct error * err) {
    struct view x = view_of(node->src[0]);
    struct rk_norm args = {.eps = gpu_param(node, 0)};
    const char * type = gpu_type_name(x.type);
    struct gpu_result result;
    struct gpu_grid grid;
    char kernel[64];
    if (!type || x.type != node->type || !ggml_are_same_shape(node, node->src[0])) {
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
