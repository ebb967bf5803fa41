// soak: random graphs on every emulated device, by processes with threads that share a cache and a
// pack, while somebody else clears, trims, damages, fills the disk and kills, and while some of
// them fork, run out of memory, or are given a pack whose kernels reach for what is not theirs.
// soak.c is who does all that, world.c the disk that he does it to, graphs.c one of the processes.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { SOAK_WORKERS = 4, SOAK_THREADS = 4, SOAK_DEVICES = 8 };

// What a process has to bear, one of them in each of its lives.
enum soak_kind {
    SOAK_HOSTILE, // its pack is an attacker's
    SOAK_FORKING, // its threads fork while the others compute
    SOAK_SMALL,   // it may write files of 12 KiB
    SOAK_STARVED, // one of some hundred allocations fails
    SOAK_KINDS,
};

struct soak_worker {
    atomic_long first_kib, now_kib; // resident, after the first graphs and now
    atomic_long first_fds, now_fds, least_fds;
    atomic_ulong graphs;    // in this life
    atomic_ulong no_memory; // allocations that failed
};

struct soak_shared { // between all processes
    atomic_bool stop;
    atomic_ulong graphs[SOAK_DEVICES]; // compared with the CPU, by device
    atomic_ulong wrong;                // of these
    atomic_ulong worst;    // difference among the right ones, in thousandths of the bound
    atomic_ulong failed;   // that a device gave an error for
    atomic_ulong left_out; // with a node that the device has no kernel for
    atomic_ulong starved;  // graphs that failed where memory did
    atomic_ulong refused;  // kernels of the hostile pack
    atomic_ulong forks;
    atomic_ulong forks_bad; // children that crashed, hung or computed
    char devices[SOAK_DEVICES][64];
    char first_wrong[400];
    struct soak_worker workers[SOAK_WORKERS];
};

// Computes until it is told to stop, or for `most` graphs in each thread (0: no end). The status is
// the process's.
int graphs_run(struct soak_shared * shared, int worker, enum soak_kind kind, uint32_t seed,
               unsigned most);

// One graph by its number, on every device and without any fault: what it is, and how far it is
// off.
int graphs_show(uint32_t seed);

struct world {
    char dir[64];   // all of it
    char cache[96]; // of NPU kernels, and of the GPU's below it
    char pack[96], hostile[96];
    char record[96];
    bool can_fill; // the cache lies on a small file system of its own
    uint32_t random;
};

bool world_make(struct world * w, uint32_t seed);
void world_free(struct world * w);
uint32_t world_random(struct world * w, uint32_t below);

// A pack with the kernels of the other one, each with a command more that no kernel may have. How
// many there are.
int world_make_hostile(struct world * w);

// What is done to it. True: it was done.
bool world_clear(struct world * w);
bool world_trim(struct world * w);
bool world_damage(struct world * w); // one file, in one of several ways
bool world_fill(struct world * w);   // until nothing fits; world_empty takes it away
void world_empty(struct world * w);
