// expert: a MUL_MAT_ID as its ways share it: expert.c has most of them, expert-gather.c the experts
// of one token as one product.
#pragma once

#include "dispatch.h"

struct expert_call { // a node whose shapes and datatypes fit
    const struct ggml_tensor *node, *as, *b, *ids;
    struct mat_source weights; // all experts
    struct mat_source padded;  // one of them
    bool precise;
    bool pads; // rows of weights are of a length that no kernel takes, and are padded to k
    int64_t k, n_experts, n_slots, n_tokens;
};

// One row of the result as a product: dst = as[:, :, expert] * b.
struct expert_product {
    struct ggml_tensor node, a, b;
    struct kernel_panel panel; // how weights lie that are padded
};

// Rows of src1 with zeros behind them, in scratch.
struct expert_rows {
    char * room; // NULL: none
    unsigned resets;
};

// The weights of one expert.
struct mat_source expert_source(const struct expert_call * c, int64_t expert);
// The expert that a row of the result names, slot + slots * token.
int32_t expert_id(const struct expert_call * c, int64_t row);
void expert_product(const struct expert_call * c, int64_t expert, int64_t row,
                    struct expert_product * out);
// The same with weights and a row that are padded.
void expert_pad(const struct expert_call * c, const struct shadow * weights, char * row,
                struct expert_product * out);
enum status expert_pad_rows(struct hsa_stream * s, const struct expert_call * c,
                            struct expert_rows * out, struct error * err);

bool expert_can_gather(const struct hsa_stream * s, const struct expert_call * c);
// Not done: there is no such kernel, and nothing was sent.
enum status expert_gathered(struct hsa_stream * s, const struct expert_call * c, bool * done,
                            struct error * err);
