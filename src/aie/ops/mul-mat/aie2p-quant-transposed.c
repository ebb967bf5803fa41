// aie2p-quant-transposed: numbers in the order in which aie2p's multiplier takes them, [k][64
// rows]: what a slice of bf16 becomes only when it is set apart (aie2p-block.c). A trip takes one
// word of 32 rows, which is turned first: of q4_0 while its bytes still hold two numbers. So scales
// are wanted as they stand, one for each row.
#include "quant-writer.h"

enum {
    PITCH = MM_TILE * 4, // bytes from word to word
    ROWS = MM_TILE * 2,  // of the numbers of one k
    HALF = ROWS / 2,     // of those of 32 rows
    MINUS_128 = 0xc300,
    MINUS_136 = 0xc308,
    ONE = 0x3f80,
    TOP = 0x43, // upper byte of 128 + q in bf16
};

struct apart {
    struct asm_reg pick[2], zip[2], config; // scalars
    struct asm_reg top, by, rest;           // a scale for each row, and what is too much times that
};

static struct apart take_constants(struct writer * w) {
    struct apart a = {0};
    a.config = take_set(w, ASM_R, (int32_t) asm_target(w->p)->mul_config);
    a.top = take_splat(w, LANE_8, TOP);
    for (int i = 0; i < 2; i++) {
        a.pick[i] = take_set(w, ASM_MASK, EVEN_8 + i);
        a.zip[i] = take_set(w, ASM_MASK, ZIP_8 + i);
    }
    return a;
}

static struct apart take_apart(struct writer * w) {
    struct apart a = take_constants(w);
    a.by = take(w, ASM_X);
    a.rest = take(w, ASM_BM);
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

// Numbers of mxfp4 are TOP more while they are bytes, which spares a register, and behind TOP they
// are 195 too much.
enum { MINUS_195 = 0xc343 };

// Lower halves of bytes are numbers of to[0], upper ones of to[1], which may have other scales; the
// places are what they hold, or none are given.
static void trip(struct writer * w, const struct apart * a, const struct apart * upper,
                 const struct quant_places * places, struct asm_reg from,
                 const struct asm_reg to[2]) {
    struct asm_program * p = w->p;
    struct asm_reg bytes[2], part[2];
    turn(w, a, from, bytes);
    for (int k = 0; k < 4; k++) {
        if (k % 2 == 0) {
            nibbles_of(w, a->pick, bytes[k / 2], part);
            for (int i = 0; i < 2 && places; i++) {
                part[i] = quant_worked_out(w, places, part[i]);
            }
        }
        for (int i = 0; i < 2; i++) {
            put(w, i ? upper : a, number_of(w, a, part[i], k), k, to[i]);
        }
    }
    emit_advance(p, from, PITCH);
}

// Where the words and the numbers of the other half of the rows are; q->number: it is the second.
static void other_half(struct writer * w, struct asm_reg at, struct asm_reg out) {
    struct asm_program * p = w->p;
    struct asm_reg words = asm_local(p, ASM_R), rows = asm_local(p, ASM_R);
    emit_set(p, words, 2 * QUANT_VECTOR);
    emit_set(p, rows, HALF);
    emit_alu(p, AIE_BASIC_XOR, at, at, words);
    emit_alu(p, AIE_BASIC_XOR, out, out, rows);
    emit_alu(p, AIE_BASIC_AND, w->q->number, at, words);
}

static void step(struct asm_program * p, const struct asm_reg to[2]) {
    for (int i = 0; i < 2; i++) {
        emit_advance(p, to[i], 4 * ROWS);
    }
}

// ---- bytes: q8_0, and numbers of a table ----

// A byte is what its lower seven bits are less 128 times its upper one: two numbers, 128 + q and
// 128 or 256, of which the difference is exact.
static void bytes_trip(struct writer * w, const struct apart * a, struct asm_reg upper,
                       struct asm_reg from, struct asm_reg to) {
    struct asm_reg bytes[2], high[2], low[2];
    turn(w, a, from, bytes);
    for (int i = 0; i < 2; i++) {
        high[i] = asm_local(w->p, ASM_X);
        low[i] = asm_local(w->p, ASM_X);
        emit_lanes(w->p, LANE_AND, LANE_8, high[i], bytes[i], upper);
        emit_lanes(w->p, LANE_SUB, LANE_8, low[i], bytes[i], high[i]);
    }
    for (int k = 0; k < 4; k++) {
        struct asm_reg sum[2] = {asm_local(w->p, ASM_BM), asm_local(w->p, ASM_BM)};
        emit_each(w->p, LANE_PRODUCT, sum[0], sum[0], number_of(w, a, low[k / 2], k), a->by,
                  a->config);
        emit_each(w->p, LANE_LESS_PRODUCT, sum[1], sum[0], number_of(w, a, high[k / 2], k), a->by,
                  a->config);
        emit_store_bf16(w->p, MEM_OUT, asm_half(sum[1], 0), to, (k - 2) * ROWS);
    }
    emit_advance(w->p, from, PITCH);
    emit_advance(w->p, to, 4 * ROWS);
}

// ---- both blocks of a slice ----

enum part { PART_Q4_0, PART_BYTES };

// Where the words of the first block are.
static void find_words(struct writer * w, enum part kind, struct asm_reg at) {
    struct asm_program * p = w->p;
    const struct asm_reg * pointers = w->q->pointers;
    struct asm_reg paired = asm_local(p, ASM_R);
    read_param(w, paired, MM_PARAM_PAIRED, pointers[0]);
    if (kind == PART_Q4_0) { // such a run is told nothing else
        emit_copy(p, at, raw_of(w));
    } else {
        struct asm_reg come = sum_of(w, raw_of(w), -address(w, MM_BLOCKS)), n = asm_local(p, ASM_R);
        read_param(w, w->q->number, MM_PARAM_AS_COME, pointers[2]);
        read_param(w, n, MM_PARAM_NUMBERS, pointers[3]);
        emit_alu(p, AIE_BASIC_AND, come, come, w->q->number);
        emit_alu(p, AIE_BASIC_ADD, come, come, n);
        emit_copy(p, at, sum_of(w, come, address(w, 0)));
    }
    emit_alu(p, AIE_BASIC_ADD, at, at, paired);
}

// Those of the second block. Held for so long it would be a scalar that loops want.
static void next_words(struct writer * w, enum part kind, struct asm_reg at) {
    struct asm_program * p = w->p;
    const struct asm_reg * pointers = w->q->pointers;
    struct asm_reg paired = asm_local(p, ASM_R), far = asm_local(p, ASM_R);
    read_param(w, paired, MM_PARAM_PAIRED, pointers[0]);
    if (kind == PART_Q4_0) {
        emit_set(p, far, 4 * PITCH);
    } else {
        read_param(w, far, MM_PARAM_APART, pointers[2]);
    }
    // a word between them that is scales by now
    emit_copy(p, at, sum_of(w, at, PITCH));
    emit_alu(p, AIE_BASIC_ADD, at, at, far);
    emit_alu(p, AIE_BASIC_SUB, at, at, paired);
}

// Half of the rows of a block at a time. Words and places of numbers begin where the bits that tell
// the halves and the blocks apart are clear.
static void blocks(struct quant * q, enum part kind) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg from = q->pointers[0], scales = q->pointers[1], *to = q->pointers + 2;
    struct asm_reg at = take(w, ASM_R), out = take(w, ASM_R);
    struct apart a = take_apart(w);
    struct asm_reg upper = a.top;
    if (kind == PART_BYTES) {
        upper = take_splat(w, LANE_8, 0x80);
    }
    int part = asm_label_new(p);
    quant_ready(w);
    emit_nibbles_begin(p);
    emit_copy(p, out, sum_of(w, q->base, 2 * ROWS - q->offset));
    emit_set(p, scales, address(w, MM_SCALES));
    find_words(w, kind, at);
    asm_label(p, part);
    emit_copy(p, from, at);
    emit_copy(p, to[0], out);
    emit_load_next(p, MEM_SCALES, a.by, scales);
    if (kind != PART_BYTES) {
        emit_copy(p, to[1], sum_of(w, out, 16 * ROWS));
        emit_each(p, LANE_PRODUCT, a.rest, a.rest, splat(w, LANE_16, MINUS_136), a.by, a.config);
    }
    emit_set(p, q->number, kind == PART_BYTES ? 8 : 4);
    asm_loop_begin(p, q->number);
    if (kind == PART_BYTES) {
        bytes_trip(w, &a, upper, from, to[0]);
    } else {
        trip(w, &a, &a, NULL, from, to);
        step(p, to);
    }
    asm_loop_end(p);
    other_half(w, at, out);
    asm_jump_if_nonzero(p, q->number, part);
    next_words(w, kind, at);
    emit_copy(p, out, sum_of(w, out, 32 * ROWS));
    emit_copy(p, q->number, masked(w, out, 32 * ROWS)); // of the second one
    asm_jump_if_nonzero(p, q->number, part);
    quant_end(w);
}

void quant_apart(struct quant * q) {
    blocks(q, PART_Q4_0);
}

// mxfp4: both blocks in one loop, for half of the rows and then for the other. Scales are the same
// for the four words of a block, whose numbers end where the upper halves of its bytes begin.
enum { WALK_SCALES = 2, WALK_TO }; // and of the upper halves; products of bf16 use none of them

void quant_apart_places(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg from = q->pointers[0], scales = q->pointers[1], *to = q->pointers + 2;
    struct asm_reg at = take(w, ASM_R), out = take(w, ASM_R), planes = take(w, ASM_R);
    struct asm_reg minus = take_splat(w, LANE_16, MINUS_195);
    struct apart a = take_constants(w);
    struct quant_places places;
    int half = asm_label_new(p);
    quant_take_places(w, &places);
    places.middle = a.top;
    quant_ready(w);
    emit_nibbles_begin(p);
    emit_copy(p, out, sum_of(w, q->base, 2 * ROWS - q->offset));
    emit_copy(p, planes, planes_of(w));
    emit_set_walk(p, WALK_SCALES, 4, 0, ROWS);
    for (int i = 0; i < 2; i++) {
        emit_set_walk(p, WALK_TO + i, 4, 4 * ROWS, 20 * ROWS);
    }
    emit_copy(p, at, quant_places_at(w, from));
    asm_label(p, half);
    emit_copy(p, from, at);
    emit_copy(p, to[0], out);
    emit_copy(p, to[1], sum_of(w, out, 16 * ROWS));
    struct asm_reg plane = asm_local(p, ASM_R);
    emit_alu(p, AIE_BASIC_ADD, plane, planes, masked(w, out, HALF));
    emit_copy(p, scales, plane);
    emit_set(p, q->number, 8);
    asm_loop_begin(p, q->number);
    a.by = asm_local(p, ASM_X);
    a.rest = asm_local(p, ASM_BM);
    emit_load(p, MEM_SCALES, a.by, scales, 0);
    emit_walk(p, scales, WALK_SCALES);
    emit_each(p, LANE_PRODUCT, a.rest, a.rest, minus, a.by, a.config);
    trip(w, &a, &a, &places, from, to);
    for (int i = 0; i < 2; i++) {
        emit_walk(p, to[i], WALK_TO + i);
    }
    asm_loop_end(p);
    other_half(w, at, out);
    asm_jump_if_nonzero(p, q->number, half);
    quant_end(w);
}

void quant_apart_bytes(struct quant * q) {
    blocks(q, PART_BYTES);
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

// The same of bytes of eight bits: the lower seven, and the upper one.
static void long_eight_trip(struct writer * w, const struct apart * a, struct asm_reg upper,
                            struct asm_reg from, struct asm_reg to) {
    struct asm_reg bytes[2], parts[2][2];
    turn(w, a, from, bytes);
    for (int i = 0; i < 2; i++) {
        parts[1][i] = asm_local(w->p, ASM_X);
        parts[0][i] = asm_local(w->p, ASM_X);
        emit_lanes(w->p, LANE_AND, LANE_8, parts[1][i], bytes[i], upper);
        emit_lanes(w->p, LANE_SUB, LANE_8, parts[0][i], bytes[i], parts[1][i]);
    }
    for (int k = 0; k < 4; k++) {
        struct asm_reg sum = asm_local(w->p, ASM_BM);
        struct apart upper_part = *a;
        emit_each(w->p, LANE_PLUS_PRODUCT, sum, a->rest, number_of(w, a, parts[0][k / 2], k), a->by,
                  a->config);
        upper_part.rest = sum;
        put(w, &upper_part, number_of(w, a, parts[1][k / 2], k), k, to);
    }
    emit_advance(w->p, from, PITCH);
    emit_advance(w->p, to, 4 * ROWS);
}

// What is too much of a plane: 128 s and the minimum, m as often as `one` says.
static void take_plane(struct writer * w, const struct apart * a, const struct asm_reg at[2],
                       int by, struct asm_reg offset, struct asm_reg one) {
    struct asm_reg m = asm_local(w->p, ASM_X), rest = asm_local(w->p, ASM_BM);
    emit_load(w->p, MEM_TABLE, a->by, at[0], by);
    emit_load(w->p, MEM_TABLE, m, at[1], by);
    emit_each(w->p, LANE_PRODUCT, rest, rest, offset, a->by, a->config);
    emit_each(w->p, LANE_LESS_PRODUCT, a->rest, rest, m, one, a->config);
}

// Where a slice has its scales in the table.
static struct asm_reg table_of(struct writer * w, struct asm_reg pointer) {
    struct asm_reg at = slice_number(w);
    read_param(w, w->q->number, MM_PARAM_TABLE_SHIFT, pointer);
    emit_alu(w->p, AIE_BASIC_SHIFT, at, at, w->q->number);
    return sum_of(w, at, address(w, MM_LONG_TABLE));
}

// q4_K: of a byte the lower half is of the slice's first 32 numbers, the upper of the others.
void quant_apart_halves(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg *pointers = q->pointers, from = pointers[0], *to = pointers + 1;
    struct asm_reg at = take(w, ASM_R), out = take(w, ASM_R);
    struct apart a[2] = {take_apart(w)};
    int part = asm_label_new(p);
    a[1] = a[0];
    a[1].by = take(w, ASM_X);
    a[1].rest = take(w, ASM_BM);
    quant_ready(w);
    emit_nibbles_begin(p);
    emit_copy(p, out, sum_of(w, q->base, 2 * ROWS - q->offset));
    find_block(w, pointers[1]);
    emit_alu(p, AIE_BASIC_ADD, at, q->number, shifted(w, slice_number(w), 11 /* 8 PITCH */));
    emit_copy(p, at, sum_of(w, at, MM_LONG_HEADER));
    asm_label(p, part);
    struct asm_reg table = asm_local(p, ASM_R);
    // One after the other: the order of arguments is the compiler's, and with it that of
    // instructions.
    struct asm_reg entry = masked(w, out, HALF), first = table_of(w, from);
    emit_alu(p, AIE_BASIC_ADD, table, first, entry);
    emit_copy(p, to[0], table);
    emit_copy(p, to[1], sum_of(w, table, 8 * ROWS)); // the minima
    struct asm_reg offset = splat(w, LANE_16, MINUS_128), one = splat(w, LANE_16, ONE);
    for (int i = 0; i < 2; i++) {
        take_plane(w, &a[i], to, i * ROWS, offset, one);
    }
    emit_copy(p, from, at);
    emit_copy(p, to[0], out);
    emit_copy(p, to[1], sum_of(w, out, 32 * ROWS));
    emit_set(p, q->number, 8);
    asm_loop_begin(p, q->number);
    trip(w, &a[0], &a[1], NULL, from, to);
    step(p, to);
    asm_loop_end(p);
    other_half(w, at, out);
    asm_jump_if_nonzero(p, q->number, part);
    quant_end(w);
}

// (128 + q) s - 128 s - m, as in quant-k.c: planes of s and m, of as many words as the
// parameters say, for one half of the rows and then for the other. Few scalars are held, for
// counting trips wants some.
void quant_apart_long(struct quant * q, bool eight) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg *at = q->pointers, from = at[0], scales = at[1], less = at[2], to = at[3];
    struct asm_reg half = take_set(w, ASM_R, 0), left = take(w, ASM_R);
    struct asm_reg one = take(w, ASM_X), offset = take_splat(w, LANE_16, MINUS_128);
    struct apart a = take_apart(w);
    struct asm_reg upper = eight ? take_splat(w, LANE_8, 0x80) : one;
    int rows = asm_label_new(p), plane = asm_label_new(p);
    quant_ready(w);
    read_param(w, q->number, MM_PARAM_ONE, from);
    emit_splat(p, LANE_16, one, q->number);
    asm_label(p, rows);
    struct asm_reg table = asm_local(p, ASM_R), further = asm_local(p, ASM_R),
                   minima = asm_local(p, ASM_R);
    read_param(w, further, MM_PARAM_LESS, less);
    emit_alu(p, AIE_BASIC_ADD, table, table_of(w, from), half);
    emit_copy(p, scales, table);
    emit_alu(p, AIE_BASIC_ADD, minima, table, further);
    emit_copy(p, less, minima);
    emit_alu(p, AIE_BASIC_ADD, left, half, sum_of(w, q->base, 2 * ROWS - q->offset));
    emit_copy(p, to, left);
    emit_copy(p, from, sum_of(w, shifted(w, half, 1), address(w, MM_LONG_BYTES)));
    emit_set(p, left, MM_TILE / 4); // words
    asm_label(p, plane);
    take_plane(w, &a, (struct asm_reg[]){scales, less}, 0, offset, one);
    emit_advance(p, scales, ROWS);
    emit_advance(p, less, ROWS);
    read_param(w, q->number, MM_PARAM_PLANE_WORDS, at[4]);
    emit_alu(p, AIE_BASIC_SUB, left, left, q->number);
    asm_loop_begin(p, q->number);
    if (eight) {
        long_eight_trip(w, &a, upper, from, to);
    } else {
        long_trip(w, &a, from, to);
    }
    asm_loop_end(p);
    asm_jump_if_nonzero(p, left, plane);
    emit_add_small(p, half, half, HALF / 2); // the reach is 63
    emit_add_small(p, half, half, HALF / 2);
    emit_copy(p, q->number, sum_of(w, half, -2 * HALF));
    asm_jump_if_nonzero(p, q->number, rows);
    quant_end(w);
}
