// aie2p-quant-five-six: bytes of q5_K and q6_K to bf16, k by k for 64 rows, as quant_apart_long
// does (aie2p-quant-transposed.c), which is written for planes of any length. A plane of q6_K is
// four words, too few for trips of one word to overlap, and what a plane begins with took as long
// as they did. So 32 k of 32 rows are told at once here, with one scale or two:
//
//     k  0 .. 15   16 .. 31   32 .. 47   48 .. 63
//        └───── once ─────┘   └───── once ─────┘    for either half of the rows
#include "quant-writer.h"

enum {
    PITCH = MM_TILE * 4, // bytes from word to word
    ROWS = MM_TILE * 2,  // of the numbers of one k, and of a plane of factors
    HALF = ROWS / 2,     // of those of 32 rows
    WORDS = 8,           // at once
    TIMES = 4,
    MINUS_128 = 0xc300,
    TOP = 0x43, // upper byte of 128 + q in bf16
};

struct numbers {
    struct asm_reg pick[2], zip[2], config, top, offset, one;
};

// (128 + q) s - 128 s - m: s, and what is too much.
struct plane {
    struct asm_reg by, rest;
};

static struct plane take_plane(struct writer * w, const struct numbers * n, struct asm_reg scales,
                               struct asm_reg less) {
    struct asm_program * p = w->p;
    struct plane f = {asm_local(p, ASM_X), asm_local(p, ASM_BM)};
    struct asm_reg m = asm_local(p, ASM_X), rest = asm_local(p, ASM_BM);
    emit_load(p, MEM_TABLE, f.by, scales, 0);
    emit_load(p, MEM_TABLE, m, less, 0);
    emit_each(p, LANE_PRODUCT, rest, rest, n->offset, f.by, n->config);
    emit_each(p, LANE_LESS_PRODUCT, f.rest, rest, m, n->one, n->config);
    return f;
}

// One word of 32 rows: two vectors of 16 rows each, [row][4 bytes], as four k. The pointer to them
// is in the middle.
static void put_word(struct writer * w, const struct numbers * n, const struct plane * f,
                     struct asm_reg from, struct asm_reg to) {
    struct asm_program * p = w->p;
    struct asm_reg v[2], two[2];
    for (int i = 0; i < 2; i++) {
        v[i] = asm_local(p, ASM_X);
        emit_load(p, MEM_BYTES, v[i], from, i * QUANT_VECTOR);
    }
    for (int odd = 0; odd < 2; odd++) { // bytes 0 and 2, 1 and 3
        two[odd] = shuffled(w, v[0], v[1], n->pick[odd]);
    }
    for (int i = 0; i < 2; i++) {
        struct asm_reg bytes = shuffled(w, two[0], two[1], n->pick[i]);
        for (int odd = 0; odd < 2; odd++) {
            struct asm_reg number = shuffled(w, bytes, n->top, n->zip[odd]);
            struct asm_reg sum = asm_local(p, ASM_BM);
            emit_each(p, LANE_PLUS_PRODUCT, sum, f->rest, number, f->by, n->config);
            emit_store_bf16(p, MEM_OUT, asm_half(sum, 0), to, (2 * i + odd - 2) * ROWS);
        }
    }
    emit_advance(p, from, PITCH);
    emit_advance(p, to, 4 * ROWS);
}

static struct asm_reg added(struct writer * w, struct asm_reg a, struct asm_reg b) {
    struct asm_reg d = asm_local(w->p, ASM_R);
    emit_alu(w->p, AIE_BASIC_ADD, d, a, b);
    return d;
}

// Where the planes, the bytes and the numbers of one of the four times are: the first bit of
// `time` is the half of the rows, the second one that of k.
static void point_all(struct writer * w, struct asm_reg time, struct asm_reg table,
                      struct asm_reg apart, struct asm_reg further) {
    struct asm_program * p = w->p;
    const struct quant * q = w->q;
    const struct asm_reg *scales = q->pointers + 2, *less = q->pointers + 4;
    struct asm_reg later = masked(w, time, 2), rows = shifted(w, masked(w, time, 1), 6 /* HALF */);
    struct asm_reg none = asm_local(p, ASM_R), all = asm_local(p, ASM_R);
    struct asm_reg step = asm_local(p, ASM_R);
    emit_set(p, none, 0);
    emit_alu(p, AIE_BASIC_SUB, all, none, shifted(w, later, -1));
    emit_alu(p, AIE_BASIC_AND, step, sum_of(w, apart, ROWS), all);
    struct asm_reg first = added(w, added(w, table, rows), step), second = added(w, first, apart);
    emit_copy(p, scales[0], first);
    emit_copy(p, scales[1], second);
    struct asm_reg first_less = added(w, first, further), second_less = added(w, second, further);
    emit_copy(p, less[0], first_less);
    emit_copy(p, less[1], second_less);
    // One after the other: the order of arguments is the compiler's, and with it that of
    // instructions.
    struct asm_reg words = shifted(w, later, 10 /* WORDS PITCH */);
    struct asm_reg bytes = added(w, shifted(w, rows, 1), words);
    emit_copy(p, q->pointers[0], sum_of(w, bytes, address(w, MM_LONG_BYTES)));
    struct asm_reg out = added(w, rows, shifted(w, later, 11 /* 4 WORDS ROWS */));
    struct asm_reg base = sum_of(w, q->base, 2 * ROWS - q->offset);
    emit_copy(p, q->pointers[1], added(w, base, out));
}

void quant_apart_five_six(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg from = q->pointers[0], to = q->pointers[1];
    const struct asm_reg *scales = q->pointers + 2, *less = q->pointers + 4;
    struct asm_reg time = take_set(w, ASM_R, 0), table = take(w, ASM_R);
    struct asm_reg apart = take(w, ASM_R), further = take(w, ASM_R);
    struct numbers n = {.config = take_set(w, ASM_R, (int32_t) asm_target(p)->mul_config),
                        .top = take_splat(w, LANE_8, TOP),
                        .offset = take_splat(w, LANE_16, MINUS_128),
                        .one = take(w, ASM_X)};
    int again = asm_label_new(p);
    for (int i = 0; i < 2; i++) {
        n.pick[i] = take_set(w, ASM_MASK, EVEN_8 + i);
        n.zip[i] = take_set(w, ASM_MASK, ZIP_8 + i);
    }
    quant_ready(w);
    struct asm_reg at = slice_number(w), eight = asm_local(p, ASM_R), few = asm_local(p, ASM_R);
    read_param(w, q->number, MM_PARAM_TABLE_SHIFT, from);
    emit_alu(p, AIE_BASIC_SHIFT, at, at, q->number);
    emit_copy(p, table, sum_of(w, at, address(w, MM_LONG_TABLE)));
    read_param(w, q->number, MM_PARAM_PLANE_WORDS, to);
    emit_set(p, eight, WORDS);
    emit_alu(p, AIE_BASIC_SUB, few, eight, q->number); // 4 or 0
    emit_copy(p, apart, shifted(w, few, 5));           // a plane, or none
    read_param(w, further, MM_PARAM_LESS, scales[0]);
    read_param(w, q->number, MM_PARAM_ONE, scales[1]);
    emit_splat(p, LANE_16, n.one, q->number);
    asm_label(p, again);
    point_all(w, time, table, apart, further);
    emit_set(p, q->number, 1);
    asm_loop_begin(p, q->number); // of one trip, for what is in a loop is put in its best order
    asm_loop_alone(p);
    for (int i = 0; i < 2; i++) {
        struct plane f = take_plane(w, &n, scales[i], less[i]);
        for (int word = 0; word < WORDS / 2; word++) {
            put_word(w, &n, &f, from, to);
        }
    }
    asm_loop_end(p);
    emit_add_small(p, time, time, 1);
    emit_add_small(p, q->number, time, -TIMES);
    asm_jump_if_nonzero(p, q->number, again);
    quant_end(w);
}
