// asm/check-flow: follows values through a loop in which a register is read while its next value is
// already on the way (asm_loop_late). That a write is in flight is no mistake there, so the
// question is another one: does each operand see the very write that it is meant to see? What is
// meant is said by the author's order of instructions (struct asm_flow); what is seen is worked out
// from the bytes: of all writes to a register the one that has landed last.
//
// Kept true: a loop is walked through with its lead-in, its repeated part as often as it takes
// until one time is like the next, and what follows it; two results never land together in a
// register.
#include "check.h"

#include <stdlib.h>

struct write {
    int issue, lands; // cycles of the walk
    uint8_t bypass;
    uint8_t slot, part; // of the instruction, and of its result
};

struct trace { // one walk through the loop
    const struct check_code * code;
    const struct asm_flow * flow;
    int turns;          // of the repeated part
    int length;         // bundles of the walk
    int * first;        // of each unit, in writes; one more
    struct write * all; // by unit, in the order of issue
};

// The bundle of the program that is issued in a cycle of the walk.
static int bundle_at(const struct trace * t, int cycle) {
    const struct asm_flow * f = t->flow;
    int part = f->to - f->from + 1, behind = cycle - f->from - t->turns * part;
    int at = cycle < f->from ? cycle
             : behind < 0    ? f->from + (cycle - f->from) % part
                             : f->to + 1 + behind;
    return f->first + at;
}

// The first cycle in which a bundle of the loop is issued; *step: until it is again, 0 = it is not.
static int cycle_of(const struct trace * t, int bundle, int * step) {
    const struct asm_flow * f = t->flow;
    int part = f->to - f->from + 1;
    *step = bundle >= f->from && bundle <= f->to ? part : 0;
    return bundle <= f->to ? bundle : bundle + (t->turns - 1) * part;
}

// ---- writes ----

// Counts them, or enters them behind those that are there.
static void list_writes(struct trace * t, int * next) {
    for (int cycle = 0; cycle < t->length; cycle++) {
        const struct check_bundle * b = &t->code->bundles[bundle_at(t, cycle)];
        for (int k = 0; k < b->n; k++) {
            const struct check_word * w = &t->code->words[b->words[k]];
            for (int i = w->defs; i < w->end; i++) {
                const struct check_access * a = &t->code->accesses[i];
                if (!asm_flow_has(t->flow, a->unit)) {
                    continue;
                }
                if (t->all) {
                    t->all[next[a->unit]] =
                        (struct write){cycle, cycle + a->cycle, a->bypass, w->slot, a->part};
                }
                next[a->unit]++;
            }
        }
    }
}

static bool collect_writes(struct trace * t) {
    int next[AIE_UNIT_COUNT + 1] = {0};
    list_writes(t, next);
    t->first[0] = 0;
    for (int u = 0; u < AIE_UNIT_COUNT; u++) {
        t->first[u + 1] = t->first[u] + next[u];
        next[u] = t->first[u];
    }
    t->all = malloc(((size_t) t->first[AIE_UNIT_COUNT] + 1) * sizeof *t->all);
    if (t->all) {
        list_writes(t, next);
    }
    return t->all;
}

// ---- reads ----

// The write that a read in this cycle sees, NULL = none of the loop; *twice: two land together.
static const struct write * seen_by(const struct trace * t, int unit, int cycle, int bypass,
                                    bool * twice) {
    const struct write * seen = NULL;
    *twice = false;
    for (int i = t->first[unit]; i < t->first[unit + 1]; i++) {
        const struct write * w = &t->all[i];
        int lands = w->lands - (bypass != AIE_BYPASS_NONE && w->bypass == bypass);
        if (lands <= cycle && (!seen || w->lands >= seen->lands)) {
            *twice = seen && w->lands == seen->lands;
            seen = w;
        }
    }
    return seen;
}

static enum status check_operand(const struct trace * t, const struct asm_issue * issue, int cycle,
                                 const struct check_word * word, int k, struct error * err) {
    const struct aie_operand * o = &word->instr->operands[k];
    aie_reg reg = o->role & AIE_USE ? aie_inst_reg(word->instr, &word->inst, k) : 0;
    int at = t->flow->first + issue->bundle;
    uint8_t units[ASM_FLOW_UNITS];
    int n = reg ? aie_reg_units(reg, units) : 0;
    for (int u = 0; u < n; u++) {
        const struct asm_source * from = &t->flow->nodes[issue->node].from[k][u];
        if (from->distance == ASM_FLOW_NONE) {
            continue;
        }
        if (!asm_flow_has(t->flow, units[u])) {
            return check_fail(t->code, at, "reads a register that is none of its loop's",
                              &word->inst, err);
        }
        if (cycle - from->distance < 0 && t->flow->rolls) {
            continue; // of a trip before the first, of which nothing is wanted
        }
        bool twice;
        const struct write * seen = seen_by(t, units[u], cycle + o->use_cycle - 1,
                                            (int) aie_bypass_of(o->use_bypass, reg), &twice);
        if (twice) {
            return check_fail(t->code, at, "reads a register in which two results land together",
                              &word->inst, err);
        }
        if (!seen || seen->issue != cycle - from->distance || seen->slot != from->slot ||
            seen->part != from->part) {
            return check_fail(t->code, at, "reads another value than the one that is meant",
                              &word->inst, err);
        }
    }
    return ST_OK;
}

static const struct check_word * word_in(const struct check_code * c, int at, int slot) {
    const struct check_bundle * b = &c->bundles[at];
    for (int k = 0; k < b->n; k++) {
        if (c->words[b->words[k]].slot == slot) {
            return &c->words[b->words[k]];
        }
    }
    return NULL;
}

static enum status check_reads(const struct trace * t, struct error * err) {
    enum status st = ST_OK;
    for (int i = 0; i < t->flow->n_issues && st == ST_OK; i++) {
        const struct asm_issue * issue = &t->flow->issues[i];
        const struct check_word * word =
            word_in(t->code, t->flow->first + issue->bundle, issue->slot);
        if (!word) {
            return error_set(err, ST_INVALID,
                             "check: pc 0x%x: an instruction of the loop is missing",
                             t->code->bundles[t->flow->first + issue->bundle].pc);
        }
        int step, turns = t->turns;
        for (int cycle = cycle_of(t, issue->bundle, &step); turns > 0 && st == ST_OK;
             cycle += step, turns = step ? turns - 1 : 0) {
            for (int k = 0; k < word->instr->n_explicit && k < ASM_FLOW_ARGS && st == ST_OK; k++) {
                st = check_operand(t, issue, cycle, word, k, err);
            }
        }
    }
    return st;
}

// ---- a loop ----

static enum status check_turns(const struct check_code * c, const struct asm_flow * f, int turns,
                               struct error * err) {
    int first[AIE_UNIT_COUNT + 1];
    struct trace t = {.code = c,
                      .flow = f,
                      .turns = turns,
                      .length = f->n + (turns - 1) * (f->to - f->from + 1),
                      .first = first};
    if (!collect_writes(&t)) {
        return error_set(err, ST_NO_MEMORY, "check: out of memory");
    }
    enum status st = check_reads(&t, err);
    free(t.all);
    return st;
}

enum status check_flow(const struct check_code * c, const struct asm_flow * f, struct error * err) {
    if (f->first < 0 || f->n <= 0 || f->first + f->n > c->n || f->from < 0 || f->from > f->to ||
        f->to >= f->n) {
        return error_set(err, ST_INVALID, "check: a loop of bundles %d to %d, and there are %d",
                         f->first, f->first + f->n, c->n);
    }
    enum status st = ST_OK;
    for (int turns = f->rolls ? f->turns : 1; turns <= f->turns && st == ST_OK; turns++) {
        st = check_turns(c, f, turns, err);
    }
    return st;
}
