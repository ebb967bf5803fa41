// elementwise-ops: the elementwise ops and their programs. Ops on f32 lanes serve f32, f16 and
// bf16; ops on native lanes work on the bits of any datatype of their kind.
#include "elementwise-ops.h"

#include "aie/ops/lanes/aie2p-wide.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// ---- the ops ----

static const struct ew_op floats[] = {
#define LANES(name, vectors) .unroll = vectors, .fn = ew_##name
#define BITS(name)           .unroll = 4, .fn = bits_##name, .native = true
#define BOTH(name)           .unroll = 1, .fn = ew_##name, .has_exact = true
#define STAGES(name)         .unroll = 1, .stages = ew_##name
#define FAST(name)           .unroll = 1, .stages = ew_##name, .fast = fast_##name, .has_exact = true
#define ELEMENTWISE(id, name, ggml_name, source, inputs, params, npu, ...)                         \
    {.op = KERNEL_OP_##id, .types = EW_FLOATS, npu},
#include "kernel/elementwise.def"
#undef LANES
#undef BITS
#undef STAGES
#undef FAST
#undef BOTH
#undef ELEMENTWISE
#define CAST(id, from_, to_, n)                                                                    \
    {                                                                                              \
        .op = KERNEL_OP_##id, .types = EW_FLOATS, .unroll = n, .fn = ew_same, .only_f32 = true,    \
        .cast = true, .from = DTYPE_##from_, .to = DTYPE_##to_                                     \
    }
    {.op = KERNEL_OP_ROTATE, .types = EW_FLOATS, .unroll = 1, .fn = ew_rotate, .only_f32 = true},
    {.op = KERNEL_OP_WEIGHTED_SUM, .types = EW_FLOATS, .unroll = 2, .fn = ew_mul, .only_f32 = true},
    CAST(TO_F16, F32, F16, 1),
    CAST(TO_BF16, F32, BF16, 2),
    CAST(FROM_F16, F16, F32, 1),
    CAST(FROM_BF16, BF16, F32, 2),
#undef CAST
};
enum { N_FLOATS = sizeof floats / sizeof floats[0] };

static const struct ew_op ints[] = {
#define INT(id, vectors, name)                                                                     \
    { .op = KERNEL_OP_##id, .types = EW_INTS, .native = true, .unroll = vectors, .fn = name }
    INT(ADD, 4, int_add), INT(SUB, 4, int_sub),   INT(MUL, 4, int_mul),
    INT(DIV, 1, int_div), INT(ABS, 4, int_abs),   INT(SGN, 4, int_sgn),
    INT(NEG, 4, int_neg), INT(STEP, 4, int_step), INT(RELU, 4, int_relu),
#undef INT
};
enum { N_INTS = sizeof ints / sizeof ints[0] };

static const struct ew_op * find(const struct ew_op * ops, int n, enum kernel_op op) {
    for (int i = 0; i < n; i++) {
        if (ops[i].op == op) {
            return &ops[i];
        }
    }
    return NULL;
}

const struct ew_op * ew_find(enum kernel_op op, enum dtype t) {
    bool is_float = t == DTYPE_F32 || t == DTYPE_F16 || t == DTYPE_BF16;
    const struct ew_op * e = is_float ? find(floats, N_FLOATS, op) : find(ints, N_INTS, op);
    return e && e->only_f32 && t != DTYPE_F32 ? NULL : e;
}

enum ew_weight ew_weight(const struct ew_op * e) {
    bool heavy = e->stages || e->op == KERNEL_OP_DIV || e->op == KERNEL_OP_SQRT ||
                 e->op == KERNEL_OP_HARDSWISH;
    bool sum = e->op == KERNEL_OP_ADD || e->op == KERNEL_OP_SUB;
    return heavy ? EW_STAGES : e->native ? EW_NATIVE : sum ? EW_SUM : EW_LANES;
}

bool ew_is_plain(enum kernel_op op) {
    const struct ew_op * e = find(floats, N_FLOATS, op);
    return e && e->fn && !e->has_exact;
}

// ---- the programs ----

int ew_program_ops(const struct aie_program * program, const struct ew_op * ops[EW_PROGRAM_OPS]) {
    int n = 0;
    for (const enum kernel_op * o = program->ops; *o != KERNEL_OP_COUNT; o++) {
        const struct ew_op * op = ew_find(*o, program->dtype);
        if (op && (op->has_exact || !program->exact)) { // a copy has no loop
            assert(n < EW_PROGRAM_OPS);
            ops[n++] = op;
        }
    }
    return n;
}

// ---- their loops ----

static void add_loop(struct ew_loop * loops, int * n, struct ew_loop loop) {
    for (int i = 0; loop.stage && i < *n; i++) {
        if (loops[i].stage == loop.stage) {
            return;
        }
    }
    assert(*n < EW_MAX_LOOPS);
    loops[(*n)++] = loop;
}

bool ew_exact(const struct kernel_spec * spec) {
    return kernel_has_exact(spec) && spec->precision == KERNEL_EXACT;
}

const struct aie_program * ew_program(const struct kernel_spec * spec) {
    enum dtype t = spec->output.dtype;
    return ew_find(spec->op, t)
               ? aie_program_for(spec->arch, AIE_LAYOUT_WAYS, spec->op, t, ew_exact(spec))
               : NULL;
}

bool ew_fast(const struct ew_op * e, enum dtype t, bool exact) {
    return t != DTYPE_F32 || e->only_f32 || (e->has_exact && !exact); // the first round to nearest
}

ew_fn * ew_function(const struct ew_op * e, bool fast) {
    return e->fast && fast ? e->fast : e->fn;
}

int ew_loops_of(const struct ew_op * const * ops, int n_ops, enum dtype t, bool exact,
                struct ew_loop loops[EW_MAX_LOOPS], bool * staged) {
    int n = 0;
    *staged = false;
    for (int i = 0; i < n_ops; i++) {
        if (ew_function(ops[i], ew_fast(ops[i], t, exact))) {
            add_loop(loops, &n, (struct ew_loop){ops[i], NULL});
            continue;
        }
        *staged = true;
        for (const struct ew_stage * const * s = ops[i]->stages; *s; s++) {
            add_loop(loops, &n, (struct ew_loop){ops[i], *s});
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

// In a program with stages, a script: the numbers of the loops to run, from 1, EW_SCRIPT_BITS each.
uint32_t ew_index(const struct aie_program * program, enum kernel_op op) {
    enum dtype t = program->dtype;
    const struct ew_op *e = ew_find(op, t), *ops[EW_PROGRAM_OPS];
    struct ew_loop loops[EW_MAX_LOOPS];
    bool staged, exact = program->exact;
    int n_ops = ew_program_ops(program, ops), shift = 0;
    int n = ew_loops_of(ops, n_ops, t, exact, loops, &staged);
    uint32_t script = 0;
    if (!staged) {
        return (uint32_t) loop_number(loops, n, e, NULL);
    }
    if (ew_function(e, ew_fast(e, t, exact))) {
        return (uint32_t) loop_number(loops, n, e, NULL) + 1;
    }
    for (const struct ew_stage * const * s = e->stages; *s; s++, shift += EW_SCRIPT_BITS) {
        assert(shift < 32);
        script |= (uint32_t) (loop_number(loops, n, e, *s) + 1) << shift;
    }
    return script;
}

// Functions, products that are not wide, and all that has conversions of f16 at its edges.
bool ew_is_doubled(const struct ew_op * e, enum aie_arch arch, enum dtype t, bool exact) {
    bool product = e->op == KERNEL_OP_REGLU || e->op == KERNEL_OP_HARDSIGMOID ||
                   e->op == KERNEL_OP_HARDSWISH || e->op == KERNEL_OP_ROUND;
    return wide_is_there(aie_target(arch)) && !ew_is_wide(e, arch, t) && !e->native &&
           (product || t == DTYPE_F16 || (e->has_exact && ew_fast(e, t, exact)));
}

// f16 vals are dear in registers and bound by their conversions anyway.
int ew_unroll(const struct ew_op * e, enum aie_arch arch, enum dtype t, bool exact) {
    if (ew_is_wide(e, arch, t) || ew_is_doubled(e, arch, t, exact)) {
        return WIDE_VALUES;
    }
    return t == DTYPE_F16 && !e->native && e->unroll > 2 ? 2 : e->unroll;
}

int ew_trip_words(const struct aie_program * program, enum aie_arch arch, enum kernel_op op) {
    enum dtype t = program->dtype;
    const struct ew_op * e = ew_find(op, t);
    return lanes_step(arch, t, e->native) * ew_unroll(e, arch, t, program->exact) / 4;
}

// ---- parameters ----

// A factor in three bf16 pieces and one that only keeps a pair full, each as a word of two.
enum { FACTOR_PIECES = 4 };

static bool has_factor(enum kernel_op op) { // as its first parameter
    return op == KERNEL_OP_SCALE || op == KERNEL_OP_LEAKY_RELU;
}

// Those of the op's parameters that its function sees.
static int n_numbers(enum kernel_op op) {
    return kernel_has_place(op) ? 0 : kernel_op_info(op)->n_params;
}

int ew_n_args(enum kernel_op op) {
    return n_numbers(op) + (has_factor(op)          ? FACTOR_PIECES
                            : op == KERNEL_OP_CLAMP ? EW_CLAMP_ORDERED
                                                    : 0);
}

static void add_pieces(uint32_t factor, uint32_t pieces[FACTOR_PIECES]) {
    float rest, first = 0;
    memcpy(&rest, &factor, 4);
    for (int i = 0; i < FACTOR_PIECES; i++) {
        // A piece of nothing would turn an infinity into a NaN; one of 2^-30 rounds away.
        float piece = i > 0 && (rest == 0 || rest != rest) ? first * 0x1p-30f : rest;
        uint32_t pattern;
        memcpy(&pattern, &piece, 4);
        pattern &= 0xffff0000;
        memcpy(&piece, &pattern, 4);
        first = i ? first : piece;
        rest = rest == 0 ? 0 : rest - piece;
        pieces[i] = pattern | pattern >> 16;
    }
}

// The bits of an f32 rounded to nearest even.
static uint32_t narrowed(uint32_t v, enum dtype t) {
    uint32_t magnitude = v & 0x7fffffff, sign = v >> 16 & 0x8000;
    bool nan = magnitude > 0x7f800000;
    if (t == DTYPE_BF16) {
        return nan ? sign | 0x7fc0 : (v + 0x7fff + (v >> 16 & 1)) >> 16;
    }
    if (nan || magnitude >= 0x47800000) { // 2^16 and more
        return sign | (nan ? 0x7e00 : 0x7c00);
    }
    if (magnitude < 0x38800000) { // below the smallest normal one: multiples of 2^-24
        float small;
        memcpy(&small, &magnitude, 4);
        return sign | (uint32_t) lrintf(small * 0x1p24f);
    }
    return sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
}

// Where the lower limit is above the other one, it is what everything becomes. Elements of 16 bits
// stand twice in a word.
static void clamp_args(enum dtype t, uint32_t args[2 * EW_CLAMP_ORDERED]) {
    for (int i = 0; i < EW_CLAMP_ORDERED; i++) {
        uint32_t limit = t == DTYPE_F32 ? args[i] : narrowed(args[i], t);
        args[i] = limit;
        args[EW_CLAMP_ORDERED + i] = bits_order(limit, t);
    }
    uint32_t *low = args, *high = args + 1;
    if ((int32_t) high[EW_CLAMP_ORDERED] < (int32_t) low[EW_CLAMP_ORDERED]) {
        high[0] = low[0];
        high[EW_CLAMP_ORDERED] = low[EW_CLAMP_ORDERED];
    }
    for (int i = 0; t != DTYPE_F32 && i < 2 * EW_CLAMP_ORDERED; i++) {
        args[i] = (args[i] & 0xffff) * 0x00010001;
    }
}

void ew_args(const struct kernel_spec * spec, uint32_t args[KERNEL_MAX_PARAMS]) {
    memset(args, 0, KERNEL_MAX_PARAMS * sizeof args[0]);
    int n = n_numbers(spec->op);
    memcpy(args, spec->params, (size_t) n * sizeof args[0]);
    if (has_factor(spec->op)) {
        add_pieces(args[0], args + n);
    }
    if (spec->op == KERNEL_OP_CLAMP) {
        clamp_args(spec->output.dtype, args);
    }
}
