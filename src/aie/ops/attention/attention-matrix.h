// attention-matrix: FLASH_ATTN_EXT of prompts, where products are the multiplier's in matrix mode
// (4x8x4 of bf16). Heads of 64 or 128; keys go by in blocks of 64. Rows are taken by units, 16
// queries of a head; a core has up to two, a column's cores up to eight that share a head of K and
// V, so that an item is some heads and some sixteens of queries.
//
// All is turned over: scores are k q^T and sums of values v^T p^T, so that a vector of either is
// four keys or dimensions of four queries, queries fastest. What the first product makes is in the
// place where the second one wants it, the largest score, the sum and the factor of four queries
// are one vector, and nothing is turned but v's tiles on their way to the multiplier. Descriptors
// lay out what comes, word by word:
//
//     q     [4 queries][dimension][query]   f32, where k and v will be; then bf16,
//           [unit][4 dimensions][4 queries][dimension][query]
//     k     [8 dimensions][key][8]          a tile is 4 keys
//     v     [4 dimensions][key][4]          a tile is 8 keys
//     mask  [8 keys][query][8]              f16
//     s, p  [unit][4 keys][4 queries][key][query]         f32, bf16
//     o     [unit][4 dimensions][4 queries][dimension][query]; when they leave,
//           [unit][4 queries][4 dimensions][dimension][query]
//
// Sums are relative to a number that is above the largest score of the first block. It is raised
// where a score is far beyond it, and only then is what was summed up made smaller.
//
// A head of 128 is two halves of 64 dimensions, each of which is multiplied as a head of 64 is: of
// a block k's halves come to the two places of k and v, and then v's. The program is another one,
// whose memory is laid out otherwise (mx_layouts): sums take twice as much, and for that the
// mantissas' has the mask's place, and rows of q come to their own core alone.
#pragma once

#include "attention.h"

#include "aie/array/flow.h"

#define MX_F16_UP 0x1p112 // what f16 that was shifted into bf16 has to be multiplied with
enum { MX_F16_EXPONENT = 112 };

enum {
    MX_DIM = 64,  // of a half
    MX_KEYS = 64, // of a block
    MX_UNIT = 16, // queries of a unit
    MX_CORE_UNITS = 2,
    MX_UNITS = AT_CORES * MX_CORE_UNITS,
    MX_MOST_QUERIES = 64, // of an item: the mask's place
    MX_LEAST_QUERIES = 32,
    MX_TILE = 64,   // bytes of 4 x 4 sums, and of 32 numbers of bf16
    MX_GROUP = 128, // bytes of 4 keys or dimensions of a unit as bf16
    MX_MOST_COLUMNS = 8,
    MX_X_APART = 512, // bytes from k's or v's tile to the one that is taken with it
};

// Data memory. What a product accesses together lies in banks of its own, 16 KB each.
enum {
    MX_STATE = 0x0800, // [4 queries]: what sums are relative to
    MX_SUMS = 0x0c00,  // [4 queries]: sums of exponentials, four keys' apart
    MX_FACTORS = 0x0e00,
    MX_Q = 0x2000,
    MX_K = 0x4000, // or the first half of either
    MX_MASK = 0x6000,
    MX_V = 0x8000, // or the second half
    MX_RAW = MX_K, // q as it comes
};
struct mx_layout {
    int halves; // of a head
    int32_t p, s, o;
    int32_t e;       // what is added to bits of p, when they are made
    int32_t largest; // [4 queries]: largest and smallest integer of four keys' lanes
    int32_t out;     // when all keys are done
    bool in_mask;    // e and largest are where the mask was, which is then given back later
};
static const struct mx_layout mx_layouts[] = {
    {1, .p = 0x3000, .s = 0xc000, .o = 0xe000, .e = 0xa000, .largest = 0x1000, .out = 0xc000},
    {2, .p = 0x1000, .s = 0xa000, .o = 0xc000, .e = 0x6000, .largest = 0x7000, .out = 0x8000,
     .in_mask = true},
};

enum {
    MX_PARAM_ITEMS,
    MX_PARAM_UNITS, // of this core; 0: it lets all pass
    MX_PARAM_BLOCKS,
    MX_PARAM_SHORT,     // 1: the last block has fewer keys than the others
    MX_PARAM_END,       // then: where a unit's tiles with the keys behind it begin,
    MX_PARAM_END_LANES, // lanes of the first that are keys,
    MX_PARAM_END_TILES, // and tiles behind the first four
    MX_PARAM_K_TRIPS,   // that make it bf16; 0: it is
    MX_PARAM_V_TRIPS,
    MX_PARAM_RAW,       // where this core's q is
    MX_PARAM_MASK,      // of the first unit's queries; 0: there is none
    MX_PARAM_MASK_WRAP, // from the last four queries of a unit to the first of the next 8 keys
    MX_PARAM_MASK_NEXT, // from the first unit's to the second's
    MX_PARAM_SCALE,     // of q: two pieces, each twice in a word
    MX_PARAM_SCALE_REST,
    MX_PARAM_OUT_UP, // added to the bits of the inverse of sums
    MX_PARAM_TOLD,
    MX_NOW_ITEMS = MX_PARAM_TOLD,
    MX_NOW_BLOCKS, // that are left
    MX_NOW_SEEN,   // 0: all keys of this block are masked away; AT_SEEN_ALL: none is
    MX_NOW_SUMS,   // 0: nothing was summed up yet
    MX_NOW_RAISED, // not 0: factors are not all 1
    MX_NOW_TRIED,  // not 0: what sums are relative to is as it has to be for this block
    MX_PARAM_COUNT,
};
_Static_assert(4 * MX_PARAM_COUNT <= (AT_SLOT_PARAMS_END - AT_SLOT_PARAMS) * 32, "they fit");

// The first 8 bits of a number; and these twice in a word, as bf16.
float mx_bf16(float v);
uint32_t mx_twice(float v);

// The program for heads of so many halves.
enum status mx_program(enum aie_arch arch, int halves, struct at_code * out, struct error * err);

// ---- plan, descriptors of cores, parameters (attention-matrix-array.c) ----

// Makes a plan of a shape whose operands were checked; false: there is none. About how many cycles
// it takes.
bool mx_plan(const struct kernel_spec * spec, struct at_plan * p);
uint64_t mx_cycles(const struct kernel_spec * spec, const struct at_plan * p);

static inline int mx_halves(const struct at_plan * p) {
    return (int) (p->dk / MX_DIM);
}
static inline const struct mx_layout * mx_layout_of(const struct at_plan * p) {
    return &mx_layouts[mx_halves(p) - 1];
}

// Numbers of a core's descriptors; of a block, and of the last one. With halves k and v are k's,
// and then v's come. q: what cores have of it, if it is not one.
struct mx_bds {
    int q[AT_CORES], out, k[2], v[2], v_halves[2][2], mask[2];
};
void mx_write_core_bds(const struct flow * f, struct flow_tile at, const struct at_plan * p,
                       int core, const struct mx_bds * bds);
void mx_write_params(const struct flow * f, struct flow_tile at, const struct kernel_spec * spec,
                     const struct at_plan * p, int core, uint32_t items);

// ---- routes and the stream (attention-matrix-stream.c) ----

enum { MX_MEM_LOCKS = 4 }; // of a memtile
extern const uint8_t mx_mem_locks[MX_MEM_LOCKS];
void mx_route(struct array * a, int col);
enum status mx_stream(const struct kernel_spec * spec, const struct at_plan * p, uint32_t ** insts,
                      size_t * n_words, struct error * err);

// ---- both products (aie2-matrix.c) ----

enum { MX_MEMORY_X = 6, MX_MEMORY_Y, MX_MEMORY_FROM, MX_MEMORY_TO }; // for the scheduler

// A trip makes 8 rows of x by 16 of y, each a sum over 64, in steps of 8; eight trips go through x,
// then y is the next. Addresses, and bytes.
struct mx_product {
    int32_t x, y, c;
    int x_step, x_next;           // to the next 8 of the sums, to the next trip
    int y_step, y_next;           // to the next 8, and to the next y
    int c_second, c_next, c_more; // to the second tile of x, to the next trip, what is more of that
                                  // where y is the next
    int turn;                     // a shuffle: what it makes of x is 4 x 8
};
enum { MX_TURN_NONE = 22, MX_TURN_8X4 = 28, MX_TURN_4X8 = 29 }; // of 16 bits
struct mx_registers {
    struct asm_reg pointers[6]; // x, y; two rows of tiles, in and out
    struct asm_reg conf, first, mode;
};
void mx_product_at(struct asm_program * p, const struct mx_registers * r,
                   const struct mx_product * of);
// Behind a product that differs in addresses alone.
void mx_product_again(struct asm_program * p, const struct mx_registers * r,
                      const struct mx_product * of);
void mx_product_loop(struct asm_program * p, const struct mx_registers * r, struct asm_reg trips);
