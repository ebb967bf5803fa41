// hsac: the client side of HSA. Opens a runtime with dlopen, finds agents and their memory pools,
// allocates, and sends kernels through a queue. It knows packets and pools, not tensors.
#pragma once

#include "base/base.h"

struct hsac;       // a loaded runtime
struct hsac_agent; // one NPU
struct hsac_queue;

// Where runtimes come from, in this order: GGML_HSA_RUNTIME (a path), GGML_HSA_EMULATE (the emulated
// runtime beside this library), else libhsa-runtime64.so.1 of the system.
enum status hsac_open(struct hsac ** out, struct error * err);
// The runtime alone, initialised, for hsac_symbol: no agents are looked for.
enum status hsac_open_runtime(struct hsac ** out, struct error * err);
void hsac_close(struct hsac * h);
const char * hsac_runtime_path(const struct hsac * h);
bool hsac_is_emulated(const struct hsac * h);
void * hsac_symbol(const struct hsac * h, const char * name); // a function of the runtime, or NULL
char hsac_abi_name(const struct hsac * h); // of the packets it takes: B, C or D; 'A' cannot run kernels

int hsac_agent_count(const struct hsac * h); // AIE agents
struct hsac_agent * hsac_agent_get(struct hsac * h, int i);
const char * hsac_agent_name(const struct hsac_agent * a);    // "aie2"
const char * hsac_agent_product(const struct hsac_agent * a); // "RyzenAI-npu1"
void hsac_agent_memory(const struct hsac_agent * a, uint64_t * free_bytes, uint64_t * total_bytes);

enum hsac_pool {
    HSAC_POOL_DATA,    // operands
    HSAC_POOL_DEV,     // PDIs and instruction streams: the 64 MiB device heap
    HSAC_POOL_KERNARG, // packets' payloads
};

uint64_t hsac_agent_pool_size(const struct hsac_agent * a, enum hsac_pool pool);

// Memory that agent and host both see. NULL when the pool is full.
void * hsac_alloc(struct hsac_agent * a, enum hsac_pool pool, size_t size);
void hsac_free(struct hsac_agent * a, void * ptr);

#define HSAC_MAX_OPERANDS 8

struct hsac_dispatch {
    const void * pdi;       // in HSAC_POOL_DEV
    size_t pdi_size;
    const void * insts;     // in HSAC_POOL_DEV
    uint32_t n_insts;       // 32-bit words
    int n_operands;
    struct { void * addr; uint64_t size; } operands[HSAC_MAX_OPERANDS]; // in HSAC_POOL_DATA
};

// A queue may be shared by threads: each call locks it. Packets are kept back and rung in batches.
enum status hsac_queue_new(struct hsac_agent * a, struct hsac_queue ** out, struct error * err);
void hsac_queue_free(struct hsac_queue * q);
enum status hsac_queue_dispatch(struct hsac_queue * q, const struct hsac_dispatch * d, struct error * err);
// Rings for everything sent so far and waits until it is complete.
enum status hsac_queue_wait(struct hsac_queue * q, struct error * err);

struct hsac_counters { // what the emulated runtime counts; all 0 on a real one
    uint64_t dispatches, pdi_loads, cycles, bundles, core_stalls, stream_words, last_cycles;
};
bool hsac_agent_counters(const struct hsac_agent * a, struct hsac_counters * out); // false: not emulated
