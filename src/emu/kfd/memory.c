// memory: what a GPU can reach. ROCr's model keeps all memory in one file and maps what belongs to
// a GPU at aperture + address; the rest of the aperture cannot be touched. It says when memory is
// allocated and when it is freed, but not when it is mapped to the GPU, which is what access means
// (hsa_amd_agents_allow_access): that is tried.
//
// Kept true: nobody here touches an address that was not seen to be mapped since the last dispatch
// began.
#include "emu/kfd/kfd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FLAG_DOORBELL = 1 << 3 };
#define FLAG_WRITABLE (UINT32_C(1) << 31)

struct kfd_block {
    uint32_t flags;
    uint64_t seen; // atomic: the epoch in which it was found mapped
};

void kfd_memory_init(struct kfd_memory * m) {
    pthread_rwlock_init(&m->lock, NULL);
    m->epoch = 1;
}

void kfd_memory_add(struct kfd_memory * m, uint64_t address, uint64_t size, uint32_t flags) {
    struct kfd_block * block = calloc(1, sizeof *block);
    pthread_rwlock_wrlock(&m->lock);
    bool ok = block && ranges_add(&m->blocks, address, size, block);
    if (ok) {
        block->flags = flags;
        if (flags & FLAG_DOORBELL) {
            m->doorbells = address;
        }
    }
    pthread_rwlock_unlock(&m->lock);
    if (!ok) {
        free(block);
        kfd_say("no memory to remember 0x%" PRIx64 " bytes at 0x%" PRIx64
                ", which the GPU will not reach",
                size, address);
    }
}

void kfd_memory_remove(struct kfd_memory * m, uint64_t address) {
    pthread_rwlock_wrlock(&m->lock);
    struct range * r = ranges_find(&m->blocks, address);
    if (r && r->base == address) {
        free(r->value);
        ranges_remove(&m->blocks, address);
    }
    if (m->doorbells == address) {
        m->doorbells = 0;
    }
    pthread_rwlock_unlock(&m->lock);
}

// Whether a byte can be read, asked of the kernel so that nothing happens when it cannot.
static bool readable(const uint8_t * at) {
    uint8_t byte;
    struct iovec here = {&byte, 1}, there = {(void *) (uintptr_t) at, 1};
    // Where the call itself is forbidden nothing can be told; then all that is allocated counts.
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1 || errno != EFAULT;
}

uint8_t * kfd_memory_at(struct kfd_memory * m, uint64_t address, uint64_t size, bool write,
                        uint64_t * left) {
    uint8_t * at = NULL;
    uint64_t epoch = __atomic_load_n(&m->epoch, __ATOMIC_RELAXED);
    pthread_rwlock_rdlock(&m->lock);
    const struct range * r = ranges_find(&m->blocks, address);
    if (r && size <= r->size - (address - r->base) && r->base + r->size <= m->aperture_bytes) {
        struct kfd_block * block = r->value;
        bool there = __atomic_load_n(&block->seen, __ATOMIC_RELAXED) == epoch;
        if (!there && readable(m->aperture + r->base)) { // mappings are those of whole allocations
            __atomic_store_n(&block->seen, epoch, __ATOMIC_RELAXED);
            there = true;
        }
        if (there && (!write || block->flags & FLAG_WRITABLE)) {
            at = m->aperture + address;
            if (left) {
                *left = r->size - (address - r->base);
            }
        }
    }
    pthread_rwlock_unlock(&m->lock);
    return at;
}
