// mul-mat: dst[n][m] = sum over k of a[m][k] * b[n][k], as ggml's MUL_MAT has it: the rows of both
// operands run along k. A core makes a tile of dst, up to 64 n by 64 m, and holds it in its memory
// while slices of a and b stream by (the output stands still):
//
//     slice of b (x)   [k-block][n]      SLICE_BYTES for each row: 64 k (i8: 128)
//     slice of a (y)   [k-block][m]
//     tile of dst      [n / h][m / w][h][w]   as the multiplier gives it
//
//                 k-block: k     h, w    a trip: n, m
//     aie2  bf16         8       4, 4    8, 16    8 accumulators, 64 bundles
//           i8           8       4, 8    8, 16    4, 65
//           i16          4       4, 4    8, 8     4, 65
//     aie2p bf16         2       1, 64   4, 64    4, 8 for two k
//           i8           8      16, 8   16, 16    4, 64
//           i16          2      16, 8   16, 16    4, 128
//           block floats 8      16, 8   16, 8     2, 26: bf16, made so slice by slice, or a as
//                                                  it is stored (kernel/shared.h)
//
// Products of few rows of b take a as f16 and b as f32, too, and make them bf16 slice by slice.
//
// Two arrays are built around the same program, which knows neither of them:
//
//     gemm   4 rows of cores in all columns (as many as there are columns, if those are fewer); y
//            is sent along a row, x up a column
//     gemv   2 rows in all columns, up to 16 n: each core has its own y, so that all streams from
//            memory carry rows of a; x is the same for all. The other rows of cores belong to other
//            programs (mixed.h)
#pragma once

#include "aie/array/array.h"
#include "aie/asm/asm.h"
#include "aie/plan/programs.h"

// ---- datatypes ----

struct mm_type {
    enum dtype in, out;
    int element_bytes;
    int block_bytes; // of a row's k-block
    int slice_blocks;
    int out_rows, out_cols; // of the blocks that a tile is made of: h and w above
    int x_group, y_group;   // rows come to the cores in so many
    int trip_x, trip_y;     // of them a trip takes so many
    int trip_bundles;
    bool shared; // numbers are made blocks of eight that share an exponent
    bool stored; // of those: y comes as such blocks, or as q4_0, which the core makes so
    // How the chip multiplies this type, and what its programs have room for.
    bool by_lanes;          // there is no matrix mode: products are made lane by lane
    bool blocks_in_place;   // gemv multiplies quantized blocks as it unpacks them
    bool gemm_takes_blocks; // so does gemm take blocks, of the types that kernel_block says
    bool gemm_unpacks;      // gemm's program has room for UNPACK
    bool gemm_by_blocks;    // there is one of gemm's own that takes blocks and has its tasks
};

enum {
    MM_WHOLE_K = AIE_PRODUCT_K, // elements of a row come in so many
    MM_SLICE_BYTES = 128,       // of a row
    MM_TILE = 64,               // most rows of either side of a tile
    MM_MOST_BUNDLES = 144,      // of a trip
    MM_SHARED_TRIP = 512,       // numbers that a trip makes block floats
    MM_STORED_WORDS = 18,       // of a row's slice, where these are stored so
};

const struct mm_type * mm_type(enum aie_arch arch, enum dtype in);      // NULL: there is none
const struct mm_type * mm_shared_type(enum aie_arch arch, bool stored); // of block floats
static inline const char * mm_type_name(const struct mm_type * t) {
    return t->stored ? "bfp16s" : t->shared ? "bfp16" : dtype_name(t->in);
}
// Of a product whose first operand is that; f16 becomes bf16.
static inline const struct mm_type * mm_type_of(enum aie_arch arch, enum dtype a) {
    return mm_type(arch, a == DTYPE_F16 ? DTYPE_BF16 : a);
}
// What the multiplier gets of the first operand.
static inline enum dtype mm_input(const struct kernel_spec * spec) {
    return spec->op == KERNEL_OP_MUL_MAT_BLOCKS ? DTYPE_BF16 : spec->inputs[0].dtype;
}
static inline const struct mm_type * mm_type_for(const struct kernel_spec * spec) {
    const bool made = kernel_blocks_are_shared(spec);
    return made || spec->op == KERNEL_OP_MUL_MAT_SHARED
               ? mm_shared_type(spec->arch, made || spec->inputs[0].dtype == DTYPE_I8)
               : mm_type_of(spec->arch, mm_input(spec));
}
static inline int mm_block_k(const struct mm_type * t) {
    return t->block_bytes / t->element_bytes;
}
// Bytes of the tile that a trip takes of each of its rows of blocks.
static inline int mm_trip_c_bytes(const struct mm_type * t) {
    return 4 * t->out_rows * t->trip_y;
}
// Whether blocks become bytes and planes of factors (ops/blocks), in programs of their own.
static inline bool mm_by_planes(enum kernel_blocks blocks) {
    return blocks != KERNEL_BLOCKS && kernel_block(blocks)->way == KERNEL_WAY_PLANES;
}
// Whether blocks are multiplied as they are unpacked (aie2-quant-inreg.c).
static inline bool mm_fuses(const struct mm_type * t, enum kernel_blocks blocks) {
    return t->blocks_in_place && blocks != KERNEL_BLOCKS && !mm_by_planes(blocks);
}
// Whether one row of b stands in the columns that four would have (aie2-quant-onerow.c). Blocks of
// q6_K want two slices of it at once, which are there where the core made them bf16 itself.
static inline bool mm_by_columns(const struct mm_type * t, enum kernel_blocks blocks, int x_rows,
                                 bool x_raw) {
    return mm_fuses(t, blocks) && x_rows == 1 &&
           (blocks == KERNEL_Q4_K || (blocks == KERNEL_Q6_K && x_raw));
}
// Gemm's program in bf16 has further tasks, MM_PARAM_MANY: it makes f32 bf16, and where there is
// room beside its loops, blocks (UNPACK); where not, products of many rows of b may take them. That
// of stored block floats has what stands between products as well.
static inline bool mm_has_tasks(const struct mm_type * t) {
    return t->in == DTYPE_BF16 && (!t->shared || t->stored);
}
// Whether products of many rows of b take y as such blocks; and whether the program of these is
// that of numbers, else it is one of quantized blocks alone.
static inline bool mm_takes_many(const struct mm_type * t, enum kernel_blocks blocks, bool paired) {
    const bool whole = kernel_block_bytes(blocks) % 4 == 0 || kernel_block(blocks)->scale == 0;
    return t->gemm_takes_blocks && kernel_block(blocks)->gemm && (paired || whole);
}
// Whether UNPACK takes such panels: of blocks whose scales are bytes there is no room for them
// beside gemm, where numbers go lane by lane (quant-table.c).
static inline bool mm_unpacks(const struct mm_type * t, enum kernel_blocks blocks, bool paired) {
    return !paired || !t->by_lanes || !kernel_block(blocks)->power;
}
static inline bool mm_beside_numbers(enum kernel_blocks blocks) {
    return blocks == KERNEL_Q4_0;
}
// Whether gemm has a program of its own for such blocks, which multiplies b as bf16.
static inline bool mm_by_gemm(const struct mm_type * t, enum kernel_blocks blocks) {
    return t->gemm_by_blocks && blocks != KERNEL_BLOCKS && !mm_by_planes(blocks);
}
// Most rows of b that gemv takes, or a column of gemm where y is blocks: more where they come as
// bf16 and blocks leave room for larger tiles.
enum { MM_FEW_ROWS = 16, MM_MORE_ROWS = 24, MM_SHORT_ROWS = 32 };
static inline int mm_few_rows(const struct mm_type * t, enum kernel_blocks blocks, bool x_raw) {
    return !mm_by_gemm(t, blocks) || x_raw                             ? MM_FEW_ROWS
           : kernel_block(blocks)->way == KERNEL_WAY_SHORT             ? MM_SHORT_ROWS
           : blocks == KERNEL_Q4_K /* the shortest of the long ones */ ? MM_MORE_ROWS
                                                                       : MM_FEW_ROWS;
}
static inline int mm_slice_k(const struct mm_type * t) {
    return mm_block_k(t) * t->slice_blocks;
}

// ---- the core ----

// Data memory; pong is ping ^ its OTHER. What a bundle accesses together lies in banks of its own:
//
//     bank 0  0x0000   tile, ping
//     bank 1  0x4000   tile, pong: a DMA channel has it while the core has ping
//     bank 2  0x8000   y, ping and pong
//     bank 3  0xc000   x, ping and pong
//
// The tiles fill their banks. Parameters come when no tile is there, and lie in one.
enum {
    MM_C = 0x0000,
    MM_C_OTHER = 0x4000,
    MM_PARAMS = 0x7f00,
    MM_Y = 0x8000,
    MM_X = 0xc000,
    MM_XY_OTHER = 0x2000,
    MM_X_RAW = 0x1000, // behind x: where it comes as f32, of which there are up to 16 rows
};

// Gemv has tiles of up to 4 KiB, and the rest of their banks for slices of y that come as quantized
// blocks: two blocks of each row, word by word, [word][64 rows]. See quant.h.
enum {
    MM_BLOCKS = 0x2000, // pong is ping ^ its OTHER
    MM_BLOCKS_OTHER = 0x4000,
    MM_SCALES = 0x3400, // [block][64 rows]: as f16, as bf16
    MM_SPREAD = 0x3600, // the same, each as often as a multiplication wants it
};
// Those that are longer than a slice have more of these banks, and the second half of y's, for
// there is one slice in bf16. See quant-k.c.
enum {
    MM_LONG = 0x1000,        // pong is ping ^ MM_BLOCKS_OTHER
    MM_LONG_MORE = 0x1800,   // behind tiles of more than 16 rows
    MM_LONGER = 0x0800,      // of blocks that want more, with tiles of half the size
    MM_LONG_BYTES = 0xa000,  // [k / a unit's][64 rows]: numbers of a slice
    MM_LONG_SIX = 0xb000,    // scales and minima as numbers
    MM_LONG_SCALES = 0xb400, // what these are multiplied with: as f16, as bf16
    MM_LONG_TABLE = 0xb800,  // [group of numbers][64 rows]: the factors of a block
    MM_LONG_SPREAD = 0xc800, // those of a slice, each as often as a multiplication wants it
};
// Of pairs the second one's scale stands a word before it. Nothing else begins at odd ones of
// these.
enum { MM_PAIRED_LATER = 4 * MM_TILE };
enum { MM_LONG_HEADER = 16 * MM_TILE }; // of those with d first, before their numbers
// Gemm has one slice of y in bf16 then, and in the other half of its bank the next one as it comes.
// See aie2-quant-gemm.c.
enum {
    MM_MANY_BLOCKS = 0xa000,
    MM_MANY_BLOCKS_EVEN = 0x2000, // where tiles leave room for a second place: of even slices
    MM_MANY_OTHER_BIT = 15,       // from one to the other
    MM_MANY_SPREAD = 0xb800,      // [four rows][block]: scales in bf16, each twice
    MM_MANY_TABLE = 0xb800,       // of blocks that are longer than a slice: see aie2-quant-long.c
};
// Which blocks these are, in MM_PARAM_TASK, where a program takes several kinds.
enum mm_kind { MM_KIND_Q8_0, MM_KIND_Q4_K, MM_KIND_Q6_K, MM_KINDS };
enum { MM_KIND_TURNS_BIT = 2, MM_KIND_TURNS = 1 << MM_KIND_TURNS_BIT }; // two places by turns
// Where blocks become bf16 and nothing is multiplied: numbers, [k / 2][64 rows][2], at MM_Y; pong
// is that ^ this one. All else is as it is in gemv.
enum { MM_UNPACKED_OTHER = 0x6000 };
// Where blocks become block floats: behind these they come, and what is left of either half has
// their scales, [eight rows][8 rows][8 times]. See aie2p-shared-blocks.c.
enum {
    MM_MADE_RAW = 0x1200, // behind y
    MM_MADE_SCALES = 0x9c00,
};
// Places of blocks that are multiplied as they are unpacked: aie2-quant-inreg.c.
enum {
    MM_FUSED_PAGE = MM_Y, // [8 rows][2][4 rows][2 sums]: what these are multiplied with
    MM_FUSED_FACTORS = MM_LONG_SPREAD, // [word][8 k][4 rows]: b
};
// Places of blocks that have a table of numbers: quant-table.c.
enum {
    MM_TABLED_WORDS = 0x1000,  // [word][64 rows]: as they come, but in whole words
    MM_TABLED_VALUES = 0x1800, // the table, each number 64 times, and bits
    MM_TABLED_BYTES = 0x5000,  // [word][64 rows]: numbers
    MM_LONG_VALUES = 0x3400,   // the table, beside blocks that are longer than a slice
};
enum mm_bank { MM_BANK_C, MM_BANK_Y, MM_BANK_X, MM_BANKS };

// What the instruction stream writes before the tasks of a run, in 32-bit words.
enum {
    MM_PARAM_TILES,
    MM_PARAM_SLICES, // of each tile
    MM_PARAM_TRIPS,  // of each slice; gemv lane by lane: 0: there is one row of x
    MM_PARAM_ROW,    // bytes of four rows of the tile
    MM_PARAM_LAST,   // trips of one row of trips, less one
    MM_PARAM_C_WRAP, // steps of the pointers, see mm_params
    MM_PARAM_X_STEP,
    MM_PARAM_X_NEXT,
    MM_PARAM_X_WRAP,
    MM_PARAM_Y_STEP,
    MM_PARAM_Y_NEXT,
    MM_PARAM_Y_WRAP,
    MM_PARAM_X_TRIPS, // that make a slice bf16, where it is not, or block floats; in programs that
                      // do so
    MM_PARAM_Y_TRIPS, // of stored block floats x's
    MM_PARAM_TASK,   // an enum mm_task; in a product the core's own; of stored block floats: eights
                     // of rows of y that come as blocks, 0: as such floats; of many rows an
                     // enum mm_kind
    MM_PARAM_BITS,   // of quantized numbers; 0: y is none
    MM_PARAM_LATER,  // of long blocks: slices of one, less one; else 0
    MM_PARAM_PASSES, // of those that are multiplied as they are unpacked: 1: q4_0, 2: 32 numbers in
                     // each, or an MM_BY_COLUMNS
    MM_PARAM_TABLED, // there is a table of bytes
    MM_PARAM_PAIRS,  // of k that a slice is set apart by; 0: it is apart
    MM_PARAM_PAIRED, // two blocks have their scales before the numbers of both: a word; else 0
    // Runs are told no more than they want, see mm_write_params: a word takes 13 cycles and more.
    MM_PARAM_FEW,
    MM_PARAM_NUMBERS = MM_PARAM_FEW, // where the numbers of a slice are
    MM_PARAM_APART,   // from a slice's first block of bytes to the second, less a word
    MM_PARAM_AS_COME, // whether these are the words that came: all bits or none
    MM_PARAM_MORE_THAN_FEW,
    MM_PARAM_ROWS = MM_PARAM_MORE_THAN_FEW, // trips for all rows of such a slice
    MM_PARAM_RAW,                           // where the block before is
    MM_PARAM_ONE,                           // in bf16: how often a group's minimum is taken away
    MM_PARAM_LESS,                          // from a group's scales to its minima
    MM_PARAM_PLANE_WORDS,                   // of a slice, of which all numbers have one scale
    MM_PARAM_GROUP, // of the groups of 16 numbers the bits that tell the scales, and how far down
    MM_PARAM_GROUP_SHIFT,
    MM_PARAM_TABLE_SHIFT, // from a slice's number to its place in the table
    MM_PARAM_TABLE_NEXT,  // from there to its second half
    MM_PARAM_TABLE_LESS,  // in bf16: what a byte of the table is too much, and 256
    MM_PARAM_ODD,         // bit of the slices that are left: the block begins in a word's middle
    MM_PARAM_OTHER,       // from a block's place to the next one's, bits to be changed
    MM_PARAM_D_AT,        // where a block has d
    MM_PARAM_D_SECOND,    // 1: behind it is dmin
    MM_PARAM_BEFORE_FUSED,
    MM_PARAM_FUSED = MM_PARAM_BEFORE_FUSED, // of blocks that are multiplied as they are unpacked:
                                            // groups of 4 n
    MM_PARAM_TOP,                           // upper bytes of two numbers
    MM_PARAM_MINUS,                         // in bf16: what is too much of each
    MM_PARAM_PAIR,         // whether b's number is a factor of the lower half of a byte, of the
    MM_PARAM_PAIR_OTHER,   // upper: all bits or none; of the second pass the other way around
    MM_PARAM_NUMBERS_NEXT, // from those of the first pass to those of the second: 2048 or 0
    MM_PARAM_PLANES,       // where the factors of a slice are; of the slices of a block bits
    MM_PARAM_PLANES_OF,    // that tell which
    MM_PARAM_PLANES_SHIFT, // from a pass to its planes, and from its first sum's to the second's
    MM_PARAM_PLANES_NEXT,
    MM_PARAM_MINIMA, // where a block's minima are, from its factors; 0: it has none
    MM_PARAM_PAGES = MM_PARAM_PLANES_SHIFT, // by columns: pages that are made at once, and in
                                            // PLANES_NEXT and MINIMA how far planes of columns and
                                            // of sums are apart
    MM_PARAM_PASS = MM_PARAM_MINIMA + 1,    // which one it is
    MM_PARAM_BEFORE_WORDS,
    MM_PARAM_FIRST =
        MM_PARAM_BEFORE_WORDS, // byte of a slice at which the first block's numbers begin,
    MM_PARAM_BLOCK,            // from there to the second's,
    MM_PARAM_BLOCK_TRIPS,      // vectors of them, 0: all scales come first,
    MM_PARAM_MORE,             // what is added to each byte,
    MM_PARAM_WORDS,            // and where they go
    MM_PARAM_TABLE,            // bytes,
    MM_PARAM_TABLE_BITS = MM_PARAM_TABLE + 4, // and the bits of a place in it
    MM_PARAM_COUNT,
    // Gemm in bf16, where y may be quantized blocks: tiles that a slice of y is made bf16 for; 0:
    // it is; MM_MANY_CONVERTS, MM_MANY_UNPACKS: nothing is multiplied (convert-many.c, unpack.c).
    MM_PARAM_MANY = MM_PARAM_X_TRIPS,
    MM_MANY_CONVERTS = 8,
    MM_MANY_UNPACKS = 9,
};

// In place of those of blocks that are multiplied as they are unpacked: of those that go by planes
// (ops/blocks).
enum {
    MM_PARAM_HALVES = MM_PARAM_BEFORE_FUSED,  // where f16 numbers are, up to 4 of them,
    MM_PARAM_N_HALVES = MM_PARAM_HALVES + 4,  // and how many
    MM_PARAM_NUMBERS_AT,                      // where the numbers of two blocks begin
    MM_PARAM_ALIGN = MM_PARAM_NUMBERS_AT + 2, // vectors of words that begin in others' middle
    MM_PARAM_FACTORS,                         // vectors of scales and minima of a slice
    MM_PARAM_SCALES_TOP,                      // upper bytes of two scales
    MM_PARAM_GROUPS,                          // of numbers that have one scale
    MM_PARAM_AFTER_PLANES,
    MM_PARAM_ODD_BY = MM_PARAM_D_SECOND, // f16 numbers of odd blocks are so much further
};

// Values of MM_PARAM_PASSES: a slice of q4_K, or two slices of q6_K at once.
enum { MM_BY_COLUMNS = 4, MM_BY_TWO_SLICES = 5 };

enum {
    MM_LOCK_Y_EMPTY,
    MM_LOCK_Y_FULL,
    MM_LOCK_X_EMPTY,
    MM_LOCK_X_FULL,
    MM_LOCK_C_EMPTY,
    MM_LOCK_C_FULL,
    MM_LOCK_COUNT,
    MM_LOCK_CONVERT = MM_LOCK_COUNT, // those of convert.h, where the program converts as well
    MM_LOCK_ALL = MM_LOCK_CONVERT + 4,
};
static const uint8_t mm_lock_init[MM_LOCK_ALL] = {2, 0, 2, 0, 2, 0, 0, 0, 2, 0};

// What a program that converts as well is to do, as the instruction stream tells it.
enum mm_task { MM_MULTIPLY, MM_CONVERT_F32, MM_CONVERT_F16 };
enum { MM_TASK = MM_PARAMS + 4 * MM_PARAM_TASK };

// For tiles of x_groups groups of n by y_groups of m. x_raw: it is f32; y_raw: f16.
struct mm_shape {
    int x_groups, y_groups;
    int x_rows;     // of the groups of x: those that are there
    bool is_vector; // gemv
    uint32_t tiles, slices;
    bool x_raw, y_raw;
    int64_t k;
    enum kernel_blocks blocks; // of y; KERNEL_BLOCKS: it has none
    bool paired;               // these lie in pairs, see kernel_panel
    int many;   // of gemm: tiles for which a slice of blocks is unpacked, or MM_MANY_UNPACKS
    bool turns; // and there are two places for these
};
void mm_params(const struct mm_type * t, const struct mm_shape * s, uint32_t out[MM_PARAM_COUNT]);

// What the loop asks of each bank in a trip, and how often two accesses meet there.
struct mm_bank_use {
    int accesses[MM_BANKS], conflicts;
};
// The program of gemv in bf16, which makes operands bf16 as well. It goes when MM_LOCK_X_FULL is
// given.
// planes: of blocks it takes those of mm_by_planes and no others.
enum status mm_vector_program(enum aie_arch arch, bool planes, struct asm_code * out,
                              struct error * err);
// Gemm's program in bf16 whose y are blocks, with its tasks: as gemv's are where it multiplies as
// gemv does (gemm_by_blocks), else of the kinds of enum mm_kind (gemm_takes_blocks).
enum status mm_blocks_program(enum aie_arch arch, struct asm_code * out, struct error * err);
// The program that makes blocks bf16 and nothing else, on the array of gemm. It goes as gemm's
// does.
enum status mm_unpack_program(enum aie_arch arch, bool planes, struct asm_code * out,
                              struct error * err);
// use may be NULL.
enum status mm_program(enum aie_arch arch, const struct mm_type * t, struct asm_code * out,
                       struct mm_bank_use * use, struct error * err);

// ---- what a trip does: one file a target (aie2-block.c, aie2p-block.c) ----

struct mm_block {
    struct asm_program * p;
    struct asm_reg x, y, from[2], to[2]; // pointers: slices, and two rows of the tile, in and out
    struct asm_reg conf, first; // of the multiplier, and of a slice's first multiplications
    struct asm_reg mode, shift; // whatever else the datatype wants
    struct asm_reg again, mode_high, now, left, pairs, acc[4];
    struct asm_reg levels[3], counts[2]; // block floats: see aie2p-shared.c
    int interval;                        // bundles of a trip
    bool small; // trips do not overlap: gemv has few of them, and much else in its program
    uint8_t uses[MM_BANKS][MM_MOST_BUNDLES]; // accesses in each cycle of the loop
    int accesses[MM_BANKS];
    int conflicts; // of a trip: accesses that meet another one in their bank
};

// Where the pointers stand, seen from the first byte of what they are to walk.
struct mm_offsets {
    int x, y, c;
};

// What a slice is to run on: where x, y and the tile begin, bytes from a row of the tile's blocks
// to the next, trips; and where y may be apart, the pairs by which it is to be.
struct mm_at {
    struct asm_reg x, y, c, row, trips;
    bool is_apart; // y is apart, as its core has written it
    bool may_be_apart;
    struct asm_reg pairs;
};

struct mm_machine {
    // Takes registers that have to be certain ones, before all others; NULL: there are none.
    void (*reserve)(struct mm_block * b, struct asm_program * p);
    // Takes registers and sets them; once, first.
    void (*begin)(struct mm_block * b, struct asm_program * p, const struct mm_type * t);
    struct mm_offsets (*offsets)(const struct mm_type * t);
    uint32_t (*config)(const struct mm_type * t); // of the multiplier; bit 0: no accumulator yet
    void (*slice)(struct mm_block * b, const struct mm_type * t, const struct mm_at * at);
    bool sets_apart;          // pairs of k in a slice of y, before it multiplies
    uint8_t x_walks, y_walks; // bits: those of the walks 0-3 that go through x or y, not the tile
};
extern const struct mm_machine mm_aie2, mm_aie2p, mm_aie2p_shared;
// Apart from it, because who writes streams needs no core programs.
enum { MM_TYPES = 5 };
extern const struct mm_type mm_aie2_types[MM_TYPES], mm_aie2p_types[MM_TYPES], mm_aie2_fused;

// ---- the family ----

struct aie_plan;
enum status mul_mat_plan(struct aie_plan * p, struct error * err);
uint64_t mul_mat_bound(const struct kernel_spec * spec);  // mul-mat-bound.c
uint64_t mul_mat_likely(const struct kernel_spec * spec); // mul-mat-likely.c
enum status mul_mat_stream(const struct aie_plan * p, uint32_t ** insts, size_t * n_words,
                           struct error * err);
enum status mul_mat_image(const struct aie_program * of, enum aie_arch arch,
                          struct array_program * out, struct error * err);
// Products whose PDI has conversions and tasks beside them, as parameters of these say; that PDI,
// or NULL where the chip has none.
enum mm_beside { MM_BESIDE_BF16, MM_BESIDE_STORED, MM_BESIDE_BLOCKS, MM_BESIDES };
const struct aie_program * mm_beside(enum aie_arch arch, uint32_t which);
// Locks of a memtile on which the products of few rows hang, behind those of spread.h.
enum { MM_MEM_LOCKS = 14 };
// Gemv: places of a core's chunks in the memtile, at most, and tokens of the locks that tell which
// are empty.
static inline int mm_places(enum aie_arch arch) {
    return arch == AIE_ARCH_AIE2P ? 8 : 2;
}
extern const uint8_t mm_mem_lock_init[MM_MEM_LOCKS];
bool mul_mat_panel(const struct kernel_spec * product, struct kernel_panel * out); // aie_panel
bool mul_mat_reads_by(const struct kernel_spec * product, int64_t rows);           // aie_reads_by
// The array of products that are no vectors: a program for all cores.
enum status mul_mat_pdi(const struct aie_program * of, enum aie_arch arch, int columns,
                        const struct array_program * program, uint8_t ** pdi, size_t * size,
                        struct error * err);
