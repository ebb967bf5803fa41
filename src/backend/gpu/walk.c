// walk: elementwise kernels. A kernel walks up to RK_DIMS dimensions with any strides; a node has
// four, and one that is repeated along a dimension makes two of it. Dimensions that lie one behind
// the other in every operand become one; those that are left over the host walks, with a launch for
// each step.
#include "gpu.h"

#include "hip/kernels/kernels.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { WALK_DIMS = 2 * GGML_MAX_DIMS, MAX_ARGS = 256 };
#define MAX_ITEMS ((int64_t) 1 << 31)

// gpu_elementwise writes the structs in this order.
static_assert(offsetof(struct rk_unary, x_stride) == sizeof(struct rk_shape), "");
static_assert(offsetof(struct rk_unary, x) == sizeof(struct rk_shape) + 2 * 4 * RK_DIMS, "");
static_assert(offsetof(struct rk_binary, a) == sizeof(struct rk_shape) + 3 * 4 * RK_DIMS, "");
static_assert(offsetof(struct rk_unary, param) == offsetof(struct rk_unary, x) + 16, "");
static_assert(offsetof(struct rk_affine, mul) == offsetof(struct rk_affine, x) + 16, "");
static_assert(sizeof(struct rk_cast) == offsetof(struct rk_cast, x) + 16, "");
static_assert(sizeof(struct rk_binary) == offsetof(struct rk_binary, a) + 24, "");
static_assert(offsetof(struct rk_activation, param) == offsetof(struct rk_unary, param), "");
static_assert(offsetof(struct rk_glu, param) == sizeof(struct rk_binary), "");

struct walk {
    int n_operands, n_dims;
    int64_t dims[WALK_DIMS];
    int64_t steps[GPU_OPERANDS][WALK_DIMS]; // bytes
};

static void add_dim(struct walk * w, int64_t size, const int64_t steps[GPU_OPERANDS]) {
    bool joins = w->n_dims > 0;
    int last = w->n_dims - 1;
    for (int o = 0; o < w->n_operands && joins; o++) {
        joins = steps[o] == w->steps[o][last] * w->dims[last];
    }
    if (size == 1) {
        return;
    }
    if (joins) {
        w->dims[last] *= size;
        return;
    }
    w->dims[w->n_dims] = size;
    for (int o = 0; o < w->n_operands; o++) {
        w->steps[o][w->n_dims] = steps[o];
    }
    w->n_dims++;
}

// False: operands repeat in different ways.
static bool add_node_dim(struct walk * w, const struct view views[GPU_OPERANDS], int d) {
    int64_t size = views[w->n_operands - 1].ne[d], period = size;
    int64_t steps[GPU_OPERANDS], outer[GPU_OPERANDS];
    for (int o = 0; o < w->n_operands; o++) {
        int64_t own = views[o].ne[d];
        if (own != size && own != 1) {
            if (own <= 0 || size % own || (period != size && period != own)) {
                return false;
            }
            period = own;
        }
    }
    for (int o = 0; o < w->n_operands; o++) {
        int64_t own = views[o].ne[d], step = (int64_t) views[o].nb[d];
        steps[o] = own == 1 ? 0 : step;
        outer[o] = own == size ? step * period : 0;
    }
    add_dim(w, period, steps);
    add_dim(w, size / period, outer);
    return true;
}

// How many of the dimensions one launch takes.
static int dims_of_launch(const struct walk * w, const size_t type_sizes[GPU_OPERANDS],
                          int64_t * items) {
    int64_t last[GPU_OPERANDS] = {0};
    int n = 0;
    *items = 1;
    for (; n < w->n_dims && n < RK_DIMS; n++) {
        if (w->dims[n] > MAX_ITEMS / *items) {
            break;
        }
        bool reaches = true;
        for (int o = 0; o < w->n_operands; o++) {
            last[o] += (w->dims[n] - 1) * (w->steps[o][n] / (int64_t) type_sizes[o]);
            reaches = reaches && last[o] <= UINT32_MAX;
        }
        if (!reaches) {
            break;
        }
        *items *= w->dims[n];
    }
    return n;
}

static bool is_contiguous(const struct walk * w, const size_t type_sizes[GPU_OPERANDS]) {
    for (int o = 0; o < w->n_operands && w->n_dims; o++) {
        if (w->steps[o][0] != (int64_t) type_sizes[o]) {
            return false;
        }
    }
    return w->n_dims <= 1;
}

// ---- launches ----

struct args {
    union {
        uint8_t bytes[MAX_ARGS];
        struct rk_shape shape;
        uint64_t alignment;
    } data;
    size_t addresses_at, size;
};

static void put(struct args * a, const void * data, size_t size) {
    assert(a->size + size <= sizeof a->data);
    if (size) { // no tail has no address
        memcpy(a->data.bytes + a->size, data, size);
    }
    a->size += size;
}

static void fill_args(struct args * a, const struct walk * w, int n_dims, int64_t items,
                      const size_t type_sizes[GPU_OPERANDS], const void * tail, size_t tail_size) {
    struct rk_shape shape = {.n = (uint32_t) items,
                             .n_dims = is_contiguous(w, type_sizes) ? 0 : (uint32_t) n_dims};
    for (int d = 0; d < n_dims; d++) {
        shape.dims[d] = (uint32_t) w->dims[d];
    }
    put(a, &shape, sizeof shape);
    for (int o = 0; o < w->n_operands; o++) {
        uint32_t strides[RK_DIMS] = {0};
        for (int d = 0; d < n_dims; d++) {
            strides[d] = (uint32_t) (w->steps[o][d] / (int64_t) type_sizes[o]);
        }
        put(a, strides, sizeof strides);
    }
    a->addresses_at = a->size;
    a->size += (size_t) w->n_operands * sizeof(void *);
    put(a, tail, tail_size);
}

// Calls for every index of the dimensions from `first` on.
static enum status launch_all(const struct gpu_call * c, const char * kernel, struct args * a,
                              const struct walk * w, int first,
                              const struct view views[GPU_OPERANDS], struct error * err) {
    struct gpu_grid grid = {.items = {(uint32_t) GGML_PAD(a->data.shape.n, RK_BLOCK), 1, 1},
                            .group = RK_BLOCK};
    int64_t index[WALK_DIMS] = {0};
    for (;;) {
        const void * at[GPU_OPERANDS];
        for (int o = 0; o < w->n_operands; o++) {
            int64_t offset = 0;
            for (int d = first; d < w->n_dims; d++) {
                offset += index[d] * w->steps[o][d];
            }
            at[o] = views[o].data ? views[o].data + offset : NULL;
        }
        memcpy(a->data.bytes + a->addresses_at, at, (size_t) w->n_operands * sizeof at[0]);
        enum status st = gpu_launch(c, kernel, a->data.bytes, a->size, grid, err);
        if (st != ST_OK || !c->stream) {
            return st;
        }
        int d = first;
        while (d < w->n_dims && ++index[d] == w->dims[d]) {
            index[d++] = 0;
        }
        if (d == w->n_dims) {
            return ST_OK;
        }
    }
}

enum status gpu_elementwise(const struct gpu_call * c, const char * kernel,
                            const struct view views[GPU_OPERANDS], int n, const void * tail,
                            size_t tail_size, struct error * err) {
    struct walk w = {.n_operands = n};
    size_t type_sizes[GPU_OPERANDS] = {0};
    for (int o = 0; o < n; o++) {
        type_sizes[o] = ggml_type_size(views[o].type);
        for (int d = 0; d < GGML_MAX_DIMS; d++) {
            if (views[n - 1].ne[d] == 0) {
                return ST_OK; // nothing to do
            }
            if (views[o].ne[d] > 1 && views[o].nb[d] % type_sizes[o]) {
                return error_set(err, ST_UNSUPPORTED, "a stride is no multiple of an element");
            }
        }
    }
    for (int d = 0; d < GGML_MAX_DIMS; d++) {
        if (!add_node_dim(&w, views, d)) {
            return error_set(err, ST_UNSUPPORTED, "operands do not repeat to the result's shape");
        }
    }
    int64_t items;
    int n_dims = dims_of_launch(&w, type_sizes, &items);
    if (w.n_dims && n_dims == 0) {
        return error_set(err, ST_UNSUPPORTED, "a dimension of more than 2^31 elements");
    }
    struct args args = {.size = 0};
    fill_args(&args, &w, n_dims, items, type_sizes, tail, tail_size);
    return launch_all(c, kernel, &args, &w, n_dims, views, err);
}

// Between f32 and quantized rows. A kernel reads four elements at a time, and finds their block
// by itself from the row's beginning; it writes one block.
static enum status copy_blocks(const struct gpu_call * c, const struct view * from,
                               const struct view * to, struct error * err) {
    bool reads = ggml_is_quantized(from->type);
    const struct view * q = reads ? from : to;
    bool same = !memcmp(from->ne, to->ne, sizeof from->ne);
    bool in_order =
        from->nb[0] == ggml_type_size(from->type) && to->nb[0] == ggml_type_size(to->type);
    char kernel[64];
    if (!same || !in_order || (reads ? to : from)->type != GGML_TYPE_F32) {
        return error_set(err, ST_UNSUPPORTED, "%s to %s in these shapes: a GPU does not copy these",
                         ggml_type_name(from->type), ggml_type_name(to->type));
    }
    int64_t length = reads ? 4 : ggml_blck_size(q->type);
    struct view views[GPU_OPERANDS] = {*from, *to};
    for (int o = 0; o < 2; o++) {
        views[o].ne[0] /= length;
        views[o].nb[0] = views[o].type == GGML_TYPE_F32 ? (size_t) length * sizeof(float)
                         : reads                        ? 0
                                                        : ggml_type_size(q->type);
    }
    snprintf(kernel, sizeof kernel, "%s_%s", reads ? "unpack" : "pack", ggml_type_name(q->type));
    return gpu_elementwise(c, kernel, views, 2, NULL, 0, err);
}

// Equal types without arithmetic are copied as bits, quantized rows in the largest words that fit.
static enum status copy_bits(const struct gpu_call * c, const struct view * from,
                             const struct view * to, struct error * err) {
    struct view views[GPU_OPERANDS] = {*from, *to};
    size_t size = ggml_type_size(from->type), unit = size;
    if (ggml_is_quantized(from->type)) {
        int64_t length = ggml_blck_size(from->type);
        bool fits = from->nb[0] == size && to->nb[0] == size;
        for (unit = 4; unit > 1; unit /= 2) {
            bool whole = size % unit == 0;
            for (int d = 1; d < GGML_MAX_DIMS; d++) {
                whole = whole && from->nb[d] % unit == 0 && to->nb[d] % unit == 0;
            }
            if (whole) {
                break;
            }
        }
        for (int o = 0; o < 2; o++) {
            fits = fits && views[o].ne[0] % length == 0;
            views[o].ne[0] = views[o].ne[0] / length * (int64_t) (size / unit);
            views[o].nb[0] = unit;
        }
        if (!fits) {
            return error_set(err, ST_UNSUPPORTED, "%s: a GPU does not copy parts of blocks",
                             ggml_type_name(from->type));
        }
    }
    static const enum ggml_type types[] = {
        [1] = GGML_TYPE_I8, [2] = GGML_TYPE_I16, [4] = GGML_TYPE_I32, [8] = GGML_TYPE_I64};
    views[0].type = views[1].type = types[unit];
    char kernel[64];
    snprintf(kernel, sizeof kernel, "bits_%zu", unit * 8);
    return gpu_elementwise(c, kernel, views, 2, NULL, 0, err);
}

enum status gpu_copy(const struct gpu_call * c, const struct view * from, const struct view * to,
                     struct error * err) {
    const char *a = gpu_type_name(from->type), *b = gpu_type_name(to->type);
    char kernel[64];
    if (from->type == to->type && !a) {
        return copy_bits(c, from, to, err);
    }
    if (ggml_is_quantized(from->type) || ggml_is_quantized(to->type)) {
        return copy_blocks(c, from, to, err);
    }
    if (!a || !b) {
        return error_set(err, ST_UNSUPPORTED, "%s to %s: a GPU does not copy these",
                         ggml_type_name(from->type), ggml_type_name(to->type));
    }
    snprintf(kernel, sizeof kernel, "cast_%s_%s", a, b);
    struct view views[GPU_OPERANDS] = {*from, *to};
    return gpu_elementwise(c, kernel, views, 2, NULL, 0, err);
}
