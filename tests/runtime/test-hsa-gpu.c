// Emulated GPUs through the HSA API, without kernels: agents and pools say what ROCr's would,
// memory is granted, copies and handlers wait for their signals, queues keep the rules of their
// packets.
#include "gpu.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void open_gpus(struct rig * r, const char * names) {
    rig_env(names, NULL, NULL);
    rig_open(r);
}

static hsa_status_t keep_isa(hsa_isa_t isa, void * data) {
    *(hsa_isa_t *) data = isa;
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t keep_cache(hsa_cache_t cache, void * data) {
    *(hsa_cache_t *) data = cache; // the last
    return HSA_STATUS_SUCCESS;
}

static void test_agents(void ** state) {
    (void) state;
    static const struct {
        const char *name, *product, *isa;
        uint32_t wavefront, units, chip;
    } expected[] = {
        {"gfx1100", "AMD Radeon RX 7900 XTX", "amdgcn-amd-amdhsa--gfx1100", 32, 96, 0x744c},
        {"gfx90a", "AMD Instinct MI210", "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-", 64, 104,
         0x740f},
        {"gfx942", "AMD Instinct MI300X", "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-", 64, 304,
         0x74a1},
    };
    struct rig r;
    open_gpus(&r, "gfx1100,aie2,gfx90a,gfx942");
    assert_int_equal(r.n_gpus, 3);
    assert_int_not_equal(r.npu.handle, 0);
    for (int i = 0; i < 3; i++) {
        hsa_agent_t a = r.gpus[i].agent;
        char text[64];
        assert_int_equal(r.hsa_agent_get_info(a, HSA_AGENT_INFO_NAME, text), 0);
        assert_string_equal(text, expected[i].name);
        assert_int_equal(
            r.hsa_agent_get_info(a, (hsa_agent_info_t) HSA_AMD_AGENT_INFO_PRODUCT_NAME, text), 0);
        assert_string_equal(text, expected[i].product);
        const struct {
            uint32_t attribute, value;
        } words[] = {
            {HSA_AGENT_INFO_FEATURE, HSA_AGENT_FEATURE_KERNEL_DISPATCH},
            {HSA_AGENT_INFO_PROFILE, HSA_PROFILE_BASE},
            {HSA_AGENT_INFO_WAVEFRONT_SIZE, expected[i].wavefront},
            {HSA_AGENT_INFO_WORKGROUP_MAX_SIZE, 1024},
            {HSA_AGENT_INFO_GRID_MAX_SIZE, UINT32_MAX},
            {HSA_AGENT_INFO_QUEUES_MAX, 128},
            {HSA_AGENT_INFO_QUEUE_MIN_SIZE, 64},
            {HSA_AGENT_INFO_QUEUE_MAX_SIZE, 131072},
            {HSA_AGENT_INFO_QUEUE_TYPE, HSA_QUEUE_TYPE_MULTI},
            {HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT, expected[i].units},
            {HSA_AMD_AGENT_INFO_CHIP_ID, expected[i].chip},
            {HSA_AMD_AGENT_INFO_DOMAIN, 0},
        };
        for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
            uint32_t value = 12345;
            assert_int_equal(r.hsa_agent_get_info(a, (hsa_agent_info_t) words[k].attribute, &value),
                             0);
            assert_int_equal(value, words[k].value);
        }
        uint32_t value = 12345;
        assert_int_equal(r.hsa_agent_get_info(a, (hsa_agent_info_t) 0xB999, &value),
                         HSA_STATUS_ERROR_INVALID_ARGUMENT);
        assert_int_equal(value, 0);
        hsa_isa_t isa = {0}, named;
        uint32_t length;
        assert_int_equal(r.hsa_agent_iterate_isas(a, keep_isa, &isa), 0);
        assert_int_equal(r.hsa_isa_get_info_alt(isa, HSA_ISA_INFO_NAME_LENGTH, &length), 0);
        assert_int_equal(length, strlen(expected[i].isa) + 1);
        assert_int_equal(r.hsa_isa_get_info_alt(isa, HSA_ISA_INFO_NAME, text), 0);
        assert_string_equal(text, expected[i].isa);
        assert_int_equal(r.hsa_isa_from_name(text, &named), 0);
        assert_int_equal(named.handle, isa.handle);
        hsa_cache_t cache = {0};
        uint8_t level = 0;
        assert_int_equal(r.hsa_agent_iterate_caches(a, keep_cache, &cache), 0);
        assert_int_equal(r.hsa_cache_get_info(cache, HSA_CACHE_INFO_LEVEL, &level), 0);
        assert_between(level, 2, 3);
        struct hsa_emu_counters c = {.dispatches = 9};
        assert_int_equal(r.hsa_emu_counters(a, &c), 0);
        assert_int_equal(c.dispatches, 0);
        struct hsa_emu_launch l = {.size = sizeof l};
        assert_int_equal(r.hsa_emu_launch(a, 0, &l), HSA_STATUS_ERROR_INVALID_INDEX);
        assert_int_equal(r.hsa_emu_launch(a, 1, &l), HSA_STATUS_ERROR_INVALID_INDEX);
        l.size = 1;
        assert_int_equal(r.hsa_emu_launch(a, 0, &l), HSA_STATUS_ERROR_INVALID_ARGUMENT);
        assert_int_equal(r.hsa_emu_launch(a, 0, NULL), HSA_STATUS_ERROR_INVALID_ARGUMENT);
        assert_int_equal(r.hsa_emu_launch(r.cpu, 0, &l), HSA_STATUS_ERROR_INVALID_AGENT);
    }
    hsa_isa_t isa;
    assert_int_equal(r.hsa_isa_from_name("amdgcn-amd-amdhsa--gfx90a", &isa),
                     HSA_STATUS_ERROR_INVALID_ISA_NAME);
    rig_close(&r);
}

static hsa_amd_memory_pool_access_t access_of(struct rig * r, hsa_agent_t a,
                                              hsa_amd_memory_pool_t pool) {
    hsa_amd_memory_pool_access_t access = (hsa_amd_memory_pool_access_t) 99;
    assert_int_equal(r->hsa_amd_agent_memory_pool_get_info(
                         a, pool, HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &access),
                     0);
    return access;
}

static void test_pools(void ** state) {
    (void) state;
    struct rig r;
    open_gpus(&r, "gfx90a,gfx1100,aie2");
    for (int i = 0; i < 2; i++) {
        const hsa_amd_memory_pool_t pools[] = {r.gpus[i].vram, r.gpus[i].fine, r.gpus[i].group};
        const uint32_t flags[] = {HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED,
                                  HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED, 0};
        for (int k = 0; k < 3; k++) {
            uint32_t segment = 9, flag = 9;
            size_t size = 0;
            bool allowed = false;
            assert_int_equal(r.hsa_amd_memory_pool_get_info(
                                 pools[k], HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment),
                             0);
            assert_int_equal(r.hsa_amd_memory_pool_get_info(
                                 pools[k], HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flag),
                             0);
            assert_int_equal(
                r.hsa_amd_memory_pool_get_info(pools[k], HSA_AMD_MEMORY_POOL_INFO_SIZE, &size), 0);
            assert_int_equal(
                r.hsa_amd_memory_pool_get_info(
                    pools[k], HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &allowed),
                0);
            assert_int_equal(segment, k == 2 ? HSA_AMD_SEGMENT_GROUP : HSA_AMD_SEGMENT_GLOBAL);
            assert_int_equal(flag, flags[k]);
            assert_int_equal(allowed, k != 2);
            assert_true(k == 2 ? size == 65536 : size >= (size_t) 64 << 20);
        }
        void * p;
        assert_int_equal(r.hsa_amd_memory_pool_allocate(r.gpus[i].group, 16, 0, &p),
                         HSA_STATUS_ERROR_INVALID_ALLOCATION);
    }
    hsa_agent_t a = r.gpus[0].agent, b = r.gpus[1].agent;
    assert_int_equal(access_of(&r, a, r.gpus[0].vram),
                     HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT);
    assert_int_equal(access_of(&r, b, r.gpus[0].vram),
                     HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT);
    assert_int_equal(access_of(&r, a, r.system), HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT);
    assert_int_equal(access_of(&r, r.cpu, r.gpus[0].vram),
                     HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED);
    assert_int_equal(access_of(&r, r.npu, r.gpus[0].vram),
                     HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED);
    assert_int_equal(access_of(&r, a, r.heap), HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED);
    assert_int_equal(access_of(&r, r.cpu, r.gpus[0].group),
                     HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED);
    uint32_t hops = 9;
    assert_int_equal(r.hsa_amd_agent_memory_pool_get_info(
                         a, r.system, HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS, &hops),
                     0);
    assert_int_equal(hops, 1);
    hsa_amd_memory_pool_link_info_t link;
    assert_int_equal(r.hsa_amd_agent_memory_pool_get_info(
                         a, r.system, HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO, &link),
                     0);
    assert_int_equal(link.link_type, HSA_AMD_LINK_INFO_TYPE_PCIE);
    assert_true(link.atomic_support_64bit);
    rig_close(&r);
}

static void * keep_agents(size_t size) {
    return malloc(size);
}

static uint32_t count_accessible(struct rig * r, const void * p, hsa_amd_pointer_info_t * info) {
    hsa_agent_t * agents = NULL;
    uint32_t n = 99;
    info->size = sizeof *info;
    assert_int_equal(r->hsa_amd_pointer_info(p, info, keep_agents, &n, &agents), 0);
    free(agents);
    return n;
}

// What a GPU's memory holds; the host cannot see it there.
static const uint8_t * look(struct rig * r, const void * vram) {
    static uint8_t copy[4096];
    assert_int_equal(r->hsa_memory_copy(copy, vram, sizeof copy), 0);
    return copy;
}

static void test_memory(void ** state) {
    (void) state;
    struct rig r;
    open_gpus(&r, "gfx90a,gfx1100,aie2");
    hsa_agent_t both[] = {r.gpus[0].agent, r.gpus[1].agent};
    hsa_amd_pointer_info_t info;
    uint8_t * vram = rig_alloc(&r, r.gpus[0].vram, 100);
    assert_int_equal(count_accessible(&r, vram + 99, &info), 1);
    assert_ptr_equal(info.agentBaseAddress, vram);
    assert_null(info.hostBaseAddress);
    assert_int_equal(info.type, HSA_EXT_POINTER_TYPE_HSA);
    assert_int_equal(info.agentOwner.handle, both[0].handle);
    assert_int_equal(info.global_flags, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED);
    assert_int_equal(r.hsa_amd_agents_allow_access(2, both, NULL, vram), 0);
    assert_int_equal(count_accessible(&r, vram, &info), 2);
    uint8_t * host = rig_alloc(&r, r.system, 100);
    assert_int_equal(count_accessible(&r, host, &info), 1);
    assert_int_equal(r.hsa_amd_agents_allow_access(2, both, NULL, host), 0);
    assert_int_equal(count_accessible(&r, host, &info), 3);
    assert_int_equal(r.hsa_amd_agents_allow_access(1, both, NULL, host), 0); // replaces
    assert_int_equal(count_accessible(&r, host, &info), 2);
    assert_int_equal(r.hsa_amd_agents_allow_access(1, &r.npu, NULL, vram),
                     HSA_STATUS_ERROR_INVALID_ALLOCATION);
    uint8_t * heap = rig_alloc(&r, r.heap, 1);
    assert_int_equal(r.hsa_amd_agents_allow_access(1, both, NULL, heap),
                     HSA_STATUS_ERROR_INVALID_ALLOCATION);
    // Locks may overlap.
    static uint8_t pinned[256];
    void * p = NULL;
    assert_int_equal(r.hsa_amd_memory_lock(pinned, 128, both, 2, &p), 0);
    assert_int_equal(r.hsa_amd_memory_lock_to_pool(pinned + 64, 192, both, 2, r.system, 0, &p), 0);
    assert_ptr_not_equal(p, pinned + 64); // GPUs see it elsewhere
    assert_int_equal((uintptr_t) p % 4096, (uintptr_t) (pinned + 64) % 4096);
    assert_int_equal(count_accessible(&r, p, &info), 4);
    assert_ptr_equal(info.hostBaseAddress, pinned + 64);
    assert_ptr_equal(info.agentBaseAddress, p);
    pinned[70] = 123;
    hsa_signal_t done;
    assert_int_equal(r.hsa_signal_create(1, 0, NULL, &done), 0);
    assert_int_equal(
        r.hsa_amd_memory_async_copy(vram, both[0], (uint8_t *) p + 6, r.cpu, 1, 0, NULL, done), 0);
    assert_int_equal(gpu_wait(&r, done), 0);
    assert_int_equal(look(&r, vram)[0], 123);
    assert_int_equal(r.hsa_amd_memory_fill(p, 0x01010101, 2), 0);
    assert_int_equal(r.hsa_memory_copy((uint8_t *) p + 8, vram, 1), 0);
    assert_int_equal(pinned[71], 1);
    assert_int_equal(pinned[72], 123);
    assert_int_equal(r.hsa_amd_memory_lock_to_pool(pinned, 9, both, 2, r.gpus[0].vram, 0, &p),
                     HSA_STATUS_ERROR_INVALID_MEMORY_POOL);
    assert_int_equal(count_accessible(&r, pinned + 255, &info), 4);
    assert_int_equal(info.type, HSA_EXT_POINTER_TYPE_LOCKED);
    assert_ptr_equal(info.hostBaseAddress, pinned + 64);
    assert_int_equal(r.hsa_amd_memory_unlock(pinned + 64), 0);
    assert_int_equal(count_accessible(&r, pinned + 100, &info), 4);
    assert_int_equal(count_accessible(&r, pinned + 200, &info), 0);
    assert_int_equal(r.hsa_amd_memory_unlock(pinned), 0);
    assert_int_equal(r.hsa_amd_memory_unlock(pinned), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    rig_close(&r);
}

// A program that touches the memory of a GPU ends there, as with a real one.
static void test_vram_is_not_the_hosts(void ** state) {
    (void) state;
    struct rig r;
    open_gpus(&r, "gfx1100");
    volatile uint8_t * vram = rig_alloc(&r, r.gpus[0].vram, 4096);
    for (int write = 0; write < 2; write++) {
        pid_t pid = fork();
        if (pid == 0) {
            signal(SIGSEGV, SIG_DFL);
            signal(SIGBUS, SIG_DFL);
            if (write) {
                vram[7] = 1;
            }
            _exit(vram[7]);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    }
    rig_close(&r);
}

static void test_copies(void ** state) {
    (void) state;
    struct rig r;
    open_gpus(&r, "gfx90a");
    hsa_agent_t gpu = r.gpus[0].agent;
    uint8_t * vram = rig_alloc(&r, r.gpus[0].vram, 4096);
    uint8_t * host = gpu_shared(&r, gpu, r.system, 4096);
    for (int i = 0; i < 4096; i++) {
        host[i] = (uint8_t) (i * 7);
    }
    hsa_signal_t deps[2], done;
    assert_int_equal(r.hsa_signal_create(1, 0, NULL, &deps[0]), 0);
    assert_int_equal(r.hsa_signal_create(1, 0, NULL, &deps[1]), 0);
    assert_int_equal(r.hsa_signal_create(2, 0, NULL, &done), 0);
    // The first waits for both signals, the one behind it does not wait for the first.
    assert_int_equal(r.hsa_amd_memory_async_copy(vram, gpu, host, r.cpu, 1000, 2, deps, done), 0);
    assert_int_equal(
        r.hsa_amd_memory_async_copy(vram + 2000, gpu, host + 2000, r.cpu, 1000, 0, NULL, done), 0);
    assert_int_equal(r.hsa_signal_load_scacquire(done), 1);
    assert_memory_equal(look(&r, vram) + 2000, host + 2000, 1000);
    // One that waits for a signal as well is made after the other's second signal has changed.
    hsa_signal_t third, later;
    assert_int_equal(r.hsa_signal_create(1, 0, NULL, &third), 0);
    assert_int_equal(r.hsa_signal_create(1, 0, NULL, &later), 0);
    assert_int_equal(
        r.hsa_amd_memory_async_copy(vram + 3000, gpu, host + 3000, r.cpu, 1000, 1, &third, later),
        0);
    r.hsa_signal_store_screlease(deps[1], 0);
    r.hsa_signal_store_screlease(third, 0);
    assert_int_equal(gpu_wait(&r, later), 0);
    assert_int_equal(r.hsa_signal_load_scacquire(done), 1);
    assert_int_equal(look(&r, vram)[1], 0);
    r.hsa_signal_store_screlease(deps[0], 0);
    assert_int_equal(gpu_wait(&r, done), 0);
    const uint8_t * seen = look(&r, vram);
    assert_memory_equal(seen, host, 1000);
    assert_int_equal(seen[1000], 0);
    // A block of 5 bytes, 3 rows, 2 planes.
    const hsa_pitched_ptr_t to = {vram, 16, 64}, from = {host, 32, 128};
    const hsa_dim3_t at = {1, 1, 1}, zero = {0, 0, 0}, range = {5, 3, 2};
    assert_int_equal(r.hsa_amd_memory_fill(vram, 0, 1024), 0);
    r.hsa_signal_store_screlease(done, 1);
    assert_int_equal(r.hsa_amd_memory_async_copy_rect(&to, &at, &from, &zero, &range, gpu,
                                                      hsaHostToDevice, 0, NULL, done),
                     0);
    assert_int_equal(gpu_wait(&r, done), 0);
    seen = look(&r, vram);
    for (int i = 0; i < 256; i++) {
        int x = i % 16 - 1, y = i / 16 % 4 - 1, z = i / 64 - 1;
        bool inside = x >= 0 && x < 5 && y >= 0 && y < 3 && z >= 0 && z < 2;
        assert_int_equal(seen[i], inside ? host[z * 128 + y * 32 + x] : 0);
    }
    // Memory that nobody knows, that this GPU was not granted, or that ends too early.
    uint8_t outside[16], *foreign = rig_alloc(&r, r.system, 16);
    assert_int_equal(r.hsa_amd_memory_async_copy(vram, gpu, foreign, r.cpu, 16, 0, NULL, done),
                     HSA_STATUS_ERROR_INVALID_ALLOCATION);
    assert_int_equal(r.hsa_amd_memory_async_copy(foreign, r.cpu, vram, gpu, 16, 0, NULL, done),
                     HSA_STATUS_ERROR_INVALID_ALLOCATION);
    assert_int_equal(r.hsa_amd_memory_async_copy(vram, gpu, outside, r.cpu, 16, 0, NULL, done),
                     HSA_STATUS_ERROR_INVALID_ALLOCATION);
    assert_int_equal(r.hsa_amd_memory_async_copy(vram + 1, gpu, host, r.cpu, 4096, 0, NULL, done),
                     HSA_STATUS_ERROR_INVALID_ALLOCATION);
    const hsa_dim3_t far = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
    const hsa_pitched_ptr_t wide = {vram, SIZE_MAX / 4, SIZE_MAX / 2};
    assert_int_equal(r.hsa_amd_memory_async_copy_rect(&wide, &zero, &from, &zero, &far, gpu,
                                                      hsaHostToDevice, 0, NULL, done),
                     HSA_STATUS_ERROR_INVALID_ALLOCATION);
    assert_int_equal(
        r.hsa_amd_memory_async_copy(vram, gpu, host, r.cpu, 16, 0, NULL, (hsa_signal_t){77}),
        HSA_STATUS_ERROR_INVALID_SIGNAL);
    // One that waits when the runtime ends is dropped.
    r.hsa_signal_store_screlease(deps[0], 1);
    assert_int_equal(r.hsa_amd_memory_async_copy(vram, gpu, host, r.cpu, 16, 1, deps, done), 0);
    rig_close(&r);
}

struct handled {
    struct rig * r;
    hsa_signal_t signal, next;
    int calls;
    int64_t value;
};

static bool handle(hsa_signal_value_t value, void * data) {
    struct handled * h = data;
    h->value = value;
    h->calls++;
    bool again = h->calls < 3;
    h->r->hsa_signal_store_relaxed(h->signal, 10);
    h->r->hsa_signal_subtract_relaxed(h->next, 1);
    return again;
}

static void function(void * data) {
    struct handled * h = data;
    h->r->hsa_signal_subtract_relaxed(h->next, 1);
}

static void test_handlers(void ** state) {
    (void) state;
    struct rig r;
    open_gpus(&r, "gfx90a");
    struct handled h = {.r = &r};
    assert_int_equal(r.hsa_signal_create(10, 0, NULL, &h.signal), 0);
    assert_int_equal(r.hsa_signal_create(1, 0, NULL, &h.next), 0);
    assert_int_equal(
        r.hsa_amd_signal_async_handler(h.signal, HSA_SIGNAL_CONDITION_LT, 5, handle, &h), 0);
    for (int i = 1; i <= 3; i++) { // the handler stays until it says otherwise
        r.hsa_signal_store_screlease(h.signal, 4);
        assert_int_equal(gpu_wait(&r, h.next), 0);
        assert_int_equal(h.calls, i);
        assert_int_equal(h.value, 4);
        r.hsa_signal_store_screlease(h.next, 1);
    }
    r.hsa_signal_store_screlease(h.signal, 4);
    assert_int_equal(r.hsa_amd_async_function(function, &h), 0);
    assert_int_equal(gpu_wait(&r, h.next), 0);
    assert_int_equal(h.calls, 3);
    assert_int_equal(
        r.hsa_amd_signal_async_handler((hsa_signal_t){5}, HSA_SIGNAL_CONDITION_LT, 5, handle, &h),
        HSA_STATUS_ERROR_INVALID_SIGNAL);
    assert_int_equal(r.hsa_amd_signal_async_handler(h.signal, HSA_SIGNAL_CONDITION_LT, 5, NULL, &h),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    // Left over: one whose signal is destroyed, one that waits for ever.
    assert_int_equal(
        r.hsa_amd_signal_async_handler(h.next, HSA_SIGNAL_CONDITION_LT, -5, handle, &h), 0);
    r.hsa_signal_store_screlease(h.signal, 10);
    assert_int_equal(
        r.hsa_amd_signal_async_handler(h.signal, HSA_SIGNAL_CONDITION_LT, 5, handle, &h), 0);
    assert_int_equal(r.hsa_signal_destroy(h.signal), 0);
    rig_close(&r);
    assert_int_equal(h.calls, 3);
}

static uint64_t now(struct rig * r) {
    uint64_t ticks = 0;
    assert_int_equal(r->hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &ticks), 0);
    return ticks;
}

// What a packet waited for came at this time: it was not over before.
static void ended_behind(struct rig * r, hsa_signal_t done, uint64_t came) {
    hsa_amd_profiling_dispatch_time_t time = {0};
    assert_int_equal(r->hsa_amd_profiling_get_dispatch_time(r->gpus[0].agent, done, &time), 0);
    assert_true(time.start && time.start <= time.end);
    assert_true(time.end >= came);
}

static uint16_t header(uint32_t type) {
    return (uint16_t) (type | 1 << HSA_PACKET_HEADER_BARRIER);
}

static void test_barriers(void ** state) {
    (void) state;
    struct rig r;
    open_gpus(&r, "gfx942");
    hsa_queue_t * q = gpu_queue(&r, r.gpus[0].agent, NULL);
    assert_int_equal(q->type, HSA_QUEUE_TYPE_MULTI);
    assert_int_equal(q->features, HSA_QUEUE_FEATURE_KERNEL_DISPATCH);
    assert_int_equal(q->size, 64);
    hsa_signal_t s[3], done;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(r.hsa_signal_create(1, 0, NULL, &s[i]), 0);
    }
    assert_int_equal(r.hsa_signal_create(1, 0, NULL, &done), 0);
    // All of them.
    hsa_barrier_and_packet_t all = {.header = header(HSA_PACKET_TYPE_BARRIER_AND),
                                    .dep_signal = {s[0], {0}, s[1], {0}, s[2]},
                                    .completion_signal = done};
    gpu_send(&r, q, &all);
    r.hsa_signal_store_screlease(s[1], 0);
    r.hsa_signal_store_screlease(s[2], 0);
    assert_int_equal(r.hsa_signal_load_scacquire(done), 1);
    assert_int_equal(r.hsa_queue_load_read_index_scacquire(q), 0);
    uint64_t came = now(&r);
    r.hsa_signal_store_screlease(s[0], 0);
    assert_int_equal(gpu_wait(&r, done), 0);
    assert_int_equal(r.hsa_queue_load_read_index_scacquire(q), 1);
    assert_int_equal(*(uint8_t *) q->base_address, HSA_PACKET_TYPE_INVALID);
    ended_behind(&r, done, came);
    // Any of them.
    for (int i = 0; i < 3; i++) {
        r.hsa_signal_store_screlease(s[i], 1);
    }
    r.hsa_signal_store_screlease(done, 1);
    hsa_barrier_or_packet_t any = {.header = header(HSA_PACKET_TYPE_BARRIER_OR),
                                   .dep_signal = {s[0], s[1], s[2]},
                                   .completion_signal = done};
    gpu_send(&r, q, &any);
    assert_int_equal(r.hsa_signal_load_scacquire(done), 1);
    came = now(&r);
    r.hsa_signal_store_screlease(s[1], 0);
    assert_int_equal(gpu_wait(&r, done), 0);
    ended_behind(&r, done, came);
    // Until (value & 12) >= 8.
    r.hsa_signal_store_screlease(done, 1);
    r.hsa_signal_store_screlease(s[0], 16 + 4 + 3);
    hsa_amd_barrier_value_packet_t value = {
        .header = {.header = header(HSA_PACKET_TYPE_VENDOR_SPECIFIC),
                   .AmdFormat = HSA_AMD_PACKET_TYPE_BARRIER_VALUE},
        .signal = s[0],
        .value = 8,
        .mask = 12,
        .cond = HSA_SIGNAL_CONDITION_GTE,
        .completion_signal = done,
    };
    gpu_send(&r, q, &value);
    assert_int_equal(r.hsa_signal_load_scacquire(done), 1);
    came = now(&r);
    r.hsa_signal_silent_store_relaxed(s[0], 8); // nobody is woken, and still it is seen
    assert_int_equal(gpu_wait(&r, done), 0);
    ended_behind(&r, done, came);
    // No signals at all: many packets, around the ring several times.
    r.hsa_signal_store_screlease(done, 1000);
    hsa_barrier_and_packet_t none = {.header = header(HSA_PACKET_TYPE_BARRIER_AND),
                                     .completion_signal = done};
    for (int i = 0; i < 1000; i++) {
        gpu_send(&r, q, &none);
    }
    assert_int_equal(gpu_wait(&r, done), 0);
    assert_int_equal(r.hsa_queue_load_read_index_scacquire(q), 1003);
    // Destroyed while it stands before a barrier.
    r.hsa_signal_store_screlease(s[0], 1);
    gpu_send(&r, q, &all);
    assert_int_equal(r.hsa_queue_destroy(q), 0);
    assert_int_equal(r.hsa_queue_destroy(q), HSA_STATUS_ERROR_INVALID_QUEUE);
    rig_close(&r);
}

// A slot that is claimed and not written holds up those behind it; so does a missing doorbell.
static void test_order(void ** state) {
    (void) state;
    struct rig r;
    open_gpus(&r, "gfx90a");
    hsa_queue_t * q = gpu_queue(&r, r.gpus[0].agent, NULL);
    hsa_signal_t done;
    assert_int_equal(r.hsa_signal_create(2, 0, NULL, &done), 0);
    hsa_barrier_and_packet_t p = {.header = header(HSA_PACKET_TYPE_BARRIER_AND),
                                  .completion_signal = done};
    gpu_write(&r, q, &p);
    assert_int_equal(r.hsa_signal_load_scacquire(done), 2);
    uint64_t came = now(&r);
    r.hsa_signal_store_screlease(q->doorbell_signal, 0);
    assert_int_equal(r.hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 2, UINT64_MAX,
                                                 HSA_WAIT_STATE_BLOCKED),
                     1);
    ended_behind(&r, done, came);
    uint64_t hole = r.hsa_queue_add_write_index_relaxed(q, 1);
    assert_int_equal(hole, 1);
    gpu_send(&r, q, &p);
    assert_int_equal(r.hsa_signal_load_scacquire(done), 1);
    came = now(&r);
    p.completion_signal.handle = 0;
    memcpy((uint8_t *) q->base_address + 64 + 4, (uint8_t *) &p + 4, 60);
    __atomic_store_n((uint32_t *) (void *) ((uint8_t *) q->base_address + 64), p.header,
                     __ATOMIC_RELEASE);
    r.hsa_signal_store_screlease(q->doorbell_signal, 1);
    assert_int_equal(gpu_wait(&r, done), 0);
    ended_behind(&r, done, came);
    rig_close(&r); // the queue is still there
}

static void test_queue_arguments(void ** state) {
    (void) state;
    struct rig r;
    open_gpus(&r, "gfx90a");
    hsa_agent_t gpu = r.gpus[0].agent;
    hsa_queue_t * q = NULL;
    assert_int_equal(r.hsa_queue_create(gpu, 65, HSA_QUEUE_TYPE_MULTI, NULL, NULL, 0, 0, &q),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(r.hsa_queue_create(gpu, 1 << 18, HSA_QUEUE_TYPE_MULTI, NULL, NULL, 0, 0, &q),
                     HSA_STATUS_ERROR_OUT_OF_RESOURCES);
    assert_int_equal(r.hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_COOPERATIVE, NULL, NULL, 0, 0, &q),
                     HSA_STATUS_ERROR_INVALID_QUEUE_CREATION);
    assert_int_equal(r.hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_MULTI, NULL, NULL, 1 << 20, 0, &q),
                     HSA_STATUS_ERROR_OUT_OF_RESOURCES);
    assert_int_equal(r.hsa_queue_create(r.cpu, 64, HSA_QUEUE_TYPE_MULTI, NULL, NULL, 0, 0, &q),
                     HSA_STATUS_ERROR_INVALID_QUEUE_CREATION);
    assert_int_equal(r.hsa_queue_create(gpu, 2, HSA_QUEUE_TYPE_SINGLE, NULL, NULL, 0, 0, &q), 0);
    assert_int_equal(q->size, 64);
    assert_int_equal(r.hsa_amd_queue_set_priority(q, HSA_AMD_QUEUE_PRIORITY_HIGH), 0);
    assert_int_equal(r.hsa_amd_queue_set_priority(q, (hsa_amd_queue_priority_t) 7),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    hsa_queue_t * more[128];
    for (int i = 0; i < 127; i++) {
        more[i] = gpu_queue(&r, gpu, NULL);
    }
    assert_int_equal(
        r.hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_MULTI, NULL, NULL, 0, 0, &more[127]),
        HSA_STATUS_ERROR_OUT_OF_RESOURCES);
    for (int i = 0; i < 127; i++) {
        assert_int_equal(r.hsa_queue_destroy(more[i]), 0);
    }
    rig_close(&r);
}

// A bad packet: the callback hears of it once, the read index and the signal stay, nothing behind
// it runs.
static void test_bad_packets(void ** state) {
    (void) state;
    struct rig r;
    open_gpus(&r, "gfx90a");
    hsa_agent_t gpu = r.gpus[0].agent;
    const struct gpu_kernel kernel = {.object = 4096};
    hsa_signal_t done;
    assert_int_equal(r.hsa_signal_create(1, 0, NULL, &done), 0);
    union {
        hsa_kernel_dispatch_packet_t kernel;
        hsa_barrier_and_packet_t barrier;
        hsa_amd_barrier_value_packet_t value;
    } p[9];
    for (int i = 0; i < 9; i++) {
        p[i].kernel = gpu_packet(&kernel, NULL, 64, 64, done);
    }
    p[0].kernel.header = HSA_PACKET_TYPE_AGENT_DISPATCH;
    p[1].kernel.completion_signal.handle = 4242;
    p[2].kernel.workgroup_size_x = 0;
    p[3].kernel.workgroup_size_y = 17; // 64 * 17 > 1024
    p[4].kernel.group_segment_size = 65537;
    p[5].barrier = (hsa_barrier_and_packet_t){.header = header(HSA_PACKET_TYPE_BARRIER_AND),
                                              .dep_signal = {{4242}},
                                              .completion_signal = done};
    p[6].value =
        (hsa_amd_barrier_value_packet_t){.header = {.AmdFormat = 1}, .completion_signal = done};
    p[7].kernel.grid_size_z = 0;
    p[8].kernel.setup = 0;
    static const struct { // the statuses are those of ROCr 7.2 for what the hardware reports
        hsa_status_t status;
        const char * text;
    } expected[] = {
        {HSA_STATUS_ERROR_INVALID_PACKET_FORMAT, "type 4"},
        {HSA_STATUS_ERROR_INVALID_SIGNAL, "completion signal"},
        {HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS, "dimension 0"},
        {HSA_STATUS_ERROR_INVALID_ARGUMENT, "1088"},
        {HSA_STATUS_ERROR_INVALID_ALLOCATION, "65537"},
        {HSA_STATUS_ERROR_INVALID_SIGNAL, "dependent signal"},
        {HSA_STATUS_ERROR_INVALID_PACKET_FORMAT, "format 1"},
        {HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS, "dimension 2"},
        {HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS, "no dimensions"},
    };
    for (int i = 0; i < 9; i++) {
        struct gpu_failure failure = {0};
        hsa_queue_t * q = gpu_queue(&r, gpu, &failure);
        gpu_send(&r, q, &p[i]);
        assert_int_equal(gpu_await_failure(&failure), expected[i].status);
        assert_ptr_equal(failure.queue, q);
        const char * text = r.hsa_emu_last_error(gpu);
        if (!strstr(text, expected[i].text) || !strstr(text, "gfx90a")) {
            fail_msg("packet %d: '%s' does not hold '%s'", i, text, expected[i].text);
        }
        failure.status = HSA_STATUS_SUCCESS;
        hsa_barrier_and_packet_t next = {.header = header(HSA_PACKET_TYPE_BARRIER_AND),
                                         .completion_signal = done};
        gpu_send(&r, q, &next);
        usleep(2000);
        assert_int_equal(r.hsa_signal_load_scacquire(done), 1);
        assert_int_equal(r.hsa_queue_load_read_index_scacquire(q), 0);
        assert_int_equal(r.hsa_queue_destroy(q), 0);
        assert_int_equal(failure.status, HSA_STATUS_SUCCESS);
    }
    struct hsa_emu_counters c;
    assert_int_equal(r.hsa_emu_counters(gpu, &c), 0);
    assert_int_equal(c.errors, 9);
    assert_int_equal(c.doorbells, 18);
    rig_close(&r);
}

static struct rig * destroying;

static void destroy_queue(hsa_status_t status, hsa_queue_t * queue, void * data) {
    (void) status;
    assert_int_equal(destroying->hsa_queue_destroy(queue), 0);
    __atomic_store_n((int *) data, 1, __ATOMIC_RELEASE);
}

// The callback may destroy the queue whose thread it runs on.
static void test_destroy_in_callback(void ** state) {
    (void) state;
    struct rig r;
    open_gpus(&r, "gfx90a");
    destroying = &r;
    int destroyed = 0;
    hsa_queue_t * q;
    assert_int_equal(r.hsa_queue_create(r.gpus[0].agent, 64, HSA_QUEUE_TYPE_MULTI, destroy_queue,
                                        &destroyed, 0, 0, &q),
                     0);
    hsa_kernel_dispatch_packet_t p = {.header = HSA_PACKET_TYPE_AGENT_DISPATCH};
    gpu_send(&r, q, &p);
    while (!__atomic_load_n(&destroyed, __ATOMIC_ACQUIRE)) {
        usleep(1000);
    }
    rig_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agents),
        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_vram_is_not_the_hosts),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_handlers),
        cmocka_unit_test(test_barriers),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_queue_arguments),
        cmocka_unit_test(test_bad_packets),
        cmocka_unit_test(test_destroy_in_callback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
