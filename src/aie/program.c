// program: the front door of the compiler proper, which makes the PDIs with the cores' programs.
// And which programs belong together: an op of other shapes may run on another one, so that who
// keeps programs for machines without a compiler keeps all of those.
#include "aie.h"

#include "ops/convert/convert.h"
#include "ops/mul-mat/mul-mat.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <string.h>

// By the name that ops.def gives an op's family of sources.
static const struct {
    const char * source;
    enum status (*pdi)(const struct kernel_spec *, uint8_t **, size_t *, struct error *);
} families[] = {
    // clang-format off
    {"binary_ops", elementwise_pdi},
    {"unary_ops", elementwise_pdi},
    {"glu_ops", elementwise_pdi},
    {"row_ops", rows_pdi},
    {"mul_mat_ops", mul_mat_pdi},
    {"convert_ops", convert_pdi},
    // clang-format on
};

enum status aie_compile_pdi(const struct kernel_spec * spec, uint8_t ** pdi, size_t * size,
                            struct error * err) {
    enum status st = aie_supports(spec, err);
    if (st != ST_OK) {
        return st;
    }
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (!strcmp(kernel_op_info(spec->op)->family, families[i].source)) {
            return families[i].pdi(spec, pdi, size, err);
        }
    }
    return error_set(err, ST_UNSUPPORTED, "no NPU program for %s", kernel_op_name(spec->op));
}

enum status aie_compile(const struct kernel_spec * spec, struct kernel_code * out,
                        struct error * err) {
    memset(out, 0, sizeof *out);
    enum status st = aie_compile_pdi(spec, &out->pdi, &out->pdi_size, err);
    if (st == ST_OK) {
        st = aie_compile_insts(spec, &out->insts, &out->n_insts, err);
    }
    if (st != ST_OK) {
        kernel_code_free(out);
    }
    return st;
}

// ---- programs that belong together ----

static struct tensor packed(enum dtype t, int64_t ne0, int64_t ne1) {
    return tensor_contiguous(t, (int64_t[]){ne0, ne1, 1, 1});
}

static struct kernel_spec unary(enum kernel_op op, enum aie_arch arch, struct tensor in,
                                struct tensor out) {
    return (struct kernel_spec){
        .op = op, .arch = arch, .n_inputs = 1, .inputs = {in}, .output = out};
}

static struct kernel_spec product(const struct kernel_spec * of, int64_t n) {
    const int64_t k = 64, m = 64;
    struct kernel_spec spec = *of;
    spec.inputs[0] = packed(of->inputs[0].dtype, k, m);
    spec.inputs[1] = packed(of->inputs[1].dtype, k, n);
    spec.output = packed(of->output.dtype, m, n);
    return spec;
}

static struct kernel_spec sum(const struct kernel_spec * of) {
    struct tensor t = packed(of->output.dtype, 64, 1);
    return (struct kernel_spec){
        .op = KERNEL_OP_ADD, .arch = of->arch, .n_inputs = 2, .inputs = {t, t}, .output = t};
}

// Few columns, many columns, sums of what was cut along k, and the operands' way to bf16.
static bool product_related(const struct kernel_spec * spec, int i, struct kernel_spec * out) {
    static const enum dtype sources[] = {DTYPE_F32, DTYPE_F16};
    const int first_source = 3;
    int n = first_source;
    if (spec->inputs[0].dtype == DTYPE_BF16) {
        n += (int) (sizeof sources / sizeof sources[0]);
    }
    if (i >= n) {
        return false;
    }
    if (i >= first_source) {
        *out = unary(KERNEL_OP_CONVERT, spec->arch, packed(sources[i - first_source], 64, 1),
                     packed(DTYPE_BF16, 64, 1));
    } else {
        *out = i == 2 ? sum(spec) : product(spec, i == 0 ? 1 : 64);
    }
    return true;
}

// Without a mask, and with each kind.
static bool softmax_related(const struct kernel_spec * spec, int i, struct kernel_spec * out) {
    static const enum dtype masks[] = {DTYPE_F32, DTYPE_F16};
    struct tensor x = packed(DTYPE_F32, 64, 1);
    const int n_masks = (int) (sizeof masks / sizeof masks[0]);
    *out = unary(KERNEL_OP_SOFT_MAX, spec->arch, x, x);
    out->precision = spec->precision;
    memcpy(out->params, spec->params, sizeof out->params);
    if (i < n_masks) {
        out->n_inputs = 2;
        out->inputs[1] = packed(masks[i], 64, 1);
    }
    return i <= n_masks;
}

bool aie_related(const struct kernel_spec * spec, int i, struct kernel_spec * out) {
    switch (spec->op) {
    case KERNEL_OP_MUL_MAT:
        return product_related(spec, i, out);
    case KERNEL_OP_SOFT_MAX:
        return softmax_related(spec, i, out);
    default: // one program for all shapes
        *out = *spec;
        return i == 0;
    }
}
