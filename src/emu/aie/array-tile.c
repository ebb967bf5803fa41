// array-tile: makes the grid of tiles, finds them and puts them back into the state after power-on.
// Every tile exists from the start with its full set of memory, locks and channels, so that nothing
// is allocated while the array runs.
#include "emu/aie/array-model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
const struct tile_traits tile_traits[TILE_KIND_COUNT] = {
    //              name       memory   locks bds bd_words channels masters slaves
    [TILE_SHIM] = { "shim",         0,     16, 16,       8,       2,     22,    23 },
    [TILE_MEM]  = { "memtile", 524288,     64, 48,       8,       6,     17,    18 },
    [TILE_CORE] = { "core",     65536,     16, 16,       6,       2,     23,    25 },
};

// The switch port at which a memory-to-stream channel enters: a DMA port, on the shim South3, 7.
static const uint8_t mm2s_slave[TILE_KIND_COUNT][TILE_MAX_CHANNELS] = {
    [TILE_SHIM] = { 5, 9 },
    [TILE_MEM]  = { 0, 1, 2, 3, 4, 5 },
    [TILE_CORE] = { 1, 2 },
};
// clang-format on

bool array_fail(struct array * a, enum status st, const char * fmt, ...) {
    if (!a->failed) { // the first error is the cause, later ones are its echo
        a->failed = true;
        a->error.status = st;
        va_list args;
        va_start(args, fmt);
        vsnprintf(a->error.text, sizeof(a->error.text), fmt, args);
        va_end(args);
    }
    return false;
}

static int first_channel_bit(const struct tile * t) {
    switch (t->kind) {
    case TILE_SHIM:
        return 0;
    case TILE_MEM:
        return 4;
    default:
        return 16 + 4 * (t->row - ARRAY_FIRST_CORE_ROW);
    }
}

// What the first bytes of a memory hold after power-on; when strict, something else each time.
static void fresh_memory(struct tile * t, uint32_t bytes) {
    if (!t->array->config.strict) {
        memset(t->memory, 0, bytes);
        return;
    }
    uint64_t place = (uint64_t) (t->col * ARRAY_ROWS + t->row + 1) << 40;
    core_garbage(t->memory, bytes, place + t->garbage++);
}

static enum status tile_init(struct array * a, struct tile * t, int col, int row) {
    t->array = a;
    t->col = col;
    t->row = row;
    t->kind = row == 0 ? TILE_SHIM : row < ARRAY_FIRST_CORE_ROW ? TILE_MEM : TILE_CORE;
    const struct tile_traits * traits = &tile_traits[t->kind];
    if (traits->memory_bytes) {
        t->memory = malloc(traits->memory_bytes);
        if (!t->memory) {
            return ST_NO_MEMORY;
        }
        fresh_memory(t, traits->memory_bytes);
    }
    int bit = first_channel_bit(t);
    t->channel_bits = ((1u << 2 * traits->channels) - 1) << bit;
    for (int dir = DMA_S2MM; dir <= DMA_MM2S; dir++) {
        for (int i = 0; i < traits->channels; i++) {
            struct channel * c = &t->channels[dir][i];
            c->tile = t;
            c->dir = (enum dma_dir) dir;
            c->index = (uint8_t) i;
            c->bit = (uint8_t) bit++;
            a->by_bit[col][c->bit] = c;
            c->event = c->look = c->waiting = NEVER;
            if (c->dir == DMA_S2MM) {
                sink_init(&c->sink, t, c);
            } else {
                source_init(&c->source, t, c, mm2s_slave[t->kind][i]);
            }
        }
    }
    control_init(&t->control, t);
    if (t->kind == TILE_CORE) {
        sink_init(&t->core_in, t, NULL);
        source_init(&t->core_out, t, NULL, 0);
        return tile_core_new(t);
    }
    return ST_OK;
}

static void tile_reset(struct tile * t) {
    if (t->memory) {
        fresh_memory(t, t->touched);
    }
    t->touched = 0;
    memset(t->locks, 0, sizeof(t->locks));
    memset(t->lock_before, 0, sizeof(t->lock_before));
    memset(t->lock_raised, 0, sizeof(t->lock_raised));
    memset(t->bds, 0, sizeof(t->bds));
    t->known_bds = 0;
    memset(t->master, 0, sizeof(t->master));
    memset(t->slave, 0, sizeof(t->slave));
    memset(t->slots, 0, sizeof(t->slots));
    t->mux = t->demux = 0;
    struct array * a = t->array;
    for (uint32_t left = a->used[t->col] & t->channel_bits; left; left &= left - 1) {
        struct channel * c = a->by_bit[t->col][__builtin_ctz(left)];
        channel_reset(c);
        c->control = 0;
        c->tokens = 0;
    }
    a->used[t->col] &= ~t->channel_bits;
    control_reset(&t->control);
    if (t->core) {
        tile_core_reset(t);
    }
}

void array_reset(struct array * a) {
    array_cores_join(a);
    for (int i = 0; i < a->columns * ARRAY_ROWS; i++) {
        tile_reset(&a->tiles[i]);
    }
    a->cores_on = a->cores_waiting = 0;
    memset(a->awake, 0, sizeof(a->awake));
    memset(a->trying, 0, sizeof(a->trying));
    a->switch_changed = false;
    memset(a->arbiters, 0, sizeof(a->arbiters));
    a->txn = (struct txn){.time = NEVER};
    a->next_core = a->next_control = NEVER;
    a->generation++;
    a->failed = false;
}

enum status array_new(const struct emu_config * config, struct array ** out, struct error * err) {
    if (config->columns < 1 || config->columns > ARRAY_MAX_COLUMNS) {
        return error_set(err, ST_INVALID, "array of %d columns: 1 to %d are possible",
                         config->columns, ARRAY_MAX_COLUMNS);
    }
    int threads;
    enum status valid = array_pool_setting(config, &threads, err);
    if (valid != ST_OK) {
        return valid;
    }
    struct array * a = calloc(1, sizeof(*a));
    if (a) {
        a->tiles = calloc((size_t) config->columns * ARRAY_ROWS, sizeof(*a->tiles));
        a->programs = core_cache_new(CORE_CACHE_BYTES);
    }
    if (!a || !a->tiles || !a->programs || (config->strict && !order_new(a))) {
        array_free(a);
        return error_set(err, ST_NO_MEMORY, "array of %d columns: out of memory", config->columns);
    }
    a->config = *config;
    a->clock = config->clock ? *config->clock : *emu_clock_default(config->arch);
    a->columns = config->columns;
    a->generation = 1;
    a->next_core = a->next_wake = a->next_control = a->horizon = NEVER;
    a->threads = threads;
    memset(a->wake, 0xff, sizeof(a->wake)); // NEVER
    memset(a->column_wake, 0xff, sizeof(a->column_wake));
    memset(a->core_wake, 0xff, sizeof(a->core_wake));
    memset(a->control_wake, 0xff, sizeof(a->control_wake));
    while (1u << a->tick_shift < a->clock.stream_words) {
        a->tick_shift++;
    }
    for (int i = 0; i < a->columns * ARRAY_ROWS; i++) {
        enum status st = tile_init(a, &a->tiles[i], i / ARRAY_ROWS, i % ARRAY_ROWS);
        if (st != ST_OK) {
            error_set(err, st, "tile (%d,%d) of the array: %s", i / ARRAY_ROWS, i % ARRAY_ROWS,
                      status_name(st));
            array_free(a);
            return st;
        }
    }
    *out = a;
    return ST_OK;
}

void array_free(struct array * a) {
    if (!a) {
        return;
    }
    array_pool_free(a); // no core runs between dispatches
    for (int i = 0; i < a->columns * ARRAY_ROWS; i++) {
        struct tile * t = &a->tiles[i];
        for (int j = 0; j < TILE_MAX_CHANNELS; j++) {
            source_free(&t->channels[DMA_S2MM][j].source);
            source_free(&t->channels[DMA_MM2S][j].source);
        }
        source_free(&t->core_out);
        source_free(&t->control.out);
        core_free(t->core);
        free(t->memory);
    }
    core_cache_free(a->programs);
    order_free(a);
    free(a->tiles);
    free(a);
}
