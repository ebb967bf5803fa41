// mul-mat-design: what the files that write the instruction stream of a product share.
// mul-mat-array.c has the order of the whole, mul-mat-tiles.c descriptors and tasks of memtiles,
// mul-mat-cores.c those of cores, mul-mat-shim.c those of the shims.
#pragma once

#include "mul-mat-plan.h"

#include "aie/array/flow.h"

enum { MEM_IN = 0 }; // channel of a memtile from the shim, and the next one

// The rest of the way: channels of a memtile, its first lock, the first core of a column.
struct mm_ways {
    int out;       // to the cores: a, and the next one b; gemv: a to either core
    int tiles_in;  // from the first core, and so on
    int tiles_out; // to the shim, and the next one, as many as a plan has ways
    int x_out;     // gemv: b, to both cores
    int locks, first_core;
};
extern const struct mm_ways mm_gemm_ways, mm_gemv_ways;

// Locks of a memtile, from the first on.
enum {
    LOCK_IN_EMPTY = 0,   // + 2 * channel
    LOCK_IN_FULL = 1,    // + 2 * channel
    LOCK_TILE_EMPTY = 4, // + 2 * core row
    LOCK_TILE_FULL = 5,  // + 2 * core row
    LOCK_X_EMPTY = 12,
    LOCK_X_FULL = 13,
    LOCK_STAY_EMPTY = MM_MEM_LOCKS, // + 2 * chunk of rows that stay; set by the instruction stream
    LOCK_STAY_FULL,
};

// Descriptors of a core; those of other kernels on the same PDI are behind them.
enum { CORE_BD_Y, CORE_BD_X, CORE_BD_C, CORE_BDS };

// Gemm: blocks come to cores as units, pairs of words. Those of a slice begin a word before it
// where its second block would else begin in a pair's middle (aie2-quant-gemm.c). Blocks that are
// longer come as they are, first those that stay and a slice's, then those of the others, which
// follow each other in one place (aie2-quant-long.c).
enum { MANY_UNIT = 2 };
// Of q6_K a half of a block, 128 numbers: their lower bits, their upper ones, scales, and the word
// that has d.
enum { MANY_HALF_LOWER = 8, MANY_HALF_UPPER = 4, MANY_HALF_UNITS = 14 };
static inline bool mm_many_before(const struct mm_plan * p) {
    return p->block_k <= 32;
}
static inline uint32_t mm_many_units(const struct mm_plan * p) { // that come at once
    return mm_by_halves(p) ? MANY_HALF_UNITS : (mm_slice_words(p) + mm_many_before(p)) / MANY_UNIT;
}
static inline uint32_t mm_many_later(const struct mm_plan * p) { // of each further slice
    return mm_is_long(p) && !mm_by_halves(p) ? (uint32_t) mm_slice_k(p->t) / 2 / 8 : 0;
}

// Descriptors of one memtile or shim that are still to be written.
struct sheet {
    uint64_t set; // bit by number
    uint32_t words[ARRAY_MEM_BDS][8];
    int operand[ARRAY_MEM_BDS]; // shim: what the address is patched with
    uint32_t offset[ARRAY_MEM_BDS];
};

struct design { // what is written, and for what
    const struct kernel_spec * spec;
    struct mm_plan plan;
    const struct mm_ways * ways;
    struct flow flow;
    struct sheet * sheet;
};

// A group of steps that are pushed together.
struct group {
    int64_t steps, tiles; // tiles of each core
    bool x_comes;         // with the first step
};

// Words of a row of either operand.
static inline uint32_t mm_words(const struct design * d, bool is_y, uint32_t k) {
    uint32_t words = mm_row_bytes(&d->plan, is_y && d->plan.block_bytes, k) / 4;
    return d->plan.wide && d->plan.x_raw && !is_y ? 2 * words : words;
}

// ---- mul-mat-tiles.c: memtiles ----

// Writes what is on the sheet, neighbours by one operation.
void mm_write_sheet(const struct design * d, int col, int row);
// A memtile's descriptors: what goes to the cores, or what comes from them. Then the tasks.
void mm_write_memtile(const struct design * d, int col, bool outputs);
void mm_push_memtile(const struct design * d, int col, const struct group * g, bool outputs,
                     bool odd);
// What comes into a memtile's two places by turns, and leaves them: the lock `empty` and the one
// behind it are theirs.
struct mm_turns {
    struct array_bd in, out;
};
struct mm_turns mm_by_turns(uint32_t address, uint32_t words, int empty);
// Quantized blocks go out slice by slice, word by word, each of them of all rows. Where every other
// block begins in the middle of a word, the second of two begins with the first's last.
void mm_send_words(const struct mm_plan * p, struct array_bd * out, uint32_t rows,
                   uint32_t row_words, uint32_t slices);
// Takes what is left of the tokens that x's tiles take, at the end of all.
void mm_end_x(const struct design * d, int col);
// Where a core makes two tiles at a time: how many of its tiles a memtile has room for.
void mm_set_tiles(const struct design * d, int col, uint32_t n);
// Where blocks go out by pairs of them: tokens of the lock that says that a chunk may come.
void mm_set_pairs(const struct design * d, int col, bool begins);
// Gemm whose x comes and is held more than once: tokens of the lock that says that it may come.
void mm_set_held(const struct design * d, int col, uint32_t n);

// ---- mul-mat-cores.c ----

void mm_write_core_bd(const struct design * d, struct flow_tile at, int bd);
// Tasks of two neighbouring channels. An operation of the stream costs as much as eight more words
// of one, so one writes both queues and the control register between them, which is zero.
void mm_push_pair(const struct design * d, struct flow_tile at, uint32_t queue, const int bds[2],
                  const int64_t runs[2]);
// The core reads its parameters when a first slice has come: they are there before its tasks.
void mm_write_params(const struct design * d, struct flow_tile at, uint32_t tiles, bool task);

// ---- mul-mat-shim.c: a step's descriptors and tasks of a shim ----

// odd: one set of descriptors is for odd steps, one for even ones.
void mm_shim_inputs(const struct design * d, int col, const struct mm_step * s, bool odd);
void mm_shim_outputs(const struct design * d, int col, const struct mm_step * s, bool odd);
