// gpus: the architectures of AMD's GPUs, see gpus.def.
#pragma once

#include "base/base.h"

struct gpu_name {
    const char * name;
    uint8_t mach, clang;
    uint16_t hip;
    bool in_all;
};

enum {
#define GPU(name, mach, hip, clang, in_all) GPU_OF_##name,
#include "base/gpus.def"
#undef GPU
    GPU_NAMES
};

extern const struct gpu_name gpu_names[GPU_NAMES];

// NULL: not in the table.
const struct gpu_name * gpu_by_name(const char * name);
const struct gpu_name * gpu_by_mach(uint32_t mach);
