// nodes: which kernels a node is, and where its result goes.
#include "gpu.h"

#include "hip/kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char * gpu_type_name(enum ggml_type t) {
    switch (t) {
    case GGML_TYPE_F32:
        return "f32";
    case GGML_TYPE_F16:
        return "f16";
    case GGML_TYPE_BF16:
        return "bf16";
    case GGML_TYPE_F64:
        return "f64";
    case GGML_TYPE_I32:
        return "i32";
    case GGML_TYPE_I64:
        return "i64";
    default:
        return NULL;
    }
}

bool gpu_is_float(enum ggml_type t) {
    return t == GGML_TYPE_F32 || t == GGML_TYPE_F16 || t == GGML_TYPE_BF16;
}

bool gpu_strides(const struct view * v, uint32_t out[GGML_MAX_DIMS]) {
    size_t type_size = ggml_type_size(v->type);
    uint64_t last = 0;
    for (int d = 0; d < GGML_MAX_DIMS; d++) {
        bool single = v->ne[d] <= 1; // then its stride is never used
        if (!single &&
            (v->nb[d] % type_size || v->nb[d] / type_size > UINT32_MAX || v->ne[d] > UINT32_MAX)) {
            return false;
        }
        out[d] = single ? 0 : (uint32_t) (v->nb[d] / type_size);
        last += single ? 0 : (uint64_t) out[d] * (uint64_t) (v->ne[d] - 1);
        if (last > UINT32_MAX) {
            return false;
        }
    }
    return true;
}

enum status gpu_launch(const struct gpu_call * c, const char * kernel, const void * args,
                       size_t args_size, struct gpu_grid grid, struct error * err) {
    const struct rocm_function * f;
    enum status st = gpu_kernel(c->device->gpu, kernel, &f, err);
    if (st != ST_OK || !c->stream || !grid.items[0]) { // none: a grid of nothing is a fault
        return st;
    }
    struct hsac_launch l = {
        .object = f->object,
        .group_bytes = f->group_bytes,
        .private_bytes = f->private_bytes,
        .args = args,
        .args_size = (uint32_t) args_size,
        .kernarg_bytes = f->kernarg_bytes,
        .grid = {grid.items[0], grid.items[1], grid.items[2]},
        .group = {(uint16_t) grid.group, 1, 1},
    };
    atomic_fetch_add(&c->device->dispatches, 1);
    c->stream->in_flight = true;
    c->stream->sent++;
    return hsac_queue_launch(c->stream->queue, &l, err);
}

// ---- results ----

enum status gpu_result_begin(const struct gpu_call * c, const struct ggml_tensor * node,
                             bool contiguous, int in_place, struct gpu_result * out,
                             struct error * err) {
    struct view view = view_of(node);
    bool staged = contiguous && !view_is_packed(&view);
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (!node->src[i]) {
            continue; // a mask that is left out has sinks behind it
        }
        struct view in = view_of(node->src[i]);
        bool same = i >= in_place && view.data && in.data == view.data;
        staged = staged || same || view_clobbers(&view, 1, &in);
    }
    *out = (struct gpu_result){.view = view, .node = view, .staged = staged};
    if (!staged) {
        return ST_OK;
    }
    out->view = view_contiguous(view.type, view.ne, NULL);
    atomic_fetch_add(&c->device->staged_operands, c->stream != NULL);
    return c->stream ? stream_scratch(c->stream, view_bytes(&out->view), &out->view.data, err)
                     : ST_OK;
}

enum status gpu_result_end(const struct gpu_call * c, const struct gpu_result * r,
                           struct error * err) {
    return r->staged ? gpu_copy(c, &r->view, &r->node, err) : ST_OK;
}

// ---- elementwise ops ----

enum tail { NO_TAIL, ALPHA, SCALE, FLOATS_2, FLOATS_4 }; // what the kernel's struct ends in

struct row {
    const char * kernel; // without its type; NULL: the op is none of these
    enum tail tail;
};

#define UNARY(name)                                                                                \
    { "unary_" #name, ALPHA }
#define ACTIVATION(name)                                                                           \
    { "activation_" #name, FLOATS_4 }
#define GLU(name)                                                                                  \
    { "glu_" #name, FLOATS_2 }
#define BINARY(name)                                                                               \
    { "binary_" #name, NO_TAIL }
#define AFFINE(name)                                                                               \
    { "affine", SCALE }
#define ELEMENTWISE(id, name, ggml_name, source, inputs, params, npu, gpu, ...)                    \
    [KERNEL_OP_##id] = gpu,
static const struct row rows[KERNEL_OP_COUNT] = {
#include "kernel/elementwise.def"
};
#undef UNARY
#undef ACTIVATION
#undef GLU
#undef BINARY
#undef AFFINE
#undef ELEMENTWISE

union tail_bytes {
    double doubles[2];
    float floats[4];
};

static size_t tail_of(enum tail tail, const uint32_t params[KERNEL_MAX_PARAMS],
                      union tail_bytes * out) {
    float floats[4] = {0};
    memcpy(floats, params, sizeof floats);
    switch (tail) {
    case ALPHA: // ELU's is 1; the others do not look at it
        out->doubles[0] = 1.0;
        return sizeof(double);
    case SCALE:
        out->doubles[0] = floats[0];
        out->doubles[1] = floats[1];
        return 2 * sizeof(double);
    case FLOATS_2:
    case FLOATS_4:
        memcpy(out->floats, floats, sizeof floats);
        return (tail == FLOATS_2 ? 2 : 4) * sizeof(float);
    default:
        return 0;
    }
}

static enum status run_row(const struct gpu_call * c, const struct op_call * call,
                           const struct view views[GPU_OPERANDS], struct error * err) {
    const struct row * row = &rows[call->op];
    union tail_bytes tail;
    char kernel[64];
    size_t tail_size = tail_of(row->tail, call->params, &tail);
    snprintf(kernel, sizeof kernel, "%s_%s", row->kernel, gpu_type_name(views[0].type));
    return gpu_elementwise(c, kernel, views, call->n_inputs + 1, &tail, tail_size, err);
}

// Operands of several float types: all of them are converted to f32 in scratch.
static enum status elementwise_mixed(const struct gpu_call * c, const struct ggml_tensor * node,
                                     const struct op_call * call, struct error * err) {
    struct view tensors[GPU_OPERANDS], views[GPU_OPERANDS], to = view_of(node);
    int n = call->n_inputs;
    size_t bytes = 0;
    char * room = NULL;
    enum status st = ST_OK;
    for (int i = 0; i <= n; i++) {
        tensors[i] = i < n ? call->inputs[i] : to;
        views[i] = view_contiguous(GGML_TYPE_F32, tensors[i].ne, NULL);
        bytes += GGML_PAD(view_bytes(&views[i]), BUFFER_ALIGNMENT);
    }
    if (c->stream) {
        atomic_fetch_add(&c->device->staged_operands, (uint64_t) n + 1);
        st = stream_scratch(c->stream, bytes, &room, err);
    }
    for (int i = 0; i <= n && st == ST_OK; i++) {
        views[i].data = room;
        room += room ? GGML_PAD(view_bytes(&views[i]), BUFFER_ALIGNMENT) : 0;
        if (i < n) {
            st = gpu_copy(c, &tensors[i], &views[i], err);
        }
    }
    if (st == ST_OK) {
        st = run_row(c, call, views, err);
    }
    return st == ST_OK ? gpu_copy(c, &views[n], &to, err) : st;
}

static enum status elementwise(const struct gpu_call * c, const struct ggml_tensor * node,
                               const struct op_call * call, struct error * err) {
    struct view views[GPU_OPERANDS];
    struct gpu_result result;
    bool mixed = false, floats = gpu_is_float(node->type);
    int n = call->n_inputs;
    if (n != kernel_op_info(call->op)->n_inputs) {
        return error_set(err, ST_INVALID, "%s lacks an input", op_label(node));
    }
    for (int i = 0; i < n; i++) {
        views[i] = call->inputs[i];
        mixed = mixed || views[i].type != node->type;
        floats = floats && gpu_is_float(views[i].type);
    }
    if (!gpu_type_name(node->type) || (mixed && !floats)) {
        return error_set(err, ST_UNSUPPORTED, "%s of %s and %s on a GPU", op_label(node),
                         ggml_type_name(views[n - 1].type), ggml_type_name(node->type));
    }
    if (mixed) {
        return elementwise_mixed(c, node, call, err);
    }
    enum status st = gpu_result_begin(c, node, false, GPU_OPERANDS, &result, err);
    if (st != ST_OK) {
        return st;
    }
    views[n] = result.view;
    st = run_row(c, call, views, err);
    return st == ST_OK ? gpu_result_end(c, &result, err) : st;
}

// ---- copies ----

static enum status concat(const struct gpu_call * c, const struct ggml_tensor * node,
                          struct error * err) {
    int dim = node->op_params[0];
    struct gpu_result result;
    bool fits = dim >= 0 && dim < GGML_MAX_DIMS;
    for (int d = 0; fits && d < GGML_MAX_DIMS; d++) {
        int64_t a = node->src[0]->ne[d], b = node->src[1]->ne[d];
        fits = node->ne[d] == (d == dim ? a + b : a) && (d == dim || a == b);
    }
    if (!fits || node->src[0]->type != node->type || node->src[1]->type != node->type) {
        return error_set(err, ST_UNSUPPORTED, "CONCAT on a GPU: shapes or datatypes");
    }
    enum status st = gpu_result_begin(c, node, false, 0, &result, err);
    struct view part = result.view;
    for (int i = 0; i < 2 && st == ST_OK; i++) {
        struct view from = view_of(node->src[i]);
        memcpy(part.ne, from.ne, sizeof part.ne);
        st = gpu_copy(c, &from, &part, err);
        int64_t steps = dim ? from.ne[dim] : from.ne[0] / ggml_blck_size(from.type);
        part.data += part.data ? (size_t) steps * part.nb[dim] : 0;
    }
    return st == ST_OK ? gpu_result_end(c, &result, err) : st;
}

// CPY may have another shape on either side: elements go in order, so that a side that is
// contiguous can be seen in the other's shape. Where neither is, or where they overlap, scratch is
// between them.
static enum status copy(const struct gpu_call * c, const struct ggml_tensor * node,
                        struct error * err) {
    struct view from = view_of(node->src[0]), to = view_of(node);
    bool repeats = node->op == GGML_OP_REPEAT;
    bool alike = repeats || !memcmp(from.ne, to.ne, sizeof from.ne);
    // What is quantized, or is to be, passes through f32.
    bool through = ggml_is_quantized(from.type) != ggml_is_quantized(to.type) &&
                   from.type != GGML_TYPE_F32 && to.type != GGML_TYPE_F32;
    bool staged = through || view_clobbers(&to, 1, &from) ||
                  (!alike && !view_is_packed(&from) && !view_is_packed(&to));
    if (!staged && !alike && view_is_packed(&from)) {
        from = view_contiguous(from.type, to.ne, from.data);
    } else if (!staged && !alike) {
        to = view_contiguous(to.type, from.ne, to.data);
    }
    if (!staged) {
        return gpu_copy(c, &from, &to, err);
    }
    struct view between = view_contiguous(through ? GGML_TYPE_F32 : to.type, from.ne, NULL);
    struct view then = repeats ? between : view_contiguous(between.type, to.ne, NULL);
    // The second half is asked for before the first is sent: a node of which something was sent can
    // no longer go to the CPU.
    enum status st = gpu_copy(&(struct gpu_call){.device = c->device}, &then, &to, err);
    if (st == ST_OK && c->stream) {
        atomic_fetch_add(&c->device->staged_operands, 1);
        st = stream_scratch(c->stream, view_bytes(&between), &between.data, err);
    }
    if (st == ST_OK) {
        st = gpu_copy(c, &from, &between, err);
    }
    then.data = between.data;
    return st == ST_OK ? gpu_copy(c, &then, &to, err) : st;
}

// ACC and SET: src0 with src1 added, or put, at a place that the parameters give: strides and an
// offset in bytes.
static enum status put_part(const struct gpu_call * c, const struct ggml_tensor * node,
                            struct error * err) {
    const int32_t * p = node->op_params;
    struct view from = view_of(node->src[0]), part = view_of(node->src[1]), to = view_of(node);
    bool adds = node->op == GGML_OP_ACC;
    uint64_t end = (uint32_t) p[3] + ggml_type_size(to.type);
    struct view place = part;
    for (int d = 0; d < GGML_MAX_DIMS; d++) {
        place.nb[d] = d ? (uint32_t) p[d - 1] : ggml_type_size(to.type);
        end += part.ne[d] > 1 ? (uint64_t) (part.ne[d] - 1) * place.nb[d] : 0;
    }
    bool fits = view_is_packed(&to) && ggml_are_same_shape(node, node->src[0]) &&
                end <= view_bytes(&to) && !ggml_is_empty(node->src[1]) && from.type == to.type &&
                part.type == to.type && (!adds || to.type == GGML_TYPE_F32);
    if (!fits || !gpu_type_name(to.type) || view_clobbers(&to, 1, &part) ||
        (to.data && to.data == part.data)) {
        return error_set(err, ST_UNSUPPORTED, "%s on a GPU: datatypes, or a place beyond the end",
                         op_label(node));
    }
    place.data = to.data ? to.data + (uint32_t) p[3] : NULL;
    enum status st = ST_OK;
    if (!to.data || to.data != from.data) {
        st = view_clobbers(&to, 1, &from)
                 ? error_set(err, ST_UNSUPPORTED, "%s on a GPU: an overlap", op_label(node))
                 : gpu_copy(c, &from, &to, err);
    }
    if (st != ST_OK || !adds) {
        return st == ST_OK ? gpu_copy(c, &part, &place, err) : st;
    }
    const struct view views[GPU_OPERANDS] = {place, part, place};
    return gpu_elementwise(c, "binary_add_f32", views, 3, NULL, 0, err);
}

static enum status add1(const struct gpu_call * c, const struct ggml_tensor * node,
                        struct error * err) {
    const struct ggml_tensor *x = node->src[0], *one = node->src[1];
    struct gpu_result result;
    char kernel[64];
    if (x->type != node->type || one->type != x->type || !gpu_is_float(x->type) ||
        ggml_nelements(one) != 1 || !ggml_are_same_shape(node, x)) {
        return error_set(err, ST_UNSUPPORTED, "ADD1 on a GPU: datatypes or shapes");
    }
    enum status st = gpu_result_begin(c, node, false, 1, &result, err);
    const struct view views[GPU_OPERANDS] = {view_of(x), view_of(one), result.view};
    snprintf(kernel, sizeof kernel, "binary_add_%s", gpu_type_name(x->type));
    st = st == ST_OK ? gpu_elementwise(c, kernel, views, 3, NULL, 0, err) : st;
    return st == ST_OK ? gpu_result_end(c, &result, err) : st;
}

// ---- every node ----

static const struct {
    enum ggml_op op;
    int n_inputs; // at least
    enum status (*run)(const struct gpu_call * c, const struct ggml_tensor * node,
                       struct error * err);
} others[] = {
    {GGML_OP_SOFT_MAX, 1, gpu_soft_max},
    {GGML_OP_NORM, 1, gpu_norm},
    {GGML_OP_RMS_NORM, 1, gpu_norm},
    {GGML_OP_SUM_ROWS, 1, gpu_reduce},
    {GGML_OP_ARGMAX, 1, gpu_reduce},
    {GGML_OP_ARGSORT, 1, gpu_sort},
    {GGML_OP_TOP_K, 1, gpu_sort},
    {GGML_OP_MUL_MAT, 2, gpu_mul_mat},
    {GGML_OP_OUT_PROD, 2, gpu_out_prod},
    {GGML_OP_MUL_MAT_ID, 3, gpu_mul_mat_id},
    {GGML_OP_FLASH_ATTN_EXT, 3, gpu_attention},
    {GGML_OP_ROPE, 2, gpu_rope},
    {GGML_OP_ROPE_BACK, 2, gpu_rope},
    {GGML_OP_GET_ROWS, 2, gpu_get_rows},
    {GGML_OP_SET_ROWS, 2, gpu_set_rows},
    {GGML_OP_ACC, 2, put_part},
    {GGML_OP_SET, 2, put_part},
    {GGML_OP_ADD1, 2, add1},
    {GGML_OP_CONCAT, 2, concat},
    {GGML_OP_CPY, 1, copy},
    {GGML_OP_CONT, 1, copy},
    {GGML_OP_DUP, 1, copy},
    {GGML_OP_REPEAT, 1, copy},
};

static enum status node_on_gpu(const struct gpu_call * c, const struct ggml_tensor * node,
                               struct error * err) {
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (others[i].op == node->op) {
            for (int k = 0; k < others[i].n_inputs; k++) {
                if (!node->src[k]) {
                    return error_set(err, ST_INVALID, "%s lacks an input", op_label(node));
                }
            }
            return others[i].run(c, node, err);
        }
    }
    if (gpu_has_op(node->op)) {
        return gpu_op(c, node, err);
    }
    struct op_call call = {.op = KERNEL_OP_COUNT};
    enum status st = op_call_of(node, &call, err);
    // An op that only NPUs have is refused before anything else is looked at.
    if (call.op == KERNEL_OP_COUNT || !rows[call.op].kernel) {
        st = error_set(err, ST_UNSUPPORTED, "there is no kernel for %s on a GPU", op_label(node));
    }
    return st == ST_OK ? elementwise(c, node, &call, err) : st;
}

static bool computes(struct hsa_device * device, const struct ggml_tensor * op,
                     struct error * why) {
    struct gpu_call c = {.device = device};
    return op_is_view(op->op) || node_on_gpu(&c, op, why) == ST_OK;
}

static enum status compute(struct hsa_stream * s, struct ggml_tensor * node, struct error * err) {
    struct gpu_call c = {.device = s->device, .stream = s};
    return node_on_gpu(&c, node, err);
}

static bool has(enum ggml_op op) {
    bool other = op_is_view(op) || op == GGML_OP_UNARY || op == GGML_OP_GLU;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        other = other || others[i].op == op;
    }
    enum kernel_op kernel = op_kernel(op);
    return other || (kernel != KERNEL_OP_COUNT && rows[kernel].kernel);
}

// From so many columns on, as ggml's own GPU backends have it, and by the same variable: the copy
// of the weights is paid by what they are multiplied with.
static bool offloads(const struct ggml_tensor * op) {
    const char * asked = getenv("GGML_OP_OFFLOAD_MIN_BATCH");
    int64_t least = asked ? atoi(asked) : 32;
    switch (op->op) {
    case GGML_OP_GET_ROWS: // a few rows of a table
        return false;
    case GGML_OP_MUL_MAT:
        return op->ne[1] >= least;
    case GGML_OP_MUL_MAT_ID:
    case GGML_OP_ROPE:
    case GGML_OP_ROPE_BACK:
        return op->ne[2] >= least;
    default:
        return ggml_nrows(op) >= least;
    }
}

const struct device_kind gpu_kind = {.computes = computes,
                                     .has = has,
                                     .compute = compute,
                                     .fuse = gpu_fuse,
                                     .offloads = offloads,
                                     .scratch_reset = gpu_bytes_drop,
                                     .written = gpu_bytes_written};
