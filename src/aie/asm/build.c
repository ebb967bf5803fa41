// asm/build: the calls with which a kernel author writes a program. They only record; the first
// misuse is remembered and reported by asm_finish, so that emitters need no error handling.
#include "program.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status asm_new(enum aie_arch arch, struct asm_program ** out) {
    struct asm_program * p = calloc(1, sizeof *p);
    if (!p) {
        return ST_NO_MEMORY;
    }
    p->target = aie_target(arch);
    p->isa = aie_isa_get(arch);
    p->schedules = &asm_own_schedules;
    p->other_op = calloc((size_t) aie_isa_count(p->isa), sizeof *p->other_op);
    // Register 0 is there from the beginning: it is what an author gets who was given none for want
    // of memory, and goes on writing with it until asm_finish reports it.
    if (!p->other_op || !asm_grow_now(p, (void **) &p->vregs, &p->cap_vregs, sizeof *p->vregs)) {
        asm_free(p);
        return ST_NO_MEMORY;
    }
    p->vregs[0] = (struct asm_vreg){.phys = -1, .until = INT_MAX};
    for (int a = 0; a < p->target->n_alternatives; a++) {
        const uint16_t * both = p->target->alternatives[a];
        p->other_op[both[0]] = both[1];
        p->other_op[both[1]] = both[0];
    }
    p->instrs = aie_isa_instr(p->isa, 0);
    p->no_memory = !asm_trace_new(&p->trace);
    if (!p->target->has_programs) {
        asm_misuse(p, "asm: core programs are not yet there on %s", p->target->name);
    }
    *out = p;
    return ST_OK;
}

void asm_free(struct asm_program * p) {
    if (p) {
        free(p->other_op);
        free(p->vregs);
        free(p->globals);
        free(p->nodes);
        for (int i = 0; i < p->n_items; i++) {
            asm_flow_free(p->items[i].flow);
        }
        free(p->items);
        free(p->bundles);
        free(p->sizes);
        free(p->addresses);
        free(p->labels);
        asm_sched_free(p->sched);
        deps_room_free(p->room);
        asm_trace_free(p->trace);
        free(p);
    }
}

void asm_free_trial(struct asm_program * trial, struct asm_program * p) {
    p->no_memory |= !trial || trial->no_memory;
    asm_free(trial);
}

static bool grow_to(struct asm_program * p, void ** array, int * cap, int cap_new, size_t item) {
    void * bigger = realloc(*array, (size_t) cap_new * item);
    if (!bigger) {
        p->no_memory = true;
        return false;
    }
    *array = bigger;
    *cap = cap_new;
    return true;
}

bool asm_grow_now(struct asm_program * p, void ** array, int * cap, size_t item) {
    return grow_to(p, array, cap, *cap ? *cap * 2 : 64, item);
}

// A trip that is written on trial has few nodes; else there is room for a long program at once, of
// which what is not used is never touched. It is meant to be large: how much memory the C library
// keeps for the next program, instead of giving it back to the system and asking for it again, goes
// by the largest block that it has seen.
static bool grow_nodes(struct asm_program * p) {
    enum { FEW = 256, MANY = 32768 };
    int cap = !p->cap_nodes ? FEW : p->cap_nodes < MANY ? MANY : 2 * p->cap_nodes;
    return p->n_nodes < p->cap_nodes ||
           grow_to(p, (void **) &p->nodes, &p->cap_nodes, cap, sizeof *p->nodes);
}

void asm_misuse(struct asm_program * p, const char * fmt, ...) {
    if (p->misuse.status == ST_OK) {
        va_list args;
        va_start(args, fmt);
        p->misuse.status = ST_INVALID;
        vsnprintf(p->misuse.text, sizeof p->misuse.text, fmt, args);
        va_end(args);
    }
}

const struct aie_target * asm_target(const struct asm_program * p) {
    return p->target;
}

enum asm_class asm_class_of(const struct asm_program * p, struct asm_reg r) {
    return (enum asm_class) p->vregs[r.id].cls;
}

// Registers are given out class by class, so that two classes over the same ones would collide.
void asm_note_class(struct asm_program * p, enum asm_class cls) {
    if (p->classes >> cls & 1) {
        return; // it has been looked at
    }
    p->classes |= 1u << cls;
    for (int i = 0; i < AIE_MOST_EXCLUSIVE && p->target->exclusive[i]; i++) {
        if ((p->classes & p->target->exclusive[i]) == p->target->exclusive[i]) {
            asm_misuse(p, "asm: register class %d shares its registers with another that is in use",
                       cls);
        }
    }
}

bool asm_list_global(struct asm_program * p, int id) {
    if (!asm_grow(p, (void **) &p->globals, &p->cap_globals, p->n_globals, sizeof *p->globals)) {
        return false;
    }
    p->globals[p->n_globals++] = (int16_t) id;
    return true;
}

void asm_give_register(struct asm_program * p, struct asm_vreg * v, int phys) {
    v->phys = (int16_t) phys;
    p->global_taken[v->cls] |= 1ull << phys;
    // One that nobody had before may be carried along from anywhere; another one locals of the open
    // region may have.
    v->from = p->released[v->cls] >> phys & 1 ? p->n_items : 0;
    p->region_over |= v->from && !p->in_loop;
}

static struct asm_reg new_vreg(struct asm_program * p, enum asm_class cls, bool global,
                               uint64_t among) {
    if (!asm_grow(p, (void **) &p->vregs, &p->cap_vregs, p->n_vregs, sizeof *p->vregs) ||
        (global && !asm_list_global(p, p->n_vregs))) {
        return (struct asm_reg){0, -1};
    }
    struct asm_vreg * v = &p->vregs[p->n_vregs];
    *v = (struct asm_vreg){.cls = (uint8_t) cls, .global = global, .phys = -1, .until = INT_MAX};
    if (global) {
        uint64_t free_set = asm_class_set(p, cls) & ~p->global_taken[cls] & among;
        if (!free_set) {
            asm_misuse(p, "asm: no register of class %d is left for a global", cls);
        } else {
            asm_give_register(p, v,
                              63 - __builtin_clzll(free_set)); // from the top: locals start low
        }
    }
    return (struct asm_reg){(int16_t) p->n_vregs++, -1};
}

int16_t asm_vreg_new(struct asm_program * p, enum asm_class cls, int phys) {
    struct asm_reg r = new_vreg(p, cls, false, UINT64_MAX);
    if (!p->no_memory) {
        p->vregs[r.id].phys = (int16_t) phys;
    }
    return r.id;
}

struct asm_reg asm_local(struct asm_program * p, enum asm_class cls) {
    asm_note_class(p, cls);
    return new_vreg(p, cls, false, UINT64_MAX);
}

struct asm_reg asm_global(struct asm_program * p, enum asm_class cls) {
    asm_note_class(p, cls);
    return new_vreg(p, cls, true, UINT64_MAX);
}

struct asm_reg asm_global_at(struct asm_program * p, enum asm_class cls, int number) {
    asm_note_class(p, cls);
    return new_vreg(p, cls, true, 1ull << number);
}

void asm_keep_both(struct asm_program * p, struct asm_reg local) {
    if (!p->no_memory) {
        p->vregs[local.id].both = true;
    }
}

void asm_release(struct asm_program * p, struct asm_reg global) {
    struct asm_vreg * v = &p->vregs[global.id];
    if (p->no_memory || v->phys < 0) {
        return; // reported already
    }
    if (!v->global || v->until != INT_MAX || p->in_loop) {
        asm_misuse(p, "asm: only a global can be released, once, and not within a loop");
        return;
    }
    v->until = p->n_items;
    p->global_taken[v->cls] &= ~(1ull << v->phys);
    p->released[v->cls] |= 1ull << v->phys;
    p->region_over = true;
}

void asm_section(struct asm_program * p) {
    if (p->in_loop || p->n_sections == ASM_SECTIONS) {
        asm_misuse(p, "asm: a section begins outside loops, and there are at most %d",
                   ASM_SECTIONS);
        return;
    }
    for (int cls = 0; cls < ASM_CLASS_COUNT; cls++) {
        p->released[cls] = UINT64_MAX;
        p->classes &= ~(p->global_taken[cls] ? 0 : 1u << cls);
    }
    p->sections[p->n_sections++] = p->n_items;
    p->region_over = true;
}

static struct asm_item * add_item(struct asm_program * p, enum asm_item_kind kind) {
    if (!asm_grow(p, (void **) &p->items, &p->cap_items, p->n_items, sizeof *p->items)) {
        return NULL;
    }
    struct asm_item * item = &p->items[p->n_items++];
    *item = (struct asm_item){.kind = kind, .first = p->n_nodes, .label = -1, .label_end = -1};
    return item;
}

int asm_node_new(struct asm_program * p, int op, int memory, const struct asm_arg * args, int n) {
    const struct aie_instr * instr = aie_isa_instr(p->isa, op); // and that there is such a one
    if (n != instr->n_explicit || n > ASM_MAX_ARGS) {
        asm_misuse(p, "asm: %s takes %d operands, %d given", instr->name, instr->n_explicit, n);
        return -1;
    }
    if (instr->evidence == AIE_EVIDENCE_NONE) {
        asm_misuse(p, "asm: nobody has told what %s does on %s", instr->name, p->target->name);
        return -1;
    }
    if (!grow_nodes(p)) {
        return -1;
    }
    struct asm_node * node = &p->nodes[p->n_nodes];
    unsigned kinds = 0, regs = 0, locals = 0;
    for (int i = 0; i < n; i++) { // of the rest nothing is said
        bool is_reg = args[i].kind == ASM_ARG_REG;
        node->args[i] = args[i];
        kinds |= 1u << args[i].kind | (is_reg && args[i].reg.part >= 0 ? ASM_PARTS : 0);
        regs |= (unsigned) is_reg << i;
        locals |= (unsigned) (is_reg && !p->vregs[args[i].reg.id].global) << i;
    }
    node->op = (uint16_t) op;
    node->memory = (uint8_t) memory;
    node->kinds = (uint8_t) kinds;
    node->at = p->at;
    node->n_args = (unsigned) n;
    node->regs = regs;
    node->locals = locals;
    return p->n_nodes++;
}

int asm_node_copy(struct asm_program * p, const struct asm_node * n) {
    if (!grow_nodes(p)) {
        return -1;
    }
    p->nodes[p->n_nodes] = *n;
    return p->n_nodes++;
}

// An instruction of the author's, as against those that laying out adds.
static bool add_node(struct asm_program * p, int op, int memory, const struct asm_arg * args,
                     int n) {
    for (int k = 0; k < n; k++) {
        if (args[k].kind == ASM_ARG_REG && p->vregs[args[k].reg.id].until != INT_MAX) {
            asm_misuse(p, "asm: %s names a register that was released", asm_instr(p, op)->name);
        }
    }
    return asm_node_new(p, op, memory, args, n) >= 0;
}

void asm_emit(struct asm_program * p, int op, int memory, const struct asm_arg * args, int n) {
    struct asm_item * last = p->n_items ? &p->items[p->n_items - 1] : NULL;
    if (!last || last->kind != ASM_ITEM_REGION || p->region_over) {
        last = add_item(p, ASM_ITEM_REGION);
        p->region_over = false;
    }
    if (last && add_node(p, op, memory, args, n)) {
        last->count++;
    }
}

static int8_t bank_of(const struct asm_program * p, uint32_t address) {
    return (int8_t) (1 + address / (uint32_t) p->target->bank_bytes % ASM_BANKS);
}

void asm_place(struct asm_program * p, int memory, uint32_t address) {
    if (memory < 0 || memory >= ASM_MIRROR) {
        asm_misuse(p, "asm: memory %d cannot be placed, there are %d", memory, ASM_MIRROR);
        return;
    }
    p->memories[memory].bank = bank_of(p, address);
}

void asm_mirror(struct asm_program * p, int memory, int32_t first, int32_t further) {
    if (memory < 0 || memory >= ASM_MIRROR || !p->memories[memory].bank) {
        asm_misuse(p, "asm: memory %d has no place, so it has no mirror", memory);
        return;
    }
    int banks = further / p->target->bank_bytes;
    p->memories[memory].first = first;
    p->memories[memory].further = further;
    p->memories[memory + ASM_MIRROR].bank =
        (int8_t) ((p->memories[memory].bank - 1 + banks) % ASM_BANKS + 1);
}

void asm_margin(struct asm_program * p, int memory, int32_t bytes) {
    if (memory < 0 || memory >= ASM_MIRROR || bytes < 0) {
        asm_misuse(p, "asm: memory %d cannot have a margin of %d bytes", memory, (int) bytes);
        return;
    }
    p->memories[memory].margin = bytes;
}

void asm_use_schedules(struct asm_program * p, const struct asm_schedules * schedules) {
    p->schedules = schedules;
}

void asm_spill_to(struct asm_program * p, int memory, int vectors) {
    p->spills = p->target->spill_base ? vectors : 0;
    p->spill_memory = memory;
}

int asm_label_new(struct asm_program * p) {
    if (!asm_grow(p, (void **) &p->labels, &p->cap_labels, p->n_labels, sizeof *p->labels)) {
        return 0;
    }
    p->labels[p->n_labels] = -1;
    return p->n_labels++;
}

void asm_label(struct asm_program * p, int label) {
    struct asm_item * item = add_item(p, ASM_ITEM_LABEL);
    if (item) {
        item->label = label;
    }
}

void asm_single(struct asm_program * p, enum asm_item_kind kind, int op,
                const struct asm_arg * args, int n) {
    struct asm_item * item = add_item(p, kind);
    if (item && add_node(p, op, 0, args, n)) {
        item->count = 1;
    }
}

static void add_single(struct asm_program * p, enum asm_item_kind kind, enum aie_basic basic,
                       const struct asm_arg * args, int n) {
    asm_single(p, kind, p->target->basic[basic], args, n);
}

void asm_jump(struct asm_program * p, int label) {
    add_single(p, ASM_ITEM_JUMP, AIE_BASIC_JUMP, (struct asm_arg[]){A_LABEL(label)}, 1);
}

void asm_jump_if_zero(struct asm_program * p, struct asm_reg r, int label) {
    add_single(p, ASM_ITEM_JUMP, AIE_BASIC_JUMP_IF_ZERO,
               (struct asm_arg[]){A_REG(r), A_LABEL(label)}, 2);
}

void asm_jump_if_nonzero(struct asm_program * p, struct asm_reg r, int label) {
    add_single(p, ASM_ITEM_JUMP, AIE_BASIC_JUMP_IF_NONZERO,
               (struct asm_arg[]){A_REG(r), A_LABEL(label)}, 2);
}

void asm_jump_pointer(struct asm_program * p, struct asm_reg pointer) {
    add_single(p, ASM_ITEM_JUMP, AIE_BASIC_JUMP_POINTER, (struct asm_arg[]){A_REG(pointer)}, 1);
}

void asm_lock_acquire(struct asm_program * p, int lock, struct asm_reg value) {
    add_single(p, ASM_ITEM_LOCK, AIE_BASIC_ACQUIRE, (struct asm_arg[]){A_IMM(lock), A_REG(value)},
               2);
}

void asm_lock_acquire_any(struct asm_program * p, struct asm_reg lock, struct asm_reg value) {
    add_single(p, ASM_ITEM_LOCK, AIE_BASIC_ACQUIRE_ANY,
               (struct asm_arg[]){A_REG(lock), A_REG(value)}, 2);
}

void asm_lock_release(struct asm_program * p, int lock, struct asm_reg value) {
    add_single(p, ASM_ITEM_LOCK, AIE_BASIC_RELEASE, (struct asm_arg[]){A_IMM(lock), A_REG(value)},
               2);
}

void asm_loop_begin(struct asm_program * p, struct asm_reg count) {
    if (p->in_loop) {
        asm_misuse(p, "asm: zero-overhead loops do not nest");
    }
    p->in_loop = true;
    int first = asm_label_new(p);
    int last = asm_label_new(p);
    // add.nc lc, count, #0: the only form that takes the count from a register
    add_single(p, ASM_ITEM_LOOP, AIE_BASIC_COUNT,
               (struct asm_arg[]){A_FIXED(AIE_REG(AIE_SPC, AIE_SPC_LC)), A_REG(count), A_IMM(0)},
               3);
    if (p->n_items) {
        p->items[p->n_items - 1].label = first;
        p->items[p->n_items - 1].label_end = last;
    }
}

void asm_loop_begin_rolling(struct asm_program * p, struct asm_reg count) {
    asm_loop_begin(p, count);
    if (p->n_items) {
        p->items[p->n_items - 1].rolls = true;
    }
}

void asm_loop_begin_paced(struct asm_program * p, struct asm_reg count, int interval) {
    asm_loop_begin(p, count);
    if (p->n_items) {
        p->items[p->n_items - 1].interval = interval;
    }
}

void asm_loop_alone(struct asm_program * p) {
    if (p->n_items) {
        p->items[p->n_items - 1].plain = p->items[p->n_items - 1].alone = true;
    }
}

void asm_loop_late(struct asm_program * p) {
    if (p->n_items) {
        p->items[p->n_items - 1].late = true;
    }
}

void asm_mark(struct asm_program * p) {
    asm_emit(p, p->target->basic[AIE_BASIC_MARK], 0, NULL, 0);
}

void asm_mark_end(struct asm_program * p) {
    asm_emit(p, p->target->basic[AIE_BASIC_MARK_END], 0, NULL, 0);
}

void asm_at(struct asm_program * p, int bundle) {
    p->at = (int16_t) bundle;
}

void asm_loop_end(struct asm_program * p) {
    int n = p->n_items;
    if (!p->in_loop || n < 2 || p->items[n - 1].kind != ASM_ITEM_REGION ||
        p->items[n - 2].kind != ASM_ITEM_LOOP) {
        asm_misuse(p, "asm: a loop holds exactly one region");
    } else {
        int last = p->items[n - 2].label_end;
        struct asm_item * item = add_item(p, ASM_ITEM_LOOP_END);
        if (item) {
            item->label = last;
        }
    }
    p->in_loop = false;
}

void asm_keep_small(struct asm_program * p) {
    p->keep_small = true;
}

// So many bundles behind those that are there, of which nothing is said yet; returns the index of
// the first or -1.
static int bundles_add(struct asm_program * p, int n) {
    while (p->n_bundles + n > p->cap_bundles) {
        if (!asm_grow_now(p, (void **) &p->bundles, &p->cap_bundles, sizeof *p->bundles)) {
            return -1;
        }
    }
    p->n_bundles += n;
    return p->n_bundles - n;
}

void asm_append(struct asm_program * p, const struct asm_bundle * bundles, int n) {
    int at = n > 0 ? bundles_add(p, n) : -1;
    if (at >= 0) {
        memcpy(p->bundles + at, bundles, (size_t) n * sizeof *bundles);
    }
}

void asm_idle(struct asm_program * p, int n) {
    int at = n > 0 ? bundles_add(p, n) : -1;
    for (int b = at; at >= 0 && b < at + n; b++) {
        p->bundles[b].present = p->bundles[b].kinds = 0;
    }
}

int asm_bundle_add(struct asm_program * p) {
    asm_idle(p, 1);
    return p->no_memory ? -1 : p->n_bundles - 1;
}

void asm_alone(struct asm_program * p, int node) {
    int b = node >= 0 ? asm_bundle_add(p) : -1;
    if (b >= 0) {
        asm_put(p, b, node, p->nodes[node].op);
    }
}
