// aie2-quant-gemm: what the files have in common that make slices of quantized blocks bf16 for
// products of many rows of b on aie2: aie2-quant-gemm.c those of q4_0, aie2-quant-bytes.c of q8_0,
// aie2-quant-long.c of q4_K and q6_K. Blocks come as units of 8 bytes each, [unit][64 rows]; a unit
// of numbers is one k-block or two.
#pragma once

#include "quant-writer.h"

enum {
    PITCH = MM_TILE * 8, // from unit to unit
    VECTOR = 64,
    ROWS = 4,               // that a trip takes
    PART = ROWS * 8,        // bytes of a unit
    K_BLOCK = MM_TILE * 16, // bytes of bf16
    HALF = VECTOR / 2,
};

// Shuffles by their number.
enum { ZIP_256 = 10, ZIP_128 = 12, ZIP_32 = 16, T32_4X4 = 34, T8_16X4 = 36 };

// Upper bytes of numbers in bf16, and what is too much: 0x4300 | q is 128 + q, 0x3f80 | q is one
// 128th of that.
enum { TOP = 0x43, TOP_128TH = 0x3f, MINUS_128 = 0xc300, MINUS_136 = 0xc308, MINUS_1 = 0xbf80 };

// No load of a loop reads what its stores write.
enum { MEM_RAW = 9, MEM_MOVED };

// Registers of the address generators; the tile's walks have the same number in all of them, so
// that the first one tells what these were.
#define STEP(n) A_FIXED(AIE_REG(AIE_M, (n)))
enum { STEP_KEPT, STEP_UNIT, STEP_K_BLOCK, STEP_BACK, STEPS };

static inline void steps_back(struct writer * w) {
    for (int i = STEP_KEPT + 1; i < STEPS; i++) {
        ASM(w->p, asm_target(w->p)->basic[AIE_BASIC_COPY], STEP(i), STEP(STEP_KEPT));
    }
}

// A pointer, further than an instruction can move it.
static inline void go_on(struct writer * w, struct asm_reg pointer, int32_t bytes) {
    struct asm_reg at = asm_local(w->p, ASM_R);
    emit_copy(w->p, at, pointer);
    emit_copy(w->p, pointer, sum_of(w, at, bytes));
}

// Where such a program's memory lies; before each slice.
void many_places(struct quant * q);
// The scales of two blocks, d0 in the second word's lower half of unit 0 and d1 in its upper half
// of another one, to MM_MANY_SPREAD: of four rows each stands twice, those of the first block, then
// those of the second.
void many_scales(struct quant * q, struct asm_reg trips, const struct asm_reg * kind,
                 int second_unit);
// To so many bytes behind where the slice's blocks are: one place, or, as the kind says, two by
// turns.
static inline void many_point(struct writer * w, struct asm_reg pointer,
                              const struct asm_reg * kind, int32_t bytes) {
    if (!kind) {
        emit_set(w->p, pointer, address(w, MM_MANY_BLOCKS + bytes));
        return;
    }
    struct asm_reg turns = shifted(w, *kind, -MM_KIND_TURNS_BIT), even = asm_local(w->p, ASM_R);
    emit_alu(w->p, AIE_BASIC_AND, even, turns, alu(w, AIE_BASIC_XOR, w->q->left, 1));
    struct asm_reg at = alu(w, AIE_BASIC_XOR, shifted(w, even, MM_MANY_OTHER_BIT), MM_MANY_BLOCKS);
    emit_copy(w->p, pointer, sum_of(w, at, address(w, bytes)));
}
