// rows-plan: what a shape asks of the array. Rows are contiguous and dealt out in order. For
// softmax the rows fall into runs: within a run, mask rows follow each other or repeat, and slope
// and sink stay the same. A piece is what one column does between two waits: some rows of a run,
// or, where rows are streamed, a single one. A total over all elements knows no rows: it is cut
// anywhere.
#include "rows-plan.h"

#include "aie/plan/bound.h"

#include <math.h>
#include <string.h>

enum {
    MAX_CHUNKS = 512,         // of a piece: what a queue entry repeats
    MAX_STREAM_CHUNKS = 1024, // over all passes
    MAX_PIECES = 1 << 14,     // beyond that the instruction stream gets too long
    MAX_ROWS_SCALAR = RW_CHUNK_BYTES / 32,
    MAX_HELD_WORDS = 1 << 16,
    MAX_WRAP = 255, // words of a row that a core's descriptor can set apart
    // An f16 row that may start in the middle of a word comes with a word more; a shim descriptor
    // sets at most 1023 words apart.
    ODD_CHUNK = 2016,
};

bool rows_input_there(const struct kernel_spec * spec, int i) {
    return i < spec->n_inputs && tensor_elements(&spec->inputs[i]) > 0;
}

uint32_t rows_stride(int64_t row) {
    return (uint32_t) ((row + RW_PAIR_WORDS - 1) / RW_PAIR_WORDS * RW_PAIR_WORDS);
}

uint32_t rows_per_chunk(const struct rows_plan * plan) {
    uint32_t stride = rows_stride(plan->row);
    uint32_t n = plan->row == stride || plan->row <= MAX_WRAP ? RW_CHUNK_WORDS / stride : 1;
    return plan->op->out == RW_OUT_SCALAR && n > MAX_ROWS_SCALAR ? MAX_ROWS_SCALAR : n;
}

// As ggml has it: the heads' slopes are powers of two numbers, of which the second serves the heads
// beyond the largest power of two.
float rows_slope(const struct kernel_spec * spec, int64_t head) {
    float max_bias;
    memcpy(&max_bias, &spec->params[1], 4);
    if (!(max_bias > 0)) {
        return 1;
    }
    uint32_t heads = (uint32_t) spec->inputs[0].ne[2], log2_heads = 1;
    while (log2_heads * 2 <= heads) {
        log2_heads *= 2;
    }
    float m0 = powf(2, -max_bias / (float) log2_heads),
          m1 = powf(2, -max_bias / 2 / (float) log2_heads);
    return (uint64_t) head < log2_heads ? powf(m0, (float) (head + 1))
                                        : powf(m1, (float) (2 * (head - log2_heads) + 1));
}

// ---- runs ----

static void soft_max_runs(const struct kernel_spec * spec, struct rows_plan * plan) {
    const struct tensor *x = &spec->inputs[0], *mask = &spec->inputs[1];
    float max_bias;
    memcpy(&max_bias, &spec->params[1], 4);
    bool per_head = rows_input_there(spec, 2) || (plan->has_b && max_bias > 0);
    plan->run_rows = plan->rows;
    plan->b_period = plan->rows;
    if (plan->has_b) {
        bool all = mask->ne[1] == x->ne[1]; // no rows to be left out between
        bool odd = plan->b_dtype == DTYPE_F16 && plan->row % 2;
        if (!(all && mask->ne[2] == x->ne[2] && mask->ne[3] == x->ne[3])) {
            plan->b_period = x->ne[1];
            if (!all || odd || mask->ne[2] > 1) {
                plan->run_rows = x->ne[1];
            } else if (mask->ne[3] > 1) {
                plan->run_rows = x->ne[1] * x->ne[2];
            }
        }
    }
    if (per_head) {
        plan->run_rows = x->ne[1];
        plan->b_period = x->ne[1];
    }
    plan->runs = plan->rows / plan->run_rows;
}

// First row of b for a run.
static int64_t run_b_row(const struct rows_plan * plan, const struct kernel_spec * spec,
                         int64_t run) {
    if (plan->op->op != KERNEL_OP_SOFT_MAX || !plan->has_b || plan->runs == 1) {
        return 0;
    }
    const struct tensor *x = &spec->inputs[0], *mask = &spec->inputs[1];
    int64_t row = run * plan->run_rows;
    int64_t i2 = row / x->ne[1] % x->ne[2], i3 = row / (x->ne[1] * x->ne[2]);
    return (i3 % mask->ne[3] * mask->ne[2] + i2 % mask->ne[2]) * mask->ne[1];
}

// ---- rows that the memtile holds ----

// Parts of about equal length. What is behind the row's end the core does not look at.
struct spread_held rows_held(const struct rows_plan * plan) {
    uint32_t n = (uint32_t) plan->row, parts = (n + RW_CHUNK_WORDS - 1) / RW_CHUNK_WORDS;
    uint32_t chunk = rows_stride((n + parts - 1) / parts);
    uint32_t b = plan->b_dtype == DTYPE_F16 ? chunk / 2 : chunk;
    struct spread_held h = {.parts = parts,
                            .passes = (uint32_t) plan->op->passes,
                            .part = {[SPREAD_A] = chunk, [SPREAD_OUT] = chunk}};
    if (plan->has_b) {
        h.part[SPREAD_B] = b;
    }
    return h;
}

// A row for each column and no more streams faster than it is held first; and of f16 rows with an
// odd length a shim's descriptor does not reach from one to the next.
static void hold(struct rows_plan * plan, bool sink, int columns) {
    struct spread_held h = rows_held(plan);
    if (plan->op->out == RW_OUT_ROW && plan->row <= MAX_HELD_WORDS && plan->rows > columns &&
        !(plan->b_dtype == DTYPE_F16 && plan->row % 2)) {
        plan->held = spread_holds(&h, sink);
        plan->chunk = plan->held ? h.part[SPREAD_A] : plan->chunk;
    }
}

// Rows of a piece: what a core's queues take at once, one task of four being a sink.
static int64_t held_limit(const struct rows_plan * plan) {
    struct spread_held h = rows_held(plan);
    return (int64_t) (3 * ARRAY_MAX_REPEAT / (h.parts * h.passes));
}

// ---- plan ----

static uint32_t
flat_chunk(int64_t elements) { // short pieces in about eight, so that things overlap
    int64_t chunk = rows_stride(elements / 8);
    return chunk < 256 ? 256 : chunk > RW_CHUNK_WORDS ? RW_CHUNK_WORDS : (uint32_t) chunk;
}

enum status rows_plan_make(const struct kernel_spec * spec, struct rows_plan * plan,
                           struct error * err) {
    const struct tensor * x = &spec->inputs[0];
    *plan = (struct rows_plan){.op = rows_find(spec->op), .row = x->ne[0]};
    plan->rows = x->ne[1] * x->ne[2] * x->ne[3];
    plan->has_b = rows_input_there(spec, 1);
    plan->b_dtype = plan->has_b ? spec->inputs[1].dtype : DTYPE_F32;
    plan->flat = spec->op == KERNEL_OP_SUM || spec->op == KERNEL_OP_COUNT_EQUAL;
    plan->runs = 1;
    plan->run_rows = plan->b_period = plan->rows;
    if (plan->flat) {
        plan->streamed = true;
        plan->chunk = flat_chunk(tensor_elements(x) / 4);
        return ST_OK;
    }
    bool odd = plan->b_dtype == DTYPE_F16 && plan->row % 2;
    if (spec->op == KERNEL_OP_SOFT_MAX) {
        soft_max_runs(spec, plan);
    }
    if (spec->op == KERNEL_OP_RMS_NORM_MUL) {
        plan->b_period = tensor_elements(&spec->inputs[1]) / plan->row;
    }
    if (odd && plan->row == 1) {
        return error_set(err, ST_UNSUPPORTED, "an f16 mask with rows of one element");
    }
    plan->streamed = plan->row > (odd ? ODD_CHUNK : RW_CHUNK_WORDS);
    plan->chunk = plan->b_dtype == DTYPE_F16 ? ODD_CHUNK : RW_CHUNK_WORDS;
    bool pairs = spec->op == KERNEL_OP_SORT_PAIRS || spec->op == KERNEL_OP_MERGE_PAIRS;
    if (pairs && plan->row != RW_CHUNK_WORDS) {
        return error_set(err, ST_UNSUPPORTED, "rows of pairs are %d words, not %lld",
                         RW_CHUNK_WORDS, (long long) plan->row);
    }
    if (plan->streamed && spec->op == KERNEL_OP_ARGSORT) {
        return error_set(err, ST_UNSUPPORTED, "rows of up to %d elements are sorted, not of %lld",
                         RW_CHUNK_WORDS, (long long) plan->row);
    }
    if (plan->streamed) {
        hold(plan, rows_input_there(spec, 2), ops_columns(spec));
    }
    if (plan->streamed && !plan->held) {
        int64_t chunks = (plan->row + plan->chunk - 1) / plan->chunk;
        if (chunks * plan->op->passes > MAX_STREAM_CHUNKS || chunks > MAX_CHUNKS) {
            int64_t most = MAX_STREAM_CHUNKS / plan->op->passes;
            most = (most < MAX_CHUNKS ? most : MAX_CHUNKS) * plan->chunk;
            return error_set(err, ST_UNSUPPORTED,
                             "rows of %lld elements are too long for %s, which takes %lld",
                             (long long) plan->row, kernel_op_name(spec->op), (long long) most);
        }
    }
    int64_t pieces = plan->held       ? plan->rows / held_limit(plan) + plan->runs
                     : plan->streamed ? plan->rows
                                      : plan->runs;
    if (pieces > MAX_PIECES) {
        return error_set(err, ST_UNSUPPORTED, "%lld pieces of work, at most %d are done",
                         (long long) pieces, MAX_PIECES);
    }
    return ST_OK;
}

static bool next_flat(const struct rows_plan * plan, const struct kernel_spec * spec,
                      struct rows_cursor * c, int columns, struct rows_piece * out) {
    int64_t all = tensor_elements(&spec->inputs[0]), left = all - c->row;
    int64_t limit = (int64_t) MAX_CHUNKS * plan->chunk;
    int64_t take = rows_stride((all + columns - 1) / columns);
    take = take > limit ? limit : take;
    take = take > left ? left : take;
    *out = (struct rows_piece){.rows = 1, .offset = (uint32_t) c->row, .elements = (uint32_t) take};
    c->row += take;
    return take > 0;
}

bool rows_plan_next(const struct rows_plan * plan, const struct kernel_spec * spec,
                    struct rows_cursor * c, int columns, struct rows_piece * out) {
    if (plan->flat) {
        return next_flat(plan, spec, c, columns, out);
    }
    if (c->run >= plan->runs) {
        return false;
    }
    int64_t limit = plan->held       ? held_limit(plan)
                    : plan->streamed ? 1
                                     : (int64_t) MAX_CHUNKS * rows_per_chunk(plan);
    int64_t take =
        plan->runs >= columns ? plan->run_rows : (plan->run_rows + columns - 1) / columns;
    take = take > limit ? limit : take;
    take = take > plan->run_rows - c->row ? plan->run_rows - c->row : take;
    int64_t period_row = run_b_row(plan, spec, c->run);
    *out = (struct rows_piece){.first_row = c->run * plan->run_rows + c->row,
                               .rows = take,
                               .b_period_row = period_row,
                               .b_row = period_row + c->row % plan->b_period,
                               .run = c->run};
    c->row += take;
    if (c->row >= plan->run_rows) {
        c->row = 0;
        c->run++;
    }
    return true;
}

int64_t rows_plan_pieces_left(const struct rows_plan * plan, const struct kernel_spec * spec,
                              struct rows_cursor c, int columns) {
    struct rows_piece piece;
    int64_t n = 0;
    while (n < columns && rows_plan_next(plan, spec, &c, columns, &piece)) {
        n++;
    }
    return n;
}

// ---- how long it takes ----

enum {
    KEPT = 2016, // words of a row that a core keeps,
    HELD = 8192, // that a memtile holds
};

// Rows of softmax that no memtile holds: one core of each column that has the program, among other
// programs half of them, works through them, and makes x * scale + slope * mask anew in each of
// three passes.
static uint64_t long_soft(const struct kernel_spec * spec) {
    const struct aie_times * t = aie_times(spec->arch);
    const struct tensor * x = &spec->inputs[0];
    uint64_t rows = (uint64_t) (x->ne[1] * x->ne[2] * x->ne[3]);
    uint64_t columns = ((uint64_t) ops_columns(spec) + 1) / 2;
    bool masked = spec->n_inputs > 1 && tensor_elements(&spec->inputs[1]) > 0;
    int word = t->long_soft[masked] + (spec->precision == KERNEL_EXACT ? t->long_soft[2] : 0);
    return (uint64_t) t->start +
           (rows + columns - 1) / columns * (uint64_t) (x->ne[0] * word + t->row);
}

uint64_t rows_bound(const struct kernel_spec * spec) {
    const struct aie_times * t = aie_times(spec->arch);
    const struct tensor * x = &spec->inputs[0];
    uint64_t rows = (uint64_t) (x->ne[1] * x->ne[2] * x->ne[3]), n = (uint64_t) x->ne[0];
    bool soft = spec->op == KERNEL_OP_SOFT_MAX, loss = spec->op == KERNEL_OP_CROSS_ENTROPY_LOSS;
    if (soft && t->long_soft[0] && x->ne[0] > HELD) {
        return long_soft(spec);
    }
    const struct aie_row_times * p = soft ? &t->soft_max : loss ? &t->loss : &t->other_rows;
    int word = n <= KEPT ? p->kept : n <= HELD ? p->held : p->streamed;
    word = spec->op == KERNEL_OP_ARGSORT       ? t->sort + (int) (n / 8) // each with each
           : spec->op == KERNEL_OP_SORT_PAIRS  ? t->pairs[0]
           : spec->op == KERNEL_OP_MERGE_PAIRS ? t->pairs[1]
                                               : word;
    uint64_t most = bound_most_words(spec), columns = bound_columns(spec);
    if (rows) { // a row stays with one core, and the last ones leave some idle
        uint64_t workers = columns * (n <= HELD && !loss ? BOUND_CORES : 1);
        most = most / rows * ((rows + workers - 1) / workers * workers);
    }
    uint64_t cycles = most * (uint64_t) word + rows * (uint64_t) t->row;
    return bound_cores(spec, cycles / columns);
}
