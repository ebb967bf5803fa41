// aie2-rows: bytes and planes of factors to bf16 as aie2's multiplier takes a slice, [8 k][64
// rows][8] (blocks.h). The multiplier adds up two products of a lane, one from each half of its
// operands, so that -128 s - one m is one of its instructions, with s and m side by side.
#include "blocks.h"

#include "aie/ops/mul-mat/quant-writer.h"

enum {
    WORD = MM_TILE * 4, // bytes from word to word
    VECTOR = QUANT_VECTOR,
    GROUP = 4 * WORD,       // bytes of 16 numbers
    K_BLOCK = MM_TILE * 16, // of 8 k in bf16
    GROUPS = 4,
    TOP = 0x43,
    MINUS_128 = 0xc300,
    ZIP_256 = 10, // shuffles
    ZIP_32 = 16,
};

struct constants {
    struct asm_reg rest, zero, top, config, low;
    struct asm_reg upper; // bit of a byte: a scalar, vectors are few
    struct asm_reg zip_8[2], zip_32, zip_64[2], zip_256[2];
};

static struct constants take_constants(struct writer * w, bool eight) {
    struct constants c = {.rest = take(w, ASM_X),
                          .zero = take_splat(w, LANE_32, 0),
                          .top = take_splat(w, LANE_8, TOP),
                          .config = take_set(w, ASM_R, (int32_t) asm_target(w->p)->mul_config),
                          .low = take_set(w, ASM_MASK, 0xffff)};
    c.zip_32 = take_set(w, ASM_MASK, ZIP_32);
    if (eight) {
        c.upper = take_set(w, ASM_R, 0x80);
    }
    for (int i = 0; i < 2; i++) {
        c.zip_8[i] = take_set(w, ASM_MASK, ZIP_8 + i);
        c.zip_64[i] = take_set(w, ASM_MASK, ZIP_64 + i);
        c.zip_256[i] = take_set(w, ASM_R, ZIP_256 + i);
    }
    return c;
}

// The parts of a byte: its lower seven bits, its upper one.
static void parts_of(struct writer * w, const struct constants * c, struct asm_reg bytes,
                     struct asm_reg parts[2]) {
    struct asm_reg upper = asm_local(w->p, ASM_X);
    for (int i = 0; i < 2; i++) {
        parts[i] = asm_local(w->p, ASM_X);
    }
    emit_splat(w->p, LANE_8, upper, c->upper);
    emit_lanes(w->p, LANE_AND, LANE_8, parts[1], bytes, upper);
    emit_lanes(w->p, LANE_SUB, LANE_8, parts[0], bytes, parts[1]);
}

// 8 rows of 16 numbers: two k-blocks, four words.
static void trip(struct writer * w, const struct constants * c, bool eight, struct asm_reg from,
                 const struct asm_reg factors[2], const struct asm_reg to[2]) {
    struct asm_program * p = w->p;
    struct asm_reg four[2], bytes[2];
    for (int i = 0; i < 2; i++) {
        four[i] = asm_local(p, ASM_X);
        emit_load_next(p, MEM_SPREAD, four[i], factors[i]);
    }
    for (int k = 0; k < 2; k++) {
        struct asm_reg v[2];
        for (int i = 0; i < 2; i++) {
            v[i] = asm_local(p, ASM_X);
            emit_load(p, MEM_BYTES, asm_half(v[i], 0), from, (2 * k + i) * WORD);
        }
        bytes[k] = shuffled(w, v[0], v[1], c->zip_32);
    }
    for (int rows = 0; rows < 2; rows++) { // four of them
        struct emit_scale by = {0};
        struct asm_reg f[2];
        for (int i = 0; i < 2; i++) {
            f[i] = shuffled(w, four[i], four[i], c->zip_64[rows]);
        }
        emit_scale_factors(p, &by, f[0], c->zero, c->low);
        for (int half = 0; half < 2; half++) {
            by.rest[half] = asm_local(p, ASM_BM);
            emit_mul(p, by.rest[half], c->rest, shuffled(w, f[0], f[1], c->zip_256[half]),
                     c->config);
        }
        for (int k = 0; k < 2; k++) {
            struct asm_reg parts[2] = {bytes[k]}, numbers[2];
            if (eight) {
                parts_of(w, c, bytes[k], parts);
            }
            for (int i = 0; i <= eight; i++) {
                numbers[i] = shuffled(w, parts[i], c->top, c->zip_8[rows]);
            }
            for (int half = 0; half < 2; half++) {
                struct asm_reg sum[3] = {by.rest[half]};
                for (int i = 0; i <= eight; i++) {
                    sum[i + 1] = asm_local(p, ASM_BM);
                    emit_mac(p, sum[i + 1], sum[i], numbers[i], by.by[half], c->config);
                }
                emit_store_bf16(p, MEM_OUT, sum[1 + eight], to[k],
                                rows * VECTOR + half * VECTOR / 2);
            }
        }
    }
    emit_advance(p, from, VECTOR / 2);
    for (int k = 0; k < 2; k++) {
        emit_advance(p, to[k], 2 * VECTOR);
    }
}

// Each factor four times: scales, and minima if there are any.
void blocks_rows_spread(struct quant * q) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg from = q->pointers[0], to = q->pointers[1], left = take(w, ASM_R);
    struct asm_reg zip_16[2], zip_32[2];
    for (int i = 0; i < 2; i++) {
        zip_16[i] = take_set(w, ASM_MASK, ZIP_16 + i);
        zip_32[i] = take_set(w, ASM_MASK, ZIP_32 + i);
    }
    int again = asm_label_new(p), done = asm_label_new(p);
    quant_ready(w);
    emit_set(p, from, address(w, MM_LONG_TABLE));
    emit_set(p, to, address(w, MM_LONG_SPREAD));
    read_param(w, left, MM_PARAM_LESS, q->pointers[2]);
    asm_label(p, again);
    read_param(w, q->number, MM_PARAM_FACTORS, q->pointers[2]);
    asm_loop_begin(p, q->number);
    struct asm_reg f = asm_local(p, ASM_X);
    emit_load_next(p, MEM_TABLE, f, from);
    for (int i = 0; i < 4; i++) {
        struct asm_reg twice = shuffled(w, f, f, zip_16[i / 2]);
        emit_store_next(p, MEM_SPREAD, shuffled(w, twice, twice, zip_32[i % 2]), to);
    }
    asm_loop_end(p);
    asm_jump_if_zero(p, left, done);
    emit_set(p, left, 0);
    emit_set(p, to, address(w, MM_LONG_SPREAD + MM_XY_OTHER));
    asm_jump(p, again);
    asm_label(p, done);
    quant_end(w);
}

void blocks_rows(struct quant * q, bool eight) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg from = q->pointers[0], *factors = q->pointers + 1, *to = q->pointers + 3;
    struct asm_reg group = take_set(w, ASM_R, 0);
    struct constants c = take_constants(w, eight);
    int again = asm_label_new(p);
    quant_ready(w);
    struct asm_reg one = asm_local(p, ASM_R), halves[2];
    read_param(w, one, MM_PARAM_ONE, from);
    for (int i = 0; i < 2; i++) {
        struct asm_reg minus = asm_local(p, ASM_R);
        halves[i] = asm_local(p, ASM_X);
        emit_set(p, minus, i ? 0x8000 : MINUS_128);
        if (i) {
            emit_alu(p, AIE_BASIC_XOR, minus, minus, one);
        }
        emit_splat(p, LANE_16, halves[i], minus);
    }
    emit_select(p, LANE_16, c.rest, halves[1], halves[0], c.low);
    emit_set(p, from, address(w, MM_LONG_BYTES));
    struct asm_reg out = sum_of(w, q->base, -q->offset);
    emit_copy(p, to[0], out);
    emit_copy(p, to[1], sum_of(w, out, K_BLOCK));
    asm_label(p, again);
    struct asm_reg bits = asm_local(p, ASM_R), down = asm_local(p, ASM_R),
                   less = asm_local(p, ASM_R), at = asm_local(p, ASM_R);
    read_param(w, bits, MM_PARAM_GROUP, factors[0]);
    read_param(w, down, MM_PARAM_GROUP_SHIFT, factors[1]);
    read_param(w, less, MM_PARAM_LESS, factors[0]);
    emit_alu(p, AIE_BASIC_AND, at, group, bits);
    emit_alu(p, AIE_BASIC_SHIFT, at, at, down);
    emit_copy(p, at, sum_of(w, at, address(w, MM_LONG_SPREAD)));
    emit_copy(p, factors[0], at);
    emit_alu(p, AIE_BASIC_ADD, at, at, less);
    emit_copy(p, factors[1], at);
    emit_set(p, q->number, MM_TILE / 8);
    asm_loop_begin(p, q->number);
    trip(w, &c, eight, from, factors, to);
    asm_loop_end(p);
    emit_advance(p, from, GROUP - WORD);
    for (int k = 0; k < 2; k++) {
        emit_advance(p, to[k], K_BLOCK);
    }
    emit_add_small(p, group, group, 1);
    emit_add_small(p, q->number, group, -GROUPS);
    asm_jump_if_nonzero(p, q->number, again);
    quant_end(w);
}
