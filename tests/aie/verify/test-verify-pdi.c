// What the verifier stops in a PDI: commands that a PDI must not have, and headers by which
// firmware could read other commands than we do.
#include "hostile.h"

// ---- commands ----

// A stream that is right over a PDI with results from a core, and with one command more: of all
// bits, or under a mask.
static enum status over_masked(bool results, uint32_t addr, uint32_t mask, uint32_t value) {
    struct array a;
    uint8_t * image;
    size_t size;
    array_begin(&a, arch);
    array_token_route(&a, 0);
    if (results) {
        array_route(&a, (struct array_port){0, 2, 0}, &(struct array_port){0, 0, 0}, 1);
    }
    if (addr && mask == UINT32_MAX) {
        cdo_write(&a.setup, addr, value);
    } else if (addr) {
        cdo_mask_write(&a.setup, addr, mask, value);
    }
    assert_int_equal(array_end(&a, &image, &size, NULL), ST_OK);
    struct txn t;
    begin(&t);
    feed(&t);
    take(&t);
    enum status st = verify_over(&t, image, size);
    free(image);
    return st;
}

static enum status over_pdi(bool results, uint32_t addr, uint32_t value) {
    return over_masked(results, addr, UINT32_MAX, value);
}

static void test_masks_of_pdis(void ** state) {
    (void) state;
    // A control port, with what is written beside the mask; and other bits than the one form.
    static const struct {
        uint32_t addr, mask, value;
        bool passes;
    } cases[] = {
        {0x3f000, 0, 0x80000005, false},
        {2u << 20 | 0x3f00c, 0xff, 0x80000000, false},
        {2u << 20 | CORE_CONTROL, 0, 1, false},
        {2u << 20 | (CORE_S2MM_QUEUE - 4), 0, 1, true}, // as many PDIs have it
        {2u << 20 | (CORE_MM2S_QUEUE + 4), 0, 1, true},
        {1u << 20 | 0xa0630, 0, 1, true},
        {2u << 20 | (CORE_S2MM_QUEUE - 4), 0, 3, false},
        {2u << 20 | (CORE_S2MM_QUEUE - 4), 0, 8, false},
        {2u << 20 | (CORE_S2MM_QUEUE - 4), 2, 1, false},
        {1u << 20 | 0xa0630, 2, 3, false},
        {SHIM_S2MM_CONTROL, 0, 1, false},
        {1u << 20 | 0xa0630, 2, 2, true},
        {1u << 20 | 0xa0630, 0, 0, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum status st = over_masked(true, cases[i].addr, cases[i].mask, cases[i].value);
        if (cases[i].passes && st != ST_OK) {
            fail_msg("%zu: %s", i, said);
        } else if (!cases[i].passes) {
            check_said(st, "beside its mask");
        }
    }
}

static void test_pdis(void ** state) {
    (void) state;
    uint32_t east = (uint32_t) image_addr(aie_target(arch)->columns - 1, 2, 0);
    const struct {
        uint32_t addr, value;
        const char * words;
    } cases[] = {
        {60u << 25, 0, "column 60, row 0"},
        {11u << 20, 0, "row 11"},
        {0xffffc, 0, "register 0xffffc"},
        {SHIM_MM2S_QUEUE, 0, "started by the configuration, which has no operands"},
        {2u << 20 | CORE_CONTROL, 1, "is enabled without a program"},
        {2u << 20 | CORE_CONTROL, 0x10, "control of core (0,2) is set to 0x10"},
        {0x3f000, 0x80000005, "led to the control port of shim (0,0)"},
        {1u << 20 | 0xb0018, 0x80000000, "led to the control port of memtile (0,1)"},
        {2u << 20 | 0x3f00c, 0x80000000, "led to the control port of core (0,2)"},
        {2u << 20 | 0x3f024, 0x80000001, "leaves the partition"},
        {2u << 20 | 0x3f12c, 0x80000000, "enters the partition"},
        {east | 0x3f04c, 0x80000001, "leaves the partition"},
        {0x3f008, 0x80000005, "reaches the controller at port South 0"},
        {0x3f018, 0x80000005, "leaves the array at port South 4"},
        {0x3f108, 0x80000000, "enters the array at port South 0"},
        {SHIM_DEMUX, 0, "leaves the array at port South 2"}, // the results' way
        {2u << 20 | 0x3f004, 0x8000007f, "takes its words from slave 127"},
        {1u << 20 | 0xc0000, 64, "lock 0 of memtile (0,1) is set to 64"},
        {2u << 20 | 0x36030, 0, "register 0x36030"},
        {2u << 20 | CORE_BD, 0, "descriptor 0 of core (0,2) is written in part"},
        {1u << 20 | (MEM_BD + 0x44), 0, "descriptor 2 of memtile (0,1) is written in part"},
    };
    if (over_pdi(true, 0, 0) != ST_OK) {
        fail_msg("%s", said);
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_said(over_pdi(true, cases[i].addr, cases[i].value), cases[i].words);
        assert_true(!strncmp(said, "PDI at offset 0x", 16));
    }
    check_said(over_pdi(false, 0, 0), "no stream leads there");
    struct txn t; // cut off
    begin(&t);
    feed(&t);
    take(&t);
    check_said(verify_over(&t, pdi, 0x200), "PDI: ");
    // more columns than the chip has
    struct error err = {0};
    assert_int_equal(aie_verify_pdi(arch, aie_target(arch)->columns, pdi, pdi_size, &err), ST_OK);
    assert_int_equal(aie_verify_pdi(arch, aie_target(arch)->columns + 1, pdi, pdi_size, &err),
                     ST_INVALID);
    assert_non_null(strstr(err.text, "columns of aie2"));
}

// ---- headers ----

static void sum_up(uint8_t * image) {
    static const struct { size_t at, n; } sums[] = {{0x10, 31}, {0x90, 15}, {0xd0, 31}, {0x150, 4}};
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        uint32_t sum = 0;
        for (size_t k = 0; k < sums[i].n; k++) {
            sum += load_u32(image + sums[i].at + 4 * k);
        }
        store_u32(image + sums[i].at + 4 * sums[i].n, ~sum);
    }
}

static enum status over_image(const uint8_t * image, size_t size) {
    struct txn t;
    begin(&t);
    feed(&t);
    take(&t);
    return verify_over(&t, image, size);
}

// Every word of the headers, with sums that are right: other values than all tools write are
// refused, but for one field that some of them fill, and one that is 0 or all ones.
static void test_headers(void ** state) {
    (void) state;
    static const uint32_t changes[] = {1, 0x10000, 0x80000000};
    uint8_t * image = malloc(pdi_size);
    int passed = 0;
    for (uint32_t at = 0; at < 0x160; at += 4) {
        bool sum = at == 0x8c || at == 0xcc || at == 0x14c;
        for (size_t i = 0; i < sizeof changes / sizeof changes[0] && !sum; i++) {
            memcpy(image, pdi, pdi_size);
            store_u32(image + at, load_u32(image + at) + changes[i]);
            sum_up(image);
            bool free_word = at == 0x98 && changes[i] == 1;
            if ((over_image(image, pdi_size) == ST_OK) != free_word) {
                fail_msg("0x%x at 0x%x: %s", load_u32(image + at), at, said);
            }
            passed += free_word;
        }
    }
    assert_int_equal(passed, 1);
    memcpy(image, pdi, pdi_size);
    store_u32(image + 0xc8, UINT32_MAX);
    sum_up(image);
    assert_int_equal(over_image(image, pdi_size), ST_OK);
    free(image);
}

// Lengths that agree with each other and count one command less than there are; commands whose
// length firmware reads from eight bits where we read sixteen.
static void test_hidden_commands(void ** state) {
    (void) state;
    struct array a;
    uint8_t * image;
    size_t size;
    array_begin(&a, arch);
    array_token_route(&a, 0);
    array_route(&a, (struct array_port){0, 2, 0}, &(struct array_port){0, 0, 0}, 1);
    array_write_switches(&a);
    cdo_write(&a.enable, 0x3f000, 0x80000005); // a control port
    cdo_write(&a.enable, 0x3f000, 0);
    assert_int_equal(
        pdi_write((struct cdo[]){a.programs, a.setup, a.enable}, 3, &image, &size, NULL), ST_OK);
    check_said(over_image(image, size), "led to the control port of shim (0,0)");
    uint32_t count = load_u32(image + 0x15c);
    store_u32(image + 0x15c, count - 6);
    sum_up(image);
    check_said(over_image(image, size), "the CDO counts");
    store_u32(image + 0xd4, count - 6 + 5); // and the partition says so too
    store_u32(image + 0xd0, (count - 6 + 5 + 3) & ~3u);
    store_u32(image + 0xd8, (count - 6 + 5 + 3) & ~3u);
    sum_up(image);
    assert_int_equal(over_image(image, size), ST_OK); // then it is the end for everybody
    static const uint32_t lengths[] = {0x01000111, 0x01030105, 0x01020103};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        uint8_t * longer = calloc(1, pdi_size + 0x1000);
        memcpy(longer, pdi, pdi_size);
        size_t end = 0x164 + 4 * (size_t) load_u32(pdi + 0x15c);
        store_u32(longer + end, lengths[i]);
        uint32_t words = load_u32(pdi + 0x15c) + 1 + (lengths[i] >> 16);
        store_u32(longer + 0x15c, words);
        store_u32(longer + 0xd4, words + 5);
        store_u32(longer + 0xd0, (words + 8) & ~3u);
        store_u32(longer + 0xd8, (words + 8) & ~3u);
        sum_up(longer);
        check_said(over_image(longer, pdi_size + 0x1000), "is not known");
        free(longer);
    }
    free(image);
    cdo_free(&a.programs);
    cdo_free(&a.setup);
    cdo_free(&a.enable);
}

int main(void) {
    int failed = 0;
    for (int a = 0; a < AIE_ARCH_COUNT; a++) {
        arch = (enum aie_arch) a;
        const struct CMUnitTest tests[] = {
            cmocka_unit_test(test_pdis),
            cmocka_unit_test(test_masks_of_pdis),
            cmocka_unit_test(test_headers),
            cmocka_unit_test(test_hidden_commands),
        };
        failed += cmocka_run_group_tests_name(kernel_arch_name(arch), tests, set_up, tear_down);
    }
    return failed;
}
