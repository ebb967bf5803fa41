// elementwise-ops: the rows that the elementwise program is made of.
#pragma once

#include "aie/ops/lanes/lanes.h"
#include "aie/ops/ops.h"
#include "aie/verbs/verbs.h"

enum ew_types { EW_FLOATS = 1, EW_INTS = 2, EW_ALL = 3 };

// An op that is too long for one loop is a row of stages, each a loop over the chunk. Between them
// vals wait in temporaries, as f32 lanes; t[1] and t[3] are loaded into vector registers, t[0] and
// t[2] into accumulators. A stage that reads a temporary and writes it must make the new from the
// old: nothing else keeps the store behind the load.
enum { EW_TEMPS = 4 };
enum ew_operands {
    // clang-format off
    EW_A = 1, EW_B = 2, EW_OUT = 4,
    EW_T0 = 16, EW_T1 = 32, EW_T2 = 64, EW_T3 = 128, // EW_T0 << i is t[i]
    // clang-format on
};

struct ew_vals {
    struct val a, b, out, t[EW_TEMPS];
};

struct ew_stage {
    int in, out; // enum ew_operands
    void (*fn)(struct lanes * l, struct ew_vals * v);
};

typedef struct val ew_fn(struct lanes * l, struct val a, struct val b);

struct ew_op {
    enum kernel_op op;
    enum ew_types types;
    bool native; // lanes are the datatype's own; otherwise f32
    int unroll;  // vals per loop trip: enough to hide latencies, few enough for the registers
    ew_fn * fn;
    const struct ew_stage * const * stages; // instead of fn
    ew_fn * fast;                           // instead of both where the op is to be fast
    bool has_exact;                         // f32 may be either
    bool only_f32;                          // there is none of the other float types
    bool cast;                              // memory holds these instead of the program's type
    enum dtype from, to;
};

// A loop of a program: an op's, or a stage that ops share.
struct ew_loop {
    const struct ew_op * op;
    const struct ew_stage * stage; // NULL: the op's fn
};
enum { EW_MAX_LOOPS = 31, EW_SCRIPT_BITS = 5 };

// The ops of a program that have loops there, in its order; returns how many.
enum { EW_PROGRAM_OPS = 31 };
int ew_program_ops(const struct aie_program * program, const struct ew_op * ops[EW_PROGRAM_OPS]);

// Lane functions on native lanes (ops-native.c); b is unused where there is one input.
struct val int_add(struct lanes * l, struct val a, struct val b);
struct val int_sub(struct lanes * l, struct val a, struct val b);
struct val int_mul(struct lanes * l, struct val a, struct val b);
struct val int_div(struct lanes * l, struct val a, struct val b);
struct val int_abs(struct lanes * l, struct val a, struct val b);
struct val int_neg(struct lanes * l, struct val a, struct val b);
struct val int_relu(struct lanes * l, struct val a, struct val b);
struct val int_step(struct lanes * l, struct val a, struct val b);
struct val int_sgn(struct lanes * l, struct val a, struct val b);
// Before the loop of an op on native integer lanes: the control registers that it relies on.
void native_prepare(struct lanes * l, enum kernel_op op);
// Whole vectors, by lanes of the datatype's own width: a constant, of which the low bits count; two
// together; the smaller or larger ones, and a mask that tells how each was decided; choices.
struct val n_bits(struct lanes * l, uint32_t v);
struct val n_two(struct lanes * l, enum lane_op op, struct val a, struct val b);
struct val n_choose(struct lanes * l, enum lane_choice op, struct val a, struct val b,
                    struct asm_reg * mask);
struct asm_reg n_compare(struct lanes * l, enum lane_compare op, struct val a, struct val b);
struct val n_select(struct lanes * l, struct asm_reg mask, struct val clear, struct val set);

// CLAMP's limits in the program's datatype, and behind them as integers of the same order: those of
// bits_order(), by the bits of a number.
enum { EW_CLAMP_ORDERED = 2 };
uint32_t bits_order(uint32_t pattern, enum dtype t);

// Not of elementwise.def: pairs of numbers turned, and numbers as they are (ops-pairs.c).
struct val ew_rotate(struct lanes * l, struct val a, struct val b);
struct val ew_same(struct lanes * l, struct val a, struct val b);

// By the rows of elementwise.def: lane functions on f32 lanes (ops-unary.c), on the bits of floats
// (ops-native.c), rows of stages, ended by NULL (ops-stages.c), and fast functions (ops-fast.c).
#define LANES(name, vectors) struct val ew_##name(struct lanes * l, struct val a, struct val b);
#define BITS(name)           struct val bits_##name(struct lanes * l, struct val a, struct val b);
#define BOTH(name)           struct val ew_##name(struct lanes * l, struct val a, struct val b);
#define STAGES(name)         extern const struct ew_stage * const ew_##name[];
#define FAST(name)                                                                                 \
    extern const struct ew_stage * const ew_##name[];                                              \
    ew_fn fast_##name;
#define ELEMENTWISE(id, name, ggml_name, source, inputs, params, npu, ...) npu
#include "kernel/elementwise.def"
#undef LANES
#undef BITS
#undef STAGES
#undef FAST
#undef BOTH
#undef ELEMENTWISE

// The loops of the program that e belongs to; returns how many. staged: whether any op has several.
int ew_loops_of(const struct ew_op * const * ops, int n_ops, enum dtype t, bool exact,
                struct ew_loop loops[EW_MAX_LOOPS], bool * staged);
// Whether an op of a program is the fast one.
bool ew_fast(const struct ew_op * e, enum dtype t, bool exact);
// What an op's one loop does; NULL where it has stages.
ew_fn * ew_function(const struct ew_op * e, bool fast);
int ew_unroll(const struct ew_op * e, enum aie_arch arch, enum dtype t, bool exact);
// Whether a trip's vals are one that is two vectors long (lanes_set_vectors).
bool ew_is_doubled(const struct ew_op * e, enum aie_arch arch, enum dtype t, bool exact);

// An op's loop, fast, in a program that is not of this family, over pointers of its own; alone: its
// trips do not overlap, for the sake of program memory.
void ew_loop_with(struct lanes * l, enum kernel_op op, struct asm_reg trips, struct asm_reg pa,
                  struct asm_reg pb, struct asm_reg pout, bool alone);

// Whether a target does an op by several values at once (aie2p-ops-wide.c), and a trip of it.
bool ew_is_wide(const struct ew_op * e, enum aie_arch arch, enum dtype t);
// Whether it then loads its one input by pa, and once more by pb.
bool ew_loads_twice(const struct ew_op * e, enum aie_arch arch, enum dtype t);
// Constants that loops of bf16 have registers for.
int ew_wide_kept(const struct ew_op * e, enum aie_arch arch, enum dtype t);
void ew_wide_trip(struct lanes * l, const struct ew_op * e, struct asm_reg pa, struct asm_reg pb,
                  struct asm_reg pout);
