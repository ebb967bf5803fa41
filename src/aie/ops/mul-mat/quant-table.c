// quant-table: blocks whose numbers begin within a word, as whole words, [word][64 rows]: both of a
// slice, one behind the other. Where numbers are places in a table these are looked up: 16 numbers
// of 8 bits, each of which is held 64 times, and a row of choices between two of them by the bits
// of a place. Any table will do. The one of mxfp4 is worked out where that is shorter: with r for
// the lower three bits, u = r + max(r - 4, 0) and u + max(u - 8, 0), and a sign.
//
// Scales of mxfp4 are exponents, of which d is 2^(e - 128): e - 1 in bf16's place. The least two
// are smaller than bf16's normal numbers and become 0. Where d is multiplied first with what is too
// much, those from 2^116 on give NaN (2304: UNPACK), or from 2^121 on (195:
// aie2p-quant-transposed.c).
#include "quant-writer.h"

enum {
    WORD = MM_TILE * 4,  // bytes from word to word
    PLANE = MM_TILE * 2, // of a factor of each row
    BLOCK = 4 * WORD,    // of 32 places
    VECTORS = BLOCK / QUANT_VECTOR,
    VALUES = 16, // and behind them the bits of a place
    MIDDLE = 8,  // from where offsets reach all
};

static struct asm_reg lanes_8(struct writer * w, enum lane_op op, struct asm_reg a,
                              struct asm_reg b) {
    struct asm_reg d = asm_local(w->p, ASM_X);
    emit_lanes(w->p, op, LANE_8, d, a, b);
    return d;
}

// ---- words ----

// Each word is the end of one and the beginning of the next, in vectors of 16 rows.
static void straighten_trip(struct writer * w, const struct asm_reg from[2],
                            const struct asm_reg by[2], const struct asm_reg bits[2],
                            struct asm_reg more, struct asm_reg to) {
    struct asm_program * p = w->p;
    struct asm_reg sum = more;
    for (int i = 0; i < 2; i++) {
        struct asm_reg v = asm_local(p, ASM_X), moved = asm_local(p, ASM_X),
                       part = asm_local(p, ASM_X), next = asm_local(p, ASM_X);
        emit_load_next(p, MEM_BLOCKS, v, from[i]);
        emit_shift_bytes(p, moved, v, v, by[i]);
        emit_lanes(p, LANE_AND, LANE_8, part, moved, bits[i]);
        emit_lanes(p, LANE_ADD, LANE_8, next, sum, part);
        sum = next;
    }
    emit_store_next(p, MEM_ALIGNED, sum, to);
}

// Where the words are that came, and the byte at which the first block of the slice has numbers.
static void find_words(struct writer * w, struct asm_reg raw, struct asm_reg at) {
    struct asm_program * p = w->p;
    const struct asm_reg * pointers = w->q->pointers;
    int here = asm_label_new(p);
    read_param(w, at, MM_PARAM_FIRST, pointers[0]);
    emit_copy(p, raw, raw_of(w));
    read_param(w, w->q->number, MM_PARAM_LATER, pointers[1]);
    asm_jump_if_zero(p, w->q->number, here); // two slices come together
    find_block(w, pointers[0]);
    emit_copy(p, raw, w->q->number);
    read_param(w, w->q->number, MM_PARAM_BLOCK, pointers[1]);
    struct asm_reg none = asm_local(p, ASM_R), second = asm_local(p, ASM_R);
    emit_set(p, none, 0);
    emit_alu(p, AIE_BASIC_SUB, second, none, masked(w, slice_number(w), 1));
    emit_alu(p, AIE_BASIC_AND, second, second, shifted(w, w->q->number, 1));
    emit_alu(p, AIE_BASIC_ADD, at, at, second);
    asm_label(p, here);
}

// UNPACK has no room for panels beside gemm on aie2p, and takes none with such blocks there.
static bool takes_panels(const struct quant * q) {
    return q->fused || q->wide || q->apart;
}

// In panels scales that are a byte are a word before the numbers of all blocks. These are whole
// words as they come: who looks for them is told where they are.
void quant_straighten(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg *from = q->pointers, to = q->pointers[2], scratch = q->pointers[3];
    struct asm_reg at = take(w, ASM_R), left = take_set(w, ASM_R, 2), raw = take(w, ASM_R);
    struct asm_reg by[2] = {take(w, ASM_MASK), take(w, ASM_MASK)};
    struct asm_reg bits[2] = {take(w, ASM_X), take(w, ASM_X)}, more = take(w, ASM_X);
    int again = asm_label_new(p);
    int begin = asm_label_new(p), end = asm_label_new(p);
    quant_ready(w);
    find_words(w, raw, at);
    if (takes_panels(q)) {
        read_param(w, q->number, MM_PARAM_BLOCK_TRIPS, from[0]);
        asm_jump_if_nonzero(p, q->number, begin);
        struct asm_reg come = sum_of(w, raw, -address(w, 0));
        emit_alu(p, AIE_BASIC_ADD, come, come, shifted(w, at, 8 - 2 /* WORD */));
        store_param(w, come, MM_PARAM_WORDS, from[1]);
        asm_jump(p, end);
    }
    asm_label(p, begin);
    struct asm_reg n = asm_local(p, ASM_R), goes = asm_local(p, ASM_R);
    read_param(w, n, MM_PARAM_MORE, from[0]);
    emit_splat(p, LANE_8, more, n);
    read_param(w, goes, MM_PARAM_WORDS, from[1]);
    emit_copy(p, to, sum_of(w, goes, address(w, 0)));
    asm_label(p, again);
    struct asm_reg begins = asm_local(p, ASM_R), all = asm_local(p, ASM_R),
                   none = asm_local(p, ASM_R), down = asm_local(p, ASM_R), mask[2];
    struct asm_reg byte = masked(w, at, 3);
    emit_alu(p, AIE_BASIC_ADD, begins, raw, shifted(w, masked(w, at, ~3), 8 - 2 /* WORD */));
    emit_copy(p, from[0], begins);
    emit_copy(p, from[1], sum_of(w, begins, WORD));
    emit_copy(p, by[0], byte);
    emit_copy(p, by[1], sum_of(w, byte, QUANT_VECTOR - 4));
    emit_set(p, all, -1);
    emit_set(p, none, 0);
    for (int i = 0; i < 2; i++) {
        mask[i] = asm_local(p, ASM_R);
    }
    emit_alu(p, AIE_BASIC_SUB, down, none, shifted(w, byte, 3));
    emit_alu(p, AIE_BASIC_SHIFT, mask[0], all, down);
    emit_alu(p, AIE_BASIC_XOR, mask[1], mask[0], all);
    for (int i = 0; i < 2; i++) {
        emit_splat(p, LANE_32, bits[i], mask[i]);
    }
    read_param(w, q->number, MM_PARAM_BLOCK_TRIPS, scratch);
    asm_loop_begin(p, q->number);
    straighten_trip(w, from, by, bits, more, to);
    asm_loop_end(p);
    read_param(w, q->number, MM_PARAM_BLOCK, scratch);
    emit_alu(p, AIE_BASIC_ADD, at, at, q->number);
    emit_add_small(p, left, left, -1);
    asm_jump_if_nonzero(p, left, again);
    asm_label(p, end);
    quant_end(w);
}

// Where the places of a slice are, as whole words.
struct asm_reg quant_places_at(struct writer * w, struct asm_reg pointer) {
    struct asm_reg at = asm_local(w->p, ASM_R);
    if (!takes_panels(w->q)) {
        emit_set(w->p, at, address(w, MM_TABLED_WORDS));
        return at;
    }
    read_param(w, at, MM_PARAM_WORDS, pointer);
    return sum_of(w, at, address(w, 0));
}

// ---- a table ----

static void write_values(struct quant * q, int at) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg from = q->pointers[0], to = q->pointers[1];
    struct asm_reg trips = take_set(w, ASM_R, (VALUES + 4) / 4);
    quant_ready(w);
    emit_set(p, from, address(w, MM_PARAMS + 4 * MM_PARAM_TABLE));
    emit_set(p, to, address(w, at));
    asm_loop_begin(p, trips);
    asm_loop_alone(p);
    struct asm_reg four = asm_local(p, ASM_R);
    emit_load_word_next(p, MEM_PARAMS, four, from);
    for (int i = 0; i < 4; i++) {
        struct asm_reg v = asm_local(p, ASM_X);
        emit_splat(p, LANE_8, v, i ? shifted(w, four, -8 * i) : four);
        emit_store_next(p, MEM_TABLE, v, to);
    }
    asm_loop_end(p);
    quant_end(w);
}

// Places are looked up in lanes of a byte, or where registers of such masks are in use, of two.
struct look_up {
    int width;
    struct asm_reg values, zip[2], even;
};

// The value of the places from `first` on, of so many bits.
static struct asm_reg value_of(struct writer * w, const struct look_up * l,
                               const struct asm_reg is_0[4], int first, int bits) {
    struct asm_reg d = asm_local(w->p, ASM_X);
    if (bits == 0) {
        emit_load(w->p, MEM_TABLE, d, l->values, (first - MIDDLE) * QUANT_VECTOR);
        return d;
    }
    struct asm_reg low = value_of(w, l, is_0, first, bits - 1);
    struct asm_reg high = value_of(w, l, is_0, first + (1 << (bits - 1)), bits - 1);
    emit_select(w->p, l->width, d, high, low, is_0[bits - 1]);
    return d;
}

static struct asm_reg values_of(struct writer * w, const struct look_up * l,
                                struct asm_reg places) {
    struct asm_program * p = w->p;
    struct asm_reg is_0[4];
    for (int b = 0; b < 4; b++) {
        struct asm_reg bit = asm_local(p, ASM_X), of = asm_local(p, ASM_X);
        emit_load(p, MEM_TABLE, bit, l->values, (VALUES + b - MIDDLE) * QUANT_VECTOR);
        emit_lanes(p, LANE_AND, LANE_8, of, places, bit);
        is_0[b] = emit_new_mask(p, l->width);
        emit_is_zero(p, l->width, is_0[b], of);
    }
    return value_of(w, l, is_0, 0, 4);
}

static void take_look_up(struct writer * w, struct look_up * l) {
    l->width = w->q->wide ? LANE_8 : LANE_16;
    l->values = w->q->pointers[2];
    for (int i = 0; i < 2 && l->width == LANE_16; i++) {
        l->zip[i] = take_set(w, ASM_R, ZIP_8 + i);
    }
    if (l->width == LANE_16) {
        l->even = take_set(w, ASM_R, EVEN_8);
    }
}

// Where the places of a slice are, of a block that is longer. Worked out each time: scalars that
// are held would be registers of masks.
static void add_long_words(struct writer * w, struct asm_reg at) {
    struct asm_program * p = w->p;
    find_block(w, w->q->pointers[0]);
    emit_alu(p, AIE_BASIC_ADD, at, at, w->q->number);
    emit_alu(p, AIE_BASIC_ADD, at, at, shifted(w, slice_number(w), 11 /* 2 BLOCK */));
    read_param(w, w->q->number, MM_PARAM_NUMBERS_AT, w->q->pointers[0]);
    emit_alu(p, AIE_BASIC_ADD, at, at, w->q->number);
}

// Each block's lower halves of bytes come first, then its upper ones.
static void look_up(struct quant * q, bool is_long) {
    int table = is_long ? MM_LONG_VALUES : MM_TABLED_VALUES;
    write_values(q, table);
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg from = q->pointers[0], to = q->pointers[1];
    struct asm_reg i = take_set(w, ASM_R, 0), pick = take(w, ASM_R);
    struct look_up l;
    int again = asm_label_new(p);
    take_look_up(w, &l);
    quant_ready(w);
    emit_nibbles_begin(p);
    emit_set(p, to, address(w, is_long ? MM_LONG_BYTES : MM_TABLED_BYTES));
    emit_set(p, l.values, address(w, table + MIDDLE * QUANT_VECTOR));
    asm_label(p, again);
    emit_copy(p, pick, sum_of(w, masked(w, i, 1), EVEN_8));
    struct asm_reg block = shifted(w, masked(w, i, 2), 10 - 1 /* BLOCK */);
    if (is_long) {
        add_long_words(w, block);
        emit_copy(p, from, block);
    } else {
        emit_alu(p, AIE_BASIC_ADD, block, block, quant_places_at(w, from));
        emit_copy(p, from, block);
    }
    emit_set(p, q->number, VECTORS);
    asm_loop_begin(p, q->number);
    struct asm_reg v = asm_local(p, ASM_X), n[2];
    emit_load_next(p, MEM_BLOCKS, v, from);
    for (int half = 0; half < 2; half++) {
        n[half] = asm_local(p, ASM_X);
        emit_nibbles(p, n[half], asm_half(v, half));
    }
    struct asm_reg places = shuffled(w, n[0], n[1], pick), found;
    if (l.width == LANE_8) {
        found = values_of(w, &l, places);
    } else {
        for (int half = 0; half < 2; half++) {
            n[half] = values_of(w, &l, shuffled(w, places, places, l.zip[half]));
        }
        found = shuffled(w, n[0], n[1], l.even);
    }
    emit_store_next(p, MEM_BYTES, found, to);
    asm_loop_end(p);
    emit_add_small(p, i, i, 1);
    emit_add_small(p, q->number, i, -4);
    asm_jump_if_nonzero(p, q->number, again);
    quant_end(w);
}

void quant_take_places(struct writer * w, struct quant_places * c) {
    c->seven = take_splat(w, LANE_8, 7);
    c->four = take_splat(w, LANE_8, 4);
    c->eight = take_splat(w, LANE_8, 8);
}

// a and by how much it is more than b.
static struct asm_reg steeper(struct writer * w, struct asm_reg a, struct asm_reg b) {
    struct asm_reg more = asm_local(w->p, ASM_X);
    emit_excess(w->p, LANE_8, more, a, b);
    return lanes_8(w, LANE_ADD, a, more);
}

struct asm_reg quant_worked_out(struct writer * w, const struct quant_places * c,
                                struct asm_reg places) {
    struct asm_reg r = lanes_8(w, LANE_AND, places, c->seven), d = asm_local(w->p, ASM_X);
    emit_sub_from(w->p, LANE_8, d, c->middle, steeper(w, steeper(w, r, c->four), c->eight), places,
                  c->eight);
    return d;
}

// Each block's lower halves of bytes come first, then its upper ones. Products that are multiplied
// as they are unpacked use none of the walks yet, nor does UNPACK.
static void work_out(struct quant * q) {
    enum { WALK = 0 };
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg from = q->pointers[0], to = q->pointers[1];
    struct asm_reg pick[2];
    for (int n = 0; n < 2; n++) {
        pick[n] = take_set(w, ASM_R, EVEN_8 + n);
    }
    struct quant_places c;
    quant_take_places(w, &c);
    c.middle = take_splat(w, LANE_8, q->fused ? 128 : 0);
    quant_ready(w);
    emit_nibbles_begin(p);
    emit_set(p, to, address(w, MM_TABLED_BYTES + BLOCK / 2)); // from where offsets reach both
    emit_set_walk(p, WALK, VECTORS, QUANT_VECTOR, QUANT_VECTOR + BLOCK);
    emit_copy(p, from, quant_places_at(w, from));
    emit_set(p, q->number, 2 * VECTORS);
    asm_loop_begin(p, q->number);
    struct asm_reg v = asm_local(p, ASM_X), part[2];
    emit_load_next(p, MEM_BLOCKS, v, from);
    nibbles_of(w, pick, v, part);
    for (int n = 0; n < 2; n++) {
        emit_store(p, MEM_BYTES, quant_worked_out(w, &c, part[n]), to, (2 * n - 1) * BLOCK / 2);
    }
    emit_walk(p, to, WALK);
    asm_loop_end(p);
    quant_end(w);
}

void quant_look_up(struct quant * q) {
    struct asm_program * p = q->p;
    struct writer w = {.q = q, .p = p};
    int table = asm_label_new(p), done = asm_label_new(p);
    if (q->wide) {
        read_param(&w, q->number, MM_PARAM_BITS, q->pointers[0]);
        emit_add_small(p, q->number, q->number, -MM_BITS_POWER);
        asm_jump_if_nonzero(p, q->number, table);
        work_out(q);
        asm_jump(p, done);
    }
    asm_label(p, table);
    look_up(q, false);
    asm_label(p, done);
}

void quant_long_look_up(struct quant * q) {
    look_up(q, true);
}

// ---- blocks that come for more than one slice ----

void quant_next_block(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg pointer = q->pointers[0], other = asm_local(p, ASM_R), raw = q->number;
    read_param(w, other, MM_PARAM_OTHER, pointer);
    read_param(w, raw, MM_PARAM_RAW, pointer);
    emit_alu(p, AIE_BASIC_XOR, raw, raw, other);
    emit_store_word(p, MEM_PARAMS, raw, pointer, 0);
    quant_end(w);
}

// Block b of four has its exponent in byte b of word 4 b, in panels of the first word.
void quant_power_scales(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg from = q->pointers[0], to = q->pointers[1], trips = take_set(w, ASM_R, 4);
    struct asm_reg by = take_set(w, ASM_R, 0), half = take_set(w, ASM_R, EVEN_16);
    struct asm_reg byte = take_splat(w, LANE_16, 0xff), one = take_splat(w, LANE_16, 1);
    struct asm_reg raise = take(w, ASM_S), stay = take(w, ASM_S), far = take(w, ASM_R);
    quant_ready(w);
    if (takes_panels(q)) {
        read_param(w, q->number, MM_PARAM_BLOCK_TRIPS, from);
        emit_copy(p, far, shifted(w, q->number, 6 /* QUANT_VECTOR */));
    }
    emit_set_shift(p, raise, 7);
    emit_set_shift(p, stay, 0);
    find_block(w, from);
    emit_copy(p, from, q->number);
    emit_set(p, to, address(w, MM_LONG_TABLE));
    asm_loop_begin(p, trips);
    asm_loop_alone(p);
    if (takes_panels(q)) {
        emit_copy(p, from, q->number);
    }
    for (int rows = 0; rows < 2; rows++) {
        struct asm_reg moved[2], e = asm_local(p, ASM_X), most = asm_local(p, ASM_X);
        for (int i = 0; i < 2; i++) {
            struct asm_reg v = asm_local(p, ASM_X);
            moved[i] = asm_local(p, ASM_X);
            emit_load(p, MEM_BLOCKS, v, from, (2 * rows + i) * QUANT_VECTOR);
            emit_shift_bytes(p, moved[i], v, v, by);
        }
        emit_lanes(p, LANE_AND, LANE_16, e, shuffled(w, moved[0], moved[1], half), byte);
        emit_choose(p, LANE_MAX, LANE_16, most, emit_new_mask(p, LANE_16), e, one);
        emit_lanes(p, LANE_SUB, LANE_16, e, most, one);
        struct asm_reg wide = asm_local(p, ASM_CM), d = asm_local(p, ASM_X);
        emit_widen_16(p, wide, e, raise);
        for (int i = 0; i < 2; i++) {
            emit_narrow_16(p, asm_half(d, i), asm_half(wide, i), stay);
        }
        emit_store(p, MEM_SCALES, d, to, rows * QUANT_VECTOR);
    }
    if (takes_panels(q)) {
        emit_alu(p, AIE_BASIC_ADD, q->number, q->number, far);
    } else {
        emit_advance(p, from, 4 * WORD);
    }
    emit_advance(p, to, PLANE);
    emit_add_small(p, by, by, 1);
    asm_loop_end(p);
    quant_end(w);
}
