// cpu: ggml's CPU backend in the process that loaded us, if it has one. Programs link it, load it,
// or let ggml load the best of several builds of it, before us or after; so it is looked for when
// it is needed, and is never kept without being looked for again.
#pragma once

#include "ggml-backend.h"

// NULL when no CPU backend is registered (yet).
ggml_backend_dev_t cpu_device(void);

// The function that makes rows of this type from floats: that of the CPU backend in this process,
// or ggml's reference where there is none. The two do not agree to the last bit, because each
// instruction set scales and rounds q8_0 in its own way. NULL: ggml has no such function.
ggml_from_float_t cpu_from_float(enum ggml_type type);
