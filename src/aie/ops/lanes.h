// lanes: an op is written once, over lanes. A lane value is a vector of numbers in a register:
// floats as 16 x f32 in an accumulator half, integers as a full 512-bit vector of their own width.
// Datatypes live at the edges: a load turns memory into lanes, a store turns lanes into memory
// (rounding to nearest even).
#pragma once

#include "aie/asm/asm.h"
#include "tensor/tensor.h"

#define LANES_MAX_CONSTS 12

struct lanes {
    struct asm_program * p;
    enum dtype dtype;
    struct asm_reg minus_one, one; // scalars
    struct asm_reg float_config;   // what the float adder wants to be told
    struct asm_reg shift0, shift13, shift16;
    struct { uint32_t value; struct asm_reg scalar, vector; bool pinned; } consts[LANES_MAX_CONSTS];
    int n_consts;
    struct asm_reg smallest_f16, half; // f32 constants in accumulators, for f16 only
};

struct lane {
    struct asm_reg reg; // ASM_BM for floats, ASM_X for integers
};

struct lane_edge { // one per datatype
    bool is_float;
    int step_bytes; // memory that one vector covers
    int unroll;     // vectors per loop trip: enough to hide latencies, few enough for the registers
};

const struct lane_edge * lanes_edge(enum dtype t);

// Emits the program's start: rounding mode and constants. Once, first.
void lanes_begin(struct lanes * l, struct asm_program * p, enum dtype t);

struct lane lanes_load(struct lanes * l, struct asm_reg pointer, int memory);
void lanes_store(struct lanes * l, struct lane v, struct asm_reg pointer, int memory);
// Fills the global accumulator / vector `to` with the element that r holds in its low bits.
void lanes_splat(struct lanes * l, struct asm_reg r, struct asm_reg to);

// ---- what ops are made of ----
struct lane lane_add(struct lanes * l, struct lane a, struct lane b);
