// asm: from a list of instructions on virtual registers to the bytes of a core program.
//
// A program is a row of items: regions (straight-line code that the scheduler may reorder), labels,
// branches, lock operations and zero-overhead loops around one region. Within a region the author
// writes instructions in plain order; the scheduler places them in bundles so that every operand is
// there when it is read (the core has no interlocks) and gives local registers their numbers. At
// the end of a region everything has landed: regions know nothing of each other's latencies.
//
// Everything is checked twice: the scheduler from the dependences, asm_check() from the bytes.
#pragma once

#include "aie/target/target.h"

// ---- virtual registers ----

// Their classes are enum asm_class of target.h.

// A virtual register, one half of it or, of an ASM_CM, one quarter.
struct asm_reg {
    int16_t id;
    int8_t part; // -1 whole, 0 low half, 1 high half, 2 to 5 quarters
};

static inline struct asm_reg asm_half(struct asm_reg r, int part) {
    return (struct asm_reg){r.id, (int8_t) part};
}

static inline struct asm_reg asm_quarter(struct asm_reg r, int quarter) {
    return (struct asm_reg){r.id, (int8_t) (2 + quarter)};
}

enum asm_arg_kind { ASM_ARG_REG, ASM_ARG_FIXED, ASM_ARG_IMM, ASM_ARG_LABEL };

// Programs have thousands of them, which passes copy: it is no larger than it has to be.
struct asm_arg {
    enum asm_arg_kind kind;
    union {
        struct asm_reg reg; // of ASM_ARG_REG
        int32_t value;      // else: immediate, label number, or the aie_reg of a fixed register
    };
};

#define A_REG(r)   ((struct asm_arg){.kind = ASM_ARG_REG, .reg = (r)})
#define A_LO(r)    A_REG(asm_half((r), 0))
#define A_HI(r)    A_REG(asm_half((r), 1))
#define A_IMM(v)   ((struct asm_arg){.kind = ASM_ARG_IMM, .value = (v)})
#define A_FIXED(r) ((struct asm_arg){.kind = ASM_ARG_FIXED, .value = (r)})
#define A_LABEL(l) ((struct asm_arg){.kind = ASM_ARG_LABEL, .value = (l)})

// ---- building ----

struct asm_program; // under construction

// A target whose programs cannot be written yet (has_programs) is reported by asm_finish.
enum status asm_new(enum aie_arch arch, struct asm_program ** out);
void asm_free(struct asm_program * p);
// Frees a program that was written to see what it takes, for another one; NULL: there was no memory
// for it. What it lacked the other one lacks: programs must not depend on how much memory there is.
void asm_free_trial(struct asm_program * trial, struct asm_program * p);
const struct aie_target * asm_target(const struct asm_program * p);
enum asm_class asm_class_of(const struct asm_program * p, struct asm_reg r);
// Notes a mistake in the program, for asm_finish to report: the first one counts.
void asm_misuse(struct asm_program * p, const char * fmt, ...) BASE_PRINTF(2, 3);

// A local lives inside one region, a global from its first write to the end of the program, or to
// where it is released; until then its register is nobody else's. Running out is reported by
// asm_finish.
struct asm_reg asm_local(struct asm_program * p, enum asm_class cls);
struct asm_reg asm_global(struct asm_program * p, enum asm_class cls);
// An accumulator that holds two values, where it has room for them: spilling keeps both.
void asm_keep_both(struct asm_program * p, struct asm_reg local);
// A global that is register `number` of its class, for what instructions use without naming it.
struct asm_reg asm_global_at(struct asm_program * p, enum asm_class cls, int number);
// What is written from here on does not name this global, and its register may hold anything there:
// it is given to later globals and to locals. Where the program jumps back to what is written
// above, it has to be set anew before it is read, and a global that was taken since is lost. Ends
// the current region.
void asm_release(struct asm_program * p, struct asm_reg global);
// Another part of the program, with registers of its own: globals that are taken from here on live
// from here on only, and classes that share registers with those of above may be used. Where the
// program jumps back to what is written above, all is lost that was taken since.
void asm_section(struct asm_program * p);

// Appends one instruction to the current region; args are the explicit operands in table order.
// memory: which buffer a load or store touches (any small number; different numbers never alias).
void asm_emit(struct asm_program * p, int op, int memory, const struct asm_arg * args, int n);
#define ASM(p, op, ...)                                                                            \
    asm_emit((p), (op), 0, (const struct asm_arg[]){__VA_ARGS__},                                  \
             (int) (sizeof((const struct asm_arg[]){__VA_ARGS__}) / sizeof(struct asm_arg)))
#define ASM_MEM(p, op, memory, ...)                                                                \
    asm_emit((p), (op), (memory), (const struct asm_arg[]){__VA_ARGS__},                           \
             (int) (sizeof((const struct asm_arg[]){__VA_ARGS__}) / sizeof(struct asm_arg)))

// Where a memory number begins: loads and stores of it go to that address's bank, and two accesses
// of one bank in the same cycle cost another. Of numbers without a place nothing is known.
void asm_place(struct asm_program * p, int memory, uint32_t address);
// What is loaded from a memory at `first` and more from its pointer stands there once more,
// `further` bytes on and in another bank: loops may load either.
void asm_mirror(struct asm_program * p, int memory, int32_t first, int32_t further);

// So many bytes before and behind what a loop reads of a memory may be read as well, and of what it
// writes, overwritten with anything.
void asm_margin(struct asm_program * p, int memory, int32_t bytes);

// Values for which there is no register are kept in memory, in so many vectors below where
// target->spill_base points, which the program has to set. memory: a number of their own. On a
// target that has no such register this does nothing.
void asm_spill_to(struct asm_program * p, int memory, int vectors);

// Any of these ends the current region.
int asm_label_new(struct asm_program * p);
void asm_label(struct asm_program * p, int label);
void asm_jump(struct asm_program * p, int label);
void asm_jump_if_zero(struct asm_program * p, struct asm_reg r, int label);
void asm_jump_if_nonzero(struct asm_program * p, struct asm_reg r, int label);
// Through a pointer that holds the address of a label (MOVXM with A_LABEL); the checker takes every
// label that the program ever puts into that pointer as a possible target.
void asm_jump_pointer(struct asm_program * p, struct asm_reg pointer);
// lock is a number as the core counts, from target->own_locks on; value is a register: -1 acquires
// when the lock is at least 1, +1 releases. A row of lock operations shares one margin of idle
// bundles on each side.
void asm_lock_acquire(struct asm_program * p, int lock, struct asm_reg value);
void asm_lock_acquire_any(struct asm_program * p, struct asm_reg lock, struct asm_reg value);
void asm_lock_release(struct asm_program * p, int lock, struct asm_reg value);
// Zero-overhead loop around the one region between begin and end; count >= 1. Not nestable. Trips
// overlap where that is faster and the program has room; then a load of one trip may pass a store
// of an earlier one to a different buffer, as everywhere within a region.
void asm_loop_begin(struct asm_program * p, struct asm_reg count);
void asm_loop_end(struct asm_program * p);
// For the loop that has just begun: its trips do not overlap, for the sake of program memory.
void asm_loop_alone(struct asm_program * p);
// The same, with extra trips before the first and behind the last, whose results are not used. The
// loop is then its own prologue and epilogue, and overlapping trips take no more program memory
// than one. This holds where the registers that live on are pointers, moved by constants, that
// nothing behind the loop reads, and where all that is read and written through them has a margin
// (asm_margin) that is wide enough; else the loop is an ordinary one.
void asm_loop_begin_rolling(struct asm_program * p, struct asm_reg count);
// The same, with the author placing each instruction: a trip begins every `interval` bundles, and
// an instruction issues in the bundle of its trip that asm_at() named before it (it may be
// negative). Latencies, slots, ports and registers are checked, never changed; what does not fit is
// reported by asm_finish. For counts that do not fill the pipeline the scheduler still makes the
// plain form.
void asm_loop_begin_paced(struct asm_program * p, struct asm_reg count, int interval);
void asm_at(struct asm_program * p, int bundle);
// For the paced or rolling loop that has just begun: a vector or an accumulator is another local's
// until the result that was sent to it lands, not only until its instruction issues. The old value
// is read while the new one is on its way; the checker follows each of them (struct asm_flow).
// In a loop that does not roll, registers are as everywhere.
void asm_loop_late(struct asm_program * p);
// Instructions around such a loop that raise events, for whoever traces a core; nothing here reads
// them, and kernels' bytes have them.
void asm_mark(struct asm_program * p);
void asm_mark_end(struct asm_program * p);

// ---- result ----

enum { ASM_STATS_LOOPS = 32 };

struct asm_stats {
    int bundles; // of the whole program
    int n_loops; // those that follow, in the order of the program; loops beyond these are not
                 // listed
    int loop_ops[ASM_STATS_LOOPS];           // instructions in a trip
    int loop_bundles[ASM_STATS_LOOPS];       // length of a trip on its own, until all has landed
    int loop_ii[ASM_STATS_LOOPS];            // bundles from trip to trip; less when trips overlap
    int loop_stages[ASM_STATS_LOOPS];        // trips in flight
    int loop_unroll[ASM_STATS_LOOPS];        // trips in the repeated part
    int loop_resource_ii[ASM_STATS_LOOPS];   // what slots allow; 0 = not computed
    int loop_recurrence_ii[ASM_STATS_LOOPS]; // what values carried from trip to trip allow
    int loop_register_ii[ASM_STATS_LOOPS];   // what registers allow: values live for a while
    int loop_life_ii[ASM_STATS_LOOPS];  // the longest life of a value: with one register each, the
                                        // interval is no less
    bool loop_rolls[ASM_STATS_LOOPS];   // each value has one register
    bool loop_untuned[ASM_STATS_LOOPS]; // no schedule in the table holds: a quick search found it
    int loop_bytes[ASM_STATS_LOOPS];    // of all its code, with set-up, lead in and lead out
};

struct asm_code {
    uint8_t * bytes; // malloc'ed
    size_t size;
    struct asm_stats stats;
};

// Loops keep the plain form, in which trips do not overlap: the least code.
void asm_keep_small(struct asm_program * p);

// Schedules, allocates, lays out, encodes and checks. Any misuse while building is reported here.
enum status asm_finish(struct asm_program * p, struct asm_code * out, struct error * err);

// Has every program that this thread finishes shown to a function; NULL: to none. For tables and
// tests of the compiler, whose families make programs where nobody sees them.
typedef void (*asm_watch_fn)(void * user, const struct asm_code * code);
void asm_watch(asm_watch_fn watch, void * user);

// How the trips of a loop overlap: a row of the table that build/bin/aie-tune writes
// (schedules.def).
struct asm_schedule {
    uint64_t loop;          // digest of the loop
    const char * name;      // a program that has it and its number there, for people
    int16_t ii;             // 0: trips do not overlap
    int8_t copies;          // registers of each value
    int16_t plain, window;  // bundles of a trip alone, and the window with which it had registers
    const char * placement; // of instructions and values (placement_print), NULL where ii is 0
};
struct asm_schedules {
    const struct asm_schedule * rows; // in the order of asm_schedule_order, for qsort
    size_t n;
};
int asm_schedule_order(const void * a, const void * b);
extern const struct asm_schedules asm_own_schedules; // of the compiler's own loops
// The loops of a program are looked up there, until it is freed; without this, among the
// compiler's own.
void asm_use_schedules(struct asm_program * p, const struct asm_schedules * schedules);

// The static checker on its own: walks the bytes of a program along every path and reports a read
// of a register whose write is still in flight, two results that land together on one register or
// write port, a store in a loop's last bundle, a lock too near to memory traffic, a loop set up too
// late or not aligned, a branch to no aligned bundle or in a delay slot. Knows nothing of how the
// program was made.
enum status asm_check(enum aie_arch arch, const uint8_t * bytes, size_t size, struct error * err);

// What is meant by a late loop, whose vectors are read while their next values are on the way: for
// each register of an operand, the result of which it is to be a part.
enum { ASM_FLOW_ARGS = 5, ASM_FLOW_UNITS = 8, ASM_FLOW_NONE = INT16_MIN };
struct asm_source {
    int16_t distance; // bundles before the one that reads; ASM_FLOW_NONE: nothing is said
    uint8_t slot;     // of the instruction there,
    uint8_t part;     // and which part of its result it is
};
struct asm_issue { // of an instruction of a trip
    int bundle;    // from the first of the loop on
    uint8_t slot;
    int16_t node;
};
struct asm_flow_node {
    struct asm_source from[ASM_FLOW_ARGS][ASM_FLOW_UNITS]; // by operand and its parts, low first
};
struct asm_flow {
    int first, n; // bundles of the loop: what leads in, the repeated part, what leads out
    int from, to; // the repeated part among them
    int turns;    // after so many all trips in flight are ones that began in it
    bool rolls;   // trips before the first are not wanted
    struct asm_issue * issues;
    int n_issues, cap_issues;
    struct asm_flow_node * nodes;               // of a trip
    uint64_t units[(AIE_UNIT_COUNT + 63) / 64]; // that its values have: bit each
};
static inline bool asm_flow_has(const struct asm_flow * f, int unit) {
    return f->units[unit / 64] >> unit % 64 & 1;
}
// The same with late loops in the program. Their vectors are followed value by value; scalars, and
// registers that live on, as everywhere.
enum status asm_check_flows(enum aie_arch arch, const uint8_t * bytes, size_t size,
                            const struct asm_flow ** flows, int n, struct error * err);
