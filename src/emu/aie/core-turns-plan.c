// core-turns-plan: which instructions of a hot loop may go the short way; see core-turns.h.
//
// Time is counted in points, SUB to a cycle: first those are executed that waited for late sources,
// then comes each instruction of the bundle in its turn, at last results land. (The turns are not
// those of core.c: what only looks at registers comes before the loads, so that these may write
// them. Nobody can tell.) An instruction touches vector registers at some points: it reads each
// source at one, and its results land at one. Going the short way moves all of them to the point at
// which it executes: its issue, or the time of its late sources. That is right when none of the
// others reads or writes there in between.
//
// Kept true: each decision holds for both ways of all others, so that any of them may still go the
// long way when the time has come. Therefore an access that may be moved counts from the first to
// the last point at which it could be.
#include "emu/aie/core-turns.h"

#include <stdlib.h>

enum { // points of a cycle
    LATE,
    MACS,                           // all of the bundle
    LANES,                          // others from registers to registers, each in its turn
    ISSUE = LANES + AIE_SLOT_COUNT, // the rest, loads first
    LANDING = ISSUE + AIE_SLOT_COUNT,
    SUB,
};

enum {
    MAX_BUNDLES = 320, // of a plan
    MIN_BUNDLES = 64,  // worth one: short loops have several turns in it
    MAX_TURNS = 16,
    TOUCHES = 8, // of an instruction, on the average and more
    LINE = 64,   // bytes; there are few enough lines of them for a bit each
};

_Static_assert((CORE_REG_BYTES - CORE_VECTORS) / LINE < 64, "a bit for each line");

// A vector register that is touched.
struct touch {
    int at;       // the point of the long way
    int from, to; // points between which it may be
    uint16_t offset, size;
    uint8_t unit, n_units; // of a write: where two must not land together
    uint8_t bypass;
    bool writes;
};

struct instance {
    const struct core_op * op;
    int cycle, issue; // and the point in it
    int first, n;     // of the touches
    uint64_t lines;   // of the register file, which they lie in: a bit for each
    uint64_t units;   // of the results
    int execute;      // point of the short way
    uint8_t kind;     // enum core_step_kind of the short way; STEP_ISSUE: there is none
};

struct plan {
    struct instance * list; // in the order of issue; those of the run before come first
    struct touch * touches;
    int n, n_touches, room;
    int cycles;
    int at[RING + MAX_BUNDLES + 1]; // first instance of a cycle, from -RING on
    bool written[CORE_WORDS];       // words that any instruction writes
    bool late_stores;
    bool failed;
};

// ---- what an instruction touches ----

static struct touch * add(struct plan * p, int point, uint16_t offset, uint16_t size) {
    static struct touch nowhere;
    if (p->n_touches == p->room) {
        p->failed = true;
        return &nowhere;
    }
    struct touch * t = &p->touches[p->n_touches++];
    *t = (struct touch){.at = point, .from = point, .to = point, .offset = offset, .size = size};
    return t;
}

static void add_source(struct plan * p, const struct instance * i, const struct core_in * in) {
    const struct core_op * op = i->op;
    int point = in->stage ? SUB * (i->cycle + op->stage_cycle[in->stage] - 1) : i->issue;
    struct core_piece one = {in->offset, in->size};
    const struct core_piece * pieces = in->gather ? &op->pieces[in->first_piece] : &one;
    for (int k = 0; k < (in->gather ? in->gather : 1); k++) {
        if (pieces[k].offset >= CORE_VECTORS) {
            struct touch * t = add(p, point, pieces[k].offset, pieces[k].size);
            t->bypass = in->bypass;
        }
    }
}

static void add_result(struct plan * p, const struct instance * i, const struct core_span * span,
                       int cycle) {
    if (span->offset < CORE_VECTORS) {
        for (int k = 0; k < span->size / 4; k++) {
            p->written[span->offset / 4 + k] = true;
        }
        return;
    }
    struct touch * t = add(p, SUB * (i->cycle + cycle - 1) + LANDING, span->offset, span->size);
    t->writes = true;
    t->unit = span->unit;
    t->n_units = span->n_units;
    t->bypass = span->bypass;
}

static void add_instance(struct plan * p, const struct core_op * op, int cycle, int index) {
    struct instance * i = &p->list[p->n++];
    *i = (struct instance){
        .op = op, .cycle = cycle, .issue = SUB * cycle + index, .first = p->n_touches};
    i->issue += op->mac.fn ? MACS - index : op->meaning->family == CORE_LANES ? LANES : ISSUE;
    for (int k = 0; k < op->n_in; k++) {
        add_source(p, i, &op->in[k]);
    }
    for (int k = 0; k < op->n_out; k++) {
        add_result(p, i, &op->out[k].span, op->out[k].cycle);
    }
    if (op->meaning->family == CORE_MEMORY && op->data.size) { // what its own functions go by
        if (op->is_load) {
            add_result(p, i, &op->data, op->latency ? op->latency : 1);
        } else if (op->data.offset >= CORE_VECTORS) {
            add(p, i->issue, op->data.offset, op->data.size);
        }
    }
    if (op->meaning->family == CORE_MEMORY) {
        p->written[op->ptr] |= op->addressing >= ADDR_POST_IMM;
    } else if (op->meaning->family == CORE_SCALAR) {
        p->written[op->d] = p->written[op->carry] = p->written[31] = true;
    }
    i->n = p->n_touches - i->first;
    for (int k = i->first; k < p->n_touches; k++) {
        const struct touch * t = &p->touches[k];
        int from = (t->offset - CORE_VECTORS) / LINE,
            to = (t->offset + t->size - 1 - CORE_VECTORS) / LINE;
        i->lines |= (UINT64_C(2) << to) - (UINT64_C(1) << from);
        i->units |= t->writes ? ((UINT64_C(1) << t->n_units) - 1) << (t->unit - CORE_WORDS) : 0;
    }
}

// ---- who may go the short way ----

// The result that is meant, which is due at `at`.
static const struct touch * result_of(const struct plan * p, const struct instance * i) {
    for (int k = i->first; k < i->first + i->n; k++) {
        if (p->touches[k].writes) {
            return &p->touches[k];
        }
    }
    return NULL;
}

static bool overlap(const struct touch * a, const struct touch * b) {
    return a->offset < b->offset + b->size && b->offset < a->offset + a->size;
}

// Whether t, of another instruction, would see that `result` is written between two points.
static bool disturbs(const struct touch * t, const struct touch * result, int from, int due) {
    if (t->writes) {
        bool same_units =
            t->unit < result->unit + result->n_units && result->unit < t->unit + t->n_units;
        return (overlap(t, result) || same_units) && t->from <= due && t->to >= from;
    }
    // One that the result reaches in the cycle before it is due, past the register.
    bool reached =
        t->bypass && t->bypass == result->bypass && t->at / SUB == due / SUB && t->from == t->to;
    return overlap(t, result) && t->from < due && t->to >= from && !reached;
}

// Whether a source may be another one when it is read at the point `execute`.
static bool changes(const struct touch * t, const struct touch * source, int execute) {
    int from = source->at, to = execute;
    if (execute < source->at) {
        from = execute;
        // one that lands in the next cycle is seen past the register
        to = source->at + (source->bypass && execute / SUB < source->at / SUB ? SUB : 0);
    }
    return from < to && t->to >= from && t->from <= to;
}

// Whether what instance i would do the short way is what it does the long way.
static bool holds(const struct plan * p, const struct instance * i) {
    const struct touch * result = result_of(p, i);
    int due = result ? result->at : -1, cycle = i->cycle + RING;
    if (i->execute > due || due > SUB * (p->cycles - 1) + LANDING) {
        return false;
    }
    int begin = p->at[cycle >= RING ? cycle - RING : 0];
    int end = p->at[cycle + RING < p->cycles + RING ? cycle + RING : p->cycles + RING];
    for (int j = begin; j < end; j++) {
        const struct instance * other = &p->list[j];
        if (!(other->lines & i->lines) && !(other->units & i->units)) {
            continue;
        }
        for (int k = other->first; other != i && k < other->first + other->n; k++) {
            const struct touch * t = &p->touches[k];
            if (disturbs(t, result, i->execute, due)) {
                return false;
            }
            for (int m = i->first; t->writes && m < i->first + i->n; m++) {
                if (i->kind != STEP_HELD && !p->touches[m].writes && overlap(&p->touches[m], t) &&
                    changes(t, &p->touches[m], i->execute)) {
                    return false;
                }
            }
        }
    }
    return true;
}

// The pointer may move on at once: nothing behind it in the bundle looks.
static bool pointer_free(const struct plan * p, const struct instance * i) {
    const struct core_op * op = i->op;
    int cycle = i->cycle + RING;
    for (int j = p->at[cycle]; j < p->at[cycle + 1]; j++) {
        const struct core_op * other = p->list[j].op;
        if (other == op) {
            continue;
        }
        bool memory = other->meaning->family == CORE_MEMORY;
        if ((memory && (other->ptr == op->ptr || other->mod == op->ptr)) ||
            (!memory && (other->a == op->ptr || other->b == op->ptr || other->d == op->ptr ||
                         other->ptr == op->ptr))) {
            return false;
        }
        for (int k = 0; k < other->n_in; k++) {
            if (other->in[k].offset == 4 * op->ptr) {
                return false;
            }
        }
    }
    // A result on its way to it is for the ring, which finds two that land together.
    for (int j = p->at[cycle > RING ? cycle - RING : 0]; j < p->at[cycle + 1]; j++) {
        const struct core_op * other = p->list[j].op;
        for (int k = 0; k < other->n_out; k++) {
            if (other != op && other->out[k].span.offset == 4 * op->ptr) {
                return false;
            }
        }
        if (other->meaning->family == CORE_SCALAR && other->d == op->ptr) {
            return false;
        }
    }
    return true;
}

static uint8_t load_kind(const struct plan * p, const struct instance * i) {
    const struct core_op * op = i->op;
    bool wide = op->bytes == 64, near = op->imm >= INT16_MIN && op->imm <= INT16_MAX;
    if (op->addressing == ADDR_IMM && near) {
        return wide ? STEP_LOAD_64 : STEP_LOAD_32;
    }
    if (op->addressing == ADDR_POST_IMM && near && pointer_free(p, i)) {
        return wide ? STEP_POST_64 : STEP_POST_32;
    }
    if (op->addressing == ADDR_POST_REG && pointer_free(p, i)) {
        return wide ? STEP_MOVE_64 : STEP_MOVE_32;
    }
    return wide ? STEP_WALK_64 : STEP_WALK_32;
}

static bool apart(const struct core_span * out, uint16_t offset, uint16_t size) {
    return out->offset >= offset + size || offset >= out->offset + out->size;
}

static bool mac_is_short(const struct plan * p, const struct core_op * op) {
    const struct core_span * out = &op->out[0].span;
    const struct core_in * acc = &op->mac.acc;
    return !acc->gather && apart(out, op->mac.x, op->mac.bytes) &&
           apart(out, op->mac.y, op->mac.bytes) &&
           (out->offset == acc->offset || apart(out, acc->offset, acc->size)) &&
           !p->written[op->mac.conf / 4];
}

// The next of the ways of a mac: at issue; late, with its sources where they lie; late, with copies
// of them. Each moves less than the one before. False: there is none but the long one.
static bool step_back(struct instance * i) {
    int late = SUB * (i->cycle + i->op->mac.delay) + LATE;
    if (i->kind != STEP_MAC) {
        return false;
    }
    i->kind = i->execute == late ? STEP_HELD : STEP_MAC;
    i->execute = late;
    return true;
}

// The short way that an instruction has, if it has one that holds.
static void propose(const struct plan * p, struct instance * i) {
    const struct core_op * op = i->op;
    if (op->lands && op->data.bypass == AIE_BYPASS_NONE) {
        i->execute = i->issue;
        i->kind = load_kind(p, i);
    } else if (op->mac.fn && mac_is_short(p, op)) {
        i->kind = STEP_MAC;
        i->execute = i->issue;
        while (!holds(p, i) && step_back(i)) {
        }
    } else if (op->issue == core_issue_single && op->out[0].span.offset >= CORE_VECTORS) {
        i->kind = STEP_SINGLE;
        i->execute = i->issue;
        for (int k = 0; k < op->n_in; k++) {
            if (!apart(&op->out[0].span, op->in[k].offset, op->in[k].size)) {
                i->kind = STEP_SINGLE_VIA;
            }
        }
    }
    i->kind = i->kind != STEP_ISSUE && holds(p, i) ? i->kind : (uint8_t) STEP_ISSUE;
}

// Its accesses may be moved from now on, or no longer.
static void set_moves(struct plan * p, struct instance * i, bool moves) {
    for (int k = i->first; k < i->first + i->n; k++) {
        struct touch * t = &p->touches[k];
        int point = moves && (t->writes || i->kind != STEP_HELD) ? i->execute : t->at;
        t->from = point < t->at ? point : t->at;
        t->to = point > t->at ? point : t->at;
    }
}

// Gives up what does not hold beside the others. One pass is enough: who gives up moves less, and
// what holds beside it then held beside it before. Loads and the like go first: of all, macs gain
// most.
static void settle(struct plan * p, bool macs) {
    for (int j = p->at[RING]; j < p->n; j++) {
        struct instance * i = &p->list[j];
        while (i->kind != STEP_ISSUE && (macs || !i->op->mac.fn) && !holds(p, i)) {
            i->kind = step_back(i) ? i->kind : (uint8_t) STEP_ISSUE;
            set_moves(p, i, i->kind != STEP_ISSUE);
        }
    }
}

static void decide(struct plan * p) {
    int begin = p->at[RING];
    for (int j = begin; j < p->n; j++) {
        propose(p, &p->list[j]);
    }
    for (int j = begin; j < p->n; j++) {
        set_moves(p, &p->list[j], p->list[j].kind != STEP_ISSUE);
    }
    settle(p, false);
    settle(p, true);
}

// ---- steps ----

static struct core_step step_of(const struct instance * i) {
    const struct core_op * op = i->op;
    struct core_step s = {.kind = i->kind, .op = op};
    switch (i->kind) {
    case STEP_ISSUE:
        break;
    case STEP_MAC:
    case STEP_HELD:
        s.to = op->out[0].span.offset;
        s.x = op->mac.x;
        s.y = op->mac.y;
        s.conf = op->mac.conf;
        s.acc = op->mac.acc.offset;
        s.ago = (uint8_t) (i->execute / SUB - i->cycle);
        s.mac = op->mac.fn;
        break;
    case STEP_SINGLE:
    case STEP_SINGLE_VIA:
        s.to = op->out[0].span.offset;
        break;
    default:
        s.to = op->data.offset;
        s.ptr = op->ptr;
        s.mod = op->mod;
        s.imm = (int16_t) op->imm;
    }
    return s;
}

// Whether nothing but loads that go the short way touches memory in a cycle.
static bool only_loads(const struct plan * p, int cycle) {
    bool only = true;
    for (int j = p->at[cycle + RING]; j < p->at[cycle + RING + 1]; j++) {
        const struct instance * i = &p->list[j];
        only &= i->op->instr->mem_cycle == 0 || (i->op->lands && i->kind != STEP_ISSUE);
    }
    return only;
}

// The list, in which those that issue before the cycle `first` go the long way.
static struct core_step * list_steps(const struct plan * p, const struct core_bundle * const * body,
                                     int length, int first, struct core_step * out) {
    for (int cycle = 0; cycle < p->cycles; cycle++) {
        const struct core_bundle * b = body[cycle % length];
        int begin = p->at[cycle + RING], end = p->at[cycle + RING + 1];
        int since = cycle > first + RING ? cycle - RING : first;
        bool early = cycle >= first; // the short way is open to this bundle
        for (int j = p->at[since + RING]; j < end; j++) {
            const struct instance * i = &p->list[j];
            if (i->kind != STEP_ISSUE && i->op->mac.fn && i->execute / SUB == cycle) {
                *out++ = step_of(i);
            }
        }
        for (int point = SUB * cycle + MACS; point < SUB * cycle + LANDING; point++) {
            if (point == SUB * cycle + ISSUE + b->n_loads && (p->late_stores || !early)) {
                *out++ = (struct core_step){.kind = STEP_STORES};
            }
            for (int j = begin; j < end; j++) {
                const struct instance * i = &p->list[j];
                if (i->issue == point && !(early && i->kind == STEP_MAC)) {
                    *out = step_of(i);
                    out->kind = !early                 ? (uint8_t) STEP_ISSUE
                                : i->kind == STEP_HELD ? (uint8_t) STEP_HOLD
                                                       : i->kind;
                    if (i->op->lands) {
                        out->shares_banks = p->late_stores || !only_loads(p, cycle);
                    }
                    out++;
                }
            }
        }
        bool last = cycle == p->cycles - 1;
        *out++ = (struct core_step){.kind = last ? STEP_END : STEP_CYCLE, .to = b->pc};
    }
    return out;
}

// ---- the plan ----

static bool reads_loop(const struct core_op * op) {
    const int ls = AIE_UNIT_SPC + AIE_SPC_LS, le = AIE_UNIT_SPC + AIE_SPC_LE;
    const int lc = AIE_UNIT_SPC + AIE_SPC_LC;
    bool found = op->is_loop;
    for (int k = 0; k < op->n_in; k++) {
        int word = op->in[k].offset / 4;
        found |= word == ls || word == le || word == lc;
    }
    return found;
}

static bool plannable(const struct core_bundle * b) {
    if (b->flags & (BUNDLE_OUTSIDE | BUNDLE_DONE)) {
        return false;
    }
    for (int k = 0; k < b->n_ops; k++) {
        const struct core_op * op = &b->ops[k];
        int family = op->meaning->family;
        if ((family != CORE_LANES && family != CORE_MEMORY && family != CORE_SCALAR &&
             family != CORE_LOOKUP) ||
            (family == CORE_SCALAR && op->meaning->what == CORE_MOV_COUNTER) || reads_loop(op)) {
            return false;
        }
    }
    return true;
}

// The bundles of the loop; 0: not one that can be planned.
static int find_body(struct core * c, const struct core_bundle * first,
                     const struct core_bundle * last, const struct core_bundle ** body) {
    if (last->flags & BUNDLE_PARTIAL_STORE) {
        return 0;
    }
    int n = 0;
    for (uint32_t pc = first->pc; pc <= last->pc;) {
        const struct core_bundle * b =
            atomic_load_explicit(&c->code->map[pc / 2], memory_order_acquire);
        if (b == NULL || n == MAX_BUNDLES || !plannable(b)) {
            return 0;
        }
        body[n++] = b;
        if (b == last) {
            return n;
        }
        pc += b->size;
    }
    return 0;
}

static void list_instances(struct plan * p, const struct core_bundle * const * body, int length) {
    for (int cycle = -RING; cycle < p->cycles; cycle++) {
        const struct core_bundle * b = body[(cycle + p->cycles) % length];
        p->at[cycle + RING] = p->n;
        for (int k = 0; k < b->n_ops; k++) {
            add_instance(p, &b->ops[k], cycle, k);
            p->late_stores |=
                b->ops[k].instr->stores && (b->ops[k].n_stages > 1 || b->ops[k].store_delay);
        }
    }
    p->at[p->cycles + RING] = p->n;
}

static struct core_turns * make(const struct plan * p, const struct core_bundle * const * body,
                                int length) {
    // of each list: at most two steps to an instruction, two more to a bundle
    size_t steps = 2 * 2 * (size_t) (p->n + p->cycles);
    size_t bytes = sizeof(struct core_turns) + steps * sizeof(struct core_step);
    struct core_turns * t = malloc(bytes);
    if (t == NULL) {
        return NULL;
    }
    const struct core_bundle * last = body[length - 1];
    *t = (struct core_turns){.first = body[0]->pc,
                             .last = last->pc,
                             .next = (uint16_t) (last->pc + last->size),
                             .bundles = (uint16_t) p->cycles,
                             .turns = (uint32_t) (p->cycles / length),
                             .cold = (struct core_step *) (void *) (t + 1),
                             .bytes = bytes};
    t->linked = list_steps(p, body, length, RING, t->cold);
    list_steps(p, body, length, 0, t->linked);
    return t;
}

struct core_turns * core_turns_plan(struct core * c, const struct core_bundle * first,
                                    const struct core_bundle * last) {
    const struct core_bundle * body[MAX_BUNDLES];
    int length = find_body(c, first, last, body);
    int turns = length ? (MIN_BUNDLES + length - 1) / length : 0;
    if (turns == 0 || turns > MAX_TURNS) {
        return NULL;
    }
    struct plan p = {.cycles = length * turns};
    int most = 0;
    for (int i = 0; i < p.cycles + RING; i++) {
        most += body[i % length]->n_ops;
    }
    most += RING * AIE_SLOT_COUNT; // the run before begins anywhere in the loop
    p.room = most * TOUCHES;
    p.list = calloc((size_t) most, sizeof *p.list);
    p.touches = malloc((size_t) p.room * sizeof *p.touches);
    struct core_turns * t = NULL;
    if (p.list && p.touches) {
        list_instances(&p, body, length);
        if (!p.failed) {
            decide(&p);
            t = make(&p, body, length);
        }
    }
    free(p.list);
    free(p.touches);
    return t;
}
