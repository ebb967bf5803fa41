// check-quant: products of quantized matrices. Their blocks hold random bits; what these mean is
// written down here once more, block by block, as ggml lays them out.
#include "check-impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BLOCK = 256, MAX_BLOCKS = 3 };

// ---- blocks ----

static double half(const uint8_t * p) {
    return check_get(T_F16, p, 0);
}

static int low(uint8_t v) {
    return v & 15;
}

static int high(uint8_t v) {
    return v >> 4;
}

static int bit(const uint8_t * p, int i) {
    return p[i / 8] >> i % 8 & 1;
}

static void q4_0(const uint8_t * p, double * out) {
    for (int i = 0; i < 16; i++) {
        out[i] = half(p) * (low(p[2 + i]) - 8);
        out[i + 16] = half(p) * (high(p[2 + i]) - 8);
    }
}

static void q4_1(const uint8_t * p, double * out) {
    for (int i = 0; i < 16; i++) {
        out[i] = half(p) * low(p[4 + i]) + half(p + 2);
        out[i + 16] = half(p) * high(p[4 + i]) + half(p + 2);
    }
}

static void q5_0(const uint8_t * p, double * out) {
    for (int i = 0; i < 16; i++) {
        out[i] = half(p) * (low(p[6 + i]) + 16 * bit(p + 2, i) - 16);
        out[i + 16] = half(p) * (high(p[6 + i]) + 16 * bit(p + 2, i + 16) - 16);
    }
}

static void q5_1(const uint8_t * p, double * out) {
    for (int i = 0; i < 16; i++) {
        out[i] = half(p) * (low(p[8 + i]) + 16 * bit(p + 4, i)) + half(p + 2);
        out[i + 16] = half(p) * (high(p[8 + i]) + 16 * bit(p + 4, i + 16)) + half(p + 2);
    }
}

static void q8_0(const uint8_t * p, double * out) {
    for (int i = 0; i < 32; i++) {
        out[i] = half(p) * (int8_t) p[2 + i];
    }
}

static const int uneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};

static void iq4_nl(const uint8_t * p, double * out) {
    for (int i = 0; i < 16; i++) {
        out[i] = half(p) * uneven[low(p[2 + i])];
        out[i + 16] = half(p) * uneven[high(p[2 + i])];
    }
}

static void mxfp4(const uint8_t * p, double * out) {
    static const double values[16] = {0,  0.5,  1,  1.5,  2,  3,  4,  6,
                                      -0, -0.5, -1, -1.5, -2, -3, -4, -6};
    for (int i = 0; i < 16; i++) {
        out[i] = ldexp(values[low(p[1 + i])], p[0] - 127);
        out[i + 16] = ldexp(values[high(p[1 + i])], p[0] - 127);
    }
}

// Two halves of 128 numbers; of each, four runs of 32 that share bytes.
static void q2_K(const uint8_t * p, double * out) {
    const uint8_t *scales = p, *q = p + 16;
    for (int h = 0; h < 2; h++) {
        for (int run = 0; run < 4; run++) {
            for (int i = 0; i < 32; i++) {
                uint8_t s = scales[8 * h + 2 * run + i / 16];
                out[128 * h + 32 * run + i] =
                    half(p + 80) * low(s) * (q[32 * h + i] >> 2 * run & 3) - half(p + 82) * high(s);
            }
        }
    }
}

static void q3_K(const uint8_t * p, double * out) {
    const uint8_t *mask = p, *q = p + 32, *packed = p + 96;
    int scales[16];
    for (int i = 0; i < 4; i++) { // four bits here, two there
        scales[i] = low(packed[i]) + 16 * (packed[8 + i] & 3) - 32;
        scales[i + 4] = low(packed[i + 4]) + 16 * (packed[8 + i] >> 2 & 3) - 32;
        scales[i + 8] = high(packed[i]) + 16 * (packed[8 + i] >> 4 & 3) - 32;
        scales[i + 12] = high(packed[i + 4]) + 16 * (packed[8 + i] >> 6 & 3) - 32;
    }
    for (int h = 0; h < 2; h++) {
        for (int run = 0; run < 4; run++) {
            for (int i = 0; i < 32; i++) {
                int v = (q[32 * h + i] >> 2 * run & 3) - 4 + 4 * (mask[i] >> (4 * h + run) & 1);
                out[128 * h + 32 * run + i] = half(p + 108) * scales[8 * h + 2 * run + i / 16] * v;
            }
        }
    }
}

// Eight scales and eight minima: 6 bits of each of the first four stand alone, the others' low four
// share a byte and their high two are with the first.
static void scales_and_minima(const uint8_t * p, int scale[8], int min[8]) {
    for (int i = 0; i < 4; i++) {
        scale[i] = p[i] & 63;
        min[i] = p[4 + i] & 63;
        scale[4 + i] = low(p[8 + i]) + 16 * (p[i] >> 6);
        min[4 + i] = high(p[8 + i]) + 16 * (p[4 + i] >> 6);
    }
}

static void q4_or_q5_K(const uint8_t * p, const uint8_t * fifth, const uint8_t * q, double * out) {
    int scale[8], min[8];
    scales_and_minima(p + 4, scale, min);
    for (int run = 0; run < 8; run++) {
        for (int i = 0; i < 32; i++) {
            uint8_t both = q[32 * (run / 2) + i];
            int v = run % 2 ? high(both) : low(both);
            v += fifth ? 16 * (fifth[i] >> run & 1) : 0;
            out[32 * run + i] = half(p) * scale[run] * v - half(p + 2) * min[run];
        }
    }
}

static void q4_K(const uint8_t * p, double * out) {
    q4_or_q5_K(p, NULL, p + 16, out);
}

static void q5_K(const uint8_t * p, double * out) {
    q4_or_q5_K(p, p + 16, p + 48, out);
}

static void q6_K(const uint8_t * p, double * out) {
    const int8_t * scales = (const int8_t *) p + 192;
    for (int h = 0; h < 2; h++) {
        const uint8_t *lows = p + 64 * h, *highs = p + 128 + 32 * h;
        for (int i = 0; i < 32; i++) {
            int v[4] = {low(lows[i]), low(lows[32 + i]), high(lows[i]), high(lows[32 + i])};
            for (int run = 0; run < 4; run++) {
                out[128 * h + 32 * run + i] = half(p + 208) * scales[8 * h + 2 * run + i / 16] *
                                              (v[run] + 16 * (highs[i] >> 2 * run & 3) - 32);
            }
        }
    }
}

static void iq4_xs(const uint8_t * p, double * out) {
    for (int part = 0; part < 8; part++) {
        int scale = (part % 2 ? high(p[4 + part / 2]) : low(p[4 + part / 2])) +
                    16 * ((p[2] | p[3] << 8) >> 2 * part & 3) - 32;
        for (int i = 0; i < 16; i++) {
            uint8_t both = p[8 + 16 * part + i];
            out[32 * part + i] = half(p) * scale * uneven[low(both)];
            out[32 * part + i + 16] = half(p) * scale * uneven[high(both)];
        }
    }
}

// ---- few bits ----

static void q1_0(const uint8_t * p, double * out) {
    for (int i = 0; i < 128; i++) {
        out[i] = bit(p + 2, i) ? half(p) : -half(p);
    }
}

static void q2_0(const uint8_t * p, double * out) {
    for (int i = 0; i < 64; i++) {
        out[i] = half(p) * ((p[2 + i / 4] >> i % 4 * 2 & 3) - 1);
    }
}

static void nvfp4(const uint8_t * p, double * out) {
    static const double values[16] = {0,  0.5,  1,  1.5,  2,  3,  4,  6,
                                      -0, -0.5, -1, -1.5, -2, -3, -4, -6};
    for (int part = 0; part < 4; part++) {
        int e = p[part] >> 3 & 15, m = p[part] & 7;
        double d = (p[part] & 127) == 127 ? 0 : e ? ldexp(8 + m, e - 10) : ldexp(m, -9);
        for (int i = 0; i < 8; i++) {
            out[16 * part + i] = d * values[low(p[4 + 8 * part + i])];
            out[16 * part + i + 8] = d * values[high(p[4 + 8 * part + i])];
        }
    }
}

// Digit n of a byte that is a fraction of 256 to the base of 3.
static int digit(uint8_t byte, int n) {
    int v = byte;
    while (n--) {
        v = v * 3 % 256;
    }
    return v * 3 / 256;
}

static void tq1_0(const uint8_t * p, double * out) {
    for (int n = 0; n < 5; n++) {
        for (int i = 0; i < 32; i++) {
            out[32 * n + i] = half(p + 52) * (digit(p[i], n) - 1);
        }
        for (int i = 0; i < 16; i++) {
            out[160 + 16 * n + i] = half(p + 52) * (digit(p[32 + i], n) - 1);
        }
        for (int i = 0; i < 4 && n < 4; i++) {
            out[240 + 4 * n + i] = half(p + 52) * (digit(p[48 + i], n) - 1);
        }
    }
}

static void tq2_0(const uint8_t * p, double * out) {
    for (int i = 0; i < 256; i++) {
        out[i] = half(p + 64) * ((p[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3) - 1);
    }
}

static const struct check_format formats[] = {
    {"q4_0", 32, 18, {0, -1}, q4_0},       {"q4_1", 32, 20, {0, 2}, q4_1},
    {"q5_0", 32, 22, {0, -1}, q5_0},       {"q5_1", 32, 24, {0, 2}, q5_1},
    {"q8_0", 32, 34, {0, -1}, q8_0},       {"iq4_nl", 32, 18, {0, -1}, iq4_nl},
    {"mxfp4", 32, 17, {-1, -1}, mxfp4},    {"q2_K", 256, 84, {80, 82}, q2_K},
    {"q3_K", 256, 110, {108, -1}, q3_K},   {"q4_K", 256, 144, {0, 2}, q4_K},
    {"q5_K", 256, 176, {0, 2}, q5_K},      {"q6_K", 256, 210, {208, -1}, q6_K},
    {"iq4_xs", 256, 136, {0, -1}, iq4_xs}, {"q1_0", 128, 18, {0, -1}, q1_0},
    {"q2_0", 64, 18, {0, -1}, q2_0},       {"nvfp4", 64, 36, {-1, -1}, nvfp4},
    {"tq1_0", 256, 54, {52, -1}, tq1_0},   {"tq2_0", 256, 66, {64, -1}, tq2_0},
};

static bool is_of(const struct check_format * f, const char * text) {
    size_t n = strlen(f->name);
    return !strncmp(text, f->name, n) && (!text[n] || text[n] == '_');
}

const struct check_format * check_format(const char * text) {
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (is_of(&formats[i], text)) {
            return &formats[i];
        }
    }
    const struct check_format * f = check_grids;
    while (f->name && !is_of(f, text)) {
        f++;
    }
    return f->name ? f : NULL;
}

void check_fill_blocks(const struct check_format * f, uint8_t * p, uint32_t n) {
    for (uint32_t i = 0; i < n; i++, p += f->bytes) {
        for (int k = 0; k < f->bytes; k++) {
            p[k] = (uint8_t) ((i * 977 + (uint32_t) k) * 2654435761u >> 17);
        }
        for (int k = 0; k < 2; k++) {
            if (f->halves[k] >= 0) {
                check_put(T_F16, p + f->halves[k], 0,
                          check_value(T_F16, i * 2 + (uint32_t) k) / 32);
            }
        }
        if (!strcmp(f->name, "iq1_m")) { // the high four bits of a float, behind three others
            p[f->bytes - 1] = (uint8_t) (0x30 | (p[f->bytes - 1] & 15));
        }
        if (f->decode == mxfp4) { // a power around 1, and now and then the smallest ones
            p[0] = (uint8_t) (i % 5 == 4 ? p[0] % 3 : 120 + p[0] % 16);
        }
    }
}

// ---- products ----

static const struct {
    uint32_t rows, columns, blocks; // of a row
} products[] = {{1, 1, 1}, {66, 3, 2}, {5, 67, 3}};

// How a kernel computes: a group for each element, or one for `tile` rows and columns.
struct way {
    bool vector;
    uint32_t tile;
    double ulps; // of the sum of sizes
};

static enum status check_product(struct check_run * r, const struct check_format * f,
                                 const struct way * way, uint32_t m, uint32_t n, uint32_t blocks) {
    enum { BATCHES = 2 };
    uint32_t k = blocks * (uint32_t) f->length, row_blocks = blocks + 1; // and one between rows
    snprintf(r->what, sizeof r->what, "%ux%u times %ux%u", m, k, k, n);
    uint8_t * a = check_alloc(r, T_U8, (size_t) m * row_blocks * (size_t) f->bytes);
    void *b = check_alloc(r, T_F32, BATCHES * k * n), *y = check_alloc(r, T_F32, BATCHES * m * n);
    if (!a || !b || !y) {
        return ST_NO_MEMORY;
    }
    check_fill_blocks(f, a, m * row_blocks);
    for (uint32_t i = 0; i < BATCHES * k * n; i++) {
        check_put(T_F32, b, i, check_value(T_F32, i * 3 + 1));
    }
    struct rk_matmul args = {.n_rows = m,
                             .n_columns = n,
                             .n_inner = k,
                             .dim = BATCHES,
                             .a_share = {BATCHES, 1},
                             .a_stride = {row_blocks, 1},
                             .b_stride = {1, k},
                             .y_stride = {1, m},
                             .b_batch = {k * n, 0},
                             .y_batch = {m * n, 0},
                             .a = a,
                             .b = b,
                             .y = y};
    uint32_t across = (n + way->tile - 1) / way->tile, down = (m + way->tile - 1) / way->tile;
    enum status st = way->vector
                         ? check_launch(r, &args, sizeof args, m, n, BATCHES, 64)
                         : check_launch(r, &args, sizeof args, across, down, BATCHES, RK_BLOCK);
    for (uint32_t row = 0; row < m && st == ST_OK; row++) {
        double values[MAX_BLOCKS * MAX_BLOCK];
        for (uint32_t i = 0; i < blocks; i++) {
            f->decode(a + ((size_t) row * row_blocks + i) * (size_t) f->bytes,
                      values + i * (uint32_t) f->length);
        }
        for (uint32_t c = 0; c < BATCHES * n && st == ST_OK; c++) {
            double sum = 0, scale = 0;
            for (uint32_t d = 0; d < k; d++) {
                double v = values[d] * check_get(T_F32, b, (size_t) c * k + d);
                sum += v;
                scale += fabs(v);
            }
            uint32_t at = c * m + row;
            st = check_compare(r, T_F32, at, check_get(T_F32, y, at), sum, scale, way->ulps);
        }
    }
    check_free(r);
    return st;
}

// ---- columns of bytes ----

// Where byte i of a column lies.
static uint32_t byte_place(uint32_t i, uint32_t inner) {
    return i % 32 / 16 * (inner / 2) + i / 32 * 16 + i % 16;
}

// A column's numbers as bytes and scales; what they then are is written to out.
static void fill_column(uint8_t * column, uint32_t inner, uint32_t seed, double * out) {
    struct rk_scale * scales = (struct rk_scale *) (void *) (column + inner);
    for (uint32_t i = 0; i < inner; i++) {
        int8_t v = (int8_t) ((i + seed) * 2654435761u >> 20);
        float d = (float) (i / 32 % 7 + 1) / 16;
        column[byte_place(i, inner)] = (uint8_t) v;
        out[i] = (double) v * (double) d;
        if (i % 32 == 0) {
            scales[i / 32] = (struct rk_scale){.d = d};
        }
        scales[i / 32].sums[i % 32 / 16] = (int16_t) (scales[i / 32].sums[i % 32 / 16] + v);
    }
}

static enum status check_bytes(struct check_run * r, const struct check_format * f, bool direct,
                               uint32_t m, uint32_t n, uint32_t numbers) {
    enum { BATCHES = 2 };
    uint32_t blocks = (numbers + (uint32_t) f->length - 1) / (uint32_t) f->length;
    uint32_t k = blocks * (uint32_t) f->length, row_blocks = blocks + 1, size = RK_Q8_BYTES(k);
    snprintf(r->what, sizeof r->what, "%ux%u times %ux%u", m, k, k, n);
    uint8_t * a = check_alloc(r, T_U8, (size_t) m * row_blocks * (size_t) f->bytes + 16);
    uint8_t * b = check_alloc(r, T_U8, (size_t) size * n * BATCHES);
    void * y = check_alloc(r, T_F32, BATCHES * m * n);
    double *values = calloc(k, sizeof *values), *columns = calloc((size_t) k * n * BATCHES, 8);
    enum status st = a && b && y && values && columns ? ST_OK : ST_NO_MEMORY;
    if (st == ST_OK) {
        check_fill_blocks(f, a, m * row_blocks);
        for (uint32_t c = 0; c < n * BATCHES; c++) {
            fill_column(b + (size_t) c * size, k, c * 31 + 7, columns + (size_t) c * k);
        }
        struct rk_matmul args = {.n_rows = m,
                                 .n_columns = n,
                                 .n_inner = k,
                                 .dim = BATCHES,
                                 .a_share = {BATCHES, 1},
                                 .a_stride = {row_blocks, 1},
                                 .y_stride = {1, m},
                                 .y_batch = {m * n, 0},
                                 .a = a,
                                 .b = b,
                                 .y = y};
        uint32_t rows = direct ? RK_ROWS_DIRECT : RK_ROWS; // of a group
        st = check_launch(r, &args, sizeof args, (m + rows - 1) / rows,
                          (n + RK_COLUMNS - 1) / RK_COLUMNS, BATCHES, direct ? 64 : RK_BLOCK);
    }
    for (uint32_t row = 0; row < m && st == ST_OK; row++) {
        for (uint32_t i = 0; i < blocks; i++) {
            f->decode(a + ((size_t) row * row_blocks + i) * (size_t) f->bytes,
                      values + i * (uint32_t) f->length);
        }
        for (uint32_t c = 0; c < BATCHES * n && st == ST_OK; c++) {
            double sum = 0, scale = 0;
            for (uint32_t d = 0; d < k; d++) {
                double v = values[d] * columns[(size_t) c * k + d];
                sum += v;
                scale += fabs(v);
            }
            uint32_t at = c * m + row;
            st = check_compare(r, T_F32, at, check_get(T_F32, y, at), sum, scale, 4);
        }
    }
    free(values);
    free(columns);
    check_free(r);
    return st;
}

// columns_q8: each byte is the number's share of the greatest, and with its scale near the number.
static enum status check_columns(struct check_run * r) {
    enum { INNER = 1088, COLUMNS = 3, BATCHES = 2, STEP = 2 };
    uint32_t size = RK_Q8_BYTES(INNER);
    snprintf(r->what, sizeof r->what, "%u numbers, %u apart", INNER, STEP);
    void * b = check_alloc(r, T_F32, (size_t) INNER * STEP * COLUMNS * BATCHES);
    uint8_t * y = check_alloc(r, T_U8, (size_t) size * COLUMNS * BATCHES);
    if (!b || !y) {
        return ST_NO_MEMORY;
    }
    for (uint32_t i = 0; i < INNER * STEP * COLUMNS * BATCHES; i++) {
        bool none = i / (32 * STEP) % 5 == 4; // of some all are 0
        check_put(T_F32, b, i, none ? 0 : check_value(T_F32, i * 3 + 1) * (1 + i % 11));
    }
    struct rk_matmul args = {.n_columns = COLUMNS,
                             .n_inner = INNER,
                             .dim = BATCHES,
                             .a_share = {1, 1},
                             .b_stride = {STEP, INNER * STEP},
                             .b_batch = {INNER * STEP * COLUMNS, 0},
                             .b = b,
                             .y = y};
    enum status st = check_launch(r, &args, sizeof args, (INNER / 4 + RK_BLOCK - 1) / RK_BLOCK,
                                  COLUMNS, BATCHES, RK_BLOCK);
    for (uint32_t i = 0; i < INNER * COLUMNS * BATCHES && st == ST_OK; i += 16) {
        const uint8_t * column = y + (size_t) (i / INNER) * size;
        const struct rk_scale * s = (const struct rk_scale *) (const void *) (column + INNER);
        double most = 0;
        int sum = 0;
        for (uint32_t j = 0; j < 32; j++) {
            most = fmax(most, fabs(check_get(T_F32, b, (size_t) (i / 32 * 32 + j) * STEP)));
        }
        s += i % INNER / 32;
        st = check_compare(r, T_F32, i, (double) s->d, most / 127, 0, 1);
        for (uint32_t j = 0; j < 16 && st == ST_OK; j++) {
            int8_t v = (int8_t) column[byte_place(i % INNER + j, INNER)];
            double share = most > 0 ? check_get(T_F32, b, (size_t) (i + j) * STEP) / most * 127 : 0;
            bool near = fabs(share - v) < 0.50001; // of two that are as near, either
            st = check_compare(r, T_F32, i + j, v, near ? v : share, 0, 0);
            sum += v;
        }
        st = st == ST_OK ? check_compare(r, T_F32, i, s->sums[i % 32 / 16], sum, 0, 0) : st;
    }
    check_free(r);
    return st;
}

// Around the span, the group's rows and its columns.
static const struct {
    uint32_t rows, columns, numbers;
} byte_products[] = {{1, 1, 32}, {35, 3, 1056}, {17, 10, 2080}};

static enum status check_bytes_of(struct check_run * r, const char * rest) {
    bool one = !strncmp(rest, "one_", 4), direct = !strncmp(rest, "direct_", 7);
    const struct check_format * f = check_format(rest + (one ? 4 : direct ? 7 : 0));
    enum status st = f ? ST_OK : ST_NOT_FOUND;
    for (size_t c = 0; c < sizeof byte_products / sizeof byte_products[0] && st == ST_OK; c++) {
        st = check_bytes(r, f, direct, byte_products[c].rows,
                         one || direct ? 1 : byte_products[c].columns, byte_products[c].numbers);
    }
    return st;
}

enum status check_quant(struct check_run * r) {
    bool vector = !strncmp(r->kernel, "matvec_", 7);
    const char * end = strrchr(r->kernel, '_');
    if (!strcmp(r->kernel, "columns_q8")) {
        return check_columns(r);
    }
    if (vector && end && !strcmp(end, "_q8")) {
        return check_bytes_of(r, r->kernel + 7);
    }
    if (!vector && strncmp(r->kernel, "matmul_", 7) != 0) {
        return ST_UNSUPPORTED;
    }
    // Matrix instructions take the rows as f16, which has 13 places less.
    struct way way = {.vector = vector, .tile = RK_TILE, .ulps = 4};
    const char * rest = r->kernel + 7;
    if (!strncmp(rest, "matrix_", 7)) {
        rest += 7;
        way.ulps += 1 << 12;
    }
    if (!strncmp(rest, "wide_", 5)) {
        rest += 5;
        way.tile = RK_TILE_WIDE;
    }
    const struct check_format * f = check_format(rest);
    if (!f || strcmp(rest + strlen(f->name), "_f32") != 0) {
        return ST_UNSUPPORTED;
    }
    enum status st = ST_OK;
    for (size_t c = 0; c < sizeof products / sizeof products[0] && st == ST_OK; c++) {
        st = check_product(r, f, &way, products[c].rows, products[c].columns, products[c].blocks);
    }
    return st;
}
