// attention: GGML_OP_FLASH_ATTN_EXT. For each row (a query and a head) the products of q with all
// keys, a soft-max over them, and the sum of the values weighted by it, without the scores ever
// leaving the cores:
//
//     s[key] = cap(q . k[key] * scale) + slope * mask[key]
//     out    = sum of exp(s[key] - m) * v[key] / sum of exp(s[key] - m)
//
// A column of the array works on one item at a time: the rows that share a head of K and V, up to
// so many queries of them. K and V stream past once, block by block of keys, and reach all four
// cores of the column; each core has rows of its own, and keeps for each the largest score so far
// (m), the sum of exponentials and the sum of values, all in f32 (the soft-max goes along with the
// blocks). Factors of products are bf16, sums f32.
//
//     shim MM2S 0 --> S2MM 0 of all cores    sinks, rows of q; then mask and k by turns
//     shim MM2S 1 --> S2MM 1 of all cores    for each block v
//     core MM2S 0 --> memtile --> shim S2MM 0
//
// Where there are more items than columns and their rows are few, as with one query, a column has
// two of them at a time: a channel and two cores each. Streams still reach all four cores; those
// that they are not for let them pass into a buffer that nobody reads.
//
// What is short enough for one core of some columns runs where the other programs of a decoder's
// layer are (mixed.h), so that no PDI is loaded for it. All that a core wants then comes through
// the memtile by one channel, as with two items.
//
// Of more keys than one kernel takes each has some, and its result is a part: behind the values of
// a row come its largest score in 16 lanes and the sum of exponentials lane by lane, as the core
// has them. Who asked for parts puts them together (backend/npu/attention-parts.c). The shapes say
// which it is: rows of a part are AT_PART_WORDS longer than values.
//
// Lanes are keys where scores are made and dimensions of a head where values are summed up. So k is
// turned over on its way into a core: its descriptor puts word after word (two numbers of a key) in
// a row of its own, and a vector has two dimensions of 16 keys. v lies as it comes.
#pragma once

#include "aie/array/array.h"
#include "aie/asm/asm.h"
#include "aie/plan/programs.h"

// Operands; mask and sinks may be missing, a missing mask before sinks has no elements.
enum { AT_Q, AT_K, AT_V, AT_MASK, AT_SINKS, AT_INPUTS };
enum { AT_ARG_SCALE, AT_ARG_MAX_BIAS, AT_ARG_SOFTCAP };
enum { AT_PART_WORDS = 32 }; // behind a row of a part: 16 lanes of the largest, 16 of the sum

enum {
    AT_CORES = 4,
    AT_FEW_ROWS = 8,    // of an item that shares its column with another
    AT_PASSING = 1024,  // words of the buffer that nobody reads
    AT_LANES = 16,      // numbers of a vector of f32, on every target
    AT_MOST_KEYS = 128, // of a block
    AT_MOST_ROWS = 16,  // of a core
    AT_MOST_GROUP = AT_CORES * AT_MOST_ROWS,
    AT_MOST_BLOCKS = 2 * ARRAY_MAX_REPEAT + 1, // two tasks of a core and the last block
    AT_MOST_RUNS = 64, // of a shim's descriptor: as often mask and k take turns
    AT_MOST_TURNS = 2 * AT_MOST_RUNS + 1,
    AT_MASK_BLOCKS = 4, // most blocks whose mask comes at once
    AT_MARGIN = 128,    // bytes before and behind a row of scores as bf16
};

// ---- the core ----

// Data memory: what stands in the same place for all shapes, and then what the plan lays out.
enum {
    AT_POOL = 0x0000,     // constants of lanes, and parameters in the middle of them
    AT_SINKS_AT = 0x0800, // a number for each head of an item
    AT_SLOPES_AT = 0x0900,
    AT_SCALES_AT = 0x0a00, // of quantized keys or values of a block
    AT_SPILLS = 0x1000,    // 64 vectors
    AT_FREE = 0x2000,
    AT_END = 0x10000,
};

// Slots of the pool that hold parameters instead, around the pointer.
enum { AT_SLOT_PARAMS = 28, AT_SLOT_PARAMS_END = 36 };

// What the instruction stream writes before a run, in 32-bit words. Addresses are the core's own.
enum {
    AT_PARAM_ITEMS,
    AT_PARAM_ROWS,   // of this core
    AT_PARAM_PAIRED, // pairs of them, the last one filled up
    AT_PARAM_BLOCKS,
    AT_PARAM_VECTORS, // of keys: of each block but the last, and of the last
    AT_PARAM_VECTORS_LAST,
    AT_PARAM_PAIRS, // of keys
    AT_PARAM_PAIRS_LAST,
    AT_PARAM_LANES_LAST, // bits: lanes of the last vector of the last block that are keys
    AT_PARAM_EMPTY,      // the row of v behind an odd number of keys; 0: there is none
    AT_PARAM_K,
    AT_PARAM_K_STEP,  // from two dimensions of all keys to the next two
    AT_PARAM_K_TRIPS, // that make k bf16; 0: it is
    AT_PARAM_K_PAIRS, // of dimensions
    AT_PARAM_V,
    AT_PARAM_V_STEP, // from key to key
    AT_PARAM_V_TRIPS,
    AT_PARAM_V_VECTORS, // of dimensions
    // Quantized ones, in chunks of 64 numbers (attention-unpack.c).
    AT_PARAM_K_BITS,   // 8, 4; 0: they are not quantized
    AT_PARAM_K_CHUNKS, // of a key
    AT_PARAM_K_SCALES, // trips that make scales bf16
    AT_PARAM_K_CHUNK,  // from chunk to chunk
    AT_PARAM_K_RAW, // from there to the row with the first scales, and on to that with the second
    AT_PARAM_K_SECOND,
    AT_PARAM_K_FIRST, // where the first row was made, and the ninth
    AT_PARAM_K_NINTH,
    AT_PARAM_V_BITS,
    AT_PARAM_V_CHUNKS, // of a block of keys
    AT_PARAM_V_SCALES,
    AT_PARAM_V_RAW,
    AT_PARAM_V_SECOND,
    AT_PARAM_Q_RAW, // as they came; this core's first
    AT_PARAM_Q_RAW_STEP,
    AT_PARAM_Q,
    AT_PARAM_Q_STEP,
    AT_PARAM_Q_VECTORS,
    AT_PARAM_S,
    AT_PARAM_S_STEP,
    AT_PARAM_O,
    AT_PARAM_O_STEP,
    AT_PARAM_STATE,
    AT_PARAM_MASK,      // of this core's first query; 0: there is none
    AT_PARAM_MASK_STEP, // to the next query, or to the next head; the other is 0
    AT_PARAM_MASK_HEAD,
    AT_PARAM_MASK_BLOCKS, // whose mask comes at once, and from one to the next in it
    AT_PARAM_MASK_NEXT,
    AT_PARAM_MASKS, // of this core, that are looked at: its queries', or rows'; 0: of one query, or
                    // none
    AT_PARAM_HEADS, // of an item
    AT_PARAM_HEAD,  // of this core's first row
    AT_PARAM_SINKS, // 1: there are
    AT_PARAM_SCALE, // of q; with a cap, what is left when the cap is taken out
    AT_PARAM_CAP,   // 0: there is none
    AT_PARAM_SLOPES, // 1: they are not all 1
    AT_PARAM_TOLD,
    // What the program keeps there, because registers are wanted for loops.
    AT_NOW_BLOCKS = AT_PARAM_TOLD, // that are left
    AT_NOW_ITEMS,
    AT_NOW_VECTORS, // of keys, of this block
    AT_NOW_PAIRS,
    AT_NOW_ROWS, // pairs of rows that are left, and where they and their results are
    AT_NOW_ROW,
    AT_NOW_RESULT,
    AT_NOW_MASK, // of this block, and for how many blocks it is still there
    AT_NOW_MASKS,
    AT_NOW_SEEN, // 0: all keys of this block are masked away; AT_SEEN_ALL: none is
    AT_NOW_SUMS, // 0: nothing was summed up yet, so that there is nothing to shrink
    AT_PARAM_COUNT,
    AT_NOW_CHUNKS = AT_NOW_ROWS, // of a key, that are left to unpack before there are rows
};
_Static_assert(4 * AT_PARAM_COUNT <= (AT_SLOT_PARAMS_END - AT_SLOT_PARAMS) * 32, "they fit");

enum { AT_SEEN_ALL = 1 };

// A row's state: vectors with the largest score and a factor in all lanes, and the sum lane by
// lane.
enum { AT_STATE_M = 0, AT_STATE_SUM = 64, AT_STATE_FACTOR = 128, AT_STATE_STEP = 192 };
_Static_assert(AT_STATE_FACTOR == 4 * AT_PART_WORDS, "what comes behind a row of a part");

enum {
    AT_LOCK_GO,
    AT_LOCK_Q_EMPTY, // given by the core for each item
    AT_LOCK_Q_FULL,
    AT_LOCK_K_EMPTY, // given by the core when q is bf16, whose numbers come where k and v lie
    AT_LOCK_K_FULL,
    AT_LOCK_V_EMPTY,
    AT_LOCK_V_FULL,
    AT_LOCK_MASK_EMPTY,
    AT_LOCK_MASK_FULL,
    AT_LOCK_OUT_EMPTY,
    AT_LOCK_OUT_FULL,
    AT_LOCK_COUNT,
};
static const uint8_t at_lock_init[AT_LOCK_COUNT] = {[AT_LOCK_OUT_EMPTY] = 1};

// The program, and the constants it wants in its pool.
struct at_code {
    struct asm_code code;
    uint8_t pool[64 * 32];
};
enum status at_program(enum aie_arch arch, struct at_code * out, struct error * err);

// ---- plan ----

enum { AT_CHUNK = 64 }; // numbers of two blocks, which are whole words

struct at_plan {
    int64_t dk, dv, n_kv; // numbers of a key and of a value, keys
    int64_t heads, kv_heads, queries, batches;
    int k_bits, v_bits;       // of quantized numbers; 0: they are f16 or bf16
    int64_t k_words, v_words; // of a key and of a value, as they come
    bool mask, sinks, part;
    int64_t out_words; // of a row of results: dv, and of a part what it ends with
    // An item has so many heads of a group and so many queries. The last item of a group or of the
    // queries begins earlier where they are no multiple, and computes some rows again.
    int64_t group, item_heads, item_queries;
    int64_t group_items, query_items, items;
    int rows, core_rows; // of an item, and of each core but the last ones
    int halves, cores;   // items of a column at a time, and cores of each
    bool matrix;         // prompts: the program of attention-matrix.h, heads before queries
    bool mixed;          // among others with other programs
    bool one_channel;    // brings all that a core wants
    bool even;           // then: all blocks have as many keys, and turns are all of them
    int pass_blocks;     // mixed: in so many equal blocks, by twos, it passes the memtile; 0: no
    int64_t keys, blocks, last_keys;
    int64_t mask_blocks, turns; // of mask and k, less the last
    bool head_masks;            // each head has its own
    // The core's memory.
    uint32_t q_raw_row, q_row, v_row, s_row, o_row, mask_row; // bytes of a row
    uint32_t k, v, q, s, o, state, masks, passing, end;
    int columns, first_column; // that work, of array_columns
    int array_columns;
};

enum status at_plan_make(const struct kernel_spec * spec, struct at_plan * p, struct error * err);

// Rows of a mask that an item has.
static inline int64_t at_mask_rows(const struct at_plan * p) {
    return p->item_queries * (p->head_masks ? p->item_heads : 1);
}
// Words of an item that come over one channel.
int64_t at_item_words(const struct at_plan * p);

// Item i: its first query, head, head of K and V, and batch.
struct at_item {
    int64_t query, head, kv_head, batch;
};
struct at_item at_plan_item(const struct at_plan * p, int64_t i);
// Rows of a core, of those that an item has.
static inline int at_core_rows(const struct at_plan * p, int core) {
    int rest = p->rows - core * p->core_rows;
    return rest < 0 ? 0 : rest < p->core_rows ? rest : p->core_rows;
}

// ---- descriptors ----

// Rows of so many words, `apart` words from one to the next. Rows that lie one behind the other
// become one run.
struct array_bd;
void at_set_rows(struct array_bd * bd, uint32_t rows, uint32_t words, uint32_t apart);
uint32_t at_step_words(const struct tensor * t, int dim);

// ---- the family ----

struct aie_plan;
enum status attention_plan(struct aie_plan * p, struct error * err);
uint64_t attention_bound(const struct kernel_spec * spec);
enum status attention_stream(const struct aie_plan * p, uint32_t ** insts, size_t * n_words,
                             struct error * err);
enum status attention_image(const struct aie_program * of, enum aie_arch arch,
                            struct array_program * out, struct error * err);
enum status attention_pdi(const struct aie_program * of, enum aie_arch arch, int columns,
                          const struct array_program * program, uint8_t ** pdi, size_t * size,
                          struct error * err);
