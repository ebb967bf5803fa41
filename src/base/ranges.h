// ranges: address ranges that do not overlap, sorted, each with a value. Allocations and signals
// are looked up by any address inside them. The caller locks.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
    uint64_t base;
    uint64_t size; // at least 1; base + size does not wrap
    void * value;
};

struct ranges { // zero-initialised is empty
    struct range * items;
    size_t count, capacity;
};

// False when it overlaps a range that is there, is empty, wraps, or memory is short.
bool ranges_add(struct ranges * r, uint64_t base, uint64_t size, void * value);
// The range around addr, or NULL; valid until the next add or remove.
struct range * ranges_find(const struct ranges * r, uint64_t addr);
// Removes the range that starts at base; false when there is none.
bool ranges_remove(struct ranges * r, uint64_t base);
// Lowest address in [lo, hi) where size bytes, aligned, touch no range; 0 when there is none.
uint64_t ranges_gap(const struct ranges * r, uint64_t lo, uint64_t hi, uint64_t size,
                    uint64_t align);
void ranges_free(struct ranges * r);
