// variables: the list, and what a value is held against. Values that are wrong are ignored by those
// who read them, as if the variable were not set; here is only said which are.
#include "variables.h"

#include "base.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FLAG   .kind = VARIABLE_FLAG
#define NUMBER .kind = VARIABLE_NUMBER
#define SIZE   .kind = VARIABLE_SIZE
#define WORD   .kind = VARIABLE_WORD

// clang-format off
const struct variable variables[] = {
    {"GGML_HSA_EMULATE", .takes = "aie2, aie2p, npu1, npu4, npu5, npu6, gfx90a, gfx942, gfx1100, gfx1151, or several with commas",
     .meaning = "use the emulated runtime with these devices; aie2p:4 is one with four columns", .said = true},
    {"GGML_HSA_RUNTIME", .takes = "native, or the path of an HSA runtime",
     .meaning = "not set: our own runtime for the NPU where the kernel has a driver for it, the system's for GPUs"},
    {"GGML_HSA_MUL_MAT", WORD, .words = "precise bf16 lanes block block-lean", .said = true,
     .meaning = "matrix products with 16 bits of each factor instead of 8; never; or, on aie2p, with shared exponents not even for quantized weights (lanes), or for all that bf16 would do (block-lean: keeping no second form of quantized weights)"},
    {"GGML_HSA_PRECISION", WORD, .words = "fast exact", .said = true,
     .meaning = "float functions: an NMSE of at most 1e-9, the default, or at most 5 units in the last place of f32"},
    {"GGML_HSA_HOST_FALLBACK", FLAG,
     .meaning = "1: claim every op of ggml's CPU backend, and compute those without a kernel on the CPU; 0: never"},
    {"GGML_HSA_EXPLAIN", FLAG,
     .meaning = "1: say to standard error why a device does not compute a node, once for each op and shape"},
    {"GGML_HSA_SHARE", FLAG,
     .meaning = "1: GPUs compute in the memory of the NPU beside them, so that nothing is copied between them; where a runtime refuses, each has its own"},
    {"GGML_HSA_ENABLE_LOG", FLAG, .meaning = "say which runtime and devices were found; on in debug builds"},
    {"GGML_HSA_PROFILE", FLAG, .words = "kernels order",
     .meaning = "print at the end where the time went, by op; kernels: by kernel, the dearest first; order: as they were sent"},
    {"GGML_HSA_KERNEL_DIR", .takes = "directories, with colons between them", .meaning = "kernel packs"},
    {"GGML_HSA_KERNEL_CACHE_DIR", .takes = "a directory",
     .meaning = "where compiled kernels are kept; default $XDG_CACHE_HOME/ggml or ~/.cache/ggml"},
    {"GGML_HSA_KERNEL_CACHE_MAX_SIZE", SIZE, .said = true, .meaning = "limit of the cache; default 1G, 0: no cache"},
    {"GGML_HSA_KERNEL_CACHE_CLEAR", FLAG, .meaning = "remove all kernels from the cache first"},
    {"GGML_HSA_KERNEL_MEMORY", SIZE, .said = true,
     .meaning = "memory limit for compiled kernels, 64M by default; those of a running graph do not count"},
    {"GGML_HSA_JIT", FLAG, .meaning = "0: compile nothing; kernels come from packs and the cache alone"},
    {"GGML_HSA_JIT_CLEAR_CACHE", .takes = "anything but 0, false, off or no", .meaning = "older name of GGML_HSA_KERNEL_CACHE_CLEAR"},
    {"GGML_HSA_JIT_COMMAND", .takes = "a program and its first arguments", .meaning = "an external kernel compiler"},
    {"GGML_HSA_JIT_TIMEOUT", NUMBER, .least = 1, .most = 86400,
     .meaning = "seconds that it may take for a kernel; default 600"},
    {"GGML_HSA_JIT_VERBOSE", FLAG, .meaning = "a line for each kernel that is made, and the output of such a command"},
    {"GGML_HSA_IRON_ENV", .takes = "a directory",
     .meaning = "where env_setup.sh puts the Python environment of such a compiler; default .iron"},
    {"GGML_HSA_RECORD", .takes = "a file", .meaning = "write down the configuration of every kernel that a run needs"},
    {"GGML_HSA_TRACE", .takes = "a file", .meaning = "write what the emulated NPU did over modelled time"},
    {"GGML_HSA_JOIN", FLAG,
     .meaning = "consecutive kernels on one PDI are sent as one dispatch, the default; 0 sends each alone"},
    {"GGML_HSA_PANELS", FLAG, .meaning = "0: weights stay in memory row by row, as ggml has them"},
    {"GGML_HSA_PLANES", FLAG,
     .meaning = "1: q4_1, q5_0, q5_1, q2_K, q3_K and iq4_xs weights are read as they are, not kept as bf16; for models that have no other types"},
    {"GGML_HSA_WAIT_LIMIT", NUMBER, .most = 1000000,
     .meaning = "seconds that a device may give no sign of life before its graph fails; default 60, no limit for an emulated one; 0: none"},
    {"GGML_HSA_FLUSH", WORD, .words = "touched declared", .said = true,
     .meaning = "flush from the CPU's caches what the host touched, the default, or all that packets declare"},
    {"GGML_HSA_AIE_ABI", WORD, .words = "B C D", .said = true,
     .meaning = "packet format of the system's runtime, where the choice made is wrong"},
    {"GGML_HSA_SKIP_DRIVER_CHECK", FLAG, .meaning = "open the system's runtime though /dev/kfd is missing"},
    {"GGML_HSA_EMU_STRICT", FLAG, .meaning = "the emulated hardware does everything that real hardware may do"},
    {"GGML_HSA_EMU_CLOCK", .takes = "phoenix, strix, ideal, with settings behind commas, or a file of figures", .said = true,
     .meaning = "whose times the emulated NPU models"},
    {"GGML_HSA_EMU_TIME", WORD, .words = "modelled host", .said = true,
     .meaning = "HSA's timestamps of the emulated runtime; default host"},
    {"GGML_HSA_EMU_THREADS", NUMBER, .least = 1, .most = 8, .said = true,
     .meaning = "host threads that run the cores of an emulated NPU; default: as many as the process has CPUs"},
    {"GGML_HSA_EMU_TRACE", .takes = "col,row", .said = true, .meaning = "print each instruction of that tile"},
    {"GGML_HSA_EMU_CACHES", NUMBER, .words = "true on yes false off no", .most = 1000000000,
     .meaning = "1: emulated NPUs see memory behind the CPU's caches; more: a seed for lines that are written back by themselves; 0: not even a strict one"},
    {"GGML_HSA_EMU_REST", FLAG,
     .meaning = "the array of an emulated NPU is cleared before each doorbell; 0: not even a strict one's"},
    {"GGML_HSA_EMU_ROCR_BUGS", FLAG,
     .meaning = "the emulated runtime takes ROCr 7.2's packets and has its faults; 0: not even a strict one"},
    {"GGML_HSA_EMU_CONTEXT_IDS", NUMBER, .least = 1, .most = 255,
     .meaning = "with those faults: how many ids hardware contexts have before they are used again"},
    {"GGML_HSA_EMU_ADDER", WORD, .words = "aligned ieee", .said = true,
     .meaning = "how emulated aie2p cores add floats"},
    {"GGML_HSA_EMU_PLANT", .takes = "an instruction as VADD_8=VSUB_8, or lock=COL,ROW,NUMBER", .said = true,
     .meaning = "a fault for tools to find"},
    {"GGML_HSA_GOLDEN_REQUIRED", FLAG, .meaning = "tests fail where golden data is missing"},
    {"GGML_BACKEND_PATH", .takes = "a file", .meaning = "the plugin that ggml programs load"},
    {"CANDLE_ROCM_ARCH", .takes = "an architecture, as gfx1100", .meaning = "architecture to compile GPU kernels for"},
    {"CANDLE_ROCM_CACHE_DIR", .takes = "a directory", .meaning = "cache of GPU kernels"},
    {"CANDLE_ROCM_FORCE_RECOMPILE", FLAG, .meaning = "compile every GPU kernel anew"},
    {"CANDLE_ROCM_VERSION", .takes = "a version, as 6.1", .meaning = "ROCm version in the names of GPU kernels"},
    {"ROCM_GFX_ARCH", .takes = "an architecture", .meaning = "like CANDLE_ROCM_ARCH, asked after it"},
    {"ROCM_KERNELS_CACHE_MAX_SIZE", SIZE, .said = true, .meaning = "limit of the cache of GPU kernels; default 1G"},
    {"ROCM_KERNELS_CACHE_READ_ONLY", FLAG, .meaning = "use the cache of GPU kernels as it is"},
    {"ROCM_KERNELS_COMPILER", .takes = "a program", .meaning = "compiler of GPU kernels"},
    {"ROCM_PATH", .takes = "a directory", .meaning = "where ROCm is"},
    {.name = NULL},
};
// clang-format on

static bool among(const char * words, const char * value, bool any_case) {
    size_t size = strlen(value);
    for (const char * w = words; w && *w;) {
        size_t n = strcspn(w, " ");
        if (n == size && !(any_case ? strncasecmp(w, value, n) : strncmp(w, value, n))) {
            return true;
        }
        w += n + (w[n] == ' ');
    }
    return false;
}

static bool is_number(const struct variable * v, const char * value) {
    char * end;
    errno = 0;
    long n = strtol(value, &end, 10);
    return isdigit((unsigned char) *value) && !*end && !errno && n >= v->least && n <= v->most;
}

static bool is_size(const char * value) {
    size_t n = strspn(value, "0123456789");
    return n && (!value[n] || (strchr("KMGTkmgt", value[n]) && !value[n + 1]));
}

// An empty value counts as not set.
static bool variable_takes(const struct variable * v, const char * value) {
    if (!*value) {
        return true;
    }
    switch (v->kind) {
    case VARIABLE_FLAG:
        return among("1 true on yes 0 false off no", value, true) || among(v->words, value, false);
    case VARIABLE_NUMBER:
        return is_number(v, value) || among(v->words, value, true);
    case VARIABLE_SIZE:
        return is_size(value);
    case VARIABLE_WORD:
        return among(v->words, value, false);
    case VARIABLE_TEXT:
        break;
    }
    return true;
}

void variable_phrase(const struct variable * v, char * text, size_t size) {
    struct buf b = {0};
    switch (v->kind) {
    case VARIABLE_FLAG:
        buf_printf(&b, "%s", !v->words ? "1 or 0" : strchr(v->words, ' ') ? "1, 0, " : "1, 0 or ");
        break;
    case VARIABLE_NUMBER:
        buf_printf(&b, "a number from %ld to %ld", v->least, v->most);
        break;
    case VARIABLE_SIZE:
        buf_printf(&b, "bytes, or with K, M, G, T");
        break;
    case VARIABLE_TEXT:
        buf_printf(&b, "%s", v->takes);
        break;
    case VARIABLE_WORD:
        break;
    }
    for (const char * w = v->kind == VARIABLE_NUMBER ? NULL : v->words; w && *w;) {
        size_t n = strcspn(w, " ");
        bool last = !w[n];
        buf_printf(&b, "%s%.*s", w == v->words ? "" : last ? " or " : ", ", (int) n, w);
        w += n + !last;
    }
    snprintf(text, size, "%s", b.data ? (const char *) b.data : "?");
    buf_free(&b);
}

void variables_wrong(void (*visit)(void * user, const struct variable * v, const char * value),
                     void * user) {
    for (const struct variable * v = variables; v->name; v++) {
        const char * value = getenv(v->name);
        if (value && !variable_takes(v, value)) {
            visit(user, v, value);
        }
    }
}
