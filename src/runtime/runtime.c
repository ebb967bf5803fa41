// runtime: hsa_init to hsa_shut_down, and what can be asked of the system as a whole.
//
// HSA's interface has no context argument, so one runtime per process is all there can be; it is
// made by the first hsa_init and freed, with everything that hangs off it, by the last
// hsa_shut_down.
#include "native.h"

#include "base/plain.h"
#include "hsa-emu.h"
#include "timeline.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rt_runtime * current;                       // written under init_lock
static char init_error[sizeof((struct error *) 0)->text]; // under init_lock
static FILE * log_file;                                   // NULL: stderr; atomic

struct rt_runtime * rt_runtime(void) {
    return __atomic_load_n(&current, __ATOMIC_ACQUIRE);
}

void rt_say(const char * fmt, ...) {
    char text[640]; // one write per line, so that threads do not mix theirs
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    plain_make(text, false);
    FILE * file = __atomic_load_n(&log_file, __ATOMIC_ACQUIRE);
    fprintf(file ? file : stderr, "hsa-npu: %s\n", text);
}

// Where what we say goes. The flags choose what ROCr logs of its own doings, none of which is ours.
hsa_status_t emu_enable_logging(uint8_t * flags, void * file) RT_NEWER(hsa_amd_enable_logging);
hsa_status_t emu_enable_logging(uint8_t * flags, void * file) {
    (void) flags;
    __atomic_store_n(&log_file, file, __ATOMIC_RELEASE);
    return HSA_STATUS_SUCCESS;
}

uint64_t rt_now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t) ts.tv_sec * 1000000000u + (uint64_t) ts.tv_nsec;
}

struct rt_agent * rt_agent_find(hsa_agent_t handle) {
    struct rt_runtime * rt = rt_runtime();
    for (int i = 0; rt && i < rt->n_agents; i++) {
        if (handle.handle == (uint64_t) (uintptr_t) &rt->agents[i]) {
            return &rt->agents[i];
        }
    }
    return NULL;
}

struct rt_pool * rt_pool_find(hsa_amd_memory_pool_t handle) {
    struct rt_runtime * rt = rt_runtime();
    for (int i = 0; rt && i < rt->n_agents; i++) {
        for (int k = 0; k < rt->agents[i].n_pools; k++) {
            if (handle.handle == (uint64_t) (uintptr_t) &rt->agents[i].pools[k]) {
                return &rt->agents[i].pools[k];
            }
        }
    }
    return NULL;
}

// NPUs of this machine and emulated agents are never together.
static bool emu_is_native(const struct rt_runtime * rt) {
    return rt->n_agents > 1 && rt->agents[1].native;
}

static enum status parse_trace(struct rt_runtime * rt, struct error * err) {
    rt->trace_col = rt->trace_row = -1;
    const char * text = secure_getenv("GGML_HSA_EMU_TRACE");
    if (!text || !*text) {
        return ST_OK;
    }
    int col, row, end = 0;
    if (sscanf(text, "%d,%d%n", &col, &row, &end) != 2 || text[end] || col < 0 || row < 0) {
        return error_set(err, ST_INVALID,
                         "GGML_HSA_EMU_TRACE=%.80s: expected the tile as col,row, for example 0,2",
                         text);
    }
    rt->trace_col = col;
    rt->trace_row = row;
    return ST_OK;
}

static enum status parse_time(struct rt_runtime * rt, struct error * err) {
    const char * text = getenv("GGML_HSA_EMU_TIME");
    rt->born_ns = rt_now_ns();
    rt->modelled = text && !strcmp(text, "modelled");
    return !text || !*text || rt->modelled || !strcmp(text, "host")
               ? ST_OK
               : error_set(err, ST_INVALID, "GGML_HSA_EMU_TIME=%.40s: expected modelled or host",
                           text);
}

// Threads first: what they use must outlive them.
static void runtime_free(struct rt_runtime * rt) {
    rt_worker_release(&rt->events);
    rt_worker_release(&rt->copies);
    for (int i = 0; i < rt->n_agents; i++) {
        rt_queues_release(rt, &rt->agents[i]);
        if (rt->agents[i].native) { // its context holds PDIs
            rt_native_idle(rt->agents[i].native);
        }
    }
    rt_timeline_free(rt->timeline);
    for (int i = 0; i < rt->n_agents; i++) {
        emu_machine_free(rt->agents[i].machine);
        rt_timeline_forget(&rt->agents[i]);
        emu_cache_free(rt->agents[i].cache);
        free(rt->agents[i].rocr72);
        gfx_free(rt->agents[i].gfx);
        free(rt->agents[i].launches);
        pthread_mutex_destroy(&rt->agents[i].lock);
    }
    rt_code_release(rt);
    rt_signals_release(rt);
    rt_memory_release(rt);
    for (int i = 0; i < rt->n_agents; i++) {
        rt_native_close(rt->agents[i].native); // when its buffers are free
    }
    free(rt);
}

static enum status runtime_new(struct rt_runtime ** out, struct error * err) {
    struct rt_runtime * rt = calloc(1, sizeof *rt);
    if (!rt) {
        return error_set(err, ST_NO_MEMORY, "no memory for the runtime");
    }
    rt->strict = env_flag("GGML_HSA_EMU_STRICT", false);
    rt->rocr_bugs = env_flag("GGML_HSA_EMU_ROCR_BUGS", rt->strict);
    rt->wait_limit_s = env_number("GGML_HSA_WAIT_LIMIT", 1000000, 0);
    rt->caches = rt_caches_asked(rt->strict);
    rt->rests = env_flag("GGML_HSA_EMU_REST", rt->strict);
    enum status st = ST_OK;
    if (!rt_memory_init(rt) || !rt_signals_init(rt) || !rt_code_init(rt) ||
        !rt_worker_init(&rt->events, rt) || !rt_worker_init(&rt->copies, rt)) {
        st = error_set(err, ST_NO_MEMORY, "no locks for the runtime");
    }
    if (st == ST_OK) {
        st = parse_trace(rt, err);
    }
    if (st == ST_OK) {
        st = parse_time(rt, err);
    }
    if (st == ST_OK) { // a mistake is reported now, not by the first dispatch
        struct emu_clock clock;
        st = emu_clock_get(AIE_ARCH_AIE2, &clock, err);
    }
    if (st == ST_OK) {
        enum emu_adder adder;
        st = emu_adder_get(&adder, err);
    }
    if (st == ST_OK) {
        st = emu_threads_check(err);
    }
    if (st == ST_OK) {
        st = rt_agents_init(rt, err);
        rt->rocr_bugs = rt->rocr_bugs && !emu_is_native(rt); // nothing is played there
    }
    if (st != ST_OK) {
        runtime_free(rt);
        return st;
    }
    rt->timeline = rt_timeline_new();
    *out = rt;
    return ST_OK;
}

// Programs that end without hsa_shut_down want their timeline too. Nothing else is taken down:
// other threads may still run.
__attribute__((destructor)) static void end_timeline(void) {
    if (current) {
        rt_timeline_end(current->timeline);
    }
}

hsa_status_t hsa_init(void) {
    hsa_status_t result = HSA_STATUS_SUCCESS;
    pthread_mutex_lock(&init_lock);
    if (current) {
        if (current->references == INT32_MAX) {
            result = HSA_STATUS_ERROR_REFCOUNT_OVERFLOW;
        } else {
            current->references++;
        }
    } else {
        struct rt_runtime * rt = NULL;
        struct error err = {0};
        enum status st = runtime_new(&rt, &err);
        if (st == ST_OK) {
            rt->references = 1;
            __atomic_store_n(&current, rt, __ATOMIC_RELEASE);
        } else {
            rt_say("%s", err.text);
            result = st == ST_NO_MEMORY ? HSA_STATUS_ERROR_OUT_OF_RESOURCES : HSA_STATUS_ERROR;
        }
        memcpy(init_error, err.text, sizeof init_error);
    }
    pthread_mutex_unlock(&init_lock);
    return result;
}

hsa_status_t hsa_shut_down(void) {
    pthread_mutex_lock(&init_lock);
    if (!current) {
        pthread_mutex_unlock(&init_lock);
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (--current->references == 0) {
        struct rt_runtime * last = current;
        __atomic_store_n(&current, NULL, __ATOMIC_RELEASE);
        runtime_free(last);
    }
    pthread_mutex_unlock(&init_lock);
    return HSA_STATUS_SUCCESS;
}

// Those of AMD; some the 5.2 header does not name yet, but newer tools ask for them.
static hsa_status_t amd_system_info(struct rt_runtime * rt, uint32_t attribute, void * value) {
    enum {
        MWAITX = 0x203,
        DMABUF = 0x204,
        VIRTUAL_MEM = 0x205,
        XNACK = 0x206,
        EXT_MAJOR,
        EXT_MINOR
    };
    switch (attribute) {
    case EXT_MAJOR:
        *(uint16_t *) value = 1;
        break;
    case EXT_MINOR: // AMD's own functions are those of ROCr 7.2
        *(uint16_t *) value = 15;
        break;
    case HSA_AMD_SYSTEM_INFO_BUILD_VERSION:
        *(const char **) value = rt->rocr_bugs       ? "\"1.18.0-ggml-hsa-emulated\""
                                 : emu_is_native(rt) ? "1.19.0-ggml-hsa"
                                                     : "1.19.0-ggml-hsa-emulated";
        break;
    case HSA_AMD_SYSTEM_INFO_SVM_SUPPORTED:
    case HSA_AMD_SYSTEM_INFO_SVM_ACCESSIBLE_BY_DEFAULT:
    case MWAITX:
    case DMABUF:
    case XNACK:
        *(bool *) value = false;
        break;
    case VIRTUAL_MEM:
        *(bool *) value = rt_vmem_supported(rt);
        break;
    default:
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_system_get_info(hsa_system_info_t attribute, void * value) {
    struct rt_runtime * rt = rt_runtime();
    if (!rt) {
        return HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!value) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    switch ((uint32_t) attribute) {
    case HSA_SYSTEM_INFO_VERSION_MAJOR:
        *(uint16_t *) value = 1;
        break;
    case HSA_SYSTEM_INFO_VERSION_MINOR:
        *(uint16_t *) value = rt->rocr_bugs ? 1 : 19; // 1.1 is what Debian's build of 7.2 says
        break;
    case HSA_SYSTEM_INFO_TIMESTAMP:
        *(uint64_t *) value = rt_time_ns(rt, NULL);
        break;
    case HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY:
        *(uint64_t *) value = 1000000000u;
        break;
    case HSA_SYSTEM_INFO_SIGNAL_MAX_WAIT:
        *(uint64_t *) value = UINT64_MAX;
        break;
    case HSA_SYSTEM_INFO_ENDIANNESS:
        *(hsa_endianness_t *) value = HSA_ENDIANNESS_LITTLE;
        break;
    case HSA_SYSTEM_INFO_MACHINE_MODEL:
        *(hsa_machine_model_t *) value = HSA_MACHINE_MODEL_LARGE;
        break;
    case HSA_SYSTEM_INFO_EXTENSIONS:
        memset(value, 0, 128);
        ((uint8_t *) value)[HSA_EXTENSION_AMD_LOADER / 8] |= 1 << HSA_EXTENSION_AMD_LOADER % 8;
        break;
    default:
        return amd_system_info(rt, (uint32_t) attribute, value);
    }
    return HSA_STATUS_SUCCESS;
}

static const struct {
    uint32_t code;
    const char * text;
} texts[] = {
#define TEXT(code, text)                                                                           \
    { HSA_STATUS_##code, "HSA_STATUS_" #code ": " text }
    TEXT(SUCCESS, "no error"),
    TEXT(INFO_BREAK, "a callback stopped the iteration"),
    TEXT(ERROR, "a generic error"),
    TEXT(ERROR_INVALID_ARGUMENT, "an argument is not valid"),
    TEXT(ERROR_INVALID_QUEUE_CREATION, "the agent does not support such a queue"),
    TEXT(ERROR_INVALID_ALLOCATION, "an address or size fits no allocation"),
    TEXT(ERROR_INVALID_AGENT, "no such agent"),
    TEXT(ERROR_INVALID_REGION, "no such memory region"),
    TEXT(ERROR_INVALID_SIGNAL, "no such signal"),
    TEXT(ERROR_INVALID_QUEUE, "no such queue"),
    TEXT(ERROR_OUT_OF_RESOURCES, "memory or another resource is used up"),
    TEXT(ERROR_INVALID_PACKET_FORMAT, "a packet is malformed"),
    TEXT(ERROR_RESOURCE_FREE, "releasing a resource failed"),
    TEXT(ERROR_NOT_INITIALIZED, "hsa_init was not called"),
    TEXT(ERROR_REFCOUNT_OVERFLOW, "too many references"),
    TEXT(ERROR_INCOMPATIBLE_ARGUMENTS, "the arguments do not fit together"),
    TEXT(ERROR_INVALID_INDEX, "the index is out of range"),
    TEXT(ERROR_INVALID_ISA, "no such instruction set"),
    TEXT(ERROR_INVALID_ISA_NAME, "no instruction set has this name"),
    TEXT(ERROR_INVALID_CODE_OBJECT, "the code object is not valid"),
    TEXT(ERROR_INVALID_EXECUTABLE, "no such executable"),
    TEXT(ERROR_FROZEN_EXECUTABLE, "the executable is frozen"),
    TEXT(ERROR_INVALID_SYMBOL_NAME, "no symbol has this name"),
    TEXT(ERROR_VARIABLE_ALREADY_DEFINED, "the variable is defined"),
    TEXT(ERROR_VARIABLE_UNDEFINED, "the variable is not defined"),
    TEXT(ERROR_EXCEPTION, "the device stopped with an exception"),
    TEXT(ERROR_INVALID_CODE_SYMBOL, "no such code object symbol"),
    TEXT(ERROR_INVALID_EXECUTABLE_SYMBOL, "no such executable symbol"),
    TEXT(ERROR_INVALID_FILE, "the file descriptor is not valid"),
    TEXT(ERROR_INVALID_CODE_OBJECT_READER, "no such code object reader"),
    TEXT(ERROR_INVALID_CACHE, "no such cache"),
    TEXT(ERROR_INVALID_WAVEFRONT, "no such wavefront"),
    TEXT(ERROR_INVALID_SIGNAL_GROUP, "no such signal group"),
    TEXT(ERROR_INVALID_RUNTIME_STATE, "the runtime is not in the state for this"),
    TEXT(ERROR_FATAL, "the queue is in an error state"),
    TEXT(ERROR_INVALID_MEMORY_POOL, "no such memory pool"),
    TEXT(ERROR_MEMORY_APERTURE_VIOLATION, "an access left its aperture"),
    TEXT(ERROR_ILLEGAL_INSTRUCTION, "an instruction is not valid"),
    TEXT(ERROR_MEMORY_FAULT, "an access reached no memory"),
#undef TEXT
};

hsa_status_t hsa_status_string(hsa_status_t status, const char ** text) {
    if (!text) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].code == (uint32_t) status) {
            *text = texts[i].text;
            return HSA_STATUS_SUCCESS;
        }
    }
    *text = NULL;
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_emu_counters(hsa_agent_t handle, struct hsa_emu_counters * out) {
    struct rt_agent * agent = rt_agent_find(handle);
    if (!agent || (!agent->model && !agent->gpu)) {
        return rt_runtime() ? HSA_STATUS_ERROR_INVALID_AGENT : HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!out) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    pthread_mutex_lock(&agent->lock);
    struct emu_counters c = {0};
    if (agent->machine) {
        emu_machine_counters(agent->machine, &c);
    }
    if (agent->gfx) {
        struct gfx_counters g;
        gfx_counters_get(agent->gfx, &g);
        c.dispatches = g.dispatches;
        c.bundles = g.instructions;
    }
    *out = (struct hsa_emu_counters){
        .dispatches = c.dispatches,
        .pdi_loads = c.pdi_loads,
        .cycles = c.cycles,
        .bundles = c.bundles,
        .core_stalls = c.core_stalls,
        .stream_words = c.stream_words,
        .last_cycles = c.last_cycles,
        .doorbells = agent->n_doorbells,
        .queues_created = agent->n_queues_created,
        .errors = agent->n_errors,
    };
    pthread_mutex_unlock(&agent->lock);
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_emu_columns(hsa_agent_t handle, uint32_t * columns) {
    const struct rt_agent * agent = rt_agent_find(handle);
    if (!agent || !agent->model) {
        return rt_runtime() ? HSA_STATUS_ERROR_INVALID_AGENT : HSA_STATUS_ERROR_NOT_INITIALIZED;
    }
    if (!columns) {
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    *columns = (uint32_t) agent->columns;
    return HSA_STATUS_SUCCESS;
}

const char * hsa_emu_last_error(hsa_agent_t handle) {
    static _Thread_local char copy[sizeof init_error];
    copy[0] = '\0';
    struct rt_agent * agent = rt_agent_find(handle);
    pthread_mutex_t * lock = agent ? &agent->lock : &init_lock;
    if (agent || handle.handle == 0) {
        pthread_mutex_lock(lock);
        memcpy(copy, agent ? agent->error : init_error, sizeof copy);
        pthread_mutex_unlock(lock);
    }
    return copy;
}
