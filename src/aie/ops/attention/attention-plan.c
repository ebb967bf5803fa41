// attention-plan: which rows an item has, how many keys a block, and where everything lies in a
// core. Rows of q come where k and v will be, as f32; the core makes them bf16 before it lets k and
// v in.
#include "attention-matrix.h"

#include "aie/ops/mixed.h"
#include "aie/plan/bound.h"

#include <string.h>

static uint32_t up(int64_t n, int64_t to) {
    return (uint32_t) ((n + to - 1) / to * to);
}

static enum status refuse(struct error * err, const char * why) {
    return error_set(err, ST_UNSUPPORTED, "attention: %s", why);
}

// ---- operands ----

static bool is_half(enum dtype t) {
    return t == DTYPE_F16 || t == DTYPE_BF16;
}

// Rows begin at whole words, and the steps of the first `walked` dimensions behind rows fit a
// descriptor.
static bool can_move(const struct tensor * t, int walked) {
    enum { MOST_STEP = 1 << 22 }; // bytes
    bool good = t->nb[0] == dtype_size(t->dtype);
    for (int d = 1; d < TENSOR_DIMS; d++) {
        good &= t->ne[d] <= 1 || (t->nb[d] % 4 == 0 && t->nb[d] >= 0);
        good &= t->ne[d] <= 1 || d > walked || t->nb[d] < MOST_STEP;
    }
    return good && tensor_bytes(t) <= UINT32_MAX;
}

// The bits of quantized numbers that come as words, in blocks of 32 with a scale of f16. -1: they
// do not.
static int bits_of(const struct tensor * t, int64_t numbers) {
    static const int bits[] = {8, 4};
    for (int i = 0; i < 2; i++) {
        int64_t chunk = AT_CHUNK * bits[i] / 32 + 1;
        if (t->dtype == DTYPE_I32 && numbers % AT_CHUNK == 0 &&
            t->ne[0] == numbers / AT_CHUNK * chunk) {
            return bits[i];
        }
    }
    return is_half(t->dtype) && t->ne[0] == numbers ? 0 : -1;
}

// Results: the heads of a query behind each other. Queries may have more heads than are asked for.
static bool are_rows(const struct tensor * t) {
    return can_move(t, 2) && (t->ne[1] <= 1 || t->nb[1] == 4 * t->ne[0]);
}

static bool same(const struct tensor * a, const struct tensor * b, int d) {
    return a->ne[d] == b->ne[d];
}

static enum status check_mask(const struct tensor * mask, struct at_plan * p, struct error * err) {
    if (mask->dtype != DTYPE_F16 || mask->ne[0] < p->n_kv || mask->ne[1] < p->queries ||
        p->heads % mask->ne[2] || p->batches % mask->ne[3]) {
        return refuse(err, "a mask that is not f16 or does not fit");
    }
    p->head_masks = mask->ne[2] > 1;
    if (p->head_masks && (mask->ne[2] != p->heads || mask->nb[2] % 4 || !can_move(mask, 2))) {
        return refuse(err, "masks for some heads each, or too far apart");
    }
    if (mask->nb[0] != 2 || (p->queries > 1 && mask->nb[1] % 4) || mask->nb[3] % 4 ||
        mask->ne[0] < (p->n_kv + 1) / 2 * 2) {
        return refuse(err, "rows of a mask that do not begin and end on words");
    }
    return ST_OK;
}

static enum status check(const struct kernel_spec * spec, struct at_plan * p, struct error * err) {
    const struct tensor *q = &spec->inputs[AT_Q], *k = &spec->inputs[AT_K],
                        *v = &spec->inputs[AT_V], *out = &spec->output;
    const struct tensor * mask = &spec->inputs[AT_MASK];
    const struct tensor * sinks = &spec->inputs[AT_SINKS];
    if (spec->n_inputs < AT_MASK || spec->n_inputs > AT_INPUTS) {
        return refuse(err, "three to five inputs");
    }
    p->mask = spec->n_inputs > AT_MASK && tensor_elements(mask) > 0;
    p->sinks = spec->n_inputs > AT_SINKS && tensor_elements(sinks) > 0;
    p->dk = q->ne[0];
    p->out_words = out->ne[0];
    p->part = bits_of(v, out->ne[0]) < 0; // a length is no multiple of 64 with and without more
    p->dv = p->part ? out->ne[0] - AT_PART_WORDS : out->ne[0];
    p->k_bits = bits_of(k, p->dk);
    p->v_bits = bits_of(v, p->dv);
    p->k_words = p->k_bits ? k->ne[0] : p->dk / 2;
    p->v_words = p->v_bits ? v->ne[0] : p->dv / 2;
    if (q->dtype != DTYPE_F32 || out->dtype != DTYPE_F32 || p->k_bits < 0 || p->v_bits < 0) {
        return refuse(err, "queries and results are f32, keys and values of their length f16, bf16 "
                           "or words of whole pairs of blocks");
    }
    p->queries = q->ne[1];
    p->heads = q->ne[2];
    p->batches = q->ne[3];
    p->n_kv = k->ne[1];
    p->kv_heads = k->ne[2];
    if (tensor_elements(q) == 0 || tensor_elements(k) == 0 || tensor_elements(v) == 0) {
        return refuse(err, "an operand has no elements");
    }
    if (!same(k, v, 1) || !same(k, v, 2) || !same(k, v, 3) || p->heads % p->kv_heads ||
        p->batches % k->ne[3] || out->ne[1] != p->heads || out->ne[2] != p->queries ||
        out->ne[3] != p->batches || !are_rows(out)) {
        return refuse(err, "operands do not fit together");
    }
    if (p->dk % 8 || p->dv % 8) {
        return refuse(err, "heads of a size that is no multiple of 8");
    }
    if ((p->dk % AT_LANES && p->dk > 248) || (p->dv % AT_LANES && p->dv > 248) || p->dk > 1016 ||
        p->dv > 1016) {
        return refuse(err, "heads of such a size");
    }
    if (!can_move(q, 2) || !can_move(k, 1) || !can_move(v, 1)) {
        return refuse(err, "rows that do not begin on words, or lie too far apart");
    }
    enum status st = p->mask ? check_mask(mask, p, err) : ST_OK;
    if (st != ST_OK) {
        return st;
    }
    if (p->sinks &&
        (sinks->dtype != DTYPE_F32 || sinks->nb[0] != 4 || tensor_elements(sinks) != p->heads)) {
        return refuse(err, "sinks that are not an f32 for each head");
    }
    if (p->queries > INT32_MAX || p->n_kv > INT32_MAX / 2) {
        return refuse(err, "too many queries or keys");
    }
    return ST_OK;
}

// ---- the core's memory ----

// Lays out an item of so many rows; false: it does not fit.
static bool lay_out(struct at_plan * p, int64_t heads, int64_t queries) {
    int64_t rows = heads * queries;
    p->item_heads = heads;
    p->item_queries = queries;
    p->rows = (int) rows;
    p->core_rows = (int) ((rows + p->cores - 1) / p->cores);
    uint32_t paired = up(p->core_rows, 2);
    uint32_t at = AT_FREE;
    p->k = at;
    at += (uint32_t) (p->keys * 2 * p->dk);
    p->v = at;
    at += (uint32_t) p->keys * p->v_row;
    uint32_t raw = AT_FREE + up(rows, 1) * p->q_raw_row;
    at = up(at > raw ? at : raw, 64);
    p->q = at;
    at += paired * p->q_row + AT_MARGIN;
    p->s = at;
    at += paired * p->s_row;
    p->o = at;
    at += paired * p->o_row;
    p->state = at;
    at += paired * AT_STATE_STEP;
    p->masks = at;
    at += p->mask ? (uint32_t) at_mask_rows(p) * p->mask_row : 0;
    p->passing = at = up(at, 64);
    at += p->halves > 1 && !p->mixed ? 4 * AT_PASSING : 0;
    p->end = at;
    return at <= AT_END && p->core_rows <= AT_MOST_ROWS && rows <= AT_MOST_GROUP;
}

static void use_keys(struct at_plan * p, int64_t keys) {
    p->keys = keys;
    // As f32 first; as bf16, which is half as long, with a margin behind it.
    p->s_row = keys < AT_MARGIN / 2 ? up(2 * keys + AT_MARGIN, 64) : (uint32_t) (4 * keys);
    p->blocks = (p->n_kv + keys - 1) / keys;
    p->last_keys = p->n_kv - (p->blocks - 1) * keys;
    // The mask of more than one block at once takes memory: only where there are many.
    p->mask_blocks = (p->blocks + AT_MOST_TURNS - 1) / AT_MOST_TURNS;
    p->turns = (p->blocks - 1) / p->mask_blocks;
    p->mask_row = (uint32_t) (2 * keys * p->mask_blocks);
}

// As many rows as fit: all heads of a group first, whose keys and values they share, then queries.
static bool choose_rows(struct at_plan * p) {
    int64_t heads = p->group < AT_MOST_GROUP ? p->group : AT_MOST_GROUP;
    while (heads > 1 && !lay_out(p, heads, 1)) {
        heads--;
    }
    if (!lay_out(p, heads, 1)) {
        return false;
    }
    // No more than leave an item for each column.
    int64_t others = p->kv_heads * p->batches, parts = (p->columns + others - 1) / others;
    int64_t most = heads == p->group ? (p->queries + parts - 1) / parts : 1, queries = 1;
    while (queries < most && lay_out(p, heads, queries + 1)) {
        queries++;
    }
    return lay_out(p, heads, queries);
}

static bool choose(struct at_plan * p) {
    p->q_raw_row = 4 * up(p->dk, AT_LANES);
    p->q_row = 2 * up(p->dk, 2 * AT_LANES);
    p->v_row = 2 * up(p->dv, AT_LANES);
    p->o_row = 4 * up(p->dv, AT_LANES);
    // k and v have a quarter of the memory each, or more where a head is long.
    int64_t wide = p->dk > p->dv ? p->dk : p->dv, keys = AT_MOST_KEYS;
    while (keys > AT_LANES && 2 * keys * wide > 0x4000) {
        keys /= 2;
    }
    int64_t most = up(p->n_kv, AT_LANES);
    use_keys(p, keys < most ? keys : most);
    return choose_rows(p);
}

// Can one channel bring all that an item's cores want? That is told by two sets of descriptors, the
// second for the last block. Steps are those from block to block, in words.
static bool is_small(const struct at_plan * p, int64_t k_step, int64_t v_step) {
    return p->mask_blocks == 1 && (p->turns < 2 || (k_step <= 1 << 20 && v_step <= 1 << 20));
}

// Two items in a column.
static void try_halves(struct at_plan * p) {
    struct at_plan two = *p;
    two.halves = 2;
    two.cores = AT_CORES / 2;
    two.one_channel = true;
    if (!p->sinks && p->rows <= AT_FEW_ROWS && p->items > p->columns && p->turns <= AT_MOST_RUNS &&
        lay_out(&two, p->item_heads, p->item_queries)) {
        *p = two;
    }
}

int64_t at_item_words(const struct at_plan * p) {
    int64_t words = p->rows * p->dk + p->n_kv * (p->k_words + p->v_words);
    words += p->sinks ? p->item_heads : 0;
    if (p->mask) {
        int64_t last = p->even ? 0 : (p->last_keys + 1) / 2;
        words += at_mask_rows(p) * (p->turns * (p->keys / 2) + last);
    }
    return words;
}

// The number of blocks that an item's words pass a memtile in. It divides the words and is even, so
// that each item begins with the first of two buffers.
static int pass_blocks(int64_t words) {
    enum { MOST_WORDS = 2048, GOOD_WORDS = 768 };
    int best = 0;
    for (int n = 2; n <= ARRAY_MAX_REPEAT && (!best || words / n >= GOOD_WORDS); n += 2) {
        best = words % n == 0 && words / n <= MOST_WORDS ? n : best;
    }
    return best;
}

// Where there are more cores than items, heads that share K and V can go to different cores, which
// then read K and V more than once. Is that faster? A row takes a core a twelfth of a cycle for
// each number of K and V, and another item costs TELLING cycles of the instruction stream.
static bool pays(const struct at_plan * p, int64_t heads, int64_t fewer, int64_t others) {
    enum { ROWS_A_CYCLE = 12, TELLING = 8192 };
    int64_t rows = up(heads, 2) - up(fewer, 2);
    int64_t more = others * (ops_parts(p->group, fewer) - ops_parts(p->group, heads));
    return rows * p->n_kv * (p->dk + p->dv) > more * TELLING * ROWS_A_CYCLE;
}

// An estimate of a core's cycles: three quarters of a cycle for each number of K or V, most of it
// for making it bf16, and for each row its products and exponentials.
static int64_t cycles_of(const struct at_plan * p) {
    int64_t size = p->dk + p->dv, rows = up(p->core_rows, 2);
    return ops_parts(p->items, p->halves * p->columns) * p->n_kv *
           (size * 3 / 4 + rows * (size / 16 + 12));
}

// Two cores in half of the columns, an item each, of no more rows than a core takes; where that
// takes no longer than on all cores by more than PDIs take that are loaded for these. With more
// queries products are on another PDI as well, and there is nothing to be saved. Sinks have the
// place of a second set of descriptors (is_small), and so all blocks must be alike.
static void try_mixed(struct at_plan * p, const struct kernel_spec * spec) {
    struct at_plan lone = *p;
    lone.mixed = true;
    lone.halves = 2;
    lone.cores = 1;
    lone.first_column = mixed_columns(p->columns);
    lone.columns = p->columns - lone.first_column;
    lone.one_channel = true;
    lone.even = p->last_keys == p->keys && p->blocks <= 2 * AT_MOST_RUNS;
    lone.turns = lone.even ? p->blocks : p->turns;
    if (!lone.columns || p->part || p->queries > aie_times(spec->arch)->mixed_queries ||
        spec->params[AT_ARG_MAX_BIAS] || (!lone.even && p->turns > AT_MOST_RUNS) ||
        (p->sinks && !(lone.even && p->blocks <= AT_MOST_RUNS))) {
        return;
    }
    int64_t queries = p->item_queries, heads = p->item_heads, fewer = (heads + 1) / 2;
    while (queries > 1 && !lay_out(&lone, heads, queries)) {
        queries--;
    }
    lone.query_items = ops_parts(p->queries, queries);
    int64_t cores = lone.halves * lone.columns;
    int64_t others = p->batches * p->kv_heads * lone.query_items;
    while (heads > 1 && others * ops_parts(p->group, fewer) <= cores &&
           pays(p, heads, fewer, others)) {
        heads = fewer;
        fewer = (heads + 1) / 2;
    }
    lone.group_items = ops_parts(p->group, heads);
    lone.items = others * lone.group_items;
    if (lay_out(&lone, heads, queries) &&
        cycles_of(&lone) - cycles_of(p) <= aie_times(spec->arch)->mixed_most) {
        lone.pass_blocks = pass_blocks(at_item_words(&lone));
        *p = lone;
    }
}

// Where that is less: products in matrix mode.
static void try_matrix(struct at_plan * p, const struct kernel_spec * spec) {
    struct at_plan other = *p;
    if (!p->mixed && p->halves == 1 && mx_plan(spec, &other) &&
        mx_cycles(spec, &other) < (uint64_t) cycles_of(p)) {
        *p = other;
    }
}

enum status at_plan_make(const struct kernel_spec * spec, struct at_plan * p, struct error * err) {
    memset(p, 0, sizeof *p);
    enum status st = check(spec, p, err);
    if (st != ST_OK) {
        return st;
    }
    p->group = p->heads / p->kv_heads;
    p->columns = spec->columns ? spec->columns : aie_target(spec->arch)->columns;
    p->array_columns = p->columns;
    p->halves = 1;
    p->cores = AT_CORES;
    if (!choose(p)) {
        return refuse(err, "heads that are too long for a core's memory");
    }
    // In words, from turn to turn.
    int64_t step = p->keys * p->mask_blocks * spec->inputs[AT_K].nb[1] / 4;
    if (p->blocks > AT_MOST_BLOCKS) {
        return error_set(
            err, ST_UNSUPPORTED,
            "attention: %lld keys are %lld blocks of %lld; descriptors walk %d at most",
            (long long) p->n_kv, (long long) p->blocks, (long long) p->keys, AT_MOST_BLOCKS);
    }
    if (p->mask && (p->mask_blocks > AT_MASK_BLOCKS || (p->turns > 1 && step > 1 << 20))) {
        return refuse(err, "a mask over more keys than descriptors and queues can say");
    }
    p->group_items = ops_parts(p->group, p->item_heads);
    p->query_items = ops_parts(p->queries, p->item_queries);
    p->items = p->batches * p->kv_heads * p->group_items * p->query_items;
    if (p->items > INT32_MAX) {
        return refuse(err, "too many rows");
    }
    if (is_small(p, p->keys * spec->inputs[AT_K].nb[1] / 4,
                 p->keys * spec->inputs[AT_V].nb[1] / 4)) {
        try_halves(p);
        try_mixed(p, spec);
    }
    try_matrix(p, spec);
    return ST_OK;
}

static int64_t first_of(int64_t i, int64_t each, int64_t all) {
    return i * each + each <= all ? i * each : all - each;
}

struct at_item at_plan_item(const struct at_plan * p, int64_t i) {
    struct at_item item;
    item.kv_head = i % p->kv_heads;
    i /= p->kv_heads;
    item.head = item.kv_head * p->group + first_of(i % p->group_items, p->item_heads, p->group);
    i /= p->group_items;
    item.query = first_of(i % p->query_items, p->item_queries, p->queries);
    item.batch = i / p->query_items;
    return item;
}

// ---- how long it takes ----

// Keys and values pass the cores of an item, each of which makes all of them bf16 and then has the
// products and exponentials of its rows. A kernel from elsewhere, which there is no plan for, is
// taken to have a row of each core in an item.
uint64_t attention_bound(const struct kernel_spec * spec) {
    enum { KEYS = 64, ROW = 24, CAPPED = 12, NUMBERS_A_CYCLE = 8, MATRIX_MORE = 2 };
    const struct aie_times * t = aie_times(spec->arch);
    const struct tensor *q = &spec->inputs[AT_Q], *k = &spec->inputs[AT_K];
    uint64_t columns = spec->columns ? (uint64_t) spec->columns : BOUND_COLUMNS;
    uint64_t all = (uint64_t) (q->ne[1] * q->ne[2] * q->ne[3]), rows = 1;
    uint64_t items = (all + AT_CORES - 1) / AT_CORES, slots = columns;
    struct at_plan p;
    if (at_plan_make(spec, &p, NULL) == ST_OK) {
        items = (uint64_t) p.items;
        slots = (uint64_t) (p.halves * p.columns);
        rows = up(p.core_rows, 2);
        if (p.matrix) {
            return (uint64_t) t->start + MATRIX_MORE * mx_cycles(spec, &p);
        }
    }
    uint64_t size = (uint64_t) (q->ne[0] + spec->output.ne[0]), keys = (uint64_t) k->ne[1] + KEYS;
    uint64_t row = size / NUMBERS_A_CYCLE + ROW + (spec->params[AT_ARG_SOFTCAP] ? CAPPED : 0);
    return (uint64_t) t->start + (items + slots - 1) / slots *
                                     ((uint64_t) t->attention_step + keys * (size + rows * row));
}
