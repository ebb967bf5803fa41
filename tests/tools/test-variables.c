// The list of variables (tools/variables.c) against what the sources read and what the documents
// explain: neither has one that it lacks, and it has none that nobody explains.
#include "base/cmocka-all.h"
#include "probe.h"

static const struct probe_known * find(const char * name) {
    for (const struct probe_known * k = probe_variables; k->name; k++) {
        if (!strcmp(k->name, name)) {
            return k;
        }
    }
    return NULL;
}

// How many different names a command prints that the list has; one that it lacks fails.
static int all_known(const char * command) {
    char name[128];
    int n = 0;
    FILE * pipe = popen(command, "r");
    assert_non_null(pipe);
    while (fgets(name, sizeof name, pipe)) {
        name[strcspn(name, "\n")] = '\0';
        if (!find(name)) {
            fail_msg("%s is in the output of\n%s\nand not in tools/variables.c", name, command);
        }
        n++;
    }
    pclose(pipe);
    return n;
}

#define IN_SOURCES "cd '" SOURCE_DIRECTORY "' && "
#define SORTED     " | tr -d '\"`$({' | sort -u"

static void sources(void ** state) {
    (void) state;
    int n = all_known(
        IN_SOURCES "grep -rhoE '\"GGML_HSA_[A-Z_]+\"' src --include='*.c' --include='*.h'" SORTED);
    assert_true(n >= 15);
    n = all_known(IN_SOURCES "grep -hoE '[{]GGML_HSA_[A-Z_]+' env_setup.sh" SORTED);
    assert_true(n >= 1);
}

static void documents(void ** state) {
    (void) state;
    // Rows of tables of variables begin with one; build options stand in text.
    int n = all_known(IN_SOURCES "grep -hoE '^[|] `(GGML_HSA|CANDLE|ROCM)_[A-Z_]+`' README.md "
                                 "docs/rocm-kernels.md | tr -d '| '" SORTED);
    assert_true(n >= 20);
    // Whatever a document sets; -D before it makes it an option of the build.
    n = all_known(IN_SOURCES "grep -hoE '(^|[^A-Z_D])(GGML_HSA|CANDLE_ROCM|ROCM_KERNELS)_[A-Z_]+=' "
                             "README.md CONTRIBUTING.md docs/*.md | tr -d '=' | "
                             "sed 's/^[^A-Z]//'" SORTED);
    assert_true(n >= 6);
    for (const struct probe_known * k = probe_variables; k->name; k++) {
        char command[512];
        snprintf(command, sizeof command, IN_SOURCES "grep -qwF %s README.md docs/*.md", k->name);
        if (system(command) != 0) {
            fail_msg("%s is in tools/variables.c, and neither README.md nor docs/ explains it",
                     k->name);
        }
        assert_true(*k->meaning);
    }
}

static void visit(void * user, const struct probe_variable * v) {
    struct buf * b = user;
    buf_printf(b, "%.*s=%s %s %s\n", (int) v->name_size, v->name, v->value,
               v->meaning ? "known" : "unknown", v->alike ? v->alike : "-");
}

static void environment(void ** state) {
    (void) state;
    struct buf b = {0};
    clearenv();
    setenv("GGML_HSA_MUL_MAT", "precise", 1);
    setenv("GGML_HSA_EMU_STRICT", "1", 1);
    setenv("GGML_HSA_IRON_ENV", "/iron", 1);
    setenv("GGML_HSA_EMULATED", "aie2", 1);
    setenv("CANDLE_ROCM_ARCH", "gfx90a", 1);
    setenv("PATH", "/bin", 1);
    setenv("HOME", "/", 1);
    probe_environment(visit, &b);
    const char * text = (const char *) b.data;
    assert_non_null(text);
    assert_non_null(strstr(text, "GGML_HSA_MUL_MAT=precise known"));
    assert_non_null(strstr(text, "GGML_HSA_EMU_STRICT=1 known"));
    assert_non_null(strstr(text, "GGML_HSA_IRON_ENV=/iron known"));
    assert_non_null(strstr(text, "CANDLE_ROCM_ARCH=gfx90a known"));
    assert_non_null(strstr(text, "GGML_HSA_EMULATED=aie2 unknown GGML_HSA_EMULATE\n"));
    assert_null(strstr(text, "PATH=/bin"));
    assert_null(strstr(text, "HOME="));
    buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources),
        cmocka_unit_test(documents),
        cmocka_unit_test(environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
