// array: the tiles around the cores. Registers and descriptors as tables and packers, and a builder
// that turns "this program here, these locks, this stream from there to there" into the three CDOs of
// a PDI, in the order in which real kernels are configured.
#pragma once

#include "aie/image/image.h"
#include "aie/isa/isa.h"

// ---- a target is data ----

struct array_target {
    int columns;
    int device_generation; // in the instruction stream's header
    uint32_t shim_burst;   // longest burst, as the shim BD encodes it
};

const struct array_target * array_target(enum aie_arch arch);

enum { ARRAY_ROW_SHIM = 0, ARRAY_ROW_MEM = 1, ARRAY_ROW_CORE = 2 };

// Register offsets within a tile.
enum {
    CORE_LOCK = 0x1f000,       // + 0x10 * lock
    CORE_BD = 0x1d000,         // + 0x20 * bd, 6 words
    CORE_S2MM_QUEUE = 0x1de04, // + 8 * channel; the control register stands 4 before
    CORE_MM2S_QUEUE = 0x1de14,
    CORE_PROGRAM = 0x20000,
    CORE_CONTROL = 0x32000,
    CORE_MASTER = 0x3f000, // + 4 * port
    CORE_SLAVE = 0x3f100,
    MEM_MASTER = 0xb0000,
    MEM_SLAVE = 0xb0100,
    SHIM_BD = 0x1d000, // + 0x20 * bd, 8 words
    SHIM_S2MM_CONTROL = 0x1d200, // + 8 * channel
    SHIM_S2MM_QUEUE = 0x1d204,
    SHIM_MM2S_QUEUE = 0x1d214,
    SHIM_MUX = 0x1f000,
    SHIM_DEMUX = 0x1f004,
    SHIM_MASTER = 0x3f000,
    SHIM_SLAVE = 0x3f100,
    SHIM_SLAVE_SLOT = 0x3f200, // + 0x10 * port + 4 * slot
};

// Start-queue word: runs the BD chain `repeat` times; the token reports its end.
enum { ARRAY_MAX_REPEAT = 256, ARRAY_QUEUE_DEPTH = 4, ARRAY_SHIM_BDS = 16, ARRAY_CORE_BDS = 16 };
uint32_t array_queue_word(int bd, int repeat, bool token);

// ---- buffer descriptors ----

struct array_bd {
    uint32_t address; // core: byte address in the tile; shim: patched later
    uint32_t words;
    int next;                    // BD that follows, -1 = none
    int acquire, acquire_value;  // lock, -1 = none; a negative value waits for at least that many
    int release, release_value;  // lock, -1 = none
    // Shim: dimensions in words, all zero for a plain row; wrap 0 = no wrap, step 0 = not there.
    uint32_t wrap[2], step[3];
    uint32_t iterations, iteration_step; // each run of the BD starts that much further; 0 = does not
};

void array_core_bd(const struct array_bd * bd, uint32_t words[6]);
void array_shim_bd(const struct array_bd * bd, const struct array_target * target, uint32_t words[8]);

// ---- configuration ----

struct array {
    enum aie_arch arch;
    struct cdo programs, setup, enable;
    uint8_t up[8], down[8]; // streams taken in each direction of a column
    struct error misuse;
};

void array_begin(struct array * a, enum aie_arch arch);
// Program and lock values of the core at (col, row).
void array_core(struct array * a, int col, int row, const uint8_t * program, size_t size,
                const uint8_t * lock_values, int n_locks);
// First content of a core tile's data memory.
void array_data(struct array * a, int col, int row, uint32_t address, const uint8_t * bytes, size_t size);
// A stream from shim MM2S channel to the core's S2MM channel of the same column, and back.
void array_stream_in(struct array * a, int col, int row, int shim_channel, int core_channel);
void array_stream_out(struct array * a, int col, int row, int core_channel, int shim_channel);
// The route by which a shim column's completion tokens reach the controller. Required per column.
void array_token_route(struct array * a, int col);
// The caller owns *pdi. Frees the builder.
enum status array_end(struct array * a, uint8_t ** pdi, size_t * size, struct error * err);

// Instruction stream: names the controller that gets the tokens of a shim S2MM channel.
void array_token_controller(struct txn * t, int col, int channel);
