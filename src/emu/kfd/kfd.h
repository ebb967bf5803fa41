// kfd: GPUs below AMD's own runtime. ROCr 7 can run on a software model in the place of the kernel
// driver (HSA_MODEL_TOPOLOGY and HSA_MODEL_LIB); this room is such a model, with the machine of
// emu/gfx behind it. ROCr's side of the interface keeps memory, events and the numbers of queues;
// ours hears of allocations and queues, and does what the hardware does: reads doorbells, runs the
// packets of compute and copy queues, changes signals.
//
// Locks: gpu->lock may be held when memory.lock is taken. Functions of the interface come with
// ROCr's own lock held, so no thread of ours that they wait for may call into ROCr, set_event
// aside, which takes no lock.
#pragma once

#include "base/ranges.h"
#include "emu/aql/aql.h"
#include "emu/gfx/models.h"

#include <pthread.h>

// ---- the interface, version 0.4 ----

struct kfd_gpu;
struct kfd_queue;

enum { KFD_QUEUE_SDMA = 1, KFD_QUEUE_AQL = 2 };

struct kfd_queue_info { // addresses are the GPU's
    uint64_t ring, write_index, read_index;
    uint64_t * doorbell; // nobody fills this
    uint32_t ring_bytes, type;
};

struct kfd_functions {
    uint32_t major, minor;
    struct kfd_gpu * (*create)(void);
    void (*destroy)(struct kfd_gpu *);
    void (*set_aperture)(struct kfd_gpu *, void * base, uint64_t size); // where address 0 lies
    void (*allocated)(struct kfd_gpu *, void * address, uint64_t size, uint32_t flags);
    void (*freed)(struct kfd_gpu *, void * address, uint64_t size);
    void (*set_notify)(struct kfd_gpu *, void (*)(void *), void *);
    void (*set_wait)(struct kfd_gpu *, void (*)(void *, uint64_t, uint64_t), void *);
    struct kfd_queue * (*add_queue)(struct kfd_gpu *, struct kfd_queue_info *);
    void (*set_set_event)(struct kfd_gpu *, void (*)(void *, unsigned), void *);
    void (*remove_queue)(struct kfd_gpu *, struct kfd_queue *);
};

// ---- memory.c ----

struct kfd_memory {
    pthread_rwlock_t lock;
    struct ranges blocks; // by the GPU's address; value is a struct kfd_block
    uint8_t * aperture;
    uint64_t aperture_bytes;
    uint64_t epoch;     // atomic; what was seen to be mapped is believed until it moves on
    uint64_t doorbells; // address of the page, 0: not yet
};

void kfd_memory_init(struct kfd_memory * m);
void kfd_memory_add(struct kfd_memory * m, uint64_t address, uint64_t size, uint32_t flags);
void kfd_memory_remove(struct kfd_memory * m, uint64_t address);
// Where the GPU's bytes lie, or NULL: it is not allocated, not mapped to the GPU, or with write not
// writable. *left (may be NULL) is how many bytes follow in one piece.
uint8_t * kfd_memory_at(struct kfd_memory * m, uint64_t address, uint64_t size, bool write,
                        uint64_t * left);

// ---- what there is ----

struct kfd_gpu {
    const struct emu_gpu_model * model;
    bool strict;
    struct kfd_memory memory;
    struct gfx * gfx;
    void (*set_event)(void * data, unsigned event);
    void * event_data;

    pthread_mutex_t lock;     // what follows
    pthread_cond_t has_queue; // for the thread that reads doorbells
    bool has_thread;
    struct kfd_queue * queues;
    uint64_t * doorbells; // our own view of the page; NULL: not yet
};

struct kfd_queue {
    struct kfd_gpu * gpu;
    struct kfd_queue * next;
    uint32_t slot;      // of its doorbell
    uint64_t amd_queue; // address of the struct that ROCr shares with the packet processor
    struct aql * aql;   // one of both
    struct kfd_sdma * sdma;
    // A waiter may miss an event (doorbells.c); under gpu->lock
    unsigned event;
    int repeats;
    uint64_t repeat_at, ask_at;
};

void kfd_say(const char * fmt, ...) BASE_PRINTF(1, 2);
uint64_t kfd_ticks(void); // the GPU's clock: 100 MHz
uint64_t kfd_now_ns(void);

// doorbells.c
// With the lock held. False: no thread.
bool kfd_doorbells_start(struct kfd_gpu * gpu);
void kfd_doorbell_reset(struct kfd_gpu * gpu, uint32_t slot); // it is a new queue's
void kfd_event(struct kfd_queue * q, unsigned event);

// queue.c
struct kfd_queue * kfd_queue_new(struct kfd_gpu * gpu, const struct kfd_queue_info * info,
                                 uint32_t slot, struct error * err); // the lock is held
void kfd_queue_ring(struct kfd_queue * q);
void kfd_queue_free(struct kfd_queue * q); // waits for what runs
// The event of something that ROCr's thread was told through the queue's struct and has not seen
// to; 0: there is nothing.
unsigned kfd_queue_unanswered(struct kfd_queue * q);
// Waits, as hardware does, by looking again and again.
void kfd_poll(bool (*ready)(void *), void * arg);

// pm4.c: a packet that sends the processor to a buffer of its own commands.
enum aql_fault kfd_pm4_run(struct kfd_memory * m, const uint8_t packet[AQL_PACKET_BYTES],
                           struct error * err);

// sdma.c
struct kfd_sdma;
enum status kfd_sdma_start(struct kfd_queue * q, const struct kfd_queue_info * info,
                           struct kfd_sdma ** out, struct error * err);
void kfd_sdma_ring(struct kfd_sdma * s);
void kfd_sdma_free(struct kfd_sdma * s); // NULL is fine

// preload.c
// Waits until no thread of ROCr's own runs. They come to rest at the lock of ROCr's that a function
// of the interface is called with.
void kfd_rocr_rest(void);

// topology.c
enum status kfd_topology_gpu(const char * dir, const struct emu_gpu_model ** out,
                             struct error * err);
enum status kfd_topology_write(const char * dir, const struct emu_gpu_model * gpu,
                               struct error * err);
