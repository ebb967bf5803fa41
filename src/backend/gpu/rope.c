// rope: ROPE and ROPE_BACK. What depends on the node alone is computed here, in double precision
// where a position multiplies it; the kernel turns one pair of elements for each work-item. A ROPE
// with the SET_ROWS behind it (fuse.c) writes its rows where the ids say.
#include "gpu.h"

#include "backend/rope.h"
#include "hip/kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct rk_ggml_rope args_of(const struct ggml_tensor * node, const struct view * x,
                                   const uint32_t x_stride[4], const uint32_t y_stride[4]) {
    int32_t n = node->op_params[ROPE_N_DIMS];
    float scale = gpu_param(node, ROPE_FREQ_SCALE), extend = gpu_param(node, ROPE_EXT_FACTOR);
    float factor = gpu_param(node, ROPE_ATTN_FACTOR);
    struct rk_ggml_rope a = {
        .n_pairs = (uint32_t) (ggml_nelements(node) / 2),
        .n_rotated = (uint32_t) n,
        .first = (uint32_t) node->op_params[ROPE_N_OFFSET],
        .mode = (uint32_t) node->op_params[ROPE_MODE],
        .freq_scale = scale,
        .extend = extend,
        .log_step = -2.0 * log((double) gpu_param(node, ROPE_FREQ_BASE)) / n,
        .positions = node->src[1]->data,
        .factors = node->src[2] ? node->src[2]->data : NULL,
    };
    for (int d = 0; d < 4; d++) {
        a.dims[d] = (uint32_t) x->ne[d];
        a.x_stride[d] = x_stride[d];
        a.y_stride[d] = y_stride[d];
        a.sections[d] = (uint32_t) node->op_params[ROPE_SECTIONS + d];
    }
    ggml_rope_yarn_corr_dims(n, node->op_params[ROPE_N_CTX_ORIG], gpu_param(node, ROPE_FREQ_BASE),
                             gpu_param(node, ROPE_BETA_FAST), gpu_param(node, ROPE_BETA_SLOW),
                             a.ramp);
    if (extend != 0.0f) {
        factor *= 1.0f + 0.1f * logf(1.0f / scale);
    }
    a.cos_scale = factor;
    a.sin_scale = node->op == GGML_OP_ROPE_BACK ? -factor : factor;
    return a;
}

static enum status unsupported(const struct ggml_tensor * node, const char * why,
                               struct error * err) {
    return error_set(err, ST_UNSUPPORTED, "%s on a GPU: %s", op_label(node), why);
}

// ids, and the cache that they are rows of. Which of its rows are written nobody knows here.
static bool set_ids(struct rk_ggml_rope * args, const struct ggml_tensor * node) {
    const struct ggml_tensor *ids = node->src[3], *cache = node->src[4];
    struct view y = cache ? view_of(cache) : (struct view){.type = GGML_TYPE_COUNT};
    bool fits = cache && cache->type == node->type && gpu_is_float(node->type) &&
                node->src[0]->type == GGML_TYPE_F32 && ids->type == GGML_TYPE_I64 &&
                ggml_is_contiguous(ids) && ggml_nelements(ids) == node->ne[2] && node->ne[3] == 1 &&
                cache->nb[0] == ggml_type_size(cache->type) && ggml_nrows(cache) == cache->ne[1] &&
                cache->ne[0] == node->ne[0] * node->ne[1];
    for (int i = 0; i < 4 && fits; i++) {
        struct view in = node->src[i] ? view_of(node->src[i]) : (struct view){0};
        fits = !node->src[i] || (in.data != y.data && !view_clobbers(&y, 1, &in));
    }
    uint32_t strides[GGML_MAX_DIMS];
    if (!fits || !gpu_strides(&y, strides)) {
        return false;
    }
    args->ids = ids->data;
    args->n_rows = (uint32_t) cache->ne[1];
    args->y_stride[2] = strides[1]; // of one row too, whose number need not be 0
    return true;
}

enum status gpu_rope(const struct gpu_call * c, const struct ggml_tensor * node,
                     struct error * err) {
    struct view x = view_of(node->src[0]);
    uint32_t x_stride[GGML_MAX_DIMS], y_stride[GGML_MAX_DIMS];
    bool to_rows = node->src[3] != NULL;
    struct gpu_result result = {.view = view_of(node)};
    char kernel[64];
    if ((x.type != GGML_TYPE_F32 && x.type != GGML_TYPE_F16) ||
        (node->type != x.type && !to_rows) || !rope_is_sound(node) ||
        ggml_nelements(node) > INT32_MAX) {
        return unsupported(node, "datatypes, mode or shape", err);
    }
    enum status st = to_rows ? ST_OK : gpu_result_begin(c, node, false, 1, &result, err);
    if (st != ST_OK) {
        return st;
    }
    if (!gpu_strides(&x, x_stride) || !gpu_strides(&result.view, y_stride)) {
        return unsupported(node, "strides", err);
    }
    struct rk_ggml_rope args = args_of(node, &x, x_stride, y_stride);
    if (to_rows && !set_ids(&args, node)) {
        return unsupported(node, "rows of a cache", err);
    }
    args.x = x.data;
    args.y = result.view.data;
    struct gpu_grid grid = {.items = {(uint32_t) GGML_PAD(args.n_pairs, RK_BLOCK), 1, 1},
                            .group = RK_BLOCK};
    snprintf(kernel, sizeof kernel, "ggml_rope_%s%s", to_rows ? "rows_" : "",
             gpu_type_name(node->type));
    st = gpu_launch(c, kernel, &args, sizeof args, grid, err);
    return st == ST_OK ? gpu_result_end(c, &result, err) : st;
}
