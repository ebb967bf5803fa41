// graphs: one process of the soak. Each thread has a stream of every device and a CPU backend,
// makes up a graph from a number, computes it on both and compares. Ops are such that a small
// difference stays small, so that what differs much is wrong.
#include "soak.h"

#include "fail.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"

enum {
    MAX_INPUTS = 12,
    MAX_TENSORS = 64,
    WARM = 40,
    FORK_EVERY = 8,       // graphs of a thread
    CHILD_S = 60,         // that a child may take
    STARVED_ONE_OF = 300, // allocations: about one in each kernel that is compiled
};

struct job {
    pthread_t thread;
    struct soak_shared * shared;
    int worker;
    enum soak_kind kind;
    uint32_t seed;
    unsigned most;
    int n_devices;
    ggml_backend_dev_t devices[SOAK_DEVICES];
    bool broken; // no backend could be made
};

static uint32_t next(uint32_t * state, uint32_t below) {
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t) (((uint64_t) (*state >> 8) * below) >> 24);
}

// ---- a graph ----

struct graph {
    struct ggml_context * ctx;
    struct ggml_cgraph * graph;
    struct ggml_tensor * out;
    int n_inputs;
    struct ggml_tensor * inputs[MAX_INPUTS];
    float scales[MAX_INPUTS]; // of their values
};

static struct ggml_tensor * input(struct graph * g, enum ggml_type type, int64_t a, int64_t b,
                                  int64_t c) {
    struct ggml_tensor * t = ggml_new_tensor_3d(g->ctx, type, a, b, c);
    g->scales[g->n_inputs] = 1;
    return g->inputs[g->n_inputs++] = t;
}

// From a few lengths, so that kernels are met again, but with many shapes all the same.
static int64_t length(uint32_t * r) {
    static const int64_t lengths[] = {1, 2, 7, 16, 31, 32, 33, 64, 96, 100, 128, 255, 256, 300};
    return lengths[next(r, sizeof lengths / sizeof lengths[0])];
}

static struct ggml_tensor * unary(struct ggml_context * ctx, struct ggml_tensor * x, uint32_t * r) {
    switch (next(r, 8)) {
    case 0:
        return ggml_relu(ctx, x);
    case 1:
        return ggml_silu(ctx, x);
    case 2:
        return ggml_gelu(ctx, x);
    case 3:
        return ggml_tanh(ctx, x);
    case 4:
        return ggml_sigmoid(ctx, x);
    case 5:
        return ggml_neg(ctx, x);
    case 6:
        return ggml_abs(ctx, x);
    default:
        return ggml_scale(ctx, x, 0.25f + 0.25f * (float) next(r, 4));
    }
}

static struct ggml_tensor * node(struct graph * g, struct ggml_tensor * x, uint32_t * r) {
    struct ggml_tensor * y;
    switch (next(r, 9)) {
    case 0:
        y = input(g, GGML_TYPE_F32, x->ne[0], x->ne[1], x->ne[2]);
        return next(r, 2) ? ggml_add(g->ctx, x, y) : ggml_mul(g->ctx, x, y);
    case 1: // repeated over the rows
        y = input(g, GGML_TYPE_F32, x->ne[0], 1, 1);
        return next(r, 2) ? ggml_sub(g->ctx, x, y) : ggml_mul(g->ctx, x, y);
    case 2:
        return ggml_rms_norm(g->ctx, x, 1); // a row of next to nothing stays that
    case 3:
        return ggml_soft_max(g->ctx, x);
    case 4:
        y = input(g, next(r, 2) ? GGML_TYPE_F32 : GGML_TYPE_F16, x->ne[0],
                  1 + (int64_t) next(r, 64), 1);
        g->scales[g->n_inputs - 1] = 1 / sqrtf((float) x->ne[0]); // sums do not grow
        return ggml_mul_mat(g->ctx, y, x);
    case 5:
        return ggml_cont(g->ctx, ggml_transpose(g->ctx, x));
    case 6: // sums that cancel would leave the roundings of what was large
        return ggml_scale(g->ctx, ggml_sum_rows(g->ctx, x), 1 / (float) x->ne[0]);
    default:
        return unary(g->ctx, x, r);
    }
}

static struct graph graph_make(uint32_t seed) {
    struct graph g = {0};
    uint32_t r = seed;
    size_t size =
        MAX_TENSORS * ggml_tensor_overhead() + ggml_graph_overhead_custom(MAX_TENSORS, false);
    g.ctx = ggml_init((struct ggml_init_params){size, NULL, true});
    int64_t ne0 = length(&r), ne1 = 1 + next(&r, 6), ne2 = 1 + next(&r, 2);
    struct ggml_tensor * x = input(&g, GGML_TYPE_F32, ne0, ne1, ne2);
    for (uint32_t n = 1 + next(&r, 6); n > 0; n--) {
        x = node(&g, x, &r);
    }
    g.out = x;
    g.graph = ggml_new_graph_custom(g.ctx, MAX_TENSORS, false);
    ggml_build_forward_expand(g.graph, x);
    return g;
}

static void fill(const struct graph * g, uint32_t seed) {
    for (int i = 0; i < g->n_inputs; i++) {
        struct ggml_tensor * t = g->inputs[i];
        int64_t n = ggml_nelements(t);
        float * values = malloc((size_t) n * sizeof *values);
        ggml_fp16_t * halves = malloc((size_t) n * sizeof *halves);
        for (int64_t k = 0; k < n; k++) {
            values[k] = ((float) next(&seed, 2001) * 1e-3f - 1) * g->scales[i];
        }
        ggml_fp32_to_fp16_row(values, halves, n);
        const void * data = t->type == GGML_TYPE_F16 ? (const void *) halves : values;
        ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
        free(values);
        free(halves);
    }
}

// The result, malloc'ed; NULL when it failed. *left_out: there is a node without a kernel.
static float * compute(ggml_backend_t backend, uint32_t seed, int64_t * n, bool * left_out) {
    struct graph g = graph_make(seed);
    float * result = NULL;
    *left_out = false;
    for (int i = 0; i < ggml_graph_n_nodes(g.graph); i++) {
        *left_out |= !ggml_backend_supports_op(backend, ggml_graph_node(g.graph, i));
    }
    ggml_backend_buffer_t buffer =
        *left_out ? NULL : ggml_backend_alloc_ctx_tensors(g.ctx, backend);
    if (buffer) {
        fill(&g, seed);
        *n = ggml_nelements(g.out);
        if (ggml_backend_graph_compute(backend, g.graph) == GGML_STATUS_SUCCESS &&
            (result = malloc(ggml_nbytes(g.out)))) {
            ggml_backend_tensor_get(g.out, result, 0, ggml_nbytes(g.out));
        }
        ggml_backend_buffer_free(buffer);
    }
    ggml_free(g.ctx);
    return result;
}

// Up to 1 it is within what kernels may differ by: products round what they take to bf16, and
// values of about 1 that cancel leave some hundredths of that. A NaN is no less than anything.
static double difference(const float * got, const float * want, int64_t n) {
    double error = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = (double) got[i] - (double) want[i];
        error += d * d;
        size += (double) want[i] * (double) want[i];
    }
    return error / (2e-3 * size + 1e-4 * (double) n);
}

// ---- threads ----

static void one_thread(ggml_backend_t cpu) {
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(cpu));
    void * address = ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads");
    ggml_backend_set_n_threads_t set_n_threads;
    memcpy(&set_n_threads, &address, sizeof address);
    set_n_threads(cpu, 1);
}

static void measure(struct job * j) {
    struct soak_worker * w = &j->shared->workers[j->worker];
    long pages = 0, fds = -2;
    FILE * f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%*s %ld", &pages) != 1) {
        pages = 0;
    }
    if (f) {
        fclose(f);
    }
    DIR * d = opendir("/proc/self/fd");
    while (d && readdir(d)) {
        fds++;
    }
    if (d) {
        closedir(d);
    }
    unsigned long graphs = atomic_fetch_add(&w->graphs, 1);
    long kib = pages * (sysconf(_SC_PAGESIZE) / 1024);
    if (graphs <= WARM * SOAK_THREADS) {
        atomic_store(&w->first_kib, kib);
        atomic_store(&w->first_fds, fds);
    }
    atomic_store(&w->now_kib, kib);
    atomic_store(&w->no_memory, fail_failed());
    // Other threads have files open for a moment: the fewest of some graphs are the ones that stay.
    long least = graphs % WARM ? atomic_load(&w->least_fds) : fds;
    least = fds < least ? fds : least;
    atomic_store(&w->least_fds, least);
    if (graphs % WARM == WARM - 1) {
        atomic_store(&w->now_fds, least);
    }
}

static void note_wrong(struct job * j, int device, uint32_t seed) {
    if (atomic_fetch_add(&j->shared->wrong, 1) == 0) {
        snprintf(j->shared->first_wrong, sizeof j->shared->first_wrong, "graph %u on %s", seed,
                 j->shared->devices[device]);
    }
}

// ---- what a process bears ----

static bool is_child;
static struct soak_shared * counts;

// Refusals of the hostile pack name its files. A child is silent: it is told what it knows.
static void listen(enum ggml_log_level level, const char * text, void * user) {
    (void) user;
    if (strstr(text, "/hostile/") && strstr(text, "_insts.bin: instruction stream at")) {
        atomic_fetch_add(&counts->refused, 1);
    } else if (!is_child && level >= GGML_LOG_LEVEL_WARN) {
        fputs(text, stderr);
    }
}

// Another process, while other threads compute. It cannot use the devices, is told so, and ends.
static void fork_one(struct job * j, ggml_backend_t stream, uint32_t seed) {
    struct graph g = graph_make(seed);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(g.ctx, stream);
    int status = 0;
    pid_t pid = buffer ? fork() : -1;
    if (pid == 0) {
        alarm(CHILD_S);
        is_child = true;
        _exit(ggml_backend_graph_compute(stream, g.graph) == GGML_STATUS_SUCCESS);
    }
    if (pid > 0) {
        waitpid(pid, &status, 0);
        atomic_fetch_add(&j->shared->forks, 1);
        atomic_fetch_add(&j->shared->forks_bad, status != 0);
    }
    ggml_backend_buffer_free(buffer);
    ggml_free(g.ctx);
}

// Once all threads have what they cannot do without.
static pthread_barrier_t begun;

// With a sanitizer the linker lets the calls of this program fail, and no others: these have to
// work.
static bool starves(const struct job * j) {
#ifdef FAIL_WRAPS
    (void) j;
    return false;
#else
    return j->kind == SOAK_STARVED;
#endif
}

static void begin_starving(const struct job * j) {
    if (pthread_barrier_wait(&begun) == PTHREAD_BARRIER_SERIAL_THREAD && starves(j)) {
        fail_learn(false);
        fail_begin(FAIL_SOMETIMES, STARVED_ONE_OF);
    }
}

static void end_starving(const struct job * j) {
    if (pthread_barrier_wait(&begun) == PTHREAD_BARRIER_SERIAL_THREAD && starves(j)) {
        fail_end();
    }
    pthread_barrier_wait(&begun);
}

static void * thread_run(void * arg) {
    struct job * j = arg;
    struct soak_shared * s = j->shared;
    ggml_backend_t streams[SOAK_DEVICES] = {0};
    ggml_backend_t cpu =
        ggml_backend_dev_init(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU), NULL);
    j->broken = !cpu;
    for (int i = 0; i < j->n_devices; i++) {
        streams[i] = ggml_backend_dev_init(j->devices[i], NULL);
        j->broken |= !streams[i];
    }
    if (!j->broken) {
        one_thread(cpu);
    }
    begin_starving(j);
    for (unsigned n = 0; !j->broken && !atomic_load(&s->stop) && (!j->most || n < j->most); n++) {
        int device = (int) (n % (unsigned) j->n_devices);
        uint32_t seed = next(&j->seed, 1 << 23);
        int64_t size = 0;
        bool left_out;
        float * got = compute(streams[device], seed, &size, &left_out);
        if (left_out) {
            atomic_fetch_add(&s->left_out, 1);
        } else if (!got) {
            atomic_fetch_add(j->kind == SOAK_STARVED ? &s->starved : &s->failed, 1);
        } else {
            bool ignored;
            float * want = compute(cpu, seed, &size, &ignored);
            double off = want ? difference(got, want, size) : 2;
            if (!(off <= 1)) {
                note_wrong(j, device, seed);
            } else if (off * 1000 > (double) atomic_load(&s->worst)) {
                atomic_store(&s->worst,
                             (unsigned long) (off * 1000)); // two at once: either will do
            }
            atomic_fetch_add(&s->graphs[device], 1);
            free(want);
        }
        if (j->kind == SOAK_FORKING && got && n % FORK_EVERY == 1) {
            fork_one(j, streams[device], seed);
        }
        free(got);
        measure(j);
    }
    end_starving(j);
    for (int i = 0; i < j->n_devices; i++) {
        if (streams[i]) {
            ggml_backend_free(streams[i]);
        }
    }
    if (cpu) {
        ggml_backend_free(cpu);
    }
    return NULL;
}

int graphs_run(struct soak_shared * shared, int worker, enum soak_kind kind, uint32_t seed,
               unsigned most) {
    counts = shared;
    ggml_log_set(listen, NULL);
    if (kind == SOAK_STARVED) { // a GPU's memory is not the host's: reading it back can fail
        setenv("GGML_HSA_EMULATE", "aie2,aie2p", 1);
    }
    ggml_backend_reg_t reg = ggml_backend_load(PLUGIN);
    if (!reg || !ggml_backend_load(CPU_BACKEND) || ggml_backend_reg_dev_count(reg) == 0) {
        fprintf(stderr, "soak: no plugin, no CPU backend or no device\n");
        return 3;
    }
    static struct job jobs[SOAK_THREADS];
    bool broken = pthread_barrier_init(&begun, NULL, SOAK_THREADS) != 0;
    for (int i = 0; i < SOAK_THREADS; i++) {
        struct job * j = &jobs[i];
        *j = (struct job){.shared = shared,
                          .worker = worker,
                          .kind = kind,
                          .seed = seed + 7919u * (uint32_t) i,
                          .most = most};
        for (size_t k = 0; k < ggml_backend_reg_dev_count(reg) && k < SOAK_DEVICES; k++) {
            j->devices[j->n_devices++] = ggml_backend_reg_dev_get(reg, k);
            snprintf(shared->devices[k], sizeof shared->devices[k], "%.60s",
                     ggml_backend_dev_description(j->devices[k]));
        }
        if (pthread_create(&j->thread, NULL, thread_run, j) != 0) {
            return 3;
        }
    }
    for (int i = 0; i < SOAK_THREADS; i++) {
        pthread_join(jobs[i].thread, NULL);
        broken |= jobs[i].broken;
    }
    return broken ? 3 : 0;
}

int graphs_show(uint32_t seed) {
    ggml_backend_reg_t reg = ggml_backend_load(PLUGIN);
    if (!reg || !ggml_backend_load(CPU_BACKEND)) {
        return 3;
    }
    struct graph g = graph_make(seed);
    for (int i = 0; i < ggml_graph_n_nodes(g.graph); i++) {
        const struct ggml_tensor * t = ggml_graph_node(g.graph, i);
        printf("%-16s", ggml_op_desc(t));
        for (int k = 0; k < 3; k++) {
            const struct ggml_tensor * x = k < 2 ? t->src[k] : t;
            if (x) {
                printf("  %s %dx%dx%d%s", ggml_type_name(x->type), (int) x->ne[0], (int) x->ne[1],
                       (int) x->ne[2], k == 2 ? "\n" : "");
            }
        }
    }
    ggml_free(g.ctx);
    ggml_backend_t cpu =
        ggml_backend_dev_init(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU), NULL);
    int64_t n = 0;
    bool left_out, bad = false;
    float * want = compute(cpu, seed, &n, &left_out);
    for (size_t k = 0; k < ggml_backend_reg_dev_count(reg); k++) {
        ggml_backend_dev_t dev = ggml_backend_reg_dev_get(reg, k);
        ggml_backend_t backend = ggml_backend_dev_init(dev, NULL);
        float * got = compute(backend, seed, &n, &left_out);
        double d = got ? difference(got, want, n) : (double) NAN;
        bad |= !left_out && !(d <= 1);
        printf("%s: %s%g\n", ggml_backend_dev_description(dev), left_out ? "left out " : "", d);
        for (int64_t i = 0; got && !(d <= 1) && i < n && i < 16; i++) {
            printf("  %g %g\n", (double) got[i], (double) want[i]);
        }
        free(got);
        ggml_backend_free(backend);
    }
    free(want);
    ggml_backend_free(cpu);
    return bad;
}
