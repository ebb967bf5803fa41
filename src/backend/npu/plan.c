// plan: how a node becomes kernels. The store is asked for the node as it stands; what no kernel
// takes (odd strides, a broadcast, mixed datatypes) is laid out by the host, more and more of it
// until a kernel fits: strided operands packed, then inputs repeated to the full shape, then the
// same again with all floats as f32. What is too large for one kernel is cut into chunks.
// supports_op and graph_compute both come here, so that they cannot disagree.
#include "npu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// Kernels exist for these; the index is ggml's type.
static const struct {
    bool known;
    enum dtype dtype;
    bool is_float;
} types[GGML_TYPE_COUNT] = {
    [GGML_TYPE_F32] = {true, DTYPE_F32, true},   [GGML_TYPE_F16] = {true, DTYPE_F16, true},
    [GGML_TYPE_BF16] = {true, DTYPE_BF16, true}, [GGML_TYPE_I8] = {true, DTYPE_I8, false},
    [GGML_TYPE_I16] = {true, DTYPE_I16, false},  [GGML_TYPE_I32] = {true, DTYPE_I32, false},
};

enum layout { AS_IT_STANDS, PACKED, FULL_SHAPE };

struct request {
    struct store * store;
    enum aie_arch arch;
    const struct ggml_tensor * node;
    struct op_call call;
    struct view result;
    bool owns_last_word; // of the result
    bool by_command;     // kernels of GGML_HSA_JIT_COMMAND count as well
};

// ---- views ----

static bool is_aligned(const struct view * v) {
    return (uintptr_t) v->data % DMA_WORD == 0;
}

static bool same_shape(const int64_t a[GGML_MAX_DIMS], const int64_t b[GGML_MAX_DIMS]) {
    return !memcmp(a, b, GGML_MAX_DIMS * sizeof *a);
}

static bool repeats_to(const int64_t from[GGML_MAX_DIMS], const int64_t to[GGML_MAX_DIMS]) {
    bool ok = true;
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        ok &= from[i] > 0 ? to[i] % from[i] == 0 : to[i] == 0;
    }
    return ok;
}

bool plan_clobbers(const struct view * dst, const struct view * src) {
    return view_clobbers(dst, DMA_WORD, src);
}

// May a DMA write dst in whole words? Not where the last word belongs to somebody else too.
static bool owns_last_word(const struct ggml_tensor * dst) {
    const struct ggml_tensor * base = dst->view_src;
    size_t bytes = ggml_nbytes(dst);
    bool whole = !base || (dst->view_offs == 0 && bytes == ggml_nbytes(base));
    return bytes % DMA_WORD == 0 || (whole && (uintptr_t) dst->data % BUFFER_ALIGNMENT == 0);
}

// ---- kernels ----

bool plan_can(struct store * store, const struct kernel_spec * spec, bool by_command) {
    return store_us(store, spec) <= HSAC_MOST_US &&
           (by_command ? store_can(store, spec) : store_can_itself(store, spec));
}

void plan_why_not(struct store * store, const struct kernel_spec * spec, struct error * err) {
    struct error why = {0};
    uint64_t us = store_us(store, spec);
    store_why_not(store, spec, &why);
    if (why.status == ST_OK && us > HSAC_MOST_US) {
        error_set(err, ST_UNSUPPORTED,
                  "it may take %llu us at the lowest clock, and a kernel at most %d us (ROCr 7.2 "
                  "waits no longer than 50 ms for a batch)",
                  (unsigned long long) us, HSAC_MOST_US);
    } else {
        error_set(err, ST_UNSUPPORTED, "%s", why.text);
    }
}

static bool can(const struct request * r, const struct kernel_spec * spec) {
    return plan_can(r->store, spec, r->by_command);
}

struct tensor plan_tensor(const struct view * v) {
    struct tensor out = {.dtype = types[v->type].dtype};
    for (int i = 0; i < TENSOR_DIMS; i++) {
        out.ne[i] = v->ne[i];
        out.nb[i] = (int64_t) v->nb[i];
    }
    return out;
}

static enum kernel_precision precision;
static pthread_once_t precision_once = PTHREAD_ONCE_INIT;

static void read_precision(void) {
    if (!kernel_precision_asked(&precision)) {
        log_warn("GGML_HSA_PRECISION=%.40s is not known and is ignored: it may be fast or exact",
                 getenv("GGML_HSA_PRECISION"));
    }
}

enum kernel_precision plan_precision(void) {
    pthread_once(&precision_once, read_precision);
    return precision;
}

static struct kernel_spec spec_of(const struct request * r, const struct plan * p) {
    struct kernel_spec spec = {.op = r->call.op,
                               .arch = r->arch,
                               .precision = plan_precision(),
                               .n_inputs = p->n_operands - 1};
    for (int i = 0; i < spec.n_inputs; i++) {
        spec.inputs[i] = plan_tensor(&p->operands[i].kernel);
    }
    spec.output = plan_tensor(&p->operands[spec.n_inputs].kernel);
    memcpy(spec.params, r->call.params, sizeof spec.params);
    return spec;
}

// ---- layouts ----

// What the kernel has in the place of a tensor of this type.
static enum ggml_type kernel_type(enum ggml_type t, bool f32, bool is_result) {
    if (t == GGML_TYPE_I64 && is_result) {
        return GGML_TYPE_I32; // counts: plan_node sees to it that they fit
    }
    return f32 && types[t].is_float ? GGML_TYPE_F32 : t;
}

static void lay_out(struct plan_operand * o, enum ggml_type type, const int64_t ne[GGML_MAX_DIMS],
                    enum layout layout) {
    bool full = layout == FULL_SHAPE && !same_shape(o->tensor.ne, ne);
    o->staged = type != o->tensor.type || !is_aligned(&o->tensor) || full ||
                (layout >= PACKED && !view_is_packed(&o->tensor));
    o->kernel = o->staged ? view_contiguous(type, full ? ne : o->tensor.ne, NULL) : o->tensor;
}

static bool try_layout(const struct request * r, enum layout layout, bool f32, struct plan * p) {
    const struct op_call * call = &r->call;
    *p = (struct plan){.n_operands = call->n_inputs + 1, .n = 1, .chunk = 1};
    struct plan_operand * result = &p->operands[call->n_inputs];
    result->tensor = r->result;
    lay_out(result, kernel_type(r->result.type, f32, true), r->result.ne, layout);
    result->staged |= !r->owns_last_word;
    for (int i = 0; i < call->n_inputs; i++) {
        struct plan_operand * o = &p->operands[i];
        o->tensor = call->inputs[i];
        bool repeats = repeats_to(o->tensor.ne, r->result.ne);
        lay_out(o, kernel_type(o->tensor.type, f32, false), repeats ? r->result.ne : o->tensor.ne,
                layout);
        result->staged |= !o->staged && plan_clobbers(&r->result, &o->tensor);
    }
    if (result->staged) {
        enum ggml_type type = kernel_type(r->result.type, f32, true);
        result->kernel = view_contiguous(type, r->result.ne, NULL);
    }
    p->spec = spec_of(r, p);
    return can(r, &p->spec);
}

// ---- chunks ----

// The first `units` units of each operand of a plan whose operands are packed.
static struct kernel_spec cut(const struct request * r, const struct plan * p, int64_t units) {
    struct kernel_spec spec = p->spec;
    for (int i = 0; i < p->n_operands; i++) {
        const struct view * v = &p->operands[i].kernel;
        int64_t ne[TENSOR_DIMS] = {r->call.elementwise ? units : v->ne[0],
                                   r->call.elementwise ? 1 : units, 1, 1};
        struct tensor t = tensor_contiguous(types[v->type].dtype, ne);
        *(i < spec.n_inputs ? &spec.inputs[i] : &spec.output) = t;
    }
    return spec;
}

// Operands of the full shape, cut into elements, or into rows where the rows of all operands go
// together.
static bool try_chunks(const struct request * r, bool f32, struct plan * p) {
    bool elementwise = r->call.elementwise;
    try_layout(r, FULL_SHAPE, f32, p); // as a whole it is known not to fit
    const int64_t * ne = r->result.ne;
    p->n = elementwise ? ggml_nelements(r->node) : ne[1] * ne[2] * ne[3];
    for (int i = 0; i < p->n_operands; i++) {
        const struct view * v = &p->operands[i].kernel;
        if (elementwise ? !same_shape(v->ne, ne) : memcmp(v->ne + 1, ne + 1, 3 * sizeof *ne)) {
            return false;
        }
        p->operands[i].step = elementwise ? ggml_type_size(v->type) : v->nb[1];
    }
    // Chunks begin at whole words.
    const int64_t unit = elementwise ? 64 : DMA_WORD;
    const int64_t least = elementwise ? 4096 : DMA_WORD;
    int64_t chunk = p->n;
    for (;;) {
        p->spec = cut(r, p, chunk);
        if (can(r, &p->spec)) {
            break;
        }
        if (chunk <= least) {
            return false;
        }
        chunk = GGML_PAD((chunk + 1) / 2, unit);
    }
    p->chunk = chunk;
    if (p->n % chunk == 0) {
        return true;
    }
    p->rest = cut(r, p, p->n % chunk);
    return can(r, &p->rest);
}

// ---- nodes ----

static enum status check_operands(const struct request * r, bool * has_short_floats,
                                  struct error * err) {
    const char * name = op_label(r->node);
    *has_short_floats = false;
    for (int i = 0; i <= r->call.n_inputs; i++) {
        bool is_result = i == r->call.n_inputs;
        const struct view * v = is_result ? &r->result : &r->call.inputs[i];
        bool counts = is_result && v->type == GGML_TYPE_I64;
        // A later ggml may have more types.
        if ((unsigned) v->type >= GGML_TYPE_COUNT || (!types[v->type].known && !counts)) {
            return error_set(err, ST_UNSUPPORTED, "%s of %s is not supported", name,
                             ggml_type_name(v->type));
        }
        if (counts && ggml_nelements(r->node->src[0]) > INT32_MAX) {
            return error_set(err, ST_UNSUPPORTED, "%s of so many elements is not supported", name);
        }
        if (r->call.elementwise && !repeats_to(v->ne, r->result.ne)) {
            return error_set(err, ST_INVALID, "%s: src%d does not repeat to the shape of dst", name,
                             i);
        }
        *has_short_floats |= types[v->type].is_float && v->type != GGML_TYPE_F32;
    }
    return ST_OK;
}

static bool find_layout(const struct request * r, bool has_short_floats, struct plan * out) {
    for (int f32 = 0; f32 <= has_short_floats; f32++) {
        for (int layout = AS_IT_STANDS; layout <= FULL_SHAPE; layout++) {
            if (try_layout(r, (enum layout) layout, f32, out)) {
                return true;
            }
        }
    }
    bool may_cut = r->call.elementwise || r->call.rows_alike;
    for (int f32 = 0; f32 <= has_short_floats && may_cut; f32++) {
        if (try_chunks(r, f32, out)) {
            return true;
        }
    }
    return false;
}

enum status plan_node(struct store * store, enum aie_arch arch, const struct ggml_tensor * node,
                      struct plan * out, struct error * err) {
    struct request r = {.store = store, .arch = arch, .node = node};
    enum status st = op_call_of(node, &r.call, err);
    if (st != ST_OK) {
        return st;
    }
    r.result = view_of(node);
    r.owns_last_word = owns_last_word(node);
    bool has_short_floats;
    st = check_operands(&r, &has_short_floats, err);
    if (st != ST_OK) {
        return st;
    }
    if (ggml_is_empty(node)) {
        *out = (struct plan){0};
        return ST_OK;
    }
    if (find_layout(&r, has_short_floats, out)) {
        return ST_OK;
    }
    r.by_command = store_has_command(store);
    if (r.by_command && find_layout(&r, has_short_floats, out)) {
        return ST_OK;
    }
    // The reason is that of the layout in which operands lie as a kernel can take them: strides are
    // none then.
    char name[KERNEL_NAME_MAX];
    try_layout(&r, FULL_SHAPE, false, out);
    kernel_name(&out->spec, name);
    struct error why;
    plan_why_not(store, &out->spec, &why);
    return error_set(err, ST_UNSUPPORTED, "no kernel like %s: %s", name, why.text);
}
