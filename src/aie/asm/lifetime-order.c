// asm/lifetime-order: the third method to place the instructions of a loop whose trips overlap.
// First, without regard to slots, the times for which values live shortest, all together and
// weighted by how few registers their class has (network.c). Then, from the end of a trip to its
// beginning, each instruction is placed at the distance from what follows that these times say, or
// as little before as there is room. Nothing is placed twice: what finds no room wants a longer
// interval.
#include "modulo.h"
#include "network.h"

#include <stdlib.h>

// ---- times ----

// The network's node 0 is the start of a trip; instructions follow, then the beginnings and ends of
// lives that have several writers or readers.
struct spacing {
    struct search * s;
    struct network w;
    int16_t * number; // of an instruction, 0 = it is left out
    int cap_edges;
};

// Whether node i waits for nothing and only one other waits for it: it comes just before that.
static bool is_leaf(const struct search * s, int i) {
    const struct deps * d = &s->q->deps;
    int to = -1;
    for (int e = d->nodes[i].first_in; e >= 0; e = d->edges[e].next_in) {
        if (d->edges[e].trips == 0) {
            return false;
        }
    }
    for (int e = d->nodes[i].first_out; e >= 0; e = d->edges[e].next_out) {
        if (d->edges[e].trips == 0) {
            if (to >= 0 && to != d->edges[e].to) {
                return false;
            }
            to = d->edges[e].to;
        }
    }
    return to >= 0;
}

static void connect(struct spacing * g, int from, int to, int least, int weight) {
    if (g->w.n_edges < g->cap_edges) {
        g->w.edges[g->w.n_edges++] =
            (struct network_edge){(int16_t) from, (int16_t) to, (int16_t) least, (int16_t) weight};
    }
}

static void connect_dependences(struct spacing * g) {
    const struct deps * d = &g->s->q->deps;
    for (int i = 0; i < g->s->n; i++) {
        bool free_ = true;
        for (int e = d->nodes[i].first_in; e >= 0 && g->number[i]; e = d->edges[e].next_in) {
            const struct dep * edge = &d->edges[e];
            if (edge->trips == 0 && g->number[edge->from]) {
                connect(g, g->number[edge->from], g->number[i], edge->latency, 0);
                free_ = false;
            }
        }
        if (free_ && g->number[i]) {
            connect(g, 0, g->number[i], 0, 0);
        }
    }
}

// The life of a local: from the only writer, or from before all of them, to the only reader or
// behind all.
static void connect_life(struct spacing * g, int local) {
    const struct search * s = g->s;
    const struct search_local * l = &s->locals[local];
    const struct mention * all = &s->mentions[l->first];
    int writers = 0, readers = 0, from = 0, to = 0;
    for (int m = 0; m < l->count; m++) {
        int number = g->number[all[m].node];
        if (all[m].writes && number) {
            from = writers++ ? from : number;
        } else if (!all[m].writes && number) {
            to = readers++ ? to : number;
        }
    }
    if (!writers || !readers) {
        return;
    }
    if (writers > 1) {
        from = g->w.n++;
        connect(g, 0, from, 0, 0);
    }
    to = readers > 1 ? g->w.n++ : to;
    for (int m = 0; m < l->count; m++) {
        int number = g->number[all[m].node];
        if (number && all[m].writes && writers > 1) {
            connect(g, from, number, 0, 0);
        } else if (number && !all[m].writes && readers > 1) {
            connect(g, number, to, all[m].settles, 0);
        }
    }
    connect(g, from, to, 0, s->q->p->target->classes[l->cls].weight);
}

// Leaves go just before what wants them; the order is from the latest to the earliest, of equal
// ones that which was written later first.
static void take_times(struct spacing * g) {
    struct search * s = g->s;
    const struct deps * d = &s->q->deps;
    for (int i = s->n - 1; i >= 0; i--) {
        s->nodes[i].depth = g->w.rank[g->number[i]];
        for (int e = d->nodes[i].first_out; e >= 0 && !g->number[i]; e = d->edges[e].next_out) {
            if (d->edges[e].trips == 0) {
                int at = s->nodes[d->edges[e].to].depth - d->edges[e].latency;
                s->nodes[i].depth =
                    s->nodes[i].depth && s->nodes[i].depth < at ? s->nodes[i].depth : at;
            }
        }
    }
    for (int i = 0; i < s->n; i++) {
        int at = i;
        while (at > 0 && s->nodes[s->order[at - 1]].depth <= s->nodes[i].depth) {
            s->order[at] = s->order[at - 1];
            at--;
        }
        s->order[at] = i;
    }
}

bool lifetime_times(struct search * s) {
    struct spacing g = {.s = s, .w = {.n = 1}};
    size_t most = 1 + (size_t) s->n + 2 * (size_t) s->n_locals;
    g.cap_edges = s->q->deps.n_edges + 2 * s->n + ASM_MAX_ARGS * s->n + 3 * s->n_locals;
    g.number = calloc((size_t) s->n, sizeof *g.number);
    g.w.edges = malloc((size_t) g.cap_edges * sizeof *g.w.edges);
    g.w.rank = malloc(most * sizeof *g.w.rank);
    bool ok = g.number && g.w.edges && g.w.rank;
    if (ok) {
        for (int i = 0; i < s->n; i++) {
            g.number[i] = is_leaf(s, i) ? 0 : (int16_t) g.w.n++;
        }
        connect_dependences(&g);
        for (int l = 0; l < s->n_locals; l++) {
            connect_life(&g, l);
        }
        ok = network_solve(&g.w);
    }
    if (ok) {
        take_times(&g);
    }
    free(g.number);
    free(g.w.edges);
    free(g.w.rank);
    return ok;
}

// ---- places ----

static int wanted_at(const struct search * s, int i) {
    const struct deps * d = &s->q->deps;
    const int * time = s->q->time;
    int at = -UNPLACED;
    for (int e = d->nodes[i].first_out; e >= 0; e = d->edges[e].next_out) {
        const struct dep * edge = &d->edges[e];
        if (edge->trips == 0 && time[edge->to] != UNPLACED) {
            int here = time[edge->to] - (s->nodes[edge->to].depth - s->nodes[i].depth);
            at = here < at ? here : at;
        }
    }
    return (at == -UNPLACED ? s->nodes[i].depth : at) - noise(s, i, 3);
}

static void put(struct search * s, int i, int cycle) {
    s->q->time[i] = cycle;
    modulo_occupy(s, i, true);
}

// From one cycle to another, upward or downward; UNPLACED when there is no room.
static int fit(struct search * s, int i, int from, int to) {
    int step = from <= to ? 1 : -1;
    for (int t = from; t != to + step; t += step) {
        s->work += 4;
        if (modulo_fits(s, i, t)) {
            return t;
        }
    }
    return UNPLACED;
}

// Moves the one that stands in node i's way at a cycle to elsewhere; false when that cannot be.
static bool make_room(struct search * s, int i, int cycle) {
    struct search_node * n = &s->nodes[i];
    for (int c = 0; c < n->n_carriers; c++) {
        int others[16], lo = UNPLACED, hi = -UNPLACED;
        if (modulo_in_the_way(s, &n->carriers[c], cycle, others) != 1) {
            continue;
        }
        int o = others[0], home = s->q->time[o];
        uint8_t carrier = s->nodes[o].carrier;
        modulo_bounds(s, o, &lo, &hi);
        lo = lo > home - s->ii ? lo : home - s->ii + 1;
        hi = hi < home + s->ii ? hi : home + s->ii - 1;
        modulo_occupy(s, o, false);
        n->carrier = (uint8_t) c;
        put(s, i, cycle);
        int t = lo <= home && home <= hi ? fit(s, o, home, lo) : UNPLACED;
        t = t == UNPLACED && home < hi ? fit(s, o, home + 1, hi) : t;
        if (t != UNPLACED) {
            put(s, o, t);
            return true;
        }
        modulo_occupy(s, i, false);
        s->q->time[i] = UNPLACED;
        s->nodes[o].carrier = carrier;
        put(s, o, home);
    }
    return false;
}

bool lifetime_place(struct search * s) {
    for (int k = 0; k < s->n; k++) {
        int i = s->order[k], lo = UNPLACED, hi = -UNPLACED, at = wanted_at(s, i);
        modulo_bounds(s, i, &lo, &hi);
        at = hi < at ? hi : at;
        at = at < lo ? lo : at;
        if (at > hi) {
            return false;
        }
        int end = at - s->ii + 1 > lo ? at - s->ii + 1 : lo;
        int t = fit(s, i, at, end);
        if (t == UNPLACED) { // later, if it may be
            int last = at + s->ii - 1 < hi ? at + s->ii - 1 : hi;
            t = at < last ? fit(s, i, at + 1, last) : UNPLACED;
        }
        if (t != UNPLACED) {
            put(s, i, t);
            continue;
        }
        for (t = at; t >= end && !make_room(s, i, t); t--) {
        }
        if (t < end) {
            return false;
        }
    }
    return true;
}
