// impl: the inside of the machine, shared by the files of this room.
//
// A worker is a host thread that runs one work-group at a time: its waves one after the other, each
// until it ends, reaches a barrier, sleeps or has used its slice. A group all of whose waves wait
// stands aside, in the ring of its worker, while others run. A vector register is a row of 64
// words, a lane is a column; an instruction is a loop over columns that the compiler turns into
// vector code.
//
// Kept true:
// - Lane i of an instruction reads and writes column i of its rows and nothing else, and reads
// before
//   it writes. So results may be written over sources, whichever registers overlap.
// - Lanes whose EXEC bit is 0 are computed (garbage in, garbage out, without traps) but never
//   committed, and never touch memory.
// - Everything that a wave can index lies inside its struct: register rows are padded so that the
//   widest operand of the last register stays inside.
#pragma once

#include "emu/gfx/isa.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum {
    LANES = 64,
    BLOCK = 32, // lane loops run in blocks of this: wave32 has one, wave64 two
    VGPR_PAD = 16,
    SGPR_PAD = 16,
    PAGE_SHIFT = 12,
    PAGE_BYTES = 1 << PAGE_SHIFT,
    TLB_ENTRIES = 256,
    CODE_PAGES = 64,
    MAX_INST_WORDS = 5,
    SLICE = 1 << 16,       // instructions before the next wave of the group gets its turn
    FIRST_SLICE = 1 << 11, // the first ones are shorter: a wave that waits is soon known to
    IDLE_SLICE = 64,       // of one that is known to
    MAX_WAVES = 32,        // 1024 work-items in waves of 32
    LDS_LIMIT = 64 << 10,
};

// High words of the apertures through which flat addresses reach LDS and scratch.
#define GFX_APERTURE_SHARED  0x00010000u
#define GFX_APERTURE_PRIVATE 0x00020000u

#if defined(__clang__)
#    define GFX_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#    define GFX_IVDEP _Pragma("GCC ivdep")
#else
#    define GFX_IVDEP
#endif
#if defined(__GNUC__)
#    define GFX_COLD      __attribute__((noinline, cold))
#    define GFX_INLINE    inline __attribute__((always_inline))
#    define GFX_LIKELY(c) __builtin_expect(!!(c), 1)
#else
#    define GFX_COLD
#    define GFX_INLINE    inline
#    define GFX_LIKELY(c) (c)
#endif

// x86-64: vectors of 256 bits and fused multiplication where the host has them, chosen when the
// program starts. Without the latter every fused operation of a lane is a call. (Sanitizers are not
// ready yet when that choice is made.)
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) &&   \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#    define GFX_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#    define GFX_CLONES
#endif

// A loop over the lanes of x (anything with a field n); i is the column.
#define EACH_LANE(count)                                                                           \
    for (int block_ = 0; block_ < (count); block_ += BLOCK)                                        \
    GFX_IVDEP for (int i = block_; i < block_ + BLOCK; i++)

// What a lane function sees: rows of its operands, low and high word.
struct gfx_lanes {
    uint32_t * d[2];
    const uint32_t * s[3][2];
    int n;         // lanes: 32 or 64
    bool clamp;    // integers saturate
    uint64_t mask; // in: the M operand or VCC; out: carry or comparison
    const struct gfx_inst * in;
};

// ---- code, decoded once ----

struct gfx_page {
    uint64_t base;      // address of the page
    uint32_t low, high; // bytes of it (and of what follows it) that may be read
    uint64_t dispatch;  // in which the bytes were last compared with memory
    uint32_t words[PAGE_BYTES / 4 + MAX_INST_WORDS];
    struct gfx_inst * second; // VOPD: the other halves, by slot; NULL until one is met
    struct gfx_inst inst[PAGE_BYTES / 4];
};

// ---- memory that was resolved in this dispatch ----

struct gfx_tlb {
    uint64_t page;      // address >> PAGE_SHIFT, ~0: empty
    uint32_t low, high; // bytes of the page that are there
    uint8_t * host;     // of the page's first byte, whether or not it is there
};

// ---- waves ----

enum gfx_wave_state { WAVE_READY, WAVE_ASLEEP, WAVE_BARRIER, WAVE_DONE };

struct gfx_wave {
    _Alignas(64) uint32_t v[GFX_VGPR_COUNT + VGPR_PAD][LANES];
    uint32_t s[GFX_SGPR_COUNT + SGPR_PAD];
    uint64_t pc;  // of the next instruction
    uint64_t at;  // of the one that runs
    uint64_t all; // EXEC with every lane of a wave on
    int lanes;    // 32 or 64
    bool scc;
    bool indexed;   // s_set_gpr_idx_on
    bool stored;    // since the last wait: a release must order it
    bool idle;      // it waits for memory that others write
    uint32_t slice; // instructions that it gets next
    uint8_t state;  // enum gfx_wave_state
    uint32_t mode;  // MODE register
    uint64_t count; // instructions so far
    const struct gfx_page * page;
    struct gfx_worker * worker;
    struct gfx_group * group;
    uint8_t * scratch; // private_bytes for each lane
};

// Rows that are no registers: fetched constants, modified sources, results before they are masked.
struct gfx_temp {
    _Alignas(64) uint32_t src[3][2][LANES];
    uint32_t dst[2][LANES];
    uint32_t pair[2][LANES];  // result of the first half of a VOPD
    uint32_t exec_row[LANES]; // ~0 where exec_of has a bit
    uint64_t exec_of;
};

// All that a work-group is. It stays with the worker that began it.
struct gfx_group {
    struct gfx_group * next; // in its worker's ring or among its spare ones
    void * memory;           // of the waves
    struct gfx_wave * waves;
    int n_waves, max_waves;
    uint8_t * scratch;
    uint64_t scratch_bytes;
    uint32_t lds_bytes;
    uint32_t private_bytes;
    _Alignas(64) uint8_t lds[LDS_LIMIT + LANES * 16];
};

struct gfx_worker {
    struct gfx * gpu;
    struct gfx_temp t;
    struct gfx_group *ring, *spare;   // groups that have begun; memory for others
    _Alignas(16) uint8_t nowhere[64]; // LDS beyond its end
    bool failed;
    struct error error;
    struct gfx_tlb tlb[2][TLB_ENTRIES]; // reads, writes
    struct gfx_page * code[CODE_PAGES];
    int next_code;
    uint64_t instructions, n_waves_run, kinds[GFX_KINDS], bytes[GFX_KINDS];
    pthread_t thread;
};

struct gfx {
    struct gfx_config config;
    gfx_decode_fn decode;
    int n_threads;
    struct gfx_worker ** workers; // n_threads; [0] is the caller's

    pthread_mutex_t run;  // one dispatch at a time
    pthread_mutex_t lock; // of what follows
    pthread_cond_t wake, done;
    uint64_t generation;             // dispatches handed to the pool
    uint32_t last_lanes, last_vgprs; // gfx_counters
    int n_started, n_busy;
    bool stop;

    // the dispatch that runs; constant while it does, but for next_group and failed
    struct gfx_dispatch dispatch;
    uint8_t descriptor[64];
    uint64_t entry;
    uint32_t n_groups[3];
    uint64_t total_groups;
    bool wave32;
    int n_vgprs; // at the most, of those before the accumulation registers
    _Atomic uint64_t next_group;
    _Atomic int resident; // waves of groups that have begun
    int max_resident;     // as many as the card holds
    _Atomic bool failed;
    _Atomic uint32_t order; // gfx_fence
    uint64_t serial;        // of the dispatch

    _Atomic uint64_t dispatches, waves, instructions, kinds[GFX_KINDS], bytes[GFX_KINDS];
};

// ---- group.c ----

// Memory for a group of the dispatch, NULL when there is none.
struct gfx_group * gfx_group_new(struct gfx_worker * k);
void gfx_group_free(struct gfx_group * group); // NULL is fine

void gfx_group_start(struct gfx_worker * k, struct gfx_group * group, uint64_t index);

enum gfx_turn { TURN_ENDED, TURN_WAITS, TURN_FAILED };

// Runs the waves of a group until it ends, fails (k->error says why) or waits.
enum gfx_turn gfx_group_turn(struct gfx_worker * k, struct gfx_group * group);

// ---- wave.c ----

// Until the wave ends, waits at a barrier, sleeps, has used its slice or fails; says in w->idle
// whether it only waits.
void gfx_wave_run(struct gfx_wave * w);
void gfx_code_forget(struct gfx_worker * k);

// Ends the dispatch with an error at the wave's instruction. The first one stays.
void gfx_fault(struct gfx_wave * w, const char * fmt, ...) BASE_PRINTF(2, 3);

// ---- scalar registers ----

static inline uint32_t sgpr(const struct gfx_wave * w, unsigned reg) {
    return w->s[reg];
}

static inline uint64_t sgpr64(const struct gfx_wave * w, unsigned reg) {
    return w->s[reg] | (uint64_t) w->s[reg + 1] << 32;
}

// NULL swallows writes: its word is written and cleared again, which costs less than asking.
static inline void sgpr_put(struct gfx_wave * w, unsigned reg, uint32_t v) {
    w->s[reg] = v;
    w->s[GFX_SGPR_NULL] = 0;
}

static inline void sgpr_put64(struct gfx_wave * w, unsigned reg, uint64_t v) {
    if (reg == GFX_SGPR_NULL) { // would touch EXEC
        return;
    }
    w->s[reg] = (uint32_t) v;
    w->s[reg + 1] = (uint32_t) (v >> 32);
    w->s[GFX_SGPR_NULL] = 0;
}

// A mask of lanes: one register in a wave of 32, a pair in one of 64.
static inline uint64_t sgpr_mask(const struct gfx_wave * w, unsigned reg) {
    return w->lanes == 64 ? sgpr64(w, reg) : sgpr(w, reg);
}

static inline void sgpr_put_mask(struct gfx_wave * w, unsigned reg, uint64_t v) {
    if (w->lanes == 64) {
        sgpr_put64(w, reg, v);
    } else {
        sgpr_put(w, reg, (uint32_t) v);
    }
}

static inline uint64_t exec_of(const struct gfx_wave * w) {
    return sgpr64(w, GFX_SGPR_EXEC) & w->all;
}

// The value of a scalar source (salu.c); words is 1 or 2.
uint64_t gfx_scalar(const struct gfx_wave * w, const struct gfx_operand * o, int words);

// ---- memory.c ----

// Host pointer of [addr, addr + len), NULL after a fault. len is at most PAGE_BYTES.
GFX_COLD uint8_t * gfx_at_slow(struct gfx_wave * w, uint64_t addr, uint32_t len, bool write);

static GFX_INLINE uint8_t * gfx_at(struct gfx_wave * w, uint64_t addr, uint32_t len, bool write) {
    const struct gfx_tlb * e = &w->worker->tlb[write][addr >> PAGE_SHIFT & (TLB_ENTRIES - 1)];
    uint32_t offset = (uint32_t) (addr & (PAGE_BYTES - 1));
    if (GFX_LIKELY(e->page == addr >> PAGE_SHIFT && offset >= e->low && offset + len <= e->high)) {
        return e->host + offset;
    }
    return gfx_at_slow(w, addr, len, write);
}

void gfx_tlb_clear(struct gfx_worker * k);

// Atomic operation `op` on host memory that belongs to this thread alone (LDS, scratch) or not.
// p is aligned; returns the old value.
uint64_t gfx_atomic(enum gfx_op op, uint8_t * p, uint64_t value, uint64_t compare, bool shared);

// What the wave did to memory before comes before what it does after, for every host thread.
static inline void gfx_fence(struct gfx_wave * w) {
#if defined(__SANITIZE_THREAD__) // which knows no fences
    atomic_fetch_add(&w->worker->gpu->order, 1);
#else
    (void) w;
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

// What a load of 1 or 2 bytes makes of a register that held `old`. gfx90a and gfx942, whose
// registers have error correction, write them whole: a load of a half leaves zeros in the other
// one.
static GFX_INLINE uint32_t gfx_extend(const struct gfx_wave * w, enum gfx_mem_form form,
                                      uint32_t bytes, uint32_t v, uint32_t old) {
    old = w->worker->gpu->config.arch >= GFX_1100 ? old : 0;
    uint32_t s = bytes == 1 ? (uint32_t) (int8_t) v : (uint32_t) (int16_t) v;
    switch (form) {
    case GFX_X_SIGN:
        return s;
    case GFX_X_D16:
        return (old & 0xffff0000) | v;
    case GFX_X_D16_S:
        return (old & 0xffff0000) | (s & 0xffff);
    case GFX_X_D16_HI:
        return (old & 0xffff) | v << 16;
    case GFX_X_D16_HI_S:
        return (old & 0xffff) | s << 16;
    default:
        return v;
    }
}

// The row of ~0 and 0 for EXEC.
const uint32_t * gfx_exec_row(struct gfx_temp * t, uint64_t exec);

// ---- step functions by class; the tables of functions by operation ----

void gfx_step_salu(struct gfx_wave * w, const struct gfx_inst * in);
void gfx_step_smem(struct gfx_wave * w, const struct gfx_inst * in);
void gfx_step_valu(struct gfx_wave * w, const struct gfx_inst * in);
void gfx_step_vcmp(struct gfx_wave * w, const struct gfx_inst * in);
void gfx_step_pair(struct gfx_wave * w, const struct gfx_inst * first,
                   const struct gfx_inst * second);
void gfx_step_mem(struct gfx_wave * w, const struct gfx_inst * in);
void gfx_step_lds(struct gfx_wave * w, const struct gfx_inst * in);
void gfx_step_ds(struct gfx_wave * w, const struct gfx_inst * in);
void gfx_step_lane(struct gfx_wave * w, const struct gfx_inst * in);
void gfx_step_matrix(struct gfx_wave * w, const struct gfx_inst * in);

#define SCTL(name, d, a) void gfx_do_##name(struct gfx_wave * w, const struct gfx_inst * in);
#include "emu/gfx/ops.def"
#define VALU(name, d, a, b, c, flags) void gfx_do_##name(struct gfx_lanes * x);
#define VCMP(name, a, b)              void gfx_do_##name(struct gfx_lanes * x);
#include "emu/gfx/ops.def"
