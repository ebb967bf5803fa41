// mul-mat-plan: how a shape is cut up. All tiles of a run have one size, so that the descriptors of
// cores and memtiles are written once; where the sides are no multiple of it, the last tiles begin
// earlier and make some rows again. Along k a row comes to a memtile in chunks, from there to the
// cores in slices, the last of which ends in zeros.
#pragma once

#include "mul-mat.h"

#include "aie/array/array.h"

enum {
    MMP_CHUNKS = 10,        // most in a chain of memtile descriptors
    MMP_RUNS = 512,         // of a descriptor that a step may ask for: two tasks
    MMP_LONGER_N = 8,       // rows of b, where blocks want more of a core's memory
    MMP_CORE_ROWS_GEMM = 4, // or as many as there are columns
    MMP_CORE_ROWS_GEMV = 2,
    MMP_STEP_LIMIT = 1 << 20, // words, of a descriptor's step
    MM_BEFORE = 64,           // bytes of a memtile before rows of units, see mul-mat-design.h
    // Gemv whose cores' rows come by one channel: where the places of their chunks are, beside what
    // other kernels of the decoder's PDI have there (attention's rows and results are at the four
    // quarters of a memtile, those of spread below these).
    MMP_PLACES_FIRST = 136 << 10,
    MMP_PLACES_SECOND = 392 << 10,
    MMP_PLACES_BYTES = 120 << 10,
};

// How the rows of an operand come to a memtile: `rounds` times a chain of `chunks`, the last one
// shorter.
struct mm_cut {
    int rounds, chunks;
    uint32_t chunk_k, last_k;
};

struct mm_plan {
    const struct mm_type * t;
    bool is_vector; // gemv, else gemm
    int columns;
    int core_rows; // in use
    int beside;    // gemv: batches that have columns of their own in a step, each as many

    struct mm_cut y, x; // gemv: x comes in full
    bool y_stays;       // gemm: in the memtile, for all tiles of a step
    int x_held;      // gemm: tiles along m for which x stays in the memtile; 0: it comes for each
    uint32_t slices; // of a tile

    // m: tiles of y_rows; one step makes as many as there are different y streams.
    int y_rows, y_groups;
    int64_t m_steps;

    // n: tiles of x_rows, one a column (gemv: the same in all), `n_tiles` times n_step apart.
    int x_rows, x_groups;
    int64_t n_start[ARRAY_COLUMNS_MOST];
    int64_t n_tiles, n_step;
    int64_t pass;   // n tiles of one step,
    int64_t m_pass; // or m tiles of each y stream, where that is more than one
    int x_pieces;   // gemv: of a row of x
    bool x_stays;   // gemv: in the memtile, for all tiles of a step
    // Gemv: rows of both cores of a column come by one channel, and x by the other one. The cores'
    // tiles lie beside each other then, and chunks have so many places in the memtile.
    bool joint;
    int places;
    bool x_raw, y_raw; // gemv: x is f32, y f16
    int block_bytes;   // y is quantized blocks of so many; 0: it is not
    int block_k;       // numbers of one
    int once_k;        // what comes to a core at once: whole blocks
    int cut_k;         // what chunks are made of: whole blocks, and whole words
    enum kernel_blocks blocks;
    struct kernel_panel panel; // how the blocks lie
    bool fused;                // gemv: those of mm_fuses
    bool wide;                 // gemm's array and blocks: few rows of b in each column
    int many; // gemm: tiles of a core for which a slice of blocks is made bf16; 0: y has none

    int64_t m, n, k;
    int64_t steps; // batches * passes * m_passes
};

// About how many cycles the cores and host memory take for a batch (mul-mat-likely.c).
struct mm_likely {
    int64_t work, memory;
};
struct mm_likely mm_likely(const struct kernel_spec * spec, const struct mm_plan * p);

enum status mm_check(const struct kernel_spec * spec, struct error * err); // mul-mat-check.c
enum status mm_plan_make(const struct kernel_spec * spec, struct mm_plan * p, struct error * err);

// Step i, in the order in which they run.
struct mm_step {
    int64_t batch2, batch3;  // of dst, the first of those beside each other
    int64_t n_first, m_step; // the first of its tiles
    int64_t tiles;           // of each core, along n, or along m
};
// Whether rows of a come through a column: all bring them to gemv, to gemm one for each row of
// cores.
static inline bool mm_plan_brings_y(const struct mm_plan * p, int col) {
    return p->is_vector || col < p->core_rows;
}
// Cores whose tiles leave a column by one channel, and how many channels that makes: gemm has two.
static inline int mm_plan_each(const struct mm_plan * p) {
    return p->is_vector ? p->core_rows : (p->core_rows + 1) / 2;
}
static inline int mm_plan_ways(const struct mm_plan * p) {
    return !p->is_vector && p->core_rows > 1 ? 2 : 1;
}

// Gemv whose x stays: tokens of the memtile's lock that no tile of the last step has taken.
static inline int64_t mm_plan_x_left(const struct mm_plan * p) {
    return p->x_stays ? (p->m_pass - p->m_steps % p->m_pass) % p->m_pass : 0;
}

// Gemm whose x is held: whether it comes with a step, and whether it comes but once in a run.
static inline bool mm_plan_x_comes(const struct mm_plan * p, const struct mm_step * s) {
    return !p->x_held || s->m_step % p->x_held == 0;
}
static inline bool mm_plan_x_once(const struct mm_plan * p) {
    return p->x_held && p->steps <= (p->m_steps + p->m_pass - 1) / p->m_pass;
}

struct mm_step mm_plan_step(const struct mm_plan * p, const struct kernel_spec * spec, int64_t i);

// How often the columns have a batch, one after the other.
int64_t mm_plan_turns(const struct mm_plan * p, const struct kernel_spec * spec);

// Gemv: the y streams of a batch, and which of the batches beside each other has this one.
static inline int mm_plan_streams(const struct mm_plan * p) {
    return p->columns * p->core_rows / p->beside;
}
static inline int mm_plan_batch(const struct mm_plan * p, int stream) {
    return stream / mm_plan_streams(p);
}

// First m of the tiles of y stream `stream` in a step.
int64_t mm_plan_m(const struct mm_plan * p, int64_t m_step, int stream);

// Rows of a from one tile of a stream to its next, where a step goes along m.
static inline int64_t mm_plan_m_far(const struct mm_plan * p) {
    return (p->is_vector && !p->joint ? 1 : p->core_rows) * p->y_rows;
}
// Rows of a that one descriptor brings for a tile: a core's, or those of a column.
static inline int mm_plan_rows(const struct mm_plan * p) {
    return p->joint ? p->core_rows * p->y_rows : p->y_rows;
}

// Bytes that one row takes in a chunk; k-blocks of a chunk, and the zero ones behind its last.
static inline uint32_t mm_row_bytes(const struct mm_plan * p, bool blocks, uint32_t k) {
    if (blocks) {
        return k / (uint32_t) p->block_k * (uint32_t) p->block_bytes;
    }
    return k * (uint32_t) p->t->element_bytes;
}
static inline uint32_t mm_chunk_bytes(const struct mm_plan * p, uint32_t k) {
    return mm_row_bytes(p, p->block_bytes != 0, k);
}
// Gemm: rows of b that a column takes at once, and how many of them have a place in its memtile.
static inline int mm_x_taken(const struct mm_plan * p) {
    return p->many > 1 ? p->many * p->x_rows : p->x_rows;
}
static inline uint32_t mm_x_room(const struct mm_plan * p) {
    return (uint32_t) (mm_x_taken(p) - p->x_rows + p->x_groups * p->t->x_group);
}
// Tiles that a core makes of what a step brings for one.
static inline int mm_tiles_each(const struct mm_plan * p) {
    return p->many > 1 ? p->many : 1;
}
uint32_t mm_chunk_zeros(const struct mm_plan * p, uint32_t k);

// Gemm of block floats: whether the cores make them of quantized blocks.
static inline bool mm_is_made(const struct mm_plan * p) {
    return p->t->stored && p->blocks != KERNEL_BLOCKS;
}

// Whether the cores have few rows of b each.
static inline bool mm_is_few(const struct mm_plan * p) {
    return p->is_vector || p->wide;
}

// Of quantized blocks: slices that come to a core at once, and words of them of a row.
static inline bool mm_by_halves(const struct mm_plan * p) { // gemm: of blocks of q6_K
    return p->many && p->blocks == KERNEL_Q6_K;
}
// Gemm: whether blocks have two places in a core, which takes a tile of half the size for a second
// one, and as many slices of all tiles for either.
static inline bool mm_by_turns_of(const struct mm_plan * p) {
    return p->many == 1 && p->blocks == KERNEL_Q8_0 && p->slices % 2 == 0 &&
           p->x_groups * p->t->x_group <= MM_SHORT_ROWS;
}
static inline uint32_t mm_slices_at_once(const struct mm_plan * p) {
    return mm_by_halves(p) ? 2 : p->block_bytes ? (uint32_t) (p->once_k / mm_slice_k(p->t)) : 1;
}
static inline bool mm_is_long(const struct mm_plan * p) {
    return p->block_bytes && p->once_k > mm_slice_k(p->t);
}
static inline uint32_t mm_slice_words(const struct mm_plan * p) {
    return (mm_chunk_bytes(p, (uint32_t) p->once_k) + 3) / 4;
}
// Every other block begins in the middle of a word.
static inline bool mm_is_between(const struct mm_plan * p) {
    return p->block_bytes && p->cut_k > p->once_k && mm_is_long(p);
}
// They want more of a core's memory than tiles of 16 rows leave.
static inline bool mm_is_longer(const struct mm_plan * p) {
    return mm_is_long(p) && MM_LONG + mm_slice_words(p) * 4 * MM_TILE > MM_C_OTHER;
}
// Most rows of b of a tile: of gemv, and of blocks on gemm's array.
static inline int mm_rows_of_few(const struct mm_plan * p) {
    return mm_is_longer(p) ? MMP_LONGER_N : mm_few_rows(p->t, p->blocks, p->x_raw);
}
static inline uint32_t mm_blocks_at(const struct mm_plan * p) {
    return p->block_k <= 32                            ? MM_BLOCKS
           : mm_is_longer(p)                           ? MM_LONGER
           : p->x_groups * p->t->x_group > MM_FEW_ROWS ? MM_LONG_MORE
                                                       : MM_LONG;
}

// Gemv: words of a row of x, how far apart rows stand in the memtile, and what they take there. Of
// one row alone those that fill up its group are the same numbers, a k-block further each.
static inline uint32_t mm_x_block(const struct mm_plan * p) {
    return (uint32_t) p->t->block_bytes / 4 * (p->x_raw ? 2 : 1);
}
static inline uint32_t mm_x_row(const struct mm_plan * p) {
    return (uint32_t) (p->k / mm_block_k(p->t)) * mm_x_block(p);
}
static inline uint32_t mm_x_apart(const struct mm_plan * p) {
    return p->x_rows == 1 ? mm_x_block(p) : mm_x_row(p);
}
// Parts of a row of x that a descriptor of the memtile can count the k-blocks of; 0: it cannot.
int mm_x_parts(const struct mm_plan * p);
static inline uint32_t mm_x_words(const struct mm_plan * p) {
    return mm_x_row(p) + ((uint32_t) (p->x_groups * p->t->x_group) - 1) * mm_x_apart(p);
}
