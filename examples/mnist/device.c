// device: ggml's devices by name. The CPU stands beside every other device, so that a graph runs
// whole even where the device lacks an op; who computes a node is decided here, node by node, and
// not left to ggml's guess from where the weights are.
#include "mnist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

// libggml-hsa.so in the directory of this program; false when that cannot be found out.
static bool plugin_beside(char * path, size_t size) {
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    if (n <= 0 || (size_t) n >= size - 1) {
        return false;
    }
    path[n] = 0;
    char * slash = strrchr(path, '/');
    size_t room = slash ? size - (size_t) (slash + 1 - path) : 0;
    return slash && snprintf(slash + 1, room, "libggml-hsa.so") < (int) room;
}

// ggml tells of each library that it loads. A message may come in pieces, the later ones as CONT.
static void log_warnings(enum ggml_log_level level, const char * text, void * user) {
    static _Thread_local bool shown;
    (void) user;
    shown = level == GGML_LOG_LEVEL_CONT ? shown : level >= GGML_LOG_LEVEL_WARN;
    if (shown) {
        fputs(text, stderr);
    }
}

enum status devices_load(const char * plugin, bool verbose, struct error * err) {
    char path[4096];
    if (!verbose) {
        ggml_log_set(log_warnings, NULL);
    }
    if (!plugin && plugin_beside(path, sizeof path) && access(path, R_OK) == 0) {
        plugin = path;
    }
    if (plugin && *plugin && !ggml_backend_load(plugin)) {
        return error_set(err, ST_NOT_FOUND, "%s: ggml did not load it as a backend", plugin);
    }
    if (access(CPU_BACKEND, R_OK) == 0) {
        ggml_backend_load(CPU_BACKEND);
    }
    if (!ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU)) {
        ggml_backend_load_all(); // a ggml with several CPU backends chooses among them
    }
    if (!ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU)) {
        return error_set(err, ST_NOT_FOUND, "ggml has no CPU backend here; %s would be one",
                         CPU_BACKEND);
    }
    return ST_OK;
}

static void * device_function(ggml_backend_dev_t dev, const char * name) {
    return ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(dev), name);
}

static void set_threads(ggml_backend_dev_t cpu, ggml_backend_t backend, int threads) {
    ggml_backend_set_n_threads_t set;
    void * address = device_function(cpu, "ggml_backend_set_n_threads");
    if (threads == 0) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        threads = cores < 1 ? 1 : cores > 64 ? 64 : (int) cores;
    }
    if (address) {
        memcpy(&set, &address, sizeof set);
        set(backend, threads);
    }
}

static enum status no_such_device(const char * name, struct error * err) {
    char list[256] = "";
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
                 ggml_backend_dev_name(ggml_backend_dev_get(i)));
    }
    return error_set(err, ST_NOT_FOUND, "there is no device '%.40s', only %s%s", name, list,
                     strncmp(name, GGML_HSA_NAME, strlen(GGML_HSA_NAME)) == 0
                         ? "; GGML_HSA_EMULATE=aie2 brings an emulated NPU"
                         : "");
}

enum status device_open(struct device * out, const char * name, int threads, struct error * err) {
    *out = (struct device){.dev = ggml_backend_dev_by_name(name)};
    if (!out->dev) {
        return no_such_device(name, err);
    }
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (out->dev != cpu) {
        out->backends[out->n_backends++] = ggml_backend_dev_init(out->dev, NULL);
    }
    out->backends[out->n_backends++] = ggml_backend_dev_init(cpu, NULL);
    for (int i = 0; i < out->n_backends; i++) {
        if (!out->backends[i]) {
            device_close(out);
            return error_set(err, ST_DEVICE, "device %s cannot be used", name);
        }
    }
    set_threads(cpu, out->backends[out->n_backends - 1], threads);
    out->weights = ggml_backend_dev_buffer_type(out->dev);
    ggml_backend_buffer_type_t host = ggml_backend_dev_host_buffer_type(out->dev);
    out->shared = host ? host : ggml_backend_dev_buffer_type(cpu);
    return ST_OK;
}

void device_close(struct device * d) {
    for (int i = 0; i < d->n_backends; i++) {
        ggml_backend_free(d->backends[i]);
    }
    *d = (struct device){0};
}

ggml_backend_sched_t device_schedule(struct device * d, struct ggml_cgraph * graph,
                                     bool all_shared) {
    ggml_backend_buffer_type_t bufts[2] = {all_shared ? d->shared : d->weights, d->shared};
    // A device that cannot compute in shared memory gets its own, and ggml copies.
    if (!ggml_backend_supports_buft(d->backends[0], bufts[0])) {
        bufts[0] = d->weights;
    }
    ggml_backend_sched_t sched = ggml_backend_sched_new(
        d->backends, bufts, d->n_backends, (size_t) ggml_graph_size(graph), false, false);
    if (!sched) {
        return NULL;
    }
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        struct ggml_tensor * node = ggml_graph_node(graph, i);
        if (ggml_backend_supports_op(d->backends[0], node)) {
            ggml_backend_sched_set_tensor_backend(sched, node, d->backends[0]);
        }
    }
    if (!ggml_backend_sched_alloc_graph(sched, graph)) {
        ggml_backend_sched_free(sched);
        return NULL;
    }
    return sched;
}

bool device_counters(const struct device * d, struct ggml_backend_hsa_counters * out) {
    ggml_backend_hsa_get_counters_t get;
    void * address = device_function(d->dev, "ggml_backend_hsa_get_counters");
    memcpy(&get, &address, sizeof get);
    *out = (struct ggml_backend_hsa_counters){0};
    return address && get(d->dev, out);
}

bool device_account(const struct device * d, struct ggml_backend_hsa_account * out) {
    ggml_backend_hsa_get_account_t get;
    void * address = device_function(d->dev, "ggml_backend_hsa_get_account");
    memcpy(&get, &address, sizeof get);
    *out = (struct ggml_backend_hsa_account){.size = sizeof *out};
    return address && get(d->dev, out);
}

bool device_stats(const struct device * d, struct ggml_backend_hsa_stats * out) {
    ggml_backend_hsa_get_stats_t get;
    void * address = device_function(d->dev, "ggml_backend_hsa_get_stats");
    memcpy(&get, &address, sizeof get);
    *out = (struct ggml_backend_hsa_stats){0};
    return address && get(d->dev, out);
}
