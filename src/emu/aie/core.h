// core: one AIE core: registers, exposed pipeline, program memory decoded once. The array side
// (machine.c and friends) owns tiles, memories, locks and streams and lends them through core_env.
//
// Time: the core runs ahead of the array, on its own, until an instruction that meets the outside
// (lock, stream, cascade, done); core_run returns there and the array calls it again when its clock
// has reached core->now. Between such instructions memory is protected by locks, so running ahead
// cannot be seen by anyone.
//
// There are no interlocks: each operand is read and each result written in the cycle that the ISA
// table says; a schedule that reads too early gets the old value, as on silicon.
#pragma once

#include "aie/isa/isa.h"

struct core;

// Programs in their prepared form, kept by content for the cores that share the cache: memory is
// bounded by the limit, plus one program for each core. Cores of one cache may run on different
// threads; it outlives them.
struct core_cache;
enum { CORE_CACHE_BYTES = 64 << 20 }; // a limit for all uses: about 150 programs of our kernels
struct core_cache_counts {
    int programs;  // that are kept
    size_t bytes;  // that they take
    uint64_t made; // programs that were asked for and not there
};
struct core_cache * core_cache_new(size_t limit); // NULL: out of memory
void core_cache_free(struct core_cache * cache);  // NULL is fine
struct core_cache_counts core_cache_counts(const struct core_cache * cache);

enum core_state {
    CORE_DISABLED, // enable bit off, or in reset
    CORE_READY,    // may run; at core_now() it wants to execute more
    CORE_BLOCKED,  // an acquire, stream or cascade access could not proceed at core_now()
    CORE_DONE,     // executed DONE
    CORE_FAULT,    // stopped; core_fault() says why
};

// The outside world as the core sees it. All callbacks happen at core_now().
struct core_env {
    void * user;
    // Pointer to len bytes of data memory at the core's 20-bit address, or NULL (unmapped, or the
    // neighbour does not exist). len never crosses a 64 KiB window; the core asks for a whole
    // window first and keeps the pointer for its life.
    uint8_t * (*memory)(void * user, uint32_t addr, uint32_t len);
    // id as the core encodes it (0-15 S, 16-31 W, 32-47 N, 48-63 own). Negative value: acquire when
    // lock >= -value, then subtract; positive: acquire when equal. Returns 1 done, 0 would block,
    // -1 no such lock.
    int (*acquire)(void * user, int id, int value);
    int (*release)(void * user, int id, int value); // 1 or -1
    // Streams of the core's own ports; return 1 done, 0 would block.
    int (*stream_read)(void * user, uint32_t * word, bool * tlast);
    int (*stream_write)(void * user, uint32_t word, bool tlast);
    int (*cascade_read)(void * user, uint8_t bits512[64]);
    int (*cascade_write)(void * user, const uint8_t bits512[64]);
    // Registers of the core's own tile, by their offset in it, a multiple of 4. Return 1 done, -1
    // when there is no such register; NULL: there is none at all.
    int (*tile_read)(void * user, uint32_t offset, uint32_t * value);
    int (*tile_write)(void * user, uint32_t offset, uint32_t value);
    void (*trace)(void * user, uint64_t cycle, uint32_t pc, const char * text); // NULL = off
    struct core_cache * cache; // NULL = the core has one of its own
    uint8_t bank_bit;          // of emu_clock: 0 = banks are never busy
    uint8_t lock_stall;        // cycles that an acquire or release takes besides its bundle
    bool strict;               // registers begin with garbage, but for those that steer the core
    uint32_t seed;             // of that garbage: another one for each core of an array
    bool single;               // bundles are always executed one by one: the same, slower
    uint16_t hot;              // turns after which a loop gets a plan; 0: when it pays
    int plant_op, plant_as;    // that instruction does what this one does; plant_as 0: none
    bool ieee;                 // aie2p: floats are added as IEEE 754 says, not aligned first
};

enum { CORE_PM_BYTES = 16384, CORE_BANKS = 16 };

enum status core_new(enum aie_arch arch, const struct core_env * env, struct core ** out);
void core_free(struct core * c);

// Fills memory with a series of numbers that the seed selects: floats, integers, NaNs and all.
void core_garbage(void * to, size_t bytes, uint64_t seed);

void core_reset(struct core * c);        // registers, pipeline, PC = 0; program kept
uint8_t * core_program(struct core * c); // 16 KiB, written by the array; then call:
void core_program_changed(struct core * c, uint32_t offset, uint32_t size);
void core_enable(struct core * c, bool on, uint64_t now);

enum core_state core_get_state(const struct core * c);
uint64_t core_now(const struct core * c); // cycle at which the next instruction issues

// Runs from core_now() until it blocks, is done, faults, or core_now() passes limit or reaches an
// instruction that meets the outside at a cycle later than `until` (executed when until >= now).
enum core_state core_run(struct core * c, uint64_t until, uint64_t limit);

// The same, which also ends soon after the core has passed `pause`: within some turns of a loop.
enum core_state core_run_on(struct core * c, uint64_t until, uint64_t pause, uint64_t limit);

// For a BLOCKED core: time moves on to now (the cycles count as stalls), then it may be run again.
void core_advance(struct core * c, uint64_t now);

uint32_t core_pc(const struct core * c);
const char * core_fault(const struct core * c); // text with PC, bytes and reason; valid in FAULT
uint64_t core_bundles(const struct core * c);
uint64_t core_stall_cycles(const struct core * c);
uint64_t core_bank_stalls(const struct core * c); // those of them at memory banks

// Accesses since the last call by memory (south, west, north, own) and logical bank, counted twice
// when they take both halves of it; and the cycles that the core lost to others there.
void core_bank_hits(struct core * c, uint32_t hits[CORE_BANKS]);
void core_lose_banks(struct core * c, uint64_t cycles);
uint64_t core_stray_loads(const struct core * c); // not aligned, or from where there is no memory

// Register access for debug registers and instruction tests: raw little-endian bytes of the
// register (4 for scalars, up to 128 for vectors, 256 on aie2p), of one that lies in several pieces
// one after the other. Writes are immediate. Returns the size, 0: no such register.
int core_reg_get(const struct core * c, aie_reg reg, uint8_t * bytes);
int core_reg_set(struct core * c, aie_reg reg, const uint8_t * bytes);

// ---- inside the core: what the semantic functions (core-*.c) see ----

// One issued instruction, ready to compute. For each explicit operand `in[i]` points to the source
// bytes (captured in the right stage) when it is a used register; immediates are in `imm[i]`.
// The function writes results to `out[i]`; the pipeline carries them to the register in time.
struct core_exec {
    struct core * core;
    const struct aie_instr * instr;
    const int32_t * imm;
    const uint8_t * in[AIE_MAX_OPERANDS];
    uint8_t * out[AIE_MAX_OPERANDS + 1]; // the last one: further pieces of a result
};

bool core_adds_ieee(const struct core * c);

// Pure register-to-register semantics (vector, scalar ALU, moves): no memory, no control flow.
// Returns false to fault ("not implemented" is said by a NULL entry instead). Control and status
// registers that an instruction uses implicitly come and go as operands like any other.
typedef bool (*core_semantic_fn)(struct core_exec * x);

// out = acc + x * y, the short way for the configurations of inner loops. False: not one of them,
// or not with these operands; then nothing was written and the semantic function has the answer.
typedef bool (*core_mac_fn)(uint8_t * out, const uint8_t * acc, const uint8_t * x,
                            const uint8_t * y, uint32_t conf);
