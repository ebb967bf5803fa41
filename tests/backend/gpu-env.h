// gpu-env: the environment in which tests run the plugin on emulated GPUs.
#pragma once

#include "hip/hip-impl.h"
#include "skip.h"

#include <stdlib.h>

static inline bool gpu_have_compiler(void) {
    struct hip_toolchain t = {.root = -1};
    hip_toolchain_find(&t, "clang", NULL);
    bool have = t.clang && clang_has_linker(t.clang);
    hip_toolchain_free(&t);
    return have;
}

// Modules are compiled once for all tests and runs of this build.
static inline void gpu_env(const char * emulate) {
    static const char * const unset[] = {
        "GGML_HSA_RUNTIME", "GGML_HSA_HOST_FALLBACK",      "CANDLE_ROCM_ARCH",
        "ROCM_GFX_ARCH",    "ROCM_KERNELS_CACHE_MAX_SIZE", "CANDLE_ROCM_FORCE_RECOMPILE"};
    for (size_t i = 0; i < sizeof unset / sizeof unset[0]; i++) {
        unsetenv(unset[i]);
    }
    setenv("GGML_HSA_EMULATE", emulate, 1);
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 1);
    setenv("CANDLE_ROCM_VERSION", "0", 1);
    setenv("ROCM_KERNELS_COMPILER", "clang", 1); // hipcc takes four times as long
    setenv("CANDLE_ROCM_CACHE_DIR", GPU_CACHE, 1);
}
