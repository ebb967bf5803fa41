// test-plugin-gpu: values of the ops that an emulated GPU computes, through ggml's public interface
// alone. Shapes are small and odd; references are doubles. The argument names the GPU.
#include "gpu-world.h"

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

static struct ggml_tensor * tensor(struct world * w, enum ggml_type type, int64_t a, int64_t b,
                                   int64_t c, int64_t d) {
    return ggml_new_tensor_4d(w->ctx, type, a, b, c, d);
}

// ---- elementwise ----

typedef struct ggml_tensor * binary(struct ggml_context *, struct ggml_tensor *,
                                    struct ggml_tensor *);

static void repeats(void ** state) {
    (void) state;
    static binary * const ops[] = {ggml_add, ggml_mul, ggml_sub, ggml_div};
    static const int64_t shapes[][2][4] = {
        {{1, 1, 1, 1}, {1, 1, 1, 1}},     {{1000, 1, 1, 1}, {1000, 1, 1, 1}},
        {{257, 3, 1, 1}, {257, 1, 1, 1}}, {{257, 3, 1, 1}, {1, 3, 1, 1}},
        {{7, 5, 3, 2}, {1, 1, 1, 1}},     {{7, 5, 3, 2}, {7, 1, 3, 1}},
        {{7, 5, 3, 2}, {1, 5, 1, 2}},     {{12, 5, 4, 2}, {4, 5, 2, 1}},
        {{6, 6, 4, 4}, {3, 2, 2, 2}}, // each dimension becomes two: more than a kernel walks
        {{4, 4, 4, 6}, {2, 2, 2, 2}},     {{9, 1, 4, 1}, {3, 1, 1, 1}},
    };
    for (size_t s = 0; s < COUNT(shapes); s++) {
        struct world w = world_new();
        struct ggml_tensor * a = ggml_new_tensor(w.ctx, GGML_TYPE_F32, 4, shapes[s][0]);
        struct ggml_tensor * b = ggml_new_tensor(w.ctx, GGML_TYPE_F32, 4, shapes[s][1]);
        for (size_t o = 0; o < COUNT(ops); o++) {
            ggml_build_forward_expand(w.graph, ops[o](w.ctx, a, b));
        }
        world_check(&w, ggml_repeat(w.ctx, b, a), NULL);
    }
}

static void types(void ** state) {
    (void) state;
    static const enum ggml_type all[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16,
                                         GGML_TYPE_F64, GGML_TYPE_I32, GGML_TYPE_I64};
    for (size_t t = 0; t < COUNT(all); t++) {
        struct world w = world_new();
        struct ggml_tensor * a = tensor(&w, all[t], 33, 5, 2, 1);
        struct ggml_tensor * b = tensor(&w, all[t], 11, 1, 2, 1);
        ggml_build_forward_expand(w.graph, ggml_repeat(w.ctx, b, a));
        ggml_build_forward_expand(w.graph, ggml_cont(w.ctx, ggml_permute(w.ctx, a, 2, 0, 1, 3)));
        for (size_t u = 0; u < COUNT(all); u++) {
            if ((all[t] != GGML_TYPE_F64) == (all[u] != GGML_TYPE_F64)) {
                struct ggml_tensor * to = tensor(&w, all[u], 11, 3, 5, 2);
                ggml_build_forward_expand(w.graph, ggml_cpy(w.ctx, a, to));
            }
        }
        world_check(&w, ggml_add(w.ctx, a, b), NULL);
    }
}

static void mixed_types(void ** state) {
    (void) state;
    static const enum ggml_type halves[] = {GGML_TYPE_F16, GGML_TYPE_BF16};
    for (size_t t = 0; t < COUNT(halves); t++) {
        struct world w = world_new();
        struct ggml_tensor * a = tensor(&w, halves[t], 33, 6, 2, 1);
        struct ggml_tensor * b = tensor(&w, GGML_TYPE_F32, 11, 3, 1, 1);
        ggml_build_forward_expand(w.graph, ggml_add(w.ctx, a, b));
        ggml_build_forward_expand(
            w.graph, ggml_mul(w.ctx, ggml_transpose(w.ctx, a), ggml_transpose(w.ctx, b)));
        struct ggml_tensor * row = tensor(&w, GGML_TYPE_F32, 33, 1, 2, 1);
        world_check(&w, ggml_add_cast(w.ctx, a, row, GGML_TYPE_F32), NULL);
    }
}

static void scales_and_activations(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * a = tensor(&w, GGML_TYPE_F32, 50, 3, 2, 2);
    ggml_build_forward_expand(w.graph, ggml_scale(w.ctx, a, -1.7f));
    ggml_build_forward_expand(w.graph, ggml_scale_bias(w.ctx, a, 0.3f, 5.5f));
    ggml_build_forward_expand(w.graph,
                              ggml_scale(w.ctx, ggml_view_2d(w.ctx, a, 31, 5, a->nb[1], 8), 2));
    ggml_build_forward_expand(w.graph, ggml_relu(w.ctx, a));
    ggml_build_forward_expand(w.graph, ggml_sqr(w.ctx, a));
    ggml_build_forward_expand(w.graph, ggml_swiglu(w.ctx, a));
    ggml_build_forward_expand(w.graph, ggml_swiglu_swapped(w.ctx, a));
    ggml_build_forward_expand(w.graph, ggml_swiglu_split(w.ctx, a, ggml_sqr(w.ctx, a)));
    world_check(&w, ggml_silu(w.ctx, a), NULL);
}

// ---- rows ----

// Lengths around a wave and the largest group.
static const int64_t lengths[] = {1, 2, 31, 63, 64, 65, 255, 256, 257, 700};

static void norms_and_sums(void ** state) {
    (void) state;
    for (size_t i = 0; i < COUNT(lengths); i++) {
        struct world w = world_new();
        struct ggml_tensor * a = tensor(&w, GGML_TYPE_F32, lengths[i], 3, 2, 2);
        struct ggml_tensor * part =
            ggml_view_3d(w.ctx, a, (lengths[i] + 1) / 2, 2, 2, a->nb[1], a->nb[3], a->nb[2]);
        struct ggml_tensor * turned = ggml_permute(w.ctx, a, 1, 0, 3, 2);
        struct ggml_tensor * inputs[] = {a, part, turned};
        for (size_t k = 0; k < COUNT(inputs); k++) {
            ggml_build_forward_expand(w.graph, ggml_rms_norm(w.ctx, inputs[k], 1e-5f));
            ggml_build_forward_expand(w.graph, ggml_norm(w.ctx, inputs[k], 0.5f));
            ggml_build_forward_expand(w.graph, ggml_sum_rows(w.ctx, inputs[k]));
        }
        struct ggml_tensor * flat = ggml_reshape_2d(w.ctx, a, lengths[i], 12);
        world_check(&w, ggml_argmax(w.ctx, flat), NULL);
    }
}

struct soft_max_case {
    int64_t ne[4], mask[4]; // mask[0] 0: none
    float scale, max_bias;
    bool half, sinks;
};

static void soft_max(void ** state) {
    (void) state;
    static const struct soft_max_case cases[] = {
        {{5, 1, 1, 1}, {0}, 1, 0, false, false},
        {{300, 3, 2, 2}, {0}, 0.1f, 0, false, false},
        {{33, 4, 3, 2}, {33, 4, 1, 1}, 0.5f, 0, false, false},
        {{33, 4, 3, 2}, {33, 4, 1, 1}, 0.5f, 0, true, false},
        {{64, 3, 4, 2}, {64, 5, 2, 1}, 1.5f, 0, true, false}, // more rows than are used
        {{65, 3, 4, 4}, {65, 3, 2, 2}, 1, 0, true, true},
        {{20, 2, 1, 1}, {20, 2, 1, 1}, 1, 8, true, false}, // one head
        {{20, 2, 4, 1}, {20, 2, 1, 1}, 1, 8, false, false},
        {{20, 2, 5, 2}, {20, 2, 5, 1}, 1, 2.5f, true, true}, // heads behind the power of two
        {{20, 2, 12, 1}, {20, 2, 1, 1}, 0.7f, 4, true, false},
        {{20, 2, 7, 3}, {0}, 1, 0, false, true},
        {{257, 2, 3, 1}, {257, 2, 3, 1}, 1, 0, false, true},
    };
    for (size_t k = 0; k < COUNT(cases); k++) {
        const struct soft_max_case * c = &cases[k];
        struct world w = world_new();
        struct ggml_tensor * x = ggml_new_tensor(w.ctx, GGML_TYPE_F32, 4, c->ne);
        struct ggml_tensor * mask =
            c->mask[0] ? ggml_new_tensor(w.ctx, c->half ? GGML_TYPE_F16 : GGML_TYPE_F32, 4, c->mask)
                       : NULL;
        struct ggml_tensor * y = ggml_soft_max_ext(w.ctx, x, mask, c->scale, c->max_bias);
        // The same of rows that are not one behind the other, as only a graph from afar has them.
        struct ggml_tensor * wide =
            tensor(&w, GGML_TYPE_F32, c->ne[0] + 3, c->ne[2], c->ne[1], c->ne[3]);
        struct ggml_tensor * view =
            ggml_permute(w.ctx,
                         ggml_view_4d(w.ctx, wide, c->ne[0], c->ne[2], c->ne[1], c->ne[3],
                                      wide->nb[1], wide->nb[2], wide->nb[3], 4),
                         0, 2, 1, 3);
        struct ggml_tensor * z = ggml_soft_max_ext(w.ctx, x, mask, c->scale, c->max_bias);
        z->src[0] = view;
        if (c->sinks) {
            struct ggml_tensor * sinks = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, c->ne[2]);
            ggml_soft_max_add_sinks(y, sinks);
            ggml_soft_max_add_sinks(z, sinks);
        }
        ggml_build_forward_expand(w.graph, y);
        world_check(&w, z, NULL);
    }
}

// Masks of a causal model: most of a row is -inf. A row that is all -inf has a sink, or is NaN.
static void soft_max_of_infinities(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * x = tensor(&w, GGML_TYPE_F32, 70, 70, 2, 1);
    struct ggml_tensor * mask = tensor(&w, GGML_TYPE_F16, 70, 70, 1, 1);
    struct ggml_tensor * sinks = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, 2);
    struct ggml_tensor * y = ggml_soft_max_ext(w.ctx, x, mask, 1, 0);
    ggml_soft_max_add_sinks(y, sinks);
    ggml_build_forward_expand(w.graph, y);
    world_alloc(&w, ggml_soft_max_ext(w.ctx, x, mask, 1, 0), NULL);
    world_fill(&w, 5);
    ggml_fp16_t rows[70][70];
    for (int i = 0; i < 70; i++) {
        for (int c = 0; c < 70; c++) {
            rows[i][c] = ggml_fp32_to_fp16(c < i ? 0 : -INFINITY); // row 0: nothing at all
        }
    }
    ggml_backend_tensor_set(mask, rows, 0, sizeof rows);
    assert_int_equal(ggml_backend_graph_compute(stream, w.graph), GGML_STATUS_SUCCESS);
    assert_true(world_is_right(&w));
    world_free(&w);
}

// ---- products ----

static void check_product(enum ggml_type a_type, enum ggml_type b_type, const int64_t a_ne[4],
                          int64_t n, int64_t batch2, int64_t batch3) {
    struct world w = world_new();
    struct ggml_tensor * a = ggml_new_tensor(w.ctx, a_type, 4, a_ne);
    struct ggml_tensor * b = tensor(&w, b_type, a_ne[0], n, batch2, batch3);
    world_check(&w, ggml_mul_mat(w.ctx, a, b), NULL);
}

static void products(void ** state) {
    (void) state;
    static const enum ggml_type pairs[][2] = {{GGML_TYPE_F32, GGML_TYPE_F32},
                                              {GGML_TYPE_F16, GGML_TYPE_F32},
                                              {GGML_TYPE_BF16, GGML_TYPE_F32},
                                              {GGML_TYPE_F16, GGML_TYPE_F16}};
    static const int64_t columns[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 63, 64, 65};
    for (size_t p = 0; p < COUNT(pairs); p++) {
        for (size_t i = 0; i < COUNT(columns); i++) { // few columns are another kernel than many
            if (p == 0 || columns[i] % 4 < 2) {
                check_product(pairs[p][0], pairs[p][1], (int64_t[]){67, 13, 1, 1}, columns[i], 1,
                              1);
            }
        }
        check_product(pairs[p][0], pairs[p][1], (int64_t[]){1, 1, 1, 1}, 1, 1, 1);
        check_product(pairs[p][0], pairs[p][1], (int64_t[]){1, 65, 1, 1}, 10, 1, 1);
        check_product(pairs[p][0], pairs[p][1], (int64_t[]){300, 5, 1, 1}, 1, 1, 1);
        for (int64_t n = 3; n <= 11; n += 8) {
            check_product(pairs[p][0], pairs[p][1], (int64_t[]){17, 5, 2, 3}, n, 2, 3);
            check_product(pairs[p][0], pairs[p][1], (int64_t[]){17, 5, 2, 1}, n, 6, 2);
            check_product(pairs[p][0], pairs[p][1], (int64_t[]){17, 5, 2, 2}, n, 6,
                          4); // a repeats, in both
        }
    }
    struct world w = world_new(); // in f32, as attention asks for
    struct ggml_tensor * a = tensor(&w, GGML_TYPE_F16, 40, 67, 1, 1);
    struct ggml_tensor * y = ggml_mul_mat(w.ctx, a, tensor(&w, GGML_TYPE_F32, 40, 9, 1, 1));
    ggml_prec_set_acc(y, GGML_PREC_F32);
    world_check(&w, y, NULL);
    check_product(GGML_TYPE_F32, GGML_TYPE_F32, (int64_t[]){1030, 3, 1, 1}, 2, 1, 1);
    check_product(GGML_TYPE_F32, GGML_TYPE_F32, (int64_t[]){130, 129, 1, 1}, 70, 1, 1);
}

// As attention has them: heads in the middle, and the cache longer than what is used.
static void products_of_views(void ** state) {
    (void) state;
    for (int64_t n = 1; n <= 9; n += 4) {
        struct world w = world_new();
        struct ggml_tensor * k = tensor(&w, GGML_TYPE_F16, 24, 4, 20, 1); // head, heads, positions
        struct ggml_tensor * q = tensor(&w, GGML_TYPE_F32, 24, 8, n, 1);
        struct ggml_tensor * keys =
            ggml_view_3d(w.ctx, k, 24, 13, 4, k->nb[2], k->nb[1], 2 * k->nb[2]);
        struct ggml_tensor * qk =
            ggml_mul_mat(w.ctx, keys, ggml_permute(w.ctx, q, 0, 2, 1, 3)); // 13, n, 8
        struct ggml_tensor * v = tensor(&w, GGML_TYPE_F16, 20, 11, 4, 1);
        struct ggml_tensor * values = ggml_view_3d(w.ctx, v, 13, 11, 4, v->nb[1], v->nb[2], 0);
        struct ggml_tensor * kqv = ggml_mul_mat(w.ctx, values, ggml_soft_max(w.ctx, qk));
        world_check(&w, ggml_cont(w.ctx, ggml_permute(w.ctx, kqv, 0, 2, 1, 3)), NULL);
    }
}

// ---- the rest ----

static void rows_by_index(void ** state) {
    (void) state;
    static const enum ggml_type all[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16,
                                         GGML_TYPE_I32};
    for (size_t t = 0; t < COUNT(all); t++) {
        struct world w = world_new();
        struct ggml_tensor * x = tensor(&w, all[t], 37, 9, 2, 3);
        struct ggml_tensor * ids = tensor(&w, GGML_TYPE_I32, 7, 2, 3, 1);
        world_alloc(&w, ggml_get_rows(w.ctx, x, ids), NULL);
        int32_t rows[42];
        for (int round = 0; round < 2; round++) {
            world_fill(&w, 3 + (uint32_t) round);
            for (int i = 0; i < 42; i++) {
                rows[i] = (i * 5 + i / 9 + round) % 9;
            }
            ggml_backend_tensor_set(ids, rows, 0, sizeof rows);
            assert_int_equal(ggml_backend_graph_compute(stream, w.graph), GGML_STATUS_SUCCESS);
            assert_true(world_is_right(&w));
        }
        world_free(&w);
    }
}

static void joined(void ** state) {
    (void) state;
    static const enum ggml_type all[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_I32};
    for (size_t t = 0; t < COUNT(all); t++) {
        for (int dim = 0; dim < 4; dim++) {
            struct world w = world_new();
            int64_t ne[4] = {7, 5, 3, 2};
            struct ggml_tensor * a = ggml_new_tensor(w.ctx, all[t], 4, ne);
            ne[dim] = 4;
            struct ggml_tensor * b = ggml_new_tensor(w.ctx, all[t], 4, ne);
            struct ggml_tensor * turned =
                ggml_permute(w.ctx, tensor(&w, all[t], ne[1], ne[0], ne[3], ne[2]), 1, 0, 3, 2);
            ggml_build_forward_expand(w.graph, ggml_concat(w.ctx, turned, a, dim));
            world_check(&w, ggml_concat(w.ctx, a, b, dim), NULL);
        }
    }
}

// A layer in small, and many more nodes than a queue has packets.
static void mixed_graph(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * x = tensor(&w, GGML_TYPE_F32, 48, 10, 1, 1);
    struct ggml_tensor * weight = tensor(&w, GGML_TYPE_F32, 48, 1, 1, 1);
    struct ggml_tensor * up = tensor(&w, GGML_TYPE_F16, 48, 30, 1, 1);
    struct ggml_tensor * down = tensor(&w, GGML_TYPE_F32, 15, 48, 1, 1);
    struct ggml_tensor * out = x;
    for (int layer = 0; layer < 12; layer++) {
        struct ggml_tensor * n = ggml_mul(w.ctx, ggml_rms_norm(w.ctx, out, 1e-6f), weight);
        struct ggml_tensor * h = ggml_swiglu(w.ctx, ggml_mul_mat(w.ctx, up, n));
        struct ggml_tensor * s = ggml_soft_max(w.ctx, ggml_scale(w.ctx, h, 0.25f));
        out = ggml_add(w.ctx, out, ggml_mul_mat(w.ctx, down, s));
    }
    for (int i = 0; i < 300; i++) {
        out = ggml_scale(w.ctx, out, i % 2 ? 1.25f : 0.8f);
    }
    world_check(&w, out, NULL);
}

static void not_numbers(void ** state) {
    (void) state;
    static const float odd[] = {NAN,     INFINITY, -INFINITY, FLT_MAX, -FLT_MAX,
                                FLT_MIN, 1e-45f,   -0.0f,     1,       0};
    struct world w = world_new();
    struct ggml_tensor * a = tensor(&w, GGML_TYPE_F32, 10, 10, 1, 1);
    struct ggml_tensor * b = tensor(&w, GGML_TYPE_F32, 10, 1, 1, 1);
    ggml_build_forward_expand(w.graph, ggml_add(w.ctx, a, b));
    ggml_build_forward_expand(w.graph, ggml_mul(w.ctx, a, b));
    ggml_build_forward_expand(w.graph, ggml_scale(w.ctx, a, 2));
    ggml_build_forward_expand(w.graph, ggml_cpy(w.ctx, a, tensor(&w, GGML_TYPE_F16, 10, 10, 1, 1)));
    ggml_build_forward_expand(w.graph,
                              ggml_cpy(w.ctx, a, tensor(&w, GGML_TYPE_BF16, 10, 10, 1, 1)));
    struct ggml_tensor * copy = ggml_cont(w.ctx, ggml_transpose(w.ctx, a));
    ggml_build_forward_expand(w.graph, copy);
    world_alloc(&w, ggml_sum_rows(w.ctx, b), NULL); // NaN
    float values[100];
    for (int i = 0; i < 100; i++) {
        values[i] = odd[i / 10];
    }
    ggml_backend_tensor_set(a, values, 0, sizeof values);
    ggml_backend_tensor_set(b, odd, 0, sizeof odd);
    assert_int_equal(ggml_backend_graph_compute(stream, w.graph), GGML_STATUS_SUCCESS);
    assert_true(world_is_right(&w));
    char * bits = bytes_of(copy);
    for (int i = 0; i < 100; i++) { // -0 is not 0
        assert_memory_equal(bits + 4 * i, &odd[i % 10], 4);
    }
    free(bits);
    // One bad element spoils its row of a product, and no other.
    for (int64_t n = 2; n <= 10; n += 8) {
        struct world v = world_new();
        struct ggml_tensor * m = tensor(&v, GGML_TYPE_F32, 33, 5, 1, 1);
        struct ggml_tensor * y = ggml_mul_mat(v.ctx, m, tensor(&v, GGML_TYPE_F32, 33, n, 1, 1));
        world_alloc(&v, y, NULL);
        world_fill(&v, 1);
        ggml_backend_tensor_set(m, &odd[0], 4 * (33 * 2 + 32), 4);
        assert_int_equal(ggml_backend_graph_compute(stream, v.graph), GGML_STATUS_SUCCESS);
        assert_true(world_is_right(&v));
        world_free(&v);
    }
    world_free(&w);
}

// A batch in which nothing goes to a cache: the result is not empty, what is written is.
static void rows_of_nothing(void ** state) {
    (void) state;
    for (int k = 0; k < 2; k++) {
        struct world w = world_new();
        struct ggml_tensor * to = tensor(&w, GGML_TYPE_F32, 64, 4, 1, 1);
        struct ggml_tensor * from = tensor(&w, k ? GGML_TYPE_F16 : GGML_TYPE_F32, 64, 0, 1, 1);
        struct ggml_tensor * ids = ggml_new_tensor_1d(w.ctx, GGML_TYPE_I64, 0);
        world_alloc(&w, ggml_set_rows(w.ctx, to, from, ids), NULL);
        world_fill(&w, 3);
        char * before = bytes_of(to);
        assert_int_equal(ggml_backend_graph_compute(stream, w.graph), GGML_STATUS_SUCCESS);
        char * after = bytes_of(to);
        assert_memory_equal(before, after, ggml_nbytes(to));
        free(before);
        free(after);
        world_free(&w);
    }
}

static void on_the_host(struct ggml_tensor * y, const struct ggml_tensor * x, int ith, int nth,
                        void * user) {
    (void) ith, (void) nth, (void) user;
    memcpy(y->data, x->data, ggml_nbytes(y));
}

static void what_cannot_work(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * f = tensor(&w, GGML_TYPE_F32, 64, 4, 1, 1);
    struct ggml_tensor * wide = tensor(&w, GGML_TYPE_F32, 256, 4, 1, 1);
    struct ggml_tensor * sums = tensor(&w, GGML_TYPE_Q8_1, 256, 4, 1, 1); // no kernel has it
    struct ggml_tensor * half = tensor(&w, GGML_TYPE_F16, 64, 1, 1, 1);
    struct ggml_tensor * i8 = tensor(&w, GGML_TYPE_I8, 64, 4, 1, 1);
    struct ggml_tensor * i16 = tensor(&w, GGML_TYPE_I16, 64, 4, 1, 1);
    struct ggml_tensor * none = tensor(&w, GGML_TYPE_F32, 0, 4, 1, 1);
    struct ggml_tensor * of_nothing = ggml_mul_mat(w.ctx, f, f);
    of_nothing->src[0] = of_nothing->src[1] = none; // ggml would not make such sums of nothing
    struct ggml_tensor * const nodes[] = {
        ggml_mul_mat(w.ctx, sums, wide),
        ggml_mul_mat(w.ctx, tensor(&w, GGML_TYPE_Q4_0, 64, 4, 1, 1), half), // b must be f32
        ggml_add(w.ctx, tensor(&w, GGML_TYPE_I32, 64, 4, 1, 1), f),
        ggml_add(w.ctx, i8, i8),
        ggml_add(w.ctx, i16, i16),
        ggml_cpy(w.ctx, wide, tensor(&w, GGML_TYPE_IQ2_XXS, 256, 4, 1, 1)),
        ggml_cpy(w.ctx, sums, wide),
        ggml_get_rows(w.ctx, sums, ggml_new_tensor_1d(w.ctx, GGML_TYPE_I32, 2)),
        ggml_win_part(w.ctx, f, 4),
        ggml_map_custom1(w.ctx, f, on_the_host, 1, NULL),
        of_nothing,
        ggml_sum_rows(w.ctx, none),
        ggml_argmax(w.ctx, none),
    };
    for (size_t i = 0; i < COUNT(nodes); i++) {
        if (ggml_backend_dev_supports_op(gpu, nodes[i])) {
            fail_msg("%zu: %s is supported", i, ggml_op_desc(nodes[i]));
        }
    }
    // Computed all the same it is a status, also in the middle of a graph, and then all is well.
    struct world v = world_new();
    struct ggml_tensor * a = tensor(&v, GGML_TYPE_F32, 64, 4, 1, 1);
    struct ggml_tensor * sum = ggml_add(v.ctx, a, a);
    struct ggml_tensor * same = ggml_map_custom1(v.ctx, sum, on_the_host, 1, NULL);
    ggml_build_forward_expand(v.graph, ggml_add(v.ctx, same, same));
    v.buffer = ggml_backend_alloc_ctx_tensors(v.ctx, stream);
    world_fill(&v, 1);
    assert_int_equal(ggml_backend_graph_compute(stream, v.graph), GGML_STATUS_FAILED);
    world_free(&v);
    world_free(&w);
    w = world_new();
    world_check(&w, ggml_sqr(w.ctx, tensor(&w, GGML_TYPE_F32, 64, 4, 1, 1)), NULL);
}

int main(int argc, char ** argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeats),
        cmocka_unit_test(types),
        cmocka_unit_test(scales_and_activations),
        cmocka_unit_test(norms_and_sums),
        cmocka_unit_test(soft_max),
        cmocka_unit_test(soft_max_of_infinities),
        cmocka_unit_test(products),
        cmocka_unit_test(products_of_views),
        cmocka_unit_test(rows_by_index),
        cmocka_unit_test(mixed_graph),
        cmocka_unit_test(not_numbers),
        cmocka_unit_test(rows_of_nothing),
        cmocka_unit_test(what_cannot_work),
        cmocka_unit_test(joined),
        cmocka_unit_test(mixed_types),
    };
    return gpu_main(argc, argv, tests, COUNT(tests));
}
