// attention-matrix-stream: routes and the instruction stream of prompts in matrix mode. A column
// has items that follow each other, and those of one head of K and V, which differ in queries, come
// together: K and V are brought to the memtile with the first of them, block by block, and from
// there to the cores with each. Where the memtile is too small for all blocks, each item brings
// them, and they pass through it. The next item is told before the results of one are there, where
// queues and descriptors have room for both.
//
//     shim 0  ─────────────── q, then the mask ───────────────►  cores, channel 0
//     shim 1  ── k, v of a block by turns ──►  memtile  ──────►  cores, channel 1
//     shim 0  ◄────────────── results ──────── memtile  ◄──────  cores
#include "attention-matrix.h"

#include "aie/ops/ops.h"

#include <string.h>

enum { IN_ROWS, IN_KEYS }; // channels into a core
enum { MEM_IN_KEYS = 4, MEM_OUT_ROWS = 0, MEM_OUT_KEYS };

// Descriptors. Those of a shim are two, and three for each group of blocks that one descriptor
// repeats: mask, k, v. A memtile has two places for k and v.
enum { CORE_Q, CORE_K, CORE_V, CORE_K_LAST, CORE_V_LAST, CORE_MASK, CORE_MASK_LAST, CORE_OUT };
enum {
    CORE_HALVES = CORE_OUT + 1,
    CORE_HALVES_LAST = CORE_HALVES + 2,
    CORE_Q_OTHERS = CORE_HALVES_LAST + 2
};
enum { SHIM_Q, SHIM_OUT, SHIM_GROUPS };
enum { MEM_ROWS_BD = 4, MEM_FILL };
enum { MEM_SEND = ARRAY_MEM_BD_ODD + 4, MEM_AGAIN = MEM_SEND + 4 };
enum { IN_FLIGHT = 2 }; // items, at most

// The memtile: results of all cores, then blocks of k and v.
enum { RING = 8 }; // where they pass, beside the last one's place
enum { LOCK_ROWS, LOCK_ROWS_EMPTY, LOCK_FULL, LOCK_EMPTY };
const uint8_t mx_mem_locks[MX_MEM_LOCKS] = {[LOCK_ROWS_EMPTY] = AT_CORES, [LOCK_EMPTY] = RING};

struct design {
    const struct kernel_spec * spec;
    const struct at_plan * plan;
    struct flow flow;
    int groups;    // of blocks that a shim's descriptor repeats
    int in_flight; // items of a column
};

struct column { // what was told
    int64_t begun, ended;
    int place; // of k and v
};

void mx_route(struct array * a, int col) {
    static const struct {
        int row, channel;
    } from[] = {{ARRAY_ROW_SHIM, IN_ROWS}, {ARRAY_ROW_MEM, MEM_OUT_KEYS}};
    for (int channel = 0; channel < 2; channel++) {
        struct array_port to[AT_CORES];
        for (int i = 0; i < AT_CORES; i++) {
            to[i] = (struct array_port){col, ARRAY_ROW_CORE + i, channel};
        }
        array_route(a, (struct array_port){col, from[channel].row, from[channel].channel}, to,
                    AT_CORES);
    }
    array_route(a, (struct array_port){col, ARRAY_ROW_SHIM, IN_KEYS},
                &(struct array_port){col, ARRAY_ROW_MEM, MEM_IN_KEYS}, 1);
    for (int i = 0; i < AT_CORES; i++) {
        array_route(a, (struct array_port){col, ARRAY_ROW_CORE + i, 0},
                    &(struct array_port){col, ARRAY_ROW_MEM, i}, 1);
    }
    array_route(a, (struct array_port){col, ARRAY_ROW_MEM, MEM_OUT_ROWS},
                &(struct array_port){col, ARRAY_ROW_SHIM, 0}, 1);
    array_token_route(a, col);
}

// ---- items ----

// A column's items are a row of those that are left when queries go fastest.
static int64_t column_items(const struct at_plan * p) {
    return ops_parts(p->items, p->columns);
}

static int64_t items_of(const struct at_plan * p, int col) {
    int64_t each = column_items(p), left = p->items - col * each;
    return left < 0 ? 0 : left < each ? left : each;
}

static int64_t family_of(const struct at_plan * p, int64_t i) {
    return i / p->query_items;
}

// at_plan_item has queries last.
static struct at_item item_of(const struct at_plan * p, int64_t i) {
    int64_t families = p->kv_heads * p->group_items, family = family_of(p, i);
    int64_t batch = family / families;
    return at_plan_item(p, (batch * p->query_items + i % p->query_items) * families +
                               family % families);
}

// ---- memtile ----

static uint32_t block_words(const struct at_plan * p) { // of k and v
    return (uint32_t) (MX_KEYS * p->dk);
}

static uint32_t blocks_at(const struct at_plan * p) {
    return (uint32_t) (MX_UNITS * MX_UNIT * p->dk * 4);
}

static int64_t most_blocks(const struct at_plan * p) {
    return (ARRAY_MEM_BYTES - blocks_at(p)) / (4 * block_words(p));
}

static bool all_fit(const struct at_plan * p) {
    return p->blocks <= most_blocks(p);
}

static bool fit_twice(const struct at_plan * p) {
    return 2 * p->blocks <= most_blocks(p);
}

static int mem_bd(int core) {
    return (core % 2 ? ARRAY_MEM_BD_ODD : 0) + core / 2;
}

static void write_results(const struct design * d, int col) {
    const struct at_plan * p = d->plan;
    int cores = 0;
    for (; cores < AT_CORES && at_core_rows(p, cores); cores++) {
        struct array_bd bd = {.address = (uint32_t) (cores * p->core_rows * p->dk * 4),
                              .words = (uint32_t) (at_core_rows(p, cores) * p->dk),
                              .next = -1,
                              .acquire = LOCK_ROWS_EMPTY,
                              .acquire_value = -1,
                              .release = LOCK_ROWS,
                              .release_value = 1};
        flow_mem_bd(&d->flow, col, mem_bd(cores), &bd);
    }
    struct array_bd all = {.words = (uint32_t) (p->rows * p->dk),
                           .next = -1,
                           .acquire = LOCK_ROWS,
                           .acquire_value = -cores,
                           .release = LOCK_ROWS_EMPTY,
                           .release_value = cores};
    flow_mem_bd(&d->flow, col, MEM_ROWS_BD, &all);
}

// k and v of a block, or of the last one where that is shorter.
static struct array_bd block_bd(const struct at_plan * p, int place, bool last, int acquire,
                                int release) {
    int64_t blocks = all_fit(p) ? p->turns : RING;
    uint32_t words = block_words(p);
    struct array_bd bd = {.address = blocks_at(p) + (uint32_t) (place * p->blocks) * 4 * words,
                          .words = words,
                          .next = -1,
                          .acquire = acquire,
                          .acquire_value = -1,
                          .release = release,
                          .release_value = 1};
    if (last) {
        bd.address += (uint32_t) blocks * 4 * words;
        bd.words = (uint32_t) (p->last_keys * p->dk);
    } else if (blocks > 1) {
        bd.iterations = (uint32_t) blocks;
        bd.iteration_step = words;
    }
    return bd;
}

// Where a head is two halves, k and v leave by these, all keys of the first and then the second.
static struct array_bd by_halves(const struct at_plan * p, struct array_bd bd) {
    enum { HALF_WORDS = MX_DIM / 2 };
    uint32_t keys = bd.words / (uint32_t) p->dk;
    if (mx_halves(p) > 1) {
        const uint32_t wrap[3] = {HALF_WORDS, keys, 2};
        const uint32_t step[4] = {1, 2 * HALF_WORDS, HALF_WORDS, 2 * HALF_WORDS * keys};
        memcpy(bd.wrap, wrap, sizeof wrap);
        memcpy(bd.step, step, sizeof step);
    }
    return bd;
}

static void write_memtile(const struct design * d, int col) {
    const struct at_plan * p = d->plan;
    int empty = all_fit(p) ? -1 : LOCK_EMPTY;
    write_results(d, col);
    for (int place = 0; place <= fit_twice(p); place++) {
        for (int last = p->turns > 0 ? 0 : 1; last <= !p->even; last++) {
            struct array_bd fill = block_bd(p, place, last, empty, LOCK_FULL);
            struct array_bd send = by_halves(p, block_bd(p, place, last, LOCK_FULL, empty));
            struct array_bd again = by_halves(p, block_bd(p, place, last, -1, -1));
            flow_mem_bd(&d->flow, col, MEM_FILL + 2 * place + last, &fill);
            flow_mem_bd(&d->flow, col, MEM_SEND + 2 * place + last, &send);
            flow_mem_bd(&d->flow, col, MEM_AGAIN + 2 * place + last, &again);
        }
    }
}

static void push_blocks(const struct design * d, int col, uint32_t queue, int bd) {
    struct flow_tile at = {col, ARRAY_ROW_MEM};
    flow_push(&d->flow, at, queue, bd, d->plan->turns, false);
    flow_push(&d->flow, at, queue, bd + 1, !d->plan->even, false);
}

static void push_memtile(const struct design * d, int col, int place, bool filled) {
    const struct at_plan * p = d->plan;
    struct flow_tile at = {col, ARRAY_ROW_MEM};
    if (!filled) {
        push_blocks(d, col, MEM_S2MM_QUEUE + 8 * MEM_IN_KEYS, MEM_FILL + 2 * place);
    }
    push_blocks(d, col, MEM_MM2S_QUEUE + 8 * MEM_OUT_KEYS,
                (filled ? MEM_AGAIN : MEM_SEND) + 2 * place);
    for (int i = 0; i < AT_CORES && at_core_rows(p, i); i++) {
        flow_push(&d->flow, at, MEM_S2MM_QUEUE + 8 * (uint32_t) i, mem_bd(i), 1, false);
    }
    flow_push(&d->flow, at, MEM_MM2S_QUEUE + 8 * MEM_OUT_ROWS, MEM_ROWS_BD, 1, false);
}

// ---- cores ----

static void write_core(const struct design * d, struct flow_tile at, int core) {
    static const struct mx_bds bds = {
        .q = {CORE_Q, CORE_Q_OTHERS, CORE_Q_OTHERS + 1, CORE_Q_OTHERS + 2},
        .out = CORE_OUT,
        .k = {CORE_K, CORE_K_LAST},
        .v = {CORE_V, CORE_V_LAST},
        .v_halves = {{CORE_HALVES, CORE_HALVES_LAST}, {CORE_HALVES + 1, CORE_HALVES_LAST + 1}},
        .mask = {CORE_MASK, CORE_MASK_LAST}};
    mx_write_core_bds(&d->flow, at, d->plan, core, &bds);
}

static void push_core(const struct design * d, struct flow_tile at, int rows) {
    const struct at_plan * p = d->plan;
    const struct flow * f = &d->flow;
    uint32_t first = CORE_S2MM_QUEUE, second = CORE_S2MM_QUEUE + 8 * IN_KEYS;
    flow_push(f, at, first, CORE_Q, 1, false);
    flow_push(f, at, first, CORE_MASK, p->mask ? p->turns : 0, false);
    flow_push(f, at, first, CORE_MASK_LAST, p->mask && !p->even, false);
    flow_push(f, at, second, CORE_K, p->turns, false);
    flow_push(f, at, second, CORE_K_LAST, !p->even, false);
    flow_push(f, at, CORE_MM2S_QUEUE, CORE_OUT, rows > 0, false);
}

// ---- shims ----

struct origin { // of an operand: bytes from its start
    int operand;
    int64_t offset;
};

// Rows of k, of v or of the mask: of so many keys from one on, as many times.
static void keys_from(const struct design * d, int col, int bd, struct origin at, int64_t first,
                      int64_t keys, int64_t runs, int next) {
    const struct tensor * t = &d->spec->inputs[at.operand];
    struct array_bd desc = {.next = next};
    bool mask = at.operand == AT_MASK;
    int64_t rows = mask ? d->plan->item_queries : keys, words = mask ? keys / 2 : d->plan->dk / 2;
    int64_t step = mask ? keys / 2 : keys * at_step_words(t, 1);
    at_set_rows(&desc, (uint32_t) rows, (uint32_t) words, at_step_words(t, 1));
    if (runs > 1) {
        desc.iterations = (uint32_t) runs;
        desc.iteration_step = (uint32_t) step;
    }
    flow_shim_bd(&d->flow, col, bd, &desc, at.operand,
                 (uint32_t) (at.offset + (mask ? 2 * first : first * t->nb[1])));
}

// Blocks of one operand, or of two by turns.
static void bring_blocks(const struct design * d, int col, int channel, int bd,
                         const struct origin * from, int n) {
    const struct at_plan * p = d->plan;
    struct flow_tile at = {col, ARRAY_ROW_SHIM};
    int64_t done = 0;
    for (int group = 0; group < d->groups; group++, bd += n) {
        int64_t left = p->turns - done, runs = left > AT_MOST_RUNS ? AT_MOST_RUNS : left ? left : 1;
        for (int i = 0; i < n; i++) {
            keys_from(d, col, bd + i, from[i], done * MX_KEYS, left ? MX_KEYS : p->last_keys, runs,
                      i + 1 < n ? bd + i + 1 : -1);
        }
        flow_push(&d->flow, at, SHIM_MM2S_QUEUE + 8 * (uint32_t) channel, bd, runs, false);
        done += runs;
    }
}

static void bring_rows(const struct design * d, int col, int bds, const struct at_item * item) {
    const struct at_plan * p = d->plan;
    const struct tensor * q = &d->spec->inputs[AT_Q];
    struct array_bd rows = {
        .words = (uint32_t) (p->rows * p->dk),
        .next = -1,
        .wrap = {(uint32_t) p->dk, (uint32_t) p->item_queries},
        .step = {1, at_step_words(q, 1), at_step_words(q, 2)},
    };
    flow_shim_bd(
        &d->flow, col, bds + SHIM_Q, &rows, AT_Q,
        (uint32_t) (item->batch * q->nb[3] + item->head * q->nb[2] + item->query * q->nb[1]));
    flow_push(&d->flow, (struct flow_tile){col, ARRAY_ROW_SHIM}, SHIM_MM2S_QUEUE, bds + SHIM_Q, 1,
              false);
}

static void bring_keys(const struct design * d, int col, int bds, const struct at_item * item) {
    const struct tensor *k = &d->spec->inputs[AT_K], *v = &d->spec->inputs[AT_V];
    int64_t batch = item->batch / (d->plan->batches / k->ne[3]);
    const struct origin from[2] = {{AT_K, batch * k->nb[3] + item->kv_head * k->nb[2]},
                                   {AT_V, batch * v->nb[3] + item->kv_head * v->nb[2]}};
    bring_blocks(d, col, IN_KEYS, bds + SHIM_GROUPS + d->groups, from, 2);
}

static void bring_mask(const struct design * d, int col, int bds, const struct at_item * item) {
    const struct tensor * mask = &d->spec->inputs[AT_MASK];
    const struct origin from = {AT_MASK, item->batch % mask->ne[3] * mask->nb[3] +
                                             item->query * mask->nb[1]};
    bring_blocks(d, col, IN_ROWS, bds + SHIM_GROUPS, &from, 1);
}

static void fetch(const struct design * d, int col, int bds, const struct at_item * item) {
    const struct at_plan * p = d->plan;
    const struct tensor * to = &d->spec->output;
    struct array_bd out = {.words = (uint32_t) (p->rows * p->dk),
                           .next = -1,
                           .wrap = {(uint32_t) p->dk, (uint32_t) p->item_queries},
                           .step = {1, at_step_words(to, 2), (uint32_t) p->dk}};
    flow_shim_bd(
        &d->flow, col, bds + SHIM_OUT, &out, d->spec->n_inputs,
        (uint32_t) (item->batch * to->nb[3] + item->query * to->nb[2] + item->head * 4 * p->dk));
    flow_push(&d->flow, (struct flow_tile){col, ARRAY_ROW_SHIM}, SHIM_S2MM_QUEUE, bds + SHIM_OUT, 1,
              true);
}

// ---- steps ----

// Until so many items of a column are over.
static void wait_for(const struct design * d, int col, struct column * c, int64_t items) {
    for (; c->ended < items; c->ended++) {
        flow_wait(&d->flow, col, 0);
    }
}

struct step { // an item of a column
    struct at_item item;
    int64_t nth;
    int bds, place;
    bool filled; // k and v are in the memtile
};

static struct step next_step(const struct design * d, int col, struct column * c) {
    const struct at_plan * p = d->plan;
    int64_t nth = c->begun++, i = col * column_items(p) + nth;
    bool same = nth > 0 && family_of(p, i) == family_of(p, i - 1);
    // What is filled anew must not be on its way to cores.
    bool alone = all_fit(p) && !fit_twice(p) && !same;
    c->place = fit_twice(p) && nth > 0 && !same ? 1 - c->place : c->place;
    wait_for(d, col, c, alone ? nth : nth - d->in_flight + 1);
    return (struct step){.item = item_of(p, i),
                         .nth = nth,
                         .bds = (int) (nth % d->in_flight) * (SHIM_GROUPS + 3 * d->groups),
                         .place = c->place,
                         .filled = all_fit(p) && same};
}

static void start_rows(const struct design * d, int col, const struct step * s) {
    const struct at_plan * p = d->plan;
    bring_rows(d, col, s->bds, &s->item);
    for (int core = 0; core < AT_CORES; core++) {
        struct flow_tile at = {col, ARRAY_ROW_CORE + core};
        int rows = at_core_rows(p, core);
        if (s->nth == 0) {
            mx_write_params(&d->flow, at, d->spec, p, core, (uint32_t) items_of(p, col));
            write_core(d, at, core);
        }
        push_core(d, at, rows);
        if (s->nth == 0) {
            flow_go(&d->flow, at, AT_LOCK_GO);
        }
    }
}

static void start_keys(const struct design * d, int col, const struct step * s) {
    if (s->nth == 0) {
        write_memtile(d, col);
        flow_expect(&d->flow, col, 0);
    }
    if (!s->filled) {
        bring_keys(d, col, s->bds, &s->item);
    }
    push_memtile(d, col, s->place, s->filled);
    if (d->plan->mask) {
        bring_mask(d, col, s->bds, &s->item);
    }
    fetch(d, col, s->bds, &s->item);
}

enum status mx_stream(const struct kernel_spec * spec, const struct at_plan * p, uint32_t ** insts,
                      size_t * n_words, struct error * err) {
    struct txn t;
    struct design d = {.spec = spec,
                       .plan = p,
                       .flow = {.t = &t, .target = aie_target(spec->arch)},
                       .groups = (int) ops_parts(p->turns, AT_MOST_RUNS) + !p->even};
    struct column columns[MX_MOST_COLUMNS] = {0};
    d.in_flight = d.groups == 1 ? IN_FLIGHT : 1;
    txn_begin(&t, p->array_columns, d.flow.target->device_generation);
    for (int64_t nth = 0; nth < column_items(p); nth++) {
        for (int col = 0; col < p->columns && nth < items_of(p, col); col++) {
            struct step s = next_step(&d, col, &columns[col]);
            start_rows(&d, col, &s);
            start_keys(&d, col, &s);
        }
    }
    for (int col = 0; col < p->columns; col++) {
        wait_for(&d, col, &columns[col], items_of(p, col));
    }
    return txn_end(&t, insts, n_words, err);
}
