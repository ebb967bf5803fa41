// test-accel: the played driver by itself. Every refusal of a call is provoked here, with the error
// that the kernel's driver has for it; what commands come to is in test-accel-run.c.
#include "accel-rig.h"
#include "base/stand-ins.h"

#include <dirent.h>
#include <sys/stat.h>

static uint64_t address(const void * p) {
    return (uint64_t) (uintptr_t) p;
}

// ---- the way of a call ----

static void test_calls(void ** state) {
    (void) state;
    rig_settings(NULL);
    int fd = rig_open_plain();
    uint8_t bytes[64] = {0};
    assert_int_equal(rig_call(fd, 0x4b, 16, bytes), EINVAL);           // no such number
    assert_int_equal(rig_call(fd, XDNA_CREATE_BO, 24, bytes), EINVAL); // an older struct
    assert_int_equal(rig_call(fd, XDNA_CREATE_BO, 40, bytes), EINVAL);
    assert_int_equal(rig_call(fd, XDNA_CREATE_BO, sizeof(struct xdna_create_bo), NULL), EFAULT);
    assert_int_equal(rig_call(fd, XDNA_CREATE_BO, sizeof(struct xdna_create_bo), (void *) 8),
                     EFAULT);
    assert_int_equal(ioctl(fd, _IO('T', 1), bytes), -1); // not the driver's; libc's own answer
    assert_int_equal(errno, ENOTTY);
    int other = open("/dev/null", O_RDWR);
    assert_int_not_equal(RIG_CALL(other, XDNA_GET_INFO, &(struct xdna_get_info){0}), 0);
    close(other);

    char name[64] = "", text[64] = "";
    struct xdna_version v = {.name_size = sizeof name - 1,
                             .name = address(name),
                             .description_size = 3,
                             .description = address(text)};
    assert_int_equal(RIG_CALL(fd, XDNA_VERSION, &v), 0);
    assert_string_equal(name, "amdxdna_accel_driver");
    assert_string_equal(text, "AMD");
    assert_int_equal(v.name_size, strlen(name));

    int copy = dup(fd); // another descriptor of the same file
    uint32_t handle = rig_bo(copy, XDNA_BO_SHARE, 4096);
    close(copy);
    rig_info(fd, handle);
    int second = rig_open_plain(); // another file
    struct xdna_get_bo_info info = {.handle = handle};
    assert_int_equal(RIG_CALL(second, XDNA_GET_BO_INFO, &info), ENOENT);
    close(second);
    double left = rig_reported("left_buffers");
    close(fd);
    assert_int_equal(rig_reported("left_buffers"), left);
    assert_int_equal(rig_reported("left_files"), 0);
}

static void test_questions(void ** state) {
    (void) state;
    rig_settings("FIRMWARE", "1.2.3.4", NULL);
    struct rig_file f = rig_file();
    struct xdna_metadata m;
    struct xdna_get_info a = {XDNA_QUERY_METADATA, sizeof m, address(&m)};
    assert_int_equal(RIG_CALL(f.fd, XDNA_GET_INFO, &a), 0);
    assert_int_equal(m.columns, 5);
    assert_int_equal(m.core.rows, 4);
    uint32_t words[5] = {0, 0, 0, 0, 99};
    a = (struct xdna_get_info){XDNA_QUERY_AIE_VERSION, 8, address(words)};
    assert_int_equal(RIG_CALL(f.fd, XDNA_GET_INFO, &a), 0);
    assert_int_equal(words[0], 2);
    a = (struct xdna_get_info){XDNA_QUERY_FIRMWARE, 12, address(words)};
    assert_int_equal(RIG_CALL(f.fd, XDNA_GET_INFO, &a), 0);
    assert_int_equal(words[1], 2);
    assert_int_equal(words[3], 0); // no more than asked for
    struct xdna_clocks clocks;
    a = (struct xdna_get_info){XDNA_QUERY_CLOCKS, sizeof clocks, address(&clocks)};
    assert_int_equal(RIG_CALL(f.fd, XDNA_GET_INFO, &a), 0);
    assert_string_equal(clocks.h.name, "H Clock");

    uint32_t context = rig_context(f.fd);
    struct xdna_context_info list[4];
    a = (struct xdna_get_info){XDNA_QUERY_CONTEXTS, sizeof list, address(list)};
    assert_int_equal(RIG_CALL(f.fd, XDNA_GET_INFO, &a), 0);
    assert_int_equal(a.size, sizeof list[0]);
    assert_int_equal(list[0].id, context);
    assert_int_equal(list[0].columns, 4);
    assert_int_equal(list[0].pid, getpid());
    a.size = 10;
    assert_int_equal(RIG_CALL(f.fd, XDNA_GET_INFO, &a), EINVAL);
    struct xdna_get_array b = {XDNA_ARRAY_CONTEXTS, sizeof list[0], 4, 0, address(list)};
    assert_int_equal(RIG_CALL(f.fd, XDNA_GET_ARRAY, &b), 0);
    assert_int_equal(b.elements, 1);
    struct xdna_resources r;
    a = (struct xdna_get_info){XDNA_QUERY_RESOURCES, sizeof r, address(&r)};
    assert_int_equal(RIG_CALL(f.fd, XDNA_GET_INFO, &a), 0);
    assert_int_equal(r.tasks, 1);

    a = (struct xdna_get_info){XDNA_QUERY_METADATA, sizeof m, 8};
    assert_int_equal(RIG_CALL(f.fd, XDNA_GET_INFO, &a), EFAULT);
    a = (struct xdna_get_info){77, sizeof m, address(&m)};
    assert_int_equal(RIG_CALL(f.fd, XDNA_GET_INFO, &a), EOPNOTSUPP);
    b.pad = 1;
    assert_int_equal(RIG_CALL(f.fd, XDNA_GET_ARRAY, &b), EINVAL);
    b = (struct xdna_get_array){XDNA_ARRAY_CONTEXTS, 0, 4, 0, address(list)};
    assert_int_equal(RIG_CALL(f.fd, XDNA_GET_ARRAY, &b), EINVAL);
    b = (struct xdna_get_array){9, sizeof list[0], 4, 0, address(list)};
    assert_int_equal(RIG_CALL(f.fd, XDNA_GET_ARRAY, &b), EOPNOTSUPP);
    rig_file_close(&f);
    assert_true(rig_reported("left_contexts") > 0); // that one was left
}

// ---- buffers ----

static void test_create(void ** state) {
    (void) state;
    rig_settings(NULL);
    int fd = rig_open_plain();
    uint32_t h;
    assert_int_equal(rig_create(fd, 0, 4096, &h), EINVAL);
    assert_int_equal(rig_create(fd, 5, 4096, &h), EINVAL);
    assert_int_equal(rig_create(fd, XDNA_BO_SHARE, 0, &h), EINVAL);
    assert_int_equal(rig_create(fd, XDNA_BO_SHARE, UINT64_MAX, &h), EINVAL);
    struct xdna_create_bo a = {.flags = 1, .size = 4096, .type = XDNA_BO_SHARE};
    assert_int_equal(RIG_CALL(fd, XDNA_CREATE_BO, &a), EINVAL);
    a = (struct xdna_create_bo){.vaddr = address(&a), .size = 4096, .type = XDNA_BO_SHARE};
    assert_int_equal(RIG_CALL(fd, XDNA_CREATE_BO, &a), EOPNOTSUPP);

    // A piece of the heap wants a heap that is mapped.
    assert_int_equal(rig_create(fd, XDNA_BO_DEV, 4096, &h), EINVAL);
    assert_int_equal(rig_create(fd, XDNA_BO_HEAP, 4096, &h), EINVAL);
    assert_int_equal(rig_create(fd, XDNA_BO_HEAP, 2 * (uint64_t) RIG_HEAP, &h), ENOSPC);
    uint32_t heap = rig_bo(fd, XDNA_BO_HEAP, RIG_HEAP);
    assert_int_equal(rig_create(fd, XDNA_BO_HEAP, RIG_HEAP, &h), EBUSY);
    assert_int_equal(rig_create(fd, XDNA_BO_DEV, 4096, &h), EINVAL);
    uint8_t * bytes = rig_map(fd, heap, RIG_HEAP);
    uint32_t piece = rig_bo(fd, XDNA_BO_DEV, 100);
    struct xdna_get_bo_info info = rig_info(fd, piece);
    assert_true(info.map_offset == XDNA_NO_ADDRESS);
    assert_int_equal(info.vaddr, address(bytes));
    assert_int_equal(info.xdna_addr, 0x04000000);
    info = rig_info(fd, rig_bo(fd, XDNA_BO_DEV, 40000));
    assert_int_equal(info.xdna_addr, 0x04008000);
    info = rig_info(fd, rig_bo(fd, XDNA_BO_DEV, 4096));
    assert_int_equal(info.xdna_addr, 0x04018000); // 40,000 bytes reach into the second step
    munmap(bytes, RIG_HEAP);
    assert_int_equal(rig_create(fd, XDNA_BO_DEV, 4096, &h), EINVAL);
    close(fd);
}

static void test_handles(void ** state) {
    (void) state;
    rig_settings(NULL);
    int fd = rig_open_plain();
    uint32_t h[4];
    for (uint32_t i = 0; i < 4; i++) {
        h[i] = rig_bo(fd, XDNA_BO_SHARE, 8192);
        assert_int_equal(h[i], i + 1);
    }
    memset(rig_map(fd, h[1], 8192), 0x5a, 8192);
    uint8_t * kept = rig_map(fd, h[2], 8192);
    memset(kept, 0xa5, 8192);
    uint64_t offset = rig_info(fd, h[1]).map_offset;
    assert_int_equal(rig_close_bo(fd, h[2]), 0);
    assert_int_equal(rig_close_bo(fd, h[2]), EINVAL);
    assert_int_equal(rig_close_bo(fd, 99), EINVAL);
    assert_int_equal(rig_close_bo(fd, h[1]), 0);
    struct xdna_get_bo_info info = {.handle = h[1]};
    assert_int_equal(RIG_CALL(fd, XDNA_GET_BO_INFO, &info), ENOENT);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, (off_t) offset), MAP_FAILED);
    assert_int_equal(rig_bo(fd, XDNA_BO_CMD, 52), h[1]); // the lowest is taken again
    assert_int_equal(kept[8191], 0xa5);                  // a mapping outlives the handle
    assert_int_equal(rig_reported("kept_bytes"), 2 * 8192);
    uint32_t fresh = rig_bo(fd, XDNA_BO_SHARE, 8192);
    assert_int_equal(fresh, h[2]);
    const uint8_t * bytes = rig_map(fd, fresh, 8192);
    for (int i = 0; i < 8192; i++) {
        assert_int_equal(bytes[i], 0);
    }
    assert_int_equal(kept[0], 0xa5);

    info = (struct xdna_get_bo_info){.handle = fresh, .ext = 1};
    assert_int_equal(RIG_CALL(fd, XDNA_GET_BO_INFO, &info), EINVAL);
    info = (struct xdna_get_bo_info){.handle = fresh, .ext_flags = 1};
    assert_int_equal(RIG_CALL(fd, XDNA_GET_BO_INFO, &info), EINVAL);
    info = (struct xdna_get_bo_info){.handle = fresh, .pad = 1};
    assert_int_equal(RIG_CALL(fd, XDNA_GET_BO_INFO, &info), EINVAL);
    info = (struct xdna_get_bo_info){.handle = 0};
    assert_int_equal(RIG_CALL(fd, XDNA_GET_BO_INFO, &info), ENOENT);

    struct xdna_sync_bo sync = {.handle = fresh, .offset = 4096, .size = 4096};
    assert_int_equal(RIG_CALL(fd, XDNA_SYNC_BO, &sync), 0);
    sync.size = 4097;
    assert_int_equal(RIG_CALL(fd, XDNA_SYNC_BO, &sync), EINVAL);
    sync = (struct xdna_sync_bo){.handle = fresh, .offset = UINT64_MAX, .size = 2};
    assert_int_equal(RIG_CALL(fd, XDNA_SYNC_BO, &sync), EINVAL);
    sync = (struct xdna_sync_bo){.handle = fresh, .direction = 2};
    assert_int_equal(RIG_CALL(fd, XDNA_SYNC_BO, &sync), EINVAL);
    sync = (struct xdna_sync_bo){.handle = 77};
    assert_int_equal(RIG_CALL(fd, XDNA_SYNC_BO, &sync), ENOENT);
    close(fd);
    assert_int_equal(kept[0], 0xa5); // and the file
}

static void * map(int fd, uint64_t offset, size_t size, int flags) {
    errno = 0;
    return mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, (off_t) offset);
}

static void test_maps(void ** state) {
    (void) state;
    rig_settings(NULL);
    int fd = rig_open_plain(), other = rig_open_plain();
    uint32_t h = rig_bo(fd, XDNA_BO_SHARE, 5000);
    uint64_t offset = rig_info(fd, h).map_offset;
    assert_true(offset >= UINT64_C(1) << 32);
    const struct {
        uint64_t offset;
        size_t size;
        int flags;
    } bad[] = {
        {0, 4096, MAP_SHARED},
        {offset + 4096, 4096, MAP_SHARED}, // inside of a buffer
        {offset + (1 << 20), 4096, MAP_SHARED},
        {offset, 8193, MAP_SHARED}, // more than its two pages
        {offset, 4096, MAP_PRIVATE},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_ptr_equal(map(fd, bad[i].offset, bad[i].size, bad[i].flags), MAP_FAILED);
        assert_int_equal(errno, EINVAL);
    }
    assert_ptr_equal(map(other, offset, 4096, MAP_SHARED), MAP_FAILED); // another file's
    assert_true(rig_info(fd, h).vaddr == XDNA_NO_ADDRESS);
    uint8_t * p = map(fd, offset, 8192, MAP_SHARED);
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_int_equal(rig_info(fd, h).vaddr, address(p));
    uint8_t * q = map(fd, offset, 4096, MAP_SHARED);
    p[7] = 42;
    assert_int_equal(q[7], 42);
    munmap(p, 8192);
    munmap(q, 4096);
    assert_true(rig_info(fd, h).vaddr == XDNA_NO_ADDRESS);

    struct xdna_prime a = {.handle = h, .flags = O_CLOEXEC};
    assert_int_equal(RIG_CALL(fd, XDNA_PRIME_HANDLE_TO_FD, &a), 0);
    p = map(a.fd, 0, 4096, MAP_SHARED);
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_int_equal(p[7], 42);
    a.handle = 0;
    assert_int_equal(RIG_CALL(fd, XDNA_PRIME_FD_TO_HANDLE, &a), 0);
    assert_int_equal(a.handle, h);
    assert_int_equal(RIG_CALL(other, XDNA_PRIME_FD_TO_HANDLE, &a), EOPNOTSUPP);
    close(a.fd);
    a.fd = fd;
    assert_int_equal(RIG_CALL(fd, XDNA_PRIME_FD_TO_HANDLE, &a), EINVAL);
    a.handle = 99;
    assert_int_equal(RIG_CALL(fd, XDNA_PRIME_HANDLE_TO_FD, &a), ENOENT);
    munmap(p, 4096);
    close(other);
    close(fd);
}

static void test_heap(void ** state) {
    (void) state;
    rig_settings("HEAP_BYTES", "256K", "HEAP_START", "16M", NULL);
    struct rig_file f = rig_file();
    uint32_t h[8], more;
    for (int i = 0; i < 8; i++) { // 8 places of 32 KiB, be they ever so small
        h[i] = rig_bo(f.fd, XDNA_BO_DEV, 4096);
        assert_int_equal(rig_info(f.fd, h[i]).xdna_addr, 0x05000000 + i * 0x8000);
    }
    assert_int_equal(rig_create(f.fd, XDNA_BO_DEV, 4096, &more), ENOSPC);
    assert_int_equal(rig_create_context(f.fd, RIG_TILES, &more), ENOSPC); // it wants four places
    assert_int_equal(rig_close_bo(f.fd, h[3]), 0);
    assert_int_equal(rig_create(f.fd, XDNA_BO_DEV, 40000, &more), ENOSPC);
    assert_int_equal(rig_bo(f.fd, XDNA_BO_DEV, 32768), h[3]);
    for (int i = 4; i < 7; i++) {
        assert_int_equal(rig_close_bo(f.fd, h[i]), 0);
    }
    assert_int_equal(rig_create_context(f.fd, RIG_TILES, &more), ENOSPC);
    assert_int_equal(rig_close_bo(f.fd, h[7]), 0);
    uint32_t context = rig_context(f.fd);
    assert_int_equal(rig_create(f.fd, XDNA_BO_DEV, 4096, &more), ENOSPC);
    assert_int_equal(rig_destroy(f.fd, context), 0);
    rig_bo(f.fd, XDNA_BO_DEV, 4096);
    rig_file_close(&f);
}

// ---- contexts ----

static void test_contexts(void ** state) {
    (void) state;
    rig_settings("CONTEXTS", "2", NULL);
    int bare = rig_open_plain();
    uint32_t x, y, z;
    assert_int_equal(rig_create_context(bare, RIG_TILES, &x), ENOENT); // no heap
    close(bare);
    struct rig_file f = rig_file(), g = rig_file();
    assert_int_equal(rig_create_context(f.fd, 0, &x), EINVAL);
    assert_int_equal(rig_create_context(f.fd, 3, &x), EINVAL);
    assert_int_equal(rig_create_context(f.fd, 24, &x), EINVAL); // six columns
    struct xdna_qos qos = {0};
    struct xdna_create_hwctx a = {.ext = 1, .qos = address(&qos), .num_tiles = RIG_TILES};
    assert_int_equal(RIG_CALL(f.fd, XDNA_CREATE_HWCTX, &a), EINVAL);
    a = (struct xdna_create_hwctx){.ext_flags = 1, .qos = address(&qos), .num_tiles = RIG_TILES};
    assert_int_equal(RIG_CALL(f.fd, XDNA_CREATE_HWCTX, &a), EINVAL);
    a = (struct xdna_create_hwctx){.num_tiles = RIG_TILES};
    assert_int_equal(RIG_CALL(f.fd, XDNA_CREATE_HWCTX, &a), EFAULT);

    assert_int_equal(rig_create_context(f.fd, RIG_TILES, &x), 0);
    assert_int_equal(rig_create_context(g.fd, 4, &z), ENODEV); // one of four columns that are taken
    assert_int_equal(rig_create_context(g.fd, RIG_TILES, &y), 0);      // the same four, in turns
    assert_int_equal(rig_create_context(f.fd, RIG_TILES, &z), ENOENT); // two are enough
    assert_int_equal(rig_destroy(f.fd, 99), EINVAL);
    struct xdna_destroy_hwctx d = {.handle = x, .pad = 1};
    assert_int_equal(RIG_CALL(f.fd, XDNA_DESTROY_HWCTX, &d), EINVAL);
    assert_int_equal(rig_destroy(f.fd, x), 0);
    assert_int_equal(rig_destroy(f.fd, x), EINVAL);
    assert_int_equal(rig_destroy(g.fd, y), 0);
    assert_int_equal(rig_create_context(f.fd, 8, &x), 0);
    assert_int_equal(rig_create_context(f.fd, 8, &y), 0); // beside it
    rig_file_close(&f);
    rig_file_close(&g);
}

static void test_ids(void ** state) {
    (void) state;
    rig_settings("CONTEXT_IDS", "3", NULL);
    struct rig_file f = rig_file(), g = rig_file();
    for (uint32_t i = 0; i < 7; i++) {
        uint32_t id = rig_context(f.fd);
        assert_int_equal(id, i % 3 + 1);
        assert_int_equal(rig_destroy(f.fd, id), 0);
    }
    assert_int_equal(rig_context(g.fd), 1); // a file has its own
    uint32_t id;
    assert_int_equal(rig_context(f.fd), 2);
    assert_int_equal(rig_context(f.fd), 3);
    assert_int_equal(rig_context(f.fd), 1);
    assert_int_equal(rig_create_context(f.fd, RIG_TILES, &id), EBUSY);
    assert_int_equal(rig_destroy(f.fd, 3), 0);
    assert_int_equal(rig_context(f.fd), 3);
    rig_file_close(&f);
    rig_file_close(&g);

    rig_settings(NULL);
    f = rig_file();
    for (uint32_t i = 0; i < 256; i++) { // 255 as the driver has it
        id = rig_context(f.fd);
        assert_int_equal(id, i % 255 + 1);
        assert_int_equal(rig_destroy(f.fd, id), 0);
    }
    rig_file_close(&f);
}

static void test_cus(void ** state) {
    (void) state;
    rig_settings(NULL);
    struct rig_file f = rig_file();
    uint32_t x = rig_context(f.fd), pdis[33];
    for (int i = 0; i < 33; i++) {
        pdis[i] = rig_bo(f.fd, XDNA_BO_DEV, 4096);
    }
    uint32_t share = rig_bo(f.fd, XDNA_BO_SHARE, 4096), gone = 99;
    uint8_t zeros[4097] = {0};
    assert_int_equal(rig_configure(f.fd, x, pdis, 0), EINVAL);
    assert_int_equal(rig_configure(f.fd, x, pdis, 33), EINVAL);
    assert_int_equal(rig_configure(f.fd, x, &share, 1), EINVAL);
    assert_int_equal(rig_configure(f.fd, x, &gone, 1), EINVAL);
    assert_int_equal(rig_configure(f.fd, 77, pdis, 1), EINVAL);
    struct xdna_config_hwctx a = {.handle = x, .value = address(zeros), .size = 4097};
    assert_int_equal(RIG_CALL(f.fd, XDNA_CONFIG_HWCTX, &a), E2BIG);
    a = (struct xdna_config_hwctx){.handle = x, .value = 8, .size = 16};
    assert_int_equal(RIG_CALL(f.fd, XDNA_CONFIG_HWCTX, &a), EFAULT);
    a = (struct xdna_config_hwctx){.handle = x, .value = address(zeros), .size = 16, .pad = 1};
    assert_int_equal(RIG_CALL(f.fd, XDNA_CONFIG_HWCTX, &a), EINVAL);
    a = (struct xdna_config_hwctx){.handle = x, .type = 9, .value = address(zeros), .size = 16};
    assert_int_equal(RIG_CALL(f.fd, XDNA_CONFIG_HWCTX, &a), EINVAL);
    a.type = XDNA_CONFIG_ATTACH_DEBUG;
    assert_int_equal(RIG_CALL(f.fd, XDNA_CONFIG_HWCTX, &a), EOPNOTSUPP);
    zeros[0] = 2; // two CUs, in the room of one
    zeros[8] = (uint8_t) pdis[0];
    a = (struct xdna_config_hwctx){.handle = x, .value = address(zeros), .size = 16};
    assert_int_equal(RIG_CALL(f.fd, XDNA_CONFIG_HWCTX, &a), EINVAL);
    assert_int_equal(rig_configure(f.fd, x, pdis, 32), 0);
    assert_int_equal(rig_configure(f.fd, x, pdis, 1), EINVAL); // once only
    rig_file_close(&f);

    for (int checked = 0; checked < 2; checked++) { // ROCr does not clear the padding
        rig_settings("CU_PADDING", checked ? "1" : "0", NULL);
        f = rig_file();
        x = rig_context(f.fd);
        uint8_t one[16] = {1, 0, 0, 7, 0, 0, 0, 0, (uint8_t) rig_bo(f.fd, XDNA_BO_DEV, 4096)};
        a = (struct xdna_config_hwctx){.handle = x, .value = address(one), .size = 16};
        assert_int_equal(RIG_CALL(f.fd, XDNA_CONFIG_HWCTX, &a), checked ? EINVAL : 0);
        rig_file_close(&f);
    }
}

// ---- commands that are not taken ----

static void test_exec(void ** state) {
    (void) state;
    rig_settings(NULL);
    struct rig_file f = rig_file();
    uint32_t x = rig_context(f.fd), command = rig_bo(f.fd, XDNA_BO_CMD, 64);
    uint32_t share = rig_bo(f.fd, XDNA_BO_SHARE, 4096), twice[] = {share, share}, gone = 99;
    uint64_t seq;
    const struct xdna_exec_cmd good = {
        .hwctx = x, .commands = command, .command_count = 1, .arguments = address(twice)};
    struct xdna_exec_cmd a = good;
    a.ext = 1;
    assert_int_equal(RIG_CALL(f.fd, XDNA_EXEC_CMD, &a), EINVAL);
    a = good;
    a.ext_flags = 1;
    assert_int_equal(RIG_CALL(f.fd, XDNA_EXEC_CMD, &a), EINVAL);
    a = good;
    a.type = XDNA_SUBMIT_SIGNAL;
    assert_int_equal(RIG_CALL(f.fd, XDNA_EXEC_CMD, &a), EINVAL);
    a = good;
    a.command_count = 2;
    assert_int_equal(RIG_CALL(f.fd, XDNA_EXEC_CMD, &a), EINVAL);
    a = good;
    a.argument_count = 4096;
    assert_int_equal(RIG_CALL(f.fd, XDNA_EXEC_CMD, &a), EINVAL);
    a = good;
    a.argument_count = 1;
    a.arguments = 8;
    assert_int_equal(RIG_CALL(f.fd, XDNA_EXEC_CMD, &a), EFAULT);
    assert_int_equal(rig_exec(f.fd, x, share, NULL, 0, &seq), EINVAL); // no CMD buffer
    assert_int_equal(rig_exec(f.fd, x, gone, NULL, 0, &seq), EINVAL);
    assert_int_equal(rig_exec(f.fd, x, command, &gone, 1, &seq), ENOENT);
    assert_int_equal(rig_exec(f.fd, x, command, twice, 2, &seq), EALREADY);
    assert_int_equal(rig_exec(f.fd, 77, command, twice, 1, &seq), EINVAL);
    assert_int_equal(rig_wait(f.fd, x, 0, 50), EINVAL); // nothing was sent
    assert_int_equal(rig_wait(f.fd, 77, 0, 50), EINVAL);
    assert_int_equal(rig_close_bo(f.fd, share), 0); // no refusal held on to it
    assert_int_equal(rig_bo(f.fd, XDNA_BO_SHARE, 4096), share);
    rig_file_close(&f);
}

// ---- faults ----

static void test_faults(void ** state) {
    (void) state;
    rig_settings("FAIL", "CREATE_BO:2:ENOSPC,MMAP:1:EIO,GET_INFO:3+:ENODEV", NULL);
    int fd = rig_open_plain();
    uint32_t h;
    assert_int_equal(rig_create(fd, XDNA_BO_SHARE, 4096, &h), 0);
    uint64_t offset = rig_info(fd, h).map_offset;
    assert_ptr_equal(map(fd, offset, 4096, MAP_SHARED), MAP_FAILED);
    assert_int_equal(errno, EIO);
    assert_ptr_not_equal(map(fd, offset, 4096, MAP_SHARED), MAP_FAILED);
    assert_int_equal(rig_create(fd, XDNA_BO_SHARE, 4096, &h), ENOSPC);
    assert_int_equal(rig_create(fd, XDNA_BO_SHARE, 4096, &h), 0);
    uint32_t words[2];
    struct xdna_get_info a = {XDNA_QUERY_AIE_VERSION, 8, address(words)};
    const int answers[] = {0, 0, ENODEV, ENODEV, ENODEV};
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        assert_int_equal(RIG_CALL(fd, XDNA_GET_INFO, &a), answers[i]);
    }
    close(fd);

    rig_settings("FAIL", "ANY:3+:ENODEV", NULL); // open is the first
    fd = rig_open_plain();
    assert_int_equal(rig_create(fd, XDNA_BO_SHARE, 4096, &h), 0);
    assert_int_equal(rig_create(fd, XDNA_BO_SHARE, 4096, &h), ENODEV);
    assert_int_equal(rig_close_bo(fd, h), ENODEV);
    assert_ptr_equal(map(fd, offset, 4096, MAP_SHARED), MAP_FAILED);
    assert_int_equal(open(RIG_DEVICE, O_RDWR), -1);
    assert_int_equal(errno, ENODEV);
    close(fd);
}

static void test_settings(void ** state) {
    (void) state;
    static const char * const bad[][2] = {
        {"DEVICE", "npu2"},         {"HEAP_BYTES", "many"},
        {"HEAP_BYTES", "65M"},      {"HEAP_BYTES", "1G"},
        {"MHZ", "100001"},          {"FAIL", "EXEC_CMD"},
        {"FAIL", "EXEC_CMD:0:EIO"}, {"FAIL", "EXEC_CMD:1:EWHAT"},
        {"WAIT_FAILED", "EWHAT"},   {"MISSPELT", "1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        rig_settings(bad[i][0], bad[i][1], NULL);
        errno = 0;
        assert_int_equal(open(RIG_DEVICE, O_RDWR), -1);
        assert_int_equal(errno, EINVAL);
    }
    unsetenv("ACCEL_EMU_MISSPELT");
    rig_settings("HEAP_BYTES", "0x10000", "WAIT_FAILED", "EIO", NULL);
    close(rig_open_plain());
}

// ---- the paths ----

static void read_text(const char * path, char text[64]) {
    FILE * f = fopen(path, "re");
    assert_non_null(f);
    assert_non_null(fgets(text, 64, f));
    fclose(f);
}

static void test_paths(void ** state) {
    (void) state;
    static const char * const devices[][3] = {{"npu1", "0x1502\n", "RyzenAI-npu1\n"},
                                              {"npu4", "0x17f0\n", "RyzenAI-npu4\n"}};
    char text[64];
    for (int i = 0; i < 2; i++) {
        rig_settings("DEVICE", devices[i][0], NULL);
        read_text("/sys/class/accel/accel0/device/device", text);
        assert_string_equal(text, devices[i][1]);
        read_text("/sys/class/accel/accel0/device/vbnv", text);
        assert_string_equal(text, devices[i][2]);
    }
    assert_int_equal(access("/dev/kfd", F_OK), 0);
    assert_int_equal(access("/dev/kfd", X_OK), -1);
    assert_int_equal(access("/sys/module/amdxdna", F_OK), 0);
    close(open("/dev/kfd", O_RDWR | O_CLOEXEC));
    assert_int_equal(open("/sys/class/accel/accel0/device/vbnv", O_RDWR), -1);
    assert_int_equal(openat(AT_FDCWD, "/sys/class/accel", O_RDONLY), -1);
    struct stat info;
    assert_int_equal(stat(RIG_DEVICE, &info), 0);
    assert_true(S_ISCHR(info.st_mode));
    assert_int_equal(fstatat(AT_FDCWD, "/sys/class/accel", &info, 0), 0);
    assert_true(S_ISDIR(info.st_mode));
    struct statx extended;
    assert_int_equal(statx(AT_FDCWD, "/dev/accel", 0, STATX_BASIC_STATS, &extended), 0);
    assert_true(S_ISDIR(extended.stx_mode));
    ssize_t n = readlink("/sys/class/accel/accel0/device/driver", text, sizeof text);
    assert_true(n > 7);
    assert_memory_equal(text + n - 7, "amdxdna", 7);
    assert_int_equal(readlink("/sys/class/accel", text, sizeof text), -1);
    DIR * dir = opendir("/dev/accel");
    assert_non_null(dir);
    assert_string_equal(readdir(dir)->d_name, "accel0");
    assert_null(readdir(dir));
    closedir(dir);
    assert_null(opendir(RIG_DEVICE));

    // Everything else is as it was.
    assert_int_equal(access("/dev/accel/accel1", F_OK), -1);
    assert_int_equal(stat("/", &info), 0);
    dir = opendir("/");
    assert_non_null(readdir(dir));
    closedir(dir);
    assert_true(readlink("/proc/self/exe", text, sizeof text) > 0);
}

// Files that settings name are made or are regular ones; a trace that cannot be is no device, a
// report that cannot be is none.
static void test_no_file(void ** state) {
    (void) state;
    char dir[] = "/tmp/test-accel-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/file", dir);
    for (int kind = 0; stand_ins[kind]; kind++) {
        struct stand_in s;
        if (!stand_in_make(&s, kind, path)) {
            continue;
        }
        rig_settings("REPORT", path, NULL);
        close(rig_open_plain());
        stand_in_check(&s, kind, "ACCEL_EMU_REPORT");
        assert_true(stand_in_make(&s, kind, path));
        rig_settings("TRACE", path, NULL);
        assert_int_equal(open(RIG_DEVICE, O_RDWR | O_CLOEXEC), -1);
        stand_in_check(&s, kind, "ACCEL_EMU_TRACE");
    }
    rig_settings(NULL);
    assert_int_equal(rmdir(dir), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),    cmocka_unit_test(test_questions),
        cmocka_unit_test(test_create),   cmocka_unit_test(test_handles),
        cmocka_unit_test(test_maps),     cmocka_unit_test(test_heap),
        cmocka_unit_test(test_contexts), cmocka_unit_test(test_ids),
        cmocka_unit_test(test_cus),      cmocka_unit_test(test_exec),
        cmocka_unit_test(test_faults),   cmocka_unit_test(test_settings),
        cmocka_unit_test(test_paths),    cmocka_unit_test(test_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
