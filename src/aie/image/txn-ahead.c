// txn-ahead: see the header.
#include "txn-ahead.h"

#include "txn-early.h"

#include <string.h>

enum {
    CORE_MEMORY = 0x10000, // bytes of a core's data memory, the first of its addresses
    CORE_LOCKS = 16,
    LOCK_STEP = 0x10,
};

static bool is_shim(int tile) {
    return tile % AIE_ROWS == ARRAY_ROW_SHIM;
}

static bool is_core(int tile) {
    return tile % AIE_ROWS >= ARRAY_ROW_CORE;
}

// Parameters and locks.
static bool is_read_by_core(int tile, uint32_t offset) {
    return is_core(tile) && (offset < CORE_MEMORY || offset - CORE_LOCK < CORE_LOCKS * LOCK_STEP);
}

uint32_t ahead_reached(const struct image_command * c) {
    const struct txn_kind * k = txn_kind_of(txn_tile(c->addr));
    uint32_t n = c->op == IMAGE_BLOCK_WRITE ? c->n_words : c->op == IMAGE_WRITE, queues = 0;
    for (uint32_t i = 0; i < n; i++) {
        int queue = txn_queue_at(k, txn_offset(c->addr) + 4 * i);
        queues |= queue >= 0 ? 1u << queue : 0;
    }
    return queues;
}

// ---- what a part uses ----

static bool take_lock(struct ahead_tile * t, const struct txn_kind * k, const uint32_t * words,
                      int queue) {
    if (!txn_field(k, words, BD_ACQUIRES)) {
        return true;
    }
    uint32_t lock = txn_field(k, words, BD_ACQUIRE) - k->first_lock;
    if (lock >= TXN_LOCKS) { // a neighbour's
        return false;
    }
    t->takers[lock] |= (uint16_t) (1u << queue);
    return true;
}

static bool push(struct ahead_part * p, int tile, int queue, uint32_t task) {
    const struct txn_kind * k = txn_kind_of(tile);
    struct ahead_tile * t = &p->tiles[tile];
    uint32_t bd = task & 63, left = k->n_bds;
    bool sends = k != &txn_shim && queue >= (int) k->n_queues / 2;
    t->busy = true;
    t->tasks[queue]++;
    if (sends && bd < k->n_bds && !txn_field(k, t->words[bd], BD_ACQUIRES)) {
        return false; // at once
    }
    for (bool more = true; more; left--) {
        if (bd >= k->n_bds || !left || !(t->written >> bd & 1) ||
            t->tasks[queue] > TXN_QUEUE_ROOM || !take_lock(t, k, t->words[bd], queue)) {
            return false;
        }
        uint64_t words = (uint64_t) txn_field(k, t->words[bd], BD_WORDS) * ((task >> 16 & 255) + 1);
        t->used |= UINT64_C(1) << bd;
        t->moved[queue] += words;
        t->by[bd] |= (uint16_t) (1u << queue);
        if (k == &txn_shim && queue >= TXN_SHIM_READS) {
            p->n_shim += words;
        }
        more = txn_field(k, t->words[bd], BD_CHAINED);
        bd = txn_field(k, t->words[bd], BD_NEXT);
    }
    return true;
}

// Descriptors are written once, before they are used.
static bool write_bds(struct ahead_tile * t, const struct txn_kind * k, uint32_t first, uint32_t n,
                      const uint8_t * data) {
    for (uint32_t i = first; i < first + n; i++, data += 4 * k->n_words) {
        if (t->written >> i & 1) {
            return false;
        }
        t->written |= UINT64_C(1) << i;
        memcpy(t->words[i], data, 4 * k->n_words);
    }
    return true;
}

static bool is_control(const struct txn_kind * k, uint32_t offset) {
    return txn_queue_at(k, offset + 4) >= 0;
}

static bool write_word(struct ahead_part * p, int tile, uint32_t offset, uint32_t value) {
    const struct txn_kind * k = txn_kind_of(tile);
    int queue = txn_queue_at(k, offset);
    if (queue >= 0) {
        return push(p, tile, queue, value);
    }
    bool core = is_read_by_core(tile, offset);
    p->fills_first |= core && (p->tiles[tile].tasks[0] || p->tiles[tile].tasks[1]);
    return is_control(k, offset) || core;
}

static bool write_block(struct ahead_part * p, int tile, const struct image_command * c) {
    const struct txn_kind * k = txn_kind_of(tile);
    uint32_t offset = txn_offset(c->addr), n = txn_whole_bds(k, offset, c->n_words);
    if (n) {
        return write_bds(&p->tiles[tile], k, (offset - k->bds) / IMAGE_BD_STEP, n, c->data);
    }
    bool ok = true;
    uint32_t queues = ahead_reached(c);
    if (is_shim(tile) &&
        queues >> TXN_SHIM_READS) { // what the shim writes is told with what it reads
        p->tiles[tile].late |= (uint16_t) (queues & ((1u << TXN_SHIM_READS) - 1));
    }
    for (uint32_t i = 0; i < c->n_words && ok; i++) {
        if (txn_queue_at(k, offset + 4 * i) < 0 && load_u32(c->data + 4 * i)) {
            p->tiles[tile].whole |= (uint16_t) queues;
        }
        ok = write_word(p, tile, offset + 4 * i, load_u32(c->data + 4 * i));
    }
    return ok;
}

static bool scan(struct ahead_part * p, const struct image_command * c) {
    int tile = txn_tile(c->addr);
    uint32_t offset = txn_offset(c->addr);
    if (tile < 0) {
        return false;
    }
    switch (c->op) {
    case IMAGE_WRITE:
        return write_word(p, tile, offset, c->value);
    case IMAGE_BLOCK_WRITE:
        return write_block(p, tile, c);
    case IMAGE_MASK_WRITE:
        return is_shim(tile) && is_control(&txn_shim, offset);
    case IMAGE_PATCH: {
        uint32_t bd = (offset - SHIM_BD) / IMAGE_BD_STEP;
        bool ok = is_shim(tile) && bd < txn_shim.n_bds && p->tiles[tile].written >> bd & 1;
        if (ok) {
            p->tiles[tile].operand[bd] = (uint32_t) c->operand + 1;
        }
        return ok;
    }
    default:
        return false;
    }
}

void ahead_scan(struct ahead_part * p, const struct image_command * ops, size_t n, uint32_t ready) {
    size_t i = 0;
    memset(p, 0, sizeof *p);
    for (; i < n && ops[i].op != IMAGE_WAIT; i++) {
        p->rigid |= !p->rigid && !scan(p, &ops[i]);
    }
    p->n_told = i;
    p->rigid |= i == n;
    for (; i < n; i++) {
        p->rigid |= ops[i].op != IMAGE_WAIT;
    }
    for (int t = 0; t < TXN_TILES; t++) {
        for (int bd = 0; bd < TXN_BDS; bd++) {
            p->tiles[t].to[bd] = (uint8_t) bd;
        }
        p->tiles[t].with_reads = p->tiles[t].late;
    }
    if (!p->rigid) {
        early_scan(p, ready);
    }
}

// ---- names of descriptors ----

static bool has(uint64_t set, uint32_t bd) {
    return set >> bd & 1;
}

// A tile's descriptors as they are named. What those in flight use is kept under the array's names.
struct naming {
    struct ahead_tile * t;
    struct ahead_part * const * flight;
    int n_flight, tile;
    const struct bd_state * state;
    const struct txn_kind * k;
    uint64_t named, taken, used; // taken: by this part; used: by those in flight
};

// Under the array's names.
static uint64_t used_by(const struct ahead_tile * t) {
    uint64_t used = 0;
    for (uint32_t bd = 0; bd < TXN_BDS; bd++) {
        used |= (uint64_t) has(t->used, bd) << t->to[bd];
    }
    return used;
}

static bool is_free(const struct naming * n, uint32_t bd) {
    return !has(n->taken | n->used, bd);
}

// Whoever in flight uses it does so before, in the same channel, and has queued all that it will.
static bool is_behind(const struct naming * n, uint32_t bd, uint32_t at) {
    for (int i = 0; i < n->n_flight; i++) {
        const struct ahead_tile * f = &n->flight[i]->tiles[n->tile];
        for (uint32_t other = 0; other < n->k->n_bds; other++) {
            if (has(f->used, other) && f->to[other] == at &&
                (f->by[other] != n->t->by[bd] || f->by[other] & f->late)) {
                return false;
            }
        }
    }
    return true;
}

static bool is_there(const struct naming * n, uint32_t bd, uint32_t at, const uint32_t * words) {
    return !has(n->taken, at) && bd_state_holds(n->state, n->tile, at, words) &&
           (!has(n->used, at) || is_behind(n, bd, at));
}

// One that stands as it is wanted, else the free one that was written longest ago, so that what is
// wanted again still stands then.
static bool find(const struct naming * n, uint32_t bd, const uint32_t * words, uint32_t * at,
                 bool * there) {
    uint32_t from = n->k->half && bd >= n->k->half ? n->k->half : 0;
    uint32_t to = n->k->half && !from ? n->k->half : n->k->n_bds;
    const struct known_bd * all = n->state->bds[n->tile];
    bool any = is_free(n, bd);
    *at = bd;
    *there = is_there(n, bd, bd, words);
    for (uint32_t i = from; i < to && !*there; i++) {
        *there = is_there(n, bd, i, words);
        if (*there || (is_free(n, i) && (!any || all[i].since < all[*at].since))) {
            *at = i;
            any = true;
        }
    }
    return any || *there;
}

static bool name(struct naming * n, uint32_t bd, int depth) {
    uint32_t words[8], at;
    bool there;
    if (has(n->named, bd)) {
        return true;
    }
    if (depth == TXN_BDS) {
        return false;
    }
    memcpy(words, n->t->words[bd], sizeof words);
    if (txn_field(n->k, words, BD_CHAINED)) {
        uint32_t next = txn_field(n->k, words, BD_NEXT);
        if (next >= n->k->n_bds || !has(n->t->written, next) || !name(n, next, depth + 1)) {
            return false;
        }
        image_bd_set(n->k->tile, words, BD_NEXT, n->t->to[next]);
    }
    if (!find(n, bd, words, &at, &there)) {
        return false;
    }
    n->named |= UINT64_C(1) << bd;
    n->taken |= UINT64_C(1) << at;
    n->t->to[bd] = (uint8_t) at;
    n->t->stands |= (uint64_t) there << bd;
    return true;
}

static bool name_tile(struct naming * n) {
    bool ok = true;
    for (uint32_t bd = 0; bd < n->k->n_bds && ok; bd++) {
        ok = !has(n->t->written, bd) || name(n, bd, 0);
    }
    return ok;
}

// Those of a shim are all written, and block by block they stay beside each other.
static bool name_block(struct ahead_tile * t, uint64_t * taken, uint32_t first, uint32_t n) {
    for (uint32_t i = 0; i <= txn_shim.n_bds; i++) {
        uint32_t at = i ? i - 1 : first;
        uint64_t want = ((UINT64_C(1) << n) - 1) << at;
        if (at + n <= txn_shim.n_bds && !(want & *taken)) {
            *taken |= want;
            for (uint32_t bd = 0; bd < n; bd++) {
                t->to[first + bd] = (uint8_t) (at + bd);
            }
            return true;
        }
    }
    return false;
}

static bool name_shim(const struct naming * n, const struct image_command * ops, size_t n_ops) {
    uint64_t taken = n->used;
    bool ok = true;
    for (size_t i = 0; i < n_ops && ok; i++) {
        uint32_t offset = txn_offset(ops[i].addr);
        uint32_t count = ops[i].op == IMAGE_BLOCK_WRITE && txn_tile(ops[i].addr) == n->tile
                             ? txn_whole_bds(&txn_shim, offset, ops[i].n_words)
                             : 0;
        ok = !count || name_block(n->t, &taken, (offset - SHIM_BD) / IMAGE_BD_STEP, count);
    }
    return ok;
}

// Where there are no names, those before have given theirs back when this part starts, and those
// behind it wait for that as well: all are free then.
static void name_all(struct naming * n, const struct image_command * ops, size_t n_ops) {
    struct ahead_tile * t = n->t;
    bool waits = false;
    for (int f = 0; f < n->n_flight; f++) {
        waits |= n->flight[f]->tiles[n->tile].unnamed;
    }
    t->unnamed =
        t->written && (waits || !(is_shim(n->tile) ? name_shim(n, ops, n_ops) : name_tile(n)));
    for (uint32_t bd = 0; t->unnamed && bd < TXN_BDS; bd++) {
        t->to[bd] = (uint8_t) bd;
    }
    if (t->unnamed) {
        t->stands = 0;
        t->late |= (uint16_t) ((1u << n->k->n_queues) - 1);
    }
}

// ---- beside those in flight ----

static bool keeps_locks(const struct ahead_tile * t, const struct ahead_tile * before) {
    bool ok = true;
    for (int i = 0; i < TXN_LOCKS; i++) {
        ok &= !t->takers[i] || !before->takers[i] || t->takers[i] == before->takers[i];
    }
    return ok;
}

// A command that is late for one of the queues that it reaches is late for all of them, and so is
// what comes behind it in any.
static void be_late(struct ahead_part * p, const struct image_command * ops) {
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < p->n_told; i++) {
            int tile = txn_tile(ops[i].addr);
            uint32_t queues = ahead_reached(&ops[i]);
            uint16_t * late = &p->tiles[tile].late;
            if (queues & *late && queues & ~(uint32_t) *late) {
                *late |= (uint16_t) queues;
                more = true;
            }
        }
    }
}

// What of a tile is late, with those in flight; it gets names where it has none.
static bool fit_tile(struct ahead_part * p, int tile, struct naming * n,
                     const struct image_command * ops, bool named) {
    struct ahead_tile * t = n->t;
    uint8_t tasks[TXN_QUEUES];
    bool ok = true;
    memcpy(tasks, t->tasks, sizeof tasks);
    t->late = t->with_reads;
    t->others = false;
    for (int f = 0; f < n->n_flight; f++) {
        const struct ahead_tile * before = &n->flight[f]->tiles[tile];
        n->used |= used_by(before);
        t->others |= before->busy;
        t->late |= before->late;
        ok &= keeps_locks(t, before);
        for (int q = 0; q < TXN_QUEUES; q++) {
            tasks[q] = (uint8_t) (tasks[q] + before->tasks[q]);
        }
    }
    for (int q = 0; q < TXN_QUEUES; q++) {
        bool fills = is_core(tile) && t->others && q < (int) txn_core.n_queues / 2;
        t->late |= (uint16_t) ((fills || tasks[q] > TXN_QUEUE_ROOM) << q);
    }
    if (ok && !named) {
        name_all(n, ops, p->n_told);
    }
    return ok;
}

static bool fit(struct ahead_part * p, struct ahead_part * const * flight, int n,
                const struct bd_state * s, const struct image_command * ops, bool again) {
    bool ok = true;
    for (int i = 0; i < TXN_TILES && ok; i++) {
        struct ahead_tile * t = &p->tiles[i];
        struct naming naming = {
            .t = t, .flight = flight, .n_flight = n, .tile = i, .state = s, .k = txn_kind_of(i)};
        ok = fit_tile(p, i, &naming, ops, again && !t->unnamed);
    }
    be_late(p, ops);
    return ok;
}

bool ahead_fits(struct ahead_part * p, struct ahead_part * const * flight, int n,
                const struct bd_state * s, const struct image_command * ops) {
    return fit(p, flight, n, s, ops, false);
}

void ahead_fits_again(struct ahead_part * p, struct ahead_part * const * flight, int n,
                      const struct bd_state * s, const struct image_command * ops) {
    fit(p, flight, n, s, ops, true);
}

void ahead_started(struct ahead_part * p) {
    for (int i = 0; i < TXN_TILES; i++) {
        p->tiles[i].late = 0;
        p->tiles[i].unnamed = false;
    }
    p->started = true;
}

// ---- when a command is told ----

enum ahead_when ahead_when(const struct ahead_part * p, const struct image_command * c) {
    int tile = txn_tile(c->addr);
    uint32_t queues = ahead_reached(c), offset = txn_offset(c->addr);
    const struct ahead_tile * t = &p->tiles[tile];
    if (is_shim(tile) && queues >> TXN_SHIM_READS) {
        return AHEAD_MOVES;
    }
    if (t->unnamed && !queues && c->op != IMAGE_MASK_WRITE && !is_read_by_core(tile, offset)) {
        return AHEAD_FIRST;
    }
    return (is_read_by_core(tile, offset) && t->others) || queues & t->late ? AHEAD_LATER
                                                                            : AHEAD_NOW;
}

bool ahead_feeds(const struct image_command * c) {
    int tile = txn_tile(c->addr);
    uint32_t offset = txn_offset(c->addr);
    return (is_shim(tile) && ahead_reached(c) >> TXN_SHIM_READS) || is_read_by_core(tile, offset) ||
           (is_core(tile) && ahead_reached(c) & ((1u << txn_core.n_queues / 2) - 1));
}
