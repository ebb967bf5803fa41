// test-accel-run: commands on the played driver, with kernels that our compiler makes and results
// that are computed here: what runs, what fails and how little of it the caller is told, and
// several threads at once.
#include "accel-world.h"

#include <pthread.h>
#include <sys/wait.h>

static uint32_t run_named(const struct world * w, struct command c, const uint32_t * named,
                          uint32_t n) {
    uint64_t seq;
    assert_int_equal(rig_exec(w->f.fd, w->context, c.handle, named, n, &seq), 0);
    assert_int_equal(rig_wait(w->f.fd, w->context, seq, 0), 0); // whatever became of it
    return XDNA_COMMAND_STATE(c.words[0]);
}

static uint32_t run(const struct world * w, struct command c) {
    const uint32_t named[] = {w->insts[0], w->insts[1], w->operand[0], w->operand[1],
                              w->operand[2]};
    return run_named(w, c, named, 5);
}

static void test_runs(void ** state) {
    (void) state;
    rig_settings(NULL);
    setenv("GGML_HSA_EMU_STRICT", "1", 1);
    struct world w = world_new(false);
    assert_int_equal(run(&w, start(&w, 0, ADD)), XDNA_STATE_COMPLETED);
    assert_int_equal(wrong(&w, ADD), 0);
    const struct command parts[] = {start(&w, 0, ADD), start(&w, 1, DIV)};
    assert_int_equal(run(&w, chain(&w, parts, 2)), XDNA_STATE_COMPLETED);
    assert_int_equal(wrong(&w, DIV), 0);
    world_free(&w);

    w = world_new(true); // CU 0 is what the context was configured with, not what the caller thinks
    run(&w, start(&w, 0, ADD));
    assert_true(wrong(&w, ADD) > 0);
    assert_int_equal(run(&w, start(&w, 1, ADD)), XDNA_STATE_COMPLETED);
    assert_int_equal(wrong(&w, ADD), 0);
    world_free(&w);
    unsetenv("GGML_HSA_EMU_STRICT");
}

// ---- what fails, and shows in the state only ----

static void test_reach(void ** state) {
    (void) state;
    rig_settings(NULL);
    struct world w = world_new(false);
    double failed = rig_reported("failed");
    uint32_t named[5] = {w.insts[0], w.operand[0], w.operand[1], w.operand[2]};
    assert_int_equal(run_named(&w, start(&w, 0, ADD), named, 3),
                     XDNA_STATE_TIMEOUT); // not the result
    assert_int_equal(run_named(&w, start(&w, 0, ADD), named + 1, 3),
                     XDNA_STATE_ERROR); // nor stream
    assert_true(untouched(&w));
    assert_int_equal(run_named(&w, start(&w, 0, ADD), named, 4), XDNA_STATE_COMPLETED);
    assert_int_equal(wrong(&w, ADD), 0);
    // A buffer that is named, but not where the command says.
    munmap(w.data[1], BYTES);
    assert_int_equal(run(&w, start(&w, 0, ADD)), XDNA_STATE_TIMEOUT);
    // The array waits for ever then, and who waits for it with a limit hears of that.
    uint64_t seq;
    uint32_t stuck = start(&w, 0, ADD).handle;
    assert_int_equal(rig_exec(w.f.fd, w.context, stuck, named, 4, &seq), 0);
    assert_int_equal(rig_wait(w.f.fd, w.context, seq, 50), ETIME);
    w.data[1] = rig_map(w.f.fd, w.operand[1], BYTES);
    // A stream that would end behind its buffer, that lies elsewhere, that is nowhere.
    static const uint32_t bad[][2] = {
        {5, 2000}, {5, 0}, {3, 0x05000000}, {3, 0x12}, {3, 0x04000002}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct command c = start(&w, 0, ADD);
        c.words[1 + bad[i][0]] = bad[i][1];
        assert_int_equal(run(&w, c), XDNA_STATE_ERROR);
    }
    assert_int_equal(run(&w, start(&w, 0, ADD)), XDNA_STATE_COMPLETED);
    // A handle that is closed while the command is on its way takes nothing from it.
    struct command c = start(&w, 1, DIV);
    named[0] = w.insts[1];
    assert_int_equal(rig_exec(w.f.fd, w.context, c.handle, named, 4, &seq), 0);
    assert_int_equal(rig_close_bo(w.f.fd, w.operand[2]), 0);
    assert_int_equal(rig_close_bo(w.f.fd, c.handle), 0);
    assert_int_equal(rig_wait(w.f.fd, w.context, seq, 0), 0);
    assert_int_equal(wrong(&w, DIV), 0);
    assert_int_equal(rig_reported("failed") - failed, 9);
    world_free(&w);
}

static void test_cus(void ** state) {
    (void) state;
    rig_settings(NULL);
    struct world w = world_new(false);
    assert_int_equal(run(&w, start(&w, 2, ADD)), XDNA_STATE_ERROR); // of two
    struct command none = start(&w, 0, ADD);
    none.words[1] = 0;
    assert_int_equal(run(&w, none), XDNA_STATE_NEW);
    struct command c = start(&w, 0, ADD); // before its number is free
    assert_int_equal(rig_close_bo(w.f.fd, w.pdi[0]), 0);
    assert_int_equal(run(&w, c), XDNA_STATE_ERROR);
    assert_int_equal(rig_bo(w.f.fd, XDNA_BO_DEV, code[0].pdi_size), w.pdi[0]);
    assert_int_equal(run(&w, start(&w, 0, ADD)),
                     XDNA_STATE_ERROR); // the number is another buffer's
    assert_true(untouched(&w));
    assert_int_equal(run(&w, start(&w, 1, DIV)), XDNA_STATE_COMPLETED);
    assert_int_equal(rig_destroy(w.f.fd, w.context), 0);
    w.context = rig_context(w.f.fd); // never configured
    assert_int_equal(run(&w, start(&w, 0, ADD)), XDNA_STATE_ERROR);
    world_free(&w);
}

static void test_arguments(void ** state) {
    (void) state;
    for (int checked = 0; checked < 2; checked++) {
        rig_settings("ODD_ARGS", checked ? "1" : "0", NULL);
        struct world w = world_new(false);
        for (uint32_t words = 11; words <= 18; words++) {
            struct command c = start(&w, 0, ADD);
            c.words[0] = XDNA_COMMAND(XDNA_OP_START_CU, words + 1); // and the mask
            bool odd = checked && words % 2 && words < 15;
            assert_int_equal(run(&w, c), odd ? XDNA_STATE_ABORT : XDNA_STATE_COMPLETED);
        }
        struct command c = start(&w, 0, ADD);
        c.words[2] = 4; // not a stream
        assert_int_equal(run(&w, c), XDNA_STATE_ERROR);
        c = start(&w, 0, ADD);
        c.words[0] = XDNA_COMMAND(XDNA_OP_START_CU, 1);
        assert_int_equal(run(&w, c), XDNA_STATE_NEW);
        c = start(&w, 0, ADD);
        c.words[0] = XDNA_COMMAND(XDNA_OP_START_CU, 1024); // more than the buffer has
        assert_int_equal(run(&w, c), XDNA_STATE_NEW);
        c = start(&w, 0, ADD);
        c.words[0] = XDNA_COMMAND(20, 15); // another kind
        assert_int_equal(run(&w, c), XDNA_STATE_NEW);
        world_free(&w);
    }
}

static void test_chains(void ** state) {
    (void) state;
    static const struct {
        const char *slot, *bytes;
        uint32_t fit;
    } limits[] = {{"52", "4096", 37}, {"8", "4096", 64}, {"8", "4095", 63}};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        rig_settings("SLOT_BYTES", limits[i].slot, "CHAIN_BYTES", limits[i].bytes, NULL);
        struct world w = world_new(false);
        struct command parts[MAX_CHAIN];
        for (uint32_t k = 0; k <= limits[i].fit; k++) {
            parts[k] = start(&w, 0, ADD);
        }
        assert_int_equal(run(&w, chain(&w, parts, limits[i].fit + 1)), XDNA_STATE_NEW);
        assert_true(untouched(&w)); // nothing of it was run
        assert_int_equal(run(&w, chain(&w, parts, limits[i].fit)), XDNA_STATE_COMPLETED);
        assert_int_equal(wrong(&w, ADD), 0);
        assert_true(rig_reported("longest_chain") >= limits[i].fit);
        world_free(&w);
    }
    assert_int_equal(rig_reported("chain_bytes"), 4096); // 64 slots of 8 bytes and 14 words
}

static void test_broken_chains(void ** state) {
    (void) state;
    rig_settings(NULL);
    struct world w = world_new(false);
    struct command parts[] = {start(&w, 0, ADD), start(&w, 5, ADD), start(&w, 1, DIV)};
    struct command c = chain(&w, parts, 3);
    assert_int_equal(run(&w, c), XDNA_STATE_ERROR);
    assert_int_equal(c.words[3], 1);     // the second has no CU
    assert_int_equal(wrong(&w, ADD), 0); // the first ran, the third did not
    c = chain(&w, parts, 0);
    assert_int_equal(run(&w, c), XDNA_STATE_NEW);
    c = chain(&w, parts, 3);
    c.words[1] = 4; // more than its words
    assert_int_equal(run(&w, c), XDNA_STATE_NEW);
    c = chain(&w, parts, 3);
    c.words[0] = XDNA_COMMAND(XDNA_OP_CHAIN, 1024);
    assert_int_equal(run(&w, c), XDNA_STATE_NEW);
    c = chain(&w, parts, 3);
    c.words[9] = w.operand[0]; // no command
    assert_int_equal(run(&w, c), XDNA_STATE_NEW);
    c.words[9] = 999;
    assert_int_equal(run(&w, c), XDNA_STATE_NEW);
    // ROCr counts bytes where words are meant, which the driver takes
    c = chain(&w, parts, 1);
    c.words[0] = XDNA_COMMAND(XDNA_OP_CHAIN, 24 + 8);
    assert_int_equal(run(&w, c), XDNA_STATE_COMPLETED);
    world_free(&w);
}

static void test_time(void ** state) {
    (void) state;
    rig_settings("MHZ", "1", "WAIT_FAILED", "EIO", "FAIL", "COMMAND:4:EIO", NULL);
    struct world w = world_new(false);
    const uint32_t named[] = {w.insts[0], w.operand[0], w.operand[1], w.operand[2]};
    double timeouts = rig_reported("timeouts");
    uint64_t seq;
    // Thousands of cycles at 1 MHz are milliseconds.
    assert_int_equal(rig_exec(w.f.fd, w.context, start(&w, 0, ADD).handle, named, 4, &seq), 0);
    assert_int_equal(rig_wait(w.f.fd, w.context, seq, 1), ETIME);
    assert_int_equal(rig_wait(w.f.fd, w.context, seq, 1000), 0);
    assert_int_equal(rig_wait(w.f.fd, w.context, seq, 0), 0);
    assert_int_equal(wrong(&w, ADD), 0); // it went on
    assert_int_equal(rig_reported("timeouts") - timeouts, 1);
    assert_true(rig_reported("worst_ms") > 1);
    for (uint64_t i = 1; i < 6; i++) { // the fourth command fails, and here the wait tells
        assert_int_equal(rig_exec(w.f.fd, w.context, start(&w, 0, ADD).handle, named, 4, &seq), 0);
        assert_int_equal(seq, i);
        assert_int_equal(rig_wait(w.f.fd, w.context, seq, 0), i == 3 ? EIO : 0);
    }
    world_free(&w);

    rig_settings("WAIT_MS", "1", "MHZ", "1", NULL);
    w = world_new(false);
    const uint32_t again[] = {w.insts[0], w.operand[0], w.operand[1], w.operand[2]};
    assert_int_equal(rig_exec(w.f.fd, w.context, start(&w, 0, ADD).handle, again, 4, &seq), 0);
    assert_int_equal(rig_wait(w.f.fd, w.context, seq, 1000), ETIME);
    world_free(&w);

    rig_settings("WATCHDOG_MS", "1", "MHZ", "1", NULL);
    w = world_new(false);
    assert_int_equal(run(&w, start(&w, 0, ADD)), XDNA_STATE_TIMEOUT);
    world_free(&w);
}

static void test_npu4(void ** state) {
    (void) state;
    rig_settings("DEVICE", "npu4", NULL);
    struct rig_file f = rig_file();
    struct xdna_metadata m;
    struct xdna_get_info a = {XDNA_QUERY_METADATA, sizeof m, (uint64_t) (uintptr_t) &m};
    assert_int_equal(RIG_CALL(f.fd, XDNA_GET_INFO, &a), 0);
    assert_int_equal(m.columns, 8);
    rig_file_close(&f);
    struct world w = world_new(false);
    assert_int_equal(run(&w, start(&w, 0, ADD)), XDNA_STATE_ERROR); // no machine plays it
    assert_true(untouched(&w));
    world_free(&w);
}

// ---- several at once ----

enum { THREADS = 4, ROUNDS = 30 };

// Not an assert in a thread: cmocka may only fail in the main one.
static void * compute(void * data) {
    const struct world * w = data;
    const uint32_t named[] = {w->insts[0], w->operand[0], w->operand[1], w->operand[2]};
    intptr_t bad = 0;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t command;
        uint64_t seq;
        bad += rig_create(w->f.fd, XDNA_BO_CMD, 4096, &command) != 0;
        struct xdna_get_bo_info info = {.handle = command};
        bad += RIG_CALL(w->f.fd, XDNA_GET_BO_INFO, &info) != 0;
        uint32_t * words =
            mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, w->f.fd, (off_t) info.map_offset);
        if (words == MAP_FAILED) {
            return (void *) -1;
        }
        words[0] = XDNA_COMMAND(XDNA_OP_START_CU, 15);
        words[1] = 1;
        words[2] = XDNA_KERNEL_STREAM;
        struct xdna_get_bo_info insts = {.handle = w->insts[0]};
        bad += RIG_CALL(w->f.fd, XDNA_GET_BO_INFO, &insts) != 0;
        words[4] = (uint32_t) insts.xdna_addr;
        words[6] = (uint32_t) code[0].n_insts;
        for (int k = 0; k < 3; k++) {
            uint64_t address = (uint64_t) (uintptr_t) w->data[k];
            words[7 + 2 * k] = (uint32_t) address;
            words[8 + 2 * k] = (uint32_t) (address >> 32);
        }
        bad += rig_exec(w->f.fd, w->context, command, named, 4, &seq) != 0;
        bad += rig_wait(w->f.fd, w->context, seq, 0) != 0;
        bad += XDNA_COMMAND_STATE(__atomic_load_n(words, __ATOMIC_ACQUIRE)) != XDNA_STATE_COMPLETED;
        munmap(words, 4096);
        bad += rig_close_bo(w->f.fd, command) != 0;
    }
    return (void *) bad;
}

static void test_threads(void ** state) {
    (void) state;
    rig_settings(NULL);
    double commands = rig_reported("commands");
    struct world w[2] = {world_new(false), world_new(false)};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) { // two in each file
        assert_int_equal(pthread_create(&threads[i], NULL, compute, &w[i % 2]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void * bad;
        pthread_join(threads[i], &bad);
        assert_ptr_equal(bad, NULL);
    }
    assert_int_equal(rig_reported("commands") - commands, THREADS * ROUNDS);
    assert_int_equal(wrong(&w[0], ADD) + wrong(&w[1], ADD), 0);
    world_free(&w[0]);
    world_free(&w[1]);
}

// Programs fork at any time, and their children close what they do not want.
static void test_forks(void ** state) {
    (void) state;
    rig_settings(NULL);
    struct world w = world_new(false);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, compute, &w), 0);
    }
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            uint32_t handle;
            int error = rig_create(w.f.fd, XDNA_BO_SHARE, 4096, &handle);
            _exit(error == ENOTTY && close(w.f.fd) == 0 ? 0 : 1);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    for (int i = 0; i < 2; i++) {
        void * bad;
        pthread_join(threads[i], &bad);
        assert_ptr_equal(bad, NULL);
    }
    world_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),    cmocka_unit_test(test_reach),
        cmocka_unit_test(test_cus),     cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_chains),  cmocka_unit_test(test_broken_chains),
        cmocka_unit_test(test_time),    cmocka_unit_test(test_npu4),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_forks),
    };
    return cmocka_run_group_tests(tests, compile, discard);
}
