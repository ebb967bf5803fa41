// host: the other side of libkfd-emu.so, in the place of ROCr: memory in one file that is mapped
// for the host and, where it is granted, for the GPU; events that are counted; queues as ROCr makes
// them. Addresses of the GPU are the host's.
#pragma once

#include "base/cmocka-all.h"
#include "emu/kfd/kfd.h"
#include "runtime/code.h"

#include <dlfcn.h>
#include <hsa/amd_hsa_queue.h>
#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa_ext_amd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    HOST_PAGE = 4096,
    HOST_EVENTS = 16,
    HOST_PACKETS = 64,
    HOST_FLAG_DOORBELL = 1 << 3,
};
#define HOST_FLAG_WRITABLE (UINT32_C(1) << 31)
#define HOST_FIRST         UINT64_C(0x1000200000) // where ROCr's memory begins
#define HOST_APERTURE      (UINT64_C(1) << 38)

struct host {
    const struct kfd_functions * f;
    struct kfd_gpu * gpu;
    uint8_t * aperture;
    int fd;
    uint64_t next; // address and, less HOST_FIRST, place in the file
    uint64_t * doorbells;
    int events[HOST_EVENTS]; // atomic
    bool taken[8];           // numbers of queues
};

struct host_queue {
    struct kfd_queue * queue;
    amd_queue_t * amd;
    amd_signal_t * inactive;
    uint8_t * ring;
    int slot;
};

static inline void host_event(void * data, unsigned event) {
    struct host * h = data;
    assert_true(event > 0 && event < HOST_EVENTS);
    __atomic_fetch_add(&h->events[event], 1, __ATOMIC_RELAXED);
}

static inline void host_grant(struct host * h, void * p, size_t size) {
    uint64_t at = (uint64_t) (uintptr_t) p;
    void * q = mmap(h->aperture + at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, h->fd,
                    (off_t) (at - HOST_FIRST));
    assert_ptr_equal(q, h->aperture + at);
}

static inline void host_revoke(struct host * h, void * p, size_t size) {
    void * at = h->aperture + (uintptr_t) p;
    void * q =
        mmap(at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    assert_ptr_equal(q, at);
}

// Whole pages that the GPU does not reach yet.
static inline void * host_memory(struct host * h, size_t size, uint32_t flags) {
    size = (size + HOST_PAGE - 1) & ~(size_t) (HOST_PAGE - 1);
    uint64_t at = h->next;
    h->next += size + HOST_PAGE; // a hole behind each
    assert_int_equal(ftruncate(h->fd, (off_t) (h->next - HOST_FIRST)), 0);
    void * p = mmap((void *) (uintptr_t) at, size, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_FIXED_NOREPLACE, h->fd, (off_t) (at - HOST_FIRST));
    assert_ptr_equal(p, (void *) (uintptr_t) at);
    h->f->allocated(h->gpu, p, size, flags);
    return p;
}

static inline void * host_alloc(struct host * h, size_t size) {
    void * p = host_memory(h, size, HOST_FLAG_WRITABLE);
    host_grant(h, p, (size + HOST_PAGE - 1) & ~(size_t) (HOST_PAGE - 1));
    return p;
}

static inline amd_signal_t * host_signal(struct host * h, int64_t value, uint32_t event) {
    amd_signal_t * s = host_alloc(h, sizeof *s);
    *s = (amd_signal_t){.kind = AMD_SIGNAL_KIND_USER, .value = value, .event_id = event};
    return s;
}

static inline hsa_signal_t host_handle(const amd_signal_t * s) {
    return (hsa_signal_t){(uint64_t) (uintptr_t) s};
}

static inline int host_slot(struct host * h) {
    int slot = 0;
    while (h->taken[slot]) {
        slot++;
    }
    h->taken[slot] = true;
    return slot;
}

// As ROCr does: the page of doorbells comes behind the first queue.
static inline void host_doorbells(struct host * h) {
    if (!h->doorbells) {
        h->doorbells = host_memory(h, 2 * HOST_PAGE, HOST_FLAG_WRITABLE | HOST_FLAG_DOORBELL);
        host_grant(h, h->doorbells, 2 * HOST_PAGE);
    }
}

static inline struct host_queue host_queue(struct host * h) {
    struct host_queue q = {
        .amd = host_alloc(h, sizeof(amd_queue_t)),
        .inactive = host_signal(h, 0, HOST_EVENTS - 1),
        .ring = host_alloc(h, HOST_PACKETS * AQL_PACKET_BYTES),
    };
    for (int i = 0; i < HOST_PACKETS; i++) {
        q.ring[i * AQL_PACKET_BYTES] = HSA_PACKET_TYPE_INVALID;
    }
    q.amd->queue_inactive_signal = host_handle(q.inactive);
    struct kfd_queue_info info = {
        .ring = (uint64_t) (uintptr_t) q.ring,
        .write_index = (uint64_t) (uintptr_t) &q.amd->write_dispatch_id,
        .read_index = (uint64_t) (uintptr_t) &q.amd->read_dispatch_id,
        .ring_bytes = HOST_PACKETS * AQL_PACKET_BYTES,
        .type = KFD_QUEUE_AQL,
    };
    q.queue = h->f->add_queue(h->gpu, &info);
    assert_non_null(q.queue);
    q.slot = host_slot(h);
    host_doorbells(h);
    return q;
}

static inline void host_queue_end(struct host * h, struct host_queue * q) {
    h->f->remove_queue(h->gpu, q->queue);
    h->taken[q->slot] = false;
}

// A packet is written, header last, and not rung for.
static inline uint64_t host_write(struct host_queue * q, const void * packet) {
    uint64_t at = __atomic_fetch_add(&q->amd->write_dispatch_id, 1, __ATOMIC_SEQ_CST);
    uint8_t * slot = q->ring + at % HOST_PACKETS * AQL_PACKET_BYTES;
    uint32_t first;
    memcpy(&first, packet, 4);
    memcpy(slot + 4, (const uint8_t *) packet + 4, AQL_PACKET_BYTES - 4);
    __atomic_store_n((uint32_t *) (void *) slot, first, __ATOMIC_RELEASE);
    return at;
}

static inline void host_ring(struct host * h, const struct host_queue * q, uint64_t value) {
    __atomic_store_n(&h->doorbells[q->slot], value, __ATOMIC_RELEASE);
}

static inline void host_send(struct host * h, struct host_queue * q, const void * packet) {
    host_ring(h, q, host_write(q, packet));
}

static inline void host_nap(long us) {
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

// Until *value is what it should be; a minute is for slow machines.
static inline void host_await(volatile int64_t * value, int64_t want) {
    for (int i = 0; i < 60000 && __atomic_load_n(value, __ATOMIC_ACQUIRE) != want; i++) {
        host_nap(1000);
    }
    assert_int_equal(__atomic_load_n(value, __ATOMIC_ACQUIRE), want);
}

static inline void host_open(struct host * h) {
    void * library = dlopen(KFD_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fail_msg("%s", dlerror());
    }
    const struct kfd_functions * (*get)(void);
    void * symbol = dlsym(library, "get_hsakmt_model_functions");
    assert_non_null(symbol);
    memcpy(&get, &symbol, sizeof get);
    *h = (struct host){.f = get(), .next = HOST_FIRST, .fd = memfd_create("host", MFD_CLOEXEC)};
    assert_true(h->f->major == 0 && h->f->minor == 4 && h->fd >= 0);
    h->gpu = h->f->create();
    assert_non_null(h->gpu);
    h->aperture =
        mmap(NULL, HOST_APERTURE, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE | MAP_ANONYMOUS, -1, 0);
    assert_true(h->aperture != MAP_FAILED);
    h->f->set_aperture(h->gpu, h->aperture, HOST_APERTURE);
    h->f->set_set_event(h->gpu, host_event, h);
}

// ---- a kernel: *at = 3 * *at + value ----

struct host_kernel {
    uint8_t * code; // its descriptor is at the beginning
    struct host_args {
        uint32_t * at;
        uint32_t value, nothing, more;
    } * args;
};

static inline struct host_kernel host_kernel(struct host * h) {
    struct host_kernel k = {host_alloc(h, HOST_PAGE), host_alloc(h, HOST_PAGE)};
    code_u64(k.code + 16, 256);            // where the code begins
    store_u32(k.code + 48, 0x00af0000);    // denormals as they are
    store_u32(k.code + 52, 2 << 1 | 0x80); // two user registers, group number x
    code_u16(k.code + 56, 8u | 0x400u);    // the arguments' address; waves of 32
    memcpy(k.code + 256, code_step_gfx11, sizeof code_step_gfx11);
    return k;
}

// With its own arguments, of which there are 100.
static inline hsa_kernel_dispatch_packet_t host_packet(const struct host_kernel * k, int i,
                                                       uint32_t * at, uint32_t value,
                                                       const amd_signal_t * done) {
    k->args[i] = (struct host_args){at, value, 0, 0};
    return (hsa_kernel_dispatch_packet_t){
        .header = HSA_PACKET_TYPE_KERNEL_DISPATCH | 1 << HSA_PACKET_HEADER_BARRIER,
        .setup = 1,
        .workgroup_size_x = 1,
        .workgroup_size_y = 1,
        .workgroup_size_z = 1,
        .grid_size_x = 1,
        .grid_size_y = 1,
        .grid_size_z = 1,
        .kernel_object = (uint64_t) (uintptr_t) k->code,
        .kernarg_address = &k->args[i],
        .completion_signal = host_handle(done),
    };
}
