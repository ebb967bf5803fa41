// txn-stand: see the header.
#include "txn-stand.h"

#include <string.h>

enum { BD_STEP = 0x20, QUEUE_STEP = 8 };

// A kind of tile, as far as this goes. Places in a descriptor are a word and its lowest bit.
struct kind {
    uint32_t bds, n_bds, n_words; // registers
    uint32_t queues, n_queues;    // of S2MM channels and, behind them, MM2S ones
    int chain_word, chain, follows;
    int iteration_word, iterations, current;
};

static const struct kind core_kind = {
    .bds = CORE_BD,
    .n_bds = STAND_CORE_BDS,
    .n_words = 6,
    .queues = CORE_S2MM_QUEUE,
    .n_queues = 4,
    .chain_word = 5,
    .chain = 27,
    .follows = 26,
    .iteration_word = 4,
    .iterations = 13,
    .current = 19,
};
static const struct kind mem_kind = {
    .bds = MEM_BD,
    .n_bds = STAND_MEM_BDS,
    .n_words = 8,
    .queues = MEM_S2MM_QUEUE,
    .n_queues = 12,
    .chain_word = 1,
    .chain = 20,
    .follows = 19,
    .iteration_word = 6,
    .iterations = 17,
    .current = 23,
};

struct tile {
    const struct kind * kind; // NULL: it has none that are looked at
    struct stand_bd * bds;
};

static struct tile tile_of(struct stand * s, uint32_t addr) {
    uint32_t row = addr >> 20 & 31, col = addr >> 25;
    if (col >= AIE_MOST_COLUMNS || row < ARRAY_ROW_MEM ||
        row >= ARRAY_ROW_CORE + AIE_MOST_CORE_ROWS) {
        return (struct tile){0};
    }
    return row == ARRAY_ROW_MEM ? (struct tile){&mem_kind, s->mem[col]}
                                : (struct tile){&core_kind, s->core[col][row - ARRAY_ROW_CORE]};
}

static void forget(const struct tile * t) {
    for (uint32_t i = 0; i < t->kind->n_bds; i++) {
        t->bds[i].known = false;
    }
}

// ---- tasks ----

static void move_on(const struct kind * k, struct stand_bd * bd, uint32_t runs) {
    uint32_t * w = &bd->words[k->iteration_word];
    uint32_t n = (*w >> k->iterations & 63) + 1, current = *w >> k->current & 63;
    *w = (*w & ~(63u << k->current)) | (current + runs) % n << k->current;
}

// Runs a chain so many times. One that is not known, or leads to what is not, may run any of them.
static void run(const struct tile * t, uint32_t task) {
    const struct kind * k = t->kind;
    uint32_t bd = task & 63, runs = (task >> 16 & 255) + 1, left = k->n_bds;
    for (bool more = true; more; left--) {
        if (bd >= k->n_bds || !t->bds[bd].known || !left) {
            forget(t);
            return;
        }
        move_on(k, &t->bds[bd], runs);
        uint32_t chain = t->bds[bd].words[k->chain_word];
        more = chain >> k->follows & 1;
        bd = chain >> k->chain & (k->n_bds > 16 ? 63 : 15);
    }
}

// ---- writes ----

// A word that is written: a task, or a change of descriptors that is not followed.
static void see_word(const struct tile * t, uint32_t offset, uint32_t value) {
    uint32_t queue = offset - t->kind->queues, bd = offset - t->kind->bds;
    if (queue < t->kind->n_queues * QUEUE_STEP && queue % QUEUE_STEP == 0) {
        run(t, value);
    } else if (bd < t->kind->n_bds * BD_STEP) {
        t->bds[bd / BD_STEP].known = false;
    }
}

// Whole descriptors, and nothing else: how many they are. Those of a core have a gap between them.
static uint32_t whole_bds(const struct tile * t, const struct image_command * c) {
    uint32_t at = (c->addr & 0xfffff) - t->kind->bds, words = t->kind->n_words;
    bool whole = at % BD_STEP == 0 && c->n_words && c->n_words % words == 0 &&
                 (c->n_words == words || 4 * words == BD_STEP);
    uint32_t n = c->n_words / words;
    return whole && at / BD_STEP < t->kind->n_bds && n <= t->kind->n_bds - at / BD_STEP ? n : 0;
}

static bool has_block(const struct tile * t, const struct image_command * c) {
    uint32_t first = ((c->addr & 0xfffff) - t->kind->bds) / BD_STEP, n = whole_bds(t, c);
    uint32_t bytes = 4 * t->kind->n_words;
    bool same = n > 0;
    for (uint32_t i = 0; i < n; i++) {
        struct stand_bd * bd = &t->bds[first + i];
        same &= bd->known && !memcmp(bd->words, c->data + i * bytes, bytes);
    }
    for (uint32_t i = 0; i < n && !same; i++) {
        t->bds[first + i].known = true;
        memcpy(t->bds[first + i].words, c->data + i * bytes, bytes);
    }
    for (uint32_t i = 0; i < c->n_words && n == 0; i++) {
        see_word(t, (c->addr & 0xfffff) + 4 * i, load_u32(c->data + 4 * i));
    }
    return same;
}

bool stand_has(struct stand * s, const struct image_command * c) {
    struct tile t = c->op == IMAGE_WAIT ? (struct tile){0} : tile_of(s, c->addr);
    if (!t.kind) {
        return false;
    }
    if (c->op == IMAGE_BLOCK_WRITE) {
        return has_block(&t, c);
    }
    if (c->op == IMAGE_WRITE) {
        see_word(&t, c->addr & 0xfffff, c->value);
    } else {
        forget(&t);
    }
    return false;
}
