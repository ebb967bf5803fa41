// quant: see the header. All loops walk through memory in vectors of 64 bytes: words of 16 rows.
#include "quant-writer.h"

enum { PITCH = MM_TILE * 4 }; // bytes from word to word, and of a k-block of bf16

// Behind the first block: its words, and one that has the second scale. Of pairs both scales are
// one word.
static struct asm_reg second_scale(struct writer * w) {
    struct asm_reg n = asm_local(w->p, ASM_R), behind = shifted(w, w->q->number, 8);
    read_param(w, n, MM_PARAM_PAIRED, w->q->pointers[2]);
    emit_alu(w->p, AIE_BASIC_AND, behind, behind, sum_of(w, n, -PITCH)); // all of it, or nothing
    return behind;
}

// ---- scales ----

// The scales of 32 rows, of words one half.
static struct asm_reg scales_of(struct writer * w, struct asm_reg from, struct asm_reg half) {
    struct asm_reg v[2];
    for (int i = 0; i < 2; i++) {
        v[i] = asm_local(w->p, ASM_X);
        emit_load_next(w->p, MEM_BLOCKS, v[i], from);
    }
    return shuffled(w, v[0], v[1], half);
}

void quant_gather(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg from = q->pointers[0], to = q->pointers[1];
    struct asm_reg half[2];
    for (int b = 0; b < 2; b++) {
        half[b] = take_set(w, ASM_MASK, EVEN_16 + b);
    }
    quant_ready(w);
    emit_set(p, to, address(w, MM_SCALES));
    struct asm_reg raw = raw_of(w);
    emit_copy(p, from, raw);
    for (int b = 0; b < 2; b++) {
        for (int i = 0; i < 2; i++) {
            emit_store_next(p, MEM_SCALES, scales_of(w, from, half[b]), to);
        }
        if (b == 0) {
            struct asm_reg second = asm_local(p, ASM_R);
            emit_alu(p, AIE_BASIC_ADD, second, raw, second_scale(w));
            emit_copy(p, from, second);
        }
    }
    quant_end(w);
}

// Each scale twice.
static void spread_scales(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg from = q->pointers[0], to = q->pointers[1], zip[2];
    struct asm_reg trips = take_set(w, ASM_R, 2 * MM_TILE * 2 / QUANT_VECTOR);
    for (int i = 0; i < 2; i++) {
        zip[i] = take_set(w, ASM_MASK, ZIP_16 + i);
    }
    quant_ready(w);
    emit_copy(p, from, planes_of(w));
    emit_set(p, to, address(w, MM_SPREAD));
    asm_loop_begin(p, trips);
    struct asm_reg s = asm_local(p, ASM_X);
    emit_load_next(p, MEM_SCALES, s, from);
    for (int i = 0; i < 2; i++) {
        emit_store_next(p, MEM_SPREAD, shuffled(w, s, s, zip[i]), to);
    }
    asm_loop_end(p);
    quant_end(w);
}

// ---- the first block, 16 bits up ----

static void align(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg before = q->pointers[0], unit = q->pointers[1], to = q->pointers[2];
    // 16-bit lanes that begin a word
    struct asm_reg first = take_set(w, ASM_MASK, 0x55555555);
    struct asm_reg down = take_set(w, ASM_MASK, 2);
    struct asm_reg up = take_set(w, ASM_MASK, QUANT_VECTOR - 2);
    quant_ready(w);
    struct asm_reg raw = raw_of(w);
    emit_copy(p, before, raw);
    emit_copy(p, to, raw);
    emit_copy(p, unit, sum_of(w, raw, PITCH));
    emit_copy(p, q->number, shifted(w, q->number, 2));
    move_units(w, q->number, (struct asm_reg[]){before, unit}, (struct asm_reg[]){down, up}, to,
               first, 0);
    quant_end(w);
}

// ---- numbers ----

// Two bytes of a bf16 number are one of 4 bits and one above it, which makes them 128 + q, or
// 2048 + 16 q. Numbers of 8 bits are two of those, of q + 128. The offset is what is too much.
enum { TOP = 0x43, TOP_16 = 0x45, MINUS_136 = 0xc308, MINUS_2304 = 0xc510, SIGN = 0x80 };

struct numbers {
    struct emit_scale by;
    struct asm_reg low, config; // of emit_scale
    struct asm_reg even, odd, zip[2], pair[2];
    struct asm_reg top[2], sign; // vectors
};

static void take_numbers(struct writer * w, struct numbers * n, int bits) {
    n->by.given = true;
    for (int half = 0; half <= w->q->wide; half++) {
        n->by.by[half] = take(w, ASM_X);
        n->by.rest[half] = take(w, ASM_BM);
    }
    n->config = take_set(w, w->q->wide ? ASM_MASK : ASM_R, (int32_t) asm_target(w->p)->mul_config);
    if (w->q->wide) {
        n->low = take_set(w, ASM_MASK, 0xffff);
    }
    n->top[0] = n->top[1] = take_splat(w, LANE_8, TOP);
    n->even = take_set(w, ASM_MASK, EVEN_8);
    n->odd = take_set(w, ASM_MASK, EVEN_8 + 1);
    for (int i = 0; i < 2; i++) {
        n->zip[i] = take_set(w, ASM_MASK, ZIP_8 + i);
        n->pair[i] = take_set(w, ASM_MASK, EVEN_32 + i);
    }
    if (bits == 8) {
        n->top[1] = take_splat(w, LANE_8, TOP_16);
        n->sign = take_splat(w, LANE_8, SIGN);
    }
}

// Lower and upper halves of the bytes of a vector.
static void split(struct writer * w, const struct numbers * n, int bits, struct asm_reg bytes,
                  struct asm_reg out[2]) {
    struct asm_reg v = bytes;
    if (bits == 8) {
        v = asm_local(w->p, ASM_X);
        emit_lanes(w->p, LANE_ADD, LANE_8, v, bytes, n->sign);
    }
    nibbles_of(w, (struct asm_reg[]){n->even, n->odd}, v, out);
}

// ---- words: a row's part of two k-blocks, or of two pairs of them ----

// The scales of 16 rows, which all trips of these have. What only they want is made where it is
// wanted: a loop of numbers of 8 bits has no registers to spare.
static void take_scales(struct writer * w, struct numbers * n, int bits, struct asm_reg from) {
    struct asm_reg s = w->q->wide ? asm_local(w->p, ASM_X) : n->by.by[0];
    struct asm_reg offset = splat(w, LANE_16, bits == 4 ? MINUS_136 : MINUS_2304);
    struct asm_reg zero = w->q->wide ? splat(w, LANE_32, 0) : offset;
    emit_load(w->p, MEM_SPREAD, s, from, 0);
    emit_scale(w->p, &n->by, s, offset, zero, n->low, n->config);
}

// A trip takes 16 rows of one word.
static void narrow_trip(struct writer * w, const struct numbers * n, int bits, struct asm_reg from,
                        const struct asm_reg to[2]) {
    struct asm_program * p = w->p;
    struct asm_reg v = asm_local(p, ASM_X), part[2], terms[2][2];
    emit_load(p, MEM_BLOCKS, v, from, 0);
    split(w, n, bits, v, part);
    for (int i = 0; i < 2; i++) { // of four k the first two of all rows, then the others
        struct asm_reg rows[2];
        for (int half = 0; half < 2; half++) {
            rows[half] = shuffled(w, part[i], n->top[i], n->zip[half]);
        }
        for (int k = 0; k < 2; k++) {
            terms[k][i] = shuffled(w, rows[0], rows[1], n->pair[k]);
        }
    }
    for (int i = 0; i < 8 / bits; i++) {
        for (int k = 0; k < 2; k++) {
            put_pair(w, &n->by, &terms[k][i], bits / 4, to[i], k, n->config);
        }
        if (!w->q->wide) {
            emit_advance(p, to[i], 2 * PITCH);
        }
    }
    emit_advance(p, from, PITCH);
}

// Row groups of both blocks are counted in one number.
static void narrow_numbers(struct quant * q, int bits) {
    enum {
        GROUPS = MM_TILE * 4 / QUANT_VECTOR,
        BLOCK = 16 * PITCH,
        LATER = 10 /* its logarithm, less 2 */
    };
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct numbers n = {0};
    const struct asm_reg from = q->pointers[0], scales = q->pointers[1], *to = q->pointers + 2;
    struct asm_reg i = take_set(w, ASM_R, 0), blocks = take(w, ASM_R), apart = take(w, ASM_R);
    int group = asm_label_new(p);
    take_numbers(w, &n, bits);
    quant_ready(w);
    emit_nibbles_begin(p);
    // The words that came, ping or pong, or what a table made of them.
    struct asm_reg come = sum_of(w, raw_of(w), -address(w, MM_BLOCKS)), known = asm_local(p, ASM_R);
    read_param(w, q->number, MM_PARAM_AS_COME, from);
    read_param(w, known, MM_PARAM_NUMBERS, scales);
    read_param(w, apart, MM_PARAM_APART, to[0]);
    emit_alu(p, AIE_BASIC_AND, come, come, q->number);
    emit_alu(p, AIE_BASIC_ADD, come, come, known);
    emit_copy(p, blocks, sum_of(w, come, address(w, 0)));
    read_param(w, known, MM_PARAM_PAIRED, scales);
    emit_alu(p, AIE_BASIC_ADD, blocks, blocks, known);
    emit_alu(p, AIE_BASIC_SUB, apart, apart, known);
    asm_label(p, group);
    struct asm_reg second = masked(w, i, GROUPS), at = shifted(w, i, 6), d[3];
    for (int k = 0; k < 3; k++) {
        d[k] = asm_local(p, ASM_R);
    }
    struct asm_reg none = asm_local(p, ASM_R), is_second = asm_local(p, ASM_R);
    emit_set(p, none, 0);
    emit_alu(p, AIE_BASIC_SUB, is_second, none, shifted(w, second, -2));
    emit_alu(p, AIE_BASIC_AND, is_second, is_second, apart);
    emit_alu(p, AIE_BASIC_ADD, d[0], blocks, at);
    emit_alu(p, AIE_BASIC_ADD, d[0], d[0], is_second);
    emit_copy(p, from, d[0]);
    emit_copy(p, scales, sum_of(w, at, address(w, MM_SPREAD)));
    emit_alu(p, AIE_BASIC_ADD, d[1], sum_of(w, w->q->base, pair_at(q) - q->offset), at);
    emit_alu(p, AIE_BASIC_ADD, d[1], d[1], shifted(w, second, LATER));
    emit_alu(p, AIE_BASIC_SUB, d[2], d[1], shifted(w, second, 6));
    emit_copy(p, to[0], d[2]);
    emit_copy(p, to[1], sum_of(w, d[2], BLOCK / 2));
    emit_set(p, q->number, bits);
    take_scales(w, &n, bits, scales);
    asm_loop_begin(p, q->number);
    narrow_trip(w, &n, bits, from, to);
    asm_loop_end(p);
    emit_add_small(p, i, i, 1);
    emit_add_small(p, q->number, i, -2 * GROUPS);
    asm_jump_if_nonzero(p, q->number, group);
    quant_end(w);
}

// ---- all of it ----

void quant_spread(struct quant * q) {
    struct asm_program * p = q->p;
    int plain = asm_label_new(p), eight = asm_label_new(p), done = asm_label_new(p);
    struct writer w = {.q = q, .p = p};
    if (q->fused) {
        quant_straighten(q);
        read_param(&w, q->number, MM_PARAM_TABLED, q->pointers[0]);
        asm_jump_if_zero(p, q->number, done);
        quant_look_up(q);
        asm_label(p, plain);
        asm_label(p, eight);
        asm_label(p, done);
        return;
    }
    if (!q->apart) {
        spread_scales(q);
    }
    read_param(&w, q->number, MM_PARAM_TABLED, q->pointers[0]);
    asm_jump_if_zero(p, q->number, plain);
    quant_straighten(q);
    if (q->apart) {
        int table = asm_label_new(p);
        read_param(&w, q->number, MM_PARAM_BITS, q->pointers[0]);
        emit_add_small(p, q->number, q->number, -MM_BITS_POWER);
        asm_jump_if_nonzero(p, q->number, table);
        quant_apart_places(q);
        asm_jump(p, done);
        asm_label(p, table);
    }
    quant_look_up(q);
    asm_jump(p, eight);
    asm_label(p, plain);
    int aligned = asm_label_new(p);
    read_param(&w, q->number, MM_PARAM_PAIRED, q->pointers[0]);
    asm_jump_if_nonzero(p, q->number, aligned);
    read_param(&w, q->number, MM_PARAM_BITS, q->pointers[0]);
    align(q);
    asm_label(p, aligned);
    read_param(&w, q->number, MM_PARAM_BITS, q->pointers[0]);
    emit_add_small(p, q->number, q->number, -4);
    asm_jump_if_nonzero(p, q->number, eight);
    if (q->apart) {
        quant_apart(q);
    } else {
        narrow_numbers(q, 4);
    }
    asm_jump(p, done);
    asm_label(p, eight);
    if (q->apart) {
        quant_apart_bytes(q);
    } else {
        narrow_numbers(q, 8);
    }
    asm_label(p, done);
}
