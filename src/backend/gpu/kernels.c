// kernels: what a GPU was given to run. A kernel is asked for by its name; the module that it is in
// is compiled once for this architecture and kept by src/hip, and loaded once for this device. A
// GPU for which no kernels can be had is none: programs would put tensors where nothing can be
// computed.
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    struct entry * next;
    char name[64];
    const struct rocm_function * function; // NULL: why says why
    struct error why;
};

struct loaded {
    struct loaded * next;
    const char * name; // the library's own
    struct rocm_module * module;
};

struct gpu {
    struct hsac * runtime;
    uint64_t agent;
    struct rocm_kernels * kernels;
    pthread_mutex_t lock; // what follows
    struct entry * entries;
    struct loaded * modules;
    bool warned;
};

static void * find_symbol(void * user, const char * name) {
    return hsac_symbol(((struct gpu *) user)->runtime, name);
}

static void warn(void * user, const char * text) {
    (void) user;
    log_warn("%s", text);
}

// Keeps one line of a text that may have many, the compiler's own.
static enum status explain(const struct rocm_error * why, struct error * err) {
    enum status st = error_set(err, (enum status) why->status, "%.460s", why->text);
    for (char * p = err ? err->text : NULL; p && *p; p++) {
        *p = *p == '\n' ? ' ' : *p;
    }
    return st;
}

// With the lock held, or before anybody else knows of the GPU.
static enum status open_module(struct gpu * gpu, const char * name, struct rocm_module ** out,
                               struct error * err) {
    struct loaded * l = calloc(1, sizeof *l);
    struct rocm_error why = {0};
    if (!l) {
        return error_set(err, ST_NO_MEMORY, "no memory for a module");
    }
    if (rocm_module_load(gpu->kernels, gpu->agent, name, NULL, &l->module, &why) != ROCM_OK) {
        free(l);
        return explain(&why, err);
    }
    *l = (struct loaded){gpu->modules, name, l->module};
    gpu->modules = l;
    *out = l->module;
    return ST_OK;
}

// Are there any kernels? A kernel that every language model needs is tried first. Where there is no
// compiler, any module that the cache holds will do.
static enum status find_kernels(struct gpu * gpu, struct error * err) {
    struct rocm_module * module;
    struct error why = {0};
    enum status st = open_module(gpu, "set_rows", &module, &why);
    for (int i = 0; st == ST_NOT_FOUND && i < rocm_modules_count(); i++) {
        st = open_module(gpu, rocm_modules_name(i), &module, NULL) == ST_OK ? ST_OK : st;
    }
    if (st != ST_OK && err) {
        *err = why;
        error_prefix(err, st, "it has no kernels");
    }
    return st;
}

static void gpu_free(struct gpu * gpu) {
    rocm_kernels_close(gpu->kernels);
    pthread_mutex_destroy(&gpu->lock);
    free(gpu);
}

enum status gpu_new(struct hsac * runtime, struct hsac_agent * agent, struct gpu ** out,
                    struct error * err) {
    struct gpu * gpu = calloc(1, sizeof *gpu);
    struct rocm_error why = {0};
    struct rocm_options options = {
        .arch = hsac_agent_name(agent), .warn = warn, .hsa_symbol = find_symbol, .user = gpu};
    *out = NULL;
    if (!gpu) {
        return error_set(err, ST_NO_MEMORY, "no memory for a GPU");
    }
    gpu->runtime = runtime;
    gpu->agent = hsac_agent_handle(agent);
    pthread_mutex_init(&gpu->lock, NULL);
    enum status st = rocm_kernels_open(&options, &gpu->kernels, &why) == ROCM_OK
                         ? find_kernels(gpu, err)
                         : explain(&why, err);
    if (st != ST_OK) {
        error_prefix(err, st, "%s (%s)", hsac_agent_product(agent), hsac_agent_name(agent));
        gpu_free(gpu);
        return st;
    }
    *out = gpu;
    return ST_OK;
}

uint64_t gpu_compiles(struct gpu * gpu) {
    struct rocm_counters counters;
    rocm_kernels_counters(gpu->kernels, &counters);
    return counters.compiles;
}

// ---- with the lock held ----

static enum status load_module(struct gpu * gpu, const char * name, struct rocm_module ** out,
                               struct error * err) {
    for (struct loaded * l = gpu->modules; l; l = l->next) {
        if (!strcmp(l->name, name)) {
            *out = l->module;
            return ST_OK;
        }
    }
    enum status st = open_module(gpu, name, out, err);
    if (st != ST_OK && !gpu->warned) {
        log_warn("a kernel of a GPU cannot be made, and its ops are left to others: %s", err->text);
        gpu->warned = true;
    }
    return st;
}

static enum status load_kernel(struct gpu * gpu, const char * name,
                               const struct rocm_function ** out, struct error * err) {
    const char * module_name = rocm_modules_find(name);
    struct rocm_module * module = NULL;
    struct rocm_error why = {0};
    if (!module_name) {
        return error_set(err, ST_UNSUPPORTED, "there is no kernel %s for a GPU", name);
    }
    enum status st = load_module(gpu, module_name, &module, err);
    if (st == ST_OK && rocm_module_function(module, name, out, &why) != ROCM_OK) {
        st = error_set(err, (enum status) why.status, "%.460s", why.text);
    }
    return st;
}

// NULL: no memory for it just now, which is not remembered.
static struct entry * find_entry(struct gpu * gpu, const char * name) {
    for (struct entry * e = gpu->entries; e; e = e->next) {
        if (!strcmp(e->name, name)) {
            return e;
        }
    }
    struct entry * e = calloc(1, sizeof *e);
    if (!e) {
        return NULL;
    }
    snprintf(e->name, sizeof e->name, "%s", name);
    if (load_kernel(gpu, name, &e->function, &e->why) != ST_OK) {
        if (e->why.status == ST_NO_MEMORY) {
            free(e);
            return NULL;
        }
        // Whatever the reason, the op then has no kernel. The device itself is not at fault.
        e->why.status = ST_UNSUPPORTED;
    }
    e->next = gpu->entries;
    gpu->entries = e;
    return e;
}

enum status gpu_kernel(struct gpu * gpu, const char * name, const struct rocm_function ** out,
                       struct error * err) {
    enum status st = ST_OK;
    pthread_mutex_lock(&gpu->lock);
    struct entry * e = find_entry(gpu, name);
    if (!e) {
        st = error_set(err, ST_NO_MEMORY, "no memory for a kernel");
    } else if (!e->function) {
        st = e->why.status;
        if (err) {
            *err = e->why;
        }
    } else {
        *out = e->function;
    }
    pthread_mutex_unlock(&gpu->lock);
    return st;
}
