// aie2-quant-long: slices of q4_K and q6_K for products of many rows of b on aie2. They come as
// units of 8 bytes of each row:
//
//     q4_K   a block: d dmin s | m r | four units of numbers: of a byte the lower half is of the
//            slice's first 32, the upper of the others. The head stays until all four slices are
//            done; the numbers of the next slice take the place of those of the last one.
//     q6_K   half a block, two slices: eight units of lower bits, whose halves of bytes are of
//            either slice | four of upper ones, two bits for each half of a slice | scales of the
//            one, of the other | the word that has d
//
// With a first slice the factors of all are made, of six or eight bits each: s d and m dmin,
// rounded once, of d and dmin in bf16. They stand by slice and four rows, so that a trip finds all
// that it wants in one place:
//
//     q4_K   s of the slice's first group, 4 rows | s of its second | m of its first | of its
//     second q6_K   s of each of the slice's four groups
//
// Minima are a 128th: so (128 + q) s - 128 (s + m) is the number, made in f32 and rounded once.
#include "aie2-quant-gemm.h"

enum {
    HEADER = MM_MANY_BLOCKS, // two units
    ROWS_16 = 16,            // that a trip of factors takes
    TRIPS_16 = MM_TILE / ROWS_16,
    UNITS = 4, // of numbers
    SIGN = 0x80,
    GROUPS = 2, // of a slice
    UPPER = 8,  // of q6_K: units of upper bits,
    SCALES = 12,
    D = 13,
    // What stands there while factors are made, where the slice in bf16 goes later.
    FACTORS_OF = MM_Y,                          // d and dmin of 16 rows, as trips want them, twice
    OF_BYTES = 2 * VECTOR,                      // of a trip
    SIX = FACTORS_OF + 2 * TRIPS_16 * OF_BYTES, // six bits of 16 rows: 64 s, 64 m
    SIX_BYTES = 2 * VECTOR,
    // Factors of slices 0 and 2, then of 1 and 3.
    TABLE_SLICE = MM_TILE / ROWS * HALF,
    TABLE_ODD = 2 * TABLE_SLICE,
    TABLE_BYTES = 4 * HALF,                      // of a trip
    SIX_TABLE = MM_MANY_TABLE + 2 * TABLE_SLICE, // of q6_K, of both slices at hand
};

static struct asm_reg turned(struct writer * w, struct asm_reg a, struct asm_reg b, int mode) {
    struct asm_reg pattern = asm_local(w->p, ASM_R);
    emit_set_small(w->p, pattern, mode);
    return shuffled(w, a, b, pattern);
}

static struct asm_reg lanes(struct writer * w, enum lane_op op, struct asm_reg a,
                            struct asm_reg b) {
    struct asm_reg d = asm_local(w->p, ASM_X);
    emit_lanes(w->p, op, LANE_8, d, a, b);
    return d;
}

static struct asm_reg next(struct writer * w, int memory, struct asm_reg from) {
    struct asm_reg v = asm_local(w->p, ASM_X);
    emit_load_next(w->p, memory, v, from);
    return v;
}

// d and dmin as bf16: [four rows][d d dmin dmin], 4 lanes each. Of q6_K d four times, the lower or
// the upper half of its word.
static void factors_of(struct quant * q, struct asm_reg trips) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct half_numbers c;
    const struct asm_reg from = q->pointers[0], *to = q->pointers + 1;
    struct asm_reg half[2] = {take(w, ASM_MASK), take(w, ASM_MASK)};
    int has_minima = asm_label_new(p);
    quant_take_half_numbers(w, &c);
    emit_set(p, from, address(w, HEADER));
    emit_set_small(p, half[0], EVEN_16);
    emit_set_small(p, half[1], EVEN_16 + 1);
    asm_jump_if_zero(p, trips, has_minima);
    emit_set(p, from, address(w, HEADER + D * PITCH));
    struct asm_reg odd = asm_local(p, ASM_R), none = asm_local(p, ASM_R);
    emit_set_small(p, none, 0);
    emit_alu(p, AIE_BASIC_SUB, odd, none, q->left);
    odd = sum_of(w, masked(w, shifted(w, odd, -2), 1), EVEN_16);
    for (int i = 0; i < 2; i++) {
        emit_copy(p, half[i], odd);
    }
    asm_label(p, has_minima);
    for (int i = 0; i < 2; i++) {
        emit_set(p, to[i], address(w, FACTORS_OF + i * TRIPS_16 * OF_BYTES));
    }
    emit_set_small(p, trips, TRIPS_16);
    asm_loop_begin(p, trips);
    asm_loop_alone(p);
    struct asm_reg v[2], kind[2];
    for (int i = 0; i < 2; i++) {
        v[i] = next(w, MEM_RAW, from);
    }
    struct asm_reg both = quant_half_to_bf16(w, &c, turned(w, v[0], v[1], EVEN_32));
    for (int i = 0; i < 2; i++) {
        kind[i] = shuffled(w, both, both, half[i]);
    }
    both = turned(w, kind[0], kind[1], ZIP_64);
    for (int i = 0; i < 2; i++) {
        struct asm_reg twice = turned(w, both, both, ZIP_64 + i);
        for (int n = 0; n < 2; n++) {
            emit_store_next(p, MEM_SCALES, twice, to[n]);
        }
    }
    asm_loop_end(p);
    quant_end(w);
}

// Six bits of each group: of the first four in s and m, of the others 4 in r, and 2 above those of
// the first. Minima have a bit above them, which makes one of bf16's numbers from 1 to 2.
static void six_bits(struct quant * q, struct asm_reg trips) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg *from = q->pointers, *to = q->pointers + 2;
    struct asm_reg six = take_splat(w, LANE_8, 0x3f), above = take_splat(w, LANE_8, 0x0c);
    struct asm_reg bit = take_splat(w, LANE_8, 0x80);
    quant_ready(w);
    emit_nibbles_begin(p);
    for (int i = 0; i < 2; i++) {
        emit_set(p, from[i], address(w, HEADER + i * PITCH));
        emit_set(p, to[i], address(w, SIX + i * TRIPS_16 * SIX_BYTES));
    }
    emit_set_small(p, trips, TRIPS_16);
    asm_loop_begin(p, trips);
    asm_loop_alone(p);
    struct asm_reg v[2][2], word[3], part[3][2];
    for (int i = 0; i < 4; i++) {
        v[i / 2][i % 2] = next(w, MEM_RAW, from[i / 2]);
    }
    word[0] = turned(w, v[0][0], v[0][1], EVEN_32 + 1);
    for (int i = 0; i < 2; i++) {
        word[1 + i] = turned(w, v[1][0], v[1][1], EVEN_32 + i);
    }
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 2; j++) {
            part[i][j] = asm_local(p, ASM_X);
            emit_nibbles(p, part[i][j], asm_half(word[i], j));
        }
    }
    for (int i = 0; i < 2; i++) { // s, m
        struct asm_reg low = lanes(w, LANE_AND, word[i], six);
        struct asm_reg high =
            lanes(w, LANE_AND, turned(w, part[i][0], part[i][1], EVEN_8 + 1), above);
        high = lanes(w, LANE_ADD, high, high);
        high = lanes(w, LANE_ADD, high, high);
        high = lanes(w, LANE_ADD, high, turned(w, part[2][0], part[2][1], EVEN_8 + i));
        emit_store_next(p, MEM_SIX, i ? lanes(w, LANE_OR, low, bit) : low, to[0]);
        emit_store_next(p, MEM_SIX, i ? lanes(w, LANE_OR, high, bit) : high, to[1]);
    }
    asm_loop_end(p);
    quant_end(w);
}

// Of q6_K a byte for each of sixteen groups: those of the slice at hand, and of the next one.
static void eight_bits(struct quant * q, struct asm_reg trips) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg from = q->pointers[0], to = q->pointers[1];
    quant_ready(w);
    emit_set(p, from, address(w, HEADER + SCALES * PITCH));
    emit_set(p, to, address(w, SIX));
    emit_set_small(p, trips, TRIPS_16);
    asm_loop_begin(p, trips);
    asm_loop_alone(p);
    struct asm_reg v[2];
    for (int i = 0; i < 2; i++) {
        v[i] = next(w, MEM_RAW, from);
    }
    for (int i = 0; i < 2; i++) {
        emit_store_next(p, MEM_SIX, turned(w, v[0], v[1], EVEN_32 + i), to);
    }
    asm_loop_end(p);
    quant_end(w);
}

// What the table's trips hold. Numbers are two terms, of which the second takes away what the upper
// byte makes too much, and of those with a sign 128 more where it is set.
struct terms {
    struct asm_reg top[2], sign, lower, zero, low, config, first;
};

// n, or where blocks are q6_K's, more by a power of two.
static struct asm_reg by_kind(struct writer * w, struct asm_reg is_six, int32_t n, int more) {
    return sum_of(w, shifted(w, is_six, more), n);
}

static struct terms take_terms(struct writer * w, struct asm_reg is_six) {
    struct asm_program * p = w->p;
    static const int upper[2][2] = {{TOP, TOP_128TH}, {TOP | SIGN, TOP_128TH | SIGN}};
    struct terms t = {.sign = take_splat(w, LANE_8, SIGN),
                      .lower = take(w, ASM_X),
                      .zero = take_splat(w, LANE_32, 0),
                      .low = take_set(w, ASM_MASK, 0xffff),
                      .config = take(w, ASM_R),
                      .first = take(w, ASM_MASK)};
    for (int i = 0; i < 2; i++) {
        t.top[i] = take(w, ASM_X);
    }
    quant_ready(w);
    emit_set_small(p, t.config, (int32_t) asm_target(p)->mul_config);
    emit_splat(p, LANE_8, t.lower, shifted(w, is_six, 7));
    for (int i = 0; i < 2; i++) { // of q6_K all are scales
        struct asm_reg eights = asm_local(p, ASM_R), other = asm_local(p, ASM_X);
        emit_set_small(p, eights, ZIP_64);
        emit_splat(p, LANE_8, other, by_kind(w, is_six, upper[i][1], 2));
        emit_shuffle(p, t.top[i], splat(w, LANE_8, upper[i][0]), other, eights);
    }
    struct asm_reg twelve = asm_local(p, ASM_R);
    const struct asm_reg four = shifted(w, is_six, 2), eight = shifted(w, is_six, 3);
    emit_alu(p, AIE_BASIC_ADD, twelve, eight, four);
    emit_copy(p, t.first, sum_of(w, twelve, ZIP_256)); // s and m of half of the groups, or all s
    return t;
}

// All factors of the block, or of q6_K of two slices; a trip makes those of 16 rows and two slices.
static void table(struct quant * q, struct asm_reg is_six) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg six = q->pointers[0], of = q->pointers[1], *to = q->pointers + 2;
    struct terms t = take_terms(w, is_six);
    emit_set(p, six, address(w, SIX));
    emit_set(p, of, address(w, FACTORS_OF));
    struct asm_reg first = by_kind(w, is_six, address(w, MM_MANY_TABLE), 10), none, less;
    none = asm_local(p, ASM_R);
    less = asm_local(p, ASM_R);
    emit_copy(p, to[0], first);
    emit_alu(p, AIE_BASIC_SUB, less, first, shifted(w, is_six, 9));
    emit_copy(p, to[1], sum_of(w, less, TABLE_ODD));
    emit_set_small(p, none, 0);
    emit_alu(p, AIE_BASIC_SUB, none, none, shifted(w, is_six, 2));
    emit_copy(p, is_six, sum_of(w, none, 2 * TRIPS_16));
    asm_loop_begin(p, is_six);
    asm_loop_alone(p);
    struct asm_reg kind[2];
    for (int i = 0; i < 2; i++) {
        struct asm_reg s = next(w, MEM_SIX, six);
        kind[i] = turned(w, s, s, T8_16X4); // [4 groups][16 rows]
    }
    struct asm_reg second = asm_local(p, ASM_R);
    emit_add_small(p, second, t.first, 1);
    struct asm_reg four[2];
    for (int slice = 0; slice < 2; slice++) {
        four[slice] = shuffled(w, kind[0], kind[1], slice ? second : t.first);
        four[slice] = turned(w, four[slice], four[slice], T32_4X4);
    }
    for (int slice = 0; slice < 2; slice++) {
        struct asm_reg part[2];
        part[1] = lanes(w, LANE_AND, four[slice], t.sign);
        part[0] = lanes(w, LANE_SUB, four[slice], lanes(w, LANE_AND, four[slice], t.lower));
        for (int i = 0; i < 2; i++) {
            struct asm_reg number[2], s = asm_local(p, ASM_X);
            struct emit_scale by = {0};
            emit_load(p, MEM_SCALES, s, of, i * VECTOR);
            emit_scale_factors(p, &by, s, t.zero, t.low);
            for (int n = 0; n < 2; n++) {
                number[n] = turned(w, part[n], t.top[n], ZIP_8 + i);
            }
            emit_scaled(p, MEM_TABLE, &by, number, 2, to[slice], 2 * HALF * i, t.config);
        }
        emit_advance(p, to[slice], TABLE_BYTES);
    }
    emit_advance(p, of, OF_BYTES);
    asm_loop_end(p);
    quant_end(w);
}

// ---- numbers ----

struct constants {
    struct asm_reg zero, low, config, top, minus, zip_8[2], zip_16, zip_32[2], zip_256;
    struct asm_reg pick, zip_64; // which group: of a byte, of factors
};

// Four rows of a group.
static void trip(struct writer * w, const struct constants * c) {
    struct asm_program * p = w->p;
    const struct asm_reg factors = w->q->pointers[1], to = w->q->pointers[2];
    struct asm_reg f = asm_local(p, ASM_X), kind[2];
    struct emit_scale by = {0};
    emit_load_next(p, MEM_TABLE, asm_half(f, 0), factors);
    f = shuffled(w, f, f, c->zip_16);
    for (int i = 0; i < 2; i++) { // s, m
        kind[i] = shuffled(w, f, f, c->zip_32[i]);
        kind[i] = shuffled(w, kind[i], kind[i], c->zip_64);
    }
    emit_scale_factors(p, &by, kind[0], c->zero, c->low);
    struct asm_reg other = asm_local(p, ASM_R);
    emit_add_small(p, other, c->zip_256, 1);
    for (int half = 0; half < 2; half++) { // s + m of half of the rows
        by.rest[half] = asm_local(p, ASM_BM);
        emit_mul(p, by.rest[half], shuffled(w, kind[0], kind[1], half ? other : c->zip_256),
                 c->minus, c->config);
    }
    for (int u = 0; u < UNITS; u += 2) {
        struct asm_reg unit[2];
        for (int i = 0; i < 2; i++) {
            unit[i] = asm_local(p, ASM_X);
            emit_load_nibbles_by(p, MEM_RAW, unit[i], w->q->pointers[0], STEP(STEP_UNIT));
        }
        struct asm_reg bytes = shuffled(w, unit[0], unit[1], c->pick);
        for (int i = 0; i < 2; i++) {
            struct asm_reg number = shuffled(w, bytes, c->top, c->zip_8[i]);
            for (int half = 0; half < 2; half++) {
                struct asm_reg sum = asm_local(p, ASM_BM);
                emit_mac(p, sum, by.rest[half], number, by.by[half], c->config);
                if (half) {
                    emit_store_bf16_by(p, MEM_OUT, sum, to,
                                       STEP(u + i + 1 < UNITS ? STEP_K_BLOCK : STEP_BACK));
                } else {
                    emit_store_bf16_next(p, MEM_OUT, sum, to);
                }
            }
        }
    }
    emit_advance(p, w->q->pointers[0], PART - UNITS * PITCH);
}

static struct constants take_constants(struct writer * w) {
    struct constants c = {.zero = take_splat(w, LANE_32, 0),
                          .low = take_set(w, ASM_MASK, 0xffff),
                          .config = take(w, ASM_R),
                          .zip_16 = take(w, ASM_MASK),
                          .zip_64 = take(w, ASM_MASK),
                          .zip_256 = take(w, ASM_R),
                          .pick = take(w, ASM_MASK),
                          .top = take_splat(w, LANE_8, TOP),
                          .minus = take_splat(w, LANE_16, MINUS_128)};
    for (int i = 0; i < 2; i++) {
        c.zip_8[i] = take(w, ASM_MASK);
        c.zip_32[i] = take(w, ASM_MASK);
    }
    quant_ready(w);
    emit_set_small(w->p, c.config, (int32_t) asm_target(w->p)->mul_config);
    emit_set_small(w->p, c.zip_16, ZIP_16);
    emit_set_small(w->p, c.zip_64, ZIP_64);
    emit_set_small(w->p, c.zip_256, ZIP_256);
    emit_set_small(w->p, c.pick, EVEN_8);
    for (int i = 0; i < 2; i++) {
        emit_set_small(w->p, c.zip_8[i], ZIP_8 + i);
        emit_set_small(w->p, c.zip_32[i], ZIP_32 + i);
    }
    return c;
}

// Both groups, one after the other.
static void numbers(struct quant * q, struct asm_reg trips) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    int again = asm_label_new(p);
    struct constants c = take_constants(w);
    emit_nibbles_begin(p);
    emit_set_fixed(p, AIE_REG(AIE_M, STEP_UNIT), PITCH);
    emit_set_fixed(p, AIE_REG(AIE_M, STEP_K_BLOCK), K_BLOCK - HALF);
    emit_set_fixed(p, AIE_REG(AIE_M, STEP_BACK), VECTOR - HALF - (UNITS - 1) * K_BLOCK);
    emit_set(p, q->pointers[2], address(w, MM_Y));
    asm_label(p, again);
    struct asm_reg at = asm_local(p, ASM_R), slice = slice_number(w);
    const struct asm_reg next = shifted(w, masked(w, slice, 2), 9 - 1 /* TABLE_SLICE */);
    const struct asm_reg odd = shifted(w, masked(w, slice, 1), 10 /* TABLE_ODD */);
    emit_alu(p, AIE_BASIC_ADD, at, odd, next);
    emit_copy(p, q->pointers[1], sum_of(w, at, address(w, MM_MANY_TABLE)));
    emit_set(p, q->pointers[0], address(w, HEADER + 2 * PITCH));
    emit_set_small(p, trips, MM_TILE / ROWS);
    asm_loop_begin(p, trips);
    trip(w, &c);
    asm_loop_end(p);
    go_on(w, q->pointers[2], UNITS * K_BLOCK - MM_TILE / ROWS * VECTOR);
    emit_add_small(p, c.pick, c.pick, 1);
    emit_add_small(p, c.zip_64, c.zip_64, 1);
    emit_add_small(p, trips, c.pick, -(EVEN_8 + GROUPS));
    asm_jump_if_nonzero(p, trips, again);
    steps_back(w);
    quant_end(w);
}

// ---- numbers of q6_K ----

// Of a group of 16 the lower four bits and the upper two are numbers by themselves: 128 + l, and
// 2048 + 16 h or 512 + 4 (4 h), as the two stand in half a byte; in all 2208 or 672 too much, with
// the 32 that a number is less.
enum { TOP_2048 = 0x45, TOP_512 = 0x44, MINUS_2208 = 0xc50a, MINUS_672 = 0xc428, GROUPS_16 = 4 };

struct six_constants {
    struct asm_reg zero, low, config, top, upper_top, bits, minus, zip_8[2], zip_16;
    struct asm_reg zip_32, zip_64; // which group, of factors
    struct asm_reg pick;           // which half of a byte
};

// Four rows of a group.
static void six_trip(struct writer * w, const struct six_constants * c) {
    struct asm_program * p = w->p;
    const struct asm_reg *from = w->q->pointers, to = w->q->pointers[2],
                         factors = w->q->pointers[3];
    struct asm_reg f = asm_local(p, ASM_X), part[2];
    struct emit_scale by = {0};
    emit_load_next(p, MEM_TABLE, asm_half(f, 0), factors);
    f = shuffled(w, f, f, c->zip_16);
    f = shuffled(w, f, f, c->zip_32);
    emit_scale(p, &by, shuffled(w, f, f, c->zip_64), c->minus, c->zero, c->low, c->config);
    for (int n = 0; n < 2; n++) { // lower bits, upper ones
        struct asm_reg unit[2];
        for (int i = 0; i < 2; i++) {
            unit[i] = asm_local(p, ASM_X);
            emit_load_nibbles_by(p, MEM_RAW, unit[i], from[n], STEP(i ? STEP_BACK : STEP_UNIT));
        }
        part[n] = shuffled(w, unit[0], unit[1], c->pick);
    }
    part[1] = lanes(w, LANE_AND, part[1], c->bits);
    for (int i = 0; i < 2; i++) {
        struct asm_reg number[2];
        for (int n = 0; n < 2; n++) {
            number[n] = shuffled(w, part[n], n ? c->upper_top : c->top, c->zip_8[i]);
        }
        emit_scaled(p, MEM_OUT, &by, number, 2, to, 0, c->config);
        emit_advance(p, to, i ? VECTOR - K_BLOCK : K_BLOCK);
    }
}

static struct six_constants take_six(struct writer * w) {
    struct asm_program * p = w->p;
    struct six_constants c = {.zero = take_splat(w, LANE_32, 0),
                              .low = take_set(w, ASM_MASK, 0xffff),
                              .config = take(w, ASM_R),
                              .zip_16 = take(w, ASM_MASK),
                              .zip_32 = take(w, ASM_MASK),
                              .zip_64 = take(w, ASM_MASK),
                              .pick = take(w, ASM_MASK),
                              .top = take_splat(w, LANE_8, TOP),
                              .upper_top = take(w, ASM_X),
                              .bits = take(w, ASM_X),
                              .minus = take(w, ASM_X)};
    for (int i = 0; i < 2; i++) {
        c.zip_8[i] = take(w, ASM_MASK);
    }
    quant_ready(w);
    emit_set_small(p, c.config, (int32_t) asm_target(p)->mul_config);
    emit_set_small(p, c.zip_16, ZIP_16);
    for (int i = 0; i < 2; i++) {
        emit_set_small(p, c.zip_8[i], ZIP_8 + i);
    }
    return c;
}

// All four groups, one after the other.
static void six_numbers(struct quant * q, struct asm_reg trips) {
    struct writer writer = quant_begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct asm_reg group = take(w, ASM_R);
    int again = asm_label_new(p), lower = asm_label_new(p);
    struct six_constants c = take_six(w);
    emit_nibbles_begin(p);
    emit_set_fixed(p, AIE_REG(AIE_M, STEP_UNIT), PITCH);
    emit_set_fixed(p, AIE_REG(AIE_M, STEP_BACK), PART - PITCH);
    struct asm_reg odd = masked(w, slice_number(w), 1);
    emit_copy(p, c.pick, sum_of(w, odd, EVEN_8));
    emit_set(p, q->pointers[0], address(w, HEADER));
    emit_set(p, q->pointers[2], address(w, MM_Y));
    emit_set_small(p, group, 0);
    asm_label(p, again);
    struct asm_reg slice = masked(w, slice_number(w), 1), upper = shifted(w, group, -1),
                   r = asm_local(p, ASM_R), at;
    emit_copy(p, c.zip_32, sum_of(w, upper, ZIP_32));
    emit_copy(p, c.zip_64, sum_of(w, masked(w, group, 1), ZIP_64));
    emit_copy(p, q->pointers[3], sum_of(w, shifted(w, slice, 9), address(w, SIX_TABLE)));
    at = shifted(w, masked(w, group, 1), 10 /* two units */);
    emit_copy(p, q->pointers[1], sum_of(w, at, address(w, HEADER + UPPER * PITCH)));
    emit_set_small(p, r, 3);
    emit_splat(p, LANE_8, c.bits, r);
    emit_splat(p, LANE_8, c.upper_top, alu(w, AIE_BASIC_ADD, r, TOP_2048 - 3));
    emit_splat(p, LANE_16, c.minus, alu(w, AIE_BASIC_ADD, r, MINUS_2208 - 3));
    emit_copy(p, trips, upper);
    asm_jump_if_zero(p, trips, lower);
    struct asm_reg twelve = asm_local(p, ASM_R);
    emit_set_small(p, twelve, 12);
    emit_splat(p, LANE_8, c.bits, twelve);
    emit_splat(p, LANE_8, c.upper_top, alu(w, AIE_BASIC_ADD, twelve, TOP_512 - 12));
    emit_splat(p, LANE_16, c.minus, alu(w, AIE_BASIC_ADD, twelve, MINUS_672 - 12));
    asm_label(p, lower);
    emit_set_small(p, trips, MM_TILE / ROWS);
    asm_loop_begin(p, trips);
    six_trip(w, &c);
    asm_loop_end(p);
    go_on(w, q->pointers[0], 2 * PITCH - MM_TILE / ROWS * PART);
    go_on(w, q->pointers[2], 2 * K_BLOCK - MM_TILE / ROWS * VECTOR);
    emit_add_small(p, group, group, 1);
    emit_add_small(p, trips, group, -GROUPS_16);
    asm_jump_if_nonzero(p, trips, again);
    steps_back(w);
    quant_end(w);
}

// ---- all of it ----

void many_long_slice(struct quant * q, struct asm_reg kind) {
    struct asm_program * p = q->p;
    struct writer w = {.q = q, .p = p};
    int numbers_at = asm_label_new(p), done = asm_label_new(p), six = asm_label_new(p);
    int eight = asm_label_new(p), table_at = asm_label_new(p);
    struct asm_reg is_six = q->number, later = asm_local(p, ASM_R), none = asm_local(p, ASM_R);
    many_places(q);
    // factors come with the first of a block's slices, of q6_K with the first of two
    struct asm_reg less = asm_local(p, ASM_R);
    emit_add_small(p, is_six, kind, -MM_KIND_Q4_K);
    emit_set_small(p, later, 3);
    emit_set_small(p, none, 0);
    emit_alu(p, AIE_BASIC_SUB, less, none, is_six);
    emit_alu(p, AIE_BASIC_SHIFT, later, later, less);
    emit_alu(p, AIE_BASIC_AND, is_six, later, slice_number(&w));
    asm_jump_if_nonzero(p, is_six, numbers_at);
    emit_add_small(p, is_six, kind, -MM_KIND_Q4_K);
    factors_of(q, is_six);
    emit_add_small(p, is_six, kind, -MM_KIND_Q4_K);
    asm_jump_if_nonzero(p, is_six, eight);
    six_bits(q, is_six);
    asm_jump(p, table_at);
    asm_label(p, eight);
    eight_bits(q, is_six);
    asm_label(p, table_at);
    emit_add_small(p, is_six, kind, -MM_KIND_Q4_K);
    table(q, is_six);
    asm_label(p, numbers_at);
    emit_add_small(p, is_six, kind, -MM_KIND_Q4_K);
    asm_jump_if_nonzero(p, is_six, six);
    numbers(q, q->number);
    asm_jump(p, done);
    asm_label(p, six);
    six_numbers(q, q->number);
    asm_label(p, done);
}
