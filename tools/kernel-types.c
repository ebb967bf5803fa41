// kernel-types: the datatypes that the compiler has each kernel for, one line per op, for the table
// in docs/ops.md. The compiler itself is asked, with a small tensor of each datatype: one line is
//
//   ADD f32 f16 bf16 i8 i16 i32
//
// with the op as ggml calls it. Ops that are in the table but in no compiler have the name alone;
// kernels that are no op of ggml's are left out.
#include "aie/aie.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

// Results as ggml's ops have them: like the input, one number a row, one number in all, one index a
// row, or sums of products, which are wider.
enum { SAME = DTYPE_COUNT };
static const struct {
    int64_t ne[TENSOR_DIMS];
    int type;
} results[] = {
    {{64, 8, 1, 1}, SAME},     {{1, 8, 1, 1}, SAME},       {{1, 1, 1, 1}, SAME},
    {{8, 1, 1, 1}, DTYPE_I32}, {{1, 1, 1, 1}, DTYPE_I32},  {{8, 8, 1, 1}, DTYPE_F32},
    {{8, 8, 1, 1}, DTYPE_I32}, {{64, 8, 1, 1}, DTYPE_I32},
};

// Attention by the datatype of its keys and values: queries and results are f32.
static bool attends(enum dtype t) {
    struct tensor keys = tensor_contiguous(t, (int64_t[]){64, 8, 1, 1});
    struct tensor rows = tensor_contiguous(DTYPE_F32, (int64_t[]){64, 1, 1, 1});
    struct kernel_spec spec = {.op = KERNEL_OP_FLASH_ATTN_EXT,
                               .arch = AIE_ARCH_AIE2,
                               .n_inputs = 3,
                               .inputs = {rows, keys, keys},
                               .output = rows};
    return aie_supports(&spec, NULL) == ST_OK;
}

static bool has(enum kernel_op op, enum dtype t) {
    if (op == KERNEL_OP_FLASH_ATTN_EXT) {
        return attends(t);
    }
    struct tensor in = tensor_contiguous(t, (int64_t[]){64, 8, 1, 1});
    struct kernel_spec spec = {.op = op, .arch = AIE_ARCH_AIE2};
    for (spec.n_inputs = 1; spec.n_inputs <= kernel_op_info(op)->n_inputs; spec.n_inputs++) {
        spec.inputs[spec.n_inputs - 1] = in;
        for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
            spec.output = tensor_contiguous(
                results[i].type == SAME ? t : (enum dtype) results[i].type, results[i].ne);
            if (aie_supports(&spec, NULL) == ST_OK) {
                return true;
            }
        }
    }
    return false;
}

static void print_op(enum kernel_op op) {
    // "ggml_op_add", "ggml_unary_op_abs", "ggml_glu_op_swiglu": what follows the first "op_"
    const char * name = strstr(kernel_op_info(op)->ggml_name, "op_");
    if (!name) {
        return;
    }
    for (name += 3; *name; name++) {
        putchar(toupper((unsigned char) *name));
    }
    for (int t = 0; t < DTYPE_COUNT; t++) {
        if (has(op, (enum dtype) t)) {
            printf(" %s", dtype_name((enum dtype) t));
        }
    }
    putchar('\n');
}

int main(void) {
    for (int op = 0; op < KERNEL_OP_COUNT; op++) {
        print_op((enum kernel_op) op);
    }
    return ferror(stdout) || fflush(stdout) ? 1 : 0;
}
