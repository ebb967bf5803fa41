// llm-graph: the graphs that llm.c measures, with their weights: some of a model's layers one after
// another, and its head. Layers of a kind share one set of weights, which therefore fit in any
// memory; each has a cache of its own.
#pragma once

#include "ggml-hsa.h"
#include "llm.h"

struct llm_weights {
    int n; // kinds, and the head behind them
    struct ggml_context * ctx[DECODER_MOST_KINDS + 1];
    ggml_backend_buffer_t buffers[DECODER_MOST_KINDS + 1]; // NULL: nothing is allocated
    struct decoder_tensors tensors[DECODER_MOST_KINDS + 1];
};

struct llm_graph {
    struct ggml_context *cache, *ctx;
    ggml_backend_buffer_t of_cache; // NULL: nothing is allocated
    struct ggml_gallocr * rest;     // likewise
    struct ggml_cgraph * graph;
    struct decoder_tensors inputs[2]; // of layers without a window, and with one
};

// Which layers, by their kinds, in order; and whether the head is behind them.
struct llm_list {
    int64_t n;
    uint8_t kinds[DECODER_MOST_LAYERS];
    bool head;
};

// Weights that the list needs. False: no memory for their descriptions.
bool llm_weights_new(const struct decoder_model * m, const struct llm_list * list,
                     struct llm_weights * out);
void llm_weights_free(struct llm_weights * w);
bool llm_graph_new(const struct decoder_model * m, const struct llm_list * list,
                   const struct llm_weights * w, int64_t tokens, int64_t context, bool flash,
                   struct llm_graph * out);
void llm_graph_free(struct llm_graph * g);
// What can be said without computing; weights count as often as layers have them.
void llm_graph_count(const struct llm_device * device, const struct decoder_model * m,
                     const struct llm_list * list, const struct llm_weights * w,
                     const struct llm_graph * g, struct llm_figures * out);

// Places, and numbers that make sense: weights and caches are zeros. NULL, or what is wrong.
const char * llm_weights_place(struct llm_weights * w, ggml_backend_t stream);
const char * llm_graph_place(struct llm_graph * g, ggml_backend_t stream);
// What the device does once for a model's caches, when attention first meets them. NULL, or what is
// wrong.
const char * llm_graph_settle(const struct llm_graph * g, ggml_backend_t stream);
// Inputs of a token, and the result of the last node as a program reads it.
const char * llm_graph_write(const struct llm_graph * g);
const char * llm_graph_read(const struct llm_graph * g);

// ---- for who measures other graphs ----

// What the device has counted so far, and its memory.
struct llm_state {
    struct ggml_backend_hsa_stats stats;
    struct ggml_backend_hsa_account account;
    size_t free, total;
};

struct llm_state llm_state_of(const struct llm_device * d);
// The figures of a run, from what was counted before and after it.
void llm_tell(struct llm_device * device, const struct llm_state * a, const struct llm_state * b,
              struct llm_figures * out);
void llm_clear_profile(struct llm_device * device);

// Views and such are no work.
bool llm_is_computed(const struct ggml_tensor * t);
// Counts a node, which the device computes or, with that reason, does not; NULL asks the plugin.
void llm_count_node(const struct llm_device * device, const struct ggml_tensor * t, bool supported,
                    const char * why, bool * before, struct llm_figures * out);
// What the device reads of a weight: matrices of types that products do not take as they are, it
// keeps as bf16.
uint64_t llm_bytes_read(const struct ggml_tensor * t);
