// asm/pipeline: looks for the shortest interval at which trips of a loop can start. The least that
// slots and recurrences allow is tried first; longer ones follow until there are registers for all
// that lives at once, or nothing is gained over trips that do not overlap.
#include "modulo.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_SIZE = 1000,      // bundles, with what leads in and out
    WORK_LIMIT = 1000000, // for all loops of a program, in steps of the innermost loops: about 2 ms
    WORK_LEAST = 50000,   // for each
    WORK_PATIENT = 100000000, // for each, where the result is kept (choices.def)
    GOOD_TENTHS = 11,         // of the bound: no other way is looked for
    FAR = 12, // bundles without a register for all that lives: the next interval will not do either
    SEEDS = 10,           // of changes to an order, where the result is kept
    ANNEAL_LEAST = 24,    // instructions of a loop that is worth it
    ANNEAL_STEPS = 3000,  // for each instruction, where the result is kept,
    ANNEAL_LONG = 12000,  // and where a loop would be loose
    ANNEAL_TRIES = 8,     // so often
    SQUEEZE_STEPS = 2500, // where a bundle is taken out of what was found,
    SQUEEZE_TRIES = 24,   // so often,
    SQUEEZE_APART = 37,   // each time another one
    LOOSE_TENTHS = 13,    // of what slots take: an interval that is not good
    MOST_STAGES = 4,      // trips in flight of a long loop that does not roll: each takes its room
    MEND = 3, // bundles without a register for all that lives that moving things about may mend
};

// ---- bounds ----

// Cycles that the busiest slot or bank of memory is taken in one trip. Where none may stand in the
// last bundle of a loop, stores leave one free.
static int resource_bound(const struct search * s) {
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
static void life_bounds(const struct search * s, int * path, int * longest, int * together) {
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

// ---- one interval ----

// Shifts all times so that the repeated part ends in a bundle without a store and begins as late as
// can be, which makes the fewest stages. whole: of those that leave no trip over where the count is
// a multiple of the copies, if there are such.
static void normalise(struct search * s, bool whole) {
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
    for (int i = 0; i < s->n; i++) {
        q->time[i] += best - first;
        q->op[i] = s->nodes[i].carriers[s->nodes[i].carrier].op;
    }
    q->stages = best_stages;
    for (int l = 0; l < s->n_locals; l++) {
        q->lives[s->locals[l].vreg] = lives_of(s, l, -1);
    }
}

enum outcome { FOUND, NO_SCHEDULE, NO_REGISTERS };

// A loop that rolls begins in the midst of trips that nobody wants, with whatever stands in the
// registers. That must not say where in memory something is, nor be a number for which an
// instruction has no meaning: who reads such a thing stands in the stage that wrote it.
static bool begins_harmlessly(const struct search * s) {
    const struct asm_program * p = s->q->p;
    for (int i = 0; i < s->n && s->q->rolling; i++) {
        const struct aie_instr * instr = deps_instr(&s->q->deps, i);
        bool asks = instr->loads || instr->stores ||
                    (p->target->picky && p->nodes[s->q->deps.first + i].op == p->target->picky);
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

// What is left when all stand: stages, registers, which may be known.
static enum outcome finish(struct search * s, const char * registers) {
    struct pipeline * q = s->q;
    normalise(s, false);
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
static int broken_dep(const struct search * s) {
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

// As it stands in the table; what does not hold would be another loop's.
static enum outcome try_places(struct search * s, const char * places) {
    bool ok = s->ii > 0 && s->ii <= MODULO_MAX_II && choices_place(s, places);
    modulo_clear(s);
    for (int i = 0; i < s->n && ok; i++) {
        struct search_node * n = &s->nodes[i];
        int others[16];
        ok = n->carrier < n->n_carriers &&
             modulo_in_the_way(s, &n->carriers[n->carrier], s->q->time[i], others) == 0;
        modulo_occupy(s, i, true);
    }
    return ok && broken_dep(s) < 0 && lives_fit(s) ? finish(s, choices_registers(s, places))
                                                   : NO_SCHEDULE;
}

static enum outcome try_one(struct search * s, const struct asm_choice * c) {
    struct pipeline * q = s->q;
    s->ii = q->ii = c->ii;
    s->way = (enum way) c->way;
    q->copies = c->copies;
    if (s->way == WAY_PLACED) {
        return try_places(s, c->places);
    }
    if (s->way != WAY_HEIGHT && (s->way != s->ordered || s->seed != c->seed)) {
        s->ordered = s->way;
        s->seed = c->seed;
        if (!(s->way == WAY_SPACED ? spaced_times(s) : modulo_order(s))) {
            return NO_SCHEDULE;
        }
    }
    if (c->ii * c->copies > MODULO_MAX_II || (s->way == WAY_HEIGHT && !modulo_heights(s)) ||
        !modulo_place(s)) {
        s->crowds = 0;
        return NO_SCHEDULE;
    }
    if (lives_count(s) > 0 && s->way == WAY_HEIGHT) {
        lives_shorten(s, 2);
    }
    if (s->crowds > (s->way == WAY_SPACED ? 16 : MEND)) {
        return NO_REGISTERS;
    }
    lives_improve(s, s->way == WAY_SPACED ? 6 : 2);
    return s->crowds > 0 ? NO_REGISTERS : finish(s, NULL);
}

// ---- all intervals ----

// One interval. Few instructions are tried in the order of heights, too: it wants more registers.
static bool find_with(struct search * s, int ii, int longest, enum way way, int seed,
                      struct asm_choice * c) {
    enum outcome last = NO_SCHEDULE;
    *c = (struct asm_choice){.ii = ii, .copies = 1, .seed = seed};
    while (c->copies * ii < longest && !s->q->rolling) {
        c->copies *= 2;
    }
    int most = s->q->rolling ? 1 : PIPELINE_MAX_COPIES;
    // more copies where a life does not fit as it falls; they do not make more registers
    for (; c->copies <= most && last == NO_SCHEDULE; c->copies *= 2) {
        for (int high = way == WAY_SWING && s->n <= ASM_FEW; high >= 0; high--) {
            c->way = high ? WAY_HEIGHT : way;
            enum outcome o = try_one(s, c);
            if (o == FOUND) {
                return true;
            }
            last = o == NO_REGISTERS ? o : last;
        }
    }
    return false;
}

// Where the result is kept, small changes to the order are tried as well.
static bool find_at(struct search * s, int ii, int longest, enum way way, struct asm_choice * c) {
    for (int seed = 0; seed < (choices_patient() && s->n > ASM_FEW ? SEEDS : 1); seed++) {
        if (find_with(s, ii, longest, way, seed, c)) {
            return true;
        }
        if (s->crowds > 2 * FAR) {
            break;
        }
    }
    return false;
}

// The shortest interval first; some of the long ones are left out.
static bool climb(struct search * s, int from, int to, int longest, enum way way,
                  struct asm_choice * c) {
    for (int ii = from; ii < to && s->work < s->work_limit;) {
        if (find_at(s, ii, longest, way, c)) {
            return true;
        }
        // further where much is missing
        int near = choices_patient() ? 0 : ii / 24, far = choices_patient() ? ii / 32 : ii / 10;
        ii += 1 + (s->crowds > FAR ? far : near);
    }
    return false;
}

static bool search(struct search * s, int least, int longest, int plain, struct asm_choice * best) {
    static const enum way ways[] = {WAY_SPACED, WAY_SWING, WAY_CHAIN};
    struct asm_choice c;
    bool is_last = false; // what was found last is the best
    for (int w = s->n > ASM_FEW ? 0 : 1; w < (int) (sizeof ways / sizeof ways[0]); w++) {
        is_last = climb(s, least, best->ii ? best->ii : plain, longest, ways[w], &c);
        if (is_last) {
            *best = c;
        }
        if (best->ii && 10 * best->ii <= GOOD_TENTHS * least) {
            break;
        }
        s->work_limit += s->work_limit / 2;
    }
    return best->ii && (is_last || try_one(s, best) == FOUND); // the others have left their traces
}

// ---- with much patience ----

static bool has_registers(struct search * s) {
    size_t bytes = (size_t) s->n * sizeof *s->q->time;
    int * time = malloc(bytes);
    if (time) {
        memcpy(time, s->q->time, bytes);
    }
    int copies = s->q->copies;
    bool found = time && finish(s, NULL) == FOUND;
    if (time && !found) { // the search goes on from there
        memcpy(s->q->time, time, bytes);
        s->q->copies = copies;
    }
    free(time);
    return found;
}

// most: trips in flight; steps: for each instruction.
static bool anneal_at(struct search * s, int ii, int most, int steps, int tries,
                      struct asm_choice * c) {
    s->ii = s->q->ii = ii;
    s->q->copies = 1;
    int deepest = 0;
    for (int i = 0; i < s->n; i++) {
        deepest = s->nodes[i].depth > deepest ? s->nodes[i].depth : deepest;
    }
    int stages = deepest / ii + 3;
    stages = stages < most ? stages : most;
    stages = stages * ii < CHOICES_TIMES ? stages : CHOICES_TIMES / ii;
    for (int seed = 1; seed <= tries; seed++) {
        struct annealing how = {.stages = stages, .steps = (long) steps * s->n, .seed = seed};
        if (anneal(s, &how, has_registers)) {
            *c = (struct asm_choice){.ii = ii, .copies = s->q->copies, .way = WAY_PLACED};
            return true;
        }
    }
    return false;
}

// What is good first, then what would be better, or else longer ones. Leaves the times of the best
// behind, as text, to be freed; NULL: there is none before `end`.
static char * search_spaced(struct search * s, int least, int end, struct asm_choice * best) {
    int good = s->q->resource_ii * LOOSE_TENTHS / 10;
    char * places = NULL;
    int most = s->q->rolling ? s->q->rolling : MOST_STAGES;
    end = end <= MODULO_MAX_II ? end : MODULO_MAX_II + 1;
    good = good > least ? good : least + 1;
    for (int ii = good < end ? good : end - 1; ii < end && !places; ii += 1 + ii / 9) {
        places = anneal_at(s, ii, most, ANNEAL_LONG, ANNEAL_TRIES, best) ? choices_places(s) : NULL;
    }
    for (int ii = places ? best->ii : 0, less; ii > least; ii = less) {
        less = least + (ii - least) / 2;
        if (!anneal_at(s, less, most, ANNEAL_LONG, 1, best)) {
            break;
        }
        free(places);
        places = choices_places(s);
    }
    return places;
}

// What was found, with one bundle of its interval taken out: all else stands as it did, so that
// little is left to put right.
static bool squeeze_at(struct search * s, const struct asm_choice * from, int row, int seed,
                       int stages) {
    int ii = from->ii - 1;
    if (!choices_place(s, from->places)) {
        return false;
    }
    for (int i = 0; i < s->n; i++) {
        int * time = &s->q->time[i];
        *time = *time / from->ii * ii + *time % from->ii - (*time % from->ii > row);
    }
    struct annealing how = {
        .stages = stages, .steps = (long) SQUEEZE_STEPS * s->n, .seed = seed, .as_placed = true};
    s->ii = s->q->ii = ii;
    s->q->copies = 1;
    s->one_each = from->copies == 1;
    bool found = anneal(s, &how, has_registers);
    s->one_each = false;
    return found;
}

// From what was found, bundle by bundle, as far as it goes with no more trips in flight: those take
// room, or time where the loop rolls. The times of the best as text, NULL: there is nothing better.
static char * squeeze(struct search * s, int least, struct asm_choice * best) {
    char * places = NULL;
    int stages = 1;
    bool placed = choices_place(s, best->places);
    for (int i = 0; i < s->n && placed; i++) {
        int stage = s->q->time[i] / best->ii + 1;
        stages = stage > stages ? stage : stages;
    }
    for (int seed = 1; placed && seed <= SQUEEZE_TRIES && best->ii > least;) {
        if (!squeeze_at(s, best, seed * SQUEEZE_APART % best->ii, seed, stages)) {
            seed++;
            continue;
        }
        free(places);
        places = choices_places(s);
        *best = (struct asm_choice){
            .ii = s->ii, .copies = s->q->copies, .way = WAY_PLACED, .places = places};
        seed = 1;
    }
    return places;
}

static char * search_long(struct search * s, int least, int end, struct asm_choice * best) {
    int edges = apart_begin(s);
    s->ordered = WAY_HEIGHT; // what was in order is not any more
    char * places = spaced_times(s) ? search_spaced(s, least, end, best) : NULL;
    apart_end(s, edges);
    return places;
}

// A loop that does not roll takes the least room with two trips in flight and one register for each
// value, and less with more trips and one register than with several: it is worth a tenth of the
// time, as far as the loop does not become a loose one.
static char * search_small(struct search * s, int least, struct asm_choice * best) {
    int found = best->ii, good = s->q->resource_ii * LOOSE_TENTHS / 10;
    int end = found + found / 10, stages = s->q->copies > 1 ? s->q->stages : 2;
    end = end < good ? end : good > found ? good : found;
    s->ordered = WAY_HEIGHT;
    if (s->q->rolling || pipeline_covers_all(s->q) || !spaced_times(s)) {
        return NULL;
    }
    least = least > found ? least : found;
    for (int most = 2; most <= stages; most++) {
        for (int ii = least, step = (end - least) / 2; ii <= end; ii += step > 0 ? step : 1) {
            if (anneal_at(s, ii, most, ANNEAL_STEPS, 1, best)) {
                return choices_places(s);
            }
        }
    }
    return NULL;
}

// With all patience, from what is known (ii 0: nothing); NULL: there is nothing better.
static char * search_patiently(struct search * s, int least, int plain, int tenths,
                               struct asm_choice * c) {
    int end = c->ii ? c->ii : plain;
    bool worth = s->n > ANNEAL_LEAST && 10 * end > tenths * s->q->resource_ii;
    bool was_placed = c->places != NULL;
    char * places = worth ? search_long(s, least, end, c) : NULL;
    c->places = places ? places : c->places;
    char * shorter = worth && c->places ? squeeze(s, least, c) : NULL;
    if (shorter) {
        free(places);
        places = shorter;
    }
    if (c->ii && !was_placed && try_one(s, c) == FOUND) {
        char * smaller = search_small(s, least, c);
        if (smaller) {
            free(places);
            places = smaller;
        }
        c->places = places ? places : c->places;
    }
    return places;
}

static int least_interval(const struct search * s) {
    const struct pipeline * q = s->q;
    return q->resource_ii > q->recurrence_ii ? q->resource_ii : q->recurrence_ii;
}

// With what registers allow; *longest: the life that takes longest.
static int least_with_lives(struct search * s, int * longest) {
    int together, least = least_interval(s);
    life_bounds(s, s->q->time, longest, &together);
    least = together > least ? together : least;
    return s->q->rolling && *longest > least ? *longest : least;
}

// Where the instructions stand and in which registers values are is said, too: that need not be
// found out again.
static void show(const struct search * s, const struct asm_choice * c, bool found, uint64_t loop,
                 int plain, int window) {
    bool placed = found;
    for (int i = 0; i < s->n && placed; i++) {
        placed = s->q->time[i] < CHOICES_TIMES;
    }
    char * places = placed ? choices_places(s) : NULL;
    choices_show(&(struct asm_found){.loop = loop,
                                     .ii = (int16_t) c->ii,
                                     .copies = (int8_t) (places ? s->q->copies : c->copies),
                                     .way = (int8_t) (places ? WAY_PLACED : c->way),
                                     .seed = (int8_t) c->seed,
                                     .plain = (int16_t) plain,
                                     .window = (int16_t) window,
                                     .places = places ? places : c->places});
    free(places);
}

// As the table has it, or, for those who have time, better.
static bool find_known(struct search * s, const struct asm_found * known) {
    struct pipeline * q = s->q;
    struct asm_choice c = {known->ii, known->copies, known->way, known->seed, known->places};
    char * places = NULL;
    int longest;
    q->plain = known->plain;
    q->window = known->window;
    s->work_limit = WORK_PATIENT;
    if (choices_loose_wanted(known)) {
        int least = least_with_lives(s, &longest);
        places = search_patiently(s, least, known->plain, LOOSE_TENTHS, &c);
    }
    q->hopeless = !c.ii && !choices_watched(); // another form of it may not be known
    bool found = c.ii && try_one(s, &c) == FOUND;
    if (choices_watched() && (found || !c.ii)) {
        show(s, &c, found, known->loop, known->plain, known->window);
    }
    free(places);
    return found;
}

// plain 0: only if it is known.
static bool find(struct search * s, int plain) {
    struct pipeline * q = s->q;
    uint64_t loop = choices_loop(s);
    const struct asm_found * choice = choices_find(loop);
    if (!choice || asm_is_watched() || choices_watched() || q->p->trace) {
        q->resource_ii = resource_bound(s);
        q->recurrence_ii = recurrence_bound(s, q->time);
    }
    if (asm_is_watched()) {
        life_bounds(s, q->time, &q->life_ii, &q->register_ii);
    }
    bool is_known = choice && find_known(s, choice);
    // What does not hold any more is looked for anew by who writes the table.
    if (is_known || (choice && !(choices_watched() && choice->ii))) {
        return is_known;
    }
    if (!plain) {
        q->wanted = choices_watched();
        return false;
    }
    struct asm_known * known =
        asm_known_of(q->p, s->n, least_interval(s), q->rolling ? -plain : plain);
    bool found, again = known->tried && !choices_patient();
    if (again) {
        s->work_limit = WORK_LIMIT; // one that was found is not missed for having no time left
        found = known->choice.ii != 0;
        again = !found || try_one(s, &known->choice) == FOUND;
    }
    int longest, least = again ? 0 : least_with_lives(s, &longest);
    if (!again) {
        *known = (struct asm_known){
            .n = known->n, .least = known->least, .plain = known->plain, .tried = true};
        found = search(s, least, longest, plain, &known->choice);
    }
    if (!choices_watched()) {
        return found;
    }
    struct asm_choice c = found ? known->choice : (struct asm_choice){.ii = 0};
    char * places = NULL;
    if (choices_patient()) {
        places = search_patiently(s, least, plain, GOOD_TENTHS, &c);
        found = c.ii && try_one(s, &c) == FOUND; // the search has left its traces
    }
    show(s, &c, found, loop, plain, q->window);
    free(places);
    return found;
}

// ---- what is searched ----

static void collect_nodes(struct search * s) {
    const struct asm_program * p = s->q->p;
    for (int i = 0; i < s->n; i++) {
        const struct asm_node * from = &p->nodes[s->q->deps.first + i];
        struct search_node * n = &s->nodes[i];
        uint16_t ops[2];
        n->n_carriers = (uint8_t) asm_variants(p, from, ops);
        if (s->q->deps.nodes[i].mover >= 0) {
            n->n_carriers = 1; // the one that all its offsets were seen to fit
        }
        for (int c = 0; c < n->n_carriers; c++) {
            const struct aie_instr * instr = asm_instr(p, ops[c]);
            struct carrier * to = &n->carriers[c];
            to->op = ops[c];
            to->slot = (uint8_t) instr->slot;
            to->excludes = (uint8_t) asm_excludes(instr->slot);
            to->n_landings = (uint8_t) asm_landings(p, from, instr, to->landings);
            to->access = instr->mem_cycle;
            to->bank = instr->loads || instr->stores
                           ? (int8_t) (p->memories[from->memory % ASM_MEMORIES].bank - 1)
                           : -1;
        }
    }
    for (int c = 0; c < ASM_CLASS_COUNT; c++) {
        s->registers[c] =
            __builtin_popcountll(asm_class_set(p, (enum asm_class) c) & ~p->global_taken[c]);
    }
}

// The load unit that only some loads can use is asked first: the other one is for the rest.
static void prefer_second(struct search * s) {
    for (int i = 0; i < s->n; i++) {
        struct search_node * n = &s->nodes[i];
        if (n->n_carriers == 2 && n->carriers[0].slot == AIE_SLOT_LDA) {
            struct carrier first = n->carriers[0];
            n->carriers[0] = n->carriers[1];
            n->carriers[1] = first;
        }
    }
}

static void mention(struct search * s, int i, int local, const struct aie_operand * o) {
    struct search_node * n = &s->nodes[i];
    struct mention * m = n->mentions;
    while (m < n->mentions + n->n_mentions && m->local != local) {
        m++;
    }
    if (m == n->mentions + n->n_mentions) {
        *m = (struct mention){.node = (int16_t) i, .local = (int16_t) local};
        n->n_mentions++;
        s->locals[local].count++;
    }
    int settles = asm_settles(o);
    m->settles = settles > m->settles ? (uint8_t) settles : m->settles;
    if (o->role & AIE_DEF) {
        bool late = asm_is_late(s->q->p, s->locals[local].cls);
        int arrives = late ? asm_arrives(o) : 0;
        m->arrives = (uint8_t) (m->writes && m->arrives < arrives ? m->arrives : arrives);
        m->writes = true;
    }
}

// Numbers the locals of the loop and lists who names them.
static bool collect_locals(struct search * s) {
    const struct asm_program * p = s->q->p;
    size_t most = (size_t) s->n * ASM_MAX_ARGS + 1;
    int16_t * numbers = malloc(((size_t) p->n_vregs + 1) * sizeof *numbers); // -1 = none
    s->locals = malloc(most * sizeof *s->locals);
    s->mentions = malloc(most * sizeof *s->mentions);
    bool ok = numbers && s->locals && s->mentions;
    for (int i = 0; i < s->n && ok; i++) { // a loop names few of a program's registers
        const struct asm_node * n = &p->nodes[s->q->deps.first + i];
        for (unsigned left = n->locals; left; left &= left - 1) {
            numbers[n->args[__builtin_ctz(left)].reg.id] = -1;
        }
    }
    for (int i = 0; i < s->n && ok; i++) {
        const struct asm_node * n = &p->nodes[s->q->deps.first + i];
        for (unsigned left = n->locals; left; left &= left - 1) {
            int k = __builtin_ctz(left), v = n->args[k].reg.id;
            if (numbers[v] < 0) {
                numbers[v] = (int16_t) s->n_locals;
                s->q->locals[s->n_locals] = v;
                s->locals[s->n_locals++] =
                    (struct search_local){.vreg = v, .cls = (enum asm_class) p->vregs[v].cls};
            }
            mention(s, i, numbers[v], &deps_instr(&s->q->deps, i)->operands[k]);
        }
    }
    for (int l = 0, at = 0; ok && l < s->n_locals; l++) {
        s->locals[l].first = at;
        at += s->locals[l].count;
        s->locals[l].count = 0;
    }
    for (int i = 0; i < s->n && ok; i++) {
        for (int k = 0; k < s->nodes[i].n_mentions; k++) {
            struct search_local * local = &s->locals[s->nodes[i].mentions[k].local];
            s->mentions[local->first + local->count++] = s->nodes[i].mentions[k];
        }
    }
    s->q->n_locals = s->n_locals;
    free(numbers);
    return ok;
}

static bool allocate_schedule(struct pipeline * q, struct asm_program * p, size_t n) {
    q->p = p;
    q->locals = malloc(n * ASM_MAX_ARGS * sizeof *q->locals);
    q->time = malloc(n * sizeof *q->time);
    q->op = malloc(n * sizeof *q->op);
    q->lives = malloc(((size_t) p->n_vregs + 1) * sizeof *q->lives);
    q->phys = malloc(((size_t) p->n_vregs + 1) * PIPELINE_MAX_COPIES);
    return q->locals && q->time && q->op && q->lives && q->phys;
}

bool pipeline_find(struct pipeline * q, struct asm_program * p, const struct asm_item * region,
                   int plain, int rolling) {
    *q = (struct pipeline){.p = p, .rolling = rolling, .window = region->window};
    if (region->count == 0 || region->count > 2048 || !deps_build(&q->deps, p, region, true)) {
        return false;
    }
    size_t n = (size_t) region->count, rows = MODULO_MAX_II + 1;
    struct search s = {.q = q, .n = region->count, .work_limit = (WORK_LIMIT - p->searched) / 2};
    s.work_limit = choices_patient()           ? WORK_PATIENT
                   : s.work_limit < WORK_LEAST ? WORK_LEAST
                                               : s.work_limit;
    s.nodes = calloc(n, sizeof *s.nodes);
    s.order = malloc(n * sizeof *s.order);
    s.slots = malloc(rows * sizeof *s.slots);
    s.ports = malloc(rows * sizeof *s.ports);
    s.banks = malloc(rows * sizeof *s.banks);
    s.alive = malloc(rows * sizeof *s.alive);
    bool found = false, ok = allocate_schedule(q, p, n) && s.nodes && s.order && s.slots &&
                             s.banks && s.ports && s.alive && collect_locals(&s);
    if (ok) {
        collect_nodes(&s);
        prefer_second(&s);
        found = find(&s, plain);
    }
    p->no_memory |= !ok;
    p->searched += s.work < s.work_limit ? s.work : s.work_limit;
    free(s.nodes);
    free(s.order);
    free(s.slots);
    free(s.ports);
    free(s.banks);
    free(s.alive);
    free(s.locals);
    free(s.mentions);
    return found;
}

// ---- a schedule that is given ----

static bool keeps_latencies(const struct search * s) {
    const struct deps * d = &s->q->deps;
    const int * time = s->q->time;
    int e = broken_dep(s);
    if (e >= 0) {
        const struct dep * edge = &d->edges[e];
        int late = time[edge->from] + edge->latency - time[edge->to] - trips_of(s, edge) * s->ii;
        asm_misuse(s->q->p,
                   "asm: paced loop: instruction %d (%s, bundle %d) comes %d early "
                   "behind %d (%s, bundle %d), %d trips on",
                   edge->to, deps_instr(d, edge->to)->name, time[edge->to], late, edge->from,
                   deps_instr(d, edge->from)->name, time[edge->from], trips_of(s, edge));
    }
    return e < 0;
}

static bool take(struct search * s, const struct asm_item * region) {
    struct pipeline * q = s->q;
    modulo_clear(s);
    for (int i = 0; i < s->n; i++) {
        s->nodes[i].carriers[0].bank = -1; // the author's affair
        q->time[i] = q->p->nodes[region->first + i].at;
        s->nodes[i].n_carriers = 1; // the op that was written
        if (!modulo_fits(s, i, q->time[i])) {
            asm_misuse(q->p, "asm: paced loop: instruction %d (%s) finds bundle %d taken", i,
                       deps_instr(&q->deps, i)->name, q->time[i]);
            return false;
        }
        modulo_occupy(s, i, true);
    }
    for (q->copies = 1; q->copies <= PIPELINE_MAX_COPIES; q->copies *= 2) {
        int longest = 0;
        for (int l = 0; l < s->n_locals; l++) {
            struct life life = lives_of(s, l, -1);
            longest = life.to - life.from > longest ? life.to - life.from : longest;
        }
        if (longest > q->copies * s->ii) {
            continue;
        }
        if (!keeps_latencies(s)) {
            return false;
        }
        normalise(s, true);
        if (pipeline_allocate(q)) {
            return true;
        }
    }
    asm_misuse(q->p, "asm: paced loop: too few registers");
    return false;
}

bool pipeline_take(struct pipeline * q, struct asm_program * p, const struct asm_item * region,
                   int interval) {
    *q = (struct pipeline){.p = p, .ii = interval};
    if (region->count == 0 || region->count > 2048 || interval < 1 ||
        interval * PIPELINE_MAX_COPIES > 4 * MODULO_MAX_II ||
        !deps_build(&q->deps, p, region, true)) {
        return false;
    }
    size_t n = (size_t) region->count;
    struct search s = {.q = q, .n = region->count, .ii = interval};
    s.nodes = calloc(n, sizeof *s.nodes);
    s.slots = malloc((size_t) interval * sizeof *s.slots);
    s.ports = malloc((size_t) interval * sizeof *s.ports);
    s.banks = malloc((size_t) interval * sizeof *s.banks);
    bool ok = allocate_schedule(q, p, n) && s.nodes && s.slots && s.ports && s.banks &&
              collect_locals(&s);
    p->no_memory |= !ok;
    if (ok) {
        collect_nodes(&s);
        q->resource_ii = resource_bound(&s);
        ok = take(&s, region);
    }
    free(s.nodes);
    free(s.slots);
    free(s.ports);
    free(s.banks);
    free(s.locals);
    free(s.mentions);
    return ok;
}

void pipeline_free(struct pipeline * q) {
    deps_free(&q->deps);
    free(q->locals);
    free(q->time);
    free(q->op);
    free(q->lives);
    free(q->phys);
    *q = (struct pipeline){0};
}
