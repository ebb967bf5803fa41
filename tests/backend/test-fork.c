// test-fork: a process that forks while other threads of it compute. The child is told that devices
// do not follow there, and hangs nowhere, whoever had which lock; a scheduler in it leaves the
// device's nodes alone; and when it ends, the parent's files stay as they are.
#include "backend/npu/mat.h"
#include "base/cmocka-all.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "hsa/hsac-impl.h"
#include "store/store-impl.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ELEMENTS = 256, FORKS = 100, THREADS = 2 };

static ggml_backend_dev_t dev;
static char trace[] = "/tmp/test-fork-XXXXXX";

struct graph {
    ggml_backend_t stream;
    struct ggml_context * ctx;
    struct ggml_tensor *w, *x, *sum, *product;
    struct ggml_cgraph * graph;
    ggml_backend_buffer_t buffer;
};

static struct graph graph_new(void) {
    struct ggml_init_params params = {
        .mem_size = 32 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true};
    struct graph g = {.stream = ggml_backend_dev_init(dev, NULL), .ctx = ggml_init(params)};
    assert_true(g.stream && g.ctx);
    g.w = ggml_new_tensor_2d(g.ctx, GGML_TYPE_F32, ELEMENTS, 8);
    g.x = ggml_new_tensor_1d(g.ctx, GGML_TYPE_F32, ELEMENTS);
    g.sum = ggml_add(g.ctx, g.x, g.x);
    g.product = ggml_mul_mat(g.ctx, g.w, g.sum);
    g.graph = ggml_new_graph(g.ctx);
    ggml_build_forward_expand(g.graph, g.product);
    g.buffer = ggml_backend_alloc_ctx_tensors(g.ctx, g.stream);
    assert_non_null(g.buffer);
    ggml_backend_buffer_set_usage(g.buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_backend_buffer_clear(g.buffer, 0);
    return g;
}

static void graph_free(struct graph * g) {
    ggml_backend_buffer_free(g->buffer);
    ggml_backend_free(g->stream);
    ggml_free(g->ctx);
}

// ---- the child ----

static bool is_child;
static int complaints; // that name the fork

// What only threads of the parent knew is no leak there. LeakSanitizer asks.
int __lsan_is_turned_off(void);
__attribute__((visibility("default"))) int __lsan_is_turned_off(void) {
    return is_child;
}

static void listen(enum ggml_log_level level, const char * text, void * user) {
    (void) level;
    (void) user;
    complaints += strstr(text, "forked") != NULL;
}

// What is wrong there, as a line of this file, or 0.
static int in_the_child(struct graph * g) {
#define WANT(what)                                                                                 \
    if (!(what)) {                                                                                 \
        fprintf(stderr, "the child: %s\n", #what);                                                 \
        return 1;                                                                                  \
    }
    struct ggml_backend_dev_props props;
    struct ggml_backend_hsa_stats stats;
    float back[ELEMENTS];
    struct ggml_tensor elsewhere = *g->sum;
    struct ggml_tensor source = *g->x;
    source.buffer = elsewhere.buffer = NULL;
    elsewhere.src[0] = elsewhere.src[1] = &source;
    ggml_backend_dev_get_props(dev, &props);
    WANT(props.memory_free == 0 && props.memory_total > 0);
    WANT(ggml_backend_dev_init(dev, NULL) == NULL);
    WANT(complaints == 1);
    WANT(ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(dev), 64) == NULL);
    WANT(!ggml_backend_dev_supports_op(dev, &elsewhere)); // another device can have it
    WANT(ggml_backend_dev_supports_op(dev, g->sum));      // which would be read from ours
    ggml_backend_tensor_set(g->x, back, 0, sizeof back);
    ggml_backend_tensor_get(g->x, back, 0, sizeof back);
    ggml_backend_tensor_memset(g->x, 0, 0, sizeof back);
    ggml_backend_buffer_clear(g->buffer, 0);
    complaints = 0;
    WANT(ggml_backend_graph_compute(g->stream, g->graph) == GGML_STATUS_FAILED);
    WANT(complaints == 1);
    ggml_backend_synchronize(g->stream);
    WANT(!ggml_backend_hsa_get_stats(dev, &stats));
    ggml_backend_buffer_free(g->buffer);
    ggml_backend_free(g->stream);
    return 0;
#undef WANT
}

// Ends as programs do, with what is to be done at exit.
static pid_t fork_child(struct graph * g) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        is_child = true;
        ggml_log_set(listen, NULL);
        exit(in_the_child(g));
    }
    assert_true(pid > 0);
    return pid;
}

static bool ends_well(pid_t pid) {
    int status = -1;
    waitpid(pid, &status, 0);
    if (status != 0) {
        print_error("a child ended with status %x%s\n", (unsigned) status,
                    WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? ": it hung" : "");
    }
    return status == 0;
}

// ---- tests ----

// Every lock is taken, as if other threads had them all.
static void whoever_has_which_lock(void ** state) {
    (void) state;
    struct graph g = graph_new();
    assert_int_equal(ggml_backend_graph_compute(g.stream, g.graph), GGML_STATUS_SUCCESS);
    struct hsa_device * device = (struct hsa_device *) dev;
    struct hsac_agent * a = device->agent;
    assert_true(buffer_shadows(g.w)->count > 0); // so that writes look for it
    assert_non_null(device->profile);
    pthread_mutex_t * locks[] = {
        &device->npu->store->lock,
        &device->npu->code.lock,
        &buffer_shadows(g.w)->lock,
        &a->ring.lock,
        &a->stage.lock,
        &a->driver,
        &a->lock,
        (pthread_mutex_t *) device->profile, // its first member; taken last, as it is elsewhere
    };
    enum { LOCKS = sizeof locks / sizeof locks[0] };
    for (int i = 0; i < LOCKS; i++) {
        assert_int_equal(pthread_mutex_lock(locks[i]), 0);
    }
    pid_t pid = fork_child(&g);
    for (int i = LOCKS; i-- > 0;) {
        assert_int_equal(pthread_mutex_unlock(locks[i]), 0);
    }
    assert_true(ends_well(pid));
    assert_int_equal(ggml_backend_graph_compute(g.stream, g.graph), GGML_STATUS_SUCCESS);
    graph_free(&g);
}

static bool stop;

static void * compute(void * user) {
    (void) user;
    struct graph g = graph_new();
    uintptr_t failed = 0;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        failed += ggml_backend_graph_compute(g.stream, g.graph) != GGML_STATUS_SUCCESS;
    }
    graph_free(&g);
    return (void *) failed;
}

static void in_the_middle(void ** state) {
    (void) state;
    pthread_t threads[THREADS];
    struct graph g = graph_new();
    bool well = true;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, compute, NULL), 0);
    }
    for (int i = 0; i < FORKS && well; i++) {
        well = ends_well(fork_child(&g));
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++) {
        void * failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_true(well);
    graph_free(&g);
}

// The trace appears when the parent ends, and is the parent's.
static void files_of_the_parent(void ** state) {
    (void) state;
    struct stat info;
    assert_int_equal(stat(trace, &info), 0);
    assert_int_equal(info.st_size, 0);
}

static int load(void ** state) {
    (void) state;
    int fd = mkstemp(trace);
    setenv("GGML_HSA_EMULATE", "aie2", 1);
    setenv("GGML_HSA_PROFILE", "1", 1);
    setenv("GGML_HSA_TRACE", trace, 1);
    setenv("GGML_HSA_HOST_FALLBACK", "0", 1);
    ggml_backend_reg_t reg = ggml_backend_hsa_reg();
    dev = reg ? ggml_backend_reg_dev_get(reg, 0) : NULL;
    return fd >= 0 && close(fd) == 0 && dev ? 0 : -1;
}

static int unload(void ** state) {
    (void) state;
    return unlink(trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whoever_has_which_lock),
                                       cmocka_unit_test(in_the_middle),
                                       cmocka_unit_test(files_of_the_parent)};
    return cmocka_run_group_tests(tests, load, unload);
}
