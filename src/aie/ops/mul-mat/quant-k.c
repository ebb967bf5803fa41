// quant-k: blocks of 256 numbers, which are four slices:
//
//     q4_K   d dmin, 12 bytes of scales and minima, 128 bytes of numbers of 4 bits
//     q5_K   d dmin, 12 bytes of scales and minima, 32 bytes of fifth bits, 128 of the lower 4
//     q6_K   128 bytes of the lower 4 bits, 64 of the upper 2, 16 of scales, d
//
// Every other block of q6_K begins in the middle of a word, and is moved by 16 bits first.
//
// A block comes as a whole, in words of all rows; whatever has one byte a number stands in the same
// order in all of them. When it has come, its scales and minima, 6 bits each, are made numbers,
// [kind][row][4], then [group][row] and multiplied with d and dmin: the table. For each slice those
// of its groups are spread, its numbers are made bytes, and these bf16: (128 + q) s - 128 s - m
// (of q6_K 32 s in place of m), with f32 sums, so that what is rounded is d, d s, dmin m and the
// result.
//
// All of this is more than one type's: what differs stands in the parameters, so that the program
// memory holds one of each loop.
#include "quant-writer.h"

enum {
    VECTOR = QUANT_VECTOR,
    ROWS = MM_TILE,
    WORDS = ROWS * 4, // of all rows
    HEADER = MM_LONG_HEADER,
    HALF = 32 * ROWS, // numbers of half a slice
    GROUP = 16 * ROWS,
    PLANE = ROWS * 2,      // a factor of each row
    SIX_HIGH = 128 * ROWS, // where blocks of 6 bits have their upper two, and their scales
    SIX_SCALES = 192 * ROWS,
    SIX_D = 208 * ROWS,
};

// ---- what all of it needs ----

static void point(struct writer * w, struct asm_reg pointer, struct asm_reg base, int32_t by) {
    emit_copy(w->p, pointer, by ? sum_of(w, base, by) : base);
}

// ---- the header ----

// All of it 16 bits down, word by word, with what the next one begins with.
static void align(struct quant * q) {
    enum { WORDS_OF_ALL = 54 };
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_reg unit = q->pointers[0], next = q->pointers[1], to = q->pointers[2];
    // 16-bit lanes that end a word
    struct asm_reg last = take_set(w, ASM_MASK, (int32_t) 0xaaaaaaaa);
    struct asm_reg down = take_set(w, ASM_MASK, 2), up = take_set(w, ASM_MASK, VECTOR - 2);
    struct asm_reg trips = take_set(w, ASM_R, WORDS_OF_ALL * WORDS / VECTOR);
    quant_ready(w);
    find_block(w, unit);
    point(w, unit, q->number, 0);
    point(w, to, q->number, 0);
    point(w, next, q->number, WORDS);
    move_units(w, trips, (struct asm_reg[]){unit, next}, (struct asm_reg[]){down, up}, to, last, 1);
    quant_end(w);
}

void quant_long_gather(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg from = q->pointers[0], to = q->pointers[1];
    int even = asm_label_new(p);
    read_param(w, q->number, MM_PARAM_ODD, to);
    emit_alu(p, AIE_BASIC_AND, q->number, q->number, q->left);
    quant_end(w);
    asm_jump_if_zero(p, q->number, even);
    align(q);
    asm_label(p, even);
    writer = quant_begin(q);
    struct asm_reg half[2] = {take(w, ASM_MASK), take(w, ASM_MASK)};
    quant_ready(w);
    struct asm_reg at = asm_local(p, ASM_R), none = asm_local(p, ASM_R), less = asm_local(p, ASM_R);
    find_block(w, from);
    // the second of a pair has its scale a word before it, in the upper half of that
    struct asm_reg second = masked(w, shifted(w, q->number, -8 /* MM_PAIRED_LATER */), 1);
    emit_set(p, none, 0);
    emit_alu(p, AIE_BASIC_SUB, less, none, second);
    emit_alu(p, AIE_BASIC_SUB, at, q->number, masked(w, less, SIX_D + MM_PAIRED_LATER));
    read_param(w, q->number, MM_PARAM_D_AT, to);
    emit_alu(p, AIE_BASIC_ADD, at, at, q->number);
    emit_copy(p, from, at);
    read_param(w, q->number, MM_PARAM_D_SECOND, to);
    emit_copy(p, half[0], sum_of(w, second, EVEN_16));
    struct asm_reg behind = asm_local(p, ASM_R);
    emit_alu(p, AIE_BASIC_ADD, behind, q->number, second);
    emit_copy(p, half[1], behind);
    emit_set(p, to, address(w, MM_LONG_SCALES));
    for (int rows = 0; rows < 2; rows++) {
        struct asm_reg d[2];
        for (int i = 0; i < 2; i++) {
            d[i] = asm_local(p, ASM_X);
            emit_load_next(p, MEM_BLOCKS, d[i], from);
        }
        for (int kind = 0; kind < 4; kind++) { // d and dmin, each twice
            struct asm_reg f16 = shuffled(w, d[0], d[1], half[kind / 2]);
            emit_store(p, MEM_SCALES, f16, to, kind * PLANE + rows * VECTOR);
        }
    }
    quant_end(w);
}

static struct asm_reg lanes(struct writer * w, enum lane_op op, struct asm_reg a,
                            struct asm_reg b) {
    struct asm_reg d = asm_local(w->p, ASM_X);
    emit_lanes(w->p, op, LANE_8, d, a, b);
    return d;
}

// Of 6 bits: four times eight of a row, in words s, m and r. Those of the first four groups stand
// in s and m; of the others 4 bits in r, and 2 above those of the first.
static void six_bits(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg to = q->pointers[3], trips = take_set(w, ASM_R, ROWS * 4 / VECTOR), pick[2];
    for (int i = 0; i < 2; i++) {
        pick[i] = take_set(w, ASM_MASK, EVEN_8 + i);
    }
    struct asm_reg six = take_splat(w, LANE_8, 0x3f), above = take_splat(w, LANE_8, 0x0c);
    quant_ready(w);
    emit_nibbles_begin(p);
    find_block(w, to);
    for (int i = 0; i < 3; i++) {
        point(w, q->pointers[i], q->number, (i + 1) * WORDS);
    }
    emit_set(p, to, address(w, MM_LONG_SIX));
    asm_loop_begin(p, trips);
    asm_loop_alone(p);
    struct asm_reg s[3], part[3][2];
    for (int i = 0; i < 3; i++) {
        s[i] = asm_local(p, ASM_X);
        emit_load_next(p, MEM_BLOCKS, s[i], q->pointers[i]);
    }
    for (int i = 0; i < 3; i++) {
        nibbles_of(w, pick, s[i], part[i]);
    }
    for (int i = 0; i < 2; i++) { // scales, minima
        struct asm_reg low = lanes(w, LANE_AND, s[i], six);
        struct asm_reg high = lanes(w, LANE_AND, part[i][1], above);
        high = lanes(w, LANE_ADD, high, high);
        high = lanes(w, LANE_ADD, high, high);
        high = lanes(w, LANE_ADD, high, part[2][i]);
        emit_store(p, MEM_SIX, low, to, 2 * i * WORDS);
        emit_store(p, MEM_SIX, high, to, (2 * i + 1) * WORDS);
    }
    emit_advance(p, to, VECTOR);
    asm_loop_end(p);
    quant_end(w);
}

// Scales of 8 bits, of which there are sixteen: more by 128.
static void eight_bits(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg to = q->pointers[4], trips = take_set(w, ASM_R, ROWS * 4 / VECTOR);
    struct asm_reg sign = take_splat(w, LANE_8, 0x80);
    quant_ready(w);
    find_block(w, to);
    for (int i = 0; i < 4; i++) {
        point(w, q->pointers[i], q->number, SIX_SCALES + i * WORDS);
    }
    emit_set(p, to, address(w, MM_LONG_SIX));
    asm_loop_begin(p, trips);
    asm_loop_alone(p);
    for (int i = 0; i < 4; i++) {
        struct asm_reg v = asm_local(p, ASM_X);
        emit_load_next(p, MEM_BLOCKS, v, q->pointers[i]);
        emit_store(p, MEM_SIX, lanes(w, LANE_ADD, v, sign), to, i * WORDS);
    }
    emit_advance(p, to, VECTOR);
    asm_loop_end(p);
    quant_end(w);
}

enum { TOP = 0x43, MINUS_128 = 0xc300 };

struct factors { // of emit_scale
    struct asm_reg offset, zero, low, config, top;
};

static void take_factors(struct writer * w, struct factors * f) {
    bool wide = w->q->wide;
    f->offset = take_splat(w, LANE_16, MINUS_128);
    f->config = take_set(w, wide ? ASM_MASK : ASM_R, (int32_t) asm_target(w->p)->mul_config);
    f->top = take_splat(w, LANE_8, TOP);
    if (wide) {
        f->zero = take_splat(w, LANE_32, 0);
        f->low = take_set(w, ASM_MASK, 0xffff);
    }
}

// [kind][row][4] to [kind][4][row], times what each row has of the kind. A byte is two numbers: 128
// and its lower 7 bits, and 128 and its upper one.
static void table(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct factors f;
    struct asm_reg from = q->pointers[0], scales = q->pointers[1], *to = q->pointers + 2;
    struct asm_reg trips = take_set(w, ASM_R, 4), pick[2], zip[2];
    for (int i = 0; i < 2; i++) {
        pick[i] = take_set(w, ASM_MASK, EVEN_8 + i);
        zip[i] = take_set(w, ASM_MASK, ZIP_8 + i);
    }
    take_factors(w, &f);
    struct asm_reg upper = take_splat(w, LANE_8, 0x80);
    quant_ready(w);
    read_param(w, q->number, MM_PARAM_TABLE_LESS, from);
    emit_splat(p, LANE_16, f.offset, q->number);
    emit_set(p, from, address(w, MM_LONG_SIX));
    emit_set(p, scales, address(w, MM_LONG_SCALES));
    for (int i = 0; i < 4; i++) {
        emit_set(p, to[i], address(w, MM_LONG_TABLE + i * PLANE));
    }
    asm_loop_begin(p, trips);
    asm_loop_alone(p);
    for (int rows = 0; rows < 2; rows++) {
        struct emit_scale by = {0};
        struct asm_reg s = asm_local(p, ASM_X);
        emit_load_next(p, MEM_SCALES, s, scales);
        emit_scale(p, &by, s, f.offset, f.zero, f.low, f.config);
        for (int odd = 0; odd < 2; odd++) { // loaded again: there are few registers
            struct asm_reg half[2];
            for (int i = 0; i < 2; i++) {
                struct asm_reg v[2];
                for (int j = 0; j < 2; j++) {
                    v[j] = asm_local(p, ASM_X);
                    emit_load(p, MEM_SIX, v[j], from, (2 * i + j) * VECTOR);
                }
                half[i] = shuffled(w, v[0], v[1], pick[odd]);
            }
            for (int i = 0; i < 2; i++) {
                struct asm_reg byte = shuffled(w, half[0], half[1], pick[i]), part[2], terms[2];
                part[1] = lanes(w, LANE_AND, byte, upper);
                part[0] = lanes(w, LANE_SUB, byte, part[1]);
                for (int j = 0; j < 2; j++) {
                    terms[j] = shuffled(w, part[j], f.top, zip[rows]);
                }
                emit_scaled(p, MEM_TABLE, &by, terms, 2, to[odd + 2 * i], rows * VECTOR, f.config);
            }
        }
    }
    emit_advance(p, from, 4 * VECTOR);
    for (int i = 0; i < 4; i++) {
        emit_advance(p, to[i], 4 * PLANE);
    }
    asm_loop_end(p);
    quant_end(w);
}

void quant_long_table(struct quant * q) {
    struct asm_program * p = q->p;
    int eight = asm_label_new(p), done = asm_label_new(p);
    struct writer w = {.q = q, .p = p};
    read_param(&w, q->number, MM_PARAM_BITS, q->pointers[0]);
    emit_add_small(p, q->number, q->number, -6);
    asm_jump_if_zero(p, q->number, eight);
    six_bits(q);
    asm_jump(p, done);
    asm_label(p, eight);
    eight_bits(q);
    asm_label(p, done);
    table(q);
    if (q->fused) {
        int pairs = asm_label_new(p), pages = asm_label_new(p);
        read_param(&w, q->number, MM_PARAM_PASSES, q->pointers[0]);
        emit_add_small(p, q->number, q->number, -MM_BY_TWO_SLICES);
        asm_jump_if_zero(p, q->number, q->skip);
        emit_add_small(p, q->number, q->number, MM_BY_TWO_SLICES - MM_BY_COLUMNS);
        asm_jump_if_nonzero(p, q->number, pairs);
        asm_jump(p, pages);
        asm_label(p, q->pages);
        columns_upper_bits(q);
        asm_label(p, pages);
        columns_pages(q);
        asm_jump(p, q->columns);
        asm_label(p, pairs);
    }
}

// ---- a slice ----

// Each factor twice, in two halves that stand apart in the table.
static void spread(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg from = q->pointers[0], to = q->pointers[1], zip[2];
    struct asm_reg at = take(w, ASM_R), left = take_set(w, ASM_R, 2);
    int again = asm_label_new(p);
    for (int i = 0; i < 2; i++) {
        zip[i] = take_set(w, ASM_MASK, ZIP_16 + i);
    }
    quant_ready(w);
    read_param(w, q->number, MM_PARAM_TABLE_SHIFT, from);
    emit_alu(p, AIE_BASIC_SHIFT, at, slice_number(w), q->number);
    emit_copy(p, at, sum_of(w, at, address(w, MM_LONG_TABLE)));
    emit_set(p, to, address(w, MM_LONG_SPREAD));
    asm_label(p, again);
    emit_copy(p, from, at);
    emit_set(p, q->number, 2 * PLANE / VECTOR);
    asm_loop_begin(p, q->number);
    struct asm_reg s = asm_local(p, ASM_X);
    emit_load_next(p, MEM_TABLE, s, from);
    for (int i = 0; i < 2; i++) {
        emit_store_next(p, MEM_SPREAD, shuffled(w, s, s, zip[i]), to);
    }
    asm_loop_end(p);
    read_param(w, q->number, MM_PARAM_TABLE_NEXT, from);
    emit_alu(p, AIE_BASIC_ADD, at, at, q->number);
    emit_add_small(p, left, left, -1);
    asm_jump_if_nonzero(p, left, again);
    quant_end(w);
}

static struct asm_reg doubled(struct writer * w, struct asm_reg a, int times) {
    for (int i = 0; i < times; i++) {
        a = lanes(w, LANE_ADD, a, a);
    }
    return a;
}

// Bits that a slice has in half a byte, where both stand above those of the other.
struct fifth {
    struct asm_reg pick;      // which half of a byte
    struct asm_reg here, low; // 12 where they stand there, where they stand below
    struct asm_reg bit[2];
};

static void find_fifth(struct writer * w, const struct fifth * f, struct asm_reg number) {
    struct asm_reg twelve = asm_local(w->p, ASM_R), below = asm_local(w->p, ASM_R);
    emit_copy(w->p, f->pick, sum_of(w, shifted(w, number, -1), EVEN_8));
    struct asm_reg here = shifted(w, masked(w, number, 1), 2), both = asm_local(w->p, ASM_R);
    emit_alu(w->p, AIE_BASIC_ADD, both, here, shifted(w, here, 1)); // 12 or 0
    emit_set(w->p, twelve, 12);
    emit_alu(w->p, AIE_BASIC_SUB, below, twelve, both);
    emit_splat(w->p, LANE_8, f->here, both);
    emit_splat(w->p, LANE_8, f->low, below);
}

// Numbers of 4 bits: of a byte the lower half is of the slice's first 32, the upper of the others.
// Fifth bits: of a byte two for each slice.
static void four_or_five_bits(struct quant * q, bool five) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg from = q->pointers[0], high = q->pointers[3], pick[2], part[2], upper[2];
    struct asm_reg trips = take_set(w, ASM_R, HALF / VECTOR);
    struct fifth f = {0};
    for (int i = 0; i < 2; i++) {
        pick[i] = take_set(w, ASM_MASK, EVEN_8 + i);
    }
    if (five) {
        f = (struct fifth){.pick = take(w, ASM_MASK), take(w, ASM_X), take(w, ASM_X)};
        f.bit[0] = take_splat(w, LANE_8, 4);
        f.bit[1] = take_splat(w, LANE_8, 8);
    }
    quant_ready(w);
    emit_nibbles_begin(p);
    find_block(w, from);
    struct asm_reg at = asm_local(p, ASM_R), number = slice_number(w);
    emit_alu(p, AIE_BASIC_ADD, at, q->number, shifted(w, number, 11 /* HALF */));
    point(w, from, at, HEADER + (five ? HALF : 0));
    for (int i = 0; i < 2; i++) {
        emit_set(p, q->pointers[1 + i], address(w, MM_LONG_BYTES + i * HALF));
    }
    if (five) {
        find_fifth(w, &f, number);
        point(w, high, q->number, HEADER);
    }
    asm_loop_begin(p, trips);
    if (five) {
        struct asm_reg v = asm_local(p, ASM_X), n[2];
        emit_load_next(p, MEM_BLOCKS, v, high);
        for (int i = 0; i < 2; i++) {
            n[i] = asm_local(p, ASM_X);
            emit_nibbles(p, n[i], asm_half(v, i));
        }
        struct asm_reg bits = shuffled(w, n[0], n[1], f.pick);
        struct asm_reg low = lanes(w, LANE_AND, doubled(w, bits, 2), f.low);
        bits = lanes(w, LANE_ADD, lanes(w, LANE_AND, bits, f.here), low);
        for (int i = 0; i < 2; i++) {
            upper[i] = doubled(w, lanes(w, LANE_AND, bits, f.bit[i]), 2 - i);
        }
    }
    struct asm_reg v = asm_local(p, ASM_X);
    emit_load_next(p, MEM_BLOCKS, v, from);
    nibbles_of(w, pick, v, part);
    for (int i = 0; i < 2; i++) {
        struct asm_reg byte = five ? lanes(w, LANE_ADD, part[i], upper[i]) : part[i];
        emit_store_next(p, MEM_BYTES, byte, q->pointers[1 + i]);
    }
    asm_loop_end(p);
    quant_end(w);
}

// Numbers of 6 bits: of 64 bytes the lower halves are a slice, the upper ones the next. Of the
// bytes with the upper bits the lower half is the first slice's, two bits for each half of it.
static void six_bit_numbers(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg high = q->pointers[2], bits[2];
    struct asm_reg trips = take_set(w, ASM_R, HALF / VECTOR), pick = take(w, ASM_MASK);
    for (int i = 0; i < 2; i++) {
        bits[i] = take_splat(w, LANE_8, i ? 12 : 3);
    }
    quant_ready(w);
    emit_nibbles_begin(p);
    find_block(w, high);
    struct asm_reg number = slice_number(w), at = asm_local(p, ASM_R);
    emit_copy(p, pick, sum_of(w, masked(w, number, 1), EVEN_8));
    struct asm_reg half = shifted(w, masked(w, number, 2), 11 - 1); // HALF, for the upper ones
    emit_alu(p, AIE_BASIC_ADD, at, q->number, half);
    point(w, high, at, SIX_HIGH);
    emit_alu(p, AIE_BASIC_ADD, at, at, half);
    for (int i = 0; i < 2; i++) {
        point(w, q->pointers[i], at, i * HALF);
        emit_set(p, q->pointers[3 + i], address(w, MM_LONG_BYTES + i * HALF));
    }
    asm_loop_begin(p, trips);
    struct asm_reg d[3];
    for (int i = 0; i < 3; i++) {
        struct asm_reg v = asm_local(p, ASM_X), part[2];
        emit_load_next(p, MEM_BLOCKS, v, q->pointers[i]);
        for (int j = 0; j < 2; j++) {
            part[j] = asm_local(p, ASM_X);
            emit_nibbles(p, part[j], asm_half(v, j));
        }
        d[i] = shuffled(w, part[0], part[1], pick);
    }
    for (int i = 0; i < 2; i++) {
        struct asm_reg upper = doubled(w, lanes(w, LANE_AND, d[2], bits[i]), i ? 2 : 4);
        emit_store_next(p, MEM_BYTES, lanes(w, LANE_ADD, d[i], upper), q->pointers[3 + i]);
    }
    asm_loop_end(p);
    quant_end(w);
}

struct to_bf16 {
    struct factors f;
    struct asm_reg one, zip[2], pair[2];
    struct asm_reg upper; // bit of a byte, where these have eight
};

// 16 rows of 16 k, two at a time. Pointers stand in the middle, where offsets reach all. Bytes of
// eight bits are two terms: the lower seven, and the upper one.
static void trip(struct writer * w, const struct to_bf16 * b, bool eight, struct asm_reg from,
                 struct asm_reg scales, struct asm_reg less, const struct asm_reg to[4]) {
    struct asm_program * p = w->p;
    const struct factors * f = &b->f;
    struct asm_reg s[2];
    struct emit_scale by = {0};
    for (int i = 0; i < 2; i++) {
        s[i] = asm_local(p, ASM_X);
        emit_load_next(p, MEM_SPREAD, s[i], i ? less : scales);
    }
    emit_scale(p, &by, s[0], f->offset, f->zero, f->low, f->config);
    emit_scale_less(p, &by, s[1], b->one, f->zero, f->low, f->config);
    for (int u = 0; u < 4; u++) {
        struct asm_reg v[2] = {asm_local(p, ASM_X)}, rows[2][2];
        emit_load(p, MEM_BYTES, v[0], from, (u - 2) * WORDS);
        if (eight) {
            v[1] = lanes(w, LANE_AND, v[0], b->upper);
            v[0] = lanes(w, LANE_SUB, v[0], v[1]);
        }
        for (int i = 0; i <= eight; i++) {
            for (int half = 0; half < 2; half++) {
                rows[i][half] = shuffled(w, v[i], f->top, b->zip[half]);
            }
        }
        for (int k = 0; k < 2; k++) {
            struct asm_reg terms[2];
            for (int i = 0; i <= eight; i++) {
                terms[i] = shuffled(w, rows[i][0], rows[i][1], b->pair[k]);
            }
            put_pair(w, &by, terms, 1 + eight, to[u], k, f->config);
        }
        emit_advance(p, to[u], VECTOR - (w->q->wide ? 2 * QUANT_PAIR : 0));
    }
    emit_advance(p, from, VECTOR);
}

void quant_long_to_bf16(struct quant * q, bool eight) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct to_bf16 b;
    const struct asm_reg from = q->pointers[0], scales = q->pointers[1], *to = q->pointers + 2;
    struct asm_reg less = take(w, ASM_P);
    struct asm_reg group = take_set(w, ASM_R, 0), at = asm_local(p, ASM_R);
    struct asm_reg bits = take(w, ASM_R), down = take(w, ASM_R), further = take(w, ASM_R);
    int again = asm_label_new(p);
    take_factors(w, &b.f);
    b.one = take(w, ASM_X);
    if (eight) {
        b.upper = take_splat(w, LANE_8, 0x80);
    }
    for (int i = 0; i < 2; i++) {
        b.zip[i] = take_set(w, ASM_MASK, ZIP_8 + i);
        b.pair[i] = take_set(w, ASM_MASK, EVEN_32 + i);
    }
    quant_ready(w);
    read_param(w, q->number, MM_PARAM_ONE, from);
    emit_splat(p, LANE_16, b.one, q->number);
    read_param(w, bits, MM_PARAM_GROUP, scales);
    read_param(w, down, MM_PARAM_GROUP_SHIFT, to[0]);
    read_param(w, further, MM_PARAM_LESS, to[1]);
    asm_label(p, again);
    emit_alu(p, AIE_BASIC_AND, at, group, bits);
    emit_alu(p, AIE_BASIC_SHIFT, at, at, down);
    at = sum_of(w, at, address(w, MM_LONG_SPREAD));
    emit_copy(p, scales, at);
    struct asm_reg minima = asm_local(p, ASM_R);
    emit_alu(p, AIE_BASIC_ADD, minima, at, further);
    emit_copy(p, less, minima);
    point(w, from, shifted(w, group, 10 /* GROUP */), address(w, MM_LONG_BYTES) + 2 * WORDS);
    struct asm_reg out = asm_local(p, ASM_R);
    struct asm_reg behind = shifted(w, group, 11 /* in bf16 */);
    emit_alu(p, AIE_BASIC_ADD, out, sum_of(w, q->base, pair_at(q) - q->offset), behind);
    for (int i = 0; i < 4; i++) {
        point(w, to[i], out, i * 2 * GROUP / 4);
    }
    emit_set(p, q->number, WORDS / VECTOR);
    asm_loop_begin(p, q->number);
    trip(w, &b, eight, from, scales, less, to);
    asm_loop_end(p);
    emit_add_small(p, group, group, 1);
    emit_add_small(p, q->number, group, -4);
    asm_jump_if_nonzero(p, q->number, again);
    quant_end(w);
}

// Numbers of 4 bits that stay as they are: where they stand.
static void tell_numbers(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_reg pointer = q->pointers[0], at = asm_local(w->p, ASM_R);
    read_param(w, q->number, MM_PARAM_RAW, pointer);
    emit_alu(w->p, AIE_BASIC_ADD, at, q->number, shifted(w, slice_number(w), 11 /* HALF */));
    store_param(w, sum_of(w, at, HEADER), MM_PARAM_NUMBERS, pointer);
    quant_end(w);
}

void quant_long_numbers(struct quant * q) {
    struct asm_program * p = q->p;
    int five = asm_label_new(p), six = asm_label_new(p), done = asm_label_new(p);
    if (!q->fused && !q->apart) {
        spread(q);
    }
    struct writer w = {.q = q, .p = p};
    read_param(&w, q->number, MM_PARAM_BITS, q->pointers[0]);
    emit_add_small(p, q->number, q->number, -5);
    asm_jump_if_zero(p, q->number, five);
    emit_add_small(p, q->number, q->number, -1);
    asm_jump_if_zero(p, q->number, six);
    int apart = asm_label_new(p);
    if (q->fused) {
        tell_numbers(q);
    } else if (q->apart) {
        quant_apart_halves(q);
    } else {
        four_or_five_bits(q, false);
    }
    asm_jump(p, q->apart ? apart : done);
    asm_label(p, five);
    four_or_five_bits(q, true);
    asm_jump(p, done);
    asm_label(p, six);
    six_bit_numbers(q);
    asm_label(p, done);
    if (q->at_once) {
        quant_apart_five_six(q);
    } else if (q->apart) {
        quant_apart_long(q, false);
    } else if (!q->fused) {
        quant_long_to_bf16(q, false);
    }
    asm_label(p, apart);
}
