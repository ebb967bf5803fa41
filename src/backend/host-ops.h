// host-ops: moving tensors about on the host, with any strides, shapes and datatypes that ggml's
// CPU backend can copy between. It is the DUP, CPY and CONT of the device (whose memory the host
// sees), and lays out operands that no kernel takes as they are.
#pragma once

#include "base/base.h"
#include "ggml.h"

struct host_view {
    enum ggml_type type;
    int64_t ne[GGML_MAX_DIMS];
    size_t nb[GGML_MAX_DIMS];
    char * data;
};

struct host_view host_view_of(const struct ggml_tensor * t);
struct host_view host_view_contiguous(enum ggml_type type, const int64_t ne[GGML_MAX_DIMS],
                                      void * data);

// Can host_copy do it? Looks at types and layouts, never at data.
bool host_can_copy(const struct ggml_tensor * src, const struct ggml_tensor * dst);

// Copies src's elements in order into dst, which has as many; the shapes may differ. The only
// failure is ST_NO_MEMORY.
enum status host_copy(const struct host_view * src, const struct host_view * dst,
                      struct error * err);

// Fills dst with src repeated along each dimension. Both types are equal, or both are float types
// (f32, f16, bf16).
enum status host_expand(const struct host_view * src, const struct host_view * dst,
                        struct error * err);
