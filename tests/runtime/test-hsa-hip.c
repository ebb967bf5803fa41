// Debian's HIP library, unmodified, on the emulated gfx90a. Our program hip-basic.hip is compiled
// by hipcc, as a program and as a module, and run; so are programs for libraries of AMD's.
#include "rig.h"
#include "sanitized.h"

#include <sys/wait.h>
#include <unistd.h>

static char output[65536];

// Exit status of a shell command; what it prints is in `output`.
static int run(const char * format, const char * a, const char * b) {
    char command[2048];
    snprintf(command, sizeof command, format, a, b);
    FILE * f = popen(command, "r");
    assert_non_null(f);
    size_t n = fread(output, 1, sizeof output - 1, f);
    output[n] = '\0';
    int rc = pclose(f);
    return WIFEXITED(rc) ? WEXITSTATUS(rc) : 128;
}

// ---- what every test needs ----

static char dir[64];

static int set_up(void ** state) {
    (void) state;
    strcpy(dir, "/tmp/hsa-hip-XXXXXX");
    return mkdtemp(dir) ? 0 : 1;
}

static int tear_down(void ** state) {
    (void) state;
    return run("rm -r %s%s", dir, "");
}

static void skip_without(const char * file, const char * package) {
    if (run("command -v hipcc%s%s", "", "") != 0) {
        skip_test("hipcc is not installed");
    }
    if (file && access(file, R_OK) != 0) {
        skip_test("%s is not installed", package);
    }
    if (SANITIZED) {
        skip_test("a program without sanitizers cannot load a library with them");
    }
}

static void compile(const char * flags, const char * source) {
    // hipcc asks for the GPUs of this machine, whatever it is told, and this file answers it.
    assert_int_equal(run("echo gfx90a > %s/targets%s", dir, ""), 0);
    char command[1024];
    snprintf(command, sizeof command,
             "cd %s; TMPDIR=%s ROCM_TARGET_LST=%s/targets hipcc --offload-arch=gfx90a %s "
             "%s/%s -I'%s' 2>&1",
             dir, dir, dir, flags, SOURCE_DIRECTORY, source, ROOMS);
    if (run("%s%s", command, "") != 0) {
        fail_msg("hipcc: %s", output);
    }
}

// Runs the program on emulated agents, and counts what it says is right. Strict ones are the more
// interesting; HIP's own library shows that they ask for nothing that a GPU would not.
static int steps_of(const char * agents, bool strict, const char * arguments) {
    char command[1024];
    snprintf(command, sizeof command,
             "cd %s; GGML_HSA_EMULATE=%s GGML_HSA_EMU_STRICT=%d LD_LIBRARY_PATH='%s' timeout 120 "
             "./program %s 2>&1",
             dir, agents, strict, EMU_DIRECTORY, arguments);
    int rc = run("%s%s", command, "");
    if (rc != 0 || !strstr(output, "\n0 failures\n")) {
        fail_msg("exit status %d with %s: %s", rc, agents, output);
    }
    int steps = 0;
    for (const char * at = output; (at = strstr(at, "ok   ")); at++) {
        steps++;
    }
    return steps;
}

// ---- tests ----

static void basic(void ** state) {
    (void) state;
    skip_without(NULL, NULL);
    compile("-O3 -o program", "hip-basic.hip");
    compile("-O3 --genco -o module", "hip-basic.hip");
    if (run("CANDLE_ROCM_CACHE_DIR=%s/cache '%s' compile unary_f32 --arch gfx90a 2>&1", dir,
            KERNELS_TOOL) != 0) {
        fail_msg("rocm-kernels: %s", output);
    }
    static const char * const agents[] = {"gfx90a", "aie2,gfx90a,gfx1100,gfx90a"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(steps_of(agents[i], i, "module cache/*/unary_f32_*.cso"), i ? 24 : 23);
        assert_non_null(strstr(output, "hello 42 from 1.1\n"));
    }
}

static void rocrand(void ** state) {
    (void) state;
    skip_without("/usr/include/rocrand/rocrand.h", "librocrand-dev");
    compile("-O2 -lrocrand -o program", "hip-rocrand.hip");
    assert_int_equal(steps_of("gfx90a", true, ""), 14);
}

static void rocprim(void ** state) {
    (void) state;
    skip_without("/usr/include/rocprim/rocprim.hpp", "librocprim-dev");
    compile("-std=c++17 -O2 -o program", "hip-rocprim.hip");
    assert_int_equal(steps_of("gfx90a", true, ""), 84);
}

// With an argument, what takes its compiler half a minute.
int main(int argc, char ** argv) {
    (void) argv;
    const struct CMUnitTest quick[] = {
        cmocka_unit_test_setup_teardown(basic, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rocrand, set_up, tear_down),
    };
    const struct CMUnitTest slow[] = {
        cmocka_unit_test_setup_teardown(rocprim, set_up, tear_down),
    };
    return argc > 1 ? cmocka_run_group_tests(slow, NULL, NULL)
                    : cmocka_run_group_tests(quick, NULL, NULL);
}
