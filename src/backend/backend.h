// backend: ggml's view of the house. One registry holds the devices, NPUs and GPUs; a device holds
// its memory, its kernels and the code that was uploaded to it; a stream is one queue of a device.
// State that several threads may reach (the device) is locked; that of one thread (the stream) is
// not. What NPUs and GPUs do not have in common is how a node is computed: device_kind.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"
#include "ggml-abi.h"
#include "ggml-hsa.h"
#include "hsa/hsac.h"
#include "kernel/kernel.h"
#include "view.h"

// Tensors start at multiples of this, so that up to the next multiple a tensor's tail is its own.
#define BUFFER_ALIGNMENT 128

// ---- log.c: lines on ggml's log, each beginning with "ggml-hsa: " ----

void log_error(const char * fmt, ...) BASE_PRINTF(1, 2);
void log_warn(const char * fmt, ...) BASE_PRINTF(1, 2);
void log_info(const char * fmt, ...) BASE_PRINTF(1, 2); // only with GGML_HSA_ENABLE_LOG=1
// Writes a line that a variable asked for to standard error, whatever the program does with ggml's
// log.
void log_stderr(const char * fmt, ...) BASE_PRINTF(1, 2);

// ---- device.c ----

struct hsa_buft { // ggml reads the member of the API version that it has
    union {
        struct ggml_backend_buffer_type_v2 v2;
        struct ggml_backend_buffer_type_v3 v3;
    } abi;
    struct hsa_device * device;
    bool is_host;
    char name[24];
};

// The fate of nodes without a kernel, GGML_HSA_HOST_FALLBACK.
enum fallback_mode {
    FALLBACK_NEVER,    // 0: the graph fails
    FALLBACK_ABLE,     // not set: they are computed on the CPU, but not promised
    FALLBACK_PROMISED, // 1: supports_op promises them
};

struct hsa_stream;
struct npu; // npu/npu.h
struct gpu; // gpu/gpu.h

struct device_kind {
    // Does a stream compute this node itself, without the CPU fallback? If not, why (may be NULL)
    // gets the missing part or the limit that was met.
    bool (*computes)(struct hsa_device * device, const struct ggml_tensor * op, struct error * why);
    bool (*has)(enum ggml_op op); // does it compute any nodes of this op?
    enum status (*compute)(struct hsa_stream * s, struct ggml_tensor * node, struct error * err);
    // n nodes that follow each other as one, which `compute` takes and which writes the last alone.
    // Whether anybody could tell is not its matter (order_may_join). NULL: there are none.
    bool (*fuse)(const struct ggml_tensor * const nodes[], int n, struct ggml_tensor * out);
    // How many nodes may be one that begin with this one. NULL: ORDER_RUN of order.h.
    int (*longest)(const struct ggml_tensor * first);

    // Computes a node and one that would follow it as one; false: nothing was done. Asked for nodes
    // that are `together`. NULL: there are none.
    bool (*pair)(struct hsa_stream * s, const struct ggml_tensor * node,
                 const struct ggml_tensor * next);

    // Is a node worth it that its weights, which are in the host's memory, are brought here for it?
    // NULL: never.
    bool (*offloads)(const struct ggml_tensor * op);

    // Should the other node be computed right behind this one? NULL: never.
    bool (*together)(const struct ggml_tensor * node, const struct ggml_tensor * other);

    // State of a stream beside its queue and scratch memory. All are NULL where there is none.
    enum status (*begin)(struct hsa_stream * s, struct error * err);
    void (*end)(struct hsa_stream * s);
    void (*route)(struct hsa_stream * s, struct ggml_cgraph * graph); // before its first node
    enum status (*flush)(struct hsa_stream * s, struct error * err);  // sends what was kept back
    void (*settled)(struct hsa_stream * s);       // all that was sent is complete
    void (*scratch_reset)(struct hsa_stream * s); // what was in scratch is gone
    void (*written)(struct hsa_stream * s, const void * begin, size_t bytes); // or will be
};

enum { SHARE_MOST = 8 }; // guests

struct hsa_device {
    struct ggml_backend_device base; // first: ggml's handle is this address
    const struct device_kind * kind;
    int index;
    char name[8];
    char description[160];
    struct hsac_agent * agent;
    struct npu * npu; // one of the two
    struct gpu * gpu;
    struct hsa_buft buft;
    struct hsa_buft host_buft;
    struct hsa_device *host, *guests[SHARE_MOST]; // plugin/share.c: whose memory it computes in
    int n_guests;                                 // and who computes in its own
    enum fallback_mode fallback;
    pthread_rwlock_t layout;         // how weights lie: graphs read it, npu/panels.c writes
    struct profile * profile;        // NULL: not asked for
    atomic_bool told[GGML_OP_COUNT]; // that nodes of the op are computed on the CPU
    // Whether the log has said that no pack has kernels for the op. It says so again once a stream
    // has ended: llama.cpp tries a model out with its log switched off before it loads it.
    atomic_bool told_absent[GGML_OP_COUNT];
    atomic_uint_fast64_t dispatches, host_copies, staged_operands, cpu_nodes, kept_nodes, waits,
        operations, packets, graphs, copied_bytes;
};

// NULL with the reason in err when the agent cannot be used.
struct hsa_device * device_new(ggml_backend_reg_t reg, int api, int index, struct hsac * runtime,
                               struct hsac_agent * agent, struct error * err);

// ---- plugin/share.c: one memory for a NPU and GPUs; GGML_HSA_SHARE=1 ----

void share_devices(struct hsa_device ** devices, int n);
void * share_alloc(struct hsa_device * device, size_t size);
void share_free(struct hsa_device * device, void * ptr);
struct hsac_agent * share_agent(struct hsa_device * device); // whose memory it is
bool share_takes(struct hsa_device * device, ggml_backend_buffer_type_t buft);
bool share_is_others(struct hsa_device * device, const struct ggml_tensor * op);

// ---- profile.c: where the time of a device went, by op; GGML_HSA_PROFILE=1 ----

struct profile;

// NULL when no profile is asked for, or when there is no memory for it. The functions below take
// NULL as well, and then do nothing.
struct profile * profile_new(struct hsac_agent * agent, const char * device);
void profile_stream_begins(struct profile * p);
void profile_stream_ends(struct profile * p); // prints with the last one
// The row of a node, which is counted. Dispatches that the node causes carry the row as their tag.
uint32_t profile_node(struct profile * p, const struct ggml_tensor * node);
// Has each kernel a row of its own, and nodes none? GGML_HSA_PROFILE=kernels or order.
bool profile_is_each(const struct profile * p);
uint32_t profile_kernel(struct profile * p, const char * name);
bool profile_is_measured(const struct profile * p); // by the wall: nodes are waited for
void profile_measured(struct profile * p, uint32_t row, uint64_t ns);
uint64_t profile_now(void);
void profile_print(struct profile * p); // to stderr, and begins anew; nothing when nothing ran
void profile_clear(struct profile * p); // begins anew; nothing may be in flight

// ---- explain.c: why nodes are left to other devices; GGML_HSA_EXPLAIN=1 ----

bool explain_asked(void);
// Writes a line, unless the same one was written before. on_cpu: the fallback computes the node.
void explain_refusal(const struct hsa_device * device, const struct ggml_tensor * node, bool on_cpu,
                     const struct error * why);

// ---- buffer.c ----

void buft_init(struct hsa_buft * buft, int api, struct hsa_device * device, bool is_host);
static inline ggml_backend_buffer_type_t buft_handle(struct hsa_buft * buft) {
    return (ggml_backend_buffer_type_t) &buft->abi;
}

void buffer_set_tensor(ggml_backend_buffer_t buffer, struct ggml_tensor * tensor, const void * data,
                       size_t offset, size_t size);
void buffer_get_tensor(ggml_backend_buffer_t buffer, const struct ggml_tensor * tensor, void * data,
                       size_t offset, size_t size);

struct shadows; // npu/mat.h
struct panels;  // npu/panels.h

// Other forms of weights, kept with the buffer that holds the tensor. NULL where the buffer is not
// ours, and for host memory: programs write to that without telling us.
struct shadows * buffer_shadows(const struct ggml_tensor * tensor);
bool buffer_holds_weights(const struct ggml_tensor * tensor);
// The tensors of the buffer that lie in panels. NULL where the buffer is not ours, is host memory,
// or is a GPU's.
struct panels * buffer_panels(const struct ggml_tensor * tensor);
// Bytes of the tensor were written, or will be by what is in flight.
void buffer_written(const struct ggml_tensor * tensor, size_t offset, size_t size);

// Where the tensor lies: *agent is who can copy it, NULL where the host sees it itself. False: in
// memory of a device that is not ours.
bool buffer_find(const struct ggml_tensor * tensor, struct hsac_agent ** agent);
// The NPU whose memory the tensor lies in, of either buffer type. Whoever touches that memory calls
// hsac_host_begin and hsac_host_end. NULL: it lies in no NPU's memory.
struct hsac_agent * buffer_npu(const struct ggml_tensor * tensor);
// Does the tensor lie in memory of the device, so that no other device can write it?
bool buffer_is_on(const struct ggml_tensor * tensor, struct hsa_device * device);

// ---- fallback.c: nodes without a kernel on a CPU backend ----

struct fallback { // of a stream; zero is empty
    ggml_backend_t cpu;
    struct ggml_context * ctx;
    struct ggml_cgraph * graph; // nodes that were added and not run yet
    size_t bytes;               // of their operands
};

enum fallback_mode fallback_asked(void); // by the environment, or by the build
bool fallback_supports(const struct ggml_tensor * op);
// Adds a node, which is computed by fallback_run at the latest.
enum status fallback_add(struct fallback * f, struct ggml_tensor * node, struct error * err);
enum status fallback_run(struct fallback * f, struct error * err);
bool fallback_waits(const struct fallback * f); // are there nodes that were not run yet?
void fallback_free(struct fallback * f);

// ---- mirror.c: operands of a CPU graph in memory that the CPU does not see ----

struct mirror;

// Makes the graph use copies of its operands. *out is NULL, and the graph unchanged, where the CPU
// sees all of them. The graph must not be used after mirror_free.
enum status mirror_new(struct ggml_cgraph * graph, struct mirror ** out, struct error * err);
enum status mirror_write(const struct mirror * m, struct error * err); // results, to the device
void mirror_free(struct mirror * m);

// ---- stream.c ----

ggml_backend_t stream_new(struct hsa_device * device); // NULL and a logged line on failure

// ---- async.c ----

ggml_backend_event_t event_new(ggml_backend_dev_t dev);
void event_free(ggml_backend_dev_t dev, ggml_backend_event_t event);
void event_synchronize(ggml_backend_dev_t dev, ggml_backend_event_t event);

// ---- enums.c: ST_UNSUPPORTED where ggml's numbers are not the ones of its headers ----

enum status enums_check(struct error * err);
enum status
enums_check_tensor(struct error * err); // likewise, where a tensor is laid out otherwise

// ---- op-map.c: which kernel a node is ----

struct op_call { // a node as its kernel sees it
    enum kernel_op op;
    bool elementwise; // inputs repeat to the result's shape, and any cut of it is as good
    bool rows_alike;  // what happens to a row does not depend on which row it is
    int n_inputs;
    struct view inputs[KERNEL_MAX_INPUTS]; // no data where the tensor has no address yet
    uint32_t params[KERNEL_MAX_PARAMS];
};

enum status op_call_of(const struct ggml_tensor * node, struct op_call * out, struct error * err);
const char * op_label(const struct ggml_tensor * node); // for messages
// The kernel of an op that has exactly one. KERNEL_OP_COUNT: there is none, or the node's
// parameters choose it (UNARY, GLU).
enum kernel_op op_kernel(enum ggml_op op);
// What a node writes: its result, and what it updates in place. Returns how many these are.
#define OP_MAX_WRITES 3
int op_writes(const struct ggml_tensor * node, const struct ggml_tensor * out[OP_MAX_WRITES]);

// ---- sources.c: does the node have the sources without which nobody can compute it? ----

bool op_has_sources(const struct ggml_tensor * node);

static inline bool op_is_view(enum ggml_op op) {
    return op == GGML_OP_NONE || op == GGML_OP_RESHAPE || op == GGML_OP_VIEW ||
           op == GGML_OP_PERMUTE || op == GGML_OP_TRANSPOSE;
}
