// mnist: what mnist-eval and mnist-train have in common: reading digits (IDX files) and networks
// (GGUF files), the network as a ggml graph, and running it on a device of ggml by name.
//
// The network has one hidden layer. A digit goes in as 784 floats from 0 (paper) to 1 (ink); out
// come ten numbers, the largest of which names the digit:
//
//   MUL_MAT fc1.weight, ADD fc1.bias, RELU, MUL_MAT fc2.weight, ADD fc2.bias
#pragma once

#include "base/base.h"
#include "ggml-backend.h"
#include "ggml-hsa.h"
#include "ggml.h"

enum {
    MNIST_SIDE = 28,
    MNIST_PIXELS = MNIST_SIDE * MNIST_SIDE,
    MNIST_CLASSES = 10,
    MNIST_MAX_HIDDEN = 4096,
    MNIST_MAX_BATCH = 10000,
};

// ---- files ----

struct digits {
    int64_t n;
    uint8_t * pixels; // n images of MNIST_PIXELS bytes, row by row, 0 is paper
    uint8_t * labels; // n values below MNIST_CLASSES
};

// Reads <dir>/<set>-images-idx3-ubyte and <dir>/<set>-labels-idx1-ubyte; set is "t10k" or "train".
enum status digits_read(const char * dir, const char * set, struct digits * out,
                        struct error * err);
void digits_free(struct digits * d);

enum { FC1_WEIGHT, FC1_BIAS, FC2_WEIGHT, FC2_BIAS, NET_TENSORS };

// A network whose tensors live in one buffer of a device.
struct net {
    int64_t hidden;
    struct ggml_context * ctx;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor * tensors[NET_TENSORS];
};

// Weights of the given type (biases are f32), values undefined. On failure *out is empty.
enum status net_new(struct net * out, int64_t hidden, enum ggml_type type,
                    ggml_backend_buffer_type_t buft, struct error * err);
// Reads a GGUF file with weights in f32, f16 or bf16 into memory of the given kind.
enum status net_load(struct net * out, const char * path, ggml_backend_buffer_type_t buft,
                     struct error * err);
// Writes it; what was at the path before stays there until the new file is complete.
enum status net_save(const struct net * net, const char * path, const char * description,
                     struct error * err);
void net_free(struct net * net);

// The ten outputs for each column of images, [MNIST_PIXELS, n] -> [MNIST_CLASSES, n].
struct ggml_tensor * net_forward(struct ggml_context * ctx, const struct net * net,
                                 struct ggml_tensor * images);

// ---- devices ----

// Loads the plugin (NULL: the one beside this program, if any; "": none) and then ggml's CPU
// backend. Unless verbose, ggml's log shows warnings and errors only from then on.
enum status devices_load(const char * plugin, bool verbose, struct error * err);

// A device of ggml, with the CPU beside it for the nodes that it cannot compute.
struct device {
    ggml_backend_dev_t dev;
    ggml_backend_t backends[2]; // the device, then the CPU, unless that is the device
    int n_backends;
    ggml_backend_buffer_type_t weights; // where its networks should live
    ggml_backend_buffer_type_t shared;  // memory in which the CPU can compute as well
};

// threads: of the CPU backend, 0 for as many as there are cores.
enum status device_open(struct device * out, const char * name, int threads, struct error * err);
void device_close(struct device * d);

// A scheduler in which every node of the graph that the device can compute is the device's. With
// all_shared everything lies in memory that both reach, for graphs that go to and fro. NULL: no
// memory.
ggml_backend_sched_t device_schedule(struct device * d, struct ggml_cgraph * graph,
                                     bool all_shared);

// Modelled cycles of an emulated device since the process began; false when there are none.
bool device_counters(const struct device * d, struct ggml_backend_hsa_counters * out);
// Likewise where its modelled time went.
bool device_account(const struct device * d, struct ggml_backend_hsa_account * out);
bool device_stats(const struct device * d, struct ggml_backend_hsa_stats * out);

// ---- evaluation ----

// A graph that takes a batch of digits to probabilities and predictions.
struct evaluator {
    const struct net * net;
    struct device * device;
    int64_t batch;
    struct ggml_context * ctx;
    struct ggml_cgraph * graph;
    ggml_backend_sched_t sched;
    struct ggml_tensor *images, *probabilities, *predicted;
    float * staging; // one batch of images
};

enum status evaluator_new(struct evaluator * out, const struct net * net, struct device * device,
                          int64_t batch, struct error * err);
void evaluator_free(struct evaluator * e);

// How many of its nodes compute something, and how many of those the device itself computes.
void evaluator_nodes(const struct evaluator * e, int * all, int * on_device);

// Called after each batch with the number of digits done.
typedef void (*progress_fn)(void * user, int64_t done, int64_t all);

// predicted[d->n], probabilities[d->n * MNIST_CLASSES] (may be NULL). progress may be NULL.
enum status evaluator_run(struct evaluator * e, const struct digits * d, int32_t * predicted,
                          float * probabilities, progress_fn progress, void * user,
                          struct error * err);

// One node of the graph, as it went when one batch was run node by node.
struct node_cost {
    char what[32];  // MUL_MAT, ADD ...
    char shape[48]; // of the result
    bool on_device;
    uint64_t cycles; // 0 when the device has no counters
    uint64_t macs;   // multiplications that the node is made of; 0 for all but MUL_MAT
    double seconds;
};

// Runs the first batch of d once more, a node at a time; returns how many rows were filled.
int evaluator_profile(struct evaluator * e, const struct digits * d, struct node_cost * out,
                      int max);

double seconds_now(void);
