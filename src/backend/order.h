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

struct order order_of(struct ggml_cgraph * graph, const struct device_kind * kind);
// The next node that is to be computed and its place in the graph; NULL: there is none.
struct ggml_tensor * order_next(struct order * o, int * index);
// The node behind that place, where it has not had its turn; and that it has.
const struct ggml_tensor * order_peek(const struct order * o, int index);
void order_had(struct order * o, int index);
