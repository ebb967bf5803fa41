// target: what differs between the chips, as data. One struct, one file of it a target (aie2.c,
// aie2p.c), got by aie_target(arch) and by nothing else. Whoever needs a number that another chip
// might have otherwise takes it from here: assembler, lanes, ops, array, streams, tools.
//
// The instruction tables (src/aie/isa) stand apart because the emulator reads them too, and it must
// know nothing of the compiler; aie_isa_get(target->arch) leads there. What no table can say, which
// instructions make a load or a product, are the machine verbs (verbs.h).
#pragma once

#include "aie/isa/isa.h"

// ---- registers ----

// Classes of registers, by what a program uses them for. A target that lacks one has an empty set.
enum asm_class {
    ASM_R,    // scalars
    ASM_MASK, // what vector compares write and selects read, for 16 and 32 lanes
    ASM_P,    // pointers
    ASM_S,    // shift amounts
    ASM_X,    // 512-bit vectors; parts 0 and 1 are the w halves
    ASM_BM,   // accumulators for one value of f32 lanes
    ASM_L,    // masks of 64 lanes; parts 0 and 1 are scalars
    ASM_CM,   // accumulators for two values; parts 0 and 1 hold one each
    ASM_Y,    // pairs of vectors; parts 0 and 1 are x
    ASM_J,    // offsets of loads and stores beyond what their immediates reach
    ASM_EX,   // vectors with exponents beside them: blocks of numbers that share one
    ASM_CLASS_COUNT,
};

// Files of registers that have write ports of their own.
enum aie_file { AIE_FILE_SCALAR, AIE_FILE_VECTOR, AIE_FILE_ACC, AIE_FILE_FIFO, AIE_FILE_COUNT };

struct aie_class {
    uint64_t set;    // numbers that a program may use
    uint8_t kind;    // enum aie_reg_kind of the whole
    uint8_t half;    // of a half: number half_first + 2 n + part; AIE_NONE: it has none
    uint8_t quarter; // of a quarter: number 4 n + part
    uint8_t half_first;
    uint8_t file;   // enum aie_file
    uint8_t weight; // of a bundle of life: the fewer registers, the more
};

struct aie_spill {        // how a register of a class goes to memory and back; store 0: it does not
    uint16_t store, load; // register, immediate
    int8_t n, parts[4];   // those of the register that hold what there is
};

enum { AIE_MOST_ALTERNATIVES = 10, AIE_MOST_EXCLUSIVE = 6, AIE_MOST_FILE_RUNS = 8 };

// Instructions that every target has with the same operands in the same order.
enum aie_basic {
    AIE_BASIC_JUMP,            // label
    AIE_BASIC_JUMP_IF_ZERO,    // r, label
    AIE_BASIC_JUMP_IF_NONZERO, // r, label
    AIE_BASIC_JUMP_POINTER,    // p
    AIE_BASIC_ACQUIRE,         // number, r
    AIE_BASIC_ACQUIRE_ANY,     // r, r
    AIE_BASIC_RELEASE,         // number, r
    AIE_BASIC_COUNT,           // lc, r, small number: how often a loop runs
    AIE_BASIC_SET,             // any scalar, 32 bits or a label
    AIE_BASIC_SET_SMALL,       // r, 11 bits
    AIE_BASIC_SET_MOVABLE,     // any scalar, 10 bits, in the slot of moves
    AIE_BASIC_COPY,            // any scalar, any scalar
    AIE_BASIC_CONTROL,         // control register, r
    AIE_BASIC_ADD_SMALL,       // r, r, 7 bits
    AIE_BASIC_ADD,             // r, r, r, as those that follow
    AIE_BASIC_SUB,
    AIE_BASIC_AND,
    AIE_BASIC_OR,
    AIE_BASIC_XOR,
    AIE_BASIC_SHIFT, // left, zeros from either side; to the right where the amount is negative
    AIE_BASIC_SHIFT_SIGNED, // the same with the sign from the left
    AIE_BASIC_LESS,         // signed
    AIE_BASIC_NOT_ZERO,     // r, r
    AIE_BASIC_MARK,         // from here on, and
    AIE_BASIC_MARK_END,     // up to here: see asm_loop_late; both 0: there are none
    AIE_BASICS,
};

// Control registers by what they are for.
enum aie_control {
    AIE_CONTROL_ROUND,    // of conversions and of shifts to the right: enum aie_rounding
    AIE_CONTROL_SATURATE, // results that do not fit: 0 cut off, 1 the nearest that fits
    AIE_CONTROL_ADD_SIGN, // 1: lanes are signed in compares
    AIE_CONTROL_UPS_SIGN, // in widening,
    AIE_CONTROL_SRS_SIGN, // in narrowing
    AIE_CONTROLS,
};

enum aie_rounding { AIE_ROUND_TO_ZERO = 2, AIE_ROUND_NEAREST_EVEN = 12 };

// ---- products ----

// k of a matrix product, on any target, is a multiple of this.
enum { AIE_PRODUCT_K = 8 };

// ---- the array ----

// What no target has more of: bounds of tables. What one target has are fields of aie_target.
enum { AIE_MOST_COLUMNS = 8, AIE_MOST_CORE_ROWS = 4 };
// Every target has these rows: the shims', the memtiles' and those of cores.
enum { AIE_ROWS = 2 + AIE_MOST_CORE_ROWS };

// ---- the target ----

// A shape of the multiplier, rows x inner x columns, and the word that configures it.
struct aie_mac {
    int m, k, n;
    uint32_t config;
};

struct aie_target {
    enum aie_arch arch;
    const char * name;
    bool has_programs; // the compiler can write its core programs; else streams and images only
    bool has_rows, has_products, has_conversions; // the families besides elementwise ones

    // Registers: classes, those pairs of classes (bits) that share registers, so that a program has
    // the one or the other, and the file that each unit belongs to, by first units.
    struct aie_class classes[ASM_CLASS_COUNT];
    uint16_t exclusive[AIE_MOST_EXCLUSIVE];
    struct {
        uint8_t unit, file;
    } files[AIE_MOST_FILE_RUNS]; // the first is unit 0; unit 0 again: the end

    // Values for which there is no register go to memory, down from a register of their own; 0:
    // there is none. Sums that last for many loops stand in vectors where accumulators are few.
    struct aie_spill spills[ASM_CLASS_COUNT];
    struct aie_spill spill_both; // of an accumulator of acc_class that holds two values
    aie_reg spill_base;
    uint16_t
        copies[ASM_CLASS_COUNT]; // instructions register, register; 0: values are not handed on
    enum asm_class
        parks[ASM_CLASS_COUNT]; // where a value can be meanwhile, by the same; 0: nowhere
    bool sums_in_vectors;

    aie_reg controls[AIE_CONTROLS];

    // Instructions: those of enum aie_basic, and those that exist in two slots with equal operands.
    uint16_t basic[AIE_BASICS];
    uint16_t alternatives[AIE_MOST_ALTERNATIVES][2];
    int n_alternatives;
    uint16_t undefined_for_some; // an instruction that some numbers in its scalar have no known
                                 // meaning for; 0: none

    // The exposed pipeline, in bundles.
    int delay_slots;        // behind a branch
    int loop_distance;      // from the last write of ls, le or lc to the last bundle of the loop
    int loop_bytes;         // and between them, in bytes
    bool loop_end_stores;   // a store may stand in that bundle
    int lock_distance;      // between memory traffic and a lock operation, either way
    int lock_margin;        // what the assembler leaves there
    int load_latency;       // of a load to a register
    int control_latency;    // beyond that of any control register
    int memory_stage;       // stage less one in which ordinary memory traffic is done
    int bundle_bytes;       // of the largest bundle; targets of jumps and ends of loops lie at
                            // multiples of it
    uint32_t program_bytes; // program memory

    // What a core sees.
    uint32_t data_bytes;  // data memory of its own
    int bank_bytes;       // of it in one bank: a core's accesses of a bank in one cycle take turns
    uint32_t own_window;  // where that begins in its addresses
    uint32_t west_window; // and where its western neighbour's does
    int own_locks;        // its number of its own tile's first lock
    int west_locks;       // of its western neighbour's
    int vector_bytes;     // of a vector register
    int load_bytes;       // of one load or store
    int pointer_step;     // bytes of which a pointer is moved on by multiples, in one instruction
    int lanes;            // f32 lanes of a value
    uint8_t value_class;  // where they stand as vectors,
    uint8_t acc_class;    // in an accumulator,
    uint8_t pair_class;   // and as two bf16 pieces of each
    int word_reach;       // bytes to either side that the offset of a scalar's load reaches,
    int vector_reach;     // of a vector's
    uint32_t add_config;  // of the float adder: f32 lanes, nothing negated
    uint32_t mul_config;  // of the multiplier: bf16 products lane by lane, f32 sums,
    int lane_products;    // of so many products a lane
    int product_few;      // most rows of b, as bf16, of a product on the decoder's PDI
    int product_cut_k;    // where k of a product is cut, the parts are multiples of this
    struct aie_mac mac_bf16, mac_i8, mac_i16, mac_block; // of matrix products; m 0: there is none

    // The array.
    int columns;
    int core_rows;
    int device_generation; // in the instruction stream's header
    uint32_t shim_burst;   // longest burst, as the shim BD encodes it
    int stream_bytes;      // that a stream carries in a cycle
};

const struct aie_target * aie_target(enum aie_arch arch); // never NULL for a known arch
// By the generation in an instruction stream's header; NULL: none of ours.
const struct aie_target * aie_target_of_generation(unsigned generation);

// The file of a register unit.
enum aie_file aie_target_file(const struct aie_target * t, int unit);
