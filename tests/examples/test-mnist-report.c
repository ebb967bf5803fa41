// The report of the MNIST example over answers made by hand: what it counts, that a pipe gets plain
// text, that its pictures are PNG files with the digits in them, and that the page escapes its
// inputs.
#include "base/cmocka-all.h"
#include "base/stand-ins.h"
#include "report.h"

#include <unistd.h>

enum { N = 5 };
static uint8_t pixels[N * MNIST_PIXELS], labels[N] = {3, 1, 4, 1, 5};
static struct digits digits = {.n = N, .pixels = pixels, .labels = labels};

static void set_outcome(struct outcome * o, const char * name, const int32_t * answers,
                        const float * sure) {
    *o = (struct outcome){.nodes = 7, .nodes_on_device = 7, .seconds = 1.0};
    snprintf(o->name, sizeof o->name, "%s", name);
    snprintf(o->description, sizeof o->description, "<b>&\"%s\"", name);
    o->predicted = calloc(N, sizeof *o->predicted);
    o->probabilities = calloc(N * MNIST_CLASSES, sizeof *o->probabilities);
    for (int i = 0; i < N; i++) {
        o->predicted[i] = answers[i];
        o->probabilities[i * MNIST_CLASSES + answers[i]] = sure[i];
    }
}

static struct report make(void) {
    static const int32_t on_npu[N] = {3, 7, 9, 1, 5}, on_cpu[N] = {3, 7, 4, 1, 5};
    static const float sure[N] = {1.0f, 0.5f, 0.75f, 1.0f, 0.9f};
    struct report r = {.digits = &digits, .batch = 5, .macs = 397000};
    for (int i = 0; i < N; i++) {
        memset(pixels + i * MNIST_PIXELS, 0, MNIST_PIXELS);
        for (int y = 6; y < 22; y++) {
            pixels[i * MNIST_PIXELS + y * MNIST_SIDE + 10 + i] = 255;
        }
    }
    set_outcome(&r.device, "HSA0", on_npu, sure);
    set_outcome(&r.reference, "CPU", on_cpu, sure);
    snprintf(r.network, sizeof r.network, "784-500-10, f32, <x>.gguf");
    assert_true(report_conclude(&r));
    return r;
}

static void test_conclusions(void ** state) {
    (void) state;
    struct report r = make();
    assert_int_equal(r.device.right, 3);
    assert_int_equal(r.reference.right, 4);
    assert_int_equal(r.agree, 4);
    assert_true(r.difference == 0.75);
    assert_int_equal(r.confusion[1][7], 1);
    assert_int_equal(r.confusion[1][1], 1);
    assert_int_equal(r.confusion[4][9], 1);
    assert_int_equal(r.n_wrong, 2);
    assert_int_equal(r.wrong[0], 2); // 75 % sure
    assert_int_equal(r.wrong[1], 1);
    assert_false(report_agrees(&r)); // one in five
    r.reference.right = 3;
    assert_true(report_agrees(&r));
    report_free(&r);
}

// 0.1 % is the limit, and is allowed.
static void test_limit(void ** state) {
    (void) state;
    struct digits many = {.n = 10000};
    struct report r = {.digits = &many};
    snprintf(r.reference.name, sizeof r.reference.name, "CPU");
    r.device.right = 9800;
    static const struct {
        int64_t right;
        bool agrees;
    } cases[] = {{9800, true}, {9810, true}, {9790, true}, {9811, false}, {9789, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        r.reference.right = cases[i].right;
        assert_int_equal(report_agrees(&r), cases[i].agrees);
    }
}

static char * printed(const struct report * r, enum style style, int width, int show) {
    char * text = NULL;
    size_t size = 0;
    FILE * f = open_memstream(&text, &size);
    report_print(f, r, style, width, show);
    fclose(f);
    return text;
}

static void test_text(void ** state) {
    (void) state;
    struct report r = make();
    char * plain = printed(&r, STYLE_PLAIN, 80, 6);
    for (const char * c = plain; *c; c++) {
        assert_true(*c == '\n' || (*c >= ' ' && *c <= '~'));
    }
    assert_non_null(strstr(plain, "60.00 %"));
    assert_non_null(strstr(plain, "80.00 %"));
    assert_non_null(strstr(plain, "4 taken for 9, 75 %   1 taken for 7, 50 %"));
    assert_non_null(strstr(plain, "WRONG: "));
    assert_non_null(strstr(plain, "@")); // ink
    free(plain);

    // Narrow as it may be, there is one digit in a row; none is drawn when none is asked for.
    char * narrow = printed(&r, STYLE_BLOCKS, 1, 2);
    assert_non_null(strstr(narrow, "█"));
    assert_null(strstr(narrow, "\033"));
    assert_null(strstr(narrow, "75 %   1 taken"));
    free(narrow);
    char * none = printed(&r, STYLE_COLOR, 80, 0);
    assert_null(strstr(none, "taken for 9"));
    assert_non_null(strstr(none, "\033[0m"));
    free(none);
    report_free(&r);
}

// ---- pictures ----

static void test_base64(void ** state) {
    (void) state;
    static const char * const cases[][2] = {{"", ""},
                                            {"f", "Zg=="},
                                            {"fo", "Zm8="},
                                            {"foo", "Zm9v"},
                                            {"foob", "Zm9vYg=="},
                                            {"fooba", "Zm9vYmE="},
                                            {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf b = {0};
        base64(&b, (const uint8_t *) cases[i][0], strlen(cases[i][0]));
        assert_string_equal(b.data ? (char *) b.data : "", cases[i][1]);
        buf_free(&b);
    }
}

// The check values that the definitions of CRC-32 and Adler-32 are known by.
static void test_sums(void ** state) {
    (void) state;
    assert_int_equal(png_crc((const uint8_t *) "123456789", 9), 0xcbf43926);
    assert_int_equal(png_crc((const uint8_t *) "IEND", 4), 0xae426082);
    assert_int_equal(png_adler((const uint8_t *) "Wikipedia", 9), 0x11e60398);
}

static size_t decode(const char * text, uint8_t * out) {
    static const char digits64[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = 0;
    uint32_t word = 0, bits_held = 0;
    for (; *text && *text != '='; text++) {
        const char * at = strchr(digits64, *text);
        assert_non_null(at);
        word = word << 6 | (uint32_t) (at - digits64);
        bits_held += 6;
        if (bits_held >= 8) {
            bits_held -= 8;
            out[n++] = (uint8_t) (word >> bits_held);
        }
    }
    return n;
}

static uint32_t big(const uint8_t * p) {
    return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | p[3];
}

static void test_png(void ** state) {
    (void) state;
    static const uint8_t image[2 * 4] = {0, 255, 128, 17, 255, 0, 34, 254};
    // Ink is dark: 15 - value / 17, two to a byte, each row after a 0.
    static const uint8_t stored[] = {0, 0xf0, 0x8e, 0, 0x0f, 0xd1};
    struct buf b = {0};
    uint8_t png[256];
    png_base64(&b, image, 4, 2);
    size_t size = decode((char *) b.data, png);
    assert_memory_equal(png, "\x89PNG\r\n\x1a\n", 8);
    size_t at = 8;
    static const char * const chunks[] = {"IHDR", "IDAT", "IEND"};
    for (int i = 0; i < 3; i++) {
        assert_true(at + 12 <= size);
        uint32_t length = big(png + at);
        const uint8_t * data = png + at + 8;
        assert_true(at + 12 + length <= size);
        assert_memory_equal(png + at + 4, chunks[i], 4);
        assert_int_equal(big(data + length), png_crc(png + at + 4, length + 4));
        if (i == 0) {
            static const uint8_t header[] = {0, 0, 0, 4, 0, 0, 0, 2, 4, 0, 0, 0, 0};
            assert_int_equal(length, sizeof header);
            assert_memory_equal(data, header, sizeof header);
        } else if (i == 1) {
            assert_int_equal((data[0] << 8 | data[1]) % 31, 0); // zlib's check of its header
            assert_int_equal(data[2], 1);                       // last block, stored
            assert_int_equal(data[3] | data[4] << 8, sizeof stored);
            assert_int_equal((data[3] ^ data[5]) & (data[4] ^ data[6]), 0xff);
            assert_memory_equal(data + 7, stored, sizeof stored);
            assert_int_equal(big(data + 7 + sizeof stored), png_adler(stored, sizeof stored));
        }
        at += 12 + length;
    }
    assert_int_equal(at, size);
    buf_free(&b);
}

static void test_page(void ** state) {
    (void) state;
    char path[] = "/tmp/test-mnist-report-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct report r = make();
    struct error err = {0};
    uint8_t * page;
    size_t size;
    assert_int_equal(report_html(&r, path, &err), ST_OK);
    assert_int_equal(file_read(path, 1 << 24, &page, &size, &err), ST_OK);
    page[size - 1] = 0;
    int pictures = 0;
    for (const char * at = (char *) page; (at = strstr(at, "data:image/png;base64,iVBORw0KGgo"));
         at++) {
        pictures++;
    }
    assert_int_equal(pictures, 2);
    assert_null(strstr((char *) page, "<b>&\""));
    assert_non_null(strstr((char *) page, "&lt;b&gt;&amp;&quot;HSA0&quot;"));
    assert_null(strstr((char *) page, "<x>"));
    assert_null(strstr((char *) page, "://")); // nothing from elsewhere
    free(page);
    remove(path);
    assert_int_equal(report_html(&r, "/nonexistent/report.html", &err), ST_IO);
    assert_non_null(strstr(err.text, "/nonexistent/report.html"));
    report_free(&r);
}

// What is no regular file stays as it is, and so does what somebody put at the name that the page
// is written under before it has its own.
static void test_no_file(void ** state) {
    (void) state;
    char dir[] = "/tmp/test-mnist-report-XXXXXX", path[64], part[80];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/report.html", dir);
    snprintf(part, sizeof part, "%s.part", path);
    struct report r = make();
    for (int kind = 0; stand_ins[kind]; kind++) {
        struct stand_in s;
        struct error err = {0};
        if (!stand_in_make(&s, kind, path)) {
            continue;
        }
        assert_int_equal(report_html(&r, path, &err), ST_IO);
        stand_in_check(&s, kind, "--html");
        assert_non_null(strstr(err.text, path));
        assert_true(stand_in_make(&s, kind, part));
        assert_int_equal(report_html(&r, path, &err), ST_OK);
        assert_int_equal(unlink(path), 0);
        stand_in_check(&s, kind, "--html, part");
    }
    report_free(&r);
    assert_int_equal(rmdir(dir), 0); // nothing is left
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conclusions), cmocka_unit_test(test_limit),
        cmocka_unit_test(test_text),        cmocka_unit_test(test_base64),
        cmocka_unit_test(test_sums),        cmocka_unit_test(test_png),
        cmocka_unit_test(test_page),        cmocka_unit_test(test_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
