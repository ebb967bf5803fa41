// asm/pipeline: a loop whose trips overlap: what is searched, taken from the program; the schedule
// that the table has for it (schedules.c), or else the one that a short search finds (search.c);
// and the schedule that the author of a paced loop wrote.
#include "modulo.h"

#include <stdlib.h>
#include <string.h>

enum {
    WORK_LIMIT = 1000000, // for all loops of a program, in steps of the innermost loops: about 2 ms
    WORK_LEAST = 50000,   // for each
};

// ---- what is found ----

// As the table has it; false where that does not hold.
static bool take_known(struct search * s, const struct asm_schedule * known) {
    const struct asm_choice c = {.ii = known->ii,
                                 .copies = known->copies,
                                 .method = METHOD_PLACED,
                                 .placement = known->placement};
    bool holds = c.ii ? search_try(s, &c) == FOUND : true;
    if (holds) {
        s->q->plain = known->plain;
        s->q->window = known->window;
    }
    return holds;
}

// Loops that look alike have the same choice; the first of them is searched for.
bool search_quickly(struct search * s, int plain) {
    struct pipeline * q = s->q;
    search_bounds(s);
    struct asm_known * known =
        asm_known_of(q->p, s->n, search_least(s), q->rolling ? -plain : plain);
    if (known->tried) {
        s->work_limit = WORK_LIMIT; // one that was found is not missed for having no time left
        if (!known->choice.ii || search_try(s, &known->choice) == FOUND) {
            return known->choice.ii != 0;
        }
    }
    int longest, least = search_least_with_lives(s, &longest);
    *known = (struct asm_known){
        .n = known->n, .least = known->least, .plain = known->plain, .tried = true};
    return search_all(s, least, longest, plain, &known->choice);
}

// plain 0: only if it is known.
static bool find(struct search * s, int plain) {
    struct pipeline * q = s->q;
    if (q->p->tuner) {
        return q->p->tuner->find(q->p->tuner, s, plain);
    }
    const struct asm_schedule * known = schedules_find(q->p->schedules, schedules_digest(s));
    if (asm_is_watched() || q->p->trace) {
        search_bounds(s);
    }
    if (asm_is_watched()) {
        search_life_bounds(s, &q->life_ii, &q->register_ii);
    }
    if (known && take_known(s, known)) {
        q->hopeless = !known->ii;
        return known->ii;
    }
    q->untuned = true;
    return plain && search_quickly(s, plain);
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
    *q = (struct pipeline){.p = p, .rolling = rolling, .late = p->late, .window = region->window};
    if (region->count == 0 || region->count > 2048 || !deps_build(&q->deps, p, region, true)) {
        return false;
    }
    size_t n = (size_t) region->count, rows = MODULO_MAX_II + 1;
    struct search s = {
        .q = q, .n = region->count, .seeds = 1, .work_limit = (WORK_LIMIT - p->searched) / 2};
    s.work_limit = s.work_limit < WORK_LEAST ? WORK_LEAST : s.work_limit;
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
    int e = search_broken_dep(s);
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
            struct life life = pressure_life(s, l, -1);
            longest = life.to - life.from > longest ? life.to - life.from : longest;
        }
        if (longest > q->copies * s->ii) {
            continue;
        }
        if (!keeps_latencies(s)) {
            return false;
        }
        if (!search_normalise(s, true)) {
            asm_misuse(q->p, "asm: paced loop: a store in each bundle, also the last one");
            return false;
        }
        if (pipeline_allocate(q)) {
            return true;
        }
    }
    asm_misuse(q->p, "asm: paced loop: too few registers");
    return false;
}

bool pipeline_take(struct pipeline * q, struct asm_program * p, const struct asm_item * region,
                   int interval) {
    *q = (struct pipeline){.p = p, .ii = interval, .late = p->late};
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
        q->resource_ii = search_resource_bound(&s);
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
    asm_flow_free(q->flow);
    deps_free(&q->deps);
    free(q->locals);
    free(q->time);
    free(q->op);
    free(q->lives);
    free(q->phys);
    *q = (struct pipeline){0};
}
