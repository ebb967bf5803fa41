// keep: sizes say what they mean, whatever took the name of the growth file stops nobody, and an
// entry is got or made in the order that keep.h promises.
#include "base/cmocka-all.h"
#include "keep/keep.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void sizes(void ** state) {
    (void) state;
    static const struct {
        const char * text;
        int64_t bytes; // -1: refused
    } rows[] = {
        {"5", 5},   {"5k", 5 << 10}, {"5K", 5 << 10},   {"3M", 3 << 20}, {"1g", 1 << 30},
        {"5 ", -1}, {" 5", -1},      {"5KK", -1},       {"-5", -1},      {"5\n", -1},
        {"5@", -1}, {"5`", -1},      {"99999999T", -1}, {"0x5", -1},     {"K", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t got = 0;
        setenv("TEST_KEEP_SIZE", rows[i].text, 1);
        enum status st = keep_size("TEST_KEEP_SIZE", 7, &got, NULL);
        assert_int_equal(st, rows[i].bytes < 0 ? ST_INVALID : ST_OK);
        assert_true(rows[i].bytes < 0 || got == (uint64_t) rows[i].bytes);
    }
}

enum { FIFO, SOCKET, DIRECTORY, LINK, KINDS };

static void put(int dir, int kind) {
    switch (kind) {
    case FIFO:
        assert_int_equal(mkfifoat(dir, "growth", 0600), 0);
        break;
    case SOCKET:
        assert_int_equal(mknodat(dir, "growth", S_IFSOCK | 0600, 0), 0);
        break;
    case DIRECTORY:
        assert_int_equal(mkdirat(dir, "growth", 0700), 0);
        break;
    default:
        assert_int_equal(symlinkat("/dev/null", dir, "growth"), 0);
        break;
    }
}

// Each would stop, mislead or kill a counter that takes it for its file.
static void in_the_place_of_growth(void ** state) {
    (void) state;
    for (int kind = 0; kind < KINDS; kind++) {
        char path[] = "/tmp/test-keep-XXXXXX";
        assert_non_null(mkdtemp(path));
        int dir = open(path, O_RDONLY | O_DIRECTORY), lock = -1;
        put(dir, kind);
        alarm(20); // a counter that waits for ever is a failure
        assert_true(keep_grown(dir, 1 << 20, 1));
        assert_int_equal(keep_trim_begin(dir, false, &lock, NULL), ST_OK);
        keep_trim_end(lock);
        if (kind != DIRECTORY) { // that one is left, and counting is due each time
            assert_false(keep_grown(dir, 1 << 30, 1));
        }
        alarm(0);
        unlinkat(dir, "growth", 0);
        unlinkat(dir, "growth", AT_REMOVEDIR);
        close(dir);
        rmdir(path);
    }
}

// A limit on the size of files must not end the program that we are a guest of.
static void file_size_limit(void ** state) {
    (void) state;
    char path[] = "/tmp/test-keep-XXXXXX";
    assert_non_null(mkdtemp(path));
    pid_t pid = fork();
    if (pid == 0) {
        int dir = open(path, O_RDONLY | O_DIRECTORY), lock;
        bool ok = keep_trim_begin(dir, false, &lock, NULL) == ST_OK;
        keep_trim_end(lock);
        ok = ok && setrlimit(RLIMIT_FSIZE, &(struct rlimit){16, 16}) == 0;
        ok = ok && keep_grown(dir, 1 << 30, 4000); // due, because it cannot be counted
        _exit(ok ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    int dir = open(path, O_RDONLY | O_DIRECTORY);
    unlinkat(dir, "growth", 0);
    close(dir);
    rmdir(path);
}

// ---- get or make ----

struct play { // statuses that the parts give, in order, and the parts as they are called
    enum status loads[2], lock, make, publish;
    int n_loads;
    char called[16];
};

static void note(struct play * p, const char * part) {
    strncat(p->called, part, sizeof p->called - strlen(p->called) - 1);
}

static enum status play_load(void * user, struct error * err) {
    struct play * p = user;
    (void) err;
    note(p, "l");
    return p->loads[p->n_loads++];
}

static enum status play_lock(void * user, struct error * err) {
    struct play * p = user;
    note(p, "(");
    return p->lock == ST_OK ? ST_OK : error_set(err, p->lock, "no lock");
}

static void play_unlock(void * user) {
    note(user, ")");
}

static enum status play_make(void * user, struct error * err) {
    struct play * p = user;
    note(p, "m");
    return p->make == ST_OK ? ST_OK : error_set(err, p->make, "not made");
}

static void play_put_aside(void * user) {
    note(user, "a");
}

static enum status play_publish(void * user, struct error * err) {
    struct play * p = user;
    note(p, "p");
    return p->publish == ST_OK ? ST_OK : error_set(err, p->publish, "disk full");
}

static void play_unkept(void * user, enum status st, struct error * why) {
    assert_int_equal(st, why->status);
    note(user, "u");
}

static void test_get(void ** state) {
    (void) state;
    static const struct keep_entry entry = {play_load,      play_lock,    play_unlock, play_make,
                                            play_put_aside, play_publish, play_unkept};
    const enum status none = ST_NOT_FOUND, bad = ST_CORRUPT, full = ST_IO;
    const struct {
        struct play play;
        enum status st;
        const char * called;
    } cases[] = {
        {{.loads = {ST_OK}}, ST_OK, "l"},
        {{.loads = {none, ST_OK}}, ST_OK, "l(l)"}, // whoever held the lock made it
        {{.loads = {none, none}}, ST_OK, "l(lmp)"},
        {{.loads = {bad, bad}}, ST_OK, "l(lamp)"},
        {{.loads = {bad, ST_OK}}, ST_OK, "l(l)"}, // mended meanwhile: nothing goes aside
        {{.loads = {none, none}, .publish = full}, ST_OK, "l(lmpu)"},
        {{.loads = {none, none}, .make = ST_UNSUPPORTED}, ST_UNSUPPORTED, "l(lm)"},
        {{.loads = {none}, .lock = ST_BUSY}, ST_OK, "l(m"},
        {{.loads = {none}, .lock = full}, ST_OK, "l(um"},
        {{.loads = {bad}, .lock = full, .make = ST_UNSUPPORTED}, ST_UNSUPPORTED, "l(um"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct play p = cases[i].play;
        struct error err = {0};
        assert_int_equal(keep_get(&entry, &p, &err), cases[i].st);
        assert_string_equal(p.called, cases[i].called);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(in_the_place_of_growth),
        cmocka_unit_test(file_size_limit),
        cmocka_unit_test(test_get),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
