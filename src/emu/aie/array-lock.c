// array-lock: the semaphores that keep cores and DMA channels apart. A lock is a number from 0 to
// 63; taking it subtracts, giving it back adds, and a number outside that range is a broken design,
// never a wrap. Every change wakes those who may be waiting for it.
#include "emu/aie/array-model.h"

static uint32_t lock_key(const struct tile * owner, int id) {
    return (uint32_t) ((owner->col * ARRAY_ROWS + owner->row) * TILE_MAX_LOCKS + id);
}

void lock_wait(struct channel * c, const struct tile * owner, int id) {
    struct array * a = c->tile->array;
    a->locked[c->tile->col] |= 1u << c->bit;
    a->wanted[c->tile->col][c->bit] = lock_key(owner, id);
}

// A woken channel that finds its lock still closed goes back to sleep.
static void wake_channels(const struct tile * t, uint32_t key) {
    if (t) {
        struct array * a = t->array;
        for (uint32_t left = a->locked[t->col] & t->channel_bits; left; left &= left - 1) {
            int bit = __builtin_ctz(left);
            if (a->wanted[t->col][bit] == key) {
                channel_try(a->by_bit[t->col][bit]);
            }
        }
    }
}

static void wake_core(struct tile * t) {
    if (t && t->core && t->wait == WAIT_LOCK) {
        tile_core_wake(t, t->array->now + t->array->clock.lock_to_core);
    }
}

static void lock_changed(struct tile * t, int id) {
    struct array * a = t->array;
    uint32_t key = lock_key(t, id);
    wake_channels(t, key);
    if (t->kind == TILE_MEM) {
        wake_channels(array_tile(a, t->col - 1, t->row), key);
        wake_channels(array_tile(a, t->col + 1, t->row), key);
    } else if (t->kind == TILE_CORE) {
        // This tile is its own, the south of the tile above, the north of the one below, the west
        // of the one to the right.
        wake_core(t);
        wake_core(array_tile(a, t->col, t->row + 1));
        wake_core(array_tile(a, t->col, t->row - 1));
        wake_core(array_tile(a, t->col + 1, t->row));
    }
}

static void tell(const struct tile * t, int id) {
    const struct array * a = t->array;
    if (a->config.event) {
        struct emu_event e = {.kind = EMU_EVENT_LOCK,
                              .col = t->col,
                              .row = t->row,
                              .channel = id,
                              .what = "lock",
                              .start = a->now,
                              .end = a->now,
                              .words = (uint64_t) t->locks[id]};
        a->config.event(a->config.user, &e);
    }
}

static bool is_stuck(const struct tile * t, int id) {
    const struct emu_plant * p = &t->array->config.plant;
    return p->stuck && p->col == t->col && p->row == t->row && p->lock == id;
}

static void put(struct tile * t, int id, int value) {
    if (is_stuck(t, id)) {
        return;
    }
    t->lock_before[id] = t->locks[id];
    t->lock_raised[id] = t->array->now;
    t->locks[id] = (int8_t) value;
    tell(t, id);
    lock_changed(t, id);
}

int lock_acquire(struct tile * t, int id, int value) {
    int8_t * lock = &t->locks[id];
    int take = value < 0 ? -value : value;
    if (value < 0 ? *lock < take : *lock != take) {
        return 0;
    }
    *lock = (int8_t) (*lock - take);
    if (take) {
        tell(t, id);
        lock_changed(t, id);
    }
    return 1;
}

int lock_release(struct tile * t, int id, int value) {
    int next = t->locks[id] + value;
    if (next < 0 || next > LOCK_MAX) {
        array_fail(t->array, ST_DEVICE,
                   "lock %d of %s tile (%d,%d) %s: %d plus %d is outside 0..%d", id,
                   tile_traits[t->kind].name, t->col, t->row, next < 0 ? "underflows" : "overflows",
                   t->locks[id], value, LOCK_MAX);
        return -1;
    }
    put(t, id, next);
    return 1;
}

void lock_set(struct tile * t, int id, int value) {
    put(t, id, value);
}

// A memtile's descriptors number the locks of three tiles: west 0-63, own 64-127, east 128-191.
bool lock_of_channel(const struct channel * c, int id, struct tile ** owner, int * lock) {
    struct tile * t = c->tile;
    if (t->kind == TILE_MEM) {
        struct tile * from = id > 191 ? NULL : array_tile(t->array, t->col - 1 + id / 64, t->row);
        *owner = from;
        *lock = id % 64;
        return from != NULL;
    }
    *owner = t;
    *lock = id;
    return id < tile_traits[t->kind].locks;
}
