// models: the cards.
#include "emu/gfx/models.h"

#include <string.h>

const struct emu_gpu_model emu_gpu_models[EMU_GPU_MODELS] = {
    {
        .arch = GFX_90A,
        .isa = "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-",
        .product = "AMD Instinct MI210",
        .mach = 0x3f,
        .version = 90010,
        .has_features = true,
        .chip_id = 0x740f,
        .wavefront = 64,
        .compute_units = 104,
        .simds_per_cu = 4,
        .waves_per_cu = 32,
        .shader_engines = 8,
        .arrays_per_engine = 1,
        .clock_mhz = 1700,
        .memory_mhz = 1600,
        .memory_bits = 4096,
        .copy_engines = 2,
        .cacheline = 64,
        .caches = {16 << 10, 8 << 20},
        .lds_bytes = 64 << 10,
        .vram_bytes = (uint64_t) 64 << 30,
    },
    {
        .arch = GFX_942,
        .isa = "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-",
        .product = "AMD Instinct MI300X",
        .mach = 0x4c,
        .version = 90402,
        .has_features = true,
        .chip_id = 0x74a1,
        .wavefront = 64,
        .compute_units = 304,
        .simds_per_cu = 4,
        .waves_per_cu = 32,
        .shader_engines = 32,
        .arrays_per_engine = 1,
        .clock_mhz = 2100,
        .memory_mhz = 1300,
        .memory_bits = 8192,
        .copy_engines = 2,
        .cacheline = 64,
        .caches = {32 << 10, 4 << 20, 256 << 20},
        .lds_bytes = 64 << 10,
        .vram_bytes = (uint64_t) 192 << 30,
    },
    {
        .arch = GFX_1100,
        .isa = "amdgcn-amd-amdhsa--gfx1100",
        .product = "AMD Radeon RX 7900 XTX",
        .mach = 0x41,
        .version = 110000,
        .chip_id = 0x744c,
        .wavefront = 32,
        .compute_units = 96,
        .simds_per_cu = 2,
        .waves_per_cu = 32,
        .shader_engines = 6,
        .arrays_per_engine = 2,
        .clock_mhz = 2482,
        .memory_mhz = 1249,
        .memory_bits = 384,
        .copy_engines = 2,
        .cacheline = 64,
        .caches = {32 << 10, 6 << 20, 96 << 20},
        .lds_bytes = 64 << 10,
        .vram_bytes = (uint64_t) 24 << 30,
    },
    {
        // The GPU of a Ryzen AI Max, beside its NPU; what firmware sets apart of 128 GiB.
        .arch = GFX_1151,
        .isa = "amdgcn-amd-amdhsa--gfx1151",
        .product = "AMD Radeon 8060S",
        .mach = 0x4a,
        .version = 110501,
        .integrated = true,
        .chip_id = 0x1586,
        .wavefront = 32,
        .compute_units = 40,
        .simds_per_cu = 2,
        .waves_per_cu = 32,
        .shader_engines = 2,
        .arrays_per_engine = 2,
        .clock_mhz = 2900,
        .memory_mhz = 1000,
        .memory_bits = 256,
        .copy_engines = 1,
        .cacheline = 64,
        .caches = {32 << 10, 2 << 20, 32 << 20},
        .lds_bytes = 64 << 10,
        .vram_bytes = (uint64_t) 64 << 30,
    },
};

const struct emu_gpu_model * emu_gpu_model(const char * name, size_t n) {
    for (size_t i = 0; i < EMU_GPU_MODELS; i++) {
        const char * known = gfx_arch_name(emu_gpu_models[i].arch);
        if (strlen(known) == n && !memcmp(known, name, n)) {
            return &emu_gpu_models[i];
        }
    }
    return NULL;
}

const struct emu_gpu_model * emu_gpu_model_by_version(uint32_t version) {
    for (size_t i = 0; i < EMU_GPU_MODELS; i++) {
        if (emu_gpu_models[i].version == version) {
            return &emu_gpu_models[i];
        }
    }
    return NULL;
}
