// graph-facts: what is told of a graph beside its nodes, whoever built it: llama.cpp
// (llama-graph.h) or we (part-graph.h). What a graph has not is 0.
#pragma once

#include <stdint.h>

struct graph_facts {
    char version[32];            // of llama.cpp, whose graph it is
    int64_t layers, embd, heads; // embd: numbers of a token between layers
    int64_t vocab;
    int64_t context;              // tokens that a token looks back at, as its builder rounds it
    int64_t tokens;               // in the graph: 1, and of a model without a memory the whole text
    char projector[24];           // of what sees
    int64_t side, patch, patches; // of an image: dots of a side, of a patch's, and patches
    int64_t made;                 // tokens that become of it
    int64_t steps;                // of sound, in 30 seconds
};
