// dir: who may have had a hand in a directory decides whether it is used. Directories of other
// users are made by root with chown; without root those cases are left out with a word.
#include "store/cache-rig.h"
#include "base/dir.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { STRANGER = 54321 };

static char below[4][128]; // levels below rig_dir

static void level(int i, const char * name) {
    snprintf(below[i], sizeof below[i], "%.100s/%.20s", i ? below[i - 1] : rig_dir, name);
}

static enum status open_it(const char * base, const char * own, bool create, struct error * err) {
    int fd;
    enum status st = dir_open(base, own, create, &fd, err);
    if (st == ST_OK) {
        struct stat info;
        assert_int_equal(fstat(fd, &info), 0);
        assert_int_equal(info.st_mode & 0022, 0);
        assert_int_equal(info.st_uid, geteuid());
        close(fd);
    }
    return st;
}

static void expect_refused(const char * base, const char * own, const char * reason) {
    struct error err = {0};
    assert_int_equal(open_it(base, own, true, &err), ST_INVALID);
    if (!strstr(err.text, reason)) {
        fail_msg("no '%s' in: %s", reason, err.text);
    }
    print_message("  %s\n", err.text);
}

static void test_create(void ** state) {
    (void) state;
    static const mode_t masks[] = {0, 022, 077};
    for (int i = 0; i < 3; i++) {
        remove_tree(cache_dir);
        mode_t old = umask(masks[i]);
        level(0, "cache");
        level(1, "a");
        level(2, "b");
        assert_int_equal(open_it(below[0], "a/b", false, NULL), ST_NOT_FOUND);
        assert_int_equal(open_it(below[0], "a/b", true, NULL), ST_OK);
        assert_int_equal(open_it(below[0], "a/b", false, NULL), ST_OK);
        for (int k = 0; k < 3; k++) {
            struct stat info;
            assert_int_equal(stat(below[k], &info), 0);
            assert_int_equal(info.st_mode & 07777, 0700);
        }
        int dir = open(below[2], O_RDONLY | O_DIRECTORY);
        struct stat info;
        assert_int_equal(dir_write(dir, "f", "x", 1, NULL), ST_OK);
        assert_int_equal(fstatat(dir, "f", &info, 0), 0);
        assert_int_equal(info.st_mode & 07777, 0600);
        assert_int_equal(dir_link(dir, "f", dir, "g", NULL), ST_OK);
        assert_int_equal(dir_link(dir, "f", dir, "g", NULL), ST_OK); // where it is already
        close(dir);
        assert_int_equal(count_entries("a/b", ""), 2);
        umask(old);
    }
}

static void test_links(void ** state) {
    (void) state;
    char link[640];
    level(0, "cache");
    assert_int_equal(open_it(below[0], "real/sub", true, NULL), ST_OK);
    snprintf(link, sizeof link, "%s/link", below[0]);
    assert_int_equal(symlink("real", link), 0);
    // Our own link on the way is fine; in place of the directory itself it is not.
    assert_int_equal(open_it(link, "sub", false, NULL), ST_OK);
    expect_refused(below[0], "link/sub", "a link or a file");
    expect_refused(below[0], "link", "a link or a file");
    char dots[700];
    snprintf(dots, sizeof dots, "%s/../link/./sub//..", link);
    assert_int_equal(open_it(dots, "sub", false, NULL), ST_OK);
    expect_refused(below[0], "..", "by its name");
    expect_refused(below[0], ".", "by its name");
    expect_refused(below[0], "", "no directory");
    assert_int_equal(open_it("relative", "x", true, NULL), ST_INVALID);

    snprintf(link, sizeof link, "%s/round", below[0]);
    assert_int_equal(symlink("round", link), 0);
    expect_refused(link, "x", "too many");
    snprintf(link, sizeof link, "%s/file", below[0]);
    write_file(link, "x", 1);
    expect_refused(link, "x", "not a directory");
    expect_refused(below[0], "file", "a link or a file");
    snprintf(link, sizeof link, "%s/nowhere", below[0]);
    assert_int_equal(symlink("/nonexistent/there", link), 0);
    assert_int_equal(open_it(link, "x", false, NULL), ST_NOT_FOUND);
}

static void test_writable(void ** state) {
    (void) state;
    level(0, "cache");
    level(1, "a");
    level(2, "b");
    assert_int_equal(open_it(below[0], "a/b", true, NULL), ST_OK);
    static const mode_t modes[] = {0770, 0707, 0777, 0720, 0702};
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 5; i++) {
            assert_int_equal(chmod(below[k], modes[i]), 0);
            expect_refused(below[0], "a/b", "others can write it");
        }
        assert_int_equal(chmod(below[k], 01777), 0); // sticky helps only on the way
        if (k == 0) {
            assert_int_equal(open_it(below[0], "a/b", true, NULL), ST_OK);
        } else {
            expect_refused(below[0], "a/b", "others can write it");
        }
        assert_int_equal(chmod(below[k], 0755), 0); // they may read
        assert_int_equal(open_it(below[0], "a/b", true, NULL), ST_OK);
    }
}

static void test_foreign(void ** state) {
    (void) state;
    if (geteuid() != 0) {
        skip_test("only root can make directories of another user");
    }
    level(0, "cache");
    level(1, "a");
    level(2, "b");
    for (int k = 0; k < 3; k++) {
        remove_tree(cache_dir);
        assert_int_equal(open_it(below[0], "a/b", true, NULL), ST_OK);
        assert_int_equal(chown(below[k], STRANGER, STRANGER), 0);
        expect_refused(below[0], "a/b", "belongs to another user");
    }
    remove_tree(cache_dir);
    assert_int_equal(open_it(below[0], "real", true, NULL), ST_OK);
    assert_int_equal(chmod(below[0], 01777), 0); // like /tmp
    char link[640];
    snprintf(link, sizeof link, "%s/link", below[0]);
    assert_int_equal(symlink(".", link), 0);
    assert_int_equal(open_it(link, "real", true, NULL), ST_OK);
    assert_int_equal(lchown(link, STRANGER, STRANGER), 0);
    expect_refused(link, "real", "a link of another user");
}

// ---- the cache as a whole ----

static void expect_memory_only(const char * reason) {
    struct kernel_spec spec = make_spec(DTYPE_F32, 64);
    for (int i = 0; i < 2; i++) {
        struct store_stats stats = get_once(&rig_compiler, &spec);
        assert_int_equal(stats.compiles, 1);
        assert_int_equal(stats.cache_hits + stats.cache_publishes, 0);
        assert_int_equal(n_warnings, 1);
        if (!strstr(last_warning, reason) || !strstr(last_warning, "in memory only")) {
            fail_msg("no '%s' in: %s", reason, last_warning);
        }
    }
    print_message("  %s\n", last_warning);
}

static void test_cache_refused(void ** state) {
    (void) state;
    struct kernel_spec spec = make_spec(DTYPE_F32, 64);
    char path[640];
    mode_t old = umask(0);
    expect_compile(&spec); // all of it private, whatever the umask
    expect_hit(&spec);
    static const char * const dirs[] = {"", "aie2", "shared"};
    for (int i = 0; i < 3; i++) {
        struct stat info;
        snprintf(path, sizeof path, "%s/%s", cache_dir, dirs[i]);
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 07777, 0700);
    }
    static const char * const suffixes[] = {".meta", ".pdi", "_insts.bin"};
    for (int i = 0; i < 3; i++) {
        struct stat info;
        path_of(&spec, suffixes[i], path);
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 07777, 0600);
    }
    umask(old);

    assert_int_equal(chmod(cache_dir, 0777), 0);
    expect_memory_only("others can write it");
    assert_int_equal(chmod(cache_dir, 0700), 0);
    snprintf(path, sizeof path, "%s/aie2", cache_dir);
    assert_int_equal(chmod(path, 0770), 0);
    expect_memory_only("others can write it");
    assert_int_equal(chmod(path, 0700), 0);
    expect_hit(&spec);

    char moved[128];
    snprintf(moved, sizeof moved, "%s/moved", rig_dir);
    assert_int_equal(rename(cache_dir, moved), 0);
    assert_int_equal(symlink(moved, cache_dir), 0);
    expect_memory_only("a link or a file");
    assert_int_equal(unlink(cache_dir) | rename(moved, cache_dir), 0);
    expect_hit(&spec);

    if (geteuid() == 0) {
        assert_int_equal(chown(cache_dir, STRANGER, STRANGER), 0);
        expect_memory_only("another user");
        assert_int_equal(chown(cache_dir, 0, 0), 0);
        path_of(&spec, "_insts.bin", path); // a single file of another user is a damaged kernel
        assert_int_equal(chown(path, STRANGER, STRANGER), 0);
        expect_compile(&spec);
        expect_hit(&spec);
    } else {
        print_message("not tried: directories of another user, which only root can make\n");
    }
    setenv("GGML_HSA_KERNEL_CACHE_DIR", "/", 1);
    expect_memory_only("no directory is named");
}

// The system sends SIGXFSZ, which ends a program that did not expect it; the host's own signal of
// that kind, waiting from before, stays.
static void test_file_size_limit(void ** state) {
    (void) state;
    mkdir(cache_dir, 0700);
    pid_t pid = fork();
    if (pid == 0) {
        static const char data[5000];
        int dir = open(cache_dir, O_RDONLY | O_DIRECTORY);
        struct error err = {0};
        bool ok = setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096}) == 0;
        ok = ok && dir_write(dir, "f", data, sizeof data, &err) == ST_IO;
        ok = ok && strstr(err.text, strerror(EFBIG)) && faccessat(dir, "f", F_OK, 0) != 0;
        sigset_t set, pending;
        sigemptyset(&set);
        sigaddset(&set, SIGXFSZ);
        sigprocmask(SIG_BLOCK, &set, NULL);
        raise(SIGXFSZ);
        ok = ok && dir_write(dir, "f", data, sizeof data, &err) == ST_IO;
        sigpending(&pending);
        ok = ok && sigismember(&pending, SIGXFSZ) == 1;
        _exit(ok ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_file_size_limit, rig_reset),
        cmocka_unit_test_setup(test_create, rig_reset),
        cmocka_unit_test_setup(test_links, rig_reset),
        cmocka_unit_test_setup(test_writable, rig_reset),
        cmocka_unit_test_setup(test_foreign, rig_reset),
        cmocka_unit_test_setup(test_cache_refused, rig_reset),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
