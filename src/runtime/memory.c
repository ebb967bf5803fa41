// memory: allocations of all pools, findable by any address inside them.
//
// Kept true: every live allocation is one range in memory.blocks, so an address that a packet, a
// DMA descriptor or a kernel names is inside one of them, inside memory of the host that was locked
// for agents, or refused. Sizes are rounded up to whole pages as the driver does, and fresh pages
// read as zero (as garbage, when the runtime is strict).
//
// The memory of a GPU is its own: its addresses are reserved on the host and nothing is behind
// them, so that a program that reads or writes there stops where it would with a real one.
#include "native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

bool rt_memory_init(struct rt_runtime * rt) {
    return pthread_rwlock_init(&rt->memory.lock, NULL) == 0;
}

enum { LARGE_PAGES = 4 << 20 }; // bytes from which on it pays

// A page behind each allocation belongs to nobody, so that a kernel that runs over the end of one
// does not land in the next.
static void * pages_map(size_t size) {
    void * p = mmap(NULL, size + RT_PAGE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED && size >= LARGE_PAGES) {
        madvise(p, size, MADV_HUGEPAGE); // a wish: the array reads from everywhere in it
    }
    return p == MAP_FAILED ? NULL : p;
}

static void pages_unmap(void * p, size_t size) {
    munmap(p, size + RT_PAGE);
}

// Addresses that nobody else gets and nobody can use. NULL: none left.
static void * reserve(size_t size) {
    void * p =
        mmap(NULL, size + RT_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

// The driver maps the heap at a multiple of its size; device addresses are offsets into it.
static uint8_t * heap_map(void) {
    const size_t size = RT_DEV_HEAP_BYTES;
    uint8_t * wide = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (wide == MAP_FAILED) {
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

// Addresses for a GPU to see locked memory at; nothing is behind them on the host. 0: none left.
static uint64_t alias_map(uint64_t base, uint64_t size) {
    uint64_t offset = base % RT_PAGE;
    void * p = reserve(offset + size);
    return p ? (uint64_t) (uintptr_t) p + offset : 0;
}

static void alias_unmap(const struct rt_lock * l) {
    if (l->alias) {
        uint64_t offset = l->base % RT_PAGE;
        pages_unmap((void *) (uintptr_t) (l->alias - offset), offset + l->size);
    }
}

// A block that is not part of a heap: its addresses, with its bytes there or, of a GPU's,
// elsewhere. 0: no memory.
static uint64_t block_map(struct rt_block * block, size_t size) {
    uint8_t * bytes = pages_map(size);
    void * place = bytes && block->agent->gpu ? reserve(size) : bytes;
    if (place != bytes) {
        block->host = bytes;
    }
    if (bytes && !place) {
        pages_unmap(bytes, size);
    }
    return (uint64_t) (uintptr_t) place;
}

static void block_unmap(const struct rt_block * block, uint64_t base, size_t size) {
    if (block->host) {
        pages_unmap(block->host, size);
    }
    pages_unmap((void *) (uintptr_t) base, size);
}

void rt_memory_release(struct rt_runtime * rt) {
    struct ranges * blocks = &rt->memory.blocks;
    for (size_t i = 0; i < blocks->count; i++) {
        struct rt_block * block = blocks->items[i].value;
        if (block->native.handle) {
            rt_native_free(block->agent->native, &block->native);
        } else if (block->kind != RT_BLOCK_MAPPED && (!block->pool || !block->pool->heap)) {
            block_unmap(block, blocks->items[i].base, blocks->items[i].size);
        }
        free(block);
    }
    ranges_free(blocks);
    rt_vmem_release(&rt->memory);
    for (size_t i = 0; i < rt->memory.n_locks; i++) {
        alias_unmap(&rt->memory.locks[i]);
    }
    free(rt->memory.locks);
    for (int i = 0; i < rt->n_agents; i++) {
        for (int k = 0; k < rt->agents[i].n_pools; k++) {
            if (rt->agents[i].pools[k].heap) {
                munmap(rt->agents[i].pools[k].heap, RT_DEV_HEAP_BYTES);
            }
        }
    }
    pthread_rwlock_destroy(&rt->memory.lock);
}

// ---- finding ----

static uint32_t agent_bit(const struct rt_agent * agent) {
    return 1u << agent->node;
}

// An agent reaches its own memory and what it was granted; the CPU reaches everything.
bool rt_memory_reaches(const struct rt_agent * agent, const struct rt_block * block) {
    return (block->agent == agent && block->kind != RT_BLOCK_MAPPED) ||
           agent->device == HSA_DEVICE_TYPE_CPU || block->access & agent_bit(agent);
}

// What was locked around addr, the part with the most behind it; NULL: nothing. Under memory.lock.
static struct rt_lock * lock_find(const struct rt_memory * m, uint64_t addr) {
    struct rt_lock * best = NULL;
    for (size_t i = 0; i < m->n_locks; i++) {
        struct rt_lock * l = &m->locks[i];
        if (addr >= l->base && addr - l->base < l->size &&
            (!best || l->base + l->size > best->base + best->size)) {
            best = l;
        }
    }
    return best;
}

static struct rt_lock * alias_find(const struct rt_memory * m, uint64_t addr) {
    for (size_t i = 0; i < m->n_locks; i++) {
        if (m->locks[i].alias && addr >= m->locks[i].alias &&
            addr - m->locks[i].alias < m->locks[i].size) {
            return &m->locks[i];
        }
    }
    return NULL;
}

bool rt_memory_has_above(struct rt_runtime * rt, const struct rt_agent * agent, uint64_t addr) {
    bool found = false;
    pthread_rwlock_rdlock(&rt->memory.lock);
    for (size_t i = rt->memory.blocks.count; i > 0 && !found; i--) {
        const struct range * r = &rt->memory.blocks.items[i - 1];
        if (r->base <= addr) {
            break;
        }
        found = ((const struct rt_block *) r->value)->agent == agent;
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    return found;
}

struct rt_lock * rt_memory_locked(const struct rt_memory * m, uint64_t addr) {
    struct rt_lock * l = lock_find(m, addr);
    return l ? l : alias_find(m, addr);
}

bool rt_memory_find(struct rt_runtime * rt, const struct rt_agent * agent, uint64_t addr,
                    struct rt_pool ** pool, uint64_t * base, uint64_t * size) {
    struct rt_pool * found_pool = NULL;
    uint64_t found_base = 0, found_size = 0;
    pthread_rwlock_rdlock(&rt->memory.lock);
    const struct range * r = ranges_find(&rt->memory.blocks, addr);
    const struct rt_lock * l = NULL;
    bool found = r && rt_memory_reaches(agent, r->value) && !((struct rt_block *) r->value)->host;
    if (found) {
        found_pool = ((struct rt_block *) r->value)->pool;
        found_base = r->base;
        found_size = r->size;
    } else if ((l = lock_find(&rt->memory, addr))) {
        found = true;
        found_base = l->base;
        found_size = l->size;
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    if (found && pool) {
        *pool = found_pool;
    }
    if (found && base) {
        *base = found_base;
    }
    if (found && size) {
        *size = found_size;
    }
    return found;
}

bool rt_memory_is_ours(struct rt_runtime * rt, uint64_t addr) {
    pthread_rwlock_rdlock(&rt->memory.lock);
    bool ours = ranges_find(&rt->memory.blocks, addr) || rt_vmem_reserved(&rt->memory, addr) ||
                alias_find(&rt->memory, addr);
    pthread_rwlock_unlock(&rt->memory.lock);
    return ours;
}

static bool is_readonly(const struct rt_agent * agent, const struct rt_block * block, uint64_t from,
                        uint64_t to) {
    if (block->no_write & agent_bit(agent)) {
        return true;
    }
    for (int i = 0; i < block->n_readonly; i++) {
        if (from < block->readonly[i].to && to > block->readonly[i].from) {
            return true;
        }
    }
    return false;
}

// Whether an agent reaches len bytes at an offset of a block, or of it and the blocks behind it
// where memory was mapped piece by piece. Under memory.lock.
static bool reaches_all(const struct rt_memory * m, const struct rt_agent * agent,
                        const struct range * r, uint64_t at, uint64_t len, bool write) {
    for (;; at = 0, r++) {
        const struct rt_block * block = r->value;
        uint64_t here = r->size - at < len ? r->size - at : len;
        if (!rt_memory_reaches(agent, block) ||
            (write && is_readonly(agent, block, at, at + here))) {
            return false;
        }
        len -= here;
        if (len == 0) {
            return true;
        }
        if (block->kind != RT_BLOCK_MAPPED || r + 1 == m->blocks.items + m->blocks.count ||
            r[1].base != r->base + r->size ||
            ((const struct rt_block *) r[1].value)->host != block->host + r->size) {
            return false;
        }
    }
}

void * rt_memory_resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    struct rt_agent * agent = user;
    struct rt_runtime * rt = agent->rt;
    bool ok = false;
    pthread_rwlock_rdlock(&rt->memory.lock);
    const struct range * r = ranges_find(&rt->memory.blocks, addr);
    const struct rt_lock * l;
    if (r && rt_memory_reaches(agent, r->value)) {
        uint64_t at = addr - r->base;
        const struct rt_block * block = r->value;
        ok = reaches_all(&rt->memory, agent, r, at, len, write);
        const uint8_t * bytes =
            block->memory && (agent->model || agent->gpu) ? block->memory : block->host;
        addr = ok && bytes ? (uint64_t) (uintptr_t) (bytes + at) : addr;
    } else if ((l = lock_find(&rt->memory, addr))) {
        ok = len <= l->size - (addr - l->base);
    } else if ((l = alias_find(&rt->memory, addr))) {
        ok = len <= l->size - (addr - l->alias);
        addr = l->base + (addr - l->alias);
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    // Kernels report to the host through signals.
    if (!ok && agent->gpu) {
        ok = rt_signal_covers(rt, addr, len);
    }
    return ok ? (void *) (uintptr_t) addr : NULL;
}

// ---- allocating ----

void * rt_memory_map(struct rt_agent * agent, enum rt_block_kind kind, size_t size,
                     struct rt_block ** out) {
    struct rt_memory * m = &agent->rt->memory;
    size = (size + RT_PAGE - 1) / RT_PAGE * RT_PAGE;
    struct rt_block * block = calloc(1, sizeof *block);
    void * p = block ? pages_map(size) : NULL;
    if (!p) {
        free(block);
        return NULL;
    }
    block->kind = kind;
    block->agent = agent;
    pthread_rwlock_wrlock(&m->lock);
    bool ok = ranges_add(&m->blocks, (uint64_t) (uintptr_t) p, size, block);
    pthread_rwlock_unlock(&m->lock);
    if (!ok) {
        pages_unmap(p, size);
        free(block);
        return NULL;
    }
    *out = block;
    return p;
}

void rt_memory_unmap(struct rt_runtime * rt, void * ptr) {
    uint64_t base = (uint64_t) (uintptr_t) ptr;
    pthread_rwlock_wrlock(&rt->memory.lock);
    struct range * r = ranges_find(&rt->memory.blocks, base);
    if (r && r->base == base) {
        pages_unmap(ptr, r->size);
        free(r->value);
        ranges_remove(&rt->memory.blocks, base);
    }
    pthread_rwlock_unlock(&rt->memory.lock);
}

// ROCr's lists of a NPU's buffers have no lock: who changes them while packets are read, in
// another thread, may end the process.
static bool meets_reader(const struct rt_runtime * rt, const struct rt_agent * agent) {
    if (!rt->rocr_bugs || !__atomic_load_n(&agent->ringing, __ATOMIC_ACQUIRE)) {
        return false;
    }
    rt_say("%s: memory is allocated or freed while another thread's packets are read; ROCr has no "
           "lock there and may end the process",
           agent->name);
    return true;
}

// Under memory.lock.
static hsa_status_t pool_allocate(struct rt_runtime * rt, struct rt_pool * pool, size_t size,
                                  void ** out) {
    struct rt_block * block = calloc(1, sizeof *block);
    if (!block) {
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    block->kind = RT_BLOCK_POOL;
    block->pool = pool;
    block->agent = pool->agent;
    uint64_t base;
    if (pool->agent->native) {
        base =
            rt_native_allocate(pool->agent->native, pool->rec_granule == 0, size, &block->native);
    } else if (pool->rec_granule == 0) {
        if (!pool->heap) {
            pool->heap = heap_map();
        }
        uint64_t lo = (uint64_t) (uintptr_t) pool->heap;
        base = lo ? ranges_gap(&rt->memory.blocks, lo, lo + pool->size, size, RT_PAGE) : 0;
    } else {
        base = block_map(block, size);
    }
    if (!base || !ranges_add(&rt->memory.blocks, base, size, block)) {
        if (base && block->native.handle) {
            rt_native_free(pool->agent->native, &block->native);
        } else if (base && pool->rec_granule) {
            block_unmap(block, base, size);
        }
        free(block);
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    if (rt->strict && !pool->agent->native) { // enough of it to be noticed, and not so much that
                                              // the host gets into trouble
        memset(block->host ? block->host : (uint8_t *) (uintptr_t) base, RT_GARBAGE,
               size < RT_GARBAGE_MAX ? size : RT_GARBAGE_MAX);
    }
    if (!rt_caches_add(block, (void *) (uintptr_t) base, size)) {
        ranges_remove(&rt->memory.blocks, base);
        if (pool->rec_granule) {
            block_unmap(block, base, size);
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
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    struct rt_pool * pool = rt_pool_find(handle);
    if (!pool) {
        return RT_STATUS_INVALID_POOL;
    }
    if (size == 0 || !out || flags & ~known_flags) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    if (size > pool->size || pool->segment != HSA_AMD_SEGMENT_GLOBAL) {
        return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    }
    if (meets_reader(rt, pool->agent)) {
        return HSA_STATUS_ERROR;
    }
    size = (size + RT_PAGE - 1) / RT_PAGE * RT_PAGE;
    hsa_status_t status = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    pthread_rwlock_wrlock(&rt->memory.lock);
    if (size <= pool->size - pool->used) {
        status = pool_allocate(rt, pool, size, out);
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    return status;
}

// A PDI that a context of the kernel's driver knows; its lock comes before that of memory.
static void forget_native(struct rt_runtime * rt, const void * ptr) {
    for (int i = 0; i < rt->n_agents; i++) {
        struct rt_agent * agent = &rt->agents[i];
        if (agent->native) {
            pthread_mutex_lock(&agent->lock);
            rt_native_forget(agent->native, ptr);
            pthread_mutex_unlock(&agent->lock);
        }
    }
}

hsa_status_t hsa_amd_memory_pool_free(void * ptr) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!ptr) {
        return HSA_STATUS_SUCCESS;
    }
    hsa_status_t status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
    uint64_t base = (uint64_t) (uintptr_t) ptr;
    forget_native(rt, ptr);
    pthread_rwlock_wrlock(&rt->memory.lock);
    struct range * r = ranges_find(&rt->memory.blocks, base);
    struct rt_block * block = r ? r->value : NULL;
    if (r && r->base == base && block->kind == RT_BLOCK_POOL && meets_reader(rt, block->agent)) {
        status = HSA_STATUS_ERROR;
    } else if (r && r->base == base && block->kind == RT_BLOCK_POOL) {
        block->pool->used -= r->size;
        rt_caches_remove(block, ptr);
        // A heap block that is handed out again must read as zero. Its pages may be shared with a
        // neighbour where the host's are larger than ours, so they are not given back.
        if (block->native.handle) {
            rt_native_free(block->agent->native, &block->native);
        } else if (block->pool->heap) {
            memset(ptr, 0, r->size);
        } else {
            block_unmap(block, base, r->size);
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
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (n == 0 || !agents || flags || !ptr) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    uint32_t granted = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct rt_agent * agent = rt_agent_find(agents[i]);
        if (!agent) {
            return HSA_STATUS_ERROR_INVALID_AGENT;
        }
        granted |= agent_bit(agent);
    }
    hsa_status_t status = HSA_STATUS_SUCCESS;
    pthread_rwlock_wrlock(&rt->memory.lock);
    const struct range * r = ranges_find(&rt->memory.blocks, (uint64_t) (uintptr_t) ptr);
    struct rt_block * block = r ? r->value : NULL;
    if (!block) {
        // Locked memory is open to all already.
        if (!lock_find(&rt->memory, (uint64_t) (uintptr_t) ptr) &&
            !alias_find(&rt->memory, (uint64_t) (uintptr_t) ptr)) {
            status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
        }
    } else {
        for (int i = 0; i < rt->n_agents; i++) {
            // Nothing makes another agent's memory reachable for a NPU, or a NPU's for a GPU.
            const struct rt_agent * agent = &rt->agents[i];
            if (granted & agent_bit(agent) && !rt_memory_reaches(agent, block) &&
                (agent->model || block->agent->model)) {
                status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
            }
        }
        if (status == HSA_STATUS_SUCCESS) {
            // It replaces what was granted before, but not what was granted piece by piece.
            block->no_write &= ~granted;
            block->access = granted | (block->kind == RT_BLOCK_MAPPED ? block->access : 0);
        }
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    return status;
}

// ---- memory of the host ----

// Under memory.lock. NULL: no memory.
static struct rt_lock * lock_add(struct rt_memory * m, uint64_t base, uint64_t size,
                                 bool elsewhere) {
    for (size_t i = 0; i < m->n_locks; i++) {
        struct rt_lock * l = &m->locks[i];
        if (l->base == base && l->size == size && !l->alias == !elsewhere) {
            l->count++;
            return l;
        }
    }
    if (m->n_locks == m->locks_capacity) {
        size_t capacity = m->locks_capacity ? 2 * m->locks_capacity : 16;
        struct rt_lock * locks = realloc(m->locks, capacity * sizeof *locks);
        if (!locks) {
            return NULL;
        }
        m->locks = locks;
        m->locks_capacity = capacity;
    }
    struct rt_lock l = {.base = base, .size = size, .count = 1};
    if (elsewhere && !(l.alias = alias_map(base, size))) {
        return NULL;
    }
    m->locks[m->n_locks] = l;
    return &m->locks[m->n_locks++];
}

// elsewhere: GPUs get another address for it. HIP 5.2 counts on that: it forgets to unlock, or
// stops, when the two are the same.
static hsa_status_t lock_host(struct rt_runtime * rt, void * host, size_t size, bool elsewhere,
                              void ** agent_ptr) {
    uint64_t base = (uint64_t) (uintptr_t) host;
    if (!host || size == 0 || base > UINT64_MAX - size || size > UINT64_MAX / 2) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    if (!rt_host_has(base, size)) { // nothing that a driver could pin
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    pthread_rwlock_wrlock(&rt->memory.lock);
    const struct rt_lock * l = lock_add(&rt->memory, base, size, elsewhere);
    if (l) {
        *agent_ptr = (void *) (uintptr_t) (l->alias ? l->alias : l->base);
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    return l ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
}

// The last lock that starts here, of this size unless it is 0.
static hsa_status_t unlock_host(struct rt_runtime * rt, void * host, size_t size) {
    struct rt_memory * m = &rt->memory;
    hsa_status_t status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
    pthread_rwlock_wrlock(&m->lock);
    for (size_t i = m->n_locks; i-- > 0;) {
        struct rt_lock * l = &m->locks[i];
        if (l->base == (uint64_t) (uintptr_t) host && (size == 0 || l->size == size)) {
            if (--l->count == 0) {
                alias_unmap(l);
                *l = m->locks[--m->n_locks];
            }
            status = HSA_STATUS_SUCCESS;
            break;
        }
    }
    pthread_rwlock_unlock(&m->lock);
    return status;
}

hsa_status_t hsa_amd_memory_lock(void * host, size_t size, hsa_agent_t * agents, int n,
                                 void ** agent_ptr) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!agent_ptr || (agents != NULL) != (n != 0) || n < 0) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    bool gpu = false;
    for (int i = 0; i < n; i++) {
        const struct rt_agent * agent = rt_agent_find(agents[i]);
        if (!agent) {
            return HSA_STATUS_ERROR_INVALID_AGENT;
        }
        gpu = gpu || agent->gpu;
    }
    for (int i = 0; !agents && i < rt->n_agents; i++) { // for all of them
        gpu = gpu || rt->agents[i].gpu;
    }
    return lock_host(rt, host, size, gpu, agent_ptr);
}

hsa_status_t hsa_amd_memory_lock_to_pool(void * host, size_t size, hsa_agent_t * agents, int n,
                                         hsa_amd_memory_pool_t handle, uint32_t flags,
                                         void ** agent_ptr) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    const struct rt_pool * pool = rt_pool_find(handle);
    if (!pool || pool->agent->device != HSA_DEVICE_TYPE_CPU) {
        return RT_STATUS_INVALID_POOL;
    }
    return flags ? HSA_STATUS_ERROR_INVALID_ARGUMENT
                 : hsa_amd_memory_lock(host, size, agents, n, agent_ptr);
}

hsa_status_t hsa_amd_memory_unlock(void * host) {
    struct rt_runtime * rt = rt_runtime();
    return rt ? unlock_host(rt, host, 0) : HSA_STATUS_ERROR_NOT_INITIALIZED;
}

hsa_status_t hsa_memory_register(void * host, size_t size) {
    struct rt_runtime * rt = rt_runtime();
    void * same;
    return rt ? lock_host(rt, host, size, false, &same) : HSA_STATUS_ERROR_NOT_INITIALIZED;
}

hsa_status_t hsa_memory_deregister(void * host, size_t size) {
    struct rt_runtime * rt = rt_runtime();
    return rt ? unlock_host(rt, host, size) : HSA_STATUS_ERROR_NOT_INITIALIZED;
}
