// test-fallback: nodes that no kernel computes, on the stream's own CPU backend
// (GGML_HSA_HOST_FALLBACK=1), in graphs that go to and fro between NPU and CPU; with the argument
// "off", that without it such nodes are refused. Expected values come from a CPU backend of ours,
// over the same graph.
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-hsa.h"

static ggml_backend_reg_t reg;
static ggml_backend_dev_t npu, cpu;

static int load(void ** state) {
    (void) state;
    setenv("GGML_HSA_EMULATE", "aie2", 0);
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 1);
    reg = ggml_backend_load(PLUGIN);
    npu = reg ? ggml_backend_dev_by_name("HSA0") : NULL;
    return npu ? 0 : -1;
}

// With one thread: ggml's threads spin while they wait, and other streams want to run as well.
static ggml_backend_t new_reference(void) {
    ggml_backend_t backend = ggml_backend_dev_init(cpu, NULL);
    void * address = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu),
                                                       "ggml_backend_set_n_threads");
    ggml_backend_set_n_threads_t set_n_threads;
    memcpy(&set_n_threads, &address, sizeof address);
    set_n_threads(backend, 1);
    return backend;
}

static uint64_t cpu_nodes(void) {
    ggml_backend_hsa_get_stats_t get_stats;
    void * address = ggml_backend_reg_get_proc_address(reg, "ggml_backend_hsa_get_stats");
    memcpy(&get_stats, &address, sizeof address);
    struct ggml_backend_hsa_stats stats;
    assert_true(get_stats(npu, &stats));
    return stats.cpu_nodes;
}

// ---- graphs: a (and b where it is used) go in, the last tensor comes out ----

enum { W = 96, H = 7 };

typedef struct ggml_tensor * (*build)(struct ggml_context * ctx, struct ggml_tensor * a,
                                      struct ggml_tensor * b);

// ROLL will hardly ever get a kernel; ADD has one.
static struct ggml_tensor * to_and_fro_graph(struct ggml_context * ctx, struct ggml_tensor * a,
                                             struct ggml_tensor * b) {
    struct ggml_tensor * t = ggml_add(ctx, a, b);                           // NPU
    t = ggml_roll(ctx, ggml_roll(ctx, t, 9, 0, 0, 0), 0, 2, 0, 0);          // CPU, CPU
    t = ggml_cont(ctx, ggml_transpose(ctx, t));                             // host
    t = ggml_cont(ctx, ggml_transpose(ctx, ggml_roll(ctx, t, 2, 5, 0, 0))); // CPU, host
    return ggml_roll(ctx, ggml_add(ctx, t, t), 3, 0, 0, 0);                 // NPU, CPU
}

static struct ggml_tensor * one_of_each(struct ggml_context * ctx, struct ggml_tensor * a,
                                        struct ggml_tensor * b) {
    return ggml_roll(ctx, ggml_add(ctx, b, a), 1, 1, 0, 0);
}

// As long as several CPU graphs.
static struct ggml_tensor * chain(struct ggml_context * ctx, struct ggml_tensor * a,
                                  struct ggml_tensor * b) {
    struct ggml_tensor * t = ggml_add(ctx, a, b);
    for (int i = 0; i < 1300; i++) {
        t = ggml_roll(ctx, t, 1, i % 3, 0, 0);
    }
    return t;
}

// The CPU backend has no backward softmax with ALiBi.
static struct ggml_tensor * impossible(struct ggml_context * ctx, struct ggml_tensor * a,
                                       struct ggml_tensor * b) {
    return ggml_soft_max_ext_back(ctx, a, b, 1.0f, 8.0f);
}

static enum ggml_status compute(ggml_backend_t stream, build graph_of, uint32_t seed, float * out) {
    struct ggml_init_params params = {.mem_size = ggml_tensor_overhead() * 2048 +
                                                  ggml_graph_overhead_custom(2048, false),
                                      .no_alloc = true};
    struct ggml_context * ctx = ggml_init(params);
    struct ggml_tensor * a = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, W, H);
    struct ggml_tensor * b = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, W, H);
    struct ggml_tensor * result = graph_of(ctx, a, b);
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 2048, false);
    ggml_build_forward_expand(graph, result);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, stream);
    float values[2 * W * H];
    for (int i = 0; i < 2 * W * H; i++) { // sums are exact
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float) ((int32_t) (seed >> 24) - 128) / 64.0f;
    }
    enum ggml_status status = GGML_STATUS_ALLOC_FAILED;
    if (buffer) {
        ggml_backend_tensor_set(a, values, 0, ggml_nbytes(a));
        ggml_backend_tensor_set(b, values + W * H, 0, ggml_nbytes(b));
        status = ggml_backend_graph_compute(stream, graph);
        memset(out, 0, W * H * sizeof *out);
        ggml_backend_tensor_get(result, out, 0, ggml_nbytes(result));
    }
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    return status;
}

// True when both backends say the same within what the NPU's adder rounds off.
static bool agree(ggml_backend_t stream, ggml_backend_t reference, build graph_of, uint32_t seed) {
    float got[W * H], want[W * H];
    if (compute(stream, graph_of, seed, got) != GGML_STATUS_SUCCESS ||
        compute(reference, graph_of, seed, want) != GGML_STATUS_SUCCESS) {
        return false;
    }
    bool any = false;
    for (int i = 0; i < W * H; i++) {
        if (!(fabsf(got[i] - want[i]) <= 1e-5f * (1.0f + fabsf(want[i])))) {
            print_error("element %d is %g, not %g\n", i, (double) got[i], (double) want[i]);
            return false;
        }
        any |= want[i] != 0.0f;
    }
    return any;
}

static bool supported(build graph_of) {
    struct ggml_init_params params = {.mem_size = ggml_tensor_overhead() * 2048, .no_alloc = true};
    struct ggml_context * ctx = ggml_init(params);
    struct ggml_tensor * a = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, W, H);
    bool yes = ggml_backend_dev_supports_op(npu, graph_of(ctx, a, a));
    ggml_free(ctx);
    return yes;
}

// ---- with it ----

static void without_a_cpu_backend(void ** state) { // runs first: ours is not loaded yet
    (void) state;
    assert_null(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
    ggml_backend_t stream = ggml_backend_dev_init(npu, NULL);
    float out[W * H];
    assert_false(supported(one_of_each));
    assert_int_equal(compute(stream, one_of_each, 1, out), GGML_STATUS_FAILED);
    ggml_backend_load(CPU_BACKEND);
    cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    assert_non_null(cpu);
    assert_true(supported(one_of_each));
    assert_int_equal(compute(stream, one_of_each, 1, out), GGML_STATUS_SUCCESS);
    ggml_backend_free(stream);
}

static void to_and_fro(void ** state) {
    (void) state;
    ggml_backend_t stream = ggml_backend_dev_init(npu, NULL), reference = new_reference();
    uint64_t before = cpu_nodes();
    assert_true(agree(stream, reference, to_and_fro_graph, 7));
    assert_int_equal(cpu_nodes() - before, 4); // the sums and the copies are not among them
    before = cpu_nodes();
    assert_true(agree(stream, reference, one_of_each, 8));
    assert_int_equal(cpu_nodes() - before, 1);
    assert_true(agree(stream, reference, chain, 9));
    ggml_backend_free(stream);
    ggml_backend_free(reference);
}

static void not_even_on_the_cpu(void ** state) {
    (void) state;
    ggml_backend_t stream = ggml_backend_dev_init(npu, NULL), reference = new_reference();
    float out[W * H];
    assert_false(supported(impossible));
    assert_int_equal(compute(stream, impossible, 3, out), GGML_STATUS_FAILED);
    assert_true(agree(stream, reference, one_of_each, 4)); // and the stream goes on
    ggml_backend_free(stream);
    ggml_backend_free(reference);
}

static void * many(void * user) {
    uint32_t seed = (uint32_t) (uintptr_t) user;
    ggml_backend_t stream = ggml_backend_dev_init(npu, NULL), reference = new_reference();
    bool ok = stream && reference;
    for (uint32_t i = 0; ok && i < 6; i++) {
        ok = agree(stream, reference, i % 2 ? one_of_each : to_and_fro_graph, seed + i);
    }
    ggml_backend_free(stream);
    ggml_backend_free(reference);
    return ok ? user : NULL;
}

static void streams_at_once(void ** state) {
    (void) state;
    pthread_t threads[3];
    for (uintptr_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, many, (void *) (1000 * (i + 1))), 0);
    }
    for (uintptr_t i = 0; i < 3; i++) {
        void * result;
        pthread_join(threads[i], &result);
        assert_ptr_equal(result, (void *) (1000 * (i + 1)));
    }
}

// ---- without it ----

static void refused(void ** state) {
    (void) state;
    ggml_backend_load(CPU_BACKEND);
    ggml_backend_t stream = ggml_backend_dev_init(npu, NULL);
    float out[W * H];
    assert_false(supported(one_of_each));
    assert_int_equal(compute(stream, one_of_each, 1, out), GGML_STATUS_FAILED);
    assert_int_equal(cpu_nodes(), 0);
    ggml_backend_free(stream);
}

int main(int argc, char ** argv) {
    const struct CMUnitTest with[] = {
        cmocka_unit_test(without_a_cpu_backend),
        cmocka_unit_test(to_and_fro),
        cmocka_unit_test(not_even_on_the_cpu),
        cmocka_unit_test(streams_at_once),
    };
    const struct CMUnitTest without[] = {cmocka_unit_test(refused)};
    bool off = argc == 2 && !strcmp(argv[1], "off");
    setenv("GGML_HSA_HOST_FALLBACK", off ? "0" : "Yes", 1);
    return off ? cmocka_run_group_tests(without, load, NULL)
               : cmocka_run_group_tests(with, load, NULL);
}
