// never-compile: a compiler for tests of plans, which must ask what there would be and make
// nothing.
#pragma once

#include "backend/npu/npu.h"

static enum status never_pdi(const struct aie_program * program, enum aie_arch arch, int columns,
                             uint8_t ** pdi, size_t * size, struct error * err) {
    (void) program, (void) arch, (void) columns, (void) pdi, (void) size;
    (void) err;
    fail_msg("planning must not compile");
    return ST_UNSUPPORTED;
}

static enum status never_stream(const struct aie_plan * plan, uint32_t ** insts, size_t * n,
                                struct error * err) {
    (void) plan, (void) insts, (void) n, (void) err;
    fail_msg("planning must not compile");
    return ST_UNSUPPORTED;
}
