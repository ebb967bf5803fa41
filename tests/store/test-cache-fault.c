// cache under bad luck: killed at every step of publishing it heals; no failure of the disk at any
// step fails the operation or leaves a wrong kernel; a full or read-only file system is only a
// warning. dir_fault stands before every call of base/dir that changes the disk.
#include "store/cache-rig.h"
#include "base/dir.h"
#include "store/cache.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>

enum { NO_FAULT = -1 };

static int fault_at = NO_FAULT; // the step that fails, counted from 0
static bool fault_stays;        // and all after it
static int fault_errno;         // 0: killed
static int steps;
static char fault_name[32];

static bool only_unlink; // these are the steps that count

int dir_fault(const char * step) {
    if (only_unlink && strcmp(step, "unlink")) {
        return 0;
    }
    int n = steps++;
    if (fault_at == NO_FAULT || n < fault_at || (n > fault_at && !fault_stays)) {
        return 0;
    }
    snprintf(fault_name, sizeof fault_name, "%s", step);
    if (!fault_errno) {
        fprintf(stderr, " %s", step);
        fflush(stderr);
        kill(getpid(), SIGKILL);
    }
    return fault_errno;
}

static void set_fault(int at, bool stays, int e) {
    steps = 0;
    fault_at = at;
    fault_stays = stays;
    fault_errno = e;
}

// What is there before a kernel is published.
enum before { NOTHING, OF_ANOTHER_COMPILER, DAMAGED, BEFORES };
static const char * const before_names[BEFORES] = {"nothing", "another compiler's kernel",
                                                   "a damaged kernel"};

static void prepare(enum before before, const struct kernel_spec * spec) {
    rig_reset(NULL);
    set_fault(NO_FAULT, false, 0);
    struct store_compiler other = rig_compiler;
    other.identity = "rig 0";
    if (before == OF_ANOTHER_COMPILER) {
        get_once(&other, spec);
    } else if (before == DAMAGED) {
        char path[512];
        get_once(&rig_compiler, spec);
        path_of(spec, "_insts.bin", path);
        assert_int_equal(truncate(path, 10), 0);
    }
}

// No half kernel counts, the right one comes, and then it is there.
static void expect_healed(const struct kernel_spec * spec) {
    set_fault(NO_FAULT, false, 0);
    get_once(&rig_compiler, spec);
    assert_int_equal(n_warnings, 0);
    expect_hit(spec);
}

static void test_kill(void ** state) {
    (void) state;
    struct kernel_spec spec = make_spec(DTYPE_F32, 33);
    for (int before = 0; before < BEFORES; before++) {
        int n = 0;
        fprintf(stderr, "killed over %s, before:", before_names[before]);
        for (bool done = false; !done; n++) {
            prepare((enum before) before, &spec);
            pid_t child = fork();
            if (child == 0) {
                set_fault(n, false, 0);
                struct store * s = open_store();
                bool ok = got_right(s, &spec);
                store_free(s);
                _exit(ok ? 0 : 1);
            }
            int status;
            assert_int_equal(waitpid(child, &status, 0), child);
            if (WIFEXITED(status)) {
                assert_int_equal(WEXITSTATUS(status), 0);
                done = true;
                expect_hit(&spec);
            } else {
                assert_int_equal(WTERMSIG(status), SIGKILL);
            }
            expect_healed(&spec);
        }
        fprintf(stderr, ": %d steps\n", n - 1);
        assert_true(n > 12);
    }
}

static void test_errors(void ** state) {
    (void) state;
    static const int errors[] = {ENOSPC, EROFS, EACCES, EDQUOT, EIO};
    struct kernel_spec spec = make_spec(DTYPE_F32, 33);
    int runs = 0;
    for (int before = 0; before < BEFORES; before++) {
        for (int stays = 0; stays < 2; stays++) {
            for (int e = 0; e < 5; e++) {
                for (int n = 0;; n++, runs++) {
                    prepare((enum before) before, &spec);
                    set_fault(n, stays, errors[e]);
                    struct store * s = open_store();
                    if (!got_right(s, &spec)) {
                        fail_msg("%s at step %d (%s)", strerror(errors[e]), n, fault_name);
                    }
                    struct store_stats stats = stats_of(s);
                    store_free(s);
                    assert_int_equal(stats.compiles, 1);
                    assert_true(n_warnings <= 1);
                    if (stats.cache_failures && n_warnings == 0) {
                        fail_msg("%s at step %d (%s) was not said", strerror(errors[e]), n,
                                 fault_name);
                    }
                    bool past = steps <= n;
                    expect_healed(&spec);
                    if (past) {
                        break;
                    }
                }
            }
        }
    }
    print_message("%d failures of a step, no failure of a kernel\n", runs);
    assert_true(runs > 300);
}

static void test_said_once(void ** state) {
    (void) state;
    set_fault(3, true, ENOSPC);
    struct store * s = open_store();
    for (int i = 0; i < 10; i++) {
        struct kernel_spec spec = make_spec(DTYPE_F32, 100 + i);
        assert_true(got_right(s, &spec));
        assert_true(got_right(s, &spec));
    }
    assert_int_equal(stats_of(s).compiles, 10);
    assert_int_equal(stats_of(s).cache_failures, 10);
    assert_int_equal(stats_of(s).memory_hits, 10);
    store_free(s);
    set_fault(NO_FAULT, false, 0);
    assert_int_equal(n_warnings, 1);
    assert_non_null(strstr(last_warning, "No space left on device"));
    assert_non_null(strstr(last_warning, cache_dir));
}

// ---- real file systems ----

static bool mount_tmpfs(unsigned long flags) {
    return mount("none", cache_dir, "tmpfs", flags, "size=64k,mode=0700") == 0;
}

// In a process of its own, because it changes its view of the file systems. SKIPPED: not allowed
// here.
static int on_full_disk(void) {
    mkdir(cache_dir, 0700);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        !mount_tmpfs(0)) {
        return SKIPPED;
    }
    struct store * s = open_store();
    bool ok = true;
    for (int i = 0; i < 60; i++) {
        struct kernel_spec spec = make_spec(DTYPE_F32, 100 + i);
        ok = ok && got_right(s, &spec);
    }
    struct store_stats stats = stats_of(s);
    store_free(s);
    print_message("a disk of 64 KiB: 60 kernels made, %d kept, %d not, %d warning: %s\n",
                  (int) stats.cache_publishes, (int) stats.cache_failures, n_warnings,
                  last_warning);
    ok = ok && stats.compiles == 60 && stats.cache_publishes > 3 && stats.cache_failures > 3 &&
         n_warnings == 1 && count_entries("aie2", ".meta") == (int) stats.cache_publishes &&
         count_entries("aie2", "") == 3 * (int) stats.cache_publishes; // nothing half-written stays

    // Read-only: what is there is found, what is not is made and forgotten.
    struct kernel_spec known = make_spec(DTYPE_F32, 100), fresh = make_spec(DTYPE_F32, 99);
    if (mount("none", cache_dir, NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0) {
        return 1;
    }
    s = open_store();
    ok = ok && got_right(s, &known) && got_right(s, &fresh);
    stats = stats_of(s);
    store_free(s);
    print_message("read-only: %d hit, %d compile, %d warning: %s\n", (int) stats.cache_hits,
                  (int) stats.compiles, n_warnings, last_warning);
    ok = ok && stats.cache_hits == 1 && stats.compiles == 1 && n_warnings == 1;
    umount(cache_dir);
    return ok ? 0 : 1;
}

static void run_apart(int (*body)(void), const char * what) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        int status = body();
        fflush(NULL);
        _exit(status);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIPPED) {
        skip_test("this user may not %s", what);
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_full_disk(void ** state) {
    (void) state;
    set_fault(NO_FAULT, false, 0);
    run_apart(on_full_disk, "mount file systems");
}

// As a user who may read the cache's parent but not write it.
static int without_permission(void) {
    if (geteuid() == 0 && (chown(rig_dir, 54321, 54321) != 0 || seteuid(54321) != 0)) {
        return SKIPPED;
    }
    if (chmod(rig_dir, 0500) != 0) {
        return 1;
    }
    struct kernel_spec spec = make_spec(DTYPE_F32, 5);
    struct store * s = open_store();
    bool ok = got_right(s, &spec) && stats_of(s).compiles == 1 && n_warnings == 1;
    print_message("no permission: %s\n", last_warning);
    store_free(s);
    ok = ok && strstr(last_warning, "Permission denied");
    chmod(rig_dir, 0700);
    if (getuid() == 0) {
        ok = seteuid(0) == 0 && chown(rig_dir, 0, 0) == 0 && ok;
    }
    return ok ? 0 : 1;
}

static void test_no_permission(void ** state) {
    (void) state;
    set_fault(NO_FAULT, false, 0);
    run_apart(without_permission, "become another user");
}

// What cannot be removed is not said to be gone, and is still there.
static void test_not_removed(void ** state) {
    (void) state;
    struct kernel_spec specs[] = {make_spec(DTYPE_F32, 5), make_spec(DTYPE_F32, 6)};
    for (int i = 0; i < 4; i++) {
        bool clear = i & 1, one = i & 2; // of the two
        rig_reset(NULL);
        set_fault(NO_FAULT, false, 0);
        get_once(&rig_compiler, &specs[0]);
        get_once(&rig_compiler, &specs[1]);
        struct cache * c;
        struct cache_totals t = {0};
        struct error err = {0};
        assert_int_equal(cache_open(false, &c, NULL), ST_OK);
        only_unlink = true;
        set_fault(0, !one, EROFS);
        enum status st = clear ? cache_clear(c, &t, &err) : cache_trim(c, 0, false, &t, &err);
        only_unlink = false;
        set_fault(NO_FAULT, false, 0);
        cache_close(c);
        assert_int_equal(st, ST_IO);
        assert_non_null(strstr(err.text, strerror(EROFS)));
        assert_non_null(strstr(err.text, one ? "1 of 2" : "0 of 2"));
        assert_int_equal(t.removed_kernels, one ? 1 : 0);
        if (!one) {
            assert_int_equal(t.removed_bytes, 0);
            expect_hit(&specs[0]);
            expect_hit(&specs[1]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_kill, rig_reset),
        cmocka_unit_test_setup(test_errors, rig_reset),
        cmocka_unit_test_setup(test_said_once, rig_reset),
        cmocka_unit_test_setup(test_not_removed, rig_reset),
        cmocka_unit_test_setup(test_full_disk, rig_reset),
        cmocka_unit_test_setup(test_no_permission, rig_reset),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
