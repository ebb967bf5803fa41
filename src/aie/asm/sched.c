// asm/sched: list scheduling of one region, latency-exact, with register allocation on the way.
//
// Dependences come from the ISA table's operand cycles. A result issued at t with def cycle D is
// visible to reads from t+D on; a source with use cycle U is read at t+U-1; so a consumer waits
// D-U+1 bundles, one less when both ends share a bypass. A register is only rewritten once its last
// reader has read: no read ever meets a write in flight, which is what asm_check() insists on.
//
// A local gets its physical register when its first writer issues and gives it back when its last
// reader has read and everything written has landed. Priority is the length of the critical path;
// when that runs out of registers the region is scheduled again with a smaller window in which
// instructions may overtake each other, down to the order of writing, whose pressure is the author's.
#include "program.h"

#include "aie/isa/aie2.h"

#include <stdlib.h>
#include <string.h>

#define MAX_CYCLES 4096

// Instructions that exist in more than one slot: any of them may carry the node. The operands are
// the same in the same order; one whose immediate field is too narrow is passed over.
static const uint16_t alternatives[][2] = {
    {AIE2_VLDA_dmw_lda_w_ag_pstm_nrm_imm, AIE2_VLDB_dmw_ldb_ag_pstm_nrm_imm},
    {AIE2_VLDA_dmw_lda_w_ag_idx_imm, AIE2_VLDB_dmw_ldb_ag_idx_imm},
};

struct edge {
    int to, next;
    int16_t distance;
};

struct sched_node {
    int first_edge;
    int n_preds;
    int earliest;
    int height; // critical path to the end
    int cycle;  // -1 = not yet
    uint16_t op;
};

// Who wrote and who read each half of each virtual register since.
struct track {
    int writer;       // node, -1 = none in this region
    int first_reader; // index into readers
};

struct reader {
    int node, operand, next;
};

struct local { // allocation state of a vreg within the region
    int refs;    // operand references not yet issued
    int free_at; // cycle from which its register may be given away
};

struct sched {
    struct asm_program * p;
    int first, count;
    struct sched_node * nodes;
    struct edge * edges;
    int n_edges, cap_edges;
    struct track (*tracks)[2];
    struct reader * readers;
    int n_readers, cap_readers;
    struct local * locals;
    uint64_t busy[ASM_CLASS_COUNT];       // physical registers held by locals
    int release[ASM_CLASS_COUNT][64];     // cycle at which a register that was given back is free
    uint8_t ports[MAX_CYCLES + 64][AIE_SLOT_COUNT]; // landing results per slot, by register file
    int oldest; // first node that is not placed
    int window; // how far behind it others may be taken
};

static const struct aie_instr * instr_of(const struct sched * s, int i) {
    return aie_isa_instr(s->p->isa, s->p->nodes[s->first + i].op);
}

static void add_edge(struct sched * s, int from, int to, int distance) {
    if (from == to || !asm_grow(s->p, (void **) &s->edges, &s->cap_edges, s->n_edges, sizeof *s->edges)) {
        return;
    }
    if (distance < 0) {
        distance = 0;
    }
    s->edges[s->n_edges] = (struct edge) {to, s->nodes[from].first_edge, (int16_t) distance};
    s->nodes[from].first_edge = s->n_edges++;
    s->nodes[to].n_preds++;
}

static int raw_distance(const struct aie_operand * def, const struct aie_operand * use) {
    int d = def->def_cycle - use->use_cycle + 1;
    // AIE_BYPASS_MOV_LOW depends on the register, which has no number yet: counted as none.
    if ((def->def_bypass == AIE_BYPASS_MOV || def->def_bypass == AIE_BYPASS_VEC) &&
        def->def_bypass == use->use_bypass) {
        d--;
    }
    return d < 1 ? 1 : d; // a consumer never issues with or before its producer
}

// The operand of node i that writes the given half of vreg id.
static const struct aie_operand * def_operand(const struct sched * s, int i, int id, int part) {
    const struct asm_node * n = &s->p->nodes[s->first + i];
    const struct aie_instr * instr = instr_of(s, i);
    for (int k = 0; k < n->n_args; k++) {
        const struct asm_arg * a = &n->args[k];
        if (a->kind == ASM_ARG_REG && a->reg.id == id && (instr->operands[k].role & AIE_DEF) &&
            (a->reg.part < 0 || a->reg.part == part)) {
            return &instr->operands[k];
        }
    }
    return NULL;
}

static void note_use(struct sched * s, int i, int k, int id, int part) {
    struct track * t = &s->tracks[id][part];
    const struct aie_operand * use = &instr_of(s, i)->operands[k];
    if (t->writer >= 0) {
        add_edge(s, t->writer, i, raw_distance(def_operand(s, t->writer, id, part), use));
    } else if (!s->p->vregs[id].global && s->tracks[id][!part].writer < 0) {
        // half a register may stay unwritten: the lanes above are carried along and never stored
        asm_misuse(s->p, "asm: %s reads a local register that nothing wrote", instr_of(s, i)->name);
    }
    if (asm_grow(s->p, (void **) &s->readers, &s->cap_readers, s->n_readers, sizeof *s->readers)) {
        s->readers[s->n_readers] = (struct reader) {i, k, t->first_reader};
        t->first_reader = s->n_readers++;
    }
}

static void note_def(struct sched * s, int i, int k, int id, int part) {
    struct track * t = &s->tracks[id][part];
    const struct aie_operand * def = &instr_of(s, i)->operands[k];
    for (int r = t->first_reader; r >= 0; r = s->readers[r].next) {
        const struct aie_operand * use =
            &instr_of(s, s->readers[r].node)->operands[s->readers[r].operand];
        add_edge(s, s->readers[r].node, i, use->use_cycle - 1);
    }
    if (t->writer >= 0) {
        const struct aie_operand * before = def_operand(s, t->writer, id, part);
        int d = before->def_cycle - def->def_cycle + 1;
        add_edge(s, t->writer, i, d < 1 ? 1 : d);
    }
    t->writer = i;
    t->first_reader = -1;
}

static void build_register_edges(struct sched * s) {
    for (int i = 0; i < s->count; i++) {
        const struct asm_node * n = &s->p->nodes[s->first + i];
        const struct aie_instr * instr = instr_of(s, i);
        for (int role = AIE_USE; role >= AIE_DEF; role--) { // uses first: a def kills the old value
            for (int k = 0; k < n->n_args; k++) {
                const struct asm_arg * a = &n->args[k];
                if (a->kind != ASM_ARG_REG || !(instr->operands[k].role & role)) {
                    continue;
                }
                for (int part = 0; part < 2; part++) {
                    if (a->reg.part >= 0 && a->reg.part != part) {
                        continue;
                    }
                    if (role == AIE_USE) {
                        note_use(s, i, k, a->reg.id, part);
                    } else {
                        note_def(s, i, k, a->reg.id, part);
                    }
                }
            }
        }
    }
}

// Registers that an instruction names outside the virtual ones (control registers, fixed operands):
// rare enough to compare all pairs. Status flags are written by nearly everything and read by
// nothing that we emit, so they order nothing.
static int fixed_regs(const struct sched * s, int i, int role, aie_reg out[AIE_MAX_OPERANDS]) {
    const struct asm_node * n = &s->p->nodes[s->first + i];
    const struct aie_instr * instr = instr_of(s, i);
    int count = 0;
    for (int k = 0; k < instr->n_operands; k++) {
        aie_reg reg = k < n->n_args ? (n->args[k].kind == ASM_ARG_FIXED ? (aie_reg) n->args[k].value : 0)
                                    : instr->operands[k].fixed;
        if (reg && AIE_REG_KIND(reg) != AIE_SR && (instr->operands[k].role & role)) {
            out[count++] = reg;
        }
    }
    return count;
}

static bool share(const aie_reg * a, int na, const aie_reg * b, int nb) {
    for (int i = 0; i < na; i++) {
        for (int j = 0; j < nb; j++) {
            if (a[i] == b[j]) {
                return true;
            }
        }
    }
    return false;
}

static void build_other_edges(struct sched * s) {
    for (int j = 0; j < s->count; j++) {
        aie_reg def[AIE_MAX_OPERANDS], use[AIE_MAX_OPERANDS];
        int n_def = fixed_regs(s, j, AIE_DEF, def), n_use = fixed_regs(s, j, AIE_USE, use);
        const struct aie_instr * b = instr_of(s, j);
        for (int i = 0; i < j; i++) {
            const struct aie_instr * a = instr_of(s, i);
            if (n_def || n_use) {
                aie_reg def_i[AIE_MAX_OPERANDS], use_i[AIE_MAX_OPERANDS];
                int n_def_i = fixed_regs(s, i, AIE_DEF, def_i);
                int n_use_i = fixed_regs(s, i, AIE_USE, use_i);
                if (share(def_i, n_def_i, use, n_use) || share(def_i, n_def_i, def, n_def) ||
                    share(use_i, n_use_i, def, n_def)) {
                    add_edge(s, i, j, 8); // beyond any control register's latency
                }
            }
            bool same = s->p->nodes[s->first + i].memory == s->p->nodes[s->first + j].memory;
            if (same && (a->stores || a->loads) && (b->stores || b->loads) && (a->stores || b->stores)) {
                int d = a->mem_cycle - b->mem_cycle + 1;
                add_edge(s, i, j, d < 1 ? 1 : d);
            }
        }
    }
}

static void compute_heights(struct sched * s) {
    for (int i = s->count - 1; i >= 0; i--) {
        int h = 0;
        for (int e = s->nodes[i].first_edge; e >= 0; e = s->edges[e].next) {
            int via = s->nodes[s->edges[e].to].height + s->edges[e].distance;
            h = via > h ? via : h;
        }
        s->nodes[i].height = h + 1;
    }
}

// Register files have one write port per slot: results of different latency must not land together.
static int port_file(aie_reg reg_kind_of) {
    switch (AIE_REG_KIND(reg_kind_of)) {
    case AIE_W:
    case AIE_X:
        return 2;
    case AIE_AM:
    case AIE_BM:
    case AIE_CM:
        return 4;
    default:
        return 1;
    }
}

static bool ports_free(struct sched * s, int i, const struct aie_instr * instr, int cycle, bool take) {
    const struct asm_node * n = &s->p->nodes[s->first + i];
    for (int k = 0; k < n->n_args; k++) {
        if (!(instr->operands[k].role & AIE_DEF) || n->args[k].kind != ASM_ARG_REG) {
            continue;
        }
        enum asm_class cls = s->p->vregs[n->args[k].reg.id].cls;
        if (cls == ASM_P && instr->n_explicit > 1 && (instr->operands[k].role & AIE_USE)) {
            continue; // a post-modified pointer has its own port in the address generator
        }
        uint8_t file = (uint8_t) port_file(asm_phys(cls, 0, n->args[k].reg.part));
        uint8_t * port = &s->ports[cycle + instr->operands[k].def_cycle][instr->slot];
        if (*port & file) {
            return false;
        }
        if (take) {
            *port |= file;
        }
    }
    return true;
}

// Finds registers for the locals that node i writes first. Nothing is taken unless all are there.
static bool registers_free(struct sched * s, int i, int cycle, bool take) {
    const struct asm_node * n = &s->p->nodes[s->first + i];
    uint64_t wanted[ASM_CLASS_COUNT] = {0};
    for (int k = 0; k < n->n_args; k++) {
        if (n->args[k].kind != ASM_ARG_REG) {
            continue;
        }
        struct asm_vreg * v = &s->p->vregs[n->args[k].reg.id];
        if (v->phys >= 0) {
            continue;
        }
        uint64_t set = asm_class_set(v->cls) & ~s->p->global_taken[v->cls] & ~s->busy[v->cls] &
                       ~wanted[v->cls];
        int pick = -1;
        for (; set; set &= set - 1) {
            int r = __builtin_ctzll(set);
            if (s->release[v->cls][r] <= cycle) {
                pick = r;
                break;
            }
        }
        if (pick < 0) {
            return false;
        }
        wanted[v->cls] |= 1ull << pick;
        if (take) {
            v->phys = (int16_t) pick;
            s->busy[v->cls] |= 1ull << pick;
        }
    }
    return true;
}

static void give_back(struct sched * s, int i, const struct aie_instr * instr, int cycle) {
    const struct asm_node * n = &s->p->nodes[s->first + i];
    for (int k = 0; k < n->n_args; k++) {
        if (n->args[k].kind != ASM_ARG_REG) {
            continue;
        }
        int id = n->args[k].reg.id;
        struct asm_vreg * v = &s->p->vregs[id];
        struct local * l = &s->locals[id];
        int until = (instr->operands[k].role & AIE_DEF) ? cycle + instr->operands[k].def_cycle
                                                        : cycle + instr->operands[k].use_cycle - 1;
        l->free_at = until > l->free_at ? until : l->free_at;
        if (--l->refs == 0 && !v->global) {
            s->busy[v->cls] &= ~(1ull << v->phys);
            s->release[v->cls][v->phys] = l->free_at;
        }
    }
}

static bool place(struct sched * s, int base, int i, int op, int cycle) {
    const struct aie_instr * instr = aie_isa_instr(s->p->isa, op);
    while (base + cycle >= s->p->n_bundles) {
        if (asm_bundle_add(s->p) < 0) {
            return false;
        }
    }
    struct asm_slot * slots = s->p->bundles[base + cycle].slot;
    bool lng = instr->slot == AIE_SLOT_LNG;
    bool alu_or_mv = instr->slot == AIE_SLOT_ALU || instr->slot == AIE_SLOT_MV;
    if (slots[instr->slot].node >= 0 ||
        (lng && (slots[AIE_SLOT_ALU].node >= 0 || slots[AIE_SLOT_MV].node >= 0)) ||
        (alu_or_mv && slots[AIE_SLOT_LNG].node >= 0)) {
        return false;
    }
    if (!ports_free(s, i, instr, cycle, false) || !registers_free(s, i, cycle, false)) {
        return false;
    }
    ports_free(s, i, instr, cycle, true);
    registers_free(s, i, cycle, true);
    slots[instr->slot] = (struct asm_slot) {.node = s->first + i, .op = (uint16_t) op};
    s->nodes[i].cycle = cycle;
    s->nodes[i].op = (uint16_t) op;
    give_back(s, i, instr, cycle);
    for (int e = s->nodes[i].first_edge; e >= 0; e = s->edges[e].next) {
        struct sched_node * to = &s->nodes[s->edges[e].to];
        int at = cycle + s->edges[e].distance;
        to->earliest = at > to->earliest ? at : to->earliest;
        to->n_preds--;
    }
    return true;
}

static bool immediates_fit(const struct sched * s, int i, int op) {
    const struct asm_node * n = &s->p->nodes[s->first + i];
    for (int k = 0; k < n->n_args; k++) {
        if (n->args[k].kind == ASM_ARG_IMM && !aie_operand_fits(s->p->isa, op, k, n->args[k].value)) {
            return false;
        }
    }
    return true;
}

static bool place_any(struct sched * s, int base, int i, int cycle) {
    int op = s->p->nodes[s->first + i].op;
    if (place(s, base, i, op, cycle)) {
        return true;
    }
    for (size_t a = 0; a < sizeof alternatives / sizeof alternatives[0]; a++) {
        for (int side = 0; side < 2; side++) {
            if (alternatives[a][side] == op && immediates_fit(s, i, alternatives[a][!side]) &&
                place(s, base, i, alternatives[a][!side], cycle)) {
                return true;
            }
        }
    }
    return false;
}

// One pass over the region; false when registers ran out.
static bool list_schedule(struct sched * s, int base) {
    int left = s->count;
    int idle = 0;
    for (int cycle = 0; left > 0; cycle++) {
        if (cycle >= MAX_CYCLES || idle > 64) { // longer than any latency: nothing will change
            return false;
        }
        idle++;
        for (;;) {
            int best = -1;
            for (int i = s->oldest; i < s->count && i < s->oldest + s->window; i++) {
                struct sched_node * n = &s->nodes[i];
                if (n->cycle < 0 && n->n_preds == 0 && n->earliest <= cycle &&
                    (best < 0 || n->height > s->nodes[best].height)) {
                    best = i;
                }
            }
            if (best < 0) {
                break;
            }
            if (place_any(s, base, best, cycle)) {
                left--;
                idle = 0;
                while (s->oldest < s->count && s->nodes[s->oldest].cycle >= 0) {
                    s->oldest++;
                }
            } else {
                s->nodes[best].earliest = cycle + 1; // the slot, a port or a register is missing
            }
        }
    }
    return true;
}

static void reset(struct sched * s, int base) {
    s->p->n_bundles = base;
    s->n_edges = s->n_readers = s->oldest = 0;
    memset(s->busy, 0, sizeof s->busy);
    memset(s->release, 0, sizeof s->release);
    memset(s->ports, 0, sizeof s->ports);
    for (int v = 0; v < s->p->n_vregs; v++) {
        s->locals[v] = (struct local) {0};
        for (int part = 0; part < 2; part++) {
            s->tracks[v][part] = (struct track) {-1, -1};
        }
    }
    for (int i = 0; i < s->count; i++) {
        s->nodes[i] = (struct sched_node) {.first_edge = -1, .cycle = -1};
        const struct asm_node * n = &s->p->nodes[s->first + i];
        for (int k = 0; k < n->n_args; k++) {
            if (n->args[k].kind == ASM_ARG_REG) {
                struct asm_vreg * v = &s->p->vregs[n->args[k].reg.id];
                s->locals[n->args[k].reg.id].refs++;
                if (!v->global) {
                    v->phys = -1;
                }
            }
        }
    }
}

static bool try_schedule(struct sched * s, int base) {
    reset(s, base);
    build_register_edges(s);
    build_other_edges(s);
    compute_heights(s);
    return !s->p->no_memory && list_schedule(s, base);
}

// Appends bundles until all results have landed and all late reads and writes are done.
static void drain(struct sched * s, int base, bool is_loop) {
    int end = s->p->n_bundles - base;
    bool store_last = false;
    for (int i = 0; i < s->count; i++) {
        const struct aie_instr * instr = aie_isa_instr(s->p->isa, s->nodes[i].op);
        int cycle = s->nodes[i].cycle;
        for (int k = 0; k < instr->n_operands; k++) {
            const struct aie_operand * o = &instr->operands[k];
            if (AIE_REG_KIND(o->fixed) == AIE_SR) {
                continue;
            }
            int done = (o->role & AIE_DEF) ? cycle + o->def_cycle : cycle + o->use_cycle;
            end = done > end ? done : end;
        }
        if (instr->mem_cycle > 5) { // later than ordinary memory traffic: wait out the difference
            int done = cycle + instr->mem_cycle - 4;
            end = done > end ? done : end;
        }
    }
    for (int i = 0; i < s->count; i++) {
        store_last |= s->nodes[i].cycle == end - 1 && aie_isa_instr(s->p->isa, s->nodes[i].op)->stores;
    }
    if (is_loop && store_last) {
        end++; // a store in a loop's last bundle can be lost on silicon
    }
    while (s->p->n_bundles < base + end) {
        if (asm_bundle_add(s->p) < 0) {
            return;
        }
    }
}

bool asm_schedule(struct asm_program * p, const struct asm_item * region, bool is_loop) {
    struct sched * s = calloc(1, sizeof *s);
    if (!s) {
        p->no_memory = true;
        return false;
    }
    int base = p->n_bundles;
    *s = (struct sched) {.p = p, .first = region->first, .count = region->count};
    s->nodes = calloc((size_t) region->count + 1, sizeof *s->nodes);
    s->tracks = calloc((size_t) p->n_vregs + 1, sizeof *s->tracks);
    s->locals = calloc((size_t) p->n_vregs + 1, sizeof *s->locals);
    bool ok = false;
    p->no_memory |= !s->nodes || !s->tracks || !s->locals;
    for (s->window = region->count; !ok && !p->no_memory && s->window > 0; s->window = s->window * 2 / 3) {
        ok = try_schedule(s, base);
    }
    if (!ok && !p->no_memory) {
        asm_misuse(p, "asm: a region of %d instructions needs more registers than there are",
                   region->count);
    }
    if (ok) {
        drain(s, base, is_loop);
    }
    free(s->nodes);
    free(s->tracks);
    free(s->locals);
    free(s->edges);
    free(s->readers);
    free(s);
    return ok && !p->no_memory;
}
