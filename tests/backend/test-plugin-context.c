// test-plugin-context: attention of more keys than one kernel takes, through ggml's public
// interface, against double precision: by parts of the keys, with sinks, which count once, rows of
// which a part sees nothing and rows that see nothing at all. The device takes all of it: nothing
// is left to the CPU. One shape by hand: HEAD,HEADS,HEADS OF KEYS,QUERIES,KEYS.
#include "mat-world.h"

#define SCALE 0.1f

struct shape {
    int64_t dim, heads, groups, queries, keys;
    bool sinks;
    int dispatches; // at least; 0: any number
};

struct attention {
    struct world w;
    struct ggml_tensor *q, *k, *v, *mask, *sinks, *out;
};

static struct attention begin(const struct shape * s) {
    struct attention a = {.w = world_new()};
    struct ggml_context * ctx = a.w.ctx;
    a.q = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, s->dim, s->queries, s->heads);
    a.k = ggml_new_tensor_3d(ctx, GGML_TYPE_F16, s->dim, s->keys, s->groups);
    a.v = ggml_new_tensor_3d(ctx, GGML_TYPE_F16, s->dim, s->keys, s->groups);
    a.mask = ggml_new_tensor_2d(ctx, GGML_TYPE_F16, s->keys, s->queries);
    a.out = ggml_flash_attn_ext(ctx, a.q, a.k, a.v, a.mask, SCALE, 0, 0);
    if (s->sinks) {
        a.sinks = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, s->heads);
        ggml_flash_attn_ext_add_sinks(a.out, a.sinks);
    }
    world_alloc(&a.w, a.out);
    return a;
}

// Query 0 sees all keys but some, the next ones see the last thirds of them; of four, one sees
// nothing.
static bool sees(const struct shape * s, int64_t query, int64_t key) {
    return query % 4 == 3 ? false : query ? key >= s->keys * 2 / 3 : key % 5 != 2;
}

static void fill_mask(const struct shape * s, struct ggml_tensor * t) {
    ggml_fp16_t * data = malloc(ggml_nbytes(t));
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        data[i] = ggml_fp32_to_fp16(sees(s, i / s->keys, i % s->keys) ? 0 : -INFINITY);
    }
    ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
    free(data);
}

// A row: the squares of errors and of what it should be.
static void check_row(const struct shape * s, const double * q, const double * k, const double * v,
                      int64_t query, double sink, const double * got, double squares[2]) {
    double *want = calloc((size_t) s->dim, sizeof *want), sum = exp(sink);
    for (int64_t key = 0; key < s->keys; key++) {
        if (!sees(s, query, key)) {
            continue;
        }
        double dot = 0;
        for (int64_t i = 0; i < s->dim; i++) {
            dot += q[i] * k[key * s->dim + i];
        }
        double p = exp((double) SCALE * dot);
        sum += p;
        for (int64_t i = 0; i < s->dim; i++) {
            want[i] += p * v[key * s->dim + i];
        }
    }
    for (int64_t i = 0; i < s->dim; i++) {
        double x = sum > 0 ? want[i] / sum : 0;
        squares[0] += (got[i] - x) * (got[i] - x);
        squares[1] += x * x;
        assert_true(sum > 0 || got[i] == 0);
    }
    free(want);
}

static void check_shape(const struct shape * s) {
    struct attention a = begin(s);
    fill(a.q, 1);
    fill(a.k, 2);
    fill(a.v, 3);
    fill_mask(s, a.mask);
    if (s->sinks) {
        fill(a.sinks, 4);
    }
    struct ggml_backend_hsa_stats before = stats();
    world_compute(&a.w);
    struct ggml_backend_hsa_stats after = stats();
    assert_int_equal(after.cpu_nodes, before.cpu_nodes);
    assert_true(after.dispatches - before.dispatches >= (uint64_t) s->dispatches);

    double *q = values(a.q), *k = values(a.k), *v = values(a.v), *got = values(a.out);
    double *sinks = s->sinks ? values(a.sinks) : NULL, squares[2] = {0, 0};
    for (int64_t row = 0; row < s->heads * s->queries; row++) {
        int64_t head = row % s->heads, query = row / s->heads;
        int64_t shared = head / (s->heads / s->groups) * s->keys * s->dim;
        check_row(s, q + (head * s->queries + query) * s->dim, k + shared, v + shared, query,
                  sinks ? sinks[head] : -INFINITY, got + row * s->dim, squares);
    }
    print_message("%lld/%lld heads of %lld, %lld queries, %lld keys: NMSE %.3g, %llu kernels\n",
                  (long long) s->heads, (long long) s->groups, (long long) s->dim,
                  (long long) s->queries, (long long) s->keys, squares[0] / squares[1],
                  (unsigned long long) (after.dispatches - before.dispatches));
    assert_true(squares[0] <= 5e-4 * squares[1]); // not so if any of it is not a number
    free(q);
    free(k);
    free(v);
    free(got);
    free(sinks);
    world_free(&a.w);
}

// Blocks of heads of 512 have 16 keys, and a kernel has 516 of them at most.
static void keys_by_parts(void ** state) {
    (void) state;
    check_shape(&(struct shape){512, 2, 1, 4, 8402, true, 2});
}

static struct shape by_hand;

static void one_shape(void ** state) {
    (void) state;
    check_shape(&by_hand);
}

static bool read_shape(const char * text) {
    int64_t * const to[] = {&by_hand.dim, &by_hand.heads, &by_hand.groups, &by_hand.queries,
                            &by_hand.keys};
    for (size_t i = 0; i < sizeof to / sizeof to[0]; i++) {
        char * end;
        *to[i] = strtoll(text, &end, 10);
        if (*to[i] < 1 || *end != (i + 1 < sizeof to / sizeof to[0] ? ',' : '\0')) {
            return false;
        }
        text = end + 1;
    }
    return by_hand.heads % by_hand.groups == 0;
}

int main(int argc, char ** argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys_by_parts)};
    const struct CMUnitTest one[] = {cmocka_unit_test(one_shape)};
    if (argc > 1 && !read_shape(argv[1])) {
        fprintf(stderr, "%s: a shape is HEAD,HEADS,HEADS OF KEYS,QUERIES,KEYS\n", argv[0]);
        return 2;
    }
    return argc > 1 ? cmocka_run_group_tests(one, load, unload)
                    : cmocka_run_group_tests(tests, load, unload);
}
