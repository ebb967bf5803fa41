// cpu: ggml's CPU backend in the process that loaded us, if it has one. Programs link it, load it,
// or let ggml load the best of several builds of it, before us or after; so it is looked for when
// it is needed, and is never kept without being looked for again.
#pragma once

#include "ggml-backend.h"

// NULL when no CPU backend is registered (yet).
ggml_backend_dev_t cpu_device(void);

// How rows of this type are made of floats: as the CPU backend of this process does it, and where
// there is none as ggml's reference does. They do not agree to the last bit: of q8_0 each
// instruction set has its own way to scale and to round. NULL when ggml has no way at all.
ggml_from_float_t cpu_from_float(enum ggml_type type);
