// Runs ggml-hsa as people do, with the environment that a test says and nothing else, and makes the
// files of machines that are not there.
#pragma once

#include "base/cmocka-all.h"
#include "base/json.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char home[] = "/tmp/test-doctor-XXXXXX";

static int make_home(void ** state) {
    (void) state;
    return mkdtemp(home) && chmod(home, 0755) == 0 ? 0 : -1;
}

static int remove_home(void ** state) {
    (void) state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", home);
    return system(command);
}

// ---- the tool ----

struct result {
    int status;
    struct buf text; // standard output and standard error
};

// `before` is shell that changes what the tool may do: "ulimit -l 64;", or "setpriv ...".
static struct result run_as(const char * before, const char * env, const char * arguments) {
    char command[4096];
    int n = snprintf(command, sizeof command,
                     "%s env -i PATH=\"$PATH\" HOME='%s' "
                     "ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 %s '%s' %s 2>&1",
                     before, home, env, TOOL, arguments);
    assert_true(n > 0 && (size_t) n < sizeof command);
    FILE * pipe = popen(command, "r");
    assert_non_null(pipe);
    struct result r = {0};
    char part[4096];
    for (size_t got; (got = fread(part, 1, sizeof part, pipe)) > 0;) {
        buf_append(&r.text, part, got);
    }
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    r.status = WEXITSTATUS(status);
    return r;
}

static inline struct result run(const char * env, const char * arguments) {
    return run_as("", env, arguments);
}

static inline const char * text_of_result(const struct result * r) {
    return r->text.data ? (const char *) r->text.data : "";
}

// A text that begins with '!' must not be there.
static inline void expect_as(const char * before, const char * env, const char * arguments,
                             int status, const char * const texts[]) {
    struct result r = run_as(before, env, arguments);
    const char * text = text_of_result(&r);
    if (r.status != status) {
        fail_msg("%s %s ggml-hsa %s: exit status %d\n%s", before, env, arguments, r.status, text);
    }
    for (int i = 0; texts[i]; i++) {
        bool unwanted = texts[i][0] == '!';
        if ((strstr(text, texts[i] + unwanted) == NULL) != unwanted) {
            fail_msg("%s %s ggml-hsa %s: no '%s' in\n%s", before, env, arguments, texts[i], text);
        }
    }
    assert_null(strchr(text, '\033')); // a pipe is no terminal
    buf_free(&r.text);
}

#define EXPECT(env, arguments, status, ...)                                                        \
    expect_as("", env, arguments, status, (const char * const[]){__VA_ARGS__, NULL})
#define EXPECT_AS(before, env, arguments, status, ...)                                             \
    expect_as(before, env, arguments, status, (const char * const[]){__VA_ARGS__, NULL})

// ---- files of a machine, below home ----

#define MADE_PATH(path)                                                                            \
    char path[512];                                                                                \
    {                                                                                              \
        int length = snprintf(path, sizeof path, "%s/%s%s", home, machine, name);                  \
        assert_true(length > 0 && (size_t) length < sizeof path);                                  \
        for (char * slash = path + strlen(home) + 1; (slash = strchr(slash, '/')); slash++) {      \
            *slash = '\0';                                                                         \
            mkdir(path, 0755);                                                                     \
            *slash = '/';                                                                          \
        }                                                                                          \
    }

static inline void put(const char * machine, const char * name, const char * text) {
    MADE_PATH(path);
    FILE * f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static inline void put_link(const char * machine, const char * name, const char * target) {
    MADE_PATH(path);
    unlink(path);
    assert_int_equal(symlink(target, path), 0);
}

static inline void put_rights(const char * machine, const char * name, mode_t mode, gid_t group) {
    MADE_PATH(path);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 0, group), 0);
    }
    assert_int_equal(chmod(path, mode), 0);
}

static inline void take_away(const char * machine, const char * name) {
    MADE_PATH(path);
    assert_int_equal(unlink(path), 0);
}
