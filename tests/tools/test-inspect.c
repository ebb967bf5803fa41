// ggml-hsa inspect, as people run it: what it prints for files made here and for golden kernels,
// and what it says of broken files and of a wrong command line.
#include "aie/aie.h"
#include "aie/image/image.h"
#include "tools/inspect-rig.h"

static void make_pdi(uint8_t ** pdi, size_t * size) {
    static const uint32_t core_bd[6] = {0x100 << 14 | 64, 0, 7, 8 << 13, 0, 0x06043fe3};
    static const uint32_t mem_bd[8] = {512, 0x00120c00, 2 << 17, 4 << 17 | 15, 0, 0, 0, 0x8143ff42};
    static const uint32_t program[8] = {0x00010001, 0x00010001}; // four nops, then zeros
    struct cdo c;
    cdo_begin(&c);
    cdo_mask_write(&c, image_addr(1, 3, 0x32000), 3, 2);
    cdo_block_write(&c, image_addr(1, 3, 0x20000), program, 8);
    cdo_write(&c, image_addr(1, 3, 0x1f050), 0x3f);
    cdo_block_write(&c, image_addr(1, 3, 0x1d060), core_bd, 6);
    cdo_block_write(&c, image_addr(1, 1, 0xa0020), mem_bd, 8);
    cdo_block_write(&c, image_addr(1, 3, 0x400), program, 2);
    cdo_write(&c, image_addr(1, 1, 0xa063c), 0x80020018);
    cdo_write(&c, image_addr(1, 3, 0x3f014), 0x80000001);
    cdo_write(&c, image_addr(1, 1, 0xb0030), 0x80000007);
    cdo_write(&c, image_addr(0, 0, 0x3f008), 0xc0000045);
    cdo_write(&c, image_addr(0, 0, 0x3f200), 0x0f1f0135);
    cdo_mask_write(&c, image_addr(0, 0, 0x1f000), 0xc00, 0x400);
    cdo_mask_write(&c, image_addr(0, 0, 0x1f004), 0x30, 0x10);
    cdo_write(&c, image_addr(0, 0, 0x99990), 0x1234);
    assert_int_equal(pdi_write(&c, 1, pdi, size, NULL), ST_OK);
    cdo_free(&c);
}

static void test_own_pdi(void ** state) {
    (void) state;
    uint8_t * pdi;
    size_t size;
    make_pdi(&pdi, &size);
    write_file(pdi, size);
    free(pdi);
    EXPECT(inspect("--arch aie2"), 0, ": PDI, ", "image \"aie_image\"",
           "(1,3) core  mask   core control = 0x2 under 0x3: enable 0, reset 1",
           "program memory +0x0, 8 words", "    0000: nop\n", "    0006: nop\n",
           "    0008: 24 bytes of zeros\n", "(1,3) core  write  lock 5 = 0x3f: value -1",
           "BD 3, 6 words: words 64, word address 0x100, d0 wrap 8, d0 step 8, acquires, acquire "
           "lock 3, "
           "acquire value -1, release value 1, release lock 1, chained, next BD 0, valid 1\n",
           "(1,1) mem   block  BD 1, 8 words: words 512, word address 0x20c00, d0 wrap 2, d0 step "
           "1, d1 wrap 4, "
           "d1 step 16, acquires, acquire lock 66, acquire value -1, release value 1, release lock "
           "67, "
           "next BD 1, valid 1\n",
           "data memory +0x400, 2 words\n    00010001 00010001\n",
           "MM2S1 queue = 0x80020018: push BD 24, 3 times, with token", "master S0 <- slave DMA0\n",
           "master N1 <- slave S0\n", "master S0 <- packets of arbiter 5, msel mask 0x8",
           "slave CTRL slot 0 = 0xf1f0135: packets with id 15 under mask 0x1f -> arbiter 5, msel 3",
           "mux = 0x400 under 0xc00: S3 from DMA", "demux = 0x10 under 0x30: S2 to DMA",
           "(0,0) shim  write  0x99990 = 0x1234\n");
    struct result r = run(inspect("--no-code"));
    assert_int_equal(r.status, 0);
    assert_null(strstr((char *) r.text.data, "0000: nop"));
    buf_free(&r.text);
}

static void test_own_txn(void ** state) {
    (void) state;
    static const uint32_t bd[8] = {
        4096, 0, 0, 16 << 20, 0x82000000 | 127, 0x0200000f, 7 << 20 | 15, 0x02000000};
    struct txn t;
    uint32_t * insts;
    size_t n;
    txn_begin(&t, 4, 3);
    txn_block_write(&t, image_addr(2, 0, 0x1d020), bd, 8);
    txn_patch_address(&t, image_addr(2, 0, 0x1d024), 1, 96);
    txn_mask_write(&t, image_addr(2, 0, 0x1d208), 0x1f00, 0xf00);
    txn_write(&t, image_addr(2, 0, 0x1d20c), 0x80000001);
    txn_wait(&t, 2, 0, 0, 1);
    assert_int_equal(txn_end(&t, &insts, &n, NULL), ST_OK);
    write_file(insts, n * 4);
    free(insts);
    EXPECT(inspect(""), 0, ": TXN, ",
           "device generation 3 (aie2), 6 rows, 1 memory rows, 4 columns",
           "0x00010  (2,0) shim  block  BD 1, 8 words: words 4096, address 0x0, d0 wrap 16, d0 "
           "step 1, d1 wrap 32, "
           "d1 step 128, d2 step 16, iteration wrap 8, iteration step 16, burst 2, axcache 2, "
           "valid 1\n",
           "patch  BD 1 word 1: address of operand 1 + 96 bytes\n",
           "mask   S2MM1 control = 0xf00 under 0x1f00: controller id 15\n",
           "S2MM1 queue = 0x80000001: push BD 1, with token\n", "wait   S2MM1: its token\n",
           "5 commands\n");
}

static void test_golden(void ** state) {
    (void) state;
    for (int i = 0; i < GOLDEN_KERNELS; i++) {
        char arguments[512];
        free(golden(golden_pdis[i]).data); // skips when it is not there
        snprintf(arguments, sizeof arguments, "inspect %s", golden_pdis[i]);
        struct result r = run(arguments);
        assert_int_equal(r.status, 0);
        // Every instruction of the aie2 kernels is known, and every register has a name.
        assert_null(strstr((char *) r.text.data, ".byte"));
        for (const char * p = (char *) r.text.data; (p = strstr(p, " write  ")); p += 8) {
            assert_true(p[8] != '0');
        }
        buf_free(&r.text);
        snprintf(arguments, sizeof arguments, "inspect %s", golden_streams[i]);
        EXPECT(arguments, 0, "wait   S2MM0: its token\n", "address of operand 0 + 0 bytes");
    }
    EXPECT("inspect " AIE2 "single-add.pdi", 0,
           "    0000: jl #1552\n    0006: movxm sp, #458752\n");
    EXPECT("inspect --stats " AIE2 "single-add.pdi", 0, "core (0,2): aie2, 469 bundles, 0.55 slots",
           "loop 0x0590-0x05f0: 15 bundles", "lda 2 st 1 vec 1; bound by lda, 2 of 15 cycles");
    EXPECT("inspect --stats " AIE2 "gemm-i16-512-16core.pdi", 0, "core (3,4): as (3,5)\n",
           "16 bundles, 2.00 slots filled in each: lda 8 ldb 8 vec 16; bound by vec, 16 of 16");
}

static void test_broken(void ** state) {
    (void) state;
    uint8_t * pdi;
    size_t size;
    make_pdi(&pdi, &size);
    for (size_t n = 0; n < size; n += 52) {
        write_file(pdi, n);
        EXPECT(inspect(""), 1, "ggml-hsa inspect: ", file);
        EXPECT(inspect("--stats"), 1, "ggml-hsa inspect: ", file);
    }
    store_u32(pdi + 0x150 + 20, 0x00000199);
    write_file(pdi, size);
    EXPECT(inspect(""), 1, file, "0x00000199 at offset 0x164");
    memset(pdi + 0xa0, 0x1b, 16); // escape sequences must not reach a terminal
    write_file(pdi, size);
    EXPECT(inspect(""), 1, "????");
    free(pdi);
    write_file("hello", 5);
    EXPECT(inspect(""), 1, file, "neither a PDI", "nor a TXN");
    EXPECT("inspect /nonexistent/file", 1, "/nonexistent/file");
    EXPECT("inspect /tmp", 1, "/tmp: not a regular file");
}

static void test_command_line(void ** state) {
    (void) state;
    EXPECT("--help", 0, "usage: ggml-hsa", "inspect");
    EXPECT("--version", 0, "ggml-hsa 0.");
    EXPECT("inspect --help", 0, "usage: ggml-hsa inspect FILE", "--no-code", "--stats");
    EXPECT("", 2, "a subcommand is missing");
    EXPECT("polish", 2, "no subcommand 'polish'");
    EXPECT("inspect", 2, "a file is missing");
    EXPECT("inspect --colour x", 2, "no option '--colour'");
    EXPECT("inspect a b", 2, "'b' is a second");
    EXPECT("inspect --arch", 2, "--arch wants");
    EXPECT("inspect --arch gfx942 a", 2, "--arch wants");
}

// Of pictures: well formed, with what the files say, nothing that runs.
static void check_svg(const char * arguments, const char * const texts[]) {
    struct result r = run(arguments);
    const char * svg = (const char *) r.text.data;
    if (r.status != 0) {
        fail_msg("ggml-hsa %s: exit status %d\n%s", arguments, r.status, svg);
    }
    for (int i = 0; texts[i]; i++) {
        if (!strstr(svg, texts[i])) {
            fail_msg("ggml-hsa %s: no '%s' in\n%.4000s", arguments, texts[i], svg);
        }
    }
    assert_null(strstr(svg, "<script"));
    assert_memory_equal(svg, "<?xml", 5);
    // Every element ends, in turn: names on a stack.
    const char * open[16];
    int n = 0;
    for (const char * at = strchr(svg + 5, '<'); at; at = strchr(at + 1, '<')) {
        const char * end = strchr(at, '>');
        assert_non_null(end);
        if (at[1] == '/') {
            assert_true(n > 0);
            size_t name = strcspn(open[n - 1], " >");
            assert_int_equal(end - at - 2, name);
            assert_memory_equal(at + 2, open[n - 1], name);
            n--;
        } else if (end[-1] != '/') {
            assert_true(n < 16);
            open[n++] = at + 1;
        }
    }
    assert_int_equal(n, 0);
    // Everything lies within the picture.
    int width = 0, height = 0;
    assert_int_equal(sscanf(strstr(svg, "<svg"),
                            "<svg xmlns=\"http://www.w3.org/2000/svg\" "
                            "version=\"1.1\" width=\"%d\" height=\"%d\"",
                            &width, &height),
                     2);
    for (const char * at = strstr(svg, "<text"); at; at = strstr(at + 1, "<text")) {
        const char *x = strstr(at, " x=\""), *y = strstr(at, " y=\"");
        assert_true(x && y && atoi(x + 4) >= 0 && atoi(x + 4) < width && atoi(y + 4) > 0 &&
                    atoi(y + 4) < height);
    }
    buf_free(&r.text);
}

static void test_svg(void ** state) {
    (void) state;
    uint8_t * pdi;
    size_t size;
    make_pdi(&pdi, &size);
    write_file(pdi, size);
    free(pdi);
    check_svg(inspect("--svg"), (const char * const[]){"core (1,3)", "off, program 8 bytes",
                                                       "mem (1,1)", "locks 5=-1", NULL});
    EXPECT(inspect("--svg --stats"), 2, "two things");
    EXPECT(inspect("--svg /no/such/file"), 1, "/no/such/file");
    EXPECT(inspect("--svg a b"), 2, "'b' is one file too many");
    write_file("nonsense", 8);
    EXPECT(inspect("--svg"), 1, "no PDI");

    for (int i = 0; i < GOLDEN_KERNELS; i++) {
        free(golden(golden_pdis[i]).data); // skips when it is not there
        char arguments[1024];
        snprintf(arguments, sizeof arguments, "inspect --svg %s %s", golden_pdis[i],
                 golden_streams[i]);
        check_svg(arguments, (const char * const[]){"shim (0,0)", "MM2S0  ", NULL});
    }
    // 16 cores of one program each; both operands go in through the shims, the product comes out.
    check_svg("inspect --svg " AIE2 "gemm-i16-512-16core.pdi " AIE2 "gemm-i16-512-16core_insts.bin",
              (const char * const[]){"4 columns, 16 cores on", "on, program 2160 bytes",
                                     "MM2S0  2 tasks  131072 words  from operand 0",
                                     "S2MM0  1 task  65536 words  to operand 2  token",
                                     "BD 0   2048 w @04d00  take 0:1  give 1:1", NULL});
}

#if WITH_COMPILER
// A PDI that serves many kernels: what this one does not start is dim, and what it does is not.
static void test_svg_dim(void ** state) {
    (void) state;
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    spec.inputs[0] = spec.inputs[1] = spec.output =
        tensor_contiguous(DTYPE_F32, (int64_t[]){1024, 1, 1, 1});
    struct kernel_code code;
    struct error err;
    assert_int_equal(aie_compile(&spec, &code, &err), ST_OK);
    write_file(code.pdi, code.pdi_size);
    struct result r = run(inspect("--svg")); // without a stream nothing can be said
    assert_null(strstr((char *) r.text.data, "<path class=\"w e\""));
    buf_free(&r.text);
    char insts[] = "/tmp/test-inspect-XXXXXX", arguments[64];
    int fd = mkstemp(insts);
    assert_true(fd >= 0 && write(fd, code.insts, 4 * code.n_insts) == (ssize_t) (4 * code.n_insts));
    close(fd);
    snprintf(arguments, sizeof arguments, "--svg %s", insts);
    r = run(inspect(arguments));
    unlink(insts);
    const char * svg = (const char *) r.text.data;
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(svg, "<path class=\"w e\"")); // of the kernels that share it
    assert_non_null(strstr(svg, "<path class=\"w\""));   // of this one
    assert_non_null(strstr(svg, "class=\"c e\""));
    assert_non_null(strstr(svg, "from operand 0"));
    assert_non_null(strstr(svg, "from operand 1"));
    assert_non_null(strstr(svg, "to operand 2"));
    buf_free(&r.text);
    kernel_code_free(&code);
}
#endif

static void test_timeline(void ** state) {
    (void) state;
    static const char trace[] =
        "{\"traceEvents\":["
        "{\"ph\":\"M\",\"pid\":1,\"tid\":192,\"name\":\"thread_name\",\"args\":{\"name\":"
        "\"core (0,2)\"}},"
        "{\"ph\":\"X\",\"pid\":1,\"tid\":192,\"name\":\"bundles\",\"ts\":0.0,\"dur\":50.0},"
        "{\"ph\":\"X\",\"pid\":1,\"tid\":192,\"name\":\"waits: lock\",\"ts\":50.0,\"dur\":50.0},"
        "{\"ph\":\"C\",\"pid\":1,\"tid\":0,\"name\":\"lock\",\"ts\":60.0,\"args\":{\"value\":1}}"
        "],\"otherData\":{\"clock\":\"ideal\",\"mhz\":1000}}";
    char json[64], arguments[256];
    snprintf(json, sizeof json, "%s.json", file);
    FILE * f = fopen(json, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(trace, 1, sizeof trace - 1, f), sizeof trace - 1);
    assert_int_equal(fclose(f), 0);
    // Half of the row computes and half of it waits: 550 of 1100 pixels each.
    snprintf(arguments, sizeof arguments, "inspect --svg %s", json);
    check_svg(arguments, (const char * const[]){"core (0,2)", "clock ideal (1000 MHz)",
                                                "class=\"k0 o4\" d=\"M190 89h550\"",
                                                "class=\"k1 o4\" d=\"M740 89h550\"", NULL});
    snprintf(arguments, sizeof arguments, "inspect --svg %s --from 50 --to 100", json);
    check_svg(arguments, (const char * const[]){"class=\"k1 o4\" d=\"M190 89h1100\"", NULL});
    snprintf(arguments, sizeof arguments, "inspect --svg %s --to 1e-9", json); // far from the rest
    check_svg(arguments, (const char * const[]){"class=\"k0 o4\" d=\"M190 89h1100\"", NULL});
    snprintf(arguments, sizeof arguments, "inspect --svg %s --from 200", json);
    EXPECT(arguments, 1, "nothing between 200 and 100 microseconds");
    snprintf(arguments, sizeof arguments, "inspect --svg %s --from soon", json);
    EXPECT(arguments, 2, "--from wants a time");
    snprintf(arguments, sizeof arguments, "inspect %s --from 1", json);
    EXPECT(arguments, 2, "--from and --to are for --svg");
    EXPECT(inspect("--svg --to 5"), 2, "are for a trace");
    // What the host did before the first dispatch is cut, unless it is asked for; a PDI is a mark.
    static const char late[] =
        "{\"traceEvents\":["
        "{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"name\":\"PDI is loaded\",\"ts\":0.0,\"dur\":900.0},"
        "{\"ph\":\"X\",\"pid\":1,\"tid\":2,\"name\":\"dispatch\",\"ts\":900.0,\"dur\":100.0}]}";
    char other[64];
    snprintf(other, sizeof other, "%s.late.json", file);
    f = fopen(other, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(late, 1, sizeof late - 1, f), sizeof late - 1);
    assert_int_equal(fclose(f), 0);
    snprintf(arguments, sizeof arguments, "inspect --svg %s", other); // from 895 to 1,000
    check_svg(arguments, (const char * const[]){"a PDI was loaded until 900 us", ">1000</text>",
                                                "d=\"M242.4 ", NULL});
    snprintf(arguments, sizeof arguments, "inspect --svg %s --from 0", other);
    check_svg(arguments, (const char * const[]){">100</text>", "d=\"M1180.0 ", NULL});
    // A core that computes half of the time of dispatches, and a channel that moves words for a
    // tenth.
    static const char busy[] =
        "{\"traceEvents\":["
        "{\"ph\":\"M\",\"tid\":192,\"name\":\"thread_name\",\"args\":{\"name\":\"core (1,2)\"}},"
        "{\"ph\":\"M\",\"tid\":70,\"name\":\"thread_name\",\"args\":{\"name\":\"mem (0,1) "
        "S2MM3\"}},"
        "{\"ph\":\"X\",\"tid\":2,\"name\":\"dispatch\",\"ts\":100.0,\"dur\":200.0},"
        "{\"ph\":\"X\",\"tid\":192,\"name\":\"bundles\",\"ts\":100.0,\"dur\":100.0},"
        "{\"ph\":\"X\",\"tid\":192,\"name\":\"waits: lock\",\"ts\":200.0,\"dur\":100.0},"
        "{\"ph\":\"X\",\"tid\":70,\"name\":\"task\",\"ts\":150.0,\"dur\":20.0}]}";
    f = fopen(other, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(busy, 1, sizeof busy - 1, f), sizeof busy - 1);
    assert_int_equal(fclose(f), 0);
    snprintf(arguments, sizeof arguments, "inspect --heat %s", other);
    check_svg(arguments, (const char * const[]){"core (1,2): 50.0 %", "memtile (0,1): 10.0 %",
                                                "core (0,2): 0.0 %", "share of 200.0 us", NULL});
    snprintf(arguments, sizeof arguments, "inspect --heat %s --to 200", other);
    check_svg(arguments, (const char * const[]){"core (1,2): 100.0 %", NULL});
    snprintf(arguments, sizeof arguments, "inspect --heat %s --from 900", other);
    EXPECT(arguments, 1, "no dispatch between these times");
    EXPECT(inspect("--heat"), 2, "--heat is for a trace");
    unlink(other);
    for (size_t n = 0; n < sizeof trace - 1; n += 7) { // broken at any place
        assert_int_equal(truncate(json, (off_t) (sizeof trace - 2 - n)), 0);
        snprintf(arguments, sizeof arguments, "inspect --svg %s", json);
        EXPECT(arguments, 1, json);
    }
    // No events, and events at times that no trace has: the last two end before they begin.
    static const char * const events[] = {
        "{\"ph\":7}",
        "{\"ph\":\"X\",\"name\":\"a\",\"tid\":1,\"ts\":-1,\"dur\":5}",
        "{\"ph\":\"X\",\"name\":\"a\",\"tid\":1,\"ts\":1e308,\"dur\":1e308}",
        "{\"ph\":\"X\",\"name\":\"a\",\"tid\":1,\"ts\":1e300,\"dur\":-1e300}",
        "{\"ph\":\"X\",\"name\":\"a\",\"tid\":1,\"ts\":1e18,\"dur\":-1},"
        "{\"ph\":\"X\",\"name\":\"a\",\"tid\":1,\"ts\":1,\"dur\":1}",
    };
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        f = fopen(json, "w");
        assert_non_null(f);
        assert_true(fprintf(f, "{\"traceEvents\":[%s]}", events[i]) > 0);
        assert_int_equal(fclose(f), 0);
        EXPECT(arguments, 1, "event 0 is none");
    }
    unlink(json);
}

// The programs of a kernel after each pass; --pass takes one of them. What a pass prints is read by
// the tests of the assembler.
static void test_passes(void ** state) {
    (void) state;
    EXPECT("inspect --passes ADD f32", 2, "--passes wants OP, TYPE and SHAPE");
    EXPECT("inspect --passes ADD f32 64 65", 2, "'65' is one word too many");
    EXPECT("inspect --passes ADD f32 64 --svg", 2, "--svg does not go with --passes");
    EXPECT("inspect ADD f32 64 --pass built", 2, "--pass is for --passes");
    EXPECT("inspect --passes ADD f32 64 --pass linked", 2,
           "--pass wants built, dependences, schedule, loops, bundles or bytes");
    EXPECT("inspect --passes ADDD f32 64", 1, "no op 'ADDD'; did you mean 'ADD'?");
    if (!WITH_COMPILER) {
        skip_test("built without the compiler");
    }
    EXPECT("inspect --passes add f32 64", 0, "// program 1, built\ntarget aie2\n", "\nglobal ",
           "\n// program 1, dependences\n", "\n// program 1, schedule\n", "\n// program 1, loops\n",
           "\n// program 1, bundles\ntarget aie2\nbundles\n",
           "\n// program 1, bytes\n    0:  ", "vadd.f ");
    EXPECT("inspect --passes add f32 64 --arch aie2p", 0, "// program 1, built\ntarget aie2p\n");
    EXPECT("inspect --passes add f32 64 --arch aie3", 2, "--arch wants aie2 or aie2p");
    struct result r = run("inspect --passes ADD f32 64 --pass schedule");
    assert_int_equal(r.status, 0);
    assert_int_equal(strncmp((char *) r.text.data, "// program 1, schedule\ntarget aie2\n", 35), 0);
    assert_null(strstr((char *) r.text.data, "// program 1, built"));
    assert_null(strstr((char *) r.text.data, "bundles"));
    buf_free(&r.text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_pdi),
        cmocka_unit_test(test_own_txn),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_broken),
#if WITH_COMPILER
        cmocka_unit_test(test_svg_dim),
#endif
        cmocka_unit_test(test_svg),
        cmocka_unit_test(test_timeline),
        cmocka_unit_test(test_command_line),
        cmocka_unit_test(test_passes),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
