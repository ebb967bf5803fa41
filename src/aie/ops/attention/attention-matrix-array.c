// attention-matrix-array: what the array is told where prompts run in matrix mode: which shapes,
// how items are made up of units, the descriptors of the cores and their parameters.
#include "attention-matrix.h"

#include "aie/ops/ops.h"

#include <string.h>

#define LOG2_E 1.44269504f

static uint32_t units_of(const struct at_plan * p) {
    return (uint32_t) p->rows / MX_UNIT;
}

static uint32_t sixteens_of(const struct at_plan * p) {
    return (uint32_t) p->item_queries / MX_UNIT;
}

// ---- which shapes ----

static bool takes(const struct kernel_spec * spec, const struct at_plan * p) {
    const struct tensor * mask = &spec->inputs[AT_MASK];
    return spec->arch == AIE_ARCH_AIE2 && (p->dk == MX_DIM || p->dk == 2 * MX_DIM) &&
           p->dv == p->dk && !p->k_bits && !p->v_bits && !p->sinks && !p->part && !p->head_masks &&
           p->queries >= MX_LEAST_QUERIES && !spec->params[AT_ARG_MAX_BIAS] &&
           !spec->params[AT_ARG_SOFTCAP] &&
           // Rows of a mask come by eight keys.
           (!p->mask || (p->n_kv % 8 == 0 && mask->ne[0] >= p->n_kv));
}

// Beside what a kernel begins with. A block of a core: two loops of conversion, the products and
// the soft-max of its units, but no less than its keys and values take on their way; and what an
// item begins and ends with, which is more where its queues leave no room for the next one.
uint64_t mx_cycles(const struct kernel_spec * spec, const struct at_plan * p) {
    static const struct costs {
        uint64_t convert, block, unit, mask, stream, item, item_alone, block_alone, first;
    } costs[] = {
        {400, 1100, 1740, 790, 4590, 16200, 41300, 0, 0},
        {550, 2000, 3050, 1130, 8200, 21400, 17000, 9000, 37000}, // by halves
    };
    const struct costs * c = &costs[mx_halves(p) - 1];
    uint64_t units = (uint64_t) (p->core_rows / MX_UNIT);
    uint64_t block = c->block + units * (c->unit + (p->mask ? c->mask : 0));
    block += spec->inputs[AT_K].dtype == DTYPE_F16 ? c->convert : 0;
    block += spec->inputs[AT_V].dtype == DTYPE_F16 ? c->convert : 0;
    block = (block < c->stream ? c->stream : block) + (p->even ? 0 : c->block_alone);
    return c->first + (uint64_t) ops_parts(p->items, p->columns) *
                          ((p->even ? c->item : c->item_alone) + (uint64_t) p->blocks * block);
}

bool mx_plan(const struct kernel_spec * spec, struct at_plan * p) {
    if (!takes(spec, p)) {
        return false;
    }
    p->matrix = true;
    p->item_heads = p->group < MX_UNITS ? p->group : MX_UNITS;
    p->group_items = ops_parts(p->group, p->item_heads);
    int64_t sixteens = MX_UNITS / p->item_heads, others = p->batches * p->kv_heads * p->group_items;
    sixteens = sixteens < MX_MOST_QUERIES / MX_UNIT ? sixteens : MX_MOST_QUERIES / MX_UNIT;
    // No more than there are, nor than leave an item for each column.
    while (sixteens > 1 && (sixteens * MX_UNIT > p->queries ||
                            others * ops_parts(p->queries, sixteens * MX_UNIT) < p->columns)) {
        sixteens--;
    }
    p->item_queries = sixteens * MX_UNIT;
    p->query_items = ops_parts(p->queries, p->item_queries);
    p->items = others * p->query_items;
    p->rows = (int) (p->item_heads * p->item_queries);
    p->core_rows = (int) (ops_parts(p->rows / MX_UNIT, AT_CORES) * MX_UNIT);
    p->keys = MX_KEYS;
    p->blocks = ops_parts(p->n_kv, MX_KEYS);
    p->last_keys = p->n_kv - (p->blocks - 1) * MX_KEYS;
    p->mask_blocks = 1;
    p->even = p->last_keys == MX_KEYS;
    p->turns = p->even ? p->blocks : p->blocks - 1;
    for (int i = AT_K; i <= AT_V; i++) { // in words, from turn to turn
        if (p->turns > 1 && p->keys * spec->inputs[i].nb[1] / 4 > 1 << 20) {
            return false;
        }
    }
    return p->blocks <= AT_MOST_TURNS && p->columns <= MX_MOST_COLUMNS;
}

// ---- descriptors ----

// Words that come one behind the other, in places that a descriptor of three dimensions says.
static struct array_bd core_bd(uint32_t address, uint32_t words, int acquire, int release, int next,
                               const uint32_t wrap[2], const uint32_t step[3]) {
    struct array_bd bd = {.address = address,
                          .words = words,
                          .next = next,
                          .acquire = acquire,
                          .acquire_value = -1,
                          .release = release,
                          .release_value = 1};
    memcpy(bd.wrap, wrap, 2 * sizeof wrap[0]);
    memcpy(bd.step, step, 3 * sizeof step[0]);
    return bd;
}

#define WORDS(...)                                                                                 \
    (const uint32_t[]) {                                                                           \
        __VA_ARGS__                                                                                \
    }

// Rows of q: all of them, or where they are long those of each core by themselves, of which the
// others' go where p will be.
static void write_q(const struct flow * f, struct flow_tile at, const struct at_plan * p, int core,
                    const struct mx_bds * bds) {
    enum { FEW = 64 };
    uint32_t dim = (uint32_t) p->dk;
    bool apart = mx_halves(p) > 1;
    int cores = 0;
    for (; cores < AT_CORES && at_core_rows(p, cores); cores++) {
    }
    for (int i = 0; i < (apart ? cores : 1); i++) {
        uint32_t words = dim * (uint32_t) (apart ? at_core_rows(p, i) : p->rows);
        bool last = !apart || i == cores - 1, own = !apart || i == core;
        struct array_bd q = own ? core_bd(MX_RAW, words, AT_LOCK_Q_EMPTY, AT_LOCK_Q_FULL, -1,
                                          WORDS(dim, 4), WORDS(4, 1, 4 * dim))
                                : core_bd((uint32_t) mx_layout_of(p)->p, words, AT_LOCK_Q_EMPTY,
                                          AT_LOCK_Q_FULL, -1, WORDS(FEW, FEW), WORDS(1, 1, 1));
        q.acquire = i == 0 ? q.acquire : -1;
        q.release = last ? q.release : -1;
        q.next = last ? -1 : bds->q[i + 1];
        flow_core_bd(f, at, bds->q[i], &q);
    }
}

// k and v of a block, or their halves: k's, then v's.
static void write_keys(const struct flow * f, struct flow_tile at, const struct at_plan * p,
                       int last, const struct mx_bds * bds) {
    uint32_t words = (uint32_t) (last ? p->last_keys : MX_KEYS) * MX_DIM / 2;
    int n = 2 * mx_halves(p);
    const int bd[] = {bds->k[last], bds->v[last], bds->v_halves[0][last], bds->v_halves[1][last]};
    for (int i = 0; i < n; i++) {
        bool is_k = i < n / 2;
        int acquire = i % 2 ? AT_LOCK_V_EMPTY : AT_LOCK_K_EMPTY;
        int release = i % 2 ? AT_LOCK_V_FULL : AT_LOCK_K_FULL;
        uint32_t run = is_k ? 4 : 2;
        struct array_bd half =
            core_bd(i % 2 ? MX_V : MX_K, words, acquire, release, i + 1 < n ? bd[i + 1] : -1,
                    WORDS(run, MX_DIM / 2 / run), WORDS(1, run * MX_KEYS, run));
        flow_core_bd(f, at, bd[i], &half);
    }
}

void mx_write_core_bds(const struct flow * f, struct flow_tile at, const struct at_plan * p,
                       int core, const struct mx_bds * bds) {
    uint32_t queries = (uint32_t) p->item_queries, dim = (uint32_t) p->dk;
    int rows = at_core_rows(p, core);
    write_q(f, at, p, core, bds);
    for (int last = p->turns > 0 ? 0 : 1; last <= !p->even; last++) {
        uint32_t keys = (uint32_t) (last ? p->last_keys : MX_KEYS);
        write_keys(f, at, p, last, bds);
        if (p->mask) {
            struct array_bd mask =
                core_bd(MX_MASK, queries * keys / 2, AT_LOCK_MASK_EMPTY, AT_LOCK_MASK_FULL, -1,
                        WORDS(4, keys / 8), WORDS(1, 4 * queries, 4));
            flow_core_bd(f, at, bds->mask[last], &mask);
        }
    }
    if (rows) {
        struct array_bd out =
            core_bd((uint32_t) mx_layout_of(p)->out, (uint32_t) rows * dim, AT_LOCK_OUT_FULL,
                    AT_LOCK_OUT_EMPTY, -1, WORDS(dim, 4), WORDS(4, 1, 4 * dim));
        flow_core_bd(f, at, bds->out, &out);
    }
}

// ---- parameters ----

float mx_bf16(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    bits &= 0xffff0000u;
    memcpy(&v, &bits, sizeof v);
    return v;
}

uint32_t mx_twice(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return (bits >> 16) * 0x10001u;
}

void mx_write_params(const struct flow * f, struct flow_tile at, const struct kernel_spec * spec,
                     const struct at_plan * p, int core, uint32_t items) {
    enum { TRIP = 32 /* numbers that are made bf16 */, MASK_UNIT = 16 * MX_UNIT };
    uint32_t window = f->target->own_window, units = (uint32_t) at_core_rows(p, core) / MX_UNIT;
    uint32_t first = (uint32_t) (core * p->core_rows / MX_UNIT), sixteens = sixteens_of(p);
    uint32_t mask = first % sixteens, next = (first + 1) % sixteens;
    uint32_t last = (uint32_t) p->last_keys, numbers = MX_DIM * MX_KEYS;
    bool k_f16 = spec->inputs[AT_K].dtype == DTYPE_F16,
         v_f16 = spec->inputs[AT_V].dtype == DTYPE_F16;
    float by;
    memcpy(&by, &spec->params[AT_ARG_SCALE], sizeof by);
    by *= k_f16 ? (float) (LOG2_E * MX_F16_UP) : LOG2_E;
    const uint32_t words[MX_PARAM_TOLD] = {
        [MX_PARAM_ITEMS] = items,
        [MX_PARAM_UNITS] = first < units_of(p) ? units : 0,
        [MX_PARAM_BLOCKS] = (uint32_t) p->blocks,
        [MX_PARAM_SHORT] = last < MX_KEYS,
        [MX_PARAM_END] = last / 4 * 4 * MX_TILE,
        [MX_PARAM_END_LANES] = (1u << last % 4 * 4) - 1,
        [MX_PARAM_END_TILES] = last < MX_KEYS ? (MX_KEYS / 4 - 1 - last / 4) * 4 : 0,
        [MX_PARAM_K_TRIPS] = k_f16 ? numbers / TRIP : 0,
        [MX_PARAM_V_TRIPS] = v_f16 ? numbers / TRIP : 0,
        [MX_PARAM_RAW] = window + MX_RAW + (mx_halves(p) > 1 ? 0 : first * MX_UNIT * MX_DIM * 4),
        [MX_PARAM_MASK] = p->mask ? window + MX_MASK + mask * MASK_UNIT : 0,
        [MX_PARAM_MASK_WRAP] = sixteens * MASK_UNIT - 3 * MX_TILE,
        [MX_PARAM_MASK_NEXT] = (next - mask) * MASK_UNIT,
        [MX_PARAM_SCALE] = mx_twice(by),
        [MX_PARAM_SCALE_REST] = mx_twice(by - mx_bf16(by)),
        [MX_PARAM_OUT_UP] = v_f16 ? MX_F16_EXPONENT << 23 : 0,
    };
    txn_block_write(f->t, image_addr(at.col, at.row, AT_POOL + 32 * AT_SLOT_PARAMS), words,
                    MX_PARAM_TOLD);
}
