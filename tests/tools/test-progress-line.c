// test-progress-line: a pipe has a line a minute, however often progress is told, and no sign of a
// terminal's language; a terminal is drawn on each time.
#include "base/cmocka-all.h"

#include "../../tools/progress-line.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

// What is told at each second of `seconds`, read again.
static void tell(FILE * to, int seconds) {
    struct progress_line p;
    progress_line_begin(&p, to, "tool", 1000);
    for (int i = 0; i <= seconds; i++) {
        progress_line_tell(&p, 1000 + i, "%d of %d", i, seconds);
        progress_line_tell(&p, 1000 + i, "%d of %d", i, seconds);
    }
    progress_line_end(&p);
}

static void in_a_file(void ** state) {
    (void) state;
    static const struct {
        int seconds;
        const char * text;
    } rows[] = {
        {0, ""},
        {59, ""},
        {60, "tool: 60 of 60\n"},
        {200, "tool: 60 of 200\ntool: 120 of 200\ntool: 180 of 200\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256] = {0};
        FILE * f = tmpfile();
        assert_non_null(f);
        tell(f, rows[i].seconds);
        rewind(f);
        size_t n = fread(text, 1, sizeof text - 1, f);
        assert_string_equal(text, rows[i].text);
        assert_int_equal(n, strlen(rows[i].text));
        fclose(f);
    }
}

static void on_a_terminal(void ** state) {
    (void) state;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) {
        close(master);
        skip_test("no terminal can be made here");
    }
    int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0);
    FILE * f = fdopen(terminal, "w");
    assert_non_null(f);
    tell(f, 1);
    fflush(f);
    static const char want[] =
        "\r0 of 1 \033[K\r0 of 1 \033[K\r1 of 1 \033[K\r1 of 1 \033[K\r\033[K";
    char text[sizeof want] = {0};
    for (size_t n = 0; n < sizeof want - 1;) {
        ssize_t got = read(master, text + n, sizeof want - 1 - n);
        assert_true(got > 0);
        n += (size_t) got;
    }
    assert_string_equal(text, want);
    fclose(f);
    close(master);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_a_file),
        cmocka_unit_test(on_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
