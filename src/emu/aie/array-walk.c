// array-walk: where the words of a descriptor lie. A descriptor walks over memory in up to four
// dimensions, a memory-to-stream one with zeros around the data; words are read and written many at
// a time, row by row. What is checked before the first word moves is the exact set of words.
//
// On the way it counts the granules that a core tile's DMA asks of each physical bank: one whenever
// a word lies in another granule than the word before.
#include "emu/aie/array-model.h"

#include <string.h>

// ---- how far ----

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

uint64_t walk_bytes(const struct bd * bd) {
    return (bd->pads ? furthest_padded(bd) : furthest(bd, bd->length, 3)) * 4 + 4;
}

void walk_begin(struct channel * c) {
    c->left = c->bd.length;
    c->offset = 0;
    memset(c->count, 0, sizeof(c->count));
    memset(c->row, 0, sizeof(c->row));
    c->granule = NO_GRANULE;
    memset(c->granules, 0, sizeof(c->granules));
}

// ---- banks ----

static void touch(struct channel * c, uint32_t granule, unsigned bytes) {
    if (granule != c->granule) {
        uint32_t address = granule * bytes;
        unsigned half = c->tile->array->clock.bank_bit;
        c->granules[2 * (address >> 14 & 3) + (half ? address >> half & 1 : 0)]++;
        c->granule = granule;
    }
}

static void touch_row(struct channel * c, uint32_t n) {
    unsigned bytes = c->tile->array->clock.dma_granule, half = c->tile->array->clock.bank_bit;
    if (c->tile->kind != TILE_CORE || bytes == 0) {
        return;
    }
    uint32_t first = (uint32_t) (c->base - c->tile->memory) + (uint32_t) c->offset * 4;
    if (c->bd.step[0] == 1) {
        uint32_t g = first / bytes, last = (first + 4 * n - 4) / bytes;
        while (g <= last) {
            // whole rounds over the two halves of a bank
            uint32_t bank_end = (g * bytes / 0x4000 + 1) * (0x4000 / bytes);
            uint32_t end = last + 1 < bank_end ? last + 1 : bank_end;
            if (g != c->granule && end - g >= 4 && 1u << half == bytes) {
                uint32_t rounds = (end - g) / 2, bank = 2 * (g * bytes >> 14 & 3);
                c->granules[bank] += rounds;
                c->granules[bank + 1] += rounds;
                g += 2 * rounds;
                c->granule = g - 1;
            } else {
                touch(c, g++, bytes);
            }
        }
    } else {
        for (uint32_t i = 0; i < n; i++) {
            touch(c, (first + 4 * i * c->bd.step[0]) / bytes, bytes);
        }
    }
}

// ---- the walk ----

// n rows further, from the beginning of one, at most to the end of the plane.
static inline void advance_rows(struct channel * c, uint32_t n) {
    const struct bd * bd = &c->bd;
    c->row[0] += (uint64_t) n * bd->step[1];
    if (bd->wrap[1] && (c->count[1] += n) == bd->wrap[1]) {
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

// n words further, at most to the end of the row.
static inline void advance(struct channel * c, uint32_t n) {
    const struct bd * bd = &c->bd;
    c->offset += (uint64_t) n * bd->step[0];
    if (bd->wrap[0] && (c->count[0] += n) == bd->wrap[0]) {
        c->count[0] = 0;
        advance_rows(c, 1);
    }
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

// Rows are short as often as not, and then a call costs more than the copy.
static inline void copy_row(uint8_t * to, const uint8_t * from, uint32_t n) {
    if (n > 32) {
        memcpy(to, from, (size_t) n * 4);
        return;
    }
    for (; n >= 4; n -= 4, to += 16, from += 16) {
        memcpy(to, from, 16);
    }
    for (; n; n--, to += 4, from += 4) {
        memcpy(to, from, 4);
    }
}

// Rows of the same length one after the other; steps in bytes.
static void copy_rows(uint8_t * to, uint64_t to_step, const uint8_t * from, uint64_t from_step,
                      uint32_t n_words, uint32_t rows) {
    if (n_words == 4) { // a block of a product's operand, most often by far
        for (; rows; rows--, to += to_step, from += from_step) {
            __builtin_prefetch(from + 64); // of the next planes
            memcpy(to, from, 16);
        }
    }
    for (; rows; rows--, to += to_step, from += from_step) {
        copy_row(to, from, n_words);
    }
}

// Whether somebody asks who wrote the words, row by row.
static inline bool is_ordered(const struct channel * c) {
    return c->tile->kind == TILE_SHIM && c->tile->array->order;
}

// How many whole short rows of one plane the next n words are; 0: they are taken one by one.
static inline uint32_t whole_rows(const struct channel * c, uint32_t n) {
    uint32_t row = c->bd.wrap[0];
    if (row == 0 || row > 32 || c->bd.step[0] != 1 || c->count[0] || c->tile->kind == TILE_CORE ||
        is_ordered(c)) {
        return 0;
    }
    uint32_t rows = n / row, rest = c->bd.wrap[1] - c->count[1];
    return c->bd.wrap[1] && rest < rows ? rest : rows;
}

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

static void read_row(struct channel * c, uint32_t * words, uint64_t offset, uint32_t n) {
    const uint8_t * from = c->base + offset * 4;
    uint64_t step = c->bd.step[0];
    if (is_ordered(c)) {
        order_read(c, from, (uint32_t) step, n);
    }
    if (step == 1) {
        copy_row((uint8_t *) words, from, n);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        words[i] = load_u32(from + i * step * 4);
    }
}

static void write_row(struct channel * c, const uint32_t * words, uint32_t n) {
    uint8_t * to = c->base + c->offset * 4;
    uint64_t step = c->bd.step[0];
    if (is_ordered(c)) {
        order_wrote(c, to, (uint32_t) step, n);
    }
    if (step == 1) {
        copy_row(to, (const uint8_t *) words, n);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        store_u32(to + i * step * 4, words[i]);
    }
}

// The words of a row that is not all zeros, from the present one on.
static void padded_row_read(struct channel * c, uint32_t * words, uint32_t n) {
    const struct bd * bd = &c->bd;
    uint64_t offset = c->row[2];
    for (int d = 1; d < 3; d++) {
        offset += (uint64_t) (c->count[d] - bd->before[d]) * bd->step[d];
    }
    uint32_t at = c->count[0], zeros = at < bd->before[0] ? bd->before[0] - at : 0;
    zeros = zeros < n ? zeros : n;
    uint32_t end = bd->wrap[0] ? bd->before[0] + bd->wrap[0] : UINT32_MAX;
    uint32_t data = at + zeros < end ? end - at - zeros : 0;
    data = data < n - zeros ? data : n - zeros;
    memset(words, 0, (size_t) zeros * 4);
    offset += (uint64_t) (at + zeros - bd->before[0]) * bd->step[0];
    if (data) {
        read_row(c, words + zeros, offset, data);
    }
    memset(words + zeros + data, 0, (size_t) (n - zeros - data) * 4);
}

static void padded_read(struct channel * c, uint32_t * words, uint32_t n) {
    while (n) {
        uint32_t row = row_rest(c, n);
        if (padded_row(c)) {
            memset(words, 0, (size_t) row * 4);
        } else {
            padded_row_read(c, words, row);
        }
        padded_advance(c, row);
        words += row;
        n -= row;
    }
}

// Host memory is far away: what the next burst will read is asked for when this one has been read,
// and comes while others have their turn.
static void fetch_ahead(const struct channel * c, uint32_t n) {
    if (c->tile->kind == TILE_SHIM && c->bd.step[0] == 1 && c->left) {
        n = n < c->left ? n : c->left;
        const uint8_t * from = c->base + c->offset * 4;
        uint32_t bytes = 4 * row_rest(c, n);
        for (uint32_t i = 0; i < bytes; i += 64) {
            __builtin_prefetch(from + i);
        }
    }
}

void walk_read(struct channel * c, uint32_t * words, uint32_t n) {
    uint32_t all = n;
    c->left -= n;
    if (c->bd.pads) {
        padded_read(c, words, n);
        return;
    }
    while (n) {
        uint32_t rows = whole_rows(c, n), row = rows ? rows * c->bd.wrap[0] : row_rest(c, n);
        if (rows) {
            copy_rows((uint8_t *) words, (uint64_t) c->bd.wrap[0] * 4, c->base + c->offset * 4,
                      (uint64_t) c->bd.step[1] * 4, c->bd.wrap[0], rows);
            advance_rows(c, rows);
        } else {
            touch_row(c, row);
            read_row(c, words, c->offset, row);
            advance(c, row);
        }
        words += row;
        n -= row;
    }
    fetch_ahead(c, all);
}

void walk_write(struct channel * c, const uint32_t * words, uint32_t n) {
    c->left -= n;
    while (n) {
        uint32_t rows = whole_rows(c, n), row = rows ? rows * c->bd.wrap[0] : row_rest(c, n);
        if (rows) {
            copy_rows(c->base + c->offset * 4, (uint64_t) c->bd.step[1] * 4,
                      (const uint8_t *) words, (uint64_t) c->bd.wrap[0] * 4, c->bd.wrap[0], rows);
            advance_rows(c, rows);
        } else {
            touch_row(c, row);
            write_row(c, words, row);
            advance(c, row);
        }
        words += row;
        n -= row;
    }
}

uint32_t * walk_place(const struct channel * c, uint32_t n) {
    bool straight = c->bd.step[0] == 1 && !c->bd.pads && row_rest(c, n) == n;
    return straight ? (uint32_t *) (void *) (c->base + c->offset * 4) : NULL;
}

void walk_written(struct channel * c, uint32_t n) {
    c->left -= n;
    touch_row(c, n);
    advance(c, n);
}

uint32_t walk_peek(const struct channel * c) {
    return c->bd.pads ? padded_word(c) : load_u32(c->base + c->offset * 4);
}
