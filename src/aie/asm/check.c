// asm/check: proves from the bytes alone that a program respects the exposed pipeline. It follows
// every path (branches with their delay slots, loop back edges) and carries, for each register
// unit, how long until a write lands and how long until a late read happens; where paths meet, the
// worst of both counts. Values only grow and are bounded, so the walk ends.
#include "asm.h"

#include <stdlib.h>
#include <string.h>

enum {
    FAR = 32, // "long ago"
    FAR_BYTES = 128,
    FILES = AIE_FILE_COUNT,
    LANDINGS = 16,                           // more than any result takes
    UNITS = (AIE_UNIT_COUNT + 63) / 64 * 64, // a round number: compilers make vectors of it
};

struct state {                // at the issue of one bundle
    uint16_t now;             // cycles since the leader that it was got to from; 0 at a leader
    uint16_t lands[UNITS];    // the cycle from which the pending write is visible; until now = none
    uint16_t bypass[UNITS];   // enum aie_bypass of that write
    uint16_t late[UNITS];     // the cycle of a pending late read; until now = none
    uint32_t ports[LANDINGS]; // by cycle modulo LANDINGS: bit per slot and file in which one lands
    uint8_t since_memory, since_lock, since_loop;
    bool marked;              // old values are read knowingly
    uint8_t bytes_since_loop; // behind the bundle with the write
    bool known;               // of a leader: somebody got there
};

struct access;

struct check {
    const struct aie_target * target;
    const struct aie_isa * isa;
    int n;
    struct aie_bundle * bundles;
    int * pcs;     // of the bundles, in bytes
    int * indices; // of the bundle at a pc, by pc / 2; -1 = none begins there
    int n_indices;
    struct access * accesses;
    int n_accesses, cap_accesses;
    int * longs; // bundles with a long instruction: what immediates that name code are in
    int n_longs;
    int *uses, *defs; // of a bundle: those from the one to the other, and on to the next one's
    bool no_memory;
    uint8_t * branches; // slot of each bundle's branch, AIE_SLOT_COUNT = none
    uint8_t * reached;  // somebody got to this bundle
    int * leaders;      // bundles that are got to other than from the one before: index of their
                        // state, else -1
    struct state * states;
    int * loop_start; // of the loop whose last bundle this is, -1 = none
    uint8_t * queued;
    int * queue;
    int n_queue;
    struct error * err;
};

// The bundle that begins at an address which is aligned as a target has to be, -1 if none does.
static int target_at(const struct check * c, int32_t pc) {
    return pc >= 0 && pc % c->target->bundle_bytes == 0 && pc / 2 < c->n_indices
               ? c->indices[pc / 2]
               : -1;
}

static enum status fail(struct check * c, int at, const char * what, const struct aie_inst * inst) {
    struct buf text = {0};
    aie_inst_print(c->isa, inst, &text);
    enum status st = error_set(c->err, ST_INVALID, "check: pc 0x%x: %s: %s", c->pcs[at],
                               text.data ? (const char *) text.data : "?", what);
    buf_free(&text);
    return st;
}

static enum status fail_bundle(struct check * c, int at, const char * what) {
    int slot = __builtin_ctz(c->bundles[at].present | 1u << AIE_SLOT_NOP);
    return fail(c, at, what, &c->bundles[at].slot[slot]);
}

// ---- what a bundle reads and writes ----

enum { NO_PORT = 0xff };

// A unit that an instruction reads or writes. Bundles are visited several times, and so this is
// listed once.
struct access {
    uint8_t slot;
    uint8_t unit;
    uint8_t cycle;  // in which it is read, or from which it is there
    uint8_t bypass; // enum aie_bypass
    uint8_t port;   // enum aie_file of the write port, of the first unit of a result; else NO_PORT
    bool is_loop;   // a register of loops
};

// Room for what one bundle reads and writes, at most.
static bool has_room(struct check * c) {
    enum { MOST = AIE_SLOT_COUNT * AIE_MAX_OPERANDS * 8 };
    if (c->n_accesses + MOST > c->cap_accesses) {
        int cap = 2 * c->cap_accesses + 16 * c->n + MOST;
        struct access * more = realloc(c->accesses, (size_t) cap * sizeof *more);
        if (!more) {
            c->no_memory = true;
            return false;
        }
        c->accesses = more;
        c->cap_accesses = cap;
    }
    return true;
}

static bool is_loop_register(aie_reg reg) {
    return AIE_REG_KIND(reg) == AIE_SPC &&
           (AIE_REG_NUM(reg) == AIE_SPC_LS || AIE_REG_NUM(reg) == AIE_SPC_LE ||
            AIE_REG_NUM(reg) == AIE_SPC_LC);
}

static void list_inst(struct check * c, const struct aie_inst * inst, int slot, int role) {
    const struct aie_instr * instr = aie_isa_instr(c->isa, inst->op);
    for (int k = 0; k < instr->n_operands; k++) {
        const struct aie_operand * o = &instr->operands[k];
        aie_reg reg = o->role & role ? aie_inst_reg(instr, inst, k) : 0;
        if (!reg || AIE_REG_KIND(reg) == AIE_SR) {
            continue;
        }
        bool is_def = role == AIE_DEF;
        bool pointer_update = AIE_REG_KIND(reg) == AIE_P && (o->role & AIE_USE);
        bool has_port = is_def && k < instr->n_explicit && !pointer_update;
        uint8_t units[8];
        int n = aie_reg_units(reg, units);
        struct access a = {
            .slot = (uint8_t) slot,
            .cycle = is_def ? o->def_cycle : o->use_cycle,
            .bypass = (uint8_t) aie_bypass_of(is_def ? o->def_bypass : o->use_bypass, reg),
            .port = n && has_port ? (uint8_t) aie_target_file(c->target, units[0]) : NO_PORT,
            .is_loop = is_def && is_loop_register(reg)};
        for (int u = 0; u < n; u++) {
            a.unit = units[u];
            c->accesses[c->n_accesses++] = a;
            a.port = NO_PORT;
        }
    }
}

static bool list_all(struct check * c) {
    for (int at = 0; at < c->n && has_room(c); at++) {
        const struct aie_bundle * b = &c->bundles[at];
        for (int pass = 0; pass < 2; pass++) {
            *(pass ? &c->defs[at] : &c->uses[at]) = c->n_accesses;
            for (unsigned left = b->present; left; left &= left - 1) {
                int s = __builtin_ctz(left);
                list_inst(c, &b->slot[s], s, pass ? AIE_DEF : AIE_USE);
            }
        }
    }
    c->uses[c->n] = c->n_accesses;
    return !c->no_memory;
}

static bool is_scalar(const struct check * c, int unit) {
    return aie_target_file(c->target, unit) == AIE_FILE_SCALAR;
}

// Cycles until then.
static int left(const struct state * s, int cycle) {
    return cycle > s->now ? cycle - s->now : 0;
}

static enum status check_uses(struct check * c, int at, struct state * next) {
    for (const struct access *a = &c->accesses[c->uses[at]], *end = &c->accesses[c->defs[at]];
         a < end; a++) {
        int visible = left(next, next->lands[a->unit]);
        if (a->bypass != AIE_BYPASS_NONE && next->bypass[a->unit] == a->bypass && visible) {
            visible--;
        }
        if (visible > a->cycle - 1 && !(next->marked && !is_scalar(c, a->unit))) {
            return fail(c, at, "reads a register whose write is still in flight",
                        &c->bundles[at].slot[a->slot]);
        }
        if (a->cycle > 1 && left(next, next->late[a->unit]) < a->cycle - 1) {
            next->late[a->unit] = (uint16_t) (next->now + a->cycle - 1);
        }
    }
    return ST_OK;
}

static enum status check_defs(struct check * c, int at, struct state * next) {
    for (const struct access *a = &c->accesses[c->defs[at]], *end = &c->accesses[c->uses[at + 1]];
         a < end; a++) {
        const struct aie_inst * inst = &c->bundles[at].slot[a->slot];
        // one that is over before the older one lands is knowingly so: that is what is waited for
        int older = left(next, next->lands[a->unit]);
        bool over = next->marked && older > a->cycle && !is_scalar(c, a->unit);
        if (!over && older >= a->cycle) {
            return fail(c, at, "its result lands with or before an older one", inst);
        }
        // A read in the cycle before it lands still sees the old value. Late reads of this very
        // bundle count too (they are in next); those at issue left no mark.
        if (!over && left(next, next->late[a->unit]) >= a->cycle) {
            return fail(c, at, "its result lands before a late read of the old value", inst);
        }
        if (!over) {
            next->lands[a->unit] = (uint16_t) (next->now + a->cycle);
            next->bypass[a->unit] = a->bypass;
        }
        if (a->port != NO_PORT) {
            uint32_t * port = &next->ports[(next->now + a->cycle) % LANDINGS];
            uint32_t bit = 1u << (a->slot * FILES + a->port);
            if (*port & bit) {
                return fail(c, at, "two results land on one write port in the same cycle", inst);
            }
            *port |= bit;
        }
        if (a->is_loop) {
            next->since_loop = next->bytes_since_loop = 0;
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
                                   struct state * next, const struct aie_inst * inst) {
    const struct aie_instr * instr = aie_isa_instr(c->isa, inst->op);
    bool memory = instr->loads || instr->stores;
    if (instr->locks && since.memory < c->target->lock_distance) {
        return fail(c, at, "a lock operation too near behind memory traffic", inst);
    }
    if (memory && since.lock < c->target->lock_distance) {
        return fail(c, at, "memory traffic too near behind a lock operation", inst);
    }
    if (instr->stores && !c->target->loop_end_stores && c->loop_start[at] >= 0) {
        return fail(c, at, "a store in the last bundle of a loop", inst);
    }
    if (instr->branches && c->loop_start[at] >= 0) {
        return fail(c, at, "a branch in the last bundle of a loop", inst);
    }
    next->since_memory = memory ? 0 : next->since_memory;
    next->since_lock = instr->locks ? 0 : next->since_lock;
    if (c->target->basic[AIE_BASIC_MARK_END]) {
        next->marked |= inst->op == c->target->basic[AIE_BASIC_MARK];
        next->marked &= inst->op != c->target->basic[AIE_BASIC_MARK_END];
    }
    return ST_OK;
}

static void tick(struct state * s, int size) {
    if (s->since_loop > 0) {
        int bytes = s->bytes_since_loop + size;
        s->bytes_since_loop = (uint8_t) (bytes < FAR_BYTES ? bytes : FAR_BYTES);
    }
    s->ports[s->now++ % LANDINGS] = 0;
    s->since_memory += s->since_memory < FAR;
    s->since_lock += s->since_lock < FAR;
    s->since_loop += s->since_loop < FAR;
}

static uint8_t lesser(uint8_t a, uint8_t b) {
    return a < b ? a : b;
}

// Of each unit the worse, branch-free and over all that there are: compilers make vectors of it.
static void meet(struct state * s, const struct state * from) {
    const uint16_t now = from->now;
    for (int u = 0; u < UNITS; u++) {
        uint16_t lands = from->lands[u] > now ? (uint16_t) (from->lands[u] - now) : 0;
        uint16_t old = s->lands[u];
        // a bypass helps only if it is there on every path
        uint16_t both = s->bypass[u] == from->bypass[u] ? s->bypass[u] : AIE_BYPASS_NONE;
        uint16_t less = lands < old ? s->bypass[u] : both;
        s->bypass[u] = lands > old ? from->bypass[u] : less;
        s->lands[u] = lands > old ? lands : old;
    }
    for (int u = 0; u < UNITS; u++) {
        uint16_t late = from->late[u] > now ? (uint16_t) (from->late[u] - now) : 0;
        s->late[u] = late > s->late[u] ? late : s->late[u];
    }
    for (int n = 0; n < LANDINGS; n++) {
        s->ports[n] |= from->ports[(now + n) % LANDINGS];
    }
    s->marked &= from->marked;
    s->since_memory = lesser(s->since_memory, from->since_memory);
    s->since_lock = lesser(s->since_lock, from->since_lock);
    s->since_loop = lesser(s->since_loop, from->since_loop);
    s->bytes_since_loop = lesser(s->bytes_since_loop, from->bytes_since_loop);
}

// To a leader: where paths meet.
static void flow(struct check * c, const struct state * from, int to) {
    struct state * s = &c->states[c->leaders[to]];
    struct state before = *s;
    if (!s->known) { // the best that can be
        s->known = s->marked = true;
        s->since_memory = s->since_lock = s->since_loop = FAR;
        s->bytes_since_loop = FAR_BYTES;
        for (int u = 0; u < UNITS; u++) {
            s->bypass[u] = from->bypass[u];
        }
    }
    meet(s, from);
    bool changed = memcmp(&before, s, sizeof before) != 0;
    if (changed && !c->queued[to]) {
        c->queued[to] = 1;
        c->queue[c->n_queue++] = to;
    }
}

// The branch in a bundle, or NULL. A target is its last explicit immediate operand.
static const struct aie_inst * branch_in(const struct check * c, int at) {
    return c->branches[at] < AIE_SLOT_COUNT ? &c->bundles[at].slot[c->branches[at]] : NULL;
}

static uint8_t find_branch(const struct check * c, int at) {
    const struct aie_bundle * b = &c->bundles[at];
    for (unsigned left = b->present; left; left &= left - 1) {
        int s = __builtin_ctz(left);
        if (aie_isa_instr(c->isa, b->slot[s].op)->branches) {
            return (uint8_t) s;
        }
    }
    return AIE_SLOT_COUNT;
}

// Value that the bundle, one of `longs`, puts into the given register as a 32-bit immediate, or -1.
static int32_t long_move(const struct check * c, int at, aie_reg to) {
    const struct aie_inst * inst = &c->bundles[at].slot[AIE_SLOT_LNG];
    const struct aie_instr * instr = aie_isa_instr(c->isa, inst->op);
    bool moves = instr->n_explicit == 2 && (instr->operands[0].role & AIE_DEF);
    return moves && inst->values[0] == to ? inst->values[1] : -1;
}

// A jump through a pointer may go wherever the program ever points that pointer to.
static enum status flow_indirect(struct check * c, int at, const struct state * next,
                                 const struct aie_inst * jump) {
    int slots = c->target->delay_slots;
    bool any = false;
    for (int i = 0; i < c->n_longs; i++) {
        int target = target_at(c, long_move(c, c->longs[i], (aie_reg) jump->values[0]));
        if (target >= 0) {
            flow(c, next, target);
            any = true;
        }
    }
    return any ? ST_OK : fail(c, at - slots, "this branch cannot be followed", jump);
}

// Where it goes from a bundle; *falls: to the one behind it, which is left to the caller.
static enum status successors(struct check * c, int at, const struct state * next, bool * falls) {
    int slots = c->target->delay_slots;
    if (c->loop_start[at] >= 0) {
        flow(c, next, c->loop_start[at]);
    }
    const struct aie_inst * jump = at >= slots ? branch_in(c, at - slots) : NULL;
    if (jump && c->reached[at - slots]) {
        const struct aie_instr * instr = aie_isa_instr(c->isa, jump->op);
        int last = instr->n_explicit - 1;
        if (last == 0 && AIE_REG_KIND(jump->values[0]) == AIE_P && !instr->operands[0].is_imm) {
            return flow_indirect(c, at, next, jump);
        }
        if (last < 0 || !instr->operands[last].is_imm) {
            return fail(c, at - slots, "this branch cannot be followed", jump);
        }
        int target = target_at(c, jump->values[last]);
        if (target < 0) {
            return fail(c, at - slots, "branches outside the program, or to no aligned bundle",
                        jump);
        }
        flow(c, next, target);
        if (last == 0) {
            return ST_OK; // unconditional
        }
    }
    if (at + 1 >= c->n) {
        return fail_bundle(c, at, "runs off the end of the program");
    }
    *falls = true;
    return ST_OK;
}

static enum status visit(struct check * c, int at, struct state * next, bool * falls) {
    const struct since since = {next->since_memory, next->since_lock, next->since_loop,
                                next->bytes_since_loop};
    c->reached[at] = 1;
    const struct aie_bundle * b = &c->bundles[at];
    enum status st = check_uses(c, at, next); // all reads of a bundle come before its writes
    st = st == ST_OK ? check_defs(c, at, next) : st;
    for (unsigned left = b->present; left && st == ST_OK; left &= left - 1) {
        st = check_distances(c, at, since, next, &b->slot[__builtin_ctz(left)]);
    }
    if (st == ST_OK && c->loop_start[at] >= 0 &&
        (since.loop < c->target->loop_distance || since.loop_bytes < c->target->loop_bytes)) {
        st = fail_bundle(c, at, "a loop register was written too near before the end of the loop");
    }
    if (st == ST_OK && c->loop_start[at] >= 0 && b->size != c->target->bundle_bytes) {
        st = fail_bundle(c, at, "the last bundle of a loop is not a full one");
    }
    const struct aie_inst * jump = branch_in(c, at);
    for (int d = 1; st == ST_OK && jump && d <= c->target->delay_slots && at >= d; d++) {
        if (branch_in(c, at - d) && c->reached[at - d]) {
            st = fail(c, at, "a branch in the delay slots of another", jump);
        }
    }
    if (st != ST_OK) {
        return st;
    }
    tick(next, b->size);
    return successors(c, at, next, falls);
}

// From a leader on until the next one.
static enum status visit_all(struct check * c, int at) {
    struct state state = c->states[c->leaders[at]];
    bool falls = true;
    enum status st = ST_OK;
    for (; st == ST_OK && falls; at++) {
        falls = false;
        st = visit(c, at, &state, &falls);
        if (st == ST_OK && falls && c->leaders[at + 1] >= 0) {
            flow(c, &state, at + 1);
            falls = false;
        }
    }
    return st;
}

// Pairs each write of LS with the next write of LE in program order.
static enum status find_loops(struct check * c) {
    int start = -1;
    for (int i = 0; i < c->n; i++) {
        c->loop_start[i] = -1;
    }
    for (int k = 0; k < c->n_longs; k++) {
        int i = c->longs[k];
        int32_t first = long_move(c, i, AIE_REG(AIE_SPC, AIE_SPC_LS));
        int32_t last = long_move(c, i, AIE_REG(AIE_SPC, AIE_SPC_LE));
        if ((first >= 0 && target_at(c, first) < 0) || (last >= 0 && target_at(c, last) < 0)) {
            return fail(c, i, "a loop that begins or ends at no aligned bundle",
                        &c->bundles[i].slot[AIE_SLOT_LNG]);
        }
        if (first >= 0) {
            start = target_at(c, first);
        } else if (last >= 0 && start >= 0 && start <= target_at(c, last)) {
            c->loop_start[target_at(c, last)] = start;
        }
    }
    return ST_OK;
}

// The first bundle, and all that a long immediate names: targets, loop starts, pointers to code. A
// bundle that another number happens to name is one too, which does no harm.
static int find_leaders(struct check * c) {
    int n = 1;
    for (int i = 0; i < c->n; i++) {
        c->leaders[i] = i ? -1 : 0;
        if (c->bundles[i].present >> AIE_SLOT_LNG & 1) {
            c->longs[c->n_longs++] = i;
        }
    }
    for (int i = 0; i < c->n_longs; i++) {
        const struct aie_inst * inst = &c->bundles[c->longs[i]].slot[AIE_SLOT_LNG];
        const struct aie_instr * instr = aie_isa_instr(c->isa, inst->op);
        for (int k = 0; k < instr->n_explicit; k++) {
            int target = instr->operands[k].is_imm ? target_at(c, inst->values[k]) : -1;
            if (target >= 0 && c->leaders[target] < 0) {
                c->leaders[target] = n++;
            }
        }
    }
    return n;
}

static bool allocate(struct check * c, size_t size) {
    size_t most = size / 2 + 1; // bundles
    c->n_indices = (int) most;
    c->bundles = malloc(most * sizeof *c->bundles);
    c->pcs = malloc(most * sizeof *c->pcs);
    c->indices = malloc(most * sizeof *c->indices);
    return c->bundles && c->pcs && c->indices;
}

static bool allocate_walk(struct check * c) {
    size_t n = (size_t) c->n;
    c->branches = calloc(n, 1);
    c->reached = calloc(n, 1);
    c->leaders = malloc(n * sizeof *c->leaders);
    c->longs = malloc(n * sizeof *c->longs);
    if (c->leaders && c->longs) {
        c->states = calloc((size_t) find_leaders(c), sizeof *c->states);
    }
    c->uses = malloc((n + 1) * sizeof *c->uses);
    c->defs = malloc(n * sizeof *c->defs);
    c->loop_start = calloc(n, sizeof *c->loop_start);
    c->queued = calloc(n, 1);
    c->queue = calloc(n, sizeof *c->queue);
    return c->branches && c->reached && c->leaders && c->states && c->loop_start && c->queued &&
           c->queue && c->uses && c->defs && list_all(c);
}

static enum status decode(struct check * c, const uint8_t * bytes, size_t size) {
    enum status st = ST_OK;
    for (size_t pc = 0; pc < (size_t) c->n_indices; pc++) {
        c->indices[pc] = -1;
    }
    for (size_t pc = 0; pc < size && st == ST_OK; pc += c->bundles[c->n++].size) {
        st = aie_bundle_decode(c->isa, bytes + pc, size - pc, &c->bundles[c->n], c->err);
        if (st != ST_OK) {
            return error_prefix(c->err, st, "check: pc 0x%zx", pc);
        }
        c->pcs[c->n] = (int) pc;
        c->indices[pc / 2] = c->n;
    }
    return st;
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

static enum status check(struct check * c, const uint8_t * bytes, size_t size) {
    if (!allocate(c, size)) {
        return error_set(c->err, ST_NO_MEMORY, "check: out of memory");
    }
    enum status st = decode(c, bytes, size);
    if (st == ST_OK && !allocate_walk(c)) {
        st = error_set(c->err, ST_NO_MEMORY, "check: out of memory");
    }
    for (int i = 0; i < c->n && st == ST_OK; i++) {
        c->branches[i] = find_branch(c, i);
    }
    if (st == ST_OK && (st = find_loops(c)) == ST_OK) {
        struct state entry = {.since_memory = FAR,
                              .since_lock = FAR,
                              .since_loop = FAR,
                              .bytes_since_loop = FAR_BYTES};
        flow(c, &entry, 0);
    }
    while (st == ST_OK && c->n_queue > 0) {
        st = visit_all(c, take_first(c));
    }
    return st;
}

enum status asm_check(enum aie_arch arch, const uint8_t * bytes, size_t size, struct error * err) {
    const struct aie_target * target = aie_target(arch);
    if (size == 0 || size % (size_t) target->bundle_bytes) {
        return error_set(err, ST_INVALID, "check: %zu bytes are no program: it ends aligned to %d",
                         size, target->bundle_bytes);
    }
    struct check c = {.target = target, .isa = aie_isa_get(arch), .err = err};
    enum status st = check(&c, bytes, size);
    free(c.bundles);
    free(c.pcs);
    free(c.indices);
    free(c.accesses);
    free(c.uses);
    free(c.defs);
    free(c.branches);
    free(c.reached);
    free(c.leaders);
    free(c.longs);
    free(c.states);
    free(c.loop_start);
    free(c.queued);
    free(c.queue);
    return st;
}
