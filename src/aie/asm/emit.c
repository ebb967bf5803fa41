// asm/emit: lays the items of a program out as bundles, resolves labels and encodes.
#include "program.h"

#include <stdlib.h>
#include <string.h>

void asm_take_globals(struct asm_program * p, int i) {
    memset(p->global_taken, 0, sizeof p->global_taken);
    for (int g = 0; g < p->n_globals; g++) {
        const struct asm_vreg * v = &p->vregs[p->globals[g]];
        if (v->phys >= 0 && i >= v->from && i < v->until) {
            p->global_taken[v->cls] |= 1ull << v->phys;
        }
    }
}

static void lay_out_item(struct asm_program * p, int i) {
    struct asm_item * item = &p->items[i];
    enum asm_item_kind before = i > 0 ? p->items[i - 1].kind : ASM_ITEM_LABEL;
    enum asm_item_kind after = i + 1 < p->n_items ? p->items[i + 1].kind : ASM_ITEM_LABEL;
    switch (item->kind) {
    case ASM_ITEM_REGION:
        if (before != ASM_ITEM_LOOP) { // else the loop has laid it out
            asm_schedule(p, item, false);
        }
        break;
    case ASM_ITEM_LABEL:
        p->labels[item->label] = p->n_bundles;
        break;
    case ASM_ITEM_JUMP:
        asm_alone(p, item->first);
        asm_idle(p, p->target->delay_slots);
        break;
    case ASM_ITEM_LOCK:
        asm_idle(p, before == ASM_ITEM_LOCK ? 0 : p->target->lock_margin);
        asm_alone(p, item->first);
        asm_idle(p, after == ASM_ITEM_LOCK ? 0 : p->target->lock_margin);
        break;
    case ASM_ITEM_LOOP:
        if (after == ASM_ITEM_REGION) { // else it was misused
            asm_lay_out_loop(p, item, &p->items[i + 1]);
        }
        break;
    case ASM_ITEM_LOOP_END:
        break;
    }
}

static int32_t arg_value(const struct asm_program * p, const struct asm_arg * a) {
    switch (a->kind) {
    case ASM_ARG_REG: {
        const struct asm_vreg * v = &p->vregs[a->reg.id];
        return asm_phys(p->target, v->cls, v->phys, a->reg.part);
    }
    case ASM_ARG_LABEL:
        return p->addresses[p->labels[a->value]];
    default:
        return a->value;
    }
}

static enum status encode(const struct asm_program * p, int index, uint8_t * to,
                          struct error * err) {
    const struct asm_bundle * from = &p->bundles[index];
    struct aie_bundle b = {.size = p->sizes[index]};
    uint8_t bytes[AIE_MAX_BUNDLE_BYTES];
    for (int s = 0; s < AIE_SLOT_NOP; s++) {
        if (from->slot[s].node < 0) {
            continue;
        }
        const struct asm_node * node = &p->nodes[from->slot[s].node];
        struct aie_inst * inst = &b.slot[s];
        b.present |= (uint8_t) (1u << s);
        inst->op = from->slot[s].op;
        for (int k = 0; k < node->n_args; k++) {
            inst->values[k] = arg_value(p, &node->args[k]);
        }
    }
    int size = 0;
    enum status st = aie_bundle_encode(p->isa, &b, bytes, &size, err);
    if (st != ST_OK) {
        return error_prefix(err, st, "asm: bundle %d", index);
    }
    memcpy(to, bytes, (size_t) size);
    return ST_OK;
}

// Pipelined loops go back to the plain form until the program fits: the smallest that is enough, or
// else the largest, and so on. Their sizes add up, so one look at them will do; false when all are
// plain already.
static bool make_smaller(struct asm_program * p) {
    int bytes = asm_size(p) ? p->addresses[p->n_bundles] : 0, most = (int) p->target->program_bytes;
    // in bundles of the program's mean size
    int excess = bytes > most ? (bytes - most) * p->n_bundles / bytes + 1 : 0;
    bool any = false;
    while (excess > 0) {
        struct asm_item * drop = NULL;
        for (int i = 0; i < p->n_items; i++) {
            struct asm_item * item = &p->items[i];
            bool larger = !drop || item->extra > drop->extra;
            if (item->extra > 0 &&
                (larger ? !drop || drop->extra < excess : item->extra >= excess)) {
                drop = item;
            }
        }
        if (!drop) {
            break;
        }
        excess -= drop->extra;
        drop->extra = 0;
        drop->plain = any = true;
    }
    return any;
}

static void lay_out(struct asm_program * p) {
    const struct asm_program written = *p; // what laying out adds is taken back by these counts
    do {
        p->n_nodes = written.n_nodes;
        p->n_vregs = written.n_vregs;
        p->n_labels = written.n_labels;
        p->n_bundles = 0;
        p->stats = (struct asm_stats){0};
        for (int i = 0; i < p->n_items && p->misuse.status == ST_OK && !p->no_memory; i++) {
            p->items[i].plain |= p->keep_small;
            p->n_globals = written.n_globals; // those of loops are over
            asm_take_globals(p, i);
            lay_out_item(p, i);
        }
    } while (p->misuse.status == ST_OK && !p->no_memory && make_smaller(p));
}

static _Thread_local asm_watch_fn watch_fn;
static _Thread_local void * watch_user;

void asm_watch(asm_watch_fn watch, void * user) {
    watch_fn = watch;
    watch_user = user;
}

bool asm_is_watched(void) {
    return watch_fn != NULL;
}

enum status asm_finish(struct asm_program * p, struct asm_code * out, struct error * err) {
    if (!p->ready) {
        asm_load_again(p);
        asm_hand_on(p);
    }
    asm_spill(p);
    asm_trace_built(p);
    if (p->placed) {
        asm_size(p);
    } else {
        lay_out(p);
    }
    asm_trace_laid_out(p);
    for (int l = 0; l < p->n_labels; l++) {
        if (p->labels[l] < 0) {
            asm_misuse(p, "asm: label %d is used but never placed", l);
        }
    }
    size_t size = p->addresses ? (size_t) p->addresses[p->n_bundles] : 0;
    if (size > p->target->program_bytes) {
        asm_misuse(p, "asm: the program has %zu bytes, program memory holds %d", size,
                   (int) p->target->program_bytes);
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
        st = encode(p, i, bytes + p->addresses[i], err);
    }
    if (st == ST_OK) {
        asm_trace_bytes(p, bytes, size);
        st = asm_check(p->target->arch, bytes, size, err);
    }
    if (st != ST_OK) {
        free(bytes);
        return st;
    }
    p->stats.bundles = p->n_bundles;
    for (int i = 0; i < p->stats.n_loops; i++) {
        p->stats.loop_bytes[i] =
            p->addresses[p->loop_spans[i].end] - p->addresses[p->loop_spans[i].first];
    }
    *out = (struct asm_code){bytes, size, p->stats};
    if (watch_fn) {
        watch_fn(watch_user, out);
    }
    return ST_OK;
}
