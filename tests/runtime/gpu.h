// gpu: what tests of GPU queues share: a code object loaded, a packet sent, its signal awaited.
#pragma once

#include "rig.h"

struct gpu_code {
    hsa_code_object_reader_t reader;
    hsa_executable_t executable;
};

static inline void gpu_load(struct rig * r, hsa_agent_t agent, const void * data, size_t size,
                            struct gpu_code * code) {
    assert_int_equal(r->hsa_code_object_reader_create_from_memory(data, size, &code->reader), 0);
    assert_int_equal(r->hsa_executable_create_alt(HSA_PROFILE_FULL,
                                                  HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL,
                                                  &code->executable),
                     0);
    assert_int_equal(
        r->hsa_executable_load_agent_code_object(code->executable, agent, code->reader, NULL, NULL),
        HSA_STATUS_SUCCESS);
    assert_int_equal(r->hsa_executable_freeze(code->executable, NULL), 0);
}

static inline void gpu_unload(struct rig * r, struct gpu_code * code) {
    assert_int_equal(r->hsa_executable_destroy(code->executable), 0);
    assert_int_equal(r->hsa_code_object_reader_destroy(code->reader), 0);
}

struct gpu_kernel {
    uint64_t object;
    uint32_t kernarg, group, private;
};

static inline struct gpu_kernel gpu_find(struct rig * r, hsa_agent_t agent,
                                         const struct gpu_code * code, const char * name) {
    hsa_executable_symbol_t s;
    struct gpu_kernel k;
    assert_int_equal(r->hsa_executable_get_symbol_by_name(code->executable, name, &agent, &s), 0);
    static const hsa_executable_symbol_info_t what[] = {
        HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT,
        HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE,
        HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE,
        HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE,
    };
    void * where[] = {&k.object, &k.kernarg, &k.group, &k.private};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(r->hsa_executable_symbol_get_info(s, what[i], where[i]), 0);
    }
    return k;
}

// Writes a packet to its place in the ring, header last, without ringing.
static inline void gpu_put(struct rig * r, hsa_queue_t * q, uint64_t at, const void * packet) {
    while (at - r->hsa_queue_load_read_index_scacquire(q) >= q->size) {
    }
    uint8_t * slot = (uint8_t *) q->base_address + at % q->size * 64;
    uint32_t first;
    memcpy(&first, packet, 4);
    memcpy(slot + 4, (const uint8_t *) packet + 4, 60);
    __atomic_store_n((uint32_t *) (void *) slot, first, __ATOMIC_RELEASE);
}

// Likewise, behind the others. Returns its index.
static inline uint64_t gpu_write(struct rig * r, hsa_queue_t * q, const void * packet) {
    uint64_t at = r->hsa_queue_add_write_index_relaxed(q, 1);
    gpu_put(r, q, at, packet);
    return at;
}

static inline void gpu_send(struct rig * r, hsa_queue_t * q, const void * packet) {
    r->hsa_signal_store_screlease(q->doorbell_signal, (hsa_signal_value_t) gpu_write(r, q, packet));
}

static inline hsa_kernel_dispatch_packet_t gpu_packet(const struct gpu_kernel * k, void * kernarg,
                                                      uint32_t grid, uint16_t group,
                                                      hsa_signal_t done) {
    return (hsa_kernel_dispatch_packet_t){
        .header = HSA_PACKET_TYPE_KERNEL_DISPATCH | 1 << HSA_PACKET_HEADER_BARRIER |
                  HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_ACQUIRE_FENCE_SCOPE |
                  HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_RELEASE_FENCE_SCOPE,
        .setup = 1,
        .workgroup_size_x = group,
        .workgroup_size_y = 1,
        .workgroup_size_z = 1,
        .grid_size_x = grid,
        .grid_size_y = 1,
        .grid_size_z = 1,
        .private_segment_size = k->private,
        .group_segment_size = k->group,
        .kernel_object = k->object,
        .kernarg_address = kernarg,
        .completion_signal = done,
    };
}

static inline hsa_signal_value_t gpu_wait(struct rig * r, hsa_signal_t signal) {
    const uint64_t minute = 60000000000u;
    return r->hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 1, minute,
                                        HSA_WAIT_STATE_BLOCKED);
}

// What a queue's callback was told.
struct gpu_failure {
    hsa_status_t status; // atomic
    hsa_queue_t * queue;
};

static inline void gpu_failed(hsa_status_t status, hsa_queue_t * queue, void * data) {
    struct gpu_failure * f = data;
    f->queue = queue;
    __atomic_store_n(&f->status, status, __ATOMIC_RELEASE);
}

static inline hsa_status_t gpu_await_failure(struct gpu_failure * f) {
    for (int i = 0; i < 6000; i++) {
        hsa_status_t status = __atomic_load_n(&f->status, __ATOMIC_ACQUIRE);
        if (status != HSA_STATUS_SUCCESS) {
            return status;
        }
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    return HSA_STATUS_SUCCESS;
}

static inline hsa_queue_t * gpu_queue(struct rig * r, hsa_agent_t agent, struct gpu_failure * f) {
    hsa_queue_t * q = NULL;
    assert_int_equal(r->hsa_queue_create(agent, 64, HSA_QUEUE_TYPE_MULTI, f ? gpu_failed : NULL, f,
                                         UINT32_MAX, UINT32_MAX, &q),
                     HSA_STATUS_SUCCESS);
    return q;
}

// Memory of the host that the GPU may use.
static inline void * gpu_shared(struct rig * r, hsa_agent_t agent, hsa_amd_memory_pool_t pool,
                                size_t size) {
    void * p = rig_alloc(r, pool, size);
    assert_int_equal(r->hsa_amd_agents_allow_access(1, &agent, NULL, p), HSA_STATUS_SUCCESS);
    return p;
}
