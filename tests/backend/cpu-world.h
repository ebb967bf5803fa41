// cpu-world: a device, and ggml's CPU backend beside it, which says what a graph comes to.
#pragma once

#include "mat-world.h"

static ggml_backend_dev_t cpu;
static ggml_backend_t reference;

static inline int load_both(void ** state) {
    if (!ggml_backend_load(CPU_BACKEND) || load(state) != 0) {
        return -1;
    }
    cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    reference = cpu ? ggml_backend_dev_init(cpu, NULL) : NULL;
    if (!reference) {
        return -1;
    }
    // One thread: ggml's threads spin while they wait.
    void * address = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu),
                                                       "ggml_backend_set_n_threads");
    ggml_backend_set_n_threads_t set_threads;
    memcpy(&set_threads, &address, sizeof address);
    set_threads(reference, 1);
    return 0;
}

static inline int unload_both(void ** state) {
    ggml_backend_free(reference);
    return unload(state);
}
