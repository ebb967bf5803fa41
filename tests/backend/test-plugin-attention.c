// test-plugin-attention: keys that no query sees are left out, through ggml's public interface: of
// a prompt fewer words come to the array than where almost all is seen. The results against double
// precision, with numbers in the hidden keys and values that would spoil them; the same graph again
// with another mask, which it must not take for the old one; and with a mask that a kernel of the
// same graph makes.
#include "mat-world.h"

enum { MOST_DIM = 128, HEADS = 4, GROUPS = 2, QUERIES = 200, KEYS = 514 };
static int dim; // of a head: of 64 and 128 products may be the multiplier's in matrix mode

#define SCALE 0.8f // for numbers up to 1

// ---- masks ----

// Keys [from, to) that a query sees.
struct window {
    int64_t from, to;
};

// Each sees those before it, of a prompt that begins here or further on.
static struct window prompt(int64_t q) {
    return (struct window){0, q + 1};
}

static struct window later(int64_t q) {
    return (struct window){0, KEYS - QUERIES + q + 1};
}

// The last 60 only.
static struct window sliding(int64_t q) {
    int64_t to = KEYS - QUERIES + q + 1;
    return (struct window){to - 60, to};
}

// The first 128 queries see nothing at all, and the others the last keys.
static struct window none(int64_t q) {
    return q < 128 ? (struct window){0, 0} : (struct window){KEYS - 3, KEYS};
}

static struct window (*const masks[])(int64_t q) = {prompt, later, sliding, none};
enum { MASKS = sizeof masks / sizeof masks[0] };

// ---- the graph ----

struct attention {
    struct world w;
    struct ggml_tensor *q, *k, *v, *mask, *out;
};

// cast: the mask is given in f32 and made f16 by the graph.
static struct attention begin(bool cast) {
    struct attention a = {.w = world_new()};
    struct ggml_context * ctx = a.w.ctx;
    a.q = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, dim, QUERIES, HEADS);
    a.k = ggml_new_tensor_3d(ctx, GGML_TYPE_F16, dim, KEYS, GROUPS);
    a.v = ggml_new_tensor_3d(ctx, GGML_TYPE_F16, dim, KEYS, GROUPS);
    a.mask = ggml_new_tensor_2d(ctx, cast ? GGML_TYPE_F32 : GGML_TYPE_F16, KEYS, QUERIES);
    struct ggml_tensor * mask = cast ? ggml_cast(ctx, a.mask, GGML_TYPE_F16) : a.mask;
    a.out = ggml_flash_attn_ext(ctx, a.q, a.k, a.v, mask, SCALE, 0, 0);
    world_alloc(&a.w, a.out);
    return a;
}

// Keys or values from this one on are not to be looked at.
static void spoil(struct ggml_tensor * t, int64_t from) {
    ggml_fp16_t bad[MOST_DIM];
    for (int i = 0; i < dim; i++) {
        bad[i] = ggml_fp32_to_fp16(NAN);
    }
    for (int64_t g = 0; g < GROUPS; g++) {
        for (int64_t key = from; key < KEYS; key++) {
            size_t bytes = (size_t) dim * sizeof *bad;
            ggml_backend_tensor_set(t, bad, (size_t) (g * KEYS + key) * bytes, bytes);
        }
    }
}

static void fill_mask(struct ggml_tensor * t, struct window (*see)(int64_t q)) {
    void * data = malloc(ggml_nbytes(t));
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        struct window w = see(i / KEYS);
        float x = i % KEYS >= w.from && i % KEYS < w.to ? 0 : -INFINITY;
        if (t->type == GGML_TYPE_F32) {
            ((float *) data)[i] = x;
        } else {
            ((ggml_fp16_t *) data)[i] = ggml_fp32_to_fp16(x);
        }
    }
    ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
    free(data);
}

// ---- the reference ----

static void attend(const double * q, const double * k, const double * v, struct window w,
                   double * out) {
    double sum = 0;
    memset(out, 0, sizeof *out * (size_t) dim);
    for (int64_t key = w.from; key < w.to; key++) {
        double dot = 0;
        for (int i = 0; i < dim; i++) {
            dot += q[i] * k[key * dim + i];
        }
        double p = exp(SCALE * dot);
        sum += p;
        for (int i = 0; i < dim; i++) {
            out[i] += p * v[key * dim + i];
        }
    }
    for (int i = 0; i < dim && sum > 0; i++) {
        out[i] /= sum;
    }
}

static void check(const struct attention * a, struct window (*see)(int64_t q)) {
    double *qs = values(a->q), *ks = values(a->k), *vs = values(a->v), *got = values(a->out);
    double error = 0, all = 0;
    for (int64_t q = 0; q < QUERIES; q++) {
        for (int64_t h = 0; h < HEADS; h++) {
            int64_t group = h / (HEADS / GROUPS) * KEYS * dim;
            double want[MOST_DIM];
            attend(qs + (h * QUERIES + q) * dim, ks + group, vs + group, see(q), want);
            for (int i = 0; i < dim; i++) {
                double d = got[(q * HEADS + h) * dim + i] - want[i];
                error += d * d;
                all += want[i] * want[i];
            }
        }
    }
    free(qs);
    free(ks);
    free(vs);
    free(got);
    print_message("NMSE %.3g\n", error / all);
    assert_true(error <= 5e-4 * all); // not so if any of it is not a number
}

// ---- tests ----

static void check_heads_of(int size, int casts, uint32_t rounds) {
    dim = size;
    for (int cast = 0; cast < casts; cast++) {
        struct attention a = begin(cast);
        uint64_t came[MASKS];
        for (uint32_t round = 0; round < rounds; round++) {
            struct window (*see)(int64_t q) = masks[round % MASKS];
            fill(a.q, 3 * round);
            fill(a.k, 3 * round + 1);
            fill(a.v, 3 * round + 2);
            if (see == prompt) { // 200 queries of one see two blocks of 128 keys
                spoil(a.k, 256);
                spoil(a.v, 256);
            }
            fill_mask(a.mask, see);
            struct ggml_backend_hsa_stats before = stats();
            uint64_t from = counters().stream_words;
            world_compute(&a.w);
            came[round % MASKS] = counters().stream_words - from;
            assert_int_equal(stats().cpu_nodes, before.cpu_nodes);
            check(&a, see);
        }
        // all but the second of these masks leave out more than it does
        for (int m = 0; m < MASKS; m++) {
            assert_true(m == 1 || came[m] < came[1]);
        }
        world_free(&a.w);
    }
}

static void keys_that_nobody_sees(void ** state) {
    (void) state;
    check_heads_of(32, 2, 2 * MASKS);
    check_heads_of(64, 1, MASKS);
    check_heads_of(128, 1, MASKS);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys_that_nobody_sees)};
    return cmocka_run_group_tests(tests, load, unload);
}
