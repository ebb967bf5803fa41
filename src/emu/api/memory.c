// memory: allocations of all pools, findable by any address inside them.
//
// Kept true: every live allocation is one range in memory.blocks, so an address that a packet or a
// DMA descriptor names is either inside one of them or refused. Sizes are rounded up to whole pages
// as the driver does, and fresh pages read as zero.
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

bool emu_memory_init(struct emu_runtime * rt) {
    return pthread_rwlock_init(&rt->memory.lock, NULL) == 0;
}

static void * pages_map(size_t size) {
    void * p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

// The driver maps the heap at a multiple of its size; device addresses are offsets into it.
static uint8_t * heap_map(void) {
    const size_t size = EMU_DEV_HEAP_BYTES;
    uint8_t * wide = pages_map(2 * size);
    if (!wide) {
        return NULL;
    }
    uint8_t * heap = wide + (size - (uintptr_t) wide % size) % size;
    if (heap > wide) {
        munmap(wide, (size_t) (heap - wide));
    }
    if (heap + size < wide + 2 * size) {
        munmap(heap + size, (size_t) (wide + 2 * size - (heap + size)));
    }
    return heap;
}

void emu_memory_release(struct emu_runtime * rt) {
    struct ranges * blocks = &rt->memory.blocks;
    for (size_t i = 0; i < blocks->count; i++) {
        struct emu_block * block = blocks->items[i].value;
        if (block->pool && !block->pool->heap) {
            munmap((void *) (uintptr_t) blocks->items[i].base, blocks->items[i].size);
        }
        free(block);
    }
    ranges_free(blocks);
    for (int i = 0; i < rt->n_agents; i++) {
        for (int k = 0; k < rt->agents[i].n_pools; k++) {
            if (rt->agents[i].pools[k].heap) {
                munmap(rt->agents[i].pools[k].heap, EMU_DEV_HEAP_BYTES);
            }
        }
    }
    pthread_rwlock_destroy(&rt->memory.lock);
}

// The NPU reaches its own pools and what was locked for agents; the CPU reaches everything.
static bool reaches(const struct emu_agent * agent, const struct emu_block * block) {
    return !block->pool || block->pool->agent == agent || agent->device == HSA_DEVICE_TYPE_CPU;
}

bool emu_memory_find(struct emu_runtime * rt, const struct emu_agent * agent, uint64_t addr,
                     struct emu_pool ** pool, uint64_t * base, uint64_t * size) {
    pthread_rwlock_rdlock(&rt->memory.lock);
    const struct range * r = ranges_find(&rt->memory.blocks, addr);
    bool found = r && reaches(agent, r->value);
    if (found) {
        if (pool) {
            *pool = ((struct emu_block *) r->value)->pool;
        }
        if (base) {
            *base = r->base;
        }
        if (size) {
            *size = r->size;
        }
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    return found;
}

void * emu_memory_resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    (void) write; // every pool is readable and writable
    uint64_t base, size;
    struct emu_runtime * rt = emu_runtime();
    if (!rt || !emu_memory_find(rt, user, addr, NULL, &base, &size)) {
        return NULL;
    }
    return len <= size - (addr - base) ? (void *) (uintptr_t) addr : NULL;
}

// Under memory.lock.
static hsa_status_t pool_allocate(struct emu_runtime * rt, struct emu_pool * pool, size_t size,
                                  void ** out) {
    struct emu_block * block = calloc(1, sizeof *block);
    if (!block) {
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    block->pool = pool;
    uint64_t base;
    if (pool->rec_granule == 0) {
        if (!pool->heap) {
            pool->heap = heap_map();
        }
        uint64_t lo = (uint64_t) (uintptr_t) pool->heap;
        base = lo ? ranges_gap(&rt->memory.blocks, lo, lo + pool->size, size, EMU_PAGE) : 0;
    } else {
        base = (uint64_t) (uintptr_t) pages_map(size);
    }
    if (!base || !ranges_add(&rt->memory.blocks, base, size, block)) {
        if (base && pool->rec_granule) {
            munmap((void *) (uintptr_t) base, size);
        }
        free(block);
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    pool->used += size;
    *out = (void *) (uintptr_t) base;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t handle, size_t size, uint32_t flags,
                                          void ** out) {
    const uint32_t known_flags = 7; // PCIe ordering, contiguous, executable: all true of host pages
    struct emu_runtime * rt = emu_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    struct emu_pool * pool = emu_pool_find(handle);
    if (!pool) {
        return EMU_STATUS_INVALID_POOL;
    }
    if (size == 0 || !out || flags & ~known_flags) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    if (size > pool->size) {
        return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    }
    size = (size + EMU_PAGE - 1) / EMU_PAGE * EMU_PAGE;
    hsa_status_t status = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    pthread_rwlock_wrlock(&rt->memory.lock);
    if (size <= pool->size - pool->used) {
        status = pool_allocate(rt, pool, size, out);
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    return status;
}

hsa_status_t hsa_amd_memory_pool_free(void * ptr) {
    struct emu_runtime * rt = emu_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!ptr) {
        return HSA_STATUS_SUCCESS;
    }
    hsa_status_t status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
    uint64_t base = (uint64_t) (uintptr_t) ptr;
    pthread_rwlock_wrlock(&rt->memory.lock);
    struct range * r = ranges_find(&rt->memory.blocks, base);
    struct emu_block * block = r ? r->value : NULL;
    if (r && r->base == base && block->pool) {
        block->pool->used -= r->size;
        // A heap block that is handed out again must read as zero. Its pages may be shared with a
        // neighbour where the host's are larger than ours, so they are not given back.
        if (block->pool->heap) {
            memset(ptr, 0, r->size);
        } else {
            munmap(ptr, r->size);
        }
        ranges_remove(&rt->memory.blocks, base);
        free(block);
        status = HSA_STATUS_SUCCESS;
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    return status;
}

hsa_status_t hsa_amd_agents_allow_access(uint32_t n, const hsa_agent_t * agents,
                                         const uint32_t * flags, const void * ptr) {
    struct emu_runtime * rt = emu_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (n == 0 || !agents || flags || !ptr) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct emu_agent * agent = emu_agent_find(agents[i]);
        if (!agent) {
            return HSA_STATUS_ERROR_INVALID_AGENT;
        }
        // Nothing makes another agent's memory reachable for an NPU, so there is nothing to grant.
        if (!emu_memory_find(rt, agent, (uint64_t) (uintptr_t) ptr, NULL, NULL, NULL)) {
            return HSA_STATUS_ERROR_INVALID_ALLOCATION;
        }
    }
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_lock(void * host, size_t size, hsa_agent_t * agents, int n,
                                 void ** agent_ptr) {
    struct emu_runtime * rt = emu_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!host || size == 0 || !agent_ptr || (agents != NULL) != (n != 0) || n < 0) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    for (int i = 0; i < n; i++) {
        if (!emu_agent_find(agents[i])) {
            return HSA_STATUS_ERROR_INVALID_AGENT;
        }
    }
    uint64_t base = (uint64_t) (uintptr_t) host;
    struct emu_block * block = calloc(1, sizeof *block);
    bool ok = false;
    pthread_rwlock_wrlock(&rt->memory.lock);
    const struct range * r = ranges_find(&rt->memory.blocks, base);
    struct emu_block * there = r ? r->value : NULL;
    if (r && r->base == base && r->size == size && !there->pool) {
        there->locks++;
        ok = true;
    } else if (block && ranges_add(&rt->memory.blocks, base, size, block)) {
        block->locks = 1;
        block = NULL;
        ok = true;
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    free(block);
    if (ok) {
        *agent_ptr = host;
    }
    return ok ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
}

hsa_status_t hsa_amd_memory_unlock(void * host) {
    struct emu_runtime * rt = emu_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    uint64_t base = (uint64_t) (uintptr_t) host;
    hsa_status_t status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
    pthread_rwlock_wrlock(&rt->memory.lock);
    const struct range * r = ranges_find(&rt->memory.blocks, base);
    struct emu_block * block = r ? r->value : NULL;
    if (r && r->base == base && !block->pool) {
        if (--block->locks == 0) {
            ranges_remove(&rt->memory.blocks, base);
            free(block);
        }
        status = HSA_STATUS_SUCCESS;
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    return status;
}

// Copies and fills touch host-visible memory only, so they are plain memory operations.

hsa_status_t hsa_memory_copy(void * to, const void * from, size_t size) {
    if (!emu_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!to || !from) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    memmove(to, from, size);
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_fill(void * ptr, uint32_t value, size_t count) {
    struct emu_runtime * rt = emu_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    uint64_t addr = (uint64_t) (uintptr_t) ptr, base, size;
    if (!ptr || addr % sizeof value || count > SIZE_MAX / sizeof value) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    if (!emu_memory_find(rt, &rt->agents[0], addr, NULL, &base, &size) ||
        count * sizeof value > size - (addr - base)) {
        return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    }
    for (size_t i = 0; i < count; i++) {
        ((uint32_t *) ptr)[i] = value;
    }
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_pointer_info(const void * ptr, hsa_amd_pointer_info_t * info,
                                  void * (*alloc)(size_t), uint32_t * n_accessible,
                                  hsa_agent_t ** accessible) {
    struct emu_runtime * rt = emu_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!ptr || !info || info->size < sizeof(uint32_t)) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    hsa_amd_pointer_info_t full = {.size = sizeof full, .type = HSA_EXT_POINTER_TYPE_UNKNOWN};
    struct emu_agent * owner = NULL;
    pthread_rwlock_rdlock(&rt->memory.lock);
    const struct range * r = ranges_find(&rt->memory.blocks, (uint64_t) (uintptr_t) ptr);
    if (r) {
        const struct emu_block * block = r->value;
        owner = block->pool ? block->pool->agent : &rt->agents[0];
        full.type = block->pool ? HSA_EXT_POINTER_TYPE_HSA : HSA_EXT_POINTER_TYPE_LOCKED;
        full.agentBaseAddress = full.hostBaseAddress = (void *) (uintptr_t) r->base;
        full.sizeInBytes = r->size;
        full.userData = block->user_data;
        full.agentOwner.handle = (uint64_t) (uintptr_t) owner;
        full.global_flags = block->pool ? block->pool->flags : 0;
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    if (info->size < full.size) {
        full.size = info->size;
    }
    memcpy(info, &full, full.size);
    if (alloc && n_accessible && accessible) {
        *n_accessible = 0;
        *accessible = owner ? alloc(2 * sizeof **accessible) : NULL;
        if (*accessible) {
            (*accessible)[(*n_accessible)++].handle = (uint64_t) (uintptr_t) &rt->agents[0];
            if (owner != &rt->agents[0]) {
                (*accessible)[(*n_accessible)++].handle = (uint64_t) (uintptr_t) owner;
            }
        } else if (owner) {
            return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
        }
    }
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_pointer_info_set_userdata(const void * ptr, void * user_data) {
    struct emu_runtime * rt = emu_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    pthread_rwlock_wrlock(&rt->memory.lock);
    const struct range * r = ranges_find(&rt->memory.blocks, (uint64_t) (uintptr_t) ptr);
    if (r) {
        ((struct emu_block *) r->value)->user_data = user_data;
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    return r ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}
