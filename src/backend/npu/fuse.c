// fuse: two nodes of a graph that one kernel computes, RMS_NORM and the MUL with its weights. They
// may be one where nobody can tell: the product is written to where the norm would have stood, so
// that the norm would be gone with the very next node. That is what ggml's allocator makes of a
// norm that has one use and is no output, over the whole graph and not only the part that is here.
#include "dispatch.h"

#include <string.h>

static bool is_f32(const struct ggml_tensor * t) {
    return t && t->type == GGML_TYPE_F32 && ggml_is_contiguous(t);
}

bool fuse_nodes(const struct ggml_tensor * first, const struct ggml_tensor * second,
                struct ggml_tensor * out) {
    const struct ggml_tensor * weights = second->src[1];
    if (first->op != GGML_OP_RMS_NORM || second->op != GGML_OP_MUL || second->src[0] != first ||
        second->data != first->data || weights == first) {
        return false;
    }
    bool fits = is_f32(first->src[0]) && is_f32(first) && is_f32(second) && is_f32(weights) &&
                ggml_are_same_shape(first, second) && weights->ne[0] == first->ne[0] &&
                (ggml_nrows(weights) == 1 || ggml_are_same_shape(weights, first));
    // Weights that lie in what is written would be gone before the norm.
    const char *begin = second->data, *at = weights->data;
    fits &= at + ggml_nbytes(weights) <= begin || begin + ggml_nbytes(second) <= at;
    if (fits) { // a norm of two inputs is no node of ggml's, and nobody else's either: op-map.c
        *out = *second;
        out->op = GGML_OP_RMS_NORM;
        memcpy(out->op_params, first->op_params, sizeof out->op_params);
        out->src[0] = first->src[0];
        out->src[1] = (struct ggml_tensor *) (uintptr_t) weights;
    }
    return fits;
}
