// check-ggml: kernels that are as ggml's CPU has them: ggml_rope and set_rows. All of y is
// compared, also what must not have been written.
#include "check-impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// What a tensor that nobody wrote to holds.
static double untouched(enum check_type t) {
    uint8_t bytes[8];
    memset(bytes, 0xa5, sizeof bytes);
    return check_get(t, bytes, 0);
}

// ---- ggml_rope ----

enum { MAX_COLUMNS = 64, ROPE_ROOM = 3200, MAX_POSITIONS = 5 };

enum layout { DENSE, GAPS, TURNED }; // rows with gaps behind them; dimension 0 outermost

enum { IN_PLACE = 1, BACK = 2, FACTORS = 4, ODD_FACTORS = 8, YARN = 16 };

static const struct rope_case {
    const char * name;
    uint32_t dims[4], n_rotated, first, mode, sections[4];
    enum layout x, y;
    int flags;
    float base, freq_scale;
} rope_cases[] = {
    // clang-format off
    {"normal, one pair", {2, 1, 1, 1}, 2, 0, RK_ROPE_NORMAL, {0}, DENSE, DENSE, 0, 1e4f, 1},
    {"normal", {64, 3, 5, 2}, 64, 0, RK_ROPE_NORMAL, {0}, GAPS, TURNED, 0, 1e4f, 1},
    {"normal, part, back, in place", {10, 3, 5, 2}, 6, 2, RK_ROPE_NORMAL, {0},
     DENSE, DENSE, IN_PLACE | BACK, 1e4f, 0.5f},
    {"normal, odd factors", {8, 2, 3, 1}, 8, 0, RK_ROPE_NORMAL, {0},
     DENSE, DENSE, FACTORS | ODD_FACTORS, 1e4f, 1},
    {"neox, factors", {64, 3, 5, 1}, 64, 0, RK_ROPE_NEOX, {0}, DENSE, GAPS, FACTORS, 5e5f, 1},
    {"neox, part, in place, YaRN", {22, 3, 5, 2}, 14, 4, RK_ROPE_NEOX, {0},
     GAPS, GAPS, IN_PLACE | YARN, 1e4f, 0.25f},
    {"neox, YaRN, factors, back", {48, 2, 5, 1}, 32, 0, RK_ROPE_NEOX, {0},
     TURNED, DENSE, BACK | FACTORS | YARN, 1e6f, 0.125f},
    {"mrope", {32, 3, 5, 2}, 32, 0, RK_ROPE_MROPE, {4, 6, 6, 0}, GAPS, DENSE, 0, 1e6f, 1},
    {"mrope, sections again, back", {24, 3, 5, 1}, 20, 2, RK_ROPE_MROPE, {1, 2, 0, 1},
     DENSE, TURNED, BACK | FACTORS | YARN, 1e4f, 0.5f},
    {"vision", {16, 3, 5, 1}, 8, 0, RK_ROPE_VISION, {4, 4, 4, 4}, DENSE, DENSE, 0, 1e4f, 1},
    {"vision, four sections", {32, 3, 5, 2}, 16, 0, RK_ROPE_VISION, {3, 2, 4, 1},
     GAPS, GAPS, IN_PLACE | FACTORS | YARN, 1e2f, 0.5f},
    {"vision, empty sections", {36, 2, 5, 1}, 18, 0, RK_ROPE_VISION, {0, 2, 0, 3},
     DENSE, GAPS, BACK | FACTORS | YARN, 10, 0.5f},
    {"vision, empty second", {20, 1, 5, 1}, 10, 0, RK_ROPE_VISION, {2, 0, 3, 0},
     DENSE, DENSE, 0, 10, 1},
    {"imrope", {32, 3, 5, 1}, 32, 0, RK_ROPE_IMROPE, {6, 5, 5, 0}, DENSE, DENSE, 0, 5e6f, 1},
    {"imrope, sections again", {32, 3, 5, 2}, 28, 2, RK_ROPE_IMROPE, {2, 2, 1, 4},
     GAPS, TURNED, YARN, 1e4f, 0.5f},
    // clang-format on
};

static void set_strides(enum layout how, const uint32_t dims[4], uint32_t stride[4]) {
    uint32_t step = 1;
    for (int i = 0; i < 4; i++) {
        int d = how == TURNED ? 3 - i : i;
        stride[d] = step;
        step = step * dims[d] + (how == GAPS && i == 0 ? 3 : 0);
    }
}

static uint32_t rope_place(const uint32_t stride[4], const uint32_t i[4]) {
    return i[0] * stride[0] + i[1] * stride[1] + i[2] * stride[2] + i[3] * stride[3];
}

// cos and sin of all pairs for one i2, by going along the row as ggml does: angles are multiplied
// by one step after another, and set back where VISION's sections begin.
static void make_turns(const struct rope_case * c, const struct rk_ggml_rope * a, uint32_t i2,
                       double cosine[MAX_COLUMNS], double sine[MAX_COLUMNS]) {
    const uint32_t * n = c->sections;
    const uint32_t total = n[0] + n[1] + n[2] + n[3];
    const uint32_t second = n[0], third = n[0] + n[1], fourth = third + n[2];
    bool many = c->mode & RK_ROPE_MROPE, imrope = c->mode == RK_ROPE_IMROPE;
    long double step = powl(c->base, -2.0L / c->n_rotated), angle[4] = {0}, start[4] = {0};
    for (uint32_t s = 0; s < (many ? 4 : 1); s++) {
        angle[s] = start[s] = a->positions[s * c->dims[2] + i2];
    }
    for (uint32_t p = 0; p < c->dims[0] / 2; p++) {
        uint32_t use = 0, place = many ? p % total : 0;
        if (c->mode == RK_ROPE_VISION) {
            uint32_t begins = place == 0        ? 0
                              : place == second ? 1
                              : place == third  ? 2
                              : place == fourth ? 3
                                                : 4;
            if (begins < 4) {
                angle[begins] = start[begins];
            }
        }
        if (imrope) {
            use = place < 3 * n[place % 3] ? place % 3 : 3;
        } else if (many) {
            use = place < second ? 0 : place < third ? 1 : place < fourth ? 2 : 3;
        }
        long double v = angle[use] / (a->factors && p < c->n_rotated ? a->factors[p] : 1);
        long double scaled = v * a->freq_scale;
        if (a->extend != 0) {
            double width = fmax(0.001f, a->ramp[1] - a->ramp[0]);
            double mix = 1 - fmin(1, fmax(0, (p - a->ramp[0]) / width));
            scaled = scaled * (1 - mix * a->extend) + v * mix * a->extend;
        }
        cosine[p] = (double) cosl(scaled) * a->cos_scale;
        sine[p] = (double) sinl(scaled) * a->sin_scale;
        for (int s = 0; s < 4; s++) {
            angle[s] *= step;
        }
    }
}

// Element i of a row after turning, and in *scale the size of what it was made of; -1: a copy.
static double rope_wanted(const struct rope_case * c, const double * row, uint32_t i,
                          const double * cosine, const double * sine, double * scale) {
    uint32_t half = c->mode == RK_ROPE_VISION ? c->n_rotated : c->n_rotated / 2, p, first, other;
    *scale = -1;
    if (i < c->first || i >= c->first + 2 * half) {
        return row[i];
    }
    uint32_t in = i - c->first;
    bool second = c->mode == RK_ROPE_NORMAL ? in % 2 : in >= half;
    p = c->mode == RK_ROPE_NORMAL ? in / 2 : in % half;
    first = c->first + (c->mode == RK_ROPE_NORMAL ? 2 * p : p);
    other = first + (c->mode == RK_ROPE_NORMAL ? 1 : half);
    double u = second ? row[first] * sine[p] : row[first] * cosine[p];
    double v = second ? row[other] * cosine[p] : row[other] * -sine[p];
    *scale = fabs(u) + fabs(v);
    return u + v;
}

// Fills the arguments as a host does, from what ggml's node has.
static struct rk_ggml_rope make_rope(const struct rope_case * c) {
    bool yarn = c->flags & YARN;
    double scale = yarn ? 1.25 * (1 + 0.1 * log(1 / c->freq_scale)) : 1; // attn_factor 1.25
    struct rk_ggml_rope a = {.n_pairs = c->dims[0] / 2 * c->dims[1] * c->dims[2] * c->dims[3],
                             .n_rotated = c->n_rotated,
                             .first = c->first,
                             .mode = c->mode,
                             .ramp = {1, (float) c->n_rotated / 4},
                             .freq_scale = c->freq_scale,
                             .extend = yarn ? 0.75f : 0,
                             .cos_scale = (float) scale,
                             .sin_scale = (float) (c->flags & BACK ? -scale : scale),
                             .log_step = log(c->base) * -2 / c->n_rotated};
    memcpy(a.dims, c->dims, sizeof a.dims);
    memcpy(a.sections, c->sections, sizeof a.sections);
    set_strides(c->x, c->dims, a.x_stride);
    set_strides(c->y, c->dims, a.y_stride);
    return a;
}

static void fill_rope(const struct rope_case * c, enum check_type t, void * x, void * positions,
                      void * factors) {
    static const double values[] = {NAN, INFINITY, -INFINITY, -0.0, 1e-40, 0x1p-20};
    static const int32_t far[] = {0, 1, 131071, -77, 10000019, 4095, 3, 1000003, 12, 2};
    static const double odd[] = {1, 0, INFINITY, NAN};
    for (uint32_t i = 0; i < ROPE_ROOM; i++) {
        bool special = i % 53 == 11;
        check_put(t, x, i, special ? values[i / 53 % 6] : check_value(t, i));
    }
    for (uint32_t i = 0; i < 4 * MAX_POSITIONS; i++) {
        check_put(T_I32, positions, i, far[i % 10] + (double) (i / 10));
    }
    for (uint32_t i = 0; i < MAX_COLUMNS; i++) {
        double v = 0.5 + (double) (i * 2654435761u >> 20) / 1024;
        check_put(T_F32, factors, i, c->flags & ODD_FACTORS ? odd[i % 4] : v);
    }
}

// tx and t: of x and y. With ids i2 of y is what they say, and nothing where that is no row.
static enum status compare_rope(struct check_run * r, const struct rope_case * c,
                                enum check_type tx, enum check_type t,
                                const struct rk_ggml_rope * a, const void * x) {
    bool ours[ROPE_ROOM] = {false};
    double row[MAX_COLUMNS], cosine[MAX_COLUMNS], sine[MAX_COLUMNS];
    enum status st = ST_OK;
    for (uint32_t n = 0; n < c->dims[1] * c->dims[2] * c->dims[3] && st == ST_OK; n++) {
        uint32_t i[4] = {0, n % c->dims[1], n / c->dims[1] % c->dims[2],
                         n / c->dims[1] / c->dims[2]};
        make_turns(c, a, i[2], cosine, sine);
        for (i[0] = 0; i[0] < c->dims[0]; i[0]++) {
            row[i[0]] = check_get(tx, x, rope_place(a->x_stride, i));
        }
        int64_t id = a->ids ? a->ids[i[2]] : i[2];
        if (a->ids && (id < 0 || id >= a->n_rows)) {
            continue;
        }
        i[2] = (uint32_t) id;
        for (i[0] = 0; i[0] < c->dims[0] && st == ST_OK; i[0]++) {
            uint32_t at = rope_place(a->y_stride, i);
            double scale, want = rope_wanted(c, row, i[0], cosine, sine, &scale);
            ours[at] = true;
            if (scale < 0 && tx != t) { // what is copied is rounded
                uint8_t rounded[8];
                check_put(t, rounded, 0, want);
                want = check_get(t, rounded, 0);
            }
            const double least = t == T_F16 ? 0x1p-14 : 0x1p-126;
            st =
                check_compare(r, t, at, check_get(t, a->y, at), want, scale > least ? scale : least,
                              scale < 0    ? 0
                              : t == T_F32 ? 3
                                           : 0.6);
        }
    }
    for (uint32_t i = 0; i < ROPE_ROOM && st == ST_OK; i++) { // and nothing beside
        if (!ours[i]) {
            double before = a->x == a->y ? check_get(t, x, i) : untouched(t);
            st = check_compare(r, t, i, check_get(t, a->y, i), before, 0, 0);
        }
    }
    return st;
}

enum { ROPE_ROWS = 7 }; // of y, with ids

static enum status check_ggml_rope(struct check_run * r, const char * rest) {
    static const int64_t ids[MAX_POSITIONS] = {ROPE_ROWS - 1, 0, -1, 3, ROPE_ROWS};
    bool rows = !strncmp(rest, "rows_", 5);
    rest += rows ? 5 : 0;
    enum check_type t = check_parse_type(&rest), tx = rows ? T_F32 : t;
    if (t == T_COUNT || *rest) {
        return ST_NOT_FOUND;
    }
    enum status st = ST_OK;
    for (size_t n = 0; n < sizeof rope_cases / sizeof rope_cases[0] && st == ST_OK; n++) {
        const struct rope_case * c = &rope_cases[n];
        struct rk_ggml_rope a = make_rope(c);
        if (rows && (c->dims[3] != 1 || c->y == TURNED || c->flags & IN_PLACE)) {
            continue;
        }
        snprintf(r->what, sizeof r->what, "%s", c->name);
        void *x = check_alloc(r, tx, ROPE_ROOM), *factors = check_alloc(r, T_F32, MAX_COLUMNS);
        void * positions = check_alloc(r, T_I32, 4 * MAX_POSITIONS);
        int64_t * to = check_alloc(r, T_I64, MAX_POSITIONS);
        a.y = check_alloc(r, t, ROPE_ROOM);
        if (!x || !factors || !positions || !to || !a.y) {
            return ST_NO_MEMORY;
        }
        memcpy(to, ids, sizeof ids);
        a.ids = rows ? to : NULL;
        a.n_rows = ROPE_ROWS;
        fill_rope(c, tx, x, positions, factors);
        a.positions = positions;
        a.factors = c->flags & FACTORS ? factors : NULL;
        a.x = c->flags & IN_PLACE ? a.y : x;
        if (c->flags & IN_PLACE) {
            memcpy(a.y, x, ROPE_ROOM * check_size(t));
        }
        st = check_launch(r, &a, sizeof a, (a.n_pairs + 63) / 64, 1, 1, 64);
        st = st == ST_OK ? compare_rope(r, c, tx, t, &a, x) : st;
        check_free(r);
    }
    return st;
}

// ---- set_rows ----

enum { SET_COLUMNS = 5, SET_ROWS = 11, SET_GAP = 9, SET_DIM = 17, SET_SECOND = 4, SET_THIRD = 6 };
enum { SET_N = SET_COLUMNS * SET_ROWS * SET_SECOND * SET_THIRD };
enum { SET_Y = SET_GAP * SET_DIM * SET_SECOND * SET_THIRD };

// x is [6][4][11][5]; ids are [3][2][11], so they repeat over both of its outer dimensions.
static const struct {
    const char * name;
    uint32_t ids[2]; // dimensions 1 and 2 of ids
    struct rk_set_rows args;
} set_cases[] = {
    {"11x5 to 17x5",
     {1, 1},
     {.shape = {SET_COLUMNS * SET_ROWS, 2, {SET_COLUMNS, SET_ROWS}},
      .x_stride = {1, SET_COLUMNS},
      .ids_stride = {0, 1},
      .y_stride = {1, 0},
      .n_rows = SET_DIM,
      .row_stride = SET_COLUMNS}},
    {"6x4x11x5 by 3x2x11 ids",
     {2, 3},
     {.shape = {SET_N, 6, {SET_COLUMNS, SET_ROWS, 2, SET_SECOND / 2, 3, SET_THIRD / 3}},
      .x_stride = {SET_ROWS, 1, SET_COLUMNS * SET_ROWS, SET_COLUMNS * SET_ROWS * 2,
                   SET_COLUMNS * SET_ROWS * SET_SECOND, SET_COLUMNS * SET_ROWS * SET_SECOND * 3},
      .ids_stride = {0, 6, 3, 0, 1, 0}, // transposed
      .y_stride = {1, 0, SET_GAP * SET_DIM, SET_GAP * SET_DIM * 2, SET_GAP * SET_DIM * SET_SECOND,
                   SET_GAP * SET_DIM * SET_SECOND * 3},
      .n_rows = SET_DIM,
      .row_stride = SET_GAP}},
};

static enum status check_set_case(struct check_run * r, size_t n, enum check_type ti,
                                  enum check_type t) {
    // Wrong ones too; of those beyond 32 bits the low half would be a good one.
    static const double wrong[] = {SET_DIM, -1, 0x1p31 - 1, -0x1p31, 0x1p32 + 3, -0x1p62};
    static const double values[] = {NAN,   INFINITY, -INFINITY, -0.0,      65519,  65520,
                                    -1e30, 1e-40,    0x1p-24,   0x1.8p-25, 1 / 3.0};
    struct rk_set_rows a = set_cases[n].args;
    uint32_t i11 = set_cases[n].ids[0], i12 = set_cases[n].ids[1];
    snprintf(r->what, sizeof r->what, "%s", set_cases[n].name);
    void *x = check_alloc(r, T_F32, SET_N), *ids = check_alloc(r, ti, SET_ROWS * 6);
    a.x = x;
    a.ids = ids;
    a.y = check_alloc(r, t, SET_Y);
    if (!x || !ids || !a.y) {
        return ST_NO_MEMORY;
    }
    double want[SET_Y];
    for (uint32_t i = 0; i < SET_Y; i++) {
        want[i] = untouched(t);
    }
    for (uint32_t i = 0; i < SET_N; i++) {
        check_put(T_F32, x, i, i % 3 == 0 ? values[i / 3 % 11] : check_value(T_F32, i));
    }
    for (uint32_t i = 0; i < SET_ROWS * i11 * i12; i++) {
        uint32_t row = i / (i11 * i12), of = i % (i11 * i12); // no two rows of one kind meet
        bool bad = i % 7 == 3;
        check_put(ti, ids, i,
                  bad ? wrong[i / 7 % (ti == T_I64 ? 6 : 4)] : (row * 7 + of * 5) % SET_DIM);
    }
    for (uint32_t i = 0; i < a.shape.n; i++) {
        uint32_t i0 = i % SET_COLUMNS, i1 = i / SET_COLUMNS % SET_ROWS,
                 i2 = i / SET_COLUMNS / SET_ROWS % SET_SECOND,
                 i3 = i / SET_COLUMNS / SET_ROWS / SET_SECOND;
        double id = check_get(ti, ids, (i1 * i11 + i2 % i11) * i12 + i3 % i12);
        if (id >= 0 && id < SET_DIM) {
            uint32_t from = (i3 * SET_SECOND + i2) * SET_COLUMNS * SET_ROWS + i0 * a.x_stride[0] +
                            i1 * a.x_stride[1];
            uint32_t to =
                (i3 * SET_SECOND + i2) * SET_GAP * SET_DIM + i0 + (uint32_t) id * a.row_stride;
            uint8_t rounded[8];
            check_put(t, rounded, 0, check_get(T_F32, x, from));
            want[to] = check_get(t, rounded, 0);
        }
    }
    enum status st = check_launch(r, &a, sizeof a, (a.shape.n + 63) / 64, 1, 1, 64);
    for (uint32_t i = 0; i < SET_Y && st == ST_OK; i++) {
        st = check_compare(r, t, i, check_get(t, a.y, i), want[i], 0, 0);
    }
    check_free(r);
    return st;
}

static enum status check_set_rows(struct check_run * r, const char * rest) {
    enum check_type ti = check_parse_type(&rest),
                    t = ti < T_COUNT ? check_parse_type(&rest) : T_COUNT;
    enum status st = t == T_COUNT || *rest ? ST_NOT_FOUND : ST_OK;
    for (size_t n = 0; n < sizeof set_cases / sizeof set_cases[0] && st == ST_OK; n++) {
        st = check_set_case(r, n, ti, t);
    }
    return st;
}

enum status check_ggml(struct check_run * r) {
    const char * name = r->kernel;
    return !strncmp(name, "ggml_rope_", 10) ? check_ggml_rope(r, name + 10)
           : !strncmp(name, "set_rows_", 9) ? check_set_rows(r, name + 9)
                                            : ST_UNSUPPORTED;
}
