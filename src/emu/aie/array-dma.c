// array-dma: the DMA channels. A channel takes tasks from its queue; a task walks a chain of buffer
// descriptors, a descriptor is latched when its transfer starts, takes its lock, moves one word a
// cycle and gives its lock back. Where a transfer may go is checked once, for the exact set of
// words that it touches, before the first word moves.
#include "emu/aie/array-model.h"

#include <inttypes.h>
#include <string.h>

enum { MEM_BD_HALF = 24 }; // memtile: even channels use descriptors 0-23, odd ones 24-47

static const uint8_t control_slave[TILE_KIND_COUNT] = {
    [TILE_SHIM] = 0, [TILE_MEM] = 6, [TILE_CORE] = 3};

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
    task->bd = (uint8_t) bd;
    task->runs = (uint16_t) (bits(word, 23, 16) + 1);
    task->token = (uint8_t) bits(word, 31, 31);
    channel_wake(c);
    return true;
}

void channel_reset(struct channel * c) {
    c->queued = 0;
    c->state = CHANNEL_IDLE;
    c->sink.head = c->sink.count = 0;
    c->sink.blocked = NULL;
    source_reset(&c->source);
    channel_sleep(c);
}

bool channel_control(struct channel * c, uint32_t value) {
    struct tile * t = c->tile;
    uint32_t known = t->kind == TILE_SHIM ? 0xff00 : 0xff02; // controller id, reset
    if (value & ~known) {
        return array_fail(
            t->array, ST_UNSUPPORTED,
            "%s tile (%d,%d) %s%d: control 0x%08x asks for something that is not modelled "
            "(pause, out of order, compression or finish on tlast)",
            tile_traits[t->kind].name, t->col, t->row, dir_name(c->dir), c->index, value);
    }
    c->control = value;
    if (t->kind != TILE_SHIM && (value & 2)) {
        channel_reset(c);
    }
    return true;
}

// ---- where a descriptor's words lie ----

// Offset of the furthest of the first n words, counting dimensions 0..d.
static uint64_t furthest(const struct bd * bd, uint64_t n, int d) {
    uint64_t block = 1;
    for (int i = 0; i < d; i++) {
        block *= bd->wrap[i];
    }
    if (d == 0) {
        return (n - 1) * bd->step[0];
    }
    if (block == 0) { // a lower dimension never wraps, this one is never reached
        return furthest(bd, n, d - 1);
    }
    uint64_t full = n / block, rest = n % block, far = 0;
    if (full) {
        far = (full - 1) * bd->step[d] + furthest(bd, block, d - 1);
    }
    if (rest) {
        uint64_t tail = full * bd->step[d] + furthest(bd, rest, d - 1);
        far = tail > far ? tail : far;
    }
    return far;
}

// With zeros around the data; the last, partial cube is taken as a whole.
static uint64_t furthest_padded(const struct bd * bd) {
    uint64_t cube = 1, far = 0;
    int d = 0;
    for (; d < 3 && bd->wrap[d]; d++) {
        cube *= bd->before[d] + bd->wrap[d] + bd->after[d];
        far += (uint64_t) (bd->wrap[d] - 1) * bd->step[d];
    }
    return far + (bd->length - 1) / cube * bd->step[d];
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

static bool begin(struct channel * c) {
    struct tile * t = c->tile;
    struct bd * bd = &c->bd;
    uint32_t * words = t->bds[c->bd_id];
    bd_decode(t->kind, words, bd);
    struct tile * owner;
    int lock;
    if (!bd_fits_channel(c, c->bd_id)) {
        return fail(c, ST_DEVICE, "this channel cannot use that descriptor");
    }
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
    if (bd->pads && c->dir == DMA_S2MM) {
        return fail(c, ST_DEVICE, "zero padding belongs to MM2S channels only");
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
    uint64_t far = bd->pads ? furthest_padded(bd) : furthest(bd, bd->length, 3);
    uint64_t start = (uint64_t) bd->iter_current * bd->iter_step * 4;
    uint64_t bytes = far * 4 + 4;
    if (!locate(c, bd->address + start, bytes)) {
        return false;
    }
    bd_store_iteration(t->kind, words,
                       bd->iter_current + 1 >= bd->iter_wrap ? 0 : bd->iter_current + 1);
    c->left = bd->length;
    c->span = bytes;
    c->offset = 0;
    memset(c->count, 0, sizeof(c->count));
    memset(c->row, 0, sizeof(c->row));
    c->header_due = bd->packet && c->dir == DMA_MM2S;
    c->state = CHANNEL_ACQUIRE;
    return true;
}

// ---- moving ----

// n words further, at most to the end of the row.
static inline void advance(struct channel * c, uint32_t n) {
    const struct bd * bd = &c->bd;
    c->offset += (uint64_t) n * bd->step[0];
    if (bd->wrap[0] == 0 || (c->count[0] += n) < bd->wrap[0]) {
        return;
    }
    c->count[0] = 0;
    c->row[0] += bd->step[1];
    if (bd->wrap[1] && ++c->count[1] == bd->wrap[1]) {
        c->count[1] = 0;
        c->row[1] += bd->step[2];
        if (bd->wrap[2] && ++c->count[2] == bd->wrap[2]) {
            c->count[2] = 0;
            c->row[2] += bd->step[3];
            c->row[1] = c->row[2];
        }
        c->row[0] = c->row[1];
    }
    c->offset = c->row[0];
}

// With padding, count[] runs over zeros and data alike; row[2] is where the cube begins.
static uint32_t padded_word(const struct channel * c) {
    const struct bd * bd = &c->bd;
    uint64_t offset = c->row[2];
    for (int d = 0; d < 3; d++) {
        if (bd->wrap[d]) {
            if (c->count[d] < bd->before[d] || c->count[d] >= bd->before[d] + bd->wrap[d]) {
                return 0;
            }
            offset += (uint64_t) (c->count[d] - bd->before[d]) * bd->step[d];
        } else {
            offset += (uint64_t) c->count[d] * bd->step[d];
        }
    }
    return load_u32(c->base + offset * 4);
}

// n words further, at most to the end of the row.
static void padded_advance(struct channel * c, uint32_t n) {
    const struct bd * bd = &c->bd;
    for (int d = 0; d < 3; d++, n = 1) {
        c->count[d] += n;
        if (bd->wrap[d] == 0 || c->count[d] < bd->before[d] + bd->wrap[d] + bd->after[d]) {
            return;
        }
        c->count[d] = 0;
    }
    c->row[2] += bd->step[3];
}

// ---- many words ----

// How many of the next n lie in the same row.
static uint32_t row_rest(const struct channel * c, uint32_t n) {
    uint32_t row = c->bd.before[0] + c->bd.wrap[0] + c->bd.after[0];
    return c->bd.wrap[0] && row - c->count[0] < n ? row - c->count[0] : n;
}

// Whether the row lies among the zeros before or after the data.
static bool padded_row(const struct channel * c) {
    bool zeros = false;
    for (int d = 1; d < 3; d++) {
        zeros |= c->bd.wrap[d] && c->count[d] - c->bd.before[d] >= c->bd.wrap[d];
    }
    return zeros;
}

static void padded_read(struct channel * c, uint32_t * words, uint32_t n) {
    while (n) {
        uint32_t row = row_rest(c, n);
        if (padded_row(c)) {
            memset(words, 0, (size_t) row * 4);
            padded_advance(c, row);
        } else {
            row = c->bd.wrap[0] ? row : 1;
            for (uint32_t i = 0; i < row; i++) {
                words[i] = padded_word(c);
                padded_advance(c, 1);
            }
        }
        words += row;
        n -= row;
    }
}

void channel_read_words(struct channel * c, uint32_t * words, uint32_t n) {
    c->left -= n;
    if (c->bd.pads) {
        padded_read(c, words, n);
        return;
    }
    while (n) {
        uint32_t row = row_rest(c, n), step = c->bd.step[0];
        const uint8_t * from = c->base + c->offset * 4;
        if (step == 1) {
            memcpy(words, from, (size_t) row * 4);
        } else {
            for (uint32_t i = 0; i < row; i++) {
                words[i] = load_u32(from + (uint64_t) i * step * 4);
            }
        }
        advance(c, row);
        words += row;
        n -= row;
    }
}

void channel_write_words(struct channel * c, const uint32_t * words, uint32_t n) {
    c->left -= n;
    while (n) {
        uint32_t row = row_rest(c, n), step = c->bd.step[0];
        uint8_t * to = c->base + c->offset * 4;
        if (step == 1) {
            memcpy(to, words, (size_t) row * 4);
        } else {
            for (uint32_t i = 0; i < row; i++) {
                store_u32(to + (uint64_t) i * step * 4, words[i]);
            }
        }
        advance(c, row);
        words += row;
        n -= row;
    }
}

// ---- one word ----

// Odd parity over the whole word.
static uint32_t packet_header(const struct channel * c) {
    uint32_t h = c->bd.packet_id | (uint32_t) c->bd.packet_type << 12 |
                 (uint32_t) c->tile->row << 16 | (uint32_t) c->tile->col << 21;
    uint32_t p = h;
    for (int s = 16; s; s >>= 1) {
        p ^= p >> s;
    }
    return h | (~p & 1) << 31;
}

static bool move_word(struct channel * c) {
    if (c->dir == DMA_S2MM) {
        uint32_t word;
        bool last;
        if (!sink_pop(&c->sink, &word, &last)) {
            return false;
        }
        store_u32(c->base + c->offset * 4, word);
        advance(c, 1);
        return true;
    }
    if (c->header_due) {
        if (source_push(&c->source, packet_header(c), false)) {
            c->header_due = false;
        }
        return false;
    }
    bool last = c->left == 1 && !c->bd.suppress_tlast;
    uint32_t word = c->bd.pads ? padded_word(c) : load_u32(c->base + c->offset * 4);
    if (!source_push(&c->source, word, last)) {
        return false;
    }
    if (c->bd.pads) {
        padded_advance(c, 1);
    } else {
        advance(c, 1);
    }
    return true;
}

// A token is a one-word packet from the tile's control port; without a way to the firmware it never
// arrives, and whoever waits for it hangs on silicon.
static void send_token(struct channel * c) {
    struct tile * t = c->tile;
    uint32_t controller = bits(c->control, 15, 8);
    struct route r;
    route_trace(t, control_slave[t->kind], (int) (controller & 31), &r);
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
    uint32_t place = c->tokens < DMA_TOKENS ? c->tokens : DMA_TOKENS - 1;
    c->token_ready[place] = a->now + a->clock.token;
    c->tokens++;
    if (a->txn.waiting) {
        a->txn.time = a->now + 1;
    }
}

static void finish(struct channel * c) {
    if (c->bd.release_value) {
        struct tile * owner;
        int lock;
        lock_of_channel(c, c->bd.release_id, &owner, &lock);
        if (lock_release(owner, lock, c->bd.release_value) < 0) {
            return;
        }
    }
    if (c->bd.use_next) {
        c->bd_id = c->bd.next;
        begin(c);
    } else if (--c->task.runs) {
        c->bd_id = c->task.bd;
        begin(c);
    } else {
        c->state = CHANNEL_IDLE;
        if (c->task.token) {
            send_token(c);
        }
    }
}

// How long memory keeps a transfer waiting: that of the host as long as it likes.
static uint32_t delay(const struct channel * c) {
    struct array * a = c->tile->array;
    if (!a->config.strict) {
        return 0;
    }
    a->noise = a->noise * 1664525 + 1013904223;
    return (a->noise >> 16) % (c->tile->kind == TILE_SHIM ? 256 : 16);
}

static bool try_acquire(struct channel * c) {
    if (c->bd.acquire_enable) {
        struct tile * owner;
        int lock;
        lock_of_channel(c, c->bd.acquire_id, &owner, &lock);
        if (!lock_acquire(owner, lock, c->bd.acquire_value)) {
            channel_sleep(c);
            return false;
        }
    }
    c->state = CHANNEL_RUN;
    c->resume = c->tile->array->now + COST_BD + delay(c);
    return true;
}

void channel_step(struct channel * c) {
    struct array * a = c->tile->array;
    if (c->state == CHANNEL_RUN) {
        if (a->now < c->resume || !move_word(c)) {
            return;
        }
        a->stream_words += c->tile->kind == TILE_SHIM;
        if (--c->left == 0) {
            finish(c);
        }
        return;
    }
    if (c->state == CHANNEL_IDLE) {
        if (c->queued == 0) {
            channel_sleep(c);
            return;
        }
        c->task = c->queue[0];
        c->queued--;
        memmove(&c->queue[0], &c->queue[1], c->queued * sizeof(c->queue[0]));
        c->bd_id = c->task.bd;
        if (!begin(c)) {
            return;
        }
    }
    try_acquire(c);
}
