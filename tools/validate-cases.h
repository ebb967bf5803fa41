// validate-cases: graphs of one op, or of one layer, whose results are compared with the CPU's.
#pragma once

#include "ggml.h"

#include <stdbool.h>

struct ops_case {
    const char * family; // "elementwise"
    const char * name;   // "ADD"
    struct ggml_tensor * (*build)(struct ggml_context * ctx, struct ggml_cgraph * graph,
                                  const struct ops_case * c);
    enum ggml_type type;
    int64_t sizes[4];
    int op;        // of unary and gated ones
    double nmse;   // that it may differ by
    bool whole;    // not in a quick run
    bool decoder;  // of the step of decoders
    bool is_timed; // told as a figure
};

extern const struct ops_case ops_cases[];
extern const int n_ops_cases;
