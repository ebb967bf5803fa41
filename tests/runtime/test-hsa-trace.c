// GGML_HSA_TRACE: the file that the emulated runtime writes is read back and held against the
// format (Chrome's trace events): every event has its fields with their types, events of one thread
// follow one another, names are there, and what it says of time is what the account says.
#include "rig.h"

#include "aie/aie.h"
#include "base/json.h"
#include "hsa/hsac.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ELEMENTS = 4096, DISPATCHES = 3, MOST_THREADS = 8192 };

static char directory[] = "/tmp/test-trace-XXXXXX";

static int make_directory(void ** state) {
    (void) state;
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void ** state) {
    (void) state;
    return rmdir(directory); // nothing is left behind in it
}

static void must(enum status st, const struct error * err) {
    if (st != ST_OK) {
        fail_msg("%s", err->text);
    }
}

static struct kernel_spec add_spec(void) {
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    spec.inputs[0] = spec.inputs[1] = spec.output =
        tensor_contiguous(DTYPE_F32, (const int64_t[TENSOR_DIMS]){ELEMENTS, 1, 1, 1});
    return spec;
}

// Through memtiles, on all cores.
static struct kernel_spec product_spec(void) {
    return (struct kernel_spec){
        .op = KERNEL_OP_MUL_MAT,
        .arch = AIE_ARCH_AIE2,
        .n_inputs = 2,
        .inputs = {tensor_contiguous(DTYPE_BF16, (const int64_t[]){784, 100, 1, 1}),
                   tensor_contiguous(DTYPE_BF16, (const int64_t[]){784, 100, 1, 1})},
        .output = tensor_contiguous(DTYPE_F32, (const int64_t[]){100, 100, 1, 1}),
    };
}

// Runs a kernel of ours a few times and tells where its time went. Closes the runtime.
static void run_kernel(const char * path, struct kernel_spec spec, struct hsac_account * account) {
    struct error err = {0};
    struct hsac * h;
    rig_env("aie2", NULL, NULL);
    setenv("GGML_HSA_TRACE", path, 1);
    must(hsac_open(&h, &err), &err);
    struct hsac_agent * agent = hsac_agent_get(h, 0);
    struct kernel_code code;
    must(aie_compile(&spec, &code, &err), &err);
    struct hsac_queue * q;
    must(hsac_queue_new(agent, &q, &err), &err);
    void *pdi = hsac_alloc(agent, HSAC_POOL_DEV, code.pdi_size),
         *insts = hsac_alloc(agent, HSAC_POOL_STREAM, 4 * code.n_insts);
    assert_true(pdi && insts);
    memcpy(pdi, code.pdi, code.pdi_size);
    memcpy(insts, code.insts, 4 * code.n_insts);
    struct hsac_dispatch d = {.pdi = pdi,
                              .pdi_size = code.pdi_size,
                              .insts = insts,
                              .n_insts = (uint32_t) code.n_insts,
                              .n_operands = 3};
    for (int i = 0; i < 3; i++) {
        size_t size = (size_t) tensor_bytes(i < 2 ? &spec.inputs[i] : &spec.output);
        d.operands[i].addr = hsac_alloc(agent, HSAC_POOL_DATA, size);
        d.operands[i].size = size;
        assert_non_null(d.operands[i].addr);
        memset(d.operands[i].addr, 0, size);
    }
    for (int i = 0; i < DISPATCHES; i++) {
        must(hsac_queue_dispatch(q, &d, &err), &err);
        if (i != 1) { // two in a batch, then one
            must(hsac_queue_wait(q, &err), &err);
        }
    }
    must(hsac_queue_wait(q, &err), &err);
    assert_true(hsac_agent_account(agent, account));
    kernel_code_free(&code);
    hsac_queue_free(q);
    hsac_close(h);
    unsetenv("GGML_HSA_TRACE");
}

// A number of the event in nanoseconds.
static int64_t ns(const json_t * event, const char * key) {
    const json_t * v = json_object_get(event, key);
    if (!json_is_real(v) || json_real_value(v) < 0) {
        fail_msg("an event's '%s' is no number with a fraction, from 0 on", key);
    }
    return (int64_t) (json_real_value(v) * 1000 + 0.5);
}

static int whole(const json_t * event, const char * key) {
    const json_t * v = json_object_get(event, key);
    assert_true(json_is_integer(v));
    return (int) json_integer_value(v);
}

static const char * text(const json_t * event, const char * key) {
    const char * s = json_string_value(json_object_get(event, key));
    assert_true(s && *s);
    return s;
}

struct seen {
    int64_t end[MOST_THREADS];
    bool named[MOST_THREADS];
    int slices, dispatches, hosts, loads, marks, cores, controls;
    int64_t last;
};

static void check_slice(struct seen * s, const json_t * e) {
    int tid = whole(e, "tid");
    int64_t start = ns(e, "ts"), end = start + ns(e, "dur");
    const char * name = text(e, "name");
    assert_true(tid > 0 && tid < MOST_THREADS);
    assert_true(s->named[tid]);
    if (start < s->end[tid]) {
        fail_msg("'%s' of thread %d begins at %lld ns, before the one before it ends at %lld", name,
                 tid, (long long) start, (long long) s->end[tid]);
    }
    s->end[tid] = end;
    s->last = end > s->last ? end : s->last;
    assert_true(json_is_object(json_object_get(e, "args")));
    assert_true(whole(json_object_get(e, "args"), "cycles") > 0);
    s->slices++;
    s->dispatches += !strcmp(name, "dispatch");
    s->hosts += !strcmp(name, "host and driver");
    s->loads += !strcmp(name, "PDI is loaded");
    s->cores += !strcmp(name, "bundles");
    s->controls += !strcmp(name, "sync");
}

static void check_trace(struct kernel_spec spec) {
    char path[64];
    struct error err = {0};
    struct hsac_account account;
    snprintf(path, sizeof path, "%s/trace.json", directory);
    run_kernel(path, spec, &account);
    json_t * trace;
    must(json_read_file(path, &trace, &err), &err);
    const json_t * events = json_object_get(trace, "traceEvents");
    assert_true(json_is_array(events));
    struct seen * s = calloc(1, sizeof *s);
    assert_non_null(s);
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t * e = json_array_get(events, i);
        const char * ph = text(e, "ph");
        assert_int_equal(whole(e, "pid"), 1); // the agent behind the CPU
        if (!strcmp(ph, "M")) {
            const json_t * args = json_object_get(e, "args");
            if (!strcmp(text(e, "name"), "thread_name")) {
                text(args, "name");
                assert_false(s->named[whole(e, "tid")]); // once
                s->named[whole(e, "tid")] = true;
            }
        } else if (!strcmp(ph, "C")) {
            ns(e, "ts");
            assert_true(json_is_integer(json_object_get(json_object_get(e, "args"), "value")));
        } else if (!strcmp(ph, "i")) { // where the slice of the same PDI ended
            assert_string_equal(text(e, "name"), "PDI load");
            assert_int_equal(ns(e, "ts"), s->end[whole(e, "tid")]);
            s->marks++;
        } else {
            assert_string_equal(ph, "X");
            check_slice(s, e);
        }
    }
    assert_int_equal(s->dispatches, DISPATCHES);
    assert_int_equal(s->hosts, DISPATCHES);
    assert_int_equal(s->loads, 1); // one PDI
    assert_int_equal(s->marks, 1);
    assert_true(s->cores >= 4 && s->controls > 0);
    // The last thing is the end of a dispatch, or what the array does behind it.
    assert_true(s->last >= (int64_t) account.ns - 2 && s->last < (int64_t) account.ns * 3 / 2);
    const json_t * other = json_object_get(trace, "otherData");
    assert_string_equal(text(other, "clock"), "phoenix");
    assert_string_equal(text(other, "time"), "modelled");
    assert_null(json_object_get(other, "note"));
    free(s);
    json_decref(trace);
    unlink(path);
}

static void format_and_time(void ** state) {
    (void) state;
    check_trace(add_spec());
    check_trace(product_spec());
}

// A place where nothing can be written: the program runs on as if nobody had asked.
static void bad_paths(void ** state) {
    (void) state;
    struct hsac_account account;
    char path[64];
    run_kernel("/nonexistent/trace.json", add_spec(), &account);
    assert_int_equal(account.dispatches, DISPATCHES);
    run_kernel("/proc/trace.json", add_spec(), &account);
    assert_int_equal(account.dispatches, DISPATCHES);
    // A directory stands where the file should: it stays, and nothing else is left.
    snprintf(path, sizeof path, "%s/taken", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    run_kernel(path, add_spec(), &account);
    assert_int_equal(account.dispatches, DISPATCHES);
    assert_int_equal(rmdir(path), 0);
}

// The trace grows beyond what the process may write into one file: it is dropped, and the kernels
// run.
static void small_files(void ** state) {
    (void) state;
    char path[64];
    snprintf(path, sizeof path, "%s/small.json", directory);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct hsac_account account = {0};
        struct rlimit limit = {4096, RLIM_INFINITY};
        setrlimit(RLIMIT_FSIZE, &limit);
        run_kernel(path, product_spec(), &account);
        _exit(account.dispatches != DISPATCHES);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_not_equal(access(path, F_OK), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(format_and_time),
                                       cmocka_unit_test(bad_paths), cmocka_unit_test(small_files)};
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
