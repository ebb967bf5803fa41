// cache: see the header. A line is dirty when the program's bytes differ from what both sides last
// agreed on, or when nobody has flushed it since its region began. A program that writes the bytes
// that already lay there makes a line dirty on a CPU, and not here: that much is kinder.
//
// A line that goes by itself is only ever written back, never dropped: it happens in another thread
// than the program's, and to drop a line would mean to write over what the program may be about to
// write. So a copy that should have been dropped is found stale each time, not now and then.
//
// Copies are mapped and begin as zeros without a page behind them, as fresh pages of the program
// do: a region costs what is used of it.
#include "cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    WORDS = EMU_CACHE_LINE / 8,
    PAGE = 4096,
    // One call of emu_cache_evict looks at so many runs of lines, and evicts one line in so many.
    // It looks at the whole of a small region.
    RUNS = 8,
    RUN = 256,
    TAKEN = 8,
};

struct region {
    uint8_t * host;   // the program's
    uint8_t * memory; // the device's
    uint8_t * agreed; // what both were
    uint8_t * known;  // a bit for each line that was written back or dropped before
    size_t size;
};

struct emu_cache {
    pthread_mutex_t lock;
    struct region * regions; // by address
    size_t count, capacity;
    uint64_t random;
    uint64_t flushed;
};

struct emu_cache * emu_cache_new(uint64_t seed) {
    struct emu_cache * c = calloc(1, sizeof *c);
    if (c) {
        pthread_mutex_init(&c->lock, NULL);
        c->random = seed;
    }
    return c;
}

static size_t line_count(const struct region * r) {
    size_t before = (uintptr_t) r->host % EMU_CACHE_LINE;
    return (before + r->size + EMU_CACHE_LINE - 1) / EMU_CACHE_LINE;
}

static void unmap(struct region * r) {
    munmap(r->memory, r->size);
    munmap(r->agreed, r->size);
    munmap(r->known, line_count(r) / 8 + 1);
}

void emu_cache_free(struct emu_cache * c) {
    if (!c) {
        return;
    }
    for (size_t i = 0; i < c->count; i++) {
        unmap(&c->regions[i]);
    }
    free(c->regions);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

// SplitMix64.
static uint64_t next_random(struct emu_cache * c) {
    uint64_t z = c->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

// The first region that ends behind `at`; count when there is none.
static size_t find(const struct emu_cache * c, uintptr_t at) {
    size_t low = 0, high = c->count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        const struct region * r = &c->regions[mid];
        if ((uintptr_t) r->host + r->size <= at) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static uint8_t * map(size_t size) {
    void * at = mmap(NULL, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

// Zeros are left as the kernel gave them.
static void copy_pages(struct region * r) {
    static const uint8_t zeros[PAGE];
    for (size_t at = 0; at < r->size; at += PAGE) {
        size_t n = r->size - at < PAGE ? r->size - at : PAGE;
        if (memcmp(r->host + at, zeros, n) != 0) {
            memcpy(r->memory + at, r->host + at, n);
            memcpy(r->agreed + at, r->host + at, n);
        }
    }
}

enum status emu_cache_add(struct emu_cache * c, void * host, size_t size, struct error * err) {
    if (size == 0 || (uintptr_t) host + size < (uintptr_t) host) {
        return error_set(err, ST_INVALID, "%zu bytes at %p are no memory that caches could be of",
                         size, host);
    }
    struct region r = {.host = host, .size = size};
    r.memory = map(size);
    r.agreed = map(size);
    r.known = map(line_count(&r) / 8 + 1);
    enum status st = ST_OK;
    pthread_mutex_lock(&c->lock);
    size_t place = find(c, (uintptr_t) host);
    if (!r.memory || !r.agreed || !r.known) {
        st = error_set(err, ST_NO_MEMORY, "no memory for the caches of %zu bytes", size);
    } else if (place < c->count && (uintptr_t) c->regions[place].host < (uintptr_t) host + size) {
        st = error_set(err, ST_INVALID, "%zu bytes at %p lie over a region that has caches already",
                       size, host);
    } else if (c->count == c->capacity) {
        size_t capacity = c->capacity ? 2 * c->capacity : 16;
        struct region * grown = realloc(c->regions, capacity * sizeof *grown);
        if (!grown) {
            st = error_set(err, ST_NO_MEMORY, "no memory for the caches' list of regions");
        } else {
            c->regions = grown;
            c->capacity = capacity;
        }
    }
    if (st == ST_OK) {
        copy_pages(&r);
        memmove(c->regions + place + 1, c->regions + place,
                (c->count - place) * sizeof *c->regions);
        c->regions[place] = r;
        c->count++;
    }
    pthread_mutex_unlock(&c->lock);
    if (st != ST_OK) {
        if (r.memory) {
            munmap(r.memory, size);
        }
        if (r.agreed) {
            munmap(r.agreed, size);
        }
        if (r.known) {
            munmap(r.known, line_count(&r) / 8 + 1);
        }
    }
    return st;
}

void emu_cache_remove(struct emu_cache * c, void * host) {
    pthread_mutex_lock(&c->lock);
    size_t place = find(c, (uintptr_t) host);
    if (place < c->count && c->regions[place].host == host) {
        unmap(&c->regions[place]);
        c->count--;
        memmove(c->regions + place, c->regions + place + 1,
                (c->count - place) * sizeof *c->regions);
    }
    pthread_mutex_unlock(&c->lock);
}

// One line as it is at this moment: the program may be writing it in another thread, as it may
// while its CPU writes the line back. What was read of it is what both sides agree on then, so that
// the rest is found changed the next time.
#if defined(__has_feature)
#    if __has_feature(thread_sanitizer)
#        define UNSYNCHRONISED __attribute__((no_sanitize("thread")))
#    endif
#elif defined(__SANITIZE_THREAD__)
#    define UNSYNCHRONISED __attribute__((no_sanitize_thread))
#endif
#if !defined(UNSYNCHRONISED)
#    define UNSYNCHRONISED
#endif

UNSYNCHRONISED static void read_line(uint8_t * out, const uint8_t * host, size_t n) {
    if (n == EMU_CACHE_LINE) {
        for (int i = 0; i < WORDS; i++) {
            ((uint64_t *) (void *) out)[i] = ((const volatile uint64_t *) (const void *) host)[i];
        }
        return;
    }
    for (size_t i = 0; i < n; i++) {
        out[i] = ((const volatile uint8_t *) host)[i];
    }
}

// The bytes of a line that lie in the region: the first and last may be cut.
static size_t line_at(const struct region * r, size_t line, size_t * at) {
    size_t before = (uintptr_t) r->host % EMU_CACHE_LINE;
    *at = line == 0 ? 0 : line * EMU_CACHE_LINE - before;
    size_t end = (line + 1) * EMU_CACHE_LINE - before;
    return (end < r->size ? end : r->size) - *at;
}

static void line_goes(struct region * r, size_t line, bool may_drop) {
    _Alignas(8) uint8_t now[EMU_CACHE_LINE];
    size_t at, n = line_at(r, line, &at);
    read_line(now, r->host + at, n);
    bool known = r->known[line / 8] >> line % 8 & 1;
    if (!known || memcmp(now, r->agreed + at, n) != 0) {
        r->known[line / 8] |= (uint8_t) (1u << line % 8);
        if (memcmp(r->memory + at, now, n) != 0) { // what is so already needs no page
            memcpy(r->memory + at, now, n);
        }
        if (memcmp(r->agreed + at, now, n) != 0) {
            memcpy(r->agreed + at, now, n);
        }
    } else if (may_drop && memcmp(r->memory + at, now, n) != 0) {
        memcpy(r->agreed + at, r->memory + at, n);
        memcpy(r->host + at, r->agreed + at, n);
    }
}

void emu_cache_flush(struct emu_cache * c, const void * at, size_t size) {
    if (size == 0) {
        return;
    }
    uintptr_t first = (uintptr_t) at & ~(uintptr_t) (EMU_CACHE_LINE - 1);
    uintptr_t end =
        ((uintptr_t) at + size + EMU_CACHE_LINE - 1) & ~(uintptr_t) (EMU_CACHE_LINE - 1);
    pthread_mutex_lock(&c->lock);
    for (size_t i = find(c, first); i < c->count && (uintptr_t) c->regions[i].host < end; i++) {
        struct region * r = &c->regions[i];
        uintptr_t base = (uintptr_t) r->host & ~(uintptr_t) (EMU_CACHE_LINE - 1);
        size_t lines = line_count(r);
        size_t line = first > base ? (first - base) / EMU_CACHE_LINE : 0;
        size_t stop = (end - base) / EMU_CACHE_LINE;
        for (stop = stop < lines ? stop : lines; line < stop; line++) {
            line_goes(r, line, true);
            c->flushed += EMU_CACHE_LINE;
        }
    }
    pthread_mutex_unlock(&c->lock);
}

void emu_cache_evict(struct emu_cache * c) {
    pthread_mutex_lock(&c->lock);
    for (int run = 0; c->count > 0 && run < RUNS; run++) {
        struct region * r = &c->regions[next_random(c) % c->count];
        size_t lines = line_count(r);
        size_t line = lines > RUN ? next_random(c) % (lines - RUN + 1) : 0;
        for (size_t stop = lines > RUN ? line + RUN : lines; line < stop; line++) {
            if (next_random(c) % TAKEN == 0) {
                line_goes(r, line, false);
            }
        }
    }
    pthread_mutex_unlock(&c->lock);
}

void * emu_cache_memory(struct emu_cache * c, const void * host, size_t size) {
    pthread_mutex_lock(&c->lock);
    size_t place = find(c, (uintptr_t) host);
    void * out = NULL;
    if (place < c->count) {
        const struct region * r = &c->regions[place];
        size_t at = (uintptr_t) host - (uintptr_t) r->host;
        if ((uintptr_t) host >= (uintptr_t) r->host && size <= r->size - at) {
            out = r->memory + at;
        }
    }
    pthread_mutex_unlock(&c->lock);
    return out;
}

uint64_t emu_cache_flushed(const struct emu_cache * c) {
    pthread_mutex_t * lock = (pthread_mutex_t *) &c->lock;
    pthread_mutex_lock(lock);
    uint64_t flushed = c->flushed;
    pthread_mutex_unlock(lock);
    return flushed;
}
