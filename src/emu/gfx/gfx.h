// gfx: an AMD GPU that runs compute kernels on the host. A dispatch is interpreted instruction by
// instruction, a wave at a time, work-groups in parallel on the host's cores.
//
// Device addresses are host addresses; every one of them goes through `resolve` before it is
// touched. Code objects are not trusted: an unknown instruction, an address that nobody allocated,
// a misaligned atomic or a loop without end stops the dispatch with an error, and the machine stays
// usable.
#pragma once

#include "base/base.h"

enum gfx_arch { GFX_90A, GFX_942, GFX_1100, GFX_1151 };

const char * gfx_arch_name(enum gfx_arch arch); // "gfx90a"

struct gfx_dispatch {
    uint64_t kernel_object; // address of the kernel descriptor (64 bytes)
    uint64_t kernarg;       // address of the arguments
    uint64_t packet;        // address of the AQL packet, which kernels read block sizes from
    uint32_t grid[3];       // work-items
    uint16_t group[3];      // work-items of a work-group; the last ones may be partial
    uint32_t group_bytes;   // LDS, static and dynamic
    uint32_t private_bytes; // scratch of a work-item
};

struct gfx_config {
    enum gfx_arch arch;
    int threads; // that run work-groups, the caller's included; 0: one for each host core
    // Where [addr, addr + len) lies on the host, or NULL when it is not allocated or, with write,
    // not writable. Called from several threads at a time; what it allowed is remembered until the
    // end of the dispatch.
    void * (*resolve)(void * user, uint64_t addr, uint64_t len, bool write);
    void * user;
    // Nothing is as kernels must not rely on it to be: groups run from the last to the first, and
    // registers, LDS and scratch begin with garbage.
    bool strict;
    // Instructions that a wave may execute before its dispatch is given up; 0: 2^31, some minutes.
    uint64_t wave_budget;
};

struct gfx;

enum status gfx_new(const struct gfx_config * config, struct gfx ** gpu, struct error * err);
void gfx_free(struct gfx * gpu); // NULL is fine

// Runs a whole dispatch. ST_INVALID: the dispatch or the kernel descriptor cannot be; ST_CORRUPT:
// the code did what hardware faults on, and the text names the offset from the kernel's entry, the
// instruction and the address; ST_NO_MEMORY. One dispatch runs at a time; others wait.
enum status gfx_run(struct gfx * gpu, const struct gfx_dispatch * dispatch, struct error * err);

// What instructions are, for who asks where a kernel's time would go.
enum gfx_kind {
    GFX_KIND_SCALAR, // arithmetic and control of the wave
    GFX_KIND_WAIT,   // waits, barriers, cache control, and hints to the scheduler
    GFX_KIND_CONST,  // scalar loads
    GFX_KIND_VECTOR,
    GFX_KIND_DUAL, // second halves of vector instructions that issue two; not counted again
    GFX_KIND_DOT,  // products of packed elements, summed
    GFX_KIND_MATRIX,
    GFX_KIND_LOAD, // vector memory; atomics are stores
    GFX_KIND_STORE,
    GFX_KIND_LDS,
    GFX_KIND_SCRATCH,
    GFX_KINDS,
};

const char * gfx_kind_name(enum gfx_kind kind);

// Counts of all dispatches so far.
struct gfx_counters {
    uint64_t dispatches, waves, instructions; // instructions: of waves
    uint64_t kinds[GFX_KINDS];                // the same, each of one kind
    uint64_t bytes[GFX_KINDS];                // of all lanes that were on; of a scalar load once
    // The last dispatch that ran, by its descriptor: lanes of a wave; registers that a lane gets,
    // those for accumulation included.
    uint32_t lanes, vgprs;
};

void gfx_counters_get(const struct gfx * gpu, struct gfx_counters * counters);
