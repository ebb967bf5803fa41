// panels-impl: the list of a buffer's tensors that do not lie as ggml has them, for the files of
// panels. The list's lock is held by who calls.
#pragma once

#include "panels.h"

enum kind {
    WEIGHTS,
    HEADS, // a cache
    PLAIN, // a cache that lies row behind row, and stays so
};

struct paneled {
    struct view view; // the tensor
    size_t bytes, row_bytes;
    struct kernel_panel panel;
    enum kind kind;
};

// The first from `at` on that begins before `end`; NULL: there is none.
struct paneled * panels_next(const struct panels * all, const char * at, const char * end);
bool panels_is_same(const struct paneled * p, const struct view * v);
bool panels_remember(struct panels * all, const struct paneled * p); // false: no memory
// In place, to panels or back; false: no memory, and nothing was done.
bool panels_lay_out(struct panels * all, const struct paneled * p, bool to_panels);
