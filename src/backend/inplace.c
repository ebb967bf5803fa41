// inplace: see the header. Nobody can tell: the product's memory is given to another node before
// any but the ROPE reads it, and the ROPE's is free when the product is computed, for no node is
// between the two.
#include "inplace.h"

#include "order.h"

#include <stdlib.h>

// Does a node behind that place write there before one reads it?
static bool is_forgotten(struct ggml_cgraph * graph, int at, const struct ggml_tensor * t) {
    enum order_fate fate = ORDER_STAYS;
    for (int i = at + 1; i < ggml_graph_n_nodes(graph) && fate == ORDER_STAYS; i++) {
        fate = order_fate(ggml_graph_node(graph, i), t);
    }
    return fate == ORDER_GONE;
}

// Is what the ROPE turns all of the product, by views that leave it as it is?
static bool is_all_of(const struct ggml_tensor * turned, const struct ggml_tensor * product) {
    while (turned != product && op_is_view(turned->op) && turned->src[0] &&
           turned->data == product->data && ggml_is_contiguous(turned) &&
           ggml_nbytes(turned) == ggml_nbytes(product)) {
        turned = turned->src[0];
    }
    return turned == product;
}

static bool may_move(struct ggml_cgraph * graph, const struct ggml_tensor * product,
                     const struct ggml_tensor * rope, int at) {
    bool outputs = (product->flags | rope->src[0]->flags) & GGML_TENSOR_FLAG_OUTPUT;
    return !outputs && is_all_of(rope->src[0], product) && ggml_is_contiguous(product) &&
           ggml_is_contiguous(rope) && ggml_nbytes(rope) == ggml_nbytes(product) &&
           rope->type == product->type && !rope->view_src && !product->view_src &&
           order_fate(product, rope) == ORDER_STAYS &&
           !(rope->src[1] && order_overlaps(rope->src[1], rope)) &&
           !(rope->src[2] && order_overlaps(rope->src[2], rope)) &&
           is_forgotten(graph, at, product);
}

static bool has_room(struct inplace * p, size_t more) {
    if (p->n + more > p->room) {
        size_t room = 2 * p->room + more + 64;
        struct inplace_was * was = realloc(p->was, room * sizeof *was);
        p->room = was ? room : p->room;
        p->was = was ? was : p->was;
    }
    return p->n + more <= p->room;
}

static void move(struct inplace * p, const struct ggml_tensor * rope,
                 struct ggml_tensor * product) {
    enum { MOST_VIEWS = 8 };
    struct ggml_tensor * all[MOST_VIEWS + 1];
    size_t n = 0;
    for (struct ggml_tensor * t = rope->src[0]; n <= MOST_VIEWS; t = t->src[0]) {
        all[n++] = t;
        if (t == product) {
            break;
        }
    }
    if (all[n - 1] != product || !has_room(p, n)) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        p->was[p->n++] = (struct inplace_was){all[i], all[i]->data, all[i]->buffer};
        all[i]->data = rope->data;
        all[i]->buffer = rope->buffer;
    }
}

void inplace_begin(struct inplace * p, struct ggml_cgraph * graph) {
    struct ggml_tensor * before = NULL;
    *p = (struct inplace){0};
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        struct ggml_tensor * node = ggml_graph_node(graph, i);
        if (!order_is_computed(node)) {
            continue;
        }
        if (before && before->op == GGML_OP_MUL_MAT && node->op == GGML_OP_ROPE &&
            may_move(graph, before, node, i)) {
            move(p, node, before);
        }
        before = node;
    }
}

void inplace_end(struct inplace * p) {
    for (size_t i = p->n; i-- > 0;) {
        p->was[i].tensor->data = p->was[i].data;
        p->was[i].tensor->buffer = p->was[i].buffer;
    }
    free(p->was);
    *p = (struct inplace){0};
}
