// hsac-impl: what the files of the HSA client share.
//
// Locks: ring.lock may be held when driver.lock or agent.lock is taken, driver.lock when agent.lock
// is, never the other way round.
#pragma once

#include "hsac.h"
#include "hsa-aie-abi.h"

#include "amdxdna/amdxdna.h"
#include "hsa-emu.h"
#include <hsa/hsa_ext_amd.h>
#include <pthread.h>

// Every function of the runtime that we call. They are found with dlsym, so that a program starts
// without any runtime and can say what is missing.
#define HSAC_SYMBOLS(X)                                                                            \
    X(hsa_init)                                                                                    \
    X(hsa_shut_down)                                                                               \
    X(hsa_status_string)                                                                           \
    X(hsa_system_get_info)                                                                         \
    X(hsa_iterate_agents)                                                                          \
    X(hsa_agent_get_info)                                                                          \
    X(hsa_amd_agent_iterate_memory_pools)                                                          \
    X(hsa_amd_memory_pool_get_info)                                                                \
    X(hsa_amd_memory_pool_allocate)                                                                \
    X(hsa_amd_memory_pool_free)                                                                    \
    X(hsa_amd_agents_allow_access)                                                                 \
    X(hsa_amd_memory_async_copy)                                                                   \
    X(hsa_queue_create)                                                                            \
    X(hsa_queue_destroy)                                                                           \
    X(hsa_queue_add_write_index_screlease)                                                         \
    X(hsa_queue_load_read_index_scacquire)                                                         \
    X(hsa_signal_create)                                                                           \
    X(hsa_signal_destroy)                                                                          \
    X(hsa_signal_store_screlease)                                                                  \
    X(hsa_signal_wait_scacquire)

// Only our runtime has these, and is known by them.
#define HSAC_EMU_SYMBOLS(X)                                                                        \
    X(hsa_emu_counters)                                                                            \
    X(hsa_emu_account)                                                                             \
    X(hsa_emu_name)                                                                                \
    X(hsa_emu_columns)                                                                             \
    X(hsa_emu_native)                                                                              \
    X(hsa_emu_flushed)                                                                             \
    X(hsa_emu_last_error)

struct hsac_api {
#define HSAC_FIELD(name) __typeof__(name) * name;
    HSAC_SYMBOLS(HSAC_FIELD)
    HSAC_EMU_SYMBOLS(HSAC_FIELD)
#undef HSAC_FIELD
};

enum { HSAC_POOLS = 5, HSAC_PAYLOAD_BYTES = 128 };
// Questions to a GPU that came after the header of ROCm 5.
enum {
    GPU_PCI_DOMAIN = 0xA00F,
    GPU_MEMORY_AVAILABLE = 0xA015,
    GPU_MEMORY_PROPERTIES = 0xA114,
    GPU_MEMORY_IS_APU = 1
};

// A packet ABI: how a packet is written.
struct hsac_abi {
    char name;
    bool signals; // packets carry a completion signal
    // Slot and payload are in memory of the runtime; all of both that matters is written. Operands
    // are declared with their sizes, or with 0, and then not flushed by it.
    void (*write)(const struct hsac_dispatch * d, bool declares, hsa_signal_t completion,
                  void * slot, void * payload);
    // NULL, or why this dispatch cannot be expressed.
    const char * (*refuse)(const struct hsac_dispatch * d);
};

// packets.c: the ABI of that letter, or NULL.
const struct hsac_abi * hsac_abi_find(char name);
// Bytes that a dispatch takes up in the driver's chain of commands, at most.
uint32_t hsac_chain_bytes(int n_operands);

// What a runtime is known to do, whatever packets it takes.
struct hsac_runtime {
    const char * name;
    char abi;  // 'A': its packets carry no kernels; 0: not known
    char also; // another that some of them take
    // Indices do not wrap around: they are set back to 0 between batches.
    bool never_wraps;
    // A hardware context is made for each batch, and the list of its PDIs is kept under the id of
    // the context before it. Ids come round, and a list that is found then is believed though the
    // context has another one. See queue.c.
    bool stale_lists;
    // An address inside a buffer is found only when another buffer lies above it.
    bool wants_guard;
    // A buffer that is freed stays mapped.
    bool leaves_mappings;
    // It waits 50 ms for a batch, and then ends the process.
    bool waits_briefly;
    // It works with AMD's old module alone: the driver in Linux has not the call that it waits
    // with, or refuses the context that it makes.
    bool wants_legacy;
};

// runtimes.c: the row that fits what the runtime says of itself, which is written to `says`.
const struct hsac_runtime * hsac_runtime_find(const struct hsac * h, char * says, size_t size);

struct hsac_block { // a live allocation
    uintptr_t base;
    size_t size;
    enum hsac_pool pool;
    uint64_t shared; // with other agents of the runtime, by bit
};

// The one hardware queue of a NPU, shared by its hsac_queue handles. Every packet of a caller's
// gets a ticket; tickets up to `settled` are complete or have failed.
struct hsac_ring {
    pthread_mutex_t lock;
    hsa_queue_t * queue; // NULL until a packet needs it, and after an error
    hsa_signal_t completion;
    uint8_t * payloads; // AIE_ABI_QUEUE_PACKETS of HSAC_PAYLOAD_BYTES
    uint64_t next;      // index of the next packet

    // The batch: written but not rung.
    uint32_t pending;                        // packets
    uint32_t bytes;                          // that they take up in the driver's chain
    uint64_t us;                             // that they take, about
    const void * resident;                   // PDI of the last packet
    uint32_t shown;                          // PDIs that are in it, by bit
    uint64_t tickets[AIE_ABI_QUEUE_PACKETS]; // by slot; 0: a packet of our own
    uint32_t tags[AIE_ABI_QUEUE_PACKETS];    // by slot; see hsac_agent_watch
    char * names[AIE_ABI_QUEUE_PACKETS];     // by slot, of packets that were not rung yet, or NULL
    bool named;                              // one of them is
    void (*watch)(void * user, uint32_t tag, const struct hsac_account * account);
    void * watch_user;

    const void * pdis[AIE_ABI_CONTEXT_PDIS]; // that contexts know, in the order in which they do
    size_t pdi_bytes[AIE_ABI_CONTEXT_PDIS];
    int n_pdis;
    uint32_t quiet; // batches since the last PDI came
    struct {
        uint32_t * insts;
        size_t n;
    } idle; // see hsac_agent_set_idle

    uint64_t issued, settled; // tickets
    struct hsac_queue * handles;
    int failure;       // hsa_status_t that the runtime's callback reported; atomic
    struct error last; // failure of a batch
    struct error lost; // status not ST_OK: the queue failed in a way that nothing brings back
};

struct hsac_mark {
    struct hsac_agent * agent;
    hsa_signal_t signal; // 1, and 0 once it is reached
    int refs;            // atomic
    int failed;          // atomic; not 0: it was given up, or is behind one that was
    struct error why;
    struct hsac_mark ** before; // those that it is behind, until it is reached
    int n_before;
    unsigned searched; // see async.c
    bool abandoned;    // nobody knows who still writes to its signal
};

enum {
    HSAC_HELD = 256, // marks between two waits
    HSAC_FRONT = 4,  // at once; a barrier packet has room for 5
    HSAC_SLOTS = 4,
    HSAC_SLOT_BYTES = 1 << 20,
};

// A mark that packets or copies of a queue name, kept until these are settled.
struct hsac_held {
    struct hsac_mark * mark;
    bool by_packet;         // a packet of this queue reaches it
    struct hsac_agent * of; // NULL, or a copy reaches it: whose bytes are written, or read
    const void * at;
    size_t size;
    bool read;
};

// The queue of a GPU: each hsac_queue has its own. Packets up to `settled` are complete.
struct hsac_gpu_queue {
    pthread_mutex_t lock;
    hsa_queue_t * queue; // NULL after an error, until the next launch
    hsa_signal_t done;
    uint8_t * kernargs;     // GPU_QUEUE_PACKETS of HSAC_MAX_KERNARG
    uint64_t next, settled; // of packets in this queue's life
    int failure;            // hsa_status_t that the runtime's callback reported; atomic

    // What is sent next waits for the packets that were sent, where there are any behind the last
    // mark, and for the marks in `front`, which are among those held.
    bool open;
    struct hsac_mark * front[HSAC_FRONT];
    int n_front;
    pthread_mutex_t held_lock; // the last but lost_lock: the runtime's callback takes it
    struct hsac_held held[HSAC_HELD];
    int n_held;
    int own; // the place behind the last of them that is a mark of this queue
    struct { // where bytes of the host pass through, in turn; in the host pool
        uint8_t * base;
        size_t used;
        struct hsac_mark * last; // of the last copy that uses it
    } slots[HSAC_SLOTS];
    int slot;
};

struct hsac_queue {
    struct hsac_agent * agent;
    struct hsac_gpu_queue * gpu; // NULL: of a NPU, and what follows is used
    struct hsac_queue * next;
    uint64_t last;       // ticket of the last packet
    struct error failed; // status not ST_OK: one of its packets failed since the last wait
};

// Where bytes on their way to and from memory that the host does not see pass through.
struct hsac_stage {
    pthread_mutex_t lock;
    uint8_t * buffer; // in the host pool; NULL until it is needed
    hsa_signal_t done;
};

// Bytes of an agent that a copy failed for, see lost.c.
struct hsac_lost {
    uintptr_t from, to;
    bool read; // they are as they were, but who wanted them did not get them
    struct error why;
};

enum { HSAC_MOST_LOST = 16 };

struct hsac_agent {
    struct hsac * h;
    enum hsac_kind kind;
    bool integrated;
    char bus[16]; // "": not known
    hsa_agent_t handle;
    char name[64];
    char product[64];
    hsa_amd_memory_pool_t pools[HSAC_POOLS];
    uint64_t pool_size[HSAC_POOLS]; // 0: the agent has no such pool

    // Held while the runtime is in its NPU driver: ROCr's lists of buffers have no lock of their
    // own, so nothing may be allocated or freed while it reads packets.
    pthread_mutex_t driver;
    uintptr_t guard;         // 0, or a buffer above those that packets point into
    int columns;             // of a NPU's array; 0: it does not say
    struct amdxdna * device; // of a NPU below ROCr, to ask whether it lives; NULL: there is none

    pthread_mutex_t lock;       // what follows
    struct hsac_block * blocks; // sorted by base
    size_t n_blocks, max_blocks;
    uint64_t used[HSAC_POOLS];
    uint64_t flushed; // atomic

    struct hsac_ring ring; // of a NPU
    struct hsac_stage stage;

    pthread_mutex_t lost_lock; // the last one to be taken
    int n_lost;                // atomic, so that the usual question locks nothing
    struct hsac_lost lost[HSAC_MOST_LOST];
};

struct hsac {
    void * library;
    char path[512];
    struct hsac_api api;
    bool initialised;
    bool ours;     // the library is our runtime
    bool emulated; // with agents that are emulated
    bool no_npus;  // another runtime of this process has them
    const struct hsac_runtime * runtime;
    char says[160];              // what it says of its version
    const struct hsac_abi * abi; // NULL: none that carries kernels, or none that we know
    struct hsac_agent * agents;
    int n_agents;
    bool has_cpu;
    hsa_agent_t cpu; // the first one
    uint32_t forks;  // hsac_forks when it was opened
};

// fork.c
bool hsac_forked(const struct hsac * h);

const char * hsac_status_text(const struct hsac * h, hsa_status_t status);

// agents.c
enum status hsac_agents_find(struct hsac * h, struct error * err);
void hsac_agents_free(struct hsac * h);

// memory.c
void hsac_memory_release(struct hsac_agent * a);
// True when [addr, addr + size) lies in one live allocation; *pool is where.
bool hsac_agent_owns(struct hsac_agent * a, const void * addr, uint64_t size,
                     enum hsac_pool * pool);
// False when the runtime would not find the buffer that this address, which the agent owns, lies
// in.
bool hsac_agent_finds(struct hsac_agent * a, const void * addr);

// npu-device.c: the first device that answers, which is the one that ROCr takes too; NULL: none.
struct amdxdna * hsac_device_open(void);
// Whether the runtime can work with the driver of this device; ST_UNSUPPORTED, and why not.
enum status hsac_device_fits(const struct hsac * h, const struct amdxdna_info * info,
                             struct error * err);

// queue.c: with the last handle gone, when the runtime is closed.
void hsac_ring_free(struct hsac_agent * a);

// wait.c: how long a device may be silent. GGML_HSA_WAIT_LIMIT seconds; 60 where it is not set.
struct hsac_watch {
    int limit_s; // 0: none
    uint64_t progress;
    int64_t looked_ms; // when it was last asked
    int64_t silent_ms; // since the last progress
};

struct hsac_watch hsac_watch_start(const struct hsac * h);
// True: nothing changed in `progress`, whatever it counts, for longer than the limit.
bool hsac_watch_silent(struct hsac_watch * w, uint64_t progress);
enum status hsac_watch_error(const struct hsac_watch * w, const struct hsac_agent * a,
                             const char * what, struct error * err); // ST_DEVICE

// account.c: around a batch, under the ring's lock: how many dispatches ran before it, and then
// a watcher is called for each packet. Nothing happens when nobody watches.
// How many dispatches there were, where somebody wants to know: a watch, or packets with names.
uint64_t hsac_account_count(const struct hsac_agent * a, bool named);
// Hands the names of a batch to the runtime.
void hsac_account_name(struct hsac_agent * a, uint64_t before, uint64_t first_index,
                       uint32_t n_packets);
void hsac_account_tell(struct hsac_agent * a, uint64_t before, uint64_t first_index,
                       uint32_t n_packets);

// flush.c: does the runtime flush, by what packets declare? And is what was asked for known?
bool hsac_declares(void);
enum status hsac_flush_check(struct error * err);

// copy.c
void hsac_stage_free(struct hsac_agent * a);

// lost.c
void hsac_lose(struct hsac_agent * a, const void * at, size_t size, bool read,
               const struct error * why);

// Makes a block of the agent's reachable for another one; ST_UNSUPPORTED: it cannot be.
enum status hsac_agent_share(struct hsac_agent * a, const void * at, struct hsac_agent * with,
                             struct error * err);

// gpu-queue.c; with the queue's lock held, where there is one
enum status hsac_gpu_queue_new(struct hsac_agent * a, struct hsac_gpu_queue ** out,
                               struct error * err);
void hsac_gpu_queue_free(struct hsac_agent * a, struct hsac_gpu_queue * q);
// Until all that was sent is complete, copies included.
enum status hsac_gpu_queue_wait(struct hsac_agent * a, struct hsac_gpu_queue * q,
                                struct error * err);
// Room for some packets, and for the barrier of a wait.
enum status hsac_gpu_queue_room(struct hsac_agent * a, struct hsac_gpu_queue * q, uint32_t packets,
                                struct error * err);
// A barrier packet: it waits for the marks in front, or for none; NULL: it reaches no mark.
void hsac_gpu_queue_barrier(const struct hsac_agent * a, struct hsac_gpu_queue * q, bool front,
                            const struct hsac_mark * reaches);

// async.c; with the queue's lock held
// Packets that follow wait for the marks in front; there is room for one more.
void hsac_front_send(const struct hsac_agent * a, struct hsac_gpu_queue * q);
// Marks whose copies failed are given up, so that they hold nobody up.
void hsac_held_look(struct hsac_gpu_queue * q);
// Gives up what packets of the queue would have reached. Also from the runtime's callback.
void hsac_held_fail(struct hsac_gpu_queue * q, const struct error * why);
// Waits for the copies and marks that are left once packets are settled, and lets go of them. *why
// is left as it is where it has a status already. Copies behind what failed are lost.
void hsac_held_settle(struct hsac_agent * a, struct hsac_gpu_queue * q, struct error * why);
void hsac_slots_free(struct hsac_agent * a, struct hsac_gpu_queue * q);
