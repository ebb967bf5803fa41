// array: the tiles around the cores. Descriptors as packers (registers: image.h), and a builder
// that turns "this program here, these locks, this stream from there to there" into the three CDOs
// of a PDI, in the order in which real kernels are configured.
#pragma once

#include "aie/image/image.h"
#include "aie/target/target.h"

enum { ARRAY_ROWS_ALL = AIE_ROWS, ARRAY_COLUMNS_MOST = AIE_MOST_COLUMNS };

// Start-queue word: runs the BD chain `repeat` times; the token reports its end.
enum { ARRAY_MAX_REPEAT = 256, ARRAY_QUEUE_DEPTH = 4, ARRAY_SHIM_BDS = 16, ARRAY_CORE_BDS = 16 };
enum {
    ARRAY_MEM_BDS = 48,
    ARRAY_MEM_BD_ODD = 24, // a memtile's even channels use descriptors below, odd ones from here
    ARRAY_CORE_LOCKS = 16,
    ARRAY_MEM_LOCKS = 64,
    ARRAY_MEM_BYTES = 512 * 1024, // a memtile's memory
};
uint32_t array_queue_word(int bd, int repeat, bool token);

// ---- buffer descriptors ----

// Word i of a transfer lies i % wrap[0] * step[0] + i / wrap[0] % wrap[1] * step[1] + ... words
// behind the address; the last dimension that is used never wraps. All zero: one plain row.
// A core tile has three dimensions, a memtile four, a shim three.
struct array_bd {
    uint32_t address; // core, memtile: byte address in the tile's own memory; shim: patched later
    uint32_t words;   // that travel, zeros of the padding among them
    int next;         // BD that follows, -1 = none
    int acquire, acquire_value; // lock, -1 = none; a negative value waits for at least that many
    int release, release_value; // lock, -1 = none
    uint32_t wrap[3], step[4];  // in words; wrap 0 = no wrap, step 0 = not there (stands for 1)
    // Memtile, MM2S: zeros around the data of a dimension, in its own units (words, rows, planes).
    // The dimension needs its wrap, which counts the data only.
    uint32_t before[3], after[3];
    // Run n of the BD starts n % iterations * iteration_step words further; 0 = none, at most 64.
    uint32_t iterations, iteration_step;
    int packet; // MM2S: its words are a packet with this id less one; 0 = they are none
};

void array_core_bd(const struct array_bd * bd, uint32_t words[6]);
void array_mem_bd(const struct array_bd * bd, uint32_t words[8]);
void array_shim_bd(const struct array_bd * bd, const struct aie_target * target, uint32_t words[8]);

// ---- configuration ----

enum { ARRAY_PORTS = 23 }; // most of a switch, either way
enum array_side { ARRAY_SOUTH, ARRAY_WEST, ARRAY_NORTH, ARRAY_EAST, ARRAY_SIDES };

struct array {
    enum aie_arch arch;
    struct cdo programs, setup, enable;
    // Bit masks for each tile: wires that leave it to a side, S2MM channels that a stream ends in.
    uint8_t wires[ARRAY_COLUMNS_MOST][ARRAY_ROWS_ALL][ARRAY_SIDES];
    uint8_t ends[ARRAY_COLUMNS_MOST][ARRAY_ROWS_ALL];
    // The registers of the switches above the shims. A command of a PDI takes 600 ns, so all ports
    // of a switch are written by two, which also ends what an earlier configuration had joined
    // there.
    uint32_t masters[ARRAY_COLUMNS_MOST][ARRAY_ROWS_ALL][ARRAY_PORTS];
    uint32_t slaves[ARRAY_COLUMNS_MOST][ARRAY_ROWS_ALL][ARRAY_PORTS];
    bool joined[ARRAY_COLUMNS_MOST][ARRAY_ROWS_ALL];
    struct error misuse; // the first
};

struct array_port { // a DMA channel of a shim, memtile or core tile
    int col, row, channel;
};

// What a core is loaded with: its program, the first values of its locks, and the first content of
// some of its data memory.
enum { ARRAY_PROGRAM_DATA = 2 };
struct array_program {
    uint8_t * code; // malloc'ed
    size_t size;
    const uint8_t * locks;
    int n_locks;
    int mem_locks; // of the memtile that its streams hang on, from the first on
    struct array_data {
        uint32_t at;
        uint8_t * bytes; // malloc'ed
        size_t size;
    } data[ARRAY_PROGRAM_DATA];
};
// A copy of what the next part of data memory begins with.
enum status array_program_data(struct array_program * p, uint32_t at, const uint8_t * bytes,
                               size_t size, struct error * err);
void array_program_free(struct array_program * p);

void array_begin(struct array * a, enum aie_arch arch);
void array_core(struct array * a, int col, int row, const struct array_program * p);
// First content of a core tile's data memory or registers.
void array_data(struct array * a, int col, int row, uint32_t address, const uint8_t * bytes,
                size_t size);
// Lock values of a column's memtile.
void array_mem(struct array * a, int col, const uint8_t * lock_values, int n_locks);
// A stream from an MM2S channel to one or more S2MM channels; each of these gets every word, at the
// pace of the slowest. Its way goes up or down the source's column to the destination's row, then
// along that row; the ways of one stream share their beginning. Memtiles have no wires to the side.
void array_route(struct array * a, struct array_port from, const struct array_port * to, int n_to);
// Packets with this id, 0 to 31, from an MM2S channel to the control port of a tile, which takes
// each for a control packet: a header (array_control_header) and the words to write. The channel's
// descriptors must all send packets. Several channels may lead to one port.
void array_control_route(struct array * a, struct array_port from, int id, int col, int row);
// Writes so many words, 1 to 4, to registers of the tile from this offset on.
uint32_t array_control_header(uint32_t offset, int words);
// The route by which a shim column's completion tokens reach the controller. Required per column.
void array_token_route(struct array * a, int col);
// The caller owns *pdi. Frees the builder.
// What array_end does first.
void array_write_switches(struct array * a);
enum status array_end(struct array * a, uint8_t ** pdi, size_t * size, struct error * err);

// Instruction stream: names the controller that gets the tokens of a shim S2MM channel. The same as
// the whole of the channel's control, which has nothing else set.
void array_token_controller(struct txn * t, int col, int channel);
uint32_t array_token_control(void);
