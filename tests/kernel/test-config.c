// config: JSON from outside is read or refused with its line and column, whatever it is; an entry
// of a configuration becomes a spec or an error that names what is wrong; printing gives the spec
// back.
#include "base/cmocka-all.h"
#include "kernel/config.h"

// The text ends where the memory ends, so that a sanitizer sees a byte too far.
static enum status parse(const char * text, size_t size, json_t ** out, struct error * err) {
    char * copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    enum status st = json_read(copy, size, out, err);
    free(copy);
    return st;
}

static void json_values(void ** state) {
    (void) state;
    static const char text[] = " { \"a\" : [1, -9223372036854775808, 9223372036854775807, 0.5, -0, "
                               "1e2],\n \"b\": {\"c\": \"x\\n\\u00e9\\ud83d\\ude00\\\"/\"}, "
                               "\"d\": true, \"e\": null} ";
    static const char * const kinds[] = {"an array", "an object", "a boolean", "null"};
    json_t *root, *value;
    struct error err = {0};
    assert_int_equal(parse(text, sizeof text - 1, &root, &err), ST_OK);
    const json_t * a = json_object_get(root, "a");
    assert_int_equal(json_integer_value(json_array_get(a, 0)), 1);
    assert_true(json_integer_value(json_array_get(a, 1)) == INT64_MIN);
    assert_true(json_integer_value(json_array_get(a, 2)) == INT64_MAX);
    assert_true(json_real_value(json_array_get(a, 3)) == 0.5);
    assert_string_equal(json_kind(json_array_get(a, 4)), "an integer");
    assert_string_equal(json_kind(json_array_get(a, 5)), "a real number");
    const json_t * c = json_object_get(json_object_get(root, "b"), "c");
    assert_string_equal(json_string_value(c), "x\n\xc3\xa9\xf0\x9f\x98\x80\"/");
    const char * key;
    int n = 0;
    json_object_foreach(root, key, value) { // in the order of the text
        assert_int_equal(key[0], "abde"[n]);
        assert_string_equal(json_kind(value), kinds[n++]);
    }
    assert_int_equal(n, 4);
    json_decref(root);
    assert_int_equal(parse("7", 1, &root, &err), ST_OK); // what it should be is the caller's matter
    assert_string_equal(json_kind(root), "an integer");
    json_decref(root);
}

static void json_errors(void ** state) {
    (void) state;
#define ROW(text, where, why)                                                                      \
    { text, sizeof text - 1, where, why }
    static const struct {
        const char * text;
        size_t size;
        const char *where, *why;
    } rows[] = {
        ROW("", "line 1, column 1: ", "end of file"),
        ROW("{\"a\": 1,}", "line 1, column 9: ", "string or '}' expected"),
        ROW("{\n  \"a\" 1}", "line 2, column 7: ", "':' expected near '1'"),
        ROW("{\n\n \"a\": [1 2]}", "line 3, column 10: ", "']' expected"),
        ROW("{\"a\": 1", "line 1, column 7: ", "'}' expected near end of file"),
        ROW("[1] x", "line 1, column 5: ", "end of file expected"),
        ROW("[01]", "line 1, column 2: ", "invalid token"),
        ROW("[1.]", "line 1, column 3: ", "invalid token"),
        ROW("[-]", "line 1, column 2: ", "invalid token"),
        ROW("[1e+]", "line 1, column 4: ", "invalid token"),
        ROW("[tru]", "line 1, column 4: ", "invalid token"),
        ROW("[nan]", "line 1, column 4: ", "invalid token"),
        ROW("['a']", "line 1, column 2: ", "invalid token"),
        ROW("// x\n[]", "line 1, column 1: ", "invalid token"),
        ROW("[\"a", "line 1, column 3: ", "premature end"),
        ROW("[\"a\\", "line 1, column 4: ", "escape"),
        ROW("[\"a\\x\"]", "line 1, column 5: ", "escape"),
        ROW("[\"\\u12g4\"]", "line 1, column 7: ", "escape"),
        ROW("[\"\\u0000\"]", "line 1, column 9: ", "not allowed"),
        ROW("{\"\\u0000\": 1}", "line 1, column 9: ", "NUL"),
        ROW("[\"a\0\"]", "line 1, column 3: ", "control character"),
        ROW("[]\0", "line 1, column 3: ", "end of file expected"),
        ROW("[\"\\ud800\"]", "line 1, column 9: ", "invalid Unicode"),
        ROW("[\"\\ude00\"]", "line 1, column 9: ", "invalid Unicode"),
        ROW("[\"\\ud800\\u0041\"]", "line 1, column 15: ", "invalid Unicode"),
        ROW("[\"a\nb\"]", "line 1, column 3: ", "newline"),
        ROW("[\"\xff\"]", "line 1, column 2: ", "unable to decode byte 0xff"),
        ROW("[\"\xc0\xaf\"]", "line 1, column 2: ", "unable to decode"),
        ROW("[\"\xed\xa0\x80\"]", "line 1, column 2: ", "unable to decode"),
        ROW("[\"\xf4\x90\x80\x80\"]", "line 1, column 2: ", "unable to decode"),
        ROW("[\"\xe2\x82\"]", "line 1, column 2: ", "unable to decode"),
        ROW("[9223372036854775808]", "line 1, column 20: ", "too big integer"),
        ROW("[-9223372036854775809]", "line 1, column 21: ", "too big negative integer"),
        ROW("[1e999]", "line 1, column 6: ", "overflow"),
        ROW("{\"a\": 1,\n \"a\": 2}", "line 2, column 4: ", "duplicate object key near '\"a\"'"),
        ROW("[\033[31m]", "line 1, column 2: ", "near '?'"), // nothing steers a terminal
        ROW("\xef\xbb\xbf[]", "line 1, column 1: ", "invalid token near '?"),
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t * root;
        struct error err = {0};
        assert_int_equal(parse(rows[i].text, rows[i].size, &root, &err), ST_INVALID);
        if (strncmp(err.text, rows[i].where, strlen(rows[i].where)) ||
            !strstr(err.text, rows[i].why)) {
            fail_msg("%s: %s", rows[i].text, err.text);
        }
        assert_null(root);
    }
}

// Brackets in strings do not nest, and what follows a backslash ends no string.
static void json_strings_are_opaque(void ** state) {
    (void) state;
    struct buf text = {0};
    buf_printf(&text, "[\"");
    for (int i = 0; i < 2 * JSON_MAX_DEPTH; i++) {
        buf_printf(&text, "[{\\\"");
    }
    buf_printf(&text, "\\\\\"]");
    json_t * root;
    struct error err = {0};
    assert_int_equal(parse((char *) text.data, text.size, &root, &err), ST_OK);
    assert_int_equal(json_string_length(json_array_get(root, 0)), 6 * JSON_MAX_DEPTH + 1);
    json_decref(root);
    buf_free(&text);
}

static void json_depth_and_size(void ** state) {
    (void) state;
    enum { BIG = 1 << 20 };
    char * text = malloc(BIG);
    json_t * root;
    struct error err = {0};
    memset(text, '[', BIG);
    text[10] = '\n';
    assert_int_equal(parse(text, BIG, &root, &err), ST_INVALID);
    assert_string_equal(err.text, "line 2, column 55: nested too deeply");
    memset(text, '[', JSON_MAX_DEPTH);
    memset(text + JSON_MAX_DEPTH, ']', JSON_MAX_DEPTH);
    assert_int_equal(parse(text, 2 * JSON_MAX_DEPTH, &root, &err), ST_OK);
    json_decref(root);
    for (int i = 0; i < BIG; i += 5) {
        memcpy(text + i, "{\"\":[", BIG - i < 5 ? (size_t) (BIG - i) : 5);
    }
    assert_int_equal(parse(text, BIG, &root, &err), ST_INVALID);
    assert_non_null(strstr(err.text, "nested too deeply"));
    memset(text, '9', BIG);
    assert_int_equal(parse(text, BIG, &root, &err), ST_INVALID);
    assert_non_null(strstr(err.text, "too big integer"));
    free(text);

    // One comma for each value but the first, one bracket.
    size_t n = 2 * ((size_t) JSON_MAX_VALUES + 1);
    text = malloc(n);
    memset(text, ',', n);
    text[0] = '[';
    for (size_t i = 1; i < n; i += 2) {
        text[i] = '1';
    }
    assert_int_equal(json_read(text, n, &root, &err), ST_INVALID);
    assert_non_null(strstr(err.text, "too many values"));
    size_t fewer = 2 * ((size_t) JSON_MAX_VALUES - 1);
    text[fewer - 2] = ']';
    assert_int_equal(json_read(text, fewer - 1, &root, &err), ST_OK);
    assert_int_equal(json_array_size(root), JSON_MAX_VALUES - 2);
    json_decref(root);
    free(text);
    text = calloc(1, JSON_MAX_BYTES + 1);
    assert_int_equal(json_read(text, JSON_MAX_BYTES + 1, &root, &err), ST_INVALID);
    assert_non_null(strstr(err.text, "at most 67108864"));
    free(text);
}

// A part that could not be made takes the whole with it, and the text says so.
static void json_writing(void ** state) {
    (void) state;
    json_t *object = json_object(), *array = json_array();
    struct buf text = {0};
    json_append(&array, json_size(UINT64_MAX));
    json_append(&array, json_string("\"\n"));
    json_put(&object, "b", array);
    json_put(&object, "a", json_null());
    json_print(object, 0, &text);
    assert_false(text.failed);
    assert_string_equal((char *) text.data,
                        "{\"b\": [9223372036854775807, \"\\\"\\n\"], \"a\": null}");
    buf_free(&text);
    json_put(&object, "c", json_string("\xff"));
    assert_null(object);
    json_put(&object, "d", json_string("x"));
    assert_null(object);
    json_print(object, 0, &text);
    assert_true(text.failed);
    buf_free(&text);
    array = json_array();
    json_append(&array, NULL);
    assert_null(array);
}

// ---- entries ----

static const char good[] =
    "{\"kernel_name\": \"ggml_op_add\", \"kernel_source\": \"binary_ops.py\", \"arch\": \"aie2\","
    " \"input_tensors\": [\"(64,2,1,1)/f32\", \"(64,1,1,1)/f32/(4,512,512,512)\"],"
    " \"output_tensor\": \"(64,2,1,1)/f32\", \"exported_name\": \"x-1.b\", \"comment\": \"c\"}";

static enum status parse_entry(const char * text, size_t size, const char * arch,
                               struct kernel_config * out, struct error * err) {
    json_t * root;
    enum status st = parse(text, size, &root, err);
    if (st == ST_OK) {
        st = kernel_config_parse(root, arch, out, err);
        json_decref(root);
    }
    return st;
}

// Every prefix and every text with one byte changed: read or refused, never more.
static void hostile_entries(void ** state) {
    (void) state;
    struct kernel_config config;
    struct error err = {0};
    assert_int_equal(parse_entry(good, sizeof good - 1, NULL, &config, &err), ST_OK);
    assert_string_equal(config.exported_name, "x-1.b");
    assert_int_equal(config.spec.n_inputs, 2);
    assert_int_equal(config.spec.inputs[1].nb[1], 512);
    for (size_t n = 0; n < sizeof good - 1; n++) {
        assert_int_not_equal(parse_entry(good, n, NULL, &config, &err), ST_OK);
    }
    static const char bytes[] = "\"\\{}[],:0-9eE.\x01\x80\xff/( ";
    for (size_t at = 0; at < sizeof good - 1; at++) {
        for (size_t k = 0; k < sizeof bytes; k++) {
            char text[sizeof good];
            memcpy(text, good, sizeof good);
            text[at] = bytes[k];
            if (parse_entry(text, sizeof good - 1, NULL, &config, &err) == ST_OK) {
                assert_true(exported_name_valid(config.exported_name));
                assert_true((unsigned) config.spec.op < KERNEL_OP_COUNT);
                assert_int_equal(config.spec.n_inputs, 2);
            }
        }
    }
}

// A JSON string may hold what clears a screen or names a window; the message that quotes it not.
static void escapes_in_entries(void ** state) {
    (void) state;
    static const char * const rows[] = {
        "{\"kernel_name\": \"\\u001b]0;title\\u0007\"}",
        "{\"\\u001b[2J\": 1}",
        "{\"kernel_name\": \"ggml_op_add\", \"arch\": \"\\u009b2J\"}",
        "{\"kernel_name\": \"ggml_op_add\", \"arch\": \"aie2\", \"input_tensors\": [\"\\u001b\"]}",
        "{\"kernel_name\": \"ggml_op_add\", \"arch\": \"aie2\", \"output_tensor\": \"\\r\\b\"}",
    };
    int quoted = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kernel_config config;
        struct error err = {0};
        assert_int_not_equal(parse_entry(rows[i], strlen(rows[i]), NULL, &config, &err), ST_OK);
        quoted += strchr(err.text, '?') != NULL;
        assert_null(strpbrk(err.text, "\x1b\x07\r\b"));
        assert_null(strstr(err.text, "\xc2\x9b"));
    }
    assert_true(quoted > 0); // else nothing was shown of them
}

// For each op of the table: print, parse, the same kernel; parameters bit by bit.
static void print_and_parse(void ** state) {
    (void) state;
    for (int op = 0; op < KERNEL_OP_COUNT; op++) {
        const struct kernel_op_info * info = kernel_op_info((enum kernel_op) op);
        int shapes = info->n_inputs - info->least_inputs + 1; // each number of inputs it may have
        for (int k = 0; k < AIE_ARCH_COUNT * shapes; k++) {
            int arch = k / shapes;
            struct kernel_spec spec = {.op = (enum kernel_op) op,
                                       .arch = (enum aie_arch) arch,
                                       .n_inputs = info->least_inputs + k % shapes};
            for (int i = 0; i < spec.n_inputs; i++) {
                spec.inputs[i] =
                    tensor_contiguous((enum dtype)(i % DTYPE_COUNT), (int64_t[]){48 + i, 3, 1, 2});
                spec.inputs[i].nb[3] += 64 * i;
            }
            spec.output = tensor_contiguous(DTYPE_BF16, (int64_t[]){7, 1, 1, 1});
            for (int i = 0; i < info->n_params; i++) {
                spec.params[i] = 0xff800001u + (uint32_t) i;
            }
            char before[KERNEL_NAME_MAX], after[KERNEL_NAME_MAX];
            kernel_name(&spec, before);
            struct buf text = {0};
            kernel_config_print(&spec, before, &text);
            struct kernel_config back;
            struct error err = {0};
            if (parse_entry((char *) text.data, text.size, NULL, &back, &err) != ST_OK) {
                fail_msg("%s: %s", (char *) text.data, err.text);
            }
            buf_free(&text);
            kernel_name(&back.spec, after);
            assert_string_equal(before, after);
            assert_string_equal(before, back.exported_name);
            assert_int_equal(back.spec.arch, arch);
            assert_int_equal(back.spec.n_inputs, spec.n_inputs);
        }
    }
}

// What other collections of kernels call the file that an op is in.
static void sources(void ** state) {
    (void) state;
    static const struct {
        const char *source, *name;
        int inputs;
        const char * wrong; // NULL: it is read
    } rows[] = {
        {"mul_mat.py", "ggml_op_mul_mat", 2, NULL},
        {"mul_mat_ops", "ggml_op_mul_mat", 2, NULL},
        {"gemm.py", "ggml_op_mul_mat", 2, NULL},
        {"soft_max.py", "ggml_op_soft_max", 1, NULL},
        {"softmax.py", "ggml_op_soft_max", 2, NULL},
        {"row_ops", "ggml_op_soft_max", 3, NULL},
        {"argmax.py", "ggml_op_argmax", 1, NULL},
        {"count_equal", "ggml_op_count_equal", 2, NULL},
        {"binary.py", "ggml_op_add", 2, NULL},
        {"unary_ops.py", "ggml_unary_op_abs", 1, NULL},
        {"softmax.py", "ggml_op_soft_max", 4, "ggml_op_soft_max takes 1 to 3 input tensors"},
        {"softmax.py", "ggml_op_argmax", 1, "Kernel not found: 'ggml_op_argmax' in row_ops"},
        {"mul_mat", "ggml_op_add", 2, "Kernel not found: 'ggml_op_add' in mul_mat_ops"},
        {"mul_mat_ops.p", "ggml_op_mul_mat", 2, "Kernel source not found: 'mul_mat_ops.p'"},
        {"ops", "ggml_op_mul_mat", 2, "Kernel source not found: 'ops'"},
        {".py", "ggml_op_mul_mat", 2, "Kernel source not found: '.py'"},
        {"", "ggml_op_mul_mat", 2, "Kernel source not found: ''"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buf text = {0};
        buf_printf(&text, "{\"kernel_name\": \"%s\", \"kernel_source\": \"%s\", ", rows[i].name,
                   rows[i].source);
        for (int k = 0; k < rows[i].inputs; k++) {
            buf_printf(&text, "%s\"(1,1,1,1)/f32\"", k ? "," : "\"input_tensors\": [");
        }
        buf_printf(&text, "], \"output_tensor\": \"(1,1,1,1)/f32\", \"exported_name\": \"a\"%s}",
                   strstr(rows[i].name, "soft_max") ? ", \"op_params\": [1.0, 0.0]" : "");
        struct kernel_config config;
        struct error err = {0};
        enum status st = parse_entry((char *) text.data, text.size, "aie2", &config, &err);
        if (rows[i].wrong) {
            assert_int_not_equal(st, ST_OK);
            assert_non_null(strstr(err.text, rows[i].wrong));
        } else if (st != ST_OK) {
            fail_msg("%s: %s", rows[i].source, err.text);
        } else {
            assert_string_equal(kernel_op_info(config.spec.op)->ggml_name, rows[i].name);
            assert_int_equal(config.spec.n_inputs, rows[i].inputs);
        }
        buf_free(&text);
    }
}

static void parameters(void ** state) {
    (void) state;
    const struct kernel_op_info * info = NULL;
    for (int op = 0; op < KERNEL_OP_COUNT && !(info && info->n_params); op++) {
        info = kernel_op_info((enum kernel_op) op);
    }
    assert_true(info->n_params > 0);
    static const struct {
        const char * text;
        uint32_t word;
    } rows[] = {{"1", 1},
                {"-1", 0xffffffff},
                {"4294967295", 0xffffffff},
                {"1.0", 0x3f800000},
                {"-0.5", 0xbf000000},
                {"3.4028234663852886e38", 0x7f7fffff},
                {"1e-60", 0},
                {"2147483648", 1u << 31},
                {"4294967296", 0},
                {"-2147483649", 0},
                {"1e39", 0},
                {"true", 0},
                {"\"1\"", 0},
                {"[]", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool bad = i >= 8;
        struct buf text = {0};
        buf_printf(&text,
                   "{\"kernel_name\": \"%s\", \"kernel_source\": \"%s\", \"input_tensors\": [",
                   info->ggml_name, info->source);
        for (int k = 0; k < info->n_inputs; k++) {
            buf_printf(&text, "%s\"(1,1,1,1)/f32\"", k ? "," : "");
        }
        buf_printf(&text, "], \"output_tensor\": \"(1,1,1,1)/f32\", \"exported_name\": \"a\", "
                          "\"op_params\": [");
        for (int k = 0; k < info->n_params; k++) {
            buf_printf(&text, "%s%s", k ? "," : "", rows[i].text);
        }
        buf_printf(&text, "]}");
        struct kernel_config config;
        struct error err = {0};
        enum status st = parse_entry((char *) text.data, text.size, "aie2", &config, &err);
        assert_int_equal(st, bad ? ST_INVALID : ST_OK);
        assert_true(bad ? strstr(err.text, "op_params[0]") != NULL
                        : config.spec.params[info->n_params - 1] == rows[i].word);
        buf_free(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_values),
        cmocka_unit_test(json_errors),
        cmocka_unit_test(json_strings_are_opaque),
        cmocka_unit_test(json_depth_and_size),
        cmocka_unit_test(json_writing),
        cmocka_unit_test(hostile_entries),
        cmocka_unit_test(escapes_in_entries),
        cmocka_unit_test(print_and_parse),
        cmocka_unit_test(sources),
        cmocka_unit_test(parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
