// elementwise-ops: the rows that the elementwise program is made of.
#pragma once

#include "lanes.h"
#include "ops.h"

enum ew_types { EW_FLOATS = 1, EW_INTS = 2, EW_ALL = 3 };

struct ew_op {
    enum kernel_op op;
    const char * program; // ops of one program share a PDI per datatype
    enum ew_types types;
    bool native; // lanes are the datatype's own; otherwise f32
    int unroll;  // vals per loop trip: enough to hide latencies, few enough for the registers
    struct val (*fn)(struct lanes * l, struct val a, struct val b);
};

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

// Lane functions on f32 lanes (ops-unary.c, ops-glu.c).
struct val ew_div(struct lanes * l, struct val a, struct val b);
struct val ew_tanh(struct lanes * l, struct val a, struct val b);
struct val ew_elu(struct lanes * l, struct val a, struct val b);
struct val ew_sigmoid(struct lanes * l, struct val a, struct val b);
struct val ew_gelu(struct lanes * l, struct val a, struct val b);
struct val ew_gelu_quick(struct lanes * l, struct val a, struct val b);
struct val ew_gelu_erf(struct lanes * l, struct val a, struct val b);
struct val ew_silu(struct lanes * l, struct val a, struct val b);
struct val ew_hardswish(struct lanes * l, struct val a, struct val b);
struct val ew_hardsigmoid(struct lanes * l, struct val a, struct val b);
struct val ew_exp(struct lanes * l, struct val a, struct val b);
struct val ew_expm1(struct lanes * l, struct val a, struct val b);
struct val ew_softplus(struct lanes * l, struct val a, struct val b);
struct val ew_xielu(struct lanes * l, struct val a, struct val b);
struct val ew_floor(struct lanes * l, struct val a, struct val b);
struct val ew_ceil(struct lanes * l, struct val a, struct val b);
struct val ew_round(struct lanes * l, struct val a, struct val b);
struct val ew_trunc(struct lanes * l, struct val a, struct val b);
struct val ew_sqr(struct lanes * l, struct val a, struct val b);
struct val ew_sqrt(struct lanes * l, struct val a, struct val b);
struct val ew_log(struct lanes * l, struct val a, struct val b);
struct val ew_sin(struct lanes * l, struct val a, struct val b);
struct val ew_cos(struct lanes * l, struct val a, struct val b);
struct val ew_scale(struct lanes * l, struct val a, struct val b);
struct val ew_clamp(struct lanes * l, struct val a, struct val b);
struct val ew_leaky_relu(struct lanes * l, struct val a, struct val b);
struct val ew_reglu(struct lanes * l, struct val a, struct val b);
struct val ew_geglu(struct lanes * l, struct val a, struct val b);
struct val ew_swiglu(struct lanes * l, struct val a, struct val b);
struct val ew_swiglu_oai(struct lanes * l, struct val a, struct val b);
struct val ew_geglu_erf(struct lanes * l, struct val a, struct val b);
struct val ew_geglu_quick(struct lanes * l, struct val a, struct val b);
struct val ew_swiglu_clamp(struct lanes * l, struct val a, struct val b);

bool ew_matches(const struct ew_op * e, enum dtype t);
int ew_unroll(const struct ew_op * e, enum dtype t);
