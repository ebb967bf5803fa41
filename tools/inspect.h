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

int bd_words(enum tile_kind tile);
// All fields of a whole BD that are not at rest.
void bd_print(enum tile_kind tile, const uint32_t * words, struct buf * b);

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
    bool failed; // something was left out
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
