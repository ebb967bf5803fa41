// inplace: a product that a ROPE reads and nobody else is written to where the ROPE's result goes,
// which turns it there. ggml's allocator gives such a product memory of its own, and that memory to
// the next product behind the ROPE: queries, keys and values would have to be computed one after
// the other, each with its ROPE. On the NPU each of them would load PDIs in a prompt, and in a
// token ROPEs could not run beside each other.
#pragma once

#include "backend.h"

struct inplace { // tensors that lie elsewhere while a graph is computed
    size_t n, room;
    struct inplace_was {
        struct ggml_tensor * tensor;
        void * data;
        ggml_backend_buffer_t buffer;
    } * was;
};

void inplace_begin(struct inplace * p, struct ggml_cgraph * graph);
void inplace_end(struct inplace * p); // all are where they were
