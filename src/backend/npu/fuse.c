// fuse: nodes of a graph that one kernel computes: RMS_NORM and the MUL with its weights; and what
// is behind a mixture's experts, the MUL of their results with how much each counts, and the ADDs
// of one result after the other.
#include "dispatch.h"

#include "backend/order.h"

#include <string.h>

static bool is_f32(const struct ggml_tensor * t) {
    return t && t->type == GGML_TYPE_F32 && ggml_is_contiguous(t);
}

static bool fuse_norm(const struct ggml_tensor * const nodes[], int n, struct ggml_tensor * out) {
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

// ---- rows by their weights ----

// The product of row i for all tokens, as a mixture takes it out of those of all rows.
static bool is_row(const struct ggml_tensor * t, const struct ggml_tensor * products, int i) {
    return t && t->op == GGML_OP_VIEW && t->src[0] == products && t->type == GGML_TYPE_F32 &&
           t->data == (char *) products->data + (size_t) i * products->nb[1] &&
           t->ne[0] == products->ne[0] && t->ne[1] == products->ne[2] && t->ne[2] == 1 &&
           t->ne[3] == 1 && t->nb[0] == products->nb[0] &&
           (t->ne[1] == 1 || t->nb[1] == products->nb[2]);
}

// Rows and their weights, and not some other broadcast.
static bool is_weighted(const struct ggml_tensor * node) {
    const struct ggml_tensor *x = node->src[0], *w = node->src[1];
    return node->op == GGML_OP_MUL && is_f32(x) && is_f32(w) && is_f32(node) &&
           ggml_are_same_shape(x, node) && w->ne[0] == 1 && w->ne[1] == x->ne[1] &&
           w->ne[2] == x->ne[2] && x->ne[3] == 1 && w->ne[3] == 1 && x->ne[1] > 1;
}

static bool fuse_sum(const struct ggml_tensor * const nodes[], int n, struct ggml_tensor * out) {
    const struct ggml_tensor *products = nodes[0], *last = nodes[n - 1];
    if (!is_weighted(products) || products->ne[1] != n) {
        return false;
    }
    bool fits = true;
    for (int i = 1; i < n && fits; i++) {
        const struct ggml_tensor *sum = nodes[i], *before = sum->src[0];
        fits = sum->op == GGML_OP_ADD && is_f32(sum) && is_row(sum->src[1], products, i) &&
               (i == 1 ? is_row(before, products, 0) : before == nodes[i - 1]) &&
               sum->ne[0] == products->ne[0] && sum->ne[1] == products->ne[2] && sum->ne[2] == 1 &&
               sum->ne[3] == 1;
    }
    // The kernel reads all of both for each part of the result.
    fits =
        fits && !order_overlaps(products->src[0], last) && !order_overlaps(products->src[1], last);
    if (fits) { // nor is a sum of rows with two inputs a node of ggml's
        *out = *last;
        out->op = GGML_OP_SUM_ROWS;
        memset(out->op_params, 0, sizeof out->op_params);
        out->src[0] = products->src[0];
        out->src[1] = products->src[1];
    }
    return fits;
}

// ---- both ----

int fuse_longest(const struct ggml_tensor * first) {
    return first->op == GGML_OP_RMS_NORM ? 2 : is_weighted(first) ? (int) first->ne[1] : 1;
}

bool fuse_nodes(const struct ggml_tensor * const nodes[], int n, struct ggml_tensor * out) {
    return fuse_norm(nodes, n, out) || fuse_sum(nodes, n, out);
}
