// store: where kernels come from. Memory, then packs (GGML_HSA_KERNEL_DIR), then the user's cache
// on disk (store/cache.h), then the compiler. A kernel that was found stays in memory until nobody
// has it and GGML_HSA_KERNEL_MEMORY bytes are full of younger ones; equal PDIs are one object, so
// that a queue which sees the same pointer twice need not configure the array again, but for those
// of kernels that others made.
#pragma once

#include "kernel/kernel.h"

struct store;

struct store_pdi { // shared by kernels; lives as long as one of them
    const uint8_t * data;
    size_t size;
    void * device; // set by the backend once it is uploaded
};

// Which PDIs a kernel runs on, beside its own. Decoders differ in their program for products alone:
// what uses none of it runs on each of them.
enum store_decoder { STORE_NO_DECODER, STORE_THIS_DECODER, STORE_ANY_DECODER };

struct store_kernel { // lives until store_put, at least
    struct store_pdi * pdi;
    const uint32_t * insts;
    size_t n_insts;
    void * device; // likewise for the instruction stream
    uint64_t us;   // about how long it takes, without what its stream costs (store_us)
    // Its stream is not one that our compiler makes: it may leave locks and memories of the array
    // as no stream of ours expects them. So it has a PDI of its own, which no kernel of ours is on,
    // though it may be equal; and it is sent as it was verified.
    bool foreign;
    enum store_decoder decoder;
};

struct store_stats {
    uint64_t memory_hits, pack_hits, compiles;
    uint64_t compile_ns;
    uint64_t streams;         // shapes that no pack has, driven on a pack's program
    uint64_t absent;          // questions that a compiler or another pack would have said yes to
    uint64_t cache_hits;      // kernels that came from the cache on disk
    uint64_t cache_publishes; // compiled kernels that were put there
    uint64_t cache_damaged;   // entries that did not hold together and were moved away
    uint64_t cache_failures;  // compiled kernels that could not be put there
    uint64_t dropped;         // kernels that went from memory, to make room
    uint64_t bytes;           // that kernels and PDIs take up in memory now
};

// What makes kernels that no pack has: the functions of aie/plan/plan.h, or others with their
// contracts. Of a kernel a plan is made once. Without `pdi` it is no compiler: programs come from
// packs of the same identity alone, and what it makes are the instruction streams for shapes that
// no pack has.
struct aie_plan;
struct aie_program;
struct store_compiler {
    // The spec may be the plan's own, which it leaves as it is.
    enum status (*plan)(const struct kernel_spec * spec, struct aie_plan * out, struct error * err);
    enum status (*pdi)(const struct aie_program * program, enum aie_arch arch, int columns,
                       uint8_t ** pdi, size_t * size, struct error * err);
    enum status (*stream)(const struct aie_plan * plan, uint32_t ** insts, size_t * n_words,
                          struct error * err);
    // One line that names all that shapes the code (e.g. a hash of the compiler): a part of the key
    // of the cache on disk, so that a changed compiler never meets the old one's kernels. At most
    // STORE_IDENTITY_MAX printable characters; NULL: its kernels are not cached on disk.
    const char * identity;
};

#define STORE_IDENTITY_MAX 512

// The compiler that this build contains; without `pdi` where it was left out.
const struct store_compiler * store_own_compiler(void);
// With that one. GGML_HSA_KERNEL_DIR and the variables of the cache are read here, once.
enum status store_new(struct store ** out, struct error * err);
// With another compiler, or none (NULL): packs only. The compiler outlives the store and is called
// from any thread, but for each kernel and each program only once.
enum status store_new_with(const struct store_compiler * compiler, struct store ** out,
                           struct error * err);
void store_free(struct store * s);

// Where warnings go (a cache that is refused, a disk that is full; each is said once). One that
// came up before is handed over at once. `warn` is called from any thread.
void store_set_log(struct store * s, void (*warn)(const char * text));

// The owner of `device` of kernels and PDIs is told before they go. Called with the store locked,
// from any thread: what is called must not ask the store for anything.
struct store_uploads {
    void * user;
    void (*drop_kernel)(void * user, struct store_kernel * k);
    // False: the device cannot do without it. It stays as long as the store then.
    bool (*drop_pdi)(void * user, struct store_pdi * p);
};
void store_set_uploads(struct store * s, const struct store_uploads * uploads); // before the first

// Columns of the device's array, where they are fewer than its architecture has: kernels are for so
// many, and have names of their own. 0: all. Before the first kernel.
void store_set_columns(struct store * s, int columns);
uint64_t store_us(const struct store * s,
                  const struct kernel_spec * spec); // about how long it takes there
// Cycles, as they are likely (aie_likely), and the program that our compiler has for it; NULL:
// none.
uint64_t store_likely(const struct store * s, const struct kernel_spec * spec,
                      const struct aie_program ** program);

// Says on that log what is wrong with the packs for an architecture: a directory that is not there,
// or none at all where there is no compiler. Once, when a device begins.
void store_check_packs(struct store * s, enum aie_arch arch);

// Thread safe. The kernel is pinned: it stays valid until store_put, which is called as often as
// this was, or until store_free. After a failure the next call tries again.
enum status store_get(struct store * s, const struct kernel_spec * spec, struct store_kernel ** out,
                      struct error * err);
void store_put(struct store * s, struct store_kernel * k);
// What our compiler calls the PDI that it runs on; empty: it is none of ours.
void store_program_name(struct store_kernel * k, char name[KERNEL_NAME_MAX]);
// How many kernels have gone from memory. As long as these are no more, what was had before can be
// had again without asking for it by its spec; false: some have gone since, and nothing is pinned.
uint64_t store_gone(struct store * s);
bool store_get_again(struct store * s, struct store_kernel * const * kernels, size_t n,
                     uint64_t gone);
// Cheap and never compiles: could store_get succeed? Where only packs can tell, the pack's files
// are read and kept.
bool store_can(struct store * s, const struct kernel_spec * spec);
// Likewise, but without GGML_HSA_JIT_COMMAND, which takes seconds to minutes for a kernel: who can
// lay out operands for our own compiler asks this first, and store_can where that found nothing.
bool store_can_itself(struct store * s, const struct kernel_spec * spec);
// aie_panel, for the columns of this device.
bool store_panel(const struct store * s, const struct kernel_spec * product,
                 struct kernel_panel * out);
bool store_reads_by(const struct store * s, const struct kernel_spec * product,
                    int64_t rows); // likewise
// Why store_can says no.
void store_why_not(struct store * s, const struct kernel_spec * spec, struct error * err);
bool store_has_command(const struct store * s);
bool store_has_compiler(const struct store * s); // else packs decide what there is
void store_get_stats(struct store * s, struct store_stats * out);
