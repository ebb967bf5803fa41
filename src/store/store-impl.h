// store-impl: what is inside of a store. memory.c has what is kept, counted and dropped, store.c
// where kernels come from.
#pragma once

#include "external.h"
#include "keep/keep.h"
#include "packs.h"
#include "table.h"

#include <pthread.h>

struct pdi_node { // one for each distinct content, and one more where streams of others run on it
    struct pdi_node * next;
    bool foreign;
    uint8_t digest[SHA256_BYTES];
    struct store_pdi pdi;
    uint8_t * data; // owned, = pdi.data
    size_t uses;    // kernels that run on it, and who makes one
    bool stays;     // the device cannot do without it
};

// A PDI by the compiler's row for it; a dozen or two in a process. It goes with its PDI.
struct program {
    struct program * next;
    const struct aie_program * of;
    enum aie_arch arch;
    int columns; // as a spec has them
    bool building;
    struct pdi_node * pdi; // no use of it; NULL while building and after a failure
    bool from_pack;
    struct error * absent; // owned: why no pack has it, where only packs can
};

// A spec as it was asked for, and what the table knows it by. A kernel that was asked about is
// mostly the next that is wanted: of one spec that is worked out once.
struct request {
    bool is_set;
    struct kernel_spec asked;
    struct kernel_spec here; // canonical, with the device's columns
    uint64_t hash;
};

struct store {
    const struct store_compiler * compiler; // may be NULL
    int columns; // of the device's array; 0: as many as its architecture has
    struct packs packs;
    struct record * record;               // NULL: nobody asked for one
    struct cache * cache;                 // NULL: memory only
    char external[EXTERNAL_IDENTITY_MAX]; // of GGML_HSA_JIT_COMMAND; empty: not set

    pthread_mutex_t lock; // guards all below
    pthread_cond_t built; // some entry or program left its building state
    struct table kernels;
    struct request last; // what was asked about last
    struct pdi_node * pdis;
    struct program * programs;
    struct entry * newest; // of those that nobody has
    struct entry * oldest;
    uint64_t most; // bytes
    struct store_uploads uploads;
    struct store_stats stats;
    void (*warn)(const char * text);
    bool verbose;          // a line for each kernel that is made
    struct error * unsaid; // a warning from before there was a log
    bool publish_warned;
};

// ---- memory.c: all but the first two are called with the lock held ----

// Takes data over; gives a use of the one object with that content, or NULL without memory.
struct pdi_node * memory_intern_pdi(struct store * s, uint8_t * data, size_t size, bool foreign);
// Gives a use back (NULL is fine). Without any it stays for now: the next shape may want it.
void memory_release_pdi(struct store * s, struct pdi_node * p);
struct pdi_node * memory_find_pdi(struct store * s, const uint8_t digest[SHA256_BYTES],
                                  bool foreign);
struct program * memory_find_program(struct store * s, const struct aie_plan * plan);

void memory_pin(struct store * s, struct entry * e);
// Enters a kernel that nobody has had, as the newest of those without a pin.
void memory_add(struct store * s, struct entry * e);
void memory_unpin(struct store * s, struct entry * e);
void memory_make_room(struct store * s); // drops until what is left fits, or is pinned
void memory_free(struct store * s);      // everything
