// test-inspect-verify: ggml-hsa inspect --verify on the smallest kernel there is, and on ones of
// others.
#include "inspect-rig.h"

#include "aie/image/packed.h"
#include "store/small-kernel.h"

static char stream[sizeof file + 8];

// The kernel as two files, for 64 words.
static void write_kernel(void) {
    struct tensor t = tensor_contiguous(DTYPE_F32, (const int64_t[4]){64, 1, 1, 1});
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .n_inputs = 1, .inputs = {t}, .output = t};
    uint8_t * pdi;
    uint32_t * insts;
    size_t size, n;
    assert_int_equal(small_kernel_pdi(1, &pdi, &size, NULL), ST_OK);
    assert_int_equal(small_kernel_stream(&spec, 1, 3, &insts, &n, NULL), ST_OK);
    write_file(pdi, size);
    snprintf(stream, sizeof stream, "%s.bin", file);
    FILE * f = fopen(stream, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(insts, 4, n, f), n);
    assert_int_equal(fclose(f), 0);
    free(pdi);
    free(insts);
}

static const char * verify(const char * options) {
    static char arguments[512];
    snprintf(arguments, sizeof arguments, "inspect --verify %s %s %s", file, stream, options);
    return arguments;
}

static void test_verify(void ** state) {
    (void) state;
    write_kernel();
    EXPECT(verify(""), 0, "passes as a kernel of aie2 for 4 columns\n", "were not looked at");
    EXPECT(verify("--operands in:256,out:256 --columns 1"), 0, "of aie2 for 1 columns\n");
    EXPECT(verify("--operands in:256,out:252"), 1, "reaches byte 256 of operand 1, which has 252");
    EXPECT(verify("--operands in:255,out:256"), 0, "passes"); // a word is a word
    EXPECT(verify("--operands out:256,out:256"), 1, "reads operand 0, which is a result");
    EXPECT(verify("--operands both:256"), 1, "operand 1, the kernel has 1");
    EXPECT(verify("--arch aie2p"), 1, "device generation 3, aie2p is 4");
}

// A PDI by itself, plain and packed, with and without its last bytes.
static void test_configurations(void ** state) {
    (void) state;
    uint8_t *pdi, *packed;
    size_t size, packed_size;
    char arguments[512];
    write_kernel();
    snprintf(arguments, sizeof arguments, "inspect --verify %s", file);
    EXPECT(arguments, 0, "passes as a configuration of aie2 for 4 columns\n");
    assert_int_equal(small_kernel_pdi(1, &pdi, &size, NULL), ST_OK);
    packed = packed_make(pdi, false, &packed_size);
    write_file(packed, packed_size);
    EXPECT(arguments, 0, "passes as a configuration of aie2 for 4 columns\n");
    EXPECT(verify("--operands in:256,out:256"), 0, "passes as a kernel of aie2");
    // a write to the last but one of aie2p's columns, then to one that nobody has
    uint32_t addr = load_u32(packed + PACKED_COMMANDS + 8) & 0x1ffffff;
    store_u32(packed + PACKED_COMMANDS + 8, addr | 6u << 25);
    write_file(packed, packed_size);
    EXPECT(arguments, 0, "passes as a configuration of aie2p for 8 columns\n");
    strcat(arguments, " --arch aie2");
    EXPECT(arguments, 1, "a write to column 6, row ", "outside the partition of 4 columns");
    store_u32(packed + PACKED_COMMANDS + 8, addr | 60u << 25);
    write_file(packed, packed_size);
    EXPECT(inspect("--verify"), 1, "a write to column 60, row ", "outside the partition of 8");
    free(packed);
    free(pdi);
}

static void test_usage(void ** state) {
    (void) state;
    write_kernel();
    EXPECT(verify("--operands in:x"), 2, "--operands wants a list as in:4096");
    EXPECT(verify("--operands in:1,,out:1"), 2, "--operands wants");
    EXPECT(verify("--operands"), 2, "--operands wants");
    EXPECT(verify("--columns 9"), 2, "--columns wants a number from 1 to 8");
    EXPECT(verify("--arch gfx90a"), 2, "--arch wants");
    EXPECT(verify("--stats"), 2, "no option '--stats' with --verify");
    EXPECT(verify("third"), 2, "one file too many");
    EXPECT("inspect --verify", 2, "wants FILE.pdi [INSTS.bin]");
    EXPECT("inspect --verify one.pdi --operands in:4", 2, "INSTS.bin is missing");
    EXPECT("inspect --verify nowhere.pdi", 1, "nowhere.pdi");
    EXPECT("inspect --verify nowhere.pdi nowhere.bin", 1, "nowhere.pdi");
    char arguments[512]; // in the wrong order
    snprintf(arguments, sizeof arguments, "inspect --verify %s %s", stream, file);
    EXPECT(arguments, 1, "PDI");
    unlink(stream);
}

static void test_golden(void ** state) {
    (void) state;
    free(golden(golden_pdis[0]).data);
    char arguments[1024];
    snprintf(arguments, sizeof arguments,
             "inspect --verify %s %s --operands in:8192,in:8192,out:8192", golden_pdis[0],
             golden_streams[0]);
    EXPECT(arguments, 0, "passes as a kernel of aie2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verify),
        cmocka_unit_test(test_configurations),
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_golden),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
