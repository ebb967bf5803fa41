// aie2-quant-inreg: what the loop of aie2-quant-inreg.c is led to with, by any number of rows of b
// or by one that stands in columns (aie2-quant-onerow.c).
#pragma once

#include "quant-writer.h"

enum {
    WORD = MM_TILE * 4,  // bytes from word to word
    WORDS = 8,           // of numbers that a trip takes
    PART = 32,           // bytes of a word: of eight rows
    K_BLOCK = 64,        // bytes of 8 k of four rows
    BLOCK = 4 * K_BLOCK, // of b's rows in the order of four words
    PLANE = MM_TILE * 2, // a factor of each row
    VECTOR = QUANT_VECTOR,
};

// Shuffles by their number.
enum { ZIP_256 = 10, ZIP_128 = 12, THE_FIRST = 22, T16_4X4 = 39, T16_4X2 = 40 };

enum { MINUS_ONE = 0xbf80 }; // in bf16

// Registers of the address generators that hold steps of pointers; those of the other ways to
// multiply, which this run does not go.
#define STEP(n) A_FIXED(AIE_REG(AIE_M, (n)))
enum { STEP_PART, STEP_WORD, STEP_ROWS, STEP_X, STEP_PAGE };

static inline void set_steps(struct writer * w, int page) {
    struct asm_program * p = w->p;
    emit_set_fixed(p, AIE_REG(AIE_M, STEP_PAGE), page);
    emit_set_fixed(p, AIE_REG(AIE_M, STEP_PART), PART);
    emit_set_fixed(p, AIE_REG(AIE_M, STEP_WORD), WORD - PART);
    emit_set_fixed(p, AIE_REG(AIE_M, STEP_ROWS), PART - (WORDS - 1) * WORD);
}

static inline struct asm_reg small(struct writer * w, enum asm_class cls, int32_t value) {
    struct asm_reg r = asm_local(w->p, cls);
    emit_set_small(w->p, r, value);
    return r;
}

static inline struct asm_reg lanes_16(struct writer * w, enum lane_op op, struct asm_reg a,
                                      struct asm_reg b) {
    struct asm_reg d = asm_local(w->p, ASM_X);
    emit_lanes(w->p, op, LANE_16, d, a, b);
    return d;
}

// What the loop holds: upper bytes of numbers, shuffles, the configuration of scales, and what is
// in the accumulators before.
struct constants {
    struct asm_reg top, zip_8[2], zip_64[2], zip_128[2], turn;
    struct asm_reg scale, rest[2];
};

// ---- one row of b: aie2-quant-onerow.c ----

// What differs between a slice of q4_K and a unit of q6_K: two numbers that b's sums are taken
// times, in bf16, and by how many bytes the second goes further (0: it is a unit).
struct one_row {
    struct asm_reg minus[2], by;
};
void columns_begin(struct writer * w);
// Which rows of b: to two pointers.
void columns_slice(struct writer * w, const struct fused * f, const struct one_row * o);
void columns_unit(struct writer * w, const struct fused * f, const struct constants * c,
                  const struct one_row * o, struct asm_reg unit);
// Factors of eight words, and what is in the accumulators before. Numbers at lower halves of bytes
// are at from[0], at upper ones at from[1]; the other three rows are zeros.
void columns_order(struct writer * w, const struct fused * f, const struct constants * c,
                   const struct one_row * o, const struct asm_reg from[2], struct asm_reg to);
void columns_scale(struct writer * w, const struct fused * f, const struct constants * c);
// What leads to the loop: a slice; of a unit first its upper bits, then its lower ones.
void columns_lead(struct writer * w, const struct constants * c);
void columns_lead_upper(struct writer * w, const struct fused * f, const struct constants * c,
                        struct asm_reg unit);
void columns_lead_lower(struct writer * w, const struct fused * f, const struct constants * c,
                        struct asm_reg unit);
