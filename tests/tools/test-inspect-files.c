// ggml-hsa inspect on files of others: xclbin and ELF, the instruction set told by the bundles, and
// PDIs with the vendor's other checksum.
#include "aie/image/image.h"
#include "aie/image/containers.h"
#include "aie/image/packed.h"
#include "tools/inspect-rig.h"

// A PDI with a program in one tile, in as many writes as it has pieces.
static uint8_t * pdi_of(const uint8_t * code, size_t bytes, size_t piece, size_t * size) {
    struct cdo c;
    cdo_begin(&c);
    for (size_t at = 0; at < bytes; at += piece) {
        uint32_t words[64] = {0};
        size_t n = bytes - at < piece ? bytes - at : piece;
        memcpy(words, code + at, n);
        cdo_block_write(&c, image_addr(1, 3, 0x20000 + (uint32_t) at), words, (n + 3) / 4);
    }
    uint8_t * pdi;
    assert_int_equal(pdi_write(&c, 1, &pdi, size, NULL), ST_OK);
    cdo_free(&c);
    return pdi;
}

// From the vendor's assembler tests for either instruction set.
static const uint8_t aie2_code[] = {
    0x19, 0xb2, 0x53, 0x10, // acq r1, r27
    0x19, 0x84, 0x00, 0x10, // j p2
    0x01, 0x00, 0x01, 0x00, // nop; nop
};

static void test_xclbin(void ** state) {
    (void) state;
    size_t pdi_size, size;
    uint8_t * pdi = pdi_of(aie2_code, sizeof aie2_code, sizeof aie2_code, &pdi_size);
    uint8_t * x = xclbin_make(pdi, pdi_size, &size);
    write_file(x, size);
    EXPECT(inspect(""), 0, ": xclbin, ", "BUILD_METADATA, who made it: 16 bytes\n",
           "AIE_PARTITION: ", "PDI 0, 10101010101010101010101010101010: PDI, ",
           "PDI 1, 11111111111111111111111111111111: PDI, ", "(1,3) core  block  program memory",
           "    0000: acq r1, r27\n    0004: j p2\n", "programs are aie2: as aie2 4 of 4 bundles",
           "6 commands\n");
    EXPECT(inspect("--stats"), 0, "PDI 1, ", "core (1,3): aie2, 4 bundles");

    for (size_t n = 0; n < size; n += n < 600 ? 37 : 199) { // cut anywhere
        write_file(x, n);
        EXPECT(inspect(""), 1, "ggml-hsa inspect: ", file);
    }
    static const struct {
        size_t at;
        uint32_t value;
        const char * text;
    } broken[] = {
        {304, 1 << 20, "truncated"},
        {448, 0xffffffff, "4294967295 sections do not fit"},
        {456 + 40 + 24, 0x7fffffff, "section 1 (kind 32)"},
        {456 + 40 + 28, 0xffffffff, "section 1 (kind 32)"},
        {456 + 40 + 32, 100, "AIE_PARTITION of 100 bytes"},
        {XCLBIN_PARTITION + 120, 0x10000000, "268435456 PDIs listed from 0xb8 on"},
        {XCLBIN_PARTITION + 124, 0xfffffff0, "2 PDIs listed from 0xfffffff0 on"},
        {XCLBIN_PARTITION + 184 + 16, 0xfffffff0, "PDI 0 of 4294967280 bytes"},
        {XCLBIN_PARTITION + 184 + 20, 0xfffffff0, "PDI 0 of"},
        {XCLBIN_PARTITION + XCLBIN_PDI + 0x8c, 0, "wrong checksum of its image header table"},
    };
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        uint32_t old = load_u32(x + broken[i].at);
        store_u32(x + broken[i].at, broken[i].value);
        write_file(x, size);
        EXPECT(inspect(""), 1, broken[i].text);
        store_u32(x + broken[i].at, old);
    }
    free(x);
    free(pdi);
}

static void test_elf(void ** state) {
    (void) state;
    size_t size;
    for (int wide = 0; wide < 2; wide++) {
        uint8_t * x = elf_core_make(wide, aie2_code, sizeof aie2_code, &size);
        write_file(x, size);
        EXPECT(inspect(""), 0, ": ELF, ", "segment 0, code: program of a core, 12 bytes at 0x40\n",
               "    0040: acq r1, r27\n    0044: j p2\n", "segment 1, data: 4 bytes\n",
               "programs are aie2:");
        for (size_t n = 4; n < size; n += 5) {
            write_file(x, n);
            EXPECT(inspect(""), 1, "ggml-hsa inspect: ", file);
        }
        size_t header = wide ? 64 : 52;
        store_u32(x + header + (wide ? 16 : 8), 0x3ffa);
        write_file(x, size);
        EXPECT(inspect(""), 1, "12 bytes at 0x3ffa are no program memory of a core");
        free(x);
    }

    size_t pdi_size;
    uint8_t * pdi = pdi_of(aie2_code, sizeof aie2_code, sizeof aie2_code, &pdi_size);
    struct txn t;
    uint32_t * insts;
    size_t n;
    txn_begin(&t, 4, 3);
    txn_write(&t, image_addr(2, 0, 0x1d20c), 0x80000001);
    assert_int_equal(txn_end(&t, &insts, &n, NULL), ST_OK);
    uint8_t * x = elf_control_make((const uint8_t *) insts, n * 4, pdi, pdi_size, &size);
    write_file(x, size);
    EXPECT(inspect(""), 0, ".ctrltext: TXN, ", "S2MM1 queue = 0x80000001: push BD 1, with token\n",
           ".pdi.0: PDI, ", "    0000: acq r1, r27\n", ".note: 0 bytes\n", "4 commands\n");
    store_u32(x + 52 + 2 * 40, 12); // "ctrltext" without its dot is none
    write_file(x, size);
    EXPECT(inspect(""), 1, "ELF for machine 1 without sections named .ctrltext");
    free(x);
    free(insts);
    free(pdi);

    free(golden(AIE2P "main_core_0_2.elf").data); // skips when it is not there
    EXPECT("inspect " AIE2P "main_core_0_2.elf", 0, "program of a core, 1648 bytes at 0x0\n",
           "programs are aie2p: as aie2 2 of 113 bundles decode, as aie2p 335 of 335 bundles",
           "    0000: jl #1536\n    0006: movxm sp, #458752\n");
}

// Which instruction set it is, is seen and not guessed.
static void test_instruction_set(void ** state) {
    (void) state;
    size_t size;
    static const uint8_t neither[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    uint8_t * pdi = pdi_of(neither, 16, 16, &size);
    write_file(pdi, size);
    EXPECT(inspect(""), 0, "programs are of no known kind: as aie2 0 of",
           "16 bytes of no instruction set that can be disassembled here");
    EXPECT(inspect("--arch aie2p"), 0, "    // aie2p\n");
    free(pdi);

    // A function that ends in the middle of a word: the vendor fills it up with what comes next.
    static const uint8_t filled[] = {0x19, 0x84, 0x00, 0x10, 0x01, 0x00, 0x19, 0xb2,  // j p2; nop
                                     0x19, 0xb2, 0x53, 0x10, 0x01, 0x00, 0x01, 0x00}; // acq r1, r27
    pdi = pdi_of(filled, sizeof filled, 8, &size);
    write_file(pdi, size);
    EXPECT(inspect("--no-code"), 0, // for aie2p it happens to be one bundle
           "programs may be of more than one kind, shown as aie2: as aie2 5 of 5 bundles decode, "
           "as aie2p 1 of 1 bundles decode\n");
    free(pdi);

    static const struct {
        const char *pdi, *text;
    } seen[] = {
        {GOLDEN_DIR "/aie2-kernels/gemm-i16-512-16core.pdi",
         "programs are aie2: as aie2 7872 of 7872 bundles decode, as aie2p 800 of 2976"},
        {GOLDEN_DIR "/aie2p-kernels/rmsnorm/design.pdi",
         "programs are aie2p: as aie2 20 of 613 bundles decode, as aie2p 1947 of 1947"},
        {GOLDEN_DIR "/aie2p-kernels/flash-attention/design.pdi", "as aie2p 7989 of 7989"},
        {GOLDEN_DIR "/aie2p-kernels/i8-gemm-1core/design.pdi", "as aie2p 540 of 540"},
    };
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++) {
        char arguments[512];
        free(golden(seen[i].pdi).data); // skips when it is not there
        snprintf(arguments, sizeof arguments, "inspect --no-code %s", seen[i].pdi);
        EXPECT(arguments, 0, seen[i].text);
    }
}

// Some of the vendor's PDIs fill words 0x140 to 0x148 and leave them out of the sum.
static void test_other_checksum(void ** state) {
    (void) state;
    size_t size;
    uint8_t * pdi = pdi_of(aie2_code, sizeof aie2_code, sizeof aie2_code, &size);
    for (uint32_t at = 0x140; at < 0x14c; at += 4) {
        store_u32(pdi + at, 0x1234 + at);
    }
    write_file(pdi, size);
    EXPECT(inspect(""), 0, "3 commands\n");
    uint32_t sum = 0;
    for (uint32_t at = 0xd0; at < 0x14c; at += 4) {
        sum += load_u32(pdi + at);
    }
    store_u32(pdi + 0x14c, ~sum); // all of them summed up, as others do
    write_file(pdi, size);
    EXPECT(inspect(""), 0, "3 commands\n");
    store_u32(pdi + 0x14c, ~sum + 1);
    write_file(pdi, size);
    EXPECT(inspect(""), 1, "wrong checksum of its partition header");
    free(pdi);
}

// PDIs of AMD's overlays are packed, and cut off: both is said.
static void test_packed(void ** state) {
    (void) state;
    static const uint32_t bd[6] = {0x10, 0x11, 0x12, 0x13, 0x14, 0x02000000}, zeros[4];
    struct cdo c;
    uint8_t *pdi, *packed;
    size_t size, packed_size;
    uint32_t code[3];
    memcpy(code, aie2_code, sizeof code);
    cdo_begin(&c);
    cdo_mask_write(&c, image_addr(1, 3, 0x32000), 1, 0);
    cdo_write(&c, image_addr(1, 3, 0x1f000), 2);
    cdo_write(&c, image_addr(1, 3, 0x1f010), 3);
    cdo_block_write(&c, image_addr(1, 3, 0x400), zeros, 4);
    cdo_block_write(&c, image_addr(1, 3, 0x20000), code, 3);
    cdo_block_write(&c, image_addr(1, 3, 0x1d020), bd, 6);
    assert_int_equal(pdi_write(&c, 1, &pdi, &size, NULL), ST_OK);
    cdo_free(&c);
    packed = packed_make(pdi, false, &packed_size);
    write_file(packed, packed_size);
    EXPECT(inspect(""), 0, "  packed: 100 bytes of commands, 52 bytes of data behind them\n",
           "0x0016c  (1,3) core  mask   core control = 0x0 under 0x1", "lock 0 = 0x2",
           "0x00188  (1,3) core  write  lock 1 = 0x3", "programs are aie2: as aie2 4 of 4 bundles",
           "    0000: acq r1, r27\n    0004: j p2\n", "BD 1, 6 words: ", "6 commands\n");
    EXPECT(inspect("--stats"), 0, "core (1,3): aie2, 4 bundles");
    char arguments[128];
    snprintf(arguments, sizeof arguments, "inspect --svg %s", file);
    EXPECT(arguments, 0, "</svg>");
    write_file(packed, packed_size - PACKED_SHORT);
    EXPECT(inspect(""), 0, "the file ends 20 bytes before its data, as AMD's packer leaves it",
           "BD 1, 6 words, the last 5 behind the end of the file", "    00000010\n",
           "6 commands\n");
    write_file(packed, packed_size - PACKED_SHORT - 4); // this is another cut
    EXPECT(inspect(""), 1, "DMA_WRITE at offset 0x1b8: 6 words at byte 0x1c of the data, which");
    static const struct {
        size_t at;
        uint32_t value;
        const char * text;
    } broken[] = {
        {PACKED_COMMANDS + 4, 9, "a run of 9 MASK_WRITE at offset 0x164 wants 108 bytes"},
        {PACKED_COMMANDS + 4, 65536, "a run of 65536 MASK_WRITE at offset 0x164, 1 to 65535"},
        {PACKED_COMMANDS, 9, "packed CDO command 0x9 at offset 0x164 is not known"},
        {0x1a0, 4, "marked as zeros, but word 3 is 0x"}, // the block's place in the data
        {0x1a0, 60, "4 words at byte 0x3c of the data, which has 0x34 bytes"},
        {0x198, 1, "address 0x102300400 is beyond 32 bits"},
    };
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        uint32_t old = load_u32(packed + broken[i].at);
        store_u32(packed + broken[i].at, broken[i].value);
        write_file(packed, packed_size);
        EXPECT(inspect(""), 1, broken[i].text);
        store_u32(packed + broken[i].at, old);
    }
    free(packed);
    free(pdi);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_xclbin),          cmocka_unit_test(test_elf),
        cmocka_unit_test(test_instruction_set), cmocka_unit_test(test_other_checksum),
        cmocka_unit_test(test_packed),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
