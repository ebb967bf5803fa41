// decoder: the graphs of language models, by their sizes alone: what llama.cpp computes for a layer
// and for the head of llama-, qwen-, phi3- and gemma-like models, of mixtures of experts among
// them. Nothing has data or a place; who wants to compute it allocates the context's tensors. Files
// mix datatypes: layers whose weights have the same ones, and look back equally far, are of a kind,
// and a model has a few kinds.
#pragma once

#include "ggml.h"

#include <stdbool.h>

enum decoder_weight {
    DECODER_ATTN_NORM,
    DECODER_Q,
    DECODER_K,
    DECODER_V,
    DECODER_OUT,
    DECODER_FFN_NORM,
    DECODER_GATE,
    DECODER_UP,
    DECODER_DOWN,
    // Where the architecture has them.
    DECODER_Q_BIAS,
    DECODER_K_BIAS,
    DECODER_V_BIAS,
    DECODER_OUT_BIAS,
    DECODER_Q_NORM,
    DECODER_K_NORM,
    DECODER_ATTN_POST_NORM,
    DECODER_FFN_POST_NORM,
    DECODER_SINKS,   // a key without a value, for each head
    DECODER_QKV,     // instead of Q, K and V
    DECODER_GATE_UP, // instead of GATE and UP
    DECODER_ROUTER,  // and the experts instead of GATE, UP and DOWN
    DECODER_ROUTER_BIAS,
    DECODER_GATE_EXPERTS,
    DECODER_UP_EXPERTS,
    DECODER_DOWN_EXPERTS,
    DECODER_GATE_EXPERTS_BIAS,
    DECODER_UP_EXPERTS_BIAS,
    DECODER_DOWN_EXPERTS_BIAS,
    DECODER_ROPE_FACTORS,
    DECODER_LAYER_WEIGHTS,
    // Weights of the model, not of a layer.
    DECODER_EMBD = DECODER_LAYER_WEIGHTS,
    DECODER_OUTPUT_NORM,
    DECODER_OUTPUT,
    DECODER_WEIGHTS,
};

struct decoder {
    int64_t layers, embd, heads, kv_heads, head_dim, ff, vocab;
    int64_t rope_dims;
    float eps, rope_base, rope_scale;
    bool has[DECODER_WEIGHTS];  // DECODER_OUTPUT: else the embedding's table is used
    bool neox;                  // halves of a pair lie apart
    bool gelu;                  // GEGLU instead of SWIGLU
    int64_t experts, used;      // of which a token has so many; 0: the model is dense
    bool chosen_first;          // the best by their logits, and the soft-max of these alone
    bool oai;                   // SWIGLU_OAI instead of SWIGLU
    bool scales_queries;        // before attention, not within it
    int64_t window;             // tokens that layers with one look back at; 0: none has
    float embd_scale;           // 0: none
    float residual_scale;       // of what a layer adds; 0: none
    float logits_scale;         // 0: none
    float attn_cap, logits_cap; // soft caps; 0: none
    enum ggml_type kv;          // of the cache
    enum ggml_type types[DECODER_WEIGHTS];
};

enum { DECODER_MOST_LAYERS = 1024, DECODER_MOST_KINDS = 16 };

struct decoder_model {
    struct decoder decoder; // types: of the weights that are of no layer
    int64_t n_layers;       // so far
    int n_kinds;
    struct {
        int64_t layers; // how many
        bool slides;    // has a window
        enum ggml_type types[DECODER_LAYER_WEIGHTS];
    } kinds[DECODER_MOST_KINDS];
    uint8_t kind_of[DECODER_MOST_LAYERS];
};

// One more layer, with weights of these datatypes. False: there are too many kinds, or layers.
bool decoder_model_add(struct decoder_model * m, const enum ggml_type types[DECODER_LAYER_WEIGHTS],
                       bool slides);
// Rows of a layer's cache where the context has so many tokens: llama.cpp keeps those of the window
// and of a batch, rounded up.
int64_t decoder_rows(const struct decoder_model * m, int kind, int64_t context);
// With the datatypes of a kind's weights.
struct decoder decoder_of_kind(const struct decoder_model * m, int kind);

const char * decoder_weight_name(enum decoder_weight w); // "attn_norm.weight", as GGUF has it
// How many columns, rows and matrices a weight has; 0: it has not that dimension.
void decoder_weight_shape(const struct decoder * d, enum decoder_weight w, int64_t ne[3]);
// Bytes of a weight in a datatype; `used`: only those experts count that a token meets.
uint64_t decoder_weight_bytes(const struct decoder * d, enum decoder_weight w, enum ggml_type type,
                              bool used);

struct decoder_tensors { // what goes into a graph; NULL: the model has none
    struct ggml_tensor * weights[DECODER_WEIGHTS];        // of one layer, and of the model
    struct ggml_tensor *tokens, *positions, *mask, *rows; // rows of the cache that are written
    struct ggml_tensor *k, *v;                            // the cache of one layer
};

// Weights in one context, what changes with a token in others; a layer's own are those below
// DECODER_LAYER_WEIGHTS. `context` rows of the cache are read; each layer has one of its own.
void decoder_add_layer(struct ggml_context * weights, const struct decoder * d,
                       struct decoder_tensors * t);
void decoder_add_head(struct ggml_context * weights, const struct decoder * d,
                      struct decoder_tensors * t);
void decoder_add_cache(struct ggml_context * ctx, const struct decoder * d, int64_t context,
                       struct decoder_tensors * t);
void decoder_add_inputs(struct ggml_context * ctx, int64_t tokens, int64_t context,
                        struct decoder_tensors * t);

// Nodes in the order in which llama.cpp has them. Flash: attention is one node.
struct ggml_tensor * decoder_embed(struct ggml_context * ctx, const struct decoder * d,
                                   const struct decoder_tensors * t);
struct ggml_tensor * decoder_layer(struct ggml_context * ctx, struct ggml_cgraph * graph,
                                   const struct decoder * d, const struct decoder_tensors * t,
                                   struct ggml_tensor * x, bool flash);
// The head for the last token alone.
struct ggml_tensor * decoder_head(struct ggml_context * ctx, const struct decoder * d,
                                  const struct decoder_tensors * t, struct ggml_tensor * x);
