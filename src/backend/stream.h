// stream: one queue of a device from the inside: what computing a node needs. A stream is used by
// one thread at a time; nothing here is locked.
#pragma once

#include "mat.h"

#define MAX_IN_FLIGHT  256 // dispatches between two waits: bounds the pins that one stream holds
#define SCRATCH_BLOCKS 16
#define RECENT_PACKED  4

struct scratch_block {
    char * base;
    size_t size, used;
};

struct hsa_stream {
    struct ggml_backend base; // first: ggml's handle is this address
    struct hsa_device * device;
    struct hsac_queue * queue;
    size_t n_pins; // dispatches that are not known to be complete
    struct code_stream * pins[MAX_IN_FLIGHT];
    size_t n_held; // shadows that these dispatches may read
    struct shadow * held[MAX_IN_FLIGHT + 1];
    int n_blocks;
    struct scratch_block blocks[SCRATCH_BLOCKS];
    unsigned n_resets;                       // of scratch, which gives everything in it back
    struct mat_recent recent[RECENT_PACKED]; // in scratch
    unsigned next_recent;
    struct fallback fallback;
};

// ---- stream.c ----

// Until everything that was sent is complete. Code, shadows and scratch are free again then.
enum status stream_wait(struct hsa_stream * s, struct error * err);
// Room for all operands of one node that need it, until the queue has drained. Taken at once,
// because making room may wait and then gives back everything that was handed out before.
enum status stream_scratch(struct hsa_stream * s, size_t size, char ** out, struct error * err);
// Sends a kernel; the addresses are those of its inputs, then of its output.
enum status stream_dispatch(struct hsa_stream * s, const struct kernel_spec * spec,
                            char * const addr[PLAN_OPERANDS], struct error * err);
// Takes over what the caller holds and has sent a dispatch for, until the next wait. NULL is fine.
void stream_hold(struct hsa_stream * s, struct shadow * shadow);

// ---- compute.c ----

// A kernel that was promised may still fail to be made (an external compiler, a broken pack): found
// out here, before anything was written, and said. What was made stays in the store.
bool compute_has_kernels(struct hsa_stream * s, const struct ggml_tensor * node);
