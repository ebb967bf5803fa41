// attention: FLASH_ATTN_EXT on a GPU. Rows are queries times the heads that share a head of K and
// V; where all of them make few groups, keys are split, so that a GPU has enough to do for one
// query over a long cache too.
#include "gpu.h"

#include "hip/kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    ROWS = 8,            // of a group of the kernel for prompts
    FEW_ROWS = 8,        // up to so many in all are for the kernel that reads K and V but once
    SPLIT = 256,         // keys of a split, or a multiple
    FEW_SPLIT = 128,     // of few rows
    ENOUGH_GROUPS = 256, // for every GPU, or nearly
};

static bool strides_of(const struct view * v, uint32_t out[3]) {
    uint32_t strides[GGML_MAX_DIMS];
    bool packed = v->nb[0] == ggml_type_size(v->type);
    if (!packed || !gpu_strides(v, strides)) {
        return false;
    }
    memcpy(out, strides + 1, 3 * sizeof out[0]);
    return true;
}

static bool shapes_agree(const struct view * q, const struct view * k, const struct view * v,
                         const struct view * y) {
    bool sizes = q->ne[0] == k->ne[0] && k->ne[0] <= RK_HEAD && v->ne[0] <= RK_HEAD &&
                 k->ne[0] % 4 == 0 && v->ne[0] % 4 == 0 && k->ne[0] > 0 && v->ne[0] > 0;
    bool heads = k->ne[1] > 0 && k->ne[1] == v->ne[1] && k->ne[2] > 0 && k->ne[2] == v->ne[2] &&
                 q->ne[2] % k->ne[2] == 0 && k->ne[3] > 0 && k->ne[3] == v->ne[3] &&
                 q->ne[3] % k->ne[3] == 0;
    return sizes && heads && y->ne[0] == v->ne[0] && y->ne[1] == q->ne[2] && y->ne[2] == q->ne[1] &&
           y->ne[3] == q->ne[3];
}

static bool set_mask(struct rk_attention * a, const struct ggml_tensor * mask,
                     const struct view * q) {
    struct view m = view_of(mask);
    a->mask_dims[0] = (uint32_t) m.ne[2];
    a->mask_dims[1] = (uint32_t) m.ne[3];
    a->mask = m.data;
    return m.type == GGML_TYPE_F16 && m.ne[0] >= (int64_t) a->n_keys && m.ne[1] >= q->ne[1] &&
           m.ne[2] > 0 && m.ne[3] > 0 && strides_of(&m, a->mask_stride);
}

static void set_slopes(struct rk_attention * a, uint32_t n_heads, float max_bias) {
    uint32_t n = 1;
    while (n <= n_heads / 2) {
        n *= 2;
    }
    a->n_heads_log2 = n;
    a->m0 = powf(2.0f, -max_bias / (float) n);
    a->m1 = powf(2.0f, -max_bias / 2.0f / (float) n);
}

static bool fill_args(const struct ggml_tensor * node, const struct view * y,
                      struct rk_attention * a) {
    struct view q = view_of(node->src[0]), k = view_of(node->src[1]), v = view_of(node->src[2]);
    const struct ggml_tensor *mask = node->src[3], *sinks = node->src[4];
    float scale = gpu_param(node, 0), max_bias = gpu_param(node, 1), cap = gpu_param(node, 2);
    if (q.type != GGML_TYPE_F32 || k.type != v.type || node->type != GGML_TYPE_F32 ||
        !shapes_agree(&q, &k, &v, y) || k.ne[1] > INT32_MAX || q.ne[1] > INT32_MAX / q.ne[2]) {
        return false;
    }
    *a = (struct rk_attention){
        .k_size = (uint32_t) k.ne[0],
        .v_size = (uint32_t) v.ne[0],
        .n_queries = (uint32_t) q.ne[1],
        .n_keys = (uint32_t) k.ne[1],
        .n_kv_heads = (uint32_t) k.ne[2],
        .share = (uint32_t) (q.ne[2] / k.ne[2]),
        .kv_repeats = (uint32_t) (q.ne[3] / k.ne[3]),
        .mask_dims = {1, 1},
        .scale = cap != 0.0f ? scale / cap : scale,
        .cap = cap,
        .q = q.data,
        .k = k.data,
        .v = v.data,
        .y = y->data,
        .sinks = sinks ? sinks->data : NULL,
    };
    if (max_bias > 0.0f) {
        set_slopes(a, (uint32_t) q.ne[2], max_bias);
    }
    return strides_of(&q, a->q_stride) && strides_of(&k, a->k_stride) &&
           strides_of(&v, a->v_stride) && strides_of(y, a->y_stride) &&
           (!mask || set_mask(a, mask, &q)) &&
           (!sinks ||
            (sinks->type == GGML_TYPE_F32 && ggml_is_contiguous(sinks) && sinks->ne[0] >= q.ne[2]));
}

// How the keys are split, and how much memory the parts take.
static int64_t split(struct rk_attention * a, int64_t groups, int64_t rows, int64_t least) {
    int64_t most = a->n_keys / least, n = (ENOUGH_GROUPS + groups - 1) / groups;
    n = n > most ? most : n;
    n = n > RK_SPLITS ? RK_SPLITS : n < 1 ? 1 : n;
    int64_t keys = GGML_PAD((a->n_keys + n - 1) / n, least);
    a->n_splits = (uint32_t) ((a->n_keys + keys - 1) / keys);
    a->split_keys = (uint32_t) keys;
    return a->n_splits > 1 ? rows * a->n_splits * RK_PART(a->v_size) : 0;
}

enum status gpu_attention(const struct gpu_call * c, const struct ggml_tensor * node,
                          struct error * err) {
    struct view y = view_of(node);
    struct rk_attention args;
    char kernel[64];
    enum status st = ST_OK;
    // The node is a new tensor: the op has no form in place.
    bool fits = fill_args(node, &y, &args);
    for (int i = 0; i < GGML_MAX_SRC && fits; i++) {
        struct view in = node->src[i] ? view_of(node->src[i]) : y;
        fits = !node->src[i] || !y.data || (in.data != y.data && !view_clobbers(&y, 1, &in));
    }
    if (!fits) {
        return error_set(err, ST_UNSUPPORTED,
                         "FLASH_ATTN_EXT on a GPU: datatypes, shapes or strides");
    }
    int64_t rows = (int64_t) args.n_queries * args.share;
    int64_t heads = args.n_kv_heads * node->ne[3];
    uint32_t size = args.k_size > args.v_size ? args.k_size : args.v_size;
    bool few = rows <= FEW_ROWS && size <= RK_FEW_HEAD && (args.k_size | args.v_size) % 8 == 0;
    int64_t group = !few ? ROWS : rows == 1 ? 1 : RK_FEW_ROWS, x = (rows + group - 1) / group;
    int64_t parts = split(&args, x * heads, rows * heads, few ? FEW_SPLIT : SPLIT);
    if (parts > INT32_MAX || x > INT32_MAX / RK_BLOCK || rows * heads > INT32_MAX / RK_BLOCK) {
        return error_set(err, ST_UNSUPPORTED, "FLASH_ATTN_EXT on a GPU: too many rows");
    }
    if (parts && c->stream) {
        char * room;
        st = stream_scratch(c->stream, (size_t) parts * sizeof(float), &room, err);
        args.parts = st == ST_OK ? (float *) (void *) room : NULL;
    }
    struct gpu_grid grid = {.items = {(uint32_t) (x * RK_BLOCK), (uint32_t) heads, args.n_splits},
                            .group = RK_BLOCK};
    snprintf(kernel, sizeof kernel, "attention_%s%s",
             group == 1 ? "one_"
             : few      ? "few_"
                        : "",
             ggml_type_name(node->src[1]->type));
    st = st == ST_OK ? gpu_launch(c, kernel, &args, sizeof args, grid, err) : st;
    if (st == ST_OK && args.n_splits > 1) {
        struct gpu_grid join = {.items = {(uint32_t) (rows * heads * RK_BLOCK), 1, 1},
                                .group = RK_BLOCK};
        st = gpu_launch(c, "attention_join", &args, sizeof args, join, err);
    }
    return st;
}
