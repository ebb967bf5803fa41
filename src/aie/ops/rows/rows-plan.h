// rows-plan: how the rows of a kernel are dealt out to columns; see the .c file.
#pragma once

#include "aie/array/spread.h"
#include "rows.h"

enum { RW_ROWS_AGAIN = 3 * ARRAY_MAX_REPEAT }; // of one row of b: what a queue takes

struct rows_plan {
    const struct rows_op * op;
    int64_t row;  // elements of a row
    int64_t rows; // of all
    bool streamed;
    uint32_t chunk; // streamed: elements of a chunk
    int held;       // streamed: cores of a column whose rows the memtile holds; 0: none
    bool has_b;
    enum dtype b_dtype;
    bool flat; // a total over all elements: a piece is any number of them, taken as one row
    int64_t run_rows,
        runs;         // runs of rows with the same slope and sink, along which b goes on or repeats
    int64_t b_period; // rows of b before it repeats
    struct spread_crew crew; // who works
};

struct rows_piece {            // the work of one column
    int64_t first_row, rows;   // flat: rows is 1
    int64_t b_row;             // b's row for the first one
    int64_t b_period_row;      // and the first row of the period that it belongs to
    uint32_t offset, elements; // flat: which elements
    int64_t run;
};

struct rows_cursor { // zero-initialised: at the start
    int64_t run, row;
};

enum status rows_plan_make(const struct kernel_spec * spec, struct rows_plan * plan,
                           struct error * err);
bool rows_plan_next(const struct rows_plan * plan, const struct kernel_spec * spec,
                    struct rows_cursor * c, int columns, struct rows_piece * out);
int64_t rows_plan_pieces_left(const struct rows_plan * plan, const struct kernel_spec * spec,
                              struct rows_cursor c, int columns);

// A held row as the memtile gives it to its core.
struct spread_held rows_held(const struct rows_plan * plan);
bool rows_input_there(const struct kernel_spec * spec, int i);
// Elements of a row in the buffers: whole pairs of vectors.
uint32_t rows_stride(int64_t row);
// Most rows of a resident chunk.
uint32_t rows_per_chunk(const struct rows_plan * plan);
float rows_slope(const struct kernel_spec * spec, int64_t head);
