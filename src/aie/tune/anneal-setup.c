// tune/anneal-setup: before the instructions of a loop are moved about at random (anneal.c), those
// are set apart that could never stand where their latencies alone would have them: of two that
// wait for the same value and go through the same slot, as the two halves of a vector do, one comes
// later. Along a chain of such the search would have to find for each pair that all that follows
// comes a bundle later, which meets something else nearly always.
//
// Kept true: the edges are those of a search, gone when it is over; they lead from what was written
// first to what was written later.
#include "tune.h"

#include <stdlib.h>

enum { NEAR = 1 }; // bundles: with more of them to spare the first one gives way by itself

struct apart {
    struct search * s;
    int *depth, *below; // longest ways from a trip's beginning and to its end
    int longest;
    int * cause; // the instruction that puts one so deep, -1 = none
};

static void find_ways(struct apart * a) {
    const struct deps * d = &a->s->q->deps;
    for (int i = 0; i < a->s->n; i++) {
        a->depth[i] = 0;
        a->cause[i] = -1;
        for (int e = d->nodes[i].first_in; e >= 0; e = d->edges[e].next_in) {
            const struct dep * edge = &d->edges[e];
            int via = edge->trips ? -1 : a->depth[edge->from] + edge->latency;
            if (via > a->depth[i]) {
                a->depth[i] = via;
                a->cause[i] = edge->from;
            }
        }
    }
    a->longest = 0;
    for (int i = a->s->n - 1; i >= 0; i--) {
        a->below[i] = 0;
        for (int e = d->nodes[i].first_out; e >= 0; e = d->edges[e].next_out) {
            const struct dep * edge = &d->edges[e];
            int via = edge->trips ? -1 : a->below[edge->to] + edge->latency;
            a->below[i] = via > a->below[i] ? via : a->below[i];
        }
        a->longest = a->below[i] > a->longest ? a->below[i] : a->longest;
    }
}

static bool are_halves(const struct search * s, int i, int j) {
    for (int k = 0; k < s->nodes[i].n_mentions; k++) {
        for (int m = 0; m < s->nodes[j].n_mentions; m++) {
            if (s->nodes[i].mentions[k].local == s->nodes[j].mentions[m].local &&
                s->nodes[i].mentions[k].writes && s->nodes[j].mentions[m].writes) {
                return true;
            }
        }
    }
    return false;
}

// Whether nothing along the way of i has time.
static bool is_pressed(const struct apart * a, int i) {
    return a->depth[i] + a->below[i] + NEAR >= a->longest;
}

// Whether i, written before j, would meet it.
static bool would_meet(const struct apart * a, int i, int j) {
    const struct search_node *x = &a->s->nodes[i], *y = &a->s->nodes[j];
    return x->n_carriers == 1 && y->n_carriers == 1 && x->carriers[0].slot == y->carriers[0].slot &&
           a->depth[i] == a->depth[j] && a->below[i] + NEAR >= a->below[j] && a->cause[i] >= 0 &&
           (a->cause[i] == a->cause[j] || are_halves(a->s, i, j) ||
            (is_pressed(a, i) && is_pressed(a, j)));
}

int anneal_set_up(struct search * s) {
    size_t n = (size_t) s->n;
    int edges = s->q->deps.n_edges, *room = malloc(3 * n * sizeof *room);
    struct apart a = {.s = s, .depth = room, .below = room + n, .cause = room + 2 * n};
    for (int round = 0; room && round < s->n; round++) { // what comes later meets others
        int before = s->q->deps.n_edges;
        find_ways(&a);
        for (int i = 0; i < s->n && s->q->deps.n_edges == before; i++) {
            for (int j = i + 1; j < s->n && s->q->deps.n_edges == before; j++) {
                if (would_meet(&a, i, j)) {
                    deps_add(&s->q->deps, i, j, 1, 0);
                }
            }
        }
        if (s->q->deps.n_edges == before) {
            break;
        }
    }
    free(room);
    return edges;
}

void anneal_clear_up(struct search * s, int edges) {
    deps_take_away(&s->q->deps, edges);
}
