// gpu-queue: the packets of a GPU queue, run by a thread of the queue.
//
// Kept true: packets run one after the other in the order of the ring, which satisfies the barrier
// bit and every fence. A packet is taken when its header says that it is one; while it runs its
// slot stays as it is, for kernels read it. Then its header becomes INVALID, the read index moves
// on, and last of all the completion signal changes. A packet that fails leaves its slot, the read
// index and its signal alone; the queue runs nothing more.
//
// A strict runtime makes use of what hardware is free to do: of kernels that follow each other
// without a barrier bit the last one runs first.
#include "packets.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_DEPS = 5, FORMAT_BARRIER_VALUE = 2, MAX_FREE_PACKETS = 16 };

static bool stopping(const struct emu_queue * q) {
    return __atomic_load_n(&q->stop, __ATOMIC_ACQUIRE);
}

// ---- barriers ----

struct barrier {
    struct emu_queue * queue;
    hsa_signal_t signals[MAX_DEPS];
    int n;
    bool any; // one of them is enough
    hsa_signal_value_t mask, compare;
    uint32_t condition;
};

static bool barrier_holds(void * user) {
    const struct barrier * b = user;
    int done = 0;
    for (int i = 0; i < b->n; i++) {
        int64_t value;
        // One that was destroyed meanwhile had been satisfied for someone.
        done += !emu_signal_peek(b->queue->agent->rt, b->signals[i], &value) ||
                emu_condition_holds(b->condition, value & b->mask, b->compare);
    }
    return (b->any ? done > 0 || b->n == 0 : done == b->n) || stopping(b->queue);
}

static hsa_status_t add_signal(struct barrier * b, hsa_signal_t signal, struct error * err) {
    if (signal.handle == 0) {
        return HSA_STATUS_SUCCESS;
    }
    if (!emu_signal_is_live(b->queue->agent->rt, signal)) {
        error_set(err, ST_INVALID, "dependent signal 0x%" PRIx64 " is none", signal.handle);
        return HSA_STATUS_ERROR_INVALID_SIGNAL;
    }
    b->signals[b->n++] = signal;
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t run_barrier(struct emu_queue * q, const hsa_barrier_and_packet_t * p, bool any,
                                struct error * err) {
    struct barrier b = {.queue = q, .any = any, .mask = -1, .condition = HSA_SIGNAL_CONDITION_EQ};
    hsa_status_t status = HSA_STATUS_SUCCESS;
    for (int i = 0; i < MAX_DEPS && status == HSA_STATUS_SUCCESS; i++) {
        status = add_signal(&b, p->dep_signal[i], err);
    }
    if (status == HSA_STATUS_SUCCESS) {
        emu_signals_sleep(barrier_holds, &b);
    }
    return status;
}

static hsa_status_t run_vendor(struct emu_queue * q, const hsa_amd_barrier_value_packet_t * p,
                               struct error * err) {
    if (p->header.AmdFormat != FORMAT_BARRIER_VALUE) {
        error_set(err, ST_UNSUPPORTED,
                  "vendor packet of format %d; only barriers on a value (%d) "
                  "are emulated",
                  p->header.AmdFormat, FORMAT_BARRIER_VALUE);
        return HSA_STATUS_ERROR_INVALID_PACKET_FORMAT;
    }
    if (p->cond > HSA_SIGNAL_CONDITION_GTE) {
        error_set(err, ST_INVALID, "barrier on condition %" PRIu32, p->cond);
        return HSA_STATUS_ERROR_INVALID_PACKET_FORMAT;
    }
    struct barrier b = {.queue = q, .mask = p->mask, .compare = p->value, .condition = p->cond};
    hsa_status_t status = add_signal(&b, p->signal, err);
    if (status == HSA_STATUS_SUCCESS) {
        emu_signals_sleep(barrier_holds, &b);
    }
    return status;
}

// ---- kernels ----

static hsa_status_t ensure_gfx(struct emu_agent * agent, struct error * err) {
    enum status st = ST_OK;
    pthread_mutex_lock(&agent->lock);
    if (!agent->gfx) {
        const struct gfx_config config = {.arch = agent->gpu->arch,
                                          .resolve = emu_memory_resolve,
                                          .user = agent,
                                          .strict = agent->rt->strict};
        st = gfx_new(&config, &agent->gfx, err);
    }
    pthread_mutex_unlock(&agent->lock);
    return st == ST_OK ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
}

static void tell_fault(struct emu_agent * agent, uint64_t addr) {
    struct emu_runtime * rt = agent->rt;
    pthread_mutex_lock(&rt->agents[0].lock);
    hsa_amd_system_event_callback_t handler = rt->event_handler;
    void * data = rt->event_data;
    pthread_mutex_unlock(&rt->agents[0].lock);
    if (handler) {
        const hsa_amd_event_t event = {
            .event_type = HSA_AMD_GPU_MEMORY_FAULT_EVENT,
            .memory_fault = {.agent = {(uint64_t) (uintptr_t) agent},
                             .virtual_address = addr,
                             .fault_reason_mask = HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT},
        };
        handler(&event, data);
    }
}

// The machine says in words what the code did wrong; only accesses name an
// address. UINT64_MAX: none.
static uint64_t fault_address(const char * text) {
    const char * at = strstr(text, " bytes at 0x");
    return at ? strtoull(at + strlen(" bytes at "), NULL, 16) : UINT64_MAX;
}

static hsa_status_t gfx_status(enum status st, const struct error * err) {
    switch (st) {
    case ST_OK:
        return HSA_STATUS_SUCCESS;
    case ST_INVALID:
        return HSA_STATUS_ERROR_INVALID_PACKET_FORMAT;
    case ST_NO_MEMORY:
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    default:
        return fault_address(err->text) != UINT64_MAX ? EMU_STATUS_MEMORY_FAULT
                                                      : EMU_STATUS_ILLEGAL;
    }
}

static hsa_status_t check_dispatch(const struct emu_agent * agent,
                                   const hsa_kernel_dispatch_packet_t * p, struct error * err) {
    uint32_t group[3] = {p->workgroup_size_x, p->workgroup_size_y, p->workgroup_size_z};
    uint32_t grid[3] = {p->grid_size_x, p->grid_size_y, p->grid_size_z};
    uint32_t dims = p->setup & 3, items = 1;
    for (int i = 0; i < 3; i++) {
        if (group[i] == 0 || grid[i] == 0 || group[i] > 1024) {
            error_set(err, ST_INVALID, "dimension %d: a grid of %" PRIu32 " in groups of %" PRIu32,
                      i, grid[i], group[i]);
            return HSA_STATUS_ERROR_INVALID_PACKET_FORMAT;
        }
        items *= group[i];
    }
    if (dims == 0 || items > 1024) {
        error_set(err, ST_INVALID,
                  "%" PRIu32 " dimensions, groups of %" PRIu32
                  " work-items; there are 1 to 3, and at most 1024",
                  dims, items);
        return HSA_STATUS_ERROR_INVALID_PACKET_FORMAT;
    }
    if (p->group_segment_size > agent->gpu->lds_bytes) {
        error_set(err, ST_INVALID, "%" PRIu32 " bytes of group memory; a group has %" PRIu32,
                  p->group_segment_size, agent->gpu->lds_bytes);
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t run_kernel(struct emu_queue * q, const hsa_kernel_dispatch_packet_t * p,
                               const uint8_t * slot, struct error * err) {
    struct emu_agent * agent = q->agent;
    hsa_status_t status = check_dispatch(agent, p, err);
    if (status == HSA_STATUS_SUCCESS) {
        status = ensure_gfx(agent, err);
    }
    if (status != HSA_STATUS_SUCCESS) {
        return status;
    }
    const struct gfx_dispatch d = {
        .kernel_object = p->kernel_object,
        .kernarg = (uint64_t) (uintptr_t) p->kernarg_address,
        .packet = (uint64_t) (uintptr_t) slot,
        .grid = {p->grid_size_x, p->grid_size_y, p->grid_size_z},
        .group = {p->workgroup_size_x, p->workgroup_size_y, p->workgroup_size_z},
        .group_bytes = p->group_segment_size,
        .private_bytes = p->private_segment_size,
    };
    status = gfx_status(gfx_run(agent->gfx, &d, err), err);
    if (status == EMU_STATUS_MEMORY_FAULT) {
        tell_fault(agent, fault_address(err->text));
    }
    return status;
}

// ---- the ring ----

static hsa_status_t run_packet(struct emu_queue * q, const uint8_t * slot, uint32_t type,
                               hsa_signal_t * completion, struct error * err) {
    union { // a copy: what was checked must be what is used
        hsa_kernel_dispatch_packet_t kernel;
        hsa_barrier_and_packet_t barrier;
        hsa_amd_barrier_value_packet_t value;
        uint8_t bytes[EMU_PACKET_BYTES];
    } p;
    memcpy(p.bytes, slot, sizeof p);
    *completion = p.kernel.completion_signal; // all kinds have it in the same place
    if (completion->handle && !emu_signal_is_live(q->agent->rt, *completion)) {
        error_set(err, ST_INVALID, "completion signal 0x%" PRIx64 " is none", completion->handle);
        return HSA_STATUS_ERROR_INVALID_SIGNAL;
    }
    switch (type) {
    case HSA_PACKET_TYPE_KERNEL_DISPATCH:
        return run_kernel(q, &p.kernel, slot, err);
    case HSA_PACKET_TYPE_BARRIER_AND:
    case HSA_PACKET_TYPE_BARRIER_OR:
        return run_barrier(q, &p.barrier, type == HSA_PACKET_TYPE_BARRIER_OR, err);
    case HSA_PACKET_TYPE_VENDOR_SPECIFIC:
        return run_vendor(q, &p.value, err);
    default:
        error_set(err, ST_INVALID, "a packet of type %" PRIu32 " in a GPU queue", type);
        return HSA_STATUS_ERROR_INVALID_PACKET_FORMAT;
    }
}

static uint8_t * slot_at(const struct emu_queue * q, uint64_t index) {
    return q->ring + (index & (q->amd.hsa_queue.size - 1)) * EMU_PACKET_BYTES;
}

// The header of a packet, or that of an invalid one where none is written yet.
static uint32_t header_at(const struct emu_queue * q, uint64_t index) {
    uint64_t write = __atomic_load_n(&q->amd.write_dispatch_id, __ATOMIC_ACQUIRE);
    const uint16_t * header = (const uint16_t *) (const void *) slot_at(q, index);
    return index < write ? __atomic_load_n(header, __ATOMIC_ACQUIRE) : HSA_PACKET_TYPE_INVALID;
}

static uint32_t type_of(uint32_t header) {
    return header >> HSA_PACKET_HEADER_TYPE & 0xff;
}

// How many packets from `first` on may run in any order.
static int free_packets(const struct emu_queue * q, uint64_t first) {
    int n = 1;
    if (!q->agent->rt->strict || type_of(header_at(q, first)) != HSA_PACKET_TYPE_KERNEL_DISPATCH) {
        return n;
    }
    if (type_of(header_at(q, first + 1)) == HSA_PACKET_TYPE_INVALID) {
        const struct timespec moment = {.tv_nsec = 200000}; // for the next one to be written
        nanosleep(&moment, NULL);
    }
    for (uint32_t header; n < MAX_FREE_PACKETS; n++) {
        header = header_at(q, first + (uint64_t) n);
        if (type_of(header) != HSA_PACKET_TYPE_KERNEL_DISPATCH ||
            header >> HSA_PACKET_HEADER_BARRIER & 1) {
            break;
        }
    }
    return n;
}

struct end_of_packet {
    hsa_signal_t completion;
    uint64_t start, end;
};

static bool run_at(struct emu_queue * q, uint64_t index, struct end_of_packet * out) {
    struct error err = {0};
    out->start = emu_now_ns();
    hsa_status_t status =
        run_packet(q, slot_at(q, index), type_of(header_at(q, index)), &out->completion, &err);
    out->end = emu_now_ns();
    if (status != HSA_STATUS_SUCCESS) {
        error_prefix(&err, "%s, queue %" PRIu64 ", packet %" PRIu64, q->agent->name,
                     q->amd.hsa_queue.id, index);
        emu_queue_fail(q, status, &err);
        return false;
    }
    return !stopping(q); // or it is a barrier that was given up
}

// Runs what is there; returns when the next packet is not written yet.
static void run_ring(struct emu_queue * q) {
    while (!stopping(q) && __atomic_load_n(&q->error, __ATOMIC_ACQUIRE) == HSA_STATUS_SUCCESS) {
        uint64_t read = __atomic_load_n(&q->amd.read_dispatch_id, __ATOMIC_ACQUIRE);
        if (type_of(header_at(q, read)) == HSA_PACKET_TYPE_INVALID) {
            return;
        }
        struct end_of_packet ends[MAX_FREE_PACKETS];
        int n = free_packets(q, read);
        for (int i = n - 1; i >= 0; i--) {
            if (!run_at(q, read + (uint64_t) i, &ends[i])) {
                return;
            }
        }
        for (int i = 0; i < n; i++, read++) {
            uint16_t * header = (uint16_t *) (void *) slot_at(q, read);
            __atomic_store_n(header, HSA_PACKET_TYPE_INVALID, __ATOMIC_RELEASE);
            __atomic_store_n(&q->amd.read_dispatch_id, read + 1, __ATOMIC_RELEASE);
            if (ends[i].completion.handle) {
                emu_signal_complete(q->agent->rt, ends[i].completion, ends[i].start, ends[i].end);
            }
        }
    }
}

static void * work(void * data) {
    struct emu_queue * q = data;
    uint64_t seen = 0;
    while (!stopping(q)) {
        pthread_mutex_lock(&q->lock);
        while (q->rings == seen && !stopping(q)) {
            pthread_cond_wait(&q->rung, &q->lock);
        }
        seen = q->rings;
        pthread_mutex_unlock(&q->lock);
        run_ring(q);
    }
    return NULL;
}

bool emu_gpu_queue_start(struct emu_queue * q) {
    q->has_worker = pthread_create(&q->worker, NULL, work, q) == 0;
    return q->has_worker;
}

void emu_gpu_queue_ring(struct emu_queue * q) {
    pthread_mutex_lock(&q->lock);
    q->rings++;
    pthread_cond_signal(&q->rung);
    pthread_mutex_unlock(&q->lock);
}

bool emu_gpu_queue_stop(struct emu_queue * q) {
    if (!q->has_worker) {
        return true;
    }
    pthread_mutex_lock(&q->lock);
    __atomic_store_n(&q->stop, true, __ATOMIC_RELEASE);
    pthread_cond_signal(&q->rung);
    pthread_mutex_unlock(&q->lock);
    if (pthread_equal(pthread_self(), q->worker)) {
        return false;
    }
    emu_signals_wake(); // it may stand before a barrier
    pthread_join(q->worker, NULL);
    return true;
}
