// executables: from a code object's bytes to kernels that can be dispatched.
//
// A handle is the address of a struct that hangs off rt->code; it is looked up there before it is
// believed. Why a code object was refused is said on stderr, for the status cannot say it.
#include "executables.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILE = 1 << 30 };

_Static_assert(sizeof((struct rt_block *) 0)->readonly /
                       sizeof((struct rt_block *) 0)->readonly[0] >=
                   CODE_MAX_SEGMENTS,
               "each segment may be read only");

bool rt_code_init(struct rt_runtime * rt) {
    return pthread_mutex_init(&rt->code.lock, NULL) == 0;
}

static void reader_free(struct rt_reader * r) {
    free(r->owned);
    free(r->uri);
    free(r);
}

static void loaded_free(struct rt_runtime * rt, struct rt_loaded * l) {
    for (size_t i = 0; i < l->n_symbols; i++) {
        free((char *) (uintptr_t) l->symbols[i].info.name);
    }
    free(l->symbols);
    if (l->image.memory) {
        rt_memory_unmap(rt, l->image.memory);
    }
    free(l->uri);
    free(l);
}

static void executable_free(struct rt_runtime * rt, struct rt_executable * e) {
    while (e->loaded) {
        struct rt_loaded * l = e->loaded;
        e->loaded = l->next;
        loaded_free(rt, l);
    }
    while (e->variables) {
        struct rt_variable * v = e->variables;
        e->variables = v->next;
        free(v);
    }
    free(e);
}

void rt_code_release(struct rt_runtime * rt) {
    while (rt->code.executables) {
        struct rt_executable * e = rt->code.executables;
        rt->code.executables = e->next;
        executable_free(rt, e);
    }
    while (rt->code.readers) {
        struct rt_reader * r = rt->code.readers;
        rt->code.readers = r->next;
        reader_free(r);
    }
    pthread_mutex_destroy(&rt->code.lock);
}

// ---- finding ----

struct rt_executable * rt_executable_find(struct rt_runtime * rt, hsa_executable_t handle) {
    struct rt_executable * e = rt->code.executables;
    while (e && (uint64_t) (uintptr_t) e != handle.handle) {
        e = e->next;
    }
    return e;
}

struct rt_loaded * rt_loaded_find(struct rt_runtime * rt, uint64_t handle) {
    for (struct rt_executable * e = rt->code.executables; e; e = e->next) {
        for (struct rt_loaded * l = e->loaded; l; l = l->next) {
            if ((uint64_t) (uintptr_t) l == handle) {
                return l;
            }
        }
    }
    return NULL;
}

struct rt_loaded * rt_loaded_at(struct rt_runtime * rt, uint64_t address) {
    for (struct rt_executable * e = rt->code.executables; e; e = e->next) {
        for (struct rt_loaded * l = e->loaded; l; l = l->next) {
            if (address - (uint64_t) (uintptr_t) l->image.memory < l->co.span) {
                return l;
            }
        }
    }
    return NULL;
}

// ---- readers ----

static hsa_status_t reader_add(struct rt_reader reader, hsa_code_object_reader_t * out) {
    struct rt_runtime * rt = rt_runtime();
    struct rt_reader * r = malloc(sizeof *r);
    if (!r || !reader.uri) {
        free(r);
        free(reader.owned);
        free(reader.uri);
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    *r = reader;
    pthread_mutex_lock(&rt->code.lock);
    r->next = rt->code.readers;
    rt->code.readers = r;
    pthread_mutex_unlock(&rt->code.lock);
    out->handle = (uint64_t) (uintptr_t) r;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_code_object_reader_create_from_memory(const void * data, size_t size,
                                                       hsa_code_object_reader_t * out) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!data || size == 0 || !out) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    struct buf uri = {0};
    buf_printf(&uri, "memory://%ld#offset=0x%" PRIxPTR "&size=%zu", (long) getpid(),
               (uintptr_t) data, size);
    return reader_add(
        (struct rt_reader){
            .data = data, .size = size, .uri = uri.failed ? NULL : (char *) uri.data, .file = -1},
        out);
}

static char * file_uri(hsa_file_t file, uint64_t offset, uint64_t size) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t n = readlink(link, path, sizeof path);
    struct buf uri = {0};
    buf_printf(&uri, "file://");
    for (ssize_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char) path[i];
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     (c && strchr("/_.~-", c));
        buf_printf(&uri, plain ? "%c" : "%%%02X", c);
    }
    buf_printf(&uri, "#offset=%" PRIu64 "&size=%" PRIu64, offset, size);
    if (uri.failed) {
        buf_free(&uri);
    }
    return (char *) uri.data;
}

hsa_status_t rt_reader_from_file(hsa_file_t file, uint64_t offset, uint64_t size,
                                 hsa_code_object_reader_t * out) {
    struct stat st;
    if (fstat(file, &st) != 0 || !S_ISREG(st.st_mode) || offset >= (uint64_t) st.st_size) {
        return HSA_STATUS_ERROR_INVALID_FILE;
    }
    uint64_t rest = (uint64_t) st.st_size - offset;
    if (size == 0) {
        size = rest;
    }
    if (size > rest || size > MAX_FILE) {
        return HSA_STATUS_ERROR_INVALID_FILE;
    }
    uint8_t * data = malloc(size);
    if (!data) {
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    for (uint64_t at = 0; at < size;) {
        ssize_t n = pread(file, data + at, size - at, (off_t) (offset + at));
        if (n <= 0) {
            free(data);
            return HSA_STATUS_ERROR_INVALID_FILE;
        }
        at += (uint64_t) n;
    }
    return reader_add((struct rt_reader){.data = data,
                                         .size = size,
                                         .owned = data,
                                         .uri = file_uri(file, offset, size),
                                         .file = file},
                      out);
}

hsa_status_t hsa_code_object_reader_create_from_file(hsa_file_t file,
                                                     hsa_code_object_reader_t * out) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    return out ? rt_reader_from_file(file, 0, 0, out) : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_code_object_reader_destroy(hsa_code_object_reader_t handle) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    pthread_mutex_lock(&rt->code.lock);
    struct rt_reader ** link = &rt->code.readers;
    while (*link && (uint64_t) (uintptr_t) *link != handle.handle) {
        link = &(*link)->next;
    }
    struct rt_reader * r = *link;
    if (r) {
        *link = r->next;
    }
    pthread_mutex_unlock(&rt->code.lock);
    if (!r) {
        return HSA_STATUS_ERROR_INVALID_CODE_OBJECT_READER;
    }
    reader_free(r);
    return HSA_STATUS_SUCCESS;
}

// ---- executables ----

hsa_status_t hsa_executable_create_alt(hsa_profile_t profile,
                                       hsa_default_float_rounding_mode_t rounding,
                                       const char * options, hsa_executable_t * out) {
    (void) options; // there are none
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!out || (uint32_t) profile > HSA_PROFILE_FULL ||
        (uint32_t) rounding > HSA_DEFAULT_FLOAT_ROUNDING_MODE_NEAR) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    struct rt_executable * e = calloc(1, sizeof *e);
    if (!e) {
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    e->profile = profile;
    e->rounding = rounding;
    pthread_mutex_lock(&rt->code.lock);
    e->next = rt->code.executables;
    rt->code.executables = e;
    pthread_mutex_unlock(&rt->code.lock);
    out->handle = (uint64_t) (uintptr_t) e;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_create(hsa_profile_t profile, hsa_executable_state_t state,
                                   const char * options, hsa_executable_t * out) {
    hsa_status_t status =
        hsa_executable_create_alt(profile, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, options, out);
    return status == HSA_STATUS_SUCCESS && state == HSA_EXECUTABLE_STATE_FROZEN
               ? hsa_executable_freeze(*out, NULL)
               : status;
}

hsa_status_t hsa_executable_destroy(hsa_executable_t handle) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    pthread_mutex_lock(&rt->code.lock);
    struct rt_executable ** link = &rt->code.executables;
    while (*link && (uint64_t) (uintptr_t) *link != handle.handle) {
        link = &(*link)->next;
    }
    struct rt_executable * e = *link;
    if (e) {
        *link = e->next;
        executable_free(rt, e);
    }
    pthread_mutex_unlock(&rt->code.lock);
    return e ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_EXECUTABLE;
}

hsa_status_t hsa_executable_freeze(hsa_executable_t handle, const char * options) {
    (void) options;
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    hsa_status_t status = HSA_STATUS_ERROR_INVALID_EXECUTABLE;
    pthread_mutex_lock(&rt->code.lock);
    struct rt_executable * e = rt_executable_find(rt, handle);
    if (e) {
        status = e->frozen ? HSA_STATUS_ERROR_FROZEN_EXECUTABLE : HSA_STATUS_SUCCESS;
        e->frozen = true;
    }
    pthread_mutex_unlock(&rt->code.lock);
    return status;
}

hsa_status_t hsa_executable_get_info(hsa_executable_t handle, hsa_executable_info_t attribute,
                                     void * value) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    hsa_status_t status = HSA_STATUS_SUCCESS;
    pthread_mutex_lock(&rt->code.lock);
    const struct rt_executable * e = rt_executable_find(rt, handle);
    if (!e) {
        status = HSA_STATUS_ERROR_INVALID_EXECUTABLE;
    } else if (value && attribute == HSA_EXECUTABLE_INFO_PROFILE) {
        *(hsa_profile_t *) value = e->profile;
    } else if (value && attribute == HSA_EXECUTABLE_INFO_STATE) {
        *(hsa_executable_state_t *) value =
            e->frozen ? HSA_EXECUTABLE_STATE_FROZEN : HSA_EXECUTABLE_STATE_UNFROZEN;
    } else if (value && attribute == HSA_EXECUTABLE_INFO_DEFAULT_FLOAT_ROUNDING_MODE) {
        *(hsa_default_float_rounding_mode_t *) value = e->rounding;
    } else {
        status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    pthread_mutex_unlock(&rt->code.lock);
    return status;
}

hsa_status_t hsa_executable_validate(hsa_executable_t handle, uint32_t * result) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    pthread_mutex_lock(&rt->code.lock);
    bool found = rt_executable_find(rt, handle);
    pthread_mutex_unlock(&rt->code.lock);
    if (!found || !result) {
        return found ? HSA_STATUS_ERROR_INVALID_ARGUMENT : HSA_STATUS_ERROR_INVALID_EXECUTABLE;
    }
    *result = 0; // what is not valid is refused when it is loaded
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_validate_alt(hsa_executable_t handle, const char * options,
                                         uint32_t * result) {
    (void) options;
    return hsa_executable_validate(handle, result);
}

// ---- variables from outside ----

static const struct rt_variable * variable_find(const struct rt_executable * e,
                                                const struct rt_agent * agent, const char * name) {
    const struct rt_variable * v = e->variables;
    while (v && ((v->agent && v->agent != agent) || strcmp(v->name, name) != 0)) {
        v = v->next;
    }
    return v;
}

static hsa_status_t variable_define(hsa_executable_t handle, struct rt_agent * agent,
                                    const char * name, void * address) {
    struct rt_runtime * rt = rt_runtime();
    if (!name) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    struct rt_variable * v = malloc(sizeof *v + strlen(name) + 1);
    if (!v) {
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    v->agent = agent;
    v->address = (uint64_t) (uintptr_t) address;
    strcpy(v->name, name);
    hsa_status_t status = HSA_STATUS_SUCCESS;
    pthread_mutex_lock(&rt->code.lock);
    struct rt_executable * e = rt_executable_find(rt, handle);
    if (!e) {
        status = HSA_STATUS_ERROR_INVALID_EXECUTABLE;
    } else if (e->frozen) {
        status = HSA_STATUS_ERROR_FROZEN_EXECUTABLE;
    } else if (variable_find(e, agent, name)) {
        status = HSA_STATUS_ERROR_VARIABLE_ALREADY_DEFINED;
    } else {
        v->next = e->variables;
        e->variables = v;
        v = NULL;
    }
    pthread_mutex_unlock(&rt->code.lock);
    free(v);
    return status;
}

hsa_status_t hsa_executable_global_variable_define(hsa_executable_t handle, const char * name,
                                                   void * address) {
    return rt_runtime() ? variable_define(handle, NULL, name, address)
                        : HSA_STATUS_ERROR_NOT_INITIALIZED;
}

hsa_status_t hsa_executable_agent_global_variable_define(hsa_executable_t handle,
                                                         hsa_agent_t agent_handle,
                                                         const char * name, void * address) {
    if (!rt_runtime()) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    struct rt_agent * agent = rt_agent_find(agent_handle);
    return agent ? variable_define(handle, agent, name, address) : HSA_STATUS_ERROR_INVALID_AGENT;
}

hsa_status_t hsa_executable_readonly_variable_define(hsa_executable_t handle, hsa_agent_t agent,
                                                     const char * name, void * address) {
    return hsa_executable_agent_global_variable_define(handle, agent, name, address);
}

// ---- loading ----

static bool define(void * user, const char * name, uint64_t * address) {
    const struct rt_loaded * l = user;
    const struct rt_variable * v = variable_find(l->executable, l->agent, name);
    if (v) {
        *address = v->address;
    }
    return v;
}

static enum status check_arch(const struct code_object * co, const struct rt_agent * agent,
                              struct error * err) {
    const struct emu_gpu_model * gpu = agent->gpu;
    const char * name = code_mach_name(co->mach);
    if (co->mach != gpu->mach) {
        return error_set(err, ST_UNSUPPORTED,
                         "code object: it is for %s (processor 0x%" PRIx32 "), the agent is %s",
                         name ? name : "another processor", co->mach, agent->name);
    }
    if (gpu->has_features && (co->xnack == CODE_FEATURE_ON || co->sramecc == CODE_FEATURE_OFF)) {
        return error_set(err, ST_UNSUPPORTED, "code object: it relies on %s, the agent is %s",
                         co->xnack == CODE_FEATURE_ON ? "xnack+" : "sramecc-", gpu->isa);
    }
    return ST_OK;
}

struct keeping {
    struct rt_loaded * l;
    bool no_memory;
};

static bool keep_symbol(void * user, const struct code_symbol * info) {
    struct keeping * k = user;
    struct rt_symbol * s = &k->l->symbols[k->l->n_symbols];
    s->loaded = k->l;
    s->info = *info;
    s->info.name = strdup(info->name); // the image is the device's to write
    k->no_memory = !s->info.name;
    k->l->n_symbols += !k->no_memory;
    return !k->no_memory;
}

static enum status keep_symbols(struct rt_loaded * l, struct error * err) {
    struct keeping k = {.l = l};
    l->symbols = calloc(l->image.n_symbols, sizeof *l->symbols);
    enum status st = l->symbols ? code_image_symbols(&l->image, keep_symbol, &k, err) : ST_OK;
    return !l->symbols || k.no_memory
               ? error_set(err, ST_NO_MEMORY, "code object: no memory for its symbols")
               : st;
}

static enum status load(struct rt_loaded * l, struct error * err) {
    struct rt_block * block;
    uint8_t * memory = rt_memory_map(l->agent, RT_BLOCK_CODE, l->co.span, &block);
    if (!memory) {
        return error_set(err, ST_NO_MEMORY, "code object: no memory for %" PRIu64 " bytes",
                         l->co.span);
    }
    enum status st =
        code_object_load(&l->co, memory, (uint64_t) (uintptr_t) memory, define, l, &l->image, err);
    if (st == ST_OK && l->image.n_symbols) {
        st = keep_symbols(l, err);
    }
    for (int i = 0; i < l->co.n_segments; i++) {
        const struct code_segment * s = &l->co.segments[i];
        if (!(s->flags & CODE_W)) {
            block->readonly[block->n_readonly].from = s->vaddr - l->co.low;
            block->readonly[block->n_readonly++].to = s->vaddr - l->co.low + s->size;
        }
    }
    l->image.memory = memory;
    l->co.data = NULL; // the user may free it from here on
    return st;
}

static hsa_status_t load_status(enum status st) {
    switch (st) {
    case ST_OK:
        return HSA_STATUS_SUCCESS;
    case ST_UNSUPPORTED:
        return HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS;
    case ST_NOT_FOUND:
        return HSA_STATUS_ERROR_VARIABLE_UNDEFINED;
    case ST_NO_MEMORY:
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    default:
        return HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
    }
}

// Under code.lock.
static hsa_status_t load_reader(struct rt_runtime * rt, struct rt_executable * e,
                                struct rt_agent * agent, const struct rt_reader * r,
                                hsa_loaded_code_object_t * out) {
    struct error err = {0};
    struct rt_loaded * l = calloc(1, sizeof *l);
    if (!l || !(l->uri = strdup(r->uri))) {
        free(l);
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    l->executable = e;
    l->agent = agent;
    l->file = r->file;
    enum status st = code_object_open(r->data, r->size, &l->co, &err);
    if (st == ST_OK) {
        st = check_arch(&l->co, agent, &err);
    }
    if (st == ST_OK) {
        st = load(l, &err);
    }
    if (st != ST_OK) {
        rt_say("%s: %s", agent->name, err.text);
        loaded_free(rt, l);
        return load_status(st);
    }
    l->next = e->loaded;
    e->loaded = l;
    if (out) {
        out->handle = (uint64_t) (uintptr_t) l;
    }
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_load_agent_code_object(hsa_executable_t handle,
                                                   hsa_agent_t agent_handle,
                                                   hsa_code_object_reader_t reader,
                                                   const char * options,
                                                   hsa_loaded_code_object_t * out) {
    (void) options;
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    struct rt_agent * agent = rt_agent_find(agent_handle);
    if (!agent) {
        return HSA_STATUS_ERROR_INVALID_AGENT;
    }
    if (!agent->gpu) {
        return HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS;
    }
    pthread_mutex_lock(&rt->code.lock);
    struct rt_executable * e = rt_executable_find(rt, handle);
    const struct rt_reader * r = rt->code.readers;
    while (r && (uint64_t) (uintptr_t) r != reader.handle) {
        r = r->next;
    }
    hsa_status_t status = !e          ? HSA_STATUS_ERROR_INVALID_EXECUTABLE
                          : !r        ? HSA_STATUS_ERROR_INVALID_CODE_OBJECT_READER
                          : e->frozen ? HSA_STATUS_ERROR_FROZEN_EXECUTABLE
                                      : load_reader(rt, e, agent, r, out);
    pthread_mutex_unlock(&rt->code.lock);
    return status;
}
