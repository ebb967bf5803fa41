// elementwise-ops: the rows that the elementwise program is made of.
#pragma once

#include "aie/ops/lanes/lanes.h"
#include "aie/ops/ops.h"

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
    const char * program; // ops of one program share a PDI per datatype
    enum ew_types types;
    bool native; // lanes are the datatype's own; otherwise f32
    int unroll;  // vals per loop trip: enough to hide latencies, few enough for the registers
    ew_fn * fn;
    const struct ew_stage * const * stages; // instead of fn
    ew_fn * fast;                           // instead of both where the program is a fast one
};

// A loop of a program: an op's, or a stage that ops share.
struct ew_loop {
    const struct ew_op * op;
    const struct ew_stage * stage; // NULL: the op's fn
};
enum { EW_MAX_LOOPS = 15, EW_SCRIPT_BITS = 4 };

extern const struct ew_op ew_ops[];
extern const int ew_n_ops;

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
struct val bits_abs(struct lanes * l, struct val a, struct val b);
struct val bits_neg(struct lanes * l, struct val a, struct val b);
struct val bits_relu(struct lanes * l, struct val a, struct val b);
struct val bits_step(struct lanes * l, struct val a, struct val b);
struct val bits_sgn(struct lanes * l, struct val a, struct val b);
// Before the loop of an op on native integer lanes: the control registers that it relies on.
void native_prepare(struct lanes * l, enum kernel_op op);

// Lane functions on f32 lanes (ops-unary.c).
struct val ew_scale(struct lanes * l, struct val a, struct val b);
struct val ew_clamp(struct lanes * l, struct val a, struct val b);
struct val ew_leaky_relu(struct lanes * l, struct val a, struct val b);
struct val ew_sqr(struct lanes * l, struct val a, struct val b);
struct val ew_sqrt(struct lanes * l, struct val a, struct val b);
struct val ew_floor(struct lanes * l, struct val a, struct val b);
struct val ew_ceil(struct lanes * l, struct val a, struct val b);
struct val ew_round(struct lanes * l, struct val a, struct val b);
struct val ew_trunc(struct lanes * l, struct val a, struct val b);
struct val ew_hardsigmoid(struct lanes * l, struct val a, struct val b);
struct val ew_hardswish(struct lanes * l, struct val a, struct val b);
struct val ew_reglu(struct lanes * l, struct val a, struct val b);
// Functions with the accuracy of 16 bits (ops-fast.c).
ew_fn fast_sigmoid, fast_silu, fast_swiglu, fast_gelu, fast_geglu, fast_gelu_quick,
    fast_geglu_quick, fast_swiglu_oai, fast_swiglu_clamp, fast_tanh, fast_exponential, fast_expm1,
    fast_elu;
// Rows of stages (ops-stages.c), ended by NULL.
extern const struct ew_stage * const ew_div[];
extern const struct ew_stage * const ew_exp[];
extern const struct ew_stage * const ew_expm1[];
extern const struct ew_stage * const ew_elu[];
extern const struct ew_stage * const ew_xielu[];
extern const struct ew_stage * const ew_tanh[];
extern const struct ew_stage * const ew_sigmoid[];
extern const struct ew_stage * const ew_silu[];
extern const struct ew_stage * const ew_gelu[];
extern const struct ew_stage * const ew_gelu_quick[];
extern const struct ew_stage * const ew_gelu_erf[];
extern const struct ew_stage * const ew_swiglu[];
extern const struct ew_stage * const ew_geglu[];
extern const struct ew_stage * const ew_geglu_quick[];
extern const struct ew_stage * const ew_geglu_erf[];
extern const struct ew_stage * const ew_swiglu_oai[];
extern const struct ew_stage * const ew_swiglu_clamp[];
extern const struct ew_stage * const ew_log[];
extern const struct ew_stage * const ew_softplus[];
extern const struct ew_stage * const ew_sin[];
extern const struct ew_stage * const ew_cos[];

// The loops of the program that e belongs to; returns how many. staged: whether any op has several.
int ew_loops(const struct ew_op * e, enum dtype t, bool fast, struct ew_loop loops[EW_MAX_LOOPS],
             bool * staged);
// What an op's one loop does; NULL where it has stages.
ew_fn * ew_function(const struct ew_op * e, enum dtype t, bool fast);
bool ew_matches(const struct ew_op * e, enum dtype t);
int ew_unroll(const struct ew_op * e, enum dtype t, bool fast);
