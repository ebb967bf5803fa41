// asm/emit: lays the items of a program out as bundles, resolves labels and encodes.
#include "program.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

int asm_take_globals(struct asm_program * p, int i) {
    int until = INT_MAX;
    memset(p->global_taken, 0, sizeof p->global_taken);
    for (int g = 0; g < p->n_globals; g++) {
        const struct asm_vreg * v = &p->vregs[p->globals[g]];
        if (v->phys >= 0 && i >= v->from && i < v->until) {
            p->global_taken[v->cls] |= 1ull << v->phys;
        }
        int next = i < v->from ? v->from : i < v->until ? v->until : INT_MAX;
        until = next < until ? next : until;
    }
    return until;
}

// ---- locks ----

// Between memory traffic and a lock operation a margin is kept, either way. Whatever touches no
// memory may stand in it; of a path that comes by a jump nothing is known but the jump itself.
static bool touches_memory(const struct asm_program * p, int bundle) {
    const struct asm_bundle * b = &p->bundles[bundle];
    bool found = false;
    for (unsigned left = b->present; left; left &= left - 1) {
        const struct aie_instr * instr = asm_instr(p, b->op[__builtin_ctz(left)]);
        found |= instr->loads || instr->stores;
    }
    return found;
}

static void lay_out_lock(struct asm_program * p, int node) {
    asm_idle(p, p->target->lock_margin - (p->n_bundles - p->quiet_from));
    asm_alone(p, node);
    p->memory_from = p->n_bundles + p->target->lock_margin;
}

static void lay_out_region(struct asm_program * p, struct asm_item * item) {
    int from = p->n_bundles, last = from - 1;
    asm_schedule_region(p, item, false);
    while (from < p->n_bundles && from < p->memory_from && !touches_memory(p, from)) {
        from++;
    }
    if (from < p->n_bundles && from < p->memory_from) {
        asm_insert(p, last + 1, p->memory_from - from);
    }
    for (int b = p->n_bundles - 1; b > last && p->quiet_from <= last + 1; b--) {
        p->quiet_from = touches_memory(p, b) ? b + 1 : p->quiet_from;
    }
}

static void lay_out_jump(struct asm_program * p, int node) {
    int away = p->n_bundles + 1 + p->target->delay_slots;
    asm_idle(p, p->memory_from - away);
    asm_alone(p, node);
    asm_idle(p, p->target->delay_slots);
}

static void lay_out_label(struct asm_program * p, int label) {
    int jumped = p->n_bundles - 1 - p->target->delay_slots;
    p->labels[label] = p->n_bundles;
    p->quiet_from = p->quiet_from > jumped ? p->quiet_from : jumped;
}

static void lay_out_item(struct asm_program * p, int i) {
    struct asm_item * item = &p->items[i];
    enum asm_item_kind before = i > 0 ? p->items[i - 1].kind : ASM_ITEM_LABEL;
    enum asm_item_kind after = i + 1 < p->n_items ? p->items[i + 1].kind : ASM_ITEM_LABEL;
    switch (item->kind) {
    case ASM_ITEM_REGION:
        if (before != ASM_ITEM_LOOP) { // else the loop has laid it out
            lay_out_region(p, item);
        }
        break;
    case ASM_ITEM_LABEL:
        lay_out_label(p, item->label);
        break;
    case ASM_ITEM_JUMP:
        lay_out_jump(p, item->first);
        break;
    case ASM_ITEM_LOCK:
        lay_out_lock(p, item->first);
        break;
    case ASM_ITEM_LOOP:
        asm_idle(p, p->memory_from - p->n_bundles);
        if (after == ASM_ITEM_REGION) { // else it was misused
            asm_lay_out_loop(p, item, &p->items[i + 1]);
        }
        p->quiet_from = p->n_bundles;
        break;
    case ASM_ITEM_LOOP_END:
        break;
    }
}

// Bundles to bytes. Many instructions stand in several of them: what leads into a loop and out of
// it is made of those of the loop.
struct encoder {
    const struct asm_program * p;
    struct encoded { // by node
        uint64_t word;
        uint16_t op;
        bool known;
    } * nodes;
    struct run { // registers of a class, or one of their parts
        aie_reg first;
        uint16_t step;
    } runs[ASM_CLASS_COUNT][1 + ASM_MAX_PARTS]; // whole ones first
};

static void find_runs(struct encoder * e) {
    const struct aie_target * t = e->p->target;
    for (int cls = 0; cls < ASM_CLASS_COUNT; cls++) {
        for (int part = -1; part < ASM_MAX_PARTS; part++) {
            aie_reg first = asm_phys(t, (enum asm_class) cls, 0, part),
                    second = asm_phys(t, (enum asm_class) cls, 1, part);
            e->runs[cls][1 + part] = (struct run){first, (uint16_t) (second - first)};
        }
    }
}

static int32_t arg_value(const struct encoder * e, const struct asm_arg * a) {
    const struct asm_program * p = e->p;
    switch (a->kind) {
    case ASM_ARG_REG: {
        const struct asm_vreg * v = &p->vregs[a->reg.id];
        const struct run * run = &e->runs[v->cls][1 + a->reg.part];
        return run->first + v->phys * run->step;
    }
    case ASM_ARG_LABEL:
        return p->addresses[p->labels[a->value]];
    default:
        return a->value;
    }
}

static enum status encode_node(struct encoder * e, int index, uint16_t op, uint64_t * word,
                               struct error * err) {
    const struct asm_node * node = &e->p->nodes[index];
    struct encoded * known = &e->nodes[index];
    if (!known->known || known->op != op) {
        struct aie_inst inst; // of which values beyond those of the node are not looked at
        inst.op = op;
        for (int k = 0; k < node->n_args; k++) {
            inst.values[k] = arg_value(e, &node->args[k]);
        }
        enum status st = aie_slot_encode(e->p->isa, &inst, &known->word, err);
        if (st != ST_OK) {
            return st;
        }
        known->op = op;
        known->known = true;
    }
    *word = known->word;
    return ST_OK;
}

// Writes AIE_MAX_BUNDLE_BYTES; those beyond its size are the next one's.
static enum status encode(struct encoder * e, int index, uint8_t * to, struct error * err) {
    const struct asm_program * p = e->p;
    const struct asm_bundle * b = &p->bundles[index];
    struct aie_words words; // of which what is not present is not looked at
    int size;
    enum status st = ST_OK;
    words.size = p->sizes[index];
    words.present = b->present & (uint8_t) ~(1u << AIE_SLOT_NOP);
    for (unsigned left = words.present; left && st == ST_OK; left &= left - 1) {
        int slot = __builtin_ctz(left);
        st = encode_node(e, b->node[slot], b->op[slot], &words.word[slot], err);
    }
    st = st == ST_OK ? aie_bundle_join(p->isa, &words, to, &size, err) : st;
    return st == ST_OK ? ST_OK : error_prefix(err, st, "asm: bundle %d", index);
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

// How far memory traffic and locks are from here, as far as that matters.
struct margin {
    int quiet; // bundles without traffic that end here
    int due;   // that are to come before there may be any
};

static struct margin margin_here(const struct asm_program * p) {
    int quiet = p->n_bundles - p->quiet_from, due = p->memory_from - p->n_bundles;
    return (struct margin){quiet < p->target->lock_margin ? quiet : p->target->lock_margin,
                           due > 0 ? due : 0};
}

// An item as it was laid out.
struct laid {
    int first, end;             // bundles
    int first_label, end_label; // that it made
    bool plain;                 // as the item was then
    struct margin before, after;
};

static void lay_out_anew(struct asm_program * p, int i, struct laid * l) {
    l->before = margin_here(p);
    l->first = p->n_bundles;
    l->first_label = p->n_labels;
    l->plain = p->items[i].plain;
    lay_out_item(p, i);
    l->end = p->n_bundles;
    l->end_label = p->n_labels;
    l->after = margin_here(p);
}

static bool is_as_before(const struct asm_program * p, int i, const struct laid * l) {
    struct margin now = margin_here(p);
    return l->plain == p->items[i].plain && l->before.quiet == now.quiet &&
           l->before.due == now.due;
}

// The item as it was laid out before, `old` being the bundles of that time, where it now begins.
static void keep(struct asm_program * p, int i, struct laid * l, const struct asm_bundle * old) {
    const struct asm_item * item = &p->items[i];
    int by = p->n_bundles - l->first, *loops = &p->stats.n_loops;
    asm_append(p, old + l->first, l->end - l->first);
    p->quiet_from = p->n_bundles - l->after.quiet;
    p->memory_from = p->n_bundles + l->after.due;
    l->first += by;
    l->end += by;
    for (int label = l->first_label; label < l->end_label; label++) {
        p->labels[label] += by;
    }
    if (item->kind == ASM_ITEM_LABEL || item->kind == ASM_ITEM_LOOP) {
        p->labels[item->label] += by;
    }
    if (item->kind == ASM_ITEM_LOOP) {
        p->labels[item->label_end] += by;
        if (item->flow) {
            item->flow->first += by;
        }
        if (*loops < ASM_STATS_LOOPS) { // what was reported of it stays
            p->loop_spans[*loops].first += by;
            p->loop_spans[(*loops)++].end += by;
        }
    }
}

// All items, or, where they have been laid out before, those that have become plain since and those
// behind them that now stand nearer to a lock or to memory traffic, or further away.
static void lay_out_all(struct asm_program * p, struct laid * laid, bool again) {
    struct asm_bundle * old = p->bundles;
    const int n_globals = p->n_globals;
    p->bundles = NULL;
    p->n_bundles = p->cap_bundles = 0;
    p->quiet_from = p->memory_from = 0;
    p->stats.n_loops = 0;
    for (int i = 0, until = 0; i < p->n_items && p->misuse.status == ST_OK && !p->no_memory; i++) {
        if (i >= until) {
            until = asm_take_globals(p, i);
        }
        if (again && is_as_before(p, i, &laid[i])) {
            keep(p, i, &laid[i], old);
        } else {
            lay_out_anew(p, i, &laid[i]);
            p->n_globals = n_globals; // those of loops are over
        }
    }
    free(old);
}

static void lay_out(struct asm_program * p) {
    struct laid * laid = malloc(((size_t) p->n_items + 1) * sizeof *laid);
    p->no_memory |= !laid;
    for (int i = 0; i < p->n_items; i++) {
        p->items[i].plain |= p->keep_small;
    }
    bool again = false;
    do {
        lay_out_all(p, laid, again);
        again = true;
    } while (p->misuse.status == ST_OK && !p->no_memory && make_smaller(p));
    free(laid);
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

static enum status check(const struct asm_program * p, const uint8_t * bytes, size_t size,
                         struct error * err) {
    const struct asm_flow ** flows = malloc(((size_t) p->n_items + 1) * sizeof *flows);
    int n = 0;
    if (!flows) {
        return error_set(err, ST_NO_MEMORY, "asm: out of memory");
    }
    for (int i = 0; i < p->n_items; i++) {
        if (p->items[i].flow) {
            flows[n++] = p->items[i].flow;
        }
    }
    enum status st = asm_check_flows(p->target->arch, bytes, size, flows, n, err);
    free(flows);
    return st;
}

// What is wrong with the program as it was laid out, if anything is.
static enum status look_over(struct asm_program * p, size_t size, struct error * err) {
    for (int l = 0; l < p->n_labels; l++) {
        if (p->labels[l] < 0) {
            asm_misuse(p, "asm: label %d is used but never placed", l);
        }
    }
    if (size > p->target->program_bytes) {
        asm_misuse(p, "asm: the program has %zu bytes, program memory holds %d", size,
                   (int) p->target->program_bytes);
    }
    if (p->no_memory) {
        return error_set(err, ST_NO_MEMORY, "asm: out of memory");
    }
    return p->misuse.status != ST_OK ? error_set(err, p->misuse.status, "%s", p->misuse.text)
                                     : ST_OK;
}

static enum status encode_all(struct asm_program * p, uint8_t * bytes, size_t size,
                              struct error * err) {
    struct encoder encoder = {.p = p};
    encoder.nodes = calloc((size_t) p->n_nodes + 1, sizeof *encoder.nodes);
    find_runs(&encoder);
    enum status st = ST_OK;
    if (!bytes || !encoder.nodes) {
        st = error_set(err, ST_NO_MEMORY, "asm: out of memory");
    }
    for (int i = 0; i < p->n_bundles && st == ST_OK; i++) {
        st = encode(&encoder, i, bytes + p->addresses[i], err);
    }
    free(encoder.nodes);
    if (st == ST_OK) {
        asm_trace_bytes(p, bytes, size);
        st = p->no_memory ? error_set(err, ST_NO_MEMORY, "asm: out of memory")
                          : check(p, bytes, size, err);
    }
    return st;
}

enum status asm_finish(struct asm_program * p, struct asm_code * out, struct error * err) {
    if (!p->ready) {
        asm_rematerialise(p);
        asm_park(p);
        asm_split_live_ranges(p);
    }
    asm_spill(p);
    asm_trace_built(p);
    if (p->placed) {
        asm_size(p);
    } else {
        lay_out(p);
    }
    asm_trace_laid_out(p);
    size_t size = p->addresses ? (size_t) p->addresses[p->n_bundles] : 0;
    enum status st = look_over(p, size, err);
    if (st != ST_OK) {
        return st;
    }
    uint8_t * bytes = malloc(size + AIE_MAX_BUNDLE_BYTES);
    st = encode_all(p, bytes, size, err);
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
