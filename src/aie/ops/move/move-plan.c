// move-plan: cuts a move into pieces, one column each, every piece a descriptor at either end. The
// input may have fewer elements along a dimension than the output and is repeated then. Dimensions
// that lie end to end in both are one.
#include "move.h"

#include "aie/plan/bound.h"

#include <string.h>

enum {
    MAX_RUNS = 256,            // beyond that the instruction stream gets too long
    MAX_PIECE_WORDS = 1 << 19, // what a column's queues hold at once
    MIN_PIECE_WORDS = 64,      // for which a column is worth the telling
    MAX_REPEAT = 256,          // of a task in the queue
    MAX_ITERATIONS = 64,       // of a descriptor that moves on with each
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// ---- the nest ----

static bool is_cast(const struct kernel_spec * spec) {
    return spec->op != KERNEL_OP_COPY;
}

static void add_dim(struct move_plan * p, struct move_dim d) {
    struct move_dim * last = p->n_dims ? &p->dims[p->n_dims - 1] : NULL;
    if (d.extent == 1) {
        return;
    }
    for (int o = 0; o < MOVE_OPERANDS && last; o++) {
        last = d.step[o] == last->extent * last->step[o] ? last : NULL;
    }
    if (last) {
        last->extent *= d.extent;
    } else {
        p->dims[p->n_dims++] = d;
    }
}

static const struct tensor * operand(const struct kernel_spec * spec, int o) {
    return o == MOVE_IN ? &spec->inputs[0] : &spec->output;
}

// What a unit is, and the step from one to the next along a row; 0: there is none.
static int64_t unit_elements(const struct kernel_spec * spec) {
    int64_t size = dtype_size(spec->output.dtype);
    return is_cast(spec) ? 2 : 4 / size;
}

static enum status check_operand(const struct kernel_spec * spec, int o, struct error * err) {
    const struct tensor * t = operand(spec, o);
    int64_t size = dtype_size(t->dtype), unit = unit_elements(spec), bytes = tensor_bytes(t);
    if (tensor_elements(t) <= 0 || bytes < 0 || bytes > (int64_t) UINT32_MAX - 4) {
        return error_set(err, ST_UNSUPPORTED, "a tensor without elements, or of 4 GiB");
    }
    if (t->ne[0] % unit) {
        return error_set(err, ST_UNSUPPORTED, "rows of %lld elements do not end on words",
                         (long long) t->ne[0]);
    }
    if (size == 4 ? t->nb[0] <= 0 || t->nb[0] % 4 : t->nb[0] != size) {
        return error_set(err, ST_UNSUPPORTED, "elements of %lld bytes lie %lld bytes apart",
                         (long long) size, (long long) t->nb[0]);
    }
    for (int d = 1; d < TENSOR_DIMS; d++) {
        if (t->ne[d] > 1 && (t->nb[d] % 4 || t->nb[d] < (o == MOVE_OUT))) {
            return error_set(err, ST_UNSUPPORTED, "rows lie %lld bytes apart",
                             (long long) t->nb[d]);
        }
    }
    return ST_OK;
}

static void make_nest(const struct kernel_spec * spec, struct move_plan * p) {
    const struct tensor *in = &spec->inputs[0], *out = &spec->output;
    int64_t unit = unit_elements(spec), step[MOVE_OPERANDS];
    for (int o = 0; o < MOVE_OPERANDS; o++) {
        const struct tensor * t = operand(spec, o);
        p->unit_words[o] = unit * dtype_size(t->dtype) / 4;
        p->unit_step[o] = t->nb[0];
        step[o] = unit * t->nb[0];
    }
    int64_t row = in->ne[0] / unit;
    add_dim(p, (struct move_dim){row, {step[MOVE_IN], step[MOVE_OUT]}});
    add_dim(p, (struct move_dim){out->ne[0] / in->ne[0], {0, row * step[MOVE_OUT]}});
    for (int d = 1; d < TENSOR_DIMS; d++) {
        add_dim(p, (struct move_dim){in->ne[d], {in->nb[d], out->nb[d]}});
        add_dim(p, (struct move_dim){out->ne[d] / in->ne[d], {0, in->ne[d] * out->nb[d]}});
    }
    if (p->n_dims == 0) { // one unit
        p->dims[p->n_dims++] = (struct move_dim){1, {step[MOVE_IN], step[MOVE_OUT]}};
    }
}

// ---- runs ----

static bool walk_make(const struct move_plan * p, int level, int64_t extent, int o,
                      struct plan_walk * out) {
    struct plan_dim dims[PLAN_DIMS] = {{p->unit_words[o], {p->unit_step[o]}}};
    if (level + 2 > PLAN_DIMS) {
        return false;
    }
    for (int i = 0; i <= level; i++) {
        dims[i + 1] =
            (struct plan_dim){i == level ? extent : p->dims[i].extent, {p->dims[i].step[o]}};
    }
    return plan_walk_make(dims, level + 2, PLAN_A, out);
}

// How far along dims[level] one piece can go: 0 when not even one step.
static int64_t piece_limit(const struct move_plan * p, int level) {
    int64_t words = p->unit_words[MOVE_IN] > p->unit_words[MOVE_OUT] ? p->unit_words[MOVE_IN]
                                                                     : p->unit_words[MOVE_OUT];
    for (int i = 0; i < level; i++) {
        words *= p->dims[i].extent;
        if (words > MAX_PIECE_WORDS) {
            return 0;
        }
    }
    static const int64_t counts[] = {INT64_MAX, MAX_REPEAT, MAX_ITERATIONS};
    for (int c = 0; c < 3; c++) {
        int64_t limit = least(least(MAX_PIECE_WORDS / words, counts[c]), p->dims[level].extent);
        bool fits = true;
        for (int o = 0; o < MOVE_OPERANDS; o++) {
            fits = fits && walk_make(p, level, limit, o, &(struct plan_walk){0});
        }
        if (fits) {
            return limit;
        }
    }
    return 0;
}

// Runs as large as descriptors allow, but not so large that columns stay idle.
static enum status choose_level(struct move_plan * p, int columns, struct error * err) {
    int64_t runs = 1;
    for (int level = p->n_dims - 1; level >= 0 && runs <= MAX_RUNS && p->pieces < columns;
         level--) {
        int64_t limit = piece_limit(p, level), pieces = runs * p->dims[level].extent;
        bool few = (runs * p->dims[level].extent + limit - 1) / (limit ? limit : 1) <= MAX_RUNS;
        if (limit && few && pieces > p->pieces) {
            p->pieces = pieces;
            p->level = level;
            p->limit = limit;
            p->runs = runs;
        }
        runs *= p->dims[level].extent;
    }
    return p->pieces
               ? ST_OK
               : error_set(err, ST_UNSUPPORTED, "no %d descriptors walk these strides", MAX_RUNS);
}

enum status move_plan_make(const struct kernel_spec * spec, struct move_plan * plan,
                           struct error * err) {
    *plan = (struct move_plan){.runs = 0};
    if (!tensor_can_repeat(&spec->inputs[0], &spec->output)) {
        return error_set(err, ST_INVALID, "the input does not repeat to the shape of the output");
    }
    for (int o = 0; o < MOVE_OPERANDS; o++) {
        enum status st = check_operand(spec, o, err);
        if (st != ST_OK) {
            return st;
        }
    }
    make_nest(spec, plan);
    return choose_level(plan, ops_columns(spec), err);
}

// ---- pieces ----

bool move_plan_next(const struct move_plan * plan, struct move_cursor * c, int columns,
                    struct move_piece * out) {
    if (c->run >= plan->runs) {
        return false;
    }
    int64_t at[MOVE_OPERANDS] = {0}, index = c->run;
    for (int i = plan->level + 1; i < plan->n_dims; i++) {
        for (int o = 0; o < MOVE_OPERANDS; o++) {
            at[o] += index % plan->dims[i].extent * plan->dims[i].step[o];
        }
        index /= plan->dims[i].extent;
    }
    const struct move_dim * cut = &plan->dims[plan->level];
    int64_t inner = 1;
    for (int i = 0; i < plan->level; i++) {
        inner *= plan->dims[i].extent;
    }
    int64_t left = cut->extent - c->done, unit = (MIN_PIECE_WORDS + inner - 1) / inner;
    int64_t take = plan->runs >= columns ? left : (cut->extent + columns - 1) / columns;
    take = (take + unit - 1) / unit * unit;
    take = least(least(take, plan->limit), left);
    *out = (struct move_piece){.units = inner * take};
    for (int o = 0; o < MOVE_OPERANDS; o++) {
        out->walk[o].offset = (uint32_t) (at[o] + c->done * cut->step[o]);
        walk_make(plan, plan->level, take, o, &out->walk[o]);
    }
    c->done += take;
    if (c->done == cut->extent) {
        c->done = 0;
        c->run++;
    }
    return true;
}

uint64_t move_bound(const struct kernel_spec * spec) {
    return bound_scattered(spec, &aie_times(spec->arch)->plain);
}
