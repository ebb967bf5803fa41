// elementwise-ops: one row and one short function for each op. Ops on f32 lanes serve f32, f16 and
// bf16; ops on native lanes work on the bits of any datatype of their kind.
#include "elementwise-ops.h"

#include "aie/isa/aie2.h"

#include <string.h>

// ---- f32 lanes ----

static struct val mul(struct lanes * l, struct val a, struct val b) {
    if (l->dtype != DTYPE_BF16) {
        return f_mul(l, a, b);
    }
    // bf16 factors are their own first piece, and their product fits f32
    struct factor left = f_factor(l, a, 1, FACTOR_LEFT), right = f_factor(l, b, 1, FACTOR_RIGHT);
    return f_product(l, &left, &right);
}

const struct ew_op ew_ops[] = {
    {KERNEL_OP_ADD, "binary", EW_FLOATS, false, 4, f_add},
    {KERNEL_OP_SUB, "binary", EW_FLOATS, false, 4, f_sub},
    {KERNEL_OP_MUL, "binary", EW_FLOATS, false, 2, mul},

    {KERNEL_OP_ABS, "sign", EW_FLOATS, true, 4, bits_abs},
    {KERNEL_OP_SGN, "sign", EW_FLOATS, true, 4, bits_sgn},
    {KERNEL_OP_NEG, "sign", EW_FLOATS, true, 4, bits_neg},
    {KERNEL_OP_STEP, "sign", EW_FLOATS, true, 4, bits_step},
    {KERNEL_OP_RELU, "sign", EW_FLOATS, true, 4, bits_relu},

    {KERNEL_OP_SCALE, "arith", EW_FLOATS, false, 1, ew_scale},
    {KERNEL_OP_CLAMP, "arith", EW_FLOATS, false, 1, ew_clamp},
    {KERNEL_OP_LEAKY_RELU, "arith", EW_FLOATS, false, 1, ew_leaky_relu},
    {KERNEL_OP_SQR, "arith", EW_FLOATS, false, 1, ew_sqr},
    {KERNEL_OP_FLOOR, "round", EW_FLOATS, false, 1, ew_floor},
    {KERNEL_OP_CEIL, "round", EW_FLOATS, false, 1, ew_ceil},
    {KERNEL_OP_ROUND, "round", EW_FLOATS, false, 1, ew_round},
    {KERNEL_OP_TRUNC, "round", EW_FLOATS, false, 1, ew_trunc},
    {KERNEL_OP_HARDSWISH, "hard", EW_FLOATS, false, 1, ew_hardswish},
    {KERNEL_OP_HARDSIGMOID, "hard", EW_FLOATS, false, 1, ew_hardsigmoid},
    {KERNEL_OP_DIV, "div", EW_FLOATS, false, 1, ew_div},
    {KERNEL_OP_EXP, "exp", EW_FLOATS, false, 1, ew_exp},
    {KERNEL_OP_EXPM1, "expm1", EW_FLOATS, false, 1, ew_expm1},
    {KERNEL_OP_ELU, "elu", EW_FLOATS, false, 1, ew_elu},
    {KERNEL_OP_SIGMOID, "sigmoid", EW_FLOATS, false, 1, ew_sigmoid},
    {KERNEL_OP_SILU, "silu", EW_FLOATS, false, 1, ew_silu},
    {KERNEL_OP_TANH, "tanh", EW_FLOATS, false, 1, ew_tanh},
    {KERNEL_OP_GELU, "gelu", EW_FLOATS, false, 1, ew_gelu},
    {KERNEL_OP_GELU_QUICK, "gelu_quick", EW_FLOATS, false, 1, ew_gelu_quick},
    {KERNEL_OP_GELU_ERF, "gelu_erf", EW_FLOATS, false, 1, ew_gelu_erf},
    {KERNEL_OP_LOG, "log", EW_FLOATS, false, 1, ew_log},
    {KERNEL_OP_SQRT, "sqrt", EW_FLOATS, false, 1, ew_sqrt},
    {KERNEL_OP_SOFTPLUS, "softplus", EW_FLOATS, false, 1, ew_softplus},
    {KERNEL_OP_SIN, "trig", EW_FLOATS, false, 1, ew_sin},
    {KERNEL_OP_COS, "trig", EW_FLOATS, false, 1, ew_cos},
    {KERNEL_OP_XIELU, "xielu", EW_FLOATS, false, 1, ew_xielu},
    {KERNEL_OP_REGLU, "reglu", EW_FLOATS, false, 1, ew_reglu},
    {KERNEL_OP_GEGLU, "geglu", EW_FLOATS, false, 1, ew_geglu},
    {KERNEL_OP_SWIGLU, "swiglu", EW_FLOATS, false, 1, ew_swiglu},
    {KERNEL_OP_SWIGLU_OAI, "swiglu_oai", EW_FLOATS, false, 1, ew_swiglu_oai},
    {KERNEL_OP_GEGLU_ERF, "geglu_erf", EW_FLOATS, false, 1, ew_geglu_erf},
    {KERNEL_OP_GEGLU_QUICK, "geglu_quick", EW_FLOATS, false, 1, ew_geglu_quick},
    {KERNEL_OP_SWIGLU_CLAMP, "swiglu_clamp", EW_FLOATS, false, 1, ew_swiglu_clamp},

    {KERNEL_OP_ADD, "integer", EW_INTS, true, 4, int_add},
    {KERNEL_OP_SUB, "integer", EW_INTS, true, 4, int_sub},
    {KERNEL_OP_MUL, "integer", EW_INTS, true, 4, int_mul},
    {KERNEL_OP_DIV, "integer", EW_INTS, true, 1, int_div},
    {KERNEL_OP_ABS, "integer", EW_INTS, true, 4, int_abs},
    {KERNEL_OP_SGN, "integer", EW_INTS, true, 4, int_sgn},
    {KERNEL_OP_NEG, "integer", EW_INTS, true, 4, int_neg},
    {KERNEL_OP_STEP, "integer", EW_INTS, true, 4, int_step},
    {KERNEL_OP_RELU, "integer", EW_INTS, true, 4, int_relu},
};
const int ew_n_ops = sizeof ew_ops / sizeof ew_ops[0];

// ---- looking them up ----

bool ew_matches(const struct ew_op * e, enum dtype t) {
    bool is_float = t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16;
    return e->types & (is_float ? EW_FLOATS : EW_INTS);
}

const struct ew_op * ew_find(enum kernel_op op, enum dtype t) {
    for (int i = 0; i < ew_n_ops; i++) {
        if (ew_ops[i].op == op && ew_matches(&ew_ops[i], t)) {
            return &ew_ops[i];
        }
    }
    return NULL;
}

const char * ew_program_name(const struct ew_op * e) {
    return e->program;
}

int ew_index(const struct ew_op * e, enum dtype t) {
    int index = 0;
    for (const struct ew_op * i = ew_ops; i < e; i++) {
        index += ew_matches(i, t) && !strcmp(i->program, e->program);
    }
    return index;
}

// f16 vals are dear in registers and bound by their conversions anyway.
int ew_unroll(const struct ew_op * e, enum dtype t) {
    return t == DTYPE_F16 && !e->native && e->unroll > 2 ? 2 : e->unroll;
}

int ew_trip_words(const struct ew_op * e, enum dtype t) {
    return lanes_step(t, e->native) * ew_unroll(e, t) / 4;
}
