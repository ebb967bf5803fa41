// test-hsa-hang: kernels that do not come to an end on an emulated NPU: a core that runs for ever,
// and a stream that waits for what nobody does. The wait limit ends the one, the machine finds the
// other; and the device computes as before, also where it is as strict as ROCr 7.2.
#include "runtime/rig.h"

#include "aie/asm/text.h"
#include "hsa/hsac-impl.h"
#include "store/small-kernel.h"

enum { WORDS = 64, KERNELS = 3 };

enum { GOOD, ENDLESS, STUCK };

struct bench {
    struct hsac * h;
    struct hsac_agent * agent;
    struct hsac_queue * queue;
    uint32_t *from, *to, *other;
    struct {
        uint8_t * pdi;
        size_t pdi_size;
        uint32_t * insts;
        size_t n_insts;
    } kernels[KERNELS];
};

static void must(enum status st, const struct error * err) {
    if (st != ST_OK) {
        fail_msg("%s: %s", status_name(st), err->text);
    }
}

static void * upload(struct bench * b, enum hsac_pool pool, const void * data, size_t size) {
    void * p = hsac_alloc(b->agent, pool, size);
    assert_non_null(p);
    hsac_host_begin(b->agent, p, size);
    memcpy(p, data, size);
    hsac_host_end(b->agent, p, size);
    return p;
}

// The good one's configuration, and a core beside it that jumps on the spot.
static void endless_pdi(uint8_t ** pdi, size_t * size) {
    struct error err = {0};
    struct asm_program * p;
    struct asm_code code;
    struct cdo c;
    must(asm_read("target aie2\nspot:\n        j #spot\n", &p, &err), &err);
    must(asm_finish(p, &code, &err), &err);
    cdo_begin(&c);
    cdo_write(&c, 0x3f100, 0xc0000000); // tokens
    cdo_mask_write(&c, image_addr(0, 2, 0x32000), 2, 2);
    cdo_mask_write(&c, image_addr(0, 2, 0x32000), 2, 0);
    uint8_t program[64] = {0}; // whole words
    assert_true(code.size <= sizeof program);
    memcpy(program, code.bytes, code.size);
    cdo_block_write_bytes(&c, image_addr(0, 2, 0x20000), program, sizeof program / 4);
    cdo_mask_write(&c, image_addr(0, 2, 0x32000), 1, 1);
    must(pdi_write(&c, 1, pdi, size, &err), &err);
    cdo_free(&c);
    free(code.bytes);
    asm_free(p);
}

// Waits for a channel that has nothing to do.
static void waiting_stream(uint32_t ** insts, size_t * n) {
    struct txn t;
    struct error err = {0};
    txn_begin(&t, 1, (int) txn_generation(AIE_ARCH_AIE2));
    txn_wait(&t, 0, 0, 0, 1);
    must(txn_end(&t, insts, n, &err), &err);
}

static void bench_open(struct bench * b, const char * bugs) {
    struct error err = {0};
    struct kernel_spec spec = {.op = KERNEL_OP_COPY, .arch = AIE_ARCH_AIE2, .n_inputs = 1};
    uint32_t * idle;
    size_t n_idle;
    *b = (struct bench){0};
    rig_env("aie2", NULL, bugs);
    if (bugs) {
        setenv("GGML_HSA_EMU_STRICT", "1", 1);
    }
    must(hsac_open(&b->h, &err), &err);
    b->agent = hsac_agent_get(b->h, 0);
    spec.inputs[0] = spec.output = tensor_contiguous(DTYPE_I32, (const int64_t[4]){WORDS, 1, 1, 1});
    for (int i = 0; i < KERNELS; i++) {
        uint8_t * pdi;
        uint32_t * insts;
        if (i == ENDLESS) {
            endless_pdi(&pdi, &b->kernels[i].pdi_size);
        } else {
            must(small_kernel_pdi(7, &pdi, &b->kernels[i].pdi_size, &err), &err);
        }
        if (i == GOOD) {
            must(small_kernel_stream(&spec, 1, txn_generation(AIE_ARCH_AIE2), &insts,
                                     &b->kernels[i].n_insts, &err),
                 &err);
        } else {
            waiting_stream(&insts, &b->kernels[i].n_insts);
        }
        b->kernels[i].pdi = upload(b, HSAC_POOL_DEV, pdi, b->kernels[i].pdi_size);
        b->kernels[i].insts = upload(b, HSAC_POOL_STREAM, insts, 4 * b->kernels[i].n_insts);
        free(pdi);
        free(insts);
    }
    b->kernels[STUCK].pdi = b->kernels[GOOD].pdi;
    must(txn_idle(AIE_ARCH_AIE2, &idle, &n_idle, &err), &err);
    must(hsac_agent_set_idle(b->agent, idle, n_idle, &err), &err);
    free(idle);
    b->from = hsac_alloc(b->agent, HSAC_POOL_DATA, 4 * WORDS);
    b->to = hsac_alloc(b->agent, HSAC_POOL_DATA, 4 * WORDS);
    assert_true(b->from && b->to);
    must(hsac_queue_new(b->agent, &b->queue, &err), &err);
}

static void bench_close(struct bench * b) {
    hsac_queue_free(b->queue);
    hsac_close(b->h);
}

static enum status run(struct bench * b, int kernel, struct error * err) {
    const struct hsac_dispatch d = {
        .pdi = b->kernels[kernel].pdi,
        .pdi_size = b->kernels[kernel].pdi_size,
        .insts = b->kernels[kernel].insts,
        .n_insts = (uint32_t) b->kernels[kernel].n_insts,
        .n_operands = 2,
        .operands = {{b->from, 4 * WORDS}, {b->to, 4 * WORDS}},
    };
    enum status st = hsac_queue_dispatch(b->queue, &d, err);
    return st == ST_OK ? hsac_queue_wait(b->queue, err) : st;
}

static void expect_good(struct bench * b, uint32_t seed) {
    struct error err = {0};
    for (uint32_t i = 0; i < WORDS; i++) {
        b->from[i] = 1000 * seed + i;
        b->to[i] = 0;
    }
    hsac_host_end(b->agent, b->from, 4 * WORDS);
    hsac_host_end(b->agent, b->to, 4 * WORDS);
    must(run(b, GOOD, &err), &err);
    hsac_host_begin(b->agent, b->to, 4 * WORDS);
    assert_memory_equal(b->to, b->from, 4 * WORDS);
}

static void expect_failure(struct bench * b, int kernel, const char * text) {
    struct error err = {0};
    assert_int_equal(run(b, kernel, &err), ST_DEVICE);
    if (!strstr(err.text, text)) {
        fail_msg("'%s' does not name '%s'", err.text, text);
    }
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

// ---- tests ----

static void test_limit(void ** state) {
    (void) state;
    setenv("GGML_HSA_WAIT_LIMIT", "1", 1);
    for (int strict = 0; strict < 2; strict++) {
        struct bench b;
        bench_open(&b, strict ? "1" : NULL);
        expect_good(&b, 1);
        double start = seconds();
        expect_failure(&b, ENDLESS, "GGML_HSA_WAIT_LIMIT");
        double took = seconds() - start;
        if (took < 1 || took > 15) { // a busy machine may take its time
            fail_msg("a limit of 1 s took %g s", took);
        }
        expect_good(&b, 2);
        bench_close(&b);
    }
    unsetenv("GGML_HSA_WAIT_LIMIT");
}

// As often as there is room for.
static void test_again_and_again(void ** state) {
    (void) state;
    for (int strict = 0; strict < 2; strict++) {
        struct bench b;
        bench_open(&b, strict ? "1" : NULL);
        expect_good(&b, 1);
        for (uint32_t i = 0; i < 8; i++) {
            expect_failure(&b, STUCK, "deadlock");
            expect_good(&b, 2 + 2 * i);
            expect_good(&b, 3 + 2 * i);
        }
        bench_close(&b);
    }
}

// ROCr 7.2 keeps 32 PDIs in the life of a process; a queue after a failure takes one of them.
static void test_used_up(void ** state) {
    (void) state;
    struct bench b;
    struct error err = {0};
    bench_open(&b, "1");
    int failures = 0;
    for (; failures < 40 && run(&b, GOOD, &err) == ST_OK; failures++) {
        expect_failure(&b, STUCK, "deadlock");
    }
    assert_true(failures > 20 && failures < 40);
    if (!strstr(err.text, "32 PDIs") || !strstr(err.text, "deadlock")) {
        fail_msg("'%s' is said at the end", err.text);
    }
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_again_and_again),
        cmocka_unit_test(test_used_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
