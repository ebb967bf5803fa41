// aie: the front door of what needs no core program: which kernels there are, and the instruction
// streams that drive them. An op belongs to a family; the family knows the rest. Who links this
// without program.c has no compiler: streams are not code.
#include "aie.h"

#include "aie/ops/attention/attention.h"
#include "aie/ops/convert/convert.h"
#include "aie/ops/move/move.h"
#include "aie/ops/mul-mat/mul-mat.h"
#include "aie/ops/ops.h"
#include "aie/ops/rows/rows.h"

#include <stdio.h>
#include <string.h>

struct aie_family {
    enum status (*supports)(const struct kernel_spec *, struct error *);
    void (*program_name)(const struct kernel_spec *, char[KERNEL_NAME_MAX]);
    enum status (*insts)(const struct kernel_spec *, uint32_t **, size_t *, struct error *);
};

// Its compiler's half is in program.c.
static const struct aie_family families[KERNEL_FAMILIES] = {
    [KERNEL_ELEMENTWISE] = {.supports = elementwise_supports,
                            .program_name = elementwise_name,
                            .insts = elementwise_insts},
    [KERNEL_ROWS] = {.supports = rows_supports, .program_name = rows_name, .insts = rows_insts},
    [KERNEL_PRODUCT] = {.supports = mul_mat_supports,
                        .program_name = mul_mat_name,
                        .insts = mul_mat_insts},
    [KERNEL_CONVERSION] = {.supports = convert_supports,
                           .program_name = convert_name,
                           .insts = convert_insts},
    [KERNEL_MOVE] = {.supports = move_supports, .program_name = move_name, .insts = move_insts},
    [KERNEL_ATTENTION] = {.supports = attention_supports,
                          .program_name = attention_name,
                          .insts = attention_insts},
};

static const struct aie_family * family_of(enum kernel_op op) {
    return &families[kernel_op_info(op)->family];
}

static bool has_family(const struct aie_target * t, enum kernel_family family) {
    switch (family) {
    case KERNEL_ROWS:
        return t->has_rows;
    case KERNEL_PRODUCT:
        return t->has_products;
    case KERNEL_CONVERSION:
    case KERNEL_ATTENTION: // which converts, too
        return t->has_conversions;
    default:
        return t->has_programs;
    }
}

enum status aie_supports(const struct kernel_spec * spec, struct error * err) {
    if ((unsigned) spec->op >= KERNEL_OP_COUNT) {
        return error_set(err, ST_UNSUPPORTED, "no NPU kernel for operation %d", (int) spec->op);
    }
    if (!aie_target(spec->arch)->has_programs) {
        return error_set(err, ST_UNSUPPORTED, "core programs are not yet there on %s",
                         kernel_arch_name(spec->arch));
    }
    if (!has_family(aie_target(spec->arch), kernel_op_info(spec->op)->family)) {
        return error_set(err, ST_UNSUPPORTED, "%s is not yet there on %s", kernel_op_name(spec->op),
                         kernel_arch_name(spec->arch));
    }
    if (spec->columns < 0 || spec->columns > aie_target(spec->arch)->columns) {
        return error_set(err, ST_INVALID, "%d columns, %s has %d", spec->columns,
                         kernel_arch_name(spec->arch), aie_target(spec->arch)->columns);
    }
    return family_of(spec->op)->supports(spec, err);
}

void aie_program_name(const struct kernel_spec * spec, char name[KERNEL_NAME_MAX]) {
    family_of(spec->op)->program_name(spec, name);
    if (spec->columns) {
        size_t n = strlen(name);
        snprintf(name + n, KERNEL_NAME_MAX - n, "_c%d", spec->columns);
    }
}

enum status aie_compile_insts(const struct kernel_spec * spec, uint32_t ** insts, size_t * n_words,
                              struct error * err) {
    enum status st = aie_supports(spec, err);
    return st == ST_OK ? family_of(spec->op)->insts(spec, insts, n_words, err) : st;
}

bool aie_panel(const struct kernel_spec * product, struct kernel_panel * out) {
    return mul_mat_panel(product, out);
}
