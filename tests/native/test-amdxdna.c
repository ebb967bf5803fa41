// test-amdxdna: the client of the kernel's driver, on the driver that is played: devices told
// apart, the heap's ledger, commands in chains, and what each way to fail looks like. The library
// that plays it is linked before libc, so that open, ioctl and mmap here are its own.
#include "base/cmocka-all.h"

#include "aie/aie.h"
#include "amdxdna/amdxdna.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { ELEMENTS = 1024, BYTES = 4 * ELEMENTS, PLACE = 32 << 10, CHUNK = 64 << 20 };

// Settings for the next open; the others have their defaults.
static void settings(const char * name, ...) {
    static const char * const all[] = {"KERNEL",      "DEVICE", "HEAP_BYTES", "CHAIN_BYTES",
                                       "WATCHDOG_MS", "FAIL",   "CONTEXTS",   "FIRMWARE"};
    char variable[64];
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        snprintf(variable, sizeof variable, "ACCEL_EMU_%s", all[i]);
        unsetenv(variable);
    }
    setenv("ACCEL_EMU_QUIET", "1", 1);
    setenv("ACCEL_EMU_CACHES", "1", 1); // of AMD's old module they are not played
    va_list args;
    va_start(args, name);
    for (; name; name = va_arg(args, const char *)) {
        snprintf(variable, sizeof variable, "ACCEL_EMU_%s", name);
        setenv(variable, va_arg(args, const char *), 1);
    }
    va_end(args);
}

static void must(enum status st, const struct error * err) {
    if (st != ST_OK) {
        fail_msg("%s", err->text);
    }
}

static struct amdxdna * open_device(void) {
    struct amdxdna * d;
    struct error err = {0};
    must(amdxdna_open(0, &d, &err), &err);
    return d;
}

// ---- devices ----

static void test_told_apart(void ** state) {
    (void) state;
    static const struct {
        const char *kernel, *device, *arch;
        bool legacy;
        unsigned columns;
        uint64_t heap;
    } rows[] = {
        {"legacy", "npu1", "aie2", true, 5, CHUNK},
        {"6.14", "npu1", "aie2", false, 5, CHUNK},
        {"7.2", "npu1", "aie2", false, 5, CHUNK},
        {"7.0", "npu4", "aie2p", false, 8, CHUNK},
        {"7.2", "npu4", "aie2p", false, 8, 8u * CHUNK},
        {"7.2", "npu5", "aie2p", false, 8, 8u * CHUNK},
        {"7.2", "npu6", "aie2p", false, 8, 8u * CHUNK},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct amdxdna_info info;
        struct error err = {0};
        char text[96];
        settings("KERNEL", rows[i].kernel, "DEVICE", rows[i].device, NULL);
        must(amdxdna_probe(0, &info, &err), &err);
        assert_string_equal(info.model->device, rows[i].device);
        assert_string_equal(info.model->arch, rows[i].arch);
        assert_int_equal(info.legacy, rows[i].legacy);
        assert_int_equal(info.columns, rows[i].columns);
        amdxdna_describe(&info, text, sizeof text);
        assert_non_null(
            strstr(text, rows[i].legacy ? "amdxdna 1.0 (AMD's old module)" : "(Linux)"));
        struct amdxdna * d = open_device();
        assert_int_equal(amdxdna_heap_limit(d), rows[i].heap);
        must(amdxdna_check(d, &err), &err);
        struct amdxdna_state now;
        amdxdna_state(d, &now);
        assert_true(now.array_mhz > 0 && now.contexts_max > 0);
        amdxdna_close(d);
        assert_int_equal(amdxdna_probe(1, &info, &err), ST_NOT_FOUND);
    }
}

// ---- buffers ----

static void test_buffers(void ** state) {
    (void) state;
    settings(NULL, NULL);
    struct amdxdna * d = open_device();
    struct amdxdna_buffer share, dev;
    struct error err = {0};
    must(amdxdna_buffer_new(d, XDNA_BO_SHARE, 5000, &share, &err), &err);
    assert_int_equal(share.size, 8192);
    assert_int_equal(share.device, (uintptr_t) share.host);
    must(amdxdna_buffer_new(d, XDNA_BO_DEV, 100, &dev, &err), &err);
    assert_true(dev.device >= 0x04000000 && dev.device % PLACE == 0);
    assert_int_equal((uintptr_t) dev.host % CHUNK, dev.device - 0x04000000);
    memset(dev.host, 7, 100);
    memset(share.host, 7, 5000);
    // For another driver: what has pages of its own, and not the heap.
    int fd = -1;
    must(amdxdna_buffer_export(d, &share, &fd, &err), &err);
    assert_true(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    assert_int_equal(close(fd), 0);
    fd = 55;
    assert_int_not_equal(amdxdna_buffer_export(d, &dev, &fd, &err), ST_OK);
    assert_non_null(strstr(err.text, "PRIME_HANDLE_TO_FD"));
    assert_int_equal(fd, 55);
    assert_int_equal(amdxdna_buffer_new(d, XDNA_BO_SHARE, 0, &share, &err), ST_INVALID);
    amdxdna_buffer_free(d, &share);
    amdxdna_buffer_free(d, &dev);
    amdxdna_buffer_free(d, &dev); // nothing is left of it
    amdxdna_close(d);
}

// The heap is full, says so, and has room for a context still; what is given back can be had again.
static void fill(uint64_t piece, uint64_t limit) {
    enum { MOST = 600 };
    static struct amdxdna_buffer b[MOST];
    struct amdxdna * d = open_device();
    struct amdxdna_context * x;
    struct amdxdna_counts counts;
    struct error err = {0};
    size_t n = 0;
    while (n < MOST && amdxdna_buffer_new(d, XDNA_BO_DEV, piece, &b[n], &err) == ST_OK) {
        n++;
    }
    assert_int_equal(err.status, ST_NO_MEMORY);
    assert_non_null(strstr(err.text, "heap"));
    assert_true(n * piece > limit - 2 * piece && n * piece < limit);
    amdxdna_counts(d, &counts);
    assert_int_equal(counts.heap_bytes, n * piece);
    must(amdxdna_context_new(d, &b[0], 1, &x, &err), &err);
    amdxdna_context_free(x);
    assert_int_equal(amdxdna_buffer_new(d, XDNA_BO_DEV, 2 * limit, &b[n], &err), ST_NO_MEMORY);
    amdxdna_buffer_free(d, &b[n / 2]);
    must(amdxdna_buffer_new(d, XDNA_BO_DEV, piece, &b[n / 2], &err), &err);
    while (n > 0) {
        amdxdna_buffer_free(d, &b[--n]);
    }
    amdxdna_counts(d, &counts);
    assert_int_equal(counts.heap_bytes, 0);
    amdxdna_close(d);
}

static void test_heap(void ** state) {
    (void) state;
    static const char * const one[] = {"legacy", "7.2"};
    for (size_t i = 0; i < sizeof one / sizeof one[0]; i++) {
        settings("KERNEL", one[i], NULL);
        fill(1 << 20, CHUNK);
    }
    settings("KERNEL", "7.0", "DEVICE", "npu4", NULL);
    fill(1 << 20, CHUNK);
    settings("KERNEL", "7.2", "DEVICE", "npu4", NULL); // it grows, chunk by chunk
    fill(1 << 20, 8u * CHUNK);
}

// ---- commands ----

static struct kernel_code code[2][2]; // by architecture; of f32, with different PDIs
static const enum kernel_op ops[2] = {KERNEL_OP_ADD, KERNEL_OP_DIV};

static int compile(void ** state) {
    (void) state;
    for (int i = 0; i < 4; i++) {
        const int64_t ne[4] = {ELEMENTS, 1, 1, 1};
        struct kernel_spec spec = {
            .op = ops[i % 2], .arch = i / 2 ? AIE_ARCH_AIE2P : AIE_ARCH_AIE2, .n_inputs = 2};
        spec.inputs[0] = spec.inputs[1] = spec.output = tensor_contiguous(DTYPE_F32, ne);
        struct error err = {0};
        if (aie_compile(&spec, &code[i / 2][i % 2], &err) != ST_OK) {
            print_message("%s\n", err.text);
            return -1;
        }
    }
    return 0;
}

static int discard(void ** state) {
    (void) state;
    for (int i = 0; i < 4; i++) {
        kernel_code_free(&code[i / 2][i % 2]);
    }
    return 0;
}

struct world {
    struct amdxdna * d;
    struct amdxdna_context * x;
    struct amdxdna_buffer pdi[2], stream[2], operand[3];
    uint32_t n_words[2];
};

static struct amdxdna_buffer upload(struct amdxdna * d, const void * bytes, size_t size) {
    struct amdxdna_buffer b;
    struct error err = {0};
    must(amdxdna_buffer_new(d, XDNA_BO_DEV, size, &b, &err), &err);
    memcpy(b.host, bytes, size);
    amdxdna_flush(b.host, size);
    return b;
}

static void restart(struct world * w) {
    struct error err = {0};
    amdxdna_context_free(w->x);
    must(amdxdna_context_new(w->d, w->pdi, 2, &w->x, &err), &err);
}

static void fill_operands(struct world * w) {
    for (int k = 0; k < 3; k++) {
        float * v = (float *) (void *) w->operand[k].host;
        for (int i = 0; i < ELEMENTS; i++) {
            v[i] = k < 2 ? (float) (1 << (i % 7 + k)) : -1;
        }
        amdxdna_flush(v, BYTES);
    }
}

static struct world world_new(bool aie2p) {
    struct world w = {.d = open_device()};
    struct error err = {0};
    for (int i = 0; i < 2; i++) {
        const struct kernel_code * c = &code[aie2p][i];
        w.pdi[i] = upload(w.d, c->pdi, c->pdi_size);
        w.stream[i] = upload(w.d, c->insts, 4 * c->n_insts);
        w.n_words[i] = (uint32_t) c->n_insts;
    }
    for (int k = 0; k < 3; k++) {
        must(amdxdna_buffer_new(w.d, XDNA_BO_SHARE, BYTES, &w.operand[k], &err), &err);
    }
    fill_operands(&w);
    restart(&w);
    return w;
}

static void world_free(struct world * w) {
    amdxdna_context_free(w->x);
    for (int i = 0; i < 2; i++) {
        amdxdna_buffer_free(w->d, &w->pdi[i]);
        amdxdna_buffer_free(w->d, &w->stream[i]);
    }
    for (int k = 0; k < 3; k++) {
        amdxdna_buffer_free(w->d, &w->operand[k]);
    }
    amdxdna_close(w->d);
}

static struct amdxdna_command start(const struct world * w, int op) {
    struct amdxdna_command c = {.pdi = (unsigned) op,
                                .stream = w->stream[op].device,
                                .n_words = w->n_words[op],
                                .n_operands = 3};
    for (int k = 0; k < 3; k++) {
        c.operands[k] = w->operand[k].device;
    }
    return c;
}

static enum status run(struct world * w, const struct amdxdna_command * c, size_t n, size_t * done,
                       struct error * err) {
    // Some twice: the driver would refuse the list as it is.
    const uint32_t named[] = {w->operand[2].handle, w->stream[0].handle,  w->stream[1].handle,
                              w->operand[0].handle, w->operand[1].handle, w->operand[2].handle,
                              w->stream[0].handle};
    *err = (struct error){0};
    return amdxdna_run(w->x, c, n, named, sizeof named / sizeof named[0], 5000, done, err);
}

static int wrong(struct world * w, int op) {
    const float *a = (const float *) (const void *) w->operand[0].host,
                *b = (const float *) (const void *) w->operand[1].host,
                *y = (const float *) (const void *) w->operand[2].host;
    int n = 0;
    amdxdna_flush(y, BYTES);
    for (int i = 0; i < ELEMENTS; i++) {
        n += y[i] != (op ? a[i] / b[i] : a[i] + b[i]);
    }
    return n;
}

static void test_runs(void ** state) {
    (void) state;
    static const char * const kernels[] = {"legacy", "6.14", "6.18", "7.0", "7.2"};
    static const size_t numbers[] = {1, 2, 37, 38, 100, 200};
    static struct amdxdna_command c[200];
    for (size_t i = 0; i < 2 * sizeof kernels / sizeof kernels[0]; i++) {
        bool aie2p = i % 2;
        settings("KERNEL", kernels[i / 2], "DEVICE", aie2p ? "npu4" : "npu1", NULL);
        struct world w = world_new(aie2p);
        for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
            size_t n = numbers[k], done;
            struct error err;
            for (size_t m = 0; m < n; m++) {
                c[m] = start(&w, m % 2 == n % 2); // the last one adds
            }
            fill_operands(&w);
            must(run(&w, c, n, &done, &err), &err);
            assert_int_equal(done, n);
            assert_int_equal(wrong(&w, 0), 0);
        }
        struct amdxdna_counts counts;
        amdxdna_counts(w.d, &counts);
        assert_int_equal(counts.commands, 378);
        assert_int_equal(counts.failed, 0);
        world_free(&w);
    }
}

// Without a flush the device computes with what memory has, and the CPU reads what its cache has.
static void test_not_flushed(void ** state) {
    (void) state;
    settings(NULL, NULL);
    struct world w = world_new(false);
    const struct amdxdna_command c = start(&w, 0);
    float *a = (float *) (void *) w.operand[0].host, *y = (float *) (void *) w.operand[2].host;
    struct error err;
    size_t done;
    must(run(&w, &c, 1, &done, &err), &err);
    int stale = 0;
    for (int i = 0; i < ELEMENTS; i++) {
        stale += y[i] == -1;
    }
    assert_true(stale > 0);
    assert_int_equal(wrong(&w, 0), 0);
    for (int i = 0; i < ELEMENTS; i++) {
        a[i] += 1;
    }
    must(run(&w, &c, 1, &done, &err), &err);
    assert_true(wrong(&w, 0) > 0);
    amdxdna_flush(a, BYTES);
    must(run(&w, &c, 1, &done, &err), &err);
    assert_int_equal(wrong(&w, 0), 0);
    world_free(&w);
}

// What went wrong is named; the commands before it are counted; a new context computes again.
static void expect_failure(struct world * w, size_t n, size_t complete, const char * words) {
    static struct amdxdna_command c[40];
    struct error err;
    size_t done;
    for (size_t i = 0; i < n; i++) {
        c[i] = start(w, 0);
    }
    assert_int_equal(run(w, c, n, &done, &err), ST_DEVICE);
    if (!strstr(err.text, words)) {
        fail_msg("'%s' in place of '%s'", err.text, words);
    }
    assert_int_equal(done, complete);
    assert_int_equal(run(w, c, 1, &done, &err), ST_DEVICE); // the context is of no more use
    assert_non_null(strstr(err.text, "failed before"));
    restart(w);
    fill_operands(w);
    must(run(w, c, 1, &done, &err), &err);
    assert_int_equal(wrong(w, 0), 0);
}

static void test_firmware_fails(void ** state) {
    (void) state;
    settings("FAIL", "COMMAND:4:EIO", NULL);
    struct world w = world_new(false);
    expect_failure(&w, 10, 3, "command 3 of 10");
    world_free(&w);
    settings("FAIL", "COMMAND:1:EIO", NULL);
    w = world_new(false);
    expect_failure(&w, 1, 0, "command 0 of 1");
    world_free(&w);
}

// A driver that wants more room than its buffer has says nothing: the word alone tells.
static void test_dropped(void ** state) {
    (void) state;
    settings("CHAIN_BYTES", "1024", NULL);
    struct world w = world_new(false);
    struct amdxdna_command c[20];
    struct error err;
    size_t done;
    for (int i = 0; i < 20; i++) {
        c[i] = start(&w, 0);
    }
    assert_int_equal(run(&w, c, 20, &done, &err), ST_DEVICE);
    assert_non_null(strstr(err.text, "dropped a chain of 20 commands"));
    assert_int_equal(done, 0);
    world_free(&w);
}

// Memory that the device does not reach: it never goes on, and the driver's watchdog ends it.
static void test_stuck(void ** state) {
    (void) state;
    static const struct {
        const char *kernel, *device, *words;
    } rows[] = {{"7.2", "npu1", "made no progress"},
                {"7.2", "npu4", "made no progress at operation"}};
    for (size_t i = 0; i < 2; i++) {
        settings("KERNEL", rows[i].kernel, "DEVICE", rows[i].device, "WATCHDOG_MS", "20", NULL);
        struct world w = world_new(i == 1);
        struct amdxdna_command c = start(&w, 0);
        struct error err;
        size_t done;
        c.operands[0] = 0x1000;
        assert_int_equal(run(&w, &c, 1, &done, &err), ST_DEVICE);
        if (!strstr(err.text, rows[i].words)) {
            fail_msg("%s", err.text);
        }
        restart(&w);
        c = start(&w, 0);
        must(run(&w, &c, 1, &done, &err), &err);
        assert_int_equal(wrong(&w, 0), 0);
        world_free(&w);
    }
}

static void test_refused(void ** state) {
    (void) state;
    settings(NULL, NULL);
    struct world w = world_new(false);
    struct amdxdna_command c = start(&w, 0);
    struct error err;
    size_t done;
    c.pdi = 2;
    assert_int_equal(run(&w, &c, 1, &done, &err), ST_INVALID);
    c = start(&w, 0);
    c.n_operands = AMDXDNA_OPERANDS + 1;
    assert_int_equal(run(&w, &c, 1, &done, &err), ST_INVALID);
    world_free(&w);
}

// Contexts are few, and whoever gets none is told how many there are.
static void test_contexts(void ** state) {
    (void) state;
    static const struct {
        const char * device;
        size_t most;
    } rows[] = {{"npu1", 6}, {"npu4", 16}};
    for (size_t i = 0; i < 2; i++) {
        settings("DEVICE", rows[i].device, NULL);
        struct world w = world_new(i == 1);
        struct amdxdna_context * x[20] = {NULL};
        struct error err = {0};
        size_t n = 0;
        while (n < 20 && amdxdna_context_new(w.d, w.pdi, 2, &x[n], &err) == ST_OK) {
            n++;
        }
        assert_int_equal(n + 1, rows[i].most);
        assert_non_null(strstr(err.text, "gives no hardware context"));
        while (n > 0) {
            amdxdna_context_free(x[--n]);
        }
        world_free(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_told_apart),  cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_heap),        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_not_flushed), cmocka_unit_test(test_firmware_fails),
        cmocka_unit_test(test_dropped),     cmocka_unit_test(test_stuck),
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_contexts),
    };
    return cmocka_run_group_tests(tests, compile, discard);
}
