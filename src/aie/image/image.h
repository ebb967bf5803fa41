// image: the two files of a kernel as bytes. A PDI is a header around CDO commands (register writes
// that configure the array); an instruction stream (TXN) is the list of writes, address patches and
// waits of one dispatch. Writers emit only the commands that real kernels use, in their order and
// alignment, because the firmware that reads them is closed; readers serve inspection and tests.
#pragma once

#include "base/arch.h"
#include "base/base.h"

// ---- addresses ----

// Tile address as CDO and TXN carry it: column, row (0 shim, 1 memtile, 2.. cores), offset in the
// tile.
static inline uint32_t image_addr(int col, int row, uint32_t offset) {
    return (uint32_t) col << 25 | (uint32_t) row << 20 | offset;
}

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
    CORE_SLAVE_SLOT = 0x3f200, // + 0x10 * port + 4 * slot
    MEM_BD = 0xa0000,          // + 0x20 * bd, 8 words
    MEM_S2MM_QUEUE = 0xa0604,  // + 8 * channel; the control register stands 4 before
    MEM_MM2S_QUEUE = 0xa0634,
    MEM_MASTER = 0xb0000, // + 4 * port
    MEM_SLAVE = 0xb0100,
    MEM_SLAVE_SLOT = 0xb0200,
    MEM_LOCK = 0xc0000,          // + 0x10 * lock
    SHIM_BD = 0x1d000,           // + 0x20 * bd, 8 words
    SHIM_S2MM_CONTROL = 0x1d200, // + 8 * channel
    SHIM_S2MM_QUEUE = 0x1d204,
    SHIM_MM2S_QUEUE = 0x1d214,
    SHIM_MUX = 0x1f000,
    SHIM_DEMUX = 0x1f004,
    SHIM_MASTER = 0x3f000,
    SHIM_SLAVE = 0x3f100,
    SHIM_SLAVE_SLOT = 0x3f200,
};

// ---- CDO: one configuration file ----

struct cdo {
    struct buf words; // header first
};

void cdo_begin(struct cdo * c);
void cdo_write(struct cdo * c, uint32_t addr, uint32_t value);
void cdo_mask_write(struct cdo * c, uint32_t addr, uint32_t mask, uint32_t value);
// Block of words to addr; inserts the NOP that aligns the payload like the vendor's tool does.
void cdo_block_write(struct cdo * c, uint32_t addr, const uint32_t * words, size_t n);
// The same of n words that are little-endian bytes already, wherever they lie.
void cdo_block_write_bytes(struct cdo * c, uint32_t addr, const uint8_t * bytes, size_t n);
void cdo_free(struct cdo * c);

// A PDI of n CDOs in order (real kernels have three: programs, configuration, enable). The caller
// owns *pdi. cdos may also come from files of the 64-bit command forms (cdo_read narrows them).
enum status pdi_write(const struct cdo * cdos, int n, uint8_t ** pdi, size_t * size,
                      struct error * err);
// Takes a CDO file as other tools leave it behind and turns it into the form that goes into a PDI.
enum status cdo_read_file_form(const uint8_t * data, size_t size, struct cdo * out,
                               struct error * err);

// ---- TXN: one instruction stream ----

struct txn {
    struct buf words;
    uint32_t n_ops;
};

// columns: of the partition; device_generation: the target's.
void txn_begin(struct txn * t, int columns, int device_generation);
void txn_write(struct txn * t, uint32_t addr, uint32_t value);
void txn_mask_write(struct txn * t, uint32_t addr, uint32_t mask, uint32_t value);
void txn_block_write(struct txn * t, uint32_t addr, const uint32_t * words, size_t n);
// Adds operand's address plus byte offset into the shim BD whose word 1 is at reg_addr.
void txn_patch_address(struct txn * t, uint32_t reg_addr, int operand, uint32_t byte_offset);
// Waits for the completion token of a shim channel. direction: 0 S2MM, 1 MM2S.
void txn_wait(struct txn * t, int col, int row, int direction, int channel);
// Fixes up the header; the caller owns *insts.
enum status txn_end(struct txn * t, uint32_t ** insts, size_t * n_words, struct error * err);

// The generation of an architecture's devices, as a stream's header has it.
unsigned txn_generation(enum aie_arch arch);
// A stream that does nothing, whatever the array is configured for: it writes 0 into a descriptor
// of the first shim tile that nobody starts. The caller owns *insts.
enum status txn_idle(enum aie_arch arch, uint32_t ** insts, size_t * n_words, struct error * err);

// Cycles that the controller beside the array takes for a stream, at most, the starts of its
// transfers and the ways of its tokens included: for keeping what is sent at once short. What the
// array computes meanwhile comes on top.
uint64_t txn_cycles(const uint32_t * insts, size_t n_words);
uint64_t txn_price(const uint32_t * ops, size_t n_words); // of operations without a header
// How many operations it has, as its header says: writes, blocks, patches and waits.
static inline uint32_t txn_header_operations(const uint32_t * insts) {
    return insts[2];
}

// Of the partition that it is for.
static inline uint32_t txn_header_columns(const uint32_t * insts) {
    return insts[1] & 0xff;
}

// ---- several streams as one ----

struct txn_part {
    const uint32_t * insts;
    size_t n_words;
    uint32_t ready; // operands that no part before it writes, by bit: they may be read early
    // 0: it begins when the part before it is complete. Else it may run beside that one, and beside
    // those that that one may run beside: none of them writes what another one reads or writes. So
    // many columns, the first ones, are alike to it, and it may be moved among them.
    int beside;
};

struct txn_aim {   // an address patch of a joined stream, and what it was in its part
    uint32_t word; // of the stream
    uint16_t part, operand;
    uint32_t byte_offset;
};

// Joins the parts, in their order, to one stream of *n_words, and lists its address patches. Writes
// of a part that would change nothing are left out: shim controls that were set before, and
// descriptors that hold these words already. `ahead`: a part is issued while those before it run
// (txn-ahead.h), with other descriptors where its own are in use, reads operands that are ready
// into memtiles (txn-early.h), and runs beside those before it where it may. Operands are still
// those of the parts: txn_aim tells them where they are. `out` has room for all words of all parts
// twice; *aims is the caller's. ST_UNSUPPORTED where the parts are not of one array, have
// operations that are not known, or leave a token behind that another part would take for its own.
enum status txn_join(const struct txn_part * parts, int n, bool ahead, uint32_t * out,
                     size_t * n_words, struct txn_aim ** aims, size_t * n_aims, struct error * err);
// Returns where something was written, and how many bytes: 0 where it stood there already.
uint32_t * txn_aim(uint32_t * insts, const struct txn_aim * aim, int operand, uint32_t byte_offset,
                   uint32_t * size);

// ---- reading ----

enum image_op {
    IMAGE_WRITE,
    IMAGE_MASK_WRITE,
    IMAGE_BLOCK_WRITE,
    IMAGE_NOP,
    IMAGE_WAIT,
    IMAGE_PATCH,
};

struct image_command {
    enum image_op op;
    uint32_t offset; // in bytes from the start of the file
    uint32_t addr, mask, value;
    const uint8_t * data; // block payload
    uint32_t n_words;
    uint32_t missing;                 // words of the block behind these, where the file has ended
    int col, row, direction, channel; // wait
    int operand;                      // patch
    uint32_t byte_offset;             // patch
};

// Walks the commands of a PDI / TXN; visit returns false to stop. Every length is checked first.
typedef bool (*image_visit)(void * user, const struct image_command * command);
enum status pdi_read(const uint8_t * pdi, size_t size, image_visit visit, void * user,
                     struct error * err);
enum status txn_read(const uint8_t * txn, size_t size, image_visit visit, void * user,
                     struct error * err);

// PDIs of AMD's own overlays are packed: like commands in runs, the data of blocks behind all of
// them. The tool that does it counts the file 20 bytes too short, so that the words of the last
// block (or blocks) are not in it; what firmware finds there is not known.
struct pdi_packing {
    size_t commands, data, missing; // bytes
};

// False: it is a plain one, or cut off before it could tell.
bool pdi_packing(const uint8_t * pdi, size_t size, struct pdi_packing * out);

// ---- files of others that hold such files ----

static inline bool image_is_pdi(const uint8_t * data, size_t size) {
    return size >= 0x3c && load_u32(data + 0x38) == 0x50504449;
}

// Version 0.1 of an array of six rows: what txn_read accepts.
static inline bool image_is_txn(const uint8_t * data, size_t size) {
    return size >= 16 && (load_u32(data) & 0xff00ffff) == 0x06000100;
}

bool image_is_xclbin(const uint8_t * data, size_t size);
bool image_is_elf(const uint8_t * data, size_t size);

enum image_part_kind {
    IMAGE_PART_OTHER, // named, not looked into
    IMAGE_PART_PDI,
    IMAGE_PART_TXN,
    IMAGE_PART_PROGRAM, // of one core
};

struct image_part {
    enum image_part_kind kind;
    char name[48];    // printable
    uint32_t address; // of a program: in its core's program memory
    const uint8_t * data;
    size_t size;
};

// Walks the parts of an xclbin (AXLF container), or of an ELF: the program of a core, or control
// code with its streams and PDIs. Every part lies within the bytes; visit returns false to stop.
typedef bool (*image_part_visit)(void * user, const struct image_part * part);
enum status xclbin_read(const uint8_t * data, size_t size, image_part_visit visit, void * user,
                        struct error * err);
enum status elf_read(const uint8_t * data, size_t size, image_part_visit visit, void * user,
                     struct error * err);
