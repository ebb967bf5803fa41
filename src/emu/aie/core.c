// core: the pipeline of one AIE core. Each turn of the loop is one cycle: late sources are read,
// the bundle issues (loads, then stores that arrive in this cycle, then the rest), time moves on,
// results that are due become visible. What is in flight waits in rings; see core-impl.h.
#include "emu/aie/core-impl.h"

#include <stdio.h>
#include <stdlib.h>

// ---- faults ----

void core_fault_at(struct core * c, const struct core_op * op, const char * fmt, ...) {
    if (c->faulted) {
        return; // the first one is the cause
    }
    c->faulted = true;
    uint32_t pc = op ? op->bundle->pc : c->pc;
    struct buf text = {0};
    buf_printf(&text, "core: pc 0x%x: bytes", pc);
    if (pc < CORE_PM_BYTES) {
        int size = op ? op->bundle->size : aie_bundle_size(c->isa, c->program[pc]);
        for (int i = 0; i < size && pc + (uint32_t) i < CORE_PM_BYTES; i++) {
            buf_printf(&text, " %02x", c->program[pc + (uint32_t) i]);
        }
    } else {
        buf_printf(&text, " -");
    }
    char reason[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(reason, sizeof reason, fmt, args);
    va_end(args);
    buf_printf(&text, ": %s", reason);
    if (op) {
        buf_printf(&text, ": ");
        aie_inst_print(c->isa, &op->inst, &text);
    }
    snprintf(c->fault_text, sizeof c->fault_text, "%.*s", (int) text.size,
             text.data ? (const char *) text.data : "core: fault, and no memory to describe it");
    buf_free(&text);
}

// ---- results ----

void core_fault_writes(struct core * c, const struct core_op * op) {
    core_fault_at(c, op, "more than %d results land in one cycle", WRITES);
}

static void fault_two_writers(struct core * c, const struct core_op * op) {
    core_fault_at(c, op, "two results land in one register in the same cycle");
}

static void commit_scalar(struct core * c, const struct core_write * w, const uint8_t * data) {
    if (w->span.n_units == 0) {
        uint32_t v;
        memcpy(&v, data, 4);
        reg_put_u32(c, w->span.unit, reg_u32(c, w->span.unit) | v);
        return;
    }
    for (int u = w->span.unit; u < w->span.unit + w->span.n_units; u++) {
        if (c->stamp[u] == c->cycle) {
            fault_two_writers(c, w->op);
        }
        c->stamp[u] = c->cycle;
    }
    if (w->span.size == 4) {
        uint32_t v;
        memcpy(&v, data, 4);
        reg_put_u32(c, w->span.unit, v);
    } else {
        memcpy(c->regs + w->span.offset, data, w->span.size);
    }
}

// landed: the vector units that results of this cycle went to.
static inline void commit_write(struct core * c, const struct core_write * w, const uint8_t * data,
                                uint64_t * landed) {
    if (w->span.unit < CORE_WORDS) {
        commit_scalar(c, w, data);
        return;
    }
    uint64_t units = core_vector_units(&w->span);
    if (*landed & units) {
        fault_two_writers(c, w->op);
    }
    *landed |= units;
    uint8_t * to = c->regs + w->span.offset;
    if (w->span.size == 64) {
        memcpy(to, data, 64);
    } else if (w->span.size == 32) {
        memcpy(to, data, 32);
    } else if (w->span.size == 128) {
        memcpy(to, data, 128);
    } else if (w->span.size == 256) {
        memcpy(to, data, 256);
    } else {
        memcpy(to, data, w->span.size);
    }
}

static inline void commit_load(struct core * c, const struct core_op * op, const uint8_t * data,
                               uint64_t * landed) {
    if (*landed & op->lands) {
        fault_two_writers(c, op);
    }
    *landed |= op->lands;
    uint8_t * to = c->regs + op->data.offset;
    if (op->data.size == 32) {
        memcpy(to, data, 32);
    } else {
        memcpy(to, data, LOAD_BYTES);
    }
}

// Time moves on by one; what is due becomes visible.
static inline void tick(struct core * c) {
    uint64_t cycle = ++c->cycle;
    int n = c->n_write1;
    for (int i = 0; i < n; i++) {
        const struct core_write1 * w = &c->write1[i];
        if (c->stamp[w->unit] == cycle) {
            fault_two_writers(c, w->op);
        }
        c->stamp[w->unit] = cycle;
        reg_put_u32(c, w->unit, w->value);
    }
    c->n_write1 = 0;
    int slot = (int) (cycle % RING);
    struct core_due * due = &c->due[slot];
    uint64_t landed = 0;
    const struct core_loads * l = &c->loads[slot];
    switch (due->loads) { // at most LOADS
    case 3:
        commit_load(c, l->op[2], l->data[2], &landed);
        // fall through
    case 2:
        commit_load(c, l->op[1], l->data[1], &landed);
        // fall through
    case 1:
        commit_load(c, l->op[0], l->data[0], &landed);
        due->loads = 0;
        // fall through
    default:
        break;
    }
    n = due->writes;
    if (n) {
        const struct core_landing * w = &c->writes[slot];
        for (int i = 0; i < n; i++) {
            commit_write(c, &w->list[i], w->data + CELL * w->list[i].span.cell, &landed);
        }
        due->writes = due->bypass = due->cells = 0;
    }
}
_Static_assert(LOADS == 3, "a case for each");

// ---- sources ----

// The source as a bypass sees it: results of the same kind that land in the next cycle count
// already.
static const uint8_t * read_bypassed(struct core * c, int offset, int size, int bypass,
                                     uint8_t * scratch) {
    const uint8_t * live = c->regs + offset;
    int slot = (int) ((c->cycle + 1) % RING);
    for (int i = 0; i < c->due[slot].writes; i++) {
        const struct core_write * w = &c->writes[slot].list[i];
        const uint8_t * data = c->writes[slot].data + CELL * w->span.cell;
        int from = w->span.offset, to = from + w->span.size;
        int lo = offset > from ? offset : from;
        int hi = offset + size < to ? offset + size : to;
        if ((int) w->span.bypass != bypass || lo >= hi) {
            continue;
        }
        if (lo == offset && hi == offset + size) {
            return data + (lo - from);
        }
        if (live != scratch) {
            memcpy(scratch, live, (size_t) size);
            live = scratch;
        }
        memcpy(scratch + (lo - offset), data + (lo - from), (size_t) (hi - lo));
    }
    return live;
}

// A source that lies in pieces, put together.
static const uint8_t * read_pieces(struct core * c, const struct core_op * op,
                                   const struct core_in * in, uint8_t * scratch) {
    bool bypassed = in->bypass && c->due[(c->cycle + 1) % RING].bypass;
    int at = 0;
    for (int i = 0; i < in->gather; i++) {
        const struct core_piece * p = &op->pieces[in->first_piece + i];
        uint8_t other[LOAD_BYTES];
        const uint8_t * from = c->regs + p->offset;
        if (bypassed) {
            from = read_bypassed(c, p->offset, p->size, in->bypass, other);
        }
        memcpy(scratch + at, from, p->size);
        at += (p->size + CELL - 1) / CELL * CELL;
    }
    return scratch;
}

static inline const uint8_t * read_live(struct core * c, const struct core_op * op,
                                        const struct core_in * in, int scratch) {
    if (in->gather) {
        return read_pieces(c, op, in, c->scratch[scratch]);
    }
    if (in->bypass && c->due[(c->cycle + 1) % RING].bypass) {
        return read_bypassed(c, in->offset, in->size, in->bypass, c->scratch[scratch]);
    }
    return c->regs + in->offset;
}

static inline void capture(struct core * c, struct core_late * l, int k) {
    const struct core_in * in = &l->op->in[k];
    const uint8_t * from = read_live(c, l->op, in, k);
    uint8_t * to = l->data + in->capture;
    if (in->size == 4) {
        memcpy(to, from, 4);
    } else if (in->size == 64) {
        memcpy(to, from, 64);
    } else {
        memcpy(to, from, in->size);
    }
}

// ---- instructions ----

// What the instruction tells its sticky status register.
static void leave_status(struct core * c, const struct core_op * op, uint64_t issued,
                         uint32_t status) {
    const struct core_out * out = &op->out[op->n_plain_out];
    uint64_t due = issued + out->cycle;
    due = due > c->cycle ? due : c->cycle + 1;
    struct core_span span = out->span;
    span.bypass = AIE_BYPASS_NONE;
    span.n_units = 0;
    memcpy(core_write_at(c, op, due, &span), &status, 4);
}

// What an instruction gets whatever its operands are. Of those only the absent ones are cleared:
// clearing all takes longer than what most instructions do.
static inline void begin_exec(struct core_exec * x, struct core * c, const struct core_op * op) {
    x->core = c;
    x->instr = op->instr;
    x->imm = op->imms;
    for (unsigned left = op->no_in; left; left &= left - 1) {
        x->in[__builtin_ctz(left)] = NULL;
    }
    for (unsigned left = op->no_out; left; left &= left - 1) {
        x->out[__builtin_ctz(left)] = NULL;
    }
}

void core_execute(struct core * c, const struct core_op * op, struct core_late * l) {
    struct core_exec x;
    uint32_t status = 0;
    int last = op->n_stages - 1, k = 0;
    begin_exec(&x, c, op);
    for (; k < op->n_fixed_in; k++) {
        x.in[op->in[k].index] = c->regs + op->in[k].offset;
    }
    for (; k < op->n_in; k++) {
        const struct core_in * in = &op->in[k];
        x.in[in->index] = in->stage < last ? l->data + in->capture : read_live(c, op, in, k);
    }
    uint64_t issued = last ? l->issued : c->cycle;
    for (k = 0; k < op->n_plain_out; k++) {
        const struct core_out * out = &op->out[k];
        x.out[out->index] = core_write_at(c, op, issued + out->cycle, &out->span);
    }
    for (; k < op->n_out; k++) {
        x.out[op->out[k].index] = (uint8_t *) &status;
    }
    if (op->semantic == NULL) {
        core_memory_finish(c, op, l, &x);
    } else if (!op->semantic(&x)) {
        core_fault_at(c, op, "no meaning is known for these operand values");
    }
    if (status) {
        leave_status(c, op, issued, status);
    }
}

// The short way for one result and sources that are all read at issue, each in one piece.
void core_issue_single(struct core * c, const struct core_op * op) {
    struct core_exec x;
    bool bypassed = c->due[(c->cycle + 1) % RING].bypass;
    begin_exec(&x, c, op);
    const struct core_in * end = op->in + op->n_in;
    for (const struct core_in * in = op->in; in < end; in++) {
        x.in[in->index] = c->regs + in->offset;
        if (bypassed && in->bypass) {
            x.in[in->index] =
                read_bypassed(c, in->offset, in->size, in->bypass, c->scratch[in - op->in]);
        }
    }
    const struct core_out * out = &op->out[0];
    x.out[out->index] = core_write_at(c, op, c->cycle + out->cycle, &out->span);
    if (!op->semantic(&x)) {
        core_fault_at(c, op, "no meaning is known for these operand values");
    }
}

// A place in the list of those that read sources in the stage's cycle.
static inline struct core_late * late_place(struct core * c, const struct core_op * op,
                                            uint64_t issued, int stage) {
    int slot = (int) ((issued + op->stage_cycle[stage] - 1) % RING);
    if (c->due[slot].lates == LATES) {
        core_fault_at(c, op, "more than %d instructions read sources late in one cycle", LATES);
        return &c->lates[slot][0];
    }
    return &c->lates[slot][c->due[slot].lates++];
}

struct core_late * core_late_start(struct core * c, const struct core_op * op) {
    struct core_late * l = late_place(c, op, c->cycle, 1);
    l->op = op;
    l->issued = c->cycle;
    l->stage = 1;
    for (int k = op->n_fixed_in; k < op->n_fixed_in + op->n_first_in; k++) {
        capture(c, l, k);
    }
    return l;
}

void core_issue_generic(struct core * c, const struct core_op * op) {
    if (op->n_stages == 1) {
        core_execute(c, op, NULL);
    } else {
        core_late_start(c, op);
    }
}

enum { MAC_X = CORE_FUSED, MAC_Y = MAC_X + 64, MAC_CONF = MAC_Y + 64 }; // in core_late.data

void core_issue_mac(struct core * c, const struct core_op * op) {
    int slot = (int) ((c->cycle + op->mac.delay) % RING), n = c->due[slot].lates;
    if (n == LATES) {
        core_late_start(c, op); // which faults
        return;
    }
    struct core_late * l = &c->lates[slot][n];
    c->due[slot].lates = (uint8_t) (n + 1);
    l->op = op;
    l->issued = c->cycle;
    l->stage = 1;
    memcpy(l->data + MAC_X, c->regs + op->mac.x, 64);
    memcpy(l->data + MAC_Y, c->regs + op->mac.y, 64);
    memcpy(l->data + MAC_CONF, c->regs + op->mac.conf, 4);
}

static inline void execute_mac(struct core * c, const struct core_op * op, struct core_late * l) {
    const struct core_span * span = &op->out[0].span;
    uint64_t due = l->issued + op->out[0].cycle;
    uint32_t conf;
    memcpy(&conf, l->data + MAC_CONF, 4);
    const uint8_t * acc = read_live(c, op, &op->mac.acc, 0);
    uint8_t * out = core_write_at(c, op, due, span);
    if (!op->mac.fn(out, acc, l->data + MAC_X, l->data + MAC_Y, conf)) {
        int slot = (int) (due % RING); // the place is given back: core_execute takes one itself
        c->due[slot].writes--;
        c->due[slot].cells = (uint8_t) (c->due[slot].cells - span->size / CELL);
        c->due[slot].bypass = (uint8_t) (c->due[slot].bypass - (span->bypass != AIE_BYPASS_NONE));
        core_execute(c, op, l);
    }
}

static void run_late(struct core * c, int slot) {
    for (int i = 0; i < c->due[slot].lates; i++) {
        struct core_late * l = &c->lates[slot][i];
        if (l->op->mac.fn) {
            execute_mac(c, l->op, l);
        } else if (l->stage == l->op->n_stages - 1) {
            core_execute(c, l->op, l);
        } else {
            for (int k = 0; k < l->op->n_in; k++) {
                if (l->op->in[k].stage == l->stage) {
                    capture(c, l, k);
                }
            }
            l->stage++;
            *late_place(c, l->op, l->issued, l->stage) = *l; // a later cycle, another list
        }
    }
    c->due[slot].lates = 0;
}

// ---- the loop ----

static void trace(struct core * c, const struct core_bundle * b) {
    struct aie_bundle decoded;
    struct buf text = {0};
    struct error err;
    if (aie_bundle_decode(c->isa, c->program + b->pc, b->size, &decoded, &err) == ST_OK) {
        aie_bundle_print(c->isa, &decoded, &text);
    }
    buf_append(&text, "", 1);
    if (!text.failed) {
        c->env.trace(c->env.user, core_now(c), b->pc, (const char *) text.data);
    }
    buf_free(&text);
}

// After the bundle at the loop's end. A partial store there is dropped on silicon when the loop is
// short, and a loop that was set up too late is fetched wrong: both are refused, not imitated.
static uint32_t loop_end(struct core * c, const struct core_bundle * b, uint32_t next) {
    uint32_t lc = reg_u32(c, AIE_UNIT_SPC + AIE_SPC_LC) - 1;
    uint32_t ls = reg_u32(c, AIE_UNIT_SPC + AIE_SPC_LS);
    reg_put_u32(c, AIE_UNIT_SPC + AIE_SPC_LC, lc);
    if (lc == 0) {
        return next;
    }
    const struct core_op * op = b->n_ops ? &b->ops[0] : NULL;
    const struct core_target * t = c->traits;
    if ((b->flags & BUNDLE_PARTIAL_STORE) && b->pc >= ls && b->pc - ls < t->loop_partial_bytes) {
        core_fault_at(c, op, "8- or 16-bit store in the last bundle of a short zero-overhead loop");
    } else if (c->loop_setup && c->cycle - c->loop_setup < t->loop_distance) {
        core_fault_at(c, op, "zero-overhead loop ends less than %d bundles after its set-up",
                      t->loop_distance);
    }
    return ls;
}

static inline void issue_bundle(struct core * c, const struct core_bundle * b) {
    const struct core_op *op = b->ops, *loads = op + b->n_loads, *end = op + b->n_ops;
    for (; op < loads; op++) {
        op->issue(c, op);
    }
    int slot = (int) (c->cycle % RING);
    if (c->due[slot].stores) {
        core_stores_flush(c, slot);
    }
    for (; op < end; op++) {
        op->issue(c, op);
    }
}

static inline uint32_t next_pc(struct core * c, const struct core_bundle * b) {
    uint32_t next = c->pc + b->size;
    bool at_end = c->pc == reg_u32(c, AIE_UNIT_SPC + AIE_SPC_LE) &&
                  reg_u32(c, AIE_UNIT_SPC + AIE_SPC_LC) != 0;
    if (c->delay) {
        if (at_end) {
            core_fault_at(c, b->n_ops ? &b->ops[0] : NULL,
                          "end of a zero-overhead loop in the delay slots of a branch");
        }
        return --c->delay == 0 ? c->target : next;
    }
    return at_end ? loop_end(c, b, next) : next;
}

// The core stands still for n cycles; what is in flight stands still with it.
static inline void stall(struct core * c, uint64_t n) {
    c->offset += n;
    c->stalls += n;
}

// The accesses of this cycle have asked for their banks.
static inline void stall_at_banks(struct core * c) {
    struct bank_use * use = &c->banks[c->cycle % RING];
    if (use->once == 0) {
        return;
    }
    if (use->twice) {
        int n = bank_stalls(use);
        stall(c, (uint64_t) n);
        c->bank_stalls += (uint64_t) n;
    }
    *use = (struct bank_use){0};
}

// Lets everything in flight arrive; for a core that stopped of its own will.
static void drain(struct core * c) {
    for (int i = 0; i < RING && !c->faulted; i++) {
        int slot = (int) (c->cycle % RING);
        run_late(c, slot);
        core_stores_flush(c, slot);
        c->banks[slot] = (struct bank_use){0};
        tick(c);
        c->offset--; // not lived through by anyone
    }
}

static bool in_flight(const struct core * c) {
    int n = 0;
    for (int i = 0; i < RING; i++) {
        n += c->due[i].writes + c->due[i].loads + c->due[i].lates + c->due[i].stores;
    }
    return n > 0;
}

// The prepared form of what program memory holds now. What is in flight belongs to the one before
// and arrives first: a core whose program is replaced under it goes on as if it had waited.
static bool renew_code(struct core * c) {
    c->program_changed = false;
    if (c->code && memcmp(c->code->program, c->program, CORE_PM_BYTES) == 0) {
        return true;
    }
    if (in_flight(c)) {
        drain(c);
    }
    core_code_give(c->cache, c->code);
    c->code = core_code_take(c->cache, c->program);
    if (c->code == NULL) {
        core_fault_at(c, NULL, "out of memory while preparing the program");
    }
    return !c->faulted;
}

static inline struct core_bundle * bundle_at(struct core * c, uint32_t pc) {
    return atomic_load_explicit(&c->code->map[pc / 2], memory_order_acquire);
}

enum core_state core_run(struct core * c, uint64_t until, uint64_t limit) {
    if (c->state != CORE_READY && c->state != CORE_BLOCKED) {
        return c->state;
    }
    c->state = CORE_READY;
    if (core_now(c) > limit) {
        return c->state;
    }
    if (c->program_changed && !renew_code(c)) {
        return c->state = CORE_FAULT;
    }
    struct core_bundle * b = NULL;
    struct core_bundle * before = NULL; // set when b follows it in memory
    while (core_now(c) <= limit) {
        if (c->due[c->cycle % RING].lates) {
            run_late(c, (int) (c->cycle % RING));
            if (c->faulted) {
                return c->state = CORE_FAULT;
            }
        }
        if (b == NULL) {
            b = c->pc < CORE_PM_BYTES ? bundle_at(c, c->pc) : NULL;
            if (b == NULL && (b = core_prepare(c, c->pc)) == NULL) {
                return c->state = CORE_FAULT;
            }
            if (before) {
                atomic_store_explicit(&before->next, b, memory_order_release);
            }
        }
        if (b->flags & BUNDLE_OUTSIDE) {
            if (core_now(c) > until) {
                return c->state;
            }
            enum core_meet met = core_meet_outside(c, b);
            if (met != MEET_DONE) {
                return c->state = met == MEET_BLOCKED ? CORE_BLOCKED : CORE_FAULT;
            }
            if (b->flags & BUNDLE_LOCK) {
                stall(c, c->env.lock_stall);
            }
        }
        if (c->env.trace) {
            trace(c, b);
        }
        issue_bundle(c, b);
        stall_at_banks(c);
        c->bundles++;
        uint32_t next = next_pc(c, b);
        tick(c);
        if (c->faulted) {
            return c->state = CORE_FAULT;
        }
        c->pc = next;
        if (b->flags & BUNDLE_DONE) {
            drain(c);
            return c->state = c->faulted ? CORE_FAULT : CORE_DONE;
        }
        before = next == (uint32_t) b->pc + b->size ? b : NULL;
        b = before ? atomic_load_explicit(&before->next, memory_order_acquire) : NULL;
    }
    return c->state;
}

void core_advance(struct core * c, uint64_t now) {
    uint64_t at = core_now(c);
    if (now > at) {
        stall(c, now - at);
    }
}

// ---- life ----

enum status core_new(enum aie_arch arch, const struct core_env * env, struct core ** out) {
    *out = NULL;
    const struct core_target * target = core_target_of(arch);
    if (target == NULL) {
        return ST_UNSUPPORTED;
    }
    void * memory = NULL;
    if (posix_memalign(&memory, 64, sizeof(struct core)) != 0) {
        return ST_NO_MEMORY;
    }
    struct core * c = memory;
    memset(c, 0, sizeof *c);
    c->traits = target;
    for (int i = 0; i < CORE_WORDS; i++) {
        c->mask[i] = target->masks[i] ? target->masks[i] : UINT32_MAX;
    }
    c->isa = aie_isa_get(arch);
    c->env = *env;
    c->state = CORE_DISABLED;
    c->owns_cache = env->cache == NULL;
    c->cache = c->owns_cache ? core_cache_new(CORE_CACHE_BYTES) : env->cache;
    c->program_changed = true;
    if (c->cache == NULL) {
        free(c);
        return ST_NO_MEMORY;
    }
    core_reset(c);
    *out = c;
    return ST_OK;
}

void core_free(struct core * c) {
    if (c) {
        core_code_give(c->cache, c->code);
        if (c->owns_cache) {
            core_cache_free(c->cache);
        }
        free(c);
    }
}

void core_reset(struct core * c) {
    uint32_t id = reg_u32(c, AIE_UNIT_SPC + AIE_SPC_COREID); // wired, not stored
    uint64_t now = core_now(c);
    memset(c->regs, 0, sizeof c->regs);
    if (c->env.strict) {
        uint64_t seed = (uint64_t) c->env.seed << 32 | ++c->resets;
        core_garbage(c->regs, CORE_VECTORS, seed);
        core_garbage(c->regs + CORE_VECTORS, CORE_REG_BYTES - CORE_VECTORS, ~seed);
        for (int i = 0; i < CORE_WORDS; i++) { // what steers the core is not
            reg_put_u32(c, i, c->traits->data_words[i / 64] >> i % 64 & 1 ? reg_u32(c, i) : 0);
        }
    }
    for (int i = 0; i < c->traits->n_presets; i++) {
        reg_put_u32(c, c->traits->presets[i].word, c->traits->presets[i].value);
    }
    reg_put_u32(c, AIE_UNIT_SPC + AIE_SPC_COREID, id);
    memset(c->stamp, 0, sizeof c->stamp);
    for (int i = 0; i < RING; i++) {
        c->due[i] = (struct core_due){0};
    }
    c->n_write1 = 0;
    c->partial_until = 0;
    memset(c->partial, 0, sizeof c->partial);
    memset(c->banks, 0, sizeof c->banks);
    c->loop_setup = 0;
    c->outside_done = 0;
    c->pc = c->target = 0;
    c->delay = 0;
    c->faulted = false;
    c->fault_text[0] = 0;
    c->cycle = 0;
    c->offset = now;
    c->state = CORE_DISABLED;
}

uint8_t * core_program(struct core * c) {
    return c->program;
}

void core_program_changed(struct core * c, uint32_t offset, uint32_t size) {
    (void) offset;
    (void) size; // the program is compared as a whole, when it is next run
    c->program_changed = true;
}

void core_enable(struct core * c, bool on, uint64_t now) {
    if (!on) {
        if (c->state == CORE_READY || c->state == CORE_BLOCKED) {
            c->state = CORE_DISABLED;
        }
    } else if (c->state == CORE_DISABLED) {
        c->state = CORE_READY;
        if (now > core_now(c)) {
            c->offset += now - core_now(c);
        }
    }
}

enum core_state core_get_state(const struct core * c) {
    return c->state;
}

uint64_t core_now(const struct core * c) {
    return c->cycle + c->offset;
}

uint32_t core_pc(const struct core * c) {
    return c->pc;
}

const char * core_fault(const struct core * c) {
    return c->fault_text;
}

uint64_t core_bundles(const struct core * c) {
    return c->bundles;
}

uint64_t core_stall_cycles(const struct core * c) {
    return c->stalls;
}

uint64_t core_bank_stalls(const struct core * c) {
    return c->bank_stalls;
}

void core_bank_hits(struct core * c, uint32_t hits[CORE_BANKS]) {
    memcpy(hits, c->bank_hits, sizeof c->bank_hits);
    memset(c->bank_hits, 0, sizeof c->bank_hits);
}

void core_lose_banks(struct core * c, uint64_t cycles) {
    stall(c, cycles);
    c->bank_stalls += cycles;
}

bool core_adds_ieee(const struct core * c) {
    return c->env.ieee;
}

uint64_t core_stray_loads(const struct core * c) {
    return c->stray_loads;
}
