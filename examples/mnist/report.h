// report: what came out of an evaluation, and the two ways to show it: on a terminal or in a pipe
// (report-text.c), and as one HTML file that needs nothing else (report-html.c).
#pragma once

#include "mnist.h"

#include <stdio.h>

enum { REPORT_NODES = 16 };

// An aie2 core multiplies 4x8 by 8x4 bf16 values in a cycle, and the array has 4x4 cores.
#define NPU_PEAK_MACS (4 * 8 * 4 * 16)

// What one device made of the digits.
struct outcome {
    char name[32];
    char description[128];
    int32_t * predicted;   // one per digit
    float * probabilities; // MNIST_CLASSES per digit
    int64_t right;
    double seconds;
    int nodes, nodes_on_device;
    bool has_counters;                       // of an emulated NPU
    struct ggml_backend_hsa_account account; // of the evaluation alone
    uint64_t dispatches;
    bool has_stats;
    uint64_t kernels_compiled;
    double compile_seconds;
};

void outcome_free(struct outcome * o);

struct report {
    const struct digits * digits;
    char network[96]; // "784-500-10, f32, mnist-fc-f32.gguf"
    uint64_t macs;    // of one digit
    int64_t batch;
    struct outcome device;
    struct outcome reference; // its name is empty when there is none
    int64_t agree;            // digits for which both gave the same answer
    double difference;        // greatest difference between their probabilities
    int64_t confusion[MNIST_CLASSES][MNIST_CLASSES]; // [digit][answer], of the device
    int64_t n_wrong;
    int64_t * wrong; // indices of digits, the most surely wrong first
    struct node_cost nodes[REPORT_NODES];
    int n_nodes;
};

// Fills what follows from the outcomes. false: no memory.
bool report_conclude(struct report * r);
void report_free(struct report * r);

// Of the modelled time, in percent.
static inline double report_share(const struct outcome * o, int cause) {
    return 100.0 * (double) o->account.causes[cause].cycles * 1e3 / (double) o->account.mhz /
           (double) o->account.ns;
}

static inline bool report_has_reference(const struct report * r) {
    return r->reference.name[0] != 0;
}

// The accuracies differ by no more than one digit in a thousand.
bool report_agrees(const struct report * r);

double report_percent(const struct outcome * o, const struct report * r);

// The probability that the device gave to an answer for a digit.
static inline double report_probability(const struct report * r, int64_t digit, int answer) {
    return (double) r->device.probabilities[digit * MNIST_CLASSES + answer];
}

// ---- on a terminal ----

enum style {
    STYLE_PLAIN,  // ASCII
    STYLE_BLOCKS, // half-block characters
    STYLE_COLOR,  // half-block characters in shades
};

// What suits standard output: plain in a pipe, else what the terminal and the locale can show.
enum style style_detect(void);

// width: columns to use; show: at most how many wrong digits are drawn.
void report_print(FILE * out, const struct report * r, enum style style, int width, int show);

// ---- HTML ----

// Replaces the file at path only when all could be written.
enum status report_html(const struct report * r, const char * path, struct error * err);

// A PNG image in 16 shades of grey, as base64 text; ink (255) is black.
void png_base64(struct buf * out, const uint8_t * pixels, int width, int height);
void base64(struct buf * out, const uint8_t * data, size_t size);
uint32_t png_crc(const uint8_t * data, size_t size);
uint32_t png_adler(const uint8_t * data, size_t size);
