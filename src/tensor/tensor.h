// tensor: datatype, four dimensions and strides, and their text form
// `(d0,d1,d2,d3)/dtype[/(s0,s1,s2,s3)]`. Dimension 0 is the innermost, as in ggml; strides are in
// bytes.
#pragma once

#include "base/base.h"

enum dtype { DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_I8, DTYPE_I16, DTYPE_I32, DTYPE_COUNT };

const char * dtype_name(enum dtype t); // "f32"
bool dtype_parse(const char * text, enum dtype * out);
int dtype_size(enum dtype t); // bytes of one element

#define TENSOR_DIMS 4

struct tensor {
    enum dtype dtype;
    int64_t ne[TENSOR_DIMS]; // elements; each at least 0
    int64_t nb[TENSOR_DIMS]; // stride in bytes
};

// Strides beyond 64 bits become INT64_MAX (tensor_elements or tensor_bytes is then -1).
struct tensor tensor_contiguous(enum dtype t, const int64_t ne[TENSOR_DIMS]);
// The same elements with the stride of each dimension of one element, which nothing ever follows,
// set to what packing would give: two tensors lie alike exactly when these are equal.
struct tensor tensor_canonical(const struct tensor * t);
int64_t tensor_elements(const struct tensor * t); // -1 on overflow
int64_t tensor_bytes(const struct tensor * t);    // span from first to last byte, -1 on overflow
bool tensor_is_contiguous(const struct tensor * t);
bool tensor_same_shape(const struct tensor * a, const struct tensor * b);
// True when b repeated along each dimension gives a's shape (ggml_can_repeat(b, a)).
bool tensor_can_repeat(const struct tensor * b, const struct tensor * a);

enum status tensor_parse(const char * text, struct tensor * out, struct error * err);
void tensor_print(const struct tensor * t, struct buf * b); // strides only where not contiguous
