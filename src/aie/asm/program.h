// The program under construction, shared by the files of this room: build.c fills it, sched.c turns
// regions into bundles, loop.c writes loops, sizes.c chooses their formats, emit.c lays out and
// encodes.
#pragma once

#include "asm.h"

#define ASM_MAX_ARGS 5 // what any instruction has at most, on any target: nodes are copied a lot

struct asm_vreg {
    uint8_t cls;
    bool global, both; // both: see asm_keep_both
    int16_t phys;      // number within its class, -1 = not yet
    int from, until;   // a global's items: in these its register is its own
};

struct asm_node { // one instruction of a region
    uint16_t op;
    uint8_t memory;
    uint8_t kinds; // of its operands, bit per enum asm_arg_kind, and ASM_PARTS
    int16_t at;    // bundle of its trip, in a paced loop
    unsigned n_args : 3;
    unsigned regs : ASM_MAX_ARGS;   // those operands that are virtual registers, bit each,
    unsigned locals : ASM_MAX_ARGS; // and of these the locals
    struct asm_arg args[ASM_MAX_ARGS];
};

enum { ASM_MAX_PARTS = 6 }; // of a register: halves, quarters
enum { ASM_PARTS = 0x80 };  // among the kinds: an operand is part of a register

enum asm_item_kind {
    ASM_ITEM_REGION,
    ASM_ITEM_LABEL,
    ASM_ITEM_JUMP, // node is the branch
    ASM_ITEM_LOCK, // node is ACQ or REL
    ASM_ITEM_LOOP, // node is the write of LC; label = first, value = label of the last bundle
    ASM_ITEM_LOOP_END,
};

struct asm_item {
    enum asm_item_kind kind;
    int first, count; // nodes
    int label;
    int label_end;
    int window;             // of the region, with which there were registers; 0 = not known
    int interval;           // of a paced loop, else 0
    bool alone;             // as the author has it, see asm_loop_alone
    bool plain;             // a loop whose trips are not to overlap
    bool rolls;             // whose trips may begin early and end late
    bool late;              // a paced loop in which lives begin when results land
    int extra;              // bundles that overlapping them took
    struct asm_flow * flow; // of a late loop as it is laid out, else NULL
};

// A bundle with virtual operands resolved except for labels. Of slots that hold nothing nothing is
// said but that: most bundles have one instruction or none.
struct asm_bundle {
    uint8_t present;             // slots that hold anything, bit each
    uint8_t kinds;               // of the operands of all of them, as in asm_node
    uint16_t op[AIE_SLOT_COUNT]; // the op that was chosen for the slot
    int32_t node[AIE_SLOT_COUNT];
};

// How a loop was pipelined. Loops that look alike (many ops of a family differ in one instruction)
// are not searched again.
struct asm_choice {
    int ii, copies, method; // ii 0: there is no good one
    int seed;               // of small changes to the order; 0 = none
    const char * placement; // of METHOD_PLACED
};

struct asm_known {
    int n, least, plain; // what alike means: instructions, least interval, plain length
    bool tried;
    struct asm_choice choice;
};

// A memory number. Loads from the mirror of one have the number ASM_MIRROR more.
enum { ASM_MIRROR = 16, ASM_MEMORIES = 2 * ASM_MIRROR, ASM_BANKS = 8 };

struct asm_memory {
    int8_t bank;     // plus one; 0 = not known
    int32_t first;   // least offset that is mirrored,
    int32_t further; // how far on; 0 = it is not
    int32_t margin;  // bytes before and behind that nobody minds
};

enum { ASM_SECTIONS = 64 };

struct asm_program {
    struct asm_memory memories[ASM_MEMORIES];
    const struct aie_target * target;
    const struct aie_isa * isa;
    const struct aie_instr * instrs; // its instructions, by op
    uint16_t * other_op; // by op: the one of another slot that does the same, 0 = there is none
    struct asm_vreg * vregs;
    int n_vregs, cap_vregs;
    int16_t * globals; // those of them that are, in order
    int n_globals, cap_globals;
    struct asm_node * nodes;
    int n_nodes, cap_nodes;
    struct asm_item * items;
    int n_items, cap_items;
    struct asm_bundle * bundles;
    int n_bundles, cap_bundles;
    int quiet_from;  // bundle from which on, up to here, nothing touches memory
    int memory_from; // bundle from which on something may, for the sake of the last lock
    uint8_t * sizes; // in bytes, and where they lie; one address more
    int * addresses;
    int * labels; // bundle index, -1 = not placed
    int n_labels, cap_labels;
    uint64_t global_taken[ASM_CLASS_COUNT]; // by globals, where the program is just now
    uint64_t released[ASM_CLASS_COUNT];     // ever
    bool region_over;                       // the next instruction begins another one
    unsigned classes; // that have been asked for since the section began, one bit each
    int sections[ASM_SECTIONS], n_sections; // the items that they begin with
    bool in_loop;
    int16_t at; // of the instructions that follow
    bool keep_small;
    bool ready; // loops load again and hand on what they should
    bool late;  // the loop in work is such a one
    int spills; // vectors that there is room for without a register
    int spill_memory;
    bool no_memory;
    struct asm_known known[16];
    int n_known;
    long searched; // steps that looking for schedules took
    const struct asm_schedules * schedules;
    struct asm_tuner * tuner; // who looks for the schedules of loops instead, NULL = nobody
    struct error misuse;      // the first one
    bool placed;              // it came as bundles (text.h)
    struct sched * sched;     // the list scheduler's memory, from one region to the next
    struct deps_room * room;  // and that of finding out what waits for what
    struct asm_trace * trace; // NULL: nobody listens
    struct asm_stats stats;
    struct {
        int first, end;
    } loop_spans[ASM_STATS_LOOPS]; // bundles of the loops in stats
};

// Grows an array that keeps n of capacity cap; false (and no_memory) when it cannot.
bool asm_grow_now(struct asm_program * p, void ** array, int * cap, size_t item);
static inline bool asm_grow(struct asm_program * p, void ** array, int * cap, int n, size_t item) {
    return n < *cap || asm_grow_now(p, array, cap, item);
}

static inline const struct aie_instr * asm_instr(const struct asm_program * p, int op) {
    return &p->instrs[op];
}

// Which physical registers a class may use, and the aie_reg of one of them or its part.
static inline uint64_t asm_class_set(const struct asm_program * p, enum asm_class cls) {
    return p->target->classes[cls].set;
}
static inline aie_reg asm_phys(const struct aie_target * t, enum asm_class cls, int phys,
                               int part) {
    const struct aie_class * c = &t->classes[cls];
    return part < 0   ? AIE_REG(c->kind, phys)
           : part < 2 ? AIE_REG(c->half, c->half_first + 2 * phys + part)
                      : AIE_REG(c->quarter, 4 * phys + part - 2);
}

// Records an instruction outside any item, a register with a number; return the index or -1 and 0
// (with misuse or no_memory set).
int asm_node_new(struct asm_program * p, int op, int memory, const struct asm_arg * args, int n);
// One that is made of another: its operands are of the same kinds. It does not lie among the nodes.
int asm_node_copy(struct asm_program * p, const struct asm_node * n);
int16_t asm_vreg_new(struct asm_program * p, enum asm_class cls, int phys);
void asm_note_class(struct asm_program * p, enum asm_class cls); // that one of it is used
bool asm_list_global(struct asm_program * p, int id);            // that this register is one
// The physical register of a global, from here on.
void asm_give_register(struct asm_program * p, struct asm_vreg * v, int phys);

// Adds an item made of exactly one instruction: a branch or a lock operation.
void asm_single(struct asm_program * p, enum asm_item_kind kind, int op,
                const struct asm_arg * args, int n);

// Adds an empty bundle; returns its index or -1.
int asm_bundle_add(struct asm_program * p);
// An instruction into its slot of a bundle, carried by this op; none without memory for it.
static inline void asm_put(struct asm_program * p, int bundle, int node, int op) {
    struct asm_bundle * b = &p->bundles[bundle];
    enum aie_slot slot = asm_instr(p, op)->slot;
    if (node >= 0) {
        b->present |= (uint8_t) (1u << slot);
        b->kinds |= p->nodes[node].kinds;
        b->op[slot] = (uint16_t) op;
        b->node[slot] = node;
    }
}
void asm_append(struct asm_program * p, const struct asm_bundle * bundles, int n); // copies of them
void asm_idle(struct asm_program * p, int n);           // n empty bundles, none if n <= 0
void asm_insert(struct asm_program * p, int at, int n); // likewise, before the one at this index
void asm_alone(struct asm_program * p, int node);       // a bundle with this one instruction in it

// emit.c: which registers belong to globals at item i; returns the item before which it stays so.
int asm_take_globals(struct asm_program * p, int i);

// sched.c, deps.c
void asm_sched_free(struct sched * s);
void deps_room_free(struct deps_room * room);

// emit.c: whether somebody is shown programs, and with them all that is known of their loops.
bool asm_is_watched(void);

// remat.c: loads what a loop wants again much later once more.
void asm_rematerialise(struct asm_program * p);

// The bundles that a region takes, if every load that may go through either unit is near enough.
struct asm_slots {
    int most;           // bundles of the busiest slot
    int loads, loads_a; // in all, and those that one unit alone does
    int moves;          // what can only be where moves are
};
struct asm_slots asm_slots(const struct asm_program * p, const struct asm_item * region);

// park.c: keeps what a loop wants again much later in registers of which there are more.
void asm_park(struct asm_program * p);

// split-lives.c: hands values that live long on from register to register.
void asm_split_live_ranges(struct asm_program * p);

// Instructions up to which a loop is short: several registers for a value take it little room.
enum { ASM_FEW = 48 };

// spill.c: keeps values for which there is no register in memory.
void asm_spill(struct asm_program * p);

// sched.c: schedules one region behind the bundles that are there; returns false on failure (misuse
// or memory), with the reason recorded.
bool asm_schedule_region(struct asm_program * p, struct asm_item * region, bool is_loop);

// The entry for loops with this digest; a new entry, or the oldest one anew, is not yet tried.
struct asm_known * asm_known_of(struct asm_program * p, int n, int least, int plain);

// value-flow.c
void asm_flow_free(struct asm_flow * f);

// loop-bases.c: a loop's region with its loads of constants within reach of both load units,
// through pointers that are set up behind the bundles that are there; the region itself where there
// is nothing to gain. The pointers are taken from the globals: who calls gives them back.
struct asm_item asm_add_base_pointers(struct asm_program * p, const struct asm_item * region);

// sizes.c: the sizes and addresses of all bundles; false without memory.
bool asm_size(struct asm_program * p);

// loop.c: a loop with its set-up.
void asm_lay_out_loop(struct asm_program * p, struct asm_item * loop, struct asm_item * region);

// text-trace.c: what a pass has done, for those who listen (text.h); nothing when nobody does.
struct deps;
struct pipeline;
bool asm_trace_new(struct asm_trace ** out); // NULL where nobody listens; false: no memory
void asm_trace_free(struct asm_trace * t);
void asm_trace_built(struct asm_program * p);
// The instructions of a loop's region are laid out as those of another one.
void asm_trace_bases(struct asm_program * p, const struct asm_item * region,
                     const struct asm_item * near);
void asm_trace_deps(const struct deps * d);
void asm_trace_schedule(struct asm_program * p, const struct asm_item * region, int base);
// q NULL: its trips do not overlap.
void asm_trace_loop(struct asm_program * p, const struct asm_item * region,
                    const struct pipeline * q);
void asm_trace_laid_out(struct asm_program * p);
void asm_trace_bytes(struct asm_program * p, const uint8_t * bytes, size_t size);
