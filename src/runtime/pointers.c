// pointers: what an address is to the runtime: an allocation, memory of the host that was locked,
// memory that was mapped by hand, addresses without any, or nothing that it knows.
#include "runtime.h"

#include <string.h>

// Fills in what there is at the address, and which agents reach it; how many these are.
static uint32_t describe(struct rt_runtime * rt, uint64_t at, hsa_amd_pointer_info_t * full,
                         hsa_agent_t reach[RT_MAX_AGENTS]) {
    enum { RESERVED = 5, MAPPED = 6 }; // after ROCm 5.2
    uint32_t n = 0;
    const struct range * r = ranges_find(&rt->memory.blocks, at);
    const struct rt_block * block = r ? r->value : NULL;
    const struct rt_lock * l = block ? NULL : rt_memory_locked(&rt->memory, at);
    const struct range * addresses = block || l ? NULL : ranges_find(&rt->memory.reserved, at);
    if (block) {
        full->type = block->kind == RT_BLOCK_MAPPED ? (hsa_amd_pointer_type_t) MAPPED
                                                    : HSA_EXT_POINTER_TYPE_HSA;
        full->agentBaseAddress = (void *) (uintptr_t) r->base;
        full->hostBaseAddress = block->host ? NULL : full->agentBaseAddress;
        full->sizeInBytes = r->size;
        full->userData = block->user_data;
        full->agentOwner.handle = (uint64_t) (uintptr_t) block->agent;
        full->global_flags =
            block->pool ? block->pool->flags : HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
    } else if (l) {
        full->type = HSA_EXT_POINTER_TYPE_LOCKED;
        full->hostBaseAddress = (void *) (uintptr_t) l->base;
        full->agentBaseAddress = (void *) (uintptr_t) (l->alias ? l->alias : l->base);
        full->sizeInBytes = l->size;
        full->userData = l->user_data;
        full->agentOwner.handle = (uint64_t) (uintptr_t) &rt->agents[0];
    } else if (addresses) {
        full->type = (hsa_amd_pointer_type_t) RESERVED;
        full->agentBaseAddress = (void *) (uintptr_t) addresses->base;
        full->sizeInBytes = addresses->size;
    }
    for (int i = 0; (block || l) && i < rt->n_agents; i++) {
        bool cpu = rt->agents[i].device == HSA_DEVICE_TYPE_CPU;
        if (l || (rt_memory_reaches(&rt->agents[i], block) && !(cpu && block->host))) {
            reach[n++].handle = (uint64_t) (uintptr_t) &rt->agents[i];
        }
    }
    return n;
}

hsa_status_t hsa_amd_pointer_info(const void * ptr, hsa_amd_pointer_info_t * info,
                                  void * (*alloc)(size_t), uint32_t * n_accessible,
                                  hsa_agent_t ** accessible) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!ptr || !info || info->size < sizeof(uint32_t)) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    hsa_amd_pointer_info_t full = {.size = sizeof full, .type = HSA_EXT_POINTER_TYPE_UNKNOWN};
    hsa_agent_t reach[RT_MAX_AGENTS];
    pthread_rwlock_rdlock(&rt->memory.lock);
    uint32_t n = describe(rt, (uint64_t) (uintptr_t) ptr, &full, reach);
    pthread_rwlock_unlock(&rt->memory.lock);
    if (info->size < full.size) {
        full.size = info->size;
    }
    memcpy(info, &full, full.size);
    if (alloc && n_accessible && accessible) {
        *accessible = n ? alloc(n * sizeof **accessible) : NULL;
        *n_accessible = *accessible ? n : 0;
        if (n && !*accessible) {
            return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
        }
        if (n) {
            memcpy(*accessible, reach, n * sizeof *reach);
        }
    }
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_pointer_info_set_userdata(const void * ptr, void * user_data) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    pthread_rwlock_wrlock(&rt->memory.lock);
    const struct range * r = ranges_find(&rt->memory.blocks, (uint64_t) (uintptr_t) ptr);
    struct rt_lock * l = r ? NULL : rt_memory_locked(&rt->memory, (uint64_t) (uintptr_t) ptr);
    if (r) {
        ((struct rt_block *) r->value)->user_data = user_data;
    } else if (l) {
        l->user_data = user_data;
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    return r || l ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}
