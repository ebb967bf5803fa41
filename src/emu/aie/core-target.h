// core-target: what an architecture gives to the core: its register file, its rules, and what each
// of its instructions means. core*.c read it and know no architecture; target-<arch>.c writes it,
// one file an architecture, beside the tables of meanings that sem-*.c hold for it.
//
// Kept true: a target is constant. What is made of it once (the meaning of each opcode) lies in
// core-target.c.
#pragma once

#include "emu/aie/sem.h"

// ---- the register file: one flat array, so that a register is an offset and a size ----

// Scalars come first, a 32-bit word each: those of both architectures under the numbers of isa.h's
// units, then those that only aie2p has. Vectors follow.
enum {
    CORE_CRP = 116,                    // control registers of aie2p
    CORE_E = CORE_CRP + AIE_CRP_COUNT, // exponents of aie2p: el0, eh0, el1, ...
    CORE_WORDS = 160,
    CORE_VECTORS = 4 * CORE_WORDS, // offset of the first vector; a cache line begins here
    CORE_REG_BYTES = CORE_VECTORS + 2560,
};
_Static_assert(AIE_UNIT_SPC + AIE_SPC_COUNT <= CORE_CRP && CORE_E + 24 <= CORE_WORDS, "they fit");
_Static_assert(CORE_VECTORS % 64 == 0, "vectors lie on cache lines");

// Units are where two results can meet: a word, or a piece of a vector, of which there are at most
// 64 (one bit each) and at most four to a register. Which pieces there are is the target's choice.
struct core_span {
    uint16_t offset;       // into the register file
    uint16_t size;         // bytes
    uint8_t unit, n_units; // 0 units, of a result on its way: ORed into the word
    uint8_t bypass;        // enum aie_bypass of the result that goes there
    uint8_t cell; // of a result on its way there: where its data wait, see struct core_landing
};
_Static_assert(sizeof(struct core_span) == 8, "copied as one word");

// Registers of a kind: number n lies at offset + n * step and begins with unit + n * n_units.
struct core_file {
    uint16_t offset, step, size;
    uint8_t unit, n_units;
    uint8_t count; // 0: no such registers, or not in one piece
};

// `count` words from number `first` on.
#define CORE_FILE_WORDS(first, n)                                                                  \
    { 4 * (first), 4, 4, first, 1, n }
// Pieces of a vector file: the first begins at `offset` with unit CORE_WORDS + piece.
#define CORE_FILE_VECTOR(offset, piece, size, pieces, n)                                           \
    { offset, size, size, CORE_WORDS + (piece), pieces, n }

// ---- meanings ----

struct core_op;

// The part of the core that prepares an instruction, and so executes it.
enum core_family {
    CORE_UNKNOWN, // nobody: it stops the core
    CORE_LANES,   // from registers to registers: fn
    CORE_SCALAR,  // core-scalar.c: what is an enum core_scalar
    CORE_CONTROL, // core-control.c: enum core_control
    CORE_OUTSIDE, // core-outside.c: enum core_outside
    CORE_MEMORY,  // core-memory.c: by its text
    CORE_LOOKUP,  // core-memory.c: the lanes of half 0 or 1; part is the bytes of an entry
    CORE_FIFO,    // core-fifo.c: by its text
};

enum core_scalar {
    CORE_ADD,
    CORE_ADD_IMM,
    CORE_SUB,
    CORE_ADC,
    CORE_SBC,
    CORE_AND,
    CORE_OR,
    CORE_XOR,
    CORE_LSHL,
    CORE_ASHL,
    CORE_MUL,
    CORE_EQ,
    CORE_NE,
    CORE_LT,
    CORE_LTU,
    CORE_GE,
    CORE_GEU,
    CORE_EQZ,
    CORE_NEZ,
    CORE_SEL_NEZ,
    CORE_SEL_EQZ,
    CORE_ABS,
    CORE_CLZ,
    CORE_CLB,
    CORE_EXTEND_S8,
    CORE_EXTEND_S16,
    CORE_EXTEND_U8,
    CORE_EXTEND_U16,
    CORE_DIVS,
    CORE_MOV,
    CORE_MOV_IMM,
    CORE_MOV_COUNTER,
    CORE_ADD_NC,    // register and immediate, no carry
    CORE_ADD_NC_RR, // two registers
    CORE_SCALAR_COUNT,
};

enum core_control {
    CORE_J,
    CORE_J_IND,
    CORE_JL,
    CORE_JL_IND,
    CORE_JNZ,
    CORE_JZ,
    CORE_JNZD,
    CORE_RET,
    CORE_EVENT,
    CORE_CONTROL_COUNT,
};

enum core_outside {
    CORE_ACQUIRE,
    CORE_RELEASE,
    CORE_STREAM_READ,
    CORE_STREAM_WRITE,
    CORE_STREAM_WRITE_LAST,
    CORE_STREAM_WRITE_R28, // last when bit 0 of r28 says so
    CORE_CASCADE_READ,     // into the 512 bits of a register from 512 * part on
    CORE_CASCADE_WRITE,
    CORE_TILE_READ, // a register of the core's own tile
    CORE_TILE_WRITE,
    CORE_DONE_FOR_GOOD,
    CORE_OUTSIDE_COUNT,
};

// One instruction, or all of one beginning ("VLDA_*"), of a family other than CORE_LANES.
struct core_row {
    const char * name;
    uint8_t family, what; // enum core_family and the number that it knows
    uint8_t part;         // see CORE_CASCADE_READ and CORE_LOOKUP
};

// Why instructions whose names have this in them are not executed; the first row that fits counts.
struct core_refusal {
    const char *name, *why;
};

// The short way of a multiply-accumulate, see core_mac_fn.
struct core_mac_row {
    const char * name;
    core_mac_fn fn;
};

// What one instruction means: made of the rows, for each opcode.
struct core_meaning {
    uint8_t family, what, part;
    core_semantic_fn fn; // CORE_LANES
    core_mac_fn mac;     // or NULL
};

// In the place of a function: the result is the source, as it is; registers of one size.
bool core_copy(struct core_exec * x);

// Scalars that are staged as lanes are: operand 0 is accumulator and result.
bool core_scalar_mac(struct core_exec * x);
bool core_scalar_msc(struct core_exec * x);

// ---- the target ----

struct core_preset {
    uint8_t word;
    uint32_t value;
};

struct core_target {
    enum aie_arch arch;
    uint8_t generation;  // of the device, in the header of an instruction stream
    const char * clock;  // the usual one of its devices
    bool packets_follow; // a control packet that writes need not be the last of its stream packet
    struct core_file files[AIE_REG_KIND_COUNT];
    uint32_t masks[CORE_WORDS]; // bits that a word has; 0: all
    uint64_t data_words[3];     // a bit for each word that a program fills before it reads it ...
    const struct core_preset * presets; // ... and those of the others that are not 0 after a reset
    int n_presets;
    uint8_t loop_distance;      // bundles from the set-up of a loop to its last one, at least
    uint8_t loop_partial_bytes; // a shorter loop loses a partial store in its last bundle; 0: none
    uint8_t lookup_line;        // bytes in which a table of parallel lookups lies twice
    const struct core_row * rows;
    const struct core_mac_row * macs;
    const struct sem_family * const * families; // up to NULL
    const struct core_refusal * refusals;
    int n_rows, n_macs, n_refusals;
};

// ---- what both cores have ----

// clang-format off
#define CORE_ROWS_OF_BOTH \
    {"ADD_add_r_ri", CORE_SCALAR, CORE_ADD_IMM, 0}, {"SUB", CORE_SCALAR, CORE_SUB, 0}, \
    {"ADC", CORE_SCALAR, CORE_ADC, 0}, {"SBC", CORE_SCALAR, CORE_SBC, 0}, \
    {"AND", CORE_SCALAR, CORE_AND, 0}, {"OR", CORE_SCALAR, CORE_OR, 0}, \
    {"XOR", CORE_SCALAR, CORE_XOR, 0}, {"LSHL", CORE_SCALAR, CORE_LSHL, 0}, \
    {"ASHL", CORE_SCALAR, CORE_ASHL, 0}, {"EQ", CORE_SCALAR, CORE_EQ, 0}, \
    {"NE", CORE_SCALAR, CORE_NE, 0}, {"LT", CORE_SCALAR, CORE_LT, 0}, \
    {"LTU", CORE_SCALAR, CORE_LTU, 0}, {"GE", CORE_SCALAR, CORE_GE, 0}, \
    {"GEU", CORE_SCALAR, CORE_GEU, 0}, {"EQZ", CORE_SCALAR, CORE_EQZ, 0}, \
    {"NEZ", CORE_SCALAR, CORE_NEZ, 0}, {"ABS", CORE_SCALAR, CORE_ABS, 0}, \
    {"CLZ", CORE_SCALAR, CORE_CLZ, 0}, {"CLB", CORE_SCALAR, CORE_CLB, 0}, \
    {"DIVS", CORE_SCALAR, CORE_DIVS, 0}, {"MOVX_alu_cg", CORE_SCALAR, CORE_MOV_IMM, 0}, \
    {"JNZ", CORE_CONTROL, CORE_JNZ, 0}, {"JZ", CORE_CONTROL, CORE_JZ, 0}, \
    {"JNZD", CORE_CONTROL, CORE_JNZD, 0}, {"RET", CORE_CONTROL, CORE_RET, 0}, \
    {"ACQ_*", CORE_OUTSIDE, CORE_ACQUIRE, 0}, {"REL_*", CORE_OUTSIDE, CORE_RELEASE, 0}, \
    {"DONE", CORE_OUTSIDE, CORE_DONE_FOR_GOOD, 0}, {"LDA_*", CORE_MEMORY, 0, 0}, \
    {"VLDA_*", CORE_MEMORY, 0, 0}, {"VLDB_*", CORE_MEMORY, 0, 0}, {"ST_*", CORE_MEMORY, 0, 0}, \
    {"VST_*", CORE_MEMORY, 0, 0}, {"PADD*", CORE_MEMORY, 0, 0}

#define CORE_FILES_OF_BOTH \
    [AIE_R] = CORE_FILE_WORDS(AIE_UNIT_R, 32), [AIE_P] = CORE_FILE_WORDS(AIE_UNIT_P, 8), \
    [AIE_M] = CORE_FILE_WORDS(AIE_UNIT_M, 8), [AIE_DN] = CORE_FILE_WORDS(AIE_UNIT_DN, 8), \
    [AIE_DJ] = CORE_FILE_WORDS(AIE_UNIT_DJ, 8), [AIE_DC] = CORE_FILE_WORDS(AIE_UNIT_DC, 8), \
    [AIE_S] = CORE_FILE_WORDS(AIE_UNIT_S, 4), [AIE_CR] = CORE_FILE_WORDS(AIE_UNIT_CR, 16), \
    [AIE_SR] = CORE_FILE_WORDS(AIE_UNIT_SR, 16), [AIE_SPC] = CORE_FILE_WORDS(AIE_UNIT_SPC, 8), \
    [AIE_W] = CORE_FILE_VECTOR(FILE_W, PIECE_W, 32, 1, 24), \
    [AIE_X] = CORE_FILE_VECTOR(FILE_W, PIECE_W, 64, 2, 12), \
    [AIE_Y] = CORE_FILE_VECTOR(FILE_W, PIECE_W, 128, 4, 6), \
    [AIE_Q] = CORE_FILE_VECTOR(FILE_Q, PIECE_Q, 16, 1, 4)

#define CORE_P20 0xfffffu
#define CORE_P20S CORE_P20, CORE_P20, CORE_P20, CORE_P20, CORE_P20, CORE_P20, CORE_P20, CORE_P20
// Registers p, m, dn, dj and dc keep 20 bits. Control registers keep as many bits as their field
// has: silicon was seen to cut crSat and crRnd. Compilers write the others with legal values, so
// these are kept whole.
#define CORE_MASKS                                                                                 \
    {[AIE_UNIT_P] = CORE_P20S, CORE_P20S, CORE_P20S, CORE_P20S, CORE_P20S,                        \
     [AIE_UNIT_CR + AIE_CR_RND] = 0xf, [AIE_UNIT_CR + AIE_CR_SAT] = 0x3,                           \
     [AIE_UNIT_SPC + AIE_SPC_LS] = CORE_P20, [AIE_UNIT_SPC + AIE_SPC_LE] = CORE_P20,               \
     [AIE_UNIT_SPC + AIE_SPC_LR] = CORE_P20, [AIE_UNIT_SPC + AIE_SPC_SP] = CORE_P20}
// clang-format on

extern const struct core_target core_target_aie2, core_target_aie2p;

const struct core_target * core_target_of(enum aie_arch arch);

// What the instruction with this opcode means, or NULL.
const struct core_meaning * core_meaning_of(const struct core_target * target, int op);

// Why the instruction of that name is not executed.
const char * core_refusal_of(const struct core_target * target, const char * name);
