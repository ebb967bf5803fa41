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
    int longest;        // of all writes: cycles from issue to landing
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
                t->longest = a->cycle > t->longest ? a->cycle : t->longest;
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

// A unit that an operand reads, in the cycles of the walk in which its instruction is issued.
struct read {
    int unit, after; // it is read so many cycles after the issue
    int bypass;
    const struct asm_source * from; // the write that is meant
    int next; // write to the unit that may be issued later than the read; cycles are asked in order
};

// The write that a read in this cycle sees, NULL = none of the loop; *twice: two land together. A
// write lands with its issue at the earliest and at most `longest` cycles later, so that those
// which were issued long before the one that is seen need not be looked at.
static const struct write * seen_by(const struct trace * t, struct read * r, int cycle,
                                    bool * twice) {
    const struct write * seen = NULL;
    *twice = false;
    while (r->next < t->first[r->unit + 1] && t->all[r->next].issue <= cycle + 1) {
        r->next++;
    }
    for (int i = r->next - 1; i >= t->first[r->unit]; i--) {
        const struct write * w = &t->all[i];
        if (seen && w->issue + t->longest < seen->lands) {
            break;
        }
        int lands = w->lands - (r->bypass != AIE_BYPASS_NONE && w->bypass == r->bypass);
        if (lands <= cycle && (!seen || w->lands >= seen->lands)) {
            *twice = seen && w->lands == seen->lands;
            seen = *twice ? seen : w;
        }
    }
    return seen;
}

static const char * wrong_read(const struct trace * t, struct read * r, int cycle) {
    if (cycle - r->from->distance < 0 && t->flow->rolls) {
        return NULL; // of a trip before the first, of which nothing is wanted
    }
    bool twice;
    const struct write * seen = seen_by(t, r, cycle + r->after, &twice);
    if (twice) {
        return "reads a register in which two results land together";
    }
    bool meant = seen && seen->issue == cycle - r->from->distance && seen->slot == r->from->slot &&
                 seen->part == r->from->part;
    return meant ? NULL : "reads another value than the one that is meant";
}

static enum status check_operand(const struct trace * t, const struct asm_issue * issue,
                                 const struct check_word * word, int k, struct error * err) {
    const struct aie_operand * o = &word->instr->operands[k];
    aie_reg reg = o->role & AIE_USE ? aie_inst_reg(word->instr, &word->inst, k) : 0;
    uint8_t units[ASM_FLOW_UNITS];
    int n = reg ? aie_reg_units(reg, units) : 0;
    for (int u = 0; u < n; u++) {
        struct read r = {.unit = units[u],
                         .after = o->use_cycle - 1,
                         .bypass = (int) aie_bypass_of(o->use_bypass, reg),
                         .from = &t->flow->nodes[issue->node].from[k][u],
                         .next = t->first[units[u]]};
        if (r.from->distance == ASM_FLOW_NONE) {
            continue;
        }
        int step, turns = t->turns, cycle = cycle_of(t, issue->bundle, &step);
        const char * wrong =
            asm_flow_has(t->flow, r.unit) ? NULL : "reads a register that is none of its loop's";
        for (; turns > 0 && !wrong; cycle += step, turns = step ? turns - 1 : 0) {
            wrong = wrong_read(t, &r, cycle);
        }
        if (wrong) {
            return check_fail(t->code, t->flow->first + issue->bundle, wrong, &word->inst, err);
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
        for (int k = 0; k < word->instr->n_explicit && k < ASM_FLOW_ARGS && st == ST_OK; k++) {
            st = check_operand(t, issue, word, k, err);
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
