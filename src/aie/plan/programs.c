// programs: see programs.h. The rows of programs.def come first, then one for each elementwise op
// alone; the first that has an op is its program.
#include "programs.h"

#include "aie/ops/mixed.h"

#include <stdio.h>

#define CHIP_AIE2  (1u << AIE_ARCH_AIE2)
#define CHIP_AIE2P (1u << AIE_ARCH_AIE2P)
#define CHIP_BOTH  (CHIP_AIE2 | CHIP_AIE2P)
#define OPS(...)   ((const enum kernel_op[]){__VA_ARGS__, KERNEL_OP_COUNT})

const struct aie_program aie_programs[] = {
#define PROGRAM(id, name, chips, code, layout, dtype, exact, ops)                                  \
    [AIE_PROGRAM_##id] = {                                                                         \
        name, CHIP_##chips, AIE_CODE_##code, AIE_LAYOUT_##layout, DTYPE_##dtype, exact, ops},
#define PART(...)
#include "programs.def"
#undef PROGRAM
#undef PART
#define ALONE(id, name, suffix, dtype, exact)                                                      \
    {#name suffix,  CHIP_BOTH, AIE_CODE_ELEMENTWISE, AIE_LAYOUT_WAYS,                              \
     DTYPE_##dtype, exact,     OPS(KERNEL_OP_##id)},
#define ELEMENTWISE(id, name, ...)                                                                 \
    ALONE(id, name, "_f32", F32, false)                                                            \
    ALONE(id, name, "_f32_exact", F32, true)                                                       \
    ALONE(id, name, "_f16", F16, false)                                                            \
    ALONE(id, name, "_bf16", BF16, false)
#include "kernel/elementwise.def"
#undef ELEMENTWISE
};
enum { N_PROGRAMS = sizeof aie_programs / sizeof aie_programs[0] };

const struct aie_decoder_part aie_decoders[AIE_DECODER_PARTS] = {
#define PROGRAM(...)
#define PART(of, id, first_core, n_cores, columns)                                                 \
    {AIE_PROGRAM_##of, AIE_PROGRAM_##id, first_core, n_cores, AIE_##columns},
#include "programs.def"
#undef PROGRAM
#undef PART
};

static bool has_op(const struct aie_program * p, enum kernel_op op, enum dtype t, bool exact) {
    const enum kernel_op * o = p->ops;
    while (*o != op && *o != KERNEL_OP_COUNT) {
        o++;
    }
    return *o == op && p->dtype == t && p->exact == exact;
}

const struct aie_program * aie_program_for(enum aie_arch arch, enum aie_layout layout,
                                           enum kernel_op op, enum dtype t, bool exact) {
    for (const struct aie_program * p = aie_programs; p < aie_programs + N_PROGRAMS; p++) {
        if (p->layout == layout && p->chips >> arch & 1 && has_op(p, op, t, exact)) {
            return p;
        }
    }
    return NULL;
}

void aie_pdi_name(const struct aie_program * p, int columns, char name[KERNEL_NAME_MAX]) {
    char suffix[16] = "";
    if (columns) {
        snprintf(suffix, sizeof suffix, "_c%d", columns);
    }
    snprintf(name, KERNEL_NAME_MAX, "%s%s", p->name, suffix);
}

// ---- programs that belong together ----

// The datatype of the program that a kernel runs on.
static enum dtype dtype_of(const struct kernel_spec * spec) {
    enum dtype first = spec->inputs[0].dtype;
    switch (kernel_op_info(spec->op)->family) {
    case KERNEL_ELEMENTWISE:
        return spec->output.dtype;
    case KERNEL_PRODUCT:
        if (spec->op == KERNEL_OP_MUL_MAT_SHARED) { // i8: stored blocks
            return DTYPE_BF16;
        }
        return first == DTYPE_I8 || first == DTYPE_I16 ? first : DTYPE_BF16;
    case KERNEL_CONVERSION:
    case KERNEL_TASK:
        return DTYPE_BF16;
    default:
        return DTYPE_F32;
    }
}

// A product's other kernels, too: the sums of what was cut along k, and the operands' way to bf16.
static bool serves(const struct aie_program * p, const struct kernel_spec * spec) {
    enum dtype t = dtype_of(spec);
    bool exact = spec->precision == KERNEL_EXACT && kernel_has_exact(spec);
    bool product = kernel_op_info(spec->op)->family == KERNEL_PRODUCT;
    return has_op(p, spec->op, t, exact) ||
           (product && (has_op(p, KERNEL_OP_ADD, spec->output.dtype, false) ||
                        (t == DTYPE_BF16 && (has_op(p, KERNEL_OP_CONVERT, t, false) ||
                                             has_op(p, KERNEL_OP_MUL_MAT_BLOCKS, t, false) ||
                                             has_op(p, KERNEL_OP_UNPACK, t, false)))));
}

// A decoder serves by those of its programs that none before it has.
static bool parts_serve(const struct aie_program * p, const struct kernel_spec * spec) {
    bool any = false;
    for (int i = 0; i < AIE_DECODER_PARTS; i++) {
        const struct aie_decoder_part * part = &aie_decoders[i];
        bool had = false;
        for (int before = 0; before < i; before++) {
            had |= aie_decoders[before].program == part->program;
        }
        any |= !had && &aie_programs[part->of] == p && serves(&aie_programs[part->program], spec);
    }
    return any;
}

// A row of programs.def, or the op's own where it is in none of them.
const struct aie_program * aie_related(const struct kernel_spec * spec, int i) {
    bool listed = false;
    for (const struct aie_program * p = aie_programs; p < aie_programs + N_PROGRAMS; p++) {
        bool own = p >= aie_programs + AIE_PROGRAMS;
        bool has = p->layout == AIE_LAYOUT_MIXED       ? parts_serve(p, spec)
                   : p->layout == AIE_LAYOUT_PART_ONLY ? false
                                                       : serves(p, spec);
        has = has && p->chips >> spec->arch & 1 && !(own && listed);
        listed |= has;
        if (has && i-- == 0) {
            return p;
        }
    }
    return NULL;
}
