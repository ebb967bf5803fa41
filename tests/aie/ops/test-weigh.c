// Rows, each times its weight, added up by one kernel (ops/elementwise/weigh.h): as many rows as
// mixtures of experts have and other numbers of them, rows of several lengths, one to four tokens;
// twice with different data. Then what is no such sum is refused.
#include "kernel-rig.h"

#include <math.h>

static struct kernel_spec sum_of(int64_t m, int64_t n, int64_t tokens) {
    const int64_t rows[4] = {m, n, tokens, 1}, weights[4] = {1, n, tokens, 1},
                  out[4] = {m, tokens, 1, 1};
    return (struct kernel_spec){
        .op = KERNEL_OP_WEIGHTED_SUM,
        .arch = rig_arch,
        .n_inputs = 2,
        .inputs = {tensor_contiguous(DTYPE_F32, rows), tensor_contiguous(DTYPE_F32, weights)},
        .output = tensor_contiguous(DTYPE_F32, out)};
}

static float number(void) {
    return ldexpf((float) rand() / (float) RAND_MAX - 0.5f, rand() % 8 - 2);
}

// Each product and each sum is rounded to f32, in the order of the rows.
static void check(const struct kernel_spec * s, const float * a, const float * b,
                  const float * out) {
    int64_t m = s->inputs[0].ne[0], n = s->inputs[0].ne[1];
    for (int64_t i = 0; i < tensor_elements(&s->output); i++) {
        const float *rows = a + i / m * m * n + i % m, *weights = b + i / m * n;
        float want = 0;
        double size = 0;
        for (int64_t r = 0; r < n; r++) {
            float product = rows[r * m] * weights[r];
            want = want + product;
            size += fabs((double) product);
        }
        if (!(fabs((double) out[i] - (double) want) <= size * 0x1p-21)) {
            char name[KERNEL_NAME_MAX];
            kernel_name(s, name);
            fail_msg("%s: element %lld is %.9g, not %.9g", name, (long long) i, (double) out[i],
                     (double) want);
        }
    }
}

static void run(struct rig * r, const struct kernel_spec * s) {
    struct kernel_code code;
    struct error err = {0};
    if (rig_compile(s, &code, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    rig_allocate(r, s);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 2; i++) {
            for (int64_t k = 0; k < tensor_elements(&s->inputs[i]); k++) {
                ((float *) (void *) r->data[i])[k] = number();
            }
        }
        memset(r->data[2], 0x5a, r->size[2] - RIG_GUARD);
        rig_run(r, s, &code);
        check(s, (const float *) (void *) r->data[0], (const float *) (void *) r->data[1],
              (const float *) (void *) r->data[2]);
    }
    rig_free(r);
    kernel_code_free(&code);
}

static void rows_are_added_up(void ** state) {
    (void) state;
    static const struct {
        int64_t m, n, tokens;
    } sums[] = {
        {2048, 8, 1}, {2880, 4, 1}, {2048, 8, 4}, {2880, 4, 3}, {64, 1, 1},  {128, 2, 2},
        {192, 10, 1}, {640, 3, 4},  {4096, 6, 1}, {128, 16, 1}, {320, 7, 2}, {2048, 10, 2},
    };
    struct rig r;
    rig_open(&r);
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        struct kernel_spec s = sum_of(sums[i].m, sums[i].n, sums[i].tokens);
        run(&r, &s);
    }
    rig_close(&r);
}

static void refused(struct kernel_spec s, enum status st, const char * why) {
    struct error err = {0};
    assert_int_equal(aie_supports(&s, &err), st);
    if (!strstr(err.text, why)) {
        fail_msg("'%s' does not say '%s'", err.text, why);
    }
}

static void others_are_refused(void ** state) {
    (void) state;
    struct kernel_spec s = sum_of(2048, 8, 1);
    refused(sum_of(2047, 8, 1), ST_UNSUPPORTED, "equal parts");
    refused(sum_of(17, 2, 1), ST_UNSUPPORTED, "equal parts");
    refused(sum_of(64, 65, 1), ST_UNSUPPORTED, "at most");
    refused(sum_of(64, 2, 17), ST_UNSUPPORTED, "at most");
    refused(sum_of(1 << 21, 2, 1), ST_UNSUPPORTED, "fit no descriptor");
    s.inputs[0].nb[1] += 64;
    refused(s, ST_UNSUPPORTED, "apart");
    s = sum_of(2048, 8, 1);
    s.inputs[1].ne[1] = 7;
    refused(s, ST_INVALID, "do not match");
    s = sum_of(2048, 8, 1);
    s.output.dtype = DTYPE_F16;
    refused(s, ST_UNSUPPORTED, "f32");
}

int main(int argc, char ** argv) {
    rig_arguments(argc, argv, 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_added_up),
                                       cmocka_unit_test(others_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
