// Memory of an emulated NPU that a GPU is given without a copy: what is exported and mapped lies at
// one address for both, and the GPU reaches it from then on and no longer; what is refused, with
// the status; and ROCr 7.2, which exports no memory of a NPU.
#include "gpu.h"

#include <unistd.h>

enum { PAGE = 4096, SIZE = 3 * PAGE };

static struct rig r;
static hsa_status_t (*export_it)(const void *, size_t, int *, uint64_t *);
static hsa_status_t (*close_it)(int);
static hsa_status_t (*map)(uint32_t, hsa_agent_t *, int, uint32_t, size_t *, void **, size_t *,
                           const void **);
static hsa_status_t (*unmap)(void *);

static void find(const char * name, void * function) {
    void * p = dlsym(r.library, name);
    assert_non_null(p);
    memcpy(function, &p, sizeof p);
}

static void open_as(const char * bugs) {
    rig_env("aie2,gfx1100,gfx90a", NULL, bugs);
    rig_open(&r);
    find("hsa_amd_portable_export_dmabuf", &export_it);
    find("hsa_amd_portable_close_dmabuf", &close_it);
    find("hsa_amd_interop_map_buffer", &map);
    find("hsa_amd_interop_unmap_buffer", &unmap);
}

static void test_share(void ** state) {
    (void) state;
    open_as("0");
    char * of_npu = rig_alloc(&r, r.data, SIZE);
    char * of_gpu = rig_alloc(&r, r.gpus[0].vram, SIZE);
    int fd = -1;
    uint64_t offset = 0;
    size_t size = 0, more = 1;
    void * seen = NULL;
    const void * told = "";
    memset(of_npu, 7, SIZE);
    assert_int_not_equal(rig_copy(&r, r.gpus[0].agent, of_gpu, of_npu, SIZE), 0);
    assert_int_equal(export_it(of_npu + PAGE, PAGE, &fd, &offset), 0);
    assert_int_equal(offset, PAGE);
    assert_int_equal(map(1, &r.gpus[0].agent, fd, 0, &size, &seen, &more, &told), 0);
    assert_ptr_equal(seen, of_npu);
    assert_int_equal(size, SIZE);
    assert_int_equal(more, 0);
    assert_null(told);
    assert_int_equal(rig_copy(&r, r.gpus[0].agent, of_gpu, of_npu, SIZE), 0);
    memset(of_npu, 1, SIZE);
    assert_int_equal(rig_copy(&r, r.gpus[0].agent, of_npu, of_gpu, SIZE), 0);
    assert_int_equal(of_npu[SIZE - 1], 7);
    // The other GPU was not given it, and the first one no longer has it.
    char * of_other = rig_alloc(&r, r.gpus[1].vram, SIZE);
    assert_int_not_equal(rig_copy(&r, r.gpus[1].agent, of_other, of_npu, SIZE), 0);
    assert_int_equal(unmap(of_npu), 0);
    assert_int_equal(unmap(of_npu), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_not_equal(rig_copy(&r, r.gpus[0].agent, of_gpu, of_npu, SIZE), 0);
    // The descriptor lives longer than the mapping, and not longer than the memory.
    assert_int_equal(map(1, &r.gpus[1].agent, fd, 0, &size, &seen, NULL, NULL), 0);
    assert_int_equal(rig_copy(&r, r.gpus[1].agent, of_other, of_npu, SIZE), 0);
    assert_int_equal(r.hsa_amd_memory_pool_free(of_npu), 0);
    assert_int_equal(map(1, &r.gpus[1].agent, fd, 0, &size, &seen, NULL, NULL),
                     HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(close_it(fd), 0);
    assert_int_not_equal(close_it(fd), 0);
    rig_close(&r);
}

static void test_refused(void ** state) {
    (void) state;
    open_as("0");
    char * of_npu = rig_alloc(&r, r.data, SIZE);
    char * of_heap = rig_alloc(&r, r.heap, SIZE);
    char * of_gpu = rig_alloc(&r, r.gpus[0].vram, SIZE);
    int own = 0, fd = 55, foreign = dup(1);
    uint64_t offset = 66;
    size_t size;
    void * seen;
    const struct {
        const void * ptr;
        size_t size;
        hsa_status_t status;
    } exports[] = {
        {NULL, SIZE, HSA_STATUS_ERROR_INVALID_ARGUMENT},
        {of_npu, 0, HSA_STATUS_ERROR_INVALID_ARGUMENT},
        {of_npu, SIZE + 1, HSA_STATUS_ERROR_INVALID_ALLOCATION},
        {of_npu + PAGE, SIZE, HSA_STATUS_ERROR_INVALID_ALLOCATION},
        {&own, sizeof own, HSA_STATUS_ERROR_INVALID_ALLOCATION},
        {of_heap, SIZE, HSA_STATUS_ERROR_INVALID_ALLOCATION},
        {of_gpu, SIZE, HSA_STATUS_ERROR},
    };
    for (size_t i = 0; i < sizeof exports / sizeof exports[0]; i++) {
        assert_int_equal(export_it(exports[i].ptr, exports[i].size, &fd, &offset),
                         exports[i].status);
        assert_int_equal(fd, 55);
        assert_int_equal(offset, 66);
    }
    assert_int_equal(export_it(of_npu, SIZE, &fd, &offset), 0);
    const struct {
        uint32_t n;
        hsa_agent_t agent;
        int fd;
        uint32_t flags;
        hsa_status_t status;
    } maps[] = {
        {0, r.gpus[0].agent, fd, 0, HSA_STATUS_ERROR_INVALID_ARGUMENT},
        {1, r.gpus[0].agent, fd, 1, HSA_STATUS_ERROR_INVALID_ARGUMENT},
        {1, r.gpus[0].agent, -1, 0, HSA_STATUS_ERROR_INVALID_ARGUMENT},
        {1, r.gpus[0].agent, foreign, 0, HSA_STATUS_ERROR_INVALID_ARGUMENT},
        {1, r.npu, fd, 0, HSA_STATUS_ERROR_INVALID_AGENT},
        {1, {1}, fd, 0, HSA_STATUS_ERROR_INVALID_AGENT},
    };
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        hsa_agent_t agent = maps[i].agent;
        assert_int_equal(
            map(maps[i].n, &agent, maps[i].fd, maps[i].flags, &size, &seen, NULL, NULL),
            maps[i].status);
    }
    assert_int_equal(unmap(of_npu), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    assert_int_equal(close_it(fd), 0);
    close(foreign);
    rig_close(&r);
}

static void test_rocr72(void ** state) {
    (void) state;
    open_as("1");
    int fd = 55;
    uint64_t offset;
    char * of_npu = rig_alloc(&r, r.data, SIZE);
    assert_int_equal(export_it(of_npu, SIZE, &fd, &offset), HSA_STATUS_ERROR_INVALID_AGENT);
    assert_int_equal(fd, 55);
    rig_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_rocr72),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
