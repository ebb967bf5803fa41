// asm/remat: rematerialisation. A loop loads a value once more where it is wanted again much later,
// instead of keeping it in a register meanwhile. Trips overlap only as far as there are registers
// for all that lives, and loads are seldom what a loop waits for: constants and inputs that are
// used at the beginning of a trip and at its end would take a register for each trip in flight.
//
// Kept true: only what is loaded at an offset from a pointer, from memory that the loop does not
// store to, and with the pointer as it was; loads stay fewer than what bounds the loop otherwise.
#include "deps.h"

#include <stdlib.h>
#include <string.h>

enum { FAR = 8, MOST_LOADS = 2 }; // instructions between two uses; loads of one register

struct loaded { // a local
    int loads;  // of its value, 0 = it comes from elsewhere too
    int from[MOST_LOADS];
    int last;    // instruction that named it
    int16_t now; // the register that stands for it
};

struct use { // that may get a load of its own
    int node, local, gap;
    int next; // of those of the same node that do, -1 = none
};

struct again {
    struct asm_program * p;
    const struct asm_item * region;
    struct loaded * locals;
    struct use * uses;
    int n_uses;
    int * chosen;     // of each node, the first use that gets one, -1 = none
    bool stored[256]; // memory numbers
    int room, room_a; // loads more that the loop has time for: of all, and of one unit alone
};

static const struct asm_node * node_of(const struct again * g, int i) {
    return &g->p->nodes[g->region->first + i];
}

static const struct aie_instr * instr_of(const struct again * g, int i) {
    return asm_instr(g->p, node_of(g, i)->op);
}

// Whether it only loads, at an offset; then from which pointer.
static bool is_offset_load(const struct again * g, int i, int * pointer) {
    const struct asm_node * n = node_of(g, i);
    const struct aie_instr * instr = instr_of(g, i);
    int pointers = 0, immediates = 0;
    for (int k = 0; k < n->n_args; k++) {
        if (n->args[k].kind == ASM_ARG_IMM) {
            immediates++;
        } else if (n->args[k].kind != ASM_ARG_REG) {
            return false;
        } else if (g->p->vregs[n->args[k].reg.id].cls == ASM_P) {
            *pointer = n->args[k].reg.id;
            pointers += instr->operands[k].role == AIE_USE ? 1 : 2;
        }
    }
    return instr->loads && !instr->stores && n->n_args == 3 && pointers == 1 && immediates == 1 &&
           instr->n_explicit == instr->n_operands && !g->stored[n->memory];
}

// Whether either unit loads it, were it near enough (loop-bases.c).
static bool has_choice(const struct asm_program * p, const struct asm_node * from) {
    uint16_t other = p->other_op[from->op];
    bool fits = other;
    for (int k = 0; k < from->n_args && fits; k++) {
        fits = from->args[k].kind != ASM_ARG_IMM || aie_operand_fits(p->isa, other, k, 0);
    }
    return fits;
}

struct asm_slots asm_slots(const struct asm_program * p, const struct asm_item * region) {
    int taken[AIE_SLOT_COUNT] = {0}, either = 0;
    struct asm_slots s = {0};
    for (int i = region->first; i < region->first + region->count; i++) {
        enum aie_slot slot = asm_instr(p, p->nodes[i].op)->slot;
        bool choice = slot == AIE_SLOT_LDA && has_choice(p, &p->nodes[i]);
        either += choice;
        taken[slot] += !choice;
    }
    for (int slot = 0; slot < AIE_SLOT_COUNT; slot++) {
        s.most = taken[slot] > s.most ? taken[slot] : s.most;
    }
    s.loads_a = taken[AIE_SLOT_LDA];
    s.moves = taken[AIE_SLOT_MV];
    s.loads = taken[AIE_SLOT_LDA] + taken[AIE_SLOT_LDB] + either;
    s.most = (s.loads + 1) / 2 > s.most ? (s.loads + 1) / 2 : s.most;
    return s;
}

// The loads that the loop has time for beside what its other slots take.
static void find_room(struct again * g) {
    for (int i = 0; i < g->region->count; i++) {
        g->stored[node_of(g, i)->memory] |= instr_of(g, i)->stores;
    }
    struct asm_slots slots = asm_slots(g->p, g->region);
    g->room = 2 * slots.most - slots.loads;
    g->room_a = slots.most - slots.loads_a;
}

static void note_write(struct again * g, int i, int id) {
    struct loaded * l = &g->locals[id];
    int pointer;
    bool good = l->loads >= 0 && l->loads < MOST_LOADS && is_offset_load(g, i, &pointer);
    if (good) {
        l->from[l->loads++] = i;
    } else {
        l->loads = -1;
    }
}

static bool is_written_between(const struct again * g, int pointer, int from, int to) {
    for (int i = from; i < to; i++) {
        const struct asm_node * n = node_of(g, i);
        for (unsigned left = n->regs & instr_of(g, i)->defs; left; left &= left - 1) {
            if (n->args[__builtin_ctz(left)].reg.id == pointer) {
                return true;
            }
        }
    }
    return false;
}

static void find_writes(struct again * g) {
    for (int i = 0; i < g->region->count; i++) {
        const struct asm_node * n = node_of(g, i);
        for (unsigned left = n->locals & instr_of(g, i)->defs; left; left &= left - 1) {
            note_write(g, i, n->args[__builtin_ctz(left)].reg.id);
        }
    }
}

static void find_uses(struct again * g) {
    for (int i = 0; i < g->region->count; i++) {
        const struct asm_node * n = node_of(g, i);
        for (unsigned left = n->locals & ~instr_of(g, i)->defs; left; left &= left - 1) {
            int id = n->args[__builtin_ctz(left)].reg.id;
            struct loaded * l = &g->locals[id];
            if (l->loads <= 0) {
                continue;
            }
            if (l->last >= 0 && i - l->last > FAR) {
                g->uses[g->n_uses++] = (struct use){i, id, i - l->last, -1};
            }
            l->last = i;
        }
    }
}

static int by_gap(const void * a, const void * b) {
    const struct use *x = a, *y = b;
    return x->gap != y->gap ? y->gap - x->gap : x->node - y->node;
}

// Those that are furthest from the use before, as many as there is room for; returns how many.
static int choose(struct again * g) {
    int n = 0;
    qsort(g->uses, (size_t) g->n_uses, sizeof *g->uses, by_gap);
    for (int u = 0; u < g->n_uses; u++) {
        const struct loaded * l = &g->locals[g->uses[u].local];
        int pointer = 0;
        bool good = is_offset_load(g, l->from[0], &pointer) &&
                    !is_written_between(g, pointer, l->from[0], g->uses[u].node);
        bool one = !has_choice(g->p, node_of(g, l->from[0]));
        if (good && g->room >= l->loads && (!one || g->room_a >= l->loads)) {
            g->room -= l->loads;
            g->room_a -= one ? l->loads : 0;
            g->uses[n++] = g->uses[u];
        }
    }
    return n;
}

static void copy_node(struct again * g, int i, int from_id, int16_t id) {
    struct asm_node n = *node_of(g, i); // the array may move
    for (unsigned left = n.locals; left; left &= left - 1) {
        int16_t * named = &n.args[__builtin_ctz(left)].reg.id;
        *named = *named == from_id ? id : g->locals[*named].now;
    }
    asm_node_copy(g->p, &n);
}

static void rewrite(struct again * g, int n_chosen) {
    for (int i = 0; i < g->region->count; i++) {
        g->chosen[i] = -1;
    }
    for (int u = n_chosen - 1; u >= 0; u--) {
        g->uses[u].next = g->chosen[g->uses[u].node];
        g->chosen[g->uses[u].node] = u;
    }
    for (int i = 0; i < g->region->count && !g->p->no_memory; i++) {
        for (int u = g->chosen[i]; u >= 0; u = g->uses[u].next) {
            int local = g->uses[u].local;
            struct loaded * l = &g->locals[local];
            int16_t id = asm_vreg_new(g->p, (enum asm_class) g->p->vregs[local].cls, -1);
            for (int k = 0; k < l->loads; k++) {
                copy_node(g, l->from[k], local, id);
            }
            l->now = id;
        }
        copy_node(g, i, -1, 0);
    }
}

static void load_again(struct asm_program * p, struct asm_item * region) {
    struct again g = {.p = p, .region = region};
    int first = p->n_nodes;
    g.locals = malloc(((size_t) p->n_vregs + 1) * sizeof *g.locals);
    g.uses = malloc(((size_t) region->count * ASM_MAX_ARGS + 1) * sizeof *g.uses);
    g.chosen = malloc(((size_t) region->count + 1) * sizeof *g.chosen);
    p->no_memory |= !g.locals || !g.uses || !g.chosen;
    if (!p->no_memory) {
        for (int i = 0; i < region->count; i++) { // a region names few of a program's registers
            const struct asm_node * n = node_of(&g, i);
            for (unsigned left = n->locals; left; left &= left - 1) {
                int16_t id = n->args[__builtin_ctz(left)].reg.id;
                g.locals[id] = (struct loaded){.last = -1, .now = id};
            }
        }
        find_room(&g);
        find_writes(&g);
        find_uses(&g);
        int chosen = choose(&g);
        if (chosen > 0) {
            rewrite(&g, chosen);
            region->count = p->n_nodes - first;
            region->first = first;
            p->ready = true;
        }
    }
    free(g.locals);
    free(g.uses);
    free(g.chosen);
}

void asm_rematerialise(struct asm_program * p) {
    for (int i = 1; i < p->n_items && p->misuse.status == ST_OK && !p->no_memory; i++) {
        const struct asm_item * before = &p->items[i - 1];
        if (p->items[i].kind == ASM_ITEM_REGION && before->kind == ASM_ITEM_LOOP &&
            !before->interval) {
            load_again(p, &p->items[i]);
        }
    }
}
