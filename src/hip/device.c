// device: code objects on a GPU, through the HSA executable API. The runtime's functions come by
// their names from the caller, so this file works on ROCr, on the emulated runtime, and on none.
//
// Kept true: a module is on its agent once, however many threads asked for it at once; it goes when
// its last user lets go.
//
// Loading copies code to the GPU, and a runtime waits without end for one that is dead. So a thread
// of its own does it, and who asked gives up after GGML_HSA_WAIT_LIMIT seconds. That thread is
// still in the runtime then: nothing that it uses is ever freed.
#include "hip-impl.h"

#include <hsa/hsa.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WAIT_LIMIT_S = 60, MOST_WAIT_LIMIT_S = 1000000 };

#define HSA_FUNCTIONS(X)                                                                           \
    X(hsa_status_string)                                                                           \
    X(hsa_iterate_agents)                                                                          \
    X(hsa_agent_get_info)                                                                          \
    X(hsa_code_object_reader_create_from_memory)                                                   \
    X(hsa_code_object_reader_destroy)                                                              \
    X(hsa_executable_create_alt)                                                                   \
    X(hsa_executable_load_agent_code_object)                                                       \
    X(hsa_executable_freeze)                                                                       \
    X(hsa_executable_destroy)                                                                      \
    X(hsa_executable_get_symbol_by_name)                                                           \
    X(hsa_executable_symbol_get_info)

struct hip_hsa {
#define FIELD(name) __typeof__(name) * name;
    HSA_FUNCTIONS(FIELD)
#undef FIELD
    pthread_mutex_t lock; // what follows
    pthread_cond_t loaded;
    struct rocm_module * modules;
    bool lost; // a load did not end
};

struct function {
    struct rocm_function function; // what callers see; first
    struct function * next;
    char name[128];
};

struct rocm_module {
    struct rocm_kernels * k;
    struct rocm_module * next;
    hsa_agent_t agent;
    const struct rocm_code * code; // one pointer for each source: its identity
    hsa_code_object_reader_t reader;
    hsa_executable_t executable;
    int users;
    bool ready; // false: its first user is loading it
    bool done;  // its loading, with this result
    bool lost;  // its loading did not end in time
    struct error why;
    pthread_mutex_t lock;
    struct function * functions;
};

// ---- the runtime ----

static enum status open_hsa(struct rocm_kernels * k, struct error * err) {
    if (k->hsa) {
        return ST_OK;
    }
    if (!k->hsa_symbol) {
        return error_set(err, ST_NOT_FOUND, "no HSA runtime was given to the kernel manager");
    }
    struct hip_hsa * h = calloc(1, sizeof *h);
    if (!h) {
        return error_set(err, ST_NO_MEMORY, "no memory for the HSA runtime's functions");
    }
    const char * missing = NULL;
    void * p;
#define FIND(name)                                                                                 \
    p = k->hsa_symbol(k->user, #name);                                                             \
    memcpy(&h->name, &p, sizeof p);                                                                \
    missing = p ? missing : #name;
    HSA_FUNCTIONS(FIND)
#undef FIND
    if (missing) {
        free(h);
        return error_set(err, ST_UNSUPPORTED, "the HSA runtime lacks %s", missing);
    }
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->loaded, NULL);
    k->hsa = h;
    return ST_OK;
}

bool hip_hsa_is_lost(struct rocm_kernels * k) {
    bool lost = false;
    if (k->hsa) {
        pthread_mutex_lock(&k->hsa->lock);
        lost = k->hsa->lost;
        pthread_mutex_unlock(&k->hsa->lock);
    }
    return lost;
}

void hip_hsa_free(struct rocm_kernels * k) {
    if (k->hsa) {
        pthread_cond_destroy(&k->hsa->loaded);
        pthread_mutex_destroy(&k->hsa->lock);
        free(k->hsa);
        k->hsa = NULL;
    }
}

static enum status refused(const struct hip_hsa * h, const char * what, hsa_status_t status,
                           struct error * err) {
    const char * text = NULL;
    if (h->hsa_status_string(status, &text) != HSA_STATUS_SUCCESS || !text) {
        text = "unknown HSA status";
    }
    bool full = status == HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    return error_set(err, full ? ST_NO_MEMORY : ST_DEVICE, "%s: 0x%x, %.300s", what,
                     (unsigned) status, text);
}

static enum status agent_arch(const struct hip_hsa * h, hsa_agent_t agent, char arch[HIP_ARCH_MAX],
                              struct error * err) {
    char name[65] = "";
    hsa_status_t status = h->hsa_agent_get_info(agent, HSA_AGENT_INFO_NAME, name);
    return status == HSA_STATUS_SUCCESS ? hip_arch_parse(name, arch, err)
                                        : refused(h, "hsa_agent_get_info", status, err);
}

struct search {
    const struct hip_hsa * h;
    char * arch;
    bool found;
};

static hsa_status_t visit_agent(hsa_agent_t agent, void * user) {
    struct search * s = user;
    hsa_device_type_t type;
    if (s->h->hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type) == HSA_STATUS_SUCCESS &&
        type == HSA_DEVICE_TYPE_GPU && agent_arch(s->h, agent, s->arch, NULL) == ST_OK) {
        s->found = true;
        return HSA_STATUS_INFO_BREAK;
    }
    return HSA_STATUS_SUCCESS;
}

enum status hip_hsa_arch(struct rocm_kernels * k, char arch[HIP_ARCH_MAX], struct error * err) {
    enum status st = open_hsa(k, err);
    if (st != ST_OK) {
        return st;
    }
    struct search s = {k->hsa, arch, false};
    k->hsa->hsa_iterate_agents(visit_agent, &s);
    return s.found ? ST_OK : error_set(err, ST_NOT_FOUND, "the HSA runtime has no GPU");
}

// ---- loading ----

static enum status load(const struct hip_hsa * h, struct rocm_module * m, struct error * err) {
    hsa_status_t status =
        h->hsa_code_object_reader_create_from_memory(m->code->data, m->code->size, &m->reader);
    if (status != HSA_STATUS_SUCCESS) {
        return refused(h, "hsa_code_object_reader_create_from_memory", status, err);
    }
    status = h->hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT,
                                          NULL, &m->executable);
    if (status != HSA_STATUS_SUCCESS) {
        h->hsa_code_object_reader_destroy(m->reader);
        return refused(h, "hsa_executable_create_alt", status, err);
    }
    const char * step = "hsa_executable_load_agent_code_object";
    status =
        h->hsa_executable_load_agent_code_object(m->executable, m->agent, m->reader, NULL, NULL);
    if (status == HSA_STATUS_SUCCESS) {
        step = "hsa_executable_freeze";
        status = h->hsa_executable_freeze(m->executable, NULL);
    }
    if (status == HSA_STATUS_SUCCESS) {
        return ST_OK;
    }
    h->hsa_executable_destroy(m->executable);
    h->hsa_code_object_reader_destroy(m->reader);
    return refused(h, step, status, err);
}

static void unlink_module(struct hip_hsa * h, struct rocm_module * m) {
    struct rocm_module ** at = &h->modules;
    while (*at != m) {
        at = &(*at)->next;
    }
    *at = m->next;
}

static struct rocm_module * find_module(struct hip_hsa * h, hsa_agent_t agent,
                                        const struct rocm_code * code) {
    for (struct rocm_module * m = h->modules; m; m = m->next) {
        if (m->agent.handle == agent.handle && m->code == code) {
            return m;
        }
    }
    return NULL;
}

static void * load_apart(void * user) {
    struct rocm_module * m = user;
    struct hip_hsa * h = m->k->hsa;
    struct error why = {0};
    load(h, m, &why);
    pthread_mutex_lock(&h->lock);
    m->why = why;
    m->done = true;
    pthread_cond_broadcast(&h->loaded);
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

static enum status say_lost(int limit_s, struct error * err) {
    return error_set(
        err, ST_DEVICE,
        "loading it: no sign of life of the GPU for %d s; GGML_HSA_WAIT_LIMIT sets how "
        "many seconds that may take",
        limit_s);
}

// Loads the module, in a thread of its own. With the lock held, which it gives up meanwhile.
static enum status load_in_time(struct hip_hsa * h, struct rocm_module * m, int limit_s,
                                struct error * err) {
    pthread_t thread;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += limit_s;
    if (pthread_create(&thread, NULL, load_apart, m)) {
        return error_set(err, ST_NO_MEMORY, "no thread to load a module");
    }
    pthread_detach(thread);
    int status = 0;
    while (!m->done && status != ETIMEDOUT) {
        status = limit_s ? pthread_cond_timedwait(&h->loaded, &h->lock, &until)
                         : pthread_cond_wait(&h->loaded, &h->lock);
    }
    if (!m->done) {
        m->lost = h->lost = true;
        return say_lost(limit_s, err);
    }
    if (err && m->why.status != ST_OK) {
        *err = m->why;
    }
    return m->why.status;
}

// The module of this code on this agent, loaded; one more user.
static enum status share(struct rocm_kernels * k, hsa_agent_t agent, const struct rocm_code * code,
                         struct rocm_module ** out, struct error * err) {
    struct hip_hsa * h = k->hsa;
    struct rocm_module * m;
    pthread_mutex_lock(&h->lock);
    const int limit_s = env_number("GGML_HSA_WAIT_LIMIT", MOST_WAIT_LIMIT_S, WAIT_LIMIT_S);
    while ((m = find_module(h, agent, code)) && !m->ready && !m->lost) {
        pthread_cond_wait(&h->loaded, &h->lock);
    }
    if (m && m->lost) {
        pthread_mutex_unlock(&h->lock);
        return say_lost(limit_s, err);
    }
    if (m) {
        m->users++;
        pthread_mutex_unlock(&h->lock);
        *out = m;
        return ST_OK;
    }
    m = calloc(1, sizeof *m);
    if (!m) {
        pthread_mutex_unlock(&h->lock);
        return error_set(err, ST_NO_MEMORY, "no memory for a module");
    }
    *m = (struct rocm_module){.k = k, .next = h->modules, .agent = agent, .code = code, .users = 1};
    pthread_mutex_init(&m->lock, NULL);
    h->modules = m;
    enum status st = load_in_time(h, m, limit_s, err);
    m->ready = st == ST_OK;
    if (m->lost) { // its thread has it still
        m = NULL;
    } else if (st != ST_OK) {
        unlink_module(h, m);
        pthread_mutex_destroy(&m->lock);
        free(m);
        m = NULL;
    }
    pthread_cond_broadcast(&h->loaded);
    pthread_mutex_unlock(&h->lock);
    *out = m;
    return st;
}

enum rocm_status rocm_module_load(struct rocm_kernels * k, uint64_t agent, const char * name,
                                  const char * source, struct rocm_module ** out,
                                  struct rocm_error * err) {
    struct error why = {0};
    char arch[HIP_ARCH_MAX];
    if (!k || !name || !out) {
        return hip_missing(__func__, !k ? "k" : !name ? "name" : "out", err);
    }
    *out = NULL;
    source = source ? source : rocm_modules_source(name);
    pthread_mutex_lock(&k->lock);
    enum status st = open_hsa(k, &why);
    pthread_mutex_unlock(&k->lock);
    if (st == ST_OK && !source && hip_module_exists(name)) {
        st = error_set(&why, ST_NO_MEMORY, "no memory for the source of module %s", name);
    }
    if (st == ST_OK && !source) {
        st = error_set(&why, ST_NOT_FOUND, "no module '%.80s' in this library", name);
    }
    if (st == ST_OK) {
        st = agent_arch(k->hsa, (hsa_agent_t){agent}, arch, &why);
    }
    if (st != ST_OK) {
        return hip_fail(&why, NULL, err);
    }
    const struct rocm_code * code;
    enum rocm_status rst = rocm_kernels_get_or_compile_for(k, arch, name, source, &code, err);
    if (rst != ROCM_OK) {
        return rst;
    }
    if (share(k, (hsa_agent_t){agent}, code, out, &why) != ST_OK) {
        error_prefix(&why, why.status, "%s on %s", name, arch);
        return hip_fail(&why, NULL, err);
    }
    return ROCM_OK;
}

void rocm_module_release(struct rocm_module * m) {
    if (!m) {
        return;
    }
    struct hip_hsa * h = m->k->hsa;
    pthread_mutex_lock(&h->lock);
    bool last = --m->users == 0;
    if (last) {
        unlink_module(h, m);
    }
    pthread_mutex_unlock(&h->lock);
    if (!last) {
        return;
    }
    h->hsa_executable_destroy(m->executable);
    h->hsa_code_object_reader_destroy(m->reader);
    while (m->functions) {
        struct function * next = m->functions->next;
        free(m->functions);
        m->functions = next;
    }
    pthread_mutex_destroy(&m->lock);
    free(m);
}

// ---- functions ----

static enum status look_up(struct rocm_module * m, struct function * f, struct error * err) {
    const struct hip_hsa * h = m->k->hsa;
    char symbol_name[sizeof f->name + 4];
    hsa_executable_symbol_t symbol;
    snprintf(symbol_name, sizeof symbol_name, "%s.kd", f->name); // the kernel's descriptor
    hsa_status_t status =
        h->hsa_executable_get_symbol_by_name(m->executable, symbol_name, &m->agent, &symbol);
    if (status != HSA_STATUS_SUCCESS) {
        return error_set(err, ST_NOT_FOUND, "no kernel '%s' in this module", f->name);
    }
    const struct {
        hsa_executable_symbol_info_t what;
        void * to;
    } parts[] = {
        {HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &f->function.object},
        {HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE, &f->function.kernarg_bytes},
        {HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE, &f->function.group_bytes},
        {HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE, &f->function.private_bytes},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        status = h->hsa_executable_symbol_get_info(symbol, parts[i].what, parts[i].to);
        if (status != HSA_STATUS_SUCCESS) {
            return refused(h, f->name, status, err);
        }
    }
    return ST_OK;
}

static enum status get_function(struct rocm_module * m, const char * kernel,
                                const struct rocm_function ** out, struct error * err) {
    struct function * f = m->functions;
    while (f && strcmp(f->name, kernel)) {
        f = f->next;
    }
    if (!f) {
        f = strlen(kernel) < sizeof f->name ? calloc(1, sizeof *f) : NULL;
        if (!f) {
            return error_set(err, ST_NO_MEMORY, "'%.60s': too long, or no memory for it", kernel);
        }
        snprintf(f->name, sizeof f->name, "%s", kernel);
        enum status st = look_up(m, f, err);
        if (st != ST_OK) {
            free(f);
            return st;
        }
        f->next = m->functions;
        m->functions = f;
    }
    *out = &f->function;
    return ST_OK;
}

enum rocm_status rocm_module_function(struct rocm_module * m, const char * kernel,
                                      const struct rocm_function ** out, struct rocm_error * err) {
    struct error why = {0};
    if (!m || !kernel || !out) {
        return hip_missing(__func__, !m ? "m" : !kernel ? "kernel" : "out", err);
    }
    *out = NULL;
    pthread_mutex_lock(&m->lock);
    enum status st = get_function(m, kernel, out, &why);
    pthread_mutex_unlock(&m->lock);
    return st == ST_OK ? ROCM_OK : hip_fail(&why, NULL, err);
}
