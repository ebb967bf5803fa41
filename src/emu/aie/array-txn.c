// array-txn: plays the instruction stream of a dispatch, as the controller beside the array would:
// operations in order, each after its cost; a sync waits until its tokens have arrived. Nothing
// of the stream is trusted: each operation is checked against the end before it is read.
#include "emu/aie/array-model.h"
#include "emu/aie/core-target.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum {
    TXN_HEADER_WORDS = 4,
    SHIM_BD_FIRST = 0x1D000,
    SHIM_BD_LAST = 0x1D1FF,
    TXN_LOAD_PDI = 8, // the PDI's number is in the upper half of the word
};

enum step { STEP_DONE, STEP_WAIT, STEP_LATER, STEP_FAILED };

static enum step result(bool ok) {
    return ok ? STEP_DONE : STEP_FAILED;
}

static enum step malformed(struct array * a, const char * why) {
    array_fail(a, ST_CORRUPT, "%s", why);
    return STEP_FAILED;
}

static enum step op_write(struct array * a, const uint32_t * w, uint32_t n) {
    if (w[5] != 4 * n || w[3] != 0) {
        return malformed(a, "size or high address word is wrong");
    }
    return result(array_write(a, w[2], &w[4], 1));
}

static enum step op_block_write(struct array * a, const uint32_t * w, uint32_t n) {
    return result(array_write(a, w[2], &w[4], n - 4));
}

static enum step op_mask_write(struct array * a, const uint32_t * w, uint32_t n) {
    if (w[6] != 4 * n || w[3] != 0) {
        return malformed(a, "size or high address word is wrong");
    }
    return result(array_mask_write(a, w[2], w[5], w[4]));
}

struct sync {
    int col, row, n_cols, n_rows, channel;
    enum dma_dir dir;
};

static struct sync sync_of(const uint32_t * w) {
    return (struct sync){
        .col = (int) bits(w[2], 31, 16),
        .row = (int) bits(w[2], 15, 8),
        .dir = bits(w[2], 7, 0) ? DMA_MM2S : DMA_S2MM,
        .channel = (int) bits(w[3], 31, 24),
        .n_cols = (int) bits(w[3], 23, 16),
        .n_rows = (int) bits(w[3], 15, 8),
    };
}

static enum step op_sync(struct array * a, const uint32_t * w, uint32_t n) {
    struct sync s = sync_of(w);
    if (w[1] != 4 * n || bits(w[2], 7, 0) > 1) {
        return malformed(a, "size or direction of the sync is wrong");
    }
    uint64_t ready = 0;
    for (int take = 0; take <= 1; take++) { // first see whether all have come, then take them
        for (int i = 0; i < s.n_cols * s.n_rows; i++) {
            struct tile * t = array_tile(a, s.col + i % s.n_cols, s.row + i / s.n_cols);
            if (!t || s.channel >= tile_traits[t->kind].channels) {
                return malformed(a, "sync waits for a channel outside the array");
            }
            struct channel * c = &t->channels[s.dir][s.channel];
            if (take) {
                order_synced(c);
                c->tokens--;
                memmove(c->token_ready, c->token_ready + 1, sizeof c->token_ready - 8);
            } else if (c->tokens == 0) {
                return STEP_WAIT;
            } else if (c->token_ready[0] > ready) {
                ready = c->token_ready[0];
            }
        }
        if (ready > a->now) { // on their way to the controller
            a->txn.time = ready;
            return STEP_LATER;
        }
    }
    return STEP_DONE;
}

static enum step op_patch(struct array * a, const uint32_t * w, uint32_t n) {
    uint32_t offset = w[6] & 0xfffff, row = w[6] >> 20 & 31;
    if (w[1] != 4 * n || w[5] != 0) {
        return malformed(a, "size or action of the address patch is wrong");
    }
    struct tile * t = array_tile(a, (int) (w[6] >> 25), (int) row);
    if (!t || t->kind != TILE_SHIM || offset < SHIM_BD_FIRST || offset > SHIM_BD_LAST ||
        offset % 32 != 4) {
        return malformed(a, "address patch does not point at the address of a shim descriptor");
    }
    if (w[8] >= (uint32_t) a->txn.n_operands) {
        array_fail(a, ST_INVALID, "address patch names operand %u, the dispatch has %d", w[8],
                   a->txn.n_operands);
        return STEP_FAILED;
    }
    uint64_t address = a->txn.operands[w[8]].addr + w[10];
    if (address % 4 || address >> 48) {
        array_fail(a, ST_INVALID,
                   "operand %u: address 0x%" PRIx64
                   " is not a multiple of 4 below 2^48, as DMA needs it",
                   w[8], address);
        return STEP_FAILED;
    }
    if (!bd_may_change(t, (int) (offset - SHIM_BD_FIRST) / 32)) {
        return STEP_FAILED;
    }
    uint32_t * bd = t->bds[(offset - SHIM_BD_FIRST) / 32];
    bd[1] = (uint32_t) address;
    bd[2] = (bd[2] & 0xffff0000u) | (uint32_t) (address >> 32);
    return STEP_DONE;
}

// The machine has loaded it before the stream began: it may stand first only, where nothing of the
// dispatch is under way. A dispatch brings one PDI, whatever number the operation gives it.
static enum step op_load_pdi(struct array * a, const uint32_t * w, uint32_t n) {
    (void) w;
    (void) n;
    if (a->txn.at != TXN_HEADER_WORDS) {
        array_fail(a, ST_UNSUPPORTED, "a PDI can be loaded by the first operation only");
        return STEP_FAILED;
    }
    return STEP_DONE;
}

bool txn_loads_pdi(const uint32_t * words, size_t n_words) {
    return n_words > TXN_HEADER_WORDS && (words[TXN_HEADER_WORDS] & 0xffff) == TXN_LOAD_PDI;
}

static const struct {
    uint32_t opcode, words; // words 0: counted in bytes by word 3
    const char * name;
    enum step (*run)(struct array * a, const uint32_t * w, uint32_t n);
    size_t cost; // field of struct emu_clock
} ops[] = {
    {0x00, 6, "write", op_write, offsetof(struct emu_clock, txn_write)},
    {0x01, 0, "block write", op_block_write, offsetof(struct emu_clock, txn_block)},
    {0x03, 7, "mask write", op_mask_write, offsetof(struct emu_clock, txn_mask)},
    {TXN_LOAD_PDI, 4, "load PDI", op_load_pdi, offsetof(struct emu_clock, txn_write)},
    {0x80, 4, "sync", op_sync, offsetof(struct emu_clock, txn_sync)},
    {0x81, 12, "address patch", op_patch, offsetof(struct emu_clock, txn_patch)},
};
enum { N_OPS = sizeof(ops) / sizeof(ops[0]) };

// Cycles until the operation behind this one. A block write pays for its words.
static uint64_t cost_of(const struct array * a, int op, size_t n) {
    uint16_t cost;
    memcpy(&cost, (const char *) &a->clock + ops[op].cost, sizeof cost);
    return cost + (ops[op].run == op_block_write ? (n - 4) * a->clock.txn_block_word : 0);
}

bool txn_start(struct array * a, const uint32_t * words, size_t n_words,
               const struct emu_operand * operands, int n_operands) {
    if (n_words < TXN_HEADER_WORDS) {
        return array_fail(a, ST_CORRUPT, "instruction stream: %zu words are less than its header",
                          n_words);
    }
    uint32_t w0 = words[0], rows = w0 >> 24, generation = w0 >> 16 & 0xff, cols = words[1] & 0xff;
    if ((w0 & 0xffff) != 0x0100) {
        return array_fail(a, ST_CORRUPT, "instruction stream: version word 0x%08x is not 0.1", w0);
    }
    uint32_t own = core_target_of(a->config.arch)->generation;
    if (generation != own || rows != ARRAY_ROWS) {
        return array_fail(
            a, ST_INVALID,
            "instruction stream is for device generation %u with %u rows, this array is "
            "generation %u with %d",
            generation, rows, own, ARRAY_ROWS);
    }
    if (cols < 1 || (int) cols > a->columns) {
        return array_fail(a, ST_INVALID, "instruction stream is for %u columns, this array has %d",
                          cols, a->columns);
    }
    if (words[3] != n_words * 4) {
        return array_fail(a, ST_CORRUPT, "instruction stream says %u bytes, has %zu", words[3],
                          n_words * 4);
    }
    a->txn = (struct txn){
        .words = words,
        .n_words = n_words,
        .at = TXN_HEADER_WORDS,
        .ops_left = words[2],
        .time = a->now,
        .since = a->now,
        .operands = operands,
        .n_operands = n_operands,
    };
    return true;
}

static bool one_op(struct array * a) {
    struct txn * txn = &a->txn;
    const uint32_t * w = txn->words + txn->at;
    size_t left = txn->n_words - txn->at;
    int op = 0;
    uint32_t opcode = left && (w[0] & 0xffff) == TXN_LOAD_PDI ? TXN_LOAD_PDI : left ? w[0] : 0;
    while (left && op < N_OPS && ops[op].opcode != opcode) {
        op++;
    }
    if (!left || op == N_OPS) {
        return array_fail(a, left ? ST_UNSUPPORTED : ST_CORRUPT,
                          left ? "instruction stream: unknown operation 0x%x at word %zu"
                               : "instruction stream: %u operations are missing at word %zu",
                          left ? w[0] : txn->ops_left, txn->at);
    }
    size_t n = ops[op].words;
    if (n == 0) {
        n = left < 4 || w[3] % 4 || w[3] < 20 ? SIZE_MAX : w[3] / 4;
    }
    if (n > left) {
        return array_fail(a, ST_CORRUPT,
                          "instruction stream: %s at word %zu is malformed or cut off",
                          ops[op].name, txn->at);
    }
    switch (ops[op].run(a, w, (uint32_t) n)) {
    case STEP_FAILED:
        error_prefix(&a->error, a->error.status, "instruction stream: %s at word %zu", ops[op].name,
                     txn->at);
        return false;
    case STEP_WAIT:
        txn->waiting = true;
        txn->time = NEVER; // the next token sets it
        return true;
    case STEP_LATER:
        txn->waiting = true;
        return true;
    default:
        txn->waiting = false;
        txn->at += n;
        txn->ops_left--;
        txn->time = a->now + cost_of(a, op, n);
        array_event(a, EMU_EVENT_CONTROL, NULL, ops[op].name, txn->since, txn->time);
        txn->since = txn->time;
        return true;
    }
}

bool txn_step(struct array * a) {
    struct txn * txn = &a->txn;
    if (txn->ops_left) {
        return one_op(a);
    }
    if (txn->at != txn->n_words) {
        return array_fail(a, ST_CORRUPT, "instruction stream: %zu words after the last operation",
                          txn->n_words - txn->at);
    }
    txn->done = true;
    txn->time = NEVER;
    return true;
}

void txn_sync_text(const struct array * a, char * text, size_t size) {
    struct sync s = sync_of(a->txn.words + a->txn.at);
    snprintf(text, size, "sync at word %zu waits for %s%d of tile (%d,%d)%s", a->txn.at,
             dir_name(s.dir), s.channel, s.col, s.row,
             s.n_cols * s.n_rows > 1 ? " and others" : "");
}
