// rocr-graph <case> [<number>...]: one case of the plugin on the played driver, below AMD's ROCr
// (run.sh) or our own runtime (tests/native/run.sh), as a process of its own, because ROCr ends the
// process when the driver refuses it something. Ends with 0 when the results are exact and the
// driver's report is clean.
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"

static ggml_backend_dev_t device;

static _Noreturn void fail(const char * fmt, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void fail(const char * fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vfprintf(stdout, fmt, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
    _Exit(1);
}

// ---- the driver's report, which it keeps up to date ----

static double reported(const char * key) {
    const char * path = getenv("ACCEL_EMU_REPORT");
    FILE * f = path ? fopen(path, "r") : NULL;
    char line[1024] = " ";
    if (!f || !fgets(line + 1, sizeof line - 1, f)) {
        fail("no report of the driver in ACCEL_EMU_REPORT=%s", path ? path : "");
    }
    fclose(f);
    char word[64];
    snprintf(word, sizeof word, " %s=", key);
    const char * at = strstr(line, word);
    if (!at) {
        fail("no %s in the driver's report", key);
    }
    return atof(at + strlen(word));
}

// Nothing was refused that the client could have known before; a heap may be full.
static void expect_right(bool full) {
    static const char * const keys[] = {"failed", "timeouts", "refused"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] - full; i++) {
        if (reported(keys[i]) != 0) {
            fail("the driver's report has %s=%g", keys[i], reported(keys[i]));
        }
    }
}

static void expect_clean(void) {
    expect_right(false);
}

// ---- graphs ----

enum { KINDS = 5 };

// All values are small integers, so that every order of computing them is exact.
static float kind_of(int kind, float x, float b) {
    switch (kind) {
    case 0:
        return x + b;
    case 1:
        return x > 0 ? x : 0;
    case 2:
        return x - b;
    case 3:
        return floorf(x);
    default:
        return -x;
    }
}

static struct ggml_tensor * node_of(struct ggml_context * ctx, int kind, struct ggml_tensor * x,
                                    struct ggml_tensor * b) {
    switch (kind) {
    case 0:
        return ggml_add(ctx, x, b);
    case 1:
        return ggml_relu(ctx, x);
    case 2:
        return ggml_sub(ctx, x, b);
    case 3:
        return ggml_floor(ctx, x);
    default:
        return ggml_scale(ctx, x, -1);
    }
}

// n nodes, each made of the one before, over vectors of m floats; of several kinds in turn, which
// have several PDIs, beginning with `from`.
struct chain {
    int n, m, kinds, from;
    struct ggml_context * ctx;
    struct ggml_cgraph * graph;
    struct ggml_tensor *a, *b, *last;
    ggml_backend_buffer_t buffer;
};

static bool tolerant; // a device that is lost has no memory

static bool chain_from(struct chain * c, int n, int m, int kinds, int from) {
    size_t nodes = (size_t) n + 8;
    struct ggml_init_params params = {
        .mem_size = ggml_tensor_overhead() * nodes + ggml_graph_overhead_custom(nodes, false),
        .no_alloc = true,
    };
    *c = (struct chain){.n = n, .m = m, .kinds = kinds, .from = from, .ctx = ggml_init(params)};
    c->a = ggml_new_tensor_1d(c->ctx, GGML_TYPE_F32, m);
    c->b = ggml_new_tensor_1d(c->ctx, GGML_TYPE_F32, m);
    c->last = c->a;
    for (int i = 0; i < n; i++) {
        c->last = node_of(c->ctx, (i + from) % kinds, c->last, c->b);
    }
    c->graph = ggml_new_graph_custom(c->ctx, nodes, false);
    ggml_build_forward_expand(c->graph, c->last);
    c->buffer =
        ggml_backend_alloc_ctx_tensors_from_buft(c->ctx, ggml_backend_dev_buffer_type(device));
    if (!c->buffer && tolerant) {
        ggml_free(c->ctx);
        return false;
    }
    if (!c->buffer) {
        fail("no buffer for %d tensors of %d floats", n + 2, m);
    }
    float * v = malloc(sizeof *v * (size_t) m);
    for (int i = 0; i < m; i++) {
        v[i] = (float) (i % 17 - 8);
    }
    ggml_backend_tensor_set(c->a, v, 0, sizeof *v * (size_t) m);
    for (int i = 0; i < m; i++) {
        v[i] = (float) (i % 3);
    }
    ggml_backend_tensor_set(c->b, v, 0, sizeof *v * (size_t) m);
    free(v);
    return true;
}

static bool chain_new(struct chain * c, int n, int m, int kinds) {
    return chain_from(c, n, m, kinds, 0);
}

static void chain_free(struct chain * c) {
    ggml_backend_buffer_free(c->buffer);
    ggml_free(c->ctx);
}

// How many results are wrong.
static int chain_wrong(const struct chain * c) {
    float * v = malloc(sizeof *v * (size_t) c->m);
    ggml_backend_tensor_get(c->last, v, 0, sizeof *v * (size_t) c->m);
    int wrong = 0;
    for (int i = 0; i < c->m; i++) {
        float x = (float) (i % 17 - 8), b = (float) (i % 3);
        for (int k = 0; k < c->n; k++) {
            x = kind_of((k + c->from) % c->kinds, x, b);
        }
        if (v[i] != x && wrong++ == 0) {
            printf("at %d: %g, expected %g\n", i, v[i], x);
        }
    }
    free(v);
    return wrong;
}

static ggml_backend_t stream_new(void) {
    ggml_backend_t stream = ggml_backend_dev_init(device, NULL);
    if (!stream) {
        fail("no stream");
    }
    return stream;
}

static void chain_run(struct chain * c, ggml_backend_t stream) {
    enum ggml_status status = ggml_backend_graph_compute(stream, c->graph);
    int wrong = status == GGML_STATUS_SUCCESS ? chain_wrong(c) : 0;
    if (status != GGML_STATUS_SUCCESS || wrong) {
        fail("%d nodes of %d floats: status %d, %d wrong", c->n, c->m, status, wrong);
    }
}

// ---- cases ----

static int number(char ** args, int i, int fallback) {
    for (int k = 0; k <= i; k++) {
        if (!args[k]) {
            return fallback;
        }
    }
    return atoi(args[i]);
}

// chain <nodes> [<floats> [<kinds> [<times>]]]
static void run_chain(char ** args) {
    struct chain c;
    ggml_backend_t stream = stream_new();
    chain_new(&c, number(args, 0, 1), number(args, 1, 1000), number(args, 2, 1));
    for (int i = 0; i < number(args, 3, 1); i++) {
        chain_run(&c, stream);
    }
    chain_free(&c);
    ggml_backend_free(stream);
    expect_clean();
}

// early <floats>: the smallest buffer there is, made before anything else is in memory
static void run_early(char ** args) {
    struct chain c;
    chain_new(&c, 1, number(args, 0, 10), 1);
    ggml_backend_t stream = stream_new();
    chain_run(&c, stream);
    chain_free(&c);
    ggml_backend_free(stream);
    expect_clean();
}

// long <nodes>: as many softmaxes of a row of 2^17 zeros, of which each takes more than 3 ms
static void run_long(char ** args) {
    enum { M = 1 << 17 };
    int n = number(args, 0, 20);
    size_t nodes = (size_t) n + 8;
    struct ggml_init_params params = {
        .mem_size = ggml_tensor_overhead() * nodes + ggml_graph_overhead_custom(nodes, false),
        .no_alloc = true,
    };
    struct ggml_context * ctx = ggml_init(params);
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, nodes, false);
    struct ggml_tensor * a = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, M);
    struct ggml_tensor ** out = calloc((size_t) n, sizeof *out);
    for (int i = 0; i < n; i++) {
        out[i] = ggml_soft_max(ctx, a);
        ggml_build_forward_expand(graph, out[i]);
    }
    ggml_backend_t stream = stream_new();
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, stream);
    ggml_backend_buffer_clear(buffer, 0);
    enum ggml_status status = ggml_backend_graph_compute(stream, graph);
    if (status != GGML_STATUS_SUCCESS) {
        fail("status %d", status);
    }
    float * v = malloc(sizeof *v * M);
    for (int i = 0; i < n; i++) {
        ggml_backend_tensor_get(out[i], v, 0, sizeof *v * M);
        for (int k = 0; k < M; k++) {
            if (fabsf(v[k] * M - 1) > 1e-4f) {
                fail("node %d at %d: %g, expected %g", i, k, v[k], 1.0 / M);
            }
        }
    }
    free(v);
    free(out);
    ggml_backend_buffer_free(buffer);
    ggml_backend_free(stream);
    ggml_free(ctx);
    expect_clean();
}

// sizes <n>: n chains, each of its own size, so that each has instruction streams of its own
static void run_sizes(char ** args) {
    ggml_backend_t stream = stream_new();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < number(args, 0, 50); i++) {
            struct chain c;
            chain_new(&c, 2, 16 * (i + 1), 2);
            chain_run(&c, stream);
            chain_free(&c);
        }
    }
    ggml_backend_free(stream);
    expect_right(true);
}

// contexts <n>: n streams one after the other; each begins with another kind of node
static void run_contexts(char ** args) {
    for (int i = 0; i < number(args, 0, 20); i++) {
        ggml_backend_t stream = stream_new();
        for (int kinds = 1; kinds <= KINDS; kinds++) {
            struct chain c;
            chain_from(&c, 1 + (i + kinds) % KINDS, 64, KINDS, i + kinds * kinds);
            chain_run(&c, stream);
            chain_free(&c);
        }
        ggml_backend_free(stream);
    }
    expect_clean();
}

// memory <n>: n buffers of 1 MiB, made and freed; ROCr 7.2 does not unmap what it frees
static void run_memory(char ** args) {
    for (int i = 0; i < number(args, 0, 100); i++) {
        ggml_backend_buffer_t b =
            ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(device), 1 << 20);
        if (!b) {
            fail("no buffer");
        }
        ggml_backend_buffer_clear(b, 1);
        ggml_backend_buffer_free(b);
    }
    expect_clean();
    if (reported("kept_bytes") > 8 << 20) {
        fail("%g bytes are not given back", reported("kept_bytes"));
    }
}

static void * compute_often(void * data) {
    int rounds = *(int *) data;
    ggml_backend_t stream = stream_new();
    for (int i = 0; i < rounds; i++) {
        struct chain c;
        chain_new(&c, 1 + i % 50, 500 + i % 7, 1 + i % KINDS);
        chain_run(&c, stream);
        chain_free(&c);
    }
    ggml_backend_free(stream);
    return NULL;
}

static bool computing;

static void * allocate_often(void * data) {
    (void) data;
    for (size_t size = 1; __atomic_load_n(&computing, __ATOMIC_RELAXED); size = size * 7 % 65537) {
        ggml_backend_buffer_t b =
            ggml_backend_buft_alloc_buffer(ggml_backend_dev_buffer_type(device), size);
        if (!b) {
            fail("no buffer of %zu bytes", size);
        }
        ggml_backend_buffer_free(b);
    }
    return NULL;
}

// threads <rounds>: two compute, a third allocates and frees
static void run_threads(char ** args) {
    enum { MOST = 16 };
    int rounds = number(args, 0, 100), n = number(args, 1, 2);
    pthread_t compute[MOST], allocate;
    n = n < MOST ? n : MOST;
    computing = true;
    pthread_create(&allocate, NULL, allocate_often, NULL);
    for (int i = 0; i < n; i++) {
        pthread_create(&compute[i], NULL, compute_often, &rounds);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(compute[i], NULL);
    }
    __atomic_store_n(&computing, false, __ATOMIC_RELAXED);
    pthread_join(allocate, NULL);
    expect_clean();
}

// fault <times> [<stays>]: the driver plays one fault. A graph may fail by its status, never by its
// values; when the fault does not stay, later graphs must work.
static void run_fault(char ** args) {
    int times = number(args, 0, 10), failed = 0;
    bool stays = number(args, 1, 0);
    enum ggml_status last = GGML_STATUS_SUCCESS;
    ggml_backend_t stream = stream_new();
    for (int i = 0; i < times; i++) {
        struct chain c;
        chain_new(&c, 10, 100 + i, 1 + i % KINDS);
        last = ggml_backend_graph_compute(stream, c.graph);
        failed += last != GGML_STATUS_SUCCESS;
        if (last == GGML_STATUS_SUCCESS && chain_wrong(&c)) {
            fail("graph %d: success, and wrong values", i);
        }
        chain_free(&c);
    }
    ggml_backend_free(stream);
    printf("%d of %d graphs failed\n", failed, times);
    if (reported("faults") == 0) {
        fail("no fault was played");
    }
    if (stays ? last == GGML_STATUS_SUCCESS : last != GGML_STATUS_SUCCESS) {
        fail("the last graph %s", stays ? "succeeded on a lost device" : "failed");
    }
}

// both <times>: the NPU by one runtime and a GPU by another, in turns.
static void run_both(char ** args) {
    ggml_backend_dev_t devices[] = {device, ggml_backend_dev_by_name("HSA1")};
    ggml_backend_t streams[2];
    if (!devices[1] || !strstr(ggml_backend_dev_description(devices[1]), "gfx")) {
        fail("no GPU HSA1 beside the NPU");
    }
    for (int k = 0; k < 2; k++) {
        device = devices[k];
        streams[k] = stream_new();
    }
    for (int i = 0; i < 2 * number(args, 0, 10); i++) {
        struct chain c;
        device = devices[i % 2];
        chain_new(&c, 10, 100 + i, 1 + i % KINDS);
        chain_run(&c, streams[i % 2]);
        chain_free(&c);
    }
    ggml_backend_free(streams[0]);
    ggml_backend_free(streams[1]);
    expect_clean();
}

// ---- a fault at every call ----

enum { EVERY_GRAPHS = 2 };

// One process: the fault comes with a call, and stays or not. A graph may fail by its status, never
// by its values, and nothing ends the process.
static _Noreturn void meet_fault(int call, const char * error, bool stays) {
    char fault[64];
    snprintf(fault, sizeof fault, "ANY:%d%s:%s", call, stays ? "+" : "", error);
    setenv("ACCEL_EMU_FAIL", fault, 1);
    setenv("ACCEL_EMU_QUIET", "1", 1);
    tolerant = true;
    device = ggml_backend_load(PLUGIN) ? ggml_backend_dev_by_name("HSA0") : NULL;
    ggml_backend_t stream = device ? ggml_backend_dev_init(device, NULL) : NULL;
    int failed = 0;
    for (int i = 0; stream && i < EVERY_GRAPHS; i++) {
        struct chain c;
        if (!chain_new(&c, 3, 100 + i, 1 + i)) {
            continue;
        }
        enum ggml_status st = ggml_backend_graph_compute(stream, c.graph);
        if (st == GGML_STATUS_SUCCESS && chain_wrong(&c)) {
            fail("call %d, %s: success, and wrong values", call, error);
        }
        failed += st != GGML_STATUS_SUCCESS;
        if (failed > 1 && !stays) {
            fail("call %d, %s once: another graph failed, too", call, error);
        }
        chain_free(&c);
    }
    if (stream) {
        ggml_backend_free(stream);
    }
    exit(0);
}

// every <error> <stays>: for the first call of a run, the second, and so on, until a run has no
// more.
static void run_every(char ** args) {
    const char * error = args[0] ? args[0] : "ENODEV";
    bool stays = number(args, 1, 1), played = true;
    int call = 0;
    while (played) {
        pid_t child = fork();
        if (child == 0) {
            meet_fault(++call, error, stays);
        }
        call++;
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            fail("call %d, %s: the process ended with 0x%x", call, error, status);
        }
        played = reported("faults") != 0;
    }
    if (call < 40) {
        fail("a run of %d calls only", call);
    }
    printf("passed: %s at each of %d calls\n", error, call - 1);
}

// ---- several processes ----

enum { MOST_TRIES = 500 };

static void load_device(void) {
    if (!ggml_backend_load(PLUGIN) || !(device = ggml_backend_dev_by_name("HSA0"))) {
        fail("no device HSA0");
    }
}

// As many graphs as are wanted, each until it succeeds: contexts are few, and others have them. A
// stream that is freed gives its context back.
static _Noreturn void take_turns(int which, int times) {
    load_device();
    int failed = 0;
    for (int i = 0; i < times;) {
        ggml_backend_t stream = stream_new();
        struct chain c;
        chain_new(&c, 10, 100 + which, 1 + (i + which) % KINDS);
        enum ggml_status st = ggml_backend_graph_compute(stream, c.graph);
        if (st == GGML_STATUS_SUCCESS && chain_wrong(&c)) {
            fail("process %d, graph %d: success, and wrong values", which, i);
        }
        chain_free(&c);
        ggml_backend_free(stream);
        i += st == GGML_STATUS_SUCCESS;
        if (st != GGML_STATUS_SUCCESS) {
            if (++failed == MOST_TRIES) {
                fail("process %d: no context in %d tries", which, failed);
            }
            usleep(20000);
        }
    }
    printf("process %d: %d graphs, and %d that got no context\n", which, times, failed);
    exit(0);
}

// processes <n> <times>: they share one device, and take turns.
static void run_processes(char ** args) {
    int n = number(args, 0, 2), times = number(args, 1, 10);
    pid_t children[32];
    for (int i = 0; i < n && i < 32; i++) {
        fflush(stdout);
        children[i] = fork();
        if (children[i] == 0) {
            take_turns(i, times);
        }
    }
    for (int i = 0; i < n && i < 32; i++) {
        int status = 0;
        if (children[i] < 0 || waitpid(children[i], &status, 0) != children[i] || status != 0) {
            fail("process %d ended with 0x%x", i, status);
        }
    }
    printf("passed: %d processes\n", n);
}

static const struct {
    const char * name;
    void (*run)(char ** args);
} cases[] = {
    {"chain", run_chain},     {"early", run_early},   {"long", run_long},
    {"sizes", run_sizes},     {"memory", run_memory}, {"contexts", run_contexts},
    {"threads", run_threads}, {"fault", run_fault},   {"both", run_both},
};

int main(int argc, char ** argv) {
    if (argc > 1 && !strcmp(argv[1], "every")) {
        run_every(argv + 2);
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "processes")) {
        run_processes(argv + 2);
        return 0;
    }
    load_device();
    // Newer firmware has names of its own for it: "NPU Strix".
    const char * what = ggml_backend_dev_description(device);
    if (!strstr(what, "RyzenAI-npu") && !strstr(what, "NPU ")) {
        fail("HSA0 is %s", what);
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (argc > 1 && !strcmp(argv[1], cases[i].name)) {
            cases[i].run(argv + 2);
            printf(
                "passed: %d commands in %d chains, the longest of %d, at most %.3f modelled ms\n",
                (int) reported("commands"), (int) reported("execs"),
                (int) reported("longest_chain"), reported("worst_ms"));
            return 0;
        }
    }
    fail("usage: rocr-graph chain|early|long|sizes|memory|contexts|threads|fault|both|every|"
         "processes <number>...");
}
