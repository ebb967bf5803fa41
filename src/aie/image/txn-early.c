// txn-early: see the header.
#include "txn-early.h"

static bool has(uint64_t set, uint32_t bd) {
    return set >> bd & 1;
}

static uint32_t lock_of(const uint32_t * words, enum image_bd_field f) {
    return image_bd_get(IMAGE_MEM, words, f) - txn_mem.first_lock;
}

// ---- what may begin early ----

static bool reads_ready(const struct ahead_tile * shim, int queue, uint32_t ready) {
    bool ok = true;
    for (uint32_t bd = 0; bd < txn_shim.n_bds; bd++) {
        if (shim->by[bd] >> queue & 1) {
            ok &= shim->operand[bd] - 1 < 32 && ready >> (shim->operand[bd] - 1) & 1;
        }
    }
    return ok;
}

static bool is_ready(const struct ahead_tile * shim, int queue, uint32_t ready) {
    return shim->tasks[queue] > 0 && !(shim->whole >> queue & 1) && reads_ready(shim, queue, ready);
}

// Whether something of a part is read when it starts, for which its results wait.
static bool waits_for_operand(const struct ahead_part * p, uint32_t ready) {
    bool waits = false;
    for (int tile = ARRAY_ROW_SHIM; tile < TXN_TILES; tile += AIE_ROWS) {
        for (int queue = TXN_SHIM_READS; queue < (int) txn_shim.n_queues; queue++) {
            waits |= p->tiles[tile].tasks[queue] && !reads_ready(&p->tiles[tile], queue, ready);
        }
    }
    return waits;
}

// Whether the memtile keeps what a channel brings by locks of its own.
static bool is_kept(const struct ahead_tile * mem, int channel) {
    bool ok = true;
    for (uint32_t bd = 0; bd < txn_mem.n_bds; bd++) {
        if (mem->by[bd] >> channel & 1) {
            uint32_t lock = lock_of(mem->words[bd], BD_RELEASE);
            ok &= txn_field(&txn_mem, mem->words[bd], BD_RELEASE_VALUE) && lock < TXN_LOCKS &&
                  txn_field(&txn_mem, mem->words[bd], BD_ACQUIRES);
        }
    }
    return ok;
}

void early_scan(struct ahead_part * p, uint32_t ready) {
    if (!waits_for_operand(p, ready)) {
        return;
    }
    for (int tile = ARRAY_ROW_SHIM; tile < TXN_TILES; tile += AIE_ROWS) {
        struct ahead_tile * shim = &p->tiles[tile];
        const struct ahead_tile * mem = &p->tiles[tile + ARRAY_ROW_MEM];
        for (int queue = TXN_SHIM_READS; queue < (int) txn_shim.n_queues; queue++) {
            int channel = queue - TXN_SHIM_READS;
            bool early = !p->fills_first && is_ready(shim, queue, ready) && mem->tasks[channel] &&
                         mem->moved[channel] == shim->moved[queue] && is_kept(mem, channel);
            shim->early |= (uint16_t) (early << queue);
        }
    }
}

// ---- what may begin now ----

struct range {
    uint64_t from, to;
};

// The words of a memtile that a descriptor touches, in any of its iterations.
static struct range range_of(const uint32_t * words) {
    static const enum image_bd_field wraps[] = {BD_WRAP0, BD_WRAP1, BD_WRAP2};
    static const enum image_bd_field steps[] = {BD_STEP0, BD_STEP1, BD_STEP2, BD_STEP3};
    const struct txn_kind * k = &txn_mem;
    struct range r = {.from = txn_field(k, words, BD_ADDRESS)};
    uint64_t left = txn_field(k, words, BD_WORDS);
    r.to = r.from + 1;
    for (int d = 0; d < 4 && left > 1; d++) {
        uint64_t wrap = d < 3 ? txn_field(k, words, wraps[d]) : 0, n = wrap ? wrap : left;
        r.to += (n - 1) * (txn_field(k, words, steps[d]) + 1);
        left = (left + n - 1) / n;
    }
    r.to += (uint64_t) txn_field(k, words, BD_ITERATIONS) *
            (txn_field(k, words, BD_ITERATION_STEP) + 1);
    return r;
}

static bool meet(const uint32_t * a, const uint32_t * b) {
    struct range x = range_of(a), y = range_of(b);
    return x.from < y.to && y.from < x.to;
}

// Whether a part in flight uses this descriptor in the same channel, and the words are those.
static bool is_shared(const struct ahead_tile * mem, uint32_t bd, const struct ahead_tile * f,
                      uint32_t other) {
    return has(mem->stands, bd) && f->to[other] == mem->to[bd] && f->by[other] == mem->by[bd];
}

static bool is_clear_of(const struct ahead_tile * mem, uint32_t bd, const struct ahead_tile * f) {
    const uint32_t * words = mem->words[bd];
    bool shared = false, ok = true;
    for (uint32_t i = 0; i < txn_mem.n_bds; i++) {
        shared |= has(f->used, i) && is_shared(mem, bd, f, i);
    }
    for (uint32_t i = 0; i < txn_mem.n_bds && ok; i++) {
        const uint32_t * other = f->words[i];
        bool empties = shared && txn_field(&txn_mem, other, BD_ACQUIRES) &&
                       lock_of(other, BD_ACQUIRE) == lock_of(words, BD_RELEASE) &&
                       txn_field(&txn_mem, other, BD_RELEASE_VALUE) &&
                       lock_of(other, BD_RELEASE) == lock_of(words, BD_ACQUIRE);
        ok = !has(f->used, i) || is_shared(mem, bd, f, i) || empties || !meet(words, other);
    }
    return ok;
}

static bool may_begin(const struct ahead_part * p, int tile, int queue,
                      struct ahead_part * const * flight, int n) {
    const struct ahead_tile *shim = &p->tiles[tile], *mem = &p->tiles[tile + ARRAY_ROW_MEM];
    int channel = queue - TXN_SHIM_READS, tasks = shim->tasks[queue];
    bool ok = !shim->unnamed && !shim->due && !mem->due && !(mem->late >> channel & 1);
    for (int i = 0; i < n && ok; i++) {
        const struct ahead_tile * before = &flight[i]->tiles[tile];
        ok = flight[i]->started || !before->tasks[queue] || before->begun >> queue & 1;
        tasks += before->tasks[queue];
        for (uint32_t bd = 0; bd < txn_mem.n_bds && ok; bd++) {
            ok = !(mem->by[bd] >> channel & 1) ||
                 is_clear_of(mem, bd, &flight[i]->tiles[tile + ARRAY_ROW_MEM]);
        }
    }
    return ok && tasks <= TXN_QUEUE_ROOM;
}

bool early_begins(struct ahead_part * p, struct ahead_part * const * flight, int n) {
    bool any = false;
    for (int tile = ARRAY_ROW_SHIM; tile < TXN_TILES; tile += AIE_ROWS) {
        struct ahead_tile * shim = &p->tiles[tile];
        shim->begins = 0;
        for (int queue = TXN_SHIM_READS; queue < (int) txn_shim.n_queues; queue++) {
            uint16_t bit = (uint16_t) (1u << queue);
            if (shim->early & ~shim->begun & bit && may_begin(p, tile, queue, flight, n)) {
                shim->begins |= bit;
            }
        }
        shim->begun |= shim->begins;
        any |= shim->begins != 0;
    }
    return any;
}
