// hsac: the client side of HSA. Opens a runtime with dlopen, finds agents and their memory pools,
// allocates, and sends kernels through a queue. It knows packets and pools, not tensors. An agent
// is a NPU or a GPU: memory and queues are the same to a caller, what is sent through a queue is
// not.
#pragma once

#include "base/base.h"

#include <stddef.h>

struct hsac;       // a loaded runtime
struct hsac_agent; // one NPU or GPU
struct hsac_queue;

// Where runtimes come from:
//   GGML_HSA_RUNTIME   a path: that one. "native": ours, with the NPUs of this machine
//   GGML_HSA_EMULATE   ours, with emulated agents
//   else               ours where the machine has an NPU that it can drive, and for GPUs (and an
//   NPU
//                      that ours cannot drive) the system's libhsa-runtime64.so.1
enum { HSAC_RUNTIMES = 2 };
// All of them; an NPU that two offer is the first one's. ST_OK: *n is at least 1.
enum status hsac_open_all(struct hsac * out[HSAC_RUNTIMES], int * n, struct error * err);
enum status hsac_open(struct hsac ** out, struct error * err); // the first of them
enum status hsac_open_gpus(struct hsac ** out,
                           struct error * err); // the one with GPUs, or the first
void hsac_close(struct hsac * h);
bool hsac_in_use(struct hsac * h); // someone has a queue, or memory for operands
const char * hsac_runtime_path(const struct hsac * h);
bool hsac_is_emulated(const struct hsac * h);
bool hsac_is_native(const struct hsac * h);                   // ours, with NPUs of this machine
void * hsac_symbol(const struct hsac * h, const char * name); // a function of the runtime, or NULL
// The form of packets that the runtime takes: B, C or D; one of form 'A' cannot run kernels.
char hsac_abi_name(const struct hsac * h);
// "ROCr 7.0 to 7.2", by what it says of itself.
const char * hsac_runtime_known_as(const struct hsac * h);

enum hsac_kind { HSAC_NPU, HSAC_GPU };

int hsac_agent_count(const struct hsac * h); // NPUs, and behind them GPUs
struct hsac_agent * hsac_agent_get(struct hsac * h, int i);
enum hsac_kind hsac_agent_kind(const struct hsac_agent * a);
bool hsac_agent_is_integrated(const struct hsac_agent * a); // a GPU without memory of its own
const char * hsac_agent_bus(const struct hsac_agent * a);   // of a real GPU "0000:c1:00.0", or NULL
uint64_t hsac_agent_handle(const struct hsac_agent * a);    // hsa_agent_t's
const char * hsac_agent_name(const struct hsac_agent * a);  // "aie2", "gfx1100"
const char * hsac_agent_product(const struct hsac_agent * a); // "RyzenAI-npu1"
// Columns of a NPU's array that a context gets; 0: neither runtime nor driver say.
int hsac_agent_columns(const struct hsac_agent * a);
void hsac_agent_memory(const struct hsac_agent * a, uint64_t * free_bytes, uint64_t * total_bytes);

enum hsac_pool {
    HSAC_POOL_DATA,    // operands; the host sees those of a NPU
    HSAC_POOL_HOST,    // operands that the host sees too
    HSAC_POOL_DEV,     // PDIs: the 64 MiB device heap of a NPU
    HSAC_POOL_STREAM,  // instruction streams: the parts of that heap that packets can name
    HSAC_POOL_KERNARG, // packets' payloads
};

// How many forks lead to this process. Devices do not follow there, and what was locked stays so:
// ST_DEVICE where the agent was opened by a process before. All functions here ask first; whoever
// has locks of his own must, too.
uint32_t hsac_forks(void);
enum status hsac_check_fork(const struct hsac_agent * a, struct error * err);

// ST_UNSUPPORTED where kernels cannot be sent to it through this runtime.
enum status hsac_agent_check(const struct hsac_agent * a, struct error * err);
uint64_t hsac_agent_pool_size(const struct hsac_agent * a, enum hsac_pool pool);

// NULL when the pool is full, or in a forked child.
void * hsac_alloc(struct hsac_agent * a, enum hsac_pool pool, size_t size);
void hsac_free(struct hsac_agent * a, void * ptr);
// Lets another agent, perhaps of another runtime, use an allocation at its own address, by a
// dma-buf. ST_UNSUPPORTED where one of the runtimes refuses.
enum status hsac_share(struct hsac_agent * owner, struct hsac_agent * with, void * ptr, size_t size,
                       struct error * err);
void hsac_unshare(struct hsac_agent * with, void * ptr);

// Bytes between the agent's memory, of whatever pool, and the host's, of whatever kind. They are
// there on return. Nothing that is in flight may touch them.
enum status hsac_write(struct hsac_agent * a, void * to, const void * from, size_t size,
                       struct error * err);
enum status hsac_read(struct hsac_agent * a, void * to, const void * from, size_t size,
                      struct error * err);
enum status hsac_fill(struct hsac_agent * a, void * to, uint8_t value, size_t size,
                      struct error * err);
// Both in the agent's memory; they may overlap on a NPU only.
enum status hsac_copy(struct hsac_agent * a, void * to, const void * from, size_t size,
                      struct error * err);

// A NPU does not snoop the CPU's caches: whoever touches its memory by himself says so. Before the
// host reads bytes that the NPU may have written, or writes bytes in whose lines it may have; and
// after the host has written. Nothing that is in flight may touch them, or lines that they begin or
// end in. The functions above do this themselves, and hsac_alloc for what it hands out; a GPU needs
// none of it.
void hsac_host_begin(struct hsac_agent * a, const void * at, size_t size);
void hsac_host_end(struct hsac_agent * a, const void * at, size_t size);
uint64_t hsac_agent_flushed(const struct hsac_agent * a); // bytes, so far

// Writes and reads through ggml return no status. So bytes that could not be written are
// remembered until they are written or freed, and bytes that could not be read until somebody is
// told: a graph asks before it reads a tensor, or writes it, and says what its nodes have written.
// ST_DEVICE, and why.
bool hsac_agent_has_lost(const struct hsac_agent * a); // false: there is nothing to ask for
enum status hsac_agent_may_use(struct hsac_agent * a, const void * at, size_t size, bool writes,
                               struct error * err);
void hsac_agent_written(struct hsac_agent * a, const void * at, size_t size);

#define HSAC_MAX_OPERANDS 8
#define HSAC_MAX_KERNARG  512

struct hsac_dispatch { // a kernel of a NPU
    const void * pdi;  // in HSAC_POOL_DEV
    size_t pdi_size;
    const void * insts; // in HSAC_POOL_STREAM
    uint32_t n_insts;   // 32-bit words
    uint64_t us;        // that it takes, about; what is sent together is bounded by it
    uint32_t tag;       // for hsac_agent_watch
    const char * name;  // for a trace (hsac_agent_traces), or NULL; copied
    int n_operands;
    struct {
        void * addr;
        uint64_t size;             // that it owns; what is flushed is another matter, see flush.c
    } operands[HSAC_MAX_OPERANDS]; // in HSAC_POOL_DATA
};

struct hsac_launch { // a kernel of a GPU
    uint64_t object; // of its descriptor
    uint32_t group_bytes, private_bytes;
    const void * args;                 // copied
    uint32_t args_size, kernarg_bytes; // what is behind args is 0
    uint32_t grid[3];                  // work-items
    uint16_t group[3];
};

// ROCr 7.2 waits 50 ms for a batch and then ends the process. So many microseconds may a batch
// take, and what a kernel computes, at the slowest clock that the driver sets (aie_us); its
// instruction stream comes on top. Each dispatch has its price besides, and each change of the PDI,
// which is 180 us with our smaller kernels and 590 with the products.
#define HSAC_BATCH_US    45000
#define HSAC_MOST_US     33000
#define HSAC_DISPATCH_US 38
#define HSAC_PDI_US      1000
// Runtimes that wait as long as it takes: there the driver ends what makes no progress for 2 s, and
// other programs wait for their turn.
#define HSAC_LONG_BATCH_US 300000
#define HSAC_LONG_MOST_US  150000
// Of a batch, and of kernels that are one dispatch.
uint64_t hsac_batch_us(const struct hsac_agent * a);
uint64_t hsac_most_us(const struct hsac_agent * a);

// A queue may be shared by threads: each call locks it. Packets are kept back and rung in batches.
enum status hsac_queue_new(struct hsac_agent * a, struct hsac_queue ** out, struct error * err);
void hsac_queue_free(struct hsac_queue * q);
// An instruction stream that does nothing, for any PDI of the agent's. Older runtimes mix PDIs up
// unless each batch shows them all, and packets with this stream show those that it does not use.
// Once for an agent; without it such a runtime takes one PDI.
enum status hsac_agent_set_idle(struct hsac_agent * a, const uint32_t * insts, size_t n,
                                struct error * err);
enum status hsac_queue_dispatch(struct hsac_queue * q, const struct hsac_dispatch * d,
                                struct error * err);
// Refuses what sending would refuse, with the same words; nothing is sent.
enum status hsac_queue_admits(struct hsac_queue * q, const struct hsac_dispatch * d,
                              struct error * err);
// The allocation in which addr lies; false: in none.
bool hsac_agent_block(struct hsac_agent * a, const void * addr, char ** base, uint64_t * size);
// Does addr lie in HSAC_POOL_HOST? The usual question, where nobody has such memory, locks nothing.
bool hsac_agent_is_host(struct hsac_agent * a, const void * addr);
// May the PDI's memory be freed, now that all dispatches on it are complete? The agent's queue
// knows it no longer then: another one may come to lie at its address. False: the runtime remembers
// PDIs by their addresses for as long as it lives.
bool hsac_agent_forget_pdi(struct hsac_agent * a, const void * pdi);
enum status hsac_queue_launch(struct hsac_queue * q, const struct hsac_launch * l,
                              struct error * err);
// Rings for everything sent so far and waits until it is complete.
enum status hsac_queue_wait(struct hsac_queue * q, struct error * err);

// ---- async.c: copies in a GPU's queue, and marks ----

// A copy begins when what was sent before it is complete, and what is sent behind it begins when
// the copy is; the caller goes on. Memory of the host that is the agent's own (HSAC_POOL_HOST) is
// used as it is until the copy is complete. Any other is the caller's again on return: a write has
// taken its bytes by then, and a read has waited for them. A copy that is refused returns why; one
// that fails later makes hsac_queue_wait fail. Either way its bytes are lost, see above.
enum status hsac_queue_write(struct hsac_queue * q, void * to, const void * from, size_t size,
                             struct error * err);
// Likewise, but the bytes are taken on return wherever they lie.
enum status hsac_queue_take(struct hsac_queue * q, void * to, const void * from, size_t size,
                            struct error * err);
enum status hsac_queue_read(struct hsac_queue * q, void * to, const void * from, size_t size,
                            struct error * err);
// From memory of that agent to memory of the queue's; they do not overlap. ST_UNSUPPORTED: the one
// cannot reach the other's memory, and nothing is lost.
enum status hsac_queue_copy(struct hsac_queue * q, void * to, struct hsac_agent * from_agent,
                            const void * from, size_t size, struct error * err);

struct hsac_mark; // a place in a GPU's queue; NULL is one that was reached

// *out is reached when everything that was sent before is complete.
enum status hsac_queue_mark(struct hsac_queue * q, struct hsac_mark ** out, struct error * err);
// What is sent from now on begins when the mark, of any queue, is reached. Where it never is
// because what is before it failed, hsac_queue_wait of this queue fails, too. The queue of a NPU
// waits at once.
enum status hsac_queue_after(struct hsac_queue * q, struct hsac_mark * m, struct error * err);
enum status hsac_mark_wait(struct hsac_mark * m, struct error * err);
void hsac_mark_free(struct hsac_mark * m); // at any time, and also when its queue is gone

// Nanoseconds by the runtime's timestamps, from any beginning; 0: it does not say.
uint64_t hsac_time_ns(const struct hsac * h);

struct hsac_driver { // what our runtime asked of the kernel's driver
    uint64_t dispatches, pdi_switches, calls, waits, contexts, chains, failed, heap_bytes,
        flushed_bytes;
    char path[32], driver[96];
};
// False: the agent is none of our runtime's NPUs of this machine.
bool hsac_agent_driver(const struct hsac_agent * a, struct hsac_driver * out);

struct hsac_counters { // what the emulated runtime counts; all 0 on a real one
    uint64_t dispatches, pdi_loads, cycles, bundles, core_stalls, stream_words, last_cycles;
};
// False: it is not emulated.
bool hsac_agent_counters(const struct hsac_agent * a, struct hsac_counters * out);

// Where the modelled time of an emulated NPU went: hsa_emu_account of hsa-emu.h, which users of
// hsac need not include, and ggml_backend_hsa_account of ggml-hsa.h. The three are one layout, so
// that an account is copied whole; HSAC_ACCOUNT_IS has the compiler check it.
enum { HSAC_CAUSES = 10, HSAC_RUNS = 7 };
struct hsac_account {
    uint64_t size;
    uint64_t dispatches, pdi_loads, cycles, bundles, core_stalls, bank_stalls, stream_words, ns;
    struct {
        const char * name; // lives as long as the runtime is open
        uint64_t cycles;
    } causes[HSAC_CAUSES];
    const char * clock; // "": nothing ran yet
    uint64_t mhz;
    struct {
        uint64_t below, read, written; // bytes, as in hsa-emu.h
    } runs[HSAC_RUNS];
    uint64_t flushed;
};
#define HSAC_ACCOUNT_FIELD(other, field)                                                           \
    (offsetof(struct hsac_account, field) == offsetof(struct other, field) &&                      \
     sizeof((struct hsac_account *) 0)->field == sizeof((struct other *) 0)->field)
#define HSAC_ACCOUNT_IS(other)                                                                     \
    _Static_assert(                                                                                \
        sizeof(struct hsac_account) == sizeof(struct other) && HSAC_ACCOUNT_FIELD(other, size) &&  \
            HSAC_ACCOUNT_FIELD(other, dispatches) && HSAC_ACCOUNT_FIELD(other, pdi_loads) &&       \
            HSAC_ACCOUNT_FIELD(other, cycles) && HSAC_ACCOUNT_FIELD(other, bundles) &&             \
            HSAC_ACCOUNT_FIELD(other, core_stalls) && HSAC_ACCOUNT_FIELD(other, bank_stalls) &&    \
            HSAC_ACCOUNT_FIELD(other, stream_words) && HSAC_ACCOUNT_FIELD(other, ns) &&            \
            HSAC_ACCOUNT_FIELD(other, causes[0].name) &&                                           \
            HSAC_ACCOUNT_FIELD(other, causes[0].cycles) && HSAC_ACCOUNT_FIELD(other, causes) &&    \
            HSAC_ACCOUNT_FIELD(other, clock) && HSAC_ACCOUNT_FIELD(other, mhz) &&                  \
            HSAC_ACCOUNT_FIELD(other, runs[0].below) && HSAC_ACCOUNT_FIELD(other, runs[0].read) && \
            HSAC_ACCOUNT_FIELD(other, runs[0].written) && HSAC_ACCOUNT_FIELD(other, runs) &&       \
            HSAC_ACCOUNT_FIELD(other, flushed),                                                    \
        "an account is copied whole")
// False: it is no emulated NPU.
bool hsac_agent_account(const struct hsac_agent * a, struct hsac_account * out);
// Does it write a trace (GGML_HSA_TRACE), in which dispatches have names? A name is a line, and
// behind a line end what else is to be known of it.
bool hsac_agent_traces(const struct hsac_agent * a);
// Tells of each dispatch of an emulated NPU, once it is complete, where its time went; the tag is
// the dispatch's, 0 for packets of the client's own. Called with the queue locked, by whoever
// rings. Set before the first dispatch; on another device it is never called.
void hsac_agent_watch(struct hsac_agent * a,
                      void (*watch)(void * user, uint32_t tag, const struct hsac_account * account),
                      void * user);
