// test-accel-array: what lies outside of a command: the CPU's caches, an array that forgets, and
// other processes on the same device.
#include "accel-world.h"

#include "amdxdna/flush.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static uint32_t run_stream(const struct world * w, uint32_t context, uint32_t syncobj,
                           struct command c, uint32_t insts) {
    const uint32_t named[] = {insts, w->operand[0], w->operand[1], w->operand[2]};
    uint64_t seq;
    assert_int_equal(rig_exec(w->f.fd, context, c.handle, named, 4, &seq), 0);
    assert_int_equal(rig_wait_point(w->f.fd, syncobj, seq, INT64_MAX), 0);
    return XDNA_COMMAND_STATE(c.words[0]);
}

static uint32_t run(const struct world * w, int k) {
    return run_stream(w, w->context, w->syncobj, start(w, k, k), w->insts[k]);
}

// ---- caches ----

static void flush_piece(const struct world * w, uint32_t handle, size_t size) {
    amdxdna_flush((void *) (uintptr_t) rig_info(w->f.fd, handle).vaddr, size);
}

static void flush_code(const struct world * w) {
    for (int i = 0; i < 2; i++) {
        flush_piece(w, w->pdi[i], code[i].pdi_size);
        flush_piece(w, w->insts[i], 4 * code[i].n_insts);
    }
}

// The device sees memory: what was not flushed is not there.
static void test_flushes(void ** state) {
    (void) state;
    static const char * const seeds[] = {"1", "7", "1234"};
    int evicted = 0;
    for (int i = 0; i < 3; i++) {
        rig_settings("CACHES", "1", "SEED", seeds[i], NULL);
        struct world w = world_new(false);
        assert_int_not_equal(run(&w, ADD), XDNA_STATE_COMPLETED); // neither PDI nor stream
        flush_code(&w);
        for (int k = 0; k < 3; k++) {
            amdxdna_flush(w.data[k], BYTES);
        }
        assert_int_equal(run(&w, ADD), XDNA_STATE_COMPLETED);
        assert_true(untouched(&w)); // the CPU has the lines still
        amdxdna_flush(w.data[2], BYTES / 2);
        assert_int_equal(w.data[2][0], 1);
        assert_int_equal(w.data[2][ELEMENTS / 2], -1); // and of these too
        amdxdna_flush(w.data[2], BYTES);
        assert_int_equal(wrong(&w, ADD), 0);
        // An input that the CPU wrote anew: as it was, but for the lines that went by themselves.
        for (int k = 0; k < ELEMENTS; k++) {
            w.data[0][k] = 5000;
        }
        assert_int_equal(run(&w, ADD), XDNA_STATE_COMPLETED);
        amdxdna_flush(w.data[2], BYTES);
        int fresh = 0;
        for (int k = 0; k < ELEMENTS; k++) {
            fresh += w.data[2][k] >= 5000;
        }
        assert_true(fresh < ELEMENTS);
        assert_int_equal(fresh % 16, 0); // lines go whole
        evicted += fresh;
        // The kernel does the same by its own call.
        struct xdna_sync_bo sync = {.handle = w.operand[0], .size = BYTES};
        assert_int_equal(RIG_CALL(w.f.fd, XDNA_SYNC_BO, &sync), 0);
        assert_int_equal(run(&w, ADD), XDNA_STATE_COMPLETED);
        sync.handle = w.operand[2];
        sync.direction = XDNA_SYNC_FROM_DEVICE;
        assert_int_equal(RIG_CALL(w.f.fd, XDNA_SYNC_BO, &sync), EINVAL); // and has flushed
        assert_int_equal(w.data[2][3], 5000 + 4);
        assert_true(rig_reported("flushed_bytes") > 0);
        world_free(&w);
    }
    assert_true(evicted > 0);
}

// A buffer that nobody flushed since it was made: its lines go back to memory at some moment, over
// what the device has written.
static void test_fresh(void ** state) {
    (void) state;
    int lost = 0;
    for (int round = 0; round < 8; round++) {
        char seed[16];
        snprintf(seed, sizeof seed, "%d", round);
        rig_settings("CACHES", "1", "SEED", seed, NULL);
        struct world w = world_new(false);
        flush_code(&w);
        amdxdna_flush(w.data[0], BYTES);
        amdxdna_flush(w.data[1], BYTES);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(run(&w, ADD), XDNA_STATE_COMPLETED);
        }
        amdxdna_flush(w.data[2], BYTES);
        lost += wrong(&w, ADD) > 0;
        world_free(&w);
    }
    assert_int_equal(lost, 8);
}

static void test_no_caches(void ** state) {
    (void) state;
    rig_settings("CACHES", "1", "KERNEL", "legacy", NULL);
    struct world w = world_new(false);
    uint64_t seq;
    const uint32_t named[] = {w.insts[0], w.operand[0], w.operand[1], w.operand[2]};
    assert_int_equal(rig_exec(w.f.fd, w.context, start(&w, 0, ADD).handle, named, 4, &seq), 0);
    assert_int_equal(rig_wait(w.f.fd, w.context, seq, 0), 0);
    assert_int_equal(wrong(&w, ADD), 0); // off, and nothing was flushed
    world_free(&w);
}

// ---- an array that forgets ----

enum { OP_WRITE = 0, OP_BLOCK = 1, OP_MASK = 3, OP_SYNC = 0x80, HEADER = 4 };

// The stream without what it writes to the shim's descriptors: it wants them as an earlier one left
// them.
static size_t careless(int k, uint32_t * out) {
    const uint32_t * insts = code[k].insts;
    size_t n = HEADER;
    memcpy(out, insts, 4 * HEADER);
    for (size_t at = HEADER; at < code[k].n_insts;) {
        uint32_t op = insts[at];
        size_t words = op == OP_WRITE   ? 6
                       : op == OP_BLOCK ? insts[at + 3] / 4
                       : op == OP_MASK  ? 7
                       : op == OP_SYNC  ? 4
                                        : 12;
        bool descriptor = op == OP_BLOCK && (insts[at + 2] & 0x1ffffff) >> 9 == 0x1d000 >> 9;
        if (descriptor) {
            out[2]--;
        } else {
            memcpy(out + n, insts + at, 4 * words);
            n += words;
        }
        at += words;
    }
    out[3] = 4 * (uint32_t) n;
    return n;
}

struct careless {
    uint32_t insts;
    size_t words;
};

static uint32_t run_careless(const struct world * w, const struct careless * s) {
    struct command c = start(w, ADD, ADD);
    c.words[4] = (uint32_t) rig_info(w->f.fd, s->insts).xdna_addr;
    c.words[6] = (uint32_t) s->words;
    return run_stream(w, w->context, w->syncobj, c, s->insts);
}

static void test_forgets(void ** state) {
    (void) state;
    uint32_t stream[4096];
    size_t words = careless(ADD, stream);
    assert_true(words < code[ADD].n_insts);
    rig_settings("IDLE_MS", "100", NULL);
    struct world w = world_new(false);
    struct careless s = {upload(&w.f, stream, 4 * words), words};
    assert_int_not_equal(run_careless(&w, &s), XDNA_STATE_COMPLETED);
    bool well = false;
    for (int i = 0; i < 40 && !well; i++) { // it may go well for long, but for a slow machine
        assert_int_equal(run(&w, ADD), XDNA_STATE_COMPLETED);
        well = run_careless(&w, &s) == XDNA_STATE_COMPLETED;
    }
    assert_true(well);
    usleep(120000);
    double cleared = rig_reported("cleared");
    assert_int_not_equal(run_careless(&w, &s), XDNA_STATE_COMPLETED);
    assert_int_equal(rig_reported("cleared"), cleared + 1);
    assert_int_equal(run(&w, ADD), XDNA_STATE_COMPLETED);
    // And another context with the same columns.
    uint32_t other, syncobj;
    assert_int_equal(rig_create_timed(w.f.fd, RIG_TILES, &other, &syncobj), 0);
    assert_int_equal(rig_configure(w.f.fd, other, w.pdi, 2), 0);
    assert_int_equal(run_stream(&w, other, syncobj, start(&w, ADD, ADD), w.insts[ADD]),
                     XDNA_STATE_COMPLETED);
    assert_int_not_equal(run_careless(&w, &s), XDNA_STATE_COMPLETED);
    assert_int_equal(run(&w, ADD), XDNA_STATE_COMPLETED);
    assert_int_equal(wrong(&w, ADD), 0);
    world_free(&w);

    rig_settings("IDLE_MS", "0", NULL); // after every command
    w = world_new(false);
    s.insts = upload(&w.f, stream, 4 * words);
    assert_int_equal(run(&w, ADD), XDNA_STATE_COMPLETED);
    assert_int_not_equal(run_careless(&w, &s), XDNA_STATE_COMPLETED);
    assert_int_equal(run(&w, DIV), XDNA_STATE_COMPLETED);
    world_free(&w);

    rig_settings("DEVICE", "npu1", NULL); // contexts beside each other do not meet
    w = world_new(false);
    s.insts = upload(&w.f, stream, 4 * words);
    assert_int_equal(rig_create_timed(w.f.fd, RIG_TILES, &other, &syncobj), 0);
    assert_int_equal(run(&w, ADD), XDNA_STATE_COMPLETED);
    assert_int_equal(run_careless(&w, &s), XDNA_STATE_COMPLETED);
    world_free(&w);
}

// ---- other processes ----

// What a child does: with n > 0 it has so many contexts, says so, and waits to be ended; with n = 0
// it runs commands and says how they went; with n < 0 it goes on with long ones.
static void be_child(int n, int out) {
    uint32_t x = 1;
    setenv("ACCEL_EMU_REPORT", "", 1);
    if (n > 0) {
        struct rig_file f = rig_file();
        for (int i = 0; i < n; i++) {
            x = rig_context(f.fd);
        }
        (void) !write(out, &x, sizeof x);
        pause();
    }
    struct world w = world_new(false);
    struct command parts[37], c;
    for (int i = 0; i < 37; i++) {
        parts[i] = start(&w, ADD, ADD);
    }
    c = chain(&w, parts, n < 0 ? 37 : 1);
    for (int i = 0; i < (n < 0 ? 10000 : 20); i++) {
        x &= run_stream(&w, w.context, w.syncobj, c, w.insts[ADD]) == XDNA_STATE_COMPLETED;
        x &= wrong(&w, ADD) == 0;
        if (i == 0 && n < 0) { // from here on nearly all of the time is its turn
            (void) !write(out, &x, sizeof x);
        }
    }
    (void) !write(out, &x, sizeof x);
}

// A program of its own, or a fork of this one.
static pid_t child_with(int n, bool fresh, int * ready) {
    int ends[2];
    char number[16], out[16];
    assert_int_equal(pipe(ends), 0);
    snprintf(number, sizeof number, "%d", n);
    snprintf(out, sizeof out, "%d", ends[1]);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        if (fresh) {
            execl("/proc/self/exe", "test-accel-array", number, out, (char *) NULL);
        } else {
            be_child(n, ends[1]);
        }
        _exit(1);
    }
    close(ends[1]);
    *ready = ends[0];
    return child;
}

static uint32_t answer(int fd) {
    uint32_t x = 0;
    assert_int_equal(read(fd, &x, sizeof x), sizeof x);
    close(fd);
    return x;
}

static void test_processes(void ** state) {
    (void) state;
    char dir[] = "/tmp/test-accel-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/device", dir);
    rig_settings("SHARED", path, NULL);
    int ready;
    pid_t child = child_with(5, true, &ready);
    uint32_t theirs = answer(ready), x, y;
    struct rig_file f = rig_file();
    assert_int_equal(rig_create_context(f.fd, RIG_TILES, &x), 0);
    assert_int_equal(x, theirs + 1);
    assert_int_equal(rig_create_context(f.fd, RIG_TILES, &y), EINVAL); // six of all
    struct xdna_context_entry list[8];
    struct xdna_get_array a = {XDNA_ARRAY_CONTEXTS, sizeof list[0], 8, 0,
                               (uint64_t) (uintptr_t) list};
    assert_int_equal(RIG_CALL(f.fd, XDNA_GET_ARRAY, &a), 0);
    assert_int_equal(a.elements, 6);
    assert_int_equal(list[0].pid, child);
    kill(child, SIGKILL); // and what it had is free
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(rig_create_context(f.fd, RIG_TILES, &y), 0);
    assert_int_equal(RIG_CALL(f.fd, XDNA_GET_ARRAY, &a), 0);
    assert_int_equal(a.elements, 2);
    rig_file_close(&f);

    // Two that take turns, each with an array of its own then.
    struct world w = world_new(false);
    assert_int_equal(run(&w, ADD), XDNA_STATE_COMPLETED);
    double cleared = rig_reported("cleared");
    child = child_with(0, true, &ready);
    bool ok = true;
    for (int i = 0; i < 20; i++) {
        ok &= run(&w, ADD) == XDNA_STATE_COMPLETED && wrong(&w, ADD) == 0;
    }
    assert_int_equal(answer(ready), 1);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(ok);
    assert_int_equal(run(&w, ADD), XDNA_STATE_COMPLETED);
    assert_true(rig_reported("cleared") > cleared);
    // A process that dies amid its turn leaves the device to others.
    for (int i = 0; i < 3; i++) {
        child = child_with(-1, true, &ready);
        assert_int_equal(answer(ready), 1);
        usleep(3000);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        assert_int_equal(run(&w, ADD), XDNA_STATE_COMPLETED);
    }
    world_free(&w);

    rig_settings("SHARED", path, "DEVICE", "npu4", NULL); // that file is of another device
    assert_int_equal(open(RIG_DEVICE, O_RDWR), -1);
    rig_settings("SHARED", path, NULL);
    assert_int_equal(chmod(path, 0644), 0); // others may map it
    assert_int_equal(open(RIG_DEVICE, O_RDWR), -1);
    assert_int_equal(errno, EACCES);
    assert_int_equal(unlink(path), 0);
    char other[64];
    snprintf(other, sizeof other, "%s/other", dir);
    close(open(other, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    assert_int_equal(symlink(other, path), 0); // to a place that somebody else chose
    assert_int_equal(open(RIG_DEVICE, O_RDWR), -1);
    assert_int_equal(unlink(path) + unlink(other), 0);
    FILE * file = fopen(path, "we");
    fputs("text", file);
    fclose(file);
    chmod(path, 0600);
    assert_int_equal(open(RIG_DEVICE, O_RDWR), -1);
    assert_int_equal(unlink(path), 0);
    unsetenv("XDG_RUNTIME_DIR");
    rig_settings("SHARED", "name", NULL);
    assert_int_equal(open(RIG_DEVICE, O_RDWR), -1);
    setenv("XDG_RUNTIME_DIR", dir, 1);
    close(rig_open_plain());
    snprintf(path, sizeof path, "%s/ggml-hsa-accel-name", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    rig_settings(NULL);
}

// A fork has none of its parent's threads, and opens the device for itself.
static void test_fork(void ** state) {
    (void) state;
#if defined(__SANITIZE_THREAD__)
    skip_test("the thread sanitizer lets no fork begin threads");
#endif
    rig_settings(NULL);
    struct world w = world_new(false);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(run(&w, ADD), XDNA_STATE_COMPLETED);
        int ready;
        pid_t child = child_with(0, false, &ready);
        assert_int_equal(answer(ready), 1);
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
    world_free(&w);
}

int main(int argc, char ** argv) {
    if (argc == 3) {
        if (compile(NULL) != 0) {
            return 1;
        }
        be_child(atoi(argv[1]), atoi(argv[2]));
        return discard(NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flushes),   cmocka_unit_test(test_fresh),
        cmocka_unit_test(test_no_caches), cmocka_unit_test(test_forgets),
        cmocka_unit_test(test_processes), cmocka_unit_test(test_fork),
    };
    return cmocka_run_group_tests(tests, compile, discard);
}
