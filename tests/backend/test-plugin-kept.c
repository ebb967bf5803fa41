// test-plugin-kept: plans that are kept. A node that is like one before it is sent without being
// planned, and gives what the CPU's arithmetic gives: with other data, at other addresses, with
// operands that overlap in another way, with another row and other positions, and when the kernels
// that it was sent with have gone from memory: with the argument "little" kernels have next to
// none.
#include "mat-world.h"

#include <pthread.h>

enum { COLUMNS = 96, ROWS = 3 };

static bool little;

static void assert_kept(struct ggml_backend_hsa_stats before, uint64_t nodes) {
    uint64_t kept = stats().kept_nodes - before.kept_nodes;
    if (!little && kept != nodes) {
        fail_msg("%d nodes were sent as planned before, not %d", (int) kept, (int) nodes);
    }
}

static void assert_near(double got, double want) { // as near as `fast` kernels are
    assert_true(fabs(got - want) <= 1e-4 * fabs(want));
}

static struct ggml_tensor * matrix(struct world * w, enum ggml_type type) {
    return ggml_new_tensor_2d(w->ctx, type, COLUMNS, ROWS);
}

static void check_sum(const struct ggml_tensor * a, const struct ggml_tensor * b,
                      const struct ggml_tensor * sum) {
    double *x = values(a), *y = values(b), *z = values(sum);
    for (int64_t i = 0; i < ggml_nelements(sum); i++) {
        assert_true(z[i] == (double) (float) (x[i] + y[i]));
    }
    free(x);
    free(y);
    free(z);
}

// ---- tests ----

static void other_data_other_place(void ** state) {
    (void) state;
    struct ggml_backend_hsa_stats before = stats();
    for (int place = 0; place < 3; place++) {
        struct world w = world_new();
        for (int i = 0; i < place; i++) { // moves the rest
            matrix(&w, GGML_TYPE_F32);
        }
        struct ggml_tensor *a = matrix(&w, GGML_TYPE_F32), *b = matrix(&w, GGML_TYPE_F32);
        struct ggml_tensor * sum = ggml_add(w.ctx, a, b);
        world_alloc(&w, sum);
        for (uint32_t round = 0; round < 2; round++) {
            fill(a, 7 * round + 1);
            fill(b, 7 * round + 2);
            world_compute(&w);
            check_sum(a, b, sum);
        }
        world_free(&w);
    }
    assert_kept(before, 5);
}

// x + y, then x + x, then x += y, which have the same shapes.
static void overlaps(void ** state) {
    (void) state;
    struct ggml_backend_hsa_stats before = stats();
    for (int round = 0; round < 2; round++) {
        struct world w = world_new();
        struct ggml_tensor *x = matrix(&w, GGML_TYPE_F32), *y = matrix(&w, GGML_TYPE_F32);
        struct ggml_tensor *apart = ggml_mul(w.ctx, x, y), *same = ggml_mul(w.ctx, x, x);
        struct ggml_tensor * place = ggml_mul_inplace(w.ctx, y, x);
        ggml_build_forward_expand(w.graph, apart);
        ggml_build_forward_expand(w.graph, same);
        world_alloc(&w, place);
        fill(x, 11);
        fill(y, 12);
        double *a = values(x), *b = values(y);
        world_compute(&w);
        double *p = values(apart), *q = values(same), *r = values(place);
        for (int i = 0; i < COLUMNS * ROWS; i++) {
            assert_near(p[i], a[i] * b[i]);
            assert_near(q[i], a[i] * a[i]);
            assert_true(r[i] == p[i]);
        }
        free(a), free(b), free(p), free(q), free(r);
        world_free(&w);
    }
    assert_kept(before, 3);
}

static void parameters(void ** state) {
    (void) state;
    for (int round = 0; round < 2; round++) {
        struct world w = world_new();
        struct ggml_tensor * x = matrix(&w, GGML_TYPE_F32);
        struct ggml_tensor *twice = ggml_scale(w.ctx, x, 2), *half = ggml_scale(w.ctx, x, 0.5f);
        ggml_build_forward_expand(w.graph, twice);
        world_alloc(&w, half);
        fill(x, 21);
        world_compute(&w);
        double *a = values(x), *b = values(twice), *c = values(half);
        for (int i = 0; i < COLUMNS * ROWS; i++) {
            assert_near(b[i], 2 * a[i]);
            assert_near(c[i], a[i] / 2);
        }
        free(a), free(b), free(c);
        world_free(&w);
    }
}

static void products(void ** state) {
    (void) state;
    static const enum ggml_type types[] = {
        GGML_TYPE_BF16, GGML_TYPE_F16,  GGML_TYPE_F32,  GGML_TYPE_Q8_0,   GGML_TYPE_Q4_0,
        GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_NL, GGML_TYPE_MXFP4};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        for (int as_weights = 0; as_weights < 2; as_weights++) {
            struct world w = world_new();
            struct ggml_tensor * a =
                ggml_new_tensor_2d(as_weights ? w.weights : w.ctx, types[i], 512, 40);
            struct ggml_tensor * b = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, 512, 1);
            struct ggml_tensor * node = ggml_mul_mat(w.ctx, a, b);
            world_alloc(&w, node);
            for (uint32_t round = 0; round < 4; round++) {
                fill(a, 10 * round + 1);
                fill(b, 10 * round + 2);
                world_compute(&w);
                check_product(node, TOLERANCE_BF16);
            }
            world_free(&w);
        }
    }
}

// Rows by an index of one element, which changes; one that points outside is an error each time,
// and the next graph computes.
static void rows(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * table = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, COLUMNS, 16);
    struct ggml_tensor * index = ggml_new_tensor_1d(w.ctx, GGML_TYPE_I32, 1);
    struct ggml_tensor * to = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F16, COLUMNS, 16);
    struct ggml_tensor * row = ggml_get_rows(w.ctx, table, index);
    ggml_build_forward_expand(w.graph, row);
    world_alloc(&w, ggml_set_rows(w.ctx, to, row, index));
    fill(table, 31);
    float zeros[COLUMNS * 8] = {0};
    ggml_backend_tensor_set(to, zeros, 0, ggml_nbytes(to));
    static const int32_t at[] = {3, 15, 0, 3, 16, 7, -1, 1};
    struct ggml_backend_hsa_stats before = stats();
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        bool inside = at[i] >= 0 && at[i] < 16;
        ggml_backend_tensor_set(index, &at[i], 0, sizeof at[i]);
        assert_int_equal(ggml_backend_graph_compute(stream, w.graph),
                         inside ? GGML_STATUS_SUCCESS : GGML_STATUS_FAILED);
        if (!inside) {
            continue;
        }
        double *all = values(table), *got = values(row), *set = values(to);
        for (int c = 0; c < COLUMNS; c++) {
            assert_true(got[c] == all[at[i] * COLUMNS + c]);
            assert_true(fabs(set[at[i] * COLUMNS + c] - got[c]) <= 0x1p-11);
        }
        free(all), free(got), free(set);
    }
    assert_kept(before, 10);
    world_free(&w);
}

static void turned(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * x = ggml_new_tensor_3d(w.ctx, GGML_TYPE_F32, 16, 2, 1);
    struct ggml_tensor * positions = ggml_new_tensor_1d(w.ctx, GGML_TYPE_I32, 1);
    struct ggml_tensor * first = ggml_rope(w.ctx, x, positions, 16, GGML_ROPE_TYPE_NORMAL);
    struct ggml_tensor * second = ggml_rope(w.ctx, x, positions, 16, GGML_ROPE_TYPE_NORMAL);
    ggml_build_forward_expand(w.graph, first);
    world_alloc(&w, second);
    fill(x, 41);
    struct ggml_backend_hsa_stats before = stats();
    for (int32_t p = 0; p < 5; p++) {
        ggml_backend_tensor_set(positions, &p, 0, sizeof p);
        world_compute(&w);
        double *a = values(x), *b = values(first), *c = values(second);
        for (int i = 0; i < 32; i += 2) {
            double angle = p * pow(10000, -(i % 16) / 16.0);
            double even = a[i] * cos(angle) - a[i + 1] * sin(angle);
            assert_true(fabs(b[i] - even) < 1e-5);
            assert_true(b[i] == c[i] && b[i + 1] == c[i + 1]);
        }
        free(a), free(b), free(c);
    }
    assert_kept(before, 5); // the first of each graph makes the table
    world_free(&w);
}

// More kinds of nodes than are kept.
static void many_kinds(void ** state) {
    (void) state;
    for (int i = 0; i < 2100; i += little ? 300 : 1) {
        struct world w = world_new();
        struct ggml_tensor * x = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, 8);
        float factor = (float) i;
        struct ggml_tensor * node = ggml_scale(w.ctx, x, factor);
        world_alloc(&w, node);
        fill(x, (uint32_t) i);
        world_compute(&w);
        double *a = values(x), *b = values(node);
        assert_near(b[3], a[3] * factor);
        free(a), free(b);
        world_free(&w);
    }
}

// ---- streams at once ----

static void * compute_on(void * data) {
    (void) data;
    ggml_backend_t own = ggml_backend_dev_init(dev, NULL);
    struct ggml_init_params params = {
        ggml_tensor_overhead() * 8 + ggml_graph_overhead_custom(8, false), NULL, true};
    for (int round = 0; round < 8 && own; round++) {
        struct ggml_context * ctx = ggml_init(params);
        struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 8, false);
        struct ggml_tensor * x = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64 + round % 3);
        struct ggml_tensor * node = ggml_add(ctx, ggml_sqr(ctx, x), x);
        ggml_build_forward_expand(graph, node);
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, own);
        float in[66], out[66];
        for (int i = 0; i < 66; i++) {
            in[i] = (float) (i - round);
        }
        ggml_backend_tensor_set(x, in, 0, ggml_nbytes(x));
        bool ok = ggml_backend_graph_compute(own, graph) == GGML_STATUS_SUCCESS;
        ggml_backend_tensor_get(node, out, 0, ggml_nbytes(node));
        for (int64_t i = 0; i < node->ne[0]; i++) {
            ok &= fabsf(out[i] - (in[i] * in[i] + in[i])) <= 0.01f * fabsf(in[i]);
        }
        ggml_backend_buffer_free(buffer);
        ggml_free(ctx);
        if (!ok) {
            ggml_backend_free(own);
            return NULL;
        }
    }
    if (own) {
        ggml_backend_free(own);
    }
    return own;
}

static void several_streams(void ** state) {
    (void) state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, compute_on, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void * result;
        pthread_join(threads[i], &result);
        assert_non_null(result);
    }
}

int main(int argc, char ** argv) {
    little = argc > 1 && !strcmp(argv[1], "little");
    if (little) {
        setenv("GGML_HSA_KERNEL_MEMORY", "1", 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_data_other_place),
        cmocka_unit_test(overlaps),
        cmocka_unit_test(parameters),
        cmocka_unit_test(products),
        cmocka_unit_test(rows),
        cmocka_unit_test(turned),
        cmocka_unit_test(several_streams),
        cmocka_unit_test(many_kinds),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
