// queue: batches packets for a NPU and rings for them. (A GPU's queue is in gpu-queue.c.)
//
// A NPU has one hardware queue; the handles of this agent share it under its lock. What ROCr 7.2
// cannot bear is kept from it here: a queue's life ends after 64 packets where indices do not wrap,
// and after 32 distinct PDIs everywhere; its doorbell is rung as seldom as possible, for each ring
// builds a hardware context anew; and each packet has a payload that no other packet in flight has.
//
// Kept true: a packet is settled (complete or failed) when the doorbell's flush returns, so slots,
// payloads and PDIs of earlier flushes are free, and a new queue can take the place of the old.
#include "hsac-impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    WAIT_SLICE_MS = 20,
    WAIT_LIMIT_S = 60, // for a runtime that is silent: neither completion nor error
};

static void on_error(hsa_status_t status, hsa_queue_t * queue, void * data) {
    (void) queue;
    struct hsac_ring * ring = data;
    __atomic_store_n(&ring->failure, (int) status, __ATOMIC_RELEASE);
}

static void queue_close(struct hsac_agent * a) {
    struct hsac_ring * ring = &a->ring;
    if (ring->queue) {
        a->h->api.hsa_queue_destroy(ring->queue);
        ring->queue = NULL;
    }
}

static enum status queue_open(struct hsac_agent * a, struct error * err) {
    struct hsac_ring * ring = &a->ring;
    __atomic_store_n(&ring->failure, 0, __ATOMIC_RELAXED);
    ring->next = 0;
    ring->n_pdis = 0;
    hsa_status_t status =
        a->h->api.hsa_queue_create(a->handle, AIE_ABI_QUEUE_PACKETS, HSA_QUEUE_TYPE_SINGLE,
                                   on_error, ring, 0, 0, &ring->queue);
    if (status == HSA_STATUS_SUCCESS) {
        return ST_OK;
    }
    ring->queue = NULL;
    return error_set(err, ST_DEVICE,
                     "%s: hsa_queue_create: %s (another user of the NPU in this process?)", a->name,
                     hsac_status_text(a->h, status));
}

// ---- flush ----

// True when all packets up to ring->next are complete; false when the queue failed or fell silent,
// and then `why` says so.
static bool wait_packets(struct hsac_agent * a, const char ** why) {
    const struct hsac_api * api = &a->h->api;
    struct hsac_ring * ring = &a->ring;
    time_t start = time(NULL);
    for (;;) {
        int failure = __atomic_load_n(&ring->failure, __ATOMIC_ACQUIRE);
        if (failure) {
            const char * text = a->h->emulated ? api->hsa_emu_last_error(a->handle) : "";
            *why = *text ? text : hsac_status_text(a->h, (hsa_status_t) failure);
            return false;
        }
        bool consumed = api->hsa_queue_load_read_index_scacquire(ring->queue) >= ring->next;
        if (!a->h->abi->signals) {
            if (consumed) {
                return true;
            }
            nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
        } else if (api->hsa_signal_wait_scacquire(ring->completion, HSA_SIGNAL_CONDITION_LT, 1,
                                                  WAIT_SLICE_MS * 1000 * 1000,
                                                  HSA_WAIT_STATE_BLOCKED) < 1) {
            return true;
        }
        if (time(NULL) - start > WAIT_LIMIT_S) {
            *why = consumed
                       ? "packets were taken but never signalled; this runtime may not speak the "
                         "packet ABI that was chosen, try GGML_HSA_AIE_ABI=B"
                       : "packets were not taken";
            return false;
        }
    }
}

// Marks every handle that has a packet from ticket `first` on.
static void fail_handles(struct hsac_ring * ring, uint64_t first, const struct error * err) {
    for (struct hsac_queue * q = ring->handles; q; q = q->next) {
        if (q->last >= first && q->failed.status == ST_OK) {
            q->failed = *err;
        }
    }
}

// Rings for the pending packets and waits. Failures go to the handles that own the packets.
static void flush(struct hsac_agent * a) {
    const struct hsac_api * api = &a->h->api;
    struct hsac_ring * ring = &a->ring;
    uint32_t n = ring->pending;
    if (n == 0) {
        return;
    }
    uint64_t first_index = ring->next - n;
    if (a->h->abi->signals) {
        api->hsa_signal_store_screlease(ring->completion, n);
    }
    api->hsa_queue_add_write_index_screlease(ring->queue, n);
    api->hsa_signal_store_screlease(ring->queue->doorbell_signal,
                                    (hsa_signal_value_t) (ring->next - 1));
    const char * why = NULL;
    bool ok = wait_packets(a, &why);
    uint64_t first_ticket = ring->settled + 1;
    ring->settled += n;
    ring->pending = 0;
    if (!ok) {
        struct error err;
        error_set(&err, ST_DEVICE, "%s: %s", a->name, why);
        uint64_t read = api->hsa_queue_load_read_index_scacquire(ring->queue);
        uint64_t done = read > first_index ? read - first_index : 0;
        // A silent queue took packets that nobody saw complete.
        if (!__atomic_load_n(&ring->failure, __ATOMIC_ACQUIRE)) {
            done = 0;
        }
        fail_handles(ring, first_ticket + done, &err);
        queue_close(a); // nothing runs in it any more
    }
}

// ---- dispatch ----

static enum status check(struct hsac_agent * a, const struct hsac_dispatch * d,
                         struct error * err) {
    enum hsac_pool pool;
    if (d->n_operands < 0 || d->n_operands > HSAC_MAX_OPERANDS) {
        return error_set(err, ST_INVALID, "dispatch with %d operands: at most %d", d->n_operands,
                         HSAC_MAX_OPERANDS);
    }
    if (!d->pdi || d->pdi_size == 0 || !hsac_agent_owns(a, d->pdi, d->pdi_size, &pool) ||
        pool != HSAC_POOL_DEV) {
        return error_set(err, ST_INVALID, "PDI at %p, %zu bytes: not in the device heap of %s",
                         d->pdi, d->pdi_size, a->name);
    }
    if (!d->insts || d->n_insts == 0 || (uintptr_t) d->insts % 4 ||
        !hsac_agent_owns(a, d->insts, 4 * (uint64_t) d->n_insts, &pool) || pool != HSAC_POOL_DEV) {
        return error_set(err, ST_INVALID,
                         "instruction stream at %p, %u words: not in the device heap of %s",
                         d->insts, d->n_insts, a->name);
    }
    for (int i = 0; i < d->n_operands; i++) {
        if (!hsac_agent_owns(a, d->operands[i].addr, d->operands[i].size, &pool)) {
            return error_set(
                err, ST_INVALID, "operand %d at %p, %llu bytes: in no allocation of %s", i,
                d->operands[i].addr, (unsigned long long) d->operands[i].size, a->name);
        }
    }
    const char * why = a->h->abi->refuse(d);
    return why ? error_set(err, ST_UNSUPPORTED, "dispatch on %s: %s", a->name, why) : ST_OK;
}

static bool pdi_seen(const struct hsac_ring * ring, const void * pdi) {
    for (int i = 0; i < ring->n_pdis; i++) {
        if (ring->pdis[i] == pdi) {
            return true;
        }
    }
    return false;
}

// Makes sure that the queue exists and takes one more packet with this PDI.
static enum status make_room(struct hsac_agent * a, const void * pdi, struct error * err) {
    struct hsac_ring * ring = &a->ring;
    bool life_ends = (!a->h->abi->wraps && ring->next == AIE_ABI_QUEUE_PACKETS) ||
                     (ring->n_pdis == AIE_ABI_CONTEXT_PDIS && !pdi_seen(ring, pdi));
    if (ring->queue && (life_ends || ring->pending == AIE_ABI_QUEUE_PACKETS)) {
        flush(a);
        if (life_ends) {
            queue_close(a);
        }
    }
    if (!ring->queue) {
        enum status st = queue_open(a, err);
        if (st != ST_OK) {
            return st;
        }
    }
    if (!pdi_seen(ring, pdi)) {
        ring->pdis[ring->n_pdis++] = pdi;
    }
    return ST_OK;
}

enum status hsac_queue_dispatch(struct hsac_queue * q, const struct hsac_dispatch * d,
                                struct error * err) {
    struct hsac_agent * a = q->agent;
    struct hsac_ring * ring = &a->ring;
    if (q->gpu) {
        return error_set(err, ST_INVALID, "%s takes no kernels of a NPU", a->name);
    }
    enum status st = check(a, d, err);
    if (st != ST_OK) {
        return st;
    }
    pthread_mutex_lock(&ring->lock);
    st = make_room(a, d->pdi, err);
    // Earlier packets of this handle failed: what would run now may need what they did not compute.
    if (st == ST_OK && q->failed.status != ST_OK) {
        st = q->failed.status;
        if (err) {
            *err = q->failed;
        }
    }
    if (st == ST_OK) {
        uint64_t slot = ring->next % AIE_ABI_QUEUE_PACKETS;
        a->h->abi->write(d, ring->completion, (uint8_t *) ring->queue->base_address + 64 * slot,
                         ring->payloads + HSAC_PAYLOAD_BYTES * slot);
        ring->next++;
        ring->pending++;
        q->last = ++ring->issued;
    }
    pthread_mutex_unlock(&ring->lock);
    return st;
}

enum status hsac_queue_wait(struct hsac_queue * q, struct error * err) {
    if (q->gpu) {
        return hsac_gpu_queue_wait(q->agent, q->gpu, err);
    }
    struct hsac_ring * ring = &q->agent->ring;
    pthread_mutex_lock(&ring->lock);
    if (q->last > ring->settled) {
        flush(q->agent);
    }
    enum status st = q->failed.status;
    if (st != ST_OK && err) {
        *err = q->failed;
    }
    q->failed.status = ST_OK;
    pthread_mutex_unlock(&ring->lock);
    return st;
}

// ---- handles ----

static void ring_stop(struct hsac_agent * a) {
    queue_close(a);
    if (a->ring.completion.handle) {
        a->h->api.hsa_signal_destroy(a->ring.completion);
        a->ring.completion.handle = 0;
    }
    hsac_free(a, a->ring.payloads);
    a->ring.payloads = NULL;
}

static enum status ring_start(struct hsac_agent * a, struct error * err) {
    a->ring.payloads = hsac_alloc(a, HSAC_POOL_KERNARG, AIE_ABI_QUEUE_PACKETS * HSAC_PAYLOAD_BYTES);
    if (!a->ring.payloads) {
        return error_set(err, ST_NO_MEMORY, "%s: the kernel argument pool is full", a->name);
    }
    hsa_status_t status = a->h->api.hsa_signal_create(0, 0, NULL, &a->ring.completion);
    if (status != HSA_STATUS_SUCCESS) {
        a->ring.completion.handle = 0;
        return error_set(err, ST_DEVICE, "%s: hsa_signal_create: %s", a->name,
                         hsac_status_text(a->h, status));
    }
    // Opened at once, so that a device that is taken says so now and not in mid-graph.
    return queue_open(a, err);
}

enum status hsac_queue_new(struct hsac_agent * a, struct hsac_queue ** out, struct error * err) {
    *out = NULL;
    if (a->kind == HSAC_NPU && !a->h->abi) {
        return error_set(err, ST_UNSUPPORTED,
                         "%s is older than ROCm 7: its packets cannot carry kernels "
                         "to an NPU; install ROCr 7 or later",
                         a->h->path);
    }
    struct hsac_queue * q = calloc(1, sizeof *q);
    if (!q) {
        return error_set(err, ST_NO_MEMORY, "%s: no memory for a queue", a->name);
    }
    q->agent = a;
    if (a->kind == HSAC_GPU) {
        enum status st = hsac_gpu_queue_new(a, &q->gpu, err);
        if (st != ST_OK) {
            free(q);
            return st;
        }
        *out = q;
        return ST_OK;
    }
    pthread_mutex_lock(&a->ring.lock);
    enum status st = ST_OK;
    if (!a->ring.handles) {
        st = ring_start(a, err);
        if (st != ST_OK) {
            ring_stop(a);
        }
    }
    if (st == ST_OK) {
        q->next = a->ring.handles;
        a->ring.handles = q;
        *out = q;
    }
    pthread_mutex_unlock(&a->ring.lock);
    if (st != ST_OK) {
        free(q);
    }
    return st;
}

void hsac_queue_free(struct hsac_queue * q) {
    if (!q) {
        return;
    }
    struct hsac_agent * a = q->agent;
    if (q->gpu) {
        hsac_gpu_queue_free(a, q->gpu);
        free(q);
        return;
    }
    pthread_mutex_lock(&a->ring.lock);
    if (q->last > a->ring.settled) {
        flush(a); // its packets use memory that the caller is about to free
    }
    struct hsac_queue ** link = &a->ring.handles;
    while (*link != q) {
        link = &(*link)->next;
    }
    *link = q->next;
    if (!a->ring.handles) {
        ring_stop(a);
    }
    pthread_mutex_unlock(&a->ring.lock);
    free(q);
}
