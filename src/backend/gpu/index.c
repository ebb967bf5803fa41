// index: rows by index. GET_ROWS reads the rows that ids name, SET_ROWS writes to them; what ids
// lie beside is walked element by element.
#include "gpu.h"

#include "hip/kernels/kernels.h"

#include <stdio.h>

static enum status unsupported(const struct ggml_tensor * node, struct error * err) {
    return error_set(err, ST_UNSUPPORTED, "%s on a GPU: datatypes, strides or an overlap",
                     op_label(node));
}

static struct gpu_grid grid_of(int64_t items) {
    return (struct gpu_grid){.items = {(uint32_t) GGML_PAD(items, RK_BLOCK), 1, 1},
                             .group = RK_BLOCK};
}

// Element (i0, i1, i2, i3) is x's (i0, ids(i1, i2, i3), i2, i3).
enum status gpu_get_rows(const struct gpu_call * c, const struct ggml_tensor * node,
                         struct error * err) {
    struct view x = view_of(node->src[0]), ids = view_of(node->src[1]);
    struct view y = view_of(node);
    uint32_t xs[GGML_MAX_DIMS], is[GGML_MAX_DIMS], ys[GGML_MAX_DIMS];
    bool words = x.type == GGML_TYPE_I32;    // f32's kernel moves bits
    bool blocks = ggml_is_quantized(x.type); // four elements to a work-item
    int64_t each = blocks ? 4 : 1, items = ggml_nelements(node) / each;
    char kernel[64];
    // The dimensions of ids are those of the node from the second on.
    bool fits = y.ne[0] == x.ne[0] && y.ne[1] == ids.ne[0] && y.ne[2] == ids.ne[1] &&
                y.ne[3] == ids.ne[2] && x.ne[2] >= y.ne[2] && x.ne[3] >= y.ne[3];
    if (!fits || !(words || blocks || gpu_is_float(x.type)) ||
        (blocks && (y.nb[0] != sizeof(float) || x.nb[0] != ggml_type_size(x.type))) ||
        y.type != (words ? GGML_TYPE_I32 : GGML_TYPE_F32) || ids.type != GGML_TYPE_I32 ||
        !gpu_strides(&x, xs) || !gpu_strides(&ids, is) || !gpu_strides(&y, ys) ||
        items > INT32_MAX || view_clobbers(&y, 1, &x) || view_clobbers(&y, 1, &ids)) {
        return unsupported(node, err);
    }
    struct rk_get_rows args = {
        .shape = {(uint32_t) items, GGML_MAX_DIMS, {0}},
        .n_rows = (uint32_t) x.ne[1],
        .row_stride = xs[1],
        .x = x.data,
        .ids = ids.data,
        .y = y.data,
    };
    for (int d = 0; d < GGML_MAX_DIMS; d++) {
        args.shape.dims[d] = (uint32_t) y.ne[d];
        args.x_stride[d] = d == 1 ? 0 : xs[d];
        args.ids_stride[d] = d == 0 ? 0 : is[d - 1];
        args.y_stride[d] = ys[d];
    }
    if (blocks) {
        args.shape.dims[0] /= 4;
        args.x_stride[0] = 0;
        args.y_stride[0] = 4;
    }
    snprintf(kernel, sizeof kernel, "get_rows_%s", words ? "f32" : ggml_type_name(x.type));
    return gpu_launch(c, kernel, &args, sizeof args, grid_of(items), err);
}

// ---- SET_ROWS ----

static void add_dim(struct rk_set_rows * a, int64_t size, uint32_t x, uint32_t ids, uint32_t y) {
    uint32_t d = a->shape.n_dims++;
    a->shape.dims[d] = (uint32_t) size;
    a->x_stride[d] = x;
    a->ids_stride[d] = ids;
    a->y_stride[d] = y;
}

// x's row (i1, i2, i3) goes to the node's (ids(i1, i2, i3), i2, i3); ids repeat in dimensions 2, 3.
static bool fill_set_rows(const struct view * x, const struct view * ids, const struct view * y,
                          struct rk_set_rows * out) {
    uint32_t xs[GGML_MAX_DIMS], is[GGML_MAX_DIMS], ys[GGML_MAX_DIMS];
    if (!gpu_strides(x, xs) || !gpu_strides(ids, is) || !gpu_strides(y, ys)) {
        return false;
    }
    *out = (struct rk_set_rows){
        .n_rows = (uint32_t) y->ne[1],
        .row_stride = ys[1],
        .x = x->data,
        .ids = ids->data,
        .y = y->data,
    };
    if (ggml_is_quantized(y->type)) {
        uint32_t length = (uint32_t) ggml_blck_size(y->type);
        add_dim(out, x->ne[0] / length, length, 0, 1);
    } else {
        add_dim(out, x->ne[0], xs[0], 0, ys[0]);
    }
    add_dim(out, x->ne[1], xs[1], is[0], 0);
    for (int d = 2; d < GGML_MAX_DIMS; d++) {
        int64_t period = ids->ne[d - 1];
        if (period <= 0 || x->ne[d] % period) {
            return false;
        }
        add_dim(out, period, xs[d], is[d - 1], ys[d]);
        add_dim(out, x->ne[d] / period, xs[d] * (uint32_t) period, 0, ys[d] * (uint32_t) period);
    }
    return true;
}

enum status gpu_set_rows(const struct gpu_call * c, const struct ggml_tensor * node,
                         struct error * err) {
    struct view from = view_of(node->src[0]), ids = view_of(node->src[1]);
    struct view y = view_of(node), x = from;
    bool blocks = ggml_is_quantized(y.type); // one to a work-item
    int64_t items = ggml_nelements(node->src[0]) / ggml_blck_size(y.type);
    struct rk_set_rows args;
    char kernel[64];
    bool fits =
        y.ne[0] == x.ne[0] && ids.ne[0] == x.ne[1] && y.ne[2] == x.ne[2] && y.ne[3] == x.ne[3];
    if (!fits || !gpu_is_float(x.type) || !(blocks || gpu_is_float(y.type)) ||
        (blocks && y.nb[0] != ggml_type_size(y.type)) || items > INT32_MAX ||
        (ids.type != GGML_TYPE_I32 && ids.type != GGML_TYPE_I64) || view_clobbers(&y, 1, &x) ||
        view_clobbers(&y, 1, &ids)) {
        return unsupported(node, err);
    }
    snprintf(kernel, sizeof kernel, "set_rows_%s_%s", gpu_type_name(ids.type),
             ggml_type_name(y.type));
    // The kernel takes f32 alone, and for blocks only contiguous rows. Whether there is a kernel is
    // asked before anything is sent: a node of which a part was sent can no longer go to the CPU.
    if (x.type != GGML_TYPE_F32 || (blocks && x.nb[0] != sizeof(float))) {
        const struct rocm_function * f;
        enum status st = gpu_kernel(c->device->gpu, kernel, &f, err);
        if (st != ST_OK) {
            return st;
        }
        x = view_contiguous(GGML_TYPE_F32, from.ne, NULL);
        if (c->stream) {
            atomic_fetch_add(&c->device->staged_operands, 1);
            st = stream_scratch(c->stream, view_bytes(&x), &x.data, err);
        }
        st = st == ST_OK ? gpu_copy(c, &from, &x, err) : st;
        if (st != ST_OK) {
            return st;
        }
    }
    if (!fill_set_rows(&x, &ids, &y, &args)) {
        return unsupported(node, err);
    }
    args.shape.n = (uint32_t) items;
    return gpu_launch(c, kernel, &args, sizeof args, grid_of(items), err);
}
