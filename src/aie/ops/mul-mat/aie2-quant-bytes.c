// aie2-quant-bytes: slices of q8_0 for products of many rows of b on aie2, as those of q4_0
// (aie2-quant-gemm.c) made bf16 before they are multiplied. A row's slice is nine units, q a byte:
//
//     -- -- d0 q0 q1 | q2 ... q9 | q10 ... q17 | q18 ... q25 | q26 ... q31 d1 | q0 ... q7 | ... q31
//
// The first block's numbers stand 16 bits too late. When they are moved, a unit is a k-block.
//
// A number is its lower seven bits less 128 times the upper one: 128 + s and 128 + 128 t are bf16
// numbers, and (128 + s) d - (128 + 128 t) d is made in f32 and rounded once, d is bf16.
#include "aie2-quant-gemm.h"

enum {
    SECOND = 4, // the unit that has the second scale
    BLOCKS = 2,
    UNITS = 4, // of a block
    FIRST_LANES = 0x11111111,
    SIGN = 0x80,
};

// The first block, 16 bits up: each unit with the next one's beginning, in its place.
static void align(struct quant * q, struct asm_reg trips, const struct asm_reg * kind) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg * at = q->pointers;
    struct asm_reg first = take_set(w, ASM_MASK, FIRST_LANES);
    struct asm_reg down = take(w, ASM_MASK), up = take(w, ASM_MASK);
    quant_ready(w);
    emit_set_small(p, down, 8 - 2);
    emit_set_small(p, up, VECTOR - 2);
    for (int i = 0; i < 3; i++) {
        many_point(w, at[i], kind, i == 1 ? PITCH : 0);
    }
    emit_set_small(p, trips, UNITS * PITCH / VECTOR);
    asm_loop_begin(p, trips);
    struct asm_reg unit[2], moved[2], d = asm_local(p, ASM_X);
    for (int i = 0; i < 2; i++) {
        unit[i] = asm_local(p, ASM_X);
        moved[i] = asm_local(p, ASM_X);
        emit_load_next(p, MEM_RAW, unit[i], at[i]);
        emit_shift_bytes(p, moved[i], unit[i], unit[i], i ? up : down);
    }
    emit_select(p, LANE_16, d, moved[1], moved[0], first);
    emit_store_next(p, MEM_MOVED, d, at[2]);
    asm_loop_end(p);
    quant_end(w);
}

struct constants {
    struct asm_reg zero, low, config, top, sign, zip_8[2], zip_32, zip_64;
};

// Four rows of a block.
static void trip(struct writer * w, const struct constants * c) {
    struct asm_program * p = w->p;
    const struct asm_reg from = w->q->pointers[0], scales = w->q->pointers[1],
                         to = w->q->pointers[2];
    struct asm_reg s = asm_local(p, ASM_X);
    struct emit_scale by = {0};
    emit_load_next(p, MEM_SPREAD, asm_half(s, 0), scales);
    s = shuffled(w, s, s, c->zip_32);
    emit_scale_factors(p, &by, shuffled(w, s, s, c->zip_64), c->zero, c->low);
    for (int u = 0; u < UNITS; u += 2) {
        struct asm_reg v = asm_local(p, ASM_X), part[2];
        for (int i = 0; i < 2; i++) {
            part[i] = asm_local(p, ASM_X);
            emit_load_by(p, MEM_RAW, asm_half(v, i), from, STEP(STEP_UNIT));
        }
        emit_lanes(p, LANE_AND, LANE_8, part[1], v, c->sign);
        emit_lanes(p, LANE_SUB, LANE_8, part[0], v, part[1]);
        for (int i = 0; i < 2; i++) {
            struct asm_reg number[2];
            for (int j = 0; j < 2; j++) {
                number[j] = shuffled(w, part[j], c->top, c->zip_8[i]);
            }
            for (int half = 0; half < 2; half++) {
                struct asm_reg product = asm_local(p, ASM_BM), sum = asm_local(p, ASM_BM);
                emit_mul(p, product, number[0], by.by[half], c->config);
                emit_msc(p, sum, product, number[1], by.by[half], c->config);
                if (half) {
                    emit_store_bf16_by(p, MEM_OUT, sum, to,
                                       STEP(u + i + 1 < UNITS ? STEP_K_BLOCK : STEP_BACK));
                } else {
                    emit_store_bf16_next(p, MEM_OUT, sum, to);
                }
            }
        }
    }
    emit_advance(p, from, PART - UNITS * PITCH);
}

// Both blocks, one after the other.
static void numbers(struct quant * q, struct asm_reg trips, const struct asm_reg * kind) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct constants c = {.zero = take_splat(w, LANE_32, 0),
                          .low = take_set(w, ASM_MASK, 0xffff),
                          .config = take(w, ASM_R),
                          .zip_32 = take(w, ASM_MASK),
                          .zip_64 = take(w, ASM_MASK),
                          .top = take_splat(w, LANE_8, TOP),
                          .sign = take_splat(w, LANE_8, SIGN)};
    struct asm_reg block = take(w, ASM_R);
    int again = asm_label_new(p);
    for (int i = 0; i < 2; i++) {
        c.zip_8[i] = take(w, ASM_MASK);
    }
    quant_ready(w);
    emit_set_small(p, c.config, (int32_t) asm_target(p)->mul_config);
    emit_set_small(p, c.zip_32, ZIP_32);
    emit_set_small(p, c.zip_64, ZIP_64);
    for (int i = 0; i < 2; i++) {
        emit_set_small(p, c.zip_8[i], ZIP_8 + i);
    }
    emit_set_fixed(p, AIE_REG(AIE_M, STEP_UNIT), PITCH);
    emit_set_fixed(p, AIE_REG(AIE_M, STEP_K_BLOCK), K_BLOCK - HALF);
    emit_set_fixed(p, AIE_REG(AIE_M, STEP_BACK), VECTOR - HALF - (UNITS - 1) * K_BLOCK);
    many_point(w, q->pointers[0], kind, 0);
    emit_set(p, q->pointers[2], address(w, MM_Y));
    emit_set_small(p, block, BLOCKS);
    asm_label(p, again);
    emit_set(p, q->pointers[1], address(w, MM_MANY_SPREAD));
    emit_set_small(p, trips, MM_TILE / ROWS);
    asm_loop_begin(p, trips);
    trip(w, &c);
    asm_loop_end(p);
    // The second block stands behind a unit that is none.
    go_on(w, q->pointers[0], (SECOND + 1) * PITCH - MM_TILE / ROWS * PART);
    go_on(w, q->pointers[2], UNITS * K_BLOCK - MM_TILE / ROWS * VECTOR);
    emit_set_small(p, c.zip_64, ZIP_64 + 1);
    emit_add_small(p, block, block, -1);
    asm_jump_if_nonzero(p, block, again);
    steps_back(w);
    quant_end(w);
}

void many_bytes_slice(struct quant * q, struct asm_reg kind) {
    many_places(q);
    many_scales(q, q->number, &kind, SECOND);
    align(q, q->number, &kind);
    numbers(q, q->number, &kind);
}
