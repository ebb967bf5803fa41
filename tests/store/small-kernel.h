// small-kernel: the smallest kernel that the verifier passes: a shim sends an input's words back to
// itself as the result. For tests of how kernels are kept, where nothing is computed.
#pragma once

#include "aie/image/image.h"
#include "aie/plan/plan.h"

// A program for each datatype, and a plan that says no more than which.
static const struct aie_program small_programs[DTYPE_COUNT] = {
    [DTYPE_F32] = {.name = "add_f32", .dtype = DTYPE_F32},
    [DTYPE_F16] = {.name = "add_f16", .dtype = DTYPE_F16},
    [DTYPE_BF16] = {.name = "add_bf16", .dtype = DTYPE_BF16},
    [DTYPE_I8] = {.name = "add_i8", .dtype = DTYPE_I8},
    [DTYPE_I16] = {.name = "add_i16", .dtype = DTYPE_I16},
    [DTYPE_I32] = {.name = "add_i32", .dtype = DTYPE_I32},
};

static inline enum status small_kernel_plan(const struct kernel_spec * spec, struct aie_plan * out,
                                            struct error * err) {
    (void) err;
    if (spec != &out->spec) {
        out->spec = *spec;
    }
    out->program = &small_programs[spec->output.dtype];
    out->cycles = 1;
    return ST_OK;
}

// `mark` tells PDIs apart.
static inline enum status small_kernel_pdi(uint32_t mark, uint8_t ** pdi, size_t * size,
                                           struct error * err) {
    struct cdo c;
    cdo_begin(&c);
    cdo_write(&c, image_addr(0, 2, 0x1f000), mark); // a lock of a core that never runs
    cdo_write(&c, 0x3f100, 0xc0000000);             // tokens
    cdo_write(&c, 0x3f200, 0x0f1f0135);
    cdo_write(&c, 0x3f008, 0xc0000045);
    cdo_write(&c, 0x3f114, 0x80000000); // from South 3, MM2S0,
    cdo_write(&c, 0x3f010, 0x80000005); // to South 2, S2MM0
    cdo_mask_write(&c, 0x1f000, 0xc00, 0x400);
    cdo_mask_write(&c, 0x1f004, 0x30, 0x10);
    enum status st = pdi_write(&c, 1, pdi, size, err);
    cdo_free(&c);
    return st;
}

// The first word of the first operation's data is the number of words of the result.
static inline enum status small_kernel_stream(const struct kernel_spec * spec, int result,
                                              unsigned generation, uint32_t ** insts,
                                              size_t * n_words, struct error * err) {
    uint32_t bd[8] = {(uint32_t) (tensor_bytes(&spec->output) + 3) / 4,
                      0,
                      0,
                      0,
                      0x80000000,
                      0x02000000,
                      0,
                      0x02000000};
    struct txn t;
    txn_begin(&t, 1, (int) generation);
    txn_block_write(&t, 0x1d000, bd, 8);
    txn_patch_address(&t, 0x1d004, result, 0);
    txn_mask_write(&t, 0x1d200, 0x1f00, 0xf00);
    txn_write(&t, 0x1d204, 0x80000000);
    txn_block_write(&t, 0x1d020, bd, 8);
    txn_patch_address(&t, 0x1d024, 0, 0);
    txn_write(&t, 0x1d214, 1);
    txn_wait(&t, 0, 0, 0, 0);
    return txn_end(&t, insts, n_words, err);
}
