// network: times for which the weighted sum of distances is least while each distance is as long as
// it has to be (a linear programme, the dual of a flow). lifetime-order.c asks it for the times at
// which values live shortly.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// rank[to] - rank[from] >= least, and counts `weight` times.
struct network_edge {
    int16_t from, to;
    int16_t least, weight;
};

struct network {
    int n, n_edges; // edges lead to higher numbers than they come from, but for those of node 0,
    struct network_edge * edges; // from which every node without another edge to it has one
    int * rank;
};

// False when memory ran out.
bool network_solve(struct network * w);
