// attention-matrix-array: what the array is told where prompts run in matrix mode: which shapes,
// how items are made up of units, the descriptors of the cores and their parameters. All else is as
// attention-array.c has it: the same routes, shims and memtiles.
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
    return spec->arch == AIE_ARCH_AIE2 && p->dk == MX_DIM && p->dv == MX_DIM && !p->k_bits &&
           !p->v_bits && !p->sinks && !p->part && !p->head_masks &&
           p->queries >= MX_LEAST_QUERIES && !spec->params[AT_ARG_MAX_BIAS] &&
           !spec->params[AT_ARG_SOFTCAP] &&
           // Rows of a mask come by eight keys.
           (!p->mask || (p->n_kv % 8 == 0 && mask->ne[0] >= p->n_kv));
}

// A block of a core: two loops of conversion, the products of its units, and for each of these
// soft-max; and what an item begins and ends with.
uint64_t mx_cycles(const struct kernel_spec * spec, const struct at_plan * p) {
    enum { CONVERT = 1200, BLOCK = 1400, UNIT = 5000, MASK = 3600, ITEM = 16000 };
    uint64_t units = (uint64_t) (p->core_rows / MX_UNIT);
    uint64_t block = BLOCK + units * (UNIT + (p->mask ? MASK : 0));
    block += spec->inputs[AT_K].dtype == DTYPE_F16 ? CONVERT : 0;
    block += spec->inputs[AT_V].dtype == DTYPE_F16 ? CONVERT : 0;
    return (uint64_t) ops_parts(p->items, p->columns) * (ITEM + (uint64_t) p->blocks * block);
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
    p->turns = p->blocks - 1;
    int64_t step = p->keys * spec->inputs[AT_K].nb[1] / 4; // in words, from turn to turn
    return p->blocks <= ARRAY_MAX_REPEAT + 1 &&
           (!p->mask || (p->blocks <= AT_MOST_TURNS && (p->turns < 2 || step <= 1 << 20)));
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

void mx_write_core_bds(const struct flow * f, struct flow_tile at, const struct at_plan * p,
                       int rows, const struct mx_bds * bds) {
    enum { ROW = MX_DIM / 2 };
    uint32_t queries = (uint32_t) p->item_queries;
    struct array_bd q = core_bd(MX_RAW, (uint32_t) p->rows * MX_DIM, AT_LOCK_Q_EMPTY,
                                AT_LOCK_Q_FULL, -1, WORDS(MX_DIM, 4), WORDS(4, 1, 4 * MX_DIM));
    flow_core_bd(f, at, bds->q, &q);
    for (int last = p->blocks > 1 ? 0 : 1; last < 2; last++) {
        uint32_t keys = (uint32_t) (last ? p->last_keys : MX_KEYS);
        struct array_bd k = core_bd(MX_K, keys * ROW, AT_LOCK_K_EMPTY, AT_LOCK_K_FULL, -1,
                                    WORDS(4, MX_DIM / 8), WORDS(1, 4 * MX_KEYS, 4));
        struct array_bd v = core_bd(MX_V, keys * ROW, AT_LOCK_V_EMPTY, AT_LOCK_V_FULL, -1,
                                    WORDS(2, MX_DIM / 4), WORDS(1, 2 * MX_KEYS, 2));
        flow_core_bd(f, at, bds->k[last], &k);
        flow_core_bd(f, at, bds->v[last], &v);
        if (p->mask) {
            struct array_bd mask =
                core_bd(MX_MASK, queries * keys / 2, AT_LOCK_MASK_EMPTY, AT_LOCK_MASK_FULL,
                        bds->k[last], WORDS(4, keys / 8), WORDS(1, 4 * queries, 4));
            flow_core_bd(f, at, bds->mask[last], &mask);
        }
    }
    if (rows) {
        struct array_bd out =
            core_bd(MX_OUT, (uint32_t) rows * MX_DIM, AT_LOCK_OUT_FULL, AT_LOCK_OUT_EMPTY, -1,
                    WORDS(MX_DIM, 4), WORDS(4, 1, 4 * MX_DIM));
        flow_core_bd(f, at, bds->out, &out);
    }
}

// ---- parameters ----

void mx_write_params(const struct flow * f, struct flow_tile at, const struct kernel_spec * spec,
                     const struct at_plan * p, int core, uint32_t items) {
    enum { TRIP = 32 /* numbers that are made bf16 */, MASK_UNIT = 16 * MX_UNIT };
    uint32_t window = f->target->own_window, units = (uint32_t) at_core_rows(p, core) / MX_UNIT;
    uint32_t first = (uint32_t) (core * p->core_rows / MX_UNIT), sixteens = sixteens_of(p);
    uint32_t mask = first % sixteens, next = (first + 1) % sixteens;
    uint32_t last = (uint32_t) p->last_keys, numbers = MX_DIM * MX_KEYS;
    float by;
    uint32_t scale;
    memcpy(&by, &spec->params[AT_ARG_SCALE], sizeof by);
    by *= LOG2_E;
    memcpy(&scale, &by, sizeof scale);
    const uint32_t words[MX_PARAM_TOLD] = {
        [MX_PARAM_ITEMS] = items,
        [MX_PARAM_UNITS] = first < units_of(p) ? units : 0,
        [MX_PARAM_BLOCKS] = (uint32_t) p->blocks,
        [MX_PARAM_SHORT] = last < MX_KEYS,
        [MX_PARAM_END] = last / 4 * 4 * MX_TILE,
        [MX_PARAM_END_LANES] = (1u << last % 4 * 4) - 1,
        [MX_PARAM_END_TILES] = last < MX_KEYS ? (MX_KEYS / 4 - 1 - last / 4) * 4 : 0,
        [MX_PARAM_K_TRIPS] = spec->inputs[AT_K].dtype == DTYPE_F16 ? numbers / TRIP : 0,
        [MX_PARAM_V_TRIPS] = spec->inputs[AT_V].dtype == DTYPE_F16 ? numbers / TRIP : 0,
        [MX_PARAM_RAW] = window + MX_RAW + first * MX_UNIT * MX_DIM * 4,
        [MX_PARAM_MASK] = p->mask ? window + MX_MASK + mask * MASK_UNIT : 0,
        [MX_PARAM_MASK_WRAP] = sixteens * MASK_UNIT - 3 * MX_TILE,
        [MX_PARAM_MASK_NEXT] = (next - mask) * MASK_UNIT,
        [MX_PARAM_SCALE] = scale,
    };
    txn_block_write(f->t, image_addr(at.col, at.row, AT_POOL + 32 * AT_SLOT_PARAMS), words,
                    MX_PARAM_TOLD);
}
