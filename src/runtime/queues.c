// queues: rings of packets and the doorbell that runs them.
//
// As in ROCr, storing to a NPU queue's doorbell runs packets [read, write) in the calling thread:
// when the store returns they are complete, or the queue is in its error state. GPU queues have a
// thread of their own (gpu-queue.c). An error is reported three times: as a line on stderr, to the
// queue's callback, and through hsa_emu_last_error. After it the read index stays at the packet
// that failed and nothing more is executed.
#include "native.h"
#include "timeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void queue_free(struct rt_runtime * rt, struct rt_queue * q) {
    if (q->doorbell) {
        rt_signal_free(rt, q->doorbell);
    }
    if (q->agent->gpu) {
        if (q->ring) {
            rt_memory_unmap(rt, q->ring);
        }
        aql_free(q->aql);
    } else {
        free(q->ring);
    }
    free(q);
}

void rt_queues_release(struct rt_runtime * rt, struct rt_agent * agent) {
    struct rt_queue ** const lists[] = {&agent->queues, &agent->orphans};
    for (int i = 0; i < 2; i++) {
        while (*lists[i]) {
            struct rt_queue * q = *lists[i];
            *lists[i] = q->next;
            if (!q->aql || aql_stop(q->aql)) {
                queue_free(rt, q);
            }
        }
    }
    agent->n_queues = 0;
}

// Kernels read their own packet, so the GPU must reach the ring.
static uint8_t * ring_new(struct rt_agent * agent, size_t bytes) {
    struct rt_block * block;
    return agent->gpu ? rt_memory_map(agent, RT_BLOCK_RING, bytes, &block)
                      : aligned_alloc(RT_PAGE, bytes);
}

static struct rt_queue * queue_new(struct rt_runtime * rt, struct rt_agent * agent, uint32_t size,
                                   hsa_queue_type32_t type) {
    struct rt_queue * q = aligned_alloc(AMD_QUEUE_ALIGN_BYTES, sizeof *q);
    if (!q) {
        return NULL;
    }
    memset(q, 0, sizeof *q);
    q->agent = agent;
    q->ring = ring_new(agent, (size_t) size * RT_PACKET_BYTES);
    q->doorbell = q->ring ? rt_signal_new(rt, -1, q) : NULL;
    if (!q->doorbell) {
        queue_free(rt, q);
        return NULL;
    }
    memset(q->ring, 0, (size_t) size * RT_PACKET_BYTES);
    for (uint32_t i = 0; i < size; i++) {
        q->ring[i * RT_PACKET_BYTES] = HSA_PACKET_TYPE_INVALID;
    }
    q->amd.hsa_queue = (hsa_queue_t){
        .type = type,
        .features = agent->gpu ? HSA_QUEUE_FEATURE_KERNEL_DISPATCH : 0,
        .base_address = q->ring,
        .doorbell_signal = {(uint64_t) (uintptr_t) q->doorbell},
        .size = size,
        .id = agent->n_queues_created,
    };
    q->amd.read_dispatch_id_field_base_byte_offset = offsetof(amd_queue_t, read_dispatch_id);
    if (agent->gpu && !rt_gpu_queue_start(q)) {
        queue_free(rt, q);
        return NULL;
    }
    return q;
}

// Which queues an agent takes; may round *size up.
static hsa_status_t check_kind(const struct rt_agent * agent, hsa_queue_type32_t type,
                               uint32_t private_size, uint32_t * size) {
    if (agent->gpu) {
        const uint32_t max_private = 262128; // of a work-item, by the width of a hardware field
        if (type != HSA_QUEUE_TYPE_SINGLE && type != HSA_QUEUE_TYPE_MULTI) {
            return HSA_STATUS_ERROR_INVALID_QUEUE_CREATION;
        }
        if (*size < RT_GPU_QUEUE_MIN) {
            *size = RT_GPU_QUEUE_MIN;
        }
        return *size > RT_GPU_QUEUE_MAX ||
                       (private_size != UINT32_MAX && private_size > max_private)
                   ? HSA_STATUS_ERROR_OUT_OF_RESOURCES
                   : HSA_STATUS_SUCCESS;
    }
    if (!agent->model || type != HSA_QUEUE_TYPE_SINGLE) {
        return HSA_STATUS_ERROR_INVALID_QUEUE_CREATION;
    }
    return *size == RT_AIE_QUEUE_PACKETS ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_queue_create(hsa_agent_t handle, uint32_t size, hsa_queue_type32_t type,
                              void (*callback)(hsa_status_t, hsa_queue_t *, void *), void * data,
                              uint32_t private_size, uint32_t group_size, hsa_queue_t ** out) {
    (void) group_size;
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    struct rt_agent * agent = rt_agent_find(handle);
    if (!agent) {
        return HSA_STATUS_ERROR_INVALID_AGENT;
    }
    if (!out || size == 0 || (size & (size - 1))) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    hsa_status_t status = check_kind(agent, type, private_size, &size);
    if (status != HSA_STATUS_SUCCESS) {
        return status;
    }
    status = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    int max = agent->gpu ? RT_GPU_QUEUES_MAX : RT_AIE_QUEUES_MAX;
    pthread_mutex_lock(&agent->lock);
    struct rt_queue * q = agent->n_queues < max ? queue_new(rt, agent, size, type) : NULL;
    if (q) {
        q->callback = callback;
        q->callback_data = data;
        q->next = agent->queues;
        agent->queues = q;
        agent->n_queues++;
        agent->n_queues_created++;
        *out = &q->amd.hsa_queue;
        status = HSA_STATUS_SUCCESS;
    }
    pthread_mutex_unlock(&agent->lock);
    return status;
}

// *owner: the agent whose live queue this is, with its lock held.
static hsa_status_t lock_owner(const hsa_queue_t * handle, struct rt_agent ** owner) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    for (int i = 0; handle && i < rt->n_agents; i++) {
        *owner = &rt->agents[i];
        pthread_mutex_lock(&(*owner)->lock);
        for (struct rt_queue * q = (*owner)->queues; q; q = q->next) {
            if (&q->amd.hsa_queue == handle) {
                return HSA_STATUS_SUCCESS;
            }
        }
        pthread_mutex_unlock(&(*owner)->lock);
    }
    return handle ? HSA_STATUS_ERROR_INVALID_QUEUE : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_queue_destroy(hsa_queue_t * handle) {
    struct rt_agent * agent;
    hsa_status_t status = lock_owner(handle, &agent);
    if (status != HSA_STATUS_SUCCESS) {
        return status;
    }
    struct rt_queue ** link = &agent->queues;
    while (&(*link)->amd.hsa_queue != handle) {
        link = &(*link)->next;
    }
    struct rt_queue * q = *link;
    *link = q->next;
    agent->n_queues--;
    if (agent->native && agent->n_queues == 0) { // contexts are few, and shared by all processes
        rt_native_idle(agent->native);
    }
    pthread_mutex_unlock(&agent->lock);
    if (!q->aql || aql_stop(q->aql)) {
        queue_free(agent->rt, q);
    } else { // we are in its callback
        pthread_mutex_lock(&agent->lock);
        q->next = agent->orphans;
        agent->orphans = q;
        pthread_mutex_unlock(&agent->lock);
    }
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_queue_inactivate(hsa_queue_t * handle) {
    struct rt_agent * agent;
    hsa_status_t status = lock_owner(handle, &agent);
    if (status != HSA_STATUS_SUCCESS) {
        return status;
    }
    struct rt_queue * q = (struct rt_queue *) (void *) handle;
    q->error = HSA_STATUS_ERROR_INVALID_QUEUE;
    if (q->aql) {
        aql_halt(q->aql);
    }
    pthread_mutex_unlock(&agent->lock);
    return HSA_STATUS_SUCCESS;
}

// What of GPU queues is a matter of speed alone is accepted and has no effect.

static hsa_status_t check_gpu_queue(const hsa_queue_t * handle) {
    struct rt_agent * agent;
    hsa_status_t status = lock_owner(handle, &agent);
    if (status != HSA_STATUS_SUCCESS) {
        return status;
    }
    bool gpu = agent->gpu;
    pthread_mutex_unlock(&agent->lock);
    return gpu ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_QUEUE;
}

hsa_status_t hsa_amd_queue_set_priority(hsa_queue_t * queue, hsa_amd_queue_priority_t priority) {
    return (uint32_t) priority > HSA_AMD_QUEUE_PRIORITY_HIGH ? HSA_STATUS_ERROR_INVALID_ARGUMENT
                                                             : check_gpu_queue(queue);
}

hsa_status_t hsa_amd_queue_cu_set_mask(const hsa_queue_t * queue, uint32_t n_bits,
                                       const uint32_t * mask) {
    return n_bits % 32 || (n_bits && !mask) ? HSA_STATUS_ERROR_INVALID_ARGUMENT
                                            : check_gpu_queue(queue);
}

hsa_status_t hsa_amd_queue_cu_get_mask(const hsa_queue_t * queue, uint32_t n_bits,
                                       uint32_t * mask) {
    if (n_bits % 32 || !n_bits || !mask) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    hsa_status_t status = check_gpu_queue(queue);
    if (status == HSA_STATUS_SUCCESS) { // work-groups run on whatever there is
        memset(mask, 0xff, n_bits / 8);
    }
    return status;
}

hsa_status_t hsa_amd_profiling_set_profiler_enabled(hsa_queue_t * queue, int enable) {
    (void) enable; // times are taken always
    return check_gpu_queue(queue);
}

hsa_status_t emu_queue_info(hsa_queue_t * queue, uint32_t attribute, void * value)
    RT_NEWER(hsa_amd_queue_get_info);
hsa_status_t emu_queue_info(hsa_queue_t * queue, uint32_t attribute, void * value) {
    enum { AGENT, DOORBELL_ID };
    struct rt_agent * agent;
    hsa_status_t status = lock_owner(queue, &agent);
    if (status != HSA_STATUS_SUCCESS) {
        return status;
    }
    pthread_mutex_unlock(&agent->lock);
    if (!value || attribute > DOORBELL_ID) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    *(uint64_t *) value =
        attribute == AGENT ? (uint64_t) (uintptr_t) agent : queue->doorbell_signal.handle;
    return HSA_STATUS_SUCCESS;
}

// ---- running packets ----

static void print_trace(void * user, const char * line) {
    (void) user;
    fprintf(stderr, "%s\n", line);
}

static hsa_status_t ensure_machine(struct rt_runtime * rt, struct rt_agent * agent,
                                   struct error * err) {
    if (agent->machine) {
        return HSA_STATUS_SUCCESS;
    }
    struct emu_clock clock;
    if (emu_clock_get(agent->model->arch, &clock, err) != ST_OK) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    struct emu_plant plant;
    if (emu_plant_get(agent->model->arch, &plant, err) != ST_OK) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    const struct emu_config config = {
        .arch = agent->model->arch,
        .clock = &clock,
        .columns = agent->columns,
        .resolve = rt_memory_resolve,
        .user = agent,
        .strict = rt->strict,
        .plant = plant,
        .wall_s = rt->wait_limit_s,
        .trace_col = rt->trace_col,
        .trace_row = rt->trace_row,
        .trace = rt->trace_col >= 0 ? print_trace : NULL,
        .event = rt->timeline ? rt_timeline_event : NULL,
    };
    return emu_machine_new(&config, &agent->machine, err) == ST_OK
               ? HSA_STATUS_SUCCESS
               : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
}

static const uint8_t * slot_of(const struct rt_queue * q, uint64_t index) {
    return q->ring + index % q->amd.hsa_queue.size * RT_PACKET_BYTES;
}

static hsa_status_t run_dispatch(struct rt_runtime * rt, struct rt_agent * agent,
                                 const struct rt_dispatch * d, struct error * err) {
    hsa_status_t status = ensure_machine(rt, agent, err);
    if (status != HSA_STATUS_SUCCESS) {
        return status;
    }
    rt_caches_operands(agent, d);
    emu_machine_pdi_at(agent->machine, d->pdi);
    enum status ran =
        emu_machine_run(agent->machine, rt_caches_memory(agent, d->pdi, d->pdi_size), d->pdi_size,
                        rt_caches_memory(agent, d->insts, 4 * d->n_insts), d->n_insts, d->operands,
                        d->n_operands, err);
    rt_caches_operands(agent, d);
    rt_account_note(agent);
    rt_timeline_dispatched(agent);
    return ran == ST_OK ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_EXCEPTION;
}

// A driver makes a queue's context no later than with its first packets.
static void submit(struct rt_queue * q) {
    if (!q->has_context) {
        emu_machine_context(q->agent->machine);
        q->has_context = true;
    }
    rt_caches_charge(q->agent);
    emu_machine_submit(q->agent->machine);
    if (q->agent->rt->rests) {
        emu_machine_rest(q->agent->machine);
    }
}

// from: when the first packet of its batch began.
static void complete(struct rt_runtime * rt, struct rt_queue * q, uint64_t index,
                     hsa_signal_t completion, uint64_t from) {
    // A slot that is rung again without being written again must not run twice.
    q->ring[index % q->amd.hsa_queue.size * RT_PACKET_BYTES] = HSA_PACKET_TYPE_INVALID;
    __atomic_store_n(&q->amd.read_dispatch_id, index + 1, __ATOMIC_RELEASE);
    if (completion.handle) {
        rt_signal_complete(rt, completion, from, rt_time_ns(rt, q->agent));
    }
}

// *at is the packet that failed.
static hsa_status_t run_packets(struct rt_runtime * rt, struct rt_queue * q, uint64_t read,
                                uint64_t write, uint64_t * at, struct error * err) {
    struct rt_dispatch d;
    hsa_status_t status = ensure_machine(rt, q->agent, err);
    uint64_t from = rt_time_ns(rt, q->agent);
    if (status == HSA_STATUS_SUCCESS) {
        submit(q);
    }
    for (*at = read; *at < write && status == HSA_STATUS_SUCCESS; ++*at) {
        status = rt_packet_decode(rt, q->agent, slot_of(q, *at), &d, err);
        if (status == HSA_STATUS_SUCCESS) {
            status = run_dispatch(rt, q->agent, &d, err);
        }
        if (status != HSA_STATUS_SUCCESS) {
            break;
        }
        complete(rt, q, *at, d.completion, from);
    }
    return status;
}

// As ROCr 7.2 does: all packets are read, and then all of them run or none.
static hsa_status_t run_chain(struct rt_runtime * rt, struct rt_queue * q, uint64_t read,
                              uint64_t write, uint64_t * at, struct error * err) {
    struct rt_dispatch * d = calloc(write - read, sizeof *d);
    hsa_status_t status = HSA_STATUS_SUCCESS;
    *at = read;
    if (!d) {
        error_set(err, ST_NO_MEMORY, "no memory for a batch");
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    for (uint64_t i = read; i < write && status == HSA_STATUS_SUCCESS; i++) {
        *at = i;
        if (i >= q->amd.hsa_queue.size) {
            error_set(err, ST_INVALID,
                      "invalid packet header, for ROCr 7.2 does not wrap around; reset the queue's "
                      "indices after %u packets",
                      q->amd.hsa_queue.size);
            status = HSA_STATUS_ERROR_INVALID_PACKET_FORMAT;
        } else {
            status = rt_packet_decode(rt, q->agent, slot_of(q, i), &d[i - read], err);
        }
    }
    if (status == HSA_STATUS_SUCCESS) {
        *at = read;
        status = rt_rocr72_submit(q, d, write - read, err);
    }
    struct emu_counters before = {0}, after = {0};
    uint64_t from = rt_time_ns(rt, q->agent);
    if (status == HSA_STATUS_SUCCESS) {
        status = ensure_machine(rt, q->agent, err);
    }
    if (status == HSA_STATUS_SUCCESS) {
        emu_machine_counters(q->agent->machine, &before);
        submit(q);
    }
    for (uint64_t i = read; i < write && status == HSA_STATUS_SUCCESS; i++) {
        *at = i;
        status = run_dispatch(rt, q->agent, &d[i - read], err);
        if (status == HSA_STATUS_SUCCESS) {
            complete(rt, q, i, d[i - read].completion, from);
        }
    }
    if (status == HSA_STATUS_SUCCESS) {
        emu_machine_counters(q->agent->machine, &after);
        uint64_t cycles = emu_account_cycles(&after.account) - emu_account_cycles(&before.account);
        // It flushes before it waits, and after that.
        cycles -= after.account.cycles[EMU_FLUSH] - before.account.cycles[EMU_FLUSH];
        status = rt_rocr72_waited(cycles / emu_machine_clock(q->agent->machine)->mhz, err);
    }
    free(d);
    return status;
}

// All packets are read, and then run in as few chains as they fit in.
static hsa_status_t run_native(struct rt_runtime * rt, struct rt_queue * q, uint64_t read,
                               uint64_t write, uint64_t * at, struct error * err) {
    struct rt_dispatch * d = calloc(write - read, sizeof *d);
    hsa_status_t status = HSA_STATUS_SUCCESS;
    size_t n = 0, done = 0;
    if (!d) {
        error_set(err, ST_NO_MEMORY, "no memory for a batch");
        *at = read;
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    for (*at = read; *at < write && status == HSA_STATUS_SUCCESS; ++*at, n++) {
        status = rt_packet_decode(rt, q->agent, slot_of(q, *at), &d[n], err);
        if (status != HSA_STATUS_SUCCESS) {
            break;
        }
    }
    struct error why = {0};
    uint64_t from = rt_time_ns(rt, q->agent);
    hsa_status_t ran = n ? rt_native_run(q->agent, d, n, &done, &why) : HSA_STATUS_SUCCESS;
    for (uint64_t i = 0; i < done; i++) {
        complete(rt, q, read + i, d[i].completion, from);
    }
    if (ran != HSA_STATUS_SUCCESS) { // the one that came first
        *at = read + done;
        *err = why;
        status = ran;
    }
    free(d);
    return status;
}

// Runs packets until read meets write or one fails; the agent's lock is held.
static hsa_status_t run_queue(struct rt_runtime * rt, struct rt_queue * q) {
    uint64_t read = __atomic_load_n(&q->amd.read_dispatch_id, __ATOMIC_ACQUIRE);
    uint64_t write = __atomic_load_n(&q->amd.write_dispatch_id, __ATOMIC_ACQUIRE);
    if (write < read || write - read > q->amd.hsa_queue.size) {
        snprintf(q->agent->error, sizeof q->agent->error,
                 "queue %" PRIu64 ": write index %" PRIu64 " with read index %" PRIu64
                 ": more packets than the ring's %u slots",
                 q->amd.hsa_queue.id, write, read, q->amd.hsa_queue.size);
        return HSA_STATUS_ERROR_INVALID_PACKET_FORMAT;
    }
    if (read == write) {
        return HSA_STATUS_SUCCESS;
    }
    struct error err = {0};
    uint64_t at;
    __atomic_store_n(&q->agent->ringing, true, __ATOMIC_RELEASE);
    hsa_status_t status = q->agent->native ? run_native(rt, q, read, write, &at, &err)
                          : rt->rocr_bugs  ? run_chain(rt, q, read, write, &at, &err)
                                           : run_packets(rt, q, read, write, &at, &err);
    __atomic_store_n(&q->agent->ringing, false, __ATOMIC_RELEASE);
    if (status != HSA_STATUS_SUCCESS) {
        error_prefix(&err, err.status, "%s, packet %" PRIu64, q->agent->name, at);
        memcpy(q->agent->error, err.text, sizeof q->agent->error);
    }
    return status;
}

void rt_queue_fail(struct rt_queue * q, hsa_status_t status, const struct error * err) {
    struct rt_agent * agent = q->agent;
    pthread_mutex_lock(&agent->lock);
    q->error = status;
    agent->n_errors++;
    memcpy(agent->error, err->text, sizeof agent->error);
    void (*callback)(hsa_status_t, hsa_queue_t *, void *) = q->callback;
    void * data = q->callback_data;
    pthread_mutex_unlock(&agent->lock);
    rt_say("%s", err->text);
    if (callback) {
        callback(status, &q->amd.hsa_queue, data);
    }
}

void rt_queue_ring(struct rt_queue * q) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return;
    }
    struct rt_agent * agent = q->agent;
    hsa_status_t status = HSA_STATUS_SUCCESS;
    pthread_mutex_lock(&agent->lock);
    agent->n_doorbells++;
    if (agent->gpu) {
        pthread_mutex_unlock(&agent->lock);
        aql_ring(q->aql);
        return;
    }
    if (q->error == HSA_STATUS_SUCCESS) {
        status = run_queue(rt, q);
    }
    if (status != HSA_STATUS_SUCCESS) {
        q->error = status;
        agent->n_errors++;
        rt_say("%s", agent->error);
    }
    void (*callback)(hsa_status_t, hsa_queue_t *, void *) = q->callback;
    void * data = q->callback_data;
    pthread_mutex_unlock(&agent->lock);
    if (status != HSA_STATUS_SUCCESS && callback) {
        callback(status, &q->amd.hsa_queue, data);
    }
}

// ---- indices ----

static volatile uint64_t * read_index(const hsa_queue_t * queue) {
    return &((amd_queue_t *) (uintptr_t) queue)->read_dispatch_id;
}

static volatile uint64_t * write_index(const hsa_queue_t * queue) {
    return &((amd_queue_t *) (uintptr_t) queue)->write_dispatch_id;
}

#define LOAD(order)                                                                                \
    uint64_t hsa_queue_load_read_index_##order(const hsa_queue_t * queue) {                        \
        return __atomic_load_n(read_index(queue), __ATOMIC_SEQ_CST);                               \
    }                                                                                              \
    uint64_t hsa_queue_load_write_index_##order(const hsa_queue_t * queue) {                       \
        return __atomic_load_n(write_index(queue), __ATOMIC_SEQ_CST);                              \
    }
#define STORE(order)                                                                               \
    void hsa_queue_store_read_index_##order(const hsa_queue_t * queue, uint64_t value) {           \
        __atomic_store_n(read_index(queue), value, __ATOMIC_SEQ_CST);                              \
    }                                                                                              \
    void hsa_queue_store_write_index_##order(const hsa_queue_t * queue, uint64_t value) {          \
        __atomic_store_n(write_index(queue), value, __ATOMIC_SEQ_CST);                             \
    }
#define CHANGE(order)                                                                              \
    uint64_t hsa_queue_add_write_index_##order(const hsa_queue_t * queue, uint64_t value) {        \
        return __atomic_fetch_add(write_index(queue), value, __ATOMIC_SEQ_CST);                    \
    }                                                                                              \
    uint64_t hsa_queue_cas_write_index_##order(const hsa_queue_t * queue, uint64_t expected,       \
                                               uint64_t value) {                                   \
        __atomic_compare_exchange_n(write_index(queue), &expected, value, false, __ATOMIC_SEQ_CST, \
                                    __ATOMIC_SEQ_CST);                                             \
        return expected;                                                                           \
    }

// clang-format off
LOAD(relaxed) LOAD(acquire) LOAD(scacquire)
STORE(relaxed) STORE(release) STORE(screlease)
CHANGE(relaxed) CHANGE(acquire) CHANGE(release) CHANGE(acq_rel)
CHANGE(scacquire) CHANGE(screlease) CHANGE(scacq_screl)
