// test-hip-null: a NULL in any argument of the library is an error that names the argument, or "no
// such thing", and never the end of the process.
#include "base/cmocka-all.h"
#include "rocm-kernels.h"

static void expect(enum rocm_status st, const struct rocm_error * err, const char * argument) {
    assert_int_equal(st, ROCM_INVALID);
    assert_int_equal(err->status, ROCM_INVALID);
    if (!strstr(err->text, argument) || !strstr(err->text, "NULL")) {
        fail_msg("'%s' does not name %s", err->text, argument);
    }
}

static void manager(void ** state) {
    (void) state;
    struct rocm_kernels * k = NULL;
    struct rocm_error err = {0};
    const struct rocm_code * code;
    struct rocm_counters counters = {.compiles = 7};
    expect(rocm_kernels_open(NULL, NULL, &err), &err, "out");
    assert_int_equal(rocm_kernels_open(NULL, NULL, NULL), ROCM_INVALID);
    assert_int_equal(rocm_kernels_open(NULL, &k, NULL), ROCM_OK);
    rocm_kernels_close(NULL);
    assert_null(rocm_kernels_arch(NULL, &err));
    expect(err.status, &err, "k is");
    assert_null(rocm_kernels_arch(NULL, NULL));
    assert_null(rocm_kernels_version(NULL, &err));
    expect(err.status, &err, "k is");
    assert_null(rocm_kernels_version(NULL, NULL));
    assert_null(rocm_kernels_directory(NULL));
    expect(rocm_kernels_get_or_compile(NULL, "a", "b", &code, &err), &err, "k is");
    expect(rocm_kernels_get_or_compile(k, NULL, "b", &code, &err), &err, "name");
    expect(rocm_kernels_get_or_compile(k, "a", NULL, &code, &err), &err, "source");
    expect(rocm_kernels_get_or_compile(k, "a", "b", NULL, &err), &err, "out");
    assert_int_equal(rocm_kernels_get_or_compile(k, "a", NULL, &code, NULL), ROCM_INVALID);
    expect(rocm_kernels_get_or_compile_for(k, "gfx90a", "a", NULL, &code, &err), &err, "source");
    rocm_kernels_counters(NULL, &counters);
    rocm_kernels_counters(k, NULL);
    assert_int_equal(counters.compiles, 7);
    rocm_kernels_close(k);
}

static bool visit(void * user, const char * kernel) {
    (void) kernel;
    ++*(int *) user;
    return true;
}

static void modules(void ** state) {
    (void) state;
    int n = 0;
    assert_null(rocm_modules_source(NULL));
    assert_null(rocm_modules_find(NULL));
    rocm_modules_kernels(NULL, visit, &n);
    assert_int_equal(n, 0);
    rocm_modules_kernels(rocm_modules_name(0), NULL, &n);
    rocm_modules_kernels(rocm_modules_name(0), visit, &n);
    assert_true(n > 0);
}

static void device(void ** state) {
    (void) state;
    struct rocm_kernels * k;
    struct rocm_module * m;
    struct rocm_error err = {0};
    const struct rocm_function * f;
    assert_int_equal(rocm_kernels_open(NULL, &k, NULL), ROCM_OK);
    expect(rocm_module_load(NULL, 1, "unary_f32", NULL, &m, &err), &err, "k is");
    expect(rocm_module_load(k, 1, NULL, NULL, &m, &err), &err, "name");
    expect(rocm_module_load(k, 1, "unary_f32", NULL, NULL, &err), &err, "out");
    assert_int_equal(rocm_module_load(k, 1, NULL, NULL, &m, NULL), ROCM_INVALID);
    rocm_module_release(NULL);
    expect(rocm_module_function(NULL, "f", &f, &err), &err, "m is");
    assert_int_equal(rocm_module_function(NULL, "f", &f, NULL), ROCM_INVALID);
    rocm_kernels_close(k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(manager),
        cmocka_unit_test(modules),
        cmocka_unit_test(device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
