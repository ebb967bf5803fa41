// gpu: a graph's nodes on a GPU, through the HIP kernels of src/hip. A GPU has memory of its own,
// so that nothing here touches a tensor's bytes: what a kernel does not take as it is, another
// kernel lays out. supports_op and graph_compute run the same code; asked without a stream it ends
// where the first kernel would be sent, and so the two cannot disagree.
#pragma once

#include "backend/stream.h"

#include "rocm-kernels.h"

#include <string.h>

// ---- kernels.c: the kernels of one GPU ----

enum status gpu_new(struct hsac * runtime, struct hsac_agent * agent, struct gpu ** out,
                    struct error * err);
// The kernel is compiled, or found in the cache, and loaded when it is first wanted. The result is
// remembered, failures included. Thread safe.
enum status gpu_kernel(struct gpu * gpu, const char * name, const struct rocm_function ** out,
                       struct error * err);
uint64_t gpu_compiles(struct gpu * gpu); // programs that were run to compile

// ---- nodes.c ----

extern const struct device_kind gpu_kind;

struct gpu_call { // one node
    struct hsa_device * device;
    struct hsa_stream * stream; // NULL: would it work?
};

struct gpu_grid {
    uint32_t items[3]; // work-items, a multiple of the group's
    uint32_t group;    // of x; 1 of y and z
};

// Sends a kernel. args is its struct of kernels.h.
enum status gpu_launch(const struct gpu_call * c, const char * kernel, const void * args,
                       size_t args_size, struct gpu_grid grid, struct error * err);
const char * gpu_type_name(enum ggml_type t); // as kernels have it; NULL: they have it not
bool gpu_is_float(enum ggml_type t);          // f32, f16, bf16

// The place that a kernel writes its result to: the node, or scratch that is copied to it behind
// the kernel.
struct gpu_result {
    struct view view; // what the kernel writes
    struct view node;
    bool staged;
};

// The result goes to scratch where the node overlaps an input, and where the kernel writes results
// one behind the other and the node's do not lie so. The first `in_place` inputs may lie exactly
// where the node does: the kernel reads and writes an element of these in the same work-item.
enum status gpu_result_begin(const struct gpu_call * c, const struct ggml_tensor * node,
                             bool contiguous, int in_place, struct gpu_result * out,
                             struct error * err);
enum status gpu_result_end(const struct gpu_call * c, const struct gpu_result * r,
                           struct error * err);

// ---- walk.c: one work-item for each element ----

#define GPU_OPERANDS 3

// A kernel whose struct is a shape, the strides of n views, their addresses and a tail: rk_unary,
// rk_binary and their like. The last view is the result; the others repeat to its shape.
enum status gpu_elementwise(const struct gpu_call * c, const char * kernel,
                            const struct view views[GPU_OPERANDS], int n, const void * tail,
                            size_t tail_size, struct error * err);
enum status gpu_copy(const struct gpu_call * c, const struct view * from, const struct view * to,
                     struct error * err);

// ---- rows.c: one group for each row; mat.c: products; index.c: rows by index; rope.c;
// attention.c ----

enum status gpu_soft_max(const struct gpu_call * c, const struct ggml_tensor * node,
                         struct error * err);
enum status gpu_norm(const struct gpu_call * c, const struct ggml_tensor * node,
                     struct error * err);
enum status gpu_reduce(const struct gpu_call * c, const struct ggml_tensor * node,
                       struct error * err);
enum status gpu_sort(const struct gpu_call * c, const struct ggml_tensor * node,
                     struct error * err);
enum status gpu_mul_mat(const struct gpu_call * c, const struct ggml_tensor * node,
                        struct error * err);
// Columns that became bytes serve the products that follow, until scratch is given back or somebody
// writes to them.
void gpu_bytes_drop(struct hsa_stream * s);
void gpu_bytes_written(struct hsa_stream * s, const void * begin, size_t bytes);
enum status gpu_out_prod(const struct gpu_call * c, const struct ggml_tensor * node,
                         struct error * err);
enum status gpu_mul_mat_id(const struct gpu_call * c, const struct ggml_tensor * node,
                           struct error * err);
enum status gpu_attention(const struct gpu_call * c, const struct ggml_tensor * node,
                          struct error * err);
enum status gpu_get_rows(const struct gpu_call * c, const struct ggml_tensor * node,
                         struct error * err);
enum status gpu_set_rows(const struct gpu_call * c, const struct ggml_tensor * node,
                         struct error * err);
enum status gpu_rope(const struct gpu_call * c, const struct ggml_tensor * node,
                     struct error * err);

// ---- ops.c: nodes that a kernel takes as they are, by ops.def ----

bool gpu_has_op(enum ggml_op op);
enum status gpu_op(const struct gpu_call * c, const struct ggml_tensor * node, struct error * err);

// ---- fuse.c ----

bool gpu_fuse(const struct ggml_tensor * const nodes[], int n, struct ggml_tensor * out);

static inline float gpu_param(const struct ggml_tensor * node, int i) { // a word of op_params
    float f;
    memcpy(&f, &node->op_params[i], sizeof f);
    return f;
}

// Strides in elements, as kernels take them. False: a stride is no whole number of elements, or
// needs more than 32 bits.
bool gpu_strides(const struct view * v, uint32_t out[GGML_MAX_DIMS]);
