// quant-apart: numbers of q4_0 in the order in which aie2p's multiplier takes them, [k][64 rows]:
// what a slice of bf16 becomes only when it is set apart (aie2p-block.c). A trip takes one word of
// 32 rows, eight numbers of each. Bytes are put in order while they still hold two numbers, so that
// scales are wanted as they stand, one for each row.
#include "quant-writer.h"

enum {
    PITCH = MM_TILE * 4, // bytes from word to word
    ROWS = MM_TILE * 2,  // of the numbers of one k
    HALF = ROWS / 2,     // of those of 32 rows
    MINUS_136 = 0xc308,
    TOP = 0x43, // upper byte of 128 + q in bf16
};

struct apart {
    struct asm_reg pick[2], zip[2], config; // scalars
    struct asm_reg top, by, rest;           // a scale for each row, and -136 of it
};

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

// Lower halves of bytes are k, upper ones k + 16; each has a pointer to the middle of its four k.
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
            struct asm_reg number = shuffled(w, part[i], a->top, a->zip[k % 2]);
            struct asm_reg sum = asm_local(p, ASM_BM);
            emit_each(p, LANE_PLUS_PRODUCT, sum, a->rest, number, a->by, a->config);
            emit_store_bf16(p, MEM_OUT, asm_half(sum, 0), to[i], (k - 2) * ROWS);
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
    struct apart a = {.config = take_set(w, ASM_R, (int32_t) asm_target(p)->mul_config),
                      .top = take_splat(w, LANE_8, TOP),
                      .by = take(w, ASM_X),
                      .rest = take(w, ASM_BM)};
    int part = asm_label_new(p);
    for (int k = 0; k < 2; k++) {
        a.pick[k] = take_set(w, ASM_MASK, EVEN_8 + k);
        a.zip[k] = take_set(w, ASM_MASK, ZIP_8 + k);
    }
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
