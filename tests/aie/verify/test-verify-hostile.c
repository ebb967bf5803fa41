// What the verifier stops: one kernel that is right, and the same with one thing that is not. Each
// case says which words the refusal has. test-verify-pdi.c has what a PDI must not do.
#include "hostile.h"

// ---- streams that are right ----

static void test_right(void ** state) {
    (void) state;
    struct txn t;
    begin(&t);
    feed(&t);
    take(&t);
    passes(&t);
    // everything to the last word, by strides, iterations and repeats
    begin(&t);
    put(&t, 0,
        (struct array_bd){.words = 256,
                          .next = -1,
                          .acquire = -1,
                          .release = -1,
                          .wrap = {16, 4},
                          .step = {1, 256, 64},
                          .iterations = 4,
                          .iteration_step = 16},
        A, 0);
    start(&t, true, 0, 4);
    put(&t, 1, plain(N / 4), OUT, 3 * N);
    start(&t, false, 1, 1);
    sync_out(&t);
    put(&t, 2, plain(N), A, 0);
    start(&t, true, 2, 1);
    take(&t);
    passes(&t);
}

static void begin_with_tokens(struct txn * t) {
    begin(t);
    txn_mask_write(t, shim(0, SHIM_MM2S_QUEUE - 4), 0x1f00, array_token_control());
}

static void feed_with_token(struct txn * t) {
    put(t, 0, plain(N), A, 0);
    txn_write(t, shim(0, SHIM_MM2S_QUEUE), array_queue_word(0, 1, true));
}

// Tokens of reads may be left where the stream waits for none of that channel, however many they
// are: mlir-aie's streams do so.
static void test_tokens_of_reads(void ** state) {
    (void) state;
    struct txn t;
    for (int times = 1; times <= 100; times += 99) {
        begin_with_tokens(&t);
        for (int i = 0; i < times; i++) {
            feed_with_token(&t);
            take(&t);
        }
        passes(&t);
    }
    begin_with_tokens(&t);
    for (int i = 0; i < 2; i++) {
        feed_with_token(&t);
        take(&t);
    }
    txn_wait(&t, 0, 0, 1, 0);
    txn_wait(&t, 0, 0, 1, 0);
    passes(&t);
}

// ---- where ----

static void test_places(void ** state) {
    (void) state;
    uint32_t nothing[8] = {0};
    REFUSED("column 60, row 2, outside the partition", txn_write(t, image_addr(60, 2, 0x1f000), 0));
    REFUSED("column 0, row 11, outside the partition", txn_write(t, image_addr(0, 11, 0), 0));
    REFUSED("outside the partition",
            txn_block_write(t, image_addr(aie_target(arch)->columns, 0, 0x1d000), nothing, 8));
    REFUSED("register 0xffffc of shim (0,0)", txn_write(t, shim(0, 0xffffc), 0));
    REFUSED("register 0xffffc of core (1,3)", txn_write(t, image_addr(1, 3, 0xffffc), 0));
    REFUSED("register 0x32038 of core (0,2)", txn_write(t, image_addr(0, 2, 0x32038), 1));
    REFUSED("register 0x36030 of shim (0,0)", txn_mask_write(t, shim(0, 0x36030), 0xf, 0));
    REFUSED("register 0x10000 of core (0,2)", // the last word of its memory, and one more
            txn_block_write(t, image_addr(0, 2, 0xfffc), nothing, 2));
    REFUSED("the stream writes the program of core (0,2)",
            txn_block_write(t, image_addr(0, 2, CORE_PROGRAM + 0x100), nothing, 2));
    REFUSED("the stream writes the program of core (1,3)",
            txn_write(t, image_addr(1, 3, CORE_PROGRAM), 0));
    REFUSED("the stream writes the control of core (0,2)",
            txn_mask_write(t, image_addr(0, 2, CORE_CONTROL), 2, 2));
    REFUSED("register 0x80000 of memtile (0,1)",
            txn_block_write(t, image_addr(0, 1, 0x7fffc), nothing, 2));
    REFUSED("register 0x1d018 of core (0,2)", // a descriptor there has six words
            txn_block_write(t, image_addr(0, 2, 0x1d000), nothing, 8));
    REFUSED("byte 0x2 of tile (0,2), which is no word", txn_write(t, image_addr(0, 2, 2), 0));
    REFUSED("lock 3 of core (0,2) is set to 64", txn_write(t, image_addr(0, 2, 0x1f030), 64));
    REFUSED("the control of core (0,2)", txn_write(t, image_addr(0, 2, CORE_CONTROL), 0x10));
    REFUSED("control of S2MM0 of shim", txn_mask_write(t, shim(0, SHIM_S2MM_CONTROL), 8, 8));
    REFUSED("another way, which is for the configuration",
            txn_write(t, shim(0, 0x3f010), 0x80000005));
    REFUSED("another way, which is for the configuration",
            txn_mask_write(t, shim(0, SHIM_MUX), 0x400, 0x400));
}

// Bits beside the mask: AMD's own library writes them, whatever firmware does.
static void test_masks(void ** state) {
    (void) state;
    static const uint32_t places[] = {
        SHIM_BD + 0x20, // a started descriptor's length, address and chain
        SHIM_BD + 0x24,
        SHIM_BD + 0x3c,
        SHIM_S2MM_CONTROL,               // out of order
        SHIM_MASTER + 0x10,              // a switch
        SHIM_MUX,                        // where the south leads
        1u << 20 | MEM_LOCK,             // memtile: a lock,
        1u << 20 | 0xa0600,              // a channel's control,
        1u << 20 | 0x400,                // a word
        2u << 20 | (CORE_S2MM_QUEUE - 4) // core
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        bool bd = places[i] >= SHIM_BD && places[i] < SHIM_BD + 0x40;
        const char * words = bd ? "is written in part" : "beside its mask";
        REFUSED(words, txn_mask_write(t, places[i], 0, 8));
        REFUSED(words, txn_mask_write(t, places[i], 0xf00, 0xf08));
    }
}

// ---- shim transfers ----

static void test_patches(void ** state) {
    (void) state;
    REFUSED("not the address of a shim's descriptor", txn_patch_address(t, shim(0, SHIM_BD), A, 0));
    REFUSED("not the address of a shim's descriptor",
            txn_patch_address(t, shim(0, SHIM_MM2S_QUEUE), A, 0));
    REFUSED("not the address of a shim's descriptor",
            txn_patch_address(t, image_addr(0, 2, CORE_BD + 4), A, 0));
    REFUSED("not the address of a shim's descriptor", txn_patch_address(t, shim(0, 0), A, 0));
    REFUSED("an address is patched into column 60, row 0, outside",
            txn_patch_address(t, shim(60, SHIM_BD + 4), A, 0));
    REFUSED("operand 3, the kernel has 3", put(t, 2, plain(N), 3, 0));
    REFUSED("which is no word", put(t, 2, plain(N), A, 2));
    struct array_bd d = plain(16);
    REFUSED("holds the address 0x200 already", put_words(t, 2, &d, 1, UINT32_MAX, 0x200);
            txn_patch_address(t, bd_at(2, 1), A, 0));
}

static void test_raw_addresses(void ** state) {
    (void) state;
    struct array_bd d = plain(N);
    REFUSED("holds the address 0x50000000, which is no operand's",
            put_words(t, 2, &d, 1, UINT32_MAX, 0x50000000));
    REFUSED("holds the address 0x123400000000, which is no operand's",
            put_words(t, 2, &d, 2, 0xffff, 0x1234));
    REFUSED("an address that is no operand's (0x0)", put_bd(t, 2, &d); start(t, true, 2, 1));
    REFUSED("an address that is no operand's (0x800)", put_words(t, 2, &d, 1, UINT32_MAX, 0x800);
            start(t, true, 2, 1));
    // word by word, before and behind the patch
    REFUSED("descriptor 2 of shim (0,0) is written in part", put_bd(t, 2, &d);
            txn_write(t, bd_at(2, 1), 0));
    REFUSED("descriptor 2 of shim (0,0) is written in part", put(t, 2, d, A, 0);
            txn_write(t, bd_at(2, 0), 4); start(t, true, 2, 1));
    REFUSED("descriptor 2 of shim (0,0) is written in part", put(t, 2, d, A, 0);
            txn_mask_write(t, bd_at(2, 2), 0xffff, 0x7fff); start(t, true, 2, 1));
    REFUSED("descriptor 2 of shim (0,0) is written in part", put(t, 2, d, A, 0);
            txn_mask_write(t, bd_at(2, 0), 0, 4); start(t, true, 2, 1));
    uint32_t w[16] = {0};
    array_shim_bd(&d, aie_target(arch), w);
    REFUSED("descriptor 5 of shim (0,0) is written in part", txn_block_write(t, bd_at(5, 0), w, 6));
    REFUSED("descriptor 5 of shim (0,0) is written in part",
            txn_block_write(t, bd_at(5, 1), w + 1, 7));
    REFUSED("descriptor 6 of shim (0,0) is written in part",
            txn_block_write(t, bd_at(5, 0), w, 15));
    // what a PDI or another stream may have left there
    REFUSED("of which this stream did not write all words", start(t, true, 5, 1));
    REFUSED("of which this stream did not write all words",
            txn_patch_address(t, bd_at(5, 1), A, 0));
    // at the end of a chain
    REFUSED("an address that is no operand's", d.next = 3; put(t, 2, d, A, 0); d.next = -1;
            put_bd(t, 3, &d); start(t, true, 2, 1));
    d.next = -1;
    REFUSED("asks for memory of others", put_words(t, 2, &d, 5, 0xf0000000, 0x30000000);
            txn_patch_address(t, bd_at(2, 1), A, 0); start(t, true, 2, 1));
    REFUSED("goes out of order", put_words(t, 2, &d, 2, 1u << 24, 1u << 24);
            txn_patch_address(t, bd_at(2, 1), A, 0); start(t, true, 2, 1));
    REFUSED("asks for memory of others", put_words(t, 2, &d, 3, 1u << 30, 1u << 30);
            txn_patch_address(t, bd_at(2, 1), A, 0); start(t, true, 2, 1));
}

static void test_sizes(void ** state) {
    (void) state;
    REFUSED("reaches byte 262144 of operand 1, which has 4096", put(t, 2, plain(65536), B, 0);
            start(t, true, 2, 1));
    REFUSED("reaches byte 262144 of operand 2, which has 4096", put(t, 2, plain(65536), OUT, 0);
            start(t, false, 2, 1));
    REFUSED("reaches byte 4100 of operand 0", put(t, 2, plain(N), A, 4); start(t, true, 2, 1));
    REFUSED("reaches byte 4294967296 of operand 0", put(t, 2, plain(1), A, 0xfffffffc);
            start(t, true, 2, 1));
    struct array_bd d = plain(8);
    REFUSED("of operand 0", d.wrap[0] = 4; d.step[0] = 1; d.step[1] = N - 3; // the second row
            put(t, 2, d, A, 0); start(t, true, 2, 1));
    d = plain(64);
    REFUSED("of operand 0", d.wrap[0] = 4; d.wrap[1] = 4; d.step[0] = 1; d.step[1] = 4;
            d.step[2] = 1u << 20; put(t, 2, d, A, 0); start(t, true, 2, 1));
    d = plain(N / 2);
    REFUSED("reaches byte 4100 of operand 0", d.iterations = 2; d.iteration_step = N / 2 + 1;
            put(t, 2, d, A, 0); start(t, true, 2, 2));
    d = plain(UINT32_MAX);
    REFUSED("of operand 0", d.step[0] = 1u << 20; put(t, 2, d, A, 0); start(t, true, 2, 1));
    d = plain(4);
    REFUSED("of operand 0", // an iteration that begins in the middle
            put_words(t, 2, &d, 6, UINT32_MAX, 63u << 26 | 63u << 20 | N / 32);
            txn_patch_address(t, bd_at(2, 1), A, 0));
    REFUSED("which is empty", put_words(t, 2, &d, 0, UINT32_MAX, 0);
            txn_patch_address(t, bd_at(2, 1), A, 0); start(t, true, 2, 1));
    REFUSED("which is not valid", put_words(t, 2, &d, 7, 1u << 25, 0);
            txn_patch_address(t, bd_at(2, 1), A, 0); start(t, true, 2, 1));
    d = plain(4);
    REFUSED("comes back to descriptor 2", d.next = 2; put(t, 2, d, A, 0); start(t, true, 2, 1));
    REFUSED("which says nothing", txn_write(t, shim(0, SHIM_MM2S_QUEUE), 0x100));
}

static void test_directions(void ** state) {
    (void) state;
    REFUSED("writes operand 0, which is an input", put(t, 2, plain(N), A, 0);
            start(t, false, 2, 1));
    REFUSED("reads operand 2, which is a result", put(t, 2, plain(N), OUT, 0);
            start(t, true, 2, 1));
}

// ---- time ----

static void test_waits(void ** state) {
    (void) state;
    REFUSED("of which no task reports: it can never be met", sync_out(t));
    REFUSED("of which no task reports", txn_wait(t, 0, 0, 1, 0)); // MM2S without a token
    REFUSED("no channel of a shim", txn_wait(t, 0, 2, 0, 0));
    REFUSED("no channel of a shim", txn_wait(t, 60, 0, 0, 0));
    REFUSED("no channel of a shim", txn_wait(t, 0, 0, 0, 2));
    struct txn t;
    txn_begin(&t, 1, (int) txn_generation(arch)); // nobody named the controller
    feed(&t);
    take(&t);
    refused(&t, "whose tokens have no way to the controller");
    begin(&t);
    feed(&t);
    put(&t, 1, plain(N), OUT, 0);
    start(&t, false, 1, 1);
    refused(&t, "that were not waited for");
    begin(&t);
    feed(&t);
    put(&t, 1, plain(N), OUT, 0);
    txn_write(&t, shim(0, SHIM_S2MM_QUEUE), 1); // without a token
    refused(&t, "may still write memory");
    for (int syncs = 1; syncs < 3; syncs++) { // of a channel that is waited for once
        begin_with_tokens(&t);
        for (int i = 0; i < 3; i++) {
            feed_with_token(&t);
            take(&t);
        }
        for (int i = 0; i < syncs; i++) {
            txn_wait(&t, 0, 0, 1, 0);
        }
        refused(&t, "tokens of MM2S0 of shim (0,0) that were not waited for");
    }
    begin_with_tokens(&t); // more tokens than anybody could tell apart, then a wait
    for (int i = 0; i < 100; i++) {
        feed_with_token(&t);
        take(&t);
    }
    txn_wait(&t, 0, 0, 1, 0);
    refused(&t, "more than 64 tasks of MM2S0 reported before");
    begin(&t); // nobody named the controller of MM2S
    feed_with_token(&t);
    take(&t);
    refused(&t, "a task of MM2S0 of shim (0,0) reports, but its tokens have no way");
    // a descriptor of a task that is under way
    begin(&t);
    feed(&t);
    put(&t, 1, plain(N), OUT, 0);
    start(&t, false, 1, 1);
    put(&t, 1, plain(N), OUT, 0);
    refused(&t, "descriptor 1 of shim (0,0) is changed while the task of S2MM0");
    begin(&t);
    feed(&t);
    feed(&t);
    refused(&t, "descriptor 0 of shim (0,0) is changed while the task of MM2S0");
    begin(&t);
    refused(&t, "the stream is empty");
    txn_begin(&t, 1, (int) txn_generation(arch));
    refused(&t, "the stream is empty");
    begin(&t);
    feed(&t);
    put(&t, 1, plain(N / 4), OUT, 0);
    refused(&t, "the task of MM2S0 of shim (0,0) that was started at offset 0x8c may still read");
    begin_with_tokens(&t);
    feed_with_token(&t);
    txn_wait(&t, 0, 0, 1, 0);
    refused(&t, "never writes operand 2");
    txn_begin(&t, 1, 7);
    refused(&t, "it is for device generation 7");
    txn_begin(&t, 8, (int) txn_generation(arch));
    feed(&t);
    if (arch == AIE_ARCH_AIE2) {
        refused(&t, "it is for 8 columns, the partition has 4");
    } else {
        buf_free(&t.words);
    }
}

// ---- tiles ----

static void test_tiles(void ** state) {
    (void) state;
    uint32_t w[8];
    struct array_bd d = plain(16);
    array_core_bd(&d, w);
    w[0] = (w[0] & 0x3fff) | 0x3ff8u << 14; // eight words before the end
    REFUSED("descriptor 3 of core (0,2) reaches byte 0x10020 of a memory of 0x10000",
            txn_block_write(t, image_addr(0, 2, CORE_BD + 0x60), w, 6));
    d.iterations = 64;
    d.iteration_step = 1024;
    array_core_bd(&d, w);
    REFUSED("descriptor 0 of core (1,2) reaches",
            txn_block_write(t, image_addr(1, 2, CORE_BD), w, 6));
    d = plain(0x10000);
    d.address = 0x60000;
    array_mem_bd(&d, w);
    REFUSED("descriptor 0 of memtile (0,1) reaches",
            txn_block_write(t, image_addr(0, 1, MEM_BD), w, 8));
    d = plain(16);
    array_mem_bd(&d, w);
    w[1] &= ~0x7ffffu; // the memory to the west
    REFUSED("in a memory outside the partition",
            txn_block_write(t, image_addr(0, 1, MEM_BD), w, 8));
    d.acquire = 1;
    d.acquire_value = -1;
    array_mem_bd(&d, w);
    w[7] = (w[7] & ~0xffu) | 3;
    REFUSED("uses lock 3, of a tile outside the partition",
            txn_block_write(t, image_addr(0, 1, MEM_BD), w, 8));
    d = plain(16);
    d.next = 30; // from an even channel's to an odd one's
    array_mem_bd(&d, w);
    struct array_bd pads = plain(16);
    uint32_t p[8];
    pads.wrap[0] = 4;
    pads.before[0] = 2;
    array_mem_bd(&pads, p);
    REFUSED("which is for sending: it puts zeros around its data",
            txn_block_write(t, image_addr(0, 1, MEM_BD), p, 8);
            txn_write(t, image_addr(0, 1, MEM_S2MM_QUEUE), 0));
    REFUSED("puts zeros around a dimension without a wrap", p[2] &= ~(0x3ffu << 17);
            txn_block_write(t, image_addr(0, 1, MEM_BD), p, 8));
    REFUSED("goes out of order", p[0] |= 1u << 17;
            txn_block_write(t, image_addr(0, 1, MEM_BD), p, 8));
    REFUSED("compresses, which is not known", p[4] |= 1u << 31;
            txn_block_write(t, image_addr(0, 1, MEM_BD), p, 8));
    REFUSED("goes on to 30, which its channel does not have",
            txn_block_write(t, image_addr(0, 1, MEM_BD), w, 8));
    REFUSED("S2MM0 of memtile (0,1) has no descriptor 30",
            txn_write(t, image_addr(0, 1, MEM_S2MM_QUEUE), 30));
    REFUSED("which is not valid", txn_write(t, image_addr(0, 2, CORE_S2MM_QUEUE), 15));
    REFUSED("descriptor 0 of core (0,2) is written in part",
            txn_write(t, image_addr(0, 2, CORE_BD), 16));
    REFUSED("descriptor 2 of memtile (0,1) is written in part",
            txn_mask_write(t, image_addr(0, 1, MEM_BD + 0x40), 0x7ffff, 0x20000));
    REFUSED("a token that nothing waits for",
            txn_write(t, image_addr(0, 2, CORE_S2MM_QUEUE), 0x80000000));
}

// Whatever bits are turned over: an answer, and never another one for the same bytes.
static void test_any_bits(void ** state) {
    (void) state;
    struct txn t;
    begin(&t);
    feed(&t);
    take(&t);
    uint32_t *insts, seed = 1;
    size_t n, passed = 0;
    assert_int_equal(txn_end(&t, &insts, &n, NULL), ST_OK);
    const struct verify_operand operands[] = {
        {BYTES, VERIFY_IN}, {BYTES, VERIFY_IN}, {BYTES, VERIFY_OUT}};
    struct verify_job job = {.arch = arch,
                             .pdi = pdi,
                             .pdi_size = pdi_size,
                             .insts = (const uint8_t *) insts,
                             .insts_size = n * 4,
                             .operands = operands,
                             .n_operands = 3};
    for (int i = 0; i < 4000; i++) {
        seed = seed * 1664525 + 1013904223;
        uint32_t *word = &insts[4 + (seed >> 8) % (n - 4)], bit = 1u << (seed >> 3) % 32;
        *word ^= bit;
        struct error err = {0};
        enum status st = aie_verify(&job, &err);
        assert_true(st == ST_OK || (st == ST_CORRUPT && err.text[0]));
        passed += st == ST_OK;
        *word ^= bit;
    }
    assert_int_equal(aie_verify(&job, NULL), ST_OK);
    printf("    %zu of 4000 streams with a bit turned over pass\n", passed);
    free(insts);
}

int main(void) {
    int failed = 0;
    for (int a = 0; a < AIE_ARCH_COUNT; a++) {
        arch = (enum aie_arch) a;
        const struct CMUnitTest tests[] = {
            cmocka_unit_test(test_right),    cmocka_unit_test(test_tokens_of_reads),
            cmocka_unit_test(test_masks),    cmocka_unit_test(test_places),
            cmocka_unit_test(test_patches),  cmocka_unit_test(test_raw_addresses),
            cmocka_unit_test(test_sizes),    cmocka_unit_test(test_directions),
            cmocka_unit_test(test_waits),    cmocka_unit_test(test_tiles),
            cmocka_unit_test(test_any_bits),
        };
        failed += cmocka_run_group_tests_name(kernel_arch_name(arch), tests, set_up, tear_down);
    }
    return failed;
}
