// symbols: the kernels and variables of executables, by name or one after the other, and what can
// be asked of them.
#include "executables.h"

#include <stdlib.h>
#include <string.h>

static const struct rt_symbol * symbol_find(struct rt_runtime * rt, uint64_t handle) {
    for (struct rt_executable * e = rt->code.executables; e; e = e->next) {
        for (struct rt_loaded * l = e->loaded; l; l = l->next) {
            uint64_t at = handle - (uint64_t) (uintptr_t) l->symbols;
            if (at / sizeof *l->symbols < l->n_symbols && at % sizeof *l->symbols == 0) {
                return (const struct rt_symbol *) (uintptr_t) handle;
            }
        }
    }
    return NULL;
}

static hsa_status_t symbol_by_name(struct rt_runtime * rt, hsa_executable_t handle,
                                   const struct rt_agent * agent, const char * name,
                                   hsa_executable_symbol_t * out) {
    hsa_status_t status = HSA_STATUS_ERROR_INVALID_SYMBOL_NAME;
    pthread_mutex_lock(&rt->code.lock);
    const struct rt_executable * e = rt_executable_find(rt, handle);
    if (!e) {
        status = HSA_STATUS_ERROR_INVALID_EXECUTABLE;
    }
    // Everything here belongs to an agent, so there is nothing to find without one.
    for (const struct rt_loaded * l = e && agent ? e->loaded : NULL; l; l = l->next) {
        for (size_t i = 0; l->agent == agent && i < l->n_symbols; i++) {
            if (!strcmp(l->symbols[i].info.name, name)) {
                out->handle = (uint64_t) (uintptr_t) &l->symbols[i];
                status = HSA_STATUS_SUCCESS;
            }
        }
    }
    pthread_mutex_unlock(&rt->code.lock);
    return status;
}

hsa_status_t hsa_executable_get_symbol_by_name(hsa_executable_t handle, const char * name,
                                               const hsa_agent_t * agent_handle,
                                               hsa_executable_symbol_t * out) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    const struct rt_agent * agent = agent_handle ? rt_agent_find(*agent_handle) : NULL;
    if (agent_handle && !agent) {
        return HSA_STATUS_ERROR_INVALID_AGENT;
    }
    return name && out ? symbol_by_name(rt, handle, agent, name, out)
                       : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_executable_get_symbol(hsa_executable_t handle, const char * module,
                                       const char * name, hsa_agent_t agent, int32_t convention,
                                       hsa_executable_symbol_t * out) {
    (void) convention;
    return module && *module ? HSA_STATUS_ERROR_INVALID_SYMBOL_NAME // nothing has a module
                             : hsa_executable_get_symbol_by_name(handle, name, &agent, out);
}

// A list of symbols that callbacks can be called with while no lock is held.
static hsa_status_t symbol_list(struct rt_runtime * rt, hsa_executable_t handle,
                                const struct rt_agent * agent, uint64_t ** list, size_t * n) {
    hsa_status_t status = HSA_STATUS_SUCCESS;
    size_t count = 0;
    pthread_mutex_lock(&rt->code.lock);
    const struct rt_executable * e = rt_executable_find(rt, handle);
    for (const struct rt_loaded * l = e ? e->loaded : NULL; l; l = l->next) {
        count += l->n_symbols;
    }
    *n = 0;
    *list = malloc((count + 1) * sizeof **list);
    if (!e || !*list) {
        status = e ? HSA_STATUS_ERROR_OUT_OF_RESOURCES : HSA_STATUS_ERROR_INVALID_EXECUTABLE;
        free(*list);
        e = NULL;
    }
    for (const struct rt_loaded * l = e ? e->loaded : NULL; l; l = l->next) {
        for (size_t i = 0; (!agent || l->agent == agent) && i < l->n_symbols; i++) {
            (*list)[(*n)++] = (uint64_t) (uintptr_t) &l->symbols[i];
        }
    }
    pthread_mutex_unlock(&rt->code.lock);
    return status;
}

hsa_status_t hsa_executable_iterate_symbols(
    hsa_executable_t handle,
    hsa_status_t (*callback)(hsa_executable_t, hsa_executable_symbol_t, void *), void * data) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!callback) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    uint64_t * list;
    size_t n;
    hsa_status_t status = symbol_list(rt, handle, NULL, &list, &n);
    if (status != HSA_STATUS_SUCCESS) {
        return status;
    }
    for (size_t i = 0; i < n && status == HSA_STATUS_SUCCESS; i++) {
        status = callback(handle, (hsa_executable_symbol_t){list[i]}, data);
    }
    free(list);
    return status;
}

hsa_status_t hsa_executable_iterate_agent_symbols(
    hsa_executable_t handle, hsa_agent_t agent_handle,
    hsa_status_t (*callback)(hsa_executable_t, hsa_agent_t, hsa_executable_symbol_t, void *),
    void * data) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    const struct rt_agent * agent = rt_agent_find(agent_handle);
    if (!agent || !callback) {
        return agent ? HSA_STATUS_ERROR_INVALID_ARGUMENT : HSA_STATUS_ERROR_INVALID_AGENT;
    }
    uint64_t * list;
    size_t n;
    hsa_status_t status = symbol_list(rt, handle, agent, &list, &n);
    if (status != HSA_STATUS_SUCCESS) {
        return status;
    }
    for (size_t i = 0; i < n && status == HSA_STATUS_SUCCESS; i++) {
        status = callback(handle, agent_handle, (hsa_executable_symbol_t){list[i]}, data);
    }
    free(list);
    return status;
}

hsa_status_t hsa_executable_iterate_program_symbols(
    hsa_executable_t handle,
    hsa_status_t (*callback)(hsa_executable_t, hsa_executable_symbol_t, void *), void * data) {
    (void) data; // no symbol belongs to the program
    uint32_t valid;
    hsa_status_t status = hsa_executable_validate(handle, &valid);
    return status == HSA_STATUS_SUCCESS && !callback ? HSA_STATUS_ERROR_INVALID_ARGUMENT : status;
}

static hsa_status_t kernel_info(const struct code_symbol * info, bool frozen, uint32_t attribute,
                                void * value) {
    switch (attribute) {
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT:
        *(uint64_t *) value = frozen ? info->address : 0;
        return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE:
        *(uint32_t *) value = info->kernarg_bytes;
        return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_ALIGNMENT:
        *(uint32_t *) value = 16;
        return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE:
        *(uint32_t *) value = info->group_bytes;
        return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE:
        *(uint32_t *) value = info->private_bytes;
        return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_DYNAMIC_CALLSTACK:
        *(bool *) value = info->dynamic_stack;
        return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_CALL_CONVENTION:
        *(uint32_t *) value = 0;
        return HSA_STATUS_SUCCESS;
    default:
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
}

static hsa_status_t variable_info(const struct code_symbol * info, bool frozen, uint32_t attribute,
                                  void * value) {
    switch (attribute) {
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ADDRESS:
        *(uint64_t *) value = frozen ? info->address : 0;
        return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ALLOCATION:
        *(hsa_variable_allocation_t *) value = HSA_VARIABLE_ALLOCATION_AGENT;
        return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_SEGMENT:
        *(hsa_variable_segment_t *) value =
            info->is_readonly ? HSA_VARIABLE_SEGMENT_READONLY : HSA_VARIABLE_SEGMENT_GLOBAL;
        return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ALIGNMENT:
        *(uint32_t *) value = (uint32_t) (info->address & -info->address & 0xfff);
        return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_SIZE:
        *(uint32_t *) value = (uint32_t) info->size;
        return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_IS_CONST:
        *(bool *) value = info->is_readonly;
        return HSA_STATUS_SUCCESS;
    default:
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
}

static hsa_status_t symbol_info(const struct rt_symbol * s, uint32_t attribute, void * value) {
    const struct code_symbol * info = &s->info;
    bool frozen = s->loaded->executable->frozen;
    switch (attribute) {
    case HSA_EXECUTABLE_SYMBOL_INFO_TYPE:
        *(hsa_symbol_kind_t *) value =
            info->is_kernel ? HSA_SYMBOL_KIND_KERNEL : HSA_SYMBOL_KIND_VARIABLE;
        return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_NAME_LENGTH:
        *(uint32_t *) value = (uint32_t) strlen(info->name);
        return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_NAME: // without a zero byte
        memcpy(value, info->name, strlen(info->name));
        return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_MODULE_NAME_LENGTH:
        *(uint32_t *) value = 0;
        return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_MODULE_NAME:
        return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_AGENT:
        *(hsa_agent_t *) value = (hsa_agent_t){(uint64_t) (uintptr_t) s->loaded->agent};
        return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_LINKAGE:
        *(hsa_symbol_linkage_t *) value = HSA_SYMBOL_LINKAGE_PROGRAM;
        return HSA_STATUS_SUCCESS;
    case HSA_EXECUTABLE_SYMBOL_INFO_IS_DEFINITION:
        *(bool *) value = true;
        return HSA_STATUS_SUCCESS;
    default:
        return info->is_kernel ? kernel_info(info, frozen, attribute, value)
                               : variable_info(info, frozen, attribute, value);
    }
}

hsa_status_t hsa_executable_symbol_get_info(hsa_executable_symbol_t handle,
                                            hsa_executable_symbol_info_t attribute, void * value) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    pthread_mutex_lock(&rt->code.lock);
    const struct rt_symbol * s = symbol_find(rt, handle.handle);
    hsa_status_t status = !s       ? HSA_STATUS_ERROR_INVALID_EXECUTABLE_SYMBOL
                          : !value ? HSA_STATUS_ERROR_INVALID_ARGUMENT
                                   : symbol_info(s, (uint32_t) attribute, value);
    pthread_mutex_unlock(&rt->code.lock);
    return status;
}
