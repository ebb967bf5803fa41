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

static struct apart take_apart(struct writer * w) {
    struct apart a = {.config = take_set(w, ASM_R, (int32_t) asm_target(w->p)->mul_config),
                      .top = take_splat(w, LANE_8, TOP),
                      .by = take(w, ASM_X),
                      .rest = take(w, ASM_BM)};
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

// One k of 32 rows, of two whose bytes stand behind each other; the pointer is in the middle of
// four.
static void put(struct writer * w, const struct apart * a, struct asm_reg bytes, int k,
                struct asm_reg to) {
    struct asm_reg number = shuffled(w, bytes, a->top, a->zip[k % 2]);
    struct asm_reg sum = asm_local(w->p, ASM_BM);
    emit_each(w->p, LANE_PLUS_PRODUCT, sum, a->rest, number, a->by, a->config);
    emit_store_bf16(w->p, MEM_OUT, asm_half(sum, 0), to, (k - 2) * ROWS);
}

// ---- q4_0 ----

// Lower halves of bytes are k, upper ones k + 16.
static void trip(struct writer * w, const struct apart * a, struct asm_reg from,
                 const struct asm_reg to[2]) {
    struct asm_program * p = w->p;
    struct asm_reg bytes[2], part[2];
    turn(w, a, from, bytes);
    for (int k = 0; k < 4; k++) {
        if (k % 2 == 0) {
            nibbles_of(w, a->pick, bytes[k / 2], part);
        }
        for (int i = 0; i < 2; i++) {
            put(w, a, part[i], k, to[i]);
        }
    }
    emit_advance(p, from, PITCH);
    for (int i = 0; i < 2; i++) {
        emit_advance(p, to[i], 4 * ROWS);
    }
}

static void take_scales(struct writer * w, const struct apart * a, struct asm_reg from) {
    emit_load_next(w->p, MEM_SCALES, a->by, from);
    emit_each(w->p, LANE_PRODUCT, a->rest, a->rest, splat(w, LANE_16, MINUS_136), a->by, a->config);
}

// Both halves of the rows of both blocks, one after the other; which one, is counted in `i`.
void quant_apart(struct quant * q) {
    struct writer writer = begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg from = q->pointers[0], scales = q->pointers[1], *to = q->pointers + 2;
    struct asm_reg i = take_set(w, ASM_R, 0), raw = take(w, ASM_R);
    struct apart a = take_apart(w);
    int part = asm_label_new(p);
    ready(w);
    emit_nibbles_begin(p);
    emit_copy(p, raw, raw_of(w));
    emit_set(p, scales, address(w, MM_SCALES));
    asm_label(p, part);
    struct asm_reg half = masked(w, i, 1), second = masked(w, i, 2), d[3];
    for (int k = 0; k < 3; k++) {
        d[k] = asm_local(p, ASM_R);
    }
    // Between the blocks is a word that is scales by now.
    emit_alu(p, AIE_BASIC_ADD, d[0], raw, shifted(w, half, 7 /* 2 QUANT_VECTOR */));
    emit_alu(p, AIE_BASIC_ADD, d[0], d[0], shifted(w, second, 9 /* 4 PITCH / 2 */));
    emit_alu(p, AIE_BASIC_ADD, d[0], d[0], shifted(w, second, 7 /* PITCH / 2 */));
    emit_copy(p, from, d[0]);
    emit_alu(p, AIE_BASIC_ADD, d[1], sum_of(w, q->base, 2 * ROWS - q->offset),
             shifted(w, half, 6 /* HALF */));
    emit_alu(p, AIE_BASIC_ADD, d[2], d[1], shifted(w, second, 11 /* 32 ROWS / 2 */));
    emit_copy(p, to[0], d[2]);
    emit_copy(p, to[1], sum_of(w, d[2], 16 * ROWS));
    take_scales(w, &a, scales);
    emit_set(p, q->number, 4);
    asm_loop_begin(p, q->number);
    trip(w, &a, from, to);
    asm_loop_end(p);
    emit_add_small(p, i, i, 1);
    emit_add_small(p, q->number, i, -4);
    asm_jump_if_nonzero(p, q->number, part);
    end(w);
}

// ---- blocks that are longer than a slice ----

static void long_trip(struct writer * w, const struct apart * a, struct asm_reg from,
                      struct asm_reg to) {
    struct asm_reg bytes[2];
    turn(w, a, from, bytes);
    for (int k = 0; k < 4; k++) {
        put(w, a, bytes[k / 2], k, to);
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
    struct apart a = take_apart(w);
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
