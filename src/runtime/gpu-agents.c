// gpu-agents: what emulated GPUs (emu/gfx/models.c) say of themselves, and their instruction
// sets.
//
// The answers are those of ROCr with such a card, where HIP and rocminfo of ROCm 5.2 to 7.2 look
// for them. Three things are ours: the versions of microcode are 0, for there is none, VRAM is not
// larger than the host's memory, which stands behind it, and there are no cooperative queues and no
// images, for nothing here plays that hardware.
#include "runtime.h"

#include <stdio.h>
#include <string.h>

enum { MAX_GROUP = 1024 };

void rt_gpu_setup(struct rt_agent * agent, const struct emu_gpu_model * model) {
    agent->gpu = model;
    snprintf(agent->name, sizeof agent->name, "%s", gfx_arch_name(model->arch));
    snprintf(agent->product, sizeof agent->product, "%s", model->product);
    uint64_t memory = rt_host_memory() / RT_PAGE * RT_PAGE;
    uint64_t vram = model->vram_bytes < memory ? model->vram_bytes : memory;
    rt_pool_add(agent, HSA_AMD_SEGMENT_GLOBAL, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED,
                RT_PAGE, vram);
    rt_pool_add(agent, HSA_AMD_SEGMENT_GLOBAL, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED,
                RT_PAGE, vram);
    rt_pool_add(agent, HSA_AMD_SEGMENT_GROUP, 0, RT_PAGE, model->lds_bytes);
}

static uint64_t memory_available(const struct rt_agent * agent) {
    uint64_t used = 0;
    pthread_rwlock_rdlock(&agent->rt->memory.lock);
    for (int i = 0; i < agent->n_pools; i++) {
        used += agent->pools[i].used;
    }
    pthread_rwlock_unlock(&agent->rt->memory.lock);
    return used < agent->pools[0].size ? agent->pools[0].size - used : 0;
}

// Attributes that are a word of the model.
static const uint32_t * model_word(const struct emu_gpu_model * gpu, uint32_t attribute) {
    switch (attribute) {
    case HSA_AGENT_INFO_WAVEFRONT_SIZE:
        return &gpu->wavefront;
    case HSA_AMD_AGENT_INFO_CHIP_ID:
        return &gpu->chip_id;
    case HSA_AMD_AGENT_INFO_CACHELINE_SIZE:
        return &gpu->cacheline;
    case HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT:
    case HSA_AMD_AGENT_INFO_COOPERATIVE_COMPUTE_UNIT_COUNT:
        return &gpu->compute_units;
    case HSA_AMD_AGENT_INFO_MAX_CLOCK_FREQUENCY:
        return &gpu->clock_mhz;
    case HSA_AMD_AGENT_INFO_MEMORY_WIDTH:
        return &gpu->memory_bits;
    case HSA_AMD_AGENT_INFO_MEMORY_MAX_FREQUENCY:
        return &gpu->memory_mhz;
    case HSA_AMD_AGENT_INFO_MAX_WAVES_PER_CU:
        return &gpu->waves_per_cu;
    case HSA_AMD_AGENT_INFO_NUM_SIMDS_PER_CU:
        return &gpu->simds_per_cu;
    case HSA_AMD_AGENT_INFO_NUM_SHADER_ENGINES:
        return &gpu->shader_engines;
    case HSA_AMD_AGENT_INFO_NUM_SHADER_ARRAYS_PER_SE:
        return &gpu->arrays_per_engine;
    default:
        return NULL;
    }
}

// XCCs: the parts that a gfx942 is made of.
static uint32_t dies(const struct emu_gpu_model * gpu) {
    return gpu->arch == GFX_942 ? 8 : 1;
}

enum { // attributes that are newer than the 5.2 header
    MEMORY_AVAIL = 0xA015,
    TIMESTAMP_FREQUENCY = 0xA016,
    ASIC_FAMILY_ID = 0xA107,
    UCODE_VERSION = 0xA108,
    SDMA_UCODE_VERSION = 0xA109,
    NUM_SDMA_ENGINES = 0xA10A,
    NUM_SDMA_XGMI_ENGINES = 0xA10B,
    IOMMU_SUPPORT = 0xA110,
    NUM_XCC = 0xA111,
    DRIVER_UID = 0xA112,
    SCRATCH_LIMIT_MAX = 0xA116,
    SCRATCH_LIMIT_CURRENT = 0xA117,
    CLOCK_COUNTERS = 0xA118,
};

// What is the same word for every GPU.
static bool same_word(uint32_t attribute, uint32_t * value) {
    static const struct {
        uint32_t attribute, value;
    } words[] = {
        {HSA_AGENT_INFO_FEATURE, HSA_AGENT_FEATURE_KERNEL_DISPATCH},
        {HSA_AGENT_INFO_PROFILE, HSA_PROFILE_BASE},
        {HSA_AGENT_INFO_WORKGROUP_MAX_SIZE, MAX_GROUP},
        {HSA_AGENT_INFO_GRID_MAX_SIZE, UINT32_MAX},
        {HSA_AGENT_INFO_FBARRIER_MAX_SIZE, 32},
        {HSA_AGENT_INFO_QUEUES_MAX, RT_GPU_QUEUES_MAX},
        {HSA_AGENT_INFO_QUEUE_MIN_SIZE, RT_GPU_QUEUE_MIN},
        {HSA_AGENT_INFO_QUEUE_MAX_SIZE, RT_GPU_QUEUE_MAX},
        {HSA_AGENT_INFO_QUEUE_TYPE, HSA_QUEUE_TYPE_MULTI},
        {HSA_AMD_AGENT_INFO_DOMAIN, 0},
        {HSA_AMD_AGENT_INFO_MAX_ADDRESS_WATCH_POINTS, 4},
        {NUM_SDMA_ENGINES, RT_GPU_COPY_ENGINES},
        {UCODE_VERSION, 0},
        {SDMA_UCODE_VERSION, 0},
        {NUM_SDMA_XGMI_ENGINES, 0},
        {IOMMU_SUPPORT, 0},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (words[i].attribute == attribute) {
            *value = words[i].value;
            return true;
        }
    }
    return false;
}

// A word that the model has, that all have, or that depends on which GPU it is.
static bool word_of(const struct rt_agent * agent, uint32_t attribute, uint32_t * value) {
    const struct emu_gpu_model * gpu = agent->gpu;
    const uint32_t * word = model_word(gpu, attribute);
    switch (attribute) {
    case HSA_AMD_AGENT_INFO_BDFID: // a bus of its own for each
        *value = agent->node << 8;
        return true;
    case ASIC_FAMILY_ID: // the kernel's numbers
        *value = gpu->arch == GFX_1151 ? 150 : gpu->arch == GFX_1100 ? 145 : 141;
        return true;
    case NUM_XCC:
        *value = dies(gpu);
        return true;
    case DRIVER_UID:
        *value = agent->node;
        return true;
    default:
        *value = word ? *word : 0;
        return word || same_word(attribute, value);
    }
}

static bool long_of(const struct rt_agent * agent, uint32_t attribute, uint64_t * value) {
    switch (attribute) {
    case MEMORY_AVAIL:
        *value = memory_available(agent);
        return true;
    case TIMESTAMP_FREQUENCY:
        *value = 1000000000u;
        return true;
    case SCRATCH_LIMIT_MAX:
        *value = (uint64_t) dies(agent->gpu) << 32;
        return true;
    case SCRATCH_LIMIT_CURRENT: // none of it is kept
        *value = 0;
        return true;
    default:
        return false;
    }
}

// `value` has room for what the attribute is, and for no more.
bool rt_gpu_info(const struct rt_agent * agent, uint32_t attribute, void * value) {
    const struct emu_gpu_model * gpu = agent->gpu;
    uint32_t word;
    uint64_t number;
    if (word_of(agent, attribute, &word)) {
        memcpy(value, &word, sizeof word);
        return true;
    }
    if (long_of(agent, attribute, &number)) {
        memcpy(value, &number, sizeof number);
        return true;
    }
    switch (attribute) {
    case HSA_AGENT_INFO_VENDOR_NAME:
        memcpy(value, (char[64]){"AMD"}, 64);
        return true;
    case HSA_AMD_AGENT_INFO_UUID: {
        char text[32];
        int n = snprintf(text, sizeof text, "GPU-%08x%08x", gpu->chip_id, agent->node);
        memcpy(value, text, (size_t) n + 1);
        return true;
    }
    case HSA_AGENT_INFO_FAST_F16_OPERATION:
        *(bool *) value = true;
        return true;
    case HSA_AGENT_INFO_WORKGROUP_MAX_DIM:
        memcpy(value, (uint16_t[3]){MAX_GROUP, MAX_GROUP, MAX_GROUP}, 3 * sizeof(uint16_t));
        return true;
    case HSA_AGENT_INFO_GRID_MAX_DIM:
        *(hsa_dim3_t *) value = (hsa_dim3_t){UINT32_MAX, UINT32_MAX, UINT32_MAX};
        return true;
    case HSA_AGENT_INFO_CACHE_SIZE:
        memcpy(value, gpu->caches, sizeof gpu->caches);
        return true;
    case HSA_AGENT_INFO_ISA:
        *(hsa_isa_t *) value = (hsa_isa_t){(uint64_t) (uintptr_t) gpu};
        return true;
    case HSA_AGENT_INFO_EXTENSIONS:
        memset(value, 0, 128);
        return true;
    case HSA_AGENT_INFO_VERSION_MINOR:
        *(uint16_t *) value = 1;
        return true;
    case HSA_AMD_AGENT_INFO_HDP_FLUSH:
        *(hsa_amd_hdp_flush_t *) value =
            (hsa_amd_hdp_flush_t){(uint32_t *) &agent->hdp[0], (uint32_t *) &agent->hdp[1]};
        return true;
    case HSA_AMD_AGENT_INFO_COOPERATIVE_QUEUES:
        *(bool *) value = false;
        return true;
    case CLOCK_COUNTERS: { // of GPU, CPU and system, and the frequency of the last
        uint64_t now = rt_now_ns();
        memcpy(value, (uint64_t[4]){now, now, now, 1000000000u}, 4 * sizeof now);
        return true;
    }
    default:
        return false;
    }
}

// ---- instruction sets ----

static const struct emu_gpu_model * isa_find(hsa_isa_t isa) {
    for (size_t i = 0; i < EMU_GPU_MODELS; i++) {
        if (isa.handle == (uint64_t) (uintptr_t) &emu_gpu_models[i]) {
            return &emu_gpu_models[i];
        }
    }
    return NULL;
}

hsa_status_t hsa_agent_iterate_isas(hsa_agent_t handle, hsa_status_t (*callback)(hsa_isa_t, void *),
                                    void * data) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    const struct rt_agent * agent = rt_agent_find(handle);
    if (!agent) {
        return HSA_STATUS_ERROR_INVALID_AGENT;
    }
    if (!callback) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    // A NPU has none in HSA's sense: its programs come inside PDIs.
    return agent->gpu ? callback((hsa_isa_t){(uint64_t) (uintptr_t) agent->gpu}, data)
                      : HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_isa_get_info_alt(hsa_isa_t isa, hsa_isa_info_t attribute, void * value) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    const struct emu_gpu_model * gpu = isa_find(isa);
    if (!gpu) {
        return HSA_STATUS_ERROR_INVALID_ISA;
    }
    if (!value) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    switch ((uint32_t) attribute) {
    case HSA_ISA_INFO_NAME_LENGTH: // with the zero byte
        *(uint32_t *) value = (uint32_t) strlen(gpu->isa) + 1;
        break;
    case HSA_ISA_INFO_NAME:
        memcpy(value, gpu->isa, strlen(gpu->isa) + 1);
        break;
    case HSA_ISA_INFO_CALL_CONVENTION_COUNT:
        *(uint32_t *) value = 1;
        break;
    case HSA_ISA_INFO_CALL_CONVENTION_INFO_WAVEFRONT_SIZE:
        *(uint32_t *) value = gpu->wavefront;
        break;
    case HSA_ISA_INFO_CALL_CONVENTION_INFO_WAVEFRONTS_PER_COMPUTE_UNIT:
        *(uint32_t *) value = gpu->waves_per_cu;
        break;
    case HSA_ISA_INFO_MACHINE_MODELS: // small, large
        memcpy(value, (bool[2]){false, true}, 2);
        break;
    case HSA_ISA_INFO_PROFILES: // base, full
        memcpy(value, (bool[2]){true, false}, 2);
        break;
    case HSA_ISA_INFO_DEFAULT_FLOAT_ROUNDING_MODES: // default, zero, near
    case HSA_ISA_INFO_BASE_PROFILE_DEFAULT_FLOAT_ROUNDING_MODES:
        memcpy(value, (bool[3]){false, false, true}, 3);
        break;
    case HSA_ISA_INFO_FAST_F16_OPERATION:
        *(bool *) value = true;
        break;
    case HSA_ISA_INFO_WORKGROUP_MAX_DIM:
        memcpy(value, (uint16_t[3]){MAX_GROUP, MAX_GROUP, MAX_GROUP}, 3 * sizeof(uint16_t));
        break;
    case HSA_ISA_INFO_WORKGROUP_MAX_SIZE:
        *(uint32_t *) value = MAX_GROUP;
        break;
    case HSA_ISA_INFO_GRID_MAX_DIM:
        *(hsa_dim3_t *) value = (hsa_dim3_t){UINT32_MAX, UINT32_MAX, UINT32_MAX};
        break;
    case HSA_ISA_INFO_GRID_MAX_SIZE:
        *(uint64_t *) value = UINT32_MAX;
        break;
    case HSA_ISA_INFO_FBARRIER_MAX_SIZE:
        *(uint32_t *) value = 32;
        break;
    default:
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_isa_get_info(hsa_isa_t isa, hsa_isa_info_t attribute, uint32_t index,
                              void * value) {
    return rt_runtime() && index != 0 ? HSA_STATUS_ERROR_INVALID_INDEX
                                      : hsa_isa_get_info_alt(isa, attribute, value);
}

hsa_status_t hsa_isa_from_name(const char * name, hsa_isa_t * isa) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!name || !isa) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    for (size_t i = 0; i < EMU_GPU_MODELS; i++) {
        if (!strcmp(emu_gpu_models[i].isa, name)) {
            isa->handle = (uint64_t) (uintptr_t) &emu_gpu_models[i];
            return HSA_STATUS_SUCCESS;
        }
    }
    return HSA_STATUS_ERROR_INVALID_ISA_NAME;
}

hsa_status_t hsa_isa_compatible(hsa_isa_t code, hsa_isa_t agent, bool * result) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!isa_find(code) || !isa_find(agent)) {
        return HSA_STATUS_ERROR_INVALID_ISA;
    }
    if (!result) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    *result = code.handle == agent.handle;
    return HSA_STATUS_SUCCESS;
}

// A wavefront's handle is the instruction set's: each has one.
hsa_status_t hsa_isa_iterate_wavefronts(hsa_isa_t isa,
                                        hsa_status_t (*callback)(hsa_wavefront_t, void *),
                                        void * data) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!isa_find(isa)) {
        return HSA_STATUS_ERROR_INVALID_ISA;
    }
    return callback ? callback((hsa_wavefront_t){isa.handle}, data)
                    : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_wavefront_get_info(hsa_wavefront_t wavefront, hsa_wavefront_info_t attribute,
                                    void * value) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    const struct emu_gpu_model * gpu = isa_find((hsa_isa_t){wavefront.handle});
    if (!gpu) {
        return HSA_STATUS_ERROR_INVALID_WAVEFRONT;
    }
    if (!value || attribute != HSA_WAVEFRONT_INFO_SIZE) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    *(uint32_t *) value = gpu->wavefront;
    return HSA_STATUS_SUCCESS;
}

// ---- caches: a handle is the address of a size in the model ----

hsa_status_t hsa_agent_iterate_caches(hsa_agent_t handle,
                                      hsa_status_t (*callback)(hsa_cache_t, void *), void * data) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    const struct rt_agent * agent = rt_agent_find(handle);
    if (!agent) {
        return HSA_STATUS_ERROR_INVALID_AGENT;
    }
    if (!callback) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    if (!agent->gpu) {
        return HSA_STATUS_ERROR_INVALID_CACHE;
    }
    hsa_status_t status = HSA_STATUS_SUCCESS;
    for (int i = 0; i < EMU_GPU_CACHES && agent->gpu->caches[i] && status == HSA_STATUS_SUCCESS;
         i++) {
        status = callback((hsa_cache_t){(uint64_t) (uintptr_t) &agent->gpu->caches[i]}, data);
    }
    return status;
}

hsa_status_t hsa_cache_get_info(hsa_cache_t cache, hsa_cache_info_t attribute, void * value) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    for (size_t m = 0; m < EMU_GPU_MODELS; m++) {
        for (int i = 0; i < EMU_GPU_CACHES; i++) {
            if (cache.handle != (uint64_t) (uintptr_t) &emu_gpu_models[m].caches[i] ||
                !emu_gpu_models[m].caches[i]) {
                continue;
            }
            char name[32];
            int n =
                snprintf(name, sizeof name, "%s L%d", gfx_arch_name(emu_gpu_models[m].arch), i + 1);
            switch (value ? (int) attribute : -1) {
            case HSA_CACHE_INFO_NAME_LENGTH:
                *(uint32_t *) value = (uint32_t) n;
                return HSA_STATUS_SUCCESS;
            case HSA_CACHE_INFO_NAME:
                memcpy(value, name, (size_t) n + 1);
                return HSA_STATUS_SUCCESS;
            case HSA_CACHE_INFO_LEVEL:
                *(uint8_t *) value = (uint8_t) (i + 1);
                return HSA_STATUS_SUCCESS;
            case HSA_CACHE_INFO_SIZE:
                *(uint32_t *) value = emu_gpu_models[m].caches[i];
                return HSA_STATUS_SUCCESS;
            default:
                return HSA_STATUS_ERROR_INVALID_ARGUMENT;
            }
        }
    }
    return HSA_STATUS_ERROR_INVALID_CACHE;
}
