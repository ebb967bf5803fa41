// test-plugin-small: a router of experts behind a kernel of the decoder's, through ggml's public
// interface: the probabilities of experts, the best of them, and their weights, which add up to 1.
// No PDI is loaded for any of it but the decoder's, and all of it is right; the same nodes in a
// graph of their own are kernels. And rows by an index that lie all over a table are no kernel
// each.
#include "mat-world.h"

enum { EXPERTS = 128, USED = 8 };

struct router {
    struct world w;
    struct ggml_tensor *logits, *probs, *best, *weights;
};

static struct router router_new(int64_t tokens, bool top_k, bool sigmoid) {
    struct router r = {.w = world_new()};
    struct ggml_context * ctx = r.w.ctx;
    r.logits = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, EXPERTS, tokens);
    struct ggml_tensor * scaled = ggml_scale(ctx, r.logits, 3); // the decoder's
    r.probs = sigmoid ? ggml_sigmoid(ctx, scaled) : ggml_soft_max(ctx, scaled);
    r.best = top_k ? ggml_top_k(ctx, r.probs, USED) : ggml_argsort_top_k(ctx, r.probs, USED);
    struct ggml_tensor * rows = ggml_reshape_3d(ctx, r.probs, 1, EXPERTS, tokens);
    struct ggml_tensor * some =
        ggml_reshape_2d(ctx, ggml_get_rows(ctx, rows, r.best), USED, tokens);
    struct ggml_tensor * all = ggml_clamp(ctx, ggml_sum_rows(ctx, some), 6e-5f, INFINITY);
    r.weights = ggml_scale(ctx, ggml_div(ctx, some, all), 2); // and again the decoder's
    world_alloc(&r.w, r.weights);
    return r;
}

static void check(const struct router * r, bool sigmoid) {
    int64_t tokens = r->logits->ne[1];
    double *x = values(r->logits), *best = values(r->best), *got = values(r->weights);
    for (int64_t t = 0; t < tokens; t++) {
        double * row = x + t * EXPERTS;
        bool taken[EXPERTS] = {false};
        double all = 0, least = INFINITY, weights[USED];
        for (int i = 0; i < USED; i++) {
            int64_t e = (int64_t) best[t * USED + i];
            assert_true(e >= 0 && e < EXPERTS && !taken[e]);
            taken[e] = true;
            least = row[e] < least ? row[e] : least;
            weights[i] = sigmoid ? 1 / (1 + exp(-3 * row[e])) : exp(3 * row[e]);
            all += weights[i];
        }
        for (int e = 0; e < EXPERTS; e++) {
            assert_true(taken[e] || row[e] <= least + 1e-4); // kernels are to 1e-4 or so
        }
        for (int i = 0; i < USED; i++) {
            assert_true(fabs(got[t * USED + i] - 2 * weights[i] / all) < 1e-3);
        }
    }
    free(x);
    free(best);
    free(got);
}

// The first experts of each token are its best, so that what is looked up of them is one run.
static void in_order(struct ggml_tensor * logits) {
    for (int64_t i = 0; i < ggml_nelements(logits); i++) {
        float value = -0.01f * (float) (i % EXPERTS);
        ggml_backend_tensor_set(logits, &value, (size_t) i * sizeof value, sizeof value);
    }
}

static void routers(void ** state) {
    (void) state;
    static const struct {
        int64_t tokens;
        bool top_k, sigmoid;
    } cases[] = {{1, false, false}, {1, true, false}, {4, true, true}, {8, false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct router r = router_new(cases[i].tokens, cases[i].top_k, cases[i].sigmoid);
        for (uint32_t run = 0; run < 3; run++) {
            fill(r.logits, (uint32_t) i * 7 + run);
            if (run == 2) {
                in_order(r.logits);
            }
            uint64_t before = counters().pdi_loads, cpu = stats().cpu_nodes, waits = stats().waits;
            world_compute(&r.w);
            assert_int_equal(stats().waits - waits, 2); // for what is chosen from, and at the end
            assert_int_equal(counters().pdi_loads - before, run == 0 && i == 0); // the decoder's
            assert_int_equal(stats().cpu_nodes, cpu);
            check(&r, cases[i].sigmoid);
        }
        world_free(&r.w);
    }
}

static void alone(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * x = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, EXPERTS, 2);
    struct ggml_tensor * best = ggml_argsort(w.ctx, x, GGML_SORT_ORDER_DESC);
    world_alloc(&w, best);
    fill(x, 5);
    uint64_t before = stats().dispatches;
    world_compute(&w);
    assert_true(stats().dispatches > before);
    world_free(&w);
}

// A divisor that repeats along rows is walked again from its beginning.
static void repeated_divisor(void ** state) {
    (void) state;
    enum { WIDTH = 64, ROWS = 2, PERIOD = 4 };
    struct world w = world_new();
    struct ggml_tensor * x = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, WIDTH, ROWS);
    struct ggml_tensor * by = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, PERIOD, 1);
    struct ggml_tensor * twice = ggml_scale(w.ctx, x, 2); // the decoder's
    struct ggml_tensor * y = ggml_div(w.ctx, twice, by);
    world_alloc(&w, y);
    static const float divisors[PERIOD] = {1, 2, 4, 8};
    fill(x, 9);
    ggml_backend_tensor_set(by, divisors, 0, sizeof divisors);
    world_compute(&w);
    double *from = values(x), *got = values(y);
    for (int i = 0; i < WIDTH * ROWS; i++) {
        assert_true(fabs(got[i] - 2 * from[i] / (double) divisors[i % PERIOD]) <= 1e-4);
    }
    free(from);
    free(got);
    world_free(&w);
}

// Rows that lie all over a table: the host brings them together, where that would be a kernel for
// each run of them.
static void scattered(void ** state) {
    (void) state;
    enum { WIDTH = 64, ROWS = 512, SOME = 60 };
    struct world w = world_new();
    struct ggml_tensor * table = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, WIDTH, ROWS);
    struct ggml_tensor * index = ggml_new_tensor_1d(w.ctx, GGML_TYPE_I32, SOME);
    struct ggml_tensor * rows = ggml_get_rows(w.ctx, ggml_scale(w.ctx, table, 2), index);
    world_alloc(&w, ggml_scale(w.ctx, rows, 2));
    int32_t which[SOME];
    for (int i = 0; i < SOME; i++) {
        which[i] = (i * 197 + i * i * 31) % ROWS;
    }
    fill(table, 6);
    ggml_backend_tensor_set(index, which, 0, sizeof which);
    uint64_t before = stats().dispatches;
    world_compute(&w);
    assert_int_equal(stats().dispatches - before, 2);
    double *x = values(table), *got = values(rows);
    for (int i = 0; i < SOME * WIDTH; i++) {
        assert_true(got[i] == 2 * x[which[i / WIDTH] * WIDTH + i % WIDTH]);
    }
    free(x);
    free(got);
    world_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(routers), cmocka_unit_test(alone),
                                       cmocka_unit_test(repeated_divisor),
                                       cmocka_unit_test(scattered)};
    return cmocka_run_group_tests(tests, load, unload);
}
