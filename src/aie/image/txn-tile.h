// txn-tile: the registers of a tile that instruction streams write, as far as joining streams goes:
// its buffer descriptors and the queues that start them. bd-fields.h says what a descriptor holds.
#pragma once

#include "bd-fields.h"
#include "image.h"

#include "aie/target/target.h"

enum { TXN_TILES = AIE_MOST_COLUMNS * AIE_ROWS };
enum { TXN_BDS = 48, TXN_QUEUES = 12, TXN_LOCKS = 64 }; // of any tile, at most
enum { TXN_QUEUE_STEP = 8 };
enum {
    TXN_QUEUE_ROOM = 4, // tasks that a queue holds, one that runs not counted
    TXN_SHIM_READS = 2, // queues of a shim from here on read memory
};

struct txn_kind {
    enum image_tile tile;
    uint32_t bds, n_bds, n_words; // registers
    uint32_t half;                // odd channels use those from here on; 0: each channel uses all
    uint32_t queues, n_queues;    // of S2MM channels and, behind them, MM2S ones
    uint32_t first_lock;          // number of the tile's own first lock in a descriptor
};

extern const struct txn_kind txn_shim, txn_mem, txn_core;

static inline uint32_t txn_offset(uint32_t addr) {
    return addr & 0xfffff;
}
// A tile by its number; -1: there is none.
static inline int txn_tile(uint32_t addr) {
    uint32_t row = addr >> 20 & 31, col = addr >> 25;
    return col < AIE_MOST_COLUMNS && row < AIE_ROWS ? (int) (AIE_ROWS * col + row) : -1;
}
static inline const struct txn_kind * txn_kind_of(int tile) {
    int row = tile % AIE_ROWS;
    return row == ARRAY_ROW_SHIM ? &txn_shim : row == ARRAY_ROW_MEM ? &txn_mem : &txn_core;
}

static inline uint32_t txn_field(const struct txn_kind * k, const uint32_t * words,
                                 enum image_bd_field f) {
    return image_bd_get(k->tile, words, f);
}

// Whole descriptors, and nothing else: how many a block is. Those of a core have a gap between
// them.
uint32_t txn_whole_bds(const struct txn_kind * k, uint32_t offset, uint32_t n_words);
// The queue whose register is there; -1: it is none's.
int txn_queue_at(const struct txn_kind * k, uint32_t offset);
