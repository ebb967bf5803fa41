// attention-unpack: keys and values of q8_0 and q4_0, made bf16 in a core. Blocks come as they are,
// by twos: 64 numbers are a chunk, d a scale in f16, n two numbers of 8 bits or four of 4 bits
// (whose lower halves are numbers of the first 16, the upper ones of the others):
//
//     words   0       1    ...  R - 1   R        R + 1 ...  2 R      R: 8, or 4
//             d0 | n  n n       n n     n | d1   n n        n n
//
// A chunk takes the room that its numbers will have as bf16, and lies at the end of it, so that it
// is read before it is written over. Of k, which the descriptor turns over, a word of all keys is a
// row, and a vector has it of 16 keys; of v a chunk is 128 bytes.
//
// First the scales are set apart and made bf16 all at once. Of k words 0 and R change halves for
// that: word 0 is both scales then, and words 1 to R the first block, but that its first numbers
// stand last and are put in their place afterwards. Then numbers are made out of their bits: 0x43
// above a byte below 128 is 128 more than that in bf16. A byte is its lower 7 bits less the upper
// one, a number of 4 bits is less 8. What is too much is taken away in the multiplier, whose sums
// are f32: nothing is rounded but the scale and the product.
#include "attention-program.h"

#include "aie/ops/mul-mat/quant.h"
#include "aie/verbs/verbs.h"

#include <assert.h>

enum { ZIP_128 = 12 }; // 16 bytes of two vectors in turn

enum { VECTOR = 64, HALF = 32, CHUNK = 128, SCALES = 8 }; // bytes; of a chunk of v, of its scales

enum { LOWER_7 = 0x7f, TOP = 0x43, MINUS_TOP = 0xc3, MINUS_136 = 0xc308 };
enum { UPPER_HALVES = (int) 0xaaaaaaaa, LOWER_LANES = 0xffff };

// ---- registers of a section: all are taken before its first instruction ----

enum { MOST_HELD = 16, A_SCALAR = -1, NOT_SET = -2 };

struct unpack {
    struct at_writer * w;
    struct asm_program * p;
    struct held {
        struct asm_reg r;
        int width; // of the lanes that it is for
        int32_t value;
    } held[MOST_HELD];
    int n_held;
};

static struct asm_reg hold(struct unpack * u, enum asm_class cls, int width, int32_t value) {
    struct asm_reg r = asm_global(u->p, cls);
    assert(u->n_held < MOST_HELD);
    u->held[u->n_held++] = (struct held){r, width, value};
    return r;
}

static struct asm_reg hold_set(struct unpack * u, enum asm_class cls, int32_t value) {
    return hold(u, cls, A_SCALAR, value);
}

static struct asm_reg hold_splat(struct unpack * u, int width, int32_t value) {
    return hold(u, ASM_X, width, value);
}

static struct unpack unpack_begin(struct at_writer * w) {
    asm_section(w->p);
    return (struct unpack){.w = w, .p = w->p};
}

static void ready(struct unpack * u) {
    for (int i = 0; i < u->n_held; i++) {
        const struct held * h = &u->held[i];
        if (h->width == A_SCALAR) {
            emit_set(u->p, h->r, h->value);
        } else if (h->width != NOT_SET) {
            struct asm_reg r = asm_local(u->p, ASM_R);
            emit_set(u->p, r, h->value);
            emit_splat(u->p, h->width, h->r, r);
        }
    }
}

static void unpack_end(struct unpack * u) {
    while (u->n_held > 0) {
        asm_release(u->p, u->held[--u->n_held].r);
    }
    asm_section(u->p);
}

static struct asm_reg shuffled(struct unpack * u, struct asm_reg a, struct asm_reg b,
                               struct asm_reg pattern) {
    struct asm_reg d = asm_local(u->p, ASM_X);
    emit_shuffle(u->p, d, a, b, pattern);
    return d;
}

static struct asm_reg lanes(struct unpack * u, enum lane_op op, struct asm_reg a,
                            struct asm_reg b) {
    struct asm_reg d = asm_local(u->p, ASM_X);
    emit_lanes(u->p, op, LANE_8, d, a, b);
    return d;
}

static struct asm_reg loaded(struct unpack * u, struct asm_reg pointer, int32_t offset) {
    struct asm_reg d = asm_local(u->p, ASM_X);
    emit_load(u->p, MEM_K, d, pointer, offset);
    return d;
}

// A pointer to a sum.
static void point(struct at_writer * w, struct asm_reg pointer, struct asm_reg a,
                  struct asm_reg b) {
    struct asm_reg sum = asm_local(w->p, ASM_R);
    at_add(w, sum, a, b);
    at_copy(w, pointer, sum);
}

static void point_behind(struct at_writer * w, struct asm_reg pointer, struct asm_reg a,
                         int param) {
    point(w, pointer, a, at_local_param(w, param));
}

static void scales_to_bf16(struct at_writer * w, int trips_param) {
    at_param(w, w->n, trips_param);
    at_set(w, w->a, at_address(w, AT_SCALES_AT));
    at_call(w, w->convert);
}

// ---- numbers ----

struct bytes { // of 8 bits
    struct asm_reg lower, top[2], zero, low, zip;
};

struct nibbles { // of 4
    struct asm_reg top, offset, zero, low, zip, even, odd;
};

static struct bytes hold_bytes(struct unpack * u) {
    return (struct bytes){.lower = hold_splat(u, LANE_8, LOWER_7),
                          .top = {hold_splat(u, LANE_8, TOP), hold_splat(u, LANE_8, MINUS_TOP)},
                          .zero = hold_splat(u, LANE_32, 0),
                          .low = hold_set(u, ASM_MASK, LOWER_LANES),
                          .zip = hold_set(u, ASM_MASK, ZIP_8)};
}

static struct nibbles hold_nibbles(struct unpack * u) {
    return (struct nibbles){.top = hold_splat(u, LANE_8, TOP),
                            .offset = hold_splat(u, LANE_16, MINUS_136),
                            .zero = hold_splat(u, LANE_32, 0),
                            .low = hold_set(u, ASM_MASK, LOWER_LANES),
                            .zip = hold_set(u, ASM_MASK, ZIP_8),
                            .even = hold_set(u, ASM_MASK, EVEN_8),
                            .odd = hold_set(u, ASM_MASK, EVEN_8 + 1)};
}

// Bytes of a half of a vector, by the pattern that zips it, times their scales.
static void store_bytes(struct unpack * u, const struct bytes * b, struct asm_reg v,
                        struct asm_reg zip, const struct emit_scale * by, struct asm_reg to,
                        int32_t offset) {
    struct asm_reg part[2], terms[2];
    part[0] = lanes(u, LANE_AND, v, b->lower);
    part[1] = lanes(u, LANE_SUB, v, part[0]);
    for (int i = 0; i < 2; i++) {
        terms[i] = shuffled(u, part[i], b->top[i], zip);
    }
    emit_scaled(u->p, MEM_MADE, by, terms, 2, to, offset, u->w->lanes.mul_config);
}

static void store_nibbles(struct unpack * u, const struct nibbles * b, struct asm_reg v,
                          struct asm_reg zip, const struct emit_scale * by, struct asm_reg to,
                          int32_t offset) {
    struct asm_reg terms = shuffled(u, v, b->top, zip);
    emit_scaled(u->p, MEM_MADE, by, &terms, 1, to, offset, u->w->lanes.mul_config);
}

static void nibbles_scale(struct unpack * u, const struct nibbles * b, struct asm_reg scales,
                          struct emit_scale * by) {
    emit_scale(u->p, by, scales, b->offset, b->zero, b->low, u->w->lanes.mul_config);
}

// ---- keys ----

// Words 0 and R of all chunks and keys: scales to their place, numbers together.
static void gather_keys(struct at_writer * w) {
    struct unpack unpack = unpack_begin(w), *u = &unpack;
    struct asm_program * p = w->p;
    struct asm_reg upper = hold_set(u, ASM_MASK, UPPER_HALVES);
    int chunk = asm_label_new(p);
    ready(u);
    at_param(w, w->left, AT_PARAM_K_CHUNKS);
    at_param(w, w->a, AT_PARAM_K);
    at_add_param(w, w->a, AT_PARAM_K_RAW);
    at_set(w, w->n, at_address(w, AT_SCALES_AT));
    at_copy(w, w->at[3], w->n);
    asm_label(p, chunk);
    at_copy(w, w->at[0], w->a);
    for (int i = 1; i < 3; i++) {
        point_behind(w, w->at[i], w->a, AT_PARAM_K_SECOND);
    }
    at_param(w, w->n, AT_NOW_VECTORS);
    asm_loop_begin(p, w->n);
    asm_loop_alone(p);
    struct asm_reg v[2], scales = asm_local(p, ASM_X), numbers = asm_local(p, ASM_X);
    for (int i = 0; i < 2; i++) {
        v[i] = asm_local(p, ASM_X);
        emit_load_next(p, MEM_K, v[i], w->at[i]);
    }
    emit_select(p, LANE_16, scales, v[0], v[1], upper);
    emit_select(p, LANE_16, numbers, v[1], v[0], upper);
    emit_store_next(p, MEM_STATE, scales, w->at[3]);
    emit_store_next(p, MEM_MADE, numbers, w->at[2]);
    asm_loop_end(p);
    at_add_param(w, w->a, AT_PARAM_K_CHUNK);
    emit_add_small(p, w->left, w->left, -1);
    asm_jump_if_nonzero(p, w->left, chunk);
    unpack_end(u);
}

// Rows of a block, from w->c on, to those from w->d on. Two numbers of a key are a word then.
static void key_bytes(struct unpack * u, const struct bytes * b, struct asm_reg scales,
                      const struct asm_reg pick[2]) {
    struct at_writer * w = u->w;
    emit_set_small(w->p, w->n, 8);
    asm_loop_begin(w->p, w->n);
    struct emit_scale by = {0};
    at_copy(w, w->at[0], w->c);
    at_add(w, w->c, w->c, w->step);
    for (int i = 0; i < 2; i++) {
        at_copy(w, w->at[1 + i], w->d);
        at_add(w, w->d, w->d, w->step);
    }
    struct asm_reg v = loaded(u, w->at[0], 0);
    emit_scale_factors(u->p, &by, scales, b->zero, b->low);
    for (int i = 0; i < 2; i++) {
        store_bytes(u, b, shuffled(u, v, v, pick[i]), b->zip, &by, w->at[1 + i], 0);
    }
    asm_loop_end(w->p);
}

static void key_nibbles(struct unpack * u, const struct nibbles * b, struct asm_reg scales,
                        const struct asm_reg pick[2], struct asm_reg further) {
    struct at_writer * w = u->w;
    struct nibbles own = *b; // a register that the bytes' loop can have
    own.offset = asm_global(w->p, ASM_X);
    b = &own;
    at_set(w, w->n, MINUS_136);
    emit_splat(w->p, LANE_16, own.offset, w->n);
    emit_nibbles_begin(w->p);
    emit_set_small(w->p, w->n, 4);
    asm_loop_begin(w->p, w->n);
    struct emit_scale by = {0};
    at_copy(w, w->at[0], w->c);
    at_add(w, w->c, w->c, w->step);
    for (int i = 0; i < 2; i++) {
        at_copy(w, w->at[1 + i], w->d);
        point(w, w->at[3 + i], w->d, further);
        at_add(w, w->d, w->d, w->step);
    }
    struct asm_reg v = loaded(u, w->at[0], 0);
    nibbles_scale(u, b, scales, &by);
    for (int i = 0; i < 2; i++) {
        struct asm_reg n = asm_local(w->p, ASM_X), half = shuffled(u, v, v, pick[i]);
        emit_nibbles(w->p, n, asm_half(half, 0));
        store_nibbles(u, b, shuffled(u, n, n, b->even), b->zip, &by, w->at[1 + i], 0);
        store_nibbles(u, b, shuffled(u, n, n, b->odd), b->zip, &by, w->at[3 + i], 0);
    }
    asm_loop_end(w->p);
    asm_release(w->p, own.offset);
}

// A row of 16 keys from where it was made to where it belongs.
static void put_in_place(struct at_writer * w, int from_param, const struct asm_reg * further) {
    struct asm_reg x = asm_local(w->p, ASM_X);
    point_behind(w, w->at[0], w->a, from_param);
    if (further) {
        point(w, w->at[1], w->a, *further);
    } else {
        at_copy(w, w->at[1], w->a);
    }
    emit_load(w->p, MEM_MADE, x, w->at[0], 0);
    emit_store(w->p, MEM_MADE, x, w->at[1], 0);
    asm_label(w->p, asm_label_new(w->p));
}

// Chunk by chunk, 16 keys at a time, and of these both blocks: their base is w->a, their scales
// w->b.
static void make_keys(struct at_writer * w) {
    struct unpack unpack = unpack_begin(w), *u = &unpack;
    struct asm_program * p = w->p;
    struct asm_reg scales = hold(u, ASM_X, NOT_SET, 0), which = hold(u, ASM_R, NOT_SET, 0);
    struct asm_reg twice = hold_set(u, ASM_MASK, ZIP_16), further = hold(u, ASM_R, NOT_SET, 0);
    const struct asm_reg pick[2] = {hold_set(u, ASM_MASK, EVEN_16),
                                    hold_set(u, ASM_R, EVEN_16 + 1)};
    struct bytes b = hold_bytes(u);
    struct nibbles n = {.top = b.top[0],
                        .zero = b.zero,
                        .low = b.low,
                        .zip = b.zip,
                        .even = hold_set(u, ASM_MASK, EVEN_8),
                        .odd = hold_set(u, ASM_MASK, EVEN_8 + 1)};
    int chunk = asm_label_new(p), vector = asm_label_new(p), block = asm_label_new(p);
    int four = asm_label_new(p), made = asm_label_new(p), done = asm_label_new(p);
    ready(u);
    at_set(w, w->b, at_address(w, AT_SCALES_AT));
    at_param(w, w->a, AT_PARAM_K);
    at_param(w, w->step, AT_PARAM_K_STEP);
    at_add(w, further, w->step, w->step); // eight rows
    at_add(w, further, further, further);
    at_add(w, further, further, further);
    at_keep(w, AT_NOW_CHUNKS, at_local_param(w, AT_PARAM_K_CHUNKS));
    asm_label(p, chunk);
    at_keep(w, AT_NOW_ROW, w->a);
    at_param(w, w->left, AT_NOW_VECTORS);
    asm_label(p, vector);
    at_add(w, w->c, w->a, w->step);
    at_add_param(w, w->c, AT_PARAM_K_RAW);
    at_add(w, w->d, w->a, w->step);
    emit_set_small(p, which, EVEN_16);
    asm_label(p, block);
    at_copy(w, w->at[0], w->b);
    struct asm_reg both = asm_local(p, ASM_X);
    emit_load(p, MEM_STATE, both, w->at[0], 0);
    struct asm_reg own = shuffled(u, both, both, which);
    emit_shuffle(p, scales, own, own, twice);
    at_param(w, w->n, AT_PARAM_K_BITS);
    emit_add_small(p, w->n, w->n, -4);
    asm_jump_if_zero(p, w->n, four);
    key_bytes(u, &b, scales, pick);
    asm_jump(p, made);
    asm_label(p, four);
    key_nibbles(u, &n, scales, pick, further);
    asm_label(p, made);
    emit_add_small(p, w->n, which, -EVEN_16 - 1);
    asm_jump_if_zero(p, w->n, done);
    put_in_place(w, AT_PARAM_K_FIRST, NULL);
    put_in_place(w, AT_PARAM_K_NINTH, &further);
    emit_set_small(p, which, EVEN_16 + 1);
    at_add(w, w->d, w->a, further);
    at_add(w, w->d, w->d, further);
    asm_jump(p, block);
    asm_label(p, done);
    struct asm_reg next = asm_local(p, ASM_R);
    emit_set_small(p, next, VECTOR);
    at_add(w, w->a, w->a, next);
    at_add(w, w->b, w->b, next);
    emit_add_small(p, w->left, w->left, -1);
    asm_jump_if_nonzero(p, w->left, vector);
    at_param(w, w->a, AT_NOW_ROW);
    at_param(w, w->n, AT_NOW_CHUNKS);
    at_add_param(w, w->a, AT_PARAM_K_CHUNK);
    emit_add_small(p, w->n, w->n, -1);
    at_keep(w, AT_NOW_CHUNKS, w->n);
    asm_jump_if_nonzero(p, w->n, chunk);
    unpack_end(u);
}

void at_unpack_keys(struct at_writer * w) {
    int none = asm_label_new(w->p);
    at_param(w, w->n, AT_PARAM_K_BITS);
    asm_jump_if_zero(w->p, w->n, none);
    gather_keys(w);
    scales_to_bf16(w, AT_PARAM_K_SCALES);
    make_keys(w);
    asm_label(w->p, none);
}

// ---- values ----

// The words that have scales, as they are: two of a chunk.
static void gather_values(struct at_writer * w) {
    struct asm_program * p = w->p;
    struct asm_reg from[2];
    at_param(w, w->a, AT_PARAM_V);
    at_add_param(w, w->a, AT_PARAM_V_RAW);
    at_copy(w, w->at[0], w->a);
    point_behind(w, w->at[1], w->a, AT_PARAM_V_SECOND);
    at_set(w, w->b, at_address(w, AT_SCALES_AT));
    at_copy(w, w->at[2], w->b);
    at_param(w, w->n, AT_PARAM_V_CHUNKS);
    asm_loop_begin(p, w->n);
    for (int i = 0; i < 2; i++) {
        from[i] = asm_local(p, ASM_R);
        emit_load_word(p, MEM_V, from[i], w->at[i], 0);
        emit_advance(p, w->at[i], CHUNK);
        emit_store_word(p, MEM_STATE, from[i], w->at[2], 4 * i);
    }
    emit_advance(p, w->at[2], SCALES);
    asm_loop_end(p);
}

static void values_begin(struct at_writer * w) {
    at_param(w, w->a, AT_PARAM_V);
    at_copy(w, w->at[0], w->a);
    at_copy(w, w->at[1], w->a);
    at_set(w, w->b, at_address(w, AT_SCALES_AT) + SCALES / 2); // offsets reach both
    at_copy(w, w->at[2], w->b);
    at_param(w, w->n, AT_PARAM_V_CHUNKS);
    asm_loop_begin(w->p, w->n);
}

static void values_end(struct at_writer * w) {
    emit_advance(w->p, w->at[0], CHUNK);
    emit_advance(w->p, w->at[1], CHUNK);
    emit_advance(w->p, w->at[2], SCALES);
    asm_loop_end(w->p);
}

// A block's scale in all lanes: of the first word's lower half, of the second's upper one.
static struct asm_reg value_scale(struct unpack * u, int block) {
    struct asm_reg r = asm_local(u->p, ASM_R), x = asm_local(u->p, ASM_X);
    emit_load_scalar(u->p, MEM_STATE, LANE_16, A_REG(r), u->w->at[2], block ? 2 : -4);
    emit_splat(u->p, LANE_16, x, r);
    return x;
}

static void value_bytes(struct at_writer * w) {
    enum { FIRST = 62 }; // byte of the chunk's room
    struct unpack unpack = unpack_begin(w), *u = &unpack;
    struct bytes b = hold_bytes(u);
    struct asm_reg first = hold_set(u, ASM_MASK, FIRST), upper = hold_set(u, ASM_R, ZIP_8 + 1);
    ready(u);
    values_begin(w);
    struct asm_reg v[2], numbers = asm_local(w->p, ASM_X);
    for (int i = 0; i < 2; i++) {
        v[i] = loaded(u, w->at[0], i * VECTOR);
    }
    emit_shift_bytes(w->p, numbers, v[0], v[1], first);
    for (int i = 0; i < 2; i++) {
        struct emit_scale by = {0};
        emit_scale_factors(u->p, &by, value_scale(u, i), b.zero, b.low);
        store_bytes(u, &b, i ? v[1] : numbers, i ? upper : b.zip, &by, w->at[1], i * VECTOR);
    }
    values_end(w);
    unpack_end(u);
}

static void value_nibbles(struct at_writer * w) {
    enum { FIRST = 30 }; // byte of the upper half of the chunk's room
    struct unpack unpack = unpack_begin(w), *u = &unpack;
    struct nibbles b = hold_nibbles(u);
    struct asm_reg first = hold_set(u, ASM_MASK, FIRST), upper = hold_set(u, ASM_R, ZIP_8 + 1);
    struct asm_reg zip[2] = {hold_set(u, ASM_MASK, ZIP_128), hold_set(u, ASM_R, ZIP_128 + 1)};
    ready(u);
    emit_nibbles_begin(w->p);
    values_begin(w);
    struct asm_reg v = loaded(u, w->at[0], VECTOR), numbers = asm_local(w->p, ASM_X), n[2];
    emit_shift_bytes(w->p, numbers, v, v, first);
    for (int i = 0; i < 2; i++) {
        n[i] = asm_local(w->p, ASM_X);
        emit_nibbles(w->p, n[i], asm_half(i ? v : numbers, i));
    }
    // Each has a block's numbers at its outer end.
    struct asm_reg even = shuffled(u, n[0], n[1], b.even), odd = shuffled(u, n[0], n[1], b.odd);
    for (int i = 0; i < 2; i++) {
        struct emit_scale by = {0};
        nibbles_scale(u, &b, value_scale(u, i), &by);
        store_nibbles(u, &b, shuffled(u, even, odd, zip[i]), i ? upper : b.zip, &by, w->at[1],
                      i * VECTOR);
    }
    values_end(w);
    unpack_end(u);
}

void at_unpack_values(struct at_writer * w) {
    int none = asm_label_new(w->p), four = asm_label_new(w->p);
    at_param(w, w->n, AT_PARAM_V_BITS);
    asm_jump_if_zero(w->p, w->n, none);
    gather_values(w);
    scales_to_bf16(w, AT_PARAM_V_SCALES);
    at_param(w, w->n, AT_PARAM_V_BITS);
    emit_add_small(w->p, w->n, w->n, -4);
    asm_jump_if_zero(w->p, w->n, four);
    value_bytes(w);
    asm_jump(w->p, none);
    asm_label(w->p, four);
    value_nibbles(w);
    asm_label(w->p, none);
}
