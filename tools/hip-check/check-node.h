// check-node: what the tables of nodes share: a case is packed tensors, parameters, and a function
// that fills in what the result should be.
#pragma once

#include "check-impl.h"

#include <math.h>
#include <string.h>

enum { MAX_IN = 7, MAX_PARAMS = 13, ROOM = 4096 };

struct tensor {
    uint32_t ne[4];
    double * v;
};

struct node {
    struct tensor y, x[MAX_IN];
    const int32_t * p;
    double scale; // of the numbers that one of y is made of
};

static inline size_t size_of(const struct tensor * t) {
    return (size_t) t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
}

static inline double * at(const struct tensor * t, size_t i0, size_t i1, size_t i2, size_t i3) {
    return &t->v[((i3 * t->ne[2] + i2) * t->ne[1] + i1) * t->ne[0] + i0];
}

static inline double param(const struct node * n, int i) {
    float f;
    memcpy(&f, &n->p[i], sizeof f);
    return f;
}

#define EACH(t, i) for (size_t n_ = 0, i[4] = {0}; n_ < size_of(&(t)); n_++, next_index(&(t), i))

static inline void next_index(const struct tensor * t, size_t i[4]) {
    for (int d = 0; d < 4 && ++i[d] == t->ne[d]; d++) {
        i[d] = 0;
    }
}
#define Y(i) (*at(&n->y, i[0], i[1], i[2], i[3]))
#define X(k) (&n->x[k])

enum {
    ITEMS,
    ROWS_0,
    ROWS_1,
    ONE,
    STATES
}; // work-items of y, or groups; STATES: p[MAX_PARAMS - 1]

struct node_case {
    const char *kernel, *types; // letters for y and the inputs, see check-node.c
    void (*want)(struct node * n);
    int grid;
    uint32_t y[4], x[MAX_IN][4];
    int32_t p[MAX_PARAMS];
    double scale, ulps;
    uint32_t below; // whole numbers are
};

extern const struct node_case node_layers[]; // check-layers.c; ends with a case without a kernel
