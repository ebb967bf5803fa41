// blocks: types of quantized blocks that become bytes and planes of factors, and these bf16, on any
// target. Of a slice of 64 numbers of each row that is
//
//     bytes    [word of 4 numbers][64 rows], each below 128, at MM_LONG_BYTES
//     scales   [group of numbers][64 rows] in bf16, at MM_LONG_TABLE, and behind them minima, if
//              there are any
//
//     number = (128 + byte) scale - 128 scale - one minimum      in f32, then rounded to bf16
//
// where a type without minima has its scale in their place: a middle that is taken away. Bytes of 8
// bits are two numbers, 128 + its lower seven bits and 128 or 256. What of it
// differs from type to type stands in its row (blocks.def) and comes with the parameters of a run,
// but for two functions at most: one that makes bytes of its numbers, and one that makes bytes of
// its scales, where these are not f16 themselves.
#pragma once

#include "aie/ops/mul-mat/quant.h"

struct writer;

// Called when blocks have come: copies their f16 numbers to where MM_PARAM_D_AT says, and moves
// words that begin in the middle of others to words of their own.
void blocks_gather(struct quant * q);
// Called when those are bf16: writes a slice's numbers to where it is multiplied or leaves the
// core.
void blocks_slice(struct quant * q);

// On aie2, where a slice is multiplied (aie2-rows.c): factors as often as a multiplication wants
// them; then bytes and factors become bf16.
void blocks_rows_spread(struct quant * q);
void blocks_rows(struct quant * q, bool eight);

// Two bits of each slice in a byte: those of the slice at hand, four times.
struct blocks_pair {
    struct asm_reg pick;      // which half of a byte, a shuffle
    struct asm_reg here, low; // vectors: 12 where they are its upper two bits, where its lower
};
struct blocks_pair blocks_take_pair(struct writer * w);
void blocks_find_pair(struct writer * w, const struct blocks_pair * f, struct asm_reg slice);
struct asm_reg blocks_pair_of(struct writer * w, const struct blocks_pair * f,
                              struct asm_reg bytes);

// ---- functions of types ----

// Each makes the bytes of a slice (blocks-bytes.c), or of its scales and minima (blocks-scales.c).
#define PLANES(id, numbers, scales)                                                                \
    void blocks_##numbers(struct quant * q);                                                       \
    void blocks_scales_##scales(struct quant * q);
#include "kernel/blocks.def"
// Bytes of scales become factors.
void blocks_factors(struct quant * q);
