// The list of variables (src/base/variables.c) against what the sources read and what the documents
// explain: neither has one that it lacks, and it has none that nobody explains. And what of their
// values is said to be wrong.
#include "base/cmocka-all.h"
#include "base/variables.h"
#include "probe.h"

static bool is_listed(const char * name) {
    for (const struct variable * v = variables; v->name; v++) {
        if (!strcmp(v->name, name)) {
            return true;
        }
    }
    return false;
}

// How many different names a command prints that the list has; one that it lacks fails.
static int all_known(const char * command) {
    char name[128];
    int n = 0;
    FILE * pipe = popen(command, "r");
    assert_non_null(pipe);
    while (fgets(name, sizeof name, pipe)) {
        name[strcspn(name, "\n")] = '\0';
        if (!is_listed(name)) {
            fail_msg("%s is in the output of\n%s\nand not in src/base/variables.c", name, command);
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
                                 "docs/environment.md docs/rocm-kernels.md | tr -d '| '" SORTED);
    assert_true(n >= 20);
    // Whatever a document sets; -D before it makes it an option of the build.
    n = all_known(IN_SOURCES "grep -hoE '(^|[^A-Z_D])(GGML_HSA|CANDLE_ROCM|ROCM_KERNELS)_[A-Z_]+=' "
                             "README.md CONTRIBUTING.md docs/*.md | tr -d '=' | "
                             "sed 's/^[^A-Z]//'" SORTED);
    assert_true(n >= 6);
    for (const struct variable * k = variables; k->name; k++) {
        char command[512];
        snprintf(command, sizeof command, IN_SOURCES "grep -qwF %s README.md docs/*.md", k->name);
        if (system(command) != 0) {
            fail_msg("%s is in src/base/variables.c, and neither README.md nor docs/ explains it",
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

static void collect(void * user, const struct variable * v, const char * value) {
    char phrase[256];
    variable_phrase(v, phrase, sizeof phrase);
    buf_printf(user, "%s=%s: %s\n", v->name, value, phrase);
}

// Each value by itself: whether it is found, and what is said instead.
static void values(void ** state) {
    (void) state;
    static const struct {
        const char *name, *value, *instead; // NULL: it is right
    } cases[] = {
        {"GGML_HSA_EMU_STRICT", "foo", "1 or 0"},
        {"GGML_HSA_JOIN", "foo", "1 or 0"},
        {"GGML_HSA_JOIN", "Off", NULL},
        {"GGML_HSA_JOIN", "", NULL},
        {"GGML_HSA_PROFILE", "foo", "1, 0, kernels or order"},
        {"GGML_HSA_PROFILE", "order", NULL},
        {"GGML_HSA_PROFILE", "kernels", NULL},
        {"GGML_HSA_WAIT_LIMIT", "abc", "a number from 0 to 1000000"},
        {"GGML_HSA_WAIT_LIMIT", "-1", "a number from 0 to 1000000"},
        {"GGML_HSA_WAIT_LIMIT", "60", NULL},
        {"GGML_HSA_HOST_FALLBACK", "foo", "1 or 0"},
        {"GGML_HSA_ENABLE_LOG", "foo", "1 or 0"},
        {"GGML_HSA_KERNEL_CACHE_CLEAR", "ja", "1 or 0"},
        {"GGML_HSA_JIT_TIMEOUT", "0", "a number from 1 to 86400"},
        {"GGML_HSA_KERNEL_MEMORY", "64m", NULL},
        {"GGML_HSA_KERNEL_MEMORY", "64 MB", "bytes, or with K, M, G, T"},
        {"GGML_HSA_MUL_MAT", "Precise", "precise, bf16, lanes, block or block-lean"},
        {"GGML_HSA_EMU_CACHES", "true", NULL},
        {"GGML_HSA_EMU_CACHES", "77", NULL},
        {"GGML_HSA_KERNEL_DIR", "anything", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf got = {0}, want = {0};
        clearenv();
        setenv(cases[i].name, cases[i].value, 1);
        variables_wrong(collect, &got);
        buf_printf(&got, "%s", "");
        buf_printf(&want, "%s", "");
        if (cases[i].instead) {
            buf_printf(&want, "%s=%s: %s\n", cases[i].name, cases[i].value, cases[i].instead);
        }
        assert_string_equal(got.data ? (char *) got.data : "", want.data ? (char *) want.data : "");
        buf_free(&got);
        buf_free(&want);
    }
    // Who reads a flag takes a value that is none for not set.
    setenv("GGML_HSA_JOIN", "foo", 1);
    assert_true(env_flag("GGML_HSA_JOIN", true));
    assert_false(env_flag("GGML_HSA_JOIN", false));
    setenv("GGML_HSA_JOIN", "OFF", 1);
    assert_false(env_flag("GGML_HSA_JOIN", true));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources),
        cmocka_unit_test(documents),
        cmocka_unit_test(environment),
        cmocka_unit_test(values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
