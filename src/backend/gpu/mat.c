// mat: products on a GPU. ggml's src0 is the kernel's a, row by row; src1 is its b, column by
// column; a's batches repeat to b's. Strides of a quantized a count blocks, as its kernels want.
#include "gpu.h"

#include "hip/kernels/kernels.h"

#include <stdio.h>

// Up to so many columns a group for each element does less than squares that are mostly empty.
#define FEW_COLUMNS 8

static const char * types_of(enum ggml_type a, enum ggml_type b) {
    static const struct {
        enum ggml_type a, b;
        const char * name;
    } pairs[] = {
        {GGML_TYPE_F32, GGML_TYPE_F32, "f32"},
        {GGML_TYPE_F16, GGML_TYPE_F32, "f16_f32"},
        {GGML_TYPE_BF16, GGML_TYPE_F32, "bf16_f32"},
        {GGML_TYPE_F16, GGML_TYPE_F16, "f16_f16_f32"},
        {GGML_TYPE_BF16, GGML_TYPE_BF16, "bf16_bf16_f32"},
        {GGML_TYPE_IQ4_XS, GGML_TYPE_F32, "iq4_xs_f32"},
// clang-format off
#define BLOCKS(id, name, ...) {GGML_TYPE_##id, GGML_TYPE_F32, name "_f32"},
#include "kernel/blocks.def"
#undef BLOCKS
        // clang-format on
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (pairs[i].a == a && pairs[i].b == b) {
            return pairs[i].name;
        }
    }
    return NULL;
}

// A graph may come from elsewhere; a kernel believes what it is told.
static bool shapes_agree(const struct view * a, const struct view * b,
                         const struct ggml_tensor * y) {
    return a->ne[0] == b->ne[0] && y->ne[0] == a->ne[1] && y->ne[1] == b->ne[1] &&
           y->ne[2] == b->ne[2] && y->ne[3] == b->ne[3] && b->ne[2] % a->ne[2] == 0 &&
           b->ne[3] % a->ne[3] == 0;
}

static bool fill_args(const struct view * a, const struct view * b, const struct view * y,
                      struct rk_matmul * out) {
    uint32_t as[GGML_MAX_DIMS], bs[GGML_MAX_DIMS], ys[GGML_MAX_DIMS];
    if (!gpu_strides(a, as) || !gpu_strides(b, bs) || !gpu_strides(y, ys)) {
        return false;
    }
    *out = (struct rk_matmul){
        .n_rows = (uint32_t) y->ne[0],
        .n_columns = (uint32_t) y->ne[1],
        .n_inner = (uint32_t) a->ne[0],
        .dim = (uint32_t) y->ne[2],
        .a_share = {(uint32_t) (b->ne[2] / a->ne[2]), (uint32_t) (b->ne[3] / a->ne[3])},
        .a_stride = {as[1], as[0]},
        .b_stride = {bs[0], bs[1]},
        .y_stride = {ys[0], ys[1]},
        .a_batch = {as[2], as[3]},
        .b_batch = {bs[2], bs[3]},
        .y_batch = {ys[2], ys[3]},
        .a = a->data,
        .b = b->data,
        .y = y->data,
    };
    return true;
}

static bool grid_of(const struct rk_matmul * m, int64_t batches, bool vec, bool blocks,
                    struct gpu_grid * out) {
    uint32_t group = RK_BLOCK, each = blocks ? 32 : 4; // of a row for a work-item, or more
    uint64_t x = (m->n_columns + (uint64_t) RK_TILE - 1) / RK_TILE;
    uint64_t y = (m->n_rows + (uint64_t) RK_TILE - 1) / RK_TILE;
    if (vec) {
        for (group = 64; group < RK_BLOCK && group < m->n_inner / each; group *= 2) {
        }
        x = m->n_rows;
        y = m->n_columns;
    }
    *out = (struct gpu_grid){.items = {(uint32_t) (x * group), (uint32_t) y, (uint32_t) batches},
                             .group = group};
    return x <= UINT32_MAX / group && batches <= UINT32_MAX;
}

enum status gpu_mul_mat(const struct gpu_call * c, const struct ggml_tensor * node,
                        struct error * err) {
    struct view a = view_of(node->src[0]), b = view_of(node->src[1]);
    const char * types = types_of(a.type, b.type);
    struct gpu_result result;
    struct rk_matmul args;
    struct gpu_grid grid;
    char kernel[64];
    if (!types || node->type != GGML_TYPE_F32) {
        return error_set(err, ST_UNSUPPORTED, "MUL_MAT of %s and %s on a GPU",
                         ggml_type_name(a.type), ggml_type_name(b.type));
    }
    bool in_order = !ggml_is_quantized(a.type) || b.nb[0] == ggml_type_size(b.type);
    if (ggml_is_empty(node->src[0]) || !shapes_agree(&a, &b, node) || !in_order) {
        return error_set(err, ST_UNSUPPORTED, "MUL_MAT on a GPU: shapes");
    }
    enum status st = gpu_result_begin(c, node, false, 0, &result, err);
    if (st != ST_OK) {
        return st;
    }
    bool vec = node->ne[1] <= FEW_COLUMNS;
    if (!fill_args(&a, &b, &result.view, &args) ||
        !grid_of(&args, node->ne[2] * node->ne[3], vec, ggml_is_quantized(a.type), &grid)) {
        return error_set(err, ST_UNSUPPORTED, "MUL_MAT on a GPU: strides, or too many elements");
    }
    snprintf(kernel, sizeof kernel, "%s_%s", vec ? "matvec" : "matmul", types);
    st = gpu_launch(c, kernel, &args, sizeof args, grid, err);
    return st == ST_OK ? gpu_result_end(c, &result, err) : st;
}
