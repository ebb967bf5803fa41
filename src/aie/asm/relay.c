// asm/relay: a value that lives longer than trips are apart would stand in the way of its own next
// trip: a loop that rolls has one register for each value. Such a value is handed on, by a copy,
// from one register to the next, each for a part of its life. That takes as many registers as the
// copies of the whole loop would that gave it several, and far less program.
//
// Kept true: uses go to the register that holds the value when they can be latest; the first write
// and the last use stay in the order in which they were written.
#include "deps.h"

#include <stdlib.h>

enum {
    LONG_TENTHS = 12, // of what slots take: a life that is handed on
    PART_TENTHS = 9,  // of that: a part of it
    MOST_PARTS = 8,
    NOWHERE = -1000000,
};

struct value {           // a local
    int first, last_def; // instructions that write it first and last; first -1: not written yet
    int last_use, deepest;
    bool mixed; // written again behind a use
    int parts, life;
    int part;                // that the region has come to
    int16_t now[MOST_PARTS]; // the registers that stand for it
};

struct relay {
    struct asm_program * p;
    const struct asm_item * region;
    struct deps deps;
    struct value * values; // by virtual register
    int n_vregs;
    int *path, *depth, *below; // of instructions: from a value's first write, from the trip's
                               // beginning, to its end
};

static const struct asm_node * node_of(const struct relay * r, int i) {
    return &r->p->nodes[r->region->first + i];
}

static void find_values(struct relay * r) {
    for (int i = 0; i < r->region->count; i++) {
        const struct asm_node * n = node_of(r, i);
        for (int k = 0; k < n->n_args; k++) {
            if (n->args[k].kind != ASM_ARG_REG || r->p->vregs[n->args[k].reg.id].global) {
                continue;
            }
            struct value * v = &r->values[n->args[k].reg.id];
            int role = deps_instr(&r->deps, i)->operands[k].role;
            if (role & AIE_USE) {
                bool deeper = v->last_use < 0 || r->depth[i] > r->depth[v->deepest];
                v->deepest = deeper ? i : v->deepest;
                v->last_use = i;
            }
            if (role & AIE_DEF) {
                v->mixed |= v->first >= 0 && v->last_use >= 0;
                v->first = v->first < 0 ? i : v->first;
                v->last_def = i;
            }
        }
    }
}

static void find_depths(struct relay * r) {
    const struct deps * d = &r->deps;
    for (int i = 0; i < d->count; i++) {
        r->depth[i] = 0;
        for (int e = d->nodes[i].first_in; e >= 0; e = d->edges[e].next_in) {
            int via = r->depth[d->edges[e].from] + d->edges[e].latency;
            r->depth[i] = via > r->depth[i] ? via : r->depth[i];
        }
    }
    for (int i = d->count - 1; i >= 0; i--) {
        r->below[i] = 0;
        for (int e = d->nodes[i].first_out; e >= 0; e = d->edges[e].next_out) {
            int via = r->below[d->edges[e].to] + d->edges[e].latency;
            r->below[i] = via > r->below[i] ? via : r->below[i];
        }
    }
}

// The longest way from a value's first write to the use that is deepest.
static int find_life(struct relay * r, const struct value * v) {
    const struct deps * d = &r->deps;
    for (int i = v->first; i <= v->deepest; i++) {
        r->path[i] = i == v->first ? 0 : NOWHERE;
    }
    for (int i = v->first; i <= v->deepest; i++) {
        for (int e = d->nodes[i].first_out; e >= 0 && r->path[i] >= 0; e = d->edges[e].next_out) {
            int to = d->edges[e].to, via = r->path[i] + d->edges[e].latency;
            if (to <= v->deepest && via > r->path[to]) {
                r->path[to] = via;
            }
        }
    }
    return r->path[v->deepest];
}

// As late as it can be, an instruction stands so far behind the value's first write.
static int late_at(const struct relay * r, const struct value * v, int i) {
    int late = v->life - (r->below[i] - r->below[v->deepest]);
    return late < 0 ? 0 : late > v->life ? v->life : late;
}

// How many values are to be handed on, each in how many parts.
static int find_long(struct relay * r, int slots) {
    int n = 0;
    for (int id = 0; id < r->n_vregs; id++) {
        struct value * v = &r->values[id];
        bool good = v->first >= 0 && v->last_use > v->last_def && !v->mixed &&
                    r->p->target->copies[r->p->vregs[id].cls];
        int most = good ? r->depth[v->deepest] - r->depth[v->first] : 0;
        v->parts = 1;
        if (10 * most <= LONG_TENTHS * slots) {
            continue;
        }
        v->life = find_life(r, v);
        if (10 * v->life > LONG_TENTHS * slots) {
            v->parts = (10 * v->life + PART_TENTHS * slots - 1) / (PART_TENTHS * slots);
            v->parts = v->parts < MOST_PARTS ? v->parts : MOST_PARTS;
            n++;
        }
    }
    return n;
}

// The register of a value that instruction i reads, handed on so far before it.
static int16_t read_by(struct relay * r, int id, int i) {
    struct value * v = &r->values[id];
    int part = v->parts > 1 ? late_at(r, v, i) * v->parts / (v->life + 1) : 0;
    for (; v->part < part; v->part++) {
        enum asm_class cls = (enum asm_class) r->p->vregs[id].cls;
        struct asm_reg from = {v->now[v->part], -1}, to = {asm_vreg_new(r->p, cls, -1), -1};
        asm_node_new(r->p, r->p->target->copies[cls], 0, (struct asm_arg[]){A_REG(to), A_REG(from)},
                     2);
        v->now[v->part + 1] = to.id;
    }
    return v->now[part];
}

static void rewrite(struct relay * r) {
    for (int v = 0; v < r->n_vregs; v++) {
        r->values[v].now[0] = (int16_t) v;
    }
    for (int i = 0; i < r->region->count && !r->p->no_memory; i++) {
        struct asm_node n = *node_of(r, i); // the array may move
        for (int k = 0; k < n.n_args; k++) {
            if (n.args[k].kind == ASM_ARG_REG && !r->p->vregs[n.args[k].reg.id].global &&
                deps_instr(&r->deps, i)->operands[k].role == AIE_USE) {
                n.args[k].reg.id = read_by(r, n.args[k].reg.id, i);
            }
        }
        asm_node_new(r->p, n.op, n.memory, n.args, n.n_args);
    }
}

static void hand_on(struct asm_program * p, struct asm_item * region) {
    struct relay r = {.p = p, .region = region, .n_vregs = p->n_vregs};
    int first = p->n_nodes, *times = malloc(3 * (size_t) region->count * sizeof *times);
    r.values = malloc(((size_t) p->n_vregs + 1) * sizeof *r.values);
    p->no_memory |= !times || !r.values;
    if (!p->no_memory && deps_build(&r.deps, p, region, false)) {
        r.path = times;
        r.depth = times + region->count;
        r.below = times + 2 * region->count;
        for (int v = 0; v < p->n_vregs; v++) {
            r.values[v] = (struct value){.first = -1, .last_use = -1};
        }
        find_depths(&r);
        find_values(&r);
        if (find_long(&r, asm_slots(p, region).most) > 0) {
            rewrite(&r);
            region->count = p->n_nodes - first;
            region->first = first;
            p->ready = true;
        }
    }
    deps_free(&r.deps);
    free(times);
    free(r.values);
}

void asm_hand_on(struct asm_program * p) {
    for (int i = 1; i < p->n_items && p->misuse.status == ST_OK && !p->no_memory; i++) {
        const struct asm_item * before = &p->items[i - 1];
        if (p->items[i].kind == ASM_ITEM_REGION && before->kind == ASM_ITEM_LOOP &&
            !before->interval && before->rolls && p->items[i].count > ASM_FEW) {
            hand_on(p, &p->items[i]);
        }
    }
}
