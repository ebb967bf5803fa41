// A ROCr of the build that PLAYED_BUILD says, with one NPU: as much of it as a client asks before
// it sends anything. With DIE=init it ends the process in hsa_init, as real ones do on machines
// that they do not expect.
#include "hsa/hsa-aie-abi.h"

#include <hsa/hsa_ext_amd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The bytes by which the build of a file is known that is not opened.
__attribute__((used)) const char played_build_id[] = "ROCR BUILD ID: \"" PLAYED_BUILD "-played\"";

enum { HOST = 1, NPU, GPU }; // agents
enum {
    KERNARG = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT,
    FINE = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED,
    COARSE = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED,
};

static const struct {
    uint64_t agent;
    uint32_t flags;
    size_t size, granule;
} pools[] = {
    {HOST, KERNARG | FINE, (size_t) 8 << 30, 4096},
    {NPU, KERNARG | COARSE, (size_t) 8 << 30, 4096},
    {NPU, COARSE, 64 << 20, 0}, // its heap
    {NPU, COARSE, (size_t) 8 << 30, 4096},
    {GPU, COARSE, (size_t) 4 << 30, 4096},
};

static bool plays_gpu(void) {
    const char * what = getenv("PLAY");
    return what && !strcmp(what, "gpu");
}

hsa_status_t hsa_init(void) {
    const char * how = getenv("DIE");
    if (how && !strcmp(how, "init")) {
        abort();
    }
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_shut_down(void) {
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_status_string(hsa_status_t status, const char ** text) {
    *text = status == HSA_STATUS_SUCCESS ? "no error" : "refused";
    return HSA_STATUS_SUCCESS;
}

// As AMD's own builds of ROCm 7.2 answer; Debian's says 1.1 where this says 1.18.
hsa_status_t hsa_system_get_info(hsa_system_info_t attribute, void * value) {
    enum { EXT_MAJOR = 0x207, EXT_MINOR };
    switch ((int) attribute) {
    case HSA_SYSTEM_INFO_VERSION_MAJOR:
    case EXT_MAJOR:
        *(uint16_t *) value = 1;
        return HSA_STATUS_SUCCESS;
    case HSA_SYSTEM_INFO_VERSION_MINOR:
        *(uint16_t *) value = 18;
        return HSA_STATUS_SUCCESS;
    case EXT_MINOR:
        *(uint16_t *) value = 15;
        return HSA_STATUS_SUCCESS;
    case HSA_AMD_SYSTEM_INFO_BUILD_VERSION:
        *(const char **) value = "\"" PLAYED_BUILD "-played\"";
        return HSA_STATUS_SUCCESS;
    default:
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
}

hsa_status_t hsa_iterate_agents(hsa_status_t (*visit)(hsa_agent_t agent, void * data),
                                void * data) {
    hsa_status_t status = visit((hsa_agent_t){HOST}, data);
    return status == HSA_STATUS_SUCCESS ? visit((hsa_agent_t){plays_gpu() ? GPU : NPU}, data)
                                        : status;
}

hsa_status_t hsa_agent_get_info(hsa_agent_t agent, hsa_agent_info_t attribute, void * value) {
    static const struct {
        uint32_t type;
        const char *name, *product;
    } agents[] = {
        [HOST] = {HSA_DEVICE_TYPE_CPU, "host", "host"},
        [NPU] = {AIE_ABI_DEVICE_TYPE, "aie2", "RyzenAI-npu1"},
        [GPU] = {HSA_DEVICE_TYPE_GPU, "gfx1100", "a GPU"},
    };
    switch ((int) attribute) {
    case HSA_AGENT_INFO_DEVICE:
        memcpy(value, &agents[agent.handle].type, sizeof agents[0].type);
        return HSA_STATUS_SUCCESS;
    case HSA_AGENT_INFO_NAME:
        snprintf(value, 64, "%s", agents[agent.handle].name);
        return HSA_STATUS_SUCCESS;
    case HSA_AMD_AGENT_INFO_PRODUCT_NAME:
        snprintf(value, 64, "%s", agents[agent.handle].product);
        return HSA_STATUS_SUCCESS;
    default:
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
}

hsa_status_t hsa_amd_agent_iterate_memory_pools(hsa_agent_t agent,
                                                hsa_status_t (*visit)(hsa_amd_memory_pool_t pool,
                                                                      void * data),
                                                void * data) {
    hsa_status_t status = HSA_STATUS_SUCCESS;
    for (uint64_t i = 0; i < sizeof pools / sizeof pools[0] && status == HSA_STATUS_SUCCESS; i++) {
        if (pools[i].agent == agent.handle) {
            status = visit((hsa_amd_memory_pool_t){i}, data);
        }
    }
    return status;
}

hsa_status_t hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t pool,
                                          hsa_amd_memory_pool_info_t attribute, void * value) {
    switch ((int) attribute) {
    case HSA_AMD_MEMORY_POOL_INFO_SEGMENT:
        *(hsa_amd_segment_t *) value = HSA_AMD_SEGMENT_GLOBAL;
        return HSA_STATUS_SUCCESS;
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED:
        *(bool *) value = true;
        return HSA_STATUS_SUCCESS;
    case HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS:
        *(uint32_t *) value = pools[pool.handle].flags;
        return HSA_STATUS_SUCCESS;
    case HSA_AMD_MEMORY_POOL_INFO_SIZE:
        *(size_t *) value = pools[pool.handle].size;
        return HSA_STATUS_SUCCESS;
    case AIE_ABI_POOL_REC_GRANULE:
        *(size_t *) value = pools[pool.handle].granule;
        return HSA_STATUS_SUCCESS;
    default:
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
}
