// What rows are sorted with that no core keeps: SORT_PAIRS and MERGE_PAIRS against what an order
// is, for numbers with equals, NaNs and infinities and for pairs that are nobody's. Every kernel
// runs twice on the same array with different data.
#include "kernel-rig.h"

#include <math.h>

typedef float (*fill_fn)(int64_t i);

static float uniform(void) {
    return (float) (2.0 * rand() / (double) RAND_MAX - 1);
}

static float fill_wide(int64_t i) {
    (void) i;
    return ldexpf(uniform(), rand() % 17 - 8);
}

static float fill_few(int64_t i) { // many equal ones
    (void) i;
    return (float) (rand() % 5 - 2);
}

static float fill_zero(int64_t i) {
    (void) i;
    return 0;
}

static float fill_with_nan(int64_t i) {
    return i % 41 == 17 ? (i & 1 ? NAN : -NAN) : uniform();
}

static float fill_with_inf(int64_t i) {
    return i % 41 == 17 ? (i & 1 ? INFINITY : -INFINITY) : uniform();
}

// ---- pairs, 16 numbers and 16 places in turn ----

enum { PAIR_WORDS = 2048, PAIRS = PAIR_WORDS / 2, NO_PLACE_EVERY = 37 };

static int64_t pair_word(int64_t i, bool place) {
    return i / 16 * 32 + i % 16 + (place ? 16 : 0);
}

// The numbers of ROWS_NO_KEY and NaNs come last, in that order from the end; others as they are.
static int64_t rank_of(float x, bool nobody, bool descending) {
    if (nobody || isnan(x)) {
        return nobody ? INT64_MIN : INT64_MIN + 1;
    }
    int32_t bits;
    memcpy(&bits, &x, 4);
    int64_t rank = bits < 0 ? -(int64_t) (bits & INT32_MAX) : bits;
    return descending ? rank : -rank;
}

static bool is_nobodys(int64_t i) {
    return i % NO_PLACE_EVERY == 5;
}

static void fill_pairs(struct rig * r, const struct kernel_spec * s, fill_fn fill) {
    for (int64_t row = 0; row < tensor_elements(&s->inputs[0]) / PAIR_WORDS; row++) {
        char * at = (char *) r->data[0] + 4 * PAIR_WORDS * row;
        int32_t key = 0;
        for (int64_t i = 0; i < PAIRS; i++) {
            float x = fill(row * PAIRS + i), place = is_nobodys(i) ? 0 : 0x1p23f + (float) i;
            int32_t number = (int32_t) i;
            if (s->op == KERNEL_OP_MERGE_PAIRS) { // falling, in each half from anew
                int32_t less = rand() % 5 ? rand() % 100000 : 0;
                key = i % (PAIRS / 2) ? key - less : rand() % 30000000;
            }
            bool merge = s->op == KERNEL_OP_MERGE_PAIRS;
            memcpy(at + 4 * pair_word(i, false), merge ? (void *) &key : (void *) &x, 4);
            memcpy(at + 4 * pair_word(i, true), merge ? (void *) &number : (void *) &place, 4);
        }
    }
}

// Every place is there once, and the numbers that stood at these places fall.
static void check_pairs(struct rig * r, const struct kernel_spec * s) {
    for (int64_t row = 0; row < tensor_elements(&s->inputs[0]) / PAIR_WORDS; row++) {
        const char * in = (const char *) r->data[0] + 4 * PAIR_WORDS * row;
        const char * out = (const char *) r->data[1] + 4 * PAIR_WORDS * row;
        bool seen[PAIRS] = {false};
        int64_t before = INT64_MAX, nobodys = 0;
        for (int64_t i = 0; i < PAIRS; i++) {
            int32_t place, key;
            memcpy(&place, out + 4 * pair_word(i, true), 4);
            memcpy(&key, out + 4 * pair_word(i, false), 4);
            if (place < 0) {
                assert_true(s->op == KERNEL_OP_SORT_PAIRS);
                before = rank_of(0, true, true);
                nobodys++;
                continue;
            }
            assert_in_range(place, 0, PAIRS - 1);
            assert_false(seen[place]);
            seen[place] = true;
            const char * from = in + 4 * pair_word(place, false);
            int32_t own;
            float x;
            memcpy(&own, from, 4);
            memcpy(&x, from, 4);
            int64_t rank = own;
            if (s->op == KERNEL_OP_SORT_PAIRS) {
                rank = rank_of(x, is_nobodys(place), s->params[0]);
            } else {
                assert_int_equal(key, own);
            }
            assert_true(rank <= before);
            before = rank;
        }
        int64_t want = 0;
        for (int64_t i = 0; i < PAIRS; i++) {
            want += s->op == KERNEL_OP_SORT_PAIRS && is_nobodys(i);
        }
        assert_int_equal(nobodys, want);
    }
}

// ---- tests ----

static struct kernel_spec spec_of(enum kernel_op op, int64_t words, int64_t rows, bool descending) {
    struct kernel_spec s = {.op = op, .arch = rig_arch, .n_inputs = 1};
    s.inputs[0] = s.output = tensor_contiguous(DTYPE_F32, (const int64_t[4]){words, rows, 1, 1});
    s.params[0] = descending;
    return s;
}

static void run(struct rig * r, const struct kernel_spec * s, fill_fn fill) {
    struct kernel_code code;
    struct error err = {0};
    if (rig_compile(s, &code, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    for (int again = 0; again < 2; again++) {
        rig_allocate(r, s);
        fill_pairs(r, s, fill);
        rig_run(r, s, &code);
        check_pairs(r, s);
        rig_free(r);
    }
    kernel_code_free(&code);
}

static void pairs(void ** state) {
    (void) state;
    static const fill_fn fills[] = {fill_wide, fill_few, fill_with_nan, fill_with_inf, fill_zero};
    struct rig r;
    srand(11);
    rig_open(&r);
    for (int i = 0; i < 5; i++) {
        const int64_t rows = i < 4 ? 1 + 2 * i : 37;
        for (int descending = 0; descending < 2; descending++) {
            struct kernel_spec s = spec_of(KERNEL_OP_SORT_PAIRS, PAIR_WORDS, rows, descending);
            run(&r, &s, fills[i]);
        }
        struct kernel_spec s = spec_of(KERNEL_OP_MERGE_PAIRS, PAIR_WORDS, rows, false);
        run(&r, &s, fills[i]);
    }
    rig_close(&r);
}

static void refusals(void ** state) {
    (void) state;
    struct error err = {0};
    struct kernel_spec s = spec_of(KERNEL_OP_MERGE_PAIRS, PAIR_WORDS / 2, 1, false);
    assert_int_equal(aie_supports(&s, &err), ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "2048"));
}

int main(int argc, char ** argv) {
    rig_arguments(argc, argv, 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(pairs), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
