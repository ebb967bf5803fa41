// test-load: what loading the plugin does in processes of various kinds: with an emulated device,
// with none, with a runtime that is not there, with a ggml that was never tested. Each is its own
// process, because a process loads the plugin once.
#include "base/harmful.h"
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

// What the environment holds is said again, and steers nothing.
static void harmful_variables(void ** state) {
    (void) state;
    static const char * const variables[] = {
        "GGML_HSA_TRACE",         "GGML_HSA_RUNTIME",          "GGML_HSA_EMULATE",
        "GGML_HSA_KERNEL_DIR",    "GGML_HSA_KERNEL_CACHE_DIR", "GGML_HSA_KERNEL_CACHE_MAX_SIZE",
        "GGML_HSA_KERNEL_MEMORY", "GGML_HSA_EMU_TRACE",        "GGML_HSA_EMU_CLOCK",
        "GGML_HSA_EMU_ADDER",     "GGML_HSA_EMU_THREADS",      "GGML_HSA_AIE_ABI",
        "GGML_HSA_JIT_COMMAND",   "GGML_HSA_RECORD",           "GGML_HSA_MUL_MAT",
        "GGML_HSA_PRECISION"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        setenv("HARM", "/proc/nowhere/" HARMFUL, 1); // nothing can be made there
        char env[200];
        bool emulated = strcmp(variables[i], "GGML_HSA_EMULATE") != 0;
        snprintf(env, sizeof env, "%s \"%s=$HARM\"", emulated ? "GGML_HSA_EMULATE=aie2" : "",
                 variables[i]);
        const char * out = probe(env);
        if (harmful_in(out)) {
            fail_msg("%s: '%s'", variables[i], out);
        }
    }
}

// What every dispatch would fail for is said before a device is offered.
static void wrong_settings(void ** state) {
    (void) state;
    static const char * const settings[] = {"GGML_HSA_EMU_THREADS=garbage",
                                            "GGML_HSA_EMU_THREADS=0", "GGML_HSA_EMU_CLOCK=garbage",
                                            "GGML_HSA_EMU_ADDER=garbage"};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        char env[128];
        snprintf(env, sizeof env, "GGML_HSA_EMULATE=aie2 %s", settings[i]);
        const char * out = probe(env);
        assert_says(out, settings[i]);
        assert_says(out, "loaded HSA, devices 0\n");
    }
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

// A ggml whose tensors have longer or shorter names has what is behind them somewhere else.
static void other_tensors(void ** state) {
    (void) state;
    static const struct {
        const char *most, *says;
    } rows[] = {
        {"64", "loaded HSA, devices 1\n"},
        {"128", "has room for 128 bytes there, and had 64 where this plugin was built"},
        {"48", "has room for 48 bytes there"},
        {"160", "has room for 160 bytes there"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char env[1024];
        snprintf(env, sizeof env, "GGML_HSA_EMULATE=aie2 LD_PRELOAD='%s' OTHER_GGML_MAX_NAME=%s",
                 OTHER_TENSORS, rows[i].most);
        const char * out = probe(env);
        assert_says(out, rows[i].says);
        if (i) {
            assert_says(out, "not loaded\n");
        }
    }
}

// A ggml that answers with the right version, but has numbered its ops or datatypes otherwise.
static void other_numbers(void ** state) {
    (void) state;
    static const struct {
        const char *doctored, *says;
    } rows[] = {
        {"op:SUB=ADD", "is 'ADD' there, and was SUB where"},
        {"op:SOFT_MAX=SOFT_MIN", "is 'SOFT_MIN' there, and was SOFT_MAX where"},
        {"op:ADD=", "is '' there, and was ADD where"},
        {"unary:SILU=HARDSWISH", "unary op"},
        {"glu:SWIGLU_OAI=SWIGLU_OIA", "gated op"},
        {"type:bf16=q4_0_4_4", "is 'q4_0_4_4' there, and was BF16 where"},
        {"type:i64=\x1b[2J", "is '?[2J' there, and was I64 where"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char env[1024];
        snprintf(env, sizeof env, "GGML_HSA_EMULATE=aie2 LD_PRELOAD='%s' OTHER_GGML_NAME='%s'",
                 OTHER_NAMES, rows[i].doctored);
        const char * out = probe(env);
        assert_says(out, "is not as its headers have it: ");
        assert_says(out, rows[i].says);
        assert_says(out, "not loaded\n");
    }
    char env[1024];
    snprintf(env, sizeof env, "GGML_HSA_EMULATE=aie2 LD_PRELOAD='%s'", OTHER_NAMES);
    assert_says(probe(env), "loaded HSA, devices 1\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(emulated_device),   cmocka_unit_test(emulation_is_never_silent),
        cmocka_unit_test(missing_runtime),   cmocka_unit_test(unknown_emulation),
        cmocka_unit_test(untested_ggml),     cmocka_unit_test(tested_ggml),
        cmocka_unit_test(other_tensors),     cmocka_unit_test(other_numbers),
        cmocka_unit_test(harmful_variables), cmocka_unit_test(wrong_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
