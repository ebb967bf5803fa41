// The plan of elementwise kernels: whatever the shapes and strides, the pieces cover every output
// word once and name the right word (or element) of a and b for each. The reference is ggml's rule,
// index modulo size, times the strides. Every descriptor must fit the hardware's fields.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "aie/ops/elementwise/elementwise-plan.h"

static int64_t offset_of(const struct tensor * t, int64_t index, const struct tensor * shape) {
    int64_t at = 0;
    for (int d = 0; d < TENSOR_DIMS; d++) {
        at += index % shape->ne[d] % t->ne[d] * t->nb[d];
        index /= shape->ne[d];
    }
    return at;
}

// Byte offset of word number i of a walk, as the shim counts.
static int64_t word_of(const struct plan_walk * w, uint32_t i) {
    uint32_t rest = i % w->words;
    int64_t at = (int64_t) (i / w->words) * w->repeat_step;
    for (int d = 0; d < 3; d++) {
        uint32_t n = d < 2 && w->wrap[d] ? rest % w->wrap[d] : rest;
        at += (int64_t) n * w->step[d];
        if (d == 2 || !w->wrap[d]) {
            break;
        }
        rest /= w->wrap[d];
    }
    return w->offset + 4 * at;
}

static void check_fields(const struct plan_walk * w) {
    assert_true(w->words >= 1 && w->offset % 4 == 0);
    assert_true(w->wrap[0] < 1024 && w->wrap[1] < 1024);
    for (int d = 0; d < 3; d++) {
        assert_true(w->step[d] <= 1 << 20);
    }
    assert_true(w->repeat >= 1 && w->repeat <= (w->repeat_step ? 64 : 256));
    assert_true(w->repeat_step <= 1 << 20);
}

// Which element begins at each byte of out; -1 in the gaps.
static int64_t * map_of(const struct tensor * out) {
    int64_t bytes = tensor_bytes(out) + 4, *map = malloc((size_t) bytes * sizeof *map);
    for (int64_t i = 0; i < bytes; i++) {
        map[i] = -1;
    }
    for (int64_t i = 0; i < tensor_elements(out); i++) {
        map[offset_of(out, i, out)] = i;
    }
    return map;
}

static void check_piece(const struct kernel_spec * spec, const struct plan_piece * piece,
                        const int64_t * map, uint8_t * seen) {
    const struct tensor *a = &spec->inputs[0], *b = &spec->inputs[1], *out = &spec->output;
    int64_t es = dtype_size(out->dtype);
    bool period = piece->mode == PLAN_PERIOD, splat = piece->mode == PLAN_SPLAT,
         has_b = spec->n_inputs > 1;
    const struct plan_walk *wa = &piece->walk[PLAN_A], *wb = &piece->walk[PLAN_B];
    const struct plan_walk * wo = &piece->walk[PLAN_OUT];
    check_fields(wa);
    check_fields(wo);
    assert_int_equal(wa->words * wa->repeat, piece->words);
    assert_int_equal(wo->words * wo->repeat, piece->words);
    if (has_b) {
        check_fields(wb);
        assert_int_equal(wb->words * wb->repeat, splat ? 1 : period ? piece->period : piece->words);
        assert_true(!period || piece->words == piece->rows * piece->period);
    }
    for (uint32_t w = 0; w < piece->words; w++) {
        for (int64_t byte = 0; byte < 4; byte += es) {
            int64_t index = map[word_of(wo, w) + byte];
            if (index < 0) { // behind the last element: only in the last word
                assert_true(w == piece->words - 1 && byte > 0);
                continue;
            }
            assert_int_equal(seen[index]++, 0);
            assert_int_equal(word_of(wa, w) + byte, offset_of(a, index, out));
            if (has_b) {
                int64_t from = splat ? wb->offset + (int64_t) piece->splat_byte
                                     : word_of(wb, period ? w % piece->period : w) + byte;
                assert_int_equal(from, offset_of(b, index, out));
            }
        }
    }
}

// Returns whether the operands are planned at all.
static bool check_spec(const struct kernel_spec * spec) {
    struct ew_plan plan;
    struct error err = {0};
    if (ew_plan_make(spec, &plan, &err) != ST_OK) {
        assert_true(strlen(err.text) > 0);
        return false;
    }
    int64_t n = tensor_elements(&spec->output), *map = map_of(&spec->output);
    uint8_t * seen = calloc((size_t) n, 1);
    struct plan_cursor cursor = {0};
    struct plan_piece piece;
    while (ew_plan_next(&plan, &cursor, 4, &piece)) {
        check_piece(spec, &piece, map, seen);
    }
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(seen[i], 1);
    }
    free(seen);
    free(map);
    return true;
}

static bool check_shape(enum dtype type, const int64_t a_ne[4], const int64_t b_ne[4]) {
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    spec.inputs[0] = spec.output = tensor_contiguous(type, a_ne);
    spec.inputs[1] = tensor_contiguous(type, b_ne);
    return check_spec(&spec);
}

// Strides in bytes for dimensions 1 to 3.
static struct tensor with_strides(enum dtype type, const int64_t ne[4], int64_t s1, int64_t s2,
                                  int64_t s3) {
    struct tensor t = tensor_contiguous(type, ne);
    t.nb[1] = s1;
    t.nb[2] = s2;
    t.nb[3] = s3;
    return t;
}

static void known_patterns(void ** state) {
    (void) state;
    assert_true(check_shape(DTYPE_F32, (int64_t[4]){1000, 1, 1, 1}, (int64_t[4]){1000, 1, 1, 1}));
    assert_true(check_shape(DTYPE_F32, (int64_t[4]){64, 100, 1, 1}, (int64_t[4]){64, 1, 1, 1}));
    assert_true(check_shape(DTYPE_F32, (int64_t[4]){1000, 7, 1, 1}, (int64_t[4]){1, 1, 1, 1}));
    assert_true(check_shape(DTYPE_F32, (int64_t[4]){100, 7, 3, 1}, (int64_t[4]){1, 7, 1, 1}));
    assert_true(check_shape(DTYPE_F32, (int64_t[4]){4096, 3, 1, 1}, (int64_t[4]){4096, 1, 1, 1}));
    assert_true(
        check_shape(DTYPE_F32, (int64_t[4]){1 << 22, 1, 1, 1}, (int64_t[4]){1 << 22, 1, 1, 1}));
    assert_true(check_shape(DTYPE_F16, (int64_t[4]){7, 1, 1, 1}, (int64_t[4]){7, 1, 1, 1}));
    assert_true(check_shape(DTYPE_I8, (int64_t[4]){5, 1, 1, 1}, (int64_t[4]){1, 1, 1, 1}));
    assert_true(check_shape(DTYPE_F32, (int64_t[4]){2, 30000, 1, 1}, (int64_t[4]){2, 1, 1, 1}));
    // rows of f16 that do not start on words, and too many scalars: expanded in memory instead
    assert_false(check_shape(DTYPE_F16, (int64_t[4]){7, 5, 2, 1}, (int64_t[4]){7, 1, 2, 1}));
    assert_false(check_shape(DTYPE_F32, (int64_t[4]){4, 1000, 1, 1}, (int64_t[4]){1, 1000, 1, 1}));
}

// Two halves of each row, as an unsplit GLU has them.
static bool check_halves(enum dtype type, int64_t half, int64_t rows) {
    const int64_t ne[4] = {half, rows, 1, 1};
    int64_t row = 2 * half * dtype_size(type);
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    spec.inputs[0] = spec.inputs[1] = with_strides(type, ne, row, row * rows, row * rows);
    spec.output = tensor_contiguous(type, ne);
    return check_spec(&spec);
}

// Columns are told one after the other: the pieces of a long run become shorter, in whole chunks,
// follow each other and are all of it; those of a short one are alike.
static void leads(void ** state) {
    (void) state;
    static const int64_t sizes[] = {20000, 300001, 1 << 20, 3000001, 1 << 22};
    for (int columns = 1; columns <= 8; columns++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            struct kernel_spec spec = {.op = KERNEL_OP_ABS, .arch = AIE_ARCH_AIE2, .n_inputs = 1};
            spec.inputs[0] = spec.output =
                tensor_contiguous(DTYPE_F32, (const int64_t[4]){sizes[i], 1, 1, 1});
            struct ew_plan plan;
            struct plan_cursor cursor = {0};
            struct plan_piece piece;
            struct error err = {0};
            assert_int_equal(ew_plan_make(&spec, &plan, &err), ST_OK);
            plan.lead = 13000;
            int64_t done = 0, n = 0;
            uint32_t before = UINT32_MAX, first = 0;
            for (; ew_plan_next(&plan, &cursor, columns, &piece); n++) {
                assert_int_equal(piece.walk[PLAN_A].offset, 4 * done);
                assert_true(piece.words > 0 && piece.words <= before);
                first = n ? first : piece.words;
                before = piece.words;
                done += piece.words;
            }
            assert_int_equal(done, sizes[i]);
            if (columns == 8 && sizes[i] == 1 << 20) {
                assert_int_equal(n, 8);
                assert_true(first > 131072 + 30000 && first % EW_CHUNK_WORDS == 0);
            }
        }
    }
}

static void gaps(void ** state) {
    (void) state;
    assert_true(check_halves(DTYPE_F32, 64, 100));
    assert_true(check_halves(DTYPE_F32, 1, 5000));
    assert_true(check_halves(DTYPE_F32, 11008, 20)); // longer than a wrap
    assert_true(check_halves(DTYPE_F32, 1031, 300)); // and a prime
    assert_true(check_halves(DTYPE_F32, 100003, 3));
    assert_true(check_halves(DTYPE_BF16, 4096, 33));
    assert_true(check_halves(DTYPE_I8, 1024, 2));
    assert_false(check_halves(DTYPE_F16, 7, 10)); // halves that do not start on words

    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    const int64_t ne[4] = {40, 9, 5, 3}, row[4] = {40, 1, 1, 1}, one[4] = {1, 1, 1, 1};
    const struct tensor packed = tensor_contiguous(DTYPE_F32, ne);
    // heads and rows exchanged; rows that skip others; both at once, and an output with gaps
    const struct tensor exchanged = with_strides(DTYPE_F32, ne, 5 * 160, 160, 45 * 160);
    const struct tensor skipping = with_strides(DTYPE_F32, ne, 2 * 160, 20 * 160, 100 * 160);
    const struct tensor a[] = {packed, exchanged, skipping};
    for (int i = 0; i < 27; i++) {
        spec.inputs[0] = a[i % 3];
        spec.inputs[1] = a[i / 3 % 3];
        spec.output = a[i / 9];
        assert_true(check_spec(&spec));
        spec.inputs[1] = tensor_contiguous(DTYPE_F32, row);
        assert_true(check_spec(&spec));
        spec.inputs[1] = tensor_contiguous(DTYPE_F32, one);
        assert_true(check_spec(&spec));
    }
    spec.inputs[0] = spec.output =
        packed; // 32-bit elements apart from each other: a transposed matrix
    spec.inputs[1] = (struct tensor){DTYPE_F32, {40, 9, 5, 3}, {36, 4, 1440, 7200}};
    assert_true(check_spec(&spec));
    spec.output = with_strides(DTYPE_F32, ne, 160, 0, 0); // written more than once
    assert_false(check_spec(&spec));
    spec.output = packed;
    spec.output.nb[0] = 0;
    assert_false(check_spec(&spec));
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
        planned += check_shape((enum dtype)(rand() % DTYPE_COUNT), a, b);
    }
    assert_true(planned > 1000);
}

// Dimensions in any order, with gaps of any number of words.
static struct tensor random_tensor(enum dtype type, const int64_t ne[4]) {
    struct tensor t = tensor_contiguous(type, ne);
    int order[3] = {1, 2, 3};
    for (int i = 2; i > 0; i--) {
        int j = rand() % (i + 1), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    int64_t at = ne[0] * dtype_size(type);
    for (int i = 0; i < 3; i++) {
        at += rand() % 3 ? 0 : 4 * (rand() % 20);
        t.nb[order[i]] = at;
        at *= ne[order[i]];
    }
    return t;
}

static void random_strides(void ** state) {
    (void) state;
    srand(8);
    int planned = 0;
    for (int i = 0; i < 4000; i++) {
        int64_t a[4], b[4];
        for (int d = 0; d < 4; d++) {
            a[d] = 1 + rand() % (rand() % 8 ? 7 : d ? 90 : 3000);
            b[d] = rand() % 4 ? a[d] : 1;
        }
        if (a[0] * a[1] * a[2] * a[3] > 200000) {
            continue;
        }
        enum dtype type = (enum dtype)(rand() % DTYPE_COUNT);
        struct kernel_spec spec = {
            .op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 1 + rand() % 2};
        spec.inputs[0] = random_tensor(type, a);
        spec.inputs[1] = random_tensor(type, b);
        spec.output = random_tensor(type, a);
        planned += check_spec(&spec);
    }
    print_message("%d of 4000 random strides are planned\n", planned);
    assert_true(planned > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_patterns), cmocka_unit_test(random_shapes),  cmocka_unit_test(gaps),
        cmocka_unit_test(leads),          cmocka_unit_test(random_strides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
