// test-async: ggml's asynchronous copies and events on two emulated GPUs and a NPU. Queues are held
// up by a mark that the test reaches by hand: what must not wait has returned by then, and what was
// sent has not happened yet. Then it has, in the order in which it was sent.
#include "backend/stream.h"
#include "base/cmocka-all.h"
#include "gpu-env.h"
#include "hsa/hsac-impl.h"

#include "ggml-alloc.h"

#include <time.h>
#include <unistd.h>

enum { N = 3000, BYTES = N * sizeof(float) };

static ggml_backend_t streams[3], npu, cpu; // the first two are one GPU's
static char said[512];

static void listen(enum ggml_log_level level, const char * text, void * user) {
    (void) user;
    if (level == GGML_LOG_LEVEL_ERROR) {
        snprintf(said, sizeof said, "%s", text);
    }
}

// ---- tensors ----

struct graph { // y = x + x
    struct ggml_context * ctx;
    struct ggml_tensor *x, *y;
    struct ggml_cgraph * graph;
    ggml_backend_buffer_t buffer;
};

static struct graph graph_in(ggml_backend_buffer_type_t buft) {
    struct graph g = {
        .ctx = ggml_init((struct ggml_init_params){
            .mem_size = 8 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true})};
    g.x = ggml_set_name(ggml_new_tensor_1d(g.ctx, GGML_TYPE_F32, N), "the input");
    g.y = ggml_set_name(ggml_add(g.ctx, g.x, g.x), "the result");
    g.graph = ggml_new_graph(g.ctx);
    ggml_build_forward_expand(g.graph, g.y);
    g.buffer = ggml_backend_alloc_ctx_tensors_from_buft(g.ctx, buft);
    assert_non_null(g.buffer);
    ggml_backend_buffer_clear(g.buffer, 0);
    return g;
}

static struct graph graph_on(ggml_backend_t backend) {
    return graph_in(ggml_backend_get_default_buffer_type(backend));
}

static void graph_free(struct graph * g) {
    ggml_backend_buffer_free(g->buffer);
    ggml_free(g->ctx);
}

static void fill(float * at, float value) {
    for (int i = 0; i < N; i++) {
        at[i] = value;
    }
}

static bool are(const float * at, float value) {
    bool same = true;
    for (int i = 0; i < N; i++) {
        same = same && at[i] == value;
    }
    return same;
}

static bool holds(const struct ggml_tensor * t, float value) { // at this moment
    static float got[N];
    ggml_backend_tensor_get(t, got, 0, BYTES);
    return are(got, value);
}

// Memory of a stream's host type.
static ggml_backend_buffer_t host_of(ggml_backend_t stream) {
    return ggml_backend_buft_alloc_buffer(
        ggml_backend_dev_host_buffer_type(ggml_backend_get_device(stream)), BYTES);
}

// ---- holding a queue up ----

static struct hsac_queue * queue_of(ggml_backend_t stream) {
    return ((struct hsa_stream *) stream)->queue;
}

static struct hsac_mark * hold_up(ggml_backend_t stream) {
    struct hsac_agent * a = queue_of(stream)->agent;
    struct hsac_mark * m = calloc(1, sizeof *m);
    m->agent = a;
    m->refs = 1;
    assert_int_equal(a->h->api.hsa_signal_create(1, 0, NULL, &m->signal), HSA_STATUS_SUCCESS);
    assert_int_equal(hsac_queue_after(queue_of(stream), m, NULL), ST_OK);
    alarm(60); // who waits for it nevertheless waits for ever
    return m;
}

static void moment(void) {
    const struct timespec t = {.tv_nsec = 2000000};
    nanosleep(&t, NULL);
}

static void let_go(struct hsac_mark * m) {
    m->agent->h->api.hsa_signal_store_screlease(m->signal, 0);
    hsac_mark_free(m);
    alarm(0);
}

// ---- tests ----

static void what_devices_say(void ** state) {
    (void) state;
    ggml_backend_t all[] = {streams[0], streams[2], npu};
    for (int i = 0; i < 3; i++) {
        struct ggml_backend_dev_props props;
        ggml_backend_dev_get_props(ggml_backend_get_device(all[i]), &props);
        assert_true(props.caps.events);
        // Several graphs under way at once: they are not.
        assert_false(props.caps.async);
    }
}

// From and to memory of the program, and of the host type.
static void to_and_from(void ** state) {
    (void) state;
    struct graph g = graph_on(streams[0]);
    ggml_backend_buffer_t buffer = host_of(streams[0]);
    float *host = ggml_backend_buffer_get_base(buffer), mine[N];

    struct hsac_mark * gate = hold_up(streams[0]);
    fill(host, 3);
    ggml_backend_tensor_set_async(streams[0], g.x, host, 0, BYTES);
    moment();
    assert_true(holds(g.x, 0));
    let_go(gate);
    ggml_backend_synchronize(streams[0]);
    assert_true(holds(g.x, 3));

    gate = hold_up(streams[0]);
    fill(mine, 4);
    ggml_backend_tensor_set_async(streams[0], g.x, mine, 0, BYTES);
    fill(mine, 99); // it is ours again
    ggml_backend_tensor_get_async(streams[0], g.x, host, 0, BYTES);
    moment();
    assert_true(holds(g.x, 3) && are(host, 3));
    let_go(gate);
    ggml_backend_synchronize(streams[0]);
    assert_true(are(host, 4));

    // Into memory of the program it is there on return.
    ggml_backend_tensor_set_async(streams[0], g.x, host, 4, BYTES - 4);
    ggml_backend_tensor_get_async(streams[0], g.x, mine, 0, BYTES);
    assert_true(are(mine, 4));
    ggml_backend_buffer_free(buffer);
    graph_free(&g);
}

// Copy, kernel, copy; again and again without a wait of ours.
static void around_graphs(void ** state) {
    (void) state;
    struct graph g = graph_on(streams[0]);
    ggml_backend_buffer_t in = host_of(streams[0]), out = host_of(streams[0]);
    float *from = ggml_backend_buffer_get_base(in), *to = ggml_backend_buffer_get_base(out);
    for (int round = 1; round < 20; round++) {
        float mine[N];
        fill(round % 2 ? mine : from, (float) round);
        ggml_backend_tensor_set_async(streams[0], g.x, round % 2 ? mine : from, 0, BYTES);
        assert_int_equal(ggml_backend_graph_compute_async(streams[0], g.graph),
                         GGML_STATUS_SUCCESS);
        ggml_backend_tensor_get_async(streams[0], g.y, to, 0, BYTES);
        ggml_backend_tensor_memset(g.x, 0, 0, 4);
        ggml_backend_synchronize(streams[0]);
        assert_true(are(to, 2 * (float) round));
    }
    ggml_backend_buffer_free(in);
    ggml_backend_buffer_free(out);
    graph_free(&g);
}

// One stream to another, of the same GPU and of the other one.
static void between_streams(void ** state) {
    (void) state;
    for (int k = 1; k < 3; k++) {
        struct graph a = graph_on(streams[0]), b = graph_on(streams[k]);
        float mine[N];
        fill(mine, 7);
        struct hsac_mark * gate = hold_up(streams[0]);
        ggml_backend_tensor_set_async(streams[0], a.x, mine, 0, BYTES);
        ggml_backend_tensor_copy_async(streams[0], streams[k], a.x, b.x);
        fill(mine, 8); // which the copy must not see
        ggml_backend_tensor_set_async(streams[0], a.x, mine, 0, BYTES);
        moment();
        assert_true(holds(a.x, 0) && holds(b.x, 0));
        let_go(gate);
        assert_int_equal(ggml_backend_graph_compute(streams[k], b.graph), GGML_STATUS_SUCCESS);
        assert_true(holds(b.x, 7) && holds(b.y, 14));
        ggml_backend_synchronize(streams[0]);
        assert_true(holds(a.x, 8));
        graph_free(&a);
        graph_free(&b);
    }
}

// What cannot go through a queue goes as it ever did: to and from a NPU, and onto itself.
static void the_other_ways(void ** state) {
    (void) state;
    struct graph a = graph_on(streams[0]), b = graph_on(npu);
    float mine[N];
    fill(mine, 5);
    ggml_backend_tensor_set_async(streams[0], a.x, mine, 0, BYTES);
    ggml_backend_tensor_copy_async(streams[0], npu, a.x, b.x);
    assert_true(holds(b.x, 5));
    fill(mine, 6);
    ggml_backend_tensor_set_async(npu, b.x, mine, 0, BYTES);
    ggml_backend_tensor_copy_async(npu, streams[0], b.x, a.x);
    ggml_backend_tensor_get_async(streams[0], a.x, mine, 0, BYTES);
    assert_true(are(mine, 6));
    ggml_backend_tensor_copy_async(streams[0], streams[1], a.x, a.x);
    assert_true(holds(a.x, 6));
    graph_free(&a);
    graph_free(&b);
}

// From the CPU backend, which may write over it at once; in its own memory and in the GPU's host
// type.
static void from_the_cpu(void ** state) {
    (void) state;
    ggml_backend_buffer_type_t bufts[] = {
        ggml_backend_get_default_buffer_type(cpu),
        ggml_backend_dev_host_buffer_type(ggml_backend_get_device(streams[0]))};
    for (int i = 0; i < 2; i++) {
        struct graph a = graph_in(bufts[i]), b = graph_on(streams[0]);
        fill(a.x->data, 9);
        struct hsac_mark * gate = hold_up(streams[0]);
        ggml_backend_tensor_copy_async(cpu, streams[0], a.x, b.x);
        fill(a.x->data, 10);
        moment();
        assert_true(holds(b.x, 0));
        let_go(gate);
        ggml_backend_synchronize(streams[0]);
        assert_true(holds(b.x, 9));
        graph_free(&a);
        graph_free(&b);
    }
}

static void events(void ** state) {
    (void) state;
    for (int k = 1; k < 3; k++) {
        struct graph a = graph_on(streams[0]), b = graph_on(streams[k]);
        ggml_backend_event_t event = ggml_backend_event_new(ggml_backend_get_device(streams[0]));
        ggml_backend_buffer_t buffer = host_of(streams[k]);
        float mine[N], *host = ggml_backend_buffer_get_base(buffer);
        ggml_backend_event_synchronize(event); // never recorded
        for (int round = 1; round < 4; round++) {
            fill(mine, (float) round);
            fill(host, 50);
            ggml_backend_tensor_memset(b.x, 0, 0, BYTES);
            struct hsac_mark * gate = hold_up(streams[0]);
            ggml_backend_tensor_set_async(streams[0], a.x, mine, 0, BYTES);
            ggml_backend_event_record(event, streams[0]);
            ggml_backend_event_wait(streams[k], event);
            ggml_backend_tensor_set_async(streams[k], b.x, mine, 0, BYTES);
            ggml_backend_tensor_get_async(streams[k], b.x, host, 0, BYTES);
            moment();
            assert_true(holds(b.x, 0) && are(host, 50)); // the other waits as well
            let_go(gate);
            ggml_backend_event_synchronize(event);
            assert_true(holds(a.x, (float) round));
            ggml_backend_event_record(event, streams[k]);
            ggml_backend_event_synchronize(event);
            assert_true(are(host, (float) round));
            ggml_backend_event_record(event, npu);
            ggml_backend_event_wait(npu, event);
        }
        ggml_backend_synchronize(streams[k]);
        ggml_backend_synchronize(streams[0]);
        ggml_backend_event_free(event);
        ggml_backend_buffer_free(buffer);
        graph_free(&a);
        graph_free(&b);
    }
}

// ---- errors in the middle ----

static struct hsac_api real;

static hsa_status_t refused(void * to, hsa_agent_t to_agent, const void * from,
                            hsa_agent_t from_agent, size_t size, uint32_t n_deps,
                            const hsa_signal_t * deps, hsa_signal_t completion) {
    (void) to, (void) to_agent, (void) from, (void) from_agent, (void) size, (void) n_deps;
    (void) deps, (void) completion;
    return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
}

static hsa_status_t failed(void * to, hsa_agent_t to_agent, const void * from,
                           hsa_agent_t from_agent, size_t size, uint32_t n_deps,
                           const hsa_signal_t * deps, hsa_signal_t completion) {
    (void) to, (void) to_agent, (void) from, (void) from_agent, (void) size, (void) n_deps;
    (void) deps;
    real.hsa_signal_store_screlease(completion, -1);
    return HSA_STATUS_SUCCESS;
}

static const struct {
    __typeof__(hsa_amd_memory_async_copy) * copy;
    bool other;        // the graph is the other GPU's, which was given a copy
    const char * says; // of the graph that uses the bytes
} mishaps[] = {
    {refused, false, "could not be written"},
    {failed, false, "a copy failed"},
    {refused, true, "could not be written"},
    {failed, true, "a copy failed"},
};

// The graph that uses what was not copied fails, and says why. The next one, with bytes that were,
// does not.
static void mishap(void ** state) {
    (void) state;
    struct hsac_api * api = &queue_of(streams[0])->agent->h->api;
    for (size_t i = 0; i < sizeof mishaps / sizeof mishaps[0]; i++) {
        ggml_backend_t then = streams[mishaps[i].other ? 2 : 0];
        struct graph a = graph_on(streams[0]), b = graph_on(then);
        struct graph * used = mishaps[i].other ? &b : &a;
        float mine[N];
        fill(mine, 1);
        alarm(60);
        ggml_backend_tensor_set_async(streams[0], a.x, mine, 0, BYTES);
        ggml_backend_synchronize(streams[0]);
        real = *api;
        api->hsa_amd_memory_async_copy = mishaps[i].copy;
        ggml_backend_tensor_set_async(streams[0], a.x, mine, 0, BYTES);
        *api = real;
        if (mishaps[i].other) {
            ggml_backend_tensor_copy_async(streams[0], then, a.x, b.x);
        }
        said[0] = 0;
        assert_int_equal(ggml_backend_graph_compute(then, used->graph), GGML_STATUS_FAILED);
        if (!strstr(said, mishaps[i].says)) {
            fail_msg("%zu: '%s' was said, without '%s'", i, said, mishaps[i].says);
        }
        ggml_backend_synchronize(streams[0]);
        assert_int_equal(ggml_backend_graph_compute(then, used->graph), GGML_STATUS_FAILED);
        fill(mine, 2);
        ggml_backend_tensor_set_async(streams[0], a.x, mine, 0, BYTES);
        if (mishaps[i].other) {
            ggml_backend_tensor_copy_async(streams[0], then, a.x, b.x);
        }
        assert_int_equal(ggml_backend_graph_compute(then, used->graph), GGML_STATUS_SUCCESS);
        assert_true(holds(used->y, 4));
        ggml_backend_synchronize(streams[0]);
        alarm(0);
        graph_free(&a);
        graph_free(&b);
    }
}

static int load(void ** state) {
    (void) state;
    gpu_env("aie2,gfx1100,gfx90a");
    setenv("GGML_HSA_EMU_STRICT", "1", 1); // copies are done by another thread, in a while
    ggml_backend_load(CPU_BACKEND);
    ggml_backend_reg_t reg = ggml_backend_hsa_reg();
    if (!reg || ggml_backend_reg_dev_count(reg) != 3) {
        return -1;
    }
    npu = ggml_backend_dev_init(ggml_backend_reg_dev_get(reg, 0), NULL);
    streams[0] = ggml_backend_dev_init(ggml_backend_reg_dev_get(reg, 1), NULL);
    streams[1] = ggml_backend_dev_init(ggml_backend_reg_dev_get(reg, 1), NULL);
    streams[2] = ggml_backend_dev_init(ggml_backend_reg_dev_get(reg, 2), NULL);
    cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    ggml_log_set(listen, NULL);
    return npu && streams[0] && streams[1] && streams[2] && cpu ? 0 : -1;
}

static int unload(void ** state) {
    (void) state;
    for (int i = 0; i < 3; i++) {
        ggml_backend_free(streams[i]);
    }
    ggml_backend_free(npu);
    ggml_backend_free(cpu);
    return 0;
}

int main(void) {
    if (!gpu_have_compiler()) {
        return skip_say("no clang++-19 or later with its lld to compile GPU kernels with");
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_devices_say), cmocka_unit_test(to_and_from),
        cmocka_unit_test(around_graphs),    cmocka_unit_test(between_streams),
        cmocka_unit_test(the_other_ways),   cmocka_unit_test(from_the_cpu),
        cmocka_unit_test(events),           cmocka_unit_test(mishap),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
