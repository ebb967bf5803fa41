// store with the compiler of this build: real kernels, one PDI for all shapes of an op, and the
// same kernels again from a pack that was made of them.
#include "aie/aie.h"
#include "aie/image/image.h"
#include "aie/target/times.h"
#include "store/store.h"
#include "base/cmocka-all.h"

#include <sys/stat.h>
#include <unistd.h>

static struct kernel_spec add_spec(int64_t n) {
    struct kernel_spec spec = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    spec.inputs[0] = spec.inputs[1] = spec.output =
        tensor_contiguous(DTYPE_F32, (int64_t[]){n, 1, 1, 1});
    return spec;
}

static struct store_kernel * must_get(struct store * s, const struct kernel_spec * spec) {
    struct store_kernel * k = NULL;
    struct error err = {0};
    assert_true(store_can(s, spec));
    if (store_get(s, spec, &k, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    return k;
}

static bool count(void * user, const struct image_command * command) {
    (void) command;
    ++*(int *) user;
    return true;
}

static void write_file(const char * path, const void * data, size_t size) {
    FILE * f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static void test_compile_and_pack(void ** state) {
    (void) state;
    unsetenv("GGML_HSA_KERNEL_DIR");
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 1);
    struct store * s;
    assert_int_equal(store_new(&s, NULL), ST_OK);
    struct kernel_spec a = add_spec(1024), b = add_spec(4096);
    struct store_kernel *ka = must_get(s, &a), *kb = must_get(s, &b);
    assert_ptr_equal(ka->pdi, kb->pdi);
    int n = 0;
    struct error err = {0};
    assert_int_equal(pdi_read(ka->pdi->data, ka->pdi->size, count, &n, &err), ST_OK);
    assert_true(n > 20);
    n = 0;
    assert_int_equal(txn_read((const uint8_t *) ka->insts, ka->n_insts * 4, count, &n, &err),
                     ST_OK);
    assert_true(n > 5);
    struct store_stats stats;
    store_get_stats(s, &stats);
    assert_int_equal(stats.compiles, 2);

    char dir[] = "/tmp/test-store-jit-XXXXXX", path[400], name[KERNEL_NAME_MAX];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/aie2", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    kernel_name(&a, name);
    snprintf(path, sizeof path, "%s/aie2/%s.pdi", dir, name);
    write_file(path, ka->pdi->data, ka->pdi->size);
    snprintf(path, sizeof path, "%s/aie2/%s_insts.bin", dir, name);
    write_file(path, ka->insts, ka->n_insts * 4);

    setenv("GGML_HSA_KERNEL_DIR", dir, 1);
    struct store * packed;
    assert_int_equal(store_new_with(NULL, &packed, NULL), ST_OK);
    struct store_kernel * k = must_get(packed, &a);
    assert_int_equal(k->n_insts, ka->n_insts);
    assert_memory_equal(k->insts, ka->insts, ka->n_insts * 4);
    assert_int_equal(k->pdi->size, ka->pdi->size);
    assert_memory_equal(k->pdi->data, ka->pdi->data, k->pdi->size);
    assert_false(store_can(packed, &b));
    store_free(packed);
    store_free(s);

    unlink(path);
    snprintf(path, sizeof path, "%s/aie2/%s.pdi", dir, name);
    unlink(path);
    snprintf(path, sizeof path, "%s/aie2", dir);
    rmdir(path);
    rmdir(dir);
}

// ---- columns ----

// A stream's header says how many columns it is for. The same kernel for other devices is another.
static int columns_of(const struct store_kernel * k) {
    return (int) (k->insts[1] & 0xff);
}

static void test_columns(void ** state) {
    (void) state;
    unsetenv("GGML_HSA_KERNEL_DIR");
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 1);
    struct store * s;
    assert_int_equal(store_new(&s, NULL), ST_OK);
    struct kernel_spec any = add_spec(1024), three = any;
    three.columns = 3;
    store_set_columns(s, 2);
    struct store_kernel *a = must_get(s, &any), *b = must_get(s, &three);
    assert_int_equal(columns_of(a), 2);
    assert_int_equal(columns_of(b), 3);
    assert_ptr_not_equal(a->pdi, b->pdi);
    assert_ptr_equal(must_get(s, &any), a);
    // and how long it may take counts them as well
    struct kernel_spec much = add_spec(1 << 20), alone = much;
    alone.columns = 2;
    uint64_t few = aie_us(much.arch, aie_cycles(&alone));
    assert_true(store_us(s, &much) == few && few > aie_us(much.arch, aie_cycles(&much)));
    store_free(s);
}

// GGML_HSA_JIT=0: as a build without a compiler.
static void test_turned_off(void ** state) {
    (void) state;
    struct store * s;
    struct kernel_spec any = add_spec(1024);
    unsetenv("GGML_HSA_KERNEL_DIR");
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "0", 1);
    for (int off = 0; off < 2; off++) {
        setenv("GGML_HSA_JIT", off ? "off" : "nonsense", 1);
        assert_int_equal(store_new(&s, NULL), ST_OK);
        assert_int_equal(store_has_compiler(s), !off);
        assert_int_equal(store_can_itself(s, &any), !off);
        store_free(s);
    }
    unsetenv("GGML_HSA_JIT");
}

// ---- GGML_HSA_JIT_VERBOSE ----

static char told[4096];

static void listen(const char * text) {
    strncat(told, text, sizeof told - strlen(told) - 2);
    strcat(told, "\n");
}

static void test_verbose(void ** state) {
    (void) state;
    struct kernel_spec a = add_spec(1024);
    for (int verbose = 0; verbose < 2; verbose++) {
        struct store * s;
        setenv("GGML_HSA_JIT_VERBOSE", verbose ? "1" : "0", 1);
        unsetenv("GGML_HSA_KERNEL_DIR");
        assert_int_equal(store_new(&s, NULL), ST_OK);
        store_set_log(s, listen);
        must_get(s, &a);
        must_get(s, &a);
        store_free(s);
        const char * line = strstr(told, "compiled aie2/add_f32_1024x1x1x1_f32_1024x1x1x1_f32_");
        assert_true(verbose ? line && strstr(line, " ms: program decoder, ") &&
                                  strchr(line, '\n')[1] == '\0'
                            : !line);
    }
    unsetenv("GGML_HSA_JIT_VERBOSE");
}

// A directory that is wrong is said when a device begins, each by itself; so is a build without a
// compiler that has none.
static void test_wrong_directories(void ** state) {
    (void) state;
    char dir[] = "/tmp/test-store-jit-XXXXXX", list[200], path[100], wanted[200];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/aie2", dir);
    struct store_compiler streams = *store_own_compiler();
    streams.pdi = NULL;
    struct store * s;
    for (int round = 0; round < 3; round++) {
        told[0] = '\0';
        snprintf(list, sizeof list, "%s:%s/nowhere:/dev/null", dir, dir);
        setenv("GGML_HSA_KERNEL_DIR", round == 2 ? "" : list, 1);
        assert_int_equal(store_new_with(round == 2 ? &streams : store_own_compiler(), &s, NULL),
                         ST_OK);
        store_set_log(s, listen);
        store_check_packs(s, AIE_ARCH_AIE2);
        store_free(s);
        snprintf(wanted, sizeof wanted, "%s holds no kernels for aie2 (aie2/: No such file", dir);
        assert_true((strstr(told, wanted) != NULL) == (round == 0));
        snprintf(wanted, sizeof wanted, "%s/nowhere: No such file or directory", dir);
        assert_true((strstr(told, wanted) != NULL) == (round < 2));
        assert_true((strstr(told, "/dev/null: Not a directory") != NULL) == (round < 2));
        assert_true((strstr(told, "no kernel compiler") != NULL) == (round == 2));
        if (round == 0) {
            assert_int_equal(mkdir(path, 0700), 0);
        }
    }
    unsetenv("GGML_HSA_KERNEL_DIR");
    rmdir(path);
    rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compile_and_pack), cmocka_unit_test(test_columns),
        cmocka_unit_test(test_turned_off), cmocka_unit_test(test_verbose),
        cmocka_unit_test(test_wrong_directories)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
