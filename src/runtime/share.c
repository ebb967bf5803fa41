// share: memory of a NPU for another agent without a copy, by the calls that AMD's runtime has for
// it: an allocation is exported as a descriptor, as of a dma-buf, and mapped for other agents. A
// NPU of this machine is asked by the driver (PRIME); of an emulated one the descriptor is a file
// without a name that stands for the memory, and cannot be mapped by anybody else.
//
// An allocation is mapped where it lies: there is one address space, as on a chip whose GPU has the
// process's page tables. What belongs to GPUs is not exported: nothing here plays other processes.
// ROCr 7.2 is the other way round, its GPUs' memory is exported and a NPU's refused [I]; where its
// faults are played, so is that.
//
// Kept true: a block knows the descriptor that was made of it by device and inode, so that one of a
// block that is gone is refused. All of it is under memory.lock.
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE // memfd_create
#endif
#include "native.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_npu(const struct rt_agent * agent) {
    return agent->model || agent->native;
}

static hsa_status_t export_block(struct rt_block * block, int * fd) {
    struct error err = {0};
    struct stat info;
    int made = -1;
    if (block->native.handle) {
        if (rt_native_export(block->agent->native, &block->native, &made, &err) != ST_OK) {
            return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
        }
    } else {
        made = memfd_create("npu-memory", MFD_CLOEXEC);
    }
    if (made < 0 || fstat(made, &info) != 0) {
        if (made >= 0) {
            close(made);
        }
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    block->exported.dev = (uint64_t) info.st_dev;
    block->exported.ino = (uint64_t) info.st_ino;
    *fd = made;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_portable_export_dmabuf(const void * ptr, size_t size, int * fd,
                                            uint64_t * offset);
hsa_status_t hsa_amd_portable_export_dmabuf(const void * ptr, size_t size, int * fd,
                                            uint64_t * offset) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!ptr || size == 0 || !fd || !offset) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    uint64_t at = (uint64_t) (uintptr_t) ptr;
    pthread_rwlock_wrlock(&rt->memory.lock);
    const struct range * r = ranges_find(&rt->memory.blocks, at);
    struct rt_block * block = r ? r->value : NULL;
    hsa_status_t status = HSA_STATUS_SUCCESS;
    if (!block || size > r->size - (at - r->base)) {
        status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
    } else if (!is_npu(block->agent)) {
        status = HSA_STATUS_ERROR;
        fprintf(stderr, "hsa-npu: hsa_amd_portable_export_dmabuf of a GPU is not emulated\n");
    } else if (rt->rocr_bugs) {
        status = HSA_STATUS_ERROR_INVALID_AGENT;
    } else if (block->kind != RT_BLOCK_POOL || block->pool->heap ||
               block->native.type == XDNA_BO_DEV) { // the driver says EOPNOTSUPP of the heap
        status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
    } else {
        status = export_block(block, fd);
        *offset = status == HSA_STATUS_SUCCESS ? at - r->base : *offset;
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    return status;
}

hsa_status_t hsa_amd_portable_close_dmabuf(int fd);
hsa_status_t hsa_amd_portable_close_dmabuf(int fd) {
    return close(fd) == 0 ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_RESOURCE_FREE;
}

// ---- mapping ----

static const struct range * exported_as(const struct rt_memory * m, const struct stat * info) {
    for (size_t i = 0; i < m->blocks.count; i++) {
        const struct rt_block * block = m->blocks.items[i].value;
        if (block->exported.ino && block->exported.ino == (uint64_t) info->st_ino &&
            block->exported.dev == (uint64_t) info->st_dev) {
            return &m->blocks.items[i];
        }
    }
    return NULL;
}

hsa_status_t hsa_amd_interop_map_buffer(uint32_t n, hsa_agent_t * agents, int fd, uint32_t flags,
                                        size_t * size, void ** ptr, size_t * metadata_size,
                                        const void ** metadata) {
    struct rt_runtime * rt = rt_runtime();
    struct stat info;
    uint32_t granted = 0;
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (n == 0 || !agents || flags || !size || !ptr || fstat(fd, &info) != 0) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct rt_agent * agent = rt_agent_find(agents[i]);
        if (!agent || !agent->gpu) { // ROCr maps for GPUs alone
            return HSA_STATUS_ERROR_INVALID_AGENT;
        }
        granted |= 1u << agent->node;
    }
    pthread_rwlock_wrlock(&rt->memory.lock);
    const struct range * r = exported_as(&rt->memory, &info);
    if (r) {
        struct rt_block * block = r->value;
        block->access |= granted;
        block->exported.to |= granted;
        *size = r->size;
        *ptr = (void *) (uintptr_t) r->base;
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    if (r && metadata_size) {
        *metadata_size = 0;
    }
    if (r && metadata) {
        *metadata = NULL;
    }
    return r ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_amd_interop_unmap_buffer(void * ptr) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    pthread_rwlock_wrlock(&rt->memory.lock);
    const struct range * r = ranges_find(&rt->memory.blocks, (uint64_t) (uintptr_t) ptr);
    struct rt_block * block = r ? r->value : NULL;
    bool mapped = block && block->exported.to;
    if (mapped) {
        block->access &= ~block->exported.to;
        block->exported.to = 0;
    }
    pthread_rwlock_unlock(&rt->memory.lock);
    return mapped ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}
