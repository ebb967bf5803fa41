// aie: the front door of what needs no core program: which kernels there are, and the instruction
// streams that drive them. An op belongs to a family; the family knows the rest. Who links this
// without program.c has no compiler: streams are not code.
#include "aie.h"

#include "ops/convert/convert.h"
#include "ops/mul-mat/mul-mat.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <string.h>

struct family {
    enum status (*supports)(const struct kernel_spec *, struct error *);
    void (*name)(const struct kernel_spec *, char[KERNEL_NAME_MAX]);
    enum status (*insts)(const struct kernel_spec *, uint32_t **, size_t *, struct error *);
};

static const struct family elementwise = {elementwise_supports, elementwise_name,
                                          elementwise_insts};
static const struct family mul_mat = {mul_mat_supports, mul_mat_name, mul_mat_insts};
static const struct family rows = {rows_supports, rows_name, rows_insts};
static const struct family convert = {convert_supports, convert_name, convert_insts};

// By the name that ops.def gives an op's family of sources.
static const struct {
    const char * source;
    const struct family * family;
} families[] = {
    // clang-format off
    {"binary_ops", &elementwise},
    {"unary_ops", &elementwise},
    {"glu_ops", &elementwise},
    {"row_ops", &rows},
    {"mul_mat_ops", &mul_mat},
    {"convert_ops", &convert},
    // clang-format on
};

static const struct family * family_of(enum kernel_op op) {
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (!strcmp(kernel_op_info(op)->family, families[i].source)) {
            return families[i].family;
        }
    }
    return NULL;
}

enum status aie_supports(const struct kernel_spec * spec, struct error * err) {
    if ((unsigned) spec->op >= KERNEL_OP_COUNT || !family_of(spec->op)) {
        return error_set(err, ST_UNSUPPORTED, "no NPU kernel for operation %d", (int) spec->op);
    }
    if (!aie_target(spec->arch)->has_programs) {
        return error_set(err, ST_UNSUPPORTED, "core programs are not yet there on %s",
                         kernel_arch_name(spec->arch));
    }
    return family_of(spec->op)->supports(spec, err);
}

void aie_program_name(const struct kernel_spec * spec, char name[KERNEL_NAME_MAX]) {
    family_of(spec->op)->name(spec, name);
}

enum status aie_compile_insts(const struct kernel_spec * spec, uint32_t ** insts, size_t * n_words,
                              struct error * err) {
    enum status st = aie_supports(spec, err);
    return st == ST_OK ? family_of(spec->op)->insts(spec, insts, n_words, err) : st;
}
