// array-core: lends a core its surroundings (four data memories, four sets of locks, its stream
// ports and the cascade) and decides when it runs. A core that cannot go on is asked again only
// when what it waits for has changed.
#include "emu/aie/array-model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// How far a core may run ahead without meeting the outside before the array looks at its clock
// again; bounds the time until an endless loop is noticed. The first cycles are run at once: a way
// that is over by then is not worth handing to another thread.
enum { CORE_RUN_AHEAD = 65536, CORE_RUN_FIRST = 256, CORE_RUN_WORTH = 1000 };

enum { CORE_ENABLE = 1, CORE_RESET = 2 };
enum { CASCADE_FROM_WEST = 1, CASCADE_TO_EAST = 2 };

// Neighbours in the order of both the address windows (0x40000, ...) and the lock numbers (0-15,
// ...).
static const struct {
    int8_t cols, rows;
} windows[4] = {{0, -1}, {-1, 0}, {0, +1}, {0, 0}}; // south, west, north, own

static struct tile * window_tile(struct tile * t, uint32_t window) {
    struct tile * n =
        array_tile(t->array, t->col + windows[window].cols, t->row + windows[window].rows);
    return n && n->kind == TILE_CORE ? n : NULL;
}

static uint8_t * env_memory(void * user, uint32_t addr, uint32_t len) {
    if (addr < 0x40000 || addr > 0x7ffff) {
        return NULL;
    }
    struct tile * owner = window_tile(user, addr >> 16 & 3);
    uint32_t offset = addr & 0xffff;
    if (!owner || len > 0x10000 - offset) {
        return NULL;
    }
    return owner->memory + offset;
}

static int blocked(struct tile * t, enum core_wait wait, int id, int value) {
    t->wait = wait;
    t->wait_id = id;
    t->wait_value = value;
    return 0;
}

// The tile and number of a lock as the core names it; NULL when there is none, or when the value is
// one that no lock can ever have.
static struct tile * lock_owner(struct tile * t, const char * verb, int id, int value) {
    struct tile * owner = id < 0 || id > 63 ? NULL : window_tile(t, (uint32_t) id / 16);
    if (owner && (value < -LOCK_MAX || value > LOCK_MAX)) {
        array_fail(t->array, ST_DEVICE,
                   "core tile (%d,%d) pc 0x%x %s lock %d by %d: locks are 0..%d", t->col, t->row,
                   core_pc(t->core), verb, id, value, LOCK_MAX);
        return NULL;
    }
    return owner;
}

static int env_acquire(void * user, int id, int value) {
    struct tile * t = user;
    struct tile * owner = lock_owner(t, "acquires", id, value);
    if (!owner) {
        return -1;
    }
    return lock_acquire(owner, id % 16, value) ? 1 : blocked(t, WAIT_LOCK, id, value);
}

static int env_release(void * user, int id, int value) {
    struct tile * owner = lock_owner(user, "releases", id, value);
    return owner ? lock_release(owner, id % 16, value) : -1;
}

static int env_stream_read(void * user, uint32_t * word, bool * tlast) {
    struct tile * t = user;
    return sink_pop(&t->core_in, word, tlast) ? 1 : blocked(t, WAIT_STREAM_IN, 0, 0);
}

static int env_stream_write(void * user, uint32_t word, bool tlast) {
    struct tile * t = user;
    if (source_push(&t->core_out, word, tlast)) {
        return 1;
    }
    if (t->core_out.ticket) { // in line for an arbiter: ask every cycle
        tile_core_wake(t, t->array->now + 1);
    }
    return blocked(t, WAIT_STREAM_OUT, 0, 0);
}

static int env_cascade_read(void * user, uint8_t bits512[64]) {
    struct tile * t = user;
    if (t->cascade_count == 0) {
        return blocked(t, WAIT_CASCADE_IN, 0, 0);
    }
    memcpy(bits512, t->cascade[t->cascade_head], 64);
    t->cascade_head = (t->cascade_head + 1) % CASCADE_DEPTH;
    t->cascade_count--;
    bool west = t->cascade_control & CASCADE_FROM_WEST;
    struct tile * from = array_tile(t->array, t->col - west, t->row + !west);
    if (from && from->wait == WAIT_CASCADE_OUT) {
        tile_core_wake(from, t->array->now + 1);
    }
    return 1;
}

static int env_cascade_write(void * user, const uint8_t bits512[64]) {
    struct tile * t = user;
    bool east = t->cascade_control & CASCADE_TO_EAST;
    struct tile * to = array_tile(t->array, t->col + east, t->row - !east);
    bool listens =
        to && to->kind == TILE_CORE && !!(to->cascade_control & CASCADE_FROM_WEST) == east;
    if (!listens || to->cascade_count == CASCADE_DEPTH) {
        return blocked(t, WAIT_CASCADE_OUT, 0, 0);
    }
    memcpy(to->cascade[(to->cascade_head + to->cascade_count) % CASCADE_DEPTH], bits512, 64);
    to->cascade_count++;
    if (to->wait == WAIT_CASCADE_IN) {
        tile_core_wake(to, t->array->now + 1);
    }
    return 1;
}

static int env_tile_read(void * user, uint32_t offset, uint32_t * value) {
    return tile_reg_read(user, offset, value) ? 1 : -1;
}

static int env_tile_write(void * user, uint32_t offset, uint32_t value) {
    return tile_reg_write(user, offset, value) ? 1 : -1;
}

static void env_trace(void * user, uint64_t cycle, uint32_t pc, const char * text) {
    const struct tile * t = user;
    const struct emu_config * config = &t->array->config;
    char line[256];
    snprintf(line, sizeof(line), "%10" PRIu64 " (%d,%d) %04x  %s", cycle, t->col, t->row, pc, text);
    config->trace(config->user, line);
}

enum status tile_core_new(struct tile * t) {
    const struct emu_config * config = &t->array->config;
    struct core_env env = {
        .user = t,
        .memory = env_memory,
        .acquire = env_acquire,
        .release = env_release,
        .stream_read = env_stream_read,
        .stream_write = env_stream_write,
        .cascade_read = env_cascade_read,
        .cascade_write = env_cascade_write,
        .tile_read = env_tile_read,
        .tile_write = env_tile_write,
        .cache = t->array->programs,
        .bank_bit = t->array->clock.bank_bit,
        .lock_stall = t->array->clock.lock_stall,
        .single = config->single_cycles,
        .strict = config->strict,
        .plant_op = config->plant.op,
        .plant_as = config->plant.as,
        .ieee = config->adder == EMU_ADDER_IEEE,
        .seed = (uint32_t) (t->col * ARRAY_ROWS + t->row),
    };
    if (config->trace && t->col == config->trace_col && t->row == config->trace_row) {
        env.trace = env_trace;
    }
    return core_new(config->arch, &env, &t->core);
}

static uint64_t * core_wake(struct tile * t) {
    return &t->array->core_wake[t->col * ARRAY_ROWS + t->row];
}

static void forget(struct tile * t) {
    *core_wake(t) = NEVER;
    t->wait = WAIT_NONE;
}

// Counts the core among those that are on and those that wait, or no longer.
static void stands(struct tile * t, int sign) {
    enum core_state state = core_get_state(t->core);
    t->array->cores_on += state == CORE_READY || state == CORE_BLOCKED ? sign : 0;
    t->array->cores_waiting += state == CORE_BLOCKED ? sign : 0;
}

// How many of a thousand meetings with a DMA channel in a bank the core loses. A core that leaves
// gaps meets a channel that takes its turn; one that leaves none is asked to wait only when the
// channel's FIFO runs out.
static uint64_t lost_share(const struct emu_clock * clock, uint64_t density) {
    uint64_t sparse = clock->dma_wins_sparse, dense = clock->dma_wins_dense;
    return density <= 500    ? sparse
           : density >= 1000 ? dense
                             : sparse - (sparse - dense) * (density - 500) / 500;
}

// What the core loses to DMA channels: they are played after the core ran ahead, so that it pays
// when it comes to its next meeting. charge false: the core stood still meanwhile.
static void meet_dma(struct tile * t, bool charge) {
    uint32_t hits[CORE_BANKS];
    uint64_t cycles = core_now(t->core) - t->bank_from;
    const struct emu_clock * clock = &t->array->clock;
    core_bank_hits(t->core, hits);
    for (uint32_t w = 0; w < 4; w++) {
        const struct tile * owner = window_tile(t, w);
        const uint32_t * own = &hits[4 * w];
        bool met = charge && cycles && (own[0] | own[1] | own[2] | own[3]);
        for (int i = 0; owner && i < 4; i++) {
            uint64_t granules = owner->dma_granules[2 * i] + owner->dma_granules[2 * i + 1];
            uint64_t fresh = granules - t->dma_seen[4 * w + (uint32_t) i];
            t->dma_seen[4 * w + (uint32_t) i] = granules;
            if (met && fresh && own[i]) {
                uint64_t halves =
                    (uint64_t) own[i] * 1000 / (2 * cycles); // accesses to each, in 1/1000
                t->bank_debt += fresh * halves * lost_share(clock, 2 * halves);
            }
        }
    }
    if (t->bank_debt >= 1000000) {
        core_lose_banks(t->core, t->bank_debt / 1000000);
        t->bank_debt %= 1000000;
    }
    t->bank_from = core_now(t->core);
}

void tile_core_reset(struct tile * t) {
    stands(t, -1);
    core_enable(t->core, false, t->array->now);
    core_reset(t->core);
    memset(core_program(t->core), 0, CORE_PM_BYTES);
    core_program_changed(t->core, 0, CORE_PM_BYTES);
    t->core_control = t->cascade_control = 0;
    t->cascade_head = t->cascade_count = 0;
    sink_reset(&t->core_in);
    source_reset(&t->core_out);
    forget(t);
}

// Where a core stores is not followed: all that it can reach counts.
static void touch_windows(struct tile * t) {
    for (uint32_t i = 0; i < 4; i++) {
        struct tile * owner = window_tile(t, i);
        if (owner) {
            tile_touch(owner, tile_traits[TILE_CORE].memory_bytes);
        }
    }
}

bool tile_core_control(struct tile * t, uint32_t value) {
    uint32_t old = t->core_control;
    if (value & ~(uint32_t) (CORE_ENABLE | CORE_RESET)) {
        return array_fail(
            t->array, ST_UNSUPPORTED,
            "core tile (%d,%d): core control 0x%08x has bits besides enable and reset", t->col,
            t->row, value);
    }
    t->core_control = value;
    stands(t, -1);
    if (value & CORE_RESET) {
        core_enable(t->core, false, t->array->now);
        core_reset(t->core);
        forget(t);
        return true;
    }
    bool ran = old == CORE_ENABLE, runs = value == CORE_ENABLE;
    if (ran != runs) {
        core_enable(t->core, runs, t->array->now);
        forget(t);
        if (runs) {
            touch_windows(t);
            tile_core_wake(t, t->array->now);
            meet_dma(t, false);
            t->core_since = t->array->now;
        }
    }
    stands(t, +1);
    return true;
}

void tile_core_wake(struct tile * t, uint64_t at) {
    struct array * a = t->array;
    if (at < *core_wake(t)) {
        *core_wake(t) = at;
    }
    if (at < a->next_core) {
        a->next_core = at;
    }
}

static void core_stopped(struct tile * t) {
    array_event(t->array, EMU_EVENT_CORE, t, "bundles", t->core_since, core_now(t->core));
    t->core_since = core_now(t->core);
}

static void fail_fault(struct tile * t) {
    core_stopped(t);
    array_fail(t->array, ST_DEVICE, "core tile (%d,%d): %s", t->col, t->row, core_fault(t->core));
}

// The core's meeting with the outside at this cycle, and what it does until the next one. A fault
// is reported when the array's clock comes to it.
void tile_core_run(struct tile * t) {
    struct array * a = t->array;
    static const char * const what[] = {"",           "lock",       "stream in",
                                        "stream out", "cascade in", "cascade out"};
    bool waited = core_get_state(t->core) == CORE_BLOCKED;
    enum core_wait wait = t->wait;
    forget(t);
    if (core_get_state(t->core) == CORE_FAULT) { // when it ran ahead; now is the time of it
        a->cores_on--;
        fail_fault(t);
        return;
    }
    if (waited) {
        core_advance(t->core, a->now);
        array_event(a, EMU_EVENT_WAIT, t, what[wait], t->core_since, a->now);
        t->core_since = a->now;
    }
    if (a->clock.bank_bit) {
        meet_dma(t, !waited);
        if (core_now(t->core) > a->now) { // comes later than it thought
            tile_core_wake(t, core_now(t->core));
            return;
        }
    }
    stands(t, -1);
    t->ran_from = a->now;
    uint64_t first = a->now + CORE_RUN_FIRST, limit = a->now + CORE_RUN_AHEAD;
    enum core_state state = core_run_on(t->core, a->now, first, limit);
    stands(t, +1);
    if (state == CORE_READY && core_now(t->core) > first) {
        // Handing it over costs about what so many cycles do; the last ones tell of this one.
        if (t->stretch >= CORE_RUN_WORTH && array_pool_add(t, limit)) {
            return;
        }
        state = core_run(t->core, a->now, limit);
        tile_core_came(t);
        return;
    }
    if (state == CORE_FAULT && core_now(t->core) > a->now) {
        a->cores_on++; // until then
    }
    if (state == CORE_READY || state == CORE_FAULT) {
        tile_core_came(t);
    } else {
        core_stopped(t);
    }
}

void tile_core_came(struct tile * t) {
    // Short ones between two locks do not count: the long one behind them is meant.
    uint64_t ran = core_now(t->core) - t->ran_from;
    t->stretch -= t->stretch / 16;
    t->stretch = ran > t->stretch ? ran : t->stretch;
    struct array * a = t->array;
    uint64_t next = core_now(t->core);
    if (core_get_state(t->core) == CORE_FAULT && next <= a->now) {
        fail_fault(t);
        return;
    }
    tile_core_wake(t, next > a->now ? next : a->now); // which is still to come for those ahead
}

bool array_fail_faults(struct array * a) {
    for (int i = 0; i < a->columns * ARRAY_ROWS && !a->failed; i++) {
        struct tile * t = &a->tiles[i];
        if (t->core && core_get_state(t->core) == CORE_FAULT) {
            fail_fault(t);
        }
    }
    return !a->failed;
}

void tile_core_count(struct tile * t, struct emu_counters * counters) {
    uint64_t bundles = core_bundles(t->core), stalls = core_stall_cycles(t->core);
    uint64_t banks = core_bank_stalls(t->core);
    // A reset starts the core's own counts again.
    counters->bundles += bundles - (bundles < t->bundles_seen ? 0 : t->bundles_seen);
    counters->core_stalls += stalls - (stalls < t->stalls_seen ? 0 : t->stalls_seen);
    counters->bank_stalls += banks - (banks < t->bank_stalls_seen ? 0 : t->bank_stalls_seen);
    t->bank_stalls_seen = banks;
    counters->stray_loads += core_stray_loads(t->core) - t->strays_seen;
    t->strays_seen = core_stray_loads(t->core);
    t->bundles_seen = bundles;
    t->stalls_seen = stalls;
}
