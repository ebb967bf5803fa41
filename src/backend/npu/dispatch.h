// dispatch: kernels sent to a NPU, and what must stay until they are complete.
#pragma once

#include "backend/stream.h"
#include "mat.h"

#define MAX_IN_FLIGHT 256 // dispatches between two waits: bounds the pins that one stream holds
#define RECENT_PACKED 4

struct npu_stream {
    size_t n_pins; // dispatches that are not known to be complete
    struct code_stream * pins[MAX_IN_FLIGHT];
    struct store_kernel * kernels[MAX_IN_FLIGHT]; // likewise, of the store
    size_t n_held;                                // shadows that these dispatches may read
    struct shadow * held[MAX_IN_FLIGHT + 1];
    struct mat_recent recent[RECENT_PACKED]; // in scratch
    unsigned next_recent;
};

enum status npu_stream_begin(struct hsa_stream * s, struct error * err);
void npu_stream_end(struct hsa_stream * s);
void npu_stream_settled(struct hsa_stream * s);
// Sends a kernel; the addresses are those of its inputs, then of its output.
enum status npu_dispatch(struct hsa_stream * s, const struct kernel_spec * spec,
                         char * const addr[PLAN_OPERANDS], struct error * err);
// Takes over what the caller holds and has sent a dispatch for, until the next wait. NULL is fine.
void npu_hold(struct hsa_stream * s, struct shadow * shadow);
