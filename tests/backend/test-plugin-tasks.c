// test-plugin-tasks: what stands between products of many rows of a layer, through ggml's public
// interface: RMS_NORM with its weights, SWIGLU and ADD run where the products do, so that one PDI
// is loaded for all of them, and all is right. What is no task (odd rows, a bias that repeats, a
// graph without products before it) is computed as ever.
#include "mat-world.h"

struct layer {
    struct world w;
    struct ggml_tensor *x, *first, *norm, *weights, *gate, *up, *glu, *down, *sum, *last;
};

static struct ggml_tensor * weights_of(struct world * w, int64_t k, int64_t m) {
    return ggml_new_tensor_2d(w->weights, GGML_TYPE_BF16, k, m);
}

// A product, the norm of what it adds to x, and the feed-forward network behind it.
static struct layer layer_new(int64_t embd, int64_t ff, int64_t tokens) {
    struct layer l = {.w = world_new()};
    struct ggml_context * ctx = l.w.ctx;
    l.x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, embd, tokens);
    l.weights = ggml_new_tensor_1d(l.w.weights, GGML_TYPE_F32, embd);
    l.first = ggml_mul_mat(ctx, weights_of(&l.w, embd, embd), l.x);
    l.sum = ggml_add(ctx, l.first, l.x);
    l.norm = ggml_mul_inplace(ctx, ggml_rms_norm(ctx, l.sum, 1e-5f), l.weights);
    l.gate = ggml_mul_mat(ctx, weights_of(&l.w, embd, ff), l.norm);
    l.up = ggml_mul_mat(ctx, weights_of(&l.w, embd, ff), l.norm);
    l.glu = ggml_swiglu_split(ctx, l.gate, l.up);
    l.down = ggml_mul_mat(ctx, weights_of(&l.w, ff, embd), l.glu);
    l.last = ggml_add(ctx, l.down, l.sum);
    world_alloc(&l.w, l.last);
    return l;
}

static void fill_all(struct layer * l, uint32_t seed) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(l->w.weights); t;
         t = ggml_get_next_tensor(l->w.weights, t)) {
        fill(t, seed++);
    }
    fill(l->x, seed);
}

// Each from what the device made of its inputs.
static void check(const struct layer * l) {
    check_product(l->first, 1e-2);
    double *first = values(l->first), *x = values(l->x), *sum = values(l->sum);
    double *norm = values(l->norm), *weights = values(l->weights), *gate = values(l->gate);
    double *up = values(l->up), *glu = values(l->glu), *down = values(l->down);
    double * last = values(l->last);
    const int64_t embd = l->x->ne[0];
    for (int64_t row = 0; row < l->x->ne[1]; row++) {
        double square = 0;
        for (int64_t i = row * embd; i < (row + 1) * embd; i++) {
            assert_true(fabs(sum[i] - first[i] - x[i]) <= 1e-5 * (fabs(first[i]) + fabs(x[i])));
            assert_true(fabs(last[i] - down[i] - sum[i]) <= 1e-5 * (fabs(down[i]) + fabs(sum[i])));
            square += sum[i] * sum[i];
        }
        double scale = 1 / sqrt(square / (double) embd + 1e-5);
        for (int64_t i = 0; i < embd; i++) {
            double want = sum[row * embd + i] * scale * weights[i];
            assert_true(fabs(norm[row * embd + i] - want) <= 1e-3 * fabs(want) + 1e-12);
        }
    }
    for (int64_t i = 0; i < ggml_nelements(l->glu); i++) {
        double want = gate[i] / (1 + exp(-gate[i])) * up[i];
        assert_true(fabs(glu[i] - want) <= 1e-3 * fabs(want) + 1e-12);
    }
    check_product(l->down, 1e-2);
    double * all[] = {first, x, sum, norm, weights, gate, up, glu, down, last};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
}

static void one_pdi(void ** state) {
    (void) state;
    static const struct {
        int64_t embd, ff, tokens;
    } cases[] = {{128, 192, 33}, {320, 640, 18}, {64, 128, 64}, {256, 512, 512}}; // whole tiles
    bool loaded = false;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct layer l = layer_new(cases[i].embd, cases[i].ff, cases[i].tokens);
        for (uint32_t run = 0; run < 2; run++) {
            fill_all(&l, (uint32_t) i * 11 + 3 * run);
            uint64_t before = counters().pdi_loads;
            world_compute(&l.w);
            assert_int_equal(counters().pdi_loads - before, !loaded); // gemm's
            loaded = true;
            check(&l);
        }
        world_free(&l.w);
    }
}

// Rows that are no multiple of what a trip takes: the decoder's, and right as well.
static void odd_rows(void ** state) {
    (void) state;
    struct layer l = layer_new(72, 200, 20);
    fill_all(&l, 5);
    world_compute(&l.w);
    check(&l);
    world_free(&l.w);
}

// Sums that repeat an operand, and the unsplit form of SWIGLU, behind a product.
static void other_forms(void ** state) {
    (void) state;
    enum { K = 64, M = 128, TOKENS = 40 };
    struct world w = world_new();
    struct ggml_tensor * x = ggml_new_tensor_2d(w.ctx, GGML_TYPE_F32, K, TOKENS);
    struct ggml_tensor * a = weights_of(&w, K, M);
    struct ggml_tensor * bias = ggml_new_tensor_1d(w.weights, GGML_TYPE_F32, M);
    struct ggml_tensor * y = ggml_mul_mat(w.ctx, a, x);
    struct ggml_tensor * sum = ggml_add(w.ctx, y, bias);
    struct ggml_tensor * glu = ggml_swiglu(w.ctx, sum);
    world_alloc(&w, glu);
    fill(a, 1);
    fill(bias, 2);
    fill(x, 3);
    world_compute(&w);
    double *from = values(y), *more = values(bias), *all = values(sum), *got = values(glu);
    for (int64_t i = 0; i < M * TOKENS; i++) {
        double want = from[i] + more[i % M];
        assert_true(fabs(all[i] - want) <= 1e-5 * (fabs(from[i]) + fabs(more[i % M])));
    }
    for (int64_t i = 0; i < M / 2 * TOKENS; i++) {
        const double * row = all + i / (M / 2) * M;
        double g = row[i % (M / 2)], want = g / (1 + exp(-g)) * row[M / 2 + i % (M / 2)];
        assert_true(fabs(got[i] - want) <= 1e-3 * fabs(want) + 1e-12);
    }
    double * each[] = {from, more, all, got};
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
        free(each[i]);
    }
    world_free(&w);
}

// ---- between the products and attention ----

enum { DIM = 64, HEADS = 32, KEYS = 8, TOKENS = 512 };

static struct ggml_tensor * heads_of(struct world * w, struct ggml_tensor * x, int64_t heads) {
    struct ggml_tensor * a = weights_of(w, x->ne[0], DIM * heads);
    return ggml_reshape_3d(w->ctx, ggml_mul_mat(w->ctx, a, x), DIM, heads, TOKENS);
}

// Pairs lie next to each other; the position of token i is i.
static void check_turned(const double * x, const double * got, int64_t heads, double tolerance) {
    for (int64_t i = 0; i < DIM * heads * TOKENS; i += 2) {
        double angle = (double) (i / DIM / heads) * pow(10000, -(double) (i % DIM) / DIM);
        double size = fabs(x[i]) + fabs(x[i + 1]);
        double first = x[i] * cos(angle) - x[i + 1] * sin(angle);
        double second = x[i] * sin(angle) + x[i + 1] * cos(angle);
        assert_true(fabs(got[i] - first) <= tolerance * size + 1e-7);
        assert_true(fabs(got[i + 1] - second) <= tolerance * size + 1e-7);
    }
}

static void set_counts(struct ggml_tensor * positions, struct ggml_tensor * rows) {
    int32_t at[TOKENS];
    int64_t row[TOKENS];
    for (int i = 0; i < TOKENS; i++) {
        at[i] = i;
        row[i] = i;
    }
    ggml_backend_tensor_set(positions, at, 0, sizeof at);
    ggml_backend_tensor_set(rows, row, 0, sizeof row);
}

struct turning {
    struct world w;
    struct ggml_tensor *x, *positions, *rows, *cache, *q, *k, *q_turned, *k_turned, *stored;
};

static struct turning turning_new(void) {
    enum { K = 256 };
    struct turning t = {.w = world_new()};
    struct ggml_context * ctx = t.w.ctx;
    t.x = ggml_new_tensor_2d(t.w.weights, GGML_TYPE_F32, K, TOKENS);
    t.positions = ggml_new_tensor_1d(t.w.weights, GGML_TYPE_I32, TOKENS);
    t.rows = ggml_new_tensor_1d(t.w.weights, GGML_TYPE_I64, TOKENS);
    t.cache = ggml_new_tensor_2d(t.w.weights, GGML_TYPE_F16, DIM * KEYS, TOKENS);
    t.q = heads_of(&t.w, t.x, HEADS);
    t.q_turned = ggml_rope(ctx, t.q, t.positions, DIM, GGML_ROPE_TYPE_NORMAL);
    ggml_build_forward_expand(t.w.graph, t.q_turned);
    t.k = heads_of(&t.w, t.x, KEYS);
    t.k_turned = ggml_rope(ctx, t.k, t.positions, DIM, GGML_ROPE_TYPE_NORMAL);
    t.stored =
        ggml_set_rows(ctx, t.cache, ggml_reshape_2d(ctx, t.k_turned, DIM * KEYS, TOKENS), t.rows);
    return t;
}

static void turning_fill(struct turning * t) {
    fill(t->q->src[0]->src[0], 1);
    fill(t->k->src[0]->src[0], 2);
    fill(t->x, 3);
    set_counts(t->positions, t->rows);
}

// By themselves queries are turned on another PDI than keys. In a graph both, and the rows of a
// cache, are on one.
static void turned(void ** state) {
    (void) state;
    struct turning t = turning_new();
    struct world w = t.w;
    struct ggml_tensor *q = t.q, *k = t.k, *q_turned = t.q_turned, *k_turned = t.k_turned;
    struct ggml_tensor * cache = t.cache;
    world_alloc(&w, t.stored);
    turning_fill(&t);
    for (int run = 0; run < 2; run++) {
        uint64_t before = counters().pdi_loads;
        world_compute(&w);
        uint64_t loads = counters().pdi_loads - before; // gemm's, unless it is there, and one more
        assert_true(run ? loads == 2 : loads <= 2);
    }
    double *from = values(q), *keys = values(k), *got = values(q_turned), *rest = values(k_turned);
    double * cached = values(cache);
    check_turned(from, got, HEADS, 1e-4);
    check_turned(keys, rest, KEYS, 1e-4);
    check_turned(keys, cached, KEYS, 1e-3);
    double * each[] = {from, keys, got, rest, cached};
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
        free(each[i]);
    }
    world_free(&w);
}

// As ggml's allocator has it: the product of keys is written where that of queries was, behind what
// turned these. The PDIs are as many, and so are the results.
static void memory_again(void ** state) {
    (void) state;
    struct turning apart = turning_new(), t = turning_new();
    world_alloc(&apart.w, apart.stored);
    turning_fill(&apart);
    world_compute(&apart.w);
    ggml_set_output(t.q_turned);
    ggml_set_output(t.k_turned);
    ggml_build_forward_expand(t.w.graph, t.stored);
    t.w.weights_buffer = ggml_backend_alloc_ctx_tensors(t.w.weights, stream);
    ggml_backend_buffer_set_usage(t.w.weights_buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_gallocr_t rest = ggml_gallocr_new(ggml_backend_get_default_buffer_type(stream));
    assert_true(rest && ggml_gallocr_alloc_graph(rest, t.w.graph));
    const void *was = t.q->data, *later = t.k->data;
    assert_ptr_equal(was, later);
    assert_ptr_not_equal(was, t.q_turned->data);
    turning_fill(&t);
    for (int run = 0; run < 2; run++) {
        uint64_t before = counters().pdi_loads;
        world_compute(&t.w);
        assert_int_equal(counters().pdi_loads - before, 2);
        assert_ptr_equal(t.q->data, was);
        assert_ptr_equal(t.k->data, later);
    }
    const struct ggml_tensor *want[] = {apart.q_turned, apart.k_turned, apart.cache},
                             *got[] = {t.q_turned, t.k_turned, t.cache};
    for (int i = 0; i < 3; i++) {
        double *a = values(want[i]), *b = values(got[i]);
        assert_memory_equal(a, b, (size_t) ggml_nelements(want[i]) * sizeof *a);
        free(a);
        free(b);
    }
    ggml_gallocr_free(rest);
    world_free(&apart.w);
    world_free(&t.w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_pdi), cmocka_unit_test(odd_rows),
                                       cmocka_unit_test(other_forms), cmocka_unit_test(turned),
                                       cmocka_unit_test(memory_again)};
    return cmocka_run_group_tests(tests, load, unload);
}
