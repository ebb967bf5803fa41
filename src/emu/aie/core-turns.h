// core-turns: the turns of a hot zero-overhead loop as one list of steps, shared by core-turns.c,
// which executes it, and core-turns-plan.c, which makes it.
//
// What bundles do one by one is known when they are straight-line code: who reads which register in
// which cycle, and when each result lands. So most results need not wait in flight: an instruction
// may write its register at once when nobody looks at it or writes it before the result is due, and
// a multiply-accumulate need not keep copies of its sources when they stay what they are until it
// executes. All others are issued as ever; either way of an instruction is right whatever the
// others do, so that one that cannot go the short way with the values it meets goes the long one.
//
// Kept true: results, memory, cycles, stalls and faults are those of core.c's loop. Registers are,
// too, at the end of a run, but not always in the middle of one, where only a fault can end it.
#pragma once

#include "emu/aie/core-impl.h"

enum core_step_kind {
    STEP_ISSUE,      // as ever
    STEP_LOAD_32,    // so many bytes from ptr + imm to the register
    STEP_LOAD_64,    //
    STEP_POST_32,    // from ptr, which then moves on by imm
    STEP_POST_64,    //
    STEP_MOVE_32,    // by register mod
    STEP_MOVE_64,    //
    STEP_WALK_32,    // any other way of making the address
    STEP_WALK_64,    //
    STEP_MAC,        // executes, at the beginning of its cycle
    STEP_HOLD,       // copies of its sources are made ...
    STEP_HELD,       // ... and it executes with them
    STEP_SINGLE,     // see core_issue_single
    STEP_SINGLE_VIA, // the same, where the result lies over a source
    STEP_STORES,     // stores that were issued before reach memory
    STEP_CYCLE,      // the bundle is over
    STEP_END,        // and the list
};

struct core_step {
    uint8_t kind;     // enum core_step_kind
    uint8_t ptr, mod; // units
    union {
        uint8_t ago;       // cycles since a mac was issued
        bool shares_banks; // a load: others than loads like it touch memory in this cycle
    };
    uint16_t to;   // offset of the register that is written; STEP_CYCLE, STEP_END: pc
    uint16_t x, y; // offsets of a mac's sources
    uint16_t conf, acc;
    int16_t imm;
    const struct core_op * op;
    core_mac_fn mac;
};

// Some turns of one loop.
struct core_turns {
    uint16_t first, last; // pc of the loop's first and last bundle
    uint16_t next;        // and of the one behind it
    uint16_t bundles;
    uint32_t turns;
    // From any state, and behind a run of the same plan or of nothing. In the first one what is
    // issued in the first RING cycles goes as ever: nobody knows what is in flight.
    struct core_step *cold, *linked;
    size_t bytes;
};

// A plan for the loop from the bundle `first` to `last`, all of which are prepared; NULL when there
// is none, or no memory for it.
struct core_turns * core_turns_plan(struct core * c, const struct core_bundle * first,
                                    const struct core_bundle * last);
