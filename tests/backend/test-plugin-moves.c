// test-plugin-moves: ROPE and what only moves tensors about, through ggml's public interface: the
// results against double precision, and that neither the host nor a CPU backend had to touch the
// data. A graph runs again with other positions and other rows, which it must not take for the old
// ones; and with positions that a kernel of the same graph computes.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-hsa.h"

static ggml_backend_dev_t dev;
static ggml_backend_t stream;
static ggml_backend_hsa_get_stats_t get_stats;

static int setup(void ** state) {
    (void) state;
    setenv("GGML_HSA_EMULATE", "aie2", 0);
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 0);
    ggml_backend_reg_t reg = ggml_backend_load(PLUGIN);
    dev = reg ? ggml_backend_dev_by_name("HSA0") : NULL;
    stream = dev ? ggml_backend_dev_init(dev, NULL) : NULL;
    void * address =
        reg ? ggml_backend_reg_get_proc_address(reg, "ggml_backend_hsa_get_stats") : NULL;
    memcpy(&get_stats, &address, sizeof get_stats);
    return stream && get_stats ? 0 : -1;
}

static int teardown(void ** state) {
    (void) state;
    ggml_backend_free(stream);
    return 0;
}

// ---- graphs ----

static struct ggml_context * new_context(void) {
    struct ggml_init_params params = {64 * ggml_tensor_overhead() + ggml_graph_overhead(), NULL,
                                      true};
    return ggml_init(params);
}

static void compute(struct ggml_cgraph * graph, uint64_t by_host) {
    struct ggml_backend_hsa_stats before, after;
    assert_true(get_stats(dev, &before));
    assert_int_equal(ggml_backend_graph_compute(stream, graph), GGML_STATUS_SUCCESS);
    assert_true(get_stats(dev, &after));
    assert_int_equal(after.host_copies - before.host_copies, by_host);
    assert_int_equal(after.cpu_nodes, before.cpu_nodes);
}

static float random_float(void) {
    return (float) rand() / (float) RAND_MAX * 4 - 2;
}

static float * fill(struct ggml_tensor * t) {
    float * data = malloc(ggml_nbytes(t));
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        data[i] = random_float();
    }
    ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
    return data;
}

static void * read(const struct ggml_tensor * t) {
    void * data = malloc(ggml_nbytes(t));
    ggml_backend_tensor_get(t, data, 0, ggml_nbytes(t));
    return data;
}

static float half_to_float(const void * data, int64_t i) {
    return ggml_fp16_to_fp32(((const ggml_fp16_t *) data)[i]);
}

// ---- ROPE ----

// Element i of the row x, turned by position p; pairs lie next to each other, or half of n apart.
static double turned(const float * x, int64_t i, int n, bool neox, double p) {
    if (i >= n) {
        return x[i];
    }
    int64_t pair = neox ? i % (n / 2) : i / 2, first = neox ? pair : 2 * pair;
    int64_t second = neox ? pair + n / 2 : first + 1;
    double angle = p * pow(10000.0, -2.0 * (double) pair / n);
    return i == first ? x[first] * cos(angle) - x[second] * sin(angle)
                      : x[first] * sin(angle) + x[second] * cos(angle);
}

enum { DIM = 48, HEADS = 5, TOKENS = 7 };

static void check_rope(const struct ggml_tensor * out, const float * x, const int32_t * positions,
                       int n, bool neox) {
    float * y = read(out);
    for (int64_t t = 0; t < TOKENS; t++) {
        for (int64_t h = 0; h < HEADS; h++) {
            const float * row = x + (t * HEADS + h) * DIM;
            for (int64_t i = 0; i < DIM; i++) {
                double want = turned(row, i, n, neox, positions[t]);
                double got = y[(t * HEADS + h) * DIM + i];
                if (i >= n ? got != want : !(fabs(got - want) < 2e-6)) {
                    fail_msg("token %d, head %d, element %d: %.9g instead of %.9g", (int) t,
                             (int) h, (int) i, got, want);
                }
            }
        }
    }
    free(y);
}

static void rope_again(void ** state) {
    (void) state;
    srand(41);
    static const int dims[] = {DIM, 20};
    for (int k = 0; k < 4; k++) {
        bool neox = k & 1;
        int n = dims[k / 2], mode = neox ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL;
        struct ggml_context * ctx = new_context();
        struct ggml_tensor * x = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, DIM, HEADS, TOKENS);
        struct ggml_tensor * given = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, TOKENS);
        struct ggml_tensor * sum = ggml_add(ctx, given, given); // positions that a kernel makes
        struct ggml_tensor * a = ggml_rope(ctx, x, given, n, mode);
        struct ggml_tensor * b = ggml_rope(ctx, x, sum, n, mode);
        struct ggml_cgraph * graph = ggml_new_graph(ctx);
        ggml_build_forward_expand(graph, a);
        ggml_build_forward_expand(graph, b);
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, stream);
        for (int round = 0; round < 2; round++) {
            int32_t positions[TOKENS], twice[TOKENS];
            for (int i = 0; i < TOKENS; i++) {
                positions[i] = rand() % 1000;
                twice[i] = 2 * positions[i];
            }
            ggml_backend_tensor_set(given, positions, 0, sizeof positions);
            float * data = fill(x);
            compute(graph, 0);
            check_rope(a, data, positions, n, neox);
            check_rope(b, data, twice, n, neox);
            free(data);
        }
        ggml_backend_buffer_free(buffer);
        ggml_free(ctx);
    }
}

// ---- a cache ----

enum { ROWS = 32, WIDTH = 24 };

// Rows are turned into a cache of f16, read back by index and joined, and all of it is permuted.
static void cache(void ** state) {
    (void) state;
    srand(42);
    static const enum ggml_type types[] = {GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_F32};
    for (int k = 0; k < 3; k++) {
        struct ggml_context * ctx = new_context();
        struct ggml_tensor * x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, TOKENS);
        struct ggml_tensor * kept = ggml_new_tensor_2d(ctx, types[k], WIDTH, ROWS);
        struct ggml_tensor * where = ggml_new_tensor_1d(ctx, GGML_TYPE_I64, TOKENS);
        struct ggml_tensor * which = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 3);
        struct ggml_tensor * set = ggml_set_rows(ctx, kept, x, where);
        struct ggml_tensor * got = ggml_get_rows(ctx, set, which); // as f32
        struct ggml_tensor * both = ggml_concat(ctx, got, x, 1);
        struct ggml_tensor * across = ggml_cont(ctx, ggml_transpose(ctx, both));
        struct ggml_tensor * many = ggml_repeat_4d(ctx, x, WIDTH, TOKENS, 3, 2);
        struct ggml_tensor * small = ggml_cast(ctx, x, types[k]);
        struct ggml_cgraph * graph = ggml_new_graph(ctx);
        ggml_build_forward_expand(graph, across);
        ggml_build_forward_expand(graph, many);
        ggml_build_forward_expand(graph, small);
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, stream);
        for (int round = 0; round < 2; round++) {
            int64_t at[TOKENS];
            int32_t wanted[3] = {2, 0, 5};
            for (int i = 0; i < TOKENS; i++) {
                at[i] = round ? ROWS - 1 - 3 * i : 5 + i; // one run, and none
            }
            int32_t asked[3];
            for (int i = 0; i < 3; i++) {
                asked[i] = (int32_t) at[wanted[i]];
            }
            ggml_backend_tensor_set(where, at, 0, sizeof at);
            ggml_backend_tensor_set(which, asked, 0, sizeof asked);
            float * data = fill(x);
            compute(graph, 0);
            float *t = read(across), *m = read(many);
            void * s = read(small);
            for (int64_t i = 0; i < WIDTH * TOKENS; i++) {
                float v = types[k] == GGML_TYPE_F16    ? half_to_float(s, i)
                          : types[k] == GGML_TYPE_BF16 ? ggml_bf16_to_fp32(((ggml_bf16_t *) s)[i])
                                                       : ((float *) s)[i];
                float want =
                    types[k] == GGML_TYPE_F16    ? ggml_fp16_to_fp32(ggml_fp32_to_fp16(data[i]))
                    : types[k] == GGML_TYPE_BF16 ? ggml_bf16_to_fp32(ggml_fp32_to_bf16(data[i]))
                                                 : data[i];
                assert_true(v == want);
                for (int64_t r = 0; r < 6; r++) {
                    assert_true(m[r * WIDTH * TOKENS + i] == data[i]);
                }
                int64_t row = i / WIDTH, col = i % WIDTH, n = 3 + TOKENS;
                assert_true(t[col * n + 3 + row] == data[i]);
                for (int64_t j = 0; j < 3; j++) {
                    assert_true(row != wanted[j] || t[col * n + j] == want);
                }
            }
            free(t);
            free(m);
            free(s);
            free(data);
        }
        ggml_backend_buffer_free(buffer);
        ggml_free(ctx);
    }
}

// Halves that change places are the array's where they fill whole words together: every f16 there
// is arrives with all of its bits, or is a NaN still.
static void across(void ** state) {
    (void) state;
    enum { SIDE = 256 };
    struct ggml_context * ctx = new_context();
    struct ggml_tensor * x = ggml_new_tensor_2d(ctx, GGML_TYPE_F16, SIDE, SIDE);
    struct ggml_tensor * t = ggml_cont(ctx, ggml_transpose(ctx, x));
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, t);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, stream);
    static uint16_t all[SIDE * SIDE], got[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++) {
        all[i] = (uint16_t) i;
    }
    for (int round = 0; round < 2; round++) {
        ggml_backend_tensor_set(x, all, 0, sizeof all);
        compute(graph, 0);
        ggml_backend_tensor_get(t, got, 0, sizeof got);
        for (int i = 0; i < SIDE * SIDE; i++) {
            uint16_t to = got[i % SIDE * SIDE + i / SIDE];
            bool nan = (all[i] & 0x7fff) > 0x7c00, still = (to & 0x7fff) > 0x7c00;
            if (nan ? !still : to != all[i]) {
                fail_msg("%04x arrives as %04x", all[i], to);
            }
        }
    }
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

// What is no whole word, and what is quantized, is the host's, and right as well.
static void by_host(void ** state) {
    (void) state;
    srand(43);
    struct ggml_context * ctx = new_context();
    struct ggml_tensor * x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 33, 5);
    struct ggml_tensor * halves = ggml_cast(ctx, x, GGML_TYPE_F16);
    struct ggml_tensor * across = ggml_cont(ctx, ggml_transpose(ctx, halves));
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, across);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, stream);
    float * data = fill(x);
    compute(graph, 2);
    void * t = read(across);
    for (int64_t i = 0; i < 33 * 5; i++) {
        float want = ggml_fp16_to_fp32(ggml_fp32_to_fp16(data[i]));
        assert_true(half_to_float(t, i % 33 * 5 + i / 33) == want);
    }
    free(t);
    free(data);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rope_again),
        cmocka_unit_test(cache),
        cmocka_unit_test(across),
        cmocka_unit_test(by_host),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
