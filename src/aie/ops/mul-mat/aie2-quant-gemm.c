// aie2-quant-gemm: slices of q4_0 for products of many rows of b on aie2. All rows of a slice
// become bf16 before they are multiplied, so what is multiplied is a slice as any other. Of 64 rows
// a slice comes as five units of 8 bytes each, [unit][64 rows], b a byte of two numbers:
//
//     -- -- d0 b0 b1 | b2 ... b9 | b10 ... b15 d1 | b0 ... b7 | b8 ... b15
//
// The first block's numbers stand 16 bits too late. When they are moved, a row has two units of
// each block, and a unit two k-blocks: of the lower halves of its bytes, and of the upper ones.
//
// 128 + q is 0x4300 | q in bf16; (128 + q) d - 136 d is made in f32 and rounded once, d is bf16.
// What this takes is shared by as many tiles as a core makes of the slice (mul-mat.c).
#include "aie2-quant-gemm.h"

enum {
    NUMBERS = MM_MANY_BLOCKS + PITCH, // four units: both blocks
    FIRST_LANES = 0x11111111,         // 16-bit lanes that begin a unit
    UPPER_HALVES = (int) 0xaaaaaaaa,
};

// ---- scales ----

// Of sixteen rows.
static void scales_trip(struct writer * w, const struct half_numbers * c, struct asm_reg words,
                        struct asm_reg upper, const struct asm_reg half[2],
                        const struct asm_reg zip[3]) {
    struct asm_program * p = w->p;
    const struct asm_reg * at = w->q->pointers;
    struct asm_reg d[2], twice[2];
    for (int b = 0; b < 2; b++) {
        struct asm_reg v[2];
        for (int i = 0; i < 2; i++) {
            v[i] = asm_local(p, ASM_X);
            emit_load_next(p, MEM_RAW, v[i], at[b]);
        }
        d[b] = shuffled(w, v[0], v[1], words);
    }
    struct asm_reg both = asm_local(p, ASM_X);
    emit_select(p, LANE_16, both, d[0], d[1], upper);
    both = quant_half_to_bf16(w, c, both);
    for (int b = 0; b < 2; b++) {
        struct asm_reg one = shuffled(w, both, both, half[b]);
        twice[b] = shuffled(w, one, one, zip[0]);
    }
    for (int i = 0; i < 2; i++) {
        emit_store_next(p, MEM_SPREAD, shuffled(w, twice[0], twice[1], zip[1 + i]), at[2]);
    }
}

void many_scales(struct quant * q, struct asm_reg trips, const struct asm_reg * kind,
                 int second_unit) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg upper = take_set(w, ASM_MASK, UPPER_HALVES);
    struct asm_reg words = take(w, ASM_MASK), half[2], zip[3];
    struct half_numbers c;
    for (int i = 0; i < 3; i++) {
        zip[i] = take(w, ASM_MASK);
    }
    for (int i = 0; i < 2; i++) {
        half[i] = take(w, ASM_MASK);
    }
    quant_take_half_numbers(w, &c);
    emit_set_small(p, words, EVEN_32 + 1);
    emit_set_small(p, zip[0], ZIP_16);
    for (int i = 0; i < 2; i++) {
        emit_set_small(p, half[i], EVEN_16 + i);
        emit_set_small(p, zip[1 + i], ZIP_128 + i);
    }
    many_point(w, q->pointers[0], kind, 0);
    many_point(w, q->pointers[1], kind, second_unit * PITCH);
    emit_set(p, q->pointers[2], address(w, MM_MANY_SPREAD));
    emit_set_small(p, trips, MM_TILE / 16);
    asm_loop_begin(p, trips);
    scales_trip(w, &c, words, upper, half, zip);
    asm_loop_end(p);
    quant_end(w);
}

// ---- the first block, 16 bits up ----

static void align(struct quant * q, struct asm_reg trips) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg * at = q->pointers;
    struct asm_reg first = take_set(w, ASM_MASK, FIRST_LANES);
    struct asm_reg down = take(w, ASM_MASK), up = take(w, ASM_MASK);
    quant_ready(w);
    emit_set_small(p, down, 8 - 2);
    emit_set_small(p, up, VECTOR - 2);
    for (int i = 0; i < 5; i++) { // units are read, and two of them written
        emit_set(p, at[i], address(w, MM_MANY_BLOCKS + (i < 3 ? i : i - 2) * PITCH));
    }
    emit_set_small(p, trips, MM_TILE * 8 / VECTOR);
    asm_loop_begin(p, trips);
    struct asm_reg unit[3];
    for (int i = 0; i < 3; i++) {
        unit[i] = asm_local(p, ASM_X);
        emit_load_next(p, MEM_RAW, unit[i], at[i]);
    }
    for (int i = 0; i < 2; i++) {
        struct asm_reg a = asm_local(p, ASM_X), b = asm_local(p, ASM_X), d = asm_local(p, ASM_X);
        emit_shift_bytes(p, a, unit[i], unit[i], down);
        emit_shift_bytes(p, b, unit[i + 1], unit[i + 1], up);
        emit_select(p, LANE_16, d, b, a, first);
        emit_store_next(p, MEM_MOVED, d, at[3 + i]);
    }
    asm_loop_end(p);
    quant_end(w);
}

// ---- numbers ----

struct constants {
    struct asm_reg offset, zero, low, config; // of emit_scale
    struct asm_reg top, pick[2], zip_8[2], zip_32, zip_64[2];
};

// 32 lanes: those of a factor's half become a row of 16, twice.
static void store_scaled(struct writer * w, const struct emit_scale * by, struct asm_reg a,
                         struct asm_reg to, int step, struct asm_reg config) {
    struct asm_program * p = w->p;
    for (int half = 0; half < 2; half++) {
        struct asm_reg sum = asm_local(p, ASM_BM);
        emit_mac(p, sum, by->rest[half], a, by->by[half], config);
        if (half) {
            emit_store_bf16_by(p, MEM_OUT, sum, to, STEP(step));
        } else {
            emit_store_bf16_next(p, MEM_OUT, sum, to);
        }
    }
}

// Four rows of both blocks: 64 numbers of a row.
static void trip(struct writer * w, const struct constants * c) {
    struct asm_program * p = w->p;
    const struct asm_reg from = w->q->pointers[0], scales = w->q->pointers[1],
                         to = w->q->pointers[2];
    struct asm_reg s = asm_local(p, ASM_X);
    emit_load_next(p, MEM_SPREAD, asm_half(s, 0), scales);
    s = shuffled(w, s, s, c->zip_32);
    for (int b = 0; b < 2; b++) {
        struct emit_scale by = {0};
        struct asm_reg unit[2], halves[2];
        emit_scale(p, &by, shuffled(w, s, s, c->zip_64[b]), c->offset, c->zero, c->low, c->config);
        for (int u = 0; u < 2; u++) {
            unit[u] = asm_local(p, ASM_X);
            emit_load_nibbles_by(p, MEM_RAW, unit[u], from, STEP(STEP_UNIT));
        }
        for (int i = 0; i < 2; i++) {
            halves[i] = shuffled(w, unit[0], unit[1], c->pick[i]);
        }
        for (int k = 0; k < 4; k++) {
            bool last = b == 1 && k == 3;
            store_scaled(w, &by, shuffled(w, halves[k / 2], c->top, c->zip_8[k % 2]), to,
                         last ? STEP_BACK : STEP_K_BLOCK, c->config);
        }
    }
    emit_advance(p, from, PART - 4 * PITCH);
}

static void numbers(struct quant * q, struct asm_reg trips) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct constants c = {.offset = take_splat(w, LANE_16, MINUS_136),
                          .zero = take_splat(w, LANE_32, 0),
                          .low = take_set(w, ASM_MASK, 0xffff),
                          .config = take(w, ASM_R),
                          .zip_32 = take(w, ASM_MASK),
                          .top = take_splat(w, LANE_8, TOP)};
    for (int i = 0; i < 2; i++) {
        c.pick[i] = take(w, ASM_MASK);
        c.zip_8[i] = take(w, ASM_MASK);
        c.zip_64[i] = take(w, ASM_MASK);
    }
    quant_ready(w);
    emit_set_small(p, c.config, (int32_t) asm_target(p)->mul_config);
    emit_set_small(p, c.zip_32, ZIP_32);
    for (int i = 0; i < 2; i++) {
        emit_set_small(p, c.pick[i], EVEN_8 + i);
        emit_set_small(p, c.zip_8[i], ZIP_8 + i);
        emit_set_small(p, c.zip_64[i], ZIP_64 + i);
    }
    emit_nibbles_begin(p);
    emit_set_fixed(p, AIE_REG(AIE_M, STEP_UNIT), PITCH);
    emit_set_fixed(p, AIE_REG(AIE_M, STEP_K_BLOCK), K_BLOCK - HALF);
    emit_set_fixed(p, AIE_REG(AIE_M, STEP_BACK), VECTOR - HALF - 7 * K_BLOCK);
    emit_set(p, q->pointers[0], address(w, NUMBERS));
    emit_set(p, q->pointers[1], address(w, MM_MANY_SPREAD));
    emit_set(p, q->pointers[2], address(w, MM_Y));
    emit_set_small(p, trips, MM_TILE / ROWS);
    asm_loop_begin(p, trips);
    trip(w, &c);
    asm_loop_end(p);
    steps_back(w);
    quant_end(w);
}

void many_places(struct quant * q) {
    static const struct {
        int memory;
        uint32_t at;
    } places[] = {{MEM_RAW, MM_MANY_BLOCKS},
                  {MEM_MOVED, MM_MANY_BLOCKS},
                  {MEM_SPREAD, MM_MANY_SPREAD},
                  {MEM_OUT, MM_Y}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        asm_place(q->p, places[i].memory, places[i].at);
    }
}

void many_slice(struct quant * q) {
    enum { SECOND = 2 };
    many_places(q);
    many_scales(q, q->number, NULL, SECOND);
    align(q, q->number);
    numbers(q, q->number);
}
