// attention-matrix-program: what the files that write the core program of attention-matrix.h share.
// attention-matrix.c walks items and blocks, aie2-matrix-f16.c has what comes as f16,
// aie2-matrix-soft.c all else between the products.
#pragma once

#include "attention-matrix.h"
#include "attention-program.h"

// What sums are relative to is kept as a distance from there (powers); before there are any it is
// above what a mask of minus infinity makes of scores.
#define MX_ORIGIN    0x1.8p16f
#define MX_FAR_BELOW -60000.0f

enum { VECTOR = 64, HALF = 32, QUERIES = 4 /* vectors of a unit's queries */, UNIT_BYTES = 4096 };
// Numbers by which the scheduler tells memory apart, beside those of attention-program.h.
enum { MEM_P = MEM_A, MEM_STATE_NEW = MEM_B, MEM_SUMS = MEM_OUT, MEM_P_NEW = MEM_Q, MEM_E = MEM_V };

struct mx_writer {
    struct at_writer w;
    const struct mx_layout * to;
    struct asm_reg sixth; // pointer
    struct mx_registers product;
    int product_loop, add_mask, powers; // labels of subroutines
};

// Pointer i to what lies there, or to what unit w->a has of it, so many bits of bytes apart.
void mx_point(struct at_writer * w, int i, int32_t at);
void mx_point_unit(struct at_writer * w, int i, int32_t at, int bits);
// The same of what is longer with halves: the shift is that of one.
void mx_point_rows(struct mx_writer * m, int i, int32_t at, int bits);
// w->n: the units, shifted up.
void mx_trips_of_units(struct at_writer * w, int bits);
// Unit by unit: w->left are left, w->a is the unit's number.
int mx_units_begin(struct at_writer * w);
void mx_units_end(struct at_writer * w, int again);
// All lanes of a query folded: those of four keys.
struct val mx_across_keys(struct at_writer * w, lanes_fold fold, struct val v);
// So many vectors (w->n) at at[0] become a number.
void mx_fill(struct at_writer * w, int memory, struct val v);

// f32 lanes as two pieces of bf16, one in each half. rest: room for what the
// first leaves; half: 0.5 in all lanes.
struct asm_reg mx_pieces(struct at_writer * w, struct asm_reg acc, struct asm_reg rest,
                         struct asm_reg half);
// A word in all lanes, in a global vector.
struct asm_reg mx_constant(struct at_writer * w, uint32_t word);

// The subroutine w->convert: so many trips (w->n) of 32 numbers of f16 from w->a on become bf16.
void mx_convert(struct at_writer * w);
// Goes to the label where the mask leaves nothing of this block to any row; notes where it takes
// nothing away.
void mx_skip_masked(struct at_writer * w, int label);
// Subroutines of a section whose accumulators hold two vectors: the mask is added to scores; their
// distances from what sums are relative to become powers of two.
void mx_add_mask(struct mx_writer * m);
void mx_powers(struct mx_writer * m);
// Scores of keys behind the last; all that becomes of scores but the mask.
void mx_end_keys(struct mx_writer * m);
void mx_soft(struct mx_writer * m);
