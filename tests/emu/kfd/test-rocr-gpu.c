// The HSA client on AMD's own ROCr with an emulated GPU below it: agents, memory, kernels of
// clang's from several queues and threads, private memory, the order of packets. A process can
// start ROCr with a model once, so all tests share one; run.sh starts it.
//
// test-rocr-gpu GPU            all of them
// test-rocr-gpu GPU error      a packet that the GPU refuses: ROCr 7.2's model then ends the
// process
#include "hsa/bytes.h"
#include "runtime/compile.h"

#include <hsa/hsa.h>
#include <pthread.h>

static const char * name;
static struct hsac * runtime;
static struct hsac_agent * gpu;

#define CALL(function, ...)                                                                        \
    do {                                                                                           \
        __typeof__(function) * f_;                                                                 \
        void * address_ = hsac_symbol(runtime, #function);                                         \
        assert_non_null(address_);                                                                 \
        memcpy(&f_, &address_, sizeof f_);                                                         \
        assert_int_equal(f_(__VA_ARGS__), HSA_STATUS_SUCCESS);                                     \
    } while (0)

// ---- agents ----

struct found {
    int cpus, gpus, others;
    char isa[64];
};

static hsa_status_t on_isa(hsa_isa_t isa, void * data) {
    char * text = data;
    if (!*text) { // the first is the GPU's own, a generic one may follow
        CALL(hsa_isa_get_info_alt, isa, HSA_ISA_INFO_NAME, text);
    }
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t on_agent(hsa_agent_t agent, void * data) {
    struct found * f = data;
    hsa_device_type_t kind = HSA_DEVICE_TYPE_DSP;
    CALL(hsa_agent_get_info, agent, HSA_AGENT_INFO_DEVICE, &kind);
    f->cpus += kind == HSA_DEVICE_TYPE_CPU;
    f->gpus += kind == HSA_DEVICE_TYPE_GPU;
    f->others += kind != HSA_DEVICE_TYPE_CPU && kind != HSA_DEVICE_TYPE_GPU;
    if (kind == HSA_DEVICE_TYPE_GPU) {
        CALL(hsa_agent_iterate_isas, agent, on_isa, f->isa);
    }
    return HSA_STATUS_SUCCESS;
}

static void test_agents(void ** state) {
    (void) state;
    struct found f = {0};
    CALL(hsa_iterate_agents, on_agent, &f);
    assert_true(f.cpus == 1 && f.gpus == 1 && f.others == 0);
    assert_true(!strncmp(f.isa, "amdgcn-amd-amdhsa--", 19) && strstr(f.isa, name));
    assert_false(hsac_is_emulated(runtime)); // it is AMD's own
    assert_int_equal(hsac_agent_count(runtime), 1);
    assert_int_equal(hsac_agent_kind(gpu), HSAC_GPU);
    assert_string_equal(hsac_agent_name(gpu), name);
    assert_true(*hsac_agent_product(gpu)); // of which ROCr knows none here
    assert_false(hsac_agent_is_integrated(gpu));
    assert_string_equal(hsac_agent_bus(gpu), "0000:01:00.0");
    uint64_t left = 0, left_then = 0, total = 0;
    hsac_agent_memory(gpu, &left, &total);
    assert_true(total >= 64 << 20 && left && left <= total);
    void * block = hsac_alloc(gpu, HSAC_POOL_DATA, 64 << 20);
    assert_non_null(block);
    hsac_agent_memory(gpu, &left_then, &total);
    assert_true(left - left_then >= 64 << 20);
    hsac_free(gpu, block);
    assert_null(hsac_alloc(gpu, HSAC_POOL_DATA, (size_t) total + (1 << 20)));
}

static void test_bytes(void ** state) {
    (void) state;
    bytes_check(gpu, HSAC_POOL_DATA);
    bytes_check(gpu, HSAC_POOL_HOST);
}

// ---- kernels ----

static struct {
    uint8_t * data;
    hsa_code_object_reader_t reader;
    hsa_executable_t executable;
} code;

static void load_code(void) {
    size_t size;
    if (code.data) {
        return;
    }
    code.data = compile_kernels(name, &size);
    CALL(hsa_code_object_reader_create_from_memory, code.data, size, &code.reader);
    CALL(hsa_executable_create_alt, HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL,
         &code.executable);
    CALL(hsa_executable_load_agent_code_object, code.executable,
         (hsa_agent_t){hsac_agent_handle(gpu)}, code.reader, NULL, NULL);
    CALL(hsa_executable_freeze, code.executable, NULL);
}

static struct hsac_launch launch_of(const char * kernel, const void * args, uint32_t args_size,
                                    uint32_t grid, uint16_t group) {
    struct hsac_launch l = {
        .args = args, .args_size = args_size, .grid = {grid, 1, 1}, .group = {group, 1, 1}};
    hsa_agent_t agent = {hsac_agent_handle(gpu)};
    hsa_executable_symbol_t s;
    load_code();
    CALL(hsa_executable_get_symbol_by_name, code.executable, kernel, &agent, &s);
    const struct {
        hsa_executable_symbol_info_t what;
        void * where;
    } infos[] = {
        {HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &l.object},
        {HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE, &l.kernarg_bytes},
        {HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE, &l.group_bytes},
        {HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE, &l.private_bytes},
    };
    for (size_t i = 0; i < sizeof infos / sizeof infos[0]; i++) {
        CALL(hsa_executable_symbol_get_info, s, infos[i].what, infos[i].where);
    }
    return l;
}

struct add_args {
    const float *a, *b;
    float * c;
    uint32_t n;
};

enum { ADD_ARGS = offsetof(struct add_args, n) + 4 };

// c = a + b, then b = c + a and so on: each kernel needs the one before it. More of them than the
// ring has places.
static void check_chain(struct hsac_queue * queue, uint32_t n, int steps) {
    size_t size = n * sizeof(float);
    float * host = malloc(size);
    struct add_args args = {.n = n};
    float * memory[3];
    assert_non_null(host);
    for (int i = 0; i < 3; i++) {
        memory[i] = hsac_alloc(gpu, HSAC_POOL_DATA, size);
        assert_non_null(memory[i]);
        for (uint32_t k = 0; k < n; k++) {
            host[k] = i == 0 ? 1 : 0;
        }
        OK(hsac_write(gpu, memory[i], host, size, &err));
    }
    for (int i = 0; i < steps; i++) {
        args.a = memory[0];
        args.b = memory[1 + i % 2];
        args.c = memory[2 - i % 2];
        struct hsac_launch l = launch_of("add.kd", &args, ADD_ARGS, (n + 255) / 256 * 256, 256);
        OK(hsac_queue_launch(queue, &l, &err));
    }
    OK(hsac_queue_wait(queue, &err));
    OK(hsac_read(gpu, host, memory[1 + steps % 2], size, &err));
    for (uint32_t k = 0; k < n; k++) {
        if (host[k] != (float) steps) {
            fail_msg("element %u is %f after %d steps", k, (double) host[k], steps);
        }
    }
    for (int i = 0; i < 3; i++) {
        hsac_free(gpu, memory[i]);
    }
    free(host);
}

static void test_chain(void ** state) {
    (void) state;
    struct hsac_queue * queue;
    load_code();
    OK(hsac_queue_new(gpu, &queue, &err));
    check_chain(queue, 1, 1);
    check_chain(queue, 1000, 1000);
    check_chain(queue, 100003, 5);
    hsac_queue_free(queue);
}

// Queues of their own in threads of their own, memory coming and going meanwhile.
static void * thread_chain(void * unused) {
    (void) unused;
    struct hsac_queue * queue;
    for (int i = 0; i < 3; i++) {
        OK(hsac_queue_new(gpu, &queue, &err));
        check_chain(queue, 5000, 100);
        hsac_queue_free(queue);
    }
    return NULL;
}

static void test_threads(void ** state) {
    (void) state;
    pthread_t threads[4];
    load_code();
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, thread_chain, NULL), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void test_groups(void ** state) {
    (void) state;
    enum { N = 10000, GROUPS = (N + 255) / 256 };
    struct hsac_queue * queue;
    uint32_t * in = hsac_alloc(gpu, HSAC_POOL_HOST, 4 * N);
    uint64_t * out = hsac_alloc(gpu, HSAC_POOL_HOST, 8 * GROUPS);
    load_code();
    OK(hsac_queue_new(gpu, &queue, &err));
    for (uint32_t i = 0; i < N; i++) {
        in[i] = i * 2654435761u >> 3;
    }
    struct {
        const uint32_t * in;
        uint64_t * out;
        uint32_t n;
    } args = {in, out, N};
    struct hsac_launch l = launch_of("reduce.kd", &args, 20, GROUPS * 256, 256);
    assert_true(l.group_bytes >= 2048);
    OK(hsac_queue_launch(queue, &l, &err));
    OK(hsac_queue_wait(queue, &err));
    for (int g = 0; g < GROUPS; g++) {
        uint64_t sum = 0;
        for (int i = g * 256; i < N && i < g * 256 + 256; i++) {
            sum += (uint64_t) in[i] * in[i];
        }
        assert_int_equal(out[g], sum);
    }
    hsac_queue_free(queue);
    hsac_free(gpu, in);
    hsac_free(gpu, out);
}

// Private memory is ROCr's to give: some for every wave of the GPU, which a queue keeps, and more
// than that for one kernel at a time.
static void test_private(void ** state) {
    (void) state;
    enum { W = 19, H = 7, D = 5, N = 128 };
    struct hsac_queue * queue;
    uint32_t * out = hsac_alloc(gpu, HSAC_POOL_HOST, 4 * W * H * D);
    load_code();
    OK(hsac_queue_new(gpu, &queue, &err));
    for (uint32_t turn = 0; turn < 4; turn++) {
        struct {
            uint32_t * out;
            uint32_t w, h, d, turn;
        } args = {out, W, H, D, turn};
        struct hsac_launch l = launch_of("volume.kd", &args, sizeof args, W, 8);
        assert_true(l.private_bytes >= 32);
        l.grid[1] = H;
        l.grid[2] = D;
        l.group[1] = 4;
        l.group[2] = 2;
        struct {
            uint32_t * out;
            uint32_t turn;
        } deep_args = {out, turn};
        struct hsac_launch deep = launch_of("deep.kd", &deep_args, 12, N, 64);
        assert_true(deep.private_bytes >= 12000);
        OK(hsac_queue_launch(queue, &deep, &err));
        OK(hsac_queue_wait(queue, &err));
        for (uint32_t i = 0; i < N; i++) {
            assert_int_equal(out[i], 2999 * i);
        }
        OK(hsac_queue_launch(queue, &l, &err));
        OK(hsac_queue_wait(queue, &err));
        for (uint32_t z = 0; z < D; z++) {
            for (uint32_t y = 0; y < H; y++) {
                for (uint32_t x = 0; x < W; x++) {
                    assert_int_equal(out[(z * H + y) * W + x], 2 * (x * 10000 + y * 100 + z) + 7);
                }
            }
        }
    }
    hsac_queue_free(queue);
    hsac_free(gpu, out);
}

// ---- errors ----

static int refuse(void) {
    struct error err = {0};
    struct hsac_queue * queue;
    const struct hsac_launch nothing = {.object = 64, .grid = {1, 1, 1}, .group = {1, 1, 1}};
    if (hsac_queue_new(gpu, &queue, &err) != ST_OK ||
        hsac_queue_launch(queue, &nothing, &err) != ST_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    enum status st = hsac_queue_wait(queue, &err);
    printf("%s\n", st == ST_DEVICE ? err.text : "nobody noticed");
    hsac_queue_free(queue);
    return st != ST_DEVICE;
}

static int close_all(void ** state) {
    (void) state;
    if (code.data) {
        CALL(hsa_executable_destroy, code.executable);
        CALL(hsa_code_object_reader_destroy, code.reader);
        free(code.data);
    }
    hsac_close(runtime);
    return 0;
}

int main(int argc, char ** argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agents), cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_chain),  cmocka_unit_test(test_threads),
        cmocka_unit_test(test_groups), cmocka_unit_test(test_private),
    };
    struct error err = {0};
    if (argc < 2) {
        fprintf(stderr, "usage: test-rocr-gpu GPU [error]\n");
        return 2;
    }
    name = argv[1];
    if (hsac_open(&runtime, &err) != ST_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    gpu = hsac_agent_get(runtime, 0);
    if (argc > 2) {
        return refuse();
    }
    return cmocka_run_group_tests(tests, NULL, close_all);
}
