// Debian's HIP library, unmodified, on the emulated gfx90a: hip-basic.hip is compiled by hipcc, as
// a program and as a module, and run.
#include "rig.h"

#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#    define SANITIZED 1
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#        define SANITIZED 1
#    endif
#endif
#ifndef SANITIZED
#    define SANITIZED 0
#endif

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

static void test_hip(void ** state) {
    (void) state;
    if (run("command -v hipcc%s%s", "", "") != 0) {
        print_message("skipped: hipcc is not installed\n");
        skip();
    }
    if (SANITIZED) {
        print_message("skipped: a program without sanitizers cannot load a library with them\n");
        skip();
    }
    char dir[] = "/tmp/hsa-hip-XXXXXX";
    assert_non_null(mkdtemp(dir));
    // hipcc asks for the GPUs of this machine, whatever it is told, and this file answers it.
    assert_int_equal(run("echo gfx90a > %s/targets%s", dir, ""), 0);
    for (int i = 0; i < 2; i++) {
        char command[1024];
        snprintf(command, sizeof command, "export ROCM_TARGET_LST=%s/targets; cd %s; ", dir, dir);
        strcat(command,
               i ? "hipcc --offload-arch=gfx90a -O3 --genco -o module %s/hip-basic.hip -I'%s' 2>&1"
                 : "hipcc --offload-arch=gfx90a -O3 -o program %s/hip-basic.hip -I'%s' 2>&1");
        if (run(command, SOURCE_DIRECTORY, ROOMS) != 0) {
            fail_msg("hipcc: %s", output);
        }
    }
    if (run("CANDLE_ROCM_CACHE_DIR=%s/cache '%s' compile unary_f32 --arch gfx90a 2>&1", dir,
            KERNELS_TOOL) != 0) {
        fail_msg("rocm-kernels: %s", output);
    }
    static const char * const agents[] = {"gfx90a", "aie2,gfx90a,gfx1100,gfx90a"};
    for (int i = 0; i < 2; i++) {
        char command[1024];
        snprintf(command, sizeof command, "cd %s; GGML_HSA_EMULATE=%s ", dir, agents[i]);
        strcat(command, "LD_LIBRARY_PATH='%s' timeout 120 ./program module cache/*/unary_f32_*.cso%s 2>&1");
        int rc = run(command, EMU_DIRECTORY, "");
        if (rc != 0 || !strstr(output, "\n0 failures\n")) {
            fail_msg("exit status %d with %s: %s", rc, agents[i], output);
        }
        int steps = 0;
        for (const char * at = output; (at = strstr(at, "ok   ")); at++) {
            steps++;
        }
        assert_int_equal(steps, i ? 24 : 23);
        assert_non_null(strstr(output, "hello 42 from 1.1\n"));
    }
    assert_int_equal(run("rm -r %s%s", dir, ""), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
