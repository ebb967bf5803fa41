// test-mat-stage: operands of MUL_MAT as the host lays them out: every datatype that ggml can turn
// into floats, any strides, k padded with zeros, and the pieces of a number.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backend/npu/mat.h"

static float from_bf16(uint16_t bits) {
    return ggml_bf16_to_fp32((ggml_bf16_t){bits});
}

static float value(uint32_t * seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return (float) (int32_t) *seed / (float) (1u << 30); // 31 bits, in [-2, 2)
}

// Stages and gives the packed form, which the caller frees; what lies behind it must stay.
static uint16_t * stage(const struct mat_source * s, enum mat_pieces pieces, struct view * packed) {
    *packed = mat_packed(s, pieces, NULL);
    size_t bytes = view_bytes(packed);
    char * out = malloc(bytes + 16);
    memset(out, 0xa5, bytes + 16);
    assert_true(mat_can_stage(s));
    assert_int_equal(mat_stage(s, pieces, out, NULL), ST_OK);
    for (size_t i = bytes; i < bytes + 16; i++) {
        assert_int_equal((uint8_t) out[i], 0xa5);
    }
    packed->data = out;
    return (uint16_t *) (void *) out;
}

// ---- pieces ----

static void three_pieces(void ** state) {
    (void) state;
    uint32_t seed = 1;
    float row[13];
    uint16_t left[48], right[48], hi[16];
    for (int i = 0; i < 13; i++) {
        row[i] = value(&seed) * powf(2, (float) (i * 9 - 50));
    }
    mat_put_row(row, 13, MAT_HI, hi);
    mat_put_row(row, 13, MAT_LEFT, left);
    mat_put_row(row, 13, MAT_RIGHT, right);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(hi[i], i < 13 ? ggml_fp32_to_bf16(row[i]).bits : 0);
        uint16_t lo = i < 13 ? ggml_fp32_to_bf16(row[i] - from_bf16(hi[i])).bits : 0;
        assert_int_equal(left[i], hi[i]);
        assert_int_equal(left[16 + i], lo);
        assert_int_equal(left[32 + i], hi[i]);
        assert_int_equal(right[i], hi[i]);
        assert_int_equal(right[16 + i], hi[i]);
        assert_int_equal(right[32 + i], lo);
        if (i < 13) {
            assert_true(fabsf(from_bf16(hi[i]) + from_bf16(lo) - row[i]) <=
                        fabsf(row[i]) * 0x1p-16f);
        }
    }
}

// The product of a left row and a right row is that of the numbers, to about 16 bits.
static void product_of_pieces(void ** state) {
    (void) state;
    uint32_t seed = 2;
    float a[40], b[40];
    uint16_t left[120], right[120];
    double want = 0, got = 0, size = 0;
    for (int i = 0; i < 40; i++) {
        a[i] = value(&seed);
        b[i] = value(&seed);
        want += (double) a[i] * b[i];
        size += fabs((double) a[i] * b[i]);
    }
    mat_put_row(a, 40, MAT_LEFT, left);
    mat_put_row(b, 40, MAT_RIGHT, right);
    for (int i = 0; i < 120; i++) {
        got += (double) from_bf16(left[i]) * from_bf16(right[i]);
    }
    assert_true(fabs(got - want) <= size * 0x1p-15);
}

static void not_finite(void ** state) {
    (void) state;
    float row[] = {INFINITY, -INFINITY, NAN, 3.4e38f, -0.0f, 1e-40f};
    uint16_t left[24];
    mat_put_row(row, 6, MAT_LEFT, left);
    for (int i = 0; i < 4; i++) { // nothing is left, and nothing to multiply what is left with
        assert_true(left[8 + i] == 0 && left[16 + i] == 0);
    }
    assert_true(from_bf16(left[0]) == INFINITY);
    assert_true(from_bf16(left[1]) == -INFINITY);
    assert_true(isnan(from_bf16(left[2])));
    assert_true(from_bf16(left[3]) == INFINITY); // rounds up
    assert_int_equal(left[4], 0x8000);
    assert_true(fabsf(from_bf16(left[5]) - 1e-40f) < 5e-41f);
}

// ---- layouts ----

static const enum ggml_type floats[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16};

static float load(const struct view * v, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    float f;
    host_load_row(v->type,
                  v->data + (size_t) i0 * v->nb[0] + (size_t) i1 * v->nb[1] +
                      (size_t) i2 * v->nb[2] + (size_t) i3 * v->nb[3],
                  v->nb[0], 1, &f);
    return f;
}

static void check(const struct mat_source * s, enum mat_pieces pieces) {
    struct view p;
    uint16_t * out = stage(s, pieces, &p);
    int64_t k = s->view.ne[0], padded = (k + 7) / 8 * 8;
    assert_int_equal(p.ne[0], padded * (pieces == MAT_HI ? 1 : 3));
    for (int64_t i = 0; i < p.ne[0] * p.ne[1] * p.ne[2] * p.ne[3]; i++) {
        int64_t i0 = i % p.ne[0] % padded, i1 = i / p.ne[0] % p.ne[1];
        int64_t i2 = i / p.ne[0] / p.ne[1] % p.ne[2], i3 = i / p.ne[0] / p.ne[1] / p.ne[2];
        float x = i0 < k ? load(&s->view, i0, i1, i2, i3) : 0;
        uint16_t hi = ggml_fp32_to_bf16(x).bits;
        int64_t piece = i % p.ne[0] / padded;
        bool low = pieces != MAT_HI && piece == (pieces == MAT_LEFT ? 1 : 2);
        assert_int_equal(out[i], low ? ggml_fp32_to_bf16(x - from_bf16(hi)).bits : hi);
    }
    free(out);
}

// Contiguous, permuted, transposed, and rows that begin at odd places.
static void any_strides(void ** state) {
    (void) state;
    for (int t = 0; t < 3; t++) {
        size_t size = ggml_type_size(floats[t]);
        int64_t ne[] = {11, 5, 3, 2};
        char * data = malloc(size * 11 * 5 * 3 * 2 + size);
        uint32_t seed = (uint32_t) t;
        for (int64_t i = 0; i <= 330; i++) {
            float v = value(&seed);
            host_store_row(floats[t], data + (size_t) i * size, size, 1, &v);
        }
        struct view whole = view_contiguous(floats[t], ne, data);
        for (int kind = 0; kind < 5; kind++) {
            struct view v = whole;
            bool columns = kind == 1;
            if (kind == 2) { // as a cache of keys: heads and tokens change places
                v.ne[1] = 3, v.ne[2] = 5, v.nb[1] = whole.nb[2], v.nb[2] = whole.nb[1];
            } else if (kind == 3) {
                v.ne[0] = 8;
                v.data += size;
            } else if (kind == 4) {
                v.ne[0] = 2, v.ne[3] = 11, v.nb[0] = whole.nb[3], v.nb[3] = size;
            }
            struct mat_source s = mat_source_of(v, columns);
            assert_false(s.columns); // not quantized: a swap of strides does
            assert_int_equal(mat_source_k(&s), columns ? 5 : v.ne[0]);
            for (int pieces = MAT_HI; pieces <= MAT_RIGHT; pieces++) {
                check(&s, (enum mat_pieces) pieces);
            }
        }
        free(data);
    }
}

static void every_quantized_type(void ** state) {
    (void) state;
    int n_types = 0;
    for (int t = 0; t < GGML_TYPE_COUNT; t++) {
        enum ggml_type type = (enum ggml_type) t;
        if (!ggml_is_quantized(type) || !ggml_get_type_traits(type)->to_float) {
            continue;
        }
        enum { ROWS = 45 }; // more than are turned at a time, and no multiple of 8
        int64_t n = 2 * ggml_blck_size(type);
        size_t row_size = ggml_row_size(type, n);
        uint8_t * data = malloc(row_size * ROWS);
        uint32_t seed = (uint32_t) t;
        for (size_t i = 0; i < row_size * ROWS; i++) {
            data[i] = (uint8_t) (16 + (int) (value(&seed) * 8)); // scales of any type stay finite
        }
        float * want = malloc((size_t) n * ROWS * sizeof *want);
        for (int64_t r = 0; r < ROWS; r++) {
            ggml_get_type_traits(type)->to_float(data + (size_t) r * row_size, want + r * n, n);
        }
        struct view v = view_contiguous(type, (int64_t[]){n, ROWS, 1, 1}, data), p;
        for (int columns = 0; columns < 2; columns++) {
            for (int pieces = MAT_HI; pieces <= MAT_LEFT; pieces++) {
                struct mat_source s = mat_source_of(v, columns);
                uint16_t * out = stage(&s, (enum mat_pieces) pieces, &p);
                int64_t k = columns ? ROWS : n, padded = (k + 7) / 8 * 8;
                assert_int_equal(p.ne[0], padded * (pieces == MAT_HI ? 1 : 3));
                assert_int_equal(p.ne[1], columns ? n : ROWS);
                for (int64_t i = 0; i < p.ne[1]; i++) {
                    for (int64_t j = 0; j < padded; j++) {
                        float x = j >= k ? 0 : columns ? want[j * n + i] : want[i * n + j];
                        uint16_t hi = ggml_fp32_to_bf16(x).bits;
                        assert_int_equal(out[i * p.ne[0] + j], hi);
                        if (pieces == MAT_LEFT) {
                            assert_int_equal(out[i * p.ne[0] + 2 * padded + j], hi);
                            assert_int_equal(out[i * p.ne[0] + padded + j],
                                             ggml_fp32_to_bf16(x - from_bf16(hi)).bits);
                        }
                    }
                }
                free(out);
            }
        }
        free(want);
        free(data);
        n_types++;
    }
    assert_true(n_types >= 20);
}

static void integers(void ** state) {
    (void) state;
    for (int wide = 0; wide < 2; wide++) {
        enum ggml_type type = wide ? GGML_TYPE_I16 : GGML_TYPE_I8;
        int8_t narrow[21 * 3];
        int16_t words[21 * 3];
        for (int i = 0; i < 63; i++) {
            narrow[i] = (int8_t) (i * 37);
            words[i] = (int16_t) (i * 12345);
        }
        struct view v = view_contiguous(type, (int64_t[]){21, 3, 1, 1},
                                        wide ? (void *) words : (void *) narrow);
        for (int columns = 0; columns < 2; columns++) {
            struct view p;
            struct mat_source s = mat_source_of(v, columns);
            char * out = (char *) stage(&s, MAT_HI, &p);
            assert_int_equal(p.type, type);
            assert_int_equal(p.ne[0], columns ? 8 : 24);
            for (int64_t i = 0; i < p.ne[0] * p.ne[1]; i++) {
                int64_t k = i % p.ne[0], r = i / p.ne[0];
                int64_t at = columns ? k * 21 + r : r * 21 + k;
                bool pad = k >= (columns ? 3 : 21);
                if (wide) {
                    int16_t got;
                    memcpy(&got, out + 2 * i, 2);
                    assert_int_equal(got, pad ? 0 : words[at]);
                } else {
                    assert_int_equal((int8_t) out[i], pad ? 0 : narrow[at]);
                }
            }
            free(out);
        }
    }
}

static void refused(void ** state) {
    (void) state;
    char data[4096] = {0};
    struct mat_source s = {.view = view_contiguous(GGML_TYPE_Q4_0, (int64_t[]){64, 2, 1, 1}, data)};
    assert_true(mat_can_stage(&s));
    s.view.nb[0] *= 2; // blocks apart
    assert_false(mat_can_stage(&s));
    s.view = view_contiguous(GGML_TYPE_Q4_0, (int64_t[]){64, 2, 1, 1}, data);
    s.view.ne[0] = 40; // half a block
    assert_false(mat_can_stage(&s));
    const enum ggml_type none[] = {GGML_TYPE_I32, GGML_TYPE_I64, GGML_TYPE_F64, GGML_TYPE_COUNT};
    for (int i = 0; i < 4; i++) {
        s.view.type = none[i];
        assert_false(mat_can_stage(&s));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_pieces),
        cmocka_unit_test(product_of_pieces),
        cmocka_unit_test(not_finite),
        cmocka_unit_test(any_strides),
        cmocka_unit_test(every_quantized_type),
        cmocka_unit_test(integers),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
