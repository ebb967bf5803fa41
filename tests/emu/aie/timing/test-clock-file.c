// test-clock-file: a clock that comes from a file. What is right is taken, figure by figure; what
// is not is refused, with the line and the mend; a device runs under it and says its name.
#include "emu/aie/clock.h"

#include "base/cmocka-all.h"

#include <string.h>
#include <unistd.h>

static enum status read_text(const char * text, struct emu_clock * c, struct error * err) {
    return emu_clock_read(text, strlen(text), c, err);
}

static void figures_are_taken(void ** state) {
    (void) state;
    struct emu_clock c;
    struct error err = {0};
    assert_int_equal(read_text("# a laptop\r\n\n device = strix # its sibling\nname=my-laptop_2.0\n"
                               "mhz = 1601\n\ttoken=9000\npdi_word_ns = 0",
                               &c, &err),
                     ST_OK);
    const struct emu_clock * base = emu_clock_default(AIE_ARCH_AIE2P);
    assert_string_equal(c.name, "my-laptop_2.0");
    assert_int_equal(c.mhz, 1601);
    assert_int_equal(c.token, 9000);
    assert_int_equal(c.pdi_word_ns, 0);
    for (int i = 0; i < emu_clock_figures(); i++) {
        const char * name = emu_clock_figure(i);
        if (strcmp(name, "mhz") && strcmp(name, "token") && strcmp(name, "pdi_word_ns")) {
            assert_int_equal(emu_clock_value(&c, i), emu_clock_value(base, i));
        }
    }
}

// Each figure, written as it is, is read as it was.
static void every_figure_comes_back(void ** state) {
    (void) state;
    struct emu_clock c;
    struct buf b = {0};
    const struct emu_clock * base = emu_clock_default(AIE_ARCH_AIE2);
    buf_printf(&b, "device = strix\n");
    for (int i = 0; i < emu_clock_figures(); i++) {
        buf_printf(&b, "%s = %u\n", emu_clock_figure(i), emu_clock_value(base, i));
    }
    assert_int_equal(emu_clock_read((char *) b.data, b.size, &c, NULL), ST_OK);
    for (int i = 0; i < emu_clock_figures(); i++) {
        assert_int_equal(emu_clock_value(&c, i), emu_clock_value(base, i));
    }
    buf_free(&b);
}

static void wrong_ones_are_refused(void ** state) {
    (void) state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "names no device"},
        {"# nothing\n", "names no device"},
        {"mhz = 1000\n", "line 1: 'mhz = 1000': the first line is"},
        {"device = laptop\n", "the first line is"},
        {"device = phoenix,mhz=1\n", "the first line is"},
        {"device = ./other.clock\n", "the first line is"},
        {"device = phoenix\nmhz\n", "line 2: expected 'figure = number'"},
        {"device = phoenix\nmegahertz = 1\n", "line 2: 'megahertz = 1': there is no such figure"},
        {"device = phoenix\nmhz = 1\nmhz = 2\n", "line 3: 'mhz = 2': it came before"},
        {"device = phoenix\nmhz = 0\n", "from 1 to 100000"},
        {"device = phoenix\nmhz = -5\n", "a whole number"},
        {"device = phoenix\nmhz = 1e3\n", "a whole number"},
        {"device = phoenix\nmhz = 10.5\n", "a whole number"},
        {"device = phoenix\nmhz =\n", "a whole number"},
        {"device = phoenix\nmhz = 99999999999999999999\n", "a whole number"},
        {"device = phoenix\ntoken = 65536\n", "from 1 to 65535"},
        {"device = phoenix\nstream_words = 3\n", "a power of two"},
        {"device = phoenix\nmm2s_decay = 1001\n", "from 0 to 1000"},
        {"device = phoenix\nname = a b\n", "a name has"},
        {"device = phoenix\nname = a\nname = b\n", "the name came before"},
        {"device = phoenix\nname =\n", "a name has"},
        {"device = phoenix\nname = 0123456789012345678901234567890123456789\n", "a name has"},
        {"device = phoenix\ndevice = strix\n", "there is no such figure"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct emu_clock c;
        struct error err = {0};
        enum status st = read_text(cases[i].text, &c, &err);
        if (st != ST_INVALID || !strstr(err.text, cases[i].says)) {
            fail_msg("'%s': %s, not with '%s'", cases[i].text, err.text, cases[i].says);
        }
    }
}

static void files(void ** state) {
    (void) state;
    char path[] = "/tmp/test-clock-XXXXXX.clock", text[200];
    struct emu_clock c;
    struct error err = {0};
    int fd = mkstemps(path, 6);
    assert_true(fd >= 0);
    assert_true(write(fd, "device = phoenix\nname = x\nmhz = 2000\n", 38 - 1) == 37);
    close(fd);
    assert_int_equal(emu_clock_parse(path, &c, &err), ST_OK);
    assert_int_equal(c.mhz, 2000);
    snprintf(text, sizeof text, "%s,ddr=20", path); // settings as behind a device
    assert_int_equal(emu_clock_parse(text, &c, &err), ST_OK);
    assert_int_equal(c.ddr_read, 10000);
    snprintf(text, sizeof text, "%s,colour=red", path);
    assert_int_equal(emu_clock_parse(text, &c, &err), ST_INVALID);
    unlink(path);
    assert_int_not_equal(emu_clock_parse(path, &c, &err), ST_OK);
    assert_non_null(strstr(err.text, path));
    assert_int_not_equal(emu_clock_parse("/", &c, &err), ST_OK);
    assert_int_not_equal(emu_clock_parse("/dev/zero", &c, &err), ST_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_taken),
        cmocka_unit_test(every_figure_comes_back),
        cmocka_unit_test(wrong_ones_are_refused),
        cmocka_unit_test(files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
