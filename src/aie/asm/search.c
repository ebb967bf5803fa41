// asm/search: one interval of a loop whose trips overlap, and all of them. The least that slots and
// recurrences allow is tried first; longer ones follow until there are registers for all that lives
// at once, or nothing is gained over trips that do not overlap.
//
// Kept true: what it finds is what search_try makes of an asm_choice again; the times, carriers and
// registers of the last success stand in the search and its pipeline.
#include "modulo.h"

enum {
    MAX_SIZE = 1000,  // bundles, with what leads in and out
    GOOD_TENTHS = 11, // of the bound: no other method is tried
    FAR = 12, // bundles without a register for all that lives: the next interval will not do either
    MEND = 3, // bundles without a register for all that lives that moving things about may mend
};

// ---- bounds ----

// Cycles that the busiest slot or bank of memory is taken in one trip. Where none may stand in the
// last bundle of a loop, stores leave one free.
int search_resource_bound(const struct search * s) {
    int taken[AIE_SLOT_COUNT] = {0}, banks[ASM_BANKS] = {0}, stores = 0, either = 0;
    for (int i = 0; i < s->n; i++) {
        const struct search_node * n = &s->nodes[i];
        stores += deps_instr(&s->q->deps, i)->stores;
        if (n->carriers[0].bank >= 0) {
            banks[n->carriers[0].bank]++;
        }
        if (n->n_carriers > 1) {
            either++; // all that have a choice go to lda or ldb
        } else if (n->carriers[0].slot == AIE_SLOT_LNG) {
            taken[AIE_SLOT_ALU]++;
            taken[AIE_SLOT_MV]++;
        } else {
            taken[n->carriers[0].slot]++;
        }
    }
    int bound = stores + (s->q->p->target->loop_end_stores && stores ? 0 : 1);
    int loads = (taken[AIE_SLOT_LDA] + taken[AIE_SLOT_LDB] + either + 1) / 2;
    bound = loads > bound ? loads : bound;
    for (int slot = 0; slot < AIE_SLOT_COUNT; slot++) {
        bound = taken[slot] > bound ? taken[slot] : bound;
    }
    for (int bank = 0; bank < ASM_BANKS; bank++) {
        bound = banks[bank] > bound ? banks[bank] : bound;
    }
    return bound;
}

// The longest way around from a node to itself in the next trip.
static int recurrence_bound(struct search * s, int * path) {
    const struct deps * d = &s->q->deps;
    int bound = 1;
    for (int to = 0; to < s->n; to++) {
        int last = -1; // where values for the next trip's `to` come from
        for (int e = d->nodes[to].first_in; e >= 0; e = d->edges[e].next_in) {
            last = d->edges[e].trips == 1 && d->edges[e].from > last ? d->edges[e].from : last;
        }
        for (int i = to; i <= last; i++) {
            path[i] = i == to ? 0 : UNPLACED;
        }
        for (int i = to; i <= last; i++) {
            for (int e = d->nodes[i].first_out; e >= 0 && path[i] >= 0; e = d->edges[e].next_out) {
                const struct dep * edge = &d->edges[e];
                int via = path[i] + edge->latency;
                if (edge->trips == 1 && edge->to == to) {
                    bound = via > bound ? via : bound;
                } else if (edge->trips == 0 && edge->to <= last && via > path[edge->to]) {
                    path[edge->to] = via;
                }
            }
        }
    }
    return bound;
}

// The least bundles from the first write of local l, or from when that arrives, to its last read.
static int shortest_life(const struct search * s, int l, int * path) {
    const struct deps * d = &s->q->deps;
    const struct mention * m = &s->mentions[s->locals[l].first];
    int first = -1, last = 0, life = 0, arrives = 0;
    for (int k = 0; k < s->locals[l].count; k++) {
        arrives = first < 0 && m[k].writes ? m[k].arrives : arrives;
        first = first < 0 && m[k].writes ? m[k].node : first; // in the order of writing
        last = m[k].node;
    }
    for (int i = first; first >= 0 && i <= last; i++) {
        path[i] = i == first ? 0 : UNPLACED;
    }
    for (int i = first; first >= 0 && i <= last; i++) {
        for (int e = d->nodes[i].first_out; e >= 0 && path[i] >= 0; e = d->edges[e].next_out) {
            const struct dep * edge = &d->edges[e];
            if (edge->trips == 0 && edge->to <= last && path[i] + edge->latency > path[edge->to]) {
                path[edge->to] = path[i] + edge->latency;
            }
        }
    }
    for (int k = 0; k < s->locals[l].count && first >= 0; k++) {
        int end = path[m[k].node] + m[k].settles - arrives;
        life = end > life ? end : life;
    }
    return life;
}

// With one register each, no local may live longer than the interval; and all of a class have only
// so many registers.
void search_life_bounds(struct search * s, int * longest, int * together) {
    int * path = s->q->time; // nothing stands yet
    long sum[ASM_CLASS_COUNT] = {0};
    *longest = *together = 1;
    for (int l = 0; l < s->n_locals; l++) {
        int life = shortest_life(s, l, path);
        *longest = life > *longest ? life : *longest;
        sum[s->locals[l].cls] += life;
    }
    for (int c = 0; c < ASM_CLASS_COUNT; c++) {
        int bound = s->registers[c] ? (int) (sum[c] / s->registers[c]) : 0;
        *together = bound > *together ? bound : *together;
    }
}

void search_bounds(struct search * s) {
    s->q->resource_ii = search_resource_bound(s);
    s->q->recurrence_ii = recurrence_bound(s, s->q->time);
}

int search_least(const struct search * s) {
    const struct pipeline * q = s->q;
    return q->resource_ii > q->recurrence_ii ? q->resource_ii : q->recurrence_ii;
}

int search_least_with_lives(struct search * s, int * longest) {
    int together, least = search_least(s);
    search_life_bounds(s, longest, &together);
    least = together > least ? together : least;
    return s->q->rolling && *longest > least ? *longest : least;
}

// ---- one interval ----

// Shifts all times so that the repeated part ends in a bundle without a store and begins as late as
// can be, which makes the fewest stages. whole: of those that leave no trip over where the count is
// a multiple of the copies, if there are such. False: every bundle stores.
bool search_normalise(struct search * s, bool whole) {
    struct pipeline * q = s->q;
    int first = q->time[0], last = q->time[0], best = -1, best_stages = 0;
    bool best_rests = true;
    bool stores[MODULO_MAX_II] = {false}; // in a bundle of the interval, from the first one on
    for (int i = 1; i < s->n; i++) {
        first = q->time[i] < first ? q->time[i] : first;
        last = q->time[i] > last ? q->time[i] : last;
    }
    for (int i = 0; i < s->n && !q->p->target->loop_end_stores; i++) {
        stores[(q->time[i] - first) % s->ii] |= deps_instr(&q->deps, i)->stores;
    }
    for (int shift = 0; shift < s->ii; shift++) { // of the first instruction into its stage
        int stages = (last - first + shift) / s->ii + 1;
        bool rests = whole && (stages - 1) % q->copies != 0;
        if (!stores[s->ii - 1 - shift] &&
            (best < 0 || rests < best_rests || (rests == best_rests && stages < best_stages))) {
            best = shift;
            best_stages = stages;
            best_rests = rests;
        }
    }
    if (best < 0) {
        return false;
    }
    for (int i = 0; i < s->n; i++) {
        q->time[i] += best - first;
        q->op[i] = s->nodes[i].carriers[s->nodes[i].carrier].op;
    }
    q->stages = best_stages;
    for (int l = 0; l < s->n_locals; l++) {
        q->lives[s->locals[l].vreg] = pressure_life(s, l, -1);
    }
    return true;
}

// A loop that rolls begins in the midst of trips that nobody wants, with whatever stands in the
// registers. That must not say where in memory something is, nor be a number for which an
// instruction has no meaning: who reads such a thing stands in the stage that wrote it.
static bool begins_harmlessly(const struct search * s) {
    const struct asm_program * p = s->q->p;
    for (int i = 0; i < s->n && s->q->rolling; i++) {
        const struct aie_instr * instr = deps_instr(&s->q->deps, i);
        bool asks = instr->loads || instr->stores ||
                    (p->target->undefined_for_some &&
                     p->nodes[s->q->deps.first + i].op == p->target->undefined_for_some);
        for (int k = 0; asks && k < s->nodes[i].n_mentions; k++) {
            const struct search_local * l = &s->locals[s->nodes[i].mentions[k].local];
            bool is_scalar = p->target->classes[l->cls].file == AIE_FILE_SCALAR;
            for (int m = l->first; is_scalar && m < l->first + l->count; m++) {
                if (s->q->time[s->mentions[m].node] / s->ii != s->q->time[i] / s->ii) {
                    return false;
                }
            }
        }
    }
    return true;
}

// The rest of the work when all instructions are placed: stages, and registers, which may be known.
enum outcome search_finish(struct search * s, const char * registers) {
    struct pipeline * q = s->q;
    if (!search_normalise(s, false)) {
        return NO_SCHEDULE;
    }
    if (q->rolling ? q->stages > q->rolling || !begins_harmlessly(s)
                   : q->stages > PIPELINE_MAX_STAGES || pipeline_size(q) > MAX_SIZE) {
        return NO_SCHEDULE;
    }
    if (registers && pipeline_give(q, registers)) {
        return FOUND;
    }
    // A kernel of more trips than the lives need gives registers out with fewer gaps.
    int most = q->rolling || s->one_each ? 1 : PIPELINE_MAX_COPIES;
    for (; q->copies * q->ii <= MODULO_MAX_II && q->copies <= most; q->copies *= 2) {
        if (pipeline_allocate(q)) {
            return FOUND;
        }
    }
    return NO_REGISTERS;
}

// The first distance that is not kept, -1 = none.
int search_broken_dep(const struct search * s) {
    const struct deps * d = &s->q->deps;
    const int * time = s->q->time;
    for (int e = 0; e < d->n_edges; e++) {
        const struct dep * edge = &d->edges[e];
        if (time[edge->from] + edge->latency > time[edge->to] + trips_of(s, edge) * s->ii) {
            return e;
        }
    }
    return -1;
}

// As it stands in the table; what does not hold would be another loop's. Nothing of it is believed.
static enum outcome try_placement(struct search * s, const char * placement) {
    int copies = s->q->copies, most = s->q->rolling ? 1 : PIPELINE_MAX_COPIES;
    bool ok = s->ii > 0 && s->ii <= MODULO_MAX_II && copies > 0 && copies <= most &&
              (copies & (copies - 1)) == 0 && placement_read(s, placement);
    if (!ok) {
        return NO_SCHEDULE;
    }
    modulo_clear(s);
    for (int i = 0; i < s->n && ok; i++) {
        struct search_node * n = &s->nodes[i];
        int others[16];
        ok = n->carrier < n->n_carriers &&
             modulo_in_the_way(s, &n->carriers[n->carrier], s->q->time[i], others) == 0;
        modulo_occupy(s, i, true);
    }
    return ok && search_broken_dep(s) < 0 && pressure_fit(s)
               ? search_finish(s, placement_registers(s, placement))
               : NO_SCHEDULE;
}

enum outcome search_try(struct search * s, const struct asm_choice * c) {
    struct pipeline * q = s->q;
    s->ii = q->ii = c->ii;
    s->method = (enum sched_method) c->method;
    q->copies = c->copies;
    if (s->method == METHOD_PLACED) {
        return try_placement(s, c->placement);
    }
    if (s->method != METHOD_HEIGHT && (s->method != s->ordered || s->seed != c->seed)) {
        s->ordered = s->method;
        s->seed = c->seed;
        s->has_order = s->method == METHOD_LIFETIME ? lifetime_times(s) : modulo_order(s);
        s->q->p->no_memory |= !s->has_order;
    }
    if (s->method != METHOD_HEIGHT && !s->has_order) {
        return NO_SCHEDULE;
    }
    if (c->ii * c->copies > MODULO_MAX_II || (s->method == METHOD_HEIGHT && !modulo_heights(s)) ||
        !modulo_place(s)) {
        s->crowds = 0;
        return NO_SCHEDULE;
    }
    if (pressure_count(s) > 0 && s->method == METHOD_HEIGHT) {
        pressure_shorten(s, 2);
    }
    if (s->crowds > (s->method == METHOD_LIFETIME ? 16 : MEND)) {
        return NO_REGISTERS;
    }
    pressure_improve(s, s->method == METHOD_LIFETIME ? 6 : 2);
    return s->crowds > 0 ? NO_REGISTERS : search_finish(s, NULL);
}

// ---- all intervals ----

// One interval. Few instructions are tried in the order of heights, too: it wants more registers.
static bool find_with(struct search * s, int ii, int longest, enum sched_method method, int seed,
                      struct asm_choice * c) {
    enum outcome last = NO_SCHEDULE;
    *c = (struct asm_choice){.ii = ii, .copies = 1, .seed = seed};
    while (c->copies * ii < longest && !s->q->rolling) {
        c->copies *= 2;
    }
    int most = s->q->rolling ? 1 : PIPELINE_MAX_COPIES;
    // more copies where a life does not fit as it falls; they do not make more registers
    for (; c->copies <= most && last == NO_SCHEDULE; c->copies *= 2) {
        for (int high = method == METHOD_SWING && s->n <= ASM_FEW; high >= 0; high--) {
            c->method = high ? METHOD_HEIGHT : method;
            enum outcome o = search_try(s, c);
            if (o == FOUND) {
                return true;
            }
            last = o == NO_REGISTERS ? o : last;
        }
    }
    return false;
}

// The patient search tries small changes to the order as well.
static bool find_at(struct search * s, int ii, int longest, enum sched_method method,
                    struct asm_choice * c) {
    for (int seed = 0; seed < (s->n > ASM_FEW ? s->seeds : 1); seed++) {
        if (find_with(s, ii, longest, method, seed, c)) {
            return true;
        }
        if (s->crowds > 2 * FAR) {
            break;
        }
    }
    return false;
}

// The shortest interval first; some of the long ones are left out.
static bool climb(struct search * s, int from, int to, int longest, enum sched_method method,
                  struct asm_choice * c) {
    for (int ii = from; ii < to && s->work < s->work_limit;) {
        if (find_at(s, ii, longest, method, c)) {
            return true;
        }
        // further where much is missing
        int near = s->seeds > 1 ? 0 : ii / 24, far = s->seeds > 1 ? ii / 32 : ii / 10;
        ii += 1 + (s->crowds > FAR ? far : near);
    }
    return false;
}

bool search_all(struct search * s, int least, int longest, int plain, struct asm_choice * best) {
    static const enum sched_method methods[] = {METHOD_LIFETIME, METHOD_SWING, METHOD_CHAIN};
    struct asm_choice c;
    bool is_last = false; // what was found last is the best
    for (int w = s->n > ASM_FEW ? 0 : 1; w < (int) (sizeof methods / sizeof methods[0]); w++) {
        is_last = climb(s, least, best->ii ? best->ii : plain, longest, methods[w], &c);
        if (is_last) {
            *best = c;
        }
        if (best->ii && 10 * best->ii <= GOOD_TENTHS * least) {
            break;
        }
        s->work_limit += s->work_limit / 2;
    }
    return best->ii &&
           (is_last || search_try(s, best) == FOUND); // the others have left their traces
}
