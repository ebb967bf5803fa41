// quant: see the header. All loops walk through memory in vectors of 64 bytes: of 8 rows where a
// unit has 8 bytes, of 16 where it has 4.
#include "quant.h"

#include "aie/target/verbs.h"

enum { MEM_PARAMS, MEM_BLOCKS, MEM_SCALES, MEM_SPREAD, MEM_OUT, MEM_ALIGNED };

// Shuffles by their number; the next one is the other half of the result, or the odd elements.
enum {
    EVEN_8 = 0, // the even elements of two vectors
    EVEN_16 = 2,
    EVEN_32 = 4,
    ZIP_64 = 14, // elements of two vectors in turn
    ZIP_32 = 16,
    ZIP_16 = 18,
    ZIP_8 = 20,
};

enum { MOST_TAKEN = 24 };

// A section's registers are taken before its first instruction, so what they are to hold is noted.
struct writer {
    const struct quant * q;
    struct asm_program * p;
    struct taken {
        struct asm_reg r;
        bool is_set;
        int32_t value;
        int width; // of the lanes that it is for; -1: a scalar
    } taken[MOST_TAKEN];
    int n_taken;
    struct asm_reg raw; // R: where the slice's blocks are
};

static int32_t address(const struct writer * w, int32_t at) {
    return (int32_t) asm_target(w->p)->own_window + at;
}

static struct asm_reg take(struct writer * w, enum asm_class cls) {
    struct asm_reg r = asm_global(w->p, cls);
    w->taken[w->n_taken++] = (struct taken){.r = r};
    return r;
}

static struct asm_reg take_set(struct writer * w, enum asm_class cls, int32_t value) {
    struct asm_reg r = asm_global(w->p, cls);
    w->taken[w->n_taken++] = (struct taken){r, true, value, -1};
    return r;
}

static struct asm_reg take_splat(struct writer * w, enum lane_width width, int32_t value) {
    struct asm_reg r = asm_global(w->p, ASM_X);
    w->taken[w->n_taken++] = (struct taken){r, true, value, width};
    return r;
}

static void end(struct writer * w) {
    while (w->n_taken > 0) {
        asm_release(w->p, w->taken[--w->n_taken].r);
    }
    asm_section(w->p);
}

static struct asm_reg sum_of(struct writer * w, struct asm_reg a, int32_t b) {
    struct asm_reg n = asm_local(w->p, ASM_R), d = asm_local(w->p, ASM_R);
    emit_set(w->p, n, b);
    emit_alu(w->p, AIE_BASIC_ADD, d, a, n);
    return d;
}

static struct asm_reg shifted(struct writer * w, struct asm_reg a, int bits) {
    struct asm_reg n = asm_local(w->p, ASM_R), d = asm_local(w->p, ASM_R);
    emit_set(w->p, n, bits);
    emit_alu(w->p, AIE_BASIC_SHIFT, d, a, n);
    return d;
}

static struct writer begin(struct quant * q) {
    asm_section(q->p);
    struct writer w = {.q = q, .p = q->p};
    w.raw = take(&w, ASM_R);
    return w;
}

// All registers are taken. The blocks are ping or pong, as the bf16 slice is.
static void ready(struct writer * w) {
    struct asm_program * p = w->p;
    for (int i = 0; i < w->n_taken; i++) {
        const struct taken * t = &w->taken[i];
        if (t->is_set && t->width >= 0) {
            struct asm_reg r = asm_local(p, ASM_R);
            emit_set(p, r, t->value);
            emit_splat(p, t->width, t->r, r);
        } else if (t->is_set) {
            emit_set(p, t->r, t->value);
        }
    }
    struct asm_reg bit = asm_local(p, ASM_R), pong = asm_local(p, ASM_R);
    emit_set(p, bit, MM_XY_OTHER);
    emit_alu(p, AIE_BASIC_AND, pong, w->q->base, bit);
    emit_copy(p, w->raw, sum_of(w, shifted(w, pong, 1), address(w, MM_BLOCKS)));
}

static struct asm_reg shuffled(struct writer * w, struct asm_reg a, struct asm_reg b,
                               struct asm_reg pattern) {
    struct asm_reg d = asm_local(w->p, ASM_X);
    emit_shuffle(w->p, d, a, b, pattern);
    return d;
}

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
    emit_copy(p, from, w->raw);
    for (int b = 0; b < 2; b++) {
        for (int i = 0; i < 2; i++) {
            emit_store_next(p, MEM_SCALES, scales_of(w, from, words, half[b]), to);
        }
        if (b == 0) {
            struct asm_reg second = asm_local(p, ASM_R);
            emit_alu(p, AIE_BASIC_ADD, second, w->raw, second_scale(w));
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
    struct asm_reg trips = take(w, ASM_R), first = take(w, ASM_MASK);
    struct asm_reg down = take_set(w, ASM_R, q->unit - 2);
    struct asm_reg up = take_set(w, ASM_R, QUANT_VECTOR - 2);
    ready(w);
    emit_set(p, first, q->unit == 8 ? 0x11111111 : 0x55555555); // 16-bit lanes that begin a unit
    emit_copy(p, trips, shifted(w, q->number, 2));
    emit_copy(p, before, w->raw);
    emit_copy(p, to, w->raw);
    emit_copy(p, unit, sum_of(w, w->raw, pitch(w)));
    asm_loop_begin(p, trips);
    struct asm_reg v[2], moved[2], d = asm_local(p, ASM_X);
    for (int i = 0; i < 2; i++) {
        v[i] = asm_local(p, ASM_X);
        moved[i] = asm_local(p, ASM_X);
        emit_load_next(p, MEM_BLOCKS, v[i], i ? unit : before);
        emit_shift_bytes(p, moved[i], v[i], v[i], i ? up : down);
    }
    emit_select(p, LANE_16, d, moved[1], moved[0], first);
    emit_store_next(p, MEM_ALIGNED, d, to);
    asm_loop_end(p);
    end(w);
}

// ---- numbers ----

// bf16, of what is 0x4300 | q or the like: what that is too much.
enum { MINUS_136 = 0xc308, MINUS_192 = 0xc340 };

struct numbers {
    struct asm_reg offset, zero, low, config; // of emit_scale
    struct asm_reg even, odd, zip[2], zip_64[2], pair[2];
    struct asm_reg top, seven, sign, sign_of; // vectors
};

static void take_numbers(struct writer * w, struct numbers * n, int bits, int halves) {
    struct asm_program * p = w->p;
    bool wide = w->q->unit == 8;
    n->offset = take_splat(w, LANE_16, bits == 4 ? MINUS_136 : MINUS_192);
    n->config = take_set(w, ASM_R, (int32_t) asm_target(p)->mul_config);
    n->top = take_splat(w, LANE_8, 0x43);
    if (wide) {
        n->zero = take_splat(w, LANE_32, 0);
        n->low = take_set(w, ASM_MASK, 0xffff);
    }
    for (int i = 0; i < halves; i++) {
        n->zip[i] = take_set(w, ASM_MASK, ZIP_8 + i);
        if (wide) {
            n->zip_64[i] = take_set(w, ASM_R, ZIP_64 + i);
        } else {
            n->pair[i] = take_set(w, ASM_MASK, EVEN_32 + i);
        }
    }
    if (bits == 4) {
        n->even = take_set(w, ASM_MASK, EVEN_8);
        n->odd = take_set(w, ASM_MASK, EVEN_8 + 1);
    } else {
        n->seven = take_splat(w, LANE_16, 0x437f);
        n->sign = take_splat(w, LANE_16, 0x8000);
        n->sign_of = take_splat(w, LANE_16, 0x4280);
    }
}

// 32 lanes of numbers of 8 bits: 128 and the lower seven, 64 with the sign. Returns how many terms.
static int terms_of(struct writer * w, const struct numbers * n, int bits, struct asm_reg bytes,
                    int half, struct asm_reg out[2]) {
    struct asm_program * p = w->p;
    out[0] = shuffled(w, bytes, n->top, n->zip[half]);
    if (bits == 4) {
        return 1;
    }
    struct asm_reg low = asm_local(p, ASM_X), sign = asm_local(p, ASM_X);
    struct asm_reg twice = shuffled(w, bytes, bytes, n->zip[half]);
    emit_lanes(p, LANE_AND, LANE_16, low, out[0], n->seven);
    emit_lanes(p, LANE_AND, LANE_16, sign, twice, n->sign);
    out[0] = low;
    out[1] = asm_local(p, ASM_X);
    emit_lanes(p, LANE_OR, LANE_16, out[1], sign, n->sign_of);
    return 2;
}

// ---- units of 8 bytes: a row's part of a k-block, or of two ----

// A trip takes 8 rows of all units of a block, or 4 where constants leave few registers: 4 rows
// come as half a vector.
static void wide_trip(struct writer * w, const struct numbers * n, int bits, struct asm_reg from,
                      struct asm_reg scales, const struct asm_reg to[4]) {
    struct asm_program * p = w->p;
    int halves = bits == 4 ? 2 : 1, units = bits / 2;
    struct emit_scale by[2];
    struct asm_reg s = asm_local(p, ASM_X);
    emit_load_next(p, MEM_SPREAD, halves == 2 ? s : asm_half(s, 0), scales);
    for (int i = 0; i < halves; i++) {
        emit_scale(p, &by[i], shuffled(w, s, s, n->zip_64[i]), n->offset, n->zero, n->low,
                   n->config);
    }
    for (int u = 0; u < units; u++) {
        struct asm_reg v = asm_local(p, ASM_X), part[2] = {v, v};
        int32_t at = (bits == 8 ? u - 2 : u) * pitch(w);
        emit_load(p, MEM_BLOCKS, halves == 2 ? v : asm_half(v, 0), from, at);
        if (bits == 4) {
            struct asm_reg split[2];
            for (int i = 0; i < 2; i++) {
                split[i] = asm_local(p, ASM_X);
                emit_nibbles(p, split[i], asm_half(v, i));
            }
            part[0] = shuffled(w, split[0], split[1], n->even);
            part[1] = shuffled(w, split[0], split[1], n->odd);
        }
        for (int k = 0; k < (bits == 4 ? 2 : 1); k++) { // k-blocks
            for (int i = 0; i < halves; i++) {
                struct asm_reg terms[2];
                int n_terms = terms_of(w, n, bits, part[k], i, terms);
                emit_scaled(p, MEM_OUT, &by[i], terms, n_terms, to[u + 2 * k], 64 * i, n->config);
            }
        }
    }
    emit_advance(p, from, 32 * halves);
    for (int i = 0; i < 4; i++) {
        emit_advance(p, to[i], 64 * halves);
    }
}

static void wide_numbers(struct quant * q, int bits) {
    enum { BLOCKS = 8, K_BLOCK = MM_TILE * 16 }; // k-blocks of a slice, bytes of one
    struct writer writer = begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct numbers n = {0};
    const struct asm_reg from = q->pointers[0], scales = q->pointers[1], *to = q->pointers + 2;
    struct asm_reg left = take(w, ASM_R), out = take(w, ASM_R), trips = take(w, ASM_R);
    int again = asm_label_new(p);
    take_numbers(w, &n, bits, bits == 4 ? 2 : 1);
    ready(w);
    if (bits == 4) {
        emit_nibbles_begin(p);
    }
    emit_set(p, left, 2);
    emit_set(p, scales, address(w, MM_PARAMS + 4 * MM_PARAM_ROWS));
    emit_load_scalar(p, MEM_PARAMS, LANE_32, A_REG(trips), scales, 0);
    if (bits == 8) {
        emit_alu(p, AIE_BASIC_ADD, trips, trips, trips);
    }
    emit_copy(p, out, sum_of(w, q->base, -q->offset));
    emit_set(p, scales, address(w, MM_SPREAD));
    asm_label(p, again);
    emit_copy(p, from, sum_of(w, w->raw, bits == 8 ? 2 * pitch(w) : 0));
    for (int i = 0; i < 4; i++) {
        emit_copy(p, to[i], out);
        emit_copy(p, out, sum_of(w, out, K_BLOCK));
    }
    asm_loop_begin(p, trips);
    wide_trip(w, &n, bits, from, scales, to);
    asm_loop_end(p);
    emit_copy(p, w->raw, sum_of(w, w->raw, (bits / 2 + 1) * pitch(w)));
    emit_set(p, scales, address(w, MM_SPREAD + MM_TILE * 8));
    emit_add_small(p, left, left, -1);
    asm_jump_if_nonzero(p, left, again);
    end(w);
}

// ---- units of 4 bytes: a row's part of two k-blocks, or of two pairs of them ----

enum { PAIR = MM_TILE * 4 }; // bytes of a k-block

// A trip takes 16 rows of one unit.
static void narrow_trip(struct writer * w, const struct numbers * n, int bits, struct asm_reg from,
                        struct asm_reg scales, const struct asm_reg to[2]) {
    struct asm_program * p = w->p;
    struct emit_scale by;
    struct asm_reg s = asm_local(p, ASM_X), v = asm_local(p, ASM_X), part[2] = {v, v};
    emit_load(p, MEM_SPREAD, s, scales, 0);
    emit_scale(p, &by, s, n->offset, n->zero, n->low, n->config);
    emit_load(p, MEM_BLOCKS, v, from, 0);
    if (bits == 4) {
        struct asm_reg split[2];
        for (int i = 0; i < 2; i++) {
            split[i] = asm_local(p, ASM_X);
            emit_nibbles(p, split[i], asm_half(v, i));
        }
        part[0] = shuffled(w, split[0], split[1], n->even);
        part[1] = shuffled(w, split[0], split[1], n->odd);
    }
    for (int k = 0; k < (bits == 4 ? 2 : 1); k++) {
        struct asm_reg rows[2][2], terms[2];
        int n_terms = 0;
        for (int i = 0; i < 2; i++) {
            n_terms = terms_of(w, n, bits, part[k], i, rows[i]);
        }
        for (int i = 0; i < 2; i++) {
            for (int t = 0; t < n_terms; t++) {
                terms[t] = shuffled(w, rows[0][t], rows[1][t], n->pair[i]);
            }
            emit_scaled(p, MEM_OUT, &by, terms, n_terms, to[k], (i - 1) * PAIR, n->config);
        }
        emit_advance(p, to[k], 2 * PAIR);
    }
    emit_advance(p, from, pitch(w));
}

static void add(struct writer * w, struct asm_reg r, int32_t n) {
    emit_copy(w->p, r, sum_of(w, r, n));
}

static void narrow_numbers(struct quant * q, int bits) {
    enum { GROUPS = MM_TILE * 4 / QUANT_VECTOR, BLOCK = 16 * PAIR };
    struct writer writer = begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct numbers n = {0};
    const struct asm_reg from = q->pointers[0], scales = q->pointers[1], *to = q->pointers + 2;
    struct asm_reg left = take(w, ASM_R), groups = take(w, ASM_R), out = take(w, ASM_R);
    struct asm_reg trips = take_set(w, ASM_R, bits), at = take_set(w, ASM_R, address(w, MM_SPREAD));
    int block = asm_label_new(p), group = asm_label_new(p);
    take_numbers(w, &n, bits, 2);
    ready(w);
    if (bits == 4) {
        emit_nibbles_begin(p);
    }
    emit_set(p, left, 2);
    emit_copy(p, out, sum_of(w, q->base, PAIR - q->offset));
    asm_label(p, block);
    emit_set(p, groups, GROUPS);
    asm_label(p, group);
    emit_copy(p, from, w->raw);
    emit_copy(p, scales, at);
    emit_copy(p, to[0], out);
    emit_copy(p, to[1], sum_of(w, out, BLOCK / 2));
    asm_loop_begin(p, trips);
    narrow_trip(w, &n, bits, from, scales, to);
    asm_loop_end(p);
    add(w, w->raw, QUANT_VECTOR);
    add(w, at, QUANT_VECTOR);
    add(w, out, QUANT_VECTOR);
    emit_add_small(p, groups, groups, -1);
    asm_jump_if_nonzero(p, groups, group);
    add(w, w->raw, bits * pitch(w));
    add(w, out, BLOCK - GROUPS * QUANT_VECTOR);
    emit_add_small(p, left, left, -1);
    asm_jump_if_nonzero(p, left, block);
    end(w);
}

// ---- all of it ----

void quant_spread(struct quant * q) {
    struct asm_program * p = q->p;
    int eight = asm_label_new(p), done = asm_label_new(p);
    void (*numbers)(struct quant *, int) = q->unit == 8 ? wide_numbers : narrow_numbers;
    spread_scales(q);
    align(q);
    emit_add_small(p, q->number, q->number, -4);
    asm_jump_if_nonzero(p, q->number, eight);
    numbers(q, 4);
    asm_jump(p, done);
    asm_label(p, eight);
    numbers(q, 8);
    asm_label(p, done);
}
