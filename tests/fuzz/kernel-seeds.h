// kernel-seeds: kernels of our own compiler as seeds, one of each family and datatype, small ones.
#pragma once

#include "fuzz.h"

#include "aie/aie.h"

static inline struct kernel_spec kernel_seed_spec(enum aie_arch arch, enum kernel_op op,
                                                  enum dtype in, enum dtype out) {
    static const int64_t rows[4] = {32, 4, 1, 1}, square[4] = {16, 16, 1, 1};
    const int64_t * ne = op == KERNEL_OP_MUL_MAT ? square : rows;
    struct kernel_spec spec = {.op = op,
                               .arch = arch,
                               .columns = 1,
                               .n_inputs = kernel_op_info(op)->least_inputs,
                               .output = tensor_contiguous(out, ne),
                               .params = {0x3f000000, 0x3f000000}};
    for (int i = 0; i < spec.n_inputs; i++) {
        spec.inputs[i] = tensor_contiguous(in, ne);
    }
    return spec;
}

// Kernel number i; false when there are no more. The caller frees it.
static inline bool kernel_seed(enum aie_arch arch, int i, struct kernel_code * out) {
    static const struct {
        enum kernel_op op;
        enum dtype in, out;
    } kernels[] = {
        {KERNEL_OP_ADD, DTYPE_I8, DTYPE_I8},        {KERNEL_OP_RELU, DTYPE_F32, DTYPE_F32},
        {KERNEL_OP_MUL, DTYPE_BF16, DTYPE_BF16},    {KERNEL_OP_SCALE, DTYPE_F32, DTYPE_F32},
        {KERNEL_OP_RMS_NORM, DTYPE_F32, DTYPE_F32}, {KERNEL_OP_SOFT_MAX, DTYPE_F32, DTYPE_F32},
        {KERNEL_OP_MUL_MAT, DTYPE_BF16, DTYPE_F32}, {KERNEL_OP_MUL_MAT, DTYPE_I8, DTYPE_I32},
    };
    for (size_t k = 0; k < sizeof kernels / sizeof kernels[0]; k++) {
        struct kernel_spec spec =
            kernel_seed_spec(arch, kernels[k].op, kernels[k].in, kernels[k].out);
        struct error err;
        if (aie_supports(&spec, NULL) == ST_OK && i-- == 0) {
            if (aie_compile(&spec, out, &err) != ST_OK) {
                abort();
            }
            return true;
        }
    }
    return false;
}
