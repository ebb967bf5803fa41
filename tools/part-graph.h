// part-graph: graphs of models that llama.cpp's library has no graph for, made here of a file's
// tensors as the programs that run them make theirs: what sees (llama.cpp's mtmd, a GGUF file of
// the architecture clip), and whisper.cpp's encoder and decoder. No weight is read.
#pragma once

#include "ggml-backend.h"
#include "graph-facts.h"
#include "part-file.h"

enum part_kind { PART_VISION, PART_ENCODER, PART_DECODER };

struct part_way {
    const char * file;
    enum part_kind kind;
};

// What a graph is made with. Weights and states have buffers of the device and no data.
struct maker {
    const struct part_file * file;
    struct ggml_context *weights, *states, *ctx;
    ggml_backend_buffer_t of_weights, of_states;
    struct ggml_cgraph * graph;
    bool flash; // attention as one node
    enum status st;
    struct error * err; // of the first thing that was wrong
};

struct part_graph {
    struct graph_facts facts;
    struct part_file file;
    struct maker maker;
    char left[320]; // why attention is not one node; empty: it is
};

// What was opened is closed by part_graph_close, whatever the result. `context`: of the decoder.
enum status part_graph_open(const struct part_way * way, ggml_backend_dev_t dev, int64_t context,
                            struct part_graph * out, struct error * err);
void part_graph_close(struct part_graph * g);

// ---- for who makes them ----

struct linear {
    struct ggml_tensor *w, *b; // b: NULL, none
};

struct heads { // of attention
    int64_t n, size;
    float scale;
};

// A weight of that name, which has that shape; 0 behind the last dimension. NULL where it is not
// there, which is an error unless it may be missing.
struct ggml_tensor * part_weight(struct maker * m, bool needed, const char * name, int64_t ne0,
                                 int64_t ne1, int64_t ne2, int64_t ne3);
// NAME.weight and NAME.bias, of a product or, with `out` 0, of a norm. A bias may be missing.
struct linear part_linear(struct maker * m, bool needed, const char * name, int64_t in,
                          int64_t out);
struct ggml_tensor * part_input(struct maker * m, const char * name, enum ggml_type type,
                                int64_t ne0, int64_t ne1, int64_t ne2);
// f16, and kept between graphs.
struct ggml_tensor * part_state(struct maker * m, const char * name, int64_t elements);

struct ggml_tensor * part_product(struct maker * m, struct linear l, struct ggml_tensor * x);
struct ggml_tensor * part_norm(struct maker * m, struct linear l, struct ggml_tensor * x,
                               float eps);
// q, k and v are [size, positions, heads], v for attention by products [positions, size, heads].
struct ggml_tensor * part_attention(struct maker * m, struct heads h, struct ggml_tensor * q,
                                    struct ggml_tensor * k, struct ggml_tensor * v,
                                    struct ggml_tensor * mask);

// The builders: weights are looked up and checked first, and nodes made where all is well.
void vision_graph(struct maker * m, struct graph_facts * facts);
void whisper_graph(struct maker * m, enum part_kind kind, int64_t context,
                   struct graph_facts * facts);
