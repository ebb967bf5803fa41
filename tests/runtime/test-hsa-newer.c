// What AMD's runtime has learnt since 5.2, in the emulated one: virtual memory by hand, engines of
// copies, waits for all of several signals, and answers that HIP 6 and 7 ask for. The prototypes
// are here, for the header of 5.2 has none; they are ROCr 7.2's, with plain types.
#include "gpu.h"

#include <signal.h>
#include <sys/wait.h>
#include <sys/resource.h>
#include <unistd.h>

typedef struct {
    uint64_t handle;
} vmem_handle;

struct access {
    uint32_t permissions;
    hsa_agent_t agent;
};

enum { MAY_NOT = 0, MAY_READ = 1, MAY_WRITE = 3, PAGE = 4096, NO_REGISTER = 1 };

// clang-format off
#define NEWER(X)                                                                                   \
    X(hsa_status_t, hsa_amd_vmem_address_reserve, (void **, size_t, uint64_t, uint64_t))           \
    X(hsa_status_t, hsa_amd_vmem_address_reserve_align,                                            \
      (void **, size_t, uint64_t, uint64_t, uint64_t))                                             \
    X(hsa_status_t, hsa_amd_vmem_address_free, (void *, size_t))                                   \
    X(hsa_status_t, hsa_amd_vmem_handle_create,                                                    \
      (hsa_amd_memory_pool_t, size_t, uint32_t, uint64_t, vmem_handle *))                          \
    X(hsa_status_t, hsa_amd_vmem_handle_release, (vmem_handle))                                    \
    X(hsa_status_t, hsa_amd_vmem_map, (void *, size_t, size_t, vmem_handle, uint64_t))             \
    X(hsa_status_t, hsa_amd_vmem_unmap, (void *, size_t))                                          \
    X(hsa_status_t, hsa_amd_vmem_set_access, (void *, size_t, const struct access *, size_t))      \
    X(hsa_status_t, hsa_amd_vmem_get_access, (void *, uint32_t *, hsa_agent_t))                    \
    X(hsa_status_t, hsa_amd_vmem_retain_alloc_handle, (vmem_handle *, void *))                     \
    X(hsa_status_t, hsa_amd_vmem_get_alloc_properties_from_handle,                                 \
      (vmem_handle, hsa_amd_memory_pool_t *, uint32_t *))                                          \
    X(hsa_status_t, hsa_amd_memory_copy_engine_status, (hsa_agent_t, hsa_agent_t, uint32_t *))     \
    X(hsa_status_t, hsa_amd_memory_get_preferred_copy_engine,                                      \
      (hsa_agent_t, hsa_agent_t, uint32_t *))                                                      \
    X(hsa_status_t, hsa_amd_memory_async_copy_on_engine,                                           \
      (void *, hsa_agent_t, const void *, hsa_agent_t, size_t, uint32_t, const hsa_signal_t *,     \
       hsa_signal_t, uint32_t, bool))                                                              \
    X(uint32_t, hsa_amd_signal_wait_all,                                                           \
      (uint32_t, hsa_signal_t *, hsa_signal_condition_t *, hsa_signal_value_t *, uint64_t,         \
       hsa_wait_state_t, hsa_signal_value_t *))                                                    \
    X(hsa_status_t, hsa_amd_queue_get_info, (hsa_queue_t *, uint32_t, void *))                     \
    X(hsa_status_t, hsa_amd_enable_logging, (uint8_t *, void *))                                   \
    X(hsa_status_t, hsa_amd_vmem_export_shareable_handle, (int *, vmem_handle, uint64_t))          \
    X(hsa_status_t, hsa_amd_portable_export_dmabuf, (const void *, size_t, int *, uint64_t *))     \
    X(hsa_status_t, hsa_amd_ais_file_read,                                                         \
      (uint64_t, void *, uint64_t, int64_t, uint64_t *, int32_t *))
// clang-format on

static struct {
#define FIELD(type, name, arguments) type(*name) arguments;
    NEWER(FIELD)
} n;

static struct rig r;

static int open_runtime(void ** state) {
    rig_env(*state, NULL, NULL);
    rig_open(&r);
    void * p;
#define FIND(type, name, arguments)                                                                \
    p = dlsym(r.library, #name);                                                                   \
    assert_non_null(p);                                                                            \
    memcpy(&n.name, &p, sizeof p);
    NEWER(FIND)
    return 0;
}

static int close_runtime(void ** state) {
    (void) state;
    rig_close(&r);
    return 0;
}

static uint64_t available(hsa_agent_t gpu) {
    uint64_t bytes = 0;
    assert_int_equal(r.hsa_agent_get_info(gpu, (hsa_agent_info_t) 0xA015, &bytes), 0);
    return bytes;
}

static char * reserve(size_t size) {
    void * va = NULL;
    assert_int_equal(n.hsa_amd_vmem_address_reserve(&va, size, 0, 0), 0);
    assert_non_null(va);
    assert_int_equal((uintptr_t) va % PAGE, 0);
    return va;
}

static vmem_handle memory(size_t size) {
    vmem_handle h = {0};
    assert_int_equal(n.hsa_amd_vmem_handle_create(r.gpus[0].vram, size, 1, 0, &h), 0);
    assert_int_not_equal(h.handle, 0);
    return h;
}

// ---- virtual memory ----

static void test_map(void ** state) {
    (void) state;
    hsa_agent_t gpu = r.gpus[0].agent, other = r.gpus[1].agent;
    uint64_t before = available(gpu);
    char * va = reserve(4 * PAGE);
    vmem_handle a = memory(PAGE), b = memory(2 * PAGE);
    assert_int_equal(available(gpu), before - 3 * PAGE);
    assert_int_equal(n.hsa_amd_vmem_map(va, PAGE, 0, a, 0), 0);
    assert_int_equal(n.hsa_amd_vmem_map(va + PAGE, 2 * PAGE, 0, b, 0), 0);
    // What is mapped belongs to nobody before it is granted.
    uint32_t * host = rig_alloc(&r, r.system, 4 * PAGE);
    const hsa_agent_t both[] = {gpu, other};
    assert_int_equal(r.hsa_amd_agents_allow_access(2, both, NULL, host), 0);
    for (uint32_t i = 0; i < 3 * PAGE / 4; i++) {
        host[i] = i;
    }
    assert_int_equal(rig_copy(&r, gpu, va, host, PAGE), HSA_STATUS_ERROR_INVALID_ALLOCATION);
    uint32_t may = 99;
    assert_int_equal(n.hsa_amd_vmem_get_access(va, &may, gpu), 0);
    assert_int_equal(may, MAY_NOT);
    const struct access writer = {MAY_WRITE, gpu}, reader = {MAY_READ, other};
    assert_int_equal(n.hsa_amd_vmem_set_access(va, 3 * PAGE, &writer, 1), 0);
    assert_int_equal(n.hsa_amd_vmem_get_access(va + 2 * PAGE, &may, gpu), 0);
    assert_int_equal(may, MAY_WRITE);
    // Pieces side by side are one for a copy.
    assert_int_equal(rig_copy(&r, gpu, va, host, 3 * PAGE), 0);
    memset(host, 0, 4 * PAGE);
    assert_int_equal(rig_copy(&r, gpu, host, va + PAGE - 8, 16), 0);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(host[i], PAGE / 4 - 2 + i);
    }
    // But what lies behind them is nothing.
    assert_int_equal(rig_copy(&r, gpu, host, va + 2 * PAGE, PAGE + 1),
                     HSA_STATUS_ERROR_INVALID_ALLOCATION);
    assert_int_equal(rig_copy(&r, other, host, va, 16), HSA_STATUS_ERROR_INVALID_ALLOCATION);
    assert_int_equal(n.hsa_amd_vmem_set_access(va, PAGE, &reader, 1), 0);
    assert_int_equal(n.hsa_amd_vmem_get_access(va, &may, other), 0);
    assert_int_equal(may, MAY_READ);
    assert_int_equal(n.hsa_amd_vmem_get_access(va + PAGE, &may, other), 0);
    assert_int_equal(may, MAY_NOT);
    assert_int_equal(rig_copy(&r, other, host, va, 16), 0);
    assert_int_equal(host[3], 3);
    const struct access nobody = {MAY_NOT, other};
    assert_int_equal(n.hsa_amd_vmem_set_access(va, PAGE, &nobody, 1), 0);
    assert_int_equal(rig_copy(&r, other, host, va, 16), HSA_STATUS_ERROR_INVALID_ALLOCATION);
    // Two addresses of the same memory.
    char * again = reserve(PAGE);
    assert_int_equal(n.hsa_amd_vmem_map(again, PAGE, PAGE, b, 0), 0);
    assert_int_equal(n.hsa_amd_vmem_set_access(again, PAGE, &writer, 1), 0);
    assert_int_equal(rig_copy(&r, gpu, host, again, 4), 0);
    assert_int_equal(host[0], 2 * PAGE / 4);
    host[0] = 4711;
    assert_int_equal(rig_copy(&r, gpu, va + 2 * PAGE, host, 4), 0);
    assert_int_equal(rig_copy(&r, gpu, host + 1, again, 4), 0);
    assert_int_equal(host[1], 4711);
    // What pointers are.
    hsa_amd_pointer_info_t info = {.size = sizeof info};
    assert_int_equal(r.hsa_amd_pointer_info(va + PAGE + 5, &info, NULL, NULL, NULL), 0);
    assert_int_equal(info.type, 6);
    assert_ptr_equal(info.agentBaseAddress, va + PAGE);
    assert_int_equal(info.sizeInBytes, 2 * PAGE);
    assert_int_equal(info.agentOwner.handle, gpu.handle);
    assert_int_equal(r.hsa_amd_pointer_info(va + 3 * PAGE, &info, NULL, NULL, NULL), 0);
    assert_int_equal(info.type, 5);
    assert_int_equal(r.hsa_amd_memory_pool_free(va), HSA_STATUS_ERROR_INVALID_ALLOCATION);
    // A handle lives as long as it is mapped, and can be had again from an address.
    assert_int_equal(n.hsa_amd_vmem_handle_release(b), 0);
    assert_int_equal(n.hsa_amd_vmem_handle_release(b), HSA_STATUS_ERROR_INVALID_ALLOCATION);
    assert_int_equal(rig_copy(&r, gpu, host, again, 4), 0);
    vmem_handle same = {0};
    hsa_amd_memory_pool_t pool = {0};
    uint32_t type = 9;
    assert_int_equal(n.hsa_amd_vmem_retain_alloc_handle(&same, again), 0);
    assert_int_equal(same.handle, b.handle);
    assert_int_equal(n.hsa_amd_vmem_get_alloc_properties_from_handle(same, &pool, &type), 0);
    assert_int_equal(pool.handle, r.gpus[0].vram.handle);
    assert_int_equal(type, 1);
    assert_int_equal(n.hsa_amd_vmem_handle_release(same), 0);
    // Whole pieces are unmapped, several at once.
    assert_int_equal(n.hsa_amd_vmem_unmap(va, 2 * PAGE), HSA_STATUS_ERROR_INVALID_ALLOCATION);
    assert_int_equal(n.hsa_amd_vmem_address_free(va, 4 * PAGE), HSA_STATUS_ERROR_RESOURCE_FREE);
    assert_int_equal(n.hsa_amd_vmem_unmap(va, 3 * PAGE), 0);
    assert_int_equal(rig_copy(&r, gpu, host, va, 4), HSA_STATUS_ERROR_INVALID_ALLOCATION);
    assert_int_equal(n.hsa_amd_vmem_unmap(again, PAGE), 0);
    assert_int_equal(n.hsa_amd_vmem_handle_release(a), 0);
    assert_int_equal(available(gpu), before);
    assert_int_equal(n.hsa_amd_vmem_address_free(va, PAGE), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(n.hsa_amd_vmem_address_free(va, 4 * PAGE), 0);
    assert_int_equal(n.hsa_amd_vmem_address_free(va, 4 * PAGE),
                     HSA_STATUS_ERROR_INVALID_ALLOCATION);
    assert_int_equal(n.hsa_amd_vmem_address_free(again, PAGE), 0);
    assert_int_equal(r.hsa_amd_memory_pool_free(host), 0);
}

static void test_map_refuses(void ** state) {
    (void) state;
    hsa_agent_t gpu = r.gpus[0].agent;
    char * va = reserve(2 * PAGE);
    vmem_handle h = memory(PAGE), none = {12345}, out = {0};
    const struct access writer = {MAY_WRITE, gpu}, host = {MAY_WRITE, r.cpu},
                        nobody = {MAY_WRITE, {12345}};
    // Sizes and places.
    void * p = NULL;
    assert_int_equal(n.hsa_amd_vmem_address_reserve(&p, 0, 0, 0),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(n.hsa_amd_vmem_address_reserve(&p, 100, 0, 0),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(n.hsa_amd_vmem_address_reserve_align(&p, PAGE, 0, 3 * PAGE, 0),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(n.hsa_amd_vmem_handle_create(r.gpus[0].vram, 100, 1, 0, &out),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(n.hsa_amd_vmem_handle_create(r.gpus[0].vram, PAGE, 7, 0, &out),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(n.hsa_amd_vmem_handle_create(r.gpus[0].group, PAGE, 0, 0, &out),
                     HSA_STATUS_ERROR_INVALID_ALLOCATION);
    assert_int_equal(n.hsa_amd_vmem_handle_create(r.gpus[0].vram, (size_t) 1 << 46, 0, 0, &out),
                     HSA_STATUS_ERROR_INVALID_ALLOCATION);
    assert_int_equal(n.hsa_amd_vmem_map(va, PAGE, 0, none, 0), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(n.hsa_amd_vmem_map(va, 2 * PAGE, 0, h, 0), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(n.hsa_amd_vmem_map(va, PAGE, PAGE, h, 0), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(n.hsa_amd_vmem_map(va + 8, PAGE, 0, h, 0), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(n.hsa_amd_vmem_map(va - PAGE, PAGE, 0, h, 0),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(n.hsa_amd_vmem_map(va, PAGE, 0, h, 0), 0);
    assert_int_equal(n.hsa_amd_vmem_map(va, PAGE, 0, h, 0), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    // Agents.
    uint32_t may;
    assert_int_equal(n.hsa_amd_vmem_set_access(va, 2 * PAGE, &writer, 1),
                     HSA_STATUS_ERROR_INVALID_ALLOCATION);
    assert_int_equal(n.hsa_amd_vmem_set_access(va, PAGE, &nobody, 1),
                     HSA_STATUS_ERROR_INVALID_AGENT);
    assert_int_equal(n.hsa_amd_vmem_set_access(va, PAGE, &host, 1), HSA_STATUS_ERROR);
    assert_int_equal(n.hsa_amd_vmem_get_access(va, &may, r.cpu), HSA_STATUS_ERROR_INVALID_AGENT);
    assert_int_equal(n.hsa_amd_vmem_get_access(va + PAGE, &may, gpu),
                     HSA_STATUS_ERROR_INVALID_ALLOCATION);
    // The host's memory has addresses of its own.
    assert_int_equal(n.hsa_amd_vmem_handle_create(r.system, PAGE, 0, 0, &out), 0);
    assert_int_equal(n.hsa_amd_vmem_map(va + PAGE, PAGE, 0, out, 0),
                     HSA_STATUS_ERROR_INVALID_AGENT);
    assert_int_equal(n.hsa_amd_vmem_handle_release(out), 0);
    // Plain memory, where a program asks for it.
    assert_int_equal(n.hsa_amd_vmem_address_reserve_align(&p, PAGE, 0, 1 << 21, NO_REGISTER), 0);
    assert_int_equal((uintptr_t) p % (1 << 21), 0);
    memset(p, 1, PAGE);
    assert_int_equal(n.hsa_amd_vmem_map(p, PAGE, 0, h, 0), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(n.hsa_amd_vmem_address_free(p, PAGE), 0);
    // Nothing that is shared with other processes is played.
    int fd = 5;
    uint64_t offset = 7;
    assert_int_equal(n.hsa_amd_vmem_export_shareable_handle(&fd, h, 0), HSA_STATUS_ERROR);
    assert_int_equal(n.hsa_amd_portable_export_dmabuf(va, PAGE, &fd, &offset), HSA_STATUS_ERROR);
    assert_int_equal(n.hsa_amd_ais_file_read(0, va, PAGE, 0, &offset, &fd), HSA_STATUS_ERROR);
    assert_int_equal(fd, 5);
    assert_int_equal(offset, 7);
    // What is left is cleaned up with the runtime.
}

// GPU memory is not the host's: a program that uses it there stops.
static void test_map_host(void ** state) {
    (void) state;
    char * va = reserve(PAGE);
    vmem_handle h = memory(PAGE);
    const struct access writer = {MAY_WRITE, r.gpus[0].agent};
    assert_int_equal(n.hsa_amd_vmem_map(va, PAGE, 0, h, 0), 0);
    assert_int_equal(n.hsa_amd_vmem_set_access(va, PAGE, &writer, 1), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *) va = 1;
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

// Without a GPU there is plain memory alone.
static void test_no_gpu(void ** state) {
    (void) state;
    bool supported = true;
    assert_int_equal(r.hsa_system_get_info((hsa_system_info_t) 0x205, &supported), 0);
    assert_false(supported);
    void * p = NULL;
    vmem_handle h;
    assert_int_equal(n.hsa_amd_vmem_address_reserve(&p, PAGE, 0, 0),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(n.hsa_amd_vmem_handle_create(r.system, PAGE, 0, 0, &h),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(n.hsa_amd_vmem_address_reserve(&p, PAGE, 0, NO_REGISTER), 0);
    memset(p, 1, PAGE);
}

// ---- copies, signals, queues ----

static void test_engines(void ** state) {
    (void) state;
    // The first engine of a gfx90a copies from the host alone.
    hsa_agent_t host = r.cpu, gfx90a = r.gpus[0].agent, gfx1100 = r.gpus[1].agent;
    uint32_t mask = 99;
    assert_int_equal(n.hsa_amd_memory_copy_engine_status(gfx90a, host, &mask), 0);
    assert_int_equal(mask, 3);
    assert_int_equal(n.hsa_amd_memory_copy_engine_status(host, gfx90a, &mask), 0);
    assert_int_equal(mask, 2);
    assert_int_equal(n.hsa_amd_memory_copy_engine_status(host, gfx1100, &mask), 0);
    assert_int_equal(mask, 3);
    assert_int_equal(n.hsa_amd_memory_get_preferred_copy_engine(host, gfx1100, &mask), 0);
    assert_int_equal(mask, 0);
    assert_int_equal(n.hsa_amd_memory_copy_engine_status(host, host, &mask),
                     HSA_STATUS_ERROR_INVALID_AGENT);
    assert_int_equal(n.hsa_amd_memory_copy_engine_status(host, (hsa_agent_t){1}, &mask),
                     HSA_STATUS_ERROR_INVALID_AGENT);
    int * here = rig_alloc(&r, r.system, PAGE);
    int * there = rig_alloc(&r, r.gpus[0].vram, PAGE);
    assert_int_equal(r.hsa_amd_agents_allow_access(1, &gfx90a, NULL, here), 0);
    hsa_signal_t done;
    assert_int_equal(r.hsa_signal_create(2, 0, NULL, &done), 0);
    here[0] = 42;
    assert_int_equal(n.hsa_amd_memory_async_copy_on_engine(there, gfx90a, here, host, 4, 0, NULL,
                                                           done, 1, false),
                     0);
    r.hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 2, UINT64_MAX, 0);
    for (uint32_t engine = 0; engine < 8; engine++) {
        if (engine != 2) {
            assert_int_equal(n.hsa_amd_memory_async_copy_on_engine(here + 1, host, there, gfx90a, 4,
                                                                   0, NULL, done, engine, true),
                             HSA_STATUS_ERROR_INVALID_ARGUMENT);
        }
    }
    assert_int_equal(n.hsa_amd_memory_async_copy_on_engine(here + 1, host, there, gfx90a, 4, 0,
                                                           NULL, done, 2, true),
                     0);
    r.hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, 0);
    assert_int_equal(here[1], 42);
    assert_int_equal(r.hsa_signal_destroy(done), 0);
}

static void after_a_while(void * data) {
    const struct timespec moment = {.tv_nsec = 20000000};
    nanosleep(&moment, NULL);
    r.hsa_signal_store_screlease(*(hsa_signal_t *) data, 7);
}

static void test_wait_all(void ** state) {
    (void) state;
    hsa_signal_t s[3] = {{0}}; // the last is none, and holds nobody up
    for (int i = 0; i < 2; i++) {
        assert_int_equal(r.hsa_signal_create(1, 0, NULL, &s[i]), 0);
    }
    hsa_signal_condition_t conditions[3] = {HSA_SIGNAL_CONDITION_EQ, HSA_SIGNAL_CONDITION_GTE,
                                            HSA_SIGNAL_CONDITION_EQ};
    hsa_signal_value_t compares[3] = {1, 5, 3}, values[3] = {9, 9, 9};
    assert_int_equal(n.hsa_amd_signal_wait_all(3, s, conditions, compares, 1000000, 0, values),
                     UINT32_MAX);
    assert_int_equal(values[1], 1);
    assert_int_equal(r.hsa_amd_async_function(after_a_while, &s[1]), 0);
    assert_int_equal(n.hsa_amd_signal_wait_all(3, s, conditions, compares, UINT64_MAX, 0, values),
                     0);
    assert_int_equal(values[0], 1);
    assert_int_equal(values[1], 7);
    assert_int_equal(values[2], 0);
    assert_int_equal(n.hsa_amd_signal_wait_all(0, NULL, NULL, NULL, 0, 0, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(r.hsa_signal_destroy(s[i]), 0);
    }
}

static void test_queue_info(void ** state) {
    (void) state;
    hsa_queue_t * q;
    assert_int_equal(
        r.hsa_queue_create(r.gpus[1].agent, 64, HSA_QUEUE_TYPE_MULTI, NULL, NULL, 0, 0, &q), 0);
    uint64_t value = 0;
    assert_int_equal(n.hsa_amd_queue_get_info(q, 0, &value), 0);
    assert_int_equal(value, r.gpus[1].agent.handle);
    assert_int_equal(n.hsa_amd_queue_get_info(q, 1, &value), 0);
    assert_int_equal(value, q->doorbell_signal.handle);
    assert_int_equal(n.hsa_amd_queue_get_info(q, 2, &value), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(r.hsa_queue_destroy(q), 0);
    assert_int_equal(n.hsa_amd_queue_get_info(q, 0, &value), HSA_STATUS_ERROR_INVALID_QUEUE);
}

// ---- what is said ----

static void test_answers(void ** state) {
    (void) state;
    static const struct {
        uint32_t attribute, gfx90a, gfx942, gfx1100;
    } words[] = {
        {0xA107, 141, 141, 145}, // ASIC_FAMILY_ID
        {0xA108, 0, 0, 0},       // UCODE_VERSION
        {0xA10A, 2, 2, 2},       // NUM_SDMA_ENG
        {0xA10B, 0, 0, 0},       // NUM_SDMA_XGMI_ENG
        {0xA110, 0, 0, 0},       // IOMMU_SUPPORT
        {0xA111, 1, 8, 1},       // NUM_XCC
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const uint32_t expected[] = {words[i].gfx90a, words[i].gfx1100, words[i].gfx942};
        for (int k = 0; k < 3; k++) {
            uint32_t value = 12345;
            assert_int_equal(r.hsa_agent_get_info(r.gpus[k].agent,
                                                  (hsa_agent_info_t) words[i].attribute, &value),
                             0);
            assert_int_equal(value, expected[k]);
        }
    }
    uint64_t scratch[2], clocks[4];
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(
            r.hsa_agent_get_info(r.gpus[0].agent, (hsa_agent_info_t) (0xA116 + i), &scratch[i]), 0);
    }
    assert_int_equal(scratch[0], (uint64_t) 1 << 32);
    assert_int_equal(scratch[1], 0);
    assert_int_equal(r.hsa_agent_get_info(r.gpus[0].agent, (hsa_agent_info_t) 0xA118, clocks), 0);
    assert_true(clocks[0] > 0 && clocks[3] > 0);
    bool vmem = false;
    assert_int_equal(r.hsa_system_get_info((hsa_system_info_t) 0x205, &vmem), 0);
    assert_true(vmem);
    uint16_t version[2] = {0};
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(r.hsa_system_get_info((hsa_system_info_t) (0x207 + i), &version[i]), 0);
    }
    assert_int_equal(version[0], 1);
    assert_int_equal(version[1], 15);
}

// What the runtime says goes where the program wants it, and back.
static void test_logging(void ** state) {
    (void) state;
    char text[256] = "";
    FILE * file = tmpfile();
    assert_non_null(file);
    uint8_t flags[8] = {0};
    assert_int_equal(n.hsa_amd_enable_logging(flags, file), 0);
    rig_env("gfx99999", NULL, NULL);
    assert_int_equal(r.hsa_shut_down(), 0);
    assert_int_not_equal(r.hsa_init(), 0);
    rig_env("gfx90a", NULL, NULL);
    assert_int_equal(r.hsa_init(), 0);
    assert_int_equal(n.hsa_amd_enable_logging(flags, NULL), 0);
    rewind(file);
    assert_non_null(fgets(text, sizeof text, file));
    assert_non_null(strstr(text, "gfx99999"));
    fclose(file);
}

// Memory that is mapped lies in files without a name, and a limit on the size of files counts for
// them: there is no memory then, and still a program.
static void test_small_files(void ** state) {
    (void) state;
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){4096, before.rlim_max};
    vmem_handle h = {0};
    setrlimit(RLIMIT_FSIZE, &limit);
    hsa_status_t status = n.hsa_amd_vmem_handle_create(r.gpus[0].vram, 16 * PAGE, 1, 0, &h);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_not_equal(status, 0);
    assert_int_equal(n.hsa_amd_vmem_handle_release(memory(16 * PAGE)), 0);
}

int main(void) {
    static char all[] = "gfx90a,gfx1100,gfx942", npu[] = "aie2";
#define TEST(name) cmocka_unit_test_prestate_setup_teardown(name, open_runtime, close_runtime, all)
    const struct CMUnitTest tests[] = {
        TEST(test_map),
        TEST(test_map_refuses),
        TEST(test_map_host),
        TEST(test_small_files),
        TEST(test_engines),
        TEST(test_wait_all),
        TEST(test_queue_info),
        TEST(test_answers),
        TEST(test_logging),
        cmocka_unit_test_prestate_setup_teardown(test_no_gpu, open_runtime, close_runtime, npu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
