// array-dma: the DMA channels. A channel takes tasks from its queue; a task walks a chain of buffer
// descriptors, a descriptor is latched when its transfer starts, takes its lock, moves its words
// (array-burst.c) and gives its lock back. Where a transfer may go is checked once, for the exact
// set of words that it touches, before the first word moves.
//
// When a descriptor's words may start is decided here, from the clock's figures: behind the one
// before it, behind the release of its lock, behind the start-up of its task, and at the shim
// behind host memory's turn. Channels ask for these in the order of time.
#include "emu/aie/array-model.h"

#include <inttypes.h>
#include <string.h>

enum { MEM_BD_HALF = 24 }; // memtile: even channels use descriptors 0-23, odd ones 24-47

static bool fail(struct channel * c, enum status st, const char * what) {
    const struct tile * t = c->tile;
    return array_fail(t->array, st, "%s tile (%d,%d) %s%d BD %d: %s", tile_traits[t->kind].name,
                      t->col, t->row, dir_name(c->dir), c->index, c->bd_id, what);
}

// ---- registers ----

static bool bd_fits_channel(const struct channel * c, int bd) {
    const struct tile * t = c->tile;
    if (bd >= tile_traits[t->kind].bds) {
        return false;
    }
    return t->kind != TILE_MEM || (bd >= MEM_BD_HALF) == (c->index & 1);
}

bool channel_push(struct channel * c, uint32_t word) {
    struct tile * t = c->tile;
    uint32_t bd = bits(word, 5, 0);
    const char * why = NULL;
    if (word & 0x7f00ffc0u) {
        why = "bits that have no meaning are set";
    } else if (!bd_fits_channel(c, (int) bd)) {
        why = "this channel cannot use that descriptor";
    } else if (t->kind != TILE_SHIM && (c->control & 2)) {
        why = "the channel is held in reset";
    } else if (c->queued == DMA_QUEUE_DEPTH) {
        why = "the queue is full (4 tasks); wait for a token before pushing more";
    }
    if (why) {
        return array_fail(t->array, ST_DEVICE, "%s tile (%d,%d) %s%d: task 0x%08x: %s",
                          tile_traits[t->kind].name, t->col, t->row, dir_name(c->dir), c->index,
                          word, why);
    }
    struct task * task = &c->queue[c->queued++];
    channel_used(c);
    task->bd = (uint8_t) bd;
    task->runs = (uint16_t) (bits(word, 23, 16) + 1);
    task->token = (uint8_t) bits(word, 31, 31);
    task->synced = t->array->syncs;
    channel_try(c);
    return true;
}

void channel_reset(struct channel * c) {
    c->queued = 0;
    c->state = CHANNEL_IDLE;
    c->waiting = NEVER;
    shim_tell(c);
    if (c->dir == DMA_S2MM) {
        sink_reset(&c->sink);
    } else {
        source_reset(&c->source);
    }
    channel_sleep(c);
}

bool channel_control(struct channel * c, uint32_t value) {
    struct tile * t = c->tile;
    uint32_t known = t->kind == TILE_SHIM ? 0xff00 : 0xff02; // controller id, reset
    // Bit 0 says nothing; PDIs write it there under no mask, and it may come through.
    value &= t->kind == TILE_SHIM ? UINT32_MAX : ~1u;
    if (value & ~known) {
        return array_fail(
            t->array, ST_UNSUPPORTED,
            "%s tile (%d,%d) %s%d: control 0x%08x asks for something that is not modelled "
            "(pause, out of order, compression or finish on tlast)",
            tile_traits[t->kind].name, t->col, t->row, dir_name(c->dir), c->index, value);
    }
    c->control = value;
    channel_used(c);
    c->token_way = 0;
    if (t->kind != TILE_SHIM && (value & 2)) {
        channel_reset(c);
    }
    return true;
}

// ---- descriptors ----

// Is it among those that a chain leads to?
static bool leads_to(const struct tile * t, int from, int bd) {
    int left = tile_traits[t->kind].bds;
    for (bool more = true; more && left && from != bd; left--) {
        struct bd at;
        bd_decode(t->kind, t->bds[from], &at);
        more = at.use_next && at.next < tile_traits[t->kind].bds;
        from = more ? at.next : from;
    }
    return from == bd;
}

static bool is_to_be_latched(const struct channel * c, int bd) {
    bool is = false;
    for (int i = 0; i < c->queued; i++) {
        is |= leads_to(c->tile, c->queue[i].bd, bd);
    }
    if (c->state != CHANNEL_IDLE) {
        is |= c->task.runs > 1 && leads_to(c->tile, c->task.bd, bd);
        is |= c->bd.use_next && leads_to(c->tile, c->bd.next, bd);
    }
    return is;
}

// What a channel has queued it latches when its turn comes, sooner or later than here.
bool bd_may_change(struct tile * t, int bd) {
    bool ok = true;
    for (int i = 0; i < 2 * tile_traits[t->kind].channels && ok && t->array->config.strict; i++) {
        const struct channel * c = &t->channels[i % 2][i / 2];
        ok = !is_to_be_latched(c, bd) ||
             array_fail(t->array, ST_DEVICE,
                        "%s tile (%d,%d): BD %d is written while %s%d still has a task for it",
                        tile_traits[t->kind].name, t->col, t->row, bd, dir_name(c->dir), c->index);
    }
    return ok;
}

static bool locate(struct channel * c, uint64_t address, uint64_t bytes) {
    struct tile * t = c->tile;
    struct array * a = t->array;
    if (t->kind == TILE_SHIM) {
        c->base = a->config.resolve(a->config.user, address, bytes, c->dir == DMA_S2MM);
        if (c->base) {
            return true;
        }
        int operand = -1;
        for (int i = 0; i < a->txn.n_operands; i++) {
            uint64_t first = a->txn.operands[i].addr;
            if (first <= address && (operand < 0 || first > a->txn.operands[operand].addr)) {
                operand = i;
            }
        }
        return array_fail(a, ST_DEVICE,
                          "shim tile (%d,0) %s%d BD %d: 0x%" PRIx64 " bytes at 0x%" PRIx64
                          " lie in no allocation (nearest operand below: %d at 0x%" PRIx64 ")",
                          t->col, dir_name(c->dir), c->index, c->bd_id, bytes, address, operand,
                          operand < 0 ? 0 : a->txn.operands[operand].addr);
    }
    // A memtile's descriptors see three memories: west, own, east.
    uint64_t size = tile_traits[t->kind].memory_bytes, window = address / size;
    struct tile * owner = t;
    uint64_t offset = address;
    if (t->kind == TILE_MEM) {
        owner = window > 2 ? NULL : array_tile(a, t->col - 1 + (int) window, t->row);
        offset -= window * size;
    }
    if (!owner || offset > size || bytes > size - offset) {
        return array_fail(a, ST_DEVICE,
                          "%s tile (%d,%d) %s%d BD %d: 0x%" PRIx64 " bytes at 0x%" PRIx64
                          " leave the tile's memory",
                          tile_traits[t->kind].name, t->col, t->row, dir_name(c->dir), c->index,
                          c->bd_id, bytes, address);
    }
    if (c->dir == DMA_S2MM) {
        tile_touch(owner, offset + bytes);
    }
    c->base = owner->memory + offset;
    return true;
}

static bool check(struct channel * c, const struct bd * bd) {
    struct tile * owner;
    int lock;
    if (!bd->valid) {
        return fail(c, ST_DEVICE, "the descriptor is not valid (valid bit 0)");
    }
    if (bd->length == 0) {
        return fail(c, ST_DEVICE, "the descriptor's length is 0");
    }
    if (bd->compressed) {
        return fail(c, ST_UNSUPPORTED, "compression is not modelled");
    }
    if (bd->out_of_order_id) {
        return fail(c, ST_UNSUPPORTED, "out-of-order transfers are not modelled");
    }
    for (int d = 0; d < 3; d++) {
        if ((bd->before[d] || bd->after[d]) && bd->wrap[d] == 0) {
            return fail(c, ST_DEVICE, "zero padding in a dimension that has no wrap");
        }
    }
    if ((bd->acquire_enable && !lock_of_channel(c, bd->acquire_id, &owner, &lock)) ||
        (bd->release_value && !lock_of_channel(c, bd->release_id, &owner, &lock))) {
        return fail(c, ST_DEVICE, "names a lock that does not exist");
    }
    return true;
}

// Latches a descriptor. Those of tiles are used again and again and are decoded once; at the shim
// each use is another one, as a rule.
static bool begin(struct channel * c) {
    struct tile * t = c->tile;
    uint64_t bit = UINT64_C(1) << c->bd_id;
    if (!bd_fits_channel(c, c->bd_id)) {
        return fail(c, ST_DEVICE, "this channel cannot use that descriptor");
    }
    uint32_t * words = t->bds[c->bd_id];
    struct bd * known = &t->decoded[c->bd_id];
    if (!(t->known_bds & bit)) {
        bd_decode(t->kind, words, known);
        if (!check(c, known)) {
            return false;
        }
        known->bytes = walk_bytes(known);
        t->known_bds |= t->kind == TILE_SHIM ? 0 : bit;
    }
    struct bd * bd = &c->bd;
    *bd = *known;
    if (bd->pads && c->dir == DMA_S2MM) {
        return fail(c, ST_DEVICE, "zero padding belongs to MM2S channels only");
    }
    uint64_t start = (uint64_t) bd->iter_current * bd->iter_step * 4;
    if (!locate(c, bd->address + start, bd->bytes)) {
        return false;
    }
    known->iter_current = bd->iter_current + 1 >= bd->iter_wrap ? 0 : bd->iter_current + 1;
    bd_store_iteration(t->kind, words, known->iter_current);
    walk_begin(c);
    ddr_begin(c);
    c->header_due = bd->packet && c->dir == DMA_MM2S;
    c->state = CHANNEL_ACQUIRE;
    shim_tell(c);
    return true;
}

uint32_t packet_header(const struct channel * c) {
    return odd_parity(c->bd.packet_id | (uint32_t) c->bd.packet_type << 12 |
                      (uint32_t) c->tile->row << 16 | (uint32_t) c->tile->col << 21);
}

// ---- the end of a descriptor ----

// A token is a one-word packet from the tile's control port; without a way to the firmware it never
// arrives, and whoever waits for it hangs on silicon.
static void send_token(struct channel * c) {
    struct tile * t = c->tile;
    uint32_t controller = bits(c->control, 15, 8);
    struct route r = {.to_firmware = c->token_way == t->array->generation};
    if (!r.to_firmware) {
        route_trace(t, t->control.out.slave, (int) (controller & 31), &r);
    }
    if (!r.to_firmware) {
        array_fail(
            t->array, ST_DEVICE,
            "no token route in column %d: %s tile (%d,%d) %s%d issues a token with controller id "
            "%u, but its control port leads nowhere (%s)",
            t->col, tile_traits[t->kind].name, t->col, t->row, dir_name(c->dir), c->index,
            controller, r.dead_end ? r.dead_end : "no way to South0 of the shim");
        return;
    }
    struct array * a = t->array;
    c->token_way = a->generation;
    uint32_t place = c->tokens < DMA_TOKENS ? c->tokens : DMA_TOKENS - 1;
    c->token_ready[place] = a->now + a->clock.token;
    c->tokens++;
    if (a->txn.waiting) {
        a->txn.time = a->now + 1;
    } else if (a->txn.time != NEVER) { // the controller looks at the token first
        a->txn.time += a->clock.txn_token;
    }
}

static const char words_moved[] = "words";

static void tell(const struct channel * c, const char * what, uint64_t start, uint64_t end) {
    const struct array * a = c->tile->array;
    bool moved = what == words_moved;
    if (a->config.event && end > start) {
        struct emu_event e = {.kind = moved ? EMU_EVENT_DMA : EMU_EVENT_DMA_WAIT,
                              .col = c->tile->col,
                              .row = c->tile->row,
                              .channel = c->index + (c->dir == DMA_MM2S ? 16 : 0),
                              .what = what,
                              .start = start,
                              .end = end,
                              .words = moved ? c->bd.length : 0};
        a->config.event(a->config.user, &e);
    }
}

// A sending channel has fetched its last words before they leave, and gives its lock back then. In
// the model it does so with its last word, and only times know better: nobody can overwrite what it
// has not sent.
static uint64_t fetched_ahead(const struct channel * c) {
    const struct array * a = c->tile->array;
    uint32_t words = c->bd.length < a->clock.fifo_out ? c->bd.length : a->clock.fifo_out;
    bool ahead = c->dir == DMA_MM2S && c->tile->kind != TILE_SHIM;
    return ahead ? cycle_of(a, words) + a->clock.fetch : 0;
}

void channel_finish(struct channel * c) {
    struct array * a = c->tile->array;
    channel_event(c, NEVER, REQUEST_NONE);
    if (c->taken != NEVER) { // the first descriptor of a shim's task
        tell(c, "start-up", c->taken, cycle_of(a, c->started));
        c->taken = NEVER;
    }
    tell(c, words_moved, cycle_of(a, c->first), a->now + 1);
    for (int i = 0; c->tile->kind == TILE_CORE && i < 8; i++) {
        c->tile->dma_granules[i] += c->granules[i];
    }
    if (c->dir == DMA_MM2S && !c->bd.suppress_tlast) {
        source_close(&c->source);
    }
    if (c->bd.release_value) {
        struct tile * owner;
        int lock;
        lock_of_channel(c, c->bd.release_id, &owner, &lock);
        if (lock_release(owner, lock, c->bd.release_value) < 0) {
            return;
        }
        order_ended(c);
        uint64_t ahead = fetched_ahead(c), *raised = &owner->lock_raised[lock];
        *raised -= ahead < *raised ? ahead : *raised;
    }
    c->earliest = a->now + 1 + a->clock.bd_gap;
    channel_try(c);
    if (c->bd.use_next) {
        c->bd_id = c->bd.next;
        begin(c);
    } else if (--c->task.runs) {
        c->bd_id = c->task.bd;
        begin(c);
    } else {
        c->state = CHANNEL_IDLE;
        shim_tell(c);
        if (c->task.token) {
            send_token(c);
        }
    }
}

// ---- the start of a descriptor ----

// How long memory keeps a transfer waiting: that of the host as long as it likes.
static uint32_t delay(const struct channel * c) {
    struct array * a = c->tile->array;
    if (!a->config.strict) {
        return 0;
    }
    a->noise = a->noise * 1664525 + 1013904223;
    return (a->noise >> 16) % (c->tile->kind == TILE_SHIM ? 256 : 16);
}

static uint32_t start_up(struct channel * c) {
    const struct emu_clock * clock = &c->tile->array->clock;
    bool out = c->dir == DMA_MM2S;
    if (c->tile->kind != TILE_SHIM) {
        return clock->task_start;
    }
    uint32_t cold = out ? clock->mm2s_cold : clock->s2mm_cold;
    for (uint32_t i = 0; i < c->tasks && cold; i++) {
        cold = cold * (out ? clock->mm2s_decay : clock->s2mm_decay) / 1000;
    }
    c->tasks++;
    return cold + (out ? clock->mm2s_steady : clock->s2mm_steady);
}

// When the lock that was taken just now was open to the channel: at once if it has not waited and
// the last release was not needed. A channel that waited was let in by the last release, or just
// now by someone who took from a lock that it wants to have a certain value.
static uint64_t open_since(const struct channel * c, const struct tile * owner, int lock) {
    const struct array * a = c->tile->array;
    int value = c->bd.acquire_value, take = value < 0 ? -value : value;
    uint64_t raised = owner->lock_raised[lock];
    if (c->waiting != NEVER) {
        uint64_t ahead = cycle_of(a, a->clock.fifo_out) + a->clock.fetch;
        return raised + ahead < a->now ? a->now : raised;
    }
    return value < 0 && owner->lock_before[lock] >= take ? 0 : raised;
}

static void try_acquire(struct channel * c) {
    struct array * a = c->tile->array;
    const struct emu_clock * clock = &a->clock;
    uint64_t start = c->earliest > a->now ? c->earliest : a->now + 1;
    if (c->bd.acquire_enable) {
        struct tile * owner;
        int lock;
        lock_of_channel(c, c->bd.acquire_id, &owner, &lock);
        if (!lock_acquire(owner, lock, c->bd.acquire_value)) {
            c->waiting = c->waiting == NEVER ? a->now + 1 : c->waiting;
            lock_wait(c, owner, lock);
            return;
        }
        uint64_t since = open_since(c, owner, lock);
        c->task.synced = a->syncs; // what was written before the lock was given back is there
        uint64_t lag = c->dir == DMA_S2MM          ? clock->lock_to_s2mm
                       : c->tile->kind == TILE_MEM ? clock->mem_to_mm2s
                                                   : clock->lock_to_mm2s;
        if (since && c->dir == DMA_S2MM) { // perhaps of a time that is over
            start = since + lag > c->earliest ? since + lag : c->earliest;
        } else if (since && since + lag > start) {
            start = since + lag;
        }
        if (c->waiting != NEVER) {
            tell(c, "lock", c->waiting, start < a->now ? start : a->now);
            c->waiting = NEVER;
            a->locked[c->tile->col] &= ~(1u << c->bit);
        }
    }
    c->state = CHANNEL_RUN;
    c->next = ticks(a, start + delay(c));
    c->started = c->next;
    ddr_first_burst(c);
    shim_tell(c);
    channel_wake(c);
}

static bool next_task(struct channel * c) {
    if (c->queued == 0) {
        return false;
    }
    c->task = c->queue[0];
    c->queued--;
    memmove(&c->queue[0], &c->queue[1], c->queued * sizeof(c->queue[0]));
    c->bd_id = c->task.bd;
    c->earliest = c->tile->array->now + start_up(c);
    c->taken = c->tile->kind == TILE_SHIM ? c->tile->array->now + 1 : NEVER;
    order_task(c);
    return begin(c);
}

// ---- in the middle ----

static void ask_way(struct channel * c) {
    struct array * a = c->tile->array;
    channel_event(c, NEVER, REQUEST_WAY);
    if (source_way(&c->source, c->header_due ? packet_header(c) : walk_peek(c))) {
        uint64_t start = ticks(a, a->now + 1);
        c->next = c->next > start ? c->next : start;
        c->request = REQUEST_NONE;
        channel_wake(c);
    }
}

void channel_ask(struct channel * c) {
    if (c->state == CHANNEL_RUN) {
        // A task that is queued meanwhile wakes it, too, before the time of what it asks for.
        if (c->event != NEVER) {
            return;
        }
        if (c->request == REQUEST_WAY) {
            ask_way(c);
        } else if (c->request == REQUEST_BURST) {
            ddr_ask_burst(c);
        }
        return;
    }
    if (c->state == CHANNEL_ACQUIRE || next_task(c)) {
        try_acquire(c);
    }
}
