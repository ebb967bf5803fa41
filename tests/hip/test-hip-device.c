// test-hip-device: modules and functions, against a runtime of the test's own that counts. It gives
// what HSA promises and nothing else: readers, executables and symbols with handles, of which each
// must be destroyed once.
#include "hip-rig.h"

#include <hsa/hsa.h>
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

static struct {
    atomic_int readers, executables, loads, lookups, live;
    int fail_load; // so many loads fail
    atomic_bool dead;
} hsa;

static hsa_status_t status_string(hsa_status_t status, const char ** out) {
    *out = status == HSA_STATUS_ERROR_INVALID_CODE_OBJECT ? "invalid code object" : "some status";
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t iterate_agents(hsa_status_t (*visit)(hsa_agent_t, void *), void * user) {
    for (uint64_t i = 1; i <= 3; i++) { // a CPU and two GPUs
        hsa_status_t status = visit((hsa_agent_t){i}, user);
        if (status != HSA_STATUS_SUCCESS) {
            return status;
        }
    }
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t agent_get_info(hsa_agent_t agent, hsa_agent_info_t what, void * value) {
    static const char * const names[] = {"", "Some CPU gfx", "gfx90a", "gfx1100"};
    if (what == HSA_AGENT_INFO_DEVICE) {
        *(hsa_device_type_t *) value =
            agent.handle == 1 ? HSA_DEVICE_TYPE_CPU : HSA_DEVICE_TYPE_GPU;
    } else {
        snprintf(value, 64, "%s", names[agent.handle]);
    }
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t reader_create(const void * data, size_t size, hsa_code_object_reader_t * out) {
    assert(data && size > 64);
    out->handle = (uint64_t) atomic_fetch_add(&hsa.readers, 1) + 1;
    atomic_fetch_add(&hsa.live, 1);
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t reader_destroy(hsa_code_object_reader_t reader) {
    (void) reader;
    atomic_fetch_sub(&hsa.live, 1);
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t executable_create(hsa_profile_t profile, hsa_default_float_rounding_mode_t mode,
                                      const char * options, hsa_executable_t * out) {
    (void) profile, (void) mode, (void) options;
    out->handle = (uint64_t) atomic_fetch_add(&hsa.executables, 1) + 1;
    atomic_fetch_add(&hsa.live, 1);
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t executable_load(hsa_executable_t executable, hsa_agent_t agent,
                                    hsa_code_object_reader_t reader, const char * options,
                                    hsa_loaded_code_object_t * out) {
    (void) executable, (void) agent, (void) reader, (void) options, (void) out;
    atomic_fetch_add(&hsa.loads, 1);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); // so that others come meanwhile
    return hsa.fail_load-- > 0 ? HSA_STATUS_ERROR_INVALID_CODE_OBJECT : HSA_STATUS_SUCCESS;
}

static hsa_status_t executable_freeze(hsa_executable_t executable, const char * options) {
    (void) executable, (void) options;
    while (atomic_load(&hsa.dead)) { // as ROCr does, whose copy never ends
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t executable_destroy(hsa_executable_t executable) {
    (void) executable;
    atomic_fetch_sub(&hsa.live, 1);
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t get_symbol(hsa_executable_t executable, const char * name,
                               const hsa_agent_t * agent, hsa_executable_symbol_t * out) {
    atomic_fetch_add(&hsa.lookups, 1);
    out->handle = executable.handle * 100 + agent->handle;
    return strcmp(name, "add_f32.kd") ? HSA_STATUS_ERROR_INVALID_SYMBOL_NAME : HSA_STATUS_SUCCESS;
}

static hsa_status_t symbol_get_info(hsa_executable_symbol_t symbol,
                                    hsa_executable_symbol_info_t what, void * value) {
    switch ((int) what) {
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT:
        *(uint64_t *) value = 0x1000 + symbol.handle;
        break;
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE:
        *(uint32_t *) value = 56;
        break;
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE:
        *(uint32_t *) value = 1024;
        break;
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE:
        *(uint32_t *) value = 16;
        break;
    default:
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
    return HSA_STATUS_SUCCESS;
}

static void * symbol(void * user, const char * name) {
    (void) user;
#define GIVE(hsa_name, f)                                                                          \
    if (!strcmp(name, #hsa_name)) {                                                                \
        __typeof__(hsa_name) * p = f;                                                              \
        void * out;                                                                                \
        memcpy(&out, &p, sizeof out);                                                              \
        return out;                                                                                \
    }
    GIVE(hsa_status_string, status_string)
    GIVE(hsa_iterate_agents, iterate_agents)
    GIVE(hsa_agent_get_info, agent_get_info)
    GIVE(hsa_code_object_reader_create_from_memory, reader_create)
    GIVE(hsa_code_object_reader_destroy, reader_destroy)
    GIVE(hsa_executable_create_alt, executable_create)
    GIVE(hsa_executable_load_agent_code_object, executable_load)
    GIVE(hsa_executable_freeze, executable_freeze)
    GIVE(hsa_executable_destroy, executable_destroy)
    GIVE(hsa_executable_get_symbol_by_name, get_symbol)
    GIVE(hsa_executable_symbol_get_info, symbol_get_info)
#undef GIVE
    return NULL;
}

enum { CPU = 1, GPU = 2, OTHER_GPU = 3 };
static const char source[] = "// a source\n";

static struct rocm_kernels * open_device(void) {
    struct rocm_options options = {.hsa_symbol = symbol, .warn = rig_warn};
    struct rocm_kernels * k = NULL;
    memset(&hsa, 0, sizeof hsa);
    assert_int_equal(rocm_kernels_open(&options, &k, NULL), ROCM_OK);
    return k;
}

static void test_agents(void ** state) {
    (void) state;
    unsetenv("CANDLE_ROCM_ARCH");
    struct rocm_kernels * k = open_device();
    assert_string_equal(rocm_kernels_arch(k, NULL), "gfx90a"); // the first GPU, not the CPU
    struct rocm_counters n;
    rocm_kernels_counters(k, &n);
    assert_int_equal(n.other_runs, 0);
    rocm_kernels_close(k);
}

// A GPU that is dead when a module is loaded: the limit ends it, for who asks first and for others,
// and neither the load of another module nor the end waits for it.
static void test_dead(void ** state) {
    (void) state;
    static struct rocm_kernels * k; // is never freed: a leak that is meant
    k = open_device();
    struct rocm_module * m = NULL;
    struct rocm_error err = {0};
    atomic_store(&hsa.dead, true);
    setenv("GGML_HSA_WAIT_LIMIT", "1", 1);
    time_t begin = time(NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_not_equal(rocm_module_load(k, GPU, "add", source, &m, &err), ROCM_OK);
        assert_null(m);
        assert_non_null(strstr(err.text, "no sign of life of the GPU for 1 s"));
        assert_non_null(strstr(err.text, "GGML_HSA_WAIT_LIMIT"));
    }
    assert_true(time(NULL) - begin < 15);
    atomic_store(&hsa.dead, false);
    if (rocm_module_load(k, GPU, "add", "// another\n", &m, &err) != ROCM_OK) {
        fail_msg("%s", err.text);
    }
    rocm_module_release(m);
    unsetenv("GGML_HSA_WAIT_LIMIT");
    rocm_kernels_close(k);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL); // what was left behind ends too
}

static void test_share(void ** state) {
    (void) state;
    struct rocm_kernels * k = open_device();
    struct rocm_module *a, *b, *c;
    struct rocm_error err = {0};
    const struct rocm_function *f, *g;
    assert_int_equal(rocm_module_load(k, GPU, "add", source, &a, &err), ROCM_OK);
    assert_int_equal(rocm_module_load(k, GPU, "add", source, &b, &err), ROCM_OK);
    assert_ptr_equal(a, b);
    assert_int_equal(hsa.loads, 1);
    assert_int_equal(rocm_module_load(k, GPU, "add", "// another\n", &c, &err), ROCM_OK);
    assert_ptr_not_equal(a, c);
    assert_int_equal(hsa.loads, 2);
    assert_int_equal(rocm_module_function(a, "add_f32", &f, &err), ROCM_OK);
    assert_int_equal(rocm_module_function(b, "add_f32", &g, &err), ROCM_OK);
    assert_ptr_equal(f, g);
    assert_int_equal(hsa.lookups, 1);
    assert_int_equal(f->object, 0x1000 + 100 + GPU);
    assert_int_equal(f->kernarg_bytes, 56);
    assert_int_equal(f->group_bytes, 1024);
    assert_int_equal(f->private_bytes, 16);
    assert_int_equal(rocm_module_function(a, "sub_f32", &f, &err), ROCM_NOT_FOUND);
    assert_null(f);
    assert_non_null(strstr(err.text, "sub_f32"));
    rocm_module_release(a);
    assert_int_equal(hsa.live, 4); // b still holds it
    rocm_module_release(b);
    assert_int_equal(hsa.live, 2);
    rocm_module_release(c);
    assert_int_equal(hsa.live, 0);
    rocm_module_release(NULL);
    assert_int_equal(rocm_module_load(k, GPU, "add", source, &a, &err), ROCM_OK);
    assert_int_equal(hsa.loads, 3); // it was unloaded, so it is loaded again; nothing is compiled
    rocm_module_release(a);
    struct rocm_counters n;
    rocm_kernels_counters(k, &n);
    assert_int_equal(n.compiles, 2);
    rocm_kernels_close(k);
}

static void test_errors(void ** state) {
    (void) state;
    struct rocm_kernels * k = open_device();
    struct rocm_module * m;
    struct rocm_error err = {0};
    hsa.fail_load = 1;
    assert_int_equal(rocm_module_load(k, GPU, "add", source, &m, &err), ROCM_DEVICE);
    print_message("%s\n", err.text);
    assert_null(m);
    assert_non_null(strstr(err.text, "invalid code object"));
    assert_int_equal(hsa.live, 0);
    assert_int_equal(rocm_module_load(k, GPU, "add", source, &m, &err), ROCM_OK);
    rocm_module_release(m);
    assert_int_equal(rocm_module_load(k, CPU, "add", source, &m, &err), ROCM_INVALID);
    assert_int_equal(rocm_module_load(k, GPU, "no-such-module", NULL, &m, &err), ROCM_NOT_FOUND);
    rocm_kernels_close(k);
    k = open_rig(); // without a runtime
    assert_int_equal(rocm_module_load(k, GPU, "add", source, &m, &err), ROCM_NOT_FOUND);
    rocm_kernels_close(k);
}

struct thread {
    struct rocm_kernels * k;
    struct rocm_module * m;
    const struct rocm_function * f;
};

static void * load_in_thread(void * user) {
    struct thread * t = user;
    if (rocm_module_load(t->k, GPU, "add", source, &t->m, NULL) == ROCM_OK) {
        rocm_module_function(t->m, "add_f32", &t->f, NULL);
    }
    return NULL;
}

static void test_threads(void ** state) {
    (void) state;
    struct rocm_kernels * k = open_device();
    struct thread threads[12];
    pthread_t ids[12];
    for (int i = 0; i < 12; i++) {
        threads[i] = (struct thread){.k = k};
        assert_int_equal(pthread_create(&ids[i], NULL, load_in_thread, &threads[i]), 0);
    }
    for (int i = 0; i < 12; i++) {
        pthread_join(ids[i], NULL);
        assert_non_null(threads[i].f);
        assert_ptr_equal(threads[i].f, threads[0].f);
    }
    assert_int_equal(hsa.loads, 1);
    assert_int_equal(hsa.lookups, 1);
    assert_int_equal(count_lines("runs"), 1);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(hsa.live, 2);
        rocm_module_release(threads[i].m);
    }
    assert_int_equal(hsa.live, 0);
    rocm_kernels_close(k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_agents, rig_reset),
        cmocka_unit_test_setup(test_share, rig_reset),
        cmocka_unit_test_setup(test_dead, rig_reset),
        cmocka_unit_test_setup(test_errors, rig_reset),
        cmocka_unit_test_setup(test_threads, rig_reset),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
