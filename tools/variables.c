// variables: the one list of the variables that ggml-hsa reads, and what the environment has of
// them. A test compares it with what the sources read and with what the documents explain.
#include "probe.h"

#include "words.h"

#include <string.h>

extern char ** environ;

const struct probe_known probe_variables[] = {
    {"GGML_BACKEND_PATH", "the plugin that ggml programs load"},
    {"GGML_HSA_AIE_ABI", "packet format: B, C or D"},
    {"GGML_HSA_EMULATE", "NPUs and GPUs to emulate"},
    {"GGML_HSA_EMU_ADDER", "how emulated aie2p cores add floats: aligned or ieee"},
    {"GGML_HSA_EMU_CACHES", "emulated NPUs see memory behind the CPU's caches"},
    {"GGML_HSA_EMU_CLOCK", "device whose times are modelled: phoenix, strix, ideal or a file"},
    {"GGML_HSA_EMU_CONTEXT_IDS", "ids of hardware contexts before they come round"},
    {"GGML_HSA_EMU_PLANT", "a difference that tools must find: an instruction or a lock"},
    {"GGML_HSA_EMU_REST", "emulated NPUs forget everything between two doorbells"},
    {"GGML_HSA_EMU_ROCR_BUGS", "emulate ROCr 7.2 with its faults"},
    {"GGML_HSA_EMU_STRICT", "emulated hardware does all that real hardware may do"},
    {"GGML_HSA_EMU_THREADS", "host threads that run the cores of an emulated NPU"},
    {"GGML_HSA_EMU_TIME", "HSA's timestamps: modelled or host"},
    {"GGML_HSA_EMU_TRACE", "tile whose instructions are printed"},
    {"GGML_HSA_ENABLE_LOG", "say what is done"},
    {"GGML_HSA_FLUSH", "the CPU's caches are flushed for NPUs as: touched (default) or declared"},
    {"GGML_HSA_GOLDEN_REQUIRED", "tests fail where golden data is missing"},
    {"GGML_HSA_HOST_FALLBACK", "unsupported ops on the CPU"},
    {"GGML_HSA_IRON_ENV", "where env_setup.sh puts its Python environment"},
    {"GGML_HSA_JIT_CLEAR_CACHE", "older name of GGML_HSA_KERNEL_CACHE_CLEAR"},
    {"GGML_HSA_JIT_COMMAND", "external kernel compiler"},
    {"GGML_HSA_JIT_TIMEOUT", "its time limit in seconds"},
    {"GGML_HSA_JIT_VERBOSE", "a line for each kernel that is made; a command's output"},
    {"GGML_HSA_JOIN", "kernels on one PDI are sent as one dispatch"},
    {"GGML_HSA_KERNEL_CACHE_CLEAR", "begin with an empty cache"},
    {"GGML_HSA_KERNEL_CACHE_DIR", "directory of the cache"},
    {"GGML_HSA_KERNEL_CACHE_MAX_SIZE", "its size limit"},
    {"GGML_HSA_KERNEL_DIR", "directories of kernels made ahead of time"},
    {"GGML_HSA_KERNEL_MEMORY", "bytes of kernels that are kept in memory"},
    {"GGML_HSA_MUL_MAT", "matrix products: precise, bf16 or block"},
    {"GGML_HSA_PANELS", "weights lie as the array reads them: 1 (default) or 0"},
    {"GGML_HSA_PRECISION", "f32 functions: fast (default) or exact"},
    {"GGML_HSA_PROFILE", "print where the time went, by op or by kernel"},
    {"GGML_HSA_RECORD", "file that the kernels which were needed are written to"},
    {"GGML_HSA_RUNTIME", "HSA runtime library, or native"},
    {"GGML_HSA_SKIP_DRIVER_CHECK", "start a runtime also without /dev/kfd"},
    {"GGML_HSA_TRACE", "file for what the emulated NPU did over time"},
    {"GGML_HSA_WAIT_LIMIT", "seconds that a device may be silent"},
    {"CANDLE_ROCM_ARCH", "architecture to compile GPU kernels for"},
    {"CANDLE_ROCM_CACHE_DIR", "directory of the cache of GPU kernels"},
    {"CANDLE_ROCM_FORCE_RECOMPILE", "compile every GPU kernel anew"},
    {"CANDLE_ROCM_VERSION", "ROCm version in the names of GPU kernels"},
    {"ROCM_GFX_ARCH", "like CANDLE_ROCM_ARCH, asked after it"},
    {"ROCM_KERNELS_CACHE_MAX_SIZE", "size limit of the cache of GPU kernels"},
    {"ROCM_KERNELS_CACHE_READ_ONLY", "use the cache of GPU kernels as it is"},
    {"ROCM_KERNELS_COMPILER", "compiler of GPU kernels"},
    {"ROCM_PATH", "where ROCm is"},
    {NULL, NULL},
};

void probe_environment(void (*visit)(void * user, const struct probe_variable * v), void * user) {
    for (char ** e = environ; e && *e; e++) {
        size_t n = strcspn(*e, "=");
        struct probe_variable v = {.name = *e, .name_size = n, .value = *e + n + ((*e)[n] != 0)};
        int best = 4; // closer than this is taken for a typing error
        for (const struct probe_known * k = probe_variables; k->name; k++) {
            int d = words_distance(*e, n, k->name, strlen(k->name));
            if (d == 0) {
                v.meaning = k->meaning;
            } else if (d < best) {
                best = d;
                v.alike = k->name;
            }
        }
        if ((*e)[n] && (v.meaning || !strncmp(*e, "GGML_HSA_", 9))) {
            visit(user, &v);
        }
    }
}
