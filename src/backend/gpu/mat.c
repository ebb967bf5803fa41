// mat: products on a GPU. ggml's src0 is the kernel's a, row by row; src1 is its b, column by
// column; a's batches repeat to b's. Strides of a quantized a count blocks, as its kernels want.
#include "gpu.h"

#include "hip/kernels/kernels.h"

#include <stdio.h>

enum {
    // Up to so many columns one group for each element does less work than squares that are mostly
    // empty.
    FEW_COLUMNS = 8,
    // So many squares of RK_TILE_WIDE keep a GPU busy, or nearly so. Fewer of them are made into
    // more and smaller ones.
    ENOUGH_SQUARES = 64,
};

enum { RANK_BF16 = 15, RANK_F16 = 20 }; // of ggml_prec, which older ggml has not

// The names of the kernels for a and b behind matmul_ and matvec_. src/hip/modules.def alone says
// which of them exist: a row of src/kernel/blocks.def without a HIP kernel is a type of the NPU
// alone.
static bool types_of(enum ggml_type a, enum ggml_type b, char * out, size_t size) {
    const char *of_a = ggml_type_name(a), *of_b = ggml_type_name(b);
    if (b == GGML_TYPE_F32 && a == b) {
        snprintf(out, size, "f32");
    } else if (b == GGML_TYPE_F32) {
        snprintf(out, size, "%s_f32", of_a);
    } else if ((a == b && gpu_is_float(a)) || (a == GGML_TYPE_F32 && b == GGML_TYPE_F16)) {
        snprintf(out, size, "%s_%s_f32", of_a, of_b);
    } else {
        return false;
    }
    return true;
}

// Graphs may come from other programs, and a kernel trusts its arguments: shapes are checked here.
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

static uint64_t parts_of(uint64_t n, uint64_t size) {
    return (n + size - 1) / size;
}

// Larger squares read less from memory for each product.
static uint32_t square_of(const struct rk_matmul * m, int64_t batches, bool blocks) {
    uint64_t wide = parts_of(m->n_columns, RK_TILE_WIDE) * parts_of(m->n_rows, RK_TILE_WIDE);
    bool full = m->n_columns > RK_TILE && m->n_rows > RK_TILE;
    return !blocks && full && wide * (uint64_t) batches >= ENOUGH_SQUARES ? RK_TILE_WIDE : RK_TILE;
}

static bool grid_of(const struct rk_matmul * m, int64_t batches, bool vec, bool blocks,
                    uint32_t square, struct gpu_grid * out) {
    uint32_t group = RK_BLOCK, each = blocks ? 32 : 64; // of a row for a work-item, or more
    uint64_t x = parts_of(m->n_columns, square), y = parts_of(m->n_rows, square);
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

// More scratch behind a result that may be in scratch itself: all of it is allocated anew, in one
// piece.
static enum status more_scratch(const struct gpu_call * c, struct gpu_result * result, size_t size,
                                char ** out, struct error * err) {
    size_t staged = result->staged ? GGML_PAD(view_bytes(&result->view), BUFFER_ALIGNMENT) : 0;
    char * room = NULL;
    enum status st = c->stream ? stream_scratch(c->stream, staged + size, &room, err) : ST_OK;
    if (st == ST_OK && room) {
        result->view.data = result->staged ? room : result->view.data;
        *out = room + staged;
    }
    return st;
}

// The kernel for few columns of f32, as bytes, by quantized rows. False: there is none. Of one
// column there are two kinds; for blocks of 32 numbers it is the one with few rows to a group.
static bool bytes_kernel(const struct ggml_tensor * node, char * out, size_t size, bool * direct) {
    static const char * const ways[] = {"direct_", "one_", ""};
    bool one = node->ne[1] == 1;
    for (int i = one ? 0 : 2; i < 3; i++) {
        snprintf(out, size, "matvec_%s%s_q8", ways[i], ggml_type_name(node->src[0]->type));
        if (node->src[1]->type == GGML_TYPE_F32 && rocm_modules_find(out)) {
            *direct = i == 0;
            return true;
        }
    }
    return false;
}

void gpu_bytes_drop(struct hsa_stream * s) {
    s->gpu_bytes.bytes = NULL;
}

void gpu_bytes_written(struct hsa_stream * s, const void * begin, size_t bytes) {
    const char *from = begin, *data = s->gpu_bytes.columns.data;
    if (s->gpu_bytes.bytes && from < data + view_bytes(&s->gpu_bytes.columns) &&
        data < from + bytes) {
        gpu_bytes_drop(s);
    }
}

static bool same_columns(const struct view * a, const struct view * b) {
    return a->data == b->data && a->type == b->type && !memcmp(a->ne, b->ne, sizeof a->ne) &&
           !memcmp(a->nb, b->nb, sizeof a->nb);
}

// The columns become bytes first, where no product before this one had the same: q, k and v do, and
// so do a gate and what it is for.
static enum status make_bytes(const struct gpu_call * c, const struct view * b, int64_t batches,
                              const struct rk_matmul * args, struct gpu_result * result,
                              char ** bytes, struct error * err) {
    uint64_t size = (uint64_t) RK_Q8_BYTES((uint64_t) args->n_inner) * args->n_columns;
    uint64_t fours = parts_of(args->n_inner / 4, RK_BLOCK) * RK_BLOCK;
    struct rk_matmul columns = *args;
    struct gpu_grid make = {.items = {(uint32_t) fours, args->n_columns, (uint32_t) batches},
                            .group = RK_BLOCK};
    if (size * (uint64_t) batches > UINT32_MAX) {
        return error_set(err, ST_UNSUPPORTED, "MUL_MAT on a GPU: too many elements");
    }
    if (c->stream && c->stream->gpu_bytes.bytes && same_columns(&c->stream->gpu_bytes.columns, b)) {
        *bytes = c->stream->gpu_bytes.bytes;
        return ST_OK;
    }
    enum status st = more_scratch(c, result, (size_t) size * (size_t) batches, bytes, err);
    columns.y = *bytes;
    st = st == ST_OK ? gpu_launch(c, "columns_q8", &columns, sizeof columns, make, err) : st;
    if (st == ST_OK && c->stream) {
        c->stream->gpu_bytes = (struct gpu_bytes){.columns = *b, .bytes = *bytes};
    }
    return st;
}

static enum status multiply_bytes(const struct gpu_call * c, const char * kernel, bool direct,
                                  const struct view * b, int64_t batches, struct rk_matmul * args,
                                  struct gpu_result * result, struct error * err) {
    uint64_t groups = parts_of(args->n_rows, direct ? RK_ROWS_DIRECT : RK_ROWS);
    uint32_t group = direct ? RK_DIRECT_GROUP(args->n_inner) : RK_BLOCK;
    struct gpu_grid grid = {.items = {(uint32_t) groups * group,
                                      (uint32_t) parts_of(args->n_columns, RK_COLUMNS),
                                      (uint32_t) batches},
                            .group = group};
    char * bytes = NULL;
    if (groups > UINT32_MAX / RK_BLOCK || batches > UINT16_MAX) {
        return error_set(err, ST_UNSUPPORTED, "MUL_MAT on a GPU: too many elements");
    }
    enum status st = make_bytes(c, b, batches, args, result, &bytes, err);
    args->b = bytes;
    args->y = result->view.data;
    return st == ST_OK ? gpu_launch(c, kernel, args, sizeof *args, grid, err) : st;
}

// May b, of f32, be given to a kernel as `as`? A node may ask for sums of f32, which here means
// that nothing is rounded before, and say what b may become at least (ggml_prec_set_src).
static bool may_round(const struct ggml_tensor * node, int as) {
    enum { SUMS = 0, OF_B = 3 }; // words of op_params
    return node->op_params[SUMS] != GGML_PREC_F32 &&
           (node->op_params[OF_B] == 0 || node->op_params[OF_B] >= as);
}

// Is there a kernel for matrix instructions, and may it be taken? It is for rows along k. Those of
// gfx90a take an f16 below 2^-14 for 0. Weights and activations do not mind, but probabilities of
// attention may all be that small: what has batches, as they have, is not for them there.
static bool matrix_cores(const struct gpu_call * c, const struct ggml_tensor * node,
                         const char * types) {
    const struct ggml_tensor *a = node->src[0], *b = node->src[1];
    char kernel[80];
    if (node->ne[2] * node->ne[3] > 1 && a->type == GGML_TYPE_F16 &&
        !strcmp(hsac_agent_name(c->device->agent), "gfx90a")) {
        return false;
    }
    snprintf(kernel, sizeof kernel, "matmul_matrix_%s", types);
    return may_round(node, a->type == GGML_TYPE_BF16 ? RANK_BF16 : RANK_F16) &&
           a->nb[0] == ggml_type_size(a->type) && b->nb[0] == ggml_type_size(b->type) &&
           rocm_modules_find(kernel);
}

enum status gpu_mul_mat(const struct gpu_call * c, const struct ggml_tensor * node,
                        struct error * err) {
    struct view a = view_of(node->src[0]), b = view_of(node->src[1]);
    struct gpu_result result;
    struct rk_matmul args;
    struct gpu_grid grid;
    char kernel[80], types[48];
    if (!types_of(a.type, b.type, types, sizeof types) || node->type != GGML_TYPE_F32) {
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
    bool vec = node->ne[1] <= FEW_COLUMNS, blocks = ggml_is_quantized(a.type);
    bool matrix = !vec && matrix_cores(c, node, types), direct;
    int64_t batches = node->ne[2] * node->ne[3];
    if (!fill_args(&a, &b, &result.view, &args)) {
        return error_set(err, ST_UNSUPPORTED, "MUL_MAT on a GPU: strides");
    }
    if (vec && bytes_kernel(node, kernel, sizeof kernel, &direct)) {
        st = multiply_bytes(c, kernel, direct, &b, batches, &args, &result, err);
        return st == ST_OK ? gpu_result_end(c, &result, err) : st;
    }
    uint32_t square = square_of(&args, batches, blocks && !matrix);
    if (!grid_of(&args, batches, vec, blocks, square, &grid)) {
        return error_set(err, ST_UNSUPPORTED, "MUL_MAT on a GPU: too many elements");
    }
    snprintf(kernel, sizeof kernel, "%s%s%s_%s", vec ? "matvec" : "matmul", matrix ? "_matrix" : "",
             !vec && square == RK_TILE_WIDE ? "_wide" : "", types);
    st = gpu_launch(c, kernel, &args, sizeof args, grid, err);
    return st == ST_OK ? gpu_result_end(c, &result, err) : st;
}

// ---- OUT_PROD ----

// The same product with the operands transposed: rows are a's columns, columns are b's, and k goes
// over the rows of both. A quantized a becomes f32 first, because a block spans several rows of the
// product.
enum status gpu_out_prod(const struct gpu_call * c, const struct ggml_tensor * node,
                         struct error * err) {
    struct view a = view_of(node->src[0]), b = view_of(node->src[1]), y = view_of(node);
    bool blocks = ggml_is_quantized(a.type);
    struct view whole = blocks ? view_contiguous(GGML_TYPE_F32, a.ne, NULL) : a;
    struct view rows = {0}, columns = {0};
    struct rk_matmul args;
    struct gpu_grid grid;
    char kernel[64], types[48];
    enum status st = ST_OK;
    bool clear = !view_clobbers(&y, 1, &a) && !view_clobbers(&y, 1, &b) &&
                 (!y.data || (y.data != a.data && y.data != b.data));
    if (!clear || !types_of(whole.type, b.type, types, sizeof types) || y.type != GGML_TYPE_F32 ||
        ggml_is_empty(node->src[0])) {
        return error_set(err, ST_UNSUPPORTED, "OUT_PROD of %s and %s on a GPU",
                         ggml_type_name(a.type), ggml_type_name(b.type));
    }
    if (blocks) {
        st = c->stream ? stream_scratch(c->stream, view_bytes(&whole), &whole.data, err) : ST_OK;
        st = st == ST_OK ? gpu_copy(c, &a, &whole, err) : st;
        if (st != ST_OK) {
            return st;
        }
    }
    rows = whole;
    columns = b;
    rows.ne[0] = whole.ne[1];
    rows.ne[1] = whole.ne[0];
    rows.nb[0] = whole.nb[1];
    rows.nb[1] = whole.nb[0];
    columns.ne[0] = b.ne[1];
    columns.ne[1] = b.ne[0];
    columns.nb[0] = b.nb[1];
    columns.nb[1] = b.nb[0];
    bool vec = node->ne[1] <= FEW_COLUMNS;
    if (!shapes_agree(&rows, &columns, node) || !fill_args(&rows, &columns, &y, &args) ||
        !grid_of(&args, node->ne[2] * node->ne[3], vec, false, RK_TILE, &grid)) {
        return error_set(err, ST_UNSUPPORTED, "OUT_PROD on a GPU: shapes, or too many elements");
    }
    snprintf(kernel, sizeof kernel, "%s_%s", vec ? "matvec" : "matmul", types);
    return gpu_launch(c, kernel, &args, sizeof args, grid, err);
}

// ---- MUL_MAT_ID ----

// a[k, rows, experts], b[k, b's slots, tokens], ids[slots, tokens], the node [rows, slots, tokens].
static bool fill_id_args(const struct ggml_tensor * node, const struct view * y,
                         struct rk_matmul_id * out) {
    struct view a = view_of(node->src[0]), b = view_of(node->src[1]), ids = view_of(node->src[2]);
    uint32_t as[GGML_MAX_DIMS], bs[GGML_MAX_DIMS], is[GGML_MAX_DIMS], ys[GGML_MAX_DIMS];
    bool fits = a.ne[0] == b.ne[0] && a.ne[3] == 1 && b.ne[3] == 1 && y->ne[3] == 1 &&
                ids.ne[2] == 1 && ids.ne[3] == 1 && y->ne[0] == a.ne[1] && y->ne[1] == ids.ne[0] &&
                y->ne[2] == ids.ne[1] && b.ne[2] == ids.ne[1] && b.ne[1] > 0 &&
                ids.ne[0] % b.ne[1] == 0 && ids.type == GGML_TYPE_I32 &&
                (!ggml_is_quantized(a.type) || b.nb[0] == ggml_type_size(b.type));
    if (!fits || ggml_is_empty(node->src[0]) || !gpu_strides(&a, as) || !gpu_strides(&b, bs) ||
        !gpu_strides(&ids, is) || !gpu_strides(y, ys)) {
        return false;
    }
    *out = (struct rk_matmul_id){
        .m = {.n_rows = (uint32_t) y->ne[0],
              .n_columns = (uint32_t) (y->ne[1] * y->ne[2]),
              .n_inner = (uint32_t) a.ne[0],
              .dim = 1,
              .a_share = {1, 1},
              .a_stride = {as[1], as[0]},
              .b_stride = {bs[0], bs[1]},
              .y_stride = {ys[0], ys[1]},
              .a_batch = {as[2], 0},
              .b_batch = {bs[2], 0},
              .y_batch = {ys[2], 0},
              .a = a.data,
              .b = b.data,
              .y = y->data},
        .n_slots = (uint32_t) ids.ne[0],
        .b_slots = (uint32_t) b.ne[1],
        .n_experts = (uint32_t) a.ne[2],
        .ids_stride = {is[0], is[1]},
        .ids = (const int32_t *) (const void *) ids.data,
    };
    return y->ne[1] * y->ne[2] <= INT32_MAX;
}

// Few tokens are multiplied one by one with their experts. Of many tokens a list is made for each
// expert first.
enum status gpu_mul_mat_id(const struct gpu_call * c, const struct ggml_tensor * node,
                           struct error * err) {
    const struct ggml_tensor * a = node->src[0];
    struct gpu_result result;
    struct rk_matmul_id args;
    struct gpu_grid grid;
    char kernel[64];
    bool few = node->ne[2] <= FEW_COLUMNS;
    if (node->src[1]->type != GGML_TYPE_F32 || node->type != GGML_TYPE_F32) {
        return error_set(err, ST_UNSUPPORTED, "MUL_MAT_ID of %s and %s on a GPU",
                         ggml_type_name(a->type), ggml_type_name(node->src[1]->type));
    }
    enum status st = gpu_result_begin(c, node, false, 0, &result, err);
    if (st != ST_OK) {
        return st;
    }
    if (!fill_id_args(node, &result.view, &args) ||
        !grid_of(&args.m, few ? 1 : a->ne[2], few, ggml_is_quantized(a->type), RK_TILE, &grid)) {
        return error_set(err, ST_UNSUPPORTED, "MUL_MAT_ID on a GPU: shapes, strides or datatypes");
    }
    snprintf(kernel, sizeof kernel, "%s_id_%s_f32", few ? "matvec" : "matmul",
             ggml_type_name(a->type));
    if (!few) {
        size_t lists =
            ((size_t) args.n_experts * (args.m.n_columns + (size_t) 1)) * sizeof(uint32_t);
        struct gpu_grid list = {.items = {(args.n_experts + 1) * RK_BLOCK, 1, 1},
                                .group = RK_BLOCK};
        char * room = NULL;
        st = more_scratch(c, &result, lists, &room, err);
        args.lists = (uint32_t *) (void *) room;
        args.m.y = result.view.data;
        st = st == ST_OK ? gpu_launch(c, "matmul_id_lists", &args, sizeof args, list, err) : st;
    }
    st = st == ST_OK ? gpu_launch(c, kernel, &args, sizeof args, grid, err) : st;
    return st == ST_OK ? gpu_result_end(c, &result, err) : st;
}
