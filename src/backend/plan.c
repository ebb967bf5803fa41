// plan: how an ADD node becomes kernels. The compiler is asked for the node as it stands; what it
// does not take (a broadcast, odd strides, mixed datatypes) is laid out by the host as contiguous
// tensors of the full shape, and what is too large for one kernel is cut into chunks. supports_op
// and graph_compute both come here, so that they cannot disagree.
#include "backend.h"

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

static struct tensor tensor_of(const struct ggml_tensor * t) {
    struct tensor out = {.dtype = types[t->type].dtype};
    for (int i = 0; i < TENSOR_DIMS; i++) {
        out.ne[i] = t->ne[i];
        out.nb[i] = (int64_t) t->nb[i];
    }
    return out;
}

static struct kernel_spec spec_of(enum aie_arch arch, struct tensor a, struct tensor b,
                                  struct tensor out) {
    return (struct kernel_spec){
        .op = KERNEL_OP_ADD, .arch = arch, .n_inputs = 2, .inputs = {a, b}, .output = out};
}

static struct kernel_spec spec_contiguous(enum aie_arch arch, enum ggml_type type,
                                          const int64_t ne[TENSOR_DIMS]) {
    struct tensor t = tensor_contiguous(types[type].dtype, ne);
    return spec_of(arch, t, t, t);
}

static bool is_aligned(const struct ggml_tensor * t) {
    return (uintptr_t) t->data % DMA_WORD == 0;
}

// May a DMA write dst in whole words? Not where the last word belongs to somebody else too.
static bool owns_last_word(const struct ggml_tensor * dst) {
    const struct ggml_tensor * base = dst->view_src;
    size_t bytes = ggml_nbytes(dst);
    bool whole = !base || (dst->view_offs == 0 && bytes == ggml_nbytes(base));
    return bytes % DMA_WORD == 0 || (whole && (uintptr_t) dst->data % BUFFER_ALIGNMENT == 0);
}

static bool lie_alike(const struct ggml_tensor * a, const struct ggml_tensor * b) {
    if (a->data != b->data || a->type != b->type || !ggml_are_same_shape(a, b)) {
        return false;
    }
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        if (a->ne[i] != 1 && a->nb[i] != b->nb[i]) {
            return false;
        }
    }
    return true;
}

// Would writing dst spoil what is still to be read of src? An element over itself is fine.
static bool clobbers(const struct ggml_tensor * dst, const struct ggml_tensor * src) {
    const char * d = dst->data;
    const char * s = src->data;
    if (!d || !s || lie_alike(dst, src)) {
        return false;
    }
    size_t d_end = GGML_PAD(ggml_nbytes(dst), DMA_WORD);
    return d < s + ggml_nbytes(src) && s < d + d_end;
}

// Cuts n elements into chunks that the store has kernels for.
static bool plan_chunks(struct store * store, enum aie_arch arch, struct plan * p) {
    int64_t chunk = p->n;
    for (;;) {
        p->spec = spec_contiguous(arch, p->type, (int64_t[]){chunk, 1, 1, 1});
        if (store_can(store, &p->spec)) {
            break;
        }
        if (chunk <= 4096) {
            return false;
        }
        chunk = GGML_PAD((chunk + 1) / 2, 64); // chunks begin at whole words
    }
    p->chunk = chunk;
    if (p->n % chunk == 0) {
        return true;
    }
    p->rest = spec_contiguous(arch, p->type, (int64_t[]){p->n % chunk, 1, 1, 1});
    return store_can(store, &p->rest);
}

enum status plan_add(struct store * store, enum aie_arch arch, const struct ggml_tensor * node,
                     struct plan * out, struct error * err) {
    const struct ggml_tensor * operands[3] = {node->src[0], node->src[1], node};
    const struct ggml_tensor *a = operands[0], *b = operands[1];
    if (!a || !b || !ggml_are_same_shape(a, node) || !ggml_can_repeat(b, a)) {
        return error_set(err, ST_INVALID, "ADD: src1 does not repeat to the shape of src0 and dst");
    }
    bool mixed = false, floats = true, aligned = true;
    for (int i = 0; i < 3; i++) {
        enum ggml_type t = operands[i]->type;
        if ((unsigned) t >= GGML_TYPE_COUNT ||
            !types[t].known) { // a later ggml may have more types
            return error_set(err, ST_UNSUPPORTED, "ADD of %s is not supported", ggml_type_name(t));
        }
        mixed |= t != node->type;
        floats &= types[t].is_float;
        aligned &= is_aligned(operands[i]);
    }
    if (mixed && !floats) {
        return error_set(err, ST_UNSUPPORTED, "ADD of %s and %s to %s is not supported",
                         ggml_type_name(a->type), ggml_type_name(b->type),
                         ggml_type_name(node->type));
    }

    *out = (struct plan){.type = mixed ? GGML_TYPE_F32 : node->type, .n = ggml_nelements(node)};
    out->chunk = out->n;
    if (!mixed && aligned && owns_last_word(node) && !clobbers(node, a) && !clobbers(node, b)) {
        out->spec = spec_of(arch, tensor_of(a), tensor_of(b), tensor_of(node));
        if (store_can(store, &out->spec)) {
            return ST_OK;
        }
    }

    for (int i = 0; i < 3; i++) {
        const struct ggml_tensor * t = operands[i];
        out->stage[i] = t->type != out->type || !ggml_is_contiguous(t) ||
                        !ggml_are_same_shape(t, node) || !is_aligned(t);
    }
    out->stage[2] |= !owns_last_word(node) || (!out->stage[0] && clobbers(node, a)) ||
                     (!out->stage[1] && clobbers(node, b));
    out->spec = spec_contiguous(arch, out->type, node->ne);
    if (store_can(store, &out->spec) || plan_chunks(store, arch, out)) {
        return ST_OK;
    }
    char name[KERNEL_NAME_MAX];
    kernel_name(&out->spec, name);
    return error_set(err, ST_UNSUPPORTED,
                     "no kernel like %s: neither in a pack nor from the compiler", name);
}
