// host-ops: what the host computes inside the plugin, with any strides, shapes and datatypes that
// ggml's CPU backend has. Moving tensors about is what it is for: copies, rows by index, joined and
// repeated tensors, for the device's memory is the host's as well. What the array can move it is
// given (moves.h); the rest is done here. The same functions lay out operands that no kernel takes
// as they are.
#pragma once

#include "backend/view.h"
#include "base/base.h"

// ---- host-nodes.c: whole nodes ----

// Does host_compute know this op?
bool host_has(enum ggml_op op);
// Is the node one that it can do? Looks at types and layouts, never at data.
enum status host_check_node(const struct ggml_tensor * node, struct error * err);
// ST_INVALID when an index in the data points outside; otherwise fails with ST_NO_MEMORY alone.
enum status host_compute(struct ggml_tensor * node, struct error * err);

// ---- host-ops.c: copies ----

bool host_can_copy(const struct ggml_tensor * src, const struct ggml_tensor * dst);

// Copies src's elements in order into dst, which has as many; the shapes may differ. Beside the
// pairs of host_can_copy there is i32 to i64. The only failure is ST_NO_MEMORY.
enum status host_copy(const struct view * src, const struct view * dst, struct error * err);

// Fills dst with src repeated along each dimension. Both types are equal, or both are float types
// (f32, f16, bf16).
enum status host_expand(const struct view * src, const struct view * dst, struct error * err);

// Can rows of floats be quantized to it as they are?
bool host_can_quantize_to(enum ggml_type t);

// Rows of n elements as floats and back. Quantized rows are packed, others have any stride.
void host_load_row(enum ggml_type type, const char * src, size_t stride, int64_t n, float * out);
void host_store_row(enum ggml_type type, char * dst, size_t stride, int64_t n, const float * in);
enum status host_row_alloc(int64_t n, float ** row, struct error * err); // the caller frees it

// ---- host-rows.c: GET_ROWS and SET_ROWS ----

bool host_can_get_rows(const struct ggml_tensor * node);
enum status host_get_rows(const struct ggml_tensor * node, struct error * err);
bool host_can_set_rows(const struct ggml_tensor * node);
enum status host_set_rows(const struct ggml_tensor * node, struct error * err);

// One element of the index tensor, which the tensor repeats along dimensions 1 and 2; and the error
// of one that points outside.
int64_t rows_index(const struct ggml_tensor * t, int64_t i0, int64_t i1, int64_t i2);
enum status rows_bad_index(int64_t index, int64_t rows, struct error * err);
