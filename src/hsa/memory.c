// memory: what is allocated from an agent's pools, and where it lies.
//
// Kept true: every live allocation stands in agent->blocks. ROCr ends the process when a packet
// names an address that it does not know, so the queue asks here first. Three faults of ROCr's NPU
// driver are kept from the callers:
//
//   - Its lists of buffers have no lock, so nothing is allocated or freed while packets are read.
//   - ROCr 7.2 finds the buffer around an address only when another buffer lies above it. We keep
//     one there, the guard.
//   - ROCr 7.2 leaves a buffer mapped when it is freed, and with it the memory.
//
// The heap keeps room for a hardware context. And one of its addresses: a stream's place in the
// heap loses a bit on its way to the firmware, so streams are put where that bit is 0.
#include "hsac-impl.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    GUARD_TRIES = 8,        // another thread may take the place above
    STREAM_TRIES = 32,      // each leaves a part of the heap behind it
    CONTEXT_BUFFERS = 4,    // of the heap, for the commands of a hardware context
    CONTEXT_BUFFER = 32768, // the driver aligns them so
};

// ---- the list ----

// Index of the first block above addr.
static size_t upper(const struct hsac_agent * a, uintptr_t addr) {
    size_t lo = 0, hi = a->n_blocks;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (a->blocks[mid].base <= addr) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

static bool remember(struct hsac_agent * a, struct hsac_block block) {
    if (a->n_blocks == a->max_blocks) {
        size_t max = a->max_blocks ? 2 * a->max_blocks : 64;
        struct hsac_block * blocks = realloc(a->blocks, max * sizeof *blocks);
        if (!blocks) {
            return false;
        }
        a->blocks = blocks;
        a->max_blocks = max;
    }
    size_t at = upper(a, block.base);
    memmove(a->blocks + at + 1, a->blocks + at, (a->n_blocks - at) * sizeof *a->blocks);
    a->blocks[at] = block;
    a->n_blocks++;
    __atomic_fetch_add(&a->used[block.pool], block.size, __ATOMIC_RELAXED);
    return true;
}

// ---- the runtime's memory; of a NPU with its driver lock held ----

static bool in_heap(enum hsac_pool pool) {
    return pool == HSAC_POOL_DEV || pool == HSAC_POOL_STREAM;
}

static void * take(struct hsac_agent * a, enum hsac_pool pool, size_t size) {
    void * ptr = NULL;
    return a->h->api.hsa_amd_memory_pool_allocate(a->pools[pool], size, 0, &ptr) ==
                   HSA_STATUS_SUCCESS
               ? ptr
               : NULL;
}

static void give_back(struct hsac_agent * a, enum hsac_pool pool, void * ptr, size_t size) {
    if (!ptr) {
        return;
    }
    a->h->api.hsa_amd_memory_pool_free(ptr);
    if (a->kind == HSAC_NPU && a->h->runtime->leaves_mappings && !in_heap(pool)) {
        munmap(ptr, size); // whole pages, as the kernel rounds
    }
}

// A buffer of a page goes into the highest gap that there is, and larger ones not above it. Where
// the block left no gap above itself it makes room for the guard first.
static void * put_below_guard(struct hsac_agent * a, enum hsac_pool pool, size_t size, void * ptr) {
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);
    for (int i = 0; ptr && (uintptr_t) ptr > a->guard && i < GUARD_TRIES; i++) {
        void * guard = take(a, HSAC_POOL_DATA, page);
        if (guard && guard < ptr) {
            give_back(a, HSAC_POOL_DATA, guard, page);
            give_back(a, pool, ptr, size);
            guard = take(a, HSAC_POOL_DATA, page);
            ptr = take(a, pool, size);
        }
        if ((uintptr_t) guard > a->guard) {
            give_back(a, HSAC_POOL_DATA, (void *) a->guard, page);
            a->guard = (uintptr_t) guard;
        } else {
            give_back(a, HSAC_POOL_DATA, guard, page);
        }
    }
    return ptr; // hsac_agent_finds says whether it worked
}

static bool nameable(const void * stream) {
    return !((uintptr_t) stream & AIE_LOST_ADDRESS_BIT);
}

// The heap is the driver's to divide. What cannot be named is held while we ask again, together
// with the rest of the part that it lies in.
static void * take_stream(struct hsac_agent * a, size_t size) {
    void * held[2 * STREAM_TRIES];
    int n = 0;
    void * ptr = take(a, HSAC_POOL_STREAM, size);
    while (ptr && !nameable(ptr) && n < 2 * STREAM_TRIES) {
        uintptr_t end = ((uintptr_t) ptr | (AIE_LOST_ADDRESS_BIT - 1)) + 1;
        size_t rest = end - (uintptr_t) ptr > size ? end - (uintptr_t) ptr - size : 0;
        held[n++] = ptr;
        held[n] = NULL;
        while (rest >= 4096 && !held[n]) {
            held[n] = take(a, HSAC_POOL_STREAM, rest);
            rest /= 2;
        }
        n++;
        ptr = take(a, HSAC_POOL_STREAM, size);
    }
    if (ptr && !nameable(ptr)) {
        give_back(a, HSAC_POOL_STREAM, ptr, size);
        ptr = NULL;
    }
    while (n > 0) {
        give_back(a, HSAC_POOL_STREAM, held[--n], 0);
    }
    return ptr;
}

// The driver takes buffers of the heap for each hardware context, and ROCr 7.2 ends the process
// when there is no context. So the heap is full for us when it has room for one no longer.
static bool leaves_context(struct hsac_agent * a) {
    void * held[CONTEXT_BUFFERS];
    int n = 0;
    while (n < CONTEXT_BUFFERS && (held[n] = take(a, HSAC_POOL_DEV, CONTEXT_BUFFER))) {
        n++;
    }
    bool enough = n == CONTEXT_BUFFERS;
    while (n > 0) {
        give_back(a, HSAC_POOL_DEV, held[--n], CONTEXT_BUFFER);
    }
    return enough;
}

static void * allocate_npu(struct hsac_agent * a, enum hsac_pool pool, size_t size) {
    void * ptr = pool == HSAC_POOL_STREAM ? take_stream(a, size) : take(a, pool, size);
    if (ptr && in_heap(pool) && a->h->runtime->stale_lists && !leaves_context(a)) {
        give_back(a, pool, ptr, size);
        return NULL;
    }
    return a->h->runtime->wants_guard && !in_heap(pool) ? put_below_guard(a, pool, size, ptr) : ptr;
}

static void * allocate(struct hsac_agent * a, enum hsac_pool pool, size_t size) {
    if (a->kind == HSAC_NPU) {
        return allocate_npu(a, pool, size);
    }
    void * ptr = take(a, pool, size);
    if (ptr && pool != HSAC_POOL_DATA &&
        a->h->api.hsa_amd_agents_allow_access(1, &a->handle, NULL, ptr) != HSA_STATUS_SUCCESS) {
        a->h->api.hsa_amd_memory_pool_free(ptr);
        ptr = NULL;
    }
    return ptr;
}

// ---- for callers ----

void * hsac_alloc(struct hsac_agent * a, enum hsac_pool pool, size_t size) {
    if (size == 0 || size > a->pool_size[pool] || hsac_forked(a->h)) {
        return NULL;
    }
    pthread_mutex_lock(&a->driver);
    void * ptr = allocate(a, pool, size);
    pthread_mutex_lock(&a->lock);
    if (ptr &&
        !remember(a, (struct hsac_block){.base = (uintptr_t) ptr, .size = size, .pool = pool})) {
        give_back(a, pool, ptr, size);
        ptr = NULL;
    }
    pthread_mutex_unlock(&a->lock);
    pthread_mutex_unlock(&a->driver);
    if (ptr && (pool == HSAC_POOL_DATA || pool == HSAC_POOL_HOST)) {
        hsac_host_end(a, ptr, size); // the kernel wrote zeros to it
    }
    return ptr;
}

void hsac_free(struct hsac_agent * a, void * ptr) {
    if (!ptr || hsac_forked(a->h)) {
        return;
    }
    pthread_mutex_lock(&a->driver);
    pthread_mutex_lock(&a->lock);
    size_t at = upper(a, (uintptr_t) ptr);
    bool ours = at > 0 && a->blocks[at - 1].base == (uintptr_t) ptr;
    struct hsac_block block = {0};
    if (ours) {
        block = a->blocks[at - 1];
        __atomic_fetch_sub(&a->used[block.pool], block.size, __ATOMIC_RELAXED);
        memmove(&a->blocks[at - 1], &a->blocks[at], (a->n_blocks - at) * sizeof block);
        a->n_blocks--;
    }
    pthread_mutex_unlock(&a->lock);
    hsac_agent_written(a, ptr, block.size); // whoever has it next knows nothing of what was lost
    assert(ours && "hsac_free of memory that hsac_alloc did not give");
    give_back(a, block.pool, ptr, block.size);
    pthread_mutex_unlock(&a->driver);
}

void hsac_memory_release(struct hsac_agent * a) {
    for (size_t i = 0; i < a->n_blocks; i++) {
        give_back(a, a->blocks[i].pool, (void *) a->blocks[i].base, a->blocks[i].size);
    }
    give_back(a, HSAC_POOL_DATA, (void *) a->guard, (size_t) sysconf(_SC_PAGESIZE));
    free(a->blocks);
    a->blocks = NULL;
    a->n_blocks = a->max_blocks = 0;
    a->guard = 0;
}

// ---- for the queue ----

static struct hsac_block * find(const struct hsac_agent * a, uintptr_t addr) {
    size_t at = upper(a, addr);
    struct hsac_block * block = at > 0 ? &a->blocks[at - 1] : NULL;
    return block && addr - block->base < block->size ? block : NULL;
}

bool hsac_agent_owns(struct hsac_agent * a, const void * addr, uint64_t size,
                     enum hsac_pool * pool) {
    if (hsac_forked(a->h)) {
        return false;
    }
    pthread_mutex_lock(&a->lock);
    const struct hsac_block * block = find(a, (uintptr_t) addr);
    bool owned = block && size <= block->size - ((uintptr_t) addr - block->base);
    if (owned) {
        *pool = block->pool;
    }
    pthread_mutex_unlock(&a->lock);
    return owned;
}

bool hsac_agent_is_host(struct hsac_agent * a, const void * addr) {
    enum hsac_pool pool = HSAC_POOL_DATA;
    return __atomic_load_n(&a->used[HSAC_POOL_HOST], __ATOMIC_RELAXED) &&
           hsac_agent_owns(a, addr, 1, &pool) && pool == HSAC_POOL_HOST;
}

bool hsac_agent_block(struct hsac_agent * a, const void * addr, char ** base, uint64_t * size) {
    if (hsac_forked(a->h)) {
        return false;
    }
    pthread_mutex_lock(&a->lock);
    const struct hsac_block * block = find(a, (uintptr_t) addr);
    if (block) {
        *base = (char *) block->base;
        *size = block->size;
    }
    pthread_mutex_unlock(&a->lock);
    return block != NULL;
}

bool hsac_agent_finds(struct hsac_agent * a, const void * addr) {
    if (!a->h->runtime->wants_guard || hsac_forked(a->h)) {
        return true;
    }
    pthread_mutex_lock(&a->driver);
    pthread_mutex_lock(&a->lock);
    const struct hsac_block * block = find(a, (uintptr_t) addr);
    bool found = block && (block->base == (uintptr_t) addr || block->base < a->guard);
    pthread_mutex_unlock(&a->lock);
    pthread_mutex_unlock(&a->driver);
    return found;
}

// What is granted replaces what was granted before, so that all are named each time.
enum status hsac_agent_share(struct hsac_agent * a, const void * at, struct hsac_agent * with,
                             struct error * err) {
    hsa_agent_t agents[64];
    uint32_t n = 0;
    ptrdiff_t index = with - a->h->agents;
    enum status st = ST_OK;
    if (a->h != with->h || index >= 64) {
        return error_set(err, ST_UNSUPPORTED, "%s and %s have not one runtime", a->name,
                         with->name);
    }
    pthread_mutex_lock(&a->driver);
    pthread_mutex_lock(&a->lock);
    struct hsac_block * block = find(a, (uintptr_t) at);
    uint64_t wanted = block ? block->shared | (uint64_t) 1 << index : 0;
    if (!block) {
        st = error_set(err, ST_INVALID, "%p lies in no allocation of %s", at, a->name);
    } else if (wanted != block->shared) {
        for (int i = 0; i < a->h->n_agents && i < 64; i++) {
            if (wanted >> i & 1 || &a->h->agents[i] == a) {
                agents[n++] = a->h->agents[i].handle;
            }
        }
        hsa_status_t status =
            a->h->api.hsa_amd_agents_allow_access(n, agents, NULL, (void *) block->base);
        if (status != HSA_STATUS_SUCCESS) {
            st = error_set(err, ST_UNSUPPORTED, "%s cannot reach memory of %s: %s", with->name,
                           a->name, hsac_status_text(a->h, status));
        } else {
            block->shared = wanted;
        }
    }
    pthread_mutex_unlock(&a->lock);
    pthread_mutex_unlock(&a->driver);
    return st;
}
