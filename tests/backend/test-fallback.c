// test-fallback <mode> <device>: nodes that no kernel computes, on the stream's own CPU backend, in
// graphs that go to and fro between device and CPU. "on" is GGML_HSA_HOST_FALLBACK=1: they are
// promised; "unset": they are computed, but promised only where nobody else could; "off": they are
// refused. The device is a NPU, whose memory the CPU sees, or a GPU, whose memory it does not see.
// Expected values come from a CPU backend of ours, over the same graph.
#include "base/cmocka-all.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-hsa.h"
#include "gpu-env.h"

#include <math.h>
#include <pthread.h>

static const char * arch = "aie2";
static ggml_backend_reg_t reg;
static ggml_backend_dev_t device, cpu;

static int load(void ** state) {
    (void) state;
    reg = ggml_backend_load(PLUGIN);
    device = reg ? ggml_backend_dev_by_name("HSA0") : NULL;
    return device ? 0 : -1;
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
    assert_true(get_stats(device, &stats));
    return stats.cpu_nodes;
}

// ---- graphs: a (and b where it is used) go in, the last tensor comes out ----

enum { W = 256, H = 7 }; // W: a block of q4_K, which no device attends to

typedef struct ggml_tensor * (*build)(struct ggml_context * ctx, struct ggml_tensor * a,
                                      struct ggml_tensor * b);

// What elements are moved by, in both dimensions.
struct by {
    int columns, rows;
};

// A function of the host is the CPU's on every device, however many kernels there will be.
static void roll_on_host(struct ggml_tensor * y, const struct ggml_tensor * x, int ith, int nth,
                         void * user) {
    const struct by * by = user;
    (void) nth;
    for (int64_t i = 0; ith == 0 && i < ggml_nelements(y); i++) {
        int64_t c = i % y->ne[0], r = i / y->ne[0];
        int64_t from_c = (c + y->ne[0] - by->columns) % y->ne[0];
        int64_t from_r = (r + y->ne[1] - by->rows) % y->ne[1];
        memcpy((char *) y->data + (size_t) c * y->nb[0] + (size_t) r * y->nb[1],
               (const char *) x->data + (size_t) from_c * x->nb[0] + (size_t) from_r * x->nb[1],
               sizeof(float));
    }
}

static struct ggml_tensor * roll(struct ggml_context * ctx, struct ggml_tensor * x, int columns,
                                 int rows) {
    static struct by places[16][8]; // they outlive the graph
    places[columns][rows] = (struct by){columns, rows};
    return ggml_map_custom1(ctx, x, roll_on_host, 1, &places[columns][rows]);
}

// roll has no kernel; ADD has one. NPU: the device.
static struct ggml_tensor * to_and_fro_graph(struct ggml_context * ctx, struct ggml_tensor * a,
                                             struct ggml_tensor * b) {
    struct ggml_tensor * t = ggml_add(ctx, a, b);                // NPU
    t = roll(ctx, roll(ctx, t, 9, 0), 0, 2);                     // CPU, CPU
    t = ggml_cont(ctx, ggml_transpose(ctx, t));                  // host
    t = ggml_cont(ctx, ggml_transpose(ctx, roll(ctx, t, 2, 5))); // CPU, host
    return roll(ctx, ggml_add(ctx, t, t), 3, 0);                 // NPU, CPU
}

static struct ggml_tensor * one_of_each(struct ggml_context * ctx, struct ggml_tensor * a,
                                        struct ggml_tensor * b) {
    return roll(ctx, ggml_add(ctx, b, a), 1, 1);
}

// A view with gaps is read, and written in place: what is between stays as it is.
static struct ggml_tensor * in_place(struct ggml_context * ctx, struct ggml_tensor * a,
                                     struct ggml_tensor * b) {
    struct ggml_tensor * t = ggml_add(ctx, a, b);
    struct ggml_tensor * part = ggml_view_2d(ctx, t, 40, H, t->nb[1], 7 * sizeof(float));
    part = roll(ctx, part, 11, 2);
    t = ggml_set_2d_inplace(ctx, t, part, t->nb[1], 30 * sizeof(float));
    return ggml_add(ctx, t, b);
}

// The way of llama.cpp's cache, with a type that no core of an NPU writes: the CPU's code for it is
// no node of the fallback, nor is a GPU's kernel, and so what is written comes from one.
static struct ggml_tensor * cache(struct ggml_context * ctx, struct ggml_tensor * a,
                                  struct ggml_tensor * b) {
    struct ggml_tensor * ids = ggml_cast(ctx, ggml_arange(ctx, 0, H, 1), GGML_TYPE_I32);
    struct ggml_tensor * kept = ggml_new_tensor_2d(ctx, GGML_TYPE_Q4_K, W, H);
    struct ggml_tensor * t = ggml_set_rows(ctx, kept, roll(ctx, ggml_add(ctx, a, b), 4, 1), ids);
    return ggml_add(ctx, ggml_cast(ctx, t, GGML_TYPE_F32), a);
}

// Keys of numbers of two bits, which no core unpacks, are the CPU's.
static struct ggml_tensor * attention(struct ggml_context * ctx, struct ggml_tensor * a,
                                      struct ggml_tensor * b) {
    struct ggml_tensor * k = ggml_cast(ctx, b, GGML_TYPE_TQ2_0);
    struct ggml_tensor * t = ggml_flash_attn_ext(ctx, a, k, k, NULL, 0.1f, 0, 0);
    return ggml_add(ctx, t, t);
}

// Writes its weights and, without a word in the graph, the moments, which are read behind it.
static struct ggml_tensor * training(struct ggml_context * ctx, struct ggml_tensor * a,
                                     struct ggml_tensor * b) {
    struct ggml_tensor *m = ggml_scale(ctx, b, 0.5f), *v = ggml_sqr(ctx, b);
    struct ggml_tensor * params = ggml_arange(ctx, 0.1f, 0.75f, 0.1f);
    ggml_set_param(a);
    struct ggml_tensor * t = ggml_opt_step_adamw(ctx, a, b, m, v, params);
    return ggml_add(ctx, t, ggml_add(ctx, roll(ctx, m, 1, 0), v));
}

// As long as several CPU graphs.
static struct ggml_tensor * chain(struct ggml_context * ctx, struct ggml_tensor * a,
                                  struct ggml_tensor * b) {
    struct ggml_tensor * t = ggml_add(ctx, a, b);
    for (int i = 0; i < 1300; i++) {
        t = roll(ctx, t, 1, i % 3);
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
    bool yes = ggml_backend_dev_supports_op(device, graph_of(ctx, a, a));
    ggml_free(ctx);
    return yes;
}

// ---- with it ----

static void without_a_cpu_backend(void ** state) { // runs first: ours is not loaded yet
    (void) state;
    assert_null(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
    ggml_backend_t stream = ggml_backend_dev_init(device, NULL);
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
    ggml_backend_t stream = ggml_backend_dev_init(device, NULL), reference = new_reference();
    uint64_t before = cpu_nodes();
    assert_true(agree(stream, reference, to_and_fro_graph, 7));
    assert_int_equal(cpu_nodes() - before, 4); // the sums and the copies are not among them
    before = cpu_nodes();
    assert_true(agree(stream, reference, one_of_each, 8));
    assert_int_equal(cpu_nodes() - before, 1);
    assert_true(agree(stream, reference, chain, 9));
    static const build graphs[] = {in_place, cache, attention, training};
    for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++) {
        before = cpu_nodes();
        if (!agree(stream, reference, graphs[i], 10 + (uint32_t) i)) {
            fail_msg("graph %zu", i);
        }
        assert_true(cpu_nodes() > before);
    }
    ggml_backend_free(stream);
    ggml_backend_free(reference);
}

static void not_even_on_the_cpu(void ** state) {
    (void) state;
    ggml_backend_t stream = ggml_backend_dev_init(device, NULL), reference = new_reference();
    float out[W * H];
    assert_false(supported(impossible));
    assert_int_equal(compute(stream, impossible, 3, out), GGML_STATUS_FAILED);
    assert_true(agree(stream, reference, one_of_each, 4)); // and the stream goes on
    ggml_backend_free(stream);
    ggml_backend_free(reference);
}

static void * many(void * user) {
    uint32_t seed = (uint32_t) (uintptr_t) user;
    ggml_backend_t stream = ggml_backend_dev_init(device, NULL), reference = new_reference();
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

// ---- neither nor ----

// Computed, for programs that do not ask; but a scheduler gives the node to the CPU.
static void not_promised(void ** state) {
    (void) state;
    assert_null(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
    ggml_backend_t stream = ggml_backend_dev_init(device, NULL);
    float out[W * H];
    assert_int_equal(compute(stream, one_of_each, 1, out), GGML_STATUS_FAILED);
    ggml_backend_load(CPU_BACKEND);
    cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    assert_false(supported(one_of_each));
    assert_int_equal(compute(stream, one_of_each, 1, out), GGML_STATUS_SUCCESS);
    ggml_backend_free(stream);
}

// A tensor that lies with us already, as llama.cpp's cache does: nobody else can write it, and
// ggml's scheduler ends the process where we would not.
static void promised_where_nobody_else_can(void ** state) {
    (void) state;
    ggml_backend_t backends[] = {ggml_backend_dev_init(device, NULL), new_reference()};
    ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, 2, 64, false, true);
    struct ggml_init_params params = {
        .mem_size = ggml_tensor_overhead() * 64 + ggml_graph_overhead(), .no_alloc = true};
    struct ggml_context *ctx = ggml_init(params), *fixed = ggml_init(params);
    struct ggml_tensor * kept = ggml_new_tensor_2d(fixed, GGML_TYPE_Q4_K, W, H);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(fixed, backends[0]);
    assert_non_null(buffer);
    ggml_backend_buffer_clear(buffer, 0);
    struct ggml_tensor * a = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, W, H);
    struct ggml_tensor * ids = ggml_new_tensor_1d(ctx, GGML_TYPE_I64, H);
    ggml_set_input(a);
    ggml_set_input(ids);
    struct ggml_tensor * out = ggml_cast(ctx, ggml_set_rows(ctx, kept, a, ids), GGML_TYPE_F32);
    ggml_set_output(out);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, out);
    assert_true(ggml_backend_dev_supports_op(device, out->src[0]));
    // llama.cpp asks with a buffer of no bytes first, to see how much fits.
    ggml_backend_buffer_t none =
        ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(device), 0);
    struct ggml_tensor * only_asked = ggml_new_tensor_2d(ctx, GGML_TYPE_Q4_K, W, H);
    only_asked->buffer = none;
    assert_true(ggml_backend_dev_supports_op(device, ggml_set_rows(ctx, only_asked, a, ids)));
    ggml_backend_buffer_free(none);
    assert_true(ggml_backend_sched_alloc_graph(sched, graph));
    float in[W * H], got[W * H];
    int64_t rows[H];
    for (int i = 0; i < W * H; i++) {
        in[i] = (float) (i % 16 - i / W); // sixteen values of q4_K, other ones in each row
    }
    for (int i = 0; i < H; i++) {
        rows[i] = H - 1 - i;
    }
    ggml_backend_tensor_set(a, in, 0, sizeof in);
    ggml_backend_tensor_set(ids, rows, 0, sizeof rows);
    assert_int_equal(ggml_backend_sched_graph_compute(sched, graph), GGML_STATUS_SUCCESS);
    ggml_backend_tensor_get(out, got, 0, sizeof got);
    for (int i = 0; i < W * H; i++) {
        assert_true(fabsf(got[(H - 1 - i / W) * W + i % W] - in[i]) <= 0.25f);
    }
    ggml_backend_sched_free(sched);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    ggml_free(fixed);
    ggml_backend_free(backends[0]);
    ggml_backend_free(backends[1]);
}

// ---- without it ----

static void refused(void ** state) {
    (void) state;
    ggml_backend_load(CPU_BACKEND);
    ggml_backend_t stream = ggml_backend_dev_init(device, NULL);
    float out[W * H];
    assert_false(supported(one_of_each));
    assert_int_equal(compute(stream, one_of_each, 1, out), GGML_STATUS_FAILED);
    assert_int_equal(cpu_nodes(), 0);
    ggml_backend_free(stream);
}

// Nodes as no constructor of ggml makes them: of every op, with some of their sources missing. They
// are refused, and nobody looks for what is not there.
static void sources_missing(void ** state) {
    (void) state;
    assert_non_null(cpu);
    struct ggml_context * ctx = ggml_init(
        (struct ggml_init_params){.mem_size = 16 * ggml_tensor_overhead(), .no_alloc = true});
    struct ggml_tensor * source = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, W, H);
    int with_all = 0;
    for (int op = 0; op <= GGML_OP_COUNT; op++) {
        bool made_of_nothing = op == GGML_OP_NONE || op == GGML_OP_RESHAPE || op == GGML_OP_VIEW ||
                               op == GGML_OP_PERMUTE || op == GGML_OP_TRANSPOSE ||
                               op == GGML_OP_ARANGE || op == GGML_OP_CUSTOM;
        for (unsigned mask = 0; mask < 1 << 7; mask++) {
            struct ggml_tensor node = *source;
            node.op = (enum ggml_op) op;
            for (int i = 0; i < 7; i++) {
                node.src[i] = mask >> i & 1 ? source : NULL;
            }
            bool yes = ggml_backend_dev_supports_op(device, &node);
            if (yes && !(mask & 1) && !made_of_nothing) {
                fail_msg("%s is promised without its first source", ggml_op_name(node.op));
            }
            with_all += yes && mask + 1 == 1 << 7;
        }
    }
    assert_true(with_all > 60); // those that have them are
    // Two of which ggml's CPU backend reads more than the first.
    static const struct {
        enum ggml_op op;
        unsigned has; // all of them are wanted
    } rows[] = {{GGML_OP_OUT_PROD, 3}, {GGML_OP_SSM_SCAN, 127}, {GGML_OP_SOFT_MAX_BACK, 3}};
    for (int r = 0; r < 3; r++) {
        for (unsigned mask = 0; mask < 1 << 7; mask++) {
            struct ggml_tensor node = *source;
            node.op = rows[r].op;
            for (int i = 0; i < 7; i++) {
                node.src[i] = mask >> i & 1 ? source : NULL;
            }
            if ((mask & rows[r].has) != rows[r].has) {
                assert_false(ggml_backend_dev_supports_op(device, &node));
            }
        }
    }
    ggml_free(ctx);
}

int main(int argc, char ** argv) {
    const struct CMUnitTest with[] = {
        cmocka_unit_test(without_a_cpu_backend), cmocka_unit_test(to_and_fro),
        cmocka_unit_test(not_even_on_the_cpu),   cmocka_unit_test(sources_missing),
        cmocka_unit_test(streams_at_once),
    };
    const struct CMUnitTest unset[] = {
        cmocka_unit_test(not_promised),
        cmocka_unit_test(promised_where_nobody_else_can),
        cmocka_unit_test(to_and_fro),
    };
    const struct CMUnitTest without[] = {cmocka_unit_test(refused)};
    const char * mode = argc > 1 ? argv[1] : "on";
    arch = argc > 2 ? argv[2] : arch;
    if (!strncmp(arch, "gfx", 3) && !gpu_have_compiler()) {
        return skip_say("no clang++-19 or later with its lld to compile GPU kernels with");
    }
    gpu_env(arch);
    if (strcmp(mode, "unset")) {
        setenv("GGML_HSA_HOST_FALLBACK", !strcmp(mode, "off") ? "0" : "Yes", 1);
    }
    return !strcmp(mode, "off")     ? cmocka_run_group_tests(without, load, NULL)
           : !strcmp(mode, "unset") ? cmocka_run_group_tests(unset, load, NULL)
                                    : cmocka_run_group_tests(with, load, NULL);
}
