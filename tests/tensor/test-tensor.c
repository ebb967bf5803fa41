// tensor: parsing and printing are inverse, errors say what is wrong, nothing overflows.
#include "tensor/tensor.h"
#include "base/cmocka-all.h"

static struct tensor parse(const char * text) {
    struct tensor t;
    struct error err = {0};
    if (tensor_parse(text, &t, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    return t;
}

static void test_round_trip(void ** state) {
    (void) state;
    static const char * const texts[] = {
        "(1024,1,1,1)/f32",
        "(7,5,3,2)/bf16",
        "(0,1,1,1)/i8",
        "(7,5,3,2)/i16/(2,16,80,240)",
        "(4,4,1,1)/f16/(2,16,32,32)",
        "(4,4,1,1)/i32/(0,0,0,0)",
        "(9223372036854775807,1,1,1)/i8",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct tensor t = parse(texts[i]);
        struct buf b = {0};
        tensor_print(&t, &b);
        assert_string_equal((char *) b.data, texts[i]);
        buf_free(&b);
    }
    struct tensor t = parse(" ( 2 , 3,4 ,5 ) / f32 ");
    assert_int_equal(t.ne[3], 5);
    assert_int_equal(t.nb[3], 2 * 3 * 4 * 4);
    t = parse("(2,3,4,5)/f32/(4,8,24,96)"); // the packed strides, spelled out
    struct buf b = {0};
    tensor_print(&t, &b);
    assert_string_equal((char *) b.data, "(2,3,4,5)/f32");
    buf_free(&b);
}

// Strides are bytes unless one of them cannot be: then they are elements.
static void test_strides_in_elements(void ** state) {
    (void) state;
    static const struct {
        const char *text, *means;
    } rows[] = {
        {"(1024,1,1,1)/f32/(1,1024,1024,1024)", "(1024,1,1,1)/f32"},
        {"(1024,768,1,1)/bf16/(1,1024,786432,786432)", "(1024,768,1,1)/bf16"},
        {"(2,3,4,5)/f32/(1,4,12,48)", "(2,3,4,5)/f32/(4,16,48,192)"},
        {"(2,3,1,1)/f16/(3,1,6,6)", "(2,3,1,1)/f16/(6,2,12,12)"},
        {"(2,3,4,5)/f32/(4,8,24,96)", "(2,3,4,5)/f32"},
        {"(2,3,4,5)/i8/(1,2,6,24)", "(2,3,4,5)/i8"},
        {"(4,4,1,1)/f16/(2,16,32,32)", "(4,4,1,1)/f16/(2,16,32,32)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tensor t = parse(rows[i].text);
        struct buf b = {0};
        tensor_print(&t, &b);
        assert_string_equal((char *) b.data, rows[i].means);
        buf_free(&b);
    }
}

static void test_errors(void ** state) {
    (void) state;
    static const struct {
        const char *text, *begins;
    } cases[] = {
        {"", "Invalid tensor descriptor"},
        {"1024,1,1,1/f32", "Invalid tensor descriptor"},
        {"(1024,1,1,1)", "Invalid tensor descriptor"},
        {"(1024,1,1,1)/", "Invalid tensor descriptor"},
        {"(1024,1,1,1)f32", "Invalid tensor descriptor"},
        {"(1024,,1,1)/f32", "Invalid tensor descriptor"},
        {"(1024,1,1,-1)/f32", "Invalid tensor descriptor"},
        {"(1024,1,1,1", "Invalid tensor descriptor"},
        {"(1,1,1,1)/f32/", "Invalid tensor descriptor"},
        {"(1,1,1,1)/f32/(4,4,4)", "Invalid tensor descriptor"},
        {"(1,1,1,1)/f32/(4,4,4,4)x", "Invalid tensor descriptor"},
        {"(1,1,1,1)/f32x/(4,4,4,4)", "Unknown dtype 'f32x'"},
        {"(9223372036854775808,1,1,1)/i8", "Invalid tensor descriptor"},
        {"(9223372036854775807,1,1,1)/i16", "Invalid tensor descriptor"},
        {"(4294967296,4294967296,1,1)/i8", "Invalid tensor descriptor"},
        {"(2,1,1,1)/i8/(9223372036854775807,0,0,0)", "Invalid tensor descriptor"},
        {"(2,2,1,1)/i16/(1,9223372036854775807,0,0)", "Invalid tensor descriptor"},
        {"(1024,1,1)/f32", "Shape must have exactly 4 dimensions"},
        {"(1024)/f32", "Shape must have exactly 4 dimensions"},
        {"(1,2,3,4,5)/f32", "Shape must have exactly 4 dimensions"},
        {"(1,2,3,4)/q4_0", "Unknown dtype 'q4_0'"},
        {"(1,2,3,4)/F32", "Unknown dtype 'F32'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tensor t;
        struct error err = {0};
        assert_int_equal(tensor_parse(cases[i].text, &t, &err), ST_INVALID);
        if (strncmp(err.text, cases[i].begins, strlen(cases[i].begins))) {
            fail_msg("'%s' gave: %s", cases[i].text, err.text);
        }
        assert_int_equal(tensor_parse(cases[i].text, &t, NULL), ST_INVALID);
    }
}

static void test_cut_and_long(void ** state) {
    (void) state;
    const char * whole = "(12,3,4,5)/bf16/(2,24,72,288)";
    char part[64];
    for (size_t n = 0; n <= strlen(whole); n++) {
        struct tensor t;
        memcpy(part, whole, n);
        part[n] = '\0';
        bool good = n == strlen(whole) || n == strlen("(12,3,4,5)/bf16");
        assert_int_equal(tensor_parse(part, &t, NULL), good ? ST_OK : ST_INVALID);
    }
    char * big = malloc(100001);
    memset(big, '9', 100000);
    big[0] = '(';
    big[100000] = '\0';
    struct tensor t;
    struct error err;
    assert_int_equal(tensor_parse(big, &t, &err), ST_INVALID);
    memset(big, 'f', 100000);
    memcpy(big, "(1,1,1,1)/", 10);
    assert_int_equal(tensor_parse(big, &t, &err), ST_INVALID);
    free(big);
}

static void test_sizes(void ** state) {
    (void) state;
    struct tensor t = parse("(7,5,3,2)/bf16");
    assert_int_equal(tensor_elements(&t), 210);
    assert_int_equal(tensor_bytes(&t), 420);
    assert_true(tensor_is_contiguous(&t));
    t = parse("(7,5,1,1)/f32/(4,32,0,0)");
    assert_int_equal(tensor_bytes(&t), 4 * 32 + 7 * 4);
    assert_false(tensor_is_contiguous(&t));
    t = parse("(0,5,1,1)/f32");
    assert_int_equal(tensor_elements(&t), 0);
    assert_int_equal(tensor_bytes(&t), 0);
    // A dimension of one element has a stride that nothing follows.
    t = parse("(7,1,1,1)/f32/(4,999,5,3)");
    assert_true(tensor_is_contiguous(&t));

    int64_t huge[4] = {INT64_MAX, INT64_MAX, 2, 2};
    t = tensor_contiguous(DTYPE_F32, huge);
    assert_int_equal(tensor_elements(&t), -1);
    assert_int_equal(tensor_bytes(&t), -1);
    int64_t empty[4] = {INT64_MAX, INT64_MAX, 0, 2};
    t = tensor_contiguous(DTYPE_F32, empty);
    assert_int_equal(tensor_elements(&t), 0);
    int64_t negative[4] = {-1, INT64_MIN, 1, 2};
    t = tensor_contiguous(DTYPE_F32, negative);
    assert_int_equal(tensor_elements(&t), -1);
    assert_int_equal(tensor_bytes(&t), -1);
    assert_false(tensor_can_repeat(&t, &t));
}

static void test_canonical(void ** state) {
    (void) state;
    struct tensor a = parse("(8,1,4,1)/f32/(4,77,64,5)"), b = parse("(8,1,4,1)/f32/(4,32,64,256)");
    struct tensor c = parse("(8,1,4,1)/f32/(4,32,96,256)");
    struct tensor ca = tensor_canonical(&a), cb = tensor_canonical(&b), cc = tensor_canonical(&c);
    assert_memory_equal(ca.nb, cb.nb, sizeof ca.nb);
    assert_memory_not_equal(ca.nb, cc.nb, sizeof ca.nb);
}

static void test_repeat(void ** state) {
    (void) state;
    struct tensor a = parse("(8,6,4,2)/f32");
    static const struct {
        const char * text;
        bool can;
    } cases[] = {
        {"(8,6,4,2)/f32", true},   {"(1,1,1,1)/f32", true},  {"(4,3,2,1)/f32", true},
        {"(16,6,4,2)/f32", false}, {"(3,6,4,2)/f32", false}, {"(0,6,4,2)/f32", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tensor b = parse(cases[i].text);
        assert_int_equal(tensor_can_repeat(&b, &a), cases[i].can);
    }
    struct tensor none = parse("(0,1,1,1)/f32"), none2 = parse("(5,0,1,1)/f32");
    assert_true(tensor_can_repeat(&none, &none2));
    assert_true(tensor_same_shape(&a, &a));
    assert_false(tensor_same_shape(&a, &none));
}

static void test_dtypes(void ** state) {
    (void) state;
    static const int sizes[DTYPE_COUNT] = {4, 2, 2, 1, 2, 4};
    for (int i = 0; i < DTYPE_COUNT; i++) {
        enum dtype t;
        assert_true(dtype_parse(dtype_name((enum dtype) i), &t));
        assert_int_equal(t, i);
        assert_int_equal(dtype_size(t), sizes[i]);
    }
    enum dtype t;
    assert_false(dtype_parse("", &t));
    assert_false(dtype_parse("f3", &t));
    assert_int_equal(dtype_size(DTYPE_COUNT), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_strides_in_elements),
        cmocka_unit_test(test_errors),     cmocka_unit_test(test_cut_and_long),
        cmocka_unit_test(test_sizes),      cmocka_unit_test(test_canonical),
        cmocka_unit_test(test_repeat),     cmocka_unit_test(test_dtypes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
