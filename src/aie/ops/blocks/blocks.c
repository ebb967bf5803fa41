// blocks: see the header. What all types go through, and which functions are a type's own.
#include "blocks.h"

#include "aie/ops/mul-mat/quant-writer.h"

enum {
    WORD = MM_TILE * 4,  // bytes from word to word
    PLANE = MM_TILE * 2, // a factor of each row
    VECTOR = QUANT_VECTOR,
};

// ---- f16 numbers ----

// Sets q->number to whether the block begins in the middle of a word, or is the second of a pair.
static void is_odd(struct writer * w, struct asm_reg pointer) {
    read_param(w, w->q->number, MM_PARAM_ODD, pointer);
    emit_alu(w->p, AIE_BASIC_AND, w->q->number, w->q->number, w->q->left);
}

// Words that begin with the upper half of one and end with the lower half of the next.
static void align(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_reg unit = q->pointers[0], next = q->pointers[1], to = q->pointers[2];
    struct asm_reg last = take_set(w, ASM_MASK, (int32_t) 0xaaaaaaaa); // lanes that end a word
    struct asm_reg down = take_set(w, ASM_MASK, 2), up = take_set(w, ASM_MASK, VECTOR - 2);
    struct asm_reg trips = take(w, ASM_R);
    quant_ready(w);
    read_param(w, trips, MM_PARAM_ALIGN, to);
    find_block(w, unit);
    emit_copy(w->p, unit, q->number);
    emit_copy(w->p, to, q->number);
    emit_copy(w->p, next, sum_of(w, q->number, WORD));
    move_units(w, trips, (struct asm_reg[]){unit, next}, (struct asm_reg[]){down, up}, to, last, 1);
    quant_end(w);
}

// A place is a number of bytes, of whole words. Its lowest bit says which half of the word is
// meant.
static void gather(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg from = q->pointers[0], to = q->pointers[1], places = q->pointers[2];
    struct asm_reg left = take(w, ASM_R), pick = take(w, ASM_MASK), more = take(w, ASM_R);
    int again = asm_label_new(p), even = asm_label_new(p);
    quant_ready(w);
    emit_set(p, more, 0);
    is_odd(w, from);
    asm_jump_if_zero(p, q->number, even);
    read_param(w, more, MM_PARAM_ODD_BY, to);
    asm_label(p, even);
    read_param(w, left, MM_PARAM_N_HALVES, places);
    read_param(w, q->number, MM_PARAM_D_AT, to);
    emit_copy(p, to, sum_of(w, q->number, address(w, 0)));
    find_block(w, from);
    emit_set(p, places, address(w, MM_PARAMS + 4 * MM_PARAM_HALVES));
    asm_label(p, again);
    struct asm_reg place = asm_local(p, ASM_R), at = asm_local(p, ASM_R);
    emit_load_word_next(p, MEM_PARAMS, place, places);
    emit_alu(p, AIE_BASIC_ADD, place, place, more);
    emit_copy(p, pick, sum_of(w, masked(w, place, 1), EVEN_16));
    emit_alu(p, AIE_BASIC_ADD, at, q->number, masked(w, place, ~1));
    emit_copy(p, from, at);
    for (int rows = 0; rows < 2; rows++) {
        struct asm_reg v[2];
        for (int i = 0; i < 2; i++) {
            v[i] = asm_local(p, ASM_X);
            emit_load_next(p, MEM_BLOCKS, v[i], from);
        }
        emit_store_next(p, MEM_SCALES, shuffled(w, v[0], v[1], pick), to);
    }
    emit_add_small(p, left, left, -1);
    asm_jump_if_nonzero(p, left, again);
    quant_end(w);
}

void blocks_gather(struct quant * q) {
    struct asm_program * p = q->p;
    struct writer w = {.q = q, .p = p};
    int aligned = asm_label_new(p);
    gather(q);
    is_odd(&w, q->pointers[0]);
    asm_jump_if_zero(p, q->number, aligned);
    read_param(&w, q->number, MM_PARAM_ALIGN, q->pointers[0]);
    asm_jump_if_zero(p, q->number, aligned);
    align(q);
    asm_label(p, aligned);
}

// ---- a slice ----

// Writes each factor twice, for code that makes numbers of two k at a time.
static void spread(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg from = q->pointers[0], to = q->pointers[1], zip[2];
    for (int i = 0; i < 2; i++) {
        zip[i] = take_set(w, ASM_MASK, ZIP_16 + i);
    }
    quant_ready(w);
    read_param(w, q->number, MM_PARAM_FACTORS, from);
    emit_set(p, from, address(w, MM_LONG_TABLE));
    emit_set(p, to, address(w, MM_LONG_SPREAD));
    asm_loop_begin(p, q->number);
    struct asm_reg s = asm_local(p, ASM_X);
    emit_load_next(p, MEM_TABLE, s, from);
    for (int i = 0; i < 2; i++) {
        emit_store_next(p, MEM_SPREAD, shuffled(w, s, s, zip[i]), to);
    }
    asm_loop_end(p);
    quant_end(w);
}

struct blocks_pair blocks_take_pair(struct writer * w) {
    return (struct blocks_pair){take(w, ASM_MASK), take(w, ASM_X), take(w, ASM_X)};
}

void blocks_find_pair(struct writer * w, const struct blocks_pair * f, struct asm_reg slice) {
    struct asm_program * p = w->p;
    struct asm_reg both = asm_local(p, ASM_R), below = asm_local(p, ASM_R);
    struct asm_reg here = shifted(w, masked(w, slice, 1), 2);
    emit_alu(p, AIE_BASIC_ADD, both, here, shifted(w, here, 1)); // 12 or 0
    emit_set(p, below, 12);
    emit_alu(p, AIE_BASIC_SUB, below, below, both);
    emit_splat(p, LANE_8, f->here, both);
    emit_splat(p, LANE_8, f->low, below);
    emit_copy(p, f->pick, sum_of(w, shifted(w, slice, -1), EVEN_8));
}

struct asm_reg blocks_pair_of(struct writer * w, const struct blocks_pair * f,
                              struct asm_reg bytes) {
    struct asm_program * p = w->p;
    struct asm_reg n[2], d[4];
    for (int i = 0; i < 2; i++) {
        n[i] = asm_local(p, ASM_X);
        emit_nibbles(p, n[i], asm_half(bytes, i));
    }
    struct asm_reg half = shuffled(w, n[0], n[1], f->pick), up = half;
    for (int i = 0; i < 4; i++) {
        d[i] = asm_local(p, ASM_X);
    }
    for (int i = 0; i < 2; i++) {
        emit_lanes(p, LANE_ADD, LANE_8, d[i], up, up);
        up = d[i];
    }
    emit_lanes(p, LANE_AND, LANE_8, d[2], up, f->low);
    emit_lanes(p, LANE_AND, LANE_8, d[3], half, f->here);
    struct asm_reg sum = asm_local(p, ASM_X);
    emit_lanes(p, LANE_ADD, LANE_8, sum, d[2], d[3]);
    return sum;
}

typedef void slice_fn(struct quant * q);

// Bytes of numbers, and of scales; NULL: these are f16.
#define blocks_scales_f16 NULL
static const struct {
    slice_fn *bytes, *scales;
} types[KERNEL_BLOCKS] = {
#define PLANES(id, numbers, scales) [KERNEL_##id] = {blocks_##numbers, blocks_scales_##scales},
#include "kernel/blocks.def"
};

// From bytes and factors to bf16.
static void to_bf16(struct quant * q, bool eight) {
    if (q->apart) {
        quant_apart_long(q, eight);
    } else if (q->rows) {
        blocks_rows(q, eight);
    } else {
        quant_long_to_bf16(q, eight);
    }
}

// Writes the code of each step once, with the types that use it. Bytes up to 255 become bf16 in a
// way of their own and end the slice.
static void each_once(struct quant * q, slice_fn * (*of)(int kind), const int * end) {
    struct asm_program * p = q->p;
    struct writer w = {.q = q, .p = p};
    int labels[KERNEL_BLOCKS], done = asm_label_new(p), before = 0;
    read_param(&w, q->number, MM_PARAM_BITS, q->pointers[0]);
    for (int kind = 0; kind < KERNEL_BLOCKS; kind++) {
        if (of(kind)) {
            labels[kind] = asm_label_new(p);
            emit_add_small(p, q->number, q->number, before - kind);
            asm_jump_if_zero(p, q->number, labels[kind]);
            before = kind;
        }
    }
    asm_jump(p, done);
    for (int kind = 0; kind < KERNEL_BLOCKS; kind++) {
        bool first = of(kind) != NULL;
        for (int i = 0; i < kind; i++) {
            first &= of(i) != of(kind);
        }
        for (int i = kind; i < KERNEL_BLOCKS && first; i++) {
            if (of(i) == of(kind)) {
                asm_label(p, labels[i]);
            }
        }
        if (first) {
            bool eight = end && kernel_block((enum kernel_blocks) kind)->eight;
            of(kind)(q);
            if (eight) {
                to_bf16(q, true);
            }
            asm_jump(p, eight ? *end : done);
        }
    }
    asm_label(p, done);
}

static slice_fn * bytes_of(int kind) {
    return types[kind].bytes;
}

static slice_fn * scales_of(int kind) {
    return types[kind].scales;
}

void blocks_slice(struct quant * q) {
    struct writer w = {.q = q, .p = q->p};
    int are_f16 = asm_label_new(q->p), end = asm_label_new(q->p);
    read_param(&w, q->number, MM_PARAM_SCALES_TOP, q->pointers[0]);
    asm_jump_if_zero(q->p, q->number, are_f16);
    each_once(q, scales_of, NULL);
    blocks_factors(q);
    asm_label(q->p, are_f16);
    if (q->rows) {
        blocks_rows_spread(q);
    } else if (!q->apart) {
        spread(q);
    }
    each_once(q, bytes_of, &end);
    to_bf16(q, false);
    asm_label(q->p, end);
}
