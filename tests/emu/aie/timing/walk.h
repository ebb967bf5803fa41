// walk: follows a program through its control flow and its addresses, and through nothing else.
// Constants, moves, sums, pointers, zero-overhead loops and jumps are interpreted from the operands
// that the project's tables give; vector instructions only move their pointers. A register that an
// instruction outside of this set wrote is unknown, and a walk that needs it fails: data never
// decide where the walk goes.
//
// It is told about every access to memory, in the cycle of its stage as if nothing ever stalled;
// since a stall freezes the whole core, accesses that meet are the same either way.
#pragma once

#include "emu/aie/banks.h"
#include "emu/aie/clock.h"
#include "emu/aie/timing/listing.h"

enum { WALK_NUMBERS = 32, WALK_STAGES = 16, WALK_DELAY_SLOTS = 5 };

struct walk {
    const struct aie_isa * isa;
    const struct listing * program;
    uint32_t base; // address of the program
    const struct emu_clock * clock;
    int32_t value[AIE_REG_KIND_COUNT][WALK_NUMBERS];
    bool known[AIE_REG_KIND_COUNT][WALK_NUMBERS];
    uint32_t pc;
    int until_jump; // bundles until the jump is taken; 0: none under way
    uint32_t target;

    uint64_t bundles, multiplications, back_edges, jumps; // between event 0 and event 1
    uint64_t conflicts, accesses;
    bool counting, ended;
    struct bank_use use[WALK_STAGES]; // by cycle, modulo
};

static inline int32_t walk_get(const struct walk * w, aie_reg reg) {
    if (!w->known[AIE_REG_KIND(reg)][AIE_REG_NUM(reg)]) {
        char name[AIE_REG_NAME_SIZE];
        fail_msg("0x%x: %s is needed and unknown", w->pc, aie_reg_name(reg, name));
    }
    return w->value[AIE_REG_KIND(reg)][AIE_REG_NUM(reg)];
}

static inline void walk_set(struct walk * w, aie_reg reg, int32_t value) {
    w->value[AIE_REG_KIND(reg)][AIE_REG_NUM(reg)] = value;
    w->known[AIE_REG_KIND(reg)][AIE_REG_NUM(reg)] = true;
}

// An operand by its letter: a register's value or an immediate.
static inline bool walk_has(const struct aie_instr * in, char letter) {
    return aie_instr_operand(in, letter) >= 0;
}

static inline int32_t walk_in(const struct walk * w, const struct aie_instr * in,
                              const struct aie_inst * inst, char letter) {
    int k = aie_instr_operand(in, letter);
    assert_true(k >= 0);
    return in->operands[k].is_imm ? inst->values[k] : walk_get(w, (aie_reg) inst->values[k]);
}

static inline aie_reg walk_reg(const struct aie_instr * in, const struct aie_inst * inst,
                               char letter) {
    int k = aie_instr_operand(in, letter);
    return k < 0 ? 0 : (aie_reg) inst->values[k];
}

static inline bool walk_is(const struct aie_instr * in, const char * mnemonic) {
    size_t n = strlen(mnemonic);
    return strncmp(in->text, mnemonic, n) == 0 && (in->text[n] == ' ' || !in->text[n]);
}

// Bytes that an access moves, by the register that it fills or empties.
static inline uint32_t walk_bytes(const struct walk * w, aie_reg data, bool conv) {
    switch (AIE_REG_KIND(data)) {
    case AIE_R:
    case AIE_P:
        return 4;
    case AIE_W:
        return 32;
    case AIE_X:
        return 64;
    case AIE_BM4:
        return conv ? 32 : 64; // 16-bit numbers become 32-bit ones
    case AIE_CM2:
        return conv ? 64 : 128;
    default:
        fail_msg("0x%x: an access of unknown width", w->pc);
        return 0;
    }
}

// What the instruction did to addresses; results go to `after`, which starts as a copy of `w`, so
// that all of a bundle reads what the bundle before it left.
static inline void walk_memory(const struct walk * w, struct walk * after,
                               const struct aie_instr * in, const struct aie_inst * inst) {
    aie_reg data = walk_reg(in, inst, walk_has(in, 'd') ? 'd' : 'a');
    uint32_t bytes = walk_bytes(w, data, strstr(in->text, ".conv") != NULL);
    bool post = strstr(in->text, "],") != NULL, stack = strstr(in->text, "[sp") != NULL;
    aie_reg pointer = stack ? AIE_REG(AIE_SPC, AIE_SPC_SP) : walk_reg(in, inst, 'p');
    int32_t step = walk_in(w, in, inst, walk_has(in, 'i') ? 'i' : walk_has(in, 'j') ? 'j' : 'm');
    int32_t addr = walk_get(w, pointer) + (post ? 0 : step);
    if (post) {
        walk_set(after, pointer, walk_get(w, pointer) + step);
    }
    if (after->counting) {
        struct bank_use * use = &after->use[(w->bundles + in->mem_first) % WALK_STAGES];
        bank_add(use, bank_mask(w->clock->bank_bit, (uint32_t) addr, bytes));
        after->accesses++;
    }
    if (in->loads) { // not the data, which arrive later
        after->known[AIE_REG_KIND(data)][AIE_REG_NUM(data) % WALK_NUMBERS] = false;
    }
}

static inline void walk_branch(struct walk * after, bool taken, uint32_t target) {
    assert_int_equal(after->until_jump, 0);
    if (taken) {
        after->until_jump = WALK_DELAY_SLOTS + 1;
        after->target = target;
        after->jumps += after->counting;
    }
}

static inline void walk_one(const struct walk * w, struct walk * after, const struct aie_instr * in,
                            const struct aie_inst * inst) {
    if (in->loads || in->stores) {
        walk_memory(w, after, in, inst);
    } else if (walk_is(in, "event #0")) {
        after->counting = true;
    } else if (walk_is(in, "event #1")) {
        after->ended = true;
    } else if (walk_is(in, "jnz")) {
        walk_branch(after, walk_in(w, in, inst, 'a') != 0, (uint32_t) walk_in(w, in, inst, 'i'));
    } else if (walk_is(in, "ret")) {
        walk_branch(after, true, UINT32_MAX);
    } else if (walk_is(in, "paddxm")) {
        aie_reg sp = AIE_REG(AIE_SPC, AIE_SPC_SP);
        walk_set(after, sp, walk_get(w, sp) + walk_in(w, in, inst, 'i'));
    } else if (walk_is(in, "padda") || walk_is(in, "paddb") || walk_is(in, "padds")) {
        int32_t step = walk_in(w, in, inst, walk_has(in, 'm') ? 'm' : 'i');
        walk_set(after, walk_reg(in, inst, 'p'), walk_in(w, in, inst, 'p') + step);
    } else if (walk_is(in, "mova") || walk_is(in, "movx") || walk_is(in, "movxm") ||
               walk_is(in, "mov") || walk_is(in, "movs")) {
        walk_set(after, walk_reg(in, inst, 'd'),
                 walk_in(w, in, inst, walk_has(in, 'i') ? 'i' : 'a'));
    } else if (walk_is(in, "add") || walk_is(in, "add.nc")) {
        walk_set(after, walk_reg(in, inst, 'd'),
                 walk_in(w, in, inst, 'a') + walk_in(w, in, inst, walk_has(in, 'i') ? 'i' : 'b'));
    } else if (walk_is(in, "lshl")) {
        int32_t by = walk_in(w, in, inst, 'b');
        assert_between(by, 0, 31);
        walk_set(after, walk_reg(in, inst, 'd'),
                 (int32_t) ((uint32_t) walk_in(w, in, inst, 'a') << by));
    } else if (walk_is(in, "ltu")) {
        walk_set(after, walk_reg(in, inst, 'd'),
                 (uint32_t) walk_in(w, in, inst, 'a') < (uint32_t) walk_in(w, in, inst, 'b'));
    } else {
        assert_false(in->branches || in->locks);
        for (int k = 0; k < in->n_operands; k++) {
            aie_reg reg = aie_inst_reg(in, inst, k);
            if (reg && (in->operands[k].role & AIE_DEF)) {
                after->known[AIE_REG_KIND(reg)][AIE_REG_NUM(reg) % WALK_NUMBERS] = false;
            }
        }
    }
}

// The immediate that a linker would have put into the bundle at `at`.
static inline void walk_link(const struct walk * w, struct aie_bundle * b, uint32_t at) {
    for (int i = 0; i < w->program->n_relocations; i++) {
        if (w->program->relocations[i].at == at) {
            struct aie_inst * inst = &b->slot[AIE_SLOT_LNG];
            assert_true(b->present >> AIE_SLOT_LNG & 1);
            int k = aie_instr_operand(aie_isa_instr(w->isa, inst->op), 'i');
            assert_true(k >= 0 && inst->values[k] == 0);
            inst->values[k] =
                (int32_t) (w->base + listing_label(w->program, w->program->relocations[i].name));
        }
    }
}

static inline void walk_step(struct walk * w) {
    struct aie_bundle b;
    struct error err;
    uint32_t at = w->pc - w->base;
    assert_true(at < w->program->size);
    if (aie_bundle_decode(w->isa, w->program->bytes + at, w->program->size - at, &b, &err)) {
        fail_msg("0x%x: %s", w->pc, err.text);
    }
    walk_link(w, &b, at);
    struct walk after = *w;
    bool multiplies = false;
    // Whether this bundle counts is known before its accesses are: the event has the ALU slot.
    for (int pass = 0; pass < 2; pass++) {
        for (int s = 0; s < AIE_SLOT_COUNT; s++) {
            if ((b.present >> s & 1) && (s == AIE_SLOT_ALU) == (pass == 0)) {
                const struct aie_instr * in = aie_isa_instr(w->isa, b.slot[s].op);
                multiplies |= strncmp(in->text, "vmul", 4) == 0 || !strncmp(in->text, "vmac", 4);
                walk_one(w, &after, in, &b.slot[s]);
            }
        }
    }
    if (after.ended) { // the window ends with the issue of this bundle
        w->ended = true;
        return;
    }
    if (after.counting) { // whose accesses in stage 1 would be this cycle's
        struct bank_use * done = &after.use[w->bundles % WALK_STAGES];
        after.conflicts += (uint64_t) bank_stalls(done);
        *done = (struct bank_use){0};
        after.bundles++;
        after.multiplications += multiplies;
    }
    aie_reg lc = AIE_REG(AIE_SPC, AIE_SPC_LC), le = AIE_REG(AIE_SPC, AIE_SPC_LE);
    after.pc = w->pc + b.size;
    if (after.until_jump && --after.until_jump == 0) {
        after.pc = after.target;
    } else if (after.known[AIE_SPC][AIE_SPC_LE] && w->pc == (uint32_t) walk_get(&after, le)) {
        int32_t left = walk_get(&after, lc) - 1;
        walk_set(&after, lc, left);
        if (left) {
            after.pc = (uint32_t) walk_get(&after, AIE_REG(AIE_SPC, AIE_SPC_LS));
            after.back_edges += after.counting;
        }
    }
    *w = after;
}

// From the start of the listing to its event 1.
static inline void walk_run(struct walk * w) {
    for (int i = 0; i < 100000 && !w->ended; i++) {
        walk_step(w);
    }
    assert_true(w->ended);
    for (int i = 0; i < WALK_STAGES; i++) { // accesses of the window that are still under way
        w->conflicts += (uint64_t) bank_stalls(&w->use[i]);
    }
}
