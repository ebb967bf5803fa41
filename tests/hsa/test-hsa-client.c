// The HSA client without kernels: finding a runtime, saying what is missing, memory, and refusing
// dispatches that a real runtime would not survive.
#include "runtime/rig.h"

#include "hsa/hsac.h"
#include <unistd.h>

static void assert_open_fails(enum status expected, const char * text, const char * mend) {
    struct hsac * h = (struct hsac *) 1;
    struct error err = {0};
    assert_int_equal(hsac_open(&h, &err), expected);
    assert_null(h);
    if (!strstr(err.text, text) || !strstr(err.text, mend)) {
        fail_msg("'%s' holds not both '%s' and '%s'", err.text, text, mend);
    }
    assert_int_equal(hsac_open(&h, NULL), expected);
}

static void test_open_errors(void ** state) {
    (void) state;
    rig_env(NULL, NULL, NULL);
    setenv("GGML_HSA_RUNTIME", "/nowhere/libhsa-runtime64.so.1", 1);
    assert_open_fails(ST_NOT_FOUND, "/nowhere/libhsa-runtime64.so.1", "ggml-hsa doctor");
    // A library that is no HSA runtime, by the place where it was found.
    setenv("GGML_HSA_RUNTIME", "libm.so.6", 1);
    assert_open_fails(ST_UNSUPPORTED, "/libm.so.6 lacks hsa_", "not an HSA runtime");
    // The emulated runtime without an agent to emulate.
    setenv("GGML_HSA_RUNTIME", EMU_LIBRARY, 1);
    assert_open_fails(ST_NOT_FOUND, "no NPU", "GGML_HSA_EMULATE=aie2");
    rig_env("npu9", NULL, NULL);
    assert_open_fails(ST_DEVICE, "'npu9'", "ggml-hsa doctor");
    rig_env("aie2", "A", NULL);
    assert_open_fails(ST_INVALID, "GGML_HSA_AIE_ABI=A", "B, C or D");
    rig_env("aie2", "BC", NULL);
    assert_open_fails(ST_INVALID, "GGML_HSA_AIE_ABI=BC", "B, C or D");
}

static void test_real_runtime_without_device(void ** state) {
    (void) state;
    if (access("/dev/kfd", F_OK) == 0) {
        skip_test("this machine has /dev/kfd");
    }
    rig_env(NULL, NULL, NULL);
    assert_open_fails(ST_NOT_FOUND, "libhsa-runtime64.so.1", "GGML_HSA_EMULATE=aie2");
}

static struct hsac * open_aie2(void) {
    struct hsac * h;
    struct error err;
    rig_env("aie2", NULL, NULL);
    if (hsac_open(&h, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    return h;
}

static void test_open(void ** state) {
    (void) state;
    struct hsac * h = open_aie2();
    assert_true(hsac_is_emulated(h));
    assert_non_null(strstr(hsac_runtime_path(h), "libhsa-npu.so"));
    assert_int_equal(hsac_agent_count(h), 1);
    assert_null(hsac_agent_get(h, 1));
    assert_null(hsac_agent_get(h, -1));
    struct hsac_agent * a = hsac_agent_get(h, 0);
    assert_string_equal(hsac_agent_name(a), "aie2");
    assert_string_equal(hsac_agent_product(a), "RyzenAI-npu1");
    struct hsac_counters c = {.dispatches = 9};
    assert_true(hsac_agent_counters(a, &c));
    assert_int_equal(c.dispatches, 0);
    struct hsac * again = open_aie2(); // the runtime counts its users
    hsac_close(h);
    assert_int_equal(hsac_agent_count(again), 1);
    hsac_close(again);
    hsac_close(NULL);
}

static void test_memory(void ** state) {
    (void) state;
    struct hsac * h = open_aie2();
    struct hsac_agent * a = hsac_agent_get(h, 0);
    uint64_t free0, free1, total;
    hsac_agent_memory(a, &free0, &total);
    assert_int_equal(free0, total);
    assert_true(total > 1 << 20);
    enum { N = 500 };
    uint8_t * blocks[N];
    for (int i = 0; i < N; i++) {
        blocks[i] = hsac_alloc(a, HSAC_POOL_DATA, 1000 + (size_t) i);
        assert_non_null(blocks[i]);
        memset(blocks[i], i, 1000);
    }
    hsac_agent_memory(a, &free1, &total);
    assert_int_equal(free0 - free1, N * 1000 + N * (N - 1) / 2);
    for (int i = 0; i < N; i++) {
        assert_int_equal(blocks[i * 7 % N][999], i * 7 % N & 255);
        hsac_free(a, blocks[i * 7 % N]);
    }
    hsac_agent_memory(a, &free1, &total);
    assert_int_equal(free0, free1);
    assert_null(hsac_alloc(a, HSAC_POOL_DATA, 0));
    assert_null(hsac_alloc(a, HSAC_POOL_DATA, SIZE_MAX));
    assert_null(hsac_alloc(a, HSAC_POOL_DEV, (64 << 20) + 1));
    void * heap = hsac_alloc(a, HSAC_POOL_DEV, 64 << 20);
    assert_non_null(heap);
    assert_null(hsac_alloc(a, HSAC_POOL_DEV, 1));
    hsac_free(a, heap);
    hsac_free(a, NULL);
    assert_non_null(hsac_alloc(a, HSAC_POOL_KERNARG, 64)); // left to hsac_close
    hsac_close(h);
}

static void test_dispatch_is_checked(void ** state) {
    (void) state;
    struct hsac * h = open_aie2();
    struct hsac_agent * a = hsac_agent_get(h, 0);
    struct hsac_queue * q;
    struct error err = {0};
    assert_int_equal(hsac_queue_new(a, &q, &err), ST_OK);
    uint8_t * heap = hsac_alloc(a, HSAC_POOL_DEV, 8192);
    uint8_t * data = hsac_alloc(a, HSAC_POOL_DATA, 4096);
    int outside = 0;
    const struct hsac_dispatch good = {
        .pdi = heap,
        .pdi_size = 4096,
        .insts = heap + 4096,
        .n_insts = 16,
        .n_operands = 1,
        .operands = {{data, 4096}},
    };
    struct {
        const char * text;
        struct hsac_dispatch d;
    } bad[] = {
        {"9 operands", good}, {"-1 operands", good}, {"PDI", good},         {"PDI", good},
        {"PDI", good},        {"instruction", good}, {"instruction", good}, {"instruction", good},
        {"operand 0", good},  {"operand 0", good},
    };
    bad[0].d.n_operands = 9;
    bad[1].d.n_operands = -1;
    bad[2].d.pdi = data;
    bad[3].d.pdi_size = 8193;
    bad[4].d.pdi = NULL;
    bad[5].d.n_insts = 1025;
    bad[6].d.insts = &outside;
    bad[7].d.n_insts = 0;
    bad[8].d.operands[0].addr = &outside;
    bad[9].d.operands[0].size = 4097;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(hsac_queue_dispatch(q, &bad[i].d, &err), ST_INVALID);
        if (!strstr(err.text, bad[i].text)) {
            fail_msg("case %zu: '%s' does not name '%s'", i, err.text, bad[i].text);
        }
        assert_int_equal(hsac_queue_wait(q, &err), ST_OK);
    }
    hsac_queue_free(q);
    hsac_queue_free(NULL);
    hsac_close(h);
}

// ABI B cannot reach instructions in the second 16 MiB of the heap; the client says so.
static void test_lost_address_bit(void ** state) {
    (void) state;
    struct hsac * h;
    struct hsac_queue * q;
    struct error err = {0};
    rig_env("aie2", "B", NULL);
    assert_int_equal(hsac_open(&h, &err), ST_OK);
    struct hsac_agent * a = hsac_agent_get(h, 0);
    assert_int_equal(hsac_queue_new(a, &q, &err), ST_OK);
    uint8_t * heap = hsac_alloc(a, HSAC_POOL_DEV, 20 << 20);
    uint8_t * data = hsac_alloc(a, HSAC_POOL_DATA, 64);
    const struct hsac_dispatch d = {
        .pdi = heap,
        .pdi_size = 4096,
        .insts = heap + (16 << 20),
        .n_insts = 16,
        .n_operands = 1,
        .operands = {{data, 64}},
    };
    assert_int_equal(hsac_queue_dispatch(q, &d, &err), ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "device heap"));
    // So streams are put where they can be named, as long as there is such a place.
    uint8_t * stream = hsac_alloc(a, HSAC_POOL_STREAM, 64 << 10);
    assert_non_null(stream);
    assert_true((uintptr_t) (stream - heap) >= 32 << 20 && (uintptr_t) (stream - heap) < 48 << 20);
    uint8_t * rest = hsac_alloc(a, HSAC_POOL_DEV, (28 << 20) - (64 << 10) - 8192);
    assert_non_null(rest);
    assert_null(hsac_alloc(a, HSAC_POOL_STREAM, 64 << 10));
    uint8_t * left = hsac_alloc(a, HSAC_POOL_DEV, 12 << 20); // nothing is held back
    assert_non_null(left);
    hsac_free(a, left);
    hsac_free(a, rest);
    hsac_free(a, stream);
    hsac_queue_free(q);
    hsac_close(h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_errors),
        cmocka_unit_test(test_real_runtime_without_device),
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_dispatch_is_checked),
        cmocka_unit_test(test_lost_address_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
