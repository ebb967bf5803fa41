// bd-state: see the header.
#include "bd-state.h"

#include <string.h>

struct tile {
    const struct txn_kind * kind; // NULL: it has none that are looked at
    struct known_bd * bds;
};

static struct tile tile_of(struct bd_state * s, uint32_t addr) {
    int tile = txn_tile(addr);
    if (tile < 0 || tile % AIE_ROWS == ARRAY_ROW_SHIM) {
        return (struct tile){0};
    }
    return (struct tile){txn_kind_of(tile), s->bds[tile]};
}

static void forget(const struct tile * t) {
    for (uint32_t i = 0; i < t->kind->n_bds; i++) {
        t->bds[i].known = false;
    }
}

// ---- tasks ----

static void move_on(const struct txn_kind * k, struct known_bd * bd, uint32_t runs) {
    uint32_t n = txn_field(k, bd->words, BD_ITERATIONS) + 1;
    uint32_t now = txn_field(k, bd->words, BD_ITERATION);
    image_bd_set(k->tile, bd->words, BD_ITERATION, (now + runs) % n);
}

// Runs a chain so many times. One that is not known, or leads to what is not, may run any of them.
static void run(const struct tile * t, uint32_t task) {
    const struct txn_kind * k = t->kind;
    uint32_t bd = task & 63, runs = (task >> 16 & 255) + 1, left = k->n_bds;
    for (bool more = true; more; left--) {
        if (bd >= k->n_bds || !t->bds[bd].known || !left) {
            forget(t);
            return;
        }
        move_on(k, &t->bds[bd], runs);
        more = txn_field(k, t->bds[bd].words, BD_CHAINED);
        bd = txn_field(k, t->bds[bd].words, BD_NEXT);
    }
}

// ---- writes ----

// A word that is written: a task, or a change of descriptors that is not followed.
static void see_word(const struct tile * t, uint32_t offset, uint32_t value) {
    uint32_t bd = offset - t->kind->bds;
    if (txn_queue_at(t->kind, offset) >= 0) {
        run(t, value);
    } else if (bd < t->kind->n_bds * IMAGE_BD_STEP) {
        t->bds[bd / IMAGE_BD_STEP].known = false;
    }
}

static bool has_block(const struct tile * t, const struct image_command * c) {
    uint32_t first = (txn_offset(c->addr) - t->kind->bds) / IMAGE_BD_STEP;
    uint32_t n = txn_whole_bds(t->kind, txn_offset(c->addr), c->n_words);
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
        see_word(t, txn_offset(c->addr) + 4 * i, load_u32(c->data + 4 * i));
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
        see_word(&t, txn_offset(c->addr), c->value);
    } else {
        forget(&t);
    }
    return false;
}

void bd_state_want(struct bd_state * s, int tile, uint32_t bd) {
    s->bds[tile][bd].since = ++s->now;
}

bool bd_state_holds(const struct bd_state * s, int tile, uint32_t bd, const uint32_t * words) {
    const struct known_bd * at = &s->bds[tile][bd];
    return at->known && !memcmp(at->words, words, 4 * txn_kind_of(tile)->n_words);
}

// ---- controls of shims ----

static bool is_control(uint32_t addr, uint32_t * col, uint32_t * channel) {
    uint32_t row = addr >> 20 & 31, at = txn_offset(addr) - SHIM_S2MM_CONTROL;
    *col = addr >> 25;
    *channel = at / TXN_QUEUE_STEP;
    return row == ARRAY_ROW_SHIM && at % TXN_QUEUE_STEP == 0 && *channel < SHIM_CHANNELS &&
           *col < AIE_MOST_COLUMNS;
}

// Who is told of a shim channel's ends stays what it was told once: nothing else of its control is
// ever written, which shim_unsay sees to.
bool shim_is_said(struct shim_said * s, const struct image_command * c) {
    uint32_t col, channel;
    if (!is_control(c->addr, &col, &channel)) {
        return false;
    }
    bool same = s->said[col][channel].mask == c->mask && s->said[col][channel].value == c->value;
    s->said[col][channel].mask = c->mask;
    s->said[col][channel].value = c->value;
    return same && c->mask;
}

void shim_unsay(struct shim_said * s, const struct image_command * c) {
    uint32_t n = c->op == IMAGE_BLOCK_WRITE ? c->n_words : c->op == IMAGE_WRITE, col, channel;
    for (uint32_t i = 0; i < n; i++) {
        if (is_control(c->addr + 4 * i, &col, &channel)) {
            s->said[col][channel].mask = 0;
        }
    }
}
