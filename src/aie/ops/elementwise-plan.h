// elementwise-plan: runs and pieces of an elementwise kernel; see the .c file.
#pragma once

#include "ops.h"

enum plan_mode { PLAN_LINEAR, PLAN_PERIOD, PLAN_SPLAT };

enum { PLAN_PERIOD_BDS = 12 }; // shim descriptors that repeat a period: a chain of equal ones

struct plan_outer {
    int64_t extent, a_stride, b_stride; // strides in bytes
};

struct plan {
    enum plan_mode mode;
    int64_t element_bytes;
    int64_t run_bytes;
    int64_t runs;
    uint32_t period; // words
    struct plan_outer outer[8];
    int n_outer;
};

struct plan_piece { // the work of one column
    enum plan_mode mode;
    uint32_t a_offset, b_offset; // bytes; out is walked like a
    uint32_t words;
    uint32_t period, rows;
};

struct plan_cursor { // zero-initialised: at the start
    int64_t run, words;
};

enum status plan_make(const struct kernel_spec * spec, struct plan * plan, struct error * err);
bool plan_next(const struct plan * plan, struct plan_cursor * c, int columns, struct plan_piece * out);
