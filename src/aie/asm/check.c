// asm/check: proves from the bytes alone that a program respects the exposed pipeline. It follows
// every path (branches with their delay slots, loop back edges) and carries, for each register
// unit, how long until a write lands and how long until a late read happens; where paths meet, the
// worst of both counts. Values only grow and are bounded, so the walk ends.
//
// Kept true: only what is in flight is carried from place to place, a handful of units; and what
// came before a leader has no effect FORGOTTEN bundles behind it, so that who comes there again
// walks no further.
#include "check.h"

#include <stdlib.h>
#include <string.h>

enum {
    FAR = 32, // "long ago"
    FAR_BYTES = 128,
    FORGOTTEN = FAR_BYTES / 2, // bundles: of two bytes and more, and further than FAR
    LANDINGS = 16,             // cycles; more than any result takes
    WORDS = (AIE_UNIT_COUNT + 63) / 64,
    UNITS = 64 * WORDS,
};

// Everything but units that is in flight at the issue of a bundle.
struct flight {
    uint64_t units[WORDS]; // those with a write or a late read that is not over
    uint8_t since_memory, since_lock, since_loop;
    uint8_t bytes_since_loop; // behind the bundle with the write
};

struct state { // at a leader; cycles are counted from there
    struct flight f;
    bool known;               // somebody got there
    bool walked;              // from here on
    uint8_t lands[UNITS];     // the cycle from which the pending write is visible; 0 = none
    uint8_t bypass[UNITS];    // enum aie_bypass of that write
    uint8_t late[UNITS];      // the cycle of a pending late read; 0 = none
    uint32_t ports[LANDINGS]; // by cycle: bit per slot and file in which one lands
};

struct walk { // where the checker is; cycles are counted from its beginning
    struct flight f;
    uint32_t now;
    uint32_t lands[UNITS], late[UNITS]; // until now = none
    uint8_t bypass[UNITS];
    uint32_t ports[LANDINGS]; // by cycle modulo LANDINGS
};

struct check {
    struct check_code code;
    const struct aie_target * target;
    const struct asm_flow ** flows; // loops whose vectors check-flow.c follows
    int n_flows;
    const struct asm_flow * flow; // that the walk is in, NULL = none
    struct walk walk;
    uint8_t * reached; // somebody got to this bundle
    int * leaders;     // bundles that are got to other than from the one before: index of their
                       // state, else -1
    struct state * states;
    int * loop_start; // of the loop whose last bundle this is, -1 = none
    uint8_t * queued;
    int * queue;
    int n_queue;
    struct error * err;
};

enum status check_fail(const struct check_code * c, int at, const char * what,
                       const struct aie_inst * inst, struct error * err) {
    struct buf text = {0};
    aie_inst_print(c->isa, inst, &text);
    enum status st = error_set(err, ST_INVALID, "check: pc 0x%x: %s: %s", c->bundles[at].pc,
                               text.data ? (const char *) text.data : "?", what);
    buf_free(&text);
    return st;
}

static enum status fail(struct check * c, int at, const char * what, const struct aie_inst * inst) {
    return check_fail(&c->code, at, what, inst, c->err);
}

static enum status fail_bundle(struct check * c, int at, const char * what) {
    size_t pc = (size_t) c->code.bundles[at].pc;
    struct aie_bundle b = {.present = 0};
    struct error ignored;
    aie_bundle_decode(c->code.isa, c->code.bytes + pc, c->code.size - pc, &b, &ignored);
    return fail(c, at, what, &b.slot[__builtin_ctz(b.present | 1u << AIE_SLOT_NOP)]);
}

// ---- what a bundle reads and writes ----

// Whether what is in this register is followed value by value (check-flow.c).
static bool is_followed(const struct check * c, int unit) {
    return c->flow && asm_flow_has(c->flow, unit);
}

static const struct asm_flow * flow_at(const struct check * c, int at) {
    for (int i = 0; i < c->n_flows; i++) {
        if (at >= c->flows[i]->first && at < c->flows[i]->first + c->flows[i]->n) {
            return c->flows[i];
        }
    }
    return NULL;
}

// Cycles until then.
static int left(const struct walk * w, uint32_t cycle) {
    return cycle > w->now ? (int) (cycle - w->now) : 0;
}

static void in_flight(struct flight * f, int unit) {
    f->units[unit / 64] |= 1ull << unit % 64;
}

static enum status check_uses(struct check * c, int at, const struct check_word * word) {
    struct walk * w = &c->walk;
    for (int i = word->uses; i < word->defs; i++) {
        const struct check_access * a = &c->code.accesses[i];
        int visible = left(w, w->lands[a->unit]);
        if (a->bypass != AIE_BYPASS_NONE && w->bypass[a->unit] == a->bypass && visible) {
            visible--;
        }
        if (visible > a->cycle - 1 && !is_followed(c, a->unit)) {
            return fail(c, at, "reads a register whose write is still in flight", &word->inst);
        }
        if (a->cycle > 1 && left(w, w->late[a->unit]) < a->cycle - 1) {
            w->late[a->unit] = w->now + a->cycle - 1;
            in_flight(&w->f, a->unit);
        }
    }
    return ST_OK;
}

static enum status check_defs(struct check * c, int at, const struct check_word * word) {
    struct walk * w = &c->walk;
    for (int i = word->defs; i < word->end; i++) {
        const struct check_access * a = &c->code.accesses[i];
        int older = left(w, w->lands[a->unit]);
        bool followed = is_followed(c, a->unit);
        if (!followed && older >= a->cycle) {
            return fail(c, at, "its result lands with or before an older one", &word->inst);
        }
        // A read in the cycle before it lands still sees the old value. Late reads of this very
        // bundle count too (they are in the walk); those at issue left no mark.
        if (!followed && left(w, w->late[a->unit]) >= a->cycle) {
            return fail(c, at, "its result lands before a late read of the old value", &word->inst);
        }
        if (older < a->cycle) { // behind the loop the last one counts
            w->lands[a->unit] = w->now + a->cycle;
            w->bypass[a->unit] = a->bypass;
            in_flight(&w->f, a->unit);
        }
        if (a->port != CHECK_NO_PORT) {
            uint32_t * port = &w->ports[(w->now + a->cycle) % LANDINGS];
            uint32_t bit = 1u << a->port;
            if (*port & bit) {
                return fail(c, at, "two results land on one write port in the same cycle",
                            &word->inst);
            }
            *port |= bit;
        }
        if (a->is_loop) {
            w->f.since_loop = w->f.bytes_since_loop = 0;
        }
    }
    return ST_OK;
}

// ---- one bundle ----

// How long ago what is counted was, when a bundle issues.
struct since {
    uint8_t memory, lock, loop, loop_bytes;
};

static enum status check_distances(struct check * c, int at, struct since since,
                                   const struct check_word * word) {
    struct flight * f = &c->walk.f;
    if (word->locks && since.memory < c->target->lock_distance) {
        return fail(c, at, "a lock operation too near behind memory traffic", &word->inst);
    }
    if (word->memory && since.lock < c->target->lock_distance) {
        return fail(c, at, "memory traffic too near behind a lock operation", &word->inst);
    }
    if (word->stores && !c->target->loop_end_stores && c->loop_start[at] >= 0) {
        return fail(c, at, "a store in the last bundle of a loop", &word->inst);
    }
    if (word->branches && c->loop_start[at] >= 0) {
        return fail(c, at, "a branch in the last bundle of a loop", &word->inst);
    }
    f->since_memory = word->memory ? 0 : f->since_memory;
    f->since_lock = word->locks ? 0 : f->since_lock;
    return ST_OK;
}

static void tick(struct walk * w, int size) {
    if (w->f.since_loop > 0) {
        int bytes = w->f.bytes_since_loop + size;
        w->f.bytes_since_loop = (uint8_t) (bytes < FAR_BYTES ? bytes : FAR_BYTES);
    }
    w->ports[w->now++ % LANDINGS] = 0;
    w->f.since_memory += w->f.since_memory < FAR;
    w->f.since_lock += w->f.since_lock < FAR;
    w->f.since_loop += w->f.since_loop < FAR;
}

// ---- where paths meet ----

static bool lessen(uint8_t * a, uint8_t b) {
    bool less = b < *a;
    *a = less ? b : *a;
    return less;
}

// Worsens what is known of a unit by what the walk has; true where it changed.
static bool meet_unit(struct state * s, struct walk * w, int unit) {
    uint8_t lands = (uint8_t) left(w, w->lands[unit]), late = (uint8_t) left(w, w->late[unit]);
    bool changed = lands > s->lands[unit] || late > s->late[unit];
    if (!lands && !late) {
        w->f.units[unit / 64] &= ~(1ull << unit % 64); // it is over
        return false;
    }
    if (lands > s->lands[unit]) {
        s->lands[unit] = lands;
        s->bypass[unit] = w->bypass[unit];
    } else if (lands && lands == s->lands[unit] && s->bypass[unit] != w->bypass[unit] &&
               s->bypass[unit] != AIE_BYPASS_NONE) {
        s->bypass[unit] = AIE_BYPASS_NONE; // it helps only if it is there on every path
        changed = true;
    }
    s->late[unit] = late > s->late[unit] ? late : s->late[unit];
    in_flight(&s->f, unit);
    return changed;
}

static bool meet(struct state * s, struct walk * w) {
    bool changed = false;
    for (int word = 0; word < WORDS; word++) {
        for (uint64_t units = w->f.units[word]; units; units &= units - 1) {
            changed |= meet_unit(s, w, 64 * word + __builtin_ctzll(units));
        }
    }
    for (uint32_t n = 0; n < LANDINGS; n++) {
        uint32_t old = s->ports[n];
        s->ports[n] |= w->ports[(w->now + n) % LANDINGS];
        changed |= s->ports[n] != old;
    }
    changed |= lessen(&s->f.since_memory, w->f.since_memory);
    changed |= lessen(&s->f.since_lock, w->f.since_lock);
    changed |= lessen(&s->f.since_loop, w->f.since_loop);
    changed |= lessen(&s->f.bytes_since_loop, w->f.bytes_since_loop);
    return changed;
}

static void enqueue(struct check * c, int leader) {
    if (!c->queued[leader]) {
        c->queued[leader] = 1;
        c->queue[c->n_queue++] = leader;
    }
}

// To a leader.
static void flow(struct check * c, int to) {
    struct state * s = &c->states[c->leaders[to]];
    bool changed = !s->known;
    if (!s->known) { // the best that can be
        s->known = true;
        s->f = (struct flight){.since_memory = FAR,
                               .since_lock = FAR,
                               .since_loop = FAR,
                               .bytes_since_loop = FAR_BYTES};
    }
    changed |= meet(s, &c->walk);
    if (changed) {
        enqueue(c, to);
    }
}

// Somebody got to a branch. Who was in its delay slots before did not know of it.
static void reach_branch(struct check * c, int at) {
    for (int d = 1; d <= c->target->delay_slots && at + d < c->code.n; d++) {
        int leader = c->leaders[at + d];
        if (leader >= 0 && c->states[leader].walked) {
            enqueue(c, at + d);
        }
    }
}

// From a leader on.
static void begin_at(struct walk * w, const struct state * s) {
    w->now += 256; // all that was in flight is over
    w->f = s->f;
    for (int word = 0; word < WORDS; word++) {
        for (uint64_t units = s->f.units[word]; units; units &= units - 1) {
            int unit = 64 * word + __builtin_ctzll(units);
            w->lands[unit] = w->now + s->lands[unit];
            w->late[unit] = w->now + s->late[unit];
            w->bypass[unit] = s->bypass[unit];
        }
    }
    for (uint32_t n = 0; n < LANDINGS; n++) {
        w->ports[(w->now + n) % LANDINGS] = s->ports[n];
    }
}

// The branch in a bundle, or NULL. A target is its last explicit immediate operand.
static const struct check_word * branch_in(const struct check * c, int at) {
    int word = c->code.bundles[at].branch;
    return word >= 0 ? &c->code.words[word] : NULL;
}

// Value that the instruction puts into the given register as a 32-bit immediate, or -1.
static int32_t long_move(const struct check_word * w, aie_reg to) {
    bool moves = w->instr->n_explicit == 2 && (w->instr->operands[0].role & AIE_DEF);
    return moves && w->inst.values[0] == to ? w->inst.values[1] : -1;
}

// A jump through a pointer may go wherever the program ever points that pointer to.
static enum status flow_indirect(struct check * c, int at, const struct check_word * jump) {
    int slots = c->target->delay_slots;
    bool any = false;
    for (int i = 0; i < c->code.n_longs; i++) {
        const struct check_word * move = check_long_in(&c->code, c->code.longs[i]);
        int target = check_target_at(&c->code, long_move(move, (aie_reg) jump->inst.values[0]));
        if (target >= 0) {
            flow(c, target);
            any = true;
        }
    }
    return any ? ST_OK : fail(c, at - slots, "this branch cannot be followed", &jump->inst);
}

// The bundle to which control goes from a bundle; *falls: to the one behind it, which is left to
// the caller.
static enum status successors(struct check * c, int at, bool * falls) {
    int slots = c->target->delay_slots;
    if (c->loop_start[at] >= 0) {
        flow(c, c->loop_start[at]);
    }
    const struct check_word * jump = at >= slots ? branch_in(c, at - slots) : NULL;
    if (jump && c->reached[at - slots]) {
        const struct aie_instr * instr = jump->instr;
        int last = instr->n_explicit - 1;
        if (last == 0 && AIE_REG_KIND(jump->inst.values[0]) == AIE_P &&
            !instr->operands[0].is_imm) {
            return flow_indirect(c, at, jump);
        }
        if (last < 0 || !instr->operands[last].is_imm) {
            return fail(c, at - slots, "this branch cannot be followed", &jump->inst);
        }
        int target = check_target_at(&c->code, jump->inst.values[last]);
        if (target < 0) {
            return fail(c, at - slots, "branches outside the program, or to no aligned bundle",
                        &jump->inst);
        }
        flow(c, target);
        if (last == 0) {
            return ST_OK; // unconditional
        }
    }
    if (at + 1 >= c->code.n) {
        return fail_bundle(c, at, "runs off the end of the program");
    }
    *falls = true;
    return ST_OK;
}

// The rules for the last bundle of a loop, and for branches.
static enum status check_place(struct check * c, int at, struct since since) {
    const struct check_bundle * b = &c->code.bundles[at];
    if (c->loop_start[at] >= 0 &&
        (since.loop < c->target->loop_distance || since.loop_bytes < c->target->loop_bytes)) {
        return fail_bundle(c, at,
                           "a loop register was written too near before the end of the loop");
    }
    if (c->loop_start[at] >= 0 && b->size != c->target->bundle_bytes) {
        return fail_bundle(c, at, "the last bundle of a loop is not a full one");
    }
    const struct check_word * jump = branch_in(c, at);
    for (int d = 1; jump && d <= c->target->delay_slots && at >= d; d++) {
        if (branch_in(c, at - d) && c->reached[at - d]) {
            return fail(c, at, "a branch in the delay slots of another", &jump->inst);
        }
    }
    return ST_OK;
}

static enum status visit(struct check * c, int at, bool * falls) {
    const struct flight * f = &c->walk.f;
    const struct since since = {f->since_memory, f->since_lock, f->since_loop, f->bytes_since_loop};
    const struct check_bundle * b = &c->code.bundles[at];
    enum status st = ST_OK;
    if (b->branch >= 0 && !c->reached[at]) {
        reach_branch(c, at);
    }
    c->reached[at] = 1;
    for (int k = 0; k < b->n && st == ST_OK; k++) { // all reads of a bundle come before its writes
        st = check_uses(c, at, &c->code.words[b->words[k]]);
    }
    for (int k = 0; k < b->n && st == ST_OK; k++) {
        st = check_defs(c, at, &c->code.words[b->words[k]]);
    }
    for (int k = 0; k < b->n && b->apart && st == ST_OK; k++) {
        st = check_distances(c, at, since, &c->code.words[b->words[k]]);
    }
    if (st == ST_OK && (c->loop_start[at] >= 0 || b->branch >= 0)) {
        st = check_place(c, at, since);
    }
    if (st != ST_OK) {
        return st;
    }
    tick(&c->walk, b->size);
    return successors(c, at, falls);
}

// From a leader on until the next one, or where it is as it was the last time.
static enum status visit_all(struct check * c, int at) {
    struct state * s = &c->states[c->leaders[at]];
    int end = s->walked && at + FORGOTTEN < c->code.n ? at + FORGOTTEN : c->code.n;
    bool falls = true;
    enum status st = ST_OK;
    s->walked = true;
    begin_at(&c->walk, s);
    for (; st == ST_OK && falls && at < end; at++) {
        falls = false;
        c->flow = flow_at(c, at);
        st = visit(c, at, &falls);
        if (st == ST_OK && falls && c->leaders[at + 1] >= 0) {
            flow(c, at + 1);
            falls = false;
        }
    }
    return st;
}

// Pairs each write of LS with the next write of LE in program order.
static enum status find_loops(struct check * c) {
    int start = -1;
    memset(c->loop_start, -1, (size_t) c->code.n * sizeof *c->loop_start);
    for (int k = 0; k < c->code.n_longs; k++) {
        const struct check_word * w = check_long_in(&c->code, c->code.longs[k]);
        int32_t first = long_move(w, AIE_REG(AIE_SPC, AIE_SPC_LS));
        int32_t last = long_move(w, AIE_REG(AIE_SPC, AIE_SPC_LE));
        int to_first = check_target_at(&c->code, first), to_last = check_target_at(&c->code, last);
        if ((first >= 0 && to_first < 0) || (last >= 0 && to_last < 0)) {
            return fail(c, c->code.longs[k], "a loop that begins or ends at no aligned bundle",
                        &w->inst);
        }
        if (first >= 0) {
            start = to_first;
        } else if (last >= 0 && start >= 0 && start <= to_last) {
            c->loop_start[to_last] = start;
        }
    }
    return ST_OK;
}

// The first bundle, and all that a long immediate names: targets, loop starts, pointers to code. A
// bundle that another number happens to name is one too, which does no harm.
static int find_leaders(struct check * c) {
    int n = 1;
    memset(c->leaders, -1, (size_t) c->code.n * sizeof *c->leaders);
    c->leaders[0] = 0;
    for (int i = 0; i < c->code.n_longs; i++) {
        const struct check_word * w = check_long_in(&c->code, c->code.longs[i]);
        for (int k = 0; k < w->instr->n_explicit; k++) {
            int target =
                w->instr->operands[k].is_imm ? check_target_at(&c->code, w->inst.values[k]) : -1;
            if (target >= 0 && c->leaders[target] < 0) {
                c->leaders[target] = n++;
            }
        }
    }
    return n;
}

static bool allocate(struct check * c) {
    size_t n = (size_t) c->code.n;
    c->reached = calloc(n, 1);
    c->leaders = malloc(n * sizeof *c->leaders);
    if (c->leaders) {
        c->states = calloc((size_t) find_leaders(c), sizeof *c->states);
    }
    c->loop_start = malloc(n * sizeof *c->loop_start);
    c->queued = calloc(n, 1);
    c->queue = malloc(n * sizeof *c->queue);
    return c->reached && c->leaders && c->states && c->loop_start && c->queued && c->queue;
}

// The first of the program: most of what leads to it has been visited by then.
static int take_first(struct check * c) {
    int first = 0;
    for (int i = 1; i < c->n_queue; i++) {
        first = c->queue[i] < c->queue[first] ? i : first;
    }
    int at = c->queue[first];
    c->queue[first] = c->queue[--c->n_queue];
    c->queued[at] = 0;
    return at;
}

static enum status check(struct check * c) {
    if (!allocate(c)) {
        return error_set(c->err, ST_NO_MEMORY, "check: out of memory");
    }
    enum status st = find_loops(c);
    if (st == ST_OK) {
        c->walk.f = (struct flight){.since_memory = FAR,
                                    .since_lock = FAR,
                                    .since_loop = FAR,
                                    .bytes_since_loop = FAR_BYTES};
        flow(c, 0);
    }
    while (st == ST_OK && c->n_queue > 0) {
        st = visit_all(c, take_first(c));
    }
    for (int i = 0; i < c->n_flows && st == ST_OK; i++) {
        st = check_flow(&c->code, c->flows[i], c->err);
    }
    return st;
}

enum status asm_check(enum aie_arch arch, const uint8_t * bytes, size_t size, struct error * err) {
    return asm_check_flows(arch, bytes, size, NULL, 0, err);
}

enum status asm_check_flows(enum aie_arch arch, const uint8_t * bytes, size_t size,
                            const struct asm_flow ** flows, int n, struct error * err) {
    const struct aie_target * target = aie_target(arch);
    if (size == 0 || size % (size_t) target->bundle_bytes) {
        return error_set(err, ST_INVALID, "check: %zu bytes are no program: it ends aligned to %d",
                         size, target->bundle_bytes);
    }
    struct check c = {.target = target, .flows = flows, .n_flows = n, .err = err};
    enum status st = check_read(&c.code, arch, bytes, size, err);
    st = st == ST_OK ? check(&c) : st;
    check_free(&c.code);
    free(c.reached);
    free(c.leaders);
    free(c.states);
    free(c.loop_start);
    free(c.queued);
    free(c.queue);
    return st;
}
