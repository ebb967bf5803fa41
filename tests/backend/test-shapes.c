// test-shapes [n]: n graphs of as many shapes on an emulated NPU (aie2 where GGML_HSA_EMULATE does
// not say another), each compared with the CPU. What
// a process holds must not grow with the shapes that it has seen: the second half of them, which
// differs from the first in every kernel, leaves memory and descriptors about as they were.
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-hsa.h"

enum { COLUMNS = 160, MOST = 400 * COLUMNS, OPS = 4, GROUP = 50, GROWTH_KIB = 6 << 10 };

static int n_shapes = 4000;
static ggml_backend_t npu, cpu;
static ggml_backend_hsa_get_stats_t get_stats;

static long rss_kib(void) {
    long pages = 0;
    FILE * f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*s %ld", &pages), 1);
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static int descriptors(void) {
    int n = 0;
    DIR * d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d)) {
        n++;
    }
    closedir(d);
    return n;
}

// The i-th shape: no two of them have the op and both dimensions in common. Ops come in groups, for
// the array is configured anew with each change.
static int64_t compute(ggml_backend_t backend, int i, float * out) {
    int op = i / GROUP % OPS, nth = i / (GROUP * OPS) * GROUP + i % GROUP;
    int64_t ne0 = 1 + nth % COLUMNS, ne1 = 2 + nth / COLUMNS;
    struct ggml_init_params params = {
        8 * ggml_tensor_overhead() + ggml_graph_overhead_custom(8, false), NULL, true};
    struct ggml_context * ctx = ggml_init(params);
    struct ggml_tensor * a = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, ne0, ne1);
    struct ggml_tensor * b = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, ne0);
    struct ggml_tensor * y = op == 0   ? ggml_rms_norm(ctx, a, 1e-5f)
                             : op == 1 ? ggml_sum_rows(ctx, a)
                             : op == 2 ? ggml_soft_max(ctx, a)
                                       : ggml_add(ctx, a, b);
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 8, false);
    ggml_build_forward_expand(graph, y);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    assert_non_null(buffer);
    for (int64_t k = 0; k < ne0 * ne1; k++) {
        out[k] = (float) ((k * 7 + i) % 61) * 0.25f - 7;
    }
    ggml_backend_tensor_set(a, out, 0, ggml_nbytes(a));
    ggml_backend_tensor_set(b, out, 0, ggml_nbytes(b));
    assert_int_equal(ggml_backend_graph_compute(backend, graph), GGML_STATUS_SUCCESS);
    ggml_backend_tensor_get(y, out, 0, ggml_nbytes(y));
    int64_t n = ggml_nelements(y);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    return n;
}

static void compare(int i) {
    static float got[MOST], want[MOST];
    int64_t n = compute(npu, i, got);
    assert_int_equal(compute(cpu, i, want), n);
    for (int64_t k = 0; k < n; k++) {
        if (!(fabsf(got[k] - want[k]) <= 1e-4f * fabsf(want[k]) + 1e-4f)) {
            fail_msg("shape %d, element %d: %g instead of %g", i, (int) k, (double) got[k],
                     (double) want[k]);
        }
    }
}

static void memory_is_flat(void ** state) {
    (void) state;
    struct ggml_backend_hsa_stats stats;
    long before = 0;
    int open_before = 0;
    for (int i = 0; i < n_shapes; i++) {
        if (i == n_shapes / 2) {
            before = rss_kib();
            open_before = descriptors();
        }
        compare(i);
    }
    long after = rss_kib();
    int open_after = descriptors();
    assert_true(get_stats(ggml_backend_get_device(npu), &stats));
    print_message(
        "%d shapes: %d kernels made; resident %ld KiB after half of them, %ld at the end; "
        "%d descriptors, %d\n",
        n_shapes, (int) stats.kernels_compiled, before, after, open_before, open_after);
    assert_int_equal(stats.cpu_nodes, 0);
    assert_true(stats.kernels_compiled >= (uint64_t) n_shapes);
    assert_int_equal(open_after, open_before);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // they keep what was freed
    assert_true(after - before < GROWTH_KIB);
#endif
}

// What went comes back: first and last shapes in turns.
static void again(void ** state) {
    (void) state;
    for (int i = 0; i < 12; i++) {
        compare(i % 2 ? i : n_shapes - 1 - i);
    }
}

// Threads that wait for each other take turns where there are fewer CPUs than they are.
static void one_thread(ggml_backend_t backend) {
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend));
    void * address = ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads");
    ggml_backend_set_n_threads_t set_n_threads;
    memcpy(&set_n_threads, &address, sizeof address);
    set_n_threads(backend, 1);
}

static int setup(void ** state) {
    (void) state;
    setenv("GGML_HSA_EMULATE", "aie2", 0);
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 0);
    setenv("GGML_HSA_KERNEL_MEMORY", "2M", 0);
    ggml_backend_reg_t reg = ggml_backend_load(PLUGIN);
    if (!ggml_backend_load(CPU_BACKEND) || !reg) {
        return -1;
    }
    void * address = ggml_backend_reg_get_proc_address(reg, "ggml_backend_hsa_get_stats");
    memcpy(&get_stats, &address, sizeof get_stats);
    npu = ggml_backend_dev_init(ggml_backend_dev_by_name("HSA0"), NULL);
    cpu = ggml_backend_dev_init(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU), NULL);
    if (cpu) {
        one_thread(cpu);
    }
    return npu && cpu && get_stats ? 0 : -1;
}

static int teardown(void ** state) {
    (void) state;
    ggml_backend_free(npu);
    ggml_backend_free(cpu);
    return 0;
}

int main(int argc, char ** argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_is_flat), cmocka_unit_test(again)};
    n_shapes = argc > 1 ? atoi(argv[1]) : n_shapes;
    return cmocka_run_group_tests(tests, setup, teardown);
}
