// no-memory CASE|all [short]: one compilation, one scan of a cache, one graph and others, with
// memory running out at each call of ours in turn: at that one alone, or at that one and all behind
// it. Each is a process of its own. It must end well: what it gives is what it gives with memory,
// or it says what it lacks; and with memory again it gives the same as ever. The short form takes
// one call of those that come the same way (fail.h), once.
#include "fail.h"

#include "aie/aie.h"
#include "base/process.h"
#include "skip.h"
#include "store/cache.h"
#include "store/store.h"
#include "store/small-kernel.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-hsa.h"

// What a run came to: nothing, or a result that must be the same each time.
struct outcome {
    bool done;
    bool silent; // it failed, and nobody said why
    uint8_t digest[SHA256_BYTES];
};

struct no_memory_case {
    const char * name;
    int parts;             // each is run by itself
    int every;             // of the short form's calls: this many of them are one
    bool (*prepare)(void); // once, with memory; NULL: nothing is to be done
    void (*fresh)(void);   // in each process, before memory runs out
    void (*run)(struct outcome * out);
    void (*again)(struct outcome * out); // with memory, in the same process; NULL: run
    bool is_tool;                        // another program, which counts for itself
};

static int part;
static char dir[64] = "/dev/shm/no-memory-XXXXXX"; // in memory where there is such a place

static void digest_of(struct outcome * out, const void * data, size_t size) {
    out->done = true;
    sha256(data, size, out->digest);
}

// ---- a compilation ----

static enum aie_arch arch;

// One of each kind of program, as little of it as there is.
static const struct {
    enum kernel_op op;
    enum dtype type;
    int n_inputs;
    enum dtype result;
    int64_t shape[4]; // of the result
    float param;
} compiled[] = {
    {KERNEL_OP_ADD, DTYPE_F32, 2, DTYPE_F32, {96, 3, 1, 1}, 0},
    {KERNEL_OP_EXP, DTYPE_BF16, 1, DTYPE_BF16, {96, 3, 1, 1}, 0},
    {KERNEL_OP_SOFT_MAX, DTYPE_F32, 1, DTYPE_F32, {96, 3, 1, 1}, 0.5f},
    {KERNEL_OP_RMS_NORM, DTYPE_F32, 1, DTYPE_F32, {96, 3, 1, 1}, 0.5f},
    {KERNEL_OP_COPY, DTYPE_F32, 1, DTYPE_F32, {96, 3, 1, 1}, 0},
    {KERNEL_OP_MUL_MAT, DTYPE_BF16, 2, DTYPE_F32, {3, 3, 1, 1}, 0},
};
enum { COMPILED = sizeof compiled / sizeof compiled[0] };

static void compile_one(struct outcome * out) {
    struct kernel_spec spec = {
        .op = compiled[part].op, .arch = arch, .n_inputs = compiled[part].n_inputs};
    for (int i = 0; i < spec.n_inputs; i++) {
        spec.inputs[i] = tensor_contiguous(compiled[part].type, (const int64_t[4]){96, 3, 1, 1});
    }
    spec.output = tensor_contiguous(compiled[part].result, compiled[part].shape);
    memcpy(&spec.params[0], &compiled[part].param, sizeof compiled[part].param);
    struct kernel_code code;
    struct error err = {0};
    if (aie_compile(&spec, &code, &err) != ST_OK) {
        out->silent = !err.text[0];
        return;
    }
    struct buf all = {0};
    buf_append(&all, code.pdi, code.pdi_size);
    buf_append(&all, code.insts, code.n_insts * sizeof *code.insts);
    if (!all.failed) {
        digest_of(out, all.data, all.size);
    }
    kernel_code_free(&code);
    buf_free(&all);
}

static bool is_aie2(void) {
    arch = AIE_ARCH_AIE2;
    return true;
}

static bool is_aie2p(void) {
    arch = AIE_ARCH_AIE2P;
    return true;
}

// ---- a cache ----

enum { CACHED = 20 }; // more than lists have room for at first
static char cache_dir[128];
static char first_warning[512];

static enum status small_pdi(const struct aie_program * program, enum aie_arch on, int columns,
                             uint8_t ** pdi, size_t * size, struct error * err) {
    (void) on, (void) columns;
    return small_kernel_pdi((uint32_t) program->dtype, pdi, size, err);
}

static enum status small_stream(const struct aie_plan * plan, uint32_t ** insts, size_t * n,
                                struct error * err) {
    return small_kernel_stream(&plan->spec, 2, txn_generation(plan->spec.arch), insts, n, err);
}

static const struct store_compiler small_compiler = {
    .plan = small_kernel_plan, .pdi = small_pdi, .stream = small_stream, .identity = "no-memory 1"};

static void note_warning(const char * text) {
    if (!first_warning[0]) {
        snprintf(first_warning, sizeof first_warning, "%s", text);
    }
}

static struct kernel_spec cached_spec(int i) {
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_I32};
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    spec.inputs[0] = spec.inputs[1] = spec.output =
        tensor_contiguous(types[i % 3], (const int64_t[4]){64 + 16 * i, 1, 1, 1});
    return spec;
}

// Kernels of the numbers below n, from a store of their own: all of them, or what is missing.
static void get_kernels(int n, struct outcome * out) {
    struct store * s = NULL;
    struct error err = {0};
    struct buf all = {0};
    if (store_new_with(&small_compiler, &s, &err) != ST_OK) {
        out->silent = !err.text[0];
        return;
    }
    store_set_log(s, note_warning);
    enum status st = ST_OK;
    for (int i = 0; i < n && st == ST_OK; i++) {
        struct kernel_spec spec = cached_spec(i);
        struct store_kernel * k;
        st = store_get(s, &spec, &k, &err);
        if (st == ST_OK) {
            buf_append(&all, k->pdi->data, k->pdi->size);
            buf_append(&all, k->insts, k->n_insts * sizeof *k->insts);
            store_put(s, k);
        }
    }
    if (st == ST_OK && !all.failed) {
        digest_of(out, all.data, all.size);
    }
    out->silent = st != ST_OK && !err.text[0];
    buf_free(&all);
    store_free(s);
}

static void put(const char * path, const char * text) {
    char full[256];
    snprintf(full, sizeof full, "%s/%s", cache_dir, path);
    FILE * f = fopen(full, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0) {
        abort();
    }
}

static void empty_cache(void) {
    static unsigned n;
    snprintf(cache_dir, sizeof cache_dir, "%s/%u-%d", dir, n++, (int) getpid());
    mkdir(cache_dir, 0700);
    setenv("GGML_HSA_KERNEL_CACHE_DIR", cache_dir, 1);
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "1G", 1);
}

// Kernels, a foreign one, what a killed process left, and something in quarantine.
static void full_cache(void) {
    struct outcome made = {0};
    char path[200];
    empty_cache();
    get_kernels(CACHED, &made);
    snprintf(path, sizeof path, "%s/quarantine", cache_dir);
    if (!made.done || (mkdir(path, 0700) != 0 && errno != EEXIST)) {
        abort();
    }
    for (int i = 0; i < 20; i++) {
        snprintf(path, sizeof path, "quarantine/old-%d.pdi", i);
        put(path, "damaged");
        snprintf(path, sizeof path, "aie2/.tmp-%016d", i);
        put(path, "left");
    }
    put("aie2/stranger.pdi", "somebody else's");
    put("aie2/stranger_insts.bin", "somebody else's");
}

static bool count_item(void * user, const struct cache_item * item) {
    int * counts = user;
    counts[item->state]++;
    return true;
}

static bool stranger_stays(void) {
    char path[200];
    snprintf(path, sizeof path, "%s/aie2/stranger.pdi", cache_dir);
    return access(path, F_OK) == 0;
}

// Listed, read, trimmed and cleared. Each step is whole or has failed with a reason.
static void scan_all(struct outcome * out) {
    struct cache * c;
    struct error err = {0};
    struct cache_totals t = {0};
    int counts[CACHE_STATES] = {0};
    if (cache_open(true, &c, &err) != ST_OK) {
        out->silent = !err.text[0];
        return;
    }
    bool ok = true;
    for (int step = 0; step < 5 && ok; step++) {
        err = (struct error){0};
        enum status st = step == 0   ? cache_walk(c, NULL, false, count_item, counts, &t, &err)
                         : step == 1 ? cache_walk(c, NULL, true, count_item, counts, &t, &err)
                         : step == 2 ? cache_trim(c, 20000, true, &t, &err)
                         : step == 3 ? cache_trim(c, 20000, false, &t, &err)
                                     : cache_clear(c, &t, &err);
        ok = st == ST_OK;
        out->silent = !ok && !err.text[0];
        if (step == 1 && ok && counts[CACHE_DAMAGED]) { // no memory is no damage
            fprintf(stderr, "no-memory: %d kernels are called damaged\n", counts[CACHE_DAMAGED]);
            exit(4);
        }
    }
    if (!stranger_stays()) {
        fprintf(stderr, "no-memory: a stranger's file is gone\n");
        exit(4);
    }
    int numbers[] = {counts[CACHE_GOOD], counts[CACHE_FOREIGN], (int) t.removed_kernels == 0};
    if (ok) {
        digest_of(out, numbers, sizeof numbers);
    }
    cache_close(c);
}

static void scan_again(struct outcome * out) {
    full_cache();
    scan_all(out);
}

static void get_some(struct outcome * out) {
    get_kernels(4, out);
}

// ---- a graph ----

static char said[512]; // the last line of the log

static void listen(enum ggml_log_level level, const char * text, void * user) {
    (void) user;
    if (level == GGML_LOG_LEVEL_ERROR || level == GGML_LOG_LEVEL_WARN) {
        snprintf(said, sizeof said, "%s", text);
    }
}

static void fill(struct ggml_tensor * t, uint32_t seed) {
    float values[96 * 32];
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float) (seed >> 8) / (float) (1 << 24) - 0.5f;
    }
    ggml_backend_tensor_set(t, values, 0, ggml_nbytes(t));
}

static void compute(ggml_backend_dev_t dev, struct outcome * out) {
    ggml_backend_t stream = ggml_backend_dev_init(dev, NULL);
    if (!stream) {
        out->silent = !said[0];
        return;
    }
    struct ggml_context * ctx = ggml_init((struct ggml_init_params){
        .mem_size = 64 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true});
    struct ggml_tensor * w = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 96, 32);
    struct ggml_tensor * x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 96, 3);
    struct ggml_tensor * y = ggml_mul_mat(ctx, w, ggml_add(ctx, x, x));
    y = ggml_cont(ctx, ggml_transpose(ctx, y));
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);
    bool can = true;
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        can = can && ggml_backend_dev_supports_op(dev, ggml_graph_node(graph, i));
    }
    ggml_backend_buffer_t buffer = can ? ggml_backend_alloc_ctx_tensors(ctx, stream) : NULL;
    if (buffer) {
        fill(w, 1);
        fill(x, 2);
        float result[96];
        if (ggml_backend_graph_compute(stream, graph) == GGML_STATUS_SUCCESS) {
            said[0] = 0;
            ggml_backend_tensor_get(y, result, 0, sizeof result);
            if (!said[0]) { // ggml has no other way to be told
                digest_of(out, result, sizeof result);
            }
        } else {
            out->silent = !said[0];
        }
    }
    ggml_backend_buffer_free(buffer);
    ggml_backend_free(stream);
    ggml_free(ctx);
}

// From the opening of the runtime on.
static void graph_all(struct outcome * out) {
    ggml_backend_reg_t reg = ggml_backend_hsa_reg();
    if (!reg || ggml_backend_reg_dev_count(reg) == 0) {
        out->silent = !said[0];
        return;
    }
    compute(ggml_backend_reg_dev_get(reg, 0), out);
}

// Where no device was found there is none in this process.
static void graph_again(struct outcome * out) {
    ggml_backend_reg_t reg = ggml_backend_hsa_reg();
    if (reg && ggml_backend_reg_dev_count(reg) > 0) {
        compute(ggml_backend_reg_dev_get(reg, 0), out);
    } else {
        out->silent = true; // as told below
    }
}

static void graph_fresh(void) {
    if (!dlopen(EMU_LIBRARY, RTLD_NOW)) { // its calls count, too
        abort();
    }
    ggml_log_set(listen, NULL);
    ggml_free(ggml_init((struct ggml_init_params){.mem_size = 1024})); // ggml's own tables
}

static bool on_aie2(void) {
    setenv("GGML_HSA_EMULATE", "aie2", 1);
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 1);
    setenv("GGML_HSA_HOST_FALLBACK", "0", 1);
    return true;
}

static bool on_aie2p(void) {
    setenv("GGML_HSA_EMU_STRICT", "1", 1);
    return on_aie2() && setenv("GGML_HSA_EMULATE", "aie2p", 1) == 0;
}

// Its code is made once, with memory, and kept in a directory of the build.
static bool on_gpu(void) {
    setenv("CANDLE_ROCM_CACHE_DIR", GPU_CACHE, 1);
    on_aie2();
    setenv("GGML_HSA_EMULATE", "gfx1100", 1);
    char * clang = process_find("clang++-19");
    bool can = clang && clang_has_linker(clang);
    free(clang);
    if (!can) {
        skip_say("no clang++-19 or later with its lld to compile GPU kernels with");
    }
    return can;
}

// ---- a tool ----

static char files[3][128]; // a PDI, its stream, a trace
static enum fail_mode tool_mode;
static uint64_t tool_at, tool_calls;
static uint64_t * tool_noted;

static const char trace_text[] =
    "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
    "{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"npu\"}},\n"
    "{\"ph\":\"M\",\"pid\":1,\"tid\":64,\"name\":\"thread_name\",\"args\":{\"name\":\"core "
    "(0,2)\"}},\n"
    "{\"ph\":\"X\",\"pid\":1,\"tid\":64,\"name\":\"bundles\",\"ts\":1.000,\"dur\":5.000,\"args\":{}"
    "},\n"
    "{\"ph\":\"X\",\"pid\":1,\"tid\":64,\"name\":\"waits: "
    "lock\",\"ts\":6.000,\"dur\":2.500,\"args\":{}}\n"
    "],\"otherData\":{\"time\":\"modelled\",\"clock\":\"phoenix\",\"mhz\":1028}}\n";

// What is run: the words behind the tool's name; @ is one of the files.
static const char * const tools[] = {
    "inspect @0",         "inspect @1",
    "inspect --stats @0", "inspect --svg @0 @1",
    "inspect --svg @2",   "cache stat",
    "cache list",         "cache list --json",
    "cache verify",       "cache trim --max-size 20000 --dry-run",
};
enum { TOOLS = sizeof tools / sizeof tools[0] };
static const char * const passes[] = {"inspect --passes ADD f32 64 --pass loops"};
static const char * const * tool_words = tools;

static void write_file(const char * path, const void * data, size_t size) {
    FILE * f = fopen(path, "w");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0) {
        abort();
    }
}

static bool make_files(void) {
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    struct kernel_code code;
    struct error err;
    static const char * const names[] = {"k.pdi", "k_insts.bin", "trace.json"};
    spec.inputs[0] = spec.inputs[1] = spec.output =
        tensor_contiguous(DTYPE_F32, (const int64_t[4]){64, 1, 1, 1});
    for (int i = 0; i < 3; i++) {
        snprintf(files[i], sizeof files[i], "%s/%s", dir, names[i]);
    }
    if (aie_compile(&spec, &code, &err) != ST_OK) {
        return false;
    }
    write_file(files[0], code.pdi, code.pdi_size);
    write_file(files[1], code.insts, code.n_insts * sizeof *code.insts);
    write_file(files[2], trace_text, sizeof trace_text - 1);
    kernel_code_free(&code);
    full_cache();
    tool_words = tools;
    return true;
}

static bool make_passes(void) {
    tool_words = passes;
    return true;
}

static void tool_argv(char * words, char * argv[16]) {
    int n = 0;
    argv[n++] = TOOL;
    for (char * w = strtok(words, " "); w; w = strtok(NULL, " ")) {
        argv[n++] = *w == '@' ? files[w[1] - '0'] : w;
    }
    argv[n] = NULL;
}

static size_t read_all(int fd, uint8_t * data, size_t most) {
    size_t n = 0;
    for (ssize_t got; n < most && (got = read(fd, data + n, most - n)) > 0;) {
        n += (size_t) got;
    }
    close(fd);
    return n;
}

// Its standard output goes to `result`, what it counted to `count`, complaints to a file.
static void become_tool(const int result[2], const int count[2], const char * complaint) {
    char words[200], at[32], tell[16];
    char * argv[16];
    int quiet = open(complaint, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(result[1], STDOUT_FILENO);
    dup2(quiet, STDERR_FILENO);
    close(result[0]);
    close(result[1]);
    close(count[0]);
    snprintf(words, sizeof words, "%s", tool_words[part]);
    snprintf(at, sizeof at, "%llu", (unsigned long long) tool_at);
    snprintf(tell, sizeof tell, "%d", count[1]);
    setenv("NO_MEMORY_AT", at, 1);
    setenv("NO_MEMORY_TELL", tell, 1);
    if (tool_mode == FAIL_ON) {
        setenv("NO_MEMORY_ON", "1", 1);
    }
    setenv("LD_PRELOAD", NO_MEMORY_LIBRARY, 1);
    tool_argv(words, argv);
    execv(TOOL, argv);
    _exit(127);
}

static void run_tool(struct outcome * out) {
    static uint8_t said_out[1 << 21];
    static uint8_t told[sizeof(uint64_t) * (FAIL_MOST_NOTED + 1)];
    char complaint[200];
    int result[2], count[2];
    snprintf(complaint, sizeof complaint, "%s/complaint-%d", dir, (int) getpid());
    if (pipe(result) != 0 || pipe(count) != 0) {
        abort();
    }
    pid_t pid = fork();
    if (pid == 0) {
        become_tool(result, count, complaint);
    }
    close(result[1]);
    close(count[1]);
    size_t size = read_all(result[0], said_out, sizeof said_out);
    size_t counted = read_all(count[0], told, sizeof told);
    int status = -1;
    waitpid(pid, &status, 0);
    struct stat info = {0};
    stat(complaint, &info);
    unlink(complaint);
    if (WIFSIGNALED(status)) {
        kill(getpid(), WTERMSIG(status)); // as it ended
    }
    if (counted >= sizeof tool_calls && tool_mode == FAIL_NEVER) {
        memcpy(&tool_calls, told, sizeof tool_calls);
        memcpy(tool_noted, told + sizeof tool_calls, counted - sizeof tool_calls);
    }
    if (status == 0) {
        digest_of(out, said_out, size);
    } else {
        out->silent = info.st_size == 0;
    }
}

// Another process would be run, which knows nothing of this one.
static void tool_again(struct outcome * out) {
    out->silent = true;
}

// ---- each call in turn ----

static const struct no_memory_case cases[] = {
    {"compile-aie2", COMPILED, 1, is_aie2, NULL, compile_one, NULL, false},
    {"compile-aie2p", COMPILED, 2, is_aie2p, NULL, compile_one, NULL, false},
    {"scan", 1, 1, NULL, full_cache, scan_all, scan_again, false},
    {"store", 1, 1, NULL, empty_cache, get_some, NULL, false},
    {"graph-aie2", 1, 2, on_aie2, graph_fresh, graph_all, graph_again, false},
    {"graph-aie2p", 1, 4, on_aie2p, graph_fresh, graph_all, graph_again, false},
    {"graph-gfx1100", 1, 1, on_gpu, graph_fresh, graph_all, graph_again, false},
    {"tool", TOOLS, 3, make_files, NULL, run_tool, tool_again, true},
    // Shows thousands of lines each time: whole it would take an hour.
    {"tool-passes", 1, 6, make_passes, NULL, run_tool, tool_again, true},
    {0},
};

struct shared { // with each process
    uint64_t calls;
    struct outcome first, second;
    uint64_t noted[FAIL_MOST_NOTED];
};

static void child(const struct no_memory_case * c, enum fail_mode mode, uint64_t n,
                  struct shared * r) {
    alarm(120);
    if (c->fresh) {
        c->fresh();
    }
    if (c->is_tool) {
        tool_mode = mode;
        tool_at = mode == FAIL_NEVER ? 0 : n;
        tool_noted = r->noted;
        c->run(&r->first);
        r->calls = tool_calls;
    } else {
        fail_learn(true);
        fail_noted = r->noted;
        fail_begin(mode, n);
        c->run(&r->first);
        r->calls = fail_end();
    }
    (c->again ? c->again : c->run)(&r->second);
    exit(0); // as programs do
}

static bool same(const struct outcome * a, const struct outcome * b) {
    return !memcmp(a->digest, b->digest, sizeof a->digest);
}

static const char * run_one(const struct no_memory_case * c, enum fail_mode mode, uint64_t n,
                            struct shared * r, int * status) {
    r->calls = 0;
    r->first = r->second = (struct outcome){0};
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        child(c, mode, n, r);
    }
    *status = -1;
    waitpid(pid, status, 0);
    return WIFSIGNALED(*status) && WTERMSIG(*status) == SIGALRM ? "hangs"
           : WIFSIGNALED(*status)                               ? "crashes"
           : *status != 0                                       ? "ends badly"
           : !r->first.done && r->first.silent                  ? "says nothing"
           : !r->second.done && !r->second.silent               ? "does not work again"
                                                                : NULL;
}

// Has a call come the same way before, in this part or another one?
static bool is_known(uint64_t way) {
    static uint64_t known[FAIL_MOST_NOTED];
    static size_t n;
    size_t i = 0;
    while (i < n && known[i] != way) {
        i++;
    }
    if (i == n && n < FAIL_MOST_NOTED) {
        known[n++] = way;
        return false;
    }
    return true;
}

static const char * compare(const struct shared * r, const struct outcome * want) {
    return r->first.done && !same(&r->first, want)     ? "is wrong"
           : r->second.done && !same(&r->second, want) ? "is wrong later"
                                                       : NULL;
}

struct sum {
    uint64_t calls, ways, runs, wrong;
};

static bool run_part(const struct no_memory_case * c, bool is_short, struct shared * shared,
                     struct sum * sum) {
    int status;
    const char * wrong = run_one(c, FAIL_NEVER, 0, shared, &status);
    struct outcome want = shared->first;
    uint64_t calls = shared->calls;
    if (wrong || !want.done || !calls) {
        printf("no-memory %s: with memory it %s\n", c->name, wrong ? wrong : "does nothing");
        return false;
    }
    sum->calls += calls;
    for (uint64_t n = 1; n <= calls; n++) {
        if (is_short && ((n <= FAIL_MOST_NOTED && is_known(shared->noted[n - 1])) ||
                         sum->ways++ % (uint64_t) c->every)) {
            continue;
        }
        // In the short form one or the other.
        int from = is_short && sum->runs % 2 ? FAIL_ON : FAIL_ONCE;
        int to = is_short && sum->runs % 2 == 0 ? FAIL_ONCE : FAIL_ON;
        for (int mode = from; mode <= to; mode++) {
            wrong = run_one(c, (enum fail_mode) mode, n, shared, &status);
            wrong = wrong ? wrong : compare(shared, &want);
            sum->runs++;
            if (wrong) {
                sum->wrong++;
                printf("no-memory %s, part %d: %s without memory at call %llu%s (status %x)\n",
                       c->name, part, wrong, (unsigned long long) n,
                       mode == FAIL_ON ? " and behind it" : "", (unsigned) status);
            }
        }
    }
    return true;
}

static int run_case(const struct no_memory_case * c, bool is_short, struct shared * shared) {
    struct sum sum = {0};
    bool ran = true;
    if (c->prepare && !c->prepare()) {
        return SKIPPED;
    }
    for (part = 0; part < c->parts; part++) {
        ran = run_part(c, is_short, shared, &sum) && ran;
    }
    printf("no-memory %s: %llu calls, %llu runs, %llu wrong\n", c->name,
           (unsigned long long) sum.calls, (unsigned long long) sum.runs,
           (unsigned long long) sum.wrong);
    return !ran || sum.wrong;
}

static int remove_one(const char * path, const struct stat * info, int kind, struct FTW * at) {
    (void) info, (void) kind, (void) at;
    return remove(path) != 0 ? 0 : 0;
}

int main(int argc, char ** argv) {
    bool is_short = argc > 2 && !strcmp(argv[2], "short");
    struct shared * shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 2 && !strcmp(argv[1], "list")) {
        for (const struct no_memory_case * c = cases; c->name; c++) {
            if (c->prepare != make_passes) {
                puts(c->name);
            }
        }
        return 0;
    }
    if (argc < 2 || (argc == 3 && !is_short) || argc == 4 || shared == MAP_FAILED) {
        fprintf(stderr, "usage: no-memory CASE|all|list [short]\n"
                        "       no-memory CASE at PART CALL [on]    that one, for a debugger\n");
        return 2;
    }
    if (!mkdtemp(dir) && !mkdtemp(strcpy(dir, "/tmp/no-memory-XXXXXX"))) {
        return 2;
    }
    int status = 0, ran = 0;
    for (const struct no_memory_case * c = cases; c->name && argc > 4; c++) {
        if (!strcmp(argv[1], c->name) && (!c->prepare || c->prepare())) {
            part = atoi(argv[3]);
            child(c, argc > 5 ? FAIL_ON : FAIL_ONCE, strtoull(argv[4], NULL, 10), shared);
        }
    }
    for (const struct no_memory_case * c = cases; c->name; c++) {
        if ((!strcmp(argv[1], "all") && c->prepare != make_passes) || !strcmp(argv[1], c->name)) {
            int one = run_case(c, is_short, shared);
            status = status > one && status != SKIPPED ? status : one;
            ran++;
        }
    }
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return !ran ? 2 : status == SKIPPED && !is_short ? 0 : status;
}
