// gpu-queue: kernels on a GPU, one behind the other. A packet is sent at once and waits for nobody
// but the packet before it, and the copies between the two (async.c); its arguments lie in a slot
// of its own until it is complete. Waiting is a barrier packet with a signal: kernels themselves
// carry none, so that the GPU runs ahead.
//
// Kept true: slots and arguments of packets that are not settled are not written to. A queue that
// the runtime stopped is never used again; the next launch makes a new one.
#include "hsac-impl.h"

#include <stdlib.h>
#include <string.h>

enum { GPU_QUEUE_PACKETS = 256, WAIT_SLICE_MS = 20 };

static void on_error(hsa_status_t status, hsa_queue_t * queue, void * data) {
    struct hsac_gpu_queue * q = data;
    struct error why = {0};
    (void) queue;
    error_set(&why, ST_DEVICE, "kernels before it failed: status 0x%x of the queue",
              (unsigned) status);
    __atomic_store_n(&q->failure, (int) status, __ATOMIC_SEQ_CST);
    hsac_held_fail(q, &why); // nobody else reaches these marks now
}

static enum status open_queue(struct hsac_agent * a, struct hsac_gpu_queue * q,
                              struct error * err) {
    if (q->queue) {
        return ST_OK;
    }
    __atomic_store_n(&q->failure, 0, __ATOMIC_RELAXED);
    q->next = q->settled = 0;
    hsa_status_t status =
        a->h->api.hsa_queue_create(a->handle, GPU_QUEUE_PACKETS, HSA_QUEUE_TYPE_SINGLE, on_error, q,
                                   UINT32_MAX, UINT32_MAX, &q->queue);
    if (status != HSA_STATUS_SUCCESS) {
        q->queue = NULL;
        return error_set(err, ST_DEVICE, "%s: hsa_queue_create: %s", a->name,
                         hsac_status_text(a->h, status));
    }
    return ST_OK;
}

static void close_queue(struct hsac_agent * a, struct hsac_gpu_queue * q) {
    if (q->queue) {
        a->h->api.hsa_queue_destroy(q->queue);
        q->queue = NULL;
    }
}

// ---- packets ----

// The slot of the next packet; there is one.
static void * slot_of(struct hsac_gpu_queue * q) {
    return (uint8_t *) q->queue->base_address + 64 * (q->next & (q->queue->size - 1));
}

// The first packet after a wait sees what the host wrote; between kernels the GPU's own caches are
// enough. Every packet waits for the one before it.
static uint32_t header_of(const struct hsac_gpu_queue * q, uint32_t type, uint32_t acquire,
                          uint32_t release) {
    acquire = q->next == q->settled ? HSA_FENCE_SCOPE_SYSTEM : acquire;
    return type << HSA_PACKET_HEADER_TYPE | 1u << HSA_PACKET_HEADER_BARRIER |
           acquire << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
           release << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE;
}

// The first word makes the packet valid: it is written last, in one piece.
static void send(const struct hsac_agent * a, struct hsac_gpu_queue * q, void * packet,
                 uint32_t first_word) {
    __atomic_store_n((uint32_t *) packet, first_word, __ATOMIC_RELEASE);
    a->h->api.hsa_queue_add_write_index_screlease(q->queue, 1);
    a->h->api.hsa_signal_store_screlease(q->queue->doorbell_signal, (hsa_signal_value_t) q->next);
    q->next++;
}

// A copy's bytes are seen by what waits for it.
static void send_barrier(const struct hsac_agent * a, struct hsac_gpu_queue * q, bool front,
                         hsa_signal_t reaches) {
    hsa_barrier_and_packet_t * p = slot_of(q);
    memset((uint8_t *) p + 4, 0, sizeof *p - 4);
    for (int i = 0; front && i < q->n_front; i++) {
        p->dep_signal[i] = q->front[i]->signal;
    }
    p->completion_signal = reaches;
    send(a, q, p,
         header_of(q, HSA_PACKET_TYPE_BARRIER_AND, HSA_FENCE_SCOPE_SYSTEM, HSA_FENCE_SCOPE_SYSTEM));
}

void hsac_gpu_queue_barrier(const struct hsac_agent * a, struct hsac_gpu_queue * q, bool front,
                            const struct hsac_mark * reaches) {
    send_barrier(a, q, front, reaches ? reaches->signal : (hsa_signal_t){0});
}

static enum status wait_for_packets(struct hsac_agent * a, struct hsac_gpu_queue * q,
                                    struct error * err) {
    const struct hsac_api * api = &a->h->api;
    api->hsa_signal_store_screlease(q->done, 1);
    send_barrier(a, q, false, q->done);
    // In slices, because a queue that stopped does not complete anything. A kernel may take long;
    // one that hangs is ended by the driver, which stops the queue, or by our patience.
    struct hsac_watch watch = hsac_watch_start(a->h);
    while (api->hsa_signal_wait_scacquire(q->done, HSA_SIGNAL_CONDITION_LT, 1,
                                          WAIT_SLICE_MS * 1000 * 1000,
                                          HSA_WAIT_STATE_BLOCKED) >= 1) {
        int failure = __atomic_load_n(&q->failure, __ATOMIC_ACQUIRE);
        hsac_held_look(q);
        if (failure) {
            const char * text = a->h->ours ? api->hsa_emu_last_error(a->handle) : "";
            if (*text) { // it names the agent
                error_set(err, ST_DEVICE, "%s", text);
            } else {
                error_set(err, ST_DEVICE, "%s: %s", a->name,
                          hsac_status_text(a->h, (hsa_status_t) failure));
            }
            close_queue(a, q);
            return ST_DEVICE;
        }
        if (hsac_watch_silent(&watch, api->hsa_queue_load_read_index_scacquire(q->queue))) {
            close_queue(a, q); // nothing of it may write to memory that the caller uses again
            hsac_watch_error(&watch, a, "kernels that were sent", err);
            hsac_held_fail(q, err);
            return ST_DEVICE;
        }
    }
    q->settled = q->next;
    return ST_OK;
}

enum status hsac_gpu_queue_wait(struct hsac_agent * a, struct hsac_gpu_queue * q,
                                struct error * err) {
    struct error why = {0};
    if (q->queue && q->next != q->settled) {
        wait_for_packets(a, q, &why);
    }
    hsac_held_settle(a, q, &why);
    q->open = false;
    if (err && why.status != ST_OK) {
        *err = why;
    }
    return why.status;
}

enum status hsac_gpu_queue_room(struct hsac_agent * a, struct hsac_gpu_queue * q, uint32_t packets,
                                struct error * err) {
    enum status st = open_queue(a, q, err);
    if (st == ST_OK && q->next - q->settled + packets >= GPU_QUEUE_PACKETS) {
        st = hsac_gpu_queue_wait(a, q, err);
        st = st == ST_OK ? open_queue(a, q, err) : st;
    }
    return st;
}

static void send_kernel(const struct hsac_agent * a, struct hsac_gpu_queue * q,
                        const struct hsac_launch * l) {
    uint8_t * kernarg = q->kernargs + HSAC_MAX_KERNARG * (q->next % GPU_QUEUE_PACKETS);
    if (l->args_size) {
        memcpy(kernarg, l->args, l->args_size);
    }
    memset(kernarg + l->args_size, 0, HSAC_MAX_KERNARG - l->args_size);
    hsa_kernel_dispatch_packet_t * p = slot_of(q);
    memset((uint8_t *) p + 4, 0, sizeof *p - 4);
    p->workgroup_size_x = l->group[0];
    p->workgroup_size_y = l->group[1];
    p->workgroup_size_z = l->group[2];
    p->grid_size_x = l->grid[0];
    p->grid_size_y = l->grid[1];
    p->grid_size_z = l->grid[2];
    p->private_segment_size = l->private_bytes;
    p->group_segment_size = l->group_bytes;
    p->kernel_object = l->object;
    p->kernarg_address = kernarg;
    uint32_t setup = 3 << HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS;
    send(a, q, p,
         setup << 16 | header_of(q, HSA_PACKET_TYPE_KERNEL_DISPATCH, HSA_FENCE_SCOPE_AGENT,
                                 HSA_FENCE_SCOPE_AGENT));
    q->open = true;
}

enum status hsac_queue_launch(struct hsac_queue * handle, const struct hsac_launch * l,
                              struct error * err) {
    struct hsac_agent * a = handle->agent;
    struct hsac_gpu_queue * q = handle->gpu;
    if (!q) {
        return error_set(err, ST_INVALID, "%s takes no kernels of a GPU", a->name);
    }
    if (l->args_size > l->kernarg_bytes || l->kernarg_bytes > HSAC_MAX_KERNARG) {
        return error_set(err, ST_CORRUPT,
                         "a kernel takes %u bytes of arguments: expected %u to %d of them",
                         l->kernarg_bytes, l->args_size, HSAC_MAX_KERNARG);
    }
    enum status st = hsac_check_fork(a, err);
    if (st != ST_OK) {
        return st;
    }
    pthread_mutex_lock(&q->lock);
    st = hsac_gpu_queue_room(a, q, 2, err);
    if (st == ST_OK) {
        hsac_front_send(a, q);
        send_kernel(a, q, l);
    }
    pthread_mutex_unlock(&q->lock);
    return st;
}

// ---- life ----

enum status hsac_gpu_queue_new(struct hsac_agent * a, struct hsac_gpu_queue ** out,
                               struct error * err) {
    struct hsac_gpu_queue * q = calloc(1, sizeof *q);
    *out = NULL;
    if (!q) {
        return error_set(err, ST_NO_MEMORY, "%s: no memory for a queue", a->name);
    }
    pthread_mutex_init(&q->lock, NULL);
    pthread_mutex_init(&q->held_lock, NULL);
    q->kernargs = hsac_alloc(a, HSAC_POOL_KERNARG, GPU_QUEUE_PACKETS * HSAC_MAX_KERNARG);
    enum status st =
        q->kernargs ? ST_OK
                    : error_set(err, ST_NO_MEMORY, "%s: the kernel argument pool is full", a->name);
    if (st == ST_OK && a->h->api.hsa_signal_create(0, 0, NULL, &q->done) != HSA_STATUS_SUCCESS) {
        q->done.handle = 0;
        st = error_set(err, ST_DEVICE, "%s: no signal for a queue", a->name);
    }
    if (st == ST_OK) {
        st = open_queue(a, q, err); // at once, so that a device that is taken says so now
    }
    if (st != ST_OK) {
        hsac_gpu_queue_free(a, q);
        return st;
    }
    *out = q;
    return ST_OK;
}

void hsac_gpu_queue_free(struct hsac_agent * a, struct hsac_gpu_queue * q) {
    hsac_gpu_queue_wait(a, q, NULL); // it uses memory that the caller is about to free
    close_queue(a, q);
    hsac_slots_free(a, q);
    if (q->done.handle) {
        a->h->api.hsa_signal_destroy(q->done);
    }
    hsac_free(a, q->kernargs);
    pthread_mutex_destroy(&q->held_lock);
    pthread_mutex_destroy(&q->lock);
    free(q);
}
