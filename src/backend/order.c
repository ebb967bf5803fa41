// order: which node of a graph comes next. ggml's order is kept but where the device says that a
// node further on belongs behind the one that was just computed (device_kind.together), and where
// nobody can tell the difference: no node that it overtakes writes what it reads or touches what it
// writes. Memory is what decides, because ggml gives one node's to another that comes later.
#include "order.h"

enum { WINDOW = 64 }; // bits of `early`

struct order order_of(struct ggml_cgraph * graph, const struct device_kind * kind) {
    return (struct order){.graph = graph, .kind = kind, .n = ggml_graph_n_nodes(graph)};
}

bool order_is_computed(const struct ggml_tensor * node) {
    return !ggml_is_empty(node) && !op_is_view(node->op) &&
           (node->flags & GGML_TENSOR_FLAG_COMPUTE);
}

bool order_overlaps(const struct ggml_tensor * a, const struct ggml_tensor * b) {
    const char *x = a->data, *y = b->data;
    return x < y + ggml_nbytes(b) && y < x + ggml_nbytes(a);
}

// Does either write what the other one reads, or both the same? `node` writes nothing but itself.
static bool meets(const struct ggml_tensor * node, const struct ggml_tensor * before) {
    const struct ggml_tensor * written[OP_MAX_WRITES];
    int n = op_writes(before, written);
    bool found = false;
    for (int i = 0; i < n; i++) {
        found |= order_overlaps(written[i], node);
        for (int s = 0; s < GGML_MAX_SRC; s++) {
            found |= node->src[s] && order_overlaps(written[i], node->src[s]);
        }
    }
    for (int s = 0; s < GGML_MAX_SRC; s++) {
        found |= before->src[s] && order_overlaps(before->src[s], node);
    }
    return found;
}

static bool is_early(const struct order * o, int i) {
    return o->early >> (i - o->at) & 1;
}

// May it overtake all that is left before it?
static bool may_come(const struct order * o, int i) {
    for (int before = o->at; before < i; before++) {
        const struct ggml_tensor * t = ggml_graph_node(o->graph, before);
        if (!is_early(o, before) && order_is_computed(t) &&
            meets(ggml_graph_node(o->graph, i), t)) {
            return false;
        }
    }
    return true;
}

// Should a node like the last one follow it directly? Most kinds gain nothing from having one of
// their own beside them, so they are not searched for: the search walks the graph for each token.
static bool seeks(const struct order * o) {
    return o->last && o->at < o->n && o->kind->together && o->kind->together(o->last, o->last) &&
           !o->kind->together(o->last, ggml_graph_node(o->graph, o->at));
}

struct ggml_tensor * order_next(struct order * o, int * index) {
    for (; o->at < o->n; o->at++, o->early >>= 1) {
        struct ggml_tensor * node = ggml_graph_node(o->graph, o->at);
        if (!is_early(o, o->at) && order_is_computed(node)) {
            break;
        }
    }
    for (int i = o->at + 1; seeks(o) && i < o->n && i < o->at + WINDOW; i++) {
        struct ggml_tensor * node = ggml_graph_node(o->graph, i);
        if (!is_early(o, i) && o->kind->together(o->last, node) && order_is_computed(node) &&
            may_come(o, i)) {
            o->early |= 1ull << (i - o->at);
            *index = i;
            return node; // behind it others like it may come as well
        }
    }
    if (o->at == o->n) {
        return NULL;
    }
    *index = o->at;
    o->last = ggml_graph_node(o->graph, o->at);
    o->early |= 1;
    return (struct ggml_tensor *) o->last;
}

struct order_run order_run(const struct order * o, int index, int most) {
    struct order_run run = {.n = 1, .nodes = {ggml_graph_node(o->graph, index)}, .at = {index}};
    most = most < ORDER_LONGEST ? most : ORDER_LONGEST;
    for (int i = index + 1; run.n < most && i < o->n && i < o->at + WINDOW; i++) {
        const struct ggml_tensor * node = ggml_graph_node(o->graph, i);
        if (!is_early(o, i) && order_is_computed(node)) {
            run.nodes[run.n] = node;
            run.at[run.n++] = i;
        }
    }
    return run;
}

enum order_fate order_fate(const struct ggml_tensor * node, const struct ggml_tensor * t) {
    const struct ggml_tensor * written[OP_MAX_WRITES];
    if (!order_is_computed(node)) {
        return ORDER_STAYS;
    }
    for (int s = 0; s < GGML_MAX_SRC; s++) {
        if (node->src[s] && order_overlaps(node->src[s], t)) {
            return ORDER_READ;
        }
    }
    int n = op_writes(node, written);
    for (int w = 0; w < n; w++) {
        if (order_overlaps(written[w], t)) {
            return ORDER_GONE;
        }
    }
    return ORDER_STAYS;
}

// Is the tensor's memory given to another one behind that place before any node reads it? ggml's
// allocator does that with all that has no more uses, in the whole graph and not only the part
// that is here, and is no output.
static bool is_forgotten(const struct order * o, int at, const struct ggml_tensor * t) {
    enum order_fate fate = ORDER_STAYS;
    for (int i = at + 1; i < o->n && fate == ORDER_STAYS; i++) {
        bool had = i < o->at + WINDOW && is_early(o, i);
        fate = had ? ORDER_STAYS : order_fate(ggml_graph_node(o->graph, i), t);
    }
    return fate == ORDER_GONE;
}

bool order_may_join(const struct order * o, const struct order_run * run, int n) {
    const struct ggml_tensor * last = run->nodes[n - 1];
    for (int i = 0; i < n - 1; i++) {
        const struct ggml_tensor * t = run->nodes[i];
        bool covered = last->data == t->data && ggml_are_same_shape(last, t) &&
                       last->type == t->type && ggml_is_contiguous(last) && ggml_is_contiguous(t);
        if (!covered && !is_forgotten(o, run->at[n - 1], t)) {
            return false;
        }
    }
    return true;
}

void order_had(struct order * o, int index) {
    o->early |= 1ull << (index - o->at);
}
