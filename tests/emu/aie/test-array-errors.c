// test-array-errors: broken input of every kind, and designs that cannot work. Each must end with
// the error that names the place and the reason, and leave the machine able to run the next
// dispatch.
#include "array-bench.h"

#include <stdio.h>

static void small_design(struct bench * b) {
    loop_routes(b, 0, true);
    loop_memtile(b, 0, 64, (struct bd_desc){.length = 64, .address = 0x20000});
    in_and_out(b, 0, 64, 64);
    txn_end(&b->txn);
}

static void pdi_truncated_or_altered(void ** state) {
    struct bench * b = *state;
    small_design(b);
    size_t size;
    uint8_t * pdi = pdi_make(&b->cdo, &size);
    for (size_t n = 0; n < size; n++) {
        uint8_t * cut = malloc(n ? n : 1); // so that reading past the end is seen
        memcpy(cut, pdi, n);
        assert_int_equal(run_pdi(b, cut, n), ST_CORRUPT);
        assert_non_null(strstr(b->err.text, "PDI"));
        free(cut);
    }
    for (size_t at = 0; at < 0x164; at++) { // every bit of the headers counts, save for free words
        pdi[at] ^= 0x10;
        enum status st = run_pdi(b, pdi, size);
        if (st == ST_OK) {
            fail_msg("header byte 0x%zx altered and not noticed", at);
        }
        pdi[at] ^= 0x10;
    }
    assert_int_equal(run_pdi(b, pdi, size), ST_OK);
    assert_int_equal(run_pdi(b, NULL, 0), ST_CORRUPT);
    free(pdi);
}

static void pdi_errors_name_the_field(void ** state) {
    struct bench * b = *state;
    small_design(b);
    static const struct {
        size_t at;
        uint32_t value;
        const char * text;
    } cases[] = {
        {0x000, 0xDE, "magic"},
        {0x038, 0, "identification"},
        {0x08C, 0, "checksum of the image header table"},
        {0x0CC, 0, "checksum of the image header"},
        {0x14C, 0, "checksum of the partition header"},
        {0x160, 0, "checksum of the CDO header"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t size;
        uint8_t * pdi = pdi_make(&b->cdo, &size);
        store_u32(pdi + cases[i].at, cases[i].value);
        assert_int_equal(run_pdi(b, pdi, size), ST_CORRUPT);
        if (!strstr(b->err.text, cases[i].text)) {
            fail_msg("\"%s\" does not say \"%s\"", b->err.text, cases[i].text);
        }
        free(pdi);
    }
    // Lengths that disagree, with a right checksum.
    size_t size;
    uint8_t * pdi = pdi_make(&b->cdo, &size);
    store_u32(pdi + 0x0D4, load_u32(pdi + 0x0D4) + 8);
    pdi_checksum(pdi, 0x0D0, 0x14C);
    assert_int_equal(run_pdi(b, pdi, size), ST_CORRUPT);
    store_u32(pdi + 0x0D0, 0xFFFFFFF0);
    store_u32(pdi + 0x0D4, 0xFFFFFFF0);
    store_u32(pdi + 0x0D8, 0xFFFFFFF0);
    pdi_checksum(pdi, 0x0D0, 0x14C);
    assert_int_equal(run_pdi(b, pdi, size), ST_CORRUPT);
    assert_non_null(strstr(b->err.text, "truncated"));
    free(pdi);
}

static void cdo_cut_anywhere(void ** state) {
    struct bench * b = *state;
    small_design(b);
    size_t whole = b->cdo.n, failed = 0;
    for (size_t n = 0; n < whole; n++) {
        b->cdo.n = n;
        failed += run(b) != ST_OK; // between commands it may be a shorter, valid configuration
    }
    assert_true(failed > whole / 2);
    b->cdo.n = whole;
    run_ok(b);
}

static void txn_cut_anywhere(void ** state) {
    struct bench * b = *state;
    small_design(b);
    size_t size, whole = b->txn.s.n;
    uint8_t * pdi = pdi_make(&b->cdo, &size);
    for (size_t n = 0; n < whole; n++) {
        for (int mend = 0; mend < 2; mend++) { // with the size in the header as it was, and mended
            uint32_t * cut = malloc(n ? 4 * n : 1);
            memcpy(cut, b->txn.s.w, 4 * n);
            if (mend && n >= 4) {
                cut[3] = (uint32_t) n * 4;
            }
            assert_int_equal(
                emu_machine_run(b->machine, pdi, size, cut, n, operands, HOST_BUFFERS, &b->err),
                ST_CORRUPT);
            assert_non_null(strstr(b->err.text, "instruction stream"));
            free(cut);
        }
    }
    free(pdi);
    run_ok(b);
}

static void txn_errors(void ** state) {
    struct bench * b = *state;
    small_design(b);
    struct stream good = b->txn;
    b->txn.s.w[0] = 0x06040100;
    expect_error(b, ST_INVALID, "device generation 4");
    b->txn = good;
    b->txn.s.w[0] = 0x06030101;
    expect_error(b, ST_CORRUPT, "version");
    b->txn = good;
    b->txn.s.w[1] = 0x105;
    expect_error(b, ST_INVALID, "5 columns");
    b->txn = good;
    b->txn.s.w[4] = 0x05;
    expect_error(b, ST_UNSUPPORTED, "unknown operation 0x5 at word 4");
    b->txn = good;
    b->txn.s.w[4 + 12 + 8] = 3; // operand of the first address patch
    expect_error(b, ST_INVALID, "operand 3, the dispatch has 3");
    b->txn = good;
    b->txn.s.w[4 + 12 + 6] += 4;
    expect_error(b, ST_CORRUPT, "address patch");
    b->txn = good;
    b->txn.s.w[4 + 12 + 10] = 2;
    expect_error(b, ST_INVALID, "multiple of 4");
    b->txn = good;
    b->txn.ops++;
    expect_error(b, ST_CORRUPT, "missing");
    b->txn = good;
    b->txn.ops--;
    expect_error(b, ST_CORRUPT, "after the last operation");
    b->txn = good;
    txn_sync(&b->txn, 9, false, 0);
    expect_error(b, ST_CORRUPT, "outside the array");
    b->txn = good;
    run_ok(b);
}

static void cdo_errors(void ** state) {
    struct bench * b = *state;
    small_design(b);
    struct words good = b->cdo;
    static const struct {
        uint32_t addr, value;
        const char * text;
    } writes[] = {
        {REG(4, 0, 0x1D000), 0, "column 4, row 0"},
        {REG(127, 31, 0), 0, "column 127"},
        {REG(0, 6, 0x1D000), 0, "row 6"},
        {REG(1, 3, 0x1C004), 77, "column 1, row 3: register 0x1c004 (value 0x0000004d)"},
        {REG(0, 1, 0x80000), 0, "register 0x80000"},
        {REG(0, 0, 0x00000), 0, "register 0x00000"},
        {REG(0, 2, 0x24000), 0, "register 0x24000"},
        {REG(0, 2, 0x1F002), 0, "multiple of 4"},
        {REG(0, 2, 0x1F000), 64, "lock 0"},
        {REG(0, 2, 0x1D018), 0, "no word 6"},
        {REG(0, 1, 0xA0604), 24, "cannot use that descriptor"},
        {REG(0, 2, 0x1DE00), 8, "not modelled"},
    };
    for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
        b->cdo = good;
        cdo_write(&b->cdo, writes[i].addr, writes[i].value);
        enum status st = run(b);
        if (st == ST_OK || !strstr(b->err.text, writes[i].text) || !strstr(b->err.text, "CDO")) {
            fail_msg("\"%s\" does not say \"%s\"", b->err.text, writes[i].text);
        }
    }
    b->cdo = good;
    put(&b->cdo, 0x106);
    expect_error(b, ST_UNSUPPORTED, "unknown command 0x106 at word");
    b->cdo = good;
    put(&b->cdo, 1u << 16 | 0x103);
    put(&b->cdo, 0);
    expect_error(b, ST_CORRUPT, "payload");
    b->cdo = good;
    put(&b->cdo, 255u << 16 | 0x111);
    put(&b->cdo, 0xfffffff0);
    expect_error(b, ST_CORRUPT, "are left");
    b->cdo = good;
    uint32_t block[3] = {1, 2, 3};
    cdo_block(&b->cdo, REG(0, 1, 0x7FFFC), block, 3); // runs out of the memory into nothing
    expect_error(b, ST_UNSUPPORTED, "register 0x80000");
    b->cdo = good;
    put(&b->cdo, 3u << 16 | 0x108); // the 64-bit forms work, and check the high word
    put(&b->cdo, 0);
    put(&b->cdo, REG(0, 1, 0xC0000));
    put(&b->cdo, 1);
    put(&b->cdo, 4u << 16 | 0x107);
    put(&b->cdo, 0);
    put(&b->cdo, REG(0, 1, 0xC0010));
    put(&b->cdo, 0x3f);
    put(&b->cdo, 0);
    run_ok(b);
    put(&b->cdo, 3u << 16 | 0x108);
    put(&b->cdo, 1);
    put(&b->cdo, 0);
    put(&b->cdo, 1);
    expect_error(b, ST_DEVICE, "outside the array");
}

static void full_queue(void ** state) {
    struct bench * b = *state;
    loop_routes(b, 0, true);
    for (int i = 0; i < 6; i++) { // nobody takes the words: one runs, four wait
        struct shim_desc in = {.length = 1000, .operand = A};
        txn_transfer(&b->txn, 0, true, 0, i, &in);
    }
    expect_error(b, ST_DEVICE, "shim tile (0,0) MM2S0: task 0x00000005: the queue is full");
}

static void operand_outside_allocation(void ** state) {
    struct bench * b = *state;
    small_design(b);
    struct stream good = b->txn;
    b->txn.s.w[4 + 12 + 10] = HOST_WORDS * 4 - 63 * 4; // one word too far
    expect_error(b, ST_DEVICE, "shim tile (0,0) MM2S0 BD 0: 0x100 bytes at 0x7f001001ff04");
    b->txn = good;
    b->txn.s.w[4 + 12 + 10] = HOST_WORDS * 4 - 64 * 4; // just fits
    run_ok(b);
    // Into an operand that may only be read.
    b->txn = good;
    txn_begin(&b->txn);
    struct shim_desc in = {.length = 64, .operand = A};
    struct shim_desc out = {.length = 64, .operand = B, .token = true};
    txn_transfer(&b->txn, 0, true, 0, 0, &in);
    txn_transfer(&b->txn, 0, false, 0, 1, &out);
    txn_sync(&b->txn, 0, false, 0);
    expect_error(b, ST_DEVICE, "S2MM0 BD 1");
}

static void missing_token_route(void ** state) {
    struct bench * b = *state;
    loop_routes(b, 3, false);
    loop_memtile(b, 3, 64, (struct bd_desc){.length = 64, .address = 0x20000});
    in_and_out(b, 3, 64, 64);
    expect_error(b, ST_DEVICE, "no token route in column 3");
    // With the route but without the controller id that it expects.
    b->cdo.n = 0;
    loop_routes(b, 3, true);
    loop_memtile(b, 3, 64, (struct bd_desc){.length = 64, .address = 0x20000});
    run_ok(b);
    txn_begin(&b->txn);
    in_and_out(b, 3, 64, 64);
    for (size_t i = 4; i < b->txn.s.n; i++) {
        if (b->txn.s.w[i] == 0xF00) {
            b->txn.s.w[i] = 0x300;
        }
    }
    expect_error(b, ST_DEVICE, "controller id 3");
}

static void deadlocks_are_explained(void ** state) {
    struct bench * b = *state;
    small_design(b);
    struct words good = b->cdo;
    set_lock(&b->cdo, 0, 1, 0, 0); // the lock that lets the first word in
    expect_error(
        b, ST_DEVICE,
        "deadlock: sync at word 71 waits for S2MM0 of tile (0,0); S2MM0 (0,0) BD 1 has 0 of 64 "
        "words, stream empty; MM2S0 (0,0) BD 0 sent 30 of 64 words, stream full; S2MM0 (0,1) BD 0 "
        "acquires lock 0 of (0,1) by -1, it is 0; MM2S0 (0,1) BD 1 acquires lock 1 of (0,1) by -1");
    b->cdo = good;
    cdo_write(&b->cdo, REG(0, 1, 0xB0000), 0); // no master takes the stream
    expect_error(b, ST_DEVICE,
                 "MM2S0 (0,0) BD 0 has no route: at tile (0,1) port 7 enters a switch port "
                 "that no master selects");
    b->cdo = good;
    cdo_mask_write(&b->cdo, REG(0, 0, 0x1F000), 0xC00, 0);
    expect_error(b, ST_DEVICE, "the shim's mux");
    b->cdo = good;
    run_ok(b);
}

static void descriptor_errors(void ** state) {
    struct bench * b = *state;
    static const struct {
        struct bd_desc out;
        const char * text;
    } cases[] = {
        {{.length = 0, .address = 0x20000}, "length is 0"},
        {{.length = 64, .address = 0x40000 - 63}, "leave the tile's memory"},
        {{.length = 64, .address = 0}, "leave the tile's memory"}, // column 0 has no west
        {{.length = 64, .address = 0x60000}, "leave the tile's memory"},
        {{.length = 8, .address = 0x20000, .before = {1, 0, 0}}, "no wrap"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        b->cdo.n = 0;
        txn_begin(&b->txn);
        loop_routes(b, 0, true);
        loop_memtile(b, 0, 64, cases[i].out);
        in_and_out(b, 0, 64, 64);
        enum status st = run(b);
        if (st != ST_DEVICE || !strstr(b->err.text, cases[i].text) ||
            !strstr(b->err.text, "(0,1) MM2S0")) {
            fail_msg("\"%s\" does not say \"%s\"", b->err.text, cases[i].text);
        }
    }
    // A lock that is given back once too often, and a descriptor that was never written.
    b->cdo.n = 0;
    loop_routes(b, 0, true);
    set_lock(&b->cdo, 0, 1, 7, 63);
    struct bd_desc in = {
        .length = 8, .address = 0x20000, .next = 1, .release = 71, .release_value = 1};
    mem_bd(&b->cdo, 0, 0, &in);
    push_task(&b->cdo, 0, 1, false, 0, 0);
    expect_error(b, ST_DEVICE, "lock 7 of memtile tile (0,1) overflows");
    b->cdo.n = 0;
    loop_routes(b, 0, true);
    push_task(&b->cdo, 0, 1, false, 0, 3);
    expect_error(b, ST_DEVICE, "BD 3: the descriptor is not valid");
}

static void unfinished_and_endless(void ** state) {
    struct bench * b = *state;
    loop_routes(b, 0, true);
    loop_memtile(b, 0, 64, (struct bd_desc){.length = 64, .address = 0x20000});
    in_and_out(b, 0, 100, 64); // 36 words are left behind in the memtile: allowed
    run_ok(b);
    struct shim_desc more = {.length = 10000, .operand = A};
    txn_transfer(&b->txn, 0, true, 0, 5, &more);
    expect_error(b, ST_DEVICE, "ended while shim DMA still has work");
    // An endless loop of words ends at the limit.
    b->cdo.n = 0;
    txn_begin(&b->txn);
    shim_ends(&b->cdo, 0, true);
    circuit(&b->cdo, 0, 1, 0, 0);
    struct bd_desc spin = {.length = 64, .address = 0x20000, .next = 1 + 0};
    mem_bd(&b->cdo, 0, 0, &spin);
    spin.next = 1 + 2;
    mem_bd(&b->cdo, 0, 2, &spin);
    push_task(&b->cdo, 0, 1, false, 0, 0);
    push_task(&b->cdo, 0, 1, true, 0, 2);
    txn_sync(&b->txn, 0, false, 0);
    expect_error(b, ST_DEVICE, "more than 2000000 cycles");
}

static void error_then_fresh_start(void ** state) {
    struct bench * b = *state;
    small_design(b);
    run_ok(b);
    struct stream good = b->txn;
    b->txn.s.w[4] = 0x99;
    expect_error(b, ST_UNSUPPORTED, "unknown operation");
    b->txn = good;
    b->host[OUT][63] = 0;
    run_ok(b);
    assert_int_equal(b->host[OUT][63], pattern(A, 63));
    struct emu_counters c;
    emu_machine_counters(b->machine, &c);
    assert_int_equal(c.pdi_loads, 2);
}

// The headers that real tools wrote pass the same checks, and changed ones do not.
static void real_pdis_pass_the_header_check(void ** state) {
    struct bench * b = *state;
    static const char * const names[] = {"aie2-kernels/single-add.pdi",
                                         "aie2-kernels/gemm-i16-512-16core.pdi"};
    for (size_t i = 0; i < 2; i++) {
        char path[1024];
        snprintf(path, sizeof(path), "%s/%s", GOLDEN_DIR, names[i]);
        uint8_t * pdi;
        size_t size;
        if (file_read(path, 1 << 20, &pdi, &size, &b->err) != ST_OK) {
            skip_golden(path);
        }
        txn_begin(&b->txn);
        txn_end(&b->txn);
        if (run_pdi(b, pdi, size) != ST_OK) { // configures every tile, then an empty stream
            fail_msg("%s: %s", names[i], b->err.text);
        }
        pdi[size / 2] ^= 1;
        pdi[0x150] ^= 1;
        assert_int_equal(run_pdi(b, pdi, size), ST_CORRUPT);
        free(pdi);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(pdi_truncated_or_altered),
        TEST(pdi_errors_name_the_field),
        TEST(cdo_cut_anywhere),
        TEST(txn_cut_anywhere),
        TEST(txn_errors),
        TEST(cdo_errors),
        TEST(full_queue),
        TEST(operand_outside_allocation),
        TEST(missing_token_route),
        TEST(deadlocks_are_explained),
        TEST(descriptor_errors),
        TEST(unfinished_and_endless),
        TEST(error_then_fresh_start),
        TEST(real_pdis_pass_the_header_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
