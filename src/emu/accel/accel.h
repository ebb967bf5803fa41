// accel: the amdxdna kernel driver, played inside the process that uses it. A preloaded library
// answers open, ioctl and mmap of /dev/accel/accel0 (preload.c) and runs what is sent there on the
// array machine, so that AMD's own runtime works without a device. What the kernel driver checks is
// checked, what it does not tell is not told: see docs/rocr.md.
//
// Kept true: everything below hangs off one struct accel_device and is touched under its lock, but
// for what a running job owns (its machine, and the bytes of the buffers that it holds).
#pragma once

#include "base/base.h"
#include "emu/aie/machine.h"
#include "amdxdna/uapi.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

#define ACCEL_PAGE       UINT64_C(4096)
#define ACCEL_HEAP_BYTES (UINT64_C(64) << 20) // of one heap buffer, and what its size is counted in
#define ACCEL_HEAP_MAX   (UINT64_C(512) << 20)
#define ACCEL_HEAP_BASE  UINT64_C(0x04000000) // where the device sees it
#define ACCEL_FAKE_BASE  (UINT64_C(1) << 32)  // mmap offsets begin here, as DRM's do

enum {
    ACCEL_MAX_CUS = 32,
    ACCEL_MAX_ARGUMENTS = 4095,
    ACCEL_JOBS = 4, // of a context in flight: as many chain buffers lie in the heap
    ACCEL_RESULTS = 64,
    ACCEL_MAX_FAULTS = 32,
    ACCEL_MAX_HEAPS = 8, // chunks of a file's heap
};

#define ACCEL_KERNELS UINT64_MAX // a setting that is left to the kernel or the device

// ---- kernels.c ----

// A driver that can be played. What it does is in this table; nobody asks for its name.
struct accel_kernel {
    const char * name;
    int major, minor;       // of DRM VERSION
    bool upstream;          // Linux's own; else the module of AMD's package until May 2026
    bool firmware7;         // takes firmware of mailbox protocol 7
    int wait_cmd;           // the error of WAIT_CMD; 0: it waits
    bool get_array;         // has that call
    uint32_t entry_bytes;   // of a context in its answer
    bool sensors;           // and that question
    bool preempt;           // opcodes 21 and 22
    bool npu_command;       // uniform slots of 52 bytes, where the firmware has them
    bool one_buffer_type;   // CMD buffers are SHARE buffers
    uint64_t command_bytes; // of a CMD buffer at most; 0: no limit
    bool heap_grows;        // to 512 MiB on aie2p, chunk by chunk
    int early_piece;        // the error of a DEV buffer before the heap is mapped
    int second_heap;        // and of a heap that is one too many
    bool watchdog;          // ends commands that are stuck
    bool health;            // and says where, where the firmware knows
    bool overwrites;        // the payload of commands that failed
    bool holds_cus;         // a CU stays when its handle is closed
    bool cus_first;         // EXEC_CMD wants a context that has CUs
    bool device_ids;        // ids of contexts are the device's, not a file's
    uint64_t context_ids, chain_bytes, idle_ms;
};

const struct accel_kernel * accel_kernel_find(const char * name); // NULL: none

// ---- settings.c ----

struct accel_model { // a device that can be played
    const char * name;
    const char * product[2]; // sysfs: vbnv, with older firmware and with today's
    unsigned pci, revision;
    enum aie_arch arch;
    unsigned columns, first_column; // in all, and the first one that contexts get
    unsigned machine_columns;       // that the array machine has; 0: it plays no such device
    unsigned contexts[2];           // at a time: with the package's module, with Linux's
    bool whole_array;               // every context has all columns, in turns
    uint64_t heap_max;              // where the kernel lets it grow
    bool health;                    // the firmware knows where a program is stuck
    const char * aie_version;       // as a device has answered it
    const char * firmware[2];       // one of the years before mailbox protocol 7, and today's
    unsigned npu_mhz, h_mhz;
};

struct accel_fault { // one word of ACCEL_EMU_FAIL
    char name[24];
    uint64_t call; // counted from 1
    bool stays;    // from then on
    bool every;    // each call-th
    int error;
};

struct accel_settings {
    const struct accel_kernel * kernel;
    const struct accel_model * model;
    uint64_t heap_bytes, heap_start, heap_align;
    uint64_t chain_bytes, slot_bytes;
    uint64_t odd_args;
    uint64_t wait_ms, watchdog_ms, mhz;
    struct emu_clock clock; // of GGML_HSA_EMU_CLOCK
    uint64_t context_ids, contexts;
    uint64_t cu_padding; // of CONFIG_HWCTX must be 0; ROCr 7.2 leaves it as malloc gave it
    uint64_t idle_ms;    // of rest, after which the array holds nothing
    uint64_t caches;     // between the program and the device
    bool no_caches;      // they were asked for, and cannot be
    uint64_t seed;       // of what happens at random
    uint64_t late_us;    // from EXEC_CMD to when the scheduler first looks at a command
    uint64_t quiet;
    uint64_t modelled_time; // see time.c
    int wait_failed;        // errno, 0: none
    struct accel_fault faults[ACCEL_MAX_FAULTS];
    int n_faults;
    char firmware[32];
    char report[512], trace[512], shared[512];
    bool strict;
};

// From the environment. The error names the variable, and nothing is left half read.
enum status accel_settings_read(struct accel_settings * s, struct error * err);

// ---- ranges.c ----

struct accel_range {
    uint64_t at, size;
};

struct accel_ranges { // which parts of [begin, end) are taken; sorted
    uint64_t begin, end;
    struct accel_range * taken;
    size_t n, max;
};

// The smallest hole that fits, as the kernel's heap does it; false when there is none.
bool accel_ranges_take(struct accel_ranges * r, uint64_t size, uint64_t align, uint64_t * at);
void accel_ranges_give(struct accel_ranges * r, uint64_t at);
void accel_ranges_free(struct accel_ranges * r);

// ---- objects ----

struct accel_bo {
    enum xdna_bo_type type;
    uint64_t size;    // whole pages
    uint64_t at;      // in the file's memory; of DEV: in the heap
    uint8_t * bytes;  // the driver's own mapping
    uint64_t va;      // where the program first mapped it, or XDNA_NO_ADDRESS
    uint64_t heap_at; // of a heap buffer: where it begins in the heap
    int refs;         // handles, mappings, jobs, and DEV buffers of a heap
    int mappings, handles;
    struct accel_file * file; // whose memory it lies in
    uint64_t serial;          // never the same twice
};

struct accel_mapping { // of a buffer into the program's memory
    uint64_t va, size;
    struct accel_bo * bo;
};

struct accel_cu {
    uint32_t handle;
    uint64_t at, size, serial; // of the PDI, in the heap
    struct accel_bo * held;    // NULL: its handle has to stay open
};

struct accel_result {
    uint64_t seq;
    double ms;
    bool failed;
};

struct accel_notice { // an eventfd that waits for a point
    struct accel_notice * next;
    uint64_t point;
    bool available; // or until it is submitted only
    int fd;
};

// What a syncobj leads to. Points of a context's are the numbers of its commands, in their order.
struct accel_timeline {
    int refs;                                   // handles, and its context
    bool has_fence;                             // made as signaled, or a point was added
    uint64_t submitted, ended;                  // points below these
    struct accel_result results[ACCEL_RESULTS]; // by seq
    struct accel_notice * notices;
};

struct accel_context {
    struct accel_context * next;
    struct accel_file * file;
    uint32_t id;
    uint64_t key; // that the array's state is known by
    int entry;    // in the table of all processes; -1: none
    unsigned first_column, columns;
    uint64_t chain_at[ACCEL_JOBS]; // in the heap
    struct accel_cu cus[ACCEL_MAX_CUS];
    unsigned n_cus;
    struct emu_machine * machine; // NULL until a command needs it
    struct accel_job * running;   // whose buffers the machine reaches
    uint64_t aperture;            // that is in the addresses of what runs
    struct accel_timeline * timeline;
    uint64_t errors;
    bool leaving;
};

struct accel_job {
    struct accel_job * next;
    struct accel_context * context;
    uint64_t seq;
    uint64_t sent_ns; // CLOCK_MONOTONIC
    bool aborted;     // one before it was stuck
    struct accel_bo * command;
    uint32_t n_arguments;
    struct accel_bo ** arguments;
};

struct accel_file { // an open file of the device
    struct accel_file * next;
    dev_t dev;
    ino_t ino;  // of the program's descriptor; all that are dup'ed from it have the same
    int memory; // memfd
    int users;  // calls that are in it
    bool closed;
    struct accel_ranges used;   // of memory
    struct accel_bo ** handles; // [0] is none
    uint32_t max_handles;
    struct accel_bo * heaps[ACCEL_MAX_HEAPS]; // chunks, in their order
    unsigned n_heaps;
    uint64_t heap_size;   // of all chunks
    uint64_t heap_kept;   // of the first, and never given out
    uint8_t * heap_bytes; // the driver's own mapping of all of them, one behind the other
    struct accel_ranges heap_used;
    struct accel_context * contexts;
    uint32_t last_context;
    struct accel_timeline ** syncobjs; // by handle; [0] is none
    uint32_t max_syncobjs;
};

struct accel_export { // a buffer that PRIME gave a descriptor
    struct accel_export * next;
    dev_t dev;
    ino_t ino;
    struct accel_bo * bo;
};

struct accel_counts {
    uint64_t execs, commands, contexts, buffers;
    uint64_t longest_chain, most_chain_bytes, most_heap_bytes;
    uint64_t failed, timeouts, refused, faults;
    uint64_t cleared; // times that a context found the array cleared
    uint64_t left_buffers, left_contexts, live_syncobjs;
    uint64_t live_buffers; // handles
    uint64_t
        kept_bytes; // of buffers that no handle leads to, and that stay because they are mapped
    double worst_ms;
};

struct accel_device {
    pthread_mutex_t lock;
    pthread_cond_t changed;         // a job came, ended, or a call left
    struct accel_settings settings; // read when the first file is opened
    struct accel_file * files;
    struct accel_export * exports;
    struct accel_mapping * mappings; // sorted
    size_t n_mappings, max_mappings;
    uint64_t serial;
    struct accel_shared * shared; // with other processes
    bool shared_file;             // and named
    uint64_t last_turn;           // number of this process's last one
    struct emu_cache * cache;     // NULL: there is none between
    struct accel_job * jobs;      // in their order
    bool has_worker;
    bool stuck;  // what runs now never ends
    bool opened; // once in this process
    pid_t pid;
    struct accel_counts counts;
    uint64_t calls[ACCEL_MAX_FAULTS]; // of what each fault names
    FILE * trace;
};

struct accel_call { // an ioctl on its way
    struct accel_device * dev;
    struct accel_file * file;
    const char * name;
    void * arg;      // the driver's copy of the caller's struct
    char words[480]; // what is asked, or why it is refused; for people
};

// ---- device.c ----

struct accel_device * accel_device(void);
// The open file behind a descriptor of the program, or NULL; dev->lock is held.
struct accel_file * accel_file_of(struct accel_device * dev, int fd);
int accel_open(int flags); // a descriptor, or -errno
void accel_close(int fd);  // before it is closed
bool accel_ioctl(int fd, unsigned long request, void * arg, int * result); // false: not ours
// The errno that a fault in the settings wants for this call of `name`, or 0.
int accel_fault(struct accel_device * dev, const char * name);
// Memory of the program, which may not be there.
bool accel_user_read(void * to, uint64_t from, size_t size);
bool accel_user_write(uint64_t to, const void * from, size_t size);

// ---- report.c ----

void accel_say(struct accel_device * dev, const char * fmt, ...)
    BASE_PRINTF(2, 3); // to people, unless quiet
void accel_words(struct accel_call * c, const char * fmt, ...) BASE_PRINTF(2, 3);
// Sets the words and returns -error.
int accel_refuse(struct accel_call * c, int error, const char * fmt, ...) BASE_PRINTF(3, 4);
void accel_trace(struct accel_device * dev, const char * fmt, ...) BASE_PRINTF(2, 3);
void accel_report(struct accel_device * dev); // rewrites the report's file, where there is one

// ---- buffers.c ----

int accel_create_bo(struct accel_call * c);
int accel_get_bo_info(struct accel_call * c);
int accel_sync_bo(struct accel_call * c);
int accel_gem_close(struct accel_call * c);
struct accel_bo * accel_bo_get(const struct accel_file * f, uint32_t handle); // NULL: none
uint32_t accel_handle_new(struct accel_device * dev, struct accel_file * f,
                          struct accel_bo * bo); // 0: no memory
void accel_bo_put(struct accel_device * dev, struct accel_bo * bo);
bool accel_is_command(const struct accel_device * dev, const struct accel_bo * bo);
// A part of the heap for `what`, in *at, or a refusal.
int accel_heap_take(struct accel_call * c, uint64_t size, const char * what, uint64_t * at);
void accel_file_drop_buffers(struct accel_device * dev, struct accel_file * f);

// ---- mappings.c ----

// Like mmap of a descriptor that is ours; -errno through *error.
bool accel_mmap(void * addr, size_t size, int prot, int flags, int fd, uint64_t offset, void ** out,
                int * error);
void accel_unmap(uint64_t va, uint64_t size); // before the program's memory there goes away
const struct accel_mapping * accel_mapping_of(const struct accel_device * dev, uint64_t va);
// The same, or the next one above.
const struct accel_mapping * accel_mapping_from(const struct accel_device * dev, uint64_t va);
int accel_prime_export(struct accel_call * c);
int accel_prime_import(struct accel_call * c);

// ---- contexts.c ----

int accel_create_hwctx(struct accel_call * c);
int accel_destroy_hwctx(struct accel_call * c);
int accel_config_hwctx(struct accel_call * c);
struct accel_context * accel_context_get(const struct accel_file * f, uint32_t id);
uint64_t accel_context_count(const struct accel_device * dev);
// Waits until its jobs ended; the lock is released meanwhile.
void accel_context_free(struct accel_device * dev, struct accel_context * x);

// ---- shared.c ----

enum accel_place { // what became of a new context
    ACCEL_PLACE_OK,
    ACCEL_PLACE_NO_COLUMNS,
    ACCEL_PLACE_NO_CONTEXT,
    ACCEL_PLACE_NO_ID,
};

int accel_shared_open(struct accel_device * dev); // 0 or -errno
uint64_t accel_shared_count(struct accel_device * dev);
// Gives it columns, a place in the table and, where ids are the device's, an id.
enum accel_place accel_shared_add(struct accel_device * dev, struct accel_context * x);
void accel_shared_remove(struct accel_device * dev, const struct accel_context * x);
void accel_shared_tell(struct accel_device * dev, const struct accel_context * x); // its numbers
size_t accel_shared_list(struct accel_device * dev, struct xdna_context_entry * out, size_t max);
// The device is this context's until the turn ends; the lock is released meanwhile. False: what
// the array held for it is gone.
bool accel_turn_begin(struct accel_device * dev, struct accel_context * x);
void accel_turn_end(struct accel_device * dev);
uint32_t * accel_shared_power(struct accel_device * dev);
bool accel_shared_busy(const struct accel_device * dev); // had work in the last second
struct xdna_last_error * accel_shared_error(struct accel_device * dev);

// ---- caches.c ----

int accel_caches_open(struct accel_device * dev); // 0 or -errno
bool accel_caches_inside(void);                   // this thread is in it and has the lock
int accel_caches_add(struct accel_call * c, struct accel_bo * bo);
void accel_caches_remove(struct accel_device * dev, struct accel_bo * bo);
void accel_caches_evict(struct accel_device * dev);
void accel_caches_flush(struct accel_device * dev, const uint8_t * bytes, uint64_t size);
uint64_t accel_caches_flushed(const struct accel_device * dev);
// Where the device finds bytes of a buffer.
void * accel_device_memory(struct accel_device * dev, uint8_t * bytes, size_t size);

// ---- syncobj.c ----

struct accel_timeline * accel_timeline_new(void);
void accel_timeline_put(struct accel_timeline * t);
// A handle for it, which holds it; 0: no memory.
uint32_t accel_syncobj_new(struct accel_device * dev, struct accel_file * f,
                           struct accel_timeline * t);
void accel_timeline_tell(struct accel_timeline * t); // eventfds whose point has come
void accel_file_drop_syncobjs(struct accel_device * dev, struct accel_file * f);
int accel_syncobj_create(struct accel_call * c);
int accel_syncobj_destroy(struct accel_call * c);
int accel_timeline_wait(struct accel_call * c);
int accel_syncobj_query(struct accel_call * c);
int accel_syncobj_eventfd(struct accel_call * c);

// ---- commands.c ----

int accel_exec_cmd(struct accel_call * c);
int accel_wait_cmd(struct accel_call * c);

// ---- slots.c ----

struct accel_slot { // of the chain buffer
    uint32_t opcode, cu;
    uint64_t insts, save, restore; // device addresses, of opcodes 20 to 22
    uint32_t insts_bytes, save_bytes, restore_bytes, properties;
    uint32_t n_args;
    uint32_t args[];
};

// What one job came to.
struct accel_outcome {
    enum xdna_state state; // XDNA_STATE_NEW: the driver dropped it, and reports that to nobody
    uint32_t index;        // of the command that failed
    uint32_t operation;    // of its stream, where it is stuck
    double ms;
    uint64_t commands, chain_bytes;
    char why[512];
};

struct accel_slots {
    struct accel_device * dev;
    struct accel_job * job;
    struct accel_outcome * out;
    struct accel_slot ** slots;
    uint32_t n;
};

// Copies the job's commands; false: the job is dropped. The lock is held.
bool accel_slots_read(struct accel_slots * k);
void accel_slots_free(struct accel_slots * k);
bool accel_lose(struct accel_outcome * out, enum xdna_state state, const char * fmt, ...)
    BASE_PRINTF(3, 4); // false

// ---- firmware.c ----

// Runs a job. The lock is held on entry and return, and released while the machine runs.
void accel_firmware_run(struct accel_device * dev, struct accel_job * job,
                        struct accel_outcome * out);

// ---- time.c ----

void accel_time_begin(bool modelled);
void accel_time_pass(uint64_t ns); // that the device has taken
int accel_time_get(clockid_t id, struct timespec * out);

// ---- queries.c ----

int accel_version(struct accel_call * c);
int accel_get_info(struct accel_call * c);
int accel_get_array(struct accel_call * c);
int accel_set_state(struct accel_call * c);

// ---- nodes.c: the paths that the driver makes ----

enum accel_node_kind {
    ACCEL_NODE_DIR,
    ACCEL_NODE_TEXT,
    ACCEL_NODE_LINK,
    ACCEL_NODE_DEVICE, // the NPU
    ACCEL_NODE_NULL,   // a device that is there and does nothing
};

struct accel_node {
    const char * path;
    enum accel_node_kind kind;
    const char * text; // of TEXT and LINK; NULL: it depends on the device
};

const struct accel_node * accel_node_find(const char * path); // NULL: not ours
// The i-th entry of a directory, its name in *name, or NULL.
const struct accel_node * accel_node_entry(const struct accel_node * dir, size_t i,
                                           const char ** name);
unsigned accel_node_mode(const struct accel_node * n);       // as st_mode
int accel_node_open(const struct accel_node * n, int flags); // a descriptor, or -errno

// ---- libc.c ----

// libc's own functions, which this library stands before.
#define ACCEL_LIBC(X)                                                                              \
    X(int, open, (const char *, int, ...))                                                         \
    X(int, openat, (int, const char *, int, ...))                                                  \
    X(int, clock_gettime, (clockid_t, struct timespec *) )                                         \
    X(int, close, (int) )                                                                          \
    X(int, ioctl, (int, unsigned long, ...))                                                       \
    X(void *, mmap, (void *, size_t, int, int, int, off_t))                                        \
    X(int, munmap, (void *, size_t))                                                               \
    X(void *, mremap, (void *, size_t, size_t, int, ...))                                          \
    X(FILE *, fopen, (const char *, const char *) )                                                \
    X(int, access, (const char *, int) )                                                           \
    X(int, faccessat, (int, const char *, int, int) )                                              \
    X(ssize_t, readlink, (const char *, char *, size_t))                                           \
    X(ssize_t, readlinkat, (int, const char *, char *, size_t))                                    \
    X(int, stat, (const char *, struct stat *) )                                                   \
    X(int, lstat, (const char *, struct stat *) )                                                  \
    X(int, fstatat, (int, const char *, struct stat *, int) )                                      \
    X(int, statx, (int, const char *, int, unsigned, struct statx *) )                             \
    X(DIR *, opendir, (const char *) )                                                             \
    X(struct dirent *, readdir, (DIR *) )                                                          \
    X(int, closedir, (DIR *) )

struct accel_libc {
#define ACCEL_LIBC_FIELD(type, name, args) type(*name) args;
    ACCEL_LIBC(ACCEL_LIBC_FIELD)
#undef ACCEL_LIBC_FIELD
};

const struct accel_libc * accel_libc(void);
