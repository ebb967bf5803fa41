// pipeline: a loop whose trips overlap. pipeline.c finds when each instruction issues, relative to
// the start of its trip; rotate.c gives the locals of overlapping trips their registers and writes
// the loop out. Shared by these two and loop.c, which writes what stands around a loop.
#pragma once

#include "deps.h"

enum {
    PIPELINE_MAX_COPIES = 4,
    PIPELINE_MAX_STAGES = 24,
    PIPELINE_MAX_CIRCLE = 512, // bundles of the repeated part
};

// The span of a local: first bundle in which it is written to the one from which its register is
// free, in cycles of its trip.
struct life {
    int from, to;
};

// A schedule: node i of trip j issues at cycle j * ii + time[i] in the slot of op[i].
struct pipeline {
    struct asm_program * p;
    int * locals; // virtual registers of the loop alone
    int n_locals;
    struct deps deps;
    int ii;     // initiation interval: a trip starts every ii bundles
    int copies; // registers that each local uses in turn; the kernel holds as many trips
    int stages; // trips in flight
    int resource_ii, recurrence_ii; // what ii cannot be less than
    int register_ii, life_ii;       // nor than this (asm_stats); where somebody wants to know
    int plain, window;              // bundles of a trip alone, and its window, where they are known
    bool hopeless;                  // it is known that trips do not overlap
    bool late;                      // lives begin when results land (asm_loop_late)
    struct asm_flow * flow;         // of a late loop that is written
    bool untuned;                   // the table has no schedule for it that holds
    bool wanted;                    // and its tuner wants to look for one
    int rolling; // trips in flight that margins allow where the loop may roll; else 0
    int * time;
    uint16_t * op;
    struct life * lives; // by virtual register, of the locals; from == to: it has no register
    int8_t * phys;       // [vreg * copies + copy], the register of that copy
};

// Finds a schedule with a shorter interval than `plain` bundles; false when there is none (or
// memory ran out). q is to be freed either way.
// plain 0: only if it is known how (schedules.def). rolling: see above; each local then has one
// register.
bool pipeline_find(struct pipeline * q, struct asm_program * p, const struct asm_item * region,
                   int plain, int rolling);
// The schedule that the author of a paced loop wrote; false, with the misuse noted, when it does
// not hold.
bool pipeline_take(struct pipeline * q, struct asm_program * p, const struct asm_item * region,
                   int interval);
void pipeline_free(struct pipeline * q);

// Whether it does for all counts, without a plain loop beside it.
static inline bool pipeline_covers_all(const struct pipeline * q) {
    return q->copies == 1 && q->stages <= 2;
}

// rotate.c: gives every copy of every local a register, false when there are too few.
bool pipeline_allocate(struct pipeline * q);
// The registers that are written down (placement_print); false when they do not hold.
bool pipeline_give(struct pipeline * q, const char * registers);
// schedules.c: a number below 64 that was written as a character.
int asm_digit_value(char c);
// Bundles of the pipelined loop: what leads in, the repeated part, what leads out.
int pipeline_lead_in(const struct pipeline * q);
int pipeline_size(const struct pipeline * q);
// The repeated part alone, of one trip; then how many bundles until everything has landed.
bool pipeline_write_rolling(struct pipeline * q, int * first, int * last, int * landing);
// value-flow.c: what is meant by a late loop, NULL without memory; that node i of a trip issues in
// a bundle of q->flow.
struct asm_flow * asm_flow_new(const struct pipeline * q);
void asm_flow_issue(struct pipeline * q, int bundle, int slot, int node);

// Writes it out behind the bundles that are there. Its first bundle is *first, its last *last.
bool pipeline_write(struct pipeline * q, int * first, int * last);
