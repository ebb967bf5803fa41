// asm/check-read: the checker's own reading of a program's bytes: bundles, what each instruction
// reads and writes and when. Programs say the same again and again (the parts of a loop, bundles
// that wait), so each slot's word is decoded once; that equal bits are one instruction is all that
// is taken for granted.
#include "check.h"

#include <stdlib.h>
#include <string.h>

int check_target_at(const struct check_code * c, int32_t pc) {
    return pc >= 0 && pc % c->target->bundle_bytes == 0 && pc / 2 < c->n_indices
               ? c->indices[pc / 2]
               : -1;
}

const struct check_word * check_long_in(const struct check_code * c, int at) {
    const struct check_bundle * b = &c->bundles[at];
    for (int k = 0; k < b->n; k++) {
        if (c->words[b->words[k]].slot == AIE_SLOT_LNG) {
            return &c->words[b->words[k]];
        }
    }
    return NULL;
}

// ---- what an instruction reads and writes ----

static bool is_loop_register(aie_reg reg) {
    return AIE_REG_KIND(reg) == AIE_SPC &&
           (AIE_REG_NUM(reg) == AIE_SPC_LS || AIE_REG_NUM(reg) == AIE_SPC_LE ||
            AIE_REG_NUM(reg) == AIE_SPC_LC);
}

static void list_accesses(struct check_code * c, const struct check_word * w, int role) {
    const struct aie_instr * instr = w->instr;
    for (int k = 0; k < instr->n_operands; k++) {
        const struct aie_operand * o = &instr->operands[k];
        aie_reg reg = o->role & role ? aie_inst_reg(instr, &w->inst, k) : 0;
        if (!reg || AIE_REG_KIND(reg) == AIE_SR) {
            continue;
        }
        bool is_def = role == AIE_DEF;
        bool pointer_update = AIE_REG_KIND(reg) == AIE_P && (o->role & AIE_USE);
        bool has_port = is_def && k < instr->n_explicit && !pointer_update;
        uint8_t units[8];
        int n = aie_reg_units(reg, units);
        int port = n && has_port ? w->slot * AIE_FILE_COUNT + aie_target_file(c->target, units[0])
                                 : CHECK_NO_PORT;
        struct check_access a = {
            .cycle = is_def ? o->def_cycle : o->use_cycle,
            .bypass = (uint8_t) aie_bypass_of(is_def ? o->def_bypass : o->use_bypass, reg),
            .port = (uint8_t) port,
            .is_loop = is_def && is_loop_register(reg)};
        for (int u = 0; u < n; u++) {
            a.unit = units[u];
            a.part = (uint8_t) u;
            c->accesses[c->n_accesses++] = a;
            a.port = CHECK_NO_PORT;
        }
    }
}

// ---- words ----

// Room for one more, and for all that it reads and writes.
static bool has_room(struct check_code * c) {
    enum { MOST = 2 * AIE_MAX_OPERANDS * 8 };
    if (c->n_words == c->cap_words) {
        int cap = 2 * c->cap_words + 512;
        struct check_word * more = realloc(c->words, (size_t) cap * sizeof *more);
        if (!more) {
            return false;
        }
        c->words = more;
        c->cap_words = cap;
    }
    if (c->n_accesses + MOST > c->cap_accesses) {
        int cap = 2 * c->cap_accesses + 4096;
        struct check_access * more = realloc(c->accesses, (size_t) cap * sizeof *more);
        if (!more) {
            return false;
        }
        c->accesses = more;
        c->cap_accesses = cap;
    }
    return true;
}

static enum status add_word(struct check_code * c, int slot, uint64_t bits, int next,
                            struct error * err) {
    if (!has_room(c)) {
        return error_set(err, ST_NO_MEMORY, "check: out of memory");
    }
    struct check_word * w = &c->words[c->n_words];
    *w = (struct check_word){.bits = bits, .slot = (uint8_t) slot, .next = next};
    enum status st = aie_slot_decode(c->isa, (enum aie_slot) slot, bits, &w->inst, err);
    if (st != ST_OK) {
        return st;
    }
    w->instr = aie_isa_instr(c->isa, w->inst.op);
    w->memory = w->instr->loads || w->instr->stores;
    w->stores = w->instr->stores;
    w->locks = w->instr->locks;
    w->branches = w->instr->branches;
    w->uses = c->n_accesses;
    list_accesses(c, w, AIE_USE);
    w->defs = c->n_accesses;
    list_accesses(c, w, AIE_DEF);
    w->end = c->n_accesses;
    w->idle = w->uses == w->end && !w->memory && !w->locks && !w->branches;
    c->n_words++;
    return ST_OK;
}

// The word with these bits in this slot, an index.
static enum status find_word(struct check_code * c, int slot, uint64_t bits, int * out,
                             struct error * err) {
    uint64_t hash = (bits + (uint64_t) slot) * 0x9e3779b97f4a7c15u >> 32;
    int * head = &c->heads[hash % CHECK_HASHES];
    for (*out = *head; *out >= 0; *out = c->words[*out].next) {
        if (c->words[*out].bits == bits && c->words[*out].slot == slot) {
            return ST_OK;
        }
    }
    *out = c->n_words;
    enum status st = add_word(c, slot, bits, *head, err);
    *head = st == ST_OK ? *out : *head;
    return st;
}

// ---- bundles ----

static enum status read_bundle(struct check_code * c, int pc, struct error * err) {
    struct check_bundle * b = &c->bundles[c->n];
    struct aie_words words;
    enum status st = aie_bundle_split(c->isa, c->bytes + pc, c->size - (size_t) pc, &words, err);
    *b = (struct check_bundle){.pc = pc, .size = words.size, .branch = -1};
    for (unsigned left = words.present; left && st == ST_OK; left &= left - 1) {
        int slot = __builtin_ctz(left), index;
        st = find_word(c, slot, words.word[slot], &index, err);
        if (st != ST_OK || c->words[index].idle) {
            continue;
        }
        const struct check_word * w = &c->words[index];
        b->words[b->n++] = index;
        b->apart |= w->memory || w->locks || w->branches;
        b->branch = w->branches && b->branch < 0 ? index : b->branch;
        if (slot == AIE_SLOT_LNG) {
            c->longs[c->n_longs++] = c->n;
        }
    }
    if (st == ST_INVALID) { // said with the bundle's bytes
        struct aie_bundle bundle;
        st = aie_bundle_decode(c->isa, c->bytes + pc, c->size - (size_t) pc, &bundle, err);
    }
    return st;
}

enum status check_read(struct check_code * c, enum aie_arch arch, const uint8_t * bytes,
                       size_t size, struct error * err) {
    size_t most = size / 2 + 1; // bundles
    *c = (struct check_code){.target = aie_target(arch),
                             .isa = aie_isa_get(arch),
                             .bytes = bytes,
                             .size = size,
                             .n_indices = (int) most};
    c->bundles = malloc(most * sizeof *c->bundles);
    c->indices = malloc(most * sizeof *c->indices);
    c->longs = malloc(most * sizeof *c->longs);
    if (!c->bundles || !c->indices || !c->longs) {
        return error_set(err, ST_NO_MEMORY, "check: out of memory");
    }
    memset(c->indices, -1, most * sizeof *c->indices);
    memset(c->heads, -1, sizeof c->heads);
    for (size_t pc = 0; pc < size; pc += c->bundles[c->n++].size) {
        enum status st = read_bundle(c, (int) pc, err);
        if (st != ST_OK) {
            return error_prefix(err, st, "check: pc 0x%zx", pc);
        }
        c->indices[pc / 2] = c->n;
    }
    return ST_OK;
}

void check_free(struct check_code * c) {
    free(c->bundles);
    free(c->indices);
    free(c->longs);
    free(c->words);
    free(c->accesses);
}
