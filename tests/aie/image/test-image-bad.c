// image: hostile bytes. Every truncation and every flipped byte of a small PDI, CDO and TXN is
// either refused with a reason or walked within bounds; the buffers are exact allocations, so that
// a sanitizer sees any step behind the end.
#include "aie/image/image.h"
#include "base/cmocka-all.h"

static bool touch(void * user, const struct image_command * c) {
    uint32_t * sum = user;
    for (uint32_t i = 0; i < c->n_words && c->data; i++) {
        *sum += load_u32(c->data + 4 * (size_t) i);
    }
    return true;
}

typedef enum status (*reader)(const uint8_t *, size_t, image_visit, void *, struct error *);

static enum status read_cdo(const uint8_t * data, size_t size, image_visit visit, void * user,
                            struct error * err) {
    (void) visit;
    (void) user;
    struct cdo c;
    enum status st = cdo_read_file_form(data, size, &c, err);
    if (st == ST_OK) {
        cdo_free(&c);
    }
    return st;
}

static void fill_cdo(struct cdo * c) {
    static const uint32_t block[6] = {1, 2, 3, 4, 5, 6};
    static const uint32_t program[260] = {9};
    cdo_begin(c);
    cdo_mask_write(c, image_addr(0, 2, 0x32000), 1, 0);
    cdo_block_write(c, image_addr(0, 2, 0x20000), program, 260);
    cdo_write(c, image_addr(0, 2, 0x1f000), 2);
    cdo_block_write(c, image_addr(0, 2, 0x1d000), block, 6);
}

static void sample_cdo(uint8_t ** data, size_t * size) {
    struct cdo c;
    fill_cdo(&c);
    *data = c.words.data;
    *size = c.words.size;
}

static void sample_pdi(uint8_t ** data, size_t * size) {
    struct cdo c;
    fill_cdo(&c);
    assert_int_equal(pdi_write(&c, 1, data, size, NULL), ST_OK);
    cdo_free(&c);
}

static void sample_txn(uint8_t ** data, size_t * size) {
    static const uint32_t bd[8] = {16, 0, 0, 0, 0x80000000, 0x02000000, 0, 0x02000000};
    struct txn t;
    txn_begin(&t, 4, 3);
    txn_block_write(&t, image_addr(1, 0, 0x1d000), bd, 8);
    txn_patch_address(&t, image_addr(1, 0, 0x1d004), 1, 64);
    txn_mask_write(&t, image_addr(1, 0, 0x1d200), 0x1f00, 0xf00);
    txn_write(&t, image_addr(1, 0, 0x1d204), 0x80000000);
    txn_wait(&t, 1, 0, 0, 0);
    uint32_t * insts;
    size_t n;
    assert_int_equal(txn_end(&t, &insts, &n, NULL), ST_OK);
    *data = (uint8_t *) insts;
    *size = n * 4;
}

static const struct {
    const char * name;
    void (*sample)(uint8_t **, size_t *);
    reader read;
} formats[] = {
    {"pdi", sample_pdi, pdi_read},
    {"cdo", sample_cdo, read_cdo},
    {"txn", sample_txn, txn_read},
};
enum { FORMATS = 3 };

// Reads a copy of exactly size bytes.
static enum status read_exact(reader read, const uint8_t * data, size_t size, struct error * err) {
    uint8_t * copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    uint32_t sum = 0;
    *err = (struct error){0};
    enum status st = read(copy, size, touch, &sum, err);
    free(copy);
    assert_int_equal(st, err->status);
    assert_int_equal(st == ST_OK, err->text[0] == '\0');
    return st;
}

static void test_truncated(void ** state) {
    (void) state;
    for (int f = 0; f < FORMATS; f++) {
        uint8_t * data;
        size_t size;
        struct error err;
        formats[f].sample(&data, &size);
        assert_int_equal(read_exact(formats[f].read, data, size, &err), ST_OK);
        for (size_t n = 0; n < size; n++) {
            if (read_exact(formats[f].read, data, n, &err) == ST_OK) {
                fail_msg("%s of %zu bytes is accepted when %zu are there", formats[f].name, size,
                         n);
            }
        }
        free(data);
    }
}

static void test_flipped(void ** state) {
    (void) state;
    for (int f = 0; f < FORMATS; f++) {
        uint8_t * data;
        size_t size, refused = 0;
        struct error err;
        formats[f].sample(&data, &size);
        for (size_t i = 0; i < size; i++) {
            uint8_t kept = data[i];
            static const uint8_t flips[] = {0x01, 0x80, 0xff};
            for (size_t k = 0; k < sizeof flips; k++) {
                data[i] = kept ^ flips[k];
                refused += read_exact(formats[f].read, data, size, &err) != ST_OK;
            }
            data[i] = kept;
        }
        assert_true(refused > 40); // headers at least
        free(data);
    }
}

// Every word in turn takes values that tend to break length arithmetic. Headers get a right
// checksum, so that what is behind them is reached.
static void fix_checksums(uint8_t * data, size_t size, int format) {
    static const struct {
        int format;
        size_t at, n;
    } sums[] = {{0, 0x10, 31}, {0, 0x90, 15}, {0, 0xd0, 31}, {0, 0x150, 4}, {1, 0, 4}};
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        if (sums[i].format == format && sums[i].at + 4 * sums[i].n + 4 <= size) {
            uint32_t sum = 0;
            for (size_t k = 0; k < sums[i].n; k++) {
                sum += load_u32(data + sums[i].at + 4 * k);
            }
            store_u32(data + sums[i].at + 4 * sums[i].n, ~sum);
        }
    }
}

static void test_hostile_words(void ** state) {
    (void) state;
    static const uint32_t values[] = {0,          1,          2,          3,
                                      4,          0xff,       0x7fffffff, 0x80000000,
                                      0xffffffff, 0xfffffffc, 0x3fffffff, 0x40000000,
                                      0x00ff0105, 0x00ff0111, 0x00010105, 0x00000103};
    for (int f = 0; f < FORMATS; f++) {
        uint8_t * data;
        size_t size;
        struct error err;
        formats[f].sample(&data, &size);
        uint8_t * copy = malloc(size);
        for (size_t i = 0; i + 4 <= size; i += 4) {
            for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
                memcpy(copy, data, size);
                store_u32(copy + i, values[k]);
                fix_checksums(copy, size, f);
                read_exact(formats[f].read, copy, size, &err);
            }
        }
        free(copy);
        free(data);
    }
}

static void set_word(uint8_t * data, size_t size, size_t at, uint32_t value, int format) {
    assert_true(at + 4 <= size);
    store_u32(data + at, value);
    fix_checksums(data, size, format);
}

// Named lies and the status that each must get.
static void test_lies(void ** state) {
    (void) state;
    static const struct {
        int format;
        uint32_t at, value;
        enum status want;
    } lies[] = {
        {0, 0x38, 0, ST_INVALID},                    // identification
        {0, 0x14, 2, ST_UNSUPPORTED},                // two images
        {0, 0x20, 0x40000000, ST_CORRUPT},           // partition header behind the file
        {0, 0xd0, 0x3fffffff, ST_CORRUPT},           // partition longer than the file
        {0, 0xd4, 0x7fffffff, ST_CORRUPT},           // more used than there is
        {0, 0xf0, 0xffffffff, ST_CORRUPT},           // data behind the file
        {0, 0x150 + 12, 0xfffffff0, ST_CORRUPT},     // commands behind the partition
        {0, 0x150 + 4, 0x12345678, ST_INVALID},      // not a CDO
        {0, 0x150 + 20, 0x00000199, ST_UNSUPPORTED}, // unknown command
        {0, 0x150 + 20, 0x00ff0111, ST_CORRUPT},     // NOP longer than the rest
        {1, 12, 5, ST_CORRUPT},                      // CDO file with bytes behind its end
        {2, 0, 0x06030200, ST_INVALID},              // version
        {2, 4, 0x0100, ST_UNSUPPORTED},              // no columns
        {2, 8, 4, ST_CORRUPT},                       // count of operations
        {2, 12, 0x10, ST_CORRUPT},                   // size
        {2, 16, 0x04, ST_UNSUPPORTED},               // unknown operation
        {2, 28, 0x0c, ST_CORRUPT},                   // block shorter than its own header
        {2, 28, 0x31, ST_CORRUPT},                   // block of half words
        {2, 28, 0xfffffffc, ST_CORRUPT},             // block longer than the rest
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        uint8_t * data;
        size_t size;
        struct error err;
        int f = lies[i].format;
        formats[f].sample(&data, &size);
        set_word(data, size, lies[i].at, lies[i].value, f);
        enum status got = read_exact(formats[f].read, data, size, &err);
        if (got != lies[i].want) {
            fail_msg("%s with 0x%x at 0x%x: %s (%s)", formats[f].name, lies[i].value, lies[i].at,
                     status_name(got), err.text);
        }
        free(data);
    }
}

static void test_without_error(void ** state) {
    (void) state;
    uint32_t sum = 0;
    assert_int_not_equal(pdi_read((const uint8_t *) "", 0, touch, &sum, NULL), ST_OK);
    assert_int_not_equal(txn_read((const uint8_t *) "", 0, touch, &sum, NULL), ST_OK);
}

static void test_failed_buffers(void ** state) {
    (void) state;
    struct cdo c;
    struct error err;
    uint8_t * pdi;
    size_t size;
    cdo_begin(&c);
    cdo_block_write(&c, 0, NULL, SIZE_MAX);
    assert_int_equal(pdi_write(&c, 1, &pdi, &size, &err), ST_NO_MEMORY);
    cdo_free(&c);
    struct cdo never_begun = {0};
    assert_int_equal(pdi_write(&never_begun, 1, &pdi, &size, &err), ST_NO_MEMORY);
    struct txn t;
    uint32_t * insts;
    txn_begin(&t, 1, 3);
    txn_block_write(&t, 0, NULL, SIZE_MAX);
    assert_int_equal(txn_end(&t, &insts, &size, &err), ST_NO_MEMORY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_truncated),     cmocka_unit_test(test_flipped),
        cmocka_unit_test(test_hostile_words), cmocka_unit_test(test_lies),
        cmocka_unit_test(test_without_error), cmocka_unit_test(test_failed_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
