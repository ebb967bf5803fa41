// quant: see the header. All loops walk through memory in vectors of 64 bytes: of 8 rows where a
// unit has 8 bytes, of 16 where it has 4.
#include "quant-writer.h"

static int pitch(const struct writer * w) { // from unit to unit
    return MM_TILE * w->q->unit;
}

// Behind the first block: its units, and one that has the second scale.
static struct asm_reg second_scale(struct writer * w) {
    return shifted(w, w->q->number, 8);
}

// ---- scales ----

// The scales of 32 rows: of 8-byte units the last words, of words one half.
static struct asm_reg scales_of(struct writer * w, struct asm_reg from, struct asm_reg words,
                                struct asm_reg half) {
    struct asm_reg v[4], d[2];
    int n = w->q->unit / 2;
    for (int i = 0; i < n; i++) {
        v[i] = asm_local(w->p, ASM_X);
        emit_load_next(w->p, MEM_BLOCKS, v[i], from);
    }
    for (int i = 0; i < 2; i++) {
        d[i] = n == 4 ? shuffled(w, v[2 * i], v[2 * i + 1], words) : v[i];
    }
    return shuffled(w, d[0], d[1], half);
}

void quant_gather(struct quant * q) {
    struct writer writer = begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg from = q->pointers[0], to = q->pointers[1];
    struct asm_reg words = take_set(w, ASM_MASK, EVEN_32 + 1), half[2];
    for (int b = 0; b < 2; b++) {
        half[b] = take_set(w, ASM_MASK, EVEN_16 + b);
    }
    ready(w);
    emit_set(p, to, address(w, MM_SCALES));
    struct asm_reg raw = raw_of(w);
    emit_copy(p, from, raw);
    for (int b = 0; b < 2; b++) {
        for (int i = 0; i < 2; i++) {
            emit_store_next(p, MEM_SCALES, scales_of(w, from, words, half[b]), to);
        }
        if (b == 0) {
            struct asm_reg second = asm_local(p, ASM_R);
            emit_alu(p, AIE_BASIC_ADD, second, raw, second_scale(w));
            emit_copy(p, from, second);
        }
    }
    end(w);
}

// Each scale twice, and where a unit has 8 bytes four times.
static void spread_scales(struct quant * q) {
    struct writer writer = begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg from = q->pointers[0], to = q->pointers[1], zip[2][2];
    struct asm_reg trips = take_set(w, ASM_R, 2 * MM_TILE * 2 / QUANT_VECTOR);
    bool more = q->unit == 8;
    for (int i = 0; i < 2; i++) {
        zip[0][i] = take_set(w, ASM_MASK, ZIP_16 + i);
        zip[1][i] = take_set(w, ASM_MASK, ZIP_32 + i);
    }
    ready(w);
    emit_set(p, from, address(w, MM_SCALES));
    emit_set(p, to, address(w, MM_SPREAD));
    asm_loop_begin(p, trips);
    struct asm_reg s = asm_local(p, ASM_X);
    emit_load_next(p, MEM_SCALES, s, from);
    for (int i = 0; i < 2; i++) {
        struct asm_reg two = shuffled(w, s, s, zip[0][i]);
        for (int j = 0; j < (more ? 2 : 1); j++) {
            emit_store_next(p, MEM_SPREAD, more ? shuffled(w, two, two, zip[1][j]) : two, to);
        }
    }
    asm_loop_end(p);
    end(w);
}

// ---- the first block, 16 bits up ----

static void align(struct quant * q) {
    struct writer writer = begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg before = q->pointers[0], unit = q->pointers[1], to = q->pointers[2];
    // 16-bit lanes that begin a unit
    struct asm_reg first = take_set(w, ASM_MASK, q->unit == 8 ? 0x11111111 : 0x55555555);
    struct asm_reg down = take_set(w, ASM_MASK, q->unit - 2);
    struct asm_reg up = take_set(w, ASM_MASK, QUANT_VECTOR - 2);
    ready(w);
    struct asm_reg raw = raw_of(w);
    emit_copy(p, before, raw);
    emit_copy(p, to, raw);
    emit_copy(p, unit, sum_of(w, raw, pitch(w)));
    emit_copy(p, q->number, shifted(w, q->number, 2));
    move_units(w, q->number, (struct asm_reg[]){before, unit}, (struct asm_reg[]){down, up}, to,
               first, 0);
    end(w);
}

// ---- numbers ----

// Two bytes of a bf16 number are one of 4 bits and one above it, which makes them 128 + q, or
// 2048 + 16 q. Numbers of 8 bits are two of those, of q + 128. The offset is what is too much.
enum { TOP = 0x43, TOP_16 = 0x45, MINUS_136 = 0xc308, MINUS_2304 = 0xc510, SIGN = 0x80 };

struct numbers {
    struct asm_reg offset, zero, low, config; // of emit_scale
    struct asm_reg even, odd, zip[2], zip_64, pair[2];
    struct asm_reg top[2], sign; // vectors
};

static void take_numbers(struct writer * w, struct numbers * n, int bits) {
    bool wide = w->q->unit == 8;
    n->offset = take_splat(w, LANE_16, bits == 4 ? MINUS_136 : MINUS_2304);
    n->config = take_set(w, wide ? ASM_MASK : ASM_R, (int32_t) asm_target(w->p)->mul_config);
    n->top[0] = n->top[1] = take_splat(w, LANE_8, TOP);
    n->even = take_set(w, ASM_MASK, EVEN_8);
    n->odd = take_set(w, ASM_MASK, EVEN_8 + 1);
    n->zip[0] = take_set(w, ASM_MASK, ZIP_8);
    if (wide) {
        n->zero = take_splat(w, LANE_32, 0);
        n->low = take_set(w, ASM_MASK, 0xffff);
        n->zip_64 = take_set(w, ASM_MASK, ZIP_64);
    } else {
        n->zip[1] = take_set(w, ASM_MASK, ZIP_8 + 1);
        n->pair[0] = take_set(w, ASM_MASK, EVEN_32);
        n->pair[1] = take_set(w, ASM_MASK, EVEN_32 + 1);
    }
    if (bits == 8) {
        n->top[1] = take_splat(w, LANE_8, TOP_16);
        n->sign = take_splat(w, LANE_8, SIGN);
    }
}

// Lower and upper halves of the bytes of a vector, or of its lower half.
static void split(struct writer * w, const struct numbers * n, int bits, struct asm_reg bytes,
                  int halves, struct asm_reg out[2]) {
    struct asm_reg v = bytes;
    if (bits == 8) {
        v = asm_local(w->p, ASM_X);
        emit_lanes(w->p, LANE_ADD, LANE_8, v, bytes, n->sign);
    }
    nibbles_of(w, (struct asm_reg[]){n->even, n->odd}, v, halves, out);
}

// ---- units of 8 bytes: a row's part of a k-block of 8 bits ----

// A trip takes 4 rows of two units, half a block. More would want more registers than there are.
static void wide_trip(struct writer * w, const struct numbers * n, struct asm_reg from,
                      struct asm_reg scales, const struct asm_reg to[2]) {
    enum { ROWS = 32, ROWS_BF16 = 64 }; // bytes
    struct asm_program * p = w->p;
    struct emit_scale by;
    struct asm_reg s = asm_local(p, ASM_X);
    emit_load_next(p, MEM_SPREAD, asm_half(s, 0), scales);
    emit_scale(p, &by, shuffled(w, s, s, n->zip_64), n->offset, n->zero, n->low, n->config);
    for (int u = 0; u < 2; u++) {
        struct asm_reg v = asm_local(p, ASM_X), part[2], terms[2];
        emit_load(p, MEM_BLOCKS, asm_half(v, 0), from, u * pitch(w));
        split(w, n, 8, v, 1, part);
        for (int i = 0; i < 2; i++) {
            terms[i] = shuffled(w, part[i], n->top[i], n->zip[0]);
        }
        emit_scaled(p, MEM_OUT, &by, terms, 2, to[u], 0, n->config);
    }
    emit_advance(p, from, ROWS);
    for (int i = 0; i < 2; i++) {
        emit_advance(p, to[i], ROWS_BF16);
    }
}

// How far the slice of bf16 numbers is made.
static struct asm_reg made(struct writer * w, struct asm_reg out) {
    struct asm_reg d = asm_local(w->p, ASM_R);
    emit_alu(w->p, AIE_BASIC_SUB, d, sum_of(w, out, w->q->offset), w->q->base);
    return d;
}

// A loop whose trips overlap wants scalars for itself, so all else follows from how far it is.
static void wide_numbers(struct quant * q) {
    enum { K_BLOCK = MM_TILE * 16, BLOCK = 4 * K_BLOCK, SLICE = 2 * BLOCK }; // bytes of bf16
    struct writer writer = begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct numbers n = {0};
    const struct asm_reg from = q->pointers[0], scales = q->pointers[1], *to = q->pointers + 2;
    struct asm_reg out = take(w, ASM_R), at = asm_local(p, ASM_R);
    int again = asm_label_new(p);
    take_numbers(w, &n, 8);
    ready(w);
    emit_nibbles_begin(p);
    emit_copy(p, out, sum_of(w, q->base, -q->offset));
    asm_label(p, again);
    read_param(w, q->number, MM_PARAM_ROWS, scales);
    emit_alu(p, AIE_BASIC_ADD, q->number, q->number, q->number);
    // The second block is as much further as it has scales, and so are its numbers: by a unit.
    struct asm_reg so_far = made(w, out), further = shifted(w, masked(w, so_far, BLOCK), -3);
    emit_alu(p, AIE_BASIC_ADD, at, raw_of(w), shifted(w, so_far, -1));
    emit_alu(p, AIE_BASIC_ADD, at, at, further);
    emit_copy(p, from, at);
    emit_copy(p, scales, sum_of(w, further, address(w, MM_SPREAD)));
    for (int i = 0; i < 2; i++) {
        emit_copy(p, to[i], sum_of(w, out, i * K_BLOCK));
    }
    asm_loop_begin(p, q->number);
    wide_trip(w, &n, from, scales, to);
    asm_loop_end(p);
    emit_copy(p, out, sum_of(w, out, 2 * K_BLOCK));
    emit_copy(p, q->number, sum_of(w, made(w, out), -SLICE));
    asm_jump_if_nonzero(p, q->number, again);
    end(w);
}

// ---- units of 4 bytes: a row's part of two k-blocks, or of two pairs of them ----

enum { PAIR = MM_TILE * 4 }; // bytes of a k-block

// A trip takes 16 rows of one unit.
static void narrow_trip(struct writer * w, const struct numbers * n, int bits, struct asm_reg from,
                        struct asm_reg scales, const struct asm_reg to[2]) {
    struct asm_program * p = w->p;
    struct emit_scale by;
    struct asm_reg s = asm_local(p, ASM_X), v = asm_local(p, ASM_X), part[2], terms[2][2];
    emit_load(p, MEM_SPREAD, s, scales, 0);
    emit_scale(p, &by, s, n->offset, n->zero, n->low, n->config);
    emit_load(p, MEM_BLOCKS, v, from, 0);
    split(w, n, bits, v, 2, part);
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
            emit_scaled(p, MEM_OUT, &by, &terms[k][i], bits / 4, to[i], (k - 1) * PAIR, n->config);
        }
        emit_advance(p, to[i], 2 * PAIR);
    }
    emit_advance(p, from, pitch(w));
}

// Row groups of both blocks are counted in one number.
static void narrow_numbers(struct quant * q, int bits) {
    enum {
        GROUPS = MM_TILE * 4 / QUANT_VECTOR,
        BLOCK = 16 * PAIR,
        LATER = 10 /* its logarithm, less 2 */
    };
    struct writer writer = begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct numbers n = {0};
    const struct asm_reg from = q->pointers[0], scales = q->pointers[1], *to = q->pointers + 2;
    struct asm_reg i = take_set(w, ASM_R, 0);
    int group = asm_label_new(p);
    take_numbers(w, &n, bits);
    ready(w);
    emit_nibbles_begin(p);
    asm_label(p, group);
    struct asm_reg second = masked(w, i, GROUPS), at = shifted(w, i, 6), d[3];
    for (int k = 0; k < 3; k++) {
        d[k] = asm_local(p, ASM_R);
    }
    emit_alu(p, AIE_BASIC_ADD, d[0], raw_of(w), at);
    emit_alu(p, AIE_BASIC_ADD, d[0], d[0], shifted(w, second, bits == 4 ? 8 : 9));
    emit_copy(p, from, d[0]);
    emit_copy(p, scales, sum_of(w, at, address(w, MM_SPREAD)));
    emit_alu(p, AIE_BASIC_ADD, d[1], sum_of(w, w->q->base, PAIR - q->offset), at);
    emit_alu(p, AIE_BASIC_ADD, d[1], d[1], shifted(w, second, LATER));
    emit_alu(p, AIE_BASIC_SUB, d[2], d[1], shifted(w, second, 6));
    emit_copy(p, to[0], d[2]);
    emit_copy(p, to[1], sum_of(w, d[2], BLOCK / 2));
    emit_set(p, q->number, bits);
    asm_loop_begin(p, q->number);
    narrow_trip(w, &n, bits, from, scales, to);
    asm_loop_end(p);
    emit_add_small(p, i, i, 1);
    emit_add_small(p, q->number, i, -2 * GROUPS);
    asm_jump_if_nonzero(p, q->number, group);
    end(w);
}

// ---- all of it ----

void quant_spread(struct quant * q) {
    struct asm_program * p = q->p;
    spread_scales(q);
    align(q);
    if (q->unit == 8) { // those of 4 bits go another way (quant-fused.c)
        wide_numbers(q);
        return;
    }
    int eight = asm_label_new(p), done = asm_label_new(p);
    struct writer w = {.q = q, .p = p};
    read_param(&w, q->number, MM_PARAM_BITS, q->pointers[0]);
    emit_add_small(p, q->number, q->number, -4);
    asm_jump_if_nonzero(p, q->number, eight);
    narrow_numbers(q, 4);
    asm_jump(p, done);
    asm_label(p, eight);
    narrow_numbers(q, 8);
    asm_label(p, done);
}
