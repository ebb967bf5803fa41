// config: JSON from outside is read or refused with its line and column, whatever it is; an entry
// of a configuration becomes a spec or an error that names what is wrong; printing gives the spec
// back.
#include "base/cmocka-all.h"
#include "kernel/config.h"

#include <math.h>

// The text ends where the memory ends, so that a sanitizer sees a byte too far.
static enum status parse(const char * text, size_t size, struct json_doc * doc,
                         struct error * err) {
    char * copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    enum status st = json_parse(copy, size, doc, err);
    free(copy);
    return st;
}

static void json_values(void ** state) {
    (void) state;
    static const char text[] = " { \"a\" : [1, -9223372036854775808, 9223372036854775807, 0.5, -0, "
                               "1e2, 9223372036854775808,\n"
                               "  1e999], \"b\": {\"c\": \"x\\n\\u00e9\\ud83d\\ude00\\\"/\", "
                               "\"c\": null}, \"d\": true, \"e\": "
                               "false, \"f\": {}, \"g\": []} ";
    struct json_doc doc;
    struct error err = {0};
    assert_int_equal(parse(text, sizeof text - 1, &doc, &err), ST_OK);
    const struct json * a = json_member(doc.root, "a", NULL)->first;
    assert_int_equal(a->integer, 1);
    a = a->next;
    assert_true(a->type == JSON_INTEGER && a->integer == INT64_MIN);
    a = a->next;
    assert_true(a->type == JSON_INTEGER && a->integer == INT64_MAX);
    a = a->next;
    assert_true(a->type == JSON_REAL && a->real == 0.5);
    a = a->next;
    assert_true(a->type == JSON_INTEGER && a->integer == 0);
    a = a->next;
    assert_true(a->type == JSON_REAL && a->real == 100);
    a = a->next;
    assert_true(a->type == JSON_REAL && a->real == 9223372036854775808.0);
    a = a->next;
    assert_true(a->type == JSON_REAL && isinf(a->real) && !a->next);
    assert_int_equal(a->line, 2);
    assert_int_equal(a->column, 3);
    int n;
    const struct json * c = json_member(json_member(doc.root, "b", NULL), "c", &n);
    assert_int_equal(n, 2);
    assert_string_equal(c->string, "x\n\xc3\xa9\xf0\x9f\x98\x80\"/");
    assert_true(json_member(doc.root, "d", NULL)->boolean);
    assert_null(json_member(doc.root, "f", NULL)->first);
    assert_null(json_member(doc.root, "nobody", NULL));
    struct buf quoted = {0};
    json_quote(&quoted, c->string);
    assert_string_equal((char *) quoted.data, "\"x\\u000a\xc3\xa9\xf0\x9f\x98\x80\\\"/\"");
    buf_free(&quoted);
    json_free(&doc);
}

static void json_errors(void ** state) {
    (void) state;
    static const struct {
        const char *text, *where, *why;
    } rows[] = {
        {"", "line 1, column 1", "a value"},
        {"{\"a\": 1,}", "line 1, column 9", "name in double quotes"},
        {"{\n  \"a\" 1}", "line 2, column 7", "':'"},
        {"{\n\n \"a\": [1 2]}", "line 3, column 10", "',' or ']'"},
        {"{\"a\": 1", "line 1, column 8", "',' or '}'"},
        {"[1] x", "line 1, column 5", "behind the end"},
        {"[01]", "line 1, column 2", "begin with 0"},
        {"[1.]", "line 1, column 4", "digit"},
        {"[-]", "line 1, column 3", "digit"},
        {"[1e+]", "line 1, column 5", "digit"},
        {"[tru]", "line 1, column 2", "a value"},
        {"[nan]", "line 1, column 2", "a value"},
        {"[Infinity]", "line 1, column 2", "a value"},
        {"['a']", "line 1, column 2", "a value"},
        {"// x\n[]", "line 1, column 1", "a value"},
        {"[\"a", "line 1, column 2", "no end"},
        {"[\"a\\", "line 1, column 2", "no end"},
        {"[\"a\\x\"]", "line 1, column 5", "escape"},
        {"[\"\\u12g4\"]", "line 1, column 7", "hexadecimal"},
        {"[\"\\u0000\"]", "line 1, column 9", "zero byte"},
        {"[\"\\ud800\"]", "line 1, column 9", "surrogate"},
        {"[\"\\ude00\"]", "line 1, column 9", "surrogate"},
        {"[\"\\ud800\\u0041\"]", "line 1, column 15", "surrogate"},
        {"[\"a\nb\"]", "line 1, column 4", "control"},
        {"[\"\xff\"]", "line 1, column 3", "UTF-8"},
        {"[\"\xc0\xaf\"]", "line 1, column 3", "UTF-8"},
        {"[\"\xed\xa0\x80\"]", "line 1, column 3", "UTF-8"},
        {"[\"\xf4\x90\x80\x80\"]", "line 1, column 3", "UTF-8"},
        {"[\"\xe2\x82\"]", "line 1, column 3", "UTF-8"},
        {"[0.0000000000000000000000000000000000000000000000000000000000000001]", "column 2", "63"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct json_doc doc;
        struct error err = {0};
        assert_int_equal(parse(rows[i].text, strlen(rows[i].text), &doc, &err), ST_INVALID);
        if (!strstr(err.text, rows[i].where) || !strstr(err.text, rows[i].why)) {
            fail_msg("%s: %s", rows[i].text, err.text);
        }
        assert_null(doc.root);
        assert_null(doc.blocks);
    }
}

static void json_depth_and_size(void ** state) {
    (void) state;
    enum { BIG = 1 << 20 };
    char * text = malloc(BIG);
    struct json_doc doc;
    struct error err = {0};
    memset(text, '[', BIG);
    assert_int_equal(parse(text, BIG, &doc, &err), ST_INVALID);
    assert_non_null(strstr(err.text, "nested too deeply"));
    memset(text + JSON_MAX_DEPTH, ']', JSON_MAX_DEPTH);
    assert_int_equal(parse(text, 2 * JSON_MAX_DEPTH, &doc, &err), ST_OK);
    json_free(&doc);
    for (int i = 0; i < BIG; i += 5) {
        memcpy(text + i, "{\"\":[", BIG - i < 5 ? (size_t) (BIG - i) : 5);
    }
    assert_int_equal(parse(text, BIG, &doc, &err), ST_INVALID);
    memset(text, '9', BIG);
    assert_int_equal(parse(text, BIG, &doc, &err), ST_INVALID);
    free(text);

    size_t n = 2 * ((size_t) JSON_MAX_VALUES + 2);
    text = malloc(n);
    memset(text, ',', n);
    text[0] = '[';
    for (size_t i = 1; i < n; i += 2) {
        text[i] = '1';
    }
    assert_int_equal(json_parse(text, n, &doc, &err), ST_INVALID);
    assert_non_null(strstr(err.text, "too many values"));
    free(text);
}

// ---- entries ----

static const char good[] =
    "{\"kernel_name\": \"ggml_op_add\", \"kernel_source\": \"binary_ops.py\", \"arch\": \"aie2\","
    " \"input_tensors\": [\"(64,2,1,1)/f32\", \"(64,1,1,1)/f32/(4,512,512,512)\"],"
    " \"output_tensor\": \"(64,2,1,1)/f32\", \"exported_name\": \"x-1.b\", \"comment\": \"c\"}";

static enum status parse_entry(const char * text, size_t size, const char * arch,
                               struct kernel_config * out, struct error * err) {
    struct json_doc doc;
    enum status st = parse(text, size, &doc, err);
    if (st == ST_OK) {
        st = kernel_config_parse(doc.root, arch, out, err);
        json_free(&doc);
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

// For each op of the table: print, parse, the same kernel; parameters bit by bit.
static void print_and_parse(void ** state) {
    (void) state;
    for (int op = 0; op < KERNEL_OP_COUNT; op++) {
        const struct kernel_op_info * info = kernel_op_info((enum kernel_op) op);
        for (int arch = 0; arch < AIE_ARCH_COUNT; arch++) {
            struct kernel_spec spec = {.op = (enum kernel_op) op,
                                       .arch = (enum aie_arch) arch,
                                       .n_inputs = info->n_inputs};
            for (int i = 0; i < info->n_inputs; i++) {
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
        }
    }
}

static void parameters(void ** state) {
    (void) state;
    const struct kernel_op_info * info = NULL;
    for (int op = 0; op < KERNEL_OP_COUNT && !(info && info->n_params); op++) {
        info = kernel_op_info((enum kernel_op) op);
    }
    if (!info->n_params) {
        print_message("no op has parameters yet\n");
        skip();
    }
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
                   info->ggml_name, info->family);
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
        cmocka_unit_test(json_values),         cmocka_unit_test(json_errors),
        cmocka_unit_test(json_depth_and_size), cmocka_unit_test(hostile_entries),
        cmocka_unit_test(print_and_parse),     cmocka_unit_test(parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
