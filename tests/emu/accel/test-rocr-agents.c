// test-rocr-agents: what AMD's ROCr makes of the played device: agents, memory pools, and buffers
// of the right kinds; and that the emulated runtime of this project says the same of its NPU.
#include "base/cmocka-all.h"

#include <dlfcn.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdbool.h>
#include <unistd.h>

enum { DEVICE_NPU = 3, POOLS = 3, INFO_REC_GRANULE = 18, PRODUCT = 0xA009 };

#define SYMBOLS(X)                                                                                 \
    X(hsa_init)                                                                                    \
    X(hsa_shut_down)                                                                               \
    X(hsa_system_get_info)                                                                         \
    X(hsa_iterate_agents)                                                                          \
    X(hsa_agent_get_info)                                                                          \
    X(hsa_amd_agent_iterate_memory_pools)                                                          \
    X(hsa_amd_memory_pool_get_info)                                                                \
    X(hsa_amd_memory_pool_allocate)                                                                \
    X(hsa_amd_memory_pool_free)

static struct {
    void * library;
#define FIELD(name) __typeof__(name) * name;
    SYMBOLS(FIELD)
} rt;

struct pool {
    hsa_amd_memory_pool_t handle;
    uint32_t flags;
    uint64_t rec_granule, size;
};

struct agent {
    hsa_agent_t handle;
    uint32_t device;
    char name[64], product[64];
    uint32_t queue_size, queues;
    struct pool pools[8];
    int n_pools;
};

static struct agent agents[8];
static int n_agents;

static hsa_status_t visit_pool(hsa_amd_memory_pool_t pool, void * data) {
    struct agent * a = data;
    struct pool * p = &a->pools[a->n_pools++];
    p->handle = pool;
    rt.hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &p->flags);
    rt.hsa_amd_memory_pool_get_info(pool, (hsa_amd_memory_pool_info_t) INFO_REC_GRANULE,
                                    &p->rec_granule);
    rt.hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SIZE, &p->size);
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t visit_agent(hsa_agent_t agent, void * data) {
    (void) data;
    struct agent * a = &agents[n_agents++];
    a->handle = agent;
    rt.hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &a->device);
    rt.hsa_agent_get_info(agent, HSA_AGENT_INFO_NAME, a->name);
    rt.hsa_agent_get_info(agent, (hsa_agent_info_t) PRODUCT, a->product);
    rt.hsa_agent_get_info(agent, HSA_AGENT_INFO_QUEUE_MAX_SIZE, &a->queue_size);
    rt.hsa_agent_get_info(agent, HSA_AGENT_INFO_QUEUES_MAX, &a->queues);
    return rt.hsa_amd_agent_iterate_memory_pools(agent, visit_pool, a);
}

static int setup(void ** state) {
    (void) state;
    rt.library = dlopen(getenv("GGML_HSA_RUNTIME"), RTLD_NOW);
    if (!rt.library) {
        print_message("%s\n", dlerror());
        return -1;
    }
    void * p;
#define FIND(name)                                                                                 \
    p = dlsym(rt.library, #name);                                                                  \
    memcpy(&rt.name, &p, sizeof p);
    SYMBOLS(FIND)
    return rt.hsa_init() == HSA_STATUS_SUCCESS ? 0 : -1;
}

static int teardown(void ** state) {
    (void) state;
    return rt.hsa_shut_down() == HSA_STATUS_SUCCESS ? 0 : -1;
}

static const struct agent * npu(void) {
    for (int i = 0; i < n_agents; i++) {
        if (agents[i].device == DEVICE_NPU) {
            return &agents[i];
        }
    }
    fail_msg("no NPU among %d agents", n_agents);
    return NULL;
}

static void test_agents(void ** state) {
    (void) state;
    assert_int_equal(rt.hsa_iterate_agents(visit_agent, NULL), HSA_STATUS_SUCCESS);
    int kinds[4] = {0};
    for (int i = 0; i < n_agents; i++) {
        assert_in_range(agents[i].device, 0, 3);
        kinds[agents[i].device]++;
    }
    assert_int_equal(kinds[HSA_DEVICE_TYPE_CPU], 1);
    assert_int_equal(kinds[HSA_DEVICE_TYPE_GPU], 0); // the one that does nothing is hidden
    assert_int_equal(kinds[DEVICE_NPU], 1);
    assert_string_equal(npu()->name, getenv("EXPECT_NAME"));
    assert_string_equal(npu()->product, getenv("EXPECT_PRODUCT"));
    assert_int_equal(npu()->queue_size, 64);
    assert_int_equal(npu()->queues, 1);
}

static void test_pools(void ** state) {
    (void) state;
    const uint32_t kernarg = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT;
    const uint32_t coarse = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
    const struct agent * a = npu();
    const uint64_t memory = (uint64_t) sysconf(_SC_PHYS_PAGES) * (uint64_t) sysconf(_SC_PAGESIZE);
    assert_int_equal(a->n_pools, POOLS);
    assert_int_equal(a->pools[0].flags, kernarg | coarse);
    assert_int_equal(a->pools[0].rec_granule, 4096);
    assert_int_equal(a->pools[1].flags, coarse);
    assert_int_equal(a->pools[1].rec_granule, 0); // by this the heap is known
    assert_int_equal(a->pools[1].size, 64 << 20);
    assert_int_equal(a->pools[2].flags, coarse);
    assert_int_equal(a->pools[2].rec_granule, 4096);
    assert_int_equal(a->pools[2].size, memory);
}

static void test_buffers(void ** state) {
    (void) state;
    const struct agent * a = npu();
    for (int i = 0; i < POOLS; i++) {
        uint8_t *p, *q;
        assert_int_equal(rt.hsa_amd_memory_pool_allocate(a->pools[i].handle, 100, 0, (void **) &p),
                         0);
        assert_int_equal(rt.hsa_amd_memory_pool_allocate(a->pools[i].handle, 8192, 0, (void **) &q),
                         0);
        memset(p, 1, 100);
        memset(q, 2, 8192);
        assert_int_equal(p[99], 1);
        bool heap = i == 1; // whose buffers lie 32 KiB apart
        assert_true(!heap || (q - p) % 32768 == 0);
        assert_int_equal(rt.hsa_amd_memory_pool_free(p), 0);
        assert_int_equal(rt.hsa_amd_memory_pool_free(q), 0);
    }
}

// All 64 MiB, in the smallest of pieces: no more than one for each 32 KiB.
static void test_full_heap(void ** state) {
    (void) state;
    enum { PLACES = (64 << 20) / 32768 };
    static void * pieces[PLACES + 1];
    hsa_amd_memory_pool_t heap = npu()->pools[1].handle;
    int n = 0;
    while (n <= PLACES && rt.hsa_amd_memory_pool_allocate(heap, 16, 0, &pieces[n]) == 0) {
        n++;
    }
    assert_int_equal(n, PLACES);
    for (int i = 0; i < n; i++) {
        assert_int_equal(rt.hsa_amd_memory_pool_free(pieces[i]), 0);
    }
    assert_int_equal(rt.hsa_amd_memory_pool_allocate(heap, 60 << 20, 0, &pieces[0]), 0);
    assert_int_equal(rt.hsa_amd_memory_pool_free(pieces[0]), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agents),
        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_full_heap),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
