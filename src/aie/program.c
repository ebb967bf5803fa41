// program: the front door of the compiler proper, which makes the PDIs with the cores' programs.
// And which programs belong together: an op of other shapes may run on another one, so that who
// keeps programs for machines without a compiler keeps all of those.
#include "aie.h"

#include "ops/convert/convert.h"
#include "ops/move/move.h"
#include "ops/mul-mat/mul-mat.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <string.h>

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

// One program for all shapes.
static bool same_program(const struct kernel_spec * spec, int i, struct kernel_spec * out) {
    *out = *spec;
    return i == 0;
}

// ---- the families ----

static const struct {
    enum status (*pdi)(const struct kernel_spec *, uint8_t **, size_t *, struct error *);
    // Kernels of other programs that serve other shapes, see aie_related.
    bool (*related)(const struct kernel_spec *, int i, struct kernel_spec *);
} families[KERNEL_FAMILIES] = {
    [KERNEL_ELEMENTWISE] = {.pdi = elementwise_pdi, .related = same_program},
    [KERNEL_ROWS] = {.pdi = rows_pdi, .related = same_program},
    [KERNEL_PRODUCT] = {.pdi = mul_mat_pdi, .related = product_related},
    [KERNEL_CONVERSION] = {.pdi = convert_pdi, .related = same_program},
    [KERNEL_MOVE] = {.pdi = move_pdi, .related = same_program},
};

enum status aie_compile_pdi(const struct kernel_spec * spec, uint8_t ** pdi, size_t * size,
                            struct error * err) {
    enum status st = aie_supports(spec, err);
    return st == ST_OK ? families[kernel_op_info(spec->op)->family].pdi(spec, pdi, size, err) : st;
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

bool aie_related(const struct kernel_spec * spec, int i, struct kernel_spec * out) {
    return families[kernel_op_info(spec->op)->family].related(spec, i, out);
}
