// quant: slices of quantized blocks, which a core makes bf16 before it multiplies, or multiplies as
// it unpacks them (aie2-quant-inreg.c). A slice is two blocks of 32 numbers of each row, an f16
// scale and the numbers:
//
//     q4_0   d0 q q q q q q q q | d1 q q q q q q q q      16-bit words; a number's lower 16 in the
//     q8_0   d0 q ... (16) q    | d1 q ... (16) q         lower half of bytes, its upper in the
//     upper
//
// A DMA moves 32-bit words, so the first block's numbers come 16 bits too late: the memtile sends
// words of all rows, and the core moves the words of the first block down by 16 bits, with what the
// next word begins with.
//
// A number is made of its bits: 128 + q is 0x4300 | q in bf16 for q < 128, and what is too much is
// taken away in the multiplier, which has f32 sums: nothing is rounded before d q, with d in bf16,
// is.
#pragma once

#include "mul-mat.h"

// Shuffles by their number; the next one is the other half of the result, or the odd elements.
enum {
    EVEN_8 = 0, // the even elements of two vectors
    EVEN_16 = 2,
    EVEN_32 = 4,
    ZIP_64 = 14, // elements of two vectors in turn
    ZIP_16 = 18,
    ZIP_8 = 20,
};

enum { QUANT_VECTOR = 64 }; // bytes of a word's rows that a trip takes

enum { MM_BITS_POWER = 3 }; // of MM_PARAM_BITS: scales are powers of two, numbers of a table

struct quant {
    struct asm_program * p;
    struct asm_reg base; // where the slice of bf16 numbers goes, less `offset`
    int offset;
    bool fused;   // numbers are not made bf16
    bool wide;    // aie2: a scale is a factor of either half of a vector alone
    bool apart;   // numbers are written as the multiplier takes them, k by k: not of all types
    bool rows;    // the same of aie2: eight k of a row
    bool at_once; // of blocks of 256 numbers, apart: 32 k of 32 rows are written at a time
    struct asm_reg number;      // bits of a number; free afterwards
    struct asm_reg pointers[6]; // free
    struct asm_reg left;        // slices of the tile
    int columns;                // label: slices that stand in columns are multiplied there
    int pages, skip;            // labels: their factors are made; the first of two slices ends
};

// The f16 scales to MM_SCALES.
void quant_gather(struct quant * q);
// When they are bf16: the numbers.
void quant_spread(struct quant * q);
// Numbers of q4_0 where they are to be apart, those of mxfp4, bytes, those of q4_K as they came and
// of longer blocks as bytes (aie2p-quant-transposed.c).
void quant_apart(struct quant * q);
void quant_apart_places(struct quant * q);
void quant_apart_bytes(struct quant * q);
void quant_apart_halves(struct quant * q);
void quant_apart_long(struct quant * q, bool eight);
// Those of q5_K and q6_K faster (aie2p-quant-five-six.c).
void quant_apart_five_six(struct quant * q);
// Pairs of q4_0 as block floats (aie2p-shared-blocks.c), so many eights of rows.
void quant_make_shared(struct quant * q, struct asm_reg eights);
// Both blocks of a slice as whole words (quant-table.c), and numbers of 4 bits as those of a table.
void quant_straighten(struct quant * q);
void quant_look_up(struct quant * q);
// The same of blocks that are longer than a slice, to MM_LONG_BYTES.
void quant_long_look_up(struct quant * q);
// Whatever comes for more than one slice: it is in the other buffer. Of mxfp4 the scales.
void quant_next_block(struct quant * q);
void quant_power_scales(struct quant * q);
// The same for blocks that are longer than a slice (quant-k.c): the f16 scales of a block that
// has come, to MM_LONG_SCALES; when they are bf16 its table; and each slice's numbers.
void quant_long_gather(struct quant * q);
void quant_long_table(struct quant * q);
void quant_long_numbers(struct quant * q);
// All groups of 16 numbers of a slice, from bytes and factors to bf16; eight: bytes up to 255, else
// up to 127.
void quant_long_to_bf16(struct quant * q, bool eight);

// Slices on aie2 (aie2-quant-inreg.c).
struct fused {
    struct asm_program * p;
    struct asm_reg x, y, c, row;      // as those of mm_at
    struct asm_reg left;              // slices of the tile
    struct asm_reg groups;            // of four rows of x; 0 afterwards
    struct asm_reg conf, first, turn; // as those of mm_block
    int x_offset, c_offset;
    struct asm_reg pointers[5]; // free
    struct asm_reg back;        // another one
    int columns;                // label: one row of b (aie2-quant-onerow.c)
};
// Gathers the scales of q4_0, which is multiplied as it comes.
void fused_gather(struct fused * f);
void fused_products(struct fused * f);
// Where one row of b stands in columns (aie2-quant-onerow.c): when a block has come, what the sums
// of its slices are multiplied with; when a tile is complete, its columns' sum.
void columns_upper_bits(struct quant * q);
void columns_pages(struct quant * q);
void columns_sum(struct fused * f);

// A slice of q4_0 on aie2 from MM_MANY_BLOCKS to bf16 at MM_Y (aie2-quant-gemm.c). Takes `p`,
// `number` and five of `pointers`.
void many_slice(struct quant * q);
// The same of q8_0 (aie2-quant-bytes.c), and of blocks that are longer than a slice, one enum
// mm_kind or another (aie2-quant-long.c).
void many_bytes_slice(struct quant * q, struct asm_reg kind);
void many_long_slice(struct quant * q, struct asm_reg kind);
