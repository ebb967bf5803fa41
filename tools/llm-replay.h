// llm-replay: what a graph that somebody else built costs on an emulated NPU: llama.cpp's, of a
// model of whatever architecture. Its nodes are copied, get memory of the device, and are computed
// with zeros in runs between those that stay on the CPU, as ggml's scheduler does.
#pragma once

#include "llm.h"

// Counts the graph: nothing is allocated on the device or computed. What is wrong, or NULL.
const char * llm_replay_count(struct llm_device * device, struct ggml_cgraph * graph,
                              struct llm_figures * out);
// Computes all of it, twice, and tells of the second time; with it goes what a program does around
// it, it writes inputs and reads the result.
const char * llm_replay_whole(struct llm_device * device, struct ggml_cgraph * graph,
                              struct llm_figures * out);
// The same with one layer of each kind, what is before the layers and what is behind them, each by
// itself, and multiplies. Layers are of a kind when their nodes are the same but for their names.
// `progress`, which may be NULL, is called before each.
const char * llm_replay_parts(struct llm_device * device, struct ggml_cgraph * graph,
                              void (*progress)(int part, int parts), struct llm_figures * out);
