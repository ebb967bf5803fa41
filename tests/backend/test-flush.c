// test-flush: each flush that the backend needs, left out. The NPU is strict and sees memory behind
// the CPU's caches; a mistake is planted by a client that does not flush while a certain thing is
// done, and what the graphs compute is then wrong, or they fail. Without a mistake all is right.
// Each mistake has a process of its own: a device is opened once.
#include "backend/backend.h"
#include "base/cmocka-all.h"

#include "ggml-alloc.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 64, ROWS = 32 };

enum phase { ELSEWHERE, ALLOC, SET, FIRST, GET, AGAIN, HOST, CPU, COPY, SHARED, AT_END };
enum { BEGIN = 1, END = 2 };
enum where { DATA, CODE, ANYWHERE };

static const struct mistake {
    const char * name;
    enum phase phase;
    int calls; // that are left out
    enum where where;
} mistakes[] = {
    {"none", ELSEWHERE, 0, ANYWHERE},
    {"a fresh buffer", ALLOC, END, ANYWHERE},
    {"after set_tensor", SET, END, ANYWHERE},
    {"code that was uploaded", FIRST, END, CODE},
    {"before get_tensor", GET, BEGIN, ANYWHERE},
    {"a joined stream that was aimed anew", AGAIN, END, CODE},
    {"before the host reads what a kernel wrote", HOST, BEGIN, DATA},
    {"after the host wrote what a kernel reads", HOST, END, DATA},
    {"before the CPU backend reads", CPU, BEGIN, DATA},
    {"after the CPU backend wrote", CPU, END, DATA},
    {"before a tensor is copied", COPY, BEGIN, DATA},
    {"after a tensor was copied", COPY, END, DATA},
    {"host memory before a kernel reads it", SHARED, END, DATA},
    {"host memory before a program reads it", AT_END, BEGIN, DATA},
};

static const struct mistake * planted;
static enum phase phase;
static const char *data_from, *data_to; // of the buffers in use
static int left_out;

static bool leaves_out(int call, const void * at) {
    bool data = (const char *) at >= data_from && (const char *) at < data_to;
    bool here = planted->where == ANYWHERE || data == (planted->where == DATA);
    bool out = phase == planted->phase && planted->calls & call && here;
    left_out += out;
    return out;
}

void __real_hsac_host_begin(struct hsac_agent * a, const void * at, size_t size);
void __real_hsac_host_end(struct hsac_agent * a, const void * at, size_t size);
void __wrap_hsac_host_begin(struct hsac_agent * a, const void * at, size_t size);
void __wrap_hsac_host_end(struct hsac_agent * a, const void * at, size_t size);

void __wrap_hsac_host_begin(struct hsac_agent * a, const void * at, size_t size) {
    if (!leaves_out(BEGIN, at)) {
        __real_hsac_host_begin(a, at, size);
    }
}

void __wrap_hsac_host_end(struct hsac_agent * a, const void * at, size_t size) {
    if (!leaves_out(END, at)) {
        __real_hsac_host_end(a, at, size);
    }
}

// ---- graphs ----

static ggml_backend_dev_t dev;
static ggml_backend_t stream;

struct graph {
    struct ggml_context * ctx;
    struct ggml_tensor *x, *y;
    struct ggml_cgraph * graph;
    ggml_backend_buffer_t buffer;
};

enum { RIGHT, WRONG, FAILED };

static struct graph graph_new(int before) { // tensors of another size, which move the rest
    struct graph g = {
        .ctx = ggml_init((struct ggml_init_params){
            .mem_size = 16 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true})};
    for (int i = 0; i < before; i++) {
        ggml_new_tensor_1d(g.ctx, GGML_TYPE_F32, N);
    }
    g.x = ggml_new_tensor_2d(g.ctx, GGML_TYPE_F32, N, ROWS);
    g.graph = ggml_new_graph(g.ctx);
    return g;
}

static void graph_alloc(struct graph * g, struct ggml_tensor * y, ggml_backend_buffer_type_t buft) {
    g->y = y;
    ggml_build_forward_expand(g->graph, y);
    phase = ALLOC;
    g->buffer = ggml_backend_alloc_ctx_tensors_from_buft(g->ctx, buft);
    phase = ELSEWHERE;
    data_from = ggml_backend_buffer_get_base(g->buffer);
    data_to = data_from + ggml_backend_buffer_get_size(g->buffer);
}

static float x_of(int i) {
    return (float) (i % 37 - 18);
}

static void set_x(struct graph * g) {
    float values[N * ROWS];
    for (int i = 0; i < N * ROWS; i++) {
        values[i] = x_of(i);
    }
    phase = SET;
    ggml_backend_tensor_set(g->x, values, 0, sizeof values);
    phase = ELSEWHERE;
}

static int compute(struct graph * g, enum phase as) {
    phase = as;
    enum ggml_status st = ggml_backend_graph_compute(stream, g->graph);
    phase = ELSEWHERE;
    return st == GGML_STATUS_SUCCESS ? RIGHT : FAILED;
}

// times x, with what quantizing may cost.
static int compare(const struct ggml_tensor * t, float times, float near, enum phase as) {
    float values[N * ROWS];
    int n = 0;
    phase = as;
    ggml_backend_tensor_get(t, values, 0, sizeof values);
    phase = ELSEWHERE;
    for (int i = 0; i < N * ROWS; i++) {
        n += !(fabsf(values[i] - times * x_of(i)) <= near);
    }
    return n ? WRONG : RIGHT;
}

static void graph_free(struct graph * g) {
    ggml_backend_buffer_free(g->buffer);
    ggml_free(g->ctx);
}

// 2 (x + x), as one dispatch of two kernels; then at another place.
static int joined(enum phase as) {
    struct graph g = graph_new(0);
    struct ggml_tensor * sum = ggml_add(g.ctx, g.x, g.x);
    graph_alloc(&g, ggml_add(g.ctx, sum, sum), ggml_backend_dev_buffer_type(dev));
    set_x(&g);
    int rc = compute(&g, as);
    rc = rc == RIGHT ? compare(g.y, 4, 0, as == FIRST ? GET : ELSEWHERE) : rc;
    struct graph other = graph_new(1);
    if (as == FIRST && rc == RIGHT) { // while the first one is still there
        struct ggml_tensor * twice = ggml_add(other.ctx, other.x, other.x);
        graph_alloc(&other, ggml_add(other.ctx, twice, twice), ggml_backend_dev_buffer_type(dev));
        set_x(&other);
        rc = compute(&other, AGAIN);
        rc = rc == RIGHT ? compare(other.y, 4, 0, ELSEWHERE) : rc;
    }
    graph_free(&other);
    graph_free(&g);
    return rc;
}

// x + x, quantized by the host, and made floats again: what the host does is told by its counter.
static int by_host(void) {
    struct graph g = graph_new(0);
    struct ggml_tensor * sum = ggml_add(g.ctx, g.x, g.x);
    struct ggml_tensor * q = ggml_cast(g.ctx, sum, GGML_TYPE_Q8_0);
    struct ggml_tensor * back = ggml_cast(g.ctx, q, GGML_TYPE_F32);
    graph_alloc(&g, ggml_add(g.ctx, back, back), ggml_backend_dev_buffer_type(dev));
    struct ggml_backend_hsa_stats before, after;
    set_x(&g);
    ggml_backend_hsa_get_stats(dev, &before);
    int rc = compute(&g, HOST);
    ggml_backend_hsa_get_stats(dev, &after);
    rc = after.host_copies - before.host_copies < 2 ? FAILED : rc;
    rc = rc == RIGHT ? compare(g.y, 4, 0.6f, ELSEWHERE) : rc;
    graph_free(&g);
    return rc;
}

// The same with a node in the middle that no kernel has.
static int by_cpu(void) {
    struct graph g = graph_new(0);
    struct ggml_tensor * sum = ggml_add(g.ctx, g.x, g.x);
    struct ggml_tensor * same = ggml_diag_mask_zero(g.ctx, sum, (int) sum->ne[0]);
    graph_alloc(&g, ggml_add(g.ctx, same, same), ggml_backend_dev_buffer_type(dev));
    struct ggml_backend_hsa_stats before, after;
    set_x(&g);
    ggml_backend_hsa_get_stats(dev, &before);
    int rc = compute(&g, CPU);
    ggml_backend_hsa_get_stats(dev, &after);
    rc = after.cpu_nodes == before.cpu_nodes ? FAILED : rc;
    rc = rc == RIGHT ? compare(g.y, 4, 0, ELSEWHERE) : rc;
    graph_free(&g);
    return rc;
}

// A result that goes to another tensor, and is computed on there.
static int copied(void) {
    struct graph from = graph_new(0), to = graph_new(0);
    graph_alloc(&from, ggml_add(from.ctx, from.x, from.x), ggml_backend_dev_buffer_type(dev));
    set_x(&from);
    int rc = compute(&from, ELSEWHERE);
    const char * begin = data_from;
    graph_alloc(&to, ggml_add(to.ctx, to.x, to.x), ggml_backend_dev_buffer_type(dev));
    data_from = begin < data_from ? begin : data_from;
    const char * end = begin + ggml_backend_buffer_get_size(from.buffer);
    data_to = end > data_to ? end : data_to;
    phase = COPY;
    ggml_backend_tensor_copy(from.y, to.x);
    phase = ELSEWHERE;
    rc = rc == RIGHT ? compute(&to, ELSEWHERE) : rc;
    rc = rc == RIGHT ? compare(to.y, 4, 0, ELSEWHERE) : rc;
    graph_free(&from);
    graph_free(&to);
    return rc;
}

// Host memory, that the program writes and reads by itself, twice.
static int shared(void) {
    struct graph g = graph_new(0);
    graph_alloc(&g, ggml_add(g.ctx, g.x, g.x), ggml_backend_dev_host_buffer_type(dev));
    int rc = RIGHT;
    for (int round = 1; round <= 2 && rc == RIGHT; round++) {
        float *x = g.x->data, *y = g.y->data;
        for (int i = 0; i < N * ROWS; i++) {
            x[i] = (float) round * x_of(i);
        }
        // Both are of one call: what is sent ends with an end, what is settled with a begin.
        rc = compute(&g, planted->phase == AT_END ? AT_END : SHARED);
        for (int i = 0; i < N * ROWS && rc == RIGHT; i++) {
            rc = y[i] == 2 * (float) round * x_of(i) ? RIGHT : WRONG;
        }
    }
    graph_free(&g);
    return rc;
}

static int run(const struct mistake * m, const char * arch) {
    planted = m;
    setenv("GGML_HSA_EMULATE", arch, 1);
    setenv("GGML_HSA_EMU_STRICT", "1", 1);
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 1);
    ggml_backend_load(CPU_BACKEND);
    ggml_backend_reg_t reg = ggml_backend_hsa_reg();
    dev = reg ? ggml_backend_reg_dev_get(reg, 0) : NULL;
    stream = dev ? ggml_backend_dev_init(dev, NULL) : NULL;
    if (!stream) {
        return 10;
    }
    int rc = joined(FIRST);
    rc = rc == RIGHT ? by_host() : rc;
    rc = rc == RIGHT ? by_cpu() : rc;
    rc = rc == RIGHT ? copied() : rc;
    rc = rc == RIGHT ? shared() : rc;
    if (planted->calls && !left_out) {
        return 11; // it was not there to be left out
    }
    return rc;
}

static void quiet(enum ggml_log_level level, const char * text, void * user) {
    (void) level, (void) text, (void) user;
}

static void test_mistakes(void ** state) {
    (void) state;
    static const char * const archs[] = {"aie2", "aie2p"};
    for (size_t i = 0; i < 2 * sizeof mistakes / sizeof mistakes[0]; i++) {
        const struct mistake * m = &mistakes[i / 2];
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            if (m->calls) { // they fail as they should
                ggml_log_set(quiet, NULL);
                if (!freopen("/dev/null", "w", stderr)) {
                    _exit(12);
                }
            }
            _exit(run(m, archs[i % 2]));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        bool caught =
            WIFEXITED(status) && (WEXITSTATUS(status) == WRONG || WEXITSTATUS(status) == FAILED);
        bool right = WIFEXITED(status) && WEXITSTATUS(status) == RIGHT;
        if (m->calls ? !caught : !right) {
            fail_msg("left out on %s: %s: status 0x%x", archs[i % 2], m->name, status);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
