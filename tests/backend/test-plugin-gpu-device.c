// test-plugin-gpu-device: an emulated GPU beside a NPU as programs meet them: what they say of
// themselves, bytes to, from and between their buffers, streams in threads, the scheduler, the
// counters, and a GPU for which nothing can be compiled. The argument names the GPU.
#include "child.h"
#include "gpu-world.h"
#include "hsa-emu.h"

#include <dlfcn.h>
#include <ftw.h>
#include <pthread.h>
#include <unistd.h>

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

static ggml_backend_dev_t npu, other_gpu, cpu;
static struct { // of the runtime that the plugin uses
    __typeof__(hsa_emu_launch) * launch;
    __typeof__(hsa_iterate_agents) * agents;
} own_runtime;

static int setup(void ** state) {
    (void) state;
    char emulate[64];
    snprintf(emulate, sizeof emulate, "%s,aie2,gfx90a", gpu_arch);
    gpu_env(emulate);
    ggml_backend_load(CPU_BACKEND);
    ggml_backend_reg_t reg = ggml_backend_load(PLUGIN);
    cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    npu = reg ? ggml_backend_dev_by_name("HSA0") : NULL;
    gpu = reg ? ggml_backend_dev_by_name("HSA1") : NULL;
    other_gpu = reg ? ggml_backend_dev_by_name("HSA2") : NULL;
    stream = gpu ? ggml_backend_dev_init(gpu, NULL) : NULL;
    return stream && cpu && npu && other_gpu ? 0 : -1;
}

static bool get_stats(ggml_backend_dev_t dev, struct ggml_backend_hsa_stats * out) {
    ggml_backend_hsa_get_stats_t function;
    void * address = ggml_backend_reg_get_proc_address(ggml_backend_reg_by_name("HSA"),
                                                       "ggml_backend_hsa_get_stats");
    memcpy(&function, &address, sizeof function);
    return address && function(dev, out);
}

static struct ggml_backend_hsa_stats stats_of(ggml_backend_dev_t dev) {
    struct ggml_backend_hsa_stats stats;
    assert_true(get_stats(dev, &stats));
    return stats;
}

// ---- threads: first of all, so that they want the same kernels for the first time ----

static void * two_rounds(void * failed) {
    ggml_backend_t own = ggml_backend_dev_init(gpu, NULL);
    bool ok = own != NULL;
    for (uint32_t round = 0; ok && round < 10; round++) {
        struct world w = world_new();
        struct ggml_tensor * a = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 33, 20 + round);
        struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 33, 5 + round);
        struct ggml_tensor * y = ggml_mul_mat(w.ctx, a, ggml_rms_norm(w.ctx, b, 1e-5f));
        ggml_build_forward_expand(w.graph, ggml_soft_max(w.ctx, ggml_add(w.ctx, y, y)));
        w.buffer = ggml_backend_alloc_ctx_tensors(w.ctx, own);
        ok = w.buffer != NULL;
        if (ok) {
            world_fill(&w, round + 1);
            ok = ggml_backend_graph_compute(own, w.graph) == GGML_STATUS_SUCCESS &&
                 world_is_right(&w);
        }
        world_free(&w);
    }
    ggml_backend_free(own);
    *(bool *) failed = !ok;
    return NULL;
}

static void streams_in_threads(void ** state) {
    (void) state;
    enum { N = 3 };
    pthread_t threads[N];
    bool failed[N];
    for (int i = 0; i < N; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, two_rounds, &failed[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < N; i++) {
        assert_false(failed[i]);
    }
}

// ---- what they say ----

static void devices(void ** state) {
    (void) state;
    char of_gpu[32];
    snprintf(of_gpu, sizeof of_gpu, "(%s, emulated)", gpu_arch);
    const struct {
        ggml_backend_dev_t dev;
        const char *name, *product, *arch, *host;
    } expected[] = {
        {npu, "HSA0", "RyzenAI-npu1", "(aie2, emulated)", "HSA0_Host"},
        {gpu, "HSA1", "AMD ", of_gpu, "HSA1_Host"},
        {other_gpu, "HSA2", "AMD Instinct MI210", "(gfx90a, emulated)", "HSA2_Host"},
    };
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(gpu);
    assert_int_equal(ggml_backend_reg_dev_count(reg), COUNT(expected));
    for (size_t i = 0; i < COUNT(expected); i++) {
        ggml_backend_dev_t dev = expected[i].dev;
        ggml_backend_buffer_type_t buft = ggml_backend_dev_buffer_type(dev),
                                   host = ggml_backend_dev_host_buffer_type(dev);
        struct ggml_backend_dev_props props;
        assert_ptr_equal(ggml_backend_reg_dev_get(reg, i), dev);
        ggml_backend_dev_get_props(dev, &props);
        assert_string_equal(props.name, expected[i].name);
        assert_string_equal(props.name, ggml_backend_dev_name(dev));
        assert_ptr_equal(strstr(props.description, expected[i].product), props.description);
        assert_non_null(strstr(props.description, expected[i].arch));
        bool integrated = strstr(props.description, "gfx1151") != NULL;
        assert_int_equal(props.type,
                         integrated ? GGML_BACKEND_DEVICE_TYPE_IGPU : GGML_BACKEND_DEVICE_TYPE_GPU);
        assert_true(props.memory_total > 64 << 20 && props.memory_free <= props.memory_total);
        assert_true(props.caps.host_buffer);
        assert_string_equal(ggml_backend_buft_name(buft), expected[i].name);
        assert_string_equal(ggml_backend_buft_name(host), expected[i].host);
        assert_false(ggml_backend_buft_is_host(buft));
        assert_true(ggml_backend_buft_is_host(host));
        for (size_t k = 0; k < COUNT(expected); k++) {
            assert_true(ggml_backend_dev_supports_buft(expected[k].dev, buft) == (k == i));
            assert_true(ggml_backend_dev_supports_buft(expected[k].dev, host) == (k == i));
        }
        assert_null(ggml_backend_buft_alloc_buffer(buft, (size_t) 1 << 60));
    }
    size_t before, after, total;
    ggml_backend_dev_memory(gpu, &before, &total);
    ggml_backend_buffer_t b =
        ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(gpu), 5 << 20);
    ggml_backend_dev_memory(gpu, &after, &total);
    assert_true(before - after >= 5 << 20);
    ggml_backend_buffer_free(b);
    ggml_backend_dev_memory(gpu, &after, &total);
    assert_int_equal(before, after);
}

// ---- bytes ----

struct part { // of a tensor, somewhere
    struct ggml_context * ctx;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *whole, *view;
};

enum { VIEW_AT = 3 };

static struct part part_new(ggml_backend_buffer_type_t buft, int64_t n) {
    struct ggml_init_params params = {.mem_size = 4 * ggml_tensor_overhead(), .no_alloc = true};
    struct part p = {.ctx = ggml_init(params)};
    p.whole = ggml_new_tensor_1d(p.ctx, GGML_TYPE_I8, n + 10);
    p.view = ggml_view_1d(p.ctx, p.whole, n, VIEW_AT);
    p.buffer = ggml_backend_alloc_ctx_tensors_from_buft(p.ctx, buft);
    assert_non_null(p.buffer);
    return p;
}

static void part_free(struct part * p) {
    ggml_backend_buffer_free(p->buffer);
    ggml_free(p->ctx);
}

static void assert_bytes(const struct ggml_tensor * t, const uint8_t * want, const char * what) {
    uint8_t * got = malloc(ggml_nbytes(t));
    ggml_backend_tensor_get(t, got, 0, ggml_nbytes(t));
    for (size_t i = 0; i < ggml_nbytes(t); i++) {
        if (got[i] != want[i]) {
            fail_msg("%s: byte %zu of %zu is %u, not %u", what, i, ggml_nbytes(t), got[i], want[i]);
        }
    }
    free(got);
}

// Every kind of memory to every other, from and to the middle of a tensor.
static void copies_between_all(void ** state) {
    (void) state;
    ggml_backend_buffer_type_t bufts[] = {
        ggml_backend_dev_buffer_type(cpu),
        ggml_backend_dev_buffer_type(npu),
        ggml_backend_dev_host_buffer_type(npu),
        ggml_backend_dev_buffer_type(gpu),
        ggml_backend_dev_host_buffer_type(gpu),
        ggml_backend_dev_buffer_type(other_gpu),
        ggml_backend_dev_host_buffer_type(other_gpu),
    };
    static const int64_t sizes[] = {1, 1001, (1 << 20) + 3};
    for (size_t n = 0; n < COUNT(sizes); n++) {
        size_t size = (size_t) sizes[n];
        uint8_t *data = malloc(size + 10), *want = malloc(size + 10);
        for (size_t i = 0; i < COUNT(bufts) * COUNT(bufts); i++) {
            struct part from = part_new(bufts[i / COUNT(bufts)], sizes[n]);
            struct part to = part_new(bufts[i % COUNT(bufts)], sizes[n]);
            char what[100];
            snprintf(what, sizeof what, "%zu bytes from %s to %s", size,
                     ggml_backend_buft_name(bufts[i / COUNT(bufts)]),
                     ggml_backend_buft_name(bufts[i % COUNT(bufts)]));
            for (size_t k = 0; k < size + 10; k++) {
                data[k] = (uint8_t) (k * 7 + k / 250 + i);
            }
            ggml_backend_tensor_set(from.whole, data, 0, size + 10);
            ggml_backend_buffer_clear(to.buffer, 0x5a);
            memset(want, 0x5a, size + 10);
            assert_bytes(to.whole, want, what);
            ggml_backend_tensor_copy(from.view, to.view);
            memcpy(want + VIEW_AT, data + VIEW_AT, size);
            assert_bytes(to.whole, want, what);
            assert_bytes(from.whole, data, what);
            part_free(&from);
            part_free(&to);
        }
        free(data);
        free(want);
    }
}

static void pieces_of_tensors(void ** state) {
    (void) state;
    enum { N = (3 << 20) + 7 };
    static const size_t pieces[][2] = {
        {0, 1},     {1, 2}, {5, 1 << 20}, {(1 << 20) - 1, 3}, {77, (2 << 20) + 1},
        {N - 1, 1}, {3, 0}, {0, N}};
    ggml_backend_buffer_type_t bufts[] = {ggml_backend_dev_buffer_type(gpu),
                                          ggml_backend_dev_host_buffer_type(gpu)};
    uint8_t *want = malloc(N + 10), *data = malloc(N), *got = malloc(N + 2);
    for (size_t b = 0; b < COUNT(bufts); b++) {
        struct part p = part_new(bufts[b], N);
        ggml_backend_buffer_clear(p.buffer, 0);
        memset(want, 0, N + 10);
        for (size_t i = 0; i < COUNT(pieces); i++) {
            size_t at = pieces[i][0], n = pieces[i][1];
            for (size_t k = 0; k < n; k++) {
                data[k] = (uint8_t) (k * 13 + k / 251 + i);
            }
            ggml_backend_tensor_set(p.view, data, at, n);
            memcpy(want + VIEW_AT + at, data, n);
            assert_bytes(p.whole, want, "set");
            memset(got, 0xee, N + 2);
            ggml_backend_tensor_get(p.view, got + 1, at, n);
            assert_memory_equal(got + 1, data, n);
            assert_true(got[0] == 0xee && got[n + 1] == 0xee);
            ggml_backend_tensor_memset(p.view, (uint8_t) (0x80 + i), at, n / 2);
            memset(want + VIEW_AT + at, (int) (0x80 + i), n / 2);
            assert_bytes(p.whole, want, "memset");
            ggml_backend_tensor_set_async(stream, p.view, data, at, n);
            memcpy(want + VIEW_AT + at, data, n);
            ggml_backend_tensor_get_async(stream, p.view, got, at, n);
            ggml_backend_synchronize(stream);
            assert_memory_equal(got, data, n);
        }
        part_free(&p);
    }
    free(want);
    free(data);
    free(got);
}

// ---- graphs in other memory, and with others ----

static void graph_in_host_memory(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F16, 33, 9);
    struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 33, 10);
    struct ggml_tensor * y = ggml_mul_mat(w.ctx, a, b);
    world_check(&w, ggml_soft_max(w.ctx, ggml_add(w.ctx, y, y)),
                ggml_backend_dev_host_buffer_type(gpu));
}

static void graph_in_both_memories(void ** state) {
    (void) state;
    struct world host = world_new(), own = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(host.ctx, GGML_TYPE_F32, 33, 9);
    host.buffer =
        ggml_backend_alloc_ctx_tensors_from_buft(host.ctx, ggml_backend_dev_host_buffer_type(gpu));
    assert_non_null(host.buffer);
    for (int64_t i = 0; i < 33 * 9; i++) {
        ((float *) a->data)[i] = (float) i - 100; // the host writes it without a word
    }
    struct ggml_tensor * b = ggml_new_tensor_2d(own.ctx, GGML_TYPE_F32, 33, 10);
    ggml_build_forward_expand(own.graph, ggml_mul_mat(own.ctx, a, b));
    own.buffer = ggml_backend_alloc_ctx_tensors(own.ctx, stream);
    world_fill(&own, 9);
    assert_int_equal(ggml_backend_graph_compute(stream, own.graph), GGML_STATUS_SUCCESS);
    assert_true(world_is_right(&own));
    world_free(&own);
    world_free(&host);
}

static void events(void ** state) {
    (void) state;
    ggml_backend_t other = ggml_backend_dev_init(gpu, NULL);
    ggml_backend_event_t event = ggml_backend_event_new(gpu);
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, 1000);
    struct ggml_tensor * copy = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, 1000);
    struct ggml_tensor * out = ggml_add(w.ctx, a, a);
    world_alloc(&w, out, NULL);
    for (int round = 1; round < 4; round++) {
        float in[1000], got[1000];
        for (int i = 0; i < 1000; i++) {
            in[i] = (float) (i * round);
        }
        ggml_backend_tensor_set_async(stream, a, in, 0, sizeof in);
        assert_int_equal(ggml_backend_graph_compute_async(stream, w.graph), GGML_STATUS_SUCCESS);
        ggml_backend_event_record(event, stream);
        ggml_backend_event_wait(other, event);
        ggml_backend_tensor_copy_async(stream, other, out, copy);
        ggml_backend_tensor_get_async(other, copy, got, 0, sizeof got);
        ggml_backend_synchronize(other);
        ggml_backend_event_synchronize(event);
        for (int i = 0; i < 1000; i++) {
            assert_true(got[i] == 2 * in[i]);
        }
    }
    ggml_backend_event_free(event);
    ggml_backend_free(other);
    world_free(&w);
}

static void running_sums(struct ggml_tensor * y, const struct ggml_tensor * x, int ith, int nth,
                         void * user) {
    (void) nth, (void) user;
    const float * from = x->data;
    float * to = y->data;
    for (int64_t i = 0; ith == 0 && i < ggml_nelements(y); i++) {
        to[i] = from[i] + (i % y->ne[0] ? to[i - 1] : 0);
    }
}

// A function of the host is nobody's but the CPU's, and ARGSORT is sent there; the rest goes to the
// NPU and both GPUs.
static void scheduled(void ** state) {
    (void) state;
    ggml_backend_t backends[] = {stream, ggml_backend_dev_init(other_gpu, NULL),
                                 ggml_backend_dev_init(npu, NULL),
                                 ggml_backend_dev_init(cpu, NULL)};
    ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, 4, 64, false, true);
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 50, 4);
    struct ggml_tensor * x = ggml_add(w.ctx, a, a);
    struct ggml_tensor * y = ggml_mul(w.ctx, ggml_map_custom1(w.ctx, x, running_sums, 1, NULL), a);
    struct ggml_tensor * z = ggml_add(w.ctx, y, x);
    struct ggml_tensor * s = ggml_sub(w.ctx, z, a);
    struct ggml_tensor * order = ggml_argsort(w.ctx, s, GGML_SORT_ORDER_ASC);
    ggml_set_input(a);
    ggml_set_output(s);
    ggml_build_forward_expand(w.graph, order);
    ggml_backend_sched_set_tensor_backend(sched, x, backends[0]);
    ggml_backend_sched_set_tensor_backend(sched, y, backends[1]);
    ggml_backend_sched_set_tensor_backend(sched, z, backends[2]);
    ggml_backend_sched_set_tensor_backend(sched, s, backends[0]);
    ggml_backend_sched_set_tensor_backend(sched, order, backends[3]);
    assert_true(ggml_backend_sched_alloc_graph(sched, w.graph));
    assert_true(ggml_backend_sched_get_n_splits(sched) >= 6);
    for (uint32_t round = 0; round < 2; round++) {
        float in[200], got[200], want[200], sum = 0;
        int32_t sorted[200];
        for (int i = 0; i < 200; i++) {
            in[i] = (float) ((i * 37 + 11 * (int) round) % 64) / 8 - 4;
            sum = (i % 50 ? sum : 0) + 2 * in[i];
            want[i] = sum * in[i] + 2 * in[i] - in[i];
        }
        ggml_backend_tensor_set(a, in, 0, sizeof in);
        assert_int_equal(ggml_backend_sched_graph_compute(sched, w.graph), GGML_STATUS_SUCCESS);
        ggml_backend_tensor_get(s, got, 0, sizeof got);
        ggml_backend_tensor_get(order, sorted, 0, sizeof sorted);
        for (int i = 0; i < 200; i++) {
            assert_true(fabsf(got[i] - want[i]) < 1e-3f);
            assert_true(i % 50 == 0 ||
                        got[i / 50 * 50 + sorted[i - 1]] <= got[i / 50 * 50 + sorted[i]]);
        }
    }
    ggml_backend_sched_free(sched);
    for (int i = 1; i < 4; i++) {
        ggml_backend_free(backends[i]);
    }
    ggml_free(w.ctx);
}

// Weights stay where the CPU has them; a prompt brings them here, a token does not.
static void offloaded(void ** state) {
    (void) state;
    static const struct {
        int64_t columns;
        const char * least; // GGML_OP_OFFLOAD_MIN_BATCH
        bool to_gpu;
    } cases[] = {{1, NULL, false}, {31, NULL, false}, {32, NULL, true}, {5, "5", true}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct world w = world_new(), weights = world_new();
        struct ggml_tensor * a = ggml_new_tensor_2d(weights.ctx, GGML_TYPE_F32, 33, 7);
        struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 33, cases[i].columns);
        struct ggml_tensor * y = ggml_mul_mat(w.ctx, a, b);
        ggml_set_input(b);
        ggml_set_output(y);
        ggml_build_forward_expand(w.graph, y);
        if (cases[i].least) {
            setenv("GGML_OP_OFFLOAD_MIN_BATCH", cases[i].least, 1);
        }
        assert_int_equal(ggml_backend_dev_offload_op(gpu, y), cases[i].to_gpu);
        assert_false(ggml_backend_dev_offload_op(npu, y));
        struct ggml_tensor * ids = ggml_new_tensor_1d(w.ctx, GGML_TYPE_I32, 64);
        assert_false(ggml_backend_dev_offload_op(gpu, ggml_get_rows(w.ctx, a, ids)));

        ggml_backend_t backends[] = {stream, ggml_backend_dev_init(cpu, NULL)};
        weights.buffer = ggml_backend_alloc_ctx_tensors(weights.ctx, backends[1]);
        ggml_backend_buffer_set_usage(weights.buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, 2, 64, false, true);
        assert_true(ggml_backend_sched_alloc_graph(sched, w.graph));
        fill(a, 1);
        fill(b, 2);
        assert_ptr_equal(ggml_backend_sched_get_tensor_backend(sched, y),
                         backends[cases[i].to_gpu ? 0 : 1]);
        assert_int_equal(ggml_backend_sched_graph_compute(sched, w.graph), GGML_STATUS_SUCCESS);
        struct ggml_tensor plain = *y; // the scheduler put a copy of the weights in its place
        plain.src[0] = a;
        plain.src[1] = b;
        char *data[3] = {bytes_of(a), bytes_of(b), NULL}, *got = bytes_of(y);
        assert_true(node_is_right(&plain, got, data));
        free(data[0]);
        free(data[1]);
        free(got);
        unsetenv("GGML_OP_OFFLOAD_MIN_BATCH");
        ggml_backend_sched_free(sched);
        ggml_backend_free(backends[1]);
        world_free(&w);
        world_free(&weights);
    }
}

static void counters(void ** state) {
    (void) state;
    struct ggml_backend_hsa_stats npu_before = stats_of(npu), before = stats_of(gpu), after;
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 33, 9);
    world_check(&w, ggml_mul_mat(w.ctx, a, ggml_add(w.ctx, a, a)), NULL); // twice
    after = stats_of(gpu);
    assert_int_equal(after.dispatches - before.dispatches, 4);
    assert_int_equal(after.staged_operands, before.staged_operands);
    assert_int_equal(after.cpu_nodes + after.host_copies, 0);
    assert_int_equal(stats_of(npu).dispatches, npu_before.dispatches);
    struct ggml_backend_hsa_stats none;
    assert_false(get_stats(cpu, &none));
}

// ---- which instructions ----

static hsa_status_t find_launch(hsa_agent_t agent, void * data) {
    struct hsa_emu_launch * out = data;
    struct hsa_emu_launch last = {.size = sizeof last};
    if (!out->number && own_runtime.launch(agent, 0, &last) == HSA_STATUS_SUCCESS) {
        *out = last;
    }
    return HSA_STATUS_SUCCESS;
}

// Has the last launch of the first GPU that had one executed matrix instructions?
static bool executed_matrix(void) {
    struct hsa_emu_launch last = {0};
    void * runtime = dlopen("libhsa-npu.so", RTLD_NOLOAD | RTLD_LAZY);
    assert_non_null(runtime);
    *(void **) &own_runtime.launch = dlsym(runtime, "hsa_emu_launch");
    *(void **) &own_runtime.agents = dlsym(runtime, "hsa_iterate_agents");
    assert_int_equal(own_runtime.agents(find_launch, &last), HSA_STATUS_SUCCESS);
    dlclose(runtime);
    assert_true(last.number > 0);
    for (int i = 0; i < HSA_EMU_KINDS; i++) {
        if (!strcmp(last.kinds[i].name, "matrix")) {
            return last.kinds[i].instructions > 0;
        }
    }
    fail_msg("the runtime does not count matrix instructions");
    return false;
}

static void matrix_instructions(void ** state) {
    (void) state;
    static const struct {
        enum ggml_type type;
        int64_t columns;
        enum ggml_prec acc, src; // what the node asks for
        bool matrix;
    } cases[] = {
        {GGML_TYPE_F16, 9, 0, 0, true},
        {GGML_TYPE_F16, 9, GGML_PREC_F32, 0, false},
        {GGML_TYPE_F16, 9, 0, GGML_PREC_BF16, false},
        {GGML_TYPE_F16, 9, 0, GGML_PREC_F16, true},
        {GGML_TYPE_F16, 8, 0, 0, false},
        {GGML_TYPE_BF16, 9, 0, GGML_PREC_BF16, true},
        {GGML_TYPE_BF16, 9, 0, GGML_PREC_F32, false},
        {GGML_TYPE_F32, 9, 0, 0, false},
        {GGML_TYPE_Q4_0, 9, 0, 0, true},
        {GGML_TYPE_Q8_0, 9, 0, 0, true},
        {GGML_TYPE_Q4_K, 9, 0, 0, true},
        {GGML_TYPE_Q4_K, 1, 0, 0, false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct world w = world_new();
        struct ggml_tensor * a = ggml_new_tensor_2d(w.ctx, cases[i].type, 256, 5);
        struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 256, cases[i].columns);
        struct ggml_tensor * y = ggml_mul_mat(w.ctx, a, b);
        y->op_params[0] = cases[i].acc;
        y->op_params[3] = cases[i].src;
        world_alloc(&w, y, NULL);
        ggml_backend_tensor_memset(a, 0, 0, ggml_nbytes(a));
        ggml_backend_tensor_memset(b, 0, 0, ggml_nbytes(b));
        assert_int_equal(ggml_backend_graph_compute(stream, w.graph), GGML_STATUS_SUCCESS);
        assert_int_equal(executed_matrix(), cases[i].matrix);
        world_free(&w);
    }
}

// ---- other processes ----

static int n_warnings;
static char first_warning[1024];

static void count_warnings(enum ggml_log_level level, const char * text, void * user) {
    (void) user;
    if (level >= GGML_LOG_LEVEL_WARN && strstr(text, "ggml-hsa")) {
        if (n_warnings++ == 0) {
            snprintf(first_warning, sizeof first_warning, "%s", text);
        }
    }
}

// What a process of its own does: adds, and tells in one line.
static int child(const char * arch) {
    setenv("GGML_HSA_EMULATE", arch, 1);
    ggml_log_set(count_warnings, NULL);
    ggml_backend_reg_t reg = ggml_backend_load(PLUGIN);
    ggml_backend_dev_t dev = reg ? ggml_backend_dev_by_name("HSA0") : NULL;
    ggml_backend_t own = dev ? ggml_backend_dev_init(dev, NULL) : NULL;
    if (!own) {
        printf("no device, warnings %d: %s", n_warnings, n_warnings ? first_warning : "none\n");
        return 0;
    }
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, 4);
    struct ggml_tensor * out = ggml_add(w.ctx, a, a);
    const float in[4] = {1, 2, 3, 4};
    float got[4] = {0};
    ggml_build_forward_expand(w.graph, out);
    int supported = 0;
    for (int i = 0; i < 3; i++) { // asked again and again, and for others in the same straits
        supported += ggml_backend_dev_supports_op(dev, out);
        supported += ggml_backend_dev_supports_op(dev, ggml_sqr(w.ctx, a));
    }
    int warnings = n_warnings;
    w.buffer = ggml_backend_alloc_ctx_tensors(w.ctx, own);
    ggml_backend_tensor_set(a, in, 0, sizeof in);
    enum ggml_status st = ggml_backend_graph_compute(own, w.graph);
    ggml_backend_tensor_get(st == GGML_STATUS_SUCCESS ? out : a, got, 0, sizeof got);
    printf("supported %d, status %d, got %g, compiled %d, warnings %d: %s", supported, st, got[3],
           (int) stats_of(dev).kernels_compiled, warnings, warnings ? first_warning : "none\n");
    world_free(&w);
    ggml_backend_free(own);
    return 0;
}

static char program[1024];

static const char * run_child(const char * env, const char * cache) {
    char command[4096];
    snprintf(command, sizeof command, "env %s CANDLE_ROCM_CACHE_DIR='%s' '%s' child %s 2>&1", env,
             cache, program, gpu_arch);
    return child_output(command);
}

static int remove_one(const char * path, const struct stat * info, int kind, struct FTW * at) {
    (void) info, (void) kind, (void) at;
    return remove(path);
}

static const char nowhere[] = "-u ROCM_KERNELS_COMPILER -u CANDLE_ROCM_VERSION PATH=/nonexistent "
                              "ROCM_PATH=/nonexistent";

static void remove_kept(const char * cache, const char * module) {
    char command[256];
    snprintf(command, sizeof command, "rm '%s'/gfx*/%s_*", cache, module);
    assert_int_equal(system(command), 0);
}

static void compiled_once(void ** state) {
    (void) state;
    char cache[] = "/tmp/test-plugin-gpu-XXXXXX";
    assert_non_null(mkdtemp(cache));
    // The third is tried first of all, when the device is made.
    assert_says(run_child("", cache), "supported 6, status 0, got 8, compiled 3, warnings 0");
    assert_says(run_child("", cache), "supported 6, status 0, got 8, compiled 0, warnings 0");
    // What is kept is enough, also where nothing could be compiled any more and nobody tells a
    // version; and where it is not all.
    assert_says(run_child(nowhere, cache), "supported 6, status 0, got 8, compiled 0, warnings 0");
    remove_kept(cache, "set_rows");
    assert_says(run_child(nowhere, cache), "supported 6, status 0, got 8, compiled 0, warnings 0");
    remove_kept(cache, "unary_f32");
    const char * out = run_child(nowhere, cache);
    assert_says(out, "supported 3, status 0, got 8, compiled 0, warnings 1: ggml-hsa: ");
    assert_says(out, "its ops are left to others");
    nftw(cache, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

// Clang and its linker are all that is needed: neither hipcc nor a variable tells a version.
static void clang_alone(void ** state) {
    (void) state;
    char cache[] = "/tmp/test-plugin-gpu-XXXXXX", bin[] = "/tmp/test-plugin-gpu-XXXXXX";
    char command[1024], env[256];
    assert_non_null(mkdtemp(cache));
    assert_non_null(mkdtemp(bin));
    struct hip_toolchain t = {.root = -1};
    hip_toolchain_find(&t, "clang", NULL);
    snprintf(command, sizeof command, "ln -s \"$(realpath '%s')\" '%s/clang++-19'", t.clang, bin);
    hip_toolchain_free(&t);
    assert_int_equal(system(command), 0);
    snprintf(env, sizeof env,
             "-u ROCM_KERNELS_COMPILER -u CANDLE_ROCM_VERSION ROCM_PATH=/nonexistent PATH='%s'",
             bin);
    assert_says(run_child(env, cache), "supported 6, status 0, got 8, compiled 3, warnings 0");
    nftw(cache, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    nftw(bin, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

// A GPU on which nothing can be computed is not offered: one line says why, and the mend.
static void no_kernels(void ** state) {
    (void) state;
    char cache[] = "/tmp/test-plugin-gpu-XXXXXX", env[256];
    assert_non_null(mkdtemp(cache));
    const char * out = run_child(nowhere, cache);
    assert_says(out, "no device, warnings 1: ggml-hsa: a device is left out: AMD ");
    assert_says(out, gpu_arch);
    assert_says(out, "no HIP compiler");
    assert_says(out, "install");
    snprintf(env, sizeof env, "%s CANDLE_ROCM_VERSION=1 ROCM_KERNELS_COMPILER=/bin/false", nowhere);
    out = run_child(env, cache);
    assert_says(out, "no device, warnings 1: ggml-hsa: a device is left out: AMD ");
    assert_says(out, "/bin/false");
    nftw(cache, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int main(int argc, char ** argv) {
    if (argc == 3 && !strcmp(argv[1], "child")) {
        return child(argv[2]);
    }
    gpu_arch = argc > 1 ? argv[1] : gpu_arch;
    if (!gpu_have_compiler()) {
        return skip_say("no clang++-19 or later with its lld to compile GPU kernels with");
    }
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_in_threads),
        cmocka_unit_test(devices),
        cmocka_unit_test(copies_between_all),
        cmocka_unit_test(pieces_of_tensors),
        cmocka_unit_test(graph_in_host_memory),
        cmocka_unit_test(graph_in_both_memories),
        cmocka_unit_test(events),
        cmocka_unit_test(scheduled),
        cmocka_unit_test(offloaded),
        cmocka_unit_test(counters),
        cmocka_unit_test(matrix_instructions),
        cmocka_unit_test(compiled_once),
        cmocka_unit_test(clang_alone),
        cmocka_unit_test(no_kernels),
    };
    return cmocka_run_group_tests(tests, setup, gpu_teardown);
}
