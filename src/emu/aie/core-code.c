// core-code: prepared programs, kept by their bytes. A configuration that comes back, and the cores
// of one configuration that execute the same program, find what was prepared before.
//
// Kept true:
// - a program is found only when all of its bytes are equal: there is no hash that could lie.
// - a program in which a core may have instructions in flight is never freed: such a core counts as
//   its user until it takes another one.
// - when a program is taken, those without a user go, the least recently taken first, until the
//   rest fits the limit. Programs with a user may exceed it; there is one for each core at most.
// - cores on several threads share a cache: it changes under its lock only, and a bundle appears in
//   its program's map when it is whole. Reading the map takes no lock.
#include "emu/aie/core-impl.h"

#include <pthread.h>
#include <stdlib.h>

struct core_cache {
    pthread_mutex_t lock;
    struct core_code * first; // most recently taken
    size_t limit;
    struct core_cache_counts counts;
};

struct core_cache * core_cache_new(size_t limit) {
    struct core_cache * cache = calloc(1, sizeof *cache);
    if (cache) {
        pthread_mutex_init(&cache->lock, NULL);
        cache->limit = limit;
    }
    return cache;
}

static void remove_code(struct core_cache * cache, struct core_code ** at) {
    struct core_code * code = *at;
    *at = code->next;
    cache->counts.bytes -= code->bytes;
    cache->counts.programs--;
    for (int i = 0; i < CORE_PM_BYTES / 2; i++) {
        struct core_bundle * bundle = atomic_load_explicit(&code->map[i], memory_order_relaxed);
        if (bundle) { // few are, and the rest are too many to ask free about
            free(atomic_load_explicit(&bundle->turns, memory_order_relaxed));
            free(bundle);
        }
    }
    free(code);
}

void core_cache_free(struct core_cache * cache) {
    while (cache && cache->first) {
        remove_code(cache, &cache->first);
    }
    if (cache) {
        pthread_mutex_destroy(&cache->lock);
    }
    free(cache);
}

struct core_cache_counts core_cache_counts(const struct core_cache * cache) { // no core runs
    return cache->counts;
}

static void trim(struct core_cache * cache) {
    while (cache->counts.bytes > cache->limit) {
        struct core_code ** last = NULL;
        for (struct core_code ** at = &cache->first; *at; at = &(*at)->next) {
            last = (*at)->users == 0 ? at : last;
        }
        if (last == NULL) {
            return;
        }
        remove_code(cache, last);
    }
}

// Unlinked from its place, or new and empty.
static struct core_code * find_or_make(struct core_cache * cache, const uint8_t * program) {
    for (struct core_code ** at = &cache->first; *at; at = &(*at)->next) {
        struct core_code * code = *at;
        if (memcmp(code->program, program, CORE_PM_BYTES) == 0) {
            *at = code->next;
            return code;
        }
    }
    struct core_code * code = calloc(1, sizeof *code);
    if (code) {
        memcpy(code->program, program, CORE_PM_BYTES);
        code->bytes = sizeof *code;
        cache->counts.bytes += code->bytes;
        cache->counts.programs++;
        cache->counts.made++;
    }
    return code;
}

struct core_code * core_code_take(struct core_cache * cache, const uint8_t * program) {
    pthread_mutex_lock(&cache->lock);
    struct core_code * code = find_or_make(cache, program);
    if (code) {
        code->users++;
        code->next = cache->first; // first: the next core is likely to ask for the same one
        cache->first = code;
        trim(cache);
    }
    pthread_mutex_unlock(&cache->lock);
    return code;
}

void core_code_give(struct core_cache * cache, struct core_code * code) {
    if (code) {
        pthread_mutex_lock(&cache->lock);
        code->users--;
        pthread_mutex_unlock(&cache->lock);
    }
}

struct core_bundle * core_code_add(struct core_cache * cache, struct core_code * code,
                                   struct core_bundle * b, size_t bytes) {
    pthread_mutex_lock(&cache->lock);
    struct core_bundle * there = atomic_load_explicit(&code->map[b->pc / 2], memory_order_relaxed);
    if (there == NULL) {
        atomic_store_explicit(&code->map[b->pc / 2], b, memory_order_release);
        code->bytes += bytes;
        cache->counts.bytes += bytes;
    }
    pthread_mutex_unlock(&cache->lock);
    if (there) {
        free(b);
        return there;
    }
    return b;
}

void core_code_add_turns(struct core_cache * cache, struct core_code * code, struct core_bundle * b,
                         struct core_turns * turns, size_t bytes) {
    pthread_mutex_lock(&cache->lock);
    struct core_turns * none = NULL;
    bool first = atomic_compare_exchange_strong_explicit(
        &b->turns, &none, turns, memory_order_release, memory_order_relaxed);
    code->bytes += first ? bytes : 0;
    cache->counts.bytes += first ? bytes : 0;
    pthread_mutex_unlock(&cache->lock);
    if (!first) {
        free(turns);
    }
}
