// test-threads: on how many host threads the cores run changes nothing. The same dispatches, one
// after the other, on machines with one thread and with several: results, modelled cycles and all
// counters must agree, to the last bit, also where the array gives up; and a process that was
// forked goes on with threads of its own.
#include "kernel-rig.h"
#include "skip.h"

#include <sys/wait.h>
#include <unistd.h>

enum { MACHINES = 3 };
static const int threads_of[MACHINES] = {1, 2, 4};

static const struct shape {
    enum kernel_op op;
    enum dtype in, out;
    int64_t a[2], b[2], c[2];
} shapes[] = {
    {KERNEL_OP_MUL_MAT, DTYPE_BF16, DTYPE_F32, {256, 128}, {256, 96}, {128, 96}},
    {KERNEL_OP_MUL_MAT, DTYPE_I8, DTYPE_I32, {512, 64}, {512, 64}, {64, 64}},
    {KERNEL_OP_MUL_MAT, DTYPE_I16, DTYPE_I32, {256, 64}, {256, 64}, {64, 64}},
    {KERNEL_OP_MUL_MAT, DTYPE_BF16, DTYPE_F32, {512, 256}, {512, 1}, {256, 1}},
    {KERNEL_OP_ADD, DTYPE_F32, DTYPE_F32, {3000, 7}, {3000, 7}, {3000, 7}},
    {KERNEL_OP_MUL_MAT, DTYPE_BF16, DTYPE_F32, {784, 100}, {784, 50}, {100, 50}},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static struct kernel_spec spec_of(const struct shape * s) {
    return (struct kernel_spec){
        .op = s->op,
        .arch = AIE_ARCH_AIE2,
        .n_inputs = 2,
        .inputs = {tensor_contiguous(s->in, (const int64_t[4]){s->a[0], s->a[1], 1, 1}),
                   tensor_contiguous(s->in, (const int64_t[4]){s->b[0], s->b[1], 1, 1})},
        .output = tensor_contiguous(s->out, (const int64_t[4]){s->c[0], s->c[1], 1, 1}),
    };
}

// Numbers near 1 in bf16 and f32, any in integers.
static void fill(struct rig * r) {
    uint32_t seed = 99;
    for (int i = 0; i < r->n - 1; i++) {
        for (size_t at = 0; at + RIG_GUARD < r->size[i]; at += 2) {
            seed = seed * 1664525 + 1013904223;
            uint16_t v = (uint16_t) (0x3f00 | (seed >> 16 & 0x80ff));
            memcpy(r->data[i] + at, &v, 2);
        }
    }
}

static void open_with(struct rig * r, int threads, uint64_t max_cycles) {
    struct error err = {0};
    struct emu_config config = {.arch = AIE_ARCH_AIE2,
                                .columns = 4,
                                .resolve = rig_resolve,
                                .user = r,
                                .max_cycles = max_cycles,
                                .strict = true,
                                .threads = threads,
                                .trace_col = -1,
                                .trace_row = -1};
    *r = (struct rig){0};
    assert_int_equal(emu_machine_new(&config, &r->machine, &err), ST_OK);
}

static struct kernel_code compile(const struct kernel_spec * spec) {
    struct kernel_code code = {0};
    struct error err = {0};
    if (aie_compile(spec, &code, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    return code;
}

// How many cycles it may take is not asked here.
static enum status run(struct rig * r, const struct kernel_spec * spec,
                       const struct kernel_code * code, struct error * err) {
    struct emu_operand operands[RIG_MAX];
    for (int i = 0; i < r->n; i++) {
        operands[i] = (struct emu_operand){(uint64_t) (uintptr_t) r->data[i],
                                           (uint64_t) tensor_bytes(rig_tensor(spec, i))};
    }
    return emu_machine_run(r->machine, code->pdi, code->pdi_size, code->insts, code->n_insts,
                           operands, r->n, err);
}

static void run_ok(struct rig * r, const struct kernel_spec * spec,
                   const struct kernel_code * code) {
    struct error err = {0};
    if (run(r, spec, code, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
}

// All shapes in turn, twice; the outputs one after the other, malloc'ed.
static uint8_t * play(int threads, struct emu_counters * counters, size_t * bytes) {
    struct rig r;
    uint8_t * all = NULL;
    open_with(&r, threads, 0);
    *bytes = 0;
    for (int i = 0; i < 2 * SHAPES; i++) {
        struct kernel_spec spec = spec_of(&shapes[i % SHAPES]);
        struct kernel_code code = compile(&spec);
        rig_allocate(&r, &spec);
        fill(&r);
        run_ok(&r, &spec, &code);
        size_t n = (size_t) tensor_bytes(&spec.output);
        all = realloc(all, *bytes + n);
        assert_non_null(all);
        memcpy(all + *bytes, r.data[2], n);
        *bytes += n;
        rig_free(&r);
        kernel_code_free(&code);
        emu_machine_counters(r.machine, &counters[i]);
    }
    rig_close(&r);
    return all;
}

static void same_for_any_number(void ** state) {
    (void) state;
    struct emu_counters counters[MACHINES][2 * SHAPES];
    uint8_t * out[MACHINES];
    size_t bytes[MACHINES];
    memset(counters, 0, sizeof counters);
    for (int m = 0; m < MACHINES; m++) {
        out[m] = play(threads_of[m], counters[m], &bytes[m]);
    }
    for (int m = 1; m < MACHINES; m++) {
        assert_memory_equal(out[0], out[m], bytes[0]);
        for (int i = 0; i < 2 * SHAPES; i++) {
            assert_int_equal(counters[0][i].last_cycles, counters[m][i].last_cycles);
            assert_memory_equal(&counters[0][i], &counters[m][i], sizeof counters[0][i]);
        }
    }
    for (int m = 0; m < MACHINES; m++) {
        free(out[m]);
    }
}

// Given up in the middle of the work, while cores run ahead: after the same number of bundles.
static void given_up_alike(void ** state) {
    (void) state;
    struct kernel_spec spec = spec_of(&shapes[0]);
    struct kernel_code code = compile(&spec);
    static const uint64_t limits[] = {700, 4000, 9000};
    for (int i = 0; i < 3; i++) {
        struct error errors[MACHINES];
        struct emu_counters counters[MACHINES];
        memset(errors, 0, sizeof errors);
        memset(counters, 0, sizeof counters);
        for (int m = 0; m < MACHINES; m++) {
            struct rig r;
            open_with(&r, threads_of[m], limits[i]);
            rig_allocate(&r, &spec);
            fill(&r);
            assert_int_equal(run(&r, &spec, &code, &errors[m]), ST_DEVICE);
            emu_machine_counters(r.machine, &counters[m]);
            rig_free(&r);
            rig_close(&r);
            assert_string_equal(errors[m].text, errors[0].text);
            assert_memory_equal(&counters[m], &counters[0], sizeof counters[0]);
        }
    }
    kernel_code_free(&code);
}

// The threads of the parent are not in the child, which must neither wait for them nor end them.
static void forked_child_goes_on(void ** state) {
    (void) state;
#if defined(__SANITIZE_THREAD__)
    skip_test("ThreadSanitizer follows no threads of a forked process");
#endif
    struct kernel_spec spec = spec_of(&shapes[0]);
    struct kernel_code code = compile(&spec);
    struct rig r;
    open_with(&r, 4, 0);
    rig_allocate(&r, &spec);
    fill(&r);
    run_ok(&r, &spec, &code);
    size_t n = (size_t) tensor_bytes(&spec.output);
    uint8_t * want = malloc(n);
    assert_non_null(want);
    memcpy(want, r.data[2], n);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(120); // a child that hangs is a failure, not a test without end
        memset(r.data[2], 0, n);
        run_ok(&r, &spec, &code);
        bool ok = memcmp(want, r.data[2], n) == 0;
        rig_close(&r);
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    run_ok(&r, &spec, &code); // and the parent still has its own
    assert_memory_equal(want, r.data[2], n);
    free(want);
    rig_free(&r);
    rig_close(&r);
    kernel_code_free(&code);
}

static void refused(const char * value) {
    struct emu_machine * m = NULL;
    struct error err = {0};
    struct emu_config config = {.arch = AIE_ARCH_AIE2,
                                .columns = 4,
                                .resolve = rig_resolve,
                                .trace_col = -1,
                                .trace_row = -1};
    setenv("GGML_HSA_EMU_THREADS", value, 1);
    assert_int_equal(emu_machine_new(&config, &m, &err), ST_INVALID);
    assert_non_null(strstr(err.text, "GGML_HSA_EMU_THREADS="));
    setenv("GGML_HSA_EMU_THREADS", "3", 1);
    assert_int_equal(emu_machine_new(&config, &m, &err), ST_OK);
    emu_machine_free(m);
    unsetenv("GGML_HSA_EMU_THREADS");
}

static void setting(void ** state) {
    (void) state;
    refused("0");
    refused("two");
    refused("2x");
    refused("99");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_for_any_number),
        cmocka_unit_test(given_up_alike),
        cmocka_unit_test(forked_child_goes_on),
        cmocka_unit_test(setting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
