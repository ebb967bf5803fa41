// agents: which agents exist, what they say of themselves, and what their memory pools say. What
// only GPUs have is in gpu-agents.c.
//
// The NPU answers exactly as ROCr 7.2 does with a Phoenix: the same attributes succeed with the
// same values, the others write a 32-bit zero and report HSA_STATUS_ERROR_INVALID_ARGUMENT.
#include "native.h"

#include <hsa/hsa_ext_image.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// By the name of the architecture the first one that has it, or by the device's own.
static const struct rt_model models[] = {
    {"aie2", "npu1", "RyzenAI-npu1", AIE_ARCH_AIE2, 4},   // Phoenix, Hawk Point
    {"aie2p", "npu4", "RyzenAI-npu4", AIE_ARCH_AIE2P, 8}, // Strix Point
    {"aie2p", "npu5", "RyzenAI-npu5", AIE_ARCH_AIE2P, 8}, // Strix Halo
    {"aie2p", "npu6", "RyzenAI-npu6", AIE_ARCH_AIE2P, 8}, // Krackan Point
};
enum { N_MODELS = sizeof models / sizeof models[0] };

static bool same(const char * name, const char * text, size_t n) {
    return strlen(name) == n && !memcmp(name, text, n);
}

void rt_pool_add(struct rt_agent * agent, uint32_t segment, uint32_t flags, uint32_t rec_granule,
                 uint64_t size) {
    agent->pools[agent->n_pools++] = (struct rt_pool){.agent = agent,
                                                      .segment = segment,
                                                      .flags = flags,
                                                      .rec_granule = rec_granule,
                                                      .size = size};
}

static void pool_add(struct rt_agent * agent, uint32_t flags, uint32_t rec_granule, uint64_t size) {
    rt_pool_add(agent, HSA_AMD_SEGMENT_GLOBAL, flags, rec_granule, size);
}

static struct rt_agent * agent_add(struct rt_runtime * rt, uint32_t device) {
    struct rt_agent * agent = &rt->agents[rt->n_agents];
    agent->rt = rt;
    agent->device = device;
    agent->node = (uint32_t) rt->n_agents++;
    pthread_mutex_init(&agent->lock, NULL);
    return agent;
}

static void cpu_add(struct rt_runtime * rt) {
    const uint32_t fine = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED;
    const uint32_t kernarg = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT;
    struct rt_agent * agent = agent_add(rt, HSA_DEVICE_TYPE_CPU);
    rt_host_cpu_name(agent->name);
    memcpy(agent->product, agent->name, sizeof agent->product);
    uint64_t memory = rt_host_memory();
    pool_add(agent, fine, RT_PAGE, memory);
    pool_add(agent, fine | kernarg, RT_PAGE, memory);
    pool_add(agent, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED, RT_PAGE, memory);
}

static struct rt_agent * npu_add(struct rt_runtime * rt, const struct rt_model * model,
                                 int columns) {
    const uint32_t coarse = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
    const uint32_t kernarg = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT;
    struct rt_agent * agent = agent_add(rt, RT_DEVICE_AIE);
    agent->model = model;
    agent->columns = columns;
    snprintf(agent->name, sizeof agent->name, "%s", model->name);
    snprintf(agent->product, sizeof agent->product, "%s", model->product);
    uint64_t memory = rt_host_memory();
    pool_add(agent, coarse | kernarg, RT_PAGE, memory);
    pool_add(agent, coarse, 0, RT_DEV_HEAP_BYTES);
    pool_add(agent, coarse, RT_PAGE, memory);
    return agent;
}

// A NPU's name, and behind it ":4" where it is to have so many columns and no more; 0: no such NPU.
static int npu_named(const char * text, size_t n, const struct rt_model ** npu) {
    const char * colon = memchr(text, ':', n);
    size_t name = colon ? (size_t) (colon - text) : n;
    *npu = NULL;
    for (int i = 0; i < N_MODELS && !*npu; i++) {
        if (same(models[i].name, text, name) || same(models[i].device, text, name)) {
            *npu = &models[i];
        }
    }
    int columns = !*npu ? 0 : !colon ? (*npu)->columns : n == name + 2 ? colon[1] - '0' : 0;
    return *npu && columns >= 1 && columns <= (*npu)->columns ? columns : 0;
}

static enum status agent_add_named(struct rt_runtime * rt, const char * text, size_t n,
                                   struct error * err) {
    const struct emu_gpu_model * gpu = emu_gpu_model(text, n);
    const struct rt_model * npu;
    int columns = npu_named(text, n, &npu);
    if (npu && !columns) {
        return error_set(err, ST_INVALID, "GGML_HSA_EMULATE: '%.*s': %s has 1 to %d columns",
                         n > 40 ? 40 : (int) n, text, npu->name, npu->columns);
    }
    if (gpu || npu) {
        if (rt->n_agents == RT_MAX_AGENTS) {
            return error_set(err, ST_INVALID, "GGML_HSA_EMULATE: more than %d agents",
                             RT_MAX_AGENTS - 1);
        }
        if (gpu) {
            rt_gpu_setup(agent_add(rt, HSA_DEVICE_TYPE_GPU), gpu);
        } else {
            npu_add(rt, npu, columns);
        }
        return ST_OK;
    }
    return error_set(err, ST_INVALID,
                     "GGML_HSA_EMULATE: '%.*s' is no agent that we know; known: "
                     "aie2 (npu1), aie2p (npu4, npu5, npu6), gfx90a, gfx942, gfx1100, gfx1151",
                     n > 40 ? 40 : (int) n, text);
}

// The NPUs of this machine. One that cannot be used is said to be so, and the others are none the
// worse for it.
static void natives_add(struct rt_runtime * rt) {
    for (int i = 0; i < AMDXDNA_DEVICES && rt->n_agents < RT_MAX_AGENTS; i++) {
        struct error err = {0};
        struct rt_native * v = rt_native_open(i, &err);
        if (!v) {
            if (err.status != ST_NOT_FOUND) {
                rt_say("%s", err.text);
            }
            continue;
        }
        const struct amdxdna_info * info = rt_native_info(v);
        const struct rt_model * model;
        npu_named(info->model->device, strlen(info->model->device), &model);
        struct rt_agent * agent = npu_add(rt, model, (int) info->model->columns);
        agent->native = v;
        snprintf(agent->product, sizeof agent->product, "%s", info->product);
        for (int k = 0; k < agent->n_pools; k++) {
            if (agent->pools[k].rec_granule == 0) {
                agent->pools[k].size = rt_native_heap(v);
            }
        }
    }
}

enum status rt_agents_init(struct rt_runtime * rt, struct error * err) {
    cpu_add(rt);
    const char * text = getenv("GGML_HSA_EMULATE");
    if (!text || !*text) {
        natives_add(rt);
    }
    while (text && *text) {
        size_t n = strcspn(text, ",");
        size_t lead = strspn(text, " ");
        size_t end = n;
        while (end > lead && text[end - 1] == ' ') {
            end--;
        }
        if (end > lead) {
            enum status st = agent_add_named(rt, text + lead, end - lead, err);
            if (st != ST_OK) {
                return st;
            }
        }
        text += n + (text[n] == ',');
    }
    return ST_OK;
}

hsa_status_t hsa_iterate_agents(hsa_status_t (*callback)(hsa_agent_t, void *), void * data) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!callback) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    for (int i = 0; i < rt->n_agents; i++) {
        hsa_agent_t handle = {(uint64_t) (uintptr_t) &rt->agents[i]};
        hsa_status_t status = callback(handle, data);
        if (status != HSA_STATUS_SUCCESS) {
            return status;
        }
    }
    return HSA_STATUS_SUCCESS;
}

// Attributes that newer headers name.
enum { INFO_NEAREST_CPU = 0xA113, INFO_MEMORY_PROPERTIES = 0xA114 };

// Words that are 0 where there is no such thing.
static bool info_zero(uint32_t attribute, void * value) {
    static const uint32_t zeros[] = {HSA_AGENT_INFO_WAVEFRONT_SIZE,
                                     HSA_AGENT_INFO_WORKGROUP_MAX_SIZE,
                                     HSA_AGENT_INFO_GRID_MAX_SIZE,
                                     HSA_AGENT_INFO_FBARRIER_MAX_SIZE,
                                     HSA_AMD_AGENT_INFO_CHIP_ID,
                                     HSA_AMD_AGENT_INFO_MAX_ADDRESS_WATCH_POINTS,
                                     HSA_AMD_AGENT_INFO_BDFID,
                                     HSA_AMD_AGENT_INFO_NUM_SIMDS_PER_CU,
                                     HSA_AMD_AGENT_INFO_NUM_SHADER_ENGINES,
                                     HSA_AMD_AGENT_INFO_NUM_SHADER_ARRAYS_PER_SE,
                                     HSA_AMD_AGENT_INFO_ASIC_REVISION,
                                     HSA_EXT_AGENT_INFO_IMAGE_1D_MAX_ELEMENTS,
                                     HSA_EXT_AGENT_INFO_IMAGE_1DA_MAX_ELEMENTS,
                                     HSA_EXT_AGENT_INFO_IMAGE_1DB_MAX_ELEMENTS,
                                     HSA_EXT_AGENT_INFO_IMAGE_2D_MAX_ELEMENTS,
                                     HSA_EXT_AGENT_INFO_IMAGE_2DA_MAX_ELEMENTS,
                                     HSA_EXT_AGENT_INFO_IMAGE_2DDEPTH_MAX_ELEMENTS,
                                     HSA_EXT_AGENT_INFO_IMAGE_2DADEPTH_MAX_ELEMENTS,
                                     HSA_EXT_AGENT_INFO_IMAGE_3D_MAX_ELEMENTS,
                                     HSA_EXT_AGENT_INFO_IMAGE_ARRAY_MAX_LAYERS};
    size_t i = 0, n = sizeof zeros / sizeof zeros[0];
    while (i < n && zeros[i] != attribute) {
        i++;
    }
    if (i < n) {
        *(uint32_t *) value = 0;
    }
    return i < n;
}

// What all agents answer in the same way (GPUs when rt_gpu_info does not); false: not such an
// attribute.
static bool info_common(const struct rt_agent * agent, uint32_t attribute, void * value) {
    switch (attribute) {
    case HSA_AGENT_INFO_NAME:
        memcpy(value, agent->name, sizeof agent->name);
        return true;
    case HSA_AMD_AGENT_INFO_PRODUCT_NAME:
        memcpy(value, agent->product, sizeof agent->product);
        return true;
    case HSA_AGENT_INFO_MACHINE_MODEL:
        *(hsa_machine_model_t *) value = HSA_MACHINE_MODEL_LARGE;
        return true;
    case HSA_AGENT_INFO_BASE_PROFILE_DEFAULT_FLOAT_ROUNDING_MODES:
    case HSA_AGENT_INFO_DEFAULT_FLOAT_ROUNDING_MODE:
        *(hsa_default_float_rounding_mode_t *) value = HSA_DEFAULT_FLOAT_ROUNDING_MODE_NEAR;
        return true;
    case HSA_AGENT_INFO_WORKGROUP_MAX_DIM:
        memset(value, 0, 3 * sizeof(uint16_t));
        return true;
    case HSA_AGENT_INFO_GRID_MAX_DIM:
        memset(value, 0, sizeof(hsa_dim3_t));
        return true;
    case HSA_AGENT_INFO_NODE:
    case HSA_AMD_AGENT_INFO_DRIVER_NODE_ID:
        *(uint32_t *) value = agent->node;
        return true;
    case HSA_AGENT_INFO_DEVICE:
        *(uint32_t *) value = agent->device;
        return true;
    case HSA_AGENT_INFO_VERSION_MAJOR:
        *(uint16_t *) value = 1;
        return true;
    case HSA_AGENT_INFO_VERSION_MINOR:
        *(uint16_t *) value = 0;
        return true;
    case HSA_AMD_AGENT_INFO_SVM_DIRECT_HOST_ACCESS:
        *(bool *) value = true;
        return true;
    case INFO_NEAREST_CPU:
        *(hsa_agent_t *) value = (hsa_agent_t){(uint64_t) (uintptr_t) &rt_runtime()->agents[0]};
        return true;
    case INFO_MEMORY_PROPERTIES:
        memset(value, 0, 8);
        *(uint8_t *) value = agent->gpu && agent->gpu->integrated; // AGENT_IS_APU
        return true;
    default:
        return info_zero(attribute, value);
    }
}

static bool info_npu(uint32_t attribute, void * value) {
    switch (attribute) {
    case HSA_AGENT_INFO_VENDOR_NAME:
        memcpy(value, (char[64]){"AMD"}, 64);
        return true;
    case HSA_AMD_AGENT_INFO_UUID:
        memcpy(value, "AIE-XX", sizeof "AIE-XX");
        return true;
    case HSA_AGENT_INFO_FEATURE:
        *(hsa_agent_feature_t *) value = HSA_AGENT_FEATURE_AGENT_DISPATCH;
        return true;
    case HSA_AGENT_INFO_PROFILE:
        *(hsa_profile_t *) value = HSA_PROFILE_BASE;
        return true;
    case HSA_AGENT_INFO_QUEUES_MAX:
        *(uint32_t *) value = RT_AIE_QUEUES_MAX;
        return true;
    case HSA_AGENT_INFO_QUEUE_MIN_SIZE:
    case HSA_AGENT_INFO_QUEUE_MAX_SIZE:
        *(uint32_t *) value = RT_AIE_QUEUE_PACKETS;
        return true;
    case HSA_AGENT_INFO_QUEUE_TYPE:
        *(hsa_queue_type32_t *) value = HSA_QUEUE_TYPE_SINGLE;
        return true;
    case HSA_AGENT_INFO_CACHE_SIZE: // four levels by the standard, though ROCr writes only one
        memset(value, 0, 4 * sizeof(uint32_t));
        return true;
    case HSA_AMD_AGENT_INFO_CACHELINE_SIZE:
    case HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT:
    case HSA_AMD_AGENT_INFO_MAX_CLOCK_FREQUENCY:
        *(uint32_t *) value = 0;
        return true;
    default:
        return false;
    }
}

static uint32_t positive(long v) {
    return v > 0 ? (uint32_t) v : 0;
}

static bool info_cpu(uint32_t attribute, void * value) {
    switch (attribute) {
    case HSA_AGENT_INFO_VENDOR_NAME:
        memcpy(value, (char[64]){"CPU"}, 64);
        return true;
    case HSA_AMD_AGENT_INFO_UUID:
        memcpy(value, "CPU-XX", sizeof "CPU-XX");
        return true;
    case HSA_AGENT_INFO_PROFILE:
        *(hsa_profile_t *) value = HSA_PROFILE_FULL;
        return true;
    case HSA_AGENT_INFO_FEATURE:
    case HSA_AGENT_INFO_QUEUES_MAX:
    case HSA_AGENT_INFO_QUEUE_MIN_SIZE:
    case HSA_AGENT_INFO_QUEUE_MAX_SIZE:
        *(uint32_t *) value = 0;
        return true;
    case HSA_AGENT_INFO_QUEUE_TYPE:
        *(hsa_queue_type32_t *) value = HSA_QUEUE_TYPE_MULTI;
        return true;
    case HSA_AGENT_INFO_CACHE_SIZE: {
        const uint32_t sizes[4] = {positive(sysconf(_SC_LEVEL1_DCACHE_SIZE)),
                                   positive(sysconf(_SC_LEVEL2_CACHE_SIZE)),
                                   positive(sysconf(_SC_LEVEL3_CACHE_SIZE)), 0};
        memcpy(value, sizes, sizeof sizes);
        return true;
    }
    case HSA_AMD_AGENT_INFO_CACHELINE_SIZE:
        *(uint32_t *) value = positive(sysconf(_SC_LEVEL1_DCACHE_LINESIZE));
        return true;
    case HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT:
        *(uint32_t *) value = positive(sysconf(_SC_NPROCESSORS_CONF));
        return true;
    case HSA_AMD_AGENT_INFO_MAX_CLOCK_FREQUENCY:
        *(uint32_t *) value = rt_host_clock_mhz();
        return true;
    default:
        return false;
    }
}

hsa_status_t hsa_agent_get_info(hsa_agent_t handle, hsa_agent_info_t attribute, void * value) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    const struct rt_agent * agent = rt_agent_find(handle);
    if (!agent) {
        return HSA_STATUS_ERROR_INVALID_AGENT;
    }
    if (!value) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    uint32_t a = (uint32_t) attribute;
    bool known = agent->gpu ? rt_gpu_info(agent, a, value) || info_common(agent, a, value)
                            : info_common(agent, a, value) ||
                                  (agent->model ? info_npu(a, value) : info_cpu(a, value));
    if (known) {
        return HSA_STATUS_SUCCESS;
    }
    *(uint32_t *) value = 0;
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_amd_agent_iterate_memory_pools(
    hsa_agent_t handle, hsa_status_t (*callback)(hsa_amd_memory_pool_t, void *), void * data) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    struct rt_agent * agent = rt_agent_find(handle);
    if (!agent) {
        return HSA_STATUS_ERROR_INVALID_AGENT;
    }
    if (!callback) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    for (int i = 0; i < agent->n_pools; i++) {
        hsa_amd_memory_pool_t pool = {(uint64_t) (uintptr_t) &agent->pools[i]};
        hsa_status_t status = callback(pool, data);
        if (status != HSA_STATUS_SUCCESS) {
            return status;
        }
    }
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t handle,
                                          hsa_amd_memory_pool_info_t attribute, void * value) {
    enum { LOCATION = 17, REC_GRANULE = 18, LOCATION_CPU = 0, LOCATION_GPU = 1 }; // after ROCm 5.2
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    const struct rt_pool * pool = rt_pool_find(handle);
    if (!pool) {
        return RT_STATUS_INVALID_POOL;
    }
    if (!value) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    bool global = pool->segment == HSA_AMD_SEGMENT_GLOBAL;
    switch ((uint32_t) attribute) {
    case HSA_AMD_MEMORY_POOL_INFO_SEGMENT:
        *(hsa_amd_segment_t *) value = (hsa_amd_segment_t) pool->segment;
        break;
    case HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS:
        *(uint32_t *) value = pool->flags;
        break;
    case HSA_AMD_MEMORY_POOL_INFO_SIZE:
        *(size_t *) value = pool->size;
        break;
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED:
        *(bool *) value = global;
        break;
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE:
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT:
        *(size_t *) value = global ? RT_PAGE : 0;
        break;
    case HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL:
        *(bool *) value = !pool->agent->gpu && pool->rec_granule != 0;
        break;
    case HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE:
        // of all memory for the device heap too: as wrong as in ROCr
        *(size_t *) value = pool->agent->gpu ? pool->size : rt_host_memory();
        break;
    case LOCATION:
        *(uint32_t *) value = pool->agent->gpu ? LOCATION_GPU : LOCATION_CPU;
        break;
    case REC_GRANULE:
        *(size_t *) value = pool->rec_granule;
        break;
    default:
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    return HSA_STATUS_SUCCESS;
}

// GPUs are granted memory of others allocation by allocation; NPUs never.
static hsa_amd_memory_pool_access_t pool_access(const struct rt_agent * agent,
                                                const struct rt_pool * pool) {
    if (pool->agent == agent) {
        return HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT;
    }
    bool vram = pool->agent->gpu && agent->device == HSA_DEVICE_TYPE_CPU; // as without a large BAR
    if (agent->model || pool->segment != HSA_AMD_SEGMENT_GLOBAL || vram ||
        (agent->gpu && pool->agent->model)) {
        return HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED;
    }
    return agent->gpu || pool->agent->gpu ? HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT
                                          : HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT;
}

hsa_status_t hsa_amd_agent_memory_pool_get_info(hsa_agent_t agent_handle,
                                                hsa_amd_memory_pool_t handle,
                                                hsa_amd_agent_memory_pool_info_t attribute,
                                                void * value) {
    const struct rt_agent * agent = rt_agent_find(agent_handle);
    const struct rt_pool * pool = rt_pool_find(handle);
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!agent) {
        return HSA_STATUS_ERROR_INVALID_AGENT;
    }
    if (!pool) {
        return RT_STATUS_INVALID_POOL;
    }
    if (!value) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    hsa_amd_memory_pool_access_t access = pool_access(agent, pool);
    bool far = pool->agent != agent && access != HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED &&
               (pool->agent->gpu || agent->gpu);
    switch ((uint32_t) attribute) {
    case HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS:
        *(hsa_amd_memory_pool_access_t *) value = access;
        break;
    case HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS:
        *(uint32_t *) value = far;
        break;
    case HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO:
        memset(value, 0, sizeof(hsa_amd_memory_pool_link_info_t));
        if (far) {
            *(hsa_amd_memory_pool_link_info_t *) value = (hsa_amd_memory_pool_link_info_t){
                .atomic_support_32bit = true,
                .atomic_support_64bit = true,
                .coherent_support = true,
                .link_type = HSA_AMD_LINK_INFO_TYPE_PCIE,
                .numa_distance = 20, // what the driver says of PCIe
            };
        }
        break;
    default:
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    return HSA_STATUS_SUCCESS;
}
