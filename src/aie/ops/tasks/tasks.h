// tasks: what stands between the products of many rows in a layer of a prompt, ADD, SWIGLU and
// RMS_NORM with its MUL, all of f32, on the PDI of these products. Each would else load the
// decoder's PDI, and the next product its own again: which takes longer than most of them.
//
// Numbers come in units, which are whole rows or an equal part of one each. All cores of a column
// see all units, for gemm sends b's slices up a column, and each core has its own of every round:
//
//     shim      a by channel 0, b by channel 1
//     memtile   two places of a unit for either; out by turns, a's unit and then b's, up the column
//     core      its unit into x's and y's buffers by turns, the others' into memory that nobody
//               reads; results into the tiles' buffers
//     memtile   a place for each core; out in the cores' order
//
// A norm's weights come once, before all rows, into y's buffer of every core.
//
// No unit is done twice: a result may stand where an input did.
#pragma once

#include "aie/ops/mul-mat/mul-mat.h"

enum {
    TASK_MOST_ROW = 4096,  // words of a unit: what x's two buffers hold, of a norm,
    TASK_BY_TURNS = 2048,  // up to what each of them holds, so that they take turns,
    TASK_MOST_PART = 1920, // and else with a margin behind it, where the core's memory ends
    TASK_GRAIN = 64,       // a unit is so many words, some times: what a trip of any loop takes
};

// ---- memory of a core, beside MM_X and MM_Y ----

enum {
    TASK_POOL = MM_C,            // constants of lanes.h, where rows-math.c has them
    TASK_PASSED = MM_C + 0x0800, // units of other cores: rows of words, each a word further
    TASK_OUT = MM_C + 0x1000,    // pong is ping ^ MM_C_OTHER; with a margin on both sides
    TASK_SPILLS = MM_C + 0x7200, // values for which there is no register
    TASK_N_SPILLS = 52,          // vectors, up to the parameters
};
enum { TASK_PASSED_ROW = 128 };
_Static_assert(TASK_SPILLS + 64 * TASK_N_SPILLS <= MM_PARAMS, "they are apart");

// ---- the program ----

// Which of the tasks, in MM_PARAM_MANY, and their other parameters, in places of a product's.
enum {
    MM_MANY_TASK = 16, // a bit, with one of these
    TASK_ADD = 0,
    TASK_SWIGLU,
    TASK_NORM,
    TASK_PARAM_UNITS = MM_PARAM_TILES,
    TASK_PARAM_TRIPS = MM_PARAM_TRIPS,   // of a unit
    TASK_PARAM_FACTOR = MM_PARAM_SLICES, // f32: of a norm, 1 / n and eps
    TASK_PARAM_ADD = MM_PARAM_ROW,
    TASK_PARAM_BUFFERS = MM_PARAM_LAST, // that a unit takes: 1, or 2, which then do not take turns
    TASK_PARAM_X_OTHER,                 // what turns ping into pong: MM_XY_OTHER and MM_C_OTHER, or
    TASK_PARAM_C_OTHER,                 // nothing
};

// A program's registers, which hold what their names say when a task begins.
struct task_lent {
    struct asm_reg units, trips, factor, add; // parameters
    struct asm_reg x, y, c;                   // addresses of the buffers: MM_X, MM_Y, MM_C
    struct asm_reg which;                     // of the tasks, with MM_MANY_TASK
    struct asm_reg one, minus_one;
    struct asm_reg scratch, pointers[5]; // hold nothing
};
// All tasks; then goes to the label.
void tasks_write(struct asm_program * p, const struct task_lent * lent, int end);

// ---- the family ----

struct task_plan {
    int which;         // TASK_ADD and so on
    int64_t unit;      // words
    int64_t units;     // of all columns
    int columns, rows; // that work, cores of each
};

struct aie_plan;
enum status task_plan(struct aie_plan * p, struct error * err);
uint64_t task_bound(const struct kernel_spec * spec);
uint64_t task_likely(const struct kernel_spec * spec); // about how long, as aie_likely
enum status task_stream(const struct aie_plan * p, uint32_t ** insts, size_t * n_words,
                        struct error * err);
