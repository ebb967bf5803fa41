// core-impl: the inside of a core, shared by core*.c only.
//
// A bundle is prepared once (core-prepare.c): its instructions become struct core_op with the issue
// function, register offsets and immediates resolved, so that executing it touches no tables. All
// cores with the same program share its bundles (core-code.c), on several threads: a bundle never
// changes once others can see it, but for `next` and what is known of a loop, which are atomic.
// Results wait in a ring of pending writes, indexed by the cycle in which they become visible;
// instructions with late sources wait in a second ring; stores that reach memory late in a third.
// Each is empty in most cycles and costs one test there.
//
// Kept true:
// - regs holds exactly what an instruction that issues at c->cycle may read (bypasses aside).
// - pipeline time (cycle) stands still while the core is blocked; core_now() = cycle + offset.
// - memory is touched in the order of the E-stages: a simple access (E5) happens with the issue of
//   its bundle, loads before stores; an access in stage M happens M - 5 cycles later.
#pragma once

#include "emu/aie/banks.h"
#include "emu/aie/core-target.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

// Paths that are not worth a register in the functions that may take them.
#if defined(__GNUC__)
#    define CORE_COLD __attribute__((noinline, cold))
#else
#    define CORE_COLD
#endif

// False for registers that do not lie in one piece (d, d_3d, qx, ex ...).
bool core_reg_span(const struct core_target * target, aie_reg reg, struct core_span * span);

// The pieces of any register, least significant first; returns how many, 0: there is no such
// register. An instruction sees them one after the other, each on a multiple of 16 bytes.
enum { CORE_MAX_PIECES = 8 };
int core_reg_pieces(const struct core_target * target, aie_reg reg,
                    struct core_span pieces[CORE_MAX_PIECES]);

// ---- prepared instructions ----

enum {
    CORE_MAX_OUTS = 8,
    CORE_MAX_STAGES = 4,
    CORE_MAX_GATHER = 12, // pieces of all sources of an instruction that lie in several
    CORE_FUSED = 64,      // bytes that a load or store which converts keeps in core_late.data
    CORE_CAPTURE = CORE_FUSED + 320,
    CORE_DELAY_SLOTS = 5,
    CORE_NOWHERE = AIE_MAX_OPERANDS, // index of a result's further pieces
};

struct core_op;
struct core_late;

typedef void (*core_issue_fn)(struct core * c, const struct core_op * op);

// What an instruction does with the outside before its bundle may issue: 1 done, 0 would block,
// -1 faulted.
typedef int (*core_meet_fn)(struct core * c, const struct core_op * op);

struct core_in {
    uint8_t index;  // operand
    uint8_t bypass; // enum aie_bypass
    uint8_t stage;  // index into stage_cycle
    uint8_t gather; // lies in so many pieces; 0: in one, at offset
    uint16_t offset, size;
    uint8_t first_piece; // in core_op.pieces
    uint16_t capture;    // where its bytes wait in core_late.data
};

struct core_piece {
    uint16_t offset, size;
};

struct core_out {
    uint8_t index;
    uint8_t cycle;  // E-stage of the result
    uint8_t sticky; // status flags: ORed into the register
    struct core_span span;
};

// A multiply-accumulate: two vectors and a configuration that are captured at issue, an accumulator
// that is read when it executes. x, y, conf are offsets of registers.
struct core_mac {
    core_mac_fn fn;
    uint16_t x, y, conf;
    uint8_t bytes;      // of x and of y: 64 or 128
    uint8_t delay;      // from issue to execution
    struct core_in acc; // a copy from in[]
};

enum core_addressing {
    ADDR_NONE,
    ADDR_IMM,
    ADDR_REG,
    ADDR_POST_IMM,
    ADDR_POST_REG,
    ADDR_2D,
    ADDR_3D
};

// What a fused load or store does to its bytes.
enum core_fuse { FUSE_NONE, FUSE_UPS, FUSE_SRS, FUSE_CONV, FUSE_PACK, FUSE_UNPACK };

// In the order of need: a load, a store, a scalar instruction touches one cache line of it.
struct core_op {
    _Alignas(64) core_issue_fn issue;
    int32_t imm;
    struct core_span data; // register that a load fills or a store reads
    uint8_t d, a, b;       // units of a scalar instruction
    uint8_t carry;         // unit of srCarry, where it is written
    bool is_loop;          // d is ls, le or lc
    uint8_t addressing;    // enum core_addressing
    uint8_t ptr, mod;      // units; mod is the number of d for 2d and 3d
    uint8_t bytes;         // that memory sees
    uint8_t is_signed;
    uint8_t latency;            // cycle of the result of a scalar or a load
    uint8_t store_delay;        // cycles after issue in which memory is written
    uint8_t fuse, wide, narrow; // enum core_fuse and its lane widths
    uint64_t lands;             // vector load: the units of `data`, see core_vector_units
    int8_t i_data, i_shift;     // operand indices of a fused instruction, -1 = none
    uint8_t n_in, n_out, n_stages;
    uint16_t no_in, no_out;               // operands that are no source, no result: a bit each
    uint8_t n_fixed_in;                   // of in[], first: read live, no bypass
    uint8_t n_first_in;                   // of in[], next: captured at issue
    uint8_t n_plain_out;                  // of out[], first: all but the status flags
    uint8_t flags;                        // what it adds to the flags of its bundle
    bool is_load;                         // touches memory before the stores of its cycle
    bool odd_register;                    // an operand lies in no single piece of the register file
    uint8_t stage_cycle[CORE_MAX_STAGES]; // use cycles, ascending; the last one executes
    core_semantic_fn semantic;            // generic instructions
    const struct core_meaning * meaning;
    struct core_mac mac; // fn NULL: none
    struct core_out out[CORE_MAX_OUTS];
    struct core_in in[AIE_MAX_OPERANDS];
    int32_t imms[AIE_MAX_OPERANDS]; // by operand
    struct core_piece pieces[CORE_MAX_GATHER];
    uint8_t n_pieces;
    core_meet_fn meet; // instructions that meet the outside, else NULL
    const struct aie_instr * instr;
    const struct core_bundle * bundle;
    struct aie_inst inst; // for preparing and printing
};

enum { BUNDLE_OUTSIDE = 1, BUNDLE_PARTIAL_STORE = 2, BUNDLE_DONE = 4, BUNDLE_LOCK = 8 };

struct core_turns;

struct core_bundle {
    _Atomic(struct core_bundle *) next; // the one that follows in memory, once it was reached
    _Atomic(struct core_turns *) turns; // of a hot loop that begins here; NULL: none
    _Atomic(uint16_t) seen;             // turns of a loop that begins here, until it is hot
    uint16_t pc;
    uint8_t size, flags;
    uint8_t n_ops, n_loads; // loads come first
    struct core_op ops[];
};

// A program, as far as it was prepared.
struct core_code {
    struct core_code * next;                              // in the cache
    int users;                                            // cores that execute it
    size_t bytes;                                         // with its bundles
    _Atomic(struct core_bundle *) map[CORE_PM_BYTES / 2]; // by pc / 2; NULL: not reached yet
    uint8_t program[CORE_PM_BYTES];
};

// ---- in flight ----

enum { RING = 16, WRITES = 24, LATES = 8, STORES = 4 };

struct core_write {
    const struct core_op * op; // who, for the fault text
    struct core_span span;
};

// The results that land in one cycle. Their data lie one after the other, so that a cycle touches
// few cache lines. Few are longer than 128 bytes, and then by 128: there is room for four of them.
enum { CELL = 16, CELLS = WRITES * 8 + 32 };
struct core_landing {
    struct core_write list[WRITES];
    _Alignas(64) uint8_t data[CELLS * CELL];
};

// Vector loads that land in one cycle: the most frequent results, and all alike. Those for which
// there is no room here, or which a bypass can see, wait with the others.
enum { LOADS = 3, LOAD_BYTES = 64 };
struct core_loads {
    _Alignas(64) uint8_t data[LOADS][LOAD_BYTES];
    const struct core_op * op[LOADS]; // op->data is where they go
};

struct core_write1 { // result of a cycle-1 scalar instruction: lands when the bundle is over
    const struct core_op * op;
    uint32_t value;
    uint8_t unit;
};

struct core_late { // an instruction that still waits for sources
    _Alignas(64) const struct core_op * op;
    uint64_t issued;
    uint8_t stage;
    uint8_t * memory; // of a store
    uint32_t level;   // of a fifo, at issue
    uint8_t fetched;  // bytes that came from memory for it
    // captured sources; the bytes of a fused load come first
    _Alignas(64) uint8_t data[CORE_CAPTURE];
};
_Static_assert(sizeof(struct core_late) * LATES % 4096 != 0,
               "lists of neighbouring cycles share no cache sets");

struct core_store {
    uint8_t * to;
    uint8_t size;
    uint8_t data[LOAD_BYTES];
};

// How much of each kind waits for a cycle; together, because every cycle looks.
struct core_due {
    uint8_t writes, bypass; // results; those among them that a bypass can see
    uint8_t cells;          // that the data of the results take
    uint8_t loads, lates, stores;
    uint8_t unused[2];
};

struct core {
    _Alignas(64) uint8_t regs[CORE_REG_BYTES];

    uint64_t cycle;  // pipeline time
    uint64_t offset; // core_now() - cycle
    uint32_t pc;
    uint32_t target; // of the branch whose delay slots are executing
    uint8_t delay;   // bundles until then, 0 = none
    bool faulted;
    bool done;
    enum core_state state;

    uint8_t n_write1;
    struct core_due due[RING];
    struct core_write1 write1[WRITES];
    struct core_landing writes[RING];
    struct core_loads loads[RING];
    struct core_late lates[RING][LATES]; // by the cycle in which they read their next sources
    struct core_store stores[RING][STORES];
    _Alignas(64) uint8_t held[RING][2][128]; // sources of macs, by the cycle of their issue
    uint64_t stamp[CORE_WORDS]; // cycle in which the scalar last changed, to catch two writers
    uint32_t mask[CORE_WORDS];  // bits that it has

    uint64_t partial_until;     // a partial store may still be in flight up to this cycle
    const uint8_t * partial[8]; // words that partial stores of the last cycles rewrite ...
    uint64_t partial_cycle[8];  // ... and when they do
    uint8_t n_partial;
    uint64_t loop_setup; // cycle of the last write to ls, le or lc

    // Banks that this cycle's accesses and those of later cycles ask for; counts of accesses, twice
    // for one that takes both halves, by memory and logical bank since the array last looked.
    struct bank_use banks[RING];
    uint32_t bank_hits[CORE_BANKS];
    uint64_t bank_stalls;

    uint8_t outside_done; // bit per op of a blocked bundle that already met the outside
    uint8_t * window[16]; // host pointers of 64 KiB windows of the core's address space
    _Alignas(16) uint8_t cascade[64];
    uint32_t stream_word;
    bool stream_last;
    uint32_t tile_word; // read from a register of the tile

    struct core_env env;
    const struct core_target * traits;
    const struct aie_isa * isa;
    uint64_t bundles, stalls;
    uint64_t stray_loads;
    uint8_t nothing[LOAD_BYTES]; // what the last one got from where there is no memory
    uint32_t resets;             // counted when strict: each brings other garbage

    // operands that had to be put together
    _Alignas(64) uint8_t scratch[AIE_MAX_OPERANDS][256];
    struct core_cache * cache;
    bool owns_cache;
    struct core_code * code; // what is executed; NULL: nothing yet
    bool program_changed;    // since code was taken
    bool plans;              // hot loops go by a plan
    _Alignas(16) uint8_t program[CORE_PM_BYTES + AIE_MAX_BUNDLE_BYTES];
    char fault_text[640];
};

_Static_assert(RING > 9 + 1, "the longest latency must fit the ring");
_Static_assert(sizeof(struct core_write) == 16, "four to a cache line");
_Static_assert(sizeof(struct core_loads) == 256, "whole cache lines");
_Static_assert(CELLS <= UINT8_MAX, "a cell's number fits");

// The units of a vector register, at most four, one bit each.
static inline uint64_t core_vector_units(const struct core_span * span) {
    return ((UINT64_C(1) << span->n_units) - 1) << (span->unit - CORE_WORDS);
}

static inline uint32_t reg_u32(const struct core * c, int unit) {
    uint32_t v;
    memcpy(&v, c->regs + 4 * unit, 4);
    return v;
}

static inline void reg_put_u32(struct core * c, int unit, uint32_t v) {
    v &= c->mask[unit];
    memcpy(c->regs + 4 * unit, &v, 4);
}

// ---- core.c ----

// Stops the core: "core: pc 0x..: bytes ..: reason: text". op may be NULL (the bundle at c->pc).
void core_fault_at(struct core * c, const struct core_op * op, const char * fmt, ...)
    BASE_PRINTF(3, 4);

CORE_COLD void core_fault_writes(struct core * c, const struct core_op * op); // too many
CORE_COLD void core_fault_two_writers(struct core * c, const struct core_op * op);

// A pending write that becomes visible to reads at `cycle` (later than now): where its data go.
// Never NULL: past a fault it is a place where writing does no harm.
static inline uint8_t * core_write_at(struct core * c, const struct core_op * op, uint64_t cycle,
                                      const struct core_span * span) {
    struct core_due * due = &c->due[cycle % RING];
    struct core_landing * landing = &c->writes[cycle % RING];
    unsigned cells = (span->size + CELL - 1u) / CELL;
    if (due->writes == WRITES || due->cells + cells > CELLS) {
        core_fault_writes(c, op);
        due->writes = due->cells = 0;
    }
    unsigned cell = due->cells;
    struct core_write * w = &landing->list[due->writes];
    due->writes++;
    due->cells = (uint8_t) (cell + cells);
    due->bypass = (uint8_t) (due->bypass + (span->bypass != AIE_BYPASS_NONE));
    w->op = op;
    w->span = *span;
    w->span.cell = (uint8_t) cell;
    return landing->data + CELL * cell;
}

// The data register of a load, a scalar or a link, in the cycle of its result.
static inline uint8_t * core_result(struct core * c, const struct core_op * op) {
    return core_write_at(c, op, c->cycle + op->latency, &op->data);
}

// Value of a scalar unit after this bundle.
static inline void core_write_next(struct core * c, const struct core_op * op, int unit,
                                   uint32_t value) {
    struct core_write1 * w = &c->write1[c->n_write1++];
    w->op = op;
    w->unit = (uint8_t) unit;
    w->value = value;
}

// ---- core-issue.c ----

// Executes now: all sources are in l->data or readable (l may be NULL with a single stage).
void core_execute(struct core * c, const struct core_op * op, struct core_late * l);
// Captures the sources of the first stage; the instruction then waits for the next ones.
struct core_late * core_late_start(struct core * c, const struct core_op * op);
void core_issue_generic(struct core * c, const struct core_op * op); // one or the other
void core_issue_single(struct core * c, const struct core_op * op);
void core_issue_mac(struct core * c, const struct core_op * op);
// Those that read sources at the beginning of this cycle, c->cycle % RING == slot.
void core_run_late(struct core * c, int slot);

// ---- core-prepare.c ----
struct core_bundle * core_prepare(struct core * c, uint32_t pc); // NULL after a fault

// The operands of an instruction in the order of its text; returns how many. where[i] is '[' for
// the first one inside brackets, ']' for a later one inside, '+' for one after them, ' ' elsewhere.
int core_text_operands(const struct aie_instr * instr, int index[AIE_MAX_OPERANDS],
                       char where[AIE_MAX_OPERANDS]);

// ---- core-code.c ----
struct core_code * core_code_take(struct core_cache * cache, const uint8_t * program); // or NULL
void core_code_give(struct core_cache * cache, struct core_code * code); // NULL is fine
// The bundle, or the one that another core prepared meanwhile; b is then freed.
struct core_bundle * core_code_add(struct core_cache * cache, struct core_code * code,
                                   struct core_bundle * b, size_t bytes);

// A plan for the loop that begins with b; the cache frees it with b's program.
void core_code_add_turns(struct core_cache * cache, struct core_code * code, struct core_bundle * b,
                         struct core_turns * turns, size_t bytes);

// ---- core-turns.c ----
// Runs as many turns as the plan, the loop's count and the limit allow, and no more once the time
// has passed `pause`. False: not a single one. The lates of this cycle have been run.
bool core_turns_run(struct core * c, const struct core_turns * t, uint64_t pause, uint64_t limit);
// A loop goes back to its beginning behind the bundle `last`.
void core_turns_count(struct core * c, const struct core_bundle * last, uint32_t ls);

// ---- each family prepares its own: false when it cannot do these operands ----

// Whether all sources come from the registers as they are at issue. A family that reads them itself
// takes no others: those that the table has read later, or past the register, are staged by
// core-issue.c for the lanes. The switches of the cascade are not looked at, whenever that is.
static inline bool core_reads_at_issue(const struct core_op * op) {
    bool all = true;
    for (int k = 0; k < op->n_in; k++) {
        aie_reg reg = op->instr->operands[op->in[k].index].fixed;
        bool switches =
            reg == AIE_REG(AIE_CR, AIE_CR_SCD_EN) || reg == AIE_REG(AIE_CR, AIE_CR_MCD_EN);
        all &= switches || (op->in[k].stage == 0 && op->in[k].bypass == AIE_BYPASS_NONE);
    }
    return all;
}

bool core_prepare_scalar(struct core * c, struct core_op * op);  // core-scalar.c
bool core_prepare_control(struct core * c, struct core_op * op); // core-control.c
bool core_prepare_memory(struct core * c, struct core_op * op);  // core-memory.c
bool core_prepare_lookup(struct core * c, struct core_op * op);  // core-memory.c
bool core_prepare_fifo(struct core * c, struct core_op * op);    // core-fifo.c
bool core_prepare_outside(struct core * c, struct core_op * op); // core-outside.c

// ---- core-memory.c ----
bool core_prepare_access(struct core * c, struct core_op * op, int dims); // address and data
void core_memory_finish(struct core * c, const struct core_op * op, struct core_late * l,
                        struct core_exec * x); // fused and partial accesses, all sources known
// Memory of an access of this bundle that is not op->bytes long, which asks for its banks; NULL
// after a fault. addr is a multiple of bytes.
uint8_t * core_locate(struct core * c, const struct core_op * op, uint32_t addr, uint32_t bytes);
// Writes memory in the cycle that is `delay` later than this one, after its loads.
void core_store_later(struct core * c, const struct core_op * op, uint8_t * to,
                      const uint8_t * data, int bytes, int delay);
void core_stores_flush(struct core * c, int slot);
void core_stores_drain(struct core * c); // all, in order of their cycles

// ---- core-fifo.c ----
void core_fifo_finish(struct core * c, const struct core_op * op, struct core_late * l,
                      struct core_exec * x);

// ---- core-outside.c ----
enum core_meet { MEET_DONE, MEET_BLOCKED, MEET_FAULT };
enum core_meet core_meet_outside(struct core * c, const struct core_bundle * b);
