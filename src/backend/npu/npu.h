// npu: a graph's nodes on a NPU. Tensors are moved about by the array, or by the host (moves.h);
// products go their own way (mat.h); everything else is kernels of the store, with operands as
// plan.c lays them out.
#pragma once

#include "backend/backend.h"
#include "host-ops.h"
#include "store/store.h"

// The array moves 32-bit words: an odd tail of f16 or i8 elements is rounded up to whole ones.
#define DMA_WORD 4

// ---- code.c: PDIs and instruction streams in the device heap ----

struct code_stream; // an uploaded instruction stream

struct code_heap {
    pthread_mutex_t lock;
    pthread_cond_t released; // a pin went away
    struct hsac_agent * agent;
    enum aie_arch arch;
    struct code_stream * newest; // by last use
    struct code_stream * oldest;
    size_t n_pins;
};

void code_heap_init(struct code_heap * h, struct hsac_agent * agent, enum aie_arch arch);
void code_heap_free(struct code_heap * h);

// Uploads what is missing, pins the instruction stream and fills d's code fields. The pin keeps it
// from being dropped; give it back with code_release once the dispatch is complete. When the heap
// is full of pinned streams: ST_NO_MEMORY at once if the caller holds pins itself (it should
// complete its work, release them and call again), otherwise waits for another thread to release
// one.
enum status code_acquire(struct code_heap * h, struct store_kernel * k, bool holds_pins,
                         struct hsac_dispatch * d, struct code_stream ** pin, struct error * err);
void code_release(struct code_heap * h, struct code_stream ** pins, size_t n);

// The store's uploads (store.h): a kernel or PDI that no dispatch reads any more goes. Lock order:
// the store's lock, then the heap's.
void code_forget_kernel(void * heap, struct store_kernel * k);
bool code_forget_pdi(void * heap, struct store_pdi * p);

// ---- compute.c ----

struct npu {
    enum aie_arch arch;
    struct store * store;
    struct code_heap code;
};

extern const struct device_kind npu_kind;

enum status npu_new(struct hsac_agent * agent, struct npu ** out, struct error * err);

// ---- plan.c: how a node becomes kernels ----

#define PLAN_OPERANDS (KERNEL_MAX_INPUTS + 1) // the inputs, then the result

struct plan_operand {
    bool staged;        // passes through scratch
    struct view tensor; // as ggml has it
    struct view kernel; // as the kernel has it: the same, or contiguous without a place yet
    size_t step;        // bytes from one unit to the next, where there are chunks
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

// Is there such a kernel, of those that take no longer than one may? by_command: those of
// GGML_HSA_JIT_COMMAND count as well.
bool plan_can(struct store * store, const struct kernel_spec * spec, bool by_command);
// Why plan_can says no.
void plan_why_not(struct store * store, const struct kernel_spec * spec, struct error * err);
enum kernel_precision plan_precision(void); // of GGML_HSA_PRECISION
// Views as kernels have them; the datatype is one that kernels exist for.
struct tensor plan_tensor(const struct view * v);
bool plan_clobbers(const struct view * dst, const struct view * src);
