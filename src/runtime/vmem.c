// vmem: virtual memory by hand, as HIP's pools of memory use it: addresses are reserved, memory is
// made without addresses, one is mapped to the other, and agents are granted it.
//
// A handle's memory is a file without a name, so that it can be mapped more than once. Behind every
// reservation lies a second one of the same size, its shadow, where the files are mapped: a program
// that uses GPU memory on the host stops, as it does with other memory of a GPU, and pieces that
// were mapped side by side are one piece for a copy. Memory belongs to GPUs alone, as in ROCr 7.2,
// and the host is not granted it: these GPUs have no large BAR.
//
// Kept true: what is mapped is a block in memory.blocks, inside one reservation; a handle lives as
// long as somebody holds it or it is mapped. All of it is under memory.lock.
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE // memfd_create
#endif
#include "runtime.h"

#include "base/quiet.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// What the 5.2 header does not name yet.
enum { ADDRESS_NO_REGISTER = 1 };                       // plain memory of the host
enum { TYPE_NONE, TYPE_PINNED };                        // hsa_amd_memory_type_t
enum { MAY_NOT = 0, MAY_READ = 1, MAY_READ_WRITE = 3 }; // hsa_access_permission_t

struct access_desc { // hsa_amd_memory_access_desc_t
    uint32_t permissions;
    hsa_agent_t agent;
};
_Static_assert(sizeof(struct access_desc) == 16, "ABI");

typedef struct {
    uint64_t handle;
} handle_t; // hsa_amd_vmem_alloc_handle_t

struct reservation {
    void * map; // with what alignment needs
    size_t map_size;
    uint8_t * shadow; // NULL: plain memory of the host
};

struct rt_handle {
    struct rt_handle * next;
    struct rt_pool * pool;
    int fd;
    uint64_t size;
    uint32_t type;
    uint32_t holders, maps;
};

bool rt_vmem_reserved(const struct rt_memory * m, uint64_t addr) {
    const struct range * r = ranges_find(&m->reserved, addr);
    return r && ((const struct reservation *) r->value)->shadow;
}

bool rt_vmem_supported(const struct rt_runtime * rt) {
    for (int i = 0; i < rt->n_agents; i++) {
        if (rt->agents[i].gpu) {
            return true;
        }
    }
    return false;
}

// ---- addresses ----

static void reservation_free(struct reservation * r, uint64_t size) {
    munmap(r->map, r->map_size);
    if (r->shadow) {
        munmap(r->shadow, size);
    }
    free(r);
}

static void * map_nothing(uint64_t address, size_t size, int protection) {
    void * p = mmap((void *) (uintptr_t) address, size, protection,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

// At an address that is asked for, or at another one.
static hsa_status_t address_reserve(struct rt_runtime * rt, void ** out, size_t size,
                                    uint64_t address, uint64_t alignment, uint64_t flags) {
    bool plain = flags & ADDRESS_NO_REGISTER;
    alignment = alignment > RT_PAGE ? alignment : RT_PAGE;
    if (!out || size == 0 || size % RT_PAGE || alignment & (alignment - 1) ||
        !(plain || rt_vmem_supported(rt)) || size > SIZE_MAX / 4 || alignment > SIZE_MAX / 4) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    struct reservation * r = calloc(1, sizeof *r);
    if (!r) {
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    r->map_size = size + alignment - RT_PAGE;
    r->map = map_nothing(address, r->map_size, plain ? PROT_READ | PROT_WRITE : PROT_NONE);
    r->shadow = plain || !r->map ? NULL : map_nothing(0, size, PROT_NONE);
    uint64_t base = ((uint64_t) (uintptr_t) r->map + alignment - 1) / alignment * alignment;
    pthread_rwlock_wrlock(&rt->memory.lock);
    bool ok = r->map && (plain || r->shadow) && ranges_add(&rt->memory.reserved, base, size, r);
    pthread_rwlock_unlock(&rt->memory.lock);
    if (!ok) {
        if (r->map) {
            reservation_free(r, size);
        } else {
            free(r);
        }
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    *out = (void *) (uintptr_t) base;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t emu_vmem_address_reserve_align(void ** out, size_t size, uint64_t address,
                                            uint64_t alignment, uint64_t flags)
    RT_NEWER(hsa_amd_vmem_address_reserve_align);
hsa_status_t emu_vmem_address_reserve_align(void ** out, size_t size, uint64_t address,
                                            uint64_t alignment, uint64_t flags) {
    struct rt_runtime * rt = rt_runtime();
    return rt ? address_reserve(rt, out, size, address, alignment, flags)
              : HSA_STATUS_ERROR_NOT_INITIALIZED;
}

hsa_status_t emu_vmem_address_reserve(void ** out, size_t size, uint64_t address, uint64_t flags)
    RT_NEWER(hsa_amd_vmem_address_reserve);
hsa_status_t emu_vmem_address_reserve(void ** out, size_t size, uint64_t address, uint64_t flags) {
    return emu_vmem_address_reserve_align(out, size, address, 0, flags);
}

static bool overlaps_block(const struct rt_memory * m, uint64_t base, uint64_t size) {
    return ranges_gap(&m->blocks, base, base + size, size, 1) != base;
}

hsa_status_t emu_vmem_address_free(void * va, size_t size) RT_NEWER(hsa_amd_vmem_address_free);
hsa_status_t emu_vmem_address_free(void * va, size_t size) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    uint64_t base = (uint64_t) (uintptr_t) va;
    hsa_status_t status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
    pthread_rwlock_wrlock(&rt->memory.lock);
    const struct range * r = ranges_find(&rt->memory.reserved, base);
    if (r && r->base == base) {
        status = size != r->size                           ? HSA_STATUS_ERROR_INVALID_ARGUMENT
                 : overlaps_block(&rt->memory, base, size) ? HSA_STATUS_ERROR_RESOURCE_FREE
                                                           : HSA_STATUS_SUCCESS;
    }
    if (status == HSA_STATUS_SUCCESS) {
        reservation_free(r->value, size);
        ranges_remove(&rt->memory.reserved, base);
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    return status;
}

// ---- memory ----

static struct rt_handle ** handle_find(struct rt_memory * m, handle_t handle) {
    struct rt_handle ** link = &m->handles;
    while (*link && (uint64_t) (uintptr_t) *link != handle.handle) {
        link = &(*link)->next;
    }
    return *link ? link : NULL;
}

// Under memory.lock, when nobody may need it any more.
static void handle_drop(struct rt_memory * m, struct rt_handle * h) {
    if (h->holders || h->maps) {
        return;
    }
    *handle_find(m, (handle_t){(uint64_t) (uintptr_t) h}) = h->next;
    h->pool->used -= h->size;
    close(h->fd);
    free(h);
}

// A file of this size, in a strict runtime with garbage in it; -1: no memory.
static int file_new(size_t size, bool strict) {
    int fd = memfd_create("hsa-npu", MFD_CLOEXEC);
    struct quiet quiet; // a limit on the size of files counts here too
    quiet_begin(&quiet);
    bool ok = fd >= 0 && ftruncate(fd, (off_t) size) == 0;
    quiet_end(&quiet);
    if (!ok) {
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    size_t garbage = size < RT_GARBAGE_MAX ? size : RT_GARBAGE_MAX;
    void * p = strict ? mmap(NULL, garbage, PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (p != MAP_FAILED) {
        memset(p, RT_GARBAGE, garbage);
        munmap(p, garbage);
    }
    return fd;
}

hsa_status_t emu_vmem_handle_create(hsa_amd_memory_pool_t pool_handle, size_t size, uint32_t type,
                                    uint64_t flags, handle_t * out)
    RT_NEWER(hsa_amd_vmem_handle_create);
hsa_status_t emu_vmem_handle_create(hsa_amd_memory_pool_t pool_handle, size_t size, uint32_t type,
                                    uint64_t flags, handle_t * out) {
    (void) flags; // none is known
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    struct rt_pool * pool = rt_pool_find(pool_handle);
    if (!pool || !out || size == 0 || size % RT_PAGE || type > TYPE_PINNED ||
        !rt_vmem_supported(rt)) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    if (pool->segment != HSA_AMD_SEGMENT_GLOBAL || size > pool->size) {
        return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    }
    struct rt_handle * h = calloc(1, sizeof *h);
    int fd = h ? file_new(size, rt->strict) : -1;
    bool ok = false;
    if (fd >= 0) {
        *h = (struct rt_handle){.pool = pool, .fd = fd, .size = size, .type = type, .holders = 1};
        pthread_rwlock_wrlock(&rt->memory.lock);
        ok = size <= pool->size - pool->used;
        if (ok) {
            pool->used += size;
            h->next = rt->memory.handles;
            rt->memory.handles = h;
        }
        pthread_rwlock_unlock(&rt->memory.lock);
    }
    if (!ok) {
        if (fd >= 0) {
            close(fd);
        }
        free(h);
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    out->handle = (uint64_t) (uintptr_t) h;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t emu_vmem_handle_release(handle_t handle) RT_NEWER(hsa_amd_vmem_handle_release);
hsa_status_t emu_vmem_handle_release(handle_t handle) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    hsa_status_t status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
    pthread_rwlock_wrlock(&rt->memory.lock);
    struct rt_handle ** h = handle_find(&rt->memory, handle);
    if (h && (*h)->holders) {
        (*h)->holders--;
        handle_drop(&rt->memory, *h);
        status = HSA_STATUS_SUCCESS;
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    return status;
}

hsa_status_t emu_vmem_retain(handle_t * out, void * address)
    RT_NEWER(hsa_amd_vmem_retain_alloc_handle);
hsa_status_t emu_vmem_retain(handle_t * out, void * address) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!out || !address) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    pthread_rwlock_wrlock(&rt->memory.lock);
    const struct range * r = ranges_find(&rt->memory.blocks, (uint64_t) (uintptr_t) address);
    struct rt_handle * h = r ? ((struct rt_block *) r->value)->handle : NULL;
    if (h) {
        h->holders++;
        out->handle = (uint64_t) (uintptr_t) h;
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    return h ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ALLOCATION;
}

hsa_status_t emu_vmem_properties(handle_t handle, hsa_amd_memory_pool_t * pool, uint32_t * type)
    RT_NEWER(hsa_amd_vmem_get_alloc_properties_from_handle);
hsa_status_t emu_vmem_properties(handle_t handle, hsa_amd_memory_pool_t * pool, uint32_t * type) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!pool || !type) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    pthread_rwlock_rdlock(&rt->memory.lock);
    struct rt_handle ** h = handle_find(&rt->memory, handle);
    if (h) {
        pool->handle = (uint64_t) (uintptr_t) (*h)->pool;
        *type = (*h)->type;
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    return h ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ALLOCATION;
}

// ---- one behind the other ----

// The reservation that holds all of these addresses, with its base; NULL: none does.
static struct reservation * reservation_of(const struct rt_memory * m, uint64_t base, uint64_t size,
                                           uint64_t * start) {
    const struct range * r = ranges_find(&m->reserved, base);
    if (!r || size > r->size - (base - r->base)) {
        return NULL;
    }
    *start = r->base;
    return r->value;
}

// Under memory.lock.
static hsa_status_t map(struct rt_memory * m, uint64_t base, size_t size, size_t offset,
                        struct rt_handle * h) {
    uint64_t start;
    const struct reservation * r = reservation_of(m, base, size, &start);
    if (!r || !r->shadow || offset > h->size || size > h->size - offset) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    if (!h->pool->agent->gpu) {
        return HSA_STATUS_ERROR_INVALID_AGENT;
    }
    struct rt_block * block = calloc(1, sizeof *block);
    if (!block) {
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    *block = (struct rt_block){.kind = RT_BLOCK_MAPPED,
                               .pool = h->pool,
                               .agent = h->pool->agent,
                               .host = r->shadow + (base - start),
                               .handle = h};
    hsa_status_t status = ranges_add(&m->blocks, base, size, block)
                              ? HSA_STATUS_SUCCESS
                              : HSA_STATUS_ERROR_INVALID_ARGUMENT; // something is mapped there
    if (status == HSA_STATUS_SUCCESS &&
        mmap(block->host, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, h->fd,
             (off_t) offset) == MAP_FAILED) {
        ranges_remove(&m->blocks, base);
        status = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    if (status == HSA_STATUS_SUCCESS) {
        h->maps++;
    } else {
        free(block);
    }
    return status;
}

hsa_status_t emu_vmem_map(void * va, size_t size, size_t offset, handle_t handle, uint64_t flags)
    RT_NEWER(hsa_amd_vmem_map);
hsa_status_t emu_vmem_map(void * va, size_t size, size_t offset, handle_t handle, uint64_t flags) {
    (void) flags; // none is known
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    uint64_t base = (uint64_t) (uintptr_t) va;
    if (size == 0 || (base | size | offset) % RT_PAGE) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    pthread_rwlock_wrlock(&rt->memory.lock);
    struct rt_handle ** h = handle_find(&rt->memory, handle);
    hsa_status_t status = h && (*h)->holders ? map(&rt->memory, base, size, offset, *h)
                                             : HSA_STATUS_ERROR_INVALID_ARGUMENT;
    pthread_rwlock_unlock(&rt->memory.lock);
    return status;
}

// Whether mapped blocks, whole ones, lie side by side from base on; *n of them up to base + size.
static bool tiled(const struct rt_memory * m, uint64_t base, uint64_t size, bool exactly,
                  size_t * n) {
    uint64_t end = base + size;
    for (*n = 0; base < end; (*n)++) {
        const struct range * r = ranges_find(&m->blocks, base);
        if (!r || r->base != base || !((struct rt_block *) r->value)->handle) {
            return false;
        }
        base += r->size;
    }
    return !exactly || base == end;
}

hsa_status_t emu_vmem_unmap(void * va, size_t size) RT_NEWER(hsa_amd_vmem_unmap);
hsa_status_t emu_vmem_unmap(void * va, size_t size) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    struct rt_memory * m = &rt->memory;
    uint64_t base = (uint64_t) (uintptr_t) va;
    if (size == 0 || base > UINT64_MAX - size) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    size_t n;
    pthread_rwlock_wrlock(&m->lock);
    bool ok = tiled(m, base, size, true, &n);
    for (; ok && n > 0; n--) {
        const struct range r = *ranges_find(&m->blocks, base);
        struct rt_block * block = r.value;
        // The addresses stay reserved, with nothing behind them.
        mmap(block->host, r.size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        block->handle->maps--;
        handle_drop(m, block->handle);
        ranges_remove(&m->blocks, base);
        free(block);
        base += r.size;
    }
    pthread_rwlock_unlock(&m->lock);
    return ok ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ALLOCATION;
}

// ---- who may use it ----

static void grant(struct rt_block * block, const struct rt_agent * agent, uint32_t permissions) {
    uint32_t bit = 1u << agent->node;
    block->access = permissions == MAY_NOT ? block->access & ~bit : block->access | bit;
    block->no_write = permissions == MAY_READ ? block->no_write | bit : block->no_write & ~bit;
}

hsa_status_t emu_vmem_set_access(void * va, size_t size, const struct access_desc * desc, size_t n)
    RT_NEWER(hsa_amd_vmem_set_access);
hsa_status_t emu_vmem_set_access(void * va, size_t size, const struct access_desc * desc,
                                 size_t n) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!va || size == 0 || !desc || n == 0) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    for (size_t i = 0; i < n; i++) {
        const struct rt_agent * agent = rt_agent_find(desc[i].agent);
        if (!agent) {
            return HSA_STATUS_ERROR_INVALID_AGENT;
        }
        if (!agent->gpu || desc[i].permissions > MAY_READ_WRITE) {
            return HSA_STATUS_ERROR;
        }
    }
    uint64_t base = (uint64_t) (uintptr_t) va, start;
    size_t pieces;
    pthread_rwlock_wrlock(&rt->memory.lock);
    hsa_status_t status =
        !reservation_of(&rt->memory, base, size, &start)  ? HSA_STATUS_ERROR_INVALID_ARGUMENT
        : !tiled(&rt->memory, base, size, false, &pieces) ? HSA_STATUS_ERROR_INVALID_ALLOCATION
                                                          : HSA_STATUS_SUCCESS;
    for (; status == HSA_STATUS_SUCCESS && pieces > 0; pieces--) {
        const struct range * r = ranges_find(&rt->memory.blocks, base);
        for (size_t i = 0; i < n; i++) {
            grant(r->value, rt_agent_find(desc[i].agent), desc[i].permissions);
        }
        base += r->size;
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    return status;
}

hsa_status_t emu_vmem_get_access(void * va, uint32_t * permissions, hsa_agent_t handle)
    RT_NEWER(hsa_amd_vmem_get_access);
hsa_status_t emu_vmem_get_access(void * va, uint32_t * permissions, hsa_agent_t handle) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!va || !permissions) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    *permissions = MAY_NOT;
    const struct rt_agent * agent = rt_agent_find(handle);
    hsa_status_t status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
    pthread_rwlock_rdlock(&rt->memory.lock);
    const struct range * r = ranges_find(&rt->memory.blocks, (uint64_t) (uintptr_t) va);
    const struct rt_block * block = r ? r->value : NULL;
    if (block && block->handle) {
        status = agent && agent->gpu ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_AGENT;
        uint32_t bit = agent ? 1u << agent->node : 0;
        if (block->access & bit) {
            *permissions = block->no_write & bit ? MAY_READ : MAY_READ_WRITE;
        }
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    return status;
}

void rt_vmem_release(struct rt_memory * m) {
    while (m->handles) {
        struct rt_handle * h = m->handles;
        h->holders = h->maps = 0;
        handle_drop(m, h);
    }
    for (size_t i = 0; i < m->reserved.count; i++) {
        reservation_free(m->reserved.items[i].value, m->reserved.items[i].size);
    }
    ranges_free(&m->reserved);
}
