// asm/spill: a region that has more values at a time than registers, in the order in which it was
// written, keeps some of them in data memory meanwhile: the one that is wanted again last is stored
// and loaded back, into another register, before it is wanted. What the target says of a class
// tells how (aie_target.spills); the program tells where (asm_spill_to). Where there is no such
// place, or the room does not suffice, the region stays as it is and the scheduler says what is
// missing.
//
// Kept true: places take turns, so that the trips of a loop wait for each other as little as
// possible; what did not change since it was stored is not stored again.
#include "program.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PLACES = 64, NOWHERE = -1 };

// The registers of globals, and of locals of a class that cannot be kept in memory.
enum { NO_CLASS = ASM_CLASS_COUNT };

struct kept { // of a virtual register, while the region is walked
    int now;  // the one that stands for it, -1 = none
    int place;
    bool stored; // what is at its place is what it holds
    int head;    // of its mentions that are still to come, -1 = none
};

struct spill {
    struct asm_program * p;
    int first, count;    // the region
    const uint8_t * cls; // by register: its class, NO_CLASS if it stays where it is
    int * left; // by register: mentions still to come, negative while it has a value (is_enough)
    struct kept * kept;
    int * next;  // of each node and operand: the next mention of the same register
    int * alive; // registers that have a value
    int n_alive;
    int used[ASM_CLASS_COUNT], most[ASM_CLASS_COUNT + 1]; // of NO_CLASS, any
    bool taken[MOST_PLACES];
    int turn;
    bool changed, failed;
};

// Operands of a node that may be kept in memory, bit each.
static unsigned spilled_in(const struct spill * s, const struct asm_node * n) {
    unsigned found = 0;
    for (unsigned left = n->locals; left; left &= left - 1) {
        int k = __builtin_ctz(left);
        found |= (unsigned) (s->cls[n->args[k].reg.id] != NO_CLASS) << k;
    }
    return found;
}

static int mention_of(int node, int operand) {
    return node * ASM_MAX_ARGS + operand;
}

// Whether there are registers for all that has a value at a time: nothing is put away then. All
// regions are asked, and nobody would foresee a branch: there are none.
static bool is_enough(const struct spill * s) {
    const struct asm_node *first = &s->p->nodes[s->first], *end = first + s->count;
    int used[ASM_CLASS_COUNT + 1] = {0};
    bool enough = true;
    for (const struct asm_node * n = first; n < end; n++) {
        for (unsigned left = n->locals; left; left &= left - 1) {
            s->left[n->args[__builtin_ctz(left)].reg.id]++;
        }
    }
    for (const struct asm_node * n = first; n < end; n++) {
        int over[ASM_MAX_ARGS], n_over = 0; // classes of what the node is the last to name
        for (unsigned left = n->locals; left; left &= left - 1) {
            int id = n->args[__builtin_ctz(left)].reg.id, cls = s->cls[id], mentions = s->left[id];
            used[cls] += mentions > 0;
            enough &= used[cls] <= s->most[cls];
            s->left[id] = mentions = (mentions > 0 ? -mentions : mentions) + 1;
            over[n_over] = cls;
            n_over += mentions == 0;
        }
        while (n_over > 0) {
            used[over[--n_over]]--;
        }
    }
    return enough;
}

static void find_mentions(struct spill * s) {
    for (int i = s->count - 1; i >= 0; i--) {
        const struct asm_node * n = &s->p->nodes[s->first + i];
        for (unsigned left = spilled_in(s, n); left; left &= ~(1u << (31 - __builtin_clz(left)))) {
            int k = 31 - __builtin_clz(left); // the last first
            struct kept * v = &s->kept[n->args[k].reg.id];
            s->next[mention_of(i, k)] = v->head;
            v->head = mention_of(i, k);
        }
    }
}

static const struct aie_spill * way_of(const struct asm_program * p, int id) {
    const struct asm_vreg * v = &p->vregs[id];
    return v->both ? &p->target->spill_both : &p->target->spills[v->cls];
}

static void transfer(struct spill * s, int id, bool load) {
    const struct asm_program * p = s->p;
    const struct aie_spill * how = way_of(p, id);
    for (int i = 0; i < how->n; i++) {
        struct asm_reg part = {(int16_t) s->kept[id].now, how->parts[i]};
        int32_t offset = -(s->kept[id].place + i + 1) * p->target->vector_bytes;
        asm_node_new(s->p, load ? how->load : how->store, p->spill_memory,
                     (struct asm_arg[]){A_REG(part), A_IMM(offset)}, 2);
    }
}

static void take(struct spill * s, const struct kept * v, int n, bool taken) {
    for (int i = 0; i < n; i++) {
        s->taken[v->place + i] = taken;
    }
}

// As many places side by side as a register of the class has parts to keep.
static bool find_place(struct spill * s, struct kept * v, int n) {
    int places = s->p->spills < MOST_PLACES ? s->p->spills : MOST_PLACES;
    for (int i = 0; i < places; i++) {
        int first = (s->turn + i) % places, free_ = 0;
        while (free_ < n && first + free_ < places && !s->taken[first + free_]) {
            free_++;
        }
        if (free_ == n) {
            v->place = first;
            take(s, v, n, true);
            s->turn = first + n;
            return true;
        }
    }
    return false;
}

static bool names(const struct asm_node * n, int id) {
    for (int k = 0; k < n->n_args; k++) {
        if (n->args[k].kind == ASM_ARG_REG && n->args[k].reg.id == id) {
            return true;
        }
    }
    return false;
}

// Frees a register of the class: of the value that node i does not name and that is wanted last.
static void put_away(struct spill * s, const struct asm_node * n, int cls) {
    int best = -1;
    for (int a = 0; a < s->n_alive; a++) {
        int id = s->alive[a];
        if (s->kept[id].now >= 0 && s->p->vregs[id].cls == cls && !names(n, id) &&
            (best < 0 || s->kept[id].head > s->kept[best].head)) {
            best = id;
        }
    }
    if (best < 0) {
        s->failed = true;
        return;
    }
    struct kept * v = &s->kept[best];
    if (!v->stored) {
        if (v->place == NOWHERE && !find_place(s, v, way_of(s->p, best)->n)) {
            s->failed = true;
            return;
        }
        transfer(s, best, false);
        v->stored = s->changed = true;
    }
    v->now = -1;
    s->used[cls]--;
}

// Registers for what node n names: back from memory, or new ones.
static void bring(struct spill * s, const struct asm_node * n, unsigned named) {
    for (unsigned left = named; left && !s->failed; left &= left - 1) {
        int id = n->args[__builtin_ctz(left)].reg.id, cls = s->cls[id];
        struct kept * v = &s->kept[id];
        if (v->now >= 0) {
            continue;
        }
        if (s->used[cls] == s->most[cls]) {
            put_away(s, n, cls);
        }
        s->used[cls]++;
        if (v->place == NOWHERE) {
            v->now = id;
            s->alive[s->n_alive++] = id;
        } else {
            v->now = asm_vreg_new(s->p, (enum asm_class) cls, -1);
            transfer(s, id, true);
        }
    }
}

static void after(struct spill * s, const struct asm_node * n, unsigned named, int i) {
    const struct aie_instr * instr = asm_instr(s->p, n->op);
    for (unsigned left = named; left; left &= left - 1) {
        int k = __builtin_ctz(left), id = n->args[k].reg.id;
        struct kept * v = &s->kept[id];
        v->stored &= !(instr->defs >> k & 1);
        v->head = s->next[mention_of(i, k)];
        if (v->head < 0) {
            s->used[s->cls[id]]--;
            if (v->place != NOWHERE) {
                take(s, v, way_of(s->p, id)->n, false);
            }
            for (int a = 0; a < s->n_alive; a++) {
                if (s->alive[a] == id) {
                    s->alive[a] = s->alive[--s->n_alive];
                    break;
                }
            }
        }
    }
}

static void walk(struct spill * s) {
    for (int i = 0; i < s->count && !s->failed && !s->p->no_memory; i++) {
        struct asm_node n = s->p->nodes[s->first + i], copy = n; // the array may move
        unsigned named = spilled_in(s, &n);
        bring(s, &n, named);
        for (unsigned left = named; left; left &= left - 1) {
            int k = __builtin_ctz(left);
            copy.args[k].reg.id = (int16_t) s->kept[n.args[k].reg.id].now;
        }
        asm_node_copy(s->p, &copy);
        after(s, &n, named, i);
    }
}

static void spill_region(struct spill * s, struct asm_item * region) {
    struct asm_program * p = s->p;
    size_t n_vregs = (size_t) p->n_vregs + 1, n_args = (size_t) region->count * ASM_MAX_ARGS + 1;
    s->kept = malloc(n_vregs * sizeof *s->kept);
    s->next = malloc(n_args * sizeof *s->next);
    s->alive = malloc(n_vregs * sizeof *s->alive);
    if (s->kept && s->next && s->alive) {
        for (size_t v = 0; v < n_vregs; v++) {
            s->kept[v] = (struct kept){.now = -1, .place = NOWHERE, .head = -1};
        }
        find_mentions(s);
        int first = p->n_nodes;
        walk(s);
        if (s->changed && !s->failed) {
            region->count = p->n_nodes - first;
            region->first = first;
        } else {
            p->n_nodes = first;
        }
    } else {
        p->no_memory = true;
    }
    free(s->kept);
    free(s->next);
    free(s->alive);
}

void asm_spill(struct asm_program * p) {
    if (!p->spills || p->misuse.status != ST_OK) {
        return;
    }
    int * left = calloc((size_t) p->n_vregs + 1, sizeof *left);
    uint8_t * classes = malloc((size_t) p->n_vregs + 1);
    p->no_memory |= !left || !classes;
    for (int v = 0; v < p->n_vregs && !p->no_memory; v++) {
        int cls = p->vregs[v].cls;
        classes[v] = !p->vregs[v].global && p->target->spills[cls].store ? (uint8_t) cls : NO_CLASS;
    }
    for (int i = 0, until = 0; i < p->n_items && !p->no_memory; i++) {
        struct asm_item * region = &p->items[i];
        if (i >= until) {
            until = asm_take_globals(p, i);
        }
        bool paced = i > 0 && p->items[i - 1].kind == ASM_ITEM_LOOP && p->items[i - 1].interval;
        if (region->kind != ASM_ITEM_REGION || paced) {
            continue;
        }
        struct spill s = {
            .p = p, .first = region->first, .count = region->count, .cls = classes, .left = left};
        s.most[NO_CLASS] = INT_MAX;
        for (int cls = 0; cls < ASM_CLASS_COUNT; cls++) {
            uint64_t set = asm_class_set(p, (enum asm_class) cls) & ~p->global_taken[cls];
            s.most[cls] = __builtin_popcountll(set);
        }
        if (!is_enough(&s)) {
            spill_region(&s, region);
        }
    }
    free(left);
    free(classes);
}
