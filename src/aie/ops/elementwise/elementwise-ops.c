// elementwise-ops: one row and one short function for each op. Ops on f32 lanes serve f32, f16 and
// bf16; ops on native lanes work on the bits of any datatype of their kind.
#include "elementwise-ops.h"

#include "aie/isa/aie2.h"

#include <assert.h>
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
    {KERNEL_OP_ADD, "sum", EW_FLOATS, false, 4, f_add, NULL},
    {KERNEL_OP_SUB, "sum", EW_FLOATS, false, 4, f_sub, NULL},
    {KERNEL_OP_MUL, "mul", EW_FLOATS, false, 2, mul, NULL},

    {KERNEL_OP_ABS, "sign", EW_FLOATS, true, 4, bits_abs, NULL},
    {KERNEL_OP_SGN, "sign", EW_FLOATS, true, 4, bits_sgn, NULL},
    {KERNEL_OP_NEG, "sign", EW_FLOATS, true, 4, bits_neg, NULL},
    {KERNEL_OP_STEP, "sign", EW_FLOATS, true, 4, bits_step, NULL},
    {KERNEL_OP_RELU, "sign", EW_FLOATS, true, 4, bits_relu, NULL},

    {KERNEL_OP_SCALE, "arith", EW_FLOATS, false, 1, ew_scale, NULL},
    {KERNEL_OP_CLAMP, "arith", EW_FLOATS, false, 1, ew_clamp, NULL},
    {KERNEL_OP_LEAKY_RELU, "arith", EW_FLOATS, false, 1, ew_leaky_relu, NULL},
    {KERNEL_OP_SQR, "arith", EW_FLOATS, false, 1, ew_sqr, NULL},
    {KERNEL_OP_HARDSIGMOID, "arith", EW_FLOATS, false, 1, ew_hardsigmoid, NULL},

    {KERNEL_OP_FLOOR, "round", EW_FLOATS, false, 1, ew_floor, NULL},
    {KERNEL_OP_CEIL, "round", EW_FLOATS, false, 1, ew_ceil, NULL},
    {KERNEL_OP_ROUND, "round", EW_FLOATS, false, 1, ew_round, NULL},
    {KERNEL_OP_TRUNC, "round", EW_FLOATS, false, 1, ew_trunc, NULL},
    {KERNEL_OP_REGLU, "mul", EW_FLOATS, false, 1, ew_reglu, NULL},

    {KERNEL_OP_LOG, "log", EW_FLOATS, false, 1, NULL, ew_log},
    {KERNEL_OP_SQRT, "log", EW_FLOATS, false, 1, ew_sqrt, NULL},

    {KERNEL_OP_SIN, "trig", EW_FLOATS, false, 1, NULL, ew_sin},
    {KERNEL_OP_COS, "trig", EW_FLOATS, false, 1, NULL, ew_cos},
    {KERNEL_OP_HARDSWISH, "trig", EW_FLOATS, false, 1, ew_hardswish, NULL},

    {KERNEL_OP_EXP, "exp", EW_FLOATS, false, 1, NULL, ew_exp},
    {KERNEL_OP_EXPM1, "exp", EW_FLOATS, false, 1, NULL, ew_expm1},
    {KERNEL_OP_ELU, "exp", EW_FLOATS, false, 1, NULL, ew_elu},

    {KERNEL_OP_TANH, "tanh", EW_FLOATS, false, 1, NULL, ew_tanh},
    {KERNEL_OP_DIV, "mul", EW_FLOATS, false, 1, NULL, ew_div},

    {KERNEL_OP_SIGMOID, "silu", EW_FLOATS, false, 1, NULL, ew_sigmoid},
    {KERNEL_OP_SILU, "silu", EW_FLOATS, false, 1, NULL, ew_silu},
    {KERNEL_OP_SWIGLU, "silu", EW_FLOATS, false, 1, NULL, ew_swiglu},

    {KERNEL_OP_GELU, "gelu", EW_FLOATS, false, 1, NULL, ew_gelu},
    {KERNEL_OP_GEGLU, "gelu", EW_FLOATS, false, 1, NULL, ew_geglu},

    {KERNEL_OP_GELU_QUICK, "quick", EW_FLOATS, false, 1, NULL, ew_gelu_quick},
    {KERNEL_OP_GEGLU_QUICK, "quick", EW_FLOATS, false, 1, NULL, ew_geglu_quick},

    {KERNEL_OP_SWIGLU_OAI, "oai", EW_FLOATS, false, 1, NULL, ew_swiglu_oai},

    {KERNEL_OP_SWIGLU_CLAMP, "clamp", EW_FLOATS, false, 1, NULL, ew_swiglu_clamp},

    {KERNEL_OP_GELU_ERF, "erf", EW_FLOATS, false, 1, NULL, ew_gelu_erf},
    {KERNEL_OP_GEGLU_ERF, "erf", EW_FLOATS, false, 1, NULL, ew_geglu_erf},

    {KERNEL_OP_XIELU, "xielu", EW_FLOATS, false, 1, NULL, ew_xielu},

    {KERNEL_OP_SOFTPLUS, "softplus", EW_FLOATS, false, 1, NULL, ew_softplus},

    {KERNEL_OP_ADD, "integer", EW_INTS, true, 4, int_add, NULL},
    {KERNEL_OP_SUB, "integer", EW_INTS, true, 4, int_sub, NULL},
    {KERNEL_OP_MUL, "integer", EW_INTS, true, 4, int_mul, NULL},
    {KERNEL_OP_DIV, "integer", EW_INTS, true, 1, int_div, NULL},
    {KERNEL_OP_ABS, "integer", EW_INTS, true, 4, int_abs, NULL},
    {KERNEL_OP_SGN, "integer", EW_INTS, true, 4, int_sgn, NULL},
    {KERNEL_OP_NEG, "integer", EW_INTS, true, 4, int_neg, NULL},
    {KERNEL_OP_STEP, "integer", EW_INTS, true, 4, int_step, NULL},
    {KERNEL_OP_RELU, "integer", EW_INTS, true, 4, int_relu, NULL},
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

enum ew_weight ew_weight(const struct ew_op * e) {
    bool heavy = e->stages || e->op == KERNEL_OP_DIV || e->op == KERNEL_OP_SQRT ||
                 e->op == KERNEL_OP_HARDSWISH;
    bool sum = e->op == KERNEL_OP_ADD || e->op == KERNEL_OP_SUB;
    return heavy ? EW_STAGES : e->native ? EW_NATIVE : sum ? EW_SUM : EW_LANES;
}

const char * ew_program_name(const struct ew_op * e) {
    return e->program;
}

static void add_loop(struct ew_loop * loops, int * n, struct ew_loop loop) {
    for (int i = 0; loop.stage && i < *n; i++) {
        if (loops[i].stage == loop.stage) {
            return;
        }
    }
    assert(*n < EW_MAX_LOOPS);
    loops[(*n)++] = loop;
}

int ew_loops(const struct ew_op * e, enum dtype t, struct ew_loop loops[EW_MAX_LOOPS],
             bool * staged) {
    int n = 0;
    *staged = false;
    for (const struct ew_op * i = ew_ops; i < ew_ops + ew_n_ops; i++) {
        if (!ew_matches(i, t) || strcmp(i->program, e->program)) {
            continue;
        }
        if (!i->stages) {
            add_loop(loops, &n, (struct ew_loop){i, NULL});
            continue;
        }
        *staged = true;
        for (const struct ew_stage * const * s = i->stages; *s; s++) {
            add_loop(loops, &n, (struct ew_loop){i, *s});
        }
    }
    return n;
}

static int loop_number(const struct ew_loop * loops, int n, const struct ew_op * e,
                       const struct ew_stage * s) {
    for (int i = 0; i < n; i++) {
        if (s ? loops[i].stage == s : loops[i].op == e && !loops[i].stage) {
            return i;
        }
    }
    return -1;
}

// In a program with stages, a script: the numbers of the loops to run, from 1, 4 bits each.
uint32_t ew_index(const struct ew_op * e, enum dtype t) {
    struct ew_loop loops[EW_MAX_LOOPS];
    bool staged;
    int n = ew_loops(e, t, loops, &staged), shift = 0;
    uint32_t script = 0;
    if (!staged) {
        return (uint32_t) loop_number(loops, n, e, NULL);
    }
    if (!e->stages) {
        return (uint32_t) loop_number(loops, n, e, NULL) + 1;
    }
    for (const struct ew_stage * const * s = e->stages; *s; s++, shift += EW_SCRIPT_BITS) {
        assert(shift < 32);
        script |= (uint32_t) (loop_number(loops, n, e, *s) + 1) << shift;
    }
    return script;
}

// f16 vals are dear in registers and bound by their conversions anyway.
int ew_unroll(const struct ew_op * e, enum dtype t) {
    return t == DTYPE_F16 && !e->native && e->unroll > 2 ? 2 : e->unroll;
}

int ew_trip_words(const struct ew_op * e, enum dtype t) {
    return lanes_step(t, e->native) * ew_unroll(e, t) / 4;
}

// ---- parameters ----

// SCALE's factor in three bf16 pieces and one that only keeps a pair full, each as a word of two.
enum { SCALE_PIECES = 4 };

int ew_n_args(enum kernel_op op) {
    return kernel_op_info(op)->n_params + (op == KERNEL_OP_SCALE ? SCALE_PIECES : 0);
}

void ew_args(const struct kernel_spec * spec, uint32_t args[KERNEL_MAX_PARAMS]) {
    memset(args, 0, KERNEL_MAX_PARAMS * sizeof args[0]);
    int n = kernel_op_info(spec->op)->n_params;
    memcpy(args, spec->params, (size_t) n * sizeof args[0]);
    if (spec->op != KERNEL_OP_SCALE) {
        return;
    }
    float rest, first = 0;
    memcpy(&rest, &args[0], 4);
    for (int i = 0; i < SCALE_PIECES; i++) {
        // A piece of nothing would turn an infinity into a NaN; one of 2^-30 rounds away.
        float piece = i > 0 && (rest == 0 || rest != rest) ? first * 0x1p-30f : rest;
        uint32_t pattern;
        memcpy(&pattern, &piece, 4);
        pattern &= 0xffff0000;
        memcpy(&piece, &pattern, 4);
        first = i ? first : piece;
        rest = rest == 0 ? 0 : rest - piece;
        args[n + i] = pattern | pattern >> 16;
    }
}
