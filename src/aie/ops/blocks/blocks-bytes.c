// blocks-bytes: the numbers of a slice as bytes, [word of 4 numbers][64 rows]: see blocks.h. Words
// come so, of all rows each, and a vector is a word of 16 rows.
#include "blocks.h"

#include "aie/ops/mul-mat/quant-writer.h"

enum {
    WORD = MM_TILE * 4, // bytes from word to word
    VECTOR = QUANT_VECTOR,
    QUARTER = 4 * WORD, // of a slice: 16 numbers
};

static struct asm_reg lanes(struct writer * w, enum lane_op op, struct asm_reg a,
                            struct asm_reg b) {
    struct asm_reg d = asm_local(w->p, ASM_X);
    emit_lanes(w->p, op, LANE_8, d, a, b);
    return d;
}

// ---- two blocks of 32 numbers ----

struct two_blocks {
    struct asm_reg left, raw, pick[2];
    int again; // label
};

static struct two_blocks take_two_blocks(struct writer * w) {
    struct two_blocks b = {.left = take_set(w, ASM_R, 2), .raw = take(w, ASM_R)};
    for (int i = 0; i < 2; i++) {
        b.pick[i] = take_set(w, ASM_MASK, EVEN_8 + i);
    }
    b.again = asm_label_new(w->p);
    return b;
}

// Where the numbers of a block begin, and where they go: lower halves of bytes, upper ones.
static void begin_two_blocks(struct writer * w, const struct two_blocks * b, struct asm_reg from,
                             const struct asm_reg to[2], struct asm_reg places) {
    struct asm_program * p = w->p;
    emit_nibbles_begin(p);
    find_block(w, places);
    emit_copy(p, b->raw, w->q->number);
    emit_set(p, places, address(w, MM_PARAMS + 4 * MM_PARAM_NUMBERS_AT));
    for (int i = 0; i < 2; i++) {
        emit_set(p, to[i], address(w, MM_LONG_BYTES + i * QUARTER));
    }
    asm_label(p, b->again);
    struct asm_reg place = asm_local(p, ASM_R);
    emit_load_word_next(p, MEM_PARAMS, place, places);
    emit_alu(p, AIE_BASIC_ADD, place, b->raw, place);
    emit_copy(p, from, place);
}

static void end_two_blocks(struct writer * w, const struct two_blocks * b,
                           const struct asm_reg to[2], int further) {
    for (int i = 0; i < 2; i++) {
        emit_advance(w->p, to[i], further);
    }
    emit_add_small(w->p, b->left, b->left, -1);
    asm_jump_if_nonzero(w->p, b->left, b->again);
    quant_end(w);
}

// The lower halves of bytes, then the upper ones. `fifth`: a word of fifth bits stands before the
// numbers, and these bits are in place already.
static void halves(struct quant * q, bool fifth) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg from = q->pointers[0], *to = q->pointers + 1;
    struct two_blocks b = take_two_blocks(w);
    quant_ready(w);
    begin_two_blocks(w, &b, from, to, q->pointers[3]);
    if (fifth) {
        emit_advance(p, from, WORD);
    }
    emit_set(p, q->number, QUARTER / VECTOR);
    asm_loop_begin(p, q->number);
    struct asm_reg v = asm_local(p, ASM_X), part[2];
    emit_load_next(p, MEM_BLOCKS, v, from);
    nibbles_of(w, b.pick, v, part);
    for (int i = 0; i < 2; i++) {
        if (fifth) {
            struct asm_reg bit = asm_local(p, ASM_X);
            emit_load(p, MEM_SIX, bit, to[i], 0); // of these no trip reads what another wrote
            part[i] = lanes(w, LANE_ADD, part[i], bit);
        }
        emit_store_next(p, MEM_BYTES, part[i], to[i]);
    }
    asm_loop_end(p);
    end_two_blocks(w, &b, to, QUARTER);
}

void blocks_halves(struct quant * q) {
    halves(q, false);
}

// 16 rows of half a byte for each word of 4 numbers, [row][8 words], as [4 words][row] twice.
static void by_words(struct writer * w, const struct asm_reg pick[2], struct asm_reg bits,
                     struct asm_reg out[2]) {
    struct asm_reg v[2], next[2];
    for (int i = 0; i < 2; i++) {
        v[i] = asm_local(w->p, ASM_X);
        emit_nibbles(w->p, v[i], asm_half(bits, i));
    }
    for (int level = 0; level < 3; level++) {
        for (int i = 0; i < 2; i++) {
            next[i] = shuffled(w, v[0], v[1], pick[i]);
        }
        v[0] = next[0];
        v[1] = next[1];
    }
    out[0] = v[0];
    out[1] = v[1];
}

// Bit n of the word before the numbers is the fifth of number n.
static void fifth_bits(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg from = q->pointers[0], *to = q->pointers + 1;
    struct two_blocks b = take_two_blocks(w);
    struct asm_reg zip_8[2], zip_16[2], sixteen = take_splat(w, LANE_8, 16);
    for (int i = 0; i < 2; i++) {
        zip_8[i] = take_set(w, ASM_MASK, ZIP_8 + i);
        zip_16[i] = take_set(w, ASM_MASK, ZIP_16 + i);
    }
    quant_ready(w);
    begin_two_blocks(w, &b, from, to, q->pointers[3]);
    emit_set(p, q->number, WORD / VECTOR);
    asm_loop_begin(p, q->number);
    struct asm_reg bits = asm_local(p, ASM_X), words[2];
    emit_load_next(p, MEM_BLOCKS, bits, from);
    by_words(w, b.pick, bits, words);
    for (int i = 0; i < 2; i++) { // numbers in lower halves of bytes, then in upper ones
        struct asm_reg lane[4], up = words[i];
        for (int n = 3; n >= 0; n--) { // bit n is the n-th number's, in lane n of its word
            up = lanes(w, LANE_ADD, up, up);
            lane[n] = lanes(w, LANE_AND, up, sixteen);
        }
        for (int word = 0; word < 4; word += 2) {
            struct asm_reg two[2];
            for (int n = 0; n < 2; n++) {
                two[n] = shuffled(w, lane[2 * n], lane[2 * n + 1], zip_8[word / 2]);
            }
            for (int n = 0; n < 2; n++) {
                emit_store(p, MEM_BYTES, shuffled(w, two[0], two[1], zip_16[n]), to[i],
                           (word + n) * WORD);
            }
        }
        emit_advance(p, to[i], VECTOR);
    }
    asm_loop_end(p);
    end_two_blocks(w, &b, to, 2 * QUARTER - WORD);
}

void blocks_halves_and_fifth(struct quant * q) {
    fifth_bits(q);
    halves(q, true);
}

// ---- 256 numbers of two bits ----

// 128 numbers are 32 bytes, of which each pair of bits is 32 numbers. Of a slice that is half a
// byte; four times the numbers are bytes of the slice. Third bits stand at the block's beginning:
// 32 bytes, of which each bit is 32 numbers.
static void two_bits(struct quant * q, bool third) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg from = q->pointers[0], *to = q->pointers + 1;
    struct asm_reg pick = take(w, ASM_MASK);
    struct asm_reg bits[2] = {take_splat(w, LANE_8, 3), take_splat(w, LANE_8, 12)};
    struct asm_reg bit[2], high = q->pointers[3];
    struct blocks_pair pair = {0};
    if (third) {
        pair = blocks_take_pair(w);
        bit[0] = take_splat(w, LANE_8, 4);
        bit[1] = take_splat(w, LANE_8, 8);
    }
    quant_ready(w);
    emit_nibbles_begin(p);
    find_block(w, from);
    struct asm_reg number = slice_number(w);
    if (third) {
        emit_copy(p, high, q->number);
        blocks_find_pair(w, &pair, number);
    }
    struct asm_reg at = asm_local(p, ASM_R), half = asm_local(p, ASM_R);
    read_param(w, at, MM_PARAM_NUMBERS_AT, from);
    emit_alu(p, AIE_BASIC_ADD, at, at, q->number);
    emit_copy(p, half, shifted(w, masked(w, number, 2), 11 - 1 /* 8 WORD */));
    emit_alu(p, AIE_BASIC_ADD, at, at, half);
    emit_copy(p, from, at);
    emit_copy(p, pick, sum_of(w, masked(w, number, 1), EVEN_8));
    for (int i = 0; i < 2; i++) {
        emit_set(p, to[i], address(w, MM_LONG_BYTES + i * 2 * QUARTER));
    }
    emit_set(p, q->number, 2 * QUARTER / VECTOR);
    asm_loop_begin(p, q->number);
    struct asm_reg v = asm_local(p, ASM_X), n[2];
    emit_load_next(p, MEM_BLOCKS, v, from);
    for (int i = 0; i < 2; i++) {
        n[i] = asm_local(p, ASM_X);
        emit_nibbles(p, n[i], asm_half(v, i));
    }
    struct asm_reg two = shuffled(w, n[0], n[1], pick), number_of[2];
    for (int i = 0; i < 2; i++) {
        number_of[i] = lanes(w, LANE_AND, two, bits[i]);
    }
    if (third) {
        struct asm_reg more = asm_local(p, ASM_X);
        emit_load_next(p, MEM_BLOCKS, more, high);
        struct asm_reg d = blocks_pair_of(w, &pair, more);
        struct asm_reg low = lanes(w, LANE_AND, d, bit[0]), up = lanes(w, LANE_AND, d, bit[1]);
        number_of[0] = lanes(w, LANE_ADD, number_of[0], low);
        number_of[1] = lanes(w, LANE_ADD, number_of[1], lanes(w, LANE_ADD, up, up));
    }
    number_of[0] = lanes(w, LANE_ADD, number_of[0], number_of[0]);
    number_of[0] = lanes(w, LANE_ADD, number_of[0], number_of[0]);
    for (int i = 0; i < 2; i++) {
        emit_store_next(p, MEM_BYTES, number_of[i], to[i]);
    }
    asm_loop_end(p);
    quant_end(w);
}

void blocks_two_bits(struct quant * q) {
    two_bits(q, false);
}

void blocks_three_bits(struct quant * q) {
    two_bits(q, true);
}

// ---- places in a table ----

void blocks_places(struct quant * q) {
    quant_long_look_up(q);
}
