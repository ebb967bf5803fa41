// test-log: what the backend says must never end the program that it speaks in. The log goes to a
// file that may not grow and to a pipe that nobody reads; the system answers both with a signal.
#include "base/cmocka-all.h"
#include "base/harmful.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/backend.h"

enum { LINES = 20, MOST = 64 };

// A child that says more than `fd` takes; how it ended.
static int speak_into(int fd, bool limited) {
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGPIPE, SIG_DFL);
        signal(SIGXFSZ, SIG_DFL);
        bool ok = dup2(fd, STDERR_FILENO) == STDERR_FILENO;
        ok = ok && (!limited || setrlimit(RLIMIT_FSIZE, &(struct rlimit){MOST, MOST}) == 0);
        for (int i = 0; i < LINES; i++) {
            log_warn("line %d of the log", i);
        }
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void test_full_file(void ** state) {
    (void) state;
    char name[] = "/tmp/test-log-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    unlink(name);
    assert_int_equal(speak_into(fd, true), 0);
    assert_true(lseek(fd, 0, SEEK_END) > 0);
    close(fd);
}

static void test_no_reader(void ** state) {
    (void) state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    assert_int_equal(speak_into(ends[1], false), 0);
    close(ends[1]);
}

// Tensors are named by whoever made the model.
static void test_one_line(void ** state) {
    (void) state;
    char text[1024] = "";
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        log_warn("tensor \"%s\" is odd", HARMFUL);
        _exit(0);
    }
    close(ends[1]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    close(ends[0]);
    assert_false(harmful_in(text));
    assert_non_null(strstr(text, "\" is odd\n"));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_file),
        cmocka_unit_test(test_no_reader),
        cmocka_unit_test(test_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
