// rows: ops that look at a whole row before they know its result (sums, norms, softmax). A core
// takes rows in one of two ways, with the same code:
//
//     resident   a chunk is one or several whole rows; all passes run over them where they lie
//     streamed   a row longer than a chunk comes once for each pass, chunk by chunk
//
// Within a core everything is a vector of 16 lanes of 32 bits, taken in pairs; lanes behind the end
// of a row are filled with what does not change the pass's result.
#pragma once

#include "aie/ops/lanes/lanes.h"
#include "aie/ops/ops.h"

// ---- memory of a core ----

enum {
    RW_CHUNK_WORDS = 2048,
    RW_CHUNK_BYTES = 4 * RW_CHUNK_WORDS,
    RW_PAIR_WORDS = 32,  // two vectors: what one loop trip takes
    RW_POOL = 0x0000,    // constants, state and parameters, all within reach of one pointer
    RW_PARTIAL = 0x0800, // a column's share of a total, for the column to the east
    RW_TABLES = 0x0880,  // of logarithms
    RW_TABLE_BYTES = 640,
    RW_RANKS = 0x0c00,    // of a vector's lanes, in a sort
    RW_BUFFER_A = 0x4000, // pong is ping ^ RW_CHUNK_BYTES
    RW_BUFFER_B = 0x8000,
    RW_BUFFER_OUT = 0xc000,
    RW_SPILLS = 0x1000, // values for which there is no register
    RW_SCRATCH = 0x2000,
};

// Slots of the pool (32 bytes each): op arguments, a row's numbers, parameters. A slot holds
// one number in all lanes. Constants fill what is left.
enum {
    RW_SLOT_ARGS = 0,
    RW_SLOT_TOTAL = LANES_PARAMS,
    RW_SLOT_MEAN, // also: the maximum
    RW_SLOT_SUM,
    RW_SLOT_FACTOR, // three pieces; constants from here on where there is none
    RW_SLOT_PARAMS = LANES_POOL_SLOTS / 2 - 4, // up to 63 words around the pool pointer
    RW_SLOT_LANES = LANES_POOL_SLOTS / 2 + 2,  // first of two: 0, 1, ... 15
    RW_SLOT_MORE_CONSTS = RW_SLOT_LANES + 2,
};

// What the instruction stream writes before each run, in 32-bit words. What the core would
// otherwise have to decide is written out, so that it need not branch.
enum {
    RW_PARAM_OP,        // which op of the program
    RW_PARAM_STREAMED,  // 1: streamed, else resident
    RW_PARAM_CHUNKS,    // of the run, all passes together
    RW_PARAM_MORE,      // streamed: chunks of a pass behind its first
    RW_PARAM_ROWS,      // in each chunk but the last
    RW_PARAM_ROWS_DIFF, // by how many more in the last
    RW_PARAM_TRIPS,     // vector pairs in a chunk that is not the row's last
    RW_PARAM_TRIPS_DIFF,
    RW_PARAM_TAIL0, // bit n: lane n of the row's last pair is part of the row
    RW_PARAM_TAIL1,
    RW_PARAM_TAIL_AT,  // where that pair stands, in bytes
    RW_PARAM_STRIDE_A, // bytes from row to row in the buffers
    RW_PARAM_STRIDE_B,
    RW_PARAM_STRIDE_OUT,
    RW_PARAM_B_TAKE, // -1 and 1: the second input comes along; else 0, and its locks stay at 0
    RW_PARAM_B_GIVE,
    RW_PARAM_B_ODD,    // 1: the row at hand starts in the upper half of its first word
    RW_PARAM_B_FLIP,   // 1: and the next one does not, and so on
    RW_PARAM_OUT_LOCK, // what is acquired with a chunk: the output, -1; or a lock that is 0, 0
    RW_PARAM_OUT_TAKE,
    RW_PARAM_OUT_GIVE, // 0; the core writes down what it took
    RW_PARAM_ROW_LOCK, // OUT_LOCK and OUT_TAKE as a row begins with them
    RW_PARAM_ROW_TAKE,
    RW_PARAM_INTEGER,   // of a total: all ones, or 0 where it is a float
    RW_PARAM_FIRST,     // all ones: the total starts at zero
    RW_PARAM_FROM_WEST, // 1: the total goes on from the neighbour's
    RW_PARAM_TO_EAST,   // 1: and is handed on instead of written
    RW_PARAM_SINK_TAKE, // -1: a sink comes, into its argument's word; else 0
    RW_PARAM_MASK,      // of softmax, and weights of a norm: enum rows_b_kind
    RW_PARAM_ROUND,     // of conversions: enum aie_rounding
    RW_PARAM_ARGS,      // the op's arguments, not always the kernel's parameters
    RW_N_ARGS = LANES_PARAMS,
    RW_ARG_TOTAL = 0,     // what a total is multiplied by
    RW_ARG_ASCENDING = 0, // of a sort: all ones, or 0
    RW_ARG_FACTOR = 0,    // of a norm, see rows-norm.c
    RW_ARG_ADD,
    RW_ARG_MOST,
    RW_ARG_SCALE = 0, // of softmax: three pieces each, see f_factor
    RW_ARG_SLOPE = 3,
    RW_ARG_SINK = 6,
    // Set by the core: the tail of the chunk at hand.
    RW_PARAM_NOW_TAIL0 = RW_PARAM_ARGS + RW_N_ARGS,
    RW_PARAM_NOW_TAIL1,
    RW_PARAM_NOW_TAIL_AT,
    RW_PARAM_NOW_TRIPS, // where trips waits
    RW_PARAM_COUNT,
};
_Static_assert(RW_PARAM_COUNT <= 48, "the parameters stand within their slots");

// A NaN that nobody asks for: what stands for slots that are not constants.
#define RW_NO_CONSTANT 0x7fdeadadu

enum rows_b_kind { RW_B_NONE, RW_B_F32, RW_B_F16 };

enum {
    RW_LOCK_A_EMPTY,
    RW_LOCK_A_FULL,
    RW_LOCK_B_EMPTY,
    RW_LOCK_B_FULL,
    RW_LOCK_OUT_EMPTY,
    RW_LOCK_OUT_FULL,
    RW_LOCK_GO,
    RW_LOCK_SINK,    // the sink has come
    RW_LOCK_PARTIAL, // the share of the total is there
    RW_LOCK_NONE,    // always 0
    RW_LOCK_COUNT,
};
static const uint8_t rows_lock_init[RW_LOCK_COUNT] = {2, 0, 2, 0, 2, 0, 0, 0, 0, 0};

// ---- ops ----

enum rows_out { RW_OUT_ROW, RW_OUT_SCALAR, RW_OUT_TOTAL };

struct rows_op {
    enum kernel_op op;
    enum aie_rounding round; // of conversions, where the op is exact
    int index;               // the number by which the program knows it; some ops share their code
    int passes;
    enum rows_out out;
    enum dtype in, result;
};

const struct rows_op * rows_find(enum kernel_op op); // NULL: there is none
bool rows_fast(const struct kernel_spec * spec);     // whether the program is a fast one

// A program, as rows-ops.c lists them: its passes, and what it wants of the driver.
enum { RW_MAX_INDEX = 8 }; // most ops of a program that have passes of their own
struct rows_writer;
struct rows_program {
    // At the start of each run, when the arguments are in their slots; NULL: nothing.
    void (*prepare)(struct rows_writer * w);
    // Emits the passes of all of its ops. op_label[i] is the label of the first pass of the op with
    // that rows_op.index.
    void (*passes)(struct rows_writer * w, const int op_label[RW_MAX_INDEX]);
    int n_indices; // ops that it tells apart
    int n_args;
    int n_best;      // of rows_writer.best
    int n_sums;      // of rows_writer.acc
    bool total;      // it has ops with a total
    bool sink;       // a sink may come
    bool halves;     // rows of the second input may begin in the middle of a word
    int first_const; // slots from here on are free for constants
    int exp_vectors; // the most that rows_writer.exp_vectors may be
};
extern const struct rows_program rows_layer, rows_reduce, rows_sort;

struct rows_code { // the core program and the content of its pool
    struct asm_code code;
    uint8_t pool[LANES_POOL_SLOTS * LANES_POOL_SLOT_BYTES];
    uint8_t tables[RW_TABLE_BYTES];
};
void rows_log_tables(uint8_t bytes[RW_TABLE_BYTES]);
enum status rows_compile(const struct aie_program * of, enum aie_arch arch, struct rows_code * out,
                         struct error * err);
// With SOFT_MAX alone of its program's ops: how much of it that is. Nothing runs on it.
enum status rows_soft_max_alone(const struct aie_program * of, enum aie_arch arch,
                                struct rows_code * out, struct error * err);

// ---- inside the program: what the passes of rows-ops.c are written with ----

struct rows_writer {
    struct lanes lanes;
    struct asm_program * p;
    const struct rows_program * program;
    bool alone;                    // the op of its last index only
    struct asm_reg streamed, flag; // scalars; flag is for a moment
    struct asm_reg chunks, rows;   // left: of the run, of the chunk
    struct asm_reg more;           // chunks of the pass behind this one
    struct asm_reg a, out;         // current buffers; b's is RW_BUFFER_B - RW_BUFFER_A further
    struct asm_reg row_a, row_b, row_out; // current row in them
    struct asm_reg trips;                 // loop count
    struct asm_reg pa, pb, pout, ps;      // pointers that walk; ps is for anything
    struct asm_reg first, stage;          // code pointers: first pass, current pass
    struct asm_reg back;                  // and caller; behind the last row: what ends the run
    struct asm_reg acc[6];                // sums: BM, or X (aie_target.sums_in_vectors)
    bool fast;                            // functions need 15 bits only
    bool no_mean;                         // of a norm: it is zero
    int exp_vectors;                      // that an exponential loop takes side by side: 1 or 2
    struct asm_reg best[3];               // X, where the program asks for them
    int wait, total;                      // labels of the driver: what `back` ends the run with
    int next_chunk, next_pass, last_pass, row_done; // where passes go
};

// The address by which the core knows a byte of its own memory.
static inline int32_t rows_address(const struct rows_writer * w, int32_t at) {
    return (int32_t) asm_target(w->p)->own_window + at;
}
void rows_set(struct rows_writer * w, struct asm_reg r, int32_t value);
void rows_copy(struct rows_writer * w, struct asm_reg to, struct asm_reg from);
void rows_param(struct rows_writer * w, struct asm_reg to, int param);
void rows_set_param(struct rows_writer * w, int param, struct asm_reg from);
void rows_label_to(struct rows_writer * w, struct asm_reg pointer, int label);
int32_t rows_slot_offset(int slot); // from the pool pointer

// 16 lanes from two slots.
struct val rows_get_lanes(struct rows_writer * w, int slot);

// ---- the family ----

enum status rows_plan(struct aie_plan * p, struct error * err);
uint64_t rows_bound(const struct kernel_spec * spec);
enum status rows_stream(const struct aie_plan * p, uint32_t ** insts, size_t * n_words,
                        struct error * err);
enum status rows_image(const struct aie_program * of, enum aie_arch arch,
                       struct array_program * out, struct error * err);
