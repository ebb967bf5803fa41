// ops: which kernels the NPU compiler can write. An op family is a core program, made once per
// group of ops and datatype, and a plan that maps any shape onto it through DMA descriptors and
// run-time parameters.
#pragma once

#include "aie/array/array.h"
#include "aie/asm/asm.h"
#include "aie/plan/programs.h"

// Columns that a kernel has: the device's.
static inline int ops_columns(const struct kernel_spec * spec) {
    return spec->columns ? spec->columns : aie_target(spec->arch)->columns;
}

// Words that a stream carries in a cycle.
static inline uint64_t ops_stream_words(const struct kernel_spec * spec) {
    return (uint64_t) aie_target(spec->arch)->stream_bytes / 4;
}

// How many parts of so much, the last of which may be less.
static inline int64_t ops_parts(int64_t all, int64_t each) {
    return (all + each - 1) / each;
}

// ---- elementwise family: cores stream chunks through double buffers ----

// What the instruction stream writes into the core's data memory before each run, in 32-bit words.
enum {
    EW_PARAM_CHUNKS,     // how many chunks follow
    EW_PARAM_TRIPS,      // loop trips in each but the last
    EW_PARAM_TRIPS_LAST, // and in the last
    EW_PARAM_OP,         // which op of the program
    EW_PARAM_STREAM_B,   // 1: the second input comes chunk by chunk
    EW_PARAM_SPLAT_B,    // 1: it is one element for the whole run
    EW_PARAM_SPLAT_BYTE, // where that element stands in its word
    EW_PARAM_ARGS,       // the op's own parameters
    EW_PARAM_COUNT = EW_PARAM_ARGS + KERNEL_MAX_PARAMS,
};

// The core's data memory; pong of the inputs is ping ^ EW_CHUNK_BYTES.
enum {
    EW_CHUNK_WORDS = 1024,
    EW_CHUNK_BYTES = 4 * EW_CHUNK_WORDS,
    EW_PARAMS = 0x0000,
    EW_LOOPS = 0x0400,  // addresses of the loops, written by the core before its first run
    EW_SPILLS = 0x0800, // 64 vectors for which there is no register
    EW_BUFFER_A = 0x2000,
    EW_BUFFER_B = 0x4000,
    EW_MARGIN =
        0x200, // before and behind each buffer of results: trips that nobody wants write there
    EW_BUFFER_OUT = 0x6000 + EW_MARGIN,
    EW_BUFFER_OUT_PONG = EW_BUFFER_OUT + EW_CHUNK_BYTES + EW_MARGIN,
    EW_TEMPS_AT = 0x8600, // f32 lanes between the stages of an op, where it has some
    // Constants, a page of lanes.h after the other. Without stages they stand twice, in two banks;
    // else behind the temporaries.
    EW_POOL = 0x8600,
    EW_POOL_AGAIN = 0xc600, // a bank on
    EW_POOL_BEHIND = 0xc600,
    EW_POOL_PAGES = 7,
};
_Static_assert(EW_BUFFER_OUT_PONG + EW_CHUNK_BYTES + EW_MARGIN <= EW_TEMPS_AT, "they are apart");

// Locks of the core's tile and their values before and after every run.
enum {
    EW_LOCK_A_EMPTY,
    EW_LOCK_A_FULL,
    EW_LOCK_B_EMPTY,
    EW_LOCK_B_FULL,
    EW_LOCK_OUT_EMPTY,
    EW_LOCK_OUT_FULL,
    EW_LOCK_COUNT,
};
static const uint8_t ew_lock_init[EW_LOCK_COUNT] = {2, 0, 2, 0, 2, 0};

// An op on a datatype, as elementwise-ops.c lists them.
struct ew_op;
const struct ew_op * ew_find(enum kernel_op op, enum dtype t); // NULL: there is none
bool ew_exact(const struct kernel_spec * spec); // whether its program is an exact one
// The program of its own that it runs on where it is not the decoder's; NULL: there is no such op.
const struct aie_program * ew_program(const struct kernel_spec * spec);
uint32_t ew_index(const struct aie_program * program, enum kernel_op op); // for EW_PARAM_OP
// How much a core has to do for a word: something on its bits, a sum, a formula on f32 lanes, a row
// of stages or what is as long.
enum ew_weight { EW_NATIVE, EW_SUM, EW_LANES, EW_STAGES, EW_WEIGHTS };
enum ew_weight ew_weight(const struct ew_op * e);
bool ew_is_plain(enum kernel_op op); // on f32 lanes one loop that is no series
// Words of each input that one loop trip covers; divides EW_CHUNK_WORDS.
int ew_trip_words(const struct aie_program * program, enum aie_arch arch, enum kernel_op op);

// The op's words from EW_PARAM_ARGS on: its own parameters, then what is derived from them so that
// the core need not compute it for every vector.
int ew_n_args(enum kernel_op op);
void ew_args(const struct kernel_spec * spec, uint32_t args[KERNEL_MAX_PARAMS]);

// The core program with a loop for each of its ops, and the constants it wants in its pool.
struct ew_program {
    struct asm_code code;
    uint32_t pool_at;
    size_t pool_size;
    uint8_t pool[EW_POOL_PAGES * 2048];
};
enum status elementwise_program(const struct aie_program * of, enum aie_arch arch,
                                struct ew_program * out, struct error * err);
// With this op alone: how much of the program it is. Nothing runs on it.
enum status elementwise_alone(const struct aie_program * of, enum aie_arch arch, enum kernel_op op,
                              struct ew_program * out, struct error * err);

// ---- the family: see aie/plan/plan.h ----

struct aie_plan;
enum status elementwise_plan(struct aie_plan * p, struct error * err);
uint64_t elementwise_bound(const struct kernel_spec * spec);
enum status elementwise_stream(const struct aie_plan * p, uint32_t ** insts, size_t * n_words,
                               struct error * err);
enum status elementwise_image(const struct aie_program * of, enum aie_arch arch,
                              struct array_program * out, struct error * err);
