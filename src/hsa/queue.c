// queue: batches packets for a NPU and rings for them. (A GPU's queue is in gpu-queue.c.)
//
// A NPU has one hardware queue; the handles of this agent share it under its lock. A doorbell is
// rung as seldom as possible, for each costs at least a call of the driver. What runtimes and
// driver cannot bear is kept from them here:
//
//   - A batch is bounded: by the slots of the ring, by the bytes that its commands take up in the
//     driver's buffer, and by the time that the runtime waits for it.
//   - Where indices do not wrap around they are set back to 0 when a batch is complete. A new queue
//     would do the same, but ROCr 7.2 has no hardware context for a second one.
//   - Stale lists. ROCr 7.2 makes a context for each batch and keeps the list of its PDIs under the
//     id of the context before. The driver hands ids out in a circle; when one comes again, ROCr
//     finds a list of long ago under it and believes that the context at hand was made with that
//     one: a kernel then runs on another kernel's PDI. It goes well when all lists are the same. So
//     every batch shows all PDIs that ever came, in the order in which they first came; the ones
//     that it has no work for get a packet with a stream that does nothing. A list that was found
//     with all PDIs in it is not made again, so after as many batches as there are ids no context
//     is made any more, and nothing needs to be shown. A second queue, after a batch that failed,
//     gets a context only with a PDI that is on no list yet: a copy of one is shown first.
//
// Kept true: a packet is settled (complete or failed) when the doorbell's flush returns, so slots,
// payloads and PDIs of earlier flushes are free.
#include "hsac-impl.h"

#include <hsa/amd_hsa_queue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    WAIT_SLICE_MS = 20,
    SHOW_OPERANDS = 1,  // the least that a packet can have
    CONTEXT_IDS = 1024, // that the driver hands out before it begins again; older ones 255
};

static void on_error(hsa_status_t status, hsa_queue_t * queue, void * data) {
    (void) queue;
    struct hsac_ring * ring = data;
    __atomic_store_n(&ring->failure, (int) status, __ATOMIC_RELEASE);
}

static void queue_close(struct hsac_agent * a) {
    struct hsac_ring * ring = &a->ring;
    if (ring->queue) {
        pthread_mutex_lock(&a->driver);
        a->h->api.hsa_queue_destroy(ring->queue);
        pthread_mutex_unlock(&a->driver);
        ring->queue = NULL;
    }
}

// A PDI that no context has seen, where stale lists would leave a second queue without one. PDIs
// are as many as ROCr keeps; each failure takes one of them, and then the device is lost.
static enum status show_fresh_pdi(struct hsac_agent * a, struct error * err) {
    struct hsac_ring * ring = &a->ring;
    int n = ring->n_pdis;
    if (n == 0 || ring->last.status == ST_OK) { // the first queue, or one that never had a batch
        return ST_OK;
    }
    void * copy = n < AIE_ABI_CONTEXT_PDIS && ring->idle.insts
                      ? hsac_alloc(a, HSAC_POOL_DEV, ring->pdi_bytes[0])
                      : NULL;
    if (!copy) {
        error_set(&ring->lost, ST_DEVICE,
                  "%.300s; %s keeps %d PDIs in the life of a process, and there is none left for "
                  "another queue: start a new program",
                  ring->last.text, a->h->runtime->name, AIE_ABI_CONTEXT_PDIS);
        if (err) {
            *err = ring->lost;
        }
        return ST_DEVICE;
    }
    memcpy(copy, ring->pdis[0], ring->pdi_bytes[0]);
    hsac_host_end(a, copy, ring->pdi_bytes[0]);
    ring->pdis[n] = copy;
    ring->pdi_bytes[n] = ring->pdi_bytes[0];
    ring->n_pdis++;
    ring->quiet = 0;
    return ST_OK;
}

static enum status queue_open(struct hsac_agent * a, struct error * err) {
    struct hsac_ring * ring = &a->ring;
    if (ring->queue) {
        return ST_OK;
    }
    if (ring->lost.status != ST_OK) {
        if (err) {
            *err = ring->lost;
        }
        return ring->lost.status;
    }
    ring->n_pdis = a->h->runtime->stale_lists ? ring->n_pdis : 0;
    __atomic_store_n(&ring->failure, 0, __ATOMIC_RELAXED);
    ring->next = 0;
    pthread_mutex_lock(&a->driver);
    hsa_status_t status =
        a->h->api.hsa_queue_create(a->handle, AIE_ABI_QUEUE_PACKETS, HSA_QUEUE_TYPE_SINGLE,
                                   on_error, ring, 0, 0, &ring->queue);
    pthread_mutex_unlock(&a->driver);
    if (status == HSA_STATUS_SUCCESS) {
        enum status st = a->h->runtime->stale_lists ? show_fresh_pdi(a, err) : ST_OK;
        if (st != ST_OK) {
            queue_close(a);
        }
        return st;
    }
    ring->queue = NULL;
    return error_set(err, ST_DEVICE,
                     "%s: hsa_queue_create: %s (another user of the NPU in this process?)", a->name,
                     hsac_status_text(a->h, status));
}

// ---- packets ----

uint64_t hsac_batch_us(const struct hsac_agent * a) {
    return a->h->runtime->waits_briefly ? HSAC_BATCH_US : HSAC_LONG_BATCH_US;
}

uint64_t hsac_most_us(const struct hsac_agent * a) {
    return a->h->runtime->waits_briefly ? HSAC_MOST_US : HSAC_LONG_MOST_US;
}

static void write_packet(struct hsac_agent * a, const struct hsac_dispatch * d, uint64_t ticket) {
    struct hsac_ring * ring = &a->ring;
    uint64_t slot = ring->next++ % AIE_ABI_QUEUE_PACKETS;
    a->h->abi->write(d, hsac_declares(), ring->completion,
                     (uint8_t *) ring->queue->base_address + 64 * slot,
                     ring->payloads + HSAC_PAYLOAD_BYTES * slot);
    ring->tickets[slot] = ticket;
    ring->tags[slot] = d->tag;
    ring->names[slot] = d->name ? strdup(d->name) : NULL; // without memory it has none
    ring->named |= ring->names[slot] != NULL;
    ring->pending++;
    ring->bytes += hsac_chain_bytes(d->n_operands);
    ring->us += d->us + HSAC_DISPATCH_US + (d->pdi != ring->resident) * HSAC_PDI_US;
    ring->resident = d->pdi;
}

// ---- PDIs ----

static bool shows_pdis(const struct hsac_agent * a) {
    return a->h->runtime->stale_lists && a->ring.quiet <= CONTEXT_IDS;
}

static int pdi_index(const struct hsac_ring * ring, const void * pdi) {
    int i = 0;
    while (i < ring->n_pdis && ring->pdis[i] != pdi) {
        i++;
    }
    return i;
}

// Bits 0 to n - 1.
static uint32_t below(int n) {
    return n >= 32 ? UINT32_MAX : (1u << n) - 1;
}

static void show(struct hsac_agent * a, uint32_t pdis) {
    struct hsac_ring * ring = &a->ring;
    for (int i = 0; i < ring->n_pdis; i++) {
        if (pdis & ~ring->shown & 1u << i) {
            const struct hsac_dispatch d = {
                .pdi = ring->pdis[i],
                .insts = ring->idle.insts,
                .n_insts = (uint32_t) ring->idle.n,
                .n_operands = SHOW_OPERANDS,
                .operands = {{ring->payloads, 4}}, // not touched
            };
            write_packet(a, &d, 0);
            ring->shown |= 1u << i;
        }
    }
}

// ---- flush ----

// True when all packets up to ring->next are complete; false when the queue failed or fell silent,
// and then `why` says so.
static bool wait_packets(struct hsac_agent * a, const char ** why) {
    const struct hsac_api * api = &a->h->api;
    struct hsac_ring * ring = &a->ring;
    struct hsac_watch watch = hsac_watch_start(a->h);
    for (;;) {
        int failure = __atomic_load_n(&ring->failure, __ATOMIC_ACQUIRE);
        if (failure) {
            const char * text = a->h->ours ? api->hsa_emu_last_error(a->handle) : "";
            *why = *text ? text : hsac_status_text(a->h, (hsa_status_t) failure);
            return false;
        }
        uint64_t read = api->hsa_queue_load_read_index_scacquire(ring->queue);
        bool consumed = read >= ring->next;
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
        if (hsac_watch_silent(&watch, read)) {
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

// How many of the caller's packets of this batch are complete, by the queue's read index.
static uint64_t tickets_done(const struct hsac_ring * ring, uint64_t first, uint64_t read) {
    uint64_t done = 0;
    for (uint64_t i = first; i < read && i < ring->next; i++) {
        done += ring->tickets[i % AIE_ABI_QUEUE_PACKETS] != 0;
    }
    return done;
}

// ROCr that has no way to say that a batch failed asserts; it never comes to this line.
static void fail_batch(struct hsac_agent * a, uint64_t first_index, uint64_t first_ticket,
                       const char * why) {
    struct hsac_ring * ring = &a->ring;
    struct error err;
    error_set(&err, ST_DEVICE, "%s: %s", a->name, why);
    // A silent queue took packets that nobody saw complete.
    uint64_t done = 0;
    if (__atomic_load_n(&ring->failure, __ATOMIC_ACQUIRE)) {
        done = tickets_done(ring, first_index,
                            a->h->api.hsa_queue_load_read_index_scacquire(ring->queue));
    }
    fail_handles(ring, first_ticket + done, &err);
    queue_close(a); // nothing runs in it any more
    ring->last = err;
    // A queue that the runtime stopped is over. One that fell silent may be stuck in a driver that
    // ROCr with stale lists gives no second context for.
    if (a->h->runtime->stale_lists && !__atomic_load_n(&ring->failure, __ATOMIC_ACQUIRE)) {
        ring->lost = err;
    }
}

// Both are public fields of every runtime's queue. Nothing is in flight.
static void reset_indices(struct hsac_ring * ring) {
    amd_queue_t * queue = (amd_queue_t *) (void *) ring->queue;
    __atomic_store_n(&queue->write_dispatch_id, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&queue->read_dispatch_id, 0, __ATOMIC_RELEASE);
    ring->next = 0;
}

static void ring_doorbell(struct hsac_agent * a) {
    const struct hsac_api * api = &a->h->api;
    struct hsac_ring * ring = &a->ring;
    if (a->h->abi->signals) {
        api->hsa_signal_store_screlease(ring->completion, ring->pending);
    }
    api->hsa_queue_add_write_index_screlease(ring->queue, ring->pending);
    pthread_mutex_lock(&a->driver); // ROCr reads the packets in this call
    api->hsa_signal_store_screlease(ring->queue->doorbell_signal,
                                    (hsa_signal_value_t) (ring->next - 1));
    pthread_mutex_unlock(&a->driver);
}

// Rings for the batch and waits. Failures go to the handles that own the packets.
static void flush(struct hsac_agent * a) {
    struct hsac_ring * ring = &a->ring;
    if (ring->pending == 0) {
        return;
    }
    if (shows_pdis(a)) {
        show(a, below(ring->n_pdis));
        ring->quiet++;
    }
    uint64_t first_index = ring->next - ring->pending, first_ticket = ring->settled + 1;
    ring->settled = ring->issued;
    const char * why = NULL;
    struct error gone = {0};
    if (a->device && amdxdna_check(a->device, &gone) != ST_OK) {
        why = gone.text;
    }
    uint64_t before = hsac_account_count(a, ring->named);
    if (ring->named) {
        hsac_account_name(a, before, first_index, ring->pending);
        ring->named = false;
    }
    if (!why) {
        ring_doorbell(a);
    }
    if (why || !wait_packets(a, &why)) {
        fail_batch(a, first_index, first_ticket, why);
    } else {
        hsac_account_tell(a, before, first_index, ring->pending);
        if (a->h->runtime->never_wraps) {
            reset_indices(ring);
        }
    }
    ring->pending = ring->bytes = ring->shown = 0;
    ring->us = 0;
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
        !hsac_agent_owns(a, d->insts, 4 * (uint64_t) d->n_insts, &pool) ||
        (pool != HSAC_POOL_DEV && pool != HSAC_POOL_STREAM)) {
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
        if (!hsac_agent_finds(a, d->operands[i].addr)) {
            return error_set(
                err, ST_DEVICE,
                "operand %d at %p lies in the topmost buffer, inside of which %s finds "
                "no address, and no other could be put above it",
                i, d->operands[i].addr, a->h->runtime->name);
        }
    }
    const uint64_t one = hsac_batch_us(a) - HSAC_DISPATCH_US - HSAC_PDI_US;
    if (d->us > one) {
        return error_set(
            err, ST_UNSUPPORTED,
            "a kernel of about %llu microseconds: %llu is the most that may run at once",
            (unsigned long long) d->us, (unsigned long long) one);
    }
    const char * why = a->h->abi->refuse(d);
    return why ? error_set(err, ST_UNSUPPORTED, "dispatch on %s: %s", a->name, why) : ST_OK;
}

// True when the batch takes this packet, and what must be shown before and behind it, too.
static bool fits(const struct hsac_agent * a, const struct hsac_dispatch * d, int pdi) {
    const struct hsac_ring * ring = &a->ring;
    uint32_t packets = 1, bytes = hsac_chain_bytes(d->n_operands);
    if (shows_pdis(a)) {
        int known = pdi < ring->n_pdis ? ring->n_pdis : pdi + 1;
        int more = __builtin_popcount(below(known) & ~ring->shown & ~(1u << pdi));
        packets += (uint32_t) more;
        bytes += (uint32_t) more * hsac_chain_bytes(SHOW_OPERANDS);
    }
    uint64_t us = d->us + packets * (uint64_t) (HSAC_DISPATCH_US + HSAC_PDI_US);
    return ring->pending + packets <= AIE_ABI_QUEUE_PACKETS &&
           ring->bytes + bytes <= AIE_CHAIN_BYTES && ring->us + us <= hsac_batch_us(a);
}

// Can contexts come to know the PDI?
static enum status may_know_pdi(const struct hsac_agent * a, const void * pdi, struct error * err) {
    const struct hsac_ring * ring = &a->ring;
    if (!a->h->runtime->stale_lists || pdi_index(ring, pdi) < ring->n_pdis) {
        return ST_OK;
    }
    if (ring->n_pdis > 0 && !ring->idle.insts) {
        return error_set(err, ST_UNSUPPORTED,
                         "%s: a second PDI, and no idle stream to show the first one with",
                         a->name);
    }
    if (ring->n_pdis == AIE_ABI_CONTEXT_PDIS) {
        return error_set(err, ST_UNSUPPORTED,
                         "%s: %s keeps %d PDIs in the life of a process, and all are in use; a "
                         "newer ROCr has no such limit",
                         a->name, a->h->runtime->name, AIE_ABI_CONTEXT_PDIS);
    }
    return ST_OK;
}

// The PDI's place among those that contexts know.
static enum status know_pdi(struct hsac_agent * a, const void * pdi, int * index,
                            struct error * err) {
    struct hsac_ring * ring = &a->ring;
    enum status st = may_know_pdi(a, pdi, err);
    if (st != ST_OK) {
        return st;
    }
    *index = pdi_index(ring, pdi);
    if (*index == AIE_ABI_CONTEXT_PDIS) {
        flush(a);
        queue_close(a);
        *index = 0;
        return queue_open(a, err);
    }
    return ST_OK;
}

bool hsac_agent_forget_pdi(struct hsac_agent * a, const void * pdi) {
    struct hsac_ring * ring = &a->ring;
    if (hsac_forked(a->h)) {
        return false; // not ours to close
    }
    pthread_mutex_lock(&ring->lock);
    bool known = pdi_index(ring, pdi) < ring->n_pdis;
    bool may = !known || !a->h->runtime->stale_lists;
    if (known && may) {
        flush(a);
        queue_close(a); // the context goes with it, and the next one begins without PDIs
        ring->n_pdis = 0;
    }
    ring->resident = ring->resident == pdi ? NULL : ring->resident;
    pthread_mutex_unlock(&ring->lock);
    return may;
}

static enum status make_room(struct hsac_agent * a, const struct hsac_dispatch * d,
                             struct error * err) {
    struct hsac_ring * ring = &a->ring;
    int pdi;
    enum status st = queue_open(a, err);
    if (st == ST_OK) {
        st = know_pdi(a, d->pdi, &pdi, err);
    }
    if (st == ST_OK && !fits(a, d, pdi)) {
        flush(a);
        st = queue_open(a, err); // it may have failed
        pdi = st == ST_OK ? pdi_index(ring, d->pdi) : 0;
    }
    if (st != ST_OK) {
        return st;
    }
    if (pdi == ring->n_pdis) {
        ring->pdi_bytes[ring->n_pdis] = d->pdi_size;
        ring->pdis[ring->n_pdis++] = d->pdi;
        ring->quiet = 0;
    }
    if (shows_pdis(a)) {
        show(a, below(pdi)); // in their order
    }
    ring->shown |= 1u << pdi;
    return ST_OK;
}

static enum status check_all(struct hsac_queue * q, const struct hsac_dispatch * d,
                             struct error * err) {
    if (q->gpu) {
        return error_set(err, ST_INVALID, "%s takes no kernels of a NPU", q->agent->name);
    }
    enum status st = hsac_check_fork(q->agent, err);
    return st == ST_OK ? check(q->agent, d, err) : st;
}

enum status hsac_queue_admits(struct hsac_queue * q, const struct hsac_dispatch * d,
                              struct error * err) {
    struct hsac_ring * ring = &q->agent->ring;
    enum status st = check_all(q, d, err);
    if (st != ST_OK) {
        return st;
    }
    pthread_mutex_lock(&ring->lock);
    st = queue_open(q->agent, err);
    st = st == ST_OK ? may_know_pdi(q->agent, d->pdi, err) : st;
    pthread_mutex_unlock(&ring->lock);
    return st;
}

enum status hsac_queue_dispatch(struct hsac_queue * q, const struct hsac_dispatch * d,
                                struct error * err) {
    struct hsac_agent * a = q->agent;
    struct hsac_ring * ring = &a->ring;
    enum status st = check_all(q, d, err);
    if (st != ST_OK) {
        return st;
    }
    pthread_mutex_lock(&ring->lock);
    // Making room may ring, and earlier packets of this handle may fail: what would run now may
    // need what they did not compute.
    st = make_room(a, d, err);
    if (q->failed.status != ST_OK) {
        st = q->failed.status;
        if (err) {
            *err = q->failed;
        }
    }
    if (st == ST_OK) {
        q->last = ++ring->issued;
        write_packet(a, d, q->last);
    }
    pthread_mutex_unlock(&ring->lock);
    return st;
}

enum status hsac_queue_wait(struct hsac_queue * q, struct error * err) {
    enum status st = hsac_check_fork(q->agent, err);
    if (st != ST_OK) {
        return st;
    }
    if (q->gpu) {
        pthread_mutex_lock(&q->gpu->lock);
        st = hsac_gpu_queue_wait(q->agent, q->gpu, err);
        pthread_mutex_unlock(&q->gpu->lock);
        return st;
    }
    struct hsac_ring * ring = &q->agent->ring;
    pthread_mutex_lock(&ring->lock);
    if (q->last > ring->settled) {
        flush(q->agent);
    }
    st = q->failed.status;
    if (st != ST_OK && err) {
        *err = q->failed;
    }
    q->failed.status = ST_OK;
    pthread_mutex_unlock(&ring->lock);
    return st;
}

// ---- the ring's life ----

// The queue stays when the last handle goes: see stale lists.
void hsac_ring_free(struct hsac_agent * a) {
    queue_close(a);
    if (a->ring.completion.handle) {
        a->h->api.hsa_signal_destroy(a->ring.completion);
        a->ring.completion.handle = 0;
    }
    hsac_free(a, a->ring.payloads);
    hsac_free(a, a->ring.idle.insts);
    a->ring.payloads = NULL;
    a->ring.idle.insts = NULL;
    for (int i = 0; i < AIE_ABI_QUEUE_PACKETS; i++) { // of packets that were never rung
        free(a->ring.names[i]);
        a->ring.names[i] = NULL;
    }
}

static enum status ring_start(struct hsac_agent * a, struct error * err) {
    struct hsac_ring * ring = &a->ring;
    if (!ring->payloads) {
        ring->payloads =
            hsac_alloc(a, HSAC_POOL_KERNARG, AIE_ABI_QUEUE_PACKETS * HSAC_PAYLOAD_BYTES);
    }
    if (!ring->payloads) {
        return error_set(err, ST_NO_MEMORY, "%s: the kernel argument pool is full", a->name);
    }
    hsa_status_t status = HSA_STATUS_SUCCESS;
    if (!ring->completion.handle) {
        status = a->h->api.hsa_signal_create(0, 0, NULL, &ring->completion);
    }
    if (status != HSA_STATUS_SUCCESS) {
        ring->completion.handle = 0;
        return error_set(err, ST_DEVICE, "%s: hsa_signal_create: %s", a->name,
                         hsac_status_text(a->h, status));
    }
    // Opened at once, so that a device that is taken says so now and not in mid-graph.
    return queue_open(a, err);
}

enum status hsac_agent_set_idle(struct hsac_agent * a, const uint32_t * insts, size_t n,
                                struct error * err) {
    struct hsac_ring * ring = &a->ring;
    enum status st = hsac_check_fork(a, err);
    if (st != ST_OK) {
        return st;
    }
    pthread_mutex_lock(&ring->lock);
    if (!ring->idle.insts) {
        ring->idle.insts = hsac_alloc(a, HSAC_POOL_STREAM, n * sizeof *insts);
        if (ring->idle.insts) {
            hsac_write(a, ring->idle.insts, insts, n * sizeof *insts, NULL);
            ring->idle.n = n;
        } else {
            st = error_set(err, ST_NO_MEMORY, "%s: the device heap is full", a->name);
        }
    }
    pthread_mutex_unlock(&ring->lock);
    return st;
}

// ---- handles ----

enum status hsac_queue_new(struct hsac_agent * a, struct hsac_queue ** out, struct error * err) {
    *out = NULL;
    enum status checked = hsac_check_fork(a, err);
    checked = checked == ST_OK ? hsac_agent_check(a, err) : checked;
    checked = checked == ST_OK ? hsac_flush_check(err) : checked;
    if (checked != ST_OK) {
        return checked;
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
    enum status st = ring_start(a, err);
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
    if (!q || hsac_forked(q->agent->h)) {
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
    pthread_mutex_unlock(&a->ring.lock);
    free(q);
}
