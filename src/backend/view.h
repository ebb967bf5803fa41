// view: a tensor as it lies in memory, apart from the node that it belongs to: a half of it, a
// part, what a kernel is to see in its place.
#pragma once

#include "ggml.h"

#include <stdbool.h>

struct view {
    enum ggml_type type;
    int64_t ne[GGML_MAX_DIMS];
    size_t nb[GGML_MAX_DIMS];
    char * data;
};

struct view view_of(const struct ggml_tensor * t);
struct view view_contiguous(enum ggml_type type, const int64_t ne[GGML_MAX_DIMS], void * data);
size_t view_bytes(const struct view * v); // from the first to the last; 0 when empty
bool view_is_packed(const struct view * v);
// Would writing dst spoil what is still to be read of src? An element over itself is fine. dst is
// written in whole units, a power of two.
bool view_clobbers(const struct view * dst, size_t unit, const struct view * src);
