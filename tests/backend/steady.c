// steady: a library to preload into test-backend-ops, so that a run takes no longer than it must
// and the next one does the same.
//
// - The CPU that results are compared with has one thread. ggml gives it four, and these wait for
//   each other by turning in circles: with as many tests at a time as there are processors that
//   was more than half of what a comparison took. What the CPU computes stays the same, and the
//   device is not touched.
// - Random numbers start from OPS_SEED where that is set. A row of 32 numbers whose sum is all but
//   zero has few digits left in 32-bit additions: of 60,000 random rows four miss ggml's bound for
//   MEAN on the array, and a test that fails once in thousands of runs tells nobody anything.
// - With OPS_WEIGHTS=1 a case's tensors are declared weights, which the device may lay out and keep
//   as it likes.
// - A crash says where it was: with two streams it may not come again.
#include <dlfcn.h>
#include <execinfo.h>
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static void * next_symbol(const char * name) {
    void * symbol = dlsym(RTLD_NEXT, name);
    if (!symbol) {
        fprintf(stderr, "steady: no %s behind this library, which is for test-backend-ops alone\n",
                name);
        exit(1);
    }
    return symbol;
}

EXPORT ggml_backend_t ggml_backend_init_by_type(enum ggml_backend_dev_type type,
                                                const char * params) {
    ggml_backend_t (*next)(enum ggml_backend_dev_type, const char *);
    void * symbol = next_symbol("ggml_backend_init_by_type");
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

EXPORT ggml_backend_buffer_t ggml_backend_alloc_ctx_tensors(struct ggml_context * ctx,
                                                            ggml_backend_t backend) {
    ggml_backend_buffer_t (*next)(struct ggml_context *, ggml_backend_t);
    void * symbol = next_symbol("ggml_backend_alloc_ctx_tensors");
    memcpy(&next, &symbol, sizeof(next));
    ggml_backend_buffer_t buffer = next(ctx, backend);
    const char * weights = getenv("OPS_WEIGHTS");
    if (buffer && weights && *weights == '1') {
        ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }
    return buffer;
}

// The C++ library's std::random_device::operator() and std::thread::hardware_concurrency, by the
// names that every C++ compiler of Linux gives them.
EXPORT unsigned random_device(void * self) __asm__("_ZNSt13random_device9_M_getvalEv");
EXPORT unsigned hardware_concurrency(void) __asm__("_ZNSt6thread20hardware_concurrencyEv");

unsigned random_device(void * self) {
    const char * seed = getenv("OPS_SEED");
    if (!seed || !*seed) {
        unsigned (*next)(void *);
        void * symbol = next_symbol("_ZNSt13random_device9_M_getvalEv");
        memcpy(&next, &symbol, sizeof(next));
        return next(self);
    }
    // A thread's first number, its second, ...: what other threads draw beside it changes nothing.
    static _Thread_local uint32_t drawn;
    uint32_t x = (uint32_t) strtoul(seed, NULL, 10) * 0x9e3779b9u + drawn++;
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

// A tensor is filled by one thread, whose generator goes on from the tensor before: new threads
// would all begin with the same numbers.
unsigned hardware_concurrency(void) {
    return 1;
}

// ---- crashes ----

static void on_crash(int signal) {
    static const char words[] = "steady: ended by a signal, here:\n";
    void * frames[64];
    ssize_t written = write(STDERR_FILENO, words, sizeof words - 1);
    (void) written;
    backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
    raise(signal); // as it would have been
}

__attribute__((constructor)) static void watch(void) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    void * frame;
    backtrace(&frame, 1); // loads what it needs
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_RESETHAND | SA_NODEFER};
        sigaction(signals[i], &action, NULL);
    }
}
