// rig: what the tests of the HSA rooms share: cmocka, and the emulated runtime opened by hand.
#pragma once

#include "base/cmocka-all.h"

#include <dlfcn.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <hsa-emu.h>
#include <stdbool.h>
#include <time.h>

// The environment that the rooms read; a test names what it wants and the rest is unset.
static inline void rig_env(const char * emulate, const char * abi, const char * bugs) {
    unsetenv("GGML_HSA_RUNTIME");
    unsetenv("GGML_HSA_EMU_TRACE");
    unsetenv("GGML_HSA_EMU_STRICT");
    emulate ? setenv("GGML_HSA_EMULATE", emulate, 1) : unsetenv("GGML_HSA_EMULATE");
    abi ? setenv("GGML_HSA_AIE_ABI", abi, 1) : unsetenv("GGML_HSA_AIE_ABI");
    bugs ? setenv("GGML_HSA_EMU_ROCR_BUGS", bugs, 1) : unsetenv("GGML_HSA_EMU_ROCR_BUGS");
}

// clang-format off
#define RIG_SYMBOLS(X)                                                                             \
    X(hsa_init) X(hsa_shut_down) X(hsa_status_string) X(hsa_system_get_info)                       \
    X(hsa_system_extension_supported) X(hsa_iterate_agents) X(hsa_agent_get_info)                  \
    X(hsa_agent_iterate_isas) X(hsa_isa_get_info_alt) X(hsa_agent_iterate_caches)                  \
    X(hsa_amd_agent_iterate_memory_pools) X(hsa_amd_memory_pool_get_info)                          \
    X(hsa_amd_agent_memory_pool_get_info) X(hsa_amd_memory_pool_allocate)                          \
    X(hsa_amd_memory_pool_free) X(hsa_amd_agents_allow_access) X(hsa_amd_memory_lock)              \
    X(hsa_amd_memory_unlock) X(hsa_memory_copy) X(hsa_amd_memory_fill) X(hsa_amd_pointer_info)     \
    X(hsa_signal_create) X(hsa_signal_destroy) X(hsa_signal_load_relaxed)                          \
    X(hsa_signal_load_scacquire) X(hsa_signal_store_relaxed) X(hsa_signal_store_screlease)         \
    X(hsa_signal_add_scacq_screl) X(hsa_signal_subtract_relaxed) X(hsa_signal_and_acq_rel)         \
    X(hsa_signal_or_release) X(hsa_signal_xor_acquire) X(hsa_signal_exchange_scacquire)            \
    X(hsa_signal_cas_screlease) X(hsa_signal_wait_scacquire) X(hsa_amd_signal_wait_any)            \
    X(hsa_queue_create) X(hsa_queue_destroy) X(hsa_queue_add_write_index_relaxed)                  \
    X(hsa_queue_cas_write_index_relaxed) X(hsa_queue_load_write_index_relaxed)                     \
    X(hsa_queue_load_read_index_scacquire) X(hsa_queue_store_read_index_relaxed)                   \
    X(hsa_queue_store_write_index_relaxed) X(hsa_soft_queue_create)                                \
    X(hsa_emu_counters) X(hsa_emu_last_error) X(hsa_emu_launch)                                    \
    X(hsa_executable_create_alt) X(hsa_executable_destroy) X(hsa_executable_freeze)                \
    X(hsa_executable_get_info) X(hsa_executable_get_symbol_by_name)                                \
    X(hsa_executable_iterate_symbols) X(hsa_executable_iterate_agent_symbols)                      \
    X(hsa_executable_load_agent_code_object) X(hsa_executable_agent_global_variable_define)        \
    X(hsa_executable_symbol_get_info) X(hsa_code_object_reader_create_from_memory)                 \
    X(hsa_code_object_reader_create_from_file) X(hsa_code_object_reader_destroy)                   \
    X(hsa_system_get_major_extension_table) X(hsa_cache_get_info) X(hsa_isa_from_name)             \
    X(hsa_amd_signal_async_handler) X(hsa_amd_async_function) X(hsa_amd_memory_async_copy)         \
    X(hsa_amd_memory_async_copy_rect) X(hsa_amd_profiling_get_dispatch_time)                       \
    X(hsa_amd_register_system_event_handler) X(hsa_queue_inactivate)                               \
    X(hsa_amd_queue_set_priority) X(hsa_amd_memory_lock_to_pool) X(hsa_signal_silent_store_relaxed)
// clang-format on

struct rig {
    void * library;
#define RIG_FIELD(name) __typeof__(name) * name;
    RIG_SYMBOLS(RIG_FIELD)
#undef RIG_FIELD
    hsa_agent_t cpu, npu;                              // handle 0: none
    hsa_amd_memory_pool_t kernarg, heap, data, system; // of the NPU, and the first of the CPU
    hsa_amd_memory_pool_t cpu_kernarg;
    struct rig_gpu {
        hsa_agent_t agent;
        hsa_amd_memory_pool_t vram, fine, group;
    } gpus[8];
    int n_gpus;
};

static inline hsa_status_t rig_visit_pool(hsa_amd_memory_pool_t pool, void * data) {
    hsa_amd_memory_pool_t ** next = data;
    *(*next)++ = pool;
    return HSA_STATUS_SUCCESS;
}

static inline hsa_status_t rig_visit_agent(hsa_agent_t agent, void * data) {
    struct rig * r = data;
    uint32_t device = 99;
    assert_int_equal(r->hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &device),
                     HSA_STATUS_SUCCESS);
    hsa_amd_memory_pool_t pools[3], *next = pools;
    assert_int_equal(r->hsa_amd_agent_iterate_memory_pools(agent, rig_visit_pool, &next), 0);
    assert_ptr_equal(next, pools + 3);
    if (device == HSA_DEVICE_TYPE_CPU) {
        r->cpu = agent;
        r->system = pools[0];
        r->cpu_kernarg = pools[1];
    } else if (device == HSA_DEVICE_TYPE_GPU) {
        r->gpus[r->n_gpus++] = (struct rig_gpu){agent, pools[0], pools[1], pools[2]};
    } else {
        assert_int_equal(device, 3);
        r->npu = agent;
        r->kernarg = pools[0];
        r->heap = pools[1];
        r->data = pools[2];
    }
    return HSA_STATUS_SUCCESS;
}

// dlopen, without hsa_init.
static inline void rig_load(struct rig * r) {
    memset(r, 0, sizeof *r);
    r->library = dlopen(EMU_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!r->library) {
        fail_msg("%s", dlerror());
    }
    void * p;
#define RIG_FIND(name)                                                                             \
    p = dlsym(r->library, #name);                                                                  \
    assert_non_null(p);                                                                            \
    memcpy(&r->name, &p, sizeof p);
    RIG_SYMBOLS(RIG_FIND)
#undef RIG_FIND
}

static inline void rig_open(struct rig * r) {
    rig_load(r);
    assert_int_equal(r->hsa_init(), HSA_STATUS_SUCCESS);
    assert_int_equal(r->hsa_iterate_agents(rig_visit_agent, r), HSA_STATUS_SUCCESS);
}

static inline void rig_close(struct rig * r) {
    assert_int_equal(r->hsa_shut_down(), HSA_STATUS_SUCCESS);
    assert_int_equal(r->hsa_shut_down(), HSA_STATUS_ERROR_NOT_INITIALIZED);
    dlclose(r->library);
}

// Copies through the GPU, as it sees the memory.
static inline hsa_status_t rig_copy(struct rig * r, hsa_agent_t gpu, void * to, const void * from,
                                    size_t size) {
    hsa_signal_t done;
    assert_int_equal(r->hsa_signal_create(1, 0, NULL, &done), 0);
    hsa_status_t status = r->hsa_amd_memory_async_copy(to, gpu, from, gpu, size, 0, NULL, done);
    if (status == HSA_STATUS_SUCCESS) {
        r->hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, 0);
    }
    assert_int_equal(r->hsa_signal_destroy(done), 0);
    return status;
}

static inline void * rig_alloc(struct rig * r, hsa_amd_memory_pool_t pool, size_t size) {
    void * p = NULL;
    assert_int_equal(r->hsa_amd_memory_pool_allocate(pool, size, 0, &p), HSA_STATUS_SUCCESS);
    assert_non_null(p);
    return p;
}
