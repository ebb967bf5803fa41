// operand-rig: one instruction in a core of its own, and registers that change under it. What a
// register holds can be replaced at the beginning of any cycle, as if a result had landed there:
// when an instruction reads an operand shows in what it makes of the two values, and when a result
// is there shows in the register itself. No other instruction is needed for either.
//
// Kept true: an operand is addressed by the units that isa.h says it covers, and a unit is changed
// only until a result of the instruction has reached it.
#pragma once

#include "emu/aie/core-rig.h"
#include "sanitized.h"

// A sanitizer sees in a part of them what there is to see, and takes its time.
enum { OP_EVERY = SANITIZED ? 8 : 1 };

enum {
    OP_CYCLES = 14,     // that an instruction is followed for: the longest takes 11
    OP_UNIT_BYTES = 64, // the largest unit
    OP_MAX_UNITS = 40,  // of all operands of an instruction
    OP_AREA = RIG_BASE + 0x4000,
    OP_LOCK = 5, // what every lock holds
};

static uint64_t op_random_state;

static inline uint32_t op_random(uint32_t n) {
    op_random_state = op_random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) ((op_random_state >> 33) % n);
}

// ---- units ----

static const struct {
    uint8_t first, count, kind, size;
} op_files[] = {
    {AIE_UNIT_R, 32, AIE_R, 4},       {AIE_UNIT_P, 8, AIE_P, 4},
    {AIE_UNIT_M, 8, AIE_M, 4},        {AIE_UNIT_DN, 8, AIE_DN, 4},
    {AIE_UNIT_DJ, 8, AIE_DJ, 4},      {AIE_UNIT_DC, 8, AIE_DC, 4},
    {AIE_UNIT_S, 4, AIE_S, 4},        {AIE_UNIT_CR, 16, AIE_CR, 4},
    {AIE_UNIT_SR, 16, AIE_SR, 4},     {AIE_UNIT_SPC, 8, AIE_SPC, 4},
    {AIE_UNIT_W, 24, AIE_W, 32},      {AIE_UNIT_Q, 4, AIE_Q, 16},
    {AIE_UNIT_AM, 36, AIE_AM, 32},    {AIE_UNIT_CRP, AIE_CRP_COUNT, AIE_CRP, 4},
    {AIE_UNIT_E, 12, AIE_E, 8}, // el and eh
    {AIE_UNIT_FIFO, 7, AIE_FIFO, 64}, {AIE_UNIT_BM4, 20, AIE_BM4, 64},
};

static inline int op_file(int unit) {
    int f = 0;
    while (unit < op_files[f].first || unit >= op_files[f].first + op_files[f].count) {
        f++;
        assert_true(f < (int) (sizeof op_files / sizeof op_files[0]));
    }
    return f;
}

static inline void op_unit_access(struct rig * r, int unit, uint8_t * bytes, bool write) {
    int f = op_file(unit), n = unit - op_files[f].first, two = op_files[f].kind == AIE_E;
    if (!write) {
        memset(bytes, 0, OP_UNIT_BYTES);
    }
    for (int i = 0; i <= two; i++) {
        aie_reg reg = AIE_REG(op_files[f].kind, two ? 2 * n + i : n);
        int size = write ? core_reg_set(r->core, reg, bytes + 4 * i)
                         : core_reg_get(r->core, reg, bytes + 4 * i);
        assert_int_equal(size, two ? 4 : op_files[f].size);
    }
}

// ---- an instruction and what its operands hold ----

struct op_values {
    uint8_t unit[OP_MAX_UNITS][OP_UNIT_BYTES]; // parallel to op_scene.units
};

struct op_scene {
    struct rig * rig;
    const struct aie_instr * instr;
    struct aie_inst inst;
    int n_units, cycles;
    unsigned word; // words of it so far
    bool watches;  // memory is looked at after every cycle
    uint8_t units[OP_MAX_UNITS];
    uint8_t lands[OP_MAX_UNITS];   // cycle of the first result there; 0: none
    uint64_t of[AIE_MAX_OPERANDS]; // units of an operand, a bit each
    uint8_t memory[0x10000];       // before the instruction
    uint32_t tile[RIG_REGISTERS];
    struct op_values first;
};

// What an instruction leaves behind.
struct op_outcome {
    uint8_t unit[OP_CYCLES + 1][OP_MAX_UNITS][OP_UNIT_BYTES]; // before the first cycle, after each
    uint32_t pc;
    int lock[64], n_in, n_out;
    uint32_t out[4];
    bool out_last[4];
    uint8_t cascade[64];
    int stored[OP_CYCLES + 1]; // bytes of memory that differ by then
    uint8_t memory[0x10000];
    uint32_t tile[RIG_REGISTERS];
};

static inline int op_unit_index(struct op_scene * s, int unit) {
    for (int i = 0; i < s->n_units; i++) {
        if (s->units[i] == unit) {
            return i;
        }
    }
    assert_true(s->n_units < OP_MAX_UNITS);
    s->units[s->n_units] = (uint8_t) unit;
    s->lands[s->n_units] = 0;
    return s->n_units++;
}

// The units of all operands; false when two of them overlap that need not.
static inline bool op_list_units(struct op_scene * s) {
    uint64_t taken = 0;
    s->n_units = 0;
    memset(s->of, 0, sizeof s->of);
    for (int k = 0; k < s->instr->n_operands; k++) {
        const struct aie_operand * o = &s->instr->operands[k];
        uint8_t units[8];
        int n = o->is_imm ? 0 : aie_reg_units(aie_inst_reg(s->instr, &s->inst, k), units);
        for (int i = 0; i < n; i++) {
            int at = op_unit_index(s, units[i]);
            s->of[k] |= UINT64_C(1) << at;
            if (o->role & AIE_DEF && (!s->lands[at] || o->def_cycle < s->lands[at])) {
                s->lands[at] = o->def_cycle;
            }
        }
        if (taken & s->of[k] && !o->part) {
            return false;
        }
        taken |= k < s->instr->n_explicit ? s->of[k] : 0; // fixed ones overlap as they do
    }
    return true;
}

// What a product may be told: a word that some of them know, each time another.
static const uint16_t op_configurations[] = {0x03c, 0x30c, 0x01c, 0x308, 0x328, 0x118,
                                             0x338, 0x302, 0x312, 0x31a, 0x35a, 0x75a,
                                             0x310, 0x008, 0x000, 0x002};
static const uint8_t op_variations[] = {0, 8, 9, 10, 11, 12, 13}; // bits that most of them know
enum { OP_CONFIGURATIONS = sizeof op_configurations / sizeof op_configurations[0] };

// Something that the instruction may find in this unit, often enough something that it knows.
static inline void op_any_value(const struct op_scene * s, int unit, uint8_t * bytes) {
    static const uint8_t roundings[] = {0, 1, 2, 3, 8, 9, 10, 11, 12, 13},
                         saturations[] = {0, 1, 3};
    int f = op_file(unit), n = unit - op_files[f].first, kind = op_files[f].kind;
    uint32_t v = op_random(1u << 31) * 2 + op_random(2);
    for (int i = 0; i < OP_UNIT_BYTES; i += 4) {
        store_u32(bytes + i, op_random(1u << 31) * 2 + op_random(2));
    }
    switch (kind) {
    case AIE_R:
        if (n >= 24 && n <= 26 && s->instr->mem_cycle) { // levels of the fifos
            v = n == 26 ? 0u - op_random(65) : op_random(129);
        } else if (s->instr->locks) {
            v = op_random(2) ? 48 + op_random(16) : 0u - 2 + op_random(4);
        } else if (s->instr->slot == AIE_SLOT_VEC && op_random(8)) {
            v = op_configurations[s->word % OP_CONFIGURATIONS];
            v ^= op_random(2) ? 0 : 1u << op_variations[op_random(sizeof op_variations)];
        } else {
            uint32_t which = op_random(4);
            v = which == 0 ? op_random(2) : which == 1 ? op_random(64) : v;
        }
        break;
    case AIE_P:
        v = s->instr->branches              ? op_random(CORE_PM_BYTES / 2) * 2
            : strstr(s->instr->text, ".tm") ? 0x80000 + RIG_TILE + 64 * (1 + op_random(16))
                                            : OP_AREA + 64 * op_random(16);
        break;
    case AIE_M:
    case AIE_DJ:
        v = 64 * op_random(16);
        break;
    case AIE_DN:
    case AIE_DC:
        v = op_random(3);
        break;
    case AIE_S:
        v = op_random(64);
        break;
    case AIE_CR:
        v = n == AIE_CR_RND   ? roundings[op_random(sizeof roundings)]
            : n == AIE_CR_SAT ? saturations[op_random(sizeof saturations)]
                              : op_random(2);
        break;
    case AIE_CRP:
        v = op_random(2);
        break;
    case AIE_SR:
        v = op_random(2);
        break;
    case AIE_SPC:
        v = n == AIE_SPC_SP   ? RIG_BASE + 0xf000 + 64 * op_random(16)
            : n == AIE_SPC_LR ? op_random(CORE_PM_BYTES / 2) * 2
            : n == AIE_SPC_LC ? op_random(1000) + 1
                              : 0x8000 + op_random(0x1000); // ls, le: never reached
        break;
    default: { // lanes: anything; addresses; fp32, bf16 and integers that are near each other
        uint32_t which = op_random(4);
        for (int i = 0; i < OP_UNIT_BYTES && which; i += 4) {
            uint32_t u = load_u32(bytes + i);
            u = which == 1   ? OP_AREA + u % 1024
                : which == 2 ? (u & 0x83ff83ff) | 0x3c003c00
                             : (u & 0x000f000f) * (u >> 31 ? 0xffffffffu : 1);
            store_u32(bytes + i, u);
        }
        return;
    }
    }
    store_u32(bytes, v);
}

// Some word of the instruction; false when no word of it decodes.
static inline bool op_any_word(struct op_scene * s, const struct aie_isa * isa, int op) {
    const struct aie_instr * in = aie_isa_instr(isa, op);
    struct error err;
    s->word++;
    for (int tries = 0; tries < 2000; tries++) {
        uint64_t word = (uint64_t) op_random(1u << 31) << 31 ^ op_random(1u << 31);
        word = (word & ~in->mask) | in->value;
        word &= (UINT64_C(1) << aie_slot_bits(isa, in->slot)) - 1;
        s->instr = in;
        if (aie_slot_decode(isa, in->slot, word, &s->inst, &err) == ST_OK && s->inst.op == op &&
            op_list_units(s)) {
            for (int k = 0; k < in->n_explicit; k++) {
                if (in->branches && in->operands[k].is_imm) { // into program memory
                    s->inst.values[k] = (int32_t) op_random(CORE_PM_BYTES / 2) * 2;
                }
            }
            return true;
        }
    }
    return false;
}

static inline void op_draw(const struct op_scene * s, struct op_values * v) {
    for (int i = 0; i < s->n_units; i++) {
        op_any_value(s, s->units[i], v->unit[i]);
    }
}

static inline void op_begin(struct op_scene * s, enum aie_arch arch, uint64_t seed) {
    op_random_state = seed;
    s->rig = rig_new_arch(arch, (struct core_env){0});
    for (int i = 0; i < (int) sizeof s->memory; i++) {
        s->memory[i] = (uint8_t) op_random(256);
    }
    memcpy(s->rig->memory, s->memory, sizeof s->memory);
    for (int i = 0; i < RIG_WORDS; i++) {
        s->rig->in[i] = op_random(1u << 31);
        s->rig->cascade_in[i] = (uint8_t) op_random(256);
    }
    for (int i = 0; i < RIG_REGISTERS; i++) {
        s->tile[i] = op_random(1u << 31);
    }
    memcpy(s->rig->tile, s->tile, sizeof s->tile);
    nops(s->rig, OP_CYCLES + 3);
}

// The program: the instruction, and the empty bundles of op_begin().
static inline void op_load(struct op_scene * s) {
    s->rig->at = 0;
    EMIT(s->rig, s->inst);
    s->cycles = s->instr->branches ? 6 : OP_CYCLES; // the target itself is not executed
}

// Runs it. From the beginning of cycle `at` on (0: its issue) `operand` holds what `other` says.
// False: the core stopped or waits.
static inline bool op_play(struct op_scene * s, const struct op_values * other, int operand, int at,
                           struct op_outcome * out) {
    struct rig * r = s->rig;
    core_reset(r->core);
    core_enable(r->core, true, 0);
    set(r, LE, 0xffff0);
    for (int i = 0; i < s->n_units; i++) {
        op_unit_access(r, s->units[i], s->first.unit[i], true);
    }
    if (s->instr->stores) {
        memcpy(r->memory, s->memory, sizeof s->memory);
        memcpy(r->tile, s->tile, sizeof s->tile);
    }
    for (int i = 0; i < 64; i++) {
        r->lock[i] = OP_LOCK;
    }
    r->at_in = r->n_out = r->n_cascade_out = 0;
    r->n_in = RIG_WORDS;
    r->n_cascade_in = 4;
    for (int cycle = 0; cycle <= s->cycles; cycle++) {
        for (int i = 0; other && cycle == at && i < s->n_units; i++) {
            bool reached = s->lands[i] && s->lands[i] <= cycle;
            if (s->of[operand] >> i & 1 && !reached) {
                op_unit_access(r, s->units[i], (uint8_t *) other->unit[i], true);
            }
        }
        for (int i = 0; i < s->n_units; i++) {
            op_unit_access(r, s->units[i], out->unit[cycle][i], false);
        }
        out->stored[cycle] = s->watches && (memcmp(r->memory, s->memory, sizeof s->memory) != 0 ||
                                            memcmp(r->tile, s->tile, sizeof s->tile) != 0);
        if (cycle < s->cycles && core_run(r->core, UINT64_MAX, core_now(r->core)) != CORE_READY) {
            return false;
        }
    }
    out->pc = s->instr->branches ? core_pc(r->core) : 0;
    memcpy(out->lock, r->lock, sizeof out->lock);
    out->n_in = r->at_in;
    out->n_out = r->n_out;
    memcpy(out->out, r->out, sizeof out->out);
    memcpy(out->out_last, r->out_last, sizeof out->out_last);
    memset(out->cascade, 0, sizeof out->cascade);
    if (r->n_cascade_out) {
        memcpy(out->cascade, r->cascade_out, sizeof out->cascade);
    }
    if (s->instr->stores) {
        memcpy(out->memory, r->memory, sizeof out->memory);
        memcpy(out->tile, r->tile, sizeof out->tile);
    }
    return true;
}

// Whether two runs came to the same: results, memory, and what the outside saw.
static inline bool op_same(const struct op_scene * s, const struct op_outcome * a,
                           const struct op_outcome * b) {
    for (int i = 0; i < s->n_units; i++) {
        if (s->lands[i] && memcmp(a->unit[s->cycles][i], b->unit[s->cycles][i], OP_UNIT_BYTES)) {
            return false;
        }
    }
    return a->pc == b->pc && memcmp(a->lock, b->lock, sizeof a->lock) == 0 && a->n_in == b->n_in &&
           a->n_out == b->n_out &&
           memcmp(a->out, b->out, sizeof a->out[0] * (size_t) a->n_out) == 0 &&
           memcmp(a->out_last, b->out_last, (size_t) a->n_out) == 0 &&
           memcmp(a->cascade, b->cascade, sizeof a->cascade) == 0 &&
           (!s->instr->stores || (memcmp(a->memory, b->memory, sizeof a->memory) == 0 &&
                                  memcmp(a->tile, b->tile, sizeof a->tile) == 0));
}
