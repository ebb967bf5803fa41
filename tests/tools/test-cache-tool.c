// `ggml-hsa cache` as people call it: what it prints, and its exit status.
#include "store/cache-rig.h"
#include "base/json.h"

#include <sched.h>
#include <sys/mount.h>

static char * output; // of the last call
static int status;

static const char * call(const char * arguments) {
    char command[1024];
    snprintf(command, sizeof command, "%s cache %s 2>&1", TOOL, arguments);
    FILE * f = popen(command, "r");
    assert_non_null(f);
    free(output);
    output = calloc(1, 1 << 16);
    size_t n = fread(output, 1, (1 << 16) - 1, f);
    output[n] = '\0';
    status = WEXITSTATUS(pclose(f));
    return output;
}

static bool is(const char * arguments, int want_status, const char * text) {
    call(arguments);
    return status == want_status && strstr(output, text);
}

static void expect(const char * arguments, int want_status, const char * text) {
    if (!is(arguments, want_status, text)) {
        fail_msg("cache %s: status %d, not %d, or no '%s' in:\n%s", arguments, status, want_status,
                 text, output);
    }
}

// Its answer is a JSON object with these members, among others.
static void expect_json(const char * arguments, int want_status, const char * wanted) {
    struct error err = {0};
    json_t *answer, *want, *value;
    const char * key;
    call(arguments);
    if (json_read(output, strlen(output), &answer, &err) != ST_OK || status != want_status) {
        fail_msg("cache %s: status %d, %s:\n%s", arguments, status, err.text, output);
    }
    assert_int_equal(json_read(wanted, strlen(wanted), &want, NULL), ST_OK);
    json_object_foreach(want, key, value) {
        if (!json_equal(json_object_get(answer, key), value)) {
            fail_msg("cache %s: '%s' is not as in %s:\n%s", arguments, key, wanted, output);
        }
    }
    json_decref(want);
    json_decref(answer);
}

// Kernels of this program's compiler: to the tool, whose compiler is another one, they are stale.
static void fill(int n) {
    struct store * s = open_store();
    for (int i = 0; i < n; i++) {
        struct kernel_spec spec = make_spec(DTYPE_F32, 1 + i);
        assert_true(got_right(s, &spec));
    }
    store_free(s);
}

static void test_empty(void ** state) {
    (void) state;
    static const char * const commands[] = {"stat", "list", "verify", "trim", "clear"};
    for (int i = 0; i < 5; i++) {
        char json[32];
        snprintf(json, sizeof json, "%s --json", commands[i]);
        expect(commands[i], 0, "no kernel cache");
        expect_json(json, 0, "{\"directory\": null}");
    }
    expect("why add_f32_1x1x1x1_f32_1x1x1x1_f32_1x1x1x1", 1, "no kernel cache");
    assert_int_not_equal(access(cache_dir, F_OK), 0); // looking makes nothing
}

// In the last answer.
static void must_list(const char * name, const char * state) {
    json_t *answer, *kernel;
    bool found = false;
    size_t i;
    assert_int_equal(json_read(output, strlen(output), &answer, NULL), ST_OK);
    json_array_foreach(json_object_get(answer, "kernels"), i, kernel) {
        found |= !strcmp(json_string_value(json_object_get(kernel, "name")), name) &&
                 !strcmp(json_string_value(json_object_get(kernel, "state")), state) &&
                 json_is_string(json_object_get(kernel, "reason")) == !!strcmp(state, "good") &&
                 json_integer_value(json_object_get(kernel, "bytes")) > 0;
    }
    json_decref(answer);
    if (!found) {
        fail_msg("no %s %s in:\n%s", state, name, output);
    }
}

static void test_looking(void ** state) {
    (void) state;
    fill(3);
    expect("stat", 0, "kernels      3 in 9 files");
    expect_json("stat --json", 0, "{\"kernels\": 3, \"files\": 9, \"bytes\": 28672}");
    expect("list", 0, "aie2/add_f32_2x1x1x1_f32_2x1x1x1_f32_2x1x1x1\n");
    expect_json("list --json", 0, "{}");
    must_list("add_f32_3x1x1x1_f32_3x1x1x1_f32_3x1x1x1", "good");
    expect("verify", 0,
           WITH_COMPILER ? "0 good, 3 stale, 0 damaged, 0 foreign"
                         : "3 good, 0 stale, 0 damaged, 0 foreign");
    struct kernel_spec spec = make_spec(DTYPE_F32, 2);
    char path[512];
    path_of(&spec, "_insts.bin", path);
    assert_int_equal(truncate(path, 8), 0);
    expect("verify", 1,
           "add_f32_2x1x1x1_f32_2x1x1x1_f32_2x1x1x1_insts.bin: its length has changed");
    expect_json("verify --json", 1, "{\"damaged\": 1, \"foreign\": 0}");
    must_list("add_f32_2x1x1x1_f32_2x1x1x1_f32_2x1x1x1", "damaged");
    assert_int_equal(access(path, F_OK), 0); // looking moves nothing
}

static void test_why(void ** state) {
    (void) state;
    fill(1);
    if (!WITH_COMPILER) {
        expect("why x", 1, "this build has no kernel compiler");
        return;
    }
    expect("why add_f32_1x1x1x1_f32_1x1x1x1_f32_1x1x1x1", 1,
           "compiler: the cache has rig 1, wanted is aie ");
    expect("why add '(1,1,1,1)/f32' '(1,1,1,1)/f32' '(1,1,1,1)/f32'", 1,
           "compiler: the cache has rig 1");
    expect("why ggml_op_add '(1,1,1,1)/f32' '(5,1,1,1)/f32' '(1,1,1,1)/f32' --arch aie2p --json", 1,
           "\"input 1: the cache has (1,1,1,1)/f32, wanted is (5,1,1,1)/f32\"");
    assert_non_null(strstr(output, "\"architecture: the cache has aie2, wanted is aie2p\""));
    expect("why add_bf16_8x4x1x1s2x32x128x128_f16_8x1x1x1_i8_8x4x1x1", 1,
           "input 0: the cache has (1,1,1,1)/f32, wanted is (8,4,1,1)/bf16/(2,32,128,128)");

    char config[128], arguments[400];
    snprintf(config, sizeof config, "%s/config.json", rig_dir);
    static const char text[] =
        "{\"kernels\": [{\"kernel_name\": \"ggml_op_add\", \"kernel_source\": \"binary_ops.py\", "
        "\"arch\": \"aie2\", \"input_tensors\": [\"(1,1,1,1)/f32\", \"(1,1,1,1)/f32\"], "
        "\"output_tensor\": \"(1,1,1,1)/f32\", \"exported_name\": \"mine\"}]}";
    write_file(config, text, strlen(text));
    snprintf(arguments, sizeof arguments, "why --config %s", config);
    expect(arguments, 1, "compiler: the cache has rig 1");
    snprintf(arguments, sizeof arguments, "why --config %s mine --json", config);
    expect(arguments, 1, "\"hit\": false");
    snprintf(arguments, sizeof arguments, "why --config %s other", config);
    expect(arguments, 1, "no such kernel");
    write_file(config, "{\"kernels\": [7]}", 16);
    snprintf(arguments, sizeof arguments, "why --config %s", config);
    expect(arguments, 1, "config.json: kernels[0] '': an entry must be an object");
    write_file(config, "{\"kernels\": [}", 14);
    snprintf(arguments, sizeof arguments, "why --config %s", config);
    expect(arguments, 1, "line 1, column 14");

    // The tool's own kernels are hits: made here with the same compiler.
    struct store * s;
    struct kernel_spec spec = make_spec(DTYPE_F32, 1024);
    struct store_kernel * k;
    assert_int_equal(store_new(&s, NULL), ST_OK);
    assert_int_equal(store_get(s, &spec, &k, NULL), ST_OK);
    store_free(s);
    expect("why add_f32_1024x1x1x1_f32_1024x1x1x1_f32_1024x1x1x1", 0, ": a hit");
    expect("verify", 0, "1 good, 1 stale");
}

static void test_removing(void ** state) {
    (void) state;
    fill(10);
    expect("trim", 0, "0 of 10 kernels removed");
    expect("trim --max-size 40K --dry-run", 0, "6 of 10 kernels would be removed");
    expect("trim 40K --dry-run", 0, "6 of 10 kernels would be removed");
    expect("stat", 0, "kernels      10 ");
    expect_json("trim --max-size 40K --json", 0,
                "{\"removed_kernels\": 6, \"in_use\": 0, \"dry_run\": false}");
    expect("stat", 0, "kernels      4 ");
    expect("clear", 0, "4 of 4 kernels removed");
    expect_json("stat --json", 0, "{\"kernels\": 0, \"files\": 0, \"bytes\": 0}");
}

// A cache that cannot be written: by its directory's mode, and for root by its mount.
static bool make_read_only(void) {
    char sub[160];
    if (geteuid() == 0) {
        return unshare(CLONE_NEWNS) == 0 &&
               mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
               mount(cache_dir, cache_dir, NULL, MS_BIND, NULL) == 0 &&
               mount(NULL, cache_dir, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0;
    }
    snprintf(sub, sizeof sub, "%s/aie2", cache_dir);
    return chmod(sub, 0500) == 0;
}

static void test_read_only(void ** state) {
    (void) state;
    fill(3);
    pid_t child = fork();
    if (child == 0) {
        if (!make_read_only()) {
            _exit(SKIPPED);
        }
        const char * why = geteuid() == 0 ? "Read-only file system" : "Permission denied";
        bool right = is("clear", 1, why) && is("clear --json", 1, why) &&
                     is("trim --max-size 0", 1, why) && is("clear", 1, "0 of 3 kernels") &&
                     is("trim --max-size 0 --dry-run", 0, "3 of 3 kernels would be removed") &&
                     is("stat", 0, "kernels      3 ");
        if (!right) {
            print_error("status %d: %s\n", status, output);
        }
        _exit(right ? 0 : 1); // nothing else of this program is to be run here
    }
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended));
    if (WEXITSTATUS(ended) == SKIPPED) {
        skip_test("this user may not mount file systems");
    }
    assert_int_equal(WEXITSTATUS(ended), 0);
}

static void test_usage(void ** state) {
    (void) state;
    fill(1);
    expect("", 2, "stat, list, verify, trim, clear or why?");
    expect("burn", 2, "no command 'burn'");
    expect("stat x", 2, "stat takes no 'x'");
    expect("clear --dry-run", 2, "no option '--dry-run' of clear");
    expect("trim --max-size", 2, "--max-size wants bytes");
    expect("trim --max-size 5X", 2, "--max-size wants bytes");
    expect("trim 5X", 2, "trim takes no '5X'");
    expect("trim 5M 6M", 2, "trim takes no '6M'");
    expect("why", 2, "why wants a kernel");
    expect("why x --arch aie9", 2, "--arch wants aie2 or aie2p");
    if (WITH_COMPILER) {
        expect("why nonsense", 1, "not the name of a kernel");
        expect("why frobnicate '(1,1,1,1)/f32' '(1,1,1,1)/f32'", 1, "no operation has that name");
        expect("why add '(1,1,1,1)/f32'", 1, "add has 2 inputs and an output, 1 tensors are given");
        expect("why add '(1,1)/f32' '(1,1,1,1)/f32' '(1,1,1,1)/f32'", 1, "(1,1)/f32");
    }
    assert_int_equal(chmod(cache_dir, 0777), 0);
    expect("stat", 1, "others can write it; take that away with chmod go-w");
    expect("clear", 1, "others can write it");
    assert_int_equal(chmod(cache_dir, 0700), 0);
    expect("stat", 0, "kernels      1 ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_empty, rig_reset),
        cmocka_unit_test_setup(test_looking, rig_reset),
        cmocka_unit_test_setup(test_why, rig_reset),
        cmocka_unit_test_setup(test_removing, rig_reset),
        cmocka_unit_test_setup(test_read_only, rig_reset),
        cmocka_unit_test_setup(test_usage, rig_reset),
    };
    int failed = cmocka_run_group_tests(tests, rig_setup, rig_teardown);
    free(output);
    return failed;
}
