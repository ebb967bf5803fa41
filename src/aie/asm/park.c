// asm/park: a loop that is short of registers of one class keeps a value that is wanted again much
// later in a register of another class meanwhile: of vectors there are few, and an argument that is
// looked at once more at the end of a function of it, or a factor of every step of a polynomial,
// would take one of them for each trip in flight. A copy takes it there, another one back before
// each group of uses. Where a loop rolls, one register keeps it no longer than trips are apart:
// what is parked for much longer is handed on from one such register to the next, or it would have
// to stay where registers are few both before and behind.
//
// How long things live is reckoned with every instruction as late as it can be: what is wanted late
// alone is then made late, and what is wanted early and late is what lives long.
//
// Kept true: only loops that have more alive than registers; a copy gives more time than it takes,
// and the other class has room. What is parked longest for what it costs comes first.
#include "deps.h"

#include <stdlib.h>

enum {
    FULL_TENTHS = 12,     // of registers times what slots take: more alive than that is too much,
    OVERFULL_TENTHS = 17, // in a loop that does not roll, which may have several for a value,
    EASY_TENTHS = 7,      // and so much is little
    LEAST_GAP = 12,       // bundles between two uses
    COPYING = 4,          // that a value lives on both sides of them for its copies
    FAR_TENTHS = 33,      // of what slots take: no one register keeps a value until then,
    PART_TENTHS = 9,      // but several, each for so long
};

struct value { // a local
    int first, last_def, last_use;
    bool mixed;      // written again behind a use
    int uses, from;  // in the list of uses
    int gaps, saved; // between uses that are far apart; bundles in all
    bool parked;
    int16_t kept; // where it is meanwhile, 0 = not yet
    int part;     // so often it has been handed on there
    int16_t now;  // the register that stands for it
    int group;    // that `now` is for
};

struct use {
    int node, late, group;
};

struct park {
    struct asm_program * p;
    const struct asm_item * region;
    bool rolls;
    struct deps deps;
    struct value * values;   // by virtual register,
    int first_vreg, n_vregs; // of which the loop names those from the first up to this one
    struct use * uses;
    int * late; // of instructions: bundles from the end of a trip, negative
    int * order;
    int far, most; // bundles
};

static const struct asm_node * node_of(const struct park * k, int i) {
    return &k->p->nodes[k->region->first + i];
}

static void find_vregs(struct park * k) {
    for (int i = 0; i < k->region->count; i++) {
        const struct asm_node * n = node_of(k, i);
        for (unsigned left = n->locals; left; left &= left - 1) {
            int id = n->args[__builtin_ctz(left)].reg.id;
            k->first_vreg = id < k->first_vreg ? id : k->first_vreg;
            k->n_vregs = id < k->n_vregs ? k->n_vregs : id + 1;
        }
    }
}

static void find_late(struct park * k) {
    const struct deps * d = &k->deps;
    for (int i = d->count - 1; i >= 0; i--) {
        k->late[i] = 0;
        for (int e = d->nodes[i].first_out; e >= 0; e = d->edges[e].next_out) {
            int via = k->late[d->edges[e].to] - d->edges[e].latency;
            k->late[i] = via < k->late[i] ? via : k->late[i];
        }
    }
}

static void note(struct park * k, int i, int pass) {
    const struct asm_node * n = node_of(k, i);
    for (unsigned left = n->locals; left; left &= left - 1) {
        int a = __builtin_ctz(left);
        struct value * v = &k->values[n->args[a].reg.id];
        int role = deps_instr(&k->deps, i)->operands[a].role;
        if (pass == 0 && (role & AIE_DEF)) {
            v->mixed |= v->first >= 0 && v->last_use >= 0;
            v->first = v->first < 0 ? i : v->first;
            v->last_def = i;
        }
        if (role & AIE_USE) {
            if (pass) {
                k->uses[v->from + v->uses] = (struct use){i, k->late[i], 0};
            }
            v->last_use = i;
            v->uses++;
        }
    }
}

static void find_uses(struct park * k) {
    for (int pass = 0; pass < 2; pass++) {
        for (int i = k->first_vreg, at = 0; i < k->n_vregs && pass; i++) {
            k->values[i].from = at;
            at += k->values[i].uses;
            k->values[i].uses = 0;
        }
        for (int i = 0; i < k->region->count; i++) {
            note(k, i, pass);
        }
    }
}

static int by_late(const void * a, const void * b) {
    const struct use *x = a, *y = b;
    return x->late != y->late ? x->late - y->late : x->node - y->node;
}

// The groups of a value's uses. Returns how long it lives.
static int group_uses(struct park * k, struct value * v) {
    struct use * uses = &k->uses[v->from];
    qsort(uses, (size_t) v->uses, sizeof *uses, by_late);
    for (int u = 1; u < v->uses; u++) {
        int gap = uses[u].late - uses[u - 1].late;
        bool far = gap > LEAST_GAP && uses[u - 1].late > k->late[v->last_def];
        v->gaps += far;
        v->saved += far ? gap - COPYING : 0;
        uses[u].group = v->gaps;
    }
    return v->uses ? uses[v->uses - 1].late - k->late[v->first] : 0;
}

static bool is_better(const struct value * a, const struct value * b) {
    return (long) a->saved * (b->gaps + 1) > (long) b->saved * (a->gaps + 1);
}

// How long all values of a class live.
static long alive_of(struct park * k, enum asm_class cls) {
    long alive = 0;
    for (int id = k->first_vreg; id < k->n_vregs; id++) {
        struct value * v = &k->values[id];
        if (k->p->vregs[id].cls == cls && v->first >= 0) {
            alive += group_uses(k, v);
        }
    }
    return alive;
}

// Those that can be parked, in `order`; returns how many.
static int find_candidates(struct park * k, enum asm_class cls) {
    int n = 0;
    for (int id = k->first_vreg; id < k->n_vregs; id++) {
        const struct value * v = &k->values[id];
        if (k->p->vregs[id].cls == cls && v->first >= 0 && v->gaps && !v->mixed) {
            k->order[n++] = id;
        }
    }
    return n;
}

static int registers_of(const struct asm_program * p, enum asm_class cls) {
    return __builtin_popcountll(asm_class_set(p, cls) & ~p->global_taken[cls]);
}

// Chooses what is parked; returns how many are.
static int choose(struct park * k, enum asm_class cls) {
    const struct asm_program * p = k->p;
    enum asm_class other = p->target->parks[cls];
    const long registers = registers_of(p, cls), others = registers_of(p, other);
    struct asm_slots slots = asm_slots(p, k->region);
    long alive = alive_of(k, cls), kept = alive_of(k, other);
    int n = find_candidates(k, cls), chosen = 0;
    int much = k->rolls ? FULL_TENTHS : OVERFULL_TENTHS;
    bool full = 10 * alive > much * registers * slots.most;
    for (; chosen < n && full; chosen++) {
        int best = chosen;
        for (int i = chosen + 1; i < n; i++) {
            best = is_better(&k->values[k->order[i]], &k->values[k->order[best]]) ? i : best;
        }
        int id = k->order[best];
        k->order[best] = k->order[chosen];
        k->order[chosen] = id;
        struct value * v = &k->values[id];
        int copies = v->gaps + 1;
        slots.moves += copies;
        slots.most = slots.moves > slots.most ? slots.moves : slots.most;
        if (v->saved < copies * registers || alive <= registers * slots.most * EASY_TENTHS / 10 ||
            (kept + v->saved) * registers > alive * others) {
            break;
        }
        alive -= v->saved;
        kept += v->saved;
        v->parked = true;
    }
    k->far = FAR_TENTHS * slots.most / 10;
    k->most = PART_TENTHS * slots.most / 10 + 1;
    return chosen;
}

static int group_of(const struct park * k, const struct value * v, int node) {
    for (int u = v->from; u < v->from + v->uses; u++) {
        if (k->uses[u].node == node) {
            return k->uses[u].group;
        }
    }
    return 0;
}

static struct asm_reg copy(struct park * k, enum asm_class cls, int16_t from, enum asm_class of) {
    struct asm_reg old = {from, -1}, new = {asm_vreg_new(k->p, cls, -1), -1};
    asm_node_new(k->p, k->p->target->copies[of], 0, (struct asm_arg[]){A_REG(new), A_REG(old)}, 2);
    return new;
}

// The register that instruction i reads for a value that is parked.
static int16_t read_by(struct park * k, int16_t id, int i) {
    struct value * v = &k->values[id];
    enum asm_class cls = (enum asm_class) k->p->vregs[id].cls;
    int group = group_of(k, v, i);
    if (group == 0) {
        return id;
    }
    enum asm_class other = k->p->target->parks[cls];
    if (!v->kept) {
        v->kept = copy(k, other, id, cls).id;
    }
    int life = k->late[i] - k->late[v->last_def];
    int part = k->rolls && life > k->far ? (life - 1) / k->most : 0;
    for (; v->part < part; v->part++) {
        v->kept = copy(k, other, v->kept, other).id;
    }
    if (v->group != group) {
        v->now = copy(k, cls, v->kept, cls).id;
        v->group = group;
    }
    return v->now;
}

static void rewrite(struct park * k) {
    for (int i = 0; i < k->region->count && !k->p->no_memory; i++) {
        struct asm_node n = *node_of(k, i); // the array may move
        for (unsigned left = n.locals & ~deps_instr(&k->deps, i)->defs; left; left &= left - 1) {
            int16_t * id = &n.args[__builtin_ctz(left)].reg.id;
            *id = k->values[*id].parked ? read_by(k, *id, i) : *id;
        }
        asm_node_copy(k->p, &n);
    }
}

static void park_class(struct asm_program * p, struct asm_item * region, bool rolls,
                       enum asm_class cls) {
    struct park k = {.p = p, .region = region, .rolls = rolls, .first_vreg = p->n_vregs};
    size_t n = (size_t) region->count;
    find_vregs(&k);
    k.values = malloc(((size_t) k.n_vregs + 1) * sizeof *k.values);
    k.uses = malloc((n * ASM_MAX_ARGS + 1) * sizeof *k.uses);
    k.late = malloc((n + (size_t) k.n_vregs) * sizeof *k.late);
    p->no_memory |= !k.values || !k.uses || !k.late;
    if (!p->no_memory && deps_build_values(&k.deps, p, region)) {
        int first = p->n_nodes;
        k.order = k.late + n;
        for (int v = k.first_vreg; v < k.n_vregs; v++) {
            k.values[v] = (struct value){.first = -1, .last_use = -1};
        }
        find_late(&k);
        find_uses(&k);
        if (choose(&k, cls)) {
            rewrite(&k);
            region->count = p->n_nodes - first;
            region->first = first;
            p->ready = true;
        }
    }
    deps_free(&k.deps);
    free(k.values);
    free(k.uses);
    free(k.late);
}

void asm_park(struct asm_program * p) {
    for (int i = 1; i < p->n_items && p->misuse.status == ST_OK && !p->no_memory; i++) {
        const struct asm_item * before = &p->items[i - 1];
        for (int c = 0; c < ASM_CLASS_COUNT && p->items[i].kind == ASM_ITEM_REGION; c++) {
            if (p->target->parks[c] && before->kind == ASM_ITEM_LOOP && !before->interval &&
                !before->alone && p->items[i].count > ASM_FEW) {
                asm_take_globals(p, i);
                park_class(p, &p->items[i], before->rolls, (enum asm_class) c);
            }
        }
    }
}
