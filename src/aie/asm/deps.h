// deps: which instruction of a region waits for which, and how long. Shared by the list scheduler
// (one pass through a region) and the modulo scheduler (trips of a loop that overlap).
#pragma once

#include "program.h"

// to issues at least `latency` bundles after from did, `trips` trips earlier: with an initiation
// interval of ii, time[to] >= time[from] + latency - trips * ii.
struct dep {
    int from, to;
    int next_out, next_in; // other edges of the same node, -1 = none
    int16_t latency;
    uint8_t trips; // DEP_COPIES: as many as a local has registers
};

enum { DEP_COPIES = 0xff };

// A load or store through a pointer that a later instruction of the region moves on by a constant,
// once a trip: where trips overlap it may issue behind `most` of those moves that it stands before,
// its offset less as many steps.
struct dep_node {
    const struct aie_instr * instr; // as it was written
    int first_out, first_in;
    int mover; // that instruction, -1 = the offset is what was written
    int32_t step;
    uint8_t most;
    uint8_t offset; // the operand
};

struct deps {
    struct asm_program * p;
    int first, count; // nodes of the region
    struct dep_node * nodes;
    struct dep * edges;
    int n_edges, cap_edges;
    int cap_nodes;
    bool loop; // with the edges between trips
};

// With `loop` set, the edges between one trip and the next are there too. False when memory ran
// out; a read of a register that nothing wrote is recorded as misuse. d is zero or has been built
// before, whose memory is used again; it is to be freed either way.
bool deps_build(struct deps * d, struct asm_program * p, const struct asm_item * region, bool loop);
// Only what goes from instruction to instruction in a virtual register, within a trip.
bool deps_build_values(struct deps * d, struct asm_program * p, const struct asm_item * region);
void deps_free(struct deps * d);
// An edge more, and all but the first so many away again.
void deps_add(struct deps * d, int from, int to, int latency, int trips);
void deps_take_away(struct deps * d, int but);

// The offset of node i with `moves` moves of its pointer behind it that should come after it.
static inline int32_t deps_offset(const struct deps * d, int i, int moves) {
    const struct dep_node * n = &d->nodes[i];
    return d->p->nodes[d->first + i].args[n->offset].value - moves * n->step;
}

// The instruction of node i of the region as it was written.
static inline const struct aie_instr * deps_instr(const struct deps * d, int i) {
    return d->nodes[i].instr;
}

// ---- what a bundle can hold ----

// Ops that may carry this node, the one that was written first; returns how many (at most 2).
int asm_variants(const struct asm_program * p, const struct asm_node * n, uint16_t ops[2]);

// A result that lands: register files have one write port per slot.
struct asm_landing {
    uint8_t cycle; // after issue
    uint8_t file;  // enum aie_file
};
enum { ASM_FILES = AIE_FILE_COUNT };

// The landings of the node when `instr` carries it; returns how many.
int asm_landings(const struct asm_program * p, const struct asm_node * n,
                 const struct aie_instr * instr, struct asm_landing out[ASM_MAX_ARGS]);

// The slots that an instruction in `slot` excludes, itself included: bit per enum aie_slot.
static inline unsigned asm_excludes(enum aie_slot slot) {
    enum { LNG = 1u << AIE_SLOT_LNG, PAIR = 1u << AIE_SLOT_ALU | 1u << AIE_SLOT_MV };
    return slot == AIE_SLOT_LNG                          ? LNG | PAIR
           : slot == AIE_SLOT_ALU || slot == AIE_SLOT_MV ? 1u << slot | LNG
                                                         : 1u << slot;
}

// From issue on: when an operand of node n has been read or its result has landed.
static inline int asm_settles(const struct aie_operand * o) {
    int read = (o->role & AIE_USE) ? o->use_cycle - 1 : 0;
    int landed = (o->role & AIE_DEF) ? o->def_cycle : 0;
    return read > landed ? read : landed;
}

// Whether registers of a class still serve their old value while the new one is on its way
// (asm_loop_late). Scalars do not: the checker follows them everywhere.
static inline bool asm_is_late(const struct asm_program * p, enum asm_class cls) {
    return p->late && p->target->classes[cls].file != AIE_FILE_SCALAR;
}

// From issue on: until when the register of a result still gives its old value, to a read that the
// result could reach by a bypass as well.
static inline int asm_arrives(const struct aie_operand * o) {
    return o->def_cycle - 1 - (o->def_bypass != AIE_BYPASS_NONE);
}

// Bundles from issue until everything has landed and all late reads and writes are done.
static inline int asm_drains(const struct aie_target * t, const struct aie_instr * instr) {
    int late = instr->mem_cycle - t->memory_stage; // later than ordinary memory traffic
    return late > instr->last_cycle ? late : instr->last_cycle;
}
