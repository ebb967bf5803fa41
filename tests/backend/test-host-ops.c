// test-host-ops: the host's ops against the plainest reference there is: element by element, in
// order, through ggml's own one-element conversions.
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>

#include "backend/npu/host-ops.h"

static uint32_t random_state = 1;
static uint32_t random_u32(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

static struct ggml_context * context(void) {
    struct ggml_init_params params = {.mem_size = 16 << 20, .mem_buffer = NULL, .no_alloc = false};
    struct ggml_context * ctx = ggml_init(params);
    assert_non_null(ctx);
    return ctx;
}

static void fill(struct ggml_tensor * t) {
    int64_t n = ggml_nelements(t);
    float * values = malloc((size_t) n * sizeof *values);
    for (int64_t i = 0; i < n; i++) {
        values[i] = (float) ((int32_t) random_u32() % 100000) / 512.0f;
    }
    if (t->type == GGML_TYPE_F32) {
        memcpy(t->data, values, (size_t) n * sizeof *values);
    } else if (ggml_get_type_traits(t->type)->from_float_ref) {
        ggml_get_type_traits(t->type)->from_float_ref(values, t->data, n);
    } else {
        for (size_t i = 0; i < ggml_nbytes(t); i++) {
            ((uint8_t *) t->data)[i] = (uint8_t) random_u32();
        }
    }
    free(values);
}

static char * element(const struct ggml_tensor * t, int64_t i) {
    int64_t i0 = i % t->ne[0], i1 = i / t->ne[0] % t->ne[1],
            i2 = i / t->ne[0] / t->ne[1] % t->ne[2], i3 = i / t->ne[0] / t->ne[1] / t->ne[2];
    return (char *) t->data + (size_t) i0 * t->nb[0] + (size_t) i1 * t->nb[1] +
           (size_t) i2 * t->nb[2] + (size_t) i3 * t->nb[3];
}

static float value(const struct ggml_tensor * t, int64_t i) {
    float out;
    if (t->type == GGML_TYPE_F32) {
        memcpy(&out, element(t, i), sizeof out);
    } else if (t->type == GGML_TYPE_I32) {
        int32_t v;
        memcpy(&v, element(t, i), sizeof v);
        out = (float) v;
    } else {
        ggml_get_type_traits(t->type)->to_float(element(t, i), &out, 1);
    }
    return out;
}

static void copy(const struct ggml_tensor * src, struct ggml_tensor * dst) {
    struct error err = {0};
    struct view from = view_of(src), to = view_of(dst);
    assert_true(host_can_copy(src, dst));
    assert_int_equal(host_copy(&from, &to, &err), ST_OK);
}

static void equal_types_keep_every_bit(void ** state) {
    (void) state;
    static const enum ggml_type types[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16,
                                           GGML_TYPE_I8,  GGML_TYPE_I16, GGML_TYPE_I32,
                                           GGML_TYPE_I64, GGML_TYPE_F64};
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
        struct ggml_context * ctx = context();
        struct ggml_tensor * a = ggml_new_tensor_4d(ctx, types[k], 7, 5, 3, 2);
        fill(a);
        // Permuted to packed, packed to permuted, and reshaped on the way.
        struct ggml_tensor * p = ggml_permute(ctx, a, 2, 0, 3, 1);
        struct ggml_tensor * b = ggml_new_tensor_4d(ctx, types[k], 10, 21, 1, 1);
        struct ggml_tensor * c =
            ggml_permute(ctx, ggml_new_tensor_4d(ctx, types[k], 3, 2, 5, 7), 1, 3, 0, 2);
        p->data = a->data;
        copy(p, b);
        copy(b, c);
        for (int64_t i = 0; i < ggml_nelements(a); i++) {
            assert_memory_equal(element(p, i), element(b, i), ggml_type_size(types[k]));
            assert_memory_equal(element(p, i), element(c, i), ggml_type_size(types[k]));
        }
        ggml_free(ctx);
    }
}

static void conversions_round_as_ggml_does(void ** state) {
    (void) state;
    static const enum ggml_type types[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16};
    for (int s = 0; s < 3; s++) {
        for (int d = 0; d < 3; d++) {
            struct ggml_context * ctx = context();
            struct ggml_tensor * a = ggml_new_tensor_4d(ctx, types[s], 9, 4, 5, 2);
            fill(a);
            struct ggml_tensor * p = ggml_permute(ctx, a, 1, 0, 2, 3);
            struct ggml_tensor * b = ggml_new_tensor_2d(ctx, types[d], 6, 60);
            copy(p, b);
            for (int64_t i = 0; i < ggml_nelements(a); i++) {
                float want = value(p, i);
                if (types[d] == GGML_TYPE_F16) {
                    want = ggml_fp16_to_fp32(ggml_fp32_to_fp16(want));
                } else if (types[d] == GGML_TYPE_BF16) {
                    want = ggml_bf16_to_fp32(ggml_fp32_to_bf16(want));
                }
                assert_true(value(b, i) == want);
            }
            ggml_free(ctx);
        }
    }
}

static void integers(void ** state) {
    (void) state;
    struct ggml_context * ctx = context();
    static const float in[] = {0.0f, -1.9f, 1.9f, 3e9f, -3e9f, NAN, 2147483520.0f, -2147483648.0f};
    static const int32_t out[] = {0, -1, 1, INT32_MAX, INT32_MIN, 0, 2147483520, INT32_MIN};
    struct ggml_tensor * a = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 8);
    struct ggml_tensor * b = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 8);
    memcpy(a->data, in, sizeof in);
    copy(a, b);
    assert_memory_equal(b->data, out, sizeof out);
    copy(b, a);
    assert_true(((float *) a->data)[3] == 2147483648.0f && ((float *) a->data)[1] == -1.0f);
    ggml_free(ctx);
}

static void quantized_rows(void ** state) {
    (void) state;
    static const enum ggml_type types[] = {GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, GGML_TYPE_Q6_K,
                                           GGML_TYPE_IQ4_NL};
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
        struct ggml_context * ctx = context();
        struct ggml_tensor * a = ggml_new_tensor_3d(ctx, GGML_TYPE_F16, 3, 512, 2);
        fill(a);
        struct ggml_tensor * p = ggml_permute(ctx, a, 1, 0, 2, 3); // 512 x 3 x 2
        struct ggml_tensor * q = ggml_new_tensor_2d(ctx, types[k], 256, 12);
        struct ggml_tensor * f = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 8, 128, 3);
        struct ggml_tensor * r = ggml_new_tensor_2d(ctx, types[k], 1024, 3);
        copy(p, q);
        copy(q, f);
        copy(q, r); // equal types move whole blocks, here into rows of another length
        float row[256], back[256];
        char * block = malloc(ggml_row_size(types[k], 256));
        for (int64_t i = 0; i < ggml_nelements(a); i += 256) {
            for (int j = 0; j < 256; j++) {
                row[j] = value(p, i + j);
            }
            ggml_get_type_traits(types[k])->from_float_ref(row, block, 256);
            assert_memory_equal(block, (char *) q->data + q->nb[1] * (size_t) (i / 256), q->nb[1]);
            ggml_get_type_traits(types[k])->to_float(block, back, 256);
            for (int j = 0; j < 256; j++) {
                assert_true(value(f, i + j) == back[j]);
            }
        }
        assert_memory_equal(q->data, r->data, ggml_nbytes(q));
        free(block);
        ggml_free(ctx);
    }
}

// Types of which ggml makes numbers only after it made tables for a long while: any bytes are such
// numbers, as long as their scales are.
static void quantized_rows_of_any_bytes(void ** state) {
    (void) state;
    static const enum ggml_type types[] = {GGML_TYPE_IQ1_S,  GGML_TYPE_IQ1_M, GGML_TYPE_IQ2_XXS,
                                           GGML_TYPE_IQ2_XS, GGML_TYPE_IQ2_S, GGML_TYPE_IQ3_XXS,
                                           GGML_TYPE_IQ3_S};
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
        struct ggml_context * ctx = context();
        struct ggml_tensor * q = ggml_new_tensor_3d(ctx, types[k], 512, 3, 2);
        struct ggml_tensor * p = ggml_permute(ctx, q, 0, 2, 1, 3); // 512 x 2 x 3
        struct ggml_tensor * f = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 8, 128, 3);
        struct ggml_tensor * r = ggml_new_tensor_2d(ctx, types[k], 1024, 3);
        for (size_t i = 0; i < ggml_nbytes(q); i++) {
            ((uint8_t *) q->data)[i] = (uint8_t) ((i * 2654435761u) >> 11) & 63; // a half below 2
        }
        assert_true(host_can_copy(p, f) && host_can_copy(p, r));
        copy(p, f);
        copy(p, r);
        float back[512];
        for (int64_t i = 0; i < 6; i++) {
            const char * row =
                (char *) q->data + q->nb[2] * (size_t) (i % 2) + q->nb[1] * (size_t) (i / 2);
            ggml_get_type_traits(types[k])->to_float(row, back, 512);
            for (int j = 0; j < 512; j++) {
                assert_true(isfinite(back[j]) && value(f, i * 512 + j) == back[j]);
            }
            assert_memory_equal((char *) r->data + q->nb[1] * (size_t) i, row, q->nb[1]);
        }
        ggml_free(ctx);
    }
}

static void what_cannot_be_copied(void ** state) {
    (void) state;
    static const struct {
        enum ggml_type src, dst;
        bool can;
    } pairs[] = {
        {GGML_TYPE_F32, GGML_TYPE_IQ2_XS, false}, {GGML_TYPE_F32, GGML_TYPE_Q4_K, true},
        {GGML_TYPE_Q4_0, GGML_TYPE_F16, false},   {GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, false},
        {GGML_TYPE_I32, GGML_TYPE_F16, false},    {GGML_TYPE_I8, GGML_TYPE_F32, false},
        {GGML_TYPE_F16, GGML_TYPE_I32, false},    {GGML_TYPE_Q4_0, GGML_TYPE_Q4_0, true},
    };
    struct ggml_context * ctx = context();
    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
        struct ggml_tensor * a = ggml_new_tensor_1d(ctx, pairs[k].src, 256);
        struct ggml_tensor * b = ggml_new_tensor_1d(ctx, pairs[k].dst, 256);
        struct ggml_tensor * c = ggml_new_tensor_1d(ctx, pairs[k].dst, 512);
        assert_int_equal(host_can_copy(a, b), pairs[k].can);
        assert_false(host_can_copy(a, c));
    }
    ggml_free(ctx);
}

static void expanding(void ** state) {
    (void) state;
    static const int64_t full[4] = {12, 6, 4, 2};
    static const int64_t small[][4] = {{1, 1, 1, 1}, {12, 1, 1, 1}, {1, 6, 1, 2},
                                       {4, 3, 2, 1}, {12, 6, 4, 2}, {3, 1, 4, 1}};
    static const enum ggml_type to[] = {GGML_TYPE_F16, GGML_TYPE_F32};
    for (size_t k = 0; k < sizeof small / sizeof small[0]; k++) {
        for (int d = 0; d < 2; d++) {
            struct ggml_context * ctx = context();
            const int64_t * ne = small[k];
            // Stored with the first two dimensions swapped, so that elements of a row lie apart.
            struct ggml_tensor * raw =
                ggml_new_tensor_4d(ctx, GGML_TYPE_F16, ne[1], ne[0], ne[2], ne[3]);
            fill(raw);
            struct ggml_tensor * src = ggml_permute(ctx, raw, 1, 0, 2, 3);
            struct ggml_tensor * dst = ggml_new_tensor(ctx, to[d], 4, full);
            struct view from = view_of(src), view = view_of(dst);
            struct error err = {0};
            assert_int_equal(host_expand(&from, &view, &err), ST_OK);
            for (int64_t i = 0; i < ggml_nelements(dst); i++) {
                int64_t i0 = i % full[0] % ne[0], i1 = i / full[0] % full[1] % ne[1],
                        i2 = i / full[0] / full[1] % full[2] % ne[2],
                        i3 = i / full[0] / full[1] / full[2] % ne[3];
                assert_true(value(dst, i) ==
                            value(src, i0 + ne[0] * (i1 + ne[1] * (i2 + ne[2] * i3))));
            }
            ggml_free(ctx);
        }
    }
}

static void nothing_to_copy(void ** state) {
    (void) state;
    struct ggml_context * ctx = context();
    struct ggml_tensor * a = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 4, 0);
    struct ggml_tensor * b = ggml_new_tensor_2d(ctx, GGML_TYPE_F16, 0, 4);
    copy(a, b);
    ggml_free(ctx);
}

// ---- nodes ----

static void compute(struct ggml_tensor * node) {
    struct error err = {0};
    assert_int_equal(host_check_node(node, NULL), ST_OK);
    if (host_compute(node, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
}

static int64_t at(const struct ggml_tensor * t, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    return i0 + t->ne[0] * (i1 + t->ne[1] * (i2 + t->ne[2] * i3));
}

// Rows of every datatype that floats can be made of, with gaps between them.
static void rows_by_index(void ** state) {
    (void) state;
    for (int type = 0; type < GGML_TYPE_COUNT; type++) {
        const struct ggml_type_traits * traits = ggml_get_type_traits((enum ggml_type) type);
        if (!traits->to_float || !traits->from_float_ref || !traits->blck_size) {
            continue;
        }
        struct ggml_context * ctx = context();
        struct ggml_tensor * f = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, 256, 9, 2, 3);
        struct ggml_tensor * wide = ggml_new_tensor_4d(ctx, (enum ggml_type) type, 512, 9, 2, 3);
        struct ggml_tensor * a =
            ggml_view_4d(ctx, wide, 256, 9, 2, 3, wide->nb[1], wide->nb[2], wide->nb[3], 0);
        fill(f);
        memset(wide->data, 0, ggml_nbytes(wide));
        struct ggml_tensor * every = ggml_new_tensor_3d(ctx, GGML_TYPE_I64, 9, 1, 3);
        for (int64_t i = 0; i < 27; i++) { // each third of the batch in another order
            static const int64_t step[] = {1, 2, 4};
            ((int64_t *) every->data)[i] = (i % 9 * step[i / 9] + 1) % 9;
        }
        struct ggml_tensor * set = ggml_set_rows(ctx, a, f, every);
        if (host_check_node(set, NULL) != ST_OK) {
            ggml_free(ctx);
            continue;
        }
        compute(set);
        struct ggml_tensor * index = ggml_new_tensor_3d(ctx, GGML_TYPE_I32, 4, 2, 3);
        for (int i = 0; i < 24; i++) {
            ((int32_t *) index->data)[i] = i * 5 % 9;
        }
        struct ggml_tensor * got = ggml_get_rows(ctx, a, index);
        compute(got);
        char * block = malloc(ggml_row_size((enum ggml_type) type, 256));
        float row[256];
        for (int64_t r = 0; r < 24; r++) {
            int64_t i1 = r % 4, i2 = r / 4 % 2, i3 = r / 8, from = 0;
            while (((int64_t *) every->data)[i3 * 9 + from] != ((int32_t *) index->data)[r]) {
                from++;
            }
            const char * source = element(f, at(f, 0, from, i2, i3));
            if (type == GGML_TYPE_F32) {
                memcpy(row, source, sizeof row);
            } else {
                traits->from_float_ref((const float *) (const void *) source, block, 256);
                traits->to_float(block, row, 256);
            }
            assert_memory_equal(element(got, at(got, 0, i1, i2, i3)), row, sizeof row);
        }
        free(block);
        ggml_free(ctx);
    }
}

static void bad_indices(void ** state) {
    (void) state;
    static const int32_t bad[] = {-1, 5, INT32_MAX, INT32_MIN};
    struct ggml_context * ctx = context();
    struct ggml_tensor * a = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 8, 5);
    struct ggml_tensor * b = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 8, 2);
    struct ggml_tensor * index = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 2);
    struct ggml_tensor * get = ggml_get_rows(ctx, a, index);
    struct ggml_tensor * set = ggml_set_rows(ctx, a, b, index);
    fill(a);
    fill(b);
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        struct error err = {0};
        ((int32_t *) index->data)[0] = 4;
        ((int32_t *) index->data)[1] = bad[k];
        assert_int_equal(host_compute(get, &err), ST_INVALID);
        assert_int_equal(host_compute(set, &err), ST_INVALID);
        assert_non_null(strstr(err.text, "there are 5"));
    }
    set->type = GGML_TYPE_IQ2_XS; // nobody quantizes to it without tables
    assert_int_equal(host_check_node(set, NULL), ST_UNSUPPORTED);
    get->ne[1] = 3; // more rows than indices
    assert_int_equal(host_check_node(get, NULL), ST_UNSUPPORTED);
    ggml_free(ctx);
}

static void joining(void ** state) {
    (void) state;
    static const enum ggml_type types[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_I8,
                                           GGML_TYPE_I64, GGML_TYPE_BF16};
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
        for (int dim = 0; dim < 4; dim++) {
            struct ggml_context * ctx = context();
            int64_t ne[4] = {6, 5, 4, 3};
            struct ggml_tensor * a = ggml_new_tensor_4d(ctx, types[k], 5, 6, 4, 3);
            a = ggml_permute(ctx, a, 1, 0, 2, 3);
            ne[dim] = 2;
            struct ggml_tensor * b = ggml_new_tensor(ctx, types[k], 4, ne);
            fill(a->view_src);
            fill(b);
            struct ggml_tensor * c = ggml_concat(ctx, a, b, dim);
            compute(c);
            for (int64_t i = 0; i < ggml_nelements(c); i++) {
                int64_t p[4] = {i % c->ne[0], i / c->ne[0] % c->ne[1],
                                i / c->ne[0] / c->ne[1] % c->ne[2],
                                i / c->ne[0] / c->ne[1] / c->ne[2]};
                const struct ggml_tensor * from = p[dim] < a->ne[dim] ? a : b;
                p[dim] -= from == b ? a->ne[dim] : 0;
                assert_memory_equal(element(c, i), element(from, at(from, p[0], p[1], p[2], p[3])),
                                    ggml_type_size(types[k]));
            }
            ggml_free(ctx);
        }
    }
}

static void joining_blocks(void ** state) {
    (void) state;
    struct ggml_context * ctx = context();
    struct ggml_tensor * a = ggml_new_tensor_2d(ctx, GGML_TYPE_Q8_0, 64, 3);
    struct ggml_tensor * b = ggml_new_tensor_2d(ctx, GGML_TYPE_Q8_0, 32, 3);
    fill(a);
    fill(b);
    struct ggml_tensor * c = ggml_concat(ctx, a, b, 0);
    compute(c);
    for (int r = 0; r < 3; r++) {
        const char * row = (const char *) c->data + (size_t) r * c->nb[1];
        assert_memory_equal(row, (char *) a->data + (size_t) r * a->nb[1], a->nb[1]);
        assert_memory_equal(row + a->nb[1], (char *) b->data + (size_t) r * b->nb[1], b->nb[1]);
    }
    c->op_params[0] = 4; // there is no such dimension
    assert_int_equal(host_check_node(c, NULL), ST_UNSUPPORTED);
    c->op_params[0] = -1;
    assert_int_equal(host_check_node(c, NULL), ST_UNSUPPORTED);
    ggml_free(ctx);
}

static void repeating(void ** state) {
    (void) state;
    struct ggml_context * ctx = context();
    struct ggml_tensor * a =
        ggml_permute(ctx, ggml_new_tensor_4d(ctx, GGML_TYPE_I16, 2, 3, 1, 2), 1, 0, 2, 3);
    fill(a->view_src);
    struct ggml_tensor * c = ggml_repeat_4d(ctx, a, 9, 4, 5, 2);
    compute(c);
    for (int64_t i = 0; i < ggml_nelements(c); i++) {
        int64_t from = at(a, i % 9 % 3, i / 9 % 4 % 2, 0, i / 180);
        assert_memory_equal(element(c, i), element(a, from), 2);
    }
    ggml_free(ctx);
}

static void counts_become_wide(void ** state) {
    (void) state;
    struct ggml_context * ctx = context();
    struct ggml_tensor * a = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 3);
    struct ggml_tensor * b = ggml_new_tensor_1d(ctx, GGML_TYPE_I64, 3);
    static const int32_t in[] = {INT32_MAX, 16777217, -5};
    memcpy(a->data, in, sizeof in);
    struct view from = view_of(a), to = view_of(b);
    assert_int_equal(host_copy(&from, &to, NULL), ST_OK);
    for (int i = 0; i < 3; i++) {
        assert_true(((int64_t *) b->data)[i] == in[i]);
    }
    ggml_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_types_keep_every_bit),
        cmocka_unit_test(conversions_round_as_ggml_does),
        cmocka_unit_test(integers),
        cmocka_unit_test(quantized_rows),
        cmocka_unit_test(quantized_rows_of_any_bytes),
        cmocka_unit_test(what_cannot_be_copied),
        cmocka_unit_test(expanding),
        cmocka_unit_test(nothing_to_copy),
        cmocka_unit_test(rows_by_index),
        cmocka_unit_test(bad_indices),
        cmocka_unit_test(joining),
        cmocka_unit_test(joining_blocks),
        cmocka_unit_test(repeating),
        cmocka_unit_test(counts_become_wide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
