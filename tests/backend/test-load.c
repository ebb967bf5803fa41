// test-load: what loading the plugin does in processes of various kinds: with an emulated device,
// with none, with a runtime that is not there, with a ggml that was never tested. Each is its own
// process, because a process loads the plugin once.
#include "child.h"

#include <stdlib.h>
#include <unistd.h>

// Output of the probe, run under `env` with these words before it. Ends the test when it crashes.
static const char * probe(const char * env) {
    char command[4096];
    // The preloaded library comes before a sanitizer's runtime on purpose.
    snprintf(command, sizeof command,
             "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 env -u GGML_HSA_EMULATE -u "
             "GGML_HSA_RUNTIME "
             "%s '%s' '%s' 2>&1",
             env, PROBE, PLUGIN);
    return child_output(command);
}

static void emulated_device(void ** state) {
    (void) state;
    const char * out = probe("GGML_HSA_EMULATE=aie2");
    assert_says(out, "loaded HSA, devices 1\n");
    assert_says(out, "HSA0: ");
    assert_says(out, "(aie2, emulated)\n");
    assert_says(out, "again same\n");
}

static void emulation_is_never_silent(void ** state) {
    (void) state;
    if (access("/dev/accel", F_OK) == 0) {
        skip_test("this machine may have an NPU, /dev/accel");
    }
    const char * out = probe("");
    assert_says(out, "ggml-hsa: no device: ");
    assert_says(out, "loaded HSA, devices 0\n");
}

static void missing_runtime(void ** state) {
    (void) state;
    const char * out = probe("GGML_HSA_RUNTIME=/nonexistent/libhsa.so");
    assert_says(out, "ggml-hsa: no device: ");
    assert_says(out, "/nonexistent/libhsa.so");
    assert_says(out, "loaded HSA, devices 0\n");
}

static void unknown_emulation(void ** state) {
    (void) state;
    const char * out = probe("GGML_HSA_EMULATE=aie99");
    assert_says(out, "ggml-hsa: no device: ");
    assert_says(out, "loaded HSA, devices 0\n");
}

static void untested_ggml(void ** state) {
    (void) state;
    static const char * const versions[] = {"0.22.9", "0.26.0", "0.27.0", "0.28.1",
                                            "1.25.0", "abc",    ""};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        char env[1024];
        // 0.26 and 0.27 are refused here too: this ggml has not the layout that belongs to them.
        snprintf(env, sizeof env, "GGML_HSA_EMULATE=aie2 LD_PRELOAD='%s' OTHER_GGML_VERSION='%s'",
                 OTHER_VERSION, versions[i]);
        const char * out = probe(env);
        assert_says(out, "ggml-hsa: ggml ");
        assert_says(out, versions[i]);
        assert_says(out, " is not supported; ");
        assert_says(out, "not loaded\n");
    }
}

static void tested_ggml(void ** state) {
    (void) state;
    static const char * const versions[] = {"0.23.0", "0.24.1", "0.25.7"};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        char env[1024];
        snprintf(env, sizeof env, "GGML_HSA_EMULATE=aie2 LD_PRELOAD='%s' OTHER_GGML_VERSION=%s",
                 OTHER_VERSION, versions[i]);
        assert_says(probe(env), "loaded HSA, devices 1\n");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(emulated_device), cmocka_unit_test(emulation_is_never_silent),
        cmocka_unit_test(missing_runtime), cmocka_unit_test(unknown_emulation),
        cmocka_unit_test(untested_ggml),   cmocka_unit_test(tested_ggml),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
