// elementwise-ops: one row and one short function for each op. Ops on f32 lanes serve f32, f16 and
// bf16; ops on native lanes work on the bits of any datatype of their kind.
#include "elementwise-ops.h"

#include "aie/isa/aie2.h"

#include <string.h>

// ---- native lanes: what depends on the width is data ----

static struct val native2(struct lanes * l, const int ops[3], struct val a, struct val b) {
    int width = dtype_size(l->dtype); // 1, 2, 4
    struct asm_reg xa = lanes_x(l, &a), xb = lanes_x(l, &b), d = asm_local(l->p, ASM_X);
    ASM(l->p, ops[width / 2], A_REG(d), A_REG(xa), A_REG(xb));
    return val_x(d);
}

static struct val int_add(struct lanes * l, struct val a, struct val b) {
    return native2(l, (const int[3]) {AIE2_VADD_8, AIE2_VADD_16, AIE2_VADD_32}, a, b);
}

static struct val int_sub(struct lanes * l, struct val a, struct val b) {
    return native2(l, (const int[3]) {AIE2_VSUB_8, AIE2_VSUB_16, AIE2_VSUB_32}, a, b);
}

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
    {KERNEL_OP_ADD, "binary", EW_INTS, true, 4, int_add},
    {KERNEL_OP_SUB, "binary", EW_FLOATS, false, 4, f_sub},
    {KERNEL_OP_SUB, "binary", EW_INTS, true, 4, int_sub},
    {KERNEL_OP_MUL, "binary", EW_FLOATS, false, 2, mul},
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
