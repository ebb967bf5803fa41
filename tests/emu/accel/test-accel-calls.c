// test-accel-calls: Linux's driver as it is played, call by call: each refusal with the error that
// the kernel has for it, in each of the kernels that are played. What commands come to is in
// test-accel-jobs.c.
#include "accel-rig.h"

#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>

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

// ---- syncobjs ----

static uint32_t syncobj(int fd, uint32_t flags) {
    struct xdna_syncobj a = {.flags = flags};
    assert_int_equal(RIG_CALL(fd, XDNA_SYNCOBJ_CREATE, &a), 0);
    return a.handle;
}

static int drop_syncobj(int fd, uint32_t handle, uint32_t pad) {
    struct xdna_syncobj a = {handle, pad};
    return RIG_CALL(fd, XDNA_SYNCOBJ_DESTROY, &a);
}

static int wait_flags(int fd, uint32_t handle, uint64_t point, int64_t until, uint32_t flags) {
    struct xdna_timeline_wait a = {
        address(&handle), address(&point), until, 1, flags, 0, 0, 0,
    };
    return RIG_CALL(fd, XDNA_SYNCOBJ_TIMELINE_WAIT, &a);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int notify(int fd, uint32_t handle, uint64_t point, int event, uint32_t pad) {
    struct xdna_syncobj_eventfd a = {.handle = handle, .point = point, .fd = event, .pad = pad};
    return RIG_CALL(fd, XDNA_SYNCOBJ_EVENTFD, &a);
}

static void test_syncobjs(void ** state) {
    (void) state;
    rig_settings(NULL);
    double left = rig_reported("left_syncobjs");
    int fd = rig_open_plain();
    struct xdna_syncobj bad = {.flags = 2};
    assert_int_equal(RIG_CALL(fd, XDNA_SYNCOBJ_CREATE, &bad), EINVAL);
    uint32_t plain = syncobj(fd, 0), done = syncobj(fd, 1);
    assert_int_equal(plain, 1);
    assert_int_equal(done, 2);
    assert_int_equal(wait_flags(fd, plain, 0, 0, 0), EINVAL); // it has no fence
    assert_int_equal(wait_flags(fd, done, 0, 0, 0), 0);
    assert_int_equal(wait_flags(fd, done, 1, 0, 0), EINVAL);  // nor a first point
    assert_int_equal(wait_flags(fd, done, 0, 0, 16), EINVAL); // no such flag
    assert_int_equal(wait_flags(fd, 77, 0, 0, 0), ENOENT);
    int64_t begin = now_ns(); // nobody will submit it
    assert_int_equal(wait_flags(fd, plain, 3, begin + 20000000, 2), ETIME);
    assert_true(now_ns() - begin >= 20000000);
    assert_int_equal(wait_flags(fd, plain, 3, 20000000, 2), ETIME); // not from now: in the past
    struct xdna_timeline_wait none = {.count = 0};
    assert_int_equal(RIG_CALL(fd, XDNA_SYNCOBJ_TIMELINE_WAIT, &none), 0);
    none = (struct xdna_timeline_wait){.handles = 8, .points = 8, .count = 1};
    assert_int_equal(RIG_CALL(fd, XDNA_SYNCOBJ_TIMELINE_WAIT, &none), EFAULT);

    uint64_t points[2] = {9, 9};
    uint32_t both[] = {plain, done};
    struct xdna_timeline_query q = {address(both), address(points), 2, 0};
    assert_int_equal(RIG_CALL(fd, XDNA_SYNCOBJ_QUERY, &q), 0);
    assert_int_equal(points[0] + points[1], 0);
    q.flags = 4;
    assert_int_equal(RIG_CALL(fd, XDNA_SYNCOBJ_QUERY, &q), EINVAL);
    int event = eventfd(0, EFD_NONBLOCK);
    assert_int_equal(notify(fd, plain, 1, event, 1), EINVAL);
    assert_int_equal(notify(fd, 77, 1, event, 0), ENOENT);
    assert_int_equal(notify(fd, plain, 1, fd, 0), EINVAL); // no eventfd
    assert_int_equal(notify(fd, plain, 1, 999, 0), EBADF);
    close(event);

    assert_int_equal(drop_syncobj(fd, plain, 1), EINVAL);
    assert_int_equal(drop_syncobj(fd, plain, 0), 0);
    assert_int_equal(drop_syncobj(fd, plain, 0), EINVAL);
    assert_int_equal(syncobj(fd, 0), plain); // the lowest again
    close(fd);

    // A context's belongs to the program, and outlives the context.
    struct rig_file f = rig_file();
    uint32_t x, t;
    assert_int_equal(rig_create_timed(f.fd, RIG_TILES, &x, &t), 0);
    assert_int_equal(rig_destroy(f.fd, x), 0);
    assert_int_equal(rig_reported("left_syncobjs"), left + 1);
    assert_int_equal(drop_syncobj(f.fd, t, 0), 0);
    assert_int_equal(rig_reported("left_syncobjs"), left);
    rig_file_close(&f);
}

// ---- buffers ----

static void test_early(void ** state) {
    (void) state;
    static const int early[] = {EINVAL, EINVAL, EINVAL, EAGAIN};
    static const int second[] = {EBUSY, EBUSY, EBUSY, ENOSPC};
    for (int k = 0; k < N_KERNELS; k++) {
        rig_settings("KERNEL", kernels[k], NULL);
        int fd = rig_open_plain();
        uint32_t h, x;
        assert_int_equal(rig_create_context(fd, RIG_TILES, &x), ENOENT);
        assert_int_equal(rig_create(fd, XDNA_BO_DEV, 4096, &h), early[k]);
        assert_int_equal(rig_create(fd, XDNA_BO_HEAP, 4096, &h), EINVAL);
        assert_int_equal(rig_create(fd, XDNA_BO_HEAP, 2 * (uint64_t) RIG_HEAP, &h), ENOSPC);
        uint32_t heap = rig_bo(fd, XDNA_BO_HEAP, RIG_HEAP);
        assert_int_equal(rig_create(fd, XDNA_BO_HEAP, RIG_HEAP, &h), second[k]);
        assert_int_equal(rig_create(fd, XDNA_BO_DEV, 4096, &h), early[k]);
        assert_int_equal(rig_create_context(fd, RIG_TILES, &x), EAGAIN);
        uint8_t * bytes = rig_map_heap(fd, heap, NULL);
        // A page further is no place for the firmware, but one for buffers.
        munmap(bytes, RIG_HEAP);
        assert_ptr_equal(mmap(bytes + 4096, RIG_HEAP, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_FIXED, fd, (off_t) rig_info(fd, heap).map_offset),
                         bytes + 4096);
        assert_int_equal(rig_create(fd, XDNA_BO_DEV, 4096, &h), 0);
        assert_int_equal(rig_create_context(fd, RIG_TILES, &x), EINVAL);
        munmap(bytes, 8 * (size_t) RIG_HEAP);
        // The heap stays the file's when its handle goes.
        assert_int_equal(rig_close_bo(fd, h), 0);
        assert_int_equal(rig_close_bo(fd, heap), 0);
        assert_int_equal(rig_create(fd, XDNA_BO_HEAP, RIG_HEAP, &h), second[k]);
        close(fd);
    }
}

static void test_heap_full(void ** state) {
    (void) state;
    static const struct {
        const char *kernel, *device;
        int full;
    } rows[] = {
        {"6.14", "npu4", ENOSPC}, {"7.0", "npu4", ENOSPC}, {"7.2", "npu1", ENOSPC},
        {"7.2", "npu4", EAGAIN},  {"7.2", "npu5", EAGAIN}, {"7.2", "npu6", EAGAIN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        rig_settings("KERNEL", rows[i].kernel, "DEVICE", rows[i].device, "HEAP_BYTES", "64K", NULL);
        struct rig_file f = rig_file();
        uint32_t h;
        rig_bo(f.fd, XDNA_BO_DEV, 4096);
        rig_bo(f.fd, XDNA_BO_DEV, 4096);
        assert_int_equal(rig_create(f.fd, XDNA_BO_DEV, 4096, &h), rows[i].full);
        assert_int_equal(rig_create_context(f.fd, RIG_TILES, &h), rows[i].full);
        rig_file_close(&f);
    }
}

static void test_chunks(void ** state) {
    (void) state;
    rig_settings("DEVICE", "npu4", NULL);
    struct rig_file f = rig_file();
    uint32_t h, chunk[8];
    assert_int_equal(rig_create(f.fd, XDNA_BO_DEV, (UINT64_C(512) << 20) + 1, &h), EINVAL);
    rig_bo(f.fd, XDNA_BO_DEV, 40 << 20);
    assert_int_equal(rig_create(f.fd, XDNA_BO_DEV, 40 << 20, &h), EAGAIN);
    chunk[1] = rig_bo(f.fd, XDNA_BO_HEAP, RIG_HEAP);
    assert_int_equal(rig_info(f.fd, chunk[1]).xdna_addr, 0x08000000);
    assert_int_equal(rig_create(f.fd, XDNA_BO_DEV, 40 << 20, &h), EAGAIN); // not mapped yet
    uint8_t * apart = rig_map(f.fd, chunk[1], RIG_HEAP);
    assert_int_equal(rig_create(f.fd, XDNA_BO_DEV, 40 << 20, &h), EINVAL); // nor behind the first
    munmap(apart, RIG_HEAP);
    uint8_t * bytes = rig_map_heap(f.fd, chunk[1], f.heap_bytes);
    h = rig_bo(f.fd, XDNA_BO_DEV, 40 << 20); // over both
    struct xdna_get_bo_info info = rig_info(f.fd, h);
    assert_int_equal(info.xdna_addr, 0x04000000 + (40 << 20));
    assert_int_equal(info.vaddr, address(f.heap_bytes) + (40 << 20));
    memset((void *) (uintptr_t) info.vaddr, 0x33, 40 << 20);
    assert_int_equal(bytes[0], 0x33);
    for (int i = 2; i < 8; i++) {
        chunk[i] = rig_bo(f.fd, XDNA_BO_HEAP, RIG_HEAP);
        bytes = rig_map_heap(f.fd, chunk[i], bytes);
    }
    assert_int_equal(rig_create(f.fd, XDNA_BO_HEAP, RIG_HEAP, &h), ENOSPC); // 512 MiB are all
    assert_int_equal(rig_create(f.fd, XDNA_BO_DEV, 450 << 20, &h), ENOSPC);
    rig_bo(f.fd, XDNA_BO_DEV, 432 << 20);
    rig_file_close(&f);
}

static void test_types(void ** state) {
    (void) state;
    for (int k = 0; k < N_KERNELS; k++) {
        rig_settings("KERNEL", kernels[k], NULL);
        struct rig_file f = rig_file();
        bool one = k == 3;
        uint32_t h, x = rig_context(f.fd), share = rig_bo(f.fd, XDNA_BO_SHARE, 4096);
        uint32_t command = rig_bo(f.fd, XDNA_BO_CMD, 32 << 10), twice[] = {share, share};
        uint64_t seq;
        assert_int_equal(rig_create(f.fd, XDNA_BO_CMD, 33 << 10, &h), one ? 0 : EINVAL);
        const uint32_t pdi = rig_bo(f.fd, XDNA_BO_DEV, 4096);
        assert_int_equal(rig_exec(f.fd, x, command, NULL, 0, &seq), k < 2 ? EINVAL : 0); // no CUs
        assert_int_equal(rig_configure(f.fd, x, &pdi, 1), 0);
        assert_int_equal(rig_exec(f.fd, x, command, NULL, 0, &seq), 0);
        assert_int_equal(rig_exec(f.fd, x, share, NULL, 0, &seq), one ? 0 : EINVAL);
        assert_int_equal(rig_exec(f.fd, x, f.heap, NULL, 0, &seq), EINVAL);
        assert_int_equal(rig_exec(f.fd, x, rig_bo(f.fd, XDNA_BO_DEV, 64), NULL, 0, &seq), EINVAL);
        assert_int_equal(rig_exec(f.fd, x, command, twice, 2, &seq), EALREADY);
        rig_map(f.fd, share, 4096);
        struct xdna_sync_bo sync = {.handle = share, .size = 4096};
        assert_int_equal(RIG_CALL(f.fd, XDNA_SYNC_BO, &sync), 0);
        sync.direction = XDNA_SYNC_FROM_DEVICE;
        assert_int_equal(RIG_CALL(f.fd, XDNA_SYNC_BO, &sync), EINVAL);
        sync = (struct xdna_sync_bo){.handle = share, .offset = 4096, .size = 0};
        assert_int_equal(RIG_CALL(f.fd, XDNA_SYNC_BO, &sync), EINVAL);
        sync = (struct xdna_sync_bo){.handle = share, .offset = 64, .size = 4096};
        assert_int_equal(RIG_CALL(f.fd, XDNA_SYNC_BO, &sync), EINVAL);
        rig_file_close(&f);
    }
}

// ---- contexts ----

static void test_tiles(void ** state) {
    (void) state;
    static const struct {
        const char * device;
        uint32_t tiles;
        int error;
        uint32_t first, columns;
    } rows[] = {
        {"npu1", 0, EINVAL, 0, 0},  {"npu1", 1, EINVAL, 0, 0}, {"npu1", 3, EINVAL, 0, 0},
        {"npu1", 24, EINVAL, 0, 0}, {"npu1", 16, 0, 1, 4},     {"npu1", 20, 0, 0, 5},
        {"npu1", 8, 0, 1, 2},       {"npu4", 1, EINVAL, 0, 0}, {"npu4", 36, EINVAL, 0, 0},
        {"npu4", 4, 0, 0, 8},       {"npu4", 32, 0, 0, 8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        rig_settings("DEVICE", rows[i].device, NULL);
        struct rig_file f = rig_file();
        uint32_t x;
        assert_int_equal(rig_create_context(f.fd, rows[i].tiles, &x), rows[i].error);
        if (rows[i].error == 0) {
            struct xdna_context_entry e;
            struct xdna_get_array a = {XDNA_ARRAY_CONTEXTS, sizeof e, 1, 0, address(&e)};
            assert_int_equal(RIG_CALL(f.fd, XDNA_GET_ARRAY, &a), 0);
            assert_int_equal(e.first_column, rows[i].first);
            assert_int_equal(e.columns, rows[i].columns);
            assert_int_equal(e.id, x);
            assert_int_equal(e.pid, getpid());
        }
        rig_file_close(&f);
    }
}

static void test_limits(void ** state) {
    (void) state;
    static const char * const devices[] = {"npu1", "npu4"};
    static const uint32_t limits[] = {6, 16};
    for (int d = 0; d < 2; d++) {
        rig_settings("DEVICE", devices[d], NULL);
        struct rig_file f = rig_file(), g = rig_file();
        uint32_t x, last = 0;
        for (uint32_t i = 0; i < limits[d]; i++) { // over both files, each with its own id
            assert_int_equal(rig_create_context(i % 2 ? f.fd : g.fd, RIG_TILES, &x), 0);
            assert_true(i == 0 || x == last + 1);
            last = x;
        }
        assert_int_equal(rig_destroy(g.fd, last), EINVAL); // the other's
        assert_int_equal(rig_create_context(f.fd, RIG_TILES, &x), EINVAL);
        assert_int_equal(rig_destroy(f.fd, last), 0);
        assert_int_equal(rig_create_context(f.fd, RIG_TILES, &x), 0);
        rig_file_close(&g);
        for (uint32_t i = 0; i < 1024; i++) { // ids go round, past those that are taken
            assert_int_equal(rig_create_context(f.fd, RIG_TILES, &x), 0);
            assert_between(x, 1, 1024);
            assert_int_equal(rig_destroy(f.fd, x), 0);
        }
        rig_file_close(&f);
    }
}

// Of the quality of service the driver reads 24 bytes; newer programs pass more.
static void test_qos(void ** state) {
    (void) state;
    rig_settings(NULL);
    struct rig_file f = rig_file();
    uint8_t * pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    mprotect(pages + 4096, 4096, PROT_NONE);
    struct xdna_create_hwctx a = {.qos = address(pages + 4096 - 24), .num_tiles = RIG_TILES};
    assert_int_equal(RIG_CALL(f.fd, XDNA_CREATE_HWCTX, &a), 0);
    assert_int_equal(a.umq_doorbell, UINT32_MAX);
    assert_int_not_equal(a.syncobj, 0);
    a = (struct xdna_create_hwctx){.qos = address(pages + 4096 - 20), .num_tiles = RIG_TILES};
    assert_int_equal(RIG_CALL(f.fd, XDNA_CREATE_HWCTX, &a), EFAULT);
    munmap(pages, 8192);
    rig_file_close(&f);
}

static int configure(int fd, uint32_t x, const uint8_t * bytes, uint32_t size) {
    struct xdna_config_hwctx a = {.handle = x, .value = address(bytes), .size = size};
    return RIG_CALL(fd, XDNA_CONFIG_HWCTX, &a);
}

static void test_cus(void ** state) {
    (void) state;
    for (int k = 0; k < N_KERNELS; k++) {
        rig_settings("KERNEL", kernels[k], NULL);
        struct rig_file f = rig_file();
        uint32_t x = rig_context(f.fd), share = rig_bo(f.fd, XDNA_BO_SHARE, 4096);
        uint8_t pdi = (uint8_t) rig_bo(f.fd, XDNA_BO_DEV, 4096);
        uint8_t one[16] = {1, 0, 0, 7, 0, 0, 0, 0, pdi};
        assert_int_equal(configure(f.fd, x, one, 16), EINVAL); // its padding
        one[3] = 0;
        one[15] = 1; // and its CU's
        assert_int_equal(configure(f.fd, x, one, 16), EINVAL);
        one[15] = 0;
        one[8] = (uint8_t) share;
        assert_int_equal(configure(f.fd, x, one, 16), EINVAL);
        one[8] = pdi;
        assert_int_equal(configure(f.fd, x, one, 16), 0);
        assert_int_equal(configure(f.fd, x, one, 16), EINVAL); // once
        double heap = rig_reported("left_buffers");
        assert_int_equal(rig_close_bo(f.fd, pdi), 0); // the context may hold it: so be it
        assert_true(rig_reported("left_buffers") < heap);
        bool held = rig_info(f.fd, rig_bo(f.fd, XDNA_BO_DEV, 4096)).xdna_addr != 0x04020000;
        assert_int_equal(held, k == 3); // four chain buffers lie before it
        rig_file_close(&f);
    }
}

// ---- questions ----

static void test_answers(void ** state) {
    (void) state;
    static const struct {
        const char *kernel, *device;
        uint32_t firmware[4];
        int sensors;
        uint32_t entry;
    } rows[] = {
        {"7.2", "npu1", {1, 5, 5, 391}, EOPNOTSUPP, 160},
        {"7.2", "npu4", {1, 1, 2, 64}, 0, 160},
        {"7.2", "npu5", {1, 1, 2, 65}, 0, 160},
        {"7.0", "npu4", {1, 1, 2, 64}, EOPNOTSUPP, 144},
        {"6.18", "npu4", {1, 0, 0, 166}, EOPNOTSUPP, 144},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        rig_settings("KERNEL", rows[i].kernel, "DEVICE", rows[i].device, NULL);
        struct rig_file f = rig_file();
        rig_context(f.fd);
        uint32_t words[4];
        struct xdna_get_info a = {XDNA_QUERY_FIRMWARE, 16, address(words)};
        assert_int_equal(RIG_CALL(f.fd, XDNA_GET_INFO, &a), 0);
        assert_memory_equal(words, rows[i].firmware, 16);
        a = (struct xdna_get_info){XDNA_QUERY_AIE_VERSION, 8, address(words)};
        assert_int_equal(RIG_CALL(f.fd, XDNA_GET_INFO, &a), 0);
        assert_int_equal(words[0], 1);
        assert_int_equal(words[1], 1);
        struct xdna_metadata m;
        a = (struct xdna_get_info){XDNA_QUERY_METADATA, sizeof m, address(&m)};
        assert_int_equal(RIG_CALL(f.fd, XDNA_GET_INFO, &a), 0);
        assert_int_equal(m.column_size, 504);
        assert_int_equal(m.major, 1);
        struct xdna_sensor sensors[9];
        a = (struct xdna_get_info){XDNA_QUERY_SENSORS, sizeof sensors, address(sensors)};
        assert_int_equal(RIG_CALL(f.fd, XDNA_GET_INFO, &a), rows[i].sensors);
        if (rows[i].sensors == 0) {
            assert_int_equal(sensors[0].type, 0);
            assert_true(sensors[0].input > 0);
            assert_int_equal(sensors[8].type, 1);
        }
        uint8_t list[2 * 200];
        struct xdna_get_array b = {XDNA_ARRAY_CONTEXTS, 200, 2, 0, address(list)};
        assert_int_equal(RIG_CALL(f.fd, XDNA_GET_ARRAY, &b), 0);
        assert_int_equal(b.element_size, rows[i].entry);
        assert_int_equal(b.elements, 1);
        b = (struct xdna_get_array){XDNA_ARRAY_CONTEXTS, 64, 2, 0, address(list)}; // an older one
        assert_int_equal(RIG_CALL(f.fd, XDNA_GET_ARRAY, &b), 0);
        assert_int_equal(b.element_size, 64);
        struct xdna_last_error last = {.code = 7};
        b = (struct xdna_get_array){XDNA_ARRAY_LAST_ERROR, sizeof last, 1, 0, address(&last)};
        assert_int_equal(RIG_CALL(f.fd, XDNA_GET_ARRAY, &b), 0);
        rig_file_close(&f);
    }
}

static int set_power(int fd, uint8_t mode) {
    uint8_t bytes[8] = {mode};
    struct xdna_get_info a = {0, sizeof bytes, address(bytes)};
    return RIG_CALL(fd, XDNA_SET_STATE, &a);
}

static uint32_t array_mhz(int fd) {
    struct xdna_clocks clocks = {0};
    struct xdna_get_info a = {XDNA_QUERY_CLOCKS, sizeof clocks, address(&clocks)};
    assert_int_equal(RIG_CALL(fd, XDNA_GET_INFO, &a), 0);
    return clocks.h.mhz;
}

static void test_power(void ** state) {
    (void) state;
    rig_settings("DEVICE", "npu4", NULL);
    if (geteuid() == 0) { // root may, and another process of another user may not
        int fd = rig_open_plain();
        assert_int_equal(set_power(fd, 5), EINVAL);
        assert_int_equal(array_mhz(fd), 1800);
        assert_int_equal(set_power(fd, 1), 0);
        assert_int_equal(array_mhz(fd), 792);
        assert_int_equal(set_power(fd, 0), 0);
        close(fd);
    }
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) {
            _exit(2);
        }
        setenv("ACCEL_EMU_REPORT", "", 1);
        int fd = open(RIG_DEVICE, O_RDWR | O_CLOEXEC);
        _exit(fd >= 0 && set_power(fd, 1) == EACCES ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_names(void ** state) {
    (void) state;
    static const char * const rows[][3] = {{"7.2", "npu5", "NPU Strix Halo\n"},
                                           {"6.18", "npu5", "RyzenAI-npu5\n"},
                                           {"7.2", "npu1", "RyzenAI-npu1\n"}};
    for (int i = 0; i < 3; i++) {
        rig_settings("KERNEL", rows[i][0], "DEVICE", rows[i][1], NULL);
        char text[64] = "";
        FILE * f = fopen("/sys/class/accel/accel0/device/vbnv", "re");
        assert_non_null(f);
        assert_non_null(fgets(text, sizeof text, f));
        fclose(f);
        assert_string_equal(text, rows[i][2]);
    }
}

// ---- faults ----

static void test_each_second(void ** state) {
    (void) state;
    rig_settings("FAIL", "ANY:%2:EINTR", NULL); // open is the first
    int fd = rig_open_plain();
    for (int i = 0; i < 6; i++) {
        struct xdna_syncobj a = {0};
        assert_int_equal(RIG_CALL(fd, XDNA_SYNCOBJ_CREATE, &a), i % 2 ? 0 : EINTR);
    }
    uint32_t h;
    assert_int_equal(rig_create(fd, XDNA_BO_SHARE, 4096, &h), EINTR);
    h = rig_bo(fd, XDNA_BO_SHARE, 4096);
    struct xdna_get_bo_info info = {.handle = h};
    assert_int_equal(RIG_CALL(fd, XDNA_GET_BO_INFO, &info), EINTR);
    info = rig_info(fd, h);
    for (int i = 0; i < 2; i++) { // mmap is never interrupted
        assert_ptr_not_equal(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, (off_t) info.map_offset),
                             MAP_FAILED);
    }
    close(fd);
    rig_settings("FAIL", "SYNCOBJ_CREATE:%3:ENOMEM,SYNCOBJ_DESTROY:2:EIO", NULL);
    fd = rig_open_plain();
    for (int i = 1; i <= 6; i++) {
        struct xdna_syncobj a = {0};
        assert_int_equal(RIG_CALL(fd, XDNA_SYNCOBJ_CREATE, &a), i % 3 ? 0 : ENOMEM);
    }
    assert_int_equal(drop_syncobj(fd, 1, 0), 0);
    assert_int_equal(drop_syncobj(fd, 2, 0), EIO);
    close(fd);
    static const char * const bad[] = {"ANY:%:EIO", "ANY:%0:EIO", "ANY:%2+:EIO", "ANY:2%:EIO"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        rig_settings("FAIL", bad[i], NULL);
        assert_int_equal(open(RIG_DEVICE, O_RDWR), -1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),    cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_syncobjs),    cmocka_unit_test(test_early),
        cmocka_unit_test(test_heap_full),   cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_types),       cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_limits),      cmocka_unit_test(test_qos),
        cmocka_unit_test(test_cus),         cmocka_unit_test(test_answers),
        cmocka_unit_test(test_names),       cmocka_unit_test(test_power),
        cmocka_unit_test(test_each_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
