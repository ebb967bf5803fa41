// one-thread: a library to preload into test-backend-ops, which gives the CPU that results are
// compared with one thread. ggml gives it four, and these wait for each other by turning in
// circles: with as many tests at a time as there are processors that was more than half of what a
// comparison took. What the CPU computes stays the same, and the device is not touched.
#include <dlfcn.h>
#include <ggml-backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) ggml_backend_t
ggml_backend_init_by_type(enum ggml_backend_dev_type type, const char * params) {
    ggml_backend_t (*next)(enum ggml_backend_dev_type, const char *);
    void * symbol = dlsym(RTLD_NEXT, "ggml_backend_init_by_type");
    if (!symbol) {
        fprintf(stderr, "one-thread: no ggml in this program to take a backend from\n");
        exit(1);
    }
    memcpy(&next, &symbol, sizeof(next));
    ggml_backend_t backend = next(type, params);
    ggml_backend_dev_t dev = backend ? ggml_backend_get_device(backend) : NULL;
    symbol = dev ? ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(dev),
                                                     "ggml_backend_set_n_threads")
                 : NULL;
    if (symbol) {
        ggml_backend_set_n_threads_t set_n_threads;
        memcpy(&set_n_threads, &symbol, sizeof(set_n_threads));
        set_n_threads(backend, 1);
    }
    return backend;
}
