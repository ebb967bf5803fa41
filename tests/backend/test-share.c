// test-share: a graph that goes back and forth between an emulated NPU and an emulated GPU of one
// process, by ggml's scheduler, and the bytes that are copied between their memories. The argument
// says how: shared (GGML_HSA_SHARE=1) copies none; apart, without it, and refused, where the
// runtime that is played exports no memory of a NPU (ROCr 7.2), copy what crosses. The numbers are
// the CPU's each time, and each device computes what its weights are for.
#include "base/cmocka-all.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-hsa.h"
#include "gpu-env.h"

#include <math.h>

enum { NPU, GPU, CPU, BACKENDS };
enum { WIDTH = 64, ROWS = 32 };

static const char * way = "shared";
static ggml_backend_t backends[BACKENDS];

static int setup(void ** state) {
    (void) state;
    setenv("GGML_HSA_SHARE", strcmp(way, "apart") ? "1" : "0", 1);
    if (!strcmp(way, "refused")) {
        setenv("GGML_HSA_EMU_ROCR_BUGS", "1", 1);
    }
    gpu_env("aie2,gfx1100");
    ggml_backend_load(CPU_BACKEND);
    ggml_backend_load(PLUGIN);
    backends[NPU] = ggml_backend_init_by_name("HSA0", NULL);
    backends[GPU] = ggml_backend_init_by_name("HSA1", NULL);
    backends[CPU] = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    return backends[NPU] && backends[GPU] && backends[CPU] ? 0 : -1;
}

static int teardown(void ** state) {
    (void) state;
    for (int i = 0; i < BACKENDS; i++) {
        ggml_backend_free(backends[i]);
    }
    return 0;
}

static uint64_t copied(void) {
    ggml_backend_hsa_get_stats_t function;
    void * address = ggml_backend_reg_get_proc_address(ggml_backend_reg_by_name("HSA"),
                                                       "ggml_backend_hsa_get_stats");
    memcpy(&function, &address, sizeof function);
    uint64_t bytes = 0;
    for (int i = NPU; i <= GPU; i++) {
        struct ggml_backend_hsa_stats stats = {0};
        assert_true(function(ggml_backend_get_device(backends[i]), &stats));
        bytes += stats.copied_bytes;
    }
    return bytes;
}

// ---- the graph ----

struct net {
    struct ggml_context *weights[2], *ctx;
    ggml_backend_buffer_t buffers[2];
    struct ggml_tensor *w[2], *x, *last, *of_npu, *of_gpu;
    struct ggml_cgraph * graph;
};

static float number(int i, int seed) {
    return sinf((float) (i * 7 + seed * 13 + i * i % 31)) * 0.2f;
}

static void fill(struct ggml_tensor * t, int seed) {
    static float data[WIDTH * WIDTH];
    for (int i = 0; i < (int) ggml_nelements(t); i++) {
        data[i] = number(i, seed);
    }
    ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
}

// Layers take turns: products with weights of the one and of the other, and what is between them.
static struct net net_new(ggml_backend_t first, ggml_backend_t second) {
    struct net n = {0};
    ggml_backend_t of[2] = {first, second};
    struct ggml_init_params p = {.mem_size = 1 << 20, .no_alloc = true};
    for (int i = 0; i < 2; i++) {
        n.weights[i] = ggml_init(p);
        n.w[i] = ggml_new_tensor_2d(n.weights[i], GGML_TYPE_F32, WIDTH, WIDTH);
        ggml_set_name(n.w[i], i ? "w1" : "w0");
        n.buffers[i] = ggml_backend_alloc_ctx_tensors(n.weights[i], of[i]);
        assert_non_null(n.buffers[i]);
        ggml_backend_buffer_set_usage(n.buffers[i], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        fill(n.w[i], i);
    }
    n.ctx = ggml_init(p);
    n.graph = ggml_new_graph(n.ctx);
    n.x = ggml_new_tensor_2d(n.ctx, GGML_TYPE_F32, WIDTH, ROWS);
    ggml_set_name(n.x, "x");
    ggml_set_input(n.x);
    struct ggml_tensor * y = n.x;
    for (int layer = 0; layer < 4; layer++) {
        y = ggml_mul_mat(n.ctx, n.w[layer % 2], ggml_rms_norm(n.ctx, y, 1e-5f));
        *(layer % 2 ? &n.of_gpu : &n.of_npu) = y;
        y = ggml_silu(n.ctx, ggml_add(n.ctx, y, y));
    }
    n.last = y;
    ggml_set_output(y);
    ggml_build_forward_expand(n.graph, y);
    return n;
}

static void net_free(struct net * n) {
    for (int i = 0; i < 2; i++) {
        ggml_backend_buffer_free(n->buffers[i]);
        ggml_free(n->weights[i]);
    }
    ggml_free(n->ctx);
}

static ggml_backend_sched_t schedule(struct net * n) {
    ggml_backend_sched_t sched =
        ggml_backend_sched_new(backends, NULL, BACKENDS, 256, false, false);
    assert_non_null(sched);
    assert_true(ggml_backend_sched_alloc_graph(sched, n->graph));
    return sched;
}

static void results(struct net * n, ggml_backend_sched_t sched, float * out) {
    fill(n->x, 5);
    assert_int_equal(ggml_backend_sched_graph_compute(sched, n->graph), GGML_STATUS_SUCCESS);
    ggml_backend_tensor_get(n->last, out, 0, ggml_nbytes(n->last));
}

// ---- cases ----

static void both_ways(void ** state) {
    (void) state;
    static float own[WIDTH * ROWS], cpu[WIDTH * ROWS];
    struct net n = net_new(backends[NPU], backends[GPU]);
    ggml_backend_sched_t sched = schedule(&n);
    assert_ptr_equal(ggml_backend_sched_get_tensor_backend(sched, n.of_npu), backends[NPU]);
    assert_ptr_equal(ggml_backend_sched_get_tensor_backend(sched, n.of_gpu), backends[GPU]);
    assert_true(ggml_backend_sched_get_n_splits(sched) >= 4);
    uint64_t before = copied();
    for (int i = 0; i < 2; i++) { // the second time with what was kept
        results(&n, sched, own);
    }
    uint64_t bytes = copied() - before, row = sizeof own;
    ggml_backend_sched_free(sched);
    net_free(&n);
    // What crosses is all rows, three times a run.
    assert_int_equal(bytes, strcmp(way, "shared") ? 2 * 3 * row : 0);

    n = net_new(backends[CPU], backends[CPU]);
    sched = schedule(&n);
    results(&n, sched, cpu);
    ggml_backend_sched_free(sched);
    net_free(&n);
    double off = 0, all = 0;
    for (int i = 0; i < WIDTH * ROWS; i++) {
        off += pow(own[i] - cpu[i], 2);
        all += pow(cpu[i], 2);
    }
    assert_true(all > 0.01 && off <= 1e-3 * all);
}

// Whose buffers a device takes.
static void buffer_types(void ** state) {
    (void) state;
    bool shared = !strcmp(way, "shared");
    for (int i = NPU; i <= GPU; i++) {
        ggml_backend_dev_t dev = ggml_backend_get_device(backends[i]);
        for (int k = NPU; k < BACKENDS; k++) {
            bool takes = ggml_backend_dev_supports_buft(
                dev, ggml_backend_get_default_buffer_type(backends[k]));
            assert_int_equal(takes, i == k || (shared && k != CPU));
        }
    }
}

int main(int argc, char ** argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ways),
        cmocka_unit_test(buffer_types),
    };
    way = argc > 1 ? argv[1] : way;
    return cmocka_run_group_tests(tests, setup, teardown);
}
