// gpu-bench: a GPU of the emulated runtime as the HSA client has it, with a queue, a few bytes of
// its memory and a kernel that was made by hand: it multiplies a word by three and adds a number,
// so that what ran, and in which order, can be told from the word.
#pragma once

#include "runtime/rig.h"

#include "bytes.h"
#include "hsa/hsac-impl.h"
#include "runtime/code.h"

static inline struct hsac * open_agents(const char * names) {
    struct hsac * h;
    struct error err = {0};
    rig_env(names, NULL, NULL);
    setenv("GGML_HSA_EMU_STRICT", "1", 1);
    if (hsac_open(&h, &err) != ST_OK) {
        fail_msg("%s: %s", names, err.text);
    }
    return h;
}

static inline void assert_says(const struct error * err, const char * text) {
    if (!strstr(err->text, text)) {
        fail_msg("'%s' does not name '%s'", err->text, text);
    }
}

// ---- kernels ----

static const uint32_t end_gfx9[] = {CODE_END_GFX9}, end_gfx11[] = {CODE_END_GFX11};
static const uint32_t junk[] = {0xffffffff, 0xffffffff};

static const struct arch {
    const char * name;
    uint32_t flags;
    const uint32_t *step, *end;
} archs[] = {
    {"gfx90a", CODE_MACH_GFX90A, code_step_gfx9, end_gfx9},
    {"gfx942", CODE_MACH_GFX942, code_step_gfx9, end_gfx9},
    {"gfx1100", CODE_MACH_GFX1100, code_step_gfx11, end_gfx11},
};
enum { N_ARCHS = sizeof archs / sizeof archs[0] };

struct code {
    uint8_t * bytes;
    hsa_code_object_reader_t reader;
    hsa_executable_t executable;
    uint64_t object;
};

#define CALL(h, name, ...)                                                                         \
    do {                                                                                           \
        __typeof__(name) * function;                                                               \
        void * address = hsac_symbol(h, #name);                                                    \
        assert_non_null(address);                                                                  \
        memcpy(&function, &address, sizeof function);                                              \
        assert_int_equal(function(__VA_ARGS__), HSA_STATUS_SUCCESS);                               \
    } while (0)

static inline struct code code_load(struct hsac * h, struct hsac_agent * a, uint32_t flags,
                                    const uint32_t * text, size_t n_words) {
    struct code c = {.bytes = code_new(flags, text, n_words, false)};
    hsa_agent_t agent = {hsac_agent_handle(a)};
    hsa_executable_symbol_t symbol;
    CALL(h, hsa_code_object_reader_create_from_memory, c.bytes, CODE_BYTES, &c.reader);
    CALL(h, hsa_executable_create_alt, HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT,
         NULL, &c.executable);
    CALL(h, hsa_executable_load_agent_code_object, c.executable, agent, c.reader, NULL, NULL);
    CALL(h, hsa_executable_freeze, c.executable, NULL);
    CALL(h, hsa_executable_get_symbol_by_name, c.executable, "k.kd", &agent, &symbol);
    CALL(h, hsa_executable_symbol_get_info, symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT,
         &c.object);
    return c;
}

static inline void code_unload(struct hsac * h, struct code * c) {
    CALL(h, hsa_executable_destroy, c->executable);
    CALL(h, hsa_code_object_reader_destroy, c->reader);
    free(c->bytes);
}

struct step_args {
    uint32_t * at;
    uint32_t value, nothing, more; // more is added as well
};

static inline struct hsac_launch launch_of(const struct code * c, const struct step_args * args) {
    return (struct hsac_launch){
        .object = c->object,
        .args = args,
        .args_size = sizeof *args,
        .kernarg_bytes = 24,
        .grid = {1, 1, 1},
        .group = {1, 1, 1},
    };
}

static inline uint32_t step(uint32_t x, uint32_t value) {
    return 3 * x + value;
}

// A GPU with a word of memory, a queue and the kernel that steps it.
struct bench {
    struct hsac * h;
    struct hsac_agent * gpu;
    struct hsac_queue * queue;
    struct code step;
    uint32_t * at;
};

static inline struct bench bench_open(const struct arch * arch) {
    struct bench b = {.h = open_agents(arch->name)};
    b.gpu = hsac_agent_get(b.h, 0);
    OK(hsac_queue_new(b.gpu, &b.queue, &err));
    b.step = code_load(b.h, b.gpu, arch->flags, arch->step, CODE_STEP_WORDS);
    b.at = hsac_alloc(b.gpu, HSAC_POOL_DATA, 64);
    assert_non_null(b.at);
    OK(hsac_fill(b.gpu, b.at, 0, 64, &err));
    return b;
}

static inline void bench_close(struct bench * b) {
    hsac_queue_free(b->queue);
    code_unload(b->h, &b->step);
    hsac_free(b->gpu, b->at);
    hsac_close(b->h);
}

static inline uint32_t bench_word(struct bench * b) {
    uint32_t word = 0xdeadbeef;
    OK(hsac_read(b->gpu, &word, b->at, sizeof word, &err));
    return word;
}

static inline enum status bench_step(struct bench * b, uint32_t value, struct error * err) {
    struct step_args args = {b->at, value, 0, 0};
    struct hsac_launch l = launch_of(&b->step, &args);
    return hsac_queue_launch(b->queue, &l, err);
}
