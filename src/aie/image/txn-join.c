// txn-join: several instruction streams as one, so that a controller need not be told of each.
// Every part finds the array as it would alone: a part ends when all its transfers are complete,
// which is looked at here by their tokens, because one that is left over would end the next part's
// wait too early.
#include "image.h"
#include "bd-state.h"

#include <stdlib.h>
#include <string.h>

enum {
    HEADER_WORDS = 4,
    HEADER_OPERATIONS = 2,
    HEADER_BYTES = 3,
    PATCH_OPERAND = 8, // words of an address patch
    PATCH_OFFSET = 10,
    DIRECTIONS = 2,
    CHANNELS = 2,
    QUEUE_STEP = 8, // from channel to channel; queues of MM2S stand behind those of S2MM
};
#define ISSUES_TOKEN 0x80000000u

struct joiner {
    const struct txn_part * part;
    int index;
    uint32_t * out;
    size_t n, n_ops; // words and operations so far
    struct txn_aim * aims;
    size_t n_aims, room;
    int tokens[AIE_MOST_COLUMNS][DIRECTIONS][CHANNELS];
    struct {
        uint32_t mask, value;
    } said[AIE_MOST_COLUMNS][CHANNELS]; // to the shim's controls, so far
    struct bd_state bds;
    bool known, failed;
};

static int * tokens_of(struct joiner * j, int col, int direction, int channel) {
    bool ok = col >= 0 && col < AIE_MOST_COLUMNS && direction < DIRECTIONS && channel < CHANNELS;
    j->known &= ok;
    return ok ? &j->tokens[col][direction][channel] : &j->tokens[0][0][0];
}

static void count_write(struct joiner * j, uint32_t addr, uint32_t value) {
    uint32_t offset = addr & 0xfffff, row = addr >> 20 & 31, at = offset - SHIM_S2MM_QUEUE;
    uint32_t control = offset - SHIM_S2MM_CONTROL, col = addr >> 25;
    if (row == 0 && col < AIE_MOST_COLUMNS && control < CHANNELS * QUEUE_STEP &&
        control % QUEUE_STEP == 0) {
        j->said[col][control / QUEUE_STEP].mask = 0;
    }
    if (row == 0 && at < DIRECTIONS * CHANNELS * QUEUE_STEP && at % QUEUE_STEP == 0 &&
        value & ISSUES_TOKEN) {
        int queue = (int) (at / QUEUE_STEP);
        ++*tokens_of(j, (int) (addr >> 25), queue / CHANNELS, queue % CHANNELS);
    }
}

static void aim_at(struct joiner * j, const struct image_command * c) {
    if (j->n_aims == j->room) {
        size_t room = j->room ? 2 * j->room : 64;
        struct txn_aim * more = realloc(j->aims, room * sizeof *more);
        if (!more) {
            j->failed = true;
            return;
        }
        j->aims = more;
        j->room = room;
    }
    j->known &= c->operand <= UINT16_MAX;
    j->aims[j->n_aims++] = (struct txn_aim){
        .word = (uint32_t) j->n,
        .part = (uint16_t) j->index,
        .operand = (uint16_t) c->operand,
        .byte_offset = c->byte_offset,
    };
}

// Whether the control register of a shim channel, which names the receiver of its tokens, holds
// this value already. Nothing else of it is ever written, which count_write sees to.
static bool is_said(struct joiner * j, const struct image_command * c) {
    uint32_t offset = c->addr & 0xfffff, row = c->addr >> 20 & 31, col = c->addr >> 25;
    uint32_t at = offset - SHIM_S2MM_CONTROL;
    if (row != 0 || at % QUEUE_STEP || at / QUEUE_STEP >= CHANNELS || col >= AIE_MOST_COLUMNS) {
        return false;
    }
    uint32_t channel = at / QUEUE_STEP;
    bool same = j->said[col][channel].mask == c->mask && j->said[col][channel].value == c->value;
    j->said[col][channel].mask = c->mask;
    j->said[col][channel].value = c->value;
    return same && c->mask;
}

static size_t words_of(const struct image_command * c) {
    switch (c->op) {
    case IMAGE_WRITE:
        return 6;
    case IMAGE_MASK_WRITE:
        return 7;
    case IMAGE_BLOCK_WRITE:
        return 4 + (size_t) c->n_words;
    case IMAGE_PATCH:
        return 12;
    default:
        return 4;
    }
}

static bool visit(void * user, const struct image_command * c) {
    struct joiner * j = user;
    if (bd_state_is_current(&j->bds, c) || (c->op == IMAGE_MASK_WRITE && is_said(j, c))) {
        return true;
    }
    switch (c->op) {
    case IMAGE_WRITE:
        count_write(j, c->addr, c->value);
        break;
    case IMAGE_BLOCK_WRITE:
        for (uint32_t i = 0; i < c->n_words; i++) {
            count_write(j, c->addr + 4 * i, load_u32(c->data + 4 * i));
        }
        break;
    case IMAGE_WAIT:
        j->known &= c->row == 0;
        --*tokens_of(j, c->col, c->direction, c->channel);
        break;
    case IMAGE_PATCH:
        aim_at(j, c);
        break;
    default:
        break;
    }
    size_t n = words_of(c);
    memcpy(j->out + j->n, j->part->insts + c->offset / 4, 4 * n);
    j->n += n;
    j->n_ops++;
    return j->known && !j->failed;
}

static bool is_quiet(const struct joiner * j) {
    static const int none[AIE_MOST_COLUMNS][DIRECTIONS][CHANNELS];
    return !memcmp(j->tokens, none, sizeof none);
}

static enum status join(struct joiner * j, const struct txn_part * parts, int n,
                        struct error * err) {
    enum status st = ST_OK;
    for (; j->index < n && st == ST_OK; j->index++) {
        const struct txn_part * p = j->part = &parts[j->index];
        st = txn_read((const uint8_t *) p->insts, 4 * p->n_words, visit, j, err);
        if (st == ST_OK && j->failed) {
            st = error_set(err, ST_NO_MEMORY, "TXN: no memory for address patches");
        }
        if (st == ST_OK && (!j->known || !is_quiet(j) || memcmp(p->insts, parts[0].insts, 8))) {
            st = error_set(err, ST_UNSUPPORTED,
                           "TXN: it leaves tokens behind, or is of another array");
        }
    }
    return st;
}

enum status txn_join(const struct txn_part * parts, int n, uint32_t * out, size_t * n_words,
                     struct txn_aim ** aims, size_t * n_aims, struct error * err) {
    struct joiner * j = calloc(1, sizeof *j);
    if (!j) {
        return error_set(err, ST_NO_MEMORY, "TXN: no memory for what stands in descriptors");
    }
    j->out = out;
    j->n = HEADER_WORDS;
    j->known = true;
    enum status st = join(j, parts, n, err);
    if (st == ST_OK) {
        memcpy(out, parts[0].insts, 8);
        out[HEADER_OPERATIONS] = (uint32_t) j->n_ops;
        out[HEADER_BYTES] = (uint32_t) (4 * j->n);
        *n_words = j->n;
        *aims = j->aims;
        *n_aims = j->n_aims;
    } else {
        free(j->aims);
    }
    free(j);
    return st;
}

uint32_t * txn_aim(uint32_t * insts, const struct txn_aim * aim, int operand, uint32_t byte_offset,
                   uint32_t * size) {
    uint32_t * patch = insts + aim->word;
    bool same = patch[PATCH_OPERAND] == (uint32_t) operand && patch[PATCH_OFFSET] == byte_offset;
    *size = same ? 0 : 4 * (PATCH_OFFSET - PATCH_OPERAND + 1);
    if (!same) {
        patch[PATCH_OPERAND] = (uint32_t) operand;
        patch[PATCH_OFFSET] = byte_offset;
    }
    return patch + PATCH_OPERAND;
}
