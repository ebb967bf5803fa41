// check-attention: attention of every type that a cache may have, in one part and in several; and
// sorting.
#include "check-impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- attention ----

enum { QUERIES = 3, KV_HEADS = 2, SHARE = 2, SIZE = 64, KEYS = 300 };
enum { HEADS = KV_HEADS * SHARE, ROWS = QUERIES * SHARE, MANY = 60 };

static const struct {
    const char * name;
    bool mask, sinks;
    float cap, slope; // slope: ALiBi's m0
    uint32_t splits, split_keys;
} attention_cases[] = {
    {"mask", true, false, 0, 0, 1, KEYS},
    {"mask, sinks, slopes, two splits", true, true, 0, 0.5f, 2, 256},
    {"mask, sinks, 60 splits", true, true, 0, 0, MANY, KEYS / MANY},
    {"cap, no mask", false, false, 2, 0, 1, KEYS},
};
enum { ATTENTION_CASES = sizeof attention_cases / sizeof attention_cases[0] };

static void fill_rows(const struct check_format * f, enum check_type t, void * p, uint32_t rows,
                      double * out) {
    if (f) {
        uint32_t blocks = SIZE / (uint32_t) f->length * rows;
        check_fill_blocks(f, p, blocks);
        for (uint32_t i = 0; i < blocks; i++) {
            f->decode((uint8_t *) p + i * (uint32_t) f->bytes, out + i * (uint32_t) f->length);
        }
        return;
    }
    for (uint32_t i = 0; i < rows * SIZE; i++) {
        out[i] = check_value(T_F16, i * 7 + 5) / 4;
        check_put(t, p, i, out[i]);
    }
}

static enum status compare_attention(struct check_run * r, const struct rk_attention * a,
                                     const double * k, const double * v) {
    enum status st = ST_OK;
    for (uint32_t n = 0; n < QUERIES * HEADS && st == ST_OK; n++) {
        uint32_t query = n / HEADS, head = n % HEADS, kv = head / SHARE;
        double w[KEYS + 1], most = -INFINITY, sum = 0;
        double slope = a->n_heads_log2 ? pow(a->m0, head + 1) : 1;
        for (uint32_t key = 0; key < KEYS; key++) {
            w[key] = 0;
            for (uint32_t i = 0; i < SIZE; i++) {
                w[key] += check_get(T_F32, a->q, (head * QUERIES + query) * SIZE + i) *
                          k[(kv * KEYS + key) * SIZE + i];
            }
            w[key] *= a->scale;
            w[key] = a->cap != 0 ? a->cap * tanh(w[key]) : w[key];
            w[key] += a->mask ? slope * check_get(T_F16, a->mask, query * KEYS + key) : 0;
            most = fmax(most, w[key]);
        }
        most = a->sinks ? fmax(most, a->sinks[head]) : most;
        sum = a->sinks ? exp(a->sinks[head] - most) : 0;
        for (uint32_t key = 0; key < KEYS; key++) {
            sum += w[key] = exp(w[key] - most);
        }
        for (uint32_t i = 0; i < SIZE && st == ST_OK; i++) {
            double want = 0, scale = 0;
            for (uint32_t key = 0; key < KEYS; key++) {
                want += w[key] / sum * v[(kv * KEYS + key) * SIZE + i];
                scale += w[key] / sum * fabs(v[(kv * KEYS + key) * SIZE + i]);
            }
            uint32_t at = (query * HEADS + head) * SIZE + i;
            st = check_compare(r, T_F32, at, check_get(T_F32, a->y, at), want, scale, 100);
        }
    }
    return st;
}

static void fill_queries(void * q, void * mask, void * sinks) {
    for (uint32_t i = 0; i < QUERIES * HEADS * SIZE; i++) {
        check_put(T_F32, q, i, check_value(T_F32, i * 3 + 2) / 4);
    }
    for (uint32_t i = 0; i < QUERIES * KEYS; i++) { // some keys are not to be seen
        check_put(T_F16, mask, i, i % 5 == 2 ? -INFINITY : check_value(T_F16, i));
    }
    for (uint32_t i = 0; i < HEADS; i++) {
        check_put(T_F32, sinks, i, i);
    }
}

// group: rows of one.
static enum status launch_attention(struct check_run * r, const struct rk_attention * a,
                                    uint32_t group) {
    const char * kernel = r->kernel;
    r->kernel = strcmp(kernel, "attention_join") ? kernel : "attention_f16";
    enum status st =
        check_launch(r, a, sizeof *a, (ROWS + group - 1) / group, KV_HEADS, a->n_splits, RK_BLOCK);
    if (st == ST_OK && a->n_splits > 1) {
        r->kernel = "attention_join";
        st = check_launch(r, a, sizeof *a, ROWS * KV_HEADS, 1, 1, RK_BLOCK);
    }
    r->kernel = kernel;
    return st;
}

static enum status run_attention(struct check_run * r, int n, uint32_t group, const char * type) {
    const struct check_format * f = check_format(type);
    enum check_type t = f ? T_U8 : check_parse_type(&type);
    uint32_t row = f ? SIZE / (uint32_t) f->length : SIZE, splits = attention_cases[n].splits;
    size_t bytes = f ? (size_t) f->bytes * row : SIZE; // elements of t
    size_t all = (size_t) KV_HEADS * KEYS * SIZE;
    if (t == T_COUNT) {
        return ST_NOT_FOUND;
    }
    snprintf(r->what, sizeof r->what, "%s", attention_cases[n].name);
    void *q = check_alloc(r, T_F32, QUERIES * HEADS * SIZE),
         *y = check_alloc(r, T_F32, QUERIES * HEADS * SIZE);
    void *k = check_alloc(r, t, bytes * KV_HEADS * KEYS),
         *v = check_alloc(r, t, bytes * KV_HEADS * KEYS);
    void *mask = check_alloc(r, T_F16, QUERIES * KEYS), *sinks = check_alloc(r, T_F32, HEADS);
    void * parts = check_alloc(r, T_F32, ROWS * KV_HEADS * MANY * RK_PART(SIZE));
    double * numbers = calloc(2 * all, sizeof *numbers);
    enum status st = q && y && k && v && mask && sinks && parts && numbers ? ST_OK : ST_NO_MEMORY;
    if (st == ST_OK) {
        fill_rows(f, t, k, KV_HEADS * KEYS, numbers);
        fill_rows(f, t, v, KV_HEADS * KEYS, numbers + all);
        fill_queries(q, mask, sinks);
        struct rk_attention a = {
            .k_size = SIZE,
            .v_size = SIZE,
            .n_queries = QUERIES,
            .n_keys = KEYS,
            .n_kv_heads = KV_HEADS,
            .share = SHARE,
            .kv_repeats = 1,
            .q_stride = {SIZE, QUERIES * SIZE, 0},
            .k_stride = {row, KEYS * row, 0},
            .v_stride = {row, KEYS * row, 0},
            .y_stride = {SIZE, HEADS * SIZE, 0},
            .mask_dims = {1, 1},
            .mask_stride = {KEYS, 0, 0},
            .n_splits = splits,
            .split_keys = attention_cases[n].split_keys,
            .n_heads_log2 = attention_cases[n].slope != 0 ? HEADS : 0,
            .scale = 0.25f,
            .cap = attention_cases[n].cap,
            .m0 = attention_cases[n].slope,
            .q = q,
            .k = k,
            .v = v,
            .mask = attention_cases[n].mask ? mask : NULL,
            .sinks = attention_cases[n].sinks ? sinks : NULL,
            .y = y,
            .parts = parts,
        };
        st = launch_attention(r, &a, group);
        st = st == ST_OK ? compare_attention(r, &a, numbers, numbers + all) : st;
    }
    free(numbers);
    check_free(r);
    return st;
}

// ---- sort ----

enum { SORT_ROWS = 2, SORT_COLUMNS = 5000 };

static const struct {
    const char * name;
    uint32_t columns, wanted, descending;
} sort_cases[] = {
    {"all of 300, descending", 300, 300, 1},
    {"all of 5000", SORT_COLUMNS, SORT_COLUMNS, 0},
    {"7 of 5000, descending", SORT_COLUMNS, 7, 1},
};
enum { SORT_CASES = sizeof sort_cases / sizeof sort_cases[0] };

static enum status run_sort(struct check_run * r, int n) {
    uint32_t columns = sort_cases[n].columns, wanted = sort_cases[n].wanted;
    const char * kernel = r->kernel;
    snprintf(r->what, sizeof r->what, "%s", sort_cases[n].name);
    void *x = check_alloc(r, T_F32, SORT_ROWS * SORT_COLUMNS),
         *y = check_alloc(r, T_I32, SORT_ROWS * SORT_COLUMNS);
    void * words[2] = {check_alloc(r, T_I64, SORT_ROWS * SORT_COLUMNS),
                       check_alloc(r, T_I64, SORT_ROWS * SORT_COLUMNS)};
    if (!x || !y || !words[0] || !words[1]) {
        return ST_NO_MEMORY;
    }
    for (uint32_t i = 0; i < SORT_ROWS * columns; i++) { // many are equal
        check_put(T_F32, x, i, i % 97 == 3 ? -INFINITY : check_value(T_F32, i));
    }
    struct rk_sort a = {.rows = {columns, {SORT_ROWS, 1}, {columns, 0, 0}, 1},
                        .n_wanted = wanted,
                        .descending = sort_cases[n].descending,
                        .x = x,
                        .y = y,
                        .to = columns > RK_RUN ? words[0] : NULL};
    int side = 0;
    r->kernel = "sort_runs";
    enum status st =
        check_launch(r, &a, sizeof a, (columns + RK_RUN - 1) / RK_RUN, SORT_ROWS, 1, RK_BLOCK);
    r->kernel = "sort_merge";
    for (uint32_t run = RK_RUN; run < columns && st == ST_OK; run *= 2, side ^= 1) {
        a.run = run;
        a.from = words[side];
        a.to = 2 * run < columns ? words[side ^ 1] : NULL;
        st = check_launch(r, &a, sizeof a, (columns + RK_BLOCK - 1) / RK_BLOCK, SORT_ROWS, 1,
                          RK_BLOCK);
    }
    r->kernel = kernel;
    for (uint32_t i = 0; i < SORT_ROWS * wanted && st == ST_OK; i++) { // where would it be?
        uint32_t row = i / wanted, column = (uint32_t) check_get(T_I32, y, i), before = 0;
        double v = column < columns ? check_get(T_F32, x, row * columns + column) : 0;
        for (uint32_t c = 0; c < columns; c++) {
            double other = check_get(T_F32, x, row * columns + c);
            before += a.descending ? other > v : other < v;
            before += other == v && c < column;
        }
        st = check_compare(r, T_I32, i, before, i % wanted, 0, 0);
    }
    check_free(r);
    return st;
}

enum status check_attention(struct check_run * r) {
    bool attention = !strncmp(r->kernel, "attention_", 10), sort = !strncmp(r->kernel, "sort_", 5);
    bool join = !strcmp(r->kernel, "attention_join");
    bool one = !strncmp(r->kernel, "attention_one_", 14);
    bool few = !strncmp(r->kernel, "attention_few_", 14);
    const char * type = join ? "f16" : r->kernel + (one || few ? 14 : 10);
    enum status st = attention || sort ? ST_OK : ST_UNSUPPORTED;
    int cases = sort ? SORT_CASES : ATTENTION_CASES;
    for (int n = 0; n < cases && st == ST_OK; n++) {
        st = sort ? run_sort(r, n) : run_attention(r, n, one ? 1 : few ? RK_FEW_ROWS : 8, type);
    }
    return st;
}
