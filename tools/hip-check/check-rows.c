// check-rows: kernels that give a row to a group: reduce, softmax and the norms.
#include "check-impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_COLUMNS = 1100, ROWS = 2 * 3 * 2, ROOM = ROWS * (MAX_COLUMNS + 8) * 2 };

static const struct {
    uint32_t columns, step, group;
} cases[] = {{1, 1, 64}, {33, 1, 32}, {100, 2, 128}, {1000, 1, 256}};
enum { CASES = sizeof cases / sizeof cases[0] };

// 2 x 3 x 2 rows with a gap behind each, the dimensions in an odd order.
static struct rk_rows make_rows(int c) {
    uint32_t row = cases[c].columns * cases[c].step + 5;
    return (struct rk_rows){.n_columns = cases[c].columns,
                            .dims = {2, 3},
                            .stride = {3 * row, row, 6 * row},
                            .step = cases[c].step};
}

static uint32_t place(const struct rk_rows * rows, uint32_t r, uint32_t column) {
    uint32_t i1 = r % 2, i2 = r / 2 % 3, i3 = r / 6;
    return i1 * rows->stride[0] + i2 * rows->stride[1] + i3 * rows->stride[2] + column * rows->step;
}

static void * make_input(struct check_run * r, enum check_type t, int c) {
    void * x = check_alloc(r, t, ROOM);
    snprintf(r->what, sizeof r->what, "rows of %u, step %u, groups of %u", cases[c].columns,
             cases[c].step, cases[c].group);
    for (uint32_t i = 0; x && i < ROOM; i++) {
        check_put(t, x, i, check_value(t, i * 3 + (uint32_t) c));
    }
    return x;
}

// The same rows one behind the other, as y is: what is in place has no gaps.
static struct rk_rows dense_rows(int c) {
    uint32_t n = cases[c].columns;
    return (struct rk_rows){.n_columns = n, .dims = {2, 3}, .stride = {n, 2 * n, 6 * n}, .step = 1};
}

// What is asked for beside x alone.
struct variant {
    const char * name;
    bool in_place, mask, sinks, weight;
};

static void name_variant(struct check_run * r, const struct variant * v) {
    size_t n = strlen(r->what);
    snprintf(r->what + n, sizeof r->what - n, "%s", v->name);
}

// The output; where it is x too, it holds a copy, and x stays for the comparison.
static void * make_output(struct check_run * r, enum check_type t, bool in_place, const void * x,
                          const void ** input) {
    void * y = check_alloc(r, t, ROWS * MAX_COLUMNS);
    if (y && x && in_place) {
        memcpy(y, x, ROWS * MAX_COLUMNS * check_size(t));
    }
    *input = in_place ? y : x;
    return y;
}

// ---- reduce ----

// The wanted value, and in *scale the size of what was added up.
static double reduced(const char * op, enum check_type t, const void * x,
                      const struct rk_rows * rows, uint32_t r, double * scale) {
    long double sum = 0;
    double best = check_get(t, x, place(rows, r, 0));
    uint32_t at = 0;
    bool least = strstr(op, "min") != NULL;
    *scale = 0;
    for (uint32_t c = 0; c < rows->n_columns; c++) {
        double v = check_get(t, x, place(rows, r, c));
        sum += v;
        *scale += fabs(v);
        if (best == best && (v != v || (least ? v < best : v > best))) {
            best = v;
            at = c;
        }
    }
    return !strcmp(op, "sum") ? (double) sum : !strncmp(op, "arg", 3) ? at : best;
}

static enum status check_reduce(struct check_run * r, const char * rest) {
    char op[16] = "";
    size_t n = strcspn(rest, "_");
    const char * type = rest + n + 1;
    snprintf(op, sizeof op, "%.*s", (int) n, rest);
    enum check_type t = rest[n] ? check_parse_type(&type) : T_COUNT;
    if (t == T_COUNT || *type) {
        return ST_NOT_FOUND;
    }
    bool sum = !strcmp(op, "sum"), arg = !strncmp(op, "arg", 3);
    enum status st = ST_OK;
    for (int c = 0; c < CASES * 2 && st == ST_OK; c++) {
        struct rk_reduce a = {.rows = make_rows(c % CASES)};
        void * x = make_input(r, t, c % CASES);
        a.x = x;
        a.y = check_alloc(r, arg ? T_U32 : t, ROWS);
        if (!x || !a.y) {
            return ST_NO_MEMORY;
        }
        if (c >= CASES && t <= T_F64) { // once more with a NaN in one row
            check_put(t, x, place(&a.rows, 4, a.rows.n_columns / 2), NAN);
        }
        st = check_launch(r, &a, sizeof a, ROWS, 1, 1, cases[c % CASES].group);
        for (uint32_t i = 0; i < ROWS && st == ST_OK; i++) {
            double scale, want = reduced(op, t, x, &a.rows, i, &scale);
            uint8_t wrapped[8];
            if (sum && t > T_F64) {
                check_put(t, wrapped, 0, want);
                want = check_get(t, wrapped, 0);
            }
            double ulps = !sum ? 0 : t == T_F32 || t == T_F64 ? 4 : 0.6;
            st = check_compare(r, arg ? T_U32 : t, i, check_get(arg ? T_U32 : t, a.y, i), want,
                               t == T_F16 || t == T_BF16 ? 1e-3 : scale, ulps);
        }
        check_free(r);
    }
    return st;
}

// ---- softmax ----

static const struct variant softmax_variants[] = {
    {"", false, false, false, false},
    {", mask", false, true, false, false},
    {", mask and sinks", false, true, true, false},
    {", sinks, in place", true, false, true, false},
    {", mask, in place", true, true, false, false},
};
enum { SOFTMAX_VARIANTS = sizeof softmax_variants / sizeof softmax_variants[0] };

// One that counts, one that is not there, one that is above all of its rows.
static const float sink_values[3] = {1.5f, -INFINITY, 9.0f};

// Row i, of n columns; its numbers are of type t, those of the mask of type m.
static enum status compare_softmax(struct check_run * r, const struct rk_softmax * a,
                                   enum check_type t, const void * x, enum check_type m,
                                   const void * mask, uint32_t n, uint32_t i) {
    enum status st = ST_OK;
    double v[MAX_COLUMNS], greatest = -INFINITY;
    long double sum = 0;
    uint32_t i1 = i % 2, head = i / 2 % 3, i3 = i / 6;
    double slope = head < 2 ? pow(0.5, head + 1) : 0.25;
    for (uint32_t k = 0; k < n; k++) {
        v[k] = check_get(t, x, place(&a->rows, i, k)) * a->scale;
        v[k] += a->mask ? slope * check_get(m, mask, i1 * n + i3 * 2 * n + k) : 0;
        greatest = v[k] > greatest ? v[k] : greatest;
    }
    if (a->sinks) {
        double sink = sink_values[head];
        greatest = sink > greatest ? sink : greatest;
        sum = exp(sink - greatest);
    }
    for (uint32_t k = 0; k < n; k++) {
        sum += exp(v[k] - greatest);
    }
    for (uint32_t k = 0; k < n && st == ST_OK; k++) {
        st = check_compare(r, t, i * n + k, check_get(t, a->y, i * n + k),
                           (double) (exp(v[k] - greatest) / sum), t == T_F16 ? 0x1p-14 : 1e-30,
                           t == T_F32   ? 20
                           : t == T_F64 ? 40
                                        : 1);
    }
    return st;
}

static enum status check_softmax(struct check_run * r, const char * rest) {
    bool mask16 = !strncmp(rest, "mask16_", 7);
    rest += mask16 ? 7 : 0;
    enum check_type t = check_parse_type(&rest), m = mask16 ? T_F16 : t;
    if (t == T_COUNT || *rest) {
        return ST_NOT_FOUND;
    }
    enum status st = ST_OK;
    for (int c = 0; c < CASES * SOFTMAX_VARIANTS && st == ST_OK; c++) {
        const struct variant * variant = &softmax_variants[c / CASES];
        bool masked = variant->mask;
        uint32_t n = cases[c % CASES].columns;
        struct rk_softmax a = {.rows =
                                   variant->in_place ? dense_rows(c % CASES) : make_rows(c % CASES),
                               .scale = masked ? 0.5f : 1.0f};
        void * x = make_input(r, t, c % CASES);
        void * mask = check_alloc(r, m, 4 * MAX_COLUMNS);
        void * sinks = check_alloc(r, T_F32, 3);
        a.y = make_output(r, t, variant->in_place, x, &a.x);
        if (!x || !mask || !sinks || !a.y) {
            return ST_NO_MEMORY;
        }
        name_variant(r, variant);
        memcpy(sinks, sink_values, sizeof sink_values);
        a.sinks = variant->sinks ? sinks : NULL;
        if (masked) { // its rows are those of i1 and i3; i2 is the head
            a.mask = mask;
            a.mask_dims[0] = 1;
            a.mask_dims[1] = 2;
            a.mask_stride[0] = n;
            a.mask_stride[2] = 2 * n;
            a.n_heads_log2 = 2;
            a.m0 = 0.5f;
            a.m1 = 0.25f;
            for (uint32_t i = 0; i < 4 * n; i++) {
                bool hidden = (n > 1 && i % n % 5 == 2) || i / n == 1; // and all of one row
                check_put(m, mask, i, hidden ? -INFINITY : check_value(m, i));
            }
        }
        st = check_launch(r, &a, sizeof a, ROWS, 1, 1, cases[c % CASES].group);
        for (uint32_t i = 0; i < ROWS && st == ST_OK; i++) {
            st = compare_softmax(r, &a, t, x, m, mask, n, i);
        }
        check_free(r);
    }
    return st;
}

// ---- norms ----

static const struct variant norm_variants[] = {
    {"", false, false, false, false},
    {", weight", false, false, false, true},
    {", weight, in place", true, false, false, true},
};
enum { NORM_VARIANTS = sizeof norm_variants / sizeof norm_variants[0] };

static enum status check_norm(struct check_run * r, const char * rest, bool layer) {
    enum check_type t = check_parse_type(&rest);
    if (t == T_COUNT || *rest) {
        return ST_NOT_FOUND;
    }
    enum status st = ST_OK;
    for (int c = 0; c < CASES * NORM_VARIANTS && st == ST_OK; c++) {
        const struct variant * variant = &norm_variants[c / CASES];
        uint32_t n = cases[c % CASES].columns;
        struct rk_norm a = {
            .rows = variant->in_place ? dense_rows(c % CASES) : make_rows(c % CASES), .eps = 1e-5f};
        void * x = make_input(r, t, c % CASES);
        void *w = check_alloc(r, t, MAX_COLUMNS), *b = check_alloc(r, t, ROWS * MAX_COLUMNS);
        a.y = make_output(r, t, variant->in_place, x, &a.x);
        if (!x || !w || !b || !a.y) {
            return ST_NO_MEMORY;
        }
        name_variant(r, variant);
        for (uint32_t k = 0; k < n; k++) {
            check_put(t, w, k, check_value(t, k + 11));
        }
        for (uint32_t k = 0; k < ROWS * n; k++) {
            check_put(t, b, k, check_value(t, k + 77));
        }
        a.weight = variant->weight ? w : NULL;
        a.bias = variant->weight && (layer || c % 2) ? b : NULL; // of all rows, and of each
        a.bias_stride = a.bias && c % 3 == 0 ? n : 0;
        st = check_launch(r, &a, sizeof a, ROWS, 1, 1, cases[c % CASES].group);
        for (uint32_t i = 0; i < ROWS && st == ST_OK; i++) {
            long double mean = 0, squares = 0;
            for (uint32_t k = 0; layer && k < n; k++) {
                mean += check_get(t, x, place(&a.rows, i, k)) / n;
            }
            for (uint32_t k = 0; k < n; k++) {
                long double v = check_get(t, x, place(&a.rows, i, k)) - mean;
                squares += v * v / n;
            }
            for (uint32_t k = 0; k < n && st == ST_OK; k++) {
                double v = (double) ((check_get(t, x, place(&a.rows, i, k)) - mean) /
                                     sqrtl(squares + a.eps));
                v = a.weight ? v * check_get(t, w, k) : v;
                double added = a.bias ? check_get(t, b, i * a.bias_stride + k) : 0;
                v += added;
                // A mean that is off by its last place is off by that much more where the row is
                // flat.
                double scale = layer ? 4 + (n == 1 ? 400 : 0) : 1 + fabs(added);
                st = check_compare(r, t, i * n + k, check_get(t, a.y, i * n + k), v, scale,
                                   t == T_F32 || t == T_F64 ? 12 : 1);
            }
        }
        check_free(r);
    }
    return st;
}

enum status check_rows(struct check_run * r) {
    const char * name = r->kernel;
    return !strncmp(name, "reduce_", 7)        ? check_reduce(r, name + 7)
           : !strncmp(name, "softmax_", 8)     ? check_softmax(r, name + 8)
           : !strncmp(name, "rms_norm_", 9)    ? check_norm(r, name + 9, false)
           : !strncmp(name, "layer_norm_", 11) ? check_norm(r, name + 11, true)
                                               : ST_UNSUPPORTED;
}
