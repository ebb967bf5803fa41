// machine: the clock and the dispatch. Each cycle the due operation of the instruction stream, the
// due cores and the channels take their turn, in a fixed order, so that equal inputs give equal
// cycles. The clock jumps from one event to the next; when there is none, the dispatch is over or
// the design is stuck, and the error says who waits for what.
#include "emu/aie/array-model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEFAULT_MAX_CYCLES UINT64_C(1000000000)

// After the last operation the array goes on by itself (locks given back, buffers filled ahead), as
// it does on silicon while the host prepares the next dispatch: until it rests or, when a core
// never does, for a while. Shim DMA gets the time that it takes to fill a memtile.
enum { SETTLE_CYCLES = 4096, SETTLE_SHIM_CYCLES = 200000 };

struct emu_machine {
    struct array * array;
    struct emu_counters counters;
    uint64_t max_cycles;
    int wall_s;
    const void * pdi_at; // of the last dispatch, where that is known
    uint8_t * resident;  // the PDI that the array is configured with; NULL = none
    size_t resident_size;
};

enum status emu_adder_get(enum emu_adder * out, struct error * err) {
    const char * text = getenv("GGML_HSA_EMU_ADDER");
    *out = EMU_ADDER_ALIGNED;
    if (text && strcmp(text, "ieee") == 0) {
        *out = EMU_ADDER_IEEE;
    } else if (text && *text && strcmp(text, "aligned") != 0) {
        return error_set(err, ST_INVALID, "GGML_HSA_EMU_ADDER=%.40s: expected aligned or ieee",
                         text);
    }
    return ST_OK;
}

// "VADD_32=VSUB_32": both of the same slot and with the same operands.
static bool plant_instruction(const struct aie_isa * isa, const char * text, size_t n,
                              struct emu_plant * out) {
    char names[2][80];
    const char * equals = memchr(text, '=', n);
    size_t first = equals ? (size_t) (equals - text) : 0;
    if (!equals || first >= sizeof names[0] || n - first > sizeof names[1]) {
        return false;
    }
    snprintf(names[0], sizeof names[0], "%.*s", (int) first, text);
    snprintf(names[1], sizeof names[1], "%.*s", (int) (n - first - 1), equals + 1);
    out->op = aie_isa_find(isa, names[0]);
    out->as = aie_isa_find(isa, names[1]);
    if (out->op < 0 || out->as <= 0) {
        return false;
    }
    const struct aie_instr *a = aie_isa_instr(isa, out->op), *b = aie_isa_instr(isa, out->as);
    return a->slot == b->slot && a->n_explicit == b->n_explicit;
}

enum status emu_plant_get(enum aie_arch arch, struct emu_plant * out, struct error * err) {
    const char * text = getenv("GGML_HSA_EMU_PLANT");
    *out = (struct emu_plant){0};
    for (size_t n; text && *text; text += n + (text[n] == ';')) {
        int end = 0;
        n = strcspn(text, ";");
        if (sscanf(text, "lock=%d,%d,%d%n", &out->col, &out->row, &out->lock, &end) == 3 &&
            (size_t) end == n) {
            out->stuck = true;
        } else if (!plant_instruction(aie_isa_get(arch), text, n, out)) {
            return error_set(err, ST_INVALID,
                             "GGML_HSA_EMU_PLANT=%.80s: expected INSTRUCTION=INSTRUCTION, both of "
                             "the same operands, or lock=COLUMN,ROW,NUMBER",
                             text);
        }
    }
    return ST_OK;
}

enum status emu_threads_check(struct error * err) {
    const struct emu_config config = {.columns = 1};
    int threads;
    return array_pool_setting(&config, &threads, err);
}

enum status emu_machine_new(const struct emu_config * config, struct emu_machine ** out,
                            struct error * err) {
    if (!config->resolve) {
        return error_set(err, ST_INVALID, "machine: no function to find host memory with");
    }
    struct emu_config own = *config;
    enum status st = own.adder == EMU_ADDER_ENV ? emu_adder_get(&own.adder, err) : ST_OK;
    if (st != ST_OK) {
        return st;
    }
    struct emu_machine * m = calloc(1, sizeof(*m));
    if (!m) {
        return error_set(err, ST_NO_MEMORY, "machine: out of memory");
    }
    st = array_new(&own, &m->array, err);
    if (st != ST_OK) {
        free(m);
        return st;
    }
    m->max_cycles = config->max_cycles ? config->max_cycles : DEFAULT_MAX_CYCLES;
    m->wall_s = config->wall_s;
    *out = m;
    return ST_OK;
}

void emu_machine_free(struct emu_machine * m) {
    if (m) {
        array_free(m->array);
        free(m->resident);
        free(m);
    }
}

void emu_machine_pdi_at(struct emu_machine * m, const void * where) {
    if (m->pdi_at != where) {
        free(m->resident);
        m->resident = NULL;
    }
    m->pdi_at = where;
}

void emu_machine_counters(const struct emu_machine * m, struct emu_counters * out) {
    *out = m->counters;
}

// ---- the clock ----

static void run_due_cores(struct array * a) {
    a->next_core = NEVER;
    for (int i = 0; i < a->columns * ARRAY_ROWS; i++) {
        if (a->core_wake[i] <= a->now) {
            tile_core_run(&a->tiles[i]);
        } else if (a->core_wake[i] < a->next_core) {
            a->next_core = a->core_wake[i];
        }
    }
}

enum step { STEP_MOVED, STEP_REST, STEP_FAILED };

// The jump to the next cycle in which something can happen, no further than `until`, and that
// cycle; STEP_REST when there is none. The time of the jump goes to the account, if there is one.
static enum step step(struct array * a, uint64_t until, struct emu_account * account) {
    a->until = until;
    if (!a->woken) {
        uint64_t event = a->next_wake < a->txn.time ? a->next_wake : a->txn.time;
        event = a->next_control < event ? a->next_control : event;
        event = array_cores_due(a, event);
        if (event == NEVER) {
            uint64_t end = cycle_of(a, a->reached + ticks(a, 1) - 1);
            a->now = end > a->now ? end : a->now; // the last words have moved
            return STEP_REST;
        }
        a->now = event < a->now ? a->now : event < until ? event : until;
    }
    if (account) {
        account_step(a, account);
    }
    if (a->now >= until) {
        return STEP_MOVED;
    }
    if (a->txn.time <= a->now && !txn_step(a)) {
        return STEP_FAILED;
    }
    if (array_cores_here(a)) {
        run_due_cores(a);
    }
    if (!a->failed) {
        array_controls(a);
    }
    if (!a->failed) {
        array_channels(a);
    }
    a->now++;
    return a->failed ? STEP_FAILED : STEP_MOVED;
}

// By the host's clock. A machine of many cores plays a dispatch of a tenth of a second in minutes,
// so that there is a limit only where somebody asked for one.
static double wall_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

static bool is_late(const struct emu_machine * m, double wall_start, uint32_t * steps) {
    enum { LOOK_EVERY = 64 }; // a step may be as long as a core runs ahead
    return m->wall_s && ++*steps % LOOK_EVERY == 0 && wall_now() - wall_start > m->wall_s;
}

static bool play(struct emu_machine * m) {
    struct array * a = m->array;
    uint64_t start = a->now;
    enum step s = STEP_MOVED;
    uint32_t steps = 0;
    double wall_start = m->wall_s ? wall_now() : 0;
    a->counted = a->now;
    while (s == STEP_MOVED && !a->txn.done) {
        s = step(a, start + m->max_cycles + 1, &m->counters.last_account);
        if (s == STEP_REST && !a->txn.done) {
            array_fail_deadlock(a);
        } else if (a->now - start > m->max_cycles) {
            array_fail(a, ST_DEVICE,
                       "dispatch runs for more than %" PRIu64
                       " cycles; raise the limit if the design "
                       "needs it",
                       m->max_cycles);
            s = STEP_FAILED;
        } else if (s == STEP_MOVED && is_late(m, wall_start, &steps)) {
            array_fail(a, ST_DEVICE,
                       "dispatch has run for more than %d s, %" PRIu64
                       " cycles, without an end; GGML_HSA_WAIT_LIMIT sets how many seconds it may",
                       m->wall_s, a->now - start);
            s = STEP_FAILED;
        }
    }
    account_step(a, &m->counters.last_account);
    m->counters.last_cycles = a->now - start;
    m->counters.cycles += a->now - start;
    return !a->failed;
}

static bool settle(struct array * a) {
    uint64_t start = a->now;
    enum step s = STEP_MOVED;
    while (s == STEP_MOVED && (a->now < start + SETTLE_CYCLES ||
                               (a->now < start + SETTLE_SHIM_CYCLES && array_shim_busy(a)))) {
        s = step(a, start + (a->now < start + SETTLE_CYCLES ? SETTLE_CYCLES : SETTLE_SHIM_CYCLES),
                 NULL);
    }
    array_cores_join(a);
    if (s == STEP_FAILED || !array_fail_faults(a)) {
        return false;
    }
    // Host memory is lent for the time of the dispatch only, so nobody may hold on to it.
    return array_shim_busy(a) ? array_fail_unfinished(a) : true;
}

// ---- dispatch ----

// Time in which the array does nothing that a dispatch waits for. It is in the account and not in
// the array's clock.
static void spend(struct emu_machine * m, enum emu_cause cause, uint64_t ns) {
    m->counters.last_account.cycles[cause] += ns * m->array->clock.mhz / 1000;
}

void emu_machine_submit(struct emu_machine * m) {
    m->counters.account.cycles[EMU_HOST] +=
        (uint64_t) m->array->clock.submit_ns * m->array->clock.mhz / 1000;
}

void emu_machine_context(struct emu_machine * m) {
    m->counters.account.cycles[EMU_RECONFIG] +=
        (uint64_t) m->array->clock.context_ns * m->array->clock.mhz / 1000;
}

// Counts all bytes so far: each line by itself would be rounded to nothing.
static uint64_t flush_cycles(const struct emu_machine * m) {
    const struct emu_clock * clock = &m->array->clock;
    return (uint64_t) ((double) m->counters.flushed * clock->flush_mb_ns * clock->mhz * 1e-9);
}

void emu_machine_flush(struct emu_machine * m, uint64_t bytes) {
    uint64_t before = flush_cycles(m);
    m->counters.flushed += bytes;
    m->counters.account.cycles[EMU_FLUSH] += flush_cycles(m) - before;
}

void emu_machine_rest(struct emu_machine * m) {
    free(m->resident);
    m->resident = NULL;
    array_reset(m->array);
}

const struct emu_clock * emu_machine_clock(const struct emu_machine * m) {
    return &m->array->clock;
}

static enum status load(struct emu_machine * m, const uint8_t * pdi, size_t size,
                        struct error * err) {
    size_t used = 0;
    enum status st = pdi_check(pdi, size, &used, err);
    if (st != ST_OK) {
        return st;
    }
    if (m->resident && m->resident_size == used && memcmp(m->resident, pdi, used) == 0) {
        return ST_OK;
    }
    free(m->resident);
    m->resident = malloc(used);
    if (!m->resident) {
        return error_set(err, ST_NO_MEMORY, "machine: out of memory for a PDI of %zu bytes", used);
    }
    memcpy(m->resident, pdi, used);
    m->resident_size = used;
    m->counters.pdi_loads++;
    struct array * a = m->array;
    array_reset(a);
    a->cdo_commands = a->cdo_words = 0;
    if (!pdi_load(a, m->resident, used)) {
        return a->error.status;
    }
    spend(m, EMU_RECONFIG,
          a->clock.pdi_ns + a->clock.pdi_command_ns * a->cdo_commands +
              a->clock.pdi_word_ns * a->cdo_words);
    return ST_OK;
}

// Tokens that the last dispatch did not wait for are gone, and shim channels are cold.
static void forget_dispatch(struct array * a) {
    for (int col = 0; col < a->columns; col++) {
        for (uint32_t left = a->used[col]; left; left &= left - 1) {
            struct channel * c = a->by_bit[col][__builtin_ctz(left)];
            c->tokens = 0;
            c->tasks = 0;
        }
    }
}

static void count(struct emu_machine * m) {
    struct array * a = m->array;
    m->counters.dispatches++;
    m->counters.stream_words = a->stream_words;
    m->counters.runs = a->runs;
    for (int i = 0; i < a->columns * ARRAY_ROWS; i++) {
        if (a->tiles[i].core) {
            tile_core_count(&a->tiles[i], &m->counters);
        }
    }
}

enum status emu_machine_run(struct emu_machine * m, const uint8_t * pdi, size_t pdi_size,
                            const uint32_t * insts, size_t n_insts,
                            const struct emu_operand * operands, int n_operands,
                            struct error * err) {
    struct array * a = m->array;
    struct error local = {ST_OK, ""};
    m->counters.last_account = (struct emu_account){0};
    array_pool_begin(a);
    if (txn_loads_pdi(insts, n_insts)) { // also when it is the resident one
        free(m->resident);
        m->resident = NULL;
    }
    enum status st = load(m, pdi, pdi_size, &local);
    if (st == ST_OK) {
        struct emu_account * last = &m->counters.last_account;
        struct emu_account outside = *last;
        uint64_t bank_stalls = m->counters.bank_stalls, start = a->now;
        *last = (struct emu_account){0};
        forget_dispatch(a);
        order_begin(a);
        bool ok = txn_start(a, insts, n_insts, operands, n_operands) && play(m) && settle(a);
        st = ok ? ST_OK : a->error.status;
        m->counters.last_ended = a->txn.words ? a->txn.words[2] - a->txn.ops_left : 0;
        a->txn = (struct txn){.time = NEVER}; // the caller's memory is not ours any more
        array_cores_join(a);
        count(m);
        account_close(a, last, m->counters.last_cycles, m->counters.bank_stalls - bank_stalls);
        spend(m, EMU_HOST, a->clock.dispatch_ns);
        for (int i = 0; i < EMU_CAUSES; i++) {
            last->cycles[i] += outside.cycles[i];
            m->counters.account.cycles[i] += last->cycles[i];
        }
        array_event(a, EMU_EVENT_DISPATCH, NULL, "dispatch", start,
                    start + m->counters.last_cycles);
    }
    if (st != ST_OK) {
        const struct error * cause = a->failed ? &a->error : &local;
        if (err) {
            *err = *cause;
        }
        free(m->resident);
        m->resident = NULL;
        array_reset(a);
    }
    return st;
}
