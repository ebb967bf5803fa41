// native: a NPU of this machine below an agent, through the kernel's driver, where other agents
// have the array machine. Memory, batches of dispatches and their end are what the two differ in;
// pools, signals, queues and packets are the same.
#pragma once

#include "amdxdna/amdxdna.h"
#include "packets.h"

struct emu_native;

// Opens device `index`; NULL with err's status ST_NOT_FOUND: there is none that we know.
struct emu_native * emu_native_open(int index, struct error * err);
const struct amdxdna_info * emu_native_info(const struct emu_native * v);
uint64_t emu_native_heap(const struct emu_native * v); // bytes that its heap can have
void emu_native_close(struct emu_native * v);          // when its memory is free

// A block's bytes; the base, or 0 when there is no memory.
uint64_t emu_native_allocate(struct emu_native * v, bool heap, size_t size,
                             struct amdxdna_buffer * out);
void emu_native_free(struct emu_native * v, struct amdxdna_buffer * b);
// Before a block of the heap is freed: no context may know it as a PDI. The agent's lock is held.
void emu_native_forget(struct emu_native * v, const void * pdi);
// Before the last queue goes: its context, too. The agent's lock is held.
void emu_native_idle(struct emu_native * v);

// Runs a batch; *done dispatches are complete. The agent's lock is held.
hsa_status_t emu_native_run(struct emu_agent * agent, const struct emu_dispatch * d, size_t n,
                            size_t * done, struct error * err);
