// gpu-queue: a GPU's queue in the emulated runtime: what emu/aql, which runs its packets, is told
// of signals and memory, and how its errors become those of HSA.
#include "packets.h"

// As ROCr names what the hardware reports.
static const hsa_status_t statuses[AQL_FAULTS] = {
    [AQL_BAD_FORMAT] = HSA_STATUS_ERROR_INVALID_PACKET_FORMAT,
    [AQL_BAD_VENDOR] = HSA_STATUS_ERROR_INVALID_PACKET_FORMAT,
    [AQL_BAD_SIGNAL] = HSA_STATUS_ERROR_INVALID_SIGNAL,
    [AQL_BAD_DIMENSIONS] = HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS,
    [AQL_BAD_GROUP] = HSA_STATUS_ERROR_INVALID_ARGUMENT,
    [AQL_BAD_GROUP_MEMORY] = HSA_STATUS_ERROR_INVALID_ALLOCATION,
    [AQL_BAD_CODE] = HSA_STATUS_ERROR_INVALID_CODE_OBJECT,
    [AQL_NO_RESOURCES] = HSA_STATUS_ERROR_OUT_OF_RESOURCES,
    [AQL_ILLEGAL] = RT_STATUS_ILLEGAL,
    [AQL_MEMORY_FAULT] = RT_STATUS_MEMORY_FAULT,
};

static struct rt_runtime * runtime_of(void * user) {
    return ((struct rt_queue *) user)->agent->rt;
}

static bool is_signal(void * user, uint64_t handle) {
    return rt_signal_is_live(runtime_of(user), (hsa_signal_t){handle});
}

static bool peek(void * user, uint64_t handle, int64_t * value) {
    return rt_signal_peek(runtime_of(user), (hsa_signal_t){handle}, value);
}

static void complete(void * user, uint64_t handle, uint64_t start, uint64_t end) {
    rt_signal_complete(runtime_of(user), (hsa_signal_t){handle}, start, end);
}

static void sleep_until(void * user, bool (*ready)(void *), void * arg) {
    (void) user;
    rt_signals_sleep(ready, arg);
}

static void wake(void * user) {
    (void) user;
    rt_signals_wake();
}

static void tell_fault(struct rt_agent * agent, uint64_t addr) {
    struct rt_runtime * rt = agent->rt;
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

static void fail(void * user, enum aql_fault fault, uint64_t address, const struct error * err) {
    struct rt_queue * q = user;
    if (fault == AQL_MEMORY_FAULT) {
        tell_fault(q->agent, address);
    }
    rt_queue_fail(q, statuses[fault], err);
}

static void after(void * user, const hsa_kernel_dispatch_packet_t * p) {
    rt_launch_note(((struct rt_queue *) user)->agent, p);
}

static const struct aql_owner owner = {
    .is_signal = is_signal,
    .peek = peek,
    .complete = complete,
    .now = rt_now_ns,
    .sleep = sleep_until,
    .wake = wake,
    .fail = fail,
    .after = after,
};

// The agent's lock is held.
static enum status ensure_gfx(struct rt_agent * agent, struct error * err) {
    if (agent->gfx) {
        return ST_OK;
    }
    const struct gfx_config config = {.arch = agent->gpu->arch,
                                      .resolve = rt_memory_resolve,
                                      .user = agent,
                                      .strict = agent->rt->strict};
    return gfx_new(&config, &agent->gfx, err);
}

bool rt_gpu_queue_start(struct rt_queue * q) {
    struct rt_agent * agent = q->agent;
    struct error err;
    if (ensure_gfx(agent, &err) != ST_OK) {
        return false;
    }
    const struct aql_config config = {
        .owner = &owner,
        .user = q,
        .gpu = agent->gfx,
        .name = agent->name,
        .id = q->amd.hsa_queue.id,
        .strict = agent->rt->strict,
        .lds_bytes = agent->gpu->lds_bytes,
        .ring = q->ring,
        .address = (uint64_t) (uintptr_t) q->ring,
        .packets = q->amd.hsa_queue.size,
        .read = &q->amd.read_dispatch_id,
        .write = &q->amd.write_dispatch_id,
    };
    return aql_start(&config, &q->aql, &err) == ST_OK;
}
