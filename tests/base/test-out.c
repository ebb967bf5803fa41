// test-out: files that somebody named. They appear whole or not at all, wherever the process goes
// meanwhile, and nothing is left of those that do not.
#include "base/out.h"
#include "base/stand-ins.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>

static char home[] = "/tmp/test-out-XXXXXX";
static char path[64];

static void check(const char * want) {
    char text[64] = "";
    FILE * f = fopen(path, "r");
    if (want) {
        assert_non_null(f);
        text[fread(text, 1, sizeof text - 1, f)] = 0;
        fclose(f);
        assert_string_equal(text, want);
        assert_int_equal(unlink(path), 0);
    } else {
        assert_null(f);
    }
    assert_int_equal(rmdir(home), 0); // nothing else was there
    assert_int_equal(mkdir(home, 0700), 0);
}

static void whole(void ** state) {
    (void) state;
    struct out o;
    struct error err;
    struct stat info;
    char * here = getcwd(NULL, 0);
    assert_int_equal(chdir(home), 0);
    mode_t mask = umask(027);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(out_begin("file", &o, &err), ST_OK);
        assert_int_equal(chdir("/"), 0);
        assert_true(fputs(again ? "second" : "first", o.file) >= 0);
        assert_int_equal(out_end(&o, &err), ST_OK);
        assert_null(o.file);
        assert_int_equal(chdir(home), 0);
    }
    umask(mask);
    assert_int_equal(stat("file", &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_int_equal(chdir(here), 0);
    free(here);
    check("second");
}

static void not_at_all(void ** state) {
    (void) state;
    struct out o;
    struct error err = {0};
    assert_int_equal(out_begin(path, &o, &err), ST_OK);
    assert_true(fputs("half", o.file) >= 0);
    out_drop(&o);
    out_drop(&o); // and again is nothing
    check(NULL);
    assert_int_equal(out_end(&o, &err), ST_IO);
    static const char * const wrong[] = {"", "/", ".", "..", "/tmp/", "/nonexistent/file", NULL};
    for (int i = 0; wrong[i]; i++) {
        err.text[0] = 0;
        assert_int_equal(out_begin(wrong[i], &o, &err), ST_IO);
        assert_true(strstr(err.text, wrong[i]) && err.text[0]);
        assert_null(o.file);
    }
    char name[400];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_int_equal(out_begin(name, &o, &err), ST_IO);
}

// Something comes to stand there while the file is written.
static void meanwhile(void ** state) {
    (void) state;
    for (int kind = 0; stand_ins[kind]; kind++) {
        struct stand_in s;
        struct out o;
        struct error err = {0};
        assert_int_equal(out_begin(path, &o, &err), ST_OK);
        assert_true(fputs("late", o.file) >= 0);
        if (stand_in_make(&s, kind, path)) {
            assert_int_equal(out_end(&o, &err), ST_IO);
            assert_non_null(strstr(err.text, "regular file"));
            stand_in_check(&s, kind, NULL);
        }
        out_drop(&o);
        check(NULL);
    }
}

static void opened(void ** state) {
    (void) state;
    struct error err = {0};
    int fd;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(out_open(path, O_WRONLY | O_APPEND, &fd, &err), ST_OK);
        assert_int_equal(write(fd, "ab", 2), 2);
        close(fd);
    }
    check("abab");
    for (int kind = 0; stand_ins[kind]; kind++) {
        struct stand_in s;
        if (stand_in_make(&s, kind, path)) {
            assert_int_equal(out_open(path, O_WRONLY, &fd, &err), ST_IO);
            assert_int_equal(fd, -1);
            stand_in_check(&s, kind, NULL);
        }
    }
    check(NULL);
}

// A limit on the size of files is an error and no signal.
static void full_disk(void ** state) {
    (void) state;
    pid_t pid = fork();
    if (pid == 0) {
        struct out o;
        struct error err = {0};
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){100, 100});
        bool begun = out_begin(path, &o, &err) == ST_OK;
        for (int i = 0; begun && i < 200; i++) {
            fputc('x', o.file); // kept until the end
        }
        _exit(begun && out_end(&o, &err) == ST_IO && strstr(err.text, strerror(EFBIG)) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    check(NULL);
}

static int setup(void ** state) {
    (void) state;
    snprintf(path, sizeof path, "%s/file", mkdtemp(home));
    return 0;
}

static int teardown(void ** state) {
    (void) state;
    return rmdir(home);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),  cmocka_unit_test(not_at_all), cmocka_unit_test(meanwhile),
        cmocka_unit_test(opened), cmocka_unit_test(full_disk),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
