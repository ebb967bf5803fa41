// validate-kernel: one kernel of ours on the device, with operands of its own.
#pragma once

#include "validate.h"

struct lab_kernel {
    struct kernel_spec spec;
    struct lab_pdi pdi;
    void * insts;
    uint32_t n_insts;
    int n_operands; // the output is the last
    void * operands[KERNEL_MAX_INPUTS + 1];
    size_t bytes[KERNEL_MAX_INPUTS + 1];
};

// Compiled, placed, operands all zero. kernel_close also after an error.
enum status kernel_open(struct lab * l, const struct kernel_spec * spec, struct lab_kernel * k,
                        struct error * err);
enum status kernel_run(struct lab * l, const struct lab_kernel * k, int n, double * ns,
                       struct error * err);
void kernel_close(struct lab * l, struct lab_kernel * k);

// ADDs of numbers that the seed chooses, each compared: ST_DEVICE names the first that is wrong.
enum status kernel_add(struct lab * l, uint32_t seed, int times, struct error * err);
