// Debian's rocminfo, unmodified, must list the emulated NPU and GPUs.
#include "rig.h"
#include "sanitized.h"

#include <sys/wait.h>
#include <unistd.h>

static char output[65536];

static int run(const char * emulate) {
    char command[1024];
    snprintf(command, sizeof command, "GGML_HSA_EMULATE=%s LD_LIBRARY_PATH='%s' rocminfo 2>&1",
             emulate, EMU_DIRECTORY);
    FILE * f = popen(command, "r");
    assert_non_null(f);
    size_t n = fread(output, 1, sizeof output - 1, f);
    output[n] = '\0';
    int rc = pclose(f);
    return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

static void test_rocminfo(void ** state) {
    (void) state;
    if (system("command -v rocminfo >/dev/null 2>&1") != 0) {
        skip_test("rocminfo is not installed");
    }
    if (SANITIZED) {
        skip_test("a program without sanitizers cannot load a library with them");
    }
    int rc = run("aie2");
    if (rc != 0) {
        fail_msg("rocminfo: exit status %d, output: %s", rc, output);
    }
    const char * agent = strstr(output, "aie2");
    assert_non_null(agent);
    assert_non_null(strstr(agent, "RyzenAI-npu1"));
    assert_non_null(strstr(agent, "AGENT_DISPATCH"));
    assert_non_null(strstr(agent, "65536(0x10000) KB"));
    assert_non_null(strstr(output, "Done"));
    assert_null(strstr(output, "gfx"));
    // GPUs beside it, in the order in which they are named.
    assert_int_equal(run("gfx1100,aie2,gfx90a,gfx942"), 0);
    static const char * const inside[] = {
        "  gfx1100 ",
        "Radeon",
        "  KERNEL_DISPATCH",
        " GPU ",
        "Wavefront Size:          32(0x20)",
        "GLOBAL; FLAGS: COARSE GRAINED",
        "GLOBAL; FLAGS: FINE GRAINED",
        "GROUP",
        "64(0x40) KB",
        "amdgcn-amd-amdhsa--gfx1100 ",
        "  aie2 ",
        "  gfx90a ",
        "Instinct MI210",
        "Wavefront Size:          64(0x40)",
        "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-",
        "  gfx942 ",
        "Instinct MI300X",
        "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-",
        "Done",
    };
    const char * at = output;
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
        at = strstr(at, inside[i]);
        if (!at) {
            fail_msg("rocminfo does not list '%s' in its place: %s", inside[i], output);
        }
    }
    // Not asked for: the preflight is rocminfo's own again, and whatever it says, there is no NPU.
    run("");
    assert_null(strstr(output, "aie2"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rocminfo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
