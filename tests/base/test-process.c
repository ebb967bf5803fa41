// process: how programs are found, run, listened to and ended.
#include "base/cmocka-all.h"
#include "base/process.h"
#include "base/workplace.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct process_end run(struct process p, enum status want) {
    struct process_end end;
    struct error err = {0};
    enum status st = process_run(&p, &end, &err);
    if (st != want) {
        fail_msg("%s: %s", status_name(st), err.text);
    }
    return end;
}

static struct process_end sh(const char * script, unsigned limit_s, size_t keep) {
    char * argv[] = {"sh", "-c", (char *) script, NULL};
    return run(
        (struct process){.argv = argv, .time_limit_s = limit_s, .capture = true, .keep = keep},
        ST_OK);
}

static const char * text(struct process_end * end) {
    return end->output.data ? (const char *) end->output.data : "";
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

static void how_it_ended(void ** state) {
    (void) state;
    struct process_end end = sh("echo out; echo err >&2; exit 7", 20, 100);
    assert_true(end.known);
    assert_int_equal(end.exit_status, 7);
    assert_int_equal(end.signal, 0);
    assert_false(end.timed_out);
    assert_string_equal(text(&end), "out\nerr\n");
    assert_int_equal(end.printed, 8);
    buf_free(&end.output);
    end = sh("kill -SEGV $$", 20, 100);
    assert_int_equal(end.signal, SIGSEGV);
    assert_string_equal(text(&end), "");
    buf_free(&end.output);
}

static void arguments_are_not_words_of_a_shell(void ** state) {
    (void) state;
    char * argv[] = {"printf", "%s|", "a b", "$HOME", "`id`", "; exit 3", "*", NULL};
    struct process_end end = run(
        (struct process){.argv = argv, .time_limit_s = 20, .capture = true, .keep = 1000}, ST_OK);
    assert_string_equal(text(&end), "a b|$HOME|`id`|; exit 3|*|");
    buf_free(&end.output);
}

static void not_there(void ** state) {
    (void) state;
    static const char * const names[] = {"/nonexistent/program", "no-such-program-anywhere", "",
                                         "/tmp", "/etc/passwd"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char * argv[] = {(char *) names[i], NULL};
        struct process p = {.argv = argv, .capture = true};
        struct process_end end;
        struct error err = {0};
        assert_int_equal(process_run(&p, &end, &err), ST_NOT_FOUND);
        assert_non_null(strstr(err.text, names[i]));
        assert_null(process_find(names[i]));
    }
    char * found = process_find("sh");
    assert_non_null(found);
    assert_int_equal(found[0], '/');
    free(found);
}

// A file that may be executed but cannot: exec itself says no.
static void not_runnable(void ** state) {
    (void) state;
    char path[] = "/tmp/test-process-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "#!/nonexistent/interpreter\n", 27), 27);
    fchmod(fd, 0700);
    close(fd);
    char * argv[] = {path, NULL};
    struct process p = {.argv = argv, .capture = true};
    struct process_end end;
    struct error err = {0};
    assert_int_equal(process_run(&p, &end, &err), ST_NOT_FOUND);
    assert_non_null(strstr(err.text, path));
    fd = open(path, O_WRONLY | O_TRUNC);
    assert_int_equal(write(fd,
                           "\x7f"
                           "ELFgarbage",
                           11),
                     11);
    close(fd);
    assert_int_equal(process_run(&p, &end, &err), ST_NOT_FOUND);
    unlink(path);
}

static void nothing_leaks_in(void ** state) {
    (void) state;
    int fd = open("/dev/null", O_RDONLY); // without O_CLOEXEC
    assert_true(fd >= 0);
    signal(SIGPIPE, SIG_IGN);
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, &before);
    // In a child of ours: no descriptor above 2 (but the one that ls opens), no input, and no
    // signal ignored or blocked.
    struct process_end end =
        sh("for f in /proc/self/fd/*; do n=${f##*/}; [ $n -le 2 ] || [ ! -e $f ] || "
           "echo fd $n; done; cat; grep -E 'Sig(Blk|Ign)' /proc/self/status",
           20, 4000);
    unsigned long long blocked = 1, ignored = 1;
    assert_int_equal(sscanf(text(&end), "SigBlk:\t%llx\nSigIgn:\t%llx\n", &blocked, &ignored), 2);
    // Signals 32 and 33 are the C library's own; whoever started us may have left them ignored.
    assert_int_equal(blocked, 0);
    assert_int_equal(ignored & ~0x180000000ull, 0);
    buf_free(&end.output);
    sigprocmask(SIG_SETMASK, &before, NULL);
    signal(SIGPIPE, SIG_DFL);
    close(fd);
}

static void only_the_end_is_kept(void ** state) {
    (void) state;
    struct process_end end =
        sh("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done", 60, 64);
    assert_int_equal(end.output.size, 64);
    assert_non_null(strstr(text(&end), "line 19999\n"));
    assert_true(end.printed > 200000);
    buf_free(&end.output);
    // A hundred megabytes.
    end = sh("head -c 104857600 /dev/zero | tr '\\0' x; echo end", 60, 4096);
    assert_int_equal(end.printed, 104857604);
    assert_int_equal(end.output.size, 4096);
    assert_true(end.output.capacity <= 65536);
    assert_string_equal(text(&end) + 4096 - 5, "xend\n");
    buf_free(&end.output);
    end = sh("echo a", 20, 0);
    assert_int_equal(end.printed, 2);
    assert_int_equal(end.output.size, 0);
    buf_free(&end.output);
}

static bool is_gone(pid_t pid) {
    for (int i = 0; i < 200; i++) {
        if (kill(pid, 0) != 0) {
            return true;
        }
        char path[64], line[256] = "";
        snprintf(path, sizeof path, "/proc/%d/stat", (int) pid);
        FILE * f = fopen(path, "r"); // an orphan may stay a zombie where nobody collects
        bool zombie = !f || (fgets(line, sizeof line, f) && strstr(line, ") Z "));
        if (f) {
            fclose(f);
        }
        if (zombie) {
            return true;
        }
        usleep(10000);
    }
    return false;
}

static void time_limit(void ** state) {
    (void) state;
    double start = seconds();
    struct process_end end =
        sh("sleep 300 & echo $!; trap '' TERM; while :; do sleep 1; done", 1, 100);
    assert_true(end.timed_out);
    assert_int_equal(end.signal, SIGKILL);
    assert_true(seconds() - start < 20);
    assert_true(is_gone((pid_t) atoi(text(&end)))); // the whole group
    buf_free(&end.output);
    // Silent and with its output closed.
    end = sh("exec >&- 2>&-; sleep 300", 1, 100);
    assert_true(end.timed_out);
    buf_free(&end.output);
}

// What holds the output open after the program itself has ended is not waited for.
static void left_behind(void ** state) {
    (void) state;
    double start = seconds();
    struct process_end end = sh("sleep 300 & echo $!", 60, 100);
    assert_false(end.timed_out);
    assert_int_equal(end.exit_status, 0);
    assert_true(seconds() - start < 20);
    assert_true(is_gone((pid_t) atoi(text(&end))));
    buf_free(&end.output);
}

static void host_ignores_children(void ** state) {
    (void) state;
    signal(SIGCHLD, SIG_IGN);
    struct process_end end = sh("echo hello; exit 3", 20, 100);
    assert_true(end.known); // it is told by a pipe
    assert_int_equal(end.exit_status, 3);
    assert_string_equal(text(&end), "hello\n");
    buf_free(&end.output);
    signal(SIGCHLD, SIG_DFL);
}

// A grandchild in a session of its own is in nobody's group.
static bool has_subreapers(void) { // an emulated kernel may have none
    int is_one;
    return prctl(PR_GET_CHILD_SUBREAPER, &is_one) == 0;
}

static void left_the_group(void ** state) {
    (void) state;
    if (!has_subreapers()) {
        skip_test("no subreapers here");
    }
    struct process_end end = sh("setsid sh -c 'sleep 300 & echo $!; wait' & sleep 0.3", 20, 100);
    assert_int_equal(end.exit_status, 0);
    assert_true(atoi(text(&end)) > 0);
    assert_true(is_gone((pid_t) atoi(text(&end))));
    buf_free(&end.output);
    end = sh("setsid sh -c 'sleep 300 & echo $!; wait' & wait", 1, 100);
    assert_true(end.timed_out);
    assert_true(is_gone((pid_t) atoi(text(&end))));
    buf_free(&end.output);
}

// Whoever runs a compiler may be interrupted: neither its processes nor its files stay.
static void caller_dies(void ** state) {
    (void) state;
    struct workplace w;
    assert_int_equal(workplace_make("test-process", &w, NULL), ST_OK);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t caller = fork();
    if (caller == 0) {
        dup2(ready[1], STDOUT_FILENO);
        char * argv[] = {"sh", "-c",
                         has_subreapers() ? "mkdir -p $TMPDIR/a/b; echo x > $TMPDIR/a/b/c; "
                                            "setsid sleep 300 & echo $!; wait"
                                          : "mkdir -p $TMPDIR/a/b; echo x > $TMPDIR/a/b/c; "
                                            "sleep 300 & echo $!; wait",
                         NULL};
        struct process p = {.argv = argv, .place = &w};
        struct process_end end;
        process_run(&p, &end, NULL);
        _exit(0);
    }
    char got[32] = "";
    assert_true(read(ready[0], got, sizeof got - 1) > 1);
    assert_int_equal(access(w.path, F_OK), 0);
    kill(caller, SIGKILL);
    waitpid(caller, NULL, 0);
    assert_true(is_gone((pid_t) atoi(got)));
    bool there = true;
    for (int i = 0; i < 500 && there; i++) {
        usleep(10000);
        there = access(w.path, F_OK) == 0;
    }
    assert_false(there);
    close(w.dir);
    close(ready[0]);
    close(ready[1]);
}

// Output that is to be shown where nobody reads holds nothing up and ends nobody.
static void nobody_reads(void ** state) {
    (void) state;
    for (int closed = 0; closed < 2; closed++) {
        int err = dup(STDERR_FILENO), ends[2];
        assert_int_equal(pipe(ends), 0);
        dup2(ends[1], STDERR_FILENO);
        close(ends[1]);
        if (closed) {
            close(ends[0]);
        }
        char * argv[] = {"sh", "-c", "head -c 300000 /dev/zero; echo end", NULL};
        struct process_end end =
            run((struct process){.argv = argv, .capture = true, .show = true, .keep = 10}, ST_OK);
        dup2(err, STDERR_FILENO);
        close(err);
        assert_true(end.known && end.unheard);
        assert_int_equal(end.exit_status, 0);
        assert_int_equal(end.printed, 300004);
        buf_free(&end.output);
        if (!closed) {
            close(ends[0]);
        }
    }
}

// Whatever is left in a workplace goes: deep, closed to us, linked elsewhere.
static void workplace_goes(void ** state) {
    (void) state;
    struct workplace w;
    assert_int_equal(workplace_make("test-process", &w, NULL), ST_OK);
    char victim[] = "/tmp/test-process-XXXXXX";
    int fd = mkstemp(victim);
    assert_true(fd >= 0);
    fchmod(fd, 0640);
    close(fd);
    assert_int_equal(symlinkat(victim, w.dir, "link"), 0);
    assert_int_equal(symlinkat("/", w.dir, "root"), 0);
    int at = dup(w.dir);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(mkdirat(at, "down", 0700), 0);
        int next = openat(at, "down", O_RDONLY | O_DIRECTORY);
        assert_true(next >= 0);
        int file = openat(at, "file", O_WRONLY | O_CREAT, 0400);
        close(file);
        fchmod(at, i % 7 == 3 ? 0 : 0700);
        close(at);
        at = next;
    }
    close(at);
    workplace_remove(&w);
    assert_int_not_equal(access(w.path, F_OK), 0);
    struct stat info;
    assert_int_equal(stat(victim, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    unlink(victim);
}

static void not_captured(void ** state) {
    (void) state;
    char path[] = "/tmp/test-process-XXXXXX";
    int file = mkstemp(path), out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    fflush(stdout);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    char * plain[] = {"sh", "-c", "echo plain; echo too >&2", NULL};
    char * shown[] = {"sh", "-c", "echo shown", NULL};
    struct process_end a = run((struct process){.argv = plain}, ST_OK);
    struct process_end b =
        run((struct process){.argv = shown, .capture = true, .show = true, .keep = 10}, ST_OK);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    char got[64] = "";
    ssize_t n = pread(file, got, sizeof got - 1, 0);
    assert_int_equal(n, 16);
    assert_string_equal(got, "plain\ntoo\nshown\n");
    assert_int_equal(a.printed, 0);
    assert_string_equal(text(&b), "shown\n");
    buf_free(&b.output);
    close(out);
    close(err);
    close(file);
    unlink(path);
}

static void its_own_temporary_directory(void ** state) {
    (void) state;
    char * argv[] = {"sh", "-c", "echo \"$TMPDIR $KEPT\"; env | grep -c ^TMPDIR=", NULL};
    struct process p = {
        .argv = argv, .tmpdir = "/a b/c", .time_limit_s = 20, .capture = true, .keep = 100};
    const char * before = getenv("TMPDIR");
    char * ours = before ? strdup(before) : NULL;
    setenv("KEPT", "stays", 1);
    for (int is_set = 0; is_set < 2; is_set++) {
        is_set ? setenv("TMPDIR", "/ours", 1) : unsetenv("TMPDIR");
        struct process_end end = run(p, ST_OK);
        assert_string_equal(text(&end), "/a b/c stays\n1\n");
        buf_free(&end.output);
    }
    assert_string_equal(getenv("TMPDIR"), "/ours");
    ours ? setenv("TMPDIR", ours, 1) : unsetenv("TMPDIR");
    free(ours);
}

// Whether the limit lets this process have one child, which can have none. Emulated processes have
// threads that count, and root has no limit.
static bool a_child_but_no_grandchild(void) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        pid_t more = fork();
        _exit(more < 0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 1;
}

// Of the two processes that a program takes the user may have one: the reason is told, and nobody
// takes the silence for success. Root may have any number, so another user is asked.
static void no_second_process(void ** state) {
    (void) state;
    enum { STRANGER = 54321, ENFORCED = 1, TOLD = 2 };
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit two = {2, 2};
        char * argv[] = {"true", NULL};
        struct process p = {.argv = argv, .time_limit_s = 20};
        struct process_end end;
        struct error err = {0};
        int answer = 0;
        if (setgid(STRANGER) == 0 && setuid(STRANGER) == 0 && setrlimit(RLIMIT_NPROC, &two) == 0) {
            answer |= a_child_but_no_grandchild() ? ENFORCED : 0;
            enum status st = process_run(&p, &end, &err);
            answer |= st == ST_IO && strstr(err.text, strerror(EAGAIN)) ? TOLD : 0;
        }
        _exit(answer);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (!(WEXITSTATUS(status) & ENFORCED)) {
        skip_test("no limit of two processes here");
    }
    assert_true(WEXITSTATUS(status) & TOLD);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(how_it_ended),
        cmocka_unit_test(arguments_are_not_words_of_a_shell),
        cmocka_unit_test(not_there),
        cmocka_unit_test(not_runnable),
        cmocka_unit_test(nothing_leaks_in),
        cmocka_unit_test(only_the_end_is_kept),
        cmocka_unit_test(time_limit),
        cmocka_unit_test(left_behind),
        cmocka_unit_test(host_ignores_children),
        cmocka_unit_test(left_the_group),
        cmocka_unit_test(caller_dies),
        cmocka_unit_test(nobody_reads),
        cmocka_unit_test(workplace_goes),
        cmocka_unit_test(not_captured),
        cmocka_unit_test(its_own_temporary_directory),
        cmocka_unit_test(no_second_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
