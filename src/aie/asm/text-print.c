// asm/text-print: programs written as text, in the form that text.h shows. Labels are named in the
// order in which they are mentioned, in bundles by the bundle that they stand at, so that equal
// programs have equal texts.
#include "text-impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct printer {
    const struct asm_program * p;
    const struct asm_trace * trace;
    enum asm_pass pass;
    struct buf * b;
    int * labels; // the number in a label's name, -1 = not mentioned
    const struct asm_node * node;
};

// ---- operands ----

static void print_vreg(const struct printer * pr, struct asm_reg r) {
    const struct asm_vreg * v = &pr->p->vregs[r.id];
    char name[AIE_REG_NAME_SIZE];
    // registers that laying out has added are the core's
    if (pr->pass == ASM_PASS_BUNDLES || (pr->trace && r.id >= pr->trace->n_vregs)) {
        buf_printf(pr->b, "%s",
                   aie_reg_name(asm_phys(pr->p->target, v->cls, v->phys, r.part), name));
        return;
    }
    buf_printf(pr->b, "%c%s%d", v->global ? '$' : '%', text_class_names[v->cls], r.id);
    if (r.part >= 0) {
        buf_printf(pr->b, ".%s", text_part_names[r.part]);
    }
    if (pr->pass == ASM_PASS_SCHEDULE && v->phys >= 0) {
        buf_printf(pr->b, "=%s",
                   aie_reg_name(asm_phys(pr->p->target, v->cls, v->phys, r.part), name));
    }
}

static void print_arg(const struct printer * pr, const struct asm_arg * a, bool is_imm) {
    char name[AIE_REG_NAME_SIZE];
    if (a->kind == ASM_ARG_REG) {
        print_vreg(pr, a->reg);
    } else if (a->kind == ASM_ARG_LABEL) {
        buf_printf(pr->b, "L%d", pr->labels[a->value]);
    } else if (is_imm) {
        buf_printf(pr->b, "%" PRId32, a->value);
    } else {
        buf_printf(pr->b, "%s", aie_reg_name((aie_reg) a->value, name));
    }
}

static void print_operand(void * user, const struct aie_instr * in, int k, struct buf * b) {
    const struct printer * pr = user;
    (void) b;
    if (k >= in->n_explicit) { // part of an operand: that one
        k = aie_instr_operand(in, in->operands[k].field);
    }
    print_arg(pr, &pr->node->args[k], in->operands[k].is_imm);
}

// The instruction, carried by that record.
static void print_instr(struct printer * pr, const struct asm_node * node, int op) {
    size_t from = pr->b->size;
    struct text_match match;
    pr->node = node;
    aie_instr_print(asm_instr(pr->p, op), print_operand, pr, pr->b);
    if (!pr->b->failed && text_find(pr->p, (const char *) pr->b->data + from, -1, &match) != op) {
        buf_printf(pr->b, " !%s", asm_instr(pr->p, op)->name);
    }
}

// ---- items ----

static void mention(struct printer * pr, int label, int * n) {
    if (pr->labels[label] < 0) {
        pr->labels[label] = (*n)++;
    }
}

static void name_labels(struct printer * pr) {
    const struct asm_program * p = pr->p;
    int n = 0;
    for (int i = 0; i < p->n_items; i++) {
        const struct asm_item * item = &p->items[i];
        if (item->kind == ASM_ITEM_LABEL) {
            mention(pr, item->label, &n);
        }
        for (int k = item->first; k < item->first + item->count; k++) {
            for (int a = 0; a < p->nodes[k].n_args; a++) {
                if (p->nodes[k].args[a].kind == ASM_ARG_LABEL) {
                    mention(pr, p->nodes[k].args[a].value, &n);
                }
            }
        }
    }
}

// "after 3 by 7, 5 by 1": instructions of the region, and bundles; "(1)": of the trip before.
static void print_deps(const struct printer * pr, int node, int first) {
    const struct asm_trace * t = pr->trace;
    const char * before = ": after";
    int from = 0, to = t->n_edges; // they are sorted
    while (from < to) {
        int middle = (from + to) / 2;
        if (t->edges[middle].to < node) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    for (int e = from; e < t->n_edges && t->edges[e].to == node; e++) {
        const struct trace_edge * edge = &t->edges[e];
        if (edge->trips == DEP_COPIES) {
            continue;
        }
        buf_printf(pr->b, "%s %d by %d", before, edge->from - first, edge->latency);
        if (edge->trips) {
            buf_printf(pr->b, " (%d)", edge->trips);
        }
        before = ",";
    }
}

static void print_node(struct printer * pr, const struct asm_item * item, int index, bool placed) {
    const struct asm_trace * t = pr->trace;
    bool as_written = pr->pass == ASM_PASS_BUILT || pr->pass == ASM_PASS_DEPS;
    const struct asm_node * node = &pr->p->nodes[as_written ? index : t->shown[index]];
    bool in_bundles = pr->pass == ASM_PASS_SCHEDULE && t->cycle[index] >= 0;
    bool found = placed && t && pr->pass == ASM_PASS_LOOPS;
    int op = in_bundles ? t->op[index] : found ? t->time_op[index] : node->op;
    if (in_bundles || placed) {
        buf_printf(pr->b, "%5d:  ",
                   in_bundles ? t->cycle[index]
                   : found    ? t->time[index]
                              : node->at);
    } else {
        buf_printf(pr->b, "        ");
    }
    print_instr(pr, node, op);
    if (node->memory) {
        buf_printf(pr->b, " @%d", node->memory);
    }
    if (pr->pass == ASM_PASS_DEPS && item->kind == ASM_ITEM_REGION) {
        buf_printf(pr->b, " // %d", index - item->first);
        print_deps(pr, index, item->first);
    }
    buf_printf(pr->b, "\n");
}

static const struct trace_loop * loop_of(const struct printer * pr,
                                         const struct asm_item * region) {
    for (int i = 0; pr->trace && pr->pass == ASM_PASS_LOOPS && i < pr->trace->n_loops; i++) {
        if (pr->trace->loops[i].first == region->first && pr->trace->loops[i].ii) {
            return &pr->trace->loops[i];
        }
    }
    return NULL;
}

static void print_loop(struct printer * pr, const struct asm_item * loop,
                       const struct asm_item * region) {
    const struct trace_loop * found = loop_of(pr, region);
    int every = found ? found->ii : loop->interval;
    buf_printf(pr->b, "loop ");
    print_arg(pr, &pr->p->nodes[loop->first].args[1], false);
    if (loop->rolls) {
        buf_printf(pr->b, " rolling");
    }
    if (loop->alone) {
        buf_printf(pr->b, " alone");
    }
    if (every) {
        buf_printf(pr->b, " every %d", every);
    }
    if (loop->late) {
        buf_printf(pr->b, " late");
    }
    buf_printf(pr->b, " {");
    if (found) {
        buf_printf(pr->b, " // %d trips in flight, registers of a local: %d; slots want %d",
                   found->stages, found->copies, found->resource_ii);
        if (found->recurrence_ii) {
            buf_printf(pr->b, ", carried values %d", found->recurrence_ii);
        }
    } else if (pr->pass == ASM_PASS_LOOPS) {
        buf_printf(pr->b, " // trips do not overlap");
    }
    buf_printf(pr->b, "\n");
    for (int k = region->first; k < region->first + region->count; k++) {
        print_node(pr, region, k, every > 0);
    }
    buf_printf(pr->b, "}\n");
}

// Globals that begin, or end, at item i: eight a line.
static void print_globals(struct printer * pr, int i, bool end) {
    const struct asm_program * p = pr->p;
    int n_vregs = pr->trace ? pr->trace->n_vregs : p->n_vregs, n = 0;
    for (int v = 0; v < n_vregs; v++) {
        const struct asm_vreg * vreg = &p->vregs[v];
        char name[AIE_REG_NAME_SIZE];
        if (!vreg->global || vreg->phys < 0 || (end ? vreg->until : vreg->from) != i) {
            continue;
        }
        buf_printf(pr->b, "%s%s", n && n % 8 == 0 ? "\n" : "",
                   n % 8 ? ""
                   : end ? "release"
                         : "global");
        buf_printf(pr->b, " $%s%d", text_class_names[vreg->cls], v);
        if (!end) {
            aie_reg_name(asm_phys(p->target, vreg->cls, vreg->phys, -1), name);
            buf_printf(pr->b, "=%s", name);
        }
        n++;
    }
    buf_printf(pr->b, "%s", n ? "\n" : "");
}

// What is known of buffers: their banks, margins, and where they stand once more.
static void print_memories(struct printer * pr) {
    for (int m = 0; m < ASM_MIRROR; m++) {
        const struct asm_memory * memory = &pr->p->memories[m];
        if (memory->bank || memory->margin) {
            buf_printf(pr->b, "memory @%d", m);
            if (memory->bank) {
                buf_printf(pr->b, " bank %d", memory->bank - 1);
            }
            if (memory->margin) {
                buf_printf(pr->b, " margin %d", memory->margin);
            }
            if (memory->further) {
                buf_printf(pr->b, " again %d %d", memory->first, memory->further);
            }
            buf_printf(pr->b, "\n");
        }
    }
}

static void print_item(struct printer * pr, int i) {
    const struct asm_item * item = &pr->p->items[i];
    switch (item->kind) {
    case ASM_ITEM_LABEL:
        buf_printf(pr->b, "L%d:\n", pr->labels[item->label]);
        break;
    case ASM_ITEM_LOOP:
        if (i + 1 < pr->p->n_items && pr->p->items[i + 1].kind == ASM_ITEM_REGION) {
            print_loop(pr, item, item + 1);
        }
        break;
    case ASM_ITEM_REGION:
        if (i > 0 && item[-1].kind == ASM_ITEM_LOOP) {
            break; // is printed
        }          // fall through
    case ASM_ITEM_JUMP:
    case ASM_ITEM_LOCK:
        for (int k = item->first; k < item->first + item->count; k++) {
            print_node(pr, item, k, false);
        }
        break;
    case ASM_ITEM_LOOP_END:
        break;
    }
}

static bool printer_begin(struct printer * pr) {
    size_t n = (size_t) pr->p->n_labels;
    pr->labels = malloc((n + 1) * sizeof *pr->labels);
    if (!pr->labels) {
        pr->b->failed = true;
        return false;
    }
    memset(pr->labels, -1, n * sizeof *pr->labels);
    buf_printf(pr->b, "target %s\n", pr->p->target->name);
    return true;
}

void text_print_items(const struct asm_program * p, enum asm_pass pass,
                      const struct asm_trace * trace, struct buf * b) {
    struct printer pr = {.p = p, .trace = trace, .pass = pass, .b = b};
    if (!printer_begin(&pr)) {
        return;
    }
    name_labels(&pr);
    buf_printf(b, "%s", p->keep_small ? "small\n" : "");
    buf_printf(b, "%s", p->ready ? "ready\n" : "");
    if (p->spills) {
        buf_printf(b, "spill @%d %d\n", p->spill_memory, p->spills);
    }
    print_memories(&pr);
    print_globals(&pr, 0, false);
    for (int i = 0; i <= p->n_items; i++) {
        print_globals(&pr, i, true);
        for (int n = 0; n < p->n_sections; n++) {
            buf_printf(b, "%s", p->sections[n] == i ? "section\n" : "");
        }
        if (i > 0) {
            print_globals(&pr, i, false);
        }
        if (i < p->n_items) {
            print_item(&pr, i);
        }
    }
    free(pr.labels);
}

// ---- bundles ----

static const enum aie_slot slot_order[] = {AIE_SLOT_LDB, AIE_SLOT_LDA, AIE_SLOT_ST, AIE_SLOT_LNG,
                                           AIE_SLOT_ALU, AIE_SLOT_MV,  AIE_SLOT_VEC};
enum { SLOTS = sizeof slot_order / sizeof slot_order[0] };

static bool is_idle(const struct asm_bundle * b) {
    return !b->present;
}

// Labels that an instruction names get the number of their bundle; targets[b]: one stands there.
static void place_labels(struct printer * pr, bool * targets) {
    const struct asm_program * p = pr->p;
    for (int i = 0; i < p->n_bundles; i++) {
        for (unsigned left = p->bundles[i].present; left; left &= left - 1) {
            const struct asm_node * node = &p->nodes[p->bundles[i].node[__builtin_ctz(left)]];
            for (int a = 0; a < node->n_args; a++) {
                const struct asm_arg * arg = &node->args[a];
                int at = arg->kind == ASM_ARG_LABEL ? p->labels[arg->value] : -1;
                if (at >= 0) {
                    pr->labels[arg->value] = at;
                    targets[at] = true;
                }
            }
        }
    }
}

static void print_bundle(struct printer * pr, const struct asm_bundle * b) {
    const char * before = "";
    for (int s = 0; s < SLOTS; s++) {
        enum aie_slot slot = slot_order[s];
        if (b->present >> slot & 1) {
            buf_printf(pr->b, "%s", before);
            print_instr(pr, &pr->p->nodes[b->node[slot]], b->op[slot]);
            before = "; ";
        }
    }
}

void text_print_bundles(const struct asm_program * p, struct buf * b) {
    struct printer pr = {.p = p, .pass = ASM_PASS_BUNDLES, .b = b};
    bool * targets = calloc((size_t) p->n_bundles + 1, sizeof *targets);
    if (!targets || !printer_begin(&pr)) {
        b->failed = true;
        free(targets);
        return;
    }
    place_labels(&pr, targets);
    buf_printf(b, "bundles\n");
    for (int i = 0; i < p->n_bundles; i++) {
        if (targets[i]) {
            buf_printf(b, "L%d:\n", i);
        }
        buf_printf(b, "%5d:  ", i);
        if (is_idle(&p->bundles[i])) {
            int n = 1;
            while (i + n < p->n_bundles && !targets[i + n] && is_idle(&p->bundles[i + n])) {
                n++;
            }
            buf_printf(b, "idle %d", n);
            i += n - 1;
        } else {
            print_bundle(&pr, &p->bundles[i]);
        }
        buf_printf(b, "\n");
    }
    if (targets[p->n_bundles]) { // behind the last
        buf_printf(b, "L%d:\n", p->n_bundles);
    }
    free(targets);
    free(pr.labels);
}

static void print_decoded(const struct aie_isa * isa, const struct aie_bundle * bundle,
                          struct buf * b) {
    const char * before = "";
    for (int s = 0; s < SLOTS; s++) {
        const struct aie_inst * inst = &bundle->slot[slot_order[s]];
        if (bundle->present >> slot_order[s] & 1 && inst->op != aie_isa_nop(isa, slot_order[s])) {
            buf_printf(b, "%s", before);
            aie_inst_print(isa, inst, b);
            before = "; ";
        }
    }
}

void text_print_bytes(const struct asm_program * p, const uint8_t * bytes, size_t size,
                      struct buf * b) {
    for (size_t at = 0; at < size;) {
        struct aie_bundle bundle;
        if (aie_bundle_decode(p->isa, bytes + at, size - at, &bundle, NULL) != ST_OK) {
            buf_printf(b, "%5zx:  does not decode\n", at);
            return;
        }
        buf_printf(b, "%5zx:  ", at);
        for (int i = 0; i < bundle.size; i++) {
            buf_printf(b, "%02x", bytes[at + (size_t) i]);
        }
        buf_printf(b, "%*s", 2 * (AIE_MAX_BUNDLE_BYTES - bundle.size) + 2, "");
        print_decoded(p->isa, &bundle, b);
        while (b->size && b->data[b->size - 1] == ' ') {
            b->data[--b->size] = 0;
        }
        buf_printf(b, "\n");
        at += bundle.size;
    }
}

void asm_print(const struct asm_program * p, struct buf * b) {
    if (p->placed) {
        text_print_bundles(p, b);
    } else {
        text_print_items(p, ASM_PASS_BUILT, NULL, b);
    }
}
