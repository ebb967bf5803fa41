// asm/sched: list scheduling of one region, latency-exact, with register allocation on the way.
// The dependences come from deps.c.
//
// A local gets its physical register when its first writer issues and gives it back when its last
// reader has read and everything written has landed. Priority is the length of the critical path;
// when that runs out of registers the region is scheduled again with a smaller window in which
// instructions may overtake each other, down to the order of writing, whose pressure is the
// author's.
#include "deps.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CYCLES 4096

// An op that may carry a node, with all that placing asks of it: it is asked again and again.
struct carrier {
    const struct aie_instr * instr;
    uint16_t op;
    uint8_t slot, excludes; // bit per slot
    uint8_t n_landings;
    struct asm_landing landings[ASM_MAX_ARGS];
};

struct sched_node { // no more than what is looked at in every cycle
    int n_preds;
    int earliest;
    int height; // critical path to the end
    int cycle;  // -1 = not yet
};

struct carriers {
    struct carrier ops[2];
    uint8_t n;
    uint8_t placed; // the one that was
};

struct local {   // allocation state of a vreg within the region
    int refs;    // operand references not yet issued
    int free_at; // cycle from which its register may be given away
    int attempt; // that these are of
};

struct sched {
    struct asm_program * p;
    struct deps deps;
    int first, count;
    struct sched_node * nodes;
    struct carriers * carriers;
    struct local * locals;
    uint64_t busy[ASM_CLASS_COUNT];   // physical registers held by locals
    int release[ASM_CLASS_COUNT][64]; // cycle at which a register that was given back is free
    uint8_t ports[MAX_CYCLES + 64][AIE_SLOT_COUNT]; // landing results per slot: bit per file
    uint8_t taken;                                  // slots of this cycle, bit each
    int release_last;                               // the latest of `release`
    bool opened;                                    // a node that may go into this cycle
    int due;   // when the first of the nodes that wait for operands may issue, INT_MAX = none
    int next;  // cycle in which something may issue: until then there is nothing to look at
    int clear; // the first cycle of which they hold anything
    int cap_nodes, cap_locals; // that there is room for
    int * open;                // nodes of the window that wait for none, in the order of choice
    int n_open;                // placed ones are taken out later
    int * ready;               // scratch: nodes that could issue
    int oldest;                // first node that is not placed
    int window;                // how far behind it others may be taken
    int end;                   // of the window
    int attempt;               // number of it, from 1 on
};

static void compute_heights(struct sched * s) {
    for (int i = s->count - 1; i >= 0; i--) {
        int h = 0;
        for (int e = s->deps.nodes[i].first_out; e >= 0; e = s->deps.edges[e].next_out) {
            int via = s->nodes[s->deps.edges[e].to].height + s->deps.edges[e].latency;
            h = via > h ? via : h;
        }
        s->nodes[i].height = h + 1;
    }
}

static bool ports_free(const struct sched * s, const struct carrier * c, int cycle) {
    for (int k = 0; k < c->n_landings; k++) {
        if (s->ports[cycle + c->landings[k].cycle][c->slot] >> c->landings[k].file & 1) {
            return false;
        }
    }
    return true;
}

// Registers for the locals that node i writes first. Nothing is taken unless all are there.
static bool take_registers(struct sched * s, int i, int cycle) {
    const struct asm_node * n = &s->p->nodes[s->first + i];
    struct asm_vreg * taken[ASM_MAX_ARGS];
    int n_taken = 0;
    bool ok = true;
    for (unsigned left = n->locals; left && ok; left &= left - 1) {
        struct asm_vreg * v = &s->p->vregs[n->args[__builtin_ctz(left)].reg.id];
        if (v->phys >= 0) {
            continue;
        }
        uint64_t set = asm_class_set(s->p, v->cls) & ~s->p->global_taken[v->cls] & ~s->busy[v->cls];
        while (set && s->release[v->cls][__builtin_ctzll(set)] > cycle) {
            set &= set - 1;
        }
        ok = set != 0;
        if (ok) {
            v->phys = (int16_t) __builtin_ctzll(set);
            s->busy[v->cls] |= 1ull << v->phys;
            taken[n_taken++] = v;
        }
    }
    while (!ok && n_taken > 0) {
        struct asm_vreg * v = taken[--n_taken];
        s->busy[v->cls] &= ~(1ull << v->phys);
        v->phys = -1;
    }
    return ok;
}

static void give_back(struct sched * s, int i, const struct aie_instr * instr, int cycle) {
    const struct asm_node * n = &s->p->nodes[s->first + i];
    for (unsigned left = n->locals; left; left &= left - 1) {
        int k = __builtin_ctz(left), id = n->args[k].reg.id;
        struct asm_vreg * v = &s->p->vregs[id];
        struct local * l = &s->locals[id];
        int until = cycle + asm_settles(&instr->operands[k]);
        l->free_at = until > l->free_at ? until : l->free_at;
        if (--l->refs == 0) {
            s->busy[v->cls] &= ~(1ull << v->phys);
            s->release[v->cls][v->phys] = l->free_at;
            s->release_last = l->free_at > s->release_last ? l->free_at : s->release_last;
        }
    }
}

// Those first on whose end most waits, else in the order of writing.
static bool comes_before(const struct sched * s, int i, int j) {
    int by = s->nodes[i].height - s->nodes[j].height;
    return by ? by > 0 : i < j;
}

static void open_node(struct sched * s, int i) {
    int at = s->n_open++;
    for (; at > 0 && comes_before(s, i, s->open[at - 1]); at--) {
        s->open[at] = s->open[at - 1];
    }
    s->open[at] = i;
}

static bool place(struct sched * s, int base, int i, int which, int cycle) {
    const struct carrier * c = &s->carriers[i].ops[which];
    if ((s->taken & c->excludes) || !ports_free(s, c, cycle) || !take_registers(s, i, cycle)) {
        return false;
    }
    for (int k = 0; k < c->n_landings; k++) {
        s->ports[cycle + c->landings[k].cycle][c->slot] |= (uint8_t) (1u << c->landings[k].file);
    }
    s->taken |= (uint8_t) (1u << c->slot);
    asm_put(s->p, base + cycle, s->first + i, c->op);
    s->nodes[i].cycle = cycle;
    s->carriers[i].placed = (uint8_t) which;
    give_back(s, i, c->instr, cycle);
    for (int e = s->deps.nodes[i].first_out; e >= 0; e = s->deps.edges[e].next_out) {
        struct sched_node * to = &s->nodes[s->deps.edges[e].to];
        int at = cycle + s->deps.edges[e].latency;
        to->earliest = at > to->earliest ? at : to->earliest;
        if (--to->n_preds == 0 && s->deps.edges[e].to < s->end) {
            open_node(s, s->deps.edges[e].to);
            s->opened |= to->earliest <= cycle;
        }
    }
    return true;
}

static bool place_any(struct sched * s, int base, int i, int cycle) {
    for (int v = 0; v < s->carriers[i].n; v++) {
        if (place(s, base, i, v, cycle)) {
            return true;
        }
    }
    return false;
}

// The window, from the first node on that is not placed, with those that come into it.
static void move_window(struct sched * s, int cycle) {
    while (s->oldest < s->count && s->nodes[s->oldest].cycle >= 0) {
        s->oldest++;
    }
    for (; s->end < s->count && s->end < s->oldest + s->window; s->end++) {
        if (s->nodes[s->end].n_preds == 0) {
            open_node(s, s->end);
            s->opened |= s->nodes[s->end].earliest <= cycle;
        }
    }
}

// Nodes that could issue in this cycle.
static int collect_ready(struct sched * s, int cycle) {
    int n = 0, kept = 0;
    s->due = INT_MAX;
    for (int k = 0; k < s->n_open; k++) {
        int i = s->open[k];
        const struct sched_node * node = &s->nodes[i];
        bool left = node->cycle < 0, due = node->earliest <= cycle; // no branches: nobody foresees
        int later = (left & !due) ? node->earliest : INT_MAX;
        s->open[kept] = s->ready[n] = i;
        kept += left;
        n += left & due;
        s->due = later < s->due ? later : s->due;
    }
    s->n_open = kept;
    return n;
}

// The results that land from here on. The table is not much longer than what is looked at: most
// regions are short.
static void clear_ports(struct sched * s, int cycle) {
    enum { ALL = sizeof s->ports / sizeof s->ports[0], LONGEST = ALL - MAX_CYCLES };
    if (cycle + LONGEST > s->clear) {
        int end = cycle + 2 * LONGEST < ALL ? cycle + 2 * LONGEST : ALL;
        memset(s->ports[s->clear], 0, (size_t) (end - s->clear) * sizeof s->ports[0]);
        s->clear = end;
    }
}

// In a cycle in which nothing was placed: whether nothing is on its way that could change that, no
// operand, no register that becomes free, no result that takes a port until it has landed.
static bool is_stuck(const struct sched * s, int cycle) {
    bool waits = s->due < INT_MAX || s->release_last > cycle;
    for (int c = cycle + 1; c < s->clear && !waits; c++) {
        uint64_t ports;
        memcpy(&ports, s->ports[c], sizeof ports);
        waits = ports != 0;
    }
    return !waits;
}

// Places what can issue in this cycle; returns how many these are.
static int fill_bundle(struct sched * s, int base, int cycle) {
    int placed = 0, n = collect_ready(s, cycle);
    s->next = n > 0 ? cycle + 1 : s->due;
    s->taken = 0;
    while (n > 0) {
        s->opened = false;
        for (int k = 0; k < n; k++) {
            bool good = place_any(s, base, s->ready[k], cycle);
            placed += good;
            if (!good) {
                s->nodes[s->ready[k]].earliest = cycle + 1; // slot, port or register is missing
            }
        }
        move_window(s, cycle);
        n = s->opened ? collect_ready(s, cycle) : 0; // what was placed may let others in
    }
    return placed;
}

// One pass over the region; false when registers ran out.
static bool list_schedule(struct sched * s, int base) {
    int left = s->count;
    int idle = 0;
    for (int cycle = 0; left > 0; cycle++) {
        if (cycle >= MAX_CYCLES || idle > 16) { // longer than any latency: nothing will change
            return false;
        }
        idle++;
        clear_ports(s, cycle);
        if (asm_bundle_add(s->p) < 0) {
            return false;
        }
        int placed = cycle >= s->next ? fill_bundle(s, base, cycle) : 0;
        left -= placed;
        idle = placed ? 0 : idle;
        if (idle > 0 && left > 0 && is_stuck(s, cycle)) {
            return false;
        }
    }
    return true;
}

static void reset(struct sched * s, int base) {
    s->p->n_bundles = base;
    s->oldest = s->end = s->n_open = s->clear = s->release_last = s->next = 0;
    s->attempt++;
    memset(s->busy, 0, sizeof s->busy);
    memset(s->release, 0, sizeof s->release);
    for (int i = 0; i < s->count; i++) {
        s->nodes[i].n_preds = s->nodes[i].earliest = 0;
        s->nodes[i].cycle = -1;
        const struct asm_node * n = &s->p->nodes[s->first + i];
        for (unsigned left = n->locals; left; left &= left - 1) {
            int id = n->args[__builtin_ctz(left)].reg.id;
            struct local * l = &s->locals[id];
            if (l->attempt != s->attempt) { // a region names few of a program's registers
                *l = (struct local){.attempt = s->attempt};
                s->p->vregs[id].phys = -1;
            }
            l->refs++;
        }
    }
}

static bool try_schedule(struct sched * s, int base) {
    reset(s, base);
    for (int e = 0; e < s->deps.n_edges; e++) {
        s->nodes[s->deps.edges[e].to].n_preds++;
    }
    move_window(s, 0);
    return list_schedule(s, base);
}

static const struct aie_instr * placed_instr(const struct sched * s, int i) {
    return s->carriers[i].ops[s->carriers[i].placed].instr;
}

// Appends bundles until all results have landed and all late reads and writes are done.
static void drain(struct sched * s, int base, bool is_loop) {
    int end = s->p->n_bundles - base;
    bool store_last = false;
    for (int i = 0; i < s->count; i++) {
        int done = s->nodes[i].cycle + asm_drains(s->p->target, placed_instr(s, i));
        end = done > end ? done : end;
    }
    for (int i = 0; i < s->count; i++) {
        store_last |= s->nodes[i].cycle == end - 1 && placed_instr(s, i)->stores;
    }
    if (is_loop && store_last && !s->p->target->loop_end_stores) {
        end++; // a store in a loop's last bundle can be lost on silicon
    }
    asm_idle(s->p, base + end - s->p->n_bundles);
}

static void find_carriers(struct sched * s) {
    for (int i = 0; i < s->count; i++) {
        const struct asm_node * node = &s->p->nodes[s->first + i];
        struct carriers * all = &s->carriers[i];
        uint16_t ops[2];
        all->n = (uint8_t) asm_variants(s->p, node, ops);
        for (int v = 0; v < all->n; v++) {
            struct carrier * c = &all->ops[v];
            c->op = ops[v];
            c->instr = asm_instr(s->p, ops[v]);
            c->slot = (uint8_t) c->instr->slot;
            c->excludes = (uint8_t) asm_excludes(c->instr->slot);
            c->n_landings = (uint8_t) asm_landings(s->p, node, c->instr, c->landings);
        }
    }
}

static void release(struct sched * s) {
    free(s->nodes);
    free(s->carriers);
    free(s->ready);
    free(s->open);
    s->nodes = NULL;
    s->carriers = NULL;
    s->ready = s->open = NULL;
    s->cap_nodes = 0;
}

void asm_sched_free(struct sched * s) {
    if (s) {
        release(s);
        free(s->locals);
        deps_free(&s->deps);
        free(s);
    }
}

// The scheduler with room for the region, NULL without memory. Most of it is cleared where it is
// used (reset).
static struct sched * prepare(struct asm_program * p, const struct asm_item * region) {
    struct sched * s = p->sched = p->sched ? p->sched : calloc(1, sizeof *s);
    size_t n = (size_t) region->count + 1, n_locals = (size_t) p->n_vregs + 1;
    if (s && (int) n > s->cap_nodes) {
        release(s);
        s->nodes = malloc(n * sizeof *s->nodes);
        s->carriers = malloc(n * sizeof *s->carriers);
        s->ready = malloc(n * sizeof *s->ready);
        s->open = malloc(n * sizeof *s->open);
        s->cap_nodes = (int) n;
    }
    if (s && (int) n_locals > s->cap_locals) {
        free(s->locals);
        s->cap_locals = 2 * (int) n_locals; // loops make more of them
        s->locals = calloc((size_t) s->cap_locals, sizeof *s->locals);
    }
    p->no_memory |= !s || !s->nodes || !s->carriers || !s->ready || !s->open || !s->locals;
    return p->no_memory ? NULL : s;
}

bool asm_schedule_region(struct asm_program * p, struct asm_item * region, bool is_loop) {
    struct sched * s = prepare(p, region);
    if (!s) {
        return false;
    }
    int base = p->n_bundles;
    bool ok = false;
    s->p = p;
    s->first = region->first;
    s->count = region->count;
    if (deps_build(&s->deps, p, region, false)) {
        compute_heights(s);
        find_carriers(s);
        for (s->window = region->window ? region->window : region->count;
             !ok && s->window > 0 && p->misuse.status == ST_OK; s->window = s->window * 2 / 3) {
            ok = try_schedule(s, base);
            region->window = s->window; // laid out again, it starts from there
        }
    }
    if (!ok && !p->no_memory) {
        asm_misuse(p, "asm: a region of %d instructions needs more registers than there are",
                   region->count);
    }
    if (ok) {
        drain(s, base, is_loop);
        asm_trace_schedule(p, region, base);
    }
    return ok && !p->no_memory;
}
