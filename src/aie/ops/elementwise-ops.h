// elementwise-ops: the rows that the elementwise program is made of.
#pragma once

#include "lanes.h"
#include "ops.h"

enum ew_types { EW_FLOATS = 1, EW_INTS = 2, EW_ALL = 3 };

struct ew_op {
    enum kernel_op op;
    const char * program; // ops of one program share a PDI per datatype
    enum ew_types types;
    bool native; // lanes are the datatype's own; otherwise f32
    int unroll;  // vals per loop trip: enough to hide latencies, few enough for the registers
    struct val (*fn)(struct lanes * l, struct val a, struct val b);
};

extern const struct ew_op ew_ops[];
extern const int ew_n_ops;

bool ew_matches(const struct ew_op * e, enum dtype t);
int ew_unroll(const struct ew_op * e, enum dtype t);
