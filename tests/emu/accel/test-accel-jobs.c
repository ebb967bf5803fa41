// test-accel-jobs: commands on Linux's driver as it is played, with kernels that our compiler
// makes: what runs, how the program learns of it, and what is left of what failed.
#include "accel-world.h"

#include <sys/eventfd.h>
#include <time.h>

static int64_t in_ms(int64_t ms) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec + ms * 1000000;
}

static uint64_t send(const struct world * w, struct command c) {
    const uint32_t named[] = {w->insts[0], w->insts[1], w->operand[0], w->operand[1],
                              w->operand[2]};
    uint64_t seq = 99;
    assert_int_equal(rig_exec(w->f.fd, w->context, c.handle, named, 5, &seq), 0);
    return seq;
}

static uint32_t run(const struct world * w, struct command c) {
    assert_int_equal(rig_wait_point(w->f.fd, w->syncobj, send(w, c), INT64_MAX), 0);
    return XDNA_COMMAND_STATE(c.words[0]);
}

static void test_runs(void ** state) {
    (void) state;
    static const char * const kernels[] = {"6.14", "6.18", "7.0", "7.2"};
    for (int k = 0; k < 4; k++) {
        rig_settings("KERNEL", kernels[k], NULL);
        struct world w = world_new(false);
        struct command c = start(&w, 0, ADD);
        assert_int_equal(run(&w, c), XDNA_STATE_COMPLETED);
        assert_int_equal(wrong(&w, ADD), 0);
        const struct command parts[] = {c, start(&w, 1, DIV)};
        assert_int_equal(run(&w, chain(&w, parts, 2)), XDNA_STATE_COMPLETED);
        assert_int_equal(wrong(&w, DIV), 0);
        assert_int_equal(rig_wait_point(w.f.fd, w.syncobj, 5, in_ms(1)), EINVAL); // nobody sent it
        assert_int_equal(rig_wait_point(w.f.fd, 77, 0, 0), ENOENT);
        world_free(&w);
    }
}

// ---- waiting ----

// Some things show only while a command is on its way, and a machine with much to do may be slower
// than that: they are tried again.
enum { TRIES = 40 };

// The same call in two sizes: kernels before 6.8 have no deadline in it.
static void test_waits(void ** state) {
    (void) state;
    rig_settings("MHZ", "1", "LATE_US", "5000", NULL); // thousands of cycles are milliseconds
    struct world w = world_new(false);
    double timeouts = rig_reported("timeouts");
    uint64_t point = 0;
    struct command c = start(&w, 0, ADD);
    int late = 0;
    for (int i = 0; i < TRIES && !late; i++) { // it takes longer than a millisecond, modelled
        point = send(&w, c);
        assert_int_equal(point, i);
        int error = rig_wait_point(w.f.fd, w.syncobj, point, in_ms(1));
        late = error == ETIME && rig_reported("timeouts") == timeouts + 1;
        assert_int_equal(rig_wait_point(w.f.fd, w.syncobj, point, INT64_MAX), 0); // it went on
    }
    assert_true(late);
    assert_int_equal(rig_wait_point(w.f.fd, w.syncobj, point, 0), 0);
    assert_int_equal(wrong(&w, ADD), 0);
    int event = eventfd(0, EFD_NONBLOCK);
    struct xdna_syncobj_eventfd notice = {.handle = w.syncobj, .point = ++point, .fd = event};
    assert_int_equal(RIG_CALL(w.f.fd, XDNA_SYNCOBJ_EVENTFD, &notice), 0); // not submitted yet
    eventfd_t count;
    assert_int_equal(eventfd_read(event, &count), -1);
    assert_int_equal(send(&w, start(&w, 1, DIV)), point);
    struct xdna_timeline_wait a = {(uint64_t) (uintptr_t) &w.syncobj,
                                   (uint64_t) (uintptr_t) &point,
                                   in_ms(100000),
                                   1,
                                   1,
                                   9,
                                   0,
                                   0};
    assert_int_equal(rig_call(w.f.fd, XDNA_SYNCOBJ_TIMELINE_WAIT, 40, &a), 0);
    assert_int_equal(a.first_signaled, 0);
    assert_int_equal(rig_call(w.f.fd, XDNA_SYNCOBJ_TIMELINE_WAIT, 48, &a), 0);
    assert_int_equal(eventfd_read(event, &count), 0);
    assert_int_equal(count, 1);
    uint64_t points = 9;
    struct xdna_timeline_query q = {(uint64_t) (uintptr_t) &w.syncobj,
                                    (uint64_t) (uintptr_t) &points, 1, 0};
    assert_int_equal(RIG_CALL(w.f.fd, XDNA_SYNCOBJ_QUERY, &q), 0);
    assert_int_equal(points, point);
    // Who was told once is not told again; a point that has come is told at once.
    assert_int_equal(RIG_CALL(w.f.fd, XDNA_SYNCOBJ_EVENTFD, &notice), 0);
    assert_int_equal(eventfd_read(event, &count), 0);
    close(event);
    // The context goes, the timeline stays.
    assert_int_equal(rig_destroy(w.f.fd, w.context), 0);
    assert_int_equal(rig_wait_point(w.f.fd, w.syncobj, point, 0), 0);
    world_free(&w);
}

// Point 0 is the newest: who waits for the first command waits for all.
static void test_newest(void ** state) {
    (void) state;
    rig_settings("LATE_US", "5000", NULL);
    struct world w = world_new(false);
    struct command c[] = {start(&w, 0, ADD), start(&w, 0, ADD), start(&w, 0, ADD)};
    int waited = 0;
    for (int i = 0; i < TRIES && !waited; i++) {
        uint64_t last = 0;
        for (int k = 0; k < 3; k++) {
            last = send(&w, c[k]);
        }
        waited = rig_wait_point(w.f.fd, w.syncobj, 0, 0) == ETIME;
        assert_int_equal(rig_wait_point(w.f.fd, w.syncobj, 0, INT64_MAX), 0);
        assert_int_equal(rig_wait_point(w.f.fd, w.syncobj, last, 0), 0);
    }
    assert_true(waited);
    world_free(&w);
}

static uint64_t newest_ended(const struct world * w) {
    uint64_t point = 0;
    struct xdna_timeline_query q = {(uint64_t) (uintptr_t) &w->syncobj,
                                    (uint64_t) (uintptr_t) &point, 1, 0};
    assert_int_equal(RIG_CALL(w->f.fd, XDNA_SYNCOBJ_QUERY, &q), 0);
    return point;
}

// Four are in flight; the fifth EXEC_CMD sleeps until the first of them ended.
static void test_four(void ** state) {
    (void) state;
    rig_settings("LATE_US", "20000", NULL);
    struct world w = world_new(false);
    struct command c = start(&w, 0, ADD);
    int four = 0;
    for (int i = 0; i < TRIES && !four; i++) {
        assert_int_equal(run(&w, c), XDNA_STATE_COMPLETED);
        uint64_t before = newest_ended(&w);
        for (int k = 0; k < 4; k++) {
            send(&w, c);
        }
        four = newest_ended(&w) == before;
        send(&w, c);
        assert_true(newest_ended(&w) > before);
        assert_int_equal(rig_wait_point(w.f.fd, w.syncobj, 0, INT64_MAX), 0);
    }
    assert_true(four);
    world_free(&w);
}

// ---- states ----

// Until the scheduler comes the word says what the last run left.
static void test_stale(void ** state) {
    (void) state;
    rig_settings("LATE_US", "5000", NULL);
    struct world w = world_new(false);
    struct command c = start(&w, 0, ADD);
    assert_int_equal(run(&w, c), XDNA_STATE_COMPLETED);
    int stale = 0;
    for (int i = 0; i < TRIES && !stale; i++) {
        memset(w.data[2], 0, BYTES);
        uint64_t seq = send(&w, c);
        uint32_t word = __atomic_load_n(c.words, __ATOMIC_ACQUIRE);
        stale = XDNA_COMMAND_STATE(word) == XDNA_STATE_COMPLETED && w.data[2][1] == 0;
        assert_int_equal(rig_wait_point(w.f.fd, w.syncobj, seq, INT64_MAX), 0);
        assert_int_equal(wrong(&w, ADD), 0);
    }
    assert_true(stale);
    c.words[0] = (XDNA_COMMAND(XDNA_OP_CHAIN, 1) & ~0xfu) | XDNA_STATE_COMPLETED; // malformed
    assert_int_equal(run(&w, c), XDNA_STATE_NEW);                                 // stale no more
    world_free(&w);
}

static void test_dropped(void ** state) {
    (void) state;
    rig_settings("DEVICE", "npu1", NULL);
    struct world w = world_new(false);
    struct command parts[] = {start(&w, 0, ADD), start(&w, 0, ADD)};
    struct command c = chain(&w, parts, 2);
    parts[1].words[0] = XDNA_COMMAND(XDNA_OP_START_NPU, 15);
    assert_int_equal(run(&w, c), XDNA_STATE_NEW); // mixed
    assert_int_equal(c.words[3], 99);             // and not a word more
    parts[1].words[0] = XDNA_COMMAND(XDNA_OP_START_NPU_PREEMPT, 15);
    assert_int_equal(run(&w, parts[1]), XDNA_STATE_NEW); // aie2 does not have it
    c.words[9] = 999;
    assert_int_equal(run(&w, c), XDNA_STATE_NEW);
    assert_true(untouched(&w));
    // A single command goes through the 4 KiB too: 52 bytes and 4 for each argument.
    struct command big = command_new(w.f.fd, 8192);
    memcpy(big.words, start(&w, 0, ADD).words, 64);
    big.words[0] = XDNA_COMMAND(XDNA_OP_START_CU, 1 + 1012);
    assert_int_equal(run(&w, big), XDNA_STATE_NEW);
    big.words[0] = XDNA_COMMAND(XDNA_OP_START_CU, 1 + 1011);
    assert_int_equal(run(&w, big), XDNA_STATE_COMPLETED);
    assert_int_equal(wrong(&w, ADD), 0);
    world_free(&w);
}

// Every byte behind the header, from `at` on.
static bool overwritten(const struct command * c, size_t at) {
    bool all = true;
    for (size_t i = at; i < 4096; i++) {
        all &= ((const uint8_t *) c->words)[i] == 0xff;
    }
    return all;
}

static void test_failed(void ** state) {
    (void) state;
    static const struct {
        const char *kernel, *device, *fault;
        uint32_t state;
        bool overwritten, health;
    } rows[] = {
        {"6.18", "npu1", "COMMAND:2:EIO", XDNA_STATE_ERROR, false, false},
        {"7.0", "npu1", "COMMAND:2:EIO", XDNA_STATE_ERROR, true, false},
        {"7.2", "npu1", "COMMAND:2:EIO", XDNA_STATE_ERROR, true, false},
        {"7.2", "npu1", "COMMAND:2:ECANCELED", XDNA_STATE_ABORT, true, false},
        {"7.2", "npu1", "COMMAND:2:ETIME", XDNA_STATE_TIMEOUT, true, false},
        {"7.2", "npu4", "COMMAND:1:ETIME", XDNA_STATE_TIMEOUT, true, true},
        {"7.0", "npu4", "COMMAND:1:ETIME", XDNA_STATE_TIMEOUT, true, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        rig_settings("KERNEL", rows[i].kernel, "DEVICE", rows[i].device, "FAIL", rows[i].fault,
                     NULL);
        struct world w = world_new(false);
        struct command parts[] = {start(&w, 0, ADD), start(&w, 0, ADD)};
        struct command c = chain(&w, parts, 2);
        uint32_t header = parts[0].words[0];
        assert_int_equal(run(&w, c), rows[i].state);
        assert_int_equal(c.words[3], rows[i].health || i == 6 ? 0 : 1); // which of them
        assert_int_equal(parts[0].words[0], header);
        assert_int_equal(overwritten(&parts[0], rows[i].health ? 36 : 4), rows[i].overwritten);
        assert_int_equal(parts[0].words[1] == 1 && parts[0].words[2] == 0,
                         rows[i].health); // version, app
        assert_false(overwritten(&parts[1], 4));
        struct xdna_last_error last = {0};
        struct xdna_get_array a = {XDNA_ARRAY_LAST_ERROR, sizeof last, 1, 0,
                                   (uint64_t) (uintptr_t) &last};
        assert_int_equal(RIG_CALL(w.f.fd, XDNA_GET_ARRAY, &a), 0);
        assert_true(last.code != 0 && last.time_us != 0);
        world_free(&w);
    }
    // A command by itself, and one that a closed handle's PDI runs.
    rig_settings("FAIL", "COMMAND:1:EIO", NULL);
    struct world w = world_new(false);
    struct command c = start(&w, 0, ADD);
    assert_int_equal(run(&w, c), XDNA_STATE_ERROR);
    assert_true(overwritten(&c, 4));
    c = start(&w, 0, ADD);
    assert_int_equal(rig_close_bo(w.f.fd, w.pdi[0]), 0);
    assert_int_equal(run(&w, c), XDNA_STATE_COMPLETED);
    assert_int_equal(wrong(&w, ADD), 0);
    world_free(&w);
}

// What the array never ends shows where it stands.
static void test_stuck(void ** state) {
    (void) state;
    world_arch = AIE_ARCH_AIE2P;
    assert_int_equal(discard(NULL), 0);
    assert_int_equal(compile(NULL), 0);
    rig_settings("DEVICE", "npu4", NULL);
    struct world w = world_new(false);
    assert_int_equal(run(&w, start(&w, 0, ADD)), XDNA_STATE_COMPLETED);
    assert_int_equal(wrong(&w, ADD), 0);
    munmap(w.data[1], BYTES);
    struct command c = start(&w, 0, ADD);
    assert_int_equal(run(&w, c), XDNA_STATE_TIMEOUT);
    struct xdna_health health;
    memcpy(&health, c.words + 1, sizeof health);
    assert_int_equal(health.version, 1);
    assert_true(health.operation > 0);
    assert_true(overwritten(&c, 36));
    w.data[1] = rig_map(w.f.fd, w.operand[1], BYTES);
    world_free(&w);
    // Its context is made anew, and what else was on its way is lost.
    int lost = 0;
    for (int i = 0; i < TRIES && !lost; i++) {
        rig_settings("DEVICE", "npu4", "LATE_US", "5000", "FAIL", "COMMAND:1:ETIME", NULL);
        w = world_new(false);
        struct command three[] = {start(&w, 0, ADD), start(&w, 0, ADD), start(&w, 0, ADD)};
        uint64_t seq = 0;
        for (int k = 0; k < 3; k++) {
            seq = send(&w, three[k]);
        }
        assert_int_equal(rig_wait_point(w.f.fd, w.syncobj, seq, INT64_MAX), 0);
        assert_int_equal(XDNA_COMMAND_STATE(three[0].words[0]), XDNA_STATE_TIMEOUT);
        lost = XDNA_COMMAND_STATE(three[1].words[0]) == XDNA_STATE_ABORT &&
               XDNA_COMMAND_STATE(three[2].words[0]) == XDNA_STATE_ABORT &&
               overwritten(&three[2], 4);
        assert_int_equal(run(&w, start(&w, 0, ADD)), XDNA_STATE_COMPLETED);
        world_free(&w);
    }
    assert_true(lost);
    world_arch = AIE_ARCH_AIE2;
    assert_int_equal(discard(NULL), 0);
    assert_int_equal(compile(NULL), 0);
}

// Without a watchdog it stays so, until its context goes; others of the process wait behind it.
static void test_no_watchdog(void ** state) {
    (void) state;
    rig_settings("KERNEL", "6.14", NULL);
    struct world w = world_new(false);
    munmap(w.data[1], BYTES);
    struct command c = start(&w, 0, ADD), behind = start(&w, 0, ADD);
    c.words[0] = (c.words[0] & ~0xfu) | XDNA_STATE_COMPLETED; // of an earlier run
    uint64_t seq = send(&w, c), next = send(&w, behind);
    int64_t begin = in_ms(0);
    assert_int_equal(rig_wait_point(w.f.fd, w.syncobj, seq, in_ms(50)), ETIME);
    assert_int_equal(rig_wait_point(w.f.fd, w.syncobj, next, in_ms(50)), ETIME);
    assert_true(in_ms(0) - begin >= 90000000);
    for (int i = 0; i < 500 && XDNA_COMMAND_STATE(load_u32(c.words)) != XDNA_STATE_NEW; i++) {
        usleep(10000);
    }
    assert_int_equal(XDNA_COMMAND_STATE(c.words[0]), XDNA_STATE_NEW);
    assert_int_equal(rig_destroy(w.f.fd, w.context), 0);
    assert_int_equal(XDNA_COMMAND_STATE(c.words[0]), XDNA_STATE_ABORT);
    assert_int_equal(XDNA_COMMAND_STATE(behind.words[0]), XDNA_STATE_ABORT);
    assert_int_equal(rig_wait_point(w.f.fd, w.syncobj, seq, 0), 0);
    w.data[1] = rig_map(w.f.fd, w.operand[1], BYTES);
    world_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_newest),      cmocka_unit_test(test_four),
        cmocka_unit_test(test_stale),       cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_failed),      cmocka_unit_test(test_stuck),
        cmocka_unit_test(test_no_watchdog),
    };
    return cmocka_run_group_tests(tests, compile, discard);
}
