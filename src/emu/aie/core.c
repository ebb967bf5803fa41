// core: the pipeline of one AIE core. Each turn of the loop is one cycle: late sources are read,
// the bundle issues (loads, then stores that arrive in this cycle, then the rest), time moves on,
// results that are due become visible. What is in flight waits in rings; see core-impl.h.
#include "emu/aie/core-flight.h"

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

void core_fault_writes(struct core * c, const struct core_op * op) {
    core_fault_at(c, op, "more than %d results land in one cycle", WRITES);
}

void core_fault_two_writers(struct core * c, const struct core_op * op) {
    core_fault_at(c, op, "two results land in one register in the same cycle");
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
    if (c->plans) {
        core_turns_count(c, b, ls);
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

// Lets everything in flight arrive; for a core that stopped of its own will.
static void drain(struct core * c) {
    for (int i = 0; i < RING && !c->faulted; i++) {
        int slot = (int) (c->cycle % RING);
        core_run_late(c, slot);
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

static inline bool late_faults(struct core * c) {
    if (!c->due[c->cycle % RING].lates) {
        return false;
    }
    core_run_late(c, (int) (c->cycle % RING));
    return c->faulted;
}

// The bundle at the program counter, which lies behind `before` (or NULL); NULL: the core faulted.
static inline struct core_bundle * bundle_behind(struct core * c, struct core_bundle * before) {
    struct core_bundle * b = c->pc < CORE_PM_BYTES ? bundle_at(c, c->pc) : NULL;
    b = b ? b : core_prepare(c, c->pc);
    if (b && before) {
        atomic_store_explicit(&before->next, b, memory_order_release);
    }
    return b;
}

enum core_state core_run_on(struct core * c, uint64_t until, uint64_t pause, uint64_t limit) {
    uint64_t end = pause < limit ? pause : limit;
    if (c->state != CORE_READY && c->state != CORE_BLOCKED) {
        return c->state;
    }
    c->state = CORE_READY;
    if (core_now(c) > end) {
        return c->state;
    }
    if (c->program_changed && !renew_code(c)) {
        return c->state = CORE_FAULT;
    }
    struct core_bundle * b = NULL;
    struct core_bundle * before = NULL; // set when b follows it in memory
    while (core_now(c) <= end) {
        if (late_faults(c) || (b == NULL && (b = bundle_behind(c, before)) == NULL)) {
            return c->state = CORE_FAULT;
        }
        const struct core_turns * turns = atomic_load_explicit(&b->turns, memory_order_acquire);
        if (turns && c->plans && core_turns_run(c, turns, end, limit)) {
            if (c->faulted) {
                return c->state = CORE_FAULT;
            }
            b = before = NULL;
            continue;
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

enum core_state core_run(struct core * c, uint64_t until, uint64_t limit) {
    return core_run_on(c, until, limit, limit);
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
    c->plans = !env->trace && !env->single;
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
