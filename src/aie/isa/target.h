// target: what one architecture gives to this room (tables, written by hand) and what build.c makes
// of them (struct aie_isa, for the code that decodes and encodes). Private to src/aie/isa.
#pragma once

#include "aie/isa/isa.h"

// ---- what a target writes ----

struct isa_row { // I(...) of a .def file
    const char * name;
    enum aie_slot slot;
    const char *pattern, *text, *operands;
};

struct isa_format_row { // F(...) of a .def file
    const char * name;
    int bytes;
    const char * layout;
};

struct isa_evidence_row { // E(...) of a .def file
    const char * name;    // a record, or with '*' at its end all that begin so
    enum aie_evidence evidence;
};

// A run of registers under a run of codes: register first + i * step has code code + i * stride,
// and the bits of ignore do not matter when reading.
struct isa_code {
    uint8_t kind, first, step, count;
    uint16_t code, stride, ignore;
};

struct isa_class {
    const char * name;
    uint8_t bits;     // of a code
    char imm;         // 0: registers; 's' signed, 'u' unsigned, 'n' negative
    uint8_t imm_step; // value = code * step
    uint8_t n_codes;
    const struct isa_code * codes;
};

// Rows of a class table: registers, by runs of codes, and immediates.
#define ISA_REGS(name, bits, ...)                                                                  \
    {                                                                                              \
        name, bits, 0, 0,                                                                          \
            sizeof((const struct isa_code[]){__VA_ARGS__}) / sizeof(struct isa_code),              \
            (const struct isa_code[]) {                                                            \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define ISA_IMM(name, bits, sign, step)                                                            \
    { name, bits, sign, step, 0, NULL }

#define ISA_RUN(kind, first, count, code, stride)                                                  \
    { AIE_##kind, first, 1, count, code, stride, 0 }
#define ISA_ONE(kind, n, code)                                                                     \
    { AIE_##kind, n, 1, 1, code, 1, 0 }

struct isa_target {
    const struct isa_row * rows;
    int n_rows;
    const struct isa_format_row * formats;
    int n_formats;
    const struct isa_class * classes;
    int n_classes;
    const struct isa_evidence_row * evidence; // by the tables' names; all targets have one
    int n_evidence;
    uint8_t slot_bits[AIE_SLOT_COUNT];
    uint8_t size_of_nibble[16];    // bundle bytes by the low four bits of its first byte
    uint16_t nops[AIE_SLOT_COUNT]; // op of each slot's nop
};

extern const struct isa_target isa_aie2, isa_aie2p;
extern const char * const isa_slot_names[AIE_SLOT_COUNT];

// ---- what build.c makes of it ----

enum {
    ISA_MAX_INSTRS = 896,
    ISA_MAX_FORMATS = 80,
    ISA_MAX_CLASSES = 128,
    ISA_MAX_RUNS = 4, // pieces of one field
    ISA_BUCKET_BITS = 6,
    ISA_BUCKETS = 1 << ISA_BUCKET_BITS,
    ISA_MAX_CANDIDATES = 65536,
    ISA_MAX_CODES = 16384,
    ISA_MAX_NUMBERS = 64, // of registers of a kind
    ISA_MAX_KINDS = 256,  // of registers, of all classes together
};

struct isa_field { // where the bits of an operand lie, most significant piece first
    uint8_t n_runs;
    struct {
        uint8_t lsb, width;
    } runs[ISA_MAX_RUNS];
};

struct isa_format {
    const char * name;
    uint8_t bytes;
    uint8_t slots; // bit per enum aie_slot
    uint8_t lsb[AIE_SLOT_COUNT];
    uint64_t mask[2], value[2];
    uint64_t idle[2]; // the bundle that does nothing
};

struct aie_isa {
    const struct isa_target * target;
    struct aie_instr instrs[ISA_MAX_INSTRS];
    struct isa_field fields[ISA_MAX_INSTRS][AIE_MAX_OPERANDS];
    uint16_t by_name[ISA_MAX_INSTRS];
    struct isa_format formats[ISA_MAX_FORMATS];
    uint8_t formats_from[AIE_MAX_BUNDLE_BYTES / 2 + 2]; // by half the size: the first of these
    // By half the size, 0 = any, and the slots that are used: the format plus one, 0 = there is
    // none.
    uint8_t format_for[AIE_MAX_BUNDLE_BYTES / 2 + 1][1 << AIE_SLOT_COUNT];
    uint64_t nop_words[AIE_SLOT_COUNT]; // of slots that a format has and nobody uses
    // Registers by code, class after class; 0 where a code means nothing.
    aie_reg codes[ISA_MAX_CODES];
    uint16_t class_codes[ISA_MAX_CLASSES];
    // And the other way: by number, the code plus one, 0 where a class does not hold the register.
    // Which row is for the registers of a class and a kind; the first is for none.
    uint16_t reg_codes[ISA_MAX_KINDS][ISA_MAX_NUMBERS];
    uint8_t kind_codes[ISA_MAX_CLASSES][AIE_REG_KIND_COUNT];
    // Rows that may match a slot word with these low bits, most fixed bits first.
    uint16_t candidates[ISA_MAX_CANDIDATES];
    uint16_t bucket[AIE_SLOT_COUNT][ISA_BUCKETS + 1];
};

void isa_build_formats(struct aie_isa * isa); // bundle.c: which one is for which slots

// enum aie_part by the name that the tables use; AIE_PART_ALL if there is none.
uint8_t isa_part_by_name(const char * name, size_t length);

// Register by the name that it is printed with; 0 if there is none.
aie_reg isa_reg_by_name(const char * name, size_t length);
