// store: where kernels come from. Memory, then packs (GGML_HSA_KERNEL_DIR), then the compiler.
// A kernel that was found stays in memory; equal PDIs are one object, so that a queue which sees
// the same pointer twice need not configure the array again.
#pragma once

#include "kernel/kernel.h"

struct store;

struct store_pdi { // shared by kernels; lives as long as the store
    const uint8_t * data;
    size_t size;
    void * device; // set by the backend once it is uploaded
};

struct store_kernel { // lives as long as the store
    struct store_pdi * pdi;
    const uint32_t * insts;
    size_t n_insts;
    void * device; // likewise for the instruction stream
};

struct store_stats {
    uint64_t memory_hits, pack_hits, compiles;
    uint64_t compile_ns;
};

// What makes kernels that no pack has: the functions of aie/aie.h, or others with their contracts.
struct store_compiler {
    enum status (*supports)(const struct kernel_spec * spec, struct error * err);
    void (*program_name)(const struct kernel_spec * spec, char name[KERNEL_NAME_MAX]);
    enum status (*compile_pdi)(const struct kernel_spec * spec, uint8_t ** pdi, size_t * size,
                               struct error * err);
    enum status (*compile_insts)(const struct kernel_spec * spec, uint32_t ** insts,
                                 size_t * n_words, struct error * err);
};

// With the compiler that this build contains, if any. GGML_HSA_KERNEL_DIR is read here, once.
enum status store_new(struct store ** out, struct error * err);
// With another compiler, or none (NULL): packs only. The compiler outlives the store and is called
// from any thread, but for each kernel and each program only once.
enum status store_new_with(const struct store_compiler * compiler, struct store ** out,
                           struct error * err);
void store_free(struct store * s);

// Thread safe. The kernel stays valid until store_free. After a failure the next call tries again.
enum status store_get(struct store * s, const struct kernel_spec * spec, struct store_kernel ** out,
                      struct error * err);
// Cheap and never compiles: could store_get succeed? Where only packs can tell, the pack's files
// are read and kept.
bool store_can(struct store * s, const struct kernel_spec * spec);
void store_get_stats(struct store * s, struct store_stats * out);
