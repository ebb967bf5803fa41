// test-gfx11-decode: bytes of gfx11 against what a disassembler says of them. Two tables of bytes
// and texts are always there: instructions of compiled kernels, and of every other opcode one with
// operands drawn at random. Where clang-19 and llvm-objdump-19 are installed, kernels are compiled
// and each of their instructions is compared: those of the corpus in waves of 32 and of 64, and of
// the backend's one file in eight, or all of them:
//
//   test-gfx11-decode [whole]
#include "base/cmocka-all.h"

#include "base/process.h"
#include "emu/gfx/gfx11-text.h"

#include <dirent.h>
#include <unistd.h>

#define COMPILER     "clang++-19"
#define DISASSEMBLER "llvm-objdump-19"

enum { MAX_WORDS = 5 };

static const struct row {
    const char * text;
    uint32_t words[3];
    int n;
} rows[] = {
#define ROW1(text, a)       {text, {a}, 1},
#define ROW2(text, a, b)    {text, {a, b}, 2},
#define ROW3(text, a, b, c) {text, {a, b, c}, 3},
#include "gfx11-compiled.def"
#include "gfx11-random.def"
};

// What words are, as the machine and as the text see it; "" when they agree.
static const char * differs_on(enum gfx_arch arch, const char * line, const uint32_t * words, int n,
                               int lanes, struct text * t) {
    static const char pair_only[] = "one of them is a pair";
    char copy[400];
    snprintf(copy, sizeof copy, "%s", line);
    struct gfx_inst in[2];
    if (gfx11_decode(arch, words, n, in) != n) {
        return "another length";
    }
    char * second = strstr(copy, " :: ");
    if (!!second != !!(in[0].flags & GFX_F_PAIR)) {
        return pair_only;
    }
    if (second) {
        *second = 0;
    }
    text_parse(t, copy, lanes);
    if (*text_differs(t, &in[0], second)) {
        return t->why;
    }
    if (second) {
        text_parse(t, second + 4, lanes);
        return text_differs(t, &in[1], true);
    }
    return "";
}

static const char * differs(const char * line, const uint32_t * words, int n, int lanes,
                            struct text * t) {
    return differs_on(GFX_1100, line, words, n, lanes, t);
}

// What RDNA 3.5 has more is none of RDNA3's.
static void test_gfx115(void ** state) {
    (void) state;
    static const struct row more[] = {
#include "gfx115.def"
    };
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        struct text t;
        struct gfx_inst in[2];
        const char * why = differs_on(GFX_1151, more[i].text, more[i].words, more[i].n, 32, &t);
        if (*why) {
            fail_msg("%08x %s: %s", more[i].words[0], more[i].text, why);
        }
        assert_int_equal(gfx11_decode(GFX_1151, more[i].words, more[i].n, in), more[i].n);
        assert_true(gfx_prepare(&in[0]));
        assert_int_equal(gfx11_decode(GFX_1100, more[i].words, more[i].n, in), 0);
        for (int n = 0; n < more[i].n; n++) {
            assert_int_equal(gfx11_decode(GFX_1151, more[i].words, n, in), -1);
        }
    }
    assert_true(sizeof more / sizeof *more > 60);
}

static void test_tables(void ** state) {
    (void) state;
    int wrong_rows = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct text t;
        const char * why = differs(rows[i].text, rows[i].words, rows[i].n, 32, &t);
        if (*why) {
            fprintf(stderr, "%08x %s: %s\n", rows[i].words[0], rows[i].text, why);
            wrong_rows++;
        }
        struct gfx_inst in[2];
        assert_int_equal(gfx11_decode(GFX_1100, rows[i].words, rows[i].n, in), rows[i].n);
        if (!gfx_prepare(&in[0])) {
            fprintf(stderr, "%s: nothing executes it\n", rows[i].text);
            wrong_rows++;
        }
    }
    printf("%zu instructions\n", sizeof rows / sizeof *rows);
    assert_int_equal(wrong_rows, 0);
}

// The comparison itself must see what is wrong: every bit that is flipped in the first word of a
// row gives another instruction, another operand, or none; bits that nobody looks at are few.
static void test_comparison_sees(void ** state) {
    (void) state;
    long flips = 0, unseen = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int bit = 0; bit < 32; bit++) {
            uint32_t words[MAX_WORDS] = {0};
            memcpy(words, rows[i].words, sizeof rows[i].words);
            words[0] ^= UINT32_C(1) << bit;
            struct text t;
            flips++;
            unseen += !*differs(rows[i].text, words, rows[i].n, 32, &t);
        }
    }
    printf("%ld flips, %ld without consequence\n", flips, unseen);
    assert_true(unseen * 8 < flips);
}

// An instruction that goes on behind the end says so, and nothing beyond the end is read (which a
// build with sanitizers sees, since each copy is just as long).
static void test_cut_off(void ** state) {
    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int n = 0; n < rows[i].n; n++) {
            uint32_t * words = malloc((size_t) n * 4 + 1);
            assert_non_null(words);
            memcpy(words, rows[i].words, (size_t) n * 4);
            struct gfx_inst in[2];
            assert_int_equal(gfx11_decode(GFX_1100, words, n, in), -1);
            free(words);
        }
    }
}

static void test_unknown(void ** state) {
    (void) state;
    static const uint32_t unknown[][3] = {
        {0xbf9f0000},                    // s_code_end, which pads
        {0xbe800600},                    // a hole in SOP1
        {0x83800000},                    // a hole in SOP2
        {0xbf120000},                    // a hole in SOPC
        {0x7e021300},                    // a hole in VOP1
        {0x00000000},                    // a hole in VOP2
        {0x7c600300},                    // a hole in VOPC
        {0xd6000000, 0x00020501},        // a hole in VOP3
        {0xcc464002, 0x1c160701},        // a hole in VOP3P
        {0xc9000000 | 13u << 22, 0, 0},  // a hole in VOPD
        {0xdab40000, 0},                 // ds_bvh_stack_rtn_b32
        {0xd8020000, 0},                 // GDS
        {0xdcdc0000, 0},                 // a hole in FLAT
        {0xdccd0000, 0x007c0000},        // an atomic in scratch
        {0xf4680000, 0xf8000000},        // a hole in SMEM
        {0xf0000000, 0},                 // images
        {0xf8000000, 0},                 // exports
        {0xd7600100 | 0x80, 0x00000101}, // v_readlane into no scalar register
        {0x7e0002d1},                    // v_mov_b32 of source 209
    };
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        struct gfx_inst in[2];
        int n = gfx11_decode(GFX_1100, unknown[i], 3, in);
        if (n != 0) {
            fail_msg("%08x decodes as %s", unknown[i][0], gfx_op_info[in[0].op].name);
        }
    }
}

// ---- anything at all ----

static uint64_t random_state = 0x9e3779b97f4a7c15;

static uint32_t random_word(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t) (random_state >> 16);
}

static void check_operand(const struct gfx_operand * o) {
    assert_true(o->kind <= GFX_K_SPECIAL);
    if (o->kind == GFX_K_VGPR) {
        assert_true(o->reg < 256);
    } else if (o->kind == GFX_K_SGPR) {
        assert_true(o->reg < GFX_SGPR_COUNT);
    } else if (o->kind == GFX_K_SPECIAL) {
        assert_true(o->reg <= GFX_S_SCC);
    }
}

static void test_random(void ** state) {
    (void) state;
    long decoded = 0;
    for (long i = 0; i < 400000; i++) {
        int n = (int) (random_word() % (MAX_WORDS + 1));
        uint32_t * words = malloc((size_t) n * 4 + 1);
        assert_non_null(words);
        for (int k = 0; k < n; k++) {
            words[k] = random_word();
        }
        struct gfx_inst in[2];
        int used = gfx11_decode(GFX_1100, words, n, in);
        assert_between(used + 1, 0, n + 1);
        for (int half = 0; used > 0 && half <= !!(in[0].flags & GFX_F_PAIR); half++) {
            assert_between(in[half].op, 1, GFX_OP_COUNT - 1);
            assert_int_equal(in[half].size, 4 * used);
            assert_between(in[half].sdst, 0, GFX_SGPR_COUNT - 1);
            check_operand(&in[half].dst);
            for (int k = 0; k < 4; k++) {
                check_operand(&in[half].src[k]);
            }
            assert_true(gfx_prepare(&in[half]));
            decoded++;
        }
        free(words);
    }
    printf("%ld of 400000 are instructions\n", decoded);
    assert_true(decoded > 10000);
}

// ---- a pair: both read before either writes ----

struct memory {
    uintptr_t base[3], size[3];
};

static void * inside(void * user, uint64_t addr, uint64_t len, bool write) {
    const struct memory * m = user;
    (void) write;
    for (int i = 0; i < 3; i++) {
        uint64_t at = addr - m->base[i];
        if (at < m->size[i] && len <= m->size[i] - at) {
            return (void *) (uintptr_t) addr;
        }
    }
    return NULL;
}

static void test_pair_swaps(void ** state) {
    (void) state;
    static const uint32_t code[] = {
        0xf4040080, 0xf8000000, // s_load_b64 s[2:3], s[0:1], null
        0x360000ff, 0x000003ff, // v_and_b32 v0, 0x3ff, v0
        0x4a0200ff, 0x00000064, // v_add_nc_u32 v1, 100, v0
        0xca100101, 0x00000100, // v_dual_mov_b32 v0, v1 :: v_dual_mov_b32 v1, v0
        0x30040283,             // v_lshlrev_b32 v2, 3, v1
        0xbf89fc07,             // s_waitcnt lgkmcnt(0)
        0xdc6e0000, 0x00020002, // global_store_b64 v2, v[0:1], s[2:3]
        0xbfb00000,             // s_endpgm
    };
    // The code stands behind its descriptor: two user registers, which hold the address of the
    // arguments, and waves of 32.
    _Alignas(64) uint32_t kernel[16 + 16] = {[4] = 64, [13] = 2 << 1, [14] = 1 << 3 | 1 << 10};
    memcpy(kernel + 16, code, sizeof code);
    uint32_t out[64][2] = {{0}};
    _Alignas(16) uint64_t kernarg = (uintptr_t) out;
    struct memory memory = {{(uintptr_t) kernel, (uintptr_t) out, (uintptr_t) &kernarg},
                            {sizeof kernel, sizeof out, sizeof kernarg}};
    struct gfx_config config = {.arch = GFX_1100, .threads = 1, .resolve = inside, .user = &memory};
    struct gfx_dispatch d = {.kernel_object = (uintptr_t) kernel,
                             .kernarg = (uintptr_t) &kernarg,
                             .packet = (uintptr_t) &kernarg,
                             .grid = {40, 1, 1},
                             .group = {40, 1, 1}};
    struct gfx * gpu;
    struct error err;
    assert_int_equal(gfx_new(&config, &gpu, &err), ST_OK);
    if (gfx_run(gpu, &d, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    gfx_free(gpu);
    for (unsigned i = 0; i < 64; i++) { // work-items, and none behind the last
        assert_int_equal(out[i][0], i < 40 ? 100 + i : 0);
        assert_int_equal(out[i][1], i < 40 ? i : 0);
    }
}

// ---- compiled here and now ----

static bool run_program(char * const * argv, struct buf * output) {
    struct process p = {.argv = argv, .time_limit_s = 300, .capture = true, .keep = 256u << 20};
    struct process_end end;
    struct error err;
    if (process_run(&p, &end, &err) != ST_OK) {
        fprintf(stderr, "%s\n", err.text);
        return false;
    }
    bool good = end.known && !end.signal && end.exit_status == 0;
    if (!good) {
        fprintf(stderr, "%s: %.2000s\n", argv[0], end.output.data ? (char *) end.output.data : "");
    }
    *output = end.output;
    return good;
}

// "\ttext   // 0000: WORD WORD"; false for lines that are none.
static bool split_line(char * line, uint32_t * words, int * n) {
    char * comment = strstr(line, "//");
    char * colon = comment ? strchr(comment, ':') : NULL;
    if (line[0] != '\t' || !colon) {
        return false;
    }
    char * p = colon + 1;
    for (*n = 0; *n < MAX_WORDS; (*n)++) {
        char * end;
        unsigned long v = strtoul(p, &end, 16);
        if (end - p != 9) {
            break;
        }
        words[*n] = (uint32_t) v;
        p = end;
    }
    while (comment > line && comment[-1] == ' ') {
        comment--;
    }
    *comment = 0;
    return *n > 0;
}

// Compiles a source for waves of so many lanes and compares every instruction of it.
static void compare_source(const char * source, int lanes, const char * object, long * count,
                           long * wrong_lines) {
    struct buf output = {0};
    char * compile[] = {COMPILER,
                        "-x",
                        "hip",
                        "--cuda-device-only",
                        "--no-gpu-bundle-output",
                        "--offload-arch=gfx1100",
                        "-nogpulib",
                        "-nogpuinc",
                        "-O3",
                        "-mcode-object-version=4",
                        "-DROCM_KERNELS_FREESTANDING",
                        "-munsafe-fp-atomics",
                        lanes == 64 ? "-mwavefrontsize64" : "-mno-wavefrontsize64",
                        "-o",
                        (char *) object,
                        (char *) source,
                        NULL};
    bool compiled = run_program(compile, &output);
    buf_free(&output);
    assert_true(compiled);
    char * disassemble[] = {DISASSEMBLER, "-d",
                            lanes == 64 ? "--mattr=-wavefrontsize32,+wavefrontsize64"
                                        : "--mattr=+wavefrontsize32,-wavefrontsize64",
                            (char *) object, NULL};
    memset(&output, 0, sizeof output);
    assert_true(run_program(disassemble, &output));
    char * rest = (char *) output.data;
    for (char * line = rest; line && *line; line = rest) {
        rest = strchr(line, '\n');
        if (rest) {
            *rest++ = 0;
        }
        uint32_t words[MAX_WORDS];
        int n;
        if (!split_line(line, words, &n) || strstr(line, "s_code_end")) {
            continue;
        }
        struct text t;
        const char * why = differs(line, words, n, lanes, &t);
        ++*count;
        if (*why && ++*wrong_lines < 20) {
            fprintf(stderr, "%08x%s: %s\n", words[0], line, why);
        }
    }
    buf_free(&output);
}

static bool whole; // all files of kernels, which takes minutes, nearly all of them the compiler's

static int hip_files(const struct dirent * e) {
    size_t n = strlen(e->d_name);
    return n > 4 && !strcmp(e->d_name + n - 4, ".hip");
}

static void test_disassembler(void ** state) {
    (void) state;
    char * compiler = process_find(COMPILER);
    char * disassembler = process_find(DISASSEMBLER);
    bool both = compiler && disassembler;
    free(compiler);
    free(disassembler);
    if (!both) {
        skip_test("no " COMPILER " or no " DISASSEMBLER);
    }
    char object[] = "/tmp/gfx11-decode-XXXXXX";
    int fd = mkstemp(object);
    assert_true(fd >= 0);
    close(fd);
    long count = 0, wrong_lines = 0;
    compare_source(CORPUS, 32, object, &count, &wrong_lines);
    compare_source(CORPUS, 64, object, &count, &wrong_lines);
    struct dirent ** files = NULL;
    int n = scandir(KERNELS, &files, hip_files, alphasort);
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", KERNELS, files[i]->d_name);
        if (whole || i % 8 == 0) {
            compare_source(path, 32, object, &count, &wrong_lines);
        }
        free(files[i]);
    }
    free(files);
    unlink(object);
    printf("%ld instructions\n", count);
    assert_true(count > 10000);
    assert_int_equal(wrong_lines, 0);
}

int main(int argc, char ** argv) {
    whole = argc > 1 && !strcmp(argv[1], "whole");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),          cmocka_unit_test(test_gfx115),
        cmocka_unit_test(test_comparison_sees), cmocka_unit_test(test_cut_off),
        cmocka_unit_test(test_unknown),         cmocka_unit_test(test_random),
        cmocka_unit_test(test_pair_swaps),      cmocka_unit_test(test_disassembler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
