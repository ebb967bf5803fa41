// fallback: nodes that no kernel computes, on a CPU backend inside a stream. For programs that hand
// us whole graphs without asking what we support (ggml's RPC server is one), and for trying things
// out: GGML_HSA_HOST_FALLBACK=1, or built in with GGML_HSA_CPU_FALLBACK. Device memory is memory of
// the host, so that nothing is copied. Neighbouring nodes are one graph, because each graph starts
// its threads anew. Every stream has a CPU backend of its own: like the stream, it is used by one
// thread at a time.
#include "backend.h"
#include "cpu.h"

#include <string.h>
#include <unistd.h>

#define MAX_NODES 512 // of one CPU graph

#ifdef GGML_HSA_CPU_FALLBACK
#    define ASKED_BY_DEFAULT true
#else
#    define ASKED_BY_DEFAULT false
#endif

bool fallback_asked(void) {
    return env_flag("GGML_HSA_HOST_FALLBACK", ASKED_BY_DEFAULT);
}

bool fallback_supports(const struct ggml_tensor * op) {
    ggml_backend_dev_t cpu = cpu_device();
    return cpu && ggml_backend_dev_supports_op(cpu, op);
}

// ---- a stream's CPU backend ----

// ggml's threads spin while they wait for each other: more of them than cores is slow beyond
// measure.
static void set_threads(ggml_backend_t cpu) {
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(cpu));
    void * address = ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads");
    ggml_backend_set_n_threads_t set_n_threads;
    memcpy(&set_n_threads, &address, sizeof address);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (set_n_threads && cores > 0 && cores < GGML_DEFAULT_N_THREADS) {
        set_n_threads(cpu, (int) cores);
    }
}

static enum status fallback_begin(struct fallback * f, struct error * err) {
    if (f->cpu) {
        return ST_OK;
    }
    ggml_backend_dev_t device = cpu_device();
    if (!device) {
        return error_set(
            err, ST_NOT_FOUND,
            "the op is not supported, and there is no CPU backend to run it instead: load "
            "libggml-cpu before computing");
    }
    struct ggml_init_params params = {
        .mem_size = ggml_graph_overhead_custom(MAX_NODES, false) + ggml_tensor_overhead(),
        .no_alloc = true,
    };
    f->ctx = ggml_init(params);
    f->graph = f->ctx ? ggml_new_graph_custom(f->ctx, MAX_NODES, false) : NULL;
    f->cpu = f->graph ? ggml_backend_dev_init(device, NULL) : NULL;
    if (!f->cpu) {
        fallback_free(f);
        return error_set(err, ST_NO_MEMORY, "no CPU backend for an op that is not supported");
    }
    set_threads(f->cpu);
    return ST_OK;
}

void fallback_free(struct fallback * f) {
    if (f->cpu) {
        ggml_backend_free(f->cpu);
    }
    ggml_free(f->ctx);
    *f = (struct fallback){0};
}

enum status fallback_run(struct fallback * f, struct error * err) {
    if (!f->graph || ggml_graph_n_nodes(f->graph) == 0) {
        return ST_OK;
    }
    enum ggml_status status = ggml_backend_graph_compute(f->cpu, f->graph);
    ggml_graph_clear(f->graph);
    return status == GGML_STATUS_SUCCESS
               ? ST_OK
               : error_set(err, status == GGML_STATUS_ALLOC_FAILED ? ST_NO_MEMORY : ST_DEVICE,
                           "on the CPU: %s", ggml_status_to_string(status));
}

enum status fallback_add(struct fallback * f, struct ggml_tensor * node, struct error * err) {
    enum status st = fallback_begin(f, err);
    if (st == ST_OK && !ggml_backend_dev_supports_op(ggml_backend_get_device(f->cpu), node)) {
        st = error_set(err, ST_UNSUPPORTED,
                       "the op is not supported, and not by the CPU backend either");
    }
    if (st == ST_OK && ggml_graph_n_nodes(f->graph) == MAX_NODES) {
        st = fallback_run(f, err);
    }
    if (st == ST_OK) {
        ggml_graph_add_node(f->graph, node);
    }
    return st;
}
