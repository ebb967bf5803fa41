// llm-report: a model's figures beside what bounds them, computed whole or by parts, under one
// clock or under the three of a range. A device lives as long as its process, and reads its clock
// once: each clock of a range has a process of its own.
#pragma once

#include "llama-graph.h"
#include "llm.h"
#include "part-graph.h"
#include "range.h"

enum llm_way {
    LLM_BY_SIZE, // whole, where that takes minutes at most
    LLM_AS_WHOLE,
    LLM_BY_PARTS, // one layer of each kind and the head, and the rest multiplied
    LLM_COUNTED,  // nothing is computed
};

struct llm_ask {
    const struct decoder_model * model;
    int64_t tokens, context;
    enum llm_way way;
    bool once;                             // first runs are told, which load what they need
    void (*progress)(int part, int parts); // before each part; may be NULL
    // The graph's origin, where no model is wanted; both NULL: the graph is made of the model.
    const struct llama_way * llama;
    const struct part_way * part;
};

struct llm_report {
    enum llm_way way; // as it was done
    char clock[32];
    uint64_t mhz;
    uint64_t compiled;           // kernels, by the process so far
    char causes[LLM_CAUSES][12]; // their names
    uint64_t below[LLM_RUNS];    // bytes; 0: longer runs
    int n_parts;
    struct llm_figures parts[DECODER_MOST_KINDS + 1]; // by parts: of each kind, and of the head
    struct llm_figures all;
    uint64_t tensors, bytes;  // of the file that a part's graph was made of
    struct graph_facts facts; // of a graph that is not made of a model
    double ddr_ms, mac_ms; // that host memory alone would take (0: it has no limit), and the MACs
};

// The way that LLM_BY_SIZE takes.
enum llm_way llm_way_of(const struct llm_ask * ask);

// % of the bytes that passed the shim in runs of less than RUN_SHORT bytes.
double llm_short_runs(const struct llm_report * r, const struct llm_figures * f);

// On a device that is open.
enum status llm_report(struct llm_device * device, const struct llm_ask * ask,
                       struct llm_report * out, struct error * err);
// Under the three clocks, in processes of their own: this one must not have opened a device.
enum status llm_report_range(const char * plugin, const struct llm_ask * ask,
                             struct llm_report out[EMU_RANGES], struct error * err);
