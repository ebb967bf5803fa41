// test-hip-detect: the architecture and the version, from the environment and from programs, and
// code objects in what compilers leave.
#include "hip-rig.h"

// ---- strings ----

static void test_arch(void ** state) {
    (void) state;
    static const char * const good[][2] = {{"gfx90a", "gfx90a"},
                                           {"gfx1100", "gfx1100"},
                                           {" gfx942\n", "gfx942"},
                                           {"gfx90a:sramecc+:xnack-", "gfx90a"},
                                           {"gfx906:xnack+", "gfx906"}};
    static const char * const bad[] = {
        "",          "gfx",         "gfx9",          "90a",         "gfx90A",
        "gfx90a/..", "gfx90a ../x", "gfx90a:evil",   "gfx12345678", "gfxabc",
        "gfx90a;ls", "../gfx90a",   "gfx90a-generic"};
    char arch[HIP_ARCH_MAX];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(hip_arch_parse(good[i][0], arch, NULL), ST_OK);
        assert_string_equal(arch, good[i][1]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(hip_arch_parse(bad[i], arch, NULL), ST_INVALID);
    }
}

static void test_version(void ** state) {
    (void) state;
    static const char * const good[][2] = {{"5.2", "5.2"}, {" 6.4.1 ", "6.4.1"}, {"7", "7"}};
    static const char * const bad[] = {
        "", "6.", ".6", "6..0", "v6", "6.0/..", "1.2.3.4.5", "6.0 7", "99999999999999999"};
    char version[HIP_VERSION_MAX];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(hip_version_parse(good[i][0], version, NULL), ST_OK);
        assert_string_equal(version, good[i][1]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(hip_version_parse(bad[i], version, NULL), ST_INVALID);
    }
    assert_true(hip_version_from_hipcc("Traceback: x\nHIP version: 5.2.21153-0\nclang", version));
    assert_string_equal(version, "5.2");
    assert_true(hip_version_from_hipcc("HIP_VERSION: 6.4.43482", version));
    assert_string_equal(version, "6.4");
    assert_false(hip_version_from_hipcc("clang version 15.0.6", version));
    assert_false(hip_version_from_hipcc("HIP version: unknown", version));
    assert_true(hip_version_from_clang("Debian clang version 19.1.7 (3+b1)\nTarget:", version));
    assert_string_equal(version, "19");
    assert_true(hip_version_from_clang("AMD clang version 18.0.0git (https://", version));
    assert_string_equal(version, "18");
    assert_false(hip_version_from_clang("gcc (Debian 12.2.0-14) 12.2.0", version));
    assert_false(hip_version_from_clang("clang version unknown", version));
}

static void test_rocminfo_text(void ** state) {
    (void) state;
    char arch[HIP_ARCH_MAX];
    assert_true(hip_arch_from_rocminfo("Agent 1\n  Name:   AMD Ryzen gfx90a-like\n"
                                       "Agent 2\n  Name:                    gfx1101       \n"
                                       "      Name:  amdgcn-amd-amdhsa--gfx1101\n",
                                       arch));
    assert_string_equal(arch, "gfx1101");
    assert_true(hip_arch_from_rocminfo("Name: gfx90a:sramecc+", arch));
    assert_string_equal(arch, "gfx90a");
    assert_false(
        hip_arch_from_rocminfo("Name: gfx90a../../x\nName: gfxxx\nMarketing Name: gfx90a", arch));
    assert_false(hip_arch_from_rocminfo("", arch));
}

// ---- the environment and programs ----

static void install_program(const char * name, const char * body) {
    char path[512], script[1024];
    path_in(path, "bin/%s", name);
    snprintf(script, sizeof script, "#!/bin/sh\n%s\n", body);
    write_text(path, script, 0755);
}

static void expect_arch(const char * want) {
    struct rocm_kernels * k = open_rig();
    struct rocm_error err = {0};
    const char * arch = rocm_kernels_arch(k, &err);
    if (!arch) {
        fail_msg("%s", err.text);
    }
    assert_string_equal(arch, want);
    rocm_kernels_close(k);
}

static void expect_failure(bool version, enum rocm_status status, const char * a, const char * b) {
    struct rocm_kernels * k = open_rig();
    struct rocm_error err = {0};
    assert_null(version ? rocm_kernels_version(k, &err) : rocm_kernels_arch(k, &err));
    print_message("%s\n", err.text);
    assert_int_equal(err.status, status);
    assert_non_null(strstr(err.text, a));
    assert_non_null(strstr(err.text, b));
    rocm_kernels_close(k);
}

static void test_order(void ** state) {
    (void) state;
    install_program("rocminfo", "echo '  Name:    gfx1102   '");
    setenv("ROCM_GFX_ARCH", "gfx942", 1);
    expect_arch("gfx90a");
    setenv("CANDLE_ROCM_ARCH", "  ", 1);
    expect_arch("gfx942");
    unsetenv("CANDLE_ROCM_ARCH");
    expect_arch("gfx942");
    unsetenv("ROCM_GFX_ARCH");
    expect_arch("gfx1102");
    install_program("rocminfo", "echo '  Name:    gfx1102   '; exit 1"); // as without a driver
    expect_failure(false, ROCM_NOT_FOUND, "CANDLE_ROCM_ARCH", "CANDLE_ROCM_VERSION");
    remove_compiler("rocminfo");
    expect_failure(false, ROCM_NOT_FOUND, "CANDLE_ROCM_ARCH", "CANDLE_ROCM_VERSION");
    setenv("CANDLE_ROCM_ARCH", "../../etc", 1);
    expect_failure(false, ROCM_INVALID, "CANDLE_ROCM_ARCH", "../../etc");
}

static void test_versions(void ** state) {
    (void) state;
    struct rocm_kernels * k = open_rig();
    assert_string_equal(rocm_kernels_version(k, NULL), "5.2");
    rocm_kernels_close(k);
    setenv("CANDLE_ROCM_VERSION", "6.4.1", 1);
    k = open_rig();
    assert_string_equal(rocm_kernels_version(k, NULL), "6.4.1");
    rocm_kernels_close(k);
    setenv("CANDLE_ROCM_VERSION", "6/4", 1);
    expect_failure(true, ROCM_INVALID, "CANDLE_ROCM_VERSION", "6/4");
    unsetenv("CANDLE_ROCM_VERSION");
    remove_compiler("hipcc");
    expect_failure(true, ROCM_NOT_FOUND, "CANDLE_ROCM_ARCH", "CANDLE_ROCM_VERSION");
    install_program("hipcc", "echo 'HIP version: none of your business'");
    expect_failure(true, ROCM_NOT_FOUND, "CANDLE_ROCM_ARCH", "CANDLE_ROCM_VERSION");
}

// Clang alone is a compiler: its own version does, from its place or from what it says.
static void test_clang_alone(void ** state) {
    (void) state;
    char path[512], target[512];
    remove_compiler("hipcc");
    install_program("clang++-19", "echo 'Debian clang version 19.1.7'; echo x >> $0.asked");
    struct rocm_kernels * k = open_rig();
    assert_string_equal(rocm_kernels_version(k, NULL), "19");
    assert_string_equal(rocm_kernels_version(k, NULL), "19");
    rocm_kernels_close(k);
    assert_int_equal(count_lines("bin/clang++-19.asked"), 1);
    remove_compiler("clang++-19");
    path_in(path, "llvm-21");
    assert_int_equal(mkdir(path, 0755), 0);
    path_in(target, "llvm-21/clang");
    write_text(target, "#!/bin/sh\nexit 1\n", 0755);
    path_in(path, "bin/clang++");
    assert_int_equal(symlink(target, path), 0);
    k = open_rig();
    assert_string_equal(rocm_kernels_version(k, NULL), "21");
    rocm_kernels_close(k);
    // hipcc is the one that knows, where it is; a variable knows better.
    install_compiler("hipcc", good_body());
    k = open_rig();
    assert_string_equal(rocm_kernels_version(k, NULL), "5.2");
    rocm_kernels_close(k);
    setenv("CANDLE_ROCM_VERSION", "7", 1);
    k = open_rig();
    assert_string_equal(rocm_kernels_version(k, NULL), "7");
    rocm_kernels_close(k);
}

// A hipcc that was replaced is asked again; what it said is not believed where it was altered.
static void test_version_memory(void ** state) {
    (void) state;
    char path[512];
    for (int i = 0; i < 3; i++) {
        struct rocm_kernels * k = open_rig();
        assert_string_equal(rocm_kernels_version(k, NULL), "5.2");
        rocm_kernels_close(k);
    }
    assert_int_equal(count_lines("asked"), 1);
    snprintf(path, sizeof path, "%s/hipcc.version", cache_dir);
    uint8_t * data;
    size_t size;
    assert_int_equal(file_read(path, 65536, &data, &size, NULL), ST_OK);
    char * digit = strstr((char *) data, "version 5.2");
    assert_non_null(digit);
    digit[8] = '6';
    write_bytes(path, data, size, 0600);
    free(data);
    struct rocm_kernels * k = open_rig();
    assert_string_equal(rocm_kernels_version(k, NULL), "5.2");
    rocm_kernels_close(k);
    assert_int_equal(count_lines("asked"), 2);
    install_program("hipcc", "echo 'HIP version: 6.1.5'");
    k = open_rig();
    assert_string_equal(rocm_kernels_version(k, NULL), "6.1");
    rocm_kernels_close(k);
}

// ---- code objects ----

static void put_u64(struct buf * b, uint64_t v) {
    buf_append_u32(b, (uint32_t) v);
    buf_append_u32(b, (uint32_t) (v >> 32));
}

static void make_bundle(struct buf * b, const char * const * ids, int n, uint64_t offset) {
    uint8_t elf[64];
    make_elf(elf);
    buf_append(b, "__CLANG_OFFLOAD_BUNDLE__", 24);
    put_u64(b, (uint64_t) n);
    for (int i = 0; i < n; i++) {
        bool host = !strncmp(ids[i], "host", 4);
        put_u64(b, offset);
        put_u64(b, host ? 0 : sizeof elf);
        put_u64(b, strlen(ids[i]));
        buf_append(b, ids[i], strlen(ids[i]));
    }
    while (b->size < offset) {
        buf_append(b, "", 1);
    }
    buf_append(b, elf, sizeof elf);
}

static enum status find_in(const struct buf * b, const char * arch, size_t * at,
                           struct error * err) {
    size_t length;
    return hip_find_code(b->data, b->size, arch, at, &length, err);
}

static void test_bundles(void ** state) {
    (void) state;
    static const char * const ids[] = {"host-x86_64-unknown-linux--",
                                       "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-",
                                       "hipv4-amdgcn-amd-amdhsa--gfx1100"};
    struct error err;
    struct buf b = {0};
    size_t at = 0;
    make_bundle(&b, ids, 3, 4096);
    assert_int_equal(find_in(&b, "gfx90a", &at, &err), ST_OK);
    assert_int_equal(at, 4096);
    assert_int_equal(find_in(&b, "gfx90", &at, &err), ST_NOT_FOUND);
    assert_int_equal(find_in(&b, "gfx942", &at, &err), ST_NOT_FOUND);
    assert_int_equal(find_in(&b, "gfx1100", &at, &err), ST_CORRUPT); // its ELF is for gfx90a
    assert_non_null(strstr(err.text, "gfx1100"));
    for (size_t n = 0; n < b.size; n++) { // cut anywhere
        struct buf cut = {.data = b.data, .size = n};
        assert_int_not_equal(find_in(&cut, "gfx90a", &at, &err), ST_OK);
    }
    static const uint64_t hostile[] = {UINT64_MAX, 1ull << 63, 1ull << 32, 4161};
    for (size_t field = 24; field < 32 + 24; field += 8) {
        for (size_t i = 0; i < 4; i++) {
            uint8_t saved[8];
            memcpy(saved, b.data + field, 8);
            store_u32(b.data + field, (uint32_t) hostile[i]);
            store_u32(b.data + field + 4, (uint32_t) (hostile[i] >> 32));
            assert_int_not_equal(find_in(&b, "gfx90a", &at, &err), ST_OK);
            memcpy(b.data + field, saved, 8);
        }
    }
    buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arch),
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_rocminfo_text),
        cmocka_unit_test_setup(test_order, rig_reset),
        cmocka_unit_test_setup(test_versions, rig_reset),
        cmocka_unit_test_setup(test_clang_alone, rig_reset),
        cmocka_unit_test_setup(test_version_memory, rig_reset),
        cmocka_unit_test(test_bundles),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
