// native: a NPU of this machine below an agent, through the kernel's driver, where other agents
// have the array machine. Memory, batches of dispatches and their end are what the two differ in;
// pools, signals, queues and packets are the same.
#pragma once

#include "amdxdna/amdxdna.h"
#include "packets.h"

struct rt_native;

// Opens device `index`; NULL with err's status ST_NOT_FOUND: there is none that we know.
struct rt_native * rt_native_open(int index, struct error * err);
const struct amdxdna_info * rt_native_info(const struct rt_native * v);
uint64_t rt_native_heap(const struct rt_native * v); // bytes that its heap can have
void rt_native_close(struct rt_native * v);          // when its memory is free

// A block's bytes; the base, or 0 when there is no memory.
uint64_t rt_native_allocate(struct rt_native * v, bool heap, size_t size,
                            struct amdxdna_buffer * out);
void rt_native_free(struct rt_native * v, struct amdxdna_buffer * b);
enum status rt_native_export(struct rt_native * v, const struct amdxdna_buffer * b, int * fd,
                             struct error * err);
// Before a block of the heap is freed: no context may know it as a PDI. The agent's lock is held.
void rt_native_forget(struct rt_native * v, const void * pdi);
// Before the last queue goes: its context, too. The agent's lock is held.
void rt_native_idle(struct rt_native * v);

// Runs a batch; *done dispatches are complete. The agent's lock is held.
hsa_status_t rt_native_run(struct rt_agent * agent, const struct rt_dispatch * d, size_t n,
                           size_t * done, struct error * err);
