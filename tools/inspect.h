// inspect: what its parts share. inspect-regs.c knows the array's registers, inspect-code.c
// programs.
#pragma once

#include "aie/image/image.h"
#include "aie/isa/isa.h"
#include "tool.h"

// ---- registers ----

enum tile_kind { TILE_SHIM, TILE_MEM, TILE_CORE, TILE_KINDS };

extern const char * const tile_kind_names[TILE_KINDS];

// Row 0 is the shim, row 1 the memory tiles, all above are cores.
enum tile_kind tile_kind_of(int row);

enum reg_class {
    REG_DATA,
    REG_PROGRAM,
    REG_BD,
    REG_CONTROL, // of a DMA channel
    REG_QUEUE,
    REG_STATUS, // read only, no fields told
    REG_LOCK,
    REG_MASTER,
    REG_SLAVE,
    REG_SLOT,
    REG_MUX,
    REG_DEMUX,
    REG_CORE_CONTROL,
    REG_PLAIN, // a name and a number
};

struct reg {
    enum tile_kind tile;
    enum reg_class class;
    const char * name;
    int index;     // which BD, lock, port, channel
    uint32_t word; // within a BD; byte offset within a memory; slot of a port
};

// The register at an offset within a tile of that kind; false when it has no name here.
bool reg_find(enum tile_kind tile, uint32_t offset, struct reg * out);
void reg_print(const struct reg * reg, struct buf * b); // "lock 3", "master S0"
// What a write of value says in words; only the fields within mask.
void reg_print_value(const struct reg * reg, uint32_t mask, uint32_t value, struct buf * b);

struct port {
    const char * group; // "DMA", "N" ...
    int index, count;   // within the group, and how many it has
};

// The port of a stream switch whose register is the index-th; false when there is none.
bool port_find(enum tile_kind tile, bool is_master, int index, struct port * out);
int port_index(enum tile_kind tile, bool is_master, const char * group, int index); // -1: none
// The DMA channel behind a port at the south of a shim, -1 when the multiplexers lead elsewhere.
int shim_dma_channel(bool is_master, int south, uint32_t mux, uint32_t demux);

int bd_words(enum tile_kind tile);
// A field of a whole BD by the name that bd_print gives it; 0 when that kind of BD has none.
int64_t bd_field(enum tile_kind tile, const uint32_t * words, const char * name);
// All fields of a whole BD that are not at rest.
void bd_print(enum tile_kind tile, const uint32_t * words, struct buf * b);

// ---- the array as a file leaves it ----

enum { VIEW_COLS = 8, VIEW_ROWS = 6, VIEW_BDS = 48, VIEW_PORTS = 32, VIEW_RANGES = 24 };

struct view_channel {  // 0..5 S2MM, 6..11 MM2S
    int tasks;         // times that its queue was written
    uint64_t heads;    // bit n: a task began with BD n
    uint64_t words;    // of all tasks; a chain that has no end counts once
    uint32_t operands; // bit n: addresses of operand n were patched in
    bool token;
};

struct view_range { // of data memory that was written
    uint32_t from, to;
};

struct view_tile {
    bool used;
    uint32_t bd[VIEW_BDS][8];
    uint64_t bd_written;
    uint8_t bd_operand[VIEW_BDS]; // + 1
    uint32_t lock[64];
    uint64_t lock_written;
    uint32_t master[VIEW_PORTS], slave[VIEW_PORTS], slot[VIEW_PORTS][4], mux, demux;
    bool core_on;
    uint32_t program; // bytes
    struct view_channel channels[12];
    struct view_range ranges[VIEW_RANGES];
    int n_ranges;
};

struct view {
    struct view_tile tiles[VIEW_COLS][VIEW_ROWS];
    size_t outside; // commands for tiles beyond
};

bool view_apply(void * view, const struct image_command * cmd); // an image_visit
// All BDs that the channel's tasks go through, as bits.
uint64_t view_channel_bds(enum tile_kind tile, const struct view_tile * t, int channel);
// Bytes that a BD of the tile reaches: from *from up to *to.
void view_bd_reach(enum tile_kind tile, const uint32_t * words, uint32_t * from, uint32_t * to);
// Does the switch lead the slave's words to the master? *packets: as packets.
bool view_joined(const struct view_tile * t, int slave, int master, bool * packets);

// ---- as a picture ----

// A whole SVG document.
void svg_print(const struct view * v, const char * title, struct buf * b);

// A trace of GGML_HSA_TRACE between two times in microseconds, `to` 0: up to its end. Prints
// nothing but on ST_OK.
enum status timeline_print(const char * path, double from, double to, struct buf * b,
                           struct error * err);
enum status heat_print(const char * path, double from, double to, struct buf * b,
                       struct error * err);

// ---- what the assembler does ----

bool passes_asked(int argc, char ** argv); // --passes or --pass
int passes_run(int argc, char ** argv);

// ---- may it go to hardware ----

bool verify_asked(int argc, char ** argv); // --verify
int verify_run(int argc, char ** argv);

// ---- statistics ----

struct stats_program {
    int col, row;
    size_t size; // up to the last byte written
    uint8_t code[16384];
    uint8_t mark[16384 / 2]; // by pairs of bytes, as bundles come: enum stats_mark
};

enum stats_mark { STATS_UNWRITTEN, STATS_WRITTEN, STATS_BEGINS }; // a write begins here

// The programs of a file, tile by tile.
struct stats {
    struct stats_program * programs;
    int n;
    bool failed; // something was left out, for it lies outside
    bool no_memory;
};

void stats_add(struct stats * s, int col, int row, uint32_t offset, const uint8_t * code,
               size_t size);
// Bundles and loops of each program; with arch_known false only their sizes.
void stats_print(const struct stats * s, bool arch_known, enum aie_arch arch, struct buf * b);
void stats_free(struct stats * s);

// ---- programs ----

// The architecture whose bundles the programs are: the one in which all of them decode. Says in b
// (one line) what that was seen by, also when more than one would do (then the first is taken) or
// none does all (then the one that does nearly all); false: not even that.
bool code_find_arch(const struct stats * s, enum aie_arch * out, struct buf * b);

// Assembly with addresses, one bundle a line; zeros up to the end are told, not listed.
void code_print(enum aie_arch arch, uint32_t address, const uint8_t * code, size_t size,
                struct buf * b);
