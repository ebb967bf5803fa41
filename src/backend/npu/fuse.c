// fuse: two nodes of a graph that one kernel computes, RMS_NORM and the MUL with its weights.
#include "dispatch.h"

#include "backend/order.h"

#include <string.h>

static bool is_f32(const struct ggml_tensor * t) {
    return t && t->type == GGML_TYPE_F32 && ggml_is_contiguous(t);
}

bool fuse_nodes(const struct ggml_tensor * const nodes[], int n, struct ggml_tensor * out) {
    const struct ggml_tensor *first = nodes[0], *second = nodes[1], *weights = second->src[1];
    if (n != 2 || first->op != GGML_OP_RMS_NORM || second->op != GGML_OP_MUL ||
        second->src[0] != first || weights == first) {
        return false;
    }
    bool fits = is_f32(first->src[0]) && is_f32(first) && is_f32(second) && is_f32(weights) &&
                ggml_are_same_shape(first, second) && weights->ne[0] == first->ne[0] &&
                (ggml_nrows(weights) == 1 || ggml_are_same_shape(weights, first));
    // Weights that lie in what is written would be gone before the norm, and those that lie in the
    // norm, by a view of it, are not there.
    fits = fits && !order_overlaps(weights, first) && !order_overlaps(weights, second);
    if (fits) { // a norm of two inputs is no node of ggml's, and nobody else's either: op-map.c
        *out = *second;
        out->op = GGML_OP_RMS_NORM;
        memcpy(out->op_params, first->op_params, sizeof out->op_params);
        out->src[0] = first->src[0];
        out->src[1] = (struct ggml_tensor *) (uintptr_t) weights;
    }
    return fits;
}
