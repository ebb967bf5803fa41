// errors: what a function answers does not depend on whether its caller asked for a text, and no
// text steers the terminal that it is printed on, whatever file or variable its words came from.
#include "base/base.h"
#include "base/cmocka-all.h"
#include "base/harmful.h"

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
        {"two\nlines\tand a tab", "two?lines?and a tab"}, // a line of its own could be anybody's
        {"\x1b]0;title\x07", "?]0;title?"},
        {"\x1b[2J\x1b[31mred", "?[2J?[31mred"},
        {"over\rwritten\b\b", "over?written??"},
        {"\x7f", "?"},
        {"\xc2\x9b"
         "2J", // U+009B, which is ESC [ in one character
         "??2J"},
        {"\xc2\xa0\xc2", "\xc2\xa0?"},
        {"\xe2\x80\xaetxt.exe", "???txt.exe"}, // U+202E: right to left from here on
        {"\xe2\x81\xa6\xe2\x81\xa9\xd8\x9c", "????????"},
        {"\xe2\x80\xa8|\xe2\x80\xa9", "???|???"},        // separators of lines and paragraphs
        {"\x9b\xff|\xc0\x80|\xed\xa0\x80", "??|??|???"}, // no UTF-8
        {"\xf0\x9f\x98\x80 \xef\xbf\xbf", "\xf0\x9f\x98\x80 ???"},
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

// The few texts of several lines are ours, and say so; what they quote steers nothing either.
static void test_lines(void ** state) {
    (void) state;
    struct error err;
    error_set_lines(&err, ST_INVALID, "line 1: wrong\n  %s\n  ^", "\x1b[2J\xc2\x9b");
    assert_string_equal(err.text, "line 1: wrong\n  ?[2J??\n  ^");
    error_prefix(&err, ST_INVALID, "%s", "a\nb");
    assert_string_equal(err.text, "a?b: line 1: wrong\n  ?[2J??\n  ^");
    error_set(&err, ST_INVALID, "%s", HARMFUL);
    assert_false(harmful_in(err.text));
    error_prefix(&err, ST_INVALID, "%s", HARMFUL);
    assert_false(harmful_in(err.text));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefix_keeps_the_status),
        cmocka_unit_test(test_long_texts),
        cmocka_unit_test(test_no_terminal_is_steered),
        cmocka_unit_test(test_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
