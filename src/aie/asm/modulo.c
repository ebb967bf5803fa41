// asm/modulo: placing the instructions of a loop whose trips start every ii bundles. An instruction
// issued at t takes its slot and its write ports in all bundles t modulo ii. Instructions are
// placed one by one; one that finds no room throws out what stands in its way, which is placed
// again later (iterative modulo scheduling), until all stand or patience ends.
#include "modulo.h"

#include <stdlib.h>
#include <string.h>

enum {
    PATIENCE = 6,    // placements per node
    MAX_WORK = 600,  // steps per node
    MAX_ROUNDS = 32, // of paths through several trips
    MAX_HEIGHT = 4096,
};

// ---- order ----

bool modulo_heights(struct search * s) {
    const struct deps * d = &s->q->deps;
    for (int i = 0; i < s->n; i++) {
        s->nodes[i].height = 0;
    }
    for (int round = 0; round < MAX_ROUNDS; round++) {
        bool changed = false;
        for (int i = s->n - 1; i >= 0; i--) {
            for (int e = d->nodes[i].first_out; e >= 0; e = d->edges[e].next_out) {
                const struct dep * edge = &d->edges[e];
                int via = s->nodes[edge->to].height + edge->latency - trips_of(s, edge) * s->ii;
                if (via > s->nodes[i].height) {
                    s->nodes[i].height = via;
                    changed = true;
                }
            }
            if (s->nodes[i].height > MAX_HEIGHT) { // around a recurrence, paths grow for ever
                return false;
            }
        }
        s->work += d->n_edges;
        if (!changed) {
            return true;
        }
    }
    return false;
}

// A leaf is a load that waits for nothing of its own trip but other loads (along a pointer).
static bool is_leaf(const struct search * s, int i, const uint8_t * leaf) {
    const struct deps * d = &s->q->deps;
    bool only_leaves = deps_instr(d, i)->loads && !deps_instr(d, i)->stores;
    for (int e = d->nodes[i].first_in; e >= 0; e = d->edges[e].next_in) {
        only_leaves &= d->edges[e].trips != 0 || leaf[d->edges[e].from];
    }
    return only_leaves;
}

static void append(struct search * s, int i, int * next) {
    s->nodes[i].rank = *next;
    s->order[(*next)++] = i;
}

static void append_leaves(struct search * s, int i, const uint8_t * leaf, int * next) {
    const struct deps * d = &s->q->deps;
    for (int e = d->nodes[i].first_in; e >= 0; e = d->edges[e].next_in) {
        int from = d->edges[e].from;
        if (d->edges[e].trips == 0 && leaf[from] && s->nodes[from].rank < 0) {
            append(s, from, next);
            append_leaves(s, from, leaf, next); // as deep as a row of leaves is long
        }
    }
}

// In the order of writing, which has the chains one after the other; leaves directly behind what
// first wants them, so that they can be placed near to it.
bool modulo_order(struct search * s) {
    uint8_t * leaf = calloc((size_t) s->n, 1);
    int next = 0;
    if (!leaf) {
        return false;
    }
    for (int i = 0; i < s->n; i++) {
        leaf[i] = is_leaf(s, i, leaf);
        s->nodes[i].rank = -1;
    }
    for (int i = 0; i < s->n; i++) {
        if (!leaf[i]) {
            append(s, i, &next);
            append_leaves(s, i, leaf, &next);
        }
    }
    for (int i = 0; i < s->n; i++) {
        if (s->nodes[i].rank < 0) {
            append(s, i, &next);
        }
    }
    int last = 0;
    for (int i = 0; i < s->n; i++) {
        last = s->cycles[i] > last ? s->cycles[i] : last;
    }
    for (int cycle = 0, at = 0; cycle <= last; cycle++) {
        for (int i = 0; i < s->n; i++) {
            if (s->cycles[i] == cycle) {
                s->nodes[i].fold_rank = at;
                s->fold[at++] = i;
            }
        }
    }
    free(leaf);
    return true;
}

static int next_unplaced(struct search * s) {
    if (s->way != WAY_HEIGHT) {
        const int * order = s->way == WAY_CHAIN ? s->order : s->fold;
        while (s->cursor < s->n && s->q->time[order[s->cursor]] != UNPLACED) {
            s->cursor++;
        }
        return s->cursor < s->n ? order[s->cursor] : -1;
    }
    int best = -1;
    for (int i = 0; i < s->n; i++) {
        if (s->q->time[i] == UNPLACED && (best < 0 || s->nodes[i].height > s->nodes[best].height)) {
            best = i;
        }
    }
    s->work += s->n / 2;
    return best;
}

// ---- tables ----

// The nodes in the way at a cycle; returns how many, each once.
static int in_the_way(const struct search * s, const struct carrier * c, int cycle, int out[16]) {
    int n = 0;
    const int16_t * row = s->slots[modulo(cycle, s->ii)];
    for (unsigned left = c->excludes; left; left &= left - 1) {
        int other = row[__builtin_ctz(left)];
        if (other >= 0) {
            out[n++] = other;
        }
    }
    for (int k = 0; k < c->n_landings; k++) {
        const struct asm_landing * l = &c->landings[k];
        int other = s->ports[modulo(cycle + l->cycle, s->ii)][c->slot][l->file];
        bool known = other < 0;
        for (int j = 0; j < n; j++) {
            known |= out[j] == other;
        }
        if (!known) {
            out[n++] = other;
        }
    }
    return n;
}

bool modulo_fits(struct search * s, int i, int cycle) {
    struct search_node * n = &s->nodes[i];
    int others[16];
    for (int c = 0; c < n->n_carriers; c++) {
        if (in_the_way(s, &n->carriers[c], cycle, others) == 0) {
            n->carrier = (uint8_t) c;
            return true;
        }
    }
    return false;
}

void modulo_occupy(struct search * s, int i, bool enter) {
    const struct carrier * c = &s->nodes[i].carriers[s->nodes[i].carrier];
    int16_t who = enter ? (int16_t) i : -1;
    int cycle = s->q->time[i];
    s->slots[modulo(cycle, s->ii)][c->slot] = who;
    for (int k = 0; k < c->n_landings; k++) {
        const struct asm_landing * l = &c->landings[k];
        s->ports[modulo(cycle + l->cycle, s->ii)][c->slot][l->file] = who;
    }
}

static void eject(struct search * s, int i) {
    if (s->q->time[i] == UNPLACED) {
        return;
    }
    modulo_occupy(s, i, false);
    if (s->way == WAY_HEIGHT) {
        s->q->time[i] = UNPLACED;
        return;
    }
    lives_leave(s, i);
    s->q->time[i] = UNPLACED;
    lives_enter(s, i);
    int rank = s->way == WAY_CHAIN ? s->nodes[i].rank : s->nodes[i].fold_rank;
    s->cursor = rank < s->cursor ? rank : s->cursor;
}

void modulo_bounds(const struct search * s, int i, int * lo, int * hi) {
    const struct deps * d = &s->q->deps;
    const int * time = s->q->time;
    for (int e = d->nodes[i].first_in; e >= 0; e = d->edges[e].next_in) {
        const struct dep * edge = &d->edges[e];
        if (edge->from != i && time[edge->from] != UNPLACED) {
            int via = time[edge->from] + edge->latency - trips_of(s, edge) * s->ii;
            *lo = via > *lo ? via : *lo;
        }
    }
    for (int e = d->nodes[i].first_out; e >= 0; e = d->edges[e].next_out) {
        const struct dep * edge = &d->edges[e];
        if (edge->to != i && time[edge->to] != UNPLACED) {
            int via = time[edge->to] - edge->latency + trips_of(s, edge) * s->ii;
            *hi = via < *hi ? via : *hi;
        }
    }
}

// ---- placing ----

enum { NEVER = -UNPLACED };

// The cheapest cycle with room between the neighbours that are placed, or NEVER. Up from lo, or
// down from hi: away from the neighbour that it should be near to.
static int cheapest(struct search * s, int i, int lo, int hi, bool down) {
    int best = NEVER, least = 0, full;
    uint8_t carrier = 0;
    for (int k = 0; k <= hi - lo; k++) {
        int t = down ? hi - k : lo + k;
        int cost = lives_cost(s, i, t, &full) + k; // as near as can be, all else being equal
        s->work += 4;
        if (best != NEVER && cost >= least && (down || hi - lo == s->ii - 1)) {
            break; // lives only get longer from here on
        }
        cost += LIVES_FULL * full;
        if ((best == NEVER || cost < least) && modulo_fits(s, i, t)) {
            best = t;
            least = cost;
            carrier = s->nodes[i].carrier;
        }
    }
    s->nodes[i].carrier = carrier;
    return best;
}

// Not before what stands a window earlier in the order, so that chains follow each other.
static int not_ahead(const struct search * s, int i, int lo) {
    for (int k = s->nodes[i].rank - s->window; k >= 0 && k > s->nodes[i].rank - s->window - 8;
         k--) {
        int t = s->q->time[s->order[k]];
        lo = t > lo ? t : lo;
    }
    return lo;
}

static int first_fit(struct search * s, int i, int lo) {
    for (int t = lo; t < lo + s->ii; t++) {
        s->work += 4;
        if (modulo_fits(s, i, t)) {
            return t;
        }
    }
    return NEVER;
}

static void place(struct search * s, int i) {
    const struct deps * d = &s->q->deps;
    int lo = UNPLACED, hi = NEVER, cycle = NEVER;
    modulo_bounds(s, i, &lo, &hi);
    if (s->way == WAY_FOLD) {
        lives_leave(s, i);
        lo = lo < s->cycles[i] ? s->cycles[i] : lo;
        cycle = cheapest(s, i, lo, hi < lo + s->ii - 1 ? hi : lo + s->ii - 1, false);
    } else if (s->way == WAY_CHAIN) {
        bool down = lo == UNPLACED && hi != NEVER;
        lives_leave(s, i);
        lo = lo != UNPLACED ? lo : down ? hi - s->ii + 1 : 0;
        lo = down || !s->window ? lo : not_ahead(s, i, lo);
        hi = hi < lo + s->ii - 1 ? hi : lo + s->ii - 1;
        cycle = cheapest(s, i, lo, hi, down);
    }
    lo = lo < 0 && s->way == WAY_HEIGHT ? 0 : lo;
    cycle = cycle == NEVER ? first_fit(s, i, lo) : cycle;
    if (cycle == NEVER) { // full: make room, further on than last time so that it ends
        int others[16];
        cycle = s->nodes[i].last >= lo ? s->nodes[i].last + 1 : lo;
        s->nodes[i].last = cycle;
        s->nodes[i].carrier = 0;
        int n = in_the_way(s, &s->nodes[i].carriers[0], cycle, others);
        for (int k = 0; k < n; k++) {
            eject(s, others[k]);
        }
    }
    s->q->time[i] = cycle;
    modulo_occupy(s, i, true);
    if (s->way != WAY_HEIGHT) {
        lives_enter(s, i);
    }
    for (int e = d->nodes[i].first_out; e >= 0; e = d->edges[e].next_out) {
        const struct dep * edge = &d->edges[e];
        if (edge->to != i && s->q->time[edge->to] != UNPLACED &&
            s->q->time[edge->to] < cycle + edge->latency - trips_of(s, edge) * s->ii) {
            eject(s, edge->to);
        }
    }
}

bool modulo_place(struct search * s) {
    memset(s->slots, -1, (size_t) s->ii * sizeof *s->slots);
    memset(s->ports, -1, (size_t) s->ii * sizeof *s->ports);
    lives_reset(s);
    s->cursor = 0;
    for (int i = 0; i < s->n; i++) {
        s->q->time[i] = s->nodes[i].last = UNPLACED;
    }
    long limit = s->work + MAX_WORK * (long) s->n;
    limit = limit < s->work_limit ? limit : s->work_limit;
    for (int budget = PATIENCE * s->n; budget > 0 && s->work < limit; budget--) {
        int i = next_unplaced(s);
        if (i < 0) {
            return true;
        }
        place(s, i);
    }
    return false;
}
