// cache: the CPU's caches between a program and the memory that a device sees. The NPU does not
// snoop: what the CPU wrote reaches memory when its line is flushed or evicted, and what the device
// wrote reaches the CPU when the CPU's copy of the line was dropped.
//
// A region has three copies of its bytes: what the program sees (its own pages), what lies in
// memory (the device's), and what both were when they last agreed. A line that the program changed
// is written back whole, over whatever the device wrote beside it, as a cache does.
//
// Kept true: nothing here is kinder than a cache. A line that nobody flushed is written back at a
// random moment or never; one that the CPU has stays stale until it is flushed or evicted.
#pragma once

#include "base/base.h"

enum { EMU_CACHE_LINE = 64 };

struct emu_cache; // of one device

// The seed decides which lines go when.
struct emu_cache * emu_cache_new(uint64_t seed);
void emu_cache_free(struct emu_cache * c);
// The program's bytes at `host`; the device's copy begins as they are, and every line may be dirty,
// as those of pages that the kernel has just cleared.
enum status emu_cache_add(struct emu_cache * c, void * host, size_t size, struct error * err);
void emu_cache_remove(struct emu_cache * c, void * host);
// The lines around [at, at + size) go: written back when the program changed them, dropped when it
// did not. Bytes in no region are passed over.
void emu_cache_flush(struct emu_cache * c, const void * at, size_t size);
// Some lines go by themselves. Called around dispatches.
void emu_cache_evict(struct emu_cache * c);
// Where the device finds the bytes of the program at `host`; NULL: they lie in no one region.
void * emu_cache_memory(struct emu_cache * c, const void * host, size_t size);
uint64_t emu_cache_flushed(const struct emu_cache * c); // bytes, in whole lines
