// test-plugin-join: kernels that follow each other on one program go out as one dispatch, and what
// they compute is what they compute one by one: with other data, at other addresses, where one
// reads what the one before wrote, where another program or the host comes between, and where there
// are more than one dispatch holds.
#include "mat-world.h"

enum { COLUMNS = 96, ROWS = 3, LONG = 300 };

static struct ggml_tensor * matrix(struct world * w) {
    return ggml_new_tensor_2d(w->ctx, GGML_TYPE_F32, COLUMNS, ROWS);
}

static void assert_sent(struct ggml_backend_hsa_stats before, uint64_t kernels, uint64_t packets) {
    struct ggml_backend_hsa_stats now = stats();
    assert_int_equal(now.dispatches - before.dispatches, kernels);
    if (!getenv("GGML_HSA_PROFILE")) { // which wants each by itself
        assert_int_equal(now.packets - before.packets, packets);
    } else {
        assert_int_equal(now.packets - before.packets, kernels);
    }
}

// ((a + b) * a) - b, the same kernels at other places and with other numbers.
static void one_after_the_other(void ** state) {
    (void) state;
    for (int place = 0; place < 3; place++) {
        struct world w = world_new();
        for (int i = 0; i < place; i++) { // moves the rest
            matrix(&w);
        }
        struct ggml_tensor *a = matrix(&w), *b = matrix(&w), *sum = ggml_add(w.ctx, a, b);
        struct ggml_tensor *product = ggml_mul(w.ctx, sum, a), *out = ggml_sub(w.ctx, product, b);
        world_alloc(&w, out);
        for (uint32_t round = 0; round < 3; round++) {
            fill(a, 5 * round + 1);
            fill(b, 5 * round + 2);
            struct ggml_backend_hsa_stats before = stats();
            world_compute(&w);
            assert_sent(before, 3, 1);
            double *x = values(a), *y = values(b), *z = values(out);
            for (int i = 0; i < COLUMNS * ROWS; i++) {
                double want = (x[i] + y[i]) * x[i] - y[i];
                assert_true(fabs(z[i] - want) <= 1e-4 * (fabs(want) + fabs(y[i])));
            }
            free(x), free(y), free(z);
        }
        world_free(&w);
    }
}

// Sums have another program than those that `decoder` has.
static void another_program(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor *a = matrix(&w), *twice = ggml_add(w.ctx, a, a);
    struct ggml_tensor *four = ggml_add(w.ctx, twice, twice), *sums = ggml_mean(w.ctx, four);
    struct ggml_tensor * out = ggml_add(w.ctx, sums, sums);
    world_alloc(&w, ggml_add(w.ctx, out, out));
    fill(a, 31);
    struct ggml_backend_hsa_stats before = stats();
    world_compute(&w);
    assert_sent(before, 5, 3);
    double *x = values(a), *z = values(out);
    for (int r = 0; r < ROWS; r++) {
        double want = 0, size = 0;
        for (int i = 0; i < COLUMNS; i++) {
            want += 8 * x[r * COLUMNS + i] / COLUMNS;
            size += 8 * fabs(x[r * COLUMNS + i]) / COLUMNS;
        }
        assert_true(fabs(z[r] - want) <= 1e-5 * size);
    }
    free(x), free(z);
    world_free(&w);
}

// More kernels than are joined, each on the result of the one before, as a token has them: the host
// waits once. And a buffer of its own for
// each operand, of which there are more than a packet names.
static void many(void ** state) {
    (void) state;
    struct ggml_init_params params = {.mem_size = ggml_tensor_overhead() * (LONG + 32) +
                                                  ggml_graph_overhead_custom(LONG + 32, false),
                                      .no_alloc = true};
    struct ggml_context * ctx = ggml_init(params);
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, LONG + 32, false);
    struct ggml_tensor *x = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, COLUMNS), *y = x;
    for (int i = 0; i < LONG; i++) {
        y = ggml_scale(ctx, y, i % 2 ? 0.5f : 2.0f);
    }
    ggml_build_forward_expand(graph, y);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, stream);
    assert_non_null(buffer);
    fill(x, 41);
    struct ggml_backend_hsa_stats before = stats();
    assert_int_equal(ggml_backend_graph_compute(stream, graph), GGML_STATUS_SUCCESS);
    assert_sent(before, LONG, 2);
    assert_int_equal(stats().waits - before.waits, 1); // for all of them, at the end
    double *a = values(x), *b = values(y);
    for (int i = 0; i < COLUMNS; i++) {
        assert_true(a[i] == b[i]);
    }
    free(a), free(b);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

static void many_buffers(void ** state) {
    (void) state;
    enum { N = 12 };
    struct ggml_context * parts[N];
    ggml_backend_buffer_t buffers[N];
    struct ggml_tensor * terms[N];
    for (int i = 0; i < N; i++) {
        parts[i] = ggml_init(
            (struct ggml_init_params){.mem_size = 2 * ggml_tensor_overhead(), .no_alloc = true});
        terms[i] = ggml_new_tensor_1d(parts[i], GGML_TYPE_F32, COLUMNS);
        buffers[i] = ggml_backend_alloc_ctx_tensors(parts[i], stream);
        assert_non_null(buffers[i]);
        fill(terms[i], 50 + (uint32_t) i);
    }
    struct world w = world_new();
    struct ggml_tensor * sum = terms[0];
    for (int i = 1; i < N; i++) {
        sum = ggml_add(w.ctx, sum, terms[i]);
    }
    world_alloc(&w, sum);
    struct ggml_backend_hsa_stats before = stats();
    world_compute(&w);
    assert_sent(before, N - 1, 2);
    double * got = values(sum);
    for (int i = 0; i < COLUMNS; i++) {
        float want = 0;
        for (int k = 0; k < N; k++) {
            double * v = values(terms[k]);
            want = k ? want + (float) v[i] : (float) v[i];
            free(v);
        }
        assert_true(fabs(got[i] - (double) want) <= 1e-5);
    }
    free(got);
    world_free(&w);
    for (int i = 0; i < N; i++) {
        ggml_backend_buffer_free(buffers[i]);
        ggml_free(parts[i]);
    }
}

// A norm and the product with its weights are one kernel where the product stands in the norm's
// place, and two where the norm is still there afterwards.
static void norm_and_weights(void ** state) {
    (void) state;
    for (int in_place = 0; in_place < 2; in_place++) {
        for (int64_t rows = 1; rows <= ROWS; rows += ROWS - 1) {
            struct world w = world_new();
            struct ggml_tensor *x = matrix(&w),
                               *weights = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, COLUMNS, rows);
            struct ggml_tensor * norm = ggml_rms_norm(w.ctx, x, 1e-5f);
            struct ggml_tensor * product =
                in_place ? ggml_mul_inplace(w.ctx, norm, weights) : ggml_mul(w.ctx, norm, weights);
            struct ggml_tensor * out = ggml_add(w.ctx, product, x);
            world_alloc(&w, out);
            for (uint32_t round = 0; round < 3; round++) {
                fill(x, 60 + round);
                fill(weights, 70 + round);
                struct ggml_backend_hsa_stats before = stats();
                world_compute(&w);
                bool one = in_place && !getenv("GGML_HSA_PROFILE");
                assert_sent(before, one ? 2 : 3, 1);
                double *a = values(x), *b = values(weights), *n = values(norm), *z = values(out);
                for (int r = 0; r < ROWS; r++) {
                    double squares = 0;
                    for (int i = 0; i < COLUMNS; i++) {
                        squares += a[r * COLUMNS + i] * a[r * COLUMNS + i];
                    }
                    double scale = 1 / sqrt(squares / COLUMNS + 1e-5);
                    for (int i = 0; i < COLUMNS; i++) {
                        double v = a[r * COLUMNS + i] * scale;
                        double p = v * b[rows > 1 ? r * COLUMNS + i : i];
                        assert_true(fabs(n[r * COLUMNS + i] - (in_place ? p : v)) <= 1e-3);
                        assert_true(fabs(z[r * COLUMNS + i] - p - a[r * COLUMNS + i]) <= 1e-3);
                    }
                }
                free(a), free(b), free(n), free(z);
            }
            world_free(&w);
        }
    }
}

// The same node in a graph of its own, on copies of its operands, is the same to the last bit.
static void assert_as_alone(const struct ggml_tensor * node) {
    struct world w = world_new();
    struct ggml_tensor * in[2] = {NULL, NULL};
    for (int i = 0; i < 2 && node->src[i]; i++) {
        struct ggml_context * ctx = i == 0 && node->op == GGML_OP_MUL_MAT ? w.weights : w.ctx;
        in[i] = ggml_new_tensor(ctx, node->src[i]->type, GGML_MAX_DIMS, node->src[i]->ne);
    }
    struct ggml_tensor * out = node->op == GGML_OP_MUL_MAT ? ggml_mul_mat(w.ctx, in[0], in[1])
                               : node->op == GGML_OP_ADD   ? ggml_add(w.ctx, in[0], in[1])
                               : node->op == GGML_OP_MUL   ? ggml_mul(w.ctx, in[0], in[1])
                                                           : ggml_rms_norm(w.ctx, in[0], 1e-5f);
    world_alloc(&w, out);
    size_t n = ggml_nbytes(node);
    char *got = malloc(n), *want = malloc(n);
    for (int i = 0; i < 2 && in[i]; i++) {
        char * bytes = malloc(ggml_nbytes(in[i]));
        ggml_backend_tensor_get(node->src[i], bytes, 0, ggml_nbytes(in[i]));
        ggml_backend_tensor_set(in[i], bytes, 0, ggml_nbytes(in[i]));
        free(bytes);
    }
    world_compute(&w);
    ggml_backend_tensor_get(node, got, 0, n);
    ggml_backend_tensor_get(out, want, 0, n);
    assert_memory_equal(got, want, n);
    free(got), free(want);
    world_free(&w);
}

// Weights are read into memtiles while the kernel before still runs: behind a product of the same
// shape and of another one, behind small kernels, and not where a kernel before writes them.
static void early_weights(void ** state) {
    (void) state;
    static const struct {
        enum ggml_type type;
        int64_t k, m;
    } shapes[] = {{GGML_TYPE_Q4_0, 512, 1024}, {GGML_TYPE_Q4_0, 512, 1024},
                  {GGML_TYPE_Q4_0, 1024, 256}, {GGML_TYPE_Q8_0, 1024, 256},
                  {GGML_TYPE_Q4_K, 256, 128},  {GGML_TYPE_F32, 256, 64}};
    enum { N = sizeof shapes / sizeof shapes[0], SUMMED = N - 1 };
    struct world w = world_new();
    struct ggml_tensor *a[N], *x = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, shapes[0].k);
    for (int i = 0; i < N; i++) {
        a[i] = ggml_new_tensor_2d(i == SUMMED ? w.ctx : w.weights, shapes[i].type, shapes[i].k,
                                  shapes[i].m);
    }
    struct ggml_tensor *y0 = ggml_mul_mat(w.ctx, a[0], x), *y1 = ggml_mul_mat(w.ctx, a[1], x);
    struct ggml_tensor * norm = ggml_rms_norm(w.ctx, ggml_mul(w.ctx, y0, y1), 1e-5f);
    struct ggml_tensor *y2 = ggml_mul_mat(w.ctx, a[2], norm), *y3 = ggml_mul_mat(w.ctx, a[3], norm);
    struct ggml_tensor * sum = ggml_add(w.ctx, y2, y3);
    struct ggml_tensor *y4 = ggml_mul_mat(w.ctx, a[4], sum), *twice = ggml_add(w.ctx, a[5], a[5]);
    ggml_build_forward_expand(w.graph, y4);
    world_alloc(&w, ggml_mul_mat(w.ctx, twice, sum));
    for (uint32_t round = 0; round < 2; round++) {
        fill(x, 80 + round);
        for (int i = 0; i < N; i++) {
            fill(a[i], 90 + 10 * round + (uint32_t) i);
        }
        world_compute(&w);
        for (int i = 0; i < ggml_graph_n_nodes(w.graph); i++) {
            assert_as_alone(ggml_graph_node(w.graph, i));
        }
    }
    world_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_after_the_other),
        cmocka_unit_test(another_program),
        cmocka_unit_test(many),
        cmocka_unit_test(many_buffers),
        cmocka_unit_test(norm_and_weights),
        cmocka_unit_test(early_weights),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
