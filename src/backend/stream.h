// stream: one queue of a device from the inside: what computing a node needs. A stream is used by
// one thread at a time; nothing here is locked.
#pragma once

#include "backend.h"

#define SCRATCH_BLOCKS 16

struct scratch_block {
    char * base;
    size_t size, used;
};

struct npu_stream; // npu/dispatch.h

struct gpu_bytes { // what a product's columns became, in scratch
    struct view columns;
    char * bytes; // NULL: nothing is remembered
};

struct hsa_stream {
    struct ggml_backend base; // first: ggml's handle is this address
    struct hsa_device * device;
    struct hsac_queue * queue;
    bool in_flight;                  // something was sent since the last wait
    uint64_t sent;                   // kernels, ever
    uint32_t row;                    // of the device's profile: the node at hand
    const struct ggml_tensor * node; // at hand, for the names of a trace
    struct npu_stream * npu;         // of a NPU
    struct gpu_bytes gpu_bytes;      // of a GPU, those that were made last
    int n_blocks;
    struct scratch_block blocks[SCRATCH_BLOCKS];
    unsigned n_resets; // of scratch, which gives everything in it back
    struct fallback fallback;
};

// Until everything that was sent is complete. What it used is free again then, scratch too.
enum status stream_wait(struct hsa_stream * s, struct error * err);
// Room for all operands of one node that need it, until the queue has drained. Taken at once,
// because making room may wait and then gives back everything that was handed out before.
enum status stream_scratch(struct hsa_stream * s, size_t size, char ** out, struct error * err);

// ---- plugin/async.c: for ggml's table ----

void stream_set_tensor_async(ggml_backend_t backend, struct ggml_tensor * tensor, const void * data,
                             size_t offset, size_t size);
void stream_get_tensor_async(ggml_backend_t backend, const struct ggml_tensor * tensor, void * data,
                             size_t offset, size_t size);
bool stream_cpy_tensor_async(ggml_backend_t backend_src, ggml_backend_t backend_dst,
                             const struct ggml_tensor * src, struct ggml_tensor * dst);
void stream_event_record(ggml_backend_t backend, ggml_backend_event_t event);
void stream_event_wait(ggml_backend_t backend, ggml_backend_event_t event);
