// convert: brings rows of f32 or f16 to bf16 for MUL_MAT. Each row of K numbers is filled up with
// zeros to Kp, the next multiple of 8; numbers are rounded to nearest even, infinities and NaNs
// stay what they are. The kernel's parameter says which pieces of a number a row of the output
// holds:
//
//     0  hi              Kp elements: hi is the number in bf16
//     1  hi, lo, hi      3 Kp elements, each piece a run of Kp: lo is what is left, x - hi, in bf16
//     2  hi, hi, lo
//
// A row of layout 1 times a row of layout 2 is hi hi + lo hi + hi lo: a product to about 16 bits
// out of a bf16 multiplication of three times the length. lo is 0 where hi is infinite or a NaN,
// and where it would be smaller than 2^-126, which the core's adder does not keep. For f16 numbers
// hi + lo is exact.
//
// Rows start on words: strides are multiples of 4 bytes. Of an odd number of f16 the whole last
// word is read, so that the source's memory must end on a word.
//
// A core sees no rows. The descriptors set rows apart in its buffers by the padded length, in a
// buffer that was cleared before, so that a chunk is one run of numbers in and one run for each
// piece out; on the way out the descriptors put the pieces in their places.
#pragma once

#include "aie/ops/mul-mat/mul-mat-plan.h"

enum {
    CV_HI,
    CV_HI_LO_HI,
    CV_HI_HI_LO,
    CV_LAYOUTS,
    CV_HI_MANY = CV_LAYOUTS, // as CV_HI, on the PDI of products of many rows (convert-many.c): of
                             // this and those behind it enum mm_beside says which
    CV_PLACES = CV_HI_MANY + MM_BESIDES,
    CV_HI_STORED = CV_HI_MANY + MM_BESIDE_STORED,
    CV_HI_BLOCKS = CV_HI_MANY + MM_BESIDE_BLOCKS,
};
static inline bool convert_is_placed(const struct kernel_spec * spec) {
    return spec->params[0] >= CV_HI_MANY && spec->params[0] < CV_PLACES;
}
// Of one that is not placed where it goes when there is much to do.
static inline uint32_t convert_beside(const struct kernel_spec * spec) {
    return convert_is_placed(spec) ? spec->params[0] - CV_HI_MANY : MM_BESIDE_BF16;
}
static inline bool convert_has_pieces(const struct kernel_spec * spec) {
    return spec->params[0] == CV_HI_LO_HI || spec->params[0] == CV_HI_HI_LO;
}

// ---- memory of a core ----

enum {
    CV_TRIP = 32,    // elements that a loop trip takes
    CV_CHUNK = 2048, // most elements of a chunk
    CV_PARAMS = 0x0000,
    CV_SPILLS = 0x1000,    // values for which there is no register
    CV_BUFFER_IN = 0x4000, // pong is ping ^ CV_IN_BYTES
    CV_IN_BYTES = 4 * CV_CHUNK,
    CV_BUFFER_OUT = 0x8000, // pong is ping ^ CV_OUT_BYTES
    CV_OUT_BYTES = 0x4000,
    CV_PIECE_BYTES = 2 * CV_CHUNK, // from piece to piece
};

// What the instruction stream writes before each run, in 32-bit words.
enum {
    CV_PARAM_CHUNKS,
    CV_PARAM_TRIPS,      // in each chunk but the last
    CV_PARAM_TRIPS_LAST, // and in the last
    CV_PARAM_PIECES,     // 0: hi alone
    CV_PARAM_HI_AT,      // where the second hi goes, in bytes behind the first
    CV_PARAM_LO_AT,
    CV_PARAM_CLEAR, // trips of 64 bytes that clear the buffers; 0: rows have no padding
    CV_PARAM_CLEAR_AT,
    CV_PARAM_ODD, // f16 rows of a chunk whose last word holds one number only; else 0
    CV_PARAM_ODD_AT,
    CV_PARAM_ODD_STRIDE,
    CV_PARAM_COUNT,
};

enum {
    CV_LOCK_IN_EMPTY = MM_LOCK_CONVERT, // the core gives both buffers when they are clear, and
                                        // takes them back
    CV_LOCK_IN_FULL,
    CV_LOCK_OUT_EMPTY,
    CV_LOCK_OUT_FULL,
};

// ---- parts of a program ----

// Once, first: how numbers are rounded, and where values go for which there is no register.
void convert_begin(struct asm_program * p);
// A run from its parameters on, for one source datatype and all layouts; then goes to the label.
// The registers that it takes are free again afterwards.
void convert_section(struct asm_program * p, enum dtype source, int end);
// The same for both sources, in registers that another program lends. Its convert_loops stand at
// labels and return through a pointer. This takes half of the program memory.
struct convert_lent {
    struct asm_reg scalars[6], one, minus_one; // these hold 1 and -1
    struct asm_reg is_f16;                     // 0: the source is f32
    struct asm_reg trips, from[2], to;         // of the loop
    struct asm_reg pointers[2], back;
    int f16_loop, f32_loop;
};
void convert_with(struct asm_program * p, const struct convert_lent * lent, int end);
// Trips of CV_TRIP numbers to bf16, from where both pointers stand to where the third does, which
// may be the same place. Limited: infinities and NaN become large numbers of their sign, for what
// takes no others.
void convert_loop(struct asm_program * p, enum dtype source, bool limited, struct asm_reg trips,
                  struct asm_reg from, struct asm_reg from_again, struct asm_reg to);

// ---- plan: which rows each core takes ----

// A rectangle of the source: n1 * n2 rows of `width` elements, which belong together as one run of
// a core.
struct convert_piece {
    uint32_t width;
    int64_t n1, n2, n3; // rows along each dimension
    int64_t step1, step2,
        step3;        // bytes between them in the source; steps fit a descriptor where n > 1
    uint64_t in, out; // bytes from the start of source and output
    int64_t out_step; // bytes from row to row in the output, where it is not packed
    bool packed_out;  // its part of the output is one run of bytes
};

// Rows are taken whole where they fit. Longer ones are cut into slices of one width and a rest, and
// these become rows: either all slices of one row, or the same slice of all rows.
struct convert_layer {
    int64_t first;  // element of the row
    uint32_t width; // of a slice
    int64_t slices;
    bool along; // the slices of one row are the rows of a block, else the rows of one slice
    int64_t blocks;
};

struct convert_plan {
    int element, pieces;   // bytes of a source element; 1 or 3
    int64_t row, padded;   // elements
    int64_t n[3], step[3]; // rows: dimensions that do not merge
    int inner;             // how many of these a block covers
    int64_t outer;         // how many times these are there
    int64_t group;         // so many of them are one block
    struct convert_layer layers[2];
    int n_layers;
    int64_t blocks;
};

struct convert_cursor { // zero-initialised: at the start
    int layer;
    int64_t block, i1, i2;
};

enum status convert_plan_make(const struct kernel_spec * spec, struct convert_plan * plan,
                              struct error * err);
// The next piece of work when there are that many cores; false at the end.
bool convert_plan_next(const struct convert_plan * plan, struct convert_cursor * c, int cores,
                       struct convert_piece * out);
// 32-bit words of a source row, and the padded width of a row.
uint32_t convert_words(const struct convert_plan * plan, uint32_t width);
uint32_t convert_padded(uint32_t width);
// Rows in each chunk of a piece but the last.
uint32_t convert_chunk_rows(const struct convert_plan * plan, uint32_t width, int64_t rows);

// ---- plan of UNPACK: see unpack.c ----

struct unpack_plan {
    struct mm_plan blocks; // as products know them
    int columns;
    int cores, ways;         // that work in each, channels by which units leave
    int64_t slices, at_once; // of a row; of these come in a chunk
    int64_t unit;            // of these are one
    int64_t rows, groups;    // that a core has at a time, and how often
    int64_t all;
    int64_t in_step, out_step; // words from row to row
    struct kernel_panel panel; // how the blocks lie
};

// ---- the family ----

enum status convert_plan(struct aie_plan * p, struct error * err);
uint64_t convert_bound(const struct kernel_spec * spec);
uint64_t convert_likely(const struct kernel_spec * spec); // about how long, as aie_likely
enum status convert_stream(const struct aie_plan * p, uint32_t ** insts, size_t * n_words,
                           struct error * err);
// Does it run on the PDI of products of many rows? Then convert-many.c makes its stream.
bool convert_is_many(const struct kernel_spec * spec);
enum status convert_many_stream(const struct aie_plan * p, uint32_t ** insts, size_t * n_words,
                                struct error * err);
// Quantized blocks (unpack.c), on the PDI of products of many rows or on their own.
enum status unpack_plan(struct aie_plan * p, struct error * err);
enum status unpack_stream(const struct aie_plan * p, uint32_t ** insts, size_t * n_words,
                          struct error * err);
