// asm/modulo: placing the instructions of a loop whose trips start every ii bundles. An instruction
// issued at t takes its slot and its write ports in all bundles t modulo ii. Instructions are
// placed one by one; one that finds no room throws out what stands in its way, which is placed
// again later (iterative modulo scheduling), until all stand or patience ends. Of the two orders,
// that of heights finds room where slots are scarce, the other (swing modulo scheduling) keeps
// lives short where registers are.
#include "modulo.h"

#include <stdlib.h>
#include <string.h>

enum {
    PATIENCE_HEIGHT = 6, // placements per node
    PATIENCE_SWING = 2,
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

// ---- the order of swing modulo scheduling ----

static void swing_paths(struct search * s) {
    const struct deps * d = &s->q->deps;
    for (int i = 0; i < s->n; i++) {
        s->nodes[i].depth = 0;
        for (int e = d->nodes[i].first_in; e >= 0; e = d->edges[e].next_in) {
            const struct dep * edge = &d->edges[e];
            int via = s->nodes[edge->from].depth + edge->latency;
            if (edge->trips == 0 && via > s->nodes[i].depth) {
                s->nodes[i].depth = via;
            }
        }
    }
    for (int i = s->n - 1; i >= 0; i--) {
        s->nodes[i].below = 0;
        for (int e = d->nodes[i].first_out; e >= 0; e = d->edges[e].next_out) {
            const struct dep * edge = &d->edges[e];
            int via = s->nodes[edge->to].below + edge->latency;
            if (edge->trips == 0 && via > s->nodes[i].below) {
                s->nodes[i].below = via;
            }
        }
    }
}

// In the sweep up the deepest node is next, in the sweep down the one with most below it; of equal
// ones that which can move least. Or the last that was written: what stands side by side then has
// its registers one after the other.
static int swing_key(const struct search * s, int i, bool up) {
    const struct search_node * n = &s->nodes[i];
    if (s->method == METHOD_CHAIN) {
        return (up ? i : -i) + noise(s, i, 12);
    }
    return ((up ? n->depth : n->below) + noise(s, i, 6)) * 4096 + (up ? n->below : n->depth);
}

enum { SWING_OUT, SWING_READY, SWING_ORDERED };

struct swing {
    struct search * s;
    uint8_t * state;
    int * ready; // nodes of that state
    int n_ready;
    int * keys[2]; // down, up
    int seen[2];   // so many of the order have shown their neighbours that way
};

static void swing_neighbours(struct swing * w, int i, bool up) {
    const struct deps * d = &w->s->q->deps;
    for (int e = up ? d->nodes[i].first_in : d->nodes[i].first_out; e >= 0;
         e = up ? d->edges[e].next_in : d->edges[e].next_out) {
        int other = up ? d->edges[e].from : d->edges[e].to;
        if (d->edges[e].trips == 0 && w->state[other] == SWING_OUT) {
            w->state[other] = SWING_READY;
            w->ready[w->n_ready++] = other;
        }
    }
}

static bool swing_turn(struct swing * w, int done, bool up) {
    while (w->seen[up] < done) {
        swing_neighbours(w, w->s->order[w->seen[up]++], up);
    }
    return w->n_ready > 0;
}

static int swing_take(struct swing * w, bool up) {
    const int * keys = w->keys[up];
    int best = 0;
    for (int k = 1; k < w->n_ready; k++) {
        int a = w->ready[k], b = w->ready[best];
        best = keys[a] > keys[b] || (keys[a] == keys[b] && a < b) ? k : best;
    }
    int i = w->ready[best];
    w->ready[best] = w->ready[--w->n_ready];
    return i;
}

static void swing_from_deepest(struct swing * w) {
    int deepest = -1;
    for (int i = 0; i < w->s->n; i++) {
        if (w->state[i] == SWING_OUT &&
            (deepest < 0 || w->s->nodes[i].depth > w->s->nodes[deepest].depth)) {
            deepest = i;
        }
    }
    w->state[deepest] = SWING_READY;
    w->ready[w->n_ready++] = deepest;
}

// Sweeps up from the deepest node through all that leads to it, then down through all that follows
// from those, and so on: when a node comes, what is placed wants it or feeds it, seldom both.
bool modulo_order(struct search * s) {
    size_t n = (size_t) s->n;
    struct swing w = {.s = s, .state = calloc(n, 1), .ready = malloc(3 * n * sizeof *w.ready)};
    bool ok = w.state && w.ready, up = true;
    if (ok) {
        swing_paths(s);
        for (int i = 0; i < s->n; i++) {
            w.ready[s->n + i] = swing_key(s, i, false);
            w.ready[2 * s->n + i] = swing_key(s, i, true);
        }
        w.keys[false] = w.ready + n;
        w.keys[true] = w.ready + 2 * n;
    }
    for (int done = 0; ok && done < s->n;) {
        if (w.n_ready == 0) { // the sweep is over: the other way, or from another end
            up = !up;
            if (!swing_turn(&w, done, up)) {
                up = !up;
                if (!swing_turn(&w, done, up)) {
                    up = true;
                    swing_from_deepest(&w);
                }
            }
            continue;
        }
        int i = swing_take(&w, up);
        w.state[i] = SWING_ORDERED;
        s->nodes[i].rank = done;
        s->order[done++] = i;
        swing_turn(&w, done, up);
    }
    free(w.state);
    free(w.ready);
    return ok;
}

static int highest_unplaced(struct search * s) {
    int best = -1;
    for (int i = 0; i < s->n; i++) {
        if (s->q->time[i] == UNPLACED && (best < 0 || s->nodes[i].height > s->nodes[best].height)) {
            best = i;
        }
    }
    s->work += s->n / 2;
    return best;
}

static int first_unplaced(struct search * s) {
    while (s->cursor < s->n && s->q->time[s->order[s->cursor]] != UNPLACED) {
        s->cursor++;
    }
    return s->cursor < s->n ? s->order[s->cursor] : -1;
}

// ---- tables ----

// The nodes in the way at a cycle; returns how many, each once.
int modulo_in_the_way(const struct search * s, const struct carrier * c, int cycle, int out[16]) {
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
    if (c->bank >= 0) {
        int other = s->banks[modulo(cycle + c->access, s->ii)][c->bank];
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
        if (modulo_in_the_way(s, &n->carriers[c], cycle, others) == 0) {
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
    if (c->bank >= 0) {
        s->banks[modulo(cycle + c->access, s->ii)][c->bank] = who;
    }
}

static void eject(struct search * s, int i) {
    if (s->q->time[i] != UNPLACED) {
        modulo_occupy(s, i, false);
        s->q->time[i] = UNPLACED;
        s->cursor = s->nodes[i].rank < s->cursor ? s->nodes[i].rank : s->cursor;
    }
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

static void put(struct search * s, int i, int cycle) {
    s->q->time[i] = cycle;
    modulo_occupy(s, i, true);
}

// Puts node i where there is no room; what stands in the way is placed again later.
static void force(struct search * s, int i, int cycle) {
    int others[16];
    s->nodes[i].last = cycle;
    s->nodes[i].carrier = 0;
    int n = modulo_in_the_way(s, &s->nodes[i].carriers[0], cycle, others);
    for (int k = 0; k < n; k++) {
        eject(s, others[k]);
    }
    put(s, i, cycle);
}

// From one cycle to another, upward or downward; NEVER when there is no room.
static int first_fit(struct search * s, int i, int from, int to) {
    int step = from <= to ? 1 : -1;
    for (int t = from; t != to + step; t += step) {
        s->work += 4;
        if (modulo_fits(s, i, t)) {
            return t;
        }
    }
    return NEVER;
}

// Whether something of its own trip that is placed waits for node i.
static bool is_wanted_now(const struct search * s, int i) {
    const struct deps * d = &s->q->deps;
    for (int e = d->nodes[i].first_out; e >= 0; e = d->edges[e].next_out) {
        if (d->edges[e].trips == 0 && s->q->time[d->edges[e].to] != UNPLACED) {
            return true;
        }
    }
    return false;
}

static bool is_fed_now(const struct search * s, int i) {
    const struct deps * d = &s->q->deps;
    for (int e = d->nodes[i].first_in; e >= 0; e = d->edges[e].next_in) {
        if (d->edges[e].trips == 0 && s->q->time[d->edges[e].from] != UNPLACED) {
            return true;
        }
    }
    return false;
}

static int latest_neighbour(const struct search * s, int i) {
    const struct deps * d = &s->q->deps;
    int latest = UNPLACED;
    for (int e = d->nodes[i].first_in; e >= 0; e = d->edges[e].next_in) {
        int t = s->q->time[d->edges[e].from];
        latest = d->edges[e].from != i && t > latest ? t : latest;
    }
    return latest;
}

// Takes out the nodes that stand too near to node i where it has been put; they are placed again.
static void eject_neighbours(struct search * s, int i) {
    const struct deps * d = &s->q->deps;
    int * time = s->q->time;
    for (int e = d->nodes[i].first_in; e >= 0; e = d->edges[e].next_in) {
        const struct dep * edge = &d->edges[e];
        if (edge->from != i && time[edge->from] != UNPLACED &&
            time[i] < time[edge->from] + edge->latency - trips_of(s, edge) * s->ii) {
            eject(s, edge->from);
        }
    }
    for (int e = d->nodes[i].first_out; e >= 0; e = d->edges[e].next_out) {
        const struct dep * edge = &d->edges[e];
        if (edge->to != i && time[edge->to] != UNPLACED &&
            time[edge->to] < time[i] + edge->latency - trips_of(s, edge) * s->ii) {
            eject(s, edge->to);
        }
    }
}

static void place_high(struct search * s, int i) {
    int lo = UNPLACED, hi = NEVER;
    modulo_bounds(s, i, &lo, &hi);
    lo = lo < 0 ? 0 : lo;
    int cycle = first_fit(s, i, lo, lo + s->ii - 1);
    if (cycle == NEVER) { // further on than last time so that it ends
        force(s, i, s->nodes[i].last >= lo ? s->nodes[i].last + 1 : lo);
    } else {
        put(s, i, cycle);
    }
    eject_neighbours(s, i);
}

// Neighbours that are placed decide where to look: up from what wants it, or down from what feeds
// it.
static void place_near(struct search * s, int i) {
    int lo = UNPLACED, hi = NEVER, cycle = NEVER;
    modulo_bounds(s, i, &lo, &hi);
    bool fed = lo != UNPLACED, wanted = hi != NEVER;
    if (!fed && !wanted) {
        lo = s->nodes[i].depth;
        hi = lo + s->ii - 1;
    } else if (!fed) {
        lo = hi - s->ii + 1;
    } else if (!wanted) {
        hi = lo + s->ii - 1;
    } else {
        wanted = is_wanted_now(s, i);
        if (!wanted && !is_fed_now(s, i)) { // only other trips matter: not far from them
            int near = latest_neighbour(s, i);
            hi = near < lo ? lo : near < hi ? near : hi;
            wanted = true;
        }
        if (hi - lo > s->ii - 1) {
            lo = wanted ? hi - s->ii + 1 : lo;
            hi = lo + s->ii - 1;
        }
    }
    if (lo <= hi) {
        cycle = wanted ? first_fit(s, i, hi, lo) : first_fit(s, i, lo, hi);
    }
    if (cycle != NEVER) {
        put(s, i, cycle);
        return;
    }
    int last = s->nodes[i].last; // at another place than last time, so that it ends
    cycle = wanted ? hi : lo;
    if (last != UNPLACED && (wanted ? last <= cycle : last >= cycle)) {
        cycle = wanted ? last - 1 : last + 1;
    }
    force(s, i, cycle);
    eject_neighbours(s, i);
}

void modulo_clear(struct search * s) {
    memset(s->slots, -1, (size_t) s->ii * sizeof *s->slots);
    memset(s->ports, -1, (size_t) s->ii * sizeof *s->ports);
    memset(s->banks, -1, (size_t) s->ii * sizeof *s->banks);
}

bool modulo_place(struct search * s) {
    modulo_clear(s);
    s->cursor = 0;
    for (int i = 0; i < s->n; i++) {
        s->q->time[i] = s->nodes[i].last = UNPLACED;
    }
    if (s->method == METHOD_LIFETIME) {
        return lifetime_place(s);
    }
    bool high = s->method == METHOD_HEIGHT;
    for (int budget = (high ? PATIENCE_HEIGHT : PATIENCE_SWING) * s->n; budget > 0; budget--) {
        int i = high ? highest_unplaced(s) : first_unplaced(s);
        if (i < 0) {
            return true;
        }
        if (high) {
            place_high(s, i);
        } else {
            place_near(s, i);
        }
    }
    return false;
}
