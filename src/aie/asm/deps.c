// asm/deps: dependences from the ISA table's operand cycles. A result issued at t with def cycle D
// is visible to reads from t+D on; a source with use cycle U is read at t+U-1; so a consumer waits
// D-U+1 bundles, one less when both ends share a bypass. A register is only rewritten once its last
// reader has read: no read ever meets a write in flight, which is what asm_check() insists on.
//
// Between the trips of a loop, globals carry values in their one register: the region is walked
// twice, and what the second walk finds in the first is one trip away. A local is new in each trip;
// it has a number of registers that it uses in turn, so it may not outlive that many trips. A
// pointer that is moved on by a constant at the end of a trip holds nobody up: what comes too late
// for it has its offset changed.
#include "deps.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

int asm_variants(const struct asm_program * p, const struct asm_node * n, uint16_t ops[2]) {
    ops[0] = n->op;
    ops[1] = p->other_op[n->op];
    bool fits = ops[1];
    for (int k = 0; k < n->n_args && fits; k++) {
        fits =
            n->args[k].kind != ASM_ARG_IMM || aie_operand_fits(p->isa, ops[1], k, n->args[k].value);
    }
    return fits ? 2 : 1;
}

int asm_landings(const struct asm_program * p, const struct asm_node * n,
                 const struct aie_instr * instr, struct asm_landing out[ASM_MAX_ARGS]) {
    int count = 0;
    for (unsigned left = n->regs & instr->defs; left; left &= left - 1) {
        int k = __builtin_ctz(left);
        const struct aie_operand * o = &instr->operands[k];
        enum asm_class cls = p->vregs[n->args[k].reg.id].cls;
        if (cls == ASM_P && instr->n_explicit > 1 && (o->role & AIE_USE)) {
            continue; // a post-modified pointer has its own port in the address generator
        }
        out[count++] = (struct asm_landing){o->def_cycle, p->target->classes[cls].file};
    }
    return count;
}

// ---- pointers that move once a trip ----

enum { MOST_MOVES = 8 };

// Whether the node adds an immediate to a pointer, and to which.
static bool is_mover(const struct deps * d, int i, int * id) {
    const struct asm_node * n = &d->p->nodes[d->first + i];
    const struct aie_instr * instr = deps_instr(d, i);
    *id = n->n_args ? n->args[0].reg.id : 0;
    return n->n_args == 2 && !instr->loads && !instr->stores && n->args[0].kind == ASM_ARG_REG &&
           n->args[1].kind == ASM_ARG_IMM && d->p->vregs[*id].cls == ASM_P &&
           d->p->vregs[*id].global && instr->operands[0].role == (AIE_DEF | AIE_USE);
}

// Whether node i only reads the pointer, to load or store at an offset from it; then which operand
// that offset is.
static bool is_offset_user(const struct deps * d, int i, int id, uint8_t * offset) {
    const struct asm_node * n = &d->p->nodes[d->first + i];
    const struct aie_instr * instr = deps_instr(d, i);
    int immediates = 0, mentions = 0;
    for (int k = 0; k < n->n_args; k++) {
        if (n->args[k].kind == ASM_ARG_IMM) {
            *offset = (uint8_t) k;
            immediates++;
        } else if (n->args[k].kind == ASM_ARG_REG && n->args[k].reg.id == id) {
            mentions += instr->operands[k].role == AIE_USE ? 1 : 2;
        }
    }
    return immediates == 1 && mentions == 1 && (instr->loads || instr->stores);
}

static bool names(const struct asm_node * n, int id) {
    bool found = false;
    for (unsigned left = n->regs; left; left &= left - 1) {
        found |= n->args[__builtin_ctz(left)].reg.id == id;
    }
    return found;
}

static void note_users(struct deps * d, int mover, int id) {
    const struct asm_node * nodes = &d->p->nodes[d->first];
    uint8_t offset = 0;
    for (int i = 0; i < d->count; i++) {
        if (i != mover && names(&nodes[i], id) &&
            (i > mover || !is_offset_user(d, i, id, &offset))) {
            return;
        }
    }
    for (int i = 0; i < mover; i++) {
        if (names(&nodes[i], id) && is_offset_user(d, i, id, &offset)) {
            struct dep_node * n = &d->nodes[i];
            *n = (struct dep_node){.instr = n->instr,
                                   .first_out = n->first_out,
                                   .first_in = n->first_in,
                                   .mover = mover,
                                   .step = nodes[mover].args[1].value,
                                   .offset = offset};
            while (n->most < MOST_MOVES && aie_operand_fits(d->p->isa, nodes[i].op, offset,
                                                            deps_offset(d, i, n->most + 1))) {
                n->most++;
            }
        }
    }
}

static void find_movers(struct deps * d) {
    int id;
    for (int i = 0; i < d->count; i++) {
        if (is_mover(d, i, &id)) {
            note_users(d, i, id);
        }
    }
}

// ---- registers ----

struct reader {
    int node, next;
    uint8_t trip;
    uint8_t use_cycle;
};

// The last writer of each half of each virtual register, and the readers since. The first half of a
// register that is only named as a whole stands for both.
struct track {
    int writer;       // node, -1 = none yet
    int first_reader; // index into readers
    uint8_t writer_trip;
    uint8_t def_cycle, def_bypass; // of the operand by which it wrote
    bool written;                  // of the first half: in this region; else nobody waits for it
    bool parted;                   // of the first half: there are two
};

// Memory that building needs beside its result; the program keeps it from one region to the next.
struct deps_room {
    struct track (*tracks)[2]; // by virtual register
    int cap_tracks;
    struct reader * readers;
    int cap_readers;
    struct other * others; // by node
    int * change;
    int cap_others;
};

struct walk {
    struct deps * d;
    int trip; // 0, and 1 for the second walk
    struct track (*tracks)[2];
    struct deps_room * room;
    int n_readers;
};

static inline void add(struct deps * d, int from, int to, int latency, int trips) {
    if ((from == to && trips == 0) ||
        !asm_grow(d->p, (void **) &d->edges, &d->cap_edges, d->n_edges, sizeof *d->edges)) {
        return;
    }
    if (latency < 0 && !(d->p->late && trips == DEP_COPIES)) {
        latency = 0; // else it issues while the old value is still read
    }
    // The halves of a register come one after the other with the same to say.
    int last = d->nodes[to].first_in;
    if (last >= 0 && d->edges[last].from == from && d->edges[last].latency == latency &&
        d->edges[last].trips == trips) {
        return;
    }
    d->edges[d->n_edges] = (struct dep){
        .from = from,
        .to = to,
        .next_out = d->nodes[from].first_out,
        .next_in = last,
        .latency = (int16_t) latency,
        .trips = (uint8_t) trips,
    };
    d->nodes[from].first_out = d->nodes[to].first_in = d->n_edges++;
}

void deps_add(struct deps * d, int from, int to, int latency, int trips) {
    add(d, from, to, latency, trips);
}

void deps_take_away(struct deps * d, int but) {
    while (d->n_edges > but) {
        const struct dep * last = &d->edges[--d->n_edges]; // each was put before all others
        d->nodes[last->from].first_out = last->next_out;
        d->nodes[last->to].first_in = last->next_in;
    }
}

// Edges within the second walk are those of the first again.
static void link_trips(struct walk * w, int from, int from_trip, int to, int latency) {
    if (w->trip == 0 || from_trip == 0) {
        add(w->d, from, to, latency, w->trip - from_trip);
    }
}

static int raw_latency(const struct track * t, const struct aie_operand * use) {
    int n = t->def_cycle - use->use_cycle + 1;
    // AIE_BYPASS_MOV_LOW depends on the register, which has no number yet: counted as none.
    if ((t->def_bypass == AIE_BYPASS_MOV || t->def_bypass == AIE_BYPASS_VEC) &&
        t->def_bypass == use->use_bypass) {
        n--;
    }
    return n < 1 ? 1 : n; // a consumer never issues with or before its producer
}

// The halves that a register operand has a share in, bit each; quarters count as the half they are
// in.
static unsigned halves_of(const struct walk * w, struct asm_reg r) {
    static const uint8_t halves[] = {3, 1, 2, 1, 1, 2, 2}; // of all, of a half, of a quarter
    return w->tracks[r.id]->parted ? halves[r.part + 1] : 1;
}

// Nothing has written the register before node i reads it.
static void check_unwritten(const struct deps * d, int i, int id) {
    if (!d->p->vregs[id].global) {
        asm_misuse(d->p, "asm: %s reads a local register that nothing wrote",
                   deps_instr(d, i)->name);
    }
}

static void note_use(struct walk * w, int i, const struct aie_operand * use, int id, int half) {
    struct deps * d = w->d;
    struct track * t = &w->tracks[id][half];
    if (t->writer >= 0) {
        link_trips(w, t->writer, t->writer_trip, i, raw_latency(t, use));
    } else if (w->tracks[id][!half].writer < 0) {
        // half a register may stay unwritten: the lanes above are carried along and never stored
        check_unwritten(d, i, id);
    }
    w->room->readers[w->n_readers] =
        (struct reader){i, t->first_reader, (uint8_t) w->trip, use->use_cycle};
    t->first_reader = w->n_readers++;
}

// The readers and the writer of the old value are done before this writes.
static void wait_for(struct walk * w, int i, const struct aie_operand * def,
                     const struct track * t) {
    struct deps * d = w->d;
    const struct reader * readers = w->room->readers;
    for (int r = t->first_reader; r >= 0; r = readers[r].next) {
        const struct reader * by = &readers[r];
        // it lands behind the read, and issues not before it
        if (d->nodes[by->node].mover == i) {
            if (w->trip == 0) {
                add(d, by->node, i, 0, d->nodes[by->node].most);
            }
            continue;
        }
        link_trips(w, by->node, by->trip, i, by->use_cycle - def->def_cycle);
    }
    if (t->writer >= 0) {
        int n = t->def_cycle - def->def_cycle + 1;
        link_trips(w, t->writer, t->writer_trip, i, n < 1 ? 1 : n);
    }
}

static void note_def(struct walk * w, int i, const struct aie_operand * def, int id, int half) {
    struct track * t = &w->tracks[id][half];
    wait_for(w, i, def, t);
    // of several operands that write it, the first
    if (t->writer != i || t->writer_trip != w->trip) {
        t->writer = i;
        t->writer_trip = (uint8_t) w->trip;
        t->def_cycle = def->def_cycle;
        t->def_bypass = def->def_bypass;
    }
    t->first_reader = -1;
}

static void walk_registers(struct walk * w) {
    struct deps * d = w->d;
    for (int i = 0; i < d->count; i++) {
        const struct asm_node * n = &d->p->nodes[d->first + i];
        const struct aie_instr * instr = deps_instr(d, i);
        unsigned named = w->trip > 0 ? n->regs & ~n->locals : n->regs;
        // uses first: a def kills the old value
        for (unsigned left = named & instr->uses; left; left &= left - 1) {
            int k = __builtin_ctz(left);
            struct asm_reg r = n->args[k].reg;
            if (!w->tracks[r.id]->written) {
                check_unwritten(d, i, r.id);
                continue;
            }
            for (unsigned halves = halves_of(w, r); halves; halves &= halves - 1) {
                note_use(w, i, &instr->operands[k], r.id, __builtin_ctz(halves));
            }
        }
        for (unsigned left = named & instr->defs; left; left &= left - 1) {
            int k = __builtin_ctz(left);
            struct asm_reg r = n->args[k].reg;
            for (unsigned halves = halves_of(w, r); halves; halves &= halves - 1) {
                note_def(w, i, &instr->operands[k], r.id, __builtin_ctz(halves));
            }
        }
    }
}

// An array of at least n items, what it holds being of no matter; false without memory.
static bool make_room(void ** array, int * cap, int n, size_t item) {
    if (n > *cap) {
        free(*array);
        *cap = n + n / 2;
        *array = malloc((size_t) *cap * item);
    }
    *cap = *array ? *cap : 0;
    return *array != NULL;
}

static bool build_register_edges(struct deps * d) {
    struct deps_room * room = d->p->room;
    struct walk w = {.d = d, .room = room};
    const int most_readers = d->count * ASM_MAX_ARGS * 2 * (d->loop ? 2 : 1); // halves, trips
    if (!make_room((void **) &room->tracks, &room->cap_tracks, d->p->n_vregs + 1,
                   sizeof *room->tracks) ||
        !make_room((void **) &room->readers, &room->cap_readers, most_readers + 1,
                   sizeof *room->readers)) {
        return false;
    }
    w.tracks = room->tracks;
    for (int i = 0; i < d->count; i++) { // a region names few of a program's registers
        const struct asm_node * n = &d->p->nodes[d->first + i];
        for (unsigned left = n->regs; left; left &= left - 1) {
            struct track * t = w.tracks[n->args[__builtin_ctz(left)].reg.id];
            t[0] = t[1] = (struct track){.writer = -1, .first_reader = -1};
        }
    }
    for (int i = 0; i < d->count; i++) {
        const struct asm_node * n = &d->p->nodes[d->first + i];
        for (unsigned left = n->regs & deps_instr(d, i)->defs; left; left &= left - 1) {
            w.tracks[n->args[__builtin_ctz(left)].reg.id]->written = true;
        }
        for (unsigned left = n->kinds & ASM_PARTS ? n->regs : 0; left; left &= left - 1) {
            struct asm_reg r = n->args[__builtin_ctz(left)].reg;
            w.tracks[r.id]->parted |= r.part >= 0;
        }
    }
    for (w.trip = 0; w.trip <= (d->loop ? 1 : 0); w.trip++) {
        walk_registers(&w);
    }
    return true;
}

// Every operand that names a local, chained by local.
struct mention {
    int node, operand, next;
};

// A local must be over before the trip that gets its register again first writes it.
static bool build_lifetime_edges(struct deps * d) {
    struct asm_program * p = d->p;
    int * heads = malloc(((size_t) p->n_vregs + 1) * sizeof *heads);
    struct mention * all = malloc(((size_t) d->count * ASM_MAX_ARGS + 1) * sizeof *all);
    bool ok = heads && all;
    int n_all = 0, first = p->n_vregs, end = 0;
    for (int i = 0; i < d->count; i++) { // which there are
        const struct asm_node * n = &p->nodes[d->first + i];
        for (unsigned left = n->locals; left; left &= left - 1) {
            int id = n->args[__builtin_ctz(left)].reg.id;
            first = id < first ? id : first;
            end = id >= end ? id + 1 : end;
        }
    }
    for (int v = first; ok && v < end; v++) {
        heads[v] = -1;
    }
    for (int i = 0; i < d->count && ok; i++) {
        const struct asm_node * n = &p->nodes[d->first + i];
        for (unsigned left = n->locals; left; left &= left - 1) {
            int k = __builtin_ctz(left), id = n->args[k].reg.id;
            all[n_all] = (struct mention){i, k, heads[id]};
            heads[id] = n_all++;
        }
    }
    for (int v = first; ok && v < end; v++) {
        bool late = asm_is_late(p, (enum asm_class) p->vregs[v].cls);
        for (int w = heads[v]; w >= 0; w = all[w].next) {
            const struct aie_operand * def = &deps_instr(d, all[w].node)->operands[all[w].operand];
            if (!(def->role & AIE_DEF)) {
                continue;
            }
            for (int m = heads[v]; m >= 0; m = all[m].next) {
                const struct aie_operand * o =
                    &deps_instr(d, all[m].node)->operands[all[m].operand];
                deps_add(d, all[m].node, all[w].node,
                         asm_settles(o) - (late ? asm_arrives(def) : 0), DEP_COPIES);
            }
        }
    }
    free(heads);
    free(all);
    return ok;
}

// ---- memory, and registers outside the virtual ones ----

// Registers that an instruction names outside the virtual ones (control registers, fixed operands),
// as units. Flags are written by nearly everything: they count only where the region reads them.
struct fixed {
    uint64_t def[4], use[4];
    bool any;
};

static void fixed_of(const struct deps * d, int i, struct fixed * out) {
    const struct asm_node * n = &d->p->nodes[d->first + i];
    const struct aie_instr * instr = deps_instr(d, i);
    *out = (struct fixed){.any = false};
    for (int k = 0; k < instr->n_operands; k++) {
        aie_reg reg = k >= n->n_args                     ? instr->operands[k].fixed
                      : n->args[k].kind == ASM_ARG_FIXED ? (aie_reg) n->args[k].value
                                                         : 0;
        uint8_t units[8];
        int n_units = reg ? aie_reg_units(reg, units) : 0;
        for (int u = 0; u < n_units; u++) {
            uint64_t bit = 1ull << units[u] % 64;
            out->def[units[u] / 64] |= (instr->operands[k].role & AIE_DEF) ? bit : 0;
            out->use[units[u] / 64] |= (instr->operands[k].role & AIE_USE) ? bit : 0;
            out->any = true;
        }
    }
}

// The status registers among the units of one word.
static uint64_t flags_in(int word) {
    const int from = AIE_UNIT_SR - 64 * word, to = from + AIE_SR_COUNT;
    uint64_t below_to = to <= 0 ? 0 : to >= 64 ? UINT64_MAX : (1ull << to) - 1;
    uint64_t below_from = from <= 0 ? 0 : from >= 64 ? UINT64_MAX : (1ull << from) - 1;
    return below_to & ~below_from;
}

// What two instructions on the same fifo hand on: its content and its pointer.
static uint64_t fifo_in(const struct fixed * a, const struct fixed * b, int word) {
    enum { POINTERS = 8, FIFOS = AIE_UNIT_BM4 - AIE_UNIT_FIFO, WORD = AIE_UNIT_FIFO / 64 };
    const uint64_t fifos = ((1ull << FIFOS) - 1) << AIE_UNIT_FIFO % 64;
    bool same = a->def[WORD] & b->def[WORD] & fifos;
    return !same                     ? 0
           : word == WORD            ? fifos
           : word == AIE_UNIT_P / 64 ? ((1ull << POINTERS) - 1) << AIE_UNIT_P % 64
                                     : 0;
}

enum { SCALAR_LATENCY = 2 }; // of masks, which are the last scalars to be there

static int fixed_latency(const struct aie_target * t, const struct fixed * a,
                         const struct fixed * b) {
    int latency = -1;
    for (int w = 0; w < 4; w++) {
        uint64_t both = (a->def[w] & (b->def[w] | b->use[w])) | (a->use[w] & b->def[w]);
        uint64_t scalars = w == 0 ? UINT32_MAX : 0; // r, which some instructions write unasked
        if (both & ~flags_in(w) & ~fifo_in(a, b, w) & ~scalars) {
            return t->control_latency;
        }
        int n = a->def[w] & both & scalars ? SCALAR_LATENCY : both ? 1 : -1;
        latency = n > latency ? n : latency;
    }
    return latency;
}

static int memory_latency(const struct aie_instr * a, const struct aie_instr * b) {
    int n = a->mem_cycle - b->mem_first + 1;
    return n < 1 ? 1 : n;
}

// Where a load or store goes: an offset from a pointer that the region leaves alone or moves on
// once a trip by a step. pointer -1: not known.
struct address {
    int pointer;
    int32_t offset, step;
};

static struct address address_of(const struct deps * d, int i) {
    const struct asm_node * n = &d->p->nodes[d->first + i];
    const struct dep_node * node = &d->nodes[i];
    uint8_t offset = 0;
    for (int k = 0; k < n->n_args; k++) {
        int id = n->args[k].reg.id;
        if (n->args[k].kind != ASM_ARG_REG || d->p->vregs[id].cls != ASM_P ||
            !is_offset_user(d, i, id, &offset)) {
            continue;
        }
        if (node->mover >= 0 || !d->p->room->tracks[id]->written) {
            return (struct address){id, n->args[offset].value, node->mover >= 0 ? node->step : 0};
        }
    }
    const struct aie_instr * instr = deps_instr(d, i);
    for (int k = n->n_args; k < instr->n_operands; k++) { // where values wait for a register
        if (d->p->target->spill_base && instr->operands[k].fixed == d->p->target->spill_base) {
            return (struct address){INT_MAX, n->args[n->n_args - 1].value, 0};
        }
    }
    return (struct address){.pointer = -1};
}

// Whether b may touch what a touches, b being `trips` trips later.
static bool may_meet(const struct deps * d, const struct address * a, const struct address * b,
                     int trips) {
    int32_t apart = b->offset + trips * b->step - a->offset, bytes = d->p->target->load_bytes;
    return a->pointer < 0 || a->pointer != b->pointer || (apart < bytes && apart > -bytes);
}

// A node that others may have to wait for: it touches memory or names a fixed register.
struct other {
    int node;
    const struct aie_instr * instr;
    uint8_t memory;
    struct address address;
    struct fixed fixed;
};

// Whether it names a fixed register other than flags that it writes, which nearly everything does.
static bool names_fixed(const struct asm_node * n, const struct aie_instr * instr) {
    return instr->has_fixed || n->kinds >> ASM_ARG_FIXED & 1;
}

// Lists those nodes of the region, with `all` set also those that do no more than write flags;
// returns how many.
static int collect_others(const struct deps * d, struct other * others, bool all) {
    int n = 0;
    for (int i = 0; i < d->count; i++) {
        const struct asm_node * node = &d->p->nodes[d->first + i];
        const struct aie_instr * instr = deps_instr(d, i);
        if (all || instr->loads || instr->stores || names_fixed(node, instr)) {
            others[n] = (struct other){.node = i, .instr = instr, .memory = node->memory};
            if (all || names_fixed(node, instr)) {
                fixed_of(d, i, &others[n].fixed);
            }
            n++;
        }
    }
    return n;
}

static bool reads_flags(const struct other * others, int n) {
    uint64_t read = 0;
    for (int i = 0; i < n; i++) {
        for (int w = 0; w < 4 && others[i].fixed.any; w++) {
            read |= others[i].fixed.use[w] & flags_in(w);
        }
    }
    return read != 0;
}

// Keeps of each node's fixed registers what orders anything: those that the region writes, and
// flags only if it reads them too.
static void drop_unordered(struct other * others, int n) {
    uint64_t def[4] = {0}, use[4] = {0}, flags[4];
    for (int w = 0; w < 4; w++) {
        flags[w] = flags_in(w);
    }
    for (int i = 0; i < n; i++) {
        for (int w = 0; w < 4 && others[i].fixed.any; w++) {
            def[w] |= others[i].fixed.def[w];
            use[w] |= others[i].fixed.use[w];
        }
    }
    for (int i = 0; i < n; i++) {
        struct fixed * f = &others[i].fixed;
        bool any = f->any;
        f->any = false;
        for (int w = 0; w < 4 && any; w++) {
            f->def[w] &= def[w] & (use[w] | ~flags[w]);
            f->use[w] &= def[w];
            f->any |= f->def[w] || f->use[w];
        }
    }
}

// Whether one of two accesses has to wait for the other if they meet.
static bool conflicts(const struct other * a, const struct other * b) {
    return a->memory == b->memory && ((a->instr->stores && (b->instr->loads || b->instr->stores)) ||
                                      (a->instr->loads && b->instr->stores));
}

// b behind a, `trips` trips on.
static void order(struct deps * d, const struct other * a, const struct other * b, int trips) {
    int latency =
        a->fixed.any && b->fixed.any ? fixed_latency(d->p->target, &a->fixed, &b->fixed) : -1;
    if (conflicts(a, b) && may_meet(d, &a->address, &b->address, trips)) {
        int wait = memory_latency(a->instr, b->instr);
        latency = wait > latency ? wait : latency;
    }
    if (latency >= 0) {
        deps_add(d, a->node, b->node, latency, trips);
    }
}

// Two accesses that pass each other in the next trip may still meet in a later one.
static void order_later(struct deps * d, const struct other * a, const struct other * b) {
    enum { MOST = 32 }; // trips in flight
    int32_t step = b->address.step;
    if (step != 0 && conflicts(a, b) && a->address.pointer == b->address.pointer) {
        int32_t near = (a->address.offset - b->address.offset) / step;
        for (int32_t trips = near > 3 ? near - 1 : 2; trips <= near + 1 && trips <= MOST; trips++) {
            order(d, a, b, trips);
        }
    }
}

static void order_all(struct deps * d, const struct other * a, const struct other * b) {
    if (a < b) {
        order(d, a, b, 0);
    }
    if (d->loop) {
        order(d, a, b, 1);
        order_later(d, a, b);
    }
}

static bool build_other_edges(struct deps * d) {
    struct deps_room * room = d->p->room;
    int n_all, n = 0, n_change = 0, cap = room->cap_others;
    if (!make_room((void **) &room->others, &cap, d->count + 1, sizeof *room->others) ||
        !make_room((void **) &room->change, &room->cap_others, d->count + 1,
                   sizeof *room->change)) {
        return false;
    }
    struct other * others = room->others;
    int * change = room->change; // others that are no mere load
    n_all = collect_others(d, others, false);
    if (reads_flags(others, n_all)) {
        n_all = collect_others(d, others, true);
    }
    drop_unordered(others, n_all);
    for (int i = 0; i < n_all; i++) {
        if (others[i].fixed.any || others[i].instr->loads || others[i].instr->stores) {
            others[i].address = address_of(d, others[i].node);
            if (others[i].fixed.any || others[i].instr->stores) {
                change[n_change++] = n;
            }
            others[n++] = others[i];
        }
    }
    for (int j = 0, c = 0; j < n; j++) { // two loads pass each other
        bool changes = c < n_change && change[c] == j;
        c += changes;
        for (int k = 0; k < (changes ? n : n_change); k++) {
            order_all(d, &others[changes ? k : change[k]], &others[j]);
        }
    }
    return true;
}

static bool deps_begin(struct deps * d, struct asm_program * p, const struct asm_item * region,
                       bool loop) {
    d->p = p;
    d->first = region->first;
    d->count = region->count;
    d->n_edges = 0;
    d->loop = loop;
    p->room = p->room ? p->room : calloc(1, sizeof *p->room);
    enum { EDGES = 6 }; // of a node, about
    if (!p->room ||
        !make_room((void **) &d->nodes, &d->cap_nodes, d->count + 1, sizeof *d->nodes) ||
        !make_room((void **) &d->edges, &d->cap_edges, EDGES * d->count + 1, sizeof *d->edges)) {
        p->no_memory = true;
        return false;
    }
    for (int i = 0; i < d->count; i++) {
        const struct aie_instr * instr = asm_instr(p, p->nodes[d->first + i].op);
        d->nodes[i] =
            (struct dep_node){.instr = instr, .first_out = -1, .first_in = -1, .mover = -1};
    }
    return true;
}

bool deps_build_values(struct deps * d, struct asm_program * p, const struct asm_item * region) {
    bool ok = deps_begin(d, p, region, false) && build_register_edges(d);
    p->no_memory |= !ok;
    return !p->no_memory;
}

bool deps_build(struct deps * d, struct asm_program * p, const struct asm_item * region,
                bool loop) {
    if (!deps_begin(d, p, region, loop)) {
        return false;
    }
    if (loop) {
        find_movers(d);
    }
    bool ok = build_register_edges(d) && build_other_edges(d) && (!loop || build_lifetime_edges(d));
    p->no_memory |= !ok;
    asm_trace_deps(d);
    return !p->no_memory;
}

void deps_room_free(struct deps_room * room) {
    if (room) {
        free(room->tracks);
        free(room->readers);
        free(room->others);
        free(room->change);
        free(room);
    }
}

void deps_free(struct deps * d) {
    free(d->nodes);
    free(d->edges);
    *d = (struct deps){0};
}
