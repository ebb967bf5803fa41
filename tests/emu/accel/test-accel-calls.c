// test-accel-calls: Linux's driver as it is played, call by call: each refusal with the error that
// the kernel has for it, in each of the kernels that are played. What commands come to is in
// test-accel-jobs.c.
#include "accel-rig.h"

static uint64_t address(const void * p) {
    return (uint64_t) (uintptr_t) p;
}

static const char * const kernels[] = {"6.14", "6.18", "7.0", "7.2"};
enum { N_KERNELS = 4 };

static void test_versions(void ** state) {
    (void) state;
    static const struct {
        const char * kernel;
        int major, minor, wait, array;
    } rows[] = {
        {"6.14", 0, 0, EINVAL, EINVAL}, {"6.18", 0, 1, EINVAL, 0},   {"7.0", 0, 6, EINVAL, 0},
        {"7.2", 0, 16, EOPNOTSUPP, 0},  {"legacy", 1, 0, EINVAL, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        rig_settings("KERNEL", rows[i].kernel, NULL);
        int fd = rig_open_plain();
        struct xdna_version v = {0};
        assert_int_equal(RIG_CALL(fd, XDNA_VERSION, &v), 0);
        assert_int_equal(v.major, rows[i].major);
        assert_int_equal(v.minor, rows[i].minor);
        struct xdna_wait_cmd wait = {.hwctx = 1};
        assert_int_equal(RIG_CALL(fd, XDNA_WAIT_CMD, &wait), rows[i].wait);
        uint8_t list[160];
        struct xdna_get_array a = {XDNA_ARRAY_CONTEXTS, sizeof list, 1, 0, address(list)};
        assert_int_equal(RIG_CALL(fd, XDNA_GET_ARRAY, &a), rows[i].array);
        close(fd);
    }
    rig_settings("KERNEL", "5.10", NULL);
    assert_int_equal(open(RIG_DEVICE, O_RDWR), -1);
}

// DRM copies the smaller of both sizes.
static void test_sizes(void ** state) {
    (void) state;
    for (int k = 0; k < N_KERNELS; k++) {
        rig_settings("KERNEL", kernels[k], NULL);
        int fd = rig_open_plain();
        struct {
            struct xdna_create_bo a;
            uint64_t more;
        } longer = {{.size = 4096, .type = XDNA_BO_SHARE}, 0x5a5a};
        assert_int_equal(rig_call(fd, XDNA_CREATE_BO, sizeof longer, &longer), 0);
        assert_int_equal(longer.a.handle, 1);
        assert_int_equal(longer.more, 0x5a5a);
        struct xdna_get_bo_info info = {.handle = 1, .map_offset = 7, .vaddr = 7};
        assert_int_equal(rig_call(fd, XDNA_GET_BO_INFO, 24, &info), 0); // none of its answers
        assert_int_equal(info.map_offset, 7);
        struct xdna_create_bo half = {.size = 4096, .type = 77, .handle = 9};
        assert_int_equal(rig_call(fd, XDNA_CREATE_BO, 24, &half), EINVAL); // no type: 0
        assert_int_equal(rig_call(fd, 0x4b, 16, &info), EINVAL);
        close(fd);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
