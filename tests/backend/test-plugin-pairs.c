// test-plugin-pairs: two products of one tensor go out as one kernel where nobody can tell, and
// come to what they are one by one: of each type that is read as it lies, by one row and by
// several, in panels and not, in every order of their memory; and where somebody could tell, or
// nothing is gained, they go one by one.
#include "mat-world.h"

struct layer { // a tensor, and products of it; each is read by a node behind it
    struct world w;
    struct ggml_tensor *x, *products[3], *behind[3];
    int n;
};

struct want {
    enum ggml_type type;
    int64_t k, rows, m[3];
    bool precise[3];
    uint64_t kernels; // of the products
    int64_t before;   // numbers of another tensor before all of them
};

static struct layer layer_new(const struct want * s) {
    struct layer l = {.w = world_new()};
    if (s->before) {
        ggml_new_tensor_1d(l.w.ctx, GGML_TYPE_F32, s->before);
        ggml_new_tensor_1d(l.w.weights, GGML_TYPE_F32, s->before);
    }
    l.x = ggml_new_tensor_2d(l.w.ctx, GGML_TYPE_F32, s->k, s->rows);
    struct ggml_tensor * all = NULL;
    for (; l.n < 3 && s->m[l.n]; l.n++) {
        struct ggml_tensor * a = ggml_new_tensor_2d(l.w.weights, s->type, s->k, s->m[l.n]);
        struct ggml_tensor * product = ggml_mul_mat(l.w.ctx, a, l.x);
        if (s->precise[l.n]) {
            ggml_prec_set_acc(product, GGML_PREC_F32);
        }
        l.products[l.n] = product;
        all = l.behind[l.n] = ggml_scale(l.w.ctx, product, 2);
        if (l.n < 2 && s->m[l.n + 1]) {
            ggml_build_forward_expand(l.w.graph, all);
        }
    }
    world_alloc(&l.w, all);
    return l;
}

// Computes it with other numbers; how many kernels the products were.
static uint64_t layer_check(struct layer * l, uint32_t seed) {
    fill(l->x, seed);
    for (int i = 0; i < l->n; i++) {
        fill(l->products[i]->src[0], seed + 1 + (uint32_t) i);
        ggml_backend_tensor_memset(l->products[i], 0x7f, 0, ggml_nbytes(l->products[i]));
    }
    struct ggml_backend_hsa_stats before = stats();
    world_compute(&l->w);
    struct ggml_backend_hsa_stats after = stats();
    for (int i = 0; i < l->n; i++) {
        check_product(l->products[i], TOLERANCE_BF16);
        double *one = values(l->products[i]), *two = values(l->behind[i]);
        for (int64_t k = 0; k < ggml_nelements(l->behind[i]); k++) {
            assert_true(two[k] == 2 * one[k]);
        }
        free(one), free(two);
    }
    return after.dispatches - before.dispatches - (uint64_t) l->n;
}

static void as_one(void ** state) {
    (void) state;
    static const struct want cases[] = {
        {GGML_TYPE_Q4_0, 256, 1, {128, 128}, .kernels = 1},
        {GGML_TYPE_Q4_0, 512, 4, {1024, 1024}, .kernels = 1},
        {GGML_TYPE_Q8_0, 256, 2, {96, 96}, .kernels = 1},
        {GGML_TYPE_Q6_K, 512, 1, {192, 192}, .kernels = 1},
        {GGML_TYPE_BF16, 128, 1, {40, 40}, .kernels = 1},
        // Queries, and of keys and values one.
        {GGML_TYPE_Q4_0, 256, 1, {512, 128, 128}, .kernels = 2},
        // Three that are alike: a pair, and one.
        {GGML_TYPE_Q4_K, 256, 1, {128, 128, 128}, .kernels = 2},
        // Not alike; kept as bf16, each for itself; rows for which there are other kernels.
        {GGML_TYPE_Q4_0, 256, 1, {128, 64}, .kernels = 2},
        {GGML_TYPE_F16, 64, 3, {24, 24}, .kernels = 2},
        {GGML_TYPE_F16, 64, 3, {24, 24}, .precise = {false, true}, .kernels = 3},
        {GGML_TYPE_BF16, 64, 20, {32, 32}, .kernels = 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct layer l = layer_new(&cases[i]);
        for (uint32_t round = 0; round < 3; round++) { // planned, and sent again
            uint64_t kernels = layer_check(&l, 7 * round + 1);
            if (round && kernels != cases[i].kernels) {
                fail_msg("case %d: %llu kernels, not %llu", (int) i, (unsigned long long) kernels,
                         (unsigned long long) cases[i].kernels);
            }
        }
        world_free(&l.w);
    }
}

// Weights, operand and results at places of their own each time: what is kept of a pair is aimed
// anew.
static void at_other_places(void ** state) {
    (void) state;
    for (int place = 0; place < 3; place++) {
        struct want one = {
            .type = GGML_TYPE_Q4_0, .k = 256, .rows = 1, .m = {128, 128}, .before = 64 * place};
        struct layer there = layer_new(&one);
        assert_int_equal(layer_check(&there, 90 + (uint32_t) place), 1);
        // The second one lies before the first one.
        void * data = there.products[0]->data;
        there.products[0]->data = there.products[1]->data;
        there.products[1]->data = data;
        assert_int_equal(layer_check(&there, 95 + (uint32_t) place), 1);
        world_free(&there.w);
    }
}

static void check_doubled(struct layer * l, const double * x, const char * what) {
    for (int i = 0; i < l->n; i++) {
        const struct ggml_tensor * of = l->products[i]->src[0];
        double *a = values(of), *got = values(l->behind[i]);
        for (int64_t m = 0; m < of->ne[1]; m++) {
            struct sum want = dot(a, m, of->ne[1], x, 0, 1, of->ne[0], false);
            want.value *= 2;
            want.size *= 2;
            assert_close(got[m], want, TOLERANCE_BF16, what, m);
        }
        free(a), free(got);
    }
}

// The second product is written over what the first one reads, or over the first one's result,
// which is read between: each is what it should be, and they go one by one.
static void memory_decides(void ** state) {
    (void) state;
    static const struct want one = {
        .type = GGML_TYPE_Q4_0, .k = 256, .rows = 1, .m = {128, 128}, .kernels = 2};
    struct layer l = layer_new(&one);
    for (int i = 0; i < 2; i++) {
        fill(l.products[i]->src[0], 2 + (uint32_t) i);
    }
    void * const over[] = {l.x->data, l.products[0]->data};
    for (int i = 0; i < 2; i++) {
        l.products[1]->data = over[i];
        fill(l.x, 5 + (uint32_t) i);
        double * x = values(l.x);
        struct ggml_backend_hsa_stats before = stats();
        world_compute(&l.w);
        check_doubled(&l, x, i ? "over the result" : "over the operand");
        assert_int_equal(stats().dispatches - before.dispatches, 4);
        free(x);
    }
    world_free(&l.w);
}

// Weights of bf16 that begin in the middle of a word, where no descriptor can: those of neither
// product, of the second one, of the first one, and of both. A pair that was refused is not looked
// at again, so the order matters.
static void within_a_word(void ** state) {
    (void) state;
    enum { K = 128, M = 40 };
    static const size_t turns[] = {0, 2, 1, 3};
    for (size_t turn = 0; turn < 4; turn++) {
        struct world w = world_new();
        struct ggml_tensor * x = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, K);
        struct ggml_tensor *all[2], *products[2], *sum;
        for (size_t i = 0; i < 2; i++) {
            size_t from = (turns[turn] >> i & 1) * sizeof(ggml_bf16_t);
            all[i] = ggml_new_tensor_1d(w.weights, GGML_TYPE_BF16, K * M + 2);
            products[i] = ggml_mul_mat(
                w.ctx, ggml_view_2d(w.ctx, all[i], K, M, K * sizeof(ggml_bf16_t), from), x);
        }
        sum = ggml_add(w.ctx, products[0], products[1]);
        world_alloc(&w, sum);
        for (uint32_t round = 0; round < 2; round++) {
            fill(x, 30 + round);
            fill(all[0], 40 + round);
            fill(all[1], 50 + round);
            struct ggml_backend_hsa_stats before = stats();
            world_compute(&w);
            check_product(products[0], TOLERANCE_BF16);
            check_product(products[1], TOLERANCE_BF16);
            if (turn == 0) {
                assert_int_equal(stats().dispatches - before.dispatches, 2); // the pair, the sum
            }
        }
        world_free(&w);
    }
}

// A pair whose operand the kernel before it writes, and whose results the next one reads, many
// times in one dispatch: none of them begins too early.
static void in_a_chain(void ** state) {
    (void) state;
    enum { LAYERS = 6, N = 128 };
    struct world w = world_new();
    struct ggml_tensor *x = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, N), *y = x;
    struct ggml_tensor *gates[LAYERS], *ups[LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        gates[i] = ggml_mul_mat(w.ctx, ggml_new_tensor_2d(w.weights, GGML_TYPE_Q4_0, N, N), y);
        ups[i] = ggml_mul_mat(w.ctx, ggml_new_tensor_2d(w.weights, GGML_TYPE_Q4_0, N, N), y);
        y = ggml_scale(w.ctx, ggml_add(w.ctx, gates[i], ups[i]), 0.2f);
    }
    world_alloc(&w, y);
    for (uint32_t round = 0; round < 2; round++) {
        fill(x, 60 + round);
        for (int i = 0; i < LAYERS; i++) {
            fill(gates[i]->src[0], 100 * round + 2 * (uint32_t) i);
            fill(ups[i]->src[0], 100 * round + 2 * (uint32_t) i + 1);
        }
        struct ggml_backend_hsa_stats before = stats();
        world_compute(&w);
        struct ggml_backend_hsa_stats after = stats();
        assert_int_equal(after.dispatches - before.dispatches, 3 * LAYERS);
        assert_int_equal(after.packets - before.packets, 1);
        for (int i = 0; i < LAYERS; i++) {
            check_product(gates[i], TOLERANCE_BF16);
            check_product(ups[i], TOLERANCE_BF16);
        }
    }
    world_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_one),         cmocka_unit_test(at_other_places),
        cmocka_unit_test(memory_decides), cmocka_unit_test(within_a_word),
        cmocka_unit_test(in_a_chain),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
