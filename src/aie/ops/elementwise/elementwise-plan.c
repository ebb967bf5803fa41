// elementwise-plan: how a shape becomes work. Where all tensors are contiguous, a and out are
// walked in order and b repeats along some dimensions. The dimensions are folded into alternating
// groups (b runs along, b stands still), innermost first. Three patterns are done by the hardware:
//
//     linear   b runs along with a
//     period   b runs along `period` words, then starts again, `rows` times   (bias added to rows)
//     splat    b is one element for the whole run                              (scalar per row)
//
// and whatever is left outside is a short list of such runs. Runs are cut into pieces, one per
// column, and a column gets the next piece when it is done with the last.
//
// Tensors with gaps (halves of rows, views) keep their dimensions, each with a stride for every
// operand; as many of the inner ones as a descriptor can walk make up a run.
//
// Memory takes a run of one word as long as one of dozens. So numbers whose partner lies half a row
// away are walked half by half, and a core's descriptors bring them together.
#include "elementwise-plan.h"

#include <assert.h>
#include <string.h>

enum {
    MAX_RUNS = 64,                          // beyond that, expanding b in memory is cheaper
    MAX_PIECE_WORDS = 512 * EW_CHUNK_WORDS, // what one column's queues hold at once, beside a word
    MIN_PIECE_WORDS = 64,
    MAX_PERIOD_ROWS = PLAN_PERIOD_BDS * 256,
    MAX_HALF = 255,   // what a core's descriptor counts in its innermost dimensions
    HALVES_LEVEL = 2, // of dims, behind the pair and its row: no piece begins within a row
};

static enum status too_many_runs(int64_t runs, struct error * err) {
    return error_set(err, ST_UNSUPPORTED, "the operands fall into %lld runs, at most %d are done",
                     (long long) runs, MAX_RUNS);
}

// ---- contiguous tensors ----

struct group {
    int64_t extent;
    bool repeats; // b stands still along it
};

static int fold(const struct tensor * a, const struct tensor * b, struct group g[8]) {
    int n = 0;
    for (int d = 0; d < TENSOR_DIMS; d++) {
        const struct group parts[2] = {{b->ne[d], false}, {a->ne[d] / b->ne[d], true}};
        for (int i = 0; i < 2; i++) {
            if (parts[i].extent == 1) {
                continue;
            }
            if (n > 0 && g[n - 1].repeats == parts[i].repeats) {
                g[n - 1].extent *= parts[i].extent;
            } else {
                g[n++] = parts[i];
            }
        }
    }
    return n;
}

static enum status plan_contiguous(const struct tensor * a, const struct tensor * b,
                                   struct ew_plan * plan, struct error * err) {
    int64_t es = dtype_size(a->dtype);
    struct group g[8];
    int n = fold(a, b, g);

    int inner = 1;                     // groups that one run covers
    int64_t run = n ? g[0].extent : 1; // elements
    if (n && g[0].repeats) {
        plan->mode = PLAN_SPLAT;
    } else if (n > 1 && g[0].extent * es % 4 == 0 && g[0].extent * es / 4 <= MAX_PIECE_WORDS &&
               (g[1].extent >= 4 || g[0].extent * es / 4 < 4 * MIN_PIECE_WORDS)) {
        plan->mode = PLAN_PERIOD;
        plan->period = (uint32_t) (g[0].extent * es / 4);
        run *= g[1].extent;
        inner = 2;
    } else {
        plan->mode = PLAN_LINEAR;
    }
    plan->run_bytes = run * es;

    plan->runs = 1;
    int64_t a_stride = run, b_stride = 1;
    for (int i = 0; i < inner && i < n; i++) {
        b_stride *= g[i].repeats ? 1 : g[i].extent;
    }
    for (int i = inner; i < n; i++) {
        plan->outer[plan->n_outer++] = (struct plan_dim){
            g[i].extent, {a_stride * es, g[i].repeats ? 0 : b_stride * es, a_stride * es}};
        a_stride *= g[i].extent;
        b_stride *= g[i].repeats ? 1 : g[i].extent;
        plan->runs *= g[i].extent;
    }
    if (plan->runs > MAX_RUNS) {
        return too_many_runs(plan->runs, err);
    }
    if (plan->runs > 1 && plan->run_bytes % 4) {
        return error_set(err, ST_UNSUPPORTED, "rows of %lld bytes do not start on words",
                         (long long) plan->run_bytes);
    }
    return ST_OK;
}

// ---- tensors with gaps ----

static bool joins(const struct plan_dim * inner, const struct plan_dim * outer) {
    for (int o = 0; o < EW_OPERANDS; o++) {
        if (outer->stride[o] != inner->extent * inner->stride[o]) {
            return false;
        }
    }
    return true;
}

static int add_dim(struct plan_dim * dims, int n, struct plan_dim d) {
    if (d.extent == 1) {
        return n;
    }
    if (n && joins(&dims[n - 1], &d)) {
        dims[n - 1].extent *= d.extent;
        return n;
    }
    dims[n] = d;
    return n + 1;
}

// The loops over the whole operation, innermost first: words, then rows of them. Returns how many,
// or -1 when something does not stand on words.
static int nest(const struct tensor * const t[EW_OPERANDS], bool splat,
                struct plan_dim dims[PLAN_DIMS], struct error * err) {
    const struct tensor *a = t[PLAN_A], *b = t[PLAN_B];
    int64_t es = dtype_size(a->dtype), row = a->ne[0] * es;
    struct plan_dim first = {row / 4, {4, splat ? 0 : 4, 4}};
    for (int o = 0; o < EW_OPERANDS; o++) {
        bool apart = a->ne[0] > 1 && !(splat && o == PLAN_B) && t[o]->nb[0] != es;
        if (apart && (es != 4 || t[o]->nb[0] % 4 || t[o]->nb[0] <= 0)) {
            error_set(err, ST_UNSUPPORTED, "elements of %lld bytes lie %lld bytes apart",
                      (long long) es, (long long) t[o]->nb[0]);
            return -1;
        }
        first.stride[o] = apart ? t[o]->nb[0] : first.stride[o];
    }
    if (row % 4) {
        error_set(err, ST_UNSUPPORTED, "rows of %lld bytes do not start on words", (long long) row);
        return -1;
    }
    int n = add_dim(dims, 0, first);
    for (int d = 1; d < TENSOR_DIMS; d++) {
        for (int o = 0; o < EW_OPERANDS; o++) {
            bool words = (splat && o == PLAN_B) || t[o]->ne[d] == 1 || t[o]->nb[d] % 4 == 0;
            if (!words || t[o]->nb[d] < 0 ||
                (o == PLAN_OUT && t[o]->ne[d] > 1 && t[o]->nb[d] == 0)) {
                error_set(err, ST_UNSUPPORTED, "rows lie %lld bytes apart",
                          (long long) t[o]->nb[d]);
                return -1;
            }
        }
        n = add_dim(dims, n, (struct plan_dim){b->ne[d], {a->nb[d], b->nb[d], t[PLAN_OUT]->nb[d]}});
        n = add_dim(dims, n,
                    (struct plan_dim){a->ne[d] / b->ne[d],
                                      {b->ne[d] * a->nb[d], 0, b->ne[d] * t[PLAN_OUT]->nb[d]}});
    }
    return n;
}

// The walk of an operand over the inner dimensions, half by half where there are halves.
static bool walk_of(const struct ew_plan * plan, const struct plan_dim * dims, int n, int operand,
                    struct plan_walk * out) {
    struct plan_dim turned[PLAN_DIMS];
    bool turns = plan->half && operand != PLAN_B;
    if (turns) {
        memcpy(turned, dims, sizeof turned);
        turned[0] = dims[1];
        turned[1] = dims[0];
    }
    return plan_walk_make(turns ? turned : dims, n, operand, out);
}

// How far along dims[level] one piece can go: 0 when not even one step.
static int64_t piece_limit(const struct ew_plan * plan, int level, int n_operands) {
    int64_t inner = 1;
    for (int i = 0; i < level; i++) {
        inner *= plan->dims[i].extent;
        if (inner > MAX_PIECE_WORDS || (plan->mode == PLAN_SPLAT && plan->dims[i].stride[PLAN_B])) {
            return 0;
        }
    }
    if (plan->mode == PLAN_SPLAT && plan->dims[level].stride[PLAN_B]) {
        return 0;
    }
    struct plan_dim dims[PLAN_DIMS];
    memcpy(dims, plan->dims, sizeof dims);
    static const int64_t counts[] = {INT64_MAX, 256, 64}; // no limit, of repetitions, of iterations
    for (int c = 0; c < 3; c++) {
        int64_t limit = MAX_PIECE_WORDS / inner;
        limit = limit > counts[c] ? counts[c] : limit;
        limit = limit > plan->dims[level].extent ? plan->dims[level].extent : limit;
        dims[level].extent = limit;
        bool fits = true;
        for (int o = 0; o < EW_OPERANDS; o++) {
            bool walks = o != PLAN_B || (n_operands > 2 && plan->mode != PLAN_SPLAT);
            fits = fits && (!walks || walk_of(plan, dims, level + 1, o, &(struct plan_walk){0}));
        }
        if (fits) {
            return limit;
        }
    }
    return 0;
}

// Runs as large as descriptors allow, but not so large that columns stay idle.
static enum status choose_level(struct ew_plan * plan, int n, int n_operands, int columns,
                                struct error * err) {
    int64_t runs = 1, best = 0;
    int least = plan->half ? HALVES_LEVEL : 0;
    for (int level = n - 1; level >= least && runs <= MAX_RUNS && best < columns; level--) {
        int64_t limit = piece_limit(plan, level, n_operands);
        int64_t pieces = runs * plan->dims[level].extent;
        if (limit && pieces > best) {
            best = pieces;
            plan->level = level;
            plan->piece_limit = limit;
            plan->runs = runs;
        }
        runs *= plan->dims[level].extent;
    }
    if (!best) {
        return runs > MAX_RUNS ? too_many_runs(runs, err)
                               : error_set(err, ST_UNSUPPORTED, "the strides fit no descriptor");
    }
    for (int i = plan->level + 1; i < n; i++) {
        plan->outer[plan->n_outer++] = plan->dims[i];
    }
    return ST_OK;
}

// Words between the halves of ROTATE's pairs; 0: they lie side by side, or too far apart.
static uint32_t half_of(const struct kernel_spec * spec, const struct plan_dim * dims) {
    int64_t half = dims[1].extent;
    bool lie = spec->op == KERNEL_OP_ROTATE && dims[0].extent == 2 && half <= MAX_HALF &&
               2 * half <= EW_CHUNK_WORDS && spec->inputs[1].ne[1] == half;
    for (int o = PLAN_A; o <= PLAN_OUT; o += PLAN_OUT - PLAN_A) {
        lie = lie && dims[0].stride[o] == 4 * half && dims[1].stride[o] == 4;
    }
    return lie ? (uint32_t) half : 0;
}

static enum status plan_strided(const struct kernel_spec * spec, const struct tensor * b,
                                struct ew_plan * plan, struct error * err) {
    const struct tensor *a = &spec->inputs[0], *out = &spec->output;
    const int n_operands = spec->n_inputs + 1;
    bool splat = b->ne[0] != a->ne[0];
    if (splat && b->ne[0] != 1) {
        return error_set(err, ST_UNSUPPORTED,
                         "rows with gaps and a second input that repeats within them");
    }
    plan->strided = true;
    plan->mode = splat ? PLAN_SPLAT : PLAN_LINEAR;
    const struct tensor * const t[EW_OPERANDS] = {a, b, out};
    int n = nest(t, splat, plan->dims, err);
    if (n == 0) { // one word
        plan->dims[n++] = (struct plan_dim){1, {4, 4, 4}};
    }
    if (n < 0) {
        return ST_UNSUPPORTED;
    }
    plan->half = n > 1 ? half_of(spec, plan->dims) : 0;
    if (plan->half && n == HALVES_LEVEL) { // one row
        plan->dims[n++] = (struct plan_dim){1, {4, 4, 4}};
    }
    if (plan->half && choose_level(plan, n, n_operands, ops_columns(spec), NULL) == ST_OK) {
        return ST_OK;
    }
    plan->half = 0;
    return choose_level(plan, n, n_operands, ops_columns(spec), err);
}

enum status ew_plan_make(const struct kernel_spec * spec, struct ew_plan * plan,
                         struct error * err) {
    const struct tensor *a = &spec->inputs[0], *out = &spec->output;
    const struct tensor * b = spec->n_inputs > 1 ? &spec->inputs[1] : a; // one input: all linear
    memset(plan, 0, sizeof *plan);
    plan->element_bytes = dtype_size(a->dtype);
    if (tensor_is_contiguous(a) && tensor_is_contiguous(b) && tensor_is_contiguous(out)) {
        return plan_contiguous(a, b, plan, err);
    }
    return plan_strided(spec, b, plan, err);
}

// ---- pieces ----

// Offsets of run number `index` in bytes.
static void run_offsets(const struct ew_plan * plan, int64_t index, int64_t offset[EW_OPERANDS]) {
    for (int o = 0; o < EW_OPERANDS; o++) {
        offset[o] = 0;
    }
    for (int i = 0; i < plan->n_outer; i++) {
        int64_t at = index % plan->outer[i].extent;
        index /= plan->outer[i].extent;
        for (int o = 0; o < EW_OPERANDS; o++) {
            offset[o] += at * plan->outer[i].stride[o];
        }
    }
}

// How much of the run's rest the next piece takes: all of it where there are enough runs to keep
// the columns busy, else a share.
static int64_t share(int64_t left, int64_t total, int64_t runs, int64_t limit, int64_t unit,
                     int columns) {
    int64_t rounds = (total + columns * limit - 1) / (columns * limit); // of equal pieces
    int64_t take = runs >= columns ? left : (total + columns * rounds - 1) / (columns * rounds);
    take = (take + unit - 1) / unit * unit;
    take = take > limit ? limit : take;
    return take > left ? left : take;
}

// The same of one run without gaps that all columns work on: the first has most, so that all end
// together. Whole rounds of chunks make shorter streams, and fill all of a queue; an incomplete
// round and a short chunk would be tasks of their own there. The last piece may have them.
static int64_t share_of_one(const struct ew_plan * plan, const struct plan_cursor * c,
                            int64_t words, int columns) {
    bool is_linear = plan->mode == PLAN_LINEAR;
    int64_t cores = plan->cores > 1 ? plan->cores : 1;
    int64_t limit = !is_linear   ? MAX_PIECE_WORDS
                    : cores == 1 ? PLAN_LONE_WORDS
                                 : cores * MAX_PIECE_WORDS;
    int64_t round = is_linear ? cores * EW_CHUNK_WORDS : EW_CHUNK_WORDS;
    int64_t even = is_linear ? ARRAY_QUEUE_DEPTH * ARRAY_MAX_REPEAT * round : limit;
    int64_t ways = plan->ways > 1 ? plan->ways : 1, told = columns / ways;
    int64_t lead = ways * plan->lead, steps = ways * told * (told - 1) / 2;
    int64_t most = words * 3 / (4 * steps + 1); // the last has a fourth of an even share at least
    int64_t room = ((even - round) * columns - words) / (steps + 1); // of the first
    lead = lead > most ? most : lead;
    lead = lead > room ? room : lead;
    int64_t take = (words + lead * steps) / columns - c->pieces / ways * lead;
    bool fits = (words + lead * steps) / columns - (told - 1) * lead <= limit;
    if (plan->runs > 1 || lead <= 0 || !fits || words / columns < PLAN_LEADS_FROM) {
        return share(words - c->done, words, plan->runs, limit, MIN_PIECE_WORDS, columns);
    }
    take = (take + round - 1) / round * round;
    return take > words - c->done ? words - c->done : take;
}

static struct plan_walk linear(int64_t offset, int64_t words) {
    return (struct plan_walk){
        .offset = (uint32_t) offset, .words = (uint32_t) words, .step = {1}, .repeat = 1};
}

static struct plan_walk splat_word(struct plan_piece * piece, int64_t offset) {
    piece->splat_byte = (uint32_t) (offset & 3);
    return linear(offset & ~(int64_t) 3, 1);
}

// The next piece of a contiguous run; returns how many words are still to do.
static int64_t next_contiguous(const struct ew_plan * plan, const int64_t at[EW_OPERANDS],
                               struct plan_cursor * c, int columns, struct plan_piece * out) {
    int64_t words = (plan->run_bytes + 3) / 4, take;
    if (plan->mode == PLAN_PERIOD) {
        int64_t rows = words / plan->period, done = c->done / plan->period;
        int64_t limit = MAX_PIECE_WORDS / plan->period;
        limit = limit > MAX_PERIOD_ROWS ? MAX_PERIOD_ROWS : limit;
        int64_t n = share(rows - done, rows, plan->runs, limit, 1, columns);
        out->rows = (uint32_t) n;
        out->period = plan->period;
        out->walk[PLAN_B] = linear(at[PLAN_B], plan->period);
        take = n * plan->period;
    } else {
        take = share_of_one(plan, c, words, columns);
        out->walk[PLAN_B] = plan->mode == PLAN_SPLAT ? splat_word(out, at[PLAN_B])
                                                     : linear(at[PLAN_B] + 4 * c->done, take);
    }
    out->words = (uint32_t) take;
    out->walk[PLAN_A] = linear(at[PLAN_A] + 4 * c->done, take);
    out->walk[PLAN_OUT] = linear(at[PLAN_OUT] + 4 * c->done, take);
    c->done += take;
    return words - c->done;
}

// The same with gaps, in steps along dims[level].
static int64_t next_strided(const struct ew_plan * plan, const int64_t at[EW_OPERANDS],
                            struct plan_cursor * c, int columns, struct plan_piece * out) {
    struct plan_dim dims[PLAN_DIMS];
    memcpy(dims, plan->dims, sizeof dims);
    struct plan_dim * cut = &dims[plan->level];
    int64_t inner = 1, total = cut->extent;
    for (int i = 0; i < plan->level; i++) {
        inner *= dims[i].extent;
    }
    int64_t unit = (MIN_PIECE_WORDS + inner - 1) / inner;
    cut->extent = share(total - c->done, total, plan->runs, plan->piece_limit, unit, columns);
    out->words = (uint32_t) (inner * cut->extent);
    for (int o = 0; o < EW_OPERANDS; o++) {
        int64_t offset = at[o] + c->done * cut->stride[o];
        if (o == PLAN_B && plan->mode == PLAN_SPLAT) {
            out->walk[o] = splat_word(out, offset);
            continue;
        }
        out->walk[o].offset = (uint32_t) offset;
        bool fits = walk_of(plan, dims, plan->level + 1, o, &out->walk[o]);
        assert(fits || o == PLAN_B); // b may be what an op with one input does not have
        (void) fits;
    }
    c->done += cut->extent;
    return total - c->done;
}

bool ew_plan_next(const struct ew_plan * plan, struct plan_cursor * c, int columns,
                  struct plan_piece * out) {
    if (c->run >= plan->runs) {
        return false;
    }
    int64_t at[EW_OPERANDS];
    run_offsets(plan, c->run, at);
    *out = (struct plan_piece){.mode = plan->mode};
    int64_t left = plan->strided ? next_strided(plan, at, c, columns, out)
                                 : next_contiguous(plan, at, c, columns, out);
    c->pieces++;
    if (left <= 0) {
        *c = (struct plan_cursor){.run = c->run + 1};
    }
    return true;
}
