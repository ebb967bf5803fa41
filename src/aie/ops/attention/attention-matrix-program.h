// attention-matrix-program: what the files that write the core program of attention-matrix.h share.
// attention-matrix.c walks items and blocks, aie2-matrix-soft.c has all between the products.
#pragma once

#include "attention-matrix.h"
#include "attention-program.h"

#define MX_FAR_BELOW -1e30f // what sums are relative to before there are any

enum { VECTOR = 64, HALF = 32, QUERIES = 4 /* vectors of a unit's queries */, UNIT_BYTES = 4096 };
// Numbers by which the scheduler tells memory apart, beside those of attention-program.h.
enum { MEM_P = MEM_A, MEM_STATE_NEW = MEM_B, MEM_SUMS = MEM_OUT };

// Pointer i to what lies there, or to what unit w->a has of it, so many bits of bytes apart.
void mx_point(struct at_writer * w, int i, int32_t at);
void mx_point_unit(struct at_writer * w, int i, int32_t at, int bits);
// w->n: the units, shifted up.
void mx_trips_of_units(struct at_writer * w, int bits);
// Unit by unit: w->left are left, w->a is the unit's number.
int mx_units_begin(struct at_writer * w);
void mx_units_end(struct at_writer * w, int again);
// All lanes of a query folded: those of four keys.
struct val mx_across_keys(struct at_writer * w, lanes_fold fold, struct val v);
// So many vectors (w->n) at at[0] become a number.
void mx_fill(struct at_writer * w, int memory, struct val v);

// Goes to the label where the mask leaves nothing of this block to any row; notes where it takes
// nothing away.
void mx_skip_masked(struct at_writer * w, int label);
// Scores of keys behind the last; the mask; then all that becomes of them.
void mx_end_keys(struct at_writer * w);
void mx_add_mask(struct at_writer * w);
void mx_soft(struct at_writer * w);
