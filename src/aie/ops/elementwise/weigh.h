// weigh: rows, each times a number of its own, added up: what a mixture makes of its experts'
// results. A column has a part of the row; its core, that of the elementwise ops in the decoder's
// PDI, gets the same part of every row and all weights chunk by chunk, and sends the sums of the
// part.
//
//     a chunk of a    row 0, words i ..    row 1, words i ..    ...    row n - 1, words i ..
//     a chunk of b    weight 0 .. n - 1
//     of the result   words i ..
#pragma once

#include "aie/ops/ops.h"

struct weigh_plan {
    int columns;     // that share a row, as evenly as can be
    uint32_t part;   // words of a row in a chunk
    uint32_t chunks; // of a column, for a token
};

// ---- the family: see aie/plan/plan.h ----

enum status weigh_plan(struct aie_plan * p, struct error * err);
uint64_t weigh_bound(const struct kernel_spec * spec);
enum status weigh_stream(const struct aie_plan * p, uint32_t ** insts, size_t * n_words,
                         struct error * err);
