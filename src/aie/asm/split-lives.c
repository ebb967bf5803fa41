// asm/split-lives: live-range splitting. A value that lives longer than trips are apart would stand
// in the way of its own next trip: a loop that rolls has one register for each value. Such a value
// is handed on, by a copy, from one register to the next, each for a part of its life. That takes
// as many registers as the copies of the whole loop would that gave it several, and far less
// program.
//
// Values that follow each other beside a longer way (the sign of an argument beside a function of
// it) are no better: wherever what makes the one of the other is put, their lives together are as
// long as that way. Of these, too, one is handed on, until lives that are short enough do.
//
// Kept true: uses go to the register that holds the value when they can be latest; the first write
// and the last use stay in the order in which they were written.
#include "deps.h"

#include <stdlib.h>

enum {
    LONG_TENTHS = 12,  // of what slots take: a life that is handed on
    PART_TENTHS = 9,   // of that: a part of it
    CHAIN_TENTHS = 13, // of what slots take: a life of those that follow each other
    ROUNDS = 24,       // of times that push each other, until which they come to rest
    MOST_PARTS = 8,
    NOWHERE = -1000000,
};

struct value {           // a local
    int first, last_def; // instructions that write it first and last; first -1: not written yet
    int last_use, deepest;
    bool mixed; // written again behind a use
    bool seen;  // by find_long
    int parts, life;
    int part;                // that the region has come to
    int16_t now[MOST_PARTS]; // the registers that stand for it
};

struct relay {
    struct asm_program * p;
    const struct asm_item * region;
    struct deps deps;
    struct value * values;     // by virtual register
    int *path, *depth, *below; // of instructions: from a value's first write, from the trip's
                               // beginning, to its end
    int *cause, *by;           // what put an instruction where `path` has it (find_rest)
};

static const struct asm_node * node_of(const struct relay * r, int i) {
    return &r->p->nodes[r->region->first + i];
}

static void find_values(struct relay * r) {
    for (int i = 0; i < r->region->count; i++) {
        const struct asm_node * n = node_of(r, i);
        for (unsigned left = n->locals; left; left &= left - 1) {
            int k = __builtin_ctz(left);
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

static bool can_be_copied(const struct relay * r, int id) {
    const struct value * v = &r->values[id];
    return v->last_use > v->last_def && !v->mixed && r->p->target->copies[r->p->vregs[id].cls];
}

// In how many parts a value is to be handed on; whether it is.
static bool find_parts(struct relay * r, int id, int slots) {
    struct value * v = &r->values[id];
    bool good = v->first >= 0 && can_be_copied(r, id);
    int most = good ? r->depth[v->deepest] - r->depth[v->first] : 0;
    v->seen = true;
    if (10 * most <= LONG_TENTHS * slots) {
        return false;
    }
    v->life = find_life(r, v);
    if (10 * v->life <= LONG_TENTHS * slots) {
        return false;
    }
    v->parts = (10 * v->life + PART_TENTHS * slots - 1) / (PART_TENTHS * slots);
    v->parts = v->parts < MOST_PARTS ? v->parts : MOST_PARTS;
    return true;
}

// How many values are to be handed on, each in how many parts.
static int find_long(struct relay * r, int slots) {
    int n = 0;
    for (int i = 0; i < r->region->count; i++) {
        const struct asm_node * node = node_of(r, i);
        for (unsigned left = node->locals; left; left &= left - 1) {
            int id = node->args[__builtin_ctz(left)].reg.id;
            n += !r->values[id].seen && find_parts(r, id, slots);
        }
    }
    return n;
}

// The register of a value that instruction i reads, handed on so far before it. from: the first use
// that reads what is handed on, -1 = as late as it can be decides.
static int16_t read_by(struct relay * r, int id, int i, int from) {
    struct value * v = &r->values[id];
    int part = v->parts == 1 ? 0
               : from >= 0   ? i >= from
                             : late_at(r, v, i) * v->parts / (v->life + 1);
    for (; v->part < part; v->part++) {
        enum asm_class cls = (enum asm_class) r->p->vregs[id].cls;
        struct asm_reg from = {v->now[v->part], -1}, to = {asm_vreg_new(r->p, cls, -1), -1};
        asm_node_new(r->p, r->p->target->copies[cls], 0, (struct asm_arg[]){A_REG(to), A_REG(from)},
                     2);
        v->now[v->part + 1] = to.id;
    }
    return v->now[part];
}

static void rewrite(struct relay * r, int from) {
    for (int i = 0; i < r->region->count && !r->p->no_memory; i++) {
        struct asm_node n = *node_of(r, i); // the array may move
        for (unsigned left = n.locals & ~deps_instr(&r->deps, i)->defs; left; left &= left - 1) {
            int16_t * id = &n.args[__builtin_ctz(left)].reg.id;
            *id = read_by(r, *id, i, from);
        }
        asm_node_copy(r->p, &n);
    }
}

// ---- values that follow each other ----

enum { NO_CAUSE = -1 };

// Pushes instruction i to a time, because of an instruction that names a value, or has an edge, -1.
static bool push(struct relay * r, int i, int time, int cause, int by) {
    if (r->path[i] >= time) {
        return false;
    }
    r->path[i] = time;
    r->cause[i] = cause;
    r->by[i] = by;
    return true;
}

// The writers of what instruction i reads come so late that no part of a life is longer than
// `most`.
static bool push_writers(struct relay * r, int i, int most) {
    const struct asm_node * n = node_of(r, i);
    const struct aie_instr * instr = deps_instr(&r->deps, i);
    bool pushed = false;
    for (unsigned left = n->locals & ~instr->defs; left; left &= left - 1) {
        int k = __builtin_ctz(left), id = n->args[k].reg.id;
        if (r->values[id].first >= 0) {
            int life = r->values[id].parts * most;
            int time = r->path[i] + asm_settles(&instr->operands[k]) - life;
            pushed |= push(r, r->values[id].first, time, i, id);
        }
    }
    return pushed;
}

// The least times with parts of lives of at most `most` bundles. -1: there are such; else an
// instruction that is pushed on and on.
static int find_rest(struct relay * r, int most) {
    const struct deps * d = &r->deps;
    int last = -1;
    for (int i = 0; i < d->count; i++) {
        r->path[i] = r->depth[i];
        r->cause[i] = NO_CAUSE;
    }
    for (int round = 0; round < ROUNDS; round++) {
        last = -1;
        for (int i = d->count - 1; i >= 0; i--) {
            last = push_writers(r, i, most) ? i : last;
        }
        for (int i = 0; i < d->count && last >= 0; i++) {
            for (int e = d->nodes[i].first_in; e >= 0; e = d->edges[e].next_in) {
                push(r, i, r->path[d->edges[e].from] + d->edges[e].latency, d->edges[e].from, -1);
            }
        }
        if (last < 0) {
            return -1;
        }
    }
    return last;
}

// The use that is furthest from its write, and its value, among the lives that keep pushing
// instruction i to a later bundle; -1 = none of them can be copied.
static int find_follower(const struct relay * r, int i, int * id) {
    int use = -1;
    for (int k = 0; k < r->deps.count && i >= 0; k++) { // certainly into the circle
        i = r->cause[i];
    }
    for (int end = i, far = 0, k = 0; i >= 0 && (k == 0 || i != end); k++) {
        int from = r->cause[i];
        if (from >= 0 && r->by[i] >= 0 && can_be_copied(r, r->by[i]) && from - i > far) {
            far = from - i;
            use = from;
            *id = r->by[i];
        }
        i = from;
    }
    return use;
}

// ---- a loop ----

static bool prepare(struct relay * r) {
    size_t n = (size_t) r->region->count;
    r->path = malloc(5 * n * sizeof *r->path);
    r->values = malloc(((size_t) r->p->n_vregs + 1) * sizeof *r->values);
    r->p->no_memory |= !r->path || !r->values;
    if (r->p->no_memory || !deps_build_values(&r->deps, r->p, r->region)) {
        return false;
    }
    r->depth = r->path + n;
    r->below = r->depth + n;
    r->cause = r->below + n;
    r->by = r->cause + n;
    for (int i = 0; i < r->region->count; i++) { // a loop names few of a program's registers
        const struct asm_node * node = node_of(r, i);
        for (unsigned left = node->locals; left; left &= left - 1) {
            int16_t id = node->args[__builtin_ctz(left)].reg.id;
            r->values[id] = (struct value){.first = -1, .last_use = -1, .parts = 1, .now = {id}};
        }
    }
    find_depths(r);
    find_values(r);
    return true;
}

static void release(struct relay * r) {
    deps_free(&r->deps);
    free(r->path);
    free(r->values);
    r->path = NULL;
    r->values = NULL;
}

static void hand_on(struct asm_program * p, struct asm_item * region) {
    struct relay r = {.p = p, .region = region};
    int slots = asm_slots(p, region).most;
    for (int n = 0; n <= MOST_PARTS && prepare(&r); n++) {
        bool is_long = n == 0 && find_long(&r, slots) > 0;
        int id = 0, stuck = find_rest(&r, CHAIN_TENTHS * slots / 10);
        int use = stuck >= 0 && !is_long ? find_follower(&r, stuck, &id) : -1;
        if (use >= 0) {
            r.values[id].parts = 2;
        } else if (!is_long) {
            break;
        }
        int first = p->n_nodes;
        rewrite(&r, use);
        region->count = p->n_nodes - first;
        region->first = first;
        p->ready = true;
        if (stuck < 0) {
            break;
        }
        release(&r);
    }
    release(&r);
}

void asm_split_live_ranges(struct asm_program * p) {
    for (int i = 1; i < p->n_items && p->misuse.status == ST_OK && !p->no_memory; i++) {
        const struct asm_item * before = &p->items[i - 1];
        if (p->items[i].kind == ASM_ITEM_REGION && before->kind == ASM_ITEM_LOOP &&
            !before->interval && before->rolls && p->items[i].count > ASM_FEW) {
            hand_on(p, &p->items[i]);
        }
    }
}
