// modulo: one try to schedule a loop with a given interval, shared by the files that make it:
// modulo.c places instructions, pressure.c keeps count of the registers that this takes, pipeline.c
// decides what is tried.
#pragma once

#include "pipeline.h"

enum {
    UNPLACED = -1000000,
    MODULO_MAX_II = 448,
    MODULO_WORDS = MODULO_MAX_II / 64,
};

// The resources of a node when one of its ops carries it.
struct carrier {
    uint16_t op;
    uint8_t slot;
    uint8_t excludes; // bit per slot
    uint8_t n_landings;
    int8_t bank;    // that it accesses, -1 = none that is known
    uint8_t access; // cycles from issue until it does
    struct asm_landing landings[ASM_MAX_ARGS];
};

// A node names a local: as one entry of the node's list and of the local's.
struct mention {
    int16_t node, local;
    uint8_t settles; // bundles from issue until it has read and what it wrote has landed
    uint8_t arrives; // of what it writes: bundles until the old value is gone, where that counts
    bool writes;
};

struct search_node {
    struct carrier carriers[2];
    struct mention mentions[ASM_MAX_ARGS]; // each local once
    uint8_t n_carriers, n_mentions;
    struct life rest[ASM_MAX_ARGS]; // of those locals without this node (pressure_leave)
    uint8_t carrier;                // the one that is used
    int height;                     // longest path to the end of the trip
    int rank;                       // place in `order`
    int depth, below;               // longest paths within a trip, from its start and to its end
    int last;                       // latest cycle that it was forced to, UNPLACED = never
};

struct search_local {
    int vreg;
    enum asm_class cls;
    int first, count; // in mentions
};

enum sched_method {
    METHOD_HEIGHT, // what most depends on comes first and goes as early as it can
    METHOD_SWING,  // from the last results up, each instruction as near as can be to what wants it
    METHOD_LIFETIME, // at the distances from each other at which values live shortly
                     // (lifetime-order.c)
    METHOD_CHAIN,    // likewise, but chains that were written one after the other stay so
    METHOD_PLACED,   // where a table says (schedules.c)
};

struct search {
    struct pipeline * q;
    int n, ii;
    enum sched_method method;
    struct search_node * nodes;
    int * order;               // METHOD_SWING: most nodes have placed neighbours on one side only
    enum sched_method ordered; // the method that `order` is of; METHOD_HEIGHT = none yet
    bool has_order;            // false: there was no memory for it
    int seed;                  // of small changes to it
    int seeds;  // so many are tried where there is time, and all intervals; 1 = there is none
    int cursor; // all nodes before it in that order are placed
    struct search_local * locals;
    int n_locals;
    struct mention * mentions;                       // by local
    int16_t (*slots)[AIE_SLOT_COUNT];                // [cycle % ii]: node, -1 = free
    int16_t (*ports)[AIE_SLOT_COUNT][ASM_FILES];     // [landing % ii]: node, -1 = free
    int16_t (*banks)[ASM_BANKS];                     // [access % ii]: node, -1 = free
    int16_t (*alive)[ASM_CLASS_COUNT];               // [cycle % ii]: locals of the class
    uint64_t full[ASM_CLASS_COUNT][MODULO_WORDS];    // bit per bundle in which no register is left
    uint64_t crowded[ASM_CLASS_COUNT][MODULO_WORDS]; // and in which more live than there are
    int registers[ASM_CLASS_COUNT];                  // that locals can have
    bool one_each;         // a local is to have one register, also where the loop does not roll
    int crowds;            // bundles, by class, with more locals than registers
    long work, work_limit; // steps of the innermost loops
};

static inline int modulo(int a, int n) {
    int r = a % n;
    return r < 0 ? r + n : r;
}

// A number below `n` that goes with node i, 0 where there is no seed.
static inline int noise(const struct search * s, int i, int n) {
    uint32_t x = (uint32_t) i * 2654435761u + (uint32_t) s->seed * 40503u;
    x = (x ^ x >> 15) * 2246822519u;
    return s->seed ? (int) ((x ^ x >> 13) % (uint32_t) n) : 0;
}

static inline int trips_of(const struct search * s, const struct dep * e) {
    return e->trips == DEP_COPIES ? s->q->copies : e->trips;
}

// schedules.c: what a loop is, and the schedule of a table for it, NULL = none.
uint64_t schedules_digest(const struct search * s);
const struct asm_schedule * schedules_find(const struct asm_schedules * in, uint64_t loop);
// The times and carriers of all nodes and the registers of all copies of all locals that live, as
// text, to be freed, NULL without memory. Times are below PLACEMENT_TIMES. And from there: false
// where the nodes are not all there; where the registers begin.
enum { PLACEMENT_TIMES = 2048 };
char * placement_print(const struct search * s);
bool placement_read(struct search * s, const char * placement);
const char * placement_registers(const struct search * s, const char * placement);

// Looks for the schedules of a program's loops instead of the compiler (src/aie/tune).
struct asm_tuner {
    // The times, carriers and registers of a loop; plain 0: only if they are known. False: its
    // trips do not overlap.
    bool (*find)(struct asm_tuner * t, struct search * s, int plain);
};

// search.c: what an interval cannot be less than, for slots and for values that are carried from
// trip to trip, into s->q; the larger of the two; and with the lives of values, *longest being the
// one that takes longest.
int search_resource_bound(const struct search * s);
void search_bounds(struct search * s);
void search_life_bounds(struct search * s, int * longest, int * together);
int search_least(const struct search * s);
int search_least_with_lives(struct search * s, int * longest);
// One choice; all intervals below `plain`, from the least one on.
enum outcome { FOUND, NO_SCHEDULE, NO_REGISTERS };
enum outcome search_try(struct search * s, const struct asm_choice * c);
bool search_all(struct search * s, int least, int longest, int plain, struct asm_choice * best);
// pipeline.c: the same, as a compilation does it.
bool search_quickly(struct search * s, int plain);
// When all stand: times from the first stage on, false where every bundle stores; stages and
// registers, which may be given.
bool search_normalise(struct search * s, bool whole);
enum outcome search_finish(struct search * s, const char * registers);
// The first distance that is not kept, -1 = none.
int search_broken_dep(const struct search * s);

// lifetime-order.c: `order` and, as depths, the times of METHOD_LIFETIME; all nodes at the
// distances of these.
bool lifetime_times(struct search * s);
bool lifetime_place(struct search * s);

// modulo.c: heights for the interval; false when a recurrence takes longer than it.
bool modulo_heights(struct search * s);
// Fills `order`, which depends on the method, not on the interval.
bool modulo_order(struct search * s);
// Places all nodes, false when there is no room or the work is used up.
bool modulo_place(struct search * s);
// No slot, port or bank is taken.
void modulo_clear(struct search * s);
// Whether node i could issue at the cycle; chooses its carrier.
bool modulo_fits(struct search * s, int i, int cycle);
// The nodes in the way of a carrier at a cycle; returns how many, each once.
int modulo_in_the_way(const struct search * s, const struct carrier * c, int cycle, int out[16]);
// Enters node i at its time into the tables of slots and ports, or takes it out.
void modulo_occupy(struct search * s, int i, bool enter);
// The cycles between which node i may stand as its placed neighbours are; *lo or *hi stay as they
// are where nothing binds.
void modulo_bounds(const struct search * s, int i, int * lo, int * hi);

// pressure.c: the life of local l by the nodes that are placed, all but one (-1: all).
struct life pressure_life(const struct search * s, int l, int without);
// Counts lives from nothing; returns by how many bundles the interval is too short for them, 0 when
// there are registers for all.
int pressure_count(struct search * s);
// Only whether there are registers for all.
bool pressure_fit(const struct search * s);
// Moves nodes to where fewer registers are taken until all have one, or some rounds have passed.
void pressure_improve(struct search * s, int rounds);
// Moves nodes to where lives are shorter.
void pressure_shorten(struct search * s, int rounds);
