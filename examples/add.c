// add <libggml-hsa.so> [<libggml-cpu.so>]: adds a million numbers on the NPU, as any ggml program
// would, compares the result with ggml's CPU backend, and says what the kernel cost. Ends with 0
// when they agree: the NPU's adder rounds the smaller term before it adds, so that a sum may be off
// by one in the last place of the larger term. With an installed ggml-hsa:
//
//   cc add.c -o add $(pkg-config --cflags --libs ggml-hsa) -lm
//   ./add $(pkg-config --variable=plugin ggml-hsa) $(pkg-config --variable=cpu ggml-hsa)
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-hsa.h"

#ifndef CPU_BACKEND
#    define CPU_BACKEND NULL // wherever ggml finds its backends by itself
#endif
#define N ((int64_t) 1 << 20)

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

// c = a + b on one device; false when it could not be computed.
static bool add_on(ggml_backend_dev_t dev, const float * a, const float * b, float * c,
                   double * seconds) {
    bool ok = false;
    ggml_backend_t backend = ggml_backend_dev_init(dev, NULL);
    struct ggml_init_params params = {
        .mem_size = ggml_tensor_overhead() * 8 + ggml_graph_overhead(), .no_alloc = true};
    struct ggml_context * ctx = ggml_init(params);
    struct ggml_tensor * ta = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, N);
    struct ggml_tensor * tb = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, N);
    struct ggml_tensor * tc = ggml_add(ctx, ta, tb);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, tc);

    ggml_backend_buffer_t buffer = backend ? ggml_backend_alloc_ctx_tensors(ctx, backend) : NULL;
    if (buffer) {
        ggml_backend_tensor_set(ta, a, 0, ggml_nbytes(ta));
        ggml_backend_tensor_set(tb, b, 0, ggml_nbytes(tb));
        double start = now();
        ok = ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS;
        *seconds = now() - start;
        ggml_backend_tensor_get(tc, c, 0, ggml_nbytes(tc));
    }
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    ggml_backend_free(backend);
    return ok;
}

static void * function(ggml_backend_reg_t reg, const char * name) {
    return ggml_backend_reg_get_proc_address(reg, name);
}

static void print_cost(ggml_backend_reg_t reg, ggml_backend_dev_t dev) {
    ggml_backend_hsa_get_stats_t get_stats;
    ggml_backend_hsa_get_counters_t get_counters;
    void * address = function(reg, "ggml_backend_hsa_get_stats");
    memcpy(&get_stats, &address, sizeof address);
    address = function(reg, "ggml_backend_hsa_get_counters");
    memcpy(&get_counters, &address, sizeof address);

    struct ggml_backend_hsa_stats stats;
    struct ggml_backend_hsa_counters counters;
    get_stats(dev, &stats);
    printf("kernels: %llu compiled in %.2f ms, %llu from packs; %llu dispatches\n",
           (unsigned long long) stats.kernels_compiled, (double) stats.compile_ns * 1e-6,
           (unsigned long long) stats.pack_hits, (unsigned long long) stats.dispatches);
    if (!get_counters(dev, &counters)) {
        return; // a real NPU has no counters
    }
    // The array has four columns, each with one 32-bit stream to memory for results: a column
    // cannot give more than one word in a cycle.
    const int columns = 4;
    printf("modelled NPU: %llu cycles, %.3f cycles per output word and column (bound: 1.0)\n",
           (unsigned long long) counters.cycles, (double) counters.cycles * columns / (double) N);
}

int main(int argc, char ** argv) {
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: add <path of libggml-hsa.so> [<path of libggml-cpu.so>]\n");
        return 2;
    }
    const char * cpu_backend = argc == 3 ? argv[2] : CPU_BACKEND;
    if (cpu_backend) {
        ggml_backend_load(cpu_backend);
    } else {
        ggml_backend_load_all();
    }
    ggml_backend_reg_t reg = ggml_backend_reg_by_name("HSA"); // with the others, where installed so
    if (!reg) {
        reg = ggml_backend_load(argv[1]);
    }
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t dev = ggml_backend_dev_get(i);
        size_t free_bytes, total;
        ggml_backend_dev_memory(dev, &free_bytes, &total);
        printf("device %-5s %s, %zu MiB\n", ggml_backend_dev_name(dev),
               ggml_backend_dev_description(dev), total >> 20);
    }
    ggml_backend_dev_t npu = ggml_backend_dev_by_name("HSA0");
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (!reg || !npu || !cpu) {
        fprintf(stderr, "add: no NPU; GGML_HSA_EMULATE=aie2 brings an emulated one\n");
        return 1;
    }

    float * values = malloc(4 * (size_t) N * sizeof *values);
    if (!values) {
        return 1;
    }
    float *a = values, *b = a + N, *on_npu = b + N, *on_cpu = on_npu + N;
    uint32_t seed = 2025;
    for (int64_t i = 0; i < 2 * N; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float) (int32_t) seed / 65536.0f;
    }
    double npu_seconds, cpu_seconds;
    if (!add_on(npu, a, b, on_npu, &npu_seconds) || !add_on(cpu, a, b, on_cpu, &cpu_seconds)) {
        fprintf(stderr, "add: the graph did not compute\n");
        free(values);
        return 1;
    }
    int64_t different = 0, wrong = 0;
    double error = 0.0, norm = 0.0;
    for (int64_t i = 0; i < N; i++) {
        double d = fabs((double) on_npu[i] - (double) on_cpu[i]);
        different += d != 0.0;
        wrong += !(d <= ldexp(fmax(fabs((double) a[i]), fabs((double) b[i])), -22));
        error += d * d;
        norm += (double) on_cpu[i] * (double) on_cpu[i];
    }
    printf("added %lld f32 values on HSA0 in %.3f s (CPU backend: %.3f s)\n", (long long) N,
           npu_seconds, cpu_seconds);
    printf("e.g. %.9g + %.9g = %.9g\n", (double) a[1], (double) b[1], (double) on_npu[1]);
    print_cost(reg, npu);
    printf("%s: %lld of %lld sums are the CPU's to the last bit, %lld are off by more than the "
           "adder's rounding; "
           "error (NMSE) %.1e\n",
           wrong ? "WRONG" : "ok", (long long) (N - different), (long long) N, (long long) wrong,
           error / norm);
    free(values);
    return wrong ? 1 : 0;
}
