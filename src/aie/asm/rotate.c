// asm/rotate: registers for overlapping trips, and the pipelined loop written out. Each trip's
// locals need registers of their own while trips overlap; the repeated part therefore holds
// `copies` trips, in which a local uses its registers in turn (modulo variable expansion). On the
// circle of that part's bundles, a local is an arc per copy, and arcs that touch get different
// registers.
#include "pipeline.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct arc {
    int16_t vreg;
    int8_t copy;
    int start, length; // bundles on the circle
    int key;           // arcs are given registers in this order
    int8_t given;      // register, -1 = none (colour_anew)
};

static int by_key(const void * a, const void * b) {
    const struct arc * x = a;
    const struct arc * y = b;
    return x->key != y->key     ? (x->key > y->key) - (x->key < y->key)
           : x->vreg != y->vreg ? x->vreg - y->vreg
                                : x->copy - y->copy;
}

// The circle of one register: a bit for each bundle in which it is taken. CUTS: places of it from
// which registers are given out, if they do not suffice from a calm one. PATIENCE: times for each
// arc.
enum { WORDS = PIPELINE_MAX_CIRCLE / 64, CUTS = 3, PATIENCE = 12 };

struct colouring {
    struct pipeline * q;
    int * locals; // that live in the loop
    int n_locals;
    int of_class[ASM_CLASS_COUNT]; // so many of them
    struct arc * arcs;
    int n;
    int * alive;              // in each bundle of one interval
    int words;                // that the circle has
    uint64_t busy[64][WORDS]; // by register
};

// Locals of the class that live in each bundle of one interval; returns the most. *calm is a bundle
// with the fewest.
static int most_alive(const struct colouring * c, enum asm_class cls, int * calm) {
    const struct pipeline * q = c->q;
    memset(c->alive, 0, (size_t) q->ii * sizeof *c->alive);
    for (int l = 0; l < c->n_locals; l++) {
        const struct life * life = &q->lives[c->locals[l]];
        if (q->p->vregs[c->locals[l]].cls == cls) {
            for (int t = life->from, r = life->from % q->ii; t < life->to; t++) {
                c->alive[r]++;
                r = r + 1 == q->ii ? 0 : r + 1;
            }
        }
    }
    int most = 0;
    *calm = 0;
    for (int r = 0; r < q->ii; r++) {
        most = c->alive[r] > most ? c->alive[r] : most;
        *calm = c->alive[r] < c->alive[*calm] ? r : *calm;
    }
    return most;
}

static void set_bits(uint64_t bits[WORDS], int from, int to) {
    for (int w = from / 64; from < to; w++) {
        int end = to < 64 * (w + 1) ? to : 64 * (w + 1);
        bits[w] |= (~0ull << from % 64) & (end % 64 ? ~(~0ull << end % 64) : ~0ull);
        from = end;
    }
}

static void bits_of(const struct arc * a, int circle, int words, uint64_t bits[WORDS]) {
    int end = a->start + a->length;
    memset(bits, 0, (size_t) words * sizeof *bits);
    set_bits(bits, a->start, end < circle ? end : circle);
    if (end > circle) {
        set_bits(bits, 0, end - circle);
    }
}

static bool is_free(const uint64_t busy[WORDS], const uint64_t bits[WORDS], int words) {
    uint64_t both = 0;
    for (int w = 0; w < words; w++) {
        both |= busy[w] & bits[w];
    }
    return both == 0;
}

// The highest bit that is set below `end`, -1 = none.
static int last_set(const uint64_t bits[WORDS], int end) {
    for (int w = (end - 1) / 64; end > 0 && w >= 0; w--) {
        int in_word = end - 64 * w;
        uint64_t left = bits[w] & (in_word < 64 ? ~(~0ull << in_word) : ~0ull);
        if (left) {
            return 64 * w + 63 - __builtin_clzll(left);
        }
    }
    return -1;
}

// Idle bundles right before the arc: the register that leaves the smallest hole is taken.
static int hole_before(const uint64_t busy[WORDS], const struct arc * a, int circle) {
    int last = last_set(busy, a->start);
    if (last >= 0) {
        return a->start - 1 - last;
    }
    last = last_set(busy, circle);
    return last >= 0 ? a->start + circle - 1 - last : circle;
}

static bool colour(struct colouring * c, uint64_t set) {
    struct pipeline * q = c->q;
    int circle = q->ii * q->copies;
    for (uint64_t left = set; left; left &= left - 1) {
        memset(c->busy[__builtin_ctzll(left)], 0, sizeof c->busy[0]);
    }
    qsort(c->arcs, (size_t) c->n, sizeof *c->arcs, by_key);
    for (int i = 0; i < c->n; i++) {
        const struct arc * a = &c->arcs[i];
        uint64_t bits[WORDS];
        int best = -1, best_hole = 0;
        bits_of(a, circle, c->words, bits);
        for (uint64_t left = set; left; left &= left - 1) {
            int r = __builtin_ctzll(left);
            if (is_free(c->busy[r], bits, c->words)) {
                int hole = hole_before(c->busy[r], a, circle);
                if (best < 0 || hole < best_hole) {
                    best = r;
                    best_hole = hole;
                }
            }
        }
        if (best < 0) {
            return false;
        }
        for (int w = 0; w < c->words; w++) {
            c->busy[best][w] |= bits[w];
        }
        q->phys[a->vreg * q->copies + a->copy] = (int8_t) best;
    }
    return true;
}

// ---- where the orders fail ----

// Whether two arcs have a bundle in common.
static bool meet(const struct arc * a, const struct arc * b, int circle) {
    int by = b->start - a->start;
    by += by < 0 ? circle : 0;
    return by < a->length || circle - by < b->length;
}

// The cost of giving arc i, of these bits, register r: the lengths of those in its way,
// more for those that have been in somebody's way before.
static int price_of(const struct colouring * c, int i, const uint64_t bits[WORDS], int r) {
    int circle = c->q->ii * c->q->copies, price = 0;
    if (is_free(c->busy[r], bits, c->words)) {
        return 0;
    }
    for (int j = 0; j < c->n; j++) {
        const struct arc * a = &c->arcs[j];
        if (a->given == r && meet(a, &c->arcs[i], circle)) {
            price += 1 + a->length * (1 + a->key);
        }
    }
    return price;
}

// Gives arc i register r; those in its way have none again. Returns how many these are.
static int give(struct colouring * c, int i, const uint64_t bits[WORDS], int r) {
    int circle = c->q->ii * c->q->copies, n = 0;
    memcpy(c->busy[r], bits, (size_t) c->words * sizeof *bits);
    for (int j = 0; j < c->n; j++) {
        struct arc * a = &c->arcs[j];
        if (a->given != r) {
            continue;
        }
        if (meet(a, &c->arcs[i], circle)) {
            a->given = -1;
            a->key++;
            n++;
            continue;
        }
        uint64_t others[WORDS];
        bits_of(a, circle, c->words, others);
        for (int w = 0; w < c->words; w++) {
            c->busy[r][w] |= others[w];
        }
    }
    c->arcs[i].given = (int8_t) r;
    return n;
}

// The longest that has none takes one from others, as often as there is patience.
static bool colour_anew(struct colouring * c, uint64_t set) {
    int left = c->n;
    for (uint64_t all = set; all; all &= all - 1) {
        memset(c->busy[__builtin_ctzll(all)], 0, sizeof c->busy[0]);
    }
    for (int i = 0; i < c->n; i++) {
        c->arcs[i].given = -1;
        c->arcs[i].key = 0;
    }
    for (int step = 0; step < PATIENCE * c->n && left > 0; step++) {
        int next = -1, best = -1, least = 0;
        for (int i = 0; i < c->n; i++) {
            if (c->arcs[i].given < 0 && (next < 0 || c->arcs[i].length > c->arcs[next].length)) {
                next = i;
            }
        }
        uint64_t bits[WORDS];
        bits_of(&c->arcs[next], c->q->ii * c->q->copies, c->words, bits);
        for (uint64_t all = set; all && (best < 0 || least > 0); all &= all - 1) {
            int r = __builtin_ctzll(all), price = price_of(c, next, bits, r);
            if (best < 0 || price < least) {
                best = r;
                least = price;
            }
        }
        left += give(c, next, bits, best) - 1;
    }
    for (int i = 0; i < c->n && left == 0; i++) {
        const struct arc * a = &c->arcs[i];
        c->q->phys[a->vreg * c->q->copies + a->copy] = a->given;
    }
    return left == 0;
}

static bool allocate_class(struct colouring * c, enum asm_class cls) {
    struct pipeline * q = c->q;
    uint64_t set = asm_class_set(q->p, cls) & ~q->p->global_taken[cls];
    int calm, circle = q->ii * q->copies;
    if (most_alive(c, cls, &calm) > __builtin_popcountll(set)) {
        return false;
    }
    c->n = 0;
    for (int l = 0; l < c->n_locals; l++) {
        int v = c->locals[l];
        for (int copy = 0; copy < q->copies && q->p->vregs[v].cls == cls; copy++) {
            c->arcs[c->n++] = (struct arc){.vreg = (int16_t) v,
                                           .copy = (int8_t) copy,
                                           .start = (q->lives[v].from + copy * q->ii) % circle,
                                           .length = q->lives[v].to - q->lives[v].from};
        }
    }
    // Along the circle from a calm place; longest first; from other places.
    for (int way = 0; way < 2 + CUTS; way++) {
        int from = calm + (way < 2 ? 0 : (way - 1) * circle / (CUTS + 1));
        for (int i = 0; i < c->n; i++) {
            struct arc * a = &c->arcs[i];
            a->key = way == 1 ? -a->length : (a->start - from % circle + circle) % circle;
        }
        if (colour(c, set)) {
            return true;
        }
    }
    return colour_anew(c, set);
}

bool pipeline_allocate(struct pipeline * q) {
    struct colouring c; // whose bits are cleared where they are used
    c.q = q;
    c.n_locals = c.n = 0;
    memset(c.of_class, 0, sizeof c.of_class);
    c.words = (q->ii * q->copies + 63) / 64;
    c.locals = malloc(((size_t) q->n_locals + 1) * sizeof *c.locals);
    c.alive = malloc((size_t) q->ii * sizeof *c.alive);
    bool ok = c.locals && c.alive && q->ii * q->copies <= PIPELINE_MAX_CIRCLE;
    for (int l = 0; l < q->n_locals && ok; l++) {
        int v = q->locals[l];
        if (q->lives[v].from < q->lives[v].to) {
            c.locals[c.n_locals++] = v;
            c.of_class[q->p->vregs[v].cls]++;
        }
    }
    c.arcs = malloc(((size_t) c.n_locals * (size_t) q->copies + 1) * sizeof *c.arcs);
    q->p->no_memory |= !c.locals || !c.alive || !c.arcs;
    ok = ok && c.arcs;
    for (int cls = 0; cls < ASM_CLASS_COUNT && ok; cls++) {
        ok = !c.of_class[cls] || allocate_class(&c, (enum asm_class) cls);
    }
    free(c.locals);
    free(c.alive);
    free(c.arcs);
    return ok;
}

// ---- as it is written down ----

static bool give_class(struct pipeline * q, enum asm_class cls, const char * registers) {
    uint64_t set = asm_class_set(q->p, cls) & ~q->p->global_taken[cls], busy[64][WORDS];
    int circle = q->ii * q->copies, words = (circle + 63) / 64;
    for (uint64_t left = set; left; left &= left - 1) {
        memset(busy[__builtin_ctzll(left)], 0, (size_t) words * sizeof busy[0][0]);
    }
    for (int l = 0; l < q->n_locals; l++) {
        int v = q->locals[l];
        const struct life * life = &q->lives[v];
        if (life->from >= life->to) {
            continue;
        }
        bool is_of_class = q->p->vregs[v].cls == cls;
        for (int copy = 0; copy < q->copies; copy++, registers++) {
            if (!*registers) {
                return false;
            }
            if (!is_of_class) {
                continue;
            }
            struct arc a = {.start = (life->from + copy * q->ii) % circle,
                            .length = life->to - life->from};
            int r = asm_digit_value(*registers);
            uint64_t bits[WORDS];
            if (!(set >> r & 1) || a.length > circle) {
                return false;
            }
            bits_of(&a, circle, words, bits);
            if (!is_free(busy[r], bits, words)) {
                return false;
            }
            for (int w = 0; w < words; w++) {
                busy[r][w] |= bits[w];
            }
            q->phys[v * q->copies + copy] = (int8_t) r;
        }
    }
    return *registers == 0;
}

bool pipeline_give(struct pipeline * q, const char * registers) {
    uint32_t classes = 0;
    for (int l = 0; l < q->n_locals; l++) {
        classes |= 1u << q->p->vregs[q->locals[l]].cls;
    }
    bool ok = q->ii * q->copies <= PIPELINE_MAX_CIRCLE;
    for (; classes && ok; classes &= classes - 1) {
        ok = give_class(q, (enum asm_class) __builtin_ctz(classes), registers);
    }
    return ok;
}

// ---- writing ----

static int first_cycle(const struct pipeline * q) {
    int first = q->time[0];
    for (int i = 1; i < q->deps.count; i++) {
        first = q->time[i] < first ? q->time[i] : first;
    }
    return first;
}

int pipeline_lead_in(const struct pipeline * q) {
    return q->stages > 1 ? (q->stages - 1) * q->ii - first_cycle(q) : 0;
}

static int lead_out(const struct pipeline * q) {
    int end = q->ii;
    for (int i = 0; i < q->deps.count; i++) {
        int done = q->time[i] + asm_drains(q->p->target, asm_instr(q->p, q->op[i]));
        end = done > end ? done : end;
    }
    return end - q->ii;
}

int pipeline_size(const struct pipeline * q) {
    return pipeline_lead_in(q) + q->copies * q->ii + lead_out(q);
}

// Moves of its pointer that node i of a trip comes behind, though it was written before them.
static int moves_before(const struct pipeline * q, int i) {
    int mover = q->deps.nodes[i].mover;
    int behind = mover >= 0 ? q->time[i] - q->time[mover] : 0;
    return behind > 0 ? (behind + q->ii - 1) / q->ii : 0;
}

static void set_offset(const struct pipeline * q, int i, int moves, struct asm_node * n) {
    if (moves > 0) {
        n->args[q->deps.nodes[i].offset].value = deps_offset(&q->deps, i, moves);
    }
}

// Copies of the region's instructions, `copies` times, each with registers of its own. Returns the
// index of the first, -1 without memory.
static int copy_nodes(struct pipeline * q) {
    struct asm_program * p = q->p;
    int base = p->n_nodes;
    int16_t * ids = malloc(((size_t) p->n_vregs + 1) * sizeof *ids);
    p->no_memory |= !ids;
    for (int c = 0; c < q->copies && !p->no_memory; c++) {
        for (int l = 0; l < q->n_locals; l++) {
            int v = q->locals[l];
            bool lives = q->lives[v].from < q->lives[v].to;
            ids[v] =
                lives ? asm_vreg_new(p, p->vregs[v].cls, q->phys[v * q->copies + c]) : (int16_t) v;
        }
        for (int i = 0; i < q->deps.count && !p->no_memory; i++) {
            struct asm_node n = p->nodes[q->deps.first + i];
            for (unsigned left = n.locals; left; left &= left - 1) {
                int16_t * id = &n.args[__builtin_ctz(left)].reg.id;
                *id = ids[*id];
            }
            set_offset(q, i, moves_before(q, i), &n);
            asm_node_copy(p, &n);
        }
    }
    free(ids);
    return p->no_memory ? -1 : base;
}

// Behind the repeated part only the trips that are still to end move their pointers: an instruction
// with `later` trips behind its own may come behind fewer moves than in the repeated part, and then
// has an offset of its own.
static int in_lead_out(struct pipeline * q, int i, int node, int later) {
    int moves = moves_before(q, i);
    if (moves <= later + 1) {
        return node;
    }
    struct asm_node n = q->p->nodes[node];
    set_offset(q, i, later + 1, &n);
    return asm_node_copy(q->p, &n);
}

bool pipeline_write_rolling(struct pipeline * q, int * first, int * last, int * landing) {
    struct asm_program * p = q->p;
    int base = p->n_bundles, nodes = copy_nodes(q);
    q->flow = q->late ? asm_flow_new(q) : NULL;
    asm_idle(p, q->ii);
    *first = base;
    *last = base + q->ii - 1;
    *landing = 0;
    for (int i = 0; nodes >= 0 && !p->no_memory && i < q->deps.count; i++) {
        const struct aie_instr * instr = asm_instr(p, q->op[i]);
        int row = q->time[i] % q->ii, late = row + asm_drains(p->target, instr) - q->ii;
        assert(!(p->bundles[base + row].present >> instr->slot & 1));
        asm_put(p, base + row, nodes + i, q->op[i]);
        asm_flow_issue(q, row, instr->slot, i);
        *landing = late > *landing ? late : *landing;
    }
    if (q->flow) {
        q->flow->first = base;
        q->flow->n = q->ii;
        q->flow->to = q->ii - 1;
        q->flow->rolls = true;
    }
    return nodes >= 0 && !p->no_memory;
}

bool pipeline_write(struct pipeline * q, int * first, int * last) {
    struct asm_program * p = q->p;
    int base = p->n_bundles, nodes = copy_nodes(q);
    q->flow = q->late ? asm_flow_new(q) : NULL;
    asm_idle(p, pipeline_size(q));
    nodes = p->no_memory ? -1 : nodes;
    int start = base + pipeline_lead_in(q) - (q->stages - 1) * q->ii; // of trip 0
    *first = base + pipeline_lead_in(q);
    *last = *first + q->copies * q->ii - 1;
    int trips = q->stages - 1 + q->copies;
    for (int trip = 0; nodes >= 0 && trip < trips; trip++) {
        for (int i = 0; i < q->deps.count; i++) {
            int at = start + trip * q->ii + q->time[i];
            int node = nodes + trip % q->copies * q->deps.count + i;
            node = at > *last ? in_lead_out(q, i, node, trips - 1 - trip) : node;
            assert(!(p->bundles[at].present >> asm_instr(p, q->op[i])->slot & 1));
            asm_put(p, at, node, q->op[i]);
            asm_flow_issue(q, at - base, asm_instr(p, q->op[i])->slot, i);
        }
    }
    if (q->flow) {
        q->flow->first = base;
        q->flow->n = p->n_bundles - base;
        q->flow->from = *first - base;
        q->flow->to = *last - base;
    }
    return nodes >= 0;
}
