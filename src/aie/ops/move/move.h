// move: tensors that go elsewhere as they are, in another layout, repeated, or as another float
// type. What keeps its datatype passes a column's memtile and no core: descriptors do it all. What
// changes it goes through the cores. Both run on the array of the program that a decoder layer's
// elementwise ops have, so that a copy between two of these changes nothing there.
//
// Words are what moves: of shorter datatypes a row is an even number of whole words.
#pragma once

#include "aie/ops/elementwise/elementwise-plan.h"

enum { MOVE_IN, MOVE_OUT, MOVE_OPERANDS };

// A nest of loops over units, innermost first; a unit is a word, or two numbers where the datatype
// changes. Steps are in bytes.
struct move_dim {
    int64_t extent, step[MOVE_OPERANDS];
};

enum { MOVE_DIMS = 2 * TENSOR_DIMS };

struct move_plan {
    int64_t unit_words[MOVE_OPERANDS]; // 1 or 2
    int64_t unit_step[MOVE_OPERANDS];  // from a unit's first word to its second
    struct move_dim dims[MOVE_DIMS];
    int n_dims;
    int level;               // a run is dims[0..level], pieces are cut along dims[level]
    int64_t limit;           // of dims[level] in one piece
    int64_t runs;            // of what is outside
    int64_t pieces;          // of all runs, where nobody waits for more
    struct spread_crew crew; // who works
};

struct move_piece { // the work of one column
    int64_t units;
    struct plan_walk walk[MOVE_OPERANDS];
};

struct move_cursor { // zero-initialised: at the start
    int64_t run, done;
};

enum status move_plan_make(const struct kernel_spec * spec, struct move_plan * plan,
                           struct error * err);
bool move_plan_next(const struct move_plan * plan, struct move_cursor * c, int columns,
                    struct move_piece * out);

// ---- the family ----

enum status move_plan(struct aie_plan * p, struct error * err);
uint64_t move_bound(const struct kernel_spec * spec);
enum status move_stream(const struct aie_plan * p, uint32_t ** insts, size_t * n_words,
                        struct error * err);
