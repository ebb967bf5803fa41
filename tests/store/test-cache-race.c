// cache between processes and threads: many that want one kernel make it once; who waits too long
// makes it for himself; a holder that is killed holds nobody up; trimming and clearing beside the
// work of others costs a recompile at most, never a wrong kernel.
#include "store/cache-rig.h"
#include "base/dir.h"
#include "store/cache.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>

enum { PROCESSES = 16, KEYS = 12 };

static void wait_for(atomic_int * count, int n) {
    while (atomic_load(count) < n) {
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
}

// Runs body in n processes that start together; none may fail.
static void in_processes(int n, bool (*body)(int index)) {
    pid_t children[PROCESSES];
    atomic_store(&shared->ready, 0);
    atomic_store(&shared->go, 0);
    fflush(NULL);
    for (int i = 0; i < n; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            atomic_fetch_add(&shared->ready, 1);
            wait_for(&shared->go, 1);
            bool ok = body(i);
            _exit(ok ? 0 : 1);
        }
    }
    wait_for(&shared->ready, n); // all have come to the gate
    atomic_store(&shared->go, 1);
    for (int i = 0; i < n; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
}

static bool get_one(int index) {
    (void) index;
    struct kernel_spec spec = make_spec(DTYPE_F32, 1024);
    struct store * s = open_store();
    bool ok = got_right(s, &spec) && n_warnings == 0;
    atomic_fetch_add(&shared->hits, (int) stats_of(s).cache_hits);
    store_free(s);
    return ok;
}

// got_right compiles once more for its comparison and takes that back, so the count is right when
// all are done.
static void test_one_key(void ** state) {
    (void) state;
    compile_ms = 50;
    in_processes(PROCESSES, get_one);
    print_message("%d processes, one kernel: %d compile, %d hits on disk\n", PROCESSES,
                  atomic_load(&shared->compiles), atomic_load(&shared->hits));
    assert_int_equal(atomic_load(&shared->compiles), 1);
    assert_int_equal(atomic_load(&shared->hits), PROCESSES - 1);
    assert_int_equal(count_entries("aie2", ".lock"), 0);
}

static bool get_many(int index) {
    struct store * s = open_store();
    bool ok = true;
    for (int i = 0; i < KEYS; i++) {
        int n = (i * 5 + index) % KEYS;
        struct kernel_spec spec = make_spec(n % 2 ? DTYPE_F32 : DTYPE_I16, 16 + n);
        ok = ok && got_right(s, &spec);
    }
    ok = ok && n_warnings == 0;
    store_free(s);
    return ok;
}

static void test_many_keys(void ** state) {
    (void) state;
    compile_ms = 3;
    in_processes(PROCESSES, get_many);
    assert_int_equal(atomic_load(&shared->compiles), KEYS);
    assert_int_equal(count_entries("aie2", ".meta"), KEYS);
    assert_int_equal(count_entries("aie2", ""), 3 * KEYS);
}

// ---- waiting ----

// The linker puts these in the place of the system's (--wrap). While the clock stands, it goes on
// only by what somebody sleeps, and nobody really does: a wait is as long as it says, on any
// machine.
static atomic_bool clock_stands;
static atomic_llong slept_ns;   // since then
static atomic_int lock_refused; // looks at a lock that another one holds

int __real_nanosleep(const struct timespec * t, struct timespec * left);
int __wrap_nanosleep(const struct timespec * t, struct timespec * left);
int __wrap_nanosleep(const struct timespec * t, struct timespec * left) {
    if (!atomic_load(&clock_stands)) {
        return __real_nanosleep(t, left);
    }
    atomic_fetch_add(&slept_ns, t->tv_sec * 1000000000ll + t->tv_nsec);
    return 0;
}

int __real_clock_gettime(clockid_t id, struct timespec * t);
int __wrap_clock_gettime(clockid_t id, struct timespec * t);
int __wrap_clock_gettime(clockid_t id, struct timespec * t) {
    if (!atomic_load(&clock_stands) || id != CLOCK_MONOTONIC) {
        return __real_clock_gettime(id, t);
    }
    long long ns = 1000000000000ll + atomic_load(&slept_ns);
    *t = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return 0;
}

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __wrap_flock(int fd, int operation) {
    int rc = __real_flock(fd, operation);
    if (rc != 0) {
        int e = errno;
        atomic_fetch_add(&lock_refused, 1);
        errno = e;
    }
    return rc;
}

static void stop_clock(void) {
    atomic_store(&slept_ns, 0);
    atomic_store(&clock_stands, true);
}

static double seconds_waited(void) {
    atomic_store(&clock_stands, false);
    return (double) atomic_load(&slept_ns) * 1e-9;
}

static int hold_lock(const struct kernel_spec * spec) {
    char path[512];
    get_once(&rig_compiler, spec); // makes the directories
    path_of(spec, ".meta", path);
    assert_int_equal(unlink(path), 0);
    path_of(spec, ".lock", path);
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    return fd;
}

static void test_bounded_wait(void ** state) {
    (void) state;
    struct kernel_spec spec = make_spec(DTYPE_F32, 9);
    int lock = hold_lock(&spec);
    atomic_store(&shared->compiles, 0);
    stop_clock();
    struct store_stats stats = get_once(&rig_compiler, &spec);
    double spent = seconds_waited();
    print_message("after %.3f s of waiting it was compiled privately\n", spent);
    assert_true(spent >= 10 && spent < 10.05);
    assert_int_equal(stats.compiles, 1);
    assert_int_equal(stats.cache_publishes, 0); // that is the other one's to do
    assert_int_equal(n_warnings, 0);
    close(lock);
    expect_compile(&spec);
    expect_hit(&spec);
}

static void test_killed_holder(void ** state) {
    (void) state;
    struct kernel_spec spec = make_spec(DTYPE_F32, 9);
    pid_t child = fork();
    if (child == 0) {
        hold_lock(&spec);
        atomic_store(&shared->go, 1);
        pause();
        _exit(0);
    }
    wait_for(&shared->go, 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    stop_clock();
    expect_compile(&spec);
    assert_true(seconds_waited() < 0.1); // a live holder would have been waited for, 10 s
    assert_int_equal(count_entries("aie2", ".lock"), 0);
}

struct waiter {
    int dir, lock;
    atomic_bool got;
};

// Until others have been refused a lock so often from now on.
static void wait_for_refusals(int n) {
    for (int end = atomic_load(&lock_refused) + n; atomic_load(&lock_refused) < end;) {
        sched_yield();
    }
}

static void * wait_for_lock(void * user) {
    struct waiter * w = user;
    atomic_store(&w->got, dir_lock(w->dir, "l", 20000, &w->lock, NULL) == ST_OK);
    return NULL;
}

// Who waits for a lock whose file was taken away and made anew waits for the new one.
static void test_lock_renewed(void ** state) {
    (void) state;
    struct waiter w = {.dir = open(rig_dir, O_RDONLY | O_DIRECTORY)};
    int first, second;
    pthread_t thread;
    assert_int_equal(dir_lock(w.dir, "l", 0, &first, NULL), ST_OK);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_lock, &w), 0);
    wait_for_refusals(1);
    assert_int_equal(unlinkat(w.dir, "l", 0), 0);
    assert_int_equal(dir_lock(w.dir, "l", 0, &second, NULL), ST_OK);
    close(first);
    wait_for_refusals(3); // one may still have been on its way
    assert_false(atomic_load(&w.got));
    dir_unlock(w.dir, "l", second);
    pthread_join(thread, NULL);
    assert_true(atomic_load(&w.got));
    dir_unlock(w.dir, "l", w.lock);
    close(w.dir);
}

static void test_lock(void ** state) {
    (void) state;
    int dir = open(rig_dir, O_RDONLY | O_DIRECTORY), a, b;
    assert_int_equal(dir_lock(dir, "l", 0, &a, NULL), ST_OK);
    struct error err = {0};
    assert_int_equal(dir_lock(dir, "l", 0, &b, &err), ST_BUSY);
    assert_int_equal(dir_lock(dir, "l", 30, &b, &err), ST_BUSY);
    dir_unlock(dir, "l", a);
    assert_int_equal(dir_lock(dir, "l", 0, &b, NULL), ST_OK);
    dir_unlock(dir, "l", b);
    assert_int_not_equal(faccessat(dir, "l", F_OK, 0), 0);
    close(dir);
}

// ---- beside each other ----

static bool churn(int index) {
    struct cache * c = NULL;
    struct cache_totals totals;
    bool ok = true;
    for (int round = 0; round < 25; round++) {
        if (index == 0) {
            ok = ok && (c || cache_open(true, &c, NULL) == ST_OK);
            enum status st = round % 2 ? cache_clear(c, &totals, NULL)
                                       : cache_trim(c, 40000, false, &totals, NULL);
            ok = ok && (st == ST_OK || st == ST_BUSY);
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        } else { // two compilers take turns at the same names
            struct store_compiler compiler = rig_compiler;
            compiler.identity = index % 2 ? "rig 1" : "rig 2";
            struct store * s = open_with(&compiler);
            for (int i = 0; i < KEYS; i++) {
                struct kernel_spec spec = make_spec(i % 2 ? DTYPE_F32 : DTYPE_I16, 16 + i);
                ok = ok && got_right(s, &spec);
            }
            atomic_fetch_add(&shared->hits, (int) stats_of(s).cache_hits);
            store_free(s);
        }
    }
    cache_close(c);
    return ok;
}

static void test_churn(void ** state) {
    (void) state;
    setenv("GGML_HSA_KERNEL_CACHE_MAX_SIZE", "100K", 1);
    in_processes(6, churn);
    print_message("%d compiles, %d hits on disk while others trimmed and cleared\n",
                  atomic_load(&shared->compiles), atomic_load(&shared->hits));
    assert_true(atomic_load(&shared->hits) > 0);
    for (int i = 0; i < KEYS; i++) { // and what is left is whole
        struct kernel_spec spec = make_spec(i % 2 ? DTYPE_F32 : DTYPE_I16, 16 + i);
        struct store_stats stats = get_once(&rig_compiler, &spec);
        assert_int_equal(stats.cache_damaged, 0);
    }
}

// ---- threads, each with a store of its own or all with one ----

struct thread {
    struct store * store;
    int index;
    bool ok;
};

static void * thread_main(void * user) {
    struct thread * t = user;
    struct store * s = t->store;
    if (!s && store_new_with(&rig_compiler, &s, NULL) != ST_OK) {
        return NULL;
    }
    t->ok = true;
    for (int i = 0; i < KEYS; i++) {
        int n = (i * 5 + t->index) % KEYS;
        struct kernel_spec spec = make_spec(n % 2 ? DTYPE_F32 : DTYPE_I16, 16 + n);
        struct store_kernel * k;
        t->ok = t->ok && store_get(s, &spec, &k, NULL) == ST_OK &&
                load_u32(&k->insts[8]) == (uint32_t) (tensor_bytes(&spec.output) + 3) / 4;
    }
    if (!t->store) {
        store_free(s);
    }
    return NULL;
}

static void test_threads(void ** state) {
    (void) state;
    for (int common = 0; common < 2; common++) {
        rig_reset(NULL);
        struct store * s = common ? open_store() : NULL;
        struct thread threads[8];
        pthread_t ids[8];
        for (int i = 0; i < 8; i++) {
            threads[i] = (struct thread){s, i, false};
            assert_int_equal(pthread_create(&ids[i], NULL, thread_main, &threads[i]), 0);
        }
        for (int i = 0; i < 8; i++) {
            pthread_join(ids[i], NULL);
            assert_true(threads[i].ok);
        }
        assert_int_equal(atomic_load(&shared->compiles), KEYS);
        store_free(s);
        assert_int_equal(count_entries("aie2", ".meta"), KEYS);
    }
}

// ---- looking on ----

static bool count_damaged(void * user, const struct cache_item * item) {
    (void) user;
    if (item->state == CACHE_DAMAGED) {
        fprintf(stderr, "%s: %s\n", item->name, item->why.text);
    }
    atomic_fetch_add(&shared->hits, item->state == CACHE_DAMAGED);
    return true;
}

// Two make and clear, and the third one reads what is there, until both have ended.
enum { LOOKED_AT = 3, MAKERS = LOOKED_AT - 1, ROUNDS = 80 };

static bool look_on(int index) {
    struct cache_totals totals;
    bool ok = true;
    for (int round = 0; index > 0 ? round < ROUNDS : atomic_load(&shared->done) < MAKERS; round++) {
        struct cache * c = NULL;
        if (index > 0) {
            ok = ok && get_many(index);
        }
        if (cache_open(false, &c, NULL) == ST_OK) {
            ok = ok && (index > 0 ? cache_clear(c, &totals, NULL)
                                  : cache_walk(c, "rig 1", true, count_damaged, NULL, &totals,
                                               NULL)) == ST_OK;
            cache_close(c);
        }
    }
    atomic_fetch_add(&shared->done, index > 0);
    return ok;
}

static void test_looking_on(void ** state) {
    (void) state;
    compile_ms = 0;
    in_processes(LOOKED_AT, look_on);
    assert_int_equal(atomic_load(&shared->hits), 0); // nothing was damaged
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_one_key, rig_reset),
        cmocka_unit_test_setup(test_many_keys, rig_reset),
        cmocka_unit_test_setup(test_lock, rig_reset),
        cmocka_unit_test_setup(test_lock_renewed, rig_reset),
        cmocka_unit_test_setup(test_killed_holder, rig_reset),
        cmocka_unit_test_setup(test_bounded_wait, rig_reset),
        cmocka_unit_test_setup(test_churn, rig_reset),
        cmocka_unit_test_setup(test_threads, rig_reset),
        cmocka_unit_test_setup(test_looking_on, rig_reset),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
