// table: the kernels in memory, found by what they compute. Not thread safe: the store locks it.
#pragma once

#include "store.h"

#include "aie/plan/plan.h"

// A kernel that somebody asked for.
struct asked {
    struct aie_plan plan; // its spec is canonical; all else is there where it is planned
    bool planned;
};

enum entry_state {
    ENTRY_PLANNED,  // it was promised, and nobody has wanted it yet
    ENTRY_BUILDING, // one thread is at it, others wait
    ENTRY_READY,
    ENTRY_FAILED, // `error` says why; the next one who asks tries again
};

struct entry {
    struct entry * next; // in its bucket
    uint64_t hash;
    struct asked * asked; // owned, apart: what every dispatch touches stays close together
    enum entry_state state;
    struct store_kernel kernel;
    uint32_t * insts;     // owned, = kernel.insts
    struct error * error; // owned, when FAILED and memory allowed
    size_t bytes;         // that it takes up, without its PDI
    size_t pins;          // who has the kernel, builds it or waits for it
    struct entry * newer; // among those without a pin, by when the last one went
    struct entry * older;
};

struct table {
    struct entry ** buckets;
    size_t n_buckets; // a power of two, or 0
    size_t n_entries;
};

// Specs that ask for the same kernel become the same bytes in every field that counts.
struct kernel_spec spec_canonical(const struct kernel_spec * spec);
uint64_t spec_hash(const struct kernel_spec * canonical);
bool spec_equal(const struct kernel_spec * a, const struct kernel_spec * b);

struct entry * table_find(const struct table * t, const struct kernel_spec * canonical,
                          uint64_t hash);
// A new entry in state PLANNED, or NULL without memory. The spec must not be in the table yet.
struct entry * table_add(struct table * t, const struct kernel_spec * canonical, uint64_t hash);
void table_remove(struct table * t, struct entry * e); // and frees it
void table_free(struct table * t);
