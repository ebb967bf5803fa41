// test-hip-kernels [arch]: kernels of the library on emulated GPUs, against double precision. The
// code is what the real clang++ makes, and hipcc where it is there and knows the GPU. With an
// architecture every kernel, on that GPU: a minute. Without one a part of the modules on each GPU,
// another part on each.
#include "hip-rig.h"

#include "../../tools/gpu-bench.h"
#include "hsa/hsac.h"

static struct hsac * runtime;

static void * symbol(void * user, const char * name) {
    (void) user;
    return hsac_symbol(runtime, name);
}

struct trial {
    const struct hip_bench * bench;
    struct hip_check total;
    int n, wrong;
};

static bool try_kernel(void * user, const char * kernel) {
    struct trial * t = user;
    struct error err = {0};
    t->n++;
    if (hip_check_kernel(t->bench, kernel, &t->total, &err) != ST_OK) {
        t->wrong++;
        print_message("%s\n", err.text);
    }
    return true;
}

static bool have_compiler(const char * choice) {
    struct hip_toolchain t = {.root = -1};
    hip_toolchain_find(&t, choice, NULL);
    bool have = t.hipcc || (t.clang && clang_has_linker(t.clang));
    hip_toolchain_free(&t);
    return have;
}

static struct rocm_kernels * open_emulated(const char * arch, const char * compiler) {
    struct rocm_options options = {.compiler = compiler, .version = "0", .hsa_symbol = symbol};
    struct rocm_kernels * k;
    struct error err = {0};
    setenv("PATH", saved_path, 1);
    unsetenv("ROCM_PATH");
    unsetenv("CANDLE_ROCM_ARCH");
    if (!have_compiler(compiler)) {
        skip_test("no %s to compile GPU kernels with",
                  strcmp(compiler, "clang") ? compiler : "clang++-19 or later with its lld");
    }
    setenv("GGML_HSA_EMULATE", arch, 1);
    setenv("GGML_HSA_RUNTIME", EMULATOR, 1);
    if (hsac_open(&runtime, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(rocm_kernels_open(&options, &k, NULL), ROCM_OK);
    return k;
}

// Of so many modules one, the next one on the next GPU.
enum { PARTS = 12 };

static void run_part(const char * arch, const char * compiler, int part, int parts) {
    struct rocm_kernels * k = open_emulated(arch, compiler);
    struct hip_hsa_bench * bench;
    struct error err = {0};
    if (hip_bench_open(k, runtime, 0, &bench, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    assert_string_equal(hip_bench_name(bench), arch);
    struct trial t = {.bench = hip_bench_of(bench)};
    try_kernel(&t, "pack_iq4_nl"); // whatever the part: nothing else looks at the numbers it finds
    for (int i = part; i < rocm_modules_count(); i += parts) {
        rocm_modules_kernels(rocm_modules_name(i), try_kernel, &t);
    }
    print_message("%s, %s: %d of %d kernels right, %llu launches, %llu elements\n", arch, compiler,
                  t.n - t.wrong, t.n, (unsigned long long) t.total.cases,
                  (unsigned long long) t.total.elements);
    hip_bench_close(bench);
    rocm_kernels_close(k);
    hsac_close(runtime);
    assert_int_equal(t.wrong, 0);
    assert_true(t.n > 700 / (2 * parts - 1));
}

static void test_gfx90a(void ** state) {
    (void) state;
    run_part("gfx90a", "clang", 0, PARTS);
}

static void test_gfx942(void ** state) {
    (void) state;
    run_part("gfx942", "clang", 4, PARTS);
}

static void test_gfx1100(void ** state) {
    (void) state;
    run_part("gfx1100", "clang", 8, PARTS);
}

static const char * one_arch;

static void test_whole(void ** state) {
    (void) state;
    run_part(one_arch, "clang", 0, 1);
}

// Its code is of an older clang, with AMD's library inside. A minute of compiling: when asked for.
static void test_hipcc(void ** state) {
    (void) state;
    if (!getenv("ROCM_KERNELS_TEST_HIPCC")) {
        skip_test("ROCM_KERNELS_TEST_HIPCC is not set");
    }
    run_part("gfx90a", "hipcc", 0, 1);
}

// ---- a wrong result is noticed ----

struct liar {
    const struct hip_bench * honest;
    uint8_t * last; // the last allocation: the output of what is tried here
    size_t size;
};

static void * lie_alloc(void * user, size_t size) {
    struct liar * l = user;
    l->size = size;
    return l->last = l->honest->alloc(l->honest->user, size);
}

static void lie_release(void * user, void * memory) {
    struct liar * l = user;
    l->honest->release(l->honest->user, memory);
}

static enum status lie_launch(void * user, const char * kernel, const void * args, size_t args_size,
                              const uint32_t groups[3], uint32_t group_size, struct error * err) {
    struct liar * l = user;
    enum status st =
        l->honest->launch(l->honest->user, kernel, args, args_size, groups, group_size, err);
    l->last[2] ^= 0x40; // of the first element
    return st;
}

static void test_liar(void ** state) {
    (void) state;
    static const char * const kernels[] = {
        "unary_exp_f32",      "binary_mul_i32",       "where_u8_f32",     "cast_f32_i32",
        "fill_f32",           "reduce_sum_f32",       "softmax_f32",      "rms_norm_f32",
        "affine_f32",         "activation_clamp_f32", "glu_reglu_f32",    "get_rows_f32",
        "matmul_f16_f16_f32", "ggml_rope_f32",        "set_rows_i64_f32", "ggml_rope_rows_bf16"};
    struct rocm_kernels * k = open_emulated("gfx1100", "clang");
    struct hip_hsa_bench * bench;
    struct error err = {0};
    assert_int_equal(hip_bench_open(k, runtime, 0, &bench, &err), ST_OK);
    struct liar liar = {.honest = hip_bench_of(bench)};
    struct hip_bench lying = {&liar, lie_alloc, lie_release, lie_launch};
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        struct hip_check check = {0};
        assert_int_equal(hip_check_kernel(&lying, kernels[i], &check, &err), ST_CORRUPT);
        assert_non_null(strstr(err.text, kernels[i]));
    }
    struct hip_check check = {0};
    assert_int_equal(hip_check_kernel(&lying, "no_such_f32", &check, &err), ST_NOT_FOUND);
    hip_bench_close(bench);
    assert_int_equal(hip_bench_open(k, runtime, 1, &bench, &err), ST_NOT_FOUND); // it has one
    rocm_kernels_close(k);
    hsac_close(runtime);
}

int main(int argc, char ** argv) {
    const struct CMUnitTest parts[] = {
        cmocka_unit_test_setup(test_liar, rig_reset),
        cmocka_unit_test_setup(test_gfx90a, rig_reset),
        cmocka_unit_test_setup(test_gfx942, rig_reset),
        cmocka_unit_test_setup(test_gfx1100, rig_reset),
        cmocka_unit_test_setup(test_hipcc, rig_reset),
    };
    const struct CMUnitTest whole[] = {cmocka_unit_test_setup(test_whole, rig_reset)};
    one_arch = argc > 1 ? argv[1] : NULL;
    return one_arch ? cmocka_run_group_tests(whole, rig_setup, rig_teardown)
                    : cmocka_run_group_tests(parts, rig_setup, rig_teardown);
}
