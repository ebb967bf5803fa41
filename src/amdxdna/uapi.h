// uapi: what programs and the amdxdna kernel driver say to each other through ioctl. The layouts
// are facts of Linux; the names and words are ours, because Debian 12's kernel headers do not have
// them. Every layout is held by its size and by the offsets that padding could move.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

enum {
    XDNA_IOCTL_TYPE = 'd',

    // of all DRM drivers
    XDNA_VERSION = 0x00,
    XDNA_GEM_CLOSE = 0x09,
    XDNA_PRIME_HANDLE_TO_FD = 0x2d,
    XDNA_PRIME_FD_TO_HANDLE = 0x2e,
    XDNA_SYNCOBJ_CREATE = 0xbf,
    XDNA_SYNCOBJ_DESTROY = 0xc0,
    XDNA_SYNCOBJ_TIMELINE_WAIT = 0xca,
    XDNA_SYNCOBJ_QUERY = 0xcb,
    XDNA_SYNCOBJ_EVENTFD = 0xcf,

    // of this one
    XDNA_CREATE_HWCTX = 0x40,
    XDNA_DESTROY_HWCTX,
    XDNA_CONFIG_HWCTX,
    XDNA_CREATE_BO,
    XDNA_GET_BO_INFO,
    XDNA_SYNC_BO,
    XDNA_EXEC_CMD,
    XDNA_GET_INFO,
    XDNA_SET_STATE,
    XDNA_WAIT_CMD,
    XDNA_GET_ARRAY,
};

#define XDNA_IOCTL(nr, type) _IOWR(XDNA_IOCTL_TYPE, nr, type)

#define XDNA_NO_ADDRESS UINT64_MAX

struct xdna_version {
    int32_t major, minor, patch;
    uint64_t name_size, name; // in: room; out: length
    uint64_t date_size, date;
    uint64_t description_size, description;
};
_Static_assert(sizeof(struct xdna_version) == 64, "uapi");
_Static_assert(offsetof(struct xdna_version, name_size) == 16, "uapi");

struct xdna_gem_close {
    uint32_t handle, pad;
};
_Static_assert(sizeof(struct xdna_gem_close) == 8, "uapi");

struct xdna_prime {
    uint32_t handle, flags;
    int32_t fd;
};
_Static_assert(sizeof(struct xdna_prime) == 12, "uapi");

// ---- syncobjs: a context's timeline ----

struct xdna_syncobj { // create, destroy
    uint32_t handle, flags;
};
_Static_assert(sizeof(struct xdna_syncobj) == 8, "uapi");

struct xdna_timeline_wait {
    uint64_t handles, points; // addresses of `count` u32 and u64
    int64_t timeout_ns;       // CLOCK_MONOTONIC, absolute; 0: look only
    uint32_t count, flags;
    uint32_t first_signaled; // out
    uint32_t pad;
    uint64_t deadline_ns; // newer kernels; older ones end before it
};
_Static_assert(sizeof(struct xdna_timeline_wait) == 48, "uapi");
_Static_assert(offsetof(struct xdna_timeline_wait, deadline_ns) == 40, "uapi");

struct xdna_timeline_query {
    uint64_t handles, points; // points: out
    uint32_t count, flags;
};
_Static_assert(sizeof(struct xdna_timeline_query) == 24, "uapi");

struct xdna_syncobj_eventfd {
    uint32_t handle, flags;
    uint64_t point;
    int32_t fd;
    uint32_t pad;
};
_Static_assert(sizeof(struct xdna_syncobj_eventfd) == 24, "uapi");

// ---- buffers ----

enum xdna_bo_type {
    XDNA_BO_SHARE = 1, // host memory that the device reaches too
    XDNA_BO_HEAP = 2,  // one for each open file: where DEV buffers come from
    XDNA_BO_DEV = 3,   // a piece of the heap: PDIs and instruction streams
    XDNA_BO_CMD = 4,   // commands
};

struct xdna_create_bo {
    uint64_t flags; // 0
    uint64_t vaddr; // 0, or a table of user memory
    uint64_t size;
    uint32_t type;
    uint32_t handle; // out
};
_Static_assert(sizeof(struct xdna_create_bo) == 32, "uapi");

struct xdna_get_bo_info {
    uint64_t ext, ext_flags; // 0
    uint32_t handle, pad;
    uint64_t map_offset; // out: what mmap takes; none for DEV
    uint64_t vaddr;      // out: where it is mapped
    uint64_t xdna_addr;  // out: where the device sees it
};
_Static_assert(sizeof(struct xdna_get_bo_info) == 48, "uapi");

enum { XDNA_SYNC_TO_DEVICE = 0, XDNA_SYNC_FROM_DEVICE = 1 };

struct xdna_sync_bo {
    uint32_t handle, direction;
    uint64_t offset, size;
};
_Static_assert(sizeof(struct xdna_sync_bo) == 24, "uapi");

// ---- contexts ----

struct xdna_qos {
    uint32_t gops, fps, dma_bandwidth, latency, frame_exec_time, priority;
};
_Static_assert(sizeof(struct xdna_qos) == 24, "uapi");

struct xdna_create_hwctx {
    uint64_t ext, ext_flags; // 0
    uint64_t qos;            // address of struct xdna_qos
    uint32_t umq_bo, log_buf_bo;
    uint32_t max_opc;
    uint32_t num_tiles;
    uint32_t mem_size;
    uint32_t umq_doorbell; // out
    uint32_t handle;       // out
    uint32_t syncobj;      // out
};
_Static_assert(sizeof(struct xdna_create_hwctx) == 56, "uapi");

struct xdna_destroy_hwctx {
    uint32_t handle, pad;
};
_Static_assert(sizeof(struct xdna_destroy_hwctx) == 8, "uapi");

enum { XDNA_CONFIG_CU = 0, XDNA_CONFIG_ATTACH_DEBUG = 1, XDNA_CONFIG_DETACH_DEBUG = 2 };

struct xdna_config_hwctx {
    uint32_t handle, type;
    uint64_t value; // of CONFIG_CU: address of struct xdna_cus
    uint32_t size, pad;
};
_Static_assert(sizeof(struct xdna_config_hwctx) == 24, "uapi");

struct xdna_cu {
    uint32_t bo; // a PDI
    uint8_t function, pad[3];
};

struct xdna_cus {
    uint16_t count, pad[3];
    struct xdna_cu cus[];
};
_Static_assert(sizeof(struct xdna_cu) == 8 && offsetof(struct xdna_cus, cus) == 8, "uapi");

// ---- commands ----

enum { XDNA_SUBMIT_COMMAND = 0, XDNA_SUBMIT_DEPENDENCY = 1, XDNA_SUBMIT_SIGNAL = 2 };

struct xdna_exec_cmd {
    uint64_t ext, ext_flags; // 0
    uint32_t hwctx, type;
    uint64_t commands;  // the handle of the one command
    uint64_t arguments; // address of argument_count handles
    uint32_t command_count, argument_count;
    uint64_t seq; // out
};
_Static_assert(sizeof(struct xdna_exec_cmd) == 56, "uapi");

struct xdna_wait_cmd {
    uint32_t hwctx;
    uint32_t timeout; // ms; 0: for ever
    uint64_t seq;
};
_Static_assert(sizeof(struct xdna_wait_cmd) == 16, "uapi");

// The words of a command buffer: a header, then data.
#define XDNA_COMMAND_STATE(h)  ((h) &0xf)
#define XDNA_COMMAND_MASKS(h)  ((h) >> 10 & 3)     // CU masks beyond the first
#define XDNA_COMMAND_COUNT(h)  ((h) >> 12 & 0x7ff) // words of data
#define XDNA_COMMAND_OPCODE(h) ((h) >> 23 & 0x1f)
#define XDNA_COMMAND(opcode, count)                                                                \
    (XDNA_STATE_NEW | (uint32_t) (count) << 12 | (uint32_t) (opcode) << 23)

enum {
    XDNA_OP_START_CU = 0,
    XDNA_OP_CHAIN = 19,
    XDNA_OP_START_NPU = 20,
    XDNA_OP_START_NPU_PREEMPT = 21,
    XDNA_OP_START_NPU_PREEMPT_ELF = 22,
};

enum xdna_state {
    XDNA_STATE_NEW = 1,
    XDNA_STATE_COMPLETED = 4,
    XDNA_STATE_ERROR = 5,
    XDNA_STATE_ABORT = 6,
    XDNA_STATE_TIMEOUT = 8,
};

// What a command that ran into the driver's watchdog has behind its header, with firmware that
// tells.
struct xdna_health {
    uint32_t version, app; // 1, 0
    uint32_t operation;    // of the stream, by index
    uint32_t context_pc, fatal_type, exception_type, exception_pc, module;
};
_Static_assert(sizeof(struct xdna_health) == 32, "uapi");

struct xdna_chain { // the data of XDNA_OP_CHAIN
    uint32_t count, submit_index, error_index, reserved[3];
    uint64_t handles[];
};
_Static_assert(sizeof(struct xdna_chain) == 24, "uapi");

// The data of XDNA_OP_START_CU: a mask of CUs, and arguments for the firmware.
enum {
    XDNA_ARG_OPCODE = 0, // two words: 3, 0 for an instruction stream
    XDNA_ARG_INSTS = 2,  // device address, low and high
    XDNA_ARG_N_INSTS = 4,
    XDNA_ARG_OPERANDS = 5, // addresses, low and high each
    XDNA_KERNEL_STREAM = 3,
};

// The data of XDNA_OP_START_NPU behind its mask: a stream that the host has patched, and arguments
// of which the first is XDNA_KERNEL_STREAM.
struct xdna_start_npu {
    uint64_t insts; // device address
    uint32_t insts_bytes, properties;
    uint32_t args[];
};
_Static_assert(sizeof(struct xdna_start_npu) == 16, "uapi");

// And of XDNA_OP_START_NPU_PREEMPT and _ELF, which has no arguments.
struct xdna_start_preempt {
    uint64_t insts, save, restore; // device addresses; 0: none
    uint32_t insts_bytes, save_bytes, restore_bytes, properties;
    uint32_t args[];
};
_Static_assert(sizeof(struct xdna_start_preempt) == 40, "uapi");

// What the host adds to an address that it writes into a descriptor of the shim itself: where that
// tile sees memory.
#define XDNA_SHIM_APERTURE UINT64_C(0x80000000)

enum { XDNA_ELF_ALIGN = 16 << 10 }; // of the control code of START_NPU_PREEMPT_ELF

// ---- questions ----

struct xdna_get_info {
    uint32_t param, size;
    uint64_t buffer;
};
_Static_assert(sizeof(struct xdna_get_info) == 16, "uapi");

struct xdna_get_array {
    uint32_t param, element_size, elements, pad;
    uint64_t buffer;
};
_Static_assert(sizeof(struct xdna_get_array) == 24, "uapi");

enum {
    XDNA_QUERY_STATUS = 0,
    XDNA_QUERY_METADATA = 1,
    XDNA_QUERY_AIE_VERSION = 2,
    XDNA_QUERY_CLOCKS = 3,
    XDNA_QUERY_SENSORS = 4,
    XDNA_QUERY_CONTEXTS = 5,
    XDNA_QUERY_FIRMWARE = 8,
    XDNA_QUERY_POWER_MODE = 9,
    XDNA_QUERY_RESOURCES = 12,

    XDNA_ARRAY_CONTEXTS = 0,
    XDNA_ARRAY_LAST_ERROR = 2,
};

struct xdna_tiles {
    uint16_t rows, first_row, dma_channels, locks, events, pad[3];
};

struct xdna_metadata {
    uint32_t column_size;
    uint16_t columns, rows;
    uint32_t major, minor;
    struct xdna_tiles core, mem, shim;
};
_Static_assert(sizeof(struct xdna_metadata) == 64, "uapi");

struct xdna_clock {
    char name[16];
    uint32_t mhz, pad;
};

struct xdna_clocks {
    struct xdna_clock npu, h;
};
_Static_assert(sizeof(struct xdna_clocks) == 48, "uapi");

struct xdna_context_info {
    uint32_t id, first_column, columns, pad;
    int64_t pid;
    uint64_t submissions, completions, migrations, preemptions, errors;
};
_Static_assert(sizeof(struct xdna_context_info) == 64, "uapi");

// An entry of GET_ARRAY; drivers fill as much of it as they know.
struct xdna_context_entry {
    uint32_t id, first_column, columns, firmware_id;
    int64_t pid;
    uint64_t submissions, completions, migrations, preemptions, errors;
    uint64_t priority, heap_bytes, suspensions;
    uint32_t state, pasid; // state 0: idle, 1: active
    uint32_t gops, fps, dma_bandwidth, latency, frame_exec_time;
    uint32_t operation, context_pc, fatal_type, exception_type, exception_pc, module, pad;
    uint64_t reserved[2];
};
_Static_assert(sizeof(struct xdna_context_entry) == 160, "uapi");
_Static_assert(offsetof(struct xdna_context_entry, state) == 88, "uapi");

struct xdna_last_error {
    uint64_t code, time_us, extra;
};

struct xdna_sensor {
    char label[64];
    uint32_t input, max, average, highest;
    char status[64], units[16];
    int8_t exponent; // of ten
    uint8_t type;    // 0: power, 1: column use, 2: temperature
    uint8_t pad[6];
};
_Static_assert(sizeof(struct xdna_sensor) == 168, "uapi");

struct xdna_resources {
    uint64_t clock_max, tops_max, tasks_max, tops, tasks;
};
_Static_assert(sizeof(struct xdna_resources) == 40, "uapi");
