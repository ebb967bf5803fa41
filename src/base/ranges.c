// ranges: a sorted array. Programs hold some thousands of allocations at most and look them up far
// more often than they make them, so a binary search over one array beats a tree.
#include "ranges.h"

#include <stdlib.h>
#include <string.h>

// Index of the first range whose base lies above addr.
static size_t upper(const struct ranges * r, uint64_t addr) {
    size_t lo = 0, hi = r->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (r->items[mid].base <= addr) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

bool ranges_add(struct ranges * r, uint64_t base, uint64_t size, void * value) {
    if (size == 0 || base > UINT64_MAX - size) {
        return false;
    }
    size_t at = upper(r, base);
    if (at > 0 && base - r->items[at - 1].base < r->items[at - 1].size) {
        return false;
    }
    if (at < r->count && r->items[at].base - base < size) {
        return false;
    }
    if (r->count == r->capacity) {
        size_t capacity = r->capacity ? r->capacity * 2 : 64;
        struct range * items = realloc(r->items, capacity * sizeof *items);
        if (!items) {
            return false;
        }
        r->items = items;
        r->capacity = capacity;
    }
    memmove(r->items + at + 1, r->items + at, (r->count - at) * sizeof *r->items);
    r->items[at] = (struct range){base, size, value};
    r->count++;
    return true;
}

struct range * ranges_find(const struct ranges * r, uint64_t addr) {
    size_t at = upper(r, addr);
    if (at == 0 || addr - r->items[at - 1].base >= r->items[at - 1].size) {
        return NULL;
    }
    return &r->items[at - 1];
}

bool ranges_remove(struct ranges * r, uint64_t base) {
    struct range * found = ranges_find(r, base);
    if (!found || found->base != base) {
        return false;
    }
    size_t at = (size_t) (found - r->items);
    memmove(found, found + 1, (r->count - at - 1) * sizeof *found);
    r->count--;
    return true;
}

uint64_t ranges_gap(const struct ranges * r, uint64_t lo, uint64_t hi, uint64_t size,
                    uint64_t align) {
    uint64_t at = (lo + align - 1) / align * align;
    for (size_t i = lo ? upper(r, lo - 1) : 0; i < r->count && r->items[i].base < hi; i++) {
        if (at <= r->items[i].base && r->items[i].base - at >= size) {
            return at;
        }
        uint64_t end = r->items[i].base + r->items[i].size;
        at = (end + align - 1) / align * align;
    }
    return at < hi && hi - at >= size ? at : 0;
}

void ranges_free(struct ranges * r) {
    free(r->items);
    *r = (struct ranges){0};
}
