// runtime: what the files of the emulated HSA runtime share. Handles that leave the library are
// addresses of the structs below; each one that comes back is looked up before it is believed, so a
// stale or foreign handle gives an error code, never a crash.
//
// Locks, in the order in which they may be taken: agent->lock (the machine and its queues), then
// memory.lock or signals.lock, then signals.wait_lock. No callback of the user runs under a lock.
#pragma once

#include "base/base.h"
#include "emu/aie/machine.h"
#include "ranges.h"

#include <hsa/hsa.h> // LITTLEENDIAN_CPU comes from the build
#include <hsa/hsa_ext_amd.h>
#include <hsa/amd_hsa_queue.h>
#include <hsa/amd_hsa_signal.h>
#include <pthread.h>

_Static_assert(sizeof(amd_signal_t) == 64 && offsetof(amd_signal_t, value) == 8, "tools peek here");
_Static_assert(offsetof(amd_queue_t, write_dispatch_id) == 56, "tools peek here");
_Static_assert(offsetof(amd_queue_t, read_dispatch_id) == 128, "tools peek here");

enum {
    EMU_DEVICE_AIE = 3, // HSA_DEVICE_TYPE_AIE, which the 5.2 header lacks
    EMU_PAGE = 4096,    // granule and alignment of every pool
    EMU_DEV_HEAP_BYTES = 64 << 20,
    EMU_AIE_QUEUE_PACKETS = 64,
    EMU_MAX_AGENTS = 9, // the CPU and eight more
    EMU_MAX_POOLS = 3,
    EMU_ROCR_BUG_PDIS = 32, // bits of the compute-unit mask of one hardware context
};

#ifndef EMU_AIE_QUEUES_MAX
#    define EMU_AIE_QUEUES_MAX 1 // as many as the real runtime allows
#endif

// AMD's codes are members of another enum.
#define EMU_STATUS_INVALID_POOL ((hsa_status_t) HSA_STATUS_ERROR_INVALID_MEMORY_POOL)

struct emu_agent;

struct emu_pool {
    struct emu_agent * agent;
    uint32_t flags;       // HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_*
    uint32_t rec_granule; // 0 marks the device heap; clients find it by that
    uint64_t size;
    uint64_t used;  // under memory.lock
    uint8_t * heap; // the device heap's 64 MiB, aligned to 64 MiB; NULL in other pools
};

// A kind of NPU, as ROCr would describe it.
struct emu_model {
    const char * name;
    const char * product;
    enum aie_arch arch;
    int columns;
};

struct emu_queue {
    amd_queue_t amd; // the handle points here
    amd_signal_t * doorbell;
    struct emu_agent * agent;
    struct emu_queue * next;
    uint8_t * ring;
    void (*callback)(hsa_status_t, hsa_queue_t *, void *);
    void * callback_data;
    hsa_status_t error; // not SUCCESS: suspended, later packets are not executed
    uint64_t pdis[EMU_ROCR_BUG_PDIS];
    int n_pdis;
};

struct emu_agent {
    uint32_t device;                // HSA_DEVICE_TYPE_*
    const struct emu_model * model; // NULL for the CPU
    uint32_t node;
    char name[64];
    char product[64];
    struct emu_pool pools[EMU_MAX_POOLS];
    int n_pools;

    pthread_mutex_t lock;
    struct emu_machine * machine; // made by the first dispatch
    struct emu_queue * queues;
    int n_queues;
    uint64_t n_doorbells, n_queues_created, n_errors;
    char error[sizeof((struct error *) 0)->text];
};

struct emu_memory {
    pthread_rwlock_t lock;
    struct ranges blocks; // every live allocation; value is a struct emu_block
};

struct emu_block {
    struct emu_pool * pool; // NULL: memory of the host, locked for agents
    void * user_data;
    uint32_t locks; // of host memory
};

struct emu_signals {
    pthread_rwlock_t lock;
    struct ranges live; // amd_signal_t, value is the queue of a doorbell or NULL
};

struct emu_runtime {
    uint32_t references; // under the lock in runtime.c
    struct emu_agent agents[EMU_MAX_AGENTS];
    int n_agents;
    struct emu_memory memory;
    struct emu_signals signals;
    bool rocr_bugs;
    int trace_col, trace_row;
};

// runtime.c: the initialised runtime, or NULL.
struct emu_runtime * emu_runtime(void);
struct emu_agent * emu_agent_find(hsa_agent_t handle);
struct emu_pool * emu_pool_find(hsa_amd_memory_pool_t handle);
uint64_t emu_now_ns(void);

// One line to stderr, behind "hsa-emu: ".
void emu_say(const char * fmt, ...) BASE_PRINTF(1, 2);

// host.c: the machine that we run on.
void emu_host_cpu_name(char name[64]);
uint64_t emu_host_memory(void);
uint32_t emu_host_clock_mhz(void);

// agents.c
enum status emu_agents_init(struct emu_runtime * rt, struct error * err);

// memory.c
bool emu_memory_init(struct emu_runtime * rt);
void emu_memory_release(struct emu_runtime * rt);
// The allocation around addr that this agent can reach, or false. Any of the results may be NULL.
bool emu_memory_find(struct emu_runtime * rt, const struct emu_agent * agent, uint64_t addr,
                     struct emu_pool ** pool, uint64_t * base, uint64_t * size);
// For the machine: len bytes at addr that the agent can reach, or NULL. user is the agent.
void * emu_memory_resolve(void * user, uint64_t addr, uint64_t len, bool write);

// signals.c
bool emu_signals_init(struct emu_runtime * rt);
void emu_signals_release(struct emu_runtime * rt);
amd_signal_t * emu_signal_new(struct emu_runtime * rt, int64_t value, struct emu_queue * queue);
void emu_signal_free(struct emu_runtime * rt, amd_signal_t * signal);
bool emu_signal_is_live(struct emu_runtime * rt, hsa_signal_t handle); // and no doorbell
// Takes 1 from a live signal and wakes its waiters; does nothing when it is gone.
void emu_signal_complete(struct emu_runtime * rt, hsa_signal_t handle);

// queues.c
void emu_queue_ring(struct emu_queue * queue);
void emu_queues_release(struct emu_runtime * rt, struct emu_agent * agent);
