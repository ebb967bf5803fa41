// ggml-hsa info and doctor, as people run them: on a machine that has nothing, with an emulated
// NPU, with a runtime that dies, with broken settings. Their JSON is read back.
#include "doctor-rig.h"

#include <dlfcn.h>
#include <sys/auxv.h>

// ---- JSON ----

// The text is not needed behind it.
static json_t * parse(struct result * r) {
    json_t * root;
    struct error err = {0};
    if (json_read((char *) r->text.data, r->text.size, &root, &err) != ST_OK) {
        fail_msg("%s in\n%s", err.text, (char *) r->text.data);
    }
    assert_true(json_is_object(root));
    buf_free(&r->text);
    return root;
}

static const json_t * member(const json_t * object, const char * key, json_type type) {
    const json_t * m = json_object_get(object, key);
    if (!m || json_typeof(m) != type) {
        fail_msg("\"%s\" is %s", key, m ? json_kind(m) : "missing");
    }
    return m;
}

static const char * text_of(const json_t * object, const char * key) {
    return json_string_value(member(object, key, JSON_STRING));
}

// The first finding of a check.
static const json_t * finding(const json_t * root, const char * check) {
    size_t i;
    json_t * c;
    json_array_foreach(member(root, "checks", JSON_ARRAY), i, c) {
        if (!strcmp(text_of(c, "check"), check)) {
            return c;
        }
    }
    fail_msg("no check \"%s\"", check);
    return NULL;
}

// ---- tests ----

static void with_nothing(void ** state) {
    (void) state;
    static const char env[] = "GGML_HSA_RUNTIME=/nonexistent/libhsa.so";
    EXPECT(env, "doctor", 1, "FAIL  HSA runtime: ", "/nonexistent/libhsa.so",
           "GGML_HSA_EMULATE=aie2", "memlock limit: ", "render group: ", "kernel driver: ",
           "device node: ", "/dev/kfd: ", "\nNOT usable: ");
    EXPECT(env, "info", 0, "ggml-hsa 0.", "runtime             none: ", "/nonexistent/libhsa.so",
           "build options", "GGML_HSA_RUNTIME=/nonexistent/libhsa.so");
#ifdef PLUGIN
    EXPECT(env, "info", 0, "offers 0 devices; it says: that there is none, as above");
#endif
}

static void without_an_npu(void ** state) {
    (void) state;
    if (access("/dev/accel", F_OK) == 0) {
        skip_test("this machine may have an NPU, /dev/accel");
    }
    EXPECT("GGML_HSA_RUNTIME=/nonexistent/libhsa.so", "doctor", 1,
           "FAIL  device node: there is no /dev/accel/accel*");
    EXPECT("", "doctor", 1, "FAIL  HSA runtime: ");
}

static void with_an_emulated_npu(void ** state) {
    (void) state;
    EXPECT("GGML_HSA_EMULATE=aie2", "doctor", 0, "PASS  HSA runtime: /", "libhsa-npu.so (emulated)",
           "PASS  NPU: HSA0: ", "(aie2)",
           "PASS  packet ABI: ", ", by what the runtime says of itself",
           "PASS  kernel cache: ", "\nusable: ", " 0 failures", "!ROCr: ");
    EXPECT("GGML_HSA_EMULATE=aie2 GGML_HSA_AIE_ABI=C", "doctor", 0,
           "PASS  packet ABI: C, asked for by GGML_HSA_AIE_ABI");
    EXPECT("GGML_HSA_EMULATE=aie2", "info", 0, "libhsa-npu.so (emulated), packet ABI ", "HSA0",
           "device heap 64 MiB", "kernel directories  none", "GGML_HSA_EMULATE=aie2");
    EXPECT("GGML_HSA_EMULATE=aie99", "doctor", 1, "FAIL  HSA runtime: ", "aie99");
#ifdef PLUGIN
    EXPECT("GGML_HSA_EMULATE=aie2", "doctor", 0, "PASS  plugin: " PLUGIN " loads in ggml ",
           "offers 1 device\n", "GGML_BACKEND_PATH=" PLUGIN);
    // The same when a dynamic linker runs the tool, as for another libc: the linker is the process.
    Dl_info linker;
    char env[512];
    assert_true(dladdr((void *) getauxval(AT_BASE), &linker));
    snprintf(env, sizeof env, "GGML_HSA_EMULATE=aie2 %s", linker.dli_fname);
    EXPECT(env, "doctor", 0, "PASS  plugin: " PLUGIN " loads in ggml ", "offers 1 device\n");
#endif
}

// What is said of a GPU's compiler is what becomes of it: one that makes no kernels is none, and a
// GPU without kernels is not offered.
static void gpus(void ** state) {
    (void) state;
    static const char nothing[] = "PATH=/nonexistent ROCM_PATH=/nonexistent GGML_HSA_EMULATE=";
    char env[512], dir[256];
    snprintf(env, sizeof env, "%sgfx1100", nothing);
    EXPECT(env, "doctor", 1, "FAIL  GPU compiler: no HIP compiler", "-> install hipcc, or clang-19",
           "this GPU is not offered", "\nNOT usable: ");
    snprintf(env, sizeof env, "ROCM_KERNELS_COMPILER=/bin/false %sgfx1100", nothing);
    EXPECT(env, "doctor", 1, "FAIL  GPU compiler: ", "/bin/false gave up with status 1");
    snprintf(env, sizeof env, "%saie2,gfx1100", nothing); // the NPU is there to compute on
    EXPECT(env, "doctor", 0, "WARN  GPU compiler: no HIP compiler",
           "PASS  NPU: HSA0: ", "PASS  GPU: AMD ", "\nusable: ");
#ifdef PLUGIN
    EXPECT(env, "doctor", 0, "WARN  plugin: ", "offers 1 device; it says: ggml-hsa: a device is ");
    EXPECT(env, "info", 0, "offers 1 device; it says: ggml-hsa: a device is left out: AMD ");
    snprintf(env, sizeof env, "%sgfx1100", nothing);
    EXPECT(env, "doctor", 1, "FAIL  plugin: ", "offers 0 devices; it says: ", "is left out: AMD ");
#endif
    if (system("command -v clang++-19 >/dev/null") == 0) {
        EXPECT("GGML_HSA_EMULATE=aie2,gfx1100", "doctor", 0,
               "PASS  GPU compiler: ", " makes kernels for gfx1100", "PASS  GPU: HSA1: AMD ");
    } else {
        printf("no clang++-19: a compiler that works is not tried\n");
    }
    // It compiled, and left nothing.
    snprintf(dir, sizeof dir, "%s/.cache/hanzo-ml-rocm", home);
    assert_int_not_equal(access(dir, F_OK), 0);
}

static void runtimes_that_die(void ** state) {
    (void) state;
    EXPECT("GGML_HSA_RUNTIME='" DYING_RUNTIME "' DIE=abort GGML_HSA_SKIP_DRIVER_CHECK=1", "doctor",
           1, "FAIL  HSA runtime: the HSA runtime ended the process with signal 6",
           "\nNOT usable: ");
    EXPECT("GGML_HSA_RUNTIME='" DYING_RUNTIME "' DIE=exit GGML_HSA_SKIP_DRIVER_CHECK=1", "info", 0,
           "runtime             none: the HSA runtime ended the process with exit status 3");
    EXPECT("GGML_HSA_RUNTIME='" DYING_RUNTIME "' DIE=no GGML_HSA_SKIP_DRIVER_CHECK=1", "doctor", 1,
           "FAIL  HSA runtime: ", "lacks ");
    // One that dies later has told its build by then, in its bytes.
    EXPECT("GGML_HSA_RUNTIME='" NEW_ROCR "' DIE=init GGML_HSA_SKIP_DRIVER_CHECK=1", "doctor", 1,
           "PASS  ROCr: " NEW_ROCR ", named by GGML_HSA_RUNTIME: build 1.18.0, ROCm 7",
           "FAIL  HSA runtime: the HSA runtime ended the process with signal 6");
    EXPECT("GGML_HSA_RUNTIME=/etc/passwd", "doctor", 1, "FAIL  HSA runtime: ");
}

static void settings(void ** state) {
    (void) state;
    char env[1024], dir[256];
    snprintf(dir, sizeof dir, "%s/pack", home);
    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(env, sizeof env,
             "GGML_HSA_EMULATE=aie2 GGML_HSA_KERNEL_DIR='%s::/nonexistent/pack:/etc/passwd'", dir);
    EXPECT(env, "doctor", 0, "neither aie2/ nor aie2p/", "/nonexistent/pack: No such file",
           "WARN  kernel directory: /etc/passwd: not a directory");
    snprintf(dir, sizeof dir, "%s/pack/aie2", home);
    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(env, sizeof env, "GGML_HSA_EMULATE=aie2 GGML_HSA_KERNEL_DIR='%s/pack'", home);
    EXPECT(env, "doctor", 0, "PASS  kernel directory: ", "/pack\n");
    EXPECT("GGML_HSA_EMULATE=aie2 GGML_HSA_JIT_COMMAND=/nonexistent/build.py", "doctor", 0,
           "WARN  external compiler: ", "/nonexistent/build.py",
           "IRON environment is not active. Run source env_setup.sh first.");
    EXPECT("GGML_HSA_EMULATE=aie2 GGML_HSA_JIT_COMMAND='sh -c x'", "doctor", 0,
           "PASS  external compiler: sh -c x");
    EXPECT("GGML_HSA_EMULATE=aie2 GGML_HSA_KERNL_DIR=/x GGML_HSA_WEATHER=1", "doctor", 0,
           "GGML_HSA_KERNL_DIR is no variable of ggml-hsa", "did you mean GGML_HSA_KERNEL_DIR?",
           "GGML_HSA_WEATHER is no variable of ggml-hsa");
    EXPECT("GGML_HSA_EMULATE=aie2 GGML_HSA_JOIN=foo GGML_HSA_MUL_MAT=fast", "doctor", 0,
           "WARN  environment: GGML_HSA_JOIN=foo is not understood", "it takes 1 or 0",
           "GGML_HSA_MUL_MAT=fast is not understood",
           "it takes precise, bf16, lanes, block or block-lean");
    EXPECT("GGML_HSA_EMULATE=foo", "info", 0, "aie2 (npu1), aie2p (npu4, npu5, npu6)");
    EXPECT("GGML_HSA_EMULATE=aie2 GGML_BACKEND_PATH=/nonexistent.so", "doctor", 0,
           "WARN  GGML_BACKEND_PATH: ");
    EXPECT("GGML_HSA_EMULATE=aie2 GGML_BACKEND_PATH=/tmp", "doctor", 0, "/tmp is no file");
}

static void cache_health(void ** state) {
    (void) state;
    char env[1024], dir[256];
    snprintf(dir, sizeof dir, "%s/shared", home);
    assert_int_equal(mkdir(dir, 0777), 0);
    assert_int_equal(chmod(dir, 0777), 0);
    snprintf(env, sizeof env, "GGML_HSA_EMULATE=aie2 GGML_HSA_KERNEL_CACHE_DIR='%s'", dir);
    EXPECT(env, "doctor", 0, "WARN  kernel cache: ", "chmod 700");
    assert_int_equal(chmod(dir, 0700), 0);
    EXPECT(env, "doctor", 0, "PASS  kernel cache: ", "shared, 0 kernels");
    EXPECT("GGML_HSA_EMULATE=aie2 GGML_HSA_KERNEL_CACHE_MAX_SIZE=0", "doctor", 0,
           "PASS  kernel cache: none");
    // Looking makes no cache, and clears none.
    snprintf(env, sizeof env,
             "GGML_HSA_EMULATE=aie2 GGML_HSA_KERNEL_CACHE_CLEAR=1 GGML_HSA_RECORD='%s/record' "
             "GGML_HSA_KERNEL_CACHE_DIR='%s/new'",
             home, home);
    EXPECT(env, "doctor", 0, "PASS  kernel cache: none");
    EXPECT(env, "info", 0, "cache               none");
    snprintf(dir, sizeof dir, "%s/new", home);
    assert_int_not_equal(access(dir, F_OK), 0);
    snprintf(dir, sizeof dir, "%s/record", home);
    assert_int_not_equal(access(dir, F_OK), 0);
}

// Values from outside reach neither a terminal nor the structure of the JSON.
static void hostile_values(void ** state) {
    (void) state;
    static const char env[] =
        "GGML_HSA_EMULATE=aie2 GGML_HSA_KERNEL_DIR=\"$(printf 'a\\033[31m\"\\\\\\nb\\377')\" "
        "GGML_HSA_JIT_COMMAND=\"$(printf '\\033]0;x\\007 y')\" 'GGML_HSA_\"x=1' GGML_HSA_=";
    EXPECT(env, "info", 0, "a?[31m\"\\?b?");
    EXPECT(env, "doctor", 0, "a?[31m\"\\?b?");
    static const char * const commands[] = {"info --json", "doctor --json"};
    for (int i = 0; i < 2; i++) {
        struct result r = run(env, commands[i]);
        assert_int_equal(r.status, 0);
        assert_null(strchr((char *) r.text.data, '\033'));
        json_t * root = parse(&r);
        if (i == 0) {
            const json_t * dir = json_array_get(member(root, "kernel_dirs", JSON_ARRAY), 0);
            assert_string_equal(json_string_value(dir), "a\033[31m\"\\\nb?");
        }
        json_decref(root);
    }
}

static void json(void ** state) {
    (void) state;
    struct result r = run("GGML_HSA_EMULATE=aie2 GGML_HSA_ENABLE_LOG=1", "info --json");
    assert_int_equal(r.status, 0);
    json_t * root = parse(&r);
    const json_t * device = json_array_get(member(root, "devices", JSON_ARRAY), 0);
    assert_string_equal(text_of(device, "arch"), "aie2");
    assert_string_equal(text_of(device, "name"), "HSA0");
    assert_true(json_integer_value(member(device, "memory", JSON_INTEGER)) > 0);
    const json_t * pools = member(device, "pools", JSON_OBJECT);
    assert_int_equal(json_integer_value(member(pools, "device_heap", JSON_INTEGER)), 64 << 20);
    const json_t * runtime = member(root, "runtime", JSON_OBJECT);
    member(runtime, "emulated", JSON_TRUE);
    assert_int_equal(strlen(text_of(runtime, "abi")), 1);
    assert_true(*text_of(runtime, "build"));
    assert_int_equal(json_array_size(member(runtime, "interface", JSON_ARRAY)), 2);
    assert_int_equal(json_array_size(member(runtime, "extension", JSON_ARRAY)), 2);
    assert_string_equal(text_of(member(root, "environment", JSON_OBJECT), "GGML_HSA_ENABLE_LOG"),
                        "1");
    member(member(root, "options", JSON_OBJECT), "GGML_HSA_JIT_COMPILE", JSON_TRUE);
    member(root, "cache", JSON_NULL);
    assert_true(*text_of(root, "cache_error"));
    json_decref(root);

    r = run("GGML_HSA_EMULATE=aie2", "doctor --json");
    assert_int_equal(r.status, 0);
    root = parse(&r);
    member(root, "usable", JSON_TRUE);
    assert_int_equal(json_integer_value(member(root, "failures", JSON_INTEGER)), 0);
    assert_string_equal(text_of(finding(root, "NPU"), "result"), "pass");
    json_decref(root);

    r = run("GGML_HSA_RUNTIME=/nonexistent", "doctor --json");
    assert_int_equal(r.status, 1);
    root = parse(&r);
    member(root, "usable", JSON_FALSE);
    assert_string_equal(text_of(finding(root, "HSA runtime"), "result"), "fail");
    assert_true(*text_of(finding(root, "HSA runtime"), "mend"));
    json_decref(root);

    r = run("GGML_HSA_RUNTIME=/nonexistent", "info --json");
    assert_int_equal(r.status, 0);
    root = parse(&r);
    member(root, "runtime", JSON_NULL);
    assert_true(*text_of(root, "runtime_error"));
    json_decref(root);
}

// The loader's runtime is none, or fails: ROCm's own is tried, and where that is none, the first is
// what is told.
static void behind_the_loader(void ** state) {
    (void) state;
    char command[1024], env[1024];
    snprintf(command, sizeof command,
             "cd '%s' && mkdir -p loader rocm/lib && cp '" DYING_RUNTIME
             "' loader/libhsa-runtime64.so.1 && ln -sf '" NEW_ROCR
             "' rocm/lib/libhsa-runtime64.so.1",
             home);
    assert_int_equal(system(command), 0);
    snprintf(env, sizeof env,
             "LD_LIBRARY_PATH='%s/loader' ROCM_PATH='%s/rocm' GGML_HSA_SKIP_DRIVER_CHECK=1", home,
             home);
    EXPECT(env, "info", 0, "build 1.18.0-played");
    snprintf(env, sizeof env,
             "LD_LIBRARY_PATH='%s/loader' ROCM_PATH=/nowhere GGML_HSA_SKIP_DRIVER_CHECK=1", home);
    EXPECT(env, "info", 0, "runtime             none: ", "not an HSA runtime");
}

static void command_line(void ** state) {
    (void) state;
    EXPECT("", "docter", 2, "no subcommand 'docter'; did you mean 'doctor'?");
    EXPECT("", "doctor --jsn", 2, "no option '--jsn'; did you mean '--json'?");
    EXPECT("", "cache lst", 2, "no command 'lst'; did you mean 'list'?");
    EXPECT("", "--vresion", 2, "no option '--vresion'; did you mean '--version'?");
    EXPECT("", "-V", 0, "ggml-hsa ");
    EXPECT("", "help bench", 0, "usage: ggml-hsa bench");
    EXPECT("", "help bnech", 2, "did you mean 'bench'?");
    EXPECT("", "help environment", 0, "GGML_HSA_JOIN=1 or 0",
           "GGML_HSA_PROFILE=1, 0, kernels or order");
    EXPECT("", "--help", 0, "info", "doctor", "help SUBCOMMAND");
    EXPECT("", "info --help", 0, "usage: ggml-hsa info");
    EXPECT("", "doctor --help", 0, "usage: ggml-hsa doctor", "exit status");
    EXPECT("", "info --yaml", 2, "no option '--yaml'");
    EXPECT("", "doctor now", 2, "no option 'now'");
    EXPECT("", "doctor --root", 2, "no option '--root'");
    EXPECT("", "doctor --json --report", 2, "exclude each other");
}

// A build for packs alone: without one there is nothing to compute with.
static void without_a_compiler(void ** state) {
    (void) state;
    char env[512], dir[256];
    EXPECT("GGML_HSA_EMULATE=aie2 GGML_HSA_JIT_COMMAND=sh", "doctor", 1,
           "FAIL  kernel compiler: ", "GGML_HSA_KERNEL_DIR", "WARN  external compiler: ");
    snprintf(dir, sizeof dir, "%s/only/aie2", home);
    snprintf(env, sizeof env, "mkdir -p '%s'", dir);
    assert_int_equal(system(env), 0);
    snprintf(env, sizeof env, "GGML_HSA_EMULATE=aie2 GGML_HSA_KERNEL_DIR='%s/only'", home);
    EXPECT(env, "doctor", 0, "PASS  kernel compiler: not built in; kernels come from");
    EXPECT(env, "info", 0, "GGML_HSA_JIT_COMPILE=OFF");
}

int main(void) {
    const struct CMUnitTest with_compiler[] = {
        cmocka_unit_test(with_nothing),
        cmocka_unit_test(without_an_npu),
        cmocka_unit_test(with_an_emulated_npu),
        cmocka_unit_test(gpus),
        cmocka_unit_test(runtimes_that_die),
        cmocka_unit_test(settings),
        cmocka_unit_test(cache_health),
        cmocka_unit_test(hostile_values),
        cmocka_unit_test(json),
        cmocka_unit_test(behind_the_loader),
        cmocka_unit_test(command_line),
    };
    const struct CMUnitTest packs_alone[] = {
        cmocka_unit_test(with_nothing),
        cmocka_unit_test(without_an_npu),
        cmocka_unit_test(without_a_compiler),
        cmocka_unit_test(command_line),
    };
    return WITH_COMPILER ? cmocka_run_group_tests(with_compiler, make_home, remove_home)
                         : cmocka_run_group_tests(packs_alone, make_home, remove_home);
}
