// quant-apart: numbers in the order in which aie2p's multiplier takes them, [k][64 rows]: what a
// slice of bf16 becomes only when it is set apart (aie2p-block.c). A trip takes one word of 32
// rows, which is turned first: of q4_0 while its bytes still hold two numbers. So scales are wanted
// as they stand, one for each row.
#include "quant-writer.h"

enum {
    PITCH = MM_TILE * 4, // bytes from word to word
    ROWS = MM_TILE * 2,  // of the numbers of one k
    HALF = ROWS / 2,     // of those of 32 rows
    MINUS_128 = 0xc300,
    MINUS_136 = 0xc308,
    TOP = 0x43, // upper byte of 128 + q in bf16
};

struct apart {
    struct asm_reg pick[2], zip[2], config; // scalars
    struct asm_reg top, by, rest;           // a scale for each row, and what is too much times that
};

static struct apart take_apart(struct writer * w, int top) {
    struct apart a;
    a.config = take_set(w, ASM_R, (int32_t) asm_target(w->p)->mul_config);
    a.top = take_splat(w, LANE_8, top);
    a.by = take(w, ASM_X);
    a.rest = take(w, ASM_BM);
    for (int i = 0; i < 2; i++) {
        a.pick[i] = take_set(w, ASM_MASK, EVEN_8 + i);
        a.zip[i] = take_set(w, ASM_MASK, ZIP_8 + i);
    }
    return a;
}

// Two vectors of 16 rows each, [row][4 bytes], as bytes 0, 1 and 2, 3 of 32 rows.
static void turn(struct writer * w, const struct apart * a, struct asm_reg from,
                 struct asm_reg bytes[2]) {
    struct asm_reg v[2], two[2];
    for (int i = 0; i < 2; i++) {
        v[i] = asm_local(w->p, ASM_X);
        emit_load(w->p, MEM_BLOCKS, v[i], from, i * QUANT_VECTOR);
    }
    for (int odd = 0; odd < 2; odd++) { // bytes 0 and 2, 1 and 3
        two[odd] = shuffled(w, v[0], v[1], a->pick[odd]);
    }
    for (int i = 0; i < 2; i++) {
        bytes[i] = shuffled(w, two[0], two[1], a->pick[i]);
    }
}

// One k of 32 rows; the pointer is in the middle of four.
static void put(struct writer * w, const struct apart * a, struct asm_reg number, int k,
                struct asm_reg to) {
    struct asm_reg sum = asm_local(w->p, ASM_BM);
    emit_each(w->p, LANE_PLUS_PRODUCT, sum, a->rest, number, a->by, a->config);
    emit_store_bf16(w->p, MEM_OUT, asm_half(sum, 0), to, (k - 2) * ROWS);
}

// Of two k whose bytes stand behind each other, with the upper bytes.
static struct asm_reg number_of(struct writer * w, const struct apart * a, struct asm_reg bytes,
                                int k) {
    return shuffled(w, bytes, a->top, a->zip[k % 2]);
}

// ---- q4_0, and mxfp4 by what its places mean ----

// Places in a table of 16 numbers, in lanes of two bytes, as bf16 numbers, more by 160. With r for
// the lower three bits less 4 that is 160 + r + max(r, 0) + max(2 r, 4), or less by as much.
enum { BASE = 0x4320 /* 160 */, MINUS_160 = 0xc320 };
struct places {
    struct asm_reg zero, four, eight, base;
};

static struct asm_reg lanes(struct writer * w, enum lane_op op, struct asm_reg a,
                            struct asm_reg b) {
    struct asm_reg d = asm_local(w->p, ASM_X);
    emit_lanes(w->p, op, LANE_16, d, a, b);
    return d;
}

static struct asm_reg most(struct writer * w, struct asm_reg a, struct asm_reg b) {
    struct asm_reg d = asm_local(w->p, ASM_X);
    emit_choose(w->p, LANE_MAX, LANE_16, d, emit_new_mask(w->p, LANE_16), a, b);
    return d;
}

static struct asm_reg worked_out(struct writer * w, const struct places * c, struct asm_reg place) {
    struct asm_reg r = asm_local(w->p, ASM_X), negative = emit_new_mask(w->p, LANE_16);
    emit_choose(w->p, LANE_MIN_UNSIGNED, LANE_16, r, negative, place,
                lanes(w, LANE_SUB, place, c->eight)); // which wraps for those below it
    r = lanes(w, LANE_SUB, r, c->four);
    struct asm_reg sum = lanes(w, LANE_ADD, r, most(w, r, c->zero));
    sum = lanes(w, LANE_ADD, sum, most(w, lanes(w, LANE_ADD, r, r), c->four));
    struct asm_reg d = asm_local(w->p, ASM_X);
    emit_add_or_sub(w->p, LANE_16, d, c->base, sum, negative);
    return d;
}

// Lower halves of bytes are k, upper ones k + 16; the places are what they hold, or none are given.
static void trip(struct writer * w, const struct apart * a, const struct places * places,
                 struct asm_reg from, const struct asm_reg to[2]) {
    struct asm_program * p = w->p;
    struct asm_reg bytes[2], part[2];
    turn(w, a, from, bytes);
    for (int k = 0; k < 4; k++) {
        if (k % 2 == 0) {
            nibbles_of(w, a->pick, bytes[k / 2], part);
        }
        for (int i = 0; i < 2; i++) {
            struct asm_reg number = number_of(w, a, part[i], k);
            put(w, a, places ? worked_out(w, places, number) : number, k, to[i]);
        }
    }
    emit_advance(p, from, PITCH);
    for (int i = 0; i < 2; i++) {
        emit_advance(p, to[i], 4 * ROWS);
    }
}

// Both halves of the rows of both blocks, one after the other; which one, is counted in `i`. Words
// begin at `words`, and between the blocks' may be another one.
static void blocks(struct quant * q, bool is_mxfp4) {
    struct writer writer = begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg from = q->pointers[0], scales = q->pointers[1], *to = q->pointers + 2;
    struct asm_reg i = take_set(w, ASM_R, 0), words = take(w, ASM_R);
    struct apart a = take_apart(w, is_mxfp4 ? 0 : TOP);
    struct places places = {.zero = a.top};
    if (is_mxfp4) {
        places.four = take_splat(w, LANE_16, 4);
        places.eight = take_splat(w, LANE_16, 8);
        places.base = take_splat(w, LANE_16, BASE);
    }
    int part = asm_label_new(p);
    ready(w);
    emit_nibbles_begin(p);
    if (is_mxfp4) {
        emit_copy(p, words, planes_of(w));
        emit_copy(p, scales, words);
        emit_set(p, words, address(w, MM_TABLED_WORDS));
    } else {
        emit_copy(p, words, raw_of(w));
        emit_set(p, scales, address(w, MM_SCALES));
    }
    asm_label(p, part);
    struct asm_reg half = masked(w, i, 1), second = masked(w, i, 2), d[3];
    struct asm_reg tile = sum_of(w, q->base, 2 * ROWS - q->offset);
    for (int k = 0; k < 3; k++) {
        d[k] = asm_local(p, ASM_R);
    }
    emit_alu(p, AIE_BASIC_ADD, d[0], words, shifted(w, half, 7 /* 2 QUANT_VECTOR */));
    emit_alu(p, AIE_BASIC_ADD, d[0], d[0], shifted(w, second, 9 /* 4 PITCH / 2 */));
    if (!is_mxfp4) { // a word that is scales by now
        emit_alu(p, AIE_BASIC_ADD, d[0], d[0], shifted(w, second, 7 /* PITCH / 2 */));
    }
    emit_copy(p, from, d[0]);
    emit_alu(p, AIE_BASIC_ADD, d[1], tile, shifted(w, half, 6 /* HALF */));
    emit_alu(p, AIE_BASIC_ADD, d[2], d[1], shifted(w, second, 11 /* 32 ROWS / 2 */));
    emit_copy(p, to[0], d[2]);
    emit_copy(p, to[1], sum_of(w, d[2], 16 * ROWS));
    emit_load_next(p, MEM_SCALES, a.by, scales);
    emit_each(p, LANE_PRODUCT, a.rest, a.rest, splat(w, LANE_16, is_mxfp4 ? MINUS_160 : MINUS_136),
              a.by, a.config);
    emit_set(p, q->number, 4);
    asm_loop_begin(p, q->number);
    trip(w, &a, is_mxfp4 ? &places : NULL, from, to);
    asm_loop_end(p);
    emit_add_small(p, i, i, 1);
    emit_add_small(p, q->number, i, -4);
    asm_jump_if_nonzero(p, q->number, part);
    end(w);
}

void quant_apart(struct quant * q) {
    blocks(q, false);
}

void quant_apart_mxfp4(struct quant * q) {
    blocks(q, true);
}

// ---- blocks that are longer than a slice ----

static void long_trip(struct writer * w, const struct apart * a, struct asm_reg from,
                      struct asm_reg to) {
    struct asm_reg bytes[2];
    turn(w, a, from, bytes);
    for (int k = 0; k < 4; k++) {
        put(w, a, number_of(w, a, bytes[k / 2], k), k, to);
    }
    emit_advance(w->p, from, PITCH);
    emit_advance(w->p, to, 4 * ROWS);
}

// (128 + q) s - 128 s - m, as in quant-long.c: planes of s and m, of as many words as the
// parameters say, for one half of the rows and then for the other. Few scalars are held, for
// counting trips wants some.
void quant_apart_long(struct quant * q) {
    struct writer writer = begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg *at = q->pointers, from = at[0], scales = at[1], less = at[2], to = at[3];
    struct asm_reg half = take_set(w, ASM_R, 0), left = take(w, ASM_R);
    struct asm_reg one = take(w, ASM_X), offset = take_splat(w, LANE_16, MINUS_128);
    struct apart a = take_apart(w, TOP);
    int rows = asm_label_new(p), plane = asm_label_new(p);
    ready(w);
    read_param(w, q->number, MM_PARAM_ONE, from);
    emit_splat(p, LANE_16, one, q->number);
    asm_label(p, rows);
    struct asm_reg table = slice_number(w), further = asm_local(p, ASM_R),
                   minima = asm_local(p, ASM_R);
    read_param(w, q->number, MM_PARAM_TABLE_SHIFT, from);
    read_param(w, further, MM_PARAM_LESS, less);
    emit_alu(p, AIE_BASIC_SHIFT, table, table, q->number);
    emit_alu(p, AIE_BASIC_ADD, table, table, half);
    table = sum_of(w, table, address(w, MM_LONG_TABLE));
    emit_copy(p, scales, table);
    emit_alu(p, AIE_BASIC_ADD, minima, table, further);
    emit_copy(p, less, minima);
    emit_alu(p, AIE_BASIC_ADD, left, half, sum_of(w, q->base, 2 * ROWS - q->offset));
    emit_copy(p, to, left);
    emit_copy(p, from, sum_of(w, shifted(w, half, 1), address(w, MM_LONG_BYTES)));
    emit_set(p, left, MM_TILE / 4); // words
    asm_label(p, plane);
    struct asm_reg m = asm_local(p, ASM_X), rest = asm_local(p, ASM_BM);
    emit_load(p, MEM_TABLE, a.by, scales, 0);
    emit_load(p, MEM_TABLE, m, less, 0);
    emit_each(p, LANE_PRODUCT, rest, rest, offset, a.by, a.config);
    emit_each(p, LANE_LESS_PRODUCT, a.rest, rest, m, one, a.config);
    emit_advance(p, scales, ROWS);
    emit_advance(p, less, ROWS);
    read_param(w, q->number, MM_PARAM_PLANE_WORDS, at[4]);
    emit_alu(p, AIE_BASIC_SUB, left, left, q->number);
    asm_loop_begin(p, q->number);
    long_trip(w, &a, from, to);
    asm_loop_end(p);
    asm_jump_if_nonzero(p, left, plane);
    emit_add_small(p, half, half, HALF / 2); // the reach is 63
    emit_add_small(p, half, half, HALF / 2);
    emit_copy(p, q->number, sum_of(w, half, -2 * HALF));
    asm_jump_if_nonzero(p, q->number, rows);
    end(w);
}
