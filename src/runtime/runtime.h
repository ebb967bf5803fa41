// runtime: what the files of our HSA runtime share. Handles that leave the library are
// addresses of the structs below; each one that comes back is looked up before it is believed, so a
// stale or foreign handle gives an error code, never a crash.
//
// Locks, in the order in which they may be taken: agent->lock (the machine and its queues), then
// code.lock, then a queue's own in emu/aql, the lock of waits in signals.c, a worker's lock, and
// memory.lock or signals.lock. No callback of the user runs under a lock.
#pragma once

#include "amdxdna/amdxdna.h"
#include "base/base.h"
#include "emu/aie/machine.h"
#include "emu/aql/aql.h"
#include "emu/cache/cache.h"
#include "emu/gfx/models.h"
#include "base/ranges.h"

#include <hsa/hsa.h> // LITTLEENDIAN_CPU comes with the target hsa_headers
#include <hsa/hsa_ext_amd.h>
#include <hsa/amd_hsa_queue.h>
#include <hsa/amd_hsa_signal.h>
#include <pthread.h>

_Static_assert(sizeof(amd_signal_t) == 64 && offsetof(amd_signal_t, value) == 8, "tools peek here");
_Static_assert(offsetof(amd_queue_t, write_dispatch_id) == 56, "tools peek here");
_Static_assert(offsetof(amd_queue_t, read_dispatch_id) == 128, "tools peek here");

enum {
    RT_DEVICE_AIE = 3, // HSA_DEVICE_TYPE_AIE, which the 5.2 header lacks
    RT_PAGE = 4096,    // granule and alignment of every pool
    RT_DEV_HEAP_BYTES = 64 << 20,
    RT_AIE_QUEUE_PACKETS = 64,
    RT_MAX_AGENTS = 9, // the CPU and eight more
    RT_MAX_POOLS = 3,
    RT_GPU_QUEUES_MAX = 128,
    RT_GPU_QUEUE_MIN = 64, // packets
    RT_GPU_QUEUE_MAX = 131072,
    RT_GPU_COPY_ENGINES = 2,
    RT_GARBAGE = 0xff, // what strict memory begins with: NaNs
    RT_GARBAGE_MAX = 64 << 20,
};

// Before the prototype of a function that is newer than the 5.2 header, with the name that leaves
// the library. Newer headers declare it as well, with types that ours do not have.
#define RT_NEWER(name) __asm__(#name)

#ifndef RT_AIE_QUEUES_MAX
#    define RT_AIE_QUEUES_MAX 1 // as many as the real runtime allows
#endif

// AMD's codes are members of another enum.
#define RT_STATUS_INVALID_POOL ((hsa_status_t) HSA_STATUS_ERROR_INVALID_MEMORY_POOL)
#define RT_STATUS_ILLEGAL      ((hsa_status_t) HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION)
#define RT_STATUS_MEMORY_FAULT ((hsa_status_t) HSA_STATUS_ERROR_MEMORY_FAULT)

struct rt_agent;
struct rt_runtime;

struct rt_pool {
    struct rt_agent * agent;
    uint32_t segment;     // HSA_AMD_SEGMENT_*; only global ones can be allocated from
    uint32_t flags;       // HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_*
    uint32_t rec_granule; // 0 marks the device heap; clients find it by that
    uint64_t size;
    uint64_t used;  // under memory.lock
    uint8_t * heap; // the device heap's 64 MiB, aligned to 64 MiB; NULL in other pools
};

// A kind of NPU, as ROCr would describe it.
struct rt_model {
    const char * name;   // of the agent: its architecture
    const char * device; // as the driver calls it
    const char * product;
    enum aie_arch arch;
    int columns;
};

struct rt_queue {
    amd_queue_t amd; // the handle points here
    amd_signal_t * doorbell;
    struct rt_agent * agent;
    struct rt_queue * next;
    uint8_t * ring;
    void (*callback)(hsa_status_t, hsa_queue_t *, void *);
    void * callback_data;
    hsa_status_t error; // not SUCCESS: suspended, later packets are not executed; under agent->lock
    uint32_t
        context; // id of its hardware context; 0: it has none. Kept with ROCr 7.2's faults alone

    bool has_context; // of a NPU: its time is in the account
    struct aql * aql; // what runs the packets of a GPU's queue; NULL: a NPU's
};

struct rt_agent {
    struct rt_runtime * rt;
    uint32_t device;                  // HSA_DEVICE_TYPE_*
    const struct rt_model * model;    // of a NPU, or NULL
    int columns;                      // that it has of them
    const struct emu_gpu_model * gpu; // of a GPU, or NULL
    uint32_t node;
    char name[64];
    char product[64];
    struct rt_pool pools[RT_MAX_POOLS];
    int n_pools;

    pthread_mutex_t lock;
    struct rt_native * native;    // a NPU of this machine; NULL: an emulated one, or none
    struct emu_machine * machine; // of an emulated one, made by the first dispatch
    struct emu_cache * cache;     // of the host, as this NPU meets it; NULL: it snoops
    uint64_t flushed;             // bytes by the program that are not in the account yet; atomic
    struct emu_counters
        recent[RT_AIE_QUEUE_PACKETS + 1];   // after dispatch n, at n modulo their number
    char * names[RT_AIE_QUEUE_PACKETS + 1]; // of dispatches to come, likewise (timeline.c)
    struct gfx * gfx;                       // likewise
    struct rt_launches * launches;          // of its kernels (launches.c); NULL: none yet
    struct rt_rocr72 * rocr72;              // likewise, with its faults
    bool ringing;                           // packets are being read; atomic
    uint32_t hdp[2]; // what stands for the registers that flush the host data path
    struct rt_queue * queues;
    struct rt_queue * orphans; // destroyed by their own threads, freed at the end
    int n_queues;
    uint64_t n_doorbells, n_queues_created, n_errors;
    char error[sizeof((struct error *) 0)->text];
};

struct rt_memory {
    pthread_rwlock_t lock;
    struct ranges blocks; // every live allocation; value is a struct rt_block
    struct rt_lock {      // memory of the host that agents may use; these may overlap
        uint64_t base, size;
        uint64_t alias; // where GPUs see it: elsewhere, as with ROCr; 0: at the same place
        uint32_t count;
        void * user_data;
    } * locks;
    size_t n_locks, locks_capacity;
    struct ranges reserved; // addresses without memory; value is a struct reservation, see vmem.c
    struct rt_handle * handles;
};

enum rt_block_kind {
    RT_BLOCK_POOL,
    RT_BLOCK_CODE,   // of an executable
    RT_BLOCK_RING,   // of a queue; belongs to it
    RT_BLOCK_MAPPED, // memory of a handle behind reserved addresses; reached by those granted it
                     // alone
};

struct rt_block {
    enum rt_block_kind kind;
    struct rt_pool * pool; // NULL when it is none
    struct rt_agent * agent;
    uint8_t * host;    // where the bytes are, when they are not at the block's addresses; else NULL
    uint8_t * memory;  // where a NPU finds them, behind the host's caches; NULL: there are none
    uint32_t access;   // bit i: agent i was granted access
    uint32_t no_write; // bit i: to agent i for reading alone
    void * user_data;
    struct rt_handle * handle;    // of what is mapped
    struct amdxdna_buffer native; // of a NPU of this machine
    struct {                      // share.c
        uint64_t dev, ino;        // of the descriptor; 0: there was none
        uint32_t to;              // bit i: mapped for agent i
    } exported;
    // Parts of a code object that kernels must not write, as offsets.
    struct {
        uint64_t from, to;
    } readonly[16];
    int n_readonly;
};

struct rt_signals {
    pthread_rwlock_t lock;
    struct ranges live; // amd_signal_t, value is the queue of a doorbell or NULL
};

// A thread with things to do, each when it is ready; worker.c. Started by the first of them.
struct rt_worker {
    struct rt_runtime * rt;
    pthread_t thread;
    bool running, stop;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct rt_task *first, **last;
};

struct rt_task {
    struct rt_task * next;
    // Looks, without changing anything, whether run may be called now.
    bool (*ready)(struct rt_runtime * rt, const struct rt_task * task);
    // True: it stays and waits to be ready again.
    bool (*run)(struct rt_runtime * rt, struct rt_task * task);
    void (*drop)(struct rt_task * task); // frees it
};

struct rt_code {
    pthread_mutex_t lock;
    struct rt_reader * readers;
    struct rt_executable * executables;
};

struct rt_runtime {
    uint32_t references; // under the lock in runtime.c
    struct rt_agent agents[RT_MAX_AGENTS];
    int n_agents;
    struct rt_memory memory;
    struct rt_signals signals;
    struct rt_code code;
    struct rt_worker events;                       // handlers of signals
    struct rt_worker copies;                       // that wait for signals
    hsa_amd_system_event_callback_t event_handler; // under the lock of agents[0]
    void * event_data;
    bool rocr_bugs;   // ROCr 7.2 with its faults
    bool strict;      // everything that hardware may do it does: see GGML_HSA_EMU_STRICT
    bool modelled;    // timestamps are modelled time
    uint64_t born_ns; // rt_now_ns of hsa_init
    int wait_limit_s; // that a dispatch of a NPU may take; 0: no limit but that of its cycles
    uint64_t caches;  // the seed of the caches between host and NPUs; 0: as if there were none
    bool rests;       // the array forgets everything between two doorbells
    int trace_col, trace_row;
    struct rt_timeline * timeline; // NULL: nobody asked
};

// runtime.c: the initialised runtime, or NULL.
struct rt_runtime * rt_runtime(void);
struct rt_agent * rt_agent_find(hsa_agent_t handle);
struct rt_pool * rt_pool_find(hsa_amd_memory_pool_t handle);
uint64_t rt_now_ns(void);
// account.c: what HSA calls the time: the host's, or where GGML_HSA_EMU_TIME=modelled asks for it
// what the emulated NPUs have taken since hsa_init. The lock of `locked`, which may be NULL, is
// held.
uint64_t rt_time_ns(struct rt_runtime * rt, struct rt_agent * locked);

// One line to stderr, behind "hsa-npu: ".
void rt_say(const char * fmt, ...) BASE_PRINTF(1, 2);

// host.c: the machine that we run on.
void rt_host_cpu_name(char name[64]);
uint64_t rt_host_memory(void);
uint32_t rt_host_clock_mhz(void);
// Whether memory of the process is there, mapped throughout and readable at both ends; size is at
// least 1 and does not wrap.
bool rt_host_has(uint64_t addr, uint64_t size);

// agents.c
enum status rt_agents_init(struct rt_runtime * rt, struct error * err);
void rt_pool_add(struct rt_agent * agent, uint32_t segment, uint32_t flags, uint32_t rec_granule,
                 uint64_t size);

// gpu-agents.c
void rt_gpu_setup(struct rt_agent * agent, const struct emu_gpu_model * model);
// False: this attribute is not answered in another way than by other agents.
bool rt_gpu_info(const struct rt_agent * agent, uint32_t attribute, void * value);

// memory.c
bool rt_memory_init(struct rt_runtime * rt);
// True when a buffer of the agent's lies above addr.
bool rt_memory_has_above(struct rt_runtime * rt, const struct rt_agent * agent, uint64_t addr);
void rt_memory_release(struct rt_runtime * rt);
// The allocation or locked memory around addr that this agent and the host can reach, or false. Any
// of the results may be NULL; *pool is NULL for what comes from no pool.
bool rt_memory_find(struct rt_runtime * rt, const struct rt_agent * agent, uint64_t addr,
                    struct rt_pool ** pool, uint64_t * base, uint64_t * size);
// Where the len bytes at addr, as agents see them, lie on the host; NULL: the agent cannot reach
// them. user is the agent: the machines call this.
void * rt_memory_resolve(void * user, uint64_t addr, uint64_t len, bool write);
// True for addresses of the runtime's own: of an allocation, whoever reaches it, or reserved.
bool rt_memory_is_ours(struct rt_runtime * rt, uint64_t addr);
// Fresh pages of an agent outside any pool, with a block of the given kind; NULL: no memory. The
// caller sets the rest of the block before anyone else knows the address.
void * rt_memory_map(struct rt_agent * agent, enum rt_block_kind kind, size_t size,
                     struct rt_block ** block);
void rt_memory_unmap(struct rt_runtime * rt, void * ptr);
// The next two under memory.lock. Memory of the host that was locked around addr, as the host or as
// GPUs see it; NULL: none.
struct rt_lock * rt_memory_locked(const struct rt_memory * m, uint64_t addr);
bool rt_memory_reaches(const struct rt_agent * agent, const struct rt_block * block);

// vmem.c: whether there is any: GPUs have it.
bool rt_vmem_supported(const struct rt_runtime * rt);
// Addresses with nothing behind them on the host; under memory.lock.
bool rt_vmem_reserved(const struct rt_memory * m, uint64_t addr);
void rt_vmem_release(struct rt_memory * m); // at the end, when no block is left

// signals.c
bool rt_signals_init(struct rt_runtime * rt);
void rt_signals_release(struct rt_runtime * rt);
amd_signal_t * rt_signal_new(struct rt_runtime * rt, int64_t value, struct rt_queue * queue);
void rt_signal_free(struct rt_runtime * rt, amd_signal_t * signal);
bool rt_signal_is_live(struct rt_runtime * rt, hsa_signal_t handle); // and no doorbell
// The value of a live signal; false: it is gone.
bool rt_signal_peek(struct rt_runtime * rt, hsa_signal_t handle, int64_t * value);
bool rt_signal_covers(struct rt_runtime * rt, uint64_t addr, uint64_t len);
// Takes 1 from a live signal and wakes its waiters; does nothing when it is gone. The times are
// kept for profilers when end is not 0.
void rt_signal_complete(struct rt_runtime * rt, hsa_signal_t handle, uint64_t start, uint64_t end);
void rt_signals_wake(void);
// Sleeps until ready says so. It is called now and then, and after each change of a signal.
void rt_signals_sleep(bool (*ready)(void * user), void * user);

// worker.c
bool rt_worker_init(struct rt_worker * w, struct rt_runtime * rt);
void rt_worker_release(struct rt_worker * w); // waits for the running task and drops the others
bool rt_worker_add(struct rt_worker * w, struct rt_task * task); // false: no thread

// launches.c: after each kernel of a GPU.
void rt_launch_note(struct rt_agent * agent, const hsa_kernel_dispatch_packet_t * p);

// account.c: after each dispatch; the agent's lock is held.
void rt_account_note(struct rt_agent * agent);

// caches.c: what GGML_HSA_EMU_CACHES asks for.
uint64_t rt_caches_asked(bool fallback);
// Under memory.lock: a block of a NPU came, or goes. False: no memory.
bool rt_caches_add(struct rt_block * block, void * host, size_t size);
void rt_caches_remove(struct rt_block * block, void * host);
// The next three with the agent's lock held. Where a NPU finds bytes of the program's, which lie in
// one allocation.
const void * rt_caches_memory(const struct rt_agent * agent, const void * at, uint64_t size);
void rt_caches_charge(struct rt_agent * agent); // what the program flushed, to the account
struct rt_dispatch;
// What ROCr flushes before a dispatch, and again after it: what each operand declares.
void rt_caches_operands(struct rt_agent * agent, const struct rt_dispatch * d);

// queues.c
void rt_queue_ring(struct rt_queue * queue);
void rt_queues_release(struct rt_runtime * rt, struct rt_agent * agent);
// Tells an error that put the queue into its error state; no lock is held.
void rt_queue_fail(struct rt_queue * queue, hsa_status_t status, const struct error * err);

// gpu-queue.c
bool rt_gpu_queue_start(struct rt_queue * queue); // the agent's lock is held

// executables.c
bool rt_code_init(struct rt_runtime * rt);
void rt_code_release(struct rt_runtime * rt);
