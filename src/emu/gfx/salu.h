// salu.h: what the two halves of scalar arithmetic share, whole numbers (salu.c) and floats
// (salu-float.c). Nobody else includes it.
#pragma once

#include "emu/gfx/impl.h"

struct salu {
    uint64_t a, b, d; // sources, and the destination as it was
    uint32_t c;       // a third source, of s_fmaak and s_fmamk
    bool scc;
};

typedef void (*salu_fn)(struct salu * x);

#define SALU(n, d, a, b) void gfx_salu_##n(struct salu * x);
#include "emu/gfx/ops.def"
