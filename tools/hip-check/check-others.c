// check-others: kernels with a shape of their own: matmul, rope and index.
#include "check-impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- matmul ----

// Sizes around the tile and the depth, each of a and b lying either way, a shared by batches.
static const struct {
    uint32_t rows, columns, inner;
    bool a_turned, b_turned; // rows of a, or of b, are not what lies one behind the other
    bool y_turned;           // as ggml has it: rows are what lies one behind the other
} products[] = {{1, 1, 1, false, false, false},     {64, 64, 16, false, false, false},
                {65, 3, 17, false, false, false},   {33, 70, 40, true, true, false},
                {5, 130, 100, false, false, false}, {70, 66, 35, false, true, false},
                {67, 65, 18, true, false, true},    {68, 66, 48, false, true, true},
                {132, 130, 33, false, true, true}};

enum { BATCHES = 4, ROOM = 132 * 140 };

static enum status compare_product(struct check_run * r, const struct rk_matmul * p,
                                   enum check_type ta, enum check_type tb, enum check_type ty,
                                   bool turned) {
    uint32_t m = p->n_rows, n = p->n_columns, k = p->n_inner;
    enum status st = ST_OK;
    for (uint32_t i = 0; i < BATCHES * m * n && st == ST_OK; i++) {
        uint32_t batch = i / (m * n), row = turned ? i % m : i / n % m;
        uint32_t column = turned ? i / m % n : i % n;
        long double sum = 0;
        double scale = 0;
        for (uint32_t d = 0; d < k; d++) {
            double v =
                check_get(ta, p->a, batch / 2 * m * k + row * p->a_stride[0] + d * p->a_stride[1]) *
                check_get(tb, p->b, batch * k * n + d * p->b_stride[0] + column * p->b_stride[1]);
            sum += v;
            scale += fabs(v);
        }
        st = check_compare(r, ty, i, check_get(ty, p->y, i), (double) sum,
                           ty == T_F32 || ty == T_F64 ? scale : 1, ty == T_F32 ? 4 : 1);
    }
    return st;
}

static enum status check_matmul(struct check_run * r, const char * rest, bool vector) {
    rest += !strncmp(rest, "matrix_", 7) ? 7 : 0; // numbers here are f16 and bf16 as well
    bool wide = !vector && !strncmp(rest, "wide_", 5);
    uint32_t tile = wide ? RK_TILE_WIDE : RK_TILE;
    rest += wide ? 5 : 0;
    // One type is that of all; the second is b's and y's; the third is y's.
    enum check_type ta = check_parse_type(&rest);
    enum check_type tb = ta < T_COUNT && *rest ? check_parse_type(&rest) : ta;
    enum check_type ty = tb < T_COUNT && *rest ? check_parse_type(&rest) : tb;
    if (ty == T_COUNT || *rest) {
        return ST_NOT_FOUND;
    }
    enum status st = ST_OK;
    for (size_t c = 0; c < sizeof products / sizeof products[0] && st == ST_OK; c++) {
        uint32_t m = products[c].rows, n = products[c].columns, k = products[c].inner;
        bool at = products[c].a_turned, bt = products[c].b_turned, yt = products[c].y_turned;
        snprintf(r->what, sizeof r->what, "%ux%u%s times %ux%u%s", m, k, at ? " turned" : "", k, n,
                 bt ? " turned" : "");
        void *a = check_alloc(r, ta, 2 * ROOM), *b = check_alloc(r, tb, BATCHES * 130 * 100);
        void * y = check_alloc(r, ty, BATCHES * ROOM);
        if (!a || !b || !y) {
            return ST_NO_MEMORY;
        }
        for (uint32_t i = 0; i < 2 * m * k; i++) {
            check_put(ta, a, i, check_value(ta, i));
        }
        for (uint32_t i = 0; i < BATCHES * k * n; i++) {
            check_put(tb, b, i, check_value(tb, i * 3 + 1));
        }
        struct rk_matmul args = {.n_rows = m,
                                 .n_columns = n,
                                 .n_inner = k,
                                 .dim = 2,
                                 .a_share = {2, 1},
                                 .a_stride = {at ? 1 : k, at ? m : 1},
                                 .b_stride = {bt ? 1 : n, bt ? k : 1},
                                 .y_stride = {yt ? 1 : n, yt ? m : 1},
                                 .a_batch = {0, m * k},
                                 .b_batch = {k * n, 2 * k * n},
                                 .y_batch = {m * n, 2 * m * n},
                                 .a = a,
                                 .b = b,
                                 .y = y};
        st = vector ? check_launch(r, &args, sizeof args, m, n, BATCHES, 64)
                    : check_launch(r, &args, sizeof args, (n + tile - 1) / tile,
                                   (m + tile - 1) / tile, BATCHES, RK_BLOCK);
        st = st == ST_OK ? compare_product(r, &args, ta, tb, ty, yt) : st;
        check_free(r);
    }
    return st;
}

// ---- rope ----

static enum status check_rope(struct check_run * r, const char * rest) {
    bool interleaved = !strncmp(rest, "i_", 2);
    rest += interleaved ? 2 : 0;
    enum check_type t = check_parse_type(&rest);
    if (t == T_COUNT || *rest) {
        return ST_NOT_FOUND;
    }
    enum { BATCH = 2, HEADS = 3, POSITIONS = 5, COLUMNS = 14, HALF = COLUMNS / 2 };
    enum { N = BATCH * HEADS * POSITIONS * COLUMNS, TABLE = BATCH * POSITIONS * HALF };
    enum status st = ST_OK;
    for (int own = 0; own < 2 && st == ST_OK; own++) {
        snprintf(r->what, sizeof r->what, own ? "tables of each batch" : "one table");
        void *x = check_alloc(r, t, N), *y = check_alloc(r, t, N);
        void *cosines = check_alloc(r, t, TABLE), *sines = check_alloc(r, t, TABLE);
        if (!x || !y || !cosines || !sines) {
            return ST_NO_MEMORY;
        }
        for (uint32_t i = 0; i < N; i++) {
            check_put(t, x, i, check_value(t, i));
        }
        for (uint32_t i = 0; i < TABLE; i++) {
            check_put(t, cosines, i, cos(i * 0.7));
            check_put(t, sines, i, sin(i * 0.7));
        }
        struct rk_rope args = {.n_pairs = N / 2,
                               .n_columns = COLUMNS,
                               .n_positions = POSITIONS,
                               .n_heads = HEADS,
                               .batch_stride = own ? POSITIONS * HALF : 0,
                               .x = x,
                               .cos = cosines,
                               .sin = sines,
                               .y = y};
        st = check_launch(r, &args, sizeof args, (N / 2 + 63) / 64, 1, 1, 64);
        for (uint32_t i = 0; i < N / 2 && st == ST_OK; i++) {
            uint32_t row = i / HALF, d = i % HALF;
            uint32_t at = row * COLUMNS + (interleaved ? 2 * d : d),
                     other = at + (interleaved ? 1 : HALF);
            uint32_t table = row % POSITIONS * HALF + d +
                             (own ? row / (HEADS * POSITIONS) * POSITIONS * HALF : 0);
            double a = check_get(t, x, at), b = check_get(t, x, other);
            double c = check_get(t, cosines, table), s = check_get(t, sines, table);
            st = check_compare(r, t, at, check_get(t, y, at), a * c - b * s, 4, 1);
            if (st == ST_OK) {
                st = check_compare(r, t, other, check_get(t, y, other), a * s + b * c, 4, 1);
            }
        }
        check_free(r);
    }
    return st;
}

// ---- index ----

enum index_op { SELECT, GATHER, SCATTER };

static enum status check_index(struct check_run * r, const char * rest, enum index_op op) {
    enum check_type ti = check_parse_type(&rest),
                    t = ti < T_COUNT ? check_parse_type(&rest) : T_COUNT;
    if (t == T_COUNT || *rest) {
        return ST_NOT_FOUND;
    }
    enum { LEFT = 3, IDS = 11, RIGHT = 5, DIM = 7 };
    struct rk_index args = {.n_left = LEFT, .n_ids = IDS, .n_right = RIGHT, .dim = DIM};
    uint32_t n_x = LEFT * RIGHT * (op == SCATTER ? IDS : DIM);
    uint32_t n_y = LEFT * RIGHT * (op == SCATTER ? DIM : IDS);
    uint32_t n_ids = op == SELECT ? IDS : LEFT * IDS * RIGHT;
    snprintf(r->what, sizeof r->what, "3x7x5 by 11 indices");
    void *x = check_alloc(r, t, n_x), *y = check_alloc(r, t, n_y), *ids = check_alloc(r, ti, n_ids);
    double want[LEFT * IDS * RIGHT] = {0};
    if (!x || !y || !ids) {
        return ST_NO_MEMORY;
    }
    for (uint32_t i = 0; i < n_x; i++) {
        check_put(t, x, i, trunc(check_value(t, i) / 4)); // sums stay within every type
    }
    for (uint32_t i = 0; i < n_y; i++) {
        want[i] = op == SCATTER ? i % 3 : 0;
        check_put(t, y, i, want[i]);
    }
    for (uint32_t i = 0; i < n_ids; i++) { // some too large, and where there is a sign some below 0
        uint32_t v = i * 2654435761u >> 20;
        check_put(ti, ids, i, i % 10 == 3 ? 200.0 : i % 10 == 6 && ti == T_I64 ? -1.0 : v % DIM);
    }
    args.x = x;
    args.y = y;
    args.ids = ids;
    for (uint32_t e = 0; e < LEFT * IDS * RIGHT; e++) {
        uint32_t right = e % RIGHT, i = e / RIGHT % IDS, left = e / RIGHT / IDS;
        double id = check_get(ti, ids, op == SELECT ? i : e);
        if (id < 0 || id >= DIM) {
            continue;
        }
        uint32_t there = (left * DIM + (uint32_t) id) * RIGHT + right;
        want[op == SCATTER ? there : e] += check_get(t, x, op == SCATTER ? e : there);
    }
    uint32_t n = op == SCATTER ? LEFT * RIGHT : n_y;
    enum status st = check_launch(r, &args, sizeof args, (n + 63) / 64, 1, 1, 64);
    for (uint32_t i = 0; i < n_y && st == ST_OK; i++) {
        st = check_compare(r, t, i, check_get(t, y, i), want[i], 0, 0);
    }
    check_free(r);
    return st;
}

enum status check_others(struct check_run * r) {
    const char * name = r->kernel;
    return !strncmp(name, "matmul_", 7)          ? check_matmul(r, name + 7, false)
           : !strncmp(name, "matvec_", 7)        ? check_matmul(r, name + 7, true)
           : !strncmp(name, "rope_", 5)          ? check_rope(r, name + 5)
           : !strncmp(name, "index_select_", 13) ? check_index(r, name + 13, SELECT)
           : !strncmp(name, "gather_", 7)        ? check_index(r, name + 7, GATHER)
           : !strncmp(name, "scatter_add_", 12)  ? check_index(r, name + 12, SCATTER)
                                                 : ST_UNSUPPORTED;
}
