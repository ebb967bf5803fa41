// accel-rig: what the tests of the played driver share: its calls by hand, without ROCr. The
// library is linked before libc, so that open, ioctl and mmap of these programs are its own.
#pragma once

#include "base/cmocka-all.h"

#include "amdxdna/uapi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#define RIG_DEVICE "/dev/accel/accel0"
enum { RIG_HEAP = 64 << 20, RIG_TILES = 16 };

// Settings for the next open; the others have their defaults, and words on stderr are left out.
static inline void rig_settings(const char * name, ...) {
    static const char * const all[] = {
        "KERNEL",      "IDLE_MS",    "CACHES",      "SEED",       "SHARED",      "LATE_US",
        "DEVICE",      "HEAP_BYTES", "HEAP_START",  "HEAP_ALIGN", "CHAIN_BYTES", "SLOT_BYTES",
        "ODD_ARGS",    "WAIT_MS",    "WATCHDOG_MS", "MHZ",        "CONTEXT_IDS", "CONTEXTS",
        "WAIT_FAILED", "FAIL",       "CU_PADDING",  "FIRMWARE",   "TRACE",
    };
    char variable[64];
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        snprintf(variable, sizeof variable, "ACCEL_EMU_%s", all[i]);
        unsetenv(variable);
    }
    setenv("ACCEL_EMU_KERNEL", RIG_KERNEL, 1);
    setenv("ACCEL_EMU_QUIET", "1", 0);
    setenv("ACCEL_EMU_REPORT", RIG_REPORT, 1);
    va_list args;
    va_start(args, name);
    for (; name; name = va_arg(args, const char *)) {
        snprintf(variable, sizeof variable, "ACCEL_EMU_%s", name);
        setenv(variable, va_arg(args, const char *), 1);
    }
    va_end(args);
}

static inline int rig_open_plain(void) {
    int fd = open(RIG_DEVICE, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

// 0, or the error.
static inline int rig_call(int fd, unsigned nr, size_t size, void * arg) {
    errno = 0;
    return ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, XDNA_IOCTL_TYPE, nr, size), arg) == 0 ? 0 : errno;
}
#define RIG_CALL(fd, nr, arg) rig_call(fd, nr, sizeof *(arg), arg)

// ---- buffers ----

static inline int rig_create(int fd, uint32_t type, uint64_t size, uint32_t * handle) {
    struct xdna_create_bo a = {.size = size, .type = type};
    int error = RIG_CALL(fd, XDNA_CREATE_BO, &a);
    *handle = a.handle;
    return error;
}

static inline uint32_t rig_bo(int fd, uint32_t type, uint64_t size) {
    uint32_t handle;
    assert_int_equal(rig_create(fd, type, size, &handle), 0);
    assert_int_not_equal(handle, 0);
    return handle;
}

static inline struct xdna_get_bo_info rig_info(int fd, uint32_t handle) {
    struct xdna_get_bo_info a = {.handle = handle};
    assert_int_equal(RIG_CALL(fd, XDNA_GET_BO_INFO, &a), 0);
    return a;
}

static inline int rig_close_bo(int fd, uint32_t handle) {
    struct xdna_gem_close a = {.handle = handle};
    return RIG_CALL(fd, XDNA_GEM_CLOSE, &a);
}

static inline void * rig_map(int fd, uint32_t handle, size_t size) {
    void * p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                    (off_t) rig_info(fd, handle).map_offset);
    assert_ptr_not_equal(p, MAP_FAILED);
    return p;
}

// A heap buffer mapped where the firmware wants it. `behind` is the chunk before it, or NULL.
static inline uint8_t * rig_map_heap(int fd, uint32_t handle, uint8_t * behind) {
    uint8_t * at = behind ? behind + RIG_HEAP : NULL;
    if (!at) { // room for eight chunks and to align the first
        uint8_t * p =
            mmap(NULL, 9 * (size_t) RIG_HEAP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(p, MAP_FAILED);
        at = p + (RIG_HEAP - (uintptr_t) p % RIG_HEAP) % RIG_HEAP;
        munmap(p, (size_t) (at - p));
        munmap(at + 8 * (size_t) RIG_HEAP,
               (size_t) (p + 9 * (size_t) RIG_HEAP - (at + 8 * (size_t) RIG_HEAP)));
    }
    assert_ptr_equal(mmap(at, RIG_HEAP, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                          (off_t) rig_info(fd, handle).map_offset),
                     at);
    return at;
}

// An open file with its heap made and mapped, as ROCr begins.
struct rig_file {
    int fd;
    uint32_t heap;
    uint8_t * heap_bytes;
};

static inline struct rig_file rig_file(void) {
    struct rig_file f = {.fd = rig_open_plain()};
    f.heap = rig_bo(f.fd, XDNA_BO_HEAP, RIG_HEAP);
    f.heap_bytes = rig_map_heap(f.fd, f.heap, NULL);
    return f;
}

static inline void rig_file_close(struct rig_file * f) {
    munmap(f->heap_bytes, 8 * (size_t) RIG_HEAP);
    assert_int_equal(close(f->fd), 0);
}

// ---- contexts ----

static inline int rig_create_timed(int fd, uint32_t tiles, uint32_t * handle, uint32_t * syncobj) {
    struct xdna_qos qos = {0};
    struct xdna_create_hwctx a = {
        .qos = (uint64_t) (uintptr_t) &qos, .max_opc = 0x800, .num_tiles = tiles};
    int error = RIG_CALL(fd, XDNA_CREATE_HWCTX, &a);
    *handle = a.handle;
    *syncobj = a.syncobj;
    return error;
}

static inline int rig_create_context(int fd, uint32_t tiles, uint32_t * handle) {
    uint32_t syncobj;
    return rig_create_timed(fd, tiles, handle, &syncobj);
}

static inline uint32_t rig_context(int fd) {
    uint32_t handle;
    assert_int_equal(rig_create_context(fd, RIG_TILES, &handle), 0);
    return handle;
}

static inline int rig_destroy(int fd, uint32_t context) {
    struct xdna_destroy_hwctx a = {.handle = context};
    return RIG_CALL(fd, XDNA_DESTROY_HWCTX, &a);
}

static inline int rig_configure(int fd, uint32_t context, const uint32_t * pdis, unsigned n) {
    union {
        struct xdna_cus cus;
        uint8_t bytes[sizeof(struct xdna_cus) + 64 * sizeof(struct xdna_cu)];
    } u = {.bytes = {0}};
    u.cus.count = (uint16_t) n;
    for (unsigned i = 0; i < n; i++) {
        u.cus.cus[i].bo = pdis[i];
    }
    struct xdna_config_hwctx a = {
        .handle = context,
        .value = (uint64_t) (uintptr_t) &u,
        .size = (uint32_t) (sizeof(struct xdna_cus) + n * sizeof(struct xdna_cu)),
    };
    return RIG_CALL(fd, XDNA_CONFIG_HWCTX, &a);
}

// ---- commands ----

static inline int rig_exec(int fd, uint32_t context, uint32_t command, const uint32_t * buffers,
                           uint32_t n, uint64_t * seq) {
    struct xdna_exec_cmd a = {
        .hwctx = context,
        .commands = command,
        .arguments = (uint64_t) (uintptr_t) buffers,
        .command_count = 1,
        .argument_count = n,
    };
    int error = RIG_CALL(fd, XDNA_EXEC_CMD, &a);
    *seq = a.seq;
    return error;
}

static inline int rig_wait(int fd, uint32_t context, uint64_t seq, uint32_t ms) {
    struct xdna_wait_cmd a = {.hwctx = context, .timeout = ms, .seq = seq};
    return RIG_CALL(fd, XDNA_WAIT_CMD, &a);
}

// Until a point of a syncobj came, or until an absolute time.
static inline int rig_wait_point(int fd, uint32_t syncobj, uint64_t point, int64_t until) {
    struct xdna_timeline_wait a = {
        .handles = (uint64_t) (uintptr_t) &syncobj,
        .points = (uint64_t) (uintptr_t) &point,
        .timeout_ns = until,
        .count = 1,
    };
    return RIG_CALL(fd, XDNA_SYNCOBJ_TIMELINE_WAIT, &a);
}

// A number of the driver's report.
static inline double rig_reported(const char * key) {
    char line[1024] = " ", word[64];
    FILE * f = fopen(RIG_REPORT, "r");
    assert_non_null(f);
    assert_non_null(fgets(line + 1, sizeof line - 1, f));
    fclose(f);
    snprintf(word, sizeof word, " %s=", key);
    const char * at = strstr(line, word);
    assert_non_null(at);
    return atof(at + strlen(word));
}
