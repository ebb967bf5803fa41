// test-hip-modules: the kernels that come with the library, through the real clang++. Each module
// compiles, and what comes out has exactly the kernels that modules.def says.
//
//   ROCM_KERNELS_TEST_ARCHS   for which architectures; if it is not set, for gfx90a and gfx1100 in
//                             turn, a module for one of them
#include "hip-rig.h"

#include "base/process.h"

struct names {
    char list[128][64];
    int n;
};

static bool add_name(void * user, const char * kernel) {
    struct names * names = user;
    assert_between(names->n, 0, 127);
    snprintf(names->list[names->n++], 64, "%s", kernel);
    return true;
}

static int by_text(const void * a, const void * b) {
    return strcmp(a, b);
}

// The kernel descriptors of a code object: symbols that end in ".kd". The file is ours and new.
static void read_symbols(const uint8_t * elf, struct names * out) {
    uint64_t sections = load_u64(elf + 40);
    uint32_t n = load_u32(elf + 60) & 0xffff;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t * s = elf + sections + 64 * i;
        if (load_u32(s + 4) != 11) { // SHT_DYNSYM
            continue;
        }
        const uint8_t * strings = elf + load_u64(elf + sections + 64 * load_u32(s + 40) + 24);
        for (uint64_t at = load_u64(s + 24), end = at + load_u64(s + 32); at < end; at += 24) {
            const char * name = (const char *) strings + load_u32(elf + at);
            size_t len = strlen(name);
            if (len > 3 && !strcmp(name + len - 3, ".kd")) {
                char kernel[64];
                snprintf(kernel, sizeof kernel, "%.*s", (int) (len - 3), name);
                add_name(out, kernel);
            }
        }
    }
}

static void check_module(struct rocm_kernels * k, const char * arch, const char * module) {
    const struct rocm_code * code;
    struct rocm_error err = {0};
    if (rocm_kernels_get_or_compile_for(k, arch, module, rocm_modules_source(module), &code,
                                        &err) != ROCM_OK) {
        fail_msg("%s", err.text);
    }
    struct names want = {.n = 0}, have = {.n = 0};
    rocm_modules_kernels(module, add_name, &want);
    read_symbols(code->data, &have);
    qsort(want.list, (size_t) want.n, sizeof want.list[0], by_text);
    qsort(have.list, (size_t) have.n, sizeof have.list[0], by_text);
    assert_int_equal(have.n, want.n);
    for (int i = 0; i < want.n; i++) {
        assert_string_equal(have.list[i], want.list[i]);
    }
}

static void test_compile(void ** state) {
    (void) state;
    const char * text = getenv("ROCM_KERNELS_TEST_ARCHS");
    char archs[256];
    snprintf(archs, sizeof archs, "%s", text && *text ? text : "gfx90a gfx1100");
    setenv("PATH", saved_path, 1);
    unsetenv("ROCM_PATH");
    struct hip_toolchain t = {.root = -1};
    hip_toolchain_find(&t, "clang", NULL);
    bool have = t.clang && clang_has_linker(t.clang);
    hip_toolchain_free(&t);
    if (!have) {
        skip_test("no clang++-19 or later with its lld to compile GPU kernels with");
    }
    struct rocm_options options = {.compiler = "clang", .version = "0"};
    struct rocm_kernels * k;
    assert_int_equal(rocm_kernels_open(&options, &k, NULL), ROCM_OK);
    char * rest = archs;
    int first = 0, step = text && *text ? 1 : 2;
    for (char * arch; (arch = strtok_r(rest, " ", &rest)); first += step - 1) {
        int n = 0;
        for (int i = first; i < rocm_modules_count(); i += step, n++) {
            check_module(k, arch, rocm_modules_name(i));
        }
        print_message("%s: %d modules\n", arch, n);
    }
    rocm_kernels_close(k);
}

static bool is_in_a_module(void * user, const char * kernel) {
    const char * module = rocm_modules_find(kernel);
    *(bool *) user &= module != NULL;
    return true;
}

static void test_find(void ** state) {
    (void) state;
    static const char * const pairs[][2] = {{"unary_exp_f16", "unary_f16"},
                                            {"binary_add_u32", "binary_int"},
                                            {"cast_u8_bf16", "cast_int"},
                                            {"where_i64_f64", "where"},
                                            {"matvec_f16_f32", "matmul_f32"},
                                            {"rope_i_bf16", "rope"},
                                            {"gather_u8_f32", "index_float"},
                                            {"softmax_mask16_f32", "softmax"},
                                            {"reduce_argmax_i64", "reduce_int"},
                                            {"unary_gelu_erf_f64", "unary_f64"},
                                            {"matmul_bf16_bf16_f32", "matmul_half"},
                                            {"matvec_q6_K_f32", "matmul_q4_K"},
                                            {"activation_xielu_bf16", "activation_half"},
                                            {"glu_swiglu_oai_f32", "glu"},
                                            {"get_rows_f16", "get_rows"},
                                            {"ggml_rope_f16", "ggml_rope"},
                                            {"set_rows_i64_bf16", "set_rows"},
                                            {"set_rows_i64_q4_K", "blocks_write_q4_K"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const char * module = rocm_modules_find(pairs[i][0]);
        assert_non_null(module);
        assert_string_equal(module, pairs[i][1]);
    }
    // Families are modules that nobody has to compile: each kernel is in a smaller one.
    static const char * const families[] = {
        ROCM_SOURCE_UNARY,    ROCM_SOURCE_BINARY,  ROCM_SOURCE_COMPARE,  ROCM_SOURCE_TERNARY,
        ROCM_SOURCE_CAST,     ROCM_SOURCE_FILL,    ROCM_SOURCE_AFFINE,   ROCM_SOURCE_REDUCE,
        ROCM_SOURCE_INDEXING, ROCM_SOURCE_SOFTMAX, ROCM_SOURCE_RMS_NORM, ROCM_SOURCE_LAYER_NORM,
        ROCM_SOURCE_ROPE};
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        assert_non_null(rocm_modules_source(families[i]));
        bool all_there = true;
        rocm_modules_kernels(families[i], is_in_a_module, &all_there);
        assert_true(all_there);
    }
    for (int i = 0; i < rocm_modules_count(); i++) {
        assert_string_not_equal(rocm_modules_name(i), ROCM_SOURCE_BINARY);
    }
    // Types with tables of ggml's are there where the build had a ggml.
    static const char * const grids[][2] = {{"get_rows_iq1_m", "grids_read"},
                                            {"matvec_iq3_s_f32", "matmul_iq3"},
                                            {"matmul_id_iq2_xxs_f32", "matmul_id_iq2"}};
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        const char * module = rocm_modules_find(grids[i][0]);
        assert_int_equal(module != NULL, *hip_grids != 0);
        assert_true(!module || !strcmp(module, grids[i][1]));
        assert_int_equal(rocm_modules_source(grids[i][1]) != NULL, *hip_grids != 0);
    }
    assert_null(rocm_modules_find("unary_exp"));
    assert_null(rocm_modules_find(""));
    assert_null(rocm_modules_source("nothing"));
    assert_null(rocm_modules_name(-1));
    assert_null(rocm_modules_name(rocm_modules_count()));
    // A source stands alone.
    for (int i = 0; i < rocm_modules_count(); i++) {
        const char * text = rocm_modules_source(rocm_modules_name(i));
        assert_null(strstr(text, "#include \""));
        assert_non_null(strstr(text, "struct rk_shape"));
    }
}

// A user's source with an error: the real compiler's words reach the caller.
static void test_error(void ** state) {
    (void) state;
    setenv("PATH", saved_path, 1);
    struct rocm_options options = {.compiler = "clang", .version = "0", .arch = "gfx1100"};
    struct rocm_kernels * k;
    struct rocm_error err = {0};
    const struct rocm_code * code;
    assert_int_equal(rocm_kernels_open(&options, &k, NULL), ROCM_OK);
    enum rocm_status st = rocm_kernels_get_or_compile(
        k, "mine", "\n\n__attribute__((global)) void f() { blub(); }\n", &code, &err);
    rocm_kernels_close(k);
    if (st == ROCM_NOT_FOUND) {
        skip_test("no clang++-19 or later to compile GPU kernels with");
    }
    assert_int_equal(st, ROCM_INVALID);
    print_message("%s\n", err.text);
    assert_non_null(strstr(err.text, "\nmine.hip:3:"));
    assert_non_null(strstr(err.text, "blub"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test_setup(test_error, rig_reset),
        cmocka_unit_test_setup(test_compile, rig_reset),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
