// The plan of elementwise kernels: whatever the shapes, the pieces cover every output word once and
// name the right word (or element) of b for each. The reference is ggml's rule, index modulo size.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "aie/ops/elementwise-plan.h"

static int64_t offset_of(const struct tensor * t, int64_t index, const struct tensor * shape) {
    int64_t at = 0;
    for (int d = 0; d < TENSOR_DIMS; d++) {
        at += index % shape->ne[d] % t->ne[d] * t->nb[d];
        index /= shape->ne[d];
    }
    return at;
}

// Returns whether the shape is planned at all.
static bool check_shape(enum dtype type, const int64_t a_ne[4], const int64_t b_ne[4]) {
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    spec.inputs[0] = spec.output = tensor_contiguous(type, a_ne);
    spec.inputs[1] = tensor_contiguous(type, b_ne);
    struct plan plan;
    struct error err = {0};
    if (plan_make(&spec, &plan, &err) != ST_OK) {
        assert_true(strlen(err.text) > 0);
        return false;
    }
    const struct tensor * a = &spec.inputs[0], * b = &spec.inputs[1];
    int64_t es = dtype_size(type), n = tensor_elements(a);
    uint8_t * seen = calloc((size_t) n, 1);
    struct plan_cursor cursor = {0};
    struct plan_piece piece;
    while (plan_next(&plan, &cursor, 4, &piece)) {
        assert_true(piece.words > 0 && piece.a_offset % 4 == 0);
        assert_true(piece.mode != PLAN_PERIOD || piece.words == piece.rows * piece.period);
        assert_true(piece.mode == PLAN_SPLAT || piece.b_offset % 4 == 0);
        for (uint32_t byte = 0; byte < 4 * piece.words; byte += (uint32_t) es) {
            int64_t index = (piece.a_offset + byte) / es;
            if (index >= n) {
                assert_true(byte >= 4 * piece.words - 4); // the tail of the last word
                continue;
            }
            assert_int_equal(seen[index]++, 0);
            int64_t from = piece.mode == PLAN_SPLAT    ? piece.b_offset
                           : piece.mode == PLAN_PERIOD ? piece.b_offset + byte % (4 * piece.period)
                                                       : piece.b_offset + byte;
            assert_int_equal(from, offset_of(b, index, a));
        }
    }
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(seen[i], 1);
    }
    free(seen);
    return true;
}

static void known_patterns(void ** state) {
    (void) state;
    assert_true(check_shape(DTYPE_F32, (int64_t[4]) {1000, 1, 1, 1}, (int64_t[4]) {1000, 1, 1, 1}));
    assert_true(check_shape(DTYPE_F32, (int64_t[4]) {64, 100, 1, 1}, (int64_t[4]) {64, 1, 1, 1}));
    assert_true(check_shape(DTYPE_F32, (int64_t[4]) {1000, 7, 1, 1}, (int64_t[4]) {1, 1, 1, 1}));
    assert_true(check_shape(DTYPE_F32, (int64_t[4]) {100, 7, 3, 1}, (int64_t[4]) {1, 7, 1, 1}));
    assert_true(check_shape(DTYPE_F32, (int64_t[4]) {4096, 3, 1, 1}, (int64_t[4]) {4096, 1, 1, 1}));
    assert_true(check_shape(DTYPE_F32, (int64_t[4]) {1 << 22, 1, 1, 1}, (int64_t[4]) {1 << 22, 1, 1, 1}));
    assert_true(check_shape(DTYPE_F16, (int64_t[4]) {7, 1, 1, 1}, (int64_t[4]) {7, 1, 1, 1}));
    assert_true(check_shape(DTYPE_I8, (int64_t[4]) {5, 1, 1, 1}, (int64_t[4]) {1, 1, 1, 1}));
    assert_true(check_shape(DTYPE_F32, (int64_t[4]) {2, 30000, 1, 1}, (int64_t[4]) {2, 1, 1, 1}));
    // rows of f16 that do not start on words, and too many scalars: expanded in memory instead
    assert_false(check_shape(DTYPE_F16, (int64_t[4]) {7, 5, 2, 1}, (int64_t[4]) {7, 1, 2, 1}));
    assert_false(check_shape(DTYPE_F32, (int64_t[4]) {4, 1000, 1, 1}, (int64_t[4]) {1, 1000, 1, 1}));
}

static void random_shapes(void ** state) {
    (void) state;
    srand(7);
    int planned = 0;
    for (int i = 0; i < 4000; i++) {
        int64_t a[4], b[4];
        for (int d = 0; d < 4; d++) {
            b[d] = rand() % 3 ? 1 + rand() % 9 : 1;
            a[d] = b[d] * (rand() % 2 ? 1 : 1 + rand() % 6);
        }
        planned += check_shape((enum dtype) (rand() % DTYPE_COUNT), a, b);
    }
    assert_true(planned > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_patterns),
        cmocka_unit_test(random_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
