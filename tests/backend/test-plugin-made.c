// test-plugin-made: products of q4_0 by many rows, which go by block floats where the chip has them
// (mat-ways.c) unless GGML_HSA_MUL_MAT says `lanes`. They have to be as near to what the numbers
// come to as those of ggml's CPU, which makes b bytes with a scale for 32; and numbers that are not
// finite, of which such floats have none, harm nobody but their own rows.
#include "cpu-world.h"

enum { K = 512, M = 136, N = 48 };

// Where blocks are multiplied: their numbers have seven bits, those of bf16 eight, one of each.
static bool by_blocks(void) {
    const char * asked = getenv("GGML_HSA_MUL_MAT");
    return !strcmp(getenv("GGML_HSA_EMULATE"), "aie2p") && !(asked && !strcmp(asked, "lanes"));
}

static struct ggml_tensor * product(struct world * w) {
    struct ggml_tensor * a = ggml_new_tensor_2d(w->weights, GGML_TYPE_Q4_0, K, M);
    struct ggml_tensor * b = ggml_new_tensor_2d(w->ctx, GGML_TYPE_F32, K, N);
    struct ggml_tensor * out = ggml_mul_mat(w->ctx, a, b);
    world_alloc(w, out);
    return out;
}

// Activations, of which a few are much larger than their neighbours, as those of models are.
static float * activations(uint32_t seed, int every, float factor) {
    float * x = malloc(sizeof(float[N * K]));
    for (int i = 0; i < N * K; i++) {
        float sum = 0;
        for (int j = 0; j < 4; j++) {
            sum += next_value(&seed);
        }
        x[i] = every && i % every == 0 ? factor * sum : sum;
    }
    return x;
}

// On ggml's CPU.
static float * by_cpu(const struct ggml_tensor * out) {
    struct ggml_init_params params = {
        .mem_size = 8 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true};
    struct ggml_context * ctx = ggml_init(params);
    struct ggml_tensor * t[] = {ggml_dup_tensor(ctx, out->src[0]),
                                ggml_dup_tensor(ctx, out->src[1])};
    struct ggml_tensor * to = ggml_mul_mat(ctx, t[0], t[1]);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, to);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, reference);
    for (int i = 0; i < 2; i++) {
        ggml_backend_tensor_copy(out->src[i], t[i]);
    }
    assert_int_equal(ggml_backend_graph_compute(reference, graph), GGML_STATUS_SUCCESS);
    float * got = malloc(ggml_nbytes(to));
    ggml_backend_tensor_get(to, got, 0, ggml_nbytes(to));
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    return got;
}

static float * results(struct world * w, const struct ggml_tensor * out) {
    float * got = malloc(ggml_nbytes(out));
    world_compute(w);
    ggml_backend_tensor_get(out, got, 0, ggml_nbytes(out));
    return got;
}

// The squares of what is missing, as a part of those of the sums.
static double error_of(const struct ggml_tensor * out, const float * got) {
    double *a = values(out->src[0]), *b = values(out->src[1]), off = 0, all = 0;
    for (int i = 0; i < N * M; i++) {
        double want = 0;
        for (int k = 0; k < K; k++) {
            want += a[i % M * K + k] * b[i / M * K + k];
        }
        off += (got[i] - want) * (got[i] - want);
        all += want * want;
    }
    free(a);
    free(b);
    return off / all;
}

static void as_near_as_the_cpu(void ** state) {
    (void) state;
    static const struct {
        int every;
        float factor;
    } cases[] = {{0, 0}, {256, 30}, {100, 100}, {8, 10}};
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world w = world_new();
        struct ggml_tensor * out = product(&w);
        float * b = activations(7 + i, cases[i].every, cases[i].factor);
        fill(out->src[0], 40 + i);
        ggml_backend_tensor_set(out->src[1], b, 0, ggml_nbytes(out->src[1]));
        float *got = results(&w, out), *theirs = by_cpu(out);
        double ours = error_of(out, got), cpus = error_of(out, theirs);
        print_message("one in %d, times %g: %.1e, the CPU %.1e\n", cases[i].every,
                      (double) cases[i].factor, ours, cpus);
        assert_true(ours <= 3 * cpus && ours < 5e-4);
        assert_int_equal(ours > 1e-5, by_blocks());
        free(b);
        free(got);
        free(theirs);
        world_free(&w);
    }
}

// All but rows of b or of a, which nobody takes for numbers, unless the other factor is 0.
static void same_but(const float * got, const float * want, const bool b[N], const bool a[M]) {
    int spoiled = 0, huge = 0;
    for (int i = 0; i < N * M; i++) {
        if (b[i / M] || a[i % M]) {
            spoiled++;
            huge += !(fabsf(got[i]) < 1e3f);
        } else {
            assert_true(got[i] == want[i]);
        }
    }
    print_message("%d of %d are no numbers that count\n", huge, spoiled);
    assert_true(10 * huge > 8 * spoiled);
}

static void not_finite(void ** state) {
    (void) state;
    struct world w = world_new();
    struct ggml_tensor * out = product(&w);
    float * b = activations(3, 0, 0);
    fill(out->src[0], 50);
    ggml_backend_tensor_set(out->src[1], b, 0, ggml_nbytes(out->src[1]));
    float * want = results(&w, out);
    bool rows_b[N] = {[3] = true, [4] = true, [31] = true, [40] = true}, rows_a[M] = {false};
    b[3 * K + 77] = NAN;
    b[4 * K] = -NAN;
    b[31 * K + 300] = INFINITY;
    b[40 * K + 511] = -INFINITY;
    ggml_backend_tensor_set(out->src[1], b, 0, ggml_nbytes(out->src[1]));
    float * got = results(&w, out);
    same_but(got, want, rows_b, rows_a);
    free(got);
    // Scales: the first two bytes of a block of 18.
    static const uint16_t scales[] = {0x7c00, 0xfc00, 0x7e00, 0xfe01};
    for (int i = 0; i < 4; i++) {
        int row = 10 + 33 * i;
        rows_a[row] = true;
        ggml_backend_tensor_set(out->src[0], &scales[i],
                                (size_t) row * out->src[0]->nb[1] + (size_t) i * 3 * 18, 2);
    }
    got = results(&w, out);
    same_but(got, want, rows_b, rows_a);
    free(got);
    free(want);
    free(b);
    world_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_near_as_the_cpu),
        cmocka_unit_test(not_finite),
    };
    return cmocka_run_group_tests(tests, load_both, unload_both);
}
