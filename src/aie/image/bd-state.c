// bd-state: see the header.
#include "bd-state.h"

#include "bd-fields.h"

#include <string.h>

enum { QUEUE_STEP = 8 };

// A kind of tile, as far as this goes.
struct kind {
    enum image_tile tile;
    uint32_t bds, n_bds, n_words; // registers
    uint32_t queues, n_queues;    // of S2MM channels and, behind them, MM2S ones
};

static const struct kind core_kind = {
    .tile = IMAGE_CORE,
    .bds = CORE_BD,
    .n_bds = STATE_CORE_BDS,
    .n_words = IMAGE_CORE_BD_WORDS,
    .queues = CORE_S2MM_QUEUE,
    .n_queues = 4,
};
static const struct kind mem_kind = {
    .tile = IMAGE_MEM,
    .bds = MEM_BD,
    .n_bds = STATE_MEM_BDS,
    .n_words = IMAGE_BD_WORDS,
    .queues = MEM_S2MM_QUEUE,
    .n_queues = 12,
};

struct tile {
    const struct kind * kind; // NULL: it has none that are looked at
    struct known_bd * bds;
};

static struct tile tile_of(struct bd_state * s, uint32_t addr) {
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

static void move_on(const struct kind * k, struct known_bd * bd, uint32_t runs) {
    uint32_t n = image_bd_get(k->tile, bd->words, BD_ITERATIONS) + 1;
    uint32_t now = image_bd_get(k->tile, bd->words, BD_ITERATION);
    image_bd_set(k->tile, bd->words, BD_ITERATION, (now + runs) % n);
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
        more = image_bd_get(k->tile, t->bds[bd].words, BD_CHAINED);
        bd = image_bd_get(k->tile, t->bds[bd].words, BD_NEXT);
    }
}

// ---- writes ----

// A word that is written: a task, or a change of descriptors that is not followed.
static void see_word(const struct tile * t, uint32_t offset, uint32_t value) {
    uint32_t queue = offset - t->kind->queues, bd = offset - t->kind->bds;
    if (queue < t->kind->n_queues * QUEUE_STEP && queue % QUEUE_STEP == 0) {
        run(t, value);
    } else if (bd < t->kind->n_bds * IMAGE_BD_STEP) {
        t->bds[bd / IMAGE_BD_STEP].known = false;
    }
}

// Whole descriptors, and nothing else: how many they are. Those of a core have a gap between them.
static uint32_t whole_bds(const struct tile * t, const struct image_command * c) {
    uint32_t at = (c->addr & 0xfffff) - t->kind->bds, words = t->kind->n_words;
    bool whole = at % IMAGE_BD_STEP == 0 && c->n_words && c->n_words % words == 0 &&
                 (c->n_words == words || 4 * words == IMAGE_BD_STEP);
    uint32_t n = c->n_words / words;
    return whole && at / IMAGE_BD_STEP < t->kind->n_bds && n <= t->kind->n_bds - at / IMAGE_BD_STEP
               ? n
               : 0;
}

static bool has_block(const struct tile * t, const struct image_command * c) {
    uint32_t first = ((c->addr & 0xfffff) - t->kind->bds) / IMAGE_BD_STEP, n = whole_bds(t, c);
    uint32_t bytes = 4 * t->kind->n_words;
    bool same = n > 0;
    for (uint32_t i = 0; i < n; i++) {
        struct known_bd * bd = &t->bds[first + i];
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

bool bd_state_is_current(struct bd_state * s, const struct image_command * c) {
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
