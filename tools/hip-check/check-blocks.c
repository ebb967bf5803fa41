// check-blocks: rows of quantized tensors to and from f32, elements as bits, and products with the
// matrices of experts.
#include "check-impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 5, IDS = 7, BLOCKS = 2 }; // blocks of a row

// ---- to f32 ----

static enum status check_read(struct check_run * r, const struct check_format * f, bool by_id) {
    uint32_t length = (uint32_t) f->length, columns = BLOCKS * length, n = by_id ? IDS : ROWS;
    uint8_t * x = check_alloc(r, T_U8, (size_t) ROWS * BLOCKS * (size_t) f->bytes);
    void *ids = check_alloc(r, T_I32, IDS), *y = check_alloc(r, T_F32, IDS * columns);
    double values[CHECK_BLOCK];
    if (!x || !ids || !y) {
        return ST_NO_MEMORY;
    }
    snprintf(r->what, sizeof r->what, "%u rows of %u", n, columns);
    check_fill_blocks(f, x, ROWS * BLOCKS);
    for (uint32_t i = 0; i < IDS; i++) {
        check_put(T_I32, ids, i, i == 3 ? -1 : i == 5 ? ROWS : (double) (i * 2 % ROWS));
    }
    struct rk_shape shape = {n * columns / 4, 2, {columns / 4, n}};
    struct rk_get_rows g = {.shape = shape,
                            .ids_stride = {0, 1},
                            .y_stride = {4, columns},
                            .n_rows = ROWS,
                            .row_stride = BLOCKS,
                            .x = x,
                            .ids = ids,
                            .y = y};
    struct rk_cast c = {
        .shape = shape, .x_stride = {0, BLOCKS}, .y_stride = {4, columns}, .x = x, .y = y};
    uint32_t groups = (shape.n + 63) / 64;
    enum status st = by_id ? check_launch(r, &g, sizeof g, groups, 1, 1, 64)
                           : check_launch(r, &c, sizeof c, groups, 1, 1, 64);
    for (uint32_t i = 0; i < n * BLOCKS && st == ST_OK; i++) {
        double id = by_id ? check_get(T_I32, ids, i / BLOCKS) : i / BLOCKS;
        bool in = id >= 0 && id < ROWS;
        f->decode(x + ((uint32_t) (in ? id : 0) * BLOCKS + i % BLOCKS) * (uint32_t) f->bytes,
                  values);
        for (uint32_t k = 0; k < length && st == ST_OK; k++) {
            uint32_t at = i * length + k;
            st = check_compare(r, T_F32, at, check_get(T_F32, y, at), in ? values[k] : 0, 4, 4);
        }
    }
    check_free(r);
    return st;
}

// ---- from f32: how far may a number be from what it was, as a share of its block's greatest? ----

static double share_of(const char * name) {
    static const struct {
        const char * name;
        double share;
    } shares[] = {{"q8_0", 0.0045}, {"q5_0", 0.064},  {"q5_1", 0.034}, {"q4_0", 0.126},
                  {"q4_1", 0.068},  {"iq4_nl", 0.13}, {"mxfp4", 0.26}, {"nvfp4", 0.19},
                  {"q2_0", 0.51},   {"tq1_0", 0.51},  {"tq2_0", 0.51}, {"q2_K", 0.5},
                  {"q3_K", 0.3},    {"q4_K", 0.15},   {"q5_K", 0.1},   {"q6_K", 0.05},
                  {"iq4_xs", 0.16}};
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        if (!strcmp(shares[i].name, name)) {
            return shares[i].share;
        }
    }
    return NAN; // q1_0: signs, and one size
}

// Formats with 16 numbers, which are not evenly spread: of these each x has the nearest. iq4_nl
// looks for it by a scale that makes the greatest x its first number, before it makes the scale
// anew.
static enum status compare_nearest(struct check_run * r, const struct check_format * f,
                                   const uint8_t * block, const float * x) {
    enum { CODES = 16 };
    bool anew = !strcmp(f->name, "iq4_nl");
    uint8_t each[CHECK_BLOCK];
    double numbers[CHECK_BLOCK], greatest = 0;
    const uint8_t * codes = block + f->bytes - CODES;
    enum status st = ST_OK;
    if (!anew && strcmp(f->name, "mxfp4") != 0) {
        return ST_OK;
    }
    memcpy(each, block, (size_t) f->bytes);
    for (int i = 0; i < CODES; i++) {
        each[f->bytes - CODES + i] = (uint8_t) i;
    }
    f->decode(each, numbers);
    for (int k = 0; k < f->length; k++) {
        greatest = fabs(x[k]) > fabs(greatest) ? x[k] : greatest;
    }
    double first = numbers[0];
    for (int i = 0; i < CODES; i++) {
        numbers[i] *= anew && first != 0 ? greatest / first : 1;
    }
    for (int k = 0; k < f->length && st == ST_OK; k++) {
        double have = numbers[codes[k % CODES] >> k / CODES * 4 & 15], best = have;
        for (int i = 0; i < CODES; i++) {
            best = fabs(numbers[i] - x[k]) < fabs(best - x[k]) ? numbers[i] : best;
        }
        bool near = fabs(have - x[k]) <= fabs(best - x[k]) + 1e-5 * fabs(greatest);
        st = check_compare(r, T_F32, (size_t) k, near ? 0 : have, near ? 0 : best, 0, 0);
    }
    return st;
}

// A little beside the middle between two of iq4_nl's numbers, on both sides.
static double beside_middle(uint32_t k) {
    static const double middles[] = {-115.5, -93.5, -74,  -57,  -42, -28.5, -16, -4.5,
                                     7,      19,    31.5, 45.5, 61,  79,    101};
    return k == 0 ? -127 : middles[(k - 1) % 15] + (k > 15 ? 0.25 : -0.25);
}

static enum status compare_packed(struct check_run * r, const struct check_format * f,
                                  const uint8_t * block, const float * x) {
    double values[CHECK_BLOCK], most = 0, mean = 0, share = share_of(f->name);
    enum status st = ST_OK;
    f->decode(block, values);
    for (int k = 0; k < f->length; k++) {
        most = fmax(most, fabs(x[k]));
        mean += fabs(x[k]) / f->length;
    }
    for (int k = 0; k < f->length && st == ST_OK; k++) {
        double want = share != share ? (x[k] >= 0 ? mean : -mean) : x[k];
        double allowed = share != share ? mean * 0.001 : most * share;
        bool near = fabs(values[k] - want) <= allowed + 1e-6;
        st = check_compare(r, T_F32, (size_t) k, near ? 0 : values[k], near ? 0 : want, 0, 0);
    }
    return st == ST_OK ? compare_nearest(r, f, block, x) : st;
}

static enum status check_write(struct check_run * r, const struct check_format * f,
                               enum check_type ti) { // T_COUNT: no ids
    uint32_t length = (uint32_t) f->length, columns = BLOCKS * length, bytes = (uint32_t) f->bytes;
    void *x = check_alloc(r, T_F32, ROWS * columns),
         *ids = check_alloc(r, ti == T_COUNT ? T_I32 : ti, ROWS);
    uint8_t * y = check_alloc(r, T_U8, (size_t) (ROWS + 2) * BLOCKS * bytes);
    if (!x || !ids || !y) {
        return ST_NO_MEMORY;
    }
    snprintf(r->what, sizeof r->what, "%u rows of %u", ROWS, columns);
    for (uint32_t i = 0; i < ROWS * columns; i++) {
        double v = check_value(T_F32, i * 5) / 3 + 0.01 * (i % 7);
        check_put(T_F32, x, i,
                  i / length == 3   ? 0
                  : i / length == 4 ? beside_middle(i % 32) / 64
                                    : v);
    }
    for (uint32_t i = 0; i < ROWS; i++) {
        check_put(ti == T_COUNT ? T_I32 : ti, ids, i, i == 2 ? -1 : ROWS + 1 - (double) i);
    }
    struct rk_shape shape = {ROWS * BLOCKS, 2, {BLOCKS, ROWS}};
    struct rk_set_rows s = {.shape = shape,
                            .x_stride = {length, columns},
                            .ids_stride = {0, 1},
                            .y_stride = {1, 0},
                            .n_rows = ROWS + 2,
                            .row_stride = BLOCKS,
                            .x = x,
                            .ids = ids,
                            .y = y};
    struct rk_cast c = {
        .shape = shape, .x_stride = {length, columns}, .y_stride = {1, BLOCKS}, .x = x, .y = y};
    enum status st = ti == T_COUNT ? check_launch(r, &c, sizeof c, 1, 1, 1, 64)
                                   : check_launch(r, &s, sizeof s, 1, 1, 1, 64);
    for (uint32_t i = 0; i < ROWS * BLOCKS && st == ST_OK; i++) {
        uint32_t row = ti == T_COUNT ? i / BLOCKS : ROWS + 1 - i / BLOCKS;
        const uint8_t * block = y + (row * BLOCKS + i % BLOCKS) * bytes;
        if (ti != T_COUNT && i / BLOCKS == 2) { // nobody wrote there
            st = check_compare(r, T_U8, i, block[0], 0xa5, 0, 0);
        } else {
            st = compare_packed(r, f, block, (const float *) x + i * length);
        }
    }
    check_free(r);
    return st;
}

// ---- bits ----

static enum status check_bits(struct check_run * r, uint32_t bytes) {
    enum status st = ST_OK;
    for (int s = 0; s < CHECK_SHAPES && st == ST_OK; s++) {
        struct rk_cast a = {.x = NULL};
        check_set_shape(r, s, &a.shape);
        check_set_stride(s, 0, a.x_stride);
        check_set_stride(s, 2, a.y_stride);
        uint8_t *x = check_alloc(r, T_U8, CHECK_ROOM * bytes),
                *y = check_alloc(r, T_U8, CHECK_ROOM * bytes);
        if (!x || !y) {
            return ST_NO_MEMORY;
        }
        for (uint32_t i = 0; i < CHECK_ROOM * bytes; i++) {
            x[i] = (uint8_t) (i * 2654435761u >> 13);
        }
        a.x = x;
        a.y = y;
        st = check_launch(r, &a, sizeof a, (a.shape.n + 63) / 64, 1, 1, 64);
        for (uint32_t i = 0; i < a.shape.n * bytes && st == ST_OK; i++) {
            uint32_t e = i / bytes, b = i % bytes;
            st = check_compare(r, T_U8, i, y[check_place(s, 2, e) * bytes + b],
                               x[check_place(s, 0, e) * bytes + b], 0, 0);
        }
        check_free(r);
    }
    return st;
}

// ---- experts ----

enum { EXPERTS = 3, SLOTS = 2, TOKENS = 40, OUT = 70, WRONG = 17 }; // one pair has no expert

// `units` blocks of f, or numbers of type t, and what they are.
static void fill_experts(const struct check_format * f, enum check_type t, uint8_t * a,
                         uint32_t units, double * values) {
    if (f) {
        check_fill_blocks(f, a, units);
    }
    for (uint32_t i = 0; i < units; i++) {
        if (f) {
            f->decode(a + i * (size_t) f->bytes, values + (size_t) i * (size_t) f->length);
        } else {
            values[i] = check_value(t, i * 11);
            check_put(t, a, i, values[i]);
        }
    }
}

static void fill_tokens(void * b, void * ids, uint32_t numbers, uint32_t pairs) {
    for (uint32_t i = 0; i < numbers; i++) {
        check_put(T_F32, b, i, check_value(T_F32, i * 3));
    }
    for (uint32_t i = 0; i < pairs; i++) {
        double drawn = (double) (i * 2654435761u >> 9);
        check_put(T_I32, ids, i, i == WRONG ? EXPERTS + 4 : drawn - 3 * floor(drawn / 3));
    }
}

static enum status compare_experts(struct check_run * r, const double * values, const void * b,
                                   const void * ids, const void * y, uint32_t k) {
    enum status st = ST_OK;
    for (uint32_t i = 0; i < SLOTS * TOKENS * OUT && st == ST_OK; i++) {
        uint32_t pair = i / OUT, expert = (uint32_t) check_get(T_I32, ids, pair);
        double sum = 0, scale = 0;
        for (uint32_t d = 0; d < k && expert < EXPERTS; d++) {
            double v = values[((size_t) expert * OUT + i % OUT) * k + d] *
                       check_get(T_F32, b, (size_t) (pair / SLOTS) * k + d);
            sum += v;
            scale += fabs(v);
        }
        st = check_compare(r, T_F32, i, check_get(T_F32, y, i), sum, scale, 4);
    }
    return st;
}

static enum status check_experts(struct check_run * r, bool vector, const char * type) {
    const struct check_format * f = check_format(type);
    enum check_type t = f ? T_U8 : check_parse_type(&type);
    uint32_t length = f ? (uint32_t) f->length : 1, k = f ? BLOCKS * length : 40;
    uint32_t row = k / length, pairs = SLOTS * TOKENS;
    size_t unit = f ? (size_t) f->bytes : 1;
    if (t == T_COUNT) {
        return ST_NOT_FOUND;
    }
    snprintf(r->what, sizeof r->what, "%u experts of %ux%u", EXPERTS, OUT, k);
    uint8_t * a = check_alloc(r, t, (size_t) EXPERTS * OUT * row * unit);
    void *b = check_alloc(r, T_F32, TOKENS * k), *y = check_alloc(r, T_F32, pairs * OUT);
    void *ids = check_alloc(r, T_I32, pairs), *lists = check_alloc(r, T_I32, EXPERTS * (pairs + 1));
    double * values = calloc((size_t) EXPERTS * OUT * k, sizeof *values);
    enum status st = a && b && y && ids && lists && values ? ST_OK : ST_NO_MEMORY;
    if (st == ST_OK) {
        fill_experts(f, t, a, EXPERTS * OUT * row, values);
        fill_tokens(b, ids, TOKENS * k, pairs);
        struct rk_matmul_id m = {.m = {.n_rows = OUT,
                                       .n_columns = pairs,
                                       .n_inner = k,
                                       .dim = 1,
                                       .a_share = {1, 1},
                                       .a_stride = {row, 1},
                                       .b_stride = {1, 0},
                                       .y_stride = {1, OUT},
                                       .a_batch = {OUT * row, 0},
                                       .b_batch = {k, 0},
                                       .y_batch = {SLOTS * OUT, 0},
                                       .a = a,
                                       .b = b,
                                       .y = y},
                                 .n_slots = SLOTS,
                                 .b_slots = 1,
                                 .n_experts = EXPERTS,
                                 .ids_stride = {1, SLOTS},
                                 .ids = ids,
                                 .lists = lists};
        const char * kernel = r->kernel;
        if (!vector) {
            r->kernel = "matmul_id_lists";
            st = check_launch(r, &m, sizeof m, EXPERTS + 1, 1, 1, RK_BLOCK);
            r->kernel = strcmp(kernel, "matmul_id_lists") ? kernel : "matmul_id_f32_f32";
        }
        st = st != ST_OK ? st
             : vector    ? check_launch(r, &m, sizeof m, OUT, pairs, 1, 64)
                         : check_launch(r, &m, sizeof m, (pairs + RK_TILE - 1) / RK_TILE,
                                        (OUT + RK_TILE - 1) / RK_TILE, EXPERTS, RK_BLOCK);
        r->kernel = kernel;
    }
    st = st == ST_OK ? compare_experts(r, values, b, ids, y, k) : st;
    free(values);
    check_free(r);
    return st;
}

enum status check_blocks(struct check_run * r) {
    static const struct {
        const char * prefix;
        int what;
    } families[] = {{"get_rows_", 0},     {"unpack_", 1}, {"pack_", 2},      {"set_rows_i32_", 3},
                    {"set_rows_i64_", 4}, {"bits_", 5},   {"matmul_id_", 6}, {"matvec_id_", 7}};
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        size_t n = strlen(families[i].prefix);
        if (strncmp(r->kernel, families[i].prefix, n) != 0) {
            continue;
        }
        const char * rest = r->kernel + n;
        const struct check_format * f = check_format(rest);
        switch (families[i].what) {
        case 5:
            return check_bits(r, (uint32_t) atoi(rest) / 8);
        case 6:
        case 7:
            return check_experts(r, families[i].what == 7, strcmp(rest, "lists") ? rest : "f32");
        default:
            break;
        }
        if (!f || strcmp(rest, f->name) != 0) {
            return ST_UNSUPPORTED; // rows of floats are others' matter
        }
        return families[i].what < 2 ? check_read(r, f, families[i].what == 0)
                                    : check_write(r, f,
                                                  families[i].what == 2   ? T_COUNT
                                                  : families[i].what == 3 ? T_I32
                                                                          : T_I64);
    }
    return ST_UNSUPPORTED;
}
