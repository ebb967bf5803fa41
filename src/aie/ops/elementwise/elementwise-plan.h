// elementwise-plan: runs and pieces of an elementwise kernel; see the .c files.
#pragma once

#include "aie/array/spread.h"
#include "aie/ops/ops.h"

enum plan_mode { PLAN_LINEAR, PLAN_PERIOD, PLAN_SPLAT };

enum { PLAN_PERIOD_BDS = 12 }; // shim descriptors that repeat a period: a chain of equal ones

enum { PLAN_A, PLAN_B, PLAN_OUT, EW_OPERANDS };

// A nest of loops over memory, innermost first; strides in bytes, one for each operand.
struct plan_dim {
    int64_t extent;
    int64_t stride[EW_OPERANDS];
};

enum { PLAN_DIMS = 8 };

// One shim descriptor and how often it runs. Words are 32 bits; word number i of a run lies
// i % wrap[0] * step[0] + i / wrap[0] % wrap[1] * step[1] + ... words behind its start, where a
// wrap of 0 means that the dimension goes on to the end and the next is not there.
struct plan_walk {
    uint32_t offset; // of the first word, in bytes
    uint32_t words;  // of one run
    uint32_t wrap[2], step[3];
    uint32_t repeat;      // runs
    uint32_t repeat_step; // words by which each run begins after the one before; 0: all are alike
};

// The walk of one operand over n dimensions; false when one descriptor cannot do it.
bool plan_walk_make(const struct plan_dim * dims, int n, int operand, struct plan_walk * out);

struct ew_plan {
    enum plan_mode mode;
    int64_t element_bytes;
    int64_t run_bytes;
    int64_t runs;
    uint32_t period;                  // words
    struct plan_dim outer[PLAN_DIMS]; // what is left outside a run
    int n_outer;
    // Strided operands: a run is dims[0..level], pieces are cut along dims[level].
    bool strided;
    struct plan_dim dims[PLAN_DIMS];
    int level;
    int64_t piece_limit; // of dims[level] in one piece
    // Pairs of ROTATE whose halves lie so many words apart: as they lie they come to a core, and
    // are brought together in its memory. 0: a run goes pair by pair, or there are none.
    uint32_t half;
    // Words by which each piece of one long run is shorter than the one before, for its column is
    // told later.
    int64_t lead;
    int cores; // that share a piece; 0: one
    int ways;  // pieces that are told together, and so have one length; 0: one
    // The cores that work, and the program with the op's loop: the decoder's, or one of its own.
    struct spread_crew crew;
    const struct aie_program * program;
};

// What a lone core's queues hold at once, where nothing else is in them.
enum { PLAN_LONE_WORDS = 768 * EW_CHUNK_WORDS };
// Words of a piece from which on it is worth a length of its own.
enum { PLAN_LEADS_FROM = 8 * EW_CHUNK_WORDS };

struct plan_piece { // the work of one column
    enum plan_mode mode;
    uint32_t words;
    struct plan_walk walk[EW_OPERANDS]; // b: of the period or the word of the splat in those modes
    uint32_t period, rows;
    uint32_t splat_byte; // where the splatted element stands in its word
};

struct plan_cursor { // zero-initialised: at the start
    int64_t run;
    int64_t done; // of it: words, or steps along dims[level]
    int pieces;   // of it
};

enum status ew_plan_make(const struct kernel_spec * spec, struct ew_plan * plan,
                         struct error * err);
bool ew_plan_next(const struct ew_plan * plan, struct plan_cursor * c, int columns,
                  struct plan_piece * out);

// The streams of a core, for the spread.
extern const struct spread_buffer ew_buffers[SPREAD_STREAMS];
