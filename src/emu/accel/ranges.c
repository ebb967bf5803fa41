// ranges: which parts of an address space are taken. The kernel's allocator, which the driver uses
// for its heap, takes the smallest hole that fits; so does this one, for where buffers come to lie,
// and when a heap is full, must not be kinder here than there.
#include "accel.h"

#include <stdlib.h>
#include <string.h>

static uint64_t align_up(uint64_t v, uint64_t align) {
    return (v + align - 1) / align * align;
}

static bool room_for_one(struct accel_ranges * r) {
    if (r->n < r->max) {
        return true;
    }
    size_t max = r->max ? 2 * r->max : 32;
    struct accel_range * taken = realloc(r->taken, max * sizeof *taken);
    if (taken) {
        r->taken = taken;
        r->max = max;
    }
    return taken != NULL;
}

bool accel_ranges_take(struct accel_ranges * r, uint64_t size, uint64_t align, uint64_t * at) {
    uint64_t best = UINT64_MAX, place = 0, hole = r->begin;
    size_t index = 0;
    for (size_t i = 0; i <= r->n; i++) { // the hole before taken[i], or the last one
        uint64_t end = i < r->n ? r->taken[i].at : r->end;
        uint64_t first = align_up(hole, align);
        if (first <= end && size <= end - first && end - hole < best) {
            best = end - hole;
            place = first;
            index = i;
        }
        hole = i < r->n ? r->taken[i].at + r->taken[i].size : end;
    }
    if (best == UINT64_MAX || size == 0 || !room_for_one(r)) {
        return false;
    }
    memmove(r->taken + index + 1, r->taken + index, (r->n - index) * sizeof *r->taken);
    r->taken[index] = (struct accel_range){place, size};
    r->n++;
    *at = place;
    return true;
}

void accel_ranges_give(struct accel_ranges * r, uint64_t at) {
    size_t lo = 0, hi = r->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (r->taken[mid].at < at) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    if (lo < r->n && r->taken[lo].at == at) {
        memmove(r->taken + lo, r->taken + lo + 1, (r->n - lo - 1) * sizeof *r->taken);
        r->n--;
    }
}

void accel_ranges_free(struct accel_ranges * r) {
    free(r->taken);
    *r = (struct accel_ranges){0};
}
