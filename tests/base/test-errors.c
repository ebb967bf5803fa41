// errors: what a function answers does not depend on whether its caller asked for a text, and no
// text steers the terminal that it is printed on, whatever file or variable its words came from.
#include "base/base.h"
#include "base/cmocka-all.h"

static void test_prefix_keeps_the_status(void ** state) {
    (void) state;
    struct error err;
    for (int st = ST_INVALID; st <= ST_BUSY; st++) {
        error_set(&err, (enum status) st, "text");
        assert_int_equal(error_prefix(&err, (enum status) st, "before %d", st), st);
        assert_int_equal(err.status, st);
        assert_non_null(strstr(err.text, ": text"));
        assert_int_equal(error_prefix(NULL, (enum status) st, "before %d", st), st);
    }
    error_set(&err, ST_NOT_FOUND, "no such file");
    assert_int_equal(error_prefix(&err, ST_CORRUPT, "out"), ST_CORRUPT);
    assert_int_equal(err.status, ST_CORRUPT);
    assert_string_equal(err.text, "out: no such file");
}

static void test_long_texts(void ** state) {
    (void) state;
    struct error err;
    char text[600];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    error_set(&err, ST_IO, "%s", text);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    error_prefix(&err, ST_IO, "%s", text);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

static void test_no_terminal_is_steered(void ** state) {
    (void) state;
    static const struct {
        const char *in, *out;
    } texts[] = {
        {"plain \"text\", naïve, 名", "plain \"text\", naïve, 名"},
        {"two\nlines\tand a tab", "two\nlines\tand a tab"},
        {"\x1b]0;title\x07", "?]0;title?"},
        {"\x1b[2J\x1b[31mred", "?[2J?[31mred"},
        {"over\rwritten\b\b", "over?written??"},
        {"\x7f", "?"},
        {"\xc2\x9b"
         "2J", // U+009B, which is ESC [ in one character
         "??2J"},
        {"\xc2\xa0\xc2", "\xc2\xa0\xc2"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct error err;
        error_set(&err, ST_INVALID, "%s", texts[i].in);
        assert_string_equal(err.text, texts[i].out);
        error_set(&err, ST_INVALID, "text");
        error_prefix(&err, ST_INVALID, "%s", texts[i].in);
        assert_int_equal(strncmp(err.text, texts[i].out, strlen(texts[i].out)), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefix_keeps_the_status),
        cmocka_unit_test(test_long_texts),
        cmocka_unit_test(test_no_terminal_is_steered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
