// llm: what a language model costs on an emulated NPU, computed with made-up weights: a token's
// whole graph, all layers and the head, as a program submits it; or one layer of each kind and the
// head, of which a model is so many.
#pragma once

#include "decoder.h"
#include "ggml-backend.h"

#include <stddef.h>
#include <stdint.h>

enum { LLM_CAUSES = 10, LLM_RUNS = 7, LLM_LEFT = 8 };

// Nodes that the device does not compute, and why. Of 0 nodes: the graph does without the op,
// because of that.
struct llm_left {
    char op[32], why[320];
    double nodes;
};

struct llm_figures {
    // Counts of the graph.
    int nodes, on_device; // that compute something; that the device says it computes
    int gaps;             // runs of nodes that it does not
    int splits;           // runs of nodes of either, in a graph of llama.cpp's
    uint64_t macs;        // of the products
    uint64_t weights;     // bytes, in the form that the device keeps, of what the graph reads
    uint64_t states;      // bytes of caches and of recurrent states, in a graph of llama.cpp's
    int n_left;           // reasons that are told
    struct llm_left left[LLM_LEFT];
    // Counts of a run that finds loaded what stays from one run to the next.
    double kernels, dispatches; // dispatches: kernels that follow each other may be one
    double kept, pdi_loads, operations, by_host, on_cpu;
    double waits;                             // of the host, before the end of the graph
    double flushed;                           // bytes of the CPU's caches
    double bytes;                             // through the shim, both ways
    double read[LLM_RUNS], written[LLM_RUNS]; // the same by the length of their runs
    double memory; // of the device, the weights in whatever form they are kept included
    double ms, causes[LLM_CAUSES]; // modelled; the causes are parts of it
};

struct llm_device {
    ggml_backend_dev_t dev;
    ggml_backend_t stream;
    char causes[LLM_CAUSES][12]; // their names
    uint64_t below[LLM_RUNS];    // bytes; 0: longer runs
    char clock[32];
    uint64_t mhz;
    uint64_t compiled;                                       // kernels, by the process so far
    void *get_stats, *get_account, *why_not, *clear_profile; // ggml-hsa.h
    bool once;  // the first run is measured: it loads what stays
    bool begun; // something was computed
};

// Opens the plugin's first device, which must be an emulated NPU. NULL, or what is wrong.
const char * llm_open(const char * plugin, struct llm_device * out);
// Likewise, of any kind; an emulated GPU has no modelled time, and llm_figures nothing of it.
const char * llm_open_gpu(const char * plugin, struct llm_device * out);
void llm_close(struct llm_device * d);

enum llm_part { LLM_LAYER, LLM_HEAD, LLM_WHOLE };

// Computes a layer of that kind, the head, or all layers and the head in one graph; what is wrong,
// or NULL. A layer or the head is computed twice and the second time told. The whole is computed
// once, behind a graph with one layer of each kind and the head: that has loaded and planned what
// it needs, and leaves the array as the whole does. With the whole goes what a program does around
// it: it writes the token's inputs and reads its result.
const char * llm_measure(struct llm_device * device, const struct decoder_model * m,
                         enum llm_part part, int kind, int64_t tokens, int64_t context,
                         struct llm_figures * out);
// Asks only: nothing is allocated or computed.
void llm_count(const struct llm_device * device, const struct decoder_model * m, enum llm_part part,
               int kind, int64_t tokens, int64_t context, struct llm_figures * out);

void llm_add_left(struct llm_figures * to, const struct llm_left * left, double times);
void llm_add(struct llm_figures * to, const struct llm_figures * part, double times);
// Bytes of the cache for so many tokens, all layers.
uint64_t llm_cache_bytes(const struct decoder_model * m, int64_t context);
