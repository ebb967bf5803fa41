// asm/emit: lays the items of a program out as bundles, resolves labels and encodes. Every bundle has
// the 16-byte form, in which all slots are there and every address is aligned.
#include "program.h"

#include "aie/isa/aie2.h"

#include <stdlib.h>
#include <string.h>

enum {
    DELAY_SLOTS = 5,
    LOCK_MARGIN = 8, // idle bundles between memory traffic and a lock operation, on either side
    LOOP_MARGIN = 8, // bundles between the last write of LS, LE or LC and the loop's last bundle
    BUNDLE_BYTES = 16,
    PROGRAM_BYTES = 16384,
};

static void idle(struct asm_program * p, int n) {
    while (n-- > 0) {
        asm_bundle_add(p);
    }
}

// A bundle with this one instruction in it.
static void alone(struct asm_program * p, int node) {
    int b = asm_bundle_add(p);
    if (b >= 0) {
        int op = p->nodes[node].op;
        p->bundles[b].slot[aie_isa_instr(p->isa, op)->slot] =
            (struct asm_slot) {.node = node, .op = (uint16_t) op};
    }
}

static void loop_setup(struct asm_program * p, const struct asm_item * item) {
    static const int targets[2] = {AIE_SPC_LS, AIE_SPC_LE};
    const int labels[2] = {item->label, item->label_end};
    for (int i = 0; i < 2; i++) {
        if (!asm_grow(p, (void **) &p->nodes, &p->cap_nodes, p->n_nodes, sizeof *p->nodes)) {
            return;
        }
        p->nodes[p->n_nodes] = (struct asm_node) {
            .op = AIE2_MOVXM_lng_cg,
            .n_args = 2,
            .args = {A_FIXED(AIE_REG(AIE_SPC, targets[i])), A_LABEL(labels[i])},
        };
        alone(p, p->n_nodes++);
    }
    alone(p, item->first);
    idle(p, LOOP_MARGIN);
    p->labels[item->label] = p->n_bundles;
}

static void lay_out_item(struct asm_program * p, int i) {
    const struct asm_item * item = &p->items[i];
    enum asm_item_kind before = i > 0 ? p->items[i - 1].kind : ASM_ITEM_LABEL;
    enum asm_item_kind after = i + 1 < p->n_items ? p->items[i + 1].kind : ASM_ITEM_LABEL;
    switch (item->kind) {
    case ASM_ITEM_REGION: {
        int start = p->n_bundles;
        asm_schedule(p, item, before == ASM_ITEM_LOOP);
        if (before == ASM_ITEM_LOOP && p->stats.n_loops < 8) {
            p->stats.loop_bundles[p->stats.n_loops] = p->n_bundles - start;
            p->stats.loop_ops[p->stats.n_loops++] = item->count;
        }
        break;
    }
    case ASM_ITEM_LABEL:
        p->labels[item->label] = p->n_bundles;
        break;
    case ASM_ITEM_JUMP:
        alone(p, item->first);
        idle(p, DELAY_SLOTS);
        break;
    case ASM_ITEM_LOCK:
        idle(p, before == ASM_ITEM_LOCK ? 0 : LOCK_MARGIN);
        alone(p, item->first);
        idle(p, after == ASM_ITEM_LOCK ? 0 : LOCK_MARGIN);
        break;
    case ASM_ITEM_LOOP:
        loop_setup(p, item);
        break;
    case ASM_ITEM_LOOP_END:
        p->labels[item->label] = p->n_bundles - 1;
        break;
    }
}

static int32_t arg_value(const struct asm_program * p, const struct asm_arg * a) {
    switch (a->kind) {
    case ASM_ARG_REG: {
        const struct asm_vreg * v = &p->vregs[a->reg.id];
        return asm_phys(v->cls, v->phys, a->reg.part);
    }
    case ASM_ARG_LABEL:
        return p->labels[a->value] * BUNDLE_BYTES;
    default:
        return a->value;
    }
}

static enum status encode(const struct asm_program * p, int index, uint8_t bytes[BUNDLE_BYTES],
                          struct error * err) {
    const struct asm_bundle * from = &p->bundles[index];
    struct aie_bundle b = {.size = BUNDLE_BYTES};
    bool lng = from->slot[AIE_SLOT_LNG].node >= 0;
    for (int s = 0; s < AIE_SLOT_NOP; s++) {
        if (lng ? s == AIE_SLOT_ALU || s == AIE_SLOT_MV : s == AIE_SLOT_LNG) {
            continue;
        }
        b.present |= (uint8_t) (1u << s);
        struct aie_inst * inst = &b.slot[s];
        if (from->slot[s].node < 0) {
            inst->op = (uint16_t) aie_isa_nop(p->isa, s);
            continue;
        }
        const struct asm_node * node = &p->nodes[from->slot[s].node];
        inst->op = from->slot[s].op;
        for (int k = 0; k < node->n_args; k++) {
            inst->values[k] = arg_value(p, &node->args[k]);
        }
    }
    int size = 0;
    enum status st = aie_bundle_encode(p->isa, &b, bytes, &size, err);
    return st != ST_OK ? error_prefix(err, "asm: bundle %d", index) : ST_OK;
}

enum status asm_finish(struct asm_program * p, struct asm_code * out, struct error * err) {
    for (int i = 0; i < p->n_items && p->misuse.status == ST_OK && !p->no_memory; i++) {
        lay_out_item(p, i);
    }
    for (int l = 0; l < p->n_labels; l++) {
        if (p->labels[l] < 0) {
            asm_misuse(p, "asm: label %d is used but never placed", l);
        }
    }
    size_t size = (size_t) p->n_bundles * BUNDLE_BYTES;
    if (size > PROGRAM_BYTES) {
        asm_misuse(p, "asm: the program has %d bundles, program memory holds %d", p->n_bundles,
                   PROGRAM_BYTES / BUNDLE_BYTES);
    }
    if (p->no_memory) {
        return error_set(err, ST_NO_MEMORY, "asm: out of memory");
    }
    if (p->misuse.status != ST_OK) {
        return error_set(err, p->misuse.status, "%s", p->misuse.text);
    }
    uint8_t * bytes = malloc(size ? size : 1);
    if (!bytes) {
        return error_set(err, ST_NO_MEMORY, "asm: out of memory");
    }
    enum status st = ST_OK;
    for (int i = 0; i < p->n_bundles && st == ST_OK; i++) {
        st = encode(p, i, bytes + (size_t) i * BUNDLE_BYTES, err);
    }
    if (st == ST_OK) {
        st = asm_check(p->arch, bytes, size, err);
    }
    if (st != ST_OK) {
        free(bytes);
        return st;
    }
    p->stats.bundles = p->n_bundles;
    *out = (struct asm_code) {bytes, size, p->stats};
    return ST_OK;
}
