// route: on which PDI each node of a graph is computed. Many nodes can be computed in more than one
// way: a product of many rows by few at a time among the decoder's programs, or at once on the
// array of gemm; what stands between products as a kernel of the decoder's, or as a task of gemm's.
// Which is best depends on what the nodes before and behind it want, because a PDI that is not
// there has to be loaded. So the ways of all nodes are told before the first one is sent, and the
// cheapest path through them is taken: likely cycles of kernels, and a load for each change.
#pragma once

#include "npu.h"

#include "aie/plan/programs.h"

struct ggml_cgraph;
struct hsa_stream;

// The PDIs that a node's first and last kernel want.
struct route_place {
    const struct aie_program *first, *last; // NULL: no matter
};

struct route_way {
    struct route_place at;
    uint64_t cycles; // of its kernels, and of loads between them
};

enum { ROUTE_WAYS = 8 };
struct route_stop { // a node
    int n;          // 0: it takes no PDI, or nobody knows which
    struct route_way ways[ROUTE_WAYS];
};

// Of two ways with the same PDIs the cheaper one stays.
void route_add(struct route_stop * stop, struct route_way way);
// The same of one kernel; none that our compiler has is left out.
void route_add_kernel(struct route_stop * stop, struct store * store,
                      const struct kernel_spec * spec);
// The same of one that has a place (enum kernel_place): wherever it may be.
void route_add_placed(struct route_stop * stop, struct store * store,
                      const struct kernel_spec * spec);
// Puts one where the node at hand is to be, if there is such a kernel.
void route_put(struct store * store, const struct route_place * at, struct kernel_spec * spec);
// Have these kernels one PDI? A decoder's kernels take any of the decoders' PDIs.
bool route_is_same(const struct aie_program * a, const struct aie_program * b);

// The cheapest path: chosen has the number of a way for each stop. What the array has before the
// first one is not known. Returns its cycles, of which loads are so many.
uint64_t route_solve(const struct route_stop stops[], size_t n, uint64_t load, uint8_t chosen[],
                     int * loads);

// ---- route-graph.c ----

struct route; // of a stream

struct route * route_new(void); // NULL without memory: then every node goes its cheapest way
void route_free(struct route * r);
// Before a graph's first node. Graphs without products of many rows have nothing to choose.
void route_begin(struct hsa_stream * s, struct ggml_cgraph * graph);
uint64_t route_graph(struct route * r, struct hsa_device * device, struct ggml_cgraph * graph,
                     int * loads);
// Where a node is to be computed, which is the first one of those that are computed as one.
struct route_place route_of(struct route * r, const struct ggml_tensor * node);
