// The emulated runtime's API, through dlopen: agents and pools say what ROCr's would, memory and
// signals behave, and what is wrong is refused with the right code.
#include "rig.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

static void test_init(void ** state) {
    (void) state;
    struct rig r;
    rig_env("aie2", NULL, NULL);
    rig_load(&r);
    uint16_t version = 0;
    hsa_signal_t signal;
    assert_int_equal(r.hsa_shut_down(), HSA_STATUS_ERROR_NOT_INITIALIZED);
    assert_int_equal(r.hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &version),
                     HSA_STATUS_ERROR_NOT_INITIALIZED);
    assert_int_equal(r.hsa_signal_create(0, 0, NULL, &signal), HSA_STATUS_ERROR_NOT_INITIALIZED);
    assert_int_equal(r.hsa_init(), HSA_STATUS_SUCCESS);
    assert_int_equal(r.hsa_init(), HSA_STATUS_SUCCESS);
    assert_int_equal(r.hsa_shut_down(), HSA_STATUS_SUCCESS);
    assert_int_equal(r.hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &version),
                     HSA_STATUS_SUCCESS);
    assert_int_equal(version, 1);
    uint64_t hz = 0, before = 0, after = 0;
    assert_int_equal(r.hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY, &hz), 0);
    assert_int_equal(hz, 1000000000);
    assert_int_equal(r.hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &before), 0);
    usleep(1000);
    assert_int_equal(r.hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &after), 0);
    assert_true(after - before >= 1000000);
    assert_int_equal(r.hsa_system_get_info((hsa_system_info_t) 0x7777, &hz),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(r.hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, NULL),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    bool supported = true;
    assert_int_equal(r.hsa_system_extension_supported(HSA_EXTENSION_IMAGES, 1, 0, &supported), 0);
    assert_false(supported);
    rig_close(&r);
}

static void test_status_strings(void ** state) {
    (void) state;
    static const uint32_t codes[] = {0,      1,      0x1000, 0x1001, 0x1002, 0x1003, 0x1004, 0x1005,
                                     0x1006, 0x1007, 0x1008, 0x1009, 0x100a, 0x100b, 0x100c, 0x100d,
                                     0x100e, 0x100f, 0x1010, 0x1011, 0x1012, 0x1013, 0x1014, 0x1015,
                                     0x1016, 0x1017, 0x1018, 0x1019, 0x1020, 0x1021, 0x1022, 0x1023,
                                     0x1024, 0x1025, 0x1026, 40,     41,     42,     43};
    struct rig r;
    rig_load(&r);
    const char * text;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        text = NULL;
        assert_int_equal(r.hsa_status_string((hsa_status_t) codes[i], &text), HSA_STATUS_SUCCESS);
        assert_non_null(strstr(text, "HSA_STATUS_"));
    }
    assert_int_equal(r.hsa_status_string((hsa_status_t) 0x1999, &text),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(r.hsa_status_string(HSA_STATUS_SUCCESS, NULL),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    dlclose(r.library);
}

static hsa_status_t count_agents(hsa_agent_t agent, void * data) {
    (void) agent;
    ++*(int *) data;
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t stop_at_first(hsa_agent_t agent, void * data) {
    (void) agent;
    ++*(int *) data;
    return HSA_STATUS_INFO_BREAK;
}

// GGML_HSA_EMULATE: which names give which agents.
static void test_emulate_names(void ** state) {
    (void) state;
    static const struct {
        const char * names; // NULL: unset
        int agents;         // -1: hsa_init fails
    } cases[] = {
        {NULL, 1},
        {"", 1},
        {"aie2", 2},
        {" aie2 ,", 2},
        {"aie2,aie2", 3},
        {"aie2p", 2},
        {"aie2,aie2p,npu6", 4},
        {"gfx90a,aie2", 3},
        {"gfx942,gfx1100", 3},
        {"gfx90", -1},
        {"gfx90a:xnack-", -1},
        {"aie", -1},
        {"aie2,npu", -1},
        {"AIE2", -1},
        {"aie2,aie2,aie2,aie2,aie2,aie2,aie2,aie2", 9},
        {"aie2,aie2,aie2,aie2,aie2,aie2,aie2,aie2,aie2", -1},
    };
    struct rig r;
    rig_load(&r);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rig_env(cases[i].names, NULL, NULL);
        hsa_status_t status = r.hsa_init();
        const char * text = r.hsa_emu_last_error((hsa_agent_t){0});
        if (cases[i].agents < 0) {
            assert_int_equal(status, HSA_STATUS_ERROR);
            assert_non_null(strstr(text, "GGML_HSA_EMULATE"));
            continue;
        }
        assert_int_equal(status, HSA_STATUS_SUCCESS);
        assert_string_equal(text, "");
        int n = 0;
        assert_int_equal(r.hsa_iterate_agents(count_agents, &n), HSA_STATUS_SUCCESS);
        assert_int_equal(n, cases[i].agents);
        assert_int_equal(r.hsa_iterate_agents(stop_at_first, &n), HSA_STATUS_INFO_BREAK);
        assert_int_equal(n, cases[i].agents + 1);
        assert_int_equal(r.hsa_iterate_agents(NULL, &n), HSA_STATUS_ERROR_INVALID_ARGUMENT);
        assert_int_equal(r.hsa_shut_down(), HSA_STATUS_SUCCESS);
    }
    rig_env("aie2", NULL, NULL);
    setenv("GGML_HSA_EMU_TRACE", "0;2", 1);
    assert_int_equal(r.hsa_init(), HSA_STATUS_ERROR);
    assert_non_null(strstr(r.hsa_emu_last_error((hsa_agent_t){0}), "GGML_HSA_EMU_TRACE"));
    unsetenv("GGML_HSA_EMU_TRACE");
    dlclose(r.library);
}

static hsa_status_t no_isa(hsa_isa_t isa, void * data) {
    (void) isa;
    ++*(int *) data;
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t no_cache(hsa_cache_t cache, void * data) {
    (void) cache;
    ++*(int *) data;
    return HSA_STATUS_SUCCESS;
}

static void test_agent_info(void ** state) {
    (void) state;
    static const struct {
        uint32_t attribute, value;
    } words[] = {
        {HSA_AGENT_INFO_FEATURE, HSA_AGENT_FEATURE_AGENT_DISPATCH},
        {HSA_AGENT_INFO_PROFILE, HSA_PROFILE_BASE},
        {HSA_AGENT_INFO_WAVEFRONT_SIZE, 0},
        {HSA_AGENT_INFO_WORKGROUP_MAX_SIZE, 0},
        {HSA_AGENT_INFO_GRID_MAX_SIZE, 0},
        {HSA_AGENT_INFO_QUEUES_MAX, 1},
        {HSA_AGENT_INFO_QUEUE_MIN_SIZE, 64},
        {HSA_AGENT_INFO_QUEUE_MAX_SIZE, 64},
        {HSA_AGENT_INFO_QUEUE_TYPE, HSA_QUEUE_TYPE_SINGLE},
        {HSA_AGENT_INFO_DEVICE, 3},
        {HSA_AGENT_INFO_NODE, 1},
    };
    struct rig r;
    rig_env("aie2", NULL, NULL);
    rig_open(&r);
    assert_int_not_equal(r.npu.handle, 0);
    char text[64];
    assert_int_equal(r.hsa_agent_get_info(r.npu, HSA_AGENT_INFO_NAME, text), 0);
    assert_string_equal(text, "aie2");
    assert_int_equal(r.hsa_agent_get_info(r.npu, HSA_AGENT_INFO_VENDOR_NAME, text), 0);
    assert_string_equal(text, "AMD");
    assert_int_equal(
        r.hsa_agent_get_info(r.npu, (hsa_agent_info_t) HSA_AMD_AGENT_INFO_PRODUCT_NAME, text), 0);
    assert_string_equal(text, "RyzenAI-npu1");
    assert_int_equal(r.hsa_agent_get_info(r.npu, (hsa_agent_info_t) HSA_AMD_AGENT_INFO_UUID, text),
                     0);
    assert_string_equal(text, "AIE-XX");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        uint32_t value = 12345;
        assert_int_equal(r.hsa_agent_get_info(r.npu, (hsa_agent_info_t) words[i].attribute, &value),
                         0);
        assert_int_equal(value, words[i].value);
    }
    uint32_t value = 12345;
    assert_int_equal(r.hsa_agent_get_info(r.npu, (hsa_agent_info_t) 0xB999, &value),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(value, 0);
    assert_int_equal(r.hsa_agent_get_info(r.npu, HSA_AGENT_INFO_NAME, NULL),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(r.hsa_agent_get_info((hsa_agent_t){77}, HSA_AGENT_INFO_NAME, text),
                     HSA_STATUS_ERROR_INVALID_AGENT);
    int visited = 0;
    assert_int_equal(r.hsa_agent_iterate_isas(r.npu, no_isa, &visited), HSA_STATUS_SUCCESS);
    assert_int_equal(r.hsa_agent_iterate_caches(r.npu, no_cache, &visited),
                     HSA_STATUS_ERROR_INVALID_CACHE);
    assert_int_equal(visited, 0);
    assert_int_equal(r.hsa_isa_get_info_alt((hsa_isa_t){1}, HSA_ISA_INFO_NAME, text),
                     HSA_STATUS_ERROR_INVALID_ISA);
    assert_int_equal(r.hsa_agent_get_info(r.cpu, HSA_AGENT_INFO_NAME, text), 0);
    assert_true(strlen(text) > 3);
    assert_int_equal(r.hsa_agent_get_info(
                         r.cpu, (hsa_agent_info_t) HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT, &value),
                     0);
    assert_int_equal(value, sysconf(_SC_NPROCESSORS_CONF));
    struct hsa_emu_counters c;
    assert_int_equal(r.hsa_emu_counters(r.npu, &c), HSA_STATUS_SUCCESS);
    assert_int_equal(c.dispatches, 0);
    assert_int_equal(r.hsa_emu_counters(r.cpu, &c), HSA_STATUS_ERROR_INVALID_AGENT);
    assert_int_equal(r.hsa_emu_counters(r.npu, NULL), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    rig_close(&r);
}

static void test_pool_info(void ** state) {
    (void) state;
    struct rig r;
    rig_env("aie2", NULL, NULL);
    rig_open(&r);
    size_t ram = (size_t) sysconf(_SC_PHYS_PAGES) * (size_t) sysconf(_SC_PAGESIZE);
    const struct {
        hsa_amd_memory_pool_t pool;
        uint32_t flags;
        size_t rec_granule, size;
    } pools[] = {
        {r.kernarg, 5, 4096, ram},
        {r.heap, 4, 0, 67108864},
        {r.data, 4, 4096, ram},
    };
    for (size_t i = 0; i < 3; i++) {
        uint32_t flags = 0, segment = 9;
        size_t size = 0, granule = 0, align = 0, rec = 1, max = 0;
        bool allowed = false;
        hsa_amd_memory_pool_t p = pools[i].pool;
        assert_int_equal(
            r.hsa_amd_memory_pool_get_info(p, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags), 0);
        assert_int_equal(
            r.hsa_amd_memory_pool_get_info(p, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment), 0);
        assert_int_equal(r.hsa_amd_memory_pool_get_info(p, HSA_AMD_MEMORY_POOL_INFO_SIZE, &size),
                         0);
        assert_int_equal(r.hsa_amd_memory_pool_get_info(
                             p, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE, &granule),
                         0);
        assert_int_equal(r.hsa_amd_memory_pool_get_info(
                             p, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT, &align),
                         0);
        assert_int_equal(r.hsa_amd_memory_pool_get_info(
                             p, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &allowed),
                         0);
        assert_int_equal(
            r.hsa_amd_memory_pool_get_info(p, HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE, &max), 0);
        assert_int_equal(r.hsa_amd_memory_pool_get_info(p, (hsa_amd_memory_pool_info_t) 18, &rec),
                         0);
        assert_int_equal(flags, pools[i].flags);
        assert_int_equal(segment, 0);
        assert_int_equal(size, pools[i].size);
        assert_int_equal(granule, 4096);
        assert_int_equal(align, 4096);
        assert_true(allowed);
        assert_int_equal(max, ram);
        assert_int_equal(rec, pools[i].rec_granule);
        assert_int_equal(r.hsa_amd_memory_pool_get_info(p, (hsa_amd_memory_pool_info_t) 99, &rec),
                         HSA_STATUS_ERROR_INVALID_ARGUMENT);
        hsa_amd_memory_pool_access_t access;
        assert_int_equal(r.hsa_amd_agent_memory_pool_get_info(
                             r.npu, p, HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &access),
                         0);
        assert_int_equal(access, HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT);
    }
    size_t size;
    assert_int_equal(r.hsa_amd_memory_pool_get_info((hsa_amd_memory_pool_t){5},
                                                    HSA_AMD_MEMORY_POOL_INFO_SIZE, &size),
                     HSA_STATUS_ERROR_INVALID_MEMORY_POOL);
    rig_close(&r);
}

static void test_memory(void ** state) {
    (void) state;
    struct rig r;
    rig_env("aie2", NULL, NULL);
    rig_open(&r);
    uint8_t * a = rig_alloc(&r, r.data, 10000);
    assert_int_equal((uintptr_t) a % 4096, 0);
    for (int i = 0; i < 12288; i++) { // rounded up to pages, and zero
        assert_int_equal(a[i], 0);
    }
    hsa_amd_pointer_info_t info = {.size = sizeof info};
    assert_int_equal(r.hsa_amd_pointer_info(a + 9999, &info, NULL, NULL, NULL), 0);
    assert_int_equal(info.type, HSA_EXT_POINTER_TYPE_HSA);
    assert_ptr_equal(info.hostBaseAddress, a);
    assert_int_equal(info.sizeInBytes, 12288);
    assert_int_equal(info.agentOwner.handle, r.npu.handle);
    assert_int_equal(r.hsa_amd_pointer_info(&info, &info, NULL, NULL, NULL), 0);
    assert_int_equal(info.type, HSA_EXT_POINTER_TYPE_UNKNOWN);

    assert_int_equal(r.hsa_amd_agents_allow_access(1, &r.npu, NULL, a), HSA_STATUS_SUCCESS);
    assert_int_equal(r.hsa_amd_agents_allow_access(1, &r.npu, NULL, &info),
                     HSA_STATUS_ERROR_INVALID_ALLOCATION);
    uint8_t * host = rig_alloc(&r, r.system, 1);
    assert_int_equal(r.hsa_amd_agents_allow_access(1, &r.npu, NULL, host),
                     HSA_STATUS_ERROR_INVALID_ALLOCATION);
    assert_int_equal(r.hsa_amd_agents_allow_access(1, &r.cpu, NULL, a), HSA_STATUS_SUCCESS);

    assert_int_equal(r.hsa_amd_memory_fill(a, 0x01020304, 2500), 0);
    assert_int_equal(r.hsa_memory_copy(host, a + 4, 8), 0);
    assert_int_equal(host[0], 4);
    assert_int_equal(host[7], 1);
    assert_int_equal(r.hsa_amd_memory_fill(a, 0, 12288 / 4 + 1),
                     HSA_STATUS_ERROR_INVALID_ALLOCATION);
    // What begins in memory of the runtime ends there.
    static uint8_t own[16384];
    assert_int_equal(r.hsa_memory_copy(own, a, 12289), HSA_STATUS_ERROR_INVALID_ALLOCATION);
    assert_int_equal(r.hsa_memory_copy(a + 12287, own, 2), HSA_STATUS_ERROR_INVALID_ALLOCATION);
    assert_int_equal(
        r.hsa_amd_memory_async_copy(a, r.cpu, own, r.cpu, 12289, 0, NULL, (hsa_signal_t){0}),
        HSA_STATUS_ERROR_INVALID_ALLOCATION);

    void * p = &info;
    assert_int_equal(r.hsa_amd_memory_pool_allocate(r.data, 0, 0, &p),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(r.hsa_amd_memory_pool_allocate(r.data, 16, 0, NULL),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(r.hsa_amd_memory_pool_allocate(r.data, SIZE_MAX, 0, &p),
                     HSA_STATUS_ERROR_INVALID_ALLOCATION);
    assert_int_equal(r.hsa_amd_memory_pool_free(&info), HSA_STATUS_ERROR_INVALID_ALLOCATION);
    assert_int_equal(r.hsa_amd_memory_pool_free(a + 4096), HSA_STATUS_ERROR_INVALID_ALLOCATION);
    assert_int_equal(r.hsa_amd_memory_pool_free(a), HSA_STATUS_SUCCESS);
    assert_int_equal(r.hsa_amd_memory_pool_free(a), HSA_STATUS_ERROR_INVALID_ALLOCATION);

    static uint8_t locked[64];
    assert_int_equal(r.hsa_amd_memory_lock(locked, sizeof locked, &r.npu, 1, &p), 0);
    assert_ptr_equal(p, locked);
    assert_int_equal(r.hsa_amd_agents_allow_access(1, &r.npu, NULL, locked + 63),
                     HSA_STATUS_SUCCESS);
    assert_int_equal(r.hsa_amd_memory_pool_free(locked), HSA_STATUS_ERROR_INVALID_ALLOCATION);
    assert_int_equal(r.hsa_amd_memory_unlock(locked), HSA_STATUS_SUCCESS);
    assert_int_equal(r.hsa_amd_memory_unlock(locked), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    // There is nothing to lock where no memory is, at the beginning, at the end or in between.
    enum { PAGE = 4096 };
    uint8_t * pages =
        mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    assert_int_equal(mprotect(pages + 3 * PAGE, PAGE, PROT_NONE), 0);
    assert_int_equal(munmap(pages + PAGE, PAGE), 0);
    static const struct {
        size_t from, size;
        hsa_status_t expected;
    } locks[] = {{0, PAGE, HSA_STATUS_SUCCESS},
                 {0, PAGE + 1, HSA_STATUS_ERROR_OUT_OF_RESOURCES},
                 {PAGE, 1, HSA_STATUS_ERROR_OUT_OF_RESOURCES},
                 {PAGE - 1, PAGE + 2, HSA_STATUS_ERROR_OUT_OF_RESOURCES},
                 {2 * PAGE + 9, PAGE - 9, HSA_STATUS_SUCCESS},
                 {2 * PAGE, PAGE + 1, HSA_STATUS_ERROR_OUT_OF_RESOURCES},
                 {3 * PAGE, PAGE, HSA_STATUS_ERROR_OUT_OF_RESOURCES}};
    // Where another processor is emulated, nobody tells that a page may not be read: then not the
    // last two.
    char byte;
    struct iovec to = {&byte, 1}, closed = {pages + 3 * PAGE, 1};
    bool told = process_vm_readv(getpid(), &to, 1, &closed, 1, 0) < 0 && errno == EFAULT;
    for (size_t i = 0; i < sizeof locks / sizeof locks[0] - (told ? 0 : 2); i++) {
        uint8_t * from = pages + locks[i].from;
        assert_int_equal(r.hsa_amd_memory_lock(from, locks[i].size, &r.npu, 1, &p),
                         locks[i].expected);
        assert_int_equal(r.hsa_amd_memory_unlock(from),
                         locks[i].expected ? HSA_STATUS_ERROR_INVALID_ARGUMENT : 0);
    }
    munmap(pages, PAGE);
    munmap(pages + 2 * PAGE, 2 * PAGE);
    rig_close(&r); // `host` is still there: the runtime frees it
}

// The device heap: 64 MiB, aligned to its size, every page of it usable, holes are found again.
static void test_heap(void ** state) {
    (void) state;
    struct rig r;
    rig_env("aie2", NULL, NULL);
    rig_open(&r);
    enum { N = 64, BYTES = 1 << 20 };
    uint8_t * blocks[N];
    uintptr_t heap = UINTPTR_MAX;
    void * p;
    for (int i = 0; i < N; i++) {
        blocks[i] = rig_alloc(&r, r.heap, BYTES - 4095); // rounds up to 1 MiB
        memset(blocks[i], i, BYTES);
        heap = (uintptr_t) blocks[i] < heap ? (uintptr_t) blocks[i] : heap;
    }
    assert_int_equal(heap % 67108864, 0);
    for (int i = 0; i < N; i++) {
        assert_true((uintptr_t) blocks[i] - heap <= 67108864 - BYTES);
        assert_int_equal(blocks[i][0], i);
        assert_int_equal(blocks[i][BYTES - 1], i);
    }
    assert_int_equal(r.hsa_amd_memory_pool_allocate(r.heap, 1, 0, &p),
                     HSA_STATUS_ERROR_OUT_OF_RESOURCES);
    assert_int_equal(r.hsa_amd_memory_pool_allocate(r.heap, 67108865, 0, &p),
                     HSA_STATUS_ERROR_INVALID_ALLOCATION);
    assert_int_equal(r.hsa_amd_memory_pool_free(blocks[10]), 0);
    assert_int_equal(r.hsa_amd_memory_pool_free(blocks[30]), 0);
    // Two free megabytes, but not side by side.
    assert_int_equal(r.hsa_amd_memory_pool_allocate(r.heap, 2 * BYTES, 0, &p),
                     HSA_STATUS_ERROR_OUT_OF_RESOURCES);
    assert_int_equal(r.hsa_amd_memory_pool_free(blocks[29]), 0);
    assert_ptr_equal(rig_alloc(&r, r.heap, 2 * BYTES), blocks[29]);
    uint8_t * small = rig_alloc(&r, r.heap, 5);
    assert_ptr_equal(small, blocks[10]);
    assert_int_equal(small[0], 0);
    assert_ptr_equal(rig_alloc(&r, r.heap, 5), blocks[10] + 4096);
    rig_close(&r);
}

struct waker {
    struct rig * r;
    hsa_signal_t signal;
};

static void * wake_later(void * data) {
    struct waker * w = data;
    usleep(20000);
    w->r->hsa_signal_subtract_relaxed(w->signal, 1);
    return NULL;
}

static void test_signals(void ** state) {
    (void) state;
    struct rig r;
    rig_env(NULL, NULL, NULL);
    rig_open(&r);
    hsa_signal_t s, t;
    assert_int_equal(r.hsa_signal_create(5, 0, NULL, &s), 0);
    assert_int_equal(r.hsa_signal_create(1, 1, &r.cpu, &t), 0);
    assert_int_equal(r.hsa_signal_create(5, 0, NULL, NULL), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    // The value stands at offset 8 of the handle, where tools look for it.
    volatile int64_t * value = (volatile int64_t *) (uintptr_t) (s.handle + 8);
    assert_int_equal(*value, 5);
    r.hsa_signal_add_scacq_screl(s, 7);
    assert_int_equal(*value, 12);
    r.hsa_signal_and_acq_rel(s, 9);
    assert_int_equal(r.hsa_signal_load_relaxed(s), 8);
    r.hsa_signal_or_release(s, 3);
    r.hsa_signal_xor_acquire(s, 1);
    assert_int_equal(r.hsa_signal_load_scacquire(s), 10);
    assert_int_equal(r.hsa_signal_exchange_scacquire(s, -4), 10);
    assert_int_equal(r.hsa_signal_cas_screlease(s, 1, 99), -4);
    assert_int_equal(r.hsa_signal_load_relaxed(s), -4);
    assert_int_equal(r.hsa_signal_cas_screlease(s, -4, 99), -4);
    assert_int_equal(r.hsa_signal_load_relaxed(s), 99);
    r.hsa_signal_store_relaxed(s, 2);
    // A timeout ends a wait; a change ends it sooner.
    assert_int_equal(
        r.hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_LT, 1, 5000000, HSA_WAIT_STATE_BLOCKED),
        2);
    assert_int_equal(r.hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_NE, 1, UINT64_MAX,
                                                 HSA_WAIT_STATE_BLOCKED),
                     2);
    assert_int_equal(r.hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_GTE, 2, UINT64_MAX,
                                                 HSA_WAIT_STATE_ACTIVE),
                     2);
    assert_int_equal(r.hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_EQ, 2, UINT64_MAX,
                                                 HSA_WAIT_STATE_ACTIVE),
                     2);
    pthread_t thread;
    struct waker w = {&r, s};
    pthread_create(&thread, NULL, wake_later, &w);
    assert_int_equal(r.hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_LT, 2, UINT64_MAX,
                                                 HSA_WAIT_STATE_BLOCKED),
                     1);
    pthread_join(thread, NULL);
    w.signal = t;
    pthread_create(&thread, NULL, wake_later, &w);
    hsa_signal_t both[] = {s, t};
    hsa_signal_condition_t conditions[] = {HSA_SIGNAL_CONDITION_EQ, HSA_SIGNAL_CONDITION_EQ};
    hsa_signal_value_t compares[] = {0, 0}, seen = -1;
    assert_int_equal(r.hsa_amd_signal_wait_any(2, both, conditions, compares, UINT64_MAX,
                                               HSA_WAIT_STATE_BLOCKED, &seen),
                     1);
    assert_int_equal(seen, 0);
    pthread_join(thread, NULL);
    compares[1] = 7;
    assert_int_equal(r.hsa_amd_signal_wait_any(2, both, conditions, compares, 1000,
                                               HSA_WAIT_STATE_BLOCKED, &seen),
                     UINT32_MAX);
    assert_int_equal(r.hsa_signal_destroy(s), HSA_STATUS_SUCCESS);
    assert_int_equal(r.hsa_signal_destroy((hsa_signal_t){0}), HSA_STATUS_ERROR_INVALID_SIGNAL);
    assert_int_equal(r.hsa_signal_destroy((hsa_signal_t){t.handle + 8}),
                     HSA_STATUS_ERROR_INVALID_SIGNAL);
    rig_close(&r); // t is freed by the runtime
}

// Handles of nothing, of a signal that was destroyed, and of the middle of one: every function
// comes back, changes nothing and waits for nothing.
static void test_signals_that_are_none(void ** state) {
    (void) state;
    struct rig r;
    rig_env("aie2", NULL, NULL);
    rig_open(&r);
    hsa_signal_t live, gone;
    assert_int_equal(r.hsa_signal_create(5, 0, NULL, &live), HSA_STATUS_SUCCESS);
    assert_int_equal(r.hsa_signal_create(1, 0, NULL, &gone), HSA_STATUS_SUCCESS);
    assert_int_equal(r.hsa_signal_destroy(gone), HSA_STATUS_SUCCESS);
    const hsa_signal_t none[] = {{0}, gone, {live.handle + 8}, {8}, {UINT64_MAX - 7}};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        hsa_signal_t s = none[i];
        assert_int_equal(r.hsa_signal_load_relaxed(s), 0);
        assert_int_equal(r.hsa_signal_load_scacquire(s), 0);
        r.hsa_signal_store_relaxed(s, 7);
        r.hsa_signal_store_screlease(s, 7);
        r.hsa_signal_silent_store_relaxed(s, 7);
        r.hsa_signal_add_scacq_screl(s, 7);
        r.hsa_signal_subtract_relaxed(s, 7);
        r.hsa_signal_and_acq_rel(s, 0);
        r.hsa_signal_or_release(s, 7);
        r.hsa_signal_xor_acquire(s, 7);
        assert_int_equal(r.hsa_signal_exchange_scacquire(s, 7), 0);
        assert_int_equal(r.hsa_signal_cas_screlease(s, 0, 7), 0);
        r.hsa_signal_wait_scacquire(s, HSA_SIGNAL_CONDITION_EQ, 9, UINT64_MAX,
                                    HSA_WAIT_STATE_BLOCKED);
        hsa_signal_t both[] = {live, s};
        hsa_signal_condition_t conditions[] = {HSA_SIGNAL_CONDITION_EQ, HSA_SIGNAL_CONDITION_EQ};
        hsa_signal_value_t compares[] = {99, 99}, seen = -1;
        assert_int_equal(r.hsa_amd_signal_wait_any(2, both, conditions, compares, UINT64_MAX,
                                                   HSA_WAIT_STATE_BLOCKED, &seen),
                         1);
        assert_int_equal(r.hsa_signal_destroy(s), HSA_STATUS_ERROR_INVALID_SIGNAL);
        assert_int_equal(r.hsa_signal_load_relaxed(live), 5);
    }
    assert_int_equal(r.hsa_signal_destroy(live), HSA_STATUS_SUCCESS);
    rig_close(&r);
}

static void test_queues(void ** state) {
    (void) state;
    struct rig r;
    rig_env("aie2", NULL, NULL);
    rig_open(&r);
    hsa_queue_t *q = NULL, *second = NULL;
    const hsa_queue_type32_t single = HSA_QUEUE_TYPE_SINGLE;
    assert_int_equal(r.hsa_queue_create(r.npu, 128, single, NULL, NULL, 0, 0, &q),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(r.hsa_queue_create(r.npu, 60, single, NULL, NULL, 0, 0, &q),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(r.hsa_queue_create(r.npu, 64, HSA_QUEUE_TYPE_MULTI, NULL, NULL, 0, 0, &q),
                     HSA_STATUS_ERROR_INVALID_QUEUE_CREATION);
    assert_int_equal(r.hsa_queue_create(r.cpu, 64, single, NULL, NULL, 0, 0, &q),
                     HSA_STATUS_ERROR_INVALID_QUEUE_CREATION);
    assert_int_equal(r.hsa_queue_create((hsa_agent_t){3}, 64, single, NULL, NULL, 0, 0, &q),
                     HSA_STATUS_ERROR_INVALID_AGENT);
    assert_int_equal(r.hsa_queue_create(r.npu, 64, single, NULL, NULL, 0, 0, &q),
                     HSA_STATUS_SUCCESS);
    assert_int_equal(q->size, 64);
    assert_int_equal(q->type, single);
    assert_int_equal(q->features, 0);
    assert_int_equal(r.hsa_queue_create(r.npu, 64, single, NULL, NULL, 0, 0, &second),
                     HSA_STATUS_ERROR_OUT_OF_RESOURCES);
    assert_int_equal(r.hsa_signal_destroy(q->doorbell_signal), HSA_STATUS_ERROR_INVALID_SIGNAL);
    // Indices stand at offsets 56 (write) and 128 (read).
    volatile uint64_t * write = (volatile uint64_t *) ((uint8_t *) q + 56);
    volatile uint64_t * read = (volatile uint64_t *) ((uint8_t *) q + 128);
    assert_int_equal(r.hsa_queue_add_write_index_relaxed(q, 3), 0);
    assert_int_equal(*write, 3);
    assert_int_equal(r.hsa_queue_cas_write_index_relaxed(q, 1, 9), 3);
    assert_int_equal(r.hsa_queue_cas_write_index_relaxed(q, 3, 4), 3);
    assert_int_equal(r.hsa_queue_load_write_index_relaxed(q), 4);
    r.hsa_queue_store_write_index_relaxed(q, 0);
    r.hsa_queue_store_read_index_relaxed(q, 2);
    assert_int_equal(*read, 2);
    r.hsa_queue_store_read_index_relaxed(q, 0);
    assert_int_equal(r.hsa_queue_destroy(q), HSA_STATUS_SUCCESS);
    assert_int_equal(r.hsa_queue_destroy(NULL), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(r.hsa_queue_create(r.npu, 64, single, NULL, NULL, 0, 0, &q),
                     HSA_STATUS_SUCCESS);
    rig_close(&r); // q is freed by the runtime
}

// A function that is not emulated is there, fails, and leaves its results alone.
static void test_absent(void ** state) {
    (void) state;
    struct rig r;
    rig_env(NULL, NULL, NULL);
    rig_open(&r);
    hsa_queue_t * queue = (hsa_queue_t *) 42;
    assert_int_equal(r.hsa_soft_queue_create((hsa_region_t){1}, 64, HSA_QUEUE_TYPE_SINGLE, 0,
                                             (hsa_signal_t){1}, &queue),
                     HSA_STATUS_ERROR);
    assert_ptr_equal(queue, (hsa_queue_t *) 42);
    rig_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_init),
        cmocka_unit_test(test_status_strings),
        cmocka_unit_test(test_emulate_names),
        cmocka_unit_test(test_agent_info),
        cmocka_unit_test(test_pool_info),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_heap),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_signals_that_are_none),
        cmocka_unit_test(test_queues),
        cmocka_unit_test(test_absent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
