// verbs: the words that core programs are written in, for any target. Those that every target has
// as one instruction are here; the others, verbs.def, are functions of each target (aie2-verbs.c).
// They only write instructions on virtual registers: what they mean is said in verbs.def, when they
// issue is the scheduler's.
#pragma once

#include "aie/asm/asm.h"

enum lane_width { LANE_8, LANE_16, LANE_32, LANE_WIDTHS };
enum lane_op { LANE_AND, LANE_OR, LANE_ADD, LANE_SUB, LANE_OPS };
enum lane_choice { LANE_MAX, LANE_MIN, LANE_MIN_UNSIGNED, LANE_CHOICES };
enum lane_product { LANE_PRODUCT, LANE_PLUS_PRODUCT, LANE_LESS_PRODUCT, LANE_PRODUCTS };
enum lane_compare { LANE_LESS, LANE_NOT_LESS, LANE_NOT_LESS_UNSIGNED, LANE_COMPARES };

struct emit_place { // in data memory
    int memory;
    struct asm_reg pointer;
    int32_t offset;
};

struct emit_raised { // lanes in accumulators that are wide enough for them
    struct asm_reg acc[2];
};

struct emit_scale { // factors, and what the offset comes to, where there is one
    struct asm_reg by[2], rest[2];
    bool alone;
    bool given; // the registers are the caller's, who wants them in more than one region
};

// ---- new registers, for one region ----

struct asm_reg emit_new_value(struct asm_program * p); // vector, accumulator, pair: see verbs.def
struct asm_reg emit_new_acc(struct asm_program * p);
struct asm_reg emit_new_pair(struct asm_program * p);
struct asm_reg emit_new_mask(struct asm_program * p, int width); // of as many lanes as a vector has

// ---- scalars ----

void emit_set(struct asm_program * p, struct asm_reg d, int32_t value);       // any scalar
void emit_set_small(struct asm_program * p, struct asm_reg d, int32_t value); // r, within 1024
void emit_set_fixed(struct asm_program * p, aie_reg d, int32_t value); // a walk's, by its name
// Of `times` steps of a walk the last one is another; then it begins anew.
void emit_set_walk(struct asm_program * p, int walk, int times, int32_t step, int32_t last);
void emit_set_shift(struct asm_program * p, struct asm_reg s, int amount);
void emit_set_label(struct asm_program * p, struct asm_reg pointer, int label);
void emit_copy(struct asm_program * p, struct asm_reg d, struct asm_reg a); // any to any
// op: AIE_BASIC_ADD and those behind it that take two registers.
void emit_alu(struct asm_program * p, enum aie_basic op, struct asm_reg d, struct asm_reg a,
              struct asm_reg b);
void emit_add_small(struct asm_program * p, struct asm_reg d, struct asm_reg a, int n);
void emit_not_zero(struct asm_program * p, struct asm_reg d, struct asm_reg a); // 1 or 0
void emit_control(struct asm_program * p, enum aie_control which, struct asm_reg a);
// 32 bits at an offset from a pointer.
void emit_load_word(struct asm_program * p, int memory, struct asm_reg d, struct asm_reg pointer,
                    int32_t offset);

// Where values go for which there is no register, on a target that has to.
void emit_spill_to(struct asm_program * p, int memory, int32_t address, int vectors);

// ---- verbs.def ----

// clang-format off
#define V(name, parameters, arguments) void emit_##name parameters;
#include "verbs.def"
#undef V

struct aie_verbs {
#define V(name, parameters, arguments) void (*name) parameters;
#include "verbs.def"
#undef V
};
// clang-format on
