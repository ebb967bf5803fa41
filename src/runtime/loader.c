// loader: which extensions there are, and the one: AMD's loader interface (version 1.3), through
// which HIP, debuggers and profilers ask what stands where in device memory. The host reads loaded
// code at the same addresses as the device.
#include "executables.h"

#include <stdlib.h>
#include <string.h>

static hsa_status_t query_host_address(const void * device, const void ** host) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!device || !host) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    pthread_mutex_lock(&rt->code.lock);
    bool found = rt_loaded_at(rt, (uint64_t) (uintptr_t) device);
    pthread_mutex_unlock(&rt->code.lock);
    if (found) {
        *host = device;
    }
    return found ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

static hsa_status_t query_segment_descriptors(hsa_ven_amd_loader_segment_descriptor_t * out,
                                              size_t * n) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!n || (*n == 0) != (out == NULL)) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    size_t count = 0;
    pthread_mutex_lock(&rt->code.lock);
    for (const struct rt_executable * e = rt->code.executables; e; e = e->next) {
        for (const struct rt_loaded * l = e->loaded; l; l = l->next, count++) {
            if (out && count < *n) {
                out[count] = (hsa_ven_amd_loader_segment_descriptor_t){
                    .agent = {(uint64_t) (uintptr_t) l->agent},
                    .executable = {(uint64_t) (uintptr_t) e},
                    .code_object_storage_type = HSA_VEN_AMD_LOADER_CODE_OBJECT_STORAGE_TYPE_MEMORY,
                    .code_object_storage_base = l->image.memory,
                    .code_object_storage_size = l->co.span,
                    .segment_base = l->image.memory,
                    .segment_size = l->co.span,
                };
            }
        }
    }
    pthread_mutex_unlock(&rt->code.lock);
    if (out && *n != count) {
        return HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS;
    }
    *n = count;
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t query_executable(const void * device, hsa_executable_t * out) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!device || !out) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    pthread_mutex_lock(&rt->code.lock);
    const struct rt_loaded * l = rt_loaded_at(rt, (uint64_t) (uintptr_t) device);
    if (l) {
        out->handle = (uint64_t) (uintptr_t) l->executable;
    }
    pthread_mutex_unlock(&rt->code.lock);
    return l ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

static hsa_status_t iterate_loaded(hsa_executable_t handle,
                                   hsa_status_t (*callback)(hsa_executable_t,
                                                            hsa_loaded_code_object_t, void *),
                                   void * data) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!callback) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    hsa_status_t status = HSA_STATUS_SUCCESS;
    pthread_mutex_lock(&rt->code.lock);
    const struct rt_executable * e = rt_executable_find(rt, handle);
    uint64_t at = e ? (uint64_t) (uintptr_t) e->loaded : 0;
    pthread_mutex_unlock(&rt->code.lock);
    if (!e) {
        return HSA_STATUS_ERROR_INVALID_EXECUTABLE;
    }
    while (at && status == HSA_STATUS_SUCCESS) {
        status = callback(handle, (hsa_loaded_code_object_t){at}, data);
        pthread_mutex_lock(&rt->code.lock);
        const struct rt_loaded * l = rt_loaded_find(rt, at);
        at = l ? (uint64_t) (uintptr_t) l->next : 0;
        pthread_mutex_unlock(&rt->code.lock);
    }
    return status;
}

static hsa_status_t loaded_info(const struct rt_loaded * l, uint32_t attribute, void * value) {
    switch (attribute) {
    case HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_EXECUTABLE:
        *(hsa_executable_t *) value = (hsa_executable_t){(uint64_t) (uintptr_t) l->executable};
        return HSA_STATUS_SUCCESS;
    case HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_KIND:
        *(uint32_t *) value = HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_KIND_AGENT;
        return HSA_STATUS_SUCCESS;
    case HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_AGENT:
        *(hsa_agent_t *) value = (hsa_agent_t){(uint64_t) (uintptr_t) l->agent};
        return HSA_STATUS_SUCCESS;
    case HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_CODE_OBJECT_STORAGE_TYPE:
        *(uint32_t *) value = l->file < 0 ? HSA_VEN_AMD_LOADER_CODE_OBJECT_STORAGE_TYPE_MEMORY
                                          : HSA_VEN_AMD_LOADER_CODE_OBJECT_STORAGE_TYPE_FILE;
        return HSA_STATUS_SUCCESS;
    case HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_CODE_OBJECT_STORAGE_FILE:
        if (l->file < 0) {
            return HSA_STATUS_ERROR_INVALID_ARGUMENT;
        }
        *(int *) value = l->file;
        return HSA_STATUS_SUCCESS;
    case HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_DELTA:
        *(uint64_t *) value = l->image.delta;
        return HSA_STATUS_SUCCESS;
    case HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_BASE:
        *(uint64_t *) value = (uint64_t) (uintptr_t) l->image.memory;
        return HSA_STATUS_SUCCESS;
    case HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_SIZE:
        *(uint64_t *) value = l->co.span;
        return HSA_STATUS_SUCCESS;
    case HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_URI_LENGTH:
        *(uint32_t *) value = (uint32_t) strlen(l->uri);
        return HSA_STATUS_SUCCESS;
    case HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_URI: // as long as URI_LENGTH says
        memcpy(value, l->uri, strlen(l->uri));
        return HSA_STATUS_SUCCESS;
    default:
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
}

static hsa_status_t loaded_get_info(hsa_loaded_code_object_t handle,
                                    hsa_ven_amd_loader_loaded_code_object_info_t attribute,
                                    void * value) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!value) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    pthread_mutex_lock(&rt->code.lock);
    const struct rt_loaded * l = rt_loaded_find(rt, handle.handle);
    hsa_status_t status =
        l ? loaded_info(l, (uint32_t) attribute, value) : HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
    pthread_mutex_unlock(&rt->code.lock);
    return status;
}

static hsa_status_t reader_from_file(hsa_file_t file, size_t offset, size_t size,
                                     hsa_code_object_reader_t * out) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    return out && size ? rt_reader_from_file(file, offset, size, out)
                       : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

static hsa_status_t iterate_executables(hsa_status_t (*callback)(hsa_executable_t, void *),
                                        void * data) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!callback) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    hsa_status_t status = HSA_STATUS_SUCCESS;
    pthread_mutex_lock(&rt->code.lock);
    uint64_t at = (uint64_t) (uintptr_t) rt->code.executables;
    pthread_mutex_unlock(&rt->code.lock);
    while (at && status == HSA_STATUS_SUCCESS) {
        status = callback((hsa_executable_t){at}, data);
        pthread_mutex_lock(&rt->code.lock);
        const struct rt_executable * e = rt_executable_find(rt, (hsa_executable_t){at});
        at = e ? (uint64_t) (uintptr_t) e->next : 0;
        pthread_mutex_unlock(&rt->code.lock);
    }
    return status;
}

static const hsa_ven_amd_loader_1_03_pfn_t table = {
    .hsa_ven_amd_loader_query_host_address = query_host_address,
    .hsa_ven_amd_loader_query_segment_descriptors = query_segment_descriptors,
    .hsa_ven_amd_loader_query_executable = query_executable,
    .hsa_ven_amd_loader_executable_iterate_loaded_code_objects = iterate_loaded,
    .hsa_ven_amd_loader_loaded_code_object_get_info = loaded_get_info,
    .hsa_ven_amd_loader_code_object_reader_create_from_file_with_offset_size = reader_from_file,
    .hsa_ven_amd_loader_iterate_executables = iterate_executables,
};

enum { LOADER_MAJOR = 1, LOADER_MINOR = 3 };

// ---- extensions ----

static bool is_extension(uint16_t extension) {
    return extension <= HSA_EXTENSION_STD_LAST ||
           (extension >= HSA_AMD_FIRST_EXTENSION && extension <= HSA_AMD_LAST_EXTENSION);
}

hsa_status_t hsa_system_major_extension_supported(uint16_t extension, uint16_t major,
                                                  uint16_t * minor, bool * result) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!result || !minor || !is_extension(extension)) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    *result = extension == HSA_EXTENSION_AMD_LOADER && major == LOADER_MAJOR;
    if (*result) {
        *minor = LOADER_MINOR;
    }
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_system_extension_supported(uint16_t extension, uint16_t major, uint16_t minor,
                                            bool * result) {
    uint16_t latest = 0;
    hsa_status_t status = hsa_system_major_extension_supported(extension, major, &latest, result);
    if (status == HSA_STATUS_SUCCESS) {
        *result = *result && minor <= latest;
    }
    return status;
}

// No agent has an extension of its own.
hsa_status_t hsa_agent_major_extension_supported(uint16_t extension, hsa_agent_t agent,
                                                 uint16_t major, uint16_t * minor, bool * result) {
    (void) major;
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!rt_agent_find(agent)) {
        return HSA_STATUS_ERROR_INVALID_AGENT;
    }
    if (!result || !minor || !is_extension(extension)) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    *result = false;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_agent_extension_supported(uint16_t extension, hsa_agent_t agent, uint16_t major,
                                           uint16_t minor, bool * result) {
    return hsa_agent_major_extension_supported(extension, agent, major, &minor, result);
}

hsa_status_t hsa_extension_get_name(uint16_t extension, const char ** name) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!name || extension != HSA_EXTENSION_AMD_LOADER) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    *name = "HSA_EXTENSION_AMD_LOADER";
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_system_get_major_extension_table(uint16_t extension, uint16_t major, size_t size,
                                                  void * out) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!out || size == 0) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    if (extension != HSA_EXTENSION_AMD_LOADER || major != LOADER_MAJOR) {
        return HSA_STATUS_ERROR;
    }
    memcpy(out, &table, size < sizeof table ? size : sizeof table);
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_system_get_extension_table(uint16_t extension, uint16_t major, uint16_t minor,
                                            void * out) {
    static const size_t sizes[] = {
        sizeof(hsa_ven_amd_loader_1_00_pfn_t),
        sizeof(hsa_ven_amd_loader_1_01_pfn_t),
        sizeof(hsa_ven_amd_loader_1_02_pfn_t),
        sizeof(hsa_ven_amd_loader_1_03_pfn_t),
    };
    return minor > LOADER_MINOR
               ? HSA_STATUS_ERROR
               : hsa_system_get_major_extension_table(extension, major, sizes[minor], out);
}
