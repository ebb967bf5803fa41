// models: the GPUs that can be emulated, as the cards are that one can buy. The emulated runtime
// answers questions with these figures, and the topology for AMD's own runtime is written from
// them.
#pragma once

#include "emu/gfx/gfx.h"

enum { EMU_GPU_MODELS = 4, EMU_GPU_CACHES = 4 };

struct emu_gpu_model {
    enum gfx_arch arch;
    const char * isa; // in the emulated runtime its handle is the address of this struct
    const char * product;
    uint32_t mach;     // in e_flags of code objects
    uint32_t version;  // as the kernel driver writes it: 110000 is gfx1100, 90402 gfx942
    bool integrated;   // in one chip with the processor
    bool has_features; // xnack off and sramecc on; otherwise it knows neither
    uint32_t chip_id, wavefront, compute_units, simds_per_cu, waves_per_cu, shader_engines,
        arrays_per_engine, clock_mhz, memory_mhz, memory_bits, copy_engines, cacheline;
    uint32_t caches[EMU_GPU_CACHES]; // bytes
    uint32_t lds_bytes;
    uint64_t vram_bytes;
};

extern const struct emu_gpu_model emu_gpu_models[EMU_GPU_MODELS];

// NULL: not known.
const struct emu_gpu_model * emu_gpu_model(const char * name, size_t n);
const struct emu_gpu_model * emu_gpu_model_by_version(uint32_t version);
