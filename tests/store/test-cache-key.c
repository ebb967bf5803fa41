// cache: the key, as a table: each input that must change it and each that must not, tried on a
// cache that holds one kernel. What changes the compiler's identity has a table in
// test-identity.sh.
#include "store/cache-rig.h"

struct variant {
    const char * what;
    struct kernel_spec spec;
    struct store_compiler compiler;
    bool other_key; // as it should be
};

static void run_variant(const struct variant * v) {
    struct store_stats stats = get_once(&v->compiler, &v->spec);
    print_message("  %-58s %s\n", v->what, stats.compiles ? "another kernel" : "the same kernel");
    if ((stats.compiles == 1) != v->other_key || stats.cache_hits != !v->other_key) {
        fail_msg("%s: %s", v->what, v->other_key ? "must change the key" : "must not");
    }
}

static struct kernel_spec base_spec(void) {
    struct kernel_spec s = {.op = KERNEL_OP_ADD, .arch = AIE_ARCH_AIE2, .n_inputs = 2};
    s.inputs[0] = s.output = tensor_contiguous(DTYPE_F32, (int64_t[]){8, 4, 2, 1});
    s.inputs[1] = tensor_contiguous(DTYPE_F32, (int64_t[]){8, 4, 2, 1});
    return s;
}

static void test_key_specs(void ** state) {
    (void) state;
    struct kernel_spec base = base_spec();
    expect_compile(&base);
    print_message("a change of ...                                              gives\n");
    struct tensor * tensors[] = {&base.inputs[0], &base.inputs[1], &base.output};
    static const char * const names[] = {"input 0", "input 1", "output"};
    for (int t = 0; t < 3; t++) {
        struct tensor saved = *tensors[t];
        char what[80];
        for (int d = 0; d < TENSOR_DIMS; d++) {
            int64_t ne[TENSOR_DIMS];
            memcpy(ne, saved.ne, sizeof ne);
            ne[d] += 1;
            *tensors[t] = tensor_contiguous(saved.dtype, ne);
            snprintf(what, sizeof what, "dimension %d of %s", d, names[t]);
            run_variant(&(struct variant){what, base, rig_compiler, true});
            *tensors[t] = saved;
            tensors[t]->nb[d] += 4;
            snprintf(what, sizeof what, "stride %d of %s%s", d, names[t],
                     saved.ne[d] == 1 ? " (of one element)" : "");
            run_variant(&(struct variant){what, base, rig_compiler, saved.ne[d] != 1});
            *tensors[t] = saved;
        }
        *tensors[t] = tensor_contiguous(DTYPE_I32, saved.ne);
        snprintf(what, sizeof what, "datatype of %s", names[t]);
        run_variant(&(struct variant){what, base, rig_compiler, true});
        *tensors[t] = saved;
    }
    struct kernel_spec v = base;
    v.n_inputs = 1;
    run_variant(&(struct variant){"number of inputs", v, rig_compiler, true});
    v = base;
    v.columns = 2;
    run_variant(&(struct variant){"columns of the array", v, rig_compiler, true});
    v = base;
    v.arch = AIE_ARCH_AIE2P;
    run_variant(&(struct variant){"architecture", v, rig_compiler, true});
    for (int op = 0; op < KERNEL_OP_COUNT; op++) {
        const struct kernel_op_info * info = kernel_op_info((enum kernel_op) op);
        v = base;
        v.op = (enum kernel_op) op;
        char what[80];
        snprintf(what, sizeof what, "operation: %s", info->name);
        if (v.op != base.op) {
            run_variant(&(struct variant){what, v, rig_compiler, true});
        }
        for (int p = 0; p < KERNEL_MAX_PARAMS; p++) {
            v.params[p] = 0x3f000000;
            snprintf(what, sizeof what, "parameter %d of %s%s", p, info->name,
                     p < info->n_params ? "" : " (which has fewer)");
            if (p <= info->n_params) {
                run_variant(&(struct variant){what, v, rig_compiler, p < info->n_params});
            }
            v.params[p] = 0;
        }
    }
    memset(&v, 0xa5, sizeof v); // padding and inputs that do not count
    v.op = base.op;
    v.arch = base.arch;
    v.n_inputs = base.n_inputs;
    v.columns = base.columns;
    v.inputs[0] = base.inputs[0];
    v.inputs[1] = base.inputs[1];
    v.output = base.output;
    run_variant(&(struct variant){"bytes of the spec that mean nothing", v, rig_compiler, false});
}

static void test_key_rest(void ** state) {
    (void) state;
    struct kernel_spec base = base_spec();
    expect_compile(&base);
    print_message("a change of ...                                              gives\n");
    struct store_compiler other = rig_compiler;
    other.identity = "rig 2";
    run_variant(&(struct variant){"the compiler's identity", base, other, true});
    // Both are kept: two versions that share a cache do not push each other out.
    run_variant(&(struct variant){"    and back", base, rig_compiler, false});
    run_variant(&(struct variant){"    and to the other again", base, other, false});
    run_variant(&(struct variant){"    and back again", base, rig_compiler, false});
    other.identity = "rig 3";
    run_variant(&(struct variant){"    to a third one", base, other, true});
    run_variant(&(struct variant){"    and back to the first", base, rig_compiler, false});

    char path[512], moved[128];
    uint8_t * text;
    size_t size;
    path_of(&base, ".meta", path);
    assert_int_equal(file_read(path, 4096, &text, &size, NULL), ST_OK);
    char * format = strstr((char *) text, "format 2\n");
    assert_non_null(format);
    format[7] = '1';
    write_file(path, text, size);
    free(text);
    run_variant(&(struct variant){"the version of the format", base, rig_compiler, true});

    // What must not matter: who, where, when.
    char old[4096];
    assert_non_null(getcwd(old, sizeof old));
    assert_int_equal(chdir("/"), 0);
    run_variant(&(struct variant){"the working directory", base, rig_compiler, false});
    assert_int_equal(chdir(old), 0);
    snprintf(moved, sizeof moved, "%s/moved", rig_dir);
    assert_int_equal(rename(cache_dir, moved), 0);
    setenv("GGML_HSA_KERNEL_CACHE_DIR", moved, 1);
    run_variant(&(struct variant){"the path of the cache", base, rig_compiler, false});
    assert_int_equal(rename(moved, cache_dir), 0);
    setenv("GGML_HSA_KERNEL_CACHE_DIR", cache_dir, 1);
    setenv("GGML_HSA_TEST_NOISE", "1", 1);
    setenv("LC_ALL", "de_DE.UTF-8", 1);
    run_variant(&(struct variant){"the environment", base, rig_compiler, false});
    mode_t mask = umask(0);
    run_variant(&(struct variant){"the umask", base, rig_compiler, false});
    umask(mask);
    struct timespec past[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, path, past, 0), 0);
    run_variant(&(struct variant){"the time of the files", base, rig_compiler, false});
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_true(time(NULL) - info.st_mtime < 100); // the hit was noted
    pid_t child = fork();
    if (child == 0) {
        struct store * s = open_store();
        _exit(got_right(s, &base) && stats_of(s).cache_hits == 1 ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    print_message("  %-58s %s\n", "the process", "the same kernel");
    struct store_compiler copy = rig_compiler;
    char identity[] = "rig 1";
    copy.identity = identity;
    run_variant(&(struct variant){"the addresses of the compiler", base, copy, false});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_key_specs, rig_reset),
        cmocka_unit_test_setup(test_key_rest, rig_reset),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
