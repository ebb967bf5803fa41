// test-plugin-weigh: what is behind a mixture's experts, their results times how much each counts
// and added up one after the other, is one kernel where nobody can tell: of any number of experts,
// rows of several lengths, one to four tokens. The sums are those of a MUL and ADDs in f32. Where a
// product or a sum in between is read elsewhere, stays readable, or is another row's, and where the
// result lies on what is read, nodes go one by one, and come to the same.
#include "mat-world.h"

enum kind {
    PLAIN,
    KEPT,       // nothing takes the products' memory behind them
    READ,       // a node behind the sums reads the products
    READ_SUM,   // another one the first sum, which has memory of its own
    OTHER_ROW,  // a row is added twice, and another one not
    SWAPPED,    // two rows change places, which rounds otherwise
    ON_WEIGHTS, // the result lies where the weights do
    KINDS,
};

struct want {
    int64_t m, n, tokens;
    enum kind kind;
    uint64_t kernels; // of the products and sums
};

struct mixture {
    struct world w;
    struct ggml_tensor *x, *weights, *products, *sum, *twice, *other, *eraser, *reader;
    int rows[16]; // in the order in which they are added
    int64_t n;
};

static struct ggml_tensor * row(struct mixture * e, int i) {
    struct ggml_tensor * p = e->products;
    return ggml_view_2d(e->w.ctx, p, p->ne[0], p->ne[2], p->nb[2], (size_t) i * p->nb[1]);
}

static void set_order(struct mixture * e, enum kind kind) {
    for (int i = 0; i < e->n; i++) {
        e->rows[i] = i;
    }
    if (kind == OTHER_ROW) {
        e->rows[e->n - 1] = 0;
    } else if (kind == SWAPPED) {
        e->rows[0] = 1;
        e->rows[1] = 0;
    }
}

// Tensors have memory of their own each, but where ggml's allocator would have them share it: sums
// are made in place, and a node behind them all takes the memory of the products.
static struct mixture mixture_new(const struct want * s) {
    struct mixture e = {.w = world_new(), .n = s->n};
    struct ggml_context * ctx = e.w.ctx;
    e.x = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, s->m, s->n, s->tokens);
    e.weights = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 1, s->n, s->tokens);
    e.other = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, s->m, s->n, s->tokens);
    e.products = ggml_mul(ctx, e.x, e.weights);
    set_order(&e, s->kind);
    struct ggml_tensor *sums[16] = {NULL}, *one = row(&e, e.rows[0]);
    ggml_build_forward_expand(e.w.graph, e.products);
    for (int i = 1; i < s->n; i++) {
        one = sums[i] = ggml_add(ctx, one, row(&e, e.rows[i]));
    }
    e.sum = one;
    struct ggml_tensor * last = e.twice = ggml_scale(ctx, e.sum, 2);
    if (s->kind == READ || s->kind == READ_SUM) {
        ggml_build_forward_expand(e.w.graph, last);
        last = e.reader = ggml_scale(ctx, s->kind == READ ? e.products : sums[1], 4);
    }
    if (s->kind != KEPT) {
        ggml_build_forward_expand(e.w.graph, last);
        last = e.eraser = ggml_scale(ctx, e.other, 1);
    }
    world_alloc(&e.w, last);
    for (int i = 1; i < s->n - 1 && s->kind != READ_SUM; i++) {
        sums[i]->data = e.sum->data;
    }
    if (e.eraser) {
        e.eraser->data = e.products->data;
    }
    for (int i = 1; s->kind == ON_WEIGHTS && i < s->n; i++) {
        sums[i]->data = e.other->data; // read last
    }
    if (s->kind == ON_WEIGHTS) {
        e.weights->data = (char *) e.other->data + 4 * (s->m - s->n);
    }
    return e;
}

static void check(const struct mixture * e, const float * x, const float * weights) {
    int64_t m = e->x->ne[0], n = e->n, all = m * e->x->ne[2];
    float * got = malloc((size_t) all * sizeof *got);
    ggml_backend_tensor_get(e->twice, got, 0, ggml_nbytes(e->twice));
    for (int64_t i = 0; i < all; i++) {
        float want = 0;
        double size = 0;
        for (int64_t r = 0; r < n; r++) {
            int64_t at = i / m * n + e->rows[r];
            float product = x[at * m + i % m] * weights[at];
            want = r ? want + product : product;
            size += fabs((double) product);
        }
        if (!(fabs((double) got[i] / 2 - (double) want) <= size * 0x1p-21)) {
            fail_msg("%d x %d: sum %d is %.9g, not %.9g", (int) m, (int) n, (int) i,
                     (double) got[i] / 2, (double) want);
        }
    }
    free(got);
}

static float * numbers(const struct ggml_tensor * t) {
    float * all = malloc(ggml_nbytes(t));
    ggml_backend_tensor_get(t, all, 0, ggml_nbytes(t));
    return all;
}

static uint64_t mixture_check(struct mixture * e, uint32_t seed) {
    fill(e->x, seed);
    fill(e->other, seed + 2);
    fill(e->weights, seed + 1);
    float *x = numbers(e->x), *weights = numbers(e->weights), *reader = NULL;
    struct ggml_backend_hsa_stats before = stats();
    world_compute(&e->w);
    struct ggml_backend_hsa_stats after = stats();
    check(e, x, weights);
    if (e->reader && e->reader->src[0] == e->products) { // four times the products
        reader = numbers(e->reader);
        for (int64_t i = 0; i < ggml_nelements(e->reader); i++) {
            float want = 4 * x[i] * weights[i / e->x->ne[0]];
            assert_true(fabsf(reader[i] - want) <= fabsf(want) * 0x1p-20f);
        }
    }
    free(x), free(weights), free(reader);
    // Of those behind them each scale is a kernel.
    return after.dispatches - before.dispatches - 1 - (e->eraser != NULL) - (e->reader != NULL);
}

static void as_one_where_nobody_can_tell(void ** state) {
    (void) state;
    static const struct want cases[] = {
        {2048, 8, 1, PLAIN, 1},
        {2880, 4, 1, PLAIN, 1},
        {128, 2, 1, PLAIN, 1},
        {192, 10, 1, PLAIN, 1},
        {256, 4, 2, PLAIN, 1},
        {128, 8, 4, PLAIN, 1},
        {320, 3, 3, PLAIN, 1},
        // One expert has nothing to be added to; odd rows have no such kernel.
        {128, 1, 1, PLAIN, 1},
        {100, 4, 1, PLAIN, 4},
        {67, 2, 2, PLAIN, 2},
        {128, 4, 1, KEPT, 4},
        {128, 4, 1, READ, 4},
        {128, 4, 1, READ_SUM, 4},
        {128, 4, 1, OTHER_ROW, 4},
        {128, 4, 1, SWAPPED, 4},
        {128, 4, 1, ON_WEIGHTS, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mixture e = mixture_new(&cases[i]);
        for (uint32_t round = 0; round < 3; round++) { // planned, and sent again
            uint64_t kernels = mixture_check(&e, 7 * round + 1);
            if (kernels != cases[i].kernels) {
                fail_msg("case %d: %llu kernels, not %llu", (int) i, (unsigned long long) kernels,
                         (unsigned long long) cases[i].kernels);
            }
        }
        world_free(&e.w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_one_where_nobody_can_tell)};
    return cmocka_run_group_tests(tests, load, unload);
}
