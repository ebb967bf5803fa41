// test-lost: bytes that could not be brought to a GPU or back for want of memory. ggml's set_tensor
// and get_tensor have no status, so the next graph that uses them has one; other graphs do not
// mind.
#include "backend/backend.h"
#include "base/cmocka-all.h"
#include "gpu-env.h"
#include "soak/fail.h"

#include <dlfcn.h>

#include "ggml-alloc.h"

enum { N = 300 };

static ggml_backend_t stream;
static char said[512];

static void listen(enum ggml_log_level level, const char * text, void * user) {
    (void) user;
    if (level == GGML_LOG_LEVEL_ERROR) {
        snprintf(said, sizeof said, "%s", text);
    }
}

struct graph {
    struct ggml_context * ctx;
    struct ggml_tensor *x, *y;
    struct ggml_cgraph * graph;
    ggml_backend_buffer_t buffer;
};

static struct graph graph_new(void) {
    struct graph g = {
        .ctx = ggml_init((struct ggml_init_params){
            .mem_size = 8 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true})};
    g.x = ggml_set_name(ggml_new_tensor_1d(g.ctx, GGML_TYPE_F32, N), "the input");
    g.y = ggml_set_name(ggml_add(g.ctx, g.x, g.x), "the result");
    g.graph = ggml_new_graph(g.ctx);
    ggml_build_forward_expand(g.graph, g.y);
    g.buffer = ggml_backend_alloc_ctx_tensors(g.ctx, stream);
    assert_non_null(g.buffer);
    return g;
}

static void graph_free(struct graph * g) {
    ggml_backend_buffer_free(g->buffer);
    ggml_free(g->ctx);
}

static void set(struct graph * g, float value) {
    float values[N];
    for (int i = 0; i < N; i++) {
        values[i] = value;
    }
    ggml_backend_tensor_set(g->x, values, 0, sizeof values);
}

static void fill(struct graph * g, float value) {
    (void) value;
    ggml_backend_tensor_memset(g->x, 0, 0, N * sizeof(float));
}

static void clear(struct graph * g, float value) {
    (void) value;
    ggml_backend_buffer_clear(g->buffer, 0);
}

static void get(struct graph * g, float value) {
    float values[N];
    (void) value;
    ggml_backend_tensor_get(g->y, values, 0, sizeof values);
}

static void check(struct graph * g, float want) {
    float values[N];
    assert_int_equal(ggml_backend_graph_compute(stream, g->graph), GGML_STATUS_SUCCESS);
    ggml_backend_tensor_get(g->y, values, 0, sizeof values);
    for (int i = 0; i < N; i++) {
        assert_true(values[i] == want);
    }
}

static void check_fails(struct graph * g, const char * what, const char * of) {
    said[0] = 0;
    assert_int_equal(ggml_backend_graph_compute(stream, g->graph), GGML_STATUS_FAILED);
    if (!strstr(said, what) || !strstr(said, of)) {
        fail_msg("'%s' was said, without '%s' or '%s'", said, what, of);
    }
}

static void without_memory(void (*call)(struct graph *, float), struct graph * g) {
    said[0] = 0;
    fail_begin(FAIL_ON, 1);
    call(g, 7);
    fail_end();
    assert_true(fail_failed() > 0);
    assert_true(said[0]);
}

// ---- tests ----

static void not_written(void ** state) {
    (void) state;
    void (*const calls[])(struct graph *, float) = {set, fill, clear};
    for (int i = 0; i < 3; i++) {
        struct graph g = graph_new(), other = graph_new();
        set(&g, 1);
        set(&other, 2);
        check(&g, 2);
        without_memory(calls[i], &g);
        check(&other, 4);
        check_fails(&g, "could not be written", "the input");
        check_fails(&g, "could not be written", "the input"); // and it still is not
        set(&g, 3);
        check(&g, 6);
        graph_free(&g);
        graph_free(&other);
    }
}

static void not_read(void ** state) {
    (void) state;
    struct graph g = graph_new();
    set(&g, 1);
    check(&g, 2);
    without_memory(get, &g);
    check_fails(&g, "could not be read", "the result");
    check(&g, 2); // who was told once knows
    graph_free(&g);
}

// What was lost in a buffer is not lost in the next one that lies there.
static void freed(void ** state) {
    (void) state;
    struct graph g = graph_new();
    const void * place = g.x->data;
    without_memory(set, &g);
    graph_free(&g);
    g = graph_new();
    assert_ptr_equal(g.x->data, place); // else it shows nothing
    assert_int_equal(ggml_backend_graph_compute(stream, g.graph), GGML_STATUS_SUCCESS);
    graph_free(&g);
}

// Part of a tensor, more often than there is room to note it.
static void many_parts(void ** state) {
    (void) state;
    struct graph g = graph_new();
    float value = 1;
    set(&g, 1);
    fail_begin(FAIL_ON, 1);
    for (size_t i = 0; i < 60; i += 2) {
        ggml_backend_tensor_set(g.x, &value, i * sizeof value, sizeof value);
    }
    fail_end();
    check_fails(&g, "could not be written", "the input");
    for (size_t i = 0; i < 58; i++) {
        ggml_backend_tensor_set(g.x, &value, i * sizeof value, sizeof value);
    }
    check_fails(&g, "could not be written", "the input"); // one is left
    ggml_backend_tensor_set(g.x, &value, 58 * sizeof value, sizeof value);
    check(&g, 2);
    graph_free(&g);
}

static int load(void ** state) {
    (void) state;
    gpu_env("gfx1100");
    setenv("GGML_HSA_EMU_STRICT", "1", 1); // copies take memory of the runtime, too
    ggml_backend_reg_t reg = ggml_backend_hsa_reg();
    ggml_backend_dev_t dev = reg ? ggml_backend_reg_dev_get(reg, 0) : NULL;
    stream = dev ? ggml_backend_dev_init(dev, NULL) : NULL;
    ggml_log_set(listen, NULL);
    fail_learn(true);
    return stream ? 0 : -1;
}

static int unload(void ** state) {
    (void) state;
    ggml_backend_free(stream);
    return 0;
}

int main(void) {
    if (!gpu_have_compiler()) {
        return skip_say("no clang++-19 or later with its lld to compile GPU kernels with");
    }
#ifdef FAIL_WRAPS
    return skip_say("memory of the runtime runs out in plain builds only");
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(not_written),
        cmocka_unit_test(not_read),
        cmocka_unit_test(freed),
        cmocka_unit_test(many_parts),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
