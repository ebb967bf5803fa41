// elementwise-plan: how a shape becomes work. Tensors a and out are contiguous and walked in order;
// b is contiguous and repeats along some dimensions. The dimensions are folded into alternating groups
// (b runs along, b stands still), innermost first. Three patterns are done by the hardware:
//
//     linear   b runs along with a
//     period   b runs along `period` words, then starts again, `rows` times   (bias added to rows)
//     splat    b is one element for the whole run                              (scalar per row)
//
// and whatever is left outside is a short list of such runs. Runs are cut into pieces, one per
// column; four pieces run side by side, then the stream waits for them.
#include "elementwise-plan.h"

#include <string.h>

enum {
    MAX_RUNS = 64,                               // beyond that, expanding b in memory is cheaper
    MAX_PIECE_WORDS = 512 * EW_CHUNK_WORDS,      // what one column's queues hold at once
    MIN_PIECE_WORDS = 64,
    MAX_PERIOD_ROWS = PLAN_PERIOD_BDS * 256,
};

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

enum status plan_make(const struct kernel_spec * spec, struct plan * plan, struct error * err) {
    const struct tensor * a = &spec->inputs[0];
    const struct tensor * b = spec->n_inputs > 1 ? &spec->inputs[1] : a; // one input: all linear
    int64_t es = dtype_size(a->dtype);
    struct group g[8];
    int n = fold(a, b, g);
    memset(plan, 0, sizeof *plan);
    plan->element_bytes = es;

    int inner = 1; // groups that one run covers
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
        plan->outer[plan->n_outer++] =
            (struct plan_outer) {g[i].extent, a_stride * es, g[i].repeats ? 0 : b_stride * es};
        a_stride *= g[i].extent;
        b_stride *= g[i].repeats ? 1 : g[i].extent;
        plan->runs *= g[i].extent;
    }
    if (plan->runs > MAX_RUNS) {
        return error_set(err, ST_UNSUPPORTED, "the broadcast falls into %lld runs, at most %d are done",
                         (long long) plan->runs, MAX_RUNS);
    }
    if (plan->runs > 1 && plan->run_bytes % 4) {
        return error_set(err, ST_UNSUPPORTED, "rows of %lld bytes do not start on words",
                         (long long) plan->run_bytes);
    }
    return ST_OK;
}

// Offsets of run number `index` in bytes.
static void run_offsets(const struct plan * plan, int64_t index, int64_t * a, int64_t * b) {
    *a = *b = 0;
    for (int i = 0; i < plan->n_outer; i++) {
        int64_t at = index % plan->outer[i].extent;
        index /= plan->outer[i].extent;
        *a += at * plan->outer[i].a_stride;
        *b += at * plan->outer[i].b_stride;
    }
}

// How much of the run's rest the next piece takes: all of it where there are enough runs to keep the
// columns busy, else a share.
static int64_t share(int64_t left, int64_t total, int64_t runs, int64_t limit, int64_t unit, int columns) {
    int64_t take = runs >= columns ? left : (total + columns - 1) / columns;
    take = (take + unit - 1) / unit * unit;
    take = take > limit ? limit : take;
    return take > left ? left : take;
}

bool plan_next(const struct plan * plan, struct plan_cursor * c, int columns, struct plan_piece * out) {
    if (c->run >= plan->runs) {
        return false;
    }
    int64_t a = 0, b = 0;
    run_offsets(plan, c->run, &a, &b);
    int64_t words = (plan->run_bytes + 3) / 4;
    *out = (struct plan_piece) {.mode = plan->mode};
    int64_t take;
    if (plan->mode == PLAN_PERIOD) {
        int64_t rows = words / plan->period, done = c->words / plan->period;
        int64_t limit = MAX_PIECE_WORDS / plan->period;
        limit = limit > MAX_PERIOD_ROWS ? MAX_PERIOD_ROWS : limit;
        int64_t n = share(rows - done, rows, plan->runs, limit, 1, columns);
        out->rows = (uint32_t) n;
        out->period = plan->period;
        out->b_offset = (uint32_t) b;
        take = n * plan->period;
    } else {
        take = share(words - c->words, words, plan->runs, MAX_PIECE_WORDS, MIN_PIECE_WORDS, columns);
        out->b_offset = (uint32_t) (plan->mode == PLAN_LINEAR ? b + 4 * c->words : b);
    }
    out->words = (uint32_t) take;
    out->a_offset = (uint32_t) (a + 4 * c->words);
    c->words += take;
    if (c->words >= words) {
        c->words = 0;
        c->run++;
    }
    return true;
}
