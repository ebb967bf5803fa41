// llama-graph: the graph that llama.cpp itself builds of a model: its library is opened at run
// time, and reads of the file what it says of the model, never a weight. Every architecture that
// this llama.cpp knows has one, hybrids, mixtures of experts and encoders included.
#pragma once

#include "base/base.h"
#include "ggml-backend.h"
#include "graph-facts.h"

struct llama_way {
    const char * library; // a directory, or a file; NULL: where the dynamic linker looks
    const char * file;    // GGUF
};

struct llama_graph {
    struct graph_facts facts;
    struct ggml_cgraph * graph; // weights and caches have buffers, and no data
    void *library, *model, *context;
};

// Whether the library can be opened. If not, err says what was looked for, and the mend.
bool llama_graph_there(const struct llama_way * way, struct error * err);
// Layers, cache and output are for that device, the rest of the graph as llama.cpp decides. What
// was opened is closed by llama_graph_close, whatever the result.
enum status llama_graph_open(const struct llama_way * way, ggml_backend_dev_t dev, int64_t context,
                             struct llama_graph * out, struct error * err);
void llama_graph_close(struct llama_graph * g);
