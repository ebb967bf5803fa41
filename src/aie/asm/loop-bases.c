// asm/loop-bases: loads at an offset go through either load unit only while the offset is small:
// that of one of them is short. A loop that loads constants from far and wide gets pointers of its
// own, which are free in the program, to where it loads from most, and its loads go through these.
// Where the bank is known they lead to the mirror: two loads from one bank take two cycles.
#include "deps.h"

#include <stdlib.h>

enum { LEAST = 6 }; // loads for which a pointer is worth its set-up

// A load that another slot could carry, were its offset smaller, and that would not meet the others
// in their bank; `pointer` and `offset` are the operands.
struct far_load {
    int node, pointer, offset;
    uint16_t other; // the op of the other slot
};

// Whether the node is one. Pointers that the region moves are left alone.
static bool is_far(const struct asm_program * p, const struct asm_node * n, struct far_load * f) {
    const struct aie_instr * instr = asm_instr(p, n->op);
    int immediates = 0, pointers = 0;
    uint16_t ops[2];
    f->other = p->other_op[n->op];
    if (!f->other || !instr->loads || instr->stores) {
        return false;
    }
    for (int k = 0; k < n->n_args; k++) {
        if (n->args[k].kind == ASM_ARG_IMM) {
            f->offset = k;
            immediates++;
        } else if (n->args[k].kind == ASM_ARG_REG && p->vregs[n->args[k].reg.id].cls == ASM_P) {
            f->pointer = k;
            pointers +=
                instr->operands[k].role == AIE_USE && p->vregs[n->args[k].reg.id].global ? 1 : 2;
        }
    }
    const struct asm_memory * m = &p->memories[n->memory % ASM_MEMORIES];
    bool elsewhere = !m->bank || (m->further && n->args[f->offset].value >= m->first);
    return immediates == 1 && pointers == 1 && elsewhere &&
           aie_operand_fits(p->isa, f->other, f->offset, 0) &&
           (m->bank || asm_variants(p, n, ops) == 1);
}

// Which registers the region writes.
static void find_moved(const struct asm_program * p, const struct asm_item * region, bool * moved) {
    for (int i = region->first; i < region->first + region->count; i++) {
        const struct asm_node * n = &p->nodes[i];
        const struct aie_instr * instr = asm_instr(p, n->op);
        for (unsigned left = n->regs & instr->defs; left; left &= left - 1) {
            moved[n->args[__builtin_ctz(left)].reg.id] = true;
        }
    }
}

// Those of the region, if they are worth a pointer; returns how many.
static int collect(struct asm_program * p, const struct asm_item * region,
                   struct far_load * loads) {
    int n = 0, n_all = 0;
    for (int i = 0; i < region->count; i++) {
        struct far_load f = {.node = i};
        if (is_far(p, &p->nodes[region->first + i], &f)) {
            loads[n_all++] = f;
        }
    }
    if (n_all < LEAST) {
        return 0;
    }
    bool * moved = calloc((size_t) p->n_vregs + 1, sizeof *moved);
    p->no_memory |= !moved;
    if (moved) {
        find_moved(p, region, moved);
    }
    for (int i = 0; moved && i < n_all; i++) {
        const struct asm_node * node = &p->nodes[region->first + loads[i].node];
        if (!moved[node->args[loads[i].pointer].reg.id]) {
            loads[n++] = loads[i];
        }
    }
    free(moved);
    return n;
}

// Whether both units reach it from a pointer that is `base` further than its own.
static bool reaches(const struct asm_program * p, const struct asm_node * n,
                    const struct far_load * f, int32_t base) {
    return aie_operand_fits(p->isa, f->other, f->offset, n->args[f->offset].value - base);
}

// How far on the mirror of what is loaded through a pointer stands. A pointer leads to one memory.
static int32_t mirror_of(const struct asm_program * p, const struct asm_item * region,
                         const struct far_load * loads, int n, int id) {
    for (int i = 0; i < n; i++) {
        const struct asm_node * node = &p->nodes[region->first + loads[i].node];
        if (node->args[loads[i].pointer].reg.id == id) {
            return p->memories[node->memory % ASM_MEMORIES].further;
        }
    }
    return 0;
}

// Loads that are alike: of one offset from one pointer, by one instruction.
struct alike {
    int first, pointer, count;
    int32_t offset;
    uint16_t other;
    struct aie_range reach; // of the other slot
};

static int find_alike(const struct asm_program * p, const struct asm_item * region,
                      const struct far_load * loads, int n, struct alike * all) {
    int n_all = 0;
    for (int i = 0; i < n; i++) {
        const struct asm_node * node = &p->nodes[region->first + loads[i].node];
        struct alike a = {.first = i,
                          .pointer = node->args[loads[i].pointer].reg.id,
                          .count = 1,
                          .offset = node->args[loads[i].offset].value,
                          .other = loads[i].other};
        int k = 0;
        while (k < n_all && (all[k].offset != a.offset || all[k].pointer != a.pointer ||
                             all[k].other != a.other)) {
            k++;
        }
        if (k < n_all) {
            all[k].count++;
        } else {
            a.reach = aie_operand_range(p->isa, a.other, loads[i].offset);
            all[n_all++] = a;
        }
    }
    return n_all;
}

// The place among those of the loads from which most of them are in reach; returns how many are.
static int best_base(struct asm_program * p, const struct asm_item * region,
                     const struct far_load * loads, int n, int * pointer, int32_t * base) {
    struct alike * all = malloc(((size_t) n + 1) * sizeof *all);
    p->no_memory |= !all;
    int n_all = all ? find_alike(p, region, loads, n, all) : 0, most = 0;
    for (int i = 0; i < n_all; i++) {
        for (int back = 0; back < 2; back++) { // it is the least offset in reach, or the middle
            int32_t here = all[i].offset + (back ? 4 * p->target->load_bytes : 0);
            int count = 0;
            for (int j = 0; j < n_all; j++) {
                const struct aie_range * reach = &all[j].reach;
                int32_t by = all[j].offset - here;
                bool near = all[j].pointer == all[i].pointer && by >= reach->min &&
                            by <= reach->max && by % reach->step == 0;
                count += near ? all[j].count : 0;
            }
            if (count > most) {
                most = count;
                *pointer = all[i].pointer;
                *base = here;
            }
        }
    }
    free(all);
    return most;
}

// to = from + offset, before the loop.
static void set_up(struct asm_program * p, struct asm_reg to, int from, int32_t offset) {
    const uint16_t * basic = p->target->basic;
    struct asm_item region = {.kind = ASM_ITEM_REGION, .first = p->n_nodes, .count = 4};
    struct asm_reg a = asm_local(p, ASM_R), b = asm_local(p, ASM_R), sum = asm_local(p, ASM_R);
    struct asm_reg old = {(int16_t) from, -1};
    asm_node_new(p, basic[AIE_BASIC_COPY], 0, (struct asm_arg[]){A_REG(a), A_REG(old)}, 2);
    asm_node_new(p, basic[AIE_BASIC_SET], 0, (struct asm_arg[]){A_REG(b), A_IMM(offset)}, 2);
    asm_node_new(p, basic[AIE_BASIC_ADD], 0, (struct asm_arg[]){A_REG(sum), A_REG(a), A_REG(b)}, 3);
    asm_node_new(p, basic[AIE_BASIC_COPY], 0, (struct asm_arg[]){A_REG(to), A_REG(sum)}, 2);
    if (!p->no_memory) {
        asm_schedule_region(p, &region, false);
    }
}

static bool has_local_pointers(const struct asm_program * p, const struct asm_item * region) {
    for (int i = region->first; i < region->first + region->count; i++) {
        for (int k = 0; k < p->nodes[i].n_args; k++) {
            const struct asm_arg * a = &p->nodes[i].args[k];
            if (a->kind == ASM_ARG_REG && p->vregs[a->reg.id].cls == ASM_P &&
                !p->vregs[a->reg.id].global) {
                return true;
            }
        }
    }
    return false;
}

// The region once more, behind all other instructions.
static bool copy_region(struct asm_program * p, struct asm_item * region) {
    int first = p->n_nodes;
    for (int i = 0; i < region->count; i++) {
        struct asm_node n = p->nodes[region->first + i]; // the array may move
        if (asm_node_copy(p, &n) < 0) {
            return false;
        }
    }
    region->first = first;
    return true;
}

struct asm_item asm_add_base_pointers(struct asm_program * p, const struct asm_item * region) {
    struct asm_item out = *region;
    struct far_load * loads = malloc(((size_t) region->count + 1) * sizeof *loads);
    p->no_memory |= !loads;
    int n = loads ? collect(p, region, loads) : 0;
    bool copied = false;
    while (n >= LEAST && (asm_class_set(p, ASM_P) & ~p->global_taken[ASM_P]) &&
           !has_local_pointers(p, region)) {
        int id = 0;
        int32_t base = 0;
        if (best_base(p, &out, loads, n, &id, &base) < LEAST ||
            (!copied && !copy_region(p, &out))) {
            break;
        }
        copied = true;
        struct asm_reg near = asm_global(p, ASM_P);
        int kept = 0, further = mirror_of(p, &out, loads, n, id);
        for (int i = 0; i < n; i++) {
            struct asm_node * node = &p->nodes[out.first + loads[i].node];
            if (node->args[loads[i].pointer].reg.id == id && reaches(p, node, &loads[i], base)) {
                node->args[loads[i].pointer].reg = near;
                node->args[loads[i].offset].value -= base;
                node->memory = (uint8_t) (node->memory + (further ? ASM_MIRROR : 0));
            } else {
                loads[kept++] = loads[i];
            }
        }
        n = kept;
        set_up(p, near, id, base + further);
    }
    free(loads);
    return out;
}
