// caches: what lies between the program and the memory that the device sees, when it is asked for.
// Each buffer that the device reaches is a region of emu/cache; the program's own pages are the
// CPU's side of it. The program reports its flushes through a hook that the client of the driver
// calls behind the instructions themselves, for those leave no trace.
//
// The kernel reads and writes command buffers and its chain buffers by the CPU and flushes the
// latter by itself; so they have no part in this.
#include "accel.h"

#include "emu/cache/cache.h"

#include <errno.h>

// cache.c unmaps, which comes back to us through preload.c; the lock is held then already.
static _Thread_local bool inside;

bool accel_caches_inside(void) {
    return inside;
}

int accel_caches_open(struct accel_device * dev) {
    inside = true;
    emu_cache_free(dev->cache);
    inside = false;
    dev->cache = dev->settings.caches ? emu_cache_new(dev->settings.seed) : NULL;
    return dev->settings.caches && !dev->cache ? -ENOMEM : 0;
}

int accel_caches_add(struct accel_call * c, struct accel_bo * bo) {
    struct error err = {0};
    if (!c->dev->cache || bo->type == XDNA_BO_HEAP) {
        return 0;
    }
    inside = true;
    enum status st = emu_cache_add(c->dev->cache, bo->bytes, bo->size, &err);
    inside = false;
    return st == ST_OK ? 0 : accel_refuse(c, ENOMEM, "%s", err.text);
}

void accel_caches_remove(struct accel_device * dev, struct accel_bo * bo) {
    if (dev->cache) {
        inside = true;
        emu_cache_remove(dev->cache, bo->bytes);
        inside = false;
    }
}

void accel_caches_evict(struct accel_device * dev) {
    if (dev->cache) {
        emu_cache_evict(dev->cache);
    }
}

void accel_caches_flush(struct accel_device * dev, const uint8_t * bytes, uint64_t size) {
    if (dev->cache) {
        emu_cache_flush(dev->cache, bytes, size);
    }
}

void * accel_device_memory(struct accel_device * dev, uint8_t * bytes, size_t size) {
    return dev->cache ? emu_cache_memory(dev->cache, bytes, size) : bytes;
}

uint64_t accel_caches_flushed(const struct accel_device * dev) {
    return dev->cache ? emu_cache_flushed(dev->cache) : 0;
}

// ---- the program's side ----

// Buffers are mapped by whole pages, so lines of the program are lines of ours.
void amdxdna_flush_hook(const void * at, size_t size);
__attribute__((visibility("default"))) void amdxdna_flush_hook(const void * at, size_t size) {
    struct accel_device * dev = accel_device();
    uint64_t from = (uint64_t) (uintptr_t) at, end = from + size;
    pthread_mutex_lock(&dev->lock);
    accel_time_pass(size * dev->settings.clock.flush_mb_ns / 1000000);
    for (uint64_t va = from; dev->cache && va < end;) {
        const struct accel_mapping * m = accel_mapping_from(dev, va);
        if (!m || m->va >= end) {
            break;
        }
        uint64_t first = m->va > va ? m->va : va;
        uint64_t last = m->va + m->size < end ? m->va + m->size : end;
        emu_cache_flush(dev->cache, m->bo->bytes + (first - m->va), last - first);
        va = m->va + m->size;
    }
    pthread_mutex_unlock(&dev->lock);
}
