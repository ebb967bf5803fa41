// mixed: the PDI that a decoder's layer runs on. The rows of the array hold different programs, and
// a kernel works on the cores that have its own, one in each column (a product on two). Loading a
// PDI takes as long as half a million cycles, so whatever is short stays here; a kernel that four
// cores a column would make faster by more than that is worth has a PDI of its own, with its
// program in all of them. Which it is follows from the spec alone (spread_crew_for).
#pragma once

#include "aie/array/spread.h"

// Columns that have layer_f32 and rows_layer, the first ones; the others have attention there. One
// has no others.
static inline int mixed_columns(int columns) {
    return (columns + 1) / 2;
}

// Which core of a column has which program, see programs.def.
enum {
    MIXED_ELEMENTWISE = 0,                      // layer_f32
    MIXED_ROWS = 1,                             // rows_layer
    MIXED_ATTENTION = 0,                        // attention, and the next one, in the other columns
    MIXED_PRODUCT = SPREAD_CORES - SPREAD_PAIR, // bf16, for few rows of b; and the next one
};
