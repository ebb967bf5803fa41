// test-plugin-sort: ARGSORT and TOP_K of rows of any length, which a core sorts or which are merged
// (steps-sort.c). Each graph is computed twice with other data, of which some are alike, infinite
// or no numbers. A result is right where it names each place at most once, what stands at these
// places is in order, and nothing that was left out comes before the last one; so it is compared
// with no other sort. The host has no part in it.
#include "mat-world.h"

enum { ROUNDS = 2 };

enum data { WIDE, FEW, SPECIAL, ALL_ALIKE, KINDS };

static float value(enum data kind, int64_t i, uint32_t * seed) {
    float x = next_value(seed);
    switch (kind) {
    case FEW:
        return floorf(4 * x);
    case SPECIAL:
        return i % 41 == 17   ? (i % 2 ? INFINITY : -INFINITY)
               : i % 53 == 11 ? (i % 2 ? NAN : -NAN)
               : i % 59 == 13 ? (i % 2 ? 0.0f : -0.0f)
                              : x * 0x1p60f;
    case ALL_ALIKE:
        return -3;
    default:
        return x;
    }
}

static void fill_rows(struct ggml_tensor * x, enum data kind, uint32_t seed) {
    int64_t n = ggml_nelements(x);
    float * data = malloc((size_t) n * sizeof *data);
    for (int64_t i = 0; i < n; i++) {
        data[i] = value(kind, i, &seed);
    }
    ggml_backend_tensor_set(x, data, 0, ggml_nbytes(x));
    free(data);
}

// NaNs are last in either order.
static bool comes_first(double a, double b, bool falls) {
    return isnan(b) ? !isnan(a) : falls ? a > b : a < b;
}

static void check_row(const double * x, int64_t n, const double * got, int64_t k, bool falls,
                      const char * what) {
    bool * seen = calloc((size_t) n, 1);
    for (int64_t i = 0; i < k; i++) {
        int64_t at = (int64_t) got[i];
        if (at < 0 || at >= n || seen[at]) {
            fail_msg("%s: place %lld is %lld", what, (long long) i, (long long) at);
        }
        seen[at] = true;
        if (i > 0 && comes_first(x[at], x[(int64_t) got[i - 1]], falls)) {
            fail_msg("%s: at %lld %g stands behind %g", what, (long long) i, x[at],
                     x[(int64_t) got[i - 1]]);
        }
    }
    for (int64_t i = 0; i < n; i++) {
        if (!seen[i] && comes_first(x[i], x[(int64_t) got[k - 1]], falls)) {
            fail_msg("%s: element %lld is missing", what, (long long) i);
        }
    }
    free(seen);
}

enum { ASC = -1, DESC = -2 }; // in place of k: ARGSORT

static struct ggml_tensor * sort_of(struct world * w, struct ggml_tensor * x, int64_t k) {
    return k > 0 ? ggml_top_k(w->ctx, x, (int) k)
                 : ggml_argsort(w->ctx, x, k == ASC ? GGML_SORT_ORDER_ASC : GGML_SORT_ORDER_DESC);
}

static void check(int64_t n, int64_t rows, int64_t more, int64_t k, enum data kind) {
    struct world w = world_new();
    struct ggml_tensor *x = ggml_new_tensor_3d(w.ctx, GGML_TYPE_F32, n, rows, more),
                       *out = sort_of(&w, x, k);
    char what[120];
    snprintf(what, sizeof what, "%lld x %lld x %lld, k=%lld, data %d", (long long) n,
             (long long) rows, (long long) more, (long long) k, (int) kind);
    assert_true(ggml_backend_dev_supports_op(dev, out));
    world_alloc(&w, out);
    struct ggml_backend_hsa_stats before = stats();
    for (uint32_t round = 0; round < ROUNDS; round++) {
        fill_rows(x, kind, 7 * round + (uint32_t) n);
        world_compute(&w);
        double *in = values(x), *got = values(out);
        for (int64_t i = 0; i < rows * more; i++) {
            check_row(in + i * n, n, got + i * out->ne[0], out->ne[0], k != ASC, what);
        }
        free(in);
        free(got);
    }
    struct ggml_backend_hsa_stats after = stats();
    if (n > 2048 &&
        (after.host_copies != before.host_copies ||
         after.staged_operands != before.staged_operands || after.cpu_nodes != before.cpu_nodes)) {
        fail_msg("%s: the host has a part in it", what);
    }
    world_free(&w);
}

static void argsort(void ** state) {
    (void) state;
    static const int64_t lengths[] = {2047, 2048, 2049, 4095, 4096, 5000, 16384};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        check(lengths[i], 1 + (int64_t) i % 3, 1, i % 2 ? ASC : DESC, (enum data)(i % KINDS));
        if (lengths[i] < 4096) {
            check(lengths[i], 1, 1, i % 2 ? DESC : ASC, (enum data)((i + 2) % KINDS));
        }
    }
    check(2049, 2, 3, ASC, SPECIAL);
    check(2049, 2, 3, DESC, SPECIAL);
}

static void top_k(void ** state) {
    (void) state;
    static const struct {
        int64_t n, rows, k;
    } cases[] = {
        {2047, 2, 100}, {2048, 2, 2048}, {2049, 3, 1},    {2049, 1, 2049}, {4096, 2, 511},
        {4096, 2, 512}, {4107, 2, 513},  {5000, 1, 1023}, {5000, 1, 1024}, {5000, 2, 1025},
        {8193, 4, 7},   {9000, 1, 2051}, {33024, 1, 15},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check(cases[i].n, cases[i].rows, 1, cases[i].k, (enum data)(i % KINDS));
    }
}

static void too_long(void ** state) {
    (void) state;
    for (int64_t k = DESC; k < 2; k++) {
        struct world w = world_new();
        struct ggml_tensor * x = ggml_new_tensor_1d(w.ctx, GGML_TYPE_F32, (1 << 20) + 1);
        if (k) {
            assert_false(ggml_backend_dev_supports_op(dev, sort_of(&w, x, k)));
        }
        world_free(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(argsort),
        cmocka_unit_test(top_k),
        cmocka_unit_test(too_long),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
