// txn: the instruction stream of one dispatch. Only the five operations that real kernels use are
// written and read; each begins with its opcode and a 0 (or its size), so a reader that checks the
// size words in between cannot lose its way unnoticed.
#include "image.h"

#include "aie/target/target.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    TXN_WRITE = 0x00,
    TXN_BLOCK_WRITE = 0x01,
    TXN_MASK_WRITE = 0x03,
    TXN_WAIT = 0x80,
    TXN_PATCH = 0x81,

    HEADER_BYTES = 16,
    BLOCK_HEADER_BYTES = 16,
    MEMTILE_ROWS = 1,
    VERSION = 0x0100, // major 0, minor 1
};

// ---- writing ----

static void append(struct txn * t, const uint32_t * words, size_t n) {
    for (size_t i = 0; i < n; i++) {
        buf_append_u32(&t->words, words[i]);
    }
}

void txn_begin(struct txn * t, int columns, int device_generation) {
    *t = (struct txn){0};
    append(t,
           (uint32_t[]){(uint32_t) AIE_ROWS << 24 | (uint32_t) (device_generation & 0xff) << 16 |
                            VERSION,
                        MEMTILE_ROWS << 8 | (uint32_t) (columns & 0xff), 0, 0},
           4);
}

void txn_write(struct txn * t, uint32_t addr, uint32_t value) {
    append(t, (uint32_t[]){TXN_WRITE, 0, addr, 0, value, 6 * 4}, 6);
    t->n_ops++;
}

void txn_mask_write(struct txn * t, uint32_t addr, uint32_t mask, uint32_t value) {
    append(t, (uint32_t[]){TXN_MASK_WRITE, 0, addr, 0, value, mask, 7 * 4}, 7);
    t->n_ops++;
}

void txn_block_write(struct txn * t, uint32_t addr, const uint32_t * words, size_t n) {
    if (n > (UINT32_MAX - BLOCK_HEADER_BYTES) / 4) {
        t->words.failed = true;
        return;
    }
    append(t, (uint32_t[]){TXN_BLOCK_WRITE, 0, addr, (uint32_t) (BLOCK_HEADER_BYTES + 4 * n)}, 4);
    append(t, words, n);
    t->n_ops++;
}

void txn_patch_address(struct txn * t, uint32_t reg_addr, int operand, uint32_t byte_offset) {
    append(t,
           (uint32_t[]){TXN_PATCH, 12 * 4, 0, 0, 0, 0, reg_addr, 0, (uint32_t) operand, 0,
                        byte_offset, 0},
           12);
    t->n_ops++;
}

void txn_wait(struct txn * t, int col, int row, int direction, int channel) {
    append(t,
           (uint32_t[]){TXN_WAIT, 4 * 4,
                        (uint32_t) col << 16 | (uint32_t) row << 8 | (uint32_t) direction,
                        (uint32_t) channel << 24 | 1 << 16 | 1 << 8},
           4);
    t->n_ops++;
}

enum status txn_end(struct txn * t, uint32_t ** insts, size_t * n_words, struct error * err) {
    size_t size = t->words.size;
    uint32_t * out = t->words.failed || size > UINT32_MAX ? NULL : malloc(size);
    if (!out) {
        buf_free(&t->words);
        return error_set(err, ST_NO_MEMORY, "TXN: no memory for %zu bytes", size);
    }
    store_u32(t->words.data + 8, t->n_ops);
    store_u32(t->words.data + 12, (uint32_t) size);
    memcpy(out, t->words.data, size);
    buf_free(&t->words);
    *insts = out;
    *n_words = size / 4;
    return ST_OK;
}

unsigned txn_generation(enum aie_arch arch) {
    return (unsigned) aie_target(arch)->device_generation;
}

enum status txn_idle(enum aie_arch arch, uint32_t ** insts, size_t * n_words, struct error * err) {
    const uint32_t last_shim_descriptor = 0x1d000 + 15 * 0x20;
    struct txn t;
    txn_begin(&t, 1, (int) txn_generation(arch)); // it touches the first column alone
    txn_write(&t, last_shim_descriptor, 0);
    return txn_end(&t, insts, n_words, err);
}

// The operation at w and how many words it has; false: it is not one of ours.
static bool price(const uint32_t * w, size_t left, size_t * n, uint64_t * cycles) {
    enum {
        WRITE = 130,
        MASK_WRITE = 260,
        BLOCK = 130,
        BLOCK_WORD = 14,
        WAIT = 10300,
        PATCH = 1100
    };
    switch (w[0]) {
    case TXN_WRITE:
        *cycles += WRITE;
        *n = 6;
        return true;
    case TXN_BLOCK_WRITE:
        *n = left > 3 && w[3] >= BLOCK_HEADER_BYTES ? w[3] / 4 : left;
        *n = *n < left ? *n : left;
        *cycles += BLOCK + BLOCK_WORD * *n;
        return true;
    case TXN_MASK_WRITE:
        *cycles += MASK_WRITE;
        *n = 7;
        return true;
    case TXN_WAIT:
        *cycles += WAIT;
        *n = 4;
        return true;
    case TXN_PATCH: // and the transfer that it is for starts
        *cycles += PATCH;
        *n = 12;
        return true;
    default: // whoever sends it finds out
        return false;
    }
}

uint64_t txn_price(const uint32_t * ops, size_t n_words) {
    uint64_t cycles = 0;
    size_t n;
    for (size_t i = 0; i < n_words; i += n) {
        if (!price(ops + i, n_words - i, &n, &cycles)) {
            break;
        }
    }
    return cycles;
}

uint64_t txn_cycles(const uint32_t * insts, size_t n_words) {
    const size_t header = HEADER_BYTES / 4;
    return n_words > header ? txn_price(insts + header, n_words - header) : 0;
}

// ---- reading ----

// Fixed words of each operation: those whose bit is set in `zero` are 0, and word `size_at` tells
// the size. A block write's size varies, so read_op checks it against what is left.
static const struct shape {
    uint32_t opcode;
    enum image_op op;
    uint32_t n_words;
    uint32_t size_at;
    uint32_t zero;
    const char * name;
} shapes[] = {
    {TXN_WRITE, IMAGE_WRITE, 6, 5, 1 << 1 | 1 << 3, "WRITE"},
    {TXN_BLOCK_WRITE, IMAGE_BLOCK_WRITE, 4, 3, 1 << 1, "BLOCKWRITE"},
    {TXN_MASK_WRITE, IMAGE_MASK_WRITE, 7, 6, 1 << 1 | 1 << 3, "MASKWRITE"},
    {TXN_WAIT, IMAGE_WAIT, 4, 1, 0, "WAIT"},
    // all but the register (6), the operand (8) and its offset (10)
    {TXN_PATCH, IMAGE_PATCH, 12, 1, 0xabc, "PATCH"},
};

static enum status read_wait(const uint8_t * p, struct image_command * c, struct error * err) {
    uint32_t where = load_u32(p + 8), what = load_u32(p + 12);
    c->col = (int) bits(where, 23, 16);
    c->row = (int) bits(where, 15, 8);
    c->direction = (int) bits(where, 7, 0);
    c->channel = (int) bits(what, 31, 24);
    if (bits(where, 31, 24) || c->direction > 1) {
        return error_set(err, ST_CORRUPT, "WAIT at offset 0x%x names no channel (0x%08x)",
                         c->offset, where);
    }
    if ((what & 0xffffff) != 0x010100) {
        return error_set(err, ST_UNSUPPORTED,
                         "WAIT at offset 0x%x is for %u columns and %u rows, one of each is known",
                         c->offset, bits(what, 23, 16), bits(what, 15, 8));
    }
    return ST_OK;
}

static enum status read_fields(const uint8_t * p, struct image_command * c, struct error * err) {
    switch (c->op) {
    case IMAGE_WRITE:
        c->addr = load_u32(p + 8);
        c->value = load_u32(p + 16);
        return ST_OK;
    case IMAGE_MASK_WRITE:
        c->addr = load_u32(p + 8);
        c->value = load_u32(p + 16);
        c->mask = load_u32(p + 20);
        return ST_OK;
    case IMAGE_BLOCK_WRITE:
        c->addr = load_u32(p + 8);
        c->data = p + BLOCK_HEADER_BYTES;
        return ST_OK;
    case IMAGE_PATCH:
        c->addr = load_u32(p + 24);
        c->byte_offset = load_u32(p + 40);
        if (load_u32(p + 32) > INT_MAX) {
            return error_set(err, ST_CORRUPT, "PATCH at offset 0x%x names no operand (0x%x)",
                             c->offset, load_u32(p + 32));
        }
        c->operand = (int) load_u32(p + 32);
        return ST_OK;
    default:
        return read_wait(p, c, err);
    }
}

// Reads the operation at `at`; *length is its size in bytes, all of which lie within the stream.
static enum status read_op(const uint8_t * txn, size_t size, size_t at, struct image_command * c,
                           size_t * length, struct error * err) {
    const struct shape * s = NULL;
    uint32_t opcode = load_u32(txn + at);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        if (shapes[i].opcode == opcode) {
            s = &shapes[i];
        }
    }
    if (!s) {
        return error_set(err, ST_UNSUPPORTED, "TXN operation 0x%x at offset 0x%zx is not known",
                         opcode, at);
    }
    size_t left = size - at;
    if (left < (size_t) s->n_words * 4) {
        return error_set(err, ST_CORRUPT, "%s at offset 0x%zx is cut off after %zu bytes", s->name,
                         at, left);
    }
    const uint8_t * p = txn + at;
    *length = load_u32(p + 4 * s->size_at);
    bool fits = s->op == IMAGE_BLOCK_WRITE
                    ? *length >= BLOCK_HEADER_BYTES && *length % 4 == 0 && *length <= left
                    : *length == (size_t) s->n_words * 4;
    if (!fits) {
        return error_set(err, ST_CORRUPT, "%s at offset 0x%zx cannot have %zu bytes (%zu are left)",
                         s->name, at, *length, left);
    }
    for (uint32_t i = 0; i < s->n_words; i++) {
        if (s->zero >> i & 1 && load_u32(p + 4 * i)) {
            return error_set(err, ST_UNSUPPORTED,
                             "%s at offset 0x%zx: word %u is 0x%x, only 0 is known", s->name, at, i,
                             load_u32(p + 4 * i));
        }
    }
    *c = (struct image_command){.op = s->op, .offset = (uint32_t) at};
    if (s->op == IMAGE_BLOCK_WRITE) {
        c->n_words = (uint32_t) (*length - BLOCK_HEADER_BYTES) / 4;
    }
    return read_fields(p, c, err);
}

static enum status check_header(const uint8_t * txn, size_t size, struct error * err) {
    if (size < HEADER_BYTES || size % 4 || size > UINT32_MAX) {
        return error_set(err, ST_CORRUPT, "TXN: %zu bytes cannot hold one", size);
    }
    uint32_t word = load_u32(txn), shape = load_u32(txn + 4);
    if ((word & 0xffff) != VERSION || word >> 24 != AIE_ROWS) {
        return error_set(err, ST_INVALID, "not a TXN of a known version (it begins with 0x%08x)",
                         word);
    }
    if (shape >> 8 != MEMTILE_ROWS || (shape & 0xff) < 1 || (shape & 0xff) > AIE_MOST_COLUMNS) {
        return error_set(err, ST_UNSUPPORTED,
                         "TXN: array of %u columns and %u memory rows is not known", shape & 0xff,
                         shape >> 8);
    }
    if (load_u32(txn + 12) != size) {
        return error_set(err, ST_CORRUPT, "TXN: its header tells %u bytes, there are %zu",
                         load_u32(txn + 12), size);
    }
    return ST_OK;
}

enum status txn_read(const uint8_t * txn, size_t size, image_visit visit, void * user,
                     struct error * err) {
    enum status st = check_header(txn, size, err);
    uint32_t n_ops = 0;
    for (size_t at = HEADER_BYTES, length = 0; st == ST_OK && at < size; at += length, n_ops++) {
        struct image_command command;
        st = read_op(txn, size, at, &command, &length, err);
        if (st == ST_OK && !visit(user, &command)) {
            return ST_OK;
        }
    }
    if (st == ST_OK && n_ops != load_u32(txn + 8)) {
        return error_set(err, ST_CORRUPT, "TXN: its header tells %u operations, there are %u",
                         load_u32(txn + 8), n_ops);
    }
    return st;
}
