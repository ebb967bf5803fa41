// quant-fused: slices of q4_0 that are multiplied out of the registers in which they are unpacked.
// Blocks come word by word, [9 words][64 rows], d a scale in f16, b a byte of two numbers:
//
//     w0  d0 | b0 b1     w1  b2 ... b5     w2  b6 ... b9     w3  b10 ... b13     w4  b14 b15 | d1
//     w5  b0 ... b3 of the second block, w6, w7, w8
//
// A word is eight k of a row: the multiplier takes them in any order, as long as b's rows come in
// the same. So w4 and w0 change halves, which leaves words 1 to 8 of numbers and both scales of a
// row together, and rows of b are put in the order in which numbers leave the words (k, k + 16).
//
// Numbers stay whole: 128 + q is 0x4300 | q in bf16. With four rows of a as the first factor and
// four of b as the second, the multiplier adds up 32 of their products; what is too much, 136 times
// the sum of b's numbers, was in the accumulator before. The sum of a block is rounded to bf16 and
// multiplied with its scale, so that the roundings are: b, d and the sum of a block to bf16. All
// else is f32.
#include "quant-writer.h"

enum {
    WORD = MM_TILE * 4,  // bytes from word to word
    NUMBERS_AT = WORD,   // w1
    WORDS = 8,           // of numbers
    PART = 32,           // bytes of a word: of eight rows
    K_BLOCK = 64,        // bytes of 8 k of four rows
    BLOCK = 4 * K_BLOCK, // of b's rows in the order of a block's words
    VECTOR = 64,
};

// No load of a loop reads what its stores write.
enum { MEM_X = 9, MEM_FACTORS, MEM_C_IN, MEM_C_OUT, MEM_WORDS, MEM_JOINED };

// Shuffles by their number.
enum { ZIP_128 = 12, T16_4X4 = 39, T16_4X2 = 40 };

enum { TOP = 0x43, MINUS_136 = 0xc308, UPPER_HALVES = (int) 0xaaaaaaaa };

// Registers of the address generators that hold steps of pointers; those of the other ways to
// multiply, which this run does not go.
#define STEP(n) A_FIXED(AIE_REG(AIE_M, (n)))
enum { STEP_PART, STEP_WORD, STEP_ROWS, STEP_X };

static struct asm_reg small(struct writer * w, enum asm_class cls, int32_t value) {
    struct asm_reg r = asm_local(w->p, cls);
    emit_set_small(w->p, r, value);
    return r;
}

// ---- scales ----

// f16 to bf16 in 32 lanes. Magnitudes stand at f32's exponent and mantissa in 32 bits; a normal
// number is rebiased there and rounded as an integer, a denormal one becomes a number when 2^-14 is
// added in the bits and taken away as a float.
enum {
    MAGNITUDE = 0x7fff,
    F16_INF = 0x7c00,
    F16_NORMAL = 0x0400,
    BF16_INF = 0x7f80,
    RAISE = 13,
    LOWER = 16,
    REBIAS = 0x38000000,
    SMALLEST = 0x38800000,
};

static struct asm_reg lanes(struct writer * w, enum lane_op op, struct asm_reg a,
                            struct asm_reg b) {
    struct asm_reg d = asm_local(w->p, ASM_X);
    emit_lanes(w->p, op, LANE_16, d, a, b);
    return d;
}

static struct asm_reg where_less(struct writer * w, struct asm_reg a, struct asm_reg than,
                                 struct asm_reg no, struct asm_reg yes) {
    struct asm_reg d = asm_local(w->p, ASM_X), mask = asm_local(w->p, ASM_MASK);
    emit_compare(w->p, LANE_LESS, LANE_16, mask, a, than);
    emit_select(w->p, LANE_16, d, no, yes, mask);
    return d;
}

struct asm_reg half_to_bf16(struct writer * w, const struct half_numbers * c, struct asm_reg a) {
    struct asm_program * p = w->p;
    struct asm_reg m = lanes(w, LANE_AND, a, c->magnitude), raised = asm_local(p, ASM_CM);
    struct asm_reg sum[3], normal = asm_local(p, ASM_X), denormal = asm_local(p, ASM_X);
    for (int i = 0; i < 3; i++) {
        sum[i] = asm_local(p, ASM_CM);
    }
    emit_widen_16(p, raised, m, c->raise);
    emit_acc_add(p, sum[0], raised, c->rebias, c->add_bits);
    emit_narrow_16(p, normal, sum[0], c->lower);
    emit_acc_add(p, sum[1], raised, c->smallest, c->add_bits);
    emit_f_sub(p, sum[2], sum[1], c->smallest, c->add);
    for (int half = 0; half < 2; half++) {
        emit_to_bf16(p, asm_half(denormal, half), asm_half(sum[2], half));
    }
    struct asm_reg beyond = lanes(w, LANE_OR, normal, c->bf16_inf);
    struct asm_reg number = where_less(w, m, c->normal, normal, denormal);
    number = where_less(w, m, c->inf, beyond, number);
    return lanes(w, LANE_OR, number, lanes(w, LANE_SUB, a, m));
}

void take_half_numbers(struct writer * w, struct half_numbers * c) {
    struct asm_program * p = w->p;
    c->magnitude = take_splat(w, LANE_16, MAGNITUDE);
    c->inf = take_splat(w, LANE_16, F16_INF);
    c->normal = take_splat(w, LANE_16, F16_NORMAL);
    c->bf16_inf = take_splat(w, LANE_16, BF16_INF);
    c->rebias = take(w, ASM_CM);
    c->smallest = take(w, ASM_CM);
    c->raise = take(w, ASM_S);
    c->lower = take(w, ASM_S);
    c->add_bits = take(w, ASM_R);
    c->add = take(w, ASM_R);
    ready(w);
    for (int i = 0; i < 2; i++) {
        struct asm_reg r = asm_local(p, ASM_R), x = asm_local(p, ASM_X);
        emit_set(p, r, i ? SMALLEST : REBIAS);
        emit_splat(p, LANE_32, x, r);
        for (int half = 0; half < 2; half++) {
            emit_move(p, asm_half(i ? c->smallest : c->rebias, half), x);
        }
    }
    emit_set_shift(p, c->raise, RAISE);
    emit_set_shift(p, c->lower, LOWER);
    emit_set_small(p, c->add_bits, 0);
    emit_set_small(p, c->add, (int32_t) asm_target(p)->add_config);
}

// Both scales of each row to MM_SCALES, those of four rows together; the numbers of w0 to w4. All
// 64 rows, whether they are there or not: a loop would take longer.
static void gather(struct quant * q) {
    struct writer writer = begin(q), *w = &writer;
    struct asm_program * p = w->p;
    struct half_numbers c;
    struct asm_reg at = q->pointers[0], scales = q->pointers[1];
    struct asm_reg upper = take_set(w, ASM_MASK, UPPER_HALVES);
    take_half_numbers(w, &c);
    struct asm_reg together = small(w, ASM_R, T16_4X2);
    emit_copy(p, at, sum_of(w, raw_of(w), 2 * WORD));
    emit_set(p, scales, address(w, MM_SCALES));
    for (int i = 0; i < 4; i++) {
        struct asm_reg word[2], numbers = asm_local(p, ASM_X), both = asm_local(p, ASM_X);
        for (int n = 0; n < 2; n++) {
            word[n] = asm_local(p, ASM_X);
            emit_load(p, MEM_WORDS, word[n], at, (n ? 2 : -2) * WORD + VECTOR * i);
        }
        emit_select(p, LANE_16, numbers, word[1], word[0], upper);
        emit_store(p, MEM_JOINED, numbers, at, 2 * WORD + VECTOR * i);
        emit_select(p, LANE_16, both, word[0], word[1], upper);
        both = half_to_bf16(w, &c, shuffled(w, both, both, together));
        emit_store(p, MEM_SCALES, both, scales, VECTOR * i);
    }
    end(w);
}

// ---- products ----

struct constants {
    struct asm_reg top, zip_8[2], zip_64[2], zip_128[2], turn; // a vector, and shuffles
    struct asm_reg scale, rest[2];
};

// Four rows of b, [k-block of 8][row], in the order in which the numbers of words come: [8 k][4
// rows] for each word. Then what is too much of each block.
static void order(struct writer * w, const struct fused * f, const struct constants * c,
                  struct asm_reg from, struct asm_reg to) {
    struct asm_program * p = w->p;
    struct asm_reg n = asm_local(p, ASM_R), minus = asm_local(p, ASM_X);
    emit_set(p, n, MINUS_136);
    emit_splat(p, LANE_16, minus, n);
    for (int b = 0; b < 2; b++) {
        struct asm_reg turned[4];
        for (int i = 0; i < 4; i++) {
            struct asm_reg x = asm_local(p, ASM_X);
            emit_load(p, MEM_X, asm_half(x, 1), from, K_BLOCK / 2);
            emit_load_by(p, MEM_X, asm_half(x, 0), from, STEP(STEP_X));
            turned[i] = shuffled(w, x, x, f->turn);
        }
        struct asm_reg sum = asm_local(p, ASM_BM);
        for (int i = 0; i < 4; i++) { // of k and k + 16 in turn eight each
            struct asm_reg d = shuffled(w, turned[i / 2], turned[i / 2 + 2], c->zip_64[i % 2]);
            struct asm_reg next = i == 3 ? c->rest[b] : asm_local(p, ASM_BM);
            for (int half = 0; half < 2; half++) { // the first block begins in the middle of w4
                int at = b ? 2 * i + half : (2 * i + half + 7) % 8;
                emit_store(p, MEM_FACTORS, asm_half(d, half), to, b * BLOCK + at * K_BLOCK / 2);
            }
            if (i == 0) {
                emit_mul(p, next, minus, d, f->conf);
            } else {
                emit_mac(p, next, sum, minus, d, f->conf);
            }
            sum = next;
        }
    }
}

// Of eight rows and a word of each the products with all four rows of b, in two halves.
static void multiply(struct writer * w, const struct fused * f, const struct constants * c,
                     struct asm_reg bytes, struct asm_reg b, int word, struct asm_reg sum[2][2]) {
    for (int half = 0; half < 2; half++) {
        struct asm_reg *of = &sum[half][word / 4], next = asm_local(w->p, ASM_BM);
        emit_mac(w->p, next, word % 4 ? *of : c->rest[word / 4],
                 shuffled(w, bytes, c->top, c->zip_8[half]), b, f->conf);
        *of = next;
    }
}

// The sums of both blocks of eight rows, times their scales, to the tile.
static void add_scaled(struct writer * w, const struct constants * c, struct asm_reg sum[2][2]) {
    struct asm_program * p = w->p;
    const struct asm_reg * at = w->q->pointers;
    struct asm_reg s = asm_local(p, ASM_X);
    emit_load_next(p, MEM_SCALES, asm_half(s, 0), at[2]);
    struct asm_reg twice = shuffled(w, s, s, c->zip_64[0]);
    for (int half = 0; half < 2; half++) {
        struct asm_reg t = asm_local(p, ASM_X), old = asm_local(p, ASM_BM),
                       all = asm_local(p, ASM_BM);
        for (int b = 0; b < 2; b++) {
            emit_to_bf16(p, asm_half(t, b), sum[half][b]);
        }
        emit_load_next(p, MEM_C_IN, old, at[3]);
        emit_mac(p, all, old, shuffled(w, t, t, c->turn),
                 shuffled(w, twice, twice, c->zip_128[half]), c->scale);
        emit_store_next(p, MEM_C_OUT, all, at[4]);
    }
}

// Sixteen rows of a: of eight, b's numbers would be loaded twice as often.
static void trip(struct writer * w, const struct fused * f, const struct constants * c) {
    struct asm_program * p = w->p;
    const struct asm_reg words = w->q->pointers[0], x = w->q->pointers[1];
    struct asm_reg sum[2][2][2];
    for (int i = 0; i < WORDS; i++) {
        struct asm_reg b = asm_local(p, ASM_X);
        int next = i + 1 < WORDS ? STEP_WORD : STEP_ROWS;
        emit_load(p, MEM_FACTORS, b, x, i * K_BLOCK);
        for (int part = 0; part < 2; part++) {
            struct asm_reg bytes = asm_local(p, ASM_X);
            emit_load_nibbles_by(p, MEM_WORDS, bytes, words, STEP(part ? next : STEP_PART));
            multiply(w, f, c, bytes, b, i, sum[part]);
        }
    }
    for (int part = 0; part < 2; part++) {
        add_scaled(w, c, sum[part]);
    }
}

// Four rows of b at a time.
static void products(struct quant * q, struct fused * f) {
    struct writer writer = begin(q), *w = &writer;
    struct asm_program * p = w->p;
    const struct asm_reg * at = q->pointers;
    struct asm_reg trips = take(w, ASM_R), x = take(w, ASM_R), tile = take(w, ASM_R);
    struct constants c = {
        .top = take_splat(w, LANE_8, TOP), .turn = take(w, ASM_MASK), .scale = take(w, ASM_R)};
    int again = asm_label_new(p);
    for (int i = 0; i < 2; i++) {
        c.zip_8[i] = take(w, ASM_MASK);
        c.zip_64[i] = take(w, ASM_MASK);
        c.zip_128[i] = take(w, ASM_MASK);
        c.rest[i] = take(w, ASM_BM);
    }
    ready(w);
    emit_set_small(p, c.turn, T16_4X4);
    for (int i = 0; i < 2; i++) {
        emit_set_small(p, c.zip_8[i], ZIP_8 + i);
        emit_set_small(p, c.zip_64[i], ZIP_64 + i);
        emit_set_small(p, c.zip_128[i], ZIP_128 + i);
    }
    emit_nibbles_begin(p);
    read_param(w, trips, MM_PARAM_ROWS, at[0]); // of eight
    emit_copy(p, trips, shifted(w, trips, -1));
    emit_set(p, at[1], address(w, MM_PARAMS + 4 * MM_PARAM_X_STEP));
    emit_load_scalar(p, MEM_PARAMS, LANE_32, STEP(STEP_X), at[1], 0);
    emit_set_fixed(p, AIE_REG(AIE_M, STEP_PART), PART);
    emit_set_fixed(p, AIE_REG(AIE_M, STEP_WORD), WORD - PART);
    emit_set_fixed(p, AIE_REG(AIE_M, STEP_ROWS), PART - (WORDS - 1) * WORD);
    struct asm_reg config = asm_local(p, ASM_R), change = asm_local(p, ASM_R);
    // The configuration of a slice's first multiplication has one bit more.
    emit_set(p, config, (int32_t) asm_target(p)->mul_config);
    emit_alu(p, AIE_BASIC_XOR, change, f->first, f->conf);
    emit_alu(p, AIE_BASIC_OR, c.scale, config, change);
    emit_copy(p, x, sum_of(w, f->x, -f->x_offset));
    emit_copy(p, tile, sum_of(w, f->c, -f->c_offset));
    asm_label(p, again);
    emit_copy(p, at[0], x);
    emit_set(p, at[1], address(w, MM_Y));
    order(w, f, &c, at[0], at[1]);
    emit_copy(p, at[0], sum_of(w, raw_of(w), NUMBERS_AT));
    emit_set(p, at[2], address(w, MM_SCALES));
    emit_copy(p, at[3], tile);
    emit_copy(p, at[4], tile);
    asm_loop_begin(p, trips);
    asm_loop_alone(p); // 68 bundles; overlapping 54, for 500 bytes more and four trips
    trip(w, f, &c);
    asm_loop_end(p);
    emit_copy(p, x, sum_of(w, x, K_BLOCK));
    emit_alu(p, AIE_BASIC_ADD, tile, tile, f->row);
    emit_add_small(p, f->groups, f->groups, -1);
    asm_jump_if_nonzero(p, f->groups, again);
    end(w);
}

void fused_slice(struct fused * f) {
    struct quant q = {.p = f->p, .base = f->y, .unit = 4};
    const struct {
        int memory;
        uint32_t at;
    } places[] = {{MEM_FACTORS, MM_Y}, {MEM_C_IN, MM_C},       {MEM_C_OUT, MM_C},
                  {MEM_X, MM_X},       {MEM_WORDS, MM_BLOCKS}, {MEM_JOINED, MM_BLOCKS}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        asm_place(f->p, places[i].memory, places[i].at);
    }
    for (int i = 0; i < 5; i++) {
        q.pointers[i] = f->pointers[i];
    }
    gather(&q);
    products(&q, f);
}
