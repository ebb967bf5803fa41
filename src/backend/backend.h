// backend: ggml's view of the house. One registry holds the devices, NPUs and GPUs; a device holds
// its memory, its kernels and the code that was uploaded to it; a stream is one queue of a device.
// What several threads may reach (the device) is locked; what belongs to one thread (the stream) is
// not. What NPUs and GPUs do not have in common is how a node is computed: device_kind.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"
#include "ggml-abi.h"
#include "ggml-hsa.h"
#include "host-ops.h"
#include "hsa/hsac.h"
#include "kernel/kernel.h"
#include "store/store.h"

// Tensors start at multiples of this, so that up to the next multiple a tensor's tail is its own.
#define BUFFER_ALIGNMENT 128
// The array moves 32-bit words: an odd tail of f16 or i8 elements is rounded up to whole ones.
#define DMA_WORD 4

// ---- log.c: lines on ggml's log, each beginning with "ggml-hsa: " ----

void log_error(const char * fmt, ...) BASE_PRINTF(1, 2);
void log_warn(const char * fmt, ...) BASE_PRINTF(1, 2);
void log_info(const char * fmt, ...) BASE_PRINTF(1, 2); // only with GGML_HSA_ENABLE_LOG=1

// ---- code.c: PDIs and instruction streams in the device heap ----

struct code_stream; // an uploaded instruction stream

struct code_heap {
    pthread_mutex_t lock;
    pthread_cond_t released; // a pin went away
    struct hsac_agent * agent;
    struct code_stream * newest; // by last use
    struct code_stream * oldest;
    size_t n_pins;
};

void code_heap_init(struct code_heap * h, struct hsac_agent * agent);
void code_heap_free(struct code_heap * h);

// Uploads what is missing, pins the instruction stream and fills d's code fields. The pin keeps it
// from being dropped; give it back with code_release once the dispatch is complete. When the heap
// is full of pinned streams: ST_NO_MEMORY at once if the caller holds pins itself (it should
// complete its work, release them and call again), otherwise waits for another thread to release
// one.
enum status code_acquire(struct code_heap * h, struct store_kernel * k, bool holds_pins,
                         struct hsac_dispatch * d, struct code_stream ** pin, struct error * err);
void code_release(struct code_heap * h, struct code_stream ** pins, size_t n);

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

struct hsa_stream;
struct gpu; // gpu/gpu.h

struct device_kind {
    // Would a stream compute this node itself, the CPU fallback left aside?
    bool (*computes)(struct hsa_device * device, const struct ggml_tensor * op);
    enum status (*compute)(struct hsa_stream * s, struct ggml_tensor * node, struct error * err);
};
extern const struct device_kind npu_kind; // compute.c

struct hsa_device {
    struct ggml_backend_device base; // first: ggml's handle is this address
    const struct device_kind * kind;
    int index;
    char name[8];
    char description[160];
    struct hsac_agent * agent;
    struct gpu * gpu;     // of a GPU
    enum aie_arch arch;   // of a NPU, like the next two
    struct store * store;
    struct code_heap code;
    struct hsa_buft buft;
    struct hsa_buft host_buft;
    bool fallback; // unsupported nodes go to the CPU; of a NPU
    atomic_uint_fast64_t dispatches, host_copies, staged_operands, cpu_nodes;
};

// NULL with the reason in err when the agent cannot be used.
struct hsa_device * device_new(ggml_backend_reg_t reg, int api, int index, struct hsac * runtime,
                               struct hsac_agent * agent, struct error * err);
bool device_is_ours(ggml_backend_dev_t dev);

// ---- buffer.c ----

void buft_init(struct hsa_buft * buft, int api, struct hsa_device * device, bool is_host);
static inline ggml_backend_buffer_type_t buft_handle(struct hsa_buft * buft) {
    return (ggml_backend_buffer_type_t) &buft->abi;
}

void buffer_set_tensor(ggml_backend_buffer_t buffer, struct ggml_tensor * tensor,
                       const void * data, size_t offset, size_t size);
void buffer_get_tensor(ggml_backend_buffer_t buffer, const struct ggml_tensor * tensor, void * data,
                       size_t offset, size_t size);

struct shadows; // mat.h

// What is kept of weights with the buffer that holds the tensor. NULL where the buffer is not ours,
// or is host memory: that others write to without a word.
struct shadows * buffer_shadows(const struct ggml_tensor * tensor);
bool buffer_holds_weights(const struct ggml_tensor * tensor);
// Bytes of the tensor were written, or will be by what is in flight.
void buffer_written(const struct ggml_tensor * tensor, size_t offset, size_t size);

// ---- fallback.c: nodes without a kernel on a CPU backend ----

struct fallback { // of a stream; zero is empty
    ggml_backend_t cpu;
    struct ggml_context * ctx;
    struct ggml_cgraph * graph; // nodes that were added and not run yet
};

bool fallback_asked(void); // by the environment, or by the build
bool fallback_supports(const struct ggml_tensor * op);
// Takes a node in; it is computed at fallback_run at the latest.
enum status fallback_add(struct fallback * f, struct ggml_tensor * node, struct error * err);
enum status fallback_run(struct fallback * f, struct error * err);
void fallback_free(struct fallback * f);

// ---- stream.c ----

ggml_backend_t stream_new(struct hsa_device * device); // NULL and a logged line on failure
ggml_backend_event_t event_new(ggml_backend_dev_t dev);
void event_free(ggml_backend_dev_t dev, ggml_backend_event_t event);
void event_synchronize(ggml_backend_dev_t dev, ggml_backend_event_t event);

// ---- op-map.c: which kernel a node is ----

struct op_call { // a node as its kernel sees it
    enum kernel_op op;
    bool elementwise; // inputs repeat to the result's shape, and any cut of it is as good
    bool rows_alike;  // what happens to a row does not depend on which row it is
    int n_inputs;
    struct host_view inputs[KERNEL_MAX_INPUTS]; // no data where the tensor has no address yet
    uint32_t params[KERNEL_MAX_PARAMS];
};

enum status op_call_of(const struct ggml_tensor * node, struct op_call * out, struct error * err);
const char * op_label(const struct ggml_tensor * node); // for messages
struct host_view op_half(struct host_view v, bool second); // of each row

// ---- plan.c: how a node becomes kernels ----

#define PLAN_OPERANDS (KERNEL_MAX_INPUTS + 1) // the inputs, then the result

struct plan_operand {
    bool staged;             // passes through scratch
    struct host_view tensor; // as ggml has it
    struct host_view kernel; // as the kernel has it: the same, or contiguous without a place yet
    size_t step;             // bytes from one unit to the next, where there are chunks
};

struct plan {
    int n_operands;
    struct plan_operand operands[PLAN_OPERANDS];
    int64_t n;               // units: elements, or rows, whatever the op may be cut into; 0: empty
    int64_t chunk;           // units of one dispatch; n when one is enough
    struct kernel_spec spec; // of a whole chunk
    struct kernel_spec rest; // of the last one, when chunk does not divide n
};

// Cheap and never compiles. Looks at addresses only where the tensors have them.
enum status plan_node(struct store * store, enum aie_arch arch, const struct ggml_tensor * node,
                      struct plan * out, struct error * err);

// Views as kernels have them; the datatype is one that kernels exist for.
struct tensor plan_tensor(const struct host_view * v);
// Would writing dst spoil what is still to be read of src? An element over itself is fine.
bool plan_clobbers(const struct host_view * dst, const struct host_view * src);

static inline bool op_is_view(enum ggml_op op) {
    return op == GGML_OP_NONE || op == GGML_OP_RESHAPE || op == GGML_OP_VIEW ||
           op == GGML_OP_PERMUTE || op == GGML_OP_TRANSPOSE;
}
