// order: a graph's nodes in the order in which they are computed. See order.c.
#pragma once

#include "backend.h"

struct order {
    struct ggml_cgraph * graph;
    const struct device_kind * kind;
    int n, at;                       // nodes before `at` have had their turn
    uint64_t early;                  // bit i: node at + i had it, too
    const struct ggml_tensor * last; // that came in ggml's order
};

bool order_overlaps(const struct ggml_tensor * a, const struct ggml_tensor * b); // their bytes
bool order_is_computed(const struct ggml_tensor * node);
// What becomes of a tensor's bytes at a node: nothing, they are read, or others take their place.
enum order_fate { ORDER_STAYS, ORDER_READ, ORDER_GONE };
enum order_fate order_fate(const struct ggml_tensor * node, const struct ggml_tensor * t);
struct order order_of(struct ggml_cgraph * graph, const struct device_kind * kind);
// The next node that is to be computed and its place in the graph; NULL: there is none.
struct ggml_tensor * order_next(struct order * o, int * index);

// Nodes that are computed one behind the other, and their places: so many where nobody asks for
// more, and at most.
#define ORDER_RUN     3
#define ORDER_LONGEST 16
struct order_run {
    int n;
    const struct ggml_tensor * nodes[ORDER_LONGEST];
    int at[ORDER_LONGEST];
};

// The node at that place, which has its turn now, and those that have it next, views left out; no
// more than `most`.
struct order_run order_run(const struct order * o, int index, int most);
// Can nobody tell when the first n of them are computed as one, which writes the last alone?
bool order_may_join(const struct order * o, const struct order_run * run, int n);
void order_had(struct order * o, int index); // it had its turn
