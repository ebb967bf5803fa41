// tune/anneal: one more way to place the instructions of a loop whose trips overlap, for those who
// have time (schedules.def). All instructions stand somewhere, at distances that the latencies
// allow; what meets in a slot, on a port or in a bank, or lives without a register, is counted.
// Instructions are moved at random, with those along that this would bring too near; a move that
// makes matters worse is taken back, the more surely the later it comes (simulated annealing),
// until nothing is left to count.
//
// Kept true: no move breaks a distance; stages are no more than there may be.
#include "tune.h"

#include <stdlib.h>
#include <string.h>

enum {
    PORTS = AIE_SLOT_COUNT, // units of a bundle: slots, ports, banks, whether it stores
    BANKS = PORTS + AIE_SLOT_COUNT * ASM_FILES,
    STORES = BANKS + ASM_BANKS,
    UNITS,
    MOST_USES = 4 + ASM_MAX_ARGS, // two slots, a bank, a store, results
    MOST_MOVED = 400,             // instructions that a move takes along,
    MOST_WAITING = 1600,          // some of them several times
    CONFLICT = 96,                // what two in one place cost,
    NO_REGISTER = 64, // a bundle of life without a register; one with it costs its weight
    HOT = 100,        // temperature in the beginning, in these units; where nodes stand already
    WARM = 70,        // this is enough; there are
    LEVELS = 64,      // of them, each less than the one before by
    COOLER = 25,      // a 25th of it: it ends at 7, or at 5
    FAR = 6,          // bundles that an instruction with others goes at once
    DRAWS = 6,        // of an instruction that meets another, every other time
    PAUSE = 200,      // moves from one try to give registers out to the next
};

struct usage {
    uint8_t unit, later;
};

struct moved {
    int node, from;
    uint8_t carrier;
};

struct changed {
    int local;
    struct life before;
};

struct annealer {
    struct search * s;
    int latest;      // cycle of a trip that there is
    uint8_t * taken; // [bundle of the interval * UNITS + unit]
    struct usage (*uses)[2][MOST_USES];
    uint8_t (*n_uses)[2];
    struct life * lives;              // by local
    int *local_seen, *node_seen, now; // in the move that is being made
    struct moved moved[MOST_MOVED];
    int n_moved;
    int waiting[MOST_WAITING], n_waiting; // whose neighbours are to be looked at
    struct changed * changed;
    int n_changed;
    long wrong, length; // what must be 0, and what had better be little
    uint64_t random;
};

static uint32_t draw(struct annealer * a) {
    a->random = a->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (a->random >> 32);
}

static int below(struct annealer * a, int n) {
    return (int) ((uint64_t) draw(a) * (uint64_t) n >> 32);
}

// ---- what is counted ----

static void note_usage(struct annealer * a, int i, int c, int unit, int later) {
    a->uses[i][c][a->n_uses[i][c]++] = (struct usage){(uint8_t) unit, (uint8_t) later};
}

static void collect_usage(struct annealer * a) {
    const struct search * s = a->s;
    for (int i = 0; i < s->n; i++) {
        for (int c = 0; c < s->nodes[i].n_carriers; c++) {
            const struct carrier * by = &s->nodes[i].carriers[c];
            if (by->slot == AIE_SLOT_LNG) {
                note_usage(a, i, c, AIE_SLOT_ALU, 0);
                note_usage(a, i, c, AIE_SLOT_MV, 0);
            } else {
                note_usage(a, i, c, by->slot, 0);
            }
            for (int k = 0; k < by->n_landings; k++) {
                note_usage(a, i, c, PORTS + by->slot * ASM_FILES + by->landings[k].file,
                           by->landings[k].cycle);
            }
            if (by->bank >= 0) {
                note_usage(a, i, c, BANKS + by->bank, by->access);
            }
            if (deps_instr(&s->q->deps, i)->stores) { // not all that is in its slot does
                note_usage(a, i, c, STORES, 0);
            }
        }
    }
}

static uint8_t * unit_at(const struct annealer * a, const struct usage * u, int time) {
    return &a->taken[modulo(time + u->later, a->s->ii) * UNITS + u->unit];
}

// How many of node i's units others have at a time.
static int meets(const struct annealer * a, int i, int c, int time) {
    int n = 0;
    for (int k = 0; k < a->n_uses[i][c]; k++) {
        n += *unit_at(a, &a->uses[i][c][k], time) > 0;
    }
    return n;
}

static void enter(struct annealer * a, int i, int c) {
    int time = a->s->q->time[i];
    a->s->nodes[i].carrier = (uint8_t) c;
    for (int k = 0; k < a->n_uses[i][c]; k++) {
        uint8_t * unit = unit_at(a, &a->uses[i][c][k], time);
        a->wrong += *unit > 0 ? CONFLICT : 0;
        ++*unit;
    }
}

static void leave(struct annealer * a, int i, int time) {
    int c = a->s->nodes[i].carrier;
    for (int k = 0; k < a->n_uses[i][c]; k++) {
        uint8_t * unit = unit_at(a, &a->uses[i][c][k], time);
        --*unit;
        a->wrong -= *unit > 0 ? CONFLICT : 0;
    }
}

static void enter_best(struct annealer * a, int i) {
    int time = a->s->q->time[i];
    int other = a->s->nodes[i].n_carriers > 1 && meets(a, i, 1, time) < meets(a, i, 0, time);
    enter(a, i, other);
}

static void live(struct annealer * a, enum asm_class cls, int from, int to) {
    struct search * s = a->s;
    int most = s->registers[cls];
    for (int r = modulo(from, s->ii); from < to; from++) {
        a->wrong += s->alive[r][cls]++ >= most ? NO_REGISTER : 0;
        r = r + 1 == s->ii ? 0 : r + 1;
    }
}

static void die(struct annealer * a, enum asm_class cls, int from, int to) {
    struct search * s = a->s;
    int most = s->registers[cls];
    for (int r = modulo(from, s->ii); from < to; from++) {
        a->wrong -= s->alive[r][cls]-- > most ? NO_REGISTER : 0;
        r = r + 1 == s->ii ? 0 : r + 1;
    }
}

static int min(int a, int b) {
    return a < b ? a : b;
}

static int max(int a, int b) {
    return a > b ? a : b;
}

// The life of a local is another one: only what differs is counted.
static void set_life(struct annealer * a, int l, struct life to) {
    struct life from = a->lives[l];
    const struct search * s = a->s;
    enum asm_class cls = s->locals[l].cls;
    if (from.to <= to.from || to.to <= from.from) {
        die(a, cls, from.from, from.to);
        live(a, cls, to.from, to.to);
    } else {
        die(a, cls, from.from, to.from);
        live(a, cls, to.from, from.from);
        die(a, cls, to.to, from.to);
        live(a, cls, from.to, to.to);
    }
    a->length += (to.to - to.from - from.to + from.from) * s->q->p->target->classes[cls].weight;
    a->lives[l] = to;
}

// ---- moves ----

static bool shift_to(struct annealer * a, int i, int time) {
    int * now = &a->s->q->time[i];
    if (time < 0 || time > a->latest || a->n_waiting == MOST_WAITING) {
        return false;
    }
    if (a->node_seen[i] != a->now) {
        if (a->n_moved == MOST_MOVED) {
            return false;
        }
        a->node_seen[i] = a->now;
        a->moved[a->n_moved++] = (struct moved){i, *now, a->s->nodes[i].carrier};
    }
    *now = time;
    a->waiting[a->n_waiting++] = i;
    return true;
}

// Node i to a time, and what is then too near as far away as it must be; false: that cannot be.
static bool shift(struct annealer * a, int i, int time) {
    const struct deps * d = &a->s->q->deps;
    const int * at = a->s->q->time;
    bool later = time > at[i];
    a->now++;
    a->n_moved = a->n_waiting = 0;
    if (!shift_to(a, i, time)) {
        return false;
    }
    for (int k = 0; k < a->n_waiting; k++) {
        int x = a->waiting[k];
        for (int e = later ? d->nodes[x].first_out : d->nodes[x].first_in; e >= 0;
             e = later ? d->edges[e].next_out : d->edges[e].next_in) {
            const struct dep * edge = &d->edges[e];
            int apart = edge->latency - trips_of(a->s, edge) * a->s->ii;
            int other = later ? edge->to : edge->from, to = later ? at[x] + apart : at[x] - apart;
            if (other != x && (later ? at[other] < to : at[other] > to) &&
                (other == i || !shift_to(a, other, to))) {
                return false;
            }
        }
    }
    return true;
}

static void take_back(struct annealer * a) {
    for (int m = 0; m < a->n_moved; m++) {
        a->s->q->time[a->moved[m].node] = a->moved[m].from;
    }
}

// Counts what has been shifted.
static void count(struct annealer * a) {
    struct search * s = a->s;
    a->n_changed = 0;
    for (int m = 0; m < a->n_moved; m++) {
        leave(a, a->moved[m].node, a->moved[m].from);
    }
    for (int m = 0; m < a->n_moved; m++) {
        const struct search_node * n = &s->nodes[a->moved[m].node];
        enter_best(a, a->moved[m].node);
        for (int k = 0; k < n->n_mentions; k++) {
            int l = n->mentions[k].local;
            if (a->local_seen[l] != a->now) {
                a->local_seen[l] = a->now;
                a->changed[a->n_changed++] = (struct changed){l, a->lives[l]};
                set_life(a, l, pressure_life(s, l, -1));
            }
        }
    }
}

static void count_back(struct annealer * a) {
    for (int m = 0; m < a->n_moved; m++) {
        leave(a, a->moved[m].node, a->s->q->time[a->moved[m].node]);
    }
    take_back(a);
    for (int m = 0; m < a->n_moved; m++) {
        enter(a, a->moved[m].node, a->moved[m].carrier);
    }
    for (int k = 0; k < a->n_changed; k++) {
        set_life(a, a->changed[k].local, a->changed[k].before);
    }
}

// Whether a change for the worse by so much is borne: as often as exp(-worse / temperature), which
// comes in sixteenths. The logarithm of a number that was drawn is that of its highest bit and a
// line from there.
static bool is_borne(struct annealer * a, long worse, long temperature) {
    uint32_t x = draw(a) | 1;
    int zeros = __builtin_clz(x);
    uint32_t rest = zeros < 31 ? x << (zeros + 1) >> 24 : 0;
    long most = ((long) zeros << 8) + 255 - (long) rest; // -256 log2
    return 10 * 16 * 256 * worse < 7 * temperature * most;
}

// Where node i might go: anywhere between its neighbours, or a little further, with them.
static int somewhere(struct annealer * a, int i) {
    int home = a->s->q->time[i], reach = a->s->ii / 2, lo = home - reach, hi = home + reach;
    if (below(a, 2)) {
        modulo_bounds(a->s, i, &lo, &hi);
        lo = max(lo, 0);
        hi = min(hi, a->latest);
        if (lo < hi) {
            int time = lo + below(a, hi - lo);
            return time < home ? time : time + 1;
        }
    }
    int by = 1 + below(a, below(a, 8) ? FAR : reach);
    return below(a, 2) ? home - by : home + by;
}

// ---- the search ----

// Times without regard to slots; false: the interval is too short.
static bool anneal_begin(struct annealer * a, bool as_placed) {
    struct search * s = a->s;
    const struct deps * d = &s->q->deps;
    int * time = s->q->time;
    int first = as_placed ? 0 : s->nodes[0].depth;
    for (int i = 0; i < s->n && !as_placed; i++) {
        time[i] = s->nodes[i].depth;
        first = min(first, time[i]);
    }
    for (int i = 0; i < s->n; i++) {
        time[i] -= first;
    }
    bool moved = true;
    for (int round = 0; moved && round < s->n; round++) {
        moved = false;
        for (int e = 0; e < d->n_edges; e++) {
            const struct dep * edge = &d->edges[e];
            int at = time[edge->from] + edge->latency - trips_of(s, edge) * s->ii;
            if (time[edge->to] < at) {
                time[edge->to] = at;
                moved = true;
            }
        }
    }
    for (int i = 0; i < s->n; i++) {
        moved |= time[i] > a->latest;
    }
    memset(a->taken, 0, (size_t) s->ii * UNITS);
    memset(s->alive, 0, (size_t) s->ii * sizeof *s->alive);
    memset(a->lives, 0, (size_t) s->n_locals * sizeof *a->lives);
    a->wrong = a->length = 0;
    if (!s->q->p->target->loop_end_stores) {
        a->taken[(s->ii - 1) * UNITS + STORES] = 1;
    }
    for (int i = 0; i < s->n; i++) {
        enter_best(a, i);
    }
    for (int l = 0; l < s->n_locals; l++) {
        set_life(a, l, pressure_life(s, l, -1));
    }
    return !moved;
}

static bool is_met(const struct annealer * a, int i) {
    int c = a->s->nodes[i].carrier;
    for (int k = 0; k < a->n_uses[i][c]; k++) {
        if (*unit_at(a, &a->uses[i][c][k], a->s->q->time[i]) > 1) {
            return true;
        }
    }
    return false;
}

static int any(struct annealer * a) {
    int i = below(a, a->s->n);
    for (int k = below(a, 2) ? DRAWS : 0; k > 0 && !is_met(a, i); k--) {
        i = below(a, a->s->n);
    }
    return i;
}

static bool cool(struct annealer * a, const struct annealing * how,
                 bool (*accept)(struct search *)) {
    struct search * s = a->s;
    long next = 0, temperature = 16 * (how->as_placed ? WARM : HOT);
    for (long step = 0; step < how->steps; step++) {
        if (step % (how->steps / LEVELS + 1) == 0) {
            temperature -= temperature / COOLER;
        }
        long before = a->wrong + a->length;
        int i = any(a), to = somewhere(a, i);
        if (to == s->q->time[i]) {
            continue;
        }
        if (!shift(a, i, to)) {
            take_back(a);
            continue;
        }
        count(a);
        long worse = a->wrong + a->length - before;
        if (worse > 0 && !is_borne(a, worse, temperature)) {
            count_back(a);
        } else if (a->wrong == 0 && step >= next) {
            next = step + PAUSE;
            if (accept(s)) {
                return true;
            }
        }
    }
    return false;
}

bool tune_anneal(struct search * s, const struct annealing * how, bool (*accept)(struct search *)) {
    size_t n = (size_t) s->n, locals = (size_t) s->n_locals + 1;
    struct annealer a = {.s = s, .latest = how->stages * s->ii - 1, .random = (uint64_t) how->seed};
    a.taken = malloc((size_t) s->ii * UNITS);
    a.uses = malloc(n * sizeof *a.uses);
    a.n_uses = calloc(n, sizeof *a.n_uses);
    a.lives = malloc(locals * sizeof *a.lives);
    a.local_seen = calloc(locals, sizeof *a.local_seen);
    a.node_seen = calloc(n, sizeof *a.node_seen);
    a.changed = malloc(locals * sizeof *a.changed);
    bool found = false;
    if (a.taken && a.uses && a.n_uses && a.lives && a.local_seen && a.node_seen && a.changed) {
        collect_usage(&a);
        found = anneal_begin(&a, how->as_placed) && cool(&a, how, accept);
    }
    free(a.taken);
    free(a.uses);
    free(a.n_uses);
    free(a.lives);
    free(a.local_seen);
    free(a.node_seen);
    free(a.changed);
    return found;
}
