// rope: what ROPE and ROPE_BACK say in their parameters, for both kinds of devices.
#pragma once

#include "ggml.h"

#include <stdbool.h>

enum { // words of op_params
    ROPE_N_DIMS = 1,
    ROPE_MODE = 2,
    ROPE_N_CTX_ORIG = 4,
    ROPE_FREQ_BASE,
    ROPE_FREQ_SCALE,
    ROPE_EXT_FACTOR,
    ROPE_ATTN_FACTOR,
    ROPE_BETA_FAST,
    ROPE_BETA_SLOW,
    ROPE_SECTIONS,
    ROPE_N_OFFSET = 15,
    ROPE_WORDS,
};

// Are mode, shapes and types such as ggml has them? The values come from a graph.
bool rope_is_sound(const struct ggml_tensor * node);

// Cosine and sine for each of n_pairs pairs, one pair of numbers behind the other, for each token;
// in double precision up to the last step.
void rope_table(const struct ggml_tensor * node, int64_t n_pairs, float * out);
