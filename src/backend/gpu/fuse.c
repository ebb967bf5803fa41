// fuse: nodes of a graph that one kernel computes. NORM or RMS_NORM, the MUL with its weights and
// an ADD: the kernels of norms take weights and what is added. ROPE of keys and the SET_ROWS that
// puts them into the cache, through the view of whole rows that llama.cpp has between them.
//
// Here nodes are told by how they hang together. What is made of them is a node of the first one's
// op with more inputs, which ggml's have not, and whether the shapes fit to the kernel is looked at
// where that is computed (rows.c, rope.c). Whether anybody could tell is order_may_join's matter.
#include "gpu.h"

#include "backend/order.h"

#include <string.h>

static struct ggml_tensor * input(const struct ggml_tensor * t) {
    return (struct ggml_tensor *) (uintptr_t) t; // nobody writes to it
}

// A node in the place of the last one, with the op and the inputs of the first.
static struct ggml_tensor as_one(const struct ggml_tensor * first,
                                 const struct ggml_tensor * last) {
    struct ggml_tensor out = *last;
    out.op = first->op;
    memcpy(out.op_params, first->op_params, sizeof out.op_params);
    memcpy(out.src, first->src, sizeof out.src);
    return out;
}

// The operand of a sum or product beside the node before it; NULL: that is no operand, or the other
// one lies in what is not written then.
static const struct ggml_tensor * beside(const struct ggml_tensor * node,
                                         const struct ggml_tensor * before,
                                         const struct ggml_tensor * first) {
    const struct ggml_tensor * other = node->src[0] == before   ? node->src[1]
                                       : node->src[1] == before ? node->src[0]
                                                                : NULL;
    bool apart = other && !order_overlaps(other, before) && !order_overlaps(other, first);
    return apart ? other : NULL;
}

static bool fuse_norm(const struct ggml_tensor * const nodes[], int n, struct ggml_tensor * out) {
    const struct ggml_tensor *first = nodes[0], *last = nodes[n - 1], *weights, *added = NULL;
    if (nodes[1]->op != GGML_OP_MUL || first->type != GGML_TYPE_F32 || first->src[1] ||
        (n == 3 && nodes[2]->op != GGML_OP_ADD)) {
        return false;
    }
    weights = beside(nodes[1], first, first);
    added = n == 3 ? beside(nodes[2], nodes[1], first) : NULL;
    if (!weights || (n == 3 && !added) || !ggml_are_same_shape(first, last)) {
        return false;
    }
    *out = as_one(first, last);
    out->src[1] = input(weights);
    out->src[2] = input(added);
    return true;
}

// The node is laid out as ROPE's rows would be that were put one behind the other at the cache's
// beginning; inputs 3 and 4 are ids, and the cache whose rows they count.
static bool fuse_rope(const struct ggml_tensor * const nodes[], int n, struct ggml_tensor * out) {
    const struct ggml_tensor *rope = nodes[0], *set = nodes[n - 1], *rows = set->src[0];
    if (n != 2 || set->op != GGML_OP_SET_ROWS || rope->src[3] || !rows || !set->src[1] ||
        (rows != rope && rows->view_src != rope)) {
        return false;
    }
    bool whole = rows->data == rope->data && ggml_is_contiguous(rope) && ggml_is_contiguous(rows) &&
                 rows->type == rope->type && ggml_nelements(rows) == ggml_nelements(rope) &&
                 rows->ne[0] == rope->ne[0] * rope->ne[1] && rows->ne[1] == rope->ne[2] &&
                 rope->ne[3] == 1 && ggml_nrows(set) == set->ne[1] && set->ne[0] == rows->ne[0];
    if (!whole || ggml_is_quantized(set->type)) {
        return false;
    }
    *out = as_one(rope, set);
    memcpy(out->ne, rope->ne, sizeof out->ne);
    out->nb[1] = set->nb[0] * (size_t) rope->ne[0];
    out->nb[2] = out->nb[3] = set->nb[1];
    out->src[3] = set->src[1];
    out->src[4] = input(set);
    return true;
}

bool gpu_fuse(const struct ggml_tensor * const nodes[], int n, struct ggml_tensor * out) {
    switch (nodes[0]->op) {
    case GGML_OP_NORM:
    case GGML_OP_RMS_NORM:
        return fuse_norm(nodes, n, out);
    case GGML_OP_ROPE:
        return fuse_rope(nodes, n, out);
    default:
        return false;
    }
}
