// The timeline fed by hand: where events lie when dispatches follow one another, what is put
// together, and that the file never holds more than its bound.
#include "base/cmocka-all.h"
#include "base/json.h"
#include "base/stand-ins.h"
#include "runtime/timeline.h"

#include <unistd.h>

static char path[] = "/tmp/test-timeline-XXXXXX";
static struct rt_runtime rt;
static struct rt_agent * agent;

static char said[1024];
static bool may_complain;

void rt_say(const char * fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(said, sizeof said, fmt, args);
    va_end(args);
    if (!may_complain) {
        fail_msg("%s", said);
    }
}

static void * resolve(void * user, uint64_t addr, uint64_t len, bool write) {
    (void) user;
    (void) addr;
    (void) len;
    (void) write;
    return NULL;
}

static void begin(void) {
    struct error err = {0};
    const struct emu_config config = {
        .arch = AIE_ARCH_AIE2, .columns = 4, .resolve = resolve, .trace_col = -1, .trace_row = -1};
    agent = &rt.agents[1];
    *agent = (struct rt_agent){.rt = &rt, .node = 1, .name = "aie2", .product = "npu"};
    assert_int_equal(emu_machine_new(&config, &agent->machine, &err), ST_OK);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    setenv("GGML_HSA_TRACE", path, 1);
    rt.timeline = rt_timeline_new();
    assert_non_null(rt.timeline);
}

// The file as it was written; it is gone then.
static json_t * end(void) {
    struct error err = {0};
    json_t * root;
    rt_timeline_free(rt.timeline);
    emu_machine_free(agent->machine);
    if (json_read_file(path, &root, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    unlink(path);
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    return root;
}

static void core(enum emu_event_kind kind, uint64_t start, uint64_t stop) {
    const struct emu_event e = {.kind = kind,
                                .col = 0,
                                .row = 2,
                                .channel = -1,
                                .what = kind == EMU_EVENT_WAIT ? "lock" : "bundles",
                                .start = start,
                                .end = stop};
    rt_timeline_event(agent, &e);
}

static void dispatched(uint64_t start, uint64_t stop) {
    const struct emu_event e = {.kind = EMU_EVENT_DISPATCH,
                                .col = -1,
                                .row = -1,
                                .what = "dispatch",
                                .start = start,
                                .end = stop};
    rt_timeline_event(agent, &e);
    rt_timeline_dispatched(agent);
}

// The n-th slice, of all threads but the host's.
static const json_t * slice(const json_t * root, int n) {
    const json_t * events = json_object_get(root, "traceEvents");
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t * e = json_array_get(events, i);
        if (!strcmp(json_string_value(json_object_get(e, "ph")), "X") && n-- == 0) {
            return e;
        }
    }
    fail_msg("no slice %d", n);
    return NULL;
}

// Cycles of the clock, 1028 in a microsecond, from its nanoseconds.
static void check(const json_t * e, const char * name, uint64_t from, uint64_t to) {
    assert_string_equal(json_string_value(json_object_get(e, "name")), name);
    uint64_t start = (uint64_t) (json_real_value(json_object_get(e, "ts")) * 1000 + 0.5),
             length = (uint64_t) (json_real_value(json_object_get(e, "dur")) * 1000 + 0.5);
    assert_int_equal(start, from * 1000 / 1028);
    assert_int_equal(start + length, to * 1000 / 1028);
}

static void places(void ** state) {
    (void) state;
    begin();
    // Waits that follow one another are one.
    core(EMU_EVENT_CORE, 0, 100);
    core(EMU_EVENT_WAIT, 100, 150);
    core(EMU_EVENT_WAIT, 150, 400);
    core(EMU_EVENT_CORE, 400, 500);
    dispatched(0, 450);
    // The array rested from 500 on; the next dispatch comes at 1000 of the machine's clock, and no
    // time passed between for anyone who waits: its work begins where the last one's ended.
    core(EMU_EVENT_WAIT, 500, 1010);
    core(EMU_EVENT_CORE, 1010, 1100);
    dispatched(1000, 1100);
    json_t * root = end();
    check(slice(root, 0), "bundles", 0, 100);
    check(slice(root, 1), "waits: lock", 100, 400);
    check(slice(root, 2), "bundles", 400, 500);
    check(slice(root, 3), "dispatch", 0, 450);
    check(slice(root, 4), "waits: lock", 500, 510);
    check(slice(root, 5), "bundles", 510, 600);
    check(slice(root, 6), "dispatch", 500, 600);
    assert_null(json_object_get(json_object_get(root, "otherData"), "note"));
    json_decref(root);
}

// A dispatch has the name that it was given, once; what was done for it says so. Names come from
// programs: none of their bytes ends the file's syntax.
static void names(void ** state) {
    (void) state;
    begin();
    rt_timeline_name(agent, 0, "MUL_MAT \"up\"\t\xc3\nmul_mat_bf16, and more\\");
    core(EMU_EVENT_CORE, 0, 100);
    dispatched(0, 450); // of a machine that has counted none
    dispatched(450, 500);
    json_t * root = end();
    const json_t *first = slice(root, 0), *whole = slice(root, 1), *next = slice(root, 2);
    check(first, "bundles", 0, 100);
    const char * of = json_string_value(json_object_get(json_object_get(first, "args"), "of"));
    assert_string_equal(of, "MUL_MAT ?up???");
    check(whole, "MUL_MAT ?up???", 0, 450);
    assert_string_equal(json_string_value(json_object_get(whole, "cat")), "dispatch");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(whole, "args"), "kernels")),
        "mul_mat_bf16, and more?");
    check(next, "dispatch", 450, 500);
    rt_timeline_name(agent, 7, "never run");
    rt_timeline_forget(agent);
    json_decref(root);
}

static void bounded(void ** state) {
    (void) state;
    begin();
    for (uint64_t d = 0; d < 3; d++) {
        for (uint64_t i = 0; i < 59; i++) {
            core(EMU_EVENT_CORE, 1000 * d + 10 * i, 1000 * d + 10 * i + 5);
        }
        dispatched(1000 * d, 1000 * d + 600);
    }
    json_t * root = end();
    const json_t * events = json_object_get(root, "traceEvents");
    int n = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        n += strcmp(json_string_value(json_object_get(json_array_get(events, i), "ph")), "M") != 0;
    }
    assert_int_equal(n, 100);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(root, "otherData"), "note")),
        "stopped after 100 events, 80 were left out");
    json_decref(root);
}

// What is no regular file stays as it is, and the program is told.
static void no_file(void ** state) {
    (void) state;
    char dir[] = "/tmp/test-timeline-XXXXXX", at[64];
    assert_non_null(mkdtemp(dir));
    snprintf(at, sizeof at, "%s/trace.json", dir);
    may_complain = true;
    for (int kind = 0; stand_ins[kind]; kind++) {
        struct stand_in s;
        if (!stand_in_make(&s, kind, at)) {
            continue;
        }
        said[0] = 0;
        setenv("GGML_HSA_TRACE", at, 1);
        rt_timeline_free(rt_timeline_new());
        stand_in_check(&s, kind, "GGML_HSA_TRACE");
        if (!strstr(said, at) || !strstr(said, "regular file")) {
            fail_msg("%s: '%s' was said", stand_ins[kind], said);
        }
    }
    may_complain = false;
    unsetenv("GGML_HSA_TRACE");
    assert_int_equal(rmdir(dir), 0); // nothing is left
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(places), cmocka_unit_test(names),
                                       cmocka_unit_test(bounded), cmocka_unit_test(no_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
