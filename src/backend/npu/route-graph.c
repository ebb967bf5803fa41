// route-graph: the ways of a graph's nodes, told before the first one is sent (route.h). Layers
// have the same nodes again and again, so what was told of one is remembered by a hash of all that
// it depends on: two nodes with one hash are computed right, but may cost a load more.
//
// Kept true: what is chosen depends on the graph alone, so the same graph is the same kernels.
#include "dispatch.h"
#include "panels.h"

#include "aie/target/times.h"
#include "backend/order.h"

#include <stdlib.h>

enum { KNOWN = 512, NEAR = 8 }; // nodes that are told apart, and places that one may have

struct known {
    uint64_t hash; // 0: none
    struct route_stop stop;
};

struct route {
    int n, room, next; // next: where the node that is asked for is likely to stand
    const struct ggml_tensor ** nodes;
    struct route_stop * stops;
    uint8_t * chosen;
    struct known known[KNOWN];
};

struct route * route_new(void) {
    return calloc(1, sizeof(struct route));
}

void route_free(struct route * r) {
    if (r) {
        free(r->nodes);
        free(r->stops);
        free(r->chosen);
        free(r);
    }
}

static bool has_room(struct route * r, int n) {
    if (n <= r->room) {
        return true;
    }
    free(r->nodes);
    free(r->stops);
    free(r->chosen);
    r->nodes = calloc((size_t) n, sizeof *r->nodes);
    r->stops = calloc((size_t) n, sizeof *r->stops);
    r->chosen = calloc((size_t) n, sizeof *r->chosen);
    r->room = r->nodes && r->stops && r->chosen ? n : 0;
    return r->room > 0;
}

// Where it is, or is to be: the first place from its own on that has it or nothing, else its own.
static struct known * known_at(struct route * r, uint64_t hash) {
    const size_t own = (size_t) ((hash ^ hash >> 32) % KNOWN);
    for (size_t i = 0; i < NEAR; i++) {
        struct known * k = &r->known[(own + i) % KNOWN];
        if (k->hash == hash || !k->hash) {
            return k;
        }
    }
    return &r->known[own];
}

// shares: what the node before it is multiplied by, too.
static void add_node(struct route * r, struct hsa_device * device, const struct ggml_tensor * node,
                     const struct ggml_tensor * first, bool shares) {
    struct panels_node room;
    node = panels_restride(node, &room);
    uint64_t hash = kept_hash(node) * 2 + shares;
    struct known * k = known_at(r, hash);
    if (k->hash != hash) {
        k->hash = hash;
        k->stop = (struct route_stop){0};
        npu_ways(device, node, shares, &k->stop);
    }
    r->nodes[r->n] = first;
    r->stops[r->n++] = k->stop;
}

// As stream.c computes them: in order's order, and several as one.
static void add_nodes(struct route * r, struct hsa_device * device, struct ggml_cgraph * graph) {
    struct order order = order_of(graph, device->kind);
    const struct ggml_tensor *node, *last = NULL;
    int index;
    while ((node = order_next(&order, &index))) {
        const struct order_run run = order_run(&order, index, fuse_longest(node));
        struct ggml_tensor as_one;
        bool shares = last && last->op == node->op && node->op == GGML_OP_MUL_MAT &&
                      last->src[1] == node->src[1];
        last = node;
        int n = run.n;
        while (n > 1 &&
               !(device->kind->fuse(run.nodes, n, &as_one) && order_may_join(&order, &run, n))) {
            n--;
        }
        for (int i = 0; n > 1 && i < n; i++) {
            order_had(&order, run.at[i]);
        }
        add_node(r, device, n > 1 ? &as_one : node, node, shares);
    }
}

uint64_t route_graph(struct route * r, struct hsa_device * device, struct ggml_cgraph * graph,
                     int * loads) {
    r->n = r->next = 0;
    *loads = 0;
    if (!has_room(r, ggml_graph_n_nodes(graph))) {
        return 0;
    }
    add_nodes(r, device, graph);
    uint64_t load = (uint64_t) aie_times(device->npu->arch)->likely.load;
    return route_solve(r->stops, (size_t) r->n, load, r->chosen, loads);
}

static bool has_many_rows(const struct ggml_tensor * node) {
    bool experts = node->op == GGML_OP_MUL_MAT_ID;
    return (mat_is_product(node->op) || experts) &&
           node->ne[1] * node->ne[2] * node->ne[3] > MAT_FEW_ROWS;
}

void route_begin(struct hsa_stream * s, struct ggml_cgraph * graph) {
    struct route * r = s->npu->route;
    bool many = false;
    for (int i = 0; r && i < ggml_graph_n_nodes(graph) && !many; i++) {
        many = has_many_rows(ggml_graph_node(graph, i));
    }
    if (many) {
        int loads;
        route_graph(r, s->device, graph, &loads);
    } else if (r) {
        r->n = 0;
    }
}

// Nodes come in the order in which they were told. Where there was but one way there is nothing to
// say.
struct route_place route_of(struct route * r, const struct ggml_tensor * node) {
    for (int i = 0; r && i < r->n; i++) {
        int at = (r->next + i) % r->n;
        if (r->nodes[at] == node) {
            r->next = at + 1;
            return r->stops[at].n > 1 ? r->stops[at].ways[r->chosen[at]].at
                                      : (struct route_place){0};
        }
    }
    return (struct route_place){0};
}
