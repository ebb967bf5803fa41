// route: the cheapest path through the ways of nodes, see route.h. It is found from node to node:
// for each way of a node the cheapest path that ends with it, which is the cheapest of those to the
// node before, with a load where the PDI is another.
#include "route.h"

#include <stdlib.h>
#include <string.h>

bool route_is_same(const struct aie_program * a, const struct aie_program * b) {
    return a == b || (a && b && aie_program_is_mixed(a) && aie_program_is_mixed(b));
}

void route_add(struct route_stop * stop, struct route_way way) {
    int i = 0;
    while (i < stop->n && !(route_is_same(stop->ways[i].at.first, way.at.first) &&
                            route_is_same(stop->ways[i].at.last, way.at.last))) {
        i++;
    }
    if (i == ROUTE_WAYS || !way.at.first || !way.at.last) {
        return;
    }
    bool fresh = i == stop->n;
    stop->n += fresh;
    if (fresh || way.cycles < stop->ways[i].cycles) {
        stop->ways[i] = way;
    }
}

void route_add_kernel(struct route_stop * stop, struct store * store,
                      const struct kernel_spec * spec) {
    const struct aie_program * at;
    uint64_t cycles = store_likely(store, spec, &at);
    route_add(stop, (struct route_way){{at, at}, cycles});
}

static bool on_layer(struct store * store, const struct kernel_spec * spec,
                     struct kernel_spec * out) {
    *out = *spec;
    out->params[0] = KERNEL_ON_LAYER;
    return plan_can(store, out, false);
}

void route_add_placed(struct route_stop * stop, struct store * store,
                      const struct kernel_spec * spec) {
    struct kernel_spec there;
    route_add_kernel(stop, store, spec);
    if (on_layer(store, spec, &there)) {
        route_add_kernel(stop, store, &there);
    }
}

void route_put(struct store * store, const struct route_place * at, struct kernel_spec * spec) {
    struct kernel_spec there;
    if (at->first == &aie_programs[AIE_PROGRAM_LAYER_F32] && on_layer(store, spec, &there)) {
        *spec = there;
    }
}

struct path { // to a way of a stop
    uint64_t cycles;
    uint8_t from; // the way of the stop before
};

// The cheapest path to one more way, of those to the ways of the stop before.
static struct path extend(const struct route_stop * before, const struct path paths[],
                          const struct route_way * way, uint64_t load) {
    struct path best = {before ? UINT64_MAX : 0, 0};
    for (int i = 0; before && i < before->n; i++) {
        bool loads = !route_is_same(before->ways[i].at.last, way->at.first);
        uint64_t cycles = paths[i].cycles + (loads ? load : 0);
        if (cycles < best.cycles) {
            best = (struct path){cycles, (uint8_t) i};
        }
    }
    best.cycles += way->cycles;
    return best;
}

// Walks back from the end of the cheapest one.
static uint64_t choose(const struct route_stop stops[], struct path (*paths)[ROUTE_WAYS], size_t n,
                       uint8_t chosen[], int * loads) {
    uint64_t cycles = 0;
    const struct route_way * behind = NULL;
    uint8_t way = 0; // of the stop at hand, which the one behind it says
    for (size_t i = n; i-- > 0;) {
        const struct route_stop * stop = &stops[i];
        if (!stop->n) {
            continue;
        }
        for (int w = 0; !behind && w < stop->n; w++) {
            way = paths[i][w].cycles < paths[i][way].cycles ? (uint8_t) w : way;
        }
        cycles = behind ? cycles : paths[i][way].cycles;
        *loads += behind && !route_is_same(stop->ways[way].at.last, behind->at.first);
        chosen[i] = way;
        behind = &stop->ways[way];
        way = paths[i][way].from;
    }
    return cycles;
}

uint64_t route_solve(const struct route_stop stops[], size_t n, uint64_t load, uint8_t chosen[],
                     int * loads) {
    struct path(*paths)[ROUTE_WAYS] = calloc(n + 1, sizeof *paths);
    const struct route_stop * before = NULL;
    memset(chosen, 0, n);
    *loads = 0;
    if (!paths) {
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        const struct path * to = before ? paths[before - stops] : NULL;
        for (int w = 0; w < stops[i].n; w++) {
            paths[i][w] = extend(before, to, &stops[i].ways[w], load);
        }
        before = stops[i].n ? &stops[i] : before;
    }
    uint64_t cycles = choose(stops, paths, n, chosen, loads);
    free(paths);
    return cycles;
}
