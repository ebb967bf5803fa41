// queue: a compute queue of a GPU below ROCr: what emu/aql, which runs its packets, is told of
// signals, and what the packet processor and ROCr agree upon in the queue's struct: scratch memory
// and errors, both through the signal queue_inactive_signal.
#include "emu/kfd/kfd.h"

#include <hsa/amd_hsa_queue.h>
#include <hsa/amd_hsa_signal.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

_Static_assert(offsetof(amd_queue_t, write_dispatch_id) == 56, "the interface points here");
_Static_assert(offsetof(amd_queue_t, queue_inactive_signal) == 192, "ROCr 7 has it there");
_Static_assert(offsetof(amd_queue_t, scratch_wave64_lane_byte_size) == 176, "and this");

// What the packet processor's firmware reports, as bits.
static const uint32_t codes[AQL_FAULTS] = {
    [AQL_BAD_DIMENSIONS] = 2,        [AQL_BAD_GROUP_MEMORY] = 4, [AQL_BAD_CODE] = 8,
    [AQL_BAD_FORMAT] = 32,           [AQL_BAD_GROUP] = 64,       [AQL_NO_RESOURCES] = 128,
    [AQL_BAD_VENDOR] = 256,
    [AQL_BAD_SIGNAL] = 0x20000000, // hardware takes any address for a signal, and faults on it
    [AQL_MEMORY_FAULT] = 0x20000000, [AQL_ILLEGAL] = 0x40000000,
};

enum { SCRATCH_WAVE64 = 1, SCRATCH_WAVE32 = 0x400, SCRATCH_RECLAIM = 512 };

// ---- signals ----

static amd_signal_t * signal_at(struct kfd_queue * q, uint64_t handle) {
    amd_signal_t * s = NULL;
    if (!(handle & (AMD_SIGNAL_ALIGN_BYTES - 1))) {
        s = (void *) kfd_memory_at(&q->gpu->memory, handle, sizeof *s, true, NULL);
    }
    return s && __atomic_load_n(&s->kind, __ATOMIC_RELAXED) == AMD_SIGNAL_KIND_USER ? s : NULL;
}

static bool is_signal(void * user, uint64_t handle) {
    return signal_at(user, handle) != NULL;
}

static bool peek(void * user, uint64_t handle, int64_t * value) {
    const amd_signal_t * s = signal_at(user, handle);
    if (s) {
        *value = __atomic_load_n(&s->value, __ATOMIC_SEQ_CST);
    }
    return s;
}

static void complete(void * user, uint64_t handle, uint64_t start, uint64_t end) {
    amd_signal_t * s = signal_at(user, handle);
    if (s) {
        unsigned event = s->event_id; // the signal may be gone as soon as its value is seen
        __atomic_store_n(&s->start_ts, start, __ATOMIC_RELAXED);
        __atomic_store_n(&s->end_ts, end, __ATOMIC_RELAXED);
        __atomic_fetch_sub(&s->value, 1, __ATOMIC_SEQ_CST);
        kfd_event(user, event);
    }
}

void kfd_poll(bool (*ready)(void *), void * arg) {
    enum { FIRST_NS = 10 * 1000, LAST_NS = 500 * 1000 };
    for (long pause = FIRST_NS; !ready(arg);) {
        nanosleep(&(struct timespec){.tv_nsec = pause}, NULL);
        pause = 2 * pause < LAST_NS ? 2 * pause : LAST_NS;
    }
}

static void sleep_until(void * user, bool (*ready)(void *), void * arg) {
    (void) user;
    kfd_poll(ready, arg);
}

static void wake(void * user) {
    (void) user; // it never sleeps long
}

// ---- what is agreed with ROCr ----

static amd_queue_t * shared(struct kfd_queue * q) {
    return (void *) kfd_memory_at(&q->gpu->memory, q->amd_queue, sizeof(amd_queue_t), true, NULL);
}

// Puts a code where ROCr's thread for such things waits. False: the struct or its signal is gone.
static bool raise_code(struct kfd_queue * q, int64_t code) {
    const amd_queue_t * a = shared(q);
    amd_signal_t * s = a ? signal_at(q, a->queue_inactive_signal.handle) : NULL;
    if (s) {
        __atomic_store_n(&s->value, code, __ATOMIC_SEQ_CST);
        kfd_event(q, s->event_id);
    }
    return s;
}

unsigned kfd_queue_unanswered(struct kfd_queue * q) {
    const amd_queue_t * a = q->aql ? shared(q) : NULL;
    const amd_signal_t * s = a ? signal_at(q, a->queue_inactive_signal.handle) : NULL;
    return s && __atomic_load_n(&s->value, __ATOMIC_RELAXED) ? s->event_id : 0;
}

struct answer {
    struct kfd_queue * queue;
    uint32_t property; // of the queue, that ROCr clears
};

static bool answered(void * arg) {
    const struct answer * w = arg;
    const amd_queue_t * a = shared(w->queue);
    int64_t value;
    return aql_stopping(w->queue->aql) || !a ||
           !peek(w->queue, a->queue_inactive_signal.handle, &value) ||
           (value == 0 && !(__atomic_load_n(&a->queue_properties, __ATOMIC_ACQUIRE) & w->property));
}

static bool is_wave32(struct kfd_queue * q, uint64_t kernel_object) {
    const uint8_t * kd = kfd_memory_at(&q->gpu->memory, kernel_object, 64, false, NULL);
    return kd && q->gpu->model->wavefront == 32 && kd[57] >> 2 & 1;
}

// Scratch is ROCr's to give, and is asked for when a kernel needs more than the queue has. What a
// work-item then finds in it lies in the machine; but how much ROCr gives is what counts.
static enum aql_fault before(void * user, const hsa_kernel_dispatch_packet_t * p,
                             struct error * err) {
    struct kfd_queue * q = user;
    __atomic_fetch_add(&q->gpu->memory.epoch, 1, __ATOMIC_RELAXED);
    bool wave32 = is_wave32(q, p->kernel_object);
    uint64_t need = (uint64_t) p->private_segment_size * (wave32 ? 32 : 64), have = 0;
    for (int asked = 0; asked < 2; asked++) {
        const amd_queue_t * a = shared(q);
        have = a ? (uint64_t) a->scratch_wave64_lane_byte_size * 64 : 0;
        if (need <= have || aql_stopping(q->aql)) {
            return AQL_OK;
        }
        struct answer w = {.queue = q};
        if (asked || !raise_code(q, wave32 ? SCRATCH_WAVE32 : SCRATCH_WAVE64)) {
            break;
        }
        kfd_poll(answered, &w);
    }
    error_set(err, ST_NO_MEMORY,
              "a wave needs %" PRIu64 " bytes of scratch, and the runtime gave %" PRIu64, need,
              have);
    return AQL_NO_RESOURCES;
}

static void after(void * user, const hsa_kernel_dispatch_packet_t * p) {
    struct kfd_queue * q = user;
    const amd_queue_t * a = p->private_segment_size ? shared(q) : NULL;
    struct answer w = {.queue = q, .property = AMD_QUEUE_PROPERTIES_USE_SCRATCH_ONCE};
    if (a && a->queue_properties & w.property && raise_code(q, SCRATCH_RECLAIM)) {
        kfd_poll(answered, &w);
    }
}

static enum aql_fault vendor(void * user, const uint8_t packet[AQL_PACKET_BYTES],
                             struct error * err) {
    return kfd_pm4_run(&((struct kfd_queue *) user)->gpu->memory, packet, err);
}

static void fail(void * user, enum aql_fault fault, uint64_t address, const struct error * err) {
    (void) address; // the interface has no place for it
    kfd_say("%s", err->text);
    raise_code(user, (int64_t) codes[fault]);
}

static const struct aql_owner owner = {
    .is_signal = is_signal,
    .peek = peek,
    .complete = complete,
    .now = kfd_ticks,
    .sleep = sleep_until,
    .wake = wake,
    .fail = fail,
    .before = before,
    .after = after,
    .vendor = vendor,
};

// ---- life ----

static void * resolve(void * user, uint64_t address, uint64_t size, bool write) {
    return kfd_memory_at(user, address, size, write, NULL);
}

// The lock of the GPU is held.
static enum status ensure_gfx(struct kfd_gpu * gpu, struct error * err) {
    const struct gfx_config config = {
        .arch = gpu->model->arch, .resolve = resolve, .user = &gpu->memory, .strict = gpu->strict};
    return gpu->gfx ? ST_OK : gfx_new(&config, &gpu->gfx, err);
}

static enum status start_aql(struct kfd_queue * q, const struct kfd_queue_info * info,
                             struct error * err) {
    struct kfd_memory * m = &q->gpu->memory;
    uint32_t packets = info->ring_bytes / AQL_PACKET_BYTES;
    q->amd_queue = info->write_index - offsetof(amd_queue_t, write_dispatch_id);
    uint8_t * ring = kfd_memory_at(m, info->ring, info->ring_bytes, true, NULL);
    amd_queue_t * a = shared(q);
    if (!ring || !a || !packets || packets & (packets - 1) ||
        info->read_index != q->amd_queue + offsetof(amd_queue_t, read_dispatch_id)) {
        return error_set(err, ST_INVALID,
                         "a queue of %" PRIu32 " bytes at 0x%" PRIx64
                         " with its indices at 0x%" PRIx64 " and 0x%" PRIx64
                         ": the GPU does not reach them",
                         info->ring_bytes, info->ring, info->write_index, info->read_index);
    }
    const struct aql_config config = {
        .owner = &owner,
        .user = q,
        .gpu = q->gpu->gfx,
        .name = gfx_arch_name(q->gpu->model->arch),
        .id = q->slot,
        .strict = q->gpu->strict,
        .lds_bytes = q->gpu->model->lds_bytes,
        .ring = ring,
        .address = info->ring,
        .packets = packets,
        .read = &a->read_dispatch_id,
        .write = &a->write_dispatch_id,
    };
    return aql_start(&config, &q->aql, err);
}

struct kfd_queue * kfd_queue_new(struct kfd_gpu * gpu, const struct kfd_queue_info * info,
                                 uint32_t slot, struct error * err) {
    struct kfd_queue * q = calloc(1, sizeof *q);
    enum status st = q ? ensure_gfx(gpu, err) : error_set(err, ST_NO_MEMORY, "no memory");
    if (st == ST_OK) {
        q->gpu = gpu;
        q->slot = slot;
        st = info->type == KFD_QUEUE_AQL ? start_aql(q, info, err)
             : info->type == KFD_QUEUE_SDMA
                 ? kfd_sdma_start(q, info, &q->sdma, err)
                 : error_set(err, ST_UNSUPPORTED, "a queue of type %" PRIu32, info->type);
    }
    if (st != ST_OK) {
        free(q);
        q = NULL;
    }
    return q;
}

void kfd_queue_ring(struct kfd_queue * q) {
    if (q->aql) {
        aql_ring(q->aql);
    } else {
        kfd_sdma_ring(q->sdma);
    }
}

void kfd_queue_free(struct kfd_queue * q) {
    if (q->aql) {
        aql_stop(q->aql);
        aql_free(q->aql);
    }
    kfd_sdma_free(q->sdma);
    free(q);
}
